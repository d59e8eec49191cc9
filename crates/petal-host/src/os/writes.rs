//! Bytes written to the data's devices, by their origin, as the kernel's block layer sees them.

use serde::{Deserialize, Serialize};

use super::figures::Counts;

/// Bytes by origin: cumulative, or over an interval.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WriteOrigins {
    /// Journal and metadata of the file system.
    pub file_system: u64,
    /// Pages of the log's files in the page cache.
    pub log: u64,
    /// Pages of the database's other files in the page cache.
    pub data: u64,
    /// Written past the page cache by the database's processes, to any of its files.
    pub direct: u64,
    /// Files of other programs, and petal's own records.
    pub others: u64,
}

impl Counts {
    pub fn write_origins(&self) -> Option<WriteOrigins> {
        Some(WriteOrigins {
            file_system: self.written_by_file_system_bytes?,
            log: self.written_to_log_bytes?,
            data: self.written_to_data_bytes?,
            direct: self.written_directly_bytes?,
            others: self.written_by_others_bytes?,
        })
    }
}
