//! Sections that somebody copied out of a report: which are present, and which are missing.

use super::page::ParsedReport;
use super::report::Report;

/// Lists the sections that were searched for figures, in brackets for the end of a sentence.
pub fn sections(page: &ParsedReport) -> String {
    let mut titles: Vec<&str> = Vec::new();
    for table in &page.tables {
        if !titles.contains(&&*table.title) {
            titles.push(&table.title);
        }
    }
    if titles.is_empty() { String::new() } else { format!(" ({})", titles.join(", ")) }
}

/// Names the figures that an excerpt lacks.
pub fn note(report: &Report, sections: &str) -> String {
    let lacks = [
        ("the head with database, instance and release", report.header.db_id.is_none()),
        ("the times of the snapshots", report.header.begin_time.is_none()),
        (
            "the elapsed time, without which totals give no rates",
            report.header.elapsed_min.is_none(),
        ),
        ("the load profile", report.load_profile == Default::default()),
        ("wait events", report.top_events.is_empty() && report.foreground_events.is_empty()),
        ("instance activity", report.statistics.iter().next().is_none()),
    ];
    let lacks: Vec<&str> =
        lacks.iter().filter(|(_, lacks)| *lacks).map(|(what, _)| *what).collect();
    format!("is an excerpt of a report{sections}; not in it: {}", lacks.join(", "))
}
