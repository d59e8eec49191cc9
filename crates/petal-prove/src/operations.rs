//! Promises about operations of sessions.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};

use petal_engine::threads::Thread;
use petal_engine::{Batch, CUT, EngineError, Outcome, Outcomes, Stop};
use petal_workload::op::{Kind, Operation};
use petal_workload::plan::{HotKeys, Workload};
use petal_workload::seat::Role;

use super::{
    EXECUTE, Of as _, PromiseResult, Provable, ProvedRows, ROWS, SCAN_ROWS, TriedPromise, UNIT,
    Unproved, choose, differing, execute, held, hold, keys, operation, seat, succeeded, touched,
    unlimited, workload,
};

const CONNECT: &str = "Engine::connect";
const LATENCY: &str = "Outcome::latency_ns";
/// The shortest share of a call that its latency may be.
const LATENCY_SHARE_MIN: f64 = 0.5;
/// The shortest share of a call that waits for a lock. The rest of it is the way there, and a busy host.
const HELD_SHARE_MIN: f64 = 0.8;
/// The largest share: the two clocks are read one after the other.
const LATENCY_SHARE_MAX: f64 = 1.05;

/// Reads a schema's rows, for a promise about written texts.
fn rows(subject: &dyn Provable, schema: u32) -> PromiseResult<ProvedRows> {
    subject.rows(schema).of(EXECUTE)
}

pub fn an_operation_touches_its_work_unit(subject: &dyn Provable) -> PromiseResult {
    const ITEM: &str = "Outcome::rows";
    let engine = subject.open().of(CONNECT)?;
    let home = seat(1, 1, Role::Mixed);
    let mut session = engine.connect(home).of(CONNECT)?;
    let batch = choose(&workload(), home, 500);
    let mut visited = 0;
    for (operation, rows) in batch.iter().zip(execute(session.as_mut(), &batch, ITEM)?) {
        let meant = match operation.kind {
            Kind::Select => u64::from(UNIT),
            Kind::Update => u64::from(UNIT / 2),
            Kind::Scan => SCAN_ROWS,
        };
        let (kind, first) = (operation.kind.name(), operation.first);
        hold!(ITEM, rows == meant, "{rows} of {meant} rows: {kind} from key {first} on");
        visited += rows;
    }
    // The ends of the data, and all of it at once.
    for (first, rows) in [(1, 1), (ROWS, 1), (1, ROWS)] {
        let both = [Kind::Select, Kind::Update].map(|kind| operation(kind, 1, first, rows));
        let seen = execute(session.as_mut(), &both, ITEM)?;
        let right = seen.iter().filter(|seen| **seen == rows).count();
        hold!(ITEM, right == 2, "{right} of 2 operations visit {rows} rows from key {first} on");
    }
    held(format!("500 operations visited {visited} rows, as asked"))
}

/// A call of a single operation lasts as long as it and the way there, and little longer.
pub fn a_latency_holds_all_rows_of_its_operation(subject: &dyn Provable) -> PromiseResult {
    let engine = subject.open().of(CONNECT)?;
    let mut session = engine.connect(seat(1, 1, Role::Mixed)).of(CONNECT)?;
    let mut seen = Vec::new();
    for kind in [Kind::Select, Kind::Update] {
        let name = kind.name();
        let mut share_of_best: f64 = 0.0;
        for stamp in 10..40 {
            let all = Operation { stamp, ..operation(kind, 1, 1, ROWS) };
            let mut done = Outcomes::default();
            let begin = Instant::now();
            let executed = session.execute(Batch::new(&[all], &unlimited(), &mut done));
            let waited_ns = begin.elapsed().as_nanos() as f64;
            executed.map_err(|error| Unproved::lost(LATENCY, &error))?;
            let ended = done.ended.first();
            hold!(LATENCY, ended.is_some(), "a call of one operation has no outcome");
            ended.map_or(Ok(()), succeeded)?;
            let share = ended.map_or(0.0, |ended| ended.busy_ns as f64 / waited_ns);
            let is_within = share <= LATENCY_SHARE_MAX;
            hold!(LATENCY, is_within, "{name}: a latency of {share:.2} of the time that passed");
            share_of_best = share_of_best.max(share);
            if share_of_best > LATENCY_SHARE_MIN {
                break;
            }
        }
        let is_whole = share_of_best > LATENCY_SHARE_MIN;
        hold!(LATENCY, is_whole, "{name}: {share_of_best:.2} of the time that passed");
        seen.push(format!("{name}: {share_of_best:.2}"));
    }
    held(format!("latency as a share of the call by petal's clock: {}", seen.join(", ")))
}

/// An UPDATE that waits for somebody's lock is between SELECTs, in one call.
pub fn a_latency_is_that_of_its_own_operation(subject: &dyn Provable) -> PromiseResult {
    /// The wait, which is longer than any SELECT of one row.
    const HELD: Duration = Duration::from_millis(400);
    const TRIES: u32 = 3;
    let select = |key| operation(Kind::Select, 1, key, 1);
    let batch = [select(11), select(12), operation(Kind::Update, 1, 1, 1), select(13), select(14)];
    let mut seen = String::new();
    for _ in 0..TRIES {
        let engine = subject.open().of(CONNECT)?;
        let mut session = engine.connect(seat(1, 1, Role::Mixed)).of(CONNECT)?;
        execute(session.as_mut(), &batch, LATENCY)?;
        let Some(holder) = subject.hold().of(LATENCY)? else {
            return Ok(TriedPromise::NotTried("petal cannot lock rows there".to_owned()));
        };
        let (stop, mut done) = (unlimited(), Outcomes::default());
        let executed = std::thread::scope(|scope| {
            let execute = || {
                let begin = Instant::now();
                let executed = session.execute(Batch::new(&batch, &stop, &mut done));
                executed.map(|()| begin.elapsed())
            };
            let executing = Thread::named("held").start_in(scope, execute);
            std::thread::sleep(HELD);
            drop(holder);
            let executing = executing.map_err(EngineError::from).of("a thread")?;
            joined(executing.join()).map_err(|error| Unproved::lost(LATENCY, &error))
        });
        let call = executed?;
        done.ended.iter().try_for_each(succeeded)?;
        let [first, second, update, third, fourth] = done.ended.as_slice() else {
            hold!(LATENCY, false, "{} outcomes of {} operations", done.ended.len(), batch.len());
            continue;
        };
        let latency = |outcome: &Outcome| outcome.latency_ns.unwrap_or(outcome.busy_ns);
        let (waited, selects) = (latency(update), [first, second, third, fourth].map(latency));
        let longest = selects.into_iter().max().unwrap_or_default();
        let share = (waited + selects.iter().sum::<u64>()) as f64 / call.as_nanos() as f64;
        seen = format!(
            "an UPDATE that waited {} ms for a lock took {} ms, each SELECT next to it at most {} us; all \
             five are {share:.2} of the call by petal's clock",
            HELD.as_millis(),
            waited / 1_000_000,
            longest / 1000
        );
        // On a busy host the UPDATE may begin late, or a SELECT take long.
        let is_long = waited > HELD.as_nanos() as u64 / 2 && waited > 4 * longest;
        if is_long && share > HELD_SHARE_MIN {
            return held(seen);
        }
    }
    Err(Unproved::Broken { item: LATENCY, seen })
}

fn joined<T>(ended: std::thread::Result<T>) -> T {
    ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

pub fn updates_persist_and_reads_change_nothing(subject: &dyn Provable) -> PromiseResult {
    let before = rows(subject, 1)?;
    let (writer, reader) = (seat(1, 1, Role::Writer), seat(2, 1, Role::Reader));
    let (updates, reads) = (choose(&workload(), writer, 40), choose(&workload(), reader, 200));
    for (seat, batch, meant, who) in
        [(reader, &reads, Vec::new(), "reader"), (writer, &updates, touched(&updates), "writer")]
    {
        let engine = subject.open().of(CONNECT)?;
        execute(engine.connect(seat).of(CONNECT)?.as_mut(), batch, EXECUTE)?;
        drop(engine);
        let changed = differing(&before, &rows(subject, 1)?)?;
        hold!(
            EXECUTE,
            changed == meant,
            "a {who} changed {}, meant {}",
            keys(&changed),
            keys(&meant)
        );
    }
    // Values differ every time, in unchanged length.
    let after = rows(subject, 1)?;
    let is_as_long = |(key, text): (&u64, &String)| before[key].len() == text.len();
    hold!(EXECUTE, after.iter().all(is_as_long), "an UPDATE changed the length of a row's text");
    if let Some(last) = updates.last() {
        let text = after.get(&last.first);
        let same = after.values().filter(|other| Some(*other) == text).count() as u64;
        let meant = u64::from(last.rows);
        hold!(EXECUTE, same == meant, "{same} rows have the last UPDATE's text, meant {meant}");
    }
    held(format!("40 UPDATEs changed {}; 200 reads none", keys(&touched(&updates))))
}

pub fn a_commit_is_there_when_it_is_acknowledged(subject: &dyn Provable) -> PromiseResult {
    let Some(before) = subject.rows_at_once(1).of(EXECUTE)? else {
        return Ok(TriedPromise::NotTried("its rows are not visible at once".to_owned()));
    };
    let writer = seat(1, 1, Role::Writer);
    // Another stream than that of the other UPDATEs: each row gets a new text.
    let updates = choose(&Workload { seed: 4, ..workload() }, writer, 20);
    let engine = subject.open().of(CONNECT)?;
    let mut session = engine.connect(writer).of(CONNECT)?;
    let executed = session.execute(Batch::new(&updates, &unlimited(), &mut Outcomes::default()));
    executed.map_err(|error| Unproved::lost(EXECUTE, &error))?;
    let now = subject.rows_at_once(1).of(EXECUTE)?.unwrap_or_default();
    let (changed, meant) = (differing(&before, &now)?, touched(&updates));
    hold!(EXECUTE, changed == meant, "others see {} updated of {}", keys(&changed), keys(&meant));
    held(format!(
        "20 commits: another connection sees {}; whether the disk has them is not tried",
        keys(&meant)
    ))
}

pub fn a_hot_spot_stays_inside(subject: &dyn Provable) -> PromiseResult {
    let before = rows(subject, 1)?;
    let spot = HotKeys { first: 300, rows: 100, frequency: 1 };
    let hot = Workload { seed: 5, update_pct: 100, hot_spot: Some(spot), ..workload() };
    let home = seat(1, 1, Role::Mixed);
    let engine = subject.open().of(CONNECT)?;
    let mut session = engine.connect(home).of(CONNECT)?;
    execute(session.as_mut(), &choose(&hot, home, 300), EXECUTE)?;
    drop((session, engine));
    let changed = differing(&before, &rows(subject, 1)?)?;
    let meant: Vec<u64> = (300..400).collect();
    hold!(EXECUTE, changed == meant, "changed {}", keys(&changed));
    held("300 UPDATEs changed keys 300 to 399 alone")
}

pub fn a_hot_schema_takes_the_operations_of_others(subject: &dyn Provable) -> PromiseResult {
    let home = seat(1, 2, Role::Mixed);
    let hot = |frequency: u32, seed: u64| Workload {
        seed,
        update_pct: 100,
        hot_schema_frequency: frequency,
        ..workload()
    };
    let changed_by = |batch: &[Operation]| -> PromiseResult<[Vec<u64>; 2]> {
        let before = [rows(subject, 1)?, rows(subject, 2)?];
        let engine = subject.open().of(CONNECT)?;
        execute(engine.connect(home).of(CONNECT)?.as_mut(), batch, EXECUTE)?;
        drop(engine);
        Ok([differing(&before[0], &rows(subject, 1)?)?, differing(&before[1], &rows(subject, 2)?)?])
    };
    let [in_first, at_home] = changed_by(&choose(&hot(1, 6), home, 50))?;
    let is_all = !in_first.is_empty() && at_home.is_empty();
    hold!(
        EXECUTE,
        is_all,
        "all in schema 1: {} there, {} at home",
        keys(&in_first),
        keys(&at_home)
    );
    // Every third: the rest stays at home.
    let batch = choose(&hot(3, 7), home, 90);
    let in_first = batch.iter().filter(|operation| operation.schema == 1).count();
    hold!(EXECUTE, in_first == 30, "{in_first} of 90 operations are of the hot schema");
    let [in_first, at_home] = changed_by(&batch)?;
    let are_both = !in_first.is_empty() && !at_home.is_empty();
    hold!(
        EXECUTE,
        are_both,
        "a third: {} in schema 1, {} at home",
        keys(&in_first),
        keys(&at_home)
    );
    held(format!(
        "a third of 90 UPDATEs: {} in schema 1, {} at home",
        keys(&in_first),
        keys(&at_home)
    ))
}

pub fn nothing_begins_after_the_stop(subject: &dyn Provable) -> PromiseResult {
    let engine = subject.open().of(CONNECT)?;
    let home = seat(1, 1, Role::Mixed);
    let mut session = engine.connect(home).of(CONNECT)?;
    let stop = Stop::unlimited(Arc::new(AtomicU8::new(1)));
    let mut done = Outcomes::default();
    let batch = choose(&workload(), home, 20);
    let executed = session.execute(Batch::new(&batch, &stop, &mut done));
    executed.map_err(|error| Unproved::lost(EXECUTE, &error))?;
    let begun = done.ended.len();
    hold!(EXECUTE, begun == 0, "{begun} operations began after the stop");
    held("none of 20 operations began")
}

/// An UPDATE waits for somebody's lock, and is cancelled.
pub fn a_cancelled_operation_ends_and_is_not_done(subject: &dyn Provable) -> PromiseResult {
    const ITEM: &str = "Cancel::cancel";
    let before = rows(subject, 1)?;
    let engine = subject.open().of(CONNECT)?;
    let update = [operation(Kind::Update, 1, 1, 4)];
    let mut session = engine.connect(seat(1, 1, Role::Mixed)).of(CONNECT)?;
    let canceller = session.canceller();
    let (level, mut done) = (Arc::new(AtomicU8::new(0)), Outcomes::default());
    let stop = Stop::unlimited(Arc::clone(&level));
    let Some(holder) = subject.hold().of(ITEM)? else {
        return Ok(TriedPromise::NotTried("petal cannot lock rows there".to_owned()));
    };
    let (waited, cut_after) = std::thread::scope(|scope| {
        let execute = || session.execute(Batch::new(&update, &stop, &mut done));
        let executing = Thread::named("cut").start_in(scope, execute);
        let executing = executing.map_err(EngineError::from).of("a thread")?;
        std::thread::sleep(Duration::from_millis(300));
        let waited = !executing.is_finished();
        level.store(1, Ordering::Relaxed);
        let began = Instant::now();
        while !executing.is_finished() && began.elapsed() < Duration::from_secs(8) {
            canceller.cancel();
            std::thread::sleep(Duration::from_millis(20));
        }
        let cut_after = executing.is_finished().then(|| began.elapsed());
        drop(holder);
        joined(executing.join()).map_err(|error| Unproved::lost(ITEM, &error))?;
        Ok::<_, Unproved>((waited, cut_after))
    })?;
    hold!(ITEM, waited, "an UPDATE of locked rows did not wait");
    let seconds = cut_after.map_or(8.0, |after| after.as_secs_f64());
    hold!(ITEM, cut_after.is_some(), "an operation that waits for a lock goes on for 8 seconds");
    let errors: Vec<&str> =
        done.ended.iter().map(|outcome| outcome.error.as_deref().unwrap_or("done")).collect();
    hold!(ITEM, errors == [CUT], "the outcome of a cancelled operation: {}", errors.join(", "));
    drop((session, engine));
    let changed = differing(&before, &rows(subject, 1)?)?;
    hold!(ITEM, changed.is_empty(), "a cancelled UPDATE changed {}", keys(&changed));
    held(format!("cut after {seconds:.1} s, and no row is changed"))
}
