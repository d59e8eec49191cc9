//! Who uses petal's tables: a run keeps petal_meta locked in a mode that runs share; setup and drop ask
//! for it alone, and are refused while it is. The lock ends with its session.

use parking_lot::Mutex;

use super::errors::engine_error;
use super::link::Link;
use super::sql;
use crate::engine::EngineError;
use crate::engine::in_use::DataUse;

/// Somebody else holds the lock.
const BUSY: u32 = 54;

/// Held by a run.
pub struct MetaInUse {
    _link: Mutex<Box<dyn Link>>,
}

impl DataUse for MetaInUse {}

/// Locks petal_meta for a run, in a transaction that stays open.
pub fn begin(mut link: Box<dyn Link>, place: &str) -> Result<MetaInUse, EngineError> {
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
