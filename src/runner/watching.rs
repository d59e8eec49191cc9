//! Samples the operating system once a second during a run. The samples are kept in their file, so that
//! memory does not grow with the run; in memory only without a file.

use petal_host::os::{GaugeRanges, OsSample, Probe};
use petal_record::os::{self, OWN_NAME, SecondSeen};
use petal_record::os_log::OsLog;
use petal_record::{RecordError, RecordFolder};

pub struct Watching<'a> {
    probe: &'a Probe,
    log: Option<OsLog>,
    latest: OsSample,
    latest_at_s: f64,
    unwritten: Vec<SecondSeen>,
    /// Number of samples.
    pub intervals: u64,
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
            unwritten: Vec::new(),
            intervals: 0,
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
        self.intervals += 1;
        let written = match &mut self.log {
            Some(log) => log.append_now(Some(from_s), &interval),
            None => {
                interval.cpus.each = Vec::new();
                self.unwritten.push(SecondSeen { from_s, interval });
                Ok(())
            }
        };
        let mut kept = sample.clone();
        kept.forget_details();
        self.latest = sample;
        self.latest_at_s = at_s;
        (kept, written)
    }

    /// Returns the samples of a run with this folder.
    pub fn seconds(self, folder: Option<&RecordFolder>) -> Result<Vec<SecondSeen>, RecordError> {
        match folder.filter(|_| self.log.is_some()) {
            Some(folder) => os::seconds(&folder.path().join(OWN_NAME)),
            None => Ok(self.unwritten),
        }
    }
}

/// Rounds to the microsecond, which text keeps exactly.
fn rounded(seconds: f64) -> f64 {
    (seconds * 1e6).round() / 1e6
}

#[cfg(test)]
mod tests {
    use petal_host::devices::DataDevices;
    use petal_record::os_log::OsLogHeader;

    use super::*;

    #[test]
    fn memory_does_not_grow_with_a_run_that_has_a_file() {
        let dir = tempfile::tempdir().unwrap();
        let (folder, probe) = (RecordFolder::open(dir.path()), Probe::new(&DataDevices::default()));
        let log = OsLog::begin(&folder, OWN_NAME, &OsLogHeader::default()).unwrap();
        let mut with_file = Watching::new(&probe, probe.sample(), Some(log));
        let mut without = Watching::new(&probe, probe.sample(), None);
        for second in 1..=100 {
            for watching in [&mut with_file, &mut without] {
                watching.look(f64::from(second)).1.unwrap();
            }
        }
        assert_eq!((with_file.unwritten.len(), without.unwritten.len()), (0, 100));
        for watching in [with_file, without] {
            assert_eq!(watching.intervals, 100);
            let seconds = watching.seconds(Some(&folder)).unwrap();
            let starts: Vec<f64> = seconds.iter().map(|second| second.from_s).collect();
            assert_eq!(starts, (0..100).map(f64::from).collect::<Vec<_>>());
            assert!(seconds.iter().all(|second| second.interval.cpus.host.is_some()));
        }
    }
}
