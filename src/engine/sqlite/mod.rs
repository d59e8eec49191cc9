//! SQLite: one database file per schema in the target folder.

use crate::engine::{Capabilities, EngineError};
use crate::settings::{LoopSide, Settings};

pub const CAPABILITIES: Capabilities = Capabilities {
    scheme: "sqlite",
    product: "SQLite",
    loop_sides: &[LoopSide::Client],
    block_sizes: &[4096, 8192, 16384, 32768],
    block_size_default: 8192,
    prefetch: false,
    direct_io: true,
    io_depth: false,
    endpoints: false,
    cache_per_session: true,
    redo_stress: false,
    io_events: crate::engine::IoEvents {
        read: "main read",
        write: "checkpoint write",
        log: "wal sync",
        timed_by: "petal's VFS shim",
    },
    transient_errors: &["busy"],
};

/// A folder of database files.
pub struct Sqlite {}

impl Sqlite {
    pub fn open(_settings: &Settings) -> Result<Self, EngineError> {
        Ok(Self {})
    }
}
