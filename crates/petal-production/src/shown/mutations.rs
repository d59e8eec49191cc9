//! Damaged reports: after any damage to a sample, reading and showing it ends, panics nowhere, and
//! prints no number that is not in the file.

use std::time::{Duration, Instant};

use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;

use super::{csv, events, explain, info, table};
use petal_awr::figure::Figure;
use petal_awr::report::{Format, LoadLine, Report};
use petal_awr::samples::{SAMPLES, log_line};
use petal_awr::{AwrError, parse, source};

/// A kind of damage to a file. Places are shares of its length.
#[derive(Debug, Clone)]
enum Damage {
    Cut(f64),
    CutBefore(f64),
    DropLines(f64, usize),
    RepeatLines(f64, usize),
    SwapBytes(f64, f64),
    Byte(f64, u8),
    Insert(f64, &'static str),
    /// Another sample from there on.
    Splice(f64, usize, f64),
    LineEnds(&'static str),
}

const INSERTED: [&str; 22] = [
    "<td>",
    "</table>",
    "<TABLE><tr><td>",
    "</tr>",
    "<th colspan=99999999>",
    "<style>",
    "<!--",
    "<table border=0 summary=\"This table displays load profile\">",
    "&#160;",
    "&#xFFFFFFF;",
    "\n",
    "\n\n",
    "\r",
    "\t",
    "\x0c",
    "\0",
    "é\u{3000}—",
    "\nOUTPUT\n",
    "-- ---",
    "\n----- ----- -----\n",
    "\n~~~~~~~\n",
    "######",
];

fn damage() -> impl Strategy<Value = Damage> {
    let at = 0.0..1.0f64;
    prop_oneof![
        at.clone().prop_map(Damage::Cut),
        at.clone().prop_map(Damage::CutBefore),
        (at.clone(), 1..40usize).prop_map(|(at, count)| Damage::DropLines(at, count)),
        (at.clone(), 1..40usize).prop_map(|(at, count)| Damage::RepeatLines(at, count)),
        (at.clone(), at.clone()).prop_map(|(one, other)| Damage::SwapBytes(one, other)),
        (at.clone(), any::<u8>()).prop_map(|(at, byte)| Damage::Byte(at, byte)),
        (at.clone(), proptest::sample::select(&INSERTED[..]))
            .prop_map(|(at, text)| Damage::Insert(at, text)),
        (at.clone(), 0..SAMPLES.len(), at.clone())
            .prop_map(|(at, sample, from)| Damage::Splice(at, sample, from)),
        proptest::sample::select(&["\r\n", "\r", "\n\r", "\r\r\n"][..]).prop_map(Damage::LineEnds),
    ]
}

fn damaged() -> impl Strategy<Value = Vec<u8>> {
    (0..SAMPLES.len(), proptest::collection::vec(damage(), 1..12)).prop_map(|(sample, damages)| {
        let mut bytes = SAMPLES[sample].1.as_bytes().to_vec();
        damages.iter().for_each(|damage| apply(damage, &mut bytes));
        bytes
    })
}

fn apply(damage: &Damage, bytes: &mut Vec<u8>) {
    if bytes.is_empty() {
        return;
    }
    let place = |at: f64, length: usize| ((at * length as f64) as usize).min(length - 1);
    let lines = |bytes: &[u8], at: f64, count: usize| {
        let from = place(at, bytes.len());
        let ends = bytes[from..].iter().enumerate().filter(|(_, byte)| **byte == b'\n');
        let to = ends.map(|(at, _)| from + at + 1).nth(count).unwrap_or(bytes.len());
        from..to
    };
    match *damage {
        Damage::Cut(at) => bytes.truncate(place(at, bytes.len())),
        Damage::CutBefore(at) => drop(bytes.drain(..place(at, bytes.len()))),
        Damage::DropLines(at, count) => drop(bytes.drain(lines(bytes, at, count))),
        Damage::RepeatLines(at, count) => {
            let range = lines(bytes, at, count);
            let copy = bytes[range.clone()].to_vec();
            bytes.splice(range.end..range.end, copy);
        }
        Damage::SwapBytes(one, other) => {
            let (one, other) = (place(one, bytes.len()), place(other, bytes.len()));
            bytes.swap(one, other);
        }
        Damage::Byte(at, byte) => {
            let at = place(at, bytes.len());
            bytes[at] = byte;
        }
        Damage::Insert(at, text) => {
            let at = place(at, bytes.len());
            bytes.splice(at..at, text.bytes());
        }
        Damage::Splice(at, sample, from) => {
            bytes.truncate(place(at, bytes.len()));
            let other = SAMPLES[sample].1.as_bytes();
            bytes.extend_from_slice(&other[place(from, other.len())..]);
        }
        Damage::LineEnds(end) => {
            let text = bytes.split(|&byte| byte == b'\n').collect::<Vec<_>>();
            *bytes = text.join(end.as_bytes());
        }
    }
}

/// Reads the damaged file, and shows it; fails only by a fault of petal's own.
fn holds(bytes: &[u8]) -> Result<(), String> {
    let source = source::decode(bytes.to_vec());
    let text = source.text.clone();
    match parse("damaged", source) {
        Err(AwrError::Internal { message, .. }) => Err(message),
        Err(_) => Ok(()),
        Ok(report) => {
            serde_json::to_string(&report).map_err(|error| error.to_string())?;
            let reports = std::slice::from_ref(&report);
            table::render(reports, false);
            explain::render(reports);
            info::render(reports);
            events::render(reports);
            csv::table(reports).csv().map_err(|error| error.to_string())?;
            if report.format == Format::Text { is_in(&text, &report) } else { Ok(()) }
        }
    }
}

/// Asserts that numbers are whole words of the text.
fn is_in(text: &str, report: &Report) -> Result<(), String> {
    for figure in figures(report) {
        let Some(printed) = &figure.as_printed else { continue };
        let Some(number) = figure.number() else { continue };
        let printed = printed.trim_end_matches(" (k)");
        let is_part =
            |c: Option<char>| c.is_some_and(|c| c.is_ascii_digit() || matches!(c, '.' | ',' | '#'));
        let is_whole = text.match_indices(printed).any(|(at, _)| {
            let before = text[..at].chars().next_back();
            let after = text[at + printed.len()..].chars().next();
            !is_part(before) && !is_part(after)
        });
        if !is_whole {
            return Err(format!("{printed:?} ({number}) of {} is no word there", figure.section));
        }
    }
    Ok(())
}

fn figures(report: &Report) -> Vec<Figure> {
    let header = &report.header;
    let profile = &report.load_profile;
    let loads: [&LoadLine; 8] = [
        &profile.db_time,
        &profile.redo_bytes,
        &profile.logical_reads,
        &profile.physical_reads,
        &profile.physical_writes,
        &profile.user_calls,
        &profile.executes,
        &profile.transactions,
    ];
    let mut all: Vec<&Option<Figure>> =
        vec![&header.begin_snap, &header.elapsed_min, &header.db_time_min, &header.cpus];
    all.extend(loads.iter().flat_map(|load| [&load.per_second, &load.per_transaction]));
    let lists = [&report.top_events, &report.foreground_events, &report.background_events];
    all.extend(lists.into_iter().flatten().flat_map(|event| [&event.waits, &event.time_s]));
    let io = report.tablespaces.iter().chain(&report.files);
    all.extend(io.flat_map(|row| [&row.reads, &row.writes, &row.read_ms]));
    let statistics = report.statistics.iter().map(|(_, statistic)| statistic);
    let statistics = statistics.flat_map(|it| [it.total, it.per_second, it.per_transaction]);
    all.into_iter().cloned().chain(statistics).flatten().collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn damaged_reports_are_read_as_far_as_they_go(bytes in damaged()) {
        prop_assert_eq!(holds(&bytes), Ok(()));
    }

    #[test]
    fn any_bytes_end(bytes in proptest::collection::vec(any::<u8>(), 0..2000)) {
        prop_assert_eq!(holds(&bytes), Ok(()));
    }
}

/// `PETAL_FUZZ_S=3600 cargo test --release --lib awr -- --ignored fuzz --nocapture`: the same test
/// for that many seconds. A file that fails is written next to the sample, and named.
#[test]
#[ignore = "runs as long as PETAL_FUZZ_S says"]
fn fuzz() {
    let seconds = std::env::var("PETAL_FUZZ_S").ok().and_then(|text| text.parse().ok());
    let begun = Instant::now();
    let limit = Duration::from_secs(seconds.unwrap_or(60));
    let (mut count, mut slowest) = (0u64, Duration::ZERO);
    let mut runner = TestRunner::default();
    let strategy = damaged();
    while begun.elapsed() < limit {
        let bytes = strategy.new_tree(&mut runner).unwrap().current();
        let at = Instant::now();
        if let Err(error) = holds(&bytes) {
            let path = std::env::temp_dir().join("petal-awr-fuzz.txt");
            std::fs::write(&path, &bytes).unwrap();
            panic!("{error}: {}", path.display());
        }
        slowest = slowest.max(at.elapsed());
        count += 1;
    }
    let taken = begun.elapsed();
    log_line(&format!("{count} damaged reports in {taken:?}, the slowest in {slowest:?}"));
}

#[test]
fn hostile_files_end_and_stay_small() {
    let deep = format!("<html><body>{}", "<table><tr><td>".repeat(200_000));
    let unclosed =
        format!("<h1>WORKLOAD REPOSITORY report for</h1><table>{}", "<tr><td>1".repeat(300_000));
    let wide = format!(
        "<h3>Foreground Wait Events</h3><table><tr>{}</table>",
        "<th colspan=64>x".repeat(20_000)
    );
    let dashes = format!(
        "STATSPACK report for\nTop 5 Timed Events\n~~~\n{}",
        "-- -- --\nEvent\n".repeat(100_000)
    );
    let one_line = format!("STATSPACK report for {}", "x ".repeat(2_000_000));
    let rule = format!(
        "STATSPACK report for\nTop 5 Timed Events\n~~~~\nEvent Waits\n{}\n{}",
        "- ".repeat(50_000),
        "9 ".repeat(50_000)
    );
    let same = format!("{}{}", SAMPLES[1].1, "Instance Activity Stats  DB/Inst: I/i  Snaps: 1-2\n\nStatistic                                      Total     per Second    per Trans\n--------------------------------- ------------------ -------------- ------------\nsame                                               1            1.0          1.0\n".repeat(20_000));
    for text in [deep, unclosed, wide, dashes, one_line, rule, same] {
        assert_eq!(holds(text.as_bytes()), Ok(()), "{}", &text[..80]);
    }
}
