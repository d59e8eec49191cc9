//! Figures of the database and the devices in a run of several hosts. A server's counters are those
//! of the share that took them; an engine in petal's own process is counted by every share.

use std::collections::BTreeMap;

use super::super::figures::{self, IntervalTotals};
use super::super::{
    CountedUntil, FileIo, PerSecond, Run, WaitHistogram, WaitRow, WindowTotals, journal,
};
use super::{HostRecord, of_machines};
use crate::stats::counters::IoCounts;
use crate::stats::histogram::Latencies;
use crate::stats::os::Counts;

/// Shares that end so much later than the database's counters leave them short of the run.
const SHORT_MIN_S: f64 = 1.0;

/// Fills in the database's and the device's figures, and the rates.
pub(super) fn fill(
    run: &mut Run,
    parts: &[HostRecord],
    bounds: Option<(f64, f64)>,
    steady: &BTreeMap<String, Latencies>,
) {
    let counting: Vec<&HostRecord> =
        parts.iter().filter(|part| part.share.counts_database).collect();
    match counting.as_slice() {
        [] => forget(run),
        [only] => {
            until_counted(run, only, parts);
            // They were kept for a merge.
            run.details.wait_histograms.values_mut().for_each(|timed| timed.buckets = None);
        }
        several => add_up(run, several),
    }
    if counting.len() > 1 {
        run.details.device = of_machines(parts, |part| part.run.details.device);
    }
    let database_s = run.summary.counted_until.map_or(run.summary.elapsed_s, |until| until.second);
    // Whoever counted alone and ended earlier saw the devices as long as it ran itself.
    let device_s = match counting.as_slice() {
        [only] if !only.share.counted_all => only.run.summary.elapsed_s,
        _ => run.summary.elapsed_s,
    };
    let own = IntervalTotals {
        seconds: run.summary.elapsed_s,
        ops: run.summary.ops,
        rows: run.summary.rows,
        ..IntervalTotals::default()
    };
    let rates = own.per_second().with_database_over(&run.details.io, database_s);
    run.summary.per_second = rates.with_device_over(run.details.device, device_s);
    let Some(bounds) = bounds else {
        run.details.steady = None;
        return;
    };
    fill_window(run, parts, &counting, bounds, steady);
}

/// The share that was to count left no record: nothing is known.
fn forget(run: &mut Run) {
    let (summary, details) = (&mut run.summary, &mut run.details);
    summary.counted_until = None;
    summary.waits.clear();
    summary.counters.clear();
    summary.io_latency_us.clear();
    summary.endpoints.clear();
    summary.cpu = None;
    details.io = IoCounts::default();
    details.device = None;
    details.wait_histograms.clear();
    details.files.clear();
    details.gaps.push(
        "the share that takes the database's counters left no record: what the database did is \
         unknown"
            .to_owned(),
    );
}

/// Where the counting share ended before the others, the database's figures end with it: at the
/// last whole second that its journal tells.
fn until_counted(run: &mut Run, counting: &HostRecord, parts: &[HostRecord]) {
    let own_s = counting.run.summary.elapsed_s;
    let counted = counting.run.summary.counted_until.map(|until| until.second);
    let is_whole = counting.share.counted_all || run.summary.elapsed_s - own_s < SHORT_MIN_S;
    if counted.is_none() && is_whole {
        return;
    }
    let second = counted.unwrap_or(own_s).floor();
    let between =
        |part: &HostRecord| journal::between(&part.folder.join(journal::NAME), (0.0, second));
    let Ok(Some(until)) = between(counting) else {
        forget(run);
        return;
    };
    let times = parts.iter().map(|part| between(part).ok().flatten());
    let times: Option<Vec<journal::Between>> = times.collect();
    let sum = |of: fn(&journal::Between) -> f64| {
        times.as_ref().map(|times| times.iter().map(of).sum::<f64>()).unwrap_or_default()
    };
    run.summary.counted_until = Some(CountedUntil {
        second,
        of_s: run.summary.elapsed_s,
        db_time_s: sum(|between| between.db_time_s),
        think_time_s: sum(|between| between.think_time_s),
    });
    let seconds = figures::seconds_within(&run.details.timeline, 0.0, second);
    run.details.io = IntervalTotals::of(seconds).io;
    run.details.wait_histograms.clear();
    run.details.files.clear();
    run.summary.counters = until.counters;
    run.summary.waits = figures::wait_rows(&until.waits);
    run.summary.io_latency_us =
        figures::io_latencies(&run.details.target.io_events, &run.summary.waits, &BTreeMap::new());
    run.details.gaps.push(format!(
        "{} takes the database's counters and ended after {own_s:.1} s of {:.1} s: the database's \
         figures end at second {second:.0}",
        counting.name(),
        run.summary.elapsed_s
    ));
}

/// Every share counted what its own process did.
fn add_up(run: &mut Run, parts: &[&HostRecord]) {
    let each = || parts.iter().map(|part| &part.run);
    let io = each().map(|run| run.details.io).reduce(|sum, other| sum.plus(&other));
    run.details.io = io.unwrap_or_default();
    run.summary.counters = sum_by_name(each().map(|run| &run.summary.counters));
    run.summary.waits = waits(each().flat_map(|run| &run.summary.waits));
    run.details.files = files(each().flat_map(|run| &run.details.files));
    let histograms = each().map(|run| &run.details.wait_histograms);
    run.details.wait_histograms = wait_histograms(histograms, &run.summary.waits);
    let events = &run.details.target.io_events;
    run.summary.io_latency_us =
        figures::io_latencies(events, &run.summary.waits, &run.details.wait_histograms);
    let read_us = run.summary.io_latency_us.get("read").and_then(|read| read.mean);
    if let [endpoint] = run.summary.endpoints.as_mut_slice() {
        (endpoint.io, endpoint.read_us) = (run.details.io, read_us);
    }
    petal_on_all(run, parts);
    let caches = parts.iter().map(|part| part.run.summary.target.cache_bytes);
    run.summary.target.cache_bytes = caches.sum();
    if parts.iter().any(|part| part.share.boot_id != parts[0].share.boot_id) {
        run.summary.cpu = None;
    }
}

/// What all of petal's processes read and wrote, where they ran on one machine; else unknown.
fn petal_on_all(run: &mut Run, parts: &[&HostRecord]) {
    let Some(seen) = &mut run.details.os else { return };
    seen.seconds = Vec::new(); // They tell of one process alone.
    let counts = &mut seen.whole.sum.counts;
    let of_all = |of: fn(&Counts) -> Option<u64>| -> Option<u64> {
        let each = parts.iter().map(|part| {
            let is_here =
                part.share.boot_id.is_some() && part.share.boot_id == parts[0].share.boot_id;
            of(&part.run.details.os.as_ref().filter(|_| is_here)?.whole.sum.counts)
        });
        each.sum()
    };
    counts.petal_cpu_us = of_all(|counts| counts.petal_cpu_us);
    counts.petal_read_bytes = of_all(|counts| counts.petal_read_bytes);
    counts.petal_write_bytes = of_all(|counts| counts.petal_write_bytes);
    counts.petal_call_read_bytes = of_all(|counts| counts.petal_call_read_bytes);
}

pub(super) fn sum_by_name<'a>(
    each: impl Iterator<Item = &'a BTreeMap<String, u64>>,
) -> BTreeMap<String, u64> {
    let mut sums = BTreeMap::new();
    for (name, count) in each.flatten() {
        *sums.entry(name.clone()).or_default() += count;
    }
    sums
}

fn waits<'a>(each: impl Iterator<Item = &'a WaitRow>) -> Vec<WaitRow> {
    let mut sums: Vec<WaitRow> = Vec::new();
    for wait in each {
        match sums.iter_mut().find(|sum| sum.name == wait.name) {
            Some(sum) => {
                sum.waits = sum.waits.zip(wait.waits).and_then(|(a, b)| a.checked_add(b));
                sum.time_us += wait.time_us;
                let waits = sum.waits.filter(|&waits| waits > 0);
                sum.avg_us = waits.map(|waits| sum.time_us / waits as f64);
            }
            None => sums.push(wait.clone()),
        }
    }
    sums.sort_by(|a, b| b.time_us.total_cmp(&a.time_us).then_with(|| a.name.cmp(&b.name)));
    sums
}

fn files<'a>(each: impl Iterator<Item = &'a FileIo>) -> Vec<FileIo> {
    let mut sums: Vec<FileIo> = Vec::new();
    for file in each {
        let Some(sum) = sums.iter_mut().find(|sum| sum.kind == file.kind) else {
            sums.push(file.clone());
            continue;
        };
        sum.read_requests += file.read_requests;
        sum.read_bytes += file.read_bytes;
        sum.read_us += file.read_us;
        sum.write_requests += file.write_requests;
        sum.write_bytes += file.write_bytes;
        sum.write_us += file.write_us;
        sum.syncs += file.syncs;
        sum.sync_us += file.sync_us;
    }
    sums
}

/// Histograms of all hosts together. Percentiles are unknown where some of the waits are in none.
fn wait_histograms<'a>(
    each: impl Iterator<Item = &'a BTreeMap<String, WaitHistogram>>,
    waits: &[WaitRow],
) -> BTreeMap<String, WaitHistogram> {
    let mut by_name: BTreeMap<&String, Vec<&WaitHistogram>> = BTreeMap::new();
    for (name, histogram) in each.flatten() {
        by_name.entry(name).or_default().push(histogram);
    }
    let sum = |(name, each): (&String, Vec<&WaitHistogram>)| {
        let sum = WaitHistogram::sum(&each)?;
        let waited = waits.iter().find(|wait| wait.name == *name).and_then(|wait| wait.waits);
        let is_whole = waited == Some(sum.latency_us.count);
        Some((name.clone(), if is_whole { sum } else { sum.without_percentiles() }))
    };
    by_name.into_iter().filter_map(sum).collect()
}

/// The steady window of all hosts together.
fn fill_window(
    run: &mut Run,
    parts: &[HostRecord],
    counting: &[&HostRecord],
    bounds: (f64, f64),
    steady: &BTreeMap<String, Latencies>,
) {
    let (from_s, to_s) = bounds;
    let own = IntervalTotals::of(figures::seconds_within(&run.details.timeline, from_s, to_s));
    let rates = IntervalTotals { seconds: to_s - from_s, ..own.clone() }.per_second();
    let is_everyones = parts.iter().all(|part| part.steady_bounds() == Some(bounds));
    let each: Option<Vec<WindowTotals>> = match is_everyones {
        true => parts.iter().map(|part| part.run.details.steady.clone()).collect(),
        false => parts.iter().map(|part| journaled(part, bounds)).collect(),
    };
    let own_windows = || counting.iter().filter_map(|part| part.run.details.steady.as_ref());
    let totals = each.map(|each| {
        let counted = || parts.iter().zip(&each).filter(|(part, _)| part.share.counts_database);
        let sum = |of: fn(&WindowTotals) -> f64| each.iter().map(of).sum::<f64>();
        let summed = WindowTotals {
            counted_s: to_s - from_s,
            ops: own.ops,
            rows: own.rows,
            rows_asked: own.rows_asked,
            io: own.io,
            device: own.device,
            cpu: own.cpu.filter(|_| run.summary.cpu.is_some()),
            petal_cpu_s: each.iter().map(|window| window.petal_cpu_s).sum(),
            db_time_s: sum(|window| window.db_time_s),
            think_time_s: sum(|window| window.think_time_s),
            op_latency_us: figures::all_operations(steady),
            op_response_us: figures::all_responses(steady),
            waits: waits(counted().flat_map(|(_, window)| &window.waits)),
            counters: sum_by_name(counted().map(|(_, window)| &window.counters)),
            files: files(counted().flat_map(|(_, window)| &window.files)),
            ..WindowTotals::default()
        };
        match is_everyones {
            true => between_samples(summed, parts, &own_windows().collect::<Vec<_>>()),
            false => summed,
        }
    });
    let Some(window) = &mut run.summary.steady else { return };
    window.per_second = rates;
    if let Some(totals) = &totals {
        let (seconds, io, device) = (totals.counted_s, totals.io, totals.device);
        let sampled =
            IntervalTotals { seconds, io, device, ..IntervalTotals::default() }.per_second();
        let (ops, rows, commits) = (rates.ops, rates.rows, rates.commits);
        window.per_second = PerSecond { ops, rows, commits, ..sampled };
        let events = &run.details.target.io_events;
        let histograms = own_windows().map(|own| &own.wait_histograms);
        let timed = match is_everyones {
            true => wait_histograms(histograms, &totals.waits),
            false => BTreeMap::new(),
        };
        window.io_latency_us = figures::io_latencies(events, &totals.waits, &timed);
        if let ([only], true) = (counting, is_everyones)
            && let Some(own) = &only.run.summary.steady
        {
            // With the percentiles of the only one who timed them.
            window.io_latency_us.clone_from(&own.io_latency_us);
        }
    }
    run.details.steady = totals;
}

/// The database's and the device's figures as they were sampled at the window's bounds.
fn between_samples(
    summed: WindowTotals,
    parts: &[HostRecord],
    counting: &[&WindowTotals],
) -> WindowTotals {
    let Some(first) = counting.first() else { return summed };
    let io = counting.iter().map(|window| window.io).reduce(|sum, other| sum.plus(&other));
    let io = io.unwrap_or_default();
    let mut endpoints = first.endpoints.clone();
    if counting.len() > 1 {
        endpoints.values_mut().for_each(|of_all| *of_all = io);
    }
    let device = match counting.len() {
        1 => first.device,
        _ => of_machines(parts, |part| part.run.details.steady.as_ref()?.device),
    };
    WindowTotals { counted_s: first.counted_s, io, device, cpu: first.cpu, endpoints, ..summed }
}

/// What a share's journal tells of the time between two seconds' ends.
fn journaled(part: &HostRecord, bounds: (f64, f64)) -> Option<WindowTotals> {
    let between = journal::between(&part.folder.join(journal::NAME), bounds).ok()??;
    Some(WindowTotals {
        petal_cpu_s: between.petal_cpu_s,
        db_time_s: between.db_time_s,
        think_time_s: between.think_time_s,
        waits: figures::wait_rows(&between.waits),
        counters: between.counters,
        ..WindowTotals::default()
    })
}
