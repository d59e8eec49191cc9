//! Proof on this machine: known reads past the page cache, against what the kernel counted.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::Path;

use super::{DeviceCounts, Probe};
use crate::stats::devices;

const BLOCK: usize = 8192;
const BLOCKS: u64 = 2048;
const READS: u64 = 256;

/// The file's blocks in an order that no read-ahead follows.
fn read_some(file: &File, round: u64, buffer: &mut [u8]) {
    for read in 0..READS {
        let block = (round * READS + read) * 1_103 % BLOCKS;
        file.read_exact_at(buffer, block * BLOCK as u64).unwrap();
    }
}

/// O_DIRECT wants memory that begins at a device's block.
fn aligned(memory: &mut [u8]) -> &mut [u8] {
    let from = memory.as_ptr().align_offset(4096);
    &mut memory[from..from + BLOCK]
}

fn direct(path: &Path) -> std::io::Result<File> {
    let mut file = File::create(path)?;
    (0..BLOCKS).try_for_each(|block| file.write_all(&[block as u8; BLOCK]))?;
    file.sync_all()?;
    OpenOptions::new().read(true).custom_flags(libc::O_DIRECT).open(path)
}

/// The rounds' least: others may use the device too, and only add.
#[test]
fn devices_agree_with_known_reads_within_three_per_cent() {
    let folder = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
    let path = folder.path().join("blocks");
    let found = devices::find(std::slice::from_ref(&path));
    let file = match direct(&path) {
        Ok(file) if !found.counted.is_empty() => file,
        outcome => return skip(&format!("{outcome:?}, {:?}", found.unseen)),
    };
    let probe = Probe::new(&found);
    let mut memory = vec![0; BLOCK + 4096];
    let buffer = aligned(&mut memory);
    let rounds = (0..40).map(|round| {
        let before = probe.sample();
        read_some(&file, round, buffer);
        probe.sample().since(&before).device.unwrap()
    });
    let rounds: Vec<DeviceCounts> = rounds.collect();
    let least = |of: fn(&DeviceCounts) -> u64| rounds.iter().map(of).min().unwrap() as f64;
    let bytes = least(|counts| counts.read_bytes) / (READS * BLOCK as u64) as f64;
    let requests = least(|counts| counts.read_requests) / READS as f64;
    assert!((0.97..=1.03).contains(&bytes), "bytes: {bytes} of what was read, {rounds:?}");
    assert!((0.97..=1.03).contains(&requests), "requests: {requests} of what was read");
}

#[expect(clippy::print_stderr, reason = "a skipped test says so")]
fn skip(reason: &str) {
    let required = std::env::var("PETAL_TEST_REQUIRE").is_ok_and(|what| what == "all");
    assert!(!required, "the device of the source cannot be measured: {reason}");
    eprintln!("skipped: the device of the source cannot be measured: {reason}");
}
