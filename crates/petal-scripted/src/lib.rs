//! Engine without a database: operations take the time that a script specifies, and data are files
//! of blocks. It is for tests of petal, and the smallest example of an engine; no released build
//! contains it.
//!
//! `scripted:DIR?select_us=N&scan_us=N&update_us=N&load_us=N` keeps its rows in a folder and takes
//! real time; `lie=NAME` breaks a promise of the contract ([`Lie`]), and `panic_at=N` makes the first
//! session's Nth operation panic. Tests of the runner use one in
//! memory with faults and a simulated clock, on which hours pass in no time.

#![cfg_attr(test, allow(clippy::disallowed_methods))]

mod data;
mod liar;
pub mod lies;
mod session;

use std::any::Any;
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use self::data::{RECORD_BYTES, SchemaFolder, ScriptedFormat};
use self::liar::Liar;
use self::lies::Lie;
use self::session::ScriptedSession;
use petal_engine::in_use::{DataUse, Unshared};
use petal_engine::server::data_name::data_name;
use petal_engine::server::loader::Load;
use petal_engine::url_option::UrlOptions;
use petal_engine::{
    Engine, EngineError, LoadPlan, LoadSummary, Needs, Placement, Progress, Result, RowReader,
    Server, Session, Stop,
};
use petal_host::histogram::Latencies;
use petal_record::counters::{Counters, IoCounts, Wait, WaitClass, WaitSource};
use petal_record::server_work::ServerWork;
use petal_record::target::{Durability, IoEvents, LoadedSchema, Settled, Target, TargetDetails};
use petal_settings::Settings;
use petal_settings::table::EngineSupport;
use petal_settings::table::support::SCRIPTED;
use petal_workload::op::{Kind, Operation};
use petal_workload::seat::Seat;

/// Latencies and faults of a scripted target.
#[derive(Debug, Clone, Default)]
pub struct Script {
    /// Latency of SELECT, scan and UPDATE.
    pub latency: [Duration; Kind::ALL.len()],
    /// Time that a loaded row takes.
    pub load: Duration,
    /// Faults: session, number of the operation from 1, and fault.
    pub faults: Vec<(u32, u64, Fault)>,
    /// Session that cannot connect.
    pub refused: Option<u32>,
    pub sessions_max: Option<u32>,
    pub snapshot_fails: bool,
    /// First snapshot of the counters that panics, from 0.
    pub snapshot_panics_from: Option<u64>,
    /// Commits, and as many reads, of others each second, always and in some seconds.
    pub others_per_s: u64,
    pub bursts_per_s: u64,
    /// Promise that it breaks.
    pub lie: Option<Lie>,
    /// Record of every session's operations, in their order.
    pub trace: Option<OperationTrace>,
}

/// Path of the folder, next to others' if this process uses separate data.
fn folder_path(settings: &Settings) -> String {
    let suffix = data_name().trim_start_matches("petal");
    format!("{}{suffix}", settings.db.rest.trim_end_matches('/'))
}

/// Work of others since this process began: that many each second, and in some seconds more.
fn others_at(per_s: u64, in_burst_per_s: u64) -> (u64, u64) {
    static BEGIN: LazyLock<Instant> = LazyLock::new(Instant::now);
    let ms = BEGIN.elapsed().as_millis() as u64;
    // Two seconds of work after one, two or three of rest, so that no two intervals are alike.
    let (mut at, mut rest, mut worked_ms) = (0, 1000, 0);
    while at < ms {
        worked_ms += ms.saturating_sub(at + rest).min(2000);
        at += rest + 2000;
        rest = rest % 3000 + 1000;
    }
    (ms * per_s / 1000, worked_ms * in_burst_per_s / 1000)
}

/// Operations by session.
pub type OperationTrace = Arc<Mutex<BTreeMap<u32, Vec<Operation>>>>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The operation fails and the session goes on.
    Busy,
    /// The session ends.
    Die,
    /// The operation lasts until it is cancelled.
    Hang,
    /// The session's thread panics.
    Panic,
}

const OPTIONS: UrlOptions = UrlOptions("scripted");

impl Script {
    fn parse(options: &BTreeMap<String, String>) -> Result<Self> {
        let mut script = Self::default();
        for (key, value) in options {
            let time = match key.as_str() {
                "select_us" => &mut script.latency[Kind::Select.index()],
                "scan_us" => &mut script.latency[Kind::Scan.index()],
                "update_us" => &mut script.latency[Kind::Update.index()],
                "load_us" => &mut script.load,
                "lie" => {
                    script.lie = Lie::named(value);
                    continue;
                }
                "others_per_s" | "bursts_per_s" => {
                    let others = match key.as_str() {
                        "others_per_s" => &mut script.others_per_s,
                        _ => &mut script.bursts_per_s,
                    };
                    *others = value.parse().unwrap_or(0);
                    continue;
                }
                "panic_at" => {
                    script.faults.extend(value.parse().map(|at| (1, at, Fault::Panic)));
                    continue;
                }
                _ => return Err(OPTIONS.unknown(key, "select_us, scan_us, update_us and load_us")),
            };
            let us = value.parse::<u32>().map_err(|_| {
                OPTIONS.refused(key, value, "is not a number of microseconds", "write 100")
            })?;
            *time = Duration::from_micros(us.into());
        }
        Ok(script)
    }
}

/// Storage of the rows.
#[derive(Debug, Clone)]
enum ScriptedData {
    /// Schemas of this many rows, as many as requested; nothing is kept.
    Endless {
        rows: u64,
    },
    Files(SchemaFolder),
}

#[derive(Default)]
struct ScriptedTotals {
    reads: AtomicU64,
    writes: AtomicU64,
    commits: AtomicU64,
    read_latencies: Mutex<Latencies>,
    snapshots: AtomicU64,
}

pub struct Scripted {
    script: Arc<Script>,
    data: ScriptedData,
    totals: Arc<ScriptedTotals>,
}

impl Scripted {
    /// Opens the target of a URL.
    pub fn open(settings: &Settings) -> Result<Arc<dyn Engine>> {
        let script = Arc::new(Script::parse(&settings.db.options)?);
        let lie = script.lie;
        let data = ScriptedData::Files(SchemaFolder::new(&folder_path(settings), ScriptedFormat));
        let honest = Self { script, data, totals: Arc::default() };
        Ok(match lie {
            Some(lie) => Arc::new(Liar::new(honest, lie)),
            None => Arc::new(honest),
        })
    }

    /// Returns a target with `rows` rows in each schema, and as many schemas as requested.
    pub fn in_memory(script: Script, rows: u64) -> Self {
        Self {
            script: Arc::new(script),
            data: ScriptedData::Endless { rows },
            totals: Arc::default(),
        }
    }

    /// Returns the folder of a target that keeps data.
    fn folder(&self) -> Result<&SchemaFolder> {
        match &self.data {
            ScriptedData::Files(folder) => Ok(folder),
            ScriptedData::Endless { .. } => {
                Err(EngineError::Setting("scripted: keeps no data in memory; name a folder".into()))
            }
        }
    }

    fn counters(&self) -> Counters {
        let (steady, bursts) = others_at(self.script.others_per_s, self.script.bursts_per_s);
        let others = steady + bursts;
        let reads = self.totals.reads.load(Ordering::Relaxed) + others;
        let writes = self.totals.writes.load(Ordering::Relaxed);
        let commits = self.totals.commits.load(Ordering::Relaxed) + others;
        let block_size = u64::from(SCRIPTED.block_size_default);
        let latencies = self.totals.read_latencies.lock().clone();
        Counters {
            endpoint: "scripted".into(),
            io: IoCounts {
                logical_reads: Some(reads),
                physical_read_blocks: Some(reads),
                physical_read_requests: Some(reads),
                physical_read_bytes: Some(reads * block_size),
                physical_write_blocks: Some(writes),
                physical_write_requests: Some(writes),
                physical_write_bytes: Some(writes * block_size),
                log_read_blocks: None,
                redo_bytes: Some(commits * RECORD_BYTES as u64),
                commits: Some(commits),
                log_syncs: Some(commits),
            },
            waits: vec![Wait {
                name: "read".into(),
                class: WaitClass::UserIo,
                source: WaitSource::Timed,
                waits: Some(latencies.count()),
                time_ns: latencies.total_ns(),
                latencies: Some(latencies),
                buckets: BTreeMap::new(),
            }],
            raw: BTreeMap::from([("commits".into(), commits)]),
            ..Counters::default()
        }
    }
}

impl Engine for Scripted {
    fn support(&self) -> &'static EngineSupport {
        &SCRIPTED
    }

    fn loaded(&self) -> Result<Vec<LoadedSchema>> {
        match &self.data {
            ScriptedData::Endless { rows } => {
                Ok((1..=1000).map(|number| data::schema_of(number, *rows)).collect())
            }
            ScriptedData::Files(folder) => data::loaded(folder),
        }
    }

    fn describe(&self, _: u32, _: u32) -> Result<(Target, TargetDetails)> {
        let target = Target {
            product: SCRIPTED.product.into(),
            version: "1".into(),
            block_size: SCRIPTED.block_size_default.into(),
            cache_bytes: None,
            url: "scripted:".into(),
        };
        let details = TargetDetails {
            io_events: IoEvents {
                read: "read".into(),
                timed_by: "the script".into(),
                ..IoEvents::default()
            },
            durability: self.folder().ok().map(|_| Durability {
                durable: true,
                setting: "each UPDATE's log record is synced".to_owned(),
            }),
            ..TargetDetails::default()
        };
        Ok((target, details))
    }

    fn load(&self, plan: &LoadPlan, progress: &dyn Progress, stop: &Stop) -> Result<LoadSummary> {
        data::load(self.folder()?, Load { plan, progress, stop }, self.script.load)
    }

    /// Each session opens two schemas, its own and the hot one: rows and log.
    fn needs(&self, seats: &[Seat], _: u32) -> Result<Needs> {
        Ok(Needs { files: seats.len() as u64 * 4, ..Needs::default() })
    }

    fn settle(&self, _: &dyn Progress, _: &Stop) -> Result<Settled> {
        let done = match &self.data {
            ScriptedData::Endless { .. } => Vec::new(),
            ScriptedData::Files(folder) => data::settle(folder)?,
        };
        Ok(Settled { done, ..Settled::default() })
    }

    fn connect(&self, seat: Seat) -> Result<Box<dyn Session>> {
        if self.script.refused == Some(seat.session) {
            return Err(EngineError::Environment("scripted: connection refused".into()));
        }
        let (script, data) = (Arc::clone(&self.script), self.data.clone());
        Ok(Box::new(ScriptedSession::new(seat, script, data, Arc::clone(&self.totals))))
    }

    fn read_counters(&self, _in_full: bool) -> Result<Vec<Counters>> {
        let earlier = self.totals.snapshots.fetch_add(1, Ordering::Relaxed);
        let panics = self.script.snapshot_panics_from.is_some_and(|from| earlier >= from);
        assert!(!panics, "scripted: snapshot panicked");
        if self.script.snapshot_fails && earlier > 0 {
            return Err(EngineError::Database("scripted: snapshot failed".into()));
        }
        Ok(vec![self.counters()])
    }

    fn placement(&self, schema: u32) -> Result<Placement> {
        match &self.data {
            ScriptedData::Endless { rows } => Ok(data::placement_of(*rows)),
            ScriptedData::Files(folder) => data::placement(folder, schema),
        }
    }

    fn drop_data(&self) -> Result<Vec<String>> {
        self.folder()?.drop_data()
    }

    fn begin_use(&self, schemas: u32) -> Result<Box<dyn DataUse>> {
        Ok(match &self.data {
            ScriptedData::Endless { .. } => Box::new(Unshared),
            ScriptedData::Files(folder) => Box::new(folder.begin_use(1..=schemas)?),
        })
    }

    fn row_reader(&self, schema: u32) -> Result<Box<dyn RowReader>> {
        Ok(Box::new(data::open(self.folder()?, schema)?))
    }

    fn server(&self) -> Option<&dyn Server> {
        Some(self)
    }
}

impl Server for Scripted {
    fn visits_of_a_row(&self) -> RangeInclusive<f64> {
        1.0..=1.0
    }

    fn redo_of_updates(&self, updates: u64, _: u64) -> Option<RangeInclusive<u64>> {
        let redo = updates * RECORD_BYTES as u64;
        Some(redo..=redo)
    }

    fn hold_rows(&self, schema: u32) -> Result<Option<Box<dyn Any>>> {
        let lock = data::open(self.folder()?, schema)?.lock();
        let lock = lock.map_err(|error| EngineError::Environment(error.to_string()))?;
        Ok(lock.map(|lock| Box::new(lock) as _))
    }

    fn server_work(&self) -> Result<Vec<ServerWork>> {
        Ok(Vec::new())
    }

    fn sessions_max(&self) -> Result<Option<u32>> {
        Ok(self.script.sessions_max)
    }
}
