//! Rates of an open loop, constant or over time: `500`, or `0:500 600:1200` for another one from
//! the 600th second on.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize, Serializer};

/// Operations per second of all sessions together, in steps that begin at set times.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(try_from = "serde_json::Value")]
pub struct RateOverTime {
    /// Steps in order of time; the first begins at 0, the last one has no end.
    steps: Vec<RateStep>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct RateStep {
    from: Duration,
    per_second: f64,
    /// Operations that are due before it begins.
    due_before: f64,
}

/// Limit of steps: about one a minute for a week.
const STEPS_MAX: usize = 10_000;
const RATE_MAX: f64 = 3.2e9;

impl RateOverTime {
    pub fn constant(per_second: f64) -> Self {
        Self::of_steps(&[(Duration::ZERO, per_second)])
    }

    /// Steps in the order of time, the first from 0.
    pub fn of_steps(steps: &[(Duration, f64)]) -> Self {
        let mut made: Vec<RateStep> = Vec::with_capacity(steps.len());
        for &(from, per_second) in steps {
            let due_before = made.last().map_or(0.0, |last| {
                last.due_before + (from - last.from).as_secs_f64() * last.per_second
            });
            made.push(RateStep { from, per_second, due_before });
        }
        Self { steps: made }
    }

    /// Reads a number, or steps `SECONDS:RATE` with spaces between them, from 0 on.
    pub fn parse(text: &str) -> Option<Self> {
        if let Some(rate) = number(text.trim()) {
            return (rate <= RATE_MAX).then(|| Self::constant(rate));
        }
        let mut steps: Vec<(Duration, f64)> = Vec::new();
        for step in text.split_whitespace() {
            let (from, rate) = step.split_once(':')?;
            let from = Duration::try_from_secs_f64(number(from)?).ok()?;
            let is_next = steps.last().map_or(from.is_zero(), |(last, _)| from > *last);
            let rate = number(rate).filter(|rate| *rate <= RATE_MAX && is_next)?;
            steps.push((from, rate));
        }
        (!steps.is_empty() && steps.len() <= STEPS_MAX).then(|| Self::of_steps(&steps))
    }

    /// Returns the same times with rates that are `factor` times as high.
    pub fn scaled(&self, factor: f64) -> Self {
        let steps: Vec<(Duration, f64)> =
            self.steps.iter().map(|step| (step.from, step.per_second * factor)).collect();
        Self::of_steps(&steps)
    }

    pub fn is_zero(&self) -> bool {
        self.steps.iter().all(|step| step.per_second == 0.0)
    }

    pub fn is_constant(&self) -> bool {
        self.steps.len() == 1
    }

    /// Time at which an operation is due, by its place: the number of operations that are due before it, which
    /// need not be whole. None: never.
    pub fn due(&self, place: f64) -> Option<Duration> {
        let after = self.steps.partition_point(|step| step.due_before <= place);
        let step = self.steps.get(after.checked_sub(1)?)?;
        // From the step's begin each time: a gap in whole nanoseconds, added up, would be another
        // rate. Of two steps with as many operations before them it is the later, so that only the
        // last can have none.
        let gap_ns = (place - step.due_before) * 1e9 / step.per_second;
        let gap = Duration::from_nanos(gap_ns as u64);
        (step.per_second > 0.0).then(|| step.from.saturating_add(gap))
    }

    /// Operations that are due before `at`, which need not be whole.
    pub fn expected(&self, at: Duration) -> f64 {
        let after = self.steps.partition_point(|step| step.from < at);
        let step = after.checked_sub(1).and_then(|index| self.steps.get(index));
        step.map_or(0.0, |step| step.due_before + (at - step.from).as_secs_f64() * step.per_second)
    }

    /// Whole operations that are due before `end`.
    pub fn due_before(&self, end: Duration) -> u64 {
        self.expected(end).ceil() as u64
    }
}

/// Digits with at most one point.
pub(super) fn number(text: &str) -> Option<f64> {
    let plain = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    text.parse().ok().filter(|_| plain)
}

impl TryFrom<serde_json::Value> for RateOverTime {
    type Error = &'static str;

    fn try_from(value: serde_json::Value) -> Result<Self, Self::Error> {
        let steps = || value.as_str().and_then(Self::parse);
        value.as_f64().map(Self::constant).or_else(steps).ok_or("is no rate")
    }
}

/// A constant as a number, else steps.
impl fmt::Display for RateOverTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [only] = self.steps.as_slice() {
            return write!(f, "{}", only.per_second);
        }
        let words = |step: &RateStep| format!("{}:{}", step.from.as_secs_f64(), step.per_second);
        f.write_str(&self.steps.iter().map(words).collect::<Vec<_>>().join(" "))
    }
}

impl Serialize for RateOverTime {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.steps.as_slice() {
            [only] => serializer.serialize_f64(only.per_second),
            _ => serializer.collect_str(self),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_people_write() {
        assert_eq!(RateOverTime::parse("12.5"), Some(RateOverTime::constant(12.5)));
        let day = RateOverTime::parse(" 0:500  600:1000 700.5:0 ").unwrap();
        assert_eq!(day.to_string(), "0:500 600:1000 700.5:0");
        assert_eq!(serde_json::to_value(&day).unwrap(), "0:500 600:1000 700.5:0");
        assert_eq!(serde_json::to_value(RateOverTime::constant(7.0)).unwrap(), 7.0);
        for text in [
            "",
            "x",
            "-1",
            "1:500",
            "0:5 0:6",
            "0:5 9:6 8:7",
            "0:5,9:6",
            "0:",
            ":5",
            "4e9",
            "0:1e3",
        ] {
            assert_eq!(RateOverTime::parse(text), None, "{text}");
        }
    }

    #[test]
    fn operations_are_due_at_the_rate_of_their_time() {
        let rate = RateOverTime::parse("0:10 10:0 20:100 30:0").unwrap();
        let due = |place: i32| rate.due(place.into()).map(|due| due.as_secs_f64());
        assert_eq!([0, 99, 100, 101, 1099].map(due), [0.0, 9.9, 20.0, 20.01, 29.99].map(Some));
        assert_eq!(due(1100), None, "nothing is due any more");
        let before = |seconds| rate.due_before(Duration::from_secs(seconds));
        assert_eq!(
            [0, 5, 10, 15, 20, 25, 30, 900].map(before),
            [0, 50, 100, 100, 100, 600, 1100, 1100]
        );
        assert_eq!(rate.scaled(2.0).due_before(Duration::from_secs(900)), 2200);
    }

    proptest! {
        #[test]
        fn arrivals_before_a_moment_are_due_before_it(
            rates in prop::collection::vec(0.0f64..1000.0, 1..8), at_ms in 1u64..80_000,
        ) {
            let steps: Vec<(Duration, f64)> = rates
                .iter()
                .enumerate()
                .map(|(at, rate)| (Duration::from_secs(at as u64 * 10), *rate))
                .collect();
            let rate = RateOverTime::of_steps(&steps);
            let at = Duration::from_millis(at_ms);
            // Floats may put an operation that is due at the very moment on either side of it.
            let slack = Duration::from_micros(1);
            let due = rate.due_before(at);
            prop_assert!(due == 0 || rate.due((due - 1) as f64).unwrap() <= at + slack);
            prop_assert!(rate.due(due as f64).is_none_or(|next| next + slack >= at));
        }
    }
}
