//! Loading: each schema under a name of its own, filled and indexed in one transaction, then
//! proved; at the end one transaction gives all of them their names. A load that is cut off leaves
//! at most schemas under their loading names, which nobody takes for data and which the next setup
//! or drop removes.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use super::before_load::BeforeLoad;
use super::client::{Client, Error};
use super::connect::{Endpoint, Opened, engine_error};
use super::filling::Filling;
use super::load_progress::{IndexWatch, LoadProgress};
use super::meta::relation_bytes;
use super::session_server::make_routine;
use super::{in_use, lock_wait, long_work, placement, schema};
use crate::engine::loaders::load_each;
use crate::engine::{
    EngineError, LoadPlan, LoadSummary, LoadedSchemaSummary, Placement, Progress, ProgressUnit,
    Stop,
};

/// One load under way.
pub struct Loader<'a> {
    pub endpoint: &'a Endpoint,
    pub plan: &'a LoadPlan,
    pub tablespace: Option<&'a str>,
    pub progress: &'a dyn Progress,
    pub stop: &'a Stop,
}

/// A schema that is durable and proved under its loading name.
struct Complete {
    summary: LoadedSchemaSummary,
    durable: Instant,
}

impl Loader<'_> {
    pub fn run(&self) -> Result<LoadSummary, EngineError> {
        let begin = Instant::now();
        let mut client = long_work::open(self.endpoint, "petal setup")?.client;
        in_use::hold_alone(&mut client, &self.endpoint.name)?;
        let (endpoint, plan, tablespace) = (self.endpoint, self.plan, self.tablespace);
        BeforeLoad { endpoint, plan, tablespace }.check(&mut client)?;
        self.check_names(&mut client)?;
        let complete = self.load_all().and_then(|complete| {
            let proved = Instant::now();
            self.give_final_names(&mut client)?;
            Ok((complete, proved))
        });
        let (complete, proved) = complete.inspect_err(|_| self.clean_up())?;
        let named = Instant::now();
        self.finish(&mut client)?;
        let durable = complete.iter().map(|schema| schema.durable).max().unwrap_or(begin);
        let naming = if self.plan.replace { "dropping what was there" } else { "giving names" };
        Ok(LoadSummary {
            schemas: complete.into_iter().map(|schema| schema.summary).collect(),
            seconds: begin.elapsed().as_secs_f64(),
            durable_seconds: Some((durable - begin).as_secs_f64()),
            afterwards: vec![
                ("proof", (proved - durable).as_secs_f64()),
                (naming, (named - proved).as_secs_f64()),
                ("vacuum", named.elapsed().as_secs_f64()),
            ],
        })
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
        let bytes = |rows: u64| rows * plan.schemas.len() as u64 * u64::from(plan.block_size);
        let load_progress =
            LoadProgress::open(self.progress, bytes(plan.rows + plan.scan_rows), bytes(plan.rows));
        let failed = AtomicBool::new(false);
        load_each(plan, &failed, |schema| self.load_schema(schema, &load_progress, &failed))
    }

    fn load_schema(
        &self,
        schema: u32,
        load_progress: &LoadProgress<'_>,
        failed: &AtomicBool,
    ) -> Result<Complete, EngineError> {
        let begin = Instant::now();
        let Opened { mut client, process, .. } =
            long_work::open(self.endpoint, &format!("petal setup {schema}"))?;
        let index = IndexWatch::new(load_progress, self.endpoint, process, self.plan.block_size);
        let is_over = || self.stop.is_requested() || failed.load(Ordering::Relaxed);
        let filling = Filling {
            endpoint: self.endpoint,
            plan: self.plan,
            tablespace: self.tablespace,
            schema,
            load_progress,
            index: &index,
            is_over: &is_over,
        };
        // Making an index and counting pages take their time, and end only when they are told to.
        let look = || index.look();
        long_work::until_over(self.endpoint, &mut client, &is_over, &look, |client| {
            self.load_by(&filling, client, begin)
        })
    }

    /// Fills it until it is durable, then proves it.
    fn load_by(
        &self,
        filling: &Filling<'_>,
        client: &mut Client,
        begin: Instant,
    ) -> Result<Complete, EngineError> {
        let meta = filling.run(client)?;
        let durable = Instant::now();
        if (filling.is_over)() {
            return Err(EngineError::Interrupted);
        }
        let name = schema::loading_name(filling.schema);
        let server = &self.endpoint.name;
        client
            .batch_execute(&schema::analyze(&name))
            .map_err(|error| self.error(&format!("analyzing {name}"), &error))?;
        let placement = self.prove(client, &name, filling.load_progress)?;
        let summary = LoadedSchemaSummary {
            schema: meta.loaded(client, server, &name)?,
            scan_bytes: relation_bytes(client, server, &format!("{name}.cf2"))?,
            seconds: begin.elapsed().as_secs_f64(),
            placement,
        };
        if (filling.is_over)() {
            return Err(EngineError::Interrupted);
        }
        Ok(Complete { summary, durable })
    }

    fn prove(
        &self,
        client: &mut Client,
        name: &str,
        load_progress: &LoadProgress<'_>,
    ) -> Result<Placement, EngineError> {
        let (plan, server) = (self.plan, &self.endpoint.name);
        let block_bytes = u64::from(plan.block_size);
        let told = |rows: u64| load_progress.read(rows * block_bytes);
        let placement = placement::count(client, server, name, plan.block_size, &told)?;
        if placement.is_one_row_per_block() && placement.rows == plan.rows {
            return Ok(placement);
        }
        Err(EngineError::Database(format!(
            "{server}: {name}: not one row per block after the load: {} rows in {} blocks, up to \
             {} in one, {} blocks without a row between them (ctid); please report this with the \
             version",
            placement.rows,
            placement.blocks,
            placement.rows_per_block_max,
            placement.overflow_blocks.unwrap_or(0)
        )))
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
        // All is loaded: it would be lost.
        client
            .raise_lock_limit(lock_wait::REPLACE_LIMIT)
            .map_err(|error| self.error("naming the schemas", &error))?;
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
                let is_over = || self.stop.is_requested();
                long_work::until_over(self.endpoint, client, &is_over, &|| (), |client| {
                    client
                        .batch_execute(&format!("VACUUM (FREEZE) {name}"))
                        .map_err(|error| self.error(&format!("vacuuming {name}"), &error))
                })?;
                self.progress.advance(1);
            }
            // The data are there without it, and LOOP=client needs none.
            if let Err(error) = make_routine(client, &self.endpoint.name, number) {
                self.progress.note(&error.to_string());
            }
        }
        Ok(())
    }

    /// Best effort after a failure: what stays is removed by the next setup or drop.
    fn clean_up(&self) {
        let Ok(mut client) = self.endpoint.connect_to_clean_up("petal setup") else { return };
        for &number in &self.plan.schemas {
            let name = schema::loading_name(number);
            let _ = client.batch_execute(&format!("DROP SCHEMA IF EXISTS {name} CASCADE"));
        }
    }

    fn error(&self, doing: &str, error: &Error) -> EngineError {
        engine_error(&self.endpoint.name, doing, error)
    }
}

/// Drops every schema with petal's mark, each for itself; tells what was dropped, also where one
/// cannot be.
pub fn drop_marked(client: &mut Client, server: &str) -> Result<Vec<String>, EngineError> {
    let mut dropped: Vec<String> = Vec::new();
    for (name, is_petals) in marked_schemas(client, server)? {
        if !is_petals {
            continue;
        }
        let mut doing = format!("dropping {name}");
        if !dropped.is_empty() {
            doing = format!("{doing} (dropped before it: {})", dropped.join(", "));
        }
        client
            .batch_execute(&format!("DROP SCHEMA {name} CASCADE"))
            .map_err(|error| engine_error(server, &doing, &error))?;
        dropped.push(format!("schema {name} in {server}"));
    }
    Ok(dropped)
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
