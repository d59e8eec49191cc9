//! The delivered part of the load that a run replays, for comparison with the requested load.

use std::collections::BTreeMap;

use petal_record::server_work::WorkCount;
use petal_record::{Run, as_text};
use petal_settings::rates::RateOverTime;

/// Rates per second of one figure; None if unknown.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Delivered {
    /// Production's rate times the scale.
    pub asked: Option<f64>,
    /// Rate of the run.
    pub here: Option<f64>,
}

impl Delivered {
    /// Returns the delivered rate as a multiple of the requested one; None if nothing was
    /// requested.
    pub fn ratio(self) -> Option<f64> {
        Some(self.here? / self.asked.filter(|asked| *asked > 0.0)?)
    }
}

/// Returns the requested multiple of production's load.
pub fn scale_of(run: &Run) -> f64 {
    run.summary.setting_number("rate_scale").unwrap_or(1.0)
}

/// Returns rates of the run's counted window, or of the whole run if its rates change meanwhile:
/// production's rates are means over all of it.
pub fn delivered(run: &Run) -> BTreeMap<WorkCount, Delivered> {
    let Some(of) = &run.details.replay else { return BTreeMap::new() };
    let headline = run.headline_window();
    let shown = if has_one_rate(run) { &headline.run } else { run };
    let per = &shown.summary.per_second;
    // Scans are long: those that end in a window are too few to count.
    let scanned = match (run.summary.ops.scan, run.summary.elapsed_s) {
        (0, _) => Some(0.0),
        (_, elapsed_s) => (elapsed_s > 0.0).then(|| run.summary.rows.scan as f64 / elapsed_s),
    };
    let single =
        per.physical_read_blocks.zip(scanned).map(|(all, scanned)| (all - scanned).max(0.0));
    let scale = scale_of(run);
    [
        (WorkCount::SingleBlockReads, single),
        (WorkCount::MultiBlockReadBlocks, scanned),
        (WorkCount::BlockWrites, per.physical_write_blocks),
        (WorkCount::Commits, per.commits),
        (WorkCount::RedoBytes, per.redo_bytes),
    ]
    .into_iter()
    .map(|(figure, here)| {
        let asked = of.rate(figure).map(|rate| rate * scale);
        (figure, Delivered { asked, here })
    })
    .collect()
}

fn has_one_rate(run: &Run) -> bool {
    ["select_rate", "update_rate", "scan_rate"].into_iter().all(|key| {
        let rate = run.summary.setting(key).map(|rate| as_text(rate, ""));
        rate.and_then(|rate| RateOverTime::parse(&rate)).is_none_or(|rate| rate.is_constant())
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use petal_record::fixture;
    use petal_record::replay::ReplayOf;

    #[test]
    fn a_run_is_compared_with_the_requested_load_at_its_scale() {
        let mut run = fixture::mixed_run();
        assert!(delivered(&run).is_empty(), "no replay");
        let commits = run.headline_window().run.summary.per_second.commits.unwrap();
        let per_second =
            BTreeMap::from([(WorkCount::Commits, commits), (WorkCount::RedoBytes, 0.0)]);
        run.details.replay = Some(ReplayOf { per_second, ..ReplayOf::default() });
        run.summary.settings.insert("rate_scale".into(), json!(2.0));
        let found = delivered(&run);
        assert_eq!(found[&WorkCount::Commits].ratio(), Some(0.5));
        assert_eq!(found[&WorkCount::RedoBytes].ratio(), None, "nothing was asked");
        assert_eq!(found[&WorkCount::BlockWrites].asked, None);
    }

    #[test]
    fn rates_that_change_are_compared_over_all_of_the_run() {
        let mut run = fixture::windowed_run();
        run.details.replay = Some(ReplayOf::default());
        let commits = |run: &Run| delivered(run)[&WorkCount::Commits].here;
        run.summary.settings.insert("update_rate".into(), json!(25));
        assert_eq!(commits(&run), run.headline_window().run.summary.per_second.commits);
        run.summary.settings.insert("update_rate".into(), json!("0:25 10:50"));
        assert_eq!(commits(&run), run.summary.per_second.commits);
        assert_ne!(
            run.headline_window().run.summary.per_second.commits,
            run.summary.per_second.commits
        );
    }
}
