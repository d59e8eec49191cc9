//! Loading: each schema goes into its folder and is proved. All files with petal's mark are
//! renamed at the end.

use std::time::Instant;

use super::database::{RocksdbFolder, TableBlocks, failed};
use super::files::{RocksdbFormat, folder_of};
use super::layout::{self, DatabaseOptions};
use super::library::{ColumnFamily, CompactedFiles, NativeDatabase};
use petal_engine::file_set::LoadingFile;
use petal_engine::keyed::folder::KeyedFormat as _;
use petal_engine::keyed::load::prove;
use petal_engine::keyed::meta::KeyedMeta;
use petal_engine::keyed::rows::RowMaker;
use petal_engine::on_path::OnPath as _;
use petal_engine::server::loader::{Load, LoadState, ProvedSchema};
use petal_engine::{LoadSummary, Result};

/// Rows that are written together, and between two looks at the stop flag.
const ROWS_PER_BATCH: u64 = 256;

/// A load under way.
pub struct Loader<'a> {
    pub folder: &'a RocksdbFolder,
    pub direct: bool,
    pub load: Load<'a>,
}

impl Loader<'_> {
    pub fn run(&self) -> Result<LoadSummary> {
        self.folder
            .load(self.load, self.bytes_needed(), &|file, state| self.load_schema(file, state))
    }

    /// Files are merged into new ones at the end of a schema's load.
    fn bytes_needed(&self) -> u64 {
        let plan = self.load.plan;
        let rows = plan.rows + plan.scan_rows;
        let bytes = rows.saturating_mul(u64::from(plan.block_size) + 64);
        bytes.saturating_mul(plan.schemas.len() as u64 + plan.loaders() as u64)
    }

    fn load_schema(
        &self,
        file: &LoadingFile<'_, RocksdbFormat>,
        state: &LoadState<'_>,
    ) -> Result<ProvedSchema> {
        let begin = Instant::now();
        let (plan, path) = (self.load.plan, &file.path);
        let meta = KeyedMeta::of_plan(plan, file.schema);
        // A load that is cut off is known by it, with its folder.
        meta.write(RocksdbFormat::NOTES, &file.file, plan)
            .and_then(|()| file.file.sync_all())
            .on(path)?;
        let folder = folder_of(path, &meta.about.load);
        let filled = self.fill_all(&folder, file.schema, state);
        state.go_on()?;
        let [main, scan] = filled.map_err(|why| failed(path, "writing rows", &why))?;
        let durable = Instant::now();
        let meta = KeyedMeta { main_bytes: main.bytes, scan_bytes: scan.bytes, ..meta };
        let summary = prove(file, plan, &meta, main.into(), begin)?;
        Ok(ProvedSchema { summary, durable: Some(durable) })
    }

    /// Both tables' blocks. A stop ends it early.
    fn fill_all(
        &self,
        folder: &std::path::Path,
        schema: u32,
        state: &LoadState<'_>,
    ) -> Result<[TableBlocks; 2], String> {
        let plan = self.load.plan;
        let options = DatabaseOptions {
            block_bytes: plan.block_size,
            cache_bytes: layout::CACHE_BYTES,
            direct: self.direct,
            is_load: true,
        };
        let database = NativeDatabase::open(folder, &options.text(), true)?;
        for (table, rows) in [(ColumnFamily::Main, plan.rows), (ColumnFamily::Scan, plan.scan_rows)]
        {
            self.fill(&database, schema, table, rows, state)?;
            if state.is_over() {
                return Err("it was stopped".to_owned());
            }
            database.flush(table)?;
            database.compact(table, CompactedFiles::All);
        }
        Ok([
            TableBlocks::of(&database, ColumnFamily::Main)?,
            TableBlocks::of(&database, ColumnFamily::Scan)?,
        ])
    }

    /// Writes rows in the order of their blocks.
    fn fill(
        &self,
        database: &NativeDatabase,
        schema: u32,
        table: ColumnFamily,
        rows: u64,
        state: &LoadState<'_>,
    ) -> Result<(), String> {
        let plan = self.load.plan;
        let mut maker = RowMaker::new(plan, schema, rows, layout::column_bytes(plan.block_size));
        let mut changes = database.changes();
        let mut from = 0;
        while from < rows && !state.is_over() {
            let to = (from + ROWS_PER_BATCH).min(rows);
            (from..to).for_each(|block| changes.put(table, block, maker.row_of(block)));
            changes.commit()?;
            self.load.progress.advance((to - from) * u64::from(plan.block_size));
            from = to;
        }
        Ok(())
    }
}
