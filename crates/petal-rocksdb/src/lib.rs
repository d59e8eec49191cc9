//! RocksDB: one database per schema in the target folder, by the library that the system has.
//!
//! - `layout`, `files`: the data, and a load's metadata
//! - `library`: RocksDB's functions, loaded when they are needed
//! - `database`: an open database
//! - `load`, `session`: work
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
mod session;

#[cfg(test)]
mod tests;

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use database::{OpenDatabase, RocksdbFolder};
use files::RocksdbFormat;
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
    statistics: Arc<Statistics>,
}

impl Shared {
    /// Whether files next to this one are read and written past the page cache.
    fn direct_io(&self, path: &Path) -> Result<DirectIo> {
        self.folder.direct_io(path, self.direct)
    }

    /// The database of a schema, which all sessions share.
    fn database(&self, schema: u32) -> Result<Arc<OpenDatabase>> {
        self.folder.database(schema, || OpenDatabase::open(self, schema))
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
            folder: RocksdbFolder::new(path, RocksdbFormat, settings.schemas),
            url: settings.db.redacted(),
            cache_bytes,
            direct: settings.direct_io != Some(false),
            redo_stress: settings.redo_stress,
            statistics: Arc::default(),
        };
        Ok(Self { shared: Arc::new(shared) })
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
        let settle = |schema| self.shared.database(schema)?.settle();
        let databases = self.shared.folder.settle(progress, stop, settle)?;
        let done = vec![format!("{databases} databases flushed and compacted")];
        Ok(Settled { seconds: begin.elapsed().as_secs_f64(), done, ..Settled::default() })
    }

    fn connect(&self, seat: Seat) -> Result<Box<dyn Session>> {
        Ok(Box::new(KeyedSession::connect(RocksdbWork::new(&self.shared), seat.schema)?))
    }

    fn read_counters(&self, in_full: bool) -> Result<Vec<Counters>> {
        let open = self.shared.folder.open_databases();
        let tickers = open.iter().map(|database| database.tickers());
        Ok(vec![self.shared.statistics.collect(&self.shared.url, tickers, in_full)])
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
        self.shared.folder.drop_data()
    }
}
