//! A session: its connections, statements and failures.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use rusqlite::{Connection, ErrorCode, InterruptHandle};

use super::Shared;
use super::connection::{Access, AtFile, code_name, hint, in_words, open, set_cache_pages};
use super::io::{ConnectionRecorder, Count, Event, IoContext, IoSource};
use super::layout;
use super::meta::FileMeta;
use super::vfs::take_cache_counts;
use super::writer_queue::{QueuedWriter, WriterQueue};
use petal_engine::server::batch_loop::keys;
use petal_engine::server::failure::Failure;
use petal_engine::server::row_layout::UpdateText;
use petal_engine::server::statement_loop;
use petal_engine::{Batch, CUT, Cancel, EngineError, Result, Session, SessionError, Stop};
use petal_workload::op::{Kind, Operation};
use petal_workload::row::changed_columns;

/// The code of an operation that did not get the writer lock.
const BUSY: &str = "busy";

/// A session on its home schema, and on others as operations ask for them.
pub struct SqliteSession {
    shared: Arc<Shared>,
    access: Access,
    attached: Vec<Attached>,
    cancelling: Arc<Cancelling>,
    update: String,
    text: UpdateText,
}

/// A connection to one schema.
struct Attached {
    schema: u32,
    path: PathBuf,
    meta: FileMeta,
    connection: Connection,
    recorder: Arc<ConnectionRecorder>,
    context: IoContext,
    writers: Arc<WriterQueue>,
    waiter: Arc<QueuedWriter>,
}

impl SqliteSession {
    pub fn connect(shared: &Arc<Shared>, home: u32, access: Access) -> Result<Self> {
        let mut session = Self {
            shared: Arc::clone(shared),
            access,
            attached: Vec::with_capacity(1),
            cancelling: Arc::default(),
            update: layout::update(shared.redo_stress),
            text: UpdateText::default(),
        };
        session.attach(home)?;
        Ok(session)
    }

    /// Opens a schema, with everything prepared: no operation pays for it.
    fn attach(&mut self, schema: u32) -> Result<usize> {
        let cancelled = &self.cancelling.requested;
        let attached = Attached::open(&self.shared, schema, self.access, cancelled)?;

        for sql in [layout::SELECT, layout::SCAN, BEGIN, COMMIT, ROLLBACK, self.update.as_str()] {
            attached.connection.prepare_cached(sql).at(&attached.path, "preparing statements")?;
        }
        self.cancelling.handles.lock().push(attached.connection.get_interrupt_handle());
        self.attached.push(attached);
        Ok(self.attached.len() - 1)
    }

    /// The connection to a schema; one to another than the home is opened when first needed.
    fn position(&mut self, schema: u32, stop: &Stop) -> Result<usize, Failure> {
        if let Some(position) = self.attached.iter().position(|other| other.schema == schema) {
            return Ok(position);
        }
        let position = self.attach(schema)?;
        self.attached[position].waiter.set_stop(stop);
        Ok(position)
    }

    fn run(&mut self, operation: &Operation, stop: &Stop) -> Result<u64, Failure> {
        let position = self.position(operation.schema, stop)?;
        let attached = &self.attached[position];
        let (first, last) = keys(operation);
        let result = match operation.kind {
            Kind::Select => attached.count(layout::SELECT, &[first, last]),
            Kind::Scan => attached.count(layout::SCAN, &[]),
            Kind::Update => {
                let bytes = layout::column_bytes(attached.meta.about.block_bytes);
                let columns = changed_columns(self.shared.redo_stress);
                let text =
                    self.text.make(attached.meta.about.filler, operation.stamp, bytes, columns);
                attached.update(&self.update, [first, last], text, bytes)
            }
        };
        let rows = result.map_err(|error| self.failure(attached, &error, stop))?;
        if operation.kind == Kind::Update {
            attached.ask_for_checkpoint(&self.shared);
        }
        Ok(rows)
    }

    fn failure(&self, attached: &Attached, error: &rusqlite::Error, stop: &Stop) -> Failure {
        // Before anything else is called, which might fail in its turn.
        let words = in_words(error);
        attached.roll_back();
        let is_cut = self.cancelling.requested.load(Ordering::Relaxed) || stop.is_cutting();
        match error.sqlite_error_code() {
            Some(
                ErrorCode::DatabaseBusy
                | ErrorCode::DatabaseLocked
                | ErrorCode::FileLockingProtocolFailed,
            ) => Failure::Counted(if is_cut { CUT } else { BUSY }.into()),
            Some(ErrorCode::OperationInterrupted) => Failure::Counted(CUT.into()),
            _ => Failure::Fatal(SessionError {
                code: code_name(error).into(),
                message: format!("{}: {words}; {}", attached.path.display(), hint(error)),
            }),
        }
    }
}

const BEGIN: &str = "BEGIN IMMEDIATE";
const COMMIT: &str = "COMMIT";
const ROLLBACK: &str = "ROLLBACK";

impl Attached {
    fn open(
        shared: &Arc<Shared>,
        schema: u32,
        access: Access,
        cancelled: &Arc<AtomicBool>,
    ) -> Result<Self> {
        let path = shared.folder.loaded_file(schema)?;
        let (recorder, context) = shared.recorded(IoSource::Session);
        let mut connection = open(&path, access, &context)?;
        let writers = shared.writer_queue(schema);
        let waiter = Arc::new(QueuedWriter::new(Arc::clone(&writers), Arc::clone(cancelled)));
        let meta = context.during(|| {
            let handler = Arc::clone(&waiter);
            connection
                .busy_handler(Some(move |_| handler.busy()))
                .and_then(|()| {
                    let synchronous = shared.options.synchronous.name();
                    connection.pragma_update(None, "synchronous", synchronous)
                })
                .at(&path, "preparing a session")?;
            let meta = FileMeta::read(&connection, &path)?;
            set_cache_pages(&connection, shared.cache_pages(&meta))
                .at(&path, "sizing the cache")?;
            Ok::<_, EngineError>(meta)
        })?;
        // The cost of opening belongs to no operation.
        take_cache_counts(&connection);
        Ok(Self { schema, path, meta, connection, recorder, context, writers, waiter })
    }

    fn count(&self, sql: &str, keys: &[i64]) -> rusqlite::Result<u64> {
        let mut statement = self.connection.prepare_cached(sql)?;
        for (index, key) in keys.iter().enumerate() {
            statement.raw_bind_parameter(index + 1, key)?;
        }
        let mut rows = statement.raw_query();
        let count = match rows.next()? {
            Some(row) => row.get::<_, i64>(0)?,
            None => 0,
        };
        // To the end, or the statement would keep its read lock.
        while rows.next()?.is_some() {}
        Ok(count.cast_unsigned())
    }

    /// Executes an UPDATE and its commit. `text` holds the new columns, `bytes` each.
    fn update(&self, sql: &str, keys: [i64; 2], text: &str, bytes: usize) -> rusqlite::Result<u64> {
        let locked = self.waiter.let_others_pass().and_then(|()| self.step(BEGIN));
        if let Some(wait) = self.waiter.take_wait() {
            self.recorder.record(Event::WriterLock, wait.as_nanos() as u64, 0);
        }
        locked?;
        let mut statement = self.connection.prepare_cached(sql)?;
        statement.raw_bind_parameter(1, keys[0])?;
        statement.raw_bind_parameter(2, keys[1])?;
        for (at, parameter) in (0..text.len()).step_by(bytes).zip(3..) {
            statement.raw_bind_parameter(parameter, text.get(at..at + bytes))?;
        }
        let rows = statement.raw_execute()?;
        self.step(COMMIT)?;
        self.recorder.count(Count::Commits, 1);
        self.writers.ended();
        Ok(rows as u64)
    }

    fn step(&self, sql: &str) -> rusqlite::Result<()> {
        self.connection.prepare_cached(sql)?.raw_execute().map(|_| ())
    }

    /// Leaves no transaction open, whatever failed.
    fn roll_back(&self) {
        if !self.connection.is_autocommit() {
            // SQLite has rolled back by itself where this fails.
            let _ = self.step(ROLLBACK);
            self.writers.ended();
        }
    }

    fn ask_for_checkpoint(&self, shared: &Arc<Shared>) {
        let is_due = self.recorder.wal_end_bytes() >= shared.options.checkpoint_bytes;
        if is_due && !self.writers.checkpoint_pending.swap(true, Ordering::AcqRel) {
            shared.checkpointers.ask(shared, self.schema);
        }
    }

    fn flush(&self) {
        let cache = take_cache_counts(&self.connection);
        for (count, more) in [
            (Count::CacheHit, cache.hits),
            (Count::CacheMiss, cache.misses),
            (Count::CacheWrite, cache.writes),
            (Count::CacheSpill, cache.spills),
        ] {
            self.recorder.count(count, more);
        }
        self.recorder.fold();
    }
}

impl Session for SqliteSession {
    fn execute(&mut self, batch: Batch<'_>) -> Result<(), SessionError> {
        let stop = batch.stop;
        self.cancelling.requested.store(false, Ordering::Relaxed);
        self.attached.iter().for_each(|attached| attached.waiter.set_stop(stop));
        // Files that SQLite opens on the way (sorter runs) are counted like the home schema's.
        let context = self.attached[0].context.clone();
        context.during(|| statement_loop::run(batch, &mut |operation| self.run(operation, stop)))
    }

    fn flush_statistics(&mut self) -> Result<(), SessionError> {
        self.attached.iter().for_each(Attached::flush);
        Ok(())
    }

    fn canceller(&self) -> Box<dyn Cancel> {
        Box::new(Canceller(Arc::clone(&self.cancelling)))
    }
}

impl Drop for SqliteSession {
    fn drop(&mut self) {
        self.attached.iter().for_each(Attached::flush);
    }
}

/// State that a canceller and its session share.
#[derive(Default)]
struct Cancelling {
    requested: Arc<AtomicBool>,
    handles: Mutex<Vec<InterruptHandle>>,
}

struct Canceller(Arc<Cancelling>);

impl Cancel for Canceller {
    fn cancel(&self) {
        self.0.requested.store(true, Ordering::Relaxed);
        self.0.handles.lock().iter().for_each(InterruptHandle::interrupt);
    }
}
