//! A device's figures as `iostat -x` makes them from the kernel's counts, for every report alike.

use serde::{Deserialize, Serialize};

use super::DeviceUse;

/// A device's figures as iostat makes them from the kernel's counts: requests per second, KiB per
/// second, milliseconds, percent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct DeviceRates {
    pub reads: Option<f64>,
    pub read_kib: Option<f64>,
    pub read_merges: Option<f64>,
    pub read_await_ms: Option<f64>,
    pub writes: Option<f64>,
    pub write_kib: Option<f64>,
    pub write_merges: Option<f64>,
    pub write_await_ms: Option<f64>,
    pub flushes: Option<f64>,
    /// aqu-sz: the mean number of requests in the device and its queue.
    pub queue: Option<f64>,
    pub util_percent: Option<f64>,
}

impl DeviceRates {
    /// Computes the figures; without time all are unknown, without requests the waits.
    pub fn of(device: &DeviceUse, seconds: f64) -> Self {
        if seconds.is_nan() || seconds <= 0.0 {
            return Self::default();
        }
        let counts = &device.counts;
        let per = |count: u64| Some(count as f64 / seconds);
        let wait = |ms: u64, requests: u64| (requests > 0).then(|| ms as f64 / requests as f64);
        Self {
            reads: per(counts.read_requests),
            read_kib: per(counts.read_bytes).map(|bytes| bytes / 1024.0),
            read_merges: per(device.read_merges),
            read_await_ms: wait(counts.read_ms, counts.read_requests),
            writes: per(counts.write_requests),
            write_kib: per(counts.write_bytes).map(|bytes| bytes / 1024.0),
            write_merges: per(device.write_merges),
            write_await_ms: wait(counts.write_ms, counts.write_requests),
            flushes: per(counts.flushes),
            queue: per(device.queue_ms).map(|ms| ms / 1000.0),
            // The kernel rounds up to its ticks: no more than all the time is shown.
            util_percent: per(counts.busy_ms).map(|ms| (ms / 10.0).min(100.0)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::os::DeviceCounts;

    #[test]
    fn figures_are_those_of_iostat() {
        let counts = DeviceCounts {
            read_requests: 200,
            read_bytes: 200 * 8192,
            read_ms: 30,
            write_requests: 0,
            write_bytes: 0,
            write_ms: 0,
            flushes: 6,
            busy_ms: 2100,
        };
        let device = DeviceUse { counts, read_merges: 4, queue_ms: 500, ..DeviceUse::default() };
        let shown = DeviceRates::of(&device, 2.0);
        assert_eq!(
            (shown.reads, shown.read_kib, shown.read_merges),
            (Some(100.0), Some(800.0), Some(2.0))
        );
        assert_eq!((shown.read_await_ms, shown.write_await_ms), (Some(0.15), None));
        assert_eq!((shown.flushes, shown.queue), (Some(3.0), Some(0.25)));
        assert_eq!(shown.util_percent, Some(100.0));
        assert_eq!(DeviceRates::of(&device, 0.0), DeviceRates::default());
    }
}
