//! One session: its connections, how its work is cut, and which side the loop runs on.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio_postgres::Statement;

use super::client::Error;
use super::connect::{Endpoint, FLUSH_VERSION_MIN, Opened, engine_error, server_version};
use super::patience::Patience;
use super::work::{Cancelling, Shared, Work};
use super::{plan, session_client, session_server, session_set};
use crate::engine::threads::Thread;
use crate::engine::{Cancel, EngineError, Outcomes, Session, SessionError, Stop};
use crate::settings::LoopSide;
use crate::workload::op::{Kind, Operation};
use crate::workload::seat::Seat;

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
        let Opened { mut client, process, .. } =
            endpoint.open(&format!("petal session {}", seat.session))?;
        let server = endpoint.name.clone();
        let version = server_version(&mut client, &server)?;
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
            metas: BTreeMap::new(),
            cancelling,
            text: Vec::new(),
        };
        work.know(seat.schema)?;
        let side = match shared.loop_side {
            LoopSide::Server => Side::Server(session_server::ServerLoop::new(&mut work)?),
            LoopSide::Client => Side::Client(session_client::ClientLoop::new(&mut work)?),
            LoopSide::Set => Side::Set(session_set::SetLoop::new(&mut work)?),
        };
        // In a run a lock is waited for as long as the role says.
        work.client
            .batch_execute("RESET lock_timeout")
            .map_err(|error| engine_error(&work.server, "preparing a session", &error))?;
        shared.waits.watch(endpoint, process)?;
        Ok(Self { work, side, flush })
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

    fn flush(&mut self) -> Result<(), SessionError> {
        let Some(flush) = &self.flush else { return Ok(()) };
        let mut flushed = self.work.client.execute(flush, &[]);
        if flushed.as_ref().is_err_and(|error| self.work.is_cut(error)) {
            // It was meant for the operation before, which has ended.
            flushed = self.work.client.execute(flush, &[]);
        }
        flushed.map(|_| ()).map_err(|error| self.work.loss(&error))
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

    fn flush_statistics(&mut self) -> Result<(), SessionError> {
        self.home.flush()?;
        self.primary.as_mut().map_or(Ok(()), Connected::flush)
    }

    fn canceller(&self) -> Box<dyn Cancel> {
        let connections = [Some(&self.home), self.primary.as_ref()];
        let cancelling = |connected: &Connected| Arc::clone(&connected.work.cancelling);
        Box::new(Canceller(connections.into_iter().flatten().map(cancelling).collect()))
    }
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
            let at_work = Arc::clone(shared);
            let started = Thread::named("cancels").start(move || {
                // One that does not arrive is sent again: the driver asks until the session ends.
                let _ = at_work.token.cancel();
                at_work.is_sending.store(false, Ordering::Release);
            });
            if started.is_err() {
                shared.is_sending.store(false, Ordering::Release);
            }
        }
    }

    /// Ends the waiting at once, without asking anybody.
    fn abort(&self) {
        for shared in &self.0 {
            shared.line.abort("no answer in time, nor to being cancelled");
        }
    }
}
