//! The work of a session, in redb's calls.

use std::sync::Arc;

use redb::{ReadableDatabase as _, ReadableTable as _};

use super::Shared;
use super::database::{OpenDatabase, code_name};
use super::io::{Count, record_to};
use super::layout::{self, MAIN, SCAN};
use petal_engine::Result;
use petal_engine::keyed::rows::{columns as keyed_columns, key_of};
use petal_engine::keyed::session::{Cut, KeyedWork, NotDone};
use petal_engine::server::row_layout::UpdateText;
use petal_record::event_stats::EventRecorder;
use petal_workload::op::Operation;
use petal_workload::row::changed_columns;

/// The work of one session.
pub struct RedbWork {
    shared: Arc<Shared>,
    recorder: Arc<EventRecorder>,
    text: UpdateText,
    row: Vec<u8>,
}

/// Why an operation was not done.
pub enum RedbNotDone {
    Cut,
    Failed(redb::Error),
}

impl<E: Into<redb::Error>> From<E> for RedbNotDone {
    fn from(error: E) -> Self {
        Self::Failed(error.into())
    }
}

impl From<RedbNotDone> for NotDone {
    fn from(not_done: RedbNotDone) -> Self {
        match not_done {
            RedbNotDone::Cut => Self::Cut,
            RedbNotDone::Failed(error) => Self::failed(code_name(&error), error),
        }
    }
}

impl RedbWork {
    pub fn new(shared: &Arc<Shared>) -> Self {
        Self {
            shared: Arc::clone(shared),
            recorder: shared.statistics.recorder(),
            text: UpdateText::default(),
            row: Vec::new(),
        }
    }
}

impl KeyedWork for RedbWork {
    type Database = OpenDatabase;
    type NotDone = RedbNotDone;

    fn open(&self, schema: u32) -> Result<Arc<OpenDatabase>> {
        self.shared.database(schema)
    }

    fn select(
        &mut self,
        open: &OpenDatabase,
        operation: &Operation,
        cut: &Cut<'_>,
    ) -> Result<u64, RedbNotDone> {
        let blocks = open.database()?.begin_read()?.open_table(MAIN)?;
        let mut rows = 0;
        for key in operation.first..=operation.last() {
            cut.go_on(RedbNotDone::Cut)?;
            let row = blocks.get(open.order.apply(key - 1))?;
            let found = row.and_then(|row| key_of(row.value()));
            rows += u64::from(found == Some(key));
        }
        Ok(rows)
    }

    fn scan(&mut self, open: &OpenDatabase, cut: &Cut<'_>) -> Result<u64, RedbNotDone> {
        let blocks = open.database()?.begin_read()?.open_table(SCAN)?;
        let mut rows = 0;
        for row in blocks.iter()? {
            cut.go_on(RedbNotDone::Cut)?;
            row?;
            rows += 1;
        }
        Ok(rows)
    }

    /// A transaction that is dropped before its commit leaves nothing.
    fn update(
        &mut self,
        open: &OpenDatabase,
        operation: &Operation,
        cut: &Cut<'_>,
    ) -> Result<u64, RedbNotDone> {
        let columns = changed_columns(self.shared.redo_stress);
        let width = layout::column_bytes(open.meta.about.block_bytes);
        let changed = keyed_columns(columns, width);
        let Some(_writer) = open.writer(|| cut.is_due()) else { return Err(RedbNotDone::Cut) };
        let change = open.database()?.begin_write()?;
        let mut blocks = change.open_table(MAIN)?;
        let mut rows = 0;
        for key in operation.first..=operation.last() {
            cut.go_on(RedbNotDone::Cut)?;
            let block = open.order.apply(key - 1);
            self.row.clear();
            match blocks.get(block)? {
                Some(row) => self.row.extend_from_slice(row.value()),
                None => continue,
            }
            let Some(old) = self.row.get_mut(changed.clone()) else { continue };
            let text = self.text.make(open.meta.about.filler, operation.stamp, width, columns);
            old.copy_from_slice(text.as_bytes());
            blocks.insert(block, self.row.as_slice())?;
            rows += 1;
        }
        drop(blocks);
        change.commit()?;
        self.shared.statistics.count(Count::Commits, 1);
        Ok(rows)
    }

    fn begin(&mut self) {
        record_to(Some(&self.recorder));
    }

    fn end(&mut self) {
        record_to(None);
    }

    fn flush(&mut self) {
        self.shared.count_caches();
        self.recorder.fold();
    }
}
