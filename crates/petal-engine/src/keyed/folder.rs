//! The folder of a target with a database for each schema, and the databases that are open.

use std::collections::HashMap;
use std::ops::Deref;
use std::path::Path;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use super::meta::{KeyedMeta, Notes};
use crate::direct_file::DirectFile;
use crate::file_set::{DataFile, FileFormat, FileSet, FilesInUse};
use crate::in_use::DataUse;
use crate::on_path::OnPath as _;
use crate::{EngineError, Progress, ProgressUnit, Result, Stop};
use petal_record::target::DirectIo;

/// The files of a database of keys and values.
pub trait KeyedFormat: FileFormat {
    /// petal's mark and a load's metadata.
    const NOTES: Notes;
}

/// The folder of a target. Its databases are open as long as somebody uses them: a process can open
/// each only once.
pub struct KeyedFolder<F, D> {
    files: FileSet<F>,
    /// Schemas of the run; None: all.
    schemas: Option<u32>,
    open: Mutex<HashMap<u32, Weak<D>>>,
}

impl<F, D> Deref for KeyedFolder<F, D> {
    type Target = FileSet<F>;

    fn deref(&self) -> &FileSet<F> {
        &self.files
    }
}

impl<F: KeyedFormat, D: Send + Sync + 'static> KeyedFolder<F, D> {
    pub fn new(path: &str, format: F, schemas: Option<u32>) -> Self {
        Self { files: FileSet::new(path, format), schemas, open: Mutex::default() }
    }

    /// Every complete schema, checked.
    pub fn metas(&self) -> Result<Vec<KeyedMeta>> {
        let read = |DataFile { schema, path, .. }: &DataFile| {
            KeyedMeta::read_whole(F::NOTES, &*self.files.format.open(path).on(path)?, path, *schema)
        };
        self.complete()?.iter().map(read).collect()
    }

    /// The first schemas.
    pub fn first_metas(&self, schemas: u32) -> Result<Vec<KeyedMeta>> {
        let mut metas = self.metas()?;
        metas.truncate(schemas as usize);
        Ok(metas)
    }

    /// The schemas that a run touches.
    fn in_use(&self) -> Result<Vec<u32>> {
        let metas = self.first_metas(self.schemas.unwrap_or(u32::MAX))?;
        Ok(metas.iter().map(|meta| meta.about.schema).collect())
    }

    /// The database of a schema, which all sessions share.
    pub fn database(&self, schema: u32, open: impl FnOnce() -> Result<D>) -> Result<Arc<D>> {
        let mut databases = self.open.lock();
        if let Some(database) = databases.get(&schema).and_then(Weak::upgrade) {
            return Ok(database);
        }
        let database = Arc::new(open()?);
        databases.insert(schema, Arc::downgrade(&database));
        Ok(database)
    }

    /// Databases that somebody uses.
    pub fn open_databases(&self) -> Vec<Arc<D>> {
        self.open.lock().values().filter_map(Weak::upgrade).collect()
    }

    /// Opens and locks the databases of a run, which stay so between its sessions.
    pub fn begin_run(&self, open: impl Fn(u32) -> Result<Arc<D>>) -> Result<Box<dyn DataUse>> {
        let schemas = self.in_use()?;
        let databases = schemas.iter().map(|schema| open(*schema)).collect::<Result<_>>()?;
        let files = self.begin_use(schemas.into_iter())?;
        Ok(Box::new(DatabasesInUse { _databases: databases, files }))
    }

    /// Settles each schema of a run, and returns how many there are.
    pub fn settle(
        &self,
        progress: &dyn Progress,
        stop: &Stop,
        mut settle: impl FnMut(u32) -> Result<()>,
    ) -> Result<usize> {
        let schemas = self.in_use()?;
        progress.phase("settling", schemas.len() as u64, ProgressUnit::Items);
        for schema in &schemas {
            if stop.is_requested() {
                return Err(EngineError::Interrupted);
            }
            settle(*schema)?;
            progress.advance(1);
        }
        Ok(schemas.len())
    }

    /// Whether a file can be read past the page cache, if it is asked for.
    pub fn direct_io(&self, path: &Path, is_asked: bool) -> Result<DirectIo> {
        if !is_asked {
            return Ok(DirectIo::default());
        }
        let found = match DirectFile::again(&*self.files.format.open(path).on(path)?) {
            Ok(_) => None,
            Err(refused) => Some(refused.reason().on(path)?),
        };
        Ok(DirectIo { asked: true, used: found.is_none(), reason: found })
    }
}

/// The databases and files of a run. The databases are closed first.
struct DatabasesInUse<F, D> {
    _databases: Vec<Arc<D>>,
    files: FilesInUse<F>,
}

impl<F: FileFormat, D: Send + Sync> DataUse for DatabasesInUse<F, D> {
    fn vanished(&self) -> Result<Option<String>> {
        self.files.vanished()
    }
}
