//! A session on databases of keys and values: its open databases, its loop and its canceller.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::meta::KeyedMeta;
use crate::server::failure::Failure;
use crate::server::statement_loop;
use crate::{Batch, CUT, Cancel, Result, Session, SessionError, Stop};
use petal_workload::op::{Kind, Operation};

/// The open database of one schema.
pub trait KeyedDatabase: Send + Sync {
    fn meta(&self) -> &KeyedMeta;
    fn path(&self) -> &Path;

    /// Shows the rows of some keys to `found`.
    fn read_rows(&self, keys: RangeInclusive<u64>, found: &mut dyn FnMut(&[u8])) -> Result<()>;
}

/// The operations of a session, in the calls of one database.
pub trait KeyedWork: Send {
    type Database: KeyedDatabase;
    type NotDone: Into<NotDone>;

    /// Opens the database of a schema, or returns the open one.
    fn open(&self, schema: u32) -> Result<Arc<Self::Database>>;

    /// Gets each row by the number of its block, in one snapshot.
    fn select(
        &mut self,
        open: &Self::Database,
        operation: &Operation,
        cut: &Cut<'_>,
    ) -> Result<u64, Self::NotDone>;

    fn scan(&mut self, open: &Self::Database, cut: &Cut<'_>) -> Result<u64, Self::NotDone>;

    /// Changes each row and commits. If it is not done, it leaves nothing.
    fn update(
        &mut self,
        open: &Self::Database,
        operation: &Operation,
        cut: &Cut<'_>,
    ) -> Result<u64, Self::NotDone>;

    /// A batch begins on this thread.
    fn begin(&mut self) {}

    /// A batch has ended.
    fn end(&mut self) {}

    /// Makes the statistics current.
    fn flush(&mut self);
}

/// Why an operation was not done.
pub enum NotDone {
    Cut,
    /// The database's own code of the failure, and its text.
    Failed(String, String),
}

impl NotDone {
    pub fn failed(code: String, error: impl Display) -> Self {
        Self::Failed(code, error.to_string())
    }
}

/// Whether the operation is to end at once.
pub struct Cut<'a> {
    cancelled: &'a AtomicBool,
    stop: &'a Stop,
}

impl Cut<'_> {
    pub fn is_due(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed) || self.stop.is_cutting()
    }

    pub fn go_on<N>(&self, otherwise: N) -> Result<(), N> {
        if self.is_due() { Err(otherwise) } else { Ok(()) }
    }
}

/// A session on its home schema, and on others as operations ask for them.
pub struct KeyedSession<W: KeyedWork> {
    work: W,
    databases: Vec<Arc<W::Database>>,
    cancelled: Arc<AtomicBool>,
}

impl<W: KeyedWork> KeyedSession<W> {
    pub fn connect(work: W, home: u32) -> Result<Self> {
        let databases = vec![work.open(home)?];
        Ok(Self { work, databases, cancelled: Arc::default() })
    }

    fn database(&mut self, schema: u32) -> Result<Arc<W::Database>> {
        let open = self.databases.iter().find(|open| open.meta().about.schema == schema);
        if let Some(open) = open {
            return Ok(Arc::clone(open));
        }
        let open = self.work.open(schema)?;
        self.databases.push(Arc::clone(&open));
        Ok(open)
    }

    fn run(&mut self, operation: &Operation, stop: &Stop) -> Result<u64, Failure> {
        let open = self.database(operation.schema)?;
        let cut = Cut { cancelled: &self.cancelled, stop };
        let done = match operation.kind {
            Kind::Select => self.work.select(&open, operation, &cut),
            Kind::Scan => self.work.scan(&open, &cut),
            Kind::Update => self.work.update(&open, operation, &cut),
        };
        done.map_err(|not_done| match not_done.into() {
            NotDone::Cut => Failure::Counted(CUT.into()),
            NotDone::Failed(code, error) => {
                let message = format!("{}: {error}", open.path().display());
                Failure::Fatal(SessionError { code, message })
            }
        })
    }
}

impl<W: KeyedWork> Session for KeyedSession<W> {
    fn execute(&mut self, batch: Batch<'_>) -> Result<(), SessionError> {
        let stop = batch.stop;
        self.cancelled.store(false, Ordering::Relaxed);
        self.work.begin();
        let ended = statement_loop::run(batch, &mut |operation| self.run(operation, stop));
        self.work.end();
        ended
    }

    fn flush_statistics(&mut self) -> Result<(), SessionError> {
        self.work.flush();
        Ok(())
    }

    fn canceller(&self) -> Box<dyn Cancel> {
        Box::new(KeyedCanceller(Arc::clone(&self.cancelled)))
    }
}

impl<W: KeyedWork> Drop for KeyedSession<W> {
    fn drop(&mut self) {
        self.work.flush();
    }
}

struct KeyedCanceller(Arc<AtomicBool>);

impl Cancel for KeyedCanceller {
    fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
