//! `--os-data FILE`: merges the recording of `petal os` on the database's host into a run's record.

use petal_record::{RecordError, RecordFolder, Run, os_merge};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

/// Maximum delay of a recorder on the database's host after the end of a run.
const LAG_MAX: Duration = Duration::from_secs(3);

/// Waits a moment until the file reaches the end of a run that has just ended.
pub fn wait_for(run: &Run, file: &Path) {
    let began = Instant::now();
    while began.elapsed() < LAG_MAX && !os_merge::reaches_end(run, file) {
        thread::sleep(LAG_MAX / 10);
    }
}

/// Merges the recording, and judges the run again. The seconds are written next to the record,
/// which the caller writes; the inner result is the outcome of that write.
pub fn merge(
    run: &mut Run,
    file: &Path,
    folder: &RecordFolder,
    note: &dyn Fn(&str),
) -> Result<Result<(), RecordError>, RecordError> {
    let notes = os_merge::merge(run, file)?;
    notes.iter().for_each(|line| note(line));
    petal_judge::conclude(run);
    Ok(os_merge::save_seconds(folder, run))
}
