//! Loading: each schema goes into a file next to its final name and is proved. All are renamed at
//! the end.

use std::sync::Arc;
use std::time::Instant;

use redb::{Builder, Database};
use rustix::fs::Advice;

use super::database::{Answer, RedbFolder, RedbStorage, TablePages, failed, table_pages};
use super::files::RedbFormat;
use super::layout::{self, Blocks, MAIN, SCAN};
use petal_engine::file_set::LoadingFile;
use petal_engine::keyed::load::prove;
use petal_engine::keyed::meta::KeyedMeta;
use petal_engine::keyed::rows::RowMaker;
use petal_engine::on_path::OnPath as _;
use petal_engine::server::loader::{Load, LoadState, ProvedSchema};
use petal_engine::{LoadSummary, Result};

/// Rows between two looks at the stop flag.
const ROWS_PER_STEP: u64 = 256;
/// Rows in a commit: it writes them and waits for the disk.
const ROWS_PER_COMMIT: u64 = 8192;
/// Half of it holds pages that are not written yet.
const CACHE_BYTES: usize = 32 << 20;

/// A load under way.
pub struct Loader<'a> {
    pub folder: &'a RedbFolder,
    /// Runs will go past the page cache: loaded pages need not stay in it.
    pub direct: bool,
    pub load: Load<'a>,
}

impl Loader<'_> {
    pub fn run(&self) -> Result<LoadSummary> {
        self.folder
            .load(self.load, self.bytes_needed(), &|file, state| self.load_schema(file, state))
    }

    /// redb makes a file half as long again when it is full.
    fn bytes_needed(&self) -> u64 {
        let plan = self.load.plan;
        let rows = plan.rows + plan.scan_rows;
        let bytes = rows.saturating_mul(u64::from(plan.block_size) + 128);
        (bytes / 2).saturating_mul(3).saturating_mul(plan.schemas.len() as u64)
    }

    fn load_schema(
        &self,
        file: &LoadingFile<'_, RedbFormat>,
        state: &LoadState<'_>,
    ) -> Result<ProvedSchema> {
        let begin = Instant::now();
        let (plan, path) = (self.load.plan, &file.path);
        let filling = Filling { load: self.load, schema: file.schema, state };
        let storage = RedbStorage::of_load(Arc::new(file.file.try_clone().on(path)?));
        let filled = Builder::new()
            .set_cache_size(CACHE_BYTES)
            .create_with_backend(storage)
            .map_err(redb::Error::from)
            .and_then(|database| filling.run(database));
        let (main, scan, durable) = match filled {
            Ok(filled) => filled,
            Err(error) => {
                state.go_on()?;
                return Err(failed(path, "writing rows", &error));
            }
        };
        state.go_on()?;
        let meta = KeyedMeta {
            branch_pages: main.branches,
            main_bytes: main.bytes,
            scan_bytes: scan.bytes,
            ..KeyedMeta::of_plan(plan, file.schema)
        };
        let summary = prove(file, plan, &meta, main.into(), begin)?;
        if self.direct {
            // An advice: where it is not taken, the pages stay a while.
            let _ = rustix::fs::fadvise(&file.file, 0, None, Advice::DontNeed);
        }
        Ok(ProvedSchema { summary, durable: Some(durable) })
    }
}

/// A file that is being filled.
struct Filling<'a> {
    load: Load<'a>,
    schema: u32,
    state: &'a LoadState<'a>,
}

impl Filling<'_> {
    /// Both tables' pages, and when they were durable. A stop ends it early.
    fn run(self, database: Database) -> Answer<(TablePages, TablePages, Instant)> {
        let plan = self.load.plan;
        self.fill(&database, MAIN, plan.rows)?;
        self.fill(&database, SCAN, plan.scan_rows)?;
        let durable = Instant::now();
        let pages = [MAIN, SCAN].map(|table| table_pages(&database, table));
        database.close()?;
        let [main, scan] = pages;
        Ok((main?, scan?, durable))
    }

    /// Inserts rows in the order of their blocks.
    fn fill(&self, database: &Database, table: Blocks, rows: u64) -> Answer<()> {
        let plan = self.load.plan;
        let width = layout::column_bytes(plan.block_size);
        let mut maker = RowMaker::new(plan, self.schema, rows, width);
        let mut from = 0;
        loop {
            let to = (from + ROWS_PER_COMMIT).min(rows);
            let change = database.begin_write()?;
            let mut blocks = change.open_table(table)?;
            for block in from..to {
                if block % ROWS_PER_STEP == 0 && self.state.is_over() {
                    return Ok(());
                }
                blocks.insert(block, maker.row_of(block))?;
                self.load.progress.advance(u64::from(plan.block_size));
            }
            drop(blocks);
            change.commit()?;
            from = to;
            if from == rows {
                return Ok(());
            }
        }
    }
}
