//! LMDB: one database file per schema in the target folder, mapped into memory.
//!
//! - `layout`, `files`: the data, and a load's metadata
//! - `map`: the mapped file, whether a page is in memory, and its way out of the page cache
//! - `database`: an open file
//! - `load`, `session`, `rows`: work
//! - `io`: events and statistics
//!
//! LMDB makes no call for a read: a page that is not in memory is read by a page fault. petal asks the
//! kernel if the page of a row is in memory, then touches and times it. It drops the page afterwards,
//! so that the page cache does not serve the next visit.

#![cfg_attr(test, allow(clippy::disallowed_methods))]

mod database;
mod describe;
mod files;
mod io;
mod layout;
mod load;
mod map;
mod rows;
mod session;

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Instant;

use parking_lot::Mutex;

use database::OpenDatabase;
use files::{LmdbFolder, LmdbFormat};
use io::Statistics;
use petal_engine::file_set::FilesInUse;
use petal_engine::in_use::DataUse;
use petal_engine::keyed::meta::KeyedMeta;
use petal_engine::keyed::session::KeyedSession;
use petal_engine::server::loader::Load;
use petal_engine::url_option::UrlOptions;
use petal_engine::{
    Engine, EngineError, LoadPlan, LoadSummary, Needs, Placement, Progress, ProgressUnit, Result,
    RowReader, Session, Stop,
};
use petal_model::settings::table::{EngineSupport, support};
use petal_model::settings::{RedoStress, Settings};
use petal_model::stats::counters::Counters;
use petal_model::stats::target::{LoadedSchema, Settled, Target, TargetDetails};
use petal_model::workload::seat::Seat;
use session::LmdbWork;

const OPTIONS: UrlOptions = UrlOptions("lmdb");

/// A folder of database files.
pub struct Lmdb {
    shared: Arc<Shared>,
}

/// State that the engine and its sessions share.
struct Shared {
    folder: LmdbFolder,
    url: String,
    /// Visited rows stay in the page cache.
    keeps_pages: bool,
    redo_stress: RedoStress,
    /// Schemas of the run; None: all.
    schemas: Option<u32>,
    statistics: Arc<Statistics>,
    /// Databases that somebody uses.
    open: Mutex<HashMap<u32, Weak<OpenDatabase>>>,
}

impl Shared {
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

impl Lmdb {
    pub fn open(settings: &Settings) -> Result<Self> {
        let path = OPTIONS.path(&settings.db, "folder", "petal-data")?;
        let mut keeps_pages = false;
        for (key, value) in &settings.db.options {
            if key != "cache" {
                return Err(OPTIONS.unknown(key, "cache=none or cache=system"));
            }
            let known = [("none", false), ("system", true)];
            keeps_pages = OPTIONS.one_of(key, Some(value), &known)?;
        }
        let shared = Shared {
            folder: LmdbFolder::new(path, LmdbFormat),
            url: settings.db.redacted(),
            keeps_pages,
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

impl Engine for Lmdb {
    fn support(&self) -> &'static EngineSupport {
        &support::LMDB
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
        Ok(describe::needs(&self.first_metas(schemas)?))
    }

    fn load_needs(&self, plan: &LoadPlan) -> Needs {
        describe::load_needs(plan)
    }

    fn load(&self, plan: &LoadPlan, progress: &dyn Progress, stop: &Stop) -> Result<LoadSummary> {
        let Shared { folder, keeps_pages, .. } = &*self.shared;
        let load = Load { plan, progress, stop };
        load::Loader { folder, keeps_pages: *keeps_pages, load }.run()
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
        let mut done = vec![format!("{} database files synced", metas.len())];
        if !self.shared.keeps_pages {
            done.push("their pages dropped from the page cache".to_owned());
        }
        Ok(Settled { seconds: begin.elapsed().as_secs_f64(), done, ..Settled::default() })
    }

    fn connect(&self, seat: Seat) -> Result<Box<dyn Session>> {
        Ok(Box::new(KeyedSession::connect(LmdbWork::new(&self.shared), seat.schema)?))
    }

    fn read_counters(&self, in_full: bool) -> Result<Vec<Counters>> {
        Ok(vec![self.shared.statistics.collect(&self.shared.url, in_full)])
    }

    fn placement(&self, schema: u32) -> Result<Placement> {
        self.shared.database(schema)?.placement()
    }

    fn row_reader(&self, schema: u32) -> Result<Box<dyn RowReader>> {
        Ok(Box::new(rows::LmdbRows(self.shared.database(schema)?)))
    }

    fn drop_data(&self) -> Result<Vec<String>> {
        self.shared.folder.drop_data()
    }
}

/// The databases of a run, which stay open and locked between its sessions.
struct OpenInUse {
    _databases: Vec<Arc<OpenDatabase>>,
    files: FilesInUse<LmdbFormat>,
}

impl DataUse for OpenInUse {
    fn vanished(&self) -> Result<Option<String>> {
        self.files.vanished()
    }
}
