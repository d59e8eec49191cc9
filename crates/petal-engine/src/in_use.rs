//! The mark of data in use, which a run holds so that they are not loaded over or dropped under it.

use std::fs::Metadata;
use std::io;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::Path;

use rustix::fs::AtFlags;

use super::Result;
use petal_host::files::Folder;

/// Held by a run until its figures are taken: setup and drop are refused meanwhile.
pub trait DataUse: Send + Sync {
    /// Other petal runs that use the same data now, a line each.
    fn other_runs(&self) -> Result<Vec<String>> {
        Ok(Vec::new())
    }

    /// The reason why the data are no longer those that the run began with; `None` if they are.
    fn vanished(&self) -> Result<Option<String>> {
        Ok(None)
    }
}

/// A file by device and inode; a block device by its number, whatever its node is called.
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
        match about.file_type().is_block_device() {
            true => Self(u64::MAX, about.rdev()),
            false => Self(about.dev(), about.ino()),
        }
    }
}

/// Removes a name from its folder if it is that of this file: one that has taken its place, and a
/// link, stay.
pub fn unlink_same(path: &Path, file: FileId) -> io::Result<()> {
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let folder = Folder::open(folder)?;
    let about = rustix::fs::statat(folder.file(), name, AtFlags::SYMLINK_NOFOLLOW)?;
    if (about.st_dev, about.st_ino) != (file.0, file.1) {
        return Err(io::Error::other("another file has taken its place, which stays"));
    }
    folder.remove(name)
}

/// A no-op `DataUse` for data that cannot be dropped during a run.
pub struct Unshared;

impl DataUse for Unshared {}
