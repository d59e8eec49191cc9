//! The frame of LOOP=server: a routine inside the server executes a batch, one SQL execution per
//! operation and no round trip between them.
//!
//! The server's clock measures how long an operation took; its end is counted back from the return.
//! That clock may be set meanwhile. Operations that together took longer than the whole call by
//! petal's clock, or no time at all in a long one, have no latency.

use std::time::{Duration, Instant};

use super::failure::Failure;
use crate::{Batch, Outcome, Outcomes, SessionError};
use petal_settings::{LoopSide, RedoStress};
use petal_workload::op::{Kind, Operation};

/// The budget of one call if the run has no deadline.
pub const BUDGET_MAX: Duration = Duration::from_secs(3600);

/// Resolution of the clock that times operations: petal's own, or a server's, which has
/// microseconds.
pub fn clock_resolution_ns(loop_side: LoopSide) -> u64 {
    match loop_side {
        LoopSide::Client => 1,
        LoopSide::Server => 1000,
    }
}

/// Operations of a batch that go in one call.
#[derive(Debug)]
pub struct BatchPart<'a> {
    /// The schema whose routine executes them.
    pub home: u32,
    pub operations: &'a [Operation],
    /// No operation begins later after the call than this.
    pub budget: Duration,
    /// The position of the first in the batch.
    from: usize,
}

/// Tolerance, as a share of a call's own time: a server's clock that runs further ahead was set.
const CLOCK_SLACK: f64 = 0.01;
/// Longest time between two ticks of a clock: one that stood still for longer is frozen.
const TICK_NS_MAX: u64 = 20_000_000;
const NS_PER_US: u64 = 1000;

/// An operation that a call executed.
#[derive(Debug)]
pub struct Executed {
    /// None if it is unknown.
    pub latency_ns: Option<u64>,
    pub rows: u64,
    pub failure: Option<Failure>,
}

/// Sends one part, executed within its budget; returns the operations that ended, in order.
pub type PartCall<'a> = dyn FnMut(&BatchPart<'_>) -> Result<Vec<Executed>, Failure> + 'a;

/// The schema that the next call works in, and how many of these operations it takes.
pub type Split<'a> = dyn Fn(&[Operation]) -> (u32, usize) + 'a;

/// Splits by schema: a routine knows the tables of its home and of schema 1, the hot one.
pub fn by_schema(home: u32) -> impl Fn(&[Operation]) -> (u32, usize) {
    move |rest| {
        let of = |operation: &Operation| match operation.schema {
            1 => home,
            schema => schema,
        };
        let schema = rest.first().map_or(home, of);
        (schema, rest.iter().take_while(|operation| of(operation) == schema).count())
    }
}

/// Executes an operation alone, timed by petal's clock.
pub fn timed(execute: impl FnOnce() -> Result<u64, Failure>) -> Executed {
    let begin = Instant::now();
    let result = execute();
    let latency_ns = Some(begin.elapsed().as_nanos() as u64);
    match result {
        Ok(rows) => Executed { latency_ns, rows, failure: None },
        Err(failure) => Executed { latency_ns, rows: 0, failure: Some(failure) },
    }
}

/// Nanoseconds between two moments of a server's clock, in microseconds. None if one of them is
/// unknown, or the clock was set back.
pub fn latency_ns(begin_us: Option<i64>, end_us: Option<i64>) -> Option<u64> {
    u64::try_from(end_us?.checked_sub(begin_us?)?).ok()?.checked_mul(NS_PER_US)
}

/// `position code text`, as routines note an error; positions from 1 there, from 0 here.
#[derive(Debug, PartialEq)]
pub struct NotedError<'a> {
    pub at: usize,
    pub code: &'a str,
    pub message: &'a str,
}

impl<'a> NotedError<'a> {
    pub fn parse(text: &'a str) -> Option<Self> {
        let (position, rest) = text.split_once(' ')?;
        let (code, message) = rest.split_once(' ')?;
        Some(Self { at: position.parse::<usize>().ok()?.checked_sub(1)?, code, message })
    }
}

/// Added to the kind of an operation in schema 1 if the routine's home is another.
const HOT: i16 = 10;

/// The kind of an operation as routines know it, and its last key less its first. A SELECT is 1, a
/// scan 2, an UPDATE of two columns 3 and one of all columns 4.
pub fn routine_shape(operation: &Operation, home: u32, redo_stress: RedoStress) -> (i16, i64) {
    let kind = match (operation.kind, redo_stress) {
        (Kind::Select, _) => 1,
        (Kind::Scan, _) => 2,
        (Kind::Update, RedoStress::Lite) => 3,
        (Kind::Update, RedoStress::Heavy) => 4,
    };
    let (first, last) = keys(operation);
    (if operation.schema == home { kind } else { kind + HOT }, last - first)
}

/// The end of an operation in a routine, by the server's clock.
pub struct RoutineEnd {
    /// None if it cannot be read.
    pub end_us: Option<i64>,
    /// Rows, if they are others than expected.
    pub rows: Option<u64>,
}

/// Reads the answer of a routine that began at `begin_us`: its ended operations in order, with the
/// errors that it noted. A scan without a count has `scan_rows`.
pub fn executed<'a>(
    begin_us: i64,
    ends: impl Iterator<Item = RoutineEnd>,
    errors: impl Iterator<Item = &'a str>,
    operations: &[Operation],
    scan_rows: u64,
    failure: impl Fn(&NotedError<'_>) -> Failure,
) -> Vec<Executed> {
    let mut errors = errors.filter_map(NotedError::parse).peekable();
    let mut begin_us = Some(begin_us);
    let executed = ends.zip(operations).enumerate().map(|(at, (ended, operation))| {
        let noted = errors.next_if(|error| error.at == at);
        let latency_ns = latency_ns(begin_us, ended.end_us);
        begin_us = ended.end_us;
        let rows = ended.rows.unwrap_or(match operation.kind {
            Kind::Scan => scan_rows,
            Kind::Select | Kind::Update => operation.rows.into(),
        });
        Executed { latency_ns, rows, failure: noted.map(|noted| failure(&noted)) }
    });
    executed.collect()
}

/// Executes a batch, a call for each part of it. No call gets a longer budget than `budget_max`.
pub fn run(
    split: &Split<'_>,
    budget_max: Duration,
    batch: Batch<'_>,
    call: &mut PartCall<'_>,
) -> Result<(), SessionError> {
    let Batch { operations, stop, done, .. } = batch;
    let mut from = 0;
    while let Some(mut part) = next_part(split, operations, from) {
        let called = Instant::now();
        if stop.is_due(called) {
            break;
        }
        part.budget = stop.time_left(called).map_or(budget_max, |left| left.min(budget_max));
        let result = call(&part);
        let span_ns = [called, Instant::now()].map(|moment| stop.since_trigger_ns(moment));
        let ended = match result {
            Ok(executed) => fold(&part, executed, span_ns, done)?,
            Err(Failure::Fatal(error)) => return Err(error),
            // The call's work is not known: it counts as its first operation.
            Err(Failure::Counted(code)) => {
                done.ended.push(Outcome::of_failed_call(part.from, span_ns, code));
                1
            }
        };
        if ended == 0 {
            break; // Only the budget can have ended it.
        }
        from += ended;
    }
    Ok(())
}

/// The part that begins at a position of the batch.
fn next_part<'a>(split: &Split<'_>, batch: &'a [Operation], from: usize) -> Option<BatchPart<'a>> {
    let rest = batch.get(from..).filter(|rest| !rest.is_empty())?;
    let (home, length) = split(rest);
    Some(BatchPart { home, operations: rest.get(..length)?, budget: BUDGET_MAX, from })
}

/// Adds operations that ended to the outcomes; returns their number.
fn fold(
    part: &BatchPart<'_>,
    mut executed: Vec<Executed>,
    [called_ns, returned_ns]: [u64; 2],
    done: &mut Outcomes,
) -> Result<usize, SessionError> {
    let ended = executed.len();
    let span_ns = returned_ns - called_ns;
    forget_impossible(&mut executed, span_ns);
    let known_ns: u64 = executed.iter().filter_map(|one| one.latency_ns).sum();
    let untimed = executed.iter().filter(|one| one.latency_ns.is_none()).count() as u64;
    let left_ns = span_ns.saturating_sub(known_ns);
    let share_ns = left_ns.checked_div(untimed).unwrap_or_default();
    let mut later_ns = known_ns + share_ns * untimed;
    for (one, at) in executed.into_iter().zip(part.from..) {
        let busy_ns = one.latency_ns.unwrap_or(share_ns);
        later_ns -= busy_ns;
        let error = match one.failure {
            None => None,
            Some(Failure::Counted(code)) => Some(code),
            Some(Failure::Fatal(error)) => return Err(error),
        };
        done.ended.push(Outcome {
            operation: at as u32,
            latency_ns: one.latency_ns,
            busy_ns,
            // Two clocks may differ: nothing ended before it was asked for.
            end_ns: returned_ns.saturating_sub(later_ns).max(called_ns),
            rows: one.rows,
            error,
        });
    }
    Ok(ended)
}

/// Forgets latencies that a call of this length cannot have had: those that are longer, all of them
/// if they are longer together, or if the clock stood still.
fn forget_impossible(executed: &mut [Executed], span_ns: u64) {
    let rounding_ns = executed.len() as u64 * NS_PER_US;
    let most_ns = span_ns + (span_ns as f64 * CLOCK_SLACK) as u64 + rounding_ns;
    for one in executed.iter_mut() {
        one.latency_ns = one.latency_ns.filter(|&latency_ns| latency_ns <= most_ns);
    }
    let known_ns: u64 = executed.iter().filter_map(|one| one.latency_ns).sum();
    if known_ns > most_ns || known_ns == 0 && span_ns > TICK_NS_MAX {
        executed.iter_mut().for_each(|one| one.latency_ns = None);
    }
}

/// A budget as routines take it, in microseconds.
pub fn budget_us(budget: Duration) -> i64 {
    i64::try_from(budget.as_micros()).unwrap_or(i64::MAX).max(1)
}

/// The bounds of an operation's keys as databases have them, in signed integers. A scan has none.
pub fn keys(operation: &Operation) -> (i64, i64) {
    match operation.kind {
        Kind::Scan => (0, 0),
        _ => (operation.first.cast_signed(), operation.last().cast_signed()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::scripted::{operation, session_error};
    use super::*;
    use crate::Stop;
    use proptest::prelude::*;
    use std::sync::Arc;

    fn batch(schemas: &[u32]) -> Vec<Operation> {
        schemas.iter().map(|&schema| operation(Kind::Select, schema, 1, 1)).collect()
    }

    fn unlimited() -> Stop {
        Stop::unlimited(Arc::default())
    }

    fn executed(latency_ns: u64) -> Executed {
        Executed { latency_ns: Some(latency_ns), rows: 1, failure: None }
    }

    #[test]
    fn the_hot_schema_is_reached_from_home() {
        let batch = batch(&[2, 1, 2, 5, 5, 1]);
        let part = |from| {
            next_part(&by_schema(2), &batch, from).map(|part| (part.home, part.operations.len()))
        };
        assert_eq!(part(0), Some((2, 3)));
        assert_eq!(part(3), Some((5, 2)));
        assert_eq!(part(6), None);
    }

    #[test]
    fn noted_errors_are_read() {
        let noted = NotedError::parse("12 40P01 deadlock detected").unwrap();
        assert_eq!((noted.at, noted.code, noted.message), (11, "40P01", "deadlock detected"));
        assert!(NotedError::parse("0 40P01 odd").is_none());
        assert!(NotedError::parse("odd").is_none());
    }

    proptest! {
        #[test]
        fn parts_are_the_batch_in_order(schemas in prop::collection::vec(1u32..5, 0..40), home in 1u32..5) {
            let all = batch(&schemas);
            let mut from = 0;
            while let Some(part) = next_part(&by_schema(home), &all, from) {
                prop_assert!(part.from == from && !part.operations.is_empty());
                let of = |schema| schema == part.home || schema == 1 && part.home == home;
                prop_assert!(part.operations.iter().all(|one| of(one.schema)));
                from += part.operations.len();
            }
            prop_assert_eq!(from, all.len());
        }

        #[test]
        fn every_operation_ends_once_however_many_a_call_takes(
            schemas in prop::collection::vec(1u32..4, 0..60), takes in 1usize..9,
        ) {
            let mut done = Outcomes::default();
            let mut call = |part: &BatchPart<'_>| {
                Ok(part.operations.iter().take(takes).map(|_| executed(7)).collect())
            };
            let (all, stop) = (batch(&schemas), unlimited());
            let all = Batch::new(&all, &stop, &mut done);
            run(&by_schema(1), BUDGET_MAX, all, &mut call).unwrap();
            let operations: Vec<u32> = done.ended.iter().map(|one| one.operation).collect();
            prop_assert_eq!(operations, (0..schemas.len() as u32).collect::<Vec<_>>());
            prop_assert!(done.ended.is_sorted_by_key(|one| one.end_ns));
        }
    }

    #[test]
    fn ends_are_counted_back_from_the_return_and_never_before_the_call() {
        let batch = batch(&[1, 1, 1]);
        let part = next_part(&by_schema(1), &batch, 0).unwrap();
        let mut done = Outcomes::default();
        // A little more than the call, as a clock that runs faster may count.
        let all = vec![executed(30), executed(12), executed(20)];
        assert_eq!(fold(&part, all, [960, 1000], &mut done).unwrap(), 3);
        let ends: Vec<u64> = done.ended.iter().map(|one| one.end_ns).collect();
        assert_eq!(ends, [968, 980, 1000]);
    }

    /// A fault of a server's clock in a call, or none.
    #[derive(Debug, Clone, Copy)]
    enum Clock {
        Goes,
        StepsBy(i64),
        IsZeroed,
        Freezes,
    }

    /// The outcomes of a call whose operations took `took_us` by a server's clock, with the fault
    /// `clock` in the operation at `at`.
    fn outcomes(took_us: &[u32], at: usize, clock: Clock) -> Vec<Outcome> {
        let (mut moment, mut begin) = (1_000_000_000i64, 1_000_000_000i64);
        let mut all = Vec::new();
        for (number, &took) in took_us.iter().enumerate() {
            let is_frozen = matches!(clock, Clock::Freezes) && number >= at;
            moment += if is_frozen { 0 } else { i64::from(took) };
            match clock {
                Clock::StepsBy(us) if number == at => moment += us,
                Clock::IsZeroed if number == at => moment = 0,
                _ => {}
            }
            let latency_ns = latency_ns(Some(begin), Some(moment));
            all.push(Executed { latency_ns, rows: 1, failure: None });
            begin = moment;
        }
        let batch = batch(&vec![1; took_us.len()]);
        let part = next_part(&by_schema(1), &batch, 0).unwrap();
        let span_ns = took_us.iter().map(|&us| u64::from(us) * NS_PER_US).sum::<u64>();
        let mut done = Outcomes::default();
        fold(&part, all, [5_000, 5_000 + span_ns], &mut done).unwrap();
        done.ended
    }

    proptest! {
        #[test]
        fn a_clock_that_is_set_gives_no_latency_and_no_more_time_than_passed(
            took_us in prop::collection::vec(50u32..20_000, 1..60), at in 0usize..60,
            seconds in prop_oneof![Just(-30i64), Just(30), Just(86_400)],
            kind in 0u8..4,
        ) {
            let at = at % took_us.len();
            let clock = match kind {
                0 => Clock::Goes,
                1 => Clock::StepsBy(seconds * 1_000_000),
                2 => Clock::IsZeroed,
                _ => Clock::Freezes,
            };
            let ended = outcomes(&took_us, at, clock);
            let span_ns = took_us.iter().map(|&us| u64::from(us) * NS_PER_US).sum::<u64>();
            prop_assert!(ended.iter().map(|one| one.busy_ns).sum::<u64>() <= span_ns);
            prop_assert!(ended.is_sorted_by_key(|one| one.end_ns));
            for (number, (one, &took)) in ended.iter().zip(&took_us).enumerate() {
                let exact = Some(u64::from(took) * NS_PER_US);
                match clock {
                    Clock::Goes => prop_assert_eq!(one.latency_ns, exact),
                    // Only the operation in which it was set is unknown.
                    Clock::StepsBy(_) | Clock::IsZeroed if number == at => {
                        prop_assert_eq!(one.latency_ns, None);
                    }
                    Clock::StepsBy(_) | Clock::IsZeroed => prop_assert_eq!(one.latency_ns, exact),
                    Clock::Freezes => prop_assert!(one.latency_ns.unwrap_or(0) <= span_ns),
                }
            }
        }
    }

    #[test]
    fn a_frozen_clock_and_a_small_step_forward_leave_no_latency() {
        let frozen = outcomes(&[9_000, 8_000, 7_000], 0, Clock::Freezes);
        assert!(frozen.iter().all(|one| one.latency_ns.is_none() && one.busy_ns == 8_000_000));
        // Shorter than the call: its operation is not known.
        let stepped = outcomes(&[9_000, 8_000, 7_000], 1, Clock::StepsBy(5_000));
        assert!(stepped.iter().all(|one| one.latency_ns.is_none()));
        // Short calls may fall between two ticks of a coarse clock.
        let coarse = outcomes(&[900, 800], 0, Clock::Freezes);
        assert!(coarse.iter().all(|one| one.latency_ns == Some(0)));
    }

    #[test]
    fn a_failure_costs_an_operation_a_call_or_the_session() {
        let (batch, mut done) = (batch(&[1; 6]), Outcomes::default());
        let mut calls = 0;
        let mut call = |_: &BatchPart<'_>| {
            calls += 1;
            if calls == 1 {
                return Err(Failure::Counted("busy".into()));
            }
            let failed = |failure| Executed { failure: Some(failure), ..executed(1) };
            let (deadlock, gone) =
                (Failure::Counted("deadlock".into()), session_error("gone").into());
            Ok(vec![failed(deadlock), executed(1), failed(gone)])
        };
        let stop = unlimited();
        let batch = Batch::new(&batch, &stop, &mut done);
        let lost = run(&by_schema(1), BUDGET_MAX, batch, &mut call).unwrap_err();
        assert_eq!(lost.code, "gone");
        let codes: Vec<Option<&str>> = done.ended.iter().map(|one| one.error.as_deref()).collect();
        assert_eq!(codes, [Some("busy"), Some("deadlock"), None]);
        assert_eq!(done.ended[2].operation, 2);
    }

    #[test]
    fn a_call_that_nothing_ends_in_ends_the_batch_and_budgets_have_a_limit() {
        let mut budgets = Vec::new();
        let mut call = |part: &BatchPart<'_>| {
            budgets.push(part.budget);
            Ok(Vec::new())
        };
        let (second, hour) = (Duration::from_secs(1), Duration::from_secs(3600));
        let trigger = Instant::now();
        let stop = Stop::until(trigger, Some(trigger + hour), Arc::default(), Arc::default());
        for budget_max in [second, 2 * hour] {
            let mut done = Outcomes::default();
            let two = batch(&[1, 1]);
            let two = Batch::new(&two, &stop, &mut done);
            run(&by_schema(1), budget_max, two, &mut call).unwrap();
            assert!(done.ended.is_empty());
        }
        assert_eq!(budgets[0], second);
        assert!(budgets.len() == 2 && budgets[1] <= hour);
    }
}
