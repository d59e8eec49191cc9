//! The difference between a server's clock and this host's.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Number of readings of the clock; the quickest answer is the most exact.
const QUESTIONS: usize = 5;

/// Seconds that a clock is ahead of this host's; `ask` returns its seconds since 1970. The
/// answer is taken to lie in the middle of its round trip.
pub fn ahead_s(mut ask: impl FnMut() -> Option<f64>) -> Option<f64> {
    let answers = (0..QUESTIONS).filter_map(|_| {
        let asked = Instant::now();
        let here = SystemTime::now().duration_since(UNIX_EPOCH).ok()?.as_secs_f64();
        let there = ask()?;
        let round_trip_s = asked.elapsed().as_secs_f64();
        Some((round_trip_s, there - here - round_trip_s / 2.0))
    });
    let quickest = answers.min_by(|a, b| a.0.total_cmp(&b.0));
    quickest.map(|(_, ahead_s)| ahead_s)
}
