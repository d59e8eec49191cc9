//! Control groups, of both hierarchies: the groups of a process, their limits, and how often they
//! made their processes wait. Sources in the kernel's Documentation: admin-guide/cgroup-v2.rst,
//! admin-guide/cgroup-v1/cpuacct.rst, scheduler/sched-bwc.rst.

mod io_limits;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::devices::Roots;
use super::tree::{number, number_after, read};
use io_limits::FILES as IO_FILES;
pub use io_limits::{GroupIo, IoLimit, IoLimitKind};

/// The first hierarchy writes "no limit" as the largest number of whole pages.
pub(super) const UNLIMITED_BYTES: u64 = 1 << 62;
const MEMORY: [&str; 3] = ["memory.max", "memory.high", "memory.limit_in_bytes"];

/// The control groups that a process is in, each with all that enclose it, innermost first.
#[derive(Debug, Default)]
pub struct Groups {
    name: Option<String>,
    cpu: Vec<ControlGroup>,
    accounting: Vec<ControlGroup>,
    memory: Vec<ControlGroup>,
    pids: Vec<ControlGroup>,
    io: Vec<ControlGroup>,
}

#[derive(Debug)]
struct ControlGroup {
    folder: PathBuf,
    /// The folder's name for an administrator.
    shown: String,
    /// Path in its hierarchy.
    inside: PathBuf,
}

/// The files in which control groups count the processor time of their processes.
#[derive(Debug, Default)]
pub struct GroupClock {
    /// The file of the group with the least limit; without a limit those of all groups, because each
    /// may get one later. A group without a limit counts no periods.
    stats: Vec<PathBuf>,
    /// The first hierarchy counts use apart.
    usage: Option<PathBuf>,
}

/// Cumulative; all unknown if no limit is set or nothing is counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct GroupTime {
    pub used_us: Option<u64>,
    /// Periods in which it ran, those in which it was made to wait, and the time of that.
    pub periods: Option<u64>,
    pub throttled_periods: Option<u64>,
    pub throttled_us: Option<u64>,
}

impl Groups {
    /// The groups of a process (`self`, or its number), from its file /proc/PROCESS/cgroup:
    /// `id:controllers:path`; a line without controllers is version 2, which holds whatever no
    /// line of version 1 names.
    pub fn of(roots: &Roots, process: &str) -> Self {
        let Some(text) = read(&roots.proc.join(process).join("cgroup")) else {
            return Self::default();
        };
        let lines: Vec<(&str, &str)> =
            text.lines().filter_map(|line| line.split_once(':')?.1.split_once(':')).collect();
        let (cpu_path, cpu) = hierarchy(roots, &lines, "cpu").unwrap_or_default();
        let (_, accounting) = hierarchy(roots, &lines, "cpuacct").unwrap_or_default();
        let (path, memory) = hierarchy(roots, &lines, "memory").unwrap_or_default();
        let (_, pids) = hierarchy(roots, &lines, "pids").unwrap_or_default();
        // The first hierarchy's name; the second one has no name of a controller.
        let (_, io) = hierarchy(roots, &lines, "blkio").unwrap_or_default();
        let readable = !cpu.is_empty() && !memory.is_empty();
        // If the two differ, the one that is not the top says more.
        let path = if path == "/" { cpu_path } else { path };
        Self { name: readable.then_some(path), cpu, accounting, memory, pids, io }
    }

    /// `None` if its limits cannot be read.
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// Processors' worth of time that the groups grant, and the file that grants so little.
    pub fn cpu_quota(&self) -> Option<(f64, String)> {
        let (group, quota, file) = self.least_cpu()?;
        Some((quota, format!("{}/{file}", group.shown)))
    }

    /// The group that grants least processor time.
    fn least_cpu(&self) -> Option<(&ControlGroup, f64, &'static str)> {
        let quotas = self.cpu.iter().filter_map(|group| {
            if let Some(text) = read(&group.folder.join("cpu.max")) {
                return Some((group, quota(&text)?, "cpu.max"));
            }
            let [quota_us, period_us] = ["cpu.cfs_quota_us", "cpu.cfs_period_us"]
                .map(|file| read(&group.folder.join(file)));
            let text = format!("{} {}", quota_us?, period_us?);
            Some((group, quota(&text)?, "cpu.cfs_quota_us"))
        });
        quotas.min_by(|a, b| a.1.total_cmp(&b.1))
    }

    /// The clock of the group that grants least processor time. If no group limits it, the clock
    /// has only the periods of limits that are set later.
    pub fn clock(&self) -> GroupClock {
        let stat = |group: &ControlGroup| group.folder.join("cpu.stat");
        let Some((group, ..)) = self.least_cpu() else {
            return GroupClock { stats: self.cpu.iter().map(stat).collect(), usage: None };
        };
        let accounting = self.accounting.iter().find(|other| other.inside == group.inside);
        GroupClock {
            stats: vec![stat(group)],
            usage: accounting.map(|group| group.folder.join("cpuacct.usage")),
        }
    }

    /// The text of each file with a limit on processors, memory or I/O, by its path.
    pub fn limit_files(&self) -> BTreeMap<String, String> {
        const CPU: [&str; 5] =
            ["cpu.max", "cpu.weight", "cpu.cfs_quota_us", "cpu.cfs_period_us", "cpu.shares"];
        let controllers = [(&self.cpu, &CPU[..]), (&self.memory, &MEMORY), (&self.io, &IO_FILES)];
        let files = controllers.into_iter().flat_map(|(groups, files)| {
            groups.iter().flat_map(|group| files.iter().map(move |file| (group, *file)))
        });
        let texts = files.filter_map(|(group, file)| {
            let lines = read(&group.folder.join(file))?;
            Some((format!("{}/{file}", group.shown), lines.replace('\n', ", ")))
        });
        texts.collect()
    }

    pub fn memory_limit(&self) -> Option<(u64, String)> {
        let limits = self.memory_limits();
        limits.map(|(group, limit, file)| (limit, format!("{}/{file}", group.shown))).min()
    }

    /// The innermost group of the memory with the name of its limit's file, if petal is not in it and
    /// it is not the top; else the top.
    pub fn memory_group(&self, petal: &Self) -> Option<(String, &'static str, bool)> {
        let (own, top) = (self.memory.first()?, self.memory.last()?);
        let has_petal = petal.memory.iter().any(|group| group.inside == own.inside);
        let group = if has_petal { top } else { own };
        let files = [MEMORY[0], MEMORY[2]];
        // The top of the second hierarchy has no limits.
        let file = files.into_iter().find(|file| own.folder.join(file).exists());
        let file =
            file.or_else(|| top.folder.join("cgroup.controllers").exists().then_some(files[0]))?;
        Some((group.shown.clone(), file, !has_petal))
    }

    /// Bytes that the groups still allow their processes (the limit less the bytes in use that
    /// cannot be reclaimed), and the file with that limit. `None` if nothing limits them.
    pub fn memory_room(&self) -> Option<(u64, String)> {
        let room = |(group, limit, file): (&ControlGroup, u64, _)| {
            (limit.saturating_sub(group.memory_used()), format!("{}/{file}", group.shown))
        };
        self.memory_limits().map(room).min()
    }

    /// Threads that the groups still allow, and the file with that limit. `None` if nothing limits
    /// them.
    pub fn thread_room(&self) -> Option<(u64, String)> {
        let room = |group: &ControlGroup| {
            let limit = number(&group.folder.join("pids.max"))?;
            let used = number(&group.folder.join("pids.current")).unwrap_or(0);
            Some((limit.saturating_sub(used), format!("{}/pids.max", group.shown)))
        };
        self.pids.iter().filter_map(room).min()
    }

    fn memory_limits(&self) -> impl Iterator<Item = (&ControlGroup, u64, &'static str)> {
        self.memory.iter().flat_map(|group| {
            MEMORY.into_iter().filter_map(move |file| {
                let limit = number(&group.folder.join(file))?;
                (limit < UNLIMITED_BYTES).then_some((group, limit, file))
            })
        })
    }
}

impl ControlGroup {
    /// Bytes in use without the files' pages, which the kernel takes back; pages of files in memory
    /// stay in.
    fn memory_used(&self) -> u64 {
        let all = ["memory.current", "memory.usage_in_bytes"];
        let all = all.into_iter().find_map(|file| number(&self.folder.join(file))).unwrap_or(0);
        let text = read(&self.folder.join("memory.stat")).unwrap_or_default();
        let stat = |name: &str| number_after(&text, name);
        // The first hierarchy counts the groups below apart, and its usage has them in it.
        let either = |first: &str, second: &str| stat(first).or(stat(second)).unwrap_or(0);
        let (cache, shared) = (either("total_cache", "file"), either("total_shmem", "shmem"));
        all.saturating_sub(cache.saturating_sub(shared))
    }
}

impl GroupClock {
    pub fn read(&self) -> GroupTime {
        let texts: Vec<String> = self.stats.iter().filter_map(|stat| read(stat)).collect();
        let stat = |key: &str| {
            let counts = texts.iter().filter_map(|text| number_after(text, key));
            counts.reduce(u64::saturating_add)
        };
        // The first hierarchy counts nanoseconds, the second microseconds.
        let used = self.usage.as_deref().and_then(number).map(|ns| ns / 1000);
        let is_of_one = self.stats.len() == 1;
        GroupTime {
            used_us: stat("usage_usec").filter(|_| is_of_one).or(used),
            periods: stat("nr_periods"),
            throttled_periods: stat("nr_throttled"),
            throttled_us: stat("throttled_usec").or(stat("throttled_time").map(|ns| ns / 1000)),
        }
    }
}

/// The path of the group that a controller rules, and the groups themselves.
fn hierarchy(
    roots: &Roots,
    lines: &[(&str, &str)],
    controller: &str,
) -> Option<(String, Vec<ControlGroup>)> {
    let first = lines.iter().find(|(list, _)| list.split(',').any(|name| name == controller));
    let (list, path) = first.or_else(|| lines.iter().find(|(list, _)| list.is_empty()))?;
    let mounts = if list.is_empty() { ["", "unified"] } else { [*list, controller] };
    let groups = mounts.iter().map(|mount| enclosing(roots, mount, path));
    Some(((*path).to_owned(), groups.max_by_key(Vec::len)?))
}

/// A group and its enclosing groups, as far as they can be seen. Inside a container the path that
/// the kernel reports may be missing, and the top of the tree is the container's own group.
fn enclosing(roots: &Roots, mount: &str, path: &str) -> Vec<ControlGroup> {
    let top = roots.sys.join("fs/cgroup").join(mount);
    let relative = Path::new(path.trim_start_matches('/'));
    let usable = !path.split('/').any(|part| part == "..");
    let inside = relative.ancestors().filter(|part| usable || part.as_os_str().is_empty());
    // A path outside of the mounted tree has no other group than the top.
    let inside = inside.chain((!usable).then_some(Path::new("")));
    let is_group =
        |folder: &Path| folder.join("cgroup.procs").exists() || folder.join("tasks").exists();
    inside
        .map(|part| (top.join(part), part))
        .filter(|(folder, _)| is_group(folder))
        .map(|(folder, part)| {
            let shown = Path::new("/sys/fs/cgroup").join(mount).join(part);
            let shown = shown.display().to_string().trim_end_matches('/').to_owned();
            ControlGroup { folder, shown, inside: part.to_owned() }
        })
        .collect()
}

/// `quota period` in microseconds, in processors; `max` or -1 is no limit.
fn quota(text: &str) -> Option<f64> {
    let mut words = text.split_ascii_whitespace();
    let quota_us: u64 = words.next()?.parse().ok()?;
    let period_us: u64 = words.next()?.parse().ok()?;
    (quota_us > 0 && period_us > 0).then(|| quota_us as f64 / period_us as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::devices::recorded::Recorded;
    use proptest::prelude::*;

    const SECOND: &str = "/proc/71/cgroup = 0::/db.slice/pg.service
/sys/fs/cgroup/cgroup.procs = 1
/sys/fs/cgroup/db.slice/cgroup.procs = 1
/sys/fs/cgroup/db.slice/cpu.max = 150000 100000
/sys/fs/cgroup/db.slice/cpu.stat
  usage_usec 900
  user_usec 500
  system_usec 400
  nr_periods 20
  nr_throttled 7
  throttled_usec 12345
/sys/fs/cgroup/db.slice/pg.service/cgroup.procs = 71
/sys/fs/cgroup/db.slice/pg.service/cpu.max = max 100000
/sys/fs/cgroup/db.slice/pg.service/cpu.stat = usage_usec 1
";
    const FIRST: &str = "/proc/self/cgroup
  4:memory:/db
  2:cpu:/db
  1:cpuacct:/db
  0::/
/sys/fs/cgroup/cpu/tasks = 1
/sys/fs/cgroup/cpu/db/tasks = 1
/sys/fs/cgroup/cpu/db/cpu.cfs_quota_us = 50000
/sys/fs/cgroup/cpu/db/cpu.cfs_period_us = 100000
/sys/fs/cgroup/cpu/db/cpu.stat
  nr_periods 10
  nr_throttled 9
  throttled_time 5000999
/sys/fs/cgroup/cpuacct/tasks = 1
/sys/fs/cgroup/cpuacct/cpuacct.usage = 99999999
/sys/fs/cgroup/cpuacct/db/tasks = 1
/sys/fs/cgroup/cpuacct/db/cpuacct.usage = 77000
";

    #[test]
    fn the_group_with_the_lowest_limit_reports_its_time() {
        let tree = Recorded::of(SECOND);
        let groups = Groups::of(&tree.roots(), "71");
        assert_eq!(groups.cpu_quota(), Some((1.5, "/sys/fs/cgroup/db.slice/cpu.max".into())));
        let time = GroupTime {
            used_us: Some(900),
            periods: Some(20),
            throttled_periods: Some(7),
            throttled_us: Some(12345),
        };
        assert_eq!(groups.clock().read(), time);
    }

    #[test]
    fn the_first_hierarchy_counts_use_apart_and_in_nanoseconds() {
        let tree = Recorded::of(FIRST);
        let time = GroupTime {
            used_us: Some(77),
            periods: Some(10),
            throttled_periods: Some(9),
            throttled_us: Some(5000),
        };
        assert_eq!(Groups::of(&tree.roots(), "self").clock().read(), time);
    }

    #[test]
    fn a_group_allows_its_limit_less_its_permanent_use() {
        let second = "/proc/self/cgroup = 0::/db
/sys/fs/cgroup/cgroup.procs = 1
/sys/fs/cgroup/db/cgroup.procs = 71
/sys/fs/cgroup/db/memory.max = 1000000
/sys/fs/cgroup/db/memory.current = 700000
/sys/fs/cgroup/db/memory.stat
  anon 200000
  file 500000
  shmem 100000
";
        // 400000 of the 500000 bytes in files can be reclaimed.
        let room = |text: &str| Groups::of(&Recorded::of(text).roots(), "self").memory_room();
        let file = "/sys/fs/cgroup/db/memory.max".to_owned();
        assert_eq!(room(second), Some((700_000, file.clone())));
        assert_eq!(room(&second.replace("1000000", "max")), None);
        assert_eq!(room(&second.replace("1000000", "200000")), Some((0, file)));
        let first = "/proc/self/cgroup = 4:memory:/db
/sys/fs/cgroup/memory/tasks = 1
/sys/fs/cgroup/memory/memory.limit_in_bytes = 9223372036854771712
/sys/fs/cgroup/memory/db/tasks = 71
/sys/fs/cgroup/memory/db/memory.limit_in_bytes = 1000000
/sys/fs/cgroup/memory/db/memory.usage_in_bytes = 700000
/sys/fs/cgroup/memory/db/memory.stat
  cache 1
  shmem 1
  total_cache 500000
  total_shmem 100000
";
        let file = "/sys/fs/cgroup/memory/db/memory.limit_in_bytes".to_owned();
        assert_eq!(room(first), Some((700_000, file)));
    }

    #[test]
    fn the_threads_that_a_group_still_allows_are_its_limit_without_those_that_are() {
        let text = "/proc/self/cgroup = 0::/db/pg
/sys/fs/cgroup/cgroup.procs = 1
/sys/fs/cgroup/db/cgroup.procs = 71
/sys/fs/cgroup/db/pids.max = 500
/sys/fs/cgroup/db/pids.current = 480
/sys/fs/cgroup/db/pg/cgroup.procs = 71
/sys/fs/cgroup/db/pg/pids.max = max
/sys/fs/cgroup/db/pg/pids.current = 3
";
        let room = |text: &str| Groups::of(&Recorded::of(text).roots(), "self").thread_room();
        assert_eq!(room(text), Some((20, "/sys/fs/cgroup/db/pids.max".to_owned())));
        assert_eq!(room(&text.replace("500", "max")), None);
        let first = "/proc/self/cgroup = 8:pids:/db
/sys/fs/cgroup/pids/db/tasks = 71
/sys/fs/cgroup/pids/db/pids.max = 7
";
        assert_eq!(room(first), Some((7, "/sys/fs/cgroup/pids/db/pids.max".to_owned())));
    }

    #[test]
    fn a_limit_that_is_set_later_counts_its_periods() {
        let tree =
            Recorded::of(&SECOND.replace("150000", "max").replace("nr_periods 20", "nr_periods 0"));
        let clock = Groups::of(&tree.roots(), "71").clock();
        assert_eq!((clock.read().used_us, clock.read().periods), (None, Some(0)));
        tree.write(
            "/sys/fs/cgroup/db.slice/cpu.stat",
            "usage_usec 9\nnr_periods 5\nnr_throttled 4\n",
        );
        assert_eq!((clock.read().periods, clock.read().throttled_periods), (Some(5), Some(4)));
        assert_eq!(Groups::of(&tree.roots(), "72").clock().read(), GroupTime::default());
    }

    #[test]
    fn a_servers_group_is_limited_alone_or_below_the_top() {
        let group = |server: &str, petal: &str| {
            let tree = Recorded::of(
                "/sys/fs/cgroup/cgroup.procs = 1
/sys/fs/cgroup/cgroup.controllers = memory
/sys/fs/cgroup/db/cgroup.procs = 71
/sys/fs/cgroup/db/memory.max = max
",
            );
            tree.write("/proc/71/cgroup", &format!("0::{server}"));
            tree.write("/proc/self/cgroup", &format!("0::{petal}"));
            let petal = Groups::of(&tree.roots(), "self");
            Groups::of(&tree.roots(), "71").memory_group(&petal)
        };
        let of = |folder: &str, separate| Some((folder.to_owned(), "memory.max", separate));
        assert_eq!(group("/db", "/"), of("/sys/fs/cgroup/db", true));
        assert_eq!(group("/db", "/db"), of("/sys/fs/cgroup", false));
        assert_eq!(group("/", "/"), of("/sys/fs/cgroup", false));
    }

    #[test]
    fn files_with_limits_are_listed_with_their_text() {
        let files = Groups::of(&Recorded::of(SECOND).roots(), "71").limit_files();
        let file = |name: &str| files.get(&format!("/sys/fs/cgroup/{name}")).map(String::as_str);
        assert_eq!(file("db.slice/cpu.max"), Some("150000 100000"));
        assert_eq!(file("db.slice/pg.service/cpu.max"), Some("max 100000"));
        assert_eq!(files.len(), 2);
        let first = Groups::of(&Recorded::of(FIRST).roots(), "self").limit_files();
        assert_eq!(first.get("/sys/fs/cgroup/cpu/db/cpu.cfs_quota_us"), Some(&"50000".to_owned()));
    }

    #[test]
    fn an_impossible_quota_is_ignored() {
        assert_eq!(quota("50000 100000"), Some(0.5));
        for text in ["50000 0", "0 100000", "max 100000", "-1 100000", "50000", ""] {
            assert_eq!(quota(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_text_upsets_the_reader(text in "(usage_usec|nr_periods|nr_throttled| |[0-9]{1,22}|\n|\\PC){0,12}") {
            let tree = Recorded::of(SECOND);
            tree.write("/sys/fs/cgroup/db.slice/cpu.stat", &text);
            Groups::of(&tree.roots(), "71").clock().read();
        }
    }
}
