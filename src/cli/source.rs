//! Turns a command's arguments into settings and an open engine, for every command alike.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicU8;

use clap::ArgMatches;

use petal_engine::{Caller, Engine};
use petal_run::WorkContext;
use petal_settings::printable::printable_line;
use petal_settings::read::{self, Sources};
use petal_settings::table::CommandKind;
use petal_settings::{Settings, flags};

use super::console::Console;
use super::failure::CommandError;
use super::signals;

/// Reads and validates arguments, environment and file together; prints the notes.
pub fn read(
    matches: &ArgMatches,
    command: CommandKind,
    schemas: Option<u32>,
    console: &Console,
) -> Result<Settings, CommandError> {
    let sources = sources(matches, command, flags::given(matches, command), schemas);
    read_sources(matches, &sources, console)
}

/// Settings of a command on a file that names its target. Others may have written the file: it
/// decides neither the server nor the objects that petal reads. Without `--db` the caller's own
/// target is taken, if it is the same.
pub fn read_confirmed(
    matches: &ArgMatches,
    recorded_url: &str,
    console: &Console,
) -> Result<Settings, CommandError> {
    let command = CommandKind::Target;
    let sources = sources(matches, command, flags::given(matches, command), None);
    let settings = read_sources(matches, &sources, console)?;
    match is_confirmed(&sources, &settings, recorded_url) {
        true => Ok(settings),
        false => Err(CommandError::usage(format!(
            "the file names the target {}, and yours is {}: a file does not decide where petal \
             connects; name the target by --db, and its password by DB, by --db URL?password=@FILE or \
             in the database's own password file",
            printable_line(recorded_url),
            settings.db.redacted()
        ))),
    }
}

fn is_confirmed(sources: &Sources<'_>, settings: &Settings, recorded_url: &str) -> bool {
    let is_same = |url: String| url == recorded_url;
    sources.flags.contains_key("DB")
        || is_same(settings.db.redacted())
        || is_same(settings.db.with_absolute_path().redacted())
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
        variables: &read::process_variables,
        // Only some commands have it.
        conf: matches.try_get_one::<PathBuf>("conf").ok().flatten().cloned(),
        directory: Some(PathBuf::from(".")),
        schemas,
    }
}

/// Opens the engine for a command that stops for no signal itself: if the engine does, signals
/// are its own from now on.
pub fn open_alone(settings: &Settings, console: &Console) -> Result<Arc<dyn Engine>, CommandError> {
    let engine = crate::engines::open(settings)?;
    let signals = Arc::default();
    if engine.server().is_some_and(|server| server.serve(&context(&signals, console).caller)) {
        signals::count_into(&signals)?;
    }
    Ok(engine)
}

/// The signals and the console of a command, for the work that it starts.
pub fn context<'a>(signals: &Arc<AtomicU8>, console: &'a Console) -> WorkContext<'a> {
    let shown = console.clone();
    let note = Arc::new(move |line: &str| shown.warn(line));
    let caller = Caller { signals: signals.clone(), note };
    WorkContext { caller, engines: crate::engines::open, watch: console, hosts: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn confirmed(of_environment: &'static str, flag: Option<&str>, recorded: &str) -> bool {
        let environment =
            move |name: &str| (name == "DB").then(|| std::ffi::OsString::from(of_environment));
        let sources = Sources {
            command: CommandKind::Target,
            flags: flag.map(|url| ("DB", url.to_owned())).into_iter().collect(),
            environment: &environment,
            variables: &Vec::new,
            conf: None,
            directory: None,
            schemas: None,
        };
        is_confirmed(&sources, &read::read(&sources).unwrap(), recorded)
    }

    #[test]
    fn a_recorded_target_is_taken_only_if_the_caller_names_it() {
        let one = "postgres://petal@one/d";
        assert!(confirmed("postgres://petal:word@one/d", None, one));
        assert!(confirmed("postgres://petal:word@two/d", Some(one), one));
        // A standby that was promoted.
        assert!(confirmed(one, Some("postgres://petal@two/d"), one));
        for other in ["postgres://petal:word@two/d", "sqlite:petal-data", "device:x"] {
            assert!(!confirmed(other, None, one), "{other}");
        }
        let here = std::path::absolute("petal-data").unwrap().display().to_string();
        assert!(confirmed("", None, &format!("sqlite:{here}")));
        assert!(!confirmed("", None, "sqlite:/elsewhere/petal-data"));
        assert!(!confirmed("", None, &format!("{one}?password=@/etc/shadow")));
    }
}
