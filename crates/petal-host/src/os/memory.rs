//! Memory: /proc/meminfo and /proc/vmstat (proc_meminfo(5), proc_vmstat(5)).

use super::figures::{Counts, Gauges};
use crate::files;
use crate::tree::number_after;

/// Memory of this host that is free or that the kernel can take back from its caches; `None` if
/// /proc/meminfo does not say.
pub fn available_bytes() -> Option<u64> {
    meminfo_bytes(&files::system_text("/proc/meminfo").ok()?, "MemAvailable")
}

/// Returns the bytes of a line of /proc/meminfo, which counts in KiB.
pub fn meminfo_bytes(meminfo: &str, key: &str) -> Option<u64> {
    number_after(meminfo, key)?.checked_mul(1024)
}

/// Pressure on this host's memory since its start.
#[derive(Debug, Clone, Copy)]
pub struct MemoryPressure {
    /// Microseconds in which all tasks that could work waited for memory; None if it is not counted.
    full_us: Option<u64>,
    /// Page faults that waited for a device.
    major_faults: u64,
}

impl MemoryPressure {
    pub fn read() -> Self {
        let mut read = Counts::default();
        counts(&files::system_text("/proc/vmstat").unwrap_or_default(), &mut read);
        super::pressure::counts(|name| files::system_text(format!("/proc/{name}")).ok(), &mut read);
        Self { full_us: read.memory_full_us, major_faults: read.major_faults.unwrap_or(0) }
    }

    /// Percent of the time in which all tasks waited, and faults a second.
    pub fn since(self, then: Self, seconds: f64) -> (Option<f64>, f64) {
        let full = self.full_us.zip(then.full_us).and_then(|(now, then)| now.checked_sub(then));
        let faults = self.major_faults.saturating_sub(then.major_faults);
        (full.map(|us| us as f64 / 1e4 / seconds), faults as f64 / seconds)
    }
}

pub(super) fn gauges(meminfo: &str, into: &mut Gauges) {
    let of = |key| meminfo_bytes(meminfo, key);
    into.free_bytes = of("MemFree");
    into.available_bytes = of("MemAvailable");
    into.buffers_bytes = of("Buffers");
    // As vmstat counts it: with the reclaimable part of the kernel's memory.
    let reclaimable = of("SReclaimable").unwrap_or(0);
    into.cached_bytes = of("Cached").map(|files| files.saturating_add(reclaimable));
    into.dirty_bytes = of("Dirty");
    into.writeback_bytes = of("Writeback");
    let swap = of("SwapTotal").zip(of("SwapFree"));
    into.swap_used_bytes = swap.map(|(total, free)| total.saturating_sub(free));
}

/// /proc/vmstat counts swap in pages.
pub(super) fn counts(vmstat: &str, into: &mut Counts) {
    let of = |key| number_after(vmstat, key);
    let page_bytes = rustix::param::page_size() as u64;
    let bytes = |pages: u64| pages.checked_mul(page_bytes);
    into.swap_in_bytes = of("pswpin").and_then(bytes);
    into.swap_out_bytes = of("pswpout").and_then(bytes);
    into.major_faults = of("pgmajfault");
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn memory_is_read_by_its_names() {
        let mut gauges_read = Gauges::default();
        let text = "MemTotal: 99 kB\nMemFree:  8 kB\nBuffers: 1 kB\nCached: 4 kB\nSReclaimable: 2 kB\nSwapCached: 7 kB\n\
                    SwapTotal: 9 kB\nSwapFree: 6 kB\nDirty: 2 kB\nWriteback: 3 kB\nWritebackTmp: 5 kB\n";
        gauges(text, &mut gauges_read);
        let wanted = Gauges {
            free_bytes: Some(8 << 10),
            buffers_bytes: Some(1 << 10),
            cached_bytes: Some(6 << 10),
            dirty_bytes: Some(2 << 10),
            writeback_bytes: Some(3 << 10),
            swap_used_bytes: Some(3 << 10),
            ..Gauges::default()
        };
        assert_eq!(gauges_read, wanted);
    }

    #[test]
    fn pressure_is_of_the_time_between_two_looks() {
        let then = MemoryPressure { full_us: Some(1_000_000), major_faults: 10 };
        let now = MemoryPressure { full_us: Some(1_200_000), major_faults: 410 };
        assert_eq!(now.since(then, 2.0), (Some(10.0), 200.0));
        assert_eq!(now.since(MemoryPressure { full_us: None, ..then }, 2.0), (None, 200.0));
        assert!(MemoryPressure::read().major_faults > 0);
    }

    #[test]
    fn swap_is_reported_in_bytes_and_faults_as_they_are() {
        let mut read = Counts::default();
        counts("pswpin 2\npswpout 3\npgfault 77\npgmajfault 5\npgmajfault_x 9\n", &mut read);
        let page = rustix::param::page_size() as u64;
        assert_eq!((read.swap_in_bytes, read.swap_out_bytes), (Some(2 * page), Some(3 * page)));
        assert_eq!(read.major_faults, Some(5));
    }

    proptest! {
        #[test]
        fn no_text_upsets_the_readers(text in "(pswpin|MemFree|Cached|:| |[0-9]{1,22}|kB|\\n|\\PC){0,20}") {
            gauges(&text, &mut Gauges::default());
            counts(&text, &mut Counts::default());
            meminfo_bytes(&text, "");
        }
    }
}
