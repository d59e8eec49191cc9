//! Rows of the scripted engine: a file for each schema, with a block for each row, and a log next to
//! it. A header, the scan table and the main table follow each other; keys of the main table are
//! scattered. An UPDATE is in the synced log before it is in its rows; settling
//! repeats the log, syncs the rows and empties the log.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use petal_engine::file_lock::{FileLock, LockRefused};
use petal_engine::file_set::{FileFormat, FileOwner, FileSet, LoadingFile};
use petal_engine::on_path::OnPath as _;
use petal_engine::server::loader::{self, Load, LoadState, ProvedSchema};
use petal_engine::server::row_layout::{UpdateText, column_bytes, found_row};
use petal_engine::{
    EngineError, FoundRow, LoadSummary, LoadedSchemaSummary, Placement, Result, RowReader,
};
use petal_host::files::{self, OFlags};
use petal_record::target::LoadedSchema;
use petal_settings::table::{EngineSupport, support};
use petal_workload::row::{COLUMNS, Filler};
use petal_workload::scatter::Permutation;

/// Beginning of a schema file, followed by the fields of [`Header`].
const MARK: &[u8; 16] = b"petal, scripted\n";
const HEADER_BYTES: usize = MARK.len() + 4 * 8;
const KEY_BYTES: usize = 8;
/// Bytes of an UPDATE in the log: stamp, first key, number of rows.
pub const RECORD_BYTES: usize = 24;
/// Key of a deleted row.
const DELETED: u64 = u64::MAX;
/// Number of rows between two checks for a stop.
const ROWS_PER_STEP: u64 = 100;
/// Seed of rows in the order of their keys.
pub const IN_ORDER: u64 = u64::MAX;

/// A folder of schemas.
pub type SchemaFolder = FileSet<ScriptedFormat>;

/// A file of rows.
#[derive(Debug, Clone, Copy)]
pub struct ScriptedFormat;

impl FileFormat for ScriptedFormat {
    const ENDING: &'static str = ".rows";

    fn support(&self) -> &'static EngineSupport {
        &support::SCRIPTED
    }

    fn owner(&self, file: &File) -> io::Result<FileOwner> {
        let mut mark = [0; MARK.len()];
        file.read_at(&mut mark, 0)?;
        Ok(if mark == *MARK { FileOwner::Petal } else { FileOwner::Foreign })
    }

    fn remove_sides(&self, path: &Path) -> Result<()> {
        let log = log_of(path);
        match files::remove(&log) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error).on(&log),
            _ => Ok(()),
        }
    }
}

fn log_of(path: &Path) -> PathBuf {
    path.with_extension("log")
}

pub fn loaded(folder: &SchemaFolder) -> Result<Vec<LoadedSchema>> {
    let mut loaded = Vec::new();
    for found in folder.complete()? {
        let file = files::regular(&found.path).on(&found.path)?;
        loaded.extend(
            Header::read(&file).on(&found.path)?.map(|header| header.describe(found.schema)),
        );
    }
    Ok(loaded)
}

pub fn open(folder: &SchemaFolder, schema: u32) -> Result<SchemaFile> {
    let path = folder.loaded_file(schema)?;
    let file = files::open(&path, OFlags::RDWR).on(&path)?;
    let header = Header::read(&file).on(&path)?.ok_or_else(|| lost_mark(&path))?;
    let log_path = log_of(&path);
    let log = files::open(&log_path, OFlags::RDWR | OFlags::APPEND | OFlags::CREATE);
    let log = Arc::new(log.on(&log_path)?);
    Ok(SchemaFile { rows: RowFile::new(file, header), log, text: UpdateText::default() })
}

pub fn placement(folder: &SchemaFolder, schema: u32) -> Result<Placement> {
    let path = folder.loaded_file(schema)?;
    let file = files::regular(&path).on(&path)?;
    let header = Header::read(&file).on(&path)?.ok_or_else(|| lost_mark(&path))?;
    RowFile::new(file, header).placement().on(&path)
}

/// Empties the logs; returns a line for each that held something.
pub fn settle(folder: &SchemaFolder) -> Result<Vec<String>> {
    let mut done = Vec::new();
    for found in folder.complete()? {
        let updates = open(folder, found.schema)?.empty_log().on(&found.path)?;
        if updates > 0 {
            done.push(format!("schema {}: log of {updates} UPDATEs emptied", found.schema));
        }
    }
    Ok(done)
}

fn lost_mark(path: &Path) -> EngineError {
    EngineError::Data(format!("{}: it lost petal's mark", path.display()))
}

/// Loads the plan's schemas; each row takes `row_time`.
pub fn load(folder: &SchemaFolder, load: Load<'_>, row_time: Duration) -> Result<LoadSummary> {
    let rows = (1 + load.plan.scan_rows + load.plan.rows) * load.plan.schemas.len() as u64;
    folder.load(load, rows * u64::from(load.plan.block_size), &|file, state| {
        let summary = load_schema(file, load, row_time, state)?;
        Ok(ProvedSchema { summary, durable: None })
    })
}

fn load_schema(
    to: &LoadingFile<'_, ScriptedFormat>,
    load: Load<'_>,
    row_time: Duration,
    state: &LoadState<'_>,
) -> Result<LoadedSchemaSummary> {
    let (plan, path) = (load.plan, &to.path);
    let block_size = u64::from(plan.block_size);
    let header = Header { rows: plan.rows, scan_rows: plan.scan_rows, block_size, seed: plan.seed };
    let made = RowFile::new(to.file.try_clone().on(path)?, header);
    made.file.write_all_at(&header.bytes(), 0).on(path)?;
    let mut text = UpdateText::default();
    for first in (0..plan.rows).step_by(ROWS_PER_STEP as usize) {
        state.go_on()?;
        let rows = ROWS_PER_STEP.min(plan.rows - first);
        std::thread::sleep(row_time * rows as u32);
        let blocks = (first..first + rows).map(|at| made.block(made.key_at(at), 0, &mut text));
        let blocks = blocks.collect::<Vec<_>>().concat();
        made.file.write_all_at(&blocks, made.offset_of(first)).on(path)?;
        load.progress.advance(rows * block_size);
    }
    made.file.sync_all().on(path)?;
    let placement = made.placement().on(path)?;
    let otherwise = "load it again (petal setup --replace)";
    let placement = loader::prove(path.display(), "the file", placement, plan.rows, otherwise)?;
    let scan_bytes = Some(plan.scan_rows * block_size);
    let schema = header.describe(to.schema);
    Ok(LoadedSchemaSummary { schema, scan_bytes, seconds: 0.0, placement })
}

/// Facts of a load.
#[derive(Debug, Clone, Copy)]
struct Header {
    rows: u64,
    scan_rows: u64,
    block_size: u64,
    /// Seed of the scatter permutation.
    seed: u64,
}

impl Header {
    /// Returns `None` without petal's mark.
    fn read(file: &File) -> io::Result<Option<Self>> {
        let mut header = [0; HEADER_BYTES];
        file.read_at(&mut header, 0)?;
        let Some(fields) = header.strip_prefix(MARK.as_slice()) else { return Ok(None) };
        let (fields, _) = fields.as_chunks::<8>();
        let [rows, scan_rows, block_size, seed] =
            [0, 1, 2, 3].map(|at| u64::from_le_bytes(fields[at]));
        Ok(Some(Self { rows, scan_rows, block_size, seed }))
    }

    fn bytes(&self) -> Vec<u8> {
        let fields = [self.rows, self.scan_rows, self.block_size, self.seed].map(u64::to_le_bytes);
        [MARK.as_slice(), fields.as_flattened()].concat()
    }

    fn describe(&self, number: u32) -> LoadedSchema {
        let Self { rows, scan_rows, block_size, .. } = *self;
        LoadedSchema {
            number,
            rows,
            scan_rows,
            block_size,
            bytes: Some(rows * block_size),
            index_bytes: Some(0),
            ..LoadedSchema::default()
        }
    }
}

/// Blocks of one schema.
struct RowFile {
    file: File,
    header: Header,
    order: Permutation,
}

impl RowFile {
    fn new(file: File, header: Header) -> Self {
        Self { file, header, order: Permutation::new(header.rows.max(1), header.seed) }
    }

    /// Key of the row in a block of the main table, from 0.
    fn key_at(&self, block: u64) -> u64 {
        1 + if self.header.seed == IN_ORDER { block } else { self.order.invert(block) }
    }

    /// Offset of a block of the main table.
    fn offset_of(&self, block: u64) -> u64 {
        (1 + self.header.scan_rows + block) * self.header.block_size
    }

    fn offset_of_key(&self, key: u64) -> u64 {
        let block = key - 1;
        self.offset_of(if self.header.seed == IN_ORDER { block } else { self.order.apply(block) })
    }

    fn block(&self, key: u64, stamp: u64, text: &mut UpdateText) -> Vec<u8> {
        let width = column_bytes(self.header.block_size as u32);
        let row = text.make(Filler::Constant, stamp, width, COLUMNS);
        let mut block = [key.to_le_bytes().as_slice(), row.as_bytes()].concat();
        block.resize(self.header.block_size as usize, 0);
        block
    }

    /// Reads one block; returns whether a row is in it.
    fn has_row(&self, offset: u64, block: &mut [u8]) -> io::Result<bool> {
        self.file.read_exact_at(block, offset)?;
        Ok(block[..KEY_BYTES] != DELETED.to_le_bytes())
    }

    /// Counts the rows that exist.
    fn count(&self, offsets: impl Iterator<Item = u64>) -> io::Result<u64> {
        let mut block = vec![0; self.header.block_size as usize];
        let mut rows = 0;
        for offset in offsets {
            rows += u64::from(self.has_row(offset, &mut block)?);
        }
        Ok(rows)
    }

    /// Writes rows with a new stamp; returns their number.
    fn write(&self, keys: [u64; 2], stamp: u64, text: &mut UpdateText) -> io::Result<u64> {
        let mut block = vec![0; self.header.block_size as usize];
        let mut updated = 0;
        for key in keys[0]..=keys[1] {
            let offset = self.offset_of_key(key);
            if self.has_row(offset, &mut block)? {
                self.file.write_all_at(&self.block(key, stamp, text), offset)?;
                updated += 1;
            }
        }
        Ok(updated)
    }

    fn placement(&self) -> io::Result<Placement> {
        let all = self.header.rows;
        let rows = self.count((0..all).map(|block| self.offset_of(block)))?;
        Ok(Placement { overflow_blocks: Some(all - rows), ..placement_of(rows) })
    }
}

/// Rows and log of one schema.
pub struct SchemaFile {
    rows: RowFile,
    log: Arc<File>,
    text: UpdateText,
}

impl SchemaFile {
    /// Counts the rows that exist.
    pub fn select(&self, first: u64, rows: u32) -> io::Result<u64> {
        self.rows.count((first..first + u64::from(rows)).map(|key| self.rows.offset_of_key(key)))
    }

    /// Reads the scan table; returns its rows.
    pub fn scan(&self) -> io::Result<u64> {
        let block_size = self.rows.header.block_size;
        let blocks = 1..=self.rows.header.scan_rows;
        self.rows.count(blocks.map(|block| block * block_size))
    }

    /// Takes the lock of writers; `None` while another session has it.
    pub fn lock(&self) -> io::Result<Option<FileLock>> {
        match FileLock::on(Arc::clone(&self.log)) {
            Ok(lock) => Ok(Some(lock)),
            Err(LockRefused::Held) => Ok(None),
            Err(LockRefused::Failed(error)) => Err(error),
        }
    }

    /// Gives the rows a stamp, first in the log; returns the number of updated rows.
    pub fn update(
        &mut self,
        first: u64,
        rows: u32,
        stamp: u64,
        is_synced: bool,
    ) -> io::Result<u64> {
        let record = [stamp, first, u64::from(rows)].map(u64::to_le_bytes);
        (&*self.log).write_all(record.as_flattened())?;
        if is_synced {
            self.log.sync_data()?;
        }
        self.rows.write([first, first + u64::from(rows) - 1], stamp, &mut self.text)
    }

    /// Repeats the log's UPDATEs, syncs the rows and empties the log. Returns the number of UPDATEs.
    fn empty_log(&mut self) -> io::Result<usize> {
        let mut records = Vec::new();
        (&*self.log).read_to_end(&mut records)?;
        let (records, _) = records.as_chunks::<RECORD_BYTES>();
        for record in records {
            let (fields, _) = record.as_chunks::<8>();
            let [stamp, first, rows] = [0, 1, 2].map(|at| u64::from_le_bytes(fields[at]));
            self.rows.write([first, first + rows - 1], stamp, &mut self.text)?;
        }
        self.rows.file.sync_all()?;
        self.log.set_len(0)?;
        Ok(records.len())
    }
}

impl RowReader for SchemaFile {
    /// No run on it has a ledger.
    fn load(&self) -> &str {
        ""
    }

    fn rows(&self) -> u64 {
        self.rows.header.rows
    }

    fn read(&mut self, first: u64, last: u64, found: &mut Vec<FoundRow>) -> Result<()> {
        let width = column_bytes(self.rows.header.block_size as u32);
        let mut block = vec![0; self.rows.header.block_size as usize];
        for key in first..=last {
            let has_row = self.rows.has_row(self.rows.offset_of_key(key), &mut block);
            if has_row.map_err(|error| EngineError::Data(error.to_string()))? {
                let columns = block[KEY_BYTES..].chunks(width).take(COLUMNS).map(Some);
                found.push(found_row(key, columns, width, Filler::Constant));
            }
        }
        Ok(())
    }
}

/// Placement of one row in each block, as in the script.
pub fn placement_of(rows: u64) -> Placement {
    Placement {
        rows,
        blocks: rows,
        rows_per_block_max: 1,
        overflow_blocks: Some(0),
        source: "script",
    }
}

/// Returns a schema that exists without a file.
pub fn schema_of(number: u32, rows: u64) -> LoadedSchema {
    let block_size = u64::from(support::SCRIPTED.block_size_default);
    Header { rows, scan_rows: 0, block_size, seed: 0 }.describe(number)
}
