use std::io::Cursor;

use calamine::{Data, Range, Reader, Xlsx};

use super::super::hostile::HOSTILE;
use super::super::sweep::tests::swept;
use super::*;
use petal_record::observation::metric;
use petal_record::sweep::Swept;
use petal_record::{Run, fixture};

fn read(workbook: Vec<u8>) -> Xlsx<Cursor<Vec<u8>>> {
    Xlsx::new(Cursor::new(workbook)).unwrap()
}

fn of_sweep(swept: &Swept) -> Xlsx<Cursor<Vec<u8>>> {
    let names = swept.sweep.cells.iter().map(|cell| cell.folder.as_str());
    let named: Vec<(&str, &Run)> = names.zip(&swept.runs).collect();
    let cells = super::super::sweep::csv::sweep(swept);
    read(runs(cells, &named, &swept.observations()).unwrap())
}

/// Returns the values of a column, below its name.
fn column(range: &Range<Data>, name: &str) -> Vec<Data> {
    let head = range.rows().next().unwrap();
    let at = head.iter().position(|cell| *cell == Data::String(name.to_owned())).unwrap();
    range.rows().skip(1).map(|row| row[at].clone()).collect()
}

/// Returns each part of the file whose name begins with `beginning`, as text.
fn parts(workbook: &[u8], beginning: &str) -> String {
    let mut zip = zip::ZipArchive::new(Cursor::new(workbook)).unwrap();
    let mut all = String::new();
    for at in 0..zip.len() {
        let mut part = zip.by_index(at).unwrap();
        if part.name().unwrap().starts_with(beginning) {
            std::io::Read::read_to_string(&mut part, &mut all).unwrap();
        }
    }
    all
}

#[test]
fn a_sweep_has_a_sheet_each_for_petals_cells_seconds_and_waits_with_numbers_as_numbers() {
    let swept = swept();
    let mut book = of_sweep(&swept);
    assert_eq!(book.sheet_names(), ["petals", "cells", "seconds", "waits"]);
    let cells = book.worksheet_range("cells").unwrap();
    for (seen, reported) in swept.observations().iter().zip(column(&cells, "folder")) {
        assert!(matches!(reported, Data::String(_)), "{reported:?}");
        let at = column(&cells, "folder").iter().position(|f| *f == seen.source.as_str()).unwrap();
        assert_eq!(column(&cells, "piops")[at], Data::Float(seen.metric(metric::PIOPS).unwrap()));
        // An unknown figure is an empty cell, never 0.
        let redo = seen.metric(metric::REDO_MB).map_or(Data::Empty, Data::Float);
        assert_eq!(column(&cells, "redo_mb_s")[at], redo);
    }
    let seconds = book.worksheet_range("seconds").unwrap();
    assert_eq!(column(&seconds, "ops").len(), 60 * swept.runs.len());
    let ops: f64 = column(&seconds, "ops")
        .iter()
        .filter_map(|cell| match cell {
            Data::Float(ops) => Some(*ops),
            _ => None,
        })
        .sum();
    let counted: u64 = swept.runs.iter().map(|run| run.summary.ops.total).sum();
    assert_eq!(ops, counted as f64);
    let petals = book.worksheet_range("petals").unwrap();
    assert_eq!(petals.height(), 1 + 6);
    assert_eq!(column(&petals, "sessions")[..3], [1.0, 4.0, 16.0].map(Data::Float));
}

#[test]
fn charts_draw_the_columns_that_they_name() {
    let run = fixture::mixed_run();
    let named = [("a", &run)];
    let cells = super::super::sweep::csv::runs(&named);
    let book = runs(cells, &named, &[]).unwrap();
    let drawn = parts(&book, "xl/charts/chart");
    assert_eq!(drawn.matches("<c:scatterChart>").count(), 3, "seconds");
    assert_eq!(drawn.matches("<c:barChart>").count(), 1, "waits");
    let mut read = read(book);
    let seconds = read.worksheet_range("seconds").unwrap();
    let ops = seconds.rows().next().unwrap().iter().position(|n| *n == "ops").unwrap();
    let letter = char::from(b'A' + ops as u8);
    assert!(drawn.contains(&format!("<c:f>seconds!${letter}$2:${letter}$61</c:f>")), "{drawn}");
}

#[test]
fn texts_are_texts_and_long_numbers_keep_their_digits() {
    let run = super::super::hostile::run();
    let named = [(HOSTILE, &run)];
    let cells = super::super::sweep::csv::runs(&named);
    let book = runs(cells, &named, &[]).unwrap();
    let text = parts(&book, "xl/");
    assert!(text.contains("=cmd") && !text.contains("<f>") && !text.contains("<script"));
    assert_eq!(number("9007199254740993"), None);
    assert_eq!(
        [number("12.5"), number("-3"), number("inf"), number("NaN")],
        [Some(12.5), Some(-3.0), None, None]
    );
}
