//! Counters of a real server that somebody resets within a run: what they count is unknown from then
//! on, never 0, and a finding says why.

use std::thread;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;

use crate::support::{Workplace, findings, record, timeline};
use crate::{engine_postgres, mysql, server_mysql, server_postgres};

/// A run of UPDATEs, in which `reset` is called when some seconds are over, and that goes on for two more.
fn run_with(url: &str, reset: impl FnOnce()) -> Value {
    let work = Workplace::new();
    let args = ["run", "--db", url, "--run-time", "600", "--update-pct", "50", "--warm-up", "0"];
    let mut running = work.petal(args).start();
    running.until("seconds", || work.seconds().len() >= 3);
    reset();
    let seconds = work.seconds().len();
    running.until("two more seconds", || work.seconds().len() >= seconds + 2);
    running.signal(Signal::INT);
    running.ends().exited(130);
    let mut run = record(&work.run_folder());
    run["timeline"] = timeline(&work.run_folder()).into();
    assert!(!findings(&run).contains(&"not-durable"), "{}", run["findings"]);
    run
}

fn io<'a>(run: &'a Value, figure: &str) -> &'a Value {
    &run["details"]["io"][figure]
}

/// Asserts that the run says which counters began again.
fn assert_resets(run: &Value, groups: &[&str]) {
    let resets = run["details"]["counter_resets"].as_array().unwrap();
    assert_eq!(resets.len(), groups.len(), "{resets:?}");
    for group in groups {
        let is_named = |reset: &Value| reset.as_str().unwrap().contains(group);
        assert!(resets.iter().any(is_named), "{group}: {resets:?}");
    }
    assert!(findings(run).contains(&"counters-reset"), "{:?}", findings(run));
}

#[test]
fn statistics_that_postgres_resets_in_a_run_are_unknown_and_not_zero() {
    if !server_postgres::is_there() {
        return;
    }
    let server = server_postgres::Server::start(&["shared_buffers=16MB"]);
    let url = server.url("resets");
    engine_postgres::load(&url, 1);
    let reset = |what: &str| {
        server.client("resets").batch_execute(&format!("SELECT pg_stat_reset{what}")).unwrap();
    };
    let run =
        run_with(&url, || ["_shared('bgwriter')", "_shared('wal')"].into_iter().for_each(reset));
    // From version 16 on the blocks written stand in another view.
    let writes_are_known = server.version() >= 160_000;
    assert_resets(&run, &["pg_stat_bgwriter", "pg_stat_wal"]);
    assert_eq!(io(&run, "physical_write_blocks").is_null(), !writes_are_known);
    assert!(io(&run, "log_syncs").is_null() || server.version() >= 180_000);
    assert!(io(&run, "logical_reads").as_u64() > Some(0));
    if server.version() >= 160_000 {
        let run = run_with(&url, || reset("_shared('io')"));
        assert_resets(&run, &["pg_stat_io"]);
        assert!(io(&run, "physical_write_blocks").is_null());
    }
    let run = run_with(&url, || reset("()"));
    assert_resets(&run, &["pg_stat_database"]);
    for figure in ["logical_reads", "physical_read_blocks", "commits"] {
        assert!(io(&run, figure).is_null(), "{figure}: {}", run["details"]["io"]);
    }
    assert!(io(&run, "redo_bytes").as_u64() > Some(0) && io(&run, "log_syncs").as_u64() > Some(0));
    // Seconds before the reset are known, but for one that a busy host was late to look at.
    let seconds = run["timeline"].as_array().unwrap();
    let is_known = |second: &Value| second["io"]["logical_reads"].as_u64() > Some(0);
    assert!(seconds.iter().any(is_known), "{seconds:?}");
}

#[test]
fn an_index_that_somebody_drops_in_a_run_resets_no_counter() {
    if !server_postgres::is_there() {
        return;
    }
    let server = server_postgres::Server::start(&["shared_buffers=64MB"]);
    let url = server.url("resets");
    engine_postgres::load(&url, 1);
    let run = run_with(&url, || {
        let mut client = server.client("resets");
        // Its last step reads the whole index.
        let create = "CREATE INDEX CONCURRENTLY other ON petal1.cf1 (c2, custid)";
        client.batch_execute(create).unwrap();
        // Sessions report their counts once a second, and petal reads them as often.
        thread::sleep(Duration::from_secs(3));
        client.batch_execute("DROP INDEX CONCURRENTLY petal1.other").unwrap();
    });
    assert_eq!(run["details"]["counter_resets"].as_array().map_or(0, Vec::len), 0, "{run}");
    assert!(!findings(&run).contains(&"counters-reset"), "{:?}", findings(&run));
    for figure in ["logical_reads", "physical_read_blocks"] {
        assert!(io(&run, figure).as_u64() > Some(0), "{figure}: {}", run["details"]["io"]);
    }
}

#[test]
fn statistics_that_mariadb_resets_in_a_run_are_unknown_and_not_zero() {
    if !server_mysql::is_there() {
        return;
    }
    let server = server_mysql::Server::start(&["performance_schema=ON"]);
    let url = server.url("resets");
    mysql::load(&url, 1);
    let run = run_with(&url, || drop(server.sql("resets", "FLUSH STATUS")));
    assert_resets(&run, &["the server's status"]);
    assert!(io(&run, "commits").is_null());
    assert!(io(&run, "logical_reads").as_u64() > Some(0));
    let truncate = "TRUNCATE TABLE performance_schema.file_summary_by_event_name";
    let run = run_with(&url, || drop(server.sql("resets", truncate)));
    assert_resets(&run, &["performance_schema"]);
    let waits = run["waits"].as_array().unwrap();
    assert!(waits.iter().all(|wait| wait["name"] != "innodb_data_file read"), "{waits:?}");
    assert!(io(&run, "commits").as_u64() > Some(0));
}
