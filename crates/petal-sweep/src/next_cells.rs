//! The cells that a sweep still runs: a list of them, or each next one from the figures so far.

use std::vec::IntoIter;

use super::folder::SweepFolder;
use petal_judge::next_cell::{self, CellReading};
use petal_record as record;
use petal_record::sweep::CellRun;
use petal_record::sweep_order::left;
use petal_run::RunError;

pub(super) enum CellQueue {
    Listed {
        cells: IntoIter<CellRun>,
        all: usize,
    },
    /// Runs so far; the next cell follows from them.
    Chosen(Vec<CellReading>),
}

/// A cell to run: the number of its run in the sweep, and the number of all runs, which is the most
/// if each next cell is chosen.
pub(super) struct QueuedCell {
    pub cell: CellRun,
    pub number: usize,
    pub all: usize,
}

impl CellQueue {
    /// The remaining cells of a sweep. Those that are done are read from their records.
    pub fn of(held: &SweepFolder) -> Result<Self, RunError> {
        let sweep = &held.sweep;
        if sweep.plan.design.is_grid() {
            let all = sweep.plan.order.iter().map(Vec::len).sum();
            return Ok(Self::Listed { cells: left(sweep).into_iter(), all });
        }
        let readings = sweep.cells.iter().map(|cell| {
            let run = record::load(&held.folder.own_path().join(&cell.folder))?;
            let cell = CellRun { number: cell.number, repeat: cell.repeat };
            Ok(CellReading::of_run(cell, &run, &sweep.plan.design))
        });
        Ok(Self::Chosen(readings.collect::<Result<_, RunError>>()?))
    }

    pub fn next(&mut self, held: &SweepFolder) -> Option<QueuedCell> {
        match self {
            Self::Listed { cells, all } => {
                // A lower step of its round may not have been held.
                let cell = cells.find(|cell| !held.sweep.is_settled(cell.number, cell.repeat))?;
                Some(QueuedCell { cell, number: *all - cells.len(), all: *all })
            }
            Self::Chosen(readings) => {
                let cell = next_cell::next(&held.sweep.plan, readings)?;
                let all = next_cell::runs_most(&held.sweep.plan);
                Some(QueuedCell { cell, number: readings.len() + 1, all })
            }
        }
    }

    pub fn add(&mut self, reading: CellReading) {
        if let Self::Chosen(readings) = self {
            readings.push(reading);
        }
    }

    /// Returns whether a chosen cell measured nothing: the same command tries it again.
    pub fn has_failed(&self, held: &SweepFolder) -> bool {
        matches!(self, Self::Chosen(_)) && !held.sweep.failures.is_empty()
    }

    /// The number of all runs, in words.
    pub fn words(&self, all: usize) -> String {
        match self {
            Self::Listed { .. } => all.to_string(),
            Self::Chosen(_) => format!("about {all}"),
        }
    }
}
