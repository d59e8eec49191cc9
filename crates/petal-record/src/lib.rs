//! The record that a run leaves on disk: the versioned format `petal-run/2`, the seconds, which
//! survive a kill, and the reader for both. Plain values; nothing here measures, judges or prints.

#![cfg_attr(test, allow(clippy::disallowed_methods))]

mod by_name;
pub mod calibration;
pub mod conclusions;
pub mod connections;
mod counted;
pub mod counters;
pub mod database_interval;
pub mod driver_hosts;
mod error;
pub mod event_stats;
pub mod experiments;
pub mod facts;
pub mod figures;
pub mod file_names;
#[cfg(any(test, feature = "testing"))]
pub mod fixture;
pub mod folder;
pub mod format;
pub mod headline;
pub mod input;
pub mod interference;
mod interval;
mod kinds;
pub mod latency_log;
pub mod ledger;
mod load;
pub mod merge;
pub mod moment;
mod ndjson;
pub mod observation;
pub mod os;
pub mod os_figures;
pub mod os_log;
pub mod os_merge;
pub mod own_file;
pub mod plain_csv;
pub mod profile;
mod rebuild;
pub mod replay;
pub mod rows;
pub mod seconds;
pub mod seconds_follow;
pub mod server_report;
pub mod server_settings;
pub mod server_work;
pub mod serving;
mod shared_list;
pub mod sweep;
pub mod sweep_design;
pub mod sweep_order;
pub mod target;
pub mod timeline;
pub mod verification;
mod wait_histogram;
pub mod waterfall;
pub mod written;

pub use by_name::ByName;
pub use error::RecordError;
pub use folder::RecordFolder;
pub use load::{folder_of, is_one, load, load_brief, load_each_second, save};
pub use rebuild::RebuiltBecause;
pub use rows::{OneSecond, RowBounds, RowList, SecondAmount, each_second};
pub use serving::ServingBytes;
pub use shared_list::SharedList;

pub use interval::{CountedUntil, HeadlineWindow, IntervalTotals, LayerSeconds, Window};
pub use wait_histogram::WaitHistogram;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::counters::{CommonCounter, FileCounts, IoCounts, WaitClass, WaitSource};
use crate::target::{LoadedSchema, PlanCheck, Settled, Target, TargetDetails};
use petal_host::clock::ClockState;
use petal_host::field_by_field;
use petal_host::histogram::{Bar, LatencySummary};
use petal_host::host::HostFacts;
use petal_host::os::{CpuShare, DeviceCounts};
use petal_settings::GivenParameter;
use petal_workload::op::Kind;

pub const FORMAT: &str = "petal-run/2";
/// Two clocks that time the same work differ by at most this share.
const TIME_SLACK_SHARE: f64 = 0.05;

/// A whole run: the summary that `--json` prints, and all other data for the reports.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Run {
    #[serde(flatten)]
    pub summary: Summary,
    pub details: Details,
}

/// The stable summary. Names never change; an unknown value is null, never 0.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    pub format: String,
    pub status: Status,
    pub engine: String,
    pub target: Target,
    pub sessions: u32,
    pub schemas: u32,
    /// Bytes that the run could touch: main tables up to SCALE, and scan tables if scanned.
    pub active_bytes: u64,
    /// Every parameter, slob.conf's names in lower case. No secrets.
    pub settings: serde_json::Map<String, serde_json::Value>,
    pub seed: u64,
    /// UTC, RFC 3339.
    pub started_at: String,
    /// Seconds from the trigger to the end of the last operation.
    pub elapsed_s: f64,
    /// The end of the database's totals, if its closing snapshot failed or the run was killed; null
    /// if they cover the whole run, or are unknown.
    #[serde(default)]
    pub counted_until: Option<CountedUntil>,
    pub ops: Ops,
    /// Rows that the operations visited, as the database answered.
    pub rows: Rows,
    /// Rows that the same operations were asked to visit; null in records made before petal kept
    /// it.
    #[serde(default)]
    pub rows_asked: Option<Rows>,
    /// Errors after which the session went on, by the database's code.
    pub errors: BTreeMap<String, u64>,
    pub sessions_lost: Vec<SessionLost>,
    pub per_second: PerSecond,
    /// The time with all sessions running, without the warm-up. Null if there was no such time.
    pub steady: Option<Steady>,
    /// Operation latency, petal's clock: `select`, `scan`, `update`; with RATE also
    /// `select_response` and so on, from the intended start; `lateness`, the time from there until a
    /// session that waited for the operation awoke, which response times contain.
    pub latency_us: BTreeMap<String, LatencySummary>,
    /// The latency of operations that the settings sent to hot data, with their count: `hot_spot`,
    /// `hot_schema`. Empty without such settings, and in records made before petal counted them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub hot_latency_us: BTreeMap<String, LatencySummary>,
    /// I/O latency: `read`, `write`, `log`.
    pub io_latency_us: BTreeMap<String, IoLatency>,
    /// Longest time first.
    pub waits: Vec<WaitRow>,
    pub cpu: Option<CpuShare>,
    pub petal_cpu_s: Option<f64>,
    /// Figures of the operating system; null if it was not watched.
    #[serde(default)]
    pub os: Option<os_figures::OsFigures>,
    /// The database's own counters over the run.
    pub counters: BTreeMap<String, u64>,
    /// The reason of each figure that the database did not give, by its name here, such as
    /// `physical_read_requests`, `io_latency_us.read` or a counter's. Empty if nothing is missing, and in
    /// records made before petal kept it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub unknown_figures: BTreeMap<String, String>,
    pub endpoints: Vec<EndpointShare>,
    pub settle: Option<SettleTimes>,
    /// Reports that the database itself made of the run; empty if it made none.
    #[serde(default)]
    pub server_reports: Vec<server_report::SeenReport>,
    /// The share of one host in a run that several hosts drive; absent from a run of one host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share: Option<driver_hosts::HostShare>,
    /// Each host of a merged run of several hosts. Absent from a run of one host.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<driver_hosts::HostRun>,
    pub findings: Vec<Finding>,
    /// The verdict and its figures. Null for a run that was not judged.
    #[serde(default)]
    pub headline: Option<headline::Headline>,
    /// Null for a run that was not judged.
    #[serde(default)]
    pub served_by: Option<conclusions::ServedBy>,
    /// Null for a run that was not judged, as `served_by`.
    #[serde(default)]
    pub limited_by: Option<conclusions::LimitedBy>,
    /// Use of each resource in the headline's window; empty for a run that was not judged.
    #[serde(default)]
    pub resources: Vec<conclusions::ResourceUse>,
    /// Bytes that UPDATEs caused, layer by layer. Null if it was not counted, or for a run that was not
    /// judged.
    #[serde(default)]
    pub write_ledger: Option<conclusions::WriteLedger>,
    /// Elasticities by experiment; empty without `--elasticity`.
    #[serde(default)]
    pub elasticity: Vec<conclusions::Elasticity>,
    /// Times in which sessions had lost their connections; null without `--on-disconnect retry`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outages: Option<Vec<connections::Outage>>,
    /// The price of each neighbour of `petal interfere`; absent from other runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interference: Option<Vec<interference::NeighbourPrice>>,
    /// The time of an operation in the headline's window, divided in parts; absent if nobody asked
    /// for it, and in a run that was not judged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waterfall: Option<waterfall::Waterfall>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// Some session reached the planned end.
    Complete,
    /// A signal or a kill ended the run. A run has this status until it records its end.
    #[default]
    Interrupted,
    /// No session reached the end, or the data, their indexes or plans changed in the run.
    Failed,
    /// A run of several driver hosts, of which at least one left no whole record.
    Incomplete,
}

/// Operations, from the trigger to the last end.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ops {
    pub select: u64,
    pub scan: u64,
    pub update: u64,
    pub total: u64,
    /// Operations cancelled because they outlasted the stop; not in the counts before.
    pub cut: u64,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rows {
    pub select: u64,
    pub scan: u64,
    pub update: u64,
}

field_by_field!(Ops: select, scan, update, total, cut);
field_by_field!(Rows: select, scan, update);

impl Rows {
    pub fn total(&self) -> u64 {
        self.select.saturating_add(self.scan).saturating_add(self.update)
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SessionLost {
    /// The session's number, from 1.
    pub session: u32,
    /// Seconds after the trigger; 0 if it never connected.
    pub at_s: f64,
    pub code: String,
    pub message: String,
}

/// Rates: in [`Summary`] over `elapsed_s`, the database's over `counted_until` if that is known;
/// in [`Steady`] over the window, the database's and the device's between the samples at its
/// bounds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct PerSecond {
    pub ops: Option<f64>,
    pub rows: Option<f64>,
    /// UPDATE commits acknowledged to petal.
    pub commits: Option<f64>,
    pub log_syncs: Option<f64>,
    pub logical_reads: Option<f64>,
    pub physical_read_blocks: Option<f64>,
    pub physical_read_requests: Option<f64>,
    pub physical_read_bytes: Option<f64>,
    pub physical_write_blocks: Option<f64>,
    pub physical_write_requests: Option<f64>,
    pub physical_write_bytes: Option<f64>,
    pub redo_bytes: Option<f64>,
    pub device_read_requests: Option<f64>,
    pub device_read_bytes: Option<f64>,
    pub device_write_requests: Option<f64>,
    pub device_write_bytes: Option<f64>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Steady {
    pub from_s: f64,
    pub to_s: f64,
    pub per_second: PerSecond,
    pub latency_us: BTreeMap<String, LatencySummary>,
    /// I/O latency, as in [`Summary`]; empty if the database's waits were not sampled at its
    /// bounds.
    #[serde(default)]
    pub io_latency_us: BTreeMap<String, IoLatency>,
}

/// I/O latency in microseconds; percentiles are null if only totals exist.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct IoLatency {
    pub count: u64,
    pub mean: Option<f64>,
    pub p50: Option<f64>,
    pub p99: Option<f64>,
    pub max: Option<f64>,
    /// The clock and its operation, such as `main read (petal's VFS shim)`.
    pub source: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WaitRow {
    pub name: String,
    pub class: WaitClass,
    pub source: WaitSource,
    pub waits: Option<u64>,
    pub time_us: f64,
    /// Time over waits, from the raw totals.
    pub avg_us: Option<f64>,
}

/// An endpoint's share of the run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EndpointShare {
    pub endpoint: String,
    pub sessions: u32,
    /// Server that is not an endpoint of the run: the primary to which read-only ones pass UPDATEs, or a cluster
    /// instance that serves no session.
    #[serde(default)]
    pub is_beside: bool,
    /// A server that only replays the primary's changes: its sessions read.
    #[serde(default)]
    pub is_standby: bool,
    /// Blocks that a standby wrote during replay, which are in no figure of `io`.
    #[serde(default)]
    pub replayed_blocks: Option<u64>,
    pub io: IoCounts,
    /// Mean of one block read, as the endpoint timed it; null if it was not timed.
    #[serde(default)]
    pub read_us: Option<f64>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SettleTimes {
    pub seconds: f64,
    pub dirty_bytes_before: Option<u64>,
    pub dirty_bytes_after: Option<u64>,
}

/// A judgement with its evidence.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// METHOD's id, such as `cached-by-os`.
    pub id: String,
    pub severity: Severity,
    pub message: String,
    pub advice: String,
    /// The figures on which it rests, by name.
    pub evidence: BTreeMap<String, serde_json::Value>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    Info,
    Warning,
    Error,
}

/// Details for the reports beyond the summary. A field that a record lacks has its default.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Details {
    pub petal_version: String,
    /// Path of the settings file, if one was read.
    pub conf_file: Option<String>,
    pub given: Vec<GivenParameter>,
    /// Cell and repeat of a series; 1 of 1 for a single run.
    pub repeat: u32,
    pub repeats: u32,
    pub host: Option<HostFacts>,
    pub target: TargetDetails,
    pub loaded: Vec<LoadedSchema>,
    /// Rows of each schema in use, SCALE in blocks.
    pub active_rows: u64,
    pub settled: Option<Settled>,
    /// The seconds, which [`seconds`] keeps and `run.json` leaves out.
    #[serde(skip)]
    pub timeline: SharedList<Second>,
    /// Counter deltas over the whole run, summed over endpoints.
    pub io: IoCounts,
    pub device: Option<DeviceCounts>,
    /// Names of the devices behind the data, as /proc/diskstats prints them.
    pub devices: Vec<String>,
    /// Observations of the operating system of petal's host; null with NO_OS_PERF_DATA.
    pub os: Option<os::HostSeen>,
    /// Observations of the operating system of the database's host, if `petal os` recorded it
    /// there.
    pub server_os: Option<os::HostSeen>,
    /// Lead of the database host's clock over petal's, in seconds, as the database reported.
    pub server_clock_ahead_s: Option<f64>,
    /// Microseconds of the way to the server and back: the quickest of five answers before the
    /// run, on petal's clock.
    #[serde(default)]
    pub server_round_trip_us: Option<f64>,
    /// State that the clock of petal's host reported, if the database is on another one.
    pub clock: Option<ClockState>,
    /// Operation latency bars, by kind name.
    pub histograms: BTreeMap<String, Vec<Bar>>,
    /// All operations of the run together, from their merged histograms. None in records made
    /// before petal kept it.
    pub op_latency_us: Option<LatencySummary>,
    /// Response times with RATE: the same operations from the time they were due. None in records
    /// made before petal kept it.
    pub op_response_us: Option<LatencySummary>,
    /// Wait latency bars and percentiles, by event name, if each wait was timed; the bounds of
    /// percentiles if the database counts waits by powers of two.
    pub wait_histograms: BTreeMap<String, WaitHistogram>,
    /// I/O by kind of file.
    pub files: Vec<FileCounts>,
    /// Ends of the first and the last session, in seconds after the trigger.
    pub first_done_s: Option<f64>,
    pub last_done_s: Option<f64>,
    /// Time from the first connect to the trigger.
    pub connect_s: Option<f64>,
    /// Sum of the sessions' time in operations (DB time), and slept in think time, in seconds.
    pub db_time_s: f64,
    pub think_time_s: f64,
    /// Bytes of the data files, without the log, at start and end: they change if rows moved.
    pub data_bytes_before: Option<u64>,
    pub data_bytes_after: Option<u64>,
    /// Other petal runs on the same data, as the database reported them, a line each.
    pub other_runs: Vec<String>,
    /// Reason why the data at the end are not the data that the run began with; None if they are.
    pub data_vanished: Option<String>,
    /// The plans as explained after the run; None if nothing is planned, and if they could not be
    /// explained.
    pub plan_after: Option<PlanCheck>,
    pub hooks: Vec<HookCall>,
    /// Missing parts of the record and their reasons: a snapshot that failed, a full disk.
    pub gaps: Vec<String>,
    /// Database counters that were reset during the run, a sentence each: their totals are unknown
    /// from then on.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub counter_resets: Vec<String>,
    /// Blocks with other content than was written there, in the engine's words.
    pub bad_blocks: Vec<String>,
    /// True if there was no whole run.json and the record was rebuilt from the seconds.
    pub rebuilt: bool,
    /// Reason for the rebuild; null for a record that was not rebuilt.
    pub rebuilt_because: Option<RebuiltBecause>,
    /// Values past a histogram's bound.
    pub saturated: u64,
    /// Operations that visited another number of rows than asked. None in records made before petal
    /// counted them.
    pub ops_not_as_asked: Option<u64>,
    /// Operations whose latency is unknown, so they are in no latency figure. None in records made
    /// before petal counted them.
    pub ops_untimed: Option<u64>,
    /// Operations with RATE that were due and had not begun when the run ended. Response times count
    /// each with the time that it had waited.
    pub backlog: Option<u64>,
    /// Result of `--until-steady`: the required volume, and the start of the steady state.
    pub until_steady: Option<UntilSteadyResult>,
    /// Totals of the counted window; None if the database was not sampled at its bounds, and in
    /// records made before petal kept it.
    pub steady: Option<IntervalTotals>,
    /// Times in which petal itself did not run; None in records made before petal looked.
    pub suspended: Option<Vec<Suspended>>,
    /// The load that a replay imitates; None for other runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replay: Option<replay::ReplayOf>,
    /// The ledger of its acknowledged commits; None if none was kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ledger: Option<ledger::LedgerKept>,
    /// Experiments of the run on itself; None without `--elasticity`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub experiments: Option<experiments::ExperimentsMade>,
    /// Bytes that UPDATEs caused, layer by layer; None in a run without UPDATEs, or if its devices were
    /// not seen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub written: Option<written::WrittenBytes>,
    /// Connections that sessions lost and made again; None without `--on-disconnect retry`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connections: Option<connections::ConnectionLosses>,
    /// Slots with neighbours and without; None of a run without neighbours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interference: Option<interference::Interference>,
    /// Facts on which the run relies, read again during it and at its end; None in records made
    /// before petal did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub facts: Option<facts::FactsProof>,
    /// Verification of the ledger after the run; None if none was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verification: Option<verification::Verification>,
    /// Comparison with `petal calibrate` on the same device; None if none was made.
    pub calibrated: Option<calibration::CalibratedShare>,
}

/// A time in which petal did not run: stopped by a signal, suspended with its machine, or without
/// a processor.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Suspended {
    /// Seconds after the trigger.
    pub at_s: f64,
    pub lost_s: f64,
    /// Seconds of it in which the whole machine was suspended.
    pub machine_s: f64,
}

/// Result of a run that was to end as soon as it was proven to be steady.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct UntilSteadyResult {
    /// Bytes that had to be written first; 0 for a run that only reads.
    pub volume_bytes: u64,
    /// Seconds after the trigger at which the run became steady; null if RUN_TIME ended it before
    /// that was proven.
    pub steady_from_s: Option<f64>,
}

/// A second of a run (the last one may be shorter), or a row of several ([`rows`]).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Second {
    /// Seconds since the trigger.
    pub from_s: f64,
    pub length_s: f64,
    pub ops: Ops,
    pub rows: Rows,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rows_asked: Option<Rows>,
    pub errors: u64,
    pub sessions: u32,
    /// Latencies by kind name; only kinds with operations.
    pub latency_us: ByName<LatencySummary>,
    /// Null if the database cannot count it each second.
    pub io: Option<IoCounts>,
    /// Checkpoints and vacuums that ended; null if they were not counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checkpoints: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vacuums: Option<u64>,
    /// Number of switches of the log to another of its files; null if they were not counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log_switches: Option<u64>,
    /// Whole blocks that were written into the log; null if they were not counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub block_images: Option<u64>,
    pub device: Option<DeviceCounts>,
    pub cpu: Option<CpuShare>,
    /// The seconds of a row of several; empty for a second alone.
    #[serde(skip)]
    pub joined: Box<[OneSecond]>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HookCall {
    /// `pre`, `post` or `end`.
    pub moment: String,
    pub exit_code: Option<i32>,
    pub seconds: f64,
    /// File in the run's folder with the script's output.
    pub output: String,
    /// The lines `name=value unit` of its output.
    pub values: Vec<HookValue>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HookValue {
    pub name: String,
    pub value: f64,
    pub unit: String,
}

impl Details {
    /// The plan that a statement had at the end, if the run began with the expected one and lost
    /// it.
    pub fn plan_lost(&self) -> Option<&PlanCheck> {
        let had_it = self.target.plan.as_ref().is_some_and(|plan| plan.as_meant);
        self.plan_after.as_ref().filter(|after| had_it && !after.as_meant)
    }

    /// True if data, indexes or plans at the end differ from the start of the run.
    pub fn has_changed_data(&self) -> bool {
        self.data_vanished.is_some() || self.plan_lost().is_some()
    }
}

impl Run {
    /// A run that has not begun: the format and the target, without figures.
    pub fn begin(engine: &str, target: Target) -> Self {
        let summary = Summary {
            format: FORMAT.to_owned(),
            engine: engine.to_owned(),
            target,
            ..Summary::default()
        };
        Self { summary, details: Details::default() }
    }

    /// True for the bare device: it has no database.
    pub fn is_bare_device(&self) -> bool {
        self.summary.engine == "device"
    }

    /// The program that reads and writes above the device and reports its counters, in words.
    pub fn reported_by(&self) -> &'static str {
        if self.is_bare_device() { "petal" } else { "the database" }
    }

    /// Whether the database reported its counters: without its closing snapshot a wait that is
    /// missing here is unknown, not zero.
    pub fn is_counted(&self) -> bool {
        !self.summary.waits.is_empty() || self.details.io != IoCounts::default()
    }

    /// Whether the database timed waits of this name.
    fn is_timed(&self, event: &str) -> bool {
        let timed = self.summary.wait(event);
        timed.is_some_and(|wait| wait.waits != Some(0) || wait.time_us > 0.0)
    }

    /// True if the database synced its log for UPDATEs and did not time those waits: they are in
    /// the rest of DB time. If it does not count the syncs either, its own statement decides.
    pub fn is_log_untimed(&self) -> bool {
        let details = &self.details;
        let may_sync = match details.io.log_syncs {
            Some(syncs) => syncs > 0,
            None => details.target.io_untimed.is_some(),
        };
        let has_updates = self.is_counted() && self.summary.ops.update > 0;
        let is_sample =
            |wait: &WaitRow| (wait.class, wait.source) == (WaitClass::Commit, WaitSource::Sampled);
        let is_sampled = self.summary.waits.iter().any(is_sample);
        has_updates && may_sync && !is_sampled && !self.is_timed(&details.target.io_events.log)
    }

    /// True if the database reports that it does not time its reads, and made some.
    pub fn is_read_untimed(&self) -> bool {
        let target = &self.details.target;
        let reads = self.details.io.physical_read_blocks.unwrap_or(0);
        target.io_untimed.is_some() && reads > 0 && !self.is_timed(&target.io_events.read)
    }

    /// Whether every operation visited exactly the rows asked of it; None in records made before
    /// petal kept the number asked.
    pub fn visited_all_rows(&self) -> Option<bool> {
        let is_as_asked = self.summary.rows_asked? == self.summary.rows;
        Some(is_as_asked && self.details.ops_not_as_asked.unwrap_or(0) == 0)
    }

    /// Blocks that each session has in flight: IO_DEPTH.
    pub fn io_depth(&self) -> f64 {
        self.summary.setting_number("io_depth").unwrap_or(1.0).max(1.0)
    }

    /// Waits of `time_us` as a share of DB time, at most 1. None without DB time, and if waits
    /// overlap: waits for several blocks at once, or waits that add up to more than DB time.
    pub fn share_of_db_time(&self, time_us: f64) -> Option<f64> {
        let db_time_us = self.details.db_time_s * 1e6;
        let share = (db_time_us > 0.0 && self.io_depth() <= 1.0).then(|| time_us / db_time_us)?;
        (share <= 1.0 + TIME_SLACK_SHARE).then(|| share.min(1.0))
    }
}

/// A JSON value as people read it: text without quotes, null as `none`.
pub fn as_text(value: &serde_json::Value, none: &str) -> String {
    match value {
        serde_json::Value::Null => none.to_owned(),
        serde_json::Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

impl Status {
    pub fn name(self) -> &'static str {
        match self {
            Self::Complete => "complete",
            Self::Interrupted => "interrupted",
            Self::Failed => "failed",
            Self::Incomplete => "incomplete",
        }
    }
}

impl Severity {
    pub fn name(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

impl Summary {
    pub fn latency(&self, kind: Kind) -> Option<&LatencySummary> {
        self.latency_us.get(kind.name())
    }

    pub fn wait(&self, name: &str) -> Option<&WaitRow> {
        self.waits.iter().find(|wait| wait.name == name)
    }

    /// PIOPS: physical read and write requests per second as the database counted them; of a run that
    /// only reads, if its writes are unknown, the reads.
    pub fn piops(&self) -> Option<f64> {
        let (reads, writes) =
            (self.per_second.physical_read_requests?, self.per_second.physical_write_requests);
        let only_reads = self.ops.update == 0 && self.ops.total > 0;
        writes.or(only_reads.then_some(0.0)).map(|writes| reads + writes)
    }

    /// True if operations began and none ended.
    pub fn nothing_done(&self) -> bool {
        self.ops.total == 0 && self.ops.cut > 0
    }

    /// The counter's value; None if the database does not count it.
    pub fn counter(&self, counter: CommonCounter) -> Option<u64> {
        self.counters.get(counter.name()).copied()
    }

    pub fn finding(&self, id: &str) -> Option<&Finding> {
        self.findings.iter().find(|finding| finding.id == id)
    }

    pub fn setting(&self, key: &str) -> Option<&serde_json::Value> {
        self.settings.get(&key.to_ascii_lowercase())
    }

    /// True if each kind of operation had its own rate.
    pub fn has_kind_rates(&self) -> bool {
        let has = |key: &&str| self.setting(key).is_some_and(|rate| !rate.is_null());
        ["select_rate", "update_rate", "scan_rate"].iter().any(has)
    }

    /// A parameter that is a number; None if it is unset or something else.
    pub fn setting_number(&self, key: &str) -> Option<f64> {
        self.setting(key)?.as_f64()
    }
}

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
