//! `petal check`: what would spoil a test here, before one is run.

use clap::{ArgMatches, Command};

use crate::report;
use crate::settings::Settings;
use crate::settings::table::CommandKind;
use crate::stats::devices;
use crate::stats::host::Host;

use super::console::Console;
use super::failure::{Exit, Failure};
use super::source;

pub fn command() -> Command {
    let command = Command::new("check")
        .about("Tell what would spoil a test here: processors, memory, devices, the target")
        .after_help("Exit code 1 when something would spoil a test.");
    source::with_settings(command, CommandKind::Target)
}

pub fn run(matches: &ArgMatches, console: &Console) -> Result<Exit, Failure> {
    let settings = source::read(matches, CommandKind::Target, None, console)?;
    Err(Failure::usage(format!("{:?}{}", settings.db.redacted(), console_is(console))))
}
fn console_is(_: &Console) -> &str {
    ""
}
