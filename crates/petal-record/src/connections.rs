//! Connections that a run's sessions lost and made again (`--on-disconnect retry`): raw times. The
//! outages are judged from these ([`Outage`]).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use petal_workload::op::Kind;

/// Losses that are kept one by one.
pub const LOSSES_MAX: usize = 10_000;

/// All losses of a run, and the successes around them. Times are seconds after the trigger.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ConnectionLosses {
    /// Longest time that an operation waited for its answer.
    pub answer_limit_s: f64,
    /// End of the last session.
    pub end_s: f64,
    /// Losses in the order of their times, at most [`LOSSES_MAX`].
    pub losses: Vec<ConnectionLoss>,
    pub losses_total: u64,
    /// Shortest time without a success that is in `silences`.
    pub silence_min_s: f64,
    /// Times without a success while some connection was lost.
    pub silences: Vec<Silence>,
    pub step_s: f64,
    /// Successes in steps of `step_s` around the losses.
    pub steps: Vec<SuccessStep>,
}

/// A connection that was lost.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ConnectionLoss {
    pub session: u32,
    /// The server; null if it has no name.
    pub server: Option<String>,
    /// Time at which petal learned of it.
    pub at_s: f64,
    pub code: String,
    pub message: String,
    /// Kind of the operation in flight; null if there was none.
    pub operation: Option<Kind>,
    /// End of the session's last success; null if it had none.
    pub last_success_s: Option<f64>,
    /// Attempts to connect.
    pub attempts: u32,
    /// Reason of the last attempt that failed; null if the first one succeeded.
    pub refused: Option<String>,
    /// Reason why petal refused the server that answered; absent if it did not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wrong_server: Option<String>,
    /// Time at which the session was connected again; null if it was not.
    pub back_s: Option<f64>,
    pub back_at: Option<String>,
    pub first_success_s: Option<f64>,
    /// The UPDATE in flight, which may have been committed; null for other operations.
    pub in_doubt: Option<DoubtfulCommit>,
}

/// An UPDATE whose connection was lost before the answer to its COMMIT.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct DoubtfulCommit {
    pub schema: u32,
    pub first: u64,
    pub rows: u32,
    pub stamp: u64,
    /// Begin of the operation.
    pub begin_s: f64,
    /// Outcome by its rows, read after the run.
    pub outcome: CommitOutcome,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CommitOutcome {
    /// A row holds its version.
    Committed,
    /// A row of it holds a version that is certainly older.
    NotCommitted,
    /// The rows were not read, or others may have changed them since.
    #[default]
    Unknown,
}

/// A time without a success.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Silence {
    /// Operations of this kind; null: of all kinds.
    pub kind: Option<Kind>,
    /// Success before it; null if there was none.
    pub from_s: Option<f64>,
    /// Success after it; null if there was none until the end of the run.
    pub until_s: Option<f64>,
}

/// Successes in one step of time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct SuccessStep {
    /// Begin of the step.
    pub at_s: f64,
    pub successes: u64,
}

/// A time in which sessions had lost their connections.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Outage {
    pub first_error_s: f64,
    /// Last success of any session before the time without successes, and the first after it.
    pub last_success_s: Option<f64>,
    pub first_success_s: Option<f64>,
    /// Time between both; 0 if successes went on; null if no success came before, or after.
    pub down_s: Option<f64>,
    /// Times without a success of each kind of operation.
    pub by_kind: BTreeMap<String, KindOutage>,
    /// Time from the last success until successes were back at half, and at 95 %, of the rate before;
    /// null if they were not, or no rate before is known.
    pub half_rate_after_s: Option<f64>,
    pub full_rate_after_s: Option<f64>,
    /// Sessions that lost a connection, and those that were not back at the end.
    pub sessions: u32,
    pub not_back: u32,
    /// Losses by server, and reconnections by server.
    pub lost_at: BTreeMap<String, u64>,
    pub back_at: BTreeMap<String, u64>,
    /// Losses by the database's code.
    pub errors: BTreeMap<String, u64>,
    /// Servers that answered and that petal refused, with the reason.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub wrong_servers: Vec<String>,
    /// Commits that were in doubt, by their outcome.
    pub in_doubt: BTreeMap<CommitOutcome, u64>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct KindOutage {
    pub last_success_s: Option<f64>,
    pub first_success_s: Option<f64>,
    pub down_s: Option<f64>,
}
