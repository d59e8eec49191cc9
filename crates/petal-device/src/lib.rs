//! Bare device: a file or a block device, driven like a database's storage, with no database on it.
//! The results are the limit for any database on the same storage.
//!
//! - `layout`, `block`, `data`: locations on the target, and the content of a block
//! - `target`, `safety`, `occupied`, `load`, `filling`, `placement`: opening, refusing, filling, proving
//! - `request`, `queue`, `uring`, `calls`: requests in flight
//! - `calibration_target`, `measure`: the target measured bare, for `petal calibrate`
//! - `session`, `flow`, `update`, `scan`, `context`: one session's work
//! - `log`, `write_back_cache`: log first and write behind
//!
//! There is no recovery: the log is written for its cost and never read. Blocks that were committed
//! and not yet written when petal is killed keep their older, whole version.

#![cfg_attr(test, allow(clippy::disallowed_methods))]

pub mod block;
pub mod calibration_target;
mod calls;
mod context;
mod data;
mod describe;
mod filling;
mod flow;
pub mod layout;
mod load;
mod log;
pub mod measure;
mod occupied;
mod options;
mod placement;
mod queue;
mod request;
mod rows;
mod safety;
mod scan;
mod session;
mod statistics;
mod target;
mod update;
mod uring;
mod write_back_cache;

#[cfg(test)]
mod tests;

use petal_host::numbers::whole;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;

use data::TargetData;
use flow::Flow;
use layout::{HEADER_BYTES, TargetContent, TargetHeader};
use options::{OPTIONS, Options};
use petal_engine::in_use::DataUse;
use petal_engine::on_path::{OnPath, unusable};
use petal_engine::{
    Engine, EngineError, LoadPlan, LoadSummary, Needs, Placement, Progress, ProgressUnit, Result,
    RowReader, Session, Silent, Stop,
};
use petal_host::devices::Roots;
use petal_record::counters::Counters;
use petal_record::target::{LoadedSchema, Settled, Target as About, TargetDetails};
use petal_settings::table::{EngineSupport, support};
use petal_settings::{RedoStress, Settings, Verify};
use petal_workload::seat::Seat;
use queue::Backend;
use session::DeviceSession;
use statistics::{Count, Statistics};
use target::{OpenTarget, TargetFile, TargetKind};
use write_back_cache::WriteBackCache;

/// Maximum number of bad-block messages kept for the record.
const FLAWS_MAX: usize = 8;

pub struct Device {
    shared: Arc<Shared>,
}

/// State that the engine, its sessions and its writer share.
struct Shared {
    path: PathBuf,
    /// Path as given in the URL.
    url_path: String,
    url: String,
    options: Options,
    direct: bool,
    is_shared: bool,
    io_depth: u32,
    verify: Verify,
    redo_stress: RedoStress,
    only_reads: bool,
    /// Rows of an UPDATE.
    update_rows: u64,
    destroy_data: Option<PathBuf>,
    /// PRECONDITION: setup writes this multiple of the data's size.
    precondition: u32,
    roots: Roots,
    statistics: Statistics,
    dirty: WriteBackCache,
    opened: Mutex<OpenState>,
    flaws: Mutex<Vec<String>>,
}

/// Opened target, kept until the data changes.
#[derive(Default)]
struct OpenState {
    /// File that the path led to first. It stays the target until its data are dropped.
    there: Option<TargetFile>,
    target: Option<OpenTarget>,
    backend: Option<Backend>,
    data: Option<Arc<TargetData>>,
}

impl Shared {
    /// Returns the file or block device, or `None` if it does not exist.
    fn there(&self) -> Result<Option<TargetFile>> {
        let mut opened = self.opened.lock();
        if opened.there.is_none() {
            opened.there = TargetFile::find(&self.path)?;
        }
        Ok(opened.there.clone())
    }

    /// Creates the file.
    fn create(&self) -> Result<()> {
        self.opened.lock().there = Some(TargetFile::create(&self.path)?);
        Ok(())
    }

    /// Opens the target, which no other petal may have open.
    fn target(&self) -> Result<OpenTarget> {
        let there = self.there()?.ok_or_else(|| self.missing())?;
        let mut opened = self.opened.lock();
        if let Some(target) = &opened.target {
            return Ok(target.clone());
        }
        occupied::refuse_in_use(&there, &self.roots)?;
        let target = OpenTarget::open(&there, self.direct, self.is_shared)?;
        opened.target = Some(target.clone());
        Ok(target)
    }

    fn backend(&self) -> Result<Backend> {
        let target = self.target()?;
        let mut opened = self.opened.lock();
        if let Some(backend) = &opened.backend {
            return Ok(backend.clone());
        }
        let backend = Backend::find(&target.file, self.options.io).map_err(|error| {
            EngineError::Environment(format!(
                "{}: ?io=uring asks for io_uring, which is refused here: {error}; leave it out, \
                 or allow it (sysctl kernel.io_uring_disabled, the container's seccomp profile)",
                self.path.display()
            ))
        })?;
        opened.backend = Some(backend.clone());
        Ok(backend)
    }

    fn missing(&self) -> EngineError {
        unusable(&self.path, &std::io::ErrorKind::NotFound.into())
    }

    /// Reads the target's header, or returns `None` if there is no target.
    fn find(&self) -> Result<Option<TargetHeader>> {
        let Some(there) = self.there()? else { return Ok(None) };
        let found = there.content()?;
        self.refuse_foreign(&there, &found)?;
        Ok(found.petals())
    }

    /// Refuses foreign data, unless the user gave it up by its exact path.
    fn refuse_foreign(&self, there: &TargetFile, found: &TargetContent) -> Result<()> {
        let bytes = there.bytes()?;
        let is_device = there.kind == TargetKind::BlockDevice;
        let signature = match is_device || *found == TargetContent::Foreign {
            true => safety::signature_of(&there.file, bytes),
            false => None,
        };
        let reason = match (signature, found) {
            (Some(signature), _) => format!("it contains {signature}"),
            (None, TargetContent::Foreign) if is_device && safety::is_blank(&there.file, bytes) => {
                return Ok(());
            }
            (None, TargetContent::Foreign)
                if !is_device && safety::is_empty(&there.file, bytes) =>
            {
                return Ok(());
            }
            (None, TargetContent::Foreign) => "petal did not fill it".to_owned(),
            (None, TargetContent::Damaged) => {
                "it has petal's mark, and a header that is damaged or of a newer petal".to_owned()
            }
            (None, TargetContent::Petal(_)) => return Ok(()),
        };
        occupied::refuse_in_use(there, &self.roots)?;
        let given_up = self.destroy_data.as_deref();
        safety::refuse_foreign(&self.path, &self.url_path, &reason, given_up)
    }

    /// Returns the loaded data; fails if no schema is loaded.
    fn data(&self) -> Result<Arc<TargetData>> {
        if let Some(data) = &self.opened.lock().data {
            return Ok(Arc::clone(data));
        }
        let header = self.find()?.filter(|header| !header.schemas.is_empty());
        let header = header.ok_or_else(|| {
            EngineError::Data(format!(
                "{}: no petal schema is loaded there; load one (petal setup --db device:{})",
                self.path.display(),
                self.url_path
            ))
        })?;
        let target = self.target()?;
        self.refuse_cut_off(&header, target.bytes)?;
        let blocks = self.options.dirty_bytes / u64::from(header.block_bytes);
        self.dirty.limit(blocks, header.log_bytes / 4);
        let data = Arc::new(TargetData::new(header, self.verify != Verify::None));
        Ok(Arc::clone(self.opened.lock().data.get_or_insert(data)))
    }

    /// Refuses to drop a target that does not match its header: the mark alone may belong to
    /// somebody else.
    fn refuse_unlike(&self, there: &TargetFile, found: &TargetContent) -> Result<()> {
        let bytes = there.bytes()?;
        let reason = match found {
            TargetContent::Petal(header) if header.bytes() <= bytes => return Ok(()),
            TargetContent::Petal(header) => {
                format!("its header describes {} bytes, and it has {bytes}", header.bytes())
            }
            _ => "it has petal's mark, and no header that this petal can read".to_owned(),
        };
        Err(EngineError::Data(format!(
            "{}: {reason}, so petal does not remove it; if nobody needs it, remove it yourself \
             (rm, or wipefs of a block device)",
            self.path.display()
        )))
    }

    /// Checks that the target is as long as its header says.
    fn refuse_cut_off(&self, header: &TargetHeader, bytes: u64) -> Result<()> {
        if bytes >= header.end() {
            return Ok(());
        }
        Err(EngineError::Data(format!(
            "{}: it has {} bytes, but its header says {}: it was cut off; load it again \
             (petal setup --replace)",
            self.path.display(),
            whole(bytes),
            whole(header.end())
        )))
    }

    /// Refuses UPDATEs whose record does not fit into the log.
    fn refuse_long_records(&self, data: &TargetData) -> Result<()> {
        let record = log::record_bytes(self.redo_stress, self.update_rows);
        if self.only_reads || record <= data.log.bytes() {
            return Ok(());
        }
        Err(EngineError::Setting(format!(
            "UPDATE_WORK_UNIT={}: the log record of such an UPDATE has {record} bytes, and the log of \
             {} has {}; load it again with a larger one (device:{}?log=SIZE), or lower \
             UPDATE_WORK_UNIT",
            self.update_rows,
            self.path.display(),
            data.log.bytes(),
            self.url_path
        )))
    }

    /// Forgets the target's content and releases its lock, because the target changes.
    fn forget(&self) {
        let mut opened = self.opened.lock();
        *opened = OpenState { there: opened.there.take(), ..OpenState::default() };
    }

    /// Forgets the target, because it is gone.
    fn forget_all(&self) {
        *self.opened.lock() = OpenState::default();
    }

    fn bad_block(&self, what: &str) {
        self.statistics.count(Count::BadBlocks, 1);
        let mut flaws = self.flaws.lock();
        // A block that is met repeatedly does not hide the others.
        if flaws.len() < FLAWS_MAX && !flaws.iter().any(|known| known == what) {
            flaws.push(what.to_owned());
        }
    }

    fn block_bytes(&self) -> u64 {
        let opened = self.opened.lock();
        opened.data.as_ref().map_or(1, |data| u64::from(data.header.block_bytes))
    }

    fn write_behind(&self) -> Result<()> {
        self.dirty.stop().map_err(|why| {
            EngineError::Database(format!("some committed blocks could not be written: {why}"))
        })
    }
}

impl Device {
    pub fn open(settings: &Settings) -> Result<Self> {
        let url_path = OPTIONS.path(&settings.db, "file or block device", "/data/petal.dat")?;
        let url_path = url_path.to_owned();
        let shared = Shared {
            path: PathBuf::from(&url_path),
            url_path,
            url: settings.db.redacted(),
            options: Options::parse(&settings.db.options)?,
            direct: settings.direct_io != Some(false),
            is_shared: settings.is_shared,
            io_depth: settings.io_depth,
            verify: settings.verify,
            redo_stress: settings.redo_stress,
            only_reads: settings.only_reads(),
            update_rows: settings.update_work_unit.into(),
            destroy_data: settings.destroy_data.clone(),
            precondition: settings.precondition,
            roots: Roots::default(),
            statistics: Statistics::default(),
            dirty: WriteBackCache::default(),
            opened: Mutex::default(),
            flaws: Mutex::default(),
        };
        Ok(Self { shared: Arc::new(shared) })
    }
}

impl Engine for Device {
    fn support(&self) -> &'static EngineSupport {
        &support::DEVICE
    }

    fn column_bytes(&self, block_bytes: u32) -> usize {
        block::column_bytes(block_bytes as usize)
    }

    fn loaded(&self) -> Result<Vec<LoadedSchema>> {
        let Some(header) = self.shared.find()? else { return Ok(Vec::new()) };
        let mut loaded: Vec<LoadedSchema> =
            header.schemas.iter().map(|area| area.loaded(header.block_bytes)).collect();
        loaded.sort_by_key(|schema| schema.number);
        Ok(loaded)
    }

    fn describe(&self, _schemas: u32, _sessions: u32) -> Result<(About, TargetDetails)> {
        describe::describe(&self.shared)
    }

    fn needs(&self, seats: &[Seat], _: u32) -> Result<Needs> {
        let shared = &self.shared;
        let each = Flow::needs(shared, shared.data()?.header.block_bytes as usize);
        let sessions = seats.len() as u64;
        Ok(Needs {
            files: sessions * each.files,
            memory_bytes: sessions.saturating_mul(each.memory_bytes),
            threads: sessions * each.threads,
        })
    }

    fn load_needs(&self, plan: &LoadPlan) -> Needs {
        load::needs(&self.shared, plan)
    }

    fn load(&self, plan: &LoadPlan, progress: &dyn Progress, stop: &Stop) -> Result<LoadSummary> {
        self.shared.write_behind()?;
        load::Loader { shared: &self.shared, plan, progress, stop }.run()
    }

    fn begin_use(&self, _: u32) -> Result<Box<dyn DataUse>> {
        Ok(Box::new(self.shared.target()?))
    }

    fn settle(&self, progress: &dyn Progress, _stop: &Stop) -> Result<Settled> {
        let begin = Instant::now();
        progress.phase("settling", 1, ProgressUnit::Items);
        self.shared.write_behind()?;
        let target = self.shared.target()?;
        target.file.sync_all().on(&target.path)?;
        progress.advance(1);
        Ok(Settled {
            seconds: begin.elapsed().as_secs_f64(),
            done: vec!["changed blocks written, target synced".to_owned()],
            ..Settled::default()
        })
    }

    fn connect(&self, seat: Seat) -> Result<Box<dyn Session>> {
        let data = self.shared.data()?;
        data.position(seat.schema, &self.shared.path)?;
        self.shared.refuse_long_records(&data)?;
        Ok(Box::new(DeviceSession::connect(&self.shared)?))
    }

    fn read_counters(&self, in_full: bool) -> Result<Vec<Counters>> {
        let shared = &self.shared;
        Ok(vec![shared.statistics.collect(&shared.url, shared.block_bytes(), in_full)])
    }

    fn quiesce(&self) -> Result<()> {
        self.shared.write_behind()?;
        let flaws = std::mem::take(&mut *self.shared.flaws.lock());
        if flaws.is_empty() {
            return Ok(());
        }
        let all = self.shared.statistics.counted(Count::BadBlocks);
        Err(EngineError::Data(format!(
            "{all} times petal read a block that is not the one it wrote: {}",
            flaws.join("; "),
            all = whole(all)
        )))
    }

    fn data_bytes(&self) -> Result<Option<u64>> {
        let data = self.shared.data()?;
        let blocks: u64 = data.areas.iter().map(|area| area.about.rows).sum();
        Ok(Some(blocks * u64::from(data.header.block_bytes)))
    }

    fn placement(&self, schema: u32) -> Result<Placement> {
        let (data, target) = (self.shared.data()?, self.shared.target()?);
        let area = &data.areas[data.position(schema, &self.shared.path)?];
        let (stop, progress) = (Stop::unlimited(Arc::default()), &Silent);
        placement::Proof { target: &target, data: &data, area, progress, stop: &stop }.count(1)
    }

    fn row_reader(&self, schema: u32) -> Result<Box<dyn RowReader>> {
        Ok(Box::new(rows::DeviceRows::open(&self.shared, schema)?))
    }

    fn drop_data(&self) -> Result<Vec<String>> {
        let shared = &self.shared;
        let _ = shared.write_behind();
        let Some(there) = shared.there()? else { return Ok(Vec::new()) };
        let found = there.content()?;
        if found == TargetContent::Foreign {
            return Ok(Vec::new());
        }
        // A file system that was made over petal's mark belongs to somebody.
        shared.refuse_foreign(&there, &found)?;
        shared.refuse_unlike(&there, &found)?;
        let target = shared.target()?;
        let dropped = match target.kind {
            TargetKind::BlockDevice => {
                target.overwrite(0, &vec![0; HEADER_BYTES as usize])?;
                format!("petal's header on {}", shared.path.display())
            }
            // If the path is a link, its file is removed: the data are there.
            TargetKind::File => there.remove()?.display().to_string(),
        };
        drop(target);
        shared.forget_all();
        Ok(vec![dropped])
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        // A caller that wants to see a failure calls quiesce.
        let _ = self.shared.write_behind();
    }
}
