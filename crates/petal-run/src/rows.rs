//! Checks that the loaded rows still exist: a session requests them like a run, by key through the
//! index, so that the check is the same for every engine.

use std::time::{Duration, Instant};

use petal_engine::{Batch, Engine, EngineError, INTERRUPTED, Outcomes, Result, SessionError, Stop};
use petal_record::target::{LoadedSchema, RowsFound};
use petal_workload::op::Operation;
use petal_workload::scatter::Permutation;
use petal_workload::seat::{Role, Seat};

/// Rows of one SELECT.
const RANGE_ROWS: u64 = 64;
/// Operations between two looks at the clock.
const BATCH: usize = 16;
/// Fixed seed: the same ranges are checked each time.
const SEED: u64 = 1;

/// Looks for a schema's rows: the first keys, the last, then ranges over the rest, in scattered
/// order, until all were checked or `limit` is over.
pub fn look(engine: &dyn Engine, schema: &LoadedSchema, limit: Duration) -> Result<RowsFound> {
    let seat = Seat { session: 1, schema: schema.number, endpoint: 0, role: Role::Reader };
    let mut session = engine.connect_reader(seat)?;
    let stop = Stop::unlimited(std::sync::Arc::default());
    let began = Instant::now();
    let mut found = RowsFound { loaded: schema.rows, ..RowsFound::default() };
    let mut ranges = ranges(schema).peekable();
    while ranges.peek().is_some() && (found.looked_for == 0 || began.elapsed() < limit) {
        let batch: Vec<Operation> = ranges.by_ref().take(BATCH).collect();
        let mut done = Outcomes::default();
        session.execute(Batch::new(&batch, &stop, &mut done)).map_err(unreadable)?;
        for outcome in &done.ended {
            if let Some(code) = outcome.error.as_deref() {
                return Err(unreadable(SessionError {
                    code: code.to_owned(),
                    message: "a SELECT failed".to_owned(),
                }));
            }
            found.looked_for += u64::from(batch[outcome.operation as usize].rows);
            found.found = found.found.saturating_add(outcome.rows);
        }
    }
    Ok(found)
}

fn unreadable(error: SessionError) -> EngineError {
    match error.code.as_str() {
        INTERRUPTED => EngineError::Interrupted,
        _ => EngineError::Database(format!("looking for the rows failed: {error}")),
    }
}

/// Returns SELECTs that visit each key once.
fn ranges(schema: &LoadedSchema) -> impl Iterator<Item = Operation> + use<> {
    let (rows, number) = (schema.rows, schema.number);
    let all = rows.div_ceil(RANGE_ROWS);
    let ends = [0, all.saturating_sub(1)];
    let scattered = Permutation::new(all.max(1), SEED);
    let rest = (0..all).map(move |at| scattered.apply(at)).filter(move |at| !ends.contains(at));
    let ends = ends.into_iter().take(all.min(2) as usize);
    ends.chain(rest).map(move |at| {
        let first = at * RANGE_ROWS + 1;
        let rows = RANGE_ROWS.min(rows - first + 1) as u32;
        Operation::select(number, first, rows)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn schema(rows: u64) -> LoadedSchema {
        LoadedSchema { number: 1, rows, block_size: 8192, ..LoadedSchema::default() }
    }

    proptest! {
        #[test]
        fn each_key_is_looked_for_once(rows in 1u64..5000) {
            let mut keys: Vec<u64> =
                ranges(&schema(rows)).flat_map(|range| range.first..=range.last()).collect();
            keys.sort_unstable();
            prop_assert_eq!(keys, (1..=rows).collect::<Vec<u64>>());
        }
    }

    #[test]
    fn both_ends_come_first() {
        let firsts: Vec<u64> = ranges(&schema(10_000)).take(2).map(|range| range.first).collect();
        assert_eq!(firsts, [1, 9985]);
    }
}
