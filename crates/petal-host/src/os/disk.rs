//! Devices: /proc/diskstats, as the kernel's Documentation/admin-guide/iostats.rst explains it.
//!
//! Six traps. Milliseconds are kept in 32 bits: with 64 requests in flight they restart every 19
//! hours. A partition's flushes are counted at its disk only, a volume's at its members. A flush
//! is counted among the write requests too, as one without bytes. A device that is not listed is
//! unknown, not idle. And a device that was removed and added again counts from 0: the counts in
//! between are unknown. And a disk of NVMe's native multipath may have no counts: its hidden paths
//! have them.

use serde::{Deserialize, Serialize};

use crate::devices::{BlockDevice, DataDevices};

/// Sectors are of this size there, whatever the device's own.
const SECTOR_BYTES: u64 = 512;

/// Counts of the devices behind the data: /proc/diskstats, summed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceCounts {
    pub read_requests: u64,
    pub read_bytes: u64,
    /// Milliseconds that reads spent in the device and its queue, summed over reads.
    pub read_ms: u64,
    /// Write requests, with those that only flush, which have no bytes.
    pub write_requests: u64,
    pub write_bytes: u64,
    pub write_ms: u64,
    pub flushes: u64,
    /// Milliseconds with anything in flight, summed over devices.
    pub busy_ms: u64,
}

crate::field_by_field! {
    DeviceCounts: read_requests, read_bytes, read_ms, write_requests, write_bytes, write_ms, flushes,
    busy_ms
}

/// Counts of a device: cumulative, or over an interval; `in_flight` is the value at its end.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceUse {
    /// Name as /proc/diskstats prints it.
    pub name: String,
    /// True if it is added up: the other devices lie below these.
    pub data: bool,
    /// True if only other files of the server are there, such as its log: its reads are not of rows.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub of_others: bool,
    #[serde(flatten)]
    pub counts: DeviceCounts,
    /// Requests that were joined to another one before the device saw them.
    pub read_merges: u64,
    pub write_merges: u64,
    /// Milliseconds in the device and its queue, summed over all requests.
    pub queue_ms: u64,
    pub in_flight: u64,
    /// Number of restarts of its counters that were seen, in a sample.
    #[serde(skip)]
    pub restarts: u64,
}

impl DeviceUse {
    fn with(&self, other: &Self, combine: impl Fn(u64, u64) -> u64) -> Self {
        Self {
            counts: self.counts.with(&other.counts, &combine),
            read_merges: combine(self.read_merges, other.read_merges),
            write_merges: combine(self.write_merges, other.write_merges),
            queue_ms: combine(self.queue_ms, other.queue_ms),
            restarts: 0,
            ..self.clone()
        }
    }

    /// None if its counters began again in between, or one of them fell.
    pub fn since(&self, earlier: &Self) -> Option<Self> {
        let goes_on = self.restarts == earlier.restarts;
        goes_on.then(|| crate::deltas(|minus| self.with(earlier, minus))).flatten()
    }

    /// `in_flight` becomes the larger one.
    pub fn plus(&self, other: &Self) -> Self {
        let in_flight = self.in_flight.max(other.in_flight);
        Self { in_flight, ..self.with(other, u64::saturating_add) }
    }

    /// Returns a share of it, from 0 to 1.
    pub fn part(&self, share: f64) -> Self {
        self.with(self, |count, _| part(count, share))
    }
}

/// A share of a count, to the nearest.
pub(super) fn part(count: u64, share: f64) -> u64 {
    (count as f64 * share).round() as u64
}

/// The devices of a probe, in its order.
#[derive(Debug, Default)]
pub(super) struct Disks(Vec<WatchedDisk>);

#[derive(Debug)]
struct WatchedDisk {
    name: String,
    data: bool,
    of_others: bool,
    flushed_at: Vec<(u32, u32)>,
    /// Line of the disk, or a line for each path that has its counts.
    lines: Vec<WatchedLine>,
}

#[derive(Debug)]
struct WatchedLine {
    key: LineKey,
    /// Requests and sectors, read and written, when it was last listed.
    latest: Option<[u64; 4]>,
    restarts: u64,
    wide: WideCounters,
}

#[derive(Debug)]
enum LineKey {
    Number(u32, u32),
    /// A hidden path has no number.
    Name(String),
}

#[derive(Debug, Default)]
struct WideCounters {
    read_ms: WideCounter,
    write_ms: WideCounter,
    busy_ms: WideCounter,
    queue_ms: WideCounter,
}

/// A 32-bit counter made wide. It may wrap once between two samples, not twice.
#[derive(Debug, Default)]
struct WideCounter {
    latest: Option<u32>,
    sum: u64,
}

impl WideCounter {
    fn next(&mut self, value: u64) -> u64 {
        // A counter that is already wider needs no help.
        let Ok(now) = u32::try_from(value) else { return value };
        self.sum += match self.latest {
            Some(then) => u64::from(now.wrapping_sub(then)),
            None => value,
        };
        self.latest = Some(now);
        self.sum
    }
}

impl Disks {
    pub fn new(devices: &DataDevices) -> Self {
        let watched = |data| {
            move |device: &BlockDevice| WatchedDisk {
                name: device.name.clone(),
                data,
                of_others: device.of_others,
                flushed_at: device.flushed_at.clone(),
                lines: match device.paths.as_slice() {
                    [] => vec![WatchedLine::new(LineKey::Number(device.major, device.minor))],
                    paths => {
                        paths.iter().cloned().map(LineKey::Name).map(WatchedLine::new).collect()
                    }
                },
            }
        };
        let data = devices.counted.iter().map(watched(true));
        Self(data.chain(devices.below.iter().map(watched(false))).collect())
    }

    /// None if there are no devices, or one of the data's is not listed: part of a sum is no sum.
    pub fn sample(&mut self, diskstats: &str) -> Option<Vec<DeviceUse>> {
        let lines: Vec<DiskstatsLine> = diskstats.lines().filter_map(DiskstatsLine::of).collect();
        let mut disks = Vec::with_capacity(self.0.len());
        let mut is_whole = true;
        for watched in &mut self.0 {
            match watched.sample(&lines) {
                Some(counted) => disks.push(counted),
                None => is_whole &= !watched.data,
            }
        }
        (is_whole && !disks.is_empty()).then_some(disks)
    }
}

impl WatchedDisk {
    /// None if it is not listed, or one of its paths.
    fn sample(&mut self, listed: &[DiskstatsLine]) -> Option<DeviceUse> {
        let mut sum = DeviceUse {
            name: self.name.clone(),
            data: self.data,
            of_others: self.of_others,
            ..DeviceUse::default()
        };
        let mut is_whole = true;
        let mut flushes = 0;
        for line in &mut self.lines {
            match listed.iter().find(|listed| line.key.is_of(listed)) {
                Some(listed) => {
                    let counted = line.sample(listed);
                    let (restarts, in_flight) =
                        (sum.restarts + counted.restarts, sum.in_flight + counted.in_flight);
                    sum = DeviceUse { restarts, in_flight, ..sum.plus(&counted) };
                    flushes += listed.field(16);
                }
                None => {
                    line.begin_anew();
                    is_whole = false;
                }
            }
        }
        if matches!(self.lines.as_slice(), [WatchedLine { key: LineKey::Number(..), .. }]) {
            // Every member of a volume gets each flush: the most that one got.
            let number = |line: &&DiskstatsLine| self.flushed_at.contains(&line.number);
            flushes = listed.iter().filter(number).map(|line| line.field(16)).max().unwrap_or(0);
        }
        sum.counts.flushes = flushes;
        is_whole.then_some(sum)
    }
}

impl LineKey {
    fn is_of(&self, line: &DiskstatsLine) -> bool {
        match self {
            Self::Number(major, minor) => line.number == (*major, *minor),
            Self::Name(name) => line.name == *name,
        }
    }
}

impl WatchedLine {
    fn new(key: LineKey) -> Self {
        Self { key, latest: None, restarts: 0, wide: WideCounters::default() }
    }

    fn begin_anew(&mut self) {
        if self.latest.take().is_some() {
            self.restarts += 1;
            self.wide = WideCounters::default();
        }
    }

    /// Counts of the line; flushes apart.
    fn sample(&mut self, line: &DiskstatsLine) -> DeviceUse {
        let now = [1, 3, 5, 7].map(|field| line.field(field));
        if self.latest.is_some_and(|then| now.iter().zip(then).any(|(now, then)| *now < then)) {
            self.begin_anew();
        }
        self.latest = Some(now);
        let counts = DeviceCounts {
            read_requests: line.field(1),
            read_bytes: line.field(3).saturating_mul(SECTOR_BYTES),
            read_ms: self.wide.read_ms.next(line.field(4)),
            write_requests: line.field(5),
            write_bytes: line.field(7).saturating_mul(SECTOR_BYTES),
            write_ms: self.wide.write_ms.next(line.field(8)),
            flushes: 0,
            busy_ms: self.wide.busy_ms.next(line.field(10)),
        };
        DeviceUse {
            counts,
            read_merges: line.field(2),
            write_merges: line.field(6),
            queue_ms: self.wide.queue_ms.next(line.field(11)),
            in_flight: line.field(9),
            restarts: self.restarts,
            ..DeviceUse::default()
        }
    }
}

/// `major minor name` and the fields of iostats.rst, which numbers them from 1.
struct DiskstatsLine {
    number: (u32, u32),
    name: String,
    fields: Vec<u64>,
}

impl DiskstatsLine {
    fn of(line: &str) -> Option<Self> {
        let mut words = line.split_ascii_whitespace();
        let number = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        let name = words.next()?.to_owned();
        let fields: Vec<u64> = words.map_while(|word| word.parse().ok()).collect();
        // The oldest kernels that petal meets have eleven.
        (fields.len() >= 11).then_some(Self { number, name, fields })
    }

    /// Kernels that do not flush by themselves yet have fewer.
    fn field(&self, number: usize) -> u64 {
        self.fields.get(number - 1).copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::devices::recorded::Recorded;
    use crate::os::Probe;
    use proptest::prelude::*;

    fn disks(tree: &str, path: &str, number: (u32, u32)) -> Option<Vec<DeviceUse>> {
        let tree = Recorded::named(tree);
        let text = std::fs::read_to_string(tree.roots().proc.join("diskstats")).unwrap();
        Disks::new(&tree.find(&[path], &[(path, number)])).sample(&text)
    }

    #[test]
    fn a_partition_is_read_by_places_and_its_flushes_from_its_disk() {
        let all = disks("nvme-partitions", "/data", (259, 2)).unwrap();
        let [disk, whole] = &all[..] else { panic!("{all:?}") };
        let counts = DeviceCounts {
            read_requests: 900,
            read_bytes: 14400 * 512,
            read_ms: 90,
            write_requests: 1800,
            write_bytes: 28800 * 512,
            write_ms: 180,
            flushes: 77,
            busy_ms: 270,
        };
        assert_eq!((disk.counts, disk.in_flight, disk.queue_ms), (counts, 1, 270));
        assert_eq!((disk.name.as_str(), disk.data), ("nvme0n1p2", true));
        assert_eq!((whole.name.as_str(), whole.data), ("nvme0n1", false));
        assert_eq!(whole.counts.read_requests, 1000);
    }

    #[test]
    fn a_volumes_flushes_are_those_of_one_member() {
        let all = disks("lvm-on-raid", "/data", (253, 0)).unwrap();
        let disk = &all[0];
        assert_eq!((disk.counts.read_requests, disk.counts.flushes), (20, 31));
    }

    #[test]
    fn several_devices_are_summed_and_one_that_is_missing_leaves_no_sum() {
        let tree = Recorded::named("lvm-on-raid");
        let found = tree.find(&["/data", "/log"], &[("/data", (253, 0)), ("/log", (253, 1))]);
        let probe = Probe::new(&found);
        let before = probe.sample();
        let members = std::fs::read_to_string(tree.roots().proc.join("diskstats")).unwrap();
        let line = |minor: u32, reads: u64| {
            format!(" 253 {minor} dm-{minor} {reads} 0 800 9 10 0 80 2 4 2 2 0 0 0 0 0 0\n")
        };
        let members = members.lines().filter(|line| !line.contains(" dm-"));
        let members: String = members.map(|line| format!("{line}\n")).collect();
        tree.write("proc/diskstats", &(members + &line(0, 120) + &line(1, 8)));
        let after = probe.sample();
        let counts = after.since(&before).device().unwrap();
        assert_eq!((counts.read_requests, counts.read_ms), (101, 14));
        assert_eq!(after.in_flight(), Some(8));
        tree.write("proc/diskstats", &line(0, 120));
        assert_eq!(probe.sample().since(&before).device(), None);
    }

    /// Native multipath of NVMe before Linux 6.4: the disk's own counts stay 0. A partition's, too.
    #[test]
    fn a_disk_of_native_nvme_multipath_has_the_sum_of_its_paths() {
        let tree = Recorded::named("nvme-multipath");
        for (path, number) in [("/data", (259, 5)), ("/log", (259, 6))] {
            let found = tree.find(&[path], &[(path, number)]);
            assert_eq!(found.names(), ["nvme0n1"], "{found:?}");
            let probe = Probe::new(&found);
            let before = probe.sample();
            let line = |name: &str, reads: u64, flushes: u64| {
                let sectors = reads * 8;
                format!(" 0 0 {name} {reads} 0 {sectors} 90 10 0 80 2 4 2 2 0 0 0 0 {flushes} 0\n")
            };
            let kept = tree.text("proc/diskstats");
            tree.write("proc/diskstats", &(line("nvme0c0n1", 17, 3) + &line("nvme0c1n1", 25, 4)));
            let after = probe.sample();
            let counts = after.since(&before).device();
            let counts = counts.map(|it| (it.read_requests, it.read_ms, it.flushes));
            assert_eq!((counts, after.in_flight()), (Some((22, 160, 2)), Some(8)));
            // A path that fails leaves no sum.
            tree.write("proc/diskstats", &line("nvme0c0n1", 18, 3));
            assert_eq!(probe.sample().since(&after).device(), None);
            tree.write("proc/diskstats", &kept);
        }
        // A kernel that counts at the disk, and its partition.
        let text = tree.text("proc/diskstats").replace(" nvme0n1 0 ", " nvme0n1 20 ");
        tree.write("proc/diskstats", &text);
        assert_eq!(tree.find(&["/log"], &[("/log", (259, 6))]).names(), ["nvme0n1p1"]);
    }

    /// A disk that is pulled and put back, in the place of the one before or with fewer counts.
    #[test]
    fn counts_of_a_removed_device_are_not_subtracted_from_its_successors() {
        let tree = Recorded::named("lvm-on-raid");
        let found = tree.find(&["/data"], &[("/data", (253, 0))]);
        let line = |reads: u64, ms: u64| {
            format!(" 253 0 dm-0 {reads} 0 {} {ms} 10 0 80 2 0 2 2 0 0 0 0 0 0\n", reads * 8)
        };
        let counted = |reads: u64, ms: u64, probe: &Probe| {
            tree.write("proc/diskstats", &line(reads, ms));
            probe.sample()
        };
        let read = |now: &crate::os::OsSample, then: &crate::os::OsSample| {
            now.since(then).device().map(|device| (device.read_requests, device.read_ms))
        };
        let probe = Probe::new(&found);
        let before = counted(1000, 500, &probe);
        let again = counted(5, 2, &probe);
        assert_eq!(read(&again, &before), None, "fewer than before: not 0, and not 2^32 ms");
        let later = counted(9, 4, &probe);
        assert_eq!(read(&later, &again), Some((4, 2)));
        assert_eq!(read(&later, &before), None);
        // Gone for a second; back with more than it had.
        tree.write("proc/diskstats", " 8 0 sda 1 0 8 1 1 0 8 1 0 1 1\n");
        assert_eq!(read(&probe.sample(), &later), None);
        let back = counted(2000, 900, &probe);
        assert_eq!(read(&back, &later), None);
        assert_eq!(read(&counted(2001, 901, &probe), &back), Some((1, 1)));
    }

    proptest! {
        #[test]
        fn a_counter_of_32_bits_goes_on_past_its_end(start: u32, steps in prop::collection::vec(0u64..1 << 32, 1..20)) {
            let mut wide = WideCounter::default();
            let mut exact = u64::from(start);
            prop_assert_eq!(wide.next(exact), exact);
            for step in steps {
                exact += step;
                prop_assert_eq!(wide.next(exact & u64::from(u32::MAX)), exact);
            }
        }
    }
}
