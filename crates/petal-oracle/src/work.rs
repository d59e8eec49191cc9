//! State that both sides of a session's loop work with: the link, facts about the schemas, how long a
//! call may take, and what an error means to the session.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::errors::{CANCELLED, KILLED, TRANSIENT, hint};
use super::link::{Link, LinkError, LinkErrorKind};
use super::meta::OracleSchema;
use petal_engine::server::failure::{Failure, StatementError, StatementErrorKind, not_loaded};
use petal_engine::server::row_layout::UpdateText;
use petal_engine::server::session::SessionControl;
use petal_engine::{EngineError, Result, SessionError, Stop};
use petal_model::settings::{LoopSide, RedoStress};
use petal_model::workload::op::Operation;
use petal_model::workload::row::{Filler, changed_columns};

/// An operation of a run may outlast its stop by this; then the driver itself breaks it off.
const CALL_GRACE: Duration = Duration::from_secs(6);
/// A call's limit where there is no deadline.
const CALL_MAX: Duration = Duration::from_secs(3600);
/// The limit is set anew when it would be off by so much.
const LIMIT_STEP: Duration = Duration::from_secs(5);

/// Settings of a run that all its sessions share.
#[derive(Debug, Clone, Copy)]
pub struct SessionConfig {
    pub loop_side: LoopSide,
    pub redo_stress: RedoStress,
    pub commit_wait: bool,
    /// Some session does UPDATEs.
    pub updates: bool,
}

/// State that both sides of the loop work with.
pub struct Work {
    pub link: Box<dyn Link>,
    pub place: String,
    pub config: SessionConfig,
    /// The number of its own schema.
    pub home: u32,
    /// Every schema of the run: few sessions visit several each, and hot ones schema 1.
    pub metas: Vec<OracleSchema>,
    pub control: Arc<SessionControl>,
    /// petal asked to have it killed: its connection ends.
    pub is_killed: Arc<AtomicBool>,
    /// How long calls may take now, and since when that is set.
    pub limit: Option<(Duration, Instant)>,
    /// The new text of an UPDATE.
    pub text: UpdateText,
}

impl Work {
    pub fn changed_columns(&self) -> usize {
        changed_columns(self.config.redo_stress)
    }

    pub fn meta(&self, schema: u32) -> Result<&OracleSchema> {
        let meta = self.metas.iter().find(|meta| meta.about.schema == schema);
        meta.ok_or_else(|| self.not_loaded(schema))
    }

    pub fn not_loaded(&self, schema: u32) -> EngineError {
        not_loaded(&self.place, schema)
    }

    /// Characters of each column; schemas of one target have the same.
    pub fn width(&self) -> usize {
        self.metas.first().map_or(1, |meta| meta.width)
    }

    /// All columns of an UPDATE hold the same text.
    pub fn is_constant(&self) -> bool {
        self.metas.iter().all(|meta| meta.about.filler == Filler::Constant)
    }

    /// The new text of an UPDATE's columns, `columns` of them.
    pub fn update_text(&mut self, operation: &Operation, columns: usize) -> &str {
        let filler = self.meta(operation.schema).map_or(Filler::Constant, |meta| meta.about.filler);
        let width = self.width();
        self.text.make(filler, operation.stamp, width, columns)
    }

    /// The driver breaks calls off a moment after the stop, and so finds out that nobody is there.
    pub fn limit_calls(&mut self, stop: &Stop, now: Instant) -> Result<(), SessionError> {
        let wanted = stop.time_left(now).map_or(CALL_MAX, |left| left + CALL_GRACE);
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

    /// The meaning of a failed call.
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

    /// Why the session ends.
    pub fn loss(&self, error: &LinkError) -> SessionError {
        let message = format!("{}: {error}; {}", self.place, hint(error));
        SessionError { code: error.name(), message }
    }
}
