//! Block devices that hold given files, as /proc/diskstats and /sys name them.
//!
//! A file system on a partition, a logical volume or a RAID is counted at the device it is mounted
//! from. The devices below (a partition's disk, a volume's members) are reported for the facts
//! about the hardware, and not added up, because a request would then count twice. A file without
//! a device, or on one that the kernel does not count, is reported with its reason.

mod layers;
mod mounts;
#[cfg(any(test, feature = "testing"))]
pub mod recorded;
mod stack;

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use crate::files;
pub use layers::StorageLayer;
pub use mounts::unescaped;
use mounts::{Mount, Mounts};
pub use stack::Bottom;
pub(super) use stack::Node;
use stack::{Foundation, Stack};

/// Roots of the kernel's trees. Tests point it at recorded trees.
#[derive(Debug, Clone)]
pub struct Roots {
    pub proc: PathBuf,
    pub sys: PathBuf,
}

impl Default for Roots {
    fn default() -> Self {
        Self { proc: "/proc".into(), sys: "/sys".into() }
    }
}

/// The devices behind a target's files.
#[derive(Debug, Clone, Default)]
pub struct DataDevices {
    pub roots: Roots,
    /// Devices of the files' file systems; these are counted. None lies on another of them.
    pub counted: Vec<BlockDevice>,
    /// The disks that those lie on, at the bottom: watched too, and not added up.
    pub below: Vec<BlockDevice>,
    /// The whole stack, from the counted devices down.
    pub layers: Vec<StorageLayer>,
    /// Files whose device cannot be seen, and why.
    pub unseen: Vec<String>,
    /// Why the reads of a part of the data are not counted.
    pub data_unseen: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BlockDevice {
    /// Name as /proc/diskstats prints it.
    pub name: String,
    pub major: u32,
    pub minor: u32,
    /// The folder or file through which it was found.
    pub path: PathBuf,
    pub file_system: Option<String>,
    /// The mount's own, then the file system's.
    pub mount_options: Option<String>,
    /// The disk of a partition, members or backing file that it lies on, by name; itself if it
    /// lies on nothing else.
    pub lies_on: Vec<String>,
    /// The devices that count its flushes, by major and minor: for a partition the kernel counts
    /// them at the disk alone, for a volume or RAID at its members.
    pub flushed_at: Vec<(u32, u32)>,
    /// The hidden paths at which the kernel counts its requests instead, by name: native multipath
    /// of NVMe, if the kernel does not count at the disk itself.
    pub paths: Vec<String>,
    /// True if only other files of the server are there, such as its log: its reads are not of rows.
    pub of_others: bool,
}

impl DataDevices {
    pub fn names(&self) -> Vec<String> {
        self.counted.iter().map(|device| device.name.clone()).collect()
    }

    /// Identities of the drives under the one counted device, sorted: the same for each partition,
    /// volume and file there. `None` if several devices are counted, or no device.
    pub fn drives(&self) -> Option<Vec<String>> {
        self.drives_by(device_number)
    }

    fn drives_by(&self, device_of: impl Fn(&Path) -> Option<u64>) -> Option<Vec<String>> {
        let [device] = self.counted.as_slice() else { return None };
        let device_of = |path: &Path| device_of(path).map(split);
        let mounts = Mounts::read(&self.roots);
        let stack = Stack { roots: &self.roots, device_of: &device_of, mounts: &mounts };
        let node = Node::numbered(&self.roots, (device.major, device.minor))?;
        let drives: BTreeSet<String> = stack.drives(&node).iter().map(Node::identity).collect();
        (!drives.is_empty()).then(|| drives.into_iter().collect())
    }
}

/// The devices of files or folders. One that is not there yet counts as its nearest folder, a
/// block device as itself.
pub fn find(files: &[PathBuf]) -> DataDevices {
    find_for(files, &[])
}

/// The devices of the data's files or folders, and of others that the server keeps, such as its log.
pub fn find_for(data: &[PathBuf], others: &[PathBuf]) -> DataDevices {
    find_under(Roots::default(), data, others, device_number)
}

/// The kind of file system that a file lies in, if that is in memory.
pub fn memory_file_system(file: &Path) -> Option<String> {
    let path = fs::canonicalize(file).ok()?;
    let number = split(device_number(&path)?);
    let mounts = Mounts::read(&Roots::default());
    mounts.of(&path, number).filter(|mount| mount.is_memory()).map(|mount| mount.kind.clone())
}

/// The st_rdev of a block device, the st_dev of anything else.
fn device_number(path: &Path) -> Option<u64> {
    let about = fs::metadata(path).ok()?;
    Some(if about.file_type().is_block_device() { about.rdev() } else { about.dev() })
}

/// Finds the devices under given roots. `device_of` answers as stat does: the st_rdev of a block
/// device, the st_dev of anything else.
pub fn find_under(
    roots: Roots,
    data: &[PathBuf],
    others: &[PathBuf],
    device_of: impl Fn(&Path) -> Option<u64>,
) -> DataDevices {
    let device_of = |path: &Path| device_of(path).map(split);
    let own_mounts = Mounts::read(&roots);
    let stack = Stack { roots: &roots, device_of: &device_of, mounts: &own_mounts };
    let mut found = FoundDevices::default();
    data.iter().for_each(|file| found.add(&stack, file));
    let mut data_unseen = found.unseen.first().filter(|_| found.in_memory.is_empty()).cloned();
    let (mut counted, shared) = topmost(&stack, std::mem::take(&mut found.devices));
    let (data_count, memory_count) = (counted.len(), found.in_memory.len());
    others.iter().for_each(|file| found.add(&stack, file));
    for (node, device) in std::mem::take(&mut found.devices) {
        let names: Vec<&str> = counted.iter().map(|(known, _)| known.name.as_str()).collect();
        let is_known = names.contains(&node.name.as_str());
        let lies_on_data =
            stack.all_below(&node).iter().any(|it| names.contains(&it.name.as_str()));
        let data_above = counted
            .iter()
            .find(|(known, _)| stack.all_below(known).iter().any(|it| it.name == node.name));
        if let Some((above, _)) = data_above {
            found.unseen.push(format!(
                "{}: it lies on {}, below {}, which has the data: only requests of {2} are counted",
                device.path.display(),
                node.name,
                above.name
            ));
        } else if !is_known && !lies_on_data {
            counted.push((node, BlockDevice { of_others: true, ..device }));
        }
    }
    data_unseen = data_unseen.or(shared);
    let below = disks_below(&stack, &counted);
    let (nodes, counted): (Vec<Node>, Vec<BlockDevice>) = counted.into_iter().unzip();
    found.in_memory.iter_mut().skip(memory_count).for_each(|layer| layer.of_others = true);
    let (of_data, of_others) = nodes.split_at(data_count);
    let layers = [layers::with_others(&stack, of_data, of_others), found.in_memory].concat();
    DataDevices { roots, counted, below, layers, unseen: found.unseen, data_unseen }
}

/// Devices found so far.
#[derive(Default)]
struct FoundDevices {
    devices: Vec<(Node, BlockDevice)>,
    /// Layers without a device that are memory.
    in_memory: Vec<StorageLayer>,
    unseen: Vec<String>,
    /// Numbers of the file systems that were looked at.
    seen: BTreeSet<(u32, u32)>,
}

impl FoundDevices {
    fn add(&mut self, stack: &Stack<'_>, file: &Path) {
        let file = std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
        let there = file.ancestors().find_map(|path| Some((path, (stack.device_of)(path)?)));
        let Some((path, number)) = there else {
            self.unseen.push(format!("{}: it is not there", file.display()));
            return;
        };
        let place = Place::of(stack.roots, path);
        let mounts = place.mounts.as_ref().unwrap_or(stack.mounts);
        // petal may not enter a folder, and another file system is mounted below it.
        let hidden = place.inside_of(&file, path).and_then(|inside| {
            mounts.deepest(&inside).filter(|mount| mount.is_below(&place.inside))
        });
        let (number, mount) = match hidden {
            Some(mount) => (mount.number, Some(mount)),
            None => (number, mounts.of(&place.inside, number)),
        };
        if !self.seen.insert(number) {
            return;
        }
        match nodes(stack, number, mount) {
            Ok(nodes) => self.devices.extend(nodes.into_iter().map(|node| {
                let path = place.path.clone();
                let device = BlockDevice { path, ..stack.describe(&node, mount) };
                (node, device)
            })),
            Err(Uncounted { reason, memory }) => {
                self.in_memory.extend(memory.map(|layer| *layer));
                self.unseen.push(format!("{}: {reason}", file.display()));
            }
        }
    }
}

/// A path, and where it is among the mounts that show it.
struct Place {
    path: PathBuf,
    /// The mounts of the process through whose root folder it is seen; `None`: petal's own.
    mounts: Option<Mounts>,
    /// The path in those mounts.
    inside: PathBuf,
}

impl Place {
    fn of(roots: &Roots, path: &Path) -> Self {
        if let Some((process, inside)) = in_process_root(roots, path) {
            let mounts = Mounts::of_process(roots, &process).ok();
            return Self { path: path.to_owned(), mounts, inside };
        }
        let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        Self { inside: path.clone(), mounts: None, path }
    }

    /// The path in the same mounts of a file below `seen`, the path that this place was made of.
    fn inside_of(&self, file: &Path, seen: &Path) -> Option<PathBuf> {
        Some(self.inside.join(file.strip_prefix(seen).ok()?))
    }
}

/// Splits a path below the root folder of a process.
fn in_process_root(roots: &Roots, path: &Path) -> Option<(String, PathBuf)> {
    let mut parts = path.strip_prefix(&roots.proc).ok()?.components();
    let process = parts.next()?.as_os_str().to_str()?.to_owned();
    (parts.next()?.as_os_str() == "root").then(|| (process, Path::new("/").join(parts)))
}

/// The path at which petal finds a file that a process names: the same one if both have the same
/// mounts there, else below the root folder of the process. An error says why it is not seen.
pub fn seen_by(roots: &Roots, process: u32, path: &Path) -> Result<PathBuf, String> {
    let number = process.to_string();
    let own = Mounts::read(roots);
    let is_shared = Mounts::of_process(roots, &number).is_ok_and(|its| {
        let led_to = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        own.agree(&its, path) && own.agree(&its, &led_to)
    });
    if is_shared {
        return Ok(path.to_owned());
    }
    let root = roots.proc.join(number).join("root");
    files::resolved_in_root(&root, path).map_err(|error| {
        format!(
            "{} is in other mounts than petal's, as in a container, and petal cannot look there: \
             {}: {error}{}",
            path.display(),
            root.display(),
            match error.kind() {
                io::ErrorKind::PermissionDenied => " (run petal as root)",
                _ => "",
            }
        )
    })
}

/// The disks that are there, whatever lies on them: those with hardware, real or virtual, behind.
pub fn all_disks(roots: Roots) -> DataDevices {
    let mounts = Mounts::default();
    let stack = Stack { roots: &roots, device_of: &|_| None, mounts: &mounts };
    let (disks, off): (Vec<Node>, Vec<Node>) =
        stack.disks().into_iter().partition(|node| stack.is_counted(node));
    let counted = disks.iter().map(|node| stack.describe(node, None)).collect();
    let unseen = off.iter().map(|node| format!("{0}: {1}", node.name, not_counted(node)));
    let unseen = unseen.collect();
    DataDevices { roots, counted, unseen, ..DataDevices::default() }
}

/// The lowest devices under those, each once.
fn disks_below(stack: &Stack<'_>, counted: &[(Node, BlockDevice)]) -> Vec<BlockDevice> {
    let mut below: Vec<BlockDevice> = Vec::new();
    for (node, _) in counted {
        let disks = stack.all_below(node).into_iter().filter(|node| stack.is_lowest(node));
        for disk in disks.filter(|disk| stack.is_counted(disk)) {
            let known = counted.iter().map(|(_, device)| device).chain(&below);
            if !known.into_iter().any(|known| known.name == disk.name) {
                below.push(stack.describe(&disk, None));
            }
        }
    }
    below
}

fn not_counted(node: &Node) -> String {
    format!(
        "the kernel does not count requests of {0} (echo 1 > /sys/class/block/{0}/queue/iostats)",
        node.name
    )
}

/// Why the devices of a file system are not counted.
struct Uncounted {
    reason: String,
    /// The layer without a device that is memory.
    memory: Option<Box<StorageLayer>>,
}

impl Uncounted {
    fn in_memory(name: &str, number: (u32, u32), words: String) -> Self {
        let bottom = Some(Bottom::Memory(words.clone()));
        let name = name.to_owned();
        let memory = StorageLayer { name, number: Some(number), bottom, ..StorageLayer::default() };
        Self { reason: words, memory: Some(Box::new(memory)) }
    }
}

/// Mount points of a block device, found by its major and minor number or as the source of a mount.
pub fn mounted_at(roots: &Roots, number: (u32, u32)) -> io::Result<Vec<PathBuf>> {
    let is_source = |path: &Path| {
        fs::metadata(path)
            .is_ok_and(|about| about.file_type().is_block_device() && split(about.rdev()) == number)
    };
    let mounts = Mounts::try_read(roots)?;
    Ok(mounts.points(|mounted, source| mounted == number || is_source(source)))
}

fn split(number: u64) -> (u32, u32) {
    (rustix::fs::major(number), rustix::fs::minor(number))
}

/// The devices of one file system; several if it spans them. An error says why none can be counted.
fn nodes(
    stack: &Stack<'_>,
    number: (u32, u32),
    mount: Option<&Mount>,
) -> Result<Vec<Node>, Uncounted> {
    let nodes = stack.nodes(number, mount);
    if nodes.is_empty() {
        let reason = mounts::why_unseen(mount);
        return Err(match mount.filter(|mount| mount.is_memory()) {
            Some(mount) => Uncounted::in_memory(&mount.kind, number, reason),
            None => Uncounted { reason, memory: None },
        });
    }
    match nodes.iter().find(|node| !stack.is_counted(node)) {
        Some(node) => Err(match stack.foundation(node) {
            Foundation::Bottom(Bottom::Memory(words)) => {
                Uncounted::in_memory(&node.name, number, words)
            }
            _ => Uncounted { reason: not_counted(node), memory: None },
        }),
        None => Ok(nodes.into_iter().map(|node| stack.counted_at(node)).collect()),
    }
}

/// Each once, and none that lies on another: its requests are counted there. The second value says why
/// they are not all: a loop device's file is in the page cache.
fn topmost(
    stack: &Stack<'_>,
    found: Vec<(Node, BlockDevice)>,
) -> (Vec<(Node, BlockDevice)>, Option<String>) {
    let names: BTreeSet<String> = found.iter().map(|(node, _)| node.name.clone()).collect();
    let mut counted: Vec<(Node, BlockDevice)> = Vec::new();
    let mut why = None;
    for (node, device) in found {
        let below = stack.all_below(&node);
        let lower = below.iter().find(|below| names.contains(&below.name));
        if let Some(lower) = lower.filter(|_| node.backing_file().is_some()) {
            why = Some(format!(
                "{} and {}, on which it lies, both have data: requests of the second are of both",
                node.name, lower.name
            ));
        }
        let is_known = counted.iter().any(|(known, _)| known.name == device.name);
        if lower.is_none() && !is_known {
            counted.push((node, device));
        }
    }
    (counted, why)
}

#[cfg(test)]
mod tests;
