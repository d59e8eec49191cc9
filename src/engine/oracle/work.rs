//! What both sides of the loop work with: the link, what is known of the data, the text of an
//! UPDATE, how long a call may take, and what an error means. Nothing here executes operations.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::errors::{CANCELLED, TRANSIENT, engine_error, hint};
use super::link::{Connector, Kind as Failed, Link, LinkError};
use super::meta::Meta;
use super::sql;
use crate::engine::{CUT, EngineError, SessionError, Stop};
use crate::settings::{LoopSide, RedoStress};
use crate::workload::op::Operation;
use crate::workload::row::Filler;

/// An operation may outlast the stop by this; then the driver itself breaks the call off, also
/// where nobody may cancel it from outside.
const GRACE: Duration = Duration::from_secs(6);
/// Where there is no deadline.
const CALL_MAX: Duration = Duration::from_secs(3600);
/// A limit is set anew when it would be off by so much.
const LIMIT_STEP: Duration = Duration::from_secs(5);

/// What a run does, the same for all its sessions.
#[derive(Debug, Clone, Copy)]
pub struct SessionConfig {
    pub loop_side: LoopSide,
    pub redo_stress: RedoStress,
    pub commit_wait: bool,
}

/// What every side of the loop works with.
pub struct Work {
    pub link: Box<dyn Link>,
    pub place: String,
    pub config: SessionConfig,
    /// The number of its own schema.
    pub home: u32,
    /// Every schema of the run: where sessions are fewer, each visits several in turn, and
    /// HOT_SCHEMA_FREQUENCY sends operations to schema 1.
    pub metas: Vec<Meta>,
    pub cancelling: Arc<Cancelling>,
    /// How long calls may take now, and since when that is set.
    pub limit: Option<(Duration, Instant)>,
    /// The text of one UPDATE's columns, one after the other.
    pub text: Vec<u8>,
}

/// Why an operation did not end well.
pub enum Failure {
    /// The session goes on, or the run is over for it.
    Counted(Box<str>),
    Fatal(SessionError),
}

impl Work {
    pub fn changed_columns(&self) -> usize {
        sql::changed_columns(self.config.redo_stress)
    }

    pub fn meta(&self, schema: u32) -> Result<&Meta, SessionError> {
        self.metas.iter().find(|meta| meta.schema == schema).ok_or_else(|| SessionError {
            code: "data".into(),
            message: format!("{}: schema {schema} is not loaded", self.place),
        })
    }

    /// Characters of each column; schemas of one target have the same.
    pub fn width(&self) -> usize {
        self.metas.first().map_or(1, |meta| meta.width)
    }

    /// All columns of an UPDATE hold the same text.
    pub fn is_constant(&self) -> bool {
        self.metas.iter().all(|meta| meta.filler == Filler::Constant)
    }

    /// The new text of an UPDATE's columns, `columns` of them.
    pub fn filler(&mut self, operation: &Operation, columns: usize) -> &str {
        let width = self.width();
        let filler = self.meta(operation.schema).map_or(Filler::Constant, |meta| meta.filler);
        self.text.resize(width * columns, 0);
        for (column, number) in self.text.chunks_exact_mut(width).zip(2..) {
            filler.fill(column, operation.stamp, number);
        }
        // Filler is ASCII.
        std::str::from_utf8(&self.text).unwrap_or_default()
    }

    /// Calls end by themselves a moment after the stop: the driver then breaks them off, and finds
    /// out when nobody is there any more.
    pub fn limit_calls(&mut self, stop: &Stop, now: Instant) -> Result<(), SessionError> {
        let wanted = stop.time_left(now).map_or(CALL_MAX, |left| left + GRACE);
        let is_close = self.limit.is_some_and(|(set, at)| {
            set == wanted && set == CALL_MAX
                || set >= wanted && now.duration_since(at) < LIMIT_STEP && set - wanted < LIMIT_STEP
        });
        if is_close {
            return Ok(());
        }
        self.limit = Some((wanted, now));
        self.link.limit(Some(wanted)).map_err(|error| self.fatal(&error))
    }

    /// What a failed call means.
    pub fn failure(&self, error: &LinkError, stop: &Stop) -> Failure {
        let is_cut = self.cancelling.requested.load(Ordering::Relaxed)
            || stop.is_cutting()
            || stop.is_due(Instant::now());
        let was_broken_off = error.code == Some(CANCELLED) || error.kind == Failed::TimedOut;
        if was_broken_off && is_cut {
            Failure::Counted(CUT.into())
        } else if TRANSIENT.contains(&error.name().as_str()) {
            Failure::Counted(error.name().into())
        } else {
            Failure::Fatal(self.fatal(error))
        }
    }

    pub fn fatal(&self, error: &LinkError) -> SessionError {
        SessionError {
            code: error.name(),
            message: format!("{}: {error}; {}", self.place, hint(error)),
        }
    }
}

/// What a canceller and its session share.
pub struct Cancelling {
    pub requested: AtomicBool,
    pub is_sending: AtomicBool,
    pub connector: Arc<dyn Connector>,
    pub sid: u64,
    pub serial: u64,
    /// Its number; empty where it is not known.
    pub instance: String,
}

/// A session that could not be opened.
pub fn refused(place: &str, error: &LinkError) -> EngineError {
    engine_error(place, "connecting", error)
}
