//! A session: its connections, and the side of its loop. At a standby it has a second connection,
//! to the primary, for UPDATEs.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio_postgres::Statement;

use super::connect::{Endpoint, FLUSH_VERSION_MIN, OpenedConnection, is_refusal, server_version};
use super::work::{Shared, Work};
use super::{plan, servers};
use petal_engine::server::per_schema::{KnownSchemas, SchemaWork as _};
use petal_engine::server::session::{Canceller, SessionControl};
use petal_engine::server::sides::Side;
use petal_engine::{Batch, Cancel, Result, Session, SessionError};
use petal_workload::op::Kind;
use petal_workload::seat::Seat;

const FLUSH: &str = "SELECT pg_catalog.pg_stat_force_next_flush()";

/// A session on its endpoint; at a standby, with a second connection to the primary for UPDATEs.
pub struct PostgresSession {
    home: ConnectedSession,
    primary: Option<ConnectedSession>,
}

/// A connection that is ready for operations.
struct ConnectedSession {
    work: Work,
    side: Side<Work>,
    flush: Option<Statement>,
}

impl PostgresSession {
    /// `primary` if the endpoint is a standby, and the session may have to write.
    pub fn connect(
        shared: &Arc<Shared>,
        endpoint: &Endpoint,
        primary: Option<&Endpoint>,
        seat: Seat,
    ) -> Result<Self> {
        let home = ConnectedSession::new(shared, endpoint, seat)?;
        let primary =
            primary.map(|primary| ConnectedSession::new(shared, primary, seat)).transpose()?;
        Ok(Self { home, primary })
    }
}

impl ConnectedSession {
    fn new(shared: &Arc<Shared>, endpoint: &Endpoint, seat: Seat) -> Result<Self> {
        let OpenedConnection { mut client, process, .. } =
            endpoint.open(&format!("petal session {}", seat.session))?;
        let doing = "preparing a session";
        if shared.known.is_compared() {
            let (system, timeline) = servers::identity(&mut client)?;
            shared.known.check(&endpoint.name, system, timeline)?;
        }
        let version = server_version(&mut client)?;
        plan::apply(&mut client, shared.prefetch)?;
        let flush = match version >= FLUSH_VERSION_MIN {
            true => match client.prepare(FLUSH) {
                Ok(flush) => Some(flush),
                Err(error) if is_refusal(&error) => None,
                Err(error) => return Err(client.error(doing, &error)),
            },
            false => None,
        };
        let token = endpoint.cancel_token(&client);
        let control = SessionControl::new(client.abort_handle(), move || token.cancel());
        let mut work = Work {
            shared: Arc::clone(shared),
            client,
            schemas: KnownSchemas::new(seat.schema, shared.redo_stress, shared.known.clone()),
            control,
        };
        work.meta(seat.schema)?;
        let side = Side::new(&mut work, shared.loop_side)?;
        // In a run a lock is waited for as long as the role says.
        work.client.run(doing, "RESET lock_timeout")?;
        shared.waits.watch(endpoint, process)?;
        let mut connected = Self { work, side, flush };
        // Reads of the preparation are counted before the run.
        connected.first_flush()?;
        Ok(connected)
    }

    /// A role that may not flush reports at the end of its sessions.
    fn first_flush(&mut self) -> Result<()> {
        if let Some(flush) = &self.flush
            && let Err(error) = self.work.client.execute(flush, &[])
        {
            match is_refusal(&error) {
                true => self.flush = None,
                false => return Err(self.work.client.error("flushing its statistics", &error)),
            }
        }
        if self.flush.is_none() {
            self.work.shared.reports_late.store(true, Ordering::Relaxed);
        }
        Ok(())
    }

    fn execute(&mut self, batch: Batch<'_>) -> Result<(), SessionError> {
        self.side.execute(&mut self.work, batch)
    }

    fn flush(&mut self) -> Result<(), SessionError> {
        let Some(flush) = &self.flush else { return Ok(()) };
        let mut flushed = self.work.client.execute(flush, &[]);
        if flushed.as_ref().is_err_and(|error| self.work.is_cut(error)) {
            // The request to cancel was for the operation before, which has ended.
            flushed = self.work.client.execute(flush, &[]);
        }
        flushed.map(|_| ()).map_err(|error| self.work.loss(&error))
    }
}

impl Session for PostgresSession {
    fn execute(&mut self, batch: Batch<'_>) -> Result<(), SessionError> {
        let Some(primary) = &mut self.primary else {
            return self.home.execute(batch);
        };
        let Batch { operations, stop, done, .. } = batch;
        let mut from = 0;
        while let Some(rest) = operations.get(from..).filter(|rest| !rest.is_empty()) {
            let writes = rest[0].kind == Kind::Update;
            let length = rest.iter().take_while(|next| (next.kind == Kind::Update) == writes);
            let length = length.count();
            let before = done.ended.len();
            let side = if writes { &mut *primary } else { &mut self.home };
            let result = side.execute(Batch::new(&rest[..length], stop, done));
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
        self.primary.as_mut().map_or(Ok(()), ConnectedSession::flush)
    }

    fn keep_alive(&mut self) {
        let connections = [Some(&mut self.home), self.primary.as_mut()].into_iter().flatten();
        connections.for_each(|connected| connected.work.client.pass_bytes());
    }

    fn server(&self) -> Option<String> {
        let writes = self.primary.as_ref().unwrap_or(&self.home);
        Some(writes.work.client.server.clone())
    }

    fn canceller(&self) -> Box<dyn Cancel> {
        let connections = [Some(&self.home), self.primary.as_ref()].into_iter().flatten();
        let controls = connections.map(|connected| Arc::clone(&connected.work.control));
        Box::new(Canceller(controls.collect()))
    }
}
