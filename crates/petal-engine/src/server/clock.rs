//! The difference between a server's clock and this host's, and the way to the server.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Number of readings of the clock; the quickest answer is the most exact.
const QUESTIONS: usize = 5;

/// A server's clock, as the quickest of five answers shows it.
#[derive(Debug, Clone, Copy)]
pub struct ClockReading {
    /// Seconds that it is ahead of this host's.
    pub ahead_s: f64,
    /// Seconds from the question to its answer.
    pub round_trip_s: f64,
}

/// Reads a clock; `ask` returns its seconds since 1970 in one round trip. The answer is taken to
/// lie in the middle of it.
pub fn read(mut ask: impl FnMut() -> Option<f64>) -> Option<ClockReading> {
    let answers = (0..QUESTIONS).filter_map(|_| {
        let asked = Instant::now();
        let here = SystemTime::now().duration_since(UNIX_EPOCH).ok()?.as_secs_f64();
        let there = ask()?;
        let round_trip_s = asked.elapsed().as_secs_f64();
        Some(ClockReading { ahead_s: there - here - round_trip_s / 2.0, round_trip_s })
    });
    answers.min_by(|a, b| a.round_trip_s.total_cmp(&b.round_trip_s))
}
