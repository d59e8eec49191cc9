//! The target folder: petal's files, where they are, room for them, and errors for a person.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::Advice;

use super::direct::{self, FileId};
use super::layout::APPLICATION_ID;
use petal_engine::file_lock::FileLock;
use petal_engine::in_use::unlink_same;
use petal_engine::on_path::{OnPath, unusable};
use petal_engine::server::failure::not_loaded;
use petal_engine::{EngineError, Result};

/// The folder of a target.
#[derive(Debug, Clone)]
pub struct TargetFolder {
    path: PathBuf,
}

/// A file that bears a name of petal's; whose it is, its header tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DatabaseFile {
    pub schema: u32,
    pub path: PathBuf,
    /// Not complete: a load's.
    pub loading: bool,
}

const LOADING: &str = ".loading";
/// Files that SQLite puts beside a database file.
const SIDES: [&str; 3] = [WAL, SHM, JOURNAL];
const WAL: &str = "-wal";
const SHM: &str = "-shm";
const JOURNAL: &str = "-journal";
const WAL_MAGIC: [[u8; 4]; 2] = [[0x37, 0x7f, 0x06, 0x82], [0x37, 0x7f, 0x06, 0x83]];
const JOURNAL_MAGIC: [u8; 8] = [0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7];
/// The index of a WAL grows by as much.
const SHM_BYTES: u64 = 32 << 10;

impl TargetFolder {
    pub fn new(path: &str) -> Self {
        Self { path: PathBuf::from(path) }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn database(&self, schema: u32) -> PathBuf {
        self.path.join(format!("petal{schema}.db"))
    }

    /// The file of a schema, which must be loaded there.
    pub fn loaded_database(&self, schema: u32) -> Result<PathBuf> {
        let path = self.database(schema);
        if path.exists() { Ok(path) } else { Err(not_loaded(self.path.display(), schema)) }
    }

    pub fn loading(&self, schema: u32) -> PathBuf {
        self.path.join(format!("petal{schema}.db{LOADING}"))
    }

    /// Files of petal's names, by schema. A folder that is not there holds none.
    pub fn named(&self) -> Result<Vec<DatabaseFile>> {
        let entries = match fs::read_dir(&self.path) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(unusable(&self.path, &error)),
        };
        let mut named = Vec::new();
        for entry in entries {
            let entry = entry.on(&self.path)?;
            if let Some((schema, loading)) = entry.file_name().to_str().and_then(parse_name) {
                named.push(DatabaseFile { schema, path: entry.path(), loading });
            }
        }
        named.sort_by_key(|file| (file.schema, file.loading));
        Ok(named)
    }

    /// Makes the folder where it is missing.
    pub fn create(&self) -> Result<()> {
        fs::create_dir_all(&self.path).on(&self.path)
    }

    /// Removes the folder if nothing is left in it. True if it is gone.
    pub fn remove_if_empty(&self) -> bool {
        fs::remove_dir(&self.path).is_ok()
    }

    /// Keeps other petals from loading or dropping here, until the lock is dropped.
    pub fn lock(&self) -> Result<FileLock> {
        let folder = File::open(&self.path).on(&self.path)?;
        FileLock::on(folder).map_err(|refused| {
            let held = "another petal is loading or dropping data there; wait until it is done";
            EngineError::Environment(format!("{}: {}", self.path.display(), refused.words(held)))
        })
    }

    /// Makes renames in the folder durable.
    pub fn sync(&self) -> Result<()> {
        File::open(&self.path).and_then(|folder| folder.sync_all()).on(&self.path)
    }

    /// Refuses if nothing can be written, or less than `needed_bytes` are free.
    pub fn check_room(&self, needed_bytes: u64) -> Result<()> {
        let room = rustix::fs::statvfs(&self.path).on(&self.path)?;
        if room.f_flag.contains(rustix::fs::StatVfsMountFlags::RDONLY) {
            return Err(unusable(&self.path, &io::ErrorKind::ReadOnlyFilesystem.into()));
        }
        let available_bytes = room.f_bavail.saturating_mul(room.f_frsize);
        if available_bytes >= needed_bytes {
            return Ok(());
        }
        Err(EngineError::Environment(format!(
            "{}: the load needs {needed_bytes} bytes ({}), {available_bytes} ({}) are free there; \
             load less (SCALE, schemas) or into another folder (--db sqlite:DIR)",
            self.path.display(),
            rounded(needed_bytes),
            rounded(available_bytes),
        )))
    }
}

/// `petal7.db` is schema 7; `petal7.db.loading` a load of it.
fn parse_name(name: &str) -> Option<(u32, bool)> {
    let (name, loading) = match name.strip_suffix(LOADING) {
        Some(rest) => (rest, true),
        None => (name, false),
    };
    let number = name.strip_prefix("petal")?.strip_suffix(".db")?;
    let schema: u32 = number.parse().ok()?;
    (schema > 0 && schema.to_string() == number).then_some((schema, loading))
}

/// For a person: in MiB, or GiB from one on.
fn rounded(bytes: u64) -> String {
    let mebibytes = bytes as f64 / f64::from(1 << 20);
    if mebibytes < 1024.0 {
        format!("{mebibytes:.1} MiB")
    } else {
        format!("{:.1} GiB", mebibytes / 1024.0)
    }
}

/// The kind of a file, by its first hundred bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileHeader {
    Empty,
    /// A SQLite database with petal's application_id.
    Petal {
        page_bytes: u64,
        pages: u64,
    },
    Foreign,
}

/// Reads a header, through the descriptor that is kept for that (see [`direct`]).
pub fn header(path: &Path) -> Result<FileHeader> {
    // A folder, pipe or device of that name is not even opened.
    let metadata = fs::metadata(path).on(path)?;
    if !metadata.is_file() {
        return Ok(FileHeader::Foreign);
    }
    let mut bytes = [0u8; 100];
    let read = direct::buffered(path).and_then(|file| file.read_at(&mut bytes, 0)).on(path)?;
    Ok(if read == 0 { FileHeader::Empty } else { parse_header(&bytes[..read]) })
}

/// <https://sqlite.org/fileformat2.html>, section 1.3.
fn parse_header(bytes: &[u8]) -> FileHeader {
    let number = |at: usize| -> Option<u64> {
        let word: [u8; 4] = bytes.get(at..at + 4)?.try_into().ok()?;
        Some(u64::from(u32::from_be_bytes(word)))
    };
    let is_petal =
        bytes.starts_with(b"SQLite format 3\0") && number(68) == Some(u64::from(APPLICATION_ID));
    match (is_petal, bytes.get(16..18), number(28)) {
        (true, Some(&[high, low]), Some(pages)) => {
            let page_bytes = u64::from(u16::from_be_bytes([high, low]));
            FileHeader::Petal {
                page_bytes: if page_bytes == 1 { 65_536 } else { page_bytes },
                pages,
            }
        }
        _ => FileHeader::Foreign,
    }
}

/// Drops a file's pages from the page cache, where that advice is taken.
pub fn leave_page_cache(path: &Path) {
    if let Ok(file) = direct::buffered(path) {
        let _ = rustix::fs::fadvise(&file, 0, None, Advice::DontNeed);
    }
}

/// Locks a data file, whatever its path, through the descriptor that is kept (see [`direct`]).
pub fn lock_file(path: &Path) -> Result<Option<FileLock>> {
    let file = direct::buffered(path).on(path)?;
    if !has_locks_apart(&file).on(path)? {
        return Ok(None);
    }
    FileLock::on(file).map(Some).map_err(|refused| {
        let held = "another petal run uses this file, by this path or by another link to it; wait \
                    until it is done, or stop it";
        EngineError::Environment(format!("{}: {}", path.display(), refused.words(held)))
    })
}

/// Network file systems make this lock one of all bytes, which is in the way of SQLite's own.
fn has_locks_apart(file: &File) -> io::Result<bool> {
    const NFS: u32 = 0x6969;
    const CIFS: u32 = 0xff53_4d42;
    const SMB2: u32 = 0xfe53_4d42;
    let kind = rustix::fs::fstatfs(file)?.f_type as u32;
    Ok(![NFS, CIFS, SMB2].contains(&kind))
}

/// Removes a database file and what SQLite put next to it. One that has taken its place stays.
pub fn remove(path: &Path, file: FileId) -> Result<()> {
    if let Some(reason) = file.vanished(path) {
        return Err(unusable(path, &io::Error::other(reason)));
    }
    remove_sides(path)?;
    unlink_same(path, file).on(path)?;
    direct::forget(file);
    Ok(())
}

/// Removes what SQLite put next to a file. Files of these names that are not SQLite's stay.
pub fn remove_sides(path: &Path) -> Result<()> {
    for side in SIDES {
        let path = beside(path, side);
        if let Some(file) = own_side(&path, side)? {
            unlink_same(&path, file).on(&path)?;
        }
    }
    Ok(())
}

/// A file next to a database that has a name of SQLite's and is none of SQLite's.
pub fn foreign_side(path: &Path) -> Result<Option<PathBuf>> {
    for side in SIDES {
        let path = beside(path, side);
        if path.symlink_metadata().is_ok() && own_side(&path, side)?.is_none() {
            return Ok(Some(path));
        }
    }
    Ok(None)
}

/// The file of this name if it is SQLite's: it is empty, or begins as SQLite's files do
/// (<https://sqlite.org/fileformat2.html>, sections 3 and 4, and walformat.html).
fn own_side(path: &Path, side: &str) -> Result<Option<FileId>> {
    let about = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        about => about.on(path)?,
    };
    if !about.is_file() {
        return Ok(None);
    }
    // The lock bytes of SQLite's -shm are those of this process: no descriptor of it is opened here.
    let own = Some(FileId::from(&about));
    if about.len() == 0 || (side == SHM && about.len().is_multiple_of(SHM_BYTES)) {
        return Ok(own);
    }
    let mut begin = [0; 8];
    let read = File::open(path).and_then(|file| file.read_at(&mut begin, 0)).on(path)?;
    let is_own = match side {
        WAL => WAL_MAGIC.iter().any(|magic| begin.starts_with(magic)),
        JOURNAL => begin == JOURNAL_MAGIC || begin == [0; 8],
        _ => false,
    };
    Ok(own.filter(|_| is_own && read == begin.len()))
}

/// Refuses a link: petal makes none, and what it leads to is not in this folder.
pub fn refuse_link(path: &Path) -> Result<()> {
    let Ok(leads_to) = fs::read_link(path) else { return Ok(()) };
    Err(EngineError::Data(format!(
        "{}: it is a link to {}, which petal did not make; name the folder of that file (--db \
         sqlite:DIR), or remove the link yourself",
        path.display(),
        leads_to.display()
    )))
}

/// The path with something after its name.
pub fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

/// Removes what loads that were cut off left: files of a load's name that are empty or bear
/// petal's mark. Returns the names of files that are neither, which stay.
pub fn remove_leftovers(folder: &TargetFolder) -> Result<Vec<PathBuf>> {
    let mut foreign = Vec::new();
    for file in folder.named()?.into_iter().filter(|file| file.loading) {
        if file.path.is_symlink() || header(&file.path)? == FileHeader::Foreign {
            foreign.push(file.path);
        } else {
            remove(&file.path, FileId::of(&file.path).on(&file.path)?)?;
        }
    }
    Ok(foreign)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_exact_names_are_petals() {
        assert_eq!(parse_name("petal1.db"), Some((1, false)));
        assert_eq!(parse_name("petal128.db.loading"), Some((128, true)));
        for name in ["petal.db", "petal0.db", "petal01.db", "petal+1.db", "petal1.db-wal", "x1.db"]
        {
            assert_eq!(parse_name(name), None, "{name}");
        }
    }

    #[test]
    fn the_mark_is_in_the_header() {
        let mut bytes = [0u8; 100];
        bytes[..16].copy_from_slice(b"SQLite format 3\0");
        bytes[16..18].copy_from_slice(&[0x20, 0]);
        bytes[28..32].copy_from_slice(&77u32.to_be_bytes());
        assert_eq!(parse_header(&bytes), FileHeader::Foreign);
        bytes[68..72].copy_from_slice(&APPLICATION_ID.to_be_bytes());
        assert_eq!(parse_header(&bytes), FileHeader::Petal { page_bytes: 8192, pages: 77 });
        assert_eq!(parse_header(&bytes[..50]), FileHeader::Foreign);
    }
}
