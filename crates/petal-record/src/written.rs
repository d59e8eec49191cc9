//! Bytes that a run wrote, layer by layer, from the trigger until all of them were on the devices:
//! later than the end of the run's other figures.

use serde::{Deserialize, Serialize};

use crate::counters::{CommonCounter, Counters};
use petal_host::drive_health::DriveHealth;
use petal_host::os::writes::WriteOrigins;

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct WrittenBytes {
    /// Bytes of a row's columns that an UPDATE changes.
    pub row_bytes: u64,
    /// The database's own counts; unknown ones are null.
    pub log: Option<u64>,
    pub log_files: Option<u64>,
    pub pages: Option<u64>,
    pub doublewrite: Option<u64>,
    /// Growth of the log's folder by files that a server fills with zeros first.
    pub new_log_files: Option<u64>,
    /// Bytes of the data's devices, and the origins that the kernel's block layer saw.
    pub device: Option<u64>,
    pub origins: Option<WriteOrigins>,
    /// Why the origins are unknown; null if they are known.
    pub origins_unseen: Option<String>,
    /// Why a part may be in the page cache still; null if petal had the kernel write it out.
    pub not_written_out: Option<String>,
    /// Seconds from the first count to the last.
    pub seconds: f64,
    /// NVMe drives below the data.
    pub drives: Vec<SeenDrive>,
}

/// An NVMe drive, and its health before the run and after all was written.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SeenDrive {
    /// Name of the namespace, such as `nvme0n1`.
    pub name: String,
    pub model: Option<String>,
    /// The vendor's PCI number.
    pub vendor: Option<u16>,
    pub size_bytes: Option<u64>,
    pub before: Option<DriveHealth>,
    pub after: Option<DriveHealth>,
    /// Why its health is unknown; null if it is known.
    pub unseen: Option<String>,
}

impl SeenDrive {
    /// Bytes from the host in between.
    pub fn host_bytes(&self) -> Option<u64> {
        let (before, after) = self.before.as_ref().zip(self.after.as_ref())?;
        after.host_bytes.checked_sub(before.host_bytes)
    }

    /// Bytes written to the flash in between.
    pub fn flash_bytes(&self) -> Option<u64> {
        let (before, after) = self.before.as_ref().zip(self.after.as_ref())?;
        after.flash_bytes?.checked_sub(before.flash_bytes?)
    }
}

impl WrittenBytes {
    /// Takes the counts of a database between two snapshots.
    pub fn of_database(counters: &Counters) -> Self {
        let raw = |counter: CommonCounter| counters.raw.get(counter.name()).copied();
        Self {
            log: counters.io.redo_bytes,
            log_files: raw(CommonCounter::LogFileBytes),
            pages: counters.io.physical_write_bytes,
            doublewrite: raw(CommonCounter::DoublewriteBytes),
            ..Self::default()
        }
    }
}
