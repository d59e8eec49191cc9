//! Loading: each schema's tables under names of their own, filled, indexed and proved; at the end
//! one statement gives all of them their names. A load that is cut off leaves at most tables under
//! their loading names, which nobody takes for data and which the next setup or drop removes.

use std::time::Instant;

use super::before_run::check_replicas;
use super::client::Client;
use super::connect::Endpoint;
use super::filling::{self, Filling};
use super::placement::{self, PROOF_VIEW};
use super::session_server::make_routine;
use super::{in_use, schema, servers};
use petal_engine::server::data_name::named;
use petal_engine::server::endpoint::REPLACE_LOCK_LIMIT;
use petal_engine::server::liveness;
use petal_engine::server::loader::{
    self, Load, LoadState, ProvedSchema, already_loaded, without_mark,
};
use petal_engine::server::meta_table::SchemaMeta;
use petal_engine::server::room;
use petal_engine::{EngineError, LoadSummary, LoadedSchemaSummary, Result};

/// A load under way.
pub struct Loader<'a> {
    pub endpoint: &'a Endpoint,
    pub load: Load<'a>,
}

impl Loader<'_> {
    pub fn run(&self) -> Result<LoadSummary> {
        // Whatever it changes may wait for one.
        check_replicas(self.endpoint)?;
        let mut client = self.endpoint.connect()?;
        in_use::hold_alone(&mut client)?;
        self.check_names(&mut client)?;
        self.check(&mut client)?;
        self.load.show_loading();
        let waiting = client.keep_alive()?;
        let loaded = self.load.run(
            &|schema, state| self.load_schema(schema, state),
            || self.give_final_names(&mut waiting.lock()),
            || self.clean_up(),
        )?;
        let mut client = waiting.lock();
        for &number in &self.load.plan.schemas {
            // The data are there without it, and LOOP=client needs none.
            if let Err(error) = make_routine(&mut client, number) {
                self.load.progress.note(&error.to_string());
            }
        }
        Ok(loaded.summary(self.load.plan))
    }

    /// Refuses a foreign table under a name of the load, and one of petal's unless it is to be
    /// replaced. Removes leftovers of a load that was cut off.
    fn check_names(&self, client: &mut Client) -> Result<()> {
        let server = &self.endpoint.name;
        let there = schema::tables(client)?;
        for &number in &self.load.plan.schemas {
            let final_name = format!("{}_", schema::name(number));
            for (name, is_marked) in there.iter().filter(|(name, _)| name.starts_with(&final_name))
            {
                if !is_marked {
                    let instead = "rename it or load into another database";
                    return Err(without_mark(server, &format!("a table {name}"), instead));
                }
                if schema::number_of(name) == Some(number) && !self.load.plan.replace {
                    return Err(already_loaded(server, number));
                }
            }
        }
        let is_leftover = |name: &str| name.contains("_loading_") || name.contains("_replaced_");
        let leftovers =
            there.iter().filter(|(name, is_marked)| *is_marked && is_leftover(name.as_str()));
        for (name, _) in leftovers {
            client.send(&format!("removing {name}"), &format!("DROP TABLE {name}"))?;
        }
        Ok(())
    }

    /// Refuses a load that is sure to fail, before its first row.
    fn check(&self, client: &mut Client) -> Result<()> {
        let plan = self.load.plan;
        let doing = format!("reading {PROOF_VIEW}, with which petal proves a load");
        client.ask::<i64>(&doing, &format!("SELECT 1 FROM {PROOF_VIEW} LIMIT 1"))?;
        if let Some(why) = refusing_settings(client, plan.block_size)?.first() {
            return Err(EngineError::Environment(format!("{}: {why}", client.server)));
        }
        let data = vec![("data", room::data_bytes(plan))];
        servers::check_room(self.endpoint, "the load", data).map(|_| ())
    }

    fn load_schema(&self, schema: u32, state: &LoadState<'_>) -> Result<ProvedSchema> {
        let begin = Instant::now();
        let mut client = self.endpoint.connect()?;
        let filling = Filling { load: &self.load, schema, state };
        // Making an index takes its time, and ends only when cancelled.
        let (id, connection) = (client.id(), client.abort_handle());
        let cancel = || self.endpoint.kill_query(id);
        liveness::until_over(&connection, &cancel, &|| state.is_over(), &|| (), || {
            filling.run(&mut client)?;
            let durable = Some(Instant::now());
            state.go_on()?;
            let summary = self.prove(&mut client, schema, begin)?;
            Ok(ProvedSchema { summary, durable })
        })
    }

    /// Proves one row per block in a schema that is durable.
    fn prove(
        &self,
        client: &mut Client,
        schema: u32,
        begin: Instant,
    ) -> Result<LoadedSchemaSummary> {
        let (plan, name) = (self.load.plan, schema::loading_name(schema));
        let placement = placement::count(client, &name)?;
        let otherwise = "please report this with the server's version and innodb_page_size";
        let placement = loader::prove(&client.server, &name, placement, plan.rows, otherwise)?;
        let scan = format!("{name}_cf2");
        schema::analyze(client, &scan)?;
        let meta = SchemaMeta::of_plan(plan, schema);
        Ok(LoadedSchemaSummary {
            schema: schema::with_sizes(&meta, client, &name)?,
            scan_bytes: Some(schema::table_bytes(client, &scan)?.0),
            seconds: begin.elapsed().as_secs_f64(),
            placement,
        })
    }

    /// All schemas are proved: one statement gives each its name, over the one it replaces.
    fn give_final_names(&self, client: &mut Client) -> Result<()> {
        let there = schema::tables(client)?;
        let (mut names, mut replaced) = (Vec::new(), Vec::new());
        for &number in &self.load.plan.schemas {
            for table in schema::TABLES {
                let to = format!("{}_{table}", schema::name(number));
                if there.iter().any(|(name, _)| *name == to) {
                    let aside = format!("{}_{table}", schema::replaced_name(number));
                    names.push(format!("{to} TO {aside}"));
                    replaced.push(aside);
                }
                names.push(format!("{}_{table} TO {to}", schema::loading_name(number)));
            }
        }
        // All is loaded: it would be lost.
        let limit = REPLACE_LOCK_LIMIT.as_secs();
        let doing = "naming the schemas";
        client.send(doing, &format!("SET SESSION lock_wait_timeout = {limit}"))?;
        if let Some(monitor) = client.wait().monitor.as_mut() {
            monitor.limit = REPLACE_LOCK_LIMIT;
        }
        client.send(doing, &format!("RENAME TABLE {}", names.join(", ")))?;
        if !replaced.is_empty() {
            let sql = format!("DROP TABLE {}", replaced.join(", "));
            client.send("dropping the replaced tables", &sql)?;
        }
        Ok(())
    }

    /// Removes the remains of a failure.
    fn clean_up(&self) -> Result<()> {
        let mut client = self.endpoint.connect_to_clean_up()?;
        let names = self.load.plan.schemas.iter().map(|&number| schema::loading_name(number));
        let names: Vec<String> =
            names.flat_map(|name| schema::TABLES.map(|table| format!("{name}_{table}"))).collect();
        // A server that only reads refuses a DROP of nothing, too.
        let there = schema::tables(&mut client)?.into_iter().map(|(name, _)| name);
        let tables: Vec<String> = there.filter(|name| names.contains(name)).collect();
        if tables.is_empty() {
            return Ok(());
        }
        // One statement: all is gone also if the answer waits for a replica and petal does not.
        let sql = format!("DROP TABLE IF EXISTS {}", tables.join(", "));
        client.send("removing the unfinished load", &sql)
    }
}

/// Settings of the server that refuse a load, each with the reason and the next step.
pub fn refusing_settings(client: &mut Client, block_bytes: u32) -> Result<Vec<String>> {
    let sql = "SHOW VARIABLES WHERE Variable_name IN ('enforce_storage_engine', \
               'disabled_storage_engines', 'max_allowed_packet')";
    let settings: Vec<(String, Option<String>)> =
        client.ask("asking for settings that refuse a load", sql)?;
    let needed_bytes = filling::statement_bytes(block_bytes);
    let refused = |(name, value): &(String, Option<String>)| {
        let value = value.as_deref().filter(|value| !value.is_empty())?;
        let is_innodb = |engine: &str| engine.trim().eq_ignore_ascii_case("InnoDB");
        match name.as_str() {
            "enforce_storage_engine" if !is_innodb(value) => Some(format!(
                "enforce_storage_engine={value}: the server makes tables of another storage engine \
                 alone; allow InnoDB, too (SET GLOBAL enforce_storage_engine = NULL)"
            )),
            "disabled_storage_engines" if value.split(',').any(is_innodb) => Some(format!(
                "disabled_storage_engines={value}: the server makes no tables of InnoDB; allow it"
            )),
            "max_allowed_packet" if value.parse().is_ok_and(|bytes: u64| bytes < needed_bytes) => {
                Some(format!(
                    "max_allowed_packet={value}: a load into blocks of {block_bytes} bytes sends up \
                     to {needed_bytes} at once; set it to 16M or more (SET GLOBAL max_allowed_packet = \
                     16777216)"
                ))
            }
            _ => None,
        }
    };
    Ok(settings.iter().filter_map(refused).collect())
}

/// Drops every table with petal's mark and their routines, and returns the dropped schemas, each
/// once.
pub fn drop_marked(client: &mut Client) -> Result<Vec<String>> {
    let mut dropped: Vec<String> = Vec::new();
    for (table, is_marked) in schema::tables(client)? {
        if !is_marked {
            continue;
        }
        client.send(&format!("dropping {table}"), &format!("DROP TABLE {table}"))?;
        let name = table.rsplit_once('_').map_or(table.as_str(), |(name, _)| name);
        let line = format!("schema {name} in {}", client.server);
        if !dropped.contains(&line) {
            dropped.push(line);
        }
    }
    let sql = "SELECT routine_name FROM information_schema.routines \
               WHERE routine_schema = DATABASE() AND routine_type = 'PROCEDURE' \
               AND routine_name REGEXP '^petal[1-9][0-9]*_run$' \
               AND routine_comment LIKE 'loop of petal%'";
    let routines: Vec<String> = client.ask("looking for routines", &named(sql))?;
    for routine in routines {
        let sql = format!("DROP PROCEDURE {routine}");
        client.send(&format!("dropping {routine}"), &sql)?;
    }
    Ok(dropped)
}
