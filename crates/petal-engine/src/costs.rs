//! The contract of `petal costs`: accesses that an optimizer has a price for. An engine supplies the
//! statements, the settings and its own counts; petal chooses the blocks, the order and the rounds,
//! and computes the prices.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Result;

/// Schemas that are needed: accesses at random go to the first, scans to the second, so that
/// neither warms the cache for the other.
pub const COST_SCHEMAS: u32 = 2;

/// Conditions on each row of [`CostAccess::FilteredRows`].
pub const FILTERS: u32 = 8;

/// Kind of access that an optimizer has a price for.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum CostAccess {
    /// Rows in random order by an index, a block each, one block at a time.
    #[default]
    Random,
    /// Rows of [`Self::Random`] in block order; the database asks for this many blocks ahead.
    ReadAhead(u32),
    /// Consecutive blocks of a scan, a row each.
    Sequential,
    /// Short rows of a small table in memory, one after the other.
    Rows,
    /// Short rows, each with [`FILTERS`] conditions that it passes.
    FilteredRows,
    /// Consecutive entries of an index in memory, without their rows.
    IndexEntries,
    /// Single keys that are looked up in an index in memory, from its root.
    Lookups,
}

impl CostAccess {
    /// The access in words.
    pub fn name(self) -> String {
        match self {
            Self::Random => "random blocks, one at a time".to_owned(),
            Self::ReadAhead(depth) => format!("random blocks, {depth} asked for ahead"),
            Self::Sequential => "sequential blocks".to_owned(),
            Self::Rows => "rows in memory".to_owned(),
            Self::FilteredRows => format!("rows in memory with {FILTERS} conditions"),
            Self::IndexEntries => "index entries in memory".to_owned(),
            Self::Lookups => "lookups in an index in memory".to_owned(),
        }
    }

    /// True of accesses to the large tables, whose blocks may or may not be in a cache.
    pub fn reads_blocks(self) -> bool {
        matches!(self, Self::Random | Self::ReadAhead(_) | Self::Sequential)
    }
}

/// Price of an optimizer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Price {
    /// A block that is read alone.
    #[default]
    RandomBlock,
    /// A block of a scan.
    SequentialBlock,
    Row,
    IndexEntry,
    /// An entry of an index with all of its row's work, in a scan of the index alone.
    IndexRow,
    /// A key that is looked up in an index from its root.
    Lookup,
    /// The time that a row found by an index takes longer than the next row of a scan, without its
    /// index entry.
    RowLookup,
    /// The time that a block of a scan takes longer if no cache has it.
    BlockRead,
    /// The time that a block read alone takes longer if no cache has it.
    RandomRead,
    /// Blocks that one read of a scan has, as the database is set.
    ScanBlocks,
    /// The share of blocks that no cache has.
    MissShare,
    /// A condition on a row.
    Operator,
    /// Blocks that one session should ask for ahead.
    Depth,
    /// Blocks that each of several sessions should ask for ahead.
    DepthOfSessions,
}

/// Unit of a setting's value.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PriceUnit {
    /// The time of a sequential block is 1.
    #[default]
    SequentialBlock,
    Microsecond,
    Blocks,
    /// The time of a block that is read alone from the device is 1.
    RandomRead,
    /// A number without a unit.
    Share,
}

/// An engine whose accesses can be priced.
pub trait CostProbes: Send + Sync {
    /// Refuses a target that cannot be measured: a standby, several servers, an old version. Returns
    /// the bytes of the database's own cache.
    fn check(&self) -> Result<u64>;

    /// Facts about the target. The two schemas are loaded.
    fn facts(&self) -> Result<CostFacts>;

    /// Connects a session. `rows` rows are made in memory for [`CostAccess::Rows`] and the like,
    /// which only this session sees; 0 means none.
    fn open_session(&self, number: u32, rows: u64) -> Result<Box<dyn CostSession>>;
}

/// Facts about a target whose accesses are priced.
#[derive(Debug, Clone, Default)]
pub struct CostFacts {
    /// Share of all block visits that the cache served since the counters began.
    pub hit_share: Option<f64>,
    /// Files of both main tables on this host.
    pub data_files: Vec<PathBuf>,
    /// True if the database reads past the page cache.
    pub is_direct: bool,
    /// True if sessions can make short rows in memory.
    pub has_short_rows: bool,
    /// Processes that read ahead for all sessions together, and the setting's name; `None` if each
    /// session can have any number of reads in flight.
    pub readers: Option<(String, u32)>,
    /// Numbers of blocks that it can be made to ask for ahead, in ascending order; empty if it
    /// cannot.
    pub depths: Vec<u32>,
    pub settings: Vec<PriceSetting>,
    /// The statement for all settings together, with `{settings}`; `None` if each has a statement.
    pub joint_statement: Option<String>,
    /// Last statement, which puts the new values in force.
    pub reload: Option<String>,
    /// Notes on this product's prices, a sentence each.
    pub notes: Vec<String>,
}

/// A setting of the optimizer.
#[derive(Debug, Clone)]
pub struct PriceSetting {
    pub name: String,
    pub price: Price,
    pub unit: PriceUnit,
    /// Part or multiple of the price that the setting is.
    pub factor: f64,
    /// The only cached share that it is for, if the database itself knows how much is cached.
    pub fixed_pct: Option<u8>,
    pub present: Option<String>,
    /// Statement that sets it, or its part of the joint statement, with `{value}`; `None` if it is not
    /// set by a statement.
    pub statement: Option<String>,
}

/// Consecutive keys, or blocks of a scan, from `first` on; of accesses in memory only the length
/// counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CostStretch {
    /// Number of the first, counted from 0.
    pub first: u64,
    pub length: u64,
}

/// An access that was timed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CostRead {
    pub elapsed: Duration,
    /// Blocks, rows, entries or lookups, as the database answered.
    pub units: u64,
    /// Blocks of the main table that were visited, and those of them that the cache served; `None`
    /// if the session cannot count them.
    pub blocks: Option<(u64, u64)>,
}

/// A connection that executes accesses. One thread calls it at a time.
pub trait CostSession: Send {
    /// Executes a statement of this access over a stretch, and times it. Its blocks are then in the
    /// database's cache.
    fn read(&mut self, access: CostAccess, stretch: CostStretch) -> Result<CostRead>;

    /// Blocks that the whole server has read for all of its users, if its sessions do not count
    /// theirs.
    fn server_reads(&mut self) -> Result<Option<u64>> {
        Ok(None)
    }
}
