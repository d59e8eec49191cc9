//! Times of single requests at block devices, for any database: the kernel counts them in
//! histograms ([`bpf/requests.bpf.c`](../bpf/requests.bpf.c)), and petal reads these once a second.
//!
//! The programs are raw tracepoints that find the kernel's structures by the type information of
//! the running kernel, so that one object serves kernels from 5.4 on and needs no mounted tracefs.

use std::fmt;
use std::fs;
use std::path::Path;

use aya::maps::{Array, MapData, MapError, PerCpuArray};
use aya::programs::RawTracePoint;
use aya::{Ebpf, EbpfLoader};
use parking_lot::Mutex;

use petal_model::stats::devices::DataDevices;
use petal_model::stats::os::DatabaseLocation;
use petal_model::stats::os::requests::{
    BUCKETS, RequestKind, RequestSource, RequestTimes, Requests, TimeBuckets,
};

/// The program, compiled by `bpf/build.sh`.
pub const OBJECT: &[u8] = aya::include_bytes_aligned!("../bpf/requests.bpf.o");
const KERNEL_TYPES: &str = "/sys/kernel/btf/vmlinux";

// The same numbers are in requests.bpf.c.
const DEVICES_MAX: usize = 16;
const OWNERS_MAX: usize = 8;
const QUEUES: usize = 64;
/// Read, write, flush and discard, each by the database's processes and by others.
const SERIES_PER_DEVICE: usize = 8;
const SERIES_MAX: usize = DEVICES_MAX * SERIES_PER_DEVICE;
/// The number of no device.
const NO_DEVICE: u32 = u32::MAX;

/// Bits of a process's capabilities, from capabilities(7).
const CAP_SYS_ADMIN: u32 = 21;
const CAP_PERFMON: u32 = 38;
const CAP_BPF: u32 = 39;
/// Inode of the first namespace of processes, which the kernel's numbers of processes belong to.
const FIRST_NAMESPACE: &str = "pid:[4026531836]";

/// Both sums, then the buckets of service and of queue.
type KernelHistograms = [u64; 2 + 2 * BUCKETS];
/// Lost requests, then a flag for each series with requests.
type KernelState = [u64; 1 + SERIES_MAX];

/// Programs that count while this lives.
struct RequestWatch {
    /// Names of the devices, in the program's order.
    devices: Vec<String>,
    knows_database: bool,
    series: PerCpuArray<MapData, KernelHistograms>,
    state: Array<MapData, KernelState>,
    queues: Mutex<Array<MapData, [u64; QUEUES]>>,
    _programs: Ebpf,
}

/// Begins to time the requests of these devices and of the disks below them. An error is the
/// reason in a line: rights, kernel or devices are missing.
pub fn watch(
    devices: &DataDevices,
    database: &DatabaseLocation,
) -> Result<Box<dyn RequestSource>, String> {
    let watched: Vec<(String, u32)> = devices
        .counted
        .iter()
        .chain(&devices.below)
        .map(|device| (device.name.clone(), device.major << 20 | device.minor))
        .collect();
    if watched.is_empty() {
        return Err("the data have no device that is seen here".to_owned());
    }
    if watched.len() > DEVICES_MAX {
        return Err(format!("the data lie on {} devices, over {DEVICES_MAX}", watched.len()));
    }
    may_load()?;
    let (owners, has_children) = owners(database);
    let watch = RequestWatch::load(watched, owners, has_children)?;
    Ok(Box::new(watch))
}

/// Checks rights and kernel first, because loading costs a tenth of a second.
fn may_load() -> Result<(), String> {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let held = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let held = held.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok()).unwrap_or(0);
    let has = |bit: u32| held >> bit & 1 == 1;
    if !(has(CAP_SYS_ADMIN) || has(CAP_BPF) && has(CAP_PERFMON)) {
        return Err("it needs root, or the capabilities CAP_BPF and CAP_PERFMON".to_owned());
    }
    match Path::new(KERNEL_TYPES).exists() {
        true => Ok(()),
        false => Err(format!(
            "the kernel does not describe its types: {KERNEL_TYPES} is missing \
             (CONFIG_DEBUG_INFO_BTF)"
        )),
    }
}

/// Processes of the database, and whether their children belong to it; none if they are unknown or
/// the kernel numbers processes in another way than petal sees them.
fn owners(database: &DatabaseLocation) -> (Vec<u32>, bool) {
    let namespace = fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    if namespace != Path::new(FIRST_NAMESPACE) {
        return (Vec::new(), false);
    }
    match database {
        DatabaseLocation::InPetal => (vec![std::process::id()], false),
        DatabaseLocation::In(servers) if servers.len() <= OWNERS_MAX => {
            (servers.iter().map(|server| server.parent).collect(), true)
        }
        DatabaseLocation::In(_) | DatabaseLocation::Unseen => (Vec::new(), false),
    }
}

impl RequestWatch {
    fn load(
        watched: Vec<(String, u32)>,
        owners: Vec<u32>,
        has_children: bool,
    ) -> Result<Self, String> {
        let mut numbers = [NO_DEVICE; DEVICES_MAX];
        numbers.iter_mut().zip(&watched).for_each(|(place, (_, number))| *place = *number);
        let mut processes = [0; OWNERS_MAX];
        processes.iter_mut().zip(&owners).for_each(|(place, process)| *place = *process);
        let with_children = u32::from(has_children);
        let mut programs = EbpfLoader::new()
            .override_global("devices", &numbers, true)
            .override_global("owners", &processes, true)
            .override_global("with_children", &with_children, true)
            .map_max_entries("series", (watched.len() * SERIES_PER_DEVICE) as u32)
            .load(OBJECT)
            .map_err(|error| why(&error))?;
        // In reverse: a request that is inserted meanwhile only lacks its time in the queue.
        attach(&mut programs, &["complete"], "block_rq_complete")?;
        attach(&mut programs, &["issue_2", "issue"], "block_rq_issue")?;
        attach(&mut programs, &["insert_2", "insert"], "block_rq_insert")?;
        Ok(Self {
            devices: watched.into_iter().map(|(name, _)| name).collect(),
            knows_database: !owners.is_empty(),
            series: map(&mut programs, "series")?,
            state: map(&mut programs, "state")?,
            queues: Mutex::new(map(&mut programs, "queues")?),
            _programs: programs,
        })
    }

    fn read(&self) -> Result<Requests, MapError> {
        self.queues.lock().set(0, [0; QUEUES], 0)?;
        let state = self.state.get(&0, 0)?;
        let (lost, active) = (state[0], &state[1..]);
        let mut requests = Requests { times: Vec::new(), lost };
        let all = self.devices.len() * SERIES_PER_DEVICE;
        for (at, _) in active.iter().take(all).enumerate().filter(|(_, flag)| **flag > 0) {
            let mut sum = vec![0u64; 2 + 2 * BUCKETS];
            for counts in self.series.get(&(at as u32), 0)?.iter() {
                sum.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
            }
            let (service, queue) = sum[2..].split_at(BUCKETS);
            let (device, place) = (at / SERIES_PER_DEVICE, at % SERIES_PER_DEVICE);
            requests.times.push(RequestTimes {
                device: self.devices[device].clone(),
                kind: RequestKind::ALL[place / 2],
                of_database: self.knows_database.then_some(place % 2 == 1),
                service: TimeBuckets::of_counts(sum[0], service),
                queue: TimeBuckets::of_counts(sum[1], queue),
            });
        }
        Ok(requests)
    }
}

impl fmt::Debug for RequestWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RequestWatch").field("devices", &self.devices).finish_non_exhaustive()
    }
}

impl RequestSource for RequestWatch {
    fn sample(&self) -> Option<Requests> {
        self.read().ok()
    }
}

fn map<M: TryFrom<aya::maps::Map, Error = MapError>>(
    programs: &mut Ebpf,
    name: &str,
) -> Result<M, String> {
    let map = programs.take_map(name).ok_or_else(|| format!("the program has no map {name}"))?;
    M::try_from(map).map_err(|error| why(&error))
}

/// Attaches the first of these programs that the kernel takes for an event.
fn attach(programs: &mut Ebpf, names: &[&str], event: &str) -> Result<(), String> {
    let mut refused = format!("the program has nothing for {event}");
    for name in names {
        let Some(program) = programs.program_mut(name) else { continue };
        let attached = <&mut RawTracePoint>::try_from(program).and_then(|program| {
            program.load()?;
            // A program that stays loaded without an event costs nothing.
            program.attach(event)
        });
        match attached {
            Ok(_) => return Ok(()),
            Err(error) => refused = format!("{event}: {}", why(&error)),
        }
    }
    Err(refused)
}

/// An error with its causes, in a line.
fn why(error: &dyn std::error::Error) -> String {
    let mut line = String::new();
    let mut next = Some(error);
    while let Some(error) = next {
        // The kernel's account of a program is many lines.
        let text = error.to_string();
        let first = text.lines().next().unwrap_or_default();
        if !line.contains(first) {
            line += if line.is_empty() { "" } else { ": " };
            line += first;
        }
        next = error.source();
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use petal_model::stats::os::ServerProcesses;

    #[test]
    fn unknown_processes_are_not_others() {
        let server = |parent| ServerProcesses { parent, log_writer: None };
        assert_eq!(owners(&DatabaseLocation::Unseen), (vec![], false));
        let many = (1..=9).map(server).collect();
        assert_eq!(owners(&DatabaseLocation::In(many)), (vec![], false), "they do not fit");
        let found = owners(&DatabaseLocation::In(vec![server(7)]));
        assert!(found == (vec![7], true) || found == (vec![], false), "in a container: {found:?}");
    }

    #[test]
    fn data_without_a_device_have_no_times() {
        let error = watch(&DataDevices::default(), &DatabaseLocation::InPetal).unwrap_err();
        assert!(error.contains("no device"), "{error}");
    }
}
