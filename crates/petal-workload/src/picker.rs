//! The stream of operations of one session: kind, schema, range and think time, from its own random
//! stream. Every engine gets the same stream for the same seed.

use std::time::Duration;

use rand::{RngExt as _, SeedableRng as _};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::deck::Deck;
use super::op::{Hot, Kind, Operation};
use super::plan::Workload;
use super::scatter::mix;
use super::seat::{Role, Seat};
use super::version::{RunStamps, Version, run_root};

/// The next step of a session: optional think time, then one operation.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Step {
    pub think: Option<Duration>,
    pub operation: Operation,
}

/// Operations after which a session with several schemas goes on to the next one: enough for a
/// server's loop to get whole batches of one schema, and few compared with a run.
const TURN_OPERATIONS: u64 = 64;

/// Chooses the operations of one session, for ever.
#[derive(Debug, Clone)]
pub struct Picker {
    workload: Workload,
    seat: Seat,
    stream: Xoshiro256PlusPlus,
    updates: Deck,
    /// Advanced only by SELECTs.
    scans: Deck,
    /// Operations chosen so far.
    chosen: u64,
    stamps: RunStamps,
    /// Schemas that it visits in turn.
    schemas: Vec<u32>,
}

impl Picker {
    /// The stream f(SEED, cell, repeat, session).
    pub fn new(workload: &Workload, seat: Seat) -> Self {
        let update_pct = match seat.role {
            Role::Mixed => workload.update_pct,
            Role::Reader => 0,
            Role::Writer => 100,
        };
        let session = mix(u64::from(seat.session));
        Self {
            stream: Xoshiro256PlusPlus::seed_from_u64(mix(run_root(workload) ^ session)),
            updates: Deck::new(update_pct),
            scans: Deck::new(workload.scan_pct),
            chosen: 0,
            stamps: RunStamps::of(workload),
            schemas: vec![seat.schema],
            seat,
            workload: workload.clone(),
        }
    }

    /// Visits these schemas in turn, not only the home schema: see [`super::plan::schemas_of`].
    pub fn visiting(self, schemas: Vec<u32>) -> Self {
        assert!(!schemas.is_empty(), "a session without a schema");
        Self { schemas, ..self }
    }

    /// The next operation, and the think time before it.
    pub fn next_step(&mut self) -> Step {
        self.next_step_of(None)
    }

    /// The next operation, of this kind if one is given: rates may choose it instead of the deck.
    pub fn next_step_of(&mut self, kind: Option<Kind>) -> Step {
        let think = self.think();
        self.chosen += 1;
        let kind = kind.unwrap_or_else(|| self.kind());
        let hot = self.hot(kind);
        let schema = match hot[Hot::Schema.index()] {
            true => 1,
            false => self.schemas[turn_of(self.chosen, self.schemas.len())],
        };
        let rows = match kind {
            Kind::Update => self.workload.update_work_unit,
            Kind::Select | Kind::Scan => self.workload.work_unit,
        };
        let first = self.first_key(u64::from(rows));
        let version = Version { session: self.seat.session, sequence: self.chosen };
        let stamp = self.stamps.stamp(version);
        Step { think, operation: Operation { kind, schema, first, rows, stamp, due: None, hot } }
    }

    /// Sends every Nth operation to each hot area; a scan reads the whole scan table, which has no
    /// hot spot.
    fn hot(&self, kind: Kind) -> [bool; Hot::ALL.len()] {
        let is_nth = |every: u32| every > 0 && self.chosen.is_multiple_of(u64::from(every));
        let spot = self.workload.hot_spot.filter(|_| kind != Kind::Scan);
        [
            spot.is_some_and(|spot| is_nth(spot.frequency)),
            is_nth(self.workload.hot_schema_frequency),
        ]
    }

    fn think(&mut self) -> Option<Duration> {
        let think = self.workload.think_time?;
        if self.stream.random_range(0..think.frequency) > 0 {
            return None;
        }
        let span = (think.max - think.min).as_secs_f64();
        Some(think.min + Duration::from_secs_f64(span * self.stream.random::<f64>()))
    }

    fn kind(&mut self) -> Kind {
        if self.updates.draw(&mut self.stream) {
            Kind::Update
        } else if self.scans.draw(&mut self.stream) {
            Kind::Scan
        } else {
            Kind::Select
        }
    }

    /// Uniform over all keys at which a range of `rows` fits: in the spot or in the whole data.
    fn first_key(&mut self, rows: u64) -> u64 {
        let (first, size) = match self.workload.hot_spot {
            Some(spot) if self.chosen.is_multiple_of(u64::from(spot.frequency)) => {
                (spot.first, spot.rows)
            }
            _ => (1, self.workload.rows),
        };
        assert!(rows <= size, "a range of {rows} rows does not fit into {size}");
        self.stream.random_range(first..=first + size - rows)
    }
}

/// Index of the schema whose turn is at operation n (from 1).
fn turn_of(operation: u64, schemas: usize) -> usize {
    ((operation - 1) / TURN_OPERATIONS % schemas as u64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::HotKeys;
    use petal_settings::ThinkTime;
    use proptest::prelude::*;
    use statrs::distribution::{ChiSquared, ContinuousCDF as _};

    fn workload() -> Workload {
        Workload {
            seed: 42,
            cell: 0,
            repeat: 1,
            attempt: 0,
            schemas: 4,
            rows: 10_000,
            work_unit: 64,
            update_work_unit: 64,
            update_pct: 25,
            scan_pct: 0,
            hot_spot: None,
            hot_schema_frequency: 0,
            think_time: None,
            work_loop: 0,
            rates: None,
            arrivals: Default::default(),
        }
    }

    fn seat(session: u32, role: Role) -> Seat {
        Seat { session, schema: 3, endpoint: 0, role }
    }

    fn steps(workload: &Workload, session: u32, count: usize) -> Vec<Step> {
        let mut picker = Picker::new(workload, seat(session, Role::Mixed));
        (0..count).map(|_| picker.next_step()).collect()
    }

    fn share(steps: &[Step], kind: Kind) -> usize {
        steps.iter().filter(|step| step.operation.kind == kind).count()
    }

    proptest! {
        #[test]
        fn the_mix_is_exact(update_pct in 0u8..=100, scan_pct in 0u8..=100, seed: u64) {
            let workload = Workload { update_pct, scan_pct, seed, ..workload() };
            let all = steps(&workload, 1, 10_000);
            prop_assert_eq!(share(&all, Kind::Update), 100 * usize::from(update_pct));
            // Whole scan decks are exact; one part-used deck may be up to a deck off.
            let reads = 10_000 - share(&all, Kind::Update);
            let scans = share(&all, Kind::Scan);
            let whole = reads / 100 * usize::from(scan_pct);
            prop_assert!((whole..=whole + usize::from(scan_pct)).contains(&scans));
        }

        #[test]
        fn ranges_never_leave_the_data_or_the_spot(
            rows in 2_000u64..1_000_000, work_unit in 1u32..=1024, update_work_unit in 1u32..=1024,
            offset in 0u64..500, frequency in 1u32..10, seed: u64,
        ) {
            let spot = HotKeys { first: offset + 1, rows: 1_100, frequency };
            let workload = Workload {
                rows, work_unit, update_work_unit, seed, hot_spot: Some(spot), ..workload()
            };
            for (index, step) in steps(&workload, 1, 500).iter().enumerate() {
                let operation = step.operation;
                prop_assert!(operation.first >= 1 && operation.last() <= rows);
                if (index + 1).is_multiple_of(frequency as usize) {
                    prop_assert!(operation.first >= spot.first);
                    prop_assert!(operation.last() < spot.first + spot.rows);
                }
            }
        }

        #[test]
        fn streams_are_reproducible_and_differ(seed: u64, session in 1u32..1000) {
            let workload = Workload { seed, ..workload() };
            let again = Workload { repeat: 2, ..workload.clone() };
            let other = workload.clone().of_cell(7);
            prop_assert_eq!(steps(&workload, session, 50), steps(&workload, session, 50));
            prop_assert_ne!(steps(&workload, session, 50), steps(&workload, session + 1, 50));
            prop_assert_ne!(steps(&workload, session, 50), steps(&again, session, 50));
            prop_assert_ne!(steps(&workload, session, 50), steps(&other, session, 50));
            prop_assert_ne!(steps(&again, session, 50), steps(&other, session, 50));
        }

        #[test]
        fn another_attempt_chooses_the_same_and_writes_other_versions(seed: u64, attempt in 1u64..) {
            let workload = Workload { seed, update_pct: 100, ..workload() };
            let one = steps(&workload, 1, 50);
            let other = steps(&workload.clone().of_attempt(attempt), 1, 50);
            let choices = |all: &[Step]| -> Vec<_> {
                all.iter().map(|it| (it.operation.schema, it.operation.first, it.operation.rows)).collect()
            };
            prop_assert_eq!(choices(&one), choices(&other));
            let mut pairs = one.iter().zip(&other);
            prop_assert!(pairs.all(|(one, other)| one.operation.stamp != other.operation.stamp));
        }

        #[test]
        fn think_times_lie_between_min_and_max(min_ms in 0u64..50, more_ms in 0u64..50, seed: u64) {
            let (min, max) = (Duration::from_millis(min_ms), Duration::from_millis(min_ms + more_ms));
            let think_time = Some(ThinkTime { frequency: 2, min, max });
            let workload = Workload { seed, think_time, ..workload() };
            for think in steps(&workload, 1, 200).iter().filter_map(|step| step.think) {
                prop_assert!(think >= min && think <= max);
            }
        }
    }

    #[test]
    fn starts_are_uniform() {
        let workload = Workload { rows: 1063, ..workload() };
        let bins = 1000; // Starts 1..=1000 for a work unit of 64.
        let draws = 200_000;
        let mut seen = vec![0f64; bins];
        for step in steps(&workload, 1, draws) {
            seen[step.operation.first as usize - 1] += 1.0;
        }
        let expected = draws as f64 / bins as f64;
        let chi_squared: f64 = seen.iter().map(|n| (n - expected).powi(2) / expected).sum();
        let p = 1.0 - ChiSquared::new(bins as f64 - 1.0).unwrap().cdf(chi_squared);
        assert!((0.001..0.999).contains(&p), "chi squared {chi_squared}, p {p}");
    }

    #[test]
    fn think_frequency_is_one_in_f_at_random() {
        let second = Duration::from_secs(1);
        let think_time = Some(ThinkTime { frequency: 5, min: second, max: second });
        let all = steps(&Workload { think_time, ..workload() }, 1, 50_000);
        let thinks = all.iter().filter(|step| step.think.is_some()).count();
        // Binomial(50000, 0.2): 10000 with a standard deviation of 89.
        assert!(thinks.abs_diff(10_000) < 450, "{thinks}");
    }

    #[test]
    fn every_nth_operation_goes_to_the_hot_schema() {
        let all = steps(&Workload { hot_schema_frequency: 3, ..workload() }, 1, 99);
        for (index, step) in all.iter().enumerate() {
            let is_hot = (index + 1) % 3 == 0;
            assert_eq!(step.operation.schema, if is_hot { 1 } else { 3 });
            assert_eq!(step.operation.hot, [false, is_hot]);
        }
    }

    #[test]
    fn operations_in_the_hot_spot_are_marked_and_scans_never_are() {
        let spot = HotKeys { first: 500, rows: 100, frequency: 4 };
        let workload = Workload { hot_spot: Some(spot), scan_pct: 50, update_pct: 0, ..workload() };
        for (index, step) in steps(&workload, 1, 400).iter().enumerate() {
            let is_meant = (index + 1) % 4 == 0 && step.operation.kind != Kind::Scan;
            assert_eq!(step.operation.hot, [is_meant, false]);
        }
    }

    #[test]
    fn a_session_with_several_schemas_visits_them_alike() {
        let mut picker = Picker::new(&workload(), seat(1, Role::Mixed)).visiting(vec![3, 1, 4]);
        let turn = TURN_OPERATIONS as usize;
        let visited: Vec<u32> =
            (0..turn * 6).map(|_| picker.next_step().operation.schema).collect();
        let expected: Vec<u32> =
            [3, 1, 4, 3, 1, 4].into_iter().flat_map(|schema| vec![schema; turn]).collect();
        assert_eq!(visited, expected);
    }

    #[test]
    fn readers_only_read_and_writers_only_write() {
        let workload = Workload { update_pct: 50, scan_pct: 10, ..workload() };
        let kinds = |role| {
            let mut picker = Picker::new(&workload, seat(1, role));
            (0..500).map(|_| picker.next_step().operation.kind).collect::<Vec<_>>()
        };
        assert!(kinds(Role::Reader).iter().all(|kind| *kind != Kind::Update));
        assert!(kinds(Role::Writer).iter().all(|kind| *kind == Kind::Update));
    }

    #[test]
    fn stamps_never_repeat() {
        let workload = workload();
        let mut stamps: Vec<u64> = (1..5)
            .flat_map(|session| steps(&workload, session, 5000))
            .map(|s| s.operation.stamp)
            .collect();
        stamps.sort_unstable();
        let all = stamps.len();
        stamps.dedup();
        assert_eq!(stamps.len(), all);
        assert!(stamps.iter().all(|stamp| stamp >> 63 == 0));
    }
}
