//! The times at which the operations of an open loop are due: by one rate for all of them, whose
//! kinds the deck draws, or by a rate for each kind. The operations of all sessions are numbered
//! from 0; a session has `first`, `first + sessions` and so on, so they are evenly spaced over the
//! sessions.

use std::time::Duration;

use super::op::Kind;
use crate::settings::rates::RateOverTime;

/// Rates of an open loop.
#[derive(Debug, Clone, PartialEq)]
pub enum ArrivalRates {
    /// RATE.
    All(RateOverTime),
    /// SELECT_RATE, SCAN_RATE and UPDATE_RATE, by [`Kind::index`].
    ByKind([RateOverTime; Kind::ALL.len()]),
}

impl ArrivalRates {
    pub fn scaled(&self, factor: f64) -> Self {
        match self {
            Self::All(rate) => Self::All(rate.scaled(factor)),
            Self::ByKind(rates) => Self::ByKind(rates.each_ref().map(|rate| rate.scaled(factor))),
        }
    }

    /// Whether any operation of a kind is due; None if the deck decides.
    pub fn has(&self, kind: Kind) -> Option<bool> {
        match self {
            Self::All(_) => None,
            Self::ByKind(rates) => rates.get(kind.index()).map(|rate| !rate.is_zero()),
        }
    }
}

/// The operations that are due for one session, in their order.
#[derive(Debug, Clone)]
pub struct Arrivals {
    streams: Vec<Stream>,
    first: u64,
    sessions: u64,
}

#[derive(Debug, Clone)]
struct Stream {
    /// None: the deck draws it.
    kind: Option<Kind>,
    rate: RateOverTime,
    /// Operations of this session that were taken.
    taken: u64,
}

/// An operation that is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arrival {
    /// Time since the trigger.
    pub due: Duration,
    pub kind: Option<Kind>,
}

impl Arrivals {
    /// Arrivals of session number `session`, from 1.
    pub fn new(rates: &ArrivalRates, session: u32, sessions: u32) -> Self {
        let stream = |kind, rate: &RateOverTime| Stream { kind, rate: rate.clone(), taken: 0 };
        let streams = match rates {
            ArrivalRates::All(rate) => vec![stream(None, rate)],
            ArrivalRates::ByKind(rates) => Kind::ALL
                .into_iter()
                .zip(rates)
                .map(|(kind, rate)| stream(Some(kind), rate))
                .collect(),
        };
        Self { streams, first: u64::from(session - 1), sessions: u64::from(sessions) }
    }

    /// The next operation, which [`Arrivals::take`] takes; None if nothing more is due.
    pub fn next(&self) -> Option<Arrival> {
        self.earliest().map(|(_, arrival)| arrival)
    }

    pub fn take(&mut self) {
        let at = self.earliest().map(|(at, _)| at);
        if let Some(stream) = at.and_then(|at| self.streams.get_mut(at)) {
            stream.taken += 1;
        }
    }

    fn earliest(&self) -> Option<(usize, Arrival)> {
        let arrivals = self.streams.iter().enumerate().filter_map(|(at, stream)| {
            let due = stream.rate.due(self.number(stream.taken))?;
            Some((at, Arrival { due, kind: stream.kind }))
        });
        arrivals.min_by_key(|(_, arrival)| arrival.due)
    }

    fn number(&self, operation: u64) -> u64 {
        operation.saturating_mul(self.sessions).saturating_add(self.first)
    }

    /// Operations of this session that are due before `end`.
    pub fn due_before(&self, end: Duration) -> u64 {
        let of = |stream: &Stream| {
            stream.rate.due_before(end).saturating_sub(self.first).div_ceil(self.sessions)
        };
        self.streams.iter().map(of).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn all(rate: f64) -> ArrivalRates {
        ArrivalRates::All(RateOverTime::constant(rate))
    }

    #[test]
    fn each_kind_is_due_at_its_own_rate() {
        let rate = |text| RateOverTime::parse(text).unwrap();
        let rates = ArrivalRates::ByKind([rate("10"), rate("0:0 5:1"), rate("4")]);
        assert_eq!(Kind::ALL.map(|kind| rates.has(kind)), [Some(true); 3]);
        let mut counts = [0; 3];
        let mut total = 0;
        for session in 1..=3 {
            let mut arrivals = Arrivals::new(&rates, session, 3);
            total += arrivals.due_before(Duration::from_secs(10));
            let mut last = Duration::ZERO;
            while let Some(arrival) = arrivals.next().filter(|it| it.due.as_secs() < 10) {
                assert!(arrival.due >= last, "in order");
                last = arrival.due;
                counts[arrival.kind.unwrap().index()] += 1;
                arrivals.take();
            }
        }
        assert_eq!((counts, total), ([100, 5, 40], 145));
    }

    #[test]
    fn an_operation_that_is_never_due_is_never_next() {
        let none = || RateOverTime::constant(0.0);
        let rates = ArrivalRates::ByKind([RateOverTime::parse("0:1 2:0").unwrap(), none(), none()]);
        let mut arrivals = Arrivals::new(&rates, 1, 1);
        arrivals.take();
        arrivals.take();
        assert_eq!(arrivals.next(), None);
        assert_eq!(arrivals.due_before(Duration::from_secs(1_000_000)), 2);
        assert_eq!((rates.has(Kind::Select), rates.has(Kind::Update)), (Some(true), Some(false)));
        assert_eq!(all(1.0).has(Kind::Update), None);
    }

    proptest! {
        #[test]
        fn paced_operations_are_evenly_spaced_over_all_sessions(
            rate in 1.0f64..100_000.0, sessions in 1u32..100, seconds in 1u64..60,
        ) {
            let end = Duration::from_secs(seconds);
            let due: u64 = (1..=sessions)
                .map(|session| Arrivals::new(&all(rate), session, sessions).due_before(end))
                .sum();
            let asked = rate * seconds as f64;
            prop_assert!((due as f64 - asked).abs() <= 1.0, "{} of {}", due, asked);
        }

        #[test]
        fn due_before_counts_all_operations_due_by_then(
            rate in 1e-20f64..1e7, sessions in 1u32..100, session in 1u32..100, end_ms in 1u64..1_000_000,
        ) {
            let session = session.min(sessions);
            let mut arrivals = Arrivals::new(&all(rate), session, sessions);
            let end = Duration::from_millis(end_ms);
            // Floats may put an operation that is due at the very end on either side of it.
            let at_the_end = Duration::from_nanos(2);
            let due = arrivals.due_before(end);
            let nth = |arrivals: &mut Arrivals, taken| {
                arrivals.streams[0].taken = taken;
                arrivals.next().map_or(Duration::MAX, |it| it.due)
            };
            prop_assert!(nth(&mut arrivals, due).saturating_add(at_the_end) >= end);
            if due > 0 {
                prop_assert!(nth(&mut arrivals, due - 1) <= end + at_the_end);
            }
        }
    }
}
