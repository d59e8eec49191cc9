//! One session: its link, what it knows of the data, how errors end it or not, and which side the
//! loop runs on.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::errors::{CANCELLED, TRANSIENT, engine_error, way_out};
use super::link::{Connector, Kind as Failed, Link, LinkError};
use super::meta::{Meta, cell};
use super::{session_client, session_server, sql};
use crate::engine::{CUT, Cancel, EngineError, Outcomes, Session, SessionError, Stop};
use crate::settings::{LoopSide, RedoStress};
use crate::workload::op::Operation;
use crate::workload::row::Filler;
use crate::workload::seat::Seat;

/// An operation may outlast the stop by this; then the driver itself breaks the call off, also
/// where nobody may cancel it from outside.
const GRACE: Duration = Duration::from_secs(6);
/// Where there is no deadline.
const CALL_MAX: Duration = Duration::from_secs(3600);
/// A limit is set anew when it would be off by so much.
const LIMIT_STEP: Duration = Duration::from_secs(5);

/// What a run does, the same for all its sessions.
#[derive(Debug, Clone, Copy)]
pub struct Manner {
    pub loop_side: LoopSide,
    pub redo_stress: RedoStress,
    pub commit_wait: bool,
}

pub struct OracleSession {
    work: Work,
    side: Side,
}

enum Side {
    Server(session_server::ServerLoop),
    Client(session_client::ClientLoop),
}

/// What every side of the loop works with.
pub struct Work {
    pub link: Box<dyn Link>,
    pub place: String,
    pub manner: Manner,
    pub home: Meta,
    /// Schema 1, where HOT_SCHEMA_FREQUENCY sends operations.
    pub hot: Meta,
    cancelling: Arc<Cancelling>,
    /// How long calls may take now, and since when that is set.
    limit: Option<(Duration, Instant)>,
    /// The text of one UPDATE's columns, one after the other.
    text: Vec<u8>,
}

/// Why an operation did not end well.
pub enum Failure {
    /// The session goes on, or the run is over for it.
    Counted(Box<str>),
    Fatal(SessionError),
}

impl OracleSession {
    pub fn new(
        link: Box<dyn Link>,
        place: &str,
        seat: Seat,
        manner: Manner,
        metas: &[Meta],
        connector: &Arc<dyn Connector>,
    ) -> Result<Self, EngineError> {
        let of =
            |schema: u32| {
                metas.iter().find(|meta| meta.schema == schema).cloned().ok_or_else(|| {
                    EngineError::Data(format!("{place}: schema {schema} is not loaded"))
                })
            };
        let mut link = link;
        let (sid, serial) = link.identity();
        // Only for cancelling: one that cannot be told is not named.
        let instance = link.query(&sql::section(sql::LOOK, "instance"), &[]).unwrap_or_default();
        let instance = instance.first().map(|row| cell(row, 0).to_owned()).unwrap_or_default();
        let work = Work {
            link,
            place: place.to_owned(),
            manner,
            home: of(seat.schema)?,
            hot: of(1).or_else(|_| of(seat.schema))?,
            cancelling: Arc::new(Cancelling {
                requested: AtomicBool::new(false),
                is_sending: AtomicBool::new(false),
                connector: Arc::clone(connector),
                sid,
                serial,
                instance,
            }),
            limit: None,
            text: Vec::new(),
        };
        let side = match manner.loop_side {
            LoopSide::Client => Side::Client(session_client::ClientLoop::new(&work)),
            _ => Side::Server(session_server::ServerLoop::new(&work)),
        };
        Ok(Self { work, side })
    }
}

impl Work {
    pub fn changed_columns(&self) -> usize {
        sql::changed_columns(self.manner.redo_stress)
    }

    /// Characters of each column; schemas of one target have the same.
    pub fn width(&self) -> usize {
        self.home.width
    }

    /// All columns of an UPDATE hold the same text.
    pub fn is_constant(&self) -> bool {
        self.home.filler == Filler::Constant && self.hot.filler == Filler::Constant
    }

    /// The new text of an UPDATE's columns, `columns` of them.
    pub fn filler(&mut self, operation: &Operation, columns: usize) -> &str {
        let meta = if operation.schema == self.home.schema { &self.home } else { &self.hot };
        let (width, filler) = (self.home.width, meta.filler);
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
            message: format!("{}: {error}; {}", self.place, way_out(error)),
        }
    }
}

impl Session for OracleSession {
    fn execute(
        &mut self,
        batch: &[Operation],
        stop: &Stop,
        done: &mut Outcomes,
    ) -> Result<(), SessionError> {
        match &mut self.side {
            Side::Server(side) => side.execute(&mut self.work, batch, stop, done),
            Side::Client(side) => side.execute(&mut self.work, batch, stop, done),
        }
    }

    fn canceller(&self) -> Box<dyn Cancel> {
        Box::new(Canceller(Arc::clone(&self.work.cancelling)))
    }
}

/// What a canceller and its session share.
struct Cancelling {
    requested: AtomicBool,
    is_sending: AtomicBool,
    connector: Arc<dyn Connector>,
    sid: u64,
    serial: u64,
    /// Its number; empty where it is not known.
    instance: String,
}

struct Canceller(Arc<Cancelling>);

impl Cancel for Canceller {
    /// Asks on a connection of the administrator's, from a thread of its own: a database that does
    /// not answer must not hold up the others. Who may not cancel waits for the driver's own limit.
    fn cancel(&self) {
        let shared = Arc::clone(&self.0);
        shared.requested.store(true, Ordering::Relaxed);
        if shared.is_sending.swap(true, Ordering::AcqRel) {
            return;
        }
        std::thread::spawn(move || {
            let (sid, serial) = (shared.sid.to_string(), shared.serial.to_string());
            let instance = match shared.instance.as_str() {
                "" => String::new(),
                number => format!(", @{number}"),
            };
            let with = [("sid", &*sid), ("serial", &serial), ("instance", &instance)];
            let cancel = sql::filled(sql::OPERATIONS, "cancel", &with);
            // One that does not arrive is sent again: the driver asks until the session ends.
            let _ = shared
                .connector
                .admin("petal cancel")
                .and_then(|mut link| link.execute(&cancel, &[]));
            shared.is_sending.store(false, Ordering::Release);
        });
    }
}

/// A session that could not be opened.
pub fn refused(place: &str, error: &LinkError) -> EngineError {
    engine_error(place, "connecting", error)
}
