//! Storage that stops answering, in the kernel, where nothing interrupts it: petal ends in time all the
//! same, names what hangs and keeps what it measured.

use std::fs;
use std::time::{Duration, Instant};

use crate::fuse::{self, Fuse};
use crate::support::{Ended, Running, Workplace, is_long, record, seconds_in, skip};
use rustix::process::Signal;
use serde_json::Value;

/// A signal leaves sessions 3 s, their cancelled operations 15 and their threads 2.
const RUN_LIMIT: Duration = Duration::from_secs(24);
/// What cannot end by itself is left 25 s after a signal.
const LIMIT: Duration = Duration::from_secs(28);

fn mounted() -> Option<Fuse> {
    Fuse::mounted().map_err(|why| skip(&why)).ok()
}

/// The target of each engine in petal's own process.
fn targets(fuse: &Fuse) -> [String; 4] {
    let place = fuse.path("data").display().to_string();
    [
        format!("device:{place}.dev"),
        format!("sqlite:{place}"),
        format!("redb:{place}"),
        format!("lmdb:{place}"),
    ]
}

#[track_caller]
fn ends_within(running: Running, limit: Duration) -> Ended {
    let began = Instant::now();
    let ended = running.ends();
    assert!(began.elapsed() < limit, "{:?}:\n{}", began.elapsed(), ended.stderr);
    ended
}

fn setup(work: &Workplace, db: &str) {
    work.petal(["setup", "-s", "2", "--scale", "8M", "--db", db]).exits(0);
}

/// All at once: each waits for half a minute and works for a second.
#[test]
fn whatever_hangs_petal_ends_in_time_after_a_signal() {
    let is_long = is_long();
    std::thread::scope(|scope| {
        scope.spawn(|| run_hangs(0, &[fuse::READ, fuse::WRITE, fuse::FSYNC]));
        scope.spawn(|| run_hangs(1, &[fuse::READ, fuse::WRITE, fuse::FSYNC]));
        scope.spawn(record_hangs);
        scope.spawn(|| ledger_hangs(fuse::WRITE, Some(Signal::INT)));
        scope.spawn(|| ledger_hangs(fuse::FSYNC, Some(Signal::INT)));
        scope.spawn(|| work_hangs("setup", 1, fuse::WRITE));
        scope.spawn(|| work_hangs("calibrate", 0, fuse::READ));
        if is_long {
            scope.spawn(|| ledger_hangs(fuse::FSYNC, None));
            scope.spawn(|| work_hangs("setup", 0, fuse::WRITE));
            scope.spawn(|| work_hangs("drop", 0, fuse::OPEN));
            scope.spawn(|| work_hangs("drop", 1, fuse::UNLINK));
        }
    });
    if is_long {
        std::thread::scope(|scope| {
            for engine in 2..4 {
                scope.spawn(move || run_hangs(engine, &[fuse::READ, fuse::WRITE, fuse::FSYNC]));
                scope.spawn(move || work_hangs("setup", engine, fuse::WRITE));
                scope.spawn(move || work_hangs("drop", engine, fuse::UNLINK));
            }
        });
    }
}

/// Each kind of request to the target hangs, one kind at a time, before a command or in a run.
#[test]
fn whichever_request_hangs_petal_ends_in_time_after_a_signal() {
    if !is_long() {
        return;
    }
    let requests = [
        fuse::LOOKUP,
        fuse::GETATTR,
        fuse::UNLINK,
        fuse::OPEN,
        fuse::READ,
        fuse::WRITE,
        fuse::FSYNC,
        fuse::FLUSH,
        fuse::CREATE,
    ];
    let cases = requests.iter().flat_map(|request| (0..4).map(|engine| (engine, *request)));
    let cases: Vec<_> = cases.collect();
    for some in cases.chunks(6) {
        std::thread::scope(|scope| {
            for (engine, request) in some {
                scope.spawn(|| any_request_hangs(*engine, *request));
            }
        });
    }
}

/// Setup, run and drop with a signal after a second: they may end without that request.
fn any_request_hangs(engine: usize, request: u32) {
    // From the start, and in the middle.
    for (command, later) in [("setup", false), ("run", false), ("run", true), ("drop", false)] {
        let Some(fuse) = mounted() else { return };
        let work = Workplace::new();
        let db = targets(&fuse)[engine].clone();
        let args = match command {
            "setup" => vec!["setup", "-s", "2", "--scale", "8M", "--db", &db],
            "run" => vec!["run", "--run-time", "100", "--update-pct", "50", "--db", &db],
            _ => vec!["drop", "--db", &db],
        };
        if command != "setup" {
            setup(&work, &db);
        }
        fuse.hang(if later { &[] } else { std::slice::from_ref(&request) });
        let mut running = work.petal(&args).start();
        std::thread::sleep(Duration::from_secs(2));
        fuse.hang(&[request]);
        std::thread::sleep(Duration::from_secs(1));
        if !running.has_ended() {
            running.signal(Signal::INT);
        }
        let ended = ends_within(running, LIMIT);
        // None: by the signal itself.
        let is_known = matches!(ended.code, None | Some(0 | 1 | 3 | 130));
        assert!(is_known, "{command} {request}: {ended:?}");
        assert!(!ended.stderr.contains("panicked"), "{command} {request}: {ended:?}");
    }
}

/// Setup, drop and calibrate have nothing to record: the process that does the work hangs for good, and
/// the one that the shell waits for leaves it behind.
fn work_hangs(command: &str, engine: usize, request: u32) {
    let Some(fuse) = mounted() else { return };
    let work = Workplace::new();
    let db = targets(&fuse)[engine].clone();
    if command == "drop" {
        setup(&work, &db);
    }
    let place = fuse.path("data.dev").display().to_string();
    let args = match command {
        "calibrate" => vec!["calibrate", &place, "--size", "64M"],
        "setup" => vec!["setup", "-s", "2", "--scale", "64M", "--db", &db],
        _ => vec![command, "--db", &db],
    };
    fuse.hang(&[request]);
    let mut running = work.petal(args).start();
    running.until("a request that hangs", || fuse.is_waited_for());
    running.signal(Signal::INT);
    let ended = ends_within(running, LIMIT);
    let words = ["petal leaves it behind", "has ended but for threads"];
    assert!(words.iter().any(|words| ended.stderr.contains(words)), "{}", ended.stderr);
    ended.exited(1).telling(&["no progress for ", "thread ", " in state "]);
}

/// A run whose storage hangs after a second, and a signal.
fn run_hangs(engine: usize, requests: &[u32]) {
    let Some(fuse) = mounted() else { return };
    let (work, db) = (Workplace::new(), targets(&fuse)[engine].clone());
    setup(&work, &db);
    let run = ["run", "--run-time", "100", "--update-pct", "50", "--db", &db];
    let mut run = work.petal(run).start();
    run.until("a second of a run", || !work.seconds().is_empty());
    fuse.hang(requests);
    run.until("a request that hangs", || fuse.is_waited_for());
    run.signal(Signal::INT);
    let ended = ends_within(run, RUN_LIMIT).exited(1);
    let ended = ended.telling(&["does not answer", "thread ", "of process"]);
    let record = record(&work.run_folder());
    let lost = record["sessions_lost"].as_array().unwrap();
    let is_stuck = |lost: &Value| {
        let message = lost["message"].as_str().unwrap();
        lost["code"] == "stuck" && message.contains("thread ") && message.contains(" s")
    };
    assert!(!lost.is_empty() && lost.iter().all(is_stuck), "{lost:?}\n{}", ended.stderr);
    assert!(record["ops"]["total"].as_u64().unwrap() > 0);
    let seconds = work.seconds();
    assert!(!seconds.last().unwrap()["sessions_lost"].as_array().unwrap().is_empty());
}

/// The record lies on the storage that hangs.
fn record_hangs() {
    let Some(fuse) = mounted() else { return };
    let work = Workplace::loaded(1, "8M");
    let out = fuse.path("out").display().to_string();
    let mut run = work.petal(["run", "--run-time", "100", "--out", &out]).start();
    let seconds = || {
        let runs = fs::read_dir(&out).into_iter().flatten().flatten();
        runs.map(|run| seconds_in(&run.path())).any(|seconds| !seconds.is_empty())
    };
    run.until("a second of a run", seconds);
    fuse.hang_all();
    run.until("a request that hangs", || fuse.is_waited_for());
    run.signal(Signal::INT);
    let words = ["storage does not answer", "no progress for ", "thread ", &out];
    ends_within(run, LIMIT).exited(1).telling(&words);
}

/// The ledger lies on the storage that hangs, in a write of a session or in the sync at the end, after a
/// signal or without one. The record is written, with the reason why the ledger is not complete.
fn ledger_hangs(request: u32, signal: Option<Signal>) {
    let Some(fuse) = mounted() else { return };
    let work = Workplace::loaded(1, "8M");
    let ledger = fuse.path("kept.ledger").display().to_string();
    let (seconds, limit, waited) = match signal {
        Some(_) => ("100", LIMIT, "3 s"),
        None => ("4", LIMIT + Duration::from_secs(60), "60 s"),
    };
    let run = ["run", "--run-time", seconds, "--update-pct", "50", "--ledger", &ledger];
    let mut run = work.petal(run).start();
    run.until("a second of a run", || !work.seconds().is_empty());
    fuse.hang(&[request]);
    if request == fuse::WRITE {
        run.until("a request that hangs", || fuse.is_waited_for());
    }
    signal.into_iter().for_each(|signal| run.signal(signal));
    let ended = ends_within(run, limit);
    assert_ne!(ended.code, Some(0), "{}", ended.stderr);
    let why = "kept.ledger: the ledger could not be written on: its storage does not answer for ";
    let why = [why, waited].concat();
    ended.telling(&[&why, "thread "]);
    let record = record(&work.run_folder());
    assert!(record["details"]["gaps"].to_string().contains(&why), "{}", record["details"]["gaps"]);
    assert!(record["ops"]["total"].as_u64().unwrap() > 0);
}
