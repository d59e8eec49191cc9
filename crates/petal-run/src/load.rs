//! Setup: decides which schemas to load, their size, and their content.

use petal_engine::{Engine, LoadPlan, LoadSummary, Progress, Result, Stop};
use petal_host::numbers::whole;
use petal_record::target::LoadedSchema;
use petal_settings::Settings;
use petal_settings::rules::SETUP_SCALE;
use petal_workload::compression;
use petal_workload::row::Filler;

use super::series::draw_seed;
use super::{RunError, limits};

/// Plan of a setup.
#[derive(Debug)]
pub struct Setup {
    pub plan: LoadPlan,
    /// Schemas that already exist as requested, and stay.
    pub kept: Vec<LoadedSchema>,
}

/// Plans a setup of `schemas` schemas. Existing ones that match the request stay; a different one
/// is refused unless `replace`.
pub fn plan(
    engine: &dyn Engine,
    settings: &Settings,
    seed: u64,
    replace: bool,
) -> Result<Setup, RunError> {
    let block_size = engine.block_size(settings.block_sz)?;
    let rows = settings.scale.unwrap_or(SETUP_SCALE).blocks(block_size.into());
    let scan_rows = settings.scan_table_sz.blocks(block_size.into());
    let wanted = settings.schemas.unwrap_or(1);
    let mut plan = LoadPlan {
        schemas: (1..=wanted).collect(),
        rows,
        scan_rows,
        block_size,
        degree: settings.load_parallel_degree,
        unique_index: settings.unique_index,
        filler: filler(engine, settings, block_size),
        seed,
        id: draw_seed()?,
        replace,
    };
    if replace {
        return Ok(Setup { plan, kept: Vec::new() });
    }
    let kept: Vec<LoadedSchema> =
        engine.loaded()?.into_iter().filter(|there| there.number <= wanted).collect();
    let otherwise = kept.iter().find_map(|there| Some((there.number, difference(there, &plan)?)));
    if let Some((number, difference)) = otherwise {
        return Err(RunError::Setting(format!(
            "schema {number} is there with {difference}: request the same, drop it with `petal \
             drop`, or load it again with --replace"
        )));
    }
    plan.schemas.retain(|number| kept.iter().all(|there| there.number != *number));
    Ok(Setup { plan, kept })
}

/// Describes the differences of a loaded schema from the requested one, or returns `None` if no
/// difference is known: SQLite's loads keep no UNIQUE_INDEX, and SLOB's keep no filler either.
fn difference(there: &LoadedSchema, plan: &LoadPlan) -> Option<String> {
    let is_of_size = there.rows == plan.rows
        && there.scan_rows == plan.scan_rows
        && there.block_size == u64::from(plan.block_size);
    if !is_of_size {
        return Some(format!(
            "{} blocks of {} bytes and a scan table of {}, not {} of {} and {}",
            whole(there.rows),
            whole(there.block_size),
            whole(there.scan_rows),
            whole(plan.rows),
            whole(plan.block_size.into()),
            whole(plan.scan_rows),
        ));
    }
    let (filler, unique) = (plan.filler.name(), plan.unique_index);
    let is_alike = |other: &String| match (Filler::parse(other), plan.filler) {
        // The number of bytes for a ratio is computed again.
        (Some(there), asked) => there.ratio() == asked.ratio(),
        (None, _) => false,
    };
    if let Some(other) = there.filler.as_ref().filter(|other| !is_alike(other)) {
        return Some(format!(
            "the filler \"{other}\", not \"{filler}\" (OBFUSCATE_COLUMNS, COMPRESS_RATIO)"
        ));
    }
    let other = there.unique_index.filter(|other| *other != unique)?;
    Some(format!("UNIQUE_INDEX={other}, not {unique}"))
}

/// Loads the planned schemas; the engine proves one row per block before it returns.
pub fn load(
    engine: &dyn Engine,
    plan: &LoadPlan,
    progress: &dyn Progress,
    stop: &Stop,
) -> Result<LoadSummary> {
    if plan.schemas.is_empty() {
        Ok(LoadSummary::default())
    } else {
        limits::check_load(engine, plan)?;
        engine.load(plan, progress, stop)
    }
}

/// Returns the requested filler, or else the engine's default.
fn filler(engine: &dyn Engine, settings: &Settings, block_size: u32) -> Filler {
    let incompressible = engine.support().incompressible;
    match (settings.compress_ratio, settings.obfuscate_columns) {
        (Some(ratio), _) => {
            compression::filler(ratio, block_size as usize, engine.column_bytes(block_size))
        }
        (None, true) => Filler::Random,
        (None, false) if incompressible && !settings.is_given("OBFUSCATE_COLUMNS") => {
            Filler::Random
        }
        (None, false) => Filler::Constant,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn there() -> LoadedSchema {
        LoadedSchema {
            number: 1,
            rows: 64,
            scan_rows: 8,
            block_size: 8192,
            filler: Some("constant".to_owned()),
            unique_index: Some(false),
            ..LoadedSchema::default()
        }
    }

    fn asked(filler: Filler, unique_index: bool) -> LoadPlan {
        LoadPlan {
            schemas: vec![1],
            rows: 64,
            scan_rows: 8,
            block_size: 8192,
            degree: 1,
            unique_index,
            filler,
            seed: 1,
            id: 1,
            replace: false,
        }
    }

    #[test]
    fn a_schema_that_is_there_otherwise_is_named_with_both() {
        let plain = asked(Filler::Constant, false);
        let differs = |there: &LoadedSchema, plan: &LoadPlan| difference(there, plan).unwrap();
        assert_eq!(difference(&there(), &plain), None);
        insta::assert_snapshot!(differs(&LoadedSchema { rows: 65, ..there() }, &plain), @"65 blocks of 8,192 bytes and a scan table of 8, not 64 of 8,192 and 8");
        assert!(difference(&LoadedSchema { scan_rows: 0, ..there() }, &plain).is_some());
        assert!(difference(&LoadedSchema { block_size: 4096, ..there() }, &plain).is_some());
        let random = asked(Filler::Random, false);
        insta::assert_snapshot!(differs(&there(), &random), @r#"the filler "constant", not "random" (OBFUSCATE_COLUMNS, COMPRESS_RATIO)"#);
        let unique = asked(Filler::Constant, true);
        insta::assert_snapshot!(differs(&there(), &unique), @"UNIQUE_INDEX=false, not true");
    }

    #[test]
    fn facts_that_a_load_did_not_keep_are_not_compared() {
        let unknown = LoadedSchema { filler: None, unique_index: None, ..there() };
        assert_eq!(difference(&unknown, &asked(Filler::Random, true)), None);
    }
}
