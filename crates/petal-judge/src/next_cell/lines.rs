//! The lines of a sweep, for the choice of its next cell: cells that differ in sessions only.

use super::{LineCurves, LineReading, PeakAndKnee, adaptive, ladder, repeats, within};
use crate::{by_key, factor_words};
use petal_model::record::Run;
use petal_model::record::observation::{Observation, metric};
use petal_model::record::sweep::{SweepCell, SweepPlan, Swept};
use petal_model::record::sweep_design::Design;
use petal_model::record::sweep_order::CellRun;

const SESSIONS: &str = "sessions";
/// Cells that a ladder repeats, if peak and knee stay where they are: the peak, the knee and its
/// neighbours.
const REPEATED: usize = 4;

/// A run of a cell, done or failed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CellReading {
    pub cell: CellRun,
    pub(super) load: Option<f64>,
    pub(super) power: Option<f64>,
    pub(super) latency_share: Option<f64>,
}

impl CellReading {
    /// A run that measured nothing.
    pub fn failed(cell: CellRun) -> Self {
        Self { cell, load: None, power: None, latency_share: None }
    }

    pub fn of_run(cell: CellRun, run: &Run, design: &Design) -> Self {
        let seen = Observation::of_run("", Vec::new(), run);
        if seen.why_unusable().is_some() {
            return Self::failed(cell);
        }
        let load = seen.metric(metric::PIOPS).or_else(|| seen.metric(metric::OPS));
        let read_us = seen.metric(metric::READ_US).filter(|read_us| *read_us > 0.0);
        let power = load.zip(read_us).map(|(load, read_us)| load / read_us);
        let latency_share = design.objective().and_then(|objective| {
            Some(objective.figure(|name| seen.metric(name))? / objective.limit_us)
        });
        Self { cell, load, power, latency_share }
    }

    /// Returns the runs of a sweep that have a record.
    pub(super) fn all(swept: &Swept) -> Vec<Self> {
        let cells = swept.sweep.cells.iter().zip(&swept.runs);
        let reading = |(cell, run): (&SweepCell, &Run)| {
            let cell = CellRun { number: cell.number, repeat: cell.repeat };
            Self::of_run(cell, run, &swept.sweep.plan.design)
        };
        cells.map(reading).collect()
    }
}

/// Cells that differ in sessions only, by sessions.
pub(super) struct CellLine {
    pub factors: Vec<(String, String)>,
    pub sessions: Vec<u32>,
    numbers: Vec<u32>,
}

impl CellLine {
    pub fn all(plan: &SweepPlan) -> Vec<Self> {
        let cells = (1..).zip(plan.cells()).filter_map(|(number, factors)| {
            let of = |key: &str| factors.iter().find(|(name, _)| name == key);
            let sessions: u32 = of(SESSIONS)?.1.parse().ok()?;
            let others = factors.into_iter().filter(|(name, _)| name != SESSIONS);
            Some((others.collect::<Vec<_>>(), (sessions, number)))
        });
        let lines = by_key(cells).into_iter().map(|(factors, mut cells)| {
            cells.sort_unstable();
            let (sessions, numbers) = cells.into_iter().unzip();
            Self { factors, sessions, numbers }
        });
        lines.collect()
    }

    pub fn readings(&self, all: &[CellReading]) -> Vec<LineReading> {
        let own = all.iter().filter_map(|reading| {
            let at = self.numbers.iter().position(|number| *number == reading.cell.number)?;
            let CellReading { load, power, latency_share, .. } = *reading;
            Some(LineReading { at, load, power, latency_share })
        });
        own.collect()
    }

    fn next(&self, plan: &SweepPlan, readings: &[LineReading]) -> Option<usize> {
        let repeats = plan.repeats as usize;
        match plan.design {
            Design::Grid | Design::Repeated { .. } => None,
            Design::Search { .. } => within::next(&self.sessions, readings, repeats),
            Design::Ladder => ladder(self.sessions.len(), readings, repeats),
            Design::Adaptive { precision, runs_max } => {
                adaptive(&self.sessions, readings, precision, runs_max as usize)
            }
        }
    }
}

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
        let number = *line.numbers.get(line.next(plan, own)?)?;
        let repeats = readings.iter().map(|reading| reading.cell);
        let last = repeats.filter(|cell| cell.number == number).map(|cell| cell.repeat).max();
        Some(CellRun { number, repeat: last.unwrap_or(0) + 1 })
    })
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
            knee_sessions: found.knee.and_then(|knee| line.sessions.get(knee).copied()),
            found,
        })
    });
    lines.collect()
}
