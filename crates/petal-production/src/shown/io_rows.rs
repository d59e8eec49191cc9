//! CSV of I/O by tablespace, file, function and file type: a row for each of a report's.

use petal_awr::figure::Figure;
use petal_awr::report::{IoFunction, IoRow, Report};

use super::csv::plain;
use petal_report::exact_rows::ExactRows;

/// A figure of a row, by the name of its column.
type IoColumn<R> = (&'static str, fn(&R) -> &Option<Figure>);

/// Tablespaces and files.
pub fn tablespaces(reports: &[Report]) -> Result<String, csv::Error> {
    const FIGURES: [IoColumn<IoRow>; 12] = [
        ("pdb", |row| &row.pdb),
        ("reads", |row| &row.reads),
        ("reads_per_s", |row| &row.reads_per_s),
        ("read_ms", |row| &row.read_ms),
        ("blocks_per_read", |row| &row.blocks_per_read),
        ("single_block_reads_per_s", |row| &row.single_block_reads_per_s),
        ("single_block_read_ms", |row| &row.single_block_read_ms),
        ("writes", |row| &row.writes),
        ("writes_per_s", |row| &row.writes_per_s),
        ("write_ms", |row| &row.write_ms),
        ("buffer_waits", |row| &row.buffer_waits),
        ("buffer_wait_ms", |row| &row.buffer_wait_ms),
    ];
    let of = |report: &Report, section: &str, rows: &[IoRow]| -> Vec<Vec<String>> {
        let named = |row: &IoRow| {
            let file = row.file.as_deref().unwrap_or("");
            with_figures(&[&report.file, section, &row.tablespace, file], row, &FIGURES)
        };
        rows.iter().map(named).collect()
    };
    let rows = reports.iter().flat_map(|report| {
        [of(report, "tablespace", &report.tablespaces), of(report, "file", &report.files)].concat()
    });
    csv(&["report", "section", "tablespace", "file"], &FIGURES, rows)
}

/// Functions and file types.
pub fn functions(reports: &[Report]) -> Result<String, csv::Error> {
    const FIGURES: [IoColumn<IoFunction>; 8] = [
        ("read_bytes", |row| &row.read_bytes),
        ("read_requests_per_s", |row| &row.read_requests_per_s),
        ("write_bytes", |row| &row.write_bytes),
        ("write_requests_per_s", |row| &row.write_requests_per_s),
        ("waits", |row| &row.waits),
        ("wait_us", |row| &row.wait_us),
        ("small_read_us", |row| &row.small_read_us),
        ("large_read_us", |row| &row.large_read_us),
    ];
    let of = |report: &Report, section: &str, rows: &[IoFunction]| -> Vec<Vec<String>> {
        let named =
            |row: &IoFunction| with_figures(&[&report.file, section, &row.name], row, &FIGURES);
        rows.iter().map(named).collect()
    };
    let rows = reports.iter().flat_map(|report| {
        let functions = of(report, "function", &report.io_functions);
        [functions, of(report, "file_type", &report.io_file_types)].concat()
    });
    csv(&["report", "section", "name"], &FIGURES, rows)
}

fn with_figures<R>(names: &[&str], row: &R, figures: &[IoColumn<R>]) -> Vec<String> {
    let names = names.iter().map(|name| (*name).to_owned());
    names.chain(figures.iter().map(|(_, figure)| plain(figure(row).clone()))).collect()
}

fn csv<R>(
    names: &[&str],
    figures: &[IoColumn<R>],
    rows: impl Iterator<Item = Vec<String>>,
) -> Result<String, csv::Error> {
    let names = names.iter().copied().chain(figures.iter().map(|(name, _)| *name));
    ExactRows::new(names, rows).csv()
}
