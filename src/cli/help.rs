//! `petal help`: of a command, of the parameters, or a slob.conf to begin with.

use clap::{Arg, ArgMatches, Command};
use petal_model::settings::table;

use super::console::Console;
use super::failure::{CommandError, Exit};

pub fn command() -> Command {
    Command::new("help")
        .about("Help on a command, `parameters`, or a commented `slob.conf`")
        .arg(Arg::new("topic").value_name("COMMAND|parameters|slob.conf"))
}

pub fn run(matches: &ArgMatches, console: &Console) -> Result<Exit, CommandError> {
    let mut all = super::command();
    let help = match matches.get_one::<String>("topic").map(String::as_str) {
        None => all.render_long_help().to_string(),
        Some("parameters") => {
            console.report(|| table::help_text(petal_report::table::columns()));
            return Ok(Exit::Done);
        }
        Some("slob.conf") => table::conf_file(),
        Some(topic) => {
            all.build();
            let found = all.find_subcommand_mut(topic).ok_or_else(|| {
                CommandError::usage(format!(
                    "there is no help on {topic}; `petal --help` lists the commands, `petal help \
                     parameters` the parameters"
                ))
            })?;
            found.render_long_help().to_string()
        }
    };
    console.result(&help);
    Ok(Exit::Done)
}
