//! What every side of the loop works with: the connection, what is known of the data, the text of
//! an UPDATE, and what an error means. Nothing here executes operations.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use super::client::{CancelToken, Client, Error};
use super::connect::{hint, hint_of, words};
use super::meta::Meta;
use super::patience::Line;
use super::schema;
use super::waits::Waits;
use crate::engine::{CUT, EngineError, INTERRUPTED, SessionError, Stop};
use crate::settings::{LoopSide, RedoStress};
use crate::workload::op::{Kind, Operation};
use crate::workload::row::{COLUMNS, Filler};

/// Serialization failure, deadlock, lock timeout: a session goes on after these.
pub const TRANSIENT: &[&str] = &["40001", "40P01", "55P03"];
/// The SQLSTATE of a statement that was cancelled.
const CANCELLED: &str = "57014";
/// The code of a session whose connection was given up.
const NO_ANSWER: &str = "no-answer";

/// What the engine and its sessions share.
pub struct Shared {
    pub url: String,
    pub loop_side: LoopSide,
    pub redo_stress: RedoStress,
    pub prefetch: u32,
    /// Schemas whose routine was seen to be this petal's.
    pub routines: Mutex<BTreeSet<u32>>,
    pub waits: Waits,
}

/// What every side of the loop works with.
pub struct Work {
    pub shared: Arc<Shared>,
    pub client: Client,
    pub server: String,
    pub home: u32,
    pub metas: BTreeMap<u32, Meta>,
    pub cancelling: Arc<Cancelling>,
    /// The text of one UPDATE's columns, one after the other.
    pub text: Vec<u8>,
}

/// Why an operation did not end well.
pub enum Failure {
    /// The session goes on, or the run is over for it.
    Counted(Box<str>),
    Fatal(SessionError),
}

/// What a canceller and its session share.
pub struct Cancelling {
    pub requested: AtomicBool,
    pub is_sending: AtomicBool,
    pub token: CancelToken,
    pub line: Arc<Line>,
}

impl Work {
    /// What is known of a schema; read when it is first needed.
    pub fn know(&mut self, number: u32) -> Result<&Meta, EngineError> {
        match self.metas.entry(number) {
            Entry::Occupied(known) => Ok(known.into_mut()),
            Entry::Vacant(place) => {
                Ok(place.insert(Meta::read(&mut self.client, &self.server, number)?))
            }
        }
    }

    /// Columns that an UPDATE changes.
    pub fn changed_columns(&self) -> usize {
        match self.shared.redo_stress {
            RedoStress::Lite => 2,
            RedoStress::Heavy => COLUMNS,
        }
    }

    /// Length of each column, and whether all columns of an UPDATE hold the same text.
    pub fn shape(&mut self, number: u32) -> Result<(usize, bool), SessionError> {
        let meta = self.know(number).map_err(unprepared)?;
        let is_constant = meta.filler == Filler::Constant;
        Ok((schema::column_bytes(meta.block_bytes), is_constant))
    }

    /// The new text of an UPDATE's columns, `columns` of them.
    pub fn filler(&mut self, operation: &Operation, columns: usize) -> Result<&str, SessionError> {
        let meta = self.know(operation.schema).map_err(unprepared)?;
        let (bytes, filler) = (schema::column_bytes(meta.block_bytes), meta.filler);
        self.text.resize(bytes * columns, 0);
        for (column, number) in self.text.chunks_exact_mut(bytes).zip(2..) {
            filler.fill(column, operation.stamp, number);
        }
        std::str::from_utf8(&self.text)
            .map_err(|error| SessionError { code: "filler".into(), message: error.to_string() })
    }

    /// What a failed statement means.
    pub fn failure(&self, error: &Error, stop: &Stop) -> Failure {
        match error.code().and_then(|code| self.counted(code.code(), stop)) {
            Some(code) => Failure::Counted(code),
            None => Failure::Fatal(self.loss(error)),
        }
    }

    /// The same, of a failure that the routine noted.
    pub fn noted(&self, code: &str, message: &str, stop: &Stop) -> Failure {
        match self.counted(code, stop) {
            Some(code) => Failure::Counted(code),
            None => Failure::Fatal(SessionError {
                code: code.to_owned(),
                message: format!("{}: {message}; {}", self.server, hint_of(code)),
            }),
        }
    }

    /// Why the session ends.
    pub fn loss(&self, error: &Error) -> SessionError {
        let code = match error.code() {
            Some(code) => code.code(),
            None if error.is_silence() => NO_ANSWER,
            None if matches!(error, Error::Interrupted) => INTERRUPTED,
            None => "connection",
        };
        let message = format!("{}: {}; {}", self.server, words(error), hint(error));
        SessionError { code: code.to_owned(), message }
    }

    /// Whether petal itself asked for this statement, or the one before it, to be cut.
    pub fn is_cut(&self, error: &Error) -> bool {
        error.code().is_some_and(|code| code.code() == CANCELLED) && self.cut_is_asked()
    }

    fn cut_is_asked(&self) -> bool {
        self.cancelling.requested.load(Ordering::Relaxed)
    }

    /// The code under which a session goes on, if it does.
    fn counted(&self, code: &str, stop: &Stop) -> Option<Box<str>> {
        if code == CANCELLED && (self.cut_is_asked() || stop.is_cutting()) {
            Some(CUT.into())
        } else {
            TRANSIENT.contains(&code).then(|| code.into())
        }
    }
}

fn unprepared(error: EngineError) -> SessionError {
    SessionError { code: "preparing".to_owned(), message: error.to_string() }
}

/// A session that needed something it had not prepared, such as another schema.
pub fn prepared<T>(result: Result<T, EngineError>) -> Result<T, SessionError> {
    result.map_err(unprepared)
}

/// The bounds of a range as PostgreSQL's signed integers.
pub fn keys(operation: &Operation) -> (i64, i64) {
    match operation.kind {
        Kind::Scan => (0, 0),
        _ => (operation.first.cast_signed(), operation.last().cast_signed()),
    }
}
