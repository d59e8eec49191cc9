//! Turns a command's arguments into settings and an open engine, for every command alike.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicU8;

use clap::ArgMatches;

use crate::engine::{self, Caller, Engine};
use crate::runner::WorkContext;
use crate::settings::read::{self, Sources};
use crate::settings::table::CommandKind;
use crate::settings::{Settings, flags};

use super::console::Console;
use super::failure::CommandError;
use super::signals;

/// Reads and validates what arguments, environment and file say together; tells the notes.
pub fn read(
    matches: &ArgMatches,
    command: CommandKind,
    schemas: Option<u32>,
    console: &Console,
) -> Result<Settings, CommandError> {
    read_flags(matches, flags::given(matches, command), (command, schemas), console)
}

/// Sources of a command that has its target from a file, unless `--db` names another.
pub fn read_for(
    matches: &ArgMatches,
    recorded_url: &str,
    console: &Console,
) -> Result<Settings, CommandError> {
    let command = CommandKind::Target;
    let mut flags = flags::given(matches, command);
    flags.entry("DB").or_insert_with(|| recorded_url.to_owned());
    read_flags(matches, flags, (command, None), console)
}

fn read_flags(
    matches: &ArgMatches,
    flags: BTreeMap<&'static str, String>,
    (command, schemas): (CommandKind, Option<u32>),
    console: &Console,
) -> Result<Settings, CommandError> {
    let mut settings = read::read(&sources(matches, command, flags, schemas))?;
    // Only some commands have it.
    let destroy = matches.try_get_one::<PathBuf>("destroy-data");
    settings.destroy_data = destroy.ok().flatten().cloned();
    if let Some(file) = &settings.conf_file {
        console.warn(&format!("settings from {}", file.display()));
    }
    settings.notes.iter().for_each(|note| console.warn(note));
    Ok(settings)
}

/// The sources of a command that is called in this directory: its flags, the environment, and
/// slob.conf or the file that `--conf` names.
pub fn sources(
    matches: &ArgMatches,
    command: CommandKind,
    flags: BTreeMap<&'static str, String>,
    schemas: Option<u32>,
) -> Sources<'static> {
    Sources {
        command,
        flags,
        environment: &read::process_environment,
        // Only some commands have it.
        conf: matches.try_get_one::<PathBuf>("conf").ok().flatten().cloned(),
        directory: Some(PathBuf::from(".")),
        schemas,
    }
}

/// Opens the engine for a command that stops for no signal itself: where the engine does, signals
/// are its own from now on.
pub fn open_alone(settings: &Settings, console: &Console) -> Result<Arc<dyn Engine>, CommandError> {
    let engine = engine::open(settings)?;
    let signals = Arc::default();
    if engine.serve(&context(&signals, console).caller) {
        signals::count_into(&signals)?;
    }
    Ok(engine)
}

/// The signals and the console of a command, for the work that it starts.
pub fn context<'a>(signals: &Arc<AtomicU8>, console: &'a Console) -> WorkContext<'a> {
    let shown = console.clone();
    let note = Arc::new(move |line: &str| shown.warn(line));
    WorkContext { caller: Caller { signals: signals.clone(), note }, watch: console, hosts: None }
}
