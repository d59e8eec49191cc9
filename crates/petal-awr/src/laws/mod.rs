//! Laws of a report: its parts add up. A figure that breaks one is unknown, and a note names both
//! sides. The table of [`LAWS`] is also the one in docs/awr.md.

pub mod checks;
mod find;
mod forms;

use std::collections::BTreeMap;
use std::sync::Arc;

use super::events;
use super::figure::Figure;
use super::law;
use super::report::{LoadLine, LoadProfile, Report};

use checks::{Checks, Doubtful};

/// Notes on broken laws in one report.
const NOTES_MAX: usize = 12;

/// A law, as docs/awr.md states it.
pub struct Law {
    pub name: &'static str,
    pub says: &'static str,
    /// Figures that are unknown if it is broken.
    pub costs: &'static str,
    find: for<'r> fn(&'r Report, &mut Checks<'r>),
}

pub const LAWS: [Law; 17] = [
    Law {
        name: "files",
        says: "files of a tablespace add up to it",
        costs: "reads, writes, buffer waits of both",
        find: find::files,
    },
    Law {
        name: "totals",
        says: "functions and file types add up to their TOTAL; read and write to both",
        costs: "the figure of all rows",
        find: find::totals,
    },
    Law {
        name: "shares",
        says: "shares of a histogram add up to 100",
        costs: "its ranges and percentiles",
        find: find::shares,
    },
    Law {
        name: "mean",
        says: "the mean of an event lies within its histogram's ranges, or in the next one",
        costs: "its ranges and percentiles",
        find: find::mean,
    },
    Law {
        name: "product",
        says: "waits x average = time",
        costs: "waits, time and average",
        find: find::products,
    },
    Law {
        name: "lists",
        says: "an event, or a statistic, is the same in each list",
        costs: "the figure in both lists",
        find: find::lists,
    },
    Law {
        name: "percent",
        says: "percentages of a list are shares of one total, of DB time if it is known",
        costs: "the figure and its percentage",
        find: find::percentages,
    },
    Law {
        name: "class",
        says: "top events of a class need at most the time of the class; a list falls",
        costs: "the times",
        find: find::classes,
    },
    Law {
        name: "captured",
        says: "wait classes add up to the captured wait time",
        costs: "the time of all classes",
        find: find::captured,
    },
    Law {
        name: "per-second",
        says: "per second x elapsed = total",
        costs: "the rate, the total or both",
        find: find::per_second,
    },
    Law {
        name: "per-transaction",
        says: "per transaction x transactions = total",
        costs: "the same",
        find: find::per_transaction,
    },
    Law {
        name: "load",
        says: "Load Profile and IO Profile agree with Instance Activity Stats",
        costs: "the rate, the total or both",
        find: find::loads,
    },
    Law {
        name: "db-time",
        says: "DB time of header, Load Profile and time model agree",
        costs: "the one that differs, or all",
        find: find::db_time,
    },
    Law {
        name: "request",
        says: "bytes / requests is 512 bytes to 16 MiB",
        costs: "bytes and requests",
        find: find::requests,
    },
    Law {
        name: "elapsed",
        says: "end - begin = elapsed, also over a change of the clock",
        costs: "times and elapsed",
        find: find::elapsed,
    },
    Law {
        name: "processors",
        says: "percentages of Host CPU agree with the operating system's times",
        costs: "percentage and times",
        find: find::processors,
    },
    Law {
        name: "instances",
        says: "instances of a cluster add up to it",
        costs: "the rate of all",
        find: find::instances,
    },
];

/// Returns all checks of a report, each with its law's name and whether it holds; for tests and
/// measurements.
pub fn checked(report: &Report) -> Vec<(&'static str, bool)> {
    checks(report).all.iter().map(|check| (check.law, check.holds())).collect()
}

fn checks(report: &Report) -> Checks<'_> {
    let mut checks = Checks::default();
    // After a restart, rates and totals are of different times.
    for law in LAWS.iter().filter(|_| !report.spans_restart) {
        checks.law = law.name;
        (law.find)(report, &mut checks);
    }
    checks
}

/// Makes figures that break a law unknown, and notes both sides.
pub fn apply(report: &mut Report) {
    forms::apply(report);
    let found = checks(report);
    let doubts = law::doubts(&found.all);
    if doubts.is_empty() {
        return;
    }
    let mut by_check: BTreeMap<usize, Vec<Doubtful>> = BTreeMap::new();
    doubts.iter().for_each(|(figure, at)| by_check.entry(*at).or_default().push(*figure));
    let mut notes: Vec<String> =
        by_check.iter().map(|(at, figures)| found.note(*at, figures)).collect();
    let more = notes.len().saturating_sub(NOTES_MAX);
    if more > 0 {
        notes.truncate(NOTES_MAX);
        notes.push(format!("{more} more of its figures break a law and are unknown"));
    }
    for figure in fields(report) {
        if doubts.contains_key(&Doubtful::field(figure)) {
            *figure = None;
        }
    }
    for figure in doubts.keys() {
        match *figure {
            Doubtful::Field(_) => {}
            Doubtful::Statistic(row, column) => {
                Arc::make_mut(&mut report.statistics).forget(row, column);
            }
            Doubtful::Histogram(at) | Doubtful::Ranges(at) => {
                if let Some(histogram) = report.histograms.get_mut(at) {
                    histogram.buckets.clear();
                }
            }
        }
    }
    let lists =
        [&mut report.top_events, &mut report.foreground_events, &mut report.background_events];
    lists.into_iter().flatten().for_each(events::average);
    report.notes.extend(notes);
}

/// Figures that laws may forget.
fn fields(report: &mut Report) -> Vec<&mut Option<Figure>> {
    let Report { header, io_profile, time_model, cpu, instances, .. } = report;
    let mut all = vec![
        &mut header.begin_time,
        &mut header.end_time,
        &mut header.elapsed_min,
        &mut header.db_time_min,
        &mut time_model.db_time_s,
        &mut time_model.db_cpu_s,
        &mut cpu.idle_pct,
        &mut cpu.user_pct,
        &mut cpu.system_pct,
        &mut cpu.busy_s,
        &mut cpu.idle_s,
    ];
    all.extend(
        io_profile
            .lines_mut()
            .into_iter()
            .flat_map(|line| [&mut line.both, &mut line.read, &mut line.write]),
    );
    all.extend(loads_mut(&mut report.load_profile));
    for instance in instances {
        all.extend(loads_mut(&mut instance.load_profile));
        all.extend(instance.wait_classes.iter_mut().map(|class| &mut class.time_s));
    }
    let lists =
        [&mut report.top_events, &mut report.foreground_events, &mut report.background_events];
    all.extend(lists.into_iter().flatten().flat_map(|it| {
        let share = [&mut it.pct_db_time, &mut it.waits_per_transaction];
        [&mut it.waits, &mut it.time_s, &mut it.reported_avg_us].into_iter().chain(share)
    }));
    let classes = report.wait_classes.iter_mut();
    all.extend(classes.flat_map(|it| [&mut it.waits, &mut it.time_s, &mut it.pct_db_time]));
    all.extend(report.tablespaces.iter_mut().chain(&mut report.files).flat_map(|it| {
        let rates = [&mut it.reads_per_s, &mut it.writes_per_s];
        [&mut it.reads, &mut it.writes, &mut it.buffer_waits].into_iter().chain(rates)
    }));
    all.extend(report.io_functions.iter_mut().chain(&mut report.io_file_types).flat_map(|it| {
        let rates = [&mut it.read_requests_per_s, &mut it.write_requests_per_s];
        [&mut it.read_bytes, &mut it.write_bytes, &mut it.waits].into_iter().chain(rates)
    }));
    let reads = report.sql_by_reads.iter_mut();
    all.extend(reads.flat_map(|it| [&mut it.physical_reads, &mut it.pct_total]));
    let reads = report.segments_by_reads.iter_mut();
    all.extend(reads.flat_map(|it| [&mut it.physical_reads, &mut it.pct_total]));
    all
}

fn loads_mut(profile: &mut LoadProfile) -> impl Iterator<Item = &mut Option<Figure>> {
    let lines = profile.lines_mut().into_iter();
    lines.flat_map(|LoadLine { per_second, per_transaction }| [per_second, per_transaction])
}

#[cfg(test)]
mod tests;
