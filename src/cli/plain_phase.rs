//! Counted work in words, where no bar is drawn.

use std::time::{Duration, Instant};

use petal_engine::ProgressUnit;
use petal_report::numbers::{span, whole};

use petal_run::noted_progress::NotedPhase;

/// The shortest time that a rate of progress is made over.
const RATE_TIME_MIN: Duration = Duration::from_millis(500);

/// Work that is counted, if there is no terminal to draw a bar on.
#[derive(Clone)]
pub struct PlainPhase {
    pub what: String,
    pub total: u64,
    pub done: u64,
    pub unit: ProgressUnit,
    pub began: Instant,
    pub shown: Instant,
}

impl PlainPhase {
    /// The phase of another process, as it noted it.
    pub fn noted(phase: NotedPhase) -> Self {
        let began = Instant::now().checked_sub(phase.elapsed()).unwrap_or_else(Instant::now);
        let NotedPhase { what, total, done, unit, .. } = phase;
        Self { what, total, done, unit, began, shown: began }
    }

    /// Progress, rate and remaining time.
    pub fn words(&self) -> String {
        if self.total == 0 {
            return format!("{}: {}", self.what, span(self.began.elapsed()));
        }
        let seconds = self.began.elapsed().as_secs_f64().max(RATE_TIME_MIN.as_secs_f64());
        let rate = self.done as f64 / seconds;
        let units_left = self.total.saturating_sub(self.done);
        let left = Duration::from_secs_f64((units_left as f64 / rate.max(1e-9)).min(1e9));
        if self.unit == ProgressUnit::Seconds {
            return format!("{}: {} s of at most {} s", self.what, self.done, self.total);
        }
        let amount = |units: u64| match self.unit {
            ProgressUnit::Bytes => format!("{} MiB", whole(units >> 20)),
            _ => whole(units),
        };
        let per_time = match self.unit {
            ProgressUnit::Items => items_per_time(rate),
            _ => format!("{}/s", amount(rate as u64)),
        };
        format!(
            "{}: {} of {}, {per_time}, {}",
            self.what,
            amount(self.done),
            amount(self.total),
            left_words(self.done, units_left, left),
        )
    }
}

/// The remaining time of work; unknown before its first unit.
pub fn left_words(done: u64, units_left: u64, left: Duration) -> String {
    match (done, units_left) {
        (_, 0) => "finishing".to_owned(),
        (0, _) => "starting".to_owned(),
        _ => format!("{} left", span(left)),
    }
}

/// A rate of items, by the minute if it is low; unknown before the first.
pub fn items_per_time(per_second: f64) -> String {
    match per_second {
        none if none <= 0.0 => "-/s".to_owned(),
        slow if slow < 10.0 => format!("{:.1}/min", slow * 60.0),
        fast => format!("{}/s", whole(fast as u64)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_work_has_its_rate_by_the_minute() {
        let began = Instant::now() - Duration::from_secs(60);
        let phase = |done, total, unit| {
            PlainPhase { what: "cutting".into(), total, done, unit, began, shown: began }.words()
        };
        let slow = phase(3, 30, ProgressUnit::Items);
        assert_eq!(slow, "cutting: 3 of 30, 3.0/min, 9 min 0 s left");
        let fast = phase(1200, 1230, ProgressUnit::Items);
        assert!(fast.ends_with("/s, 2 s left") || fast.ends_with("/s, 1 s left"), "{fast}");
        assert!(phase(60 << 20, 90 << 20, ProgressUnit::Bytes).contains(" MiB/s, 30 s left"));
    }

    #[test]
    fn the_remaining_time_is_unknown_before_the_first_unit() {
        assert_eq!(left_words(0, 30, Duration::ZERO), "starting");
        assert_eq!(left_words(30, 0, Duration::ZERO), "finishing");
    }
}
