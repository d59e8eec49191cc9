//! Decides whose data a target holds. Petal never destroys data that it did not write, unless
//! `--destroy-data` repeats the exact path.

use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use petal_engine::{EngineError, Result};

/// Refuses to create a file in the folder of device nodes, except in shared memory: a misspelled
/// device name would create a file in memory.
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

/// Refuses foreign data or a foreign signature, unless the user gave it up.
pub fn refuse_foreign(
    path: &Path,
    url_path: &str,
    found: &str,
    given_up: Option<&Path>,
) -> Result<()> {
    // Compare letter by letter: paths would otherwise be compared by their parts.
    if given_up.is_some_and(|path| path.as_os_str() == url_path) {
        return Ok(());
    }
    let not_this = match given_up {
        Some(other) => format!(" (--destroy-data names {}, not this)", other.display()),
        None => String::new(),
    };
    Err(EngineError::Data(format!(
        "{}: {found}, so petal leaves it alone{not_this}; name another target, or pass \
         --destroy-data {url_path} to setup or calibrate to overwrite it",
        path.display()
    )))
}

/// Signatures of file systems and volumes, from the formats' own documents and libblkid: name,
/// offset from the start (or from the end if negative), and bytes.
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
/// Magic number of md 0.90 and 1.0, whose superblocks are in the last 64 and 8 KiB, aligned to
/// these.
const MD_MAGIC: [u8; 4] = [0xFC, 0x4E, 0x2B, 0xA9];
/// Magic number of ZFS, which keeps a ring of uberblocks in each label, from 128 KiB on.
const ZFS_MAGIC: [u8; 8] = 0x00BA_B10Cu64.to_le_bytes();
const ZFS_RING: std::ops::Range<u64> = 128 << 10..256 << 10;

/// Returns the name of a signature that shows foreign data.
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

/// True if a file has neither a length nor a byte to read, so that it holds no data: a load that
/// was killed before its first write left it, or nobody wrote to it yet.
pub fn is_empty(file: &File, bytes: u64) -> bool {
    // Files of the kernel have bytes and no length.
    bytes == 0 && file.read_at(&mut [0], 0).is_ok_and(|read| read == 0)
}

/// Number of bytes at either end that must be blank.
const BLANK_BYTES: u64 = 1 << 20;

/// True if a block device is blank at both ends, so that it holds no data as far as petal can see.
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

    fn file_with(offset: u64, bytes: &[u8]) -> File {
        let file = tempfile::tempfile().unwrap();
        file.set_len(4 << 20).unwrap();
        file.write_all_at(bytes, offset).unwrap();
        file
    }

    #[test]
    fn every_signature_is_found_at_its_offset() {
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
    fn a_file_of_the_kernel_is_not_empty_although_it_has_no_length() {
        assert!(is_empty(&tempfile::tempfile().unwrap(), 0));
        assert!(!is_empty(&file_with(0, b""), 4 << 20));
        let kernels = File::open("/proc/self/status").unwrap();
        assert!(!is_empty(&kernels, kernels.metadata().unwrap().len()));
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
            refuse_foreign(path, "/dev/sdx", "it contains swap space", given_up.map(Path::new))
        };
        assert!(refuse(Some("/dev/sdx")).is_ok());
        for almost in ["/dev/sdx/", "/dev//sdx", "/dev/./sdx", "/DEV/sdx", "sdx"] {
            assert!(refuse(Some(almost)).is_err(), "{almost}");
        }
        assert!(refuse(Some("/dev/sdy")).unwrap_err().to_string().contains("/dev/sdy, not this"));
        insta::assert_snapshot!(refuse(None).unwrap_err(), @"/dev/sdx: it contains swap space, so petal leaves it alone; name another target, or pass --destroy-data /dev/sdx to setup or calibrate to overwrite it");
    }
}
