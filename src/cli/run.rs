//! `petal run`: one run, or REPEATS of them.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicU8;

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use rand::TryRng as _;
use time::OffsetDateTime;

use crate::analysis::findings;
use crate::driver::job::Job;
use crate::driver::run::{end_hook, post_hook, run as drive};
use crate::engine::Engine;
use crate::record::{self, Folder, Run, Status};
use crate::settings::Settings;
use crate::settings::table::CommandKind;
use crate::stats::target::LoadedSchema;
use crate::workload::plan::{Workload, seats};

use super::console::Console;
use super::failure::{Exit, Failure};
use super::{os_data, signals, source};
use crate::report;

const EXAMPLES: &str = "\
Examples:
  petal run -s 4 -t 8                          what slob.conf says, 32 sessions
  petal run -s 4 --update-pct 0 --run-time 60  physical reads only
  petal run 4 --work-loop 1000 --update-pct 20 fixed work: 4000 operations, 800 commits
  petal run -s 4 --readers 6 --writers 2       whole sessions of one kind
  petal run -s 4 --rate 500                    open loop: response time from the intended start

The record is left in petal-results/<UTC stamp>-<name>/. Ctrl-C once stops
cleanly and reports; twice stops at once. A killed run: petal report DIR.";

pub fn command() -> Command {
    let command = Command::new("run")
        .about("Run the method: settle, connect, trigger, run, record, report")
        .after_help(EXAMPLES)
        .arg(
            Arg::new("form")
                .value_name("N")
                .value_parser(value_parser!(u32).range(1..))
                .help("SLOB's own form of -s"),
        )
        .arg(
            Arg::new("json")
                .long("json")
                .action(ArgAction::SetTrue)
                .help("Print the summary as JSON, and only it, on stdout"),
        )
        .arg(Arg::new("name").long("name").value_name("NAME").help("Names the run's folder"));
    let command = os_data::arg(command);
    let command = source::schemas_args(command, "How many schemas [default: all that are loaded]");
    source::with_settings(command, CommandKind::Run)
}

pub fn run(matches: &ArgMatches, console: &Console) -> Result<Exit, Failure> {
    let schemas = match (matches.get_one::<u32>("schemas"), matches.get_one::<u32>("form")) {
        (Some(_), Some(form)) => {
            return Err(Failure::usage(format!(
                "-s and N={form} both say how many schemas: give one of them"
            )));
        }
        (flag, form) => flag.or(form).copied(),
    };
    let settings = source::read(matches, CommandKind::Run, schemas, console)?;
    let engine = source::open(&settings)?;
    let mut series = Series::new(engine, settings, signals::count())?;
    series.os_data = matches.get_one::<PathBuf>("os-data").cloned();
    let mut exit = Exit::Done;
    for repeat in 1..=series.settings.repeats {
        let name = matches.get_one::<String>("name");
        let kept = series.run_once(repeat, name.map(String::as_str), console)?;
        if matches.get_flag("json") {
            console.result(&json(&kept.run)?);
        } else {
            console.result(&report::text::render(&kept.run));
        }
        if let Some(folder) = &kept.folder {
            console.warn(&format!("the record is in {}", folder.path().display()));
        }
        exit = worse(exit, kept.exit());
        if let Some(failure) = kept.failure {
            return Err(failure);
        }
        if exit == Exit::Interrupted {
            break;
        }
    }
    Ok(exit)
}

/// Runs on one target under the same settings.
pub struct Series {
    engine: Arc<dyn Engine>,
    pub settings: Settings,
    loaded: Vec<LoadedSchema>,
    rows: u64,
    schemas: u32,
    seed: u64,
    signals: Arc<AtomicU8>,
    /// What `petal os` records on the database's host; read when a run is over.
    pub os_data: Option<PathBuf>,
}

/// A run as it was kept.
pub struct Kept {
    pub run: Run,
    pub folder: Option<Folder>,
    /// What went wrong after the figures were there.
    pub failure: Option<Failure>,
}

impl Kept {
    pub fn exit(&self) -> Exit {
        match self.run.summary.status {
            Status::Interrupted => Exit::Interrupted,
            Status::Failed => Exit::Failed,
            Status::Complete if !self.run.summary.sessions_lost.is_empty() => Exit::Failed,
            Status::Complete => Exit::Done,
        }
    }
}

/// The summary for a pipe.
pub fn json(run: &Run) -> Result<String, Failure> {
    match report::json::summary(run) {
        Ok(text) => Ok(text + "\n"),
        Err(error) => Err(Failure::new(Exit::Failed, format!("the summary is no JSON: {error}"))),
    }
}

fn worse(a: Exit, b: Exit) -> Exit {
    if b.code() > a.code() { b } else { a }
}

impl Series {
    /// Checks the settings against what is loaded, before anything is touched.
    pub fn new(
        engine: Arc<dyn Engine>,
        settings: Settings,
        signals: Arc<AtomicU8>,
    ) -> Result<Self, Failure> {
        let mut loaded = engine.loaded()?;
        let schemas = settings.schemas.unwrap_or(loaded.len() as u32);
        let missing = (1..=schemas.max(1)).find(|n| loaded.iter().all(|there| there.number != *n));
        if let Some(missing) = missing {
            return Err(Failure::new(
                Exit::Environment,
                format!(
                    "{}: schema {missing} is not loaded; `petal setup -s {}{}` loads it",
                    settings.db.redacted(),
                    schemas.max(1),
                    match settings.db.redacted().as_str() {
                        "sqlite:petal-data" => String::new(),
                        url => format!(" --db {url}"),
                    },
                ),
            ));
        }
        loaded.retain(|there| there.number <= schemas);
        loaded.sort_by_key(|there| there.number);
        let smallest = loaded.iter().min_by_key(|there| there.rows);
        let block_size = loaded.first().map_or(0, |there| there.block_size);
        let rows = settings
            .check_against(block_size as u32, smallest.map(|there| (there.rows, there.number)))?
            .rows;
        let seed = settings.seed.map_or_else(draw_seed, Ok)?;
        Ok(Self { engine, settings, loaded, rows, schemas, seed, signals, os_data: None })
    }

    /// One run: driven, judged, written. An error means that nothing was measured.
    pub fn run_once(
        &self,
        repeat: u32,
        name: Option<&str>,
        console: &Console,
    ) -> Result<Kept, Failure> {
        let seats = seats(&self.settings, self.schemas, self.engine.endpoints());
        let block_size = self.loaded.first().map_or(1, |there| there.block_size);
        let workload =
            Workload::new(&self.settings, self.rows, block_size, self.schemas, self.seed, repeat);
        let name = name.map_or_else(|| self.name(seats.len()), str::to_owned);
        let folder = Folder::create(&self.settings.out, &name, OffsetDateTime::now_utc())?;
        let job = Job {
            engine: self.engine.as_ref(),
            settings: &self.settings,
            workload,
            seats,
            loaded: self.loaded.clone(),
            folder: Some(&folder),
            signals: self.signals.clone(),
            watch: console,
        };
        let driven = drive(&job);
        if driven.is_err() {
            folder.remove_if_empty();
        }
        let mut run = driven?;
        let mut failure = None;
        match post_hook(&job) {
            Ok(call) => run.details.hooks.extend(call),
            Err(error) => {
                run.details.gaps.push(error.to_string());
                failure = Some(Failure::from(error));
            }
        }
        run.summary.findings = findings::judge(&run);
        // After the hook, which may have fetched the file.
        if let Some(file) = &self.os_data {
            os_data::wait_for(&run, file);
            if let Err(error) = os_data::merge(&mut run, file, &folder, console) {
                let way_out = format!(
                    "{}; the run itself is recorded: petal report {} --os-data FILE",
                    error.message,
                    folder.path().display()
                );
                run.details.gaps.push(error.message);
                run.summary.findings = findings::judge(&run);
                failure = failure.or(Some(Failure::new(error.exit, way_out)));
            }
        }
        failure = failure.or(write(&folder, &run).err());
        match end_hook(&job) {
            Ok(None) => {}
            Ok(Some(call)) => {
                run.details.hooks.push(call);
                failure = failure.or(write(&folder, &run).err());
            }
            Err(error) => failure = failure.or(Some(error.into())),
        }
        Ok(Kept { run, folder: Some(folder), failure })
    }

    fn name(&self, sessions: usize) -> String {
        let mix = match (self.settings.readers, self.settings.writers) {
            (None, None) => format!("u{}", self.settings.update_pct),
            (readers, writers) => format!("r{}-w{}", readers.unwrap_or(0), writers.unwrap_or(0)),
        };
        format!("{}-{sessions}x-{mix}", self.settings.db.scheme)
    }
}

fn write(folder: &Folder, run: &Run) -> Result<(), Failure> {
    record::save(folder, run)?;
    report::write_all(folder, run)?;
    Ok(())
}

/// A fresh seed. 53 bits, so that every JSON reader keeps it exactly.
pub fn draw_seed() -> Result<u64, Failure> {
    rand::rngs::SysRng.try_next_u64().map(|drawn| drawn >> 11).map_err(|error| {
        Failure::new(
            Exit::Environment,
            format!("the system gives no random seed: {error}; give one with --seed"),
        )
    })
}
