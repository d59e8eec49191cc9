//! Times of a server's own calls, next to those that the server measures.

use std::io::{Write as _, stderr};

use serde_json::Value;

use crate::support::{Workplace, number, record, run, skip};
use crate::{server_mysql, server_postgres};

const RUN: [&str; 8] =
    ["run", "--json", "--update-pct", "20", "--run-time", "10", "--call-latency", "TRUE"];

/// Loads and runs; None if calls cannot be timed here: a skip.
fn run_at(url: &str, scale: &str) -> Option<(Workplace, Value)> {
    let work = Workplace::new();
    work.petal(["setup", "--scale", scale, "--db", url]).exits(0);
    work.petal(RUN.iter().chain(&["--db", url])).watching().exits(0);
    let run = record(&work.run_folder());
    match run["os"]["database_host"]["calls_unseen"].as_str() {
        None => Some((work, run)),
        Some(why) => {
            skip(&format!("calls cannot be timed: {why}"));
            None
        }
    }
}

/// The times of a kind of call, in the counted window.
fn calls<'a>(run: &'a Value, call: &str, files: &str) -> &'a Value {
    let rows = run["os"]["database_host"]["steady_calls"]["rows"].as_array().unwrap();
    let row = rows.iter().find(|row| row["call"] == call && row["files"] == files);
    &row.unwrap_or_else(|| panic!("no {call} of {files} in {rows:?}"))["time_us"]
}

/// The server's own count is that of the calls, and its mean is a little more, because its clock is
/// around the call: at least this share of it is the call's.
fn assert_agrees(run: &Value, [call, files, kind]: [&str; 3], share: f64) {
    let ours = calls(run, call, files);
    let server = &run["io_latency_us"][kind];
    let ratio = |figure: &str| number(ours, figure) / number(server, figure);
    let (count, mean) = (ratio("/count"), ratio("/mean"));
    let _ =
        writeln!(stderr(), "{call} of {files}: count {count:.3}, mean {mean:.3} of the server's");
    assert!((count - 1.0).abs() < 0.1, "{call} of {files}: {ours} and {server}");
    assert!(mean > share && mean < 1.1, "{call} of {files}: {ours} and {server}");
}

#[test]
fn a_postgres_servers_calls_take_the_time_that_it_measures() {
    if !server_postgres::is_there() {
        return;
    }
    let settings = ["shared_buffers=2MB", "track_io_timing=on", "track_wal_io_timing=on"];
    let server = server_postgres::Server::start(&settings);
    server.database("calls");
    let Some((work, run)) = run_at(&server.url("calls"), "48M") else { return };
    // The page cache answers in the time that the programs and the clock take, too.
    assert_agrees(&run, ["read", "data", "read"], 0.2);
    assert_agrees(&run, ["sync", "log", "log"], 0.6);
    let report = std::fs::read_to_string(work.run_folder().join("report.txt")).unwrap();
    assert!(report.contains("server's mean"), "{report}");
    let page = std::fs::read_to_string(work.run_folder().join("report.html")).unwrap();
    assert!(page.contains("s data read p99"));
}

#[test]
fn a_mysql_servers_calls_take_the_time_that_it_measures() {
    if !server_mysql::is_there() {
        return;
    }
    let settings = ["innodb-buffer-pool-size=8M", "innodb-flush-log-at-trx-commit=1"];
    let server = server_mysql::Server::start(&settings);
    let Some((_work, run)) = run_at(&server.url("calls"), "64M") else { return };
    assert_agrees(&run, ["read", "data", "read"], 0.6);
    // MariaDB does not time its syncs.
    assert!(number(calls(&run, "sync", "log"), "/mean") > 0.0);
}

#[test]
fn calls_are_timed_on_request_only_and_without_rights_the_report_names_the_reason() {
    if !server_postgres::is_there() {
        return;
    }
    let without = ["--bounding-set=-all", "--inh-caps=-all"];
    if run("setpriv", &[without[0], without[1], "true"]).is_err() {
        return skip("rights cannot be dropped: setpriv");
    }
    let url = server_postgres::shared().url("calls_off");
    server_postgres::shared().database("calls_off");
    let work = Workplace::new();
    work.petal(["setup", "--scale", "8M", "--db", &url]).exits(0);
    let report = |asked: &str| {
        let args = ["run", "--run-time", "2", "--call-latency", asked, "--db", &url];
        work.petal(args).under("setpriv", &without).watching().exits(0);
        let folder = work.runs().pop().unwrap();
        assert!(record(&folder)["os"]["database_host"]["calls"].is_null());
        std::fs::read_to_string(folder.join("report.txt")).unwrap()
    };
    let plain = report("FALSE");
    assert!(!plain.contains("server's calls"), "{plain}");
    let asked = report("TRUE");
    assert!(asked.contains("server's calls: - (not timed: it needs root"), "{asked}");
}
