//! The text for people has the figures of the record, and no others.

use super::*;
use crate::awr::to_record;
use petal_awr::parse;
use petal_awr::source::Source;
use petal_record::server_report::{ReportContent, ServerReport};

/// Builds a PERFSTAT interval of five minutes.
fn interval() -> DatabaseInterval {
    let pairs = |all: &[(&str, f64)]| all.iter().map(|(name, it)| ((*name).into(), *it)).collect();
    let waits = |waits, time_us| WaitSum { waits, time_us };
    let event = |event: &str, foreground, background| WaitDelta {
        event: event.into(),
        foreground,
        background,
    };
    let snapshot = |id: &str, time: &str| DatabaseSnapshot { id: id.into(), time: time.into() };
    DatabaseInterval {
        database: "IRIS".into(),
        database_id: "1200330044".into(),
        instance: "iris".into(),
        instance_number: "1".into(),
        host: "flowerbed".into(),
        release: "19.0.0.0.0".into(),
        cluster: "NO".into(),
        startup: "01-Jun-25 08:00:00".into(),
        begin: snapshot("101", "02-Jun-25 10:00:00"),
        end: snapshot("102", "02-Jun-25 10:05:00"),
        elapsed_s: 300.0,
        statistics: pairs(&[
            ("execute count", 444_000.0),
            ("physical read IO requests", 26_900_500.0),
            ("physical read bytes", 220_368_896_000.0),
            ("physical reads", 26_900_500.0),
            ("redo size", 153_703_680.0),
            ("redo synch writes", 97.0),
            ("session logical reads", 27_630_120.0),
            ("user commits", 6_000.0),
            ("user rollbacks", 0.0),
        ]),
        times_us: pairs(&[("DB CPU", 594e6), ("DB time", 9_570e6)]),
        os: pairs(&[("BUSY_TIME", 72_960.0), ("IDLE_TIME", 407_040.0), ("IOWAIT_TIME", 336_480.0)]),
        events: vec![
            event("db file sequential read", waits(26_899_900.0, 8_911.6e6), waits(220.0, 1e5)),
            event("log file sync", waits(5_990.0, 21.7e6), waits(0.0, 0.0)),
            event("db file parallel write", waits(0.0, 0.0), waits(120_300.0, 15.1e6)),
            event("log file parallel write", waits(0.0, 0.0), waits(6_020.0, 8.05e6)),
        ],
    }
}

fn read_back(interval: &DatabaseInterval) -> Report {
    let source = Source { text: text(interval), ..Source::default() };
    parse("statspack.txt", source).unwrap_or_else(|error| panic!("{error}\n{}", text(interval)))
}

#[test]
fn the_text_has_the_figures_of_the_record() {
    let interval = interval();
    assert_eq!(read_back(&interval), report("statspack.txt", &interval));
    // Without a host, without times, and with nothing that was waited for.
    let bare = DatabaseInterval {
        host: String::new(),
        events: Vec::new(),
        times_us: Default::default(),
        ..interval
    };
    assert_eq!(read_back(&bare), report("statspack.txt", &bare));
}

/// A sample for the tests of those who read reports.
#[test]
fn the_text_is_the_sample() {
    let made = text(&interval());
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write("../../tests/data/awr/sp_petal.txt", &made).unwrap();
    }
    let sample = include_str!("../../../../../tests/data/awr/sp_petal.txt");
    assert_eq!(made, sample, "UPDATE_DOCS=1 writes it anew");
}

/// Names longer than Statspack's columns, which a text would cut or shift.
#[test]
fn no_name_is_cut() {
    let mut interval = interval();
    let name = "a statistic whose name is longer than the sixty-four characters of its column";
    interval.statistics.insert(name.into(), 7.0);
    let statistic = report("statspack.txt", &interval).statistics.get(name).unwrap();
    assert_eq!(statistic.total.unwrap().number(), Some(7.0));
    assert_eq!(read_back(&interval), report("statspack.txt", &interval));
}

#[test]
fn a_run_gives_the_record_its_figures_without_their_text() {
    let content = ReportContent::Interval(Box::new(interval()));
    let of_run = [ServerReport { file: "statspack.txt".into(), content }];
    let text = text(&interval());
    let of_text = to_record::of_texts([("statspack.txt", text.as_str())].into_iter());
    assert_eq!(to_record::of_run(&of_run), of_text);
}
