//! The cells, one after the other: each a run in a folder of its own, kept as it ends.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Instant;

use crate::record::observation::{Observation, metric};
use crate::record::sweep::{self as kept, Cell, Failure as Nothing};
use crate::record::{Run, Status};
use crate::report::numbers::{micros, or_dash, rate};
use crate::runner::sweep::{Pace, Turn, left};
use crate::settings::Settings;

use super::super::console::Console;
use super::super::failure::{Exit, Failure};
use super::super::series::{InUse, Series, worse};
use super::super::source;
use super::place::Held;
use super::plan::{Planned, run_time, span};

/// Runs what is left, until a signal, and tells how the worst of what stands beside the figures
/// went: hooks, reports. An error means that the sweep cannot go on now; the same command takes it
/// up again.
pub fn run(
    planned: &Planned,
    held: &mut Held,
    signals: &Arc<AtomicU8>,
    console: &Console,
) -> Result<Exit, Failure> {
    let mut exit = Exit::Done;
    let turns = left(&held.sweep);
    let all: usize = held.sweep.plan.order.iter().map(Vec::len).sum();
    let mut pace = Pace::default();
    for (at, turn) in turns.iter().enumerate() {
        if signals.load(Ordering::Relaxed) > 0 {
            break;
        }
        let left_s = pace.left(turns.len() - at, run_time(planned));
        let number = all - turns.len() + at + 1;
        console.heading(&format!("cell {number} of {all}, all done in {} | ", span(left_s)));
        let began = Instant::now();
        let ended = one(planned, held, *turn, signals, console);
        console.heading("");
        match ended {
            Ok(None) => break,
            Ok(Some((run, beside))) => {
                exit = worse(exit, beside);
                let ran_s = run.summary.elapsed_s.min(run_time(planned).as_secs_f64());
                let ran = std::time::Duration::try_from_secs_f64(ran_s).unwrap_or_default();
                pace.add(began.elapsed(), ran);
                console.warn(&line(number, all, held, &run));
                let lost = !run.summary.sessions_lost.is_empty();
                if let Some(missing) = run.summary.finding("rows-missing") {
                    console.error(&missing.message);
                }
                if lost {
                    tell_lost(&run, console);
                    reachable(planned, *turn, signals, console)?;
                }
            }
            Err(failure) if failure.exit == Exit::Interrupted => break,
            Err(failure) => {
                nothing_measured(held, *turn, failure, console)?;
                reachable(planned, *turn, signals, console)?;
            }
        }
    }
    if left(&held.sweep).is_empty() {
        held.sweep.status = Status::Complete;
        kept::save(&held.folder, &held.sweep)?;
    }
    Ok(exit)
}

/// One cell: run, kept, in the index; and how what stands beside its figures went. None when a signal cut it; an error when it measured nothing.
fn one(
    planned: &Planned,
    held: &mut Held,
    turn: Turn,
    signals: &Arc<AtomicU8>,
    console: &Console,
) -> Result<Option<(Run, Exit)>, Failure> {
    let Turn { number, repeat } = turn;
    let plan = &held.sweep.plan;
    let (Some(settings), Some(factors)) =
        (planned.settings(number), plan.cells().into_iter().nth(number as usize - 1))
    else {
        return Err(Failure::usage(format!("this plan has no cell {number}")));
    };
    let settings = Settings { seed: Some(plan.seed), repeats: plan.repeats, ..settings.clone() };
    let dir = held.folder.path().to_owned();
    let name = plan.folder_name(number, &factors, repeat);
    let engine = source::open(&settings, signals, console)?;
    let mut series = Series::new(engine, settings, signals.clone())?;
    series.os_data = planned.os_data.clone();
    let folder = kept::begin_cell(&dir, &name)?;
    let done = series.run_in(folder, number, repeat, console)?;
    let status = done.run.summary.status;
    let is_written = done.folder.path().join("run.json").is_file();
    if status == Status::Interrupted || !is_written {
        return match done.failure {
            Some(failure) if !is_written => Err(failure),
            _ => Ok(None),
        };
    }
    kept::finish_cell(&dir, &name, &done.folder)?;
    held.sweep.cells.push(Cell { number, repeat, factors, folder: name, status });
    held.sweep.failures.retain(|past| (past.number, past.repeat) != (number, repeat));
    kept::save(&held.folder, &held.sweep)?;
    let beside = done.failure.map_or(Exit::Done, |failure| {
        console.error(&failure.message);
        failure.exit
    });
    Ok(Some((done.run, beside)))
}

/// Tells and notes a cell that measured nothing; the next one may go better.
fn nothing_measured(
    held: &mut Held,
    turn: Turn,
    failure: Failure,
    console: &Console,
) -> Result<(), Failure> {
    console.error(&format!(
        "cell {} of round {} measured nothing: {}",
        turn.number, turn.repeat, failure.message
    ));
    let Turn { number, repeat } = turn;
    held.sweep.failures.retain(|past| (past.number, past.repeat) != (number, repeat));
    held.sweep.failures.push(Nothing { number, repeat, message: failure.message.clone() });
    kept::save(&held.folder, &held.sweep)?;
    Ok(())
}

/// Whether going on makes sense: the target of this cell answers, and the data are there.
fn reachable(
    planned: &Planned,
    turn: Turn,
    signals: &Arc<AtomicU8>,
    console: &Console,
) -> Result<(), Failure> {
    let Some(settings) = planned.settings(turn.number) else { return Ok(()) };
    let engine = source::open(settings, signals, console);
    let loaded = engine.and_then(|engine| Ok(engine.loaded()?));
    match loaded.and_then(|loaded| InUse::check(settings, loaded)) {
        Ok(_) => Ok(()),
        // The sweep ends by it.
        Err(failure) if failure.exit == Exit::Interrupted => Ok(()),
        Err(failure) => Err(Failure::new(
            Exit::Environment,
            format!(
                "{}; the sweep stops here, and the same command goes on with it",
                failure.message
            ),
        )),
    }
}

/// What a person wants to know of a cell as it ends.
fn line(number: usize, all: usize, held: &Held, run: &Run) -> String {
    let Some(cell) = held.sweep.cells.last() else { return String::new() };
    let seen = Observation::of_run("", Vec::new(), run);
    let told: Vec<String> =
        cell.factors.iter().map(|(key, value)| format!("{key} {value}")).collect();
    format!(
        "{number} of {all}, round {}: {}: {} PIOPS, {} us a read, {} operations/s{}",
        cell.repeat,
        told.join(", "),
        or_dash(seen.metric(metric::PIOPS), rate),
        or_dash(seen.metric(metric::READ_US), micros),
        or_dash(seen.metric(metric::OPS), rate),
        if cell.status == Status::Complete { "" } else { ", FAILED" },
    )
}

fn tell_lost(run: &Run, console: &Console) {
    for lost in run.summary.sessions_lost.iter().take(3) {
        console.error(&format!(
            "session {} was lost after {:.1} s: {} ({})",
            lost.session, lost.at_s, lost.message, lost.code
        ));
    }
}
