//! The skeleton of a load. An engine checks that its names are free, loads each schema under
//! another name, proves one row per block, and gives all schemas their final names at the very end:
//! a load that is cut off leaves nothing that counts as loaded. After a failure it cleans up.
//! Schemas load at once, and one schema's rows in ranges if there are more connections than
//! schemas.

use petal_host::numbers::whole;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Instant;

use parking_lot::Mutex;

use crate::threads::Thread;
use crate::{
    EngineError, LoadPlan, LoadSummary, LoadedSchemaSummary, Placement, Progress, ProgressUnit,
    Result, Stop,
};
use petal_settings::size::format_bytes;
use petal_settings::table::EngineSupport;

/// A load.
#[derive(Clone, Copy)]
pub struct Load<'a> {
    pub plan: &'a LoadPlan,
    pub progress: &'a dyn Progress,
    pub stop: &'a Stop,
}

/// Facts about the whole load that a loader of one schema needs.
pub struct LoadState<'a> {
    stop: &'a Stop,
    failed: Arc<AtomicBool>,
    /// Connections of LOAD_PARALLEL_DEGREE that each schema of this round has.
    pub sessions: u64,
}

/// A schema that is loaded and proved under its loading name.
pub struct ProvedSchema {
    pub summary: LoadedSchemaSummary,
    /// Time at which its rows and index were durable, if known apart from the proof.
    pub durable: Option<Instant>,
}

/// A load that is complete.
pub struct Loaded {
    pub schemas: Vec<LoadedSchemaSummary>,
    pub begin: Instant,
    /// Time at which the last schema was durable.
    pub durable: Option<Instant>,
    pub proved: Instant,
    /// Time at which all schemas had their final names.
    pub named: Instant,
}

impl Load<'_> {
    /// Loads the plan's schemas, several at once: all of them or none. `give_names` makes them
    /// complete; `clean_up` removes, as far as it can, the remains of a failure.
    pub fn run(
        &self,
        load_schema: &(dyn Fn(u32, &LoadState<'_>) -> Result<ProvedSchema> + Sync),
        give_names: impl FnOnce() -> Result<()>,
        clean_up: impl FnOnce() -> Result<()>,
    ) -> Result<Loaded> {
        self.run_in_rounds(&[&self.plan.schemas], load_schema, give_names, clean_up)
    }

    /// Loads the plan's schemas as [`Self::run`] does, each round's when those before it are
    /// loaded.
    pub fn run_in_rounds(
        &self,
        rounds: &[&[u32]],
        load_schema: &(dyn Fn(u32, &LoadState<'_>) -> Result<ProvedSchema> + Sync),
        give_names: impl FnOnce() -> Result<()>,
        clean_up: impl FnOnce() -> Result<()>,
    ) -> Result<Loaded> {
        let begin = Instant::now();
        let mut state = LoadState { stop: self.stop, failed: Arc::default(), sessions: 1 };
        let degree = self.plan.degree as usize;
        let mut load_round = |round: &&[u32]| {
            state.sessions = (degree / round.len().max(1)).max(1) as u64;
            map_parallel(degree, round, &state.failed, |&schema| load_schema(schema, &state))
        };
        let loaded: Result<Vec<_>> = rounds.iter().map(&mut load_round).collect();
        let loaded = loaded.and_then(|rounds| {
            let schemas = rounds.into_iter().flatten().collect::<Vec<_>>();
            state.go_on()?;
            let proved = Instant::now();
            give_names()?;
            Ok((schemas, proved))
        });
        let (schemas, proved) =
            loaded.inspect_err(|error| self.note_clean_up(error, clean_up()))?;
        Ok(Loaded {
            begin,
            durable: schemas.iter().filter_map(|schema| schema.durable).max(),
            proved,
            named: Instant::now(),
            schemas: schemas.into_iter().map(|schema| schema.summary).collect(),
        })
    }

    /// Says whether the remains of a load that failed were removed.
    fn note_clean_up(&self, failure: &EngineError, cleaned: Result<()>) {
        match (failure, cleaned) {
            (EngineError::Interrupted, Ok(())) => {
                self.progress.note("unfinished schemas were removed");
            }
            (_, Ok(())) => {}
            (_, Err(why)) => self.progress.note(&format!(
                "unfinished schemas stay, which no run accepts ({why}); the next setup or petal drop \
                 removes them"
            )),
        }
    }

    /// Shows the bytes of all rows as the phase that begins.
    pub fn show_loading(&self) {
        let rows = (self.plan.rows + self.plan.scan_rows) * self.plan.schemas.len() as u64;
        let bytes = rows * u64::from(self.plan.block_size);
        self.progress.phase("loading", bytes, ProgressUnit::Bytes);
    }
}

impl LoadState<'_> {
    /// A signal came, or another loader failed.
    pub fn is_over(&self) -> bool {
        self.stop.is_requested() || self.failed.load(Ordering::Relaxed)
    }

    /// Returns a callback that asks as [`Self::is_over`] does and outlives this.
    pub fn watcher(&self) -> impl FnMut() -> bool + Send + 'static {
        let (stop, failed) = (self.stop.clone(), Arc::clone(&self.failed));
        move || stop.is_requested() || failed.load(Ordering::Relaxed)
    }

    pub fn go_on(&self) -> Result<()> {
        if self.is_over() { Err(EngineError::Interrupted) } else { Ok(()) }
    }

    /// Parts a schema's rows evenly among its connections, which work at once.
    pub fn in_ranges(
        &self,
        rows: Range<u64>,
        work: impl Fn(Range<u64>) -> Result<()> + Sync,
    ) -> Result<()> {
        let count = rows.end.saturating_sub(rows.start);
        let parts = self.sessions.min(count);
        let border = |part: u64| rows.start + count / parts * part + (count % parts).min(part);
        let ranges: Vec<_> = (0..parts).map(|part| border(part)..border(part + 1)).collect();
        map_parallel(ranges.len(), &ranges, &self.failed, |range| work(range.clone())).map(drop)
    }
}

impl Loaded {
    /// The summary, with the steps after the data were durable, if that is known.
    pub fn summary(self, plan: &LoadPlan) -> LoadSummary {
        let naming = if plan.replace { "dropping the old data" } else { "renaming" };
        let afterwards = self.durable.into_iter().flat_map(|durable| {
            [("proof", self.proved - durable), (naming, self.named - self.proved)]
        });
        LoadSummary {
            afterwards: afterwards.map(|(what, took)| (what, took.as_secs_f64())).collect(),
            durable_seconds: self.durable.map(|durable| (durable - self.begin).as_secs_f64()),
            seconds: self.begin.elapsed().as_secs_f64(),
            schemas: self.schemas,
        }
    }
}

/// Works on all items, `at_once` at a time; results are in the items' order. A failure sets the
/// flag; the first real reason is the error.
pub fn map_parallel<I: Sync, T: Send>(
    at_once: usize,
    items: &[I],
    failed: &AtomicBool,
    work: impl Fn(&I) -> Result<T> + Sync,
) -> Result<Vec<T>> {
    let next = AtomicUsize::new(0);
    let results: Mutex<Vec<(usize, Result<T>)>> = Mutex::default();
    std::thread::scope(|scope| {
        for _ in 0..at_once.clamp(1, items.len().max(1)) {
            let started = Thread::named("loader").start_in(scope, || {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some(item) = items.get(at) else { return };
                    if failed.load(Ordering::Relaxed) {
                        return;
                    }
                    let result = work(item);
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

/// Refuses a block size that an engine cannot load.
pub fn check_block_size(support: &EngineSupport, plan: &LoadPlan) -> Result<()> {
    if support.block_sizes.contains(&plan.block_size) {
        return Ok(());
    }
    let sizes = support.block_sizes.iter().map(|bytes| format_bytes(u64::from(*bytes)));
    Err(EngineError::Setting(format!(
        "BLOCK_SZ={}: {}: loads blocks of {}; give one of these",
        plan.block_size,
        support.scheme,
        sizes.collect::<Vec<_>>().join(", ")
    )))
}

/// Error if a schema of petal's is in the place of a new one, and is not to be replaced.
pub fn already_loaded(place: impl std::fmt::Display, schema: u32) -> EngineError {
    EngineError::Data(format!(
        "{place}: schema {schema} is loaded already; drop the data first (petal drop) or load over \
         it (petal setup --replace)"
    ))
}

/// Error if a foreign object is in the place of a new schema.
pub fn without_mark(place: impl std::fmt::Display, what: &str, instead: &str) -> EngineError {
    EngineError::Environment(format!(
        "{place}: {what} without petal's mark is in the way, and petal leaves it alone; {instead}"
    ))
}

/// Refuses all but one row in each of `rows` blocks. `otherwise` is the meaning and the next step.
pub fn prove(
    place: impl std::fmt::Display,
    table: &str,
    placement: Placement,
    rows: u64,
    otherwise: &str,
) -> Result<Placement> {
    if placement.is_one_row_per_block() && placement.rows == rows {
        return Ok(placement);
    }
    let overflow = placement.overflow_blocks.filter(|blocks| *blocks > 0);
    let overflow =
        overflow.map_or_else(String::new, |blocks| format!(", {} other blocks", whole(blocks)));
    Err(EngineError::Data(format!(
        "{place}: {table}: not one row per block after the load: {} rows in {} blocks, up to {} in \
         one{overflow} ({}), where {rows} rows were loaded; {otherwise}",
        whole(placement.rows),
        whole(placement.blocks),
        whole(placement.rows_per_block_max),
        placement.source,
        rows = whole(rows)
    )))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Silent;
    use petal_record::target::LoadedSchema as Stored;
    use petal_workload::row::Filler;
    use std::sync::atomic::AtomicU8;

    fn plan(degree: u32) -> LoadPlan {
        LoadPlan {
            schemas: (1..=9).collect(),
            rows: 1,
            scan_rows: 0,
            block_size: 8192,
            degree,
            unique_index: true,
            filler: Filler::Constant,
            id: 7,
            seed: 1,
            replace: false,
        }
    }

    fn placement(rows: u64, blocks: u64, overflow_blocks: Option<u64>) -> Placement {
        Placement { rows, blocks, rows_per_block_max: 1, overflow_blocks, source: "script" }
    }

    fn loaded(number: u32) -> ProvedSchema {
        let schema =
            Stored { number, rows: 1, block_size: 8192, bytes: Some(8192), ..Stored::default() };
        let placement = placement(1, 1, None);
        let summary = LoadedSchemaSummary { schema, scan_bytes: Some(0), seconds: 0.0, placement };
        ProvedSchema { summary, durable: None }
    }

    /// A load whose fifth schema may fail, and which a signal may stop after the ninth. What was
    /// done in the end, and the schemas or the error.
    fn load(
        degree: u32,
        fails: bool,
        stops: bool,
    ) -> (Vec<&'static str>, Result<Vec<u32>, String>) {
        let (plan, level) = (plan(degree), Arc::<AtomicU8>::default());
        let stop = Stop::unlimited(Arc::clone(&level));
        let done: Mutex<Vec<&str>> = Mutex::default();
        let load_schema = |schema, state: &LoadState<'_>| {
            match schema {
                5 if fails => return Err(EngineError::Database("full".to_owned())),
                9 if stops => level.store(1, Ordering::Relaxed),
                _ => state.go_on()?,
            }
            Ok(loaded(schema))
        };
        let give_names = || {
            done.lock().push("named");
            Ok(())
        };
        let clean_up = || {
            done.lock().push("cleaned up");
            Ok(())
        };
        let load = Load { plan: &plan, progress: &Silent, stop: &stop };
        let result = load.run(&load_schema, give_names, clean_up);
        let numbers = result
            .map(|loaded| loaded.schemas.iter().map(|summary| summary.schema.number).collect());
        (done.into_inner(), numbers.map_err(|error| error.to_string()))
    }

    #[test]
    fn schemas_get_their_names_together_or_are_cleaned_up() {
        for degree in [1, 4, 99] {
            assert_eq!(load(degree, false, false), (vec!["named"], Ok((1..=9).collect())));
            // The error is the reason, and not which loaders it stopped.
            assert_eq!(load(degree, true, false), (vec!["cleaned up"], Err("full".into())));
        }
        assert_eq!(load(1, false, true), (vec!["cleaned up"], Err("interrupted".into())));
    }

    #[test]
    fn ranges_of_a_schema_are_all_of_it_and_end_with_the_first_that_fails() {
        let stop = Stop::unlimited(Arc::<AtomicU8>::default());
        for (sessions, rows) in [(1, 1..9), (4, 1..1500), (3, 0..3), (8, 1..4), (2, 1..1)] {
            let state = LoadState { stop: &stop, failed: Arc::default(), sessions };
            let seen: Mutex<Vec<u64>> = Mutex::default();
            let add = |range: Range<u64>| {
                assert!(!range.is_empty());
                seen.lock().extend(range);
                Ok(())
            };
            state.in_ranges(rows.clone(), add).unwrap();
            let mut seen = seen.into_inner();
            seen.sort_unstable();
            assert_eq!(seen, rows.collect::<Vec<_>>(), "{sessions} sessions");
        }
        let state = LoadState { stop: &stop, failed: Arc::default(), sessions: 3 };
        let failed = state.in_ranges(0..9, |range| match range.contains(&4) {
            true => Err(EngineError::Database("full".to_owned())),
            false => loop {
                state.go_on()?;
            },
        });
        assert_eq!(failed.unwrap_err().to_string(), "full");
    }

    #[test]
    fn a_round_begins_when_the_one_before_is_loaded() {
        let (plan, stop) = (plan(4), Stop::unlimited(Arc::<AtomicU8>::default()));
        let seen: Mutex<Vec<(u32, u64)>> = Mutex::default();
        let load_schema = |schema, state: &LoadState<'_>| {
            seen.lock().push((schema, state.sessions));
            Ok(loaded(schema))
        };
        let (first, further) = plan.schemas.split_at(1);
        let load = Load { plan: &plan, progress: &Silent, stop: &stop };
        let all =
            load.run_in_rounds(&[first, further], &load_schema, || Ok(()), || Ok(())).unwrap();
        assert!(all.schemas.iter().map(|summary| summary.schema.number).eq(1..=9));
        let seen = seen.into_inner();
        // All connections for the first one; nine schemas have one each.
        assert_eq!((seen.len(), seen[0]), (9, (1, 4)));
        assert!(seen[1..].iter().all(|(_, sessions)| *sessions == 1));
    }

    #[test]
    fn only_one_row_in_each_of_the_blocks_that_were_loaded_is_a_proof() {
        let proved = |placement| prove("db1", "cf1", placement, 8, "report this");
        assert!(proved(placement(8, 8, None)).is_ok() && proved(placement(8, 8, Some(0))).is_ok());
        for bad in [placement(8, 7, None), placement(7, 7, None), placement(8, 8, Some(2))] {
            assert!(matches!(proved(bad), Err(EngineError::Data(_))));
        }
        insta::assert_snapshot!(proved(placement(8, 8, Some(2))).unwrap_err(), @"db1: cf1: not one row per block after the load: 8 rows in 8 blocks, up to 1 in one, 2 other blocks (script), where 8 rows were loaded; report this");
        insta::assert_snapshot!(proved(placement(7, 7, None)).unwrap_err(), @"db1: cf1: not one row per block after the load: 7 rows in 7 blocks, up to 1 in one (script), where 8 rows were loaded; report this");
    }

    #[test]
    fn an_obstacle_is_named_with_the_next_step() {
        insta::assert_snapshot!(already_loaded("db1", 3), @"db1: schema 3 is loaded already; drop the data first (petal drop) or load over it (petal setup --replace)");
        insta::assert_snapshot!(without_mark("db1", "a table t", "rename it"), @"db1: a table t without petal's mark is in the way, and petal leaves it alone; rename it");
    }
}
