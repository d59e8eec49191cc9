//! Bytes that a process read and wrote by itself, as proc_pid_io(5) counts it: all its threads, and
//! the children that have ended and were waited for.

use std::path::Path;

use crate::files;
use crate::tree::number_after;

/// Cumulative.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct ProcessIo {
    /// Bytes that block devices were asked for on its behalf, read-ahead included.
    pub read_bytes: u64,
    /// Bytes that it changed in the page cache, or wrote past it.
    pub write_bytes: u64,
    /// Bytes that its system calls returned, from any source; requests by io_uring are not in it.
    pub call_read_bytes: u64,
}

crate::field_by_field!(ProcessIo: read_bytes, write_bytes, call_read_bytes);

impl ProcessIo {
    /// Reads the I/O of a process, by its number or `self`; `None` if it may not be seen.
    pub(super) fn read(proc: &Path, process: &str) -> Option<Self> {
        Self::of(&files::system_text(proc.join(process).join("io")).ok()?)
    }

    /// Reads the I/O of a child, which counts as 0 after its end: its parent then has its bytes.
    pub(super) fn of_child(proc: &Path, process: &str) -> Option<Self> {
        let has_ended = || !proc.join(process).exists();
        Self::read(proc, process).or_else(|| has_ended().then(Self::default))
    }

    fn of(text: &str) -> Option<Self> {
        Some(Self {
            read_bytes: number_after(text, "read_bytes")?,
            write_bytes: number_after(text, "write_bytes")?,
            call_read_bytes: number_after(text, "rchar")?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::devices::recorded::Recorded;

    #[test]
    fn a_child_that_hides_its_bytes_is_unknown_and_one_that_ended_has_none() {
        let tree = Recorded::of(
            "/proc/7/io\n  rchar: 70\n  wchar: 9\n  read_bytes: 50\n  write_bytes: 3\n  cancelled_write_bytes: 8\n",
        );
        tree.write("/proc/8/stat", "8 (hidden) S 1");
        let proc = tree.roots().proc;
        let seven = ProcessIo { read_bytes: 50, write_bytes: 3, call_read_bytes: 70 };
        assert_eq!(ProcessIo::of_child(&proc, "7"), Some(seven));
        assert_eq!(ProcessIo::of_child(&proc, "8"), None);
        assert_eq!(ProcessIo::of_child(&proc, "9"), Some(ProcessIo::default()));
        assert_eq!(ProcessIo::read(&proc, "9"), None);
    }
}
