//! Plan of a replay, fitted to its target by short trials: the trials show how many blocks the
//! target reads and writes for a row, and how much it logs.

use std::path::Path;
use std::time::Duration;

use super::measured::TrialMeasurements;
use super::{ReplayOptions, ReplayPlan, ReplayTarget, ReplayedPart, plan};
use petal_engine::EngineError;
use petal_record::Status;
use petal_record::profile::Profile;
use petal_record::replay::ReplayOf;
use petal_record::sweep::{self, Sweep};
use petal_run::series::{RunSeries, UsedData};
use petal_run::{RunError, WorkContext};
use petal_settings::objective::Objective;
use petal_settings::{Settings, WarmUp};

/// Number of trials: the second one confirms the first one's correction.
const TRIALS_MAX: usize = 2;
/// Part of a trial in which caches fill.
const WARM_UP_PART: u32 = 3;
/// Relative change of rates below which no further trial is needed.
const MOVED_MAX: f64 = 0.03;

/// Replay before its plan.
pub struct ReplayRequest<'a> {
    pub profile: &'a Profile,
    pub played: ReplayedPart,
    pub asked: ReplayOptions,
    /// Length of a trial; zero means no trial.
    pub trial: Duration,
    /// Settings without a plan: target and length of a run.
    pub settings: &'a Settings,
    /// Function that returns settings with this plan.
    pub with_plan: &'a dyn Fn(&ReplayPlan) -> Result<Settings, RunError>,
}

/// Returns the facts that a replay needs about its target.
pub fn ground(
    settings: &Settings,
    context: &WorkContext<'_>,
) -> Result<(ReplayTarget, u32), RunError> {
    let engine = context.open(settings)?;
    let data = UsedData::check(settings, engine.loaded()?)?;
    let (target, _) = engine.describe(data.schemas, data.schemas)?;
    let block_bytes = u32::try_from(data.block_size).unwrap_or(u32::MAX);
    let scan_rows = data.loaded.iter().map(|schema| schema.scan_rows);
    let ground = ReplayTarget {
        block_bytes,
        rows: data.rows,
        scan_rows: scan_rows.clone().min().unwrap_or(0),
        scan_bytes: scan_rows.sum::<u64>() * data.block_size,
        cache_bytes: target.cache_bytes,
        column_bytes: engine.column_bytes(block_bytes),
    };
    Ok((ground, data.schemas))
}

/// Returns the plan, after the necessary trials.
pub fn fit(
    request: &ReplayRequest<'_>,
    ground: &ReplayTarget,
    context: &WorkContext<'_>,
) -> Result<ReplayPlan, RunError> {
    let planned = |length: Duration, trial: Option<&TrialMeasurements>| {
        planned(request, ground, length, trial)
    };
    let mut found: Option<TrialMeasurements> = None;
    let mut tried = planned(request.trial, None)?;
    let trials = if request.trial.is_zero() { 0 } else { TRIALS_MAX };
    for _ in 0..trials {
        found = Some(trial(request, &tried, context)?.after(found.as_ref()));
        let corrected = planned(request.trial, found.as_ref())?;
        let is_same = is_close(&tried, &corrected);
        tried = corrected;
        if is_same {
            break;
        }
    }
    planned(request.settings.run_time, found.as_ref())
}

/// Returns the plan before any trial.
pub fn untried(request: &ReplayRequest<'_>, ground: &ReplayTarget) -> Result<ReplayPlan, RunError> {
    planned(request, ground, request.settings.run_time, None)
}

/// Returns the plan with which the sweep in `dir` was begun, so that its trials need not be
/// repeated, or `None` if no sweep was begun there. Refuses the folder of another load or
/// objective.
pub fn kept(
    asked: &ReplayPlan,
    dir: &Path,
    objective: Option<&Objective>,
) -> Result<Option<ReplayPlan>, RunError> {
    if !sweep::is_one(dir) {
        return Ok(None);
    }
    let begun: Sweep = sweep::read(dir)?;
    let Some(of) = begun.replay else { return Ok(None) };
    let load = |of: &ReplayOf| (of.database.clone(), of.time.clone(), of.per_second.clone());
    if load(&of) != load(&asked.of) {
        return Err(RunError::Setting(format!(
            "{}: replays another load, {}, {}; name another folder with --out, or begin again \
             with --fresh",
            dir.display(),
            of.database,
            of.time
        )));
    }
    let objective = objective.map(ToString::to_string);
    if of.objective != objective {
        let shown = |objective: Option<String>| objective.unwrap_or_else(|| "none".to_owned());
        return Err(RunError::Setting(format!(
            "{}: its steps were judged by the objective {}, not {}; petal report {0} --max-latency \
             judges them by another one; else name another folder with --out, or begin again \
             with --fresh",
            dir.display(),
            shown(of.objective),
            shown(objective),
        )));
    }
    let plan = asked.with_parameters(&begun.plan.settings).ok_or_else(|| {
        RunError::Environment(format!(
            "{}: its sweep.json does not hold the replayed rates; name another folder \
             with --out, or begin again with --fresh",
            dir.display()
        ))
    })?;
    Ok(Some(ReplayPlan { of, ..plan }))
}

fn planned(
    request: &ReplayRequest<'_>,
    ground: &ReplayTarget,
    length: Duration,
    trial: Option<&TrialMeasurements>,
) -> Result<ReplayPlan, RunError> {
    plan(request.profile, (request.played, length), ground, request.asked, trial)
        .map_err(|error| RunError::Setting(error.to_string()))
}

fn trial(
    request: &ReplayRequest<'_>,
    plan: &ReplayPlan,
    context: &WorkContext<'_>,
) -> Result<TrialMeasurements, RunError> {
    let seconds = request.trial.as_secs();
    context
        .watch
        .note(&format!("a trial of {seconds} s measures the cost of a row on this target"));
    let settings = Settings {
        run_time: request.trial,
        warm_up: WarmUp::Time(request.trial / WARM_UP_PART),
        rate_scale: 1.0,
        repeats: 1,
        until_steady: None,
        external_script: None,
        ..(request.with_plan)(plan)?
    };
    let series = RunSeries::new(context.open(&settings)?, settings, context)?;
    let kept = series.run_once(1, Some("replay-trial"))?;
    match kept.run.summary.status {
        Status::Complete => Ok(TrialMeasurements::of(&kept.run)),
        Status::Interrupted => Err(EngineError::Interrupted.into()),
        Status::Failed | Status::Incomplete => Err(RunError::Environment(format!(
            "the trial failed: no session reached its end; petal report {} says why",
            kept.folder.path().display()
        ))),
    }
}

/// True if two plans are equivalent for a run.
fn is_close(one: &ReplayPlan, other: &ReplayPlan) -> bool {
    let second = Duration::from_secs(1_000_000);
    let rows =
        |plan: &ReplayPlan| plan.select_rate.due_before(second) as f64 * f64::from(plan.work_unit);
    let (a, b) = (rows(one), rows(other));
    one.update_work_unit == other.update_work_unit
        && one.redo_stress == other.redo_stress
        && (a - b).abs() <= a.max(b) * MOVED_MAX
}
