//! Neighbours that worked next to a run in turn: raw figures by slot of time, and the price of each
//! neighbour for the users, which is made from these.

use serde::{Deserialize, Serialize};

use super::IntervalTotals;
use petal_host::histogram::LatencySummary;

/// Slots of time, in rounds: each round has each neighbour once, and one slot without any, in a
/// random order.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Interference {
    pub neighbours: Vec<Neighbour>,
    pub slot_s: f64,
    /// Time at the begin of each slot, after its neighbour is at work, that is not counted.
    pub settling_s: f64,
    /// Response time within which operations are counted once more; None without an objective.
    pub within_us: Option<f64>,
    /// The slots that began, in order.
    pub slots: Vec<InterferenceSlot>,
    /// Response times of all kinds together, by second.
    pub seconds: Vec<ResponseSecond>,
}

/// Response times of the operations that ended in a whole second.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ResponseSecond {
    /// Seconds after the trigger.
    pub from_s: f64,
    pub response_us: LatencySummary,
}

/// Work next to a run: by petal, or a command of the user's.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Neighbour {
    /// Name of petal's own, or the command without secrets.
    pub name: String,
    /// File in the run's folder with its output; None if it has none.
    pub output: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct InterferenceSlot {
    /// Index of the neighbour at work; None: no neighbour.
    pub neighbour: Option<usize>,
    /// Seconds after the trigger.
    pub from_s: f64,
    pub to_s: f64,
    /// Bounds of the counted part; both are 0 if nothing was counted.
    pub counted_from_s: f64,
    pub counted_to_s: f64,
    pub starts: Vec<NeighbourStart>,
    /// Totals of the counted part; None if nothing was counted.
    pub totals: Option<IntervalTotals>,
    /// Operations of the counted part within the objective.
    pub ops_within: Option<u64>,
}

/// A start of a neighbour within its slot.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct NeighbourStart {
    /// Seconds after the trigger.
    pub at_s: f64,
    pub ended_s: f64,
    /// Exit code of a command that ended by itself; None for other work, or if petal ended it.
    pub exit_code: Option<i32>,
    /// Reason of a failure; None if it ended well, or petal ended it.
    pub failure: Option<String>,
}

impl InterferenceSlot {
    pub fn counted_s(&self) -> f64 {
        self.counted_to_s - self.counted_from_s
    }

    /// Seconds of the counted part in which its neighbour was at work.
    pub fn worked_s(&self) -> f64 {
        let within = |start: &NeighbourStart| {
            start.ended_s.min(self.counted_to_s) - start.at_s.max(self.counted_from_s)
        };
        self.starts.iter().map(|start| within(start).max(0.0)).sum()
    }

    pub fn has_failed(&self) -> bool {
        self.starts.iter().any(|start| start.failure.is_some())
    }
}

/// The price of a neighbour for the users: differences of the slots with it from those without.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NeighbourPrice {
    pub neighbour: String,
    /// Pairs of slots with and without it, of the same round.
    pub pairs: usize,
    /// Share of the counted time in which it was at work; None if nothing was counted.
    pub worked: Option<f64>,
    pub figures: Vec<PricedFigure>,
    /// Reason why there is no price at all.
    pub why_unknown: Option<String>,
}

/// Layer of a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PricedLayer {
    Users,
    Database,
    Device,
    Processors,
}

impl PricedLayer {
    pub fn words(self) -> &'static str {
        match self {
            Self::Users => "users",
            Self::Database => "database",
            Self::Device => "device",
            Self::Processors => "processors",
        }
    }
}

/// A figure with a neighbour and without it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PricedFigure {
    pub layer: PricedLayer,
    /// Name, such as `p99`.
    pub figure: String,
    /// Unit: `us`, `/s` or `%`.
    pub unit: String,
    /// Geometric means of the slots, whose ratio is that of `share`.
    pub without: Option<f64>,
    pub with: Option<f64>,
    /// Geometric mean of the pairs' ratios, less 1.
    pub share: Option<f64>,
    /// The 95 % interval of `share`, for this figure alone.
    pub interval: Option<(f64, f64)>,
    /// Two-sided p value of "no difference", corrected for all figures of all neighbours.
    pub p: Option<f64>,
    /// True if a difference was found, after the correction.
    pub is_found: bool,
    /// The smallest difference that would have been found, after the correction.
    pub smallest: Option<f64>,
    pub why_unknown: Option<String>,
}
