//! Many sessions: connected in seconds, in little memory.

use std::fs;
use std::thread;
use std::time::Duration;

use crate::support::{ALONE, Workplace, count, number, record};

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
