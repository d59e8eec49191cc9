//! Resources that a database server's processes on this host used: a parent and its children. Their
//! processor time is from proc_pid_stat(5), their bytes from proc_pid_io(5). A child that ended is
//! in its parent's sums as soon as that has taken notice of it.

use std::path::Path;

use rustix::time::{ClockId, clock_gettime};

use super::process_io::ProcessIo;
use crate::devices::Roots;
use crate::files;
use crate::tree::{entries, value_of};

const US_PER_SECOND: u64 = 1_000_000;

/// Processes of a server, as an engine names them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServerProcesses {
    /// The process that started the others, or the only one.
    pub parent: u32,
    /// The process that writes the log, if there is one.
    pub log_writer: Option<u32>,
}

/// Resources they have used so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct ServerUse {
    pub cpu_us: u64,
    pub processes: u64,
    /// The log writer's, and the processor that it last ran on.
    pub log_writer: Option<(u64, u32)>,
    /// `None` if one of them may not be seen.
    pub io: Option<ProcessIo>,
}

/// A process, from its stat.
#[derive(Debug, PartialEq, Eq)]
struct Stat {
    name: String,
    parent: u32,
    own_ticks: u64,
    ended_children_ticks: u64,
    began_ticks: u64,
    processor: u32,
}

/// The beginning of a process, in seconds since the boot, from its age by the server's clock.
#[derive(Debug, Clone, Copy)]
pub struct Began {
    earliest_s: f64,
    latest_s: f64,
}

impl Began {
    /// Asks for the age in seconds, exact to `tolerance_s`. The other answers are of the same moment.
    pub fn ask<T>(tolerance_s: f64, ask: impl FnOnce() -> Option<(f64, T)>) -> Option<(Self, T)> {
        let now_s = || {
            let now = clock_gettime(ClockId::Boottime);
            now.tv_sec as f64 + now.tv_nsec as f64 / 1e9
        };
        let before_s = now_s();
        let (age_s, others) = ask()?;
        let earliest_s = before_s - age_s - tolerance_s;
        Some((Self { earliest_s, latest_s: now_s() - age_s + tolerance_s }, others))
    }

    fn holds(&self, ticks: u64) -> bool {
        let at_s = us(ticks) as f64 / US_PER_SECOND as f64;
        (self.earliest_s..=self.latest_s).contains(&at_s)
    }
}

/// Processes of this host with one of these names that began then.
pub fn processes_named(names: &[&str], began: Began) -> Vec<u32> {
    let proc = Roots::default().proc;
    let is_one = |stat: Stat| names.contains(&&*stat.name) && began.holds(stat.began_ticks);
    all(&proc).filter(|pid| Stat::read(&proc, *pid).is_some_and(is_one)).collect()
}

/// The number that a process of this host has in its own container.
pub fn number_inside(process: u32) -> u32 {
    number_inside_under(&Roots::default().proc, process)
}

/// Whether a process of this host has the thread with this number in its own container.
pub fn has_thread(process: u32, thread: u32) -> bool {
    has_thread_under(&Roots::default().proc, process, thread)
}

fn has_thread_under(proc: &Path, process: u32, thread: u32) -> bool {
    let threads = proc.join(process.to_string()).join("task");
    all(&threads).any(|number| number_inside_under(&threads, number) == thread)
}

fn number_inside_under(proc: &Path, process: u32) -> u32 {
    let status = files::system_text(proc.join(process.to_string()).join("status"));
    let numbers = status.ok().and_then(|text| value_of(&text, "NSpid").map(str::to_owned));
    let inside = numbers.and_then(|list| list.split_ascii_whitespace().last()?.parse().ok());
    inside.unwrap_or(process)
}

impl ServerProcesses {
    /// The server of a session. The server's container gave both numbers; the session's process has the name of its parent. `None` if no process or more than
    /// one fits: the server may be on another host.
    pub fn of_session(session: u32, began: Began, log_writer: Option<u32>) -> Option<Self> {
        Self::of_session_under(&Roots::default(), session, began, log_writer)
    }

    fn of_session_under(
        roots: &Roots,
        session: u32,
        began: Began,
        log_writer: Option<u32>,
    ) -> Option<Self> {
        let proc = &roots.proc;
        let fits = |pid: &u32| {
            let stat = Stat::read(proc, *pid).filter(|stat| began.holds(stat.began_ticks));
            let parent = stat.as_ref().and_then(|stat| Stat::read(proc, stat.parent));
            parent.is_some_and(|parent| stat.is_some_and(|stat| stat.name == parent.name))
                && number_inside_under(proc, *pid) == session
        };
        let mut fitting = all(proc).filter(fits);
        let process = fitting.next().filter(|_| fitting.next().is_none())?;
        let parent = Stat::read(proc, process)?.parent;
        let is_writer = |pid: &u32| Some(number_inside_under(proc, *pid)) == log_writer;
        let log_writer = children(proc, parent).into_iter().find(is_writer);
        Some(Self { parent, log_writer })
    }

    /// All that several servers used together; None without any, or when one of them is gone or
    /// may not be seen.
    pub(super) fn used_by_all(servers: &[Self], roots: &Roots) -> Option<ServerUse> {
        let each = servers.iter().map(|server| server.used(roots));
        each.reduce(|sum, one| Some(sum?.plus(one?)))?
    }

    /// None when the parent is gone or may not be seen.
    fn used(&self, roots: &Roots) -> Option<ServerUse> {
        let children = children(&roots.proc, self.parent);
        let io_of = |pid: u32| ProcessIo::of_child(&roots.proc, &pid.to_string());
        let mut sum = ServerUse { io: Some(ProcessIo::default()), ..ServerUse::default() };
        let mut ticks = 0;
        for pid in children {
            // A process that ended meanwhile is in its parent's sum.
            let Some(stat) = Stat::read(&roots.proc, pid) else { continue };
            ticks += stat.own_ticks + stat.ended_children_ticks;
            sum.processes += 1;
            sum.io = sum.io.zip(io_of(pid)).map(|(sum, one)| sum.plus(&one));
            if self.log_writer == Some(pid) {
                sum.log_writer = Some((us(stat.own_ticks), stat.processor));
            }
        }
        let parent = Stat::read(&roots.proc, self.parent)?;
        sum.processes += 1;
        sum.io = sum.io.zip(io_of(self.parent)).map(|(sum, one)| sum.plus(&one));
        sum.cpu_us = us(ticks + parent.own_ticks + parent.ended_children_ticks);
        Some(sum)
    }
}

impl ServerUse {
    /// Adds two servers. The log writer is from the first one that has one, as only a primary
    /// writes a log.
    fn plus(self, other: Self) -> Self {
        Self {
            cpu_us: self.cpu_us.saturating_add(other.cpu_us),
            processes: self.processes + other.processes,
            log_writer: self.log_writer.or(other.log_writer),
            io: self.io.zip(other.io).map(|(sum, one)| sum.plus(&one)),
        }
    }
}

fn us(ticks: u64) -> u64 {
    ticks.saturating_mul(US_PER_SECOND) / rustix::param::clock_ticks_per_second().max(1)
}

impl Stat {
    fn read(proc: &Path, process: u32) -> Option<Self> {
        Self::of(&files::system_text(proc.join(process.to_string()).join("stat")).ok()?)
    }

    /// `pid (name) state parent ...`; a name may hold anything, also brackets.
    fn of(text: &str) -> Option<Self> {
        let (before, after) = text.rsplit_once(')')?;
        let (_, name) = before.split_once('(')?;
        let fields: Vec<&str> = after.split_ascii_whitespace().collect();
        // proc_pid_stat(5) numbers them from 1; the state is the third.
        let number = |field: usize| fields.get(field - 3)?.parse::<u64>().ok();
        // A child's time may be negative to the kernel's mind, never to ours.
        let ended = |field: usize| number(field).unwrap_or(0);
        Some(Self {
            name: name.to_owned(),
            parent: number(4)?.try_into().ok()?,
            own_ticks: number(14)?.saturating_add(number(15)?),
            ended_children_ticks: ended(16).saturating_add(ended(17)),
            began_ticks: number(22)?,
            processor: number(39)?.try_into().ok()?,
        })
    }
}

/// The kernel's list of children, if it keeps one; else by looking through all processes.
fn children(proc: &Path, parent: u32) -> Vec<u32> {
    let list = proc.join(parent.to_string()).join("task").join(parent.to_string()).join("children");
    if let Ok(text) = files::system_text(list) {
        return text.split_ascii_whitespace().filter_map(|pid| pid.parse().ok()).collect();
    }
    all(proc)
        .filter(|pid| Stat::read(proc, *pid).is_some_and(|stat| stat.parent == parent))
        .collect()
}

/// Processes that can be seen.
fn all(proc: &Path) -> impl Iterator<Item = u32> + use<> {
    entries(proc).filter_map(|entry| entry.file_name().to_str().and_then(|name| name.parse().ok()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::devices::recorded::Recorded;
    use proptest::prelude::*;

    fn stat(pid: u32, name: &str, parent: u32, times: [u64; 4], processor: u32) -> String {
        let [user, system, ended_user, ended_system] = times;
        let zeros = |count: usize| " 0".repeat(count);
        // Each began so many seconds after the boot as its number says.
        let began_ticks = u64::from(pid) * rustix::param::clock_ticks_per_second();
        format!(
            "/proc/{pid}/stat = {pid} ({name}) S {parent}{} {user} {system} {ended_user} \
             {ended_system}{} {began_ticks}{} {processor} 0 0 0\n",
            zeros(9),
            zeros(4),
            zeros(16)
        )
    }

    fn about(at_s: f64) -> Began {
        Began { earliest_s: at_s - 0.5, latest_s: at_s + 0.5 }
    }

    fn found(tree: &Recorded, session: u32, began: Began, writer: u32) -> Option<ServerProcesses> {
        ServerProcesses::of_session_under(&tree.roots(), session, began, Some(writer))
    }

    fn server_stat(pid: u32, parent: u32, user: u64) -> String {
        let text = stat(pid, "postgres", parent, [user, 0, 0, 0], 0);
        text.split_once(" = ").map(|(_, stat)| stat.to_owned()).unwrap_or_default()
    }

    fn server() -> Recorded {
        Recorded::of(
            &[
                stat(70, "postgres", 1, [10, 20, 300, 400], 0),
                stat(71, "postgres", 70, [5, 5, 0, 0], 3),
                stat(72, "postgres", 70, [1, 1, 1, 1], 1),
                stat(80, "bash", 1, [9, 9, 9, 9], 1),
                stat(81, "postgres", 80, [7, 7, 7, 7], 1),
            ]
            .concat(),
        )
    }

    #[test]
    fn a_parent_and_its_children_are_added_up() {
        let tree = server();
        let found = found(&tree, 72, about(72.0), 71).unwrap();
        assert_eq!(found, ServerProcesses { parent: 70, log_writer: Some(71) });
        let used = |servers: &[ServerProcesses]| {
            ServerProcesses::used_by_all(servers, &tree.roots()).unwrap()
        };
        let time = used(&[found]);
        let us = |ticks| us(ticks);
        assert_eq!((time.cpu_us, time.processes), (us(744), 3));
        assert_eq!(time.log_writer, Some((us(10), 3)));
        // The kernel's own list is believed, if it exists.
        tree.write("/proc/70/task/70/children", "72\n");
        assert_eq!(used(&[found]).cpu_us, us(734));
    }

    #[test]
    fn a_process_under_another_name_is_no_server() {
        let tree = server();
        assert_eq!(found(&tree, 81, about(81.0), 0), None);
        assert_eq!(found(&tree, 99, about(99.0), 0), None);
        let gone = ServerProcesses { parent: 99, log_writer: None };
        let used =
            |servers: &[ServerProcesses]| ServerProcesses::used_by_all(servers, &tree.roots());
        assert_eq!(used(&[gone]), None);
        assert_eq!(used(&[]), None);
        // A log writer of another server does not count.
        assert_eq!(found(&tree, 71, about(71.0), 81).unwrap().log_writer, None);
    }

    #[test]
    fn a_session_in_a_container_is_found_by_its_number_there_and_its_age() {
        let tree = server();
        for (pid, inside) in [(70, 1), (71, 21), (72, 22)] {
            tree.write(&format!("/proc/{pid}/status"), &format!("NSpid:\t{pid}\t{inside}\n"));
        }
        let server = found(&tree, 22, about(72.0), 21).unwrap();
        assert_eq!((server.parent, server.log_writer), (70, Some(71)));
        // Another server's session of this number, and one of a number that is not its own there.
        assert_eq!(found(&tree, 22, about(75.0), 21), None);
        assert_eq!(found(&tree, 72, about(72.0), 71), None);
        // Two that fit.
        tree.write("/proc/71/status", "NSpid:\t71\t22\n");
        let both = Began { earliest_s: 71.0, latest_s: 72.0 };
        assert_eq!(found(&tree, 22, both, 1), None);
    }

    #[test]
    fn a_thread_is_known_by_its_number_in_the_servers_container() {
        let tree = server();
        for (thread, inside) in [(70, 1), (900, 31)] {
            let status = format!("/proc/70/task/{thread}/status");
            tree.write(&status, &format!("NSpid:\t{thread}\t{inside}\n"));
        }
        tree.write("/proc/80/task/81/status", "Name:\tbash\n");
        let has = |process, thread| has_thread_under(&tree.roots().proc, process, thread);
        assert!(has(70, 1) && has(70, 31) && has(80, 81));
        assert!(!has(70, 900) && !has(80, 31) && !has(99, 31));
        assert!(has_thread(std::process::id(), std::process::id()));
    }

    #[test]
    fn an_age_is_that_of_a_moment_between_asking_and_the_answer() {
        let (own, ()) = Began::ask(1.0, || Some((0.0, ()))).unwrap();
        let ticks = |at_s: f64| (at_s * rustix::param::clock_ticks_per_second() as f64) as u64;
        assert!(own.holds(ticks(own.earliest_s + 1.0)) && own.latest_s - own.earliest_s >= 2.0);
        assert!(!own.holds(ticks(own.latest_s + 0.1)) && !own.holds(ticks(own.earliest_s - 0.1)));
        assert!(Began::ask(1.0, || None::<(f64, ())>).is_none());
    }

    #[test]
    fn reads_of_its_processes_are_known_if_all_of_them_are_visible() {
        let tree = server();
        let server = ServerProcesses { parent: 70, log_writer: None };
        let io = || ServerProcesses::used_by_all(&[server], &tree.roots()).unwrap().io;
        let io_of = |read: u64| format!("rchar: 9\nread_bytes: {read}\nwrite_bytes: 1\n");
        for (pid, read) in [(70, 4096), (71, 8192), (81, 1 << 30)] {
            tree.write(&format!("/proc/{pid}/io"), &io_of(read));
        }
        assert_eq!(io(), None, "72 is not seen");
        tree.write("/proc/72/io", &io_of(512));
        let sum = ProcessIo { read_bytes: 12_800, write_bytes: 3, call_read_bytes: 27 };
        assert_eq!(io(), Some(sum));
    }

    #[test]
    fn two_servers_are_added_up_and_the_primary_has_the_log_writer() {
        let tree = server();
        tree.write("/proc/90/stat", &server_stat(90, 1, 100));
        tree.write("/proc/91/stat", &server_stat(91, 90, 7));
        let standby = ServerProcesses { parent: 90, log_writer: None };
        let primary = ServerProcesses { parent: 70, log_writer: Some(71) };
        let both = ServerProcesses::used_by_all(&[standby, primary], &tree.roots()).unwrap();
        assert_eq!((both.cpu_us, both.processes), (us(744 + 107), 5));
        assert_eq!(both.log_writer, Some((us(10), 3)));
        let gone = ServerProcesses { parent: 99, log_writer: None };
        assert_eq!(ServerProcesses::used_by_all(&[primary, gone], &tree.roots()), None);
    }

    #[test]
    fn this_process_is_understood() {
        let own = Stat::read(Path::new("/proc"), std::process::id()).unwrap();
        assert_eq!(Some(own.parent), rustix::process::getppid().map(|pid| pid.as_raw_pid() as u32));
        assert!(!own.name.is_empty());
    }

    proptest! {
        #[test]
        fn no_text_upsets_the_reader(text in "([0-9]{1,22}|\\(|\\)| |S|-1|\\PC){0,60}") {
            Stat::of(&text);
        }
    }
}
