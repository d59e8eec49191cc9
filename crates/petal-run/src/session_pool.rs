//! Sessions of a run, a thread each: connected in parallel, triggered together, their ends
//! reported. Sessions stay connected until the closing snapshot is taken.

use std::num::NonZeroU64;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::{Scope, ScopedJoinHandle};
use std::time::{Duration, Instant};

use rustix::thread::{gettid, set_current_timer_slack};

use petal_engine::threads::Thread;
use petal_engine::{Batch, Cancel, EngineError, Outcomes, Result, Session, SessionError, Stop};
use petal_record::timeline::Shards;
use petal_settings::WarmUp;
use petal_workload::arrivals::{ArrivalQueue, ArrivalQueues};
use petal_workload::op::Operation;
use petal_workload::picker::Picker;
use petal_workload::plan::schemas_of;
use petal_workload::seat::Seat;

use super::RunError;
use super::experiments::Experiments;
use super::job::Job;
use super::ledger::SessionLedger;
use super::reconnect::Reconnects;
use super::session::{SessionEnd, SessionLoop};
use super::trigger::Trigger;

/// Stack size of a session's thread: drivers and SQLite need little, and a thousand sessions should
/// not need much memory.
const STACK_BYTES: usize = 512 << 10;
const POLL: Duration = Duration::from_millis(100);
/// Message of a session whose thread panicked; Rust prints the panic on stderr.
const PANICKED: &str = "this failed inside petal: please report it, with the output on stderr";

/// Code of a session that does not end because storage does not answer.
pub const STUCK: &str = "stuck";

/// Message from a session to the runner.
enum SessionReport {
    Ready(Box<dyn Cancel>),
    Refused(EngineError),
    Ended(Box<SessionEnd>),
}

/// All sessions of a run.
pub struct SessionPool<'scope> {
    members: Vec<Member<'scope>>,
    /// Set if some sessions hang, and are no longer waited for.
    is_abandoned: bool,
    /// Reports, each with the index of its seat.
    reports: Receiver<(usize, SessionReport)>,
}

struct Member<'scope> {
    /// Number of the thread in the system; 0 until it has begun.
    tid: Arc<AtomicU32>,
    thread: ScopedJoinHandle<'scope, Option<Box<dyn Session>>>,
    cancel: Option<Box<dyn Cancel>>,
    end: Option<SessionEnd>,
}

impl<'scope> SessionPool<'scope> {
    /// Starts and connects every session. If one cannot connect, the run is called off.
    pub fn connect_all<'env>(
        scope: &'scope Scope<'scope, 'env>,
        job: &'env Job<'env>,
        cache_blocks: u64,
        trigger: &'env Trigger,
        shards: &'env Shards,
        arrivals: Option<&'env ArrivalQueues>,
        (experiments, reconnects): (Option<&'env Experiments>, Option<&'env Reconnects>),
    ) -> Result<Self, RunError> {
        let (sender, reports) = channel();
        let mut pool =
            Self { members: Vec::with_capacity(job.seats.len()), is_abandoned: false, reports };
        for (index, &seat) in job.seats.iter().enumerate() {
            let sender = sender.clone();
            // The runner may have given the run up and left.
            let report = move |report| drop(sender.send((index, report)));
            let thread = Thread::named(format!("session {}", seat.session));
            let tid = Arc::<AtomicU32>::default();
            let own = Arc::clone(&tid);
            let queue = arrivals.and_then(|queues| queues.of_seat(index));
            let started = thread.stack_bytes(STACK_BYTES).start_in(scope, move || {
                own.store(gettid().as_raw_nonzero().get().unsigned_abs(), Ordering::Relaxed);
                let parts = (seat, queue, experiments, reconnects);
                attend(job, parts, cache_blocks, trigger, shards, &report)
            });
            let thread = started.inspect_err(|_| trigger.call_off())?;
            pool.members.push(Member { tid, thread, cancel: None, end: None });
        }
        pool.wait_until_ready(job).inspect_err(|_| trigger.call_off())?;
        Ok(pool)
    }

    fn wait_until_ready(&mut self, job: &Job<'_>) -> Result<(), RunError> {
        let sessions = self.members.len();
        let mut ready = 0;
        while ready < sessions {
            match self.reports.recv_timeout(POLL) {
                Ok((index, SessionReport::Ready(cancel))) => {
                    self.members[index].cancel = Some(cancel);
                    ready += 1;
                    job.watch.advance(1);
                }
                Ok((_, SessionReport::Refused(_))) if job.is_interrupted() => {
                    return Err(EngineError::Interrupted.into());
                }
                Ok((index, SessionReport::Refused(error))) => {
                    let (session, sessions) = (job.seats[index].session, sessions as u32);
                    return Err(RunError::Connect { session, sessions, error });
                }
                Ok((_, SessionReport::Ended(_))) => unreachable!("nothing ends before the trigger"),
                Err(_) if job.is_interrupted() => return Err(EngineError::Interrupted.into()),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(EngineError::Database("a session's thread died".into()).into());
                }
            }
        }
        Ok(())
    }

    /// Waits for ends until `until`; returns true if every session has ended.
    pub fn wait(&mut self, until: Instant) -> bool {
        while self.running() > 0 {
            let left = until.saturating_duration_since(Instant::now());
            match self.reports.recv_timeout(left) {
                Ok((index, SessionReport::Ended(end))) => {
                    self.members[index].end.get_or_insert(*end);
                }
                Ok(_) => {}
                Err(_) => return false,
            }
        }
        true
    }

    pub fn running(&self) -> usize {
        self.members.iter().filter(|member| member.end.is_none()).count()
    }

    /// Returns the first end of a session that was not lost, since the trigger.
    pub fn first_done_ns(&self) -> Option<u64> {
        let survivors = self.ends().filter(|(_, end)| end.lost.is_none());
        survivors.map(|(_, end)| end.ended_ns).min()
    }

    /// Returns ends so far, by index of the seat.
    pub fn ends(&self) -> impl Iterator<Item = (usize, &SessionEnd)> {
        self.members.iter().enumerate().filter_map(|(i, member)| Some((i, member.end.as_ref()?)))
    }

    /// Wakes sessions that think or wait for their next operation.
    pub fn wake(&self) {
        self.members.iter().for_each(|member| member.thread.thread().unpark());
    }

    /// Cancels the operation in flight of every running session.
    pub fn cancel(&self) {
        self.cancels().for_each(|cancel| cancel.cancel());
    }

    /// Gives up the connection of every running session.
    pub fn abort(&self) {
        self.cancels().for_each(|cancel| cancel.abort());
    }

    /// Gives up every running session as lost, and waits for none of them any more. `why` describes
    /// the state of a system thread.
    pub fn abandon(&mut self, lost_ns: u64, why: &dyn Fn(u32) -> String) {
        for member in self.members.iter_mut().filter(|member| member.end.is_none()) {
            let message = why(member.tid.load(Ordering::Relaxed));
            let error = SessionError { code: STUCK.to_owned(), message };
            let lost = Some((lost_ns, error));
            member.end = Some(SessionEnd { ended_ns: lost_ns, lost, ..SessionEnd::default() });
            self.is_abandoned = true;
        }
    }

    /// True if sessions hang.
    pub fn is_abandoned(&self) -> bool {
        self.is_abandoned
    }

    fn cancels(&self) -> impl Iterator<Item = &dyn Cancel> {
        let running = self.members.iter().filter(|member| member.end.is_none());
        running.filter_map(|member| member.cancel.as_deref())
    }

    /// Disconnects all sessions; none if some hang, because their storage may be the same.
    pub fn dismiss(self) {
        if self.is_abandoned {
            return std::mem::forget(self);
        }
        for member in self.members {
            drop(member.thread.join());
        }
    }
}

/// Runs a session's thread from connect to end. It returns the session, which is closed after the
/// closing snapshot.
fn attend(
    job: &Job<'_>,
    (seat, arrivals, experiments, reconnects): (
        Seat,
        Option<&ArrivalQueue>,
        Option<&Experiments>,
        Option<&Reconnects>,
    ),
    cache_blocks: u64,
    trigger: &Trigger,
    shards: &Shards,
    report: &dyn Fn(SessionReport),
) -> Option<Box<dyn Session>> {
    let connect = || {
        let mut session = job.engine.connect(seat)?;
        let schemas = schemas_of(seat, &job.plan, job.workload.schemas);
        visit(job, &schemas, session.as_mut())?;
        warm(job, &schemas, cache_blocks, session.as_mut())?;
        Ok((session, schemas))
    };
    // A panic affects only its session, which must still report: the run waits for every session.
    let connected = catch_unwind(AssertUnwindSafe(connect))
        .unwrap_or_else(|_| Err(EngineError::Database(PANICKED.to_owned())));
    let (mut session, schemas) =
        connected.map_err(|error| report(SessionReport::Refused(error))).ok()?;
    let canceller = session.canceller();
    let mut reconnecting = reconnects.map(|it| it.attach(job, seat, &mut session));
    let canceller = reconnecting.as_ref().map_or(canceller, Session::canceller);
    report(SessionReport::Ready(canceller));
    let Some(stop) = trigger.wait() else {
        return Some(session);
    };
    // Linux lets a sleeping thread oversleep by 50 us to save power; a response time would contain
    // them. If it refuses, the record shows how late the sessions awoke.
    let _ = set_current_timer_slack(NonZeroU64::new(1));
    let work_loop = job.workload.work_loop;
    let clock = stop.clone();
    let at_work = SessionLoop {
        seat,
        session: match &mut reconnecting {
            Some(session) => session,
            None => session.as_mut(),
        },
        is_one_by_one: reconnects.is_some(),
        is_timed: job.settings.waterfall,
        picker: Picker::new(&job.workload, seat).visiting(schemas),
        arrivals,
        claimed: None,
        left: if work_loop == 0 { u64::MAX } else { work_loop },
        stop,
        shards,
        scan_rows: &job.scan_rows(),
        experiments,
        ledger: job.ledger.map(|file| SessionLedger::new(file, &job.workload, seat.session)),
    };
    let ended = catch_unwind(AssertUnwindSafe(|| at_work.run()));
    let is_whole = ended.is_ok();
    let end = ended.unwrap_or_else(|_| {
        let lost_ns = clock.since_trigger_ns(Instant::now());
        // Its batch is no longer under way.
        shards.fold(seat.session, std::iter::empty());
        let error = SessionError { code: "panic".to_owned(), message: PANICKED.to_owned() };
        SessionEnd { ended_ns: lost_ns, lost: Some((lost_ns, error)), ..SessionEnd::default() }
    });
    report(SessionReport::Ended(Box::new(end)));
    is_whole.then_some(session)
}

/// Runs one SELECT in each schema of a session with several, so that no operation of the run pays
/// for an engine's first use of a schema. It is not counted: the opening snapshot comes later.
fn visit(job: &Job<'_>, schemas: &[u32], session: &mut dyn Session) -> Result<()> {
    if schemas.len() < 2 {
        return Ok(());
    }
    let stop = Stop::unlimited(job.signals.clone());
    for &schema in schemas {
        read(session, schema, 1, job.workload.work_unit, &stop)?;
    }
    session.flush_statistics().map_err(before_the_trigger)
}

/// Reads its schemas in key order for WARM_UP=cache, until the cache has been filled twice over, or
/// the data is read. It is not counted either.
fn warm(
    job: &Job<'_>,
    schemas: &[u32],
    cache_blocks: u64,
    session: &mut dyn Session,
) -> Result<()> {
    if job.settings.warm_up != WarmUp::Cache {
        return Ok(());
    }
    let stop = Stop::unlimited(job.signals.clone());
    let rows = u64::from(job.workload.work_unit);
    let end = job.workload.rows.min(cache_blocks.saturating_mul(2));
    for first in (1..=end).step_by(rows as usize) {
        let rows = rows.min(job.workload.rows - first + 1) as u32;
        for &schema in schemas {
            read(session, schema, first, rows, &stop)?;
        }
    }
    session.flush_statistics().map_err(before_the_trigger)
}

/// Runs one SELECT before the trigger.
fn read(session: &mut dyn Session, schema: u32, first: u64, rows: u32, stop: &Stop) -> Result<()> {
    let operation = Operation::select(schema, first, rows);
    let mut done = Outcomes::default();
    let done = session.execute(Batch::new(&[operation], stop, &mut done));
    done.map_err(before_the_trigger)?;
    if stop.is_requested() { Err(EngineError::Interrupted) } else { Ok(()) }
}

fn before_the_trigger(error: SessionError) -> EngineError {
    EngineError::Environment(format!("reading before the trigger failed: {error}"))
}
