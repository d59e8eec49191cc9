//! The storage engine that holds petal's tables: all in which one differs from another is a method of
//! [`StorageEngine`], which `innodb` and `rocksdb` implement. A load asks for one (`storage_engine` of
//! the URL); everything else finds it out by the tables that are there.

use std::collections::BTreeMap;

use super::before_run::Settling;
use super::client::{Client, Error};
use super::errors::engine_error;
use super::innodb::Innodb;
use super::rocksdb::Rocksdb;
use super::row_group::RowGroup;
use crate::engine::{Placement, Result};
use crate::stats::counters::{IoCounts, Wait};
use crate::stats::target::{Advice, Durability, IoEvents, NotableSetting, Privilege};

pub type Storage = &'static dyn StorageEngine;

/// The server's settings by name.
pub type ServerSettings = BTreeMap<String, String>;

impl std::fmt::Debug for dyn StorageEngine {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(self.name())
    }
}

/// One snapshot of a server's counters.
pub struct Counted {
    pub io: IoCounts,
    pub waits: Vec<Wait>,
    pub raw: BTreeMap<String, u64>,
}

/// Reads counters, and keeps what it must know of the snapshot before.
pub trait StorageCounters: Send {
    fn read(&mut self, client: &mut Client) -> Result<Counted, Error>;
}

/// Properties of a storage engine, of the server's settings.
pub struct StorageFacts {
    pub cache_bytes: Option<u64>,
    pub passes_page_cache: bool,
    pub durability: Durability,
    pub io_events: IoEvents,
    pub checkpoint: String,
    pub notable_settings: Vec<NotableSetting>,
    pub advice: Advice,
}

pub trait StorageEngine: Sync {
    /// Its name, as the server has it in lower case.
    fn name(&self) -> &'static str;

    /// The server's setting of the bytes of its blocks, and what it takes to change it.
    fn block_setting(&self) -> (&'static str, &'static str);

    /// The rows of a load in blocks of so many bytes. Refuses what it cannot load.
    fn row_group(&self, block_bytes: u32) -> Result<RowGroup>;

    /// The statements that make a schema's empty tables.
    fn tables_sql(&self) -> &'static str;

    /// How the index on the key is made in place.
    fn index_in_place(&self) -> &'static str;

    /// How the rows of the main table under this name lie in blocks.
    fn placement(&self, client: &mut Client, server: &str, name: &str) -> Result<Placement>;

    /// The advice where rows do not lie one in each block.
    fn placement_hint(&self) -> &'static str;

    /// Bytes of the main table and its index by which moved rows are noticed; None where sizes
    /// change by themselves.
    fn main_bytes(&self, client: &mut Client, server: &str, name: &str) -> Result<Option<u64>>;

    /// Bytes of a table, of those that the server tells and those that its rows take in the cache.
    fn table_bytes(&self, told: u64, rows_bytes: u64) -> u64;

    /// Pays the debts of what ran before; a line each of what was done.
    fn settle(
        &self,
        settling: &Settling<'_>,
        client: &mut Client,
        schemas: &[u32],
    ) -> Result<Vec<String>>;

    /// The user's privileges that it needs, given the first schema that is loaded.
    fn privileges(&self, client: &mut Client, first: Option<u32>) -> Vec<Privilege>;

    /// Starts counting on a connection.
    fn counters(&self, client: &mut Client) -> Result<Box<dyn StorageCounters>, Error>;

    /// Settings that decide durability, I/O and what is measured.
    fn settings(&self) -> &'static [&'static str];

    /// More of the kind that are no settings, each with its name.
    fn more_settings(&self, client: &mut Client) -> Vec<(String, String)>;

    fn facts(&self, settings: &ServerSettings) -> StorageFacts;

    /// The statement that makes the server time its reads, where it does not.
    fn untimed(&self, client: &mut Client) -> Option<&'static str>;
}

const ALL: [Storage; 2] = [&Innodb, &Rocksdb];

/// The one of this name; None where petal knows none.
pub fn by_name(name: &str) -> Option<Storage> {
    ALL.into_iter().find(|storage| storage.name().eq_ignore_ascii_case(name))
}

pub fn names() -> String {
    ALL.map(|storage| storage.name()).join(", ")
}

/// The one that holds the complete schemas of a database; the first where none is loaded.
pub fn of_data(client: &mut Client, server: &str) -> Result<Storage> {
    let sql = "SELECT engine FROM information_schema.tables WHERE table_schema = DATABASE() \
               AND table_name REGEXP '^petal[1-9][0-9]*_cf1$' LIMIT 1";
    let found: Vec<Option<String>> = client
        .query(sql)
        .map_err(|error| engine_error(server, "asking for the storage engine", &error))?;
    let name = found.into_iter().flatten().next();
    Ok(name.and_then(|name| by_name(&name)).unwrap_or(&Innodb))
}
