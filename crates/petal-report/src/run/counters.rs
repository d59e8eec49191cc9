//! The database's own counters over the run, by its own names; on the bare device petal's.

use super::super::numbers::{or_dash, rate, whole};
use super::super::table::Table;
use petal_record::Run;

/// Lists counters that are not 0.
pub(crate) fn counters(run: &Run) -> Table {
    let seconds = run.summary.elapsed_s;
    let counted = run.summary.counters.iter().filter(|&(_, &total)| total > 0);
    Table::of_figures("counter | total | per second").with_rows(counted.map(|(name, &total)| {
        // A peak has no rate.
        let is_peak = name.ends_with("_max");
        let per_second = (seconds > 0.0 && !is_peak).then(|| total as f64 / seconds);
        [name.clone(), whole(total), or_dash(per_second, rate)]
    }))
}
