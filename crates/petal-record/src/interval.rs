//! Totals of all layers over an interval of a run, their rates, and the run shown over it. The
//! whole run, its counted window, the time until which the database was counted, a rebuilt and a
//! merged record all make their figures here.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::figures::{self, sum, together};
use super::os::{self, HostSeen};
use super::{IoLatency, Ops, PerSecond, Rows, Run, Second, WaitHistogram, WaitRow};
use crate::counters::{Counters, FileCounts, IoCounts};
use crate::target::IoEvents;
use crate::timeline::Tally;
use petal_host::histogram::{Latencies, LatencySummary};
use petal_host::os::{CpuShare, DeviceCounts, OsInterval};
use petal_workload::op::Kind;

/// Totals of an interval. A figure that is missing for a part of it is unknown.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct IntervalTotals {
    /// Seconds over which the database was counted.
    pub counted_s: f64,
    pub ops: Ops,
    pub rows: Rows,
    pub rows_asked: Option<Rows>,
    pub io: IoCounts,
    pub device: Option<DeviceCounts>,
    pub cpu: Option<CpuShare>,
    pub petal_cpu_s: Option<f64>,
    /// The sessions' time in operations and in think time.
    pub db_time_s: f64,
    pub think_time_s: f64,
    /// All operations together.
    pub op_latency_us: Option<LatencySummary>,
    /// Latency from when they were due; only with RATE.
    pub op_response_us: Option<LatencySummary>,
    pub waits: Vec<WaitRow>,
    /// Histograms by the event's name; in the record of a share alone, for the merge of all.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub wait_histograms: BTreeMap<String, WaitHistogram>,
    pub counters: BTreeMap<String, u64>,
    pub files: Vec<FileCounts>,
    /// Counts by the endpoint's name.
    pub endpoints: BTreeMap<String, IoCounts>,
}

/// The second's end at which the database's totals end, because its closing snapshot failed.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct CountedUntil {
    /// Seconds after the trigger.
    pub second: f64,
    /// The whole run's length, in seconds.
    pub of_s: f64,
    /// The sessions' time in operations and in think time until then, in seconds.
    pub db_time_s: f64,
    pub think_time_s: f64,
}

/// The seconds over which each layer counted.
#[derive(Debug, Clone, Copy)]
pub struct LayerSeconds {
    pub petal: f64,
    pub database: f64,
    pub device: f64,
}

impl LayerSeconds {
    /// All layers over the same seconds.
    pub fn all(seconds: f64) -> Self {
        Self { petal: seconds, database: seconds, device: seconds }
    }
}

impl IntervalTotals {
    /// The sums of some seconds of a timeline.
    pub fn of<'a>(seconds: impl IntoIterator<Item = &'a Second>) -> Self {
        let seconds: Vec<&Second> = seconds.into_iter().collect();
        let each = || seconds.iter();
        Self {
            counted_s: each().map(|second| second.length_s).sum(),
            ops: each().fold(Ops::default(), |sum, second| sum.plus(&second.ops)),
            rows: each().fold(Rows::default(), |sum, second| sum.plus(&second.rows)),
            rows_asked: sum(each().map(|second| second.rows_asked), Rows::plus),
            io: each()
                .map(|second| second.io.unwrap_or_default())
                .reduce(|sum, io| sum.plus(&io))
                .unwrap_or_default(),
            device: sum(each().map(|second| second.device), DeviceCounts::plus),
            cpu: figures::mean_cpu(&seconds),
            ..Self::default()
        }
    }

    /// Petal's own counts.
    pub fn of_tally(tally: &Tally) -> Self {
        Self {
            ops: tally.into(),
            rows: Rows::by_kind(&tally.rows),
            rows_asked: Some(Rows::by_kind(&tally.rows_asked)),
            db_time_s: tally.busy_ns as f64 / 1e9,
            think_time_s: tally.think_ns as f64 / 1e9,
            op_latency_us: together(tally.service.iter().flatten().map(AsRef::as_ref)),
            op_response_us: together(tally.response.iter().flatten().map(AsRef::as_ref)),
            ..Self::default()
        }
    }

    /// Adds the database's counts of each endpoint. Without `is_whole` histograms keep their buckets,
    /// for a merge of several hosts.
    pub fn with_database(self, counters: &[Counters], is_whole: bool) -> Self {
        let total = Counters::sum(counters).unwrap_or_default();
        Self {
            io: total.io,
            waits: figures::wait_rows(&total.waits),
            wait_histograms: figures::wait_histograms(&total.waits, is_whole),
            counters: total.raw,
            files: total.files,
            endpoints: counters.iter().map(|each| (each.endpoint.clone(), each.io)).collect(),
            ..self
        }
    }

    /// Adds the counts of petal's host; its processors are the database's if that `is_local`.
    pub fn with_host(self, os: Option<&OsInterval>, is_local: bool) -> Self {
        Self {
            device: os.and_then(OsInterval::device),
            cpu: os.filter(|_| is_local).and_then(OsInterval::cpu),
            petal_cpu_s: os.and_then(OsInterval::petal_cpu_s),
            ..self
        }
    }

    /// Takes the counts of petal and of the database's host from the sums of a timeline.
    pub(super) fn with_timeline(self, seconds: &Self) -> Self {
        let Self { ops, rows, rows_asked, device, cpu, .. } = *seconds;
        Self { ops, rows, rows_asked, device, cpu, ..self }
    }

    /// Adds the latency of all operations together, from those logged by tag.
    pub(super) fn with_latencies(self, by_tag: &BTreeMap<String, Latencies>) -> Self {
        let all = |ending: &str| {
            let tags = Kind::ALL.iter().map(|kind| format!("{}{ending}", kind.name()));
            together(tags.filter_map(|tag| by_tag.get(&tag)))
        };
        Self { op_latency_us: all(""), op_response_us: all("_response"), ..self }
    }

    /// `read`, `write` and `log` of the record: the wait events that the engine names for them.
    /// Percentiles only if single waits were timed.
    pub fn io_latency(&self, events: &IoEvents) -> BTreeMap<String, IoLatency> {
        [("read", &events.read), ("write", &events.write), ("log", &events.log)]
            .into_iter()
            .filter_map(|(kind, event)| {
                let wait = self.waits.iter().find(|wait| wait.name == *event)?;
                let histogram = self.wait_histograms.get(event);
                let latency = figures::io_latency(wait, histogram, &events.timed_by)?;
                Some((kind.to_owned(), latency))
            })
            .collect()
    }

    /// Rates over its seconds.
    pub fn per_second(&self) -> PerSecond {
        self.rates(LayerSeconds::all(self.counted_s))
    }

    /// Rates over the seconds of each layer. An unknown count has no rate, and over no time all are
    /// unknown.
    pub fn rates(&self, over: LayerSeconds) -> PerSecond {
        let (io, device) = (&self.io, self.device);
        let rate = |total: Option<u64>, seconds: f64| {
            total.filter(|_| seconds > 0.0).map(|total| total as f64 / seconds)
        };
        let petal = |total: u64| rate(Some(total), over.petal);
        let database = |total: Option<u64>| rate(total, over.database);
        let of_device = |count: fn(DeviceCounts) -> u64| rate(device.map(count), over.device);
        PerSecond {
            ops: petal(self.ops.total),
            rows: petal(self.rows.total()),
            commits: petal(self.ops.update),
            log_syncs: database(io.log_syncs),
            logical_reads: database(io.logical_reads),
            physical_read_blocks: database(io.physical_read_blocks),
            physical_read_requests: database(io.physical_read_requests),
            physical_read_bytes: database(io.physical_read_bytes),
            physical_write_blocks: database(io.physical_write_blocks),
            physical_write_requests: database(io.physical_write_requests),
            physical_write_bytes: database(io.physical_write_bytes),
            redo_bytes: database(io.redo_bytes),
            device_read_requests: of_device(|counts| counts.read_requests),
            device_read_bytes: of_device(|counts| counts.read_bytes),
            device_write_requests: of_device(|counts| counts.write_requests),
            device_write_bytes: of_device(|counts| counts.write_bytes),
        }
    }
}

impl PerSecond {
    /// These rates with those of a device that was counted over other seconds.
    pub(super) fn with_device(self, device: Option<DeviceCounts>, counted_s: f64) -> Self {
        let of = IntervalTotals { counted_s, device, ..IntervalTotals::default() }.per_second();
        Self {
            device_read_requests: of.device_read_requests,
            device_read_bytes: of.device_read_bytes,
            device_write_requests: of.device_write_requests,
            device_write_bytes: of.device_write_bytes,
            ..self
        }
    }
}

/// The time that figures cover.
#[derive(Debug, Clone, PartialEq)]
pub enum Window {
    /// The time in which all surviving sessions ran, without the warm-up.
    Steady { from_s: f64, to_s: f64 },
    /// The whole run, and the reason why it is not the counted window.
    Whole { elapsed_s: f64, why: &'static str },
    /// The time from the trigger to the end of the database's counters: `until second 7 of 10`.
    Until(String),
}

/// The run as headlines, cells and comparisons show it.
#[derive(Debug)]
pub struct HeadlineWindow<'a> {
    pub run: Cow<'a, Run>,
    pub window: Window,
}

impl fmt::Display for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Steady { from_s, to_s } => write!(f, "counted window {from_s:.1}-{to_s:.1} s"),
            Self::Whole { elapsed_s, why } => write!(f, "whole run {elapsed_s:.1} s ({why})"),
            Self::Until(until) => write!(f, "{until}"),
        }
    }
}

impl Window {
    /// The seconds that it covers, from the trigger; to the end of the run if its end is not known.
    pub fn seconds(&self, run: &Run) -> (f64, f64) {
        let until = run.summary.counted_until.map(|until| until.second);
        match self {
            Self::Steady { from_s, to_s } => (*from_s, *to_s),
            Self::Whole { elapsed_s, .. } => (0.0, *elapsed_s),
            Self::Until(_) => (0.0, until.unwrap_or(run.summary.elapsed_s)),
        }
    }

    /// Reason why it is not the counted window; None if it is.
    pub fn why(&self) -> Option<&str> {
        match self {
            Self::Steady { .. } => None,
            Self::Whole { why, .. } => Some(why),
            Self::Until(until) => Some(until),
        }
    }
}

impl Run {
    /// The run reduced to its counted window; if that is unknown, the whole run, as far as the
    /// database reported its figures.
    pub fn headline_window(&self) -> HeadlineWindow<'_> {
        if let Some((run, window)) = self.in_steady_window() {
            return HeadlineWindow { run: Cow::Owned(run), window };
        }
        let why = match self.summary.steady {
            None => "no counted window",
            Some(_) => "the counted window's counters are not known",
        };
        let whole = Window::Whole { elapsed_s: self.summary.elapsed_s, why };
        HeadlineWindow {
            run: self.counted(),
            window: self.counted_until().map_or(whole, Window::Until),
        }
    }

    /// The seconds with experiments, of a run whose own figures are known without them.
    pub fn experiments_s(&self) -> Option<(f64, f64)> {
        let made = self.details.experiments.as_ref().filter(|made| !made.slots.is_empty())?;
        let is_before = self.summary.steady.as_ref().is_some_and(|it| it.to_s <= made.from_s);
        let is_known = is_before && self.in_steady_window().is_some();
        is_known.then_some((made.from_s, self.summary.elapsed_s))
    }

    /// The run without the seconds in which experiments changed it.
    pub fn without_experiments(&self) -> Cow<'_, Self> {
        match self.experiments_s().and_then(|_| self.in_steady_window()) {
            None => Cow::Borrowed(self),
            Some((mut own, window)) => {
                let (from_s, to_s) = window.seconds(self);
                own.details.timeline.retain(|it| it.from_s >= from_s && it.from_s < to_s);
                Cow::Owned(own)
            }
        }
    }

    /// The run itself; or, if the database reported its totals only until some second, the run with
    /// petal's and the device's figures until then as well. A run with experiments is reduced to
    /// the time before them.
    pub fn counted(&self) -> Cow<'_, Self> {
        if let own @ Cow::Owned(_) = self.without_experiments() {
            return own;
        }
        let Some(until) = self.summary.counted_until else { return Cow::Borrowed(self) };
        let seconds = figures::seconds_within(&self.details.timeline, 0.0, until.second);
        let counted = IntervalTotals::of(seconds);
        let totals = IntervalTotals {
            counted_s: until.second,
            db_time_s: until.db_time_s,
            think_time_s: until.think_time_s,
            ..self.totals().with_timeline(&counted)
        };
        let rates = totals.per_second();
        Cow::Owned(self.over(totals, rates))
    }

    fn in_steady_window(&self) -> Option<(Self, Window)> {
        let steady = self.summary.steady.as_ref()?;
        let totals = self.details.steady.as_ref().filter(|totals| totals.counted_s > 0.0)?;
        // A total that the run has and the window lacks would be missing in every figure made of
        // it.
        let mut both = self.details.io.each().into_iter().zip(totals.io.each());
        if !both.all(|(whole, window)| whole.is_none() || window.is_some()) {
            return None;
        }
        let mut run = self.over(totals.clone(), steady.per_second);
        let summary = &mut run.summary;
        summary.counted_until = None;
        summary.latency_us.clone_from(&steady.latency_us);
        summary.io_latency_us.clone_from(&steady.io_latency_us);
        for endpoint in &mut summary.endpoints {
            endpoint.io = totals.endpoints.get(&endpoint.endpoint).copied().unwrap_or_default();
        }
        for seen in [&mut run.details.os, &mut run.details.server_os].into_iter().flatten() {
            reduce(seen, steady.from_s, steady.to_s);
        }
        Some((run, Window::Steady { from_s: steady.from_s, to_s: steady.to_s }))
    }

    /// The run shown over an interval: its totals replace the run's own.
    fn over(&self, totals: IntervalTotals, rates: PerSecond) -> Self {
        let mut run = self.clone();
        run.summary.elapsed_s = totals.counted_s;
        let wait_histograms = match self.details.experiments {
            Some(_) => totals.wait_histograms,
            None => self.details.wait_histograms.clone(),
        };
        run.set(IntervalTotals { wait_histograms, ..totals }, rates);
        run.summary.io_latency_us.clone_from(&self.summary.io_latency_us);
        run
    }

    /// Sets the totals of an interval, with their rates.
    pub fn set(&mut self, totals: IntervalTotals, rates: PerSecond) {
        let (summary, details) = (&mut self.summary, &mut self.details);
        summary.per_second = rates;
        summary.io_latency_us = totals.io_latency(&details.target.io_events);
        (summary.ops, summary.rows) = (totals.ops, totals.rows);
        summary.rows_asked = totals.rows_asked;
        (details.io, details.device) = (totals.io, totals.device);
        (summary.cpu, summary.petal_cpu_s) = (totals.cpu, totals.petal_cpu_s);
        (details.db_time_s, details.think_time_s) = (totals.db_time_s, totals.think_time_s);
        details.op_latency_us = totals.op_latency_us;
        details.op_response_us = totals.op_response_us;
        (summary.waits, summary.counters) = (totals.waits, totals.counters);
        (details.wait_histograms, details.files) = (totals.wait_histograms, totals.files);
    }

    /// The totals of the whole run.
    pub(super) fn totals(&self) -> IntervalTotals {
        let (summary, details) = (&self.summary, &self.details);
        let endpoints = summary.endpoints.iter();
        IntervalTotals {
            counted_s: summary.elapsed_s,
            ops: summary.ops,
            rows: summary.rows,
            rows_asked: summary.rows_asked,
            io: details.io,
            device: details.device,
            cpu: summary.cpu,
            petal_cpu_s: summary.petal_cpu_s,
            db_time_s: details.db_time_s,
            think_time_s: details.think_time_s,
            op_latency_us: details.op_latency_us.clone(),
            op_response_us: details.op_response_us.clone(),
            waits: summary.waits.clone(),
            wait_histograms: details.wait_histograms.clone(),
            counters: summary.counters.clone(),
            files: details.files.clone(),
            endpoints: endpoints.map(|each| (each.endpoint.clone(), each.io)).collect(),
        }
    }

    /// A text such as `until second 7 of 10`; None if the database reported its totals to the end.
    pub fn counted_until(&self) -> Option<String> {
        let until = self.summary.counted_until?;
        let is_whole = (until.of_s - until.of_s.round()).abs() < 0.1;
        let of = format!("{:.*}", usize::from(!is_whole), until.of_s);
        Some(format!("until second {:.0} of {of}", until.second))
    }
}

/// A host's sums over the seconds from `from_s` to `to_s`. Without these seconds the counts
/// are unknown.
fn reduce(seen: &mut HostSeen, from_s: f64, to_s: f64) {
    let mut window = seen.within(from_s, to_s);
    seen.over_run = Some(Box::new(seen.whole.sum.clone()));
    let missing_s = (to_s - from_s) - window.sum.seconds;
    if window.intervals == 0 || missing_s.abs() > 2.0 * os::SLACK_S {
        seen.whole.sum.counts = Default::default();
        seen.whole.sum.threads = None;
        return;
    }
    // Single processors are not kept for each second.
    window.sum.cpus.each.clone_from(&seen.whole.sum.cpus.each);
    window.sum.busiest_cpu = seen.whole.sum.busiest_cpu;
    seen.whole = window;
}

#[cfg(test)]
mod tests {
    use super::super::fixture;
    use super::*;
    use crate::counters::{Wait, WaitClass, WaitSource};
    use proptest::prelude::*;

    #[test]
    fn all_layers_end_where_the_database_stopped_reporting() {
        let whole = fixture::mixed_run();
        assert!(matches!(whole.counted(), Cow::Borrowed(_)));
        assert_eq!(whole.counted_until(), None);
        let mut run = whole.clone();
        run.summary.counted_until =
            Some(CountedUntil { second: 7.0, of_s: 60.02, db_time_s: 50.0, think_time_s: 0.0 });
        let cut = run.counted();
        let first = IntervalTotals::of(&whole.details.timeline[..7]);
        assert!(first.ops.total > 0 && first.ops.total < whole.summary.ops.total);
        assert_eq!((cut.summary.ops, cut.summary.rows), (first.ops, first.rows));
        assert_eq!(cut.details.device, first.device);
        assert_eq!(cut.summary.per_second.ops, Some(first.ops.total as f64 / 7.0));
        assert_eq!(run.counted_until().unwrap(), "until second 7 of 60");
        assert_eq!(cut.counted_until(), run.counted_until());
        run.summary.counted_until.as_mut().unwrap().of_s = 7.44;
        assert_eq!(run.counted_until().unwrap(), "until second 7 of 7.4");
    }

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
                counted_s: seconds,
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
            prop_assert_eq!(totals.counted_s, counts.len() as f64 * 0.5);
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
    fn io_latencies_are_the_events_that_the_engine_names() {
        let wait = |name, class, waits, time_ns| {
            let source = WaitSource::Timed;
            WaitRow::from(&Wait { source, ..Wait::counted(name, class, Some(waits), time_ns) })
        };
        let waits = vec![
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
        let sources: Vec<String> = IntervalTotals { waits, ..Default::default() }
            .io_latency(&events)
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
}
