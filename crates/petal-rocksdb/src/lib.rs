//! RocksDB: one database per schema in the target folder, by the library that the system has.
//!
//! - `layout`, `files`: the data, and a load's metadata
//! - `library`: RocksDB's functions, loaded when they are needed
//! - `database`: an open database
//! - `load`, `session`, `rows`: work
//! - `io`: events and statistics
//!
//! RocksDB writes rows to a log and to memory, then to files, and merges files in the background. A
//! row's place changes with each merge; a row fills a data block wherever it is.

#![cfg_attr(test, allow(clippy::disallowed_methods))]

mod database;
mod describe;
mod files;
mod io;
mod layout;
pub mod library;
mod load;
mod rows;
mod session;

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Weak};
use std::time::Instant;

use parking_lot::Mutex;

use database::OpenDatabase;
use files::{RocksdbFolder, RocksdbFormat};
use io::Statistics;
use petal_engine::direct_file::DirectFile;
use petal_engine::file_set::{FileFormat as _, FilesInUse};
use petal_engine::in_use::DataUse;
use petal_engine::keyed::meta::KeyedMeta;
use petal_engine::keyed::session::KeyedSession;
use petal_engine::on_path::OnPath as _;
use petal_engine::server::loader::Load;
use petal_engine::url_option::UrlOptions;
use petal_engine::{
    Engine, EngineError, LoadPlan, LoadSummary, Needs, Placement, Progress, ProgressUnit, Result,
    RowReader, Session, Stop,
};
use petal_model::settings::table::{EngineSupport, support};
use petal_model::settings::{RedoStress, Settings};
use petal_model::stats::counters::Counters;
use petal_model::stats::target::{DirectIo, LoadedSchema, Settled, Target, TargetDetails};
use petal_model::workload::seat::Seat;
use session::RocksdbWork;

const OPTIONS: UrlOptions = UrlOptions("rocksdb");

/// A folder of database files.
pub struct EmbeddedRocksdb {
    shared: Arc<Shared>,
}

/// State that the engine and its sessions share.
struct Shared {
    folder: RocksdbFolder,
    url: String,
    /// Cache of each database.
    cache_bytes: u64,
    /// Reads and writes of files bypass the page cache, if that can be.
    direct: bool,
    redo_stress: RedoStress,
    /// Schemas of the run; None: all.
    schemas: Option<u32>,
    statistics: Arc<Statistics>,
    /// Databases that somebody uses.
    open: Mutex<HashMap<u32, Weak<OpenDatabase>>>,
}

impl Shared {
    /// Whether files next to this one are read and written past the page cache.
    fn direct_io(&self, path: &Path) -> Result<DirectIo> {
        if !self.direct {
            return Ok(DirectIo::default());
        }
        let found = match DirectFile::again(&*RocksdbFormat.open(path).on(path)?) {
            Ok(_) => None,
            Err(refused) => Some(refused.reason().on(path)?),
        };
        Ok(DirectIo { asked: true, used: found.is_none(), reason: found })
    }

    /// The database of a schema, which all sessions share.
    fn database(&self, schema: u32) -> Result<Arc<OpenDatabase>> {
        let mut open = self.open.lock();
        if let Some(database) = open.get(&schema).and_then(Weak::upgrade) {
            return Ok(database);
        }
        let database = Arc::new(OpenDatabase::open(self, schema)?);
        open.insert(schema, Arc::downgrade(&database));
        Ok(database)
    }
}

impl EmbeddedRocksdb {
    pub fn open(settings: &Settings) -> Result<Self> {
        let path = OPTIONS.path(&settings.db, "folder", "petal-data")?;
        let mut cache_bytes = layout::CACHE_BYTES;
        for (key, value) in &settings.db.options {
            if key != "cache" {
                return Err(OPTIONS.unknown(key, "cache=SIZE"));
            }
            let hint = "give a size such as 512K, 16M or 1G";
            cache_bytes = OPTIONS.size(key, value, 0..=1 << 40, hint)?;
        }
        let shared = Shared {
            folder: RocksdbFolder::new(path, RocksdbFormat),
            url: settings.db.redacted(),
            cache_bytes,
            direct: settings.direct_io != Some(false),
            redo_stress: settings.redo_stress,
            schemas: settings.schemas,
            statistics: Arc::default(),
            open: Mutex::default(),
        };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// Every complete schema, checked.
    fn metas(&self) -> Result<Vec<KeyedMeta>> {
        let files = self.shared.folder.complete()?;
        files.iter().map(|file| files::inspect(&file.path, file.schema)).collect()
    }

    /// The first schemas.
    fn first_metas(&self, schemas: u32) -> Result<Vec<KeyedMeta>> {
        let mut metas = self.metas()?;
        metas.truncate(schemas as usize);
        Ok(metas)
    }

    /// The schemas that a run touches.
    fn metas_in_use(&self) -> Result<Vec<KeyedMeta>> {
        self.first_metas(self.shared.schemas.unwrap_or(u32::MAX))
    }
}

impl Engine for EmbeddedRocksdb {
    fn support(&self) -> &'static EngineSupport {
        &support::ROCKSDB
    }

    fn column_bytes(&self, block_bytes: u32) -> usize {
        layout::column_bytes(block_bytes)
    }

    fn loaded(&self) -> Result<Vec<LoadedSchema>> {
        Ok(self.metas()?.iter().map(KeyedMeta::loaded).collect())
    }

    fn describe(&self, schemas: u32, _: u32) -> Result<(Target, TargetDetails)> {
        describe::describe(&self.shared, &self.first_metas(schemas)?)
    }

    fn needs(&self, _: &[Seat], schemas: u32) -> Result<Needs> {
        Ok(describe::needs(&self.shared, &self.first_metas(schemas)?))
    }

    fn load_needs(&self, plan: &LoadPlan) -> Needs {
        describe::load_needs(plan)
    }

    fn load(&self, plan: &LoadPlan, progress: &dyn Progress, stop: &Stop) -> Result<LoadSummary> {
        let Shared { folder, direct, .. } = &*self.shared;
        let load = Load { plan, progress, stop };
        load::Loader { folder, direct: *direct, load }.run()
    }

    fn begin_use(&self, _: u32) -> Result<Box<dyn DataUse>> {
        let metas = self.metas_in_use()?;
        let schemas = || metas.iter().map(|meta| meta.about.schema);
        let databases = schemas().map(|schema| self.shared.database(schema));
        let databases = databases.collect::<Result<Vec<_>>>()?;
        Ok(Box::new(OpenInUse {
            _databases: databases,
            files: self.shared.folder.begin_use(schemas())?,
        }))
    }

    fn settle(&self, progress: &dyn Progress, stop: &Stop) -> Result<Settled> {
        let begin = Instant::now();
        let metas = self.metas_in_use()?;
        progress.phase("settling", metas.len() as u64, ProgressUnit::Items);
        for meta in &metas {
            if stop.is_requested() {
                return Err(EngineError::Interrupted);
            }
            self.shared.database(meta.about.schema)?.settle()?;
            progress.advance(1);
        }
        let done = vec![format!("{} databases flushed and compacted", metas.len())];
        Ok(Settled { seconds: begin.elapsed().as_secs_f64(), done, ..Settled::default() })
    }

    fn connect(&self, seat: Seat) -> Result<Box<dyn Session>> {
        Ok(Box::new(KeyedSession::connect(RocksdbWork::new(&self.shared), seat.schema)?))
    }

    fn read_counters(&self, in_full: bool) -> Result<Vec<Counters>> {
        let open: Vec<_> = self.shared.open.lock().values().filter_map(Weak::upgrade).collect();
        let tickers = open.iter().map(|database| database.tickers());
        Ok(vec![self.shared.statistics.collect(&self.shared.url, tickers, in_full)])
    }

    fn placement(&self, schema: u32) -> Result<Placement> {
        self.shared.database(schema)?.placement()
    }

    fn row_reader(&self, schema: u32) -> Result<Box<dyn RowReader>> {
        Ok(Box::new(rows::RocksdbRows(self.shared.database(schema)?)))
    }

    fn drop_data(&self) -> Result<Vec<String>> {
        self.shared.folder.drop_data()
    }
}

/// The databases of a run, which stay open and locked between its sessions.
struct OpenInUse {
    _databases: Vec<Arc<OpenDatabase>>,
    files: FilesInUse<RocksdbFormat>,
}

impl DataUse for OpenInUse {
    fn vanished(&self) -> Result<Option<String>> {
        self.files.vanished()
    }
}
