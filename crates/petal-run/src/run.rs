//! Runs once: settle, connect all, trigger together, run, stop, settle the counters, record.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use time::OffsetDateTime;

use petal_engine::threads::Thread;
use petal_engine::{EngineError, ProgressUnit, Stop};
use petal_host::devices::DataDevices;
use petal_host::os::{OsSample, Probe};
use petal_record::counters::Counters;
use petal_record::latency_log::{self, LatencyLog};
use petal_record::seconds::{self, Opening, SecondsFile};
use petal_record::timeline::Shards;
use petal_record::{HookCall, RecordError, RecordFolder, Run};
use petal_workload::arrivals::ArrivalQueues;

use super::close::{Closing, close, count_never_begun};
use super::experiments::Experiments;
use super::facts::FactsWatch;
use super::follow::follow;
use super::hooks::{HookError, Waiting};
use super::job::{Job, Prepared, Start};
use super::neighbours::Neighbours;
use super::prepare::prepare;
use super::reconnect::Reconnects;
use super::sampler::{Parts, Sampler};
use super::session_pool::SessionPool;
use super::trigger::Trigger;
use super::watching::Watching;
use super::written::Writing;
use super::{RunError, assemble, calibrated, hooks, server_report};

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
pub(super) struct Bounds {
    pub trigger: Instant,
    pub deadline: Instant,
    pub cutting: Arc<AtomicBool>,
    /// Set when the run is proven steady, if that ends it.
    pub enough: Arc<AtomicBool>,
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

/// Calls `work`; a panic affects only this work. Rust has then reported the failure.
pub(super) fn survived<T>(work: impl FnOnce() -> T) -> Result<T, EngineError> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|_| {
        let why = "this failed inside petal: please report it, with the output on stderr";
        EngineError::Database(why.to_owned())
    })
}
