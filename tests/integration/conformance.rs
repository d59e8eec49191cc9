//! What every engine must do, the same cases for all of them. The targets of an engine are in a file
//! of its own; here it has a line among the modules and one for each target in [`targets!`], each
//! gated by the engine's feature. A case says which item of the contract it looks at ([`promise`]),
//! and fails by that name. [`lies`] proves that no broken promise passes. Promises that a live server is
//! held to as well are in [`petal_prove`]; here are those that need the files, the process or the host.

use std::any::Any;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use petal_engine::{Engine, EngineError, LoadPlan, Session, Silent, Stop};
use petal_host::numbers::whole;
use petal_prove::{
    PromiseResult, Provable, ProvedRows, ROWS, SCAN_ROWS, Unproved, choose, workload,
};
use petal_record::{Run, load};
use petal_settings::Settings;
use petal_settings::table::support::ReadPath;
use petal_settings::url::TargetUrl;
use petal_workload::op::{Kind, Operation};
use petal_workload::plan::Workload;
use petal_workload::row::Filler;
use petal_workload::seat::{Role, Seat};

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
}

fn unlimited() -> Stop {
    Stop::unlimited(Arc::default())
}

/// Executes all of them, none of which may fail; the rows of each.
fn execute(session: &mut dyn Session, batch: &[Operation]) -> Vec<u64> {
    petal_prove::execute(session, batch, "Session::execute").unwrap_or_else(|broken| {
        if let Unproved::Broken { item, .. } | Unproved::Failed { item, .. } = &broken {
            promise(item);
        }
        panic!("{broken}")
    })
}

fn operation(kind: Kind, schema: u32, first: u64, rows: u64) -> Operation {
    let rows = rows as u32;
    Operation { kind, schema, first, rows, stamp: 9, due: None, hot: [false; 2] }
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

/// Half of schema 1's rows are gone, past petal; all of schema 2's are there.
fn rows_are_found_where_they_are(target: &Target) {
    let Some(delete_half) = target.delete_half else { return };
    let (work, engine) = target.loaded(2);
    drop(engine);
    delete_half(&work);
    let engine = target.engine(&work);
    promise("Session::execute");
    let mut session =
        engine.connect(Seat { session: 1, schema: 2, endpoint: 0, role: Role::Mixed }).unwrap();
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

/// A target as the promises of [`petal_prove`] see it: rows are read past petal, runs and drops are
/// another process's.
struct Place<'a> {
    target: &'a Target,
    work: Workplace,
}

impl Provable for Place<'_> {
    fn open(&self) -> petal_engine::Result<Arc<dyn Engine>> {
        self.target.open(&(self.target.url)(&self.work))
    }

    fn plan(&self, schemas: u32) -> LoadPlan {
        self.target.plan(schemas)
    }

    fn rows(&self, schema: u32) -> petal_engine::Result<ProvedRows> {
        Ok((self.target.look)(&self.work, schema))
    }

    fn rows_at_once(&self, schema: u32) -> petal_engine::Result<Option<ProvedRows>> {
        Ok(self.target.look_at_once(&self.work, schema))
    }

    fn is_alone(&self) -> bool {
        !self.target.commits.1
    }

    /// True for MariaDB and MySQL: all tests share one server, whose counters include the work of every test.
    fn is_shared(&self) -> bool {
        (self.target.url)(&self.work).starts_with("mysql")
    }

    fn hold(&self) -> petal_engine::Result<Option<Box<dyn Any>>> {
        match self.target.hold {
            Some(hold) => Ok(Some(hold(&self.work))),
            None if self.target.data.is_some() => Ok(None),
            None => self.open()?.server().map_or(Ok(None), |server| server.hold_rows(1)),
        }
    }

    fn run(&self, parameters: &[(&'static str, &str)]) -> PromiseResult<Run> {
        let flag = |(key, value): &(&str, &str)| {
            let name = key.to_lowercase().replace('_', "-");
            [format!("--{name}"), (*value).to_owned()]
        };
        let flags: Vec<String> = parameters.iter().flat_map(flag).collect();
        let args = std::iter::once("run").chain(flags.iter().map(String::as_str));
        let ended = self.target.petal(&self.work, &args.collect::<Vec<_>>()).ends();
        match ended.code {
            Some(0) => Ok(load(self.work.runs().last().unwrap()).unwrap()),
            _ => Err(Unproved::Broken { item: "Session::execute", seen: ended.stderr }),
        }
    }

    fn drop_elsewhere(&self) -> Result<(), String> {
        let ended = self.target.petal(&self.work, &["drop"]).ends();
        match ended.code {
            Some(3) => Err(ended.stderr),
            code => {
                assert_eq!(code, Some(0), "{}", ended.stderr);
                Ok(())
            }
        }
    }

    fn unreachable(&self) -> petal_engine::Result<(Arc<dyn Engine>, String, &'static str)> {
        let (url, name) = (self.target.broken)(&self.work);
        Ok((self.target.open(&url)?, name, "s3cret"))
    }

    fn stop(&self) -> Stop {
        unlimited()
    }
}

/// Holds a target with so many schemas to a promise.
fn keep(target: &Target, schemas: u32, check: fn(&dyn Provable) -> PromiseResult) {
    let work = match schemas {
        0 => Workplace::new(),
        _ => target.loaded(schemas).0,
    };
    keep_in(target, work, check);
}

fn keep_in(
    target: &Target,
    work: Workplace,
    check: fn(&dyn Provable) -> PromiseResult,
) -> Workplace {
    let place = Place { target, work };
    match check(&place) {
        Ok(_) => place.work,
        Err(Unproved::Broken { item, seen } | Unproved::Failed { item, seen, .. }) => {
            promise(item);
            panic!("{seen}");
        }
        Err(Unproved::Refused(why)) => panic!("not tried: {why}"),
        Err(Unproved::Stopped) => panic!("nobody stopped it"),
    }
}

/// Promises that are seen in the same way on a live server: a case of this suite for each, on so many
/// schemas.
macro_rules! promises {
    ($($rule:ident on $schemas:literal),+ $(,)?) => {$(
        fn $rule(target: &Target) {
            keep(target, $schemas, petal_prove::$rule);
        }
    )+};
}

promises! {
    an_operation_touches_its_work_unit on 1,
    a_latency_holds_all_rows_of_its_operation on 1,
    a_latency_is_that_of_its_own_operation on 1,
    updates_persist_and_reads_change_nothing on 1,
    a_commit_is_there_when_it_is_acknowledged on 1,
    a_hot_spot_stays_inside on 1,
    a_hot_schema_takes_the_operations_of_others on 2,
    nothing_begins_after_the_stop on 1,
    a_cancelled_operation_ends_and_is_not_done on 1,
    counters_only_grow_and_agree_with_the_work on 2,
    counters_are_of_their_own_endpoint on 1,
    the_mix_and_fixed_work_are_exact on 2,
    readers_read_and_writers_write on 2,
    a_stopped_load_leaves_nothing on 0,
    data_in_use_stay on 1,
    data_is_dropped_and_only_once on 2,
}

/// Also by the files of a database in petal's process.
fn n_rows_are_n_blocks(target: &Target) {
    let _alone = server_postgres::alone();
    let (work, engine) = target.loaded(2);
    drop(engine);
    if let Some(data) = target.data {
        let path = work.path(data);
        let bytes = match path.is_dir() {
            true => contents(&path).values().map(|file| file.len() as u64).sum(),
            false => path.metadata().unwrap().len(),
        };
        let asked = 2 * ROWS * u64::from(target.block_size);
        assert!(bytes >= asked, "{bytes} bytes of files hold rows that need {asked}");
    }
    let work = keep_in(target, work, petal_prove::n_rows_are_n_blocks);
    promise("Engine::settle");
    if let Some(log) = target.log {
        let bytes = log(&work, 1).metadata().map_or(0, |log| log.len());
        assert_eq!(bytes, 0, "bytes that are left in the log");
    }
    assert_eq!((target.look)(&work, 1).len() as u64, ROWS);
}

/// Work on another target of this process counts nothing.
fn counters_are_of_their_own_target(target: &Target) {
    if target.commits.1 {
        return;
    }
    let (_work, engine) = target.loaded(1);
    let (_elsewhere, other) = target.loaded(1);
    promise("Engine::read_counters");
    let commits = || -> Vec<Option<u64>> {
        let counters = engine.read_counters(true).unwrap();
        counters.iter().map(|endpoint| endpoint.io.commits).collect()
    };
    let home = Seat { session: 1, schema: 1, endpoint: 0, role: Role::Mixed };
    let updates = choose(&Workload { update_pct: 100, ..workload() }, home, 30);
    let before = commits();
    execute(other.connect(home).unwrap().as_mut(), &updates);
    assert_eq!(commits(), before, "commits, after work on another target");
}

/// Data that vanish while they are in use are noticed.
fn vanished_data_are_noticed(target: &Target) {
    let Some(data) = target.data else { return };
    let (work, engine) = target.loaded(1);
    let used = engine.begin_use(1).unwrap();
    promise("DataUse::vanished");
    let [there, aside] = [data, "aside"].map(|name| work.path(name));
    std::fs::rename(&there, &aside).unwrap();
    assert!(used.vanished().unwrap().is_some(), "data that are gone are said to be there");
    std::fs::rename(&aside, &there).unwrap();
    drop((used, engine));
    promise("Engine::begin_use");
    target.petal(&work, &["drop"]).exits(0);
}

/// A drop leaves others' files, also by a name of petal's.
fn foreign_files_stay(target: &Target) {
    let (work, engine) = target.loaded(2);
    let folder = target.data.map(|data| work.path(data)).filter(|data| data.is_dir());
    let Some(folder) = folder else { return };
    let named = names(&folder).into_iter().find(|name| name.starts_with("petal1.")).unwrap();
    let foreign = ["notes".to_owned(), named.replace("petal1", "petal9")];
    foreign.iter().for_each(|name| std::fs::write(folder.join(name), "somebody's").unwrap());
    promise("Engine::drop_data");
    assert!(!engine.drop_data().unwrap().is_empty());
    let left = if folder.exists() { names(&folder) } else { Vec::new() };
    assert_eq!(left, foreign, "files that a drop leaves");
}

fn errors_name_the_target_and_no_password(target: &Target) {
    let work = Workplace::new();
    promise("EngineError");
    let (url, name) = (target.broken)(&work);
    for command in ["setup", "run", "drop"] {
        let ended = work.petal([command, "--db", &url]).exits(3).telling(&[&name]);
        assert!(!ended.stderr.contains("s3cret"), "{}", ended.stderr);
    }
    keep_in(target, work, petal_prove::errors_name_the_target_and_no_password);
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
            a_commit_is_there_when_it_is_acknowledged,
            reads_and_syncs_are_seen_from_outside,
            a_hot_spot_stays_inside,
            a_hot_schema_takes_the_operations_of_others,
            rows_are_found_where_they_are,
            nothing_begins_after_the_stop,
            a_cancelled_operation_ends_and_is_not_done,
            counters_only_grow_and_agree_with_the_work,
            counters_are_of_their_own_target,
            counters_are_of_their_own_endpoint,
            the_mix_and_fixed_work_are_exact,
            readers_read_and_writers_write,
            a_stopped_load_leaves_nothing,
            a_killed_load_is_refused,
            missing_rows_are_an_error,
            data_in_use_stay,
            vanished_data_are_noticed,
            data_is_dropped_and_only_once,
            foreign_files_stay,
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
    #[ignore = "once more, through HAProxy: see docs/testing.md"]
    #[cfg(feature = "postgres")]
    postgres_behind_proxy: super::postgres::POSTGRES_BEHIND_PROXY;
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
