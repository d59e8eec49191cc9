//! An operation of the method: the next request of a session to the database.

use std::time::Duration;

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// `SELECT COUNT(c2) ... WHERE custid BETWEEN first AND last` on the main table.
    Select,
    /// `SELECT COUNT(c2)` over the whole scan table.
    Scan,
    /// New filler over a range of keys, then one durable COMMIT.
    Update,
}

impl Kind {
    pub const ALL: [Kind; 3] = [Kind::Select, Kind::Scan, Kind::Update];

    /// Position in arrays with one element per kind.
    pub fn index(self) -> usize {
        self as usize
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Select => "select",
            Self::Scan => "scan",
            Self::Update => "update",
        }
    }
}

/// Data that the settings send more operations to than to others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hot {
    /// DO_HOTSPOT: a range of keys in every schema.
    Spot,
    /// HOT_SCHEMA_FREQUENCY: schema 1.
    Schema,
}

impl Hot {
    pub const ALL: [Hot; 2] = [Hot::Spot, Hot::Schema];

    /// Position in arrays with one element for each.
    pub fn index(self) -> usize {
        self as usize
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Spot => "hot_spot",
            Self::Schema => "hot_schema",
        }
    }
}

/// An SQL execution, with its commit if it writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Operation {
    pub kind: Kind,
    /// The schema it touches, from 1.
    pub schema: u32,
    /// First key; unused by scans.
    pub first: u64,
    /// Keys visited; unused by scans.
    pub rows: u32,
    /// Differs for every UPDATE of a run, so that the new filler never equals the old.
    pub stamp: u64,
    /// Time since the trigger at which RATE should have started it.
    pub due: Option<Duration>,
    /// True if the settings sent it to the hot spot, or to the hot schema: by [`Hot::index`].
    pub hot: [bool; Hot::ALL.len()],
}

impl Operation {
    /// A SELECT that does not belong to a run.
    pub fn select(schema: u32, first: u64, rows: u32) -> Self {
        Self { kind: Kind::Select, schema, first, rows, stamp: 0, due: None, hot: [false; 2] }
    }

    /// The last key of the range.
    pub fn last(&self) -> u64 {
        self.first + u64::from(self.rows) - 1
    }
}
