//! Samples the operating system once a second during a run. Memory does not grow with a run that
//! writes its samples.

use petal_host::os::{GaugeRanges, OsSample, Probe};
use petal_record::os::SecondSeen;

pub struct Watching<'a> {
    probe: &'a Probe,
    latest: OsSample,
    latest_at_s: f64,
    /// Samples that nobody has taken.
    pub unwritten: Vec<SecondSeen>,
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
            intervals: 0,
            ranges: GaugeRanges::default(),
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
        self.unwritten.push(SecondSeen { from_s, interval });
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
