//! Files as SQLite makes them: how petal's are known, and the files that lie next to them.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::Advice;

use super::checkpoint::checkpoint;
use super::connection::{Access, open, schema_version, with_suffix};
use super::direct::{self, FileId};
use super::io::IoContext;
use super::layout::APPLICATION_ID;
use petal_engine::file_set::{FileFormat, FileOwner, FileSet};
use petal_engine::in_use::unlink_same;
use petal_engine::on_path::OnPath;
use petal_engine::{EngineError, Result};
use petal_host::files;
use petal_settings::table::{EngineSupport, support};

/// The folder of a target.
pub type TargetFolder = FileSet<SqliteFormat>;

/// A database file.
#[derive(Debug, Clone, Copy)]
pub struct SqliteFormat;

/// Files that SQLite puts next to a database file.
const SIDES: [&str; 3] = [WAL, SHM, JOURNAL];
const WAL: &str = "-wal";
const SHM: &str = "-shm";
const JOURNAL: &str = "-journal";
const WAL_MAGIC: [[u8; 4]; 2] = [[0x37, 0x7f, 0x06, 0x82], [0x37, 0x7f, 0x06, 0x83]];
const JOURNAL_MAGIC: [u8; 8] = [0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7];
/// The index of a WAL has three bytes when its first connection opens, and grows by as much.
const SHM_BEGUN_BYTES: u64 = 3;
const SHM_STEP_BYTES: u64 = 4096;

impl FileFormat for SqliteFormat {
    const ENDING: &'static str = ".db";

    fn support(&self) -> &'static EngineSupport {
        &support::SQLITE
    }

    fn open(&self, path: &Path) -> io::Result<Arc<File>> {
        direct::buffered(path)
    }

    fn owner(&self, file: &File) -> io::Result<FileOwner> {
        Ok(match sizes(file)? {
            Some(_) => FileOwner::Petal,
            None => FileOwner::Foreign,
        })
    }

    /// Network file systems make this lock one of all bytes, which is in the way of SQLite's own.
    fn takes_lock(&self, file: &File) -> io::Result<bool> {
        const NFS: u32 = 0x6969;
        const CIFS: u32 = 0xff53_4d42;
        const SMB2: u32 = 0xfe53_4d42;
        let kind = rustix::fs::fstatfs(file)?.f_type as u32;
        Ok(![NFS, CIFS, SMB2].contains(&kind))
    }

    fn foreign_side(&self, path: &Path) -> Result<Option<PathBuf>> {
        for side in SIDES {
            let path = with_suffix(path, side);
            if let SideFile::Foreign = side_at(&path, side)? {
                return Ok(Some(path));
            }
        }
        Ok(None)
    }

    /// Files of these names that are not SQLite's stay.
    fn remove_sides(&self, path: &Path) -> Result<()> {
        for side in SIDES {
            let path = with_suffix(path, side);
            if let SideFile::Sqlite(file) = side_at(&path, side)? {
                unlink_same(&path, file).on(&path)?;
            }
        }
        Ok(())
    }

    /// The WAL of the file that is replaced must not be taken for the new one's.
    fn give_up(&self, path: &Path) -> Result<()> {
        if let Ok(connection) = open(path, Access::Write, &IoContext::default())
            && checkpoint(&connection, "TRUNCATE").is_ok_and(|answer| answer.busy)
        {
            return Err(EngineError::Environment(format!(
                "{}: another process uses it, so it is not replaced; stop that one first",
                path.display()
            )));
        }
        self.remove_sides(path)
    }

    fn forget(&self, file: FileId) {
        direct::forget(file);
    }

    fn version(&self, path: &Path) -> Result<i64> {
        schema_version(path)
    }
}

/// The page size and the number of pages by the header, through the descriptor that is kept for that
/// (see [`direct`]). None of a file without petal's mark.
pub fn sizes_of(path: &Path) -> Result<Option<(u64, u64)>> {
    direct::buffered(path).and_then(|file| sizes(&file)).on(path)
}

fn sizes(file: &File) -> io::Result<Option<(u64, u64)>> {
    let mut bytes = [0u8; 100];
    let read = file.read_at(&mut bytes, 0)?;
    Ok(parse_header(&bytes[..read]))
}

/// <https://sqlite.org/fileformat2.html>, section 1.3.
fn parse_header(bytes: &[u8]) -> Option<(u64, u64)> {
    let number = |at: usize| -> Option<u64> {
        let word: [u8; 4] = bytes.get(at..at + 4)?.try_into().ok()?;
        Some(u64::from(u32::from_be_bytes(word)))
    };
    let is_petal =
        bytes.starts_with(b"SQLite format 3\0") && number(68) == Some(u64::from(APPLICATION_ID));
    let page_bytes = match number(16).filter(|_| is_petal)? >> 16 {
        1 => 65_536,
        bytes => bytes,
    };
    Some((page_bytes, number(28)?))
}

/// Drops a file's pages from the page cache, if that advice is taken.
pub fn leave_page_cache(path: &Path) {
    if let Ok(file) = direct::buffered(path) {
        let _ = rustix::fs::fadvise(&file, 0, None, Advice::DontNeed);
    }
}

/// A file with the name of one of SQLite's.
enum SideFile {
    Missing,
    Sqlite(FileId),
    Foreign,
}

/// The file of this name. SQLite's are empty, or begin as SQLite's files do
/// (<https://sqlite.org/fileformat2.html>, sections 3 and 4, and walformat.html), and have no other name.
fn side_at(path: &Path, side: &str) -> Result<SideFile> {
    let found = fs::symlink_metadata(path).and_then(|about| is_sqlites(path, side, &about));
    match found {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(SideFile::Missing),
        found => found.on(path),
    }
}

fn is_sqlites(path: &Path, side: &str, about: &fs::Metadata) -> io::Result<SideFile> {
    // No name is left of one that SQLite removes meanwhile.
    if !about.is_file() || about.nlink() > 1 {
        return Ok(SideFile::Foreign);
    }
    // The lock bytes of SQLite's -shm are those of this process: no descriptor of it is opened here.
    let is_index = about.len() == SHM_BEGUN_BYTES || about.len().is_multiple_of(SHM_STEP_BYTES);
    if about.len() == 0 || (side == SHM && is_index) {
        return Ok(SideFile::Sqlite(FileId::from(about)));
    }
    let mut begin = [0; 8];
    let read = files::regular(path)?.read_at(&mut begin, 0)?;
    let is_own = match side {
        WAL => WAL_MAGIC.iter().any(|magic| begin.starts_with(magic)),
        JOURNAL => begin == JOURNAL_MAGIC || begin == [0; 8],
        _ => false,
    };
    // SQLite may have made a new one since the look at its length, which is still empty.
    let is_own = read == 0 || is_own && read == begin.len();
    Ok(if is_own { SideFile::Sqlite(FileId::from(about)) } else { SideFile::Foreign })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mark_is_in_the_header() {
        let mut bytes = [0u8; 100];
        bytes[..16].copy_from_slice(b"SQLite format 3\0");
        bytes[16..18].copy_from_slice(&[0x20, 0]);
        bytes[28..32].copy_from_slice(&77u32.to_be_bytes());
        assert_eq!(parse_header(&bytes), None);
        bytes[68..72].copy_from_slice(&APPLICATION_ID.to_be_bytes());
        assert_eq!(parse_header(&bytes), Some((8192, 77)));
        assert_eq!(parse_header(&bytes[..50]), None);
    }

    #[test]
    fn files_that_sqlite_makes_and_removes_at_this_moment_are_its_own() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("petal1.db");
        let open = || rusqlite::Connection::open(&path).unwrap();
        open().pragma_update(None, "journal_mode", "wal").unwrap();
        std::thread::scope(|scope| {
            let at_work = scope.spawn(|| {
                for number in 0..300 {
                    open().execute_batch(&format!("CREATE TABLE t{number} (a)")).unwrap();
                }
            });
            while !at_work.is_finished() {
                assert_eq!(SqliteFormat.foreign_side(&path).unwrap(), None);
            }
        });
        fs::write(with_suffix(&path, SHM), "words of somebody").unwrap();
        assert_eq!(SqliteFormat.foreign_side(&path).unwrap(), Some(with_suffix(&path, SHM)));
    }
}
