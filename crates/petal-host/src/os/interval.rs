//! The difference of two samples: raw counts, so that intervals add up; rates and shares are
//! computed from them when they are shown.

use serde::{Deserialize, Serialize};

use super::calls::ServerCalls;
use super::cpu::{CpuShare, CpuTicks, Cpus};
use super::disk::{DeviceCounts, DeviceUse, part};
use super::figures::{Counts, GaugeRanges, Gauges};
use super::requests::Requests;
use super::threads::ThreadTimes;

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct OsInterval {
    pub seconds: f64,
    pub cpus: Cpus,
    /// The busiest of the processors that the database may use, and how busy it was in percent.
    pub busiest_cpu: Option<(u32, f64)>,
    /// Processors on which the log writer was found, each with the seconds of that sample.
    pub log_writer_on: Vec<(u32, f64)>,
    pub counts: Counts,
    /// Gauges at its end.
    pub gauges: Gauges,
    /// `None` if one of the data's devices cannot be read, or the data have no device.
    pub devices: Option<Vec<DeviceUse>>,
    /// Times of single requests; `None` if they were not watched.
    pub requests: Option<Requests>,
    /// Times of the server's calls; `None` if they were not watched.
    pub calls: Option<ServerCalls>,
    /// Time of the threads that execute operations, by state; `None` if they were not watched.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub threads: Option<ThreadTimes>,
}

impl OsInterval {
    /// The sum over the data's devices; None if one of them cannot be read. A device that has the log alone
    /// adds its writes and flushes: other programs may read there, and no row is read.
    pub fn device(&self) -> Option<DeviceCounts> {
        let data = self.devices.as_ref()?.iter().filter(|device| device.data);
        let counts = data.map(|device| match device.of_others {
            false => device.counts,
            true => DeviceCounts { read_requests: 0, read_bytes: 0, read_ms: 0, ..device.counts },
        });
        counts.reduce(|sum, device| sum.plus(&device))
    }

    /// Shares of the time of the processors that the database may use: all of them, unless it is
    /// confined.
    pub fn cpu(&self) -> Option<CpuShare> {
        self.cpus.allowed?.share()
    }

    /// Returns a count as a rate in units of `unit`; `None` over no time.
    pub fn per_second(&self, count: Option<u64>, unit: f64) -> Option<f64> {
        count.filter(|_| self.seconds > 0.0).map(|count| count as f64 / unit / self.seconds)
    }

    pub fn petal_cpu_s(&self) -> Option<f64> {
        self.counts.petal_cpu_us.map(seconds)
    }

    pub fn server_cpu_s(&self) -> Option<f64> {
        self.counts.server_cpu_us.map(seconds)
    }

    /// Processors' worth of the host's time, by the kernel's ticks: user, nice and system.
    pub fn working_processors(&self) -> Option<f64> {
        let host = self.cpus.host?;
        let worked = (host.user + host.nice + host.system) as f64;
        let processors = self.cpus.each.len() as f64;
        (host.all() > 0 && processors > 0.0).then(|| worked / host.all() as f64 * processors)
    }

    /// Returns a share of it, from 0 to 1, for an interval that lies partly in another. Gauges
    /// stay.
    pub fn part(&self, share: f64) -> Self {
        let of = |ticks: CpuTicks| ticks.with(&ticks, |count, _| part(count, share));
        let times = self.times().part(share);
        Self {
            seconds: self.seconds * share,
            cpus: Cpus::new(
                self.cpus.host.map(of),
                self.cpus.allowed.map(of),
                self.cpus.each.iter().map(|(cpu, ticks)| (*cpu, of(*ticks))).collect(),
            ),
            busiest_cpu: self.busiest_cpu,
            log_writer_on: self.log_writer_on.iter().map(|(cpu, s)| (*cpu, s * share)).collect(),
            counts: self.counts.part(share),
            gauges: self.gauges,
            devices: self
                .devices
                .as_ref()
                .map(|all| all.iter().map(|device| device.part(share)).collect()),
            requests: times.requests,
            calls: times.calls,
            threads: times.threads,
        }
    }

    /// Joins two intervals, one after the other. A figure that one of them lacks is unknown.
    /// Gauges are the later one's, the busiest processor is the longer one's.
    pub fn then(&self, later: &Self) -> Self {
        let devices = self.devices.as_deref().zip(later.devices.as_deref());
        let devices = devices.and_then(|(ours, theirs)| {
            let has = |all: &[DeviceUse], name: &str| all.iter().any(|other| other.name == name);
            let in_both = |device: &DeviceUse| has(ours, &device.name) && has(theirs, &device.name);
            // Without one of the data's devices the sum of the others would be too little.
            let mut data = ours.iter().chain(theirs).filter(|device| device.data);
            data.all(in_both).then(|| {
                let both = ours.iter().filter_map(|device| {
                    Some(device.plus(theirs.iter().find(|other| other.name == device.name)?))
                });
                both.collect()
            })
        });
        let times = self.times().then(&later.times());
        let mut log_writer_on = self.log_writer_on.clone();
        for &(cpu, seconds) in &later.log_writer_on {
            match log_writer_on.iter_mut().find(|(known, _)| *known == cpu) {
                Some((_, sum)) => *sum += seconds,
                None => log_writer_on.push((cpu, seconds)),
            }
        }
        let longer = if later.seconds > self.seconds { later } else { self };
        Self {
            seconds: self.seconds + later.seconds,
            cpus: self.cpus.plus(&later.cpus),
            busiest_cpu: longer.busiest_cpu,
            log_writer_on,
            counts: self.counts.plus(&later.counts),
            gauges: later.gauges,
            devices,
            requests: times.requests,
            calls: times.calls,
            threads: times.threads,
        }
    }
}

/// Times from the kernel's programs in an interval, as in [`OsInterval`].
#[derive(Debug, Clone, Default, PartialEq)]
pub struct KernelTimes {
    requests: Option<Requests>,
    calls: Option<ServerCalls>,
    threads: Option<ThreadTimes>,
}

impl KernelTimes {
    /// Adds the times of a later interval. Those that one of them lacks are unknown.
    pub fn then(&self, later: &Self) -> Self {
        let requests = self.requests.as_ref().zip(later.requests.as_ref());
        let calls = self.calls.as_ref().zip(later.calls.as_ref());
        let threads = self.threads.as_ref().zip(later.threads.as_ref());
        Self {
            requests: requests.map(|(ours, theirs)| ours.plus(theirs)),
            calls: calls.map(|(ours, theirs)| ours.plus(theirs)),
            threads: threads.map(|(ours, theirs)| ours.plus(theirs)),
        }
    }

    /// Returns a share of them, from 0 to 1.
    pub fn part(&self, share: f64) -> Self {
        Self {
            requests: self.requests.as_ref().map(|requests| requests.part(share)),
            calls: self.calls.as_ref().map(|calls| calls.part(share)),
            threads: self.threads.as_ref().map(|threads| threads.part(share)),
        }
    }
}

impl OsInterval {
    /// Takes its times out of it.
    pub fn take_times(&mut self) -> KernelTimes {
        let (requests, calls) = (self.requests.take(), self.calls.take());
        KernelTimes { requests, calls, threads: self.threads.take() }
    }

    pub fn times(&self) -> KernelTimes {
        let (requests, calls) = (self.requests.clone(), self.calls.clone());
        KernelTimes { requests, calls, threads: self.threads.clone() }
    }

    pub fn set_times(&mut self, times: KernelTimes) {
        let KernelTimes { requests, calls, threads } = times;
        (self.requests, self.calls, self.threads) = (requests, calls, threads);
    }
}

fn seconds(us: u64) -> f64 {
    us as f64 / 1e6
}

/// Intervals one after the other, as one: sums of counts, ranges of gauges.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Whole {
    pub sum: OsInterval,
    pub ranges: GaugeRanges,
    /// Number of intervals it is made of.
    pub intervals: u64,
}

impl Whole {
    pub fn add(&mut self, interval: &OsInterval) {
        self.sum = if self.intervals == 0 { interval.clone() } else { self.sum.then(interval) };
        self.ranges.add(&interval.gauges);
        self.intervals += 1;
    }

    /// Finds the busiest processor over all of it, which single intervals cannot show.
    pub fn settle(&mut self, allowed: Option<&[u32]>) {
        self.sum.busiest_cpu = self.sum.cpus.busiest(allowed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::os::CpuTicks;
    use proptest::prelude::*;

    fn interval(seconds: f64, ticks: u64, bytes: u64) -> OsInterval {
        let ticks = CpuTicks::from([ticks, 0, 0, 100, 0, 0, 0, 0]);
        let counts = DeviceCounts { read_bytes: bytes, ..DeviceCounts::default() };
        let device = |name: &str, data| DeviceUse {
            name: name.into(),
            data,
            counts,
            in_flight: bytes,
            ..DeviceUse::default()
        };
        OsInterval {
            seconds,
            cpus: Cpus::new(Some(ticks), Some(ticks), vec![(0, ticks)]),
            counts: Counts { interrupts: Some(bytes), ..Counts::default() },
            gauges: Gauges { running: Some(bytes), ..Gauges::default() },
            devices: Some(vec![device("sda1", true), device("sda", false)]),
            ..OsInterval::default()
        }
    }

    #[test]
    fn only_the_datas_devices_are_added_up() {
        assert_eq!(interval(1.0, 1, 7).device().unwrap().read_bytes, 7);
        assert_eq!(OsInterval::default().device(), None);
        let below = vec![DeviceUse { name: "sda".into(), ..DeviceUse::default() }];
        assert_eq!(OsInterval { devices: Some(below), ..OsInterval::default() }.device(), None);
        // The log's device: its writes are the database's, its reads may be others'.
        let mut with_log = interval(1.0, 1, 7);
        let counts = DeviceCounts { read_bytes: 90, write_bytes: 5, ..DeviceCounts::default() };
        let log = DeviceUse {
            data: true,
            of_others: true,
            counts,
            name: "sdb".into(),
            ..DeviceUse::default()
        };
        with_log.devices.as_mut().unwrap().push(log);
        let sum = with_log.device().unwrap();
        let alone = interval(1.0, 1, 7).device().unwrap();
        assert_eq!((sum.read_bytes, sum.write_bytes), (7, alone.write_bytes + 5));
    }

    #[test]
    fn a_figure_unknown_in_one_interval_is_unknown_in_the_whole() {
        let mut whole = Whole::default();
        whole.add(&interval(1.0, 1, 1));
        whole.add(&OsInterval { seconds: 1.0, ..OsInterval::default() });
        assert_eq!((whole.sum.device(), whole.sum.cpus.host), (None, None));
        assert_eq!(whole.sum.counts.interrupts, None);
        assert_eq!(whole.ranges.running.unwrap().moments, 1);
    }

    #[test]
    fn a_device_that_only_one_interval_has_is_unknown_in_both() {
        let without = |name: &str| {
            let mut interval = interval(1.0, 1, 7);
            interval.devices.as_mut().unwrap().retain(|device| device.name != name);
            interval
        };
        let whole = interval(1.0, 1, 7);
        for (first, second) in [(&whole, &without("sda1")), (&without("sda1"), &whole)] {
            assert_eq!(first.then(second).devices, None, "the sum would be too little");
        }
        for (first, second) in [(&whole, &without("sda")), (&without("sda"), &whole)] {
            let both = first.then(second);
            assert_eq!(both.device().unwrap().read_bytes, 14);
            assert_eq!(both.devices.unwrap().len(), 1);
        }
    }

    #[test]
    fn an_interval_is_read_back_from_its_line() {
        let whole = OsInterval {
            busiest_cpu: Some((1, 97.5)),
            log_writer_on: vec![(1, 1.0)],
            ..interval(1.5, 3, 9)
        };
        let line = serde_json::to_string(&whole).unwrap();
        assert_eq!(serde_json::from_str::<OsInterval>(&line).unwrap(), whole);
        assert_eq!(serde_json::from_str::<OsInterval>("{}").unwrap(), OsInterval::default());
    }

    proptest! {
        #[test]
        fn a_whole_is_the_sum_of_its_intervals(
            all in prop::collection::vec((0.1f64..3.0, 0u64..1000, 0u64..1 << 40), 1..20),
        ) {
            let mut whole = Whole::default();
            all.iter().for_each(|&(seconds, ticks, bytes)| whole.add(&interval(seconds, ticks, bytes)));
            let bytes: u64 = all.iter().map(|(_, _, bytes)| bytes).sum();
            prop_assert_eq!(whole.sum.device().unwrap().read_bytes, bytes);
            prop_assert_eq!(whole.sum.counts.interrupts, Some(bytes));
            let ticks: u64 = all.iter().map(|(_, ticks, _)| ticks).sum();
            prop_assert_eq!(whole.sum.cpus.host.unwrap().user, ticks);
            let most = all.iter().map(|(_, _, bytes)| *bytes).max();
            prop_assert_eq!(whole.ranges.running.map(|range| range.most), most);
        }

        #[test]
        fn two_parts_are_the_interval(share in 0.0f64..=1.0, ticks in 0u64..1000, bytes in 0u64..1 << 40) {
            let all = interval(1.0, ticks, bytes);
            let again = all.part(share).then(&all.part(1.0 - share));
            prop_assert!((again.seconds - 1.0).abs() < 1e-9);
            prop_assert!(again.device().unwrap().read_bytes.abs_diff(bytes) <= 1);
            prop_assert!(again.cpus.host.unwrap().user.abs_diff(ticks) <= 1);
            prop_assert_eq!(again.gauges, all.gauges);
        }
    }
}
