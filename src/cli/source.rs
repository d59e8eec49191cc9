//! Turns a command's arguments into settings and an open engine, for every command alike.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicU8;

use clap::{Arg, ArgMatches, Command, value_parser};

use crate::engine::{self, Caller, Engine};
use crate::runner::Context;
use crate::settings::SCHEMAS_MAX;
use crate::settings::objective::Objective;
use crate::settings::read::{self, Sources};
use crate::settings::table::CommandKind;
use crate::settings::{Settings, flags};

use super::console::Console;
use super::failure::Failure;
use super::number::whole;
use super::signals;

/// Adds `--conf`, `-s` and a flag for every parameter that the command takes.
pub fn with_settings(command: Command, kind: CommandKind) -> Command {
    command
        .arg(
            Arg::new("conf")
                .long("conf")
                .value_name("FILE")
                .value_parser(value_parser!(PathBuf))
                .help("Settings file [default: ./slob.conf if it is there]"),
        )
        .args(flags::args(kind))
}

/// `-s N`, and SLOB's own `petal run N`.
pub fn schemas_args(command: Command, what: &'static str) -> Command {
    command.arg(
        Arg::new("schemas")
            .short('s')
            .long("schemas")
            .value_name("N")
            .value_parser(whole::<u32>(1, SCHEMAS_MAX.into()))
            .help(what),
    )
}

/// `--max-latency WHAT.FIGURE=TIME`, for the commands that report petals.
pub fn objective_arg() -> Arg {
    Arg::new("objective")
        .long("max-latency")
        .value_name("WHAT.FIGURE=TIME")
        .value_parser(|text: &str| text.parse::<Objective>())
        .help("Find the highest load within it: op.p99=2ms, read.avg=500us")
}

/// `--destroy-data PATH`, for the commands that write over a target.
pub fn destroy_arg(command: Command) -> Command {
    command.arg(
        Arg::new("destroy-data")
            .long("destroy-data")
            .value_name("PATH")
            .value_parser(value_parser!(PathBuf))
            .help(
                "Overwrite what petal did not make: repeats the exact path of --db device:PATH. \
                 What is mounted or in use is refused all the same",
            ),
    )
}

/// Reads and validates what arguments, environment and file say together; tells the notes.
pub fn read(
    matches: &ArgMatches,
    command: CommandKind,
    schemas: Option<u32>,
    console: &Console,
) -> Result<Settings, Failure> {
    let mut settings = read::read(&Sources {
        command,
        flags: flags::given(matches, command),
        environment: &read::process_environment,
        conf: matches.get_one::<PathBuf>("conf").cloned(),
        directory: Some(PathBuf::from(".")),
        schemas,
    })?;
    // Only some commands have it.
    let destroy = matches.try_get_one::<PathBuf>("destroy-data");
    settings.destroy_data = destroy.ok().flatten().cloned();
    if let Some(file) = &settings.conf_file {
        console.warn(&format!("settings from {}", file.display()));
    }
    settings.notes.iter().for_each(|note| console.warn(note));
    Ok(settings)
}

/// `--os-data FILE`, for the commands that make or read a run.
pub fn os_data_arg(command: Command) -> Command {
    command.arg(
        Arg::new("os-data")
            .long("os-data")
            .value_name("FILE")
            .value_parser(value_parser!(PathBuf))
            .help("What `petal os` recorded on the database's host meanwhile, merged by time"),
    )
}

/// Opens the engine, which obeys these signals where it waits for others.
pub fn open(
    settings: &Settings,
    signals: &Arc<AtomicU8>,
    console: &Console,
) -> Result<Arc<dyn Engine>, Failure> {
    Ok(context(signals, console).open(settings)?)
}

/// Opens the engine for a command that stops for no signal itself: where the engine does, signals
/// are its own from now on.
pub fn open_alone(settings: &Settings, console: &Console) -> Result<Arc<dyn Engine>, Failure> {
    let engine = engine::open(settings)?;
    let signals = Arc::default();
    if engine.serve(&context(&signals, console).caller) {
        signals::count_into(&signals)?;
    }
    Ok(engine)
}

/// The signals and the console of a command, for the work that it starts.
pub fn context<'a>(signals: &Arc<AtomicU8>, console: &'a Console) -> Context<'a> {
    let shown = console.clone();
    let note = Arc::new(move |line: &str| shown.warn(line));
    Context { caller: Caller { signals: signals.clone(), note }, watch: console }
}
