//! Loading: each schema in one transaction under a name of its own, filled by binary COPY from a
//! stream made on the fly, indexed and proved; at the end one transaction gives all of them their
//! names. A load that is cut off leaves at most schemas under their loading names, which nobody
//! takes for data and which the next setup or drop removes.
//!
//! Table and COPY in one transaction, with FREEZE: reads find nothing to write later, and with
//! wal_level=minimal PostgreSQL writes no log for it. The tables are logged and durable always.

use std::io::Write as _;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use postgres::{Client, Transaction};

use super::connect::{Endpoint, engine_error};
use super::meta::{Meta, relation_bytes};
use super::{copy, placement, routine, schema};
use crate::engine::{
    EngineError, LoadPlan, LoadSummary, LoadedSchemaSummary, Placement, Progress, ProgressUnit,
    Stop,
};
use crate::workload::scatter::Permutation;

/// What is sent at once.
const BUFFER_BYTES: usize = 1 << 20;
/// Between two looks at the stop flag.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Two setups at once would be in each other's way.
const LOCK: &str = "SELECT pg_try_advisory_lock(hashtext('petal setup'))";

/// One load under way.
pub struct Loader<'a> {
    pub endpoint: &'a Endpoint,
    pub plan: &'a LoadPlan,
    pub tablespace: Option<&'a str>,
    pub progress: &'a dyn Progress,
    pub stop: &'a Stop,
}

/// A schema that is complete under its loading name.
struct Complete {
    summary: LoadedSchemaSummary,
}

impl Loader<'_> {
    pub fn run(&self) -> Result<LoadSummary, EngineError> {
        let begin = Instant::now();
        let mut client = self.endpoint.connect("petal setup")?;
        self.check_block_size(&mut client)?;
        let alone: bool =
            client.query_one(LOCK, &[]).map_err(|error| self.error("locking", &error))?.get(0);
        if !alone {
            return Err(EngineError::Environment(format!(
                "{}: another petal setup works in this database; wait for it or stop it",
                self.endpoint.name
            )));
        }
        self.check_names(&mut client)?;
        let complete = self.load_all().and_then(|complete| {
            self.give_final_names(&mut client)?;
            Ok(complete)
        });
        let complete = complete.inspect_err(|_| self.clean_up())?;
        self.finish(&mut client)?;
        Ok(LoadSummary {
            schemas: complete.into_iter().map(|schema| schema.summary).collect(),
            seconds: begin.elapsed().as_secs_f64(),
        })
    }

    fn check_block_size(&self, client: &mut Client) -> Result<(), EngineError> {
        let server = block_bytes(client, &self.endpoint.name)?;
        if server == self.plan.block_size {
            return Ok(());
        }
        Err(EngineError::Setting(format!(
            "BLOCK_SZ={}: the server's blocks have {server} bytes, which is fixed when it is \
             built; leave BLOCK_SZ out or give {server}",
            self.plan.block_size
        )))
    }

    /// Nothing of somebody else's may stand where a schema goes, and nothing of petal's unless it
    /// is to be replaced. Leftovers of a load that was cut off go.
    fn check_names(&self, client: &mut Client) -> Result<(), EngineError> {
        let there = marked_schemas(client, &self.endpoint.name)?;
        for &number in &self.plan.schemas {
            for (name, is_petals) in &there {
                let is_final = *name == schema::name(number);
                if !is_final && *name != schema::loading_name(number) {
                    continue;
                }
                if !is_petals {
                    return Err(EngineError::Data(format!(
                        "{}: a schema {name} without petal's mark is in the way, and petal leaves \
                         it alone; rename it or load into another database",
                        self.endpoint.name
                    )));
                }
                if is_final && !self.plan.replace {
                    return Err(EngineError::Data(format!(
                        "{}: schema {name} is loaded already; drop the data first (petal drop) or \
                         load over it (petal setup --replace)",
                        self.endpoint.name
                    )));
                }
            }
        }
        for (name, _) in there.iter().filter(|(name, petals)| *petals && name.ends_with("_loading"))
        {
            client
                .batch_execute(&format!("DROP SCHEMA {name} CASCADE"))
                .map_err(|error| self.error(&format!("removing {name}"), &error))?;
        }
        Ok(())
    }

    fn load_all(&self) -> Result<Vec<Complete>, EngineError> {
        let plan = self.plan;
        let rows = (plan.rows + plan.scan_rows) * plan.schemas.len() as u64;
        self.progress.phase("loading", rows * u64::from(plan.block_size), ProgressUnit::Bytes);
        let (next, failed) = (AtomicUsize::new(0), AtomicBool::new(false));
        let results: Mutex<Vec<Result<Complete, EngineError>>> = Mutex::default();
        let loaders = (plan.degree as usize).clamp(1, plan.schemas.len().max(1));
        std::thread::scope(|scope| {
            for _ in 0..loaders {
                scope.spawn(|| {
                    while let Some(&schema) = plan.schemas.get(next.fetch_add(1, Ordering::Relaxed))
                    {
                        if failed.load(Ordering::Relaxed) {
                            return;
                        }
                        let result = self.load_schema(schema, &failed);
                        failed.fetch_or(result.is_err(), Ordering::Relaxed);
                        results.lock().unwrap_or_else(PoisonError::into_inner).push(result);
                    }
                });
            }
        });
        let results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
        let (complete, mut errors): (Vec<_>, Vec<_>) = results.into_iter().partition(Result::is_ok);
        // Loaders that were stopped because another failed are not the reason.
        errors.sort_by_key(|error| matches!(error, Err(EngineError::Interrupted)));
        if let Some(Err(error)) = errors.into_iter().next() {
            return Err(error);
        }
        let mut complete: Vec<Complete> = complete.into_iter().flatten().collect();
        complete.sort_by_key(|schema| schema.summary.schema.number);
        Ok(complete)
    }

    fn load_schema(&self, schema: u32, failed: &AtomicBool) -> Result<Complete, EngineError> {
        let begin = Instant::now();
        let mut client = self.endpoint.connect(&format!("petal setup {schema}"))?;
        let token = client.cancel_token();
        let is_over = || self.stop.is_requested() || failed.load(Ordering::Relaxed);
        let ended = AtomicBool::new(false);
        // Making an index and counting pages take their time, and end only when they are told to.
        std::thread::scope(|scope| {
            let watcher = scope.spawn(|| {
                while !ended.load(Ordering::Relaxed) {
                    if is_over() {
                        // Asked again until it is heard.
                        let _ = token.cancel_query(self.endpoint.tls.clone());
                    }
                    std::thread::park_timeout(LOOK_EVERY);
                }
            });
            let result = self.load_in(&mut client, schema, failed, begin);
            ended.store(true, Ordering::Relaxed);
            watcher.thread().unpark();
            result.map_err(|error| if is_over() { EngineError::Interrupted } else { error })
        })
    }

    fn load_in(
        &self,
        client: &mut Client,
        schema: u32,
        failed: &AtomicBool,
        begin: Instant,
    ) -> Result<Complete, EngineError> {
        let transaction = client.transaction().map_err(|error| self.error("beginning", &error))?;
        let mut filling = Filling { loader: self, schema, transaction, failed };
        let (meta, placement) = filling.run()?;
        let name = schema::loading_name(schema);
        let server = &self.endpoint.name;
        let loaded = meta.loaded(&mut filling.transaction, server, &name)?;
        let scan = relation_bytes(&mut filling.transaction, server, &format!("{name}.cf2"))?;
        filling.transaction.commit().map_err(|error| self.error("committing", &error))?;
        Ok(Complete {
            summary: LoadedSchemaSummary {
                schema: loaded,
                scan_bytes: scan,
                seconds: begin.elapsed().as_secs_f64(),
                placement,
            },
        })
    }

    /// All schemas are proved: in one transaction each takes its name, over the one it replaces.
    fn give_final_names(&self, client: &mut Client) -> Result<(), EngineError> {
        let mut sql = String::from("BEGIN; ");
        for &number in &self.plan.schemas {
            let (from, to) = (schema::loading_name(number), schema::name(number));
            if self.plan.replace {
                sql.push_str(&format!("DROP SCHEMA IF EXISTS {to} CASCADE; "));
            }
            sql.push_str(&format!("ALTER SCHEMA {from} RENAME TO {to}; "));
        }
        sql.push_str("COMMIT");
        client.batch_execute(&sql).map_err(|error| self.error("naming the schemas", &error))
    }

    /// Hint bits and visibility are settled, so that a read test does not write; the routine that
    /// runs operations is made.
    fn finish(&self, client: &mut Client) -> Result<(), EngineError> {
        let tables = self.plan.schemas.len() as u64 * 2;
        self.progress.phase("vacuuming", tables, ProgressUnit::Items);
        for &number in &self.plan.schemas {
            for table in ["cf1", "cf2"] {
                let name = format!("{}.{table}", schema::name(number));
                client
                    .batch_execute(&format!("VACUUM (FREEZE) {name}"))
                    .map_err(|error| self.error(&format!("vacuuming {name}"), &error))?;
                self.progress.advance(1);
            }
            // The data are there without it, and LOOP=client needs none.
            if let Err(error) = routine::make(client, &self.endpoint.name, number) {
                self.progress.note(&error.to_string());
            }
        }
        Ok(())
    }

    /// Best effort after a failure: what stays is removed by the next setup or drop.
    fn clean_up(&self) {
        let Ok(mut client) = self.endpoint.connect("petal setup") else { return };
        for &number in &self.plan.schemas {
            let name = schema::loading_name(number);
            let _ = client.batch_execute(&format!("DROP SCHEMA IF EXISTS {name} CASCADE"));
        }
    }

    fn error(&self, doing: &str, error: &postgres::Error) -> EngineError {
        engine_error(&self.endpoint.name, doing, error)
    }
}

/// Schemas by names of petal's, and whether they carry the mark.
pub fn marked_schemas(
    client: &mut Client,
    server: &str,
) -> Result<Vec<(String, bool)>, EngineError> {
    let rows = client
        .query(&schema::schemas(), &[])
        .map_err(|error| engine_error(server, "looking for petal's schemas", &error))?;
    Ok(rows.iter().map(|row| (row.get(0), row.get(1))).collect())
}

pub fn block_bytes(client: &mut Client, server: &str) -> Result<u32, EngineError> {
    let row = client
        .query_one("SELECT current_setting('block_size')::integer", &[])
        .map_err(|error| engine_error(server, "asking for its block size", &error))?;
    Ok(row.get::<_, i32>(0).cast_unsigned())
}

/// One schema being filled, in a transaction.
struct Filling<'a, 'b> {
    loader: &'a Loader<'a>,
    schema: u32,
    transaction: Transaction<'b>,
    failed: &'a AtomicBool,
}

impl Filling<'_, '_> {
    fn run(&mut self) -> Result<(Meta, Placement), EngineError> {
        let plan = self.loader.plan;
        let name = schema::loading_name(self.schema);
        let tablespace = self.loader.tablespace;
        self.batch("creating the tables", &schema::create_tables(&name, tablespace))?;
        self.fill("cf1", plan.rows)?;
        self.fill("cf2", plan.scan_rows)?;
        let index = schema::create_index(&name, plan.unique_index, tablespace);
        self.batch("creating the index", &index)?;
        let placement = self.prove(&name)?;
        let meta = Meta {
            schema: self.schema,
            rows: plan.rows,
            scan_rows: plan.scan_rows,
            block_bytes: plan.block_size,
            filler: plan.filler,
            scatter_seed: plan.seed,
            unique_index: plan.unique_index,
        };
        meta.write(&mut self.transaction)
            .map_err(|error| self.loader.error("writing petal_meta", &error))?;
        if self.is_over() {
            return Err(EngineError::Interrupted);
        }
        Ok((meta, placement))
    }

    /// Rows in the order of their blocks, keys scattered.
    fn fill(&mut self, table: &str, rows: u64) -> Result<(), EngineError> {
        if rows == 0 {
            return Ok(());
        }
        let (schema, loader, failed) = (self.schema, self.loader, self.failed);
        let plan = loader.plan;
        let name = schema::loading_name(schema);
        let doing = format!("writing rows of {name}.{table}");
        let sql = format!("COPY {name}.{table} FROM STDIN (FORMAT binary, FREEZE)");
        let mut writer =
            self.transaction.copy_in(&sql).map_err(|error| loader.error(&doing, &error))?;
        let keys = Permutation::new(rows, plan.seed);
        let mut row_writer =
            copy::RowWriter::new(schema, plan.filler, schema::column_bytes(plan.block_size));
        let mut buffer = Vec::with_capacity(BUFFER_BYTES + (BUFFER_BYTES >> 4));
        buffer.extend_from_slice(copy::HEADER);
        let mut pending_rows = 0;
        for row in 0..rows {
            row_writer.append(keys.apply(row) + 1, &mut buffer);
            pending_rows += 1;
            if buffer.len() < BUFFER_BYTES && row + 1 < rows {
                continue;
            }
            if loader.stop.is_requested() || failed.load(Ordering::Relaxed) {
                // A writer that is dropped without its end makes the server forget all of it.
                return Err(EngineError::Interrupted);
            }
            if row + 1 == rows {
                buffer.extend_from_slice(&copy::TRAILER);
            }
            // The reason of a failure is told by the writer's end.
            let sent = writer.write_all(&buffer).and_then(|()| writer.flush());
            if sent.is_err() {
                break;
            }
            buffer.clear();
            loader.progress.advance(pending_rows * u64::from(plan.block_size));
            pending_rows = 0;
        }
        let written = writer.finish().map_err(|error| loader.error(&doing, &error))?;
        if written != rows {
            return Err(EngineError::Database(format!(
                "{}: {doing}: {written} of {rows} rows arrived; please report this",
                loader.endpoint.name
            )));
        }
        Ok(())
    }

    fn is_over(&self) -> bool {
        self.loader.stop.is_requested() || self.failed.load(Ordering::Relaxed)
    }

    fn prove(&mut self, name: &str) -> Result<Placement, EngineError> {
        let plan = self.loader.plan;
        let server = &self.loader.endpoint.name;
        let placement = placement::count(&mut self.transaction, server, name, plan.block_size)?;
        if placement.is_one_row_per_block() && placement.rows == plan.rows {
            return Ok(placement);
        }
        Err(EngineError::Database(format!(
            "{server}: {name}: not one row per block after the load: {} rows in {} blocks, up to \
             {} in one, {} blocks without a row (ctid); please report this with the version",
            placement.rows,
            placement.blocks,
            placement.rows_per_block_max,
            placement.overflow_blocks
        )))
    }

    fn batch(&mut self, doing: &str, sql: &str) -> Result<(), EngineError> {
        self.transaction.batch_execute(sql).map_err(|error| self.loader.error(doing, &error))
    }
}
