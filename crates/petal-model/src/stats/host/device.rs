//! The facts of a device behind the data: ABI/stable/sysfs-block in the kernel's Documentation.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::stats::devices::{BlockDevice, Roots};
use crate::stats::tree::{entries, in_brackets, number, read};

/// /sys counts a device's size in sectors of this size, whatever the device's own.
const SECTOR_BYTES: u64 = 512;
/// Volumes on RAIDs on partitions: no real stack is deeper, and a circle must end.
const DEEPEST_STACK: usize = 8;

/// A device behind the data.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct HostDevice {
    /// As /proc/diskstats prints it.
    pub name: String,
    pub model: Option<String>,
    pub file_system: Option<String>,
    /// Of requests: the one in use.
    pub scheduler: Option<String>,
    pub rotational: Option<bool>,
    pub write_cache: Option<String>,
    pub size_bytes: Option<u64>,
    pub mount_options: Option<String>,
    pub read_ahead_bytes: Option<u64>,
    pub nr_requests: Option<u64>,
    /// Disks, members or the file below it, by name; itself if it is whole.
    pub lies_on: Vec<String>,
    /// Whose queue its requests stand in: a partition's disk, else itself.
    pub disk: Option<String>,
    /// The size of that disk.
    pub disk_bytes: Option<u64>,
    /// Whether it accepts discards: the addresses of blocks that are free again.
    pub discards: Option<bool>,
    /// What its file system holds, and what of it ordinary users may still fill.
    pub file_system_bytes: Option<u64>,
    pub free_bytes: Option<u64>,
}

impl HostDevice {
    /// The folder of its facts in /sys; a partition has its own, inside its disk's.
    fn read(folder: &Path, name: &str) -> Self {
        let is_partition = folder.join("partition").exists();
        let whole = if is_partition { folder.parent().unwrap_or(folder) } else { folder };
        let queue = |fact: &str| whole.join("queue").join(fact);
        let model = read(&whole.join("device/model")).or_else(|| read(&whole.join("device/name")));
        let sectors = number(&folder.join("size"));
        let bytes = |sectors: u64| sectors.checked_mul(SECTOR_BYTES);
        let read_ahead_kib = number(&queue("read_ahead_kb"));
        Self {
            name: name.to_owned(),
            model,
            scheduler: read(&queue("scheduler")).and_then(|text| scheduler(&text)),
            rotational: number(&queue("rotational")).map(|spins| spins != 0),
            write_cache: read(&queue("write_cache")),
            size_bytes: sectors.and_then(bytes),
            disk_bytes: number(&whole.join("size")).and_then(bytes),
            discards: number(&queue("discard_max_bytes")).map(|most| most > 0),
            read_ahead_bytes: read_ahead_kib.and_then(|kib| kib.checked_mul(1024)),
            nr_requests: number(&queue("nr_requests")),
            disk: whole.file_name().and_then(|disk| disk.to_str()).map(str::to_owned),
            ..Self::default()
        }
    }
}

/// A device without a choice prints its only scheduler bare.
fn scheduler(list: &str) -> Option<String> {
    in_brackets(list).or_else(|| {
        let mut words = list.split_ascii_whitespace();
        words.next().filter(|_| words.next().is_none()).map(str::to_owned)
    })
}

/// The devices, each followed by the members below it.
pub(super) fn described(roots: &Roots, counted: &[BlockDevice]) -> Vec<HostDevice> {
    let mut devices: Vec<HostDevice> = Vec::new();
    for block in counted {
        let link = roots.sys.join(format!("dev/block/{}:{}", block.major, block.minor));
        let folder = fs::canonicalize(link).unwrap_or_else(|_| class_folder(roots, &block.name));
        // A device that is used as it is has none: the one that its name lies in is another's.
        let space = block.file_system.as_ref().and_then(|_| space(&block.path));
        let device = HostDevice {
            file_system_bytes: space.map(|(all, _)| all),
            free_bytes: space.map(|(_, free)| free),
            file_system: block.file_system.clone(),
            mount_options: block.mount_options.clone(),
            lies_on: block.lies_on.clone(),
            ..HostDevice::read(&folder, &block.name)
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
fn members(roots: &Roots, folder: &Path, levels: usize, devices: &mut Vec<HostDevice>) {
    for name in slaves(folder) {
        if levels == 0 || devices.iter().any(|device| device.name == name) {
            continue;
        }
        let below = class_folder(roots, &name);
        let mut device = HostDevice::read(&below, &name);
        device.lies_on = slaves(&below);
        if device.lies_on.is_empty() {
            device.lies_on = vec![device.disk.clone().unwrap_or(name)];
        }
        devices.push(device);
        members(roots, &below, levels - 1, devices);
    }
}

fn slaves(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = entries(&folder.join("slaves"))
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect();
    names.sort();
    names
}
