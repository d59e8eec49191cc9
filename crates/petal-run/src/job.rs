//! Input of one run, and the facts known before its trigger. These are plain values.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use time::OffsetDateTime;

use petal_engine::in_use::DataUse;
use petal_engine::{Engine, EngineError, Result};
use petal_host::clock::ClockState;
use petal_host::devices::DataDevices;
use petal_host::host::HostFacts;
use petal_host::os::{OsInterval, Probe};
use petal_record::RecordFolder;
use petal_record::counters::Counters;
use petal_record::driver_hosts::CommonStart;
use petal_record::ledger::LedgerFile;
use petal_record::target::{LoadedSchema, Settled, Target, TargetDetails};
use petal_settings::Settings;
use petal_workload::plan::Workload;
use petal_workload::seat::Seat;
use petal_workload::share::Share;

use super::facts::FirstFacts;
use super::hook_group::HookGroup;
use super::neighbour_plan::NeighbourPlan;
use super::page_cache::LockedMemory;
use super::peers::Together;
use super::{OpenEngine, RunError, Watch};

/// Input of one run.
pub struct Job<'a> {
    pub engine: &'a dyn Engine,
    pub engines: OpenEngine,
    pub settings: &'a Settings,
    pub workload: Workload,
    /// All sessions of the run, on all driver hosts.
    pub plan: Vec<Seat>,
    /// Sessions of this host.
    pub seats: Vec<Seat>,
    pub share: Share,
    pub start: Start<'a>,
    pub loaded: Vec<LoadedSchema>,
    /// Folder of the record; without it, the run only returns its values.
    pub folder: Option<&'a RecordFolder>,
    /// File of `petal os` on the database's host, if that is another host.
    pub os_data: Option<&'a Path>,
    /// Ledger of acknowledged commits; `None` without a ledger.
    pub ledger: Option<&'a Arc<LedgerFile>>,
    /// Work next to the run; `None` without any.
    pub neighbours: Option<&'a NeighbourPlan>,
    /// Limits in the first cell of the sweep; empty for a run alone and for the first cell.
    pub limits_of_first_cell: BTreeMap<String, String>,
    /// Number of signals that asked to stop.
    pub signals: Arc<AtomicU8>,
    /// Processes of EXTERNAL_SCRIPT; dropping this ends them.
    pub hooks: HookGroup,
    pub watch: &'a dyn Watch,
}

impl Job<'_> {
    pub fn is_interrupted(&self) -> bool {
        self.signals.load(Ordering::Relaxed) > 0
    }

    /// Returns the rows of each schema's scan table, from schema 1; `None` if a schema is not known
    /// to hold any.
    pub(crate) fn scan_rows(&self) -> Vec<Option<u64>> {
        let rows = |schema: &LoadedSchema| Some(schema.scan_rows).filter(|&rows| rows > 0);
        self.loaded.iter().map(rows).collect()
    }

    /// False on a host whose database is counted by the first one for all. Every host counts for
    /// itself if an engine counts in petal's own process.
    pub fn counts_database(&self) -> bool {
        self.share.is_first() || self.engine.support().is_in_process()
    }

    /// Returns the database's counters; empty if another host counts them.
    pub(crate) fn snapshot(&self) -> Result<Vec<Counters>> {
        if self.counts_database() { self.engine.read_counters(true) } else { Ok(Vec::new()) }
    }

    /// Gives the run up if a signal came before the trigger.
    pub(crate) fn check_interrupted(&self) -> Result<(), RunError> {
        if self.is_interrupted() { Err(EngineError::Interrupted.into()) } else { Ok(()) }
    }
}

/// Start of the sessions.
#[derive(Clone, Copy, Default)]
pub enum Start<'a> {
    /// Starts as soon as all are connected.
    #[default]
    AtOnce,
    /// Starts at this moment: `--start-at`.
    At(OffsetDateTime),
    /// Starts when all hosts are ready.
    Together(&'a Together),
}

/// Facts known before the trigger.
pub struct Prepared {
    /// Excludes setup and drop from the data, as long as this lives.
    pub data_use: Box<dyn DataUse>,
    /// Other petal runs on the same data, before the trigger.
    pub other_runs: Vec<String>,
    pub target: Target,
    pub details: TargetDetails,
    /// Facts of the server, read with the description; None without a server.
    pub first_facts: Option<petal_engine::Result<FirstFacts>>,
    /// Blocks of cache that each session fills before the trigger: WARM_UP=cache.
    pub cache_blocks: u64,
    pub host: Option<HostFacts>,
    pub devices: Option<DataDevices>,
    pub probe: Option<Probe>,
    /// Why single requests of the data's devices are not timed.
    pub requests_unseen: Option<String>,
    /// Why the server's calls are not timed.
    pub calls_unseen: Option<String>,
    /// Why bytes written are not counted by their origin.
    pub writes_unseen: Option<String>,
    /// Why the threads that execute operations are not timed.
    pub threads_unseen: Option<String>,
    /// Last look at the host before the run.
    pub before: Option<OsInterval>,
    /// Lead of the database host's clock over petal's.
    pub clock_ahead_s: Option<f64>,
    /// Microseconds of the way to the server and back.
    pub round_trip_us: Option<f64>,
    pub clock: Option<ClockState>,
    /// Common start with other hosts; `None` if the run begins at once.
    pub start: Option<CommonStart>,
    pub settled: Settled,
    pub data_bytes: Option<u64>,
    /// Questions that failed, with the reason.
    pub gaps: Vec<String>,
    /// Memory of PAGE_CACHE_LIMIT, as long as this lives.
    pub locked: Option<LockedMemory>,
}
