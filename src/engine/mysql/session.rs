//! One session: its connection, what it knows of the data, what an error means to it, and which side
//! its loop runs on.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use parking_lot::Mutex;

use super::client::{Client, Error};
use super::connect::Endpoint;
use super::errors::{engine_error, hint, hint_of, kind_of, words};
use super::schema;
use super::session_client::ClientLoop;
use super::session_server::ServerLoop;
use super::session_set::SetLoop;
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
use crate::workload::op::Operation;
use crate::workload::row::changed_columns;
use crate::workload::seat::Seat;

/// State that the engine and its sessions share.
pub struct Shared {
    pub url: String,
    pub loop_side: LoopSide,
    pub redo_stress: RedoStress,
    /// Servers and schemas whose routine was seen to be this petal's.
    pub routines: Mutex<BTreeSet<(String, u32)>>,
}

pub struct MysqlSession {
    work: Work,
    side: Side,
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
    pub server: String,
    /// The number of the session's own schema.
    pub home: u32,
    metas: BTreeMap<u32, SchemaMeta>,
    control: Arc<SessionControl>,
    /// The new text of an UPDATE.
    pub text: UpdateText,
}

/// Settings of a session. Without the locks of gaps, sessions of one schema lock the rows
/// that they change and no others.
pub const SESSION_SETTINGS: &str = "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED";

impl MysqlSession {
    pub fn connect(shared: &Arc<Shared>, endpoint: &Endpoint, seat: Seat) -> Result<Self> {
        let mut client = endpoint.connect()?;
        let server = endpoint.name.clone();
        // A run without a deadline of its own may leave it idle for long.
        for sql in [SESSION_SETTINGS, "SET SESSION wait_timeout = 31536000"] {
            client
                .run(sql)
                .map_err(|error| engine_error(&server, "preparing a session", &error))?;
        }
        let (id, killer) = (client.id(), endpoint.clone());
        let control = SessionControl::new(client.abort_handle(), move || killer.kill_query(id));
        let mut work = Work {
            shared: Arc::clone(shared),
            client,
            server,
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
        Ok(Self { work, side })
    }
}

impl Session for MysqlSession {
    fn execute(&mut self, batch: Batch<'_>) -> Result<(), SessionError> {
        self.work.control.begin_batch(batch.stop);
        self.work.client.set_policy(TimeoutPolicy::of_batch(batch.stop));
        match &mut self.side {
            Side::Server(side) => side.execute(&mut self.work, batch),
            Side::Client(side) => side.execute(&mut self.work, batch),
            Side::Set(side) => side.execute(&mut self.work, batch),
        }
    }

    fn canceller(&self) -> Box<dyn Cancel> {
        Box::new(Canceller(vec![Arc::clone(&self.work.control)]))
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
            Entry::Vacant(place) => {
                Ok(place.insert(schema::read_meta(&mut self.client, &self.server, number)?))
            }
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
        let kind = error.code().map_or(StatementErrorKind::Other, kind_of);
        let SessionError { code, message } = self.loss(error);
        self.control.failure(StatementError { kind, code, message })
    }

    /// The meaning of a failure that the routine noted.
    pub fn noted(&self, noted: &Noted<'_>) -> Failure {
        let number = noted.code.parse().unwrap_or_default();
        let message =
            format!("{}: {} ({}); {}", self.server, noted.message, noted.code, hint_of(number));
        let (kind, code) = (kind_of(number), noted.code.to_owned());
        self.control.failure(StatementError { kind, code, message })
    }

    /// Why the session ends.
    fn loss(&self, error: &Error) -> SessionError {
        let code = match (error.code(), error) {
            (Some(code), _) => code.to_string(),
            (None, Error::Silent(_)) => NO_ANSWER.to_owned(),
            (None, Error::Interrupted) => INTERRUPTED.to_owned(),
            (None, _) => CONNECTION.to_owned(),
        };
        let message = format!("{}: {}; {}", self.server, words(error), hint(error));
        SessionError { code, message }
    }
}
