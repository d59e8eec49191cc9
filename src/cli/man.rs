//! `petal man`: the manual pages, made from the same commands as `--help`.

use std::path::PathBuf;

use clap::{Arg, ArgMatches, Command};
use clap_mangen::Man;

use super::console::Console;
use super::failure::{CommandError, Exit};
use super::{args, output};
use petal_record::{RecordError, RecordFolder};

const EXAMPLES: &str = "\
Examples:
  petal man | man -l -
  petal man sweep | man -l -
  petal man --out man/               a page for petal and one for each command

A package installs them.";

pub fn command() -> Command {
    Command::new("man")
        .about("Print a manual page, or write all of them")
        .after_help(EXAMPLES)
        .arg(Arg::new("command").value_name("COMMAND").help("The page of this command"))
        .arg(
            args::path("out", "FOLDER", "Write every page there, as petal.1 and petal-COMMAND.1")
                .conflicts_with("command"),
        )
}

pub fn run(matches: &ArgMatches, console: &Console) -> Result<Exit, CommandError> {
    let mut petal = super::command();
    if let Some(folder) = matches.get_one::<PathBuf>("out") {
        let mut petal = petal.disable_help_subcommand(true);
        petal.build();
        write_all(&output::folder(folder)?, &petal)?;
        return Ok(Exit::Done);
    }
    petal.build();
    let command = match matches.get_one::<String>("command") {
        None => Some(petal),
        Some(name) => petal.find_subcommand(name).cloned(),
    };
    let Some(command) = command else {
        return Err(CommandError::usage("there is no such command; see petal --help"));
    };
    console.result(&String::from_utf8_lossy(&page(&Man::new(command))));
    Ok(Exit::Done)
}

fn page(man: &Man) -> Vec<u8> {
    let mut text = Vec::new();
    // Writing to memory does not fail.
    let _ = man.render(&mut text);
    text
}

/// The pages of a command and of all below it.
fn write_all(folder: &RecordFolder, command: &Command) -> Result<(), RecordError> {
    for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
        write_all(folder, below)?;
    }
    let man = Man::new(command.clone());
    folder.write_atomically(&man.get_filename(), &page(&man)).map(|_| ())
}
