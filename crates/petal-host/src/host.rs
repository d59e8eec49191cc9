//! The facts of this host: kernel, processors, memory, limits, and the devices behind the data.
//!
//! Read once, from the kernel's trees; nothing here judges them (analysis does) or changes
//! anything. A fact that cannot be read or understood is `None`, and nothing fails. Sources:
//! proc(5), proc_meminfo(5), and in the kernel's Documentation: ABI/stable/sysfs-block,
//! admin-guide/pm/cpuidle.rst and cpufreq.rst, admin-guide/cgroup-v2.rst, scheduler/sched-bwc.rst.

mod device;
mod facts;
#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};

use super::cgroup::{Groups, IoLimit};
use super::devices::{DataDevices, Roots, StorageLayer};
use super::os::{ServerProcesses, meminfo_bytes};
use super::tree::{in_brackets, number, read};

pub use device::HostDevice;
use device::described;
use facts::{
    cpuinfo_value, deepest_idle, governor, load_average, product, raid_resyncs,
    runs_under_a_hypervisor, usable_cpus,
};

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct HostFacts {
    pub name: String,
    pub kernel: String,
    /// Processors that petal may use.
    pub cpus: u32,
    pub cpu_model: Option<String>,
    pub memory_bytes: Option<u64>,
    /// Devices that hold the data, each followed by the devices below it, such as a volume's
    /// members.
    pub devices: Vec<HostDevice>,
    /// The whole stack under the data, from their own devices down.
    pub storage: Vec<StorageLayer>,
    /// petal's own control group, if its limits can be read: a limit of `None` then means no limit.
    pub cgroup: Option<String>,
    /// Processors' worth of time that the control groups grant.
    pub cpu_quota: Option<f64>,
    /// The file that grants so little.
    pub cpu_quota_file: Option<String>,
    pub memory_limit_bytes: Option<u64>,
    pub memory_limit_file: Option<String>,
    /// Limits of control groups on the devices of the stack: petal's own, and a server's.
    pub io_limits: Vec<IoLimit>,
    /// The control group whose limit on memory would hold for a server on this host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_memory: Option<ServerMemory>,
    /// The limits of the control groups around a server's processes on this host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_group: Option<Box<GroupLimits>>,
    /// The governor of the processors' clocks; several if processors differ.
    pub governor: Option<String>,
    pub deepest_idle: Option<IdleState>,
    pub swap_total_bytes: Option<u64>,
    pub swap_used_bytes: Option<u64>,
    /// Transparent ones: always, madvise or never.
    pub huge_pages: Option<String>,
    /// Tasks running or waiting for a device, over the last minute.
    pub load_average: Option<f64>,
    pub clock_source: Option<String>,
    pub virtual_machine: Option<bool>,
    /// Maker and product, from the firmware.
    pub product: Option<String>,
    /// Software RAIDs being rebuilt, reshaped or checked.
    pub raid_resyncs: Option<Vec<RaidResync>>,
    /// Limit in percent of memory; 0 if it is set in bytes instead.
    pub dirty_ratio: Option<u64>,
    pub dirty_background_ratio: Option<u64>,
    /// Data files whose device is not seen, and why.
    pub unseen: Vec<String>,
    /// Why the reads of a part of the data are not counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data_unseen: Option<String>,
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
    /// Kind and progress in the kernel's words: `recovery 12.6%`, `resync DELAYED`.
    pub work: String,
}

/// The limits of the control groups around some processes, each with its file.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct GroupLimits {
    /// None if the limits cannot be read; else a limit of None means no limit.
    pub name: Option<String>,
    /// Processors' worth of time.
    pub cpu_quota: Option<f64>,
    pub cpu_quota_file: Option<String>,
    pub memory_limit_bytes: Option<u64>,
    pub memory_limit_file: Option<String>,
}

impl GroupLimits {
    fn of(groups: &Groups) -> Self {
        let (cpu_quota, memory_limit) = (groups.cpu_quota(), groups.memory_limit());
        Self {
            name: groups.name().map(str::to_owned),
            cpu_quota: cpu_quota.as_ref().map(|limit| limit.0),
            cpu_quota_file: cpu_quota.map(|limit| limit.1),
            memory_limit_bytes: memory_limit.as_ref().map(|limit| limit.0),
            memory_limit_file: memory_limit.map(|limit| limit.1),
        }
    }
}

/// The control group of a server's memory.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerMemory {
    /// The server's process that started the others, or the only one.
    pub process: u32,
    /// Folder of the group; of the top group if the server is in no other, or shares it with petal.
    pub folder: String,
    /// True for a group that is not the top, and that petal is not in.
    pub is_separate: bool,
    /// File with the limit, in each group.
    pub file: String,
    /// The least limit of the server's own group and those that enclose it.
    pub limit_bytes: Option<u64>,
    /// Bytes that the group allows more, if it has a limit.
    pub room_bytes: Option<u64>,
}

impl ServerMemory {
    fn of(groups: &Groups, petal: &Groups, process: u32) -> Option<Self> {
        let (folder, file, is_separate) = groups.memory_group(petal)?;
        let limit_bytes = groups.memory_limit().map(|(bytes, _)| bytes);
        let room_bytes = groups.memory_room().map(|(bytes, _)| bytes);
        let file = file.to_owned();
        Some(Self { process, folder, is_separate, file, limit_bytes, room_bytes })
    }
}

/// This host's name, as it calls itself.
pub fn own_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// The kernel's own id of its boot: the same for all that runs on one machine.
pub fn boot_id() -> Option<String> {
    read(&Roots::default().proc.join("sys/kernel/random/boot_id"))
}

impl HostFacts {
    /// The facts of this machine, or of the trees that the devices were found in.
    pub fn collect(devices: Option<&DataDevices>) -> Self {
        let roots = devices.map_or_else(Roots::default, |devices| devices.roots.clone());
        Self::collect_under(&roots, devices)
    }

    /// Processors that petal may use, by its control group too; None: they are not known.
    pub fn processors(&self) -> Option<f64> {
        let cpus = f64::from(self.cpus).min(self.cpu_quota.unwrap_or(f64::INFINITY));
        (self.cpus > 0).then_some(cpus)
    }

    /// The limits of the control groups around the database: a server's processes, else petal.
    pub fn database_group(&self) -> GroupLimits {
        self.server_group.as_deref().cloned().unwrap_or_else(|| self.own_group())
    }

    /// The limits of the control groups around petal.
    pub fn own_group(&self) -> GroupLimits {
        GroupLimits {
            name: self.cgroup.clone(),
            cpu_quota: self.cpu_quota,
            cpu_quota_file: self.cpu_quota_file.clone(),
            memory_limit_bytes: self.memory_limit_bytes,
            memory_limit_file: self.memory_limit_file.clone(),
        }
    }

    /// The facts of this machine, with the limits of a server's control group.
    pub fn collect_with(devices: Option<&DataDevices>, servers: &[ServerProcesses]) -> Self {
        let mut host = Self::collect(devices);
        let roots = devices.map_or_else(Roots::default, |devices| devices.roots.clone());
        let own = Groups::of(&roots, "self");
        for server in servers {
            let groups = Groups::of(&roots, &server.parent.to_string());
            host.io_limits.extend(groups.io_limits(&host.storage, true));
            host.server_group.get_or_insert_with(|| Box::new(GroupLimits::of(&groups)));
            host.server_memory =
                host.server_memory.or_else(|| ServerMemory::of(&groups, &own, server.parent));
        }
        host
    }

    /// The facts of given trees; name, kernel release and processors are always this machine's.
    pub fn collect_under(roots: &Roots, devices: Option<&DataDevices>) -> Self {
        let system = rustix::system::uname();
        let cpuinfo = read(&roots.proc.join("cpuinfo"));
        let meminfo = read(&roots.proc.join("meminfo"));
        let memory = |key: &str| meminfo_bytes(meminfo.as_deref()?, key);
        let groups = Groups::of(roots, "self");
        let own = GroupLimits::of(&groups);
        let layers = devices.map_or(&[][..], |found| &found.layers);
        let swap = memory("SwapTotal").zip(memory("SwapFree"));
        Self {
            name: own_name(),
            kernel: system.release().to_string_lossy().into_owned(),
            cpus: usable_cpus(),
            cpu_model: cpuinfo.as_deref().and_then(|text| cpuinfo_value(text, "model name")),
            memory_bytes: memory("MemTotal"),
            devices: devices.map(|found| described(roots, &found.counted)).unwrap_or_default(),
            storage: layers.to_vec(),
            cgroup: own.name,
            cpu_quota: own.cpu_quota,
            cpu_quota_file: own.cpu_quota_file,
            memory_limit_bytes: own.memory_limit_bytes,
            memory_limit_file: own.memory_limit_file,
            io_limits: groups.io_limits(layers, false),
            server_memory: None,
            server_group: None,
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
            data_unseen: devices.and_then(|found| found.data_unseen.clone()),
        }
    }
}
