//! The next run of a sweep, line by line, and peak and knee of its lines at the end.

use std::collections::BTreeSet;

use super::cells::{CellLine, CellReading};
use super::{LineCurves, LineReading, PeakAndKnee, adaptive, ladder, repeats, within};
use crate::factor_words;
use crate::petals::POINTS_MIN;
use petal_record::sweep::{CellRun, SweepPlan, Swept};
use petal_record::sweep_design::Design;

/// Cells that a ladder repeats, if peak and knee stay where they are: the peak, the knee and its
/// neighbours.
const REPEATED: usize = 4;

/// Returns the next run of a sweep that chooses its cells: of the lines or cells that are not at their
/// end, the one with the fewest runs. None at the end of all, and of a grid.
pub fn next(plan: &SweepPlan, readings: &[CellReading]) -> Option<CellRun> {
    if let Design::Repeated { .. } = plan.design {
        return repeats::next(plan, readings);
    }
    let lines = CellLine::all(plan);
    let mut due: Vec<(usize, &CellLine, Vec<LineReading>)> = Vec::new();
    for line in &lines {
        let own = line.readings(readings);
        due.push((own.len(), line, own));
    }
    due.sort_by_key(|(runs, ..)| *runs);
    due.iter().find_map(|(_, line, own)| {
        let number = *line.numbers.get(next_of(line, plan, own)?)?;
        let repeats = readings.iter().map(|reading| reading.cell);
        let last = repeats.filter(|cell| cell.number == number).map(|cell| cell.repeat).max();
        Some(CellRun { number, repeat: last.unwrap_or(0) + 1 })
    })
}

fn next_of(line: &CellLine, plan: &SweepPlan, readings: &[LineReading]) -> Option<usize> {
    let repeats = plan.repeats as usize;
    match plan.design {
        Design::Grid | Design::Repeated { .. } => None,
        Design::Search { .. } => within::next(&line.sessions, readings, repeats),
        Design::Ladder => ladder(line.sessions.len(), readings, repeats),
        Design::Adaptive { precision, runs_max } => {
            adaptive(&line.sessions, readings, precision, runs_max as usize)
        }
    }
}

/// The most runs that a sweep which chooses its cells usually has.
pub fn runs_most(plan: &SweepPlan) -> usize {
    let lines = CellLine::all(plan);
    let repeats = plan.repeats as usize;
    let runs = |line: &CellLine| match plan.design {
        // Its repeats are the most runs of a cell.
        Design::Grid | Design::Repeated { .. } => line.sessions.len() * repeats,
        Design::Ladder => line.sessions.len() + REPEATED.min(line.sessions.len()) * (repeats - 1),
        Design::Adaptive { runs_max, .. } => runs_max as usize,
        Design::Search { .. } => within::runs_most(&line.sessions, repeats),
    };
    lines.iter().map(runs).sum()
}

/// Peak and knee of a line of a sweep that chose its cells.
#[derive(Debug, Clone, PartialEq)]
pub struct FoundOnLine {
    /// The factors of the line, such as `UPDATE_PCT 20`.
    pub name: String,
    pub runs: usize,
    pub peak_sessions: u32,
    pub knee_sessions: Option<u32>,
    pub found: PeakAndKnee,
}

/// The number of cells with a known power.
fn measured(readings: &[LineReading]) -> usize {
    let known = readings.iter().filter(|reading| reading.power.is_some());
    known.map(|reading| reading.at).collect::<BTreeSet<_>>().len()
}

/// Returns peak and knee of each line with figures, if they chose the cells; else nothing.
pub fn found(swept: &Swept) -> Vec<FoundOnLine> {
    let plan = &swept.sweep.plan;
    if !matches!(plan.design, Design::Ladder | Design::Adaptive { .. }) {
        return Vec::new();
    }
    let readings = CellReading::all(swept);
    let lines = CellLine::all(plan);
    let lines = lines.iter().filter_map(|line| {
        let own = line.readings(&readings);
        let found = LineCurves::through(&line.sessions, &own)?.peak_and_knee();
        Some(FoundOnLine {
            name: factor_words(&line.factors),
            runs: own.len(),
            peak_sessions: *line.sessions.get(found.peak)?,
            knee_sessions: found
                .knee
                .filter(|_| measured(&own) >= POINTS_MIN)
                .and_then(|knee| line.sessions.get(knee).copied()),
            found,
        })
    });
    lines.collect()
}
