//! Loading: each schema is filled and indexed under a loading name in one transaction, then proved;
//! at the end one transaction gives all their names. A load that is cut off leaves loading names,
//! which nobody takes for data and the next setup or drop removes.
//!
//! Asked before the first row: whether the server takes writes, privileges, the tablespace, free
//! space, and the locks on replaced tables.

use std::path::{Path, PathBuf};
use std::time::Instant;

use super::answer::{Columns as _, NonNegative, pairs};
use super::client::Client;
use super::connect::{Endpoint, OpenedConnection};
use super::filling::{Filling, IndexWatch, LoadProgress};
use super::schema::relation_bytes;
use super::session_server::make_routine;
use super::this_host::LocalPostgres;
use super::{in_use, long_work, placement, schema, servers};
use petal_engine::server::endpoint::REPLACE_LOCK_LIMIT;
use petal_engine::server::loader::{
    self, Load, LoadState, ProvedSchema, already_loaded, without_mark,
};
use petal_engine::server::meta_table::SchemaMeta;
use petal_engine::server::room::{self, Need};
use petal_engine::{EngineError, LoadSummary, LoadedSchemaSummary, ProgressUnit, Result};

/// A load under way.
pub struct Loader<'a> {
    pub endpoint: &'a Endpoint,
    pub tablespace: Option<&'a str>,
    pub load: Load<'a>,
}

impl Loader<'_> {
    pub fn run(&self) -> Result<LoadSummary> {
        let mut client = long_work::open(self.endpoint, "petal setup")?.client;
        long_work::refuse_pgpool(&mut client)?;
        in_use::hold_alone(&mut client)?;
        self.check(&mut client)?;
        servers::check_standbys(self.endpoint)?;
        let plan = self.load.plan;
        self.check_names(&mut client)?;
        let bytes = |rows: u64| rows * plan.schemas.len() as u64 * u64::from(plan.block_size);
        let progress = LoadProgress::open(
            self.load.progress,
            bytes(plan.rows + plan.scan_rows),
            bytes(plan.rows),
        );
        let waiting = client.keep_alive()?;
        let loaded = self.load.run(
            &|schema, state| self.load_schema(schema, &progress, state),
            || self.give_final_names(&mut waiting.lock()),
            || self.clean_up(),
        )?;
        self.finish(&mut waiting.lock())?;
        let named = loaded.named;
        let mut summary = loaded.summary(plan);
        summary.afterwards.push(("vacuum", named.elapsed().as_secs_f64()));
        Ok(summary)
    }

    /// Refuses a foreign schema under a name of the load, and one of petal's unless it is to be
    /// replaced. Removes leftovers of a load that was cut off.
    fn check_names(&self, client: &mut Client) -> Result<()> {
        let there = marked_schemas(client)?;
        for &number in &self.load.plan.schemas {
            for (name, is_petals) in &there {
                let is_final = *name == schema::name(number);
                if !is_final && *name != schema::loading_name(number) {
                    continue;
                }
                let server = &self.endpoint.name;
                if !is_petals {
                    let instead = "rename it or load into another database";
                    return Err(without_mark(server, &format!("a schema {name}"), instead));
                }
                if is_final && !self.load.plan.replace {
                    return Err(already_loaded(server, number));
                }
            }
        }
        for (name, _) in there.iter().filter(|(name, petals)| *petals && name.ends_with("_loading"))
        {
            let sql = schema::drop(client, name)?;
            client.run(&format!("removing {name}"), &sql)?;
        }
        Ok(())
    }

    fn load_schema(
        &self,
        schema: u32,
        progress: &LoadProgress<'_>,
        state: &LoadState<'_>,
    ) -> Result<ProvedSchema> {
        let begin = Instant::now();
        let OpenedConnection { mut client, process, .. } =
            long_work::open(self.endpoint, &format!("petal setup {schema}"))?;
        let plan = self.load.plan;
        let index = IndexWatch::new(progress, self.endpoint, process, plan.block_size);
        let (endpoint, tablespace) = (self.endpoint, self.tablespace);
        let filling =
            Filling { endpoint, plan, tablespace, schema, progress, index: &index, state };
        // Making an index and counting pages take their time, and end only when cancelled.
        let (is_over, look) = (|| state.is_over(), || index.look());
        long_work::until_over(self.endpoint, &mut client, &is_over, &look, |client| {
            filling.run(client)?;
            let durable = Some(Instant::now());
            state.go_on()?;
            let summary = self.prove(client, schema, progress, begin)?;
            Ok(ProvedSchema { summary, durable })
        })
    }

    /// Proves one row per block in a schema that is durable.
    fn prove(
        &self,
        client: &mut Client,
        schema: u32,
        progress: &LoadProgress<'_>,
        begin: Instant,
    ) -> Result<LoadedSchemaSummary> {
        let (plan, server, name) =
            (self.load.plan, &self.endpoint.name, schema::loading_name(schema));
        client.run(&format!("analyzing {name}"), &schema::analyze(&name))?;
        let read = |rows: u64| progress.read(rows * u64::from(plan.block_size));
        let placement = placement::count(client, &name, plan.block_size, &read)?;
        let otherwise = "please report this with the server's version";
        let placement = loader::prove(server, &name, placement, plan.rows, otherwise)?;
        Ok(LoadedSchemaSummary {
            schema: schema::with_sizes(&SchemaMeta::of_plan(plan, schema), client, &name)?,
            scan_bytes: Some(relation_bytes(client, &format!("{name}.cf2"))?),
            seconds: begin.elapsed().as_secs_f64(),
            placement,
        })
    }

    /// All schemas are proved: in one transaction each takes its name, over the one it replaces.
    fn give_final_names(&self, client: &mut Client) -> Result<()> {
        let mut sql = String::from("BEGIN; ");
        for &number in &self.load.plan.schemas {
            let (from, to) = (schema::loading_name(number), schema::name(number));
            if self.load.plan.replace {
                sql.push_str(&schema::drop(client, &to)?);
            }
            sql.push_str(&format!("ALTER SCHEMA {from} RENAME TO {to}; "));
        }
        sql.push_str("COMMIT");
        // All is loaded: it would be lost.
        let doing = "naming the schemas";
        let raised = client.raise_lock_limit(REPLACE_LOCK_LIMIT);
        raised.map_err(|error| client.error(doing, &error))?;
        client.run(doing, &sql)
    }

    /// Settles hint bits and visibility, so that a read test does not write; makes the routine.
    fn finish(&self, client: &mut Client) -> Result<()> {
        let tables = self.load.plan.schemas.len() as u64 * 2;
        self.load.progress.phase("vacuuming", tables, ProgressUnit::Items);
        for &number in &self.load.plan.schemas {
            for table in ["cf1", "cf2"] {
                let name = format!("{}.{table}", schema::name(number));
                let is_over = || self.load.stop.is_requested();
                long_work::until_over(self.endpoint, client, &is_over, &|| (), |client| {
                    client.run(&format!("vacuuming {name}"), &format!("VACUUM (FREEZE) {name}"))
                })?;
                self.load.progress.advance(1);
            }
            // The data are there without it, and LOOP=client needs none.
            if let Err(error) = make_routine(client, number) {
                self.load.progress.note(&error.to_string());
            }
        }
        Ok(())
    }

    /// Removes the remains of a failure.
    fn clean_up(&self) -> Result<()> {
        let mut client = self.endpoint.connect_to_clean_up("petal setup")?;
        let mut drop = |number: &u32| {
            let name = schema::loading_name(*number);
            let sql = schema::drop(&mut client, &name)?;
            client.run(&format!("removing {name}"), &sql)
        };
        self.load.plan.schemas.iter().map(&mut drop).fold(Ok(()), Result::and)
    }
}

/// Drops every schema with petal's mark, one by one. An error names those that are gone, too.
pub fn drop_marked(client: &mut Client) -> Result<Vec<String>> {
    let mut dropped: Vec<String> = Vec::new();
    for (name, is_petals) in marked_schemas(client)? {
        if !is_petals {
            continue;
        }
        let mut doing = format!("dropping {name}");
        if !dropped.is_empty() {
            doing = format!("{doing} (dropped before it: {})", dropped.join(", "));
        }
        let sql = schema::drop(client, &name)?;
        client.run(&doing, &sql)?;
        dropped.push(format!("schema {name} in {}", client.server));
    }
    Ok(dropped)
}

/// Schemas by names of petal's, and whether they carry the mark.
pub fn marked_schemas(client: &mut Client) -> Result<Vec<(String, bool)>> {
    let rows = client.ask("looking for petal's schemas", &schema::schemas(), &[])?;
    pairs(&rows)
}

/// A block size that `server` may have.
pub fn sound_block_bytes(NonNegative(bytes): NonNegative, server: &str) -> Result<u32> {
    match u32::try_from(bytes) {
        Ok(bytes @ 1..) => Ok(bytes),
        _ => Err(EngineError::Database(format!(
            "{server}: it says that its blocks have {bytes} bytes"
        ))),
    }
}

pub fn block_bytes(client: &mut Client) -> Result<u32> {
    let sql = "SELECT pg_catalog.current_setting('block_size')::integer";
    let bytes = client.ask_value("asking for its block size", sql, &[])?;
    sound_block_bytes(bytes, &client.server)
}

/// Locks of this connection in the server's shared table.
const OWN_LOCKS: &str = "SELECT pg_catalog.count(*) FROM pg_catalog.pg_locks \
     WHERE pid = pg_catalog.pg_backend_pid() AND NOT fastpath";

/// The server's table of locks: entries by backend, backends, and entries in use.
const LOCK_ROOM: &str = "SELECT \
     pg_catalog.current_setting('max_locks_per_transaction')::bigint, \
     pg_catalog.current_setting('max_connections')::bigint \
     + pg_catalog.current_setting('max_prepared_transactions')::bigint, \
     (SELECT pg_catalog.count(*) FROM pg_catalog.pg_locks WHERE NOT fastpath)";

/// Whether the role may create schemas in the database.
pub const MAY_CREATE: &str =
    "SELECT pg_catalog.has_database_privilege(pg_catalog.current_database(), 'CREATE')";

/// Whether the role may use a tablespace; all may use the database's own.
const MAY_USE_TABLESPACE: &str = "SELECT pg_catalog.has_tablespace_privilege($1::pg_catalog.oid, 'CREATE') \
     OR $1 = (SELECT dattablespace FROM pg_catalog.pg_database WHERE datname = pg_catalog.current_database())";

/// Steps before the first row.
impl Loader<'_> {
    /// Refuses a load that is sure to fail.
    fn check(&self, client: &mut Client) -> Result<()> {
        self.check_writable(client)?;
        let folder = self.check_tablespace(client)?;
        self.check_owner(client)?;
        self.check_room(client, &folder)?;
        if self.load.plan.replace { self.check_dropping(client) } else { Ok(()) }
    }

    fn check_writable(&self, client: &mut Client) -> Result<()> {
        let sql = "SELECT pg_catalog.pg_is_in_recovery(), \
            pg_catalog.current_setting('transaction_read_only')::boolean, \
                   current_user::pg_catalog.text, \
                   pg_catalog.current_database()::pg_catalog.text";
        let row = client.ask_row("looking", sql, &[])?;
        let (role, database): (String, String) = (row.read(2)?, row.read(3)?);
        if row.read(0)? {
            return Err(self.refused("is a standby, which only reads; name its primary"));
        }
        if row.read(1)? {
            return Err(self.refused(&format!(
                "role {role} only reads (default_transaction_read_only); load with another role"
            )));
        }
        // If the server refuses the question, CREATE SCHEMA answers it.
        if client.ask_if_allowed("looking", MAY_CREATE, &[])? == Some(false) {
            return Err(self.refused(&format!(
                "role {role} may not create schemas in database {database}; GRANT CREATE ON \
                 DATABASE {database} TO {role}"
            )));
        }
        Ok(())
    }

    /// The tablespace must be there, and be open to the role. Its folder; empty: the server's own.
    fn check_tablespace(&self, client: &mut Client) -> Result<PathBuf> {
        // Without a name the session's default goes before the database's.
        let sql = "SELECT pg_catalog.pg_tablespace_location(oid), oid \
                   FROM pg_catalog.pg_tablespace WHERE spcname = coalesce($1, \
                       nullif(pg_catalog.current_setting('default_tablespace'), ''), \
                       (SELECT spcname FROM pg_catalog.pg_database d JOIN \
                       pg_catalog.pg_tablespace t ON t.oid = dattablespace \
                        WHERE datname = pg_catalog.current_database()))";
        let doing = "asking for the tablespace";
        let rows = client.ask(doing, sql, &[&self.tablespace])?;
        let Some(row) = rows.first() else {
            let all = "SELECT pg_catalog.string_agg(spcname, ', ' ORDER BY spcname) FROM \
                pg_catalog.pg_tablespace \
                       WHERE spcname <> 'pg_global'";
            let there: Option<String> = client.ask_value(doing, all, &[])?;
            return Err(self.refused(&format!(
                "there is no tablespace {}; name one of {} (CREATE TABLESPACE makes one)",
                self.tablespace.unwrap_or("of default_tablespace"),
                there.unwrap_or_default()
            )));
        };
        // If the server refuses the question, CREATE TABLE answers it.
        match client.ask_if_allowed(doing, MAY_USE_TABLESPACE, &[&row.read::<u32>(1)?])? {
            None | Some(true) => row.read(0),
            Some(false) => Err(self.refused(&format!(
                "the role may not use tablespace {}; GRANT CREATE ON TABLESPACE to it",
                self.tablespace.unwrap_or_default()
            ))),
        }
    }

    /// Checks the owner of replaced schemas and of leftovers of a load: only the owner can drop
    /// them.
    fn check_owner(&self, client: &mut Client) -> Result<()> {
        for name in self.schemas_to_drop(client)? {
            let sql = "SELECT pg_catalog.pg_has_role(nspowner, 'USAGE'), \
                pg_catalog.pg_get_userbyid(nspowner)::pg_catalog.text \
                       FROM pg_catalog.pg_namespace WHERE nspname = $1";
            let rows = client.ask(&format!("asking who owns {name}"), sql, &[&name])?;
            let Some(row) = rows.first() else { continue };
            if row.read::<bool>(0)? {
                continue;
            }
            return Err(self.refused(&format!(
                "schema {name} is in the way and belongs to role {}, who alone may drop it; load \
                 with that role",
                row.read::<String>(1)?
            )));
        }
        Ok(())
    }

    /// Schemas of petal's that this load drops.
    fn schemas_to_drop(&self, client: &mut Client) -> Result<Vec<String>> {
        let marked = marked_schemas(client)?;
        let replaced = |name: &str| {
            self.load.plan.replace
                && schema::number(name)
                    .is_some_and(|number| self.load.plan.schemas.contains(&number))
        };
        let dropped = |name: &str| name.ends_with("_loading") || replaced(name);
        let names = marked.into_iter().filter(|(name, petals)| *petals && dropped(name));
        Ok(names.map(|(name, _)| name).collect())
    }

    /// Checks for free space if the data's folder is visible from here. Replaced data stay until
    /// the new are there.
    fn check_room(&self, client: &mut Client, tablespace: &Path) -> Result<()> {
        let Some(Ok(server)) = LocalPostgres::find(self.endpoint, client) else {
            return Ok(());
        };
        let mut needs = servers::log_needs(client, &server)?;
        // An empty one is the data directory; one that is not seen is left out.
        let folder = server.see(tablespace).unwrap_or_default();
        needs.insert(0, Need::new(folder, "data", room::data_bytes(self.load.plan)));
        room::check(&self.endpoint.name, "the load", &needs)
    }

    /// Finds locks on replaced schemas, and objects that others built on them, before anything is
    /// loaded. At the end one transaction drops all of it: its locks must have room.
    fn check_dropping(&self, client: &mut Client) -> Result<()> {
        let names = self.schemas_to_drop(client)?;
        let mut locks = 0;
        for name in &names {
            let doing = format!("trying to drop {name}, which is to be replaced");
            let sql = schema::drop(client, name)?;
            client.run(&doing, &format!("BEGIN; {sql}"))?;
            locks += client.ask_value::<i64>(&doing, OWN_LOCKS, &[])?;
            client.run(&doing, "ROLLBACK")?;
        }
        let row = client.ask_row("asking for room for locks", LOCK_ROOM, &[])?;
        let (each, backends, held): (i64, i64, i64) = (row.read(0)?, row.read(1)?, row.read(2)?);
        if locks + held <= each.saturating_mul(backends) {
            return Ok(());
        }
        Err(self.refused(&format!(
            "one transaction replaces all {} schemas and takes {locks} locks; the server has room \
             for {} (max_locks_per_transaction={each}), and {held} are held; raise \
             max_locks_per_transaction to {} or more, or drop the data first (petal drop) and load \
             without --replace",
            names.len(),
            each.saturating_mul(backends),
            (locks + held) / backends.max(1) + 1
        )))
    }

    fn refused(&self, why: &str) -> EngineError {
        EngineError::Environment(format!("{}: {why}", self.endpoint.name))
    }
}
