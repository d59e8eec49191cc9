//! State that every side of a session's loop works with: the connection, facts about the schemas,
//! and the meaning of an error for the session.

use std::sync::Arc;

use mysql_async::Statement;
use parking_lot::Mutex;

use super::client::{Client, Error, LOCK_TIMEOUT};
use super::connect::Endpoint;
use super::errors::{COMMIT_REFUSED, hint, hint_of, kind_of, number_of, words};
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

/// The code of an UPDATE that lost against another node's. petal's own UPDATEs take their locks in one
/// order, so a deadlock on a node is such a conflict.
pub const CLUSTER_CONFLICT: &str = "cluster-conflict";

/// State that the engine and its sessions share.
pub struct Shared {
    pub url: String,
    pub loop_side: LoopSide,
    pub redo_stress: RedoStress,
    /// Some session may write.
    pub writes: bool,
    pub waits: WaitSampler<Endpoint>,
    /// Held by the session that looks for a schema's routine, or makes it.
    pub routines: Mutex<()>,
    /// The server of sessions that reconnect.
    pub known: KnownServer,
}

/// State that every side of the loop works with.
pub struct Work {
    pub shared: Arc<Shared>,
    pub client: Client,
    pub schemas: KnownSchemas,
    pub control: Arc<SessionControl>,
    /// The server is a node of a Galera cluster, which ends statements that lose a conflict.
    pub is_node: bool,
    /// A COMMIT within a routine goes on before its log is durable while another session writes the log;
    /// MariaDB waits for it at the end of the call.
    pub commits_late: bool,
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
    pub fn prepare(&mut self, sql: &str) -> Result<Statement> {
        let prepared = self.client.prepare(sql);
        prepared.map_err(|error| self.client.error("preparing statements", &error))
    }

    /// The meaning of a failed statement.
    pub fn failure(&self, error: &Error) -> Failure {
        let number = error.server_error().map(|error| number_of(error.code, &error.message));
        let SessionError { code, message } = self.loss(error);
        self.judged(number, code, message)
    }

    /// The meaning of a failure that the routine noted.
    pub fn noted(&self, noted: &NotedError<'_>) -> Failure {
        let number = noted.code.parse().unwrap_or_default();
        let message = format!(
            "{}: {} ({}); {}",
            self.client.server,
            bounded(noted.message),
            noted.code,
            hint_of(number)
        );
        self.judged(Some(number_of(number, noted.message)), noted.code.to_owned(), message)
    }

    fn judged(&self, number: Option<u16>, code: String, message: String) -> Failure {
        let kind = number.map_or(StatementErrorKind::Other, |number| self.kind_of(number));
        let is_conflict = number == Some(COMMIT_REFUSED)
            || self.is_node
                && kind == StatementErrorKind::Transient
                && number != Some(LOCK_TIMEOUT);
        let code = if is_conflict { CLUSTER_CONFLICT.to_owned() } else { code };
        self.control.failure(StatementError { kind, code, message })
    }

    /// The meaning of an error number here: a node interrupts a statement by itself if another
    /// node has changed the same rows.
    fn kind_of(&self, code: u16) -> StatementErrorKind {
        match kind_of(code) {
            StatementErrorKind::Cancelled if self.is_node && !self.control.is_cancelled() => {
                StatementErrorKind::Transient
            }
            kind => kind,
        }
    }

    /// Why the session ends.
    fn loss(&self, error: &Error) -> SessionError {
        let code = match (error.code(), error) {
            (Some(code), _) => code.to_string(),
            (None, Error::Silent(_)) => NO_ANSWER.to_owned(),
            (None, Error::Interrupted) => INTERRUPTED.to_owned(),
            (None, _) => CONNECTION.to_owned(),
        };
        let message = format!("{}: {}; {}", self.client.server, words(error), hint(error));
        SessionError { code, message }
    }
}
