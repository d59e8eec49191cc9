//! `petal merge`: the shares of several driver hosts as one record, judged, and written as a run's.

use std::path::{Path, PathBuf};

use petal_model::record::{self, RecordFolder, Run};
use time::OffsetDateTime;

use super::RunError;

/// A run that was measured, and its folder.
pub struct RunWithFolder {
    pub run: Run,
    pub folder: RecordFolder,
    /// An error after the figures were measured: a hook, a report that could not be written.
    pub failure: Option<RunError>,
}

impl RunWithFolder {
    /// False where its record could not be written: then its journal alone is in the folder.
    pub fn is_written(&self) -> bool {
        self.folder.path().join("run.json").is_file()
    }
}

/// Merges the shares in these folders into a new one below `out`. Refused shares leave no folder.
pub fn merge(folders: &[PathBuf], out: &Path, name: &str) -> Result<RunWithFolder, RunError> {
    let folder = RecordFolder::create(out, name, OffsetDateTime::now_utc())?;
    merge_into(folders, folder.clone()).inspect_err(|_| {
        // It was made just now, and holds nothing but what this merge began.
        let _ = std::fs::remove_dir_all(folder.path());
    })
}

/// Merges into a folder that is there.
pub fn merge_into(folders: &[PathBuf], folder: RecordFolder) -> Result<RunWithFolder, RunError> {
    let mut run = record::merge::merge(folders, &folder)?;
    petal_judge::conclude(&mut run);
    record::save(&folder, &run)?;
    let failure = petal_report::write_all(&folder, &run).err().map(RunError::from);
    Ok(RunWithFolder { run, folder, failure })
}
