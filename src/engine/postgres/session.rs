//! One session: its connection, what it knows of the data, how errors end it or not, and which
//! side the loop runs on.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio_postgres::Statement;

use super::client::{CancelToken, Client, Error};
use super::connect::{Endpoint, Opened, engine_error, way_out, way_out_of, words};
use super::meta::Meta;
use super::patience::{Line, Patience};
use super::{CAPABILITIES, Shared, plan, schema};
use super::{session_client, session_server, session_set};
use crate::engine::{CUT, Cancel, EngineError, Outcomes, Session, SessionError, Stop};
use crate::settings::{LoopSide, RedoStress};
use crate::workload::op::{Kind, Operation};
use crate::workload::row::COLUMNS;
use crate::workload::seat::Seat;

/// The SQLSTATE of a statement that was cancelled.
const CANCELLED: &str = "57014";
/// The code of a session whose connection was given up.
const NO_ANSWER: &str = "no-answer";
/// The first server that can be told to report a session's statistics at once.
pub const FLUSH_VERSION_MIN: u32 = 150_000;

/// A session on its endpoint; at a standby, with a second connection to the primary for UPDATEs.
pub struct PostgresSession {
    home: Connected,
    primary: Option<Connected>,
}

/// One connection, ready for operations.
struct Connected {
    work: Work,
    side: Side,
    flush: Option<Statement>,
}

enum Side {
    Server(session_server::ServerLoop),
    Client(session_client::ClientLoop),
    Set(session_set::SetLoop),
}

/// What every side of the loop works with.
pub struct Work {
    pub shared: Arc<Shared>,
    pub client: Client,
    pub server: String,
    pub home: u32,
    fillers: BTreeMap<u32, Meta>,
    cancelling: Arc<Cancelling>,
    /// The text of one UPDATE's columns, one after the other.
    text: Vec<u8>,
}

/// Why an operation did not end well.
pub enum Failure {
    /// The session goes on, or the run is over for it.
    Counted(Box<str>),
    Fatal(SessionError),
}

impl PostgresSession {
    /// `primary` where the endpoint is a standby, and the session may have to write.
    pub fn connect(
        shared: &Arc<Shared>,
        endpoint: &Endpoint,
        primary: Option<&Endpoint>,
        seat: Seat,
    ) -> Result<Self, EngineError> {
        let home = Connected::new(shared, endpoint, seat)?;
        let primary = primary.map(|primary| Connected::new(shared, primary, seat)).transpose()?;
        Ok(Self { home, primary })
    }
}

impl Connected {
    fn new(shared: &Arc<Shared>, endpoint: &Endpoint, seat: Seat) -> Result<Self, EngineError> {
        let Opened { mut client, process } =
            endpoint.open(&format!("petal session {}", seat.session))?;
        let server = endpoint.name.clone();
        let version = super::server_version(&mut client, &server)?;
        plan::apply(&mut client, &server, shared.prefetch)?;
        let failed = |error: Error| engine_error(&server, "preparing a session", &error);
        let flush = match version >= FLUSH_VERSION_MIN {
            true => Some(client.prepare("SELECT pg_stat_force_next_flush()").map_err(failed)?),
            false => None,
        };
        let cancelling = Arc::new(Cancelling {
            requested: AtomicBool::new(false),
            is_sending: AtomicBool::new(false),
            token: endpoint.cancel_token(&client),
            line: client.line(),
        });
        let mut work = Work {
            shared: Arc::clone(shared),
            client,
            server,
            home: seat.schema,
            fillers: BTreeMap::new(),
            cancelling,
            text: Vec::new(),
        };
        work.know(seat.schema)?;
        let side = match shared.loop_side {
            LoopSide::Server => Side::Server(session_server::ServerLoop::new(&mut work)?),
            LoopSide::Client => Side::Client(session_client::ClientLoop::new(&mut work)?),
            LoopSide::Set => Side::Set(session_set::SetLoop::new(&mut work)?),
        };
        shared.waits.watch(endpoint, process)?;
        Ok(Self { work, side, flush })
    }
}

impl Work {
    /// The filler of a schema; read when it is first needed.
    fn know(&mut self, number: u32) -> Result<&Meta, EngineError> {
        if !self.fillers.contains_key(&number) {
            let meta = Meta::read(&mut self.client, &self.server, number)?;
            self.fillers.insert(number, meta);
        }
        self.fillers.get(&number).ok_or_else(|| {
            EngineError::Data(format!("{}: schema {number} is not loaded", self.server))
        })
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
        let is_constant = meta.filler == crate::workload::row::Filler::Constant;
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
        match error.code() {
            Some(code) => self
                .failure_of(code.code(), stop, || format!("{}; {}", words(error), way_out(error))),
            None => Failure::Fatal(SessionError {
                code: if error.is_silence() { NO_ANSWER } else { "connection" }.to_owned(),
                message: format!("{}: {}; {}", self.server, words(error), way_out(error)),
            }),
        }
    }

    /// The same, of a failure that the routine noted.
    pub fn noted(&self, code: &str, message: &str, stop: &Stop) -> Failure {
        self.failure_of(code, stop, || format!("{message}; {}", way_out_of(code)))
    }

    fn failure_of(&self, code: &str, stop: &Stop, words: impl Fn() -> String) -> Failure {
        let is_cut = self.cancelling.requested.load(Ordering::Relaxed) || stop.is_cutting();
        if code == CANCELLED && is_cut {
            Failure::Counted(CUT.into())
        } else if CAPABILITIES.transient_errors.contains(&code) {
            Failure::Counted(code.into())
        } else {
            Failure::Fatal(SessionError {
                code: code.to_owned(),
                message: format!("{}: {}", self.server, words()),
            })
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

impl Connected {
    fn execute(
        &mut self,
        batch: &[Operation],
        stop: &Stop,
        done: &mut Outcomes,
    ) -> Result<(), SessionError> {
        self.work.cancelling.requested.store(false, Ordering::Relaxed);
        self.work.client.wait_with(match stop.planned() {
            Some(_) => Patience::UntilSevered,
            None => Patience::WhileItLives,
        });
        match &mut self.side {
            Side::Server(side) => side.execute(&mut self.work, batch, stop, done),
            Side::Client(side) => side.execute(&mut self.work, batch, stop, done),
            Side::Set(side) => side.execute(&mut self.work, batch, stop, done),
        }
    }

    fn flush(&mut self) -> Result<(), EngineError> {
        let Some(flush) = &self.flush else { return Ok(()) };
        self.work
            .client
            .execute(flush, &[])
            .map(|_| ())
            .map_err(|error| engine_error(&self.work.server, "flushing statistics", &error))
    }
}

impl Session for PostgresSession {
    fn execute(
        &mut self,
        batch: &[Operation],
        stop: &Stop,
        done: &mut Outcomes,
    ) -> Result<(), SessionError> {
        let Some(primary) = &mut self.primary else {
            return self.home.execute(batch, stop, done);
        };
        let mut from = 0;
        while let Some(rest) = batch.get(from..).filter(|rest| !rest.is_empty()) {
            let writes = rest[0].kind == Kind::Update;
            let length = rest.iter().take_while(|next| (next.kind == Kind::Update) == writes);
            let length = length.count();
            let before = done.ended.len();
            let side = if writes { &mut *primary } else { &mut self.home };
            let result = side.execute(&rest[..length], stop, done);
            let ended = done.ended.iter_mut().skip(before);
            ended.for_each(|outcome| outcome.operation += from as u32);
            result?;
            if done.ended.len() - before < length {
                break; // Only the stop can have ended it.
            }
            from += length;
        }
        Ok(())
    }

    fn flush_statistics(&mut self) -> Result<(), EngineError> {
        self.home.flush()?;
        self.primary.as_mut().map_or(Ok(()), Connected::flush)
    }

    fn canceller(&self) -> Box<dyn Cancel> {
        let connections = [Some(&self.home), self.primary.as_ref()];
        let cancelling = |connected: &Connected| Arc::clone(&connected.work.cancelling);
        Box::new(Canceller(connections.into_iter().flatten().map(cancelling).collect()))
    }
}

/// What a canceller and its session share.
struct Cancelling {
    requested: AtomicBool,
    is_sending: AtomicBool,
    token: CancelToken,
    line: Arc<Line>,
}

struct Canceller(Vec<Arc<Cancelling>>);

impl Cancel for Canceller {
    /// Asks on a connection of its own, from a thread of its own: a server that does not answer
    /// must not hold up the others.
    fn cancel(&self) {
        for shared in &self.0 {
            shared.requested.store(true, Ordering::Relaxed);
            if shared.is_sending.swap(true, Ordering::AcqRel) {
                continue;
            }
            let shared = Arc::clone(shared);
            std::thread::spawn(move || {
                // One that does not arrive is sent again: the driver asks until the session ends.
                let _ = shared.token.cancel();
                shared.is_sending.store(false, Ordering::Release);
            });
        }
    }

    /// Ends the waiting at once, without asking anybody.
    fn sever(&self) {
        for shared in &self.0 {
            shared.line.sever("no answer in time, nor to being cancelled");
        }
    }
}
