//! The hosts of a run with several drivers: the work of each and its cost.

use super::super::numbers::{decimal, or_dash, percent, rate, whole};
use super::super::table::Table;
use petal_record::Run;
use petal_record::driver_hosts::{CommonStart, HostRun, StartedBy};

/// Builds a row for each host; empty if one host drove the run.
pub(crate) fn table(run: &Run) -> Table {
    let heading = "host | sessions | lost | operations | per second | errors | began ms | \
                   petal CPU s | % of host | received MB/s | sent MB/s | status";
    let rows = run.summary.hosts.iter().map(|host| {
        let is_there = host.status.is_some();
        let shown = |value: String| if is_there { value } else { "-".to_owned() };
        let host_s = host.processors.map(|processors| processors * host.elapsed_s);
        let share = host.petal_cpu_s.zip(host_s).filter(|(_, host_s)| *host_s > 0.0);
        let megabytes = |bytes: Option<u64>| {
            let known = bytes.filter(|_| host.elapsed_s > 0.0);
            or_dash(known, |bytes| decimal(bytes as f64 / 1e6 / host.elapsed_s, 1))
        };
        [
            host.name(),
            shown(host.sessions.to_string()),
            shown(host.sessions_lost.to_string()),
            shown(whole(host.ops.total)),
            or_dash(host.ops_per_second, rate),
            shown(whole(host.errors.values().sum::<u64>())),
            or_dash(host.triggered_after_s, |s| decimal(s * 1e3, 1)),
            or_dash(host.petal_cpu_s, |s| decimal(s, 2)),
            or_dash(share, |(petal_s, host_s)| percent((petal_s / host_s).min(1.0))),
            megabytes(host.received_bytes),
            megabytes(host.sent_bytes),
            status(host),
        ]
    });
    Table::of_figures(heading).with_rows(rows).with_note(clocks(run))
}

fn status(host: &HostRun) -> String {
    match (host.status, host.rebuilt) {
        (None, _) => "no record".to_owned(),
        (Some(_), true) => format!("killed after {} s", decimal(host.elapsed_s, 0)),
        (Some(status), false) => status.name().to_owned(),
    }
}

/// Names the clocks of the hosts' starts, in one sentence.
fn clocks(run: &Run) -> String {
    let starts: Vec<&CommonStart> = run
        .summary
        .hosts
        .iter()
        .filter(|host| host.status.is_some())
        .map(|host| &host.share.start)
        .collect();
    let ahead = starts.iter().filter_map(|start| start.clock_ahead_s).map(f64::abs);
    let ahead_ms = decimal(ahead.fold(0.0, f64::max) * 1e3, 1);
    match starts.first().map(|start| start.by) {
        Some(StartedBy::DatabaseClock) => format!(
            "began by the database's clock; the hosts' clocks were up to {ahead_ms} ms away from \
             it"
        ),
        Some(StartedBy::OwnClock) => "began by each host's own clock".to_owned(),
        Some(StartedBy::Barrier) => format!(
            "began by a barrier, at which the hosts' clocks were up to {ahead_ms} ms from the first one's"
        ),
        None => String::new(),
    }
}
