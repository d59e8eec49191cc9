//! `petal report`: rebuilds every output of a run, a sweep or a calibration from its record.

use std::path::{Path, PathBuf};

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};

use crate::analysis::findings;
use crate::analysis::petals::Petals;
use crate::awr::keep;
use crate::record::calibration::Calibration;
use crate::record::{self, Folder, RecordError, Run, calibration, sweep};
use crate::report;

use super::console::Console;
use super::failure::{Exit, Failure};
use super::series::worse;
use super::{os_data, source};

const EXAMPLES: &str = "\
Examples:
  petal report petal-results/20261120T140000Z-sqlite-8x-u20
  petal report --json DIR | jq .latency_us
  petal report petal-results/sweep-sqlite-1a2b3c4d     all of a sweep, finished or not
  petal report --csv petal-results/*-run > runs.csv    a row per run
  petal report DIR --os-data dbhost.ndjson     with what `petal os` saw on the database's host

A run that was killed is rebuilt from its journal and says that it is partial.";

pub fn command() -> Command {
    let command = Command::new("report")
        .about("Rebuild every output of a run from its record, also of a killed one")
        .after_help(EXAMPLES)
        .arg(
            Arg::new("folder")
                .value_name("DIR")
                .required(true)
                .num_args(1..)
                .value_parser(value_parser!(PathBuf))
                .help(
                    "A run's, a sweep's or a calibration's folder; several runs for a table over \
                     all of them",
                ),
        )
        .arg(
            Arg::new("json")
                .long("json")
                .action(ArgAction::SetTrue)
                .help("Print the summary as JSON, and only it, on stdout"),
        )
        .arg(
            Arg::new("csv")
                .long("csv")
                .action(ArgAction::SetTrue)
                .conflicts_with("json")
                .help("Print runs as CSV, a row each, and only it, on stdout"),
        )
        .arg(
            Arg::new("os-text")
                .long("os-text")
                .action(ArgAction::SetTrue)
                .help("Also write vmstat.out, iostat.out and mpstat.out, as SLOB leaves them"),
        )
        .arg(source::objective_arg());
    os_data::arg(command)
}

pub fn run(matches: &ArgMatches, console: &Console) -> Result<Exit, Failure> {
    let folders: Vec<&PathBuf> = matches.get_many("folder").unwrap_or_default().collect();
    let os_data = matches.get_one::<PathBuf>("os-data");
    let is_calibration = |path: &PathBuf| calibration::is_one(path);
    if let ([path], None) = (folders.as_slice(), os_data)
        && is_calibration(path)
    {
        return of_calibration(path, matches, console);
    }
    // A pattern for all results takes those in as well.
    let (passed_over, folders): (Vec<&PathBuf>, Vec<&PathBuf>) =
        folders.into_iter().partition(|path| is_calibration(path));
    for path in &passed_over {
        console.warn(&format!(
            "{} is a calibration and in no table of runs: petal report it alone",
            path.display()
        ));
    }
    if folders.is_empty() {
        return Err(Failure::usage("there is no run among these folders: report one at a time"));
    }
    if let Some(path) = folders.iter().find(|path| sweep::is_one(path)) {
        return match folders.as_slice() {
            [_] if os_data.is_some() => Err(Failure::usage(format!(
                "--os-data: it belongs to one run; name the folder of a run below {}",
                path.display()
            ))),
            [path] => of_sweep(path, matches, console),
            _ => Err(Failure::usage(format!(
                "{} is a sweep: report one sweep at a time",
                path.display()
            ))),
        };
    }
    if let (Some(file), [_, _, ..]) = (os_data, folders.as_slice()) {
        return Err(Failure::usage(format!(
            "--os-data {}: it belongs to one run; name one folder",
            file.display()
        )));
    }
    let mut runs = Vec::new();
    let mut exit = Exit::Done;
    for path in &folders {
        let mut run = report::load(path)?;
        let folder = record::folder_of(path);
        exit = worse(exit, read_server_reports(&mut run, &folder, console));
        if let Some(file) = os_data {
            let seconds = os_data::merge(&mut run, file, &folder, console)?;
            exit = worse(exit, kept(seconds, console));
            exit = worse(exit, kept(record::save(&folder, &run), console));
        }
        exit = worse(exit, kept(report::write_all(&folder, &run), console));
        if matches.get_flag("os-text") {
            exit = worse(exit, write_os_text(&folder, &run, console));
        }
        runs.push(run);
    }
    let names: Vec<String> = folders.iter().map(|path| folder_name(path)).collect();
    let named: Vec<(&str, &Run)> = names.iter().map(String::as_str).zip(&runs).collect();
    if matches.get_flag("csv") {
        console.result(&as_csv(report::sweep::csv::runs(&named))?);
    } else if matches.get_flag("json") {
        for run in &runs {
            console.result(&super::run::json(run)?);
        }
    } else if let [run] = runs.as_slice() {
        console.report(|| report::text::render(run));
    } else {
        console.report(|| report::sweep::of_runs(&named));
    }
    Ok(exit)
}

/// How the writing of a file ended. A record on a read-only medium is still shown, and what could
/// not be written beside it is told.
fn kept<T>(written: Result<T, RecordError>, console: &Console) -> Exit {
    let Err(error) = written else { return Exit::Done };
    let what = match &error {
        RecordError::Io { path, source, .. } => format!("{}: {source}", path.display()),
        other => other.to_string(),
    };
    console.error(&format!(
        "the report is printed, and not all of its files are written: {what}; make room there, or \
         report a copy of the folder where petal may write"
    ));
    Failure::from(error).exit
}

/// Flags that mean nothing of a sweep or a calibration.
fn refuse(matches: &ArgMatches, flags: &[&str], path: &Path) -> Result<(), Failure> {
    match flags.iter().find(|flag| matches.get_flag(flag)) {
        None => Ok(()),
        Some(flag) => Err(Failure::usage(format!(
            "--{flag}: it is of runs, and {} is none; name the folders of runs",
            path.display()
        ))),
    }
}

/// As the folder calls itself.
fn folder_name(path: &Path) -> String {
    let folder = record::folder_of(path);
    folder.path().file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn as_csv<E: std::fmt::Display>(table: Result<String, E>) -> Result<String, Failure> {
    table.map_err(|error| Failure::new(Exit::Failed, format!("the runs are no CSV: {error}")))
}

fn write_os_text(folder: &Folder, run: &Run, console: &Console) -> Exit {
    let written = report::write_os_text(folder, run);
    if written.as_ref().is_ok_and(Vec::is_empty) {
        console.warn(&format!(
            "{}: no vmstat.out: the operating system of the database's host was not watched \
             (NO_OS_PERF_DATA, or another host: --os-data)",
            folder.path().display()
        ));
    }
    kept(written, console)
}

/// A folder gets its reports anew; a file that is kept for later runs is shown.
fn of_calibration(path: &Path, matches: &ArgMatches, console: &Console) -> Result<Exit, Failure> {
    refuse(matches, &["csv", "os-text"], path)?;
    let measured = calibration::load(path)?;
    let mut exit = Exit::Done;
    if path.is_dir() {
        exit = kept(report::write_calibration(&Folder::open(path), &measured), console);
    }
    console.result(&of_one_calibration(&measured, matches.get_flag("json"))?);
    Ok(exit)
}

/// What goes to stdout, here and from `petal calibrate`, which not every build has.
pub(super) fn of_one_calibration(
    calibration: &Calibration,
    is_json: bool,
) -> Result<String, Failure> {
    if !is_json {
        return Ok(report::calibration::render(calibration));
    }
    serde_json::to_string_pretty(calibration)
        .map(|text| text + "\n")
        .map_err(|error| Failure::new(Exit::Failed, format!("the calibration is no JSON: {error}")))
}

/// Reports of the database that lie in the run's folder, such as one that SQL*Plus made afterwards,
/// become part of the record, and what they tell is judged.
fn read_server_reports(run: &mut Run, folder: &Folder, console: &Console) -> Exit {
    let seen = keep::in_folder(folder.path());
    if seen.is_empty() || seen == run.summary.server_reports {
        return Exit::Done;
    }
    run.summary.server_reports = seen;
    run.summary.findings = findings::judge(run);
    kept(record::save(folder, run), console)
}

fn of_sweep(path: &Path, matches: &ArgMatches, console: &Console) -> Result<Exit, Failure> {
    refuse(matches, &["os-text"], path)?;
    let swept = sweep::load(path)?;
    for failure in &swept.sweep.failures {
        let (cell, round) = (failure.number, failure.repeat);
        console.warn(&format!("cell {cell} of round {round} is missing: {}", failure.message));
    }
    let objective = matches.get_one("objective");
    let exit = kept(report::write_sweep(&Folder::open(path), &swept, objective), console);
    if matches.get_flag("csv") {
        console.result(&as_csv(report::sweep::csv::sweep(&swept))?);
    } else if matches.get_flag("json") {
        console.result(&super::sweep::json(&swept)?);
    } else {
        let petals = Petals::of(&swept.observations()).with_objective(objective);
        console.report(|| report::sweep::render(&swept, &petals, objective));
    }
    Ok(exit)
}
