//! Response times of an open loop with simulated sessions: the arrivals and the queue are those of a
//! run.

use super::{ArrivalQueue, Serving};
use crate::op::Kind;
use crate::plan::ArrivalRates;
use crate::scatter::mix;
use petal_settings::Arrivals;
use petal_settings::rates::RateOverTime;

/// Response times in seconds, sorted, of the operations of one kind within 60 seconds. `service`
/// draws a service time.
pub fn responses(
    rates: &ArrivalRates,
    pattern: Arrivals,
    sessions: u32,
    kind: Option<Kind>,
    mut service: impl FnMut(Option<Kind>) -> f64,
) -> Vec<f64> {
    let groups: Vec<(u32, u32)> = match pattern {
        Arrivals::Dealt => (1..=sessions).map(|session| (session, 1)).collect(),
        Arrivals::Even | Arrivals::Poisson => vec![(1, sessions)],
    };
    let mut responses = Vec::new();
    for (first, sessions_of_queue) in groups {
        let serving = Serving { first, sessions: sessions_of_queue, of: sessions };
        let queue = ArrivalQueue::new(rates, pattern, serving, 7);
        let mut free = vec![0.0f64; sessions_of_queue as usize];
        while let Some(arrival) = queue.take().filter(|arrival| arrival.due.as_secs() < 60) {
            let next = free.iter_mut().min_by(|a, b| a.total_cmp(b));
            let Some(next) = next else { break };
            let due = arrival.due.as_secs_f64();
            *next = next.max(due) + service(arrival.kind);
            if arrival.kind == kind {
                responses.push(*next - due);
            }
        }
    }
    responses.sort_by(f64::total_cmp);
    responses
}

/// Mean and p99 of sorted values.
pub fn mean_and_p99(sorted: &[f64]) -> (f64, f64) {
    let mean = sorted.iter().sum::<f64>() / sorted.len() as f64;
    (mean, sorted.get(sorted.len() * 99 / 100).copied().unwrap_or(f64::NAN))
}

const SESSIONS: u32 = 16;
const SERVICE_S: f64 = 0.001;
const BUSY: f64 = 0.9;

/// Mean and p99 of the response times of 16 sessions that are 90 % busy with operations of 1 ms on
/// average, whose times are exponential.
pub fn of_busy_sessions(pattern: Arrivals) -> (f64, f64) {
    let mut number = 0u64;
    let service = |_| {
        number += 1;
        let uniform = ((mix(number) >> 11) as f64 + 0.5) / (1u64 << 53) as f64;
        -uniform.ln() * SERVICE_S
    };
    let rate = RateOverTime::constant(BUSY * f64::from(SESSIONS) / SERVICE_S);
    mean_and_p99(&responses(&ArrivalRates::All(rate), pattern, SESSIONS, None, service))
}

/// The mean of [`of_busy_sessions`] for Poisson arrivals that all sessions serve, by Erlang's
/// formula.
pub fn expected_mean_s() -> f64 {
    let load = BUSY * f64::from(SESSIONS);
    let blocking = (1..=SESSIONS).fold(1.0, |b, n| load * b / (f64::from(n) + load * b));
    let waits = blocking / (1.0 - BUSY * (1.0 - blocking));
    SERVICE_S + waits * SERVICE_S / (f64::from(SESSIONS) - load)
}
