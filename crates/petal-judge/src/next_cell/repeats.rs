//! Cells that are repeated until their PIOPS are known: the next one to run, and how near each is.

use super::cells::CellReading;
use crate::estimate::Estimate;
use crate::factor_words;
use petal_record::sweep::{CellRun, SweepPlan, Swept};
use petal_record::sweep_design::Design;
use petal_record::sweep_order::round;
use serde::Serialize;

/// Reason why a cell is not repeated any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CellEnd {
    /// PIOPS are known within the precision.
    Width,
    MostRuns,
    /// A run of it has no figures.
    NoFigures,
}

/// A cell with the precision that its runs reached.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RepeatedCell {
    pub number: u32,
    /// The factors of the cell, such as `SESSIONS 8`.
    pub name: String,
    pub runs: usize,
    /// Half of the anytime-valid 95 % interval of its PIOPS, as a share of their mean; null if it is
    /// unbounded, as under three runs.
    pub off: Option<f64>,
    /// Null if the cell is still to be repeated.
    pub end: Option<CellEnd>,
}

/// Half of the anytime-valid interval of figures, as a share of their mean.
fn half_width_share(figures: &[f64]) -> Option<f64> {
    let known = Estimate::of(figures.to_vec())?.anytime();
    (known.mean > 0.0).then_some(known.half_width? / known.mean)
}

/// Returns why a cell with these figures is not repeated any more, if it is not.
pub(crate) fn end(figures: &[f64], precision: f64, runs_max: usize) -> Option<CellEnd> {
    match half_width_share(figures) {
        Some(off) if off <= precision => Some(CellEnd::Width),
        _ => (figures.len() >= runs_max).then_some(CellEnd::MostRuns),
    }
}

impl RepeatedCell {
    fn all(plan: &SweepPlan, readings: &[CellReading]) -> Vec<Self> {
        let Design::Repeated { precision, runs_max } = plan.design else { return Vec::new() };
        let cells = (1..).zip(plan.cells());
        let cell = |(number, factors): (u32, Vec<(String, String)>)| {
            let own = readings.iter().filter(|reading| reading.cell.number == number);
            let loads: Vec<Option<f64>> = own.map(|reading| reading.load).collect();
            let known: Vec<f64> = loads.iter().flatten().copied().collect();
            let end = match known.len() == loads.len() {
                true => end(&known, precision, runs_max as usize),
                false => Some(CellEnd::NoFigures),
            };
            let name = factor_words(&factors);
            Self { number, name, runs: loads.len(), off: half_width_share(&known), end }
        };
        cells.map(cell).collect()
    }

    /// Returns the cells of a sweep that was planned so; nothing of another one.
    pub fn of(swept: &Swept) -> Vec<Self> {
        Self::all(&swept.sweep.plan, &CellReading::all(swept))
    }
}

/// Returns the next run: of the cells that are not at their end, one with the fewest runs, in the
/// order of its round.
pub(super) fn next(plan: &SweepPlan, readings: &[CellReading]) -> Option<CellRun> {
    let cells = RepeatedCell::all(plan, readings);
    let due = || cells.iter().filter(|cell| cell.end.is_none());
    let repeat = due().map(|cell| cell.runs).min()? as u32 + 1;
    let is_due =
        |number: &u32| due().any(|cell| cell.number == *number && cell.runs < repeat as usize);
    let number = round(plan.seed, cells.len() as u32, repeat).into_iter().find(is_due)?;
    let own = readings.iter().filter(|reading| reading.cell.number == number);
    let last = own.map(|reading| reading.cell.repeat).max();
    Some(CellRun { number, repeat: last.unwrap_or(0) + 1 })
}
