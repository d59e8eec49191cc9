//! From totals to the figures of the record, per second or per count.
//! A runner that ends a run and the reader that rebuilds a killed one both come here.

use std::collections::BTreeMap;

use super::journal::JournalWait;
use super::{IoLatency, Ops, PerSecond, Rows, Run, Second, WaitHistogram, WaitRow};
use crate::stats::counters::{IoCounts, WaitClass, WaitSource};
use crate::stats::histogram::{Latencies, LatencySummary, micros};
use crate::stats::os::{CpuShare, DeviceCounts};
use crate::stats::target::IoEvents;
use crate::workload::op::Kind;

impl PerSecond {
    /// These rates with the database's figures over a time of their own.
    pub fn with_database_over(self, io: &IoCounts, seconds: f64) -> Self {
        Self {
            ops: self.ops,
            rows: self.rows,
            commits: self.commits,
            ..self.with_device_of(
                IntervalTotals { seconds, io: *io, ..IntervalTotals::default() }.per_second(),
            )
        }
    }

    /// These rates of the device's, and all others of `other`.
    fn with_device_of(self, other: Self) -> Self {
        Self {
            device_read_requests: self.device_read_requests,
            device_read_bytes: self.device_read_bytes,
            device_write_requests: self.device_write_requests,
            device_write_bytes: self.device_write_bytes,
            ..other
        }
    }

    /// These rates with those of a device that was counted over a time of its own.
    pub(super) fn with_device_over(self, device: Option<DeviceCounts>, seconds: f64) -> Self {
        IntervalTotals { seconds, device, ..IntervalTotals::default() }
            .per_second()
            .with_device_of(self)
    }
}

impl Run {
    /// Takes over what petal, the operating system and the device counted in some seconds.
    pub(super) fn set_totals(&mut self, totals: &IntervalTotals) {
        let summary = &mut self.summary;
        (summary.ops, summary.rows, summary.rows_asked) =
            (totals.ops, totals.rows, totals.rows_asked);
        (summary.cpu, self.details.device) = (totals.cpu, totals.device);
    }
}

impl WaitRow {
    /// A row from the raw totals; its average is time over waits, unknown without waits.
    pub fn from_totals(
        name: &str,
        class: WaitClass,
        source: WaitSource,
        waits: Option<u64>,
        time_ns: u64,
    ) -> Self {
        let time_us = micros(time_ns);
        let avg_us = waits.filter(|&waits| waits > 0).map(|waits| time_us / waits as f64);
        Self { name: name.to_owned(), class, source, waits, time_us, avg_us }
    }
}

/// The waits that took any time, longest first; equal times by name, so that a report is the same
/// every time.
pub fn wait_rows(waits: &[JournalWait]) -> Vec<WaitRow> {
    let mut rows: Vec<WaitRow> =
        waits.iter().filter(|wait| wait.time_ns > 0).map(WaitRow::from).collect();
    rows.sort_by(|a, b| b.time_us.total_cmp(&a.time_us).then_with(|| a.name.cmp(&b.name)));
    rows
}

/// `read`, `write` and `log` of the record: the wait events that the engine names for them.
/// Percentiles where single waits were seen.
pub fn io_latencies(
    events: &IoEvents,
    waits: &[WaitRow],
    histograms: &BTreeMap<String, WaitHistogram>,
) -> BTreeMap<String, IoLatency> {
    [("read", &events.read), ("write", &events.write), ("log", &events.log)]
        .into_iter()
        .filter_map(|(kind, event)| {
            let wait = waits.iter().find(|wait| wait.name == *event)?;
            let latency = io_latency(wait, histograms.get(event), &events.timed_by)?;
            Some((kind.to_owned(), latency))
        })
        .collect()
}

/// One event as an I/O latency; None where nobody counted its waits.
fn io_latency(
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

/// The steady window: from the end of the warm-up, while at least `surviving` sessions run, in
/// whole seconds of the timeline. None when there was no such time.
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

/// The sum; None of nothing, and where one part is unknown.
pub(super) fn sum<T>(parts: impl Iterator<Item = Option<T>>, plus: fn(&T, &T) -> T) -> Option<T> {
    parts.reduce(|sum, part| Some(plus(&sum?, &part?))).flatten()
}

/// Sums of an interval, and the time it took. A figure that one second lacks is unknown.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct IntervalTotals {
    pub seconds: f64,
    pub ops: Ops,
    pub rows: Rows,
    pub rows_asked: Option<Rows>,
    pub io: IoCounts,
    pub device: Option<DeviceCounts>,
    pub cpu: Option<CpuShare>,
}

impl IntervalTotals {
    pub fn of<'a>(seconds: impl IntoIterator<Item = &'a Second>) -> Self {
        let seconds: Vec<&Second> = seconds.into_iter().collect();
        let each = || seconds.iter();
        Self {
            seconds: each().map(|second| second.length_s).sum(),
            ops: each().fold(Ops::default(), |sum, second| sum.plus(&second.ops)),
            rows: each().fold(Rows::default(), |sum, second| sum.plus(&second.rows)),
            rows_asked: sum(each().map(|second| second.rows_asked), Rows::plus),
            io: each()
                .map(|second| second.io.unwrap_or_default())
                .reduce(|sum, io| sum.plus(&io))
                .unwrap_or_default(),
            device: sum(each().map(|second| second.device), DeviceCounts::plus),
            cpu: mean_cpu(&seconds),
        }
    }

    /// Rates over its seconds. What is unknown stays unknown, and over no time all is unknown.
    pub fn per_second(&self) -> PerSecond {
        let (seconds, io, device) = (self.seconds, &self.io, self.device);
        if seconds.is_nan() || seconds <= 0.0 {
            return PerSecond::default();
        }
        let rate = |total: Option<u64>| total.map(|total| total as f64 / seconds);
        PerSecond {
            ops: rate(Some(self.ops.total)),
            rows: rate(Some(self.rows.total())),
            commits: rate(Some(self.ops.update)),
            log_syncs: rate(io.log_syncs),
            logical_reads: rate(io.logical_reads),
            physical_read_blocks: rate(io.physical_read_blocks),
            physical_read_requests: rate(io.physical_read_requests),
            physical_read_bytes: rate(io.physical_read_bytes),
            physical_write_blocks: rate(io.physical_write_blocks),
            physical_write_requests: rate(io.physical_write_requests),
            physical_write_bytes: rate(io.physical_write_bytes),
            redo_bytes: rate(io.redo_bytes),
            device_read_requests: rate(device.map(|counts| counts.read_requests)),
            device_read_bytes: rate(device.map(|counts| counts.read_bytes)),
            device_write_requests: rate(device.map(|counts| counts.write_requests)),
            device_write_bytes: rate(device.map(|counts| counts.write_bytes)),
        }
    }
}

/// The processors' shares, weighed by time, over the seconds that know them.
fn mean_cpu(seconds: &[&Second]) -> Option<CpuShare> {
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

/// All operations together, of latencies by kind; None of no operation.
pub(super) fn all_operations(by_kind: &BTreeMap<String, Latencies>) -> Option<LatencySummary> {
    together(Kind::ALL.iter().filter_map(|kind| by_kind.get(kind.name())))
}

/// The same operations again, from when they were due; None without RATE.
pub(super) fn all_responses(by_kind: &BTreeMap<String, Latencies>) -> Option<LatencySummary> {
    together(Kind::ALL.iter().filter_map(|kind| by_kind.get(&format!("{}_response", kind.name()))))
}

/// Latencies as one; None of none.
pub fn together<'a>(latencies: impl Iterator<Item = &'a Latencies>) -> Option<LatencySummary> {
    let mut all = Latencies::new();
    latencies.for_each(|latencies| all.add(latencies));
    (all.count() > 0).then(|| all.summary())
}

/// Counts, means and maxima of the seconds together; percentiles cannot be had from percentiles.
pub fn latency_without_percentiles(timeline: &[Second], kind: &str) -> Option<LatencySummary> {
    let known: Vec<&LatencySummary> =
        timeline.iter().filter_map(|second| second.latency_us.get(kind)).collect();
    let count: u64 = known.iter().map(|latency| latency.count).sum();
    let total: f64 = known.iter().filter_map(|l| Some(l.mean? * l.count as f64)).sum();
    (count > 0).then(|| LatencySummary {
        count,
        mean: Some(total / count as f64),
        max: known.iter().filter_map(|latency| latency.max).reduce(f64::max),
        ..LatencySummary::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn rates_times_elapsed_are_the_totals(
            ops in 0u64..1_000_000_000,
            bytes in 0u64..1_000_000_000_000,
            device_bytes in 0u64..1_000_000_000_000,
            seconds in 0.001f64..100_000.0,
        ) {
            let io = IoCounts { physical_read_bytes: Some(bytes), ..IoCounts::default() };
            let device = DeviceCounts { write_bytes: device_bytes, ..DeviceCounts::default() };
            let totals = IntervalTotals {
                seconds,
                ops: Ops { total: ops, update: ops / 4, ..Ops::default() },
                rows: Rows { select: ops * 64, ..Rows::default() },
                io,
                device: Some(device),
                ..IntervalTotals::default()
            };
            let rates = totals.per_second();
            let close = |rate: Option<f64>, total: u64| {
                (rate.unwrap() * seconds - total as f64).abs() <= total as f64 * 1e-9
            };
            prop_assert!(close(rates.ops, ops));
            prop_assert!(close(rates.rows, ops * 64));
            prop_assert!(close(rates.commits, ops / 4));
            prop_assert!(close(rates.physical_read_bytes, bytes));
            prop_assert!(close(rates.device_write_bytes, device_bytes));
            prop_assert_eq!(rates.redo_bytes, None);
        }

        #[test]
        fn the_seconds_sum_to_the_whole(counts in prop::collection::vec(0u64..10_000, 1..50)) {
            let timeline: Vec<Second> = counts
                .iter()
                .map(|&count| Second {
                    length_s: 0.5,
                    ops: Ops { select: count, total: count, ..Ops::default() },
                    io: Some(IoCounts { commits: Some(count), ..IoCounts::default() }),
                    device: Some(DeviceCounts { read_bytes: count, ..DeviceCounts::default() }),
                    ..Second::default()
                })
                .collect();
            let sum: u64 = counts.iter().sum();
            let totals = IntervalTotals::of(&timeline);
            prop_assert_eq!(totals.ops.total, sum);
            prop_assert_eq!(totals.io.commits, Some(sum));
            prop_assert_eq!(totals.device.map(|device| device.read_bytes), Some(sum));
            prop_assert_eq!(totals.seconds, counts.len() as f64 * 0.5);
            prop_assert_eq!(totals.io.redo_bytes, None);
        }
    }

    #[test]
    fn no_time_gives_no_rate() {
        let ops = Ops { total: 1, update: 1, ..Ops::default() };
        let none = IntervalTotals { ops, ..IntervalTotals::default() };
        assert_eq!(none.per_second(), PerSecond::default());
    }

    #[test]
    fn one_second_that_does_not_know_makes_the_sum_unknown() {
        let known = Second {
            io: Some(IoCounts { commits: Some(3), ..IoCounts::default() }),
            device: Some(DeviceCounts::default()),
            ..Second::default()
        };
        let totals = IntervalTotals::of(&[known.clone(), Second::default(), known]);
        assert_eq!(totals.io.commits, None);
        assert_eq!(totals.device, None);
    }

    #[test]
    fn an_average_is_time_over_waits_and_unknown_without_waits() {
        let row = |waits, time_ns| {
            WaitRow::from_totals("r", WaitClass::UserIo, WaitSource::Timed, waits, time_ns).avg_us
        };
        assert_eq!(row(Some(3), 4_500), Some(1.5));
        assert_eq!(row(Some(0), 0), None);
        assert_eq!(row(None, 4_500), None);
    }

    #[test]
    fn io_latencies_are_the_events_that_the_engine_names() {
        let wait = |name, class, waits, time_ns| {
            WaitRow::from_totals(name, class, WaitSource::Timed, Some(waits), time_ns)
        };
        let waits = [
            wait("main read", WaitClass::UserIo, 10, 900),
            wait("wal read", WaitClass::UserIo, 99, 100),
            wait("checkpoint write", WaitClass::SystemIo, 5, 100),
            wait("wal write", WaitClass::SystemIo, 50, 100),
            wait("wal sync", WaitClass::Commit, 7, 700),
        ];
        let events = IoEvents {
            read: "main read".into(),
            write: "checkpoint write".into(),
            log: "wal sync".into(),
            timed_by: "the shim".into(),
        };
        let sources: Vec<String> = io_latencies(&events, &waits, &BTreeMap::new())
            .into_iter()
            .map(|(kind, latency)| format!("{kind}: {} {}", latency.count, latency.source))
            .collect();
        assert_eq!(
            sources,
            [
                "log: 7 wal sync (the shim, totals only)",
                "read: 10 main read (the shim, totals only)",
                "write: 5 checkpoint write (the shim, totals only)",
            ]
        );
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
