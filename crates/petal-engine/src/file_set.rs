//! A target that is a folder with one data file for each schema: names, locks, room, loads under
//! another name, leftovers, and removal. An engine says how its own files are known
//! ([`FileFormat`]).
//!
//! A file is opened once and judged by that descriptor. Its identity is taken from there, and it is
//! removed or replaced only if its name still leads to it.

use petal_host::files::{self, Folder};
use petal_host::numbers::{bytes, whole};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use rustix::fs::{OFlags, StatVfs, StatVfsMountFlags};

use super::file_lock::FileLock;
use super::in_use::{DataUse, FileId, unlink_same};
use super::on_path::{OnPath, unusable};
use super::server::failure::not_loaded;
use super::server::loader::{
    Load, LoadState, ProvedSchema, already_loaded, check_block_size, without_mark,
};
use super::{EngineError, LoadPlan, LoadSummary, Result};
use petal_settings::table::EngineSupport;

/// The owner of a file with a name of petal's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileOwner {
    Petal,
    /// No owner: a load that was cut off leaves such a file.
    Empty,
    Foreign,
}

/// The files of one engine.
pub trait FileFormat: Copy + Send + Sync + 'static {
    /// A complete file is named `petal`, the number of its schema, and this.
    const ENDING: &'static str;

    /// The engine's entry in the table of support.
    fn support(&self) -> &'static EngineSupport;

    /// Opens a file for reading. An engine that keeps descriptors of its files returns the kept
    /// one.
    fn open(&self, path: &Path) -> io::Result<Arc<File>> {
        let how = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        files::open(path, how).map(Arc::new)
    }

    /// The owner of a file that has some bytes, by its header.
    fn owner(&self, file: &File) -> io::Result<FileOwner>;

    /// False if petal's lock on the file is in the way of the database's own.
    fn takes_lock(&self, _: &File) -> io::Result<bool> {
        Ok(true)
    }

    /// A file next to this one that has a name of the database's and is not the database's.
    fn foreign_side(&self, _: &Path) -> Result<Option<PathBuf>> {
        Ok(None)
    }

    /// Removes the files that the database put next to this one.
    fn remove_sides(&self, _: &Path) -> Result<()> {
        Ok(())
    }

    /// Called before a complete file is replaced: refuses if it is in use, and removes the files
    /// next to it.
    fn give_up(&self, path: &Path) -> Result<()> {
        self.remove_sides(path)
    }

    /// The file is gone: closes descriptors that were kept.
    fn forget(&self, _: FileId) {}

    /// A number that changes when a table or an index in the file is made or dropped.
    fn version(&self, _: &Path) -> Result<i64> {
        Ok(0)
    }
}

/// The folder of a target.
#[derive(Debug, Clone)]
pub struct FileSet<F> {
    path: PathBuf,
    pub(crate) format: F,
}

/// A file that has a name of petal's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DataFile {
    pub schema: u32,
    pub path: PathBuf,
    /// True for an unfinished load.
    pub is_loading: bool,
}

/// Refuses a data file next to which lies a file that the database would take for its own: it would
/// follow a link, wait for a pipe, or write to a file that has another name elsewhere.
pub fn refuse_foreign_side(format: impl FileFormat, path: &Path) -> Result<()> {
    match format.foreign_side(path)? {
        Some(side) => Err(foreign_file(format, &side)),
        None => Ok(()),
    }
}

fn foreign_file(format: impl FileFormat, path: &Path) -> EngineError {
    let example = format.support().example;
    let instead = format!("move it away or load into another folder (--db {example})");
    without_mark(path.display(), "a file", &instead)
}

/// A file that was opened once.
struct FoundFile {
    owner: FileOwner,
    id: FileId,
    /// None if it is neither a file nor opened.
    file: Option<Arc<File>>,
}

const LOADING: &str = ".loading";

impl<F: FileFormat> FileSet<F> {
    pub fn new(path: &str, format: F) -> Self {
        Self { path: PathBuf::from(path), format }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The complete file of a schema.
    pub fn file(&self, schema: u32) -> PathBuf {
        self.path.join(format!("petal{schema}{}", F::ENDING))
    }

    /// The file of a schema, which must be loaded there.
    pub fn loaded_file(&self, schema: u32) -> Result<PathBuf> {
        let path = self.file(schema);
        if path.exists() { Ok(path) } else { Err(not_loaded(self.path.display(), schema)) }
    }

    fn loading_file(&self, schema: u32) -> PathBuf {
        self.path.join(format!("petal{schema}{}{LOADING}", F::ENDING))
    }

    /// Returns complete files by schema, of any owner.
    pub fn complete(&self) -> Result<Vec<DataFile>> {
        Ok(self.named()?.into_iter().filter(|file| !file.is_loading).collect())
    }

    /// Files of petal's names, by schema. A folder that is not there holds none.
    fn named(&self) -> Result<Vec<DataFile>> {
        let entries = match fs::read_dir(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.on(&self.path)?,
        };
        let mut named = Vec::new();
        for entry in entries {
            let entry = entry.on(&self.path)?;
            let parsed = entry.file_name().to_str().and_then(|name| parse_name(name, F::ENDING));
            if let Some((schema, is_loading)) = parsed {
                named.push(DataFile { schema, path: entry.path(), is_loading });
            }
        }
        named.sort_by_key(|file| (file.schema, file.is_loading));
        Ok(named)
    }

    /// Opens a file and finds out its owner. A folder, pipe or device is not even opened.
    fn find(&self, path: &Path) -> Result<Option<FoundFile>> {
        let about = match fs::metadata(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            about => about.on(path)?,
        };
        if !about.is_file() {
            let (owner, id) = (FileOwner::Foreign, FileId::from(&about));
            return Ok(Some(FoundFile { owner, id, file: None }));
        }
        let file = self.format.open(path).on(path)?;
        let about = file.metadata().on(path)?;
        let owner = match about.len() {
            0 => FileOwner::Empty,
            _ => self.format.owner(&file).on(path)?,
        };
        Ok(Some(FoundFile { owner, id: FileId::from(&about), file: Some(file) }))
    }

    /// Locks a file, whatever its path. None if the file system's locks are in the way of the
    /// database's own.
    fn lock_file(&self, path: &Path, file: Arc<File>) -> Result<Option<FileLock>> {
        if !self.format.takes_lock(&file).on(path)? {
            return Ok(None);
        }
        let held = "another petal run uses this file, by this path or by another link to it; wait \
                    until it is done, or stop it";
        FileLock::on(file).map(Some).map_err(|refused| refused.at(path, held))
    }

    /// Keeps other petals from loading or dropping here, until the lock is dropped.
    fn lock(&self) -> Result<FileLock> {
        let folder = files::open(&self.path, OFlags::RDONLY | OFlags::DIRECTORY).on(&self.path)?;
        let held = "another petal is loading or dropping data there; wait until it is done";
        FileLock::on(folder).map_err(|refused| refused.at(&self.path, held))
    }

    /// Refuses if nothing can be written, or less than `needed_bytes` are free.
    fn check_room(&self, needed_bytes: u64) -> Result<()> {
        let room = rustix::fs::statvfs(&self.path).on(&self.path)?;
        if room.f_flag.contains(StatVfsMountFlags::RDONLY) {
            return Err(unusable(&self.path, &io::ErrorKind::ReadOnlyFilesystem.into()));
        }
        let free_bytes = free_bytes(&room);
        if free_bytes >= needed_bytes {
            return Ok(());
        }
        Err(EngineError::Environment(format!(
            "{}: the load needs {needed_bytes} bytes ({}), {free_bytes} ({}) are free there; load \
             less (SCALE, schemas) or into another folder (--db {})",
            self.path.display(),
            bytes(needed_bytes),
            bytes(free_bytes),
            self.format.support().example,
            needed_bytes = whole(needed_bytes),
            free_bytes = whole(free_bytes)
        )))
    }

    /// Refuses a link: petal makes none, and its file is not in this folder.
    fn refuse_link(&self, path: &Path) -> Result<()> {
        let Ok(leads_to) = fs::read_link(path) else { return Ok(()) };
        Err(EngineError::Data(format!(
            "{}: it is a link to {}, which petal did not make; name the folder of that file (--db \
             {}), or remove the link yourself",
            path.display(),
            leads_to.display(),
            self.format.support().example
        )))
    }

    fn foreign_file(&self, path: &Path) -> EngineError {
        foreign_file(self.format, path)
    }

    /// Removes a file and the files that the database put next to it. A file that has taken its
    /// place stays.
    fn remove(&self, path: &Path, file: FileId) -> Result<()> {
        if let Some(reason) = file.vanished(path) {
            return Err(unusable(path, &io::Error::other(reason)));
        }
        self.format.remove_sides(path)?;
        unlink_same(path, file).on(path)?;
        self.format.forget(file);
        Ok(())
    }

    /// Removes files of loads that were cut off. Returns those that are not petal's, which stay.
    fn remove_leftovers(&self) -> Result<Vec<PathBuf>> {
        let mut foreign = Vec::new();
        for DataFile { path, .. } in self.named()?.into_iter().filter(|file| file.is_loading) {
            match self.find(&path).map(|found| found.filter(|_| !path.is_symlink()))? {
                Some(found) if found.owner != FileOwner::Foreign => self.remove(&path, found.id)?,
                _ => foreign.push(path),
            }
        }
        Ok(foreign)
    }

    /// Refuses names of foreign files, and of petal's own if nothing is to be replaced. Returns
    /// the locks on files to be replaced: no run uses them, nor begins to.
    fn check_names(&self, plan: &LoadPlan) -> Result<Vec<FileLock>> {
        let foreign = self.remove_leftovers()?;
        let mut locks = Vec::new();
        for &schema in &plan.schemas {
            let (loading, path) = (self.loading_file(schema), self.file(schema));
            if foreign.contains(&loading) {
                return Err(self.foreign_file(&loading));
            }
            for name in [&loading, &path] {
                refuse_foreign_side(self.format, name)?;
            }
            self.refuse_link(&path)?;
            match self.find(&path)? {
                None => {}
                Some(FoundFile { owner: FileOwner::Petal, file: Some(file), .. }) => {
                    if !plan.replace {
                        return Err(already_loaded(path.display(), schema));
                    }
                    locks.extend(self.lock_file(&path, file)?);
                }
                Some(_) => return Err(self.foreign_file(&path)),
            }
        }
        Ok(locks)
    }

    /// Loads the plan's schemas, each into a new file under a loading name; all get their names in
    /// the end, over those that they replace, or none is left.
    pub fn load(
        &self,
        load: Load<'_>,
        needed_bytes: u64,
        load_schema: &(dyn Fn(&LoadingFile<'_, F>, &LoadState<'_>) -> Result<ProvedSchema> + Sync),
    ) -> Result<LoadSummary> {
        check_block_size(self.format.support(), load.plan)?;
        files::make_folders(&self.path).on(&self.path)?;
        let _alone = self.lock()?;
        let _locks = self.check_names(load.plan)?;
        self.check_room(needed_bytes)?;
        load.show_loading();
        let made = Mutex::new(BTreeMap::new());
        let loaded = load.run(
            &|schema, state| {
                let file = LoadingFile::make(self, schema)?;
                made.lock().insert(schema, file.id);
                load_schema(&file, state)
            },
            || self.give_names(&made.lock()),
            || {
                let made = made.lock();
                let removed = made
                    .iter()
                    .map(|(&schema, &file)| self.remove(&self.loading_file(schema), file));
                removed.fold(Ok(()), Result::and)
            },
        )?;
        Ok(loaded.summary(load.plan))
    }

    fn give_names(&self, made: &BTreeMap<u32, FileId>) -> Result<()> {
        for (&schema, &id) in made {
            let (from, to) = (self.loading_file(schema), self.file(schema));
            check_same(&from, id)?;
            let replaced = FileId::of(&to).ok();
            if replaced.is_some() {
                self.format.give_up(&to)?;
            }
            files::rename(&from, &to).on(&to)?;
            replaced.into_iter().for_each(|file| self.format.forget(file));
        }
        Folder::open(&self.path).and_then(|folder| folder.file().sync_all()).on(&self.path)
    }

    /// Removes petal's files, and the folder if nothing else is in it. Returns their paths.
    pub fn drop_data(&self) -> Result<Vec<String>> {
        let files = self.named()?;
        if files.is_empty() {
            return Ok(Vec::new());
        }
        let _alone = self.lock()?;
        let mut petals = Vec::new();
        for DataFile { path, is_loading, .. } in files {
            self.refuse_link(&path)?;
            let Some(FoundFile { owner, id, file: Some(file) }) = self.find(&path)? else {
                continue;
            };
            if owner == FileOwner::Petal || owner == FileOwner::Empty && is_loading {
                // All are free before the first goes.
                let lock = self.lock_file(&path, file)?;
                petals.push((path, id, lock));
            }
        }
        let mut dropped = Vec::new();
        for (path, id, _lock) in &petals {
            self.remove(path, *id)?;
            dropped.push(path.display().to_string());
        }
        if !dropped.is_empty() && files::remove_folder(&self.path).is_ok() {
            dropped.push(format!("{} (empty)", self.path.display()));
        }
        Ok(dropped)
    }

    /// Marks the files of these schemas as in use by a run. A second run on them is refused, also
    /// by another link to a file.
    pub fn begin_use(&self, schemas: impl Iterator<Item = u32>) -> Result<FilesInUse<F>> {
        let mut begun = FilesInUse { format: self.format, files: Vec::new(), _locks: Vec::new() };
        for path in schemas.map(|schema| self.file(schema)) {
            let file = self.format.open(&path).on(&path)?;
            let id = FileId::from(&file.metadata().on(&path)?);
            begun._locks.extend(self.lock_file(&path, file)?);
            let version = self.format.version(&path)?;
            begun.files.push((path, id, version));
        }
        Ok(begun)
    }
}

/// A file that is being loaded.
pub struct LoadingFile<'a, F> {
    pub set: &'a FileSet<F>,
    pub schema: u32,
    pub path: PathBuf,
    /// Open for reading and writing.
    pub file: File,
    id: FileId,
}

impl<'a, F: FileFormat> LoadingFile<'a, F> {
    fn make(set: &'a FileSet<F>, schema: u32) -> Result<Self> {
        let path = set.loading_file(schema);
        let file = files::open(&path, OFlags::RDWR | OFlags::CREATE | OFlags::EXCL).on(&path)?;
        let id = FileId::from(&file.metadata().on(&path)?);
        Ok(Self { set, schema, path, file, id })
    }

    /// Refuses a file that has taken its place: for databases that open it by its path.
    pub fn check(&self) -> Result<()> {
        check_same(&self.path, self.id)
    }
}

fn check_same(path: &Path, made: FileId) -> Result<()> {
    made.vanished(path).map_or(Ok(()), |reason| {
        Err(EngineError::Environment(format!(
            "{reason}: it is not the file that petal loaded, so petal leaves it; find out who \
             renames files there, then load again"
        )))
    })
}

/// The files of one run, locked, and looked for again at its end.
pub struct FilesInUse<F> {
    format: F,
    /// Each with the version of its tables and indexes.
    files: Vec<(PathBuf, FileId, i64)>,
    _locks: Vec<FileLock>,
}

impl<F: FileFormat> DataUse for FilesInUse<F> {
    fn vanished(&self) -> Result<Option<String>> {
        for (path, id, version) in &self.files {
            if let Some(gone) = id.vanished(path) {
                return Ok(Some(gone));
            }
            if self.format.version(path)? != *version {
                let path = path.display();
                return Ok(Some(format!("{path}: its tables or indexes were made or dropped")));
            }
        }
        Ok(None)
    }
}

/// Bytes that petal may still write to a file system.
pub fn free_bytes(room: &StatVfs) -> u64 {
    room.f_bavail.saturating_mul(room.f_frsize)
}

/// `petal7.db` is schema 7; `petal7.db.loading` a load of it.
fn parse_name(name: &str, ending: &str) -> Option<(u32, bool)> {
    let (name, is_loading) = match name.strip_suffix(LOADING) {
        Some(rest) => (rest, true),
        None => (name, false),
    };
    let number = name.strip_prefix("petal")?.strip_suffix(ending)?;
    let schema: u32 = number.parse().ok()?;
    (schema > 0 && schema.to_string() == number).then_some((schema, is_loading))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_exact_names_are_petals() {
        let parse = |name| parse_name(name, ".db");
        assert_eq!(parse("petal1.db"), Some((1, false)));
        assert_eq!(parse("petal128.db.loading"), Some((128, true)));
        for name in ["petal.db", "petal0.db", "petal01.db", "petal+1.db", "petal1.db-wal", "x1.db"]
        {
            assert_eq!(parse(name), None, "{name}");
        }
    }
}
