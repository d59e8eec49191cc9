//! Process group of a run's scripts: all their processes end with petal, however petal ends.
//!
//! The group's leader is a small watcher, a shell that reads from a pipe whose other end only petal
//! holds. When petal has ended, even by `kill -9`, the kernel closes that end, and the watcher ends
//! the group. A parent-death signal would reach only the script and not its child processes.

use std::fs;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use petal_model::files;
use rustix::process::{Pid, Signal, kill_process_group};

const POLL: Duration = Duration::from_millis(20);
/// Time between the request that the group end and its kill.
const GRACE: Duration = Duration::from_secs(2);
/// Shell command that waits for petal's end, then does the same as [`end`]. It must outlive its own
/// SIGTERM.
const WATCH: &str = "trap '' HUP INT TERM; read -r _; kill -TERM 0; sleep 2; kill -KILL 0";

/// Process group of a run's scripts. It is created for the first script.
#[derive(Default)]
pub struct HookGroup {
    watcher: Mutex<Option<Child>>,
}

impl HookGroup {
    /// Returns the group's number, in which a command is to be started.
    pub fn id(&self) -> io::Result<i32> {
        let mut watcher = self.watcher.lock();
        if watcher.is_none() {
            *watcher = Some(start_watcher()?);
        }
        Ok(watcher.as_ref().map_or(0, |watcher| watcher.id().cast_signed()))
    }

    /// Ends all processes of the group: first by a request, then by a kill.
    pub fn end(&self) {
        if let Some(mut watcher) = self.watcher.lock().take() {
            end(&mut watcher);
        }
    }
}

impl Drop for HookGroup {
    fn drop(&mut self) {
        self.end();
    }
}

fn start_watcher() -> io::Result<Child> {
    let mut command = Command::new("/bin/sh");
    command.args(["-c", WATCH]).env_clear().env("PATH", "/usr/bin:/bin").process_group(0);
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()
}

fn end(watcher: &mut Child) {
    let id = watcher.id();
    // They may have ended in the meantime.
    let signal = |signal| {
        Pid::from_raw(id.cast_signed()).map(|group| kill_process_group(group, signal).is_ok())
    };
    if has_others(id) {
        signal(Signal::TERM);
        let began = Instant::now();
        while has_others(id) && began.elapsed() < GRACE {
            thread::sleep(POLL);
        }
    }
    // The watcher was not reaped yet, so that no other process can have its number.
    signal(Signal::KILL);
    let _ = watcher.wait();
}

/// True if another process of the group is alive, apart from the leader.
fn has_others(group: u32) -> bool {
    let Ok(processes) = fs::read_dir("/proc") else { return true };
    let ids = processes.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    ids.filter(|id: &u32| *id != group).any(|id| is_alive_in(group, id))
}

/// Reads state and group from <https://man7.org/linux/man-pages/man5/proc_pid_stat.5.html>.
fn is_alive_in(group: u32, process: u32) -> bool {
    let Ok(stat) = files::system_text(format!("/proc/{process}/stat")) else { return false };
    let mut fields = stat.rsplit(") ").next().unwrap_or("").split_whitespace();
    let state = fields.next();
    state != Some("Z") && fields.nth(1).and_then(|field| field.parse().ok()) == Some(group)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start(group: &HookGroup, body: &str) -> Child {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", body]).process_group(group.id().unwrap());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap()
    }

    #[test]
    fn processes_left_by_a_script_end_with_the_group() {
        let group = HookGroup::default();
        let id = group.id().unwrap();
        assert!(start(&group, "sleep 600 & sleep 600 &").wait().unwrap().success());
        assert!(has_others(id.cast_unsigned()));
        drop(group);
        assert!(!has_others(id.cast_unsigned()));
    }

    #[test]
    fn a_group_is_created_again_after_its_end() {
        let group = HookGroup::default();
        let first = group.id().unwrap();
        assert_eq!(group.id().unwrap(), first);
        group.end();
        assert!(start(&group, "exit 0").wait().unwrap().success());
    }

    #[test]
    fn the_watcher_ends_the_group_when_petals_end_of_the_pipe_is_closed() {
        let group = HookGroup::default();
        let id = group.id().unwrap().cast_unsigned();
        let mut script = start(&group, "sleep 600");
        drop(group.watcher.lock().as_mut().unwrap().stdin.take());
        assert!(!script.wait().unwrap().success());
        // The watcher ends last.
        assert!(!group.watcher.lock().as_mut().unwrap().wait().unwrap().success());
        assert!(!has_others(id));
    }
}
