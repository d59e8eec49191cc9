//! Bytes that are written to the data's devices, by their origin
//! ([`writes.bpf.c`](../bpf/writes.bpf.c)): the file system itself, the database's files, and others.

use std::fmt;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;

use petal_host::devices::DataDevices;
use petal_host::os::DatabaseLocation;
use petal_host::os::time_buckets::{BUCKETS, TimeSource};
use petal_host::os::writes::WriteOrigins;

use super::counting::{BpfHistograms, DatabasePids, ProgramFor, bytes, may_load};

/// The program, compiled by `bpf/build.sh`.
pub const OBJECT: &[u8] = aya::include_bytes_aligned!("../bpf/writes.bpf.o");

// The same numbers are in writes.bpf.c.
const DEVICES_MAX: usize = 16;
const FOLDERS_MAX: usize = 64;
const LOG_FILES_MAX: usize = 8;
const SERIES_MAX: usize = 8;
/// The number of no device.
const NO_DEVICE: u32 = u32::MAX;

struct WriteWatch(BpfHistograms<{ 1 + BUCKETS }, { 1 + SERIES_MAX }>);

/// Begins to count the bytes written to the data's devices. `files` are the database's files and
/// folders, `log_files` those of its log. An error is the reason in a line.
pub fn watch(
    devices: &DataDevices,
    database: &DatabaseLocation,
    files: &[PathBuf],
    log_files: &[PathBuf],
) -> Result<Box<dyn TimeSource<WriteOrigins>>, String> {
    let devices = devices.counted.iter().map(|device| device.major << 20 | device.minor);
    let devices = filled::<u32, DEVICES_MAX>(devices.collect(), NO_DEVICE, "devices")?;
    may_load()?;
    let owners = DatabasePids::of(database);
    if !owners.are_known() {
        return Err("the database's processes are not known here".to_owned());
    }
    let folders = filled::<u64, FOLDERS_MAX>(inodes(files)?, 0, "folders")?;
    let log_files = filled::<u64, LOG_FILES_MAX>(inodes(log_files)?, 0, "files of the log")?;
    let programs = [ProgramFor { event: "block_bio_queue", name: "queue" }];
    let globals = [
        ("devices", bytes(devices.map(u32::to_ne_bytes))),
        ("folders", bytes(folders.map(u64::to_ne_bytes))),
        ("log_files", bytes(log_files.map(u64::to_ne_bytes))),
    ];
    let counting = BpfHistograms::load(OBJECT, SERIES_MAX, &owners, &programs, &globals)?;
    Ok(Box::new(WriteWatch(counting)))
}

/// Fills the places of a global; an error gives the number that is too large.
fn filled<T: Copy, const N: usize>(all: Vec<T>, none: T, what: &str) -> Result<[T; N], String> {
    if all.len() > N {
        return Err(format!("the database has {} {what}, over {N}", all.len()));
    }
    let mut places = [none; N];
    places.iter_mut().zip(&all).for_each(|(place, one)| *place = *one);
    Ok(places)
}

fn inodes(paths: &[PathBuf]) -> Result<Vec<u64>, String> {
    let inode = |path: &PathBuf| match fs::metadata(path) {
        Ok(found) => Ok(found.ino()),
        Err(error) => Err(format!("{} cannot be seen: {error}", path.display())),
    };
    paths.iter().map(inode).collect()
}

impl fmt::Debug for WriteWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WriteWatch").finish_non_exhaustive()
    }
}

impl TimeSource<WriteOrigins> for WriteWatch {
    fn sample(&self) -> Option<WriteOrigins> {
        let (all, _) = self.0.read().ok()?;
        let mut sums = [0; 5];
        for series in all {
            // The sum of a series is in bytes here.
            let sum = series.times.first().map_or(0, |sizes| sizes.total_ns);
            if let Some(place) = sums.get_mut(series.number) {
                *place = sum;
            }
        }
        let [file_system, log, data, direct, others] = sums;
        Some(WriteOrigins { file_system, log, data, direct, others })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_than_fit_are_refused_by_their_number() {
        assert_eq!(filled::<u32, 3>(vec![7, 8], 0, "devices"), Ok([7, 8, 0]));
        let error = filled::<u32, 1>(vec![7, 8], 0, "devices").unwrap_err();
        assert_eq!(error, "the database has 2 devices, over 1");
    }
}
