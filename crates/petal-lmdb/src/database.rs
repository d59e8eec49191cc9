//! An open database file, and the meaning of LMDB's errors.

use std::io;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use heed::byteorder::BigEndian;
use heed::types::{Bytes, U64};
use heed::{CommitOrAbort, Database, Env, EnvFlags, MdbError};
use parking_lot::MutexGuard;

use super::Shared;
use super::files::LmdbFormat;
use super::layout::{self, MAIN, PAGE_BYTES, SCAN};
use super::map::{self, PageDropper};
use petal_engine::file_set::{FileFormat as _, refuse_foreign_side};
use petal_engine::keyed::folder::{KeyedFolder, KeyedFormat as _};
use petal_engine::keyed::meta::KeyedMeta;
use petal_engine::keyed::session::KeyedDatabase;
use petal_engine::keyed::writer::WriterLock;
use petal_engine::on_path::{OnPath as _, unusable};
use petal_engine::{EngineError, Placement, Result};
use petal_workload::scatter::Permutation;

pub type Key = U64<BigEndian>;
/// A table from the number of a block to its row.
pub type Blocks = Database<'static, Key, Bytes>;

/// The folder of a target.
pub type LmdbFolder = KeyedFolder<LmdbFormat, OpenDatabase>;

/// A database that is open as long as somebody uses it: a process can open a file only once.
pub struct OpenDatabase {
    pub meta: KeyedMeta,
    pub path: PathBuf,
    pub order: Permutation,
    pub environment: Env,
    pub main: Blocks,
    pub scan: Blocks,
    /// Takes visited rows out of the page cache; None if they stay there.
    pub dropper: Option<PageDropper>,
    /// LMDB has one writer for each file; its own wait cannot be cut.
    writer: WriterLock,
}

impl OpenDatabase {
    pub fn open(shared: &Shared, schema: u32) -> Result<Self> {
        let path = shared.folder.loaded_file(schema)?;
        let file = LmdbFormat.open(&path).on(&path)?;
        let meta = KeyedMeta::read_whole(LmdbFormat::NOTES, &file, &path, schema)?;
        let map_bytes = layout::map_bytes(meta.main_bytes + meta.scan_bytes);
        refuse_foreign_side(LmdbFormat, &path)?;
        let open = || {
            let environment = map::open(&path, map_bytes, EnvFlags::empty())?;
            map::refuse_other(&environment, &file)?;
            let opened = environment.open_databases_and_commit(
                environment.read_txn()?,
                |opener, snapshot| {
                    let tables = [MAIN, SCAN]
                        .map(|table| opener.open_database::<Key, Bytes>(snapshot, Some(table)));
                    Ok::<_, heed::Error>(CommitOrAbort::<_, ()>::Commit(tables))
                },
            )?;
            let [main, scan] = opened.commit().ok_or(heed::Error::Mdb(MdbError::BadTxn))?;
            let (main, scan) = (main?, scan?);
            let dropper = match shared.keeps_pages {
                true => None,
                false => Some(PageDropper::of(&environment)?),
            };
            Ok((environment, main, scan, dropper))
        };
        let (environment, main, scan, dropper) =
            open().map_err(|error| failed(&path, "opening", &error))?;
        let missing = || EngineError::Data(format!("{}: a table is missing", path.display()));
        Ok(Self {
            order: Permutation::new(meta.about.rows.max(1), meta.seed),
            main: main.ok_or_else(missing)?,
            scan: scan.ok_or_else(missing)?,
            writer: WriterLock::default(),
            dropper,
            environment,
            meta,
            path,
        })
    }

    /// The right to write; None if it is cut while it waits for it.
    pub fn writer(
        &self,
        is_cut: impl Fn() -> bool,
        waited: impl FnOnce(u64),
    ) -> Option<MutexGuard<'_, ()>> {
        self.writer.take(is_cut, waited)
    }

    /// Takes the page of a visited row out of the page cache, unless pages stay there.
    pub fn drop_page(&self, row: &[u8]) -> io::Result<()> {
        self.dropper.as_ref().map_or(Ok(()), |dropper| dropper.drop_page(row))
    }

    /// Syncs the file, and takes it out of the page cache unless pages stay there.
    pub fn settle(&self) -> Result<()> {
        let settle = || {
            self.environment.clear_stale_readers()?;
            self.environment.force_sync()?;
            self.dropper.iter().try_for_each(PageDropper::drop_all)?;
            Ok(())
        };
        settle().map_err(|error| failed(&self.path, "settling", &error))
    }

    /// Counts the rows and overflow pages of the main table.
    pub fn placement(&self) -> Result<Placement> {
        table_pages(&self.environment, self.main)
            .map(Placement::from)
            .map_err(|error| failed(&self.path, "counting its pages", &error))
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
            let snapshot = self.environment.read_txn()?;
            for key in keys {
                if let Some(row) = self.main.get(&snapshot, &self.order.apply(key - 1))? {
                    found(row);
                }
            }
            Ok(())
        };
        read().map_err(|error| failed(&self.path, "reading rows", &error))
    }
}

/// Pages of one table, by LMDB's own statistics.
#[derive(Debug, Clone, Copy)]
pub struct TablePages {
    pub rows: u64,
    /// Pages that each hold one row, or a part of one.
    pub overflow: u64,
    /// Pages of the tree above them.
    pub tree: u64,
}

impl TablePages {
    pub fn bytes(&self) -> u64 {
        (self.overflow + self.tree) * PAGE_BYTES
    }
}

pub fn table_pages(environment: &Env, table: Blocks) -> heed::Result<TablePages> {
    let snapshot = environment.read_txn()?;
    let stat = table.stat(&snapshot)?;
    Ok(TablePages {
        rows: stat.entries as u64,
        overflow: stat.overflow_pages as u64,
        tree: (stat.branch_pages + stat.leaf_pages) as u64,
    })
}

/// Overflow pages hold no second row: as many of them as rows have one each.
impl From<TablePages> for Placement {
    fn from(pages: TablePages) -> Self {
        Self {
            rows: pages.rows,
            blocks: pages.overflow,
            rows_per_block_max: pages.rows.div_ceil(pages.overflow.max(1)),
            overflow_blocks: Some(0),
            source: "mdb_stat",
        }
    }
}

/// The name of a failure, as LMDB's documentation lists it.
pub fn code_name(error: &heed::Error) -> String {
    let text = match error {
        heed::Error::Mdb(error) => format!("{error:?}"),
        error => format!("{error:?}"),
    };
    text.split(|sign: char| !sign.is_alphanumeric()).next().unwrap_or_default().to_owned()
}

/// A failure of LMDB's as a caller acts on it.
pub fn failed(path: &Path, doing: &str, error: &heed::Error) -> EngineError {
    let text = |hint: &str| {
        format!("{}: {doing} failed: {error} ({}); {hint}", path.display(), code_name(error))
    };
    match error {
        heed::Error::Io(error) => unusable(path, error),
        heed::Error::EnvAlreadyOpened => {
            EngineError::Environment(text("a session of this petal uses it; wait until it is done"))
        }
        heed::Error::Mdb(MdbError::ReadersFull) => {
            EngineError::Environment(text("use fewer sessions"))
        }
        heed::Error::Mdb(MdbError::MapFull) => EngineError::Database(text(
            "it has grown to twice its size, as a long read keeps old pages; load it again: petal \
             setup --replace",
        )),
        heed::Error::Mdb(
            MdbError::Corrupted
            | MdbError::PageNotFound
            | MdbError::Invalid
            | MdbError::VersionMismatch,
        ) => EngineError::Data(text("load it again: petal setup --replace")),
        _ => EngineError::Database(text("please report this with petal's version")),
    }
}
