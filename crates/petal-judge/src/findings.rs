//! All findings of a run, in the order in which a person should read them, and what this record
//! cannot judge. The rules are in the files of the families; a rule never judges from a figure
//! that is unknown.

use super::judgement::{Judgement, NotJudged, unknown};
use super::steady::judge as steady;
use super::{
    calibration, driver_hosts, fresh, io_limits, limits, others, physical, server_report, settings,
    trust, writes,
};
use petal_model::record::{Finding, Run};

type Rule = fn(&Run) -> Judgement;

/// The part of a run that a rule sees.
#[derive(Clone, Copy)]
enum PartOfRun {
    Whole,
    /// All layers over the time that the database counted, for rules that compare layers.
    Counted,
    /// All layers over the counted time, only of a run that updated rows.
    Updates,
}

use PartOfRun::{Counted, Updates, Whole};

const NEEDS_RUNS: &str = "needs several runs: petal sweep, or petal compare";

/// Every rule, in the order in which findings of one severity stand.
const RULES: &[(PartOfRun, Rule)] = &[
    (Whole, driver_hosts::incomplete),
    (Whole, trust::partial_record),
    (Whole, trust::gaps),
    (Whole, trust::counters_reset),
    (Whole, trust::data_vanished),
    (Whole, trust::bad_blocks),
    (Whole, trust::io_errors),
    (Whole, trust::rows_missing),
    (Whole, trust::latencies_unknown),
    (Whole, trust::lost_sessions),
    (Whole, trust::suspended),
    (Whole, trust::short_run),
    (Whole, steady::unstable),
    (Whole, steady::until_steady),
    (Whole, steady::stalled),
    (Whole, trust::single_run),
    (Whole, trust::uneven_endpoints),
    (Whole, trust::replay),
    (Whole, driver_hosts::uneven),
    (Whole, driver_hosts::start),
    (Whole, driver_hosts::one_share),
    (Whole, trust::backlog),
    (Whole, |_| unknown("repeats-vary", "needs --repeats 3")),
    (Whole, |_| unknown("active-set-varies", NEEDS_RUNS)),
    (Whole, |_| unknown("mixed-run-lengths", NEEDS_RUNS)),
    (Counted, physical::reached_the_device),
    (Counted, physical::storage_cache),
    (Counted, physical::database_cache),
    (Counted, physical::cached_misses),
    (Counted, physical::not_direct),
    (Counted, physical::single_block),
    (Counted, physical::extra_reads),
    (Counted, physical::unread_rows),
    (Counted, physical::wrong_plan),
    (Counted, physical::untimed),
    (Counted, physical::logical_scan),
    (Counted, fresh::judge),
    (Whole, limits::processor_bound),
    (Whole, limits::steal),
    (Whole, limits::generator_bound),
    (Counted, io_limits::judge),
    (Whole, calibration::under_device),
    (Counted, others::other_runs),
    (Counted, others::in_the_database),
    (Counted, others::device),
    (Counted, others::disk_below),
    (Counted, others::processors),
    (Counted, others::before),
    (Updates, writes::not_durable),
    (Updates, writes::more_commits_than_syncs),
    (Updates, writes::deferred_writes),
    (Updates, writes::block_images),
    (Updates, writes::log_untimed),
    (Updates, writes::moved_rows),
    (Updates, writes::small_log_waits),
    (Updates, writes::small_log_cadence),
    (Updates, writes::free_block_waits),
    (Updates, writes::purge_lags),
    (Updates, writes::log_not_reset),
    (Updates, writes::vacuum),
    (Counted, writes::reads_wrote),
    (Whole, settings::judge),
    (Counted, server_report::judge),
];

/// Every finding of a run; errors first, then warnings, then facts.
pub fn judge(run: &Run) -> Vec<Finding> {
    let found = judgements(run).into_iter().filter_map(|judgement| match judgement {
        Judgement::Found(finding) => Some(finding),
        _ => None,
    });
    let mut findings: Vec<Finding> = found.collect();
    // Stable: within a severity the families keep their order.
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    findings
}

/// The rules that this record cannot answer.
pub fn not_judged(run: &Run) -> Vec<NotJudged> {
    let unknown = judgements(run).into_iter().filter_map(|judgement| match judgement {
        Judgement::Unknown(not_judged) => Some(not_judged),
        _ => None,
    });
    unknown.collect()
}

fn judgements(run: &Run) -> Vec<Judgement> {
    let counted = run.counted();
    // What one host asked and what the database did for all of them are two things.
    let is_part = run.summary.share.as_ref().is_some_and(|share| share.share.of > 1);
    let judged = RULES.iter().filter_map(|(seen, rule)| match seen {
        Whole => Some(rule(run)),
        _ if is_part => None,
        Counted => Some(rule(&counted)),
        Updates => (counted.summary.ops.update > 0).then(|| rule(&counted)),
    });
    judged.collect()
}

#[cfg(test)]
mod tests;
