//! Decides whether a target may be overwritten. Petal never destroys what it did not make itself,
//! unless
//! `--destroy-data` repeats the exact path; and never what is in use.

use std::fs::{self, File, Metadata};
use std::os::unix::fs::{FileExt as _, FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use crate::engine::in_use::FileId;
use crate::engine::on_path::OnPath;
use crate::engine::{EngineError, Result};
use crate::stats::devices::{Roots, mounted_at};

type Number = (u32, u32);

/// Refuses a block device, or a file behind one, that somebody uses: itself, a partition of it, or
/// the whole disk that it is part of. No flag changes that.
pub fn refuse_in_use(path: &Path, roots: &Roots) -> Result<()> {
    let about = fs::metadata(path).on(path)?;
    let reason = match number_of_device(&about) {
        Some(number) => device_in_use(number, roots),
        None => file_in_use(path, roots),
    };
    match reason {
        None => Ok(()),
        Some(reason) => Err(EngineError::Environment(format!(
            "{}: {reason}; petal does not touch it, whatever else is said: end that use first, or \
             name another target",
            path.display()
        ))),
    }
}

fn device_in_use(number: Number, roots: &Roots) -> Option<String> {
    let folder =
        fs::canonicalize(roots.sys.join(format!("dev/block/{}:{}", number.0, number.1))).ok()?;
    let swaps = swaps(roots);
    // A partition's disk may be used as a whole.
    let disk = folder.parent().filter(|_| folder.join("partition").exists());
    let own = std::iter::once(folder.clone()).chain(partitions(&folder));
    let mut all = own.chain(disk.map(Path::to_owned));
    all.find_map(|folder| used(&folder, roots, &swaps).or_else(|| held(&folder)))
}

/// Mounted or swap.
fn used(folder: &Path, roots: &Roots, swaps: &[PathBuf]) -> Option<String> {
    let name = name(folder);
    let number = number(folder)?;
    if let Some(point) = mounted_at(roots, number).first() {
        return Some(format!("{name} is mounted on {}", point.display()));
    }
    let is_it = |swap: &PathBuf| {
        fs::metadata(swap).is_ok_and(|about| number_of_device(&about) == Some(number))
    };
    swaps.iter().any(is_it).then(|| format!("{name} is swap"))
}

/// A volume, a RAID or an encrypted device lies on it.
fn held(folder: &Path) -> Option<String> {
    let holders = fs::read_dir(folder.join("holders")).ok()?;
    let holders: Vec<String> =
        holders.flatten().map(|holder| holder.file_name().to_string_lossy().into()).collect();
    let name = name(folder);
    (!holders.is_empty()).then(|| format!("{name} is held by {}", holders.join(", ")))
}

fn file_in_use(path: &Path, roots: &Roots) -> Option<String> {
    // A file has as many names as it has hard links; its number is one.
    let own = FileId::of(path).ok()?;
    if swaps(roots).iter().any(|swap| FileId::of(swap).is_ok_and(|swap| swap == own)) {
        return Some("it is swap".to_owned());
    }
    let devices = fs::read_dir(roots.sys.join("block")).into_iter().flatten().flatten();
    for device in devices {
        let Ok(backing) = fs::read_to_string(device.path().join("loop/backing_file")) else {
            continue;
        };
        if FileId::of(Path::new(backing.trim_end_matches('\n'))).is_ok_and(|it| it == own) {
            return Some(format!("it is behind {}", device.file_name().to_string_lossy()));
        }
    }
    None
}

/// Refuses a file where device nodes live, but in shared memory: a misspelled device is no request
/// for a file, which would lie in memory.
pub fn refuse_new_among_devices(path: &Path, dev: &Path) -> Result<()> {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let folder = path.parent().unwrap_or(&path);
    let folder = fs::canonicalize(folder).unwrap_or_else(|_| folder.to_owned());
    if !folder.starts_with(dev) || folder.starts_with(dev.join("shm")) {
        return Ok(());
    }
    Err(EngineError::Environment(format!(
        "{}: no such device is there, and petal makes no file among devices; check its name \
         (lsblk), or name a file elsewhere",
        path.display()
    )))
}

fn swaps(roots: &Roots) -> Vec<PathBuf> {
    let text = fs::read_to_string(roots.proc.join("swaps")).unwrap_or_default();
    text.lines().skip(1).filter_map(|line| line.split_whitespace().next()).map(Into::into).collect()
}

fn partitions(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).filter(|path| path.join("partition").exists()).collect()
}

/// The number of a block device; None of anything else.
fn number_of_device(about: &Metadata) -> Option<Number> {
    let number = (rustix::fs::major(about.rdev()), rustix::fs::minor(about.rdev()));
    about.file_type().is_block_device().then_some(number)
}

fn number(folder: &Path) -> Option<Number> {
    let text = fs::read_to_string(folder.join("dev")).ok()?;
    let (major, minor) = text.trim().split_once(':')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

fn name(folder: &Path) -> String {
    folder.file_name().map(|name| name.to_string_lossy().replace('!', "/")).unwrap_or_default()
}

/// Refuses what petal did not make, and what bears somebody's signature, unless it is given up.
pub fn refuse_foreign(
    path: &Path,
    url_path: &str,
    found: &str,
    given_up: Option<&Path>,
) -> Result<()> {
    // Letter for letter: paths are otherwise compared by their parts.
    if given_up.is_some_and(|path| path.as_os_str() == url_path) {
        return Ok(());
    }
    let not_this = match given_up {
        Some(other) => format!(" (--destroy-data names {}, not this)", other.display()),
        None => String::new(),
    };
    Err(EngineError::Data(format!(
        "{}: {found}, so petal leaves it alone{not_this}; name another target, or, if all that is \
         in it may be destroyed, tell setup or calibrate so: --destroy-data {url_path}",
        path.display()
    )))
}

/// Signatures of file systems and volumes, from the formats' own documents and libblkid: whose they
/// are, their offsets from the start, or from the end if negative, and their bytes.
const SIGNATURES: &[(&str, i64, &[u8])] = &[
    ("an ext2, ext3 or ext4 file system", 0x438, &[0x53, 0xEF]),
    ("an XFS file system", 0, b"XFSB"),
    ("a btrfs file system", 0x10040, b"_BHRfS_M"),
    ("an f2fs file system", 0x400, &[0x10, 0x20, 0xF5, 0xF2]),
    ("swap space", 4086, b"SWAPSPACE2"),
    ("swap space", 4086, b"SWAP-SPACE"),
    ("swap space", 65526, b"SWAPSPACE2"),
    ("an LVM physical volume", 0x218, b"LVM2 001"),
    ("an LVM physical volume", 0x018, b"LVM2 001"),
    ("a LUKS container", 0, b"LUKS\xba\xbe"),
    ("a GPT partition table", 512, b"EFI PART"),
    ("a GPT partition table", 4096, b"EFI PART"),
    ("a GPT partition table", -512, b"EFI PART"),
    ("an NTFS file system", 3, b"NTFS    "),
    ("an exFAT file system", 3, b"EXFAT   "),
    ("a FAT file system", 0x36, b"FAT1"),
    ("a FAT file system", 0x52, b"FAT32"),
    ("a RAID member (md 1.1)", 0, &[0xFC, 0x4E, 0x2B, 0xA9]),
    ("a RAID member (md 1.2)", 4096, &[0xFC, 0x4E, 0x2B, 0xA9]),
    ("a squashfs file system", 0, b"hsqs"),
    ("an ISO 9660 file system", 0x8001, b"CD001"),
    ("a bcache device", 4096 + 24, &[0xC6, 0x85, 0x73, 0xF6, 0x4E, 0x1A, 0x45, 0xCA]),
    ("an Oracle ASM disk", 32, b"ORCLDISK"),
    ("a partition table", 510, &[0x55, 0xAA]),
];
/// Superblocks of md 0.90 and 1.0 lie in the last 64 and 8 KiB, aligned to these.
const MD_MAGIC: [u8; 4] = [0xFC, 0x4E, 0x2B, 0xA9];
/// ZFS keeps a ring of uberblocks in each label, from 128 KiB on.
const ZFS_MAGIC: [u8; 8] = 0x00BA_B10Cu64.to_le_bytes();
const ZFS_RING: std::ops::Range<u64> = 128 << 10..256 << 10;

/// Evidence that somebody's data is there.
pub fn signature_of(file: &File, bytes: u64) -> Option<&'static str> {
    let has = |offset: u64, wanted: &[u8]| {
        let mut found = vec![0; wanted.len()];
        file.read_exact_at(&mut found, offset).is_ok() && found == wanted
    };
    let known = SIGNATURES.iter().find(|(_, offset, signature)| {
        let at = match u64::try_from(*offset) {
            Ok(at) => Some(at),
            Err(_) => bytes.checked_sub(offset.unsigned_abs()),
        };
        at.is_some_and(|at| has(at, signature))
    });
    if let Some((what, ..)) = known {
        return Some(what);
    }
    let md_0_90 = (bytes & !0xFFFF).checked_sub(64 << 10);
    let md_1_0 = (bytes & !0xFFF).checked_sub(8 << 10);
    if [md_0_90, md_1_0].into_iter().flatten().any(|offset| has(offset, &MD_MAGIC)) {
        return Some("a RAID member (md)");
    }
    ZFS_RING.step_by(1024).any(|offset| has(offset, &ZFS_MAGIC)).then_some("a ZFS pool's label")
}

/// Bytes at either end that must be blank.
const BLANK_BYTES: u64 = 1 << 20;

/// A block device with nothing at either end holds nobody's data, as far as anybody can tell.
pub fn is_blank(file: &File, bytes: u64) -> bool {
    let ends = [0, bytes.saturating_sub(BLANK_BYTES)];
    ends.into_iter().all(|offset| {
        let mut end = vec![0; BLANK_BYTES.min(bytes) as usize];
        file.read_exact_at(&mut end, offset).is_ok() && end.iter().all(|byte| *byte == 0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::devices::recorded::Recorded;

    fn file_with(offset: u64, bytes: &[u8]) -> File {
        let file = tempfile::tempfile().unwrap();
        file.set_len(4 << 20).unwrap();
        file.write_all_at(bytes, offset).unwrap();
        file
    }

    #[test]
    fn every_signature_is_found_where_it_stands() {
        let size = 4u64 << 20;
        assert_eq!(signature_of(&file_with(0, b""), size), None);
        for &(what, offset, bytes) in SIGNATURES {
            let at = if offset < 0 { size - offset.unsigned_abs() } else { offset as u64 };
            assert_eq!(signature_of(&file_with(at, bytes), size), Some(what));
        }
        for offset in [size - (64 << 10), size - (8 << 10)] {
            assert!(signature_of(&file_with(offset, &MD_MAGIC), size).unwrap().contains("RAID"));
        }
        let zfs = file_with(200 << 10, &ZFS_MAGIC);
        assert_eq!(signature_of(&zfs, size), Some("a ZFS pool's label"));
        assert_eq!(signature_of(&file_with(0, b"XFSB"), 2), Some("an XFS file system"));
    }

    #[test]
    fn blank_is_blank_at_both_ends() {
        let size = 4 << 20;
        assert!(is_blank(&file_with(2 << 20, b"x"), size));
        assert!(!is_blank(&file_with(5000, b"x"), size));
        assert!(!is_blank(&file_with(size - 1, b"x"), size));
    }

    #[test]
    fn a_partition_volume_or_disk_in_use_is_found() {
        let tree = Recorded::of(concat!(
            "/sys/dev/block/8:0 -> ../../devices/sda\n",
            "/sys/dev/block/8:1 -> ../../devices/sda/sda1\n",
            "/sys/dev/block/8:2 -> ../../devices/sda/sda2\n",
            "/sys/dev/block/8:16 -> ../../devices/sdb\n",
            "/sys/dev/block/8:32 -> ../../devices/sdc\n",
            "/sys/dev/block/8:33 -> ../../devices/sdc/sdc1\n",
            "/sys/devices/sda/dev = 8:0\n",
            "/sys/devices/sda/sda1/dev = 8:1\n",
            "/sys/devices/sda/sda1/partition = 1\n",
            "/sys/devices/sda/sda2/dev = 8:2\n",
            "/sys/devices/sda/sda2/partition = 2\n",
            "/sys/devices/sdb/dev = 8:16\n",
            "/sys/devices/sdb/holders/md0 = \n",
            "/sys/devices/sdc/dev = 8:32\n",
            "/sys/devices/sdc/sdc1/dev = 8:33\n",
            "/sys/devices/sdc/sdc1/partition = 1\n",
            "/sys/dev/block/8:49 -> ../../devices/sdd/sdd1\n",
            "/sys/devices/sdd/dev = 8:48\n",
            "/sys/devices/sdd/holders/mpatha = \n",
            "/sys/devices/sdd/sdd1/dev = 8:49\n",
            "/sys/devices/sdd/sdd1/partition = 1\n",
            "/proc/self/mountinfo\n",
            "  30 27 8:1 / /data rw - xfs /dev/none1 rw\n",
            "  31 27 8:32 / /whole rw - xfs /dev/none2 rw\n",
        ));
        let roots = tree.roots();
        let used = |number| device_in_use(number, &roots);
        assert_eq!(used((8, 1)).unwrap(), "sda1 is mounted on /data");
        assert_eq!(used((8, 0)).unwrap(), "sda1 is mounted on /data", "its partition");
        assert_eq!(used((8, 2)), None, "a sibling is free");
        assert_eq!(used((8, 16)).unwrap(), "sdb is held by md0");
        assert_eq!(used((8, 33)).unwrap(), "sdc is mounted on /whole", "its disk");
        assert_eq!(used((8, 49)).unwrap(), "sdd is held by mpatha", "its disk");
    }

    #[test]
    fn a_file_behind_a_loop_device_or_in_swap_is_found_by_any_of_its_names() {
        let place = tempfile::tempdir().unwrap();
        let [behind, other_name, swap, other_swap, free] =
            ["behind", "other-name", "swap", "other-swap", "free"]
                .map(|name| place.path().join(name));
        for path in [&behind, &swap, &free] {
            fs::write(path, b"x").unwrap();
        }
        fs::hard_link(&behind, &other_name).unwrap();
        fs::hard_link(&swap, &other_swap).unwrap();
        let tree = Recorded::of(&format!(
            "/sys/block/loop7/loop/backing_file = {}\n/proc/swaps\n  Filename Type Size Used \
             Priority\n  {} file 1 0 -2\n",
            behind.display(),
            swap.display(),
        ));
        let used = |path: &Path| file_in_use(path, &tree.roots());
        for path in [&behind, &other_name] {
            assert_eq!(used(path).unwrap(), "it is behind loop7");
        }
        for path in [&swap, &other_swap] {
            assert_eq!(used(path).unwrap(), "it is swap");
        }
        assert_eq!(used(&free), None);
    }

    #[test]
    fn no_file_is_made_among_devices() {
        let place = tempfile::tempdir().unwrap();
        let dev = place.path().canonicalize().unwrap().join("dev");
        fs::create_dir_all(dev.join("shm")).unwrap();
        fs::create_dir_all(dev.join("mapper")).unwrap();
        std::os::unix::fs::symlink(&dev, place.path().join("link")).unwrap();
        let refused = |name: &str| refuse_new_among_devices(&place.path().join(name), &dev);
        for name in ["dev/sdx9", "dev/mapper/vg-lv", "dev/none/x", "link/sdx9"] {
            assert!(refused(name).unwrap_err().to_string().contains("no such device"), "{name}");
        }
        for name in ["dev/shm/x", "petal.dat", "devices/x"] {
            assert!(refused(name).is_ok(), "{name}");
        }
    }

    #[test]
    fn only_the_exact_path_gives_data_up() {
        let path = Path::new("/dev/sdx");
        let refuse = |given_up: Option<&str>| {
            refuse_foreign(path, "/dev/sdx", "it bears swap space", given_up.map(Path::new))
        };
        assert!(refuse(Some("/dev/sdx")).is_ok());
        for almost in ["/dev/sdx/", "/dev//sdx", "/dev/./sdx", "/DEV/sdx", "sdx"] {
            assert!(refuse(Some(almost)).is_err(), "{almost}");
        }
        assert!(refuse(Some("/dev/sdy")).unwrap_err().to_string().contains("/dev/sdy, not this"));
        insta::assert_snapshot!(refuse(None).unwrap_err(), @"/dev/sdx: it bears swap space, so petal leaves it alone; name another target, or, if all that is in it may be destroyed, tell setup or calibrate so: --destroy-data /dev/sdx");
    }
}
