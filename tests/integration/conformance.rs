//! What every engine must do, the same cases for all of them. The targets of an engine are in a file
//! of its own; here it has a line among the modules and one for each target in [`targets!`], each
//! gated by the engine's feature.

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use petal_engine::{Batch, Engine, EngineError, LoadPlan, Outcomes, Session, Silent, Stop};
use petal_model::settings::Settings;
use petal_model::settings::url::TargetUrl;
use petal_model::stats::counters::{Counters, IoCounts, Wait};
use petal_model::workload::op::{Kind, Operation};
use petal_model::workload::picker::Picker;
use petal_model::workload::plan::{HotKeys, Workload};
use petal_model::workload::row::Filler;
use petal_model::workload::seat::{Role, Seat};

use crate::server_postgres;
use crate::support::{Workplace, count};

#[cfg(feature = "device")]
mod device;
#[cfg(feature = "mysql")]
mod mysql;
#[cfg(feature = "oracle")]
mod oracle;
#[cfg(feature = "postgres")]
mod postgres;
mod scripted;
#[cfg(feature = "sqlite")]
mod sqlite;

/// One kind of target.
struct Target {
    /// Whether it can be tested here; tells the skip where not.
    is_there: fn() -> bool,
    /// Kept while a case runs: where only one can at a time.
    turn: fn() -> Box<dyn Any>,
    /// Its URL in a workplace.
    url: fn(&Workplace) -> String,
    /// Flags that make it this kind.
    flags: &'static [&'static str],
    settings: fn() -> Settings,
    block_size: u32,
    /// Its own name for the commits that it counts, and whether reads count among them.
    commits: (&'static str, bool),
    /// Keys of a schema with the text of c2, past petal: in a connection of the test's own.
    look: fn(&Workplace, u32) -> BTreeMap<u64, String>,
    /// Deletes every second row of schema 1 past petal; None where rows cannot go and leave the rest.
    delete_half: Option<fn(&Workplace)>,
    /// A target that cannot be, and what an error must name of it.
    broken: fn(&Workplace) -> (String, String),
}

/// Each case has a target of its own.
fn nobody_waits() -> Box<dyn Any> {
    Box::new(())
}

/// A database for each workplace.
fn own_database(work: &Workplace) -> String {
    let name = work.path("").file_name().unwrap().to_str().unwrap().to_lowercase();
    name.chars().map(|sign| if sign.is_ascii_alphanumeric() { sign } else { '_' }).collect()
}

const ROWS: u64 = 2048;
const SCAN_ROWS: u64 = 48;
const UNIT: u32 = 16;

impl Target {
    fn engine(&self, work: &Workplace) -> Arc<dyn Engine> {
        self.open(&(self.url)(work)).unwrap()
    }

    fn open(&self, url: &str) -> Result<Arc<dyn Engine>, EngineError> {
        let mut settings =
            Settings { update_pct: 100, hot_schema_frequency: 1, ..(self.settings)() };
        settings.db = TargetUrl::parse(url).unwrap();
        petal::engines::open(&settings)
    }

    fn plan(&self, schemas: u32) -> LoadPlan {
        LoadPlan {
            id: 7,
            schemas: (1..=schemas).collect(),
            rows: ROWS,
            scan_rows: SCAN_ROWS,
            block_size: self.block_size,
            degree: 2,
            unique_index: false,
            filler: Filler::Constant,
            seed: 5,
            replace: false,
        }
    }

    fn loaded(&self, schemas: u32) -> (Workplace, Arc<dyn Engine>) {
        let work = Workplace::new();
        let engine = self.engine(&work);
        engine.load(&self.plan(schemas), &Silent, &unlimited()).unwrap();
        (work, engine)
    }

    /// petal with this target.
    fn petal(&self, work: &Workplace, args: &[&str]) -> crate::support::Petal {
        let url = (self.url)(work);
        let flags = if args[0] == "run" { self.flags } else { &[] };
        work.petal([args, &["--db", &url], flags].concat())
    }

    /// The rows of a schema, as [`Target::look`] finds them once petal has closed its data: some
    /// databases can be open only once in a process.
    fn look_after(
        &self,
        engine: Arc<dyn Engine>,
        work: &Workplace,
        schema: u32,
    ) -> BTreeMap<u64, String> {
        assert_eq!(Arc::strong_count(&engine), 1);
        drop(engine);
        (self.look)(work, schema)
    }

    /// Keys whose row is not as `before`, once petal has closed its data.
    fn changed(
        &self,
        engine: Arc<dyn Engine>,
        work: &Workplace,
        schema: u32,
        before: &BTreeMap<u64, String>,
    ) -> Vec<u64> {
        let now = self.look_after(engine, work, schema);
        assert_eq!(now.len() as u64, ROWS);
        now.into_iter().filter(|(key, text)| before[key] != *text).map(|(key, _)| key).collect()
    }
}

fn unlimited() -> Stop {
    Stop::unlimited(Arc::default())
}

fn seat(session: u32, schema: u32, role: Role) -> Seat {
    Seat { session, schema, endpoint: 0, role }
}

fn workload() -> Workload {
    Workload {
        seed: 3,
        cell: 0,
        repeat: 1,
        attempt: 0,
        schemas: 2,
        rows: ROWS,
        work_unit: UNIT,
        update_work_unit: UNIT / 2,
        update_pct: 40,
        scan_pct: 10,
        hot_spot: None,
        hot_schema_frequency: 0,
        think_time: None,
        work_loop: 0,
        rates: None,
        arrivals: Default::default(),
    }
}

fn choose(workload: &Workload, seat: Seat, count: usize) -> Vec<Operation> {
    let mut picker = Picker::new(workload, seat);
    (0..count).map(|_| picker.next_step().operation).collect()
}

/// Executes all of them, none of which may fail; the rows of each.
fn execute(session: &mut dyn Session, batch: &[Operation]) -> Vec<u64> {
    let mut done = Outcomes::default();
    session.execute(Batch::new(batch, &unlimited(), &mut done)).unwrap();
    session.flush_statistics().unwrap();
    assert_eq!(done.ended.len(), batch.len());
    for (at, outcome) in done.ended.iter().enumerate() {
        assert_eq!((outcome.operation as usize, &outcome.error), (at, &None));
        assert!(outcome.latency_ns > Some(0));
    }
    assert!(done.ended.is_sorted_by_key(|outcome| outcome.end_ns));
    done.ended.iter().map(|outcome| outcome.rows).collect()
}

fn n_rows_are_n_blocks(target: &Target) {
    let _alone = server_postgres::alone();
    let (work, engine) = target.loaded(2);
    for schema in [1, 2] {
        let placement = engine.placement(schema).unwrap();
        assert!(placement.is_one_row_per_block(), "{placement:?}");
        assert_eq!((placement.rows, placement.blocks), (ROWS, ROWS));
    }
    let loaded = engine.loaded().unwrap();
    assert_eq!(loaded.iter().map(|schema| schema.number).collect::<Vec<_>>(), [1, 2]);
    for schema in loaded {
        assert_eq!((schema.rows, schema.scan_rows), (ROWS, SCAN_ROWS));
        assert!(schema.bytes >= Some(ROWS * u64::from(target.block_size)));
    }
    // It must still hold after updates.
    let writers = Workload { update_pct: 100, ..workload() };
    let mut session = engine.connect(seat(1, 1, Role::Mixed)).unwrap();
    let before = engine.data_bytes().unwrap();
    execute(session.as_mut(), &choose(&writers, seat(1, 1, Role::Mixed), 1000));
    drop(session);
    engine.quiesce().unwrap();
    engine.settle(&Silent, &unlimited()).unwrap();
    assert!(engine.placement(1).unwrap().is_one_row_per_block());
    assert_eq!(engine.data_bytes().unwrap(), before, "rows moved");
    assert_eq!(target.look_after(engine, &work, 1).len() as u64, ROWS);
}

fn an_operation_touches_its_work_unit(target: &Target) {
    let (_work, engine) = target.loaded(1);
    let home = seat(1, 1, Role::Mixed);
    let mut session = engine.connect(home).unwrap();
    let batch = choose(&workload(), home, 500);
    let rows = execute(session.as_mut(), &batch);
    for (operation, rows) in batch.iter().zip(rows) {
        let meant = match operation.kind {
            Kind::Select => u64::from(UNIT),
            Kind::Update => u64::from(UNIT / 2),
            Kind::Scan => SCAN_ROWS,
        };
        assert_eq!(rows, meant, "{operation:?}");
    }
    // The ends of the data, and all of it at once.
    let all = |first, rows| {
        [Kind::Select, Kind::Update].map(|kind| Operation {
            kind,
            schema: 1,
            first,
            rows,
            stamp: 9,
            due: None,
            hot: [false; 2],
        })
    };
    assert_eq!(execute(session.as_mut(), &all(1, 1)), [1, 1]);
    assert_eq!(execute(session.as_mut(), &all(ROWS, 1)), [1, 1]);
    assert_eq!(execute(session.as_mut(), &all(1, ROWS as u32)), [ROWS, ROWS]);
}

/// Who called for a single operation waited for it and for the way there, and for little else.
fn a_latency_holds_all_rows_of_its_operation(target: &Target) {
    let (_work, engine) = target.loaded(1);
    let mut session = engine.connect(seat(1, 1, Role::Mixed)).unwrap();
    for kind in [Kind::Select, Kind::Update] {
        let mut share_of_best: f64 = 0.0;
        for stamp in 10..40 {
            let rows = ROWS as u32;
            let all =
                Operation { kind, schema: 1, first: 1, rows, stamp, due: None, hot: [false; 2] };
            let mut done = Outcomes::default();
            let begin = Instant::now();
            session.execute(Batch::new(&[all], &unlimited(), &mut done)).unwrap();
            let waited_ns = begin.elapsed().as_nanos() as f64;
            let share = done.ended[0].busy_ns as f64 / waited_ns;
            assert!(share <= 1.05, "{kind:?}: a latency of {share} of the time that passed");
            share_of_best = share_of_best.max(share);
            if share_of_best > 0.5 {
                break;
            }
        }
        assert!(share_of_best > 0.5, "{kind:?}: {share_of_best} of the time that passed");
    }
}

fn updates_persist_and_reads_change_nothing(target: &Target) {
    let (work, engine) = target.loaded(1);
    let before = target.look_after(engine, &work, 1);
    let engine = target.engine(&work);
    let writer = seat(1, 1, Role::Writer);
    let reader = seat(2, 1, Role::Reader);
    let updates = choose(&workload(), writer, 40);
    let reads = choose(&workload(), reader, 200);
    assert!(updates.iter().all(|update| update.kind == Kind::Update));
    assert!(reads.iter().all(|read| read.kind != Kind::Update));
    execute(engine.connect(reader).unwrap().as_mut(), &reads);
    assert_eq!(target.changed(engine, &work, 1, &before), [0u64; 0]);
    let engine = target.engine(&work);
    execute(engine.connect(writer).unwrap().as_mut(), &updates);
    let mut meant: Vec<u64> =
        updates.iter().flat_map(|update| update.first..=update.last()).collect();
    meant.sort_unstable();
    meant.dedup();
    assert_eq!(target.changed(engine, &work, 1, &before), meant);
    // Values differ every time, in unchanged length.
    let after = (target.look)(&work, 1);
    assert!(after.iter().all(|(key, text)| text.len() == before[key].len()));
    let last = updates.last().unwrap();
    let text = &after[&last.first];
    let same = after.iter().filter(|(_, other)| *other == text).count() as u64;
    assert_eq!(same, u64::from(last.rows));
}

fn a_hot_spot_stays_inside(target: &Target) {
    let (work, engine) = target.loaded(1);
    let before = target.look_after(engine, &work, 1);
    let engine = target.engine(&work);
    let spot = HotKeys { first: 300, rows: 100, frequency: 1 };
    let hot = Workload { update_pct: 100, hot_spot: Some(spot), ..workload() };
    let home = seat(1, 1, Role::Mixed);
    execute(engine.connect(home).unwrap().as_mut(), &choose(&hot, home, 300));
    let changed = target.changed(engine, &work, 1, &before);
    assert_eq!(changed, (300..400).collect::<Vec<u64>>());
}

fn a_hot_schema_takes_the_operations_of_others(target: &Target) {
    let (work, engine) = target.loaded(2);
    let before = [target.look_after(engine, &work, 1), (target.look)(&work, 2)];
    let home = seat(1, 2, Role::Mixed);
    let hot = Workload { update_pct: 100, hot_schema_frequency: 1, ..workload() };
    let run = |batch: &[Operation], schema: u32| {
        let engine = target.engine(&work);
        execute(engine.connect(home).unwrap().as_mut(), batch);
        target.changed(engine, &work, schema, &before[schema as usize - 1])
    };
    assert!(!run(&choose(&hot, home, 50), 1).is_empty());
    assert!(run(&[], 2).is_empty());
    // Every third: the rest stays at home.
    let hot = Workload { hot_schema_frequency: 3, ..hot };
    let batch = choose(&hot, home, 90);
    assert_eq!(batch.iter().filter(|operation| operation.schema == 1).count(), 30);
    assert!(!run(&batch, 2).is_empty());
}

fn known(io: &IoCounts) -> BTreeMap<String, u64> {
    let value = serde_json::to_value(io).unwrap();
    let fields = value.as_object().unwrap().iter();
    fields.filter_map(|(name, value)| Some((name.clone(), value.as_u64()?))).collect()
}

fn counters_only_grow_and_agree_with_the_work(target: &Target) {
    let (_work, engine) = target.loaded(2);
    let sum = |counters: Vec<Counters>| {
        let io = counters[1..].iter().fold(counters[0].io, |io, other| io.plus(&other.io));
        let waits = counters.into_iter().flat_map(|endpoint| {
            let own = |mut wait: Wait| {
                wait.name = format!("{} {}", endpoint.endpoint, wait.name);
                wait
            };
            endpoint.waits.into_iter().map(own).collect::<Vec<_>>()
        });
        (io, waits.collect::<Vec<_>>())
    };
    let (opening, _) = sum(engine.read_counters(true).unwrap());
    let mut last = known(&opening);
    let mut times = BTreeMap::new();
    for round in 0..4u32 {
        let home = seat(round + 1, round % 2 + 1, Role::Mixed);
        let mut session = engine.connect(home).unwrap();
        execute(session.as_mut(), &choose(&workload(), home, 100));
        // Sessions leave; what they did stays counted.
        drop(session);
        let (io, waits) = sum(engine.read_counters(true).unwrap());
        let now = known(&io);
        assert_eq!(now.keys().collect::<Vec<_>>(), last.keys().collect::<Vec<_>>());
        for (name, value) in &now {
            assert!(*value >= last[name], "{name} fell from {} to {value}", last[name]);
        }
        last = now;
        for wait in waits {
            let earlier = times.insert(wait.name.clone(), (wait.time_ns, wait.waits));
            assert!(earlier.is_none_or(|e| e <= (wait.time_ns, wait.waits)), "{}", wait.name);
        }
    }
    engine.quiesce().unwrap();
    let (closing, _) = sum(engine.read_counters(true).unwrap());
    let work = closing.since(&opening);
    let commits = work.commits.unwrap();
    assert!(commits == 160 || target.commits.1 && commits > 160, "{commits}");
    let visited = 4 * (40 * u64::from(UNIT / 2) + 54 * u64::from(UNIT));
    if let Some(logical) = work.logical_reads {
        assert!(logical >= visited, "{logical} of {visited}");
    }
    if let Some(redo) = work.redo_bytes {
        assert!(redo > 160 * 100, "{redo}");
    }
}

fn the_mix_and_fixed_work_are_exact(target: &Target) {
    let (work, engine) = target.loaded(2);
    drop(engine);
    let args = ["run", "-t", "2", "--work-loop", "200", "--update-pct", "30", "--scan-pct", "5"];
    let unit = ["--work-unit", "8", "--json"];
    let run = target.petal(&work, &[&args[..], &unit].concat()).exits(0).json();
    assert_eq!((count(&run, "/ops/total"), count(&run, "/ops/update")), (800, 240));
    assert_eq!(count(&run, "/rows/update"), 240 * 8);
    assert_eq!(count(&run, "/rows/select"), count(&run, "/ops/select") * 8);
    // 140 SELECTs a session: one whole deck of a hundred with 5, and 40 of another.
    let scans = count(&run, "/ops/scan");
    assert!((20..=40).contains(&scans), "{scans}");
    assert_eq!(count(&run, "/rows/scan"), scans * SCAN_ROWS);
    assert_eq!(run["rows_asked"], run["rows"]);
    let commits = count(&run, &format!("/counters/{}", target.commits.0));
    assert!(commits == 240 || target.commits.1 && commits > 240, "{commits}");
}

fn readers_read_and_writers_write(target: &Target) {
    let (work, engine) = target.loaded(2);
    drop(engine);
    let args = ["run", "--readers", "3", "--writers", "2", "--work-loop", "40", "--json"];
    let run = target.petal(&work, &args).exits(0).json();
    assert_eq!((count(&run, "/ops/select"), count(&run, "/ops/update")), (120, 80));
    assert_eq!(count(&run, "/sessions"), 5);
}

fn a_killed_load_is_refused(target: &Target) {
    let work = Workplace::new();
    let setup = target.petal(&work, &["setup", "-s", "2", "--scale", "600M"]).start();
    std::thread::sleep(Duration::from_millis(400));
    setup.kill();
    let engine = target.engine(&work);
    assert!(engine.loaded().unwrap().is_empty());
    target.petal(&work, &["run", "--work-loop", "1"]).exits(3).telling(&["not loaded"]);
    engine.load(&target.plan(1), &Silent, &unlimited()).unwrap();
    assert_eq!(engine.loaded().unwrap().len(), 1);
}

fn missing_rows_are_an_error(target: &Target) {
    let Some(delete_half) = target.delete_half else { return };
    let (work, engine) = target.loaded(1);
    drop(engine);
    let all_there = format!("{ROWS} rows, each looked for by its key: all there");
    assert!(target.petal(&work, &["check"]).ends().stdout.contains(&all_there));
    delete_half(&work);
    let args = ["run", "--work-loop", "60", "--update-pct", "40", "--work-unit", "16", "--json"];
    let run = target.petal(&work, &args).exits(1).json();
    for kind in ["select", "update"] {
        let of = |what: &str| count(&run, &format!("/{what}/{kind}"));
        assert_eq!((of("rows_asked"), of("rows")), (of("ops") * 16, of("ops") * 8), "{kind}");
    }
    let findings = run["findings"].as_array().unwrap();
    let found = findings.iter().find(|finding| finding["id"] == "rows-missing").unwrap();
    assert_eq!(found["severity"], "error");
    assert_eq!(count(found, "/evidence/ops_not_as_asked"), 60);
    let half = format!("{ROWS} rows, each looked for by its key: {} found", ROWS / 2);
    assert!(target.petal(&work, &["check"]).exits(1).stdout.contains(&half));
}

fn data_is_dropped_and_only_once(target: &Target) {
    let (_work, engine) = target.loaded(2);
    assert!(engine.load(&target.plan(1), &Silent, &unlimited()).is_err(), "loaded over");
    assert_eq!(engine.loaded().unwrap().len(), 2);
    assert!(!engine.drop_data().unwrap().is_empty());
    assert!(engine.loaded().unwrap().is_empty());
    assert!(engine.drop_data().unwrap().is_empty());
}

fn errors_name_the_target_and_no_password(target: &Target) {
    let work = Workplace::new();
    let (url, name) = (target.broken)(&work);
    for command in ["setup", "run", "drop"] {
        let ended = work.petal([command, "--db", &url]).exits(3).telling(&[&name]);
        assert!(!ended.stderr.contains("s3cret"), "{}", ended.stderr);
    }
    let engine = target.open(&url).unwrap();
    let error = engine.loaded().unwrap_err().to_string();
    assert!(error.contains(&name) && !error.contains("s3cret"), "{error}");
}

macro_rules! cases {
    ($target:expr, $attributes:tt; $($case:ident),+ $(,)?) => {
        $(cases!(@one $target, $attributes, $case);)+
    };
    (@one $target:expr, { $(#[$attribute:meta])* }, $case:ident) => {
        #[test]
        $(#[$attribute])*
        fn $case() {
            let target = $target;
            if (target.is_there)() {
                let _turn = (target.turn)();
                super::$case(&target);
            }
        }
    };
}

/// Every case for every target.
macro_rules! targets {
    ($($(#[$attribute:meta])* $name:ident: $target:expr;)+) => {$(
        mod $name {
            cases! {
                $target, { $(#[$attribute])* };
                n_rows_are_n_blocks,
                an_operation_touches_its_work_unit,
                a_latency_holds_all_rows_of_its_operation,
                updates_persist_and_reads_change_nothing,
                a_hot_spot_stays_inside,
                a_hot_schema_takes_the_operations_of_others,
                counters_only_grow_and_agree_with_the_work,
                the_mix_and_fixed_work_are_exact,
                readers_read_and_writers_write,
                a_killed_load_is_refused,
                missing_rows_are_an_error,
                data_is_dropped_and_only_once,
                errors_name_the_target_and_no_password,
            }
        }
    )+};
}

targets! {
    #[cfg(feature = "sqlite")]
    sqlite_direct: super::sqlite::SQLITE;
    #[cfg(feature = "sqlite")]
    sqlite_buffered: super::sqlite::SQLITE_BUFFERED;
    scripted_files: super::scripted::SCRIPTED;
    #[cfg(feature = "postgres")]
    postgres_server: super::postgres::POSTGRES;
    #[cfg(feature = "postgres")]
    postgres_client: super::postgres::POSTGRES_CLIENT;
    #[cfg(feature = "mysql")]
    mysql_server: super::mysql::MYSQL;
    #[cfg(feature = "mysql")]
    mysql_client: super::mysql::MYSQL_CLIENT;
    #[cfg(feature = "mysql")]
    mysql_rocksdb: super::mysql::MYSQL_ROCKSDB;
    #[ignore = "each node is tested alone; of a cluster what reads and writes: mysql_cluster_work"]
    #[cfg(feature = "mysql")]
    mysql_cluster: super::mysql::MYSQL_CLUSTER;
    #[ignore = "needs MySQL with Group Replication: see CONTRIBUTING.md"]
    #[cfg(feature = "mysql")]
    mysql_group: super::mysql::MYSQL_GROUP;
    #[cfg(feature = "device")]
    device_direct: super::device::DEVICE;
    #[cfg(feature = "device")]
    device_pread: super::device::DEVICE_PREAD;
    #[cfg(feature = "oracle")]
    stand_in_of_oracle_server: super::oracle::ORACLE_WIRE;
    #[cfg(feature = "oracle")]
    stand_in_of_oracle_client: super::oracle::ORACLE_WIRE_CLIENT;
    #[ignore = "needs a live Oracle Database: make test-oracle"]
    #[cfg(feature = "oracle")]
    oracle_server: super::oracle::ORACLE;
    #[ignore = "needs a live Oracle Database: make test-oracle"]
    #[cfg(feature = "oracle")]
    oracle_client: super::oracle::ORACLE_CLIENT;
}

/// Three nodes are slow, and one turn each: the cases that read and write on all of them.
#[cfg(feature = "mysql")]
mod mysql_cluster_work {
    cases! {
        super::mysql::MYSQL_CLUSTER, {};
        an_operation_touches_its_work_unit,
        updates_persist_and_reads_change_nothing,
        the_mix_and_fixed_work_are_exact,
        readers_read_and_writers_write,
        a_killed_load_is_refused,
    }
}
