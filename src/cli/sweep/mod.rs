//! `petal sweep`: every combination of the values asked for, several times over, into one folder
//! that the same command finds again.

mod cells;
mod place;
mod plan;

use std::path::PathBuf;
use std::sync::atomic::Ordering;

use clap::{Arg, ArgAction, ArgMatches, Command};

use crate::analysis::petals::Petals;
use crate::record::Status;
use crate::record::sweep::Swept;
use crate::report;
use crate::runner::sweep::left;
use crate::settings::axes::Asked;
use crate::settings::objective::Objective;
use crate::settings::read::{self, Sources};
use crate::settings::table::CommandKind;

use super::console::Console;
use super::failure::{Exit, Failure};
use super::series::{exit_of, worse};
use super::{os_data, signals, source};

use plan::Planned;

const EXAMPLES: &str = "\
Examples:
  petal sweep --sessions 1,2,4,8,16 --update-pct 0,20 --repeats 3 --run-time 60
  petal sweep --sessions 8,32 --redo-stress LITE,HEAVY --update-pct 100
  petal sweep --readers 0,16 --writers 0,4          readers, writers, and both
  petal sweep --sessions 8 --block-sz 4K,8K,16K --load -s 4 --scale 1G
  petal sweep --sessions 1,8 --db sqlite:/old/petal --db sqlite:/new/petal
  petal sweep --sessions 1,2,4,8 --dry-run          cells, order and time, and no run

Values with a comma between them make an axis; each cell is a run, settled
before, done once in every round, in another order. The same command goes on
with a sweep that was stopped or killed; one that is complete is reported.
--out DIR is the sweep's own folder [default: named after its plan].";

/// What a person asks of a sweep, beside its settings.
pub struct Request<'a> {
    pub asked: Asked,
    pub sources: Sources<'a>,
    /// The sweep's own folder; else one named after the plan.
    pub dir: Option<PathBuf>,
    pub load: bool,
    pub fresh: bool,
    pub again_failed: bool,
    /// What `petal os` records on the database's host.
    pub os_data: Option<PathBuf>,
    /// `--max-latency`: the report marks the highest load that meets it.
    pub objective: Option<Objective>,
}

pub fn command() -> Command {
    let flag = |name: &'static str, help: &'static str| {
        Arg::new(name).long(name).action(ArgAction::SetTrue).help(help)
    };
    let command = Command::new("sweep")
        .about("Run every combination of several values: petals")
        .after_help(EXAMPLES)
        .arg(
            Arg::new("sessions")
                .long("sessions")
                .value_name("N,N,...")
                .help("Sessions over all schemas together [default: schemas x threads]"),
        )
        .arg(flag("dry-run", "Show cells, order and time, and run nothing"))
        .arg(flag("load", "Load the schemas that are missing, before the first cell"))
        .arg(flag("fresh", "Begin anew; what is in the folder is kept beside it"))
        .arg(flag("again-failed", "Do cells again in which no session reached the end"))
        .arg(flag("json", "Print plan and figures of every cell as JSON, and only it, on stdout"))
        .arg(source::objective_arg());
    let command = os_data::arg(command);
    let command = source::schemas_args(command, "How many schemas [default: all that are loaded]");
    source::with_settings(command, CommandKind::Sweep)
        .mut_arg("DB", |arg| arg.action(ArgAction::Append))
}

pub fn run(matches: &ArgMatches, console: &Console) -> Result<Exit, Failure> {
    let mut flags = crate::settings::flags::given(matches, CommandKind::Sweep);
    let dir = flags.get("OUT").filter(|out| !out.is_empty()).map(PathBuf::from);
    if dir.is_some() {
        flags.remove("OUT");
    }
    let is_given = matches.value_source("DB") == Some(clap::parser::ValueSource::CommandLine);
    let targets = matches.get_many::<String>("DB").filter(|_| is_given).unwrap_or_default();
    let request = Request {
        asked: Asked {
            flags,
            sessions: matches.get_one("sessions").cloned(),
            targets: targets.cloned().collect(),
        },
        sources: Sources {
            command: CommandKind::Sweep,
            flags: Default::default(),
            environment: &read::process_environment,
            conf: matches.get_one::<PathBuf>("conf").cloned(),
            directory: Some(PathBuf::from(".")),
            schemas: matches.get_one("schemas").copied(),
        },
        dir,
        load: matches.get_flag("load"),
        fresh: matches.get_flag("fresh"),
        again_failed: matches.get_flag("again-failed"),
        os_data: matches.get_one("os-data").cloned(),
        objective: matches.get_one("objective").cloned(),
    };
    if matches.get_flag("dry-run") {
        let planned = plan::plan(&request, &Default::default(), console)?;
        let standing = place::look(&planned)?;
        console.result(&plan::shown(&planned, standing.as_ref()));
        return Ok(Exit::Done);
    }
    let (swept, exit) = sweep(&request, console)?;
    if matches.get_flag("json") {
        console.result(&json(&swept)?);
    } else {
        let objective = request.objective.as_ref();
        let petals = Petals::of(&swept.observations()).with_objective(objective);
        console.report(|| report::sweep::render(&swept, &petals, objective));
    }
    Ok(exit)
}

/// A sweep for a pipe.
pub fn json(swept: &Swept) -> Result<String, Failure> {
    report::json::sweep(swept)
        .map_err(|error| Failure::new(Exit::Failed, format!("the sweep is no JSON: {error}")))
}

/// Plans, runs what is left, and reports. An error means that the sweep could not begin or had to
/// stop; what was done is kept and reported in its folder.
pub fn sweep(request: &Request<'_>, console: &Console) -> Result<(Swept, Exit), Failure> {
    let signals = signals::count()?;
    let planned = plan::plan(request, &signals, console)?;
    let mut held = place::take(&planned, request)?;
    for name in &held.removed {
        console.warn(&format!("{name} was cut off and is removed; its cell is done again"));
    }
    for folder in &held.damaged {
        console.warn(&format!(
            "the record of a cell is damaged or lost; the cell is done again, and what was there \
             is kept in {}",
            folder.display()
        ));
    }
    let all = held.sweep.plan.order.iter().map(Vec::len).sum::<usize>();
    match left(&held.sweep).len() {
        0 => console.warn("this sweep is complete: nothing is run; --fresh begins it anew"),
        left if left < all => {
            console.warn(&format!("{} of {all} cells are done, {left} are left", all - left));
        }
        _ => {}
    }
    let driven = cells::run(&planned, &mut held, &signals, console);
    let swept = crate::record::sweep::load(held.folder.path())?;
    let written = report::write_sweep(&held.folder, &swept, request.objective.as_ref())?;
    if let Some(path) = written.first() {
        console.warn(&format!("the report is {}", path.display()));
    }
    let mut exit = swept.runs.iter().map(exit_of).fold(driven?, worse);
    if !left(&swept.sweep).is_empty() {
        exit = worse(exit, Exit::Failed);
    }
    if signals.load(Ordering::Relaxed) > 0 {
        exit = Exit::Interrupted;
        console.warn("interrupted: the same command goes on with what is left");
    }
    debug_assert!(swept.sweep.status != Status::Complete || left(&swept.sweep).is_empty());
    Ok((swept, exit))
}

/// One sweep, planned.
impl Planned {
    /// Of a cell, by its number from 1.
    fn settings(&self, number: u32) -> Option<&crate::settings::Settings> {
        self.cells.get(number.checked_sub(1)? as usize)
    }
}
