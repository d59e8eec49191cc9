//! Health pages of the NVMe drives below the data, by the kernel's command for administrators. The
//! `unsafe` for it is here.
#![allow(unsafe_code)]

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd as _;
use std::path::Path;

use petal_host::devices::DataDevices;
use petal_host::drive_health::{DriveHealth, FlashPage, HEALTH_PAGE, PAGE_BYTES};
use petal_host::files::{self, OFlags};
use petal_record::written::SeenDrive;

/// `struct nvme_admin_cmd` of linux/nvme_ioctl.h.
#[repr(C)]
#[derive(Default)]
struct AdminCommand {
    opcode: u8,
    flags: u8,
    reserved: u16,
    namespace: u32,
    words_2_3: [u32; 2],
    metadata: u64,
    data: u64,
    metadata_bytes: u32,
    data_bytes: u32,
    words_10_15: [u32; 6],
    timeout_ms: u32,
    result: u32,
}

/// NVME_IOCTL_ADMIN_CMD: `_IOWR('N', 0x41, struct nvme_admin_cmd)`.
const ADMIN_COMMAND: u64 = 0xC048_4E41;
const GET_LOG_PAGE: u8 = 0x02;
/// All namespaces of the drive.
const WHOLE_DRIVE: u32 = u32::MAX;
const TIMEOUT_MS: u32 = 5000;
const SECTOR_BYTES: u64 = 512;

/// Reads a log page of a drive by its block device.
fn log_page(drive: &File, page: u8) -> io::Result<[u8; PAGE_BYTES]> {
    let mut bytes = [0; PAGE_BYTES];
    // Its length in words of four bytes, less one, is in the upper half.
    let words = (PAGE_BYTES / 4 - 1) as u32;
    let mut command = AdminCommand {
        opcode: GET_LOG_PAGE,
        namespace: WHOLE_DRIVE,
        data: bytes.as_mut_ptr() as u64,
        data_bytes: PAGE_BYTES as u32,
        words_10_15: [words << 16 | u32::from(page), 0, 0, 0, 0, 0],
        timeout_ms: TIMEOUT_MS,
        ..AdminCommand::default()
    };
    // SAFETY: the kernel reads and writes `command`, whose layout is its own, and writes
    // `data_bytes` bytes at `data`; both outlive the call.
    let status = unsafe { libc::ioctl(drive.as_raw_fd(), ADMIN_COMMAND, &raw mut command) };
    match status {
        0 => Ok(bytes),
        // The drive's own status; a drive refuses pages that it does not have.
        1.. => Err(io::Error::other(format!("the drive answered with status {status:#x}"))),
        _ => Err(io::Error::last_os_error()),
    }
}

fn health(drive: &File, vendor: Option<u16>) -> io::Result<DriveHealth> {
    let short = || io::Error::other("its health page is too short");
    let health = DriveHealth::of_page(&log_page(drive, HEALTH_PAGE)?).ok_or_else(short)?;
    let pages = FlashPage::of_vendor(vendor).into_iter();
    Ok(pages.fold(health, |health, page| match log_page(drive, page.number()) {
        Ok(bytes) if health.flash_bytes.is_none() => health.with_flash(page, &bytes),
        _ => health,
    }))
}

/// The NVMe drives that hold the data, with their health now. Each drive has one health page, so a
/// drive with several namespaces counts once, by the first of them.
pub fn drives(devices: &DataDevices) -> Vec<SeenDrive> {
    let all = devices.counted.iter().chain(&devices.below);
    let names: BTreeSet<String> = all.filter_map(|device| namespace_of(&device.name)).collect();
    let mut names = Vec::from_iter(names);
    names.dedup_by(|one, first| drive_of(one) == drive_of(first));
    names.iter().map(|name| seen(name, &devices.roots.sys)).collect()
}

/// `nvme0` of the namespace `nvme0n1`.
fn drive_of(namespace: &str) -> &str {
    namespace.rsplit_once('n').map_or(namespace, |(drive, _)| drive)
}

/// Bytes of all namespaces of a drive; None if unknown.
fn size_bytes(name: &str, sys: &Path) -> Option<u64> {
    let all = fs::read_dir(sys.join("block")).ok()?.flatten();
    let names = all.filter_map(|block| namespace_of(block.file_name().to_str()?));
    let of_drive = names.filter(|other| drive_of(other) == drive_of(name));
    let bytes = |name: String| {
        let sectors = files::system_text(sys.join("block").join(name).join("size")).ok()?;
        sectors.trim().parse::<u64>().ok()?.checked_mul(SECTOR_BYTES)
    };
    of_drive.map(bytes).sum::<Option<u64>>().filter(|&bytes| bytes > 0)
}

/// Adds the health of the same drives later.
pub fn look_again(drives: &mut [SeenDrive]) {
    for drive in drives.iter_mut().filter(|drive| drive.before.is_some()) {
        match open(&drive.name).and_then(|file| health(&file, drive.vendor)) {
            Ok(health) => drive.after = Some(health),
            Err(error) => drive.unseen = Some(error.to_string()),
        }
    }
}

/// `nvme0n1` of a namespace or of a partition of it.
fn namespace_of(name: &str) -> Option<String> {
    let numbers = name.strip_prefix("nvme")?;
    let (drive, rest) = numbers.split_once('n')?;
    let namespace = rest.split('p').next()?;
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    (is_number(drive) && is_number(namespace)).then(|| format!("nvme{drive}n{namespace}"))
}

fn open(name: &str) -> io::Result<File> {
    files::open(Path::new("/dev").join(name), OFlags::RDONLY)
}

fn seen(name: &str, sys: &Path) -> SeenDrive {
    let folder = sys.join("block").join(name);
    let read = |file: &str| files::system_text(folder.join(file)).ok();
    let vendor = read("device/device/vendor")
        .and_then(|text| u16::from_str_radix(text.trim().trim_start_matches("0x"), 16).ok());
    let (before, unseen) = match open(name).and_then(|file| health(&file, vendor)) {
        Ok(health) => (Some(health), None),
        Err(error) => (None, Some(error.to_string())),
    };
    SeenDrive {
        name: name.to_owned(),
        model: read("device/model").map(|model| model.trim().to_owned()),
        vendor,
        size_bytes: size_bytes(name, sys),
        before,
        after: None,
        unseen,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use petal_host::devices::BlockDevice;

    #[test]
    fn the_command_is_as_long_as_the_kernels() {
        assert_eq!(size_of::<AdminCommand>(), (ADMIN_COMMAND >> 16 & 0x3FFF) as usize);
    }

    #[test]
    fn a_partition_belongs_to_its_namespace_and_other_devices_are_no_drives() {
        let of = |name: &str| namespace_of(name).unwrap_or_default();
        assert_eq!(of("nvme0n1"), "nvme0n1");
        assert_eq!(of("nvme12n3p7"), "nvme12n3");
        for name in ["sda1", "dm-0", "nvme0", "nvmen1", "nvme0c1n1", "nvme0nx"] {
            assert_eq!(of(name), "", "{name}");
        }
    }

    #[test]
    fn a_drive_with_two_namespaces_counts_once_with_the_size_of_both() {
        let sys = tempfile::tempdir().unwrap();
        let devices = ["nvme90n1", "nvme90n2", "nvme91n1"].map(|name| {
            let folder = sys.path().join("block").join(name);
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join("size"), "1000\n").unwrap();
            BlockDevice { name: name.to_owned(), ..BlockDevice::default() }
        });
        let mut found = DataDevices { counted: devices.into(), ..DataDevices::default() };
        found.roots.sys = sys.path().to_owned();
        let drives = drives(&found).into_iter().map(|drive| (drive.name, drive.size_bytes));
        let expected = [("nvme90n1", 1_024_000), ("nvme91n1", 512_000)];
        let expected = expected.map(|(name, bytes)| (name.to_owned(), Some(bytes)));
        assert_eq!(Vec::from_iter(drives), expected);
    }
}
