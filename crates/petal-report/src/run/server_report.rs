//! Compares the database's own report of the run with petal's counts.

use super::super::numbers::{decimal, micros, or_dash, rate};
use super::super::table::Table;
use petal_judge::server_report::ReportComparison;
use petal_record::server_report::SeenReport;

pub(crate) fn heading(report: &SeenReport) -> String {
    if let Some(why) = &report.unread {
        return format!("not read: {why}");
    }
    let kind = match report.kind.as_deref() {
        Some("awrg") => "AWR of several instances",
        Some("awrpdb") => "AWR of a pluggable database",
        Some("sp") => "Statspack",
        _ => "AWR",
    };
    let or = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
    format!(
        "{kind}, release {}, instance {}, snapshots {} ({}) to {} ({}), {} s between them",
        or(&report.release),
        or(&report.instance),
        or(&report.begin_snap),
        or(&report.begin_time),
        or(&report.end_snap),
        or(&report.end_time),
        or_dash(report.elapsed_s, |s| decimal(s, 1)),
    )
}

/// Lists the same figures from both sources.
pub(crate) fn compared(comparison: &ReportComparison) -> Table {
    let heading = "over the run, and over the report's window | petal's snapshots: | \
                   the report: | report more by %: | judged";
    let rows = comparison.rows.iter().map(|row| {
        let show = |value: f64| match row.what.ends_with("average") {
            true => micros(value),
            false => decimal(value, 0),
        };
        let judged = match row.agrees {
            None => "too little",
            Some(true) => "alike",
            Some(false) => "differs",
        };
        [
            row.what.clone(),
            show(row.petal),
            show(row.report),
            or_dash(row.share, |share| decimal(share * 100.0, 1)),
            judged.to_owned(),
        ]
    });
    Table::headed(heading).with_rows(rows).with_note(explained(comparison))
}

/// Explains why the two differ, and by how much they may.
fn explained(comparison: &ReportComparison) -> String {
    format!(
        "petal's snapshots lie close around the run of {} s; the report's lie outside of them, {} \
         s apart, and it includes the work of taking its snapshots. Counts agree from {} % less to \
         {} % more: 10 %, plus the longer window. A latency may differ by as much either way, \
         beyond the report's rounding.",
        decimal(comparison.run_s, 1),
        or_dash(comparison.report_s, |s| decimal(s, 1)),
        decimal(comparison.allowed.0 * 100.0, 0),
        decimal(comparison.allowed.1 * 100.0, 0),
    )
}

/// Load profile, I/O and the rest, each with the section it stood in.
pub(crate) fn figures(report: &SeenReport) -> Table {
    let rows = report.figures.iter().map(|(name, figure)| {
        let section: String = figure.section.chars().take(SECTION_WIDTH).collect();
        [name.clone(), rate(figure.value), figure.unit.clone(), section]
    });
    Table::headed("figure | value: | unit | section").with_rows(rows)
}

const SECTION_WIDTH: usize = 48;

pub(crate) fn top_events(report: &SeenReport) -> Table {
    let rows = report.top_events.iter().map(|event| {
        [
            event.name.clone(),
            or_dash(event.waits, |waits| decimal(waits, 0)),
            or_dash(event.time_s, |s| decimal(s, 2)),
            or_dash(event.avg_us, micros),
            or_dash(event.pct_db_time, |share| decimal(share, 1)),
            event.class.clone().unwrap_or_else(|| "-".to_owned()),
        ]
    });
    Table::headed("event | waits: | time s: | avg us: | % DB time: | class").with_rows(rows)
}

/// Lists its findings and notes, each with its origin.
pub(crate) fn remarks(report: &SeenReport) -> Vec<String> {
    let findings = report.findings.iter().map(|found| {
        let severity = found.severity.name();
        format!("{severity} {} (judged from {}): {}", found.id, report.file, found.message)
    });
    let notes = report.notes.iter().map(|note| format!("{}: {note}", report.file));
    findings.chain(notes).collect()
}
