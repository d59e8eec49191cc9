//! The histogram of single waits of one event, as a record keeps it. A share of several hosts keeps
//! its buckets too, so that the merge of all is exact.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Deserializer, Serializer as _, V2DeflateSerializer};
use serde::{Deserialize, Serialize};

use petal_host::histogram::{Bar, LATENCY_NS_MAX, Latencies, LatencySummary, has_percentile};

/// Percentiles by their names, as shares of all waits.
const PERCENTILES: [(&str, f64); 5] =
    [("p50", 0.5), ("p90", 0.9), ("p95", 0.95), ("p99", 0.99), ("p99_9", 0.999)];

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WaitHistogram {
    pub latency_us: LatencySummary,
    pub bars: Vec<Bar>,
    /// The bounds of the bar that contains each percentile: more than the first, at most the
    /// second, in microseconds. Only if the database counts waits by powers of two, which gives no
    /// closer figure.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub percentile_bounds_us: BTreeMap<String, [u64; 2]>,
    /// The buckets, in the format of an interval log; only in the record of a share.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub buckets: Option<String>,
}

impl WaitHistogram {
    pub fn of(latencies: &Latencies) -> Self {
        Self {
            latency_us: latencies.summary(),
            bars: latencies.bars(),
            percentile_bounds_us: BTreeMap::new(),
            buckets: None,
        }
    }

    /// Keeps a database's counts by powers of two of microseconds; None if there are no waits.
    pub fn of_powers_of_two(counts: &BTreeMap<u64, u64>) -> Option<Self> {
        let bars: Vec<Bar> = counts
            .iter()
            .filter(|(_, count)| **count > 0)
            .map(|(&upper_us, &count)| Bar { upper_us, count })
            .collect();
        let count: u64 = bars.iter().map(|bar| bar.count).sum();
        let known = PERCENTILES.iter().filter(|(_, share)| has_percentile(count, share * 100.0));
        let bounds = known.filter_map(|(name, share)| {
            let rank = (count as f64 * share).ceil().max(1.0) as u64;
            let mut below = 0;
            let bar = bars.iter().find(|bar| {
                below += bar.count;
                below >= rank
            })?;
            Some(((*name).to_owned(), [bar.upper_us / 2, bar.upper_us]))
        });
        let percentile_bounds_us = bounds.collect();
        let latency_us = LatencySummary { count, ..LatencySummary::default() };
        (count > 0).then_some(Self { latency_us, bars, percentile_bounds_us, buckets: None })
    }

    /// Keeps the buckets as well, for a merge.
    pub fn with_buckets(latencies: &Latencies) -> Self {
        Self { buckets: encode(latencies.buckets()), ..Self::of(latencies) }
    }

    /// Adds up the histograms of several hosts. If one of them has no buckets, the percentiles of
    /// all are unknown: they cannot be computed from percentiles or bars.
    pub fn sum(each: &[&Self]) -> Option<Self> {
        let (first, others) = each.split_first()?;
        if others.is_empty() {
            return Some(Self { buckets: None, ..(*first).clone() });
        }
        let exact: Option<Vec<Latencies>> = each.iter().map(|one| one.latencies()).collect();
        if let Some(exact) = exact {
            let mut all = Latencies::new();
            exact.iter().for_each(|latencies| all.add(latencies));
            return Some(Self::of(&all));
        }
        let (buckets, percentile_bounds_us) = (None, BTreeMap::new());
        let mut sum = Self { buckets, percentile_bounds_us, ..(*first).clone() };
        for other in others {
            sum.latency_us = sum.latency_us.plus_without_percentiles(&other.latency_us);
            sum.bars.extend(other.bars.iter().cloned());
        }
        sum.bars.sort_by_key(|bar| bar.upper_us);
        sum.bars.dedup_by(|bar, kept| {
            let is_same = bar.upper_us == kept.upper_us;
            kept.count += if is_same { bar.count } else { 0 };
            is_same
        });
        Some(sum)
    }

    /// Removes the percentiles, which are then unknown. Count, mean and maximum stay.
    pub fn without_percentiles(self) -> Self {
        let nothing = LatencySummary::default();
        Self {
            latency_us: self.latency_us.plus_without_percentiles(&nothing),
            percentile_bounds_us: BTreeMap::new(),
            ..self
        }
    }

    fn latencies(&self) -> Option<Latencies> {
        let (total_ns, max_ns) = self.latency_us.exact_ns();
        let buckets = decode(self.buckets.as_ref()?)?;
        Some(Latencies::from_buckets(&buckets).with_exact(total_ns, max_ns))
    }
}

/// Buckets in the format of an interval log: compressed, in base64.
fn encode(buckets: &Histogram<u64>) -> Option<String> {
    let mut bytes = Vec::new();
    V2DeflateSerializer::new().serialize(buckets, &mut bytes).ok()?;
    Some(STANDARD.encode(bytes))
}

/// Reads such buckets. None if they are damaged, or have other bounds than petal's.
pub(super) fn decode(text: &str) -> Option<Histogram<u64>> {
    let bytes = STANDARD.decode(text).ok()?;
    let buckets: Histogram<u64> = Deserializer::new().deserialize(&mut bytes.as_slice()).ok()?;
    (buckets.high() == LATENCY_NS_MAX).then_some(buckets)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn latencies(values_us: impl Iterator<Item = u64>) -> Latencies {
        let mut latencies = Latencies::new();
        values_us.for_each(|us| latencies.record(us * 1000));
        latencies
    }

    #[test]
    fn hosts_with_buckets_have_the_percentiles_of_all_their_waits() {
        let (one, other) = (latencies(1..=9000), latencies(10_001..=11_000));
        let mut all = one.clone();
        all.add(&other);
        let [one, other] = [&one, &other].map(WaitHistogram::with_buckets);
        let text = serde_json::to_string(&other).unwrap();
        let read: WaitHistogram = serde_json::from_str(&text).unwrap();
        let sum = WaitHistogram::sum(&[&one, &read]).unwrap();
        assert_eq!(sum, WaitHistogram::of(&all));
        // The 99th percentile of all waits is neither a host's percentile nor a mean of the two.
        let p99 = [&one, &other, &sum].map(|of| of.latency_us.p99.unwrap() as u64);
        assert!(p99[0] < 9000 && p99[1] > 10_980 && (10_890..10_920).contains(&p99[2]), "{p99:?}");
    }

    #[test]
    fn hosts_without_buckets_have_bars_and_no_percentiles() {
        let (one, other) = (latencies(1..=900), latencies(500..=1500));
        let mut all = one.clone();
        all.add(&other);
        let mut damaged = WaitHistogram::with_buckets(&one);
        damaged.buckets = damaged.buckets.map(|text| text[..text.len() / 2].to_owned());
        for first in [WaitHistogram::of(&one), damaged] {
            let sum = WaitHistogram::sum(&[&first, &WaitHistogram::with_buckets(&other)]).unwrap();
            let latency = &sum.latency_us;
            assert_eq!((latency.count, latency.p50, latency.p99), (1901, None, None));
            assert_eq!((latency.max, &sum.bars), (Some(1500.0), &all.bars()));
        }
        let alone = WaitHistogram::sum(&[&WaitHistogram::with_buckets(&one)]).unwrap();
        assert_eq!(alone, WaitHistogram::of(&one));
    }

    #[test]
    fn a_percentile_of_powers_of_two_is_the_bounds_of_its_bucket() {
        // The 5,000th of 10,000 waits is the last of the second bucket, the 9,990th of the third.
        let counts =
            BTreeMap::from([(128, 1000), (256, 4000), (512, 4990), (1024, 0), (65536, 10)]);
        let histogram = WaitHistogram::of_powers_of_two(&counts).unwrap();
        let bounds = |name: &str| histogram.percentile_bounds_us[name];
        assert_eq!(["p50", "p90", "p99_9"].map(bounds), [[128, 256], [256, 512], [256, 512]]);
        assert_eq!((histogram.latency_us.count, histogram.latency_us.p50), (10_000, None));
        assert_eq!(histogram.bars.len(), 4);
        let one = WaitHistogram::of_powers_of_two(&BTreeMap::from([(4096, 1)])).unwrap();
        assert!(one.percentile_bounds_us.is_empty(), "a single wait has no percentile");
        let even = WaitHistogram::of_powers_of_two(&BTreeMap::from([(4096, 1000)])).unwrap();
        assert_eq!(even.percentile_bounds_us.len(), 4, "no p99.9");
        assert!(even.percentile_bounds_us.values().all(|bounds| *bounds == [2048, 4096]));
        assert_eq!(WaitHistogram::of_powers_of_two(&BTreeMap::from([(128, 0)])), None);
    }
}
