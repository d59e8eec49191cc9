//! State that both sides of a session's loop use: the link, the schemas, the call timeout, and the
//! effect of an error on the session.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::errors::{CANCELLED, KILLED, TRANSIENT, hint};
use super::link::{Link, LinkError, LinkErrorKind};
use super::meta::OracleSchema;
use petal_engine::server::failure::{Failure, StatementError, StatementErrorKind, not_loaded};
use petal_engine::server::meta_table::SchemaMeta;
use petal_engine::server::per_schema::{KnownSchemas, SchemaWork};
use petal_engine::server::session::SessionControl;
use petal_engine::{Result, SessionError};
use petal_settings::{LoopSide, RedoStress};
use petal_workload::row::Filler;

/// Time from a stop until the driver itself breaks off an operation of a run.
const CALL_GRACE: Duration = Duration::from_secs(6);
/// Timeout of a call without a deadline.
const CALL_MAX: Duration = Duration::from_secs(3600);
/// Difference from which the call timeout is updated.
const LIMIT_STEP: Duration = Duration::from_secs(5);

/// Settings of a run that all its sessions share.
#[derive(Debug, Clone, Copy)]
pub struct SessionConfig {
    pub loop_side: LoopSide,
    pub redo_stress: RedoStress,
    pub commit_wait: bool,
    /// Set if any session does UPDATEs.
    pub updates: bool,
}

/// Number of batches that a session has begun and ended: odd while one is in flight.
#[derive(Clone, Default)]
pub struct Batches(Arc<AtomicU64>);

impl Batches {
    /// The batch in flight, if there is one.
    pub fn in_flight(&self) -> Option<u64> {
        Some(self.0.load(Ordering::Relaxed)).filter(|count| count % 2 == 1)
    }

    pub fn during<T>(&self, work: impl FnOnce() -> T) -> T {
        self.0.fetch_add(1, Ordering::Relaxed);
        let result = work();
        self.0.fetch_add(1, Ordering::Relaxed);
        result
    }
}

/// State that both sides of the loop use.
pub struct Work {
    pub link: Box<dyn Link>,
    pub place: String,
    pub config: SessionConfig,
    /// All schemas of the run: some sessions visit several, and hot ones visit schema 1.
    pub metas: Vec<OracleSchema>,
    pub control: Arc<SessionControl>,
    /// Set if petal requested the session's kill, so that its connection ends.
    pub is_killed: Arc<AtomicBool>,
    /// Current call timeout, and when it was set.
    pub limit: Option<(Duration, Instant)>,
    pub schemas: KnownSchemas,
    /// The statement of COMMIT_WAIT=TRUE; else the driver's commit, which waits by default.
    pub commit: Option<String>,
}

impl SchemaWork for Work {
    fn schemas(&mut self) -> &mut KnownSchemas {
        &mut self.schemas
    }

    fn server(&self) -> &str {
        &self.place
    }

    fn read_meta(&mut self, schema: u32) -> Result<SchemaMeta> {
        self.schema(schema).map(|schema| schema.about.clone())
    }

    /// SLOB's rows have a width of their own.
    fn column_bytes(&mut self, _: u32) -> Result<usize> {
        Ok(self.width())
    }
}

impl Work {
    pub fn schema(&self, schema: u32) -> Result<&OracleSchema> {
        let meta = self.metas.iter().find(|meta| meta.about.schema == schema);
        meta.ok_or_else(|| not_loaded(&self.place, schema))
    }

    /// Returns the number of characters of each column, equal in all schemas of a target.
    pub fn width(&self) -> usize {
        self.metas.first().map_or(1, |meta| meta.width)
    }

    /// True if all columns of an UPDATE hold the same text.
    pub fn is_constant(&self) -> bool {
        self.metas.iter().all(|meta| meta.about.filler == Filler::Constant)
    }

    /// Sets the call timeout a little after the stop: the driver then also detects a dead peer.
    pub fn limit_calls(&mut self) -> Result<(), SessionError> {
        let now = Instant::now();
        let wanted = self.control.time_left(now).map_or(CALL_MAX, |left| left + CALL_GRACE);
        let is_close = self.limit.is_some_and(|(set, at)| {
            set == wanted && set == CALL_MAX
                || set >= wanted && now.duration_since(at) < LIMIT_STEP && set - wanted < LIMIT_STEP
        });
        if is_close {
            return Ok(());
        }
        self.limit = Some((wanted, now));
        self.link.limit(Some(wanted)).map_err(|error| self.loss(&error))
    }

    /// Decides the result of a failed call.
    pub fn failure(&self, error: &LinkError) -> Failure {
        let SessionError { code, message } = self.loss(error);
        let is_gone = error.kind == LinkErrorKind::Connection || error.code == Some(KILLED);
        let is_killed = is_gone && self.is_killed.load(Ordering::Relaxed);
        let is_cancelled = is_killed || error.code == Some(CANCELLED);
        let kind = if is_cancelled || error.kind == LinkErrorKind::TimedOut {
            StatementErrorKind::OverTime
        } else if TRANSIENT.contains(&code.as_str()) {
            StatementErrorKind::Transient
        } else {
            StatementErrorKind::Other
        };
        self.control.failure(StatementError { kind, code, message })
    }

    /// Returns the reason why the session ends.
    pub fn loss(&self, error: &LinkError) -> SessionError {
        let message = format!("{}: {error}; {}", self.place, hint(error));
        SessionError { code: error.name(), message }
    }
}
