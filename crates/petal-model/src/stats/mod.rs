//! Counts and times: histograms, cumulative counters and waits, per-second rows, and figures of
//! the operating system. Nothing here knows an engine, a run or a report.

/// Gives a struct of counts `with`, both counts of each field as one, and `plus`, their sum. Other
/// fields stay as they are here.
macro_rules! field_by_field {
    ($type:ident: $($field:ident),+ $(,)?) => {
        impl $type {
            pub(crate) fn with(mut self, other: &Self, combine: impl Fn(u64, u64) -> u64) -> Self {
                $(self.$field = combine(self.$field, other.$field);)+
                self
            }

            pub fn plus(&self, other: &Self) -> Self {
                self.clone().with(other, u64::saturating_add)
            }
        }
    };
}
pub(crate) use field_by_field;

/// Limit that no counter of a server reaches: an exbibyte, or 36 years in nanoseconds. A larger value
/// is no count, and is unknown.
pub const COUNT_MAX: u64 = 1 << 60;

/// The rise of a cumulative counter. `None` if it fell: it began again, and the count in between
/// is unknown.
pub fn delta(then: u64, now: u64) -> Option<u64> {
    now.checked_sub(then)
}

/// Counts less their earlier values, as `with` combines both. `None` if one of them fell.
pub(crate) fn deltas<T>(with: impl FnOnce(&dyn Fn(u64, u64) -> u64) -> T) -> Option<T> {
    let has_fallen = std::cell::Cell::new(false);
    let difference = with(&|now, then| {
        delta(then, now).unwrap_or_else(|| {
            has_fallen.set(true);
            0
        })
    });
    (!has_fallen.get()).then_some(difference)
}

pub mod blocked;
pub mod cgroup;
pub mod clock;
pub mod compression;
pub mod counters;
pub mod database_interval;
pub mod devices;
pub mod drive_health;
pub mod event_stats;
pub mod facts;
pub mod histogram;
pub mod host;
pub mod os;
pub mod server_work;
pub mod target;
pub mod timeline;
mod tree;
