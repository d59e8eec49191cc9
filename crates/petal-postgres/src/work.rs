//! State that every side of a session's loop works with: the connection, facts about the schemas,
//! and the meaning of an error for the session.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use parking_lot::Mutex;

use super::client::{CANCELLED, Client, Error};
use super::connect::Endpoint;
use super::connect::{hint, hint_of, words};
use super::locks::LOCK_TIMEOUT;
use super::schema;
use petal_engine::server::answer::bounded;
use petal_engine::server::batch_loop::NotedError;
use petal_engine::server::failure::{
    CONNECTION, Failure, NO_ANSWER, StatementError, StatementErrorKind,
};
use petal_engine::server::identity::KnownServer;
use petal_engine::server::meta_table::SchemaMeta;
use petal_engine::server::per_schema::{KnownSchemas, SchemaWork};
use petal_engine::server::session::SessionControl;
use petal_engine::server::wait_sampler::WaitSampler;
use petal_engine::{INTERRUPTED, Result, SessionError};
use petal_settings::{LoopSide, RedoStress};

/// Serialization failure, deadlock, lock timeout: a session goes on after these.
pub const TRANSIENT: &[&str] = &["40001", "40P01", LOCK_TIMEOUT];
/// State that the engine and its sessions share.
pub struct Shared {
    pub url: String,
    pub loop_side: LoopSide,
    pub redo_stress: RedoStress,
    pub prefetch: u32,
    /// Held by the session that looks for a schema's routine, or makes it.
    pub routines: Mutex<()>,
    pub waits: WaitSampler<Endpoint>,
    /// The server of sessions that reconnect.
    pub known: KnownServer,
    /// Some session reports to the server's statistics when it likes: at a server of 14 and before, or
    /// because the role may not flush.
    pub reports_late: AtomicBool,
}

/// State that every side of the loop works with.
pub struct Work {
    pub shared: Arc<Shared>,
    pub client: Client,
    pub schemas: KnownSchemas,
    pub control: Arc<SessionControl>,
}

impl SchemaWork for Work {
    fn schemas(&mut self) -> &mut KnownSchemas {
        &mut self.schemas
    }

    fn server(&self) -> &str {
        &self.client.server
    }

    fn read_meta(&mut self, number: u32) -> Result<SchemaMeta> {
        schema::read_meta(&mut self.client, number)
    }
}

impl Work {
    /// The meaning of a failed statement.
    pub fn failure(&self, error: &Error) -> Failure {
        let SessionError { code, message } = self.loss(error);
        self.control.failure(StatementError { kind: kind_of(&code), code, message })
    }

    /// The meaning of a failure that the routine noted.
    pub fn noted(&self, noted: &NotedError<'_>) -> Failure {
        let message = bounded(noted.message);
        let message = format!("{}: {message}; {}", self.client.server, hint_of(noted.code));
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
    pub fn is_cut(&self, error: &Error) -> bool {
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
