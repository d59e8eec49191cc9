//! Sessions that outlive their connection (`--on-disconnect retry`). A session that loses its
//! connection makes a new one, at the server that takes its work, until the run is over.
//!
//! The operation in flight fails and is not repeated: whether it was committed is in doubt.
//! Operations that become due meanwhile keep their time, so that response times contain the outage.

use std::collections::{BTreeMap, HashSet};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rand::{RngExt as _, SeedableRng as _};
use rand_xoshiro::Xoshiro256PlusPlus;

use petal_engine::server::failure::NOT_LOADED;
use petal_engine::{Batch, Cancel, EngineError, INTERRUPTED, Outcome, Session, SessionError, Stop};
use petal_record::connections::{
    ConnectionLoss, ConnectionLosses, DoubtfulCommit, LOSSES_MAX, Silence, SuccessStep,
};
use petal_workload::op::{Kind, Operation};
use petal_workload::seat::Seat;

use super::job::Job;

/// First and longest pause between two attempts to connect. With fewer than ten sessions the longest
/// is shorter, so that one of them tries about every 10 ms.
const PAUSE: Range<Duration> = Duration::from_millis(10)..Duration::from_millis(100);
/// Successes are kept in bins of this length, each with its first and its last success.
const BIN_NS: u64 = 10_000_000;
/// Shortest time without a success that is kept.
const SILENCE_NS: u64 = 2 * BIN_NS;
const SILENCES_MAX: usize = 10_000;
const STEP_BINS: u64 = 10;
/// Bins that are kept before a loss and after a reconnection: half a minute.
const KEPT_BINS: u64 = 30_000_000_000 / BIN_NS;

/// Connections of a run's sessions.
pub struct Reconnects {
    answer_limit: Duration,
    sessions: Mutex<Vec<Arc<CurrentConnection>>>,
    log: Mutex<SuccessLog>,
}

/// Losses and successes.
#[derive(Default)]
struct SuccessLog {
    losses: Vec<ConnectionLoss>,
    total: u64,
    /// Sessions without a connection.
    down: u32,
    /// Time of the last loss or reconnection.
    changed_ns: Option<u64>,
    bins: BTreeMap<u64, [Bin; Kind::ALL.len()]>,
    /// Refusals of servers that answered, each noted once.
    wrong_servers: HashSet<String>,
}

/// Successes of one kind within [`BIN_NS`].
#[derive(Clone, Copy, Default)]
struct Bin {
    count: u64,
    first_ns: u64,
    last_ns: u64,
}

/// The connection that a session has now, for other threads.
struct CurrentConnection {
    cancel: Mutex<Box<dyn Cancel>>,
    /// Begin of the request that waits for its answer, since the trigger; 0 without one.
    since_ns: AtomicU64,
}

impl CurrentConnection {
    /// Waits for an answer to `request`, which begins at this time.
    fn wait<T>(&self, begin_ns: u64, request: impl FnOnce() -> T) -> T {
        self.since_ns.store(begin_ns.max(1), Ordering::Relaxed);
        let answer = request();
        self.since_ns.store(0, Ordering::Relaxed);
        answer
    }
}

/// Cancels the operation in flight of a session, whichever connection it has.
struct CurrentCancel(Arc<CurrentConnection>);

impl Cancel for CurrentCancel {
    fn cancel(&self) {
        self.0.cancel.lock().cancel();
    }

    fn abort(&self) {
        self.0.cancel.lock().abort();
    }
}

/// A session whose connection is made again when it is lost.
pub struct ReconnectingSession<'a> {
    inner: &'a mut Box<dyn Session>,
    job: &'a Job<'a>,
    reconnects: &'a Reconnects,
    seat: Seat,
    current: Arc<CurrentConnection>,
    draws: Xoshiro256PlusPlus,
    /// Stop of the last batch.
    stop: Option<Stop>,
    last_success_ns: Option<u64>,
    /// Indexes of its losses since its last success.
    unanswered: Vec<usize>,
}

impl Reconnects {
    /// Returns None if sessions that lose their connection are lost.
    pub fn of(job: &Job<'_>) -> Option<Self> {
        let asked = job.settings.reconnect?;
        Some(Self {
            answer_limit: asked.answer_limit,
            sessions: Mutex::default(),
            log: Mutex::default(),
        })
    }

    /// Makes a session one that reconnects.
    pub fn attach<'a>(
        &'a self,
        job: &'a Job<'a>,
        seat: Seat,
        inner: &'a mut Box<dyn Session>,
    ) -> ReconnectingSession<'a> {
        let cancel = Mutex::new(inner.canceller());
        let current = Arc::new(CurrentConnection { cancel, since_ns: AtomicU64::new(0) });
        self.sessions.lock().push(Arc::clone(&current));
        let draws = Xoshiro256PlusPlus::seed_from_u64(u64::from(seat.session));
        ReconnectingSession {
            inner,
            job,
            reconnects: self,
            seat,
            current,
            draws,
            stop: None,
            last_success_ns: None,
            unanswered: Vec::new(),
        }
    }

    /// Gives up connections on which a request has waited too long for its answer.
    pub fn give_up_silent(&self, now_ns: u64) {
        let limit_ns = self.answer_limit.as_nanos() as u64;
        for current in self.sessions.lock().iter() {
            let since_ns = current.since_ns.load(Ordering::Relaxed);
            if since_ns > 0 && now_ns.saturating_sub(since_ns) > limit_ns {
                current.cancel.lock().abort();
            }
        }
    }

    /// Losses and successes for the record. All sessions have ended, the last one at this time.
    pub fn losses(&self, end_ns: u64) -> ConnectionLosses {
        let log = self.log.lock();
        let mut losses = log.losses.clone();
        losses.sort_by(|a, b| a.at_s.total_cmp(&b.at_s));
        ConnectionLosses {
            answer_limit_s: self.answer_limit.as_secs_f64(),
            losses_total: log.total,
            end_s: seconds(end_ns),
            silence_min_s: seconds(SILENCE_NS),
            silences: log.silences(&losses, end_ns),
            step_s: seconds(BIN_NS * STEP_BINS),
            steps: if losses.is_empty() { Vec::new() } else { log.steps() },
            losses,
        }
    }
}

impl SuccessLog {
    fn add_success(&mut self, kind: Kind, end_ns: u64) {
        let bin = &mut self.bins.entry(end_ns / BIN_NS).or_default()[kind.index()];
        bin.first_ns = if bin.count == 0 { end_ns } else { bin.first_ns.min(end_ns) };
        bin.last_ns = bin.last_ns.max(end_ns);
        bin.count += 1;
    }

    /// Forgets successes that are far from any loss.
    fn forget(&mut self, now_ns: u64) {
        let from = self.changed_ns.map_or(0, |at_ns| at_ns / BIN_NS + KEPT_BINS);
        let until = (now_ns / BIN_NS).saturating_sub(KEPT_BINS);
        if self.down > 0 || until <= from {
            return;
        }
        while let Some((&oldest, _)) = self.bins.range(from..until).next() {
            self.bins.remove(&oldest);
        }
    }

    /// Times without a success, of each kind and of all, while some connection was lost.
    fn silences(&self, losses: &[ConnectionLoss], end_ns: u64) -> Vec<Silence> {
        let is_one = |from_ns: u64, until_ns: u64| {
            let is_down = |loss: &ConnectionLoss| {
                let back_s = loss.back_s.unwrap_or(f64::INFINITY);
                seconds(from_ns) <= back_s && loss.at_s <= seconds(until_ns)
            };
            until_ns.saturating_sub(from_ns) >= SILENCE_NS && losses.iter().any(is_down)
        };
        let kinds = Kind::ALL.into_iter().map(Some).chain([None]);
        let mut silences = Vec::new();
        for kind in kinds {
            let bins = self.bins.values().filter_map(|bins| match kind {
                Some(kind) => Some(bins[kind.index()]).filter(|bin| bin.count > 0),
                None => Bin::of_all(bins),
            });
            let mut before = None;
            for bin in bins {
                let from_ns = before.unwrap_or(0);
                if is_one(from_ns, bin.first_ns) {
                    let (from_s, until_s) = (before.map(seconds), Some(seconds(bin.first_ns)));
                    silences.push(Silence { kind, from_s, until_s });
                }
                before = Some(bin.last_ns);
            }
            // A kind without any success may not have been asked for.
            let is_asked = before.is_some() || kind.is_none();
            if is_asked && is_one(before.unwrap_or(0), end_ns) {
                silences.push(Silence { kind, from_s: before.map(seconds), until_s: None });
            }
        }
        silences.truncate(SILENCES_MAX);
        silences
    }

    fn steps(&self) -> Vec<SuccessStep> {
        let mut steps = BTreeMap::<u64, u64>::new();
        for (at, bins) in &self.bins {
            *steps.entry(at / STEP_BINS).or_default() +=
                bins.iter().map(|bin| bin.count).sum::<u64>();
        }
        let step =
            |(at, successes)| SuccessStep { at_s: seconds(at * STEP_BINS * BIN_NS), successes };
        steps.into_iter().map(step).collect()
    }
}

impl Bin {
    fn of_all(bins: &[Self]) -> Option<Self> {
        let used = || bins.iter().filter(|bin| bin.count > 0);
        Some(Self {
            count: used().map(|bin| bin.count).sum(),
            first_ns: used().map(|bin| bin.first_ns).min()?,
            last_ns: used().map(|bin| bin.last_ns).max()?,
        })
    }
}

impl ReconnectingSession<'_> {
    /// Keeps the loss of the connection. The operation in flight began at the given time.
    fn lose(&mut self, error: &SessionError, in_flight: Option<(&Operation, u64)>, at_ns: u64) {
        let in_doubt = in_flight.filter(|(operation, _)| operation.kind == Kind::Update);
        let loss = ConnectionLoss {
            session: self.seat.session,
            server: self.inner.server(),
            at_s: seconds(at_ns),
            code: error.code.clone(),
            message: error.message.clone(),
            operation: in_flight.map(|(operation, _)| operation.kind),
            last_success_s: self.last_success_ns.map(seconds),
            in_doubt: in_doubt.map(|(operation, begin_ns)| DoubtfulCommit {
                schema: operation.schema,
                first: operation.first,
                rows: operation.rows,
                stamp: operation.stamp,
                begin_s: seconds(begin_ns),
                ..DoubtfulCommit::default()
            }),
            ..ConnectionLoss::default()
        };
        let mut log = self.reconnects.log.lock();
        (log.total, log.down, log.changed_ns) = (log.total + 1, log.down + 1, Some(at_ns));
        let is_first = log.down == 1;
        if log.losses.len() < LOSSES_MAX {
            self.unanswered.push(log.losses.len());
            log.losses.push(loss);
        }
        drop(log);
        if is_first {
            let line = format!("connections are lost, and made again: {error}");
            self.job.watch.note(&line);
        }
    }

    /// Connects until that succeeds; false if the run is over before.
    fn connect_again(&mut self, stop: &Stop) -> bool {
        let mut pause = PAUSE.start;
        let longest = PAUSE.start * self.reconnects.sessions.lock().len() as u32;
        let longest = longest.min(PAUSE.end);
        loop {
            let attempt = self.job.engine.reconnect(self.seat);
            let at_ns = stop.since_trigger_ns(Instant::now());
            let mut log = self.reconnects.log.lock();
            let loss = self.unanswered.last().and_then(|&at| log.losses.get_mut(at));
            match attempt {
                Ok(session) => {
                    if let Some(loss) = loss {
                        loss.attempts += 1;
                        (loss.back_s, loss.back_at) = (Some(seconds(at_ns)), session.server());
                    }
                    (log.down, log.changed_ns) = (log.down - 1, Some(at_ns));
                    let is_last = log.down == 0;
                    drop(log);
                    *self.current.cancel.lock() = session.canceller();
                    *self.inner = session;
                    if is_last {
                        self.job.watch.note("all sessions are connected again");
                    }
                    return true;
                }
                Err(EngineError::Interrupted) => return false,
                Err(error) => {
                    let is_wrong = matches!(error, EngineError::WrongServer(_));
                    let why = error.to_string();
                    if let Some(loss) = loss {
                        loss.attempts += 1;
                        loss.refused = Some(why.clone());
                        if is_wrong {
                            loss.wrong_server = Some(why.clone());
                        }
                    }
                    let is_new = is_wrong && log.wrong_servers.insert(why.clone());
                    drop(log);
                    if is_new {
                        self.job.watch.note(&why);
                    }
                }
            }
            // Sessions that were lost together do not all connect at once.
            let share = self.draws.random_range(0.5..1.0);
            let until = Instant::now() + pause.mul_f64(share);
            pause = (pause * 2).min(longest);
            loop {
                let now = Instant::now();
                if stop.is_due(now) {
                    return false;
                }
                let left = until.saturating_duration_since(now);
                if left.is_zero() {
                    break;
                }
                thread::park_timeout(left);
            }
        }
    }

    /// Makes the connection again after this error; returns it if the session is lost.
    fn recover(
        &mut self,
        error: SessionError,
        in_flight: Option<(&Operation, u64)>,
        stop: &Stop,
    ) -> Result<(), SessionError> {
        let now = Instant::now();
        let is_final = [NOT_LOADED, INTERRUPTED].contains(&error.code.as_str());
        if is_final || stop.is_due(now) || stop.is_cutting() {
            return Err(error);
        }
        self.lose(&error, in_flight, stop.since_trigger_ns(now));
        if self.connect_again(stop) { Ok(()) } else { Err(error) }
    }

    fn count_successes(&mut self, operations: &[Operation], ended: &[Outcome]) {
        let done = ended.iter().filter(|outcome| outcome.error.is_none());
        let mut log = self.reconnects.log.lock();
        for outcome in done {
            let Some(operation) = operations.get(outcome.operation as usize) else { continue };
            log.add_success(operation.kind, outcome.end_ns);
            self.last_success_ns = Some(outcome.end_ns);
            for at in self.unanswered.drain(..) {
                if let Some(loss) = log.losses.get_mut(at) {
                    loss.first_success_s = Some(seconds(outcome.end_ns));
                }
            }
        }
        if let Some(now_ns) = self.last_success_ns {
            log.forget(now_ns);
        }
    }
}

impl Session for ReconnectingSession<'_> {
    fn execute(&mut self, batch: Batch<'_>) -> Result<(), SessionError> {
        let Batch { operations, stop, done, .. } = batch;
        self.stop.get_or_insert_with(|| stop.clone());
        let before = done.ended.len();
        let begin_ns = stop.since_trigger_ns(Instant::now());
        let result =
            self.current.wait(begin_ns, || self.inner.execute(Batch::new(operations, stop, done)));
        let ended = done.ended.get(before..).unwrap_or_default();
        self.count_successes(operations, ended);
        let Err(error) = result else { return Ok(()) };
        let at = ended.len();
        let begin_ns = ended.last().map_or(begin_ns, |last| last.end_ns);
        let in_flight = operations.get(at).map(|operation| (operation, begin_ns));
        let lost_ns = stop.since_trigger_ns(Instant::now());
        let code: Box<str> = error.code.as_str().into();
        self.recover(error, in_flight, stop)?;
        if at < operations.len() {
            done.ended.push(Outcome::of_failed_call(at, [begin_ns, lost_ns.max(begin_ns)], code));
        }
        Ok(())
    }

    fn flush_statistics(&mut self) -> Result<(), SessionError> {
        let Some(stop) = self.stop.clone() else { return self.inner.flush_statistics() };
        let begin_ns = stop.since_trigger_ns(Instant::now());
        let flushed = self.current.wait(begin_ns, || self.inner.flush_statistics());
        let Err(error) = flushed else { return Ok(()) };
        self.recover(error, None, &stop)
    }

    fn keep_alive(&mut self) {
        self.inner.keep_alive();
    }

    fn canceller(&self) -> Box<dyn Cancel> {
        Box::new(CurrentCancel(Arc::clone(&self.current)))
    }
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn log(ends_ms: impl IntoIterator<Item = u64>) -> SuccessLog {
        let mut log = SuccessLog::default();
        ends_ms.into_iter().for_each(|at| log.add_success(Kind::Select, at * MS));
        log
    }

    fn loss(at_ms: u64, back_ms: Option<u64>) -> ConnectionLoss {
        let back_s = back_ms.map(|at| seconds(at * MS));
        ConnectionLoss { at_s: seconds(at_ms * MS), back_s, ..ConnectionLoss::default() }
    }

    #[test]
    fn a_silence_is_known_to_the_moment_if_a_connection_was_lost_in_it() {
        // 50 ms without a success before the loss do not count.
        let log = log([3, 53, 54, 61, 203, 204]);
        let silences = log.silences(&[loss(70, Some(200))], 210 * MS);
        let times: Vec<_> = silences.iter().map(|it| (it.kind, it.from_s, it.until_s)).collect();
        let expected = (Some(0.061), Some(0.203));
        assert_eq!(
            times,
            [(Some(Kind::Select), expected.0, expected.1), (None, expected.0, expected.1)]
        );
    }

    #[test]
    fn a_silence_that_the_end_of_the_run_ends_has_no_end() {
        let silences = log([3, 4]).silences(&[loss(5, None)], 100 * MS);
        assert_eq!(silences.len(), 2);
        assert!(silences.iter().all(|it| it.from_s == Some(0.004) && it.until_s.is_none()));
    }

    #[test]
    fn a_run_without_any_success_is_one_silence_and_one_whose_other_sessions_go_on_has_none() {
        let silences = log([]).silences(&[loss(5, None)], 100 * MS);
        assert_eq!(silences, [Silence { kind: None, from_s: None, until_s: None }]);
        let goes_on = log((0..100).map(|at| at * 10));
        assert_eq!(goes_on.silences(&[loss(5, None)], 1_000 * MS), []);
    }

    #[test]
    fn successes_far_from_a_loss_are_forgotten_and_near_ones_are_kept() {
        let mut log = log((0..200).map(|second| second * 1000));
        log.changed_ns = Some(50_000 * MS);
        log.forget(199_000 * MS);
        let kept: Vec<u64> = log.bins.keys().map(|bin| bin * BIN_NS / MS / 1000).collect();
        assert_eq!(kept, (0..80).chain(169..200).collect::<Vec<_>>());
        let all = log.bins.len();
        log.down = 1;
        log.forget(400_000 * MS);
        assert_eq!(log.bins.len(), all);
    }
}
