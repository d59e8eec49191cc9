//! `petal interfere`: the price of other work on the platform, for the users of a database.

use std::path::PathBuf;
use std::time::Duration;

use clap::parser::ValueSource;
use clap::{ArgAction, ArgMatches, Command};

use petal_engine::Engine;
use petal_record::Run;
use petal_run::neighbour_plan::{NeighbourPlan, PlannedNeighbour};
use petal_run::series::RunSeries;
use petal_run::tenant::open_other_schemas;
use petal_settings::Settings;
use petal_settings::objective::Objective;
use petal_settings::table::CommandKind;

use super::args::{self, value, whole};
use super::console::Console;
use super::failure::{CommandError, Exit};
use super::{live, run, signals, source};

const EXAMPLES: &str = "\
Examples:
  petal interfere --db postgres://user@host/db --rate 500 --with vacuum
  petal interfere --rate 500 --with full-scan --with backup \\
    --max-latency op.p99=5ms
  petal interfere --rate 500 --with 'nice rsync -a /data/ /elsewhere'
  petal interfere --rate 500 --with none   the control: no difference

One run at RATE. In each pair of slots a neighbour is at work in one, not in the
other; the order is drawn from the seed. Choose a RATE of about half of the
ops/s of petal run with these sessions. Neighbours by name: none; tenant (needs
more schemas than -s);
  PostgreSQL            vacuum, checkpoint, index-build, full-scan, backup
  MySQL and MariaDB     full-scan, index-build, checkpoint, backup
Everything else is a command for /bin/sh. It ends with its slot, and begins
again if it ends early. Ctrl-C ends both and keeps the measurements. Exit code
1: a neighbour failed, and has no price.";

pub fn command() -> Command {
    let command = Command::new("interfere")
        .about("Measure the price of a neighbour: a backup, vacuum, script")
        .before_help(
            "Example: petal interfere --db postgres://u@host/db -s 4 --rate 500 --with vacuum",
        )
        .after_help(EXAMPLES)
        .arg(
            value("with", "NAME_OR_COMMAND", "Neighbour, by name or as a command; also several")
                .action(ArgAction::Append)
                .required(true),
        )
        .arg(
            value("pairs", "N", "Pairs of slots with each neighbour and without it")
                .value_parser(whole::<u64>(3, 10_000))
                .default_value("10"),
        )
        .arg(
            value("slot", "SECONDS", "Length of a slot, in whole seconds")
                .value_parser(seconds)
                .default_value("6s"),
        )
        .arg(
            value("settling", "SECONDS", "Begin of each slot that is not counted")
                .value_parser(seconds)
                .default_value("2s"),
        )
        .arg(args::objective())
        .args(args::run_output())
        .arg(value("name", "NAME", "Names the run's folder"))
        .arg(args::os_data())
        .args(live::args())
        .args(live::metrics_arg())
        .arg(args::schemas("How many schemas [default: all that are loaded]"));
    args::with_settings(command, CommandKind::Run)
}

/// Whole seconds, such as 6 or 6s.
fn seconds(text: &str) -> Result<u64, String> {
    whole::<u64>(1, 3600)(text.strip_suffix('s').unwrap_or(text))
}

pub fn run(matches: &ArgMatches, console: &Console) -> Result<Exit, CommandError> {
    let schemas = matches.get_one::<u32>("schemas").copied();
    let mut settings = source::read(matches, CommandKind::Run, schemas, console)?;
    check(matches, &settings)?;
    let signals = signals::count()?;
    let context = source::context(&signals, console);
    let engine = context.open(&settings)?;
    let plan = plan(matches, engine.as_ref(), &settings)?;
    settings.run_time = plan.run_time(settings.warm_up_s());
    let mut series = RunSeries::new(engine, settings, &context)?;
    series.neighbours = Some(plan);
    series.os_data = matches.get_one::<PathBuf>("os-data").cloned();
    let name = matches.get_one::<String>("name").map_or("interfere", String::as_str);
    let kept = series.run_once(1, Some(name))?;
    let brief: &dyn Fn(&Run, &str) -> String = &petal_report::text::brief;
    run::show(&kept, matches, console, Some(brief))?;
    let unpriced = kept.run.summary.finding("neighbour-failed");
    let is_unpriced = kept.run.summary.interference.iter().flatten();
    let is_unpriced = is_unpriced.filter(|price| price.why_unknown.is_some()).count() > 0;
    let exit = Exit::of_run(&kept.run);
    match (kept.failure, unpriced) {
        (Some(failure), _) => Err(failure.into()),
        (None, Some(finding)) if is_unpriced => {
            console.error(&finding.message);
            Ok(exit.max(Exit::Failed))
        }
        (None, _) => Ok(exit),
    }
}

/// Refuses settings that leave no even foreground of a known length.
fn check(matches: &ArgMatches, settings: &Settings) -> Result<(), CommandError> {
    let refused = |why: String| Err(CommandError::usage(why));
    let is_even = settings.rate.as_ref().is_some_and(|rate| rate.is_constant());
    if !is_even || settings.has_kind_rates() {
        return refused(
            "RATE is not set to one number: petal interfere needs users that come at one rate, with \
             and without a neighbour. Use --rate N, about half of the ops/s that `petal run` \
             reports for the same sessions"
                .to_owned(),
        );
    }
    if settings.work_loop > 0 || settings.repeats > 1 {
        return refused(format!(
            "WORK_LOOP={}, REPEATS={}: petal interfere makes one run of its slots; leave both out, and \
             raise --pairs for a narrower interval",
            settings.work_loop, settings.repeats
        ));
    }
    if matches.value_source("RUN_TIME") == Some(ValueSource::CommandLine) {
        return refused(
            "--run-time: the time follows from --pairs and --slot; raise --pairs instead"
                .to_owned(),
        );
    }
    Ok(())
}

fn plan(
    matches: &ArgMatches,
    engine: &dyn Engine,
    settings: &Settings,
) -> Result<NeighbourPlan, CommandError> {
    let number = |name: &str| matches.get_one::<u64>(name).copied().unwrap_or(0);
    let (slot_s, settling_s) = (number("slot"), number("settling"));
    if settling_s + 2 > slot_s {
        return Err(CommandError::usage(format!(
            "--settling {settling_s} with --slot {slot_s}: at least two seconds of a slot are to be \
             counted; use a longer slot, or settle for less time"
        )));
    }
    let objective = matches.get_one::<Objective>("objective");
    let is_operations = |objective: &&Objective| objective.to_string().starts_with("op.");
    if let Some(other) = objective.filter(|objective| !is_operations(objective)) {
        return Err(CommandError::usage(format!(
            "--max-latency {other}: petal interfere counts operations within a time; write it as \
             op.p99=TIME"
        )));
    }
    let names = matches.get_many::<String>("with").unwrap_or_default();
    let neighbours =
        names.map(|name| neighbour(name, engine, settings)).collect::<Result<Vec<_>, _>>()?;
    if let Some(twice) =
        neighbours.iter().enumerate().find(|(at, it)| neighbours[..*at].contains(it))
    {
        let (at, _) = twice;
        return Err(CommandError::usage(format!("--with: neighbour {} is named twice", at + 1)));
    }
    Ok(NeighbourPlan {
        neighbours,
        pairs: number("pairs"),
        slot: Duration::from_secs(slot_s),
        settling: Duration::from_secs(settling_s),
        within_us: objective.map(|objective| objective.limit_us),
    })
}

/// A neighbour by its name, or as a command. A single word must be one of them.
fn neighbour(
    text: &str,
    engine: &dyn Engine,
    settings: &Settings,
) -> Result<PlannedNeighbour, CommandError> {
    let known = engine.neighbours().map(|known| known.names()).unwrap_or_default();
    let is_plain = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.');
    match text.trim() {
        "none" => Ok(PlannedNeighbour::Nothing),
        "tenant" => {
            let loaded = engine.loaded()?.len() as u32;
            open_other_schemas(crate::engines::open, settings, settings.schemas.unwrap_or(loaded))?;
            Ok(PlannedNeighbour::Tenant)
        }
        name if known.contains(&name) => Ok(PlannedNeighbour::Known(name.to_owned())),
        word if word.is_empty() || word.chars().all(is_plain) && !is_program(word) => {
            let names = [&["none", "tenant"], known].concat().join(", ");
            Err(CommandError::usage(format!(
                "--with {word:?}: it is neither a neighbour that petal knows on this target ({names}) nor \
                 a program in PATH"
            )))
        }
        command => Ok(PlannedNeighbour::Shell(command.to_owned())),
    }
}

fn is_program(word: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(word).is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_whole_seconds_with_or_without_their_unit() {
        assert_eq!((seconds("6"), seconds("6s")), (Ok(6), Ok(6)));
        assert!(seconds("0").is_err() && seconds("1.5s").is_err() && seconds("6m").is_err());
    }
}
