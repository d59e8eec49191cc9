//! `petal merge`: the shares of several driver hosts as one record, judged, and written like a
//! run's.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use petal_host::files;
use petal_record::{self as record, RecordFolder, Run};
use time::OffsetDateTime;

use super::RunError;

/// A measured run, and its folder.
pub struct RunWithFolder {
    pub run: Run,
    pub folder: RecordFolder,
    /// Error after the figures were measured: a hook, or a report that could not be written.
    pub failure: Option<RunError>,
}

impl RunWithFolder {
    /// False if the record could not be written: only the seconds are then in the folder.
    pub fn is_written(&self) -> bool {
        self.folder.opened().is_ok_and(|folder| folder.read("run.json".as_ref()).is_ok())
    }
}

/// Merges the shares in these folders into a new one below `out`. Refused shares leave no folder.
pub fn merge(folders: &[PathBuf], out: &Path, name: &str) -> Result<RunWithFolder, RunError> {
    let folder = RecordFolder::create(out, name, OffsetDateTime::now_utc())?;
    merge_into(folders, folder.clone(), &BTreeMap::new()).inspect_err(|_| {
        // It was created just now, and holds only files of this merge.
        let _ = files::remove_all(folder.path());
    })
}

/// Merges into an existing folder. `first_limits`: the limits of all hosts in the first cell of the
/// sweep; empty without one.
pub fn merge_into(
    folders: &[PathBuf],
    folder: RecordFolder,
    first_limits: &BTreeMap<String, String>,
) -> Result<RunWithFolder, RunError> {
    let mut run = record::merge::merge(folders, &folder)?;
    if let Some(facts) = &mut run.details.facts {
        facts.compare_with_first_cell(first_limits);
    }
    petal_judge::conclude(&mut run);
    record::save(&folder, &run)?;
    let failure = petal_report::write_all(&folder, &run).err().map(RunError::from);
    Ok(RunWithFolder { run, folder, failure })
}
