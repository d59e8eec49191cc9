//! Times of single requests at block devices: in the queue, in service and both.

use serde::{Deserialize, Serialize};

use super::time_buckets::{GroupTimes, TimeBuckets, TimedEvents};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RequestKind {
    Read,
    Write,
    Flush,
    Discard,
}

impl RequestKind {
    /// All kinds, in the order of the kernel's numbers for operations.
    pub const ALL: [Self; 4] = [Self::Read, Self::Write, Self::Flush, Self::Discard];

    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Flush => "flush",
            Self::Discard => "discard",
        }
    }
}

/// Requests that were completed, by device, kind and process.
pub type Requests = TimedEvents<RequestTimes>;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RequestTimes {
    /// Name as /proc/diskstats prints it.
    pub device: String,
    pub kind: RequestKind,
    /// True if a process of the database issued them, false if another one did, such as a thread
    /// of the kernel that writes the page cache; null if the database's processes are unknown.
    pub of_database: Option<bool>,
    /// Time from issue to the driver until completion.
    pub service: TimeBuckets,
    /// Time from the kernel's start of the request until its issue; empty if the kernel sets no start,
    /// as its own statistics of the device are off.
    pub queue: TimeBuckets,
    /// Time from start to completion: iostat's await is its mean.
    pub total: TimeBuckets,
}

impl GroupTimes for RequestTimes {
    fn is_like(&self, other: &Self) -> bool {
        (self.kind, self.of_database) == (other.kind, other.of_database)
            && self.device == other.device
    }

    fn histograms(&mut self) -> Vec<&mut TimeBuckets> {
        vec![&mut self.service, &mut self.queue, &mut self.total]
    }
}

impl Requests {
    /// The service times of one kind at some devices, of all processes.
    pub fn service(&self, kind: RequestKind, is_wanted: impl Fn(&str) -> bool) -> TimeBuckets {
        let wanted = self.times.iter().filter(|t| t.kind == kind && is_wanted(&t.device));
        wanted.fold(TimeBuckets::default(), |sum, times| sum.plus(&times.service))
    }
}

#[cfg(test)]
mod tests {
    use super::super::time_buckets::tests::counted;
    use super::*;
    use proptest::prelude::*;

    fn reads(device: &str, of_database: Option<bool>, times_ns: &[u64]) -> Requests {
        let times = RequestTimes {
            device: device.into(),
            kind: RequestKind::Read,
            of_database,
            service: counted(times_ns),
            queue: TimeBuckets::default(),
            total: counted(times_ns),
        };
        Requests { times: vec![times], lost: 0 }
    }

    proptest! {
        #[test]
        fn an_interval_is_the_difference_of_two_samples(
            a in prop::collection::vec(1u64..1_000_000, 0..50),
            b in prop::collection::vec(1u64..1_000_000, 1..50),
        ) {
            let [before, between] = [&a, &b].map(|times| reads("vda", Some(true), times));
            let after = before.plus(&between);
            prop_assert_eq!(after.since(&before).unwrap(), between);
        }
    }

    #[test]
    fn counts_that_fell_are_no_interval() {
        let (few, more) = (reads("vda", None, &[5]), reads("vda", None, &[5, 5]));
        assert_eq!(few.since(&more), None);
        assert_eq!(reads("vda", None, &[900]).since(&few), None, "another bucket");
        assert!(more.since(&few).is_some());
    }

    #[test]
    fn devices_and_processes_stay_apart_and_one_kind_is_added_up() {
        let own = reads("vda", Some(true), &[100, 100]);
        let all = own.plus(&reads("vda", Some(false), &[900])).plus(&reads("vdb", None, &[7]));
        assert_eq!(all.times.len(), 3);
        assert_eq!(all.service(RequestKind::Read, |device| device == "vda").count(), 3);
        assert_eq!(all.service(RequestKind::Write, |_| true).summary().p50, None);
    }

    #[test]
    fn an_interval_without_requests_has_no_times() {
        let sample = reads("vda", Some(true), &[100]);
        assert_eq!(sample.since(&sample).unwrap(), Requests::default());
    }
}
