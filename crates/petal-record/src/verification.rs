//! The result of the verification of a ledger: `petal-verify/1`, as `petal verify --json` prints
//! it.

use serde::{Deserialize, Serialize};

pub const FORMAT: &str = "petal-verify/1";
/// Rows, and bad rows, that are reported one by one.
pub const LISTED_MAX: usize = 20;

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Verification {
    pub format: String,
    /// The target that was read.
    pub url: String,
    /// The ledger ended with its run. If false, petal or its host was killed, or the ledger could
    /// not be written further, and the last acknowledgements may be missing from it.
    pub ledger_is_whole: bool,
    /// Bytes after the last whole frame, not counted.
    pub ledger_torn_bytes: u64,
    /// Shares of the run whose ledgers are missing, such as `2/2`.
    pub missing_shares: Vec<String>,
    /// Commits in the ledger.
    pub acknowledged_commits: u64,
    pub acknowledged_rows: u64,
    pub survived_commits: u64,
    /// Commits with at least one row that holds an older version.
    pub lost_commits: u64,
    /// The server was in recovery; null if it was not.
    pub recovery: Option<Recovery>,
    /// Commits that a server in recovery had not replayed yet: it is unknown whether they are lost.
    pub not_replayed_commits: u64,
    /// Commits without a row known to hold an older version, but with a torn or wrong one: they
    /// may have survived or not.
    pub unknown_commits: u64,
    pub lost_rows: u64,
    /// Commits whose blocks are old, and whose record in the log of a bare device is whole; null if
    /// there is no such log.
    pub in_log_commits: Option<u64>,
    /// Milliseconds from the oldest lost acknowledgement to the last acknowledgement of all; null
    /// if none was lost.
    pub lost_span_ms: Option<f64>,
    /// Acknowledgement of the oldest lost commit, in seconds after the trigger; null if none was
    /// lost.
    #[serde(default)]
    pub first_lost_s: Option<f64>,
    /// Commits from before an outage that may be lost as well: all their rows were changed again
    /// after it. Null without an outage.
    #[serde(default)]
    pub overwritten_commits: Option<u64>,
    pub lost: Vec<LostRow>,
    /// Rows that are torn, unreadable or missing, or hold content of another place.
    pub bad_rows: u64,
    pub bad: Vec<BadRow>,
    pub rows_read: u64,
    /// Rows that hold a version that was never acknowledged, which is allowed.
    pub unacknowledged_rows: u64,
    pub unacknowledged_versions: u64,
    /// Rows that hold a version of a share whose ledger is missing: a loss below it is not seen.
    pub missing_share_rows: u64,
    /// Rows that hold a version of another run.
    pub other_run_rows: u64,
}

/// Progress of a server in recovery, such as a standby, when the verification began.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Recovery {
    pub server: String,
    /// Positions in the log up to which it had replayed, and received.
    pub replayed: Option<String>,
    pub received: Option<String>,
    /// Commit time of the last transaction that it had replayed, by its primary's clock.
    pub replayed_until: Option<String>,
    /// Acknowledgement time of the ledger's last commit, by the clock of petal's host.
    pub ledger_until: Option<String>,
    /// The ledger's last commit was replayed, so all missing commits are lost.
    pub has_last_commit: bool,
}

impl Verification {
    /// This result for a server in recovery: before it has replayed the ledger's last commit,
    /// missing commits may still arrive.
    pub fn in_recovery(self, recovery: Recovery) -> Self {
        if recovery.has_last_commit {
            return Self { recovery: Some(recovery), ..self };
        }
        Self {
            recovery: Some(recovery),
            not_replayed_commits: self.lost_commits,
            lost_commits: 0,
            lost_rows: 0,
            lost_span_ms: None,
            first_lost_s: None,
            lost: Vec::new(),
            ..self
        }
    }

    /// True if no acknowledged commit is lost, and every row is whole.
    pub fn is_kept(&self) -> bool {
        self.lost_commits == 0 && self.bad_rows == 0
    }
}

/// A row that holds an older version than was acknowledged.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LostRow {
    pub schema: u32,
    pub key: u64,
    /// The last of the lost versions.
    pub session: u32,
    pub sequence: u64,
    /// UTC, RFC 3339.
    pub acknowledged_at: Option<String>,
    /// Milliseconds before the last acknowledgement of all.
    pub before_last_ms: f64,
    /// Content found: a version, such as `session 3, operation 41`, `the row as it was loaded`, `a
    /// version of another run` or `no row`.
    pub found: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BadRow {
    pub schema: u32,
    pub key: u64,
    pub why: String,
}
