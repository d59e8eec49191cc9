//! The storage engine that holds petal's tables: all differences are methods of [`StorageEngine`],
//! which each implements in a separate folder. A load asks for one (`storage_engine` of the URL);
//! everything else finds it out by the tables that are there.

use std::collections::BTreeMap;

use super::client::{Client, Error};
use super::row_group::RowGroup;
use super::settling::Settling;
use petal_engine::server::reset_watch::{ResetWatch, SERVER};
use petal_engine::{Placement, Result};
use petal_model::stats::COUNT_MAX;
use petal_model::stats::counters::Counters;
use petal_model::stats::target::{DirectIo, TargetDetails};

pub type Storage = &'static dyn StorageEngine;

/// The server's settings by name.
pub type ServerSettings = BTreeMap<String, String>;

impl std::fmt::Debug for dyn StorageEngine {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(self.texts().name)
    }
}

/// Reads counters, and keeps the necessary facts of the snapshot before.
pub trait StorageCounters: Send {
    /// I/O, waits and raw counts. Those that `resets` knows to have begun again are left out.
    fn read(&mut self, client: &mut Client, resets: &mut ResetWatch) -> Result<Counters, Error>;
}

const UPTIME: &str = "Uptime";
/// Seconds since somebody flushed the status.
const SINCE_FLUSH: &str = "Uptime_since_flush_status";
/// The group of the counters that a FLUSH STATUS sets back.
const STATUS: &str = "the server's status";
/// Name prefix of counts by kind of file, for a [`ResetWatch`].
pub const FILE_COUNTS: &str = "performance_schema";

/// The group of counters that begin again together: those of a storage engine, of
/// performance_schema, or of the server's own status.
fn group_of(name: &str) -> &str {
    let begin =
        |prefix: &str| name.get(..prefix.len()).is_some_and(|it| it.eq_ignore_ascii_case(prefix));
    match name {
        UPTIME => SERVER,
        _ if begin("Innodb_") => "InnoDB's status",
        _ if begin("Rocksdb_") => "RocksDB's statistics",
        _ if begin(FILE_COUNTS) => FILE_COUNTS,
        _ => STATUS,
    }
}

/// Compares counters with the look before, and leaves out those that began again. `others` are
/// counters that are nowhere else.
pub fn without_resets(
    raw: &mut BTreeMap<String, u64>,
    others: impl IntoIterator<Item = (String, u64)>,
    resets: &mut ResetWatch,
) {
    let mut counts = raw.clone();
    counts.extend(others);
    let since_flush = counts.remove(SINCE_FLUSH);
    // Both are by one clock, read once: their difference changes only with a FLUSH STATUS.
    let flushed = counts.get(UPTIME).zip(since_flush).map(|(uptime, since)| uptime.abs_diff(since));
    let stamp = |at| (STATUS.to_owned(), format!("second {at} of its uptime"));
    // The server dates a FLUSH STATUS. These counters are sums over sessions at work: a fall alone
    // proves no reset, and a counter that fell has no rise.
    let summed = counts.iter_mut().filter(|(name, _)| group_of(name) == STATUS);
    summed.filter(|_| flushed.is_some()).for_each(|(_, count)| *count = 0);
    resets.look(&counts, flushed.map(stamp).into_iter().collect(), group_of);
    raw.retain(|name, _| ![UPTIME, SINCE_FLUSH].contains(&name.as_str()));
    raw.retain(|name, _| !resets.is_lost(group_of(name)));
}

/// Status variables that are numbers, as a SHOW GLOBAL STATUS of some names answers.
pub fn status(client: &mut Client, sql: &str) -> Result<BTreeMap<String, u64>, Error> {
    let status: Vec<(String, String)> = client.query(sql)?;
    let number = |(name, value): (String, String)| {
        let count = value.parse().ok().filter(|count| *count <= COUNT_MAX);
        count.map(|count| (name, count))
    };
    Ok(status.into_iter().filter_map(number).collect())
}

/// Direct I/O as its setting says.
pub fn direct_io(is_set: bool) -> Option<DirectIo> {
    is_set.then_some(DirectIo { asked: true, used: true, reason: None })
}

/// Names, SQL and advice of a storage engine, which are the same on every server.
pub struct StorageTexts {
    /// The engine's name, in lower case as the server has it.
    pub name: &'static str,
    /// The setting that sizes its cache.
    pub cache_setting: &'static str,
    /// The server's setting of the bytes of its blocks, and the way to change it.
    pub block_setting: (&'static str, &'static str),
    /// The statements that make a schema's empty tables.
    pub tables_sql: &'static str,
    /// The clause that makes the index on the key in place.
    pub index_in_place: &'static str,
    /// The view with which a load is proved, and the GRANT to read it.
    pub proof_view: &'static str,
    pub proof_grant: &'static str,
    /// Advice if several rows share a block.
    pub placement_hint: &'static str,
    /// The GRANT that lets a user flush.
    pub flush_grant: &'static str,
    /// The setting or grant with which the server times its reads.
    pub untimed: &'static str,
    /// Settings that decide durability, I/O and the figures.
    pub settings: &'static [&'static str],
}

pub trait StorageEngine: Sync {
    fn texts(&self) -> &'static StorageTexts;

    /// The rows of a load in blocks of so many bytes. Refuses sizes that it cannot load.
    fn row_group(&self, block_bytes: u32) -> Result<RowGroup>;

    /// Returns the placement in blocks of the rows of the main table under this name.
    fn placement(&self, client: &mut Client, name: &str) -> Result<Placement>;

    /// Bytes of the main table and its index, which show moved rows; None if sizes change by
    /// themselves.
    fn main_bytes(&self, _: &mut Client, _name: &str) -> Result<Option<u64>> {
        Ok(None)
    }

    /// Bytes of a table, of those that the server reports and those that its rows take in the
    /// cache.
    fn table_bytes(&self, reported: u64, _rows_bytes: u64) -> u64 {
        reported
    }

    /// Pays the debts of earlier work; returns a line for each step.
    fn settle(&self, settling: &Settling<'_>, client: &mut Client) -> Result<Vec<String>>;

    /// Writes changed rows that a run left in memory, at least of a schema's main table.
    fn flush(&self, client: &mut Client, schema: u32) -> Result<(), Error>;

    /// Starts counting on a connection.
    fn counters(&self, client: &mut Client) -> Result<Box<dyn StorageCounters>, Error>;

    /// Properties that are no settings of the server and decide the same as its settings, each with its name.
    fn more_settings(&self, _: &mut Client) -> Vec<(String, String)> {
        Vec::new()
    }

    fn facts(&self, settings: &ServerSettings) -> TargetDetails;

    /// True if the server times its reads, and petal may see it.
    fn is_timed(&self, client: &mut Client) -> bool;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fall_of_the_servers_status_is_a_reset_only_if_the_server_dates_one() {
        let mut resets = ResetWatch::default();
        let mut look = |uptime: u64, since_flush: Option<u64>, commits: u64| {
            let mut raw = BTreeMap::from([
                (UPTIME.to_owned(), uptime),
                ("Handler_commit".to_owned(), commits),
                ("Innodb_data_reads".to_owned(), uptime),
            ]);
            raw.extend(since_flush.map(|since| (SINCE_FLUSH.to_owned(), since)));
            without_resets(&mut raw, [], &mut resets);
            raw.contains_key("Handler_commit")
        };
        assert!(look(10, Some(10), 100));
        // Lower, and no reset by the server.
        assert!(look(11, Some(11), 60));
        assert!(look(12, Some(12), 110));
        assert!(!look(13, Some(1), 120));
        // A server that does not date its resets.
        let mut resets = ResetWatch::default();
        let mut look = |commits: u64| {
            let mut raw = BTreeMap::from([
                ("Handler_commit".to_owned(), commits),
                ("Innodb_data_reads".to_owned(), 1),
            ]);
            without_resets(&mut raw, [], &mut resets);
            raw.contains_key("Handler_commit")
        };
        assert!(look(100) && !look(60));
    }
}
