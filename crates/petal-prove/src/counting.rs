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
    EXECUTE, Of as _, PromiseResult, Provable, ROWS, UNIT, Unproved, choose, execute, figure, held,
    hold, operation, seat, workload,
};

const COUNTERS: &str = "Engine::read_counters";
/// Shortest and longest time in which petal does nothing, to count the work of others.
const IDLE: Duration = Duration::from_millis(300);
const IDLE_MAX: Duration = Duration::from_secs(10);
/// Times after which a server of PostgreSQL 14 and before has counted a session that still works.
const LATE: Duration = Duration::from_millis(600);
const LATE_TRIES: u32 = 4;
/// Times that work is tried if the server counts too much.
const TRIES: usize = 3;
/// A wrong counter is wrong by the same factor each time; others' work comes and goes.
const SAME_FACTOR: f64 = 1.2;

fn counters(engine: &dyn Engine) -> PromiseResult<Vec<Counters>> {
    engine.read_counters(true).of(COUNTERS)
}

fn sum(counters: &[Counters]) -> IoCounts {
    let sums = counters.iter().map(|endpoint| endpoint.io);
    sums.reduce(|sum, other| sum.plus(&other)).unwrap_or_default()
}

/// A figure of the server's counters.
type CounterOf = Box<dyn Fn(&[Counters]) -> Option<u64>>;

type IoFigure = fn(&IoCounts) -> Option<u64>;

/// The figure that is the sum of all endpoints.
pub fn of_all(figure: IoFigure) -> CounterOf {
    Box::new(move |counters| figure(&sum(counters)))
}

/// A figure that the server counted during petal's work, and its range if nobody else works there.
pub struct CountedFigure {
    pub what: String,
    pub figure: CounterOf,
    pub is: Option<u64>,
    pub least: u64,
    pub most: u64,
}

impl CountedFigure {
    fn words(&self) -> String {
        let Self { what, is, least, most, .. } = self;
        format!("the server counts {} {what}; right are {least} to {most}", figure(*is))
    }
}

/// Petal's work, and the figures that the server counted for it.
pub struct CountedWork<T> {
    pub result: T,
    pub seconds: f64,
    pub figures: Vec<CountedFigure>,
}

/// The server's counters at both ends of a time in which petal does nothing.
struct IdleTime {
    ends: [Vec<Counters>; 2],
    seconds: f64,
}

impl IdleTime {
    fn pass(engine: &dyn Engine, time: Duration) -> PromiseResult<Self> {
        let (before, begin) = (counters(engine)?, Instant::now());
        std::thread::sleep(time);
        let ends = [before, counters(engine)?];
        Ok(Self { ends, seconds: begin.elapsed().as_secs_f64() })
    }

    /// Others' part of a figure each second.
    fn per_second(&self, figure: &CounterOf) -> f64 {
        let [before, after] = &self.ends;
        let more = figure(after).zip(figure(before)).map(|(now, then)| now.saturating_sub(then));
        more.unwrap_or(0) as f64 / self.seconds
    }
}

/// Commits of others, and of petal's reads, among those of a server.
pub struct Surroundings<'a> {
    /// The server to ask for others' work; `None` if petal is alone there.
    engine: Option<&'a dyn Engine>,
    /// True if a SELECT is a commit, too.
    reads_commit: bool,
    is_shared: bool,
}

impl<'a> Surroundings<'a> {
    pub fn look(subject: &dyn Provable, engine: Option<&'a dyn Engine>) -> PromiseResult<Self> {
        const READS: usize = 100;
        let is_shared = subject.is_shared();
        let alone = Self { engine: None, reads_commit: false, is_shared };
        let Some(engine) = engine.filter(|_| !subject.is_alone()) else { return Ok(alone) };
        let reads = choose(&workload(), seat(1, 1, Role::Reader), READS + 1);
        let commits_of = |reads: &[Operation]| -> PromiseResult<u64> {
            let before = sum(&counters(engine)?);
            read_all(engine, reads)?;
            Ok(sum(&counters(engine)?).since(&before).commits.unwrap_or(0))
        };
        let others_per_s = IdleTime::pass(engine, IDLE)?.per_second(&of_all(|io| io.commits));
        let mut reads_commit = true;
        for _ in 0..TRIES {
            let one = commits_of(&reads[..1])?;
            let (begin, all) = (Instant::now(), commits_of(&reads)?);
            // A server may count some statements late. Others' commits could look like those of reads.
            let others = others_per_s * begin.elapsed().as_secs_f64();
            reads_commit &= all >= one + READS as u64 / 2 && others <= READS as f64 / 4.0;
        }
        Ok(Self { engine: Some(engine), reads_commit, is_shared })
    }

    /// Commits that the server counts for so many UPDATEs and reads. Sessions that are opened and
    /// counters that are read commit, too, but far less.
    pub fn commits(&self, what: &str, is: Option<u64>, updates: u64, reads: u64) -> CountedFigure {
        let least = updates + if self.reads_commit { reads * 9 / 10 } else { 0 };
        CountedFigure {
            what: what.to_owned(),
            figure: of_all(|io| io.commits),
            is,
            least,
            most: self.most_of(least),
        }
    }

    /// Fewer than twice as many; no more if petal is alone.
    fn most_of(&self, least: u64) -> u64 {
        if self.engine.is_some() { 2 * least - 1 } else { least }
    }

    /// Fails unless all figures of petal's work are in their ranges. If one is above, petal tries again
    /// and counts others' work in an idle time that is as long: only the same excess each time is the
    /// server's.
    pub fn agree<T>(
        &self,
        mut work: impl FnMut() -> PromiseResult<CountedWork<T>>,
    ) -> PromiseResult<T> {
        let mut factors = BTreeMap::<String, Vec<f64>>::new();
        let mut last = String::new();
        for _ in 0..TRIES {
            let before = self.engine.map(|engine| IdleTime::pass(engine, IDLE)).transpose()?;
            let CountedWork { result, seconds, figures } = work()?;
            for counted in &figures {
                let is_enough = counted.is.is_some_and(|is| is >= counted.least);
                hold!(COUNTERS, is_enough, "{}", counted.words());
            }
            let above = figures.iter().filter(|counted| counted.is > Some(counted.most));
            let above: Vec<&CountedFigure> = above.collect();
            if above.is_empty() || self.is_shared {
                return Ok(result);
            }
            let Some((engine, before)) = self.engine.zip(before) else {
                let words: Vec<String> = above.iter().map(|counted| counted.words()).collect();
                return Err(Unproved::Broken { item: COUNTERS, seen: words.join("; ") });
            };
            let time = Duration::from_secs_f64(seconds).clamp(IDLE, IDLE_MAX);
            let after = IdleTime::pass(engine, time)?;
            for counted in above {
                let others = [&before, &after].map(|idle| idle.per_second(&counted.figure));
                let others_per_s = others[0].max(others[1]);
                let (is, others) = (counted.is.unwrap_or(0) as f64, others_per_s * seconds);
                // More work of others than that, and its own rise would look like a wrong counter.
                let is_little = others <= counted.most as f64 / 2.0;
                if is_little && is > counted.most as f64 + others {
                    let factor = (is - others) / counted.least.max(1) as f64;
                    factors.entry(counted.what.clone()).or_default().push(factor);
                }
                let words = counted.words();
                last = format!("{words}, and {others_per_s:.0} a second while petal is idle");
            }
        }
        let is_same = |factors: &Vec<f64>| {
            let least = factors.iter().copied().fold(f64::INFINITY, f64::min);
            let most = factors.iter().copied().fold(0.0, f64::max);
            factors.len() == TRIES && most < least * SAME_FACTOR
        };
        hold!(COUNTERS, !factors.values().any(is_same), "{last}; {TRIES} times by the same factor");
        Err(Unproved::Refused(format!(
            "others work there, and hide petal's part: {last}; prove again while they rest, or on a \
             server without them"
        )))
    }
}

/// Reads in a session that ends, so that a server which counts in its own time has counted all.
fn read_all(engine: &dyn Engine, reads: &[Operation]) -> PromiseResult<()> {
    let mut session = engine.connect(seat(1, 1, Role::Reader)).of(EXECUTE)?;
    execute(session.as_mut(), reads, EXECUTE)?;
    drop(session);
    engine.quiesce().of(COUNTERS)
}

/// Fails if long SELECTs visit fewer blocks than rows or far more, or read far more than they visit.
fn visits_agree(engine: &dyn Engine, around: &Surroundings<'_>) -> PromiseResult<()> {
    const LONG: u64 = 4;
    let all = [operation(Kind::Select, 1, 1, ROWS); LONG as usize];
    read_all(engine, &all[..1])?;
    let rows = ROWS * LONG;
    let of_a_row = engine.server().map_or(1.0..=2.5, |server| server.visits_of_a_row());
    let most = (rows as f64 * of_a_row.end()) as u64;
    // Each row's block, leaves of the index, and once the data that a server reads ahead.
    let read_most = rows + rows / 4 + ROWS;
    let figures: [(&str, IoFigure, u64, u64); 3] = [
        ("visits", |io| io.logical_reads, (rows as f64 * of_a_row.start()) as u64, most),
        ("physical reads", |io| io.physical_read_blocks, 0, read_most),
        ("read requests", |io| io.physical_read_requests, 0, read_most),
    ];
    around.agree(|| {
        let (before, begin) = (sum(&counters(engine)?), Instant::now());
        read_all(engine, &all)?;
        let io = sum(&counters(engine)?).since(&before);
        let figures = figures.into_iter().filter_map(|(what, figure, least, most)| {
            let (what, is) = (format!("{what} for {rows} rows in long SELECTs"), figure(&io));
            is?;
            Some(CountedFigure { what, figure: of_all(figure), is, least, most })
        });
        let seconds = begin.elapsed().as_secs_f64();
        Ok(CountedWork { result: (), seconds, figures: figures.collect() })
    })
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

/// UPDATEs and reads of four sessions, and rows that all of them visit.
const UPDATES: u64 = 480;
const READS: u64 = 760;
const VISITED: u64 = {
    let unit = UNIT as u64;
    4 * (120 * (unit / 2) + 162 * unit + 9 * unit)
};

pub fn counters_only_grow_and_agree_with_the_work(subject: &dyn Provable) -> PromiseResult {
    let engine = subject.open().of(COUNTERS)?;
    let engine = engine.as_ref();
    let around = Surroundings::look(subject, Some(engine))?;
    let work = around.agree(|| {
        let begin = Instant::now();
        let work = four_sessions(engine)?;
        let seconds = begin.elapsed().as_secs_f64();
        let commits = around.commits("commits", work.commits, UPDATES, READS);
        Ok(CountedWork { result: work, seconds, figures: vec![commits] })
    })?;
    if let Some(logical) = work.logical_reads {
        hold!(COUNTERS, logical >= VISITED, "{VISITED} rows, the server counts {logical} visits");
    }
    visits_agree(engine, &around).or_else(|unproved| {
        // Replaced rows that settling removes were held by nobody.
        engine.settle(&Silent, &subject.stop()).of(COUNTERS)?;
        Err(without_room(engine, unproved))
    })?;
    let named = IoCounts::NAMES.into_iter().zip(work.each());
    let named = named.filter_map(|(name, value)| Some(format!("{name} {}", value?)));
    let server: Vec<String> = named.collect();
    let server = server.join(", ");
    held(format!("petal: {UPDATES} commits, {VISITED} rows; the server: {server}"))
}

/// Sessions that work one after another; returns the server's counts of them. No count may fall.
fn four_sessions(engine: &dyn Engine) -> PromiseResult<IoCounts> {
    let opening = counters(engine)?;
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
    Ok(sum(&counters(engine)?).since(&sum(&opening)))
}

/// Work at one endpoint counts nothing at the others.
pub fn counters_are_of_their_own_endpoint(subject: &dyn Provable) -> PromiseResult {
    let engine = subject.open().of(COUNTERS)?;
    let engine = engine.as_ref();
    let commits = |counters: &[Counters], at: usize| counters.get(at).and_then(|it| it.io.commits);
    const UPDATES: u64 = 200;
    let many = Workload { update_pct: 100, ..workload() };
    let updates = choose(&many, seat(1, 1, Role::Mixed), UPDATES as usize);
    let around = Surroundings::look(subject, Some(engine))?;
    let (all, counted) = (endpoints(engine), counters(engine)?.len() as u32);
    hold!("Server::endpoints", all == counted, "{all} endpoints, {counted} are counted");
    let most = around.most_of(UPDATES);
    let mut seen = Vec::new();
    for endpoint in 0..all {
        let counted = around.agree(|| {
            let (before, begin) = (counters(engine)?, Instant::now());
            let home = Seat { endpoint, ..seat(1, 1, Role::Mixed) };
            execute(engine.connect(home).of(EXECUTE)?.as_mut(), &updates, EXECUTE)?;
            engine.quiesce().of(COUNTERS)?;
            let now = counters(engine)?;
            let figures: Vec<CountedFigure> = (0..all)
                .map(|at| {
                    let index = at as usize;
                    let is = commits(&now, index).zip(commits(&before, index));
                    let (least, most) =
                        if at == endpoint { (UPDATES, most) } else { (0, UPDATES - 1) };
                    CountedFigure {
                        what: format!("commits at endpoint {at} for {UPDATES} at {endpoint}"),
                        figure: Box::new(move |counters| commits(counters, index)),
                        is: is.map(|(now, then)| now.saturating_sub(then)),
                        least,
                        most,
                    }
                })
                .collect();
            let result: Vec<String> = figures.iter().map(CountedFigure::words).collect();
            let seconds = begin.elapsed().as_secs_f64();
            Ok(CountedWork { result: result.join("; "), seconds, figures })
        });
        seen.push(counted.map_err(|unproved| match unproved {
            Unproved::Broken { seen, .. } => Unproved::Broken { item: "Server::endpoints", seen },
            other => other,
        })?);
    }
    held(seen.join("; "))
}
