//! redb: one database file per schema in the target folder.
//!
//! - `layout`, `files`: the data, and a load's metadata
//! - `database`: an open file, and the storage below redb that times every read, write and sync
//! - `load`, `session`: work
//! - `io`: events and statistics
//!
//! Three traits of redb shape every result. It is copy-on-write: a commit writes each changed row's
//! page and all pages above it to new places. It has one writer per file (`writer lock`), which also
//! waits for the sync of its commit. And its cache belongs to the file, not to a session.

#![cfg_attr(test, allow(clippy::disallowed_methods))]

mod database;
mod describe;
mod files;
mod io;
mod layout;
mod load;
mod session;

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Instant;

use database::{OpenDatabase, RedbFolder};
use files::RedbFormat;
use io::Statistics;
use petal_engine::in_use::DataUse;
use petal_engine::keyed::meta::KeyedMeta;
use petal_engine::keyed::rows::KeyedRows;
use petal_engine::keyed::session::KeyedSession;
use petal_engine::server::loader::Load;
use petal_engine::url_option::UrlOptions;
use petal_engine::{
    Engine, LoadPlan, LoadSummary, Needs, Placement, Progress, Result, RowReader, Session, Stop,
};
use petal_record::counters::Counters;
use petal_record::target::{LoadedSchema, Settled, Target, TargetDetails};
use petal_settings::table::{EngineSupport, support};
use petal_settings::{RedoStress, Settings};
use petal_workload::seat::Seat;
use session::RedbWork;

const OPTIONS: UrlOptions = UrlOptions("redb");

/// A folder of database files.
pub struct Redb {
    shared: Arc<Shared>,
}

/// State that the engine and its sessions share.
struct Shared {
    folder: RedbFolder,
    url: String,
    /// Cache of each file; None: just enough that a row costs one read.
    cache_bytes: Option<u64>,
    redo_stress: RedoStress,
    /// Rows that an UPDATE holds until its commit; 0 in a run without UPDATEs.
    dirty_rows: u64,
    direct: bool,
    statistics: Arc<Statistics>,
}

impl Shared {
    fn cache_bytes(&self, meta: &KeyedMeta) -> u64 {
        self.cache_bytes.unwrap_or_else(|| {
            layout::cache_bytes(meta.branch_pages, meta.block_bytes(), self.dirty_rows)
        })
    }

    /// Counts the hits and misses of all caches since the last time.
    fn count_caches(&self) {
        let open = self.folder.open_databases();
        open.iter().for_each(|database| database.count_cache());
    }

    /// The database of a schema, which all sessions share.
    fn database(&self, schema: u32) -> Result<Arc<OpenDatabase>> {
        self.folder.database(schema, || OpenDatabase::open(self, schema))
    }
}

impl Redb {
    pub fn open(settings: &Settings) -> Result<Self> {
        let path = OPTIONS.path(&settings.db, "folder", "petal-data")?;
        let mut cache_bytes = None;
        for (key, value) in &settings.db.options {
            if key != "cache" {
                return Err(OPTIONS.unknown(key, "cache=SIZE"));
            }
            let hint = "give a size such as 512K, 16M or 1G";
            cache_bytes = Some(OPTIONS.size(key, value, 0..=1 << 40, hint)?);
        }
        let updated = u64::from(settings.update_work_unit);
        let shared = Shared {
            folder: RedbFolder::new(path, RedbFormat, settings.schemas),
            url: settings.db.redacted(),
            cache_bytes,
            redo_stress: settings.redo_stress,
            dirty_rows: if settings.only_reads() { 0 } else { updated },
            direct: settings.direct_io != Some(false),
            statistics: Arc::default(),
        };
        Ok(Self { shared: Arc::new(shared) })
    }
}

impl Engine for Redb {
    fn support(&self) -> &'static EngineSupport {
        &support::REDB
    }

    fn column_bytes(&self, block_bytes: u32) -> usize {
        layout::column_bytes(block_bytes)
    }

    fn loaded(&self) -> Result<Vec<LoadedSchema>> {
        Ok(self.shared.folder.metas()?.iter().map(KeyedMeta::loaded).collect())
    }

    fn describe(&self, schemas: u32, _: u32) -> Result<(Target, TargetDetails)> {
        describe::describe(&self.shared, &self.shared.folder.first_metas(schemas)?)
    }

    fn needs(&self, _: &[Seat], schemas: u32) -> Result<Needs> {
        Ok(describe::needs(&self.shared, &self.shared.folder.first_metas(schemas)?))
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
        self.shared.folder.begin_run(|schema| self.shared.database(schema))
    }

    fn settle(&self, progress: &dyn Progress, stop: &Stop) -> Result<Settled> {
        let begin = Instant::now();
        let mut done = Vec::new();
        let files = self.shared.folder.settle(progress, stop, |schema| {
            let database = self.shared.database(schema)?;
            if database.was_repaired {
                done.push(format!("petal{schema}.redb: repaired, it was not closed"));
            }
            database.sync()
        })?;
        done.push(format!("{files} database files synced"));
        Ok(Settled { seconds: begin.elapsed().as_secs_f64(), done, ..Settled::default() })
    }

    fn connect(&self, seat: Seat) -> Result<Box<dyn Session>> {
        Ok(Box::new(KeyedSession::connect(RedbWork::new(&self.shared), seat.schema)?))
    }

    fn read_counters(&self, in_full: bool) -> Result<Vec<Counters>> {
        self.shared.count_caches();
        Ok(vec![self.shared.statistics.collect(&self.shared.url, in_full)])
    }

    fn placement(&self, schema: u32) -> Result<Placement> {
        self.shared.database(schema)?.placement()
    }

    fn row_reader(&self, schema: u32) -> Result<Box<dyn RowReader>> {
        let database = self.shared.database(schema)?;
        Ok(Box::new(KeyedRows {
            column_bytes: layout::column_bytes(database.meta.about.block_bytes),
            database,
        }))
    }

    fn drop_data(&self) -> Result<Vec<String>> {
        for file in self.shared.folder.complete()? {
            files::refuse_open(&file.path)?;
        }
        self.shared.folder.drop_data()
    }
}
