//! A run's choices as numbers: the work of every session, and its place.

use petal_settings::rates::RateOverTime;
use petal_settings::{Arrivals, Settings, ThinkTime};

use super::op::Kind;
use super::seat::{Role, Seat};

/// The workload of a run, in rows and percent. Made once from validated settings.
#[derive(Debug, Clone, PartialEq)]
pub struct Workload {
    /// Root of every random stream, together with cell and repeat.
    pub seed: u64,
    /// Number of a sweep's cell; 0 for a single run.
    pub cell: u32,
    /// The repeat, from 1.
    pub repeat: u32,
    /// Distinguishes runs of one seed, cell and repeat: their choices are the same, but their
    /// UPDATEs write different stamps.
    pub attempt: u64,
    pub schemas: u32,
    /// Rows in use of each main table: keys are 1..=rows.
    pub rows: u64,
    pub work_unit: u32,
    pub update_work_unit: u32,
    pub update_pct: u8,
    pub scan_pct: u8,
    pub hot_spot: Option<HotKeys>,
    /// Every n-th operation goes to schema 1; 0: none.
    pub hot_schema_frequency: u32,
    pub think_time: Option<ThinkTime>,
    /// Operations per session; 0: no limit.
    pub work_loop: u64,
    /// Times at which operations are due; None: closed loop.
    pub rates: Option<ArrivalRates>,
    pub arrivals: Arrivals,
}

/// The hot spot in keys: `first..first + rows`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HotKeys {
    pub first: u64,
    pub rows: u64,
    /// Every n-th operation lies in it.
    pub frequency: u32,
}

impl Workload {
    /// `rows` per schema in blocks of `block_size` bytes; the settings were checked against both.
    /// A single run: see [`Workload::of_cell`].
    pub fn new(
        settings: &Settings,
        rows: u64,
        block_size: u64,
        schemas: u32,
        seed: u64,
        repeat: u32,
    ) -> Self {
        let hot_spot = settings.hotspot.map(|spot| HotKeys {
            first: spot.offset_bytes / block_size + 1,
            rows: spot.bytes / block_size,
            frequency: spot.frequency,
        });
        Self {
            seed,
            cell: 0,
            repeat,
            attempt: 0,
            schemas,
            rows,
            work_unit: settings.work_unit,
            update_work_unit: settings.update_work_unit,
            update_pct: settings.update_pct,
            scan_pct: settings.scan_pct,
            hot_spot,
            hot_schema_frequency: settings.hot_schema_frequency,
            think_time: settings.think_time,
            work_loop: settings.work_loop,
            rates: rates(settings),
            arrivals: settings.arrivals,
        }
    }

    /// Makes this workload a cell of a sweep, from 1, with separate random streams.
    pub fn of_cell(self, cell: u32) -> Self {
        Self { cell, ..self }
    }

    /// Makes this workload another attempt at the same choices.
    pub fn of_attempt(self, attempt: u64) -> Self {
        Self { attempt, ..self }
    }

    /// True if some session can write.
    pub fn writes(&self, seats: &[Seat]) -> bool {
        if let Some(writes) = self.rates.as_ref().and_then(|rates| rates.has(Kind::Update)) {
            return writes;
        }
        seats.iter().any(|seat| match seat.role {
            Role::Mixed => self.update_pct > 0,
            Role::Reader => false,
            Role::Writer => true,
        })
    }

    /// True if some session can scan.
    pub fn scans(&self, seats: &[Seat]) -> bool {
        if let Some(scans) = self.rates.as_ref().and_then(|rates| rates.has(Kind::Scan)) {
            return scans;
        }
        self.scan_pct > 0
            && seats.iter().any(|seat| match seat.role {
                Role::Mixed => self.update_pct < 100,
                Role::Reader => true,
                Role::Writer => false,
            })
    }
}

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

/// The rates that the settings ask for, scaled.
fn rates(settings: &Settings) -> Option<ArrivalRates> {
    let or_none =
        |rate: &Option<RateOverTime>| rate.clone().unwrap_or_else(|| RateOverTime::constant(0.0));
    let rates = match (&settings.rate, settings.has_kind_rates()) {
        (_, true) => ArrivalRates::ByKind(Kind::ALL.map(|kind| {
            or_none(match kind {
                Kind::Select => &settings.select_rate,
                Kind::Scan => &settings.scan_rate,
                Kind::Update => &settings.update_rate,
            })
        })),
        (Some(rate), false) => ArrivalRates::All(rate.clone()),
        (None, false) => return None,
    };
    Some(rates.scaled(settings.rate_scale))
}

/// The most sessions of a run: each is a thread of petal's, with four mappings of memory, of which
/// the kernel gives a process 65,530 (vm.max_map_count).
pub const SESSIONS_MAX: u32 = 10_000;

/// Number of sessions that the settings ask for on `schemas` schemas.
pub fn sessions(settings: &Settings, schemas: u32) -> u64 {
    match (settings.readers, settings.writers) {
        (None, None) => settings
            .sessions
            .map_or_else(|| u64::from(schemas) * u64::from(settings.threads_per_schema), u64::from),
        (readers, writers) => u64::from(readers.unwrap_or(0)) + u64::from(writers.unwrap_or(0)),
    }
}

/// Seats every session: as many of a mix as the settings ask for, or `schemas` x
/// `threads_per_schema`; or `readers` and `writers`. Sessions go round the schemas, so the first
/// ones cover them all; fewer sessions than schemas share them out by [`schemas_of`].
///
/// Endpoints are assigned as in SLOB: with many schemas by schema, so that no two nodes touch the
/// same blocks; with a single schema by session.
pub fn seats(settings: &Settings, schemas: u32, endpoints: u32) -> Vec<Seat> {
    let roles: Vec<(u32, Role)> = match (settings.readers, settings.writers) {
        (None, None) => {
            let sessions = settings.sessions.unwrap_or(schemas * settings.threads_per_schema);
            (0..sessions).map(|at| (at, Role::Mixed)).collect()
        }
        (readers, writers) => (0..readers.unwrap_or(0))
            .map(|at| (at, Role::Reader))
            .chain((0..writers.unwrap_or(0)).map(|at| (at, Role::Writer)))
            .collect(),
    };
    roles
        .into_iter()
        .enumerate()
        .map(|(index, (at, role))| {
            let schema = at % schemas + 1;
            let session = index as u32 + 1;
            let rotor = if schemas > 1 { schema - 1 } else { session - 1 };
            Seat { session, schema, endpoint: rotor % endpoints.max(1), role }
        })
        .collect()
}

/// The schemas that a session visits in turn, its home first. Even a few sessions of a role thus
/// touch all schemas. The k-th of n sessions has schemas k, k + n, k + 2n and so
/// on: no two sessions visit the same one. If n does not divide the number of schemas, some
/// sessions have one more than others.
pub fn schemas_of(seat: Seat, seats: &[Seat], schemas: u32) -> Vec<u32> {
    let sessions = seats.iter().filter(|other| other.role == seat.role).count().max(1);
    (seat.schema..=schemas.max(seat.schema)).step_by(sessions).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_number_of_sessions_touches_every_schema_of_its_role(
            sessions in 1u32..40, readers in 1u32..20, writers in 1u32..20, schemas in 1u32..20,
        ) {
            let mix = Settings { sessions: Some(sessions), ..Settings::default() };
            let apart = Settings {
                readers: Some(readers), writers: Some(writers), ..Settings::default()
            };
            for settings in [mix, apart] {
                let seats = seats(&settings, schemas, 1);
                for role in [Role::Mixed, Role::Reader, Role::Writer] {
                    let of_role = seats.iter().filter(|seat| seat.role == role);
                    let mut visits = vec![0; schemas as usize];
                    let mut count = 0;
                    for seat in of_role {
                        count += 1;
                        for schema in schemas_of(*seat, &seats, schemas) {
                            visits[schema as usize - 1] += 1;
                        }
                    }
                    if count == 0 { continue }
                    prop_assert!(visits.iter().all(|&n| n >= 1), "{visits:?}");
                    // As even as whole numbers can be, and no schema is shared if there is room.
                    let most = *visits.iter().max().unwrap();
                    prop_assert!(most - visits.iter().min().unwrap() <= 1);
                    prop_assert!(count > schemas || most == 1);
                }
            }
        }
    }

    #[test]
    fn few_sessions_share_the_schemas_out() {
        let settings = Settings { sessions: Some(3), ..Settings::default() };
        let seats = seats(&settings, 8, 1);
        let visited: Vec<Vec<u32>> =
            seats.iter().map(|seat| schemas_of(*seat, &seats, 8)).collect();
        assert_eq!(visited, [vec![1, 4, 7], vec![2, 5, 8], vec![3, 6]]);
    }

    #[test]
    fn every_schema_gets_its_threads() {
        let settings = Settings { threads_per_schema: 3, ..Settings::default() };
        let seats = seats(&settings, 4, 1);
        assert_eq!(seats.len(), 12);
        for schema in 1..=4 {
            assert_eq!(seats.iter().filter(|seat| seat.schema == schema).count(), 3);
        }
        assert!(seats.iter().enumerate().all(|(at, seat)| seat.session == at as u32 + 1));
    }

    #[test]
    fn endpoints_follow_schemas_or_sessions() {
        let settings = Settings { threads_per_schema: 4, ..Settings::default() };
        for seat in seats(&settings, 5, 3) {
            assert_eq!(seat.endpoint, (seat.schema - 1) % 3);
        }
        for seat in seats(&settings, 1, 3) {
            assert_eq!(seat.endpoint, (seat.session - 1) % 3);
        }
    }

    #[test]
    fn readers_and_writers_cover_the_schemas_each() {
        let settings = Settings { readers: Some(4), writers: Some(2), ..Settings::default() };
        let seats = seats(&settings, 2, 1);
        let of = |role| seats.iter().filter(move |seat| seat.role == role).map(|seat| seat.schema);
        assert_eq!(of(Role::Reader).collect::<Vec<_>>(), [1, 2, 1, 2]);
        assert_eq!(of(Role::Writer).collect::<Vec<_>>(), [1, 2]);
    }
}
