//! Turns a command's arguments into settings and an open engine, for every command alike.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicU8;

use clap::ArgMatches;

use crate::engine::{self, Caller, Engine};
use crate::runner::WorkContext;
use crate::settings::error::SettingError;
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
    let sources = sources(matches, command, flags::given(matches, command), schemas);
    read_sources(matches, &sources, console)
}

/// Sources of a command that has its target from a file, unless `--db` names another.
pub fn read_for(
    matches: &ArgMatches,
    recorded_url: &str,
    console: &Console,
) -> Result<Settings, CommandError> {
    let command = CommandKind::Target;
    let mut sources = sources(matches, command, flags::given(matches, command), None);
    for error in take_recorded(&mut sources, recorded_url) {
        console.warn(&format!("the recorded target is taken: {error}"));
    }
    read_sources(matches, &sources, console)
}

/// Takes a recorded target, which is without its password, unless a flag names another. Where
/// environment or file name the same target, it is taken from there, with its password. Returned is
/// what is wrong with the target that they name.
fn take_recorded(sources: &mut Sources<'_>, recorded_url: &str) -> Vec<SettingError> {
    if sources.flags.contains_key("DB") {
        return Vec::new();
    }
    let errors = match read::read(sources) {
        Ok(settings) if settings.db.redacted() == recorded_url => return Vec::new(),
        Ok(_) => Vec::new(),
        Err(errors) => errors.0,
    };
    sources.flags.insert("DB", recorded_url.to_owned());
    errors.into_iter().filter(|error| error.key == "DB").collect()
}

fn read_sources(
    matches: &ArgMatches,
    sources: &Sources<'_>,
    console: &Console,
) -> Result<Settings, CommandError> {
    let mut settings = read::read(sources)?;
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

#[cfg(test)]
mod tests {
    use super::*;

    /// The target's password, the target, and what was told, where DB of the environment is this.
    fn target(
        of_environment: &'static str,
        flag: Option<&str>,
    ) -> (Option<String>, String, String) {
        let environment =
            move |name: &str| (name == "DB").then(|| std::ffi::OsString::from(of_environment));
        let mut sources = Sources {
            command: CommandKind::Target,
            flags: flag.map(|url| ("DB", url.to_owned())).into_iter().collect(),
            environment: &environment,
            conf: None,
            directory: None,
            schemas: None,
        };
        let errors = take_recorded(&mut sources, "postgres://petal@one/d");
        let told = errors.iter().map(ToString::to_string).collect();
        let db = read::read(&sources).unwrap().db;
        (db.password.as_ref().map(|password| password.expose().to_owned()), db.redacted(), told)
    }

    #[test]
    fn a_recorded_target_takes_its_password_from_where_the_same_target_is_named() {
        let one = "postgres://petal@one/d".to_owned();
        let (word, nothing) = (Some("word".to_owned()), String::new());
        let same = target("postgres://petal:word@one/d", None);
        assert_eq!(same, (word, one.clone(), nothing.clone()));
        for other in ["postgres://petal:word@two/d", "postgres://petal@one/d"] {
            assert_eq!(target(other, None), (None, one.clone(), nothing.clone()), "{other}");
        }
        for unread in ["postgres://petal@one/d?password=@/nowhere/mine", "nonsense"] {
            let (password, db, told) = target(unread, None);
            assert_eq!((password, db), (None, one.clone()), "{unread}");
            assert!(told.contains("DB") && !told.contains("mine"), "{told}");
        }
        let two = target("postgres://petal:word@one/d", Some("postgres://petal@two/d"));
        assert_eq!(two, (None, "postgres://petal@two/d".to_owned(), nothing));
    }
}
