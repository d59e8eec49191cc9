//! The facts of this host: kernel, processors, memory, limits, and the devices behind the data.
//!
//! Read once, from the trees that the kernel shows; nothing here judges them (analysis does) or
//! changes anything. What cannot be read or understood is None, and nothing fails. Sources:
//! proc(5), proc_meminfo(5), and in the kernel's Documentation: ABI/stable/sysfs-block,
//! admin-guide/pm/cpuidle.rst and cpufreq.rst, admin-guide/cgroup-v2.rst, scheduler/sched-bwc.rst.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::devices::{BlockDevice, DataDevices, Roots};
use super::os::meminfo_bytes;

/// /sys counts a device's size in sectors of this size, whatever the device's own.
const SECTOR_BYTES: u64 = 512;
/// The first cgroup hierarchy writes "no limit" as the largest number of whole pages.
const UNLIMITED_BYTES: u64 = 1 << 62;
/// Volumes on RAIDs on partitions: no real stack is deeper, and a circle must end.
const DEEPEST_STACK: usize = 8;

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Host {
    pub name: String,
    pub kernel: String,
    /// Processors that petal may use.
    pub cpus: u32,
    pub cpu_model: Option<String>,
    pub memory_bytes: Option<u64>,
    /// Those that hold the data, each followed by what it lies on where that is another's member.
    pub devices: Vec<Device>,
    /// petal's own control group, where its limits can be read: a limit of None is then none.
    #[serde(default)]
    pub cgroup: Option<String>,
    /// Processors' worth of time that the control groups grant.
    #[serde(default)]
    pub cpu_quota: Option<f64>,
    /// The file that grants so little.
    #[serde(default)]
    pub cpu_quota_file: Option<String>,
    #[serde(default)]
    pub memory_limit_bytes: Option<u64>,
    #[serde(default)]
    pub memory_limit_file: Option<String>,
    /// Of the processors' clocks; several where processors differ.
    #[serde(default)]
    pub governor: Option<String>,
    #[serde(default)]
    pub deepest_idle: Option<IdleState>,
    #[serde(default)]
    pub swap_total_bytes: Option<u64>,
    #[serde(default)]
    pub swap_used_bytes: Option<u64>,
    /// Transparent ones: always, madvise or never.
    #[serde(default)]
    pub huge_pages: Option<String>,
    /// Tasks running or waiting for a device, over the last minute.
    #[serde(default)]
    pub load_average: Option<f64>,
    #[serde(default)]
    pub clock_source: Option<String>,
    #[serde(default)]
    pub virtual_machine: Option<bool>,
    /// Maker and product, as the firmware tells.
    #[serde(default)]
    pub product: Option<String>,
    /// Software RAIDs being rebuilt, reshaped or checked; empty where none is.
    #[serde(default)]
    pub raid_resyncs: Option<Vec<RaidResync>>,
    /// Per cent of memory; 0 where the limit is set in bytes instead.
    #[serde(default)]
    pub dirty_ratio: Option<u64>,
    #[serde(default)]
    pub dirty_background_ratio: Option<u64>,
    /// Data files whose device is not seen, and why.
    #[serde(default)]
    pub unseen: Vec<String>,
}

/// A processor's deepest enabled rest, and how long it takes to wake from it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct IdleState {
    pub name: String,
    pub latency_us: u64,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RaidResync {
    pub device: String,
    /// In the kernel's words: `recovery 12.6%`, `resync DELAYED`.
    pub work: String,
}

/// A device behind the data.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Device {
    /// As /proc/diskstats prints it.
    pub name: String,
    pub model: Option<String>,
    pub file_system: Option<String>,
    /// Of requests: the one in use.
    pub scheduler: Option<String>,
    pub rotational: Option<bool>,
    pub write_cache: Option<String>,
    pub size_bytes: Option<u64>,
    #[serde(default)]
    pub mount_options: Option<String>,
    #[serde(default)]
    pub read_ahead_bytes: Option<u64>,
    #[serde(default)]
    pub nr_requests: Option<u64>,
    /// Disks, members or the file below it, by name; itself if it is whole.
    #[serde(default)]
    pub lies_on: Vec<String>,
    /// Whose queue its requests stand in: a partition's disk, else itself.
    #[serde(default)]
    pub disk: Option<String>,
    /// What its file system holds, and what of it ordinary users may still fill.
    #[serde(default)]
    pub file_system_bytes: Option<u64>,
    #[serde(default)]
    pub free_bytes: Option<u64>,
}

impl Host {
    /// Of this machine, or of the trees that the devices were found in.
    pub fn collect(devices: Option<&DataDevices>) -> Self {
        let roots = devices.map_or_else(Roots::default, |devices| devices.roots.clone());
        Self::collect_under(&roots, devices)
    }

    /// The same from given trees; name, kernel release and processors are always this machine's.
    pub fn collect_under(roots: &Roots, devices: Option<&DataDevices>) -> Self {
        let system = rustix::system::uname();
        let cpuinfo = read(&roots.proc.join("cpuinfo"));
        let meminfo = read(&roots.proc.join("meminfo"));
        let memory = |key: &str| meminfo_bytes(meminfo.as_deref()?, key);
        let groups = Groups::of_this_process(roots);
        let cpu_quota = groups.cpu_quota();
        let memory_limit = groups.memory_limit();
        let swap = memory("SwapTotal").zip(memory("SwapFree"));
        Self {
            name: system.nodename().to_string_lossy().into_owned(),
            kernel: system.release().to_string_lossy().into_owned(),
            cpus: usable_cpus(),
            cpu_model: cpuinfo.as_deref().and_then(|text| cpuinfo_value(text, "model name")),
            memory_bytes: memory("MemTotal"),
            devices: devices.map(|found| described(roots, &found.counted)).unwrap_or_default(),
            cgroup: groups.name.clone(),
            cpu_quota: cpu_quota.as_ref().map(|limit| limit.0),
            cpu_quota_file: cpu_quota.map(|limit| limit.1),
            memory_limit_bytes: memory_limit.as_ref().map(|limit| limit.0),
            memory_limit_file: memory_limit.map(|limit| limit.1),
            governor: governor(roots),
            deepest_idle: deepest_idle(roots),
            swap_total_bytes: memory("SwapTotal"),
            swap_used_bytes: swap.map(|(total, free)| total.saturating_sub(free)),
            huge_pages: read(&roots.sys.join("kernel/mm/transparent_hugepage/enabled"))
                .and_then(|text| in_brackets(&text)),
            load_average: read(&roots.proc.join("loadavg")).and_then(|text| load_average(&text)),
            clock_source: read(
                &roots.sys.join("devices/system/clocksource/clocksource0/current_clocksource"),
            ),
            virtual_machine: cpuinfo.as_deref().and_then(runs_under_a_hypervisor),
            product: product(roots),
            raid_resyncs: read(&roots.proc.join("mdstat")).map(|text| raid_resyncs(&text)),
            dirty_ratio: number(&roots.proc.join("sys/vm/dirty_ratio")),
            dirty_background_ratio: number(&roots.proc.join("sys/vm/dirty_background_ratio")),
            unseen: devices.map(|found| found.unseen.clone()).unwrap_or_default(),
        }
    }
}

impl Device {
    /// The folder of its facts in /sys; a partition has its own, inside its disk's.
    fn read(folder: &Path, name: &str) -> Self {
        let is_partition = folder.join("partition").exists();
        let whole = if is_partition { folder.parent().unwrap_or(folder) } else { folder };
        let queue = |fact: &str| whole.join("queue").join(fact);
        let model = read(&whole.join("device/model")).or_else(|| read(&whole.join("device/name")));
        let sectors = number(&folder.join("size"));
        let read_ahead_kib = number(&queue("read_ahead_kb"));
        Self {
            name: name.to_owned(),
            model,
            scheduler: read(&queue("scheduler")).and_then(|text| scheduler(&text)),
            rotational: number(&queue("rotational")).map(|spins| spins != 0),
            write_cache: read(&queue("write_cache")),
            size_bytes: sectors.and_then(|sectors| sectors.checked_mul(SECTOR_BYTES)),
            read_ahead_bytes: read_ahead_kib.and_then(|kib| kib.checked_mul(1024)),
            nr_requests: number(&queue("nr_requests")),
            disk: whole.file_name().and_then(|disk| disk.to_str()).map(str::to_owned),
            ..Self::default()
        }
    }
}

/// A file's text without its last newline; None where it is not there, not text, or empty.
fn read(path: &Path) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let text = text.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

fn number(path: &Path) -> Option<u64> {
    read(path)?.parse().ok()
}

/// Entries of a folder that are a word and a number, as cpu0 or state3.
fn numbered(folder: &Path, word: &str) -> Vec<PathBuf> {
    let is_numbered = |name: &str| {
        name.strip_prefix(word)
            .is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|b| b.is_ascii_digit()))
    };
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .filter(|entry| entry.file_name().to_str().is_some_and(is_numbered))
        .map(|entry| entry.path())
        .collect()
}

fn usable_cpus() -> u32 {
    rustix::thread::sched_getaffinity(None).map_or_else(
        // More processors than the fixed set holds.
        |_| std::thread::available_parallelism().map_or(0, |count| count.get() as u32),
        |set| set.count(),
    )
}

/// The first line `key : value` of /proc/cpuinfo.
fn cpuinfo_value(cpuinfo: &str, key: &str) -> Option<String> {
    cpuinfo.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        (name.trim() == key).then(|| value.trim().to_owned())
    })
}

/// x86 processors tell by a flag; others have no such list.
fn runs_under_a_hypervisor(cpuinfo: &str) -> Option<bool> {
    let flags = cpuinfo_value(cpuinfo, "flags")?;
    Some(flags.split_ascii_whitespace().any(|flag| flag == "hypervisor"))
}

fn product(roots: &Roots) -> Option<String> {
    let told =
        ["sys_vendor", "product_name"].map(|fact| read(&roots.sys.join("class/dmi/id").join(fact)));
    let words: Vec<String> = told.into_iter().flatten().collect();
    (!words.is_empty()).then(|| words.join(" "))
}

/// The chosen one of a list such as `always [madvise] never`.
fn in_brackets(list: &str) -> Option<String> {
    let (_, rest) = list.split_once('[')?;
    let (chosen, _) = rest.split_once(']')?;
    (!chosen.is_empty()).then(|| chosen.to_owned())
}

/// A device without a choice prints its only scheduler bare.
fn scheduler(list: &str) -> Option<String> {
    in_brackets(list).or_else(|| {
        let mut words = list.split_ascii_whitespace();
        words.next().filter(|_| words.next().is_none()).map(str::to_owned)
    })
}

fn load_average(loadavg: &str) -> Option<f64> {
    let load: f64 = loadavg.split_ascii_whitespace().next()?.parse().ok()?;
    (load.is_finite() && load >= 0.0).then_some(load)
}

fn governor(roots: &Roots) -> Option<String> {
    let cpus = numbered(&roots.sys.join("devices/system/cpu"), "cpu");
    let governors: BTreeSet<String> =
        cpus.iter().filter_map(|cpu| read(&cpu.join("cpufreq/scaling_governor"))).collect();
    (!governors.is_empty()).then(|| governors.into_iter().collect::<Vec<_>>().join(", "))
}

/// The slowest to wake from, of those that any processor may enter.
fn deepest_idle(roots: &Roots) -> Option<IdleState> {
    let cpus = numbered(&roots.sys.join("devices/system/cpu"), "cpu");
    let states = cpus.iter().flat_map(|cpu| numbered(&cpu.join("cpuidle"), "state"));
    let enabled = states.filter_map(|state| {
        // Kernels before the switch have no such file: then all are enabled.
        if number(&state.join("disable")).is_some_and(|disabled| disabled != 0) {
            return None;
        }
        let latency_us = number(&state.join("latency"))?;
        Some(IdleState { name: read(&state.join("name"))?, latency_us })
    });
    enabled.max_by(|a, b| (a.latency_us, &a.name).cmp(&(b.latency_us, &b.name)))
}

/// /proc/mdstat: a line `md0 : ...` for an array, and under it one that tells its progress:
/// `[=>...]  recovery = 12.6% (...)`, or `resync=DELAYED`.
fn raid_resyncs(mdstat: &str) -> Vec<RaidResync> {
    let mut device = "";
    let mut found = Vec::new();
    for line in mdstat.lines() {
        if let Some((name, _)) = line.split_once(" : ").filter(|_| line.starts_with("md")) {
            device = name;
            continue;
        }
        // A bar of how far it is may stand before, itself drawn with equals signs.
        let told = line.trim_start();
        let bar = told.strip_prefix('[').and_then(|bar| bar.split_once(']'));
        let Some((word, after)) = bar.map_or(told, |(_, rest)| rest).split_once('=') else {
            continue;
        };
        let word = word.trim();
        let is_work = ["resync", "recovery", "reshape", "check", "repair"].contains(&word);
        let Some(how_far) = after.split_ascii_whitespace().next().filter(|_| is_work) else {
            continue;
        };
        let device = device.to_owned();
        found.push(RaidResync { device, work: format!("{word} {how_far}") });
    }
    found
}

/// The devices, each followed by the members below it.
fn described(roots: &Roots, counted: &[BlockDevice]) -> Vec<Device> {
    let mut devices: Vec<Device> = Vec::new();
    for block in counted {
        let link = roots.sys.join(format!("dev/block/{}:{}", block.major, block.minor));
        let folder = fs::canonicalize(link).unwrap_or_else(|_| class_folder(roots, &block.name));
        let space = space(&block.path);
        let device = Device {
            file_system_bytes: space.map(|(all, _)| all),
            free_bytes: space.map(|(_, free)| free),
            file_system: block.file_system.clone(),
            mount_options: block.mount_options.clone(),
            lies_on: block.lies_on.clone(),
            ..Device::read(&folder, &block.name)
        };
        devices.push(device);
        members(roots, &folder, DEEPEST_STACK, &mut devices);
    }
    devices
}

/// Bytes of the file system under a path, all and free.
fn space(path: &Path) -> Option<(u64, u64)> {
    let about = rustix::fs::statvfs(path).ok()?;
    let bytes = |blocks: u64| blocks.checked_mul(about.f_frsize);
    bytes(about.f_blocks).filter(|all| *all > 0).zip(bytes(about.f_bavail))
}

fn class_folder(roots: &Roots, name: &str) -> PathBuf {
    let link = roots.sys.join("class/block").join(name);
    fs::canonicalize(&link).unwrap_or(link)
}

/// Adds what a volume or RAID lies on, down to the disks, each once.
fn members(roots: &Roots, folder: &Path, levels: usize, devices: &mut Vec<Device>) {
    for name in slaves(folder) {
        if levels == 0 || devices.iter().any(|device| device.name == name) {
            continue;
        }
        let below = class_folder(roots, &name);
        let mut device = Device::read(&below, &name);
        device.lies_on = slaves(&below);
        if device.lies_on.is_empty() {
            device.lies_on = vec![device.disk.clone().unwrap_or(name)];
        }
        devices.push(device);
        members(roots, &below, levels - 1, devices);
    }
}

fn slaves(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder.join("slaves")).into_iter().flatten().flatten();
    let mut names: Vec<String> =
        entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    names
}

/// The control groups that petal is in, each with all that enclose it, innermost first.
#[derive(Default)]
struct Groups {
    name: Option<String>,
    cpu: Vec<Group>,
    memory: Vec<Group>,
}

struct Group {
    folder: PathBuf,
    /// As an administrator names the folder.
    shown: String,
}

impl Groups {
    /// From /proc/self/cgroup: `id:controllers:path`; a line without controllers is version 2,
    /// which holds whatever no line of version 1 names.
    fn of_this_process(roots: &Roots) -> Self {
        let Some(text) = read(&roots.proc.join("self/cgroup")) else {
            return Self::default();
        };
        let lines: Vec<(&str, &str)> =
            text.lines().filter_map(|line| line.split_once(':')?.1.split_once(':')).collect();
        let (cpu_path, cpu) = hierarchy(roots, &lines, "cpu").unwrap_or_default();
        let (path, memory) = hierarchy(roots, &lines, "memory").unwrap_or_default();
        let readable = !cpu.is_empty() && !memory.is_empty();
        // Where the two differ, the one that is not the top says more.
        let path = if path == "/" { cpu_path } else { path };
        Self { name: readable.then_some(path), cpu, memory }
    }

    fn cpu_quota(&self) -> Option<(f64, String)> {
        let quotas = self.cpu.iter().filter_map(|group| {
            if let Some(text) = read(&group.folder.join("cpu.max")) {
                return Some((quota(&text)?, format!("{}/cpu.max", group.shown)));
            }
            let [quota_us, period_us] = ["cpu.cfs_quota_us", "cpu.cfs_period_us"]
                .map(|file| read(&group.folder.join(file)));
            let text = format!("{} {}", quota_us?, period_us?);
            Some((quota(&text)?, format!("{}/cpu.cfs_quota_us", group.shown)))
        });
        quotas.min_by(|a, b| a.0.total_cmp(&b.0))
    }

    fn memory_limit(&self) -> Option<(u64, String)> {
        let files = ["memory.max", "memory.high", "memory.limit_in_bytes"];
        let limits = self.memory.iter().flat_map(|group| {
            files.into_iter().filter_map(|file| {
                let limit = number(&group.folder.join(file))?;
                (limit < UNLIMITED_BYTES).then(|| (limit, format!("{}/{file}", group.shown)))
            })
        });
        limits.min()
    }
}

/// The path of petal's group that a controller rules, and the groups themselves.
fn hierarchy(
    roots: &Roots,
    lines: &[(&str, &str)],
    controller: &str,
) -> Option<(String, Vec<Group>)> {
    let first = lines.iter().find(|(list, _)| list.split(',').any(|name| name == controller));
    let (list, path) = first.or_else(|| lines.iter().find(|(list, _)| list.is_empty()))?;
    let mounts = if list.is_empty() { ["", "unified"] } else { [*list, controller] };
    let groups = mounts.iter().map(|mount| enclosing(roots, mount, path));
    Some(((*path).to_owned(), groups.max_by_key(Vec::len)?))
}

/// A group and those around it, as far as they can be seen: inside a container the path that the
/// kernel tells may not be there, and the top of the tree is the container's own group.
fn enclosing(roots: &Roots, mount: &str, path: &str) -> Vec<Group> {
    let top = roots.sys.join("fs/cgroup").join(mount);
    let relative = Path::new(path.trim_start_matches('/'));
    let usable = !path.split('/').any(|part| part == "..");
    let inside = relative.ancestors().filter(|part| usable || part.as_os_str().is_empty());
    // A path outside of what is mounted here has no group of its own but the top.
    let inside = inside.chain((!usable).then_some(Path::new("")));
    let is_group =
        |folder: &Path| folder.join("cgroup.procs").exists() || folder.join("tasks").exists();
    inside
        .map(|part| (top.join(part), Path::new("/sys/fs/cgroup").join(mount).join(part)))
        .filter(|(folder, _)| is_group(folder))
        .map(|(folder, shown)| {
            let shown = shown.display().to_string().trim_end_matches('/').to_owned();
            Group { folder, shown }
        })
        .collect()
}

/// `quota period` in microseconds, in processors; `max` or -1 is no limit.
fn quota(text: &str) -> Option<f64> {
    let mut words = text.split_ascii_whitespace();
    let quota_us: u64 = words.next()?.parse().ok()?;
    let period_us: u64 = words.next()?.parse().ok()?;
    (quota_us > 0 && period_us > 0).then(|| quota_us as f64 / period_us as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::os::unix::fs::symlink;

    /// The kernel's trees, recorded.
    struct Tree(tempfile::TempDir);

    impl Tree {
        fn new(files: &[(&str, &str)]) -> Self {
            let tree = Self(tempfile::tempdir().unwrap());
            for (path, text) in files {
                tree.write(path, text);
            }
            tree
        }

        fn write(&self, path: &str, text: &str) {
            let path = self.0.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }

        fn link(&self, link: &str, target: &str) {
            let link = self.0.path().join(link);
            fs::create_dir_all(link.parent().unwrap()).unwrap();
            symlink(self.0.path().join(target), link).unwrap();
        }

        fn roots(&self) -> Roots {
            Roots { proc: self.0.path().join("proc"), sys: self.0.path().join("sys") }
        }

        fn host(&self) -> Host {
            Host::collect_under(&self.roots(), None)
        }

        fn devices(&self, name: &str, minor: u32, lies_on: &[&str]) -> Vec<Device> {
            let block = BlockDevice {
                name: name.into(),
                major: 8,
                minor,
                file_system: Some("xfs".into()),
                mount_options: Some("rw,noatime".into()),
                lies_on: lies_on.iter().map(|name| (*name).to_owned()).collect(),
                ..BlockDevice::default()
            };
            let counted = vec![block];
            let found = DataDevices { roots: self.roots(), counted, unseen: Vec::new() };
            Host::collect(Some(&found)).devices
        }

        fn disk(&self, folder: &str, queue: &[(&str, &str)]) {
            for (fact, text) in queue {
                self.write(&format!("sys/devices/{folder}/queue/{fact}"), text);
            }
            let name = Path::new(folder).file_name().unwrap().to_str().unwrap();
            self.link(&format!("sys/class/block/{name}"), &format!("sys/devices/{folder}"));
        }
    }

    const CPUINFO: &str = "processor\t: 0\nmodel name\t: Example CPU @ 2.30GHz\n\
        flags\t\t: fpu tsc hypervisor lm\n\nprocessor\t: 1\nmodel name\t: Another\n";

    #[test]
    fn a_host_is_read_from_its_trees() {
        let host = Tree::new(&[
            ("proc/cpuinfo", CPUINFO),
            ("proc/meminfo", "MemTotal: 1000 kB\nSwapTotal: 500 kB\nSwapFree:  480 kB\n"),
            ("proc/loadavg", "1.25 0.80 0.40 2/345 6789\n"),
            ("proc/sys/vm/dirty_ratio", "20\n"),
            ("proc/sys/vm/dirty_background_ratio", "10\n"),
            ("sys/devices/system/clocksource/clocksource0/current_clocksource", "tsc\n"),
            ("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n"),
            ("sys/class/dmi/id/sys_vendor", "QEMU\n"),
            ("sys/class/dmi/id/product_name", "Standard PC\n"),
            ("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "schedutil\n"),
            ("sys/devices/system/cpu/cpu1/cpufreq/scaling_governor", "performance\n"),
            ("sys/devices/system/cpu/cpufreq/scaling_governor", "no processor\n"),
        ])
        .host();
        let expected = Host {
            name: host.name.clone(),
            kernel: host.kernel.clone(),
            cpus: host.cpus,
            cpu_model: Some("Example CPU @ 2.30GHz".into()),
            memory_bytes: Some(1000 << 10),
            governor: Some("performance, schedutil".into()),
            swap_total_bytes: Some(500 << 10),
            swap_used_bytes: Some(20 << 10),
            huge_pages: Some("madvise".into()),
            load_average: Some(1.25),
            clock_source: Some("tsc".into()),
            virtual_machine: Some(true),
            product: Some("QEMU Standard PC".into()),
            dirty_ratio: Some(20),
            dirty_background_ratio: Some(10),
            ..Host::default()
        };
        assert_eq!(host, expected);
        assert!(host.cpus >= 1 && !host.kernel.is_empty());
    }

    #[test]
    fn what_is_not_there_is_not_known() {
        let host = Tree::new(&[]).host();
        let (name, kernel) = (host.name.clone(), host.kernel.clone());
        assert_eq!(host, Host { name, kernel, cpus: host.cpus, ..Host::default() });
    }

    #[test]
    fn a_processor_without_the_flag_is_no_virtual_machine() {
        assert_eq!(runs_under_a_hypervisor("flags\t: fpu tsc\n"), Some(false));
        assert_eq!(runs_under_a_hypervisor("Features\t: fp asimd\n"), None);
    }

    #[test]
    fn the_deepest_idle_state_is_the_slowest_that_is_enabled() {
        let state = |cpu: u32, number: u32, facts: [&'static str; 3]| {
            let folder = format!("sys/devices/system/cpu/cpu{cpu}/cpuidle/state{number}");
            ["name", "latency", "disable"]
                .into_iter()
                .zip(facts)
                .map(move |(fact, text)| (format!("{folder}/{fact}"), text))
        };
        let tree = Tree::new(&[]);
        let states = [
            state(0, 0, ["POLL", "0", "0"]),
            state(0, 1, ["C1E", "10", "0"]),
            state(0, 2, ["C6", "133", "1"]),
            state(11, 2, ["C3", "50", "0"]),
        ];
        states.into_iter().flatten().for_each(|(path, text)| tree.write(&path, text));
        let deepest = tree.host().deepest_idle;
        assert_eq!(deepest, Some(IdleState { name: "C3".into(), latency_us: 50 }));
    }

    #[test]
    fn limits_of_the_second_hierarchy_are_the_least_around_petal() {
        let host = Tree::new(&[
            ("proc/self/cgroup", "0::/system.slice/db.service\n"),
            ("sys/fs/cgroup/cgroup.procs", ""),
            ("sys/fs/cgroup/system.slice/cgroup.procs", ""),
            ("sys/fs/cgroup/system.slice/cpu.max", "150000 100000\n"),
            ("sys/fs/cgroup/system.slice/memory.max", "max\n"),
            ("sys/fs/cgroup/system.slice/db.service/cgroup.procs", ""),
            ("sys/fs/cgroup/system.slice/db.service/cpu.max", "max 100000\n"),
            ("sys/fs/cgroup/system.slice/db.service/memory.max", "4194304\n"),
            ("sys/fs/cgroup/system.slice/db.service/memory.high", "2097152\n"),
        ])
        .host();
        assert_eq!(host.cgroup.as_deref(), Some("/system.slice/db.service"));
        assert_eq!(host.cpu_quota, Some(1.5));
        assert_eq!(host.cpu_quota_file.as_deref(), Some("/sys/fs/cgroup/system.slice/cpu.max"));
        assert_eq!(host.memory_limit_bytes, Some(2 << 20));
        assert_eq!(
            host.memory_limit_file.as_deref(),
            Some("/sys/fs/cgroup/system.slice/db.service/memory.high")
        );
    }

    #[test]
    fn limits_of_the_first_hierarchy_are_found_by_controller() {
        let tree = Tree::new(&[
            ("proc/self/cgroup", "4:memory:/db\n2:cpu,cpuacct:/\n1:cpuset:/\n0::/\n"),
            ("sys/fs/cgroup/cpu,cpuacct/tasks", ""),
            ("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "50000\n"),
            ("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n"),
            ("sys/fs/cgroup/memory/tasks", ""),
            ("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"),
            ("sys/fs/cgroup/memory/db/tasks", ""),
            ("sys/fs/cgroup/memory/db/memory.limit_in_bytes", "1048576\n"),
        ]);
        let host = tree.host();
        assert_eq!(host.cpu_quota, Some(0.5));
        assert_eq!(host.memory_limit_bytes, Some(1 << 20));
        assert_eq!(host.cgroup.as_deref(), Some("/db"));
        tree.write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
        tree.write("sys/fs/cgroup/memory/db/memory.limit_in_bytes", "9223372036854771712\n");
        let host = tree.host();
        assert_eq!((host.cpu_quota, host.memory_limit_bytes), (None, None));
        assert!(host.cgroup.is_some());
    }

    #[test]
    fn in_a_container_the_top_is_its_own_group() {
        for path in ["/../../db.scope", "/docker/0123", "/"] {
            let host = Tree::new(&[
                ("proc/self/cgroup", &format!("0::{path}\n")),
                ("sys/fs/cgroup/cgroup.procs", ""),
                ("sys/fs/cgroup/cpu.max", "200000 100000\n"),
            ])
            .host();
            assert_eq!(host.cpu_quota, Some(2.0), "{path}");
            assert_eq!(host.cpu_quota_file.as_deref(), Some("/sys/fs/cgroup/cpu.max"));
        }
    }

    #[test]
    fn a_quota_that_makes_no_sense_is_none() {
        assert_eq!(quota("50000 100000"), Some(0.5));
        for text in ["50000 0", "0 100000", "max 100000", "-1 100000", "50000", ""] {
            assert_eq!(quota(text), None, "{text}");
        }
    }

    #[test]
    fn without_a_cgroup_tree_limits_are_not_known() {
        assert_eq!(Tree::new(&[("proc/self/cgroup", "0::/\n")]).host().cgroup, None);
    }

    #[test]
    fn resyncs_are_told_by_array() {
        let text = "Personalities : [raid1] [raid6]\n\
            md1 : active raid1 sdb1[1] sda1[0]\n      \
            976630464 blocks super 1.2 [2/1] [_U]\n      \
            [==>..................]  recovery = 12.6% (37043392/292945152) finish=127.5min\n\n\
            md2 : active raid1 sdb2[1]\n      100 blocks\n      \tresync=DELAYED\n      \
            bitmap: 1/8 pages [4KB], 65536KB chunk\n\n\
            md3 : active raid1 sdb3[1]\n      100 blocks [1/1] [U]\n\nunused devices: <none>\n";
        let resync =
            |device: &str, work: &str| RaidResync { device: device.into(), work: work.into() };
        let expected = [resync("md1", "recovery 12.6%"), resync("md2", "resync DELAYED")];
        assert_eq!(raid_resyncs(text), expected);
        let idle = Tree::new(&[("proc/mdstat", "Personalities : \nunused devices: <none>\n")]);
        assert_eq!(idle.host().raid_resyncs, Some(Vec::new()));
    }

    #[test]
    fn a_partition_reads_its_disks_queue() {
        let tree = Tree::new(&[
            ("sys/devices/nvme0n1/nvme0n1p2/partition", "2\n"),
            ("sys/devices/nvme0n1/nvme0n1p2/size", "2048\n"),
            ("sys/devices/nvme0n1/size", "9999\n"),
            ("sys/devices/nvme0n1/device/model", "Example SSD  \n"),
        ]);
        let queue = [
            ("scheduler", "none [mq-deadline] kyber\n"),
            ("rotational", "0\n"),
            ("write_cache", "write back\n"),
            ("read_ahead_kb", "128\n"),
            ("nr_requests", "256\n"),
        ];
        tree.disk("nvme0n1", &queue);
        tree.link("sys/dev/block/8:2", "sys/devices/nvme0n1/nvme0n1p2");
        let expected = Device {
            name: "nvme0n1p2".into(),
            model: Some("Example SSD".into()),
            file_system: Some("xfs".into()),
            scheduler: Some("mq-deadline".into()),
            rotational: Some(false),
            write_cache: Some("write back".into()),
            size_bytes: Some(1 << 20),
            mount_options: Some("rw,noatime".into()),
            read_ahead_bytes: Some(128 << 10),
            nr_requests: Some(256),
            lies_on: vec!["nvme0n1".into()],
            disk: Some("nvme0n1".into()),
            ..Device::default()
        };
        assert_eq!(tree.devices("nvme0n1p2", 2, &["nvme0n1"]), [expected]);
    }

    #[test]
    fn a_volumes_members_follow_it_down_to_the_disks() {
        let tree = Tree::new(&[
            ("sys/devices/dm-0/slaves/md0/x", ""),
            ("sys/devices/md0/slaves/sda1/x", ""),
            ("sys/devices/md0/slaves/sdb/x", ""),
            ("sys/devices/sda/sda1/partition", "1\n"),
        ]);
        tree.disk("dm-0", &[("scheduler", "none\n")]);
        tree.disk("md0", &[]);
        tree.disk("sda", &[("scheduler", "[bfq] none\n")]);
        tree.disk("sda/sda1", &[]);
        tree.disk("sdb", &[("scheduler", "[none] bfq\n"), ("rotational", "1\n")]);
        tree.link("sys/dev/block/8:0", "sys/devices/dm-0");
        // Members that name each other must end as well.
        tree.write("sys/devices/sdb/slaves/dm-0/x", "");
        let devices = tree.devices("dm-0", 0, &["md0"]);
        let seen: Vec<(&str, Option<&str>, &[String])> = devices
            .iter()
            .map(|device| {
                (device.name.as_str(), device.scheduler.as_deref(), device.lies_on.as_slice())
            })
            .collect();
        let names = |list: &[&str]| list.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        assert_eq!(
            seen,
            [
                ("dm-0", Some("none"), names(&["md0"]).as_slice()),
                ("md0", None, names(&["sda1", "sdb"]).as_slice()),
                ("sda1", Some("bfq"), names(&["sda"]).as_slice()),
                ("sdb", Some("none"), names(&["dm-0"]).as_slice()),
            ]
        );
    }

    #[test]
    fn a_record_of_before_these_facts_is_still_read() {
        let old = r#"{"name":"a","kernel":"6","cpus":2,"cpu_model":null,"memory_bytes":1,
            "devices":[{"name":"vda","model":null,"file_system":"ext4","scheduler":null,
            "rotational":null,"write_cache":null,"size_bytes":null}]}"#;
        let host: Host = serde_json::from_str(old).unwrap();
        assert_eq!((host.cpus, host.devices[0].name.as_str()), (2, "vda"));
        assert_eq!((host.cpu_quota, host.devices[0].read_ahead_bytes), (None, None));
    }

    #[test]
    fn this_machine_is_understood() {
        let devices = super::super::devices::find(&[std::env::current_dir().unwrap()]);
        let host = Host::collect(Some(&devices));
        assert!(host.memory_bytes.unwrap() > 0 && host.load_average.is_some());
        assert!(host.devices.len() >= devices.counted.len());
        assert!(host.devices.iter().all(|device| device.size_bytes.is_some()), "{host:?}");
    }

    const FILES: [&str; 26] = [
        "proc/cpuinfo",
        "proc/meminfo",
        "proc/mdstat",
        "proc/loadavg",
        "proc/self/cgroup",
        "proc/sys/vm/dirty_ratio",
        "proc/sys/vm/dirty_background_ratio",
        "sys/kernel/mm/transparent_hugepage/enabled",
        "sys/devices/system/clocksource/clocksource0/current_clocksource",
        "sys/class/dmi/id/sys_vendor",
        "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor",
        "sys/devices/system/cpu/cpu0/cpuidle/state0/name",
        "sys/devices/system/cpu/cpu0/cpuidle/state0/latency",
        "sys/devices/system/cpu/cpu0/cpuidle/state0/disable",
        "sys/fs/cgroup/cgroup.procs",
        "sys/fs/cgroup/cpu.max",
        "sys/fs/cgroup/memory.max",
        "sys/fs/cgroup/cpu/cpu.cfs_quota_us",
        "sys/fs/cgroup/cpu/cpu.cfs_period_us",
        "sys/devices/sda/size",
        "sys/devices/sda/device/model",
        "sys/devices/sda/queue/scheduler",
        "sys/devices/sda/queue/rotational",
        "sys/devices/sda/queue/write_cache",
        "sys/devices/sda/queue/read_ahead_kb",
        "sys/devices/sda/queue/nr_requests",
    ];

    /// Near misses of what the kernel writes, and anything at all, text or not.
    fn garbage() -> impl Strategy<Value = Vec<u8>> {
        prop_oneof![
            prop::collection::vec(any::<u8>(), 0..60),
            "\\PC{0,60}".prop_map(String::into_bytes),
            "(md0 : |resync|recovery|=|\\[|\\]|:|0::/|\\.\\./|cpu|,|flags|nan|inf|-1|max|\
                MemTotal:| |\n|[0-9]{1,25}){0,14}"
                .prop_map(String::into_bytes),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]

        #[test]
        fn no_garbage_upsets_the_readers(
            texts in prop::collection::vec(garbage(), FILES.len()..=FILES.len()),
        ) {
            let tree = Tree::new(&[]);
            for (path, text) in FILES.iter().zip(&texts) {
                tree.write(path, "");
                fs::write(tree.0.path().join(path), text).unwrap();
            }
            tree.link("sys/dev/block/8:0", "sys/devices/sda");
            let mut host = tree.host();
            host.devices = tree.devices("sda", 0, &["sda"]);
            prop_assert!(host.load_average.is_none_or(|load| load.is_finite() && load >= 0.0));
            prop_assert!(host.cpu_quota.is_none_or(|quota| quota.is_finite() && quota > 0.0));
            prop_assert_eq!(host.cpu_quota.is_some(), host.cpu_quota_file.is_some());
            let text = serde_json::to_string(&host).unwrap();
            // The exact value of a float may move by a last digit in text.
            host.load_average = None;
            host.cpu_quota = None;
            let mut back: Host = serde_json::from_str(&text).unwrap();
            back.load_average = None;
            back.cpu_quota = None;
            prop_assert_eq!(back, host.clone());
            prop_assert!(sizes_are_sane(&host));
        }
    }

    fn sizes_are_sane(host: &Host) -> bool {
        host.memory_limit_bytes.is_none_or(|limit| limit < UNLIMITED_BYTES)
            && host.devices.iter().all(|device| device.size_bytes.is_none_or(|n| n % 512 == 0))
            && host.governor.as_deref() != Some("")
            && host.huge_pages.as_deref() != Some("")
    }
}
