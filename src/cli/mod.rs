//! The command line: one file per command, and the console that all of them speak through.

mod args;
mod attach;
#[cfg(feature = "calibrate")]
mod calibrate;
mod card;
mod check;
mod compare;
mod completions;
mod console;
#[cfg(feature = "costs")]
mod costs;
mod demo;
mod drop;
mod failure;
mod format;
mod gallery;
mod help;
mod history;
mod interfere;
mod launch;
pub mod live;
mod man;
mod merge;
mod no_progress;
mod os;
mod output;
mod plain_phase;
#[cfg(feature = "predict")]
mod predict;
mod process;
#[cfg(feature = "production")]
mod production;
#[cfg(feature = "prove")]
mod prove;
mod ranks;
mod record_folders;
pub mod record_kinds;
mod report;
mod restore_settings;
mod run;
mod setup;
mod signals;
mod source;
mod stderr;
mod sweep;
mod verify;
#[cfg(feature = "web")]
mod web;

use std::ffi::OsString;
use std::io::IsTerminal as _;
use std::process::ExitCode;

use clap::{ArgMatches, Command};

use petal_settings::argv;
use petal_settings::printable::printable_line;
use petal_settings::url;

use console::Console;
use failure::{CommandError, Exit};
use process::Secrets;

const ABOUT: &str = "How much physical I/O a platform sustains through its database, \
at what latency, and what limits it: the SLOB method for any database.";

const EXAMPLES: &str = "\
Examples:
  petal demo                            a first look, in about three minutes
  petal setup -s 4 --scale 1G           load four schemas on SQLite
  petal run -s 4 -t 8 --update-pct 20   32 sessions, a fifth UPDATEs
  petal sweep --sessions 1,2,4,8 --update-pct 0,20 --repeats 3
  petal report DIR                      rebuild a report, also of a killed run
  petal compare A B --fail-if 'piops < -5%'
  petal help parameters                 every parameter, and its engines

Exit codes: 0 done; 1 failed, or sessions were lost; 2 usage or settings;
3 environment (unreachable, refused, full, not loaded, not written); 4 a limit
of compare or history is inconclusive; 130 interrupted (results are kept).";

/// A subcommand: its arguments, its work, and the object of that.
type Subcommand =
    (fn() -> Command, fn(&ArgMatches, &Console) -> Result<Exit, CommandError>, WorkOn);

/// The object of a command's work.
#[derive(Clone, Copy, PartialEq, Eq)]
enum WorkOn {
    /// Records, or this host.
    Records,
    /// A target, which petal may have to wait for: a supervisor starts the work.
    Target,
    /// A target, and of several ranks each would do it for itself.
    TargetOnce,
    /// A server's settings, without a supervisor; as above.
    Once,
}
use WorkOn::{Once, Records, Target, TargetOnce};

/// Every command, by the task that heads it in the help, in the help's order.
const GROUPS: &[(&str, &[Subcommand])] = &[
    (
        "Measure",
        &[
            (demo::command, demo::run, TargetOnce),
            (check::command, check::run, Target),
            (setup::command, setup::run, TargetOnce),
            (run::command, run::run, Target),
            (sweep::command, sweep::run, Target),
            #[cfg(feature = "calibrate")]
            (calibrate::command, calibrate::run, TargetOnce),
            #[cfg(feature = "costs")]
            (costs::command, costs::run, TargetOnce),
            (interfere::command, interfere::run, TargetOnce),
            #[cfg(feature = "production")]
            (production::replay::command, production::replay::run, TargetOnce),
            (os::command, os::run, Records),
            (restore_settings::command, restore_settings::run, Once),
            (attach::command, attach::run, Records),
            (drop::command, drop::run, TargetOnce),
        ],
    ),
    (
        "Read",
        &[
            (report::command, report::run, Records),
            (merge::command, merge::run, Records),
            #[cfg(feature = "production")]
            (production::awr::command, production::awr::run, Records),
            #[cfg(feature = "production")]
            (production::profile::command, production::profile::run, Records),
            #[cfg(feature = "predict")]
            (predict::command, predict::run, Records),
        ],
    ),
    (
        "Compare",
        &[
            (compare::command, compare::run, Records),
            (history::command, history::run, Records),
            (gallery::command, gallery::run, Records),
            (card::command, card::run, Records),
            #[cfg(feature = "web")]
            (web::serve::command, web::serve::run, Records),
        ],
    ),
    (
        "Prove",
        &[
            #[cfg(feature = "prove")]
            (prove::command, prove::run, Target),
            (verify::command, verify::run, Target),
        ],
    ),
    (
        "Help",
        &[
            (help::command, help::run, Records),
            (completions::command, completions::run, Records),
            (man::command, man::run, Records),
        ],
    ),
];

/// The server of the work's page and metrics, in a build that has it.
const WORK_SERVERS: &[live::WorkServer] = &[
    #[cfg(feature = "web")]
    web::WORK_SERVER,
];

fn subcommands() -> impl Iterator<Item = &'static Subcommand> {
    GROUPS.iter().flat_map(|(_, commands)| *commands)
}

fn subcommand(name: &str) -> Option<&'static Subcommand> {
    subcommands().find(|(command, ..)| command().get_name() == name)
}

impl WorkOn {
    fn is_target(self) -> bool {
        [Target, TargetOnce].contains(&self)
    }
}

/// The help of `petal` itself, with its commands by task: clap lists them all under one heading.
fn help_template() -> String {
    let group = |(heading, commands): &(&str, &[Subcommand])| {
        let lines = commands.iter().map(|(command, ..)| {
            let command = command();
            let about = command.get_about().map(ToString::to_string).unwrap_or_default();
            format!("  {:<16} {about}\n", command.get_name())
        });
        format!("{heading}:\n{}\n", lines.collect::<String>())
    };
    let groups: String = GROUPS.iter().map(group).collect();
    format!(
        "{{about}}\n\n{{usage-heading}} {{usage}}\n\n{groups}Options:\n{{options}}{{after-help}}\n"
    )
}

/// Runs petal, from the arguments to the exit code.
pub fn main() -> ExitCode {
    signals::survive_file_size_limit();
    let arguments = process::arguments();
    let matches = match command().try_get_matches_from(&arguments.all) {
        Ok(matches) => matches,
        Err(error) => return usage(error, &arguments.all),
    };
    ranks::note_share(&matches);
    let named = matches.subcommand_name().and_then(subcommand);
    let is_on_target = named.is_some_and(|(_, _, on)| on.is_target());
    if let Some(exit) = arguments.supervise(is_on_target) {
        return exit;
    }
    let console = Console::new(matches.get_flag("quiet")).hiding(&arguments.all);
    let exposed = match arguments.secrets {
        Secrets::None => None,
        Secrets::Hidden => Some(
            "every user could read the password on the command line until petal hid it. Use a \
             password file, the environment, or @FILE",
        ),
        Secrets::Readable => Some(
            "every user can read the password on the command line while petal runs: petal could \
             not replace its command line. Use a password file, the environment, or @FILE",
        ),
    };
    let exposed = exposed.filter(|_| argv::holds_password(&arguments.all));
    // The fault itself comes first if the command cannot begin.
    let is_refused = names_unknown_kind(&matches);
    let warn =
        |is_now: bool| exposed.filter(|_| is_now).into_iter().for_each(|it| console.warn(it));
    warn(!is_refused);
    let exit = dispatch(&matches, &console).unwrap_or_else(|failure| {
        console.error(&failure.message);
        failure.exit
    });
    warn(is_refused);
    console.exit(exit).into()
}

/// True if a URL of the arguments is of no database that petal knows.
fn names_unknown_kind(matches: &ArgMatches) -> bool {
    let of_command = matches.subcommand().map(|(_, matches)| matches);
    let urls = of_command.and_then(|matches| matches.try_get_many::<String>("DB").ok().flatten());
    urls.into_iter().flatten().any(|url| url::names_unknown_kind(url))
}

/// Place in a list of options: after each command's own, before `--help`.
const LAST_BUT_HELP: usize = 900;

/// The whole command tree.
pub fn command() -> Command {
    Command::new("petal")
        .version(env!("CARGO_PKG_VERSION"))
        .about(ABOUT)
        .after_help(EXAMPLES)
        .subcommand_required(true)
        .arg_required_else_help(true)
        .disable_help_subcommand(true)
        .arg(
            args::flag("quiet", "Only results and errors: no progress, no messages")
                .short('q')
                .display_order(LAST_BUT_HELP)
                .global(true),
        )
        .help_template(help_template())
        .subcommands(subcommands().map(|(command, ..)| command()))
}

fn dispatch(matches: &ArgMatches, console: &Console) -> Result<Exit, CommandError> {
    let (name, matches) = matches.subcommand().unwrap_or(("help", matches));
    match subcommand(name) {
        Some((_, run, on)) => {
            if [TargetOnce, Once].contains(on) {
                ranks::refuse(name)?;
            }
            let observers = live::of(matches, name)?;
            let live = observers.live.clone();
            let console = console.clone().observed_by(observers);
            if on.is_target() {
                console.name_long_waits();
            }
            let exit = run(matches, &console);
            // An error is shown after it.
            console.end_screen();
            live.iter().for_each(live::Live::finish);
            exit
        }
        None => Err(CommandError::usage(format!("there is no command {name}"))),
    }
}

/// Help goes to stdout and is no error; a wrong argument is reported without any secret in it.
fn usage(error: clap::Error, arguments: &[OsString]) -> ExitCode {
    let console = Console::new(false).hiding(arguments);
    let (error, arguments) = quoting_printable(error, arguments);
    if error.use_stderr() {
        let text = error.render().to_string();
        console.usage_error(&argv::without_secrets(&text, &arguments));
        console.exit(Exit::Usage).into()
    } else {
        let help = error.render();
        // Colours are for a terminal, not for a pipe or a file.
        let is_seen = std::io::stdout().is_terminal();
        console.styled_result(&if is_seen { help.ansi().to_string() } else { help.to_string() });
        console.exit(Exit::Done).into()
    }
}

/// The error as it is of arguments without control characters, and those arguments: a message that
/// quotes one has no lines of the argument's own.
fn quoting_printable(error: clap::Error, arguments: &[OsString]) -> (clap::Error, Vec<OsString>) {
    let printable = |argument: &OsString| {
        OsString::from(printable_line(&argument.to_string_lossy()).into_owned())
    };
    let shown: Vec<OsString> = arguments.iter().map(printable).collect();
    match command().try_get_matches_from(&shown) {
        Err(of_shown) => (of_shown, shown),
        Ok(_) => (error, arguments.to_vec()),
    }
}

#[cfg(test)]
mod tests {
    /// Width of the smallest usual terminal.
    const COLUMNS: usize = 80;

    #[test]
    fn the_options_of_a_run_begin_with_the_flags_that_everybody_uses() {
        let mut command = super::command();
        command.build();
        let run = command.find_subcommand_mut("run").unwrap();
        let help = run.render_help().to_string();
        let options = help.split("\nOptions:\n").nth(1).unwrap().split("\n\n").next().unwrap();
        let names = options.lines().filter_map(|line| line.split("--").nth(1)?.split(' ').next());
        let names: Vec<&str> = names.collect();
        let wanted = ["schemas", "threads-per-schema", "update-pct", "run-time", "scale", "db"];
        assert_eq!(names[..6], wanted, "{names:?}");
    }

    /// Longer lines of a text with breaks of its own are broken once more on a terminal: the rest of
    /// one has a line of its own.
    #[test]
    fn help_fits_in_80_columns_without_a_second_break() {
        let is_long = |line: &&str| line.chars().count() > COLUMNS;
        let list = super::help_template();
        assert_eq!(list.lines().find(is_long), None);
        let mut all = super::command();
        all.build();
        for command in std::iter::once(&all).chain(all.get_subcommands()) {
            let texts = [command.get_before_help(), command.get_after_help()];
            for text in texts.into_iter().flatten().map(ToString::to_string) {
                // A single paragraph has no breaks of its own.
                let long = text.lines().filter(|line| *line != text).find(is_long);
                assert_eq!(long, None, "{}", command.get_name());
            }
            let mut shown = command.clone().term_width(COLUMNS);
            for help in [shown.render_help(), shown.render_long_help()] {
                let help = help.to_string();
                assert_eq!(help.lines().find(is_long), None, "{}", command.get_name());
            }
        }
    }

    /// `--help` has the rest.
    #[test]
    fn the_short_help_of_every_command_is_one_screen() {
        const LINES: usize = 40;
        let mut all = super::command();
        all.build();
        let helps = all
            .get_subcommands()
            .map(|command| command.clone().term_width(COLUMNS).render_help().to_string());
        let long: Vec<String> = helps.filter(|help| help.lines().count() > LINES).collect();
        assert!(long.is_empty(), "{}", long.join("\n"));
    }

    /// Rates of the whole run include its warm-up.
    #[test]
    fn examples_take_the_rates_of_the_steady_window() {
        let command = super::command();
        for command in command.get_subcommands() {
            let text = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(!text.contains("jq .per_second"), "{}: {text}", command.get_name());
            let has_rates = text.contains("jq .steady.per_second");
            assert_eq!(has_rates, ["run", "merge"].contains(&command.get_name()), "{text}");
        }
    }
}
