//! Is the rate steady? The rule of the SNIA Solid State Storage Performance Test Specification
//! (PTS): over five equal windows, the range of their means is within 20 % of the mean, and the
//! excursion of the line fitted through them within 10 %. Pure functions of rates over time.
//!
//! The rate is petal's own operations per second: known for every engine and every second, and
//! meaningful for cached tests too, where PIOPS is noise around zero.

use crate::record::Second;

pub const WINDOWS: usize = 5;
/// A window shorter than this proves nothing.
pub const WINDOW_S_MIN: f64 = 60.0;
const RANGE_SHARE_MAX: f64 = 0.20;
const SLOPE_SHARE_MAX: f64 = 0.10;
/// Below this median, a second of half the rate is chance and not a stall.
const STALL_MEDIAN_OPS_MIN: f64 = 20.0;
/// A shorter interval at the end of a run is no second to judge.
const SECOND_S_MIN: f64 = 0.5;

/// What the rule says of a timeline.
#[derive(Debug, Clone, PartialEq)]
pub enum Steadiness {
    TooShort {
        seconds: f64,
    },
    Steady(Windows),
    /// The rate moved more than the rule allows.
    Unstable(Windows),
}

/// The five windows and what the rule looks at, as shares of their mean.
#[derive(Debug, Clone, PartialEq)]
pub struct Windows {
    pub ops_per_second: [f64; WINDOWS],
    /// Largest minus smallest.
    pub range_share: f64,
    /// Rise (or fall) of the fitted line from the first window to the last.
    pub slope_share: f64,
}

/// Applies the rule to the seconds from `from_s` to `to_s`.
pub fn steadiness(timeline: &[Second], from_s: f64, to_s: f64) -> Steadiness {
    let seconds = to_s - from_s;
    // Clocks end a run a little before or after its planned time.
    if seconds.is_nan() || seconds + 0.5 < WINDOW_S_MIN * WINDOWS as f64 {
        return Steadiness::TooShort { seconds };
    }
    let windows = windows(timeline, from_s, to_s);
    if windows.range_share <= RANGE_SHARE_MAX && windows.slope_share.abs() <= SLOPE_SHARE_MAX {
        Steadiness::Steady(windows)
    } else {
        Steadiness::Unstable(windows)
    }
}

fn windows(timeline: &[Second], from_s: f64, to_s: f64) -> Windows {
    let mut ops = [0_u64; WINDOWS];
    let mut time_s = [0.0; WINDOWS];
    for second in timeline {
        let middle_s = second.from_s + second.length_s / 2.0;
        let position = (middle_s - from_s) / (to_s - from_s) * WINDOWS as f64;
        if (0.0..WINDOWS as f64).contains(&position) {
            ops[position as usize] += second.ops.total;
            time_s[position as usize] += second.length_s;
        }
    }
    let mut rates = [0.0; WINDOWS];
    for ((rate, ops), time_s) in rates.iter_mut().zip(ops).zip(time_s) {
        *rate = if time_s > 0.0 { ops as f64 / time_s } else { 0.0 };
    }
    let mean = rates.iter().sum::<f64>() / WINDOWS as f64;
    let largest = rates.iter().copied().fold(f64::MIN, f64::max);
    let smallest = rates.iter().copied().fold(f64::MAX, f64::min);
    let share = |value: f64| if mean > 0.0 { value / mean } else { 0.0 };
    Windows {
        ops_per_second: rates,
        range_share: share(largest - smallest),
        slope_share: share(slope(&rates) * (WINDOWS - 1) as f64),
    }
}

/// Least squares over positions 0, 1, 2...
fn slope(values: &[f64]) -> f64 {
    let count = values.len() as f64;
    let middle = (count - 1.0) / 2.0;
    let mean = values.iter().sum::<f64>() / count;
    let (mut up, mut down) = (0.0, 0.0);
    for (position, value) in values.iter().enumerate() {
        let offset = position as f64 - middle;
        up += offset * (value - mean);
        down += offset * offset;
    }
    if down > 0.0 { up / down } else { 0.0 }
}

/// The seconds whose rate was under half the median, in order.
pub fn stalls<'a>(seconds: &[&'a Second]) -> Vec<&'a Second> {
    let judged: Vec<&Second> =
        seconds.iter().copied().filter(|second| second.length_s >= SECOND_S_MIN).collect();
    match median(judged.iter().map(|second| rate(second))) {
        Some(median) if median >= STALL_MEDIAN_OPS_MIN => {
            judged.into_iter().filter(|second| rate(second) < median / 2.0).collect()
        }
        _ => Vec::new(),
    }
}

/// Operations per second of one second; 0 in no time at all.
pub fn rate(second: &Second) -> f64 {
    if second.length_s > 0.0 { second.ops.total as f64 / second.length_s } else { 0.0 }
}

/// The lower median; None of nothing.
pub fn median(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let mut sorted: Vec<f64> = values.into_iter().collect();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len().checked_sub(1)? / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Ops;
    use proptest::prelude::*;
    use rand::SeedableRng as _;
    use rand_xoshiro::Xoshiro256PlusPlus;

    /// A run whose rate at each moment is `shape(share of the run)`, with noise.
    fn simulated(seed: u64, seconds: u32, noise: f64, shape: impl Fn(f64) -> f64) -> Vec<Second> {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        (0..seconds)
            .map(|index| {
                let factor = 1.0 + noise * (random.random::<f64>() * 2.0 - 1.0);
                let total = (shape(f64::from(index) / f64::from(seconds)) * factor) as u64;
                Second {
                    from_s: f64::from(index),
                    length_s: 1.0,
                    ops: Ops { total, ..Ops::default() },
                    ..Second::default()
                }
            })
            .collect()
    }

    fn judged(timeline: &[Second]) -> Steadiness {
        steadiness(timeline, 0.0, timeline.len() as f64)
    }

    proptest! {
        #[test]
        fn flat_and_noisy_is_steady(seed: u64, rate in 100.0f64..1e6, noise in 0.0f64..0.2) {
            let timeline = simulated(seed, 300, noise, |_| rate);
            prop_assert!(matches!(judged(&timeline), Steadiness::Steady(_)));
        }

        #[test]
        fn drift_is_not(seed: u64, rate in 1000.0f64..1e6, drift in 0.25f64..0.9) {
            for sign in [1.0, -1.0] {
                let timeline = simulated(seed, 400, 0.1, |at| rate * (1.0 + sign * drift * at));
                prop_assert!(matches!(judged(&timeline), Steadiness::Unstable(_)));
            }
        }

        #[test]
        fn a_cliff_is_not(seed: u64, at in 0.2f64..0.8, left in 0.0f64..0.7) {
            let shape = |now: f64| if now < at { 10_000.0 } else { 10_000.0 * left };
            let timeline = simulated(seed, 300, 0.1, shape);
            prop_assert!(matches!(judged(&timeline), Steadiness::Unstable(_)));
        }

        #[test]
        fn a_short_run_is_never_called_unstable(
            seed: u64,
            seconds in 0u32..299,
            noise in 0.0f64..1.0,
        ) {
            let timeline = simulated(seed, seconds, noise, |at| 1000.0 * at);
            let verdict = judged(&timeline);
            prop_assert!(matches!(verdict, Steadiness::TooShort { .. }), "{:?}", verdict);
        }

        #[test]
        fn the_verdict_does_not_depend_on_the_unit(seed: u64, noise in 0.0f64..0.9) {
            let shape = |at: f64| 1000.0 * (1.0 + 0.15 * at);
            let small = judged(&simulated(seed, 300, noise, shape));
            let mut timeline = simulated(seed, 300, noise, shape);
            timeline.iter_mut().for_each(|second| second.ops.total *= 1024);
            let large = judged(&timeline);
            prop_assert_eq!(
                std::mem::discriminant(&small),
                std::mem::discriminant(&large)
            );
        }
    }

    #[test]
    fn a_line_of_known_slope() {
        let timeline = simulated(0, 300, 0.0, |at| 1000.0 * (0.95 + 0.1 * at));
        let Steadiness::Steady(windows) = judged(&timeline) else {
            panic!("8 % from first to last window is allowed");
        };
        assert!((windows.slope_share - 0.08).abs() < 0.002, "{windows:?}");
        assert!((windows.range_share - 0.08).abs() < 0.002, "{windows:?}");
    }

    #[test]
    fn stalls_are_listed_and_a_slow_workload_has_none() {
        let mut timeline = simulated(7, 60, 0.1, |_| 1000.0);
        timeline[20].ops.total = 499 / 2;
        timeline[41].ops.total = 0;
        let all: Vec<&Second> = timeline.iter().collect();
        let at: Vec<f64> = stalls(&all).iter().map(|second| second.from_s).collect();
        assert_eq!(at, [20.0, 41.0]);
        let scans = simulated(7, 60, 1.0, |_| 3.0);
        assert!(stalls(&scans.iter().collect::<Vec<_>>()).is_empty());
        assert_eq!(median([]), None);
    }
}
