//! The work of a session, in RocksDB's calls.

use std::sync::Arc;
use std::time::Instant;

use super::Shared;
use super::database::{OpenDatabase, code_name};
use super::io::{Count, Event, record_reads};
use super::layout::column_bytes;
use super::library::{BlockReads, ColumnFamily, Snapshot, thread_reads};
use petal_engine::Result;
use petal_engine::keyed::rows::{columns as keyed_columns, key_of};
use petal_engine::keyed::session::{Cut, KeyedWork, NotDone};
use petal_engine::server::row_layout::UpdateText;
use petal_model::stats::event_stats::EventRecorder;
use petal_model::workload::op::Operation;
use petal_model::workload::row::changed_columns;

/// The work of one session.
pub struct RocksdbWork {
    shared: Arc<Shared>,
    recorder: Arc<EventRecorder>,
    text: UpdateText,
    row: Vec<u8>,
    /// Reads of the session's thread that are recorded already.
    counted: BlockReads,
}

/// Why an operation was not done.
pub enum RocksdbNotDone {
    Cut,
    Failed(String),
}

impl From<String> for RocksdbNotDone {
    fn from(why: String) -> Self {
        Self::Failed(why)
    }
}

impl From<petal_engine::EngineError> for RocksdbNotDone {
    fn from(error: petal_engine::EngineError) -> Self {
        Self::Failed(error.to_string())
    }
}

impl From<RocksdbNotDone> for NotDone {
    fn from(not_done: RocksdbNotDone) -> Self {
        match not_done {
            RocksdbNotDone::Cut => Self::Cut,
            RocksdbNotDone::Failed(why) => Self::failed(code_name(&why), why),
        }
    }
}

impl RocksdbWork {
    pub fn new(shared: &Arc<Shared>) -> Self {
        Self {
            shared: Arc::clone(shared),
            recorder: shared.statistics.recorder(),
            text: UpdateText::default(),
            row: Vec::new(),
            counted: BlockReads::default(),
        }
    }

    /// Records the reads of this thread since the last time.
    fn record_reads(&mut self) {
        let now = thread_reads();
        record_reads(&self.recorder, &self.counted, &now);
        self.shared.statistics.count(Count::CacheHits, now.cache_hits - self.counted.cache_hits);
        self.counted = now;
    }

    /// Copies the row of a key; false without one.
    fn get(
        &mut self,
        open: &OpenDatabase,
        snapshot: &Snapshot<'_>,
        key: u64,
    ) -> Result<bool, String> {
        let row = &mut self.row;
        row.clear();
        let found = snapshot
            .get(ColumnFamily::Main, open.order.apply(key - 1), |it| row.extend_from_slice(it));
        self.record_reads();
        found
    }
}

impl KeyedWork for RocksdbWork {
    type Database = OpenDatabase;
    type NotDone = RocksdbNotDone;

    fn open(&self, schema: u32) -> Result<Arc<OpenDatabase>> {
        self.shared.database(schema)
    }

    fn select(
        &mut self,
        open: &OpenDatabase,
        operation: &Operation,
        cut: &Cut<'_>,
    ) -> Result<u64, RocksdbNotDone> {
        let snapshot = open.database()?.snapshot();
        let mut rows = 0;
        for key in operation.first..=operation.last() {
            cut.go_on(RocksdbNotDone::Cut)?;
            self.get(open, &snapshot, key)?;
            rows += u64::from(key_of(&self.row) == Some(key));
        }
        Ok(rows)
    }

    fn scan(&mut self, open: &OpenDatabase, cut: &Cut<'_>) -> Result<u64, RocksdbNotDone> {
        let mut rows = 0;
        let scanned = open.database()?.snapshot().each(ColumnFamily::Scan, |_| {
            let goes_on = !cut.is_due();
            rows += u64::from(goes_on);
            goes_on
        });
        self.record_reads();
        scanned?;
        cut.go_on(RocksdbNotDone::Cut)?;
        Ok(rows)
    }

    /// A batch of changes that is dropped before its commit leaves nothing.
    fn update(
        &mut self,
        open: &OpenDatabase,
        operation: &Operation,
        cut: &Cut<'_>,
    ) -> Result<u64, RocksdbNotDone> {
        let columns = changed_columns(self.shared.redo_stress);
        let width = column_bytes(open.meta.about.block_bytes);
        let changed = keyed_columns(columns, width);
        let database = open.database()?;
        let snapshot = database.snapshot();
        let mut changes = database.changes();
        let mut rows = 0;
        for key in operation.first..=operation.last() {
            cut.go_on(RocksdbNotDone::Cut)?;
            self.get(open, &snapshot, key)?;
            let Some(column) = self.row.get_mut(changed.clone()) else { continue };
            let text = self.text.make(open.meta.about.filler, operation.stamp, width, columns);
            column.copy_from_slice(text.as_bytes());
            changes.put(ColumnFamily::Main, open.order.apply(key - 1), &self.row);
            rows += 1;
        }
        let begin = Instant::now();
        changes.commit()?;
        let commit_ns = begin.elapsed().as_nanos() as u64;
        self.recorder.record(Event::Commit as usize, commit_ns, 0);
        self.shared.statistics.count(Count::Commits, 1);
        Ok(rows)
    }

    fn begin(&mut self) {
        self.counted = thread_reads();
    }

    fn flush(&mut self) {
        self.recorder.fold();
    }
}
