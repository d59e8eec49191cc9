//! Facts on which a run relies, such as settings of the server and limits of control groups: read
//! before the run, during it and at its end, so that each change is known with its time.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::cgroup::Groups;
use super::devices::Roots;
use super::host::HostFacts;
use super::os::ServerProcesses;
use super::tree::{read, value_of};
use crate::numbers::decimal;

/// Looks that are no further apart than this name one second.
const ONE_SECOND_S: f64 = 2.5;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FactKind {
    /// The identity of a server and of the data in it.
    Identity,
    /// The start of a server.
    Start,
    /// A setting of a server.
    Setting,
    /// The kind of a table of petal's, and code on it.
    Table,
    /// A limit of a control group, or the processors that a process may use.
    Limit,
    /// A setting of the host's kernel or of a device.
    Host,
}

/// Values by kind and name.
pub type FactValues = BTreeMap<(FactKind, String), String>;

/// A fact that had another value later.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FactChange {
    pub kind: FactKind,
    /// Name, as the server or the kernel writes it.
    pub name: String,
    /// None if there was no such fact.
    pub before: Option<String>,
    pub after: Option<String>,
    /// Seconds after the trigger: the last look with the value before, and the first with the one
    /// after.
    pub between_s: (f64, f64),
}

impl FactChange {
    /// All differences between two looks.
    pub fn between(before: &FactValues, after: &FactValues, between_s: (f64, f64)) -> Vec<Self> {
        let names: BTreeSet<_> = before.keys().chain(after.keys()).collect();
        let changed = names.into_iter().filter(|name| before.get(name) != after.get(name));
        let change = |name: &(FactKind, String)| Self {
            kind: name.0,
            name: name.1.clone(),
            before: before.get(name).cloned(),
            after: after.get(name).cloned(),
            between_s,
        };
        changed.map(change).collect()
    }

    /// `in second 1`, counted from 0 as in timeline.csv, or `between seconds 3 and 40`.
    pub fn when(&self) -> String {
        let (from_s, to_s) = self.between_s;
        match to_s - from_s <= ONE_SECOND_S {
            true => format!("in second {}", decimal(from_s.floor(), 0)),
            false => format!("between seconds {} and {}", decimal(from_s, 0), decimal(to_s, 0)),
        }
    }

    /// `fsync: on -> off in second 1`.
    pub fn words(&self) -> String {
        format!("{} {}", self.values(), self.when())
    }

    /// `fsync: on -> off`.
    pub fn values(&self) -> String {
        let shown = |value: &Option<String>| match value.as_deref() {
            None => "none".to_owned(),
            Some("") => "''".to_owned(),
            Some(text) => text.to_owned(),
        };
        let (before, after) = (shown(&self.before), shown(&self.after));
        format!("{}: {before} -> {after}", self.name)
    }
}

/// The processes of a run on this host, whose limits are facts.
#[derive(Debug, Default)]
pub struct LimitedProcesses {
    roots: Roots,
    /// The owner in words, and the process as /proc names it.
    processes: Vec<(&'static str, String)>,
}

impl LimitedProcesses {
    /// petal, and the servers on this host.
    pub fn new(roots: &Roots, servers: &[ServerProcesses]) -> Self {
        let servers = servers.iter().map(|server| ("the server", server.parent.to_string()));
        let all = std::iter::once(("petal", "self".to_owned())).chain(servers);
        Self { roots: roots.clone(), processes: all.collect() }
    }

    /// Limits of control groups, and processors that may be used: a few small files.
    pub fn limits(&self) -> FactValues {
        let mut facts = FactValues::new();
        for (whose, process) in &self.processes {
            let files = Groups::of(&self.roots, process).limit_files();
            facts.extend(files.into_iter().map(|(file, text)| ((FactKind::Limit, file), text)));
            let status = read(&self.roots.proc.join(process).join("status")).unwrap_or_default();
            if let Some(cpus) = value_of(&status, "Cpus_allowed_list") {
                facts.insert((FactKind::Limit, format!("processors of {whose}")), cpus.to_owned());
            }
        }
        facts
    }
}

impl HostFacts {
    /// Settings of the kernel and of the devices that somebody may change.
    pub fn settings(&self) -> FactValues {
        let idle = self.deepest_idle.as_ref().map(|state| state.name.clone());
        let mut all = vec![
            ("processors' governor".to_owned(), self.governor.clone()),
            ("deepest idle state".to_owned(), idle),
            ("transparent huge pages".to_owned(), self.huge_pages.clone()),
            ("clock source".to_owned(), self.clock_source.clone()),
            ("vm.dirty_ratio".to_owned(), text(self.dirty_ratio)),
            ("vm.dirty_background_ratio".to_owned(), text(self.dirty_background_ratio)),
            ("swap, bytes".to_owned(), text(self.swap_total_bytes)),
        ];
        for device in &self.devices {
            let named = |what: &str| format!("{what} of {}", device.name);
            all.extend([
                (named("scheduler"), device.scheduler.clone()),
                (named("write cache"), device.write_cache.clone()),
                (named("read-ahead, bytes,"), text(device.read_ahead_bytes)),
                (named("nr_requests"), text(device.nr_requests)),
                (named("mount options"), device.mount_options.clone()),
            ]);
        }
        let known = all.into_iter().filter_map(|(name, value)| Some((name, value?)));
        known.map(|(name, value)| ((FactKind::Host, name), value)).collect()
    }
}

fn text(number: Option<u64>) -> Option<String> {
    number.map(|number| number.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::devices::recorded::Recorded;

    fn facts(all: &[(FactKind, &str, &str)]) -> FactValues {
        all.iter().map(|(kind, name, value)| ((*kind, (*name).into()), (*value).into())).collect()
    }

    #[test]
    fn each_difference_is_a_change_with_its_time() {
        use FactKind::{Limit, Setting};
        let before = facts(&[(Setting, "fsync", "on"), (Setting, "same", "1"), (Limit, "f", "-1")]);
        let after = facts(&[(Setting, "fsync", "off"), (Setting, "same", "1")]);
        let changes = FactChange::between(&before, &after, (1.0, 2.0));
        let words: Vec<String> = changes.iter().map(FactChange::words).collect();
        assert_eq!(words, ["fsync: on -> off in second 1", "f: -1 -> none in second 1"]);
        let late = FactChange { between_s: (3.0, 40.2), ..changes[0].clone() };
        assert_eq!(late.when(), "between seconds 3 and 40");
        assert_eq!(FactChange::between(&after, &after, (1.0, 2.0)), []);
    }

    #[test]
    fn a_limit_and_processors_of_a_process_are_facts() {
        let tree = Recorded::of(
            "/proc/self/cgroup = 0::/db
/proc/self/status = Cpus_allowed_list:\t0-1
/sys/fs/cgroup/cgroup.procs = 1
/sys/fs/cgroup/db/cgroup.procs = 1
/sys/fs/cgroup/db/cpu.max = max 100000
",
        );
        let processes = LimitedProcesses::new(&tree.roots(), &[]);
        let before = processes.limits();
        tree.write("/sys/fs/cgroup/db/cpu.max", "15000 100000\n");
        tree.write("/proc/self/status", "Cpus_allowed_list:\t0\n");
        let changes = FactChange::between(&before, &processes.limits(), (14.0, 15.0));
        let words: Vec<String> = changes.iter().map(FactChange::words).collect();
        assert_eq!(
            words,
            [
                "/sys/fs/cgroup/db/cpu.max: max 100000 -> 15000 100000 in second 14",
                "processors of petal: 0-1 -> 0 in second 14"
            ]
        );
    }
}
