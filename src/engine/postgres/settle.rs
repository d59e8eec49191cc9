//! Before a run the debts of the one before are paid: dead rows, hint bits, dirty pages.

use std::time::Instant;

use tokio_postgres::error::SqlState;

use super::client::Client;
use super::connect::{Endpoint, engine_error};
use super::schema;
use crate::engine::{EngineError, Progress, ProgressUnit, Stop};
use crate::stats::target::Settled;

/// Vacuums the main tables of `schemas` that were updated since, then checkpoints.
pub fn settle(
    endpoint: &Endpoint,
    schemas: &[u32],
    progress: &dyn Progress,
    stop: &Stop,
) -> Result<Settled, EngineError> {
    let begin = Instant::now();
    let server = endpoint.name.as_str();
    let mut client = endpoint.connect("petal settle")?;
    let mut done = Vec::new();
    let is_standby: bool = client
        .query_one("SELECT pg_is_in_recovery()", &[])
        .map_err(|error| engine_error(server, "settling", &error))?
        .get(0);
    let schemas = if is_standby { &[] } else { schemas };
    progress.phase("settling", schemas.len() as u64 + 1, ProgressUnit::Items);
    let mut skipped = 0;
    for &number in schemas {
        if stop.is_requested() {
            return Err(EngineError::Interrupted);
        }
        let name = format!("{}.cf1", schema::name(number));
        if !may_vacuum(&mut client, server, &name)? {
            skipped += 1;
            progress.advance(1);
            continue;
        }
        // Pages that are settled are passed over: a table that was not changed costs nothing.
        client
            .batch_execute(&format!("VACUUM {name}"))
            .map_err(|error| engine_error(server, &format!("vacuuming {name}"), &error))?;
        progress.advance(1);
    }
    done.push(format!("{} main tables vacuumed", schemas.len() - skipped));
    if skipped > 0 {
        done.push(format!(
            "{skipped} main tables not vacuumed: the role may not (it must own them, or have \
             MAINTAIN, version 17 and later); dead rows of the run before are cleared in this one"
        ));
    }
    match client.batch_execute("CHECKPOINT") {
        Ok(()) => done.push("checkpoint".to_owned()),
        Err(error) if error.code() == Some(&SqlState::INSUFFICIENT_PRIVILEGE) => done.push(
            "no checkpoint: the role may not (GRANT pg_checkpoint, version 15 and later); dirty \
             blocks of the run before are written in this one"
                .to_owned(),
        ),
        Err(error) => return Err(engine_error(server, "checkpointing", &error)),
    }
    progress.advance(1);
    Ok(Settled { seconds: begin.elapsed().as_secs_f64(), done, ..Settled::default() })
}

/// Asked before: VACUUM of a table that is not the role's is passed over with a mere warning.
fn may_vacuum(client: &mut Client, server: &str, table: &str) -> Result<bool, EngineError> {
    let maintain = match super::server_version(client, server)? {
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
