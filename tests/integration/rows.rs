//! What was asked of the data and what was visited: rows that go in a run, and the conservation of
//! rows over many kinds of runs.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use rustix::process::Signal;
use serde_json::Value;

use crate::engine_postgres::load;
use crate::server_postgres::{Server, alone, is_there, shared};
use crate::support::{Workplace, count, findings, number};

#[test]
fn a_table_that_is_emptied_in_a_run_is_an_error() {
    let work = Workplace::loaded(1, "8M");
    let mut running = work.petal(["run", "--run-time", "4", "--json"]).start();
    running.until("a second of the run", || !work.seconds().is_empty());
    let writer = rusqlite::Connection::open(work.path("petal-data/petal1.db")).unwrap();
    writer.busy_timeout(std::time::Duration::from_secs(60)).unwrap();
    writer.execute("DELETE FROM cf1", []).unwrap();
    let run = running.ends().exited(1).json();
    assert!(findings(&run).contains(&"rows-missing"), "{:?}", findings(&run));
    assert_eq!(run["status"], "complete");
}

#[test]
fn a_table_that_is_truncated_in_a_run_is_an_error() {
    if !is_there() {
        return;
    }
    for side in ["server", "client"] {
        let database = format!("truncated_{side}");
        let url = shared().url(&database);
        load(&url, 1);
        let work = Workplace::new();
        let args = ["run", "--db", &url, "--run-time", "4", "--loop", side, "--json"];
        let mut running = work.petal(args).start();
        running.until("a second of the run", || !work.seconds().is_empty());
        shared().client(&database).batch_execute("TRUNCATE petal1.cf1").unwrap();
        let run = running.ends().exited(1).json();
        assert!(findings(&run).contains(&"rows-missing"), "{side}: {:?}", findings(&run));
        assert!(count(&run, "/rows/select") < count(&run, "/rows_asked/select"));
    }
}

#[test]
fn data_in_use_are_not_dropped_nor_replaced() {
    let work = Workplace::loaded(1, "8M");
    let mut running = work.petal(["run", "--run-time", "600", "--json"]).start();
    running.until("a second of the run", || !work.seconds().is_empty());
    let refused = ["petal1.db", "another petal run"];
    work.petal(["drop"]).exits(3).telling(&refused);
    work.petal(["setup", "--scale", "8M", "--replace"]).exits(3).telling(&refused);
    // A second run: by the same path, and by another link to the same file.
    work.petal(["run", "--work-loop", "1"]).exits(3).telling(&refused);
    std::fs::create_dir(work.path("linked")).unwrap();
    let (path, link) = (work.path("petal-data/petal1.db"), work.path("linked/petal1.db"));
    std::fs::hard_link(path, link).unwrap();
    let args = ["run", "--db", "sqlite:linked", "--work-loop", "1"];
    work.petal(args).exits(3).telling(&["linked/petal1.db", "another link"]);
    running.signal(Signal::INT);
    let run = running.ends().exited(130).json();
    assert_eq!(run["rows"], run["rows_asked"]);
    work.petal(["drop"]).exits(0);
}

#[test]
fn data_that_are_removed_in_a_run_make_it_failed() {
    for url in ["sqlite:data", "device:data/petal.dat?log=2M"] {
        let work = Workplace::new();
        std::fs::create_dir(work.path("data")).unwrap();
        work.petal(["setup", "--scale", "8M", "--db", url]).exits(0);
        let mut running = work.petal(["run", "--db", url, "--run-time", "4", "--json"]).start();
        running.until("a second of the run", || !work.seconds().is_empty());
        std::fs::remove_dir_all(work.path("data")).unwrap();
        let run = running.ends().exited(1).json();
        assert_eq!(run["status"], "failed", "{url}");
        let ids = findings(&run);
        assert!(ids.contains(&"data-vanished") && !ids.contains(&"moved-rows"), "{url}: {ids:?}");
    }
}

#[test]
fn a_postgres_run_keeps_drop_and_setup_away_and_reports_a_second_run() {
    if !is_there() {
        return;
    }
    // Others' transactions keep old versions of rows there, which cost reads; the cache is for half of them.
    let server = Server::start(&["shared_buffers=8MB"]);
    let url = server.url("in_use");
    load(&url, 1);
    let (work, other) = (Workplace::new(), Workplace::new());
    let args = ["run", "--db", &url, "--run-time", "600", "--json"];
    let mut running = work.petal(args).start();
    running.until("a second of the run", || !work.seconds().is_empty());
    let refused = ["another petal run", "server process"];
    other.petal(["drop", "--db", &url]).exits(3).telling(&refused);
    let setup = ["setup", "--db", &url, "--scale", "8M", "--replace"];
    other.petal(setup).exits(3).telling(&refused);
    let second = ["run", "--db", &url, "--run-time", "3", "--update-pct", "0", "--json"];
    let second = other.petal(second).exits(0).json();
    let found = other_loads(&second);
    assert!(found.iter().any(|reported| reported.contains("another petal run (server process")));
    // The rows of both: reads per row are of all that were visited.
    assert!(
        found.iter().any(|reported| reported.contains("rows visited in petal's tables")),
        "{found:?}"
    );
    assert!(!findings(&second).contains(&"extra-reads"), "{:?}", findings(&second));
    running.signal(Signal::INT);
    running.ends().exited(130);
    other.petal(["drop", "--db", &url]).exits(0);
}

#[test]
fn tables_that_are_dropped_in_a_run_make_it_failed() {
    if !is_there() {
        return;
    }
    let url = shared().url("vanishing");
    load(&url, 1);
    let work = Workplace::new();
    let mut running = work.petal(["run", "--db", &url, "--run-time", "30", "--json"]).start();
    running.until("a second of the run", || !work.seconds().is_empty());
    shared().client("vanishing").batch_execute("DROP SCHEMA petal1 CASCADE").unwrap();
    let ended = running.ends().exited(1);
    let run = ended.json();
    assert_eq!(run["status"], "failed");
    let reported = run["findings"].as_array().unwrap().iter();
    let vanished: Vec<_> = reported.filter(|finding| finding["id"] == "data-vanished").collect();
    assert!(vanished[0]["message"].as_str().unwrap().contains("was dropped"));
}

#[test]
fn an_index_that_is_dropped_in_a_run_makes_it_failed() {
    let work = Workplace::loaded(1, "8M");
    let args = ["run", "--run-time", "3", "--update-pct", "0", "--work-unit", "1", "--json"];
    let mut running = work.petal(args).start();
    running.until("a second of the run", || !work.seconds().is_empty());
    let other = rusqlite::Connection::open(work.path("petal-data/petal1.db")).unwrap();
    other.busy_timeout(std::time::Duration::from_secs(60)).unwrap();
    other.execute("DROP INDEX cf1_custid", []).unwrap();
    is_failed_for_its_index(&running.ends().exited(1).json());
}

#[test]
fn an_index_that_a_server_drops_in_a_run_makes_it_failed() {
    if !is_there() {
        return;
    }
    let url = shared().url("no_index");
    load(&url, 2);
    let args = ["run", "--db", &url, "--schemas", "2", "--run-time", "3", "--update-pct", "0"];
    for again in ["", "CREATE INDEX cf1_custid ON petal2.cf1 (custid)"] {
        let work = Workplace::new();
        let mut running = work.petal(args.iter().chain(&["--json"])).start();
        running.until("a second of the run", || !work.seconds().is_empty());
        let mut other = shared().client("no_index");
        // Not the first schema's: each one is looked at.
        other.batch_execute("DROP INDEX petal2.cf1_custid").unwrap();
        other.batch_execute(again).unwrap();
        let run = running.ends().exited(1).json();
        if again.is_empty() {
            is_failed_for_its_index(&run);
            other.batch_execute("CREATE INDEX cf1_custid ON petal2.cf1 (custid)").unwrap();
        } else {
            // The plan is the meant one again; what went on in between was not.
            assert_eq!(run["status"], "failed");
            assert!(findings(&run).contains(&"data-vanished"), "{:?}", findings(&run));
        }
    }
}

/// Both the index and the plan are named.
pub fn is_failed_for_its_index(run: &Value) {
    assert_eq!(run["status"], "failed");
    let found = findings(run);
    assert!(found.contains(&"data-vanished") && found.contains(&"wrong-plan"), "{found:?}");
}

fn other_loads(run: &Value) -> Vec<&str> {
    let all = run["findings"].as_array().unwrap().iter();
    let found = all.filter(|finding| finding["id"] == "other-load");
    found.map(|finding| finding["message"].as_str().unwrap()).collect()
}

#[test]
fn work_on_other_tables_of_the_database_is_not_petals() {
    if !is_there() {
        return;
    }
    let _alone = alone();
    let url = shared().url("busy_others");
    load(&url, 1);
    let work = Workplace::new();
    let run = || {
        let args = ["run", "--db", &url, "--run-time", "4", "--update-pct", "0", "--rate", "200"];
        work.petal(args.iter().chain(&["--json"])).exits(0).json()
    };
    let quiet = run();
    assert_eq!(other_loads(&quiet), [""; 0], "petal's own looks are nobody else's work");
    let mut other = shared().client("busy_others");
    other
        .batch_execute(
            "CREATE TABLE others AS SELECT n, repeat('x', 500) AS text \
             FROM generate_series(1, 100000) AS n",
        )
        .unwrap();
    let (is_over, others) = (AtomicBool::new(false), Mutex::new(other));
    let busy = thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                let mut other = others.lock().unwrap();
                other.batch_execute("SELECT count(text) FROM others").unwrap();
                other.batch_execute("SELECT pg_sleep(0.01)").unwrap();
            }
        });
        let busy = run();
        is_over.store(true, Ordering::Relaxed);
        busy
    });
    let found = other_loads(&busy);
    assert!(
        found.iter().any(|reported| reported.contains("blocks visited in other tables")),
        "{found:?}"
    );
    let per_row =
        |run: &Value| number(run, "/per_second/logical_reads") / number(run, "/per_second/rows");
    let (quiet_reads, busy_reads) = (per_row(&quiet), per_row(&busy));
    assert!((busy_reads / quiet_reads - 1.0).abs() < 0.02, "{busy_reads} for {quiet_reads}");
    assert!(!findings(&busy).contains(&"extra-reads"), "{:?}", findings(&busy));
}

/// One kind of run, drawn from a number.
fn drawn(draw: u64) -> Vec<String> {
    let pick = |at: u32, choices: &[&str]| {
        choices[(draw >> (at * 4)) as usize % 16 % choices.len()].to_owned()
    };
    let flag = |name: &str, value: String| [format!("--{name}"), value];
    [
        flag("update-pct", pick(0, &["0", "25", "60", "100"])),
        flag("scan-pct", pick(1, &["0", "0", "5", "20"])),
        flag("work-unit", pick(2, &["1", "7", "64", "255"])),
        flag("update-work-unit", pick(3, &["1", "16", "64"])),
        flag("threads-per-schema", pick(4, &["1", "2", "3"])),
        flag("hot-schema-frequency", pick(5, &["0", "0", "3"])),
        flag("redo-stress", pick(6, &["LITE", "HEAVY"])),
        flag("work-loop", pick(7, &["40", "90", "200"])),
    ]
    .concat()
}

/// Rows asked are rows visited, of each kind of run; and what a database counts by itself agrees.
fn rows_are_conserved(url: &str, work: &Workplace, extra: &[&str], draw: u64) {
    let drawn = drawn(draw);
    let args =
        ["run", "--db", url, "--seed", "7", "--json"].into_iter().chain(extra.iter().copied());
    let args: Vec<&str> = args.chain(drawn.iter().map(String::as_str)).collect();
    let run = work.petal(&args).exits(0).json();
    let reported = format!("draw {draw}: {args:?}");
    let rows = |what: &str, kind: &str| count(&run, &format!("/{what}/{kind}"));
    assert_eq!(run["rows"], run["rows_asked"], "{reported}");
    let failed: u64 = run["errors"].as_object().unwrap().values().filter_map(Value::as_u64).sum();
    let sessions = count(&run, "/sessions");
    let begun = sessions * rows("settings", "work_loop");
    assert_eq!(rows("ops", "total") + failed, begun, "{reported}");
    for (kind, unit) in [("select", "work_unit"), ("update", "update_work_unit")] {
        assert_eq!(rows("rows", kind), rows("ops", kind) * rows("settings", unit), "{reported}");
    }
    let Some(fetched) = run["counters"].get("rows_fetched").and_then(Value::as_u64) else { return };
    // Rows of operations that failed were fetched, and are nobody's.
    if failed == 0 {
        assert_eq!(fetched, rows("rows", "select") + rows("rows", "update"), "{reported}");
        assert_eq!(count(&run, "/counters/tables.n_tup_upd"), rows("rows", "update"), "{reported}");
    }
    let counter = |name: &str| count(&run, &format!("/counters/{name}"));
    let all = counter("pg_stat_database.blks_hit") + counter("pg_stat_database.blks_read");
    let own: u64 = ["cf1.heap", "cf1.idx", "cf2.heap"]
        .iter()
        .map(|name| counter(&format!("{name}_blks_hit")) + counter(&format!("{name}_blks_read")))
        .sum();
    assert_eq!(own + counter("other_logical_reads"), all, "{reported}");
}

/// Draws so many kinds of runs: PETAL_TEST_DRAWS says more.
fn draws() -> impl Iterator<Item = u64> {
    let count = std::env::var("PETAL_TEST_DRAWS").ok().and_then(|count| count.parse().ok());
    (1..=count.unwrap_or(3)).map(|at: u64| at.wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

#[test]
fn rows_are_conserved_on_files() {
    for (url, extra) in [
        ("sqlite:data", ["--direct-io", "FALSE"]),
        ("device:petal.dat?log=2M", ["--verify", "checksum"]),
    ] {
        let work = Workplace::new();
        work.petal(["setup", "-s", "2", "--scale", "16M", "--db", url]).exits(0);
        draws().for_each(|draw| rows_are_conserved(url, &work, &extra, draw));
    }
}

#[test]
fn rows_are_conserved_on_postgres() {
    if !is_there() {
        return;
    }
    let _alone = alone();
    let url = shared().url("conserving");
    load(&url, 2);
    let work = Workplace::new();
    for side in ["server", "client"] {
        draws().for_each(|draw| rows_are_conserved(&url, &work, &["--loop", side], draw));
    }
}
