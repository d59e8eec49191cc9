//! The record of `petal costs`: the versioned format `petal-costs/1`, in a separate folder next to
//! the runs. It has the raw counts of every sample, and the prices that petal computed from them.

use std::path::Path;

use serde::{Deserialize, Serialize};

use petal_engine::costs::{CostAccess, Price, PriceUnit};
use petal_record::{RecordError, Status, format};
use petal_report::listed::ListedRecord;
use petal_report::own_record::OwnRecord;

use crate::{page, text};

pub const FORMAT: &str = "petal-costs/1";
const NAME: &str = "costs.json";
const NOUN: &str = "a record of costs";

/// Shares of the blocks that the database's cache holds before a read, percent.
pub const CACHED_PCTS: [u8; 4] = [0, 50, 90, 100];
/// The whole result, printed by `petal costs --json`. Names never change; an unknown value is null,
/// never 0.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Costs {
    pub format: String,
    pub petal_version: String,
    /// `interrupted` by a signal or `failed` by an error: fewer rounds.
    pub status: Status,
    /// UTC, RFC 3339.
    pub started_at: String,
    pub elapsed_s: f64,
    /// Name and kernel of petal's host.
    pub host: String,
    pub kernel: String,
    pub url: String,
    pub product: String,
    pub version: String,
    pub block_bytes: u64,
    /// Blocks of each of both large tables.
    pub blocks: u64,
    /// The database's own cache.
    pub cache_bytes: u64,
    /// Sessions of the cells with several.
    pub sessions: u32,
    /// Rounds in which every cell was measured once, in random order.
    pub rounds: u32,
    pub seed: u64,
    /// Share of the cached blocks that the statements to paste are for, percent.
    pub assumed_pct: u8,
    /// Share of all block visits that this database's cache served since its counters began.
    pub database_hit_share: Option<f64>,
    /// Reason why petal could not drop the data from the operating system's page cache; null if it
    /// did so before every read.
    pub page_cache_kept: Option<String>,
    /// Devices below the data; empty if they are not seen.
    pub devices: Vec<String>,
    pub cells: Vec<CostCell>,
    /// Values that follow for the optimizer's settings.
    pub settings: Vec<PricedSetting>,
    /// Statements that set them, to paste; empty if none has a value.
    pub statements: Vec<String>,
    /// The statement for all settings together, whose parts take the place of `{settings}`; null if each
    /// has one.
    #[serde(default)]
    pub joint_statement: Option<String>,
    /// Statement after them, which puts them in force.
    pub reload: Option<String>,
    /// Notes for the reader, a sentence each.
    pub notes: Vec<String>,
}

/// A kind of access under one condition, measured once in each round.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct CostCell {
    pub access: CostAccess,
    pub sessions: u32,
    /// Share of its blocks, the last ones, that the database's cache was to hold, percent; null of
    /// accesses in memory.
    pub cached_pct: Option<u8>,
    pub samples: Vec<CostSample>,
    /// Samples that were left out, because the layers showed another cached share.
    pub left_out: u32,
}

/// Raw counts of one cell in one round, over all of its sessions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct CostSample {
    pub round: u32,
    /// Blocks, rows, entries or lookups.
    pub units: u64,
    /// Time of the statements by petal's clock, summed over the sessions.
    pub elapsed_ns: u64,
    /// Blocks of the large table that the database visited, and found in its cache, by its own
    /// count; null of accesses in memory.
    pub visited: Option<u64>,
    pub hits: Option<u64>,
    /// Bytes that block devices read for the server's processes.
    pub server_read_bytes: Option<u64>,
    /// Processor time of the server's processes.
    pub server_cpu_us: Option<u64>,
    /// The devices' own counts, of all users.
    pub device_reads: Option<u64>,
    pub device_read_bytes: Option<u64>,
    pub device_read_ms: Option<u64>,
}

impl CostSample {
    /// Nanoseconds for a block, row, entry or lookup.
    pub fn unit_ns(&self) -> Option<f64> {
        (self.units > 0).then(|| self.elapsed_ns as f64 / self.units as f64)
    }

    /// Share of the visited blocks that the database found in its cache.
    pub fn hit_share(&self) -> Option<f64> {
        let visited = self.visited.filter(|visited| *visited > 0)?;
        Some(self.hits? as f64 / visited as f64)
    }

    /// Share of the other blocks that devices read; over 1 with read-ahead.
    pub fn device_share(&self, block_bytes: u64) -> Option<f64> {
        let missed = self.visited?.saturating_sub(self.hits?);
        let missed_bytes = missed as f64 * block_bytes as f64;
        (missed_bytes > 0.0).then(|| Some(self.server_read_bytes? as f64 / missed_bytes))?
    }
}

/// A setting of the optimizer, with its measured value.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct PricedSetting {
    pub name: String,
    pub price: Price,
    pub unit: PriceUnit,
    /// Part or multiple of the price that the setting is.
    #[serde(default = "whole_price")]
    pub factor: f64,
    /// The only cached share that the setting is for, percent; null if it depends on the share.
    #[serde(default)]
    pub fixed_pct: Option<u8>,
    /// Value in force; null if the database does not say.
    pub present: Option<String>,
    /// Statement that sets it, or its part of the joint statement, with `{value}` in its place; null
    /// without one.
    pub statement: Option<String>,
    /// Values by condition, in the order of `CACHED_PCTS`, then with several sessions.
    pub values: Vec<PriceValue>,
}

fn whole_price() -> f64 {
    1.0
}

/// A value that was measured under one condition.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct PriceValue {
    pub sessions: u32,
    /// Null of a value that does not depend on it.
    pub cached_pct: Option<u8>,
    /// Null if it is too small to be distinguished from 0, or was not measured. If it is too small,
    /// `high` is the most that it can be.
    pub value: Option<f64>,
    /// 95 % interval over the rounds; null under three.
    pub low: Option<f64>,
    pub high: Option<f64>,
}

impl PriceValue {
    /// The value, or the most that it can be if it is too small to be measured.
    pub fn usable(&self) -> Option<f64> {
        self.value.or(self.high)
    }
}

impl Costs {
    pub fn cell(&self, access: CostAccess, sessions: u32, pct: Option<u8>) -> Option<&CostCell> {
        self.cells
            .iter()
            .find(|cell| (cell.access, cell.sessions, cell.cached_pct) == (access, sessions, pct))
    }

    pub fn setting(&self, name: &str) -> Option<&PricedSetting> {
        self.settings.iter().find(|setting| setting.name == name)
    }

    /// Blocks that the database was to ask for ahead, in ascending order.
    pub fn depths(&self) -> Vec<u32> {
        let mut depths: Vec<u32> = self
            .cells
            .iter()
            .filter_map(|cell| match cell.access {
                CostAccess::ReadAhead(depth) => Some(depth),
                _ => None,
            })
            .collect();
        depths.sort_unstable();
        depths.dedup();
        depths
    }
}

impl PricedSetting {
    /// The value for a cached share with one session, or the one that depends on no share.
    pub fn at(&self, cached_pct: u8) -> Option<&PriceValue> {
        let is_it = |value: &&PriceValue| match value.cached_pct {
            Some(pct) => value.sessions == 1 && pct == cached_pct,
            None => true,
        };
        self.values.iter().find(is_it)
    }
}

/// Costs as a record with its reports.
pub const COSTS: OwnRecord<Costs> = OwnRecord {
    file: NAME,
    noun: NOUN,
    load,
    text: text::render,
    brief: text::render,
    page: page::page,
    listed,
};

fn load(path: &Path) -> Result<Costs, RecordError> {
    let path = if path.is_dir() { path.join(NAME) } else { path.to_owned() };
    format::read(&path, FORMAT, NOUN)
}

fn listed(name: String, costs: &Costs) -> ListedRecord {
    ListedRecord {
        name,
        kind: "costs",
        state: costs.status.name().to_owned(),
        measured: costs.started_at.clone(),
        database: format!("{} {}", costs.product, costs.version),
        target: costs.url.clone(),
        host: costs.host.clone(),
        ..ListedRecord::default()
    }
}
