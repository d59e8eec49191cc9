//! All findings of a run, in the order in which a person should read them, and the findings that
//! this record cannot judge. The rules are in the files of the families; a rule never judges from a
//! figure that is unknown.

use super::judgement::{Judgement, NoFinding, NotJudged, unknown};
use super::steady::judge as steady;
use super::trust::{ROWS_MISSING, TOO_FEW_OPERATIONS};
use super::{
    calibration, changes, driver_hosts, fresh, interference, io_limits, limits, memory, others,
    outages, physical, server_report, settings, trust, waterfall, write_ledger, writes,
};
use petal_record::{Finding, Run};

/// The id of a finding, the part of a run that its rule sees, and the rule.
type Rule = (&'static str, PartOfRun, fn(&Run) -> Judgement);

/// The part of a run that a rule sees.
#[derive(Clone, Copy)]
enum PartOfRun {
    Whole,
    /// Rules that compare layers: all layers over the time that the database counted.
    Counted,
    /// Rules for runs that updated rows: all layers over the counted time.
    Updates,
    /// Rules about the run's limit: the time of the headline, which names it.
    Shown,
    /// Rules about the limit that judge one driver host's share of a run, too.
    ShownOfShare,
}

use PartOfRun::{Counted, Shown, ShownOfShare, Updates, Whole};

const NEEDS_RUNS: &str = "needs several runs: petal sweep, or petal compare";

/// All rules, in the order of findings of one severity.
const RULES: &[Rule] = &[
    ("incomplete-hosts", Whole, driver_hosts::incomplete),
    ("partial-record", Whole, trust::partial_record),
    ("gaps", Whole, trust::gaps),
    ("counters-reset", Whole, trust::counters_reset),
    ("data-vanished", Whole, trust::data_vanished),
    ("server-changed", Whole, changes::server),
    ("settings-changed", Whole, changes::settings),
    ("limits-changed", Whole, changes::limits),
    ("memory-pressure", Whole, memory::pressure),
    ("bad-blocks", Whole, trust::bad_blocks),
    ("io-errors", Whole, trust::io_errors),
    (ROWS_MISSING, Whole, trust::rows_missing),
    ("latencies-unknown", Whole, trust::latencies_unknown),
    ("lost-sessions", Whole, trust::lost_sessions),
    ("nothing-done", Whole, trust::nothing_done),
    (TOO_FEW_OPERATIONS, Whole, trust::too_few),
    ("lost-commits", Whole, outages::lost_commits),
    ("outage", Whole, outages::judge),
    ("neighbour-failed", Whole, interference::failed),
    ("rate-not-kept", Whole, interference::rate_kept),
    ("neighbour-idle", Whole, interference::idle),
    ("neighbour-leftovers", Whole, interference::leftovers),
    ("petal-suspended", Whole, trust::suspended),
    ("short-run", Whole, trust::short_run),
    ("unstable", Whole, steady::unstable),
    ("until-steady", Whole, steady::until_steady),
    ("stalls", Whole, steady::stalled),
    ("single-run", Whole, trust::single_run),
    ("uneven-endpoints", Whole, trust::uneven_endpoints),
    ("standby-replay", Whole, trust::replay),
    ("uneven-hosts", Whole, driver_hosts::uneven),
    ("uneven-start", Whole, driver_hosts::start),
    ("one-share", Whole, driver_hosts::one_share),
    ("backlog", Whole, trust::backlog),
    ("late-start", Whole, trust::late_start),
    ("time-missing", Whole, trust::time_missing),
    ("waterfall-gap", Whole, waterfall::gap),
    ("repeats-vary", Whole, |_| unknown("needs --repeats 3")),
    ("active-set-varies", Whole, |_| unknown(NEEDS_RUNS)),
    ("mixed-run-lengths", Whole, |_| unknown(NEEDS_RUNS)),
    ("cached-by-os", Counted, physical::reached_the_device),
    ("cached-by-storage", Counted, physical::storage_cache),
    ("cached-by-database", Counted, physical::database_cache),
    ("cache-misses", Counted, physical::cached_misses),
    ("not-direct", Counted, physical::not_direct),
    ("not-single-block", Counted, physical::single_block),
    ("extra-reads", Counted, physical::extra_reads),
    ("fewer-reads-than-rows", Counted, physical::unread_rows),
    ("wrong-plan", Counted, physical::wrong_plan),
    ("untimed-io", Counted, physical::untimed),
    ("logical-scan", Counted, physical::logical_scan),
    ("fresh-device", Counted, fresh::judge),
    ("processor-bound", ShownOfShare, limits::processor_bound),
    ("steal", Whole, limits::steal),
    ("generator-bound", ShownOfShare, limits::generator_bound),
    ("io-limit", Counted, io_limits::judge),
    ("under-device", Whole, calibration::under_device),
    ("other-load", Counted, others::other_runs),
    ("other-load", Counted, others::in_the_database),
    ("other-load", Counted, others::device),
    ("other-load", Counted, others::disk_below),
    ("other-load", Shown, others::processors),
    ("other-load", Shown, others::before),
    ("not-durable", Updates, writes::not_durable),
    ("not-durable", Updates, writes::more_commits_than_syncs),
    ("deferred-writes", Updates, writes::deferred_writes),
    ("block-images", Updates, writes::block_images),
    ("untimed-log", Updates, writes::log_untimed),
    ("moved-rows", Updates, writes::moved_rows),
    ("small-log", Updates, writes::small_log_waits),
    ("small-log", Updates, writes::small_log_cadence),
    ("free-block-waits", Updates, writes::free_block_waits),
    ("purge-lags", Updates, writes::purge_lags),
    ("wal-not-reset", Updates, writes::log_not_reset),
    ("vacuum-ran", Updates, writes::vacuum),
    ("fresh-device", Updates, write_ledger::preconditioned),
    ("unexplained-writes", Updates, write_ledger::judge),
    ("reads-wrote", Counted, writes::reads_wrote),
    ("notable-settings", Whole, settings::judge),
    ("server-report-differs", Counted, server_report::judge),
];

/// Returns all findings of a run; errors first, then warnings, then facts.
pub fn judge(run: &Run) -> Vec<Finding> {
    let named = |id: &str, finding: Finding| match finding.id.as_str() {
        "" => Finding { id: id.to_owned(), ..finding },
        _ => finding,
    };
    let found =
        judgements(run).into_iter().filter_map(|(id, judged)| Some(named(id, judged.ok()?)));
    let mut findings = found.fold(Vec::new(), merged);
    // Stable: within a severity the families keep their order.
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    findings
}

/// Adds a finding, or its facts to the finding of the same id and severity.
fn merged(mut findings: Vec<Finding>, finding: Finding) -> Vec<Finding> {
    let is_same = |one: &&mut Finding| (&one.id, one.severity) == (&finding.id, finding.severity);
    let Some(one) = findings.iter_mut().find(is_same) else {
        findings.push(finding);
        return findings;
    };
    one.message = format!("{}; {}", one.message, finding.message);
    if !one.advice.contains(&finding.advice) {
        one.advice = format!("{} {}", one.advice, finding.advice);
    }
    // Rules of one id name their figures apart, or have the same ones.
    one.evidence.extend(finding.evidence);
    findings
}

/// The rules that this record cannot answer.
pub fn not_judged(run: &Run) -> Vec<NotJudged> {
    let unknown = judgements(run).into_iter().filter_map(|(id, judged)| match judged {
        Err(NoFinding::Unknown(reason)) => Some(NotJudged { id, reason }),
        _ => None,
    });
    unknown.collect()
}

/// The run over the time of the headline, on the heap: rules take the stack.
fn shown(run: &Run) -> Box<Run> {
    Box::new(run.headline_window().run.into_owned())
}

fn judgements(run: &Run) -> Vec<(&'static str, Judgement)> {
    let counted = run.counted();
    let shown = shown(run);
    // One host's requests do not compare with the database's work for all hosts.
    let is_part = run.summary.share.as_ref().is_some_and(|share| share.share.of > 1);
    let judged = RULES.iter().filter_map(|(id, seen, rule)| match seen {
        Whole => Some((*id, rule(run))),
        ShownOfShare => Some((*id, rule(&shown))),
        _ if is_part => None,
        Shown => Some((*id, rule(&shown))),
        Counted => Some((*id, rule(&counted))),
        Updates => (counted.summary.ops.update > 0).then(|| (*id, rule(&counted))),
    });
    judged.collect()
}

#[cfg(test)]
mod tests;
