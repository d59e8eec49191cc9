//! The facts of this host: kernel, processors, memory, devices and what would spoil a test here.

use super::devices::DataDevices;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Host {
    pub name: String,
    pub kernel: String,
    /// Processors that petal may use.
    pub cpus: u32,
    pub cpu_model: Option<String>,
    pub memory_bytes: Option<u64>,
    pub devices: Vec<Device>,
}

/// A device behind the data.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Device {
    /// As /proc/diskstats prints it.
    pub name: String,
    pub model: Option<String>,
    pub file_system: Option<String>,
    pub scheduler: Option<String>,
    pub rotational: Option<bool>,
    pub write_cache: Option<String>,
    pub size_bytes: Option<u64>,
}

impl Host {
    pub fn collect(_: Option<&DataDevices>) -> Self {
        Self::default()
    }
}
