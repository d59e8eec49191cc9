//! The steady window: what was counted in it, and the run reduced to it. Every headline, every
//! sweep's cell and every comparison is of this window; where it is not known, of the whole run,
//! which is then said.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::figures::{self, IntervalTotals};
use super::os::HostSeen;
use super::{FileIo, Ops, Rows, Run, WaitHistogram, WaitRow, journal, latency_log};
use crate::stats::counters::IoCounts;
use crate::stats::histogram::LatencySummary;
use crate::stats::os::{CpuShare, DeviceCounts, Whole};

/// What was counted in the steady window.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct WindowTotals {
    /// Seconds between the samples of the database's counters at its bounds.
    pub counted_s: f64,
    pub ops: Ops,
    pub rows: Rows,
    /// None in records made before petal kept it.
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
    /// With RATE the same from when they were due.
    pub op_response_us: Option<LatencySummary>,
    pub waits: Vec<WaitRow>,
    /// By the event's name; in the record of a share alone, for the merge of all.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub wait_histograms: BTreeMap<String, WaitHistogram>,
    pub counters: BTreeMap<String, u64>,
    pub files: Vec<FileIo>,
    /// By the endpoint's name.
    pub endpoints: BTreeMap<String, IoCounts>,
}

/// The time that figures are of.
#[derive(Debug, Clone, PartialEq)]
pub enum Window {
    /// All surviving sessions ran, the warm-up excluded.
    Steady { from_s: f64, to_s: f64 },
    /// The whole run, and why it is not the steady window.
    Whole { elapsed_s: f64, why: &'static str },
    /// From the trigger to where the database stopped telling: `until second 7 of 10`.
    Until(String),
}

/// The run as headlines, cells and comparisons show it.
#[derive(Debug)]
pub struct Headline<'a> {
    pub run: Cow<'a, Run>,
    pub window: Window,
}

impl fmt::Display for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Steady { from_s, to_s } => write!(f, "steady window {from_s:.1}-{to_s:.1} s"),
            Self::Whole { elapsed_s, why } => write!(f, "whole run {elapsed_s:.1} s ({why})"),
            Self::Until(until) => write!(f, "{until}"),
        }
    }
}

impl Window {
    /// Why it is not the steady window; None where it is.
    pub fn why(&self) -> Option<&str> {
        match self {
            Self::Steady { .. } => None,
            Self::Whole { why, .. } => Some(why),
            Self::Until(until) => Some(until),
        }
    }
}

impl Run {
    /// The run reduced to its steady window; where that is not known, the whole run, as far as the
    /// database reported its figures.
    pub fn headline(&self) -> Headline<'_> {
        if let Some((run, window)) = self.in_steady_window() {
            return Headline { run: Cow::Owned(run), window };
        }
        let why = match self.summary.steady {
            None => "no steady window",
            Some(_) => "the steady window's counters are not known",
        };
        let whole = Window::Whole { elapsed_s: self.summary.elapsed_s, why };
        Headline { run: self.counted(), window: self.counted_until().map_or(whole, Window::Until) }
    }

    fn in_steady_window(&self) -> Option<(Self, Window)> {
        let steady = self.summary.steady.as_ref()?;
        let totals = self.details.steady.as_ref().filter(|totals| totals.counted_s > 0.0)?;
        // What the run knows and the window does not would be missing in every figure made of it.
        let mut both = self.details.io.each().into_iter().zip(totals.io.each());
        if !both.all(|(whole, window)| whole.is_none() || window.is_some()) {
            return None;
        }
        let mut run = self.clone();
        let summary = &mut run.summary;
        summary.elapsed_s = totals.counted_s;
        summary.counted_until = None;
        (summary.ops, summary.rows) = (totals.ops, totals.rows);
        summary.rows_asked = totals.rows_asked;
        summary.per_second = steady.per_second;
        summary.latency_us.clone_from(&steady.latency_us);
        summary.io_latency_us.clone_from(&steady.io_latency_us);
        summary.waits.clone_from(&totals.waits);
        summary.counters.clone_from(&totals.counters);
        (summary.cpu, summary.petal_cpu_s) = (totals.cpu, totals.petal_cpu_s);
        for endpoint in &mut summary.endpoints {
            endpoint.io = totals.endpoints.get(&endpoint.endpoint).copied().unwrap_or_default();
        }
        let details = &mut run.details;
        (details.io, details.device) = (totals.io, totals.device);
        details.op_latency_us.clone_from(&totals.op_latency_us);
        details.op_response_us.clone_from(&totals.op_response_us);
        details.files.clone_from(&totals.files);
        (details.db_time_s, details.think_time_s) = (totals.db_time_s, totals.think_time_s);
        for seen in [&mut details.os, &mut details.server_os].into_iter().flatten() {
            reduce(seen, steady.from_s, steady.to_s);
        }
        Some((run, Window::Steady { from_s: steady.from_s, to_s: steady.to_s }))
    }
}

/// A host's sums over the seconds from `from_s` to `to_s`. Without these seconds what was counted
/// there is unknown.
fn reduce(seen: &mut HostSeen, from_s: f64, to_s: f64) {
    const SLACK_S: f64 = 0.1;
    let mut window = Whole::default();
    for second in &seen.seconds {
        let end_s = second.from_s + second.interval.seconds;
        if second.from_s > from_s - SLACK_S && end_s < to_s + SLACK_S {
            window.add(&second.interval);
        }
    }
    let missing_s = (to_s - from_s) - window.sum.seconds;
    if window.intervals == 0 || missing_s.abs() > 2.0 * SLACK_S {
        seen.whole.sum.counts = Default::default();
        return;
    }
    // Single processors are not kept by the second.
    window.sum.cpus.each.clone_from(&seen.whole.sum.cpus.each);
    window.sum.busiest_cpu = seen.whole.sum.busiest_cpu;
    seen.whole = window;
}

/// Fills in the window's totals of a record that lacks them, from its timeline and its journal. A
/// folder without a journal leaves them unknown.
pub(super) fn rebuild(folder: &Path, run: &mut Run) {
    if run.details.steady.is_some() {
        return;
    }
    let Some(bounds) = run.summary.steady.as_ref().map(|steady| (steady.from_s, steady.to_s))
    else {
        return;
    };
    let Ok(Some(between)) = journal::between(&folder.join(journal::NAME), bounds) else { return };
    let (from_s, to_s) = bounds;
    let totals = IntervalTotals::of(figures::seconds_within(&run.details.timeline, from_s, to_s));
    let waits = figures::wait_rows(&between.waits);
    if let Some(steady) = &mut run.summary.steady {
        let events = &run.details.target.io_events;
        steady.io_latency_us = figures::io_latencies(events, &waits, &BTreeMap::new());
    }
    let log = latency_log::read(&folder.join(latency_log::NAME)).ok();
    let latencies = log.map(|log| log.merged(from_s, to_s)).unwrap_or_default();
    run.details.steady = Some(WindowTotals {
        counted_s: to_s - from_s,
        ops: totals.ops,
        rows: totals.rows,
        rows_asked: totals.rows_asked,
        io: totals.io,
        device: totals.device,
        cpu: totals.cpu,
        petal_cpu_s: between.petal_cpu_s,
        db_time_s: between.db_time_s,
        think_time_s: between.think_time_s,
        op_latency_us: figures::all_operations(&latencies),
        op_response_us: figures::all_responses(&latencies),
        waits,
        counters: between.counters,
        ..WindowTotals::default()
    });
}

#[cfg(test)]
mod tests {
    use super::super::{CountedUntil, fixture, load};
    use super::*;

    #[test]
    fn a_headline_is_of_the_steady_window() {
        let run = fixture::windowed_run();
        let Headline { run: shown, window } = run.headline();
        assert_eq!(window.to_string(), "steady window 5.0-60.0 s");
        let steady = run.summary.steady.as_ref().unwrap();
        assert_ne!(steady.per_second, run.summary.per_second);
        assert_eq!(shown.summary.per_second, steady.per_second);
        assert_eq!(shown.summary.io_latency_us, steady.io_latency_us);
        assert_eq!(shown.summary.latency_us, steady.latency_us);
        let totals = IntervalTotals::of(figures::seconds_within(&run.details.timeline, 5.0, 60.0));
        assert_eq!((shown.details.io, shown.summary.ops), (totals.io, totals.ops));
        assert_eq!(shown.summary.endpoints[0].io, totals.io);
        assert_eq!(shown.summary.elapsed_s, 55.0);
        // What is reported of the operating system is of the same seconds.
        let whole = |run: &Run| run.details.os.as_ref().unwrap().whole.sum.seconds;
        assert!((whole(&run) - 60.0).abs() < 0.5 && (whole(&shown) - 55.0).abs() < 0.5);
    }

    #[test]
    fn without_the_windows_counters_it_is_of_the_whole_run() {
        let mut run = fixture::windowed_run();
        // What the run knows, the window does not.
        run.details.steady.as_mut().unwrap().io.redo_bytes = None;
        let headline = run.headline();
        assert_eq!(headline.run.summary.per_second, run.summary.per_second);
        assert_eq!(
            headline.window.to_string(),
            "whole run 60.0 s (the steady window's counters are not known)"
        );
        run.summary.steady = None;
        assert_eq!(run.headline().window.to_string(), "whole run 60.0 s (no steady window)");
        run.summary.counted_until =
            Some(CountedUntil { second: 7.0, of_s: 60.0, db_time_s: 50.0, think_time_s: 0.0 });
        assert_eq!(run.headline().window.to_string(), "until second 7 of 60");
        assert_eq!(run.headline().run.summary.elapsed_s, 7.0);
    }

    #[test]
    fn an_old_record_gets_its_window_from_timeline_and_journal() {
        let dir = tempfile::tempdir().unwrap();
        fixture::killed_run(dir.path(), 9);
        let run = load(dir.path()).unwrap();
        let headline = run.headline();
        let steady = run.summary.steady.as_ref().unwrap();
        assert_eq!(headline.window, Window::Steady { from_s: 5.0, to_s: steady.to_s });
        let read = &headline.run.summary.io_latency_us["read"];
        let whole = &run.summary.io_latency_us["read"];
        assert!(read.count > 0 && read.count < whole.count, "{read:?} {whole:?}");
        let reads = headline.run.details.io.physical_read_requests;
        assert_eq!(Some(read.count), reads, "waits and counters are of the same seconds");
        let (window, all) = (headline.run.details.db_time_s, run.details.db_time_s);
        assert!(window > 0.0 && window < all);
        // Without its journal the waits of the window are not known.
        let records = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/records");
        let old = load(&records.join("petal-run-1")).unwrap();
        assert!(old.summary.steady.is_some());
        assert!(matches!(old.headline().window, Window::Whole { .. }));
    }
}
