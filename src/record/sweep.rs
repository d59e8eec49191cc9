//! What a sweep leaves on disk: `sweep.json` (the plan, and which cells are done) and a run's
//! folder per cell. Plain values; choosing the order and running the cells is the driver's.

use serde::{Deserialize, Serialize};

use super::observation::Observation;
use super::{Run, Status};

pub const FORMAT: &str = "petal-sweep/1";

/// One axis: a parameter in lower case (`update_pct`), `sessions` or `db`, and its values in the
/// order in which they were asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Axis {
    pub key: String,
    pub values: Vec<String>,
}

/// What a sweep means to do. The same plan finds its folder again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    pub axes: Vec<Axis>,
    pub repeats: u32,
    pub seed: u64,
    /// Every other parameter, slob.conf's names in lower case. No secrets.
    pub settings: serde_json::Map<String, serde_json::Value>,
}

/// One cell of one repeat that ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// From 1, in the order of the plan (not of time).
    pub number: u32,
    /// From 1.
    pub repeat: u32,
    /// The value on every axis.
    pub factors: Vec<(String, String)>,
    /// The run's folder, relative to the sweep's.
    pub folder: String,
    pub status: Status,
}

/// The content of `sweep.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sweep {
    pub format: String,
    pub petal_version: String,
    pub engine: String,
    /// UTC, RFC 3339.
    pub started_at: String,
    pub status: Status,
    pub plan: Plan,
    /// In the order of time.
    pub cells: Vec<Cell>,
}

/// A sweep with the records of its cells, as reports need it.
#[derive(Debug, Clone, PartialEq)]
pub struct Swept {
    pub sweep: Sweep,
    /// In the order of [`Sweep::cells`].
    pub runs: Vec<Run>,
}

impl Swept {
    pub fn observations(&self) -> Vec<Observation> {
        let cells = self.sweep.cells.iter().zip(&self.runs);
        cells
            .map(|(cell, run)| {
                let seen = Observation::of_run(&cell.folder, cell.factors.clone(), run);
                Observation { repeat: Some(cell.repeat), ..seen }
            })
            .collect()
    }
}
