//! A timeline as running sums, so that any five windows of it cost five look-ups: the onset is
//! sought over every second of hours.

use super::{WINDOWS, Windows};
use petal_record::{OneSecond, SecondAmount};

/// Sums of the seconds before each position.
pub(super) struct Sums {
    /// The middle of each second.
    middles_s: Vec<f64>,
    ops: Vec<f64>,
    time_s: Vec<f64>,
    /// None if no second knows them; a second that does not know adds none.
    checkpoints: Option<Vec<u64>>,
}

impl Sums {
    pub fn of(seconds: impl Iterator<Item = OneSecond>) -> Self {
        let mut sums =
            Self { middles_s: Vec::new(), ops: vec![0.0], time_s: vec![0.0], checkpoints: None };
        let mut ended = vec![0];
        let (mut is_known, mut ops, mut time_s, mut checkpoints) = (false, 0.0, 0.0, 0);
        for second in seconds {
            let ended_here = second.amount(SecondAmount::Checkpoints);
            is_known |= ended_here.is_some();
            ops += second.amount(SecondAmount::Operations).unwrap_or(0.0);
            time_s += second.length_s();
            checkpoints += ended_here.unwrap_or(0.0) as u64;
            sums.middles_s.push(second.from_s + second.length_s() / 2.0);
            sums.ops.push(ops);
            sums.time_s.push(time_s);
            ended.push(checkpoints);
        }
        sums.checkpoints = is_known.then_some(ended);
        sums
    }

    /// The position of the first second whose middle is not before a time.
    fn position(&self, at_s: f64) -> usize {
        self.middles_s.partition_point(|&middle_s| middle_s < at_s)
    }

    /// The mean time from one checkpoint's end to the next; None with fewer than two in a stretch.
    fn cycle_s(&self, from_s: f64, to_s: f64) -> Option<f64> {
        let checkpoints = self.checkpoints.as_ref()?;
        let (before, after) =
            (checkpoints[self.position(from_s)], checkpoints[self.position(to_s)]);
        let intervals = after.saturating_sub(before).checked_sub(1).filter(|&count| count > 0)?;
        // The second in which the count first passes a number.
        let passes_s = |number: u64| {
            let position = checkpoints.partition_point(|&count| count <= number);
            self.middles_s.get(position.checked_sub(1)?).copied()
        };
        Some((passes_s(after - 1)? - passes_s(before)?) / intervals as f64)
    }

    /// Five equal windows of a stretch.
    pub fn windows(&self, from_s: f64, to_s: f64) -> Windows {
        let length_s = (to_s - from_s) / WINDOWS as f64;
        let mut rates = [0.0; WINDOWS];
        let mut checkpoints = self.checkpoints.as_ref().map(|_| [0; WINDOWS]);
        for (window, rate) in rates.iter_mut().enumerate() {
            let from = self.position(from_s + length_s * window as f64);
            let to = self.position(from_s + length_s * (window + 1) as f64).max(from);
            let time_s = self.time_s[to] - self.time_s[from];
            let ops = self.ops[to] - self.ops[from];
            *rate = if time_s > 0.0 { ops / time_s } else { 0.0 };
            if let Some((counts, ended)) = checkpoints.as_mut().zip(self.checkpoints.as_ref()) {
                counts[window] = ended[to] - ended[from];
            }
        }
        let mean = rates.iter().sum::<f64>() / WINDOWS as f64;
        let largest = rates.iter().copied().fold(f64::MIN, f64::max);
        let smallest = rates.iter().copied().fold(f64::MAX, f64::min);
        let share = |value: f64| if mean > 0.0 { value / mean } else { 0.0 };
        Windows {
            length_s,
            cycle_s: self.cycle_s(from_s, to_s),
            ops_per_second: rates,
            range_share: share(largest - smallest),
            slope_share: share(super::slope(&rates) * (WINDOWS - 1) as f64),
            checkpoints,
        }
    }
}
