//! Rows of the scripted engine: a file for each schema with eight bytes for each row, the stamp of
//! its last UPDATE. Rows do not really fill blocks; the reported block size is nominal.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::time::Duration;

use petal_engine::file_set::{FileFormat, FileOwner, FileSet, LoadingFile};
use petal_engine::on_path::OnPath as _;
use petal_engine::server::loader::{self, Load, LoadState, ProvedSchema};
use petal_engine::{EngineError, LoadSummary, LoadedSchemaSummary, Placement, Result};
use petal_model::settings::table::{EngineSupport, support};
use petal_model::stats::target::LoadedSchema;

/// Beginning of a schema file, followed by the rows of the scan table and the size of a block.
const MARK: &[u8; 16] = b"petal, scripted\n";
const HEADER_BYTES: u64 = 32;
const ROW_BYTES: u64 = 8;
/// Stamp of a deleted row.
const DELETED: u64 = u64::MAX;
/// Number of rows between two checks for a stop.
const ROWS_PER_STEP: u64 = 100;

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
}

pub fn loaded(folder: &SchemaFolder) -> Result<Vec<LoadedSchema>> {
    let files = folder.complete()?.into_iter();
    let described =
        files.map(|file| open(folder, file.schema)?.describe(file.schema).on(&file.path));
    described.filter_map(Result::transpose).collect()
}

pub fn open(folder: &SchemaFolder, schema: u32) -> Result<SchemaFile> {
    let path = folder.loaded_file(schema)?;
    OpenOptions::new().read(true).write(true).open(&path).on(&path).map(SchemaFile)
}

/// Loads the plan's schemas; each row takes `row_time`.
pub fn load(folder: &SchemaFolder, load: Load<'_>, row_time: Duration) -> Result<LoadSummary> {
    let bytes = load.plan.rows * ROW_BYTES * load.plan.schemas.len() as u64;
    folder.load(load, bytes, &|file, state| {
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
    let sizes = [plan.scan_rows, u64::from(plan.block_size)].map(u64::to_le_bytes);
    to.file.write_all_at(&[MARK.as_slice(), sizes.as_flattened()].concat(), 0).on(path)?;
    for first in (0..plan.rows).step_by(ROWS_PER_STEP as usize) {
        state.go_on()?;
        let rows = ROWS_PER_STEP.min(plan.rows - first);
        std::thread::sleep(row_time * rows as u32);
        to.file.set_len(HEADER_BYTES + (first + rows) * ROW_BYTES).on(path)?;
        load.progress.advance(rows * u64::from(plan.block_size));
    }
    let made = SchemaFile(to.file.try_clone().on(path)?);
    let otherwise = "load it again (petal setup --replace)";
    let placement = made.placement().on(path)?;
    let placement = loader::prove(path.display(), "the file", placement, plan.rows, otherwise)?;
    let missing = || EngineError::Data(format!("{}: it lost petal's mark", path.display()));
    let schema = made.describe(to.schema).on(path)?.ok_or_else(missing)?;
    let scan_bytes = Some(plan.scan_rows * u64::from(plan.block_size));
    Ok(LoadedSchemaSummary { schema, scan_bytes, seconds: 0.0, placement })
}

/// Rows of one schema.
pub struct SchemaFile(File);

impl SchemaFile {
    fn rows(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len().saturating_sub(HEADER_BYTES) / ROW_BYTES)
    }

    /// Describes the loaded schema, or returns `None` without petal's mark.
    fn describe(&self, number: u32) -> io::Result<Option<LoadedSchema>> {
        let mut header = [0; HEADER_BYTES as usize];
        self.0.read_at(&mut header, 0)?;
        let Some(sizes) = header.strip_prefix(MARK.as_slice()) else { return Ok(None) };
        let (sizes, _) = sizes.as_chunks::<8>();
        let [scan_rows, block_size] = [0, 1].map(|at| u64::from_le_bytes(sizes[at]));
        let rows = self.rows()?;
        let bytes = Some(rows * block_size);
        Ok(Some(LoadedSchema {
            number,
            rows,
            scan_rows,
            block_size,
            bytes,
            index_bytes: Some(0),
            ..LoadedSchema::default()
        }))
    }

    pub fn scan_rows(&self) -> io::Result<u64> {
        Ok(self.describe(0)?.map_or(0, |schema| schema.scan_rows))
    }

    /// Reads the stamps of rows by their keys, from 1.
    fn stamps(&self, first: u64, rows: u32) -> io::Result<Vec<[u8; 8]>> {
        let mut bytes = vec![0; rows as usize * ROW_BYTES as usize];
        let read = self.0.read_at(&mut bytes, HEADER_BYTES + (first - 1) * ROW_BYTES)?;
        Ok(bytes[..read].as_chunks::<8>().0.to_vec())
    }

    /// Counts the rows that exist.
    pub fn select(&self, first: u64, rows: u32) -> io::Result<u64> {
        let stamps = self.stamps(first, rows)?;
        Ok(stamps.iter().filter(|stamp| u64::from_le_bytes(**stamp) != DELETED).count() as u64)
    }

    /// Gives the rows a stamp; returns the number of updated rows.
    pub fn update(&self, first: u64, rows: u32, stamp: u64) -> io::Result<u64> {
        let mut stamps = self.stamps(first, rows)?;
        let mut updated = 0;
        for row in stamps.iter_mut().filter(|row| u64::from_le_bytes(**row) != DELETED) {
            *row = stamp.to_le_bytes();
            updated += 1;
        }
        self.0.write_all_at(stamps.as_flattened(), HEADER_BYTES + (first - 1) * ROW_BYTES)?;
        Ok(updated)
    }

    pub fn placement(&self) -> io::Result<Placement> {
        Ok(placement_of(self.rows()?))
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
    let bytes = Some(rows * block_size);
    let index_bytes = Some(0);
    LoadedSchema { number, rows, block_size, bytes, index_bytes, ..LoadedSchema::default() }
}
