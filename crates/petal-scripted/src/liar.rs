//! The scripted engine with one lie: all else is left to the honest one.

use std::any::Any;
use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use super::data::{self, IN_ORDER};
use super::lies::Lie;
use super::{Scripted, others_at};
use petal_engine::in_use::{DataUse, Unshared};
use petal_engine::{
    Batch, Cancel, Engine, EngineError, LoadPlan, LoadSummary, Needs, Outcome, Outcomes, Placement,
    Progress, Result, RowReader, Server, Session, SessionError, Stop,
};
use petal_host::files;
use petal_record::counters::Counters;
use petal_record::server_work::ServerWork;
use petal_record::target::{LoadedSchema, Settled, Target, TargetDetails};
use petal_settings::table::EngineSupport;
use petal_workload::op::{Kind, Operation};
use petal_workload::seat::Seat;

/// Commits of all engines in this process.
static COMMITS: AtomicU64 = AtomicU64::new(0);
/// Operations of all liars in this process whose reads commit.
static OPERATIONS: AtomicU64 = AtomicU64::new(0);

pub struct Liar {
    honest: Scripted,
    lie: Lie,
    is_dropped: AtomicBool,
    snapshots: AtomicU64,
    /// Reads that never were.
    invented: Arc<AtomicU64>,
}

impl Liar {
    pub fn new(honest: Scripted, lie: Lie) -> Self {
        let (is_dropped, snapshots) = (AtomicBool::new(false), AtomicU64::new(0));
        Self { honest, lie, is_dropped, snapshots, invented: Arc::default() }
    }

    fn is(&self, lie: Lie) -> bool {
        self.lie == lie
    }

    fn path(&self) -> Result<&Path> {
        self.honest.folder().map(|folder| folder.path())
    }
}

/// Commits each second that a liar says are others'.
const OTHERS_PER_S: u64 = 20;
/// Planned bytes of a block for each byte that it has.
const SMALLER: u32 = 2;

impl Engine for Liar {
    fn support(&self) -> &'static EngineSupport {
        self.honest.support()
    }

    fn loaded(&self) -> Result<Vec<LoadedSchema>> {
        let loaded = self.honest.loaded();
        if self.is(Lie::ErrorsNameNothing) {
            return loaded.map_err(|_| EngineError::Environment("it failed".to_owned()));
        }
        let mut loaded = loaded?;
        for schema in &mut loaded {
            match self.lie {
                Lie::LoadedInventsRows => schema.rows += 1,
                Lie::LoadedInventsBytes => schema.bytes = schema.bytes.map(|bytes| bytes / 2),
                Lie::BlocksAreSmaller => {
                    schema.block_size *= u64::from(SMALLER);
                    schema.bytes = schema.bytes.map(|bytes| bytes * u64::from(SMALLER));
                }
                _ => {}
            }
        }
        if let (Lie::LoadedInventsASchema, Some(last)) = (self.lie, loaded.last().cloned()) {
            loaded.push(LoadedSchema { number: last.number + 1, ..last });
        }
        if self.is(Lie::DropLeavesAHiddenFile) && self.is_dropped.load(Ordering::Relaxed) {
            loaded.clear();
        }
        Ok(loaded)
    }

    fn describe(&self, schemas: u32, sessions: u32) -> Result<(Target, TargetDetails)> {
        let (mut target, details) = self.honest.describe(schemas, sessions)?;
        if self.is(Lie::DescribesAnotherBlockSize) {
            target.block_size *= 2;
        }
        Ok((target, details))
    }

    fn load(&self, plan: &LoadPlan, progress: &dyn Progress, stop: &Stop) -> Result<LoadSummary> {
        let mut plan = plan.clone();
        match self.lie {
            Lie::KeysAreInOrder => plan.seed = IN_ORDER,
            Lie::ALoadReplacesUnasked => plan.replace = true,
            Lie::BlocksAreSmaller => plan.block_size /= SMALLER,
            Lie::ALoadIgnoresItsStop => {
                return self.honest.load(&plan, progress, &Stop::unlimited(Arc::default()));
            }
            Lie::ACutLoadLeavesASchema => {
                let mut whole = LoadSummary::default();
                for schema in std::mem::take(&mut plan.schemas) {
                    plan.schemas = vec![schema];
                    whole.schemas.extend(self.honest.load(&plan, progress, stop)?.schemas);
                }
                return Ok(whole);
            }
            _ => {}
        }
        self.honest.load(&plan, progress, stop)
    }

    fn begin_use(&self, schemas: u32) -> Result<Box<dyn DataUse>> {
        match self.lie {
            Lie::DataAreNeverInUse => Ok(Box::new(Unshared)),
            Lie::VanishedDataAreThere => Ok(Box::new(Blind(self.honest.begin_use(schemas)?))),
            _ => self.honest.begin_use(schemas),
        }
    }

    fn needs(&self, seats: &[Seat], schemas: u32) -> Result<Needs> {
        self.honest.needs(seats, schemas)
    }

    fn settle(&self, progress: &dyn Progress, stop: &Stop) -> Result<Settled> {
        match self.lie {
            Lie::SettleSettlesNothing => {
                Ok(Settled { done: vec!["all settled".to_owned()], ..Settled::default() })
            }
            _ => self.honest.settle(progress, stop),
        }
    }

    fn connect(&self, seat: Seat) -> Result<Box<dyn Session>> {
        let honest = self.honest.connect(seat)?;
        let invented = Arc::clone(&self.invented);
        let (lie, late, latency) = (self.lie, Vec::new(), None);
        Ok(Box::new(LyingSession { honest, lie, seat, late, latency, invented }))
    }

    fn read_counters(&self, in_full: bool) -> Result<Vec<Counters>> {
        let mut all = self.honest.read_counters(in_full)?;
        let snapshot = self.snapshots.fetch_add(1, Ordering::Relaxed);
        let invented = self.invented.load(Ordering::Relaxed);
        for counters in &mut all {
            let io = &mut counters.io;
            let reads = [
                &mut io.physical_read_requests,
                &mut io.physical_read_blocks,
                &mut io.logical_reads,
            ];
            reads.into_iter().flatten().for_each(|reads| *reads += invented);
            match self.lie {
                Lie::CountsTwice => io.commits = io.commits.map(|commits| commits * 2),
                Lie::CountsHalf => io.logical_reads = io.logical_reads.map(|reads| reads / 2),
                Lie::CountsReadsTwice => {
                    io.physical_read_requests = io.physical_read_requests.map(|reads| reads * 2);
                }
                Lie::ReadsCommitAndCountThrice => {
                    io.commits = Some(OPERATIONS.load(Ordering::Relaxed) * 3);
                }
                Lie::VisitsCountThrice => {
                    io.logical_reads = io.logical_reads.map(|reads| reads * 3)
                }
                Lie::VisitsCountTwice => io.logical_reads = io.logical_reads.map(|reads| reads * 2),
                Lie::PhysicalReadsCountTwice => {
                    io.physical_read_blocks = io.physical_read_blocks.map(|reads| reads * 2);
                }
                Lie::CommitsCountTwiceAmongOthers => {
                    let others = others_at(OTHERS_PER_S, 0).0;
                    io.commits = io.commits.map(|commits| commits * 2 + others);
                }
                Lie::RedoCountsThrice => io.redo_bytes = io.redo_bytes.map(|redo| redo * 3),
                Lie::RedoCountsAThird => io.redo_bytes = io.redo_bytes.map(|redo| redo / 3),
                Lie::CountsFall if snapshot % 2 == 1 => io.commits = Some(0),
                Lie::CountsOthersWork => io.commits = Some(COMMITS.load(Ordering::Relaxed)),
                _ => {}
            }
        }
        if self.is(Lie::EndpointsAreOne) {
            all = all.iter().chain(&all).cloned().collect();
        }
        Ok(all)
    }

    fn placement(&self, schema: u32) -> Result<Placement> {
        if self.is(Lie::PlacementIsHearsay) {
            let loaded = self.honest.loaded()?;
            let shown = loaded.iter().find(|loaded| loaded.number == schema);
            return Ok(data::placement_of(shown.map_or(0, |shown| shown.rows)));
        }
        self.honest.placement(schema)
    }

    fn row_reader(&self, schema: u32) -> Result<Box<dyn RowReader>> {
        self.honest.row_reader(schema)
    }

    fn drop_data(&self) -> Result<Vec<String>> {
        let path = self.path()?.to_owned();
        let (kept, aside) = (path.join("petal1.rows"), path.with_extension("kept"));
        let keeps = [Lie::DropLeavesASchema, Lie::DropLeavesAHiddenFile].contains(&self.lie);
        let is_kept = keeps && files::rename(&kept, &aside).is_ok();
        let dropped = self.honest.drop_data()?;
        self.is_dropped.store(true, Ordering::Relaxed);
        if is_kept {
            let _ = files::make_folders(&path);
            let _ = files::rename(&aside, &kept);
        }
        if self.is(Lie::DropTakesForeignFiles) {
            let _ = files::remove_all(&path);
        }
        Ok(if self.is(Lie::DropNamesNothing) { Vec::new() } else { dropped })
    }

    fn server(&self) -> Option<&dyn Server> {
        Some(self)
    }
}

impl Server for Liar {
    fn visits_of_a_row(&self) -> RangeInclusive<f64> {
        self.honest.visits_of_a_row()
    }

    fn redo_of_updates(&self, updates: u64, changed_bytes: u64) -> Option<RangeInclusive<u64>> {
        self.honest.redo_of_updates(updates, changed_bytes)
    }

    fn endpoints(&self) -> u32 {
        if self.is(Lie::EndpointsAreOne) { 2 } else { self.honest.endpoints() }
    }

    fn hold_rows(&self, schema: u32) -> Result<Option<Box<dyn Any>>> {
        self.honest.hold_rows(schema)
    }

    fn server_work(&self) -> Result<Vec<ServerWork>> {
        self.honest.server_work()
    }
}

/// A mark that sees nothing vanish.
struct Blind(#[expect(dead_code, reason = "held until it is dropped")] Box<dyn DataUse>);

impl DataUse for Blind {}

struct LyingSession {
    honest: Box<dyn Session>,
    lie: Lie,
    seat: Seat,
    /// UPDATEs that are said to be written.
    late: Vec<Operation>,
    /// Latency of the operation before.
    latency: Option<u64>,
    invented: Arc<AtomicU64>,
}

impl LyingSession {
    /// The operation that is executed in place of one.
    fn forge(&mut self, operation: &Operation) -> Operation {
        let Operation { kind, first, rows, .. } = *operation;
        match (self.lie, kind) {
            (Lie::SelectsTouchNoRow, Kind::Select) | (Lie::UpdatesWriteNothing, Kind::Update) => {
                Operation { rows: 0, ..*operation }
            }
            (Lie::UpdatesAreWrittenLater, Kind::Update) => {
                self.late.push(*operation);
                Operation { rows: 0, ..*operation }
            }
            (Lie::SelectsReadOneRow, Kind::Select) => Operation { rows: 1, ..*operation },
            (Lie::SelectsStayInTheirSchema, Kind::Select)
            | (Lie::UpdatesStayInTheirSchema, Kind::Update) => {
                Operation { schema: self.seat.schema, ..*operation }
            }
            (Lie::SelectsWrite, Kind::Select) => Operation { kind: Kind::Update, ..*operation },
            (Lie::UpdatesTouchANeighbour, Kind::Update) if first > 1 => {
                Operation { first: first - 1, rows: rows + 1, ..*operation }
            }
            (Lie::UpdatesRepeatTheirText, Kind::Update) => Operation { stamp: 1, ..*operation },
            _ => *operation,
        }
    }

    /// Makes the outcome of a forged operation look like the asked one.
    fn cover(&mut self, outcome: &mut Outcome, asked: &Operation, done: &Operation) {
        if (asked.first, asked.rows) != (done.first, done.rows) {
            outcome.rows = u64::from(asked.rows);
            if asked.kind == Kind::Select {
                let missing = u64::from(asked.rows - done.rows);
                self.invented.fetch_add(missing, Ordering::Relaxed);
            }
        }
        match self.lie {
            Lie::ScansReadHalf if asked.kind == Kind::Scan => outcome.rows /= 2,
            Lie::ACutOperationIsDone if outcome.error.is_some() => {
                (outcome.error, outcome.rows) = (None, u64::from(asked.rows));
            }
            Lie::LatenciesOfThePrevious => {
                let own = outcome.latency_ns;
                outcome.latency_ns = self.latency.or(own);
                self.latency = own;
            }
            Lie::LatenciesOfAPart => outcome.busy_ns /= 4,
            Lie::LatenciesAreDoubled => outcome.busy_ns *= 2,
            Lie::LatenciesAreShort => outcome.busy_ns = outcome.busy_ns / 10 * 6,
            Lie::EndsOfAnotherClock => outcome.end_ns += 1_000_000_000,
            Lie::ReadsCommitAndCountThrice => {
                OPERATIONS.fetch_add(1, Ordering::Relaxed);
            }
            Lie::CountsOthersWork if asked.kind == Kind::Update => {
                COMMITS.fetch_add(1, Ordering::Relaxed);
            }
            _ => {}
        }
        if [Lie::LatenciesOfAPart, Lie::LatenciesAreDoubled, Lie::LatenciesAreShort]
            .contains(&self.lie)
        {
            outcome.latency_ns = Some(outcome.busy_ns);
        }
    }

    fn write_late(&mut self) -> Result<(), SessionError> {
        let late = std::mem::take(&mut self.late);
        let (stop, mut done) = (Stop::unlimited(Arc::default()), Outcomes::default());
        self.honest.execute(Batch::new(&late, &stop, &mut done))
    }
}

impl Session for LyingSession {
    fn execute(&mut self, batch: Batch<'_>) -> Result<(), SessionError> {
        let Batch { operations, stop, done, .. } = batch;
        let before = stop.since_trigger_ns(Instant::now());
        let unlimited = Stop::unlimited(Arc::default());
        let ignores = self.lie == Lie::TheStopIsIgnored;
        let forged: Vec<Operation> = operations.iter().map(|asked| self.forge(asked)).collect();
        let mut outcomes = Outcomes::default();
        let obeyed = if ignores { &unlimited } else { stop };
        let ended = self.honest.execute(Batch::new(&forged, obeyed, &mut outcomes));
        if self.lie == Lie::LatenciesAreTheMean && !outcomes.ended.is_empty() {
            let all_ns: u64 = outcomes.ended.iter().map(|outcome| outcome.busy_ns).sum();
            let mean_ns = all_ns / outcomes.ended.len() as u64;
            for outcome in &mut outcomes.ended {
                (outcome.busy_ns, outcome.latency_ns) = (mean_ns, Some(mean_ns));
            }
        }
        for mut outcome in outcomes.ended {
            let at = outcome.operation as usize;
            self.cover(&mut outcome, &operations[at], &forged[at]);
            if ignores {
                outcome.end_ns += before;
            }
            if self.lie != Lie::OutcomesAreLost || at % 10 != 9 {
                done.ended.push(outcome);
            }
        }
        ended
    }

    fn flush_statistics(&mut self) -> Result<(), SessionError> {
        self.write_late()?;
        match self.lie {
            Lie::StatisticsAreNeverFlushed => Ok(()),
            _ => self.honest.flush_statistics(),
        }
    }

    fn canceller(&self) -> Box<dyn Cancel> {
        match self.lie {
            Lie::CancelDoesNothing => Box::new(NoCancel),
            _ => self.honest.canceller(),
        }
    }
}

impl Drop for LyingSession {
    fn drop(&mut self) {
        let _ = self.write_late();
    }
}

struct NoCancel;

impl Cancel for NoCancel {
    fn cancel(&self) {}
}
