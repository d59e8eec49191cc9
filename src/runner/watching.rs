//! Samples the operating system once a second during a run, and keeps the samples.

use petal_model::record::RecordError;
use petal_model::record::os::SecondSeen;
use petal_model::record::os_log::OsLog;
use petal_model::stats::os::{GaugeRanges, OsSample, Probe};

pub struct Watching<'a> {
    probe: &'a Probe,
    log: Option<OsLog>,
    latest: OsSample,
    latest_at_s: f64,
    pub seconds: Vec<SecondSeen>,
    pub ranges: GaugeRanges,
}

impl<'a> Watching<'a> {
    /// Begins with a sample just before the trigger.
    pub fn new(probe: &'a Probe, opening: OsSample, log: Option<OsLog>) -> Self {
        Self {
            probe,
            log,
            latest: opening,
            latest_at_s: 0.0,
            seconds: Vec::new(),
            ranges: GaugeRanges::default(),
        }
    }

    /// Samples the operating system, `at_s` seconds after the trigger. Returns the sample without
    /// single processors and requests, and any error of writing the second.
    pub fn look(&mut self, at_s: f64) -> (OsSample, Result<(), RecordError>) {
        let sample = self.probe.sample();
        let mut interval = sample.since(&self.latest);
        let from_s = rounded(self.latest_at_s);
        interval.seconds = rounded(interval.seconds);
        self.ranges.add(&interval.gauges);
        let written = match &mut self.log {
            Some(log) => log.append_now(Some(from_s), &interval),
            None => Ok(()),
        };
        interval.cpus.each = Vec::new();
        self.seconds.push(SecondSeen { from_s, interval });
        let mut kept = sample.clone();
        kept.forget_details();
        self.latest = sample;
        self.latest_at_s = at_s;
        (kept, written)
    }
}

/// Rounds to the microsecond, which text keeps exactly.
fn rounded(seconds: f64) -> f64 {
    (seconds * 1e6).round() / 1e6
}
