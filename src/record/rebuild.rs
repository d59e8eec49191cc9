//! A run that petal did not live to write, from its journal and its latency log: every figure is
//! that of the seconds that were journaled, and what they cannot tell is unknown.

use std::path::Path;

use super::figures::{self, Totals};
use super::journal;
use super::latency_log::{self, Intervals};
use super::{RecordError, Run, Second, Status, Steady};
use crate::stats::histogram::Latencies;
use crate::workload::op::{Hot, Kind};

/// What only the end of a run tells.
const NOT_JOURNALED: &str = "percentiles of waits, I/O by kind of file, endpoints, hooks and the \
                             size of the data afterwards are not in a journal";

pub(super) fn from_folder(folder: &Path) -> Result<Run, RecordError> {
    let read = journal::read(&folder.join(journal::NAME))?;
    let mut run = read.opening.run;
    run.summary.status = Status::Interrupted;
    run.details.rebuilt = true;
    run.details.gaps.push(NOT_JOURNALED.to_owned());
    if read.torn {
        run.details.gaps.push("the journal's last line was cut off and is left out".to_owned());
    }
    fill_totals(&mut run, read.seconds, read.last);
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
    super::os::rebuild(folder, &mut run);
    Ok(run)
}

fn fill_totals(run: &mut Run, timeline: Vec<Second>, last: Option<journal::Line>) {
    let totals = Totals::of(&timeline);
    let summary = &mut run.summary;
    // From the trigger to the end of the last second, as elapsed_s is meant.
    summary.elapsed_s = timeline.last().map_or(0.0, |last| last.from_s + last.length_s);
    summary.ops = totals.ops;
    summary.rows = totals.rows;
    summary.rows_asked = totals.rows_asked;
    summary.cpu = totals.cpu;
    summary.per_second = super::PerSecond::over(
        totals.ops.total,
        totals.rows.total(),
        totals.ops.update,
        &totals.io,
        totals.device.as_ref(),
        summary.elapsed_s,
    );
    run.details.io = totals.io;
    run.details.device = totals.device;
    if let Some(last) = last {
        summary.waits = figures::wait_rows(&last.waits);
        summary.io_latency_us = figures::io_latencies(
            &run.details.target.io_events,
            &summary.waits,
            &run.details.wait_histograms,
        );
        summary.counters = last.counters;
        summary.errors = last.errors;
        summary.petal_cpu_s = last.petal_cpu_s;
        run.details.db_time_s = last.db_time_s;
        run.details.think_time_s = last.think_time_s;
    }
    run.details.timeline = timeline;
}

fn fill_latencies(run: &mut Run, intervals: &Intervals) {
    if intervals.torn {
        run.details.gaps.push("the latency log's last line was cut off and is left out".to_owned());
    }
    let merged = intervals.merged(0.0, run.summary.elapsed_s);
    let mut all = Latencies::new();
    // Response times are the same operations again, from another start.
    let service = Kind::ALL.iter().filter_map(|kind| merged.get(kind.name()));
    service.for_each(|latencies| all.add(latencies));
    run.details.op_latency_us = (all.count() > 0).then(|| all.summary());
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
            per_second: Totals::of(seconds).per_second(),
            latency_us: merged.map(|(kind, latencies)| (kind, latencies.summary())).collect(),
        }
    });
}
