//! A scripted engine for tests and benchmarks of the runner. It has a clock of its own: operations
//! take the time that the script says and none of the test's. No URL opens it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use crate::settings::table::EngineSupport;
use crate::stats::counters::{Counters, IoCounts, Wait, WaitClass, WaitSource};
use crate::stats::histogram::Latencies;
use crate::stats::target::{IoEvents, LoadedSchema, Settled, Target, TargetDetails};
use crate::workload::op::{Kind, Operation};
use crate::workload::row::COLUMNS;
use crate::workload::seat::Seat;

use super::{
    CUT, Cancel, Engine, EngineError, LoadPlan, LoadSummary, Outcome, Outcomes, Placement,
    Progress, Session, SessionError, Stop,
};

/// The features of the fake.
pub static SUPPORT: EngineSupport = EngineSupport {
    scheme: "fake",
    product: "Fake",
    block_sizes: &[8192],
    block_size_default: 8192,
    tablespaces: false,
    cache_per_session: false,
    incompressible: false,
    exceptions: &[],
};

/// The script of the fake.
#[derive(Debug, Clone, Default)]
pub struct Script {
    /// Latency of SELECT, scan and UPDATE.
    pub latency: [Duration; Kind::ALL.len()],
    pub faults: Vec<Fault>,
    /// A session that cannot connect.
    pub refused: Option<u32>,
    pub sessions_max: Option<u32>,
    pub snapshot_fails: bool,
}

/// An error at the n-th operation (from 1) of a session.
#[derive(Debug, Clone)]
pub struct Fault {
    pub session: u32,
    pub operation: u64,
    pub what: What,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// The operation fails and the session goes on.
    Busy,
    /// The session ends.
    Die,
    /// The operation lasts until it is cancelled.
    Hang,
}

pub struct Fake {
    script: Arc<Script>,
    rows: u64,
    totals: Arc<Totals>,
}

#[derive(Default)]
struct Totals {
    reads: AtomicU64,
    writes: AtomicU64,
    commits: AtomicU64,
    read_latencies: Mutex<Latencies>,
    snapshots: AtomicU64,
}

impl Fake {
    /// A target with `rows` rows in each of as many schemas as are asked for.
    pub fn new(script: Script, rows: u64) -> Self {
        Self { script: Arc::new(script), rows, totals: Arc::default() }
    }

    fn counters(&self) -> Counters {
        let reads = self.totals.reads.load(Ordering::Relaxed);
        let writes = self.totals.writes.load(Ordering::Relaxed);
        let commits = self.totals.commits.load(Ordering::Relaxed);
        let block_size = u64::from(SUPPORT.block_size_default);
        let latencies = self.totals.read_latencies.lock().clone();
        Counters {
            endpoint: "fake".into(),
            io: IoCounts {
                logical_reads: Some(reads),
                physical_read_blocks: Some(reads),
                physical_read_requests: Some(reads),
                physical_read_bytes: Some(reads * block_size),
                physical_write_blocks: Some(writes),
                physical_write_requests: Some(writes),
                physical_write_bytes: Some(writes * block_size),
                commits: Some(commits),
                log_syncs: Some(commits),
                ..IoCounts::default()
            },
            waits: vec![Wait {
                name: "read".into(),
                class: WaitClass::UserIo,
                source: WaitSource::Timed,
                waits: Some(latencies.count()),
                time_ns: latencies.total_ns(),
                latencies: Some(latencies),
            }],
            ..Counters::default()
        }
    }
}

impl Engine for Fake {
    fn support(&self) -> &'static EngineSupport {
        &SUPPORT
    }

    fn column_bytes(&self, block_bytes: u32) -> usize {
        block_bytes as usize / COLUMNS
    }

    fn loaded(&self) -> Result<Vec<LoadedSchema>, EngineError> {
        let block_size = u64::from(SUPPORT.block_size_default);
        let schema = |number| LoadedSchema {
            number,
            rows: self.rows,
            scan_rows: 0,
            block_size,
            bytes: self.rows * block_size,
            index_bytes: 0,
        };
        Ok((1..=1000).map(schema).collect())
    }

    fn describe(&self, _: u32, _: u32) -> Result<(Target, TargetDetails), EngineError> {
        let target = Target {
            product: SUPPORT.product.into(),
            version: "1".into(),
            block_size: SUPPORT.block_size_default.into(),
            cache_bytes: None,
            url: "fake:".into(),
        };
        let details = TargetDetails {
            io_events: IoEvents {
                read: "read".into(),
                timed_by: "the script".into(),
                ..IoEvents::default()
            },
            ..TargetDetails::default()
        };
        Ok((target, details))
    }

    fn load(&self, _: &LoadPlan, _: &dyn Progress, _: &Stop) -> Result<LoadSummary, EngineError> {
        Ok(LoadSummary::default())
    }

    fn sessions_max(&self) -> Result<Option<u32>, EngineError> {
        Ok(self.script.sessions_max)
    }

    fn settle(&self, _: &dyn Progress, _: &Stop) -> Result<Settled, EngineError> {
        Ok(Settled::default())
    }

    fn connect(&self, seat: Seat) -> Result<Box<dyn Session>, EngineError> {
        if self.script.refused == Some(seat.session) {
            return Err(EngineError::Environment("fake: connection refused".into()));
        }
        Ok(Box::new(FakeSession {
            seat,
            script: self.script.clone(),
            totals: self.totals.clone(),
            clock_ns: 0,
            done: 0,
            unflushed: Unflushed::default(),
            cancelled: Arc::default(),
        }))
    }

    fn snapshot(&self) -> Result<Vec<Counters>, EngineError> {
        let earlier = self.totals.snapshots.fetch_add(1, Ordering::Relaxed);
        if self.script.snapshot_fails && earlier > 0 {
            return Err(EngineError::Database("fake: snapshot failed".into()));
        }
        Ok(vec![self.counters()])
    }

    fn placement(&self, _: u32) -> Result<Placement, EngineError> {
        let (rows, blocks, overflow_blocks) = (self.rows, self.rows, Some(0));
        Ok(Placement { rows, blocks, rows_per_block_max: 1, overflow_blocks, source: "script" })
    }

    fn drop_data(&self) -> Result<Vec<String>, EngineError> {
        Ok(Vec::new())
    }
}

#[derive(Default)]
struct Unflushed {
    reads: u64,
    writes: u64,
    commits: u64,
    /// Latency of one read and how many took so long.
    read_ns: u64,
}

struct FakeSession {
    seat: Seat,
    script: Arc<Script>,
    totals: Arc<Totals>,
    /// This session's own time since the trigger.
    clock_ns: u64,
    done: u64,
    unflushed: Unflushed,
    cancelled: Arc<AtomicBool>,
}

impl FakeSession {
    fn fault(&self) -> Option<What> {
        let here = (self.seat.session, self.done);
        let mut faults = self.script.faults.iter();
        faults.find(|fault| (fault.session, fault.operation) == here).map(|fault| fault.what)
    }

    /// One operation on the session's own clock.
    fn perform(&mut self, index: usize, operation: &Operation) -> Outcome {
        let latency_ns = self.script.latency[operation.kind.index()].as_nanos() as u64;
        self.clock_ns += latency_ns;
        let rows = u64::from(operation.rows);
        self.unflushed.reads += rows;
        self.unflushed.read_ns = latency_ns / rows.max(1);
        if operation.kind == Kind::Update {
            self.unflushed.writes += rows;
            self.unflushed.commits += 1;
        }
        Outcome { operation: index as u32, latency_ns, end_ns: self.clock_ns, rows, error: None }
    }

    fn hang(&self, stop: &Stop) {
        while !self.cancelled.load(Ordering::Relaxed) && !stop.is_cutting() {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

impl Session for FakeSession {
    fn execute(
        &mut self,
        batch: &[Operation],
        stop: &Stop,
        done: &mut Outcomes,
    ) -> Result<(), SessionError> {
        for (index, operation) in batch.iter().enumerate() {
            if stop.is_due_at(self.clock_ns) {
                break;
            }
            self.done += 1;
            let failed = |code: &str, end_ns| Outcome::of_failed_call(index, end_ns, code.into());
            done.ended.push(match self.fault() {
                None => self.perform(index, operation),
                Some(What::Busy) => failed("busy", self.clock_ns),
                Some(What::Hang) => {
                    self.hang(stop);
                    failed(CUT, self.clock_ns)
                }
                Some(What::Die) => {
                    let (code, message) = ("dead".into(), "the script killed this session".into());
                    return Err(SessionError { code, message });
                }
            });
        }
        Ok(())
    }

    fn flush_statistics(&mut self) -> Result<(), SessionError> {
        let work = std::mem::take(&mut self.unflushed);
        self.totals.reads.fetch_add(work.reads, Ordering::Relaxed);
        self.totals.writes.fetch_add(work.writes, Ordering::Relaxed);
        self.totals.commits.fetch_add(work.commits, Ordering::Relaxed);
        if work.reads > 0 {
            let mut latencies = self.totals.read_latencies.lock();
            latencies.record(work.read_ns);
        }
        Ok(())
    }

    fn canceller(&self) -> Box<dyn Cancel> {
        Box::new(FakeCancel(self.cancelled.clone()))
    }
}

struct FakeCancel(Arc<AtomicBool>);

impl Cancel for FakeCancel {
    fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
