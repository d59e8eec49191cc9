//! The last run of a sweep, at its peak: experiments and a waterfall show what limits it there.

use std::collections::BTreeMap;
use std::time::Duration;

use super::cells::drive;
use super::folder::SweepFolder;
use super::plan::Planned;
use petal_host::numbers::decimal;
use petal_judge::petals::Petals;
use petal_record::Status;
use petal_record::sweep::{self as kept, CellRun, PEAK_RUN, SweepCell, Swept};
use petal_record::sweep_order::left;
use petal_report::numbers::counted;
use petal_run::{RunError, WorkContext};
use petal_settings::Settings;

/// Runs the last run, if it is planned and all cells are done. Returns failures that affect no
/// figure.
pub(super) fn run(
    planned: &Planned,
    held: &mut SweepFolder,
    context: &WorkContext<'_>,
) -> Result<Option<RunError>, RunError> {
    let sweep = held.folder.clone();
    let dir = &sweep.own_path();
    if context.caller.is_interrupted()
        || !left(&held.sweep).is_empty()
        || !held.sweep.lacks_peak_run(dir)
    {
        return Ok(None);
    }
    let swept = kept::load(dir)?;
    let cell = at_peak(&swept);
    let Some((cell, settings)) = cell.and_then(|cell| Some((cell, planned.settings(cell.number)?)))
    else {
        context
            .watch
            .error("the last run is not made: no cell is a storage test with PIOPS, so the peak is not known");
        return Ok(None);
    };
    let seconds = held.sweep.plan.peak_run_s;
    let mut settings = Settings {
        run_time: Duration::from_secs(seconds),
        elasticity: true,
        waterfall: true,
        seed: Some(held.sweep.plan.seed),
        repeats: 1,
        ..settings.clone()
    };
    settings.restate(&["RUN_TIME", "WATERFALL", "REPEATS"]);
    let factors = cell.factors.iter().map(|(key, value)| format!("{key} {value}"));
    let factors = factors.collect::<Vec<_>>().join(", ");
    context.watch.note(&format!(
        "last run, at the peak ({factors}): {seconds} s, the second half with experiments that \
         show what limits it"
    ));
    context.watch.heading("last run, ", Duration::ZERO);
    if dir.join(PEAK_RUN).exists() {
        kept::set_aside(&sweep, PEAK_RUN)?; // Its record is damaged.
    }
    let begin = || kept::begin_cell(&sweep, PEAK_RUN);
    let cell_run = CellRun { number: cell.number, repeat: 1 };
    let ended = drive(planned, settings, (cell_run, &BTreeMap::new()), begin, context);
    context.watch.heading("", Duration::ZERO);
    let done = match ended {
        Err(error) if error.is_interrupted() => return Ok(None),
        ended => ended?,
    };
    if done.run.summary.status == Status::Interrupted || !done.is_written() {
        return Ok(done.failure);
    }
    kept::finish_cell(&sweep, PEAK_RUN)?;
    held.sweep.status = Status::Complete;
    kept::save(&held.folder, &held.sweep)?;
    let elapsed = decimal(done.run.summary.elapsed_s, 0);
    let operations = counted(done.run.summary.ops.total, "operation");
    context.watch.note(&format!("last run: {operations} in {elapsed} s"));
    Ok(done.failure)
}

/// The first repeat of the cell with the most PIOPS.
fn at_peak(swept: &Swept) -> Option<&SweepCell> {
    let petals = Petals::of(&swept.observations());
    let (_, point) = petals.highest_peak()?;
    let is_at_peak = |cell: &&SweepCell| point.sources.contains(&cell.folder);
    swept.sweep.cells.iter().find(is_at_peak)
}
