//! Session of the scripted engine: operations take the time that the script specifies, on a
//! simulated clock or on the real one.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::data::{self, SchemaFile};
use super::lies::Lie;
use super::{Fault, Script, ScriptedData, ScriptedTotals};
use petal_engine::{Batch, CUT, Cancel, Outcome, Session, SessionError, Stop};
use petal_workload::op::{Kind, Operation};
use petal_workload::seat::Seat;

#[derive(Default)]
struct UnflushedCounts {
    reads: u64,
    writes: u64,
    commits: u64,
    /// Latency of one read.
    read_ns: u64,
}

pub struct ScriptedSession {
    seat: Seat,
    script: Arc<Script>,
    data: ScriptedData,
    totals: Arc<ScriptedTotals>,
    files: BTreeMap<u32, SchemaFile>,
    /// Simulated time since the trigger, if the data are in memory.
    clock_ns: u64,
    done: u64,
    unflushed: UnflushedCounts,
    cancelled: Arc<AtomicBool>,
    /// True after the first sync of a batch.
    is_synced: bool,
}

impl ScriptedSession {
    pub fn new(
        seat: Seat,
        script: Arc<Script>,
        data: ScriptedData,
        totals: Arc<ScriptedTotals>,
    ) -> Self {
        Self {
            seat,
            script,
            data,
            totals,
            files: BTreeMap::new(),
            clock_ns: 0,
            done: 0,
            unflushed: UnflushedCounts::default(),
            cancelled: Arc::default(),
            is_synced: false,
        }
    }

    fn fault(&self) -> Option<Fault> {
        let mut faults = self.script.faults.iter();
        let here =
            |fault: &&(u32, u64, Fault)| (fault.0, fault.1) == (self.seat.session, self.done);
        faults.find(here).map(|fault| fault.2)
    }

    fn is_due(&self, stop: &Stop) -> bool {
        match self.data {
            ScriptedData::Endless { .. } => stop.is_due_at(self.clock_ns),
            ScriptedData::Files(_) => stop.is_due(Instant::now()),
        }
    }

    /// Performs an operation without a fault.
    fn perform(
        &mut self,
        index: u32,
        operation: &Operation,
        stop: &Stop,
    ) -> Result<Outcome, SessionError> {
        let latency = self.script.latency[operation.kind.index()];
        if let Some(trace) = &self.script.trace {
            trace.lock().entry(self.seat.session).or_default().push(*operation);
        }
        let outcome = match self.data {
            ScriptedData::Endless { .. } => {
                let latency_ns = latency.as_nanos() as u64;
                self.clock_ns += latency_ns;
                let rows = u64::from(operation.rows);
                let end_ns = self.clock_ns;
                Outcome {
                    operation: index,
                    latency_ns: Some(latency_ns),
                    busy_ns: latency_ns,
                    end_ns,
                    rows,
                    error: None,
                }
            }
            ScriptedData::Files(_) => {
                let begin = Instant::now();
                let rows = self.visit(operation, stop).map_err(|error| SessionError {
                    code: "io".to_owned(),
                    message: error.to_string(),
                })?;
                let Some(rows) = rows else {
                    let times = (begin, Instant::now());
                    return Ok(Outcome::timed(index, times, stop, 0, Some(CUT.into())));
                };
                std::thread::sleep(latency.saturating_sub(begin.elapsed()));
                Outcome::timed(index, (begin, Instant::now()), stop, rows, None)
            }
        };
        self.unflushed.reads += outcome.rows;
        self.unflushed.read_ns = outcome.busy_ns / outcome.rows.max(1);
        if operation.kind == Kind::Update && outcome.error.is_none() {
            self.unflushed.writes += outcome.rows;
            self.unflushed.commits += 1;
        }
        Ok(outcome)
    }

    /// Reads or updates the rows of an operation in the schema's file; `None` if it was cut while it
    /// waited for another writer.
    fn visit(&mut self, operation: &Operation, stop: &Stop) -> io::Result<Option<u64>> {
        let ScriptedData::Files(folder) = &self.data else { return Ok(Some(0)) };
        let file = match self.files.entry(operation.schema) {
            Entry::Occupied(open) => open.into_mut(),
            Entry::Vacant(vacant) => {
                let opened = data::open(folder, operation.schema);
                vacant.insert(opened.map_err(io::Error::other)?)
            }
        };
        match operation.kind {
            Kind::Select => file.select(operation.first, operation.rows).map(Some),
            Kind::Scan => file.scan().map(Some),
            Kind::Update => {
                let _alone = loop {
                    if let Some(lock) = file.lock()? {
                        break lock;
                    }
                    if is_cut(&self.cancelled, stop) {
                        return Ok(None);
                    }
                    std::thread::sleep(POLL);
                };
                let is_synced = match self.script.lie {
                    Some(Lie::CommitsAreNeverSynced) => false,
                    Some(Lie::ABatchIsSyncedOnce) => !std::mem::replace(&mut self.is_synced, true),
                    _ => true,
                };
                let Operation { first, rows, stamp, .. } = *operation;
                file.update(first, rows, stamp, is_synced).map(Some)
            }
        }
    }

    fn hang(&self, stop: &Stop) {
        while !is_cut(&self.cancelled, stop) {
            std::thread::sleep(POLL);
        }
    }
}

const POLL: Duration = Duration::from_millis(1);

fn is_cut(cancelled: &AtomicBool, stop: &Stop) -> bool {
    cancelled.load(Ordering::Relaxed) || stop.is_cutting()
}

impl Session for ScriptedSession {
    fn execute(&mut self, batch: Batch<'_>) -> Result<(), SessionError> {
        let Batch { operations, stop, done, .. } = batch;
        self.is_synced = false;
        for (operation, index) in operations.iter().zip(0..) {
            if self.is_due(stop) {
                break;
            }
            self.done += 1;
            let code = match self.fault() {
                None => {
                    let outcome = self.perform(index, operation, stop)?;
                    done.ended.push(outcome);
                    continue;
                }
                Some(Fault::Busy) => "busy",
                Some(Fault::Hang) => {
                    self.hang(stop);
                    CUT
                }
                #[expect(clippy::panic, reason = "a test asks for it")]
                Some(Fault::Panic) => panic!("the script says so"),
                Some(Fault::Die) => {
                    let message = "the script killed this session".to_owned();
                    return Err(SessionError { code: "dead".to_owned(), message });
                }
            };
            done.ended.push(Outcome {
                operation: index,
                latency_ns: None,
                busy_ns: 0,
                end_ns: self.clock_ns,
                rows: 0,
                error: Some(code.into()),
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
            self.totals.read_latencies.lock().record(work.read_ns);
        }
        Ok(())
    }

    fn canceller(&self) -> Box<dyn Cancel> {
        Box::new(Canceller(Arc::clone(&self.cancelled)))
    }
}

impl Drop for ScriptedSession {
    fn drop(&mut self) {
        let _ = self.flush_statistics();
    }
}

struct Canceller(Arc<AtomicBool>);

impl Cancel for Canceller {
    fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
