//! An open database, its blocks and its settling.

use std::ffi::CStr;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::Shared;
use super::files::{RocksdbFormat, folder_of};
use super::io::{Statistics, Tickers};
use super::layout::DatabaseOptions;
use super::library::{ColumnFamily, CompactedFiles, NativeDatabase};
use petal_engine::keyed::folder::{KeyedFolder, KeyedFormat as _};
use petal_engine::keyed::meta::KeyedMeta;
use petal_engine::keyed::session::KeyedDatabase;
use petal_engine::{EngineError, Placement, Result};
use petal_model::workload::scatter::Permutation;

/// The folder of a target.
pub type RocksdbFolder = KeyedFolder<RocksdbFormat, OpenDatabase>;

/// A database that is open as long as somebody uses it: a process can open it only once.
pub struct OpenDatabase {
    pub meta: KeyedMeta,
    pub path: PathBuf,
    pub order: Permutation,
    database: Option<NativeDatabase>,
    statistics: Arc<Statistics>,
}

impl OpenDatabase {
    pub fn open(shared: &Shared, schema: u32) -> Result<Self> {
        let path = shared.folder.loaded_file(schema)?;
        let meta = RocksdbFormat.inspect(&path, schema)?;
        let options = DatabaseOptions {
            block_bytes: meta.about.block_bytes,
            cache_bytes: shared.cache_bytes,
            direct: shared.direct_io(&path)?.used,
            is_load: false,
        };
        let folder = folder_of(&path, &meta.about.load);
        let database = NativeDatabase::open(&folder, &options.text(), false)
            .map_err(|why| failed(&path, "opening", &why))?;
        Ok(Self {
            order: Permutation::new(meta.about.rows.max(1), meta.seed),
            database: Some(database),
            statistics: Arc::clone(&shared.statistics),
            meta,
            path,
        })
    }

    pub fn database(&self) -> Result<&NativeDatabase> {
        self.database.as_ref().ok_or_else(|| self.failed("using it", "it is closed"))
    }

    pub fn tickers(&self) -> Tickers {
        let text = self.database.as_ref().map(NativeDatabase::statistics);
        Tickers::read(&text.unwrap_or_default())
    }

    pub fn failed(&self, doing: &str, why: &str) -> EngineError {
        failed(&self.path, doing, why)
    }

    /// Writes the rows in memory into files, and merges these until each row has one version.
    pub fn settle(&self) -> Result<()> {
        let database = self.database()?;
        for table in [ColumnFamily::Main, ColumnFamily::Scan] {
            database.flush(table).map_err(|why| self.failed("settling", &why))?;
            database.compact(table, CompactedFiles::Overlapping);
        }
        Ok(())
    }

    /// Counts the rows and data blocks of the main table.
    pub fn placement(&self) -> Result<Placement> {
        self.settle()?;
        Ok(TableBlocks::of(self.database()?, ColumnFamily::Main)
            .map_err(|why| self.failed("counting its blocks", &why))?
            .into())
    }
}

impl Drop for OpenDatabase {
    fn drop(&mut self) {
        self.statistics.close(&self.tickers());
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
        let snapshot = self.database()?.snapshot();
        for key in keys {
            let got = snapshot.get(ColumnFamily::Main, self.order.apply(key - 1), &mut *found);
            got.map_err(|why| self.failed("reading rows", &why))?;
        }
        Ok(())
    }
}

const PROPERTIES: &CStr = c"rocksdb.aggregated-table-properties";

/// Entries and data blocks of a table's files, by RocksDB's own properties of them.
#[derive(Debug, Clone, Copy)]
pub struct TableBlocks {
    pub entries: u64,
    pub blocks: u64,
    pub bytes: u64,
}

impl TableBlocks {
    pub fn of(database: &NativeDatabase, table: ColumnFamily) -> Result<Self, String> {
        let text = database.property(table, PROPERTIES).unwrap_or_default();
        let value = |name: &str| {
            let found = text.split(';').find_map(|part| part.trim().strip_prefix(name));
            found.and_then(|value| value.trim().parse().ok()).ok_or_else(|| {
                format!("rocksdb.aggregated-table-properties has no number of {name}{text}")
            })
        };
        Ok(Self {
            entries: value("# entries=")?,
            blocks: value("# data blocks=")?,
            bytes: value("data block size=")?,
        })
    }
}

/// No data block is empty: as many as entries have one each.
impl From<TableBlocks> for Placement {
    fn from(found: TableBlocks) -> Self {
        Self {
            rows: found.entries,
            blocks: found.blocks,
            rows_per_block_max: found.entries.div_ceil(found.blocks.max(1)),
            overflow_blocks: Some(0),
            source: "rocksdb.aggregated-table-properties",
        }
    }
}

/// The kind of a failure, with which RocksDB begins its texts: `IO error: ...`.
pub fn code_name(why: &str) -> String {
    why.split_once(':').map_or("RocksDB", |(kind, _)| kind).to_owned()
}

/// A failure of RocksDB's as a caller acts on it.
pub fn failed(path: &Path, doing: &str, why: &str) -> EngineError {
    let text = |hint: &str| format!("{}: {doing} failed: {why}; {hint}", path.display());
    let kind = code_name(why);
    if why.contains("/LOCK") {
        return EngineError::Environment(text(
            "another program or a session of this petal uses it; wait until it is done",
        ));
    }
    match kind.as_str() {
        "IO error" => {
            EngineError::Environment(text("see the file system and the kernel's log (dmesg)"))
        }
        "Corruption" => EngineError::Data(text("load it again: petal setup --replace")),
        _ if why.contains("librocksdb") => EngineError::Environment(why.to_owned()),
        _ => EngineError::Database(text("please report this with petal's version")),
    }
}
