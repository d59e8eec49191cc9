//! Before a run the debts of the one before are paid: dead rows, hint bits, dirty pages.

use std::time::Instant;

use tokio_postgres::error::SqlState;

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
    for &number in schemas {
        if stop.is_requested() {
            return Err(EngineError::Interrupted);
        }
        let name = format!("{}.cf1", schema::name(number));
        // Pages that are settled are passed over: a table that was not changed costs nothing.
        client
            .batch_execute(&format!("VACUUM {name}"))
            .map_err(|error| engine_error(server, &format!("vacuuming {name}"), &error))?;
        progress.advance(1);
    }
    done.push(format!("{} main tables vacuumed", schemas.len()));
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
