//! Judges whether the rate is steady. The rule of the SNIA Solid State Storage Performance Test
//! Specification (PTS): over five equal windows, the range of their means is within 20 % of the
//! mean, and the excursion of the line fitted through them within 10 %. Pure functions of rates
//! over time.
//!
//! The rate is petal's own operations per second: known for every engine and every second, and
//! meaningful for cached tests too, for which PIOPS is noise around zero.
//!
//! [`fall`] finds when and how far a rate fell and the other changes, [`proof`] when a run that
//! goes on may end because it is steady, [`judge`](mod@judge) makes findings of it.

pub mod fall;
pub(super) mod judge;
pub mod proof;
mod sums;

pub use judge::{fall_of, fall_words, stall_window, window};

use crate::change_points;
use crate::estimate::mean;
use petal_record::figures::lower_median;
use petal_record::{OneSecond, Second, each_second};
use sums::Sums;

pub const WINDOWS: usize = 5;
/// A window shorter than this proves nothing.
pub const WINDOW_S_MIN: f64 = 60.0;
const RANGE_SHARE_MAX: f64 = 0.20;
const SLOPE_SHARE_MAX: f64 = 0.10;
/// Lowest median for stalls: below it, a second of half the rate is chance.
const STALL_MEDIAN_OPS_MIN: f64 = 20.0;
/// Shortest second that is judged; a shorter interval at the end of a run is left out.
const SECOND_S_MIN: f64 = 0.5;

/// Clocks end a run a little before or after its planned time.
const CLOCK_SLACK_S: f64 = 0.5;

/// Verdict of the rule on a timeline.
#[derive(Debug, Clone, PartialEq)]
pub enum Steadiness {
    TooShort {
        seconds: f64,
    },
    Steady(Windows),
    /// The rate moved more than the rule allows.
    Unstable(Windows),
}

/// The five windows and the rule's criteria, as shares of their mean.
#[derive(Debug, Clone, PartialEq)]
pub struct Windows {
    pub length_s: f64,
    /// Mean time between the ends of two checkpoints; None if fewer than two are seen.
    pub cycle_s: Option<f64>,
    pub ops_per_second: [f64; WINDOWS],
    /// Largest minus smallest.
    pub range_share: f64,
    /// Rise (or fall) of the fitted line from the first window to the last.
    pub slope_share: f64,
    /// Checkpoints that ended in each window; None if the seconds lack them.
    pub checkpoints: Option<[u64; WINDOWS]>,
}

impl Windows {
    fn is_steady(&self) -> bool {
        self.range_share <= RANGE_SHARE_MAX && self.slope_share.abs() <= SLOPE_SHARE_MAX
    }

    /// Returns whether each window holds a whole checkpoint cycle: one ended in every window, and a
    /// window is no shorter than a cycle. None if the seconds lack checkpoints.
    pub fn have_cycles(&self) -> Option<bool> {
        let is_long_enough = self.cycle_s.is_some_and(|cycle_s| cycle_s <= self.length_s);
        self.checkpoints.map(|ended| is_long_enough && ended.iter().all(|&count| count > 0))
    }

    /// Operations per second over all windows.
    pub fn mean(&self) -> f64 {
        self.ops_per_second.iter().sum::<f64>() / WINDOWS as f64
    }
}

/// Applies the rule to the seconds from `from_s` to `to_s`.
pub fn steadiness(timeline: &[Second], from_s: f64, to_s: f64) -> Steadiness {
    let seconds = to_s - from_s;
    if seconds.is_nan() || seconds + CLOCK_SLACK_S < WINDOW_S_MIN * WINDOWS as f64 {
        return Steadiness::TooShort { seconds };
    }
    let windows = Sums::of(each_second(timeline)).windows(from_s, to_s);
    if windows.is_steady() { Steadiness::Steady(windows) } else { Steadiness::Unstable(windows) }
}

/// The second from which on, up to `to_s`, the rule holds, with its windows. The rule tolerates some
/// seconds of another rate in its first window: if they are there, the rate is steady from the change
/// on. None if the rule holds from no second that leaves enough time.
pub fn onset(timeline: &[Second], from_s: f64, to_s: f64) -> Option<(f64, Windows)> {
    let sums = Sums::of(each_second(timeline));
    let seconds = each_second(timeline);
    let starts = seconds.map(|second| second.from_s).filter(|&start_s| start_s >= from_s);
    let steady = |start_s: f64| {
        let is_long = to_s - start_s + CLOCK_SLACK_S >= WINDOW_S_MIN * WINDOWS as f64;
        let windows = is_long.then(|| sums.windows(start_s, to_s));
        windows.filter(Windows::is_steady).map(|windows| (start_s, windows))
    };
    let (start_s, windows) = { starts }
        .take_while(|start_s| to_s - start_s + CLOCK_SLACK_S >= WINDOW_S_MIN * WINDOWS as f64)
        .find_map(steady)?;
    let first = (start_s, start_s + windows.length_s);
    Some(change_within(timeline, first).and_then(steady).unwrap_or((start_s, windows)))
}

/// The second of the largest change of rate between these, if it is beyond the rule's slope.
fn change_within(timeline: &[Second], (from_s, to_s): (f64, f64)) -> Option<f64> {
    let is_within = |second: &OneSecond| second.from_s >= from_s && second.from_s < to_s;
    let seconds: Vec<OneSecond> = each_second(timeline).filter(is_within).collect();
    let rates: Vec<f64> = seconds.iter().map(OneSecond::operations_rate).collect();
    let (_, after) = change_points::split(&rates)?;
    let (before, begin) = (mean(&rates[..after.start])?, seconds[after.start].from_s);
    let level = mean(&rates[after]).filter(|level| *level > 0.0)?;
    ((before / level - 1.0).abs() > SLOPE_SHARE_MAX).then_some(begin)
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
pub fn stalls(seconds: &[OneSecond]) -> Vec<OneSecond> {
    let judged = || seconds.iter().filter(|second| second.length_s() >= SECOND_S_MIN);
    match lower_median(judged().map(OneSecond::operations_rate)) {
        Some(median) if median >= STALL_MEDIAN_OPS_MIN => {
            judged().filter(|second| second.operations_rate() < median / 2.0).copied().collect()
        }
        _ => Vec::new(),
    }
}

/// Stalled seconds that follow each other: from when, and for how many seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Stall {
    pub from_s: f64,
    pub seconds: f64,
}

/// Stalled seconds that follow each other, together.
fn stretches(stalled: &[OneSecond]) -> impl Iterator<Item = &[OneSecond]> {
    stalled.chunk_by(|last, next| (last.end_s() - next.from_s).abs() < CLOCK_SLACK_S)
}

/// The longest stretch of stalled seconds; of equal ones the first.
pub fn longest_stall(stalled: &[OneSecond]) -> Option<Stall> {
    let stalls = stretches(stalled).filter_map(|stretch| {
        let seconds = stretch.iter().map(OneSecond::length_s).sum();
        Some(Stall { from_s: stretch.first()?.from_s, seconds })
    });
    stalls.reduce(|best, next| if next.seconds > best.seconds { next } else { best })
}

/// The most time that one stretch of stalled seconds lost, compared with seconds of the median rate.
fn longest_loss(stalled: &[OneSecond], median: f64) -> f64 {
    let lost = |second: &OneSecond| second.length_s() * (1.0 - second.operations_rate() / median);
    stretches(stalled).map(|stretch| stretch.iter().map(lost).sum()).fold(0.0, f64::max)
}

/// The coefficient of variation of the seconds: standard deviation over mean of their rates. None
/// under two seconds, or without operations.
pub fn variation(seconds: &[OneSecond]) -> Option<f64> {
    let judged = seconds.iter().filter(|second| second.length_s() >= SECOND_S_MIN);
    let rates: Vec<f64> = judged.map(OneSecond::operations_rate).collect();
    let mean = super::estimate::mean(&rates).filter(|mean| *mean > 0.0)?;
    Some(super::estimate::deviation(&rates)? / mean)
}

#[cfg(test)]
mod tests {
    use super::*;
    use petal_record::Ops;
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

        /// A warm-up at a lower rate, then a flat stretch: steady from its end on, to the second.
        #[test]
        fn the_onset_is_where_the_flat_part_begins(seed: u64, warm_up in 60u32..400) {
            let seconds = warm_up + 600;
            let end = f64::from(warm_up) / f64::from(seconds);
            let shape = |at: f64| if at < end { 3_000.0 } else { 10_000.0 };
            let timeline = simulated(seed, seconds, 0.1, shape);
            prop_assert!(matches!(judged(&timeline), Steadiness::Unstable(_)) || warm_up < 100);
            let (from_s, windows) = onset(&timeline, 0.0, f64::from(seconds)).unwrap();
            prop_assert_eq!(from_s, f64::from(warm_up));
            prop_assert!((windows.mean() / 10_000.0 - 1.0).abs() < 0.01, "{}", windows.mean());
            let at = |start_s: f64| steadiness(&timeline, start_s, f64::from(seconds));
            prop_assert!(matches!(at(from_s), Steadiness::Steady(_)));
        }

        #[test]
        fn drift_to_the_end_has_no_onset(seed: u64, drift in 0.8f64..0.95) {
            let timeline = simulated(seed, 600, 0.05, |at| 10_000.0 * (1.0 - drift * at));
            prop_assert_eq!(onset(&timeline, 0.0, 600.0), None);
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
    fn the_seconds_vary_by_so_much() {
        let mut timeline = simulated(0, 4, 0.0, |_| 100.0);
        timeline[0].ops.total = 90;
        timeline[3].ops.total = 110;
        let all: Vec<OneSecond> = each_second(&timeline).collect();
        // Deviation of 90, 100, 100, 110 is 8.165.
        assert!((variation(&all).unwrap() - 0.08165).abs() < 1e-5);
        assert_eq!(variation(&all[..1]), None);
    }

    #[test]
    fn windows_count_their_checkpoints() {
        let mut timeline = simulated(0, 300, 0.0, |_| 100.0);
        let windows = |timeline: &[Second]| match judged(timeline) {
            Steadiness::Steady(windows) => windows,
            other => panic!("{other:?}"),
        };
        assert_eq!(windows(&timeline).have_cycles(), None);
        for (at, second) in timeline.iter_mut().enumerate() {
            second.checkpoints = Some(u64::from(at % 50 == 49));
        }
        assert_eq!(windows(&timeline).checkpoints, Some([1, 1, 1, 1, 2]));
        assert_eq!(windows(&timeline).have_cycles(), Some(true));
        timeline[49].checkpoints = Some(0);
        assert_eq!(windows(&timeline).have_cycles(), Some(false));
    }

    #[test]
    fn stalls_are_listed_and_a_slow_workload_has_none() {
        let mut timeline = simulated(7, 60, 0.1, |_| 1000.0);
        timeline[20].ops.total = 499 / 2;
        timeline[41].ops.total = 0;
        let all: Vec<OneSecond> = each_second(&timeline).collect();
        let at: Vec<f64> = stalls(&all).iter().map(|second| second.from_s).collect();
        assert_eq!(at, [20.0, 41.0]);
        assert_eq!(longest_stall(&stalls(&all)), Some(Stall { from_s: 20.0, seconds: 1.0 }));
        assert!(longest_loss(&stalls(&all), 1000.0) > 0.99, "a whole second");
        timeline[41].ops.total = 300;
        let one: Vec<OneSecond> = each_second(&timeline).collect();
        assert!(longest_loss(&stalls(&one), 1000.0) < 0.95, "a slow second is no stall");
        timeline[42].ops.total = 450;
        let two: Vec<OneSecond> = each_second(&timeline).collect();
        assert!(longest_loss(&stalls(&two), 1000.0) > 1.0, "a stall in two seconds");
        timeline[42].ops.total = 3;
        let all: Vec<OneSecond> = each_second(&timeline).collect();
        assert_eq!(longest_stall(&stalls(&all)), Some(Stall { from_s: 41.0, seconds: 2.0 }));
        assert_eq!(longest_stall(&[]), None);
        let scans = simulated(7, 60, 1.0, |_| 3.0);
        assert!(stalls(&each_second(&scans).collect::<Vec<_>>()).is_empty());
    }
}
