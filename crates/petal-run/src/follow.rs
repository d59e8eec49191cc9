//! A run in progress: follows it second by second, and stops its sessions.

use std::sync::atomic::Ordering;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use petal_engine::threads::Thread;
use petal_host::blocked::{BlockedThread, BlockedThreads};
use petal_judge::steady::proof::{self, EndConditions};
use petal_record::{SessionLost, Suspended, UntilSteadyResult};

use super::assemble;
use super::job::{Job, Prepared};
use super::neighbours::Neighbours;
use super::page_cache::PressureWatch;
use super::reconnect::Reconnects;
use super::run::Bounds;
use super::sampler::{Sampler, SessionCounts};
use super::session_pool::SessionPool;
use super::suspension::SuspensionWatch;

/// Time from the stop until an operation still in flight is cancelled and counted as cut.
const GRACE: Duration = Duration::from_secs(5);
/// Shorter grace after a signal: everything must be over, and recorded, within five seconds.
const GRACE_OF_SIGNAL: Duration = Duration::from_secs(3);
/// Time after its first cancel when a session that has not ended is given up as lost.
const ABORT_AFTER: Duration = Duration::from_secs(15);
/// Time after which a session with a closed connection is hung, if it waits for storage.
const HANGS: Duration = Duration::from_secs(2);
/// Longer time for a session that is not seen to wait for storage: its host may only be slow.
const STUCK_AFTER_UNKNOWN_STATE: Duration = Duration::from_secs(6);
/// Seconds in a row in which programs lack memory, after which petal frees its lock.
const STARVED_SECONDS: u32 = 3;
pub(super) const POLL: Duration = Duration::from_millis(100);

/// Observations during a run.
pub(super) struct RunObservations {
    pub until_steady: Option<UntilSteadyResult>,
    pub suspended: Option<Vec<Suspended>>,
}

/// Follows the run second by second until the last session has ended.
pub(super) fn follow<'scope>(
    job: &Job<'_>,
    prepared: &Prepared,
    mut pool: SessionPool<'scope>,
    sampler: &mut Sampler<'_>,
    bounds: &Bounds,
    (reconnects, neighbours): (Option<&Reconnects>, Option<&Neighbours<'_>>),
) -> (SessionPool<'scope>, RunObservations) {
    let suspension = SuspensionWatch::begin();
    let blocked = BlockedThreads::of(std::process::id());
    let mut stop_control = StopControl { stop_at: bounds.deadline, cancelled_at: None, blocked };
    let terms = steady_terms(job, prepared);
    let mut proven_from_s = None;
    let mut starved = prepared.locked.as_ref().map(|_| StarvedHost::new());
    loop {
        let is_over = pool.wait(sampler.due().min(Instant::now() + POLL));
        if is_over {
            break;
        }
        let now = Instant::now();
        if now >= sampler.due() {
            let left_s = bounds.deadline.saturating_duration_since(now).as_secs_f64();
            let standing = count_sessions(job, &pool);
            // A database that does not answer may delay this: signals are handled meanwhile.
            run_with_heartbeat(
                || sampler.tick(&standing),
                || stop_control.apply(job, &mut pool, bounds, reconnects),
            );
            let new = sampler.take_unseen();
            new.iter().for_each(|second| job.watch.second(second, &sampler.totals, left_s));
            if !new.is_empty() && proven_from_s.is_none() && now < stop_control.stop_at {
                let rows = sampler.timeline.rows_and_open();
                proven_from_s = terms.as_ref().and_then(|terms| proof::proven(rows, terms));
            }
            if proven_from_s.is_some() && !bounds.enough.swap(true, Ordering::Relaxed) {
                job.watch.note("the run is steady and ends (--until-steady)");
                stop_control.stop_at = now;
                pool.wake();
            }
        }
        if starved.as_mut().is_some_and(StarvedHost::is_proven)
            && !bounds.enough.swap(true, Ordering::Relaxed)
        {
            job.watch.note(
                "the run ends, because the locked memory (PAGE_CACHE_LIMIT) starves the host",
            );
            stop_control.stop_at = now;
            pool.wake();
        }
        if neighbours.is_some_and(Neighbours::has_given_up)
            && !bounds.enough.swap(true, Ordering::Relaxed)
        {
            job.watch.note("the run ends, because a neighbour failed at once");
            stop_control.stop_at = now;
            pool.wake();
        }
        stop_control.apply(job, &mut pool, bounds, reconnects);
    }
    let until_steady = terms.map(|terms| UntilSteadyResult {
        volume_bytes: terms.volume_bytes,
        steady_from_s: proven_from_s,
    });
    let suspended = suspension.and_then(SuspensionWatch::end);
    (pool, RunObservations { until_steady, suspended })
}

/// A host on which petal locked memory: programs that lack memory for some seconds starve.
struct StarvedHost {
    pressure: PressureWatch,
    seconds: u32,
}

impl StarvedHost {
    fn new() -> Self {
        Self { pressure: PressureWatch::begin(), seconds: 0 }
    }

    fn is_proven(&mut self) -> bool {
        match self.pressure.is_high() {
            Some(true) => self.seconds += 1,
            Some(false) => self.seconds = 0,
            None => {}
        }
        self.seconds >= STARVED_SECONDS
    }
}

/// Time at which the sessions are to stop, and time since when operations are cancelled.
struct StopControl {
    stop_at: Instant,
    cancelled_at: Option<Instant>,
    /// Threads that have waited for storage since then.
    blocked: BlockedThreads,
}

impl StopControl {
    /// Sets the stop on a signal, cancels operations that outlast it, and gives up silent connections.
    fn apply(
        &mut self,
        job: &Job<'_>,
        pool: &mut SessionPool<'_>,
        bounds: &Bounds,
        reconnects: Option<&Reconnects>,
    ) {
        let now = Instant::now();
        if let Some(reconnects) = reconnects {
            let since_ns = now.saturating_duration_since(bounds.trigger).as_nanos();
            reconnects.give_up_silent(since_ns as u64);
        }
        let signals = job.signals.load(Ordering::Relaxed);
        if signals > 0 {
            self.stop_at = self.stop_at.min(now);
            pool.wake();
        }
        let grace = if signals > 0 { GRACE_OF_SIGNAL } else { GRACE };
        if signals > 1 || now >= self.stop_at + grace {
            bounds.cutting.store(true, Ordering::Relaxed);
            pool.cancel();
            let waited = now.duration_since(*self.cancelled_at.get_or_insert(now));
            let blocked = self.blocked.look(now);
            if waited >= ABORT_AFTER {
                pool.abort();
            }
            let hangs = if blocked.is_empty() { STUCK_AFTER_UNKNOWN_STATE } else { HANGS };
            if waited >= ABORT_AFTER + hangs {
                let lost_ns = now.saturating_duration_since(bounds.trigger).as_nanos();
                let target = job.settings.db.redacted();
                let why = |tid| stuck(tid, &blocked, waited, &target);
                pool.abandon(u64::try_from(lost_ns).unwrap_or(u64::MAX), &why);
            }
        }
    }
}

/// Describes why a session was abandoned: its thread, and since when it waits.
fn stuck(
    tid: u32,
    blocked: &[(BlockedThread, Duration)],
    waited: Duration,
    target: &str,
) -> String {
    let own = blocked.iter().find(|(thread, _)| thread.tid == tid);
    let what = own.map_or_else(
        || format!("thread {tid} of process {}", std::process::id()),
        |(thread, _)| thread.to_string(),
    );
    let since = own.map_or(waited, |(_, since)| *since).as_secs();
    format!("{target} does not answer: {what} has not ended for at least {since} s")
}

/// Works on a separate thread, and calls `meanwhile` as long as that takes. If no thread can be
/// started, it still works: the second is kept, and signals are handled after it.
fn run_with_heartbeat(mut work: impl FnMut() + Send, mut meanwhile: impl FnMut()) {
    let (end_sender, ended) = mpsc::channel::<()>();
    let on_its_own = &mut work;
    let started = thread::scope(|scope| {
        // Its end is reported by the channel's.
        let started = Thread::named("sampling").start_in(scope, move || {
            let _dropped_at_end = end_sender;
            on_its_own();
        });
        while ended.recv_timeout(POLL) == Err(RecvTimeoutError::Timeout) {
            meanwhile();
        }
        started.is_ok()
    });
    if !started {
        work();
    }
}

/// Returns the terms on which a run may end early, or `None` if it may not.
fn steady_terms(job: &Job<'_>, prepared: &Prepared) -> Option<EndConditions> {
    let asked = job.settings.until_steady.as_ref()?;
    let writes = job.workload.writes(&job.plan);
    let once_over = || assemble::active_bytes(job, &prepared.target);
    let volume_bytes = asked.volume_bytes.unwrap_or_else(once_over);
    Some(EndConditions {
        window_s: asked.window.as_secs_f64(),
        warm_up_s: job.settings.warm_up_s(),
        writes,
        volume_bytes: if writes { volume_bytes } else { 0 },
    })
}

pub(super) fn count_sessions(job: &Job<'_>, pool: &SessionPool<'_>) -> SessionCounts {
    let lost = pool.ends().filter_map(|(index, end)| {
        let (at_ns, error) = end.lost.as_ref()?;
        Some(SessionLost {
            session: job.seats[index].session,
            at_s: *at_ns as f64 / 1e9,
            code: error.code.clone(),
            message: error.message.clone(),
        })
    });
    SessionCounts {
        running: pool.running() as u32,
        first_done_ns: pool.first_done_ns(),
        lost: lost.collect(),
    }
}
