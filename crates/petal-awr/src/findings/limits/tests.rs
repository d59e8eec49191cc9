use super::super::judge;
use crate::figure::Figure;
use crate::report::{Report, ReportFinding, ReportSeverity, WaitEvent};
use crate::samples::sample;

fn figure(value: f64) -> Option<Figure> {
    Figure::computed(value, 0.0, "Top".to_owned())
}

fn wait(name: &str, share_pct: f64, latency_us: f64) -> WaitEvent {
    WaitEvent {
        name: name.to_owned(),
        pct_db_time: figure(share_pct),
        time_s: figure(share_pct * 384.15),
        waits: figure(1000.0),
        avg_us: figure(latency_us),
        latency_us: figure(latency_us),
        ..WaitEvent::default()
    }
}

/// Makes a report of an application, with as many calls as executions, and with these waits.
fn application(events: &[WaitEvent]) -> Report {
    let mut report = sample("awr_12c.txt");
    report.load_profile.user_calls.per_second = figure(1700.0);
    report.top_events = events.to_vec();
    report.foreground_events = events.to_vec();
    report
}

fn ids(found: &[ReportFinding]) -> Vec<&str> {
    found.iter().map(|finding| finding.id.as_str()).collect()
}

#[test]
fn advice_for_a_slob_test_is_only_for_a_slob_test() {
    let slob = sample("awr_12c.txt");
    assert_eq!(ids(&judge(&slob, &[])), ["not-single-block"]);
    let mut calls = slob.clone();
    calls.load_profile.user_calls.per_second = figure(1700.0);
    assert_eq!(ids(&judge(&calls, &[])), ["top-wait"]);
    let mut parses = slob.clone();
    parses.load_profile.parses.per_second = figure(1600.0);
    assert_eq!(ids(&judge(&parses, &[])), ["top-wait"]);
    let mut idle = slob;
    idle.header.db_time_min = figure(6.0);
    idle.load_profile.db_time.per_second = None;
    idle.time_model.db_time_s = None;
    let found = judge(&idle, &[]);
    assert_eq!(ids(&found), ["top-wait"]);
    assert_eq!(found[0].severity, ReportSeverity::Info, "waits of an idle database");
}

#[test]
fn the_top_wait_is_named_with_its_kind() {
    for (name, advice) in [
        ("enq: TX - row lock contention", "that hold the locks"),
        ("enq: TX - index contention", "memory of the instance"),
        ("latch: library cache", "memory of the instance"),
        ("db file sequential read", "Compare the mean"),
        ("log buffer space", "Writes do not keep up"),
        ("name-service call wait", "Find the sessions and statements"),
    ] {
        let found = judge(&application(&[wait("DB CPU", 60.0, 0.0), wait(name, 82.0, 5e3)]), &[]);
        assert_eq!(ids(&found), ["top-wait"], "{name}");
        assert_eq!(found[0].message, format!("{name} has 82.0 % of DB time, 5.00 ms on average"));
        assert!(found[0].advice.contains(advice), "{}", found[0].advice);
        assert_eq!(found[0].severity, ReportSeverity::Warning);
        assert_eq!(judge(&application(&[wait(name, 29.9, 5e3)]), &[]), []);
    }
}

#[test]
fn waits_of_background_processes_are_no_limit() {
    let mut report = application(&[wait("db file sequential read", 31.0, 5e3)]);
    report.top_events.insert(0, wait("log archive I/O", 60.0, 4e3));
    let found = judge(&report, &[]);
    assert!(found[0].message.starts_with("db file sequential read has 31.0 %"), "{found:?}");
}

#[test]
fn commits_are_compared_with_log_writes() {
    let found = |sync_us, log_write_us| {
        let mut report = application(&[wait("log file sync", 24.0, sync_us)]);
        report.background_events = vec![wait("log file parallel write", 5.0, log_write_us)];
        judge(&report, &[])
    };
    let storage = found(9e3, 8e3);
    assert_eq!(ids(&storage), ["commits-wait"]);
    assert!(storage[0].advice.contains("most of the wait"));
    assert!(storage[0].message.ends_with("a commit waits 9.00 ms, a log write takes 8.00 ms"));
    let other = found(9e3, 1e3);
    assert!(other[0].advice.contains("smaller part"), "{other:?}");
    let slow = found(400e3, 332e3);
    assert_eq!(ids(&slow), ["commits-wait", "slow-log-writes"]);
    assert_eq!(slow[1].message, "log file parallel write took 332.00 ms on average");
}

#[test]
fn throttles_clusters_and_too_many_sessions_are_found() {
    let waits = [wait("resmgr:cpu quantum", 33.0, 9e4), wait("gc cr block busy", 35.0, 2e3)];
    let mut report = application(&waits);
    assert_eq!(ids(&judge(&report, &[])), ["resource-manager", "cluster-waits"]);
    report.header.cpus = figure(16.0);
    let found = judge(&report, &[]);
    assert_eq!(ids(&found), ["sessions-over-processors", "resource-manager", "cluster-waits"]);
    let message =
        "64.0 sessions were active on average, 4.1 of them on a processor; processors: 16";
    assert_eq!(found[0].message, message);
    assert!(found[0].advice.contains("Most sessions wait"));
    report.header.cpus = figure(5.0);
    assert!(judge(&report, &[])[0].advice.contains("processors limit"));
    report.spans_restart = true;
    assert_eq!(ids(&judge(&report, &[])), ["spans-restart"]);
}
