//! The one kind of histogram petal keeps: HDR, three significant digits, nanoseconds inside.
//!
//! Bounds: 1 ns to one hour. A value past the upper bound is recorded at the bound and counted in
//! [`Latencies::saturated`], never dropped. Reports divide by 1000 at the very end, so that a
//! page-cache read of 1.1 us is not rounded to 1.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// Upper bound of every histogram: one hour, in nanoseconds.
pub const LATENCY_NS_MAX: u64 = 3_600_000_000_000;
const SIGNIFICANT_DIGITS: u8 = 3;

/// Values that must lie beyond a percentile. With fewer, the next run's percentile may be any of
/// the slowest values.
pub const BEYOND_PERCENTILE_MIN: f64 = 10.0;

/// Returns true if so many of `count` values lie beyond a percentile (0..=100) that it is a
/// figure: 20 values for p50, 1,000 for p99, 10,000 for p99.9.
pub fn has_percentile(count: u64, percentile: f64) -> bool {
    count as f64 * (100.0 - percentile) / 100.0 >= BEYOND_PERCENTILE_MIN - 1e-6
}

/// A latency histogram with its exact total: the mean is time over count, not a mean of buckets.
#[derive(Debug, Clone, PartialEq)]
pub struct Latencies {
    buckets: Histogram<u64>,
    total_ns: u64,
    max_ns: u64,
    saturated: u64,
}

impl Default for Latencies {
    fn default() -> Self {
        Self::new()
    }
}

impl Latencies {
    pub fn new() -> Self {
        let buckets = Histogram::new_with_bounds(1, LATENCY_NS_MAX, SIGNIFICANT_DIGITS)
            .unwrap_or_else(|_| unreachable!("the bounds are constants that hdrhistogram accepts"));
        Self { buckets, total_ns: 0, max_ns: 0, saturated: 0 }
    }

    /// Records one latency in nanoseconds.
    pub fn record(&mut self, latency_ns: u64) {
        self.record_many(latency_ns, 1);
    }

    /// Records the same latency `count` times.
    pub fn record_many(&mut self, latency_ns: u64, count: u64) {
        if latency_ns > LATENCY_NS_MAX {
            self.saturated += count;
        }
        self.buckets.saturating_record_n(latency_ns.max(1), count);
        self.total_ns = self.total_ns.saturating_add(latency_ns.saturating_mul(count));
        self.max_ns = self.max_ns.max(latency_ns);
    }

    /// Adds everything that `other` holds.
    pub fn add(&mut self, other: &Self) {
        // Same bounds and digits by construction, so the addition cannot fail.
        let added = self.buckets.add(&other.buckets);
        debug_assert!(added.is_ok());
        self.total_ns = self.total_ns.saturating_add(other.total_ns);
        self.max_ns = self.max_ns.max(other.max_ns);
        self.saturated += other.saturated;
    }

    /// Returns the values recorded since `earlier`, an older state of this same histogram. `None`
    /// if a bucket fell, so that `earlier` is no older state.
    pub fn since(&self, earlier: &Self) -> Option<Self> {
        let mut difference = self.clone();
        difference.buckets.subtract(&earlier.buckets).ok()?;
        difference.total_ns = super::delta(earlier.total_ns, self.total_ns)?;
        difference.saturated = super::delta(earlier.saturated, self.saturated)?;
        // The exact maximum of an interval is not known from two totals: the bucket's is.
        if earlier.count() > 0 {
            difference.max_ns = difference.buckets.max().min(self.max_ns);
        }
        Some(difference)
    }

    pub fn clear(&mut self) {
        self.buckets.reset();
        self.total_ns = 0;
        self.max_ns = 0;
        self.saturated = 0;
    }

    pub fn count(&self) -> u64 {
        self.buckets.len()
    }

    /// Values of at most this many microseconds.
    pub fn count_within_us(&self, us: f64) -> u64 {
        self.buckets.count_between(0, (us * 1000.0) as u64)
    }

    pub fn total_ns(&self) -> u64 {
        self.total_ns
    }

    pub fn saturated(&self) -> u64 {
        self.saturated
    }

    /// Latency at `percentile` (0..=100), in microseconds; None if fewer than ten values lie
    /// beyond it.
    pub fn percentile_us(&self, percentile: f64) -> Option<f64> {
        let ns = || self.buckets.value_at_quantile(percentile / 100.0).min(self.max_ns);
        has_percentile(self.count(), percentile).then(|| micros(ns()))
    }

    /// Time over count, in microseconds.
    pub fn mean_us(&self) -> Option<f64> {
        (self.count() > 0).then(|| micros(self.total_ns) / self.count() as f64)
    }

    pub fn max_us(&self) -> Option<f64> {
        (self.count() > 0).then(|| micros(self.max_ns))
    }

    pub fn summary(&self) -> LatencySummary {
        LatencySummary {
            count: self.count(),
            mean: self.mean_us(),
            p50: self.percentile_us(50.0),
            p90: self.percentile_us(90.0),
            p95: self.percentile_us(95.0),
            p99: self.percentile_us(99.0),
            p99_9: self.percentile_us(99.9),
            max: self.max_us(),
        }
    }

    /// Counts in power-of-two microsecond bars: (upper bound in us, count), for a text histogram.
    pub fn bars(&self) -> Vec<Bar> {
        let mut bars: Vec<Bar> = Vec::new();
        for value in self.buckets.iter_recorded() {
            let us = value.value_iterated_to().div_ceil(1000).max(1);
            let upper_us = us.next_power_of_two();
            match bars.last_mut() {
                Some(bar) if bar.upper_us == upper_us => bar.count += value.count_at_value(),
                _ => bars.push(Bar { upper_us, count: value.count_at_value() }),
            }
        }
        bars
    }

    /// The buckets, for the interval log.
    pub fn buckets(&self) -> &Histogram<u64> {
        &self.buckets
    }

    /// Sets a total and a maximum that were kept exactly, apart from the buckets.
    pub fn with_exact(mut self, total_ns: u64, max_ns: u64) -> Self {
        (self.total_ns, self.max_ns) = (total_ns, max_ns);
        self
    }

    /// Rebuilds from an interval log's buckets. The exact total is not in the log, so the mean is
    /// computed from the buckets (three digits).
    pub fn from_buckets(logged: &Histogram<u64>) -> Self {
        let mut rebuilt = Self::new();
        for value in logged.iter_recorded() {
            let ns = value.value_iterated_to().min(LATENCY_NS_MAX);
            rebuilt.buckets.saturating_record_n(ns, value.count_at_value());
            rebuilt.total_ns =
                rebuilt.total_ns.saturating_add(ns.saturating_mul(value.count_at_value()));
            rebuilt.max_ns = rebuilt.max_ns.max(ns);
        }
        rebuilt
    }
}

/// Nanoseconds as microseconds, unrounded.
pub fn micros(ns: u64) -> f64 {
    ns as f64 / 1000.0
}

/// The figures of one histogram, in microseconds. Null if nothing was recorded; a percentile also
/// if fewer than ten values lie beyond it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct LatencySummary {
    pub count: u64,
    pub mean: Option<f64>,
    pub p50: Option<f64>,
    pub p90: Option<f64>,
    pub p95: Option<f64>,
    pub p99: Option<f64>,
    pub p99_9: Option<f64>,
    pub max: Option<f64>,
}

impl LatencySummary {
    /// Count, mean and maximum of both; percentiles cannot be had from percentiles.
    pub fn plus_without_percentiles(&self, other: &Self) -> Self {
        let total = |of: &Self| of.mean.unwrap_or(0.0) * of.count as f64;
        let count = self.count.saturating_add(other.count);
        Self {
            count,
            mean: (count > 0).then(|| (total(self) + total(other)) / count as f64),
            max: [self.max, other.max].into_iter().flatten().reduce(f64::max),
            ..Self::default()
        }
    }

    /// Returns true if it has values, but too few for one of its percentiles.
    pub fn lacks_percentile(&self) -> bool {
        self.count > 0 && !has_percentile(self.count, 99.9)
    }

    /// The exact total and maximum in nanoseconds, which it was made of.
    pub fn exact_ns(&self) -> (u64, u64) {
        let ns = |us: f64| (us * 1000.0).round() as u64;
        (ns(self.mean.unwrap_or(0.0) * self.count as f64), ns(self.max.unwrap_or(0.0)))
    }
}

/// A bar of a text histogram: operations in (`upper_us` / 2, `upper_us`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Bar {
    pub upper_us: u64,
    pub count: u64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn filled(values: &[u64]) -> Latencies {
        let mut latencies = Latencies::new();
        values.iter().for_each(|&ns| latencies.record(ns));
        latencies
    }

    proptest! {
        #[test]
        fn merged_parts_equal_the_whole(
            a in prop::collection::vec(1u64..10_000_000_000, 0..200),
            b in prop::collection::vec(1u64..10_000_000_000, 0..200),
        ) {
            let mut merged = filled(&a);
            merged.add(&filled(&b));
            let whole = filled(&[a, b].concat());
            prop_assert_eq!(merged.summary(), whole.summary());
            prop_assert_eq!(merged.total_ns(), whole.total_ns());
        }

        #[test]
        fn percentiles_are_ordered_and_close(values in prop::collection::vec(1u64..1_000_000_000, 1..300)) {
            let s = filled(&values.repeat(100)).summary();
            let known = [s.p50, s.p90, s.p95, s.p99, s.p99_9, s.max].into_iter().flatten();
            prop_assert!(known.is_sorted());
            let mut sorted = values.clone();
            sorted.sort_unstable();
            let exact = micros(sorted[(values.len() - 1) / 2]);
            let p50 = s.p50.unwrap();
            prop_assert!((p50 - exact).abs() <= exact * 0.001 + 0.001, "p50 {} exact {}", p50, exact);
        }

        #[test]
        fn since_undoes_add(
            a in prop::collection::vec(1u64..1_000_000, 0..100),
            b in prop::collection::vec(1u64..1_000_000, 0..100),
        ) {
            let before = filled(&a);
            let mut after = before.clone();
            after.add(&filled(&b));
            let interval = after.since(&before).unwrap();
            prop_assert_eq!(interval.count(), b.len() as u64);
            prop_assert_eq!(interval.total_ns(), b.iter().sum::<u64>());
        }

        #[test]
        fn bars_hold_every_count(values in prop::collection::vec(1u64..1_000_000_000, 0..200)) {
            let latencies = filled(&values);
            prop_assert_eq!(latencies.bars().iter().map(|b| b.count).sum::<u64>(), values.len() as u64);
        }
    }

    #[test]
    fn a_value_past_the_bound_is_counted() {
        let latencies = filled(&[LATENCY_NS_MAX + 1]);
        assert_eq!((latencies.count(), latencies.saturated()), (1, 1));
    }

    #[test]
    fn a_percentile_with_fewer_than_ten_values_beyond_it_is_unknown() {
        let known = |count: u64| {
            let s = filled(&vec![1000; count as usize]).summary();
            [s.p50, s.p90, s.p95, s.p99, s.p99_9].map(|figure| figure.is_some())
        };
        assert_eq!(known(19), [false; 5]);
        assert_eq!(known(20), [true, false, false, false, false]);
        assert_eq!(known(999), [true, true, true, false, false]);
        assert_eq!(known(1000), [true, true, true, true, false]);
        assert_eq!(known(9999), [true, true, true, true, false]);
        assert_eq!(known(10_000), [true; 5]);
    }

    #[test]
    fn nothing_recorded_is_null_not_zero() {
        assert_eq!(Latencies::new().summary().p99, None);
        assert_eq!(Latencies::new().mean_us(), None);
    }
}
