//! `petal merge`: the shares of several driver hosts as one record.

use std::path::PathBuf;

use clap::{ArgMatches, Command};
use petal_run::merge;

use super::args::{self, value};
use super::console::Console;
use super::failure::{CommandError, Exit};
use super::run::show;

const EXAMPLES: &str = "\
Examples, after petal run --share K/N --start-at TIME on each of N hosts:
  petal merge node*/petal-results/*share*of4   one record of all shares
  petal merge --json A B C D | jq .steady.per_second  figures for a script
  petal report petal-results/...-merged        its report again, later

Counts are added up, and latencies merged from the hosts' histograms. The
database's counters are those of share 1. A killed share is read from its
seconds. If a share is missing, petal names it, and the record is incomplete
(exit 1). Shares of other versions, data or settings are refused (2).";

pub fn command() -> Command {
    Command::new("merge")
        .about("Merge the shares of several driver hosts into one record")
        .after_help(EXAMPLES)
        .arg(args::paths("folder", "DIR", "The folders of all shares of one run"))
        .args(args::run_output())
        .arg(value("name", "NAME", "Names the merged run's folder").default_value("merged"))
        .arg(
            args::path("out", "DIR", "Folder that gets the merged run's folder")
                .default_value("petal-results"),
        )
}

pub fn run(matches: &ArgMatches, console: &Console) -> Result<Exit, CommandError> {
    let folders: Vec<PathBuf> = matches.get_many("folder").unwrap_or_default().cloned().collect();
    let argument = |name: &str| matches.get_one::<String>(name).cloned().unwrap_or_default();
    let out = matches.get_one::<PathBuf>("out").cloned().unwrap_or_default();
    let kept = merge::merge(&folders, &out, &argument("name"))?;
    show(&kept, matches, console, Some(&petal_report::text::brief))?;
    match kept.failure {
        Some(failure) => Err(failure.into()),
        None => Ok(Exit::of_run(&kept.run)),
    }
}
