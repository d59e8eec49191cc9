//! The table that `petal awr` prints: a line per report, then what stands out.

use crate::awr::columns::{column, value};
use crate::awr::report::Report;
use crate::record::Severity;
use crate::report::numbers::{UNKNOWN, decimal, micros, or_dash, rate};
use crate::report::table::{Align, Table, line, paragraph};

use super::factor_names;

/// A file's name in the table; the whole one is in all other outputs.
const NAME_MAX: usize = 20;
const EVENT_MAX: usize = 24;

pub fn render(reports: &[Report]) -> String {
    let factors = factor_names(reports);
    let mut columns = vec![("file", Align::Left)];
    columns.extend(factors.iter().map(|name| (*name, Align::Right)));
    columns.extend(
        ["min", "PIOPS", "read/s", "write/s", "read us", "log us", "redo MB/s", "idle %"]
            .map(|name| (name, Align::Right)),
    );
    columns.push(("top event", Align::Left));
    let mut table = Table::new(&columns);
    for report in reports {
        let shown = |name: &str, show: fn(f64) -> String| or_dash(value(report, name), show);
        let mut row = vec![short(&report.file)];
        row.extend(factors.iter().map(|name| report.factor(name).unwrap_or(UNKNOWN).to_owned()));
        row.extend([
            shown("elapsed_min", |minutes| decimal(minutes, 2)),
            shown("piops", rate),
            shown("read_requests_per_s", rate),
            shown("write_requests_per_s", rate),
            shown("read_us", micros),
            shown("log_write_us", micros),
            shown("redo_bytes_per_s", |bytes| rate(bytes / 1e6)),
            shown("cpu_idle_pct", |percent| decimal(percent, 1)),
        ]);
        let top = column("top_event").and_then(|column| (column.value)(report));
        row.push(top.as_ref().map_or_else(|| UNKNOWN.to_owned(), |top| cut(&top.shown())));
        table.row(row);
    }
    let mut text = table.render();
    for report in reports.iter().filter(|report| !report.findings.is_empty()) {
        text.push('\n');
        text.push_str(&line(&report.file));
        for finding in &report.findings {
            let mark = match finding.severity {
                Severity::Info => "  note: ",
                Severity::Warning => "  WARNING: ",
                Severity::Error => "  ERROR: ",
            };
            let message = format!("{mark}{} ({}). {}", finding.message, finding.id, finding.advice);
            text.push_str(&paragraph("  ", "    ", &message));
        }
    }
    text
}

fn cut(name: &str) -> String {
    match name.char_indices().nth(EVENT_MAX) {
        Some((at, _)) => format!("{}..", name[..at].trim_end()),
        None => name.to_owned(),
    }
}

/// The end of a path: its last part, cut at the front.
fn short(file: &str) -> String {
    let name = file.rsplit('/').next().unwrap_or(file);
    let length = name.chars().count();
    if length <= NAME_MAX {
        return name.to_owned();
    }
    let tail: String = name.chars().skip(length - NAME_MAX + 2).collect();
    format!("..{tail}")
}
