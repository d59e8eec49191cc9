//! Turns a profile into operations of petal's own: rates, work units and redo of an open loop, and
//! the parts that they do not imitate. All of that knowledge is here; [`measured`] has the results
//! of a trial, and [`fit`] makes trials.

pub mod fit;
pub mod measured;
pub mod text;
mod words;

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize as _;
use serde_json::{Map, Value, json};

use petal_record::as_text;
use petal_record::profile::{Profile, ProfileInterval};
use petal_record::replay::ReplayOf;
use petal_record::server_work::WorkCount;
use petal_settings::RedoStress;
use petal_settings::rates::RateOverTime;
use petal_workload::row::COLUMNS;

use self::measured::{ReadCost, TrialMeasurements};
use petal_judge::profile::is_idle;

/// SELECTs that visit one block each are more work for petal than they need be.
const SELECTS_PER_S_MAX: f64 = 1000.0;
const WORK_UNIT_DEFAULT_MAX: u32 = 64;
const WORK_UNIT_MAX: u32 = 1024;
/// Redo bytes of a row's change without its columns, as a guess before a trial.
const REDO_OVERHEAD_BYTES: f64 = 150.0;
const LITE_COLUMNS: f64 = 2.0;

/// Part of a profile that is replayed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplayedPart {
    /// The rates of its busiest interval, all the time.
    Busiest,
    /// Intervals in their order, all of them in the length of the run.
    All,
}

/// The target's properties that a replay needs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ReplayTarget {
    pub block_bytes: u32,
    /// Rows, so blocks, of a schema that are in use.
    pub rows: u64,
    /// Rows of each scan table; 0 without one.
    pub scan_rows: u64,
    /// Bytes of all scan tables together.
    pub scan_bytes: u64,
    pub cache_bytes: Option<u64>,
    /// Bytes of a row's filler column.
    pub column_bytes: usize,
}

/// Options of a replay in addition to the profile.
#[derive(Debug, Clone, Copy, Default)]
pub struct ReplayOptions {
    pub work_unit: Option<u32>,
    pub update_work_unit: Option<u32>,
    pub redo_stress: Option<RedoStress>,
}

/// A profile as operations.
#[derive(Debug, Clone, PartialEq)]
pub struct ReplayPlan {
    pub work_unit: u32,
    pub update_work_unit: u32,
    pub redo_stress: RedoStress,
    pub select_rate: RateOverTime,
    pub update_rate: RateOverTime,
    pub scan_rate: RateOverTime,
    /// Rates per second that the target should reach at a scale of 1.
    pub expected: BTreeMap<WorkCount, f64>,
    /// Figures that no trial measured: one block for each row, and redo by the width of the
    /// columns.
    pub assumed: Vec<WorkCount>,
    pub of: ReplayOf,
}

/// Reason why a profile cannot be replayed.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ReplayError {
    #[error(
        "{0}: was idle, with under one read, write or commit in ten seconds: there is nothing to \
         scale; make a profile of a time with work"
    )]
    Idle(String),
    #[error(
        "{0}: knows neither single-block reads nor commits of that time: nothing can be driven; its \
         inputs say why"
    )]
    Unknown(String),
}

/// Plans the operations of a profile on this ground, corrected by the trial of an earlier plan.
pub fn plan(
    profile: &Profile,
    (played, run_time): (ReplayedPart, Duration),
    ground: &ReplayTarget,
    asked: ReplayOptions,
    trial: Option<&TrialMeasurements>,
) -> Result<ReplayPlan, ReplayError> {
    let intervals: Vec<&ProfileInterval> = match played {
        ReplayedPart::Busiest => profile.busiest().into_iter().collect(),
        ReplayedPart::All => profile.intervals.iter().collect(),
    };
    if is_idle(profile) {
        return Err(ReplayError::Idle(profile.database.clone()));
    }
    let of = ReplayOf {
        database: profile.database.clone(),
        time: words::time(profile, played),
        per_second: WorkCount::ALL
            .into_iter()
            .filter_map(|figure| Some((figure, mean(&intervals, figure)?)))
            .collect(),
        latency_us: match played {
            ReplayedPart::Busiest => intervals.first().map(|it| it.latency_us.clone()),
            ReplayedPart::All => None,
        }
        .unwrap_or_default(),
        ..ReplayOf::default()
    };
    let (reads, commits) = (of.rate(WorkCount::SingleBlockReads), of.rate(WorkCount::Commits));
    if reads.is_none() && commits.is_none() {
        return Err(ReplayError::Unknown(of.database));
    }
    let cost = trial.and_then(TrialMeasurements::usable_reads).unwrap_or(ReadCost::PLAIN);
    let writes_per_row = trial.and_then(TrialMeasurements::usable_writes_per_row).unwrap_or(1.0);
    let update_work_unit = asked.update_work_unit.unwrap_or_else(|| {
        let writes = of.rate(WorkCount::BlockWrites);
        let per_commit = writes.zip(commits.filter(|commits| *commits > 0.0));
        let rows = per_commit.map_or(1.0, |(writes, commits)| writes / commits / writes_per_row);
        whole_unit(rows, ground)
    });
    // Reads that remain after the UPDATEs.
    let left = |reads: f64, commits: f64| {
        (reads - commits * cost.of(f64::from(update_work_unit))).max(0.0)
    };
    let work_unit = asked.work_unit.unwrap_or_else(|| {
        let left = left(reads.unwrap_or(0.0), commits.unwrap_or(0.0));
        let rows = ((left / SELECTS_PER_S_MAX - cost.per_operation) / cost.per_row).ceil();
        whole_unit(rows.clamp(1.0, WORK_UNIT_DEFAULT_MAX.into()), ground)
    });
    let redo_stress =
        asked.redo_stress.unwrap_or_else(|| redo_stress(&of, ground, update_work_unit, trial));
    let production_block = f64::from(profile.block_bytes.unwrap_or(ground.block_bytes));
    let scan_bytes = ground.scan_rows as f64 * f64::from(ground.block_bytes);
    let scans_per_s = |multi_blocks: f64| match scan_bytes > 0.0 {
        true => multi_blocks * production_block / scan_bytes,
        false => 0.0,
    };
    let selects_of = |interval: &ProfileInterval| {
        let commits = interval.rate(WorkCount::Commits).unwrap_or(0.0);
        let reads = interval.rate(WorkCount::SingleBlockReads).unwrap_or(0.0);
        left(reads, commits) / cost.of(f64::from(work_unit))
    };
    let over_time = |rate: &dyn Fn(&ProfileInterval) -> f64| steps(&intervals, run_time, rate);
    let mut plan = ReplayPlan {
        work_unit,
        update_work_unit,
        redo_stress,
        select_rate: over_time(&selects_of),
        update_rate: over_time(&|interval| interval.rate(WorkCount::Commits).unwrap_or(0.0)),
        scan_rate: over_time(&|interval| {
            scans_per_s(interval.rate(WorkCount::MultiBlockReadBlocks).unwrap_or(0.0))
        }),
        expected: BTreeMap::new(),
        assumed: Vec::new(),
        of,
    };
    // Mean rate of SELECTs over the intervals.
    let selects = weighted(&intervals, &selects_of);
    (plan.expected, plan.assumed) =
        expected(&plan, (selects, scans_per_s(1.0) > 0.0), ground, trial);
    plan.of.how = words::how(&plan, selects, trial);
    plan.of.not_imitated = words::not_imitated(&plan, profile, ground, trial);
    Ok(plan)
}

fn whole_unit(rows: f64, ground: &ReplayTarget) -> u32 {
    let most = u32::try_from(ground.rows).unwrap_or(u32::MAX).clamp(1, WORK_UNIT_MAX);
    (rows.round() as u32).clamp(1, most)
}

/// Returns the mean over the time in which it is known; None if no interval knows it.
fn mean(intervals: &[&ProfileInterval], figure: WorkCount) -> Option<f64> {
    let known: Vec<&ProfileInterval> =
        intervals.iter().copied().filter(|it| it.rate(figure).is_some()).collect();
    (!known.is_empty()).then(|| weighted(&known, &|it| it.rate(figure).unwrap_or(0.0)))
}

fn weighted(intervals: &[&ProfileInterval], rate: &dyn Fn(&ProfileInterval) -> f64) -> f64 {
    let length_s: f64 = intervals.iter().map(|it| it.length_s).sum();
    let total: f64 = intervals.iter().map(|it| rate(it) * it.length_s).sum();
    if length_s > 0.0 { total / length_s } else { 0.0 }
}

/// The intervals one after the other, in the length of a run. Rates to a thousandth, as people read
/// them.
fn steps(
    intervals: &[&ProfileInterval],
    run_time: Duration,
    rate: &dyn Fn(&ProfileInterval) -> f64,
) -> RateOverTime {
    let length_s: f64 = intervals.iter().map(|it| it.length_s).sum();
    let share = if length_s > 0.0 { run_time.as_secs_f64() / length_s } else { 0.0 };
    let mut from_s = 0.0;
    let mut steps: Vec<(Duration, f64)> = Vec::with_capacity(intervals.len());
    for interval in intervals {
        let from = Duration::from_millis((from_s * share * 1e3).round() as u64);
        let per_second = (rate(interval) * 1e3).round() / 1e3;
        match steps.last_mut() {
            // Shorter than a millisecond of the run.
            Some(last) if last.0 == from => last.1 = per_second,
            _ => steps.push((from, per_second)),
        }
        from_s += interval.length_s;
    }
    RateOverTime::of_steps(&steps)
}

/// Guessed bytes of log for a row's change.
fn redo_guess(redo_stress: RedoStress, ground: &ReplayTarget) -> f64 {
    let columns = match redo_stress {
        RedoStress::Lite => LITE_COLUMNS,
        RedoStress::Heavy => COLUMNS as f64,
    };
    columns * ground.column_bytes as f64 + REDO_OVERHEAD_BYTES
}

/// Returns the value that comes closer to the redo of a commit; by a trial if there was one.
fn redo_stress(
    of: &ReplayOf,
    ground: &ReplayTarget,
    update_work_unit: u32,
    trial: Option<&TrialMeasurements>,
) -> RedoStress {
    let Some(wanted) = redo_per_commit(of).filter(|bytes| *bytes > 0.0) else {
        return RedoStress::Lite;
    };
    let of_trial = trial.and_then(|trial| Some((trial.redo_stress, trial.redo_per_row?)));
    let bytes = |redo_stress: RedoStress| {
        let guess = redo_guess(redo_stress, ground);
        // The kinds differ by their columns; both log the rest, such as whole pages.
        let by_columns = |(tried, found): (RedoStress, f64)| {
            (found + guess - redo_guess(tried, ground)).max(guess)
        };
        let found = trial.and_then(|trial| trial.redo_of(redo_stress));
        let per_row = found.or(of_trial.map(by_columns)).unwrap_or(guess);
        per_row * f64::from(update_work_unit)
    };
    let far = |redo_stress| (bytes(redo_stress) / wanted).ln().abs();
    match far(RedoStress::Heavy) < far(RedoStress::Lite) {
        true => RedoStress::Heavy,
        false => RedoStress::Lite,
    }
}

fn redo_per_commit(of: &ReplayOf) -> Option<f64> {
    let commits = of.rate(WorkCount::Commits).filter(|commits| *commits > 0.0)?;
    Some(of.rate(WorkCount::RedoBytes)? / commits)
}

/// Returns the target's expected rates, by its rates per row in the trial; and the figures that a
/// trial did not measure.
fn expected(
    plan: &ReplayPlan,
    (selects, scans): (f64, bool),
    ground: &ReplayTarget,
    trial: Option<&TrialMeasurements>,
) -> (BTreeMap<WorkCount, f64>, Vec<WorkCount>) {
    let commits = plan.of.rate(WorkCount::Commits).unwrap_or(0.0);
    let updated = commits * f64::from(plan.update_work_unit);
    let mut expected = BTreeMap::from([(WorkCount::Commits, commits)]);
    if scans && let Some(blocks) = plan.of.rate(WorkCount::MultiBlockReadBlocks) {
        expected.insert(WorkCount::MultiBlockReadBlocks, blocks);
    }
    let cost = trial.and_then(|trial| trial.reads);
    let reads = |rows: u32| cost.unwrap_or(ReadCost::PLAIN).of(f64::from(rows));
    let writes = trial.and_then(|trial| trial.writes_per_row);
    let redo = trial.and_then(|trial| trial.redo_of(plan.redo_stress));
    expected.extend([
        (
            WorkCount::SingleBlockReads,
            selects * reads(plan.work_unit) + commits * reads(plan.update_work_unit),
        ),
        (WorkCount::BlockWrites, updated * writes.unwrap_or(1.0)),
        (
            WorkCount::RedoBytes,
            updated * redo.unwrap_or_else(|| redo_guess(plan.redo_stress, ground)),
        ),
    ]);
    let found = [
        (WorkCount::SingleBlockReads, cost.is_some()),
        (WorkCount::BlockWrites, writes.is_some()),
        (WorkCount::RedoBytes, redo.is_some()),
    ];
    let unknown = found.into_iter().filter(|(_, is_found)| !is_found);
    (expected, unknown.map(|(figure, _)| figure).collect())
}

impl ReplayPlan {
    /// Returns the target's expected rate as a multiple of production's; None if either is unknown,
    /// or if production's is 0.
    pub fn ratio(&self, figure: WorkCount) -> Option<f64> {
        let production = self.of.rate(figure).filter(|rate| *rate > 0.0)?;
        Some(self.expected.get(&figure)? / production)
    }

    /// The plan as parameters, by their keys.
    pub fn parameters(&self) -> BTreeMap<&'static str, String> {
        BTreeMap::from([
            ("WORK_UNIT", self.work_unit.to_string()),
            ("UPDATE_WORK_UNIT", self.update_work_unit.to_string()),
            ("REDO_STRESS", as_text(&json!(self.redo_stress), "")),
            ("SELECT_RATE", self.select_rate.to_string()),
            ("UPDATE_RATE", self.update_rate.to_string()),
            ("SCAN_RATE", self.scan_rate.to_string()),
        ])
    }

    /// Returns the plan with the parameters of a record: a trial in another call may have corrected
    /// them. The expected rates are unknown then. None if a parameter is missing.
    pub fn with_parameters(&self, settings: &Map<String, Value>) -> Option<Self> {
        let text = |key: &str| Some(as_text(settings.get(key)?, ""));
        let rate = |key: &str| RateOverTime::parse(&text(key)?);
        let unit = |key: &str| text(key)?.parse().ok();
        Some(Self {
            work_unit: unit("work_unit")?,
            update_work_unit: unit("update_work_unit")?,
            redo_stress: RedoStress::deserialize(settings.get("redo_stress")?).ok()?,
            select_rate: rate("select_rate")?,
            update_rate: rate("update_rate")?,
            scan_rate: rate("scan_rate")?,
            expected: BTreeMap::new(),
            assumed: Vec::new(),
            of: self.of.clone(),
        })
    }
}

#[cfg(test)]
mod tests;
