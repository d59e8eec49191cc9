//! Runs of several driver hosts: what the record of one host's share says of it, and what the merged
//! record says of each host.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Ops, Run, Status};
use crate::workload::share::Share;

/// One host's share of a run, in the record of that share.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct HostShare {
    #[serde(flatten)]
    pub share: Share,
    /// Sessions of the whole run, on all hosts.
    pub plan_sessions: u32,
    /// As the host calls itself.
    pub host: String,
    /// The kernel's own id of its boot: the same for shares on one machine; null where it is not
    /// known.
    pub boot_id: Option<String>,
    /// This share took the database's counters: for all hosts, or those of an engine in petal's own
    /// process for itself.
    pub counts_database: bool,
    /// And its closing snapshot was taken when all hosts had ended.
    pub counted_all: bool,
    pub start: CommonStart,
}

/// How a share began together with the others.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CommonStart {
    pub by: StartedBy,
    /// The moment of `--start-at`: UTC, RFC 3339; null where hosts waited for each other.
    pub at: Option<String>,
    /// How far the clock that was taken is ahead of this host's, in seconds: the database's (0 where
    /// it runs on this host), or at a barrier the first host's, which the merge compares; null where
    /// nobody measured it.
    pub clock_ahead_s: Option<f64>,
    /// Whether this host says that its own clock is synchronised; null where nobody tells.
    pub synchronised: Option<bool>,
    /// How long after that moment the sessions were triggered, by the clock that was taken.
    pub late_s: Option<f64>,
}

/// What the hosts of a run began by.
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

/// One host of a merged run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct HostRun {
    #[serde(flatten)]
    pub share: HostShare,
    /// How the share ended; null where its record is missing.
    pub status: Option<Status>,
    /// True when petal was killed, and this is what its journal tells.
    pub rebuilt: bool,
    pub sessions: u32,
    pub sessions_lost: u32,
    pub elapsed_s: f64,
    /// The trigger, in seconds after that of the first host, by the common clock; null where there
    /// was none.
    pub triggered_after_s: Option<f64>,
    pub ops: Ops,
    pub ops_per_second: Option<f64>,
    pub errors: BTreeMap<String, u64>,
    /// petal's own processor time.
    pub petal_cpu_s: Option<f64>,
    /// Processors that petal may use there, no more than its control group grants.
    pub processors: Option<f64>,
    /// The share of its processors' time that was not idle, in percent, whoever used it.
    pub busy_percent: Option<f64>,
    /// Over all network interfaces with hardware behind them.
    pub received_bytes: Option<u64>,
    pub sent_bytes: Option<u64>,
    /// The folder of its record, as it was named.
    pub folder: String,
}

impl HostShare {
    /// The machine that it ran on: by its boot, or by the name of the host where that is not known.
    pub(super) fn machine(&self) -> String {
        self.boot_id.clone().unwrap_or_else(|| self.host.clone())
    }
}

impl HostRun {
    /// True when this host did its share to the end.
    pub fn is_whole(&self) -> bool {
        self.status.is_some() && !self.rebuilt
    }

    /// Such as `share 2 (node7)`.
    pub fn name(&self) -> String {
        match self.share.host.as_str() {
            "" => format!("share {}", self.share.share.number),
            host => format!("share {} ({host})", self.share.share.number),
        }
    }
}

/// What petal cost one of the machines that drove a run.
#[derive(Debug, Clone, PartialEq)]
pub struct MachineLoad {
    /// The name of its first share.
    pub name: String,
    /// petal's processor time, of all shares there, over that of the processors it may use.
    pub petal_share: f64,
    pub processors: f64,
}

impl Run {
    /// petal's load on each machine; empty of a run of one host. An error names a host that does
    /// not tell.
    pub fn machine_loads(&self) -> Result<Vec<MachineLoad>, String> {
        let mut machines: BTreeMap<String, MachineLoad> = BTreeMap::new();
        for host in self.summary.hosts.iter().filter(|host| host.status.is_some()) {
            let name = host.name();
            let known = host.petal_cpu_s.zip(host.processors).filter(|_| host.elapsed_s > 0.0);
            let (petal_cpu_s, processors) = known.ok_or_else(|| name.clone())?;
            machines
                // Hosts that tell no boot id may bear one name.
                .entry(host.share.boot_id.clone().unwrap_or_else(|| name.clone()))
                .or_insert(MachineLoad { name, petal_share: 0.0, processors })
                .petal_share += petal_cpu_s / (host.elapsed_s * processors);
        }
        Ok(machines.into_values().collect())
    }

    /// petal's share of the busiest of several machines; None where one of them does not tell.
    pub fn busiest_machine_share(&self) -> Option<f64> {
        let loads = self.machine_loads().ok()?;
        loads.iter().map(|machine| machine.petal_share).reduce(f64::max)
    }

    /// True of one host's part of a run, which is to be merged with the others.
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
        // Those that tell no boot id may only bear one name.
        let mut unknown = run.clone();
        unknown.summary.hosts.iter_mut().for_each(|host| host.share.boot_id = None);
        assert_eq!(unknown.busiest_machine_share(), Some(0.4));
        // One that left no record is no machine, one that does not tell leaves all unknown.
        run.summary.hosts[0].status = None;
        assert_eq!(run.busiest_machine_share(), Some(0.4));
        run.summary.hosts[2].petal_cpu_s = None;
        assert_eq!(run.machine_loads(), Err("share 3 (a)".to_owned()));
        assert_eq!(run.busiest_machine_share(), None);
    }
}
