//! Findings about what limits a database: its waits, commits, log writes and processors.

use super::{ReportRule, finding};
use crate::columns::value;
use crate::derived;
use crate::events::seconds_of;
use crate::figure::number;
use crate::report::{Report, ReportFinding, ReportSeverity, WaitEvent, event};

/// Rules for each report: these waits spoil a test, too.
pub const OF_ALL: [ReportRule; 3] = [log_writes, resource_manager, cluster];
/// Rules for reports of databases that people use.
pub const OF_PRODUCTION: [ReportRule; 3] = [top_wait, commits_wait, sessions];

/// Minimum shares of DB time, in percent.
const TOP_WAIT_PCT: f64 = 30.0;
const COMMITS_PCT: f64 = 10.0;
const CLUSTER_PCT: f64 = 10.0;
const RESOURCE_MANAGER_PCT: f64 = 1.0;
/// Mean log write above which the storage of the logs is slow, also for rotating disks.
const LOG_WRITE_MAX_US: f64 = 10_000.0;
const LOG_WRITES_MIN: f64 = 100.0;
/// Share of a commit's wait from which its log write is the cause.
const LOG_WRITE_SHARE: f64 = 0.5;
/// Share of the processors from which they limit the sessions.
const PROCESSORS_SHARE: f64 = 0.75;
/// Top events of the report that are looked at.
const TOP: usize = 5;

const LOG_SYNC: &str = "log file sync";
/// Events that have a rule of their own, and those of background processes, by their beginnings.
const NOT_TOP: [&str; 8] = [
    "CPU time",
    "DB CPU",
    LOG_SYNC,
    "log file parallel write",
    "db file parallel write",
    "control file parallel write",
    "gc ",
    "resmgr:",
];

/// Advice for a wait by the beginning of its name; the first that fits.
const ADVICE: [(&[&str], &str); 4] = [
    (
        &["enq: TX - index", "latch", "library cache", "cursor:", "row cache", "buffer busy"],
        "Sessions contend for memory of the instance, so faster storage does not help. Find the \
         statements and blocks.",
    ),
    (
        &["enq", "cursor: pin"],
        "Sessions wait for locks of each other, so faster storage does not help. Find the sessions \
         that hold the locks.",
    ),
    (
        &["db file", "cell ", "direct path", "read by other session"],
        "Compare the mean with the storage's latency. A larger cache, or statements with fewer reads, \
         help as well.",
    ),
    (
        &["log buffer space", "log file switch", "free buffer", "write complete", "checkpoint"],
        "Writes do not keep up: look at the size and the storage of the logs, and at the writers of \
         the cache.",
    ),
];
const OTHER_ADVICE: &str = "Find the sessions and statements that wait for it.";

/// Returns a warning if sessions are active; waits of an idle database are only information.
fn severity(report: &Report) -> ReportSeverity {
    let is_idle = value(report, "aas").is_some_and(|sessions| sessions < 1.0);
    if is_idle { ReportSeverity::Info } else { ReportSeverity::Warning }
}

fn db_time_s(report: &Report) -> Option<f64> {
    let of_header = number(&report.header.db_time_min).map(|minutes| minutes * 60.0);
    of_header.or(number(&report.time_model.db_time_s)).filter(|seconds| *seconds > 0.0)
}

/// Returns a percentage of DB time: as printed, else of the seconds.
fn share_pct(report: &Report, event: &WaitEvent) -> Option<f64> {
    let computed = || Some(number(&event.time_s)? / db_time_s(report)? * 100.0);
    number(&event.pct_db_time).or_else(computed)
}

fn mean_ms(us: f64) -> String {
    format!("{:.2} ms", us / 1000.0)
}

fn top_wait(report: &Report) -> Option<ReportFinding> {
    let foreground = &report.foreground_events;
    let is_other = |name: &str| {
        let is_foreground = foreground.is_empty() || event(foreground, name).is_some();
        !is_foreground || NOT_TOP.iter().any(|own| name.starts_with(own))
    };
    let events = (0..TOP).filter_map(|place| derived::top(report, place));
    let shares = events.filter(|event| !is_other(&event.name));
    let shares = shares.filter_map(|event| Some((event, share_pct(report, event)?)));
    let (event, share) = shares.max_by(|(_, one), (_, other)| one.total_cmp(other))?;
    let fits = |(names, _): &&(&[&str], &str)| names.iter().any(|it| event.name.starts_with(it));
    let advice = ADVICE.iter().find(fits).map_or(OTHER_ADVICE, |(_, advice)| advice);
    let mean = number(&event.latency_us).map(|us| format!(", {} on average", mean_ms(us)));
    let found = finding(
        "top-wait",
        severity(report),
        format!("{} has {share:.1} % of DB time{}", event.name, mean.unwrap_or_default()),
        advice,
        [("event", event.name.as_str().into()), ("share_pct", share.into())],
    );
    (share >= TOP_WAIT_PCT).then_some(found)
}

/// Compares the wait of commits with the log writes that they wait for.
fn commits_wait(report: &Report) -> Option<ReportFinding> {
    let lists = [&report.top_events, &report.foreground_events];
    let shares = lists.iter().filter_map(|list| share_pct(report, event(list, LOG_SYNC)?));
    let share = shares.reduce(f64::max)?;
    let (sync, write) = (value(report, "log_sync_us")?, value(report, "log_write_us"));
    let write_shown = write.map_or_else(
        || "log file parallel write is unknown".to_owned(),
        |us| format!("a log write takes {}", mean_ms(us)),
    );
    let advice = match write {
        Some(write) if write >= sync * LOG_WRITE_SHARE => {
            "Log writes are most of the wait: use faster storage for the redo logs, or commit less \
             often."
        }
        Some(_) => {
            "Log writes are the smaller part of the wait: look for busy processors, many commits at \
             a time, and a standby that confirms redo."
        }
        None => "Compare log file sync with the log writer's own writes.",
    };
    let mut found = finding(
        "commits-wait",
        severity(report),
        format!(
            "log file sync has {share:.1} % of DB time: a commit waits {}, {write_shown}",
            mean_ms(sync)
        ),
        advice,
        [("share_pct", share.into()), ("log_sync_us", sync.into())],
    );
    found.evidence.extend(write.map(|us| ("log_write_us".to_owned(), us.into())));
    (share >= COMMITS_PCT).then_some(found)
}

fn log_writes(report: &Report) -> Option<ReportFinding> {
    let mean = value(report, "log_write_us")?;
    let waits = value(report, "log_write_waits")?;
    let found = finding(
        "slow-log-writes",
        severity(report),
        format!("log file parallel write took {} on average", mean_ms(mean)),
        "Use faster storage for the redo logs, or move other files away from it.",
        [("log_write_us", mean.into()), ("log_write_waits", waits.into())],
    );
    (waits >= LOG_WRITES_MIN && mean > LOG_WRITE_MAX_US).then_some(found)
}

/// Compares active sessions with processors.
fn sessions(report: &Report) -> Option<ReportFinding> {
    let (active, processors) = (value(report, "aas")?, value(report, "cpus")?);
    let on_processor = value(report, "db_cpu_per_s")?;
    let advice = if on_processor >= processors * PROCESSORS_SHARE {
        "The processors limit this database: use more of them, or fewer sessions."
    } else {
        "Most sessions wait: see the top events."
    };
    let found = finding(
        "sessions-over-processors",
        ReportSeverity::Warning,
        format!(
            "{active:.1} sessions were active on average, {on_processor:.1} of them on a processor; \
             processors: {processors}"
        ),
        advice,
        [("aas", active.into()), ("cpus", processors.into()), ("db_cpu", on_processor.into())],
    );
    (active > processors).then_some(found)
}

/// Returns a finding if events whose names begin so have this share of DB time.
fn of_events(
    report: &Report,
    id: &str,
    beginning: &str,
    min_pct: f64,
    [what, advice]: [&str; 2],
) -> Option<ReportFinding> {
    let lists = [&report.foreground_events, &report.top_events];
    let waited = lists.iter().find_map(|events| seconds_of(events, beginning))?;
    let share = waited / db_time_s(report)? * 100.0;
    let found = finding(
        id,
        severity(report),
        format!("sessions waited {share:.1} % of DB time for {what}"),
        advice,
        [("waited_s", waited.into()), ("share_pct", share.into())],
    );
    (share >= min_pct).then_some(found)
}

fn resource_manager(report: &Report) -> Option<ReportFinding> {
    let texts = [
        "the resource manager",
        "A plan of the resource manager limits the sessions, not the hardware: see its plan, and \
         the limits of the pluggable database.",
    ];
    of_events(report, "resource-manager", "resmgr:", RESOURCE_MANAGER_PCT, texts)
}

fn cluster(report: &Report) -> Option<ReportFinding> {
    let texts = [
        "blocks of other instances",
        "Run sessions that use the same blocks on one instance, and look at the interconnect's \
         latency and lost blocks.",
    ];
    of_events(report, "cluster-waits", "gc ", CLUSTER_PCT, texts)
}

#[cfg(test)]
mod tests;
