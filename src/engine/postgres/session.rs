//! One session: its connections, what it knows of the data, what an error means to it, and which
//! side its loop runs on. At a standby it has a second connection, to the primary, for UPDATEs.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio_postgres::Statement;

use super::client::{Client, Error};
use super::connect::{Endpoint, FLUSH_VERSION_MIN, Opened, hint, hint_of, server_version, words};
use super::session_client::{ClientLoop, SetLoop};
use super::session_server::ServerLoop;
use super::waits::Waits;
use super::{long_work, plan, schema};
use crate::engine::server::batch_loop::Noted;
use crate::engine::server::failure::{
    CONNECTION, Failure, NO_ANSWER, StatementError, StatementErrorKind,
};
use crate::engine::server::liveness::TimeoutPolicy;
use crate::engine::server::meta_table::SchemaMeta;
use crate::engine::server::per_schema::SchemaWork;
use crate::engine::server::row_layout::UpdateText;
use crate::engine::server::session::{Canceller, SessionControl};
use crate::engine::{Batch, Cancel, INTERRUPTED, Result, Session, SessionError};
use crate::settings::{LoopSide, RedoStress};
use crate::workload::op::{Kind, Operation};
use crate::workload::row::changed_columns;
use crate::workload::seat::Seat;

/// Serialization failure, deadlock, lock timeout: a session goes on after these.
pub const TRANSIENT: &[&str] = &["40001", "40P01", long_work::LOCK_TIMEOUT];
/// The SQLSTATE of a statement that was cancelled.
pub const CANCELLED: &str = "57014";

/// State that the engine and its sessions share.
pub struct Shared {
    pub url: String,
    pub loop_side: LoopSide,
    pub redo_stress: RedoStress,
    pub prefetch: u32,
    /// Schemas whose routine was seen to be this petal's.
    pub routines: Mutex<BTreeSet<u32>>,
    pub waits: Waits,
}

/// A session on its endpoint; at a standby, with a second connection to the primary for UPDATEs.
pub struct PostgresSession {
    home: Connected,
    primary: Option<Connected>,
}

/// One connection, ready for operations.
struct Connected {
    work: Work,
    side: Side,
    flush: Option<Statement>,
}

enum Side {
    Server(ServerLoop),
    Client(ClientLoop),
    Set(SetLoop),
}

/// State that every side of the loop works with.
pub struct Work {
    pub shared: Arc<Shared>,
    pub client: Client,
    /// The number of the session's own schema.
    pub home: u32,
    metas: BTreeMap<u32, SchemaMeta>,
    control: Arc<SessionControl>,
    /// The new text of an UPDATE.
    pub text: UpdateText,
}

impl PostgresSession {
    /// `primary` where the endpoint is a standby, and the session may have to write.
    pub fn connect(
        shared: &Arc<Shared>,
        endpoint: &Endpoint,
        primary: Option<&Endpoint>,
        seat: Seat,
    ) -> Result<Self> {
        let home = Connected::new(shared, endpoint, seat)?;
        let primary = primary.map(|primary| Connected::new(shared, primary, seat)).transpose()?;
        Ok(Self { home, primary })
    }
}

impl Connected {
    fn new(shared: &Arc<Shared>, endpoint: &Endpoint, seat: Seat) -> Result<Self> {
        let Opened { mut client, process, .. } =
            endpoint.open(&format!("petal session {}", seat.session))?;
        let doing = "preparing a session";
        let version = server_version(&mut client)?;
        plan::apply(&mut client, shared.prefetch)?;
        let flush = match version >= FLUSH_VERSION_MIN {
            true => Some(client.prepare_for(doing, "SELECT pg_stat_force_next_flush()")?),
            false => None,
        };
        let token = endpoint.cancel_token(&client);
        let control = SessionControl::new(client.abort_handle(), move || token.cancel());
        let mut work = Work {
            shared: Arc::clone(shared),
            client,
            home: seat.schema,
            metas: BTreeMap::new(),
            control,
            text: UpdateText::default(),
        };
        work.meta(seat.schema)?;
        let side = match shared.loop_side {
            LoopSide::Server => Side::Server(ServerLoop::new(&mut work)?),
            LoopSide::Client => Side::Client(ClientLoop::new(&mut work)?),
            LoopSide::Set => Side::Set(SetLoop::new(&mut work)?),
        };
        // In a run a lock is waited for as long as the role says.
        work.client.run(doing, "RESET lock_timeout")?;
        shared.waits.watch(endpoint, process)?;
        Ok(Self { work, side, flush })
    }

    fn execute(&mut self, batch: Batch<'_>) -> Result<(), SessionError> {
        self.work.control.begin_batch(batch.stop);
        self.work.client.set_policy(TimeoutPolicy::of_batch(batch.stop));
        match &mut self.side {
            Side::Server(side) => side.execute(&mut self.work, batch),
            Side::Client(side) => side.execute(&mut self.work, batch),
            Side::Set(side) => side.execute(&mut self.work, batch),
        }
    }

    fn flush(&mut self) -> Result<(), SessionError> {
        let Some(flush) = &self.flush else { return Ok(()) };
        let mut flushed = self.work.client.execute(flush, &[]);
        if flushed.as_ref().is_err_and(|error| self.work.is_cut(error)) {
            // The request to cancel was for the operation before, which has ended.
            flushed = self.work.client.execute(flush, &[]);
        }
        flushed.map(|_| ()).map_err(|error| self.work.loss(&error))
    }
}

impl Session for PostgresSession {
    fn execute(&mut self, batch: Batch<'_>) -> Result<(), SessionError> {
        let Some(primary) = &mut self.primary else {
            return self.home.execute(batch);
        };
        let Batch { operations, stop, done, .. } = batch;
        let mut from = 0;
        while let Some(rest) = operations.get(from..).filter(|rest| !rest.is_empty()) {
            let writes = rest[0].kind == Kind::Update;
            let length = rest.iter().take_while(|next| (next.kind == Kind::Update) == writes);
            let length = length.count();
            let before = done.ended.len();
            let side = if writes { &mut *primary } else { &mut self.home };
            let result = side.execute(Batch::new(&rest[..length], stop, done));
            let ended = done.ended.iter_mut().skip(before);
            ended.for_each(|outcome| outcome.operation += from as u32);
            result?;
            if done.ended.len() - before < length {
                break; // Only the stop can have ended it.
            }
            from += length;
        }
        Ok(())
    }

    fn flush_statistics(&mut self) -> Result<(), SessionError> {
        self.home.flush()?;
        self.primary.as_mut().map_or(Ok(()), Connected::flush)
    }

    fn canceller(&self) -> Box<dyn Cancel> {
        let connections = [Some(&self.home), self.primary.as_ref()].into_iter().flatten();
        let controls = connections.map(|connected| Arc::clone(&connected.work.control));
        Box::new(Canceller(controls.collect()))
    }
}

impl SchemaWork for Work {
    fn home(&self) -> u32 {
        self.home
    }

    fn check_loaded(&mut self, schema: u32) -> Result<()> {
        self.meta(schema).map(|_| ())
    }
}

impl Work {
    /// Facts about a schema, read when they are first needed.
    pub fn meta(&mut self, number: u32) -> Result<&SchemaMeta> {
        match self.metas.entry(number) {
            Entry::Occupied(known) => Ok(known.into_mut()),
            Entry::Vacant(place) => Ok(place.insert(schema::read_meta(&mut self.client, number)?)),
        }
    }

    pub fn changed_columns(&self) -> usize {
        changed_columns(self.shared.redo_stress)
    }

    /// The new text of an UPDATE's columns, `columns` of them.
    pub fn update_text(&mut self, operation: &Operation, columns: usize) -> Result<&str> {
        let meta = self.meta(operation.schema)?;
        let (filler, width) = (meta.filler, meta.column_bytes());
        Ok(self.text.make(filler, operation.stamp, width, columns))
    }

    /// The meaning of a failed statement.
    pub fn failure(&self, error: &Error) -> Failure {
        let SessionError { code, message } = self.loss(error);
        self.control.failure(StatementError { kind: kind_of(&code), code, message })
    }

    /// The meaning of a failure that the routine noted.
    pub fn noted(&self, noted: &Noted<'_>) -> Failure {
        let message = format!("{}: {}; {}", self.client.server, noted.message, hint_of(noted.code));
        let (kind, code) = (kind_of(noted.code), noted.code.to_owned());
        self.control.failure(StatementError { kind, code, message })
    }

    /// Why the session ends.
    pub fn loss(&self, error: &Error) -> SessionError {
        let code = match error.code() {
            Some(code) => code.code(),
            None if error.is_silence() => NO_ANSWER,
            None if matches!(error, Error::Interrupted) => INTERRUPTED,
            None => CONNECTION,
        };
        let message = format!("{}: {}; {}", self.client.server, words(error), hint(error));
        SessionError { code: code.to_owned(), message }
    }

    /// Whether petal itself asked to cancel this statement, or the one before it.
    fn is_cut(&self, error: &Error) -> bool {
        let is_cancelled = error.code().is_some_and(|code| code.code() == CANCELLED);
        is_cancelled && self.control.is_cancelled()
    }
}

fn kind_of(code: &str) -> StatementErrorKind {
    match code {
        CANCELLED => StatementErrorKind::Cancelled,
        code if TRANSIENT.contains(&code) => StatementErrorKind::Transient,
        _ => StatementErrorKind::Other,
    }
}
