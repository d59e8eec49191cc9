//! Facts that an engine states about the target it drives: plain facts that the record keeps.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use petal_host::devices::memory_file_system;
use serde::{Deserialize, Serialize, Serializer};

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

/// Identity of a server and of petal's data there. An unknown fact is `None`, or left out.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerIdentity {
    /// Name for people; not compared.
    pub server: String,
    /// Number of the database's files, which its standbys have, too.
    pub system: Option<String>,
    /// History of these files: a promotion begins the next one.
    pub timeline: Option<u64>,
    /// Number of the load, by schema.
    pub loads: BTreeMap<u32, String>,
}

impl ServerIdentity {
    /// Returns why `now` is neither the same server with the same data nor its successor: also if it
    /// no longer says a fact that was known.
    pub fn difference(&self, now: &Self) -> Option<String> {
        let or_unknown =
            |fact: &Option<String>| fact.clone().unwrap_or_else(|| "unknown".to_owned());
        if self.system.is_some() && self.system != now.system {
            let (before, now) = (or_unknown(&self.system), or_unknown(&now.system));
            return Some(format!("its system is {now}, and was {before}"));
        }
        if let Some(before) = self.timeline.filter(|&before| now.timeline.unwrap_or(0) < before) {
            let now = or_unknown(&now.timeline.map(|timeline| timeline.to_string()));
            return Some(format!("its timeline is {now}, and was {before}"));
        }
        self.loads.iter().find_map(|(schema, load)| match now.loads.get(schema) {
            None => Some(format!("schema {schema} is not there")),
            Some(now) if now != load => Some(format!("schema {schema} is of another load")),
            Some(_) => None,
        })
    }
}

/// A record is a text: bytes of a path that are no letters do not keep it from being written.
fn as_texts<S: Serializer>(paths: &[PathBuf], to: S) -> Result<S::Ok, S::Error> {
    to.collect_seq(paths.iter().map(|path| path.to_string_lossy()))
}

/// The facts about a target beyond the stable five of [`Target`].
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TargetDetails {
    /// True when the target runs on this host, so that its devices and processors can be seen.
    pub local: bool,
    /// Reason why its host is not seen, if the reason is not that it is another host.
    pub host_unseen: Option<String>,
    /// True when the database runs inside petal's own process: its processor time is petal's.
    pub in_process: bool,
    /// True if it reads its data by page faults.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub reads_by_faults: bool,
    /// Bytes of one schema in one session's own cache; `None` if sessions share a cache.
    pub session_cache_bytes: Option<u64>,
    /// Settings that decide durability and I/O, by the database's own names.
    pub settings: Vec<(String, String)>,
    /// The files or folders that hold petal's data, to find their devices; of a database in petal's
    /// process its log, too.
    #[serde(serialize_with = "as_texts")]
    pub data_files: Vec<PathBuf>,
    /// Other files and folders of a server: its catalog, its log.
    #[serde(skip)]
    pub server_files: Vec<PathBuf>,
    /// The files of the log, or the folders that hold nothing else. A run's record has no use for
    /// them.
    #[serde(skip)]
    pub log_files: Vec<PathBuf>,
    /// Resolution of the engine's clock for an operation, in nanoseconds.
    pub clock_resolution_ns: u64,
    /// The plan of the SELECT, with the UPDATE's if the engine asks for it, as the database
    /// explains them, and whether they are the meant ones.
    pub plan: Option<PlanCheck>,
    /// Compression ratio of sampled blocks with LZ4; 1.0 is incompressible.
    pub compression_ratio: Option<f64>,
    /// Whether data reads and writes pass the page cache, and why not if they were meant to.
    pub direct_io: Option<DirectIo>,
    /// False when a commit may be lost in a power cut, with the setting that says so.
    pub durability: Option<Durability>,
    /// Wait events for the read of a block, its write and the log's flush.
    pub io_events: IoEvents,
    /// Reason why the database did not time its reads, and the change that makes it do so.
    pub io_untimed: Option<String>,
    /// Checkpointing of writes, in the engine's own words.
    pub checkpoint: Option<String>,
    /// True if each commit that was waited for is one log sync in the database's own count, also
    /// if one write made several durable.
    pub sync_per_commit: bool,
    /// Kind of file that holds tables and indexes, as the I/O by kind of file names it; `None` if
    /// the engine sees no files.
    pub data_file_kind: Option<String>,
    /// Bytes of data pages that the database may have written and not counted yet.
    pub pages_counted_late_bytes: u64,
    /// Settings that shape a result and that few would choose for a test.
    pub notable_settings: Vec<NotableSetting>,
    pub advice: Advice,
}

/// A setting of a target: its effect on a run, and the advice, each a sentence.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NotableSetting {
    pub effect: String,
    pub advice: String,
    /// True if it shapes only runs that update rows.
    pub of_updates: bool,
}

macro_rules! advice {
    ($($(#[$doc:meta])* $field:ident),+ $(,)?) => {
        /// Changes to this database that a finding may ask for, in its own terms. `None`: only the
        /// advice for every database.
        #[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
        #[serde(default)]
        pub struct Advice {
            $($(#[$doc])* #[serde(skip_serializing_if = "Option::is_none")] pub $field: Option<String>),+
        }
    };
}

advice! {
    /// Change that makes each commit wait for the log.
    wait_for_commits,
    /// Change that makes room in the log, so that its size forces no checkpoint.
    enlarge_log,
    /// Reason why checkpoints by the log's size are no fault here.
    checkpoints_by_log_size,
    /// Change that makes it read single blocks.
    stop_prefetch,
    /// Change that keeps index blocks in the cache.
    keep_cached,
    /// Change that writes changed blocks faster.
    write_faster,
    /// Change that removes old row versions faster.
    purge_faster,
    /// Way to see who else works in the database.
    find_others,
}

/// The engine's own names of the three waits that every engine has, and who times them. Empty if
/// it has none.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct IoEvents {
    pub read: String,
    pub write: String,
    pub log: String,
    /// Clock of the events, such as `petal's VFS shim`.
    pub timed_by: String,
}

/// A right of petal's role at a server, named by its use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Privilege {
    /// Name of the work, such as `checkpoint`.
    pub what: String,
    pub is_granted: bool,
    /// True if no load is possible without it.
    pub is_needed: bool,
    /// Effect on a test if it is missing, in one sentence.
    pub without: String,
    pub advice: String,
}

/// A fact about a target before a load.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoadFact {
    /// Subject of the check, such as `room for the data`.
    pub what: String,
    /// `-` with the reason, if it is unknown.
    pub value: String,
    pub verdict: LoadVerdict,
    /// Effect on a load, in one sentence.
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
    /// Returns a plan that is not as meant, else the first; `None` without any.
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

/// Durability of a target; never durable on tmpfs or another in-memory file system.
pub fn durability_on(file: &Path, said: Durability) -> Durability {
    match memory_file_system(file) {
        None => said,
        Some(kind) => Durability {
            durable: false,
            setting: format!("{}, on a file system ({kind}) that is memory", said.setting),
        },
    }
}

/// A schema as it is loaded.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoadedSchema {
    pub number: u32,
    /// Rows, so blocks, of the main table.
    pub rows: u64,
    /// Rows of the scan table.
    pub scan_rows: u64,
    pub block_size: u64,
    /// Bytes of the main table; `None` if the database does not say.
    pub bytes: Option<u64>,
    /// Bytes of the index on the key, likewise.
    pub index_bytes: Option<u64>,
    /// Name of the filler of its columns; `None` if petal did not load the data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filler: Option<String>,
    /// Whether the index on the key was asked for as a unique one; `None` if a load does not keep
    /// it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unique_index: Option<bool>,
}

/// Result of a look for a schema's rows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RowsFound {
    pub loaded: u64,
    /// Number of rows looked for, all over the data.
    pub looked_for: u64,
    pub found: u64,
}

/// Cost and result of settling before a run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Settled {
    pub seconds: f64,
    /// Dirty bytes in the operating system's page cache; `None` if the host is not watched.
    pub dirty_bytes_before: Option<u64>,
    pub dirty_bytes_after: Option<u64>,
    /// Actions taken, a line each.
    pub done: Vec<String>,
}
