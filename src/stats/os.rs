//! What the operating system counts: processors, devices, dirty pages, petal's own time.

use serde::{Deserialize, Serialize};

/// Per cent of all processors' time over an interval; the five add up to 100.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct CpuShare {
    pub user: f64,
    pub system: f64,
    pub iowait: f64,
    pub idle: f64,
    pub steal: f64,
}

/// What the devices behind the data served over an interval: /proc/diskstats, summed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceCounts {
    pub read_requests: u64,
    pub read_bytes: u64,
    /// Milliseconds that reads spent in the device and its queue, summed over reads.
    pub read_ms: u64,
    pub write_requests: u64,
    pub write_bytes: u64,
    pub write_ms: u64,
    pub flushes: u64,
    /// Milliseconds with anything in flight.
    pub busy_ms: u64,
}
