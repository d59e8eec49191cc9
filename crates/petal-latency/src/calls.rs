//! Times of a server's own calls ([`calls.bpf.c`](../bpf/calls.bpf.c)): those that read, write and
//! sync files at a place. Reads and writes by libaio or io_uring are no such calls.

use std::fmt;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;

use petal_host::os::DatabaseLocation;
use petal_host::os::calls::{CallKind, CallTimes, CalledFiles, ServerCalls};
use petal_host::os::time_buckets::{BUCKETS, TimeSource};

use super::counting::{BpfHistograms, DatabasePids, ProgramFor, bytes, may_load};

/// The program, compiled by `bpf/build.sh`.
pub const OBJECT: &[u8] = aya::include_bytes_aligned!("../bpf/calls.bpf.o");

// The same numbers are in calls.bpf.c.
const CALLS_MAX: usize = 12;
const LOG_FILES_MAX: usize = 8;
const SERIES_MAX: usize = 8;
/// The number of no call.
const NO_CALL: u32 = u32::MAX;

/// Calls by number. 32-bit programs have other numbers.
const TIMED: [(i64, CallKind); 8] = [
    (libc::SYS_pread64, CallKind::Read),
    (libc::SYS_preadv, CallKind::Read),
    (libc::SYS_preadv2, CallKind::Read),
    (libc::SYS_pwrite64, CallKind::Write),
    (libc::SYS_pwritev, CallKind::Write),
    (libc::SYS_pwritev2, CallKind::Write),
    (libc::SYS_fsync, CallKind::Sync),
    (libc::SYS_fdatasync, CallKind::Sync),
];

struct CallWatch(BpfHistograms<{ 1 + BUCKETS }, { 1 + SERIES_MAX }>);

/// Begins to time the calls of a server's processes. `log_files` are the log's files, or the
/// folders that hold nothing else. An error is the reason in a line.
pub fn watch(
    database: &DatabaseLocation,
    log_files: &[PathBuf],
) -> Result<Box<dyn TimeSource<ServerCalls>>, String> {
    may_load()?;
    let owners = DatabasePids::of(database);
    if !owners.are_known() {
        return Err("the server's processes are not known here".to_owned());
    }
    let inodes: Vec<u64> = log_files
        .iter()
        .map(|path| match fs::metadata(path) {
            Ok(found) => Ok(found.ino()),
            Err(error) => Err(format!("the log {} cannot be seen: {error}", path.display())),
        })
        .collect::<Result<_, _>>()?;
    if inodes.len() > LOG_FILES_MAX {
        return Err(format!("the log has {} files, over {LOG_FILES_MAX}", inodes.len()));
    }
    let mut numbers = [NO_CALL; CALLS_MAX];
    let mut kinds = [0; CALLS_MAX];
    for (at, (number, kind)) in TIMED.iter().enumerate() {
        numbers[at] = *number as u32;
        kinds[at] = *kind as u32;
    }
    let mut log = [0; LOG_FILES_MAX];
    log.iter_mut().zip(&inodes).for_each(|(place, inode)| *place = *inode);
    let programs = [
        ProgramFor { event: "sys_exit", name: "leave" },
        ProgramFor { event: "sys_enter", name: "enter" },
    ];
    let globals = [
        ("numbers", bytes(numbers.map(u32::to_ne_bytes))),
        ("kinds", bytes(kinds.map(u32::to_ne_bytes))),
        ("log_files", bytes(log.map(u64::to_ne_bytes))),
    ];
    let counting = BpfHistograms::load(OBJECT, SERIES_MAX, &owners, &programs, &globals)?;
    Ok(Box::new(CallWatch(counting)))
}

impl fmt::Debug for CallWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallWatch").finish_non_exhaustive()
    }
}

impl TimeSource<ServerCalls> for CallWatch {
    fn sample(&self) -> Option<ServerCalls> {
        let (all, lost) = self.0.read().ok()?;
        let times = all.into_iter().filter_map(|series| {
            let [time] = series.times.try_into().ok()?;
            let files = if series.number % 2 == 0 { CalledFiles::Data } else { CalledFiles::Log };
            Some(CallTimes { call: *CallKind::ALL.get(series.number / 2)?, files, time })
        });
        Some(ServerCalls { times: times.collect(), lost })
    }
}
