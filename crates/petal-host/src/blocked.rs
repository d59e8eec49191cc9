//! Threads that wait in the kernel for storage, each with its call, file and start of the wait.

use std::collections::HashMap;
use std::fmt;
use std::fs;
use std::time::{Duration, Instant};

use crate::files;

/// A thread that waits in the kernel for storage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockedThread {
    pub pid: u32,
    pub tid: u32,
    pub name: String,
    /// State as ps(1) shows it; D cannot be interrupted.
    pub state: char,
    /// The system call, if the kernel names it and storage is its matter.
    pub call: Option<&'static str>,
    /// The file of that call, if it has one open.
    pub file: Option<String>,
    /// Number of times that the thread has been on a processor: the same number is the same wait.
    switches: u64,
}

impl BlockedThread {
    /// The thread as it is now; None if it does not wait for storage.
    pub fn of(pid: u32, tid: u32) -> Option<Self> {
        let folder = format!("/proc/{pid}/task/{tid}");
        let (name, state) = name_and_state(&files::system_text(format!("{folder}/stat")).ok()?)?;
        let status = files::system_text(format!("{folder}/status")).ok()?;
        // Another user's is not shown, and not every kernel has it.
        let call = files::system_text(format!("{folder}/syscall")).unwrap_or_default();
        let mut words = call.split_whitespace();
        let number = words.next().and_then(|word| word.parse::<i64>().ok());
        let descriptor = words.next().and_then(|word| word.strip_prefix("0x"));
        let descriptor = descriptor.and_then(|word| u64::from_str_radix(word, 16).ok());
        let link = descriptor.and_then(|fd| fs::read_link(format!("/proc/{pid}/fd/{fd}")).ok());
        let file = link.map(|path| path.display().to_string());
        let named = number
            .and_then(|number| CALLS.iter().chain(OLDER_CALLS).find(|call| call.number == number));
        let is_of_storage = named.is_some_and(|call| match call.takes {
            FirstArgument::Path | FirstArgument::Ring => true,
            FirstArgument::Descriptor => file.as_ref().is_some_and(|file| is_stored(file)),
            // The kernel takes the descriptor away before it waits.
            FirstArgument::Closed => file.is_none(),
        });
        let call = named.filter(|_| is_of_storage);
        let file =
            file.filter(|_| call.is_some_and(|call| call.takes == FirstArgument::Descriptor));
        let call = call.map(|call| call.name);
        (state == 'D' || call.is_some()).then(|| Self {
            pid,
            tid,
            name,
            state,
            call,
            file,
            switches: switches(&status),
        })
    }
}

impl fmt::Display for BlockedThread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { pid, tid, name, state, call, file, .. } = self;
        write!(f, "thread {tid} ({name}) of process {pid} in state {state}")?;
        call.iter().try_for_each(|call| write!(f, " in {call}"))?;
        file.iter().try_for_each(|file| write!(f, " of {file}"))
    }
}

/// True if a descriptor's target is a file of storage: no pipe, socket or terminal.
fn is_stored(file: &str) -> bool {
    file.starts_with('/') && !["/dev/pts/", "/dev/tty"].iter().any(|other| file.starts_with(other))
}

/// Name and state of a line of `stat`: the name may hold anything, brackets too.
pub fn name_and_state(stat: &str) -> Option<(String, char)> {
    let (before, after) = stat.rsplit_once(')')?;
    let name = before.split_once('(')?.1.to_owned();
    Some((name, after.trim_start().chars().next()?))
}

/// Context switches of a thread, of both kinds.
fn switches(status: &str) -> u64 {
    let counts = status.lines().filter_map(|line| {
        let (name, count) = line.split_once(':')?;
        name.ends_with("ctxt_switches").then(|| count.trim().parse::<u64>().ok())?
    });
    counts.sum()
}

/// Looks again and again at the threads of a process, and knows since when each waits.
pub struct BlockedThreads {
    pid: u32,
    seen: HashMap<u32, (u64, Instant)>,
}

impl BlockedThreads {
    pub fn of(pid: u32) -> Self {
        Self { pid, seen: HashMap::new() }
    }

    /// The threads that wait for storage now, each with the time for which it has been seen in
    /// this wait.
    pub fn look(&mut self, now: Instant) -> Vec<(BlockedThread, Duration)> {
        let tasks = fs::read_dir(format!("/proc/{}/task", self.pid)).into_iter().flatten();
        let tids = tasks.flatten().filter_map(|task| task.file_name().to_str()?.parse().ok());
        let threads: Vec<_> = tids.filter_map(|tid| BlockedThread::of(self.pid, tid)).collect();
        let seen = std::mem::take(&mut self.seen);
        self.seen = threads
            .iter()
            .map(|thread| {
                let before =
                    seen.get(&thread.tid).filter(|(switches, _)| *switches == thread.switches);
                (thread.tid, *before.unwrap_or(&(thread.switches, now)))
            })
            .collect();
        let since = |tid| self.seen.get(&tid).map_or(now, |(_, since)| *since);
        let timed = threads.into_iter().map(|thread| {
            let waited = now.saturating_duration_since(since(thread.tid));
            (thread, waited)
        });
        timed.collect()
    }
}

/// A system call that may wait for storage.
struct Call {
    number: i64,
    name: &'static str,
    takes: FirstArgument,
}

/// The first argument of a call.
#[derive(Clone, Copy, PartialEq, Eq)]
enum FirstArgument {
    /// An open file, which may also be a pipe or a socket.
    Descriptor,
    /// An open file that is closed.
    Closed,
    /// A path, or a folder and a path.
    Path,
    /// A ring of requests.
    Ring,
}

macro_rules! calls {
    ($($takes:ident: $($number:ident $name:literal),+;)+) => {
        &[$($(Call { number: libc::$number as i64, name: $name, takes: FirstArgument::$takes }),+),+]
    };
}

const CALLS: &[Call] = calls! {
    Descriptor:
        SYS_read "read", SYS_pread64 "pread64", SYS_readv "readv", SYS_preadv "preadv",
        SYS_write "write", SYS_pwrite64 "pwrite64", SYS_writev "writev", SYS_pwritev "pwritev",
        SYS_fsync "fsync", SYS_fdatasync "fdatasync", SYS_sync_file_range "sync_file_range",
        SYS_syncfs "syncfs", SYS_ftruncate "ftruncate", SYS_fallocate "fallocate",
        SYS_fstat "fstat", SYS_fstatfs "fstatfs", SYS_getdents64 "getdents64",
        SYS_fadvise64 "fadvise64";
    Closed: SYS_close "close";
    Path:
        SYS_openat "openat", SYS_statx "statx", SYS_newfstatat "newfstatat",
        SYS_unlinkat "unlinkat", SYS_renameat2 "renameat2", SYS_mkdirat "mkdirat",
        SYS_readlinkat "readlinkat", SYS_faccessat "faccessat", SYS_sync "sync",
        SYS_statfs "statfs";
    Ring: SYS_io_uring_enter "io_uring_enter";
};

/// Calls that newer architectures do not have.
#[cfg(target_arch = "x86_64")]
const OLDER_CALLS: &[Call] = calls! {
    Path:
        SYS_open "open", SYS_stat "stat", SYS_lstat "lstat", SYS_unlink "unlink",
        SYS_rename "rename", SYS_renameat "renameat", SYS_mkdir "mkdir", SYS_rmdir "rmdir",
        SYS_readlink "readlink", SYS_access "access", SYS_truncate "truncate";
};
#[cfg(not(target_arch = "x86_64"))]
const OLDER_CALLS: &[Call] = &[];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_brackets_does_not_shift_the_state() {
        assert_eq!(name_and_state("1 (a) b (c) D 2 3"), Some(("a) b (c".to_owned(), 'D')));
        assert_eq!(name_and_state("1"), None);
    }

    #[test]
    fn switches_of_both_kinds_count() {
        let status = "Name:\tx\nvoluntary_ctxt_switches:\t7\nnonvoluntary_ctxt_switches:\t2\n";
        assert_eq!(switches(status), 9);
    }

    #[test]
    fn a_thread_that_waits_for_a_pipe_does_not_wait_for_storage() {
        let (mut reader, writer) = std::io::pipe().unwrap();
        let (sender, tid) = std::sync::mpsc::channel();
        let waits = std::thread::spawn(move || {
            sender.send(rustix::thread::gettid().as_raw_nonzero().get() as u32).unwrap();
            std::io::Read::read(&mut reader, &mut [0]).unwrap()
        });
        let tid = tid.recv().unwrap();
        let folder = format!("/proc/self/task/{tid}/stat");
        while !fs::read_to_string(&folder).unwrap().contains(") S ") {}
        assert_eq!(BlockedThread::of(std::process::id(), tid), None);
        drop(writer);
        assert_eq!(waits.join().unwrap(), 0);
    }
}
