//! Tests of the runner on the scripted engine: its operations take the script's time, not the
//! test's.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use time::OffsetDateTime;

use petal_engine::{Engine as _, Silent};
use petal_record::{Run, Status};
use petal_scripted::{Fault, OperationTrace, Script, Scripted};
use petal_settings::rates::RateOverTime;
use petal_settings::{Arrivals, Settings, ThinkTime, UntilSteady, WarmUp};
use petal_workload::plan::{Workload, seats};
use petal_workload::share::Share;

use super::RunError;
use super::hook_group::HookGroup;
use super::job::{Job, Start};
use super::run::run;

const MILLISECOND: Duration = Duration::from_millis(1);

fn script() -> Script {
    Script { latency: [MILLISECOND, MILLISECOND * 10, MILLISECOND * 2], ..Script::default() }
}

fn settings(schemas: u32, run_time_s: u64) -> Settings {
    Settings {
        schemas: Some(schemas),
        run_time: Duration::from_secs(run_time_s),
        os_perf_data: false,
        ..Settings::default()
    }
}

fn drive(script: Script, settings: &Settings) -> Result<Run, RunError> {
    drive_with(script, settings, Arc::default())
}

fn drive_with(
    script: Script,
    settings: &Settings,
    signals: Arc<AtomicU8>,
) -> Result<Run, RunError> {
    drive_share(script, settings, signals, (Share::WHOLE, Start::AtOnce))
}

fn drive_share(
    script: Script,
    settings: &Settings,
    signals: Arc<AtomicU8>,
    (share, start): (Share, Start),
) -> Result<Run, RunError> {
    let engine = Scripted::in_memory(script, 10_000);
    let schemas = settings.schemas.unwrap_or(1);
    let loaded = engine.loaded().unwrap();
    let plan = seats(settings, schemas, 1);
    let job = Job {
        engine: &engine,
        engines: Scripted::open,
        settings,
        workload: Workload::new(settings, 10_000, 8192, schemas, 7, 1),
        seats: share.seats(&plan),
        plan,
        share,
        start,
        loaded,
        folder: None,
        os_data: None,
        ledger: None,
        neighbours: None,
        limits_of_first_cell: BTreeMap::new(),
        signals,
        hooks: HookGroup::default(),
        watch: &Silent,
    };
    run(&job, |run, _| run)
}

#[test]
fn a_timed_run_fills_its_time_exactly() {
    let settings = Settings { update_pct: 0, ..settings(4, 10) };
    let run = drive(script(), &settings).unwrap();
    let summary = &run.summary;
    assert_eq!(summary.status, Status::Complete);
    assert_eq!(summary.ops.select, 4 * 10_000);
    assert_eq!(summary.rows.select, 64 * summary.ops.select);
    assert_eq!(summary.elapsed_s, 10.0);
    assert_eq!(summary.per_second.ops, Some(4000.0));
    assert_eq!(summary.latency_us["select"].count, 40_000);
    assert!((summary.latency_us["select"].p50.unwrap() - 1000.0).abs() <= 1.0);
    assert_eq!(run.details.db_time_s, 40.0);
    let rows: u64 = run.details.timeline.iter().map(|second| second.rows.total()).sum();
    assert_eq!(rows, summary.rows.total());
    assert_eq!(run.details.timeline[3].ops.total, 4000);
}

#[test]
fn the_mix_is_exact_over_whole_decks() {
    let settings =
        Settings { update_pct: 20, work_loop: 1000, threads_per_schema: 2, ..settings(4, 300) };
    let run = drive(script(), &settings).unwrap();
    let summary = run.summary;
    assert_eq!((summary.ops.total, summary.ops.update), (8000, 1600));
    assert_eq!(summary.counters.get("commits"), Some(&1600));
    assert_eq!(run.details.io.commits, Some(1600));
    assert_eq!(summary.rows.update, 1600 * 64);
}

#[test]
fn errors_are_counted_by_code_and_the_session_goes_on() {
    let fault = |operation| (2, operation, Fault::Busy);
    let script = Script { faults: vec![fault(3), fault(50)], ..script() };
    let run = drive(script, &Settings { work_loop: 100, ..settings(2, 300) }).unwrap();
    assert_eq!(run.summary.errors["busy"], 2);
    assert_eq!(run.summary.ops.total, 198);
    assert!(run.summary.sessions_lost.is_empty());
    assert_eq!(run.summary.status, Status::Complete);
}

#[test]
fn a_panic_while_counters_are_sampled_costs_the_counters_and_not_the_run() {
    let script = Script { snapshot_panics_from: Some(1), ..script() };
    let run = drive(script, &Settings { update_pct: 0, ..settings(2, 3) }).unwrap();
    assert_eq!(run.summary.status, Status::Complete);
    assert_eq!(run.summary.ops.select, 2 * 3_000);
    assert_eq!(run.details.io.logical_reads, None);
    let rows: u64 = run.details.timeline.iter().map(|second| second.ops.total).sum();
    assert_eq!(rows, run.summary.ops.total);
    let gaps = run.details.gaps.join("; ");
    assert!(gaps.contains("failed inside"), "{gaps}");
}

#[test]
fn a_panic_of_the_experiments_costs_these_and_not_the_run() {
    // An operation hangs, so that the run lasts longer than the time until the experiments.
    let faults = vec![(1, 2, Fault::Hang)];
    let script = Script { snapshot_panics_from: Some(1), faults, ..script() };
    let run = drive(script, &Settings { elasticity: true, ..settings(2, 1) }).unwrap();
    assert!(run.summary.ops.cut == 1 && run.summary.ops.total > 0);
    let gaps = &run.details.experiments.unwrap().gaps.join("; ");
    assert!(gaps.contains("the experiments ended early: this failed inside petal"), "{gaps}");
}

#[test]
fn a_panic_before_the_trigger_is_an_error_and_no_session_waits_for_ever() {
    let script = Script { snapshot_panics_from: Some(0), ..script() };
    let (sender, ended) = channel();
    thread::spawn(move || {
        let _ = sender.send(drive(script, &settings(2, 3)).map(drop));
    });
    let ended = ended.recv_timeout(Duration::from_secs(60)).expect("the run ends");
    let error = ended.unwrap_err().to_string();
    assert!(error.contains("failed inside petal"), "{error}");
}

#[test]
fn a_lost_session_is_named_and_its_work_counts() {
    let faults = vec![(3, 11, Fault::Die)];
    let run = drive(Script { faults, ..script() }, &settings(4, 2)).unwrap();
    let [lost] = run.summary.sessions_lost.as_slice() else { panic!("one session is lost") };
    assert_eq!((lost.session, lost.code.as_str()), (3, "dead"));
    assert_eq!(run.summary.status, Status::Complete);
    let updates = run.summary.ops.update;
    assert!(updates > 0 && run.summary.ops.total > 3 * 1000);
}

#[test]
fn a_session_that_panics_is_lost_and_the_run_ends() {
    let faults = vec![(1, 11, Fault::Panic)];
    let run = drive(Script { faults, ..script() }, &settings(2, 2)).unwrap();
    let [lost] = run.summary.sessions_lost.as_slice() else { panic!("one session is lost") };
    assert_eq!((lost.session, lost.code.as_str()), (1, "panic"));
    assert!(lost.message.contains("please report it"), "{}", lost.message);
}

#[test]
fn a_run_without_survivors_has_failed() {
    let die = |session| (session, 5, Fault::Die);
    let faults = vec![die(1), die(2)];
    let run = drive(Script { faults, ..script() }, &settings(2, 2)).unwrap();
    assert_eq!(run.summary.status, Status::Failed);
    assert_eq!(run.summary.ops.total, 8);
}

#[test]
fn two_signals_cut_the_operation_in_flight() {
    let signals = Arc::new(AtomicU8::new(0));
    let sender = signals.clone();
    thread::spawn(move || {
        thread::sleep(Duration::from_millis(100));
        sender.store(2, Ordering::Relaxed);
    });
    let faults = vec![(1, 1, Fault::Hang)];
    let began = Instant::now();
    let run = drive_with(Script { faults, ..script() }, &settings(2, 600), signals).unwrap();
    assert_eq!(run.summary.status, Status::Interrupted);
    assert_eq!(run.summary.ops.cut, 1);
    assert!(began.elapsed() < Duration::from_secs(5));
}

#[test]
fn one_session_that_cannot_connect_calls_the_run_off() {
    let error = drive(Script { refused: Some(5), ..script() }, &settings(8, 2)).unwrap_err();
    let text = error.to_string();
    assert!(text.contains("session 5 of 8") && text.contains("refused"), "{text}");
}

#[test]
fn more_sessions_than_the_server_admits_are_refused_first() {
    let error = drive(Script { sessions_max: Some(7), ..script() }, &settings(8, 2)).unwrap_err();
    assert!(matches!(error, RunError::Setting(_)), "{error}");
}

#[test]
fn a_cache_of_unknown_size_is_not_said_to_be_filled() {
    let settings = Settings { warm_up: WarmUp::Cache, ..settings(1, 1) };
    let error = drive(script(), &settings).unwrap_err();
    assert!(matches!(error, RunError::Setting(_)), "{error}");
    assert!(error.to_string().contains("WARM_UP=cache"), "{error}");
}

#[test]
fn a_failed_closing_snapshot_gives_nulls_and_keeps_the_rest() {
    let settings = Settings { update_pct: 0, ..settings(1, 1) };
    let run = drive(Script { snapshot_fails: true, ..script() }, &settings).unwrap();
    assert_eq!(run.summary.per_second.physical_read_requests, None);
    assert_eq!(run.summary.ops.select, 1000);
    assert!(run.details.gaps.iter().any(|gap| gap.contains("snapshot failed")));
}

#[test]
fn the_steady_window_leaves_the_warm_up_out() {
    let warm_up = WarmUp::Time(Duration::from_secs(3));
    let settings = Settings { update_pct: 0, warm_up, ..settings(2, 10) };
    let steady = drive(script(), &settings).unwrap().summary.steady.unwrap();
    assert_eq!((steady.from_s, steady.to_s), (3.0, 10.0));
    assert_eq!(steady.per_second.ops, Some(2000.0));
    assert_eq!(steady.latency_us["select"].count, 14_000);
}

#[test]
fn an_open_loop_issues_its_rate_and_times_from_the_intended_start() {
    let script = Script { latency: [Duration::from_nanos(1000); 3], ..Script::default() };
    let rate = Some(RateOverTime::constant(1000.0));
    for (arrivals, most) in [(Arrivals::Poisson, 250), (Arrivals::Even, 1), (Arrivals::Dealt, 1)] {
        let settings = Settings { update_pct: 0, rate: rate.clone(), arrivals, ..settings(4, 2) };
        let run = drive(script.clone(), &settings).unwrap();
        let ops = run.summary.ops.total;
        // Every operation that was due is done, except those of the last instant.
        let due = ops + run.details.backlog.unwrap();
        assert!(due.abs_diff(2000) <= most && ops > 1000, "{ops} of {due}");
        assert_eq!(run.summary.latency_us["select_response"].count, due);
        assert!(run.summary.latency_us["lateness"].count > 100);
    }
}

/// A hundred million operations a second are more than a session can begin.
#[test]
fn operations_that_were_never_begun_are_in_the_response_times() {
    let script = Script { latency: [Duration::from_nanos(1); 3], ..Script::default() };
    let rate = Some(RateOverTime::constant(1e8));
    let settings = Settings { update_pct: 30, rate, ..settings(1, 1) };
    let run = drive(script, &settings).unwrap();
    let backlog = run.details.backlog.unwrap();
    assert!(backlog > 10_000_000, "{backlog}");
    let [selects, updates] =
        ["select_response", "update_response"].map(|kind| run.summary.latency_us[kind].clone());
    let due = run.summary.ops.total + backlog;
    assert_eq!(selects.count + updates.count, due);
    assert!(due.abs_diff(100_000_000) < 100_000, "{due}");
    // Operations are due evenly, so that half of them had waited for half of the second.
    assert!((450_000.0..550_000.0).contains(&selects.p50.unwrap()), "{selects:?}");
}

/// Two sessions with 4 ms per operation at 500 per second: the script's clock follows the real one,
/// so that samples fall on seconds.
#[test]
fn the_headline_is_what_was_counted_between_the_bounds_of_the_steady_window() {
    use petal_record::Window;
    let script = Script { latency: [MILLISECOND * 4; 3], ..Script::default() };
    let warm_up = WarmUp::Time(Duration::from_secs(2));
    let settings = Settings {
        update_pct: 0,
        rate: Some(RateOverTime::constant(500.0)),
        warm_up,
        ..settings(2, 6)
    };
    let run = drive(script, &settings).unwrap();
    let steady = run.summary.steady.clone().unwrap();
    let headline = run.headline_window();
    // A busy machine may miss a sample at a bound, which is then a second later.
    assert_eq!(headline.window, Window::Steady { from_s: steady.from_s, to_s: steady.to_s });
    assert!(steady.from_s >= 2.0 && steady.to_s <= 6.0, "{steady:?}");
    let totals = run.details.steady.as_ref().unwrap();
    let reads = totals.io.physical_read_requests.unwrap();
    assert!(reads > 0 && Some(reads) < run.details.io.physical_read_requests);
    let rate = reads as f64 / totals.counted_s;
    assert_eq!(headline.run.summary.per_second.physical_read_requests, Some(rate));
    let waits = |run: &Run| run.summary.io_latency_us["read"].count;
    assert!(waits(&headline.run) > 0 && waits(&headline.run) < waits(&run));
}

/// Windows of a second instead of a minute; the open loop keeps the script's clock and the real one
/// together.
#[test]
fn a_run_ends_as_soon_as_it_is_proven_steady() {
    let window = MILLISECOND * 1000;
    let until = |volume_bytes| Some(UntilSteady { window, volume_bytes });
    let steady = Settings {
        update_pct: 0,
        rate: Some(RateOverTime::constant(200.0)),
        arrivals: Arrivals::Even, // 200 random ones a second vary by 7 %.
        until_steady: until(None),
        ..settings(2, 60)
    };
    let run = drive(script(), &steady).unwrap();
    assert_eq!(run.summary.status, Status::Complete);
    assert!(run.summary.sessions_lost.is_empty());
    let asked = run.details.until_steady.unwrap();
    // A busy machine may delay it by some windows.
    assert!(asked.steady_from_s.is_some() && asked.volume_bytes == 0, "{asked:?}");
    assert!(run.details.last_done_s < Some(60.0), "{:?}", run.details.last_done_s);
    assert!(run.details.timeline.len() >= 5);
    // One that may not end before its volume is written ends by RUN_TIME.
    let writing = Settings {
        update_pct: 100,
        until_steady: until(Some(u64::MAX)),
        run_time: window * 7,
        ..steady
    };
    let run = drive(script(), &writing).unwrap();
    assert_eq!(run.details.until_steady.unwrap().steady_from_s, None);
    // The sessions' ends are on the real clock, the operations' on the script's.
    assert!(run.details.last_done_s > Some(6.0), "{:?}", run.details.last_done_s);
}

#[test]
fn readers_alone_owe_no_volume_whatever_update_pct_says() {
    let until_steady = Some(UntilSteady { window: MILLISECOND * 1000, volume_bytes: None });
    let settings = Settings { update_pct: 25, readers: Some(2), until_steady, ..settings(2, 1) };
    let run = drive(script(), &settings).unwrap();
    assert_eq!(run.summary.ops.update, 0);
    assert_eq!(run.details.until_steady.unwrap().volume_bytes, 0);
}

#[test]
fn think_time_is_slept_and_counted_apart() {
    let think = Duration::from_millis(100);
    let think_time = Some(ThinkTime { frequency: 1, min: think, max: think });
    let settings = Settings { think_time, work_loop: 5, update_pct: 0, ..settings(1, 60) };
    let began = Instant::now();
    let run = drive(script(), &settings).unwrap();
    assert!(began.elapsed() >= think * 5);
    let most_s = began.elapsed().as_secs_f64();
    assert!((0.5..most_s).contains(&run.details.think_time_s), "{}", run.details.think_time_s);
    assert!((run.details.db_time_s - 0.005).abs() < 1e-9);
}

#[test]
fn a_stop_wakes_a_thinking_session() {
    let think = Duration::from_secs(600);
    let think_time = Some(ThinkTime { frequency: 1, min: think, max: think });
    let settings = Settings { think_time, ..settings(1, 1) };
    let began = Instant::now();
    drive(script(), &settings).unwrap();
    assert!(began.elapsed() < Duration::from_secs(5));
}

/// DESIGN's promise, half of it: under ten seconds to the trigger and under 300 MB.
#[test]
fn a_thousand_sessions_start_quickly_in_little_memory() {
    let before = resident_bytes();
    let run = drive(script(), &settings(1000, 3)).unwrap();
    assert_eq!(run.summary.sessions, 1000);
    assert!(run.details.connect_s.unwrap() < 10.0);
    let grown = peak_resident_bytes().saturating_sub(before);
    assert!(grown < 300 << 20, "{} MiB", grown >> 20);
    assert_eq!(run.summary.latency_us["select"].count, run.summary.ops.select);
}

fn resident_bytes() -> u64 {
    status_kib("VmRSS:") << 10
}

fn peak_resident_bytes() -> u64 {
    status_kib("VmHWM:") << 10
}

fn status_kib(key: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with(key)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// Returns the operations of each session of fixed work, and the records of the shares.
fn traced(settings: &Settings, shares: u32) -> (OperationTrace, Vec<Run>) {
    let trace = OperationTrace::default();
    let runs = (1..=shares).map(|number| {
        let script = Script { trace: Some(trace.clone()), ..script() };
        let share = (Share { number, of: shares }, Start::AtOnce);
        drive_share(script, settings, Arc::default(), share).unwrap()
    });
    let runs = runs.collect();
    (trace, runs)
}

#[test]
fn four_hosts_do_what_one_would_session_by_session() {
    let think = ThinkTime { frequency: 50, min: MILLISECOND, max: MILLISECOND };
    let plain = Settings { threads_per_schema: 4, ..settings(2, 300) };
    let workloads = [
        Settings { update_pct: 30, scan_pct: 5, ..plain.clone() },
        // Fewer sessions than schemas: each visits several.
        Settings { sessions: Some(3), schemas: Some(5), ..plain.clone() },
        Settings { readers: Some(5), writers: Some(3), hot_schema_frequency: 7, ..plain.clone() },
        Settings {
            think_time: Some(think),
            rate: Some(RateOverTime::constant(20_000.0)),
            arrivals: Arrivals::Dealt,
            ..plain
        },
    ];
    for workload in workloads {
        let workload = Settings { work_loop: 200, ..workload };
        let (alone, _) = traced(&workload, 1);
        let (shared, runs) = traced(&workload, 3);
        let (alone, shared) = (alone.lock(), shared.lock());
        // A session of several schemas reads from each of them first.
        assert!(alone.values().all(|operations| operations.len() >= 200));
        assert!(*alone == *shared, "another stream");
        let sessions: u32 = runs.iter().map(|run| run.summary.sessions).sum();
        assert_eq!(sessions as usize, alone.len());
        let share = runs[1].summary.share.as_ref().unwrap();
        assert_eq!((share.share.number, share.plan_sessions), (2, sessions));
    }
}

#[test]
fn a_share_begins_at_its_moment_and_not_after_it() {
    let at = OffsetDateTime::now_utc() + Duration::from_millis(1200);
    let share = (Share { number: 1, of: 2 }, Start::At(at));
    let settings = Settings { work_loop: 10, ..settings(2, 300) };
    let run = drive_share(script(), &settings, Arc::default(), share).unwrap();
    let start = run.summary.share.unwrap().start;
    assert!(start.late_s.unwrap() >= 0.0, "{start:?}");
    assert!(OffsetDateTime::now_utc() > at);
    // It has passed now.
    let error = drive_share(script(), &settings, Arc::default(), share).unwrap_err().to_string();
    assert!(error.contains("give a later moment"), "{error}");
    // A share beyond the sessions has nothing to do.
    let share = (Share { number: 4, of: 4 }, Start::AtOnce);
    let error = drive_share(script(), &settings, Arc::default(), share).unwrap_err().to_string();
    assert!(error.contains("share 4/4") && error.contains("2 sessions"), "{error}");
}
