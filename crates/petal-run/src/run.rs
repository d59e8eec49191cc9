//! Runs once: settle, connect all, trigger together, run, stop, settle the counters, record.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::{self, Scope};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use time::OffsetDateTime;

use petal_engine::threads::Thread;
use petal_engine::{EngineError, ProgressUnit, Stop};
use petal_host::blocked::{BlockedThread, BlockedThreads};
use petal_host::devices::DataDevices;
use petal_host::os::{OsSample, Probe};
use petal_judge::steady::proof::{self, EndConditions};
use petal_record::counters::Counters;
use petal_record::latency_log::{self, LatencyLog};
use petal_record::seconds::{self, Opening, SecondsFile};
use petal_record::timeline::Shards;
use petal_record::{
    Details, HookCall, RecordError, RecordFolder, Run, SessionLost, Suspended, UntilSteadyResult,
};
use petal_workload::arrivals::ArrivalQueues;
use petal_workload::picker::Picker;

use super::assemble::{self, RunMeasurements};
use super::calibrated;
use super::experiments::Experiments;
use super::facts::FactsWatch;
use super::hooks::{HookError, Waiting};
use super::job::{Job, Prepared, Start};
use super::neighbours::Neighbours;
use super::page_cache::PressureWatch;
use super::prepare::{prepare, unexpected_runs};
use super::reconnect::Reconnects;
use super::sampler::{Parts, Sampler, SessionCounts};
use super::session_pool::SessionPool;
use super::suspension::SuspensionWatch;
use super::trigger::Trigger;
use super::watching::Watching;
use super::written::Writing;
use super::{RunError, hooks, server_report};

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
/// Maximum wait after a signal for the target's storage to answer at a run's end.
const END_LIMIT: Duration = Duration::from_secs(15);
/// Seconds in a row in which programs lack memory, after which petal frees its lock.
const STARVED_SECONDS: u32 = 3;
const POLL: Duration = Duration::from_millis(100);
const HOOK_LIMIT: Duration = Duration::from_secs(600);
const HOOK_NAMED_AFTER: Duration = Duration::from_secs(10);

/// Runs to the end and hands the record, not yet judged, to `keep`. Its gaps name the parts that
/// could not be kept; an error means that nothing was measured.
///
/// If storage hangs, some threads cannot be ended. `keep` then gets a text about them, and must not
/// return: petal leaves them behind.
pub fn run<T>(job: &Job<'_>, keep: impl FnOnce(Run, Option<String>) -> T) -> Result<T, RunError> {
    let prepared = Arc::new(prepare(job)?);
    let (trigger, shards) = (Trigger::default(), Shards::new(job.seats.len()));
    let arrivals = ArrivalQueues::new(&job.workload, &job.seats, &job.plan);
    let experiments = Experiments::of(job);
    let neighbours = Neighbours::of(job);
    let reconnects = Reconnects::of(job);
    thread::scope(|scope| {
        // Sessions that wait for the trigger would keep the scope for ever.
        let _call_off = trigger.call_off_at_end();
        let connecting = Instant::now();
        job.watch.phase("connecting", job.seats.len() as u64, ProgressUnit::Items);
        let cache_blocks = prepared.cache_blocks;
        let pool = SessionPool::connect_all(
            scope,
            job,
            cache_blocks,
            &trigger,
            &shards,
            arrivals.as_ref(),
            (experiments.as_ref(), reconnects.as_ref()),
        )?;
        let connect_s = connecting.elapsed().as_secs_f64();
        let facts = FactsWatch::begin(job, &prepared);
        let (opening, hooks, report_gaps) = begin(job, &prepared)?;
        let mut files = RunFiles::open(job, &prepared, job.start.expected(&prepared));
        let opening_os = wait_for_trigger(job, &prepared).inspect_err(|_| files.discard(job))?;
        let writing = Writing::begin(job, &prepared, opening_os.as_ref());
        let started_at = OffsetDateTime::now_utc();
        let stop = start_sessions(job, &trigger);
        let conducting = experiments.as_ref().map(|experiments| {
            let (opening, trigger) = (opening.clone(), stop.trigger);
            let conduct = move || {
                let ended = survived(|| experiments.conduct(job, &opening, trigger));
                ended.unwrap_or_else(|why| experiments.failed(&why));
            };
            Thread::named("experiments").start_in(scope, conduct)
        });
        let neighboured = neighbours.as_ref().map(|neighbours| {
            let trigger = stop.trigger;
            let conduct = move || survived(|| neighbours.conduct(job, trigger)).err();
            Thread::named("neighbours").start_in(scope, conduct)
        });
        let mut sampler = Sampler::new(Parts {
            engine: job.engine,
            watching: prepared
                .probe
                .as_ref()
                .zip(opening_os.clone())
                .map(|(probe, opening)| Watching::new(probe, opening)),
            counts_database: job.counts_database(),
            local: prepared.details.local,
            shards: &shards,
            trigger: stop.trigger,
            warm_up_s: job.settings.warm_up_s(),
            planned_s: job.settings.run_time.as_secs_f64(),
            opening,
            opening_os: opening_os.clone(),
            file: files.seconds,
            latency_log: files.latency_log,
            experiments: experiments.as_ref(),
            facts: Some(facts),
            neighbours: neighbours.as_ref(),
        });
        sampler.gaps.extend(prepared.gaps.iter().cloned());
        sampler.gaps.extend(files.gaps);
        sampler.gaps.extend(report_gaps);
        let (pool, followed) = follow(
            job,
            &prepared,
            pool,
            &mut sampler,
            &stop,
            (reconnects.as_ref(), neighbours.as_ref()),
        );
        if let Some((experiments, conducting)) = experiments.as_ref().zip(conducting) {
            experiments.end();
            match conducting {
                Ok(thread) => thread.thread().unpark(),
                Err(error) => sampler.gaps.push(format!("no experiments were made: {error}")),
            }
        }
        if let Some((neighbours, conducting)) = neighbours.as_ref().zip(neighboured) {
            neighbours.end();
            let ended = conducting.map_err(EngineError::from).map(|thread| {
                thread.thread().unpark();
                thread.join().ok().flatten()
            });
            let failure = ended.unwrap_or_else(Some);
            sampler.gaps.extend(failure.map(|why| format!("the neighbours ended early: {why}")));
        }
        let backlog =
            arrivals.as_ref().map(|queues| count_never_begun(job, queues, &pool, &shards));
        let end_ns = pool.ends().map(|(_, end)| end.ended_ns).max().unwrap_or(0);
        let mut closing = Closing::new(scope, job, pool.is_abandoned());
        let measured = close(&mut closing, &prepared, pool, sampler, &stop, opening_os, writing);
        let hangs = closing.hangs();
        let drives = prepared.devices.as_ref().and_then(DataDevices::drives).unwrap_or_default();
        let mut run = assemble::run(job, &prepared, measured, started_at);
        match hangs {
            Some(_) => std::mem::forget(prepared),
            None => drop(prepared), // The data are in use no more.
        }
        let kept_in = job.settings.calibrations.as_deref();
        run.details.calibrated = calibrated::find(kept_in, &drives, &run);
        run.details.connect_s = Some(connect_s);
        run.details.experiments = experiments.as_ref().map(Experiments::made);
        run.details.connections = reconnects.as_ref().map(|it| it.losses(end_ns));
        let folder = job.folder.map(RecordFolder::path);
        run.details.interference =
            neighbours.as_ref().map(|it| it.made(folder, run.details.target.local));
        run.details.backlog = backlog;
        run.details.until_steady = followed.until_steady;
        run.details.suspended = followed.suspended;
        run.details.hooks = hooks;
        Ok(keep(run, hangs))
    })
}

/// Opening snapshots of the database, the call of the hook, and the gaps of the database's own
/// report.
type RunOpening = (Vec<Counters>, Vec<HookCall>, Vec<String>);

/// Performs the last steps before the trigger: the hook, then the database's own report and the
/// opening snapshots, so that the report's cost is in no figure.
fn begin(job: &Job<'_>, prepared: &Prepared) -> Result<RunOpening, RunError> {
    let hooks = call_hook(job, "pre")?;
    job.check_interrupted()?;
    job.start.wait_for_snapshot(job, prepared)?;
    let report_gaps = server_report::begin(job);
    job.engine.begin_counting();
    let opening = survived(|| job.snapshot()).flatten()?;
    Ok((opening, hooks.into_iter().collect(), report_gaps))
}

/// Waits for the common trigger. The operating system is sampled shortly before it, after the files
/// are begun, which may take long on a busy host.
fn wait_for_trigger(job: &Job<'_>, prepared: &Prepared) -> Result<Option<OsSample>, RunError> {
    job.start.wait_for_sample(job, prepared)?;
    let sample = prepared.probe.as_ref().map(Probe::sample);
    job.start.wait_for_trigger(job, prepared)?;
    Ok(sample)
}

/// Calls EXTERNAL_SCRIPT, on the first host only: with `pre` before the trigger, with `post` right
/// after [`run`], with `end` when all files are written. The failure of a later call affects no
/// figure.
///
/// Before the trigger one signal calls everything off. Afterwards the figures exist, and a second
/// signal is needed to abandon the script.
pub(crate) fn call_hook(job: &Job<'_>, moment: &str) -> Result<Option<HookCall>, RunError> {
    let script = job.settings.external_script.as_deref().filter(|_| job.share.is_first());
    let Some((script, folder)) = script.zip(job.folder) else { return Ok(None) };
    let enough = if moment == "pre" { 1 } else { 2 };
    let give_up = || job.signals.load(Ordering::Relaxed) >= enough;
    let note = |line: &str| job.watch.note(line);
    let (limit, named_after) = (HOOK_LIMIT, HOOK_NAMED_AFTER);
    let waiting = Waiting { limit, named_after, give_up: &give_up, note: &note };
    match hooks::call(script, moment, folder, &job.hooks, &waiting) {
        Ok(call) => Ok(Some(call)),
        Err(HookError::Interrupted { .. }) => Err(EngineError::Interrupted.into()),
        Err(error) => Err(RunError::Hook(error.to_string())),
    }
}

/// Files that are written during the run. If one cannot be begun, it is a gap and not a failure.
#[derive(Default)]
struct RunFiles {
    seconds: Option<SecondsFile>,
    latency_log: Option<LatencyLog>,
    gaps: Vec<String>,
}

impl RunFiles {
    fn open(job: &Job<'_>, prepared: &Prepared, started_at: OffsetDateTime) -> Self {
        let mut files = Self::default();
        let Some(folder) = job.folder else { return files };
        let opening = Opening::new(assemble::opening(job, prepared, started_at));
        let seconds = SecondsFile::begin(folder, &opening);
        files.seconds = files.keep(seconds, "no seconds are kept");
        let log = LatencyLog::begin(folder, started_at.into());
        files.latency_log = files.keep(log, "latencies by second are not kept");
        files
    }

    /// Keeps an opened file; a failure is a gap with the lost content and the reason.
    fn keep<T>(&mut self, file: Result<T, RecordError>, lost: &str) -> Option<T> {
        file.inspect_err(|error| self.gaps.push(format!("{lost}: {error}"))).ok()
    }

    /// Removes the files of a run that was called off before its trigger.
    fn discard(&mut self, job: &Job<'_>) {
        *self = Self::default();
        for name in [seconds::NAME, latency_log::NAME] {
            // A file that cannot be removed holds no second.
            let _ = job.folder.map(|folder| folder.opened()?.remove(name.as_ref()));
        }
    }
}

/// Bounds of a run in progress.
struct Bounds {
    trigger: Instant,
    deadline: Instant,
    cutting: Arc<AtomicBool>,
    /// Set when the run is proven steady, if that ends it.
    enough: Arc<AtomicBool>,
}

fn start_sessions(job: &Job<'_>, trigger: &Trigger) -> Bounds {
    let now = Instant::now();
    let deadline = now + job.settings.run_time;
    let cutting = Arc::<AtomicBool>::default();
    let enough = Arc::<AtomicBool>::default();
    let stop = Stop::until(now, Some(deadline), job.signals.clone(), cutting.clone());
    trigger.start_sessions(stop.or_when(enough.clone()));
    // The first of hosts that run together shows all of them.
    let sessions = match job.start {
        Start::Together(_) => job.plan.len(),
        Start::AtOnce | Start::At(_) => job.seats.len(),
    };
    job.watch.triggered(sessions as u32, job.settings.run_time.as_secs_f64());
    Bounds { trigger: now, deadline, cutting, enough }
}

/// Observations during a run.
struct RunObservations {
    until_steady: Option<UntilSteadyResult>,
    suspended: Option<Vec<Suspended>>,
}

/// Follows the run second by second until the last session has ended.
fn follow<'scope>(
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

fn count_sessions(job: &Job<'_>, pool: &SessionPool<'_>) -> SessionCounts {
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

/// Calls `work`; a panic affects only this work. Rust has then reported the failure.
fn survived<T>(work: impl FnOnce() -> T) -> Result<T, EngineError> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|_| {
        let why = "this failed inside petal: please report it, with the output on stderr";
        EngineError::Database(why.to_owned())
    })
}

/// Questions at a run's end to a target whose storage may not answer any more.
struct Closing<'scope, 'env> {
    scope: &'scope Scope<'scope, 'env>,
    job: &'env Job<'env>,
    /// Set if something hangs: no more questions are asked.
    hangs: bool,
    gaps: Vec<String>,
}

impl<'scope, 'env> Closing<'scope, 'env> {
    fn new(scope: &'scope Scope<'scope, 'env>, job: &'env Job<'env>, hangs: bool) -> Self {
        Self { scope, job, hangs, gaps: Vec::new() }
    }

    /// Does `work` on a thread that is abandoned if it does not end after a signal. A server's
    /// engine waits for its answers itself.
    fn ask<T: Send + 'scope>(
        &mut self,
        what: &str,
        work: impl FnOnce() -> T + Send + 'scope,
    ) -> Option<T> {
        if self.hangs {
            self.gaps.push(format!("{what} is unknown: the storage of the target does not answer"));
            return None;
        }
        if !self.job.engine.support().is_in_process() {
            let answer = survived(work);
            return answer
                .inspect_err(|why| self.gaps.push(format!("{what} is unknown: {why}")))
                .ok();
        }
        let (sender, answer) = mpsc::channel();
        let work = Arc::new(Mutex::new(Some(work)));
        let of_thread = Arc::clone(&work);
        let do_it = move || {
            let work = of_thread.lock().take();
            drop(survived(|| work.map(|work| sender.send(work()))));
        };
        if Thread::named("closing").start_in(self.scope, do_it).is_err() {
            let work = work.lock().take();
            return work.map(|work| work());
        }
        let mut signalled: Option<Instant> = None;
        loop {
            match answer.recv_timeout(POLL) {
                Ok(answer) => return Some(answer),
                Err(RecvTimeoutError::Disconnected) => {
                    self.gaps.push(format!(
                        "{what} is unknown: this failed inside petal: please report it, with the \
                         output on stderr"
                    ));
                    return None;
                }
                Err(RecvTimeoutError::Timeout) if self.job.is_interrupted() => {
                    let since = *signalled.get_or_insert_with(Instant::now);
                    if since.elapsed() >= END_LIMIT {
                        self.hangs = true;
                        self.gaps.push(format!(
                            "{what} is unknown: {} had not answered {} s after a signal",
                            match self.job.engine.server() {
                                Some(_) => "the server",
                                None => "the storage of the target",
                            },
                            END_LIMIT.as_secs()
                        ));
                        return None;
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }

    /// Describes the hanging sessions, or returns `None` if nothing hangs.
    fn hangs(&self) -> Option<String> {
        let threads = BlockedThreads::of(std::process::id()).look(Instant::now());
        let threads: Vec<_> = threads.iter().map(|(thread, _)| format!("\n{thread}")).collect();
        let target = self.job.settings.db.redacted();
        self.hangs.then(|| match threads.as_slice() {
            [] if self.job.engine.server().is_some() => format!(
                "{target}: the server does not answer, and petal leaves now; see whether it is \
                 stopped, or something on the network path holds its packets back"
            ),
            [] => format!("{target}: the storage does not answer, and petal leaves now"),
            threads => format!(
                "{target}: the storage does not answer, and petal leaves now. Threads that wait for \
                 storage:{}",
                threads.concat()
            ),
        })
    }
}

/// Counts the operations that were due and never begun; response times contain them. If the deck
/// draws the kinds, it draws theirs here.
fn count_never_begun(
    job: &Job<'_>,
    queues: &ArrivalQueues,
    pool: &SessionPool<'_>,
    shards: &Shards,
) -> u64 {
    let ended_ns = pool.ends().map(|(_, end)| end.ended_ns).max().unwrap_or(0);
    let end = Duration::from_nanos(ended_ns).min(job.settings.run_time);
    let most = pool.ends().fold(0, |sum: u64, (_, end)| sum.saturating_add(end.left));
    let end_ns = end.as_nanos() as u64;
    let mut never_begun = 0;
    for (index, queue) in queues.with_seats() {
        let seat = job.seats[index];
        let mut deck = Picker::new(&job.workload, seat);
        shards.count(seat.session, end_ns.saturating_sub(1), |tally| {
            queue.take_all(end, most - never_begun, |arrival, count| {
                let kind = arrival.kind.unwrap_or_else(|| deck.next_step().operation.kind);
                never_begun += count;
                tally.add_never_begun(kind, end_ns - arrival.due.as_nanos() as u64, count);
            });
        });
    }
    never_begun
}

/// Takes the closing snapshot and releases the sessions.
fn close<'scope, 'env>(
    closing: &mut Closing<'scope, 'env>,
    prepared: &Arc<Prepared>,
    pool: SessionPool<'scope>,
    mut sampler: Sampler<'_>,
    bounds: &Bounds,
    opening_os: Option<OsSample>,
    writing: Option<Writing<'_>>,
) -> RunMeasurements {
    let job = closing.job;
    let standing = count_sessions(job, &pool);
    let last_end_ns = pool.ends().map(|(_, end)| end.last_end_ns).max().unwrap_or(0);
    let elapsed_s = match last_end_ns {
        0 => bounds.trigger.elapsed().as_secs_f64(),
        ns => ns as f64 / 1e9,
    };
    let last_done_ns = pool.ends().map(|(_, end)| end.ended_ns).max().unwrap_or(0);
    // A session that thinks or waits at the end is done later than its last operation.
    sampler.finish(elapsed_s.max(last_done_ns as f64 / 1e9), &standing);
    job.watch.ended(&sampler.take_unseen(), &sampler.totals);
    let mut gaps = std::mem::take(&mut sampler.gaps);
    let mut bad_blocks = Vec::new();
    match closing.ask("the outcome of background work", || job.engine.quiesce()) {
        None | Some(Ok(())) => {}
        Some(Err(EngineError::Data(what))) => bad_blocks.push(what),
        Some(Err(EngineError::Environment(what))) => gaps.push(what),
        Some(Err(error)) => gaps.push(format!("background work did not end cleanly: {error}")),
    }
    let all_ended = job.start.wait_for_others(job, bounds.deadline);
    let (counters, counted_until) = sampler.close_counters(survived(|| job.snapshot()).flatten());
    gaps.append(&mut sampler.gaps);
    let counter_resets = sampler.counter_resets();
    let ended_s = bounds.trigger.elapsed().as_secs_f64();
    let facts = sampler.take_facts().map(|facts| survived(|| facts.end(prepared, ended_s)));
    let facts = facts.and_then(Result::ok).map(|(proof, unread)| {
        gaps.extend(unread);
        proof
    });
    let os = prepared.probe.as_ref().map(Probe::sample).zip(opening_os);
    // Of a run whose closing snapshot failed, or whose storage hangs, they are unknown.
    let writing = writing.filter(|_| counted_until.is_none() && !closing.hangs);
    let written = writing.and_then(|writing| survived(|| writing.end(&mut sampler)).ok()).flatten();
    let (server_reports, report_gaps) = survived(|| server_report::end(job))
        .unwrap_or_else(|why| (Default::default(), vec![format!("the database's report: {why}")]));
    gaps.extend(report_gaps);
    let data_bytes = closing.ask("the size of the data at the end", || job.engine.data_bytes());
    let data_bytes = data_bytes.transpose().unwrap_or_else(|error| {
        gaps.push(format!("how large the data are at the end is unknown: {error}"));
        None
    });
    let begun = Arc::clone(prepared);
    let in_use =
        closing.ask("who else uses the data at the end", move || still_in_use(job, &begun));
    let (other_runs, data_vanished) = match in_use {
        None => (prepared.other_runs.clone(), None),
        Some((runs, vanished, unknown)) => {
            gaps.extend(unknown);
            (runs, vanished)
        }
    };
    let plan = || job.engine.plan(job.workload.schemas);
    let plan_after = match closing.ask("the plans at the end of the run", plan) {
        None => None,
        Some(Ok(plan)) => plan,
        Some(Err(error)) => {
            // If the tables are gone, their plan is not a gap.
            if data_vanished.is_none() {
                gaps.push(format!("the plans at the end of the run are not known: {error}"));
            }
            None
        }
    };
    let seconds = |ns: u64| ns as f64 / 1e9;
    let ends: Vec<u64> = pool.ends().map(|(_, end)| end.ended_ns).collect();
    match closing.hangs {
        true => pool.dismiss(),
        false => drop(closing.ask("how the sessions disconnected", || pool.dismiss())),
    }
    gaps.append(&mut closing.gaps);
    let (os_ranges, os_intervals, os_seconds) = sampler.take_samples(job.folder);
    gaps.append(&mut sampler.gaps);
    let mut known = assemble::details_known(job, prepared);
    facts.into_iter().for_each(|proof| known.keep_facts(proof));
    RunMeasurements {
        elapsed_s,
        all_ended,
        totals: sampler.totals,
        steady: sampler.steady.close(),
        counters,
        counted_until,
        os: os.map(|(closing, opening)| closing.since(&opening)),
        os_ranges,
        os_intervals,
        os_seconds,
        lost: standing.lost,
        server_reports,
        details: Details {
            timeline: sampler.timeline.finish().0.into(),
            data_bytes_after: data_bytes.flatten(),
            other_runs,
            data_vanished,
            plan_after,
            first_done_s: ends.iter().copied().min().map(seconds),
            last_done_s: ends.iter().copied().max().map(seconds),
            gaps,
            counter_resets,
            bad_blocks,
            written,
            ..known
        },
    }
}

/// Returns other runs on the same data, at the begin and now; the reason if the data are gone; and
/// any unknown parts of that.
fn still_in_use(job: &Job<'_>, prepared: &Prepared) -> (Vec<String>, Option<String>, Vec<String>) {
    let mut gaps = Vec::new();
    let mut runs = prepared.other_runs.clone();
    match prepared.data_use.other_runs().map(|now| unexpected_runs(job, now)) {
        Ok(now) => runs.extend(now.into_iter().filter(|run| !prepared.other_runs.contains(run))),
        Err(error) => gaps.push(format!("who else ran on the same data is not known: {error}")),
    }
    let vanished = prepared.data_use.vanished().unwrap_or_else(|error| {
        gaps.push(format!("whether the data are still there is not known: {error}"));
        None
    });
    (runs, vanished, gaps)
}
