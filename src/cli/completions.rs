//! `petal completions`: prints a shell's completions of commands and flags.

use clap::{Arg, ArgMatches, Command, value_parser};
use clap_complete::Shell;

use super::console::Console;
use super::failure::{CommandError, Exit};

const EXAMPLES: &str = "\
Examples:
  petal completions bash > /etc/bash_completion.d/petal
  petal completions zsh > ~/.zfunc/_petal
  petal completions fish > ~/.config/fish/completions/petal.fish

A package installs them.";

pub fn command() -> Command {
    Command::new("completions")
        .about("Print the completions of a shell")
        .after_help(EXAMPLES)
        .arg(Arg::new("shell").required(true).value_parser(value_parser!(Shell)))
}

pub fn run(matches: &ArgMatches, console: &Console) -> Result<Exit, CommandError> {
    let shell = matches.get_one::<Shell>("shell").copied().unwrap_or(Shell::Bash);
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut super::command(), "petal", &mut script);
    console.result(&String::from_utf8_lossy(&script));
    Ok(Exit::Done)
}
