//! One session: on which side its loop runs, and how another thread cancels what it is at.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use super::apart::Apart;
use super::errors::hint;
use super::link::{Connector, Link, LinkError};
use super::meta::{Meta, cell};
use super::patience::{DRIVER_FAILED, SILENCE};
use super::work::{Cancelling, SessionConfig, Work, refused};
use super::{session_client, session_server, sql};
use crate::engine::threads::Thread;
use crate::engine::{Cancel, EngineError, Outcomes, Session, SessionError, Stop};
use crate::settings::LoopSide;
use crate::workload::op::Operation;
use crate::workload::seat::Seat;

/// An operation before a run outlasts the stop by this at most.
const UNHEARD: Duration = Duration::from_secs(15);
const POLL: Duration = Duration::from_millis(100);

/// A session of a run. Its loop is executed by a thread of its own, which times each operation; so
/// one that no answer ends can be aborted.
pub struct OracleSession {
    worker: Apart<Worker>,
    rx: Receiver<Heard>,
    tx: Sender<Heard>,
    /// Why it is lost, once it is aborted.
    aborted: Option<SessionError>,
    cancelling: Arc<Cancelling>,
    place: String,
    /// How long an operation before a run may outlast the stop.
    unheard: Duration,
}

struct Worker {
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
    /// The worker's thread is no more.
    Died,
    Aborted,
}

/// Tells what came of a batch, also when nothing came of it.
struct Telling(Option<Sender<Heard>>);

impl Telling {
    fn tell(mut self, rx: Heard) {
        if let Some(tx) = self.0.take() {
            let _ = tx.send(rx);
        }
    }
}

impl Drop for Telling {
    fn drop(&mut self) {
        if let Some(tx) = self.0.take() {
            let _ = tx.send(Heard::Died);
        }
    }
}

impl OracleSession {
    pub fn new(
        link: Box<dyn Link>,
        place: &str,
        seat: Seat,
        config: SessionConfig,
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
        // One that cannot be told is not named when it is cancelled.
        let instance = link.query(&sql::section(sql::LOOK, "instance"), &[]).unwrap_or_default();
        let instance = instance.first().map(|row| cell(row, 0).to_owned()).unwrap_or_default();
        let (tx, rx) = channel();
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
            config,
            home: seat.schema,
            metas: metas.to_vec(),
            cancelling: Arc::clone(&cancelling),
            limit: None,
            text: Vec::new(),
        };
        let side = match config.loop_side {
            LoopSide::Client => Side::Client(session_client::ClientLoop::new(&work)),
            _ => Side::Server(session_server::ServerLoop::new()),
        };
        let name = format!("oracle {}", seat.session);
        // Nobody waits for goodbyes: hundreds of them, one after the other, take long.
        let worker = Apart::new(&name, Worker { work, side }, Duration::ZERO).map_err(|error| {
            EngineError::Environment(format!("{place}: session {}: {error}", seat.session))
        })?;
        let place = place.to_owned();
        Ok(Self { worker, rx, tx, aborted: None, cancelling, place, unheard: UNHEARD })
    }

    /// Of the instance that it came to; None where it is not known.
    pub fn instance(&self) -> Option<u64> {
        self.cancelling.instance.parse().ok()
    }

    /// Waits until somebody tells. Before a run nobody can sever: then it gives up by itself, a
    /// while after a stop was asked for.
    fn hear(&self, stop: &Stop) -> Heard {
        let mut asked_at: Option<Instant> = None;
        loop {
            match self.rx.recv_timeout(POLL) {
                Ok(rx) => return rx,
                Err(RecvTimeoutError::Disconnected) => return Heard::Died,
                Err(RecvTimeoutError::Timeout) => {}
            }
            let is_alone = stop.planned().is_none() && stop.is_requested();
            if is_alone && asked_at.get_or_insert_with(Instant::now).elapsed() >= self.unheard {
                return Heard::Aborted;
            }
        }
    }

    /// The session is lost.
    fn lose(&mut self, code: &str, why: &str) -> SessionError {
        let error = LinkError::connection(why);
        let error = SessionError {
            code: code.into(),
            message: format!("{}: {error}; {}", self.place, hint(&error)),
        };
        self.aborted = Some(error.clone());
        error
    }
}

impl Worker {
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
    /// What a aborted session had done of its last batch, a tenth of a second at most, is not known.
    fn execute(
        &mut self,
        batch: &[Operation],
        stop: &Stop,
        done: &mut Outcomes,
    ) -> Result<(), SessionError> {
        if let Some(error) = &self.aborted {
            return Err(error.clone());
        }
        let (batch, their_stop) = (batch.to_vec(), stop.clone());
        let telling = Telling(Some(self.tx.clone()));
        let mut outcomes = std::mem::take(done);
        self.worker.give(move |worker| {
            let result = worker.execute(&batch, &their_stop, &mut outcomes);
            telling.tell(Heard::Executed(outcomes, result));
        });
        match self.hear(stop) {
            Heard::Executed(outcomes, result) => {
                *done = outcomes;
                result
            }
            Heard::Aborted => {
                Err(self.lose("no-answer", "no answer in time, nor to being cancelled"))
            }
            Heard::Died => Err(self.lose("connection", DRIVER_FAILED)),
        }
    }

    fn canceller(&self) -> Box<dyn Cancel> {
        let shared = Arc::clone(&self.cancelling);
        Box::new(Canceller { shared, tx: self.tx.clone() })
    }
}

struct Canceller {
    shared: Arc<Cancelling>,
    tx: Sender<Heard>,
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
        let started = Thread::named("oracle cancels").start(move || {
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
        // Nor is one lost that finds no thread, as where hundreds are cancelled at once.
        if started.is_err() {
            self.shared.is_sending.store(false, Ordering::Release);
        }
    }

    /// Ends the waiting at once, without asking anybody; the thread that waits for the driver is
    /// left behind.
    fn abort(&self) {
        let _ = self.tx.send(Heard::Aborted);
    }
}

#[cfg(test)]
mod tests {
    use super::super::meta::Tables;
    use super::super::scripted::Scripted;
    use super::*;
    use crate::settings::RedoStress;
    use crate::workload::op::Kind;
    use crate::workload::row::Filler;
    use crate::workload::seat::Role;
    use std::sync::atomic::AtomicU8;

    #[test]
    fn warming_up_ends_though_the_database_is_silent_and_nobody_severs() {
        // Somebody asks to stop while the block is on its way.
        let level = Arc::<AtomicU8>::default();
        let raised = Arc::clone(&level);
        let scripted = Scripted::default().hangs_until("DECLARE", move |_| {
            raised.store(1, Ordering::Relaxed);
            false
        });
        let connector: Arc<dyn Connector> = Arc::new(scripted);
        let seat = Seat { session: 1, schema: 1, endpoint: 0, role: Role::Mixed };
        let config = SessionConfig {
            loop_side: LoopSide::Server,
            redo_stress: RedoStress::Lite,
            commit_wait: true,
        };
        let meta = Meta {
            schema: 1,
            tables: Tables::petals(1),
            rows: 64,
            scan_rows: 0,
            block_bytes: 8192,
            width: 128,
            filler: Filler::Constant,
            tablespace: "IOPS".into(),
            bytes: 0,
            index_bytes: 0,
            sizes_from: "",
            is_slobs: false,
        };
        let link = connector.session(0, "petal").unwrap();
        let mut session =
            OracleSession::new(link, "db1", seat, config, &[meta], &connector).unwrap();
        session.unheard = Duration::ZERO;
        let select = Operation {
            kind: Kind::Select,
            schema: 1,
            first: 1,
            rows: 1,
            stamp: 0,
            due: None,
            hot: [false; 2],
        };
        let error = session.execute(&[select], &Stop::unlimited(level), &mut Outcomes::default());
        assert_eq!(error.unwrap_err().code, "no-answer");
    }
}
