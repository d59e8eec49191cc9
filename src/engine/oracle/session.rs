//! One session: on which side its loop runs, and how another thread cancels what it is at.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::link::{Connector, Link};
use super::meta::{Meta, cell};
use super::work::{Cancelling, Manner, Work};
use super::{session_client, session_server, sql};
use crate::engine::{Cancel, EngineError, Outcomes, Session, SessionError, Stop};
use crate::settings::LoopSide;
use crate::workload::op::Operation;
use crate::workload::seat::Seat;

pub struct OracleSession {
    work: Work,
    side: Side,
}

enum Side {
    Server(session_server::ServerLoop),
    Client(session_client::ClientLoop),
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
