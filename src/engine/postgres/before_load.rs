//! What a load needs, asked before its first row is written: a server that takes writes, privileges,
//! the tablespace, free space, and the locks on what it is going to replace.

use std::path::{Path, PathBuf};

use super::client::{Client, Error};
use super::connect::{Endpoint, engine_error};
use super::load::marked_schemas;
use super::{host, schema};
use crate::engine::{EngineError, LoadPlan};
use crate::stats::units::bytes;

/// The index has about so much of its table's bytes, at the smallest block size that servers have.
const INDEX_SHARE: f64 = 0.01;

/// A load that is about to begin.
pub struct BeforeLoad<'a> {
    pub endpoint: &'a Endpoint,
    pub plan: &'a LoadPlan,
    pub tablespace: Option<&'a str>,
}

impl BeforeLoad<'_> {
    /// Refuses a load that is sure to fail.
    pub fn check(&self, client: &mut Client) -> Result<(), EngineError> {
        self.check_writable(client)?;
        let folder = self.check_tablespace(client)?;
        self.check_owner(client)?;
        self.check_room(client, &folder)?;
        if self.plan.replace { self.check_locks(client) } else { Ok(()) }
    }

    fn check_writable(&self, client: &mut Client) -> Result<(), EngineError> {
        let sql = "SELECT pg_is_in_recovery(), current_setting('transaction_read_only')::boolean, \
                   has_database_privilege(current_database(), 'CREATE'), current_user::text, \
                   current_database()::text";
        let row = client.query_one(sql, &[]).map_err(|error| self.failed("looking", &error))?;
        let (role, database): (&str, &str) = (row.get(3), row.get(4));
        if row.get(0) {
            return Err(self.refused("is a standby, which only reads; name its primary"));
        }
        if row.get(1) {
            return Err(self.refused(&format!(
                "role {role} only reads (default_transaction_read_only); load with another role"
            )));
        }
        if !row.get::<_, bool>(2) {
            return Err(self.refused(&format!(
                "role {role} may not create schemas in database {database}; GRANT CREATE ON \
                 DATABASE {database} TO {role}"
            )));
        }
        Ok(())
    }

    /// The tablespace must be there, and be open to the role. Its folder; empty: the server's own.
    fn check_tablespace(&self, client: &mut Client) -> Result<String, EngineError> {
        // Without a name the session's default goes before the database's.
        let sql = "SELECT pg_tablespace_location(oid), \
                          has_tablespace_privilege(oid, 'CREATE') OR oid = (SELECT dattablespace \
                              FROM pg_database WHERE datname = current_database()) \
                   FROM pg_tablespace WHERE spcname = coalesce($1, \
                       nullif(current_setting('default_tablespace'), ''), \
                       (SELECT spcname FROM pg_database d JOIN pg_tablespace t ON t.oid = dattablespace \
                        WHERE datname = current_database()))";
        let doing = "asking for the tablespace";
        let rows =
            client.query(sql, &[&self.tablespace]).map_err(|error| self.failed(doing, &error))?;
        let Some(row) = rows.first() else {
            let all = "SELECT string_agg(spcname, ', ' ORDER BY spcname) FROM pg_tablespace \
                       WHERE spcname <> 'pg_global'";
            let there: Option<String> =
                client.query_one(all, &[]).map_err(|error| self.failed(doing, &error))?.get(0);
            return Err(self.refused(&format!(
                "there is no tablespace {}; name one of {} (CREATE TABLESPACE makes one)",
                self.tablespace.unwrap_or("of default_tablespace"),
                there.unwrap_or_default()
            )));
        };
        match row.get(1) {
            true => Ok(row.get(0)),
            false => Err(self.refused(&format!(
                "the role may not use tablespace {}; GRANT CREATE ON TABLESPACE to it",
                self.tablespace.unwrap_or_default()
            ))),
        }
    }

    /// What is replaced, and what a load left that was cut off, can be dropped only by its owner.
    fn check_owner(&self, client: &mut Client) -> Result<(), EngineError> {
        for name in self.to_drop(client)? {
            let sql = "SELECT pg_has_role(nspowner, 'USAGE'), pg_get_userbyid(nspowner)::text \
                       FROM pg_namespace WHERE nspname = $1";
            let rows = client
                .query(sql, &[&name])
                .map_err(|error| self.failed(&format!("asking who owns {name}"), &error))?;
            let Some(row) = rows.first().filter(|row| !row.get::<_, bool>(0)) else { continue };
            return Err(self.refused(&format!(
                "schema {name} is in the way and belongs to role {}, who alone may drop it; load \
                 with that role",
                row.get::<_, &str>(1)
            )));
        }
        Ok(())
    }

    /// Schemas of petal's that this load drops.
    fn to_drop(&self, client: &mut Client) -> Result<Vec<String>, EngineError> {
        let marked = marked_schemas(client, &self.endpoint.name)?;
        let replaced = |name: &str| {
            self.plan.replace
                && schema::number(name).is_some_and(|number| self.plan.schemas.contains(&number))
        };
        let dropped = |name: &str| name.ends_with("_loading") || replaced(name);
        let names = marked.into_iter().filter(|(name, petals)| *petals && dropped(name));
        Ok(names.map(|(name, _)| name).collect())
    }

    /// Where the folder of the data is seen from here. The data that are replaced stay until the
    /// new ones are there.
    fn check_room(&self, client: &mut Client, tablespace: &str) -> Result<(), EngineError> {
        let Some(data_directory) = host::local_data_directory(self.endpoint, client) else {
            return Ok(());
        };
        let folder = match tablespace {
            "" => data_directory,
            folder => PathBuf::from(folder),
        };
        let Some(free_bytes) = free_bytes(&folder) else { return Ok(()) };
        let needed_bytes = needed_bytes(self.plan);
        if free_bytes >= needed_bytes {
            return Ok(());
        }
        Err(self.refused(&format!(
            "the load needs {}, and {} are free in {}; use fewer or smaller schemas, make room, or \
             name another tablespace",
            bytes(needed_bytes),
            bytes(free_bytes),
            folder.display()
        )))
    }

    /// Who holds a lock on what is to be replaced is found now, not when all is loaded.
    fn check_locks(&self, client: &mut Client) -> Result<(), EngineError> {
        for name in self.to_drop(client)? {
            let doing = format!("locking {name}, which is to be replaced");
            let failed = |error: Error| self.failed(&doing, &error);
            let sql = "SELECT string_agg(format('%I.%I', $1::text, relname), ', ') FROM pg_class \
                       WHERE relnamespace = $1::text::regnamespace AND relkind = 'r' \
                       AND pg_has_role(relowner, 'USAGE')";
            let tables: Option<String> = client.query_one(sql, &[&name]).map_err(failed)?.get(0);
            let Some(tables) = tables else { continue };
            let sql = format!("BEGIN; LOCK TABLE {tables} IN ACCESS EXCLUSIVE MODE; ROLLBACK");
            client.batch_execute(&sql).map_err(failed)?;
        }
        Ok(())
    }

    fn refused(&self, why: &str) -> EngineError {
        EngineError::Environment(format!("{}: {why}", self.endpoint.name))
    }

    fn failed(&self, doing: &str, error: &Error) -> EngineError {
        engine_error(&self.endpoint.name, doing, error)
    }
}

fn free_bytes(folder: &Path) -> Option<u64> {
    let room = rustix::fs::statvfs(folder).ok()?;
    Some(room.f_bavail.saturating_mul(room.f_frsize))
}

/// Tables and index of all schemas; the log comes on top.
fn needed_bytes(plan: &LoadPlan) -> u64 {
    let block_bytes = u64::from(plan.block_size);
    let main_bytes = plan.rows.saturating_mul(block_bytes);
    let index_bytes = (main_bytes as f64 * INDEX_SHARE) as u64;
    let scan_bytes = plan.scan_rows.saturating_mul(block_bytes);
    let schema_bytes = main_bytes.saturating_add(index_bytes).saturating_add(scan_bytes);
    schema_bytes.saturating_mul(plan.schemas.len() as u64)
}
