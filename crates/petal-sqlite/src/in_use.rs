//! The files that a run uses: locked by inode, and looked for again at its end.

use std::path::PathBuf;

use super::{files, plan};
use petal_engine::Result;
use petal_engine::file_lock::FileLock;
use petal_engine::in_use::{DataUse, FileId};
use petal_engine::on_path::OnPath;

/// SQLite's files of one run. A second run on them is refused: by another link to a file it would
/// have a WAL of its own there, and both would destroy what they share.
pub struct FilesInUse {
    /// Each with the version of its tables and indexes.
    files: Vec<(PathBuf, FileId, i64)>,
    _locks: Vec<FileLock>,
}

impl FilesInUse {
    pub fn begin(paths: Vec<PathBuf>) -> Result<Self> {
        let mut begun = Self { files: Vec::new(), _locks: Vec::new() };
        for path in paths {
            begun._locks.extend(files::lock_file(&path)?);
            let id = FileId::of(&path).on(&path)?;
            let version = plan::schema_version(&path)?;
            begun.files.push((path, id, version));
        }
        Ok(begun)
    }
}

impl DataUse for FilesInUse {
    fn vanished(&self) -> Result<Option<String>> {
        for (path, id, version) in &self.files {
            if let Some(gone) = id.vanished(path) {
                return Ok(Some(gone));
            }
            if plan::schema_version(path)? != *version {
                let path = path.display();
                return Ok(Some(format!("{path}: its tables or indexes were made or dropped")));
            }
        }
        Ok(None)
    }
}
