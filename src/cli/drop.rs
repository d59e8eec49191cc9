//! `petal drop`: removes the data that petal loaded.

use clap::{ArgMatches, Command};

use petal_engine::server::data_name::{PROOF, set_data_name};
use petal_engine::server_settings::alone;
use petal_report::numbers::counted;
use petal_report::table::{SCREEN_LINES, rest};
use petal_settings::Settings;
use petal_settings::table::CommandKind;

use super::args;
use super::console::Console;
use super::failure::{CommandError, Exit};
use super::source;

const EXAMPLES: &str = "\
Examples:
  petal drop                          the data in ./petal-data
  petal drop --db sqlite:/data/petal

Only data that petal loaded is removed, never a schema by its name.
Results are kept.";

pub fn command() -> Command {
    let command = Command::new("drop")
        .about("Remove the schemas that petal loaded, and nothing else")
        .after_help(EXAMPLES)
        .arg(args::destroy_data())
        .arg(args::full());
    args::with_settings(command, CommandKind::Target)
}

pub fn run(matches: &ArgMatches, console: &Console) -> Result<Exit, CommandError> {
    let settings = source::read(matches, CommandKind::Target, None, console)?;
    let engine = source::open_alone(&settings, console)?;
    let mut dropped = engine.drop_data()?;
    if engine.server().is_some() {
        drop(engine);
        // The drop that was asked for is done.
        dropped.extend(left_by_prove(&settings, console).unwrap_or_else(|failure| {
            let why = failure.message;
            console.warn(&format!("whether data named {PROOF} are there is not known: {why}"));
            Vec::new()
        }));
    }
    let parts = counted(dropped.len() as u64, "part");
    console.result_line(&match dropped.is_empty() {
        true => format!("{}: nothing of petal's is there", settings.db.redacted()),
        false => format!("petal removed {parts} of its data:"),
    });
    let shown = match console.is_brief(matches) {
        true => dropped.len().min(SCREEN_LINES - 2),
        false => dropped.len(),
    };
    for line in &dropped[..shown] {
        console.result_line(line);
    }
    console.result(&rest(dropped.len() - shown, "part", "of the data, removed as well"));
    Ok(Exit::Done)
}

/// Drops the data of a `petal prove` that was killed. One that is at work keeps them.
fn left_by_prove(settings: &Settings, console: &Console) -> Result<Vec<String>, CommandError> {
    set_data_name(PROOF);
    let engine = source::open_alone(settings, console)?;
    match alone(engine.as_ref()) {
        Ok(_alone) => Ok(engine.drop_data()?),
        Err(locked) => {
            console.warn(&format!("data named {PROOF} stay, if there are any: {locked}"));
            Ok(Vec::new())
        }
    }
}
