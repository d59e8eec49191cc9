//! Experiments that a run made on itself: raw counts by slot of time. The judgement is made from
//! these ([`Elasticity`](super::conclusions::Elasticity)).

use serde::{Deserialize, Serialize};

/// Slots of time, in rounds: each round has each change once, and slots without one, in a random
/// order.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ExperimentsMade {
    /// Begin of the first slot, in seconds after the trigger.
    pub from_s: f64,
    pub slot_s: f64,
    /// Begin of each slot that is not counted.
    pub settling_s: f64,
    pub slots_per_round: u32,
    pub changes: Vec<ResourceChange>,
    /// The slots of whole rounds.
    pub slots: Vec<ExperimentSlot>,
    /// Reason why there are no experiments, or none of a resource.
    pub gaps: Vec<String>,
}

/// A change that experiments make to one resource.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ResourceChange {
    pub of: ChangedResource,
    /// The change in words.
    pub words: String,
    /// Time of the resource for each operation, or its amount, over the one without the change.
    pub factor: f64,
}

/// A resource that experiments change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChangedResource {
    /// Processor time of the sessions.
    Processors,
    /// Processor time of petal's sessions; the database has its own.
    ClientProcessors,
    /// Number of reads.
    Reads,
    /// Time that a read takes, above the storage.
    ReadLatency,
    /// Time that a commit takes.
    Commits,
    /// Time between a session's operations.
    Pauses,
    Sessions,
}

impl ChangedResource {
    /// The resource in a person's words.
    pub fn words(self) -> &'static str {
        match self {
            Self::Processors => "processors",
            Self::ClientProcessors => "petal's processors",
            Self::Reads => "reads",
            Self::ReadLatency => "read latency",
            Self::Commits => "commits",
            Self::Pauses => "operations' time",
            Self::Sessions => "sessions",
        }
    }
}

/// A slot of time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ExperimentSlot {
    /// None without a change.
    pub change: Option<ChangedResource>,
    /// Operations in the counted part. One that began or ended outside counts by the share of its
    /// time inside.
    pub operations: f64,
}
