//! Flags from the table, for clap, and back from clap to keys and texts. Values are judged in
//! [`super::read`], not by clap, so that every refusal reads alike.

use std::collections::BTreeMap;

use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches};

use super::axes::is_axis;
use super::table::{CommandKind, Group, PARAMETERS, Parameter, capitalised};

/// Parameters that most calls set, in the order of help, which begins with them.
const MOST_USED: [&str; 5] = ["THREADS_PER_SCHEMA", "UPDATE_PCT", "RUN_TIME", "SCALE", "DB"];

/// Returns a long flag for each parameter that the command takes, under the table's headings.
pub fn args(command: CommandKind) -> Vec<Arg> {
    Group::ALL
        .into_iter()
        .flat_map(|(group, heading)| {
            group.parameters().filter(|parameter| parameter.taken_by.includes(command)).map(
                move |parameter| {
                    let arg = arg(parameter, command);
                    match MOST_USED.iter().position(|key| *key == parameter.key) {
                        Some(at) => arg.display_order(1 + at),
                        _ => arg.help_heading(heading),
                    }
                },
            )
        })
        .collect()
}

/// The flags that were given, by key.
pub fn given(matches: &ArgMatches, command: CommandKind) -> BTreeMap<&'static str, String> {
    PARAMETERS
        .iter()
        .filter(|parameter| parameter.taken_by.includes(command))
        .filter(|parameter| matches.value_source(parameter.key) == Some(ValueSource::CommandLine))
        .filter_map(|parameter| {
            let text = matches.get_one::<String>(parameter.key)?;
            Some((parameter.key, text.clone()))
        })
        .collect()
}

fn arg(parameter: &'static Parameter, command: CommandKind) -> Arg {
    let list = match command == CommandKind::Sweep && is_axis(parameter) {
        true => "; also a list",
        false => "",
    };
    let meaning = capitalised(parameter.meaning.trim_end_matches(" (also -t)"));
    let help = format!("{meaning}{list} [default: {}]", parameter.default_words());
    let arg = Arg::new(parameter.key)
        .long(parameter.flag())
        .value_name(parameter.value_name())
        .action(ArgAction::Set)
        .allow_negative_numbers(true)
        .help(help);
    match parameter.key {
        // SLOB's own short flag.
        "THREADS_PER_SCHEMA" => arg.short('t'),
        // A switch, as people know it; its value may follow.
        "USE_SLOB_SCHEMAS" => arg.num_args(0..=1).default_missing_value("TRUE"),
        _ => arg,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Command;
    use insta::assert_snapshot;

    fn command(kind: CommandKind) -> Command {
        Command::new("petal").args(args(kind))
    }

    #[test]
    fn clap_accepts_the_flags_of_every_command() {
        for kind in [CommandKind::Setup, CommandKind::Run, CommandKind::Sweep, CommandKind::Target]
        {
            command(kind).debug_assert();
        }
    }

    #[test]
    fn only_what_was_given_comes_back() {
        let words = ["petal", "--update-pct", "20", "-t", "4", "--seed=-5", "--scale", ""];
        let matches = command(CommandKind::Run).try_get_matches_from(words).unwrap();
        let given = given(&matches, CommandKind::Run);
        let expected = BTreeMap::from([
            ("UPDATE_PCT", "20".to_owned()),
            ("THREADS_PER_SCHEMA", "4".to_owned()),
            ("SEED", "-5".to_owned()),
            ("SCALE", String::new()),
        ]);
        assert_eq!(given, expected);
    }

    #[test]
    fn a_switch_needs_no_value() {
        for words in
            [&["petal", "--use-slob-schemas"][..], &["petal", "--use-slob-schemas", "TRUE"]]
        {
            let matches = command(CommandKind::Run).try_get_matches_from(words).unwrap();
            assert_eq!(given(&matches, CommandKind::Run)["USE_SLOB_SCHEMAS"], "TRUE");
        }
    }

    #[test]
    fn a_setup_takes_no_flag_of_a_run() {
        let words = ["petal", "--update-pct", "20"];
        assert!(command(CommandKind::Setup).try_get_matches_from(words).is_err());
        let words = ["petal", "--scan-table-sz", "2M"];
        assert!(command(CommandKind::Setup).try_get_matches_from(words).is_ok());
        assert!(command(CommandKind::Run).try_get_matches_from(words).is_err());
    }

    #[test]
    fn help_shows_meaning_and_default() {
        let help = command(CommandKind::Target).term_width(80).render_help().to_string();
        assert_snapshot!(help, @r"
        Usage: petal [OPTIONS]

        Options:
              --db <URL>  The database under test [default: sqlite:petal-data]
          -h, --help      Print help

        Target and results:
              --password-command <PATH>
                  Called with host, port and user; prints the password, for connections
                  of the next 60 s; its output is never shown [default: none]

        Connections, Oracle style:
              --admin-sqlnet-service <TEXT>
                  Service for statistics and loading [default: none]
              --sqlnet-service-base <TEXT>
                  Service of the sessions; with SQLNET_SERVICE_MAX a number is appended
                  [default: none]
              --sqlnet-service-max <N>
                  Number of services over which schemas, or sessions, are spread
                  [default: none]
              --dba-priv-user <USER>
                  User who may administer the database [default: none]
              --sysdba-passwd <SECRET>
                  That user's password; never shown [default: none]
              --use-slob-schemas [<TRUE|FALSE>]
                  Runs on the schemas that SLOB loaded, user1 to userN; petal never
                  loads over or drops them [default: FALSE]
        ");
    }
}
