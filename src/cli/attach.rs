//! `petal attach`: the screen of work that another petal does.

use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use clap::{ArgMatches, Command};

use petal_record::sweep;

use super::console::Console;
use super::failure::{CommandError, Exit};
use super::{args, live, record_kinds, signals, sweep as sweep_command};

const EXAMPLES: &str = "\
Examples:
  petal attach petal-results/20261120T140000Z-sqlite-8x-u20
  petal attach petal-results/sweep-sqlite-1a2b3c4d   and the cell that runs

Follows runs, sweeps, replays, calibrations and petal costs. A load has no
folder of results: watch it with petal setup --live.

Keys: q leaves, and the work goes on; s stops the work cleanly, as Ctrl-C in its
own terminal. When the work ends, its result is printed.";

pub fn command() -> Command {
    Command::new("attach")
        .about("Watch work that goes on, from another terminal")
        .after_help(EXAMPLES)
        .arg(args::file("folder", "DIR", "The folder of results that the work fills"))
        .arg(args::full())
}

pub fn run(matches: &ArgMatches, console: &Console) -> Result<Exit, CommandError> {
    let dir = matches.get_one::<PathBuf>("folder").map_or(Path::new("."), PathBuf::as_path);
    let signals = signals::count()?;
    if !live::attach(dir, &|| signals.load(Ordering::Relaxed) > 0)? {
        console.warn(&format!("left; the work goes on: petal attach {}", dir.display()));
        return Ok(Exit::Done);
    }
    if !dir.exists() {
        let why = format!("{}: the work ended without a result", dir.display());
        return Err(CommandError::new(Exit::Failed, why));
    }
    if let Some(kind) = record_kinds::of(dir) {
        kind.show(dir, (matches, console))?;
        return Ok(Exit::Done);
    }
    if sweep::is_one(dir) {
        sweep_command::show(&sweep::load(dir)?, dir, None, matches, console);
        return Ok(Exit::Done);
    }
    let run = petal_report::load(dir)?;
    let place = dir.display().to_string();
    console.report(|| match console.is_brief(matches) {
        true => petal_report::text::brief(&run, &place),
        false => petal_report::text::render(&run),
    });
    Ok(Exit::Done)
}
