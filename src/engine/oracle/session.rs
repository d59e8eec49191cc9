//! One session: on which side its loop runs, and how another thread cancels what it is at.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use super::apart::Apart;
use super::errors::way_out;
use super::link::{Connector, Link, LinkError};
use super::meta::{Meta, cell};
use super::patience::SILENCE;
use super::work::{Cancelling, Manner, Work, refused};
use super::{session_client, session_server, sql};
use crate::engine::{Cancel, EngineError, Outcomes, Session, SessionError, Stop};
use crate::settings::LoopSide;
use crate::workload::op::Operation;
use crate::workload::seat::Seat;

/// A session of a run. Its loop is executed by a thread of its own, which times each operation; so
/// one that no answer ends can be severed.
pub struct OracleSession {
    bench: Apart<Bench>,
    heard: Receiver<Heard>,
    voice: Sender<Heard>,
    /// Why it is lost, once it is severed.
    severed: Option<SessionError>,
    cancelling: Arc<Cancelling>,
    place: String,
}

struct Bench {
    work: Work,
    side: Side,
}

enum Side {
    Server(session_server::ServerLoop),
    Client(session_client::ClientLoop),
}

/// What a session waits for.
enum Heard {
    Executed(Outcomes, Result<(), SessionError>),
    /// The bench's thread is no more.
    Died,
    Severed,
}

/// Tells what came of a batch, also when nothing came of it.
struct Telling(Option<Sender<Heard>>);

impl Telling {
    fn tell(mut self, heard: Heard) {
        if let Some(voice) = self.0.take() {
            let _ = voice.send(heard);
        }
    }
}

impl Drop for Telling {
    fn drop(&mut self) {
        if let Some(voice) = self.0.take() {
            let _ = voice.send(Heard::Died);
        }
    }
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
        if !metas.iter().any(|meta| meta.schema == seat.schema) {
            let missing = format!("{place}: schema {} is not loaded", seat.schema);
            return Err(EngineError::Data(missing));
        }
        let mut link = link;
        let (sid, serial) = link.identity();
        link.limit(Some(SILENCE)).map_err(|error| refused(place, &error))?;
        // Only for cancelling: one that cannot be told is not named.
        let instance = link.query(&sql::section(sql::LOOK, "instance"), &[]).unwrap_or_default();
        let instance = instance.first().map(|row| cell(row, 0).to_owned()).unwrap_or_default();
        let (voice, heard) = channel();
        let cancelling = Arc::new(Cancelling {
            requested: AtomicBool::new(false),
            is_sending: AtomicBool::new(false),
            connector: Arc::clone(connector),
            sid,
            serial,
            instance,
        });
        let work = Work {
            link,
            place: place.to_owned(),
            manner,
            home: seat.schema,
            metas: metas.to_vec(),
            cancelling: Arc::clone(&cancelling),
            limit: None,
            text: Vec::new(),
        };
        let side = match manner.loop_side {
            LoopSide::Client => Side::Client(session_client::ClientLoop::new(&work)),
            _ => Side::Server(session_server::ServerLoop::new()),
        };
        let name = format!("oracle {}", seat.session);
        // Nobody waits for goodbyes: hundreds of them, one after the other, take long.
        let bench = Apart::new(&name, Bench { work, side }, Duration::ZERO).map_err(|error| {
            EngineError::Environment(format!(
                "{place}: session {}: no thread for it: {error}; use fewer sessions",
                seat.session
            ))
        })?;
        let place = place.to_owned();
        Ok(Self { bench, heard, voice, severed: None, cancelling, place })
    }

    /// The session is lost.
    fn lose(&mut self, why: &str) -> SessionError {
        let error = LinkError::connection(why);
        let error = SessionError {
            code: error.name(),
            message: format!("{}: {error}; {}", self.place, way_out(&error)),
        };
        self.severed = Some(error.clone());
        error
    }
}

impl Bench {
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
}

impl Session for OracleSession {
    /// What a severed session had done of its last batch, a tenth of a second at most, is not known.
    fn execute(
        &mut self,
        batch: &[Operation],
        stop: &Stop,
        done: &mut Outcomes,
    ) -> Result<(), SessionError> {
        if let Some(error) = &self.severed {
            return Err(error.clone());
        }
        let (batch, stop) = (batch.to_vec(), stop.clone());
        let telling = Telling(Some(self.voice.clone()));
        let mut outcomes = std::mem::take(done);
        self.bench.give(move |bench| {
            let result = bench.execute(&batch, &stop, &mut outcomes);
            telling.tell(Heard::Executed(outcomes, result));
        });
        match self.heard.recv() {
            Ok(Heard::Executed(outcomes, result)) => {
                *done = outcomes;
                result
            }
            Ok(Heard::Severed) => Err(self.lose("no answer in time, nor to being cancelled")),
            Ok(Heard::Died) | Err(_) => Err(self.lose("the driver failed at the answer")),
        }
    }

    fn canceller(&self) -> Box<dyn Cancel> {
        let shared = Arc::clone(&self.cancelling);
        Box::new(Canceller { shared, voice: self.voice.clone() })
    }
}

struct Canceller {
    shared: Arc<Cancelling>,
    voice: Sender<Heard>,
}

impl Cancel for Canceller {
    /// Asks on a connection of the administrator's, from a thread of its own: a database that does
    /// not answer must not hold up the others. Who may not cancel waits for the driver's own limit.
    fn cancel(&self) {
        let shared = Arc::clone(&self.shared);
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

    /// Ends the waiting at once, without asking anybody; the thread that waits for the driver is
    /// left behind.
    fn sever(&self) {
        let _ = self.voice.send(Heard::Severed);
    }
}
