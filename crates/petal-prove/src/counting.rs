//! Promises about the server's own counters.

use std::collections::BTreeMap;

use petal_engine::{Engine, endpoints};
use petal_model::stats::counters::{Counters, IoCounts};
use petal_model::workload::plan::Workload;
use petal_model::workload::seat::{Role, Seat};

use super::{
    EXECUTE, Of as _, PromiseResult, Provable, UNIT, choose, execute, held, hold, seat, workload,
};

const COUNTERS: &str = "Engine::read_counters";
/// Most commits that are counted for one of petal's on a server where others may commit.
const OTHERS_MAX: u64 = 2;

fn counters(engine: &dyn Engine) -> PromiseResult<Vec<Counters>> {
    engine.read_counters(true).of(COUNTERS)
}

fn sum(counters: &[Counters]) -> IoCounts {
    let sums = counters.iter().map(|endpoint| endpoint.io);
    sums.reduce(|sum, other| sum.plus(&other)).unwrap_or_default()
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
        hold!(COUNTERS, value >= Some(then), "{name} fell from {then} to {value:?}");
    }
    Ok(())
}

pub fn counters_only_grow_and_agree_with_the_work(subject: &dyn Provable) -> PromiseResult {
    let engine = subject.open().of(COUNTERS)?;
    let engine = engine.as_ref();
    let opening = counters(engine)?;
    let mut last = opening.clone();
    let mut reads_commit = false;
    for round in 0..4u32 {
        let home = seat(round + 1, round % 2 + 1, Role::Mixed);
        let mut session = engine.connect(home).of(EXECUTE)?;
        let before = sum(&counters(engine)?);
        let reader = Seat { role: Role::Reader, ..home };
        execute(session.as_mut(), &choose(&workload(), reader, 10), EXECUTE)?;
        let read = sum(&counters(engine)?);
        reads_commit |= read.commits != before.commits;
        execute(session.as_mut(), &choose(&workload(), home, 100), EXECUTE)?;
        let now = sum(&counters(engine)?).logical_reads;
        let is_counted = now.zip(read.logical_reads).is_none_or(|(now, then)| now > then);
        let words = "no read of a session that flushed is counted";
        hold!("Session::flush_statistics", is_counted, "{words}");
        // Sessions leave; their work stays counted.
        drop(session);
        let now = counters(engine)?;
        grew(&now, &last)?;
        last = now;
    }
    engine.quiesce().of(COUNTERS)?;
    let work = sum(&counters(engine)?).since(&sum(&opening));
    let commits = work.commits.unwrap_or(0);
    let most = match (subject.is_alone(), reads_commit) {
        (true, _) => 160,
        (false, false) => 160 * OTHERS_MAX - 1,
        (false, true) => u64::MAX,
    };
    hold!(COUNTERS, (160..=most).contains(&commits), "160 commits, the server counts {commits}");
    let unit = u64::from(UNIT);
    let visited = 4 * (40 * (unit / 2) + 54 * unit + 9 * unit);
    if let Some(logical) = work.logical_reads {
        hold!(COUNTERS, logical >= visited, "{visited} rows, the server counts {logical} visits");
    }
    if let Some(redo) = work.redo_bytes {
        hold!(COUNTERS, redo > 160 * 100, "160 commits, the server counts {redo} bytes of redo");
    }
    let named = IoCounts::NAMES.into_iter().zip(work.each());
    let named = named.filter_map(|(name, value)| Some(format!("{name} {}", value?)));
    let server: Vec<String> = named.collect();
    held(format!("petal: 160 commits, {visited} rows; the server: {}", server.join(", ")))
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
    let many = Workload { update_pct: 100, ..workload() };
    let updates = choose(&many, seat(1, 1, Role::Mixed), 30);
    let (all, counted) = (endpoints(engine), commits()?.len() as u32);
    hold!("Server::endpoints", all == counted, "{all} endpoints, {counted} are counted");
    let mut seen = Vec::new();
    for endpoint in 0..all {
        let before = commits()?;
        let home = Seat { endpoint, ..seat(1, 1, Role::Mixed) };
        execute(engine.connect(home).of(EXECUTE)?.as_mut(), &updates, EXECUTE)?;
        engine.quiesce().of(COUNTERS)?;
        for (at, (now, before)) in (0..).zip(commits()?.into_iter().zip(before)) {
            let more = now.saturating_sub(before);
            let is_right = (at == endpoint) == (more >= 30);
            let words = format!("30 commits at endpoint {endpoint}, endpoint {at} counts {more}");
            hold!("Server::endpoints", is_right, "{words}");
            seen.push(words);
        }
    }
    held(seen.join("; "))
}
