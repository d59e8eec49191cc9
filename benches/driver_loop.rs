//! Measures what petal itself costs per operation. The loop runs on the scripted engine, whose
//! operations take no time, and the parts of the loop are measured beside it.
//!
//! `cargo bench --bench driver_loop` prints nanoseconds per operation, medians of interleaved
//! rounds in one process. Absolute figures move from machine to machine; the shares do not much.

#![allow(clippy::print_stdout, clippy::unwrap_used)]

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use petal_engine::{Caller, Engine as _, Silent};
use petal_host::histogram::Latencies;
use petal_record::ledger::{FORMAT, LedgerFile, LedgerHeader};
use petal_run::Watch;
use petal_run::hook_group::HookGroup;
use petal_run::job::{Job, Start};
use petal_run::peers::{MessageTag, PeerError, PeerWait, Peers, ProgressShare, Together};
use petal_run::run::run;
use petal_scripted::{Script, Scripted};
use petal_settings::Settings;
use petal_workload::picker::Picker;
use petal_workload::plan::{Workload, seats};
use petal_workload::share::Share;
use petal_workload::version::RunStamps;

const OPERATIONS: u64 = 1_000_000;
const ROUNDS: usize = 7;
const ROWS: u64 = 1_000_000;

/// A name, and what takes [`OPERATIONS`] times as long.
type Part = (&'static str, fn() -> Duration);

fn main() {
    let parts: [Part; 7] = [
        ("whole loop, one session", whole_loop),
        ("the same, one of two hosts", one_of_two_hosts),
        ("whole loop, UPDATEs alone", updates),
        ("the same, with a ledger", updates_with_ledger),
        ("choosing an operation", choosing),
        ("two clock reads", clocks),
        ("one histogram record", recording),
    ];
    let mut ns: Vec<Vec<f64>> = vec![Vec::new(); parts.len()];
    for _ in 0..ROUNDS {
        for (samples, (_, part)) in ns.iter_mut().zip(&parts) {
            samples.push(part().as_nanos() as f64 / OPERATIONS as f64);
        }
    }
    println!("{:<26} {:>10} {:>10} {:>10}  ns per operation", "", "median", "least", "most");
    for (samples, (name, _)) in ns.iter_mut().zip(&parts) {
        samples.sort_by(f64::total_cmp);
        let (median, least, most) = (samples[ROUNDS / 2], samples[0], samples[ROUNDS - 1]);
        println!("{name:<26} {median:>10.1} {least:>10.1} {most:>10.1}");
    }
    let ratio = ns[1][ROUNDS / 2] / ns[0][ROUNDS / 2];
    println!(
        "one of two hosts that agree, begin and end together: {ratio:.3} of one that is alone"
    );
    let ledger_ns = ns[3][ROUNDS / 2] - ns[2][ROUNDS / 2];
    println!(
        "a ledger costs {ledger_ns:.0} ns per commit: 2 % of a session's commits that take {:.0} us each",
        ledger_ns * 50.0 / 1000.0
    );
    println!(
        "the loop holds the scripted engine's own work too; an operation of 64 cached blocks takes about 60,000 ns"
    );
}

fn settings() -> Settings {
    Settings { work_loop: OPERATIONS, os_perf_data: false, seed: Some(1), ..Settings::default() }
}

/// Choosing, executing on the scripted engine, folding, sampling: a run with fixed work, from its own
/// trigger to its own end.
fn whole_loop() -> Duration {
    driven(&settings(), Share::WHOLE, (Start::AtOnce, &Silent), None)
}

fn updates() -> Duration {
    let settings = Settings { update_pct: 100, ..settings() };
    driven(&settings, Share::WHOLE, (Start::AtOnce, &Silent), None)
}

/// The ledger is a file below the system's folder for such files.
fn updates_with_ledger() -> Duration {
    let settings = Settings { update_pct: 100, ..settings() };
    let workload = Workload::new(&settings, ROWS, 8192, 1, 1, 1);
    let header = LedgerHeader {
        format: FORMAT.to_owned(),
        petal_version: String::new(),
        url: String::new(),
        opened_at: String::new(),
        stamp_mask: RunStamps::of(&workload).mask(),
        sessions: 1,
        share: None,
        heavy: false,
        rows: ROWS,
        schemas: Vec::new(),
    };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ledger");
    let ledger = Arc::new(LedgerFile::create(&path, &header, &Arc::default()).unwrap());
    let took = driven(&settings, Share::WHOLE, (Start::AtOnce, &Silent), Some(&ledger));
    assert_eq!(ledger.commits(), OPERATIONS);
    took
}

/// Half of a run of twice the sessions, together with a host that is ready whenever it is asked.
fn one_of_two_hosts() -> Duration {
    let caller = Caller { signals: Arc::default(), note: Arc::new(|_| ()) };
    let hosts = Together::new(Arc::new(AlwaysReady), caller);
    let reported = ProgressShare { hosts: &hosts, shown: &Silent };
    driven(&settings(), Share { number: 2, of: 2 }, (Start::Together(&hosts), &reported), None)
}

/// The first host as the second one hears it.
struct AlwaysReady;

impl Peers for AlwaysReady {
    fn rank(&self) -> u32 {
        1
    }

    fn size(&self) -> u32 {
        2
    }

    fn send(&self, _: u32, _: MessageTag, _: &[u8], _: &PeerWait<'_>) -> Result<(), PeerError> {
        Ok(())
    }

    fn receive(&self, _: u32, _: MessageTag, _: &PeerWait<'_>) -> Result<Vec<u8>, PeerError> {
        // A verdict of the first run, and nothing against it.
        Ok(vec![0; 4])
    }

    fn arrived(&self, _: MessageTag) -> Result<Option<u32>, PeerError> {
        Ok(None)
    }

    fn barrier(&self, _: &PeerWait<'_>) -> Result<(), PeerError> {
        Ok(())
    }
}

fn driven(
    settings: &Settings,
    share: Share,
    (start, watch): (Start<'_>, &dyn Watch),
    ledger: Option<&Arc<LedgerFile>>,
) -> Duration {
    let settings = Settings { threads_per_schema: share.of, ..settings.clone() };
    let script = Script { latency: [Duration::from_nanos(100); 3], ..Script::default() };
    let engine = Scripted::in_memory(script, ROWS);
    let began = Instant::now();
    let job = Job {
        engine: &engine,
        engines: petal::engines::open,
        settings: &settings,
        workload: Workload::new(&settings, ROWS, 8192, 1, 1, 1),
        plan: seats(&settings, 1, 1),
        seats: share.seats(&seats(&settings, 1, 1)),
        share,
        start,
        loaded: engine.loaded().unwrap(),
        folder: None,
        os_data: None,
        ledger,
        neighbours: None,
        limits_of_first_cell: Default::default(),
        signals: Arc::default(),
        hooks: HookGroup::default(),
        watch,
    };
    let record = run(&job, |run, _| run);
    assert_eq!(record.unwrap().summary.ops.total, OPERATIONS);
    began.elapsed()
}

fn choosing() -> Duration {
    let settings = settings();
    let workload = Workload::new(&settings, ROWS, 8192, 1, 1, 1);
    let mut picker = Picker::new(&workload, seats(&settings, 1, 1)[0]);
    time(|_| {
        black_box(picker.next_step());
    })
}

fn clocks() -> Duration {
    time(|_| {
        black_box((Instant::now(), Instant::now()));
    })
}

fn recording() -> Duration {
    let mut latencies = Latencies::new();
    time(|n| latencies.record(black_box(50_000 + n % 4096)))
}

fn time(mut part: impl FnMut(u64)) -> Duration {
    let began = Instant::now();
    (0..OPERATIONS).for_each(&mut part);
    began.elapsed()
}
