//! Setup: which schemas to load, how large, and with what.

use crate::engine::{Engine, LoadPlan, LoadSummary, Progress, Result, Stop};
use crate::settings::Settings;
use crate::settings::rules::SETUP_SCALE;
use crate::stats::compression;
use crate::stats::target::LoadedSchema;
use crate::workload::row::Filler;

use super::series::draw_seed;
use super::{RunError, limits};

/// The plan of a setup.
#[derive(Debug)]
pub struct Setup {
    pub plan: LoadPlan,
    /// Schemas that are there as asked, and stay.
    pub kept: Vec<LoadedSchema>,
}

/// Plans a setup of `schemas` schemas. Those that are there with the same size stay as they are;
/// one of another size is refused unless `replace`.
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
    if let Some(other) = kept.iter().find(|there| !is_as_planned(there, &plan)) {
        return Err(RunError::Setting(format!(
            "schema {} is there with {} blocks of {} bytes and a scan table of {}, not {} of {} and {}: \
             ask for what is there, drop it with `petal drop`, or load it anew with --replace",
            other.number,
            other.rows,
            other.block_size,
            other.scan_rows,
            plan.rows,
            plan.block_size,
            plan.scan_rows,
        )));
    }
    plan.schemas.retain(|number| kept.iter().all(|there| there.number != *number));
    Ok(Setup { plan, kept })
}

fn is_as_planned(there: &LoadedSchema, plan: &LoadPlan) -> bool {
    there.rows == plan.rows
        && there.scan_rows == plan.scan_rows
        && there.block_size == u64::from(plan.block_size)
}

/// Loads what is planned; the engine proves one row per block before it returns.
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

/// The filler that the settings ask for, or else the engine's default.
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
