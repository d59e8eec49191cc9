//! The lines of a sweep, for the choice of its next cell: cells that differ in sessions only.

use super::LineReading;
use crate::by_key;
use crate::verdict::{OTHER_LOAD, not_storage};
use petal_record::Run;
use petal_record::observation::{Observation, metric};
use petal_record::sweep::{CellRun, SweepCell, SweepPlan, Swept};
use petal_record::sweep_design::Design;

const SESSIONS: &str = "sessions";

/// A run of a cell, done or failed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CellReading {
    pub cell: CellRun,
    pub(super) load: Option<f64>,
    pub(super) power: Option<f64>,
    pub(super) latency_share: Option<f64>,
}

impl CellReading {
    /// A run without a result.
    pub fn failed(cell: CellRun) -> Self {
        Self { cell, load: None, power: None, latency_share: None }
    }

    pub fn of_run(cell: CellRun, run: &Run, design: &Design) -> Self {
        let seen = Observation::of_run("", Vec::new(), run);
        // Others' work passes: a search that it ended would be of nobody's use.
        let is_cached = not_storage(&seen).is_some_and(|finding| finding != OTHER_LOAD);
        if seen.why_unusable().is_some() || is_cached {
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
    pub numbers: Vec<u32>,
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
}
