//! One schema made and filled, in one transaction: tables, rows by binary COPY from a stream made
//! on the fly, index, `petal_meta`. When it returns, all of it is durable.
//!
//! Table and COPY in one transaction, with FREEZE: reads find nothing to write later, and with
//! wal_level=minimal PostgreSQL writes no log for it. The tables are logged always.

use super::client::{Client, Error};
use super::connect::{Endpoint, engine_error};
use super::load_progress::{IndexWatch, LoadProgress};
use super::meta::Meta;
use super::{copy, schema};
use crate::engine::server::row_layout::column_bytes;
use crate::engine::{EngineError, LoadPlan};
use crate::workload::scatter::Permutation;

/// What is sent at once.
const BUFFER_BYTES: usize = 1 << 20;

/// With wal_level=minimal the commit syncs the tables themselves: the server is told to begin
/// writing while it copies, so that the commit need not wait for all of it.
const WRITE_EARLY: &str = "SET LOCAL backend_flush_after = '1MB'";

pub struct Filling<'a> {
    pub endpoint: &'a Endpoint,
    pub plan: &'a LoadPlan,
    pub tablespace: Option<&'a str>,
    pub schema: u32,
    pub load_progress: &'a LoadProgress<'a>,
    pub index: &'a IndexWatch<'a>,
    /// The load is stopped, or another loader failed.
    pub is_over: &'a (dyn Fn() -> bool + Sync),
}

impl Filling<'_> {
    pub fn run(&self, client: &mut Client) -> Result<Meta, EngineError> {
        let plan = self.plan;
        let name = schema::loading_name(self.schema);
        let tablespace = self.tablespace;
        let failed = |error| self.error("beginning", &error);
        // One that fails ends with its connection.
        client.batch_execute("BEGIN").map_err(failed)?;
        let level = client.query_one("SELECT current_setting('wal_level')", &[]);
        if level.map_err(failed)?.get::<_, &str>(0) == "minimal" {
            self.batch(client, "beginning", WRITE_EARLY)?;
        }
        let tables = schema::create_tables(&name, tablespace);
        self.batch(client, "creating the tables", &tables)?;
        self.copy(client, "cf1", plan.rows)?;
        self.copy(client, "cf2", plan.scan_rows)?;
        self.index.begin();
        let index = schema::create_index(&name, plan.unique_index, tablespace);
        self.batch(client, "creating the index", &index)?;
        self.index.end(plan.rows * u64::from(plan.block_size));
        let meta = Meta {
            schema: self.schema,
            rows: plan.rows,
            scan_rows: plan.scan_rows,
            block_bytes: plan.block_size,
            filler: plan.filler,
            scatter_seed: plan.seed,
            unique_index: plan.unique_index,
        };
        meta.write(client).map_err(|error| self.error("writing petal_meta", &error))?;
        self.batch(client, "committing", "COMMIT")?;
        Ok(meta)
    }

    /// Rows in the order of their blocks, keys scattered.
    fn copy(&self, client: &mut Client, table: &str, rows: u64) -> Result<(), EngineError> {
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
        let mut row_writer = copy::RowWriter::new(self.schema, plan.filler, column_bytes);
        let buffer = || Vec::with_capacity(BUFFER_BYTES + (BUFFER_BYTES >> 4));
        let mut rows_ready = buffer();
        rows_ready.extend_from_slice(copy::HEADER);
        let mut pending_rows = 0;
        for row in 0..rows {
            row_writer.append(keys.apply(row) + 1, &mut rows_ready);
            pending_rows += 1;
            if rows_ready.len() < BUFFER_BYTES && row + 1 < rows {
                continue;
            }
            if (self.is_over)() {
                // A writer that is dropped without its end makes the server forget all of it.
                return Err(EngineError::Interrupted);
            }
            if row + 1 == rows {
                rows_ready.extend_from_slice(&copy::TRAILER);
            }
            // The reason of a failure is told by the writer's end.
            if writer.send(std::mem::replace(&mut rows_ready, buffer())).is_err() {
                break;
            }
            self.load_progress.copied(pending_rows * u64::from(plan.block_size));
            pending_rows = 0;
        }
        let written = writer.finish().map_err(|error| self.error(&doing, &error))?;
        if written != rows {
            return Err(EngineError::Database(format!(
                "{}: {doing}: {written} of {rows} rows arrived; please report this",
                self.endpoint.name
            )));
        }
        Ok(())
    }

    fn batch(&self, client: &mut Client, doing: &str, sql: &str) -> Result<(), EngineError> {
        client.batch_execute(sql).map_err(|error| self.error(doing, &error))
    }

    fn error(&self, doing: &str, error: &Error) -> EngineError {
        engine_error(&self.endpoint.name, doing, error)
    }
}
