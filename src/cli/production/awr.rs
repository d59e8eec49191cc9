//! `petal awr`: AWR and Statspack reports as rows of figures.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::{ArgGroup, ArgMatches, Command};

use petal_awr::factors::{self, Pattern};
use petal_awr::figure::Figure;
use petal_awr::report::Report;
use petal_awr::{AwrError, columns};
use petal_engine::{Progress as _, ProgressUnit};
use petal_host::numbers::counted;
use petal_judge::petals::Petals;
use petal_production::reports::{observation::observation, over_time};
use petal_production::shown;
use petal_record::file_names::natural;
use petal_record::observation::Observation;
use petal_report::petals::PIOPS;
use petal_report::petals::scatter::{self, ScatterPoint};

use crate::cli::args::{self, flag};
use crate::cli::console::Console;
use crate::cli::failure::{CommandError, Exit};
use crate::cli::output;

const EXAMPLES: &str = "\
Examples:
  petal awr awr.txt.1 awr.txt.8 awr.txt.64  a line each; sessions by the names
  petal awr --csv results/ > results.csv    each report of a folder, all columns
  petal awr --json awrrpt_1_10_11.html      each figure, as printed
  petal awr -q reports.zip                  without findings, except for errors
  petal awr --explain awrrpt_1_10_11.html   where each column came from
  petal awr --format awr_info awr.txt.*     the columns of awr_info, for scripts
  petal awr --format events awr.txt.*       a row for each wait event
  petal awr --format tablespaces awr.txt.*  CSV; also files, and io: functions
  petal awr --over-time --html week.html awr/  the worst hour and its cause
  petal awr --xlsx awr.xlsx results/        a workbook: petals, columns, waits
  petal awr --petals out.html awr_0_*.txt awr_20_*.txt
  petal awr --petals out.html \\
    --pattern '{update_pct}/{sessions}/awr.txt' results/";

const NOTES: &str = "\
Reads text, HTML, .mht, mails, copies with tabs and Markdown tables, excerpts;
gzip'd, in zip and tar archives; 9i to 23ai: AWR of an instance, of a cluster,
of a pluggable database, and Statspack. docs/awr.md describes every column.

Exit codes: 0 done; 1 a file is no such report; 2 usage; 3 a file cannot be
read. The other files are shown.";

/// Reading that takes longer than this shows its progress.
const PROGRESS_AFTER: Duration = Duration::from_secs(2);
/// Notes on files next to a result of one screen.
const NOTES_MAX: usize = 3;
const TITLE: &str = "AWR reports";
/// Folders within folders.
const DEPTH_MAX: usize = 64;

pub fn command() -> Command {
    let command = args::with_workbook(Command::new("awr"))
        .about("Read Oracle AWR and Statspack reports into rows of figures")
        .arg(args::full())
        .arg(args::paths("files", "FILE|DIR", "Reports, or folders to look for them in"))
        .arg(flag("csv", "Print all columns as CSV"))
        .arg(flag("json", "Print everything that was read as JSON"))
        .arg(flag("explain", "Print where each column came from"))
        .arg(
            args::value("format", "FORMAT", "Print in this form [default: table]")
                .value_parser([
                    "table",
                    "csv",
                    "json",
                    "awr_info",
                    "events",
                    "tablespaces",
                    "io",
                ]),
        )
        .arg(flag("over-time", "Print the reports over time: the worst hour with its cause, and outliers"))
        .arg(args::path("html", "FILE", "Write the reports over time as a page"))
        .group(ArgGroup::new("output").args(["csv", "json", "explain", "format"]))
        .arg(args::path("petals", "FILE", "Draw petals of all reports into FILE, .html or .svg"))
        .arg(args::value(
            "pattern",
            "PATTERN",
            "Factors from the names of files, such as 'awr_{update_pct}_{sessions}.txt'; * is anything",
        ));
    args::one_screen(command, EXAMPLES, NOTES, &[])
}

pub fn run(matches: &ArgMatches, console: &Console) -> Result<Exit, CommandError> {
    let pattern = matches.get_one::<String>("pattern").map(|text| Pattern::parse(text));
    let pattern = pattern.transpose().map_err(CommandError::usage)?;
    let given: Vec<&PathBuf> = matches.get_many("files").unwrap_or_default().collect();
    if let Some(file) = matches.get_one::<PathBuf>("html") {
        output::check_ending("--html", file, &["html"])?;
        output::check("--html", file, &given)?;
    }
    if let Some(file) = matches.get_one::<PathBuf>("petals") {
        output::check_ending("--petals", file, &["html", "svg"])?;
        output::check("--petals", file, &given)?;
    }
    #[cfg(feature = "xlsx")]
    crate::cli::report::check_workbook(matches, &given)?;
    let (reports, noted) = (Vec::new(), console.is_brief(matches).then_some(0));
    let mut reader =
        ReportFiles { console, pattern, reports, exit: Exit::Done, passed_over: 0, noted };
    reader.read(&given);
    let ReportFiles { reports, exit, passed_over, noted, .. } = reader;
    let more = noted.unwrap_or(0).saturating_sub(NOTES_MAX);
    if more > 0 {
        console.warn(&format!("{} on files with --full", counted(more as u64, "more note")));
    }
    if passed_over > 0 {
        let what = if passed_over == 1 { "file is no report" } else { "files are no reports" };
        console.warn(&format!("{passed_over} other {what}, and passed over"));
    }
    if reports.is_empty() {
        let exit = if exit == Exit::Done { Exit::Failed } else { exit };
        return Err(CommandError::new(
            exit,
            "no report was read; `petal awr --help` lists the files that it reads",
        ));
    }
    if let Some(pattern) = matches.get_one::<String>("pattern")
        && reports.iter().all(|report| report.factors.is_empty())
    {
        return Err(CommandError::usage(format!(
            "--pattern {pattern}: no path fits it, such as {}; write {{sessions}} for a value and * \
             for anything",
            reports[0].file
        )));
    }
    if let Some(file) = matches.get_one::<PathBuf>("petals") {
        draw(file, &reports, console)?;
        console.warn(&format!("the petals are in {}", file.display()));
    }
    #[cfg(feature = "xlsx")]
    crate::cli::report::write_workbook(matches, console, || shown::workbook::reports(&reports))?;
    let html = matches.get_one::<PathBuf>("html");
    if matches.get_flag("over-time") || html.is_some() {
        over_time(matches, html, &reports, console)?;
    } else {
        console.result(&console.laid_out(|| shown(matches, &reports, console.is_brief(matches)))?);
    }
    Ok(exit)
}

/// The reports as moments in time: a screen of text or CSV, and a page.
fn over_time(
    matches: &ArgMatches,
    html: Option<&PathBuf>,
    reports: &[Report],
    console: &Console,
) -> Result<(), CommandError> {
    let all = over_time::of(reports);
    let wrong = "the reports cannot be written";
    if let Some(file) = html {
        let page = shown::page::over_time(&all).map_err(CommandError::failed(wrong))?;
        output::write("--html", file, page)?;
        console.warn(&format!("the page is in {}", file.display()));
    }
    let is_csv = matches.get_flag("csv")
        || matches.get_one::<String>("format").is_some_and(|format| format == "csv");
    let shown = match is_csv {
        true => shown::over_time::csv(&all).map_err(CommandError::failed(wrong))?,
        false => console.laid_out(|| match console.is_brief(matches) {
            true => shown::over_time::brief(&all),
            false => shown::over_time::render(&all),
        }),
    };
    console.result(&shown);
    Ok(())
}

/// A separate page or drawing, by the ending of the name.
fn draw(file: &Path, reports: &[Report], console: &Console) -> Result<(), CommandError> {
    let ending = file.extension().and_then(|ending| ending.to_str()).unwrap_or("");
    let failed = |error: &dyn std::fmt::Display| {
        CommandError::new(Exit::Failed, format!("--petals {}: {error}", file.display()))
    };
    let observations: Vec<Observation> = reports.iter().map(observation).collect();
    let petals = Petals::of(&observations);
    let is_svg = ending == "svg";
    let drawn = if petal_report::petals::can_draw(&petals, &PIOPS) {
        if is_svg {
            petal_report::petals::svg(&petals, &PIOPS)
        } else {
            petal_report::html::petals(TITLE, &petals, &observations)
                .map_err(|error| failed(&error))?
        }
    } else {
        let spots = spots(reports);
        if spots.is_empty() {
            return Err(failed(
                &"nothing to draw: a point needs PIOPS and a single-block read time from a report; \
                  --csv shows which are missing",
            ));
        }
        console.warn(&format!(
            "{} of {} reports are drawn as points, without lines: no file's name holds the \
             number of sessions; --pattern says where",
            spots.len(),
            reports.len()
        ));
        if is_svg {
            scatter::svg(&spots)
        } else {
            let figure = scatter::figure(&spots);
            petal_report::html::reports(TITLE, figure, &observations)
                .map_err(|error| failed(&error))?
        }
    };
    output::write("--petals", file, drawn)
}

/// The reports that have both figures, by their databases.
fn spots(reports: &[Report]) -> Vec<ScatterPoint> {
    let spot = |report: &Report| {
        Some(ScatterPoint {
            group: report.header.db.as_ref().map_or_else(|| "no name".to_owned(), Figure::shown),
            name: report.file.rsplit('/').next().unwrap_or(&report.file).to_owned(),
            piops: columns::value(report, "piops").filter(|&piops| piops > 0.0)?,
            read_us: columns::value(report, "read_us")?,
        })
    };
    reports.iter().filter_map(spot).collect()
}

fn shown(matches: &ArgMatches, reports: &[Report], is_brief: bool) -> Result<String, CommandError> {
    let flag = ["csv", "json", "explain"].into_iter().find(|name| matches.get_flag(name));
    let format = matches.get_one::<String>("format").map(String::as_str);
    let wrong = "the reports cannot be written";
    Ok(match flag.or(format) {
        Some("json") => shown::json(reports).map_err(CommandError::failed(wrong))?,
        Some("csv") => shown::csv::table(reports).csv().map_err(CommandError::failed(wrong))?,
        Some("tablespaces") => {
            shown::io_rows::tablespaces(reports).map_err(CommandError::failed(wrong))?
        }
        Some("io") => shown::io_rows::functions(reports).map_err(CommandError::failed(wrong))?,
        Some("explain") => shown::explain::render(reports),
        Some("awr_info") => shown::info::render(reports),
        Some("events") => shown::events::render(reports),
        _ if is_brief => shown::table::brief(reports, matches.get_flag("quiet")),
        _ => shown::table::render(reports, matches.get_flag("quiet")),
    })
}

struct ReportFiles<'c> {
    console: &'c Console,
    pattern: Option<Pattern>,
    reports: Vec<Report>,
    exit: Exit,
    /// Files of a folder that are something else.
    passed_over: usize,
    /// Notes so far, if only the first [`NOTES_MAX`] are shown.
    noted: Option<usize>,
}

impl ReportFiles<'_> {
    fn read(&mut self, given: &[&PathBuf]) {
        let mut files: Vec<(PathBuf, bool)> = Vec::new();
        for path in given {
            if path.is_dir() {
                let mut found = Vec::new();
                self.folder(path, DEPTH_MAX, &mut found);
                found.sort_by_cached_key(|path| natural(path));
                files.extend(found.into_iter().map(|path| (path, true)));
            } else {
                files.push(((*path).clone(), false));
            }
        }
        let begun = Instant::now();
        let mut is_shown = false;
        for (at, (path, of_folder)) in files.iter().enumerate() {
            if !is_shown && begun.elapsed() >= PROGRESS_AFTER {
                let left = (files.len() - at) as u64;
                self.console.phase("reading reports", left, ProgressUnit::Items);
                is_shown = true;
            }
            self.read_one(path, *of_folder);
            if is_shown {
                self.console.advance(1);
            }
        }
    }

    fn read_one(&mut self, path: &Path, of_folder: bool) {
        let read = petal_awr::read(path);
        let is_among_others = of_folder || read.is_archive;
        let reports = self.reports.len();
        let has_failed =
            read.reports.iter().any(|it| !matches!(it, Ok(_) | Err(AwrError::Other { .. })));
        for report in read.reports {
            self.report(report, is_among_others);
        }
        if read.is_archive && !of_folder && !has_failed && self.reports.len() == reports {
            self.fail(Exit::Failed, &format!("{}: no report is in the archive", path.display()));
        }
    }

    fn report(&mut self, report: Result<Report, AwrError>, is_among_others: bool) {
        match report {
            Ok(mut report) => {
                for note in &report.notes {
                    self.note(&format!("{}: {note}", report.file));
                }
                report.factors = self.factors(Path::new(&report.file), &report);
                self.reports.push(report);
            }
            Err(AwrError::Other { .. }) if is_among_others => self.passed_over += 1,
            // A report may be lost in it: it is named, and fails nothing else.
            Err(error @ AwrError::Foreign { .. }) if is_among_others => {
                self.note(&error.to_string());
            }
            Err(error) => {
                let exit = match error {
                    AwrError::Unreadable { .. } => Exit::Environment,
                    _ => Exit::Failed,
                };
                self.fail(exit, &error.to_string());
            }
        }
    }

    fn factors(&mut self, path: &Path, report: &Report) -> Vec<(String, String)> {
        let Some(pattern) = &self.pattern else { return factors::of_name(path, report) };
        pattern.factors(path).unwrap_or_else(|| {
            self.note(&format!("{}: does not fit --pattern, and has no factors", report.file));
            Vec::new()
        })
    }

    fn note(&mut self, text: &str) {
        self.noted.iter_mut().for_each(|noted| *noted += 1);
        if self.noted.is_none_or(|noted| noted <= NOTES_MAX) {
            self.console.warn(text);
        }
    }

    fn fail(&mut self, exit: Exit, message: &str) {
        self.console.error(message);
        if self.exit != Exit::Environment {
            self.exit = exit;
        }
    }

    /// Files below a folder; links to folders are not followed, so that there is no circle.
    fn folder(&mut self, folder: &Path, depth: usize, found: &mut Vec<PathBuf>) {
        let entries = match fs::read_dir(folder) {
            Ok(entries) => entries,
            Err(error) => {
                let message = format!("{}: {error}; check who may read it", folder.display());
                return self.fail(Exit::Environment, &message);
            }
        };
        for entry in entries.flatten() {
            let path = entry.path();
            let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
            if is_folder && depth > 0 {
                self.folder(&path, depth - 1, found);
            } else if path.is_file() {
                found.push(path);
            }
        }
    }
}
