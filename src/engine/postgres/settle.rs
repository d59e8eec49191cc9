//! Before a run the debts of the one before are paid: dead rows, hint bits, dirty pages.

use std::time::Instant;

use tokio_postgres::error::SqlState;

use super::client::Client;
use super::connect::{Endpoint, engine_error, server_version};
use super::{long_work, schema};
use crate::engine::{EngineError, Progress, ProgressUnit, Stop};
use crate::stats::target::Settled;

/// Vacuums the main tables of `schemas` that were updated since, then checkpoints. A stop ends
/// either at once.
pub fn settle(
    endpoint: &Endpoint,
    schemas: &[u32],
    progress: &dyn Progress,
    stop: &Stop,
) -> Result<Settled, EngineError> {
    let begin = Instant::now();
    let server = endpoint.name.as_str();
    let mut client = long_work::open(endpoint, "petal settle")?.client;
    let is_over = || stop.is_requested();
    let mut pay = |work: &mut dyn FnMut(&mut Client) -> Result<bool, EngineError>| {
        long_work::until_over(endpoint, &mut client, &is_over, &|| (), work)
    };
    let is_standby = pay(&mut |client| {
        client
            .query_one("SELECT pg_is_in_recovery()", &[])
            .map(|row| row.get(0))
            .map_err(|error| engine_error(server, "settling", &error))
    })?;
    let schemas = if is_standby { &[] } else { schemas };
    progress.phase("settling", schemas.len() as u64 + 1, ProgressUnit::Items);
    let mut vacuumed = 0;
    for &number in schemas {
        if stop.is_requested() {
            return Err(EngineError::Interrupted);
        }
        vacuumed += usize::from(pay(&mut |client| vacuum(client, server, number))?);
        progress.advance(1);
    }
    let mut done = vec![format!("{vacuumed} main tables vacuumed")];
    let skipped = schemas.len() - vacuumed;
    if skipped > 0 {
        done.push(format!(
            "{skipped} main tables not vacuumed: the role may not (it must own them, or have \
             MAINTAIN, version 17 and later); dead rows of the run before are cleared in this one"
        ));
    }
    done.push(match pay(&mut |client| checkpoint(client, server))? {
        true => "checkpoint".to_owned(),
        false => "no checkpoint: the role may not (GRANT pg_checkpoint, version 15 and later); \
                  dirty blocks of the run before are written in this one"
            .to_owned(),
    });
    progress.advance(1);
    Ok(Settled { seconds: begin.elapsed().as_secs_f64(), done, ..Settled::default() })
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
