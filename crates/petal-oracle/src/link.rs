//! The narrow interface to a database session: all that this engine asks of a driver. `driver`
//! implements it, and `scripted` for tests; nothing else here knows which of them it uses.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use petal_engine::server::liveness::AbortHandle;

/// A value that a statement binds.
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
    /// These values as they may go to another thread.
    pub fn owned(values: &[Self]) -> Vec<BindValue<'static>> {
        let own = |value: &Self| match value {
            Self::Text(text) => BindValue::Text(text.clone().into_owned().into()),
            Self::Number(number) => BindValue::Number(*number),
        };
        values.iter().map(own).collect()
    }
}

/// A value that a PL/SQL block binds by name.
pub type NamedValue<'a> = (&'static str, BindValue<'a>);

/// A row of a result, each column as text; NULL is None.
pub type Row = Vec<Option<String>>;

/// One session of the database.
pub trait Link: Send {
    /// A statement without a result; rows that it touched.
    fn execute(&mut self, sql: &str, binds: &[BindValue<'_>]) -> Result<u64>;

    /// Every row of a query.
    fn query(&mut self, sql: &str, binds: &[BindValue<'_>]) -> Result<Vec<Row>>;

    /// One statement for many rows of binds, in one round trip.
    fn execute_many(&mut self, sql: &str, rows: &[Vec<BindValue<'_>>]) -> Result<u64>;

    /// A PL/SQL block with named binds: texts of up to 32,767 characters in, of up to 4,000 out.
    fn call(&mut self, block: &str, ins: &[NamedValue<'_>], outs: &[&'static str]) -> Result<Row>;

    fn commit(&mut self) -> Result<()>;

    /// How long a call may take before the driver breaks it off; None: for ever.
    fn limit(&mut self, longest: Option<Duration>) -> Result<()>;

    /// The session's number and serial number, as V$SESSION has them.
    fn identity(&self) -> (u64, u64);

    /// Gives the session up from another thread, where the link can be left.
    fn abort_handle(&self) -> Arc<AbortHandle> {
        AbortHandle::new()
    }
}

/// Where a connection goes, and as whom.
#[derive(Debug, Clone, Copy)]
pub enum Destination {
    /// An endpoint of the run, from 0, as the URL's user.
    Endpoint(usize),
    /// The service of who administers and reads statistics: DBA_PRIV_USER, or else the URL's user.
    Admin,
}

/// Makes links.
pub trait Connector: Send + Sync {
    /// Connects under a name that the database's views show, `purpose`.
    fn connect(&self, to: Destination, purpose: &str) -> Result<Box<dyn Link>>;
}

/// A result whose error is a link's, unless another is named.
pub type Result<T, E = LinkError> = std::result::Result<T, E>;

/// What went wrong, in the driver's or the database's own words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkError {
    /// The number of the ORA- error, where there is one.
    pub code: Option<u32>,
    pub message: String,
    pub kind: LinkErrorKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LinkErrorKind {
    /// The database answered with an error; the session is as it was.
    Database,
    /// The call took longer than its limit and was broken off.
    TimedOut,
    /// There is no session, or none any more.
    Connection,
}

impl LinkError {
    /// The database answered, and not as it should.
    pub fn odd(message: String) -> Self {
        Self { code: None, message, kind: LinkErrorKind::Database }
    }

    pub fn connection(message: impl Into<String>) -> Self {
        Self { code: None, message: message.into(), kind: LinkErrorKind::Connection }
    }

    /// `ORA-00060`, or what stands for a code where there is none.
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
