//! `sweep.csv`: a row per run, for a spreadsheet or R. Factors first, then every metric that some
//! run knows, in full precision; the unit is the end of a column's name. An empty field is unknown.
//! docs/numbers.md describes the columns.

use std::collections::BTreeSet;

use super::super::csv_rows::CsvRows;
use super::table::{Row, Rows};
use crate::record::sweep::Swept;

/// What stands before the metrics, after the factors.
const KNOWN_OF_A_RUN: [&str; 8] =
    ["repeat", "cell", "status", "started_at", "elapsed_s", "active_bytes", "folder", "window"];

/// The whole file.
pub fn sweep(swept: &Swept) -> Result<String, csv::Error> {
    let rows = Rows::of(swept);
    let mut factors: Vec<String> = Vec::new();
    for (key, _) in rows.0.iter().flat_map(|row| &row.seen.factors) {
        if !factors.contains(key) {
            factors.push(key.clone());
        }
    }
    // The two that every reader looks for come first.
    factors.sort_by_key(|key| match key.as_str() {
        "sessions" => 0,
        "update_pct" => 1,
        _ => 2,
    });
    let metrics: BTreeSet<&String> =
        rows.0.iter().flat_map(|row| row.seen.metrics.keys()).collect();
    let mut writer = CsvRows::new();
    let names = factors.iter().map(String::as_str);
    let names = names.chain(KNOWN_OF_A_RUN).chain(metrics.iter().map(|name| name.as_str()));
    writer.row(names)?;
    for row in &rows.0 {
        let of_factors =
            factors.iter().map(|key| row.seen.factor(key).unwrap_or_default().to_owned());
        let of_metrics = metrics.iter().map(|name| decimal(row.seen.metric(name)));
        writer.row(of_factors.chain(known(swept, row)).chain(of_metrics))?;
    }
    writer.finish()
}

fn known(swept: &Swept, row: &Row) -> [String; KNOWN_OF_A_RUN.len()] {
    let seen = &row.seen;
    let cells = swept.sweep.cells.iter();
    let status = cells.clone().find(|cell| cell.folder == seen.source).map(|cell| cell.status);
    [
        seen.repeat.map(|repeat| repeat.to_string()).unwrap_or_default(),
        row.number.to_string(),
        status.map(|status| status.name().to_owned()).unwrap_or_default(),
        seen.started_at.clone().unwrap_or_default(),
        decimal(seen.elapsed_s),
        seen.active_bytes.map(|bytes| bytes.to_string()).unwrap_or_default(),
        seen.source.clone(),
        seen.window.as_ref().map(ToString::to_string).unwrap_or_default(),
    ]
}

/// The shortest text that reads back as the same number.
fn decimal(value: Option<f64>) -> String {
    value.map(|value| value.to_string()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_run_is_a_row_that_reads_back_exactly() {
        let swept = super::super::tests::swept();
        let text = sweep(&swept).unwrap();
        let mut reader = csv::Reader::from_reader(text.as_bytes());
        let names = reader.headers().unwrap().clone();
        assert_eq!(
            names.iter().take(10).collect::<Vec<_>>(),
            [
                "sessions",
                "update_pct",
                "repeat",
                "cell",
                "status",
                "started_at",
                "elapsed_s",
                "active_bytes",
                "folder",
                "window"
            ]
        );
        let at = |name: &str| names.iter().position(|known| known == name).unwrap();
        let rows: Vec<csv::StringRecord> = reader.records().map(Result::unwrap).collect();
        assert_eq!(rows.len(), swept.runs.len());
        for row in &rows {
            let cell =
                swept.sweep.cells.iter().position(|c| c.folder == row[at("folder")]).unwrap();
            let run = &swept.runs[cell].summary;
            assert_eq!(row[at("piops")].parse::<f64>().ok(), run.piops());
            assert_eq!(row[at("read_us")].parse::<f64>().ok(), run.io_latency_us["read"].mean);
            // What this run does not know and another does is empty.
            let redo = row[at("redo_mb_s")].parse::<f64>().ok();
            assert_eq!(redo.is_some(), run.per_second.redo_bytes.is_some());
        }
        let unique: BTreeSet<&str> = names.iter().collect();
        assert_eq!(unique.len(), names.len());
    }
}
