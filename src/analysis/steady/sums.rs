//! A timeline as running sums, so that any five windows of it cost five look-ups: the onset is
//! sought over every second of hours.

use super::{WINDOWS, Windows};
use crate::record::Second;

/// Sums of the seconds before each position.
pub(super) struct Sums {
    /// The middle of each second.
    middles_s: Vec<f64>,
    ops: Vec<u64>,
    time_s: Vec<f64>,
    /// None from the first second on that does not say.
    checkpoints: Vec<Option<u64>>,
}

impl Sums {
    pub fn of(timeline: &[Second]) -> Self {
        let mut sums = Self {
            middles_s: Vec::with_capacity(timeline.len()),
            ops: vec![0],
            time_s: vec![0.0],
            checkpoints: vec![Some(0)],
        };
        let (mut ops, mut time_s, mut checkpoints) = (0, 0.0, Some(0));
        for second in timeline {
            ops += second.ops.total;
            time_s += second.length_s;
            checkpoints = checkpoints.zip(second.checkpoints).map(|(sum, ended)| sum + ended);
            sums.middles_s.push(second.from_s + second.length_s / 2.0);
            sums.ops.push(ops);
            sums.time_s.push(time_s);
            sums.checkpoints.push(checkpoints);
        }
        sums
    }

    /// The position of the first second whose middle is not before a time.
    fn position(&self, at_s: f64) -> usize {
        self.middles_s.partition_point(|&middle_s| middle_s < at_s)
    }

    /// The mean time from one checkpoint's end to the next; None with fewer than two in a stretch.
    fn cycle_s(&self, from_s: f64, to_s: f64) -> Option<f64> {
        let (from, to) = (self.position(from_s), self.position(to_s));
        let (before, after) = (self.checkpoints[from]?, self.checkpoints[to]?);
        let intervals = after.saturating_sub(before).checked_sub(1).filter(|&count| count > 0)?;
        // The second in which the count first passes a number.
        let passes = |number: u64| {
            self.checkpoints.partition_point(|count| count.is_some_and(|count| count <= number))
        };
        let middle_s = |position: usize| self.middles_s.get(position.checked_sub(1)?).copied();
        let (first_s, last_s) = (middle_s(passes(before))?, middle_s(passes(after - 1))?);
        Some((last_s - first_s) / intervals as f64)
    }

    /// Five equal windows of a stretch.
    pub fn windows(&self, from_s: f64, to_s: f64) -> Windows {
        let length_s = (to_s - from_s) / WINDOWS as f64;
        let mut rates = [0.0; WINDOWS];
        let mut checkpoints = Some([0; WINDOWS]);
        for (window, rate) in rates.iter_mut().enumerate() {
            let from = self.position(from_s + length_s * window as f64);
            let to = self.position(from_s + length_s * (window + 1) as f64).max(from);
            let time_s = self.time_s[to] - self.time_s[from];
            let ops = self.ops[to] - self.ops[from];
            *rate = if time_s > 0.0 { ops as f64 / time_s } else { 0.0 };
            let ended = self.checkpoints[to].zip(self.checkpoints[from]);
            checkpoints = checkpoints.zip(ended).map(|(mut counts, (to, from))| {
                counts[window] = to - from;
                counts
            });
        }
        let mean = rates.iter().sum::<f64>() / WINDOWS as f64;
        let largest = rates.iter().copied().fold(f64::MIN, f64::max);
        let smallest = rates.iter().copied().fold(f64::MAX, f64::min);
        let share = |value: f64| if mean > 0.0 { value / mean } else { 0.0 };
        Windows {
            length_s,
            cycle_s: checkpoints.and_then(|_| self.cycle_s(from_s, to_s)),
            ops_per_second: rates,
            range_share: share(largest - smallest),
            slope_share: share(super::slope(&rates) * (WINDOWS - 1) as f64),
            checkpoints,
        }
    }
}
