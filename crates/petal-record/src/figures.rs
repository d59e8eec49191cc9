//! Figures of the record made from totals, per second or per count. Both the runner that ends a run
//! and the reader that rebuilds a killed one use them.

use std::collections::BTreeMap;

use super::{IoLatency, Run, Second, Steady, WaitHistogram, WaitRow};
use crate::counters::{Wait, WaitSource};
use petal_host::histogram::{Latencies, LatencySummary, micros};
use petal_host::os::CpuShare;
use petal_workload::op::Hot;

impl From<&Wait> for WaitRow {
    /// Builds the row from the raw totals; its average is time over waits, unknown without waits.
    fn from(wait: &Wait) -> Self {
        let (waits, time_us) = (wait.waits, micros(wait.time_ns));
        Self {
            name: wait.name.clone(),
            class: wait.class,
            source: wait.source,
            waits,
            time_us,
            avg_us: waits.filter(|&waits| waits > 0).map(|waits| time_us / waits as f64),
        }
    }
}

/// The waits that took any time, longest first, then by name, so that a report is the same every
/// time.
pub fn wait_rows(waits: &[Wait]) -> Vec<WaitRow> {
    sorted(waits.iter().filter(|wait| wait.time_ns > 0).map(WaitRow::from).collect())
}

pub(super) fn sorted(mut rows: Vec<WaitRow>) -> Vec<WaitRow> {
    rows.sort_by(|a, b| b.time_us.total_cmp(&a.time_us).then_with(|| a.name.cmp(&b.name)));
    rows
}

/// The histograms of the waits that were timed one by one, or counted by powers of two. If not
/// `is_whole` they keep the buckets that a merge of several hosts needs.
pub(super) fn wait_histograms(waits: &[Wait], is_whole: bool) -> BTreeMap<String, WaitHistogram> {
    let timed = waits.iter().filter_map(|wait| {
        let latencies = wait.latencies.as_ref().filter(|latencies| latencies.count() > 0);
        let histogram = match (latencies, is_whole) {
            (None, _) => WaitHistogram::of_powers_of_two(&wait.buckets)?,
            (Some(latencies), true) => WaitHistogram::of(latencies),
            (Some(latencies), false) => WaitHistogram::with_buckets(latencies),
        };
        Some((wait.name.clone(), histogram))
    });
    timed.collect()
}

/// I/O latency of one event; None if its waits were not counted.
pub(super) fn io_latency(
    wait: &WaitRow,
    histogram: Option<&WaitHistogram>,
    timed_by: &str,
) -> Option<IoLatency> {
    let timed = histogram.map(|histogram| &histogram.latency_us);
    let how = match (wait.source, timed) {
        (WaitSource::Sampled, _) => return None,
        (WaitSource::Timed, Some(_)) => format!("{timed_by}, each wait"),
        (WaitSource::Timed, None) => format!("{timed_by}, totals only"),
        (WaitSource::Counted, _) => format!("{timed_by}, counted"),
    };
    Some(IoLatency {
        count: wait.waits?,
        mean: wait.avg_us,
        p50: timed.and_then(|latency| latency.p50),
        p99: timed.and_then(|latency| latency.p99),
        max: timed.and_then(|latency| latency.max),
        source: format!("{} ({how})", wait.name),
    })
}

/// The counted window: from the end of the warm-up, while at least `surviving` sessions run, in
/// whole seconds of the timeline. None if there was no such time.
pub fn steady_window(timeline: &[Second], surviving: u32, warm_up_s: f64) -> Option<(f64, f64)> {
    let full = |second: &&Second| {
        second.from_s + SLACK_S >= warm_up_s && surviving > 0 && second.sessions >= surviving
    };
    let first = timeline.iter().find(full)?;
    let last = timeline.iter().rev().find(full)?;
    Some((first.from_s, last.from_s + last.length_s))
}

/// Clock noise at the bounds of a second.
const SLACK_S: f64 = 0.005;

/// The seconds that lie wholly within `from_s..to_s`.
pub fn seconds_within(timeline: &[Second], from_s: f64, to_s: f64) -> Vec<&Second> {
    timeline.iter().filter(|second| is_within(second, from_s, to_s)).collect()
}

/// Whether a second lies wholly within `from_s..to_s`.
pub(super) fn is_within(second: &Second, from_s: f64, to_s: f64) -> bool {
    second.from_s + SLACK_S >= from_s && second.from_s + second.length_s <= to_s + SLACK_S
}

/// The sum; None if there are no parts or one part is unknown.
pub(super) fn sum<T>(parts: impl Iterator<Item = Option<T>>, plus: fn(&T, &T) -> T) -> Option<T> {
    parts.reduce(|sum, part| Some(plus(&sum?, &part?))).flatten()
}

/// The processors' shares, weighted by time, over the seconds that have them.
pub(super) fn mean_cpu(seconds: &[&Second]) -> Option<CpuShare> {
    let known = || seconds.iter().filter_map(|second| Some((second.cpu?, second.length_s)));
    let all_s: f64 = known().map(|(_, length_s)| length_s).sum();
    let mean = |part: fn(&CpuShare) -> f64| {
        known().map(|(cpu, length_s)| part(&cpu) * length_s).sum::<f64>() / all_s
    };
    (all_s > 0.0).then(|| CpuShare {
        user: mean(|cpu| cpu.user),
        system: mean(|cpu| cpu.system),
        iowait: mean(|cpu| cpu.iowait),
        idle: mean(|cpu| cpu.idle),
        steal: mean(|cpu| cpu.steal),
    })
}

/// Whether a tag holds the latencies of operations that the settings sent to hot data.
fn is_hot(tag: &str) -> bool {
    Hot::ALL.iter().any(|hot| hot.name() == tag)
}

impl Steady {
    /// The window with the latencies that were logged in it, by tag.
    pub(super) fn of((from_s, to_s): (f64, f64), by_tag: &BTreeMap<String, Latencies>) -> Self {
        let by_kind = by_tag.iter().filter(|(tag, _)| !is_hot(tag));
        let latency_us = by_kind.map(|(tag, all)| (tag.clone(), all.summary())).collect();
        Self { from_s, to_s, latency_us, ..Self::default() }
    }
}

impl Run {
    /// Sets the latencies from those logged in the whole run, by tag.
    pub(super) fn set_latencies(&mut self, by_tag: &BTreeMap<String, Latencies>) {
        let bars = by_tag.iter().map(|(tag, all)| (tag.clone(), all.bars()));
        self.details.histograms = bars.collect();
        let summaries = by_tag.iter().map(|(tag, all)| (tag.clone(), all.summary()));
        (self.summary.hot_latency_us, self.summary.latency_us) =
            summaries.partition(|(tag, _)| is_hot(tag));
    }
}

/// The lower median; None of nothing.
pub fn lower_median(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let mut sorted: Vec<f64> = values.into_iter().collect();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len().checked_sub(1)? / 2).copied()
}

/// Latencies merged into one; None for an empty list.
pub fn together<'a>(latencies: impl Iterator<Item = &'a Latencies>) -> Option<LatencySummary> {
    let mut all = Latencies::new();
    latencies.for_each(|latencies| all.add(latencies));
    (all.count() > 0).then(|| all.summary())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counters::WaitClass;

    #[test]
    fn an_average_is_time_over_waits_and_unknown_without_waits() {
        let row = |waits, time_ns| {
            WaitRow::from(&Wait::counted("r", WaitClass::UserIo, waits, time_ns)).avg_us
        };
        assert_eq!(row(Some(3), 4_500), Some(1.5));
        assert_eq!(row(Some(0), 0), None);
        assert_eq!(row(None, 4_500), None);
    }

    #[test]
    fn the_window_begins_after_warm_up_and_ends_with_the_first_session_that_is_done() {
        let second =
            |from_s: f64, sessions| Second { from_s, length_s: 1.0, sessions, ..Second::default() };
        let timeline = [second(0.0, 4), second(1.0, 4), second(2.0, 4), second(3.0, 2)];
        assert_eq!(steady_window(&timeline, 4, 1.0), Some((1.0, 3.0)));
        assert_eq!(steady_window(&timeline, 4, 3.0), None);
        assert_eq!(seconds_within(&timeline, 1.0, 3.0).len(), 2);
    }
}
