//! Runs of several driver hosts: the details that each share's record keeps about its host, and the
//! details that the merged record keeps about every host.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Ops, Run, Status};
use petal_workload::share::Share;

/// A host's share of a run, in the record of that share.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct HostShare {
    #[serde(flatten)]
    pub share: Share,
    /// Sessions of the whole run, on all hosts.
    pub plan_sessions: u32,
    /// The host's own name.
    pub host: String,
    /// The kernel's id of its boot: equal for shares on one machine; null if unknown.
    pub boot_id: Option<String>,
    /// This share took the database's counters: for all hosts, or its own if the engine runs in
    /// petal's process.
    pub counts_database: bool,
    /// The closing snapshot of those counters was taken after all hosts had ended.
    pub counted_all: bool,
    pub start: CommonStart,
}

/// The common start of a share and the others.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CommonStart {
    pub by: StartedBy,
    /// The moment of `--start-at`: UTC, RFC 3339; null if the hosts waited for each other.
    pub at: Option<String>,
    /// Lead of the clock used over this host's, in seconds. The clock is the database's (0 if
    /// it runs on this host) or, at a barrier, the first host's, which the merge compares. Null if
    /// it was not measured.
    pub clock_ahead_s: Option<f64>,
    /// Whether this host reports that its own clock is synchronised; null if unknown.
    pub synchronised: Option<bool>,
    /// Seconds between that moment and the trigger of the sessions, by the clock used.
    pub late_s: Option<f64>,
}

/// Method of the common start of a run's hosts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StartedBy {
    /// A moment by the database's clock.
    DatabaseClock,
    /// A moment by each host's own clock.
    #[default]
    OwnClock,
    /// A barrier of MPI.
    Barrier,
}

/// A host of a merged run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct HostRun {
    #[serde(flatten)]
    pub share: HostShare,
    /// Status in which the share ended; null if its record is missing.
    pub status: Option<Status>,
    /// True if petal was killed and the figures come from its journal.
    pub rebuilt: bool,
    pub sessions: u32,
    pub sessions_lost: u32,
    pub elapsed_s: f64,
    /// The trigger, in seconds after the first host's trigger, by the common clock; null if there
    /// was no common clock.
    pub triggered_after_s: Option<f64>,
    pub ops: Ops,
    pub ops_per_second: Option<f64>,
    pub errors: BTreeMap<String, u64>,
    /// petal's own processor time.
    pub petal_cpu_s: Option<f64>,
    /// Processors that petal may use there, at most the control group's quota.
    pub processors: Option<f64>,
    /// Share of its processors' time that was not idle, by all processes, percent.
    pub busy_percent: Option<f64>,
    /// Totals over all network interfaces with hardware behind them.
    pub received_bytes: Option<u64>,
    pub sent_bytes: Option<u64>,
    /// The folder of its record, as given.
    pub folder: String,
}

impl HostShare {
    /// The machine it ran on: its boot id, or the host's name if the id is unknown.
    pub(super) fn machine(&self) -> String {
        self.boot_id.clone().unwrap_or_else(|| self.host.clone())
    }
}

impl HostRun {
    /// True when this host did its share to the end.
    pub fn is_whole(&self) -> bool {
        self.status.is_some() && !self.rebuilt
    }

    /// A name such as `share 2 (node7)`.
    pub fn name(&self) -> String {
        match self.share.host.as_str() {
            "" => format!("share {}", self.share.share.number),
            host => format!("share {} ({host})", self.share.share.number),
        }
    }
}

/// petal's load on one of the machines that drove a run.
#[derive(Debug, Clone, PartialEq)]
pub struct MachineLoad {
    /// The name of its first share.
    pub name: String,
    /// petal's processor time, summed over the shares there, divided by the processor time that it
    /// may use.
    pub petal_share: f64,
    pub processors: f64,
}

impl Run {
    /// petal's load on each machine; empty for a run of one host. An error names a host whose load
    /// is unknown.
    pub fn machine_loads(&self) -> Result<Vec<MachineLoad>, String> {
        let mut machines: BTreeMap<String, MachineLoad> = BTreeMap::new();
        for host in self.summary.hosts.iter().filter(|host| host.status.is_some()) {
            let name = host.name();
            let known = host.petal_cpu_s.zip(host.processors).filter(|_| host.elapsed_s > 0.0);
            let (petal_cpu_s, processors) = known.ok_or_else(|| name.clone())?;
            machines
                // Hosts without a boot id may have the same name.
                .entry(host.share.boot_id.clone().unwrap_or_else(|| name.clone()))
                .or_insert(MachineLoad { name, petal_share: 0.0, processors })
                .petal_share += petal_cpu_s / (host.elapsed_s * processors);
        }
        Ok(machines.into_values().collect())
    }

    /// petal's share of the busiest of several machines; None if the load of one is unknown.
    pub fn busiest_machine_share(&self) -> Option<f64> {
        let loads = self.machine_loads().ok()?;
        loads.iter().map(|machine| machine.petal_share).reduce(f64::max)
    }

    /// True if this is one host's part of a run, to be merged with the others.
    pub fn is_share(&self) -> bool {
        self.summary.share.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixture;
    use super::*;

    fn host(number: u32, machine: &str, petal_cpu_s: Option<f64>) -> HostRun {
        let share = Share { number, of: 3 };
        let (host, boot_id) = (machine.to_owned(), Some(format!("boot of {machine}")));
        HostRun {
            share: HostShare { share, host, boot_id, ..HostShare::default() },
            status: Some(Status::Complete),
            elapsed_s: 10.0,
            petal_cpu_s,
            processors: Some(2.0),
            ..HostRun::default()
        }
    }

    #[test]
    fn shares_of_one_machine_load_it_together() {
        let mut run = fixture::mixed_run();
        assert_eq!((run.machine_loads(), run.busiest_machine_share()), (Ok(vec![]), None));
        run.summary.hosts =
            vec![host(1, "a", Some(5.0)), host(2, "b", Some(8.0)), host(3, "a", Some(5.0))];
        let loads = run.machine_loads().unwrap();
        let load = |name: &str, petal_share| MachineLoad {
            name: name.into(),
            petal_share,
            processors: 2.0,
        };
        assert_eq!(loads, [load("share 1 (a)", 0.5), load("share 2 (b)", 0.4)]);
        assert_eq!(run.busiest_machine_share(), Some(0.5));
        // Hosts without a boot id may only have the same name.
        let mut unknown = run.clone();
        unknown.summary.hosts.iter_mut().for_each(|host| host.share.boot_id = None);
        assert_eq!(unknown.busiest_machine_share(), Some(0.4));
        // A host without a record is not a machine; a host with unknown load makes all unknown.
        run.summary.hosts[0].status = None;
        assert_eq!(run.busiest_machine_share(), Some(0.4));
        run.summary.hosts[2].petal_cpu_s = None;
        assert_eq!(run.machine_loads(), Err("share 3 (a)".to_owned()));
        assert_eq!(run.busiest_machine_share(), None);
    }
}
