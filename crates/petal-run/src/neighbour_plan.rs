//! The neighbours of a run and their slots, as they are asked for.

use std::time::Duration;

use petal_settings::argv;

/// Time before the first slot, if WARM_UP is shorter.
const WARM_UP_MIN_S: u64 = 3;
/// Time after the last slot in which its last second ends.
const TAIL: Duration = Duration::from_secs(1);

/// Neighbours of a run, and their slots.
#[derive(Debug, Clone)]
pub struct NeighbourPlan {
    pub neighbours: Vec<PlannedNeighbour>,
    pub pairs: u64,
    pub slot: Duration,
    pub settling: Duration,
    /// Response time within which operations are counted once more.
    pub within_us: Option<f64>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PlannedNeighbour {
    /// A neighbour that does nothing: the control.
    Nothing,
    /// A second user, on other schemas.
    Tenant,
    /// A neighbour that the engine knows.
    Known(String),
    /// A command for the shell.
    Shell(String),
}

impl NeighbourPlan {
    /// Time of a run from its trigger to the end of its last slot.
    pub fn run_time(&self, warm_up_s: f64) -> Duration {
        let slots = self.pairs * (self.neighbours.len() as u64 + 1);
        Duration::from_secs(first_slot_s(warm_up_s)) + self.slot * slots as u32 + TAIL
    }
}

/// Begin of the first slot, in whole seconds.
pub fn first_slot_s(warm_up_s: f64) -> u64 {
    (warm_up_s.ceil() as u64).max(WARM_UP_MIN_S)
}

impl PlannedNeighbour {
    /// Name for the record, without secrets.
    pub fn name(&self) -> String {
        match self {
            Self::Nothing => "none".to_owned(),
            Self::Tenant => "tenant".to_owned(),
            Self::Known(name) => name.clone(),
            Self::Shell(command) => {
                let words: Vec<_> = command.split(' ').map(Into::into).collect();
                let shown = argv::redacted(&words).unwrap_or(words);
                let shown = shown.iter().map(|word| word.to_string_lossy().into_owned());
                shown.collect::<Vec<_>>().join(" ")
            }
        }
    }
}
