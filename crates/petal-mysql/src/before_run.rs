//! Preparations before a run. petal asks, before any session connects, whether the server takes the
//! run's UPDATEs; the user's other privileges are for `petal check`. Then the storage engine pays
//! the debts of the run before.

use std::time::Instant;

use super::connect::Endpoint;
use super::settling::Settling;
use super::{schema, storage_engines};
use petal_engine::{Progress, ProgressUnit, Result, Stop};
use petal_model::stats::target::{Privilege, Settled};

/// An UPDATE of no row: it needs the same privileges as an UPDATE of rows.
fn try_update(schema: u32) -> String {
    format!("UPDATE {}_cf1 SET c2 = c2 WHERE custid = 0", schema::name(schema))
}

/// Refuses a run with UPDATEs that is sure to fail.
pub fn check_updates(endpoint: &Endpoint, schemas: u32) -> Result<()> {
    let mut client = endpoint.connect()?;
    for schema in 1..=schemas {
        let doing = format!(
            "an UPDATE of {}_cf1, which this run makes (UPDATE_PCT=0 makes none)",
            schema::name(schema)
        );
        client.send(&doing, &try_update(schema))?;
    }
    Ok(())
}

/// The user's privileges at a server, by petal's steps there. Without `schemas`, privileges on
/// their tables are unknown.
pub fn privileges(endpoint: &Endpoint, schemas: &[u32]) -> Result<Vec<Privilege>> {
    let mut client = endpoint.connect()?;
    let storage = match schemas {
        [] => endpoint.storage,
        _ => storage_engines::of_data(&mut client)?,
    };
    let mut privileges = Vec::new();
    if let Some(&first) = schemas.first() {
        privileges.push(Privilege {
            what: "UPDATEs".to_owned(),
            is_granted: client.run(&try_update(first)).is_ok(),
            is_needed: false,
            without: "The user can only run with UPDATE_PCT=0.".to_owned(),
            advice: "GRANT SELECT, UPDATE ON the database TO the user".to_owned(),
        });
    }
    let texts = storage.texts();
    let proof = format!("SELECT 1 FROM {} LIMIT 1", texts.proof_view);
    privileges.push(Privilege {
        what: "block statistics".to_owned(),
        is_granted: client.query::<i64>(&proof).is_ok(),
        is_needed: schemas.is_empty(),
        without: "A load cannot be proved, so the user cannot load here.".to_owned(),
        advice: texts.proof_grant.to_owned(),
    });
    privileges.push(match schemas.first() {
        // For loaded data the description says whether I/O is timed.
        None => Privilege {
            what: "I/O timing".to_owned(),
            is_granted: storage.is_timed(&mut client),
            is_needed: false,
            without: "The latency of a single-block read is then unknown.".to_owned(),
            advice: texts.untimed.to_owned(),
        },
        Some(&first) => Privilege {
            what: "flush".to_owned(),
            is_granted: storage.flush(&mut client, first).is_ok(),
            is_needed: false,
            without: "Changes that a run left in memory are then written in the next one, within \
                      its figures."
                .to_owned(),
            advice: texts.flush_grant.to_owned(),
        },
    });
    Ok(privileges)
}

/// Has the storage engine pay the debts of earlier work.
pub fn settle(
    endpoint: &Endpoint,
    schemas: &[u32],
    progress: &dyn Progress,
    stop: &Stop,
) -> Result<Settled> {
    let begin = Instant::now();
    let mut client = endpoint.connect_for_long()?;
    let storage = storage_engines::of_data(&mut client)?;
    progress.phase("settling", schemas.len() as u64 + 1, ProgressUnit::Items);
    let kill_query = |id| endpoint.kill_query(id);
    let settling = Settling { kill_query: &kill_query, schemas, progress, stop };
    let done = storage.settle(&settling, &mut client)?;
    Ok(Settled { seconds: begin.elapsed().as_secs_f64(), done, ..Settled::default() })
}
