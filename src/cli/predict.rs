//! `petal predict`: PIOPS and read latency at numbers of sessions that were not measured.

use std::path::PathBuf;

use clap::{ArgMatches, Command};

use petal_judge::petals::Petals;
use petal_judge::predict::{PredictedLine, predict};

use super::args::{self, flag, list};
use super::compare::load;
use super::console::Console;
use super::failure::{CommandError, Exit};

const EXAMPLES: &str = "\
Examples:
  petal predict petal-results/sweep-sqlite-1a2b3c4d --sessions 12,24
  petal predict table.csv               held-out errors of a published table

Two families of curves, interpolation in log sessions and the universal
scalability law (USL), predict each cell from the others. The one with the least
error is used. A line is refused if both are off by over 20 %.";

pub fn command() -> Command {
    Command::new("predict")
        .about("Predict PIOPS and read latency at unmeasured session counts")
        .after_help(EXAMPLES)
        .arg(args::paths("record", "RECORD", "Sweeps, folders of runs, tables"))
        .arg(
            list("sessions", "N,N", "Session counts to predict, next to the measured ones")
                .value_parser(args::whole::<u32>(1, 65_536)),
        )
        .arg(flag("json", "Print the prediction as JSON"))
}

pub fn run(matches: &ArgMatches, console: &Console) -> Result<Exit, CommandError> {
    let records: Vec<&PathBuf> = matches.get_many("record").unwrap_or_default().collect();
    let asked = matches.get_many::<u32>("sessions").unwrap_or_default();
    let asked: Vec<u32> = asked.copied().collect();
    let mut lines = Vec::new();
    // Cells of several records are never one line: they may be of several platforms.
    for path in &records {
        let of_record = predict(&Petals::of(&load(path, None)?), &asked);
        lines.extend(of_record.into_iter().map(|line| match records.len() {
            1 => line,
            _ => PredictedLine { name: format!("{}, {}", path.display(), line.name), ..line },
        }));
    }
    if lines.is_empty() {
        return Err(CommandError::new(
            Exit::Environment,
            "no run with figures; name a sweep, runs or a table",
        ));
    }
    match matches.get_flag("json") {
        true => {
            let text = petal_report::json::pretty(&lines);
            console.result(&text.map_err(CommandError::failed("the prediction is no JSON"))?);
        }
        false => console.report(|| petal_report::predict::render(&lines)),
    }
    Ok(Exit::Done)
}
