//! Facts that an engine states about the target it drives: plain facts that the record keeps.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// Product, size and settings of the target, as they were when a run began.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Target {
    pub product: String,
    pub version: String,
    pub block_size: u64,
    /// All of the cache that the run's sessions can use together, in bytes.
    pub cache_bytes: Option<u64>,
    /// The URL without its secrets.
    pub url: String,
}

/// The facts about a target beyond the stable five of [`Target`].
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TargetDetails {
    /// True when the target runs on this host, so that its devices and processors can be seen.
    pub local: bool,
    /// Why its host is not seen, where that is not because it is another host.
    pub host_unseen: Option<String>,
    /// True when the database runs inside petal's own process: its processor time is petal's.
    pub in_process: bool,
    /// What one session's own cache holds of one schema, in bytes; None where sessions share one.
    pub session_cache_bytes: Option<u64>,
    /// Settings that decide durability and I/O, by the database's own names.
    pub settings: Vec<(String, String)>,
    /// The files or folders that hold data and log, to find their devices.
    pub data_files: Vec<PathBuf>,
    /// How the engine's clock resolves an operation, in nanoseconds.
    pub clock_resolution_ns: u64,
    /// The plan of the SELECT, with the UPDATE's where the engine asks for it, as the database explains
    /// them, and whether they are the meant ones.
    pub plan: Option<PlanCheck>,
    /// How many times smaller sampled blocks get by LZ4; 1.0 is incompressible.
    pub compression_ratio: Option<f64>,
    /// Whether data reads and writes pass the page cache, and why not if they were meant to.
    pub direct_io: Option<DirectIo>,
    /// False when a commit may be lost in a power cut, with the setting that says so.
    pub durability: Option<Durability>,
    /// Which of its wait events are the read of a block, its write and the log's flush.
    pub io_events: IoEvents,
    /// Why the database did not time its reads, and what would make it.
    pub io_untimed: Option<String>,
    /// How writes are checkpointed, in the engine's own words.
    pub checkpoint: Option<String>,
    /// Each commit that was waited for is one log sync in the database's own count, also where
    /// several were made durable by one write.
    pub sync_per_commit: bool,
    /// Which kind of file holds tables and indexes, as the I/O by kind of file names it; None where
    /// the engine sees no files.
    pub data_file_kind: Option<String>,
    /// Settings that shape a result and that few would choose for a test.
    pub notable_settings: Vec<NotableSetting>,
    pub advice: Advice,
}

/// One setting of a target, what it does to a run, and what to do about it: two sentences.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NotableSetting {
    pub effect: String,
    pub advice: String,
    /// It shapes only runs that update rows.
    pub of_updates: bool,
}

macro_rules! advice {
    ($($(#[$doc:meta])* $field:ident),+ $(,)?) => {
        /// What to change in this database where a finding asks for it, in its own terms. None:
        /// nothing beyond what holds for every database.
        #[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
        #[serde(default)]
        pub struct Advice {
            $($(#[$doc])* #[serde(skip_serializing_if = "Option::is_none")] pub $field: Option<String>),+
        }
    };
}

advice! {
    /// To have each commit wait for the log.
    wait_for_commits,
    /// To make room in the log, so that its size forces no checkpoint.
    enlarge_log,
    /// Why checkpoints by the log's size are no fault here.
    checkpoints_by_log_size,
    /// To read single blocks.
    stop_prefetch,
    /// To keep index blocks in the cache.
    keep_cached,
    /// To write changed blocks faster.
    write_faster,
    /// To remove old row versions faster.
    purge_faster,
    /// To see who else works in the database.
    find_others,
}

/// The engine's own names of the three waits that every engine has, and who times them. Empty
/// where it has none.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct IoEvents {
    pub read: String,
    pub write: String,
    pub log: String,
    /// Such as `petal's VFS shim`.
    pub timed_by: String,
}

/// What petal's role may do at a server, by what petal does with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Privilege {
    /// Such as `checkpoint`.
    pub what: String,
    pub is_granted: bool,
    /// One sentence: what it does to a test where it is missing.
    pub without: String,
    pub advice: String,
}

/// A fact about a target before a load.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoadFact {
    /// Such as `room for the data`.
    pub what: String,
    /// `-` with the reason, if it is unknown.
    pub value: String,
    pub verdict: LoadVerdict,
    /// One sentence: what it does to a load.
    pub why: String,
    pub advice: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoadVerdict {
    Good,
    /// Worth knowing, and no reason against the load.
    Note,
    /// The load would fail or be refused.
    Bad,
    Unknown,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlanCheck {
    pub text: String,
    pub as_meant: bool,
}

impl PlanCheck {
    /// One that is not as meant, else the first; None without any.
    pub fn worst(checks: impl IntoIterator<Item = Self>) -> Option<Self> {
        checks.into_iter().reduce(|first, next| match first.as_meant && !next.as_meant {
            true => next,
            false => first,
        })
    }
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct DirectIo {
    pub asked: bool,
    pub used: bool,
    /// Why it is not used although it was asked for.
    pub reason: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Durability {
    pub durable: bool,
    /// The setting that decides it, such as `synchronous=FULL`.
    pub setting: String,
}

/// One schema as it is loaded.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoadedSchema {
    pub number: u32,
    /// Rows, so blocks, of the main table.
    pub rows: u64,
    /// Rows of the scan table.
    pub scan_rows: u64,
    pub block_size: u64,
    /// Bytes of the main table.
    pub bytes: u64,
    /// Bytes of the index on the key.
    pub index_bytes: u64,
    /// How its columns are filled, by the filler's name; None of data that
    /// petal did not load.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filler: Option<String>,
    /// Whether the index on the key was asked for as a unique one; None where a load does not keep
    /// it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unique_index: Option<bool>,
}

/// What a look for a schema's rows found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RowsFound {
    pub loaded: u64,
    /// How many of them were looked for, all over the data.
    pub looked_for: u64,
    pub found: u64,
}

/// What settling before a run cost and found.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Settled {
    pub seconds: f64,
    /// Of the operating system's page cache; None where the host is not watched.
    pub dirty_bytes_before: Option<u64>,
    pub dirty_bytes_after: Option<u64>,
    /// What was done, a line each.
    pub done: Vec<String>,
}
