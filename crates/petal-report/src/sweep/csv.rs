//! `sweep.csv`, and plain runs side by side: a row per run, for a spreadsheet or R. Factors first,
//! then every metric that some run knows, in full precision; the unit is the end of a column's
//! name. An empty field is unknown. docs/numbers.md describes the columns.

use std::collections::BTreeSet;

use super::super::distinct;
use super::super::exact_rows::ExactRows;
use super::super::numbers::exact;
use super::table::{SweepRow, SweepRows};
use petal_record::headline::Verdict;
use petal_record::sweep::Swept;
use petal_record::{Run, Status};

/// A column: its name, and its cell in a row.
type RunColumn = (&'static str, fn(&SweepRow) -> String);

/// The columns before the metrics, after the factors.
const KNOWN_OF_A_RUN: [RunColumn; 14] = [
    ("repeat", |row| exact(row.seen.repeat)),
    ("cell", |row| row.number.to_string()),
    ("status", |row| exact(row.seen.status.map(Status::name))),
    ("verdict", |row| exact(verdict(row).map(|verdict| &verdict.words))),
    ("reason", |row| {
        exact(verdict(row).and_then(|verdict| Some(&verdict.reason.as_ref()?.sentence)))
    }),
    ("next", |row| exact(row.seen.headline.as_ref().map(|headline| &headline.next))),
    ("started_at", |row| row.seen.started_at.clone().unwrap_or_default()),
    ("elapsed_s", |row| exact(row.seen.elapsed_s)),
    ("active_bytes", |row| exact(row.seen.active_bytes)),
    ("folder", |row| row.seen.source.clone()),
    ("window", |row| exact(row.seen.window.as_ref())),
    ("findings", |row| {
        distinct(&row.seen.warnings).into_iter().cloned().collect::<Vec<_>>().join(" ")
    }),
    ("served_by", |row| exact(row.seen.served_by.as_ref().map(|served| &served.words))),
    ("limited_by", |row| exact(row.seen.limited_by.as_ref().map(|limited| &limited.words))),
];

fn verdict(row: &SweepRow) -> Option<&Verdict> {
    row.seen.headline.as_ref().map(|headline| &headline.verdict)
}

pub fn sweep(swept: &Swept) -> ExactRows<'static> {
    table(SweepRows::of(swept))
}

/// Builds rows of runs outside of a sweep, each with the name of its folder; their differences are
/// the factors.
pub fn runs(named: &[(&str, &Run)]) -> ExactRows<'static> {
    let runs: Vec<&Run> = named.iter().map(|(_, run)| *run).collect();
    let mut rows = SweepRows::of_runs(&runs);
    for (row, (name, _)) in rows.0.iter_mut().zip(named) {
        row.seen.source = (*name).to_owned();
    }
    let contexts: Vec<_> = rows.0.iter().map(|row| row.seen.context.clone()).collect();
    let names: BTreeSet<&String> = contexts.iter().flat_map(|context| context.keys()).collect();
    for name in names {
        let values: BTreeSet<_> = contexts.iter().map(|context| context.get(name)).collect();
        for (row, context) in rows.0.iter_mut().zip(&contexts).filter(|_| values.len() > 1) {
            if row.seen.factor(name).is_none() {
                let value = context.get(name).cloned().unwrap_or_default();
                row.seen.factors.push((name.clone(), value));
            }
        }
    }
    table(rows)
}

fn table(rows: SweepRows) -> ExactRows<'static> {
    let all = rows.0.iter().flat_map(|row| row.seen.factors.iter().map(|(key, _)| key.clone()));
    let mut factors = distinct(all);
    // The two that every reader looks for come first.
    factors.sort_by_key(|key| match key.as_str() {
        "sessions" => 0,
        "update_pct" => 1,
        _ => 2,
    });
    let metrics: BTreeSet<String> =
        rows.0.iter().flat_map(|row| row.seen.metrics.keys().cloned()).collect();
    let known = KNOWN_OF_A_RUN.map(|(name, _)| name.to_owned());
    let names: Vec<String> = factors.iter().cloned().chain(known).chain(metrics.clone()).collect();
    let rows = rows.0.into_iter().map(move |row| {
        let of_factors = factors.iter().map(|key| row.seen.factor(key).unwrap_or_default());
        let cells = of_factors.map(str::to_owned).chain(KNOWN_OF_A_RUN.map(|(_, cell)| cell(&row)));
        cells.chain(metrics.iter().map(|name| exact(row.seen.metric(name)))).collect::<Vec<_>>()
    });
    ExactRows::new(names, rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use petal_record::fixture;

    #[test]
    fn every_run_is_a_row_that_reads_back_exactly() {
        let mut swept = super::super::tests::swept();
        for run in &mut swept.runs {
            petal_record::fixture::read_through_page_cache(run);
            petal_judge::conclude(run);
        }
        let text = sweep(&swept).csv().unwrap();
        let mut reader = csv::Reader::from_reader(text.as_bytes());
        let names = reader.headers().unwrap().clone();
        assert_eq!(
            names.iter().take(13).collect::<Vec<_>>(),
            [
                "sessions",
                "update_pct",
                "repeat",
                "cell",
                "status",
                "verdict",
                "reason",
                "next",
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
            assert!(row[at("findings")].split(' ').any(|id| id == "cached-by-os"));
            assert_eq!(&row[at("verdict")], "not a storage test");
            assert!(row[at("reason")].contains("page cache"), "{}", &row[at("reason")]);
            assert!(row[at("next")].starts_with("petal "), "{}", &row[at("next")]);
            assert_eq!(row[at("served_by")], run.served_by.as_ref().unwrap().words);
            assert_eq!(row[at("limited_by")], run.limited_by.as_ref().unwrap().words);
            let served = row[at("served_device_pct")].parse::<f64>().unwrap();
            assert!((20.0..30.0).contains(&served), "{served}");
            // A figure that only another run knows is empty.
            let redo = row[at("redo_mb_s")].parse::<f64>().ok();
            assert_eq!(redo.is_some(), run.per_second.redo_bytes.is_some());
        }
        let unique: BTreeSet<&str> = names.iter().collect();
        assert_eq!(unique.len(), names.len());
    }

    #[test]
    fn plain_runs_are_rows_with_what_differs_between_them() {
        let (one, mut other) = (fixture::mixed_run(), fixture::mixed_run());
        other.summary.sessions = 16;
        other.summary.settings.insert("work_unit".to_owned(), 255.into());
        other.summary.per_second.redo_bytes = None;
        let text = runs(&[("first", &one), ("second", &other)]).csv().unwrap();
        let mut reader = csv::Reader::from_reader(text.as_bytes());
        let names = reader.headers().unwrap().clone();
        let rows: Vec<csv::StringRecord> = reader.records().map(Result::unwrap).collect();
        let column = |name: &str| -> Vec<&str> {
            let at = names.iter().position(|known| known == name).unwrap();
            rows.iter().map(|row| &row[at]).collect()
        };
        assert_eq!(column("folder"), ["first", "second"]);
        assert_eq!(column("sessions"), ["8", "16"]);
        assert_eq!(column("work_unit")[1], "255");
        assert!(!names.iter().any(|name| name == "redo_stress"), "it does not differ");
        assert_eq!(column("redo_mb_s")[1], "", "unknown is empty");
        assert_eq!(column("piops")[0].parse::<f64>().ok(), one.summary.piops());
        assert_eq!(column("status"), ["complete", "complete"]);
    }
}
