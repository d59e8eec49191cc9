//! `petal profile`: makes a profile of a database's work over time, from reports, from a run's
//! folder, from a server at work, or of several profiles added up.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{ArgMatches, Command};

use petal_awr::AwrError;
use petal_production::profile::parts::{self, SourcePart};
use petal_production::profile::{ProfileError, add, of_run, of_work, text, watch};
use petal_production::reports::to_profile;
use petal_record as record;
use petal_record::profile::{self as kept, Profile};
use petal_settings::LoopSide;
use petal_settings::table::CommandKind;

use crate::cli::args;
use crate::cli::console::Console;
use crate::cli::failure::{CommandError, Exit};
use crate::cli::{output, signals, source};

const EXAMPLES: &str = "\
Examples:
  petal profile awr_1_*.html -o prod.json       AWR or Statspack, in any order
  petal profile rac1/ rac2/ -o prod.json        a cluster's instances, by time
  petal profile --db postgres://host/db --every 10 --for 3600 -o prod.json
                                                a running server; read only
  petal profile petal-results/...-run           a run of petal
  petal profile erp.json crm.json -o both.json  profiles added by time of day

The file is JSON: docs/petal-profile.schema.json. petal replay drives its load.";

const EVERY_DEFAULT: Duration = Duration::from_secs(10);
const STDOUT: &str = "stdout";

pub fn command() -> Command {
    let files = args::paths("files", "FILE|DIR", "Reports, folders of them, runs, or profiles");
    let command = Command::new("profile")
        .about("Profile a database's work over time, to replay it elsewhere")
        .after_help(EXAMPLES)
        .arg(files.required(false))
        .arg(seconds(
            "every",
            "Length of an interval, of a server at work or of a run [default: 10]",
        ))
        .arg(seconds("for", "How long a server is looked at, with --db"))
        .arg(args::path("output", "FILE", "Write the profile there [default: stdout]").short('o'))
        .arg(args::full());
    args::with_settings(command, CommandKind::Target)
}

fn seconds(name: &'static str, help: &'static str) -> clap::Arg {
    args::value(name, "SECONDS", help).value_parser(args::whole::<u32>(1, 31_622_400))
}

pub fn run(matches: &ArgMatches, console: &Console) -> Result<Exit, CommandError> {
    let files: Vec<&PathBuf> = matches.get_many("files").unwrap_or_default().collect();
    let given = |name: &str| {
        let seconds = matches.get_one::<u32>(name).copied();
        seconds.map(|seconds| Duration::from_secs(seconds.into()))
    };
    let every = given("every").unwrap_or(EVERY_DEFAULT);
    if let Some(file) = matches.get_one::<PathBuf>("output") {
        output::check("-o", file, &files)?;
    }
    let profile = match (files.is_empty(), given("for")) {
        (true, Some(length)) => of_server(matches, every, length, console)?,
        (true, None) => {
            return Err(CommandError::usage(
                "name reports, a run or profiles; or a server at work with --db URL --for SECONDS",
            ));
        }
        (false, Some(_)) => {
            return Err(CommandError::usage(
                "--for is for a server at work (--db): leave it out, or leave out the files",
            ));
        }
        (false, None) => of_files(&files, every, console)?,
    };
    write(&profile, matches, console)
}

fn of_server(
    matches: &ArgMatches,
    every: Duration,
    length: Duration,
    console: &Console,
) -> Result<Profile, CommandError> {
    if every > length {
        return Err(CommandError::usage(format!(
            "--every {} is longer than --for {}: not one interval would end",
            every.as_secs(),
            length.as_secs()
        )));
    }
    let mut settings = source::read(matches, CommandKind::Target, None, console)?;
    settings.loop_side = Some(LoopSide::Client);
    let signals = signals::count()?;
    let context = source::context(&signals, console);
    let engine = context.open(&settings)?;
    let looks = watch::watch(engine.as_ref(), every, length, &context)?;
    let part = of_work::part(&settings.db.redacted(), &looks);
    Ok(parts::profile(vec![part])?)
}

fn of_files(
    files: &[&PathBuf],
    every: Duration,
    console: &Console,
) -> Result<Profile, CommandError> {
    let mut profiles = Vec::new();
    let mut all = Vec::new();
    for path in files {
        let shown = path.display().to_string();
        if path.file_name() == Some(OsStr::new("run.json")) || record::is_one(path) {
            all.push(of_run::part(&shown, &record::load_each_second(path)?, every.as_secs_f64()));
        } else if path.is_dir() {
            all.extend(of_folder(path, console)?);
        } else if kept::is_one(path) {
            profiles.push((shown, kept::load(path)?));
        } else {
            all.extend(of_reports(path, false, console));
        }
    }
    match (profiles.is_empty(), all.is_empty()) {
        (true, _) => Ok(parts::profile(all)?),
        (false, true) => Ok(add::add(&profiles)?),
        (false, false) => Err(CommandError::usage(
            "profiles are added to profiles: make one of the reports first, with -o FILE",
        )),
    }
}

/// The reports of a folder; other files are passed over.
fn of_folder(path: &Path, console: &Console) -> Result<Vec<SourcePart>, CommandError> {
    let entries = fs::read_dir(path).map_err(|error| {
        let message = format!("{}: {error}; check who may read it", path.display());
        CommandError::new(Exit::Environment, message)
    })?;
    let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    files.retain(|file| file.is_file());
    files.sort();
    let parts: Vec<SourcePart> =
        files.iter().flat_map(|file| of_reports(file, true, console)).collect();
    match parts.is_empty() {
        false => Ok(parts),
        true => {
            let message = format!("{}: holds no report", path.display());
            Err(CommandError::new(Exit::Environment, message))
        }
    }
}

fn of_reports(path: &Path, of_folder: bool, console: &Console) -> Vec<SourcePart> {
    let read = petal_awr::read(path);
    let passes_over = of_folder || read.is_archive;
    let mut parts = Vec::new();
    for report in read.reports {
        match report {
            Ok(report) => parts.push(to_profile::part(&report)),
            Err(AwrError::Other { .. }) if passes_over => {}
            Err(error @ AwrError::Foreign { .. }) if passes_over => {
                console.warn(&error.to_string());
            }
            Err(error) => {
                console.error(&error.to_string());
                parts.push(to_profile::unread(&error));
            }
        }
    }
    parts
}

/// The file, and its contents in short: on stdout the file alone, on a terminal its contents alone.
fn write(profile: &Profile, matches: &ArgMatches, console: &Console) -> Result<Exit, CommandError> {
    let file = matches.get_one::<PathBuf>("output");
    let path = file.map_or(Path::new(STDOUT), PathBuf::as_path);
    let text = profile.text(path)?;
    match file {
        None if console.is_brief(matches) => {
            console.report(|| text::render(profile));
            console.warn("the profile itself: -o FILE writes it, and --full prints it here");
        }
        None => console.result(&String::from_utf8_lossy(&text)),
        Some(path) => {
            output::write("-o", path, &text)?;
            console.report(|| text::render(profile));
            console.warn(&format!("the profile is in {}", path.display()));
        }
    }
    Ok(Exit::Done)
}

impl From<ProfileError> for CommandError {
    fn from(error: ProfileError) -> Self {
        let exit = match error {
            ProfileError::Nothing(_) => Exit::Environment,
            ProfileError::Mixed { .. } | ProfileError::Other(_) => Exit::Usage,
        };
        Self::new(exit, error.to_string())
    }
}
