//! Loading: each schema into a file of its own beside the final name, proved, then renamed. Until
//! the last schema is proved nothing has its final name, so that a load that is cut off leaves
//! only `.loading` files, which nobody takes for data.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use rusqlite::Connection;

use super::connection::{Access, engine_error, open};
use super::direct;
use super::files::{self, Folder, Header};
use super::io::{Context, Role, Statistics};
use super::layout;
use super::meta::Meta;
use super::placement::{Pages, count_pages};
use crate::engine::file_lock::FileLock;
use crate::engine::loaders::load_each;
use crate::engine::{
    EngineError, LoadPlan, LoadSummary, LoadedSchemaSummary, Placement, Progress, ProgressUnit,
    Stop,
};
use crate::settings::table::support;
use crate::workload::row::{COLUMNS, load_stamp};
use crate::workload::scatter::Permutation;

/// Rows between two looks at the stop flag.
const ROWS_PER_STEP: u64 = 256;
/// A commit writes what the cache still holds; without a journal its size is of no matter else.
const ROWS_PER_COMMIT: u64 = 4096;
const CACHE_KIB: i64 = 16 << 10;
/// While the index is made: entries sorted in memory before SQLite uses a temporary file.
const SORT_KIB: i64 = 64 << 10;
/// Steps of SQLite's virtual machine between two looks at the stop flag in long statements.
const STEPS_PER_LOOK: i32 = 100_000;

/// One load under way.
pub struct Loader<'a> {
    pub folder: &'a Folder,
    pub plan: &'a LoadPlan,
    pub statistics: &'a Arc<Statistics>,
    /// Runs will go past the page cache: loaded pages need not stay in it.
    pub direct: bool,
    pub progress: &'a dyn Progress,
    pub stop: &'a Stop,
}

/// A schema that is complete under its `.loading` name.
struct Complete {
    meta: Meta,
    placement: Placement,
    seconds: f64,
}

impl Loader<'_> {
    pub fn run(&self) -> Result<LoadSummary, EngineError> {
        let begin = Instant::now();
        self.check_plan()?;
        self.folder.create()?;
        let _alone = self.folder.lock()?;
        self.check_names()?;
        let _locks = self.lock_replaced()?;
        self.folder.check_room(self.bytes_needed())?;
        let complete = self.load_all().and_then(|complete| {
            self.give_final_names()?;
            Ok(complete)
        });
        let complete = complete.inspect_err(|_| self.clean_up())?;
        Ok(LoadSummary {
            schemas: complete.into_iter().map(|schema| summary(&schema)).collect(),
            seconds: begin.elapsed().as_secs_f64(),
            ..LoadSummary::default()
        })
    }

    fn check_plan(&self) -> Result<(), EngineError> {
        let plan = self.plan;
        if support::SQLITE.block_sizes.contains(&plan.block_size) {
            return Ok(());
        }
        Err(EngineError::Setting(format!(
            "BLOCK_SZ={}: SQLite files are loaded with 4K, 8K, 16K or 32K; choose one of them",
            plan.block_size
        )))
    }

    /// Nothing of somebody else's may stand where a schema goes, and nothing of petal's unless
    /// it is to be replaced.
    fn check_names(&self) -> Result<(), EngineError> {
        let foreign = files::remove_leftovers(self.folder)?;
        for &schema in &self.plan.schemas {
            let loading = self.folder.loading(schema);
            if foreign.contains(&loading) {
                return Err(foreign_file(&loading));
            }
            let path = self.folder.database(schema);
            if !path.exists() {
                continue;
            }
            match files::header(&path)? {
                Header::Petal { .. } if self.plan.replace => {}
                Header::Petal { .. } => {
                    return Err(EngineError::Data(format!(
                        "{}: schema {schema} is loaded already; drop the data first (petal drop) \
                         or load over it (petal setup --replace)",
                        path.display()
                    )));
                }
                Header::Empty | Header::Foreign => return Err(foreign_file(&path)),
            }
        }
        Ok(())
    }

    /// No run uses what is to be replaced, nor begins to.
    fn lock_replaced(&self) -> Result<Vec<FileLock>, EngineError> {
        let paths = self.plan.schemas.iter().map(|&schema| self.folder.database(schema));
        let claims: Result<Vec<_>, _> =
            paths.filter(|path| path.exists()).map(|path| files::lock_file(&path)).collect();
        Ok(claims?.into_iter().flatten().collect())
    }

    /// A page for each row, interior pages, and the index at under 24 bytes a row with its pages'
    /// slack.
    fn bytes_needed(&self) -> u64 {
        let plan = self.plan;
        let block = u64::from(plan.block_size);
        let rows = plan.rows + plan.scan_rows;
        let table = rows.saturating_mul(block);
        let schema = table.saturating_add(table / 256).saturating_add(plan.rows * 24 + 16 * block);
        schema.saturating_mul(plan.schemas.len() as u64)
    }

    fn load_all(&self) -> Result<Vec<Complete>, EngineError> {
        let plan = self.plan;
        let rows = (plan.rows + plan.scan_rows) * plan.schemas.len() as u64;
        self.progress.phase("loading", rows * u64::from(plan.block_size), ProgressUnit::Bytes);
        let failed = Arc::new(AtomicBool::new(false));
        load_each(plan, &failed, |schema| self.load_schema(schema, &failed))
    }

    fn load_schema(&self, schema: u32, failed: &Arc<AtomicBool>) -> Result<Complete, EngineError> {
        let begin = Instant::now();
        let path = self.folder.loading(schema);
        let context =
            Context { recorder: Some(self.statistics.recorder(Role::Loader)), direct: false };
        let (meta, placement) = context.during(|| {
            let mut connection = open(&path, Access::Create, &context)?;
            let (stop, failed) = (self.stop.clone(), Arc::clone(failed));
            let is_over = move || stop.is_requested() || failed.load(Ordering::Relaxed);
            connection
                .progress_handler(STEPS_PER_LOOK, Some(is_over.clone()))
                .map_err(|error| engine_error("setting up the load", &path, &error))?;
            let filling =
                Filling { loader: self, schema, path: &path, connection: &connection, is_over };
            let (meta, placement) = filling.run()?;
            drop(connection);
            set_wal_mode(&path, &context)?;
            Ok::<_, EngineError>((meta, placement))
        })?;
        self.make_durable(&path)?;
        Ok(Complete { meta, placement, seconds: begin.elapsed().as_secs_f64() })
    }

    fn make_durable(&self, path: &Path) -> Result<(), EngineError> {
        let file = direct::buffered(path).map_err(|error| files::unusable(path, &error))?;
        file.sync_all().map_err(|error| files::unusable(path, &error))?;
        if self.direct {
            files::leave_page_cache(path);
        }
        Ok(())
    }

    /// All schemas are proved: each takes its name, over the one it replaces.
    fn give_final_names(&self) -> Result<(), EngineError> {
        for &schema in &self.plan.schemas {
            let (from, to) = (self.folder.loading(schema), self.folder.database(schema));
            let replaced = direct::FileId::of(&to).ok();
            if replaced.is_some() {
                empty_wal(&to)?;
            }
            std::fs::rename(&from, &to).map_err(|error| files::unusable(&to, &error))?;
            replaced.into_iter().for_each(direct::forget);
        }
        self.folder.sync()
    }

    /// Best effort after a failure: what stays is removed by the next setup or drop.
    fn clean_up(&self) {
        for &schema in &self.plan.schemas {
            let _ = files::remove(&self.folder.loading(schema));
        }
    }
}

fn summary(complete: &Complete) -> LoadedSchemaSummary {
    let meta = &complete.meta;
    LoadedSchemaSummary {
        schema: meta.loaded(),
        scan_bytes: meta.scan_pages * u64::from(meta.block_bytes),
        seconds: complete.seconds,
        placement: complete.placement.clone(),
    }
}

fn foreign_file(path: &Path) -> EngineError {
    EngineError::Data(format!(
        "{}: a file without petal's mark is in the way, and petal leaves it alone; move it away \
         or load into another folder (--db sqlite:DIR)",
        path.display()
    ))
}

/// The mode stays in the file's header.
fn set_wal_mode(path: &Path, context: &Context) -> Result<(), EngineError> {
    let connection = open(path, Access::Write, context)?;
    let mode: String = connection
        .query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0))
        .map_err(|error| engine_error("changing to WAL mode", path, &error))?;
    drop(connection);
    if mode != "wal" {
        return Err(EngineError::Environment(format!(
            "{}: SQLite cannot use WAL mode there (it stays in {mode}), most likely because the \
             file system has no shared memory maps, as network file systems; use another folder",
            path.display()
        )));
    }
    files::remove_sides(path)
}

/// The WAL of the file that is replaced must not be taken for the new one's.
fn empty_wal(path: &Path) -> Result<(), EngineError> {
    // A damaged file is replaced all the same: its WAL goes with it.
    if let Ok(connection) = open(path, Access::Write, &Context::default()) {
        let truncated: rusqlite::Result<i64> =
            connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0));
        if matches!(truncated, Ok(busy) if busy != 0) {
            return Err(EngineError::Environment(format!(
                "{}: another process uses it, so it is not replaced; stop that one first",
                path.display()
            )));
        }
    }
    files::remove_sides(path)
}

/// One file being filled.
struct Filling<'a, F: Fn() -> bool> {
    loader: &'a Loader<'a>,
    schema: u32,
    path: &'a PathBuf,
    connection: &'a Connection,
    is_over: F,
}

impl<F: Fn() -> bool> Filling<'_, F> {
    fn run(&self) -> Result<(Meta, Placement), EngineError> {
        let plan = self.loader.plan;
        self.batch("creating the tables", &self.set_up())?;
        let permutation = Permutation::new(plan.rows.max(1), plan.seed);
        self.fill("cf1", plan.rows, &permutation)?;
        if plan.scan_rows > 0 {
            self.fill("cf2", plan.scan_rows, &Permutation::new(plan.scan_rows, plan.seed))?;
        }
        let index = layout::create_index(plan.unique_index);
        self.batch("creating the index", &format!("PRAGMA cache_size = -{SORT_KIB}; {index}"))?;
        let main = count_pages(self.connection, self.path, "cf1")?;
        let placement = self.prove(main)?;
        let meta = Meta {
            schema: self.schema,
            rows: plan.rows,
            scan_rows: plan.scan_rows,
            block_bytes: plan.block_size,
            filler: plan.filler,
            scatter_seed: plan.seed,
            interior_pages: main.interior,
            main_pages: main.all(),
            index_pages: count_pages(self.connection, self.path, "cf1_custid")?.all(),
            scan_pages: count_pages(self.connection, self.path, "cf2")?.all(),
        };
        meta.write(self.connection).map_err(|error| self.error("writing petal_meta", &error))?;
        Ok((meta, placement))
    }

    /// The mark is in the file with the first commit.
    fn set_up(&self) -> String {
        format!(
            "PRAGMA page_size = {}; PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; \
             PRAGMA locking_mode = EXCLUSIVE; PRAGMA cache_size = -{CACHE_KIB}; \
             BEGIN; PRAGMA application_id = {}; {} COMMIT",
            self.loader.plan.block_size,
            layout::APPLICATION_ID,
            layout::create_tables()
        )
    }

    /// Rows in rowid order: each append takes a page of its own.
    fn fill(&self, table: &str, rows: u64, keys: &Permutation) -> Result<(), EngineError> {
        let bytes_per_row = u64::from(self.loader.plan.block_size);
        let mut from = 0;
        while from < rows {
            if (self.is_over)() {
                return Err(EngineError::Interrupted);
            }
            let to = (from + ROWS_PER_COMMIT).min(rows);
            self.batch("beginning a transaction", "BEGIN")?;
            let mut step = from;
            while step < to && !(self.is_over)() {
                let until = (step + ROWS_PER_STEP).min(to);
                self.insert(table, step..until, keys)
                    .map_err(|error| self.error("writing rows", &error))?;
                self.loader.progress.advance((until - step) * bytes_per_row);
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
        let plan = self.loader.plan;
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

    fn prove(&self, main: Pages) -> Result<Placement, EngineError> {
        let placement = Placement::from(main);
        if placement.is_one_row_per_block() && placement.rows == self.loader.plan.rows {
            return Ok(placement);
        }
        Err(EngineError::Database(format!(
            "{}: not one row per block after the load: {} rows in {} blocks, up to {} in one, {} \
             overflow blocks (dbstat); please report this with the SQLite version",
            self.path.display(),
            placement.rows,
            placement.blocks,
            placement.rows_per_block_max,
            placement.overflow_blocks.unwrap_or(0)
        )))
    }

    fn batch(&self, doing: &str, sql: &str) -> Result<(), EngineError> {
        self.connection.execute_batch(sql).map_err(|error| self.error(doing, &error))
    }

    fn error(&self, doing: &str, error: &rusqlite::Error) -> EngineError {
        engine_error(doing, self.path, error)
    }
}
