//! The routine inside the server: made when it is missing or older than this petal.

use super::client::Client;
use super::connect::engine_error;
use super::schema::{self, ROUTINE_VERSION};
use super::work::Work;
use crate::engine::EngineError;

const COMMENT: &str = "loop of petal, version ";

/// Sees to it that a schema has this petal's routine; asked once per schema and petal.
pub fn ensure(work: &mut Work, number: u32) -> Result<(), EngineError> {
    let shared = std::sync::Arc::clone(&work.shared);
    // Sessions connect at once: the first makes it, the others wait.
    let mut known = shared.routines.lock();
    if known.contains(&number) {
        return Ok(());
    }
    make(&mut work.client, &work.server, number)?;
    known.insert(number);
    Ok(())
}

/// Makes it unless it is there.
pub fn make(client: &mut Client, server: &str, number: u32) -> Result<(), EngineError> {
    let name = schema::name(number);
    match version(client, server, &name)? {
        Some(version) if version == ROUTINE_VERSION => return Ok(()),
        Some(version) if version > ROUTINE_VERSION => {
            return Err(EngineError::Data(format!(
                "{server}: {name}.petal_run is of a newer petal (version {version}, not \
                 {ROUTINE_VERSION}); use that petal, or LOOP=client"
            )));
        }
        _ => {}
    }
    let sql = format!(
        "DO $$ BEGIN EXECUTE (SELECT string_agg('DROP PROCEDURE ' || oid::regprocedure, '; ') \
         FROM pg_proc WHERE proname = 'petal_run' AND pronamespace = '{name}'::regnamespace \
         HAVING count(*) > 0); EXCEPTION WHEN null_value_not_allowed THEN END $$; \
         {} COMMENT ON PROCEDURE {name}.petal_run IS '{COMMENT}{ROUTINE_VERSION}'",
        schema::routine(&name)
    );
    client.batch_execute(&sql).map_err(|error| {
        engine_error(server, &format!("making {name}.petal_run (LOOP=client needs none)"), &error)
    })
}

fn version(client: &mut Client, server: &str, name: &str) -> Result<Option<u32>, EngineError> {
    let rows = client
        .query(
            "SELECT obj_description(oid, 'pg_proc') FROM pg_proc \
             WHERE proname = 'petal_run' AND pronamespace = $1::text::regnamespace",
            &[&name],
        )
        .map_err(|error| engine_error(server, "looking for petal's routine", &error))?;
    let comment = rows.first().and_then(|row| row.get::<_, Option<String>>(0));
    Ok(comment.and_then(|comment| comment.strip_prefix(COMMENT)?.parse().ok()))
}
