//! A connection. The thread that sends a statement waits for the answer, and it alone polls the
//! driver's future: nothing goes on between two statements.
//!
//! Beyond a plain wait it has a timeout policy, and keeps the server's last words: if a server says
//! why it ends a session and closes at once, the close must not hide the words.

use std::future::{Future, poll_fn};
use std::io::{self, BufRead, Read};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use bytes::{Buf as _, Bytes};
use futures_util::{FutureExt as _, SinkExt as _, StreamExt as _};
use tokio::time::timeout;
use tokio_postgres::error::{DbError, SqlState};
use tokio_postgres::types::ToSql;
use tokio_postgres::{
    Config, CopyInSink, CopyOutStream, Row, SimpleQueryMessage, Statement, ToStatement,
};

use super::locks::LOCK_TIMEOUT;
use super::stream::{ConnectError, Incoming, ServerConnector, ServerPlace};
use petal_engine::server::answer::{AnswerSize, TOO_LONG};
use petal_engine::server::endpoint::{CLOSE_LIMIT, LOCK_LIMIT};
use petal_engine::server::future_wait::{FutureWait, WaitFailure, runtime};
use petal_engine::server::liveness::{AbortHandle, ServerState, TimeoutPolicy};
use petal_engine::server::wait_monitor::{LockWait, WaitEnd, WaitMonitor};
use petal_engine::server::waiting::WaitingConnection;
use petal_engine::waits_now::Waiter;

/// The SQLSTATE of a statement that was cancelled.
pub const CANCELLED: &str = "57014";

pub type Parameters<'a> = &'a [&'a (dyn ToSql + Sync)];

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The server's own words, or the failure on the way.
    #[error(transparent)]
    Failed(#[from] tokio_postgres::Error),
    #[error("error connecting to server")]
    Unreachable(#[source] io::Error),
    /// petal refuses the server that answers.
    #[error("{0}")]
    WrongServer(String),
    /// The peer keeps the connection and does not answer; petal gave it up.
    #[error("{0}")]
    Silent(String),
    #[error("connection closed")]
    Closed,
    /// A pooler shares its connections to servers among clients.
    #[error(
        "a connection pooler answers, not the server: process {greeted} by its greeting, {process} \
         by the server"
    )]
    Pooler { greeted: String, process: i32 },
    /// PASSWORD_COMMAND failed.
    #[error("{0}")]
    NoPassword(String),
    /// Another server than the requested one answers.
    #[error("{0}")]
    Unwanted(String),
    #[error("no runtime for a connection: {0}")]
    Runtime(io::Error),
    #[error("{TOO_LONG}")]
    TooLong,
    /// A signal ended the waiting.
    #[error("interrupted")]
    Interrupted,
    /// Others hold a lock for longer than petal waits; with its holder, if the server named it in
    /// time.
    #[error("{} s of waiting for {}", .limit.as_secs_f64(), .by.as_ref().map_or("a lock", |by| &by.text))]
    Blocked { error: tokio_postgres::Error, limit: Duration, by: Option<LockWait> },
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
    pub fn code(&self) -> Option<&SqlState> {
        self.as_db_error().map(DbError::code)
    }

    pub fn as_db_error(&self) -> Option<&DbError> {
        match self {
            Self::Failed(error) | Self::Blocked { error, .. } => error.as_db_error(),
            _ => None,
        }
    }

    pub fn is_closed(&self) -> bool {
        match self {
            Self::Failed(error) => error.is_closed(),
            other => matches!(other, Self::Closed),
        }
    }

    /// True when a server answered, if only to refuse the connection.
    pub fn is_answer(&self) -> bool {
        self.code().is_some()
            || matches!(self, Self::Unwanted(_) | Self::Pooler { .. } | Self::WrongServer(_))
    }

    pub fn is_silence(&self) -> bool {
        matches!(self, Self::Silent(_))
    }
}

/// A connection.
pub struct Client {
    /// The server's name, for messages.
    pub server: String,
    // Dropped first: the connection then sends its end.
    asker: tokio_postgres::Client,
    wire: Wire,
    place: ServerPlace,
    opened: Instant,
}

/// The driver's side of a connection.
struct Wire {
    connection: Incoming,
    is_over: bool,
    /// The error that ended it, until it is returned: it may come together with a good answer.
    ended_by: Option<tokio_postgres::Error>,
    wait: FutureWait,
}

impl Client {
    /// Connects and logs in within `limit`, name lookup and TLS included, unless it is interrupted.
    pub fn open(
        server: &str,
        config: &Config,
        connector: &ServerConnector,
        limit: Duration,
        is_interrupted: &dyn Fn() -> bool,
    ) -> Result<Self, Error> {
        let runtime = runtime().build().map_err(Error::Runtime)?;
        let connecting = connector.connect(config);
        let (connected, wait) =
            FutureWait::connect(server, runtime, limit, is_interrupted, connecting)?;
        let (asker, connection, place) = connected.map_err(|error| match error {
            ConnectError::Failed(error) => error.into(),
            ConnectError::Unreachable(error) => Error::Unreachable(error),
            ConnectError::Refused(why) => Error::WrongServer(why),
        })?;
        let wire = Wire { connection, is_over: false, ended_by: None, wait };
        Ok(Self { server: server.to_owned(), asker, wire, place, opened: Instant::now() })
    }

    /// Keeps the connection from being idle while it waits for its next step.
    pub fn keep_alive(self) -> petal_engine::Result<WaitingConnection<Self>> {
        WaitingConnection::new(self, Self::pass_bytes)
    }

    /// Exchanges messages with the server, which do no work there.
    pub fn pass_bytes(&mut self) {
        let _ = self.wire.wait(self.asker.check_connection());
    }

    /// The time since it was opened, in seconds.
    pub fn age_s(&self) -> f64 {
        self.opened.elapsed().as_secs_f64()
    }

    /// Sets how long an answer is waited for from now on.
    pub fn set_policy(&mut self, policy: TimeoutPolicy) {
        self.wire.wait.watch.policy = policy;
    }

    /// Sets the monitor of long waits from now on.
    pub fn set_monitor(&mut self, monitor: WaitMonitor) {
        self.wire.wait.monitor = Some(Box::new(monitor));
    }

    /// Sets how the server is asked about this connection when it is silent.
    pub fn ask_with(&mut self, ask_server: impl Fn() -> ServerState + Send + Sync + 'static) {
        self.wire.wait.watch.ask_with(ask_server);
    }

    /// Sets how a wait of this connection that lasts is explained.
    pub fn explain_with(&mut self, explain: impl Fn() -> Option<String> + Send + Sync + 'static) {
        self.wire.wait.waiter = Some(Waiter::new(explain));
    }

    /// Waits so long for each lock from now on, unless the role or the URL said how long.
    pub fn raise_lock_limit(&mut self, limit: Duration) -> Result<(), Error> {
        let monitor = self.wire.wait.monitor.as_mut();
        let Some(monitor) = monitor.filter(|monitor| monitor.limit == LOCK_LIMIT) else {
            return Ok(());
        };
        monitor.limit = limit;
        self.batch_execute(&format!("SET lock_timeout = {}", limit.as_millis()))
    }

    /// Returns a handle with which other threads give the connection up.
    pub fn abort_handle(&self) -> Arc<AbortHandle> {
        self.wire.wait.abort_handle()
    }

    pub fn is_closed(&self) -> bool {
        self.asker.is_closed() || self.wire.is_over || self.wire.wait.is_aborted()
    }

    /// `connector` as it was opened with; `limit` for the server to take the request.
    pub fn cancel_token(&self, connector: &ServerConnector, limit: Duration) -> CancelToken {
        let (connector, place) = (connector.clone(), self.place.clone());
        CancelToken { token: self.asker.cancel_token(), connector, place, limit }
    }

    /// The process number in the peer's greeting; `None` without one.
    pub fn greeted_process(&self, connector: &ServerConnector) -> Option<i32> {
        let token = self.asker.cancel_token();
        self.wire.wait.runtime.block_on(connector.greeted_process(&token))
    }

    pub fn query<T: ?Sized + ToStatement>(
        &mut self,
        statement: &T,
        parameters: Parameters<'_>,
    ) -> Result<Vec<Row>, Error> {
        let parameters = parameters.iter().map(|&parameter| parameter as &dyn ToSql);
        let rows = self.wire.wait_long(&self.asker, async {
            let mut rows = pin!(self.asker.query_raw(statement, parameters).await?);
            let (mut found, mut size) = (Vec::new(), AnswerSize::default());
            while let Some(row) = rows.next().await.transpose()? {
                if !size.add(row.raw_size_bytes()) {
                    return Ok(None);
                }
                found.push(row);
            }
            Ok(Some(found))
        })?;
        rows.ok_or_else(|| self.wire.end_too_long())
    }

    pub fn query_one<T: ?Sized + ToStatement>(
        &mut self,
        statement: &T,
        parameters: Parameters<'_>,
    ) -> Result<Row, Error> {
        self.wire.wait_long(&self.asker, self.asker.query_one(statement, parameters))
    }

    pub fn execute<T: ?Sized + ToStatement>(
        &mut self,
        statement: &T,
        parameters: Parameters<'_>,
    ) -> Result<u64, Error> {
        self.wire.wait_long(&self.asker, self.asker.execute(statement, parameters))
    }

    pub fn prepare(&mut self, sql: &str) -> Result<Statement, Error> {
        self.wire.wait(self.asker.prepare(sql))
    }

    /// Statements without parameters; several are one transaction.
    pub fn batch_execute(&mut self, sql: &str) -> Result<(), Error> {
        self.wire.wait_long(&self.asker, self.asker.batch_execute(sql))
    }

    /// Statements without parameters, and the rows and messages that they return, as text.
    pub fn simple_query(&mut self, sql: &str) -> Result<Vec<SimpleQueryMessage>, Error> {
        let answer = self.wire.wait_long(&self.asker, async {
            let mut messages = pin!(self.asker.simple_query_raw(sql).await?);
            let (mut found, mut size) = (Vec::new(), AnswerSize::default());
            while let Some(message) = messages.next().await.transpose()? {
                let bytes = match &message {
                    SimpleQueryMessage::Row(row) => (0..row.len())
                        .filter_map(|column| row.try_get(column).ok().flatten())
                        .map(str::len)
                        .sum(),
                    _ => 0,
                };
                if !size.add(bytes) {
                    return Ok(None);
                }
                found.push(message);
            }
            Ok(Some(found))
        })?;
        answer.ok_or_else(|| self.wire.end_too_long())
    }

    /// COPY ... FROM STDIN. Without [`CopyIn::finish`] the server forgets all of it.
    pub fn copy_in(&mut self, sql: &str) -> Result<CopyIn<'_>, Error> {
        let sink = self.wire.wait(self.asker.copy_in(sql))?;
        Ok(CopyIn { wire: &mut self.wire, sink: Box::pin(sink) })
    }

    /// COPY ... TO STDOUT.
    pub fn copy_out(&mut self, sql: &str) -> Result<CopyOut<'_>, Error> {
        let stream = self.wire.wait(self.asker.copy_out(sql))?;
        Ok(CopyOut { wire: &mut self.wire, stream: Box::pin(stream), chunk: Bytes::new() })
    }
}

impl Wire {
    /// Gives up a connection whose answer does not end.
    fn end_too_long(&mut self) -> Error {
        self.is_over = true;
        Error::TooLong
    }

    /// Drives the connection until the answer is there, or will not come.
    fn wait<T>(
        &mut self,
        answer: impl Future<Output = Result<T, tokio_postgres::Error>>,
    ) -> Result<T, Error> {
        self.drive(answer, &|| ())
    }

    /// Waits for the answer of a statement that is not a COPY. A proxy keeps the connection meanwhile: it
    /// sees messages, which the server answers after the statement.
    fn wait_long<T>(
        &mut self,
        asker: &tokio_postgres::Client,
        answer: impl Future<Output = Result<T, tokio_postgres::Error>>,
    ) -> Result<T, Error> {
        self.drive(answer, &|| drop(asker.check_connection().now_or_never()))
    }

    fn drive<T>(
        &mut self,
        answer: impl Future<Output = Result<T, tokio_postgres::Error>>,
        pass_bytes: &dyn Fn(),
    ) -> Result<T, Error> {
        let Self { connection, is_over, ended_by, wait } = self;
        let mut answer = pin!(answer);
        let driven = poll_fn(|context| {
            if !*is_over {
                ready!(poll(connection, is_over, ended_by, context));
            }
            match answer.as_mut().poll(context) {
                Poll::Ready(Ok(answer)) => Poll::Ready(Ok(answer)),
                // The error that ended the connection says more, unless the server itself answered.
                Poll::Ready(Err(error)) => Poll::Ready(Err(match ended_by.take() {
                    Some(why) if error.as_db_error().is_none() => why.into(),
                    _ => error.into(),
                })),
                Poll::Pending if *is_over => {
                    Poll::Ready(Err(ended_by.take().map_or(Error::Closed, Error::from)))
                }
                Poll::Pending => Poll::Pending,
            }
        });
        let error = match wait.wait(driven, pass_bytes) {
            Ok(Ok(answer)) => return Ok(answer),
            Ok(Err(error)) => error,
            Err(WaitFailure::Interrupted) => return Err(Error::Interrupted),
            Err(silent) => silent.into(),
        };
        Err(match wait.monitor_in_force() {
            Some(monitor) => explained(monitor, error),
            None => error,
        })
    }
}

/// The error of a statement whose wait a monitor looked after.
fn explained(monitor: &mut WaitMonitor, error: Error) -> Error {
    let is = |code: &str| error.code().is_some_and(|has| has.code() == code);
    match (monitor.end(is(LOCK_TIMEOUT), is(CANCELLED)), error) {
        (WaitEnd::Interrupted, _) => Error::Interrupted,
        (WaitEnd::Blocked(by), Error::Failed(error)) => {
            Error::Blocked { error, limit: monitor.limit, by }
        }
        (_, error) => error,
    }
}

/// Takes the connection's messages; an error ends it. Pending: it is to be polled once more.
fn poll(
    connection: &mut Incoming,
    is_over: &mut bool,
    ended_by: &mut Option<tokio_postgres::Error>,
    context: &mut Context<'_>,
) -> Poll<()> {
    loop {
        match connection(context) {
            Poll::Ready(Some(Ok(_))) => continue,
            Poll::Ready(Some(Err(error))) => {
                let is_explained = error.as_db_error().is_some() || error.is_closed();
                if ended_by.is_none() && !is_explained {
                    // If sending failed, the server's last message is still unread: the runtime
                    // looks at the socket before the next poll.
                    *ended_by = Some(error);
                    context.waker().wake_by_ref();
                    return Poll::Pending;
                }
                *is_over = true;
                if ended_by.is_none() || error.as_db_error().is_some() {
                    *ended_by = Some(error);
                }
            }
            Poll::Ready(None) => *is_over = true,
            // After an error nothing more comes.
            Poll::Pending => *is_over = ended_by.is_some(),
        }
        return Poll::Ready(());
    }
}

impl Drop for Wire {
    /// Closes the connection, so that the server ends the session now.
    fn drop(&mut self) {
        let Self { connection, is_over, ended_by, wait } = self;
        if *is_over || wait.is_aborted() {
            return;
        }
        let closed = poll_fn(|context| {
            ready!(poll(connection, is_over, ended_by, context));
            if *is_over { Poll::Ready(()) } else { Poll::Pending }
        });
        // A peer that does not take it is left.
        let _ = wait.runtime.block_on(async { timeout(CLOSE_LIMIT, closed).await });
    }
}

/// Rows that COPY writes to a table.
pub struct CopyIn<'a> {
    wire: &'a mut Wire,
    sink: Pin<Box<CopyInSink<Bytes>>>,
}

impl CopyIn<'_> {
    pub fn send(&mut self, rows: Vec<u8>) -> Result<(), Error> {
        self.wire.wait(self.sink.send(rows.into()))
    }

    /// Ends the COPY and returns the number of rows that arrived.
    pub fn finish(mut self) -> Result<u64, Error> {
        self.wire.wait(poll_fn(|context| self.sink.as_mut().poll_finish(context)))
    }
}

/// Rows that COPY reads from a table.
pub struct CopyOut<'a> {
    wire: &'a mut Wire,
    stream: Pin<Box<CopyOutStream>>,
    chunk: Bytes,
}

impl Read for CopyOut<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let from = self.fill_buf()?;
        let length = from.len().min(into.len());
        into[..length].copy_from_slice(&from[..length]);
        self.consume(length);
        Ok(length)
    }
}

impl BufRead for CopyOut<'_> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        while self.chunk.is_empty() {
            let next = self.stream.next();
            match self.wire.wait(async { next.await.transpose() }).map_err(io::Error::other)? {
                Some(chunk) => self.chunk = chunk,
                None => break,
            }
        }
        Ok(&self.chunk)
    }

    fn consume(&mut self, length: usize) {
        self.chunk.advance(length);
    }
}

/// Asks the server to cancel a connection's statement.
pub struct CancelToken {
    token: tokio_postgres::CancelToken,
    connector: ServerConnector,
    place: ServerPlace,
    limit: Duration,
}

impl CancelToken {
    /// Asks the server to cancel, on a separate connection. No answer says whether it did.
    pub fn cancel(&self) {
        if let Ok(runtime) = runtime().build() {
            let asked = self.connector.cancel(&self.token, &self.place);
            let _ = runtime.block_on(async { timeout(self.limit, asked).await });
        }
    }
}
