//! A session: its link on a separate thread, its cancelling, and the side on which its loop runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::before_run::rds;
use super::database::Database;
use super::errors::{AtPlace, NO_SUCH_OPTION, hint, is_missing};
use super::link::{Connector, Destination, Link, LinkError};
use super::meta::{OracleSchema, cell};
use super::sql;
use super::timeouts::answered;
use super::work::{Batches, SessionConfig, Work};
use petal_engine::server::detached_worker::DetachedWorker;
use petal_engine::server::driver_panic::DRIVER_FAILED;
use petal_engine::server::failure::{CONNECTION, NO_ANSWER, not_loaded};
use petal_engine::server::identity::KnownServer;
use petal_engine::server::liveness::{AbortHandle, SILENCE, TICK};
use petal_engine::server::per_schema::KnownSchemas;
use petal_engine::server::session::{ABORTED, Canceller, SessionControl};
use petal_engine::server::sides::Side;
use petal_engine::{Batch, Cancel, EngineError, Result, Session, SessionError};
use petal_workload::seat::Seat;

/// Time from a stop until a session aborts its operation before a run, when the runner does not.
const ABORT_AFTER: Duration = Duration::from_secs(15);
/// Time for a cancelled call to end. The driver may miss the server's answer.
const KILL_AFTER: Duration = Duration::from_secs(3);

/// Session of a run. A detached worker executes its loop, because a call may never end.
pub struct OracleSession {
    worker: DetachedWorker<Worker>,
    control: Arc<SessionControl>,
    connection: Arc<AbortHandle>,
    batches: Batches,
    place: String,
    /// Number of the instance; empty if unknown.
    instance: String,
    abort_after: Duration,
}

struct Worker {
    work: Work,
    side: Side<Work>,
}

impl OracleSession {
    pub fn new(
        link: Box<dyn Link>,
        place: &str,
        seat: Seat,
        config: SessionConfig,
        metas: &[OracleSchema],
        connector: &Arc<dyn Connector>,
    ) -> Result<Self> {
        if !metas.iter().any(|meta| meta.about.schema == seat.schema) {
            return Err(not_loaded(place, seat.schema));
        }
        let (link, statements) =
            answered(SILENCE, move || prepared(link)).at(place, "connecting")?;
        let instance = statements.instance.clone();
        let (connection, connector) = (AbortHandle::new(), Arc::clone(connector));
        let is_killed = Arc::<AtomicBool>::default();
        let (killing, batches) = (Arc::clone(&is_killed), Batches::default());
        let in_flight = batches.clone();
        // A user who may not cancel waits for the driver's own limit.
        let control = SessionControl::new(Arc::clone(&connection), move || {
            let before_kill = || killing.store(true, Ordering::Relaxed);
            statements.send(connector.as_ref(), &in_flight, KILL_AFTER, before_kill);
        });
        let mut work = Work {
            link,
            place: place.to_owned(),
            config,
            metas: metas.to_vec(),
            control: Arc::clone(&control),
            is_killed,
            limit: None,
            schemas: KnownSchemas::new(seat.schema, config.redo_stress, KnownServer::default()),
            commit: config.commit_wait.then(|| sql::section(sql::OPERATIONS, "commit_and_wait")),
        };
        let side = Side::new(&mut work, config.loop_side)?;
        let (name, worker) = (format!("oracle {}", seat.session), Worker { work, side });
        // petal does not wait for connections to close: hundreds of them, one after the other, take
        // long.
        let worker = DetachedWorker::new(&name, worker, Arc::clone(&connection), Duration::ZERO);
        let worker = worker.map_err(|error| {
            EngineError::Environment(format!("{place}: session {}: {error}", seat.session))
        })?;
        let (place, abort_after) = (place.to_owned(), ABORT_AFTER);
        Ok(Self { worker, control, connection, batches, place, instance, abort_after })
    }

    /// Returns the number of the session's instance, or `None` if unknown.
    pub fn instance(&self) -> Option<u64> {
        self.instance.parse().ok()
    }

    fn lost(&self, reason: &str) -> SessionError {
        let code = if reason.starts_with(DRIVER_FAILED) { CONNECTION } else { NO_ANSWER };
        let error = LinkError::connection(reason);
        let message = format!("{}: {error}; {}", self.place, hint(&error));
        SessionError { code: code.to_owned(), message }
    }
}

/// Prepares a session for its loop; returns it with the statements that cancel it.
fn prepared(mut link: Box<dyn Link>) -> Result<(Box<dyn Link>, CancelStatements), LinkError> {
    link.limit(Some(SILENCE))?;
    let _ = use_hints(link.as_mut());
    let statements = CancelStatements::of(link.as_mut());
    Ok((link, statements))
}

/// Makes the session use hints, which Autonomous Database ignores by default; returns false if the
/// version lacks these parameters and always uses hints.
pub fn use_hints(link: &mut dyn Link) -> Result<bool, LinkError> {
    for name in ["use_hints", "use_parallel_hints"] {
        match link.execute(&sql::section(sql::OPERATIONS, name), &[]) {
            Ok(_) => {}
            Err(error) if error.code == Some(NO_SUCH_OPTION) => return Ok(false),
            Err(error) => return Err(error),
        }
    }
    Ok(true)
}

/// Statements, sent by another session, that end a session's current statement.
pub struct CancelStatements {
    cancel: EndStatement,
    kill: EndStatement,
    /// Number of the instance; empty if unknown, and then omitted.
    instance: String,
}

/// A statement about a session, and the procedure of Amazon RDS that replaces it there.
struct EndStatement {
    usual: String,
    in_rds: String,
}

impl EndStatement {
    fn of(name: &str, identity: (u64, u64), instance: &str) -> Self {
        let usual = about_session(name, identity, instance);
        Self { usual, in_rds: about_session(&format!("rds_{name}"), identity, instance) }
    }

    /// Sends it; returns false if the database did not do it.
    fn send(&self, admin: &mut Database) -> bool {
        match admin.link.execute(&self.usual, &[]) {
            Ok(_) => true,
            Err(error) => is_missing(&error) && rds(admin, &self.in_rds),
        }
    }
}

impl CancelStatements {
    pub fn of(link: &mut dyn Link) -> Self {
        let instance = link.query(&sql::section(sql::LOOK, "instance"), &[]).unwrap_or_default();
        let instance = instance.first().map(|row| cell(row, 0).to_owned()).unwrap_or_default();
        let [cancel, kill] =
            ["cancel", "kill"].map(|name| EndStatement::of(name, link.identity(), &instance));
        Self { cancel, kill, instance }
    }

    /// Cancels the batch in flight as the administrator. Kills the session if that fails, or if the
    /// same batch is still in flight after `kill_after`.
    pub fn send(
        &self,
        connector: &dyn Connector,
        batches: &Batches,
        kill_after: Duration,
        before_kill: impl FnOnce(),
    ) {
        let batch = batches.in_flight();
        let Ok(link) = connector.connect(Destination::Admin, "petal cancel") else { return };
        let mut admin = Database { link, place: String::new() };
        let is_in_flight = || batch.is_some() && batches.in_flight() == batch;
        // Release 12.2 has no CANCEL SQL.
        let is_sent = self.cancel.send(&mut admin);
        let until = Instant::now() + kill_after;
        while is_sent && is_in_flight() && Instant::now() < until {
            std::thread::sleep(TICK);
        }
        if !is_sent || is_in_flight() {
            before_kill();
            self.kill.send(&mut admin);
        }
    }
}

/// Returns a statement about a session, by its numbers in V$SESSION.
fn about_session(name: &str, (sid, serial): (u64, u64), instance: &str) -> String {
    let instance = match instance {
        "" => String::new(),
        number => format!(", @{number}"),
    };
    let (sid, serial) = (sid.to_string(), serial.to_string());
    let with = [("sid", &*sid), ("serial", &serial), ("instance", &instance)];
    sql::filled(sql::OPERATIONS, name, &with)
}

impl Session for OracleSession {
    /// Executes a batch. The last batch of an aborted session, about a tenth of a second, is
    /// unknown.
    fn execute(&mut self, batch: Batch<'_>) -> Result<(), SessionError> {
        let Batch { operations, stop, done, .. } = batch;
        let (connection, abort_after) = (&self.connection, self.abort_after);
        let mut stopped_at: Option<Instant> = None;
        let mut on_tick = |_| {
            let is_before_run = stop.planned().is_none() && stop.is_requested();
            if is_before_run && stopped_at.get_or_insert_with(Instant::now).elapsed() >= abort_after
            {
                connection.abort(ABORTED);
            }
        };
        let (operations, their_stop, mut outcomes) =
            (operations.to_vec(), stop.clone(), std::mem::take(done));
        let batches = self.batches.clone();
        let executed = self.worker.run(TICK, &mut on_tick, move |worker| {
            let batch = Batch::new(&operations, &their_stop, &mut outcomes);
            let result = batches.during(|| worker.side.execute(&mut worker.work, batch));
            (outcomes, result)
        });
        let (outcomes, result) = executed.map_err(|reason| self.lost(&reason))?;
        *done = outcomes;
        result
    }

    fn keep_alive(&mut self) {
        let _ = self.worker.run(TICK, &mut |_| (), |worker| {
            let _ = worker.work.link.execute("BEGIN NULL; END;", &[]);
        });
    }

    fn canceller(&self) -> Box<dyn Cancel> {
        Box::new(Canceller(vec![Arc::clone(&self.control)]))
    }
}

#[cfg(test)]
mod tests {
    use super::super::meta::Tables;
    use super::super::scripted::ScriptedOracle;
    use super::*;
    use petal_engine::server::meta_table::SchemaMeta;
    use petal_engine::server::scripted::operation;
    use petal_engine::{Outcomes, Stop};
    use petal_settings::{LoopSide, RedoStress};
    use petal_workload::op::Kind;
    use petal_workload::row::Filler;
    use petal_workload::seat::Role;
    use std::sync::atomic::AtomicU8;

    #[test]
    fn warming_up_ends_though_the_database_is_silent_and_no_abort_comes() {
        // A stop is requested while the block is running.
        let level = Arc::<AtomicU8>::default();
        let raised = Arc::clone(&level);
        let scripted = ScriptedOracle::default().hangs_until("DECLARE", move |_| {
            raised.store(1, Ordering::Relaxed);
            false
        });
        let connector: Arc<dyn Connector> = Arc::new(scripted);
        let seat = Seat { session: 1, schema: 1, endpoint: 0, role: Role::Mixed };
        let config = SessionConfig {
            loop_side: LoopSide::Server,
            redo_stress: RedoStress::Lite,
            commit_wait: true,
            updates: true,
        };
        let meta = OracleSchema {
            about: SchemaMeta {
                schema: 1,
                rows: 64,
                scan_rows: 0,
                block_bytes: 8192,
                filler: Filler::Constant,
                unique_index: None,
                load: String::new(),
            },
            tables: Tables::own(1),
            width: 128,
            tablespace: "IOPS".into(),
            bytes: None,
            index_bytes: None,
            sizes_from: "",
            is_slobs: false,
        };
        let link = connector.connect(Destination::Endpoint(0), "petal").unwrap();
        let mut session =
            OracleSession::new(link, "db1", seat, config, &[meta], &connector).unwrap();
        session.abort_after = Duration::ZERO;
        let batch = [operation(Kind::Select, 1, 1, 1)];
        let error =
            session.execute(Batch::new(&batch, &Stop::unlimited(level), &mut Outcomes::default()));
        assert_eq!(error.unwrap_err().code, "no-answer");
    }
}
