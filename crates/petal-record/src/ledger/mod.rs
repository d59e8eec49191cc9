//! The ledger: which UPDATEs of a run were acknowledged, kept apart from the system under test.
//!
//! ```text
//! header  mark (8)  length (4)  checksum (4)  JSON
//! frame   mark (4)  session (4)  number (8)  records (4)  checksum of the records (4)
//!         time since the trigger, ns (8)  UTC, us since 1970 (8)  0 (4)  checksum of these (4)
//!         records of 36 bytes: sequence (8)  begin (8)  end (8)  first key (8)  rows (2)  schema (2)
//! end     a frame of session 0 without records
//! ```
//!
//! A frame holds the acknowledgements of one batch of a session. Frames are numbered from 0 in the
//! order of the file: a frame that is missing, changed or from another ledger is detected. A ledger
//! that ends within a frame was cut off when petal was killed: the whole frames before it count.

mod merge;
mod port;
mod read;
mod write;

pub use merge::merge;
pub use read::{Ending, read};
pub use write::{LedgerFile, LedgerSink, SessionFrame};

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use petal_workload::share::Share;
use petal_workload::version::Version;

pub const FORMAT: &str = "petal-ledger/1";
const MARK: &[u8; 8] = b"PETALLDG";
const FRAME_MARK: u32 = u32::from_le_bytes(*b"PLFR");
const FRAME_BYTES: usize = 48;
const RECORD_BYTES: usize = 36;
/// Upper bound of a frame's records: more than any session executes in a batch.
const FRAME_RECORDS_MAX: u32 = 1 << 16;
const HEADER_BYTES_MAX: u32 = 64 << 20;

/// The run, the data and the target that a ledger belongs to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LedgerHeader {
    pub format: String,
    pub petal_version: String,
    /// The target, without a password.
    pub url: String,
    /// UTC, RFC 3339.
    pub opened_at: String,
    /// The run's mask, part of every stamp.
    pub stamp_mask: u64,
    /// Sessions of all driver hosts together.
    pub sessions: u32,
    /// The driver host's share of the run; None in ledgers made before petal kept it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share: Option<Share>,
    /// True with REDO_STRESS=HEAVY: each UPDATE writes all columns.
    pub heavy: bool,
    /// Highest key that the run uses in each schema; the lowest is 1.
    pub rows: u64,
    pub schemas: Vec<LedgerSchema>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LedgerSchema {
    pub number: u32,
    /// Id of the load that wrote the rows.
    pub load: String,
}

/// A ledger, as a run's record names it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LedgerKept {
    pub path: String,
    /// Acknowledged commits in it.
    pub commits: u64,
}

/// An UPDATE that was acknowledged as committed.
///
/// The times are bounds, in nanoseconds since the trigger: its statement did not begin before
/// `begin_ns`, and its commit was over at `end_ns`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Acknowledged {
    pub version: Version,
    pub schema: u32,
    pub first: u64,
    pub rows: u16,
    pub begin_ns: u64,
    pub end_ns: u64,
}

impl Acknowledged {
    pub fn keys(&self) -> std::ops::Range<u64> {
        self.first..self.first + u64::from(self.rows)
    }
}

/// The content of a ledger file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ledger {
    pub header: LedgerHeader,
    /// Numbers of the shares whose commits are in it; empty if the header names no share.
    pub shares: BTreeSet<u32>,
    /// Commits by session, then by sequence.
    pub commits: Vec<Acknowledged>,
    pub ending: Ending,
    /// UTC of the trigger, in microseconds since 1970, if there is any frame.
    pub trigger_utc_us: Option<i64>,
    /// Largest distance between the triggers of the merged ledgers, by their hosts' clocks.
    pub triggers_apart_us: u64,
    /// The time of the last frame, since the trigger.
    pub last_ns: u64,
}
