//! `petal powercut`: the power cut in a virtual machine, so often.

use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgMatches, Command};

use crate::report::numbers::{decimal, whole as shown};
use crate::runner::powercut::{self, Cut, DiskKind, Request};

use super::args::{self, flag, value, whole};
use super::console::Console;
use super::failure::{Exit, Failure};
use super::{signals, source};

const EXAMPLES: &str = "\
Examples:
  petal powercut --cuts 20                                 SQLite on a disk that flushes when told to
  petal powercut --cuts 20 --disk lying                    the same on one that only says so
  petal powercut --cuts 20 --options synchronous=off       the same without waiting for the disk

Needs qemu-system-x86, nbdkit, busybox-static, e2fsprogs and a kernel image of Debian's. Exit codes: 0
nothing lost; 1 commits lost.";

pub fn command() -> Command {
    Command::new("powercut")
        .about("Cut the power of a virtual machine at random moments, and verify each time")
        .after_help(EXAMPLES)
        .arg(
            value("cuts", "N", "How many cuts")
                .default_value("5")
                .value_parser(whole::<u32>(1, 100_000)),
        )
        .arg(
            value("disk", "KIND", "honest: flushes its cache when told to; lying: says so alone")
                .default_value("honest")
                .value_parser(DiskKind::parse),
        )
        .arg(
            value("options", "OPTIONS", "Options of the guest's sqlite: URL: synchronous=off")
                .default_value(""),
        )
        .arg(
            value("within", "SECONDS", "The longest time from the first commits to the cut")
                .default_value("5")
                .value_parser(whole::<u32>(1, 3600)),
        )
        .arg(args::path("kernel", "FILE", "The guest's kernel [default: the newest of /boot]"))
        .arg(flag("json", "Print what was found as JSON, and only it, on stdout"))
}

pub fn run(matches: &ArgMatches, console: &Console) -> Result<Exit, Failure> {
    let signals = signals::count()?;
    let number = |name: &str| matches.get_one::<u32>(name).copied().unwrap_or(1);
    let request = Request {
        cuts: number("cuts"),
        disk: matches.get_one::<DiskKind>("disk").copied().unwrap_or(DiskKind::Honest),
        options: matches.get_one::<String>("options").cloned().unwrap_or_default(),
        kernel: matches.get_one::<PathBuf>("kernel").cloned(),
        within: Duration::from_secs(number("within").into()),
    };
    let context = source::context(&signals, console);
    let told = |number: u32, cut: &Cut| console.warn(&line(number, cut));
    let cuts = powercut::run(&request, &context.caller, context.watch, &told)?;
    if matches.get_flag("json") {
        let text = serde_json::to_string_pretty(&cuts);
        console.result(&(text.map_err(Failure::failed("the cuts are no JSON"))? + "\n"));
    } else {
        let rate = cuts.commits_per_second.map_or("-".to_owned(), |rate| decimal(rate, 0));
        console.result_line(&format!(
            "{} of {} acknowledged commits lost over {} cuts ({} disk{}; {rate} commits/s, {})",
            shown(cuts.lost_commits),
            shown(cuts.acknowledged_commits),
            cuts.cuts.len(),
            cuts.disk,
            if cuts.options.is_empty() { String::new() } else { format!(", {}", cuts.options) },
            cuts.accelerator,
        ));
    }
    Ok(if cuts.is_kept() { Exit::Done } else { Exit::Failed })
}

fn line(number: u32, cut: &Cut) -> String {
    let (lost, all) = (shown(cut.lost_commits), shown(cut.acknowledged_commits));
    match &cut.unreadable {
        Some(why) => format!("cut {number}: nothing of {all} commits can be read: {why}"),
        None => format!("cut {number}: {lost} of {all} lost, {} bad rows", shown(cut.bad_rows)),
    }
}
