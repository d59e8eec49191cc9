//! Loading: each schema goes into a file next to its final name and is proved. All are renamed at
//! the end.

use std::time::Instant;

use heed::types::Bytes;
use heed::{CommitOrAbort, Env, EnvFlags, MdbError, PutFlags};
use rustix::fs::Advice;

use super::database::{Blocks, Key, LmdbFolder, TablePages, failed, table_pages};
use super::files::LmdbFormat;
use super::layout::{self, MAIN, SCAN};
use super::map;
use petal_engine::file_set::{FileFormat as _, LoadingFile, refuse_foreign_side};
use petal_engine::keyed::folder::KeyedFormat as _;
use petal_engine::keyed::load::prove;
use petal_engine::keyed::meta::KeyedMeta;
use petal_engine::keyed::rows::RowMaker;
use petal_engine::server::loader::{Load, LoadState, ProvedSchema};
use petal_engine::{LoadPlan, LoadSummary, Result};

/// Rows between two looks at the stop flag.
const ROWS_PER_STEP: u64 = 256;
/// Rows in a commit, which it keeps in memory.
pub const ROWS_PER_COMMIT: u64 = 8192;

/// A load under way.
pub struct Loader<'a> {
    pub folder: &'a LmdbFolder,
    /// Runs take visited pages out of the page cache: loaded pages need not stay in it.
    pub keeps_pages: bool,
    pub load: Load<'a>,
}

/// Bytes that the rows of one schema take, with the pages above them.
fn schema_bytes(plan: &LoadPlan) -> u64 {
    let rows = plan.rows + plan.scan_rows;
    rows.saturating_mul(u64::from(plan.block_size) + 64).saturating_add(1 << 20)
}

impl Loader<'_> {
    pub fn run(&self) -> Result<LoadSummary> {
        let schemas = self.load.plan.schemas.len() as u64;
        let needed_bytes = schema_bytes(self.load.plan).saturating_mul(schemas);
        self.folder.load(self.load, needed_bytes, &|file, state| self.load_schema(file, state))
    }

    fn load_schema(
        &self,
        file: &LoadingFile<'_, LmdbFormat>,
        state: &LoadState<'_>,
    ) -> Result<ProvedSchema> {
        let begin = Instant::now();
        let (plan, path) = (self.load.plan, &file.path);
        let map_bytes = layout::map_bytes(schema_bytes(plan));
        let filling = || {
            let environment = map::open(path, map_bytes, EnvFlags::NO_SYNC)?;
            map::refuse_other(&environment, &file.file)?;
            LmdbFormat::NOTES.mark(&file.file)?;
            let filled = Filling { load: self.load, schema: file.schema, state }.run(&environment);
            environment.prepare_for_closing().wait();
            filled
        };
        file.check()?;
        refuse_foreign_side(LmdbFormat, path)?;
        let filled = filling();
        let (main, scan) = match filled {
            Ok(filled) => filled,
            Err(error) => {
                state.go_on()?;
                return Err(failed(path, "writing rows", &error));
            }
        };
        state.go_on()?;
        let meta = KeyedMeta {
            branch_pages: main.tree,
            main_bytes: main.bytes(),
            scan_bytes: scan.bytes(),
            ..KeyedMeta::of_plan(plan, file.schema)
        };
        let summary = prove(file, plan, &meta, main.into(), begin)?;
        let durable = Instant::now();
        LmdbFormat.remove_sides(path)?;
        if !self.keeps_pages {
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
    /// Both tables' pages. A stop ends it early.
    fn run(&self, environment: &Env) -> heed::Result<(TablePages, TablePages)> {
        let plan = self.load.plan;
        let main = self.fill(environment, MAIN, plan.rows)?;
        let scan = self.fill(environment, SCAN, plan.scan_rows)?;
        Ok((table_pages(environment, main)?, table_pages(environment, scan)?))
    }

    /// Inserts rows in the order of their blocks.
    fn fill(&self, environment: &Env, table: &str, rows: u64) -> heed::Result<Blocks> {
        let plan = self.load.plan;
        let width = layout::column_bytes(plan.block_size);
        let mut maker = RowMaker::new(plan, self.schema, rows, width);
        let created = environment.create_databases_and_commit(
            environment.write_txn()?,
            |opener, change| {
                let blocks = opener.create_database::<Key, Bytes>(change, Some(table))?;
                Ok::<_, heed::Error>(CommitOrAbort::<_, ()>::Commit(blocks))
            },
        )?;
        let blocks = created.commit().ok_or(heed::Error::Mdb(MdbError::BadTxn))?;
        let mut from = 0;
        while from < rows {
            let to = (from + ROWS_PER_COMMIT).min(rows);
            let mut change = environment.write_txn()?;
            for block in from..to {
                if block % ROWS_PER_STEP == 0 && self.state.is_over() {
                    return Ok(blocks);
                }
                blocks.put_with_flags(
                    &mut change,
                    PutFlags::APPEND,
                    &block,
                    maker.row_of(block),
                )?;
                self.load.progress.advance(u64::from(plan.block_size));
            }
            change.commit()?;
            from = to;
        }
        Ok(blocks)
    }
}
