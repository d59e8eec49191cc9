//! `petal restore-settings`: puts back the settings of the server that a killed sweep changed.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Arg, ArgMatches, Command};

use petal_record::RecordFolder;
use petal_record::server_settings::{self, NAME};
use petal_settings::table::CommandKind;
use petal_sweep::changed_server::{ChangedServer, ForeignValues, RestartCommand};
use petal_sweep::hold;

use super::args::{self, flag, value};
use super::console::Console;
use super::failure::{CommandError, Exit};
use super::source;

const EXAMPLES: &str = "\
Examples:
  petal restore-settings DIR --db postgres://petal@localhost/petal
  petal restore-settings DIR --db URL --restart-server 'service mysql restart'
  petal restore-settings DIR --db postgres://admin@one/petal --force

A sweep with --server-setting puts the original values back itself. After
kill -9, or if the server did not come back, this command does it, from
server-settings.json in the sweep's folder. It does nothing if they are back.";

pub fn command() -> Command {
    let command = Command::new("restore-settings")
        .about("Put back settings of the server that a killed sweep changed")
        .after_help(EXAMPLES)
        .arg(args::file("dir", "DIR", "The folder of the sweep"))
        .args(restart_args())
        .arg(flag("force", "Also replace values that somebody else stored since"));
    args::with_settings(command, CommandKind::Target)
}

/// `--restart-server` and `--restart-limit`.
pub fn restart_args() -> [Arg; 2] {
    [
        value(
            "restart-server",
            "COMMAND",
            "Shell command that restarts the server, for settings that need it",
        ),
        value("restart-limit", "SECONDS", "How long it may take, and then the server to answer")
            .default_value("120")
            .value_parser(args::whole::<u64>(1, 86_400)),
    ]
}

pub fn restart(matches: &ArgMatches) -> Option<RestartCommand> {
    let limit = matches.get_one("restart-limit").copied().unwrap_or(120);
    let command = matches.get_one::<String>("restart-server")?.clone();
    Some(RestartCommand { command, limit: Duration::from_secs(limit) })
}

pub fn run(matches: &ArgMatches, console: &Console) -> Result<Exit, CommandError> {
    let dir = matches.get_one::<PathBuf>("dir").cloned().unwrap_or_default();
    let none = || {
        let dir = dir.display();
        CommandError::usage(format!(
            "{dir}: holds no {NAME}: no sweep in it changed settings of a server; name the folder of \
             a sweep with --server-setting"
        ))
    };
    let folder = RecordFolder::held(&dir).unwrap_or_else(|_| RecordFolder::open(&dir));
    let journal = server_settings::read(&folder)?.ok_or_else(none)?;
    let settings = source::read_confirmed(matches, &journal.db, console)?;
    let _lock = hold(&folder)?;
    // The sweep may have ended meanwhile.
    let mut journal = server_settings::read(&folder)?.ok_or_else(none)?;
    if let Some(at) = &journal.restored_at {
        console.result_line(&format!("the original settings are back since {at}: nothing to do"));
        return Ok(Exit::Done);
    }
    let restart = restart(matches);
    let server = ChangedServer {
        open: crate::engines::open,
        settings: &settings,
        restart: restart.as_ref(),
        folder: &folder,
        watch: console,
    };
    server.revive()?;
    let _settings_lock = server.lock().map_err(CommandError::from)?;
    let foreign = match matches.get_flag("force") {
        true => ForeignValues::Replace,
        false => ForeignValues::Refuse,
    };
    server
        .put_back(&mut journal, foreign)
        .map_err(|error| CommandError::from(server.with_next_step(error, &journal)))?;
    for setting in &journal.settings {
        let stored = setting.stored.as_deref().unwrap_or("no entry");
        console.result_line(&format!(
            "{}: {stored} in {}, {} in effect",
            setting.name, journal.place, setting.in_effect
        ));
    }
    Ok(Exit::Done)
}
