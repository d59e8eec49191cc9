//! The frame of LOOP=client: one statement per operation, as an application would send them. The
//! round trips are part of each latency, on petal's own clock.

use std::time::Instant;

use super::failure::Failure;
use crate::{Batch, Outcome, SessionError};
use petal_workload::op::Operation;

/// Executes an operation, an UPDATE with its commit; returns its rows. Rolls a failure back.
pub type Execute<'a> = dyn FnMut(&Operation) -> Result<u64, Failure> + 'a;

/// Executes a batch.
pub fn run(batch: Batch<'_>, execute: &mut Execute<'_>) -> Result<(), SessionError> {
    let Batch { operations, stop, done, .. } = batch;
    let mut begin = Instant::now();
    for (operation, index) in operations.iter().zip(0..) {
        if stop.is_due(begin) {
            break;
        }
        let (rows, error) = match execute(operation) {
            Ok(rows) => (rows, None),
            Err(Failure::Counted(code)) => (0, Some(code)),
            Err(Failure::Fatal(error)) => return Err(error),
        };
        let end = Instant::now();
        done.ended.push(Outcome::timed(index, (begin, end), stop, rows, error));
        begin = end;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::scripted::{operation, session_error};
    use super::*;
    use crate::{Outcomes, Stop};
    use petal_workload::op::Kind;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU8, Ordering};

    #[test]
    fn operations_go_one_by_one_until_a_stop_or_the_loss_of_the_session() {
        let level = Arc::<AtomicU8>::default();
        let stop = Stop::unlimited(Arc::clone(&level));
        let batch: Vec<Operation> =
            (1..=4).map(|first| operation(Kind::Select, 1, first, 1)).collect();
        let mut done = Outcomes::default();
        run(Batch::new(&batch, &stop, &mut done), &mut |operation| match operation.first {
            2 => Err(Failure::Counted("busy".into())),
            3 => {
                level.store(1, Ordering::Relaxed);
                Ok(9)
            }
            first => Ok(first),
        })
        .unwrap();
        let ended: Vec<(u32, u64, Option<&str>)> =
            done.ended.iter().map(|one| (one.operation, one.rows, one.error.as_deref())).collect();
        assert_eq!(ended, [(0, 1, None), (1, 0, Some("busy")), (2, 9, None)]);
        level.store(0, Ordering::Relaxed);
        let lost =
            run(Batch::new(&batch, &stop, &mut done), &mut |_| Err(session_error("gone").into()));
        assert_eq!((lost.unwrap_err().code.as_str(), done.ended.len()), ("gone", 3));
    }
}
