//! `petal report`: rebuilds every output of a run, a sweep or a calibration from its record.

use std::path::{Path, PathBuf};

use clap::{ArgMatches, Command};

use petal_judge::awr::to_record;
use petal_judge::break_point;
use petal_record::{self as record, RecordError, RecordFolder, Run, sweep};
use petal_run::os_data;

#[cfg(feature = "xlsx")]
use petal_record::sweep::Swept;
use petal_report::listed::ListedRecord;
#[cfg(feature = "xlsx")]
use petal_report::workbook::XlsxError;

use super::args::{self, flag, is_set};
use super::console::Console;
use super::failure::{CommandError, Exit};
#[cfg(feature = "xlsx")]
use super::output;
use super::record_folders::{DEPTH_MAX, is_record, listed, records_below};
use super::record_kinds;

const EXAMPLES: &str = "\
Examples:
  petal report petal-results/20261120T140000Z-sqlite-8x-u20
  petal report --json DIR | jq .latency_us
  petal report petal-results/sweep-sqlite-1a2b3c4d   a sweep, finished or not
  petal report petal-results                       the records below it
  petal report --csv petal-results > runs.csv      a row per run
  petal report DIR --xlsx run.xlsx                 a workbook with charts
  petal report DIR --os-data dbhost.ndjson         with the record of `petal os`
                                                   on the database's host

A run that was killed is rebuilt from its seconds and says that it is partial.";

const NO_CSV: &str = "cannot write CSV";

pub fn command() -> Command {
    args::with_workbook(Command::new("report"))
        .about("Rebuild every output of a run from its record, killed or not")
        .after_help(EXAMPLES)
        .arg(args::paths(
            "folder",
            "DIR",
            "A run's, a sweep's or a calibration's folder; a folder of them for a list; several runs \
             for a table over all of them",
        ))
        .arg(flag("json", "Print the summary as JSON, and only it, on stdout"))
        .arg(args::full())
        .arg(
            flag("csv", "Print runs as CSV, a row each, and only it, on stdout")
                .conflicts_with("json"),
        )
        .arg(flag(
            "os-text",
            "Also write vmstat.out, iostat.out and mpstat.out, as SLOB leaves them",
        ))
        .arg(flag("timeline", "Also write timeline.csv, a row each second"))
        .arg(args::objective())
        .arg(args::os_data())
}

pub fn run(matches: &ArgMatches, console: &Console) -> Result<Exit, CommandError> {
    let folders: Vec<&PathBuf> = matches.get_many("folder").unwrap_or_default().collect();
    #[cfg(feature = "xlsx")]
    check_workbook(matches, &folders)?;
    match (folders.as_slice(), matches.get_one::<PathBuf>("os-data")) {
        ([path], None) if path.is_dir() && !is_record(path) => of_below(path, matches, console),
        ([path], os_data) => of_one(path, os_data, matches, console),
        (several, None) => of_several(several, matches, console),
        (_, Some(file)) => Err(CommandError::usage(format!(
            "--os-data {}: it belongs to one run; name one folder",
            file.display()
        ))),
    }
}

fn of_one(
    path: &Path,
    os_data: Option<&PathBuf>,
    matches: &ArgMatches,
    console: &Console,
) -> Result<Exit, CommandError> {
    match (os_data, record_kinds::of(path)) {
        (None, Some(kind)) => {
            refuse(matches, &["csv", "os-text", "timeline"], path)?;
            kind.report(path, (matches, console))
        }
        (Some(_), Some(kind)) => Err(CommandError::usage(format!(
            "--os-data: it belongs to one run; {} is {} and no run",
            path.display(),
            kind.words()[1]
        ))),
        (None, None) if sweep::is_one(path) => of_sweep(path, matches, console),
        (Some(_), None) if sweep::is_one(path) => Err(CommandError::usage(format!(
            "--os-data: it belongs to one run; name the folder of a run below {}",
            path.display()
        ))),
        _ => {
            let (run, exit) = of_run(path, os_data, matches, console)?;
            of_runs(&[(path, run)], matches, console)?;
            Ok(exit)
        }
    }
}

/// Lists the records below a folder that has no record, or prints the runs as JSON, CSV or a
/// workbook.
fn of_below(path: &Path, matches: &ArgMatches, console: &Console) -> Result<Exit, CommandError> {
    let skip = |why: String| console.warn(&format!("skipped: {why}"));
    let below = records_below(path, DEPTH_MAX, &mut |why| skip(why));
    if below.is_empty() {
        return Err(RecordError::NotARecord { path: path.to_owned() }.into());
    }
    let asks_for = |flag| is_set(matches, flag);
    if ["json", "csv", "os-text", "timeline"].into_iter().any(asks_for) || has_workbook(matches) {
        return of_several(&below.iter().collect::<Vec<_>>(), matches, console);
    }
    let named = below.iter().map(|below| {
        let name = below.strip_prefix(path).unwrap_or(below).display().to_string();
        listed(below, name)
    });
    let known = named.filter_map(|one| one.map_err(|error| skip(error.to_string())).ok());
    let known: Vec<ListedRecord> = known.collect();
    console.report(|| petal_report::listed::render(&path.display().to_string(), &known));
    Ok(Exit::Done)
}

fn has_workbook(matches: &ArgMatches) -> bool {
    matches!(matches.try_contains_id("xlsx"), Ok(true))
}

/// Outcome of writing a file. A record on a read-only medium is still shown, and each file that
/// could not be written is reported.
pub(super) fn kept<T>(written: Result<T, RecordError>, console: &Console) -> Exit {
    let Err(error) = written else { return Exit::Done };
    let what = match &error {
        RecordError::Io { path, source, .. } => format!("{}: {source}", path.display()),
        other => other.to_string(),
    };
    let next = match &error {
        RecordError::Kept { .. } => "",
        _ => "; make room there, or report a copy of the folder where petal may write",
    };
    let what = format!("the report is printed, and not all of its files are written: {what}{next}");
    console.error(&what);
    CommandError::from(error).exit
}

/// A pattern for all results matches other folders, too: sweeps are reported one by one, and the
/// rest is skipped with a note.
fn of_several(
    folders: &[&PathBuf],
    matches: &ArgMatches,
    console: &Console,
) -> Result<Exit, CommandError> {
    let skip = |path: &Path, why: &str| console.warn(&format!("{}: {why}", path.display()));
    let mut runs: Vec<(&Path, Run)> = Vec::new();
    let (mut exit, mut sweeps) = (Exit::Done, 0);
    for path in folders.iter().map(|path| path.as_path()) {
        if let Some(kind) = record_kinds::of(path) {
            let why = "which is in no table of runs; report it alone";
            skip(path, &format!("skipped: it is {}, {why}", kind.words()[1]));
            continue;
        }
        if sweep::is_one(path) && matches.get_flag("csv") {
            skip(path, "skipped: it is a sweep, whose cells are in its sweep.csv");
            continue;
        }
        if sweep::is_one(path) && has_workbook(matches) {
            skip(path, "skipped: it is a sweep, which has its own workbook; report it alone");
            continue;
        }
        let reported = if sweep::is_one(path) {
            of_sweep(path, matches, console).inspect(|_| sweeps += 1)
        } else {
            of_run(path, None, matches, console).map(|(run, exit)| {
                runs.push((path, run));
                exit
            })
        };
        match reported {
            Ok(written) => exit = exit.max(written),
            // A failure names the path itself.
            Err(failure) => console.warn(&format!("skipped: {}", failure.message)),
        }
    }
    if !runs.is_empty() {
        of_runs(&runs, matches, console)?;
    } else if sweeps == 0 {
        return Err(CommandError::usage(
            "there is no run and no sweep among these folders: name those that petal run or petal \
             sweep wrote",
        ));
    }
    Ok(exit)
}

/// Reads a run, with later additions to its folder, and writes its reports again.
fn of_run(
    path: &Path,
    os_data: Option<&PathBuf>,
    matches: &ArgMatches,
    console: &Console,
) -> Result<(Run, Exit), CommandError> {
    let is_exported = os_data.is_some()
        || has_workbook(matches)
        || ["os-text", "timeline"].into_iter().any(|flag| matches.get_flag(flag));
    let mut run = match is_exported {
        true => petal_report::load_each_second(path)?,
        false => petal_report::load(path)?,
    };
    let folder = record::folder_of(path);
    let mut exit = read_server_reports(&mut run, &folder, console);
    if let Some(file) = os_data {
        let seconds = os_data::merge(&mut run, file, &folder, &|line| console.warn(line))?;
        exit = exit.max(kept(seconds, console));
        exit = exit.max(kept(record::save(&folder, &run), console));
    }
    exit = exit.max(kept(petal_report::write_all(&folder, &run), console));
    if matches.get_flag("os-text") {
        exit = exit.max(write_os_text(&folder, &run, console));
    }
    if matches.get_flag("timeline") {
        exit = exit.max(kept(petal_report::write_timeline(&folder, &run), console));
    }
    Ok((run, exit))
}

/// Prints the report of one run, or a table of several.
fn of_runs(
    runs: &[(&Path, Run)],
    matches: &ArgMatches,
    console: &Console,
) -> Result<(), CommandError> {
    let names: Vec<String> = runs.iter().map(|(path, _)| folder_name(path)).collect();
    let all = runs.iter().map(|(_, run)| run);
    let named: Vec<(&str, &Run)> = names.iter().map(String::as_str).zip(all).collect();
    #[cfg(feature = "xlsx")]
    write_workbook(matches, console, || workbook_of_runs(&named))?;
    if matches.get_flag("csv") {
        let rows = petal_report::sweep::csv::runs(&named);
        console.result(&rows.csv().map_err(CommandError::failed(NO_CSV))?);
    } else if matches.get_flag("json") {
        for (_, run) in runs {
            console.result(&json(run)?);
        }
    } else if let [(path, run)] = runs {
        console.report(|| match console.is_brief(matches) {
            true => petal_report::text::brief(run, &path.display().to_string()),
            false => petal_report::text::render(run),
        });
    } else {
        console.report(|| match console.is_brief(matches) {
            true => petal_report::sweep::brief_of_runs(&named),
            false => petal_report::sweep::of_runs(&named),
        });
    }
    Ok(())
}

#[cfg(feature = "xlsx")]
pub(super) fn workbook_of_runs(named: &[(&str, &Run)]) -> Result<Vec<u8>, XlsxError> {
    let of_runs: Vec<&Run> = named.iter().map(|(_, run)| *run).collect();
    let rows = petal_report::sweep::table::SweepRows::of_runs(&of_runs).0;
    let observations: Vec<_> = rows.into_iter().map(|row| row.seen).collect();
    petal_report::workbook::runs(petal_report::sweep::csv::runs(named), named, &observations)
}

#[cfg(feature = "xlsx")]
pub(super) fn workbook_of_sweep(swept: &Swept) -> Result<Vec<u8>, XlsxError> {
    let names = swept.sweep.cells.iter().map(|cell| cell.folder.as_str());
    let named: Vec<(&str, &Run)> = names.zip(&swept.runs).collect();
    let rows = petal_report::sweep::csv::sweep(swept);
    petal_report::workbook::runs(rows, &named, &swept.observations())
}

/// Refuses the workbook that `--xlsx` named before anything is read, if it cannot be written.
#[cfg(feature = "xlsx")]
pub(super) fn check_workbook(
    matches: &ArgMatches,
    inputs: &[&PathBuf],
) -> Result<(), CommandError> {
    let Some(file) = matches.get_one::<PathBuf>("xlsx") else { return Ok(()) };
    output::check_ending("--xlsx", file, &["xlsx"])?;
    output::check("--xlsx", file, inputs)
}

/// Writes the workbook that `--xlsx` named, if it did.
#[cfg(feature = "xlsx")]
pub(super) fn write_workbook(
    matches: &ArgMatches,
    console: &Console,
    make: impl FnOnce() -> Result<Vec<u8>, XlsxError>,
) -> Result<(), CommandError> {
    let Some(file) = matches.get_one::<PathBuf>("xlsx") else { return Ok(()) };
    let made = make().map_err(CommandError::failed(format!("--xlsx {}", file.display())))?;
    output::write("--xlsx", file, made)?;
    console.warn(&format!("the workbook is {}", file.display()));
    Ok(())
}

/// Flags that mean nothing of a record that is no run.
fn refuse(matches: &ArgMatches, flags: &[&str], path: &Path) -> Result<(), CommandError> {
    match flags.iter().find(|flag| matches.get_flag(flag)) {
        None => Ok(()),
        Some(flag) => Err(CommandError::usage(format!(
            "--{flag}: it is of runs, and {} is not a run; name the folders of runs",
            path.display()
        ))),
    }
}

/// The summary for a pipe.
pub(super) fn json(run: &Run) -> Result<String, CommandError> {
    petal_report::json::summary(run).map_err(CommandError::failed("the summary is no JSON"))
}

/// The folder's own name, for messages.
pub(super) fn folder_name(path: &Path) -> String {
    let folder = record::folder_of(path);
    folder.path().file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn write_os_text(folder: &RecordFolder, run: &Run, console: &Console) -> Exit {
    let written = petal_report::write_os_text(folder, run);
    if written.as_ref().is_ok_and(Vec::is_empty) {
        console.warn(&format!(
            "{}: no vmstat.out: the operating system of the database's host was not watched \
             (NO_OS_PERF_DATA, or another host: --os-data)",
            folder.path().display()
        ));
    }
    kept(written, console)
}

/// Reports of the database that lie in the run's folder, such as one that SQL*Plus made afterwards,
/// become part of the record and are judged.
fn read_server_reports(run: &mut Run, folder: &RecordFolder, console: &Console) -> Exit {
    let seen = to_record::in_folder(folder.path());
    if seen.is_empty() || seen == run.summary.server_reports {
        return Exit::Done;
    }
    run.summary.server_reports = seen;
    petal_judge::conclude(run);
    kept(record::save(folder, run), console)
}

fn of_sweep(path: &Path, matches: &ArgMatches, console: &Console) -> Result<Exit, CommandError> {
    refuse(matches, &["os-text", "timeline"], path)?;
    let swept = record::sweep::load(path)?;
    for failure in &swept.sweep.failures {
        let (cell, round) = (failure.number, failure.repeat);
        console.warn(&format!("cell {cell} of round {round} is missing: {}", failure.message));
    }
    let objective = matches.get_one("objective");
    let exit =
        kept(petal_report::write_sweep(&RecordFolder::open(path), &swept, objective), console);
    #[cfg(feature = "xlsx")]
    write_workbook(matches, console, || workbook_of_sweep(&swept))?;
    if matches.get_flag("csv") {
        let rows = petal_report::sweep::csv::sweep(&swept);
        console.result(&rows.csv().map_err(CommandError::failed(NO_CSV))?);
    } else if matches.get_flag("json") {
        console.result(&super::sweep::json(&swept, objective)?);
    } else {
        match break_point::of(&swept, objective) {
            Some(found) if console.is_brief(matches) => {
                console.report(|| petal_report::replay::brief(&found));
                return Ok(exit);
            }
            Some(found) => console.report(|| petal_report::replay::break_point(&found) + "\n"),
            None => {}
        }
        super::sweep::show(&swept, path, objective, matches, console);
    }
    Ok(exit)
}
