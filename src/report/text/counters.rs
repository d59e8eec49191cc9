//! The database's own counters over the run, by its own names; on the bare device petal's.

use super::super::numbers::{or_dash, rate, whole};
use super::super::sources;
use super::super::table::Table;
use super::section;
use crate::record::Run;

pub(super) fn render(out: &mut String, run: &Run) {
    if run.summary.counters.is_empty() {
        return;
    }
    section(out, sources::of(run).counters, run.told_by());
    out.push_str(&counters(run).render());
    let zero: Vec<&str> =
        run.summary.counters.iter().filter(|&(_, &n)| n == 0).map(|(n, _)| n.as_str()).collect();
    if !zero.is_empty() {
        let names = format!("counted and zero: {}", zero.join(", "));
        out.push_str(&super::paragraph("", "  ", &names));
    }
}

/// Those that counted anything.
pub(in crate::report) fn counters(run: &Run) -> Table {
    let seconds = run.summary.elapsed_s;
    let mut table = Table::of_figures(&["counter", "total", "per second"]);
    for (name, &total) in run.summary.counters.iter().filter(|&(_, &total)| total > 0) {
        // A peak has no rate.
        let is_peak = name.ends_with("_max");
        let per_second = (seconds > 0.0 && !is_peak).then(|| total as f64 / seconds);
        table.row([name.clone(), whole(total), or_dash(per_second, rate)]);
    }
    table
}
