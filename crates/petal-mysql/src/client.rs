//! A connection: questions and answers. The thread that works with it polls the driver itself,
//! under a timeout policy.

use std::future::Future;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use mysql_async::prelude::{FromRow, Protocol, Queryable as _, StatementLike};
use mysql_async::{Conn, DriverError, Params, QueryResult, Row, ServerError, Statement, Value};
use tokio::time::timeout;

use petal_engine::server::answer::{AnswerSize, TOO_LONG};
use petal_engine::server::endpoint::CLOSE_LIMIT;
use petal_engine::server::future_wait::{FutureWait, WaitFailure, runtime};
use petal_engine::server::liveness::{AbortHandle, TimeoutPolicy};
use petal_engine::server::wait_monitor::{LockWait, WaitEnd, WaitMonitor};
use petal_engine::server::waiting::WaitingConnection;

pub const LOCK_TIMEOUT: u16 = 1205;
pub const QUERY_INTERRUPTED: u16 = 1317;

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The server's own words, or the failure on the way.
    #[error(transparent)]
    Failed(#[from] mysql_async::Error),
    /// The peer keeps the connection and does not answer; petal gave it up.
    #[error("{0}")]
    Silent(String),
    /// A pooler shares its connections to servers among clients.
    #[error(
        "a connection pooler or proxy answers, not the server: connection {greeted} by its \
         greeting, {id} by the server"
    )]
    Pooler { greeted: u32, id: u64 },
    /// petal refuses the server that answers.
    #[error("{0}")]
    WrongServer(String),
    /// PASSWORD_COMMAND failed.
    #[error("{0}")]
    NoPassword(String),
    #[error("the driver panicked as it logged on")]
    DriverPanicked,
    #[error("no runtime for a connection: {0}")]
    Runtime(#[from] io::Error),
    /// A signal ended the waiting.
    #[error("interrupted")]
    Interrupted,
    /// Others hold a lock for longer than petal waits; with its holder, if the server named it in
    /// time.
    #[error("{0}")]
    Blocked(Box<Blocked>),
}

/// A wait for a lock that the server or petal ended.
#[derive(Debug, thiserror::Error)]
#[error("{} s of waiting for {}", .limit.as_secs_f64(), .by.as_ref().map_or("a lock", |by| &by.text))]
pub struct Blocked {
    error: ServerError,
    limit: Duration,
    by: Option<LockWait>,
}

impl From<WaitFailure> for Error {
    fn from(given_up: WaitFailure) -> Self {
        match given_up {
            WaitFailure::Interrupted => Self::Interrupted,
            WaitFailure::Silent(reason) => Self::Silent(reason),
        }
    }
}

impl Error {
    pub fn server_error(&self) -> Option<&ServerError> {
        match self {
            Self::Failed(mysql_async::Error::Server(error)) => Some(error),
            Self::Blocked(blocked) => Some(&blocked.error),
            _ => None,
        }
    }

    pub fn code(&self) -> Option<u16> {
        self.server_error().map(|error| error.code)
    }

    /// The account's way to log on is one that petal does not have.
    pub fn is_other_log_on(&self) -> bool {
        use DriverError::{MysqlOldPasswordDisabled, UnknownAuthPlugin};
        let Self::Failed(mysql_async::Error::Driver(error)) = self else { return false };
        matches!(error, UnknownAuthPlugin { .. } | MysqlOldPasswordDisabled)
    }

    /// The server asks for the password in clear text, and is not verified.
    pub fn is_clear_text(&self) -> bool {
        use mysql_async::Error::Driver;
        matches!(self, Self::Failed(Driver(DriverError::CleartextPluginDisabled)))
    }

    /// The server has no TLS.
    pub fn is_without_tls(&self) -> bool {
        use mysql_async::Error::Driver;
        matches!(self, Self::Failed(Driver(DriverError::NoClientSslFlagFromServer)))
    }
}

/// A connection.
pub struct Client {
    /// The server as a person names it.
    pub server: String,
    conn: Option<Conn>,
    wait: FutureWait,
    /// An answer may still be under way, which the next statement must not get: nothing more is sent.
    is_over: bool,
}

impl Client {
    /// Waits for a log-on within `limit`, unless it is interrupted.
    pub fn open(
        server: &str,
        logging_on: impl Future<Output = Result<Conn, Error>>,
        limit: Duration,
        is_interrupted: &dyn Fn() -> bool,
    ) -> Result<Self, Error> {
        let runtime = runtime().build()?;
        let connecting = || FutureWait::connect(server, runtime, limit, is_interrupted, logging_on);
        // The driver panics if an account of the plugin parsec has no password.
        let connected = catch_unwind(AssertUnwindSafe(connecting));
        let (conn, wait) = connected.map_err(|_| Error::DriverPanicked)??;
        Ok(Self { server: server.to_owned(), conn: Some(conn?), wait, is_over: false })
    }

    /// Keeps the connection from being idle while it waits for its next step.
    pub fn keep_alive(self) -> petal_engine::Result<WaitingConnection<Self>> {
        WaitingConnection::new(self, Self::pass_bytes)
    }

    /// Exchanges messages with the server, which do no work there.
    pub fn pass_bytes(&mut self) {
        let _ = self.wait_for(async |conn| conn.ping().await);
    }

    /// The server's number of the connection.
    pub fn id(&self) -> u32 {
        self.conn.as_ref().map_or(0, Conn::id)
    }

    /// Sets how long an answer is waited for from now on.
    pub fn set_policy(&mut self, policy: TimeoutPolicy) {
        self.wait.watch.policy = policy;
    }

    /// The waits of this connection.
    pub fn wait(&mut self) -> &mut FutureWait {
        &mut self.wait
    }

    pub fn set_monitor(&mut self, monitor: WaitMonitor) {
        self.wait.monitor = Some(Box::new(monitor));
    }

    /// Returns a handle with which other threads give the connection up.
    pub fn abort_handle(&self) -> Arc<AbortHandle> {
        self.wait.abort_handle()
    }

    pub fn is_closed(&self) -> bool {
        self.is_over || self.wait.is_aborted()
    }

    /// The rows of a statement without parameters.
    pub fn query<T: FromRow + Send + 'static>(&mut self, sql: &str) -> Result<Vec<T>, Error> {
        let rows = self.wait_for(async |conn| collected(conn.query_iter(sql).await?).await)?;
        rows.ok_or_else(|| self.end_too_long()).and_then(converted)
    }

    /// The first row, which there must be.
    pub fn query_one<T: FromRow + Send + 'static>(&mut self, sql: &str) -> Result<T, Error> {
        let row: Option<Row> = self.wait_for(async |conn| conn.query_first(sql).await)?;
        let row = row.ok_or_else(|| io::Error::other("the answer has no row"))?;
        converted_row(row)
    }

    /// A statement without rows.
    pub fn run(&mut self, sql: &str) -> Result<(), Error> {
        self.wait_for(async |conn| conn.query_drop(sql).await)
    }

    pub fn prepare(&mut self, sql: &str) -> Result<Statement, Error> {
        self.wait_for(async |conn| conn.prep(sql).await)
    }

    /// The rows of a statement with parameters; of a procedure, those of its first result.
    pub fn rows<T: FromRow + Send + 'static>(
        &mut self,
        statement: impl StatementLike,
        parameters: impl Into<Params> + Send,
    ) -> Result<Vec<T>, Error> {
        let rows = self.wait_for(async |conn| {
            collected(conn.exec_iter(statement, parameters.into()).await?).await
        })?;
        rows.ok_or_else(|| self.end_too_long()).and_then(converted)
    }

    /// Gives up a connection whose answer does not end.
    fn end_too_long(&mut self) -> Error {
        self.is_over = true;
        io::Error::other(TOO_LONG).into()
    }

    pub fn first<T: FromRow + Send + 'static>(
        &mut self,
        statement: impl StatementLike,
        parameters: impl Into<Params> + Send,
    ) -> Result<Option<T>, Error> {
        let row =
            self.wait_for(async |conn| conn.exec_first(statement, parameters.into()).await)?;
        row.map(converted_row).transpose()
    }

    /// The number of rows that a statement found or made.
    pub fn execute(
        &mut self,
        statement: impl StatementLike,
        parameters: impl Into<Params> + Send,
    ) -> Result<u64, Error> {
        self.wait_for(async |conn| {
            conn.exec_drop(statement, parameters.into()).await?;
            Ok(conn.affected_rows())
        })
    }

    fn wait_for<T>(
        &mut self,
        question: impl AsyncFnOnce(&mut Conn) -> Result<T, mysql_async::Error>,
    ) -> Result<T, Error> {
        if let Some(reason) = self.wait.abort_handle().reason() {
            return Err(Error::Silent(reason.to_owned()));
        }
        let Some(conn) = self.conn.as_mut().filter(|_| !self.is_over) else {
            return Err(Error::Silent("the connection is closed".to_owned()));
        };
        let error: Error = match self.wait.wait(question(conn), &|| ()) {
            Ok(Ok(answer)) => return Ok(answer),
            Ok(Err(error)) => error.into(),
            Err(WaitFailure::Interrupted) => return Err(Error::Interrupted),
            Err(silent) => silent.into(),
        };
        self.is_over = error.server_error().is_none();
        Err(match self.wait.monitor_in_force() {
            Some(monitor) => explained(monitor, error),
            None => error,
        })
    }
}

fn converted<T: FromRow>(rows: Vec<Row>) -> Result<Vec<T>, Error> {
    rows.into_iter().map(converted_row).collect()
}

/// Converts a row. A server may send an unexpected type, or NULL for a required value: that is an
/// error, not a panic.
fn converted_row<T: FromRow>(row: Row) -> Result<T, Error> {
    T::from_row_opt(row).map_err(|error| {
        let why = format!("the server's answer does not fit the question: {error}");
        io::Error::other(why).into()
    })
}

/// The rows of an answer's first result; None if they are more than any answer may have.
async fn collected<P: Protocol>(
    mut answer: QueryResult<'_, '_, P>,
) -> Result<Option<Vec<Row>>, mysql_async::Error> {
    let (mut found, mut size) = (Vec::new(), AnswerSize::default());
    while let Some(row) = answer.next().await? {
        let bytes = (0..row.len()).map(|at| match row.as_ref(at) {
            Some(Value::Bytes(bytes)) => bytes.len(),
            _ => size_of::<Value>(),
        });
        if !size.add(bytes.sum()) {
            return Ok(None);
        }
        found.push(row);
    }
    answer.drop_result().await?;
    Ok(Some(found))
}

/// The error of a statement whose wait a monitor looked after.
fn explained(monitor: &mut WaitMonitor, error: Error) -> Error {
    let code = error.code();
    let end = monitor.end(code == Some(LOCK_TIMEOUT), code == Some(QUERY_INTERRUPTED));
    match (end, error) {
        (WaitEnd::Interrupted, _) => Error::Interrupted,
        (WaitEnd::Blocked(by), Error::Failed(mysql_async::Error::Server(error))) => {
            Error::Blocked(Box::new(Blocked { error, limit: monitor.limit, by }))
        }
        (_, error) => error,
    }
}

impl Drop for Client {
    /// Says goodbye, so that the server ends the session now.
    fn drop(&mut self) {
        let is_closed = self.is_closed();
        let Some(conn) = self.conn.take() else { return };
        if is_closed {
            return;
        }
        // A peer that does not take it is left.
        let _ = self.wait.runtime.block_on(async { timeout(CLOSE_LIMIT, conn.disconnect()).await });
    }
}
