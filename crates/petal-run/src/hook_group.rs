//! Process group of a run's scripts: all their processes end with petal, however petal ends.
//!
//! The group's leader is a small watcher, a shell that reads from a pipe whose other end only petal
//! holds. When petal has ended, even by `kill -9`, the kernel closes that end, and the watcher ends
//! the group. A parent-death signal would reach only the script and not its child processes.
//!
//! A process that leaves the group, as a daemon does, is known by a mark in its environment, and with
//! another environment as an [orphan](super::orphans) of a neighbour.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;
use petal_engine::threads::GROUP_MARK;
use petal_host::files;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open, pidfd_send_signal};

const POLL: Duration = Duration::from_millis(20);
/// Time between the request that the group end and its kill.
const GRACE: Duration = Duration::from_secs(2);
/// Shell command that waits for petal's end, then does the same as [`Watcher::end`], for the mark in
/// its first parameter. It must outlive its own SIGTERM.
const WATCH: &str = r#"trap '' HUP INT TERM
marked() {
    for it in $(grep -lsF "$1" /proc/[0-9]*/environ); do
        it=${it#/proc/}; kill "-$2" "${it%/environ}"
    done
}
read -r _; kill -TERM 0; marked "$1" TERM; sleep 2; marked "$1" KILL; kill -KILL 0"#;
/// Process group of a run's scripts. It is created for the first script.
#[derive(Default)]
pub struct HookGroup {
    watcher: Mutex<Option<Watcher>>,
}

impl HookGroup {
    /// Lets a command start in the group.
    pub fn take(&self, command: &mut Command) -> io::Result<()> {
        let mut watcher = self.watcher.lock();
        let started = match watcher.take() {
            Some(started) => started,
            None => Watcher::start()?,
        };
        let started = watcher.insert(started);
        command.process_group(started.child.id().cast_signed()).env(GROUP_MARK, &started.mark);
        Ok(())
    }

    /// Ends all processes of the group: first by a request, then by a kill.
    pub fn end(&self) {
        if let Some(watcher) = self.watcher.lock().take() {
            watcher.end();
        }
    }
}

impl Drop for HookGroup {
    fn drop(&mut self) {
        self.end();
    }
}

/// The group's first process.
struct Watcher {
    child: Child,
    /// A text that no other group's processes have.
    mark: String,
}

impl Watcher {
    fn start() -> io::Result<Self> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let mark = format!("{}-{}", std::process::id(), now.as_nanos());
        let mut command = Command::new("/bin/sh");
        let marked = format!("{GROUP_MARK}={mark}");
        command.args(["-c", WATCH, "petal", &marked]).env_clear().env("PATH", "/usr/bin:/bin");
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        Ok(Self { child: command.process_group(0).spawn()?, mark })
    }

    fn end(mut self) {
        let group = Pid::from_child(&self.child);
        // They may have ended in the meantime.
        let signal = |signal| {
            let _ = kill_process_group(group, signal);
            for process in marked(&self.mark) {
                let _ = pidfd_send_signal(process, signal);
            }
        };
        // The watcher was not reaped yet, so that no other process can have its number.
        end_all(signal, || has_others(group) || marked(&self.mark).next().is_some());
        signal(Signal::KILL);
        let _ = self.child.wait();
    }
}

/// Ends processes, until none is left or the time is over: first by a request, then by a kill.
pub(crate) fn end_all(signal: impl Fn(Signal), is_any_left: impl Fn() -> bool) {
    for name in [Signal::TERM, Signal::KILL] {
        let began = Instant::now();
        let mut is_sent = false;
        while is_any_left() && began.elapsed() < GRACE {
            if name == Signal::KILL || !std::mem::replace(&mut is_sent, true) {
                signal(name);
            }
            thread::sleep(POLL);
        }
    }
}

/// The processes with this mark, except the watcher.
fn marked(mark: &str) -> impl Iterator<Item = OwnedFd> {
    let marked = format!("{GROUP_MARK}={mark}").into_bytes();
    ProcessStat::all().filter_map(move |ProcessStat { process, .. }| {
        // The number may be of another process by now: only this handle is signalled.
        let handle = pidfd_open(process, PidfdFlags::empty()).ok()?;
        let variables = variables(process)?;
        variables.split(|byte| *byte == 0).any(|variable| variable == marked).then_some(handle)
    })
}

/// True if a process was started in some group, or for another purpose of petal's.
pub(crate) fn has_mark(process: Pid) -> bool {
    variables(process).is_some_and(|variables| {
        variables.split(|byte| *byte == 0).any(|it| it.starts_with(GROUP_MARK.as_bytes()))
    })
}

fn variables(process: Pid) -> Option<Vec<u8>> {
    files::read(format!("/proc/{process}/environ")).ok()
}

/// State of a process (<https://man7.org/linux/man-pages/man5/proc_pid_stat.5.html>).
pub(crate) struct ProcessStat {
    pub process: Pid,
    pub is_alive: bool,
    pub parent: Option<Pid>,
    pub group: Option<Pid>,
}

impl ProcessStat {
    /// All processes of this host.
    pub fn all() -> impl Iterator<Item = Self> {
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        entries.filter_map(|entry| Self::of(entry.file_name().to_str()?.parse().ok()?))
    }

    fn of(process: i32) -> Option<Self> {
        let stat = files::system_text(format!("/proc/{process}/stat")).ok()?;
        let mut fields = stat.rsplit(") ").next()?.split_whitespace();
        let is_alive = fields.next()? != "Z";
        // A process that is just being reaped has the group -1.
        let mut id = || Pid::from_raw(fields.next()?.parse().ok().filter(|id| *id > 0)?);
        Some(Self { process: Pid::from_raw(process)?, is_alive, parent: id(), group: id() })
    }
}

/// True if another process of the group is alive, apart from the leader.
fn has_others(group: Pid) -> bool {
    ProcessStat::all().any(|it| it.is_alive && it.group == Some(group) && it.process != group)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start(group: &HookGroup, body: &str) -> Child {
        let mut command = Command::new("/bin/sh");
        group.take(&mut command).unwrap();
        command.args(["-c", body]).stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap()
    }

    fn id_and_mark(group: &HookGroup) -> (Pid, String) {
        let watcher = group.watcher.lock();
        let watcher = watcher.as_ref().unwrap();
        (Pid::from_child(&watcher.child), watcher.mark.clone())
    }

    /// Processes in the group, and outside of it.
    const LEFT: &str =
        "sleep 600 & sleep 600 & setsid sleep 600 & setsid sh -c 'trap \"\" TERM; sleep 600' &";

    #[test]
    fn processes_left_by_a_script_end_with_the_group() {
        let group = HookGroup::default();
        assert!(start(&group, LEFT).wait().unwrap().success());
        let (id, mark) = id_and_mark(&group);
        assert!(has_others(id));
        let began = Instant::now();
        // The second one outside of the group has a child.
        while marked(&mark).count() < 5 {
            assert!(began.elapsed() < Duration::from_secs(60), "they do not start");
            thread::sleep(POLL);
        }
        drop(group);
        assert!(!has_others(id) && marked(&mark).next().is_none());
    }

    #[test]
    fn a_group_is_created_again_after_its_end() {
        let group = HookGroup::default();
        start(&group, "exit 0").wait().unwrap();
        let first = id_and_mark(&group);
        start(&group, "exit 0").wait().unwrap();
        assert_eq!(id_and_mark(&group), first);
        group.end();
        assert!(start(&group, "exit 0").wait().unwrap().success());
        assert_ne!(id_and_mark(&group), first);
    }

    #[test]
    fn the_watcher_ends_the_group_when_petals_end_of_the_pipe_is_closed() {
        let group = HookGroup::default();
        let mut script = start(&group, "setsid sleep 600 & sleep 600");
        let (id, mark) = id_and_mark(&group);
        let began = Instant::now();
        while marked(&mark).count() < 3 {
            assert!(began.elapsed() < Duration::from_secs(60), "they do not start");
            thread::sleep(POLL);
        }
        let mut watcher = group.watcher.lock().take().unwrap();
        drop(watcher.child.stdin.take());
        assert!(!script.wait().unwrap().success());
        // The watcher ends last.
        assert!(!watcher.child.wait().unwrap().success());
        assert!(!has_others(id) && marked(&mark).next().is_none());
    }
}
