//! Before a run the debts of the one before are paid: dead rows, hint bits, dirty pages.

use std::time::Instant;

use tokio_postgres::error::SqlState;

use super::client::Client;
use super::connect::{Endpoint, engine_error, server_version};
use super::{long_work, schema};
use crate::engine::{EngineError, Progress, ProgressUnit, Stop};
use crate::stats::target::Settled;

pub struct Settling<'a> {
    pub endpoint: &'a Endpoint,
    /// Whether autovacuum is to work on the main tables from now on.
    pub autovacuum: bool,
    pub progress: &'a dyn Progress,
    pub stop: &'a Stop,
}

impl Settling<'_> {
    /// Vacuums the main tables of `schemas` that were updated since, then checkpoints. A stop ends
    /// either at once.
    pub fn run(&self, schemas: &[u32]) -> Result<Settled, EngineError> {
        let begin = Instant::now();
        let server = self.endpoint.name.as_str();
        let mut client = long_work::open(self.endpoint, "petal settle")?.client;
        let is_over = || self.stop.is_requested();
        let mut pay = |work: &mut dyn FnMut(&mut Client) -> Result<bool, EngineError>| {
            long_work::until_over(self.endpoint, &mut client, &is_over, &|| (), work)
        };
        let is_standby = pay(&mut |client| {
            client
                .query_one("SELECT pg_is_in_recovery()", &[])
                .map(|row| row.get(0))
                .map_err(|error| engine_error(server, "settling", &error))
        })?;
        let schemas = if is_standby { &[] } else { schemas };
        self.progress.phase("settling", schemas.len() as u64 + 1, ProgressUnit::Items);
        let (mut vacuumed, mut as_asked) = (0, 0);
        for &number in schemas {
            if self.stop.is_requested() {
                return Err(EngineError::Interrupted);
            }
            vacuumed += usize::from(pay(&mut |client| vacuum(client, server, number))?);
            let mut switch =
                |client: &mut Client| set_autovacuum(client, server, number, self.autovacuum);
            as_asked += usize::from(pay(&mut switch)?);
            self.progress.advance(1);
        }
        let mut done = vec![format!("{vacuumed} main tables vacuumed")];
        let skipped = schemas.len() - vacuumed;
        if skipped > 0 {
            done.push(format!(
                "{skipped} main tables not vacuumed: the role may not (it must own them, or have \
                 MAINTAIN, version 17 and later); dead rows of the run before are cleared in this one"
            ));
        }
        if self.autovacuum {
            done.push(format!("autovacuum on for {as_asked} main tables"));
        }
        let others = schemas.len() - as_asked;
        if others > 0 {
            done.push(format!(
                "autovacuum of {others} main tables left as it is: the role must own them"
            ));
        }
        if pay(&mut |client| checkpoint(client, server))? {
            done.push("checkpoint".to_owned());
        } else {
            done.push(
                "no checkpoint: the role may not (GRANT pg_checkpoint, version 15 and later); \
                 dirty blocks of the run before are written in this one"
                    .to_owned(),
            );
        }
        self.progress.advance(1);
        Ok(Settled { seconds: begin.elapsed().as_secs_f64(), done, ..Settled::default() })
    }
}

/// Pages that are settled are passed over: a table that was not changed costs nothing. False where
/// the role may not.
fn vacuum(client: &mut Client, server: &str, number: u32) -> Result<bool, EngineError> {
    let name = format!("{}.cf1", schema::name(number));
    if !may_vacuum(client, server, &name)? {
        return Ok(false);
    }
    client
        .batch_execute(&format!("VACUUM {name}"))
        .map(|()| true)
        .map_err(|error| engine_error(server, &format!("vacuuming {name}"), &error))
}

/// Whether autovacuum works on the main table. False where it is not as asked and the role may not
/// change it.
fn set_autovacuum(
    client: &mut Client,
    server: &str,
    number: u32,
    on: bool,
) -> Result<bool, EngineError> {
    let name = format!("{}.cf1", schema::name(number));
    let failed = |error| engine_error(server, &format!("setting autovacuum of {name}"), &error);
    let is_on = client.query_one(AUTOVACUUM, &[&name]).map_err(failed)?.get::<_, bool>(0);
    if is_on == on {
        return Ok(true);
    }
    match client.batch_execute(&format!("ALTER TABLE {name} SET (autovacuum_enabled = {on})")) {
        Ok(()) => Ok(true),
        Err(error) if error.code() == Some(&SqlState::INSUFFICIENT_PRIVILEGE) => Ok(false),
        Err(error) => Err(failed(error)),
    }
}

const AUTOVACUUM: &str = "SELECT coalesce((SELECT option_value::boolean \
     FROM pg_options_to_table(reloptions) WHERE option_name = 'autovacuum_enabled'), true) \
     FROM pg_class WHERE oid = $1::text::regclass";

/// False where the role may not.
fn checkpoint(client: &mut Client, server: &str) -> Result<bool, EngineError> {
    match client.batch_execute("CHECKPOINT") {
        Ok(()) => Ok(true),
        Err(error) if error.code() == Some(&SqlState::INSUFFICIENT_PRIVILEGE) => Ok(false),
        Err(error) => Err(engine_error(server, "checkpointing", &error)),
    }
}

/// Asked before: VACUUM of a table that is not the role's is passed over with a mere warning.
fn may_vacuum(client: &mut Client, server: &str, table: &str) -> Result<bool, EngineError> {
    let maintain = match server_version(client, server)? {
        170_000.. => "has_table_privilege(c.oid, 'MAINTAIN')",
        _ => "false",
    };
    let sql = format!(
        "SELECT pg_has_role(c.relowner, 'USAGE') OR pg_has_role(d.datdba, 'USAGE') OR {maintain} \
         FROM pg_class c, pg_database d \
         WHERE c.oid = $1::text::regclass AND d.datname = current_database()"
    );
    client
        .query_one(&sql, &[&table])
        .map(|row| row.get(0))
        .map_err(|error| engine_error(server, &format!("asking who may vacuum {table}"), &error))
}
