//! Several runs in one table, a row each: the first look at a series over sessions and UPDATE_PCT.

use super::numbers::{micros, or_dash, rate};
use super::table::Table;
use crate::record::{Run, Status, Summary};

/// One row per run, in the order given: rates over the whole run (redo in MB a second), latencies
/// in us; `-` is unknown. Runs that are not complete are named below.
pub fn table(runs: &[&Run]) -> String {
    let mut table = Table::of_figures(&[
        "sess", "upd %", "ops/s", "PIOPS r", "PIOPS w", "read us", "sel p50", "sel p99", "upd p50",
        "upd p99", "redo MB", "idle %",
    ]);
    for run in runs {
        table.row(row(&run.summary));
    }
    let mut shown = table.render();
    for (position, run) in runs.iter().enumerate() {
        if run.summary.status != Status::Complete {
            shown.push_str(&format!("row {}: {}\n", position + 1, run.summary.status.name()));
        }
    }
    shown
}

fn row(summary: &Summary) -> [String; 12] {
    let per_second = &summary.per_second;
    let percentile =
        |kind: &str, which: fn(&crate::stats::histogram::LatencySummary) -> Option<f64>| {
            or_dash(summary.latency_us.get(kind).and_then(which), micros)
        };
    let read_us = summary.io_latency_us.get("read").and_then(|read| read.mean);
    [
        summary.sessions.to_string(),
        or_dash(summary.setting_number("update_pct"), |percent| format!("{percent:.0}")),
        or_dash(per_second.ops, rate),
        or_dash(per_second.physical_read_requests, rate),
        or_dash(per_second.physical_write_requests, rate),
        or_dash(read_us, micros),
        percentile("select", |latency| latency.p50),
        percentile("select", |latency| latency.p99),
        percentile("update", |latency| latency.p50),
        percentile("update", |latency| latency.p99),
        or_dash(per_second.redo_bytes, |bytes| rate(bytes / 1e6)),
        or_dash(summary.cpu, |cpu| format!("{:.1}", cpu.idle)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::fixture;

    #[test]
    fn a_row_a_run_within_a_page() {
        let mixed = fixture::mixed_run();
        let mut reads = fixture::mixed_run();
        reads.summary.sessions = 16;
        reads.summary.settings.insert("update_pct".into(), 0.into());
        reads.summary.latency_us.remove("update");
        reads.summary.per_second.redo_bytes = None;
        reads.summary.cpu = None;
        reads.summary.status = Status::Interrupted;
        let shown = table(&[&mixed, &reads]);
        assert!(shown.lines().all(|line| line.chars().count() <= super::super::table::WIDTH));
        insta::assert_snapshot!(shown, @r"
        sess  upd %  ops/s  PIOPS r  PIOPS w  read us  sel p50  sel p99  upd p50  upd p99  redo MB  idle %
        ----  -----  -----  -------  -------  -------  -------  -------  -------  -------  -------  ------
        8        20    914   59,432   10,000     84.3    7,377   10,002   12,698   16,351     96.2    25.0
        16        0    914   59,432   10,000     84.3    7,377   10,002        -        -        -       -
        row 2: interrupted
        ");
    }
}
