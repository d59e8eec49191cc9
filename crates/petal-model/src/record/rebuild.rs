//! A run that petal did not live to write, from its journal and its latency log: every figure is
//! that of the seconds that were journaled, and what they cannot tell is unknown.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::figures::{self, IntervalTotals};
use super::journal::{self, CountedSeconds, JournalLine};
use super::latency_log::{self, Intervals};
use super::{CountedUntil, RecordError, Run, Second, Status, Steady};
use crate::stats::os::DeviceCounts;
use crate::workload::op::Hot;

/// What only the end of a run tells.
const NOT_JOURNALED: &str = "percentiles of waits, I/O by kind of file, endpoints, hooks and the \
                             size of the data afterwards are not in a journal";

/// Why a run is known from its journal only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RebuiltBecause {
    /// Petal is at work on it.
    StillRunning,
    /// run.json is there and cannot be read.
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
    /// How it ended, or why that is not known.
    pub fn status_words(&self) -> &'static str {
        match self.details.rebuilt_because {
            Some(RebuiltBecause::StillRunning) => "still running",
            Some(RebuiltBecause::Damaged) => "not known",
            _ => self.summary.status.name(),
        }
    }
}

pub(super) fn from_folder(folder: &Path, because: RebuiltBecause) -> Result<Run, RecordError> {
    let read = journal::read(&folder.join(journal::NAME))?;
    let mut run = read.opening.run;
    run.summary.status = Status::Interrupted;
    run.details.rebuilt = true;
    run.details.rebuilt_because = Some(because);
    run.details.gaps.push(NOT_JOURNALED.to_owned());
    if read.torn {
        let line = read.seconds.len() + 2;
        run.details.gaps.push(format!(
            "line {line} of the journal is cut off or damaged: it and what follows are left out"
        ));
    }
    if let Some(why) = read.gap {
        run.details
            .gaps
            .push(format!("the journal is of no petal: {why}; the others are left out"));
    }
    super::os::rebuild(folder, &mut run);
    fill_totals(&mut run, read.seconds, read.last, read.counted);
    run.summary.sessions_lost = read.sessions_lost;
    let log = latency_log::read(&folder.join(latency_log::NAME));
    match &log {
        Ok(intervals) => fill_latencies(&mut run, intervals),
        Err(error) => {
            run.details.gaps.push(format!("no percentiles over the run: {error}"));
            fill_latencies_without_log(&mut run);
        }
    }
    fill_steady(&mut run, log.as_ref().ok());
    Ok(run)
}

/// Petal's figures are of all seconds, the database's of those at whose ends it reported its counters:
/// the short last stretch of a run has none of its own.
fn fill_totals(
    run: &mut Run,
    timeline: Vec<Second>,
    last: Option<JournalLine>,
    counted: Option<CountedSeconds>,
) {
    let totals = IntervalTotals::of(&timeline);
    let counted = counted.map(|counted| (&timeline[..counted.seconds], counted.line));
    let io = counted.as_ref().map_or(totals.io, |(seconds, _)| IntervalTotals::of(*seconds).io);
    let device = totals.device.or_else(|| watched_device(run));
    let (summary, details) = (&mut run.summary, &mut run.details);
    // From the trigger to the end of the last second, as elapsed_s is meant.
    summary.elapsed_s = timeline.last().map_or(0.0, end_s);
    summary.counted_until = counted
        .as_ref()
        .filter(|(seconds, _)| seconds.len() < timeline.len())
        .and_then(|(seconds, line)| Some(until(seconds.last()?, line, summary.elapsed_s)));
    if let Some(until) = summary.counted_until {
        details.gaps.push(format!(
            "the database's counters were not reported after second {:.0}, where its figures end",
            until.second
        ));
    }
    let counted_s = summary.counted_until.map_or(summary.elapsed_s, |until| until.second);
    let whole = IntervalTotals { seconds: summary.elapsed_s, device, ..totals };
    summary.per_second = whole.per_second().with_database_over(&io, counted_s);
    details.io = io;
    if let Some(last) = last {
        summary.errors = last.errors;
        summary.petal_cpu_s = last.petal_cpu_s;
        details.db_time_s = last.db_time_s;
        details.think_time_s = last.think_time_s;
        let (waits, counters) = match counted {
            Some((_, line)) => (line.waits, line.counters),
            None => (last.waits, last.counters),
        };
        summary.counters = counters;
        summary.waits = figures::wait_rows(&waits);
        summary.io_latency_us = figures::io_latencies(
            &details.target.io_events,
            &summary.waits,
            &details.wait_histograms,
        );
    }
    details.timeline = timeline;
    run.set_totals(&IntervalTotals { device, ..totals });
}

fn end_s(second: &Second) -> f64 {
    second.from_s + second.length_s
}

fn until(second: &Second, line: &JournalLine, of_s: f64) -> CountedUntil {
    let (db_time_s, think_time_s) = (line.db_time_s, line.think_time_s);
    CountedUntil { second: end_s(second), of_s, db_time_s, think_time_s }
}

/// What the device did over the whole run, where the operating system was watched to its end.
fn watched_device(run: &Run) -> Option<DeviceCounts> {
    let seen = run.details.os.as_ref().filter(|seen| seen.whole.intervals > 0)?;
    seen.whole.sum.device()
}

fn fill_latencies(run: &mut Run, intervals: &Intervals) {
    if intervals.torn {
        run.details.gaps.push("the latency log's last line was cut off and is left out".to_owned());
    }
    let merged = intervals.merged(0.0, run.summary.elapsed_s);
    run.details.op_latency_us = figures::all_operations(&merged);
    run.details.op_response_us = figures::all_responses(&merged);
    for (tag, latencies) in merged {
        run.details.histograms.insert(tag.clone(), latencies.bars());
        let summaries = match is_hot(&tag) {
            true => &mut run.summary.hot_latency_us,
            false => &mut run.summary.latency_us,
        };
        summaries.insert(tag, latencies.summary());
    }
}

fn is_hot(tag: &str) -> bool {
    Hot::ALL.iter().any(|hot| hot.name() == tag)
}

fn fill_latencies_without_log(run: &mut Run) {
    let timeline = &run.details.timeline;
    let kinds: std::collections::BTreeSet<&String> =
        timeline.iter().flat_map(|second| second.latency_us.keys()).collect();
    for kind in kinds {
        if let Some(latency) = figures::latency_without_percentiles(timeline, kind) {
            run.summary.latency_us.insert(kind.clone(), latency);
        }
    }
}

fn fill_steady(run: &mut Run, intervals: Option<&Intervals>) {
    let lost = u32::try_from(run.summary.sessions_lost.len()).unwrap_or(u32::MAX);
    let surviving = run.summary.sessions.saturating_sub(lost);
    let warm_up_s = run.summary.setting_number("warm_up").unwrap_or(0.0);
    let window = figures::steady_window(&run.details.timeline, surviving, warm_up_s);
    run.summary.steady = window.map(|(from_s, to_s)| {
        let seconds = figures::seconds_within(&run.details.timeline, from_s, to_s);
        let merged = intervals.map(|intervals| intervals.merged(from_s, to_s)).unwrap_or_default();
        let merged = merged.into_iter().filter(|(tag, _)| !is_hot(tag));
        Steady {
            from_s,
            to_s,
            per_second: IntervalTotals::of(seconds).per_second(),
            latency_us: merged.map(|(kind, latencies)| (kind, latencies.summary())).collect(),
            ..Steady::default()
        }
    });
}
