//! Oracle AWR and Statspack reports, text and HTML, as figures that name their section.
//!
//! `bytes -> source (text) -> text or html (a page of titled tables) -> extractors -> Report`
//!
//! Only [`topic`] knows the titles of reports, and only [`text`] and [`html`] know their layouts. A
//! figure missing from the report is `None`. Files of other products are refused by name.

#![cfg_attr(test, allow(clippy::disallowed_methods))]

mod archive;
mod cluster;
pub mod columns;
mod comma;
mod delimited;
pub mod derived;
pub mod events;
mod excerpt;
pub mod factors;
pub mod figure;
pub mod findings;
mod foreign;
mod header;
mod histogram;
pub mod host;
mod html;
pub mod idle;
mod instances;
mod interconnect;
mod io;
pub mod law;
pub mod laws;
pub mod load;
mod mime;
pub mod number;
pub mod page;
pub mod report;
#[cfg(any(test, feature = "testing"))]
pub mod samples;
mod shape;
pub mod sizing;
pub mod source;
pub mod statistics;
mod text;
pub mod times;
mod top_reads;
pub mod topic;
mod unread;
mod unwrap;
mod waits;

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use figure::Figure;
use page::ParsedReport;
use report::{Format, Report, ReportKind};
use shape::{Layout, PROBE};
use source::Source;
use statistics::ReportStatistics;
use topic::Topic;

/// Note for a pluggable database: its own counters are shown, and do not include all of its writes.
const CONTAINER_NOTE: &str = "is of a pluggable database: its figures are the container's own, \
and may exclude writes by background processes of the root";

/// Note for a dump of an HTML report.
const DUMP_NOTE: &str = "no table has a line of dashes under its headings, as in a dump by lynx, w3m \
or pdftotext: give petal the HTML report itself";

/// Reason why a file gives no report.
#[derive(Debug, thiserror::Error)]
pub enum AwrError {
    #[error("{file}: {error}; check the name and who may read it")]
    Unreadable { file: String, error: std::io::Error },
    #[error("{file}: is {what}; {advice}")]
    Other { file: String, what: String, advice: &'static str },
    #[error(
        "{file}: is an AWR or Statspack report by its title, but holds nothing that can be read: {why}; create the report again, or send the whole file"
    )]
    Empty { file: String, why: String },
    #[error(
        "{file}: is {what}, which petal awr does not read: give it the report itself, as text or HTML"
    )]
    Foreign { file: String, what: &'static str },
    #[error(
        "{file}: its lines were cut at {width} characters, which splits its table rows; spool the report again after SET LINESIZE 500, or as HTML"
    )]
    Cut { file: String, width: usize },
    #[error(
        "{file}: it prints {printed}, with a decimal comma: petal would misread its thousands separators as decimal points; create it again after ALTER SESSION SET NLS_NUMERIC_CHARACTERS='.,'"
    )]
    DecimalComma { file: String, printed: String },
    #[error(
        "{file}: reading it failed inside petal ({message}); this is a fault of petal's, please report it with the file"
    )]
    Internal { file: String, message: String },
}

/// Reports and errors of a file.
pub struct FileReports {
    /// Set if the file is an archive of other files.
    pub is_archive: bool,
    pub reports: Vec<Result<Report, AwrError>>,
}

/// Reads a file: a report, several one after the other, or an archive of such files.
pub fn read(path: &Path) -> FileReports {
    let file = path.display().to_string();
    let unreadable = |file: &str, error| AwrError::Unreadable { file: file.to_owned(), error };
    let mut reports = Vec::new();
    let mut take = |inner: &str, source: std::io::Result<Source>| {
        let name = if inner.is_empty() { file.clone() } else { format!("{file}/{inner}") };
        match source {
            Ok(source) => reports.extend(parse_all(&name, source)),
            Err(error) => reports.push(Err(unreadable(&name, error))),
        }
    };
    let opened = source::open(path);
    let read = opened.and_then(|opened| archive::each(opened, &mut take));
    let is_archive = *read.as_ref().unwrap_or(&!reports.is_empty());
    reports.extend(read.err().map(|error| Err(unreadable(&file, error))));
    FileReports { is_archive, reports }
}

/// Reads each report of a text in memory; `file` is for messages. From the second report on, a
/// number follows the name: `FILE#2`.
pub fn parse_all(file: &str, source: Source) -> Vec<Result<Report, AwrError>> {
    let Source { text, notes, foreign } = source;
    if let Some(what) = foreign {
        return vec![Err(AwrError::Foreign { file: file.to_owned(), what })];
    }
    let (text, layout) = shape::of(&text);
    if let Some(name) = foreign::name(&text) {
        return vec![Err(other(file, format!("{name}, which petal awr does not read")))];
    }
    let texts = match layout {
        Layout::Html => html::reports(&text),
        _ => text::reports(&text),
    };
    let of = |(at, text): (usize, &str)| {
        let name = if at == 0 { file.to_owned() } else { format!("{file}#{}", at + 1) };
        // A fault in a parser costs one report, not all of them.
        let parsed = catch_unwind(AssertUnwindSafe(|| parse_one(&name, text, layout, &notes)));
        parsed.unwrap_or_else(|panic| {
            Err(AwrError::Internal { file: name, message: panic_message(&*panic) })
        })
    };
    texts.into_iter().enumerate().map(of).collect()
}

/// Reads the first report of a text in memory.
pub fn parse(file: &str, source: Source) -> Result<Report, AwrError> {
    let mut reports = parse_all(file, source);
    let more = reports.len() - 1;
    let mut report = reports.swap_remove(0)?;
    if more > 0 {
        report.notes.push(format!("{more} more behind it were not read"));
    }
    Ok(report)
}

fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no reason".into())
}

/// Reads a report's tables, in any layout.
fn page(text: &str, layout: Layout) -> ParsedReport {
    match layout {
        Layout::Html => {
            let (text, cut_at) = unwrap::unwrapped(text);
            let mut page = html::page(&text);
            if let Some(width) = cut_at {
                page.note(&format!("its lines were cut at {width} characters, and joined again"));
            }
            page
        }
        Layout::Dashes => text::page(text),
        Layout::Tabs | Layout::Bars => delimited::page(text, layout),
    }
}

fn parse_one(file: &str, text: &str, layout: Layout, notes: &[String]) -> Result<Report, AwrError> {
    let is_html = layout == Layout::Html;
    let format = if is_html { Format::Html } else { Format::Text };
    if let Some(width) = text::cut_at(text).filter(|_| layout == Layout::Dashes) {
        return Err(AwrError::Cut { file: file.to_owned(), width });
    }
    let is_dump = layout == Layout::Dashes && text::has_no_rules(text);
    let page = page(text, layout);
    // Oracle makes Statspack's report as text only.
    let kind = kind(&page).filter(|&kind| !(is_html && kind == ReportKind::Sp));
    let kind = kind.ok_or_else(|| not_a_report_error(file, text, &page, is_html))?;
    if let Some(printed) = comma::decimal(text) {
        return Err(AwrError::DecimalComma { file: file.to_owned(), printed: printed.to_owned() });
    }
    if page.tables.is_empty() {
        let why = match text.trim().len() {
            0..2000 => "it ends behind its title".to_owned(),
            _ if is_dump => DUMP_NOTE.to_owned(),
            _ => "none of the sections that petal knows is in it".to_owned(),
        };
        return Err(AwrError::Empty { file: file.to_owned(), why });
    }
    let sections = excerpt::sections(&page);
    let mut report = judged(page, kind);
    if !report.has_figures() {
        let why = match is_dump {
            true => DUMP_NOTE.to_owned(),
            false => format!(
                "neither an elapsed time nor a load profile, wait events or statistics could be \
                 read in its {} characters{sections}",
                text.len()
            ),
        };
        return Err(match kind {
            ReportKind::Excerpt => {
                not_a_report_error(file, text, &ParsedReport::default(), is_html)
            }
            _ => AwrError::Empty { file: file.to_owned(), why },
        });
    }
    if kind == ReportKind::Awrpdb {
        report.notes.push(CONTAINER_NOTE.to_owned());
    }
    if kind == ReportKind::Excerpt {
        report.notes.push(excerpt::note(&report, &sections));
    } else if !report.has_work() {
        let why = if is_dump { format!(": {DUMP_NOTE}") } else { String::new() };
        report.notes.push(format!(
            "neither a load profile nor wait events or statistics could be read{sections}{why}"
        ));
    }
    report.file = file.to_owned();
    report.format = format;
    report.notes.splice(0..0, notes.iter().cloned());
    match report.header.elapsed_unread.take() {
        Some(printed) => Err(AwrError::DecimalComma { file: report.file, printed }),
        None => Ok(report),
    }
}

/// Makes a report from a page and adds its findings.
pub fn judged(mut page: ParsedReport, kind: ReportKind) -> Report {
    let warnings = std::mem::take(&mut page.warnings);
    let mut report = extract(page, kind);
    report.spans_restart = findings::spans_restart(&report, &warnings);
    laws::apply(&mut report);
    report.findings = findings::judge(&report, &warnings);
    report
}

fn extract(mut page: ParsedReport, kind: ReportKind) -> Report {
    let mut shifted = Vec::new();
    let statistics = ReportStatistics::of(page.take(Topic::Statistics), &mut shifted);
    let page = &page;
    let mut header = header::read(page, kind);
    let events = events::read(page, &mut shifted);
    let elapsed_min = header.elapsed_min.clone();
    let release = figure::shown(&header.release).unwrap_or_default();
    let io = io::read(page, &release);
    let mut notes = page.notes.clone();
    notes.extend(shifted);
    notes.extend(io.notes);
    let histograms = histogram::read(page, &mut notes);
    if !page.is_ended && kind != ReportKind::Excerpt {
        notes.push(
            "its end was not found: sections may be missing, and the last one may be cut"
                .to_owned(),
        );
    }
    let parameters = host::parameters(page, &mut notes);
    let mut report = Report {
        kind,
        is_whole: page.is_ended,
        cpu: host::cpu(page, &mut header),
        instances: instances::instances(page, &header, &events),
        header,
        load_profile: load::read(page, kind, &elapsed_min),
        io_profile: load::io_profile(page),
        time_model: load::time_model(page),
        wait_classes: waits::read(page),
        captured_wait_s: page.captured_wait.as_ref().and_then(|captured| {
            Figure::read(captured, &"Foreground Wait Class".into(), number::count)
        }),
        top_events: events.top,
        foreground_events: events.foreground,
        background_events: events.background,
        histograms,
        statistics: statistics.into(),
        tablespaces: io.tablespaces,
        files: io.files,
        io_functions: io.functions,
        io_file_types: io.file_types,
        segments_by_reads: top_reads::segments(page),
        sql_by_reads: top_reads::statements(page),
        interconnect_pings: interconnect::pings(page, &release),
        memory: host::memory(page),
        parameters,
        notes,
        ..Report::default()
    };
    unread::note(page, &mut report);
    report
}

/// Finds the kind of a report by its title, else by its sections.
fn kind(page: &ParsedReport) -> Option<ReportKind> {
    let heading = page.heading.as_deref().unwrap_or("").to_ascii_uppercase();
    if heading.contains("STATSPACK REPORT") {
        Some(ReportKind::Sp)
    } else if heading.contains("PDB REPORT") {
        Some(ReportKind::Awrpdb)
    } else if heading.contains("(RAC)") || heading.contains("RAC REPORT") {
        Some(ReportKind::Awrg)
    } else if heading.contains("WORKLOAD REPOSITORY REPORT") {
        // A report over a cluster, if it lists no single instance.
        Some(if page.first(Topic::Cluster).is_some() { ReportKind::Awrg } else { ReportKind::Awr })
    } else if heading.is_empty() {
        let holds = |topic| page.first(topic).is_some();
        let is_cluster = holds(Topic::Cluster) && holds(Topic::ClusterInstances);
        let is_report =
            holds(Topic::Database) && (holds(Topic::LoadProfile) || holds(Topic::TopEvents));
        match (is_cluster, is_report) {
            (true, _) => Some(ReportKind::Awrg),
            (_, true) => Some(ReportKind::Awr),
            _ => page.tables.iter().any(|it| it.topic.is_of_work()).then_some(ReportKind::Excerpt),
        }
    } else {
        None
    }
}

/// Names the type of a file that is not a report, as far as its text shows it.
fn not_a_report_error(file: &str, text: &str, page: &ParsedReport, is_html: bool) -> AwrError {
    let heading = page.heading.as_deref().unwrap_or("").to_ascii_uppercase();
    let begin = text.chars().take(PROBE).collect::<String>().to_ascii_uppercase();
    let is_statspack = heading.contains("STATSPACK");
    let known: [(bool, &str); 8] = [
        (is_statspack, "an HTML page that another program made of a Statspack report"),
        (heading.contains("COMPARE"), "an AWR compare-periods report"),
        (heading.contains("SQL REPORT"), "an AWR report of one SQL statement"),
        (!heading.is_empty(), "a workload repository report of another kind"),
        (begin.contains("ASH REPORT FOR"), "an active-session-history report"),
        (begin.contains("ADDM REPORT"), "an ADDM report"),
        (begin.contains("TKPROF"), "a TKPROF report"),
        (begin.trim().is_empty(), "empty"),
    ];
    let what = match known.iter().find(|(is, _)| *is) {
        Some((_, what)) => format!("{what}, which petal awr does not read"),
        None if is_html => "HTML, but not an AWR or Statspack report".to_owned(),
        None => "not an AWR or Statspack report".to_owned(),
    };
    other(file, what)
}

fn other(file: &str, what: String) -> AwrError {
    let advice =
        "petal awr reads AWR (awrrpt, awrgrpt, PDB) and Statspack reports (spreport), text or HTML";
    AwrError::Other { file: file.to_owned(), what, advice }
}

#[cfg(test)]
pub(crate) mod tests;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
