//! A run whose database stopped telling its figures before the end: how far they reach, and the run
//! as far as that, so that all layers are compared over the same time.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use super::Run;
use super::figures::{self, IntervalTotals};

/// Where the database's totals end, as its closing snapshot failed: a second's end.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct CountedUntil {
    /// Seconds after the trigger.
    pub second: f64,
    /// The whole run's length, in seconds.
    pub of_s: f64,
    /// The sessions' time in operations and in think time until then, in seconds.
    pub db_time_s: f64,
    pub think_time_s: f64,
}

impl Run {
    /// The run itself; or, where the database reported its totals only until some second, petal's and
    /// the device's figures until then as well.
    pub fn counted(&self) -> Cow<'_, Self> {
        let Some(until) = self.summary.counted_until else { return Cow::Borrowed(self) };
        let mut run = self.clone();
        let seconds = figures::seconds_within(&self.details.timeline, 0.0, until.second);
        let totals = IntervalTotals::of(seconds);
        run.summary.elapsed_s = until.second;
        run.set_totals(&totals);
        run.details.db_time_s = until.db_time_s;
        run.details.think_time_s = until.think_time_s;
        let counted = IntervalTotals { seconds: until.second, io: run.details.io, ..totals };
        run.summary.per_second = counted.per_second();
        Cow::Owned(run)
    }

    /// Such as `until second 7 of 10`; None where the database reported its totals to the end.
    pub fn counted_until(&self) -> Option<String> {
        let until = self.summary.counted_until?;
        let is_whole = (until.of_s - until.of_s.round()).abs() < 0.1;
        let of = format!("{:.*}", usize::from(!is_whole), until.of_s);
        Some(format!("until second {:.0} of {of}", until.second))
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixture;
    use super::*;

    #[test]
    fn all_layers_end_where_the_database_stopped_telling() {
        let whole = fixture::mixed_run();
        assert!(matches!(whole.counted(), Cow::Borrowed(_)));
        assert_eq!(whole.counted_until(), None);
        let mut run = whole.clone();
        run.summary.counted_until =
            Some(CountedUntil { second: 7.0, of_s: 60.02, db_time_s: 50.0, think_time_s: 0.0 });
        let cut = run.counted();
        let first = IntervalTotals::of(&whole.details.timeline[..7]);
        assert!(first.ops.total > 0 && first.ops.total < whole.summary.ops.total);
        assert_eq!((cut.summary.ops, cut.summary.rows), (first.ops, first.rows));
        assert_eq!(cut.details.device, first.device);
        assert_eq!(cut.summary.per_second.ops, Some(first.ops.total as f64 / 7.0));
        assert_eq!(run.counted_until().unwrap(), "until second 7 of 60");
        assert_eq!(cut.counted_until(), run.counted_until());
        run.summary.counted_until.as_mut().unwrap().of_s = 7.44;
        assert_eq!(run.counted_until().unwrap(), "until second 7 of 7.4");
    }
}
