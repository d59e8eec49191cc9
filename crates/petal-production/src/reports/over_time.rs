//! Reports of a database as moments in time, with the figures that are followed.

use std::collections::BTreeSet;

use crate::moments::{OverTime, ReportMoment, Series};
use crate::reports::{identity, time_parts};
use crate::rise::{self, Rise};
use petal_awr::columns;
use petal_awr::derived::begin_iso;
use petal_awr::figure::{number, shown};
use petal_awr::report::{Report, ReportKind};
use petal_judge::estimate::median;
use petal_record::profile::parse_time;

/// Columns that are followed.
const FOLLOWED: [&str; 19] = [
    "aas",
    "cpu_idle_pct",
    "transactions_per_s",
    "executes_per_s",
    "parses_per_s",
    "hard_parses_per_s",
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
/// Counters that together are the load.
const LOAD: [&str; 5] = [
    "transactions_per_s",
    "user_calls_per_s",
    "executes_per_s",
    "block_changes_per_s",
    "redo_bytes_per_s",
];
/// The load of a report in which the work nearly stopped, as a share of the lowest of all others.
const STOPPED: f64 = 0.25;
/// Other reports that it needs.
const STOPPED_OTHERS_MIN: usize = 6;
/// A report as many times as long as most is of the same time as others.
const LONG: f64 = 1.5;

/// Reports of one instance over time.
pub struct ReportsOverTime {
    pub name: String,
    pub found: OverTime,
    /// Rises of named totals: active sessions at their load, then with it, and busy processors.
    pub rises: Vec<(&'static str, Rise)>,
    /// The report in which the work nearly stopped, and its load: 1 is typical.
    pub stopped: Option<(usize, f64)>,
    pub notes: Vec<String>,
}

/// Groups reports by instance, in the order in which instances first appear.
pub fn of(reports: &[Report]) -> Vec<ReportsOverTime> {
    let groups = identity::groups(reports);
    groups.into_iter().map(|(name, own)| judge_instance(name, own)).collect()
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
    notes.extend(several_snapshots(&kept));
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
    let moments: Vec<ReportMoment> = kept
        .iter()
        .map(|report| ReportMoment { begin: begin(report), source: report.file.clone() })
        .collect();
    let values = |name: &str| {
        let column = columns::column(name)?;
        let values = kept.iter().map(|report| (column.value)(report)?.number()).collect();
        Some((column.name, column.unit, values))
    };
    let load = LOAD.iter().filter_map(|name| values(name));
    let load: Vec<Vec<Option<f64>>> = load.map(|(_, _, values)| values).collect();
    let loads = rise::loads(kept.len(), &load);
    let mut series: Vec<Series> = FOLLOWED.iter().filter_map(|name| values(name)).collect();
    let per_transaction = kept.iter().map(|report| per_transaction_us(report)).collect();
    series.push(("db_time_per_transaction_us", "us", per_transaction));
    let rises = rises(&moments, &kept, &loads);
    let stopped = stopped(&loads);
    ReportsOverTime { name, found: OverTime::of(moments, series, &loads), rises, stopped, notes }
}

fn per_transaction_us(report: &Report) -> Option<f64> {
    let of = |name| columns::value(report, name);
    Some(of("aas")? / of("transactions_per_s").filter(|it| *it > 0.0)? * 1e6)
}

fn stopped(loads: &[f64]) -> Option<(usize, f64)> {
    let mut sorted: Vec<(usize, f64)> = loads.iter().copied().enumerate().collect();
    sorted.sort_by(|one, two| one.1.total_cmp(&two.1));
    let (lowest, others) = sorted.split_first()?;
    let is_stopped = others.first().is_some_and(|next| lowest.1 < STOPPED * next.1);
    (others.len() >= STOPPED_OTHERS_MIN && is_stopped).then_some(*lowest)
}

/// Names reports over several snapshots. AWR counts them one by one; Statspack's numbers may have gaps.
fn several_snapshots(reports: &[&Report]) -> Option<String> {
    let is_over_several = |report: &&&Report| {
        let snapshots = number(&report.header.begin_snap).zip(number(&report.header.end_snap));
        snapshots.is_some_and(|(begin, end)| end - begin > 1.0)
    };
    let over_several: Vec<&&Report> = reports.iter().filter(is_over_several).collect();
    let first = over_several.first()?;
    let (is, are) = if first.kind == ReportKind::Sp { ("may be", "may be") } else { ("is", "are") };
    let which = match over_several.len() {
        1 => format!("{} {is}", first.file),
        all => format!("{} and {} more {are}", first.file, all - 1),
    };
    Some(format!("{which} over several snapshots: a short rise is averaged away"))
}

fn rises(
    moments: &[ReportMoment],
    reports: &[&Report],
    loads: &[f64],
) -> Vec<(&'static str, Rise)> {
    let (sessions, host) = (time_parts::sessions(reports), time_parts::host(reports));
    let is_explained = |rise: &Rise| !rise.shares.is_empty();
    let level = vec![1.0; loads.len()];
    let of_work = rise::largest(moments, &level, &time_parts::work(&sessions, loads));
    let found = [
        ("active sessions", rise::largest(moments, loads, &sessions)),
        ("active sessions", of_work.filter(is_explained)),
        ("busy processors", rise::largest(moments, loads, &host)),
    ];
    found.into_iter().filter_map(|(what, rise)| Some((what, rise?))).collect()
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
        let ReportsOverTime { found, rises, notes, .. } = &all[0];
        assert_eq!((found.moments.len(), rises.len()), (10, 0));
        assert_eq!(found.moments[4].source, "day 4");
        let out = found.standing_out(4);
        assert_eq!(out.iter().map(|it| it.0.name).collect::<Vec<_>>(), ["redo_bytes_per_s"]);
        assert!(notes[0].contains("twice is left out"), "{notes:?}");
    }

    #[test]
    fn a_rise_is_explained_by_its_events_and_classes() {
        let mut reports = reports();
        let odd = reports.iter_mut().find(|report| report.file == "day 4").unwrap();
        let figure = |value| petal_awr::figure::Figure::computed(value, 0.0, String::new());
        let mut lock = odd.foreground_events[0].clone();
        "enq: TX - row lock contention".clone_into(&mut lock.name);
        lock.time_s = figure(3000.0);
        odd.foreground_events.push(lock);
        odd.wait_classes.push(petal_awr::report::ReportWaitClass {
            name: "Application".to_owned(),
            time_s: figure(3000.0),
            ..Default::default()
        });
        odd.header.db_time_min = figure(209.5);
        let found = &of(&reports)[0];
        let [(what, rise)] = &found.rises[..] else { panic!("{:?}", found.rises) };
        assert_eq!((*what, rise.at), ("active sessions", 4));
        assert!((rise.value - rise.usual - 10.0).abs() < 0.01, "{rise:?}");
        let [share] = &rise.shares[..] else { panic!("{rise:?}") };
        assert_eq!((share.name.as_str(), share.more()), ("enq: TX - row lock contention", 10.0));
        assert_eq!(rise.classes[0].name, "Application");
        // Ten times the work, and as much of the sessions' time.
        let mut reports = self::reports();
        let odd = reports.iter_mut().find(|report| report.file == "day 4").unwrap();
        odd.header.db_time_min = figure(1595.0);
        let load = &mut odd.load_profile;
        let lines = [&mut load.transactions, &mut load.user_calls, &mut load.executes];
        for line in lines.into_iter().chain([&mut load.block_changes, &mut load.redo_bytes]) {
            line.per_second = line.per_second.take().and_then(|figure| figure.scaled(10.0));
        }
        let found = &of(&reports)[0];
        let [(_, rise)] = &found.rises[..] else { panic!("{:?}", found.rises) };
        assert_eq!((rise.at, rise.shares[0].name.as_str()), (4, "more work"));
    }

    #[test]
    fn work_that_nearly_stops_is_named() {
        let loads = |least: f64| [0.4, 1.0, 1.2, 0.9, least, 1.0, 1.1];
        assert_eq!(stopped(&loads(0.02)), Some((4, 0.02)));
        assert_eq!(stopped(&loads(0.3)), None, "a quiet night");
        assert_eq!(stopped(&loads(0.02)[..6]), None, "too few");
    }

    #[test]
    fn reports_over_several_snapshots_are_noted() {
        let mut reports: Vec<Report> =
            (0..3).map(|_| petal_awr::samples::sample("awr_12c.txt")).collect();
        let figure = |value| petal_awr::figure::Figure::computed(value, 0.0, String::new());
        let notes = |reports: &[Report]| of(reports).remove(0).notes.join("; ");
        for (at, report) in reports.iter_mut().enumerate() {
            report.file = format!("file {at}");
            (report.header.begin_snap, report.header.end_snap) =
                (figure(at as f64), figure(at as f64 + 1.0));
        }
        assert_eq!(notes(&reports), "");
        reports[1].header.end_snap = figure(3.0);
        assert!(
            notes(&reports).starts_with("file 1 is over several snapshots"),
            "{}",
            notes(&reports)
        );
        reports[2].header.end_snap = figure(9.0);
        assert!(notes(&reports).starts_with("file 1 and 1 more are over"), "{}", notes(&reports));
        reports.iter_mut().for_each(|report| report.kind = ReportKind::Sp);
        let gaps = "file 1 and 1 more may be over several snapshots";
        assert!(notes(&reports).starts_with(gaps), "Statspack's numbers have gaps");
    }
}
