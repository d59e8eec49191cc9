//! The main loop: one session does operations until it has to stop.
//!
//! Stop rule, pacing, think time and mix are values that it consumes. Per operation nothing is
//! allocated, formatted or printed, and nothing is locked but the queue of RATE. Outcomes are
//! folded once per batch.

use std::thread;
use std::time::{Duration, Instant};

use petal_engine::server::waiting::KEEP_ALIVE;
use petal_engine::{Batch, CUT, Outcome, Outcomes, Session, SessionError, Stop};
use petal_latency::threads::between_operations;
use petal_record::timeline::{EndedAs, EndedOperation, Shards};
use petal_workload::arrivals::{Arrival, ArrivalQueue};
use petal_workload::op::{Kind, Operation};
use petal_workload::picker::{Picker, Step};
use petal_workload::seat::Seat;

use super::experiments::{Experiments, OwnCost};
use super::ledger::SessionLedger;

/// Target length of a batch, so that stop and display stay prompt.
const BATCH_TARGET: Duration = Duration::from_millis(100);
/// Shorter batches with a ledger: at most one unlogged batch is lost in a power cut.
const BATCH_TARGET_SHORT: Duration = Duration::from_millis(10);
const BATCH_OPERATIONS_MAX: usize = 4096;
/// Interval at which a session flushes its statistics. It is shorter than the sampling interval;
/// otherwise a second would show the work of the previous one.
const FLUSH_EVERY_NS: u64 = BATCH_TARGET.as_nanos() as u64 / 2;

/// Results of a session when its loop ends.
#[derive(Debug, Default)]
pub struct SessionEnd {
    /// End of its last operation, since the trigger; 0 if it did none.
    pub last_end_ns: u64,
    /// End of its loop: later than the last operation if it slept.
    pub ended_ns: u64,
    /// Operations of WORK_LOOP that it did not begin.
    pub left: u64,
    /// Time and reason of an early end.
    pub lost: Option<(u64, SessionError)>,
}

/// Session in progress.
pub struct SessionLoop<'a> {
    pub seat: Seat,
    pub session: &'a mut dyn Session,
    pub picker: Picker,
    /// Queue of the operations that are due; `None` in a closed loop.
    pub arrivals: Option<&'a ArrivalQueue>,
    /// Operation that it took from the queue and has not begun.
    pub claimed: Option<Arrival>,
    /// Operations left to do; `u64::MAX` in a timed run.
    pub left: u64,
    pub stop: Stop,
    pub shards: &'a Shards,
    /// Rows of each schema's scan table, from schema 1; `None` if they were not counted.
    pub scan_rows: &'a [Option<u64>],
    /// Ledger of its acknowledged commits; `None` without a ledger.
    pub ledger: Option<SessionLedger<'a>>,
    /// True for batches of one operation, so that a lost connection loses one.
    pub is_one_by_one: bool,
    /// True if the kernel times its thread by state (WATERFALL).
    pub is_timed: bool,
    /// Experiments of the run; `None` if it makes none.
    pub experiments: Option<&'a Experiments>,
}

/// Next step of the loop.
enum NextStep {
    Execute,
    /// Nothing to execute before this time, since the trigger.
    Wait(Duration),
    Think(Duration),
    Done,
}

impl SessionLoop<'_> {
    /// Runs to the end. The session's counters are flushed when it returns.
    pub fn run(mut self) -> SessionEnd {
        let mut end = SessionEnd::default();
        let mut batch: Vec<Operation> = Vec::with_capacity(BATCH_OPERATIONS_MAX);
        let mut outcomes = Outcomes::default();
        outcomes.ended.reserve(BATCH_OPERATIONS_MAX);
        let mut pending: Option<Step> = None;
        let mut batch_size = 1;
        let mut own = OwnCost::default();
        let mut flushed_ns = 0;
        let mut waited = false;
        loop {
            let now = Instant::now();
            let is_due = self.stop.is_due(now);
            if is_due && batch.is_empty() {
                break;
            }
            let next = if is_due {
                NextStep::Execute // What is under way ends, and nothing begins.
            } else {
                self.fill(&mut batch, &mut pending, batch_size, now)
            };
            match next {
                NextStep::Execute => {}
                NextStep::Wait(until) => {
                    self.sleep_until(until);
                    waited = true;
                    continue;
                }
                NextStep::Think(think) => {
                    waited = false;
                    let from_ns = self.stop.since_trigger_ns(now);
                    self.sleep_until(Duration::from_nanos(from_ns) + think);
                    let woke_ns = self.stop.since_trigger_ns(Instant::now());
                    let thought_ns = woke_ns - from_ns;
                    self.shards.add_think_time(self.seat.session, woke_ns, thought_ns);
                    continue;
                }
                NextStep::Done => break,
            }
            outcomes.ended.clear();
            if let Some(experiments) = self.experiments.filter(|_| !is_due) {
                experiments.pace(&self.seat, batch.len(), &mut own, &self.stop);
            }
            let called = Instant::now();
            if std::mem::take(&mut waited) {
                self.count_lateness(&batch, called);
            }
            self.shards.begin(self.seat.session, self.stop.since_trigger_ns(called));
            let goes_on = pending.is_none() && self.arrivals.is_none();
            let is_followed = goes_on && (batch.len() as u64) < self.left;
            let result = self
                .session
                .execute(Batch { is_followed, ..Batch::new(&batch, &self.stop, &mut outcomes) });
            if let Some(ledger) = &mut self.ledger {
                ledger.acknowledge(&batch, &outcomes.ended, called, &self.stop);
            }
            self.fold(&batch, &outcomes);
            self.left = self.left.saturating_sub(outcomes.ended.len() as u64);
            if let Some(last) = outcomes.ended.last() {
                end.last_end_ns = last.end_ns;
            }
            if let Err(error) = result {
                let lost_ns = self.stop.since_trigger_ns(Instant::now());
                // Its waits are recorded. If several are in flight, this is the first one's time.
                let began_ns = self.stop.since_trigger_ns(now).max(end.last_end_ns);
                let busy_ns = lost_ns.saturating_sub(began_ns);
                self.shards.add_lost(self.seat.session, lost_ns, busy_ns);
                end.lost = Some((lost_ns, error));
                // The next one was begun.
                batch.drain(..(outcomes.ended.len() + 1).min(batch.len()));
                break;
            }
            // Relative to the due operations, which may be fewer than requested.
            let filled = batch_size.min(batch.len());
            batch.drain(..outcomes.ended.len());
            if batch.len() > self.session.in_flight() {
                break; // An engine leaves operations out only when the stop was due.
            }
            own.operations += outcomes.ended.len() as u64;
            batch_size = next_batch_size(filled, now.elapsed(), self.batch_target(now));
            if end.last_end_ns.saturating_sub(flushed_ns) >= FLUSH_EVERY_NS {
                flushed_ns = end.last_end_ns;
                self.flush(&mut end);
                if end.lost.is_some() {
                    break;
                }
            }
        }
        self.flush(&mut end);
        end.left = self.left;
        self.give_back(&batch);
        end.ended_ns = self.stop.since_trigger_ns(Instant::now()).max(end.last_end_ns);
        end
    }

    /// Returns the length of a batch. Experiments are short, and need shorter batches.
    fn batch_target(&self, now: Instant) -> Duration {
        if self.is_one_by_one {
            return Duration::ZERO;
        }
        let now_ns = self.stop.since_trigger_ns(now);
        let is_near = self.experiments.is_some_and(|experiments| experiments.is_near(now_ns));
        if is_near || self.ledger.is_some() { BATCH_TARGET_SHORT } else { BATCH_TARGET }
    }

    /// Adds the next operations to a batch: it ends before a think, before an operation that is not
    /// due, and at WORK_LOOP.
    fn fill(
        &mut self,
        batch: &mut Vec<Operation>,
        pending: &mut Option<Step>,
        batch_size: usize,
        now: Instant,
    ) -> NextStep {
        let now = Duration::from_nanos(self.stop.since_trigger_ns(now));
        let most = batch.len() + batch_size;
        while batch.len() < most && (batch.len() as u64) < self.left {
            if let Some(queue) = self.arrivals
                && self.claimed.is_none()
            {
                self.claimed = if batch.is_empty() { queue.take() } else { queue.take_late(now) };
                if self.claimed.is_none() && !batch.is_empty() {
                    break;
                }
            }
            let arrival = self.claimed;
            let due = arrival.map_or(Duration::MAX, |arrival| arrival.due);
            if self.arrivals.is_some() && due > now {
                return NextStep::Wait(due);
            }
            let kind = arrival.and_then(|arrival| arrival.kind);
            let step = pending.take().unwrap_or_else(|| self.picker.next_step_of(kind));
            if let Some(think) = step.think {
                let thinking = batch.is_empty();
                *pending = Some(Step { think: step.think.filter(|_| !thinking), ..step });
                if thinking {
                    return NextStep::Think(think);
                }
                break;
            }
            self.claimed = None;
            batch.push(Operation { due: arrival.map(|arrival| arrival.due), ..step.operation });
        }
        if batch.is_empty() { NextStep::Done } else { NextStep::Execute }
    }

    fn fold(&self, batch: &[Operation], outcomes: &Outcomes) {
        let ended = outcomes.ended.iter().map(|outcome| {
            let operation = &batch[outcome.operation as usize];
            EndedOperation {
                kind: operation.kind,
                latency_ns: outcome.latency_ns,
                busy_ns: outcome.busy_ns,
                response_ns: operation
                    .due
                    .map(|due| outcome.end_ns.saturating_sub(due.as_nanos() as u64)),
                end_ns: outcome.end_ns,
                rows: outcome.rows,
                hot: operation.hot,
                rows_asked: self.rows_asked(operation).unwrap_or(outcome.rows),
                result: result_of(outcome),
            }
        });
        self.shards.fold(self.seat.session, ended);
        if let Some(experiments) = self.experiments {
            experiments.count(&outcomes.ended);
        }
    }

    /// Returns the number of rows that an operation must visit; `None` for a scan table of unknown
    /// size.
    fn rows_asked(&self, operation: &Operation) -> Option<u64> {
        match operation.kind {
            Kind::Select | Kind::Update => Some(operation.rows.into()),
            Kind::Scan => self.scan_rows.get(operation.schema as usize - 1).copied().flatten(),
        }
    }

    /// Flushes the statistics; a session that is lost already has reported the reason.
    fn flush(&mut self, end: &mut SessionEnd) {
        if let Err(error) = between_operations(self.is_timed, || self.session.flush_statistics())
            && end.lost.is_none()
        {
            end.lost = Some((self.stop.since_trigger_ns(Instant::now()), error));
        }
    }

    /// Counts how late the session awoke for the first operation of a batch.
    fn count_lateness(&self, batch: &[Operation], awoke: Instant) {
        let Some(due) = batch.first().and_then(|operation| operation.due) else { return };
        let awoke_ns = self.stop.since_trigger_ns(awoke);
        let lateness_ns = awoke_ns.saturating_sub(due.as_nanos() as u64);
        self.shards.count(self.seat.session, awoke_ns, |tally| {
            tally.lateness.get_or_insert_default().record(lateness_ns);
        });
    }

    /// Gives back the operations of the queue that it did not begin: other sessions may do them.
    fn give_back(&self, batch: &[Operation]) {
        let Some(queue) = self.arrivals else { return };
        let of_batch = batch.iter().filter_map(|operation| {
            Some(Arrival { due: operation.due?, kind: Some(operation.kind) })
        });
        of_batch.chain(self.claimed).for_each(|arrival| queue.give_back(arrival));
    }

    /// Sleeps until a time since the trigger, or the stop; the runner unparks at a stop. Connections are
    /// not idle meanwhile.
    fn sleep_until(&mut self, until: Duration) {
        let mut used = Instant::now();
        loop {
            let now = Instant::now();
            let elapsed = Duration::from_nanos(self.stop.since_trigger_ns(now));
            let Some(rest) = until.checked_sub(elapsed).filter(|rest| !rest.is_zero()) else {
                return;
            };
            if self.stop.is_due(now) {
                return;
            }
            if now - used >= KEEP_ALIVE && rest >= BATCH_TARGET {
                self.session.keep_alive();
                used = now;
                continue;
            }
            let rest = rest.min(KEEP_ALIVE);
            thread::park_timeout(self.stop.time_left(now).map_or(rest, |left| rest.min(left)));
        }
    }
}

fn result_of(outcome: &Outcome) -> EndedAs<'_> {
    match outcome.error.as_deref() {
        None => EndedAs::Done,
        Some(CUT) => EndedAs::Cut,
        Some(code) => EndedAs::Failed(code),
    }
}

/// Scales the batch to last for `target`, at most doubling, so that one slow operation or a fast
/// start does not overshoot.
fn next_batch_size(size: usize, took: Duration, target: Duration) -> usize {
    let scaled = size as f64 * target.as_secs_f64() / took.as_secs_f64().max(1e-9);
    (scaled as usize).clamp(1, (size * 2).min(BATCH_OPERATIONS_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use petal_engine::Cancel;
    use petal_settings::Settings;
    use petal_settings::rates::RateOverTime;
    use petal_workload::arrivals::ArrivalQueues;
    use petal_workload::plan::{Workload, seats};
    use proptest::prelude::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

    /// Session that leaves up to this many operations in flight, and checks its batches.
    struct Lagging {
        leaves: usize,
        in_flight: Vec<Operation>,
        level: Arc<AtomicU8>,
        /// Number of begun operations after which it requests a stop.
        stops_after: u64,
        begun: u64,
    }

    struct Never;

    impl Cancel for Never {
        fn cancel(&self) {}
    }

    impl Lagging {
        fn go(&mut self, Batch { operations: batch, stop, done, is_followed }: Batch<'_>) {
            let leaves = if is_followed { self.leaves } else { 0 };
            assert_eq!(batch[..self.in_flight.len()], self.in_flight, "it begins with these");
            let mut begun = self.in_flight.len();
            while begun < batch.len() && !stop.is_requested() {
                begun += 1;
                self.begun += 1;
                if self.begun == self.stops_after {
                    self.level.store(1, Ordering::Relaxed);
                }
            }
            let leaves = if stop.is_requested() { 0 } else { leaves.min(begun) };
            for (operation, asked) in batch.iter().enumerate().take(begun - leaves) {
                done.ended.push(Outcome {
                    operation: operation as u32,
                    latency_ns: Some(1000),
                    busy_ns: 1000,
                    end_ns: stop.since_trigger_ns(Instant::now()),
                    rows: u64::from(asked.rows),
                    error: None,
                });
            }
            self.in_flight = batch[begun - leaves..begun].to_vec();
        }
    }

    impl Session for Lagging {
        fn execute(&mut self, batch: Batch<'_>) -> Result<(), SessionError> {
            self.go(batch);
            Ok(())
        }

        fn in_flight(&self) -> usize {
            self.in_flight.len()
        }

        fn canceller(&self) -> Box<dyn Cancel> {
            Box::new(Never)
        }
    }

    /// Returns the numbers of begun and of counted operations for a session that leaves some in
    /// flight.
    fn lagging(leaves: usize, left: u64, stops_after: u64) -> (u64, u64) {
        let settings = Settings::default();
        let workload = Workload::new(&settings, 100_000, 8192, 1, 1, 1);
        let seat = seats(&settings, 1, 1)[0];
        let shards = Shards::new(1);
        let level = Arc::<AtomicU8>::default();
        let cutting = Arc::<AtomicBool>::default();
        let mut session =
            Lagging { leaves, in_flight: Vec::new(), level: level.clone(), stops_after, begun: 0 };
        let run = SessionLoop {
            seat,
            session: &mut session,
            picker: Picker::new(&workload, seat),
            arrivals: None,
            claimed: None,
            left,
            stop: Stop::until(Instant::now(), None, level, cutting),
            shards: &shards,
            scan_rows: &[],
            ledger: None,
            experiments: None,
            is_one_by_one: false,
            is_timed: false,
        };
        let end = run.run();
        assert!(end.lost.is_none(), "{:?}", end.lost);
        assert!(session.in_flight.is_empty(), "some were left under way at the end");
        let counted = shards.harvest(shards.end()).iter().map(|(_, tally)| tally.ops_total()).sum();
        (session.begun, counted)
    }

    /// Session that cannot flush its counters.
    struct Unflushed {
        batches: u64,
    }

    impl Session for Unflushed {
        fn execute(&mut self, batch: Batch<'_>) -> Result<(), SessionError> {
            self.batches += 1;
            let outcome = |operation| Outcome {
                operation,
                latency_ns: Some(1000),
                busy_ns: 1000,
                end_ns: self.batches * FLUSH_EVERY_NS,
                rows: 1,
                error: None,
            };
            let all = 0..batch.operations.len() as u32;
            batch.done.ended.extend(all.map(outcome));
            Ok(())
        }

        fn flush_statistics(&mut self) -> Result<(), SessionError> {
            let message = format!("gone after batch {}", self.batches);
            Err(SessionError { code: "gone".to_owned(), message })
        }

        fn canceller(&self) -> Box<dyn Cancel> {
            Box::new(Never)
        }
    }

    #[test]
    fn a_session_that_cannot_flush_is_lost_at_once_and_for_that_reason() {
        let settings = Settings::default();
        let workload = Workload::new(&settings, 100_000, 8192, 1, 1, 1);
        let seat = seats(&settings, 1, 1)[0];
        let shards = Shards::new(1);
        let mut session = Unflushed { batches: 0 };
        let run = SessionLoop {
            seat,
            session: &mut session,
            picker: Picker::new(&workload, seat),
            arrivals: None,
            claimed: None,
            left: 100,
            stop: Stop::unlimited(Arc::default()),
            shards: &shards,
            scan_rows: &[],
            ledger: None,
            experiments: None,
            is_one_by_one: false,
            is_timed: false,
        };
        let (_, error) = run.run().lost.unwrap();
        assert_eq!(error.to_string(), "gone after batch 1 (gone)");
        assert_eq!(session.batches, 1);
    }

    /// Session that stalls once, and records the length of each batch.
    struct Stalling {
        batches: Vec<usize>,
    }

    impl Session for Stalling {
        fn execute(&mut self, batch: Batch<'_>) -> Result<(), SessionError> {
            self.batches.push(batch.operations.len());
            if self.batches.len() == 20 {
                thread::sleep(BATCH_TARGET);
            }
            let outcome = |operation| Outcome {
                operation,
                latency_ns: Some(1000),
                busy_ns: 1000,
                end_ns: batch.stop.since_trigger_ns(Instant::now()),
                rows: 1,
                error: None,
            };
            batch.done.ended.extend((0..batch.operations.len() as u32).map(outcome));
            Ok(())
        }

        fn canceller(&self) -> Box<dyn Cancel> {
            Box::new(Never)
        }
    }

    #[test]
    fn operations_due_in_a_stall_are_not_one_batch() {
        let settings =
            Settings { rate: Some(RateOverTime::constant(1000.0)), ..Settings::default() };
        let workload = Workload::new(&settings, 100_000, 8192, 1, 1, 1);
        let seat = seats(&settings, 1, 1)[0];
        let shards = Shards::new(1);
        let mut session = Stalling { batches: Vec::new() };
        let queues = ArrivalQueues::new(&workload, &[seat], &[seat]).unwrap();
        let run = SessionLoop {
            seat,
            session: &mut session,
            picker: Picker::new(&workload, seat),
            arrivals: queues.of_seat(0),
            claimed: None,
            left: 300,
            stop: Stop::unlimited(Arc::default()),
            shards: &shards,
            scan_rows: &[],
            ledger: None,
            experiments: None,
            is_one_by_one: false,
            is_timed: false,
        };
        assert!(run.run().lost.is_none());
        let is_gradual = session.batches.windows(2).all(|two| two[1] <= two[0] * 2);
        assert!(is_gradual, "{:?}", session.batches);
    }

    proptest! {
        #[test]
        fn unfinished_operations_are_finished_and_counted_once(
            leaves in 0usize..300, left in 1u64..5000, stops_after in 1u64..6000,
        ) {
            let (begun, counted) = lagging(leaves, left, stops_after);
            prop_assert_eq!(begun, counted);
            prop_assert_eq!(begun, left.min(stops_after));
        }

        #[test]
        fn batches_grow_and_shrink_within_bounds(size in 1usize..=4096, micros in 1u64..10_000_000) {
            let next = next_batch_size(size, Duration::from_micros(micros), BATCH_TARGET);
            prop_assert!((1..=4096).contains(&next) && next <= size * 2);
        }
    }
}
