//! Cells of a sweep, one after the other: each is a run in its own folder, kept as it ends.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::folder::SweepFolder;
use super::next_cells::{CellQueue, QueuedCell};
use super::plan::{Planned, run_time};
use super::together;
use crate::changed_server::ServerChanges;
use petal_host::numbers::decimal;
use petal_judge::break_point::{self, LoadHeld};
use petal_judge::next_cell::CellReading;
use petal_record::conclusions::limit_clause;
use petal_record::sweep::{self as kept, CellFailure, CellRun, SweepCell};
use petal_record::sweep_order::{OVERHEAD_GUESSED, Pace, left};
use petal_record::{RecordError, RecordFolder, Run, Status};
use petal_run::merge::RunWithFolder;
use petal_run::series::{RunSeries, UsedData};
use petal_run::{RunError, WorkContext};
use petal_settings::Settings;

/// Runs the remaining cells, until a signal. Returns failures that affect no figure: hooks,
/// reports. An error means that the sweep cannot continue now; the same command resumes it.
pub fn run(
    planned: &Planned,
    held: &mut SweepFolder,
    mut changes: Option<&mut ServerChanges<'_>>,
    context: &WorkContext<'_>,
) -> Result<Vec<RunError>, RunError> {
    let watch = context.watch;
    let mut failures = Vec::new();
    let mut queue = CellQueue::of(held)?;
    let mut pace = Pace::default();
    let mut first_limits = limits_of_first_cell(held);
    while let Some(QueuedCell { cell: cell_run, number, all }) = queue.next(held) {
        if context.caller.is_interrupted() {
            return Ok(failures);
        }
        let after = pace.left(all.saturating_sub(number), run_time(planned)) + peak_run_left(held);
        let all = queue.words(all);
        watch.heading(&format!("cell {number} of {all}, "), after);
        let began = Instant::now();
        let ended = match (changes.as_deref_mut(), planned.settings(cell_run.number)) {
            (Some(changes), Some(cell)) => changes.apply(&cell.server_settings),
            _ => Ok(()),
        };
        if context.caller.is_interrupted() {
            return Ok(failures);
        }
        let ended = ended.and_then(|()| run_cell(planned, held, cell_run, &first_limits, context));
        watch.heading("", Duration::ZERO);
        match ended {
            Ok(None) => return Ok(failures),
            Ok(Some((run, failure))) => {
                if first_limits.is_empty() {
                    first_limits = limits_of(&run);
                }
                queue.add(CellReading::of_run(cell_run, &run, &held.sweep.plan.design));
                failures.extend(failure);
                let ran_s = run.summary.elapsed_s.min(run_time(planned).as_secs_f64());
                let ran = Duration::try_from_secs_f64(ran_s).unwrap_or_default();
                pace.add(began.elapsed(), ran);
                watch.note(&line(number, &all, held, &run));
                skip_higher_steps(planned, held, cell_run, &run, context)?;
                if let Some(missing) = run.summary.finding("rows-missing") {
                    watch.error(&missing.message);
                }
                if !run.summary.sessions_lost.is_empty() {
                    report_lost(&run, context);
                    check_reachable(planned, cell_run, context)?;
                }
            }
            Err(error) if error.is_interrupted() => return Ok(failures),
            Err(error) => {
                queue.add(CellReading::failed(cell_run));
                if changes.as_ref().is_some_and(|changes| changes.is_disturbed) {
                    return Err(error);
                }
                nothing_measured(held, cell_run, &error, context)?;
                check_reachable(planned, cell_run, context)?;
            }
        }
        together::check_hosts(context)?;
    }
    let is_last = !held.sweep.lacks_peak_run(&held.folder.own_path());
    if is_last && left(&held.sweep).is_empty() && !queue.has_failed(held) {
        held.sweep.status = Status::Complete;
        kept::save(&held.folder, &held.sweep)?;
    }
    Ok(failures)
}

/// Runs one cell, keeps it and enters it in the index. Returns `None` if a signal cut it; failures
/// that affect no figure come with the run. An error means that it measured nothing.
fn run_cell(
    planned: &Planned,
    held: &mut SweepFolder,
    cell_run: CellRun,
    first_limits: &BTreeMap<String, String>,
    context: &WorkContext<'_>,
) -> Result<Option<(Run, Option<RunError>)>, RunError> {
    let CellRun { number, repeat } = cell_run;
    let plan = &held.sweep.plan;
    let (Some(settings), Some(factors)) =
        (planned.settings(number), plan.cells().into_iter().nth(number as usize - 1))
    else {
        return Err(RunError::Setting(format!("this plan has no cell {number}")));
    };
    let settings = Settings { seed: Some(plan.seed), repeats: plan.repeats, ..settings.clone() };
    let sweep = held.folder.clone();
    let name = plan.folder_name(number, &factors, repeat);
    together::send_cell(cell_run, context)?;
    let begin = || kept::begin_cell(&sweep, &name);
    let driven = drive(planned, settings, (cell_run, first_limits), begin, context);
    let done = together::or_call_off(context, driven)?;
    let status = done.run.summary.status;
    let is_written = done.is_written();
    if status == Status::Interrupted || !is_written {
        return match done.failure {
            Some(failure) if !is_written => Err(failure),
            _ => Ok(None),
        };
    }
    kept::finish_cell(&sweep, &name)?;
    held.sweep.cells.push(SweepCell { number, repeat, factors, folder: name, status });
    held.sweep.failures.retain(|past| (past.number, past.repeat) != (number, repeat));
    kept::save(&held.folder, &held.sweep)?;
    if let Some(failure) = &done.failure {
        context.watch.error(&failure.to_string());
    }
    Ok(Some((done.run, done.failure)))
}

/// Runs this host's sessions of a cell into a new folder; if there are several hosts, the first one
/// merges their records.
pub(super) fn drive(
    planned: &Planned,
    settings: Settings,
    (CellRun { number, repeat }, first_limits): (CellRun, &BTreeMap<String, String>),
    begin: impl FnOnce() -> Result<RecordFolder, RecordError>,
    context: &WorkContext<'_>,
) -> Result<RunWithFolder, RunError> {
    let engine = context.open(&settings)?;
    let mut series = RunSeries::new(engine, settings, context)?;
    if let Some(hosts) = context.hosts {
        series.join(hosts)?;
    }
    series.os_data = planned.os_data.clone();
    series.replay = planned.replay.clone();
    // A script may set a limit for each cell.
    if series.settings.external_script.is_none() {
        series.limits_of_first_cell.clone_from(first_limits);
    }
    series.run_in(begin()?, number, repeat)
}

/// The limits of control groups and processors that a cell began with.
fn limits_of(run: &Run) -> BTreeMap<String, String> {
    run.details.facts.as_ref().map(|facts| facts.limits.clone()).unwrap_or_default()
}

/// Returns the limits of the first cell that is kept, in a sweep that goes on.
fn limits_of_first_cell(held: &SweepFolder) -> BTreeMap<String, String> {
    let first = held.sweep.cells.first().map(|cell| held.folder.path().join(&cell.folder));
    let run = first.and_then(|folder| petal_report::load(&folder).ok());
    run.as_ref().map(limits_of).unwrap_or_default()
}

/// Skips the higher steps of a round after a step that was not held.
fn skip_higher_steps(
    planned: &Planned,
    held: &mut SweepFolder,
    cell_run: CellRun,
    run: &Run,
    context: &WorkContext<'_>,
) -> Result<(), RunError> {
    if !held.sweep.plan.step_by_step {
        return Ok(());
    }
    let why = match break_point::load_held(run, planned.objective.as_ref()) {
        LoadHeld::Yes => return Ok(()),
        LoadHeld::No(why) | LoadHeld::Unknown(why) => why,
    };
    let CellRun { number, repeat } = cell_run;
    let higher = number + 1..=planned.cells.len() as u32;
    if !higher.is_empty() {
        context.watch.note(&format!("not held: {why}; the higher steps of this round are not run"));
    }
    held.sweep.skipped.extend(higher.map(|number| CellFailure {
        number,
        repeat,
        message: why.clone(),
    }));
    kept::save(&held.folder, &held.sweep)?;
    Ok(())
}

/// Reports and notes a cell that measured nothing; the next one may succeed.
fn nothing_measured(
    held: &mut SweepFolder,
    CellRun { number, repeat }: CellRun,
    error: &RunError,
    context: &WorkContext<'_>,
) -> Result<(), RunError> {
    let message = error.to_string();
    context.watch.error(&format!("cell {number} of round {repeat} measured nothing: {message}"));
    held.sweep.failures.retain(|past| (past.number, past.repeat) != (number, repeat));
    held.sweep.failures.push(CellFailure { number, repeat, message });
    kept::save(&held.folder, &held.sweep)?;
    Ok(())
}

/// Checks that it makes sense to continue: the target of this cell answers, and the data exist.
fn check_reachable(
    planned: &Planned,
    cell_run: CellRun,
    context: &WorkContext<'_>,
) -> Result<(), RunError> {
    let Some(settings) = planned.settings(cell_run.number) else { return Ok(()) };
    let loaded = context.open(settings).and_then(|engine| engine.loaded());
    let used = loaded.map_err(RunError::from).and_then(|loaded| UsedData::check(settings, loaded));
    match used {
        Ok(_) => Ok(()),
        // The signal ends the sweep.
        Err(error) if error.is_interrupted() => Ok(()),
        Err(error) => Err(RunError::Environment(format!(
            "{error}; the sweep stops here, and the same command goes on with it"
        ))),
    }
}

/// Describes an ended cell in one line.
fn line(number: usize, all: &str, held: &SweepFolder, run: &Run) -> String {
    let Some(cell) = held.sweep.cells.last() else { return String::new() };
    let factors: Vec<String> =
        cell.factors.iter().map(|(key, value)| format!("{key} {value}")).collect();
    let headline = petal_judge::headline(run);
    format!(
        "{number} of {all}: {}: {}; {}{}",
        factors.join(", "),
        headline.brief(),
        limit_clause(&headline.limited_by.words),
        if cell.status == Status::Complete { "" } else { ", FAILED" },
    )
}

fn report_lost(run: &Run, context: &WorkContext<'_>) {
    for lost in run.summary.sessions_lost.iter().take(3) {
        context.watch.error(&format!(
            "session {} was lost after {} s: {} ({})",
            lost.session,
            decimal(lost.at_s, 1),
            lost.message,
            lost.code
        ));
    }
}

/// Time of the last run that is planned and not done.
fn peak_run_left(held: &SweepFolder) -> Duration {
    match held.sweep.lacks_peak_run(&held.folder.own_path()) {
        true => Duration::from_secs(held.sweep.plan.peak_run_s) + OVERHEAD_GUESSED,
        false => Duration::ZERO,
    }
}
