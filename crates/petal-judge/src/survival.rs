//! Compares a ledger with the rows as they are now, and finds the acknowledged commits that are
//! lost.
//!
//! Commits are acknowledged in another order than they are made, so the last acknowledged commit of
//! a row need not be its last version. These rules are certain:
//!
//! - A commit A came after the version V that a row holds if A's statement began after V was
//!   acknowledged, or if both are of one session and A is the later one. Then A changed V, and a
//!   row of A's that holds V has lost A.
//! - V itself may never have been acknowledged: the operation was in flight, or failed from its
//!   session's point of view. It was over when a later operation of its session was; without one it
//!   may have been committed at any time, and nothing is lost by it.
//! - Rows of the load or of another run were there before.
//!
//! All else is allowed: two commits that overlap in time may be in either order. Times of two
//! driver hosts are by two clocks, from two triggers: the order of their commits is certain only if
//! they are far apart.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use time::{Duration, OffsetDateTime};

use petal_record::ledger::{Acknowledged, Ending, Ledger};
use petal_record::moment;
use petal_record::verification::{BadRow, FORMAT, LISTED_MAX, LostRow, Verification};
use petal_workload::row::load_stamp;
use petal_workload::share::Share;
use petal_workload::version::{RowStamps, RunStamps, Version};

/// The content of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RowContent {
    /// Unread, or of unknown content.
    Unknown,
    /// The row as it was loaded: every commit of it is lost, as under the next two.
    Loaded,
    /// A version of another run, which is taken for an earlier one.
    OtherRun,
    Missing,
    /// A version of the run, which was over at this time at the latest.
    Own {
        version: Version,
        over_ns: u64,
    },
}

/// Commits of two driver hosts are in a certain order when they are so far apart, and as far again
/// as the hosts' triggers were.
const HOSTS_APART_NS: u64 = 1_000_000_000;

/// Collects the rows of a run as they are found, and judges them.
pub struct Survival<'a> {
    ledger: &'a Ledger,
    stamps: RunStamps,
    /// Versions by schema, then by key from 1, as far as rows were found.
    held: BTreeMap<u32, Vec<RowContent>>,
    unacknowledged: BTreeSet<Version>,
    /// The counts of rows so far.
    found: Verification,
    /// Time at which an outage began in which commits may have been lost.
    outage_ns: Option<u64>,
}

impl<'a> Survival<'a> {
    pub fn new(ledger: &'a Ledger) -> Self {
        let schemas = ledger.header.schemas.iter();
        Self {
            ledger,
            stamps: RunStamps::of_mask(ledger.header.stamp_mask),
            held: schemas.map(|schema| (schema.number, Vec::new())).collect(),
            unacknowledged: BTreeSet::new(),
            found: Verification { format: FORMAT.to_owned(), ..Verification::default() },
            outage_ns: None,
        }
    }

    /// Counts commits from before this time whose rows were all changed again after it.
    pub fn with_outage_at(self, outage_ns: Option<u64>) -> Self {
        Self { outage_ns, ..self }
    }

    /// Takes memory for a schema whose target has the ledger's rows.
    pub fn begin_schema(&mut self, schema: u32) {
        if let Some(rows) = self.held.get_mut(&schema) {
            rows.resize(self.ledger.header.rows as usize, RowContent::Unknown);
        }
    }

    /// Records a row that was read; an error describes its damage.
    pub fn found(&mut self, schema: u32, key: u64, row: Result<RowStamps, String>) {
        self.found.rows_read += 1;
        let held = row.and_then(|stamps| self.held_by(schema, key, stamps));
        let held = held.unwrap_or_else(|why| {
            self.bad(schema, key, why);
            RowContent::Unknown
        });
        self.set(schema, key, held);
    }

    /// Records that no row has this key.
    pub fn missing(&mut self, schema: u32, key: u64) {
        self.bad(schema, key, "there is no such row".to_owned());
        self.set(schema, key, RowContent::Missing);
    }

    /// A row cannot be read, or is there more than once.
    pub fn bad(&mut self, schema: u32, key: u64, why: String) {
        self.found.bad_rows += 1;
        if self.found.bad.len() < LISTED_MAX {
            self.found.bad.push(BadRow { schema, key, why });
        }
    }

    fn set(&mut self, schema: u32, key: u64, held: RowContent) {
        let Some(rows) = self.held.get_mut(&schema) else { return };
        if !(1..=self.ledger.header.rows).contains(&key) {
            return;
        }
        let at = key as usize - 1;
        if at >= rows.len() && rows.try_reserve(at + 1 - rows.len()).is_ok() {
            rows.resize(at + 1, RowContent::Unknown);
        }
        if let Some(row) = rows.get_mut(at) {
            *row = held;
        }
    }

    fn held_by(&mut self, schema: u32, key: u64, row: RowStamps) -> Result<RowContent, String> {
        let header = &self.ledger.header;
        let Some(version) = self.stamps.version(row.row, header.sessions) else {
            if row.row == load_stamp(schema, key) {
                return Ok(RowContent::Loaded);
            }
            self.found.other_run_rows += 1;
            return Ok(RowContent::OtherRun);
        };
        if header.heavy && row.rest != row.row {
            return Err("torn: its first columns are of another write than the rest".to_owned());
        }
        let Some(commit) = self.commit(version) else {
            if self.missing_shares().any(|share| share.has(version.session)) {
                self.found.missing_share_rows += 1;
            } else {
                self.found.unacknowledged_rows += 1;
                self.unacknowledged.insert(version);
            }
            return Ok(RowContent::Own { version, over_ns: self.over_ns(version) });
        };
        if commit.schema != schema || !commit.keys().contains(&key) {
            return Err(format!(
                "it holds {}, which changed keys {} to {} of schema {}",
                named(version),
                commit.first,
                commit.keys().end - 1,
                commit.schema
            ));
        }
        Ok(RowContent::Own { version, over_ns: commit.end_ns })
    }

    /// Shares of the run whose ledgers are not here.
    fn missing_shares(&self) -> impl Iterator<Item = Share> {
        let of = self.ledger.header.share.map_or(0, |share| share.of);
        let numbers = (1..=of).filter(|number| !self.ledger.shares.contains(number));
        numbers.map(move |number| Share { number, of })
    }

    fn commit(&self, version: Version) -> Option<&Acknowledged> {
        let commits = &self.ledger.commits;
        let at = commits.binary_search_by_key(&version, |commit| commit.version).ok()?;
        commits.get(at)
    }

    /// Latest possible end of an operation that was not acknowledged.
    fn over_ns(&self, version: Version) -> u64 {
        let commits = &self.ledger.commits;
        let next = commits.get(commits.partition_point(|commit| commit.version < version));
        let next = next.filter(|commit| commit.version.session == version.session);
        next.map_or(u64::MAX, |commit| commit.end_ns)
    }

    /// The commit that was acknowledged last.
    pub fn last_commit(&self) -> Option<&'a Acknowledged> {
        self.ledger.commits.iter().max_by_key(|commit| (commit.end_ns, commit.version))
    }

    /// Returns whether the rows that were found hold the ledger's last commit, or a later one.
    pub fn holds_last_commit(&self) -> bool {
        let Some(last) = self.last_commit() else { return true };
        let rows = self.held.get(&last.schema);
        let held = |key: u64| rows.and_then(|rows| rows.get(key as usize - 1));
        last.keys().all(|key| {
            held(key).is_some_and(|held| *held != RowContent::Unknown && !self.is_older(held, last))
        })
    }

    /// Time at which that commit was acknowledged, UTC.
    pub fn last_acknowledged(&self) -> Option<String> {
        self.utc(self.last_commit()?.end_ns)
    }

    fn utc(&self, since_trigger_ns: u64) -> Option<String> {
        let us = i128::from(self.ledger.trigger_utc_us?);
        let trigger = OffsetDateTime::from_unix_timestamp_nanos(us * 1000).ok()?;
        let since = Duration::nanoseconds(since_trigger_ns.cast_signed());
        trigger.checked_add(since).map(moment::stamp)
    }

    /// Judges the rows that were found. `in_log`: stamps of whole records in the log of a device
    /// without recovery, which keep a commit whose blocks are old.
    pub fn judge(self, url: &str, in_log: Option<&HashSet<u64>>) -> Verification {
        let ledger = self.ledger;
        let mut lost_rows: BTreeMap<(u32, u64), &Acknowledged> = BTreeMap::new();
        let (mut lost_commits, mut in_log_commits, mut unknown_commits) = (0, 0, 0);
        let mut first_lost_ns = None;
        for commit in &ledger.commits {
            let rows = self.held.get(&commit.schema);
            let holds = |key: u64| rows.and_then(|rows| rows.get(key as usize - 1));
            let is_lost = |key: &u64| holds(*key).is_some_and(|held| self.is_older(held, commit));
            let mut keys = commit.keys().filter(is_lost).peekable();
            let is_lost = keys.peek().is_some();
            let mut all = commit.keys();
            let is_unknown =
                all.any(|key| holds(key).is_none_or(|held| *held == RowContent::Unknown));
            if !is_lost && !is_unknown {
                continue;
            }
            if in_log.is_some_and(|stamps| stamps.contains(&self.stamps.stamp(commit.version))) {
                in_log_commits += 1;
                continue;
            }
            if !is_lost {
                unknown_commits += 1;
                continue;
            }
            lost_commits += 1;
            first_lost_ns = first_lost_ns.min(Some(commit.end_ns)).or(Some(commit.end_ns));
            for key in keys {
                let newest = lost_rows.entry((commit.schema, key)).or_insert(commit);
                if (newest.end_ns, newest.version) < (commit.end_ns, commit.version) {
                    *newest = commit;
                }
            }
        }
        let last_ns = ledger.commits.iter().map(|commit| commit.end_ns).max().unwrap_or(0);
        let acknowledged_commits = ledger.commits.len() as u64;
        Verification {
            url: url.to_owned(),
            ledger_is_whole: ledger.ending == Ending::Whole,
            ledger_torn_bytes: match ledger.ending {
                Ending::Whole => 0,
                Ending::Cut { torn_bytes } => torn_bytes,
            },
            missing_shares: self.missing_shares().map(|share| share.to_string()).collect(),
            acknowledged_commits,
            acknowledged_rows: ledger.commits.iter().map(|commit| u64::from(commit.rows)).sum(),
            survived_commits: acknowledged_commits - lost_commits - unknown_commits,
            lost_commits,
            unknown_commits,
            lost_rows: lost_rows.len() as u64,
            in_log_commits: in_log.map(|_| in_log_commits),
            lost_span_ms: first_lost_ns.map(|first| (last_ns - first) as f64 / 1e6),
            first_lost_s: first_lost_ns.map(|first| first as f64 / 1e9),
            overwritten_commits: self.outage_ns.map(|at| self.overwritten(first_lost_ns, at)),
            lost: lost_rows
                .iter()
                .take(LISTED_MAX)
                .map(|(row, commit)| self.lost_row(*row, commit, last_ns))
                .collect(),
            unacknowledged_versions: self.unacknowledged.len() as u64,
            ..self.found
        }
    }

    /// Counts commits that the outage may have taken, and of which no row shows it: they came after
    /// the last commit that is seen to have survived, or after the first lost one.
    fn overwritten(&self, first_lost_ns: Option<u64>, outage_ns: u64) -> u64 {
        let versions = |commit: &Acknowledged| {
            let rows = self.held.get(&commit.schema);
            let held = move |key| rows.and_then(|rows| rows.get(key as usize - 1));
            commit.keys().map(move |key| match held(key) {
                Some(RowContent::Own { version, .. }) => Some(*version),
                _ => None,
            })
        };
        let before = || self.ledger.commits.iter().filter(|commit| commit.end_ns < outage_ns);
        let is_seen =
            |commit: &&Acknowledged| versions(commit).any(|held| held == Some(commit.version));
        let is_kept = |commit: &&Acknowledged| {
            is_seen(commit) && first_lost_ns.is_none_or(|first_ns| commit.end_ns < first_ns)
        };
        let from_ns = before().filter(is_kept).map(|commit| commit.end_ns).max().unwrap_or(0);
        let is_later = |held: Option<Version>| {
            held.and_then(|version| self.commit(version))
                .is_some_and(|commit| commit.begin_ns >= outage_ns)
        };
        let after = before().filter(|commit| commit.end_ns > from_ns);
        after.filter(|commit| versions(commit).all(is_later)).count() as u64
    }

    fn lost_row(&self, (schema, key): (u32, u64), commit: &Acknowledged, last_ns: u64) -> LostRow {
        let held = self.held.get(&schema).and_then(|rows| rows.get(key as usize - 1));
        LostRow {
            schema,
            key,
            session: commit.version.session,
            sequence: commit.version.sequence,
            acknowledged_at: self.utc(commit.end_ns),
            before_last_ms: last_ns.saturating_sub(commit.end_ns) as f64 / 1e6,
            found: match held {
                Some(RowContent::Own { version, .. }) => named(*version),
                Some(RowContent::OtherRun) => "a version of another run".to_owned(),
                Some(RowContent::Loaded) => "the row as it was loaded".to_owned(),
                Some(RowContent::Missing | RowContent::Unknown) | None => "no row".to_owned(),
            },
        }
    }

    /// Returns true if the content of a row is certainly from before this commit of it.
    fn is_older(&self, held: &RowContent, commit: &Acknowledged) -> bool {
        let RowContent::Own { version, over_ns } = held else {
            return *held != RowContent::Unknown;
        };
        let hosts = self.ledger.header.share.map_or(1, |share| share.of);
        let host = |version: Version| Share::of_session(version.session, hosts);
        let apart_ns = match host(*version) == host(commit.version) {
            true => 0,
            false => {
                HOSTS_APART_NS.saturating_add(self.ledger.triggers_apart_us.saturating_mul(1000))
            }
        };
        commit.begin_ns > over_ns.saturating_add(apart_ns)
            || version.session == commit.version.session
                && version.sequence < commit.version.sequence
    }
}

fn named(version: Version) -> String {
    format!("session {}, operation {}", version.session, version.sequence)
}

#[cfg(test)]
mod tests;
