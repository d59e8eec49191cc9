//! What the operating system counts: processors, devices, dirty pages, petal's own time.
//!
//! A [`Probe`] takes cumulative [`Sample`]s, cheap enough for once a second; the difference of two
//! is an [`Interval`]. What cannot be read is None. Sources: proc(5), and the kernel's
//! Documentation/admin-guide/iostats.rst for /proc/diskstats.

use std::fs;

use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use super::devices::{DataDevices, Roots};

/// /proc/diskstats counts sectors of this size, whatever the device's own.
const SECTOR_BYTES: u64 = 512;

/// Per cent of all processors' time over an interval; the five add up to 100.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct CpuShare {
    pub user: f64,
    pub system: f64,
    pub iowait: f64,
    pub idle: f64,
    pub steal: f64,
}

/// What the devices behind the data served over an interval: /proc/diskstats, summed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceCounts {
    pub read_requests: u64,
    pub read_bytes: u64,
    /// Milliseconds that reads spent in the device and its queue, summed over reads.
    pub read_ms: u64,
    pub write_requests: u64,
    pub write_bytes: u64,
    pub write_ms: u64,
    pub flushes: u64,
    /// Milliseconds with anything in flight.
    pub busy_ms: u64,
}

/// Reads what the kernel counts, for given devices.
#[derive(Debug, Clone)]
pub struct Probe {
    roots: Roots,
    devices: Vec<String>,
}

/// Cumulative counts at one moment.
#[derive(Debug, Clone, Default)]
pub struct Sample {
    cpu: Option<CpuTicks>,
    cpus: Vec<CpuTicks>,
    device: Option<DeviceCounts>,
    in_flight: Option<u64>,
    dirty_bytes: Option<u64>,
    petal_cpu_ns: u64,
}

/// What happened between two samples.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Interval {
    pub cpu: Option<CpuShare>,
    /// The busiest single processor, in per cent: neither idle nor in iowait.
    pub busiest_cpu: Option<f64>,
    pub device: Option<DeviceCounts>,
    pub petal_cpu_s: Option<f64>,
}

/// Ticks of /proc/stat; guest time is part of user time there.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct CpuTicks {
    user: u64,
    system: u64,
    iowait: u64,
    idle: u64,
    steal: u64,
}

impl Probe {
    pub fn new(devices: &DataDevices) -> Self {
        Self { roots: devices.roots.clone(), devices: devices.names() }
    }

    pub fn sample(&self) -> Sample {
        let stat = self.read("stat");
        let disks = self.read("diskstats");
        let memory = self.read("meminfo");
        let counted = disks.as_deref().filter(|_| !self.devices.is_empty());
        let counted = counted.map(|text| device_counts(text, &self.devices));
        let petal = clock_gettime(ClockId::ProcessCPUTime);
        Sample {
            cpu: stat.as_deref().and_then(|text| cpu_ticks(text.lines().next()?)),
            cpus: stat.iter().flat_map(|text| text.lines().skip(1)).map_while(cpu_ticks).collect(),
            device: counted.map(|(counts, _)| counts),
            in_flight: counted.map(|(_, in_flight)| in_flight),
            dirty_bytes: memory.as_deref().and_then(dirty_bytes),
            petal_cpu_ns: petal.tv_sec as u64 * 1_000_000_000 + petal.tv_nsec as u64,
        }
    }

    fn read(&self, name: &str) -> Option<String> {
        fs::read_to_string(self.roots.proc.join(name)).ok()
    }
}

impl Sample {
    /// Page-cache pages not yet on their way or not yet there: Dirty plus Writeback.
    pub fn dirty_bytes(&self) -> Option<u64> {
        self.dirty_bytes
    }

    /// Requests that the data's devices have not yet answered.
    pub fn in_flight(&self) -> Option<u64> {
        self.in_flight
    }

    pub fn since(&self, earlier: &Self) -> Interval {
        let busy = self.cpus.iter().zip(&earlier.cpus).filter_map(|(now, then)| {
            let share = now.share_since(then)?;
            Some(100.0 - share.idle - share.iowait)
        });
        Interval {
            cpu: self.cpu.zip(earlier.cpu).and_then(|(now, then)| now.share_since(&then)),
            busiest_cpu: busy.reduce(f64::max),
            device: self.device.zip(earlier.device).map(|(now, then)| now.since(&then)),
            petal_cpu_s: Some(self.petal_cpu_ns.saturating_sub(earlier.petal_cpu_ns) as f64 / 1e9),
        }
    }
}

impl CpuTicks {
    fn share_since(&self, earlier: &Self) -> Option<CpuShare> {
        let ticks = |now: u64, then: u64| now.saturating_sub(then) as f64;
        let user = ticks(self.user, earlier.user);
        let system = ticks(self.system, earlier.system);
        let iowait = ticks(self.iowait, earlier.iowait);
        let idle = ticks(self.idle, earlier.idle);
        let steal = ticks(self.steal, earlier.steal);
        let all = user + system + iowait + idle + steal;
        let share = |part: f64| 100.0 * part / all;
        (all > 0.0).then(|| CpuShare {
            user: share(user),
            system: share(system),
            iowait: share(iowait),
            idle: share(idle),
            steal: share(steal),
        })
    }
}

impl DeviceCounts {
    fn with(&self, other: &Self, combine: fn(u64, u64) -> u64) -> Self {
        Self {
            read_requests: combine(self.read_requests, other.read_requests),
            read_bytes: combine(self.read_bytes, other.read_bytes),
            read_ms: combine(self.read_ms, other.read_ms),
            write_requests: combine(self.write_requests, other.write_requests),
            write_bytes: combine(self.write_bytes, other.write_bytes),
            write_ms: combine(self.write_ms, other.write_ms),
            flushes: combine(self.flushes, other.flushes),
            busy_ms: combine(self.busy_ms, other.busy_ms),
        }
    }

    pub fn since(&self, earlier: &Self) -> Self {
        self.with(earlier, u64::saturating_sub)
    }

    pub fn plus(&self, other: &Self) -> Self {
        self.with(other, u64::saturating_add)
    }
}

/// A line of /proc/stat: `cpuN user nice system idle iowait irq softirq steal ...`.
fn cpu_ticks(line: &str) -> Option<CpuTicks> {
    let mut fields = line.split_ascii_whitespace();
    if !fields.next()?.starts_with("cpu") {
        return None;
    }
    let ticks: Vec<u64> = fields.map_while(|field| field.parse().ok()).collect();
    let at = |index: usize| ticks.get(index).copied().unwrap_or(0);
    (ticks.len() >= 4).then(|| CpuTicks {
        user: at(0) + at(1),
        system: at(2) + at(5) + at(6),
        idle: at(3),
        iowait: at(4),
        steal: at(7),
    })
}

/// The sum over `devices`, and their requests in flight.
fn device_counts(diskstats: &str, devices: &[String]) -> (DeviceCounts, u64) {
    let mut sum = (DeviceCounts::default(), 0);
    for line in diskstats.lines() {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        if !fields.get(2).is_some_and(|name| devices.iter().any(|device| device == name)) {
            continue;
        }
        // The first figure after the name is field 1 of iostats.rst.
        let field = |number: usize| {
            fields.get(number + 2).and_then(|text| text.parse::<u64>().ok()).unwrap_or(0)
        };
        let counts = DeviceCounts {
            read_requests: field(1),
            read_bytes: field(3) * SECTOR_BYTES,
            read_ms: field(4),
            write_requests: field(5),
            write_bytes: field(7) * SECTOR_BYTES,
            write_ms: field(8),
            busy_ms: field(10),
            flushes: field(16),
        };
        sum = (sum.0.plus(&counts), sum.1 + field(9));
    }
    sum
}

fn dirty_bytes(meminfo: &str) -> Option<u64> {
    Some(meminfo_bytes(meminfo, "Dirty")? + meminfo_bytes(meminfo, "Writeback")?)
}

/// One line of /proc/meminfo, which counts in KiB.
pub fn meminfo_bytes(meminfo: &str, key: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))?;
    Some(line.split_ascii_whitespace().next()?.parse::<u64>().ok()? << 10)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const STAT: &str = "cpu  100 10 50 800 30 5 5 7 0 0\ncpu0 60 10 30 400 10 3 2 4 0 0\ncpu1 40 0 20 400 20 2 3 3 0 0\nintr 1\n";
    const DISKS: &str = " 254       0 vda 100 5 8000 300 50 5 4000 200 3 400 500 0 0 0 0 9 20\n 254       1 vda1 1 0 8 1 0 0 0 0 0 1 1\n";

    #[test]
    fn ticks_are_read_by_their_places() {
        let ticks = cpu_ticks(STAT.lines().next().unwrap()).unwrap();
        let wanted = CpuTicks { user: 110, system: 60, iowait: 30, idle: 800, steal: 7 };
        assert_eq!(ticks, wanted);
        assert_eq!(cpu_ticks("intr 1 2 3 4"), None);
    }

    #[test]
    fn devices_are_summed_in_bytes() {
        let (vda, in_flight) = device_counts(DISKS, &["vda".into()]);
        assert_eq!((vda.read_requests, vda.read_bytes, vda.read_ms), (100, 8000 * 512, 300));
        assert_eq!((vda.write_requests, vda.write_bytes, vda.flushes), (50, 4000 * 512, 9));
        assert_eq!((vda.busy_ms, in_flight), (400, 3));
        let both = device_counts(DISKS, &["vda".into(), "vda1".into()]).0;
        assert_eq!(both.read_requests, 101);
    }

    #[test]
    fn dirty_and_writeback_pages_count() {
        let text = "MemTotal: 10 kB\nDirty:    8 kB\nWriteback:   4 kB\nWritebackTmp: 99 kB\n";
        assert_eq!(dirty_bytes(text), Some(12 << 10));
        assert_eq!(dirty_bytes("Dirty: 8 kB\n"), None);
    }

    #[test]
    fn this_kernel_is_understood() {
        let devices = crate::stats::devices::find(&[std::env::current_dir().unwrap()]);
        let probe = Probe::new(&devices);
        let before = probe.sample();
        let busy: u64 = (0..30_000_000u64).fold(0, |sum, n| sum ^ n.wrapping_mul(sum | 1));
        assert_ne!(busy, 1);
        let interval = probe.sample().since(&before);
        assert!(interval.petal_cpu_s.unwrap() > 0.0);
        assert_eq!(probe.sample().device.is_some(), !devices.counted.is_empty());
    }

    proptest! {
        #[test]
        fn shares_add_up_to_a_hundred(a in prop::array::uniform8(0u64..1 << 40), b in prop::array::uniform8(0u64..1 << 20)) {
            let line = |t: [u64; 8]| format!("cpu {} {} {} {} {} {} {} {}", t[0], t[1], t[2], t[3], t[4], t[5], t[6], t[7]);
            let later: [u64; 8] = std::array::from_fn(|i| a[i] + b[i]);
            let (then, now) = (cpu_ticks(&line(a)).unwrap(), cpu_ticks(&line(later)).unwrap());
            match now.share_since(&then) {
                Some(s) => prop_assert!((s.user + s.system + s.iowait + s.idle + s.steal - 100.0).abs() < 1e-6),
                None => prop_assert_eq!(b.iter().sum::<u64>(), 0),
            }
        }

        #[test]
        fn no_text_upsets_the_readers(text in "\\PC{0,200}") {
            let _ = (cpu_ticks(&text), device_counts(&text, &["vda".into()]), dirty_bytes(&text));
        }
    }
}
