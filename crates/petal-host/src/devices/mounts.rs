//! Mounted file systems: /proc/self/mountinfo (proc(5)).

use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

use super::Roots;

use crate::files;

#[derive(Default)]
pub(super) struct Mounts(Vec<Mount>);

pub(super) struct Mount {
    pub number: (u32, u32),
    /// The folder of the file system that is mounted.
    root: PathBuf,
    point: PathBuf,
    /// The file system's name, such as `ext4`.
    pub kind: String,
    /// Source of the mount, such as `/dev/sda1`.
    pub source: PathBuf,
    pub options: String,
}

impl Mounts {
    /// The mounts that can be seen; none if /proc cannot be read.
    pub fn read(roots: &Roots) -> Self {
        Self::try_read(roots).unwrap_or_default()
    }

    pub fn try_read(roots: &Roots) -> io::Result<Self> {
        Self::of_process(roots, "self")
    }

    /// The mounts that a process sees.
    pub fn of_process(roots: &Roots, process: &str) -> io::Result<Self> {
        let text = files::system_text(roots.proc.join(process).join("mountinfo"))?;
        Ok(Self(text.lines().filter_map(mount).collect()))
    }

    /// True if a path leads to the same place with these mounts and with the others.
    pub fn agree(&self, others: &Self, path: &Path) -> bool {
        let place = |mounts: &Self| {
            let mount = mounts.above(path, |_| true)?;
            Some((mount.number, mount.root.clone(), mount.point.clone()))
        };
        let own = place(self);
        own.is_some() && own == place(others)
    }

    /// The mount that a path lies in: the deepest point above it, the latest if several are
    /// mounted over each other. Mounts with the path's own device number win: some file systems
    /// give files another number than their mount, one without a device. The number of a device
    /// that is not mounted leads to no file system: its name lies in another one.
    pub fn of(&self, path: &Path, number: (u32, u32)) -> Option<&Mount> {
        let numbered = |mount: &&Mount| mount.number == number;
        self.above(path, numbered)
            .or_else(|| self.0.iter().find(numbered))
            .or_else(|| self.above(path, |_| number.0 == 0))
    }

    /// The mount that a path lies in, whatever the number of its file system.
    pub fn deepest(&self, path: &Path) -> Option<&Mount> {
        self.above(path, |_| true)
    }

    /// The points of the mounts that are wanted by their number and source.
    pub fn points(&self, wanted: impl Fn((u32, u32), &Path) -> bool) -> Vec<PathBuf> {
        let mounts = self.0.iter().filter(|mount| wanted(mount.number, &mount.source));
        mounts.map(|mount| mount.point.clone()).collect()
    }

    fn above(&self, path: &Path, wanted: impl Fn(&&Mount) -> bool) -> Option<&Mount> {
        let above = self.0.iter().filter(|mount| path.starts_with(&mount.point)).filter(wanted);
        above.max_by_key(|mount| mount.point.components().count())
    }
}

impl Mount {
    /// True if it is mounted in a folder below this one.
    pub fn is_below(&self, folder: &Path) -> bool {
        self.point != folder && self.point.starts_with(folder)
    }

    pub fn is_memory(&self) -> bool {
        matches!(self.kind.as_str(), "tmpfs" | "ramfs" | "devtmpfs")
    }
}

/// Field 3 is major:minor, field 4 the mounted folder, field 5 the mount point, field 6 the mount's
/// options; file system, source and the file system's own options follow the dash.
fn mount(line: &str) -> Option<Mount> {
    let (mount, source) = line.split_once(" - ")?;
    let mut mount = mount.split(' ').skip(2);
    let (major, minor) = mount.next()?.split_once(':')?;
    let (root, point) = (unescaped(mount.next()?), unescaped(mount.next()?));
    let mount_options = mount.next()?;
    let mut source = source.split(' ');
    let (kind, from) = (source.next()?.to_owned(), unescaped(source.next()?));
    let mut options: Vec<&str> = mount_options.split(',').collect();
    for option in source.next().unwrap_or_default().split(',') {
        // Whether it may be written is decided by the mount.
        if !["", "rw", "ro"].contains(&option) && !options.contains(&option) {
            options.push(option);
        }
    }
    let number = (major.parse().ok()?, minor.parse().ok()?);
    Some(Mount { number, root, point, kind, source: from, options: options.join(",") })
}

/// Spaces, tabs, newlines and backslashes are written as a backslash and three octal digits.
pub fn unescaped(escaped: &str) -> PathBuf {
    let mut parts = escaped.split('\\');
    let mut bytes = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        let code = part.get(..3).and_then(|digits| u8::from_str_radix(digits, 8).ok());
        bytes.push(code.unwrap_or(b'\\'));
        bytes.extend(&part.as_bytes()[if code.is_some() { 3 } else { 0 }..]);
    }
    OsString::from_vec(bytes).into()
}

/// Why a file system has no block device that can be counted.
pub(super) fn why_unseen(mount: Option<&Mount>) -> String {
    let Some(Mount { kind, .. }) = mount else {
        return "its device is not known to /sys, and its file system not to /proc".to_owned();
    };
    let reason = match kind.as_str() {
        _ if mount.is_some_and(Mount::is_memory) => "is memory: nothing of it reaches a device",
        "overlay" | "aufs" => {
            "is a container's layers, which do not show their device; put the data on a volume"
        }
        "zfs" => "spreads over a pool that does not show its devices",
        "btrfs" => "does not show here which devices it spans",
        "nfs" | "nfs4" | "cifs" | "smb3" | "ceph" | "lustre" | "gpfs" | "afs" => {
            "comes from another host, whose devices are not seen here"
        }
        "9p" | "virtiofs" => "comes from the host of this virtual machine",
        fuse if fuse.starts_with("fuse") => "is served by a program, not by a device",
        _ => "names no block device",
    };
    format!("its file system ({kind}) {reason}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mounts(text: &str) -> Mounts {
        Mounts(text.lines().filter_map(mount).collect())
    }

    #[test]
    fn a_mount_is_found_by_its_number_and_the_deepest_point() {
        let mounts = mounts(concat!(
            "27 1 254:0 / / rw,relatime - ext4 /dev/vda rw\n",
            "30 27 8:1 / /data rw - xfs /dev/sda1 rw,noquota\n",
            "31 27 8:1 /sub /data/deep ro,noatime - xfs /dev/sda1 rw,noquota\n",
        ));
        let options =
            |path: &str, number| mounts.of(Path::new(path), number).unwrap().options.as_str();
        assert_eq!(options("/data/deep/x", (8, 1)), "ro,noatime,noquota");
        assert_eq!(options("/data/deeper", (8, 1)), "rw,noquota");
        assert_eq!(options("/elsewhere", (8, 1)), "rw,noquota");
        assert_eq!(options("/data/deep/x", (0, 55)), "ro,noatime,noquota");
        assert_eq!(options("/data2", (254, 0)), "rw,relatime");
        assert!(mounts.of(Path::new("/data/loop7"), (7, 7)).is_none(), "its name lies there");
    }

    #[test]
    fn a_path_is_the_same_place_only_with_the_same_mount_above_it() {
        let own = mounts("27 1 254:0 / / rw - ext4 /dev/vda rw\n");
        let cloned = mounts("99 90 254:0 / / rw - ext4 /dev/vda rw\n");
        let over = "100 99 251:1 / /srv/pg rw - ext4 /dev/zram1 rw\n";
        let other = mounts(&format!("99 90 254:0 / / rw - ext4 /dev/vda rw\n{over}"));
        let inside = mounts("99 90 254:0 /var/lib/box / rw - ext4 /dev/vda rw\n");
        let agree = |others: &Mounts| own.agree(others, Path::new("/srv/pg/data"));
        assert_eq!([&cloned, &other, &inside].map(agree), [true, false, false]);
        assert!(!Mounts::default().agree(&Mounts::default(), Path::new("/srv")));
        assert!(other.agree(&own, Path::new("/srv/pgdata")));
    }

    #[test]
    fn escaped_names_are_read() {
        assert_eq!(unescaped(r"/a\040b\134c"), Path::new(r"/a b\c"));
        assert_eq!(unescaped(r"/odd\9zz\04"), Path::new(r"/odd\9zz\04"));
    }

    proptest::proptest! {
        #[test]
        fn no_line_upsets_the_reader(line in "\\PC{0,120}") {
            mount(&line);
            unescaped(&line);
        }
    }
}
