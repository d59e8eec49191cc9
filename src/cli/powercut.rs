//! `petal powercut`: cuts of the power in a virtual machine.

use std::path::PathBuf;
use std::time::Duration;

use crate::runner::powercut::{self, Accelerator, DiskKind, GuestEngine, PowerCutRequest};
use clap::{Arg, ArgAction, ArgMatches, Command};

use super::args::{self, flag, value, whole};
use super::console::Console;
use super::failure::{CommandError, Exit};
use super::{signals, source};

const EXAMPLES: &str = "\
Examples:
  petal powercut --cuts 20                                SQLite, and 3 cuts of each control
  petal powercut postgres --cuts 200 --json >cuts.json    PostgreSQL of this host's package
  petal powercut --disk lying --controls 0                a disk that only says that it flushed
  petal powercut postgres --set fsync=off --keep cuts     each cut's ledger and disk are kept

Needs qemu-system-x86 and e2fsprogs, and a kernel and busybox for the guest: see --guest. KVM
makes it fast; without it qemu emulates. Ctrl-C ends it and shows the cuts so far. Exit codes: 0
nothing lost; 1 commits lost, or rows torn or wrong; 3 no verdict, as something is missing.
Controls are meant to lose.";

pub fn command() -> Command {
    Command::new("powercut")
        .about("Cut the power of a virtual machine at random moments, and verify each time")
        .after_help(EXAMPLES)
        .arg(
            Arg::new("engine")
                .value_name("ENGINE")
                .default_value("sqlite")
                .value_parser(GuestEngine::parse)
                .help("The database in the guest: sqlite or postgres"),
        )
        .arg(
            value("cuts", "N", "How many cuts")
                .default_value("5")
                .value_parser(whole::<u32>(1, 100_000)),
        )
        .arg(
            value(
                "disk",
                "KIND",
                "honest: writes its cache when told to flush; lying: says so only",
            )
            .default_value("honest")
            .value_parser(DiskKind::parse),
        )
        .arg(
            value("set", "NAME=VALUE", "A setting of the guest's database, such as fsync=off")
                .action(ArgAction::Append)
                .value_parser(setting),
        )
        .arg(
            value(
                "controls",
                "N",
                "Cuts of each control between these: a lying disk, and settings that do not wait for \
                 the disk. They show that a loss is found, and what durability costs",
            )
            .default_value("3")
            .value_parser(whole::<u32>(0, 100_000)),
        )
        .arg(
            value("within", "SECONDS", "The longest time from the first commits to the cut")
                .default_value("5")
                .value_parser(whole::<u32>(1, 3600)),
        )
        .arg(
            value("accel", "NAME", "kvm or tcg (emulation) [default: kvm where the processor can]")
                .value_parser(Accelerator::parse),
        )
        .arg(args::path(
            "guest",
            "DIR",
            "Where Debian's kernel and busybox were unpacked [default: ./petal-guest, then /]",
        ))
        .arg(args::path("keep", "DIR", "Keep each cut's ledger, and its disk after recovery"))
        .arg(flag("json", "Print what was found as JSON, and only it, on stdout"))
}

pub fn run(matches: &ArgMatches, console: &Console) -> Result<Exit, CommandError> {
    let signals = signals::count()?;
    let number = |name: &str| matches.get_one::<u32>(name).copied().unwrap_or(0);
    let path = |name: &str| matches.get_one::<PathBuf>(name).cloned();
    let request = PowerCutRequest {
        engine: matches.get_one("engine").copied().unwrap_or(GuestEngine::Sqlite),
        cuts: number("cuts"),
        disk: matches.get_one("disk").copied().unwrap_or(DiskKind::Honest),
        settings: matches.get_many("set").unwrap_or_default().cloned().collect(),
        controls: number("controls"),
        within: Duration::from_secs(number("within").into()),
        accelerator: matches.get_one("accel").copied(),
        guest: path("guest"),
        keep: path("keep"),
    };
    let context = source::context(&signals, console);
    let on_cut = |trial: &_, cut: &_| console.warn(&petal_report::powercut::cut(trial, cut));
    let (found, error) = powercut::run(&request, &context.caller, context.watch, &on_cut)?;
    if matches.get_flag("json") {
        let text = petal_report::json::pretty(&found);
        console.result(&text.map_err(CommandError::failed("the cuts are no JSON"))?);
    } else {
        console.report(|| petal_report::powercut::text(&found));
    }
    match error {
        Some(error) => Err(error.into()),
        None if found.is_kept() => Ok(Exit::Done),
        None => Ok(Exit::Failed),
    }
}

/// The guest's shell takes it as it is.
fn setting(text: &str) -> Result<String, String> {
    let is_plain = |part: &str, more: &str| {
        let is_allowed = |c: char| c.is_ascii_alphanumeric() || more.contains(c);
        !part.is_empty() && part.chars().all(is_allowed)
    };
    match text.split_once('=') {
        Some((name, value)) if is_plain(name, "_.") && is_plain(value, "_.-") => {
            Ok(text.to_owned())
        }
        _ => Err("must be NAME=VALUE of letters, digits, _, . and -".to_owned()),
    }
}
