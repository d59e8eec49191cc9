//! Many sessions: connected in seconds, in little memory.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::Duration;

use crate::support::{ALONE, Workplace, count, number, record, skip, until};

/// The most memory that a process has had, in KiB.
fn memory_peak_kib(id: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{id}/status")).ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

#[test]
fn three_hundred_sessions_connect_and_run() {
    let _alone = ALONE.lock();
    let work = Workplace::loaded(2, "16M");
    // The limit is on petal and its sessions. Three hundred default caches, as far as they fill in
    // three seconds, would decide it alone.
    let db = ["--db", "sqlite:petal-data?cache=256K"];
    let args = ["run", "-s", "2", "-t", "150", "--run-time", "3", "--update-pct", "10", "--json"];
    let mut run = work.petal(args.into_iter().chain(db)).start();
    let mut peak_kib = 0;
    while !run.has_ended() {
        peak_kib = memory_peak_kib(run.id()).unwrap_or(0).max(peak_kib);
        thread::sleep(Duration::from_millis(20));
    }
    let run = run.ends().exited(0).json();
    assert_eq!(count(&run, "/sessions"), 300);
    assert_eq!(run["sessions_lost"], serde_json::json!([]));
    assert!(count(&run, "/ops/total") >= 300);
    let connect_s = number(&record(&work.run_folder()), "/details/connect_s");
    assert!(connect_s < 10.0, "{connect_s} s to the trigger");
    assert!((1..300 << 10).contains(&peak_kib), "{peak_kib} KiB");
}

/// Operations of 3.3 s: each second's DB time is all of the sessions' time, in the middle of an
/// operation, too, and never more than that.
#[test]
fn a_slow_operation_is_db_time_in_each_second_of_it() {
    let work = Workplace::new();
    let url = format!("scripted:{}?select_us=3300000", work.path("data").display());
    work.petal(["setup", "--db", &url, "--scale", "16M"]).exits(0);
    let args = ["run", "--db", &url, "--update-pct", "0", "-t", "2", "--work-unit", "1"];
    work.petal(args.iter().chain(&["--run-time", "4"])).exits(0);
    let lines = work.seconds();
    let seconds = lines.iter().filter(|line| line.get("db_time_s").is_some());
    let db_time_s: Vec<f64> = seconds.map(|line| number(line, "/db_time_s")).collect();
    assert!(db_time_s.len() >= 6, "{db_time_s:?}");
    // The last second is not whole. A busy machine begins an operation late.
    for two in db_time_s[..6].windows(2) {
        let second = two[1] - two[0];
        assert!((1.7..=2.001).contains(&second), "{second} of 2 s: {db_time_s:?}");
    }
}

/// Timer slack of the threads of a process that have this name, in ns.
fn timer_slack_ns(id: u32, name: &str) -> Vec<u64> {
    let Ok(threads) = fs::read_dir(format!("/proc/{id}/task")) else { return Vec::new() };
    let slack = |thread: fs::DirEntry| {
        let comm = fs::read_to_string(thread.path().join("comm")).ok()?;
        let thread = Path::new("/proc").join(thread.file_name());
        let slack = fs::read_to_string(thread.join("timerslack_ns")).ok()?;
        comm.starts_with(name).then(|| slack.trim().parse().unwrap())
    };
    threads.flatten().filter_map(slack).collect()
}

/// Linux lets a sleeping thread oversleep by 50 us, which a response time would contain.
#[test]
fn sessions_that_wait_for_arrivals_have_no_timer_slack() {
    let work = Workplace::loaded(1, "8M");
    let args = ["run", "-t", "2", "--rate", "50", "--update-pct", "0", "--run-time", "5"];
    let run = work.petal(args).start();
    if fs::read_to_string(format!("/proc/{}/timerslack_ns", run.id())).is_err() {
        return skip("another process's timer slack cannot be read");
    }
    until("two sessions without slack", || timer_slack_ns(run.id(), "session ") == [1, 1]);
    run.ends().exited(0);
}
