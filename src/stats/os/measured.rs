//! Proof on this machine: known I/O past the page cache, against what the kernel counted. On a loop
//! device of the test's own nothing else is counted; on the real device others only add.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{DeviceCounts, Probe};
use crate::stats::devices::{self, DataDevices};

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

/// A file of whole blocks, written once.
fn written(folder: &tempfile::TempDir) -> PathBuf {
    let path = folder.path().join("blocks");
    std::fs::write(&path, vec![1; bytes(BLOCKS) as usize + (4 << 20)]).unwrap();
    File::open(&path).unwrap().sync_all().unwrap();
    path
}

/// Beside the test's program: /tmp may be memory.
fn here() -> tempfile::TempDir {
    tempfile::tempdir_in(std::env::current_exe().unwrap().parent().unwrap()).unwrap()
}

#[test]
fn the_real_device_counts_no_less_than_was_read() {
    let folder = here();
    let path = written(&folder);
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
    let folder = here();
    let disk = match Loop::over(&written(&folder)) {
        Ok(disk) => disk,
        Err(reason) => return skip(&reason),
    };
    agrees(&disk.0);
    match disk.partition() {
        Ok(partition) => agrees(&partition),
        Err(reason) => skip(&reason),
    }
}

fn agrees(path: &Path) {
    let found = devices::find(&[path.to_owned()]);
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

/// A loop device, detached when it goes.
struct Loop(PathBuf);

impl Loop {
    fn over(file: &Path) -> Result<Self, String> {
        let file = file.to_str().unwrap();
        let name = run("losetup", &["--find", "--show", file])?;
        Ok(Self(name.trim().into()))
    }

    fn partition(&self) -> Result<PathBuf, String> {
        let disk = self.0.to_str().unwrap();
        let sectors = (bytes(BLOCKS) / 512).to_string();
        run("addpart", &[disk, "1", "2048", &sectors])?;
        Ok(format!("{disk}p1").into())
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let disk = self.0.to_str().unwrap();
        // There may be no partition.
        let _ = run("delpart", &[disk, "1"]);
        let _ = run("losetup", &["--detach", disk]);
    }
}

fn run(program: &str, arguments: &[&str]) -> Result<String, String> {
    let output = Command::new(program).args(arguments).output();
    let output = output.map_err(|error| format!("{program}: {error}"))?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        Err(format!("{program}: {}", String::from_utf8_lossy(&output.stderr).trim()))
    }
}

#[expect(clippy::print_stderr, reason = "a skipped test says so")]
fn skip(reason: &str) {
    let required = std::env::var("PETAL_TEST_REQUIRE").is_ok_and(|what| what == "all");
    assert!(!required, "devices cannot be measured here: {reason}");
    eprintln!("skipped: devices cannot be measured here: {reason}");
}
