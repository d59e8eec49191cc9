//! Every report with texts that would do harm.

use serde_json::Value;

use super::*;
use crate::sweep::tests::swept;
use crate::{compare, write_all, write_sweep};
use petal_judge::compare as comparing;
use petal_record::sweep::{Axis, CellFailure, Swept};
use petal_record::{RecordFolder, Run, fixture, plain_csv};
use petal_settings::printable::printable;

pub(crate) fn run() -> Run {
    let mut run = fixture::mixed_run();
    run.summary.findings = petal_judge::judge(&run);
    poisoned(&run)
}

pub(crate) fn sweep() -> Swept {
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
    let json = crate::json::summary(&run()).unwrap();
    assert_plain(&printable(&json), "json");
    assert_eq!(
        serde_json::from_str::<Value>(&printable(&json)).unwrap(),
        serde_json::from_str::<Value>(&json).unwrap()
    );
    let runs = [(HOSTILE, &run())];
    assert_plain(&printable(&crate::sweep::of_runs(&runs)), "several runs");
}

#[test]
fn texts_of_a_sweep_do_nothing_in_its_reports() {
    let swept = sweep();
    in_folder(|folder| write_sweep(folder, &swept, None).unwrap());
    assert_plain(&printable(&crate::json::sweep(&swept, None).unwrap()), "json");
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
