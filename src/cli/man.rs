//! `petal man`: the manual pages, made from the same commands as `--help`.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use clap::{Arg, ArgMatches, Command};
use clap_mangen::Man;

use super::args;
use super::console::Console;
use super::failure::{CommandError, Exit};

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
        let written = write_all(petal, folder);
        return written.map(|()| Exit::Done).map_err(|error| {
            CommandError::new(Exit::Environment, format!("{}: {error}", folder.display()))
        });
    }
    petal.build();
    let command = match matches.get_one::<String>("command") {
        None => Some(petal),
        Some(name) => petal.find_subcommand(name).cloned(),
    };
    let Some(command) = command else {
        return Err(CommandError::usage("there is no such command; see petal --help"));
    };
    let mut text = Vec::new();
    // Writing to memory does not fail.
    let _ = Man::new(command).render(&mut text);
    console.result(&String::from_utf8_lossy(&text));
    Ok(Exit::Done)
}

fn write_all(petal: Command, folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    clap_mangen::generate_to(petal, folder)
}
