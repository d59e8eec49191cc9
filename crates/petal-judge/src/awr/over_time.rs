//! Reports of a database as moments in time, with the figures that are followed.

use std::collections::BTreeSet;

use crate::by_key;
use crate::estimate::median;
use crate::over_time::{OverTime, ReportMoment, Series};
use petal_awr::columns;
use petal_awr::derived::begin_iso;
use petal_awr::figure::{number, shown};
use petal_awr::report::Report;
use petal_model::record::profile::parse_time;

/// Columns that are followed.
const FOLLOWED: [&str; 16] = [
    "aas",
    "cpu_idle_pct",
    "transactions_per_s",
    "logical_reads_per_s",
    "read_requests_per_s",
    "write_requests_per_s",
    "read_bytes_per_s",
    "write_bytes_per_s",
    "redo_bytes_per_s",
    "read_us",
    "scattered_read_us",
    "direct_read_us",
    "write_us",
    "log_write_us",
    "log_sync_us",
    "log_switches_per_h",
];
/// A report as many times as long as most is of the same time as others.
const LONG: f64 = 1.5;

/// Reports of one instance over time.
pub struct ReportsOverTime {
    pub name: String,
    pub found: OverTime,
    pub notes: Vec<String>,
}

/// Groups reports by instance, in the order in which instances first appear.
pub fn of(reports: &[Report]) -> Vec<ReportsOverTime> {
    let by_name = by_key(reports.iter().map(|report| (name(report), report)));
    by_name.into_iter().map(|(name, own)| judge_instance(name, own)).collect()
}

fn name(report: &Report) -> String {
    let header = &report.header;
    let parts = [shown(&header.db), shown(&header.instance)];
    let mut parts: Vec<String> = parts.into_iter().flatten().collect();
    parts.dedup();
    if parts.is_empty() { "no name".to_owned() } else { parts.join(" ") }
}

fn judge_instance(name: String, reports: Vec<&Report>) -> ReportsOverTime {
    let mut notes = Vec::new();
    let minutes: Vec<f64> =
        reports.iter().filter_map(|report| number(&report.header.elapsed_min)).collect();
    let usual = median(&minutes).unwrap_or(f64::INFINITY);
    let mut seen = BTreeSet::new();
    let mut kept: Vec<&Report> = Vec::new();
    for report in reports {
        let header = &report.header;
        let snapshots = (shown(&header.begin_snap), shown(&header.end_snap));
        let why = if report.spans_restart {
            Some("it spans a restart")
        } else if number(&header.elapsed_min).is_some_and(|minutes| minutes > LONG * usual) {
            Some("it is longer than the others, and may hold their time")
        } else if snapshots.0.is_some() && !seen.insert(snapshots) {
            Some("another report is of the same snapshots")
        } else {
            None
        };
        match why {
            Some(why) => notes.push(format!("{} is left out: {why}", report.file)),
            None => kept.push(report),
        }
    }
    let begin = |report: &Report| parse_time(&begin_iso(report)?.shown());
    if kept.iter().all(|report| begin(report).is_some()) {
        kept.sort_by_key(|report| begin(report));
    } else {
        let snapshot = |report: &Report| number(&report.header.begin_snap).unwrap_or(f64::MAX);
        kept.sort_by(|one, two| snapshot(one).total_cmp(&snapshot(two)));
        notes.push(
            "some reports have no date that petal reads: all are in the order of their snapshots, and \
             compared without regard to hours"
                .to_owned(),
        );
    }
    let moments = kept
        .iter()
        .map(|report| ReportMoment { begin: begin(report), source: report.file.clone() })
        .collect();
    let series = |name: &&str| -> Option<Series> {
        let column = columns::column(name)?;
        let values = kept.iter().map(|report| (column.value)(report)?.number()).collect();
        Some((column.name, column.unit, values))
    };
    let found = OverTime::of(moments, FOLLOWED.iter().filter_map(series).collect());
    ReportsOverTime { name, found, notes }
}

#[cfg(test)]
mod tests {
    use super::*;
    use petal_awr::samples::{of_text, sample_text};

    /// Ten days of the sample, an hour each day.
    fn reports() -> Vec<Report> {
        let text = sample_text("sp_11g.txt");
        let day = |day: usize| {
            let text = text.replace("02-Jun-15", &format!("{:02}-Jun-15", day + 2));
            let mut report = of_text(&text).unwrap();
            report.file = format!("day {day}");
            report.header.begin_snap.as_mut().unwrap().as_printed = Some(day.to_string());
            report
        };
        (0..10).rev().map(day).collect()
    }

    #[test]
    fn the_odd_day_is_named_and_doubles_are_left_out() {
        let mut reports = reports();
        let odd = reports.iter().position(|report| report.file == "day 4").unwrap();
        let mut twice = reports[odd].clone();
        twice.file = "twice".to_owned();
        let redo = &mut reports[odd].load_profile.redo_bytes.per_second;
        *redo = redo.take().and_then(|figure| figure.scaled(4.0));
        reports.push(twice);
        let all = of(&reports);
        assert_eq!(all.len(), 1);
        let ReportsOverTime { found, notes, .. } = &all[0];
        assert_eq!(found.moments.len(), 10);
        assert_eq!(found.moments[found.worst.unwrap()].source, "day 4");
        let out = found.standing_out(found.worst.unwrap());
        assert_eq!(out.iter().map(|it| it.0.name).collect::<Vec<_>>(), ["redo_bytes_per_s"]);
        assert!(notes[0].contains("twice is left out"), "{notes:?}");
    }
}
