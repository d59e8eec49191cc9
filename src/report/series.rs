//! Several runs in one table, a row each: the first look at a series over sessions and UPDATE_PCT.

use super::numbers::{micros, or_dash, rate};
use super::table::Table;
use crate::record::{Run, Summary};

/// One row per run, in the order given. Rates are over the whole run; `-` is unknown.
pub fn table(runs: &[&Run]) -> String {
    let mut table = Table::of_figures(&[
        "sessions",
        "upd %",
        "ops/s",
        "PIOPS r",
        "PIOPS w",
        "read us",
        "sel p50",
        "sel p99",
        "upd p50",
        "upd p99",
        "redo MB/s",
        "idle %",
        "status",
    ]);
    for run in runs {
        table.row(row(&run.summary));
    }
    table.render()
}

fn row(summary: &Summary) -> [String; 13] {
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
        summary.status.name().to_owned(),
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
        let shown = table(&[&mixed, &reads]);
        assert!(shown.lines().all(|line| line.chars().count() <= super::super::table::WIDTH + 20));
        insta::assert_snapshot!(shown, @"");
    }
}
