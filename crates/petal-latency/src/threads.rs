//! The time of the threads that execute operations, by state
//! ([`threads.bpf.c`](../bpf/threads.bpf.c)): petal's sessions, and the server's threads that
//! receive requests.

use std::fmt;

use petal_host::os::DatabaseLocation;
use petal_host::os::threads::{StateTimes, ThreadRole, ThreadState, ThreadTimes};
use petal_host::os::time_buckets::{BUCKETS, TimeSource};

use super::counting::{BpfHistograms, DatabasePids, ProgramFor, may_load};

/// The program, compiled by `bpf/build.sh`.
pub const OBJECT: &[u8] = aya::include_bytes_aligned!("../bpf/threads.bpf.o");

// The same numbers are in threads.bpf.c.
const CALLS_MAX: usize = 512;
const SERIES_MAX: usize = 64;
const SERIES_OF_ROLE: usize = 16;

/// Kinds of calls.
const READ: u8 = 1;
const WRITE: u8 = 2;
const RECEIVE: u8 = 3;
const SEND: u8 = 4;
const SOCKET_WAIT: u8 = 5;
const FUTEX: u8 = 7;
const PAUSE: u8 = 8;
const RESUME: u8 = 9;

/// Calls by number. 32-bit programs have other numbers.
const CALLS: &[(i64, u8)] = &[
    (libc::SYS_pread64, READ),
    (libc::SYS_preadv, READ),
    (libc::SYS_preadv2, READ),
    (libc::SYS_io_uring_enter, READ),
    (libc::SYS_pwrite64, WRITE),
    (libc::SYS_pwritev, WRITE),
    (libc::SYS_pwritev2, WRITE),
    (libc::SYS_fsync, WRITE),
    (libc::SYS_fdatasync, WRITE),
    (libc::SYS_sync_file_range, WRITE),
    (libc::SYS_recvfrom, RECEIVE),
    (libc::SYS_recvmsg, RECEIVE),
    (libc::SYS_sendto, SEND),
    (libc::SYS_sendmsg, SEND),
    (libc::SYS_epoll_pwait, SOCKET_WAIT),
    (libc::SYS_epoll_pwait2, SOCKET_WAIT),
    (libc::SYS_ppoll, SOCKET_WAIT),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_epoll_wait, SOCKET_WAIT),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_poll, SOCKET_WAIT),
    (libc::SYS_futex, FUTEX),
    (libc::SYS_getppid, PAUSE),
    (libc::SYS_getpriority, RESUME),
];

/// Does a session's work between operations, whose time is in no operation. If threads are timed,
/// two calls mark it for the kernel's program: only the session knows that a request is not an
/// operation. Without marks the parts are 6 % more than an operation behind a way of 4 ms. The calls
/// change nothing, no session makes them otherwise, and both have an answer in a container whose
/// parent or process group is outside.
pub fn between_operations<T>(is_timed: bool, work: impl FnOnce() -> T) -> T {
    if is_timed {
        let _ = rustix::process::getppid();
    }
    let result = work();
    if is_timed {
        let _ = rustix::process::getpriority_process(None);
    }
    result
}

struct ThreadWatch(BpfHistograms<{ 1 + BUCKETS }, { 1 + SERIES_MAX }>);

/// Begins to time threads. An error is the reason in a line.
pub fn watch(database: &DatabaseLocation) -> Result<Box<dyn TimeSource<ThreadTimes>>, String> {
    may_load()?;
    let owners = DatabasePids::of(database);
    if !owners.are_known() {
        return Err("the database's processes are not known here".to_owned());
    }
    let mut kinds = vec![0; CALLS_MAX];
    for (number, kind) in CALLS {
        if let Some(place) = kinds.get_mut(*number as usize) {
            *place = *kind;
        }
    }
    let mut programs = vec![
        ProgramFor { event: "sched_switch", name: "switched" },
        ProgramFor { event: "sched_waking", name: "waking" },
        ProgramFor { event: "sys_exit", name: "leave" },
        ProgramFor { event: "sys_enter", name: "enter" },
    ];
    if matches!(database, DatabaseLocation::In(_)) {
        programs.insert(0, ProgramFor { event: "sk_data_ready", name: "arrived" });
    }
    let petal = std::process::id().to_ne_bytes().to_vec();
    let globals = [("kinds", kinds), ("petal", petal)];
    let counting = BpfHistograms::load(OBJECT, SERIES_MAX, &owners, &programs, &globals)?;
    Ok(Box::new(ThreadWatch(counting)))
}

impl fmt::Debug for ThreadWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ThreadWatch").finish_non_exhaustive()
    }
}

impl TimeSource<ThreadTimes> for ThreadWatch {
    fn sample(&self) -> Option<ThreadTimes> {
        let (all, lost) = self.0.read().ok()?;
        let times = all.into_iter().filter_map(|series| {
            let [time] = series.times.try_into().ok()?;
            let role = *ThreadRole::ALL.get(series.number / SERIES_OF_ROLE)?;
            let state = *ThreadState::ALL.get(series.number % SERIES_OF_ROLE)?;
            Some(StateTimes { role, state, time })
        });
        Some(ThreadTimes { times: times.collect(), lost })
    }
}
