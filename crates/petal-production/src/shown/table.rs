//! The table that `petal awr` prints: a line per report and per instance of a cluster, then the
//! findings by their ids.

use std::cmp::Reverse;

use petal_awr::columns::{column, value};
use petal_awr::findings::is_for_tests;
use petal_awr::report::{Report, ReportFinding, ReportSeverity};
use petal_judge::{and_more, by_key};
use petal_report::numbers::{UNKNOWN, counted, decimal, micros, or_dash, rate};
use petal_report::table::{
    Align, SCREEN_LINES, Table, fitting, fitting_paragraphs, paragraph, rest,
};

use super::factor_names;

/// A file's name in the table; the whole one is in all other outputs.
const NAME_MAX: usize = 20;
const EVENT_MAX: usize = 24;
const INSTANCE_MAX: usize = 16;
/// Reports that are named under a finding, besides the first.
const NAMED_MAX: usize = 5;
/// Columns that a narrower terminal has no room for.
const OPTIONAL: [&str; 7] =
    ["redo MB/s", "idle %", "min", "write/s", "instance", "begin", "log us"];
/// Findings on one screen.
const FINDINGS_MAX: usize = 3;
const FINDINGS_LINES: usize = 15;

/// `is_quiet` leaves out findings, except for those that the figures mean nothing by.
pub fn render(reports: &[Report], is_quiet: bool) -> String {
    let mut text = figures(reports, reports.len(), &[]);
    for group in groups(reports) {
        if !is_quiet || group.finding.severity == ReportSeverity::Error {
            text.push_str(&group.shown(reports.len()));
        }
    }
    text
}

/// Lays out the reports on one screen: as many rows as fit, and the gravest findings.
pub fn brief(reports: &[Report], is_quiet: bool) -> String {
    let all = groups(reports);
    let is_shown =
        |group: &&FindingGroup<'_>| !is_quiet || group.finding.severity == ReportSeverity::Error;
    let found: Vec<&FindingGroup<'_>> = all.iter().filter(is_shown).collect();
    let found = found.iter().map(|group| {
        let ReportFinding { id, message, .. } = group.finding;
        let place = format!("{} of {}", group.files.len(), counted(reports.len() as u64, "report"));
        paragraph("- ", "  ", &format!("{id}: {place}: {message}"))
    });
    let found = found.collect::<Vec<_>>();
    let found =
        fitting_paragraphs(&found, FINDINGS_MAX, FINDINGS_LINES, "finding", "in the whole report");
    let mut end = format!("\n{found}");
    end.push_str("--full prints the whole report; --csv all columns\n");
    let text = |count: usize| {
        figures(reports, count, &OPTIONAL)
            + &rest(reports.len() - count, "report", "in the whole report")
    };
    fitting(reports.len(), SCREEN_LINES - end.lines().count(), text) + &end
}

/// The table of the first `count` reports.
fn figures(reports: &[Report], count: usize, optional: &[&str]) -> String {
    let reports = &reports[..count];
    let factors = factor_names(reports);
    let mut columns = vec![("file", Align::Left)];
    columns.extend(factors.iter().map(|name| (*name, Align::Right)));
    columns.extend([("begin", Align::Left), ("instance", Align::Left)]);
    columns.extend(
        ["min", "AAS", "PIOPS", "read/s", "write/s", "read us", "log us", "redo MB/s", "idle %"]
            .map(|name| (name, Align::Right)),
    );
    columns.push(("top event", Align::Left));
    let mut table = Table::new(&columns);
    for report in reports.iter().flat_map(Report::with_instances) {
        let shown = |name: &str, show: fn(f64) -> String| or_dash(value(&report, name), show);
        let text = |name: &str| {
            let figure = column(name).and_then(|column| (column.value)(&report));
            figure.map(|figure| figure.shown())
        };
        let mut row = vec![short(&report.file)];
        row.extend(factors.iter().map(|name| report.factor(name).unwrap_or(UNKNOWN).to_owned()));
        // `2014-04-23T18:30:05` without its seconds.
        row.push(or_dash(text("begin_iso"), |iso| iso.get(..16).unwrap_or(&iso).replace('T', " ")));
        row.push(or_dash(text("instance"), |name| cut(&name, INSTANCE_MAX)));
        row.extend([
            shown("elapsed_min", |minutes| decimal(minutes, 2)),
            shown("aas", |sessions| decimal(sessions, 1)),
            shown("piops", rate),
            shown("read_requests_per_s", rate),
            shown("write_requests_per_s", rate),
            shown("read_us", micros),
            shown("log_write_us", micros),
            shown("redo_bytes_per_s", |bytes| rate(bytes / 1e6)),
            shown("cpu_idle_pct", |percent| decimal(percent, 1)),
        ]);
        row.push(or_dash(text("top_event"), |top| cut(&top, EVENT_MAX)));
        table.row(row);
    }
    table.render_without(optional).0
}

/// A finding of one id, and the reports that have it.
struct FindingGroup<'r> {
    finding: &'r ReportFinding,
    files: Vec<&'r str>,
}

/// Groups findings: the gravest first, then the ones in most reports.
fn groups(reports: &[Report]) -> Vec<FindingGroup<'_>> {
    let all = reports.iter().flat_map(|report| {
        report.findings.iter().map(|finding| (finding.id.as_str(), (finding, report.file.as_str())))
    });
    let groups = by_key(all).into_iter().filter_map(|(_, found)| {
        let (finding, _) = *found.first()?;
        Some(FindingGroup { finding, files: found.into_iter().map(|(_, file)| file).collect() })
    });
    let mut groups: Vec<FindingGroup<'_>> = groups.collect();
    groups.sort_by_key(|group| Reverse((group.finding.severity, group.files.len())));
    groups
}

impl FindingGroup<'_> {
    fn shown(&self, of: usize) -> String {
        let ReportFinding { id, severity, message, advice, .. } = self.finding;
        let mark = match severity {
            ReportSeverity::Info => "info",
            ReportSeverity::Warning => "WARNING",
            ReportSeverity::Error => "ERROR",
        };
        let count = self.files.len();
        let purpose = if is_for_tests(id) { "; advice for a SLOB test" } else { "" };
        let head = format!("{mark} {id}: {count} of {}{purpose}", counted(of as u64, "report"));
        let mut shown = format!("\n{}", paragraph("", "  ", &head));
        let first = self.files.first().copied().unwrap_or_default();
        shown.push_str(&paragraph("  ", "    ", &format!("{first}: {message}. {advice}")));
        if count > 1 {
            let others: Vec<&str> = self.files.iter().skip(1).take(NAMED_MAX).copied().collect();
            let more = and_more(" ", count - 1 - others.len());
            let others = format!("also in {}{more}", others.join(", "));
            shown.push_str(&paragraph("  ", "    ", &others));
        }
        shown
    }
}

fn cut(name: &str, most: usize) -> String {
    match name.char_indices().nth(most) {
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
