//! An object of programs that count times in histograms, loaded into the kernel.

use std::fs;
use std::path::Path;
use std::sync::OnceLock;

use aya::maps::{Array, Map, MapData, MapError, PerCpuArray};
use aya::programs::BtfTracePoint;
use aya::{Btf, Ebpf, EbpfLoader};
use parking_lot::Mutex;

use petal_host::files;
use petal_host::os::DatabaseLocation;
use petal_host::os::time_buckets::{BUCKETS, TimeBuckets};

const KERNEL_TYPES: &str = "/sys/kernel/btf/vmlinux";

// The same numbers are in common.bpf.h.
const OWNERS_MAX: usize = 8;
const CACHED: usize = 128;

/// Bits of a process's capabilities, from capabilities(7).
const CAP_SYS_ADMIN: u32 = 21;
const CAP_PERFMON: u32 = 38;
const CAP_BPF: u32 = 39;
/// Inode of the first namespace of processes, which the kernel's numbers of processes belong to.
const FIRST_NAMESPACE: &str = "pid:[4026531836]";

/// Processes of a database; none if they are unknown.
#[derive(Debug, PartialEq, Eq)]
pub struct DatabasePids {
    processes: Vec<u32>,
    with_children: bool,
}

impl DatabasePids {
    /// None of them if the kernel numbers processes in another way than petal sees them.
    pub fn of(database: &DatabaseLocation) -> Self {
        let none = Self { processes: Vec::new(), with_children: false };
        let namespace = fs::read_link("/proc/self/ns/pid").unwrap_or_default();
        if namespace != Path::new(FIRST_NAMESPACE) {
            return none;
        }
        match database {
            DatabaseLocation::InPetal => {
                Self { processes: vec![std::process::id()], with_children: false }
            }
            DatabaseLocation::In(servers) if servers.len() <= OWNERS_MAX => {
                let processes = servers.iter().map(|server| server.parent).collect();
                Self { processes, with_children: true }
            }
            DatabaseLocation::In(_) | DatabaseLocation::Unseen => none,
        }
    }

    pub fn are_known(&self) -> bool {
        !self.processes.is_empty()
    }
}

/// Programs that count while this lives. `HISTOGRAMS` and `STATE` are the sizes of both structures
/// of the program, in numbers of 64 bits.
pub struct BpfHistograms<const HISTOGRAMS: usize, const STATE: usize> {
    series: PerCpuArray<MapData, [u64; HISTOGRAMS]>,
    state: Array<MapData, [u64; STATE]>,
    caches: Mutex<Array<MapData, [u64; CACHED]>>,
    _programs: Ebpf,
}

/// Cumulative times of a series of the program.
pub struct CountedSeries {
    pub number: usize,
    pub times: Vec<TimeBuckets>,
}

/// An event of the kernel, and the name of the program for it.
pub struct ProgramFor<'a> {
    pub event: &'a str,
    pub name: &'a str,
}

/// Checks rights and kernel first, because loading costs a tenth of a second.
pub fn may_load() -> Result<(), String> {
    let status = files::system_text("/proc/self/status").unwrap_or_default();
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

impl<const HISTOGRAMS: usize, const STATE: usize> BpfHistograms<HISTOGRAMS, STATE> {
    /// Loads the object with room for so many series, and with the program's own `globals`.
    pub fn load(
        object: &[u8],
        series: usize,
        owners: &DatabasePids,
        programs: &[ProgramFor<'_>],
        globals: &[(&str, Vec<u8>)],
    ) -> Result<Self, String> {
        let kernel = kernel_types()?;
        let mut processes = [0u32; OWNERS_MAX];
        processes.iter_mut().zip(&owners.processes).for_each(|(place, owner)| *place = *owner);
        let with_children = u32::from(owners.with_children);
        let mut loader = EbpfLoader::new();
        for (name, bytes) in globals {
            loader.override_global(name, bytes.as_slice(), true);
        }
        let mut loaded = loader
            .map_max_entries("series", series as u32)
            .btf(Some(kernel))
            .override_global("owners", &processes, true)
            .override_global("with_children", &with_children, true)
            .load(object)
            .map_err(|error| why(&error))?;
        for program in programs {
            attach(&mut loaded, kernel, program)?;
        }
        Ok(Self {
            series: map(&mut loaded, "series")?,
            state: map(&mut loaded, "state")?,
            caches: Mutex::new(map(&mut loaded, "caches")?),
            _programs: loaded,
        })
    }

    /// Reads each series with a count, and how many times were lost.
    pub fn read(&self) -> Result<(Vec<CountedSeries>, u64), MapError> {
        self.caches.lock().set(0, [0; CACHED], 0)?;
        let state = self.state.get(&0, 0)?;
        let (lost, active) = (state[0], &state[1..]);
        let mut all = Vec::new();
        for (number, _) in active.iter().enumerate().filter(|(_, flag)| **flag > 0) {
            let mut sum = vec![0u64; HISTOGRAMS];
            for counts in self.series.get(&(number as u32), 0)?.iter() {
                sum.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
            }
            let (totals, buckets) = sum.split_at(HISTOGRAMS / (1 + BUCKETS));
            let times = totals.iter().zip(buckets.chunks(BUCKETS));
            let times = times.map(|(total_ns, counts)| TimeBuckets::of_counts(*total_ns, counts));
            all.push(CountedSeries { number, times: times.collect() });
        }
        Ok((all, lost))
    }
}

/// Types of the running kernel, read once: a tenth of a second each time.
fn kernel_types() -> Result<&'static Btf, String> {
    static TYPES: OnceLock<Btf> = OnceLock::new();
    match TYPES.get() {
        Some(types) => Ok(types),
        None => {
            let types = Btf::from_sys_fs().map_err(|error| why(&error))?;
            Ok(TYPES.get_or_init(|| types))
        }
    }
}

/// A global of the program, an array of numbers.
pub fn bytes<const N: usize, const WIDTH: usize>(numbers: [[u8; WIDTH]; N]) -> Vec<u8> {
    numbers.concat()
}

fn map<M: TryFrom<Map, Error = MapError>>(programs: &mut Ebpf, name: &str) -> Result<M, String> {
    let map = programs.take_map(name).ok_or_else(|| format!("the program has no map {name}"))?;
    M::try_from(map).map_err(|error| why(&error))
}

fn attach(programs: &mut Ebpf, kernel: &Btf, wanted: &ProgramFor<'_>) -> Result<(), String> {
    let ProgramFor { event, name } = wanted;
    let program = programs.program_mut(name).ok_or_else(|| format!("no program for {event}"))?;
    let attached = <&mut BtfTracePoint>::try_from(program).and_then(|program| {
        program.load(event, kernel)?;
        program.attach()
    });
    attached.map(|_| ()).map_err(|error| format!("{event}: {}", why(&error)))
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
    use petal_host::os::ServerProcesses;

    #[test]
    fn unknown_processes_are_not_others() {
        let server = |parent| ServerProcesses { parent, log_writer: None };
        assert!(!DatabasePids::of(&DatabaseLocation::Unseen).are_known());
        let many = (1..=9).map(server).collect();
        assert!(!DatabasePids::of(&DatabaseLocation::In(many)).are_known(), "they do not fit");
        let found = DatabasePids::of(&DatabaseLocation::In(vec![server(7)]));
        let known = DatabasePids { processes: vec![7], with_children: true };
        assert!(found == known || !found.are_known(), "in a container: {found:?}");
    }
}
