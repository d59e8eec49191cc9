//! Loading: each schema goes into a file next to its final name and is proved. All are renamed at
//! the end: a load that is cut off leaves `.loading` files, which nobody takes for data.

use std::path::{Path, PathBuf};
use std::time::Instant;

use rusqlite::Connection;

use super::connection::{Access, AtFile, open};
use super::direct;
use super::files::{self, SqliteFormat, TargetFolder};
use super::io::IoContext;
use super::layout;
use super::meta::FileMeta;
use super::placement::count_pages;
use petal_engine::file_set::{FileFormat as _, LoadingFile};
use petal_engine::on_path::OnPath;
use petal_engine::server::loader::{self, Load, LoadState, ProvedSchema};
use petal_engine::server::meta_table::SchemaMeta;
use petal_engine::{EngineError, LoadPlan, LoadSummary, LoadedSchemaSummary, Placement, Result};
use petal_workload::row::{COLUMNS, load_stamp};
use petal_workload::scatter::Permutation;

/// Rows between two looks at the stop flag.
const ROWS_PER_STEP: u64 = 256;
/// Rows in a commit, which writes the rest of the cache; without a journal its size matters little.
const ROWS_PER_COMMIT: u64 = 4096;
/// Rows go through it once: a small one stays in the processor's own.
const CACHE_KIB: i64 = 1 << 10;
/// Index entries that SQLite sorts in memory before it uses a temporary file.
const SORT_KIB: i64 = 64 << 10;
/// Steps of SQLite's virtual machine between two looks at the stop flag in long statements.
const STEPS_PER_LOOK: i32 = 100_000;

/// Returns the bytes of a schema: a page per row, interior pages, and an index of under 24 bytes a
/// row with pages' slack.
fn schema_bytes(plan: &LoadPlan) -> u64 {
    let block = u64::from(plan.block_size);
    let rows = plan.rows.saturating_add(plan.scan_rows);
    let table = rows.saturating_mul(block);
    table.saturating_add(table / 256).saturating_add(plan.rows.saturating_mul(24) + 16 * block)
}

/// Returns the memory of a loader. Its cache is largest while it makes the index, and holds no more
/// than the schema.
pub fn loader_bytes(plan: &LoadPlan) -> u64 {
    schema_bytes(plan).min(SORT_KIB.unsigned_abs() << 10)
}

/// A load under way.
pub struct Loader<'a> {
    pub folder: &'a TargetFolder,
    /// Runs will go past the page cache: loaded pages need not stay in it.
    pub direct: bool,
    pub load: Load<'a>,
}

impl Loader<'_> {
    pub fn run(&self) -> Result<LoadSummary> {
        self.folder
            .load(self.load, self.bytes_needed(), &|file, state| self.load_schema(file, state))
    }

    fn bytes_needed(&self) -> u64 {
        schema_bytes(self.load.plan).saturating_mul(self.load.plan.schemas.len() as u64)
    }

    fn load_schema(
        &self,
        file: &LoadingFile<'_, SqliteFormat>,
        state: &LoadState<'_>,
    ) -> Result<ProvedSchema> {
        let begin = Instant::now();
        let (schema, path) = (file.schema, &file.path);
        let context = IoContext { gathers: true, ..IoContext::default() };
        let (meta, placement, durable) = context.during(|| {
            let mut connection = open(path, Access::Create, &context)?;
            file.check()?;
            connection
                .progress_handler(STEPS_PER_LOOK, Some(state.watcher()))
                .at(path, "setting up the load")?;
            let filling = Filling { loader: self, schema, path, connection: &connection, state };
            let filled = filling.run()?;
            drop(connection);
            set_wal_mode(path, &context)?;
            Ok::<_, EngineError>(filled)
        })?;
        sync(path)?;
        if self.direct {
            files::leave_page_cache(path);
        }
        let summary = LoadedSchemaSummary {
            schema: meta.loaded(),
            scan_bytes: Some(meta.scan_pages * meta.block_bytes()),
            seconds: begin.elapsed().as_secs_f64(),
            placement,
        };
        Ok(ProvedSchema { summary, durable: Some(durable) })
    }
}

fn sync(path: &Path) -> Result<()> {
    direct::buffered(path).on(path)?.sync_all().on(path)
}

/// The mode stays in the file's header.
fn set_wal_mode(path: &Path, context: &IoContext) -> Result<()> {
    let connection = open(path, Access::Write, context)?;
    let mode: String = connection
        .query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0))
        .at(path, "changing to WAL mode")?;
    drop(connection);
    if mode != "wal" {
        return Err(EngineError::Environment(format!(
            "{}: SQLite cannot use WAL mode there (it stays in {mode}), most likely because the \
             file system has no shared memory maps, as network file systems; use another folder",
            path.display()
        )));
    }
    SqliteFormat.remove_sides(path)
}

/// A file that is being filled.
struct Filling<'a> {
    loader: &'a Loader<'a>,
    schema: u32,
    path: &'a PathBuf,
    connection: &'a Connection,
    state: &'a LoadState<'a>,
}

impl Filling<'_> {
    /// Rows and index, when they were durable, and the proof.
    fn run(&self) -> Result<(FileMeta, Placement, Instant)> {
        let plan = self.loader.load.plan;
        self.batch("creating the tables", &self.set_up())?;
        let permutation = Permutation::new(plan.rows.max(1), plan.seed);
        self.fill("cf1", plan.rows, &permutation)?;
        if plan.scan_rows > 0 {
            self.fill("cf2", plan.scan_rows, &Permutation::new(plan.scan_rows, plan.seed))?;
        }
        let index = layout::create_index(plan.unique_index);
        self.batch("creating the index", &format!("PRAGMA cache_size = -{SORT_KIB}; {index}"))?;
        sync(self.path)?;
        let durable = Instant::now();
        let main = count_pages(self.connection, self.path, "cf1")?;
        let otherwise = "please report this with the SQLite version";
        let place = self.path.display();
        let placement = loader::prove(place, "cf1", main.into(), plan.rows, otherwise)?;
        let meta = FileMeta {
            about: SchemaMeta { unique_index: None, ..SchemaMeta::of_plan(plan, self.schema) },
            interior_pages: main.interior,
            main_pages: main.all(),
            index_pages: count_pages(self.connection, self.path, "cf1_custid")?.all(),
            scan_pages: count_pages(self.connection, self.path, "cf2")?.all(),
        };
        meta.write(self.connection, plan).at(self.path, "writing petal_meta")?;
        Ok((meta, placement, durable))
    }

    /// The mark is in the file with the first commit.
    fn set_up(&self) -> String {
        format!(
            "PRAGMA page_size = {}; PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; \
             PRAGMA locking_mode = EXCLUSIVE; PRAGMA cache_size = -{CACHE_KIB}; \
             BEGIN; PRAGMA application_id = {}; {} COMMIT",
            self.loader.load.plan.block_size,
            layout::APPLICATION_ID,
            layout::create_tables()
        )
    }

    /// Inserts rows in rowid order: each append takes its own page.
    fn fill(&self, table: &str, rows: u64, keys: &Permutation) -> Result<()> {
        let bytes_per_row = u64::from(self.loader.load.plan.block_size);
        let mut from = 0;
        while from < rows {
            self.state.go_on()?;
            let to = (from + ROWS_PER_COMMIT).min(rows);
            self.batch("beginning a transaction", "BEGIN")?;
            let mut step = from;
            while step < to && !self.state.is_over() {
                let until = (step + ROWS_PER_STEP).min(to);
                self.insert(table, step..until, keys).at(self.path, "writing rows")?;
                self.loader.load.progress.advance((until - step) * bytes_per_row);
                step = until;
            }
            self.batch("writing rows", "COMMIT")?;
            from = step;
        }
        Ok(())
    }

    fn insert(
        &self,
        table: &str,
        rows: std::ops::Range<u64>,
        keys: &Permutation,
    ) -> rusqlite::Result<()> {
        let plan = self.loader.load.plan;
        let mut statement = self.connection.prepare_cached(&layout::insert(table))?;
        let mut text = vec![0u8; layout::column_bytes(plan.block_size)];
        for row in rows {
            let key = keys.apply(row) + 1;
            statement.raw_bind_parameter(1, key.cast_signed())?;
            for column in 0..COLUMNS {
                plan.filler.fill(&mut text, load_stamp(self.schema, key), column as u32 + 2);
                statement.raw_bind_parameter(column + 2, std::str::from_utf8(&text)?)?;
            }
            statement.raw_execute()?;
        }
        Ok(())
    }

    fn batch(&self, doing: &str, sql: &str) -> Result<()> {
        self.connection.execute_batch(sql).at(self.path, doing)
    }
}
