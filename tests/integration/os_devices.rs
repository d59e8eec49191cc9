//! What petal counts of a block device, against known I/O past the page cache. On a loop device of
//! the test's own nothing else is counted; on the real device others only add.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use petal_model::stats::devices::{self, DataDevices};
use petal_model::stats::os::{DeviceCounts, Probe};

use crate::support::{Loop, Workplace, run, skip};

const BLOCK: usize = 8192;
const BLOCKS: u64 = 1024;
const READS: u64 = 2000;
const WRITES: u64 = 200;

/// The bytes of so many blocks.
fn bytes(blocks: u64) -> u64 {
    blocks * BLOCK as u64
}

/// Reads blocks in an order that no read-ahead follows, then writes and syncs some, one by one.
fn work(file: &File) {
    // O_DIRECT wants memory that begins at a device's block.
    let mut memory = vec![7; BLOCK + 4096];
    let from = memory.as_ptr().align_offset(4096);
    let buffer = &mut memory[from..from + BLOCK];
    let place = |number: u64| bytes(number * 397 % BLOCKS);
    (0..READS).for_each(|read| file.read_exact_at(buffer, place(read)).unwrap());
    for write in 0..WRITES {
        file.write_all_at(buffer, place(write)).unwrap();
        file.sync_data().unwrap();
    }
}

fn direct(path: &Path) -> std::io::Result<File> {
    OpenOptions::new().read(true).write(true).custom_flags(libc::O_DIRECT).open(path)
}

fn counted(found: &DataDevices, path: &Path) -> DeviceCounts {
    let probe = Probe::new(found);
    let file = direct(path).unwrap();
    let before = probe.sample();
    work(&file);
    probe.sample().since(&before).device().unwrap()
}

#[test]
fn the_real_device_counts_no_less_than_was_read() {
    let place = Workplace::new();
    let path = place.write("blocks", vec![1; bytes(BLOCKS) as usize]);
    File::open(&path).unwrap().sync_all().unwrap();
    let found = devices::find(std::slice::from_ref(&path));
    if found.counted.is_empty() || direct(&path).is_err() {
        return skip(&format!("the source's device is not seen: {:?}", found.unseen));
    }
    let counts = counted(&found, &path);
    assert!(counts.read_bytes as f64 >= bytes(READS) as f64 * 0.97, "{counts:?}");
    assert!(counts.read_requests as f64 >= READS as f64 * 0.97, "{counts:?}");
    assert!(counts.write_bytes as f64 >= bytes(WRITES) as f64 * 0.97, "{counts:?}");
}

#[test]
fn a_device_of_its_own_and_its_partition_agree_within_three_per_cent() {
    let Some(disk) = Loop::new(12) else { return };
    agrees(disk.device());
    match Partition::of(disk.device()) {
        Ok(partition) => agrees(&partition.name),
        Err(why) => skip(&why),
    }
}

fn agrees(device: &str) {
    let path = Path::new(device);
    let found = devices::find(&[PathBuf::from(device)]);
    assert_eq!(found.names(), [path.file_name().unwrap().to_str().unwrap()]);
    let counts = counted(&found, path);
    let pairs = [
        (counts.read_bytes, bytes(READS)),
        (counts.read_requests, READS),
        (counts.write_bytes, bytes(WRITES)),
        (counts.flushes, WRITES),
        // A flush is counted among the writes as well, with no bytes.
        (counts.write_requests, WRITES + counts.flushes),
    ];
    for (counted, known) in pairs {
        let ratio = counted as f64 / known as f64;
        assert!((0.97..=1.03).contains(&ratio), "{counted} of {known}: {counts:?}");
    }
}

/// The first partition of a disk, deleted when dropped.
struct Partition<'a> {
    disk: &'a str,
    name: String,
}

impl<'a> Partition<'a> {
    fn of(disk: &'a str) -> Result<Self, String> {
        let sectors = (bytes(BLOCKS) / 512).to_string();
        run("addpart", &[disk, "1", "2048", &sectors])?;
        Ok(Self { disk, name: format!("{disk}p1") })
    }
}

impl Drop for Partition<'_> {
    fn drop(&mut self) {
        let _ = run("delpart", &[self.disk, "1"]);
    }
}
