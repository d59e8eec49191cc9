//! The petal at work in a folder, found by the lock that it holds there, and asked to stop.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use petal_host::files;
use petal_record::sweep;
use rustix::process::{Pid, PidfdFlags, Signal, getpid, pidfd_open, pidfd_send_signal};

/// Interrupts the petal that works in this folder of a run or a sweep, as Ctrl-C does there. An
/// error is a sentence.
pub fn holder(dir: &Path) -> Result<(), String> {
    let locked = if sweep::is_one(dir) { dir.join(sweep::LOCK) } else { dir.to_owned() };
    let unknown = || {
        format!(
            "{}: cannot find the petal that works here: /proc/locks shows no process of this host \
             with its lock; press Ctrl-C in its own terminal",
            dir.display()
        )
    };
    // A link to another sweep's lock would stop that one.
    let look = if locked == dir { fs::metadata } else { fs::symlink_metadata };
    let about = look(&locked).map_err(|_| unknown())?;
    let locks = files::system_text("/proc/locks").map_err(|_| unknown())?;
    let found = pids(&locks, about.ino()).into_iter().any(|pid| {
        // The number may be of another process by now: only this handle is signalled.
        let Ok(process) = pidfd_open(pid, PidfdFlags::empty()) else { return false };
        let parent = supervisor(pid);
        if !has_open(pid, &about) {
            return false;
        }
        let to_parent = parent.map(|parent| pidfd_send_signal(parent, Signal::INT));
        pidfd_send_signal(process, Signal::INT).is_ok() || matches!(to_parent, Some(Ok(())))
    });
    if found { Ok(()) } else { Err(unknown()) }
}

/// Interrupts this petal as Ctrl-C does.
pub fn this_petal() {
    let pid = getpid();
    let process = pidfd_open(pid, PidfdFlags::empty()).ok();
    for process in [supervisor(pid), process].into_iter().flatten() {
        // Of a process that is gone there is nothing to stop.
        let _ = pidfd_send_signal(process, Signal::INT);
    }
}

/// The processes that hold the lock (flock) of a file with this number alone. A petal that looks whether it
/// is locked shares it for a moment.
fn pids(locks: &str, inode: u64) -> Vec<Pid> {
    let holder = |line: &str| {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let [_, "FLOCK", _, "WRITE", pid, file, ..] = words.as_slice() else { return None };
        let number: u64 = file.rsplit(':').next()?.parse().ok()?;
        if number != inode { None } else { Pid::from_raw(pid.parse().ok()?) }
    };
    locks.lines().filter_map(holder).collect()
}

/// Whether the process has this very file open.
fn has_open(pid: Pid, file: &fs::Metadata) -> bool {
    let open = fs::read_dir(format!("/proc/{}/fd", pid.as_raw_nonzero()));
    open.into_iter().flatten().flatten().any(|entry| {
        let seen = fs::metadata(entry.path());
        seen.is_ok_and(|seen| (seen.dev(), seen.ino()) == (file.dev(), file.ino()))
    })
}

/// The parent of a petal, if it is the petal that waits for it and hears its signals.
fn supervisor(pid: Pid) -> Option<rustix::fd::OwnedFd> {
    let program = |pid: i32| -> Option<PathBuf> { fs::read_link(format!("/proc/{pid}/exe")).ok() };
    let parent = || {
        let stat = files::system_text(format!("/proc/{}/stat", pid.as_raw_nonzero())).ok()?;
        // The name is in parentheses; the state and the parent follow.
        stat.rsplit_once(')')?.1.split_ascii_whitespace().nth(1)?.parse::<i32>().ok()
    };
    let before = parent()?;
    let process = pidfd_open(Pid::from_raw(before)?, PidfdFlags::empty()).ok()?;
    let is_petal = program(before)? == program(pid.as_raw_nonzero().get())?;
    (is_petal && parent() == Some(before)).then_some(process)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;

    #[test]
    fn the_holder_of_a_lock_is_found_by_the_number_of_its_file() {
        let locks = "1: POSIX  ADVISORY  WRITE 11 fd:01:77 0 EOF\n\
                     2: FLOCK  ADVISORY  WRITE 12 fd:01:77 0 EOF\n\
                     2: -> FLOCK  ADVISORY  WRITE 13 fd:01:77 0 EOF\n\
                     3: FLOCK  ADVISORY  READ  14 fd:01:78 0 EOF\n\
                     4: FLOCK  ADVISORY  WRITE 0 fd:01:77 0 EOF\n";
        assert_eq!(pids(locks, 77), [Pid::from_raw(12).unwrap()]);
        assert!(pids(locks, 78).is_empty() && pids(locks, 79).is_empty());
    }

    #[test]
    fn only_a_process_with_that_file_open_is_the_holder() {
        let dir = tempfile::tempdir().unwrap();
        let about = fs::metadata(dir.path()).unwrap();
        assert!(!has_open(getpid(), &about));
        let _open = File::open(dir.path()).unwrap();
        assert!(has_open(getpid(), &about));
    }

    #[test]
    fn without_a_holder_the_error_names_the_folder_and_a_way_out() {
        let dir = tempfile::tempdir().unwrap();
        let error = holder(dir.path()).unwrap_err();
        let name = dir.path().file_name().unwrap().to_str().unwrap();
        assert!(error.contains(name) && error.contains("Ctrl-C"), "{error}");
    }
}
