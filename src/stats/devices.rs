//! Which block devices hold given files, as /proc/diskstats and /sys name them.
//!
//! A file system on a partition, a logical volume or a RAID is counted at the device it is mounted
//! from; what lies below (a partition's disk, a volume's members) is told for the facts about the
//! hardware, and not added up, because a request would then count twice.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// Where the kernel shows itself. Tests point it at recorded trees.
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
    /// Where the files' file systems lie; these are counted.
    pub counted: Vec<BlockDevice>,
    /// Files whose device cannot be seen, and why.
    pub unseen: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockDevice {
    /// As /proc/diskstats prints it.
    pub name: String,
    pub major: u32,
    pub minor: u32,
    pub file_system: Option<String>,
    pub mount_options: Option<String>,
    /// The whole disks, members or backing file that it lies on, by name; itself if it is whole.
    pub lies_on: Vec<String>,
}

impl DataDevices {
    pub fn names(&self) -> Vec<String> {
        self.counted.iter().map(|device| device.name.clone()).collect()
    }
}

/// The devices of files or folders. One that is not there yet counts as its nearest folder.
pub fn find(files: &[PathBuf]) -> DataDevices {
    find_under(Roots::default(), files, |path| Some(fs::metadata(path).ok()?.dev()))
}

/// The same under given roots; `device_of` answers as stat's st_dev.
pub fn find_under(
    roots: Roots,
    files: &[PathBuf],
    device_of: impl Fn(&Path) -> Option<u64>,
) -> DataDevices {
    let mut found = DataDevices { roots, ..DataDevices::default() };
    let mut seen = BTreeSet::new();
    for file in files {
        let Some(number) = file.ancestors().find_map(&device_of) else {
            found.unseen.push(format!("{}: it is not there", file.display()));
            continue;
        };
        let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
        if !seen.insert((major, minor)) {
            continue;
        }
        match block_device(&found.roots, major, minor) {
            Some(device) => found.counted.push(device),
            None => {
                let kind = mount(&found.roots, major, minor).map_or_else(String::new, |m| m.kind);
                found.unseen.push(format!(
                    "{}: its file system ({}) names no block device",
                    file.display(),
                    if kind.is_empty() { "unknown" } else { &kind },
                ));
            }
        }
    }
    found
}

fn block_device(roots: &Roots, major: u32, minor: u32) -> Option<BlockDevice> {
    let link = roots.sys.join(format!("dev/block/{major}:{minor}"));
    let folder = fs::canonicalize(link).ok()?;
    let name = folder.file_name()?.to_str()?.to_owned();
    let mount = mount(roots, major, minor);
    Some(BlockDevice {
        lies_on: lies_on(&folder, &name),
        name,
        major,
        minor,
        file_system: mount.as_ref().map(|mount| mount.kind.clone()),
        mount_options: mount.map(|mount| mount.options),
    })
}

/// A partition lies on its disk, a volume or RAID on its members, a loop device on its file.
fn lies_on(folder: &Path, name: &str) -> Vec<String> {
    if folder.join("partition").exists() {
        let disk = folder.parent().and_then(Path::file_name).and_then(|disk| disk.to_str());
        return disk.map(str::to_owned).into_iter().collect();
    }
    if let Ok(file) = fs::read_to_string(folder.join("loop/backing_file")) {
        return vec![file.trim().to_owned()];
    }
    let mut members: Vec<String> = fs::read_dir(folder.join("slaves"))
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .collect();
    members.sort();
    if members.is_empty() { vec![name.to_owned()] } else { members }
}

struct Mount {
    kind: String,
    options: String,
}

/// The mount of a device number, from /proc/self/mountinfo (proc(5)): field 3 is major:minor,
/// field 6 the options; after the dash come file system, source and its own options.
fn mount(roots: &Roots, major: u32, minor: u32) -> Option<Mount> {
    let text = fs::read_to_string(roots.proc.join("self/mountinfo")).ok()?;
    let wanted = format!("{major}:{minor}");
    text.lines().find_map(|line| {
        let (mount, source) = line.split_once(" - ")?;
        let mut fields = mount.split(' ');
        if fields.nth(2)? != wanted {
            return None;
        }
        let options = fields.nth(2)?.to_owned();
        Some(Mount { kind: source.split(' ').next()?.to_owned(), options })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    /// A tree as /sys and /proc show it: links from dev/block to the devices' folders.
    struct Tree(tempfile::TempDir);

    impl Tree {
        fn new(mountinfo: &str) -> Self {
            let tree = Self(tempfile::tempdir().unwrap());
            tree.write("proc/self/mountinfo", mountinfo);
            tree
        }

        fn write(&self, path: &str, text: &str) {
            let path = self.0.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }

        fn device(&self, number: &str, folder: &str) {
            let folder = self.0.path().join("sys/devices").join(folder);
            fs::create_dir_all(&folder).unwrap();
            let links = self.0.path().join("sys/dev/block");
            fs::create_dir_all(&links).unwrap();
            symlink(folder, links.join(number)).unwrap();
        }

        fn find(&self, major: u32, minor: u32) -> DataDevices {
            let (proc, sys) = (self.0.path().join("proc"), self.0.path().join("sys"));
            let number = rustix::fs::makedev(major, minor);
            find_under(Roots { proc, sys }, &["/data/petal1.db".into()], |path| {
                (path == Path::new("/data")).then_some(number)
            })
        }
    }

    #[test]
    fn a_partition_is_counted_itself_and_lies_on_its_disk() {
        let tree = Tree::new("27 1 259:2 / / rw,noatime shared:1 - ext4 /dev/nvme0n1p2 rw\n");
        tree.device("259:2", "nvme0n1/nvme0n1p2");
        tree.write("sys/devices/nvme0n1/nvme0n1p2/partition", "2\n");
        let device = &tree.find(259, 2).counted[0];
        assert_eq!(device.name, "nvme0n1p2");
        assert_eq!(device.lies_on, ["nvme0n1"]);
        assert_eq!(device.file_system.as_deref(), Some("ext4"));
        assert_eq!(device.mount_options.as_deref(), Some("rw,noatime"));
    }

    #[test]
    fn a_volume_and_a_raid_lie_on_their_members() {
        let tree = Tree::new("30 1 253:0 / /data rw - xfs /dev/mapper/vg-data rw\n");
        tree.device("253:0", "virtual/block/dm-0");
        tree.write("sys/devices/virtual/block/dm-0/slaves/sdb/size", "1");
        tree.write("sys/devices/virtual/block/dm-0/slaves/sda/size", "1");
        let device = &tree.find(253, 0).counted[0];
        assert_eq!(
            (device.name.as_str(), device.lies_on.as_slice()),
            ("dm-0", &["sda".to_owned(), "sdb".to_owned()][..])
        );
    }

    #[test]
    fn a_loop_device_lies_on_its_file() {
        let tree = Tree::new("30 1 7:0 / /data rw - ext4 /dev/loop0 rw\n");
        tree.device("7:0", "virtual/block/loop0");
        tree.write("sys/devices/virtual/block/loop0/loop/backing_file", "/var/disk.img\n");
        assert_eq!(tree.find(7, 0).counted[0].lies_on, ["/var/disk.img"]);
    }

    #[test]
    fn a_file_system_without_a_device_is_told() {
        let tree = Tree::new("30 1 0:25 / /data rw - tmpfs tmpfs rw\n");
        let found = tree.find(0, 25);
        assert!(found.counted.is_empty());
        assert!(found.unseen[0].contains("tmpfs"), "{:?}", found.unseen);
    }

    #[test]
    fn this_machine_is_seen_or_told() {
        let found = find(&[std::env::current_dir().unwrap()]);
        assert_eq!(found.counted.len() + found.unseen.len(), 1, "{found:?}");
    }
}
