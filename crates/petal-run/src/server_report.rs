//! The database's own report of a run, such as AWR: begun before the opening snapshot, fetched
//! after the closing one into the run's folder, and read into the record. A failure is a gap in the
//! record and affects no figure.

use std::borrow::Cow;

use super::job::Job;
use petal_judge::awr::{statspack, to_record};
use petal_record::server_report::SeenReport;
use petal_record::server_report::{ReportContent, ServerReport};

/// Begins the database's own report; returns the reason if it could not.
pub fn begin(job: &Job<'_>) -> Vec<String> {
    let Some(own) = job.engine.own_report().filter(|_| job.counts_database()) else {
        return Vec::new();
    };
    match own.begin_report() {
        Ok(note) => {
            if let Some(line) = note {
                job.watch.note(line);
            }
            Vec::new()
        }
        Err(error) => vec![format!("the database's own report was not begun: {error}")],
    }
}

/// Fetches, writes and reads that report; gaps name the parts that failed.
pub fn end(job: &Job<'_>) -> (Vec<SeenReport>, Vec<String>) {
    let Some(own) = job.engine.own_report().filter(|_| job.counts_database()) else {
        return (Vec::new(), Vec::new());
    };
    let reports = match own.end_report() {
        Ok(reports) => reports,
        Err(error) => {
            let gap = format!("the database's own report was not fetched: {error}");
            return (Vec::new(), vec![gap]);
        }
    };
    let seen = to_record::of_run(&reports);
    let Some(folder) = job.folder else { return (seen, Vec::new()) };
    let gaps = reports.iter().filter_map(|report| {
        let written = folder.write_atomically(&report.file, text(report).as_bytes());
        written.err().map(|error| format!("the database's own report is not kept: {error}"))
    });
    let gaps = gaps.collect();
    (seen, gaps)
}

/// Returns the report for people.
fn text(report: &ServerReport) -> Cow<'_, str> {
    match &report.content {
        ReportContent::Text(text) => text.into(),
        ReportContent::Interval(interval) => statspack::text(interval).into(),
    }
}
