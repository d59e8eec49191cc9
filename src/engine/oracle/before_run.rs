//! Preparations before a run: a log switch and a checkpoint, so that a run does not pay for the
//! one before; and a lock on petal_meta, which runs share, so that setup and drop are refused while
//! a run uses the data. The lock ends with its session.

use std::time::Instant;

use parking_lot::Mutex;

use super::errors::{engine_error, is_missing};
use super::link::Link;
use super::sql;
use crate::engine::in_use::DataUse;
use crate::engine::{EngineError, Progress, ProgressUnit, Stop};
use crate::stats::target::Settled;

/// Somebody else holds the lock.
const BUSY: u32 = 54;

/// Switches the log and checkpoints, where the user may.
pub fn settle(
    link: &mut dyn Link,
    place: &str,
    progress: &dyn Progress,
    stop: &Stop,
) -> Result<Settled, EngineError> {
    let begin = Instant::now();
    let steps = [("switch_log", "log switch"), ("checkpoint", "checkpoint")];
    progress.phase("settling", steps.len() as u64, ProgressUnit::Items);
    let mut done = Vec::new();
    for (name, step) in steps {
        if stop.is_requested() {
            return Err(EngineError::Interrupted);
        }
        match link.execute(&sql::section(sql::OPERATIONS, name), &[]) {
            Ok(_) => done.push(step.to_owned()),
            Err(error) if is_missing(&error) => done.push(format!(
                "no {step}: the user may not ({}; GRANT ALTER SYSTEM, or DBA_PRIV_USER); what the \
                 run before left is written in this one",
                error.name()
            )),
            Err(error) => return Err(engine_error(place, step, &error)),
        }
        progress.advance(1);
    }
    Ok(Settled { seconds: begin.elapsed().as_secs_f64(), done, ..Settled::default() })
}

/// The lock of a run on petal_meta.
pub struct MetaInUse {
    _link: Mutex<Box<dyn Link>>,
}

impl DataUse for MetaInUse {}

/// Locks petal_meta for a run, in a transaction that stays open.
pub fn begin_use(mut link: Box<dyn Link>, place: &str) -> Result<MetaInUse, EngineError> {
    link.execute(&sql::section(sql::LOAD, "lock_for_run"), &[])
        .map_err(|error| engine_error(place, "marking petal_meta as in use", &error))?;
    Ok(MetaInUse { _link: Mutex::new(link) })
}

/// Refuses while a run uses petal's tables.
pub fn refuse_in_use(link: &mut dyn Link, place: &str) -> Result<(), EngineError> {
    match link.execute(&sql::section(sql::LOAD, "lock_alone"), &[]) {
        Ok(_) => Ok(()),
        Err(error) if error.code == Some(BUSY) => Err(EngineError::Environment(format!(
            "{place}: another petal uses petal's tables ({error}); wait until it is done, or stop it"
        ))),
        Err(error) => Err(engine_error(place, "locking petal_meta", &error)),
    }
}
