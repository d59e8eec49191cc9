//! The totals of a run of several hosts. The share that took a server's counters supplies them; an
//! engine in petal's own process is counted by every share.

use std::collections::{BTreeMap, BTreeSet};

use super::super::figures::{self, sum};
use super::super::{
    CountedUntil, IntervalTotals, LayerSeconds, Run, SharedList, Steady, WaitHistogram, WaitRow,
    seconds,
};
use super::HostRecord;
use crate::counters::FileCounts;
use petal_host::histogram::Latencies;
use petal_host::os::{Counts, DeviceCounts};

/// The database's counters are short of the run if the shares end later by this much.
const SHORT_MIN_S: f64 = 1.0;

/// Sets the totals of the whole run, and the rates. `latencies` are merged from all hosts, by tag.
pub(super) fn fill(run: &mut Run, parts: &[HostRecord], latencies: &BTreeMap<String, Latencies>) {
    let wholes: Vec<IntervalTotals> = parts.iter().map(|part| part.run.totals()).collect();
    let counts = |part: &HostRecord| part.share.counts_database;
    let mut totals = add_up(parts, &wholes, counts);
    let counting: Vec<&HostRecord> = parts.iter().filter(|part| counts(part)).collect();
    let elapsed_s = run.summary.elapsed_s;
    let mut device_s = elapsed_s;
    match counting.as_slice() {
        [] => forget(run),
        [only] => {
            if let Some(second) = counted_until(run, only) {
                match until(run, &totals, only, parts, second) {
                    Some(known) => totals = known,
                    None => {
                        totals = add_up(parts, &wholes, |_| false);
                        forget(run);
                    }
                }
            }
            // A share that counted alone and ended earlier saw the devices only until its own end.
            if !only.share.counted_all {
                device_s = only.run.summary.elapsed_s;
            }
        }
        several => {
            petal_on_all(run, several);
            let caches = parts.iter().map(|part| part.run.summary.target.cache_bytes);
            run.summary.target.cache_bytes = caches.sum();
            if parts.iter().any(|part| part.share.boot_id != parts[0].share.boot_id) {
                totals.cpu = None;
            }
        }
    }
    let database = run.summary.counted_until.map_or(elapsed_s, |until| until.second);
    let rates = totals.rates(LayerSeconds { petal: elapsed_s, database, device: device_s });
    run.set(totals.with_latencies(latencies), rates);
    let read_us = run.summary.io_latency_us.get("read").and_then(|read| read.mean);
    if let ([endpoint], 2..) = (run.summary.endpoints.as_mut_slice(), counting.len()) {
        (endpoint.io, endpoint.read_us) = (run.details.io, read_us);
    }
}

/// Totals of all shares: petal's from each of them, the database's and its host's from the shares
/// that counted it.
fn add_up(
    parts: &[HostRecord],
    each: &[IntervalTotals],
    counts: impl Fn(&HostRecord) -> bool,
) -> IntervalTotals {
    let counting = || parts.iter().zip(each).filter(|(part, _)| counts(part));
    let counted: Vec<&IntervalTotals> = counting().map(|(_, totals)| totals).collect();
    // A machine's devices count once, however many shares ran on it.
    let mut machines = BTreeSet::new();
    let of_machines = counting().filter(|(part, _)| machines.insert(part.share.machine()));
    let waits = waits(counted.iter().flat_map(|totals| &totals.waits));
    let io = counted.iter().map(|totals| totals.io).reduce(|sum, other| sum.plus(&other));
    let mut endpoints = counted.first().map(|first| first.endpoints.clone()).unwrap_or_default();
    if counted.len() > 1 {
        endpoints.values_mut().for_each(|of_all| *of_all = io.unwrap_or_default());
    }
    IntervalTotals {
        counted_s: counted.first().map_or(0.0, |first| first.counted_s),
        ops: each.iter().fold(Default::default(), |sum, other| other.ops.plus(&sum)),
        rows: each.iter().fold(Default::default(), |sum, other| other.rows.plus(&sum)),
        rows_asked: sum(each.iter().map(|totals| totals.rows_asked), |a, b| a.plus(b)),
        io: io.unwrap_or_default(),
        device: sum(of_machines.map(|(_, totals)| totals.device), DeviceCounts::plus),
        cpu: counted.first().and_then(|first| first.cpu),
        petal_cpu_s: each.iter().map(|totals| totals.petal_cpu_s).sum(),
        db_time_s: each.iter().map(|totals| totals.db_time_s).sum(),
        think_time_s: each.iter().map(|totals| totals.think_time_s).sum(),
        wait_histograms: wait_histograms(&counted, &waits),
        waits,
        counters: sum_by_name(counted.iter().map(|totals| &totals.counters)),
        files: files(counted.iter().flat_map(|totals| &totals.files)),
        endpoints,
        ..IntervalTotals::default()
    }
}

/// Clears the database's totals: the share that should have counted left no record.
fn forget(run: &mut Run) {
    run.summary.counted_until = None;
    run.summary.endpoints.clear();
    run.details.gaps.push(
        "the share that takes the database's counters left no record: the database's figures are \
         unknown"
            .to_owned(),
    );
}

/// The last whole second in the counting share's seconds, if it counted alone and ended before the
/// others.
fn counted_until(run: &Run, counting: &HostRecord) -> Option<f64> {
    let own_s = counting.run.summary.elapsed_s;
    let counted = counting.run.summary.counted_until.map(|until| until.second);
    let is_whole = counting.share.counted_all || run.summary.elapsed_s - own_s < SHORT_MIN_S;
    (counted.is_some() || !is_whole).then(|| counted.unwrap_or(own_s).floor())
}

/// The totals with the database's until that second. None if its seconds do not have them.
fn until(
    run: &mut Run,
    totals: &IntervalTotals,
    counting: &HostRecord,
    parts: &[HostRecord],
    second: f64,
) -> Option<IntervalTotals> {
    let bounds = (0.0, second);
    let IntervalTotals { waits, counters, .. } = counted_between(counting, bounds)?;
    let times: Option<Vec<_>> = parts.iter().map(|part| counted_between(part, bounds)).collect();
    let sum = |of: fn(&IntervalTotals) -> f64| times.iter().flatten().map(of).sum();
    let of_s = run.summary.elapsed_s;
    run.summary.counted_until = Some(CountedUntil {
        second,
        of_s,
        db_time_s: sum(|totals| totals.db_time_s),
        think_time_s: sum(|totals| totals.think_time_s),
    });
    run.details.gaps.push(format!(
        "{} takes the database's counters and ended after {:.1} s of {of_s:.1} s: the database's \
         figures end at second {second:.0}",
        counting.name(),
        counting.run.summary.elapsed_s,
    ));
    let counted = figures::seconds_within(&run.details.timeline, 0.0, second);
    let (io, files) = (IntervalTotals::of(counted).io, Vec::new());
    let wait_histograms = BTreeMap::new();
    Some(IntervalTotals { io, waits, wait_histograms, counters, files, ..totals.clone() })
}

/// Sets the bytes that all of petal's processes read and wrote, if they ran on one machine; else
/// unknown.
fn petal_on_all(run: &mut Run, parts: &[&HostRecord]) {
    let Some(seen) = &mut run.details.os else { return };
    seen.seconds = SharedList::default(); // They cover only one process.
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
    figures::sorted(sums)
}

fn files<'a>(each: impl Iterator<Item = &'a FileCounts>) -> Vec<FileCounts> {
    let mut sums: Vec<FileCounts> = Vec::new();
    for file in each {
        match sums.iter_mut().find(|sum| sum.kind == file.kind) {
            Some(sum) => *sum = sum.plus(file),
            None => sums.push(file.clone()),
        }
    }
    sums
}

/// Histograms of all hosts together. Percentiles are unknown if some waits are in no histogram.
fn wait_histograms(each: &[&IntervalTotals], waits: &[WaitRow]) -> BTreeMap<String, WaitHistogram> {
    let mut by_name: BTreeMap<&String, Vec<&WaitHistogram>> = BTreeMap::new();
    for (name, histogram) in each.iter().flat_map(|totals| &totals.wait_histograms) {
        by_name.entry(name).or_default().push(histogram);
    }
    let sum = |(name, histograms): (&String, Vec<&WaitHistogram>)| {
        let sum = WaitHistogram::sum(&histograms)?;
        let waited = waits.iter().find(|wait| wait.name == *name).and_then(|wait| wait.waits);
        let is_whole = each.len() == 1 || waited == Some(sum.latency_us.count);
        Some((name.clone(), if is_whole { sum } else { sum.without_percentiles() }))
    };
    by_name.into_iter().filter_map(sum).collect()
}

/// Sets the counted window of all hosts together.
pub(super) fn fill_window(
    run: &mut Run,
    parts: &[HostRecord],
    (from_s, to_s): (f64, f64),
    latencies: &BTreeMap<String, Latencies>,
) {
    let mut steady = Steady::of((from_s, to_s), latencies);
    let own = IntervalTotals::of(figures::seconds_within(&run.details.timeline, from_s, to_s));
    let seconds = to_s - from_s;
    let is_everyones = parts.iter().all(|part| part.steady_bounds() == Some((from_s, to_s)));
    let each: Option<Vec<IntervalTotals>> = match is_everyones {
        true => parts.iter().map(|part| part.run.details.steady.clone()).collect(),
        false => parts.iter().map(|part| counted_between(part, (from_s, to_s))).collect(),
    };
    let mut over = LayerSeconds::all(seconds);
    steady.per_second = own.rates(over);
    run.details.steady = each.map(|each| {
        let sum = add_up(parts, &each, |part| part.share.counts_database);
        let (counted_s, io, device, cpu) = match is_everyones && sum.counted_s > 0.0 {
            true => (sum.counted_s, sum.io, sum.device, sum.cpu),
            false => (seconds, own.io, own.device, own.cpu),
        };
        let cpu = cpu.filter(|_| run.summary.cpu.is_some());
        let totals = sum.with_timeline(&own).with_latencies(latencies);
        let mut totals = IntervalTotals { counted_s, io, device, cpu, ..totals };
        (over.database, over.device) = (counted_s, counted_s);
        steady.per_second = totals.rates(over);
        steady.io_latency_us = totals.io_latency(&run.details.target.io_events);
        totals.wait_histograms.clear(); // Only a merge needs them.
        totals
    });
    run.summary.steady = Some(steady);
}

/// A share's totals between the ends of two seconds.
fn counted_between(part: &HostRecord, bounds: (f64, f64)) -> Option<IntervalTotals> {
    seconds::between(&part.folder.join(seconds::NAME), bounds).ok()?
}
