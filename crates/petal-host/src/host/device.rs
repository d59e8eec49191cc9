//! The facts of a device behind the data: ABI/stable/sysfs-block in the kernel's Documentation.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::devices::{BlockDevice, Node, Roots};
use crate::tree::{in_brackets, number, read};

/// /sys counts a device's size in sectors of this size, whatever the device's own.
const SECTOR_BYTES: u64 = 512;
/// Volumes on RAIDs on partitions: no real stack is deeper, and a circle must end.
const DEEPEST_STACK: usize = 8;

/// A device behind the data.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct HostDevice {
    /// Name as /proc/diskstats prints it.
    pub name: String,
    pub model: Option<String>,
    pub file_system: Option<String>,
    /// Scheduler of requests that is in use.
    pub scheduler: Option<String>,
    pub rotational: Option<bool>,
    pub write_cache: Option<String>,
    pub size_bytes: Option<u64>,
    pub mount_options: Option<String>,
    pub read_ahead_bytes: Option<u64>,
    pub nr_requests: Option<u64>,
    /// Disks, members or the file below it, by name; itself if it is whole.
    pub lies_on: Vec<String>,
    /// Device whose queue takes its requests: a partition's disk, else itself.
    pub disk: Option<String>,
    /// The size of that disk.
    pub disk_bytes: Option<u64>,
    /// Whether it accepts discards: the addresses of blocks that are free again.
    pub discards: Option<bool>,
    /// Size of its file system, and the free part that ordinary users may fill.
    pub file_system_bytes: Option<u64>,
    pub free_bytes: Option<u64>,
}

impl HostDevice {
    fn of(node: &Node) -> Self {
        let folder = &node.folder;
        let disk = node.disk().unwrap_or_else(|| node.clone());
        let whole = &disk.folder;
        let queue = |fact: &str| whole.join("queue").join(fact);
        let model = read(&whole.join("device/model")).or_else(|| read(&whole.join("device/name")));
        let sectors = number(&folder.join("size"));
        let bytes = |sectors: u64| sectors.checked_mul(SECTOR_BYTES);
        let read_ahead_kib = number(&queue("read_ahead_kb"));
        Self {
            name: node.name.clone(),
            model,
            scheduler: read(&queue("scheduler")).and_then(|text| scheduler(&text)),
            rotational: number(&queue("rotational")).map(|spins| spins != 0),
            write_cache: read(&queue("write_cache")),
            size_bytes: sectors.and_then(bytes),
            disk_bytes: number(&whole.join("size")).and_then(bytes),
            discards: number(&queue("discard_max_bytes")).map(|most| most > 0),
            read_ahead_bytes: read_ahead_kib.and_then(|kib| kib.checked_mul(1024)),
            nr_requests: number(&queue("nr_requests")),
            lies_on: node.lies_on(),
            disk: Some(disk.name.clone()),
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
        let node = Node::numbered(roots, (block.major, block.minor));
        // A device that is used as it is has none: the one that its name lies in is another's.
        let space = block.file_system.as_ref().and_then(|_| space(&block.path));
        devices.push(HostDevice {
            name: block.name.clone(),
            file_system_bytes: space.map(|(all, _)| all),
            free_bytes: space.map(|(_, free)| free),
            file_system: block.file_system.clone(),
            mount_options: block.mount_options.clone(),
            ..node.as_ref().map(HostDevice::of).unwrap_or_default()
        });
        node.iter().for_each(|node| members(node, DEEPEST_STACK, &mut devices));
    }
    devices
}

/// Bytes of the file system under a path, all and free.
fn space(path: &Path) -> Option<(u64, u64)> {
    let about = rustix::fs::statvfs(path).ok()?;
    let bytes = |blocks: u64| blocks.checked_mul(about.f_frsize);
    bytes(about.f_blocks).filter(|all| *all > 0).zip(bytes(about.f_bavail))
}

/// Adds the devices under a volume or RAID, down to the disks, each once.
fn members(node: &Node, levels: usize, devices: &mut Vec<HostDevice>) {
    for below in node.members() {
        if levels > 0 && devices.iter().all(|device| device.name != below.name) {
            devices.push(HostDevice::of(&below));
            members(&below, levels - 1, devices);
        }
    }
}
