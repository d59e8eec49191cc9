//! Counted window of a run in progress: the whole seconds after the warm-up in which every surviving
//! session ran, and the database's counters between the samples at its bounds.

use std::sync::Arc;

use petal_host::os::{OsInterval, OsSample};
use petal_record::counters::Counters;
use petal_record::timeline::Tally;

/// Minimum share of petal's own window that must remain between sampled bounds.
const COUNTED_SHARE_MIN: f64 = 0.5;

/// Maximum distance of a sample from a second's end to count for it.
const NEAR_S: f64 = 0.1;

/// Samples that were taken together, at a second's end.
#[derive(Clone)]
pub struct Mark {
    /// Time of the sample, in seconds after the trigger.
    pub at_s: f64,
    /// Deltas since the trigger, per endpoint and in sum; `None` if the database was not sampled.
    pub counters: Option<Arc<Vec<Counters>>>,
    pub sum: Option<Arc<Counters>>,
    pub os: Option<OsSample>,
}

impl Mark {
    pub fn new(at_s: f64, counters: Option<Vec<Counters>>, os: Option<OsSample>) -> Self {
        let sum = counters.as_deref().and_then(Counters::sum).map(Arc::new);
        Self { at_s, counters: counters.map(Arc::new), sum, os }
    }

    pub fn is_near(&self, at_s: f64) -> bool {
        (self.at_s - at_s).abs() < NEAR_S
    }
}

/// Whole seconds, and petal's counts in them.
#[derive(Default)]
pub struct WindowTally {
    pub tally: Tally,
    pub from_s: f64,
    pub to_s: f64,
}

/// Window so far.
#[derive(Default)]
pub struct SteadyWindow {
    /// All seconds that belong to it.
    all: WindowTally,
    /// Seconds from the first sample at a second's bound to the last one.
    counted: WindowTally,
    /// Counts of petal since the last sample.
    since_sample: Tally,
    from: Option<Mark>,
    to: Option<Mark>,
}

/// Window after the end of the run.
#[derive(Default)]
pub struct SteadyTally {
    pub seconds: WindowTally,
    /// Samples at its bounds; `None` if the database was not sampled there.
    pub bounds: Option<(Mark, Mark)>,
}

impl SteadyWindow {
    /// Adds the second that begins at `from_s`, with the samples at its bounds.
    pub fn add(&mut self, from_s: f64, tally: &Tally, bounds: (Option<Mark>, Option<Mark>)) {
        if self.all.to_s == 0.0 {
            self.all.from_s = from_s;
        }
        self.all.to_s = from_s + 1.0;
        self.all.tally.add(tally);
        let (begin, end) = bounds;
        if self.from.is_none() {
            self.counted.from_s = from_s;
            self.from = begin;
        }
        if self.from.is_none() {
            return; // It begins with the next second whose begin was sampled.
        }
        self.since_sample.add(tally);
        if let Some(end) = end {
            self.counted.tally.add(&std::mem::take(&mut self.since_sample));
            self.counted.to_s = from_s + 1.0;
            self.to = Some(end);
        }
    }

    /// Returns the window between two samples. If that would leave out most of it, returns all of
    /// its seconds, without the database's counters.
    pub fn close(self) -> SteadyTally {
        let length = |stretch: &WindowTally| stretch.to_s - stretch.from_s;
        let is_counted = length(&self.counted) >= length(&self.all) * COUNTED_SHARE_MIN;
        match self.from.zip(self.to).filter(|_| is_counted) {
            Some(bounds) => SteadyTally { seconds: self.counted, bounds: Some(bounds) },
            None => SteadyTally { seconds: self.all, bounds: None },
        }
    }
}

impl SteadyTally {
    /// Returns the seconds between the samples, and the counts of the database, per endpoint, and
    /// of the operating system.
    pub fn between_samples(&self) -> Option<(f64, Vec<Counters>, Option<OsInterval>)> {
        let (from, to) = self.bounds.as_ref()?;
        let os = to.os.as_ref().zip(from.os.as_ref()).map(|(to, from)| to.since(from));
        let counters = Counters::each_since(to.counters.as_ref()?, from.counters.as_ref()?);
        Some((to.at_s - from.at_s, counters, os))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use petal_record::counters::IoCounts;

    fn bound(at_s: f64) -> Option<Mark> {
        let io = IoCounts { commits: Some((at_s * 100.0).round() as u64), ..IoCounts::default() };
        Some(Mark::new(at_s, Some(vec![Counters { io, ..Counters::default() }]), None))
    }

    /// Returns ten seconds from second 5 on, of an operation each; those in `missed` end without a
    /// sample.
    fn window(missed: impl Fn(u64) -> bool) -> SteadyTally {
        let mut window = SteadyWindow::default();
        let sampled = |second: u64| if missed(second) { None } else { bound(second as f64 + 0.02) };
        for second in 5..15 {
            let tally = Tally { busy_ns: 1, ..Tally::default() };
            window.add(second as f64, &tally, (sampled(second), sampled(second + 1)));
        }
        window.close()
    }

    fn values(steady: &SteadyTally) -> (f64, f64, u64, Option<u64>) {
        let commits =
            steady.between_samples().map(|(_, counters, _)| counters[0].io.commits.unwrap());
        let seconds = &steady.seconds;
        (seconds.from_s, seconds.to_s, seconds.tally.busy_ns, commits)
    }

    #[test]
    fn the_window_lies_between_the_samples_at_its_bounds() {
        let whole = window(|_| false);
        assert_eq!(values(&whole), (5.0, 15.0, 10, Some(1000)));
        assert_eq!(whole.between_samples().map(|(seconds, ..)| seconds.round()), Some(10.0));
        // A sample inside may be missing; a missing one at a bound moves the bound.
        assert_eq!(values(&window(|second| second == 9)), (5.0, 15.0, 10, Some(1000)));
        assert_eq!(values(&window(|second| second == 5)), (6.0, 15.0, 9, Some(900)));
        assert_eq!(values(&window(|second| second == 15)), (5.0, 14.0, 9, Some(900)));
    }

    #[test]
    fn without_samples_it_is_petals_alone() {
        assert_eq!(values(&window(|_| true)), (5.0, 15.0, 10, None));
        // The database was gone for most of it.
        assert_eq!(values(&window(|second| second > 8)), (5.0, 15.0, 10, None));
    }
}
