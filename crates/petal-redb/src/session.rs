//! A session: its databases, operations and failures.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use redb::{ReadableDatabase as _, ReadableTable as _};

use super::Shared;
use super::database::{Answer, OpenDatabase, code_name};
use super::io::{Count, recorded};
use super::layout::{self, MAIN, SCAN};
use petal_engine::server::failure::Failure;
use petal_engine::server::row_layout::UpdateText;
use petal_engine::server::statement_loop;
use petal_engine::{Batch, CUT, Cancel, Result, Session, SessionError, Stop};
use petal_model::stats::event_stats::EventRecorder;
use petal_model::workload::op::{Kind, Operation};
use petal_model::workload::row::changed_columns;

/// A session on its home schema, and on others as operations ask for them.
pub struct RedbSession {
    shared: Arc<Shared>,
    recorder: Arc<EventRecorder>,
    databases: Vec<Arc<OpenDatabase>>,
    cancelled: Arc<AtomicBool>,
    text: UpdateText,
    row: Vec<u8>,
}

/// Why an operation was not done.
enum NotDone {
    Cut,
    Failed(redb::Error),
}

impl<E: Into<redb::Error>> From<E> for NotDone {
    fn from(error: E) -> Self {
        Self::Failed(error.into())
    }
}

impl RedbSession {
    pub fn connect(shared: &Arc<Shared>, home: u32) -> Result<Self> {
        let mut session = Self {
            shared: Arc::clone(shared),
            recorder: shared.statistics.recorder(),
            databases: Vec::with_capacity(1),
            cancelled: Arc::default(),
            text: UpdateText::default(),
            row: Vec::new(),
        };
        session.database(home)?;
        Ok(session)
    }

    /// The database of a schema; another than the home's is opened when first needed.
    fn database(&mut self, schema: u32) -> Result<Arc<OpenDatabase>> {
        let open = self.databases.iter().find(|open| open.meta.about.schema == schema);
        if let Some(open) = open {
            return Ok(Arc::clone(open));
        }
        let open = self.shared.database(schema)?;
        self.databases.push(Arc::clone(&open));
        Ok(open)
    }

    fn run(&mut self, operation: &Operation, stop: &Stop) -> Result<u64, Failure> {
        let open = self.database(operation.schema)?;
        let done = match operation.kind {
            Kind::Select => self.select(&open, operation, stop),
            Kind::Scan => self.scan(&open, stop),
            Kind::Update => self.update(&open, operation, stop),
        };
        done.map_err(|not_done| match not_done {
            NotDone::Cut => Failure::Counted(CUT.into()),
            NotDone::Failed(error) => Failure::Fatal(SessionError {
                code: code_name(&error),
                message: format!("{}: {error}", open.path.display()),
            }),
        })
    }

    fn is_cut(&self, stop: &Stop) -> bool {
        self.cancelled.load(Ordering::Relaxed) || stop.is_cutting()
    }

    fn go_on(&self, stop: &Stop) -> Result<(), NotDone> {
        if self.is_cut(stop) { Err(NotDone::Cut) } else { Ok(()) }
    }

    /// Gets each row by the number of its block, in one snapshot.
    fn select(
        &self,
        open: &OpenDatabase,
        operation: &Operation,
        stop: &Stop,
    ) -> Result<u64, NotDone> {
        let blocks = open.database()?.begin_read()?.open_table(MAIN)?;
        let mut rows = 0;
        for key in operation.first..=operation.last() {
            self.go_on(stop)?;
            let row = blocks.get(open.order.apply(key - 1))?;
            let found = row.and_then(|row| layout::key_of(row.value()));
            rows += u64::from(found == Some(key));
        }
        Ok(rows)
    }

    fn scan(&self, open: &OpenDatabase, stop: &Stop) -> Result<u64, NotDone> {
        let blocks = open.database()?.begin_read()?.open_table(SCAN)?;
        let mut rows = 0;
        for row in blocks.iter()? {
            self.go_on(stop)?;
            row?;
            rows += 1;
        }
        Ok(rows)
    }

    /// Changes each row and commits. A transaction that is dropped before leaves nothing.
    fn update(
        &mut self,
        open: &OpenDatabase,
        operation: &Operation,
        stop: &Stop,
    ) -> Result<u64, NotDone> {
        let columns = changed_columns(self.shared.redo_stress);
        let width = open.meta.column_bytes();
        let changed = layout::columns(columns, width);
        let Some(_writer) = open.writer(|| self.is_cut(stop)) else { return Err(NotDone::Cut) };
        let change = open.database()?.begin_write()?;
        let mut blocks = change.open_table(MAIN)?;
        let mut rows = 0;
        for key in operation.first..=operation.last() {
            self.go_on(stop)?;
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

    fn flush(&self) {
        self.databases.iter().for_each(|open| open.count_cache());
        self.recorder.fold();
    }
}

impl Session for RedbSession {
    fn execute(&mut self, batch: Batch<'_>) -> Result<(), SessionError> {
        let stop = batch.stop;
        self.cancelled.store(false, Ordering::Relaxed);
        let recorder = Arc::clone(&self.recorder);
        recorded(Some(&recorder), || {
            statement_loop::run(batch, &mut |operation| self.run(operation, stop))
        })
    }

    fn flush_statistics(&mut self) -> Result<(), SessionError> {
        self.flush();
        Ok(())
    }

    fn canceller(&self) -> Box<dyn Cancel> {
        Box::new(Canceller(Arc::clone(&self.cancelled)))
    }
}

impl Drop for RedbSession {
    fn drop(&mut self) {
        self.flush();
    }
}

struct Canceller(Arc<AtomicBool>);

impl Cancel for Canceller {
    fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The rows of some keys, as [`layout`] lays them out.
pub fn read_rows(
    open: &OpenDatabase,
    keys: std::ops::RangeInclusive<u64>,
    found: &mut dyn FnMut(&[u8]),
) -> Answer<()> {
    let blocks = open.database()?.begin_read()?.open_table(MAIN)?;
    for key in keys {
        if let Some(row) = blocks.get(open.order.apply(key - 1))? {
            found(row.value());
        }
    }
    Ok(())
}
