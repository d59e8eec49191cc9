//! `--os-data FILE`: what `petal os` recorded on the database's host, merged into a run's record.

use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use clap::{Arg, Command, value_parser};

use crate::analysis::findings;
use crate::record::{Folder, RecordError, Run, os_merge};

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

/// A recorder beside the run may be a second behind its end.
const PATIENCE: Duration = Duration::from_secs(3);

/// Waits a moment until the file has come to the end of a run that has just ended.
pub fn wait_for(run: &Run, file: &Path) {
    let began = Instant::now();
    while began.elapsed() < PATIENCE && !os_merge::reaches_end(run, file) {
        thread::sleep(PATIENCE / 10);
    }
}

/// Merges, and judges what is known now. The seconds are written beside the record, which the
/// caller writes; the inner result is how that went.
pub fn merge(
    run: &mut Run,
    file: &Path,
    folder: &Folder,
    console: &Console,
) -> Result<Result<(), RecordError>, Failure> {
    let notes = os_merge::merge(run, file)?;
    notes.iter().for_each(|note| console.warn(note));
    run.summary.findings = findings::judge(run);
    Ok(os_merge::save_seconds(folder, run))
}
