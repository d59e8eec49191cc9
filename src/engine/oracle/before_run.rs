//! Before a run: a log switch and a checkpoint, so that it does not pay for the run before; and a
//! lock on petal_meta, shared by runs, which refuses setup and drop until its session ends.

use std::time::Instant;

use parking_lot::Mutex;

use super::database::Database;
use super::errors::is_missing;
use super::sql;
use crate::engine::in_use::DataUse;
use crate::engine::{EngineError, Progress, ProgressUnit, Result, Stop};
use crate::stats::target::Settled;

/// Somebody else holds the lock.
const BUSY: u32 = 54;

/// Switches the log and checkpoints, where the user may.
pub fn settle(database: &mut Database, progress: &dyn Progress, stop: &Stop) -> Result<Settled> {
    let begin = Instant::now();
    let steps = [
        ("switch_log", "rds_switch_log", "log switch"),
        ("checkpoint", "rds_checkpoint", "checkpoint"),
    ];
    progress.phase("settling", steps.len() as u64, ProgressUnit::Items);
    let mut done = Vec::new();
    for (name, in_rds, step) in steps {
        if stop.is_requested() {
            return Err(EngineError::Interrupted);
        }
        match database.link.execute(&sql::section(sql::OPERATIONS, name), &[]) {
            Ok(_) => done.push(step.to_owned()),
            // Amazon RDS grants no ALTER SYSTEM, but has procedures in its place.
            Err(error) if is_missing(&error) && rds(database, in_rds) => {
                done.push(format!("{step} (rdsadmin)"));
            }
            Err(error) if is_missing(&error) => done.push(format!(
                "no {step}: the user may not ({}; GRANT ALTER SYSTEM, or DBA_PRIV_USER); what the \
                 run before left is written in this one",
                error.name()
            )),
            Err(error) => return Err(database.error(step, &error)),
        }
        progress.advance(1);
    }
    Ok(Settled { seconds: begin.elapsed().as_secs_f64(), done, ..Settled::default() })
}

/// Calls a procedure of Amazon RDS; false where there is none.
fn rds(database: &mut Database, name: &str) -> bool {
    database.link.execute(&sql::section(sql::OPERATIONS, name), &[]).is_ok()
}

/// The lock of a run on petal_meta.
pub struct MetaInUse {
    _database: Mutex<Database>,
}

impl DataUse for MetaInUse {}

/// Locks petal_meta for a run, in a transaction that stays open.
pub fn begin_use(mut database: Database) -> Result<MetaInUse> {
    database.execute("marking petal_meta as in use", &sql::section(sql::LOAD, "lock_for_run"))?;
    Ok(MetaInUse { _database: Mutex::new(database) })
}

/// Refuses while a run uses petal's tables.
pub fn refuse_in_use(database: &mut Database) -> Result<()> {
    match database.link.execute(&sql::section(sql::LOAD, "lock_alone"), &[]) {
        Ok(_) => Ok(()),
        Err(error) if error.code == Some(BUSY) => Err(EngineError::Environment(format!(
            "{}: another petal uses petal's tables ({error}); wait until it is done, or stop it",
            database.place
        ))),
        Err(error) => Err(database.error("locking petal_meta", &error)),
    }
}
