//! Counters of the operating system: processors, devices, memory, pressure, the network, the time
//! of petal's and the server's processes.
//!
//! A [`Probe`] takes cumulative [`OsSample`]s, cheap enough for once a second; the difference of
//! two is an [`OsInterval`]. A figure that cannot be read is `None`. One file per source.

pub mod calls;
pub mod cpu;
mod disk;
mod figures;
mod interval;
pub mod iostat;
mod memory;
mod network;
mod pressure;
mod process_io;
pub mod requests;
mod server;
pub mod threads;
pub mod time_buckets;
pub mod writes;

use std::sync::Arc;

use parking_lot::Mutex;
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use super::cgroup::{GroupClock, GroupIo, Groups, IoLimitKind};
use super::devices::{DataDevices, Roots, StorageLayer};
use super::tree::number_after;

use crate::files;

use calls::ServerCalls;
pub use cpu::{CpuShare, CpuTicks, Cpus};
use disk::Disks;
pub use disk::{DeviceCounts, DeviceUse};
pub use figures::{Counts, GaugeRanges, Gauges, Range};
pub use interval::{KernelTimes, OsInterval, Whole};
pub use memory::{MemoryPressure, available_bytes, meminfo_bytes};
use network::Interfaces;
use process_io::ProcessIo;
use requests::Requests;
pub use server::{Began, ServerProcesses, has_thread, number_inside, processes_named};
use threads::ThreadTimes;
use time_buckets::TimeSource;
use writes::WriteOrigins;

/// Reads the kernel's counters, for given devices.
#[derive(Debug)]
pub struct Probe {
    roots: Roots,
    /// The processors that the database may use; `None` if that cannot be read.
    allowed: Option<Arc<[u32]>>,
    servers: Vec<ServerProcesses>,
    /// Around the database, and around petal.
    group: WatchedGroup,
    petal_group: WatchedGroup,
    /// `None` if the network does not matter.
    interfaces: Option<Interfaces>,
    /// Remembers the samples before, because the kernel's milliseconds restart at 32 bits.
    disks: Mutex<Disks>,
    requests: Option<Box<dyn TimeSource<Requests>>>,
    calls: Option<Box<dyn TimeSource<ServerCalls>>>,
    writes: Option<Box<dyn TimeSource<WriteOrigins>>>,
    threads: Option<Box<dyn TimeSource<ThreadTimes>>>,
}

/// Location of the database, as a probe of this host sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DatabaseLocation {
    /// Inside petal's process.
    InPetal,
    /// Processes of these servers, one or more.
    In(Vec<ServerProcesses>),
    /// Other processes, here or on another host, that are not seen.
    Unseen,
}

/// Limit of a control group on processor time.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct GroupLimit {
    /// Processors' worth of time.
    pub processors: f64,
    /// The file that says so.
    pub file: String,
}

impl GroupLimit {
    fn of(groups: &Groups) -> Option<Self> {
        groups.cpu_quota().map(|(processors, file)| Self { processors, file })
    }
}

/// The control groups that grant their processes least; without a limit, none.
#[derive(Debug, Default)]
struct WatchedGroup {
    groups: Groups,
    clock: GroupClock,
    limit: Option<GroupLimit>,
    io: GroupIo,
}

impl WatchedGroup {
    fn around(roots: &Roots, process: &str, layers: &[StorageLayer]) -> Self {
        let groups = Groups::of(roots, process);
        let (limit, io) = (GroupLimit::of(&groups), groups.io(layers));
        Self { clock: groups.clock(), limit, io, groups }
    }

    /// The least of the limits at first and now.
    fn least_limit(&self) -> Option<GroupLimit> {
        let limits = [self.limit.clone(), GroupLimit::of(&self.groups)].into_iter().flatten();
        limits.min_by(|a, b| a.processors.total_cmp(&b.processors))
    }
}

/// Cumulative counts at one moment.
#[derive(Debug, Clone, Default)]
pub struct OsSample {
    at_ns: u64,
    cpus: Cpus,
    allowed: Option<Arc<[u32]>>,
    counts: Counts,
    gauges: Gauges,
    devices: Option<Vec<DeviceUse>>,
    requests: Option<Requests>,
    calls: Option<ServerCalls>,
    threads: Option<ThreadTimes>,
    log_writer_on: Option<u32>,
}

impl Probe {
    /// Watches a database inside petal's process.
    pub fn new(devices: &DataDevices) -> Self {
        Self::watching(devices, DatabaseLocation::InPetal, false)
    }

    /// Watches the processes of servers on this host too, with their processors and control group,
    /// and the network if it carries the work. For a database that is not seen no control group is
    /// known.
    pub fn watching(devices: &DataDevices, database: DatabaseLocation, network: bool) -> Self {
        let roots = devices.roots.clone();
        let is_unseen = database == DatabaseLocation::Unseen;
        let servers = match database {
            DatabaseLocation::In(servers) => servers,
            DatabaseLocation::InPetal | DatabaseLocation::Unseen => Vec::new(),
        };
        // With several servers, the first one's limits count for all.
        let first = servers.first();
        let who = first.map_or_else(|| "self".to_owned(), |server| server.parent.to_string());
        Self {
            allowed: cpu::allowed(&roots, &who).map(Into::into),
            servers,
            group: match is_unseen {
                true => WatchedGroup::default(),
                false => WatchedGroup::around(&roots, &who, &devices.layers),
            },
            petal_group: WatchedGroup::around(&roots, "self", &[]),
            interfaces: network.then(|| Interfaces::find(&roots)),
            disks: Mutex::new(Disks::new(devices)),
            requests: None,
            calls: None,
            writes: None,
            threads: None,
            roots,
        }
    }

    /// Samples the times of single requests, too.
    pub fn with_requests(mut self, source: Option<Box<dyn TimeSource<Requests>>>) -> Self {
        self.requests = source;
        self
    }

    /// Samples the times of the server's calls, too.
    pub fn with_calls(mut self, source: Option<Box<dyn TimeSource<ServerCalls>>>) -> Self {
        self.calls = source;
        self
    }

    /// Samples the bytes written to the data's devices by origin, too.
    pub fn with_writes(mut self, source: Option<Box<dyn TimeSource<WriteOrigins>>>) -> Self {
        self.writes = source;
        self
    }

    /// True if bytes written are counted by their origin.
    pub fn sees_writes(&self) -> bool {
        self.writes.is_some()
    }

    /// Samples the time of threads, too.
    pub fn with_threads(mut self, source: Option<Box<dyn TimeSource<ThreadTimes>>>) -> Self {
        self.threads = source;
        self
    }

    /// Processors by number, if known.
    pub fn allowed(&self) -> Option<&[u32]> {
        self.allowed.as_deref()
    }

    /// The least limit of the database's control group, at first and now.
    pub fn group_limit(&self) -> Option<GroupLimit> {
        self.group.least_limit()
    }

    /// The least limit of petal's own control group, which may be the same group.
    pub fn petal_group_limit(&self) -> Option<GroupLimit> {
        self.petal_group.least_limit()
    }

    pub fn sample(&self) -> OsSample {
        let stat = self.read("stat").unwrap_or_default();
        let mut counts = Counts {
            interrupts: number_after(&stat, "intr"),
            context_switches: number_after(&stat, "ctxt"),
            petal_cpu_us: Some(nanoseconds(ClockId::ProcessCPUTime) / 1000),
            ..Counts::default()
        };
        let mut gauges = Gauges {
            running: number_after(&stat, "procs_running"),
            blocked: number_after(&stat, "procs_blocked"),
            ..Gauges::default()
        };
        memory::gauges(&self.read("meminfo").unwrap_or_default(), &mut gauges);
        memory::counts(&self.read("vmstat").unwrap_or_default(), &mut counts);
        pressure::counts(|name| self.read(name), &mut counts);
        self.network(&mut counts);
        self.group(&mut counts);
        self.petal_io(&mut counts);
        self.write_origins(&mut counts);
        let log_writer_on = self.server(&mut counts, &mut gauges);
        OsSample {
            at_ns: nanoseconds(ClockId::Monotonic),
            cpus: Cpus::of(&stat).allow(self.allowed()),
            allowed: self.allowed.clone(),
            devices: self.read("diskstats").and_then(|text| self.disks.lock().sample(&text)),
            requests: self.requests.as_ref().and_then(|source| source.sample()),
            calls: self.calls.as_ref().and_then(|source| source.sample()),
            threads: self.threads.as_ref().and_then(|source| source.sample()),
            counts,
            gauges,
            log_writer_on,
        }
    }

    fn network(&self, counts: &mut Counts) {
        let Some(interfaces) = &self.interfaces else { return };
        interfaces.sum(&self.read("net/dev").unwrap_or_default(), counts);
        network::segments(&self.read("net/snmp").unwrap_or_default(), counts);
    }

    fn group(&self, counts: &mut Counts) {
        let time = self.group.clock.read();
        counts.group_used_us = time.used_us;
        counts.group_periods = time.periods;
        counts.group_throttled_periods = time.throttled_periods;
        counts.group_throttled_us = time.throttled_us;
        let io = &self.group.io;
        counts.group_read_requests = io.read(IoLimitKind::ReadRequests);
        counts.group_write_requests = io.read(IoLimitKind::WriteRequests);
        counts.group_read_bytes = io.read(IoLimitKind::ReadBytes);
        counts.group_write_bytes = io.read(IoLimitKind::WriteBytes);
        let petal = self.petal_group.clock.read();
        counts.petal_group_used_us = petal.used_us;
        counts.petal_group_periods = petal.periods;
        counts.petal_group_throttled_periods = petal.throttled_periods;
        counts.petal_group_throttled_us = petal.throttled_us;
    }

    fn petal_io(&self, counts: &mut Counts) {
        let io = ProcessIo::read(&self.roots.proc, "self");
        counts.petal_read_bytes = io.map(|io| io.read_bytes);
        counts.petal_write_bytes = io.map(|io| io.write_bytes);
        counts.petal_call_read_bytes = io.map(|io| io.call_read_bytes);
    }

    fn write_origins(&self, counts: &mut Counts) {
        let origins = self.writes.as_ref().and_then(|source| source.sample());
        counts.written_by_file_system_bytes = origins.map(|origins| origins.file_system);
        counts.written_to_log_bytes = origins.map(|origins| origins.log);
        counts.written_to_data_bytes = origins.map(|origins| origins.data);
        counts.written_directly_bytes = origins.map(|origins| origins.direct);
        counts.written_by_others_bytes = origins.map(|origins| origins.others);
    }

    /// Returns the processor that the log writer last ran on.
    fn server(&self, counts: &mut Counts, gauges: &mut Gauges) -> Option<u32> {
        let used = ServerProcesses::used_by_all(&self.servers, &self.roots)?;
        counts.server_cpu_us = Some(used.cpu_us);
        counts.server_read_bytes = used.io.map(|io| io.read_bytes);
        counts.server_write_bytes = used.io.map(|io| io.write_bytes);
        counts.server_call_read_bytes = used.io.map(|io| io.call_read_bytes);
        gauges.server_processes = Some(used.processes);
        let (cpu_us, processor) = used.log_writer?;
        counts.log_writer_cpu_us = Some(cpu_us);
        Some(processor)
    }

    fn read(&self, name: &str) -> Option<String> {
        files::system_text(self.roots.proc.join(name)).ok()
    }
}

impl OsSample {
    /// Page-cache pages not yet on their way or not yet there: Dirty plus Writeback.
    pub fn dirty_bytes(&self) -> Option<u64> {
        let gauges = &self.gauges;
        gauges.dirty_bytes.zip(gauges.writeback_bytes).map(|(dirty, writeback)| dirty + writeback)
    }

    /// Requests that the data's devices have not yet answered.
    pub fn in_flight(&self) -> Option<u64> {
        let data = self.devices.as_ref()?.iter().filter(|device| device.data);
        Some(data.map(|device| device.in_flight).sum())
    }

    pub fn since(&self, earlier: &Self) -> OsInterval {
        let seconds = self.at_ns.saturating_sub(earlier.at_ns) as f64 / 1e9;
        let cpus = self.cpus.since(&earlier.cpus);
        let devices = self.devices.as_ref().zip(earlier.devices.as_ref()).map(|(now, then)| {
            let between = now.iter().map(|device| {
                let before = then.iter().find(|known| known.name == device.name);
                (device.data, before.and_then(|before| device.since(before)))
            });
            // Part of the data's devices is no sum; devices below are not added up.
            let summed = between.filter(|(data, known)| *data || known.is_some());
            summed.map(|(_, known)| known).collect::<Option<Vec<DeviceUse>>>()
        });
        let devices = devices.flatten();
        let requests = self.requests.as_ref().zip(earlier.requests.as_ref());
        let calls = self.calls.as_ref().zip(earlier.calls.as_ref());
        let threads = self.threads.as_ref().zip(earlier.threads.as_ref());
        OsInterval {
            seconds,
            busiest_cpu: cpus.busiest(self.allowed.as_deref()),
            cpus,
            log_writer_on: self.log_writer_on.map(|cpu| (cpu, seconds)).into_iter().collect(),
            counts: self.counts.since(&earlier.counts),
            gauges: self.gauges,
            devices,
            requests: requests.and_then(|(now, then)| now.since(then)),
            calls: calls.and_then(|(now, then)| now.since(then)),
            threads: threads.and_then(|(now, then)| now.since(then)),
        }
    }

    /// Drops the figures that only the next interval needs: a long run keeps many samples.
    pub fn forget_details(&mut self) {
        self.cpus.each = Vec::new();
        self.requests = None;
        self.calls = None;
        self.threads = None;
    }
}

/// The time of one of the kernel's clocks.
pub fn nanoseconds(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::devices::recorded::Recorded;
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
            (interval.gauges.dirty_bytes, interval.gauges.writeback_bytes),
            (Some(8 << 10), Some(4 << 10))
        );
        tree.write("proc/meminfo", "Dirty: 8 kB\n");
        assert_eq!(probe.sample().dirty_bytes(), None);
    }

    #[test]
    fn a_missing_file_is_unknown() {
        let tree = Recorded::of("");
        let probe = Probe::new(&tree.find(&[], &[]));
        let interval = probe.sample().since(&probe.sample());
        assert_eq!((interval.cpu(), interval.device(), interval.busiest_cpu), (None, None, None));
        assert_eq!((interval.gauges, interval.cpus), (Gauges::default(), Cpus::default()));
        let petal_cpu_us = interval.counts.petal_cpu_us;
        assert_eq!(interval.counts, Counts { petal_cpu_us, ..Counts::default() });
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
        assert_eq!(interval.cpu().unwrap().user, 100.0);
        assert_eq!(interval.cpus.host.unwrap().share().unwrap().user, 50.0);
        assert_eq!(interval.busiest_cpu, Some((1, 100.0)));
        assert_eq!(interval.cpus.each.len(), 2, "each processor is reported");
    }

    /// A recorded server with its own processes, control group and processors.
    #[test]
    fn a_server_is_seen_through_its_own_limits() {
        let tree = Recorded::named("server-in-a-group");
        let server = ServerProcesses { parent: 700, log_writer: Some(702) };
        let devices = tree.find(&["/data"], &[("/data", (8, 1))]);
        // petal is in another group, which has used up its limit.
        tree.write("/proc/self/cgroup", "0::/petal\n");
        tree.write("/sys/fs/cgroup/petal/cgroup.procs", "1");
        tree.write("/sys/fs/cgroup/petal/cpu.max", "50000 100000");
        let petal_waited = |periods: u64| {
            let text = format!(
                "usage_usec {periods}00000\nnr_periods {periods}\nnr_throttled {periods}\nthrottled_usec {periods}\n"
            );
            tree.write("/sys/fs/cgroup/petal/cpu.stat", &text);
        };
        petal_waited(10);
        let probe = Probe::watching(&devices, DatabaseLocation::In(vec![server]), true);
        assert_eq!(probe.allowed(), Some(&[2, 3][..]));
        let limit = |limit: Option<GroupLimit>| limit.map(|limit| limit.processors);
        assert_eq!(
            (limit(probe.group_limit()), limit(probe.petal_group_limit())),
            (Some(1.5), Some(0.5))
        );
        let unseen = Probe::watching(&devices, DatabaseLocation::Unseen, false);
        assert_eq!(
            (limit(unseen.group_limit()), limit(unseen.petal_group_limit())),
            (None, Some(0.5))
        );
        assert_eq!(unseen.sample().counts.group_periods, None);
        let before = probe.sample();
        petal_waited(13);
        tree.write(
            "/sys/fs/cgroup/pg/cpu.stat",
            "usage_usec 1500000\nnr_periods 30\nnr_throttled 12\nthrottled_usec 700000\n",
        );
        let stat = std::fs::read_to_string(tree.roots().proc.join("702/stat")).unwrap();
        tree.write("/proc/702/stat", &stat.replace(" 100 50 0 0 ", " 190 60 0 0 "));
        let interval = probe.sample().since(&before);
        let counts = interval.counts;
        assert_eq!(
            (counts.server_cpu_us, counts.log_writer_cpu_us),
            (Some(1_000_000), Some(1_000_000))
        );
        assert_eq!(interval.log_writer_on.iter().map(|(cpu, _)| *cpu).collect::<Vec<_>>(), [3]);
        assert_eq!(interval.gauges.server_processes, Some(3));
        assert_eq!(
            (counts.group_used_us, counts.group_throttled_periods),
            (Some(500_000), Some(10))
        );
        assert_eq!(
            (counts.petal_group_used_us, counts.petal_group_throttled_periods),
            (Some(300_000), Some(3))
        );
        assert_eq!(counts.without_petal().petal_group_throttled_periods, None);
        assert_eq!((counts.received_bytes, counts.resent_segments), (Some(0), Some(0)));
        let names: Vec<&str> =
            interval.devices.iter().flatten().map(|device| device.name.as_str()).collect();
        assert_eq!(names, ["sda1", "sda"]);
    }

    #[test]
    fn this_kernel_is_understood() {
        let devices = crate::devices::find(&[std::env::current_dir().unwrap()]);
        let probe = Probe::new(&devices);
        let before = probe.sample();
        let busy: u64 = (0..30_000_000u64).fold(0, |sum, n| sum ^ n.wrapping_mul(sum | 1));
        assert_ne!(busy, 1);
        let after = probe.sample();
        let interval = after.since(&before);
        assert!(interval.petal_cpu_s().unwrap() > 0.0 && interval.seconds > 0.0);
        assert_eq!(interval.device().is_some(), !devices.counted.is_empty());
        assert!(after.dirty_bytes().is_some() && after.cpus.host.is_some());
        assert!(interval.counts.interrupts.is_some() && interval.counts.major_faults.is_some());
        assert!(interval.gauges.running.unwrap() >= 1, "{:?}", interval.gauges);
    }

    proptest! {
        #[test]
        fn no_text_upsets_the_readers(text in "\\PC{0,200}") {
            let _ = (Cpus::of(&text), Disks::default().sample(&text), number_after(&text, ""));
        }
    }
}
