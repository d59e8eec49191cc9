//! `petal card`: a record as a drawing and a block of Markdown.

use std::path::PathBuf;

use clap::{ArgMatches, Command};
use petal_report::card::{MARKDOWN_NAME, SVG_NAME, card};
use petal_report::records::ShownRecord;
use petal_settings::printable::printable;

use super::args;
use super::console::Console;
use super::failure::{CommandError, Exit};
use super::gallery::FoundRecords;
use super::output;

const EXAMPLES: &str = "\
Examples:
  petal card petal-results/sweep-sqlite-1a2b3c4d   card.svg and card.md, there
  petal card DIR --out docs/images >> README.md

Prints the Markdown, too. The drawing needs no other file and runs no script.";

pub fn command() -> Command {
    Command::new("card")
        .about("Make a card of a sweep or run for a ticket: SVG and Markdown")
        .after_help(EXAMPLES)
        .arg(args::file("folder", "DIR", "A sweep's or a run's folder"))
        .arg(args::path("out", "FOLDER", "Folder that gets card.svg and card.md [default: DIR]"))
}

pub fn run(matches: &ArgMatches, console: &Console) -> Result<Exit, CommandError> {
    let Some(path) = matches.get_one::<PathBuf>("folder") else { return Ok(Exit::Usage) };
    let mut found = FoundRecords::default();
    found.look(path, 0, None, console);
    let left_out = found.left_out();
    let run = match found.runs.as_slice() {
        [(name, run)] => Some((name.clone(), run.clone())),
        _ => None,
    };
    let shown = match &run {
        Some((name, run)) => vec![ShownRecord::of_run(name.clone(), run)],
        None => found.shown(None),
    };
    let [shown] = shown.as_slice() else {
        return Err(CommandError::new(
            Exit::Environment,
            match left_out.as_slice() {
                [why, ..] => format!("{why}: no figure of it is a result; name another record"),
                [] => format!("{}: no sweep and no run; name the folder of one", path.display()),
            },
        ));
    };
    let made = card(shown, run.as_ref().map(|(_, run)| run));
    let folder = matches.get_one::<PathBuf>("out").unwrap_or(path);
    let out = output::folder(folder)?;
    if let Some(svg) = &made.svg {
        out.write_atomically(SVG_NAME, printable(svg).as_bytes())?;
    }
    out.write_atomically(MARKDOWN_NAME, made.markdown.as_bytes())?;
    // Where it is printed to lies elsewhere than card.md.
    let picture = folder.join(SVG_NAME).display().to_string().replace(' ', "%20");
    console.result(&made.markdown.replacen(&format!("({SVG_NAME})"), &format!("({picture})"), 1));
    Ok(Exit::Done)
}
