//! Arguments that commands have in common: how they are made, and how numbers among them are read.

use std::path::PathBuf;

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};

use petal_settings::SCHEMAS_MAX;
use petal_settings::flags;
use petal_settings::limit::ChangeLimit;
use petal_settings::objective::Objective;
use petal_settings::table::{self, CommandKind};

/// `--name`, without a value.
pub fn flag(name: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).action(ArgAction::SetTrue).help(help)
}

/// True if the flag is one of the command and is set.
pub fn is_set(matches: &ArgMatches, flag: &str) -> bool {
    matches.try_get_one::<bool>(flag).is_ok_and(|it| it == Some(&true))
}

/// `--name VALUE`.
pub fn value(name: &'static str, value: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).value_name(value).help(help)
}

/// `--name PATH`.
pub fn path(name: &'static str, value: &'static str, help: &'static str) -> Arg {
    self::value(name, value, help).value_parser(value_parser!(PathBuf))
}

/// A required file or folder, without a flag.
pub fn file(name: &'static str, value: &'static str, help: &'static str) -> Arg {
    let arg = Arg::new(name).value_name(value).required(true);
    arg.value_parser(value_parser!(PathBuf)).help(help)
}

/// Required files or folders, without a flag; at least one.
pub fn paths(name: &'static str, value: &'static str, help: &'static str) -> Arg {
    file(name, value, help).num_args(1..)
}

/// `--name VALUE,VALUE`, which may be given several times.
pub fn list(name: &'static str, values: &'static str, help: &'static str) -> Arg {
    value(name, values, help).value_delimiter(',').action(ArgAction::Append)
}

/// Help with an example before the options: the first screen has the common flags.
const TEMPLATE: &str =
    "{about-with-newline}\n{usage-heading} {usage}\n\n{before-help}{all-args}{after-help}";

/// Adds examples and notes. `-h` is one screen: `--help` alone shows the notes, and the rare options.
pub fn one_screen(command: Command, examples: &str, notes: &str, rare: &[&str]) -> Command {
    let is_rare = |arg: &Arg| rare.contains(&arg.get_id().as_str());
    let hidden = |arg: Arg| if is_rare(&arg) { arg.hide_short_help(true) } else { arg };
    let command = command.after_help(examples.to_owned()).mut_args(hidden);
    command.after_long_help(format!("{examples}\n\n{notes}"))
}

/// Adds `--conf`, and a flag for every parameter that the command takes. The help begins with the flags
/// that most calls have; the command's others are under their own heading.
pub fn with_settings(command: Command, kind: CommandKind) -> Command {
    let conf = path("conf", "FILE", "Settings file [default: ./slob.conf if it is there]");
    let is_common = |arg: &Arg| arg.get_id() == "schemas" || arg.get_id() == "sessions";
    let headed = |arg: Arg| match arg.is_positional() || is_common(&arg) {
        true => arg.display_order(0),
        false => arg.help_heading("More of this command"),
    };
    // `-h` is one screen.
    let rare = |arg: Arg| match arg.get_help_heading() {
        Some(_) => arg.hide_short_help(true),
        None => arg,
    };
    let command = command.arg(conf).mut_args(headed).args(flags::args(kind)).mut_args(rare);
    command.help_template(TEMPLATE)
}

/// The end of a help about targets: examples, and a limit that a reader must know.
pub fn of_targets(examples: &str) -> String {
    const UNPROVEN: &str = "Oracle: petal has not run on an Oracle Database yet;\npetal prove proves it \
        on yours.";
    format!("{examples}\n\n{UNPROVEN}")
}

/// `-s N`.
pub fn schemas(help: &'static str) -> Arg {
    value("schemas", "N", help).short('s').value_parser(whole::<u32>(1, SCHEMAS_MAX.into()))
}

/// `--full`, for the commands whose result is one screen on a terminal.
pub fn full() -> Arg {
    flag("full", "Print the whole report on a terminal, too, instead of one screen")
}

/// `--json` and `--full`, for the commands that show runs as they end.
pub fn run_output() -> [Arg; 2] {
    [flag("json", "Print the summary as JSON, and only it, on stdout"), full()]
}

/// `--fail-if LIMIT`, which may be given several times.
pub fn limits(help: &'static str) -> Arg {
    let arg = value("fail-if", "LIMIT", help).action(ArgAction::Append);
    arg.value_parser(|text: &str| text.parse::<ChangeLimit>())
}

/// `--max-latency EVENT.FIGURE=TIME`, for the commands that report petals.
pub fn objective() -> Arg {
    Arg::new("objective")
        .long("max-latency")
        .value_name("BOUND")
        .value_parser(|text: &str| text.parse::<Objective>())
        .help("Find the highest load within it: op.p99=2ms, read.avg=500us; with RATE operations count from \
             when they were due")
}

/// Adds `--xlsx FILE`, where petal was built with it.
pub fn with_workbook(command: Command) -> Command {
    match cfg!(feature = "xlsx") {
        true => command.arg(path(
            "xlsx",
            "FILE",
            "Also write an Excel workbook with charts: petals, cells, seconds, waits",
        )),
        false => command,
    }
}

/// `--destroy-data PATH`, for the commands that write over a target.
pub fn destroy_data() -> Arg {
    path(
        "destroy-data",
        "PATH",
        "Overwrite data that is not petal's: repeats the exact path of --db device:PATH. petal \
         never overwrites a mounted or busy device",
    )
}

/// `--os-data FILE`, for the commands that make or read a run.
pub fn os_data() -> Arg {
    path("os-data", "FILE", "File of `petal os` on the database's host, merged by time")
}

/// Reads a whole number from `min` to `max`, for clap's `value_parser`.
pub fn whole<T>(min: u64, max: u64) -> impl Fn(&str) -> Result<T, String> + Clone
where
    T: TryFrom<u64>,
{
    let rule = match max {
        u64::MAX => format!("must be a whole number from {min}"),
        max => format!("must be a whole number from {min} to {max}"),
    };
    move |text| {
        let is_plain = text.bytes().all(|byte| byte.is_ascii_digit());
        let number = text.parse().ok().filter(|number| is_plain && (min..=max).contains(number));
        number.and_then(|number| T::try_from(number).ok()).ok_or_else(|| rule.clone())
    }
}

/// Refuses `KEY=VALUE` in place of a number of schemas, and names the option that means it.
pub fn no_setting(text: &str) -> Result<String, String> {
    let key = text.split_once('=').and_then(|(key, _)| table::slip_of(key));
    match key.and_then(table::find) {
        Some(parameter) => {
            Err(format!("a setting is an option here: --{} VALUE", parameter.flag()))
        }
        None => Ok(text.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_in_the_place_of_the_schemas_is_refused_by_its_option() {
        let words = "a setting is an option here: --run-time VALUE".to_owned();
        assert_eq!(no_setting("RUN_TIME=5"), Err(words.clone()));
        assert_eq!(no_setting("run_tim=5"), Err(words));
        for text in ["4", "IOPS", "", "=", "far_from_all_keys=1"] {
            assert_eq!(no_setting(text), Ok(text.to_owned()));
        }
    }

    #[test]
    fn an_invalid_number_is_refused_with_the_rule() {
        let schemas = whole::<u32>(1, u64::MAX);
        assert_eq!(schemas("12"), Ok(12));
        for text in ["", "0", "x", "4.5", "-1", "+1", "99999999999"] {
            assert_eq!(schemas(text), Err("must be a whole number from 1".to_owned()), "{text}");
        }
        let percent = whole::<u8>(1, 99);
        assert_eq!((percent("99"), percent("100").is_err()), (Ok(99), true));
        assert_eq!(percent("100").unwrap_err(), "must be a whole number from 1 to 99");
    }
}
