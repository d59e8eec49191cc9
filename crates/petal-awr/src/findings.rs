//! Findings about the run in a report, by the rules of the method. A rule is skipped if the report
//! lacks the figures for it.

use serde_json::Value;

use super::columns;
use super::events::seconds_of;
use super::figure::number;
use super::host::parameter;
use super::report::{Report, ReportFinding, ReportSeverity, event};
use super::times;

mod limits;

/// Minimum number of commits from which their durability is judged.
const COMMITS_MIN: f64 = 100.0;
/// Ratio of syncs to commits below which some commits did not wait.
const SYNCS_PER_COMMIT_MIN: f64 = 0.95;
const BUSY_PCT_MAX: f64 = 96.0;
const PREFETCH_SHARE_MAX: f64 = 0.05;
const LOG_SWITCH_SHARE_MAX: f64 = 0.01;
/// Minimum duration in minutes: steadiness needs at least five windows of one minute.
const JUDGED_MIN: f64 = 5.0;
const SHORT_MIN: f64 = 1.0;
/// Share of the duration that suffices, because a sample may begin or end a little early.
const SLACK: f64 = 0.97;
/// Minimum rate of executions of a SLOB test.
const EXECUTES_MIN: f64 = 10.0;
/// Maximum calls, and parses, for each execution of a SLOB test.
const PER_EXECUTE_MAX: f64 = 0.1;

/// Findings that recommend a run by the method and do not apply to a production database.
const FOR_TESTS: [&str; 3] = ["not-durable", "not-single-block", "short-run"];

pub fn is_for_tests(id: &str) -> bool {
    FOR_TESTS.contains(&id)
}

type ReportRule = fn(&Report) -> Option<ReportFinding>;

pub fn judge(report: &Report, warnings: &[String]) -> Vec<ReportFinding> {
    const OF_TESTS: [ReportRule; 3] = [commits, prefetch, short_run];
    if let Some(restart) = restart(report, warnings) {
        return vec![restart];
    }
    let own = if is_like_slob(report) { OF_TESTS } else { limits::OF_PRODUCTION };
    let all = [processor, log_switches].into_iter().chain(limits::OF_ALL);
    own.into_iter().chain(all).filter_map(|rule| rule(report)).collect()
}

/// True if the load is like that of a SLOB test, as far as the report says: loops in the database
/// run the same few statements, so that calls and parses are few, and sessions are always active.
fn is_like_slob(report: &Report) -> bool {
    let executes = columns::value(report, "executes_per_s").unwrap_or(0.0);
    let parses = number(&report.load_profile.parses.per_second);
    let is_few = |rate: Option<f64>| rate.is_none_or(|rate| rate <= executes * PER_EXECUTE_MAX);
    let is_active = columns::value(report, "aas").is_none_or(|sessions| sessions >= 1.0);
    let calls = columns::value(report, "user_calls_per_s");
    executes >= EXECUTES_MIN && is_few(calls) && is_few(parses) && is_active
}

fn finding<const N: usize>(
    id: &str,
    severity: ReportSeverity,
    message: String,
    advice: &str,
    evidence: [(&str, Value); N],
) -> ReportFinding {
    let evidence = evidence.map(|(name, value)| (name.to_owned(), value)).into();
    ReportFinding { id: id.to_owned(), severity, message, advice: advice.to_owned(), evidence }
}

/// True if the instance was started between the snapshots, by its start time or by the report's
/// warning.
pub fn spans_restart(report: &Report, warnings: &[String]) -> bool {
    let time = |figure: &Option<super::figure::Figure>| {
        figure.as_ref().and_then(|figure| times::parse(&figure.shown()))
    };
    let header = &report.header;
    let started = time(&header.startup_time).zip(time(&header.begin_time));
    !warnings.is_empty() || started.is_some_and(|(startup, begin)| startup > begin)
}

fn restart(report: &Report, warnings: &[String]) -> Option<ReportFinding> {
    let quoted = warnings.first().map(|line| format!(" (\"{line}\")")).unwrap_or_default();
    let found = finding(
        "spans-restart",
        ReportSeverity::Error,
        format!(
            "the instance was restarted between the snapshots{quoted}: counts and rates mean nothing"
        ),
        "Make the report between two snapshots of the same start.",
        [],
    );
    report.spans_restart.then_some(found)
}

/// Finds commits that did not wait: in a PL/SQL loop only COMMIT WRITE WAIT makes them wait.
fn commits(report: &Report) -> Option<ReportFinding> {
    let total = |name| number(&report.statistics.get(name)?.total);
    let commits = total("user commits").filter(|&commits| commits >= COMMITS_MIN)?;
    let syncs = total("redo synch writes")?;
    let unwaited_pct = (1.0 - syncs / commits) * 100.0;
    let mut found = finding(
        "not-durable",
        ReportSeverity::Warning,
        format!(
            "{syncs} redo synch writes for {commits} user commits: {unwaited_pct:.1} % of the commits \
             did not wait for their redo"
        ),
        "PL/SQL optimises commits in a loop: commit with COMMIT WRITE WAIT, or from the client, if \
         commits are to be durable one by one.",
        [
            ("user_commits", commits.into()),
            ("redo_synch_writes", syncs.into()),
            ("unwaited_pct", unwaited_pct.into()),
        ],
    );
    for name in ["commit_write", "commit_wait", "commit_logging"] {
        if let Some(value) = parameter(&report.parameters, name) {
            found.evidence.insert(name.to_owned(), value.shown().into());
        }
    }
    (syncs < commits * SYNCS_PER_COMMIT_MIN).then_some(found)
}

fn processor(report: &Report) -> Option<ReportFinding> {
    let idle = report.cpu.idle_pct.as_ref()?;
    let busy = 100.0 - idle.number()?;
    let found = finding(
        "processor-bound",
        ReportSeverity::Warning,
        format!(
            "the processors were {busy:.1} % busy: storage may be faster than this report shows"
        ),
        "Use fewer sessions, or more processors; compare PIOPS at fewer sessions.",
        [("busy_pct", busy.into()), ("section", (*idle.section).into())],
    );
    (busy > BUSY_PCT_MAX).then_some(found)
}

/// Finds multi-block reads in a run that should do single-block reads.
fn prefetch(report: &Report) -> Option<ReportFinding> {
    let total = |name| number(&report.statistics.get(name)?.total);
    let prefetched =
        total("physical reads cache prefetch").or_else(|| total("prefetched blocks"))?;
    let reads = total("physical reads cache").or_else(|| total("physical reads"))?;
    let share = prefetched / reads;
    let waits = |name| event(&report.foreground_events, name).and_then(|it| number(&it.waits));
    let mut found = finding(
        "not-single-block",
        ReportSeverity::Warning,
        format!(
            "{:.1} % of the blocks read into the cache were prefetched, not read one by one",
            share * 100.0
        ),
        "For single-block reads set _db_block_prefetch_limit and _db_block_prefetch_quota to 0, and \
         load the data so that neighbouring keys lie in different blocks.",
        [("prefetched_blocks", prefetched.into()), ("blocks_read", reads.into())],
    );
    for name in ["db file parallel read", "db file scattered read", "db file sequential read"] {
        if let Some(waits) = waits(name) {
            found.evidence.insert(format!("waits: {name}"), waits.into());
        }
    }
    (reads > 0.0 && share > PREFETCH_SHARE_MAX).then_some(found)
}

fn log_switches(report: &Report) -> Option<ReportFinding> {
    let lists = [&report.foreground_events, &report.top_events];
    let waited = lists.iter().find_map(|events| seconds_of(events, "log file switch"))?;
    let db_time = number(&report.header.db_time_min)? * 60.0;
    let share = waited / db_time;
    let found = finding(
        "small-log",
        ReportSeverity::Warning,
        format!("{:.1} % of database time was spent waiting for log file switches", share * 100.0),
        "Use larger or more redo logs, or a faster archive destination.",
        [("log_file_switch_s", waited.into()), ("db_time_s", db_time.into())],
    );
    (db_time > 0.0 && share > LOG_SWITCH_SHARE_MAX).then_some(found)
}

fn short_run(report: &Report) -> Option<ReportFinding> {
    let minutes = columns::value(report, "elapsed_min")?;
    let severity =
        if minutes < SHORT_MIN * SLACK { ReportSeverity::Warning } else { ReportSeverity::Info };
    let found = finding(
        "short-run",
        severity,
        format!(
            "the report spans {minutes} minutes: too short to judge whether the figures are steady"
        ),
        "Let runs last five minutes or more, and take the snapshots at their ends.",
        [("elapsed_min", minutes.into())],
    );
    (minutes < JUDGED_MIN * SLACK).then_some(found)
}
