//! Samples the operating system once a second during a run. Memory does not grow with a run that
//! writes its samples.

use petal_host::os::{GaugeRanges, KernelTimes, OsSample, Probe};
use petal_record::RowBounds;
use petal_record::os::{SecondSeen, TimesOf};

pub struct Watching<'a> {
    probe: &'a Probe,
    latest: OsSample,
    latest_at_s: f64,
    /// Samples that nobody has taken.
    pub unwritten: Vec<SecondSeen>,
    row: RowBounds,
    /// Times of seconds that are not written yet, and their begin.
    held: Option<(f64, KernelTimes)>,
    /// Number of samples.
    pub intervals: u64,
    pub ranges: GaugeRanges,
}

impl<'a> Watching<'a> {
    /// Begins with a sample just before the trigger.
    pub fn new(probe: &'a Probe, opening: OsSample) -> Self {
        Self {
            probe,
            latest: opening,
            latest_at_s: 0.0,
            unwritten: Vec::new(),
            row: RowBounds::default(),
            held: None,
            intervals: 0,
            ranges: GaugeRanges::default(),
        }
    }

    /// Keeps the times of a row's seconds together.
    fn with_held(&mut self, mut seen: SecondSeen) -> SecondSeen {
        let is_end = self.row.end_with(seen.from_s, seen.interval.seconds);
        if is_end && self.held.is_none() {
            return seen;
        }
        let own = seen.interval.take_times();
        let (from_s, times) = match self.held.take() {
            None => (seen.from_s, own),
            Some((from_s, held)) => (from_s, held.then(&own)),
        };
        if !is_end {
            self.held = Some((from_s, times));
            return SecondSeen { times: TimesOf::Later, ..seen };
        }
        seen.interval.set_times(times);
        SecondSeen { times: TimesOf::From(from_s), ..seen }
    }

    /// Gives the times that are held back to the last sample.
    pub fn finish(&mut self) {
        if let (Some(last), Some((from_s, times))) = (self.unwritten.last_mut(), self.held.take()) {
            last.interval.set_times(times);
            last.times = TimesOf::From(from_s);
        }
    }

    /// Samples the operating system, `at_s` seconds after the trigger. Returns the sample without
    /// single processors and requests.
    pub fn look(&mut self, at_s: f64) -> OsSample {
        let sample = self.probe.sample();
        let mut interval = sample.since(&self.latest);
        let from_s = rounded(self.latest_at_s);
        interval.seconds = rounded(interval.seconds);
        self.ranges.add(&interval.gauges);
        self.intervals += 1;
        let own = SecondSeen { from_s, interval, ..SecondSeen::default() };
        let seen = self.with_held(own);
        self.unwritten.push(seen);
        let mut kept = sample.clone();
        kept.forget_details();
        self.latest = sample;
        self.latest_at_s = at_s;
        kept
    }
}

/// Rounds to the microsecond, which text keeps exactly.
fn rounded(seconds: f64) -> f64 {
    (seconds * 1e6).round() / 1e6
}
