//! The figures of a sample without processors and devices: counts that only grow, and gauges of
//! the state at a moment. A figure that a kernel does not report is `None`, never 0.

use serde::{Deserialize, Serialize};

use super::disk::part;

macro_rules! counts {
    ($($(#[$doc:meta])* $field:ident),+ $(,)?) => {
        /// Cumulative in a sample; in an interval, the rise.
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(default)]
        pub struct Counts { $($(#[$doc])* pub $field: Option<u64>),+ }

        impl Counts {
            /// A counter that went back has restarted: its rise is unknown.
            pub fn since(&self, earlier: &Self) -> Self {
                Self { $($field: self.$field.zip(earlier.$field).and_then(|(now, then)| now.checked_sub(then))),+ }
            }

            /// A figure known on one side only is unknown in the sum.
            pub fn plus(&self, other: &Self) -> Self {
                Self { $($field: self.$field.zip(other.$field).map(|(a, b)| a.saturating_add(b))),+ }
            }

            /// Returns a share of each, from 0 to 1.
            pub fn part(&self, share: f64) -> Self {
                Self { $($field: self.$field.map(|count| part(count, share))),+ }
            }
        }
    };
}

macro_rules! gauges {
    ($($(#[$doc:meta])* $field:ident),+ $(,)?) => {
        /// State at a moment.
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(default)]
        pub struct Gauges { $($(#[$doc])* pub $field: Option<u64>),+ }

        /// Each gauge's mean over the moments that know it, its least and its most.
        #[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
        #[serde(default)]
        pub struct GaugeRanges { $(pub $field: Option<Range>),+ }

        impl GaugeRanges {
            pub fn add(&mut self, now: &Gauges) {
                $(if let Some(value) = now.$field {
                    Range::add(&mut self.$field, value);
                })+
            }
        }
    };
}

counts! {
    interrupts,
    context_switches,
    /// Pages read back from swap, and written to it.
    swap_in_bytes,
    swap_out_bytes,
    /// Page faults that waited for a device.
    major_faults,
    /// Pressure (PSI): microseconds in which some task waited for the resource, and in which all
    /// tasks that were not idle did.
    cpu_some_us,
    cpu_full_us,
    io_some_us,
    io_full_us,
    memory_some_us,
    memory_full_us,
    /// Bytes over all network interfaces with hardware behind them.
    received_bytes,
    received_packets,
    receive_errors,
    sent_bytes,
    sent_packets,
    send_errors,
    /// TCP: segments sent, and those of them that were sent again.
    sent_segments,
    resent_segments,
    /// Processor time of petal's process, all its threads.
    petal_cpu_us,
    /// Processor time of the database server's processes on this host, in ticks of the kernel's
    /// clock.
    server_cpu_us,
    /// Processor time of the server's process that writes the log.
    log_writer_cpu_us,
    /// Bytes that petal's process had block devices read, that it changed in the page cache or
    /// wrote past it, and that its system calls read from anywhere.
    petal_read_bytes,
    petal_write_bytes,
    petal_call_read_bytes,
    /// Bytes that the database server's processes on this host read and wrote, counted alike.
    server_read_bytes,
    server_write_bytes,
    server_call_read_bytes,
    /// Bytes written to the data's devices: journal and metadata of the file system; log and other
    /// files of the database through the page cache; past it by the database's processes; others.
    written_by_file_system_bytes,
    written_to_log_bytes,
    written_to_data_bytes,
    written_directly_bytes,
    written_by_others_bytes,
    /// The control group that grants the database least processor time: used time, periods in
    /// which it ran, periods in which it was throttled, and the throttled time.
    group_used_us,
    group_periods,
    group_throttled_periods,
    group_throttled_us,
    /// Requests and bytes of the control group with the least limit of I/O on the database's
    /// processes: they count towards it.
    group_read_requests,
    group_write_requests,
    group_read_bytes,
    group_write_bytes,
    /// The control group that grants petal least processor time, counted alike.
    petal_group_used_us,
    petal_group_periods,
    petal_group_throttled_periods,
    petal_group_throttled_us,
}

gauges! {
    /// Tasks running or ready to run, and those blocked in the kernel, mostly by I/O.
    running,
    blocked,
    /// Free memory, and memory available without swapping.
    free_bytes,
    available_bytes,
    /// Block devices' own pages; files' pages, with the reclaimable part of the kernel's memory.
    buffers_bytes,
    cached_bytes,
    /// Changed pages, and those of them that are being written.
    dirty_bytes,
    writeback_bytes,
    swap_used_bytes,
    server_processes,
}

/// A gauge over many moments.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Range {
    pub mean: f64,
    pub least: u64,
    pub most: u64,
    pub moments: u64,
}

impl Counts {
    /// Removes figures of petal's own process, for a record of another petal.
    pub fn without_petal(self) -> Self {
        Self {
            petal_cpu_us: None,
            petal_read_bytes: None,
            petal_write_bytes: None,
            petal_call_read_bytes: None,
            petal_group_used_us: None,
            petal_group_periods: None,
            petal_group_throttled_periods: None,
            petal_group_throttled_us: None,
            ..self
        }
    }
}

impl Range {
    fn add(range: &mut Option<Self>, value: u64) {
        let now = Self { mean: value as f64, least: value, most: value, moments: 1 };
        *range = Some(range.map_or(now, |known| {
            let moments = known.moments + 1;
            Self {
                mean: known.mean + (value as f64 - known.mean) / moments as f64,
                least: known.least.min(value),
                most: known.most.max(value),
                moments,
            }
        }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_restarted_counter_is_unknown() {
        let of = |interrupts| Counts { interrupts, ..Counts::default() };
        assert_eq!(of(Some(7)).since(&of(Some(3))).interrupts, Some(4));
        assert_eq!(of(Some(3)).since(&of(Some(7))).interrupts, None);
        assert_eq!(of(Some(3)).since(&of(None)).interrupts, None);
        assert_eq!(of(Some(3)).plus(&of(None)).interrupts, None);
    }

    proptest! {
        #[test]
        fn differences_of_a_growing_counter_add_up(steps in prop::collection::vec(0u64..1 << 40, 1..30)) {
            let mut total = 5;
            let mut samples = vec![Counts { interrupts: Some(total), ..Counts::default() }];
            for step in &steps {
                total += step;
                samples.push(Counts { interrupts: Some(total), ..Counts::default() });
            }
            let parts = samples.windows(2).map(|pair| pair[1].since(&pair[0]));
            let sum = parts.reduce(|sum, part| sum.plus(&part)).unwrap();
            prop_assert_eq!(sum.interrupts, samples[samples.len() - 1].since(&samples[0]).interrupts);
        }

        #[test]
        fn parts_are_a_whole(count in 0u64..1 << 50, share in 0.0f64..=1.0) {
            let whole = Counts { interrupts: Some(count), ..Counts::default() };
            let sum = whole.part(share).plus(&whole.part(1.0 - share)).interrupts.unwrap();
            prop_assert!(sum.abs_diff(count) <= 1);
        }

        #[test]
        fn a_range_is_that_of_its_moments(values in prop::collection::vec(0u64..1 << 40, 1..30)) {
            let mut ranges = GaugeRanges::default();
            for &value in &values {
                ranges.add(&Gauges { running: Some(value), ..Gauges::default() });
            }
            let range = ranges.running.unwrap();
            prop_assert_eq!(Some(&range.least), values.iter().min());
            prop_assert_eq!(Some(&range.most), values.iter().max());
            let mean = values.iter().sum::<u64>() as f64 / values.len() as f64;
            prop_assert!((range.mean - mean).abs() <= mean * 1e-9 + 1e-6);
            prop_assert_eq!(ranges.blocked, None);
        }
    }
}
