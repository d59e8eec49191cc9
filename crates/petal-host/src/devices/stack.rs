//! Block devices that lie on each other, as /sys/dev/block shows them.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::mounts::{self, Mount, Mounts};
use super::{BlockDevice, Roots};
use crate::files;
use crate::tree::{entries, number, read};

/// Volumes on RAIDs on partitions: no real stack is deeper, and a circle must end.
const DEEPEST: usize = 8;

pub(super) struct Stack<'a> {
    pub roots: &'a Roots,
    /// The device of a path, by major and minor.
    pub device_of: &'a dyn Fn(&Path) -> Option<(u32, u32)>,
    pub mounts: &'a Mounts,
}

/// The last of a stack's devices.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", tag = "kind", content = "what")]
pub enum Bottom {
    /// A drive, real or virtual, as far as this host sees.
    Hardware,
    /// This host's memory, in words.
    Memory(String),
    /// Storage that this host does not count, in words.
    Elsewhere(String),
}

/// Foundation that a device lies on.
pub(super) enum Foundation {
    Devices(Vec<Node>),
    Bottom(Bottom),
}

/// A block device.
#[derive(Clone)]
pub(crate) struct Node {
    pub name: String,
    pub number: Option<(u32, u32)>,
    pub folder: PathBuf,
}

impl Node {
    pub fn numbered(roots: &Roots, (major, minor): (u32, u32)) -> Option<Self> {
        let link = roots.sys.join(format!("dev/block/{major}:{minor}"));
        let node = Self::at(fs::canonicalize(link).ok()?)?;
        Some(Self { number: Some((major, minor)), ..node })
    }

    fn at(folder: PathBuf) -> Option<Self> {
        // A slash in a device's name is an exclamation mark here, and a slash in diskstats.
        let name = folder.file_name()?.to_str()?.replace('!', "/");
        let number = read(&folder.join("dev")).and_then(|text| {
            let (major, minor) = text.split_once(':')?;
            Some((major.parse().ok()?, minor.parse().ok()?))
        });
        Some(Self { name, number, folder })
    }

    /// Identity of this drive in any slot: the drive's own identifier, else its number, name and
    /// size, which another drive may have after a boot.
    pub fn identity(&self) -> String {
        const OWN_NAMES: [&str; 5] = ["wwid", "device/wwid", "device/serial", "serial", "uuid"];
        let read = |name: &str| read(&self.folder.join(name));
        let sectors = read("size").unwrap_or_default();
        match OWN_NAMES.iter().find_map(|name| read(name)) {
            Some(own) => format!("{own} ({sectors} sectors)"),
            None => {
                let (major, minor) = self.number.unwrap_or_default();
                format!("{} {major}:{minor} ({sectors} sectors)", self.name)
            }
        }
    }

    /// The disk that it is a partition of.
    pub fn disk(&self) -> Option<Self> {
        let is_partition = self.folder.join("partition").exists();
        Self::at(self.folder.parent()?.to_owned()).filter(|_| is_partition)
    }

    /// The members of a volume or RAID.
    pub fn members(&self) -> Vec<Self> {
        Self::linked_in(&self.folder.join("slaves"))
    }

    /// The members of a volume, or the disk of a partition.
    fn parts(&self) -> Vec<Self> {
        self.members().into_iter().chain(self.disk()).collect()
    }

    /// A partition lies on its disk, a volume or RAID on its members, a loop device on its file;
    /// any other device on itself.
    pub fn lies_on(&self) -> Vec<String> {
        let named = self.backing_file().map(|file| vec![file]);
        let named = named.unwrap_or_else(|| self.parts().into_iter().map(|it| it.name).collect());
        if named.is_empty() { vec![self.name.clone()] } else { named }
    }

    /// The devices that a folder links to, by name.
    fn linked_in(folder: &Path) -> Vec<Self> {
        let mut nodes: Vec<Self> = entries(folder)
            .filter_map(|entry| Self::at(fs::canonicalize(entry.path()).ok()?))
            .collect();
        nodes.sort_by(|a, b| a.name.cmp(&b.name));
        nodes
    }

    /// The file behind a loop device.
    pub fn backing_file(&self) -> Option<String> {
        let file = files::system_text(self.folder.join("loop/backing_file")).ok()?;
        Some(file.trim_end_matches('\n').to_owned())
    }

    /// True for a loop device that passes the page cache of its file by.
    pub fn is_direct_loop(&self) -> bool {
        number(&self.folder.join("loop/dio")) == Some(1)
    }

    /// A device that lies on no other one.
    fn bottom(&self) -> Bottom {
        const VIRTUAL: &str = "/devices/virtual/block/";
        const MEMORY: [&str; 3] = ["zram", "ram", "nullb"];
        let is_one_of = |names: &[&str]| names.iter().any(|name| self.name.starts_with(name));
        let is_fake = read(&self.folder.join("device/model")).is_some_and(|it| it == "scsi_debug");
        let is_virtual = self.folder.to_string_lossy().contains(VIRTUAL);
        if is_fake || is_virtual && is_one_of(&MEMORY) {
            return Bottom::Memory(format!("{} is this host's memory", self.name));
        }
        if is_virtual || is_one_of(&["rbd"]) {
            return Bottom::Elsewhere(format!(
                "{} is served over a network or by a program, whose drives are not seen here",
                self.name
            ));
        }
        Bottom::Hardware
    }
}

impl Stack<'_> {
    pub fn describe(&self, node: &Node, mount: Option<&Mount>) -> BlockDevice {
        let (major, minor) = node.number.unwrap_or_default();
        let flushed_at: BTreeSet<_> = flushed_at(node, DEEPEST).into_iter().collect();
        BlockDevice {
            name: node.name.clone(),
            major,
            minor,
            file_system: mount.map(|mount| mount.kind.clone()),
            mount_options: mount.map(|mount| mount.options.clone()),
            lies_on: node.lies_on(),
            flushed_at: flushed_at.into_iter().collect(),
            paths: self.counting_paths(node),
            ..BlockDevice::default()
        }
    }

    /// The device that has the counts: the disk of a partition if the kernel counts only at the
    /// disk's paths.
    pub fn counted_at(&self, node: Node) -> Node {
        match node.disk().filter(|disk| !self.counting_paths(disk).is_empty()) {
            Some(disk) => disk,
            None => node,
        }
    }

    /// The hidden paths of an NVMe disk with native multipath, if the kernel counts requests there
    /// and none at the disk.
    fn counting_paths(&self, node: &Node) -> Vec<String> {
        let is_path = |path: &Node| is_path_of(&path.name, &node.name);
        let hidden = |path: &Node| number(&path.folder.join("hidden")) == Some(1);
        let mut paths = Node::linked_in(&self.roots.sys.join("block"));
        paths.retain(|path| is_path(path) && hidden(path));
        if paths.is_empty() {
            return Vec::new();
        }
        let diskstats = files::system_text(self.roots.proc.join("diskstats")).unwrap_or_default();
        let requests = |name: &str| -> u64 {
            let lines = diskstats.lines().map(|line| line.split_ascii_whitespace().skip(2));
            let mut counts = lines.filter_map(|mut line| {
                line.next().filter(|it| *it == name)?;
                // Requests read and written are the first and the fifth.
                let count = |text: Option<&str>| text?.parse::<u64>().ok();
                Some(count(line.next())? + count(line.nth(3))?)
            });
            counts.next().unwrap_or(0)
        };
        let names: Vec<String> = paths.into_iter().map(|path| path.name).collect();
        let is_counted_there =
            requests(&node.name) == 0 && names.iter().any(|path| requests(path) > 0);
        if is_counted_there { names } else { Vec::new() }
    }

    /// All that a device lies on, down to the disks.
    pub fn all_below(&self, node: &Node) -> Vec<Node> {
        let mut all: Vec<Node> = Vec::new();
        let mut level = self.below(node);
        for _ in 0..DEEPEST {
            let next: Vec<Node> = level.iter().flat_map(|node| self.below(node)).collect();
            all.append(&mut level);
            level = next;
        }
        all
    }

    /// The drives that a device lies on: the devices with nothing below them. A drive lies on
    /// itself.
    pub fn drives(&self, node: &Node) -> Vec<Node> {
        let mut all = self.all_below(node);
        all.push(node.clone());
        all.retain(|node| self.is_lowest(node));
        all
    }

    /// True if it lies on nothing else.
    pub fn is_lowest(&self, node: &Node) -> bool {
        self.below(node).is_empty()
    }

    /// All with hardware behind them, by name, without drives that have no medium and paths that
    /// the kernel hides under another device.
    pub fn disks(&self) -> Vec<Node> {
        let mut disks = Node::linked_in(&self.roots.sys.join("block"));
        disks.retain(|node| {
            let fact = |name: &str| number(&node.folder.join(name));
            node.folder.join("device").exists()
                && fact("hidden").unwrap_or(0) == 0
                && fact("size") != Some(0)
        });
        disks
    }

    fn below(&self, node: &Node) -> Vec<Node> {
        match self.foundation(node) {
            Foundation::Devices(nodes) => nodes,
            Foundation::Bottom(_) => Vec::new(),
        }
    }

    pub fn foundation(&self, node: &Node) -> Foundation {
        if let Some(disk) = node.disk() {
            return Foundation::Devices(vec![disk]);
        }
        if let Some(file) = node.backing_file() {
            return self.under_file(node, &file);
        }
        match node.members() {
            none if none.is_empty() => Foundation::Bottom(node.bottom()),
            members => Foundation::Devices(members),
        }
    }

    /// The file of a loop device, which may be a block device.
    fn under_file(&self, node: &Node, file: &str) -> Foundation {
        let words = |why: &str| format!("{} is the file {file}: {why}", node.name);
        let path = Path::new(file);
        let Some(number) = (self.device_of)(path) else {
            return Foundation::Bottom(Bottom::Elsewhere(words("it is not there")));
        };
        let mount = self.mounts.of(path, number);
        match self.nodes(number, mount) {
            nodes if !nodes.is_empty() => Foundation::Devices(nodes),
            _ if mount.is_some_and(Mount::is_memory) => {
                Foundation::Bottom(Bottom::Memory(words(&mounts::why_unseen(mount))))
            }
            _ => Foundation::Bottom(Bottom::Elsewhere(words(&mounts::why_unseen(mount)))),
        }
    }

    /// The devices of one file system: several if it spans them, none if it has none.
    pub fn nodes(&self, number: (u32, u32), mount: Option<&Mount>) -> Vec<Node> {
        match (Node::numbered(self.roots, number), mount) {
            (Some(node), _) => vec![node],
            (None, Some(mount)) if mount.kind == "btrfs" => self.btrfs_members(mount),
            (None, _) => Vec::new(),
        }
    }

    /// False if the kernel's counting was turned off for the device.
    pub fn is_counted(&self, node: &Node) -> bool {
        let whole = node.disk().unwrap_or_else(|| node.clone());
        read(&whole.folder.join("queue/iostats")).is_none_or(|switch| switch != "0")
    }

    /// The devices that a btrfs spans: /sys/fs/btrfs/UUID/devices lists them by name. Its files
    /// have device numbers that no device has, so only the source of the mount leads there.
    fn btrfs_members(&self, mount: &Mount) -> Vec<Node> {
        let Some(source) = (self.device_of)(&mount.source) else { return Vec::new() };
        entries(&self.roots.sys.join("fs/btrfs"))
            .map(|span| Node::linked_in(&span.path().join("devices")))
            .find(|members| members.iter().any(|member| member.number == Some(source)))
            .unwrap_or_default()
    }
}

/// True if an NVMe disk has this path: nvme0c1n2 is a path of nvme0n2, through controller 1.
fn is_path_of(path: &str, disk: &str) -> bool {
    let split = || {
        let (subsystem, rest) = path.strip_prefix("nvme")?.split_once('c')?;
        let (_, namespace) = rest.split_once('n')?;
        Some(format!("nvme{subsystem}n{namespace}"))
    };
    split().is_some_and(|of| of == disk)
}

/// A loop device counts its own flushes, as a disk does.
fn flushed_at(node: &Node, levels: usize) -> Vec<(u32, u32)> {
    let parts = node.parts();
    if parts.is_empty() || levels == 0 {
        return node.number.into_iter().collect();
    }
    parts.iter().flat_map(|part| flushed_at(part, levels - 1)).collect()
}
