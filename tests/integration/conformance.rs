//! What every engine must do, the same cases for all of them. The targets of an engine are in a file
//! of its own; here it has a line among the modules and one for each target in [`targets!`], each
//! gated by the engine's feature. A case says which item of the contract it looks at ([`promise`]),
//! and fails by that name. [`lies`] proves that no broken promise passes.

use std::any::Any;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use petal_engine::{
    Batch, CUT, Engine, EngineError, LoadPlan, Outcomes, Progress, ProgressUnit, Session, Silent,
    Stop, endpoints,
};
use petal_model::numbers::whole;
use petal_model::settings::Settings;
use petal_model::settings::table::support::ReadPath;
use petal_model::settings::url::TargetUrl;
use petal_model::stats::counters::{Counters, IoCounts, Wait};
use petal_model::workload::op::{Kind, Operation};
use petal_model::workload::picker::Picker;
use petal_model::workload::plan::{HotKeys, Workload};
use petal_model::workload::row::Filler;
use petal_model::workload::seat::{Role, Seat};

use crate::server_postgres;
use crate::support::{Workplace, contents, count, names, record, run, skip};

#[cfg(feature = "device")]
mod device;
mod lies;
#[cfg(feature = "lmdb")]
mod lmdb;
#[cfg(feature = "mysql")]
mod mysql;
#[cfg(feature = "oracle")]
mod oracle;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "redb")]
mod redb;
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
    /// The file or folder of the target in a workplace, if the database is in petal's own process.
    data: Option<&'static str>,
    /// True if its reads and syncs are of petal's process: `strace` shows system calls, and the kernel
    /// counts bytes of page faults.
    is_traced: bool,
    /// The file of a schema's log, which settling empties.
    log: Option<fn(&Workplace, u32) -> PathBuf>,
    /// Keys of a schema in the order of their blocks.
    order: Option<fn(&Workplace, u32) -> Vec<u64>>,
    /// Keeps UPDATEs of schema 1 waiting until it is dropped.
    hold: Option<Hold>,
}

type Hold = fn(&Workplace) -> Box<dyn Any>;
type Case = fn(&Target);

thread_local! {
    static PROMISE: Cell<&'static str> = const { Cell::new("") };
}

/// The item of the contract that the next checks of a case are about.
fn promise(item: &'static str) {
    PROMISE.set(item);
}

/// Runs a case; an error names the promise that the engine broke.
fn run_case(case: Case, target: &Target) -> Result<(), String> {
    std::panic::catch_unwind(|| case(target)).map_err(|broken| {
        let text = broken.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let text = text.or_else(|| broken.downcast_ref::<String>().cloned()).unwrap_or_default();
        format!("{}: broken promise: {text}", PROMISE.get())
    })
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
        promise("Engine::load");
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

    /// The rows of a schema as a process that is killed now would leave them; None if the rows are
    /// partly in a log that nobody reads back.
    fn look_at_once(&self, work: &Workplace, schema: u32) -> Option<BTreeMap<u64, String>> {
        let Some(data) = self.data else { return Some((self.look)(work, schema)) };
        self.log?;
        let copy = Workplace::new();
        // Another process: closing a file in this one would drop the database's locks on it.
        run("cp", &["-a", work.path(data).to_str().unwrap(), copy.path(data).to_str().unwrap()])
            .unwrap();
        Some((self.look)(&copy, schema))
    }

    /// Keys whose row is not as `before`, once petal has closed its data.
    fn changed(
        &self,
        engine: Arc<dyn Engine>,
        work: &Workplace,
        schema: u32,
        before: &BTreeMap<u64, String>,
    ) -> Vec<u64> {
        differing(before, &self.look_after(engine, work, schema))
    }
}

/// Keys whose row is not as `before`.
fn differing(before: &BTreeMap<u64, String>, now: &BTreeMap<u64, String>) -> Vec<u64> {
    assert_eq!(now.len() as u64, ROWS);
    now.iter().filter(|(key, text)| before[*key] != **text).map(|(key, _)| *key).collect()
}

/// Keys that these UPDATEs touch.
fn touched(updates: &[Operation]) -> Vec<u64> {
    let keys = updates.iter().flat_map(|update| update.first..=update.last());
    keys.collect::<std::collections::BTreeSet<u64>>().into_iter().collect()
}

fn operation(kind: Kind, schema: u32, first: u64, rows: u64) -> Operation {
    let rows = rows as u32;
    Operation { kind, schema, first, rows, stamp: 9, due: None, hot: [false; 2] }
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
    let (stop, mut done) = (unlimited(), Outcomes::default());
    let look = PROMISE.replace("Session::execute");
    session.execute(Batch::new(batch, &stop, &mut done)).unwrap();
    let ended_ns = stop.since_trigger_ns(Instant::now());
    promise("Session::flush_statistics");
    session.flush_statistics().unwrap();
    promise("Session::execute");
    assert_eq!(done.ended.len(), batch.len(), "an outcome for each operation");
    for (at, outcome) in done.ended.iter().enumerate() {
        assert_eq!((outcome.operation as usize, &outcome.error), (at, &None));
        assert!(outcome.latency_ns > Some(0));
    }
    promise("Outcome::end_ns");
    assert!(done.ended.is_sorted_by_key(|outcome| outcome.end_ns));
    let last_ns = done.ended.last().map_or(0, |outcome| outcome.end_ns);
    // A server's clock is set by this host's, to some milliseconds.
    assert!(last_ns <= ended_ns + 100_000_000, "an end after the call: {last_ns} of {ended_ns}");
    promise(look);
    done.ended.iter().map(|outcome| outcome.rows).collect()
}

fn n_rows_are_n_blocks(target: &Target) {
    let _alone = server_postgres::alone();
    let (work, engine) = target.loaded(2);
    if let Some(data) = target.data {
        let path = work.path(data);
        let bytes = match path.is_dir() {
            true => contents(&path).values().map(|file| file.len() as u64).sum(),
            false => path.metadata().unwrap().len(),
        };
        let asked = 2 * ROWS * u64::from(target.block_size);
        assert!(bytes >= asked, "{bytes} bytes of files hold rows that need {asked}");
    }
    promise("Engine::placement");
    for schema in [1, 2] {
        let placement = engine.placement(schema).unwrap();
        assert!(placement.is_one_row_per_block(), "{placement:?}");
        assert_eq!((placement.rows, placement.blocks), (ROWS, ROWS));
    }
    promise("Engine::describe");
    let described = engine.describe(2, 1).unwrap().0;
    assert_eq!(described.block_size, u64::from(target.block_size));
    promise("Engine::loaded");
    let loaded = engine.loaded().unwrap();
    assert_eq!(loaded.iter().map(|schema| schema.number).collect::<Vec<_>>(), [1, 2]);
    for schema in loaded {
        assert_eq!((schema.rows, schema.scan_rows), (ROWS, SCAN_ROWS));
        assert_eq!(schema.block_size, u64::from(target.block_size));
        assert!(schema.bytes >= Some(ROWS * u64::from(target.block_size)));
    }
    // It must still hold after updates.
    promise("Session::execute");
    let writers = Workload { update_pct: 100, ..workload() };
    let mut session = engine.connect(seat(1, 1, Role::Mixed)).unwrap();
    let before = engine.data_bytes().unwrap();
    execute(session.as_mut(), &choose(&writers, seat(1, 1, Role::Mixed), 1000));
    drop(session);
    promise("Engine::settle");
    engine.quiesce().unwrap();
    engine.settle(&Silent, &unlimited()).unwrap();
    if let Some(log) = target.log {
        let bytes = log(&work, 1).metadata().map_or(0, |log| log.len());
        assert_eq!(bytes, 0, "bytes that are left in the log");
    }
    promise("Engine::placement");
    assert!(engine.placement(1).unwrap().is_one_row_per_block());
    assert_eq!(engine.data_bytes().unwrap(), before, "rows moved");
    assert_eq!(target.look_after(engine, &work, 1).len() as u64, ROWS);
}

fn an_operation_touches_its_work_unit(target: &Target) {
    let (_work, engine) = target.loaded(1);
    let home = seat(1, 1, Role::Mixed);
    let mut session = engine.connect(home).unwrap();
    let batch = choose(&workload(), home, 500);
    promise("Outcome::rows");
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
    let all =
        |first, rows| [Kind::Select, Kind::Update].map(|kind| operation(kind, 1, first, rows));
    assert_eq!(execute(session.as_mut(), &all(1, 1)), [1, 1]);
    assert_eq!(execute(session.as_mut(), &all(ROWS, 1)), [1, 1]);
    assert_eq!(execute(session.as_mut(), &all(1, ROWS)), [ROWS, ROWS]);
}

/// Who called for a single operation waited for it and for the way there, and for little else.
fn a_latency_holds_all_rows_of_its_operation(target: &Target) {
    let (_work, engine) = target.loaded(1);
    let mut session = engine.connect(seat(1, 1, Role::Mixed)).unwrap();
    promise("Outcome::latency_ns");
    for kind in [Kind::Select, Kind::Update] {
        let mut share_of_best: f64 = 0.0;
        for stamp in 10..40 {
            let all = Operation { stamp, ..operation(kind, 1, 1, ROWS) };
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

/// Each long operation is followed by a short one.
fn a_latency_is_that_of_its_own_operation(target: &Target) {
    let (_work, engine) = target.loaded(1);
    let mut session = engine.connect(seat(1, 1, Role::Mixed)).unwrap();
    let pair = [ROWS, 1].map(|rows| operation(Kind::Select, 1, 1, rows));
    let mut waited = |call: &Operation| {
        let begin = Instant::now();
        execute(session.as_mut(), std::slice::from_ref(call));
        begin.elapsed()
    };
    let [long, short] = [0, 1].map(|of| (0..8).map(|_| waited(&pair[of])).min().unwrap());
    if long < 3 * short {
        // A stand-in for a database, which reads nothing.
        return;
    }
    let mut done = Outcomes::default();
    session.execute(Batch::new(&pair.repeat(16), &unlimited(), &mut done)).unwrap();
    promise("Outcome::latency_ns");
    // The shortest of each, which others on the machine disturb least.
    let shortest = |of: usize| {
        done.ended.iter().skip(of).step_by(2).filter_map(|outcome| outcome.latency_ns).min()
    };
    let [long, short] = [shortest(0), shortest(1)].map(Option::unwrap);
    assert!(long > short, "{ROWS} rows take {long} ns, one row {short} ns");
}

fn updates_persist_and_reads_change_nothing(target: &Target) {
    let (work, engine) = target.loaded(1);
    let before = target.look_after(engine, &work, 1);
    let engine = target.engine(&work);
    let writer = seat(1, 1, Role::Writer);
    let reader = seat(2, 1, Role::Reader);
    promise("Session::execute");
    let updates = choose(&workload(), writer, 40);
    let reads = choose(&workload(), reader, 200);
    assert!(updates.iter().all(|update| update.kind == Kind::Update));
    assert!(reads.iter().all(|read| read.kind != Kind::Update));
    execute(engine.connect(reader).unwrap().as_mut(), &reads);
    assert_eq!(target.changed(engine, &work, 1, &before), [0u64; 0]);
    let engine = target.engine(&work);
    execute(engine.connect(writer).unwrap().as_mut(), &updates);
    assert_eq!(target.changed(engine, &work, 1, &before), touched(&updates));
    // Values differ every time, in unchanged length.
    let after = (target.look)(&work, 1);
    assert!(after.iter().all(|(key, text)| text.len() == before[key].len()));
    let last = updates.last().unwrap();
    let text = &after[&last.first];
    let same = after.iter().filter(|(_, other)| *other == text).count() as u64;
    assert_eq!(same, u64::from(last.rows));
}

fn a_commit_is_written_when_it_is_acknowledged(target: &Target) {
    let (work, engine) = target.loaded(1);
    let Some(before) = target.look_at_once(&work, 1) else { return };
    promise("Session::execute");
    let writer = seat(1, 1, Role::Writer);
    let updates = choose(&workload(), writer, 20);
    let mut session = engine.connect(writer).unwrap();
    session.execute(Batch::new(&updates, &unlimited(), &mut Outcomes::default())).unwrap();
    let now = target.look_at_once(&work, 1).unwrap();
    assert_eq!(differing(&before, &now), touched(&updates), "rows that a kill leaves updated");
}

/// Calls of petal's process on its data, in a run: of a name, with the bytes that they gave.
fn calls(log: &str, data: &str, called: &[&str]) -> (u64, u64) {
    let on_data = log.lines().filter(|line| line.contains(&format!("/{data}")));
    let of_name = |line: &&str| called.iter().any(|name| line.contains(&format!(" {name}(")));
    on_data.filter(of_name).fold((0, 0), |(calls, bytes), line| {
        let answer = line.rsplit("= ").next().unwrap_or_default();
        (calls + 1, bytes + answer.trim().parse::<u64>().unwrap_or(0))
    })
}

/// A database in petal's process can hide nothing from the kernel.
fn reads_and_syncs_are_seen_from_outside(target: &Target) {
    let Some(data) = target.data.filter(|_| target.is_traced) else { return };
    if let Err(why) = run("strace", &["-qq", "-o", "/dev/null", "true"]) {
        return skip(&why);
    }
    let (work, engine) = target.loaded(1);
    let is_mapped = engine.support().reads == ReadPath::Mapped;
    drop(engine);
    let traced = |args: &[&str]| {
        let log = work.path("calls.log");
        let names = "trace=pread64,preadv,preadv2,read,fsync,fdatasync";
        let strace = ["-f", "-y", "-qq", "-s", "0", "--seccomp-bpf", "-e", names, "-o"];
        let strace = [&strace[..], &[log.to_str().unwrap(), "--"]].concat();
        let args = [&["run", "-t", "1"], args].concat();
        target.petal(&work, &args).under("strace", &strace).exits(0);
        (record(work.runs().last().unwrap()), std::fs::read_to_string(log).unwrap())
    };
    let reading = ["pread64", "preadv", "preadv2", "read"];
    promise("Session::execute");
    let selects = ["--work-loop", "2", "--work-unit", "1024", "--update-pct", "0"];
    // A traced process does not see its own counts.
    let (run, log) = match is_mapped {
        false => traced(&selects),
        true => {
            let run = target.petal(&work, &[&["run", "-t", "1"], &selects[..]].concat());
            run.env("NO_OS_PERF_DATA", "FALSE").exits(0);
            (record(work.runs().last().unwrap()), String::new())
        }
    };
    let (reads, bytes) = match is_mapped {
        false => calls(&log, data, &reading),
        true => {
            let bytes = count(&run, "/details/os/whole/sum/counts/petal_read_bytes");
            (bytes / u64::from(target.block_size), bytes)
        }
    };
    let asked = 1024 * u64::from(target.block_size);
    assert!(bytes >= asked, "SELECTs of 1024 rows read {bytes} bytes of files, not {asked}");
    promise("Engine::read_counters");
    let counted = count(&run, "/details/io/physical_read_requests");
    assert!(counted <= reads, "{counted} reads are counted, {reads} are seen");
    promise("Session::execute");
    let (run, log) = traced(&["--work-loop", "40", "--work-unit", "4", "--update-pct", "100"]);
    let (syncs, _) = calls(&log, data, &["fsync", "fdatasync"]);
    assert_eq!(run.pointer("/details/target/durability/durable"), Some(&true.into()), "{run}");
    assert!(syncs >= 40, "40 durable commits, {syncs} syncs are seen");
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
    promise("Session::execute");
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

/// Half of schema 1's rows are gone, past petal; all of schema 2's are there.
fn rows_are_found_where_they_are(target: &Target) {
    let Some(delete_half) = target.delete_half else { return };
    let (work, engine) = target.loaded(2);
    drop(engine);
    delete_half(&work);
    let engine = target.engine(&work);
    promise("Session::execute");
    let mut session = engine.connect(seat(1, 2, Role::Mixed)).unwrap();
    let both = [1, 2].map(|schema| operation(Kind::Select, schema, 1, ROWS));
    assert_eq!(execute(session.as_mut(), &both), [ROWS / 2, ROWS], "rows of schemas 1 and 2");
    promise("Engine::placement");
    if target.data.is_some() {
        assert_eq!(engine.placement(1).unwrap().rows, ROWS / 2, "rows that are counted");
    }
}

fn keys_are_scattered(target: &Target) {
    let Some(order) = target.order else { return };
    let (work, engine) = target.loaded(1);
    drop(engine);
    let keys = order(&work, 1);
    let neighbours = keys.windows(2).filter(|pair| pair[0].abs_diff(pair[1]) == 1).count();
    assert!(neighbours < keys.len() / 20, "{neighbours} of {} keys follow each other", keys.len());
    assert_eq!(keys.into_iter().collect::<std::collections::BTreeSet<_>>().len() as u64, ROWS);
}

fn nothing_begins_after_the_stop(target: &Target) {
    let (_work, engine) = target.loaded(1);
    promise("Session::execute");
    let home = seat(1, 1, Role::Mixed);
    let mut session = engine.connect(home).unwrap();
    let stop = Stop::unlimited(Arc::new(AtomicU8::new(1)));
    let mut done = Outcomes::default();
    let batch = choose(&workload(), home, 20);
    session.execute(Batch::new(&batch, &stop, &mut done)).unwrap();
    assert_eq!(done.ended.len(), 0, "operations that began after the stop");
}

/// An UPDATE waits for somebody's lock, and is cancelled.
fn a_cancelled_operation_ends_and_is_not_done(target: &Target) {
    let Some(hold) = target.hold else { return };
    let (work, engine) = target.loaded(1);
    let before = target.look_after(engine, &work, 1);
    let engine = target.engine(&work);
    let update = [operation(Kind::Update, 1, 1, 4)];
    let mut session = engine.connect(seat(1, 1, Role::Mixed)).unwrap();
    let canceller = session.canceller();
    let (level, mut done) = (Arc::new(AtomicU8::new(0)), Outcomes::default());
    let stop = Stop::unlimited(Arc::clone(&level));
    let holder = hold(&work);
    let is_cut = std::thread::scope(|scope| {
        let executing = scope.spawn(|| session.execute(Batch::new(&update, &stop, &mut done)));
        std::thread::sleep(Duration::from_millis(300));
        let waited = !executing.is_finished();
        level.store(1, Ordering::Relaxed);
        let began = Instant::now();
        while !executing.is_finished() && began.elapsed() < Duration::from_secs(5) {
            canceller.cancel();
            std::thread::sleep(Duration::from_millis(20));
        }
        let is_cut = executing.is_finished();
        drop(holder);
        waited && is_cut
    });
    promise("Cancel::cancel");
    assert!(is_cut, "an operation that waits for a lock goes on for five seconds");
    let errors: Vec<_> = done.ended.iter().map(|outcome| outcome.error.as_deref()).collect();
    assert_eq!(errors, [Some(CUT)], "the outcome of a cancelled operation");
    drop(session);
    assert_eq!(target.changed(engine, &work, 1, &before), [0u64; 0]);
}

fn known(io: &IoCounts) -> BTreeMap<String, u64> {
    let value = serde_json::to_value(io).unwrap();
    let fields = value.as_object().unwrap().iter();
    fields.filter_map(|(name, value)| Some((name.clone(), value.as_u64()?))).collect()
}

fn logical_reads(engine: &dyn Engine) -> Option<u64> {
    engine.read_counters(true).unwrap().iter().map(|counters| counters.io.logical_reads).sum()
}

/// Others' work counts nothing: that of other targets in this process, and of other endpoints.
fn counters_are_of_their_own_target_and_endpoint(target: &Target) {
    let (_work, engine) = target.loaded(1);
    let commits = || -> Vec<u64> {
        let counters = engine.read_counters(true).unwrap();
        counters.iter().map(|endpoint| endpoint.io.commits.unwrap()).collect()
    };
    let updates = choose(&Workload { update_pct: 100, ..workload() }, seat(1, 1, Role::Mixed), 30);
    let is_exact = !target.commits.1;
    promise("Engine::read_counters");
    if is_exact {
        let (_elsewhere, other) = target.loaded(1);
        promise("Engine::read_counters");
        let before = commits();
        execute(other.connect(seat(1, 1, Role::Mixed)).unwrap().as_mut(), &updates);
        assert_eq!(commits(), before, "commits, after work on another target");
    }
    promise("Server::endpoints");
    assert_eq!(commits().len() as u32, endpoints(engine.as_ref()));
    for endpoint in 0..endpoints(engine.as_ref()) {
        let before = commits();
        let home = Seat { endpoint, ..seat(1, 1, Role::Mixed) };
        execute(engine.connect(home).unwrap().as_mut(), &updates);
        engine.quiesce().unwrap();
        for (at, (now, before)) in (0..).zip(commits().into_iter().zip(before)) {
            let more = now - before;
            if at == endpoint {
                assert!(more >= 30, "30 commits at endpoint {endpoint}, it counts {more}");
            } else {
                assert!(more < 30, "30 commits at endpoint {endpoint} are counted at {at}");
            }
        }
    }
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
    promise("Engine::read_counters");
    let (opening, _) = sum(engine.read_counters(true).unwrap());
    let mut last = known(&opening);
    let mut times = BTreeMap::new();
    for round in 0..4u32 {
        let home = seat(round + 1, round % 2 + 1, Role::Mixed);
        let mut session = engine.connect(home).unwrap();
        let flushed = logical_reads(engine.as_ref());
        execute(session.as_mut(), &choose(&workload(), home, 100));
        promise("Session::flush_statistics");
        if let (Some(before), Some(now)) = (flushed, logical_reads(engine.as_ref())) {
            assert!(now > before, "no read of a session that flushed is counted");
        }
        promise("Engine::read_counters");
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
    promise("Session::execute");
    let args = ["run", "-t", "2", "--work-loop", "200", "--update-pct", "30", "--scan-pct", "5"];
    let unit = ["--work-unit", "8", "--json"];
    let commits = format!("/counters/{}", target.commits.0);
    // A server that sums over its sessions may miss one that ends meanwhile, as another test's: a sum
    // that falls is unknown.
    let mut runs =
        (0..3).map(|_| target.petal(&work, &[&args[..], &unit].concat()).exits(0).json());
    let is_counted = |run: &serde_json::Value| !target.commits.1 || run.pointer(&commits).is_some();
    let run = runs.find(is_counted).expect("a run with its commits");
    assert_eq!((count(&run, "/ops/total"), count(&run, "/ops/update")), (800, 240));
    assert_eq!(count(&run, "/rows/update"), 240 * 8);
    assert_eq!(count(&run, "/rows/select"), count(&run, "/ops/select") * 8);
    // 140 SELECTs a session: one whole deck of a hundred with 5, and 40 of another.
    let scans = count(&run, "/ops/scan");
    assert!((20..=40).contains(&scans), "{scans}");
    assert_eq!(count(&run, "/rows/scan"), scans * SCAN_ROWS);
    assert_eq!(run["rows_asked"], run["rows"]);
    let commits = count(&run, &commits);
    assert!(commits == 240 || target.commits.1 && commits > 240, "{commits}");
}

fn readers_read_and_writers_write(target: &Target) {
    let (work, engine) = target.loaded(2);
    drop(engine);
    promise("Session::execute");
    let args = ["run", "--readers", "3", "--writers", "2", "--work-loop", "40", "--json"];
    let run = target.petal(&work, &args).exits(0).json();
    assert_eq!((count(&run, "/ops/select"), count(&run, "/ops/update")), (120, 80));
    assert_eq!(count(&run, "/sessions"), 5);
}

/// Asks to stop when three quarters of two schemas are loaded.
struct StopOnTheWay {
    level: Arc<AtomicU8>,
    left: AtomicU64,
    block_size: u64,
    units: AtomicU64,
}

impl Progress for StopOnTheWay {
    fn phase(&self, _: &str, _: u64, unit: ProgressUnit) {
        let units = if unit == ProgressUnit::Bytes { self.block_size } else { 1 };
        self.units.store(units, Ordering::Relaxed);
    }

    fn advance(&self, units: u64) {
        let rows = units / self.units.load(Ordering::Relaxed);
        let left = self.left.load(Ordering::Relaxed).saturating_sub(rows);
        self.left.store(left, Ordering::Relaxed);
        if left == 0 {
            self.level.store(1, Ordering::Relaxed);
        }
    }

    fn note(&self, _: &str) {}
}

fn a_stopped_load_leaves_nothing(target: &Target) {
    let work = Workplace::new();
    let engine = target.engine(&work);
    promise("Engine::load");
    let level = Arc::<AtomicU8>::default();
    let stop = Stop::unlimited(Arc::clone(&level));
    let (left, block_size) = (AtomicU64::new(ROWS * 3 / 2), u64::from(target.block_size));
    let progress = StopOnTheWay { level, left, block_size, units: AtomicU64::new(1) };
    let ended = engine.load(&target.plan(2), &progress, &stop);
    assert!(matches!(ended, Err(EngineError::Interrupted)), "a stopped load: {ended:?}");
    assert_eq!(engine.loaded().unwrap(), [], "schemas that a stopped load left");
    engine.load(&target.plan(1), &Silent, &unlimited()).unwrap();
}

fn a_killed_load_is_refused(target: &Target) {
    let work = Workplace::new();
    let setup = target.petal(&work, &["setup", "-s", "2", "--scale", "600M"]).start();
    std::thread::sleep(Duration::from_millis(400));
    setup.kill();
    let engine = target.engine(&work);
    promise("Engine::loaded");
    assert!(engine.loaded().unwrap().is_empty());
    target.petal(&work, &["run", "--work-loop", "1"]).exits(3).telling(&["not loaded"]);
    // A server ends its statement before it notices that its client was killed.
    let began = Instant::now();
    while let Err(error) = engine.load(&target.plan(1), &Silent, &unlimited()) {
        let still_there = error.to_string().contains("another petal");
        assert!(still_there && began.elapsed() < Duration::from_secs(120), "{error}");
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(engine.loaded().unwrap().len(), 1);
}

fn missing_rows_are_an_error(target: &Target) {
    let Some(delete_half) = target.delete_half else { return };
    let (work, engine) = target.loaded(1);
    drop(engine);
    let all_there = format!("{} rows, each looked for by its key: all there", whole(ROWS));
    assert!(target.petal(&work, &["check"]).ends().stdout.contains(&all_there));
    promise("Session::execute");
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
    let (all, half) = (whole(ROWS), whole(ROWS / 2));
    let half = format!("{all} rows, each looked for by its key: {half} found");
    assert!(target.petal(&work, &["check"]).exits(1).stdout.contains(&half));
}

fn data_in_use_stay(target: &Target) {
    let (work, engine) = target.loaded(1);
    promise("Engine::begin_use");
    let used = engine.begin_use(1).unwrap();
    let refused = target.petal(&work, &["drop"]).ends();
    assert_eq!(refused.code, Some(3), "a drop of data in use: {}", refused.stderr);
    assert_eq!(engine.loaded().unwrap().len(), 1);
    promise("DataUse::vanished");
    assert_eq!(used.vanished().unwrap(), None);
    if let Some(data) = target.data {
        let [there, aside] = [data, "aside"].map(|name| work.path(name));
        std::fs::rename(&there, &aside).unwrap();
        assert!(used.vanished().unwrap().is_some(), "data that are gone are said to be there");
        std::fs::rename(&aside, &there).unwrap();
    }
    drop((used, engine));
    promise("Engine::begin_use");
    target.petal(&work, &["drop"]).exits(0);
}

fn data_is_dropped_and_only_once(target: &Target) {
    let (work, engine) = target.loaded(2);
    assert!(engine.load(&target.plan(1), &Silent, &unlimited()).is_err(), "loaded over");
    assert_eq!(engine.loaded().unwrap().len(), 2);
    // Others' files, also by a name of petal's.
    let folder = target.data.map(|data| work.path(data)).filter(|data| data.is_dir());
    let foreign = folder.iter().flat_map(|folder| {
        let named = names(folder).into_iter().find(|name| name.starts_with("petal1.")).unwrap();
        let foreign = ["notes".to_owned(), named.replace("petal1", "petal9")];
        foreign.iter().for_each(|name| std::fs::write(folder.join(name), "somebody's").unwrap());
        foreign
    });
    let foreign: Vec<String> = foreign.collect();
    promise("Engine::drop_data");
    assert!(!engine.drop_data().unwrap().is_empty());
    if let Some(folder) = folder {
        let left = if folder.exists() { names(&folder) } else { Vec::new() };
        assert_eq!(left, foreign, "files that a drop leaves");
        foreign.iter().for_each(|name| std::fs::remove_file(folder.join(name)).unwrap());
    }
    assert!(engine.loaded().unwrap().is_empty());
    assert!(engine.drop_data().unwrap().is_empty());
}

fn errors_name_the_target_and_no_password(target: &Target) {
    let work = Workplace::new();
    promise("EngineError");
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
                super::run_case(super::$case, &target).unwrap_or_else(|broken| panic!("{broken}"));
            }
        }
    };
}

/// Hands all cases to another macro, behind what it is given.
macro_rules! with_all_cases {
    ($macro:ident! { $($given:tt)* }) => {
        $macro! {
            $($given)*
            n_rows_are_n_blocks,
            keys_are_scattered,
            an_operation_touches_its_work_unit,
            a_latency_holds_all_rows_of_its_operation,
            a_latency_is_that_of_its_own_operation,
            updates_persist_and_reads_change_nothing,
            a_commit_is_written_when_it_is_acknowledged,
            reads_and_syncs_are_seen_from_outside,
            a_hot_spot_stays_inside,
            a_hot_schema_takes_the_operations_of_others,
            rows_are_found_where_they_are,
            nothing_begins_after_the_stop,
            a_cancelled_operation_ends_and_is_not_done,
            counters_only_grow_and_agree_with_the_work,
            counters_are_of_their_own_target_and_endpoint,
            the_mix_and_fixed_work_are_exact,
            readers_read_and_writers_write,
            a_stopped_load_leaves_nothing,
            a_killed_load_is_refused,
            missing_rows_are_an_error,
            data_in_use_stay,
            data_is_dropped_and_only_once,
            errors_name_the_target_and_no_password,
        }
    };
}

macro_rules! named {
    ($($case:ident),+ $(,)?) => { &[$((stringify!($case), $case)),+] };
}

/// Every case with its name.
const CASES: &[(&str, Case)] = with_all_cases!(named! {});

/// Every case for every target.
macro_rules! targets {
    ($($(#[$attribute:meta])* $name:ident: $target:expr;)+) => {$(
        mod $name {
            with_all_cases!(cases! { $target, { $(#[$attribute])* }; });
        }
    )+};
}

targets! {
    #[cfg(feature = "sqlite")]
    sqlite_direct: super::sqlite::SQLITE;
    #[cfg(feature = "sqlite")]
    sqlite_buffered: super::sqlite::SQLITE_BUFFERED;
    #[cfg(feature = "redb")]
    redb_direct: super::redb::REDB;
    #[cfg(feature = "redb")]
    redb_buffered: super::redb::REDB_BUFFERED;
    #[cfg(feature = "lmdb")]
    lmdb_mapped: super::lmdb::LMDB;
    scripted_files: super::scripted::SCRIPTED;
    #[cfg(feature = "postgres")]
    postgres_server: super::postgres::POSTGRES;
    #[cfg(feature = "postgres")]
    postgres_client: super::postgres::POSTGRES_CLIENT;
    #[cfg(feature = "mysql")]
    mysql_server: super::mysql::MYSQL;
    #[cfg(feature = "mysql")]
    mysql_client: super::mysql::MYSQL_CLIENT;
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
