//! LMDB: one database file per schema in the target folder, mapped into memory.
//!
//! - `layout`, `files`: the data, and a load's metadata
//! - `map`: the mapped file, whether a page is in memory, and its way out of the page cache
//! - `database`: an open file
//! - `load`, `session`: work
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
mod session;

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Instant;

use database::{LmdbFolder, OpenDatabase};
use files::LmdbFormat;
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
    statistics: Arc<Statistics>,
}

impl Shared {
    /// The database of a schema, which all sessions share.
    fn database(&self, schema: u32) -> Result<Arc<OpenDatabase>> {
        self.folder.database(schema, || OpenDatabase::open(self, schema))
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
            folder: LmdbFolder::new(path, LmdbFormat, settings.schemas),
            url: settings.db.redacted(),
            keeps_pages,
            redo_stress: settings.redo_stress,
            statistics: Arc::default(),
        };
        Ok(Self { shared: Arc::new(shared) })
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
        Ok(self.shared.folder.metas()?.iter().map(KeyedMeta::loaded).collect())
    }

    fn describe(&self, schemas: u32, _: u32) -> Result<(Target, TargetDetails)> {
        describe::describe(&self.shared, &self.shared.folder.first_metas(schemas)?)
    }

    fn needs(&self, _: &[Seat], schemas: u32) -> Result<Needs> {
        Ok(describe::needs(&self.shared.folder.first_metas(schemas)?))
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
        self.shared.folder.begin_run(|schema| self.shared.database(schema))
    }

    fn settle(&self, progress: &dyn Progress, stop: &Stop) -> Result<Settled> {
        let begin = Instant::now();
        let settle = |schema| self.shared.database(schema)?.settle();
        let files = self.shared.folder.settle(progress, stop, settle)?;
        let mut done = vec![format!("{files} database files synced")];
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
