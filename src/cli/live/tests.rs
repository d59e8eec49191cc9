//! The screen of a run and of a sweep, in terminals of several sizes.

use std::collections::HashSet;
use std::fs;
use std::path::Path;

use petal_engine::{Progress as _, ProgressUnit, Silent};
use petal_record::headline::Verdict;
use petal_record::sweep::{self, SweepCell};
use petal_record::{self as record, Finding, RecordFolder, Severity, Status, fixture};

use super::follow::{LiveState, tests::sweep_in};
use super::picture::{LiveView, ScreenRow, ScreenSize, Tone, draw, words};

use petal_run::noted_progress::NotedProgress;

const KEYS: &str = "q leave";

fn shown(state: &LiveState, messages: &[String], size: ScreenSize) -> Vec<ScreenRow> {
    let title = "petal run";
    draw(&LiveView { title, state: Some(state), phase: None, messages, keys: KEYS }, size)
}

fn text(rows: &[ScreenRow]) -> String {
    rows.iter().map(|row| format!("{}\n", row.text)).collect()
}

fn size(columns: usize, rows: usize, has_unicode: bool) -> ScreenSize {
    ScreenSize { columns, rows, has_unicode }
}

/// A run of 40 seconds that goes on, judged.
fn run(out: &Path) -> (RecordFolder, LiveState) {
    let began = time::OffsetDateTime::UNIX_EPOCH;
    let folder = RecordFolder::create(out, "sqlite-8x-u20", began).unwrap();
    fixture::killed_run(folder.path(), 40);
    let mut state = LiveState::open(folder.path()).unwrap();
    state.refresh().unwrap();
    if let LiveState::Run(run) = &mut state {
        run.judge();
    }
    (folder, state)
}

/// A sweep of six runs, of which four are done and one runs.
fn sweep(dir: &Path) -> (RecordFolder, LiveState) {
    let mut sweep = sweep_in(dir);
    let LiveState::Sweep(live) = LiveState::open(dir).unwrap() else { panic!() };
    for (at, cell) in live.next_cells().into_iter().enumerate() {
        let factors = sweep.plan.cells()[cell.number as usize - 1].clone();
        let name = sweep.plan.folder_name(cell.number, &factors, cell.repeat);
        let folder = sweep::begin_cell(&RecordFolder::open(dir), &name).unwrap();
        if at == 4 {
            fixture::killed_run(folder.path(), 10);
            return (folder, LiveState::open(dir).unwrap());
        }
        let mut run = fixture::mixed_run();
        run.summary.per_second.physical_read_requests = Some(4000.0 * f64::from(cell.number));
        record::save(&folder, &run).unwrap();
        sweep::finish_cell(&RecordFolder::open(dir), &name).unwrap();
        let (number, repeat, status) = (cell.number, cell.repeat, Status::Complete);
        sweep.cells.push(SweepCell { number, repeat, factors, folder: name, status });
        sweep::save(&RecordFolder::open(dir), &sweep).unwrap();
    }
    panic!("it has six runs")
}

#[test]
fn a_run_in_80_columns_and_24_rows() {
    let out = tempfile::tempdir().unwrap();
    let (_folder, state) = run(out.path());
    let text = text(&shown(&state, &["a note".to_owned()], size(80, 24, true)));
    assert!(
        text.starts_with("petal run 19700101T000000Z-sqlite-8x-u20: 40 s, 20 s left\n"),
        "{text}"
    );
    let needed = [
        "sqlite:petal-data: 8 sessions, UPDATE_PCT 20",
        "select, us: p50 ",
        "requests in flight at the device ",
        "processors busy, % ",
        "asked by petal, rows",
        "\nverdict after 40 s: ",
        "limited by: ",
        "\u{2588}",
    ];
    assert!(needed.iter().all(|words| text.contains(words)), "{text}");
    assert!(!text.contains("partial-record"), "a run that goes on is no whole record: {text}");
}

#[test]
fn conclusions_are_whole_or_counted() {
    let out = tempfile::tempdir().unwrap();
    let (_folder, mut state) = run(out.path());
    let LiveState::Run(live) = &mut state else { panic!() };
    let summary = &mut live.judged.as_mut().unwrap().summary;
    let words =
        "waiting for reads (63 % of DB time), by an experiment that slowed each of the layers";
    let headline = summary.headline.as_mut().unwrap();
    headline.limited_by.words = words.to_owned();
    headline.verdict =
        Verdict { words: "valid test of the device".to_owned(), ..Verdict::default() };
    let finding = Finding { severity: Severity::Warning, ..summary.findings[0].clone() };
    let message = |at| format!("{}the last word {at}", "one of many words, ".repeat(8));
    summary.findings = (0..4)
        .map(|at| Finding { id: format!("id{at}"), message: message(at), ..finding.clone() })
        .collect();
    let note = "a note of the run, with a next step that nobody should have to guess at all";
    for (columns, rows, whole) in [(60, 20, 0), (80, 24, 1), (100, 28, 3), (100, 60, 4)] {
        let drawn = shown(&state, &[note.to_owned()], size(columns, rows, true));
        let text = text(&drawn);
        assert_eq!(drawn.len(), rows, "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= columns), "{text}");
        assert!(!text.contains(".."), "nothing is cut: {text}");
        let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(flat.contains(words) && flat.contains(note), "{text}");
        let is_whole = |at: &usize| flat.contains(&format!("id{at}: {}", message(*at)));
        assert_eq!((0..4).filter(is_whole).count(), whole, "{columns}x{rows}: {text}");
        assert_eq!(flat.matches("one of many words").count(), whole * 8, "{text}");
        let more = match whole {
            0 => "4 findings in the report".to_owned(),
            3 => "1 more finding in the report".to_owned(),
            whole => format!("{} more findings in the report", 4 - whole),
        };
        assert_eq!(flat.contains(&more), whole < 4, "{text}");
    }
}

#[test]
fn a_figure_is_never_cut() {
    let out = tempfile::tempdir().unwrap();
    let (_folder, mut state) = run(out.path());
    let wide = text(&shown(&state, &[], size(200, 40, true)));
    let figures: HashSet<&str> = wide.split_whitespace().collect();
    let LiveState::Run(live) = &mut state else { panic!() };
    live.judged.as_mut().unwrap().summary.findings.clear();
    for columns in [45, 60, 70, 80, 100] {
        let narrow = text(&shown(&state, &[], size(columns, 20, true)));
        let is_figure = |word: &&str| word.starts_with(|letter: char| letter.is_ascii_digit());
        let cut = narrow.split_whitespace().filter(is_figure);
        let cut: Vec<&str> = cut.filter(|figure| !figures.contains(figure)).collect();
        assert_eq!(cut, [""; 0], "{columns} columns:\n{narrow}\n{wide}");
    }
}

#[test]
fn a_sweep_in_80_columns_and_24_rows_without_unicode() {
    let out = tempfile::tempdir().unwrap();
    let dir = out.path().join("sweep-sqlite");
    fs::create_dir(&dir).unwrap();
    let (_folder, state) = sweep(&dir);
    let text = text(&shown(&state, &[], size(80, 24, false)));
    assert!(text.starts_with("petal run sweep-sqlite: 4 of 6 runs done, about "), "{text}");
    let needed = ["now   sessions ", "round 2: 10 of 60 s\n", "next  sessions ", " PIOPS, "];
    assert!(needed.iter().all(|words| text.contains(words)), "{text}");
    assert_eq!(text.matches(" left").count(), 1, "one clock: {text}");
}

#[test]
fn a_sweep_whose_runs_are_done_names_no_time() {
    let out = tempfile::tempdir().unwrap();
    let dir = out.path().join("sweep-sqlite");
    fs::create_dir(&dir).unwrap();
    let (_folder, mut state) = sweep(&dir);
    let LiveState::Sweep(live) = &mut state else { panic!() };
    for cell in live.next_cells() {
        let mut done = live.swept.sweep.cells[0].clone();
        (done.number, done.repeat) = (cell.number, cell.repeat);
        live.swept.sweep.cells.push(done);
    }
    let text = text(&shown(&state, &[], size(80, 24, false)));
    assert!(!text.contains(" left"), "{text}");
    let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(flat.contains("runs done, the report is being written"), "{text}");
}

#[test]
fn each_line_of_a_sweep_is_named_in_80_columns_and_24_rows() {
    let out = tempfile::tempdir().unwrap();
    let dir = out.path().join("sweep-sqlite");
    fs::create_dir(&dir).unwrap();
    let (_folder, mut state) = sweep(&dir);
    let LiveState::Sweep(live) = &mut state else { panic!() };
    live.petals.lines = (0..3).flat_map(|_| live.petals.lines.clone()).collect();
    for (number, line) in live.petals.lines.iter_mut().enumerate() {
        line.name = format!("line {number}");
    }
    let text = text(&shown(&state, &[], size(80, 24, false)));
    let is_named = |name: &str| text.contains(&format!("{name}, PIOPS by sessions: 1: "));
    assert!(["a  line 0", "b  line 1", "c  line 2"].into_iter().all(is_named), "{text}");
    let LiveState::Sweep(live) = &mut state else { panic!() };
    live.petals.lines = (0..7).flat_map(|_| live.petals.lines.clone()).collect();
    let limit = "waiting for reads (63 % of DB time), by an experiment that slowed each layer";
    let (_, run) = live.cell.as_mut().unwrap();
    run.judge();
    let headline = run.judged.as_mut().unwrap().summary.headline.as_mut().unwrap();
    headline.limited_by.words = limit.to_owned();
    headline.verdict =
        Verdict { words: "valid test of the device".to_owned(), ..Verdict::default() };
    for (columns, rows) in [(60, 20), (80, 24), (100, 30)] {
        let text = self::text(&shown(&state, &[], size(columns, rows, true)));
        assert!(text.lines().all(|line| line.chars().count() <= columns), "{text}");
        let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(flat.contains(&format!("limited by: {limit}")), "{text}");
        assert!(text.contains("lines in the report\n"), "{text}");
    }
}

#[test]
fn every_size_is_filled_and_ends_with_the_keys() {
    let out = tempfile::tempdir().unwrap();
    let (_run, run) = run(&out.path().join("runs"));
    let dir = out.path().join("sweep");
    fs::create_dir(&dir).unwrap();
    let (_cell, sweep) = sweep(&dir);
    for state in [&run, &sweep] {
        for (columns, rows) in [(80, 24), (120, 40), (200, 60), (20, 5), (1, 1)] {
            for has_unicode in [true, false] {
                let size = size(columns, rows, has_unicode);
                let drawn = shown(state, &["a note".to_owned()], size);
                assert_eq!(drawn.len(), rows, "{size:?}");
                assert_eq!(drawn.last().unwrap().tone, Tone::Keys);
                let text = text(&drawn);
                let is_wide = |line: &str| line.chars().count() > columns.max(3);
                assert!(!text.lines().any(is_wide), "{size:?}:\n{text}");
                assert!(has_unicode || text.is_ascii(), "{text}");
                if columns >= 80 {
                    let needed = ["judged", "operations/s", "a note", "left"];
                    let text = text.replace("verdict", "judged");
                    assert!(needed.iter().all(|words| text.contains(words)), "{size:?}:\n{text}");
                }
            }
        }
    }
}

#[test]
fn names_with_control_characters_are_made_visible() {
    let out = tempfile::tempdir().unwrap();
    let (_folder, state) = run(&out.path().join("runs"));
    let messages = ["\x1b[2Jgone\x07".to_owned()];
    let text = text(&shown(&state, &messages, size(80, 24, true)));
    assert!(text.contains("\\u001b[2Jgone\\u0007"), "{text}");
    assert!(!text.contains('\x1b'));
}

#[test]
fn work_that_notes_its_progress_has_the_same_frame_until_it_ends() {
    let out = tempfile::tempdir().unwrap();
    let began = time::OffsetDateTime::UNIX_EPOCH;
    let folder = RecordFolder::create(out.path(), "calibrate", began).unwrap();
    let mut state = LiveState::open(folder.path()).unwrap();
    let noted = NotedProgress::new(&Silent, &folder);
    noted.phase("measuring", 30, ProgressUnit::Items);
    state.refresh().unwrap();
    let text = text(&shown(&state, &[], size(80, 24, true)));
    let frame = "petal run 19700101T000000Z-calibrate\n\nmeasuring: 0 of 30, -/s, starting\n";
    assert!(text.starts_with(frame), "{text}");
    drop(noted);
    state.refresh().unwrap();
    assert!(!state.is_over(), "its record is not written yet");
    drop(folder);
    state.refresh().unwrap();
    assert!(state.is_over());
}

#[test]
fn a_long_message_has_several_lines_on_a_page_and_loses_no_word() {
    let out = tempfile::tempdir().unwrap();
    let (_folder, state) = run(out.path());
    let messages = ["word ".repeat(60) + "last"];
    let view = LiveView {
        title: "petal run",
        state: Some(&state),
        phase: None,
        messages: &messages,
        keys: "",
    };
    let words = words(&view);
    assert_eq!(
        (words.matches("word ").count() + words.matches("word\n").count(), words.ends_with("last")),
        (60, true)
    );
    assert!(words.lines().all(|line| line.len() <= 112), "{words}");
}

#[test]
fn a_load_is_shown_with_its_progress() {
    let phase = Some("loading: 3 of 30, 3.0/min, 9 min 0 s left".to_owned());
    let view = LiveView { title: "petal setup", state: None, phase, messages: &[], keys: KEYS };
    let text = text(&draw(&view, size(80, 24, true)));
    assert!(
        text.starts_with("petal setup\n\nloading: 3 of 30, 3.0/min, 9 min 0 s left\n"),
        "{text}"
    );
}

#[test]
fn a_port_alone_is_of_this_host() {
    assert_eq!(super::address("9464"), Ok("127.0.0.1:9464".parse().unwrap()));
    assert_eq!(super::address("[::1]:1"), Ok("[::1]:1".parse().unwrap()));
    for text in ["", ":9464", "localhost:9464", "70000"] {
        assert!(super::address(text).is_err(), "{text}");
    }
}
