//! `--os-data FILE`: what `petal os` recorded on the database's host, merged into a run's record.

use std::path::{Path, PathBuf};

use clap::{Arg, Command, value_parser};

use crate::analysis::findings;
use crate::record::{Folder, Run, os_merge};

use super::console::Console;
use super::failure::Failure;

pub fn arg(command: Command) -> Command {
    command.arg(
        Arg::new("os-data")
            .long("os-data")
            .value_name("FILE")
            .value_parser(value_parser!(PathBuf))
            .help("What `petal os` recorded on the database's host meanwhile, merged by time"),
    )
}

/// Merges, and judges what is known now. The seconds are written beside the record, which the
/// caller writes.
pub fn merge(
    run: &mut Run,
    file: &Path,
    folder: &Folder,
    console: &Console,
) -> Result<(), Failure> {
    let notes = os_merge::merge(run, file)?;
    notes.iter().for_each(|note| console.warn(note));
    run.summary.findings = findings::judge(run);
    // A record on a read-only medium is still reported.
    if let Err(error) = os_merge::save_seconds(folder, run) {
        console.warn(&error.to_string());
    }
    Ok(())
}
