//! The end of a run: questions to a target that may not answer any more, the closing snapshot, and the
//! release of the sessions.

use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::Scope;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use petal_engine::EngineError;
use petal_engine::threads::Thread;
use petal_host::blocked::BlockedThreads;
use petal_host::os::{OsSample, Probe};
use petal_record::Details;
use petal_record::timeline::Shards;
use petal_workload::arrivals::ArrivalQueues;
use petal_workload::picker::Picker;

use super::assemble::{self, RunMeasurements};
use super::follow::{POLL, count_sessions};
use super::job::{Job, Prepared};
use super::prepare::unexpected_runs;
use super::run::{Bounds, survived};
use super::sampler::Sampler;
use super::server_report;
use super::session_pool::SessionPool;
use super::written::Writing;

/// Maximum wait after a signal for the target's storage to answer at a run's end.
const END_LIMIT: Duration = Duration::from_secs(15);

/// Questions at a run's end to a target whose storage may not answer any more.
pub(super) struct Closing<'scope, 'env> {
    scope: &'scope Scope<'scope, 'env>,
    job: &'env Job<'env>,
    /// Set if something hangs: no more questions are asked.
    hangs: bool,
    gaps: Vec<String>,
}

impl<'scope, 'env> Closing<'scope, 'env> {
    pub(super) fn new(
        scope: &'scope Scope<'scope, 'env>,
        job: &'env Job<'env>,
        hangs: bool,
    ) -> Self {
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
    pub(super) fn hangs(&self) -> Option<String> {
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
pub(super) fn count_never_begun(
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
pub(super) fn close<'scope, 'env>(
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
