//! Narrow interface to a database session, with all functions that this engine needs of a driver.
//! `driver` implements it, and `scripted` for tests; the other modules do not depend on which is
//! used.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use petal_engine::server::answer::bounded;
use petal_engine::server::liveness::AbortHandle;

/// Value that a statement binds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BindValue<'a> {
    Text(Cow<'a, str>),
    Number(i64),
}

impl<'a, T: AsRef<str> + ?Sized> From<&'a T> for BindValue<'a> {
    fn from(text: &'a T) -> Self {
        Self::Text(text.as_ref().into())
    }
}

impl BindValue<'_> {
    /// Copies values so that they may go to another thread.
    pub fn owned(values: &[Self]) -> Vec<BindValue<'static>> {
        let own = |value: &Self| match value {
            Self::Text(text) => BindValue::Text(text.clone().into_owned().into()),
            Self::Number(number) => BindValue::Number(*number),
        };
        values.iter().map(own).collect()
    }
}

/// Value that a PL/SQL block binds by name.
pub type NamedValue<'a> = (&'static str, BindValue<'a>);

/// Row of a result, each column as text; `None` means NULL.
pub type Row = Vec<Option<String>>;

/// Session of the database.
pub trait Link: Send {
    /// Executes a statement without a result; returns the number of affected rows.
    fn execute(&mut self, sql: &str, binds: &[BindValue<'_>]) -> Result<u64>;

    /// Returns every row of a query.
    fn query(&mut self, sql: &str, binds: &[BindValue<'_>]) -> Result<Vec<Row>>;

    /// Executes one statement for many rows of binds, in one round trip.
    fn execute_many(&mut self, sql: &str, rows: &[Vec<BindValue<'_>>]) -> Result<u64>;

    /// Calls a PL/SQL block with named binds: texts of up to 32,767 characters in, of up to 4,000
    /// out.
    fn call(&mut self, block: &str, ins: &[NamedValue<'_>], outs: &[&'static str]) -> Result<Row>;

    fn commit(&mut self) -> Result<()>;

    /// Sets the timeout after which the driver breaks off a call; `None` means no timeout.
    fn limit(&mut self, longest: Option<Duration>) -> Result<()>;

    /// Returns the session's number and serial number, as in V$SESSION.
    fn identity(&self) -> (u64, u64);

    /// Returns a handle that abandons the session from another thread, if the link supports it.
    fn abort_handle(&self) -> Arc<AbortHandle> {
        AbortHandle::new()
    }
}

/// Target and user of a connection.
#[derive(Debug, Clone, Copy)]
pub enum Destination {
    /// Endpoint of the run, from 0, as the URL's user.
    Endpoint(usize),
    /// Administrator's service, which also reads statistics: DBA_PRIV_USER, or else the URL's user.
    Admin,
}

/// Creates links.
pub trait Connector: Send + Sync {
    /// Connects under the name `purpose`, which the database's views show.
    fn connect(&self, to: Destination, purpose: &str) -> Result<Box<dyn Link>>;
}

/// Result with a link error by default.
pub type Result<T, E = LinkError> = std::result::Result<T, E>;

/// Error with the driver's or the database's own text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkError {
    /// Number of the ORA- error, if there is one.
    pub code: Option<u32>,
    pub message: String,
    pub kind: LinkErrorKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LinkErrorKind {
    /// Error answer of the database; the session is unchanged.
    Database,
    /// Timeout of a call, which was broken off.
    TimedOut,
    /// Missing or lost session.
    Connection,
}

impl LinkError {
    /// Makes an error of an unexpected answer.
    pub fn unexpected(message: &str) -> Self {
        Self { code: None, message: bounded(message).into_owned(), kind: LinkErrorKind::Database }
    }

    pub fn connection(message: impl Into<String>) -> Self {
        Self { code: None, message: message.into(), kind: LinkErrorKind::Connection }
    }

    /// Returns `ORA-00060`, or a word for the kind of an error without a code.
    pub fn name(&self) -> String {
        match (self.code, self.kind) {
            (Some(code), _) => format!("ORA-{code:05}"),
            (None, LinkErrorKind::TimedOut) => "timeout".to_owned(),
            (None, LinkErrorKind::Connection) => "connection".to_owned(),
            (None, LinkErrorKind::Database) => "odd-answer".to_owned(),
        }
    }
}

impl fmt::Display for LinkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.code {
            // The database's own text begins with its code; a listener's does not.
            Some(code) if !self.message.contains(&format!("ORA-{code:05}")) => {
                write!(f, "{} (ORA-{code:05})", self.message)
            }
            _ => f.write_str(&self.message),
        }
    }
}
