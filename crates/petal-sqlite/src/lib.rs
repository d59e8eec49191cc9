//! SQLite: one database file per schema in the target folder.
//!
//! - `layout`, `meta`, `placement`: the data, a load's metadata, and its proof
//! - `files`, `connection`: the folder, opening, the meaning of errors
//! - `load`, `session`, `writer_queue`, `checkpoint`: work
//! - `plan`: the plan of the SELECT, before a run and after it
//! - `costs`: accesses for `petal costs`
//! - `io`, `vfs`, `direct`: every read, write and sync, timed, past the page cache
//!
//! Two traits of SQLite shape every result. It has one writer per file: sessions of one schema
//! queue for it (`writer lock`). And a session whose file was changed by another connection drops
//! its whole page cache at its next operation: with several sessions per schema and UPDATEs,
//! index and interior pages are read again, and reads per row go above one.

#![cfg_attr(test, allow(clippy::disallowed_methods))]

mod advice;
mod checkpoint;
mod connection;
mod costs;
mod describe;
mod direct;
mod files;
pub mod io;
mod layout;
mod load;
mod meta;
mod options;
mod placement;
mod plan;
mod rows;
mod session;
pub mod vfs;
mod writer_queue;

#[cfg(test)]
mod tests;

use petal_host::numbers::whole;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;

use checkpoint::Checkpointers;
use connection::{Access, AtFile, open};
use files::{SqliteFormat, TargetFolder};
use io::{ConnectionRecorder, IoContext, IoSource, Statistics};
use meta::FileMeta;
use options::{OPTIONS, Options};
use petal_engine::costs::CostProbes;
use petal_engine::in_use::DataUse;
use petal_engine::on_path::OnPath;
use petal_engine::perturbation::Perturbation;
use petal_engine::server::loader::Load;
use petal_engine::{
    Engine, EngineError, LoadPlan, LoadSummary, Needs, Placement, Progress, Result, RowReader,
    Session, Stop,
};
use petal_record::counters::Counters;
use petal_record::target::{LoadedSchema, PlanCheck, Settled, Target, TargetDetails};
use petal_settings::table::{EngineSupport, support};
use petal_settings::{RedoStress, Settings};
use petal_workload::seat::Seat;
use session::SqliteSession;
use writer_queue::WriterQueue;

/// A folder of database files.
pub struct Sqlite {
    shared: Arc<Shared>,
}

/// State that the engine, its sessions and its checkpointers share.
struct Shared {
    folder: TargetFolder,
    options: Options,
    url: String,
    redo_stress: RedoStress,
    /// Pages that an UPDATE holds until its commit; 0 in a run without UPDATEs.
    dirty_pages: u64,
    /// Sessions hold a second connection, to schema 1.
    hot_schema: bool,
    /// Schemas of the run; None: all.
    schemas: Option<u32>,
    direct: bool,
    statistics: Arc<Statistics>,
    writer_queues: Mutex<HashMap<u32, Arc<WriterQueue>>>,
    checkpointers: Checkpointers,
}

impl Shared {
    fn writer_queue(&self, schema: u32) -> Arc<WriterQueue> {
        Arc::clone(self.writer_queues.lock().entry(schema).or_default())
    }

    /// The recorder of one more connection, and the context in which its files are served.
    fn recorded(&self, source: IoSource) -> (Arc<ConnectionRecorder>, IoContext) {
        let recorder = self.statistics.recorder(source);
        let kept = Some(Arc::clone(&recorder));
        (recorder, IoContext { recorder: kept, direct: self.direct, gathers: false })
    }

    /// Pages that a session caches of a schema.
    fn cache_pages(&self, meta: &FileMeta) -> u64 {
        match self.options.cache_bytes {
            Some(bytes) => bytes / meta.block_bytes(),
            None => layout::cache_pages(meta.interior_pages, meta.index_pages, self.dirty_pages),
        }
    }
}

impl Sqlite {
    pub fn open(settings: &Settings) -> Result<Self> {
        let path = OPTIONS.path(&settings.db, "folder", "petal-data")?;
        vfs::register().map_err(EngineError::Environment)?;
        let shared = Shared {
            folder: TargetFolder::new(path, SqliteFormat),
            options: Options::parse(&settings.db.options)?,
            url: settings.db.redacted(),
            redo_stress: settings.redo_stress,
            dirty_pages: if settings.only_reads() {
                0
            } else {
                u64::from(settings.update_work_unit)
            },
            hot_schema: settings.hot_schema_frequency > 0,
            schemas: settings.schemas,
            direct: settings.direct_io != Some(false),
            statistics: Arc::default(),
            writer_queues: Mutex::default(),
            checkpointers: Checkpointers::default(),
        };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// Every complete schema, checked.
    fn metas(&self) -> Result<Vec<FileMeta>> {
        let files = self.shared.folder.complete()?;
        files.iter().map(|file| FileMeta::inspect(&file.path, file.schema)).collect()
    }

    /// The schemas that a run touches.
    fn metas_in_use(&self) -> Result<Vec<FileMeta>> {
        let mut metas = self.metas()?;
        metas.truncate(self.shared.schemas.map_or(usize::MAX, |schemas| schemas as usize));
        Ok(metas)
    }

    /// Empties one WAL. Returns a line if there was something to do.
    fn settle_schema(&self, meta: &FileMeta) -> Result<Option<String>> {
        let path = self.shared.folder.file(meta.about.schema);
        let context = IoContext { direct: self.shared.direct, ..IoContext::default() };
        let wal_bytes =
            std::fs::metadata(connection::with_suffix(&path, "-wal")).map_or(0, |wal| wal.len());
        let mut line = None;
        if wal_bytes > 0 {
            let connection = open(&path, Access::Write, &context)?;
            let answer = context
                .during(|| checkpoint::checkpoint(&connection, "TRUNCATE"))
                .at(&path, "settling")?;
            let emptied =
                if answer.busy { "could not be emptied: it is in use" } else { "emptied" };
            line = Some(format!(
                "petal{}.db: checkpoint, WAL of {wal_bytes} bytes {emptied}",
                meta.about.schema,
                wal_bytes = whole(wal_bytes)
            ));
        }
        direct::buffered(&path).and_then(|file| file.sync_all()).on(&path)?;
        Ok(line)
    }
}

impl Engine for Sqlite {
    fn perturbation(&self) -> Option<Arc<Perturbation>> {
        Some(Arc::clone(&self.shared.statistics.perturbation))
    }

    fn support(&self) -> &'static EngineSupport {
        &support::SQLITE
    }

    fn column_bytes(&self, block_bytes: u32) -> usize {
        layout::column_bytes(block_bytes)
    }

    fn loaded(&self) -> Result<Vec<LoadedSchema>> {
        Ok(self.metas()?.iter().map(FileMeta::loaded).collect())
    }

    fn describe(&self, schemas: u32, sessions: u32) -> Result<(Target, TargetDetails)> {
        let mut metas = self.metas()?;
        metas.truncate(schemas as usize);
        describe::describe(&self.shared, &metas, sessions)
    }

    fn plan(&self, schemas: u32) -> Result<Option<PlanCheck>> {
        plan::check(&self.shared.folder, 1..=schemas)
    }

    fn needs(&self, seats: &[Seat], schemas: u32) -> Result<Needs> {
        let mut metas = self.metas()?;
        metas.truncate(schemas as usize);
        Ok(describe::needs(&self.shared, &metas, seats.len() as u32))
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
        let schemas = metas.iter().map(|meta| meta.about.schema);
        Ok(Box::new(self.shared.folder.begin_use(schemas)?))
    }

    fn settle(&self, progress: &dyn Progress, stop: &Stop) -> Result<Settled> {
        let begin = Instant::now();
        let metas = self.metas_in_use()?;
        progress.phase("settling", metas.len() as u64, petal_engine::ProgressUnit::Items);
        let mut done = Vec::new();
        for meta in &metas {
            if stop.is_requested() {
                return Err(EngineError::Interrupted);
            }
            done.extend(self.settle_schema(meta)?);
            progress.advance(1);
        }
        if done.is_empty() {
            done.push("no WAL held anything".to_owned());
        }
        done.push(format!("{} database files synced", metas.len()));
        self.shared.statistics.reset_peaks();
        Ok(Settled { seconds: begin.elapsed().as_secs_f64(), done, ..Settled::default() })
    }

    fn connect(&self, seat: Seat) -> Result<Box<dyn Session>> {
        self.shared.checkpointers.resume();
        Ok(Box::new(SqliteSession::connect(&self.shared, seat.schema, Access::Write)?))
    }

    fn connect_reader(&self, seat: Seat) -> Result<Box<dyn Session>> {
        let wal = connection::with_suffix(&self.shared.folder.file(seat.schema), "-wal");
        // Rows may be in the WAL, which only a connection that may write can read.
        let access = match std::fs::metadata(wal).is_ok_and(|wal| wal.len() > 0) {
            true => Access::Write,
            false => Access::Unchanging,
        };
        Ok(Box::new(SqliteSession::connect(&self.shared, seat.schema, access)?))
    }

    fn read_counters(&self, in_full: bool) -> Result<Vec<Counters>> {
        Ok(vec![self.shared.statistics.collect(&self.shared.url, in_full)])
    }

    fn quiesce(&self) -> Result<()> {
        self.shared.checkpointers.stop(&self.shared);
        self.shared.checkpointers.take_failure().map_or(Ok(()), Err)
    }

    fn data_bytes(&self) -> Result<Option<u64>> {
        let mut bytes = 0;
        for meta in self.metas_in_use()? {
            let path = self.shared.folder.file(meta.about.schema);
            bytes += std::fs::metadata(&path).on(&path)?.len();
        }
        Ok(Some(bytes))
    }

    fn placement(&self, schema: u32) -> Result<Placement> {
        let path = self.shared.folder.file(schema);
        // Every page in order: the kernel reads ahead into the page cache, several times as fast.
        let context = IoContext::default();
        let connection = open(&path, Access::Write, &context)?;
        let pages = context.during(|| placement::count_pages(&connection, &path, "cf1"))?;
        if self.shared.direct {
            files::leave_page_cache(&path);
        }
        Ok(Placement::from(pages))
    }

    fn row_reader(&self, schema: u32) -> Result<Box<dyn RowReader>> {
        Ok(Box::new(rows::SqliteRows::open(&self.shared.folder, schema)?))
    }

    fn drop_data(&self) -> Result<Vec<String>> {
        self.shared.checkpointers.stop(&self.shared);
        self.shared.folder.drop_data()
    }

    fn cost_probes(&self) -> Option<&dyn CostProbes> {
        Some(self)
    }
}

impl Drop for Sqlite {
    fn drop(&mut self) {
        self.shared.checkpointers.stop(&self.shared);
    }
}
