//! The mark of data in use, which a run holds so that they are not loaded over or dropped under it.

use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use super::Result;

/// Held by a run until its figures are taken: setup and drop are refused meanwhile.
pub trait DataUse: Send + Sync {
    /// Other petal runs that use the same data now, a line each.
    fn other_runs(&self) -> Result<Vec<String>> {
        Ok(Vec::new())
    }

    /// The reason why the data are no longer those that the run began with; None where they are.
    fn vanished(&self) -> Result<Option<String>> {
        Ok(None)
    }
}

/// A file by device and inode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FileId(u64, u64);

impl FileId {
    pub fn of(path: &Path) -> io::Result<Self> {
        std::fs::metadata(path).map(|about| Self::from(&about))
    }

    /// Why the path no longer leads to this file, if so.
    pub fn vanished(self, path: &Path) -> Option<String> {
        match Self::of(path) {
            Ok(now) if now == self => None,
            Ok(_) => Some(format!("{} is another file now", path.display())),
            Err(error) => Some(format!("{}: {error}", path.display())),
        }
    }
}

impl From<&Metadata> for FileId {
    fn from(about: &Metadata) -> Self {
        Self(about.dev(), about.ino())
    }
}

/// The mark for data that nobody can take away.
pub struct Unshared;

impl DataUse for Unshared {}
