//! Linear and logarithmic axes: bounds that end on a tick, the ticks, and how they are written.

use super::super::numbers::decimal;

/// An axis from a lowest to a highest value, both finite and different.
#[derive(Debug, Clone, PartialEq)]
pub struct Scale {
    from: f64,
    to: f64,
    is_log: bool,
    /// Instead of those that the values give.
    ticks: Option<Vec<f64>>,
}

impl Scale {
    /// Builds a scale from zero to a tick at or above the largest value.
    pub fn linear(values: impl IntoIterator<Item = f64>) -> Self {
        Self::with_steps(values, 6)
    }

    /// Builds a scale from zero to a tick at or above the largest value, with at most this many
    /// steps.
    pub fn with_steps(values: impl IntoIterator<Item = f64>, steps_max: usize) -> Self {
        let most = finite(values).fold(0.0, f64::max);
        if most < 1e-9 {
            return Self::between(0.0, 1.0);
        }
        let step = step(most, steps_max);
        Self::between(0.0, (most / step - 1e-9).ceil() * step)
    }

    /// A linear axis with exactly these bounds.
    pub fn between(from: f64, to: f64) -> Self {
        let to = if to > from { to } else { from + 1.0 };
        Self { from, to, is_log: false, ticks: None }
    }

    /// Builds a scale over all values above zero, with a little room; other values have no place
    /// here.
    pub fn log(values: impl IntoIterator<Item = f64>) -> Self {
        let (least, most) = finite(values)
            .filter(|&value| value >= 1e-9)
            .fold((f64::MAX, 0.0), |(least, most): (f64, f64), v| (least.min(v), most.max(v)));
        let (least, most) = if most > 0.0 { (least, most) } else { (1.0, 10.0) };
        // A flat line still needs an axis, and no point may touch the frame.
        let room = ((most / least).log10() * 0.06).max(0.04);
        let (from, to) = (least * 10_f64.powf(-room), most * 10_f64.powf(room));
        Self { from, to, is_log: true, ticks: None }
    }

    /// A logarithmic axis over these values, or a linear one.
    pub fn over(values: impl IntoIterator<Item = f64>, is_log: bool) -> Self {
        if is_log { Self::log(values) } else { Self::linear(values) }
    }

    /// A power-of-two axis with a tick at each doubling.
    pub fn doublings(from: f64, to: f64) -> Self {
        let mut ticks = vec![from.max(f64::MIN_POSITIVE)];
        while let Some(&last) = ticks.last().filter(|&&last| last < to && ticks.len() < 64) {
            ticks.push(last * 2.0);
        }
        Self { from, to, is_log: true, ticks: Some(ticks) }
    }

    /// Replaces its ticks with these.
    pub fn with_ticks(self, ticks: Vec<f64>) -> Self {
        Self { ticks: Some(ticks), ..self }
    }

    pub fn is_log(&self) -> bool {
        self.is_log
    }

    pub fn from(&self) -> f64 {
        self.from
    }

    pub fn to(&self) -> f64 {
        self.to
    }

    /// Returns true for a value between its bounds.
    pub fn shows(&self, value: f64) -> bool {
        (self.from..=self.to).contains(&value)
    }

    /// Returns about `most` ticks, at round numbers.
    pub fn ticks(&self, most: usize) -> Vec<f64> {
        if let Some(ticks) = &self.ticks {
            let every = ticks.len().div_ceil(most.max(1)).max(1);
            return ticks.iter().copied().step_by(every).collect();
        }
        let decades = if self.is_log { (self.to / self.from).log10() } else { 0.0 };
        if decades > 0.9 { self.log_ticks(most, decades) } else { self.even_ticks(most) }
    }

    fn even_ticks(&self, most: usize) -> Vec<f64> {
        let step = step(self.to - self.from, most);
        let first = (self.from / step - 1e-9).ceil() as i64;
        let last = (self.to / step + 1e-9).floor() as i64;
        (first..=last).map(|number| number as f64 * step).collect()
    }

    fn log_ticks(&self, most: usize, decades: f64) -> Vec<f64> {
        let leads: &[f64] = if decades * 3.0 <= most as f64 { &[1.0, 2.0, 5.0] } else { &[1.0] };
        let every = (decades / most as f64).ceil().max(1.0) as i32;
        let (first, last) = (self.from.log10().floor() as i32, self.to.log10().ceil() as i32);
        (first..=last)
            .filter(|power| power.rem_euclid(every) == 0)
            .flat_map(|power| leads.iter().map(move |lead| lead * 10_f64.powi(power)))
            .filter(|tick| (self.from * 0.999..=self.to * 1.001).contains(tick))
            .collect()
    }

    /// The pixel of a value on an axis from one pixel to another, to a tenth.
    pub(super) fn place(&self, value: f64, from: f64, to: f64) -> f64 {
        let (from, to) = ((from * 10.0).round(), (to * 10.0).round());
        (from + ((to - from) * self.share(value)).round()) / 10.0
    }

    /// Returns the position of a value along the axis, from 0 to 1.
    pub fn share(&self, value: f64) -> f64 {
        let share = if self.is_log {
            (value.max(f64::MIN_POSITIVE) / self.from).ln() / (self.to / self.from).ln()
        } else {
            (value - self.from) / (self.to - self.from)
        };
        if share.is_finite() { share.clamp(0.0, 1.0) } else { 0.0 }
    }
}

/// Thousands apart, as many decimals as the tick needs.
pub fn tick_label(value: f64) -> String {
    let size = value.abs();
    let decimals = (0..4)
        .find(|&decimals| {
            let scaled = size * 10_f64.powi(decimals);
            (scaled - scaled.round()).abs() < 1e-6 * scaled.max(1.0)
        })
        .unwrap_or(4);
    decimal(value, decimals as usize)
}

/// Highest value of an axis: nothing measured exceeds it, and ticks beyond it would lose digits.
const VALUE_MAX: f64 = 1e15;

fn finite(values: impl IntoIterator<Item = f64>) -> impl Iterator<Item = f64> {
    values.into_iter().filter(|value| value.abs() <= VALUE_MAX)
}

/// Returns 1, 2 or 5 times a power of ten that fits at most this number of times in `span`.
fn step(span: f64, most: usize) -> f64 {
    let least = span / most.max(1) as f64;
    let power = 10_f64.powf(least.log10().floor());
    let lead = [1.0, 2.0, 5.0].into_iter().find(|lead| lead * power >= least * 0.999_999);
    lead.unwrap_or(10.0) * power
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ticks_are_numbers_that_people_count_in() {
        let written =
            |scale: Scale| -> Vec<String> { scale.ticks(6).into_iter().map(tick_label).collect() };
        assert_eq!(
            written(Scale::linear([81_342.0])),
            ["0", "20,000", "40,000", "60,000", "80,000", "100,000"]
        );
        assert_eq!(written(Scale::linear([0.7])), ["0", "0.2", "0.4", "0.6", "0.8"]);
        assert_eq!(written(Scale::log([80.0, 900.0])), ["100", "200", "500", "1,000"]);
        assert_eq!(written(Scale::log([200.0, 300.0])), ["200", "250", "300"]);
        assert_eq!(written(Scale::linear([])), ["0", "0.2", "0.4", "0.6", "0.8", "1"]);
    }

    proptest! {
        #[test]
        fn axes_hold_every_value(largest in 1e-6f64..1e12) {
            let axis = Scale::with_steps([largest], 5);
            prop_assert!(axis.to >= largest * (1.0 - 1e-9) && axis.to <= largest * 3.0);
            prop_assert!((2..=6).contains(&axis.ticks(5).len()));
        }

        #[test]
        fn any_values_have_an_axis(
            values in prop::collection::vec(prop_oneof![any::<f64>(), 0.0..1e9_f64], 0..20),
            most in 1_usize..12,
        ) {
            for scale in [Scale::linear(values.clone()), Scale::log(values.clone())] {
                prop_assert!(scale.to > scale.from);
                let ticks = scale.ticks(most);
                prop_assert!(ticks.len() <= 3 * most + 3, "{ticks:?}");
                for value in values.iter().filter(|value| value.abs() < 1e300) {
                    let at = scale.place(*value, 10.0, 90.0);
                    prop_assert!((10.0..=90.0).contains(&at));
                }
            }
        }
    }
}
