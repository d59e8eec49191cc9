//! An open database file: its lock, the storage that petal puts below redb, and the meaning of
//! redb's errors.

use std::fs::File;
use std::io;
use std::ops::RangeInclusive;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use parking_lot::{Mutex, MutexGuard};
use redb::{Builder, Database, ReadableDatabase as _, ReadableTableMetadata as _, StorageBackend};
use rustix::fs::OFlags;

use super::Shared;
use super::files::{self, RedbFormat};
use super::io::{Count, Event, Statistics, record, unrecorded};
use super::layout::{self, Blocks};
use petal_engine::direct_file::DirectFile;
use petal_engine::file_lock::FileLock;
use petal_engine::in_use::FileId;
use petal_engine::keyed::folder::{KeyedFolder, KeyedFormat as _};
use petal_engine::keyed::meta::KeyedMeta;
use petal_engine::keyed::session::KeyedDatabase;
use petal_engine::keyed::writer::WriterLock;
use petal_engine::on_path::{OnPath as _, unusable};
use petal_engine::{EngineError, Placement, Result};
use petal_workload::scatter::Permutation;

/// A result of redb's.
pub type Answer<T> = std::result::Result<T, redb::Error>;

/// The storage below redb: one file. It counts and times each call.
pub struct RedbStorage {
    file: Arc<File>,
    direct: Option<DirectFile>,
    statistics: Option<Arc<Statistics>>,
}

impl std::fmt::Debug for RedbStorage {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(to, "{:?}", self.file)
    }
}

impl RedbStorage {
    /// The storage of a load, which is not counted.
    pub fn of_load(file: Arc<File>) -> Self {
        Self { file, direct: None, statistics: None }
    }

    fn timed<T>(
        &self,
        event: Event,
        bytes: usize,
        call: impl FnOnce() -> io::Result<T>,
    ) -> io::Result<T> {
        let begin = Instant::now();
        let answer = call();
        match (&answer, &self.statistics) {
            (Ok(_), _) => record(event, begin.elapsed().as_nanos() as u64, bytes as u64),
            (Err(_), Some(statistics)) => statistics.count(Count::IoErrors, 1),
            (Err(_), None) => {}
        }
        answer
    }

    /// The direct descriptor, if such a call can use it. redb's header is shorter than a block.
    fn direct(&self, offset: u64, bytes: usize) -> Option<&DirectFile> {
        self.direct.as_ref().filter(|direct| direct.takes(offset, bytes))
    }
}

impl StorageBackend for RedbStorage {
    fn len(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.timed(Event::PageRead, out.len(), || match self.direct(offset, out.len()) {
            Some(direct) if direct.read(out, offset)? == out.len() => Ok(()),
            Some(_) => Err(io::ErrorKind::UnexpectedEof.into()),
            None => self.file.read_exact_at(out, offset),
        })
    }

    /// A new file is petal's before it is redb's: nobody takes a load that was cut off for another's.
    fn set_len(&self, bytes: u64) -> io::Result<()> {
        self.timed(Event::FileResize, 0, || {
            if self.file.metadata()?.len() == 0 {
                RedbFormat::NOTES.mark(&self.file)?;
            }
            self.file.set_len(bytes)
        })
    }

    fn sync_data(&self) -> io::Result<()> {
        self.timed(Event::FileSync, 0, || self.file.sync_data())
    }

    fn write(&self, offset: u64, page: &[u8]) -> io::Result<()> {
        self.timed(Event::PageWrite, page.len(), || match self.direct(offset, page.len()) {
            Some(direct) => direct.write(page, offset),
            None => self.file.write_all_at(page, offset),
        })
    }
}

/// The folder of a target.
pub type RedbFolder = KeyedFolder<RedbFormat, OpenDatabase>;

/// A database that is open as long as somebody uses it: a process can open a file only once.
pub struct OpenDatabase {
    pub meta: KeyedMeta,
    pub path: PathBuf,
    pub order: Permutation,
    /// Another process left it open, so that redb had to read all of it first.
    pub was_repaired: bool,
    /// Closed before the lock is given up.
    database: Option<Database>,
    /// redb has one writer for each file; its own wait cannot be cut.
    writer: WriterLock,
    statistics: Arc<Statistics>,
    /// Hits and misses of redb's cache that are counted already.
    counted: Mutex<[u64; 2]>,
    file: Arc<File>,
    id: FileId,
    _lock: FileLock,
}

impl OpenDatabase {
    pub fn open(shared: &Shared, schema: u32) -> Result<Self> {
        let path = shared.folder.loaded_file(schema)?;
        let file =
            petal_host::files::open(&path, OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK);
        let file = Arc::new(file.on(&path)?);
        let held = "another program uses this database, and redb allows one at a time; wait until \
                    it is done, or stop it";
        let lock = FileLock::on(Arc::clone(&file)).map_err(|refused| refused.at(&path, held))?;
        let meta = KeyedMeta::read_whole(RedbFormat::NOTES, &file, &path, schema)?;
        let direct = match shared.direct.then(|| DirectFile::again(&file)) {
            Some(Err(refused)) => {
                refused.reason().on(&path)?;
                None
            }
            Some(Ok(direct)) => Some(direct),
            None => None,
        };
        let statistics = Arc::clone(&shared.statistics);
        let storage = RedbStorage {
            file: Arc::clone(&file),
            direct,
            statistics: Some(Arc::clone(&statistics)),
        };
        let was_repaired = Arc::new(AtomicBool::new(false));
        let repaired = Arc::clone(&was_repaired);
        let database = unrecorded(|| {
            Builder::new()
                .set_cache_size(shared.cache_bytes(&meta) as usize)
                .set_repair_callback(move |_| repaired.store(true, Ordering::Relaxed))
                .create_with_backend(storage)
        });
        let database = database.map_err(|error| failed(&path, "opening", &error.into()))?;
        let id = FileId::from(&file.metadata().on(&path)?);
        files::set_open(id, true);
        let opened = database.cache_stats();
        Ok(Self {
            order: Permutation::new(meta.about.rows.max(1), meta.seed),
            was_repaired: was_repaired.load(Ordering::Relaxed),
            counted: Mutex::new([opened.read_hits(), opened.read_misses()]),
            database: Some(database),
            writer: WriterLock::default(),
            statistics,
            meta,
            path,
            file,
            id,
            _lock: lock,
        })
    }

    pub fn database(&self) -> Answer<&Database> {
        self.database.as_ref().ok_or(redb::Error::DatabaseClosed)
    }

    /// The right to write; None if it is cut while it waits for it.
    pub fn writer(&self, is_cut: impl Fn() -> bool) -> Option<MutexGuard<'_, ()>> {
        self.writer.take(is_cut, |waited_ns| record(Event::WriterLock, waited_ns, 0))
    }

    /// Adds the hits and misses of redb's cache since the last time.
    pub fn count_cache(&self) {
        let Some(database) = &self.database else { return };
        let mut counted = self.counted.lock();
        let stats = database.cache_stats();
        let now = [stats.read_hits(), stats.read_misses()];
        for (count, at) in [(Count::CacheHit, 0), (Count::CacheMiss, 1)] {
            self.statistics.count(count, now[at].saturating_sub(counted[at]));
        }
        *counted = now;
    }

    pub fn sync(&self) -> Result<()> {
        self.file.sync_all().on(&self.path)
    }

    /// Counts the rows and leaves of the main table, and reads all of it.
    pub fn placement(&self) -> Result<Placement> {
        let counted = self.database().and_then(|database| table_pages(database, layout::MAIN));
        let pages = counted.map_err(|error| failed(&self.path, "counting its pages", &error))?;
        Ok(pages.into())
    }
}

impl KeyedDatabase for OpenDatabase {
    fn meta(&self) -> &KeyedMeta {
        &self.meta
    }

    fn path(&self) -> &Path {
        &self.path
    }

    fn read_rows(&self, keys: RangeInclusive<u64>, found: &mut dyn FnMut(&[u8])) -> Result<()> {
        let read = || {
            let blocks = self.database()?.begin_read()?.open_table(layout::MAIN)?;
            for key in keys {
                if let Some(row) = blocks.get(self.order.apply(key - 1))? {
                    found(row.value());
                }
            }
            Ok(())
        };
        read().map_err(|error| failed(&self.path, "reading rows", &error))
    }
}

impl Drop for OpenDatabase {
    fn drop(&mut self) {
        self.count_cache();
        unrecorded(|| drop(self.database.take()));
        files::set_open(self.id, false);
    }
}

/// Pages of one table, by redb's own statistics.
#[derive(Debug, Clone, Copy)]
pub struct TablePages {
    pub rows: u64,
    pub leaves: u64,
    pub branches: u64,
    /// Bytes of all its pages.
    pub bytes: u64,
}

pub fn table_pages(database: &Database, table: Blocks) -> Answer<TablePages> {
    let table = database.begin_read()?.open_table(table)?;
    let stats = table.stats()?;
    Ok(TablePages {
        rows: table.len()?,
        leaves: stats.leaf_pages(),
        branches: stats.branch_pages(),
        bytes: stats.stored_bytes() + stats.metadata_bytes() + stats.fragmented_bytes(),
    })
}

/// No leaf is empty: as many leaves as rows have one each.
impl From<TablePages> for Placement {
    fn from(pages: TablePages) -> Self {
        Self {
            rows: pages.rows,
            blocks: pages.leaves,
            rows_per_block_max: pages.rows.div_ceil(pages.leaves.max(1)),
            overflow_blocks: Some(0),
            source: "redb's table statistics",
        }
    }
}

/// The name of a failure, as redb's documentation lists it.
pub fn code_name(error: &redb::Error) -> String {
    let text = format!("{error:?}");
    text.split(|sign: char| !sign.is_alphanumeric()).next().unwrap_or_default().to_owned()
}

/// A failure of redb's as a caller acts on it.
pub fn failed(path: &Path, doing: &str, error: &redb::Error) -> EngineError {
    let text = |hint: &str| {
        format!("{}: {doing} failed: {error} ({}); {hint}", path.display(), code_name(error))
    };
    match error {
        redb::Error::Io(error) => unusable(path, error),
        redb::Error::PreviousIo => EngineError::Environment(text("see the error before it")),
        redb::Error::Corrupted(_) | redb::Error::UpgradeRequired(_) => {
            EngineError::Data(text("load it again: petal setup --replace"))
        }
        _ => EngineError::Database(text("please report this with petal's version")),
    }
}
