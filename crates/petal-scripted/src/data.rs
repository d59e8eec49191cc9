//! Rows of the scripted engine: a file for each schema with eight bytes for each row, the stamp of
//! its last UPDATE. Rows do not really fill blocks; the reported block size is nominal.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use petal_engine::server::loader::{self, LoadState, already_loaded, without_mark};
use petal_engine::{EngineError, LoadPlan, LoadedSchemaSummary, Placement, Progress, Result};
use petal_model::settings::table::support;
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
#[derive(Debug, Clone)]
pub struct SchemaFolder(pub PathBuf);

impl SchemaFolder {
    fn path(&self, schema: u32) -> PathBuf {
        self.0.join(format!("petal{schema}.rows"))
    }

    fn loading_path(&self, schema: u32) -> PathBuf {
        self.0.join(format!("petal{schema}.loading"))
    }

    pub fn failed(&self, error: &io::Error) -> EngineError {
        EngineError::Environment(format!("scripted: {}: {error}", self.0.display()))
    }

    /// Returns number and path of each file named `petalN` with this ending.
    fn files(&self, ending: &str) -> io::Result<Vec<(u32, PathBuf)>> {
        let entries = match fs::read_dir(&self.0) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries?,
        };
        let mut files = Vec::new();
        for entry in entries {
            let path = entry?.path();
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            let number = name.strip_prefix("petal").and_then(|name| name.strip_suffix(ending));
            if let Some(number) = number.and_then(|number| number.parse().ok()) {
                files.push((number, path));
            }
        }
        files.sort();
        Ok(files)
    }

    pub fn loaded(&self) -> io::Result<Vec<LoadedSchema>> {
        let files = self.files(".rows")?.into_iter();
        let schemas = files.map(|(number, path)| SchemaFile::open(&path)?.describe(number));
        schemas.filter_map(Result::transpose).collect()
    }

    pub fn open(&self, schema: u32) -> io::Result<SchemaFile> {
        SchemaFile::open(&self.path(schema))
    }

    /// Creates the folder, and refuses schema names that exist.
    pub fn prepare(&self, plan: &LoadPlan) -> Result<()> {
        fs::create_dir_all(&self.0).map_err(|error| self.failed(&error))?;
        for &schema in &plan.schemas {
            let path = self.path(schema);
            let Ok(file) = SchemaFile::open(&path) else { continue };
            let described = file.describe(schema).map_err(|error| self.failed(&error))?;
            if described.is_none() {
                return Err(without_mark(path.display(), "a file", "move it away"));
            }
            if !plan.replace {
                return Err(already_loaded(self.0.display(), schema));
            }
        }
        Ok(())
    }

    /// Loads one schema under its loading name; each row takes `row_time`.
    pub fn load(
        &self,
        schema: u32,
        plan: &LoadPlan,
        row_time: Duration,
        progress: &dyn Progress,
        state: &LoadState<'_>,
    ) -> Result<LoadedSchemaSummary> {
        let failed = |error: io::Error| self.failed(&error);
        let mut new = OpenOptions::new();
        new.read(true).write(true).create(true).truncate(true);
        let file = new.open(self.loading_path(schema)).map_err(failed)?;
        let sizes = [plan.scan_rows, u64::from(plan.block_size)].map(u64::to_le_bytes);
        file.write_all_at(&[MARK.as_slice(), sizes.as_flattened()].concat(), 0).map_err(failed)?;
        for first in (0..plan.rows).step_by(ROWS_PER_STEP as usize) {
            state.go_on()?;
            let rows = ROWS_PER_STEP.min(plan.rows - first);
            std::thread::sleep(row_time * rows as u32);
            file.set_len(HEADER_BYTES + (first + rows) * ROW_BYTES).map_err(failed)?;
            progress.advance(rows * u64::from(plan.block_size));
        }
        let loaded = SchemaFile(file);
        let placement = loaded.placement().map_err(failed)?;
        let placement = loader::prove(
            self.0.display(),
            "the file",
            placement,
            plan.rows,
            "load it again (petal setup --replace)",
        )?;
        let missing = || self.failed(&io::ErrorKind::InvalidData.into());
        let schema = loaded.describe(schema).map_err(failed)?.ok_or_else(missing)?;
        let scan_bytes = plan.scan_rows * u64::from(plan.block_size);
        Ok(LoadedSchemaSummary { schema, scan_bytes, seconds: 0.0, placement })
    }

    /// Gives loaded schemas their final names.
    pub fn name(&self, schemas: &[u32]) -> Result<()> {
        for &schema in schemas {
            let renamed = fs::rename(self.loading_path(schema), self.path(schema));
            renamed.map_err(|error| self.failed(&error))?;
        }
        Ok(())
    }

    /// Removes the files of interrupted loads.
    pub fn clean_up(&self) {
        for (_, path) in self.files(".loading").unwrap_or_default() {
            // A failure is ignored: the next load overwrites the file.
            let _ = fs::remove_file(path);
        }
    }

    /// Removes every schema; returns their names.
    pub fn drop_data(&self) -> Result<Vec<String>> {
        let failed = |error: io::Error| self.failed(&error);
        self.clean_up();
        let mut dropped = Vec::new();
        for schema in self.loaded().map_err(failed)? {
            let path = self.path(schema.number);
            fs::remove_file(&path).map_err(failed)?;
            dropped.push(path.display().to_string());
        }
        Ok(dropped)
    }
}

/// Rows of one schema.
pub struct SchemaFile(File);

impl SchemaFile {
    fn open(path: &Path) -> io::Result<Self> {
        OpenOptions::new().read(true).write(true).open(path).map(Self)
    }

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
        let bytes = rows * block_size;
        Ok(Some(LoadedSchema {
            number,
            rows,
            scan_rows,
            block_size,
            bytes,
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
    let bytes = rows * block_size;
    LoadedSchema { number, rows, block_size, bytes, ..LoadedSchema::default() }
}
