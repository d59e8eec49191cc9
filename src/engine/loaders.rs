//! Several schemas loaded at once, by as many loaders as a plan has: the same for every database.
//! What a loader does with its schema is the engine's.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use parking_lot::Mutex;

use super::threads::Thread;
use super::{EngineError, LoadPlan};

/// Loads each schema of the plan and returns what came of them, in the plan's order. The flag tells
/// loaders that another failed; the first real reason is the error.
pub fn load_each<T: Send>(
    plan: &LoadPlan,
    failed: &AtomicBool,
    load: impl Fn(u32) -> Result<T, EngineError> + Sync,
) -> Result<Vec<T>, EngineError> {
    let next = AtomicUsize::new(0);
    let results: Mutex<Vec<(usize, Result<T, EngineError>)>> = Mutex::default();
    std::thread::scope(|scope| {
        for _ in 0..plan.loaders() {
            let started = Thread::named("loader").start_in(scope, || {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some(&schema) = plan.schemas.get(at) else { return };
                    if failed.load(Ordering::Relaxed) {
                        return;
                    }
                    let result = load(schema);
                    failed.fetch_or(result.is_err(), Ordering::Relaxed);
                    results.lock().push((at, result));
                }
            });
            if started.is_err() {
                failed.store(true, Ordering::Relaxed);
                return started.map(drop);
            }
        }
        Ok(())
    })?;
    let mut results = results.into_inner();
    results.sort_by_key(|(at, result)| {
        // Loaders that were stopped because another failed are not the reason.
        (matches!(result, Err(EngineError::Interrupted)), *at)
    });
    results.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::row::Filler;

    fn plan(degree: u32) -> LoadPlan {
        LoadPlan {
            schemas: (1..=9).collect(),
            rows: 1,
            scan_rows: 0,
            block_size: 8192,
            degree,
            unique_index: true,
            filler: Filler::Constant,
            seed: 1,
            replace: false,
        }
    }

    #[test]
    fn what_came_of_each_stands_in_the_plans_order() {
        for degree in [1, 4, 99] {
            let loaded = load_each(&plan(degree), &AtomicBool::new(false), |schema| Ok(schema * 2));
            assert_eq!(loaded.unwrap(), [2, 4, 6, 8, 10, 12, 14, 16, 18]);
        }
    }

    #[test]
    fn the_reason_is_told_and_not_who_was_stopped_by_it() {
        let failed = AtomicBool::new(false);
        let result = load_each(&plan(3), &failed, |schema| match schema {
            5 => Err(EngineError::Database("full".to_owned())),
            _ if failed.load(Ordering::Relaxed) => Err(EngineError::Interrupted),
            _ => Ok(()),
        });
        assert_eq!(result.unwrap_err().to_string(), "full");
        let none = load_each(&plan(1), &AtomicBool::new(false), |_| {
            Err::<(), _>(EngineError::Interrupted)
        });
        assert!(matches!(none, Err(EngineError::Interrupted)));
    }
}
