//! CSV of I/O by tablespace, file, function and file type: a row for each of a report's.

use petal_awr::figure::Figure;
use petal_awr::report::{IoFunction, IoRow, Report};

use super::super::csv_rows::CsvRows;
use super::csv::plain;

/// Tablespaces and files.
pub fn tablespaces(reports: &[Report]) -> Result<String, csv::Error> {
    let mut writer = CsvRows::new();
    writer.row([
        "report",
        "section",
        "tablespace",
        "file",
        "pdb",
        "reads",
        "reads_per_s",
        "read_ms",
        "blocks_per_read",
        "single_block_reads_per_s",
        "single_block_read_ms",
        "writes",
        "writes_per_s",
        "write_ms",
        "buffer_waits",
        "buffer_wait_ms",
    ])?;
    for report in reports {
        let tablespaces = report.tablespaces.iter().map(|row| ("tablespace", row));
        for (section, row) in tablespaces.chain(report.files.iter().map(|row| ("file", row))) {
            writer.row(io_row(&report.file, section, row))?;
        }
    }
    writer.finish()
}

fn io_row(report: &str, section: &str, row: &IoRow) -> Vec<String> {
    let names = [report, section, &row.tablespace, row.file.as_deref().unwrap_or("")];
    let figures = [
        &row.pdb,
        &row.reads,
        &row.reads_per_s,
        &row.read_ms,
        &row.blocks_per_read,
        &row.single_block_reads_per_s,
        &row.single_block_read_ms,
        &row.writes,
        &row.writes_per_s,
        &row.write_ms,
        &row.buffer_waits,
        &row.buffer_wait_ms,
    ];
    with_figures(&names, &figures)
}

/// Functions and file types.
pub fn functions(reports: &[Report]) -> Result<String, csv::Error> {
    let mut writer = CsvRows::new();
    writer.row([
        "report",
        "section",
        "name",
        "read_bytes",
        "read_requests_per_s",
        "write_bytes",
        "write_requests_per_s",
        "waits",
        "wait_us",
        "small_read_us",
        "large_read_us",
    ])?;
    for report in reports {
        let functions = report.io_functions.iter().map(|row| ("function", row));
        let types = report.io_file_types.iter().map(|row| ("file_type", row));
        for (section, row) in functions.chain(types) {
            writer.row(function(&report.file, section, row))?;
        }
    }
    writer.finish()
}

fn function(report: &str, section: &str, row: &IoFunction) -> Vec<String> {
    let figures = [
        &row.read_bytes,
        &row.read_requests_per_s,
        &row.write_bytes,
        &row.write_requests_per_s,
        &row.waits,
        &row.wait_us,
        &row.small_read_us,
        &row.large_read_us,
    ];
    with_figures(&[report, section, &row.name], &figures)
}

fn with_figures(names: &[&str], figures: &[&Option<Figure>]) -> Vec<String> {
    let names = names.iter().map(|name| (*name).to_owned());
    names.chain(figures.iter().map(|figure| plain((*figure).clone()))).collect()
}
