//! The work of a session, in LMDB's calls.

use std::sync::Arc;
use std::time::Instant;

use heed::{RoTxn, RwTxn};

use super::Shared;
use super::database::{OpenDatabase, code_name};
use super::io::{Count, Event, ThreadWrites};
use super::layout::{PAGE_BYTES, column_bytes};
use super::map;
use petal_engine::Result;
use petal_engine::keyed::rows::{columns as keyed_columns, key_of};
use petal_engine::keyed::session::{Cut, KeyedWork, NotDone};
use petal_engine::server::row_layout::UpdateText;
use petal_record::event_stats::EventRecorder;
use petal_workload::op::Operation;
use petal_workload::row::changed_columns;

/// The work of one session.
pub struct LmdbWork {
    shared: Arc<Shared>,
    recorder: Arc<EventRecorder>,
    text: UpdateText,
    row: Vec<u8>,
    /// Page faults of the session's thread that are counted already.
    faults: u64,
    /// Writes of the session's thread, once it has one.
    writes: Option<ThreadWrites>,
}

/// Why an operation was not done.
pub enum LmdbNotDone {
    Cut,
    Failed(heed::Error),
}

impl<E: Into<heed::Error>> From<E> for LmdbNotDone {
    fn from(error: E) -> Self {
        Self::Failed(error.into())
    }
}

impl From<LmdbNotDone> for NotDone {
    fn from(not_done: LmdbNotDone) -> Self {
        match not_done {
            LmdbNotDone::Cut => Self::Cut,
            LmdbNotDone::Failed(error) => Self::failed(code_name(&error), error),
        }
    }
}

fn elapsed_ns(begin: Instant) -> u64 {
    begin.elapsed().as_nanos() as u64
}

impl LmdbWork {
    pub fn new(shared: &Arc<Shared>) -> Self {
        Self {
            shared: Arc::clone(shared),
            recorder: shared.statistics.recorder(),
            text: UpdateText::default(),
            row: Vec::new(),
            faults: 0,
            writes: None,
        }
    }

    fn record(&self, event: Event, latency_ns: u64, bytes: u64) {
        self.recorder.record(event as usize, latency_ns, bytes);
    }

    /// Page faults of this thread since the last time.
    fn new_faults(&mut self) -> u64 {
        let faults = map::thread_faults();
        faults - std::mem::replace(&mut self.faults, faults)
    }

    /// Finds the row of a key and touches its page. A page that was not in memory before is a physical
    /// read, and the touch its time.
    fn visit<'a>(
        &mut self,
        open: &OpenDatabase,
        snapshot: &'a RoTxn<'_>,
        key: u64,
    ) -> Result<Option<&'a [u8]>, LmdbNotDone> {
        let begin = Instant::now();
        let Some(row) = open.main.get(snapshot, &open.order.apply(key - 1))? else {
            return Ok(None);
        };
        let found_ns = elapsed_ns(begin);
        let is_resident = map::is_resident(row);
        let begin = Instant::now();
        std::hint::black_box(row.first().copied());
        let touched_ns = elapsed_ns(begin);
        if !is_resident {
            self.record(Event::RowFault, touched_ns, PAGE_BYTES);
        }
        let of_tree = self.new_faults().saturating_sub(u64::from(!is_resident));
        for _ in 0..of_tree {
            self.record(Event::TreeFault, found_ns / of_tree, PAGE_BYTES);
        }
        self.shared.statistics.count(Count::RowVisits, 1);
        Ok(Some(row))
    }

    /// Reads each row as it is committed, and changes it.
    fn change_rows(
        &mut self,
        open: &OpenDatabase,
        change: &mut RwTxn<'_>,
        operation: &Operation,
        cut: &Cut<'_>,
    ) -> Result<u64, LmdbNotDone> {
        let columns = changed_columns(self.shared.redo_stress);
        let width = column_bytes(open.meta.about.block_bytes);
        let changed = keyed_columns(columns, width);
        let snapshot = open.environment.read_txn()?;
        let mut rows = 0;
        for key in operation.first..=operation.last() {
            cut.go_on(LmdbNotDone::Cut)?;
            let Some(old) = self.visit(open, &snapshot, key)? else { continue };
            self.row.clear();
            self.row.extend_from_slice(old);
            let Some(column) = self.row.get_mut(changed.clone()) else { continue };
            let text = self.text.make(open.meta.about.filler, operation.stamp, width, columns);
            column.copy_from_slice(text.as_bytes());
            open.main.put(change, &open.order.apply(key - 1), &self.row)?;
            open.drop_page(old)?;
            rows += 1;
        }
        Ok(rows)
    }

    /// Takes rows out of the page cache that a commit left there.
    fn drop_new_rows(&self, open: &OpenDatabase, operation: &Operation) -> Result<(), LmdbNotDone> {
        if open.dropper.is_none() {
            return Ok(());
        }
        let snapshot = open.environment.read_txn()?;
        for key in operation.first..=operation.last() {
            if let Some(row) = open.main.get(&snapshot, &open.order.apply(key - 1))? {
                open.drop_page(row)?;
            }
        }
        Ok(())
    }

    /// Calls and bytes of this thread's writes so far; None if the kernel does not count them.
    fn writes(&mut self) -> Result<Option<[u64; 2]>, LmdbNotDone> {
        if !self.shared.statistics.sees_writes() {
            return Ok(None);
        }
        if self.writes.is_none() {
            self.writes = Some(ThreadWrites::open()?);
        }
        Ok(self.writes.as_ref().map(ThreadWrites::so_far).transpose()?)
    }
}

impl KeyedWork for LmdbWork {
    type Database = OpenDatabase;
    type NotDone = LmdbNotDone;

    fn open(&self, schema: u32) -> Result<Arc<OpenDatabase>> {
        self.shared.database(schema)
    }

    fn select(
        &mut self,
        open: &OpenDatabase,
        operation: &Operation,
        cut: &Cut<'_>,
    ) -> Result<u64, LmdbNotDone> {
        let snapshot = open.environment.read_txn()?;
        let mut rows = 0;
        for key in operation.first..=operation.last() {
            cut.go_on(LmdbNotDone::Cut)?;
            let Some(row) = self.visit(open, &snapshot, key)? else { continue };
            rows += u64::from(key_of(row) == Some(key));
            open.drop_page(row)?;
        }
        Ok(rows)
    }

    fn scan(&mut self, open: &OpenDatabase, cut: &Cut<'_>) -> Result<u64, LmdbNotDone> {
        let snapshot = open.environment.read_txn()?;
        let mut rows = 0;
        for row in open.scan.iter(&snapshot)? {
            cut.go_on(LmdbNotDone::Cut)?;
            let row = row?.1;
            let is_resident = map::is_resident(row);
            let begin = Instant::now();
            std::hint::black_box(row.first().copied());
            if !is_resident {
                self.record(Event::RowFault, elapsed_ns(begin), PAGE_BYTES);
            }
            open.drop_page(row)?;
            rows += 1;
        }
        self.new_faults();
        self.shared.statistics.count(Count::RowVisits, rows);
        Ok(rows)
    }

    /// A transaction that is dropped before its commit leaves nothing.
    fn update(
        &mut self,
        open: &OpenDatabase,
        operation: &Operation,
        cut: &Cut<'_>,
    ) -> Result<u64, LmdbNotDone> {
        let recorder = Arc::clone(&self.recorder);
        let waited = |ns| recorder.record(Event::WriterLock as usize, ns, 0);
        let Some(_writer) = open.writer(|| cut.is_due(), waited) else {
            return Err(LmdbNotDone::Cut);
        };
        let before = self.writes()?;
        let mut change = open.environment.write_txn()?;
        let rows = self.change_rows(open, &mut change, operation, cut)?;
        let begin = Instant::now();
        change.commit()?;
        self.record(Event::Commit, elapsed_ns(begin), 0);
        let faults = self.new_faults();
        let after = self.writes()?;
        let statistics = &self.shared.statistics;
        statistics.count(Count::WriterFaults, faults);
        statistics.count(Count::Commits, 1);
        if let (Some(before), Some(after)) = (before, after) {
            statistics.count(Count::WriteCalls, after[0] - before[0]);
            statistics.count(Count::WriteBytes, after[1] - before[1]);
        }
        self.drop_new_rows(open, operation)?;
        Ok(rows)
    }

    fn begin(&mut self) {
        self.faults = map::thread_faults();
    }

    fn flush(&mut self) {
        self.recorder.fold();
    }
}
