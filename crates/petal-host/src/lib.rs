//! Counts of this host's kernel, and the devices behind files: /proc, /sys, control groups, processors, histograms
//! of times. [`files`] opens all files of petal. [`numbers`] formats figures for every message and report. Nothing
//! here knows an engine, a run or a report.

#![cfg_attr(test, allow(clippy::disallowed_methods))]

/// Gives a struct of counts `with`, both counts of each field as one, and `plus`, their sum. Other
/// fields stay as they are here.
#[macro_export]
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

/// Limit that no counter of a server reaches: an exbibyte, or 36 years in nanoseconds. A larger value
/// is no count, and is unknown.
pub const COUNT_MAX: u64 = 1 << 60;

/// The rise of a cumulative counter. `None` if it fell: it began again, and the count in between
/// is unknown.
pub fn delta(then: u64, now: u64) -> Option<u64> {
    now.checked_sub(then)
}

/// Counts less their earlier values, as `with` combines both. `None` if one of them fell.
pub fn deltas<T>(with: impl FnOnce(&dyn Fn(u64, u64) -> u64) -> T) -> Option<T> {
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
pub mod devices;
pub mod drive_health;
pub mod facts;
pub mod files;
pub mod histogram;
pub mod host;
pub mod numbers;
pub mod os;
mod tree;
