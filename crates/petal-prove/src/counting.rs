//! Promises about the server's own counters.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use petal_engine::{Engine, Silent, endpoints};
use petal_record::counters::{Counters, IoCounts};
use petal_workload::op::{Kind, Operation};
use petal_workload::plan::Workload;
use petal_workload::seat::{Role, Seat};

use super::data::without_room;
use super::{
    EXECUTE, Of as _, PromiseResult, Provable, ROWS, SCAN_ROWS, SCHEMAS, UNIT, choose, execute,
    figure, held, hold, operation, seat, workload,
};

const COUNTERS: &str = "Engine::read_counters";
/// Statements that a server may commit when petal opens a session or reads counters.
const OWN_STATEMENTS: u64 = 20;
/// Time in which petal does nothing, to count the work of others.
const IDLE: Duration = Duration::from_millis(300);
/// Times after which a server of PostgreSQL 14 and before has counted a session that still works.
const LATE: Duration = Duration::from_millis(600);
const LATE_TRIES: u32 = 4;
/// Others' work may be so many times more while petal works.
const OTHERS_RISE: f64 = 2.0;
/// Most visits that are counted for ten that a long SELECT needs: an index entry may be visited again for
/// each row. Three times as many as there are would be more.
const VISITS_OF_TEN_MAX: u64 = 25;

fn counters(engine: &dyn Engine) -> PromiseResult<Vec<Counters>> {
    engine.read_counters(true).of(COUNTERS)
}

fn sum(counters: &[Counters]) -> IoCounts {
    let sums = counters.iter().map(|endpoint| endpoint.io);
    sums.reduce(|sum, other| sum.plus(&other)).unwrap_or_default()
}

/// Commits and other figures that a server counts for others, and for petal's reads.
pub struct Surroundings {
    /// True if a SELECT is a commit, too.
    reads_commit: bool,
    idle: IoCounts,
    idle_s: f64,
    is_shared: bool,
}

impl Surroundings {
    pub fn look(subject: &dyn Provable, engine: &dyn Engine) -> PromiseResult<Self> {
        const READS: usize = 20;
        let reads = choose(&workload(), seat(1, 1, Role::Reader), READS);
        read_all(engine, &reads)?;
        let (before, begin) = (sum(&counters(engine)?), Instant::now());
        std::thread::sleep(IDLE);
        let idle = sum(&counters(engine)?);
        let idle_s = begin.elapsed().as_secs_f64();
        read_all(engine, &reads)?;
        let read = sum(&counters(engine)?).since(&idle);
        let reads_commit = read.commits.unwrap_or(0) >= READS as u64;
        let is_shared = subject.is_shared();
        Ok(Self { reads_commit, idle: idle.since(&before), idle_s, is_shared })
    }

    /// True if others work there: their part of a figure is unknown, and no upper bound is asked.
    fn has_others(&self) -> bool {
        self.is_shared
            || self.idle.commits > Some(OWN_STATEMENTS)
            || self.idle.logical_reads > Some(ROWS)
    }

    /// An upper bound, with a little work of others in this time; `None` if they work there.
    fn bound(&self, most: u64, idle: Option<u64>, seconds: f64) -> Option<u64> {
        let others = idle.unwrap_or(0) as f64 * seconds / self.idle_s * OTHERS_RISE;
        (!self.has_others()).then_some(most + others.ceil() as u64)
    }

    /// The most commits for so many UPDATEs and reads in this time, with sessions that are opened and
    /// counters that are read.
    pub fn commits_max(&self, updates: u64, reads: u64, looks: u64, seconds: f64) -> Option<u64> {
        let own = match self.reads_commit {
            true => reads + looks * OWN_STATEMENTS,
            // Fewer than twice as many: sessions are opened and counters read, in each second once.
            false => {
                updates.saturating_sub(1) + (seconds as u64).saturating_sub(10) * OWN_STATEMENTS
            }
        };
        self.bound(updates + own, self.idle.commits, seconds)
    }
}

/// Fails unless a figure of the server's is in its range.
pub fn within(what: &str, is: Option<u64>, least: u64, most: Option<u64>) -> PromiseResult<()> {
    let is_within = is.is_some_and(|is| is >= least && most.is_none_or(|most| is <= most));
    let (is, bound) = (figure(is), upper(most));
    hold!(COUNTERS, is_within, "the server counts {is} {what}; right are {least} to {bound}");
    Ok(())
}

/// An upper bound in words.
pub fn upper(most: Option<u64>) -> String {
    most.map_or("any number, because others work there".to_owned(), |most| most.to_string())
}

/// Reads in a session that ends, so that a server which counts in its own time has counted all.
fn read_all(engine: &dyn Engine, reads: &[Operation]) -> PromiseResult<()> {
    let mut session = engine.connect(seat(1, 1, Role::Reader)).of(EXECUTE)?;
    execute(session.as_mut(), reads, EXECUTE)?;
    drop(session);
    engine.quiesce().of(COUNTERS)
}

/// Fails if a long SELECT visits fewer blocks than rows, or far more.
fn visits_agree(engine: &dyn Engine, around: &Surroundings) -> PromiseResult<()> {
    let all = [operation(Kind::Select, 1, 1, ROWS); 4];
    read_all(engine, &all[..1])?;
    let (before, begin) = (sum(&counters(engine)?), Instant::now());
    read_all(engine, &all)?;
    let visits = sum(&counters(engine)?).since(&before).logical_reads;
    if visits.is_none() {
        return Ok(());
    }
    let rows = ROWS * all.len() as u64;
    let of_a_row = engine.server().map_or(1, |server| server.visits_of_a_row());
    let seconds = begin.elapsed().as_secs_f64();
    let most = rows * of_a_row * VISITS_OF_TEN_MAX / 10;
    let most = around.bound(most, around.idle.logical_reads, seconds);
    within(&format!("visits of {rows} rows in long SELECTs"), visits, rows, most)
}

/// Fails if a figure vanished or fell.
fn grew(now: &[Counters], before: &[Counters]) -> PromiseResult<()> {
    let figures = |counters: &[Counters]| -> BTreeMap<String, u64> {
        let io = IoCounts::NAMES.into_iter().map(str::to_owned).zip(sum(counters).each());
        let waits = counters.iter().flat_map(|of| of.waits.iter().map(move |wait| (of, wait)));
        let waits = waits.map(|(of, wait)| (format!("{} {}", of.endpoint, wait.name), wait));
        let times =
            waits.clone().map(|(name, wait)| (format!("time of {name}"), Some(wait.time_ns)));
        let counts = waits.map(|(name, wait)| (format!("waits of {name}"), wait.waits));
        let all = io.chain(times).chain(counts);
        all.filter_map(|(name, value)| Some((name, value?))).collect()
    };
    let now = figures(now);
    for (name, then) in figures(before) {
        let value = now.get(&name).copied();
        let is = figure(value);
        hold!(COUNTERS, value >= Some(then), "{name} fell from {then} to {is}");
    }
    Ok(())
}

pub fn counters_only_grow_and_agree_with_the_work(subject: &dyn Provable) -> PromiseResult {
    const UPDATES: u64 = 480;
    let engine = subject.open().of(COUNTERS)?;
    let engine = engine.as_ref();
    let around = Surroundings::look(subject, engine)?;
    let (opening, begin) = (counters(engine)?, Instant::now());
    let mut last = opening.clone();
    for round in 0..4u32 {
        let home = seat(round + 1, round % 2 + 1, Role::Mixed);
        let mut session = engine.connect(home).of(EXECUTE)?;
        let reader = Seat { role: Role::Reader, ..home };
        execute(session.as_mut(), &choose(&workload(), reader, 10), EXECUTE)?;
        let read = sum(&counters(engine)?);
        execute(session.as_mut(), &choose(&workload(), home, 300), EXECUTE)?;
        let is_counted = |engine: &dyn Engine| {
            let now = sum(&counters(engine)?).logical_reads;
            Ok(now.zip(read.logical_reads).is_none_or(|(now, then)| now > then))
        };
        // A server of before may count a session in its own time, at the end of a later statement.
        for _ in 0..LATE_TRIES {
            if is_counted(engine)? {
                break;
            }
            std::thread::sleep(LATE);
            execute(session.as_mut(), &choose(&workload(), reader, 1), EXECUTE)?;
        }
        let words = "no read of a session that flushed is counted";
        hold!("Session::flush_statistics", is_counted(engine)?, "{words}");
        // Sessions leave; their work stays counted.
        drop(session);
        let now = counters(engine)?;
        grew(&now, &last)?;
        last = now;
    }
    engine.quiesce().of(COUNTERS)?;
    let work = sum(&counters(engine)?).since(&sum(&opening));
    // Each round opens a session and reads counters twice.
    let seconds = begin.elapsed().as_secs_f64();
    let most = match subject.is_alone() {
        true => Some(UPDATES),
        false => around.commits_max(UPDATES, 760, 4 * 3 + 2, seconds),
    };
    within("commits", Some(work.commits.unwrap_or(0)), UPDATES, most)?;
    let unit = u64::from(UNIT);
    let visited = 4 * (120 * (unit / 2) + 162 * unit + 9 * unit);
    if let Some(logical) = work.logical_reads {
        hold!(COUNTERS, logical >= visited, "{visited} rows, the server counts {logical} visits");
    }
    if let Some(redo) = work.redo_bytes {
        // At most an image of each block and each changed row: a server may log whole blocks once after a
        // checkpoint, also when a read cleans them.
        let blocks = u64::from(SCHEMAS) * (ROWS + SCAN_ROWS) + 2 * UPDATES * unit / 2;
        let most = blocks * u64::from(subject.plan(1).block_size);
        let most = around.bound(most, around.idle.redo_bytes, seconds);
        within("bytes of redo", Some(redo), UPDATES * 100, most)?;
    }
    visits_agree(engine, &around).or_else(|unproved| {
        // Replaced rows that settling removes were held by nobody.
        engine.settle(&Silent, &subject.stop()).of(COUNTERS)?;
        Err(without_room(engine, unproved))
    })?;
    let named = IoCounts::NAMES.into_iter().zip(work.each());
    let named = named.filter_map(|(name, value)| Some(format!("{name} {}", value?)));
    let server: Vec<String> = named.collect();
    let (server, most) = (server.join(", "), upper(most));
    held(format!(
        "petal: {UPDATES} commits, {visited} rows; the server, at most {most} commits: {server}"
    ))
}

/// Work at one endpoint counts nothing at the others.
pub fn counters_are_of_their_own_endpoint(subject: &dyn Provable) -> PromiseResult {
    let engine = subject.open().of(COUNTERS)?;
    let engine = engine.as_ref();
    let commits = || -> PromiseResult<Vec<u64>> {
        let counts = counters(engine)?.into_iter().map(|endpoint| endpoint.io.commits);
        let counts: Option<Vec<u64>> = counts.collect();
        hold!(COUNTERS, counts.is_some(), "commits are unknown");
        Ok(counts.unwrap_or_default())
    };
    const UPDATES: u64 = 100;
    let many = Workload { update_pct: 100, ..workload() };
    let updates = choose(&many, seat(1, 1, Role::Mixed), UPDATES as usize);
    let around = Surroundings::look(subject, engine)?;
    let (all, counted) = (endpoints(engine), commits()?.len() as u32);
    hold!("Server::endpoints", all == counted, "{all} endpoints, {counted} are counted");
    let mut seen = Vec::new();
    for endpoint in 0..all {
        let (before, begin) = (commits()?, Instant::now());
        let home = Seat { endpoint, ..seat(1, 1, Role::Mixed) };
        execute(engine.connect(home).of(EXECUTE)?.as_mut(), &updates, EXECUTE)?;
        engine.quiesce().of(COUNTERS)?;
        for (at, (now, before)) in (0..).zip(commits()?.into_iter().zip(before)) {
            let more = now.saturating_sub(before);
            let most = around.commits_max(UPDATES, 0, 3, begin.elapsed().as_secs_f64());
            let is_right = match at == endpoint {
                true => more >= UPDATES && most.is_none_or(|most| more <= most),
                false => more < UPDATES,
            };
            let words = format!(
                "{UPDATES} commits at endpoint {endpoint}, endpoint {at} counts {more} (at most {} \
                 there)",
                upper(most)
            );
            hold!("Server::endpoints", is_right, "{words}");
            seen.push(words);
        }
    }
    held(seen.join("; "))
}
