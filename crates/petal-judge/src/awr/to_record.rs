//! Converts the reports in a run's folder to the part that its record keeps of them. One report may
//! be there twice, as text and as HTML. HTML does not cut names, so it is read first; the text is
//! read if the HTML is incomplete. An unreadable report is kept as such, with the reason.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::json;

use super::statspack;
use petal_awr::columns::COLUMNS;
use petal_awr::figure::{Figure, number, shown};
use petal_awr::report::{Report, ReportFinding, ReportSeverity, WaitEvent};
use petal_awr::source::{self, Source};
use petal_awr::{AwrError, parse};
use petal_record::server_report::{ReportContent, ServerReport};
use petal_record::server_report::{ReportEvent, ReportFigure, SeenReport};
use petal_record::{Finding, Severity, as_text};

/// Statistics that are kept as totals: the run's own counters have the same names.
const TOTALS: [&str; 15] = [
    "session logical reads",
    "physical reads",
    "physical reads cache",
    "physical reads cache prefetch",
    "physical read IO requests",
    "physical read bytes",
    "physical writes",
    "physical write IO requests",
    "physical write bytes",
    "redo size",
    "redo synch writes",
    "redo writes",
    "user commits",
    "execute count",
    "table fetch continued row",
];
/// Columns that identify a report; a record has separate fields for them.
const NAMES: [&str; 4] = ["db_id", "instance_number", "begin_snap", "end_snap"];
const TOP_EVENTS: usize = 10;
/// A folder's files that are taken for reports.
const STEMS: [&str; 2] = ["awr", "statspack"];
/// Endings of such files. Of one report in several files, HTML is read first.
const ENDINGS: [&str; 4] = ["html", "htm", "txt", "lst"];

/// Reads the reports in a run's folder; empty if no report is there.
pub fn in_folder(folder: &Path) -> Vec<SeenReport> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    // A pipe of such a name would hold petal up.
    let is_file = |name: &String| folder.join(name).is_file();
    let files = names.filter(|name| is_report(name)).filter(is_file).map(|name| {
        let read = source::read(&folder.join(&name));
        (name, read.map_err(|error| error.to_string()))
    });
    read_all(files.collect())
}

fn is_report(name: &str) -> bool {
    name.rsplit_once('.').is_some_and(|(stem, ending)| {
        ENDINGS.contains(&ending) && STEMS.iter().any(|begin| stem.starts_with(begin))
    })
}

/// The reports that the database made of a run.
pub fn of_run(reports: &[ServerReport]) -> Vec<SeenReport> {
    let texts = reports.iter().filter_map(|report| match &report.content {
        ReportContent::Text(text) => Some((report.file.as_str(), text.as_str())),
        ReportContent::Interval(_) => None,
    });
    let mut seen = of_texts(texts);
    seen.extend(reports.iter().filter_map(|report| match &report.content {
        ReportContent::Text(_) => None,
        ReportContent::Interval(interval) => {
            Some(seen_report(&statspack::report(&report.file, interval)))
        }
    }));
    seen
}

/// The reports in texts, each with the name of its file.
pub fn of_texts<'t>(files: impl Iterator<Item = (&'t str, &'t str)>) -> Vec<SeenReport> {
    let files = files.filter(|(name, _)| is_report(name)).map(|(name, text)| {
        (name.to_owned(), Ok(Source { text: text.to_owned(), ..Source::default() }))
    });
    read_all(files.collect())
}

/// A file's name and its text, or why it could not be read.
type SourceFile = (String, Result<Source, String>);

fn read_all(files: Vec<SourceFile>) -> Vec<SeenReport> {
    let mut by_stem: BTreeMap<String, Vec<SourceFile>> = BTreeMap::new();
    for (name, source) in files {
        let stem = name.rsplit_once('.').map_or(name.as_str(), |(stem, _)| stem).to_owned();
        by_stem.entry(stem).or_default().push((name, source));
    }
    let mut seen: Vec<SeenReport> = by_stem.into_values().filter_map(most_complete).collect();
    // SQL*Plus's report replaces petal's own report of the same snapshots.
    seen.sort_by_key(|report| std::cmp::Reverse(report.totals.len() + report.figures.len()));
    let mut kept: Vec<SeenReport> = Vec::new();
    for report in seen {
        let same = |known: &&SeenReport| {
            report.unread.is_none()
                && report.begin_snap.is_some()
                && (&known.kind, &known.instance) == (&report.kind, &report.instance)
                && (&known.begin_snap, &known.end_snap) == (&report.begin_snap, &report.end_snap)
        };
        if !kept.iter().any(|known| same(&known)) {
            kept.push(report);
        }
    }
    kept.sort_by(|one, other| one.file.cmp(&other.file));
    kept
}

/// Chooses among files of one report: the first that is whole, else the one with the most in it.
fn most_complete(mut files: Vec<SourceFile>) -> Option<SeenReport> {
    let place = |name: &str| ENDINGS.iter().position(|ending| name.ends_with(ending));
    files.sort_by_key(|(name, _)| place(name));
    let mut best: Option<SeenReport> = None;
    for (name, source) in files {
        let read = source.and_then(|source| parse(&name, source).map_err(reason));
        let is_whole = read.as_ref().is_ok_and(|report| report.is_whole);
        let seen = match read {
            Ok(report) => seen_report(&report),
            Err(why) => SeenReport::unread(&name, why),
        };
        let size = |seen: &SeenReport| seen.figures.len() + seen.totals.len();
        if is_whole || best.as_ref().is_none_or(|known| size(known) < size(&seen)) {
            best = Some(seen);
        }
        if is_whole {
            break;
        }
    }
    best
}

/// Returns the reason without the file name, which is in the same message already.
fn reason(error: AwrError) -> String {
    match error {
        AwrError::Unreadable { error, .. } => error.to_string(),
        AwrError::Other { what, .. } => format!("it is {what}"),
        AwrError::Foreign { what, .. } => format!("it is {what}"),
        AwrError::Cut { width, .. } => format!("its lines were cut at {width} characters"),
        AwrError::Empty { why, .. } => why,
        AwrError::DecimalComma { printed, .. } => {
            format!("it was printed with a decimal comma, such as {printed}")
        }
        AwrError::Internal { message, .. } => format!("a fault of petal's: {message}"),
    }
}

fn seen_report(report: &Report) -> SeenReport {
    let header = &report.header;
    let total = |&name: &&'static str| Some((name, report.statistics.get(name)?.total?));
    let totals: Vec<(&str, Figure)> = TOTALS.iter().filter_map(total).collect();
    SeenReport {
        file: report.file.clone(),
        kind: Some(as_text(&json!(report.kind), "")),
        release: shown(&header.release),
        instance: shown(&header.instance),
        begin_snap: shown(&header.begin_snap),
        end_snap: shown(&header.end_snap),
        begin_time: shown(&header.begin_time),
        end_time: shown(&header.end_time),
        elapsed_s: number(&header.elapsed_min).map(|minutes| minutes * 60.0),
        figures: figures(report),
        totals_section: totals.first().map(|(_, figure)| figure.section.to_string()),
        totals: totals
            .into_iter()
            .filter_map(|(name, figure)| Some((name.to_owned(), figure.number()?)))
            .collect(),
        top_events: report.top_events.iter().take(TOP_EVENTS).map(event).collect(),
        findings: report.findings.iter().map(finding).collect(),
        notes: report.notes.clone(),
        unread: None,
    }
}

fn figures(report: &Report) -> BTreeMap<String, ReportFigure> {
    let is_kept = |name: &str| !NAMES.contains(&name) && !name.starts_with("top_event");
    let columns = COLUMNS.iter().filter(|column| is_kept(column.name));
    let figures = columns.filter_map(|column| {
        let figure = (column.value)(report)?;
        let kept = ReportFigure {
            value: figure.number()?,
            unit: column.unit.to_owned(),
            as_printed: figure.as_printed.clone(),
            section: figure.section.to_string(),
            rounded_to: figure.step,
        };
        Some((column.name.to_owned(), kept))
    });
    figures.collect()
}

fn event(event: &WaitEvent) -> ReportEvent {
    let section = event.time_s.as_ref().or(event.waits.as_ref());
    ReportEvent {
        name: event.name.clone(),
        class: shown(&event.wait_class),
        waits: number(&event.waits),
        time_s: number(&event.time_s),
        avg_us: number(&event.latency_us),
        pct_db_time: number(&event.pct_db_time),
        section: section.map(|figure| figure.section.to_string()),
    }
}

fn finding(found: &ReportFinding) -> Finding {
    let severity = match found.severity {
        ReportSeverity::Info => Severity::Info,
        ReportSeverity::Warning => Severity::Warning,
        ReportSeverity::Error => Severity::Error,
    };
    let ReportFinding { id, message, advice, evidence, .. } = found.clone();
    Finding { id, severity, message, advice, evidence: evidence.into_iter().collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = include_str!("../../../../tests/data/awr/awr_12c.txt");
    const HTML: &str = include_str!("../../../../tests/data/awr/awr_19c.html");
    const STATSPACK: &str = include_str!("../../../../tests/data/awr/sp_11g.txt");

    fn seen(files: &[(&str, &str)]) -> Vec<SeenReport> {
        of_texts(files.iter().copied())
    }

    #[test]
    fn figures_come_with_their_print_and_section() {
        let [report] = &seen(&[("statspack.txt", STATSPACK)])[..] else { panic!("one report") };
        assert_eq!(
            (report.kind.as_deref(), report.instance.as_deref()),
            (Some("sp"), Some("iris"))
        );
        assert_eq!(report.begin_snap.as_deref(), Some("101"));
        assert_eq!(report.elapsed_s, Some(300.0));
        let redo = report.figure("redo_bytes_per_s").unwrap();
        assert_eq!((redo.value, redo.as_printed.as_deref()), (512_345.6, Some("512,345.6")));
        assert_eq!((redo.section.as_str(), redo.unit.as_str()), ("Load Profile", "bytes/s"));
        assert_eq!(report.totals["physical read IO requests"], 26_900_500.0);
        assert!(!report.totals.contains_key("physical write bytes"), "it is not there: unknown");
        assert_eq!(report.top_events[0].name, "db file sequential read");
        assert!(report.findings.iter().any(|finding| finding.id == "not-durable"));
    }

    /// Reads the engine's output for PERFSTAT's tables; another test writes that file.
    #[test]
    fn petals_statspack_report_is_read_with_every_digit() {
        let made = include_str!("../../../../tests/data/awr/sp_petal.txt");
        let [report] = &seen(&[("statspack.txt", made)])[..] else { panic!("one report") };
        assert_eq!((report.unread.as_deref(), &report.notes[..]), (None, &[][..]));
        assert_eq!(
            (report.kind.as_deref(), report.instance.as_deref()),
            (Some("sp"), Some("iris"))
        );
        assert_eq!(report.release.as_deref(), Some("19.0.0.0.0"));
        assert_eq!(report.begin_time.as_deref(), Some("02-Jun-25 10:00:00"));
        assert_eq!(
            (report.begin_snap.as_deref(), report.end_snap.as_deref()),
            (Some("101"), Some("102"))
        );
        assert_eq!(report.elapsed_s, Some(300.0));
        let totals = [
            ("session logical reads", 27_630_120.0),
            ("physical read bytes", 220_368_896_000.0),
            ("redo synch writes", 97.0),
        ];
        for (name, total) in totals {
            assert_eq!(report.totals.get(name), Some(&total), "{name}");
        }
        let value = |name: &str| report.figure(name).map(|figure| figure.value);
        assert_eq!(value("logical_reads_per_s"), Some(92_100.4));
        assert_eq!(value("db_time_per_s"), Some(31.9));
        // Microseconds over waits: 8,911.6 s over 26,899,900.
        assert!((value("read_us").unwrap() - 331.29).abs() < 0.01, "{:?}", value("read_us"));
        assert!((value("log_write_us").unwrap() - 1337.2).abs() < 0.1);
        assert!((value("cpu_idle_pct").unwrap() - 84.8).abs() < 0.01);
        let names: Vec<&str> = report.top_events.iter().map(|event| event.name.as_str()).collect();
        assert_eq!(names, ["db file sequential read", "CPU time", "log file sync"]);
        assert!(report.findings.iter().any(|finding| finding.id == "not-durable"));
    }

    #[test]
    fn html_is_read_first_and_text_where_it_is_not_whole() {
        let whole = seen(&[("awr.txt", TEXT), ("awr.html", HTML)]);
        assert_eq!(whole.iter().map(|r| r.file.as_str()).collect::<Vec<_>>(), ["awr.html"]);
        let cut = &HTML[..HTML.len() / 3];
        let cut = seen(&[("awr.txt", TEXT), ("awr.html", cut)]);
        assert_eq!(cut.iter().map(|r| r.file.as_str()).collect::<Vec<_>>(), ["awr.txt"]);
    }

    #[test]
    fn a_report_that_was_cut_is_kept_as_far_as_it_goes_or_with_the_reason() {
        for share in 0..20 {
            let cut = &STATSPACK[..STATSPACK.len() * share / 20];
            let [report] = &seen(&[("statspack.txt", cut)])[..] else { panic!("one report") };
            match &report.unread {
                Some(why) => assert!(!why.is_empty() && report.figures.is_empty()),
                None => assert!(!report.notes.is_empty(), "cut at {share}/20"),
            }
        }
    }

    #[test]
    fn the_same_snapshots_are_kept_once_and_other_files_not_at_all() {
        let files = [("statspack.txt", STATSPACK), ("statspack-full.lst", STATSPACK)];
        assert_eq!(seen(&files).len(), 1);
        assert!(seen(&[("report.html", HTML), ("hook-pre.txt", TEXT)]).is_empty());
    }
}
