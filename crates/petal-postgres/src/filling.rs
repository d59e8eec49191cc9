//! A schema made and filled in one transaction. When it returns, all of it is durable.
//!
//! Rows go by binary COPY (<https://www.postgresql.org/docs/current/sql-copy.html>), made on the fly
//! in scattered order. Table and COPY are one transaction, with FREEZE: reads find nothing to write
//! later, and with wal_level=minimal PostgreSQL writes no log for it. The tables are logged always.
//!
//! How far all loaders are: copying, then indexing and proving, with rate and time left.

use petal_host::numbers::whole;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::answer::NonNegative;
use super::client::{Client, Error};
use super::connect::{Endpoint, engine_error};
use super::schema;
use petal_engine::server::loader::LoadState;
use petal_engine::server::row_layout::column_bytes;
use petal_engine::{EngineError, LoadPlan, Progress, ProgressUnit, Result};
use petal_workload::row::{COLUMNS, Filler, load_stamp};
use petal_workload::scatter::Permutation;

/// Bytes sent at once.
const BUFFER_BYTES: usize = 1 << 20;

/// A setting with which the server begins to write while it copies: with wal_level=minimal the
/// commit syncs the tables.
const WRITE_EARLY: &str = "SET LOCAL backend_flush_after = '1MB'";

/// The log of a load fills its files to the end, so nothing is gained by zeroes written and synced
/// before it. Only superusers may say so without a grant.
const FILL_LOG_ONCE: &str = "SELECT pg_catalog.set_config('wal_init_zero', 'off', true) \
     FROM pg_catalog.pg_roles WHERE rolname = current_user AND rolsuper";

pub struct Filling<'a> {
    pub endpoint: &'a Endpoint,
    pub plan: &'a LoadPlan,
    pub tablespace: Option<&'a str>,
    pub schema: u32,
    pub progress: &'a LoadProgress<'a>,
    pub index: &'a IndexWatch<'a>,
    pub state: &'a LoadState<'a>,
}

impl Filling<'_> {
    pub fn run(&self, client: &mut Client) -> Result<()> {
        let (plan, tablespace) = (self.plan, self.tablespace);
        let name = schema::loading_name(self.schema);
        // One that fails ends with its connection.
        client.run("beginning", "BEGIN")?;
        let sql = "SELECT pg_catalog.current_setting('wal_level')";
        if client.ask_value::<String>("beginning", sql, &[])? == "minimal" {
            client.run("beginning", WRITE_EARLY)?;
        }
        client.run("beginning", FILL_LOG_ONCE)?;
        client.run("creating the tables", &schema::create_tables(&name, tablespace))?;
        self.copy(client, "cf1", plan.rows)?;
        self.copy(client, "cf2", plan.scan_rows)?;
        self.index.begin();
        let index = schema::create_index(&name, plan.unique_index, tablespace);
        client.run("creating the index", &index)?;
        self.index.end(plan.rows * u64::from(plan.block_size));
        schema::write_meta(client, plan, self.schema)?;
        client.run("committing", "COMMIT")
    }

    /// Rows in the order of their blocks, keys scattered.
    fn copy(&self, client: &mut Client, table: &str, rows: u64) -> Result<()> {
        if rows == 0 {
            return Ok(());
        }
        let plan = self.plan;
        let name = schema::loading_name(self.schema);
        let doing = format!("writing rows of {name}.{table}");
        let sql = format!("COPY {name}.{table} FROM STDIN (FORMAT binary, FREEZE)");
        let mut writer = client.copy_in(&sql).map_err(|error| self.error(&doing, &error))?;
        let keys = Permutation::new(rows, plan.seed);
        let column_bytes = column_bytes(plan.block_size);
        let mut row_writer = RowWriter::new(self.schema, plan.filler, column_bytes);
        let buffer = || Vec::with_capacity(BUFFER_BYTES + (BUFFER_BYTES >> 4));
        let mut rows_ready = buffer();
        rows_ready.extend_from_slice(HEADER);
        let mut pending_rows = 0;
        for row in 0..rows {
            row_writer.append(keys.apply(row) + 1, &mut rows_ready);
            pending_rows += 1;
            if rows_ready.len() < BUFFER_BYTES && row + 1 < rows {
                continue;
            }
            // A writer that is dropped without its end makes the server forget all of it.
            self.state.go_on()?;
            if row + 1 == rows {
                rows_ready.extend_from_slice(&TRAILER);
            }
            // Ending the writer returns the reason of a failure.
            if writer.send(std::mem::replace(&mut rows_ready, buffer())).is_err() {
                break;
            }
            self.progress.copied(pending_rows * u64::from(plan.block_size));
            pending_rows = 0;
        }
        let written = writer.finish().map_err(|error| self.error(&doing, &error))?;
        if written != rows {
            return Err(EngineError::Database(format!(
                "{}: {doing}: {written} of {rows} rows arrived; please report this",
                self.endpoint.name,
                written = whole(written),
                rows = whole(rows)
            )));
        }
        Ok(())
    }

    fn error(&self, doing: &str, error: &Error) -> EngineError {
        engine_error(&self.endpoint.name, doing, error)
    }
}

pub const HEADER: &[u8] = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0";
pub const TRAILER: [u8; 2] = (-1i16).to_be_bytes();

/// Writes rows of one schema, the same shape each.
pub struct RowWriter {
    schema: u32,
    filler: Filler,
    column_bytes: usize,
    /// The row under way, with lengths and counts from the start.
    row: Vec<u8>,
}

const KEY_AT: usize = 2 + 4;
const COLUMNS_AT: usize = KEY_AT + 8;

impl RowWriter {
    pub fn new(schema: u32, filler: Filler, column_bytes: usize) -> Self {
        let mut row = Vec::with_capacity(COLUMNS_AT + COLUMNS * (4 + column_bytes));
        row.extend_from_slice(&(COLUMNS as i16 + 1).to_be_bytes());
        row.extend_from_slice(&8i32.to_be_bytes());
        row.extend_from_slice(&[0; 8]);
        for _ in 0..COLUMNS {
            row.extend_from_slice(&(column_bytes as i32).to_be_bytes());
            row.resize(row.len() + column_bytes, 0);
        }
        Self { schema, filler, column_bytes, row }
    }

    pub fn append(&mut self, key: u64, to: &mut Vec<u8>) {
        let stamp = load_stamp(self.schema, key);
        let (head, columns) = self.row.split_at_mut(COLUMNS_AT);
        head[KEY_AT..].copy_from_slice(&key.to_be_bytes());
        for (field, column) in columns.chunks_exact_mut(4 + self.column_bytes).zip(2..) {
            self.filler.fill(&mut field[4..], stamp, column);
        }
        to.extend_from_slice(&self.row);
    }
}

/// An index that takes longer than this is asked how far it is.
const ASK_AFTER: Duration = Duration::from_secs(1);
const INDEX_BLOCKS: &str = "SELECT coalesce(pg_catalog.max(blocks_done), 0) FROM \
    pg_catalog.pg_stat_progress_create_index WHERE pid = $1";

pub struct LoadProgress<'a> {
    progress: &'a dyn Progress,
    left: Mutex<Left>,
}

/// Bytes of tables.
struct Left {
    to_copy: u64,
    /// Every main table is read twice after it is filled: for its index and for its proof.
    to_read: u64,
}

impl<'a> LoadProgress<'a> {
    /// `copied` bytes of all tables together, of which `main` are the main tables'.
    pub fn open(progress: &'a dyn Progress, copied: u64, main: u64) -> Self {
        progress.phase("loading", copied, ProgressUnit::Bytes);
        Self { progress, left: Mutex::new(Left { to_copy: copied, to_read: main * 2 }) }
    }

    pub fn copied(&self, bytes: u64) {
        let mut left = self.left.lock();
        left.to_copy = left.to_copy.saturating_sub(bytes);
        self.progress.advance(bytes);
        if left.to_copy == 0 {
            self.progress.phase("indexing and proving", left.to_read, ProgressUnit::Bytes);
        }
    }

    /// Read for an index or a proof. While others still copy, their bar is the one that shows.
    pub fn read(&self, bytes: u64) {
        let mut left = self.left.lock();
        left.to_read = left.to_read.saturating_sub(bytes);
        if left.to_copy == 0 {
            self.progress.advance(bytes);
        }
    }
}

/// A loader's index under way, as another thread sees it.
pub struct IndexWatch<'a> {
    load_progress: &'a LoadProgress<'a>,
    endpoint: &'a Endpoint,
    /// The loader's process at the server.
    process: i32,
    block_bytes: u64,
    state: Mutex<Option<Building>>,
}

struct Building {
    since: Instant,
    shown_bytes: u64,
    client: Option<Client>,
}

impl<'a> IndexWatch<'a> {
    pub fn new(
        load_progress: &'a LoadProgress<'a>,
        endpoint: &'a Endpoint,
        process: i32,
        block_bytes: u32,
    ) -> Self {
        let block_bytes = block_bytes.into();
        Self { load_progress, endpoint, process, block_bytes, state: Mutex::default() }
    }

    pub fn begin(&self) {
        let building = Building { since: Instant::now(), shown_bytes: 0, client: None };
        *self.state.lock() = Some(building);
    }

    /// Ends the watch. The index is built: all `bytes` of its table were read.
    pub fn end(&self, bytes: u64) {
        let shown = self.state.lock().take().map_or(0, |building| building.shown_bytes);
        self.load_progress.read(bytes.saturating_sub(shown));
    }

    /// Asks the server how far it is. Without an answer nothing is shown.
    pub fn look(&self) {
        let mut state = self.state.lock();
        let Some(building) = state.as_mut() else { return };
        if building.since.elapsed() < ASK_AFTER {
            return;
        }
        if building.client.is_none() {
            building.client = self.endpoint.connect_to_look("petal setup progress").ok();
        }
        let Some(client) = building.client.as_mut() else { return };
        let Ok(row) = client.query_one(INDEX_BLOCKS, &[&self.process]) else {
            building.client = None;
            return;
        };
        // Only progress is shown of it.
        let blocks = row.try_get(0).map_or(0, |NonNegative(blocks)| blocks);
        let done = blocks.saturating_mul(self.block_bytes);
        self.load_progress.read(done.saturating_sub(building.shown_bytes));
        building.shown_bytes = done.max(building.shown_bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_has_its_key_and_nineteen_columns() {
        let mut writer = RowWriter::new(3, Filler::Constant, 16);
        let mut rows = Vec::new();
        writer.append(7, &mut rows);
        writer.append(8, &mut rows);
        assert_eq!(rows.len(), 2 * (2 + 12 + 19 * 20));
        let second = &rows[rows.len() / 2..];
        assert_eq!(&second[..14], [0, 20, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 8]);
        assert_eq!(&second[14..18], [0, 0, 0, 16]);
        let mut text = [0u8; 16];
        Filler::Constant.fill(&mut text, load_stamp(3, 8), 2);
        assert_eq!(&second[18..34], text);
        assert_eq!(HEADER.len(), 19);
    }

    #[derive(Default)]
    struct Seen(Mutex<Vec<(String, u64, u64)>>);

    impl Progress for Seen {
        fn phase(&self, what: &str, total: u64, _: ProgressUnit) {
            self.0.lock().push((what.to_owned(), total, 0));
        }
        fn advance(&self, units: u64) {
            self.0.lock().last_mut().unwrap().2 += units;
        }
        fn note(&self, _: &str) {}
    }

    #[test]
    fn both_bars_end_full_in_whatever_order_loaders_work() {
        let seen = Seen::default();
        let load_progress = LoadProgress::open(&seen, 220, 200);
        load_progress.copied(110);
        load_progress.read(100); // The first is indexed while the second is copied.
        load_progress.copied(110);
        load_progress.read(100);
        load_progress.read(200);
        let phases = seen.0.into_inner();
        let expected =
            [("loading".to_owned(), 220, 220), ("indexing and proving".to_owned(), 300, 300)];
        assert_eq!(phases, expected);
    }
}
