//! The seconds of several hosts as the seconds of one run, aligned by the trigger: counts add up,
//! and latencies are merged from each host's histograms, second by second.

use std::collections::{BTreeMap, BTreeSet};
use std::time::SystemTime;

use super::super::driver_hosts::HostShare;
use super::super::latency_log::{self, Intervals, LatencyLog};
use super::super::{RecordError, RecordFolder, Second, figures, moment};
use super::{HostRecord, started_at};
use petal_host::histogram::{Latencies, LatencySummary};

/// Clock noise at the bounds of a second.
const SLACK_S: f64 = 0.005;

/// Seconds added up, without percentiles.
#[derive(Default)]
pub(super) struct MergedSeconds {
    timeline: Vec<Second>,
    machines: BTreeSet<String>,
    /// The end of the seconds of each share that takes counters.
    counted_s: Vec<f64>,
}

impl MergedSeconds {
    /// Adds a host's seconds. A machine's devices and processors count once.
    pub fn add(&mut self, seconds: &[Second], share: &HostShare) {
        let is_new_machine = self.machines.insert(share.machine());
        if share.counts_database {
            self.counted_s.push(seconds.last().map_or(0.0, Second::end_s));
        }
        for (at, second) in seconds.iter().cloned().enumerate() {
            let counted = if share.counts_database { second.io } else { None };
            let device = second.device.filter(|_| is_new_machine);
            let cpu = second.cpu.filter(|_| is_new_machine && self.machines.len() == 1);
            let Some(row) = self.timeline.get_mut(at) else {
                self.timeline.push(Second { io: counted, device, cpu, ..second });
                continue;
            };
            row.length_s = row.length_s.max(second.length_s);
            row.ops = row.ops.plus(&second.ops);
            row.rows = row.rows.plus(&second.rows);
            row.rows_asked = row.rows_asked.zip(second.rows_asked).map(|(a, b)| a.plus(&b));
            row.errors += second.errors;
            row.sessions += second.sessions;
            row.io = add_known(row.io, counted, |a, b| a.plus(&b));
            row.device = add_known(row.device, device, |a, b| a.plus(&b));
            row.cpu = row.cpu.or(cpu);
            row.checkpoints = row.checkpoints.or(second.checkpoints);
            row.vacuums = row.vacuums.or(second.vacuums);
            row.log_switches = row.log_switches.or(second.log_switches);
            row.block_images = row.block_images.or(second.block_images);
            for (kind, latency) in second.latency_us.iter() {
                let sum = row.latency_us.entry(kind);
                *sum = sum.plus_without_percentiles(latency);
            }
        }
    }

    /// Returns the seconds. If one share counts for all of them, its counters end with its own last
    /// whole second.
    pub fn into_timeline(self) -> Vec<Second> {
        let Self { mut timeline, counted_s, .. } = self;
        if let [until_s] = counted_s[..] {
            let after = timeline.iter_mut().filter(|row| row.end_s() > until_s + SLACK_S);
            after.for_each(|row| (row.io, row.device) = (None, None));
        }
        timeline
    }
}

fn add_known<T>(ours: Option<T>, theirs: Option<T>, plus: impl Fn(T, T) -> T) -> Option<T> {
    match (ours, theirs) {
        (Some(ours), Some(theirs)) => Some(plus(ours, theirs)),
        (ours, theirs) => ours.or(theirs),
    }
}

/// The merged seconds, and the latencies of the run and its counted window, by tag.
pub(super) struct Latency {
    pub timeline: Vec<Second>,
    pub whole: BTreeMap<String, Latencies>,
    pub steady: BTreeMap<String, Latencies>,
}

/// Merges the hosts' latency logs into a new one, and sets the latencies of each second from it. If
/// a host's log is missing, percentiles are unknown.
pub(super) fn latencies(
    parts: &[HostRecord],
    mut timeline: Vec<Second>,
    window: Option<(f64, f64)>,
    into: &RecordFolder,
) -> Result<Latency, RecordError> {
    let mut logs = Vec::with_capacity(parts.len());
    for part in parts {
        let log = Intervals::open(&part.folder.join(latency_log::NAME));
        logs.extend(log.map(Iterator::peekable));
    }
    let mut log = LatencyLog::begin(into, trigger(parts))?;
    let (mut whole, mut steady) = (BTreeMap::new(), BTreeMap::new());
    for row in &mut timeline {
        let mut second: BTreeMap<String, Latencies> = BTreeMap::new();
        for log in &mut logs {
            let end_s = row.from_s + 1.0 - SLACK_S;
            while let Some((tag, _, buckets)) = log.next_if(|(_, begins_s, _)| *begins_s < end_s) {
                second.entry(tag).or_default().add(&Latencies::from_buckets(&buckets));
            }
        }
        for (kind, known) in row.latency_us.iter_mut() {
            let Some(merged) = second.remove(kind) else { continue };
            // Without the histograms of all hosts only count, mean and maximum are known.
            if merged.count() != known.count {
                known.p50 = None;
                second.insert(kind.to_owned(), merged);
                continue;
            }
            let (total_ns, max_ns) = known.exact_ns();
            let exact = merged.with_exact(total_ns, max_ns);
            *known = exact.summary();
            second.insert(kind.to_owned(), exact);
        }
        log.second(row.from_s, row.length_s, second.iter().map(|(tag, all)| (tag.as_str(), all)))?;
        let is_steady = |(from_s, to_s)| figures::is_within(row, from_s, to_s);
        if window.is_some_and(is_steady) {
            add(&mut steady, &second);
        }
        add(&mut whole, &second);
    }
    log.finish()?;
    let whole = exact(whole, parts);
    Ok(Latency { timeline, whole, steady })
}

fn add(sums: &mut BTreeMap<String, Latencies>, second: &BTreeMap<String, Latencies>) {
    for (tag, latencies) in second {
        sums.entry(tag.clone()).or_default().add(latencies);
    }
}

/// Totals and maxima from the hosts' records, if they cover the same operations.
fn exact(sums: BTreeMap<String, Latencies>, parts: &[HostRecord]) -> BTreeMap<String, Latencies> {
    let reported = |tag: &str| {
        let each = parts.iter().filter_map(|part| {
            let summary = &part.run.summary;
            summary.latency_us.get(tag).or_else(|| summary.hot_latency_us.get(tag))
        });
        each.fold(LatencySummary::default(), |sum, own| sum.plus_without_percentiles(own))
    };
    sums.into_iter()
        .map(|(tag, sum)| {
            let known = reported(&tag);
            let (total_ns, max_ns) = known.exact_ns();
            let is_same = known.count == sum.count();
            let sum = if is_same { sum.with_exact(total_ns, max_ns) } else { sum };
            (tag, sum)
        })
        .collect()
}

fn trigger(parts: &[HostRecord]) -> SystemTime {
    moment::parse(&started_at(parts)).map_or(SystemTime::UNIX_EPOCH, SystemTime::from)
}
