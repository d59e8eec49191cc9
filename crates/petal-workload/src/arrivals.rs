//! The times at which the operations of an open loop are due: by one rate for all of them, whose
//! kinds the deck draws, or by a rate for each kind. They wait in a queue that any free session
//! serves.

#[cfg(any(test, feature = "testing"))]
pub mod simulated;

use std::time::Duration;

use parking_lot::Mutex;

use super::op::Kind;
use super::plan::{ArrivalRates, Workload};
use super::scatter::mix;
use super::seat::{Role, Seat};
use super::version::run_root;
use petal_settings::Arrivals;
use petal_settings::rates::RateOverTime;

/// A number of sessions among all sessions of a run, on all driver hosts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Serving {
    /// Number of the first one, from 1.
    pub first: u32,
    pub sessions: u32,
    pub of: u32,
}

/// Operations of an open loop that no session has taken yet, in the order in which they are due.
/// Sessions serve the queue as a pool of connections serves the users of an application: a free
/// session takes the next operation, and waits until it is due.
#[derive(Debug)]
pub struct ArrivalQueue {
    waiting: Mutex<Untaken>,
    serving: Serving,
    pattern: Arrivals,
    seed: u64,
}

#[derive(Debug)]
struct Untaken {
    streams: Vec<Stream>,
    /// Operations that a session took and gave back.
    given_back: Vec<Arrival>,
}

#[derive(Debug)]
struct Stream {
    /// Kind of the operation; `None` if the deck draws it.
    kind: Option<Kind>,
    rate: RateOverTime,
    /// Operations that were taken.
    taken: u64,
    /// Place of the next operation among those of all sessions: see [`RateOverTime::due`].
    place: f64,
}

/// An operation that is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arrival {
    /// Time since the trigger.
    pub due: Duration,
    pub kind: Option<Kind>,
}

/// Operations of an [`ArrivalQueue`] that are drawn one by one when they are counted at the end.
const DRAWN_MAX: u64 = 100_000;

impl ArrivalQueue {
    /// `seed`: a run's. Other sessions of the run have other operations.
    pub fn new(rates: &ArrivalRates, pattern: Arrivals, serving: Serving, seed: u64) -> Self {
        let seed = mix(seed ^ mix(u64::from(serving.first)));
        let queue = |streams| Self {
            waiting: Mutex::new(Untaken { streams, given_back: Vec::new() }),
            serving,
            pattern,
            seed,
        };
        let stream =
            |kind, rate: &RateOverTime| Stream { kind, rate: rate.clone(), taken: 0, place: 0.0 };
        let made = queue(match rates {
            ArrivalRates::All(rate) => vec![stream(None, rate)],
            ArrivalRates::ByKind(rates) => Kind::ALL
                .into_iter()
                .zip(rates)
                .map(|(kind, rate)| stream(Some(kind), rate))
                .collect(),
        });
        made.waiting.lock().streams.iter_mut().for_each(|stream| made.place(stream));
        made
    }

    /// Takes the next operation, which may be due later; `None` if nothing more is due.
    pub fn take(&self) -> Option<Arrival> {
        let mut waiting = self.waiting.lock();
        let back = waiting.given_back.iter().enumerate().min_by_key(|(_, it)| it.due);
        let back = back.map(|(at, arrival)| (at, arrival.due));
        let next = waiting.next();
        match (back, next) {
            (Some((at, due)), next) if next.is_none_or(|(_, next)| due <= next.due) => {
                Some(waiting.given_back.swap_remove(at))
            }
            (_, Some((at, arrival))) => {
                let stream = waiting.streams.get_mut(at)?;
                stream.taken += 1;
                self.place(stream);
                Some(arrival)
            }
            (_, None) => None,
        }
    }

    /// Takes another operation for the same batch: only if so many are late that each session will
    /// find one.
    pub fn take_late(&self, now: Duration) -> Option<Arrival> {
        let is_late = {
            let waiting = self.waiting.lock();
            let late = waiting.streams.iter().map(|it| (it.rate.expected(now) - it.place).max(0.0));
            let next = waiting.next().is_some_and(|(_, next)| next.due <= now);
            next && late.sum::<f64>() >= f64::from(self.serving.sessions - 1) * self.every()
        };
        is_late.then(|| self.take()).flatten()
    }

    /// Gives an operation back that a session took and will not begin.
    pub fn give_back(&self, arrival: Arrival) {
        self.waiting.lock().given_back.push(arrival);
    }

    /// Takes all operations that are due before `end`, at most `most`. `each` gets an operation and
    /// how many there are like it: a thousand samples represent all beyond a hundred thousand.
    pub fn take_all(&self, end: Duration, most: u64, mut each: impl FnMut(Arrival, u64)) {
        let mut left = most;
        let mut drawn = 0;
        while left > 0 && drawn < DRAWN_MAX {
            let Some(arrival) = self.take().filter(|arrival| arrival.due < end) else { return };
            each(arrival, 1);
            (drawn, left) = (drawn + 1, left - 1);
        }
        let waiting = self.waiting.lock();
        for stream in &waiting.streams {
            let span = (stream.rate.expected(end) - stream.place).max(0.0);
            let rest = ((span / self.every()) as u64).min(left);
            left -= rest;
            let parts = rest.min(1000);
            for part in 0..parts {
                let place = stream.place + span * (part as f64 + 0.5) / parts as f64;
                let count = rest / parts + u64::from(part < rest % parts);
                let due = stream.rate.due(place).filter(|due| *due < end);
                due.into_iter().for_each(|due| each(Arrival { due, kind: stream.kind }, count));
            }
        }
    }

    /// Operations of all sessions for each one of these.
    fn every(&self) -> f64 {
        f64::from(self.serving.of) / f64::from(self.serving.sessions)
    }

    /// Places the next operation of a stream. A random gap depends on the operation's number alone,
    /// so that the same SEED makes the same arrivals, whichever session serves them.
    fn place(&self, stream: &mut Stream) {
        let every = self.every();
        match self.pattern {
            Arrivals::Even | Arrivals::Dealt => {
                let offset = f64::from(self.serving.first - 1) / f64::from(self.serving.sessions);
                stream.place = offset + stream.taken as f64 * every;
            }
            Arrivals::Poisson => {
                let kind = stream.kind.map_or(0, |kind| kind.index() as u64 + 1);
                let number = mix(self.seed ^ mix(kind << 56 ^ stream.taken));
                // Uniform in (0, 1): 53 bits, and half of the last one.
                let uniform = ((number >> 11) as f64 + 0.5) / (1u64 << 53) as f64;
                stream.place += every * -uniform.ln();
            }
        }
    }
}

impl Untaken {
    /// The next operation of all streams, and the index of its stream.
    fn next(&self) -> Option<(usize, Arrival)> {
        let arrivals = self.streams.iter().enumerate().filter_map(|(at, stream)| {
            Some((at, Arrival { due: stream.rate.due(stream.place)?, kind: stream.kind }))
        });
        arrivals.min_by_key(|(_, arrival)| arrival.due)
    }
}

/// All queues of a host's sessions.
#[derive(Debug)]
pub struct ArrivalQueues {
    queues: Vec<ArrivalQueue>,
    /// Index of the queue of each seat.
    of_seats: Vec<usize>,
}

impl ArrivalQueues {
    /// Makes a queue for all sessions, or for those of a role: readers and writers keep their
    /// shares. With ARRIVALS=dealt each session has its own. `None`: a closed loop.
    pub fn new(workload: &Workload, seats: &[Seat], plan: &[Seat]) -> Option<Self> {
        let rates = workload.rates.as_ref()?;
        let of = plan.len() as u32;
        let seed = run_root(workload);
        let mut groups: Vec<(Role, Serving)> = Vec::new();
        let mut of_seats = Vec::with_capacity(seats.len());
        for seat in seats {
            let shared = groups.iter().position(|(role, _)| *role == seat.role);
            let known = shared.filter(|_| workload.arrivals != Arrivals::Dealt);
            let at = known.unwrap_or(groups.len());
            match groups.get_mut(at) {
                Some((_, serving)) => serving.sessions += 1,
                None => groups.push((seat.role, Serving { first: seat.session, sessions: 1, of })),
            }
            of_seats.push(at);
        }
        let queue = |(_, serving)| ArrivalQueue::new(rates, workload.arrivals, serving, seed);
        Some(Self { queues: groups.into_iter().map(queue).collect(), of_seats })
    }

    /// The queue of a seat, by its index.
    pub fn of_seat(&self, index: usize) -> Option<&ArrivalQueue> {
        self.queues.get(*self.of_seats.get(index)?)
    }

    /// All queues, each with the index of the first seat that it serves.
    pub fn with_seats(&self) -> impl Iterator<Item = (usize, &ArrivalQueue)> {
        let seat = |queue| self.of_seats.iter().position(|of| *of == queue);
        self.queues.iter().enumerate().filter_map(move |(at, queue)| Some((seat(at)?, queue)))
    }
}

#[cfg(test)]
mod tests {
    use super::simulated::{mean_and_p99, responses};
    use super::*;
    use proptest::prelude::*;

    const PATTERNS: [Arrivals; 3] = [Arrivals::Poisson, Arrivals::Even, Arrivals::Dealt];

    fn all(rate: f64) -> ArrivalRates {
        ArrivalRates::All(RateOverTime::constant(rate))
    }

    fn queue(rates: &ArrivalRates, pattern: Arrivals) -> ArrivalQueue {
        ArrivalQueue::new(rates, pattern, Serving { first: 1, sessions: 1, of: 1 }, 7)
    }

    fn all_before(queue: &ArrivalQueue, end_s: u64) -> Vec<Arrival> {
        let end = Duration::from_secs(end_s);
        std::iter::from_fn(|| queue.take()).take_while(|arrival| arrival.due < end).collect()
    }

    fn is_sorted(arrivals: &[Arrival]) -> bool {
        arrivals.is_sorted_by_key(|arrival| arrival.due)
    }

    #[test]
    fn each_kind_is_due_at_its_own_rate() {
        let rate = |text| RateOverTime::parse(text).unwrap();
        let rates = ArrivalRates::ByKind([rate("100"), rate("0:0 50:10"), rate("40")]);
        assert_eq!(Kind::ALL.map(|kind| rates.has(kind)), [Some(true); 3]);
        for pattern in PATTERNS {
            let arrivals = all_before(&queue(&rates, pattern), 100);
            assert!(is_sorted(&arrivals));
            for (kind, expected) in Kind::ALL.into_iter().zip([10_000, 500, 4000]) {
                let count = arrivals.iter().filter(|it| it.kind == Some(kind)).count() as f64;
                // Five deviations of a Poisson count.
                let most = if pattern == Arrivals::Poisson {
                    5.0 * f64::sqrt(expected.into())
                } else {
                    0.0
                };
                assert!((count - f64::from(expected)).abs() <= most, "{kind:?}: {count}");
            }
        }
    }

    #[test]
    fn an_operation_that_is_never_due_is_never_next() {
        let none = || RateOverTime::constant(0.0);
        let rates = ArrivalRates::ByKind([RateOverTime::parse("0:1 2:0").unwrap(), none(), none()]);
        let queue = queue(&rates, Arrivals::Even);
        assert_eq!(std::iter::from_fn(|| queue.take()).count(), 2);
        assert_eq!(queue.take(), None);
        assert_eq!((rates.has(Kind::Select), rates.has(Kind::Update)), (Some(true), Some(false)));
        assert_eq!(all(1.0).has(Kind::Update), None);
    }

    /// Gaps of a Poisson process are exponential: their mean is their deviation, a share of 1 - 1/e
    /// is below it, and neighbours do not depend on each other.
    #[test]
    fn gaps_of_poisson_arrivals_are_exponential_and_independent() {
        let arrivals = all_before(&queue(&all(1000.0), Arrivals::Poisson), 200);
        let gaps: Vec<f64> = arrivals
            .windows(2)
            .map(|two| (two[1].due - two[0].due).as_secs_f64() * 1000.0)
            .collect();
        let count = gaps.len() as f64;
        let mean = gaps.iter().sum::<f64>() / count;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / count;
        let below = gaps.iter().filter(|gap| **gap < mean).count() as f64 / count;
        let together = gaps.windows(2).map(|two| (two[0] - mean) * (two[1] - mean)).sum::<f64>();
        assert!((mean - 1.0).abs() < 0.01, "{mean}");
        assert!((variance - 1.0).abs() < 0.03, "{variance}");
        assert!((below - (1.0 - (-1f64).exp())).abs() < 0.005, "{below}");
        assert!((together / count / variance).abs() < 0.01, "{together}");
    }

    #[test]
    fn the_same_seed_makes_the_same_arrivals_whoever_takes_them() {
        let made = |seed| {
            let serving = Serving { first: 1, sessions: 4, of: 4 };
            all_before(&ArrivalQueue::new(&all(100.0), Arrivals::Poisson, serving, seed), 10)
        };
        assert_eq!(made(1), made(1));
        assert_ne!(made(1), made(2));
    }

    #[test]
    fn a_session_takes_a_second_one_only_if_each_session_finds_one() {
        let rates = all(10.0);
        let serving = Serving { first: 1, sessions: 3, of: 3 };
        let queue = ArrivalQueue::new(&rates, Arrivals::Even, serving, 7);
        let at_ms = Duration::from_millis;
        assert_eq!(queue.take().map(|it| it.due), Some(at_ms(0)));
        // Due at 0.1 and 0.2 s: two more sessions take them.
        assert_eq!(queue.take_late(at_ms(250)), None);
        assert_eq!(queue.take_late(at_ms(350)).map(|it| it.due), Some(at_ms(100)));
        assert_eq!(queue.take_late(at_ms(350)), None);
    }

    #[test]
    fn one_that_was_given_back_is_next_again() {
        let queue = queue(&all(10.0), Arrivals::Even);
        let first = queue.take().unwrap();
        let second = queue.take().unwrap();
        queue.give_back(second);
        queue.give_back(first);
        let due_ms = || queue.take().map(|it| it.due.as_millis());
        assert_eq!([due_ms(), due_ms(), due_ms()], [Some(0), Some(100), Some(200)]);
    }

    /// Sixteen sessions, 90 % busy, exponential service times of 1 ms on average.
    #[test]
    fn one_queue_answers_as_a_pool_of_servers_does() {
        let (mean, p99) = simulated::of_busy_sessions(Arrivals::Poisson);
        let erlang = simulated::expected_mean_s();
        assert!((mean / erlang - 1.0).abs() < 0.03, "{mean} s instead of {erlang}");
        assert!((0.005..0.0056).contains(&p99), "{p99}");
        let (mean, p99) = simulated::of_busy_sessions(Arrivals::Even);
        assert!(
            (0.00105..0.00115).contains(&mean) && (0.0045..0.005).contains(&p99),
            "{mean} {p99}"
        );
        let (mean, p99) = simulated::of_busy_sessions(Arrivals::Dealt);
        assert!((0.0048..0.0056).contains(&mean) && (0.021..0.026).contains(&p99), "{mean} {p99}");
    }

    /// 400 SELECTs of 0.6 ms and a scan of 95 ms each second.
    #[test]
    fn selects_do_not_wait_behind_a_scan_while_other_sessions_are_free() {
        let rate = RateOverTime::constant;
        let rates = ArrivalRates::ByKind([rate(400.0), rate(1.0), rate(0.0)]);
        let service = |kind| if kind == Some(Kind::Scan) { 0.095 } else { 0.0006 };
        let p99 =
            |pattern| mean_and_p99(&responses(&rates, pattern, 4, Some(Kind::Select), service)).1;
        assert!(p99(Arrivals::Dealt) > 0.050, "{}", p99(Arrivals::Dealt));
        assert!(p99(Arrivals::Poisson) < 0.001, "{}", p99(Arrivals::Poisson));
    }

    #[test]
    fn readers_and_writers_keep_their_shares() {
        use petal_settings::Settings;
        let rate = Some(RateOverTime::constant(1000.0));
        let settings =
            Settings { rate, arrivals: Arrivals::Even, work_unit: 64, ..Settings::default() };
        let workload = Workload::new(&settings, 10_000, 8192, 1, 1, 1);
        let seat = |session, role| Seat { session, schema: 1, endpoint: 0, role };
        let plan: Vec<Seat> = (1..=4)
            .map(|session| seat(session, if session < 4 { Role::Reader } else { Role::Writer }))
            .collect();
        let queues = ArrivalQueues::new(&workload, &plan, &plan).unwrap();
        let count = |index| all_before(queues.of_seat(index).unwrap(), 10).len();
        assert_eq!((count(0), count(3)), (7500, 2500));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        #[test]
        fn all_hosts_together_have_the_whole_rate(
            rate in 1.0f64..10_000.0, hosts in prop::collection::vec(1u32..20, 1..5), seconds in 1u64..10,
            pattern in prop::sample::select(&PATTERNS),
        ) {
            let of = hosts.iter().sum();
            let mut first = 1;
            let mut count = 0u64;
            for sessions in &hosts {
                let serving = Serving { first, sessions: *sessions, of };
                let queue = ArrivalQueue::new(&all(rate), pattern, serving, 7);
                queue.take_all(Duration::from_secs(seconds), u64::MAX, |_, many| count += many);
                first += sessions;
            }
            let asked = rate * seconds as f64;
            let most = match pattern {
                Arrivals::Poisson => 6.0 * asked.sqrt() + 1.0,
                _ => hosts.len() as f64,
            };
            prop_assert!((count as f64 - asked).abs() <= most, "{} of {}", count, asked);
        }

        #[test]
        fn what_is_left_at_the_end_is_counted_whether_it_is_drawn_or_not(
            rate in 1e3f64..3e9, pattern in prop::sample::select(&PATTERNS),
        ) {
            let queue = queue(&all(rate), pattern);
            let (mut count, mut last) = (0u64, Duration::ZERO);
            queue.take_all(Duration::from_secs(20), u64::MAX, |arrival, many| {
                assert!(arrival.due >= last && arrival.due.as_secs() < 20);
                (count, last) = (count + many, arrival.due);
            });
            let asked = rate * 20.0;
            prop_assert!((count as f64 - asked).abs() <= 6.0 * asked.sqrt(), "{} of {}", count, asked);
            prop_assert!(last.as_secs_f64() > 19.9);
        }

        #[test]
        fn no_more_are_taken_than_were_to_be_done(most in 0u64..300_000) {
            let mut count = 0u64;
            let queue = queue(&all(1e5), Arrivals::Even);
            queue.take_all(Duration::from_secs(2), most, |_, many| count += many);
            prop_assert_eq!(count, most.min(200_000));
        }
    }
}
