//! Times as histograms with buckets of equal relative width. The kernel counts them.

use std::collections::BTreeMap;
use std::fmt::Debug;

use serde::{Deserialize, Serialize};

use crate::histogram::{LatencySummary, has_percentile, micros};

/// Buckets per power of two: a bucket is at most 1/32 of its value wide, so that its middle is off
/// by 1.6 % at most.
const STEPS: u64 = 32;
/// Number of buckets of a histogram. The last one also holds all longer times: over 68 s.
pub const BUCKETS: usize = 1024;

/// Reads the kernel's histograms.
pub trait TimeSource<T>: Debug + Send + Sync {
    /// Cumulative counts; `None` if they cannot be read now.
    fn sample(&self) -> Option<T>;
}

/// Times of the events of one group, such as the reads of a device.
pub trait GroupTimes: Clone {
    fn is_like(&self, other: &Self) -> bool;

    /// The histograms of its times, the one with all events first.
    fn histograms(&mut self) -> Vec<&mut TimeBuckets>;

    /// Adds times of the same group.
    fn plus(&self, other: &Self) -> Self {
        let (mut sum, mut other) = (self.clone(), other.clone());
        for (ours, theirs) in sum.histograms().into_iter().zip(other.histograms()) {
            *ours = ours.plus(theirs);
        }
        sum
    }
}

/// Events of all groups: cumulative, or over an interval.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TimedEvents<T> {
    /// Times by group; groups without an event are left out.
    pub times: Vec<T>,
    /// Events without a time: their end was missed, or too many were in flight.
    #[serde(default)]
    pub lost: u64,
}

impl<T> Default for TimedEvents<T> {
    fn default() -> Self {
        Self { times: Vec::new(), lost: 0 }
    }
}

impl<T: GroupTimes> TimedEvents<T> {
    /// None if the counts began again in between.
    pub fn since(&self, earlier: &Self) -> Option<Self> {
        let mut times = Vec::new();
        for now in &self.times {
            let mut since = now.clone();
            if let Some(then) = earlier.times.iter().find(|then| then.is_like(now)) {
                let mut then = then.clone();
                for (ours, before) in since.histograms().into_iter().zip(then.histograms()) {
                    *ours = ours.since(before)?;
                }
            }
            if since.histograms().first().is_some_and(|all| all.count() > 0) {
                times.push(since);
            }
        }
        Some(Self { times, lost: crate::delta(earlier.lost, self.lost)? })
    }

    pub fn plus(&self, other: &Self) -> Self {
        let mut sum = self.clone();
        sum.lost = sum.lost.saturating_add(other.lost);
        for theirs in &other.times {
            match sum.times.iter_mut().find(|ours| ours.is_like(theirs)) {
                Some(ours) => *ours = ours.plus(theirs),
                None => sum.times.push(theirs.clone()),
            }
        }
        sum
    }

    /// Returns a share of it, from 0 to 1.
    pub fn part(&self, share: f64) -> Self {
        let mut part = self.clone();
        for times in &mut part.times {
            for histogram in times.histograms() {
                *histogram = histogram.part(share);
            }
        }
        Self { lost: super::disk::part(self.lost, share), ..part }
    }
}

/// A histogram in nanoseconds.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct TimeBuckets {
    /// Exact sum of the times.
    pub total_ns: u64,
    /// Middle of each bucket that is not empty, ascending, and its count. In files: the number of the
    /// first bucket, then the count of each one from there on; -n means n empty ones.
    #[serde(with = "counts_text")]
    pub buckets: Vec<(u64, u64)>,
}

impl TimeBuckets {
    /// Makes one from the kernel's counts by bucket.
    pub fn of_counts(total_ns: u64, counts: &[u64]) -> Self {
        let known = counts.iter().enumerate().filter(|(_, count)| **count > 0);
        Self { total_ns, buckets: known.map(|(at, count)| (middle_ns(at), *count)).collect() }
    }

    pub fn count(&self) -> u64 {
        self.buckets.iter().map(|(_, count)| count).sum()
    }

    /// None if fewer than ten events took longer.
    pub fn percentile_us(&self, percentile: f64) -> Option<f64> {
        has_percentile(self.count(), percentile).then(|| self.value_us(percentile))?
    }

    /// None if nothing was counted.
    fn value_us(&self, percentile: f64) -> Option<f64> {
        let rank = ((self.count() as f64 * percentile / 100.0).ceil() as u64).max(1);
        let mut below = 0;
        let at = self.buckets.iter().find(|(_, count)| {
            below += count;
            below >= rank
        });
        at.map(|(ns, _)| micros(*ns))
    }

    pub fn summary(&self) -> LatencySummary {
        let count = self.count();
        LatencySummary {
            count,
            mean: (count > 0).then(|| micros(self.total_ns) / count as f64),
            p50: self.percentile_us(50.0),
            p90: self.percentile_us(90.0),
            p95: self.percentile_us(95.0),
            p99: self.percentile_us(99.0),
            p99_9: self.percentile_us(99.9),
            max: self.value_us(100.0),
        }
    }

    pub fn plus(&self, other: &Self) -> Self {
        let (mut ours, mut theirs) = (self.buckets.as_slice(), other.buckets.as_slice());
        let mut buckets = Vec::with_capacity(ours.len().max(theirs.len()));
        // Both ascend.
        while let (Some(&(ns, count)), Some(&(other_ns, other_count))) =
            (ours.first(), theirs.first())
        {
            let is_ours = ns <= other_ns;
            let is_theirs = other_ns <= ns;
            let sum = if is_ours { count } else { 0 } + if is_theirs { other_count } else { 0 };
            buckets.push((ns.min(other_ns), sum));
            ours = &ours[usize::from(is_ours)..];
            theirs = &theirs[usize::from(is_theirs)..];
        }
        buckets.extend_from_slice(ours);
        buckets.extend_from_slice(theirs);
        buckets.shrink_to_fit();
        Self { total_ns: self.total_ns.saturating_add(other.total_ns), buckets }
    }

    /// None if a bucket fell.
    fn since(&self, earlier: &Self) -> Option<Self> {
        let mut left: BTreeMap<u64, u64> = self.buckets.iter().copied().collect();
        for (ns, count) in &earlier.buckets {
            let now = left.get_mut(ns)?;
            *now = now.checked_sub(*count)?;
        }
        left.retain(|_, count| *count > 0);
        let total_ns = self.total_ns.checked_sub(earlier.total_ns)?;
        Some(Self { total_ns, buckets: left.into_iter().collect() })
    }

    fn part(&self, share: f64) -> Self {
        let part = |count: u64| super::disk::part(count, share);
        let parts = self.buckets.iter().map(|(ns, count)| (*ns, part(*count)));
        let buckets = parts.filter(|(_, count)| *count > 0).collect();
        Self { total_ns: part(self.total_ns), buckets }
    }
}

/// Buckets as a text, which is a tenth of their numbers as JSON.
mod counts_text {
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    use super::{BUCKETS, bucket_of, middle_ns};

    pub fn serialize<S: Serializer>(buckets: &[(u64, u64)], to: S) -> Result<S::Ok, S::Error> {
        let Some((first, _)) = buckets.first() else { return to.serialize_str("") };
        let mut next = bucket_of(*first);
        let mut words = vec![next.to_string()];
        for (ns, count) in buckets {
            let bucket = bucket_of(*ns);
            let empty = bucket.saturating_sub(next);
            words.extend((empty > 0).then(|| format!("-{empty}")));
            words.push(count.to_string());
            next = bucket + 1;
        }
        to.serialize_str(&words.join(" "))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<(u64, u64)>, D::Error> {
        let text = String::deserialize(from)?;
        let mut words = text.split_ascii_whitespace();
        let wrong = |word: &str| D::Error::custom(format!("{word:?} in a histogram's counts"));
        let Some(first) = words.next() else { return Ok(Vec::new()) };
        let mut next: usize = first.parse().map_err(|_| wrong(first))?;
        let mut buckets = Vec::new();
        for word in words {
            match word.strip_prefix('-') {
                Some(empty) => {
                    let empty: usize = empty.parse().map_err(|_| wrong(word))?;
                    next = next.saturating_add(empty);
                }
                None => {
                    let count = word.parse().map_err(|_| wrong(word))?;
                    if next >= BUCKETS {
                        return Err(wrong(word));
                    }
                    buckets.push((middle_ns(next), count));
                    next += 1;
                }
            }
        }
        // A day has some thousand of them.
        buckets.shrink_to_fit();
        Ok(buckets)
    }
}

/// Number of the bucket that holds a time.
fn bucket_of(ns: u64) -> usize {
    if ns < 2 * STEPS {
        return ns as usize;
    }
    let shift = u64::from(ns.ilog2()) - 5;
    ((shift * STEPS + (ns >> shift)) as usize).min(BUCKETS - 1)
}

/// Middle of the bucket with this number: the kernel's program numbers them in the same way.
fn middle_ns(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    match (bucket / STEPS).saturating_sub(1) {
        0 => bucket,
        shift => ((bucket % STEPS + STEPS) << shift) + (1 << shift) / 2,
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use proptest::prelude::*;

    pub fn counted(times_ns: &[u64]) -> TimeBuckets {
        let mut counts = vec![0; BUCKETS];
        times_ns.iter().for_each(|ns| counts[bucket_of(*ns)] += 1);
        TimeBuckets::of_counts(times_ns.iter().sum(), &counts)
    }

    #[test]
    fn counts_in_a_file_are_short_and_wrong_ones_are_refused() {
        let few = counted(&[0, 1, 1, 100, 100, 70_000_000_000_000]);
        let text = serde_json::to_string(&few).unwrap();
        assert_eq!(text, r#"{"total_ns":70000000000202,"buckets":"0 1 2 -80 2 -940 1"}"#);
        for wrong in
            ["x", "0 x", "0 -x", "1024 1", "0 -1023 1 1", "-1 1", "0 -18446744073709551615 -9 1"]
        {
            let text = format!(r#"{{"total_ns":1,"buckets":"{wrong}"}}"#);
            let read: Result<TimeBuckets, _> = serde_json::from_str(&text);
            assert!(read.is_err(), "{wrong}: {read:?}");
        }
    }

    proptest! {
        #[test]
        fn a_sum_has_all_times_of_both(
            first in prop::collection::vec(0u64..1_000_000, 0..50),
            second in prop::collection::vec(0u64..1_000_000, 0..50),
        ) {
            let both = [first.clone(), second.clone()].concat();
            prop_assert_eq!(counted(&first).plus(&counted(&second)), counted(&both));
        }
    }

    proptest! {
        #[test]
        fn counts_are_read_back(times in prop::collection::vec(0u64..100_000_000_000, 0..300)) {
            let all = counted(&times);
            let text = serde_json::to_string(&all).unwrap();
            prop_assert_eq!(serde_json::from_str::<TimeBuckets>(&text).unwrap(), all);
        }

        #[test]
        fn a_percentile_is_within_three_percent(
            mut times in prop::collection::vec(1u64..60_000_000_000, 1..30),
        ) {
            times = times.repeat(1000);
            let summary = counted(&times).summary();
            times.sort_unstable();
            for (percentile, shown) in [(0.5, summary.p50), (0.99, summary.p99), (1.0, summary.max)] {
                let exact = times[((times.len() as f64 * percentile).ceil() as usize).max(1) - 1];
                let off = (shown.unwrap() * 1000.0 - exact as f64).abs() / exact as f64;
                prop_assert!(off <= 0.016, "{shown:?} for {exact} ns");
            }
            let mean = times.iter().sum::<u64>() as f64 / times.len() as f64 / 1000.0;
            prop_assert!((summary.mean.unwrap() - mean).abs() <= mean * 1e-9);
        }
    }
}
