//! A database's own account of its work: cumulative counters and waits of one endpoint, and the
//! difference of two snapshots. `None` means "this engine cannot know", never zero.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use petal_host::histogram::Latencies;
use petal_host::{delta, deltas};

/// Cumulative counters of one endpoint since some moment in the past.
#[derive(Debug, Clone, Default)]
pub struct Counters {
    /// The endpoint as a person names it: a host, a service, a folder.
    pub endpoint: String,
    pub io: IoCounts,
    pub waits: Vec<Wait>,
    /// I/O by kind of file, if the engine sees files.
    pub files: Vec<FileCounts>,
    /// The database's own names, kept as they are.
    pub raw: BTreeMap<String, u64>,
    /// Counters that began again since the run began, and why this is known. They are left out of
    /// the figures above.
    pub resets: Vec<String>,
    /// The reason of each unknown figure, by its name in the record: of `io`, of a common counter, or of
    /// a wait.
    pub reasons: BTreeMap<String, String>,
    /// The reason why all of its counters began again, such as a restart.
    pub restarted: Option<String>,
    /// True of a server that only replays the changes of another one. The replay causes its
    /// writes, so `io` does not include them.
    pub is_standby: bool,
    /// True of a database that lists a wait or a counter only after its first occurrence: one that
    /// is new counts from 0.
    pub omits_zeros: bool,
    /// Names of waits and raw counters that the database listed without a figure. A name that is empty
    /// or ends with a point means all that begin with it.
    pub unknown: BTreeSet<String>,
}

impl Counters {
    /// Returns the counts between `earlier` and this snapshot of the same endpoint. A figure that
    /// fell, or that was unknown earlier, is unknown.
    pub fn since(&self, earlier: &Self) -> Self {
        let mut unknown = &self.unknown | &earlier.unknown;
        let is_from_0 = |name: &str| self.omits_zeros && !earlier.is_unknown(name);
        let mut known = |name: &str, is_known: bool| {
            if !is_known {
                unknown.insert(name.to_owned());
            }
        };
        let mut waits = Vec::new();
        for wait in &self.waits {
            let is_it = |old: &&Wait| (&old.name, old.source) == (&wait.name, wait.source);
            let since = match earlier.waits.iter().find(is_it) {
                Some(old) => wait.since(old),
                // petal itself counts from 0 what it times and samples.
                None if wait.source != WaitSource::Counted => Some(wait.clone()),
                None => is_from_0(&wait.name).then(|| wait.clone()),
            };
            known(&wait.name, since.is_some());
            waits.extend(since);
        }
        let raw = rises(&self.raw, &earlier.raw, is_from_0);
        self.raw.keys().for_each(|name| known(name, raw.contains_key(name)));
        let file = |file: &FileCounts| {
            let old = earlier.files.iter().find(|old| old.kind == file.kind);
            old.map_or(Some(file.clone()), |old| deltas(|minus| file.clone().with(old, minus)))
        };
        Self {
            endpoint: self.endpoint.clone(),
            io: self.io.since(&earlier.io),
            waits,
            files: self.files.iter().filter_map(file).collect(),
            raw,
            resets: self.resets.clone(),
            restarted: self.restarted.clone(),
            reasons: reasons(&earlier.reasons, &self.reasons),
            is_standby: self.is_standby,
            omits_zeros: self.omits_zeros,
            unknown,
        }
    }

    fn is_unknown(&self, name: &str) -> bool {
        let is_it = |it: &String| match it.is_empty() || it.ends_with('.') {
            true => name.starts_with(it),
            false => name == it,
        };
        self.unknown.iter().any(is_it)
    }

    /// Returns the counts of each endpoint since its earlier snapshot; a new endpoint's counts in
    /// full.
    pub fn each_since(now: &[Self], earlier: &[Self]) -> Vec<Self> {
        let since = |now: &Self| {
            let then = earlier.iter().find(|then| then.endpoint == now.endpoint);
            then.map_or_else(|| now.clone(), |then| now.since(then))
        };
        now.iter().map(since).collect()
    }

    /// The sum over endpoints; `None` without endpoints. Figures that only some of them have are
    /// unknown in it.
    pub fn sum(endpoints: &[Self]) -> Option<Self> {
        let (first, rest) = endpoints.split_first()?;
        let mut total = first.clone();
        rest.iter().for_each(|other| total.add(other));
        total.unknown.extend(endpoints.iter().flat_map(|one| one.missing_in_sum(endpoints)));
        total.leave_out_unknown();
        Some(total)
    }

    /// Names of counted figures that this endpoint lacks and another one has. Standbys count other
    /// things than primaries.
    fn missing_in_sum(&self, all: &[Self]) -> BTreeSet<String> {
        let own = self.waits.iter().map(|wait| &wait.name).chain(self.raw.keys());
        let own: BTreeSet<&String> = own.collect();
        let alike = all.iter().filter(|one| !self.omits_zeros && one.is_standby == self.is_standby);
        let names = alike.flat_map(|one| {
            let counted = one.waits.iter().filter(|wait| wait.source == WaitSource::Counted);
            counted.map(|wait| &wait.name).chain(one.raw.keys())
        });
        names.filter(|name| !own.contains(name)).cloned().collect()
    }

    /// Adds another endpoint's work, for the sum over all of them. A figure that one of them does
    /// not know is unknown in it.
    pub fn add(&mut self, other: &Self) {
        self.io = self.io.plus(&other.io);
        for wait in &other.waits {
            match self.waits.iter_mut().find(|mine| mine.name == wait.name) {
                Some(mine) => mine.add(wait),
                None => self.waits.push(wait.clone()),
            }
        }
        for file in &other.files {
            match self.files.iter_mut().find(|mine| mine.kind == file.kind) {
                Some(mine) => *mine = mine.plus(file),
                None => self.files.push(file.clone()),
            }
        }
        for (name, value) in &other.raw {
            *self.raw.entry(name.clone()).or_default() += value;
        }
        self.unknown.extend(other.unknown.iter().cloned());
        self.reasons = reasons(&self.reasons, &other.reasons);
        self.leave_out_unknown();
    }

    fn leave_out_unknown(&mut self) {
        let (mut waits, mut raw) = (std::mem::take(&mut self.waits), std::mem::take(&mut self.raw));
        waits.retain(|wait| !self.is_unknown(&wait.name));
        raw.retain(|name, _| !self.is_unknown(name));
        (self.waits, self.raw) = (waits, raw);
    }

    pub fn wait(&self, name: &str) -> Option<&Wait> {
        self.waits.iter().find(|wait| wait.name == name)
    }

    /// The count and time of a wait, if both are known.
    pub fn count_and_time(&self, name: &str) -> Option<(u64, u64)> {
        let wait = self.wait(name)?;
        Some((wait.waits?, wait.time_ns))
    }
}

/// The reasons of both; of a figure that has two, the first.
fn reasons(
    first: &BTreeMap<String, String>,
    second: &BTreeMap<String, String>,
) -> BTreeMap<String, String> {
    second.iter().chain(first).map(|(name, why)| (name.clone(), why.clone())).collect()
}

/// The rise of each counter by its name. `is_from_0` is asked for the engine's own names that are
/// new. Those whose rise is unknown are left out.
fn rises(
    now: &BTreeMap<String, u64>,
    earlier: &BTreeMap<String, u64>,
    is_from_0: impl Fn(&str) -> bool,
) -> BTreeMap<String, u64> {
    let rise = |(name, &now): (&String, &u64)| {
        let common = CommonCounter::ALL.into_iter().find(|counter| counter.name() == name);
        let rise = match (earlier.get(name), common) {
            // A level may fall: it then rose by nothing.
            (Some(&then), Some(level)) if level.is_level() => Some(now.saturating_sub(then)),
            (Some(&then), _) => delta(then, now),
            // These are there from the first look on, unless they were unknown then.
            (None, Some(_)) => None,
            (None, None) => is_from_0(name).then_some(now),
        };
        Some((name.clone(), rise?))
    };
    now.iter().filter_map(rise).collect()
}

macro_rules! io_counts {
    ($($(#[$doc:meta])* $field:ident),+ $(,)?) => {
        /// The figures that every engine reports if it can: cumulative, per endpoint.
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
        pub struct IoCounts { $($(#[$doc])* pub $field: Option<u64>),+ }

        impl IoCounts {
            /// The names of its fields, in the order of [`IoCounts::each`].
            pub const NAMES: [&str; [$(stringify!($field)),+].len()] = [$(stringify!($field)),+];

            pub fn each(&self) -> [Option<u64>; Self::NAMES.len()] {
                [$(self.$field),+]
            }

            /// Each field as `count` gives it for the field's name.
            pub fn by_name(count: impl Fn(&str) -> Option<u64>) -> Self {
                Self { $($field: count(stringify!($field))),+ }
            }

            /// This minus `earlier`, field by field. A field that is unknown on either side, or
            /// fell, is unknown.
            pub fn since(&self, earlier: &Self) -> Self {
                Self { $($field: self.$field.zip(earlier.$field).and_then(|(now, then)| delta(then, now))),+ }
            }

            /// Each field that is unknown here as it is in `other`.
            pub fn or(&self, other: &Self) -> Self {
                Self { $($field: self.$field.or(other.$field)),+ }
            }

            /// The sum; a figure known on one side only, or past all counting, is unknown in it.
            pub fn plus(&self, other: &Self) -> Self {
                Self { $($field: self.$field.zip(other.$field).and_then(|(a, b)| a.checked_add(b))),+ }
            }
        }
    };
}

io_counts! {
    /// Blocks visited in the database: hits and misses.
    logical_reads,
    /// Blocks that the database asked of the operating system.
    physical_read_blocks,
    /// Read calls that carried them.
    physical_read_requests,
    /// Bytes of those calls.
    physical_read_bytes,
    /// Data blocks written by any process (sessions, checkpoint), without the log.
    physical_write_blocks,
    physical_write_requests,
    physical_write_bytes,
    /// Blocks that sessions read from the log's file, which has their newest version. They are
    /// counted apart, because the page cache serves them.
    log_read_blocks,
    /// Bytes written to the log.
    redo_bytes,
    /// Commits as the database counts them.
    commits,
    /// Log flushes that were waited for (fsync or its equal).
    log_syncs,
}

macro_rules! common_counters {
    ($($(#[$doc:meta])* $counter:ident => $name:literal),+ $(,)?) => {
        /// A counter that means the same in every database that keeps it. It is stored under this
        /// name among the counters by the database's own names.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum CommonCounter { $($(#[$doc])* $counter),+ }

        impl CommonCounter {
            pub const ALL: [Self; [$($name),+].len()] = [$(Self::$counter),+];

            pub const fn name(self) -> &'static str {
                match self { $(Self::$counter => $name),+ }
            }

            /// True if it is a gauge, which may fall without a reset.
            pub const fn is_level(self) -> bool {
                matches!(self, Self::LogBytesMax | Self::UnpurgedTransactions)
            }
        }
    };
}

common_counters! {
    /// Checkpoints that ended.
    Checkpoints => "checkpoints",
    /// Checkpoints that the log's size forced.
    CheckpointsByLogSize => "checkpoints_by_log_size",
    CheckpointErrors => "checkpoint_errors",
    /// Calls on the database's files that failed.
    IoErrors => "io_errors",
    /// Number of times that readers kept the log's file from being restarted, and its largest size.
    LogResetFailures => "wal_reset_failures",
    LogBytesMax => "wal_bytes_max",
    Vacuums => "vacuums",
    /// Number of switches of the log to another of its files.
    LogSwitches => "log_switches",
    /// Waits of sessions for a block of the cache that is free to take another.
    FreeBlockWaits => "free_block_waits",
    /// Transactions whose old row versions are kept: by how many these became more.
    UnpurgedTransactions => "transactions_not_purged",
    /// Blocks that standbys wrote to replay the changes of their primary.
    ReplayedBlocks => "blocks_written_by_replay",
    /// Whole blocks that were put into the log, as at a block's first change after a checkpoint.
    BlockImages => "block_images_logged",
    /// Rows that an UPDATE put into another block.
    RowsMoved => "rows_moved",
    /// Rows that were looked for in one block and went on, or lay, in another.
    RowsFollowed => "rows_followed",
    /// Blocks that a read changed, to note in them that an earlier writer had committed.
    BlocksCleaned => "blocks_cleaned_by_reads",
    /// Rows that any session fetched by key from petal's tables.
    RowsFetched => "rows_fetched",
    /// Visits of the blocks of petal's rows, without those of indexes.
    RowBlocksVisited => "row_blocks_visited",
    /// Work in the same database on tables that are not petal's.
    OtherLogicalReads => "other_logical_reads",
    OtherReadBlocks => "other_read_blocks",
    OtherRowsChanged => "other_rows_changed",
    /// Blocks read into the cache, and the prefetched ones among them.
    BlocksCached => "blocks_read_into_cache",
    BlocksPrefetched => "blocks_prefetched",
    /// Bytes that the database wrote to the log's files: the log, with the parts of blocks that it
    /// wrote again or added, because it writes whole blocks.
    LogFileBytes => "log_file_bytes",
    /// Bytes of blocks that were written to a separate place first, so that none is torn.
    DoublewriteBytes => "doublewrite_bytes",
    /// Blocks that differ from the data written there.
    BadBlocks => "bad_blocks",
    /// Blocks whose checksum was computed, and the time that all verifying took.
    BlocksVerified => "blocks_verified",
    VerifyNs => "verify_ns",
}

/// Calls, bytes and time of one kind of file. A record has the times in microseconds.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileCounts {
    /// Kind of the file, such as `main`, `wal`, `temp`.
    pub kind: String,
    pub read_requests: u64,
    pub read_bytes: u64,
    #[serde(rename = "read_us", with = "microseconds")]
    pub read_ns: u64,
    pub write_requests: u64,
    pub write_bytes: u64,
    #[serde(rename = "write_us", with = "microseconds")]
    pub write_ns: u64,
    pub syncs: u64,
    #[serde(rename = "sync_us", with = "microseconds")]
    pub sync_ns: u64,
}

mod microseconds {
    use serde::{Deserialize as _, Deserializer, Serializer};

    use petal_host::histogram::micros;

    pub fn serialize<S: Serializer>(ns: &u64, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(micros(*ns))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
        Ok((f64::deserialize(deserializer)? * 1e3).round() as u64)
    }
}

petal_host::field_by_field! {
    FileCounts: read_requests, read_bytes, read_ns, write_requests, write_bytes, write_ns, syncs, sync_ns
}

/// A wait event: its count and its total time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Wait {
    /// The engine's own name for it.
    pub name: String,
    pub class: WaitClass,
    pub source: WaitSource,
    /// Null if it was only sampled.
    pub waits: Option<u64>,
    pub time_ns: u64,
    /// Every single wait, if they were seen.
    #[serde(skip)]
    pub latencies: Option<Latencies>,
    /// Waits by the upper bound of their bucket in microseconds, a power of two; the lower bound
    /// is half of it. Empty if the database does not count them.
    #[serde(skip)]
    pub buckets: BTreeMap<u64, u64>,
}

impl Wait {
    /// A wait that the database counts and times in all.
    pub fn counted(name: &str, class: WaitClass, waits: Option<u64>, time_ns: u64) -> Self {
        let (name, source) = (name.to_owned(), WaitSource::Counted);
        Self { name, class, source, waits, time_ns, latencies: None, buckets: BTreeMap::new() }
    }

    /// Copies the count and the time, without the histograms.
    pub fn total(&self) -> Self {
        let Self { class, source, waits, time_ns, .. } = *self;
        Self { source, ..Self::counted(&self.name, class, waits, time_ns) }
    }

    /// None if its count or its time fell, or if one was counted and the other sampled.
    pub(crate) fn since(&self, old: &Self) -> Option<Self> {
        if self.source != old.source {
            return None;
        }
        let waits = match self.waits.zip(old.waits) {
            Some((now, then)) => Some(delta(then, now)?),
            None => None,
        };
        Some(Self {
            waits,
            time_ns: delta(old.time_ns, self.time_ns)?,
            latencies: match (&self.latencies, &old.latencies) {
                (Some(now), Some(then)) => now.since(then),
                (now, None) if old.is_nothing() => now.clone(),
                _ => None,
            },
            buckets: self.buckets_since(old),
            ..self.clone()
        })
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.latencies = match (self.latencies.take(), &other.latencies) {
            (Some(mut mine), Some(theirs)) => {
                mine.add(theirs);
                Some(mine)
            }
            (mine, None) if other.is_nothing() => mine,
            (None, theirs) if self.is_nothing() => theirs.clone(),
            // Waits of one endpoint are not the waits of both.
            _ => None,
        };
        self.add_buckets(other);
        self.waits = self.waits.zip(other.waits).and_then(|(a, b)| a.checked_add(b));
        self.time_ns = self.time_ns.saturating_add(other.time_ns);
    }

    /// Unknown if a bucket fell, or if the earlier ones are unknown.
    fn buckets_since(&self, old: &Self) -> BTreeMap<u64, u64> {
        if old.buckets.is_empty() && !old.is_nothing() {
            return BTreeMap::new();
        }
        let earlier = |upper_us: &u64| old.buckets.get(upper_us).copied().unwrap_or(0);
        let rises = self
            .buckets
            .iter()
            .map(|(upper_us, &now)| delta(earlier(upper_us), now).map(|rise| (*upper_us, rise)));
        rises.collect::<Option<_>>().unwrap_or_default()
    }

    fn add_buckets(&mut self, other: &Self) {
        let is_known = |wait: &Self| wait.is_nothing() || !wait.buckets.is_empty();
        if !is_known(self) || !is_known(other) {
            self.buckets.clear();
            return;
        }
        for (upper_us, count) in &other.buckets {
            let sum = self.buckets.entry(*upper_us).or_default();
            *sum = sum.saturating_add(*count);
        }
    }

    /// True if no session waited, so that no latency can be missing.
    fn is_nothing(&self) -> bool {
        self.waits == Some(0)
    }
}

/// The class of a wait, the same for every engine, by names that DBAs know.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WaitClass {
    /// A session waits for a data block.
    UserIo,
    /// Background work: checkpoint, vacuum, log recycling.
    SystemIo,
    /// Making a commit durable on this server.
    Commit,
    /// A commit waits until another server has it.
    Replica,
    /// Rows or tables held by another session.
    Application,
    /// Structures inside the database held by another session: latches, the writer lock.
    Concurrency,
    /// Too small a log or a buffer.
    Configuration,
    Network,
    /// A manager of resources holds sessions back: its limit of processors or of I/O.
    Scheduler,
    /// Blocks and locks that another server of a cluster with common storage sends or grants.
    Cluster,
    Cpu,
    Idle,
    Other,
}

impl WaitClass {
    pub fn label(self) -> &'static str {
        match self {
            Self::UserIo => "User I/O",
            Self::SystemIo => "System I/O",
            Self::Commit => "Commit",
            Self::Replica => "Replica",
            Self::Application => "Application",
            Self::Concurrency => "Concurrency",
            Self::Configuration => "Configuration",
            Self::Network => "Network",
            Self::Scheduler => "Scheduler",
            Self::Cluster => "Cluster",
            Self::Cpu => "CPU",
            Self::Idle => "Idle",
            Self::Other => "Other",
        }
    }

    /// Returns true for the classes in which a session waits, within its DB time.
    pub fn is_foreground(self) -> bool {
        !matches!(self, Self::SystemIo | Self::Idle | Self::Cpu)
    }
}

/// Source of a wait's figures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WaitSource {
    /// Counts and total times from the database.
    Counted,
    /// Every single wait was timed.
    Timed,
    /// Sampled: shares of time only.
    Sampled,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_stays_unknown_in_differences_and_sums() {
        let known = IoCounts { commits: Some(5), ..IoCounts::default() };
        let later = IoCounts { commits: Some(9), ..IoCounts::default() };
        assert_eq!(later.since(&known).commits, Some(4));
        assert_eq!(later.since(&known).redo_bytes, None);
        assert_eq!(later.plus(&IoCounts::default()).commits, None);
    }

    #[test]
    fn a_counter_that_fell_is_unknown_and_not_zero() {
        let raw = |all: &[(&str, u64)]| -> BTreeMap<String, u64> {
            all.iter().map(|(name, n)| ((*name).to_owned(), *n)).collect()
        };
        let of = |reads: u64, waits: u64, all: &[(&str, u64)]| Counters {
            io: IoCounts { logical_reads: Some(reads), ..IoCounts::default() },
            raw: raw(all),
            files: vec![FileCounts {
                kind: "main".into(),
                read_bytes: reads,
                ..FileCounts::default()
            }],
            ..endpoint(waits, true)
        };
        let then = of(100, 5, &[("fell", 9), ("rose", 1), ("transactions_not_purged", 7)]);
        let now = of(
            30,
            3,
            &[("fell", 2), ("rose", 4), ("new", 6), ("vacuums", 8), ("transactions_not_purged", 5)],
        );
        let since = now.since(&then);
        assert_eq!(since.io.logical_reads, None);
        assert!(since.waits.is_empty() && since.files.is_empty());
        // A counter that was unknown at the begin has no rise; a level may fall.
        assert_eq!(since.raw, raw(&[("rose", 3), ("transactions_not_purged", 0)]));
    }

    /// Counters with these waits and raw counters, each of 9.
    fn of_nine(waits: &[&str], raw: &[&str]) -> Counters {
        let wait = |name: &&str| Wait::counted(name, WaitClass::UserIo, Some(9), 9);
        Counters {
            waits: waits.iter().map(wait).collect(),
            raw: raw.iter().map(|name| ((*name).to_owned(), 9)).collect(),
            ..Counters::default()
        }
    }

    fn names(counters: &Counters) -> Vec<&str> {
        let waits = counters.waits.iter().map(|wait| wait.name.as_str());
        waits.chain(counters.raw.keys().map(String::as_str)).collect()
    }

    #[test]
    fn what_was_unknown_in_the_first_snapshot_is_unknown_and_does_not_count_in_full() {
        let now = of_nine(&["read", "write"], &["event.read.waits", "osstat.busy"]);
        let without = |unknown: &[&str]| Counters {
            unknown: unknown.iter().map(|name| (*name).to_owned()).collect(),
            ..of_nine(&["write"], &["osstat.busy"])
        };
        assert_eq!(names(&now.since(&without(&[]))), ["write", "osstat.busy"]);
        let now = Counters { omits_zeros: true, ..now };
        let since = now.since(&without(&[]));
        assert_eq!((names(&since).len(), since.count_and_time("read")), (4, Some((9, 9))));
        let since = now.since(&without(&["read", "event."]));
        assert_eq!(names(&since), ["write", "osstat.busy"]);
        // They stay unknown in a part of the run, and in a sum.
        assert_eq!(names(&now.since(&since)), ["write", "osstat.busy"]);
        let mut sum = of_nine(&["read"], &["event.read.waits", "eventual"]);
        sum.add(&since);
        assert_eq!(names(&sum), ["write", "eventual", "osstat.busy"]);
        assert!(names(&now.since(&Counters { waits: Vec::new(), ..without(&[""]) })).len() == 1);
    }

    #[test]
    fn a_sum_lacks_what_one_of_its_endpoints_does_not_count() {
        let all = || of_nine(&["read", "write"], &["commits", "vacuums"]);
        let few = of_nine(&["write"], &["commits"]);
        let sum = |endpoints: &[Counters]| {
            let sum = Counters::sum(endpoints).unwrap();
            names(&sum).into_iter().map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(sum(&[all(), few.clone()]), ["write", "commits"]);
        assert_eq!(sum(&[few.clone(), all(), all()]), ["write", "commits"]);
        // A standby counts other things; a database that omits zeros counted none.
        for other in [
            Counters { is_standby: true, ..few.clone() },
            Counters { omits_zeros: true, ..few.clone() },
        ] {
            assert_eq!(sum(&[all(), other]), ["read", "write", "commits", "vacuums"]);
        }
        // petal sampled none of these.
        let sampled = |mut counters: Counters| {
            counters.waits.iter_mut().for_each(|wait| wait.source = WaitSource::Sampled);
            counters
        };
        assert_eq!(sum(&[sampled(all()), sampled(few)]), ["read", "write", "commits"]);
    }

    #[test]
    fn a_wait_that_was_sampled_before_it_was_counted_is_unknown() {
        let now = of_nine(&["read"], &[]);
        let sampled = |mut counters: Counters| {
            counters.waits[0].source = WaitSource::Sampled;
            counters
        };
        assert!(names(&now.since(&sampled(of_nine(&["read"], &[])))).is_empty());
        assert_eq!(names(&sampled(now).since(&Counters::default())), ["read"]);
    }

    /// Waits of 1 ms each; timed one by one, or only counted.
    fn endpoint(waits: u64, is_timed: bool) -> Counters {
        let mut latencies = Latencies::default();
        (0..waits).for_each(|_| latencies.record(1_000_000));
        let wait = Wait {
            name: "read".into(),
            class: WaitClass::UserIo,
            source: WaitSource::Counted,
            waits: Some(waits),
            time_ns: waits * 1_000_000,
            latencies: is_timed.then_some(latencies),
            buckets: BTreeMap::new(),
        };
        Counters { waits: vec![wait], ..Counters::default() }
    }

    #[test]
    fn latencies_of_one_endpoint_do_not_represent_all() {
        let sum = |one: Counters, other: Counters| {
            let mut sum = one;
            sum.add(&other);
            let wait = sum.waits.remove(0);
            (wait.waits, wait.latencies.map(|latencies| latencies.count()))
        };
        assert_eq!(sum(endpoint(2, true), endpoint(3, true)), (Some(5), Some(5)));
        assert_eq!(sum(endpoint(2, true), endpoint(3, false)), (Some(5), None));
        assert_eq!(sum(endpoint(3, false), endpoint(2, true)), (Some(5), None));
        // Who never waited misses none.
        assert_eq!(sum(endpoint(2, true), endpoint(0, false)), (Some(2), Some(2)));
        assert_eq!(sum(endpoint(0, false), endpoint(2, true)), (Some(2), Some(2)));
    }

    #[test]
    fn latencies_since_a_snapshot_without_any_are_unknown() {
        let since = |earlier: Counters| {
            let wait = endpoint(5, true).since(&earlier).waits.remove(0);
            wait.latencies.map(|latencies| latencies.count())
        };
        assert_eq!(since(endpoint(2, true)), Some(3));
        assert_eq!(since(endpoint(2, false)), None);
        assert_eq!(since(endpoint(0, false)), Some(5));
    }

    #[test]
    fn buckets_that_fell_or_were_unknown_before_are_unknown() {
        let counted = |buckets: &[(u64, u64)]| {
            let waits = buckets.iter().map(|(_, count)| count).sum();
            let wait = Wait::counted("read", WaitClass::UserIo, Some(waits), waits * 9);
            Wait { buckets: buckets.iter().copied().collect(), ..wait }
        };
        let unseen = |waits| Wait::counted("read", WaitClass::UserIo, Some(waits), waits * 9);
        let now = counted(&[(256, 7), (512, 9), (1024, 1)]);
        let since = |old: &Wait| now.since(old).unwrap().buckets.into_iter().collect::<Vec<_>>();
        assert_eq!(since(&counted(&[(256, 2), (512, 9)])), [(256, 5), (512, 0), (1024, 1)]);
        assert_eq!(since(&counted(&[(256, 8)])), []);
        assert_eq!(since(&unseen(3)), []);
        assert_eq!(since(&unseen(0)).len(), 3);
        let sum = |mut one: Wait, other: &Wait| {
            one.add(other);
            one.buckets.into_iter().collect::<Vec<_>>()
        };
        let other = counted(&[(512, 1), (2048, 2)]);
        assert_eq!(sum(now.clone(), &other), [(256, 7), (512, 10), (1024, 1), (2048, 2)]);
        assert_eq!(sum(now.clone(), &unseen(4)), []);
        assert_eq!(sum(unseen(4), &other), []);
        assert_eq!(sum(unseen(0), &other), [(512, 1), (2048, 2)]);
    }
}
