//! What the operating system counts: processors, devices, dirty pages, petal's own time.
//!
//! A [`Probe`] takes cumulative [`Sample`]s, cheap enough for once a second; the difference of two
//! is an [`Interval`]. What cannot be read is None. One file per source: [`cpu`] for /proc/stat,
//! [`disk`] for /proc/diskstats.

pub mod cpu;
mod disk;
#[cfg(test)]
mod measured;

use std::fs;
use std::sync::{Mutex, PoisonError};

use rustix::time::{ClockId, clock_gettime};

use super::devices::{DataDevices, Roots};

pub use cpu::CpuShare;
use cpu::{CpuTicks, Cpus};
pub use disk::DeviceCounts;
use disk::{Disk, Disks};

/// Reads what the kernel counts, for given devices.
#[derive(Debug)]
pub struct Probe {
    roots: Roots,
    /// The processors that petal may use; None where that cannot be read.
    allowed: Option<Vec<u32>>,
    /// Remembers the samples before, because the kernel's milliseconds start anew at 32 bits.
    disks: Mutex<Disks>,
}

/// Cumulative counts at one moment.
#[derive(Debug, Clone, Default)]
pub struct Sample {
    at_ns: u64,
    cpu: Option<CpuTicks>,
    host_cpu: Option<CpuTicks>,
    /// The allowed processors, by number.
    cpus: Vec<(u32, CpuTicks)>,
    disks: Option<Vec<Disk>>,
    dirty_bytes: Option<u64>,
    writeback_bytes: Option<u64>,
    petal_cpu_ns: u64,
}

/// What happened between two samples; sizes are those at its end.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Interval {
    pub seconds: f64,
    /// Of the processors that petal may use: all of them, unless somebody confined it.
    pub cpu: Option<CpuShare>,
    /// Of all processors of the host.
    pub host_cpu: Option<CpuShare>,
    /// The busiest single processor that petal may use, in per cent: neither idle nor in iowait.
    pub busiest_cpu: Option<f64>,
    /// The sum over the data's devices; None if one of them cannot be read.
    pub device: Option<DeviceCounts>,
    /// Page-cache pages that have changed, and those of them that are being written.
    pub dirty_bytes: Option<u64>,
    pub writeback_bytes: Option<u64>,
    /// Processor time of petal's process, all its threads.
    pub petal_cpu_s: Option<f64>,
}

impl Probe {
    pub fn new(devices: &DataDevices) -> Self {
        Self {
            roots: devices.roots.clone(),
            allowed: cpu::allowed(&devices.roots),
            disks: Mutex::new(Disks::new(&devices.counted)),
        }
    }

    pub fn sample(&self) -> Sample {
        let cpus = self.read("stat").map(|text| Cpus::of(&text));
        let disks = self.read("diskstats");
        let memory = self.read("meminfo");
        let memory = |key: &str| meminfo_bytes(memory.as_deref()?, key);
        let cpus = cpus.unwrap_or_default().only(self.allowed.as_deref());
        Sample {
            at_ns: nanoseconds(ClockId::Monotonic),
            cpu: cpus.sum,
            host_cpu: cpus.host,
            cpus: cpus.each,
            disks: disks.and_then(|text| self.widened(&text)),
            dirty_bytes: memory("Dirty"),
            writeback_bytes: memory("Writeback"),
            petal_cpu_ns: nanoseconds(ClockId::ProcessCPUTime),
        }
    }

    fn widened(&self, diskstats: &str) -> Option<Vec<Disk>> {
        // A thread that panicked in between left at worst the sample before.
        self.disks.lock().unwrap_or_else(PoisonError::into_inner).sample(diskstats)
    }

    fn read(&self, name: &str) -> Option<String> {
        fs::read_to_string(self.roots.proc.join(name)).ok()
    }
}

impl Sample {
    /// Page-cache pages not yet on their way or not yet there: Dirty plus Writeback.
    pub fn dirty_bytes(&self) -> Option<u64> {
        self.dirty_bytes.zip(self.writeback_bytes).map(|(dirty, writeback)| dirty + writeback)
    }

    /// Requests that the data's devices have not yet answered.
    pub fn in_flight(&self) -> Option<u64> {
        Some(self.disks.as_ref()?.iter().map(|disk| disk.in_flight).sum())
    }

    pub fn since(&self, earlier: &Self) -> Interval {
        let busy = self.cpus.iter().filter_map(|(number, now)| {
            // Processors come and go.
            let (_, then) = earlier.cpus.iter().find(|(known, _)| known == number)?;
            Some(now.share_since(then)?.busy())
        });
        let share = |now: Option<CpuTicks>, then: Option<CpuTicks>| now?.share_since(&then?);
        Interval {
            seconds: self.at_ns.saturating_sub(earlier.at_ns) as f64 / 1e9,
            cpu: share(self.cpu, earlier.cpu),
            host_cpu: share(self.host_cpu, earlier.host_cpu),
            busiest_cpu: busy.reduce(f64::max),
            device: self.device().zip(earlier.device()).map(|(now, then)| now.since(&then)),
            dirty_bytes: self.dirty_bytes,
            writeback_bytes: self.writeback_bytes,
            petal_cpu_s: Some(self.petal_cpu_ns.saturating_sub(earlier.petal_cpu_ns) as f64 / 1e9),
        }
    }

    fn device(&self) -> Option<DeviceCounts> {
        self.disks.as_ref()?.iter().map(|disk| disk.counts).reduce(|sum, disk| sum.plus(&disk))
    }
}

fn nanoseconds(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// One line of /proc/meminfo, which counts in KiB.
pub fn meminfo_bytes(meminfo: &str, key: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))?;
    line.split_ascii_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::devices::recorded::Recorded;
    use proptest::prelude::*;

    #[test]
    fn dirty_and_writeback_pages_count() {
        let tree = Recorded::of(
            "/proc/meminfo\n  MemTotal: 10 kB\n  Dirty:    8 kB\n  Writeback:   4 kB\n  WritebackTmp: 99 kB\n",
        );
        let probe = Probe::new(&tree.find(&[], &[]));
        let sample = probe.sample();
        assert_eq!(sample.dirty_bytes(), Some(12 << 10));
        let interval = sample.since(&sample);
        assert_eq!(
            (interval.dirty_bytes, interval.writeback_bytes),
            (Some(8 << 10), Some(4 << 10))
        );
        tree.write("proc/meminfo", "Dirty: 8 kB\n");
        assert_eq!(probe.sample().dirty_bytes(), None);
    }

    #[test]
    fn what_is_not_there_is_not_known() {
        let tree = Recorded::of("");
        let probe = Probe::new(&tree.find(&[], &[]));
        let interval = probe.sample().since(&probe.sample());
        assert_eq!((interval.cpu, interval.host_cpu, interval.device), (None, None, None));
        assert_eq!((interval.busiest_cpu, interval.dirty_bytes), (None, None));
        assert_eq!(probe.sample().in_flight(), None);
    }

    #[test]
    fn a_confined_petal_sees_its_own_processors_and_the_host_apart() {
        let stat =
            |busy: u64| format!("cpu  {busy} 0 0 800\ncpu0 0 0 0 400\ncpu1 {busy} 0 0 400\n");
        let tree = Recorded::of("/proc/self/status = Cpus_allowed_list:\t1");
        tree.write("proc/stat", &stat(100));
        let probe = Probe::new(&tree.find(&[], &[]));
        let before = probe.sample();
        tree.write(
            "proc/stat",
            &stat(200).replace("800", "900").replace("cpu0 0 0 0 400", "cpu0 0 0 0 500"),
        );
        let interval = probe.sample().since(&before);
        assert_eq!(interval.cpu.unwrap().user, 100.0);
        assert_eq!(interval.host_cpu.unwrap().user, 50.0);
        assert_eq!(interval.busiest_cpu, Some(100.0));
    }

    #[test]
    fn this_kernel_is_understood() {
        let devices = crate::stats::devices::find(&[std::env::current_dir().unwrap()]);
        let probe = Probe::new(&devices);
        let before = probe.sample();
        let busy: u64 = (0..30_000_000u64).fold(0, |sum, n| sum ^ n.wrapping_mul(sum | 1));
        assert_ne!(busy, 1);
        let after = probe.sample();
        let interval = after.since(&before);
        assert!(interval.petal_cpu_s.unwrap() > 0.0 && interval.seconds > 0.0);
        assert_eq!(interval.device.is_some(), !devices.counted.is_empty());
        assert!(after.dirty_bytes().is_some() && after.cpu.is_some());
    }

    proptest! {
        #[test]
        fn no_text_upsets_the_readers(text in "\\PC{0,200}") {
            let _ = (Cpus::of(&text), Disks::default().sample(&text), meminfo_bytes(&text, ""));
        }
    }
}
