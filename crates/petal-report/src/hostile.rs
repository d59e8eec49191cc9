//! Texts that would do harm, in every place of a record that holds text, and every report searched
//! for them: a terminal's escapes, markup, a spreadsheet's formulas, forged lines.

use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::sweep::tests::swept;
use super::{awr, compare, write_all, write_calibration, write_sweep};
use petal_judge::compare as comparing;
use petal_record::calibration::Calibration;
use petal_record::sweep::{Axis, CellFailure, Swept};
use petal_record::{RecordFolder, Run, fixture, plain_csv};
use petal_settings::printable::printable;

pub(super) const HOSTILE: &str = "=cmd|' /C calc'!A0\u{1b}]0;x\u{7}\u{1b}[2J\u{9b}31m\u{202e}\r\nforged: line\
                                  </title><script>alert(1)</script><img src=x onerror=alert(2)>\"'`{{";

/// Puts it into every string of a value that is not one of the record's own names.
pub(super) fn poisoned<T: Serialize + DeserializeOwned>(value: &T) -> T {
    let mut value = serde_json::to_value(value).unwrap();
    poison(&mut value, "");
    serde_json::from_value(value).unwrap()
}

fn poison(value: &mut Value, key: &str) {
    // Names that the record itself parses; they are not texts.
    const OWN: [&str; 6] = ["status", "severity", "class", "source", "format", "origin"];
    match value {
        Value::String(text) if !OWN.contains(&key) => *text = HOSTILE.to_owned(),
        Value::Array(all) => all.iter_mut().for_each(|value| poison(value, key)),
        Value::Object(all) => {
            for (key, value) in all.iter_mut() {
                let is_own = OWN.contains(&key.as_str());
                if !is_own {
                    poison(value, key);
                }
            }
            let is_open =
                matches!(key, "settings" | "counters" | "evidence" | "errors" | "histograms");
            if is_open && let Some(first) = all.values().next().cloned() {
                all.insert(HOSTILE.to_owned(), first);
            }
        }
        _ => {}
    }
}

pub(super) fn run() -> Run {
    let mut run = fixture::mixed_run();
    run.summary.findings = petal_judge::judge(&run);
    poisoned(&run)
}

pub(super) fn sweep() -> Swept {
    let mut swept = swept();
    let hostile = || HOSTILE.to_owned();
    swept.runs = vec![run(); swept.sweep.cells.len()];
    swept.peak_run = Some(run());
    swept.sweep.failures.push(CellFailure { number: 1, repeat: 1, message: hostile() });
    swept.sweep.engine = hostile();
    swept.sweep.started_at = hostile();
    swept.sweep.petal_version = hostile();
    swept.sweep.plan.axes[0] = Axis { key: hostile(), values: vec![hostile()] };
    swept.sweep.cells.iter_mut().for_each(|cell| {
        cell.folder = format!("javascript:{HOSTILE}");
        cell.factors = vec![(hostile(), hostile()), ("sessions".to_owned(), "4".to_owned())];
    });
    swept
}

/// Asserts that nothing in it acts on a terminal.
#[track_caller]
fn assert_inert(text: &str, what: &str) {
    let acts = |letter: char| letter.is_control() && !matches!(letter, '\n' | '\t');
    assert!(!text.contains(|letter| acts(letter) || letter == '\u{202e}'), "{what}: {text}");
}

/// Asserts that nothing in it acts on a terminal or begins a separate line.
#[track_caller]
fn assert_plain(text: &str, what: &str) {
    assert_inert(text, what);
    assert!(!text.to_lowercase().lines().any(|line| line.starts_with("forged")), "{what}: {text}");
}

#[track_caller]
fn assert_no_formula(text: &str, what: &str) {
    assert_plain(text, what);
    let mut reader = ::csv::ReaderBuilder::new().has_headers(false).from_reader(text.as_bytes());
    for row in reader.records() {
        for cell in row.unwrap().iter().filter(|cell| cell.parse::<f64>().is_err()) {
            assert!(!cell.starts_with(['=', '+', '-', '@']), "{what}: {cell}");
        }
    }
}

#[track_caller]
fn assert_no_markup(text: &str, what: &str) {
    // A line feed in a page's text is a space.
    assert_inert(text, what);
    let own = usize::from(what.ends_with("html"));
    assert_eq!(text.matches("<script").count(), own, "{what}");
    assert!(!text.contains("<img") && !text.contains("href=\"javascript:"), "{what}");
}

/// Searches every file, and asserts that the poisoned text is in it at all.
fn search(paths: Vec<PathBuf>) {
    assert!(!paths.is_empty());
    for path in paths {
        let text = std::fs::read_to_string(&path).unwrap();
        let what = path.display().to_string();
        match path.extension().unwrap().to_str().unwrap() {
            "csv" => assert_no_formula(&text, &what),
            "html" | "svg" => assert_no_markup(&text, &what),
            _ => {
                assert_plain(&text, &what);
                assert!(text.contains("=cmd"), "{what}");
            }
        }
    }
}

fn in_folder(write: impl FnOnce(&RecordFolder) -> Vec<PathBuf>) {
    let dir = tempfile::tempdir().unwrap();
    search(write(&RecordFolder::open(dir.path())));
}

#[test]
fn texts_of_a_record_do_nothing_in_its_reports() {
    in_folder(|folder| write_all(folder, &run()).unwrap());
    // A run that was rebuilt from its seconds has other texts.
    let mut rebuilt = run();
    rebuilt.details.rebuilt = true;
    rebuilt.summary.findings = petal_judge::judge(&rebuilt);
    in_folder(|folder| write_all(folder, &rebuilt).unwrap());
    let json = super::json::summary(&run()).unwrap();
    assert_plain(&printable(&json), "json");
    assert_eq!(
        serde_json::from_str::<Value>(&printable(&json)).unwrap(),
        serde_json::from_str::<Value>(&json).unwrap()
    );
    let runs = [(HOSTILE, &run())];
    assert_plain(&printable(&super::sweep::of_runs(&runs)), "several runs");
}

#[test]
fn texts_of_a_sweep_do_nothing_in_its_reports() {
    let swept = sweep();
    in_folder(|folder| write_sweep(folder, &swept, None).unwrap());
    assert_plain(&printable(&super::json::sweep(&swept, None).unwrap()), "json");
}

#[test]
fn texts_of_a_calibration_do_nothing_in_its_reports() {
    let sample = fixture::calibration();
    let hostile: Calibration = poisoned(&sample);
    in_folder(|folder| write_calibration(folder, &hostile).unwrap());
}

#[test]
fn texts_of_a_comparison_do_nothing_in_it() {
    let table = "compression,update_pct,reads_s\noff,0,100\noff,0,101\non,0,90\non,0,91\n";
    let rows = plain_csv::parse(table, "t.csv", None).unwrap();
    let sides = comparing::ComparedSide::split("t.csv", rows, "compression", None).unwrap();
    let rules = comparing::Rules { metrics: Vec::new(), in_turn: false };
    let mut comparison = comparing::compare(&sides, &rules).unwrap();
    let hostile = || HOSTILE.to_owned();
    comparison.sides.iter_mut().for_each(|side| side.name = hostile());
    comparison.cells[0].factors = vec![(hostile(), hostile())];
    comparison.notes.push(hostile());
    assert_plain(&printable(&compare::render(&comparison, &[])), "text");
    assert_no_formula(&compare::csv(&comparison).unwrap(), "csv");
}

#[test]
fn texts_of_an_awr_report_do_nothing_in_what_is_made_of_it() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/awr/awr_19c.html");
    let page = std::fs::read_to_string(path).unwrap();
    let markup = HOSTILE.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    let mut read = 0;
    for word in ["TULIP", "tulip", "bed7.example.com", "db file sequential read", "19.0.0.0.0"] {
        assert!(page.contains(word), "{word}");
        let source = petal_awr::source::decode(page.replace(word, &markup).into_bytes());
        let Ok(mut report) = petal_awr::parse(HOSTILE, source) else { continue };
        read += 1;
        report.factors.push((HOSTILE.to_owned(), HOSTILE.to_owned()));
        report.notes.push(HOSTILE.to_owned());
        let reports = [report];
        assert_no_formula(&awr::csv::table(&reports).csv().unwrap(), "csv");
        for text in [
            awr::table::render(&reports, false),
            awr::info::render(&reports),
            awr::events::render(&reports),
            awr::explain::render(&reports),
            awr::json(&reports).unwrap(),
        ] {
            let shown = printable(&text);
            assert_plain(&shown, word);
            assert!(shown.contains("=cmd"), "{word}: {shown}");
        }
        assert!(awr::info::render(&reports).lines().all(|line| line.matches('|').count() == 18));
    }
    assert!(read >= 3, "{read}");
}
