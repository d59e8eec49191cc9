//! Before a run the debts of the one before are paid: a log switch and a checkpoint, where the user
//! may.

use std::time::Instant;

use super::errors::{engine_error, is_missing};
use super::link::Link;
use super::sql;
use crate::engine::{EngineError, Progress, ProgressUnit, Stop};
use crate::stats::target::Settled;

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
    for (name, told) in steps {
        if stop.is_requested() {
            return Err(EngineError::Interrupted);
        }
        match link.execute(&sql::section(sql::OPERATIONS, name), &[]) {
            Ok(_) => done.push(told.to_owned()),
            Err(error) if is_missing(&error) => done.push(format!(
                "no {told}: the user may not ({}; GRANT ALTER SYSTEM, or DBA_PRIV_USER); what the \
                 run before left is written in this one",
                error.name()
            )),
            Err(error) => return Err(engine_error(place, told, &error)),
        }
        progress.advance(1);
    }
    Ok(Settled { seconds: begin.elapsed().as_secs_f64(), done, ..Settled::default() })
}
