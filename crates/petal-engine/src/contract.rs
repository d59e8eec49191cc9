//! The contract between petal and a database: [`Engine`], [`Session`], and their values.

use std::any::Any;
use std::collections::HashSet;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::costs::CostProbes;
use super::in_use::DataUse;
use super::neighbour::KnownNeighbours;
use super::perturbation::Perturbation;
use super::server::clock::ClockReading;
use super::server::row_layout;
use super::server_settings::ChangeableSettings;
use petal_host::facts::FactValues;
use petal_host::os::ServerProcesses;
use petal_record::counters::Counters;
use petal_record::server_report::ServerReport;
use petal_record::server_work::ServerWork;
use petal_record::target::{
    Durability, LoadFact, LoadedSchema, PlanCheck, Privilege, ServerIdentity, Settled, Target,
    TargetDetails,
};
use petal_record::verification::Recovery;
use petal_settings::table::EngineSupport;
use petal_workload::op::Operation;
use petal_workload::row::Filler;
use petal_workload::seat::Seat;
use petal_workload::version::RowStamps;

/// A target that petal can load and run.
///
/// A process may hold several engines at once: a sweep over two targets has one for each. If a
/// process can open a database's files only once, all sessions of an engine share them, and
/// dropping the engine closes them.
///
/// Data: a schema has rows with keys from 1, one row in each block. A row is the key and
/// [`COLUMNS`](petal_workload::row::COLUMNS) text columns of [`Engine::column_bytes`] each,
/// filled by [`Filler::fill`](petal_workload::row::Filler). An UPDATE writes a new text that
/// begins with a stamp ([`petal_workload::version`]); `petal verify` reads the row's version
/// from it.
///
/// Counters: `physical_read_*` counts reads that the database requested from the system below,
/// served from any place; `physical_write_*` counts writes that it passed on. A hit in the
/// database's own cache is a logical read alone. A figure that the database does not count stays
/// `None`. Timed events (block reads, log syncs, locks) are
/// [`Wait`](petal_record::counters::Wait)s of the counters, by the database's own names.
pub trait Engine: Send + Sync {
    /// The engine's entry in the table of support.
    fn support(&self) -> &'static EngineSupport;

    /// The block size of a load: as asked, or the default. Refuses a size that the target does not
    /// have.
    fn block_size(&self, asked: Option<u32>) -> Result<u32> {
        Ok(asked.unwrap_or(self.support().block_size_default))
    }

    /// Bytes of each filler column of a row that fills a block of this size.
    fn column_bytes(&self, block_bytes: u32) -> usize {
        row_layout::column_bytes(block_bytes)
    }

    /// The complete petal schemas on the target, by number. Empty without any.
    fn loaded(&self) -> Result<Vec<LoadedSchema>>;

    /// Product, version, sizes and settings, for a run over `schemas` with `sessions` sessions.
    fn describe(&self, schemas: u32, sessions: u32) -> Result<(Target, TargetDetails)>;

    /// Loads `plan.schemas` and proves one row per block. Cut off, it leaves none of them.
    fn load(&self, plan: &LoadPlan, progress: &dyn Progress, stop: &Stop) -> Result<LoadSummary>;

    /// Marks the data as in use before a run over `schemas`, until the returned value is dropped.
    fn begin_use(&self, schemas: u32) -> Result<Box<dyn DataUse>>;

    /// Files, memory and threads that a run of these sessions holds in petal's own process.
    fn needs(&self, seats: &[Seat], _schemas: u32) -> Result<Needs> {
        Ok(Needs { files: seats.len() as u64, ..Needs::default() })
    }

    /// Files, memory and threads that this load holds in petal's own process.
    fn load_needs(&self, plan: &LoadPlan) -> Needs {
        Needs { files: plan.loaders() as u64, ..Needs::default() }
    }

    /// Returns a plan of the statements in a run over `schemas`, as the database explains it now:
    /// one that is not as meant, else the first. `None` if nothing is planned, or the plan is not
    /// shown.
    fn plan(&self, _schemas: u32) -> Result<Option<PlanCheck>> {
        Ok(None)
    }

    /// Completes the work of the run before: checkpoint, vacuum, log.
    fn settle(&self, progress: &dyn Progress, stop: &Stop) -> Result<Settled>;

    /// Connects one session, ready for its first operation. Called from many threads at once.
    fn connect(&self, seat: Seat) -> Result<Box<dyn Session>>;

    /// Connects a session again that lost its connection during a run: at the server that takes its
    /// work now. An attempt is short, because it is repeated.
    fn reconnect(&self, seat: Seat) -> Result<Box<dyn Session>> {
        self.connect(seat)
    }

    /// Connects a session that only reads, and leaves nothing behind at the data.
    fn connect_reader(&self, seat: Seat) -> Result<Box<dyn Session>> {
        self.connect(seat)
    }

    /// Cumulative counters and waits, per endpoint. In full they are complete for all work that
    /// sessions flushed; else they may be without histograms, and are cheap enough for once a
    /// second.
    fn read_counters(&self, in_full: bool) -> Result<Vec<Counters>>;

    /// Changes of the sessions' reads and commits; `None` if it cannot change them.
    fn perturbation(&self) -> Option<Arc<Perturbation>> {
        None
    }

    /// The counters of a run begin: resets of them until now are forgotten, and a figure that is
    /// reset from now on is left out of them.
    fn begin_counting(&self) {}

    /// The run ends: background work of the engine's own (checkpointers) stops; the closing
    /// snapshot follows. Returns [`EngineError::Data`] if blocks that were read differ from the
    /// written ones, and [`EngineError::Environment`] if a server failed during the run.
    fn quiesce(&self) -> Result<()> {
        Ok(())
    }

    /// Bytes that main tables and indexes take up now, log apart: grows when rows move.
    fn data_bytes(&self) -> Result<Option<u64>> {
        Ok(None)
    }

    /// Counts rows and blocks now, by the database's own physical view.
    fn placement(&self, schema: u32) -> Result<Placement>;

    /// Opens a schema to read its rows back: `petal verify`.
    fn row_reader(&self, schema: u32) -> Result<Box<dyn RowReader>>;

    /// Drops only data with petal's mark; returns the dropped objects, a line each.
    fn drop_data(&self) -> Result<Vec<String>>;

    /// The server behind the target. None of a target in petal's own process.
    fn server(&self) -> Option<&dyn Server> {
        None
    }

    /// Accesses that the optimizer has a price for, if petal can measure them.
    fn cost_probes(&self) -> Option<&dyn CostProbes> {
        None
    }

    /// Work next to a run that it knows by name.
    fn neighbours(&self) -> Option<&dyn KnownNeighbours> {
        None
    }

    /// The database's own report of a run, if it makes one.
    fn own_report(&self) -> Option<&dyn OwnReport> {
        None
    }
}

/// Answers that only an engine with a server has.
pub trait Server: Send + Sync {
    /// Makes the caller's signals end every wait of this engine outside a run's measured part, and
    /// sends it notes that name the sessions the engine waits for. Returns false if the engine
    /// waits for no session: outside loads and runs it then keeps the system's own handling of
    /// signals.
    fn serve(&self, _caller: &Caller) -> bool {
        false
    }

    /// The number of endpoints; [`petal_workload::plan::seats`] seats sessions on them.
    fn endpoints(&self) -> u32 {
        1
    }

    /// Refuses a run that is sure to fail: the role may not write, or the target only reads.
    fn check_run(&self, _schemas: u32) -> Result<()> {
        Ok(())
    }

    /// Refuses a server whose commits would wait for a replica that is not there.
    fn check_replicas(&self) -> Result<()> {
        Ok(())
    }

    /// Refuses UPDATEs if the target's log has no room for them; false if petal cannot see it.
    fn check_room(&self) -> Result<bool> {
        Ok(false)
    }

    /// Looks whether this load would find room, and data of the shape that it needs. May make a
    /// small table of petal's own, and drops it.
    fn check_load(&self, _plan: &LoadPlan) -> Result<Vec<LoadFact>> {
        Ok(Vec::new())
    }

    /// Privileges of petal's role on the loaded schemas; empty if there are no roles.
    fn privileges(&self) -> Result<Vec<Privilege>> {
        Ok(Vec::new())
    }

    /// The most sessions it admits, if there is a limit.
    fn sessions_max(&self) -> Result<Option<u32>> {
        Ok(None)
    }

    /// Cumulative work of each whole server for all users, from its own counters. Changes nothing,
    /// and needs no data of petal's.
    fn server_work(&self) -> Result<Vec<ServerWork>>;

    /// The processes of every server of a run, if all of them run on this host and can be
    /// distinguished from other processes; else empty. A database inside petal's process has no
    /// others.
    fn server_processes(&self) -> Vec<ServerProcesses> {
        Vec::new()
    }

    /// The clock of the server and the way to it, if it can be asked.
    fn clock(&self) -> Option<ClockReading> {
        None
    }

    /// Settings of the whole server that petal can change, if it can change any.
    fn settings(&self) -> Option<&dyn ChangeableSettings> {
        None
    }

    /// Identity of each server of the sessions, and of the data there for a run over `schemas`, as it
    /// is now; empty if the engine cannot say it.
    fn identities(&self, _schemas: u32) -> Result<Vec<ServerIdentity>> {
        Ok(Vec::new())
    }

    /// Settings and starts of the servers of a run, and the kinds of its tables, as they are now. Empty if petal can only describe
    /// the target again.
    fn settings_now(&self, _schemas: u32) -> Result<ServerFacts> {
        Ok(ServerFacts::default())
    }

    /// A text that changes if one of these may have changed, cheap enough for once a second.
    /// `None`: petal reads them again only at the end.
    fn settings_mark(&self) -> Result<Option<String>> {
        Ok(None)
    }

    /// Keeps the rows of a schema locked against UPDATEs until the value is dropped; `None` if it
    /// cannot.
    fn hold_rows(&self, _schema: u32) -> Result<Option<Box<dyn Any>>> {
        Ok(None)
    }

    /// True if this code of a failed session or operation is of the surroundings: a missing right, no
    /// room, a read-only server, one that ends.
    fn is_environment(&self, _code: &str) -> bool {
        false
    }

    /// The process whose old snapshot keeps replaced rows in petal's tables, in words; `None` if no
    /// snapshot does.
    fn snapshot_holder(&self) -> Result<Option<String>> {
        Ok(None)
    }

    /// Product and version, also without petal's data; `None` if the server cannot say it.
    fn version(&self) -> Result<Option<String>> {
        Ok(None)
    }

    /// Fewest and most blocks that the server counts as visited for each row that a long SELECT finds by
    /// the index. A leaf of the index may be visited again for each row.
    fn visits_of_a_row(&self) -> RangeInclusive<f64> {
        1.0..=2.5
    }

    /// Fewest and most bytes of redo for so many UPDATEs that change these bytes of random text; `None` if
    /// that is not known.
    fn redo_of_updates(&self, _updates: u64, _changed_bytes: u64) -> Option<RangeInclusive<u64>> {
        None
    }

    /// Ends sessions that still work on petal's data there although petal gave their connections up. Only
    /// for data that no other petal uses.
    fn end_left_sessions(&self) -> Result<()> {
        Ok(())
    }

    /// Progress of a server in recovery, such as a standby; `None` if it is not in recovery.
    fn recovery(&self) -> Result<Option<Recovery>> {
        Ok(None)
    }
}

/// Facts about the servers of a run that must hold until its end.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ServerFacts {
    pub facts: FactValues,
    /// Durability by these facts, the weakest of the servers'.
    pub durability: Option<Durability>,
}

impl ServerFacts {
    /// Adds those of another server. Of several, names get the server's in front.
    pub fn add(&mut self, server: &str, other: Self) {
        let before = if server.is_empty() { String::new() } else { format!("{server}: ") };
        let named = other.facts.into_iter();
        self.facts.extend(named.map(|((kind, name), v)| ((kind, format!("{before}{name}")), v)));
        let all = [self.durability.take(), other.durability].into_iter().flatten();
        self.durability = all.reduce(|one, other| if other.durable { one } else { other });
    }
}

/// The endpoints of a target, one if it is no server.
pub fn endpoints(engine: &dyn Engine) -> u32 {
    engine.server().map_or(1, Server::endpoints)
}

/// The processes of the servers of a target, as [`Server::server_processes`].
pub fn server_processes(engine: &dyn Engine) -> Vec<ServerProcesses> {
    engine.server().map(Server::server_processes).unwrap_or_default()
}

/// A report that the database makes of a run by itself, such as AWR.
pub trait OwnReport: Send + Sync {
    /// Begins the database's own report, before the opening snapshot. Returns a note for a person.
    fn begin_report(&self) -> Result<Option<&'static str>> {
        Ok(None)
    }

    /// Returns the report after the closing snapshot, as files for the run's folder.
    fn end_report(&self) -> Result<Vec<ServerReport>> {
        Ok(Vec::new())
    }
}

/// The signals that an engine obeys before and after a run, and a receiver of notes on its waits.
#[derive(Clone)]
pub struct Caller {
    /// The number of signals that asked to stop.
    pub signals: Arc<AtomicU8>,
    /// Takes a line that a person should see.
    pub note: Arc<dyn Fn(&str) + Send + Sync>,
}

impl Caller {
    /// True when a signal asked to stop.
    pub fn is_interrupted(&self) -> bool {
        self.signals.load(Ordering::Relaxed) > 0
    }
}

/// Resources of petal's own process that a run or a load needs, in addition to those of every run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Needs {
    /// Files and sockets that are open at once.
    pub files: u64,
    /// Caches and buffers.
    pub memory_bytes: u64,
    /// Threads, in addition to one for each session or loader.
    pub threads: u64,
}

/// A call of a session.
pub struct Batch<'a> {
    pub operations: &'a [Operation],
    pub stop: &'a Stop,
    /// Outcomes of operations that ended; the session adds to it.
    pub done: &'a mut Outcomes,
    /// Another batch follows at once: the last operations may stay in flight, so that a queue stays
    /// full. The next batch begins with them.
    pub is_followed: bool,
}

impl<'a> Batch<'a> {
    /// A batch that ends before the call returns.
    pub fn new(operations: &'a [Operation], stop: &'a Stop, done: &'a mut Outcomes) -> Self {
        Self { operations, stop, done, is_followed: false }
    }
}

/// A connection that executes operations. One thread calls it, from its first batch until it is
/// dropped there; other threads use only the canceller from [`Session::canceller`].
pub trait Session: Send {
    /// Runs the operations in order, each UPDATE with its own commit, until the batch or the time
    /// is over. `batch.done` has every operation that ended, even if this returns an error.
    fn execute(&mut self, batch: Batch<'_>) -> Result<(), SessionError>;

    /// Operations that a batch which another follows left in flight.
    fn in_flight(&self) -> usize {
        0
    }

    /// Makes the database's counters current for this session's work; called some ten to twenty
    /// times a second. A session that cannot is lost: its figures would be short.
    fn flush_statistics(&mut self) -> Result<(), SessionError> {
        Ok(())
    }

    /// Keeps its connections from being idle, every [`KEEP_ALIVE`](crate::server::waiting::KEEP_ALIVE) of
    /// a wait for the next operation. The next operation reports a failure.
    fn keep_alive(&mut self) {}

    /// Name of the server that takes its UPDATEs, or its reads if it has none; None without a server.
    fn server(&self) -> Option<String> {
        None
    }

    /// A handle with which another thread can cut the operation in flight.
    fn canceller(&self) -> Box<dyn Cancel>;
}

/// Reads the rows of one schema back, whole.
pub trait RowReader: Send {
    /// The identity of the load that wrote the rows.
    fn load(&self) -> &str;

    /// Rows of that load.
    fn rows(&self) -> u64;

    /// Adds every row with a key from `first` to `last` to `found`, in any order.
    fn read(&mut self, first: u64, last: u64, found: &mut Vec<FoundRow>) -> Result<()>;

    /// The stamps of whole records in the log, if petal itself wrote one and recovers nothing from
    /// it.
    fn logged(&mut self, _updates: &[LoggedUpdate]) -> Result<Option<HashSet<u64>>> {
        Ok(None)
    }
}

/// A row that was read back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundRow {
    pub key: u64,
    /// Stamps of the row; an error names its fault.
    pub stamps: std::result::Result<RowStamps, String>,
}

/// An UPDATE whose record is looked for in a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoggedUpdate {
    pub stamp: u64,
    pub rows: u64,
}

/// Cuts the operation in flight of one session; it then ends with [`CUT`].
pub trait Cancel: Send + Sync {
    fn cancel(&self);

    /// The operation did not end though it was cancelled: gives its connection up at once, so that
    /// the session is lost. Needless without a peer that may fall silent.
    fn abort(&self) {}
}

/// The error code of an operation that was cancelled after the stop.
pub const CUT: &str = "cut";

/// The code of a session that was to read before the trigger, or next to a run, when a signal came.
pub const INTERRUPTED: &str = "interrupted";

/// Ended operations, in order. Memory is reused: per operation only an error's text is allocated.
#[derive(Debug, Default)]
pub struct Outcomes {
    pub ended: Vec<Outcome>,
}

#[derive(Debug, Clone)]
pub struct Outcome {
    /// Index into the batch.
    pub operation: u32,
    /// None if the clock that timed it was set meanwhile, or its begin or end is unknown.
    pub latency_ns: Option<u64>,
    /// Time of the session: the latency, or else by petal's own clock.
    pub busy_ns: u64,
    /// End, in nanoseconds since the trigger.
    pub end_ns: u64,
    /// Rows as the database answered: counted or updated.
    pub rows: u64,
    /// The database's own code, if it failed and the session goes on.
    pub error: Option<Box<str>>,
}

impl Outcome {
    /// An outcome timed by petal's own clock.
    pub fn timed(
        operation: u32,
        (begin, end): (Instant, Instant),
        stop: &Stop,
        rows: u64,
        error: Option<Box<str>>,
    ) -> Self {
        let busy_ns = (end - begin).as_nanos() as u64;
        let (latency_ns, end_ns) = (Some(busy_ns), stop.since_trigger_ns(end));
        Self { operation, latency_ns, busy_ns, end_ns, rows, error }
    }

    /// Returns the outcome of a call that failed as a whole: it counts as its first operation, with
    /// the call's time.
    pub fn of_failed_call(operation: usize, [begin_ns, end_ns]: [u64; 2], code: Box<str>) -> Self {
        let (operation, busy_ns) = (operation as u32, end_ns - begin_ns);
        let (latency_ns, error) = (Some(busy_ns), Some(code));
        Self { operation, latency_ns, busy_ns, end_ns, rows: 0, error }
    }
}

/// The stop of a run: deadline, flag, and the trigger of all times. Sessions share it; asking is
/// cheap.
#[derive(Debug, Clone)]
pub struct Stop {
    trigger: Instant,
    deadline: Option<Instant>,
    level: Arc<AtomicU8>,
    cutting: Arc<AtomicBool>,
    /// The runner has seen enough: the run ends before its deadline, and is whole.
    enough: Arc<AtomicBool>,
}

impl Stop {
    /// Counted from now; no deadline. For loads.
    pub fn unlimited(level: Arc<AtomicU8>) -> Self {
        Self::until(Instant::now(), None, level, Arc::default())
    }

    pub fn until(
        trigger: Instant,
        deadline: Option<Instant>,
        level: Arc<AtomicU8>,
        cutting: Arc<AtomicBool>,
    ) -> Self {
        Self { trigger, deadline, level, cutting, enough: Arc::default() }
    }

    /// Adds a flag: the stop is due as soon as `enough` is set.
    pub fn or_when(self, enough: Arc<AtomicBool>) -> Self {
        Self { enough, ..self }
    }

    /// True when no further operation may begin at `now`.
    pub fn is_due(&self, now: Instant) -> bool {
        self.is_requested() || self.deadline.is_some_and(|deadline| now >= deadline)
    }

    /// [`Stop::is_due`] for an engine with its own clock, in nanoseconds since the trigger.
    pub fn is_due_at(&self, since_trigger_ns: u64) -> bool {
        self.is_due(self.trigger + Duration::from_nanos(since_trigger_ns))
    }

    /// A signal or the runner asked to stop.
    pub fn is_requested(&self) -> bool {
        self.level.load(Ordering::Relaxed) > 0 || self.enough.load(Ordering::Relaxed)
    }

    /// Operations in flight are being cut: give up waiting.
    pub fn is_cutting(&self) -> bool {
        self.cutting.load(Ordering::Relaxed)
    }

    /// Nanoseconds since the trigger.
    pub fn since_trigger_ns(&self, now: Instant) -> u64 {
        u64::try_from(now.saturating_duration_since(self.trigger).as_nanos()).unwrap_or(u64::MAX)
    }

    /// The time from the trigger to the deadline; None without one.
    pub fn planned(&self) -> Option<Duration> {
        self.deadline.map(|deadline| deadline.saturating_duration_since(self.trigger))
    }

    /// Time until the deadline; None without one.
    pub fn time_left(&self, now: Instant) -> Option<Duration> {
        self.deadline.map(|deadline| deadline.saturating_duration_since(now))
    }
}

/// The plan of a load.
#[derive(Debug, Clone)]
pub struct LoadPlan {
    /// Schema numbers to load, from 1.
    pub schemas: Vec<u32>,
    /// Rows, so blocks, of each main table.
    pub rows: u64,
    /// Rows of each scan table.
    pub scan_rows: u64,
    pub block_size: u32,
    /// Loader connections.
    pub degree: u32,
    pub unique_index: bool,
    pub filler: Filler,
    /// Seed of the scatter permutation.
    pub seed: u64,
    /// Drawn afresh by each load: by it a ledger knows the data that it is of.
    pub id: u64,
    /// Loads over petal's own schemas that are there already.
    pub replace: bool,
}

impl LoadPlan {
    /// The number of schemas that are loaded at once.
    pub fn loaders(&self) -> usize {
        (self.degree as usize).clamp(1, self.schemas.len().max(1))
    }
}

#[derive(Debug, Clone, Default)]
pub struct LoadSummary {
    pub schemas: Vec<LoadedSchemaSummary>,
    pub seconds: f64,
    /// Time until rows and indexes of all schemas were durable, if known apart from `afterwards`.
    pub durable_seconds: Option<f64>,
    /// Steps after that, in seconds, in order.
    pub afterwards: Vec<(&'static str, f64)>,
}

#[derive(Debug, Clone)]
pub struct LoadedSchemaSummary {
    pub schema: LoadedSchema,
    /// Bytes of the scan table; `None` if the database does not say.
    pub scan_bytes: Option<u64>,
    pub seconds: f64,
    pub placement: Placement,
}

/// Rows and blocks, counted by the database's own physical view.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placement {
    pub rows: u64,
    /// Blocks that hold rows of the main table.
    pub blocks: u64,
    pub rows_per_block_max: u64,
    /// Blocks that hold parts of rows or none, not one row each; `None` if it is not known.
    pub overflow_blocks: Option<u64>,
    /// The view that was asked, such as `dbstat`.
    pub source: &'static str,
}

impl Placement {
    pub fn is_one_row_per_block(&self) -> bool {
        self.rows == self.blocks
            && self.rows_per_block_max <= 1
            && self.overflow_blocks.unwrap_or(0) == 0
    }
}

/// Shows how far long work is. Called from many threads.
pub trait Progress: Sync {
    /// A new phase of `total` units (rows, or bytes); 0 when unknown.
    fn phase(&self, what: &str, total: u64, unit: ProgressUnit);
    fn advance(&self, units: u64);
    /// A line a person should see.
    fn note(&self, line: &str);
    /// A line of a kind that a sweep shows only for its first run.
    fn note_once(&self, _kind: &'static str, line: &str) {
        self.note(line);
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProgressUnit {
    Bytes,
    Items,
    /// Seconds of a wait that may end earlier.
    Seconds,
}

/// A no-op progress observer.
pub struct Silent;

impl Progress for Silent {
    fn phase(&self, _: &str, _: u64, _: ProgressUnit) {}
    fn advance(&self, _: u64) {}
    fn note(&self, _: &str) {}
}

/// The error that ended a session before its time.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{message} ({code})")]
pub struct SessionError {
    /// The database's own code.
    pub code: String,
    pub message: String,
}

/// A result whose error is an engine's, unless another is named.
pub type Result<T, E = EngineError> = std::result::Result<T, E>;

/// An error of a target, in the kinds on which a caller acts differently.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// A setting that this engine or target cannot honour: exit code 2.
    #[error("{0}")]
    Setting(String),
    /// The target cannot be reached, refuses, is full or read-only: exit code 3.
    #[error("{0}")]
    Environment(String),
    /// The data are damaged, foreign or of another shape: exit code 3.
    #[error("{0}")]
    Data(String),
    /// A schema that is needed is not loaded there: exit code 3.
    #[error("{place}: schema {schema} is not loaded")]
    NotLoaded { place: String, schema: u32 },
    /// Another server answers than the one that petal trusts, or met first: exit code 3.
    #[error("{0}")]
    WrongServer(String),
    /// The database failed otherwise: exit code 1.
    #[error("{0}")]
    Database(String),
    /// The user stopped it: exit code 130.
    #[error("interrupted")]
    Interrupted,
}
