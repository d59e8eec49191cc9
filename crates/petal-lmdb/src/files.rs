//! Files as LMDB makes them, with petal's mark, and LMDB's lock files next to them.
//!
//! LMDB uses the first 160 bytes of a file's first page, and writes no others of it after it has made the
//! file. In the rest petal keeps its mark and a load's metadata.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use petal_engine::Result;
use petal_engine::file_set::{FileFormat, FileOwner};
use petal_engine::in_use::{FileId, unlink_same};
use petal_engine::keyed::folder::KeyedFormat;
use petal_engine::keyed::meta::Notes;
use petal_engine::on_path::OnPath as _;
use petal_host::files;
use petal_settings::table::{EngineSupport, support};

/// A database file.
#[derive(Debug, Clone, Copy)]
pub struct LmdbFormat;

/// LMDB's signature, at the begin of a file's first page and of a lock file.
const MAGIC: u32 = 0xBEEF_C0DE;
const MAGIC_OFFSET: u64 = 16;
/// The number of the last commit, in the first page.
const COMMIT_OFFSET: u64 = 144;
/// LMDB makes a file with so many bytes.
const NEW_FILE_BYTES: u64 = 8192;

impl FileFormat for LmdbFormat {
    const ENDING: &'static str = ".lmdb";

    fn support(&self) -> &'static EngineSupport {
        &support::LMDB
    }

    /// A file that LMDB has made and nobody has committed to holds nothing: a load was cut off before
    /// it wrote petal's mark.
    fn owner(&self, file: &File) -> io::Result<FileOwner> {
        if Self::NOTES.text(file)?.is_some() {
            return Ok(FileOwner::Petal);
        }
        let mut commit = [0; 8];
        let is_new = file.metadata()?.len() <= NEW_FILE_BYTES
            && has_magic(file, MAGIC_OFFSET)?
            && file.read_at(&mut commit, COMMIT_OFFSET)? == commit.len()
            && commit == [0; 8];
        Ok(if is_new { FileOwner::Empty } else { FileOwner::Foreign })
    }

    fn foreign_side(&self, path: &Path) -> Result<Option<PathBuf>> {
        let side = lock_file(path);
        Ok(match own_lock_file(&side)? {
            OwnSide::Foreign => Some(side),
            OwnSide::Missing | OwnSide::Lmdb(_) => None,
        })
    }

    fn remove_sides(&self, path: &Path) -> Result<()> {
        let side = lock_file(path);
        match own_lock_file(&side)? {
            OwnSide::Lmdb(id) => unlink_same(&side, id).on(&side),
            OwnSide::Missing | OwnSide::Foreign => Ok(()),
        }
    }
}

/// The file next to a database that LMDB keeps its locks in.
fn lock_file(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push("-lock");
    PathBuf::from(name)
}

/// A file with the name of a lock file. One with another name elsewhere is not LMDB's.
enum OwnSide {
    Missing,
    Lmdb(FileId),
    Foreign,
}

fn own_lock_file(path: &Path) -> Result<OwnSide> {
    match std::fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(OwnSide::Missing),
        about => {
            let about = about.on(path)?;
            if !about.is_file() || about.nlink() != 1 {
                return Ok(OwnSide::Foreign);
            }
        }
    }
    let how = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = files::open(path, how).on(path)?;
    let about = file.metadata().on(path)?;
    // LMDB makes it empty first.
    let is_lmdbs = about.len() == 0 || has_magic(&file, 0).on(path)?;
    Ok(if is_lmdbs { OwnSide::Lmdb(FileId::from(&about)) } else { OwnSide::Foreign })
}

fn has_magic(file: &File, offset: u64) -> io::Result<bool> {
    let mut magic = [0; 4];
    let read = file.read_at(&mut magic, offset)?;
    Ok(read == magic.len() && u32::from_ne_bytes(magic) == MAGIC)
}

impl KeyedFormat for LmdbFormat {
    const NOTES: Notes = Notes { mark: "petal's LMDB file\n", offset: 1024, example: "lmdb:DIR" };
}
