//! The record of a run that petal could not finish, from its seconds and its latency log: every
//! figure covers these seconds, and a figure that is not in them is unknown.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::facts::FactsProof;
use super::figures;
use super::latency_log;
use super::load::MakeRows;
use super::os::{self, SecondSeen};
use super::seconds::{self, CountedSeconds, Opening, SecondsLine};
use super::{CountedUntil, IntervalTotals, LayerSeconds, RecordError, Run, Second, Status, Steady};
use petal_host::histogram::LatencySummary;
use petal_host::os::DeviceCounts;

/// Figures that are only known at the end of a run.
const NOT_EACH_SECOND: &str = "percentiles of waits, I/O by kind of file, endpoints, hooks and the \
                               size of the data afterwards are not in the seconds";

/// Reason why a run is known only from its seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RebuiltBecause {
    /// Petal is still running it.
    StillRunning,
    /// run.json exists and cannot be read.
    Damaged,
    /// There is no run.json: petal was killed before it was written, or it is lost.
    NotWritten,
}

impl RebuiltBecause {
    /// A clause such as `the run goes on`.
    pub fn words(self) -> &'static str {
        match self {
            Self::StillRunning => "the run goes on",
            Self::Damaged => "run.json is damaged",
            Self::NotWritten => "petal was killed, or its run.json is lost",
        }
    }
}

impl Run {
    /// True for a run that goes on: rules judge it by its planned length, and nothing is missing yet.
    pub fn is_still_running(&self) -> bool {
        self.details.rebuilt_because == Some(RebuiltBecause::StillRunning)
    }

    /// Status of the run, or the reason why it is unknown.
    pub fn status_words(&self) -> &'static str {
        match self.details.rebuilt_because {
            Some(RebuiltBecause::StillRunning) => "still running",
            Some(RebuiltBecause::Damaged) => "not known",
            _ => self.summary.status.name(),
        }
    }
}

pub(super) fn from_folder(
    folder: &Path,
    because: RebuiltBecause,
    rows: MakeRows,
) -> Result<Run, RecordError> {
    let warm_up = |opening: &Opening| opening.run.summary.setting_number("warm_up");
    let begin = |opening: &Opening| rows(warm_up(opening).into_iter().collect());
    let read = seconds::read(&folder.join(seconds::NAME), begin)?;
    let mut run = *read.opening.run;
    run.summary.status = Status::Interrupted;
    run.details.rebuilt = true;
    run.details.rebuilt_because = Some(because);
    run.details.gaps.push(NOT_EACH_SECOND.to_owned());
    if read.torn {
        let line = read.seconds + 2;
        run.details.gaps.push(format!(
            "line {line} of the seconds is cut off or damaged: it and all later lines are left out"
        ));
    }
    if let Some(why) = read.gap {
        run.details
            .gaps
            .push(format!("the seconds are of no petal: {why}; the others are left out"));
    }
    if let Some(seen) = &mut run.details.os {
        let mut whole = read.os;
        let end_s = read.os_rows.last().map_or(0.0, SecondSeen::end_s);
        whole.sum.set_times(os::times_within(&read.os_rows, 0.0, end_s));
        whole.settle(seen.allowed_cpus.as_deref());
        (seen.whole, seen.seconds) = (whole, read.os_rows.into());
    }
    run.summary.sessions_lost = read.sessions_lost;
    if !read.changes.is_empty() {
        run.details.keep_facts(FactsProof { changes: read.changes, ..FactsProof::default() });
    }
    // From the trigger to the end of the last second.
    run.summary.elapsed_s = read.rows.last().map_or(0.0, Second::end_s);
    let log = folder.join(latency_log::NAME);
    let logged = latency_log::merged(&log, (0.0, run.summary.elapsed_s));
    if matches!(logged, Ok((_, true))) {
        run.details.gaps.push("the latency log's last line was cut off and is left out".to_owned());
    }
    let latencies = logged.as_ref().map(|(latencies, _)| latencies.clone()).unwrap_or_default();
    run.set_latencies(&latencies);
    let totals = IntervalTotals::of(&read.rows).with_latencies(&latencies);
    fill_totals(&mut run, totals, read.rows, read.last, read.counted);
    if let Err(error) = &logged {
        run.details.gaps.push(format!("no percentiles over the run: {error}"));
    }
    count_all_latencies(&mut run);
    fill_steady(&mut run, &folder.join(seconds::NAME), &log);
    Ok(run)
}

/// Sets the totals. Petal's figures cover all seconds, the database's the seconds at whose ends it
/// reported its counters: the short last interval of a run has no counters.
fn fill_totals(
    run: &mut Run,
    mut totals: IntervalTotals,
    timeline: Vec<Second>,
    last: Option<SecondsLine>,
    counted: Option<CountedSeconds>,
) {
    let of_s = run.summary.elapsed_s;
    totals.device = totals.device.or_else(|| watched_device(run));
    let last = last.unwrap_or_default();
    let mut over = LayerSeconds::all(of_s);
    totals.waits = figures::wait_rows(&last.waits);
    totals.counters = last.counters;
    (totals.db_time_s, totals.think_time_s) = (last.db_time_s, last.think_time_s);
    totals.petal_cpu_s = last.petal_cpu_s;
    if let Some(CountedSeconds { rows, line }) = counted {
        totals.io = IntervalTotals::of(&timeline[..rows]).io;
        totals.waits = figures::wait_rows(&line.waits);
        totals.counters = line.counters;
        if let Some(second) =
            timeline[..rows].last().map(Second::end_s).filter(|_| rows < timeline.len())
        {
            over.database = second;
            let (db_time_s, think_time_s) = (line.db_time_s, line.think_time_s);
            run.summary.counted_until =
                Some(CountedUntil { second, of_s, db_time_s, think_time_s });
            run.details.gaps.push(format!(
                "the database's counters were not reported after second {second:.0}, where its \
                 figures end"
            ));
        }
    }
    run.summary.errors = last.errors;
    let rates = totals.rates(over);
    run.set(totals, rates);
    run.details.timeline = timeline.into();
}

/// Takes counts, means and maxima of latencies from the seconds: the end of the run may be in no
/// histogram.
fn count_all_latencies(run: &mut Run) {
    let mut exact: BTreeMap<&str, LatencySummary> = BTreeMap::new();
    for (kind, latency) in run.details.timeline.iter().flat_map(|second| second.latency_us.iter()) {
        let sum = exact.entry(kind).or_default();
        *sum = sum.plus_without_percentiles(latency);
    }
    for (kind, LatencySummary { count, mean, max, .. }) in exact {
        let logged = run.summary.latency_us.entry(kind.to_owned()).or_default();
        let missing = count.saturating_sub(logged.count);
        if missing > 0 && logged.count > 0 {
            run.details.gaps.push(format!(
                "percentiles of {kind} are those of {} operations: the last {missing} are in no histogram",
                logged.count
            ));
        }
        if missing > 0 {
            *logged = LatencySummary { count, mean, max, ..*logged };
        }
    }
}

/// The device's counts over the whole run, if the operating system was watched to its end.
fn watched_device(run: &Run) -> Option<DeviceCounts> {
    let seen = run.details.os.as_ref().filter(|seen| seen.whole.intervals > 0)?;
    seen.whole.sum.device()
}

fn fill_steady(run: &mut Run, kept: &Path, log: &Path) {
    let lost = u32::try_from(run.summary.sessions_lost.len()).unwrap_or(u32::MAX);
    let surviving = run.summary.sessions.saturating_sub(lost);
    let warm_up_s = run.summary.setting_number("warm_up").unwrap_or(0.0);
    let timeline = &run.details.timeline;
    let Some((from_s, to_s)) = figures::steady_window(timeline, surviving, warm_up_s) else {
        return;
    };
    let seconds = IntervalTotals::of(figures::seconds_within(timeline, from_s, to_s));
    let logged = latency_log::merged(log, (from_s, to_s));
    let latencies = logged.map(|(latencies, _)| latencies).unwrap_or_default();
    let per_second = seconds.per_second();
    let steady = Steady { per_second, ..Steady::of((from_s, to_s), &latencies) };
    let steady = run.summary.steady.insert(steady);
    // Without the counters at its bounds the window's totals are unknown.
    let Ok(Some(between)) = seconds::between(kept, (from_s, to_s)) else { return };
    let totals = IntervalTotals {
        counted_s: to_s - from_s,
        io: seconds.io,
        ..between.with_timeline(&seconds).with_latencies(&latencies)
    };
    steady.io_latency_us = totals.io_latency(&run.details.target.io_events);
    run.details.steady = Some(totals);
}
