//! The meaning of failures to a session, the same for every engine, and the codes that records name
//! them by. An engine knows the meaning of its database's own errors.

use std::fmt::Display;

use crate::{EngineError, INTERRUPTED, SessionError};

/// The code of a session whose connection was given up: no answer came in time.
pub const NO_ANSWER: &str = "no-answer";
/// The code of a session whose connection broke.
pub const CONNECTION: &str = "connection";
/// The code of a session that was to work on a schema that is not loaded.
pub const NOT_LOADED: &str = "not-loaded";
/// The code of a session that could not prepare for its next operation.
const UNPREPARED: &str = "preparing";

/// Why an operation did not end well.
#[derive(Debug)]
pub enum Failure {
    /// The operation is counted under this code, and the session goes on.
    Counted(Box<str>),
    /// The session is lost.
    Fatal(SessionError),
}

impl From<SessionError> for Failure {
    fn from(error: SessionError) -> Self {
        Self::Fatal(error)
    }
}

/// Reports a session as lost if it cannot prepare, for example for another schema.
impl From<EngineError> for SessionError {
    fn from(error: EngineError) -> Self {
        let code = match error {
            EngineError::NotLoaded { .. } => NOT_LOADED,
            EngineError::Interrupted => INTERRUPTED,
            _ => UNPREPARED,
        };
        Self { code: code.to_owned(), message: error.to_string() }
    }
}

impl From<EngineError> for Failure {
    fn from(error: EngineError) -> Self {
        Self::Fatal(error.into())
    }
}

/// A schema that a session or a question needs and that is not loaded there.
pub fn not_loaded(place: impl ToString, schema: u32) -> EngineError {
    EngineError::NotLoaded { place: place.to_string(), schema }
}

/// Error of a target that must have a schema and has none; `otherwise` is another remedy.
pub fn none_loaded(place: impl Display, otherwise: &str) -> EngineError {
    EngineError::Data(format!(
        "{place}: no petal schema is loaded there; load one (petal setup){otherwise}"
    ))
}

/// A statement that failed, as its engine reads the database's error.
#[derive(Debug)]
pub struct StatementError {
    pub kind: StatementErrorKind,
    /// The database's own code.
    pub code: String,
    /// Message with place, fault, reason and next step.
    pub message: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StatementErrorKind {
    /// Cancelled by another user.
    Cancelled,
    /// Cancelled, perhaps by the limit that a call has beyond the end of its run.
    OverTime,
    /// A session goes on with its next operation.
    Transient,
    Other,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_is_lost_under_the_code_of_what_it_lacks() {
        let error = SessionError::from(not_loaded("db1", 9));
        assert_eq!(error.code, NOT_LOADED);
        assert_eq!(error.message, "db1: schema 9 is not loaded");
        assert_eq!(SessionError::from(EngineError::Interrupted).code, INTERRUPTED);
        assert_eq!(SessionError::from(EngineError::Data("torn".into())).code, UNPREPARED);
    }
}
