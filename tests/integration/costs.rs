//! `petal costs` on real servers: accounting and proof of the layers, not exact times, which a busy
//! machine does not have.

use std::fs;

use rustix::process::Signal;
use serde_json::Value;

use crate::engine_postgres::load;
use crate::server_mysql;
use crate::server_postgres::{Server, is_there, pooler_is_there, shared};
use crate::support::{Workplace, count, number};

const SCHEMA: &str = include_str!("../../docs/petal-costs.schema.json");
/// The fewest rounds, as fast as they go.
const SHORT: &[&str] = &["--seconds", "1", "--sessions", "2", "--scale", "64M"];

fn costs(work: &Workplace, url: &str, more: &[&str]) -> crate::support::Petal {
    work.petal([&["costs", "--db", url], SHORT, more].concat())
}

fn is_valid(costs: &Value) {
    let schema: Value = serde_json::from_str(SCHEMA).unwrap();
    let validator = jsonschema::draft202012::new(&schema).unwrap();
    let errors: Vec<String> =
        validator.iter_errors(costs).map(|error| format!("{error}")).collect();
    assert!(errors.is_empty(), "{errors:#?}");
}

/// The samples of a cell, as `field`.
fn samples(costs: &Value, access: &str, sessions: u64, pct: Option<u64>, field: &str) -> Vec<u64> {
    let cells = costs["cells"].as_array().unwrap();
    let cell = cells.iter().find(|cell| {
        cell["access"] == access
            && cell["sessions"] == sessions
            && cell["cached_pct"].as_u64() == pct
    });
    let samples = cell.unwrap()["samples"].as_array().unwrap();
    samples.iter().map(|sample| sample[field].as_u64().unwrap()).collect()
}

/// Nanoseconds of a block, row or entry, in the fastest round.
fn fastest(costs: &Value, access: &str, pct: Option<u64>) -> f64 {
    let of = |field: &str| samples(costs, access, 1, pct, field);
    let each = of("elapsed_ns").into_iter().zip(of("units"));
    each.map(|(ns, units)| ns as f64 / units as f64).fold(f64::INFINITY, f64::min)
}

#[test]
fn prices_of_postgres_are_proved_by_the_layers_and_nothing_stays() {
    if !is_there() {
        return;
    }
    let server = Server::start(&["shared_buffers=16MB"]);
    let url = server.url("priced");
    let mut client = server.client("priced");
    let settings = "SELECT string_agg(name || setting, ' ' ORDER BY name) FROM pg_settings \
                    WHERE name LIKE '%cost' OR name LIKE '%io_concurrency'";
    let mut present = || client.query_one(settings, &[]).unwrap().get::<_, String>(0);
    let before = present();
    let measured = || {
        let work = Workplace::new();
        let ended = costs(&work, &url, &["--json"]).ends();
        (work, ended)
    };
    let (mut work, mut ended) = measured();
    // On a busy host all three samples of an access may find blocks in the page cache.
    if ended.code != Some(0) && ended.stderr.contains("was read from the devices") {
        (work, ended) = measured();
    }
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let found = ended.json();
    ended.telling(&["nothing is loaded", "drops them afterwards", "the costs are in"]);
    is_valid(&found);
    assert_eq!(found["status"], "complete");
    assert!(count(&found, "/rounds") >= 3);
    assert_eq!(count(&found, "/blocks"), 8192);
    // Each row is a block, and the server's own count is of these blocks alone.
    for access in ["random", "sequential"] {
        for (sessions, pct) in [(1, 0), (1, 50), (1, 90), (1, 100), (2, 0), (2, 100)] {
            if access == "sequential" && [50, 90].contains(&pct) {
                continue;
            }
            let of = |field: &str| samples(&found, access, sessions, Some(pct), field);
            assert_eq!(of("visited"), of("units"), "{access} {pct}");
            for (hits, visited) in of("hits").into_iter().zip(of("visited")) {
                let share = 100.0 * hits as f64 / visited as f64;
                assert!((share - pct as f64).abs() <= 5.0, "{access}: {share} % for {pct} %");
            }
        }
        let cold = fastest(&found, access, Some(0));
        let cached = fastest(&found, access, Some(100));
        // Devices read ahead of a sequential scan: it may cost the same.
        let least = if access == "random" { cached } else { 0.8 * cached };
        assert!(cold > least, "{access}: {cold} ns from the device, {cached} ns from the cache");
    }
    // Devices read each block that the cache did not have, if they are seen.
    let devices = found["devices"].as_array().unwrap();
    if !devices.is_empty() && found["page_cache_kept"].is_null() {
        let read = samples(&found, "random", 1, Some(0), "server_read_bytes");
        let units = samples(&found, "random", 1, Some(0), "units");
        assert!(read.iter().zip(units).all(|(read, units)| *read >= units * 8192 * 9 / 10));
    }
    assert!(fastest(&found, "lookups", None) > fastest(&found, "rows", None));
    assert!(fastest(&found, "filtered_rows", None) > fastest(&found, "rows", None));
    let names: Vec<&str> = found["settings"]
        .as_array()
        .unwrap()
        .iter()
        .map(|setting| setting["name"].as_str().unwrap())
        .collect();
    assert_eq!(names.len(), 7);
    assert!(names.contains(&"random_page_cost") && names.contains(&"effective_io_concurrency"));
    assert_eq!(number(&found, "/settings/0/values/0/value"), 1.0, "the unit is a sequential block");
    // Depths are for one way to read ahead, which PostgreSQL 18 names.
    let reads_by_method =
        client.query_opt("SELECT 1 FROM pg_settings WHERE name = 'io_method'", &[]);
    let notes = found["notes"].to_string();
    assert_eq!(notes.contains("io_method is"), reads_by_method.unwrap().is_some(), "{notes}");
    let statements = found["statements"].as_array().unwrap();
    assert_eq!(statements.last().unwrap(), "SELECT pg_reload_conf();");
    let sets = |text: &&Value| text.as_str().unwrap().starts_with("ALTER SYSTEM SET ");
    assert_eq!(statements.iter().filter(sets).count(), statements.len() - 1);
    // Every statement is one of the server's.
    for text in statements.iter().filter(sets) {
        client.batch_execute(text.as_str().unwrap()).unwrap();
    }
    client.batch_execute("ALTER SYSTEM RESET ALL").unwrap();
    assert_eq!(before, client.query_one(settings, &[]).unwrap().get::<_, String>(0));
    let left = "SELECT count(*) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace \
                WHERE n.nspname LIKE 'petal%' OR c.relname LIKE 'petal%'";
    assert_eq!(client.query_one(left, &[]).unwrap().get::<_, i64>(0), 0);
    let folder = work.run_folder();
    let kept: Value =
        serde_json::from_slice(&fs::read(folder.join("costs.json")).unwrap()).unwrap();
    assert_eq!(kept, found);
    let folder = folder.to_str().unwrap();
    assert_eq!(work.petal(["report", "--json", folder]).exits(0).json(), found);
    let text = fs::read_to_string(work.run_folder().join("report.txt")).unwrap();
    assert!(text.lines().count() <= 40, "one screen:\n{text}");
    for words in ["random_page_cost", "To paste, for 90 % of the blocks", "one figure cannot"] {
        assert!(text.contains(words), "{words}:\n{text}");
    }
    let words = ["a record of costs", "report it alone"];
    work.petal(["report", folder, folder]).exits(2).telling(&words);
}

#[test]
fn loaded_schemas_are_measured_and_stay() {
    if !is_there() {
        return;
    }
    let server = Server::start(&["shared_buffers=4MB"]);
    let url = server.url("there");
    load(&url, 2);
    let work = Workplace::new();
    let found = costs(&work, &url, &["--json", "--cached", "0"]).exits(0).json();
    assert_eq!((count(&found, "/blocks"), count(&found, "/assumed_pct")), (2048, 0));
    work.petal(["run", "--db", &url, "--work-loop", "5"]).exits(0);
}

#[test]
fn a_signal_keeps_whole_rounds_and_leaves_no_table() {
    if !is_there() {
        return;
    }
    let server = Server::start(&["shared_buffers=16MB"]);
    let url = server.url("cut");
    let work = Workplace::new();
    let args = ["costs", "--db", &url, "--seconds", "600", "--sessions", "1", "--scale", "64M"];
    let mut running = work.petal(args).start();
    running.until_it_says(" s of at most ");
    running.signal(Signal::INT);
    let ended = running.ends();
    assert_eq!(ended.code, Some(130), "{}", ended.stderr);
    let mut client = server.client("cut");
    let left = "SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'petal%'";
    assert_eq!(client.query_one(left, &[]).unwrap().get::<_, i64>(0), 0);
}

#[test]
fn targets_that_would_give_wrong_prices_are_refused() {
    if !is_there() {
        return;
    }
    let work = Workplace::new();
    let primary = Server::start(&["shared_buffers=16MB"]);
    let url = primary.url("refused");
    load(&url, 1);
    costs(&work, &url, &[]).exits(3).telling(&["needs schemas 1 and 2", "only one is loaded"]);
    work.petal(["drop", "--db", &url]).exits(0);
    load(&url, 2);
    let small = costs(&work, &url, &[]).exits(2);
    small.telling(&["too small to leave the database's cache of 16.0 MiB", "at least 32.0 MiB"]);
    let standby = primary.standby();
    let of_standby = format!("postgres://petal@127.0.0.1:{}/refused", standby.port);
    costs(&work, &of_standby, &[]).exits(3).telling(&["it is a standby", "name the primary"]);
    let both = format!("127.0.0.1:{},127.0.0.1:{}", primary.port, standby.port);
    let both = format!("postgres://petal@{both}/refused");
    costs(&work, &both, &[]).exits(2).telling(&["it names 2 servers", "name one of them"]);
    costs(&work, "device:x.dat", &[]).exits(2).telling(&["no costs with this engine"]);
    // A role that may read, and may make no temporary table.
    let mut client = primary.client("refused");
    work.petal(["drop", "--db", &url]).exits(0);
    client
        .batch_execute(
            "CREATE ROLE plain LOGIN; REVOKE TEMPORARY ON DATABASE refused FROM PUBLIC; \
             GRANT CREATE ON DATABASE refused TO plain",
        )
        .unwrap();
    let of_plain = format!("postgres://plain@127.0.0.1:{}/refused", primary.port);
    let refused = costs(&work, &of_plain, &[]).exits(3);
    refused.telling(&["short rows", "permission denied"]);
    let left = "SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'petal%'";
    assert_eq!(client.query_one(left, &[]).unwrap().get::<_, i64>(0), 0);
    assert!(work.runs().is_empty(), "nothing was measured, so that nothing is kept");
}

#[test]
fn prices_through_a_pooler_are_refused() {
    if !pooler_is_there() {
        return;
    }
    shared().database("pooled_costs");
    let pooler = shared().pooler("transaction");
    let url = format!("postgres://petal@127.0.0.1:{}/pooled_costs", pooler.port);
    let work = Workplace::new();
    costs(&work, &url, &[]).exits(3).telling(&["a connection pooler answers"]);
}

/// A small cache, from which the server does not drop blocks so that others find room at once.
const SMALL_POOL: [&str; 2] = ["innodb-buffer-pool-size=16M", "innodb-lru-scan-depth=100"];

/// A server that does not count each session's blocks.
#[test]
fn prices_of_mysql_are_proved_by_the_layers_and_nothing_stays() {
    if !server_mysql::is_there() {
        return;
    }
    let server = server_mysql::Server::start(&SMALL_POOL);
    let url = server.url("priced");
    let work = Workplace::new();
    let found = costs(&work, &url, &["--json"]).exits(0).json();
    is_valid(&found);
    assert_eq!(found["status"], "complete");
    for (sessions, pct) in [(1, 0), (1, 50), (1, 90), (1, 100), (2, 0), (2, 100)] {
        let of = |field: &str| samples(&found, "random", sessions, Some(pct), field);
        assert_eq!(of("visited"), of("units"), "{pct}");
        for (hits, visited) in of("hits").into_iter().zip(of("visited")) {
            let share = 100.0 * hits as f64 / visited as f64;
            assert!((share - pct as f64).abs() <= 5.0, "{share} % for {pct} %");
        }
    }
    for access in ["random", "sequential"] {
        let cold = fastest(&found, access, Some(0));
        let cached = fastest(&found, access, Some(100));
        // Devices read ahead of a sequential scan: it may cost the same.
        let least = if access == "random" { cached } else { 0.8 * cached };
        assert!(cold > least, "{access}: {cold} ns from the device, {cached} ns from the cache");
    }
    assert!(fastest(&found, "lookups", None) > fastest(&found, "rows", None));
    let version = found["version"].as_str().unwrap();
    let settings = found["settings"].as_array().unwrap();
    let statements = found["statements"].as_array().unwrap();
    match version.contains("MariaDB") {
        true if version.starts_with("10.") => {
            assert_eq!((settings.len(), statements.len()), (0, 0), "no prices before 11.0");
            let notes = found["notes"].to_string();
            assert!(notes.contains("no prices to set"), "{notes}");
        }
        true => {
            assert_eq!(settings.len(), 9);
            assert_eq!(statements.len(), 2, "one for all, and one that puts them in force");
        }
        false => assert_eq!(settings.len(), 4),
    }
    // Every statement is one of the server's, and is understood.
    for text in statements {
        server.sql("", text.as_str().unwrap());
    }
    assert_eq!(server.sql("priced", "SHOW TABLES"), Vec::<Vec<String>>::new());
    let text = fs::read_to_string(work.run_folder().join("report.txt")).unwrap();
    assert!(text.lines().count() <= 40, "one screen:\n{text}");
}

#[test]
fn what_mysql_cannot_be_measured_for_is_refused_by_name() {
    if !server_mysql::is_there() {
        return;
    }
    let server = server_mysql::Server::start(&SMALL_POOL);
    let url = server.url("refused");
    let work = Workplace::new();
    work.petal(["setup", "-s", "1", "--scale", "16M", "--db", &url]).exits(0);
    costs(&work, &url, &[]).exits(3).telling(&["needs schemas 1 and 2", "only one is loaded"]);
    work.petal(["setup", "-s", "2", "--replace", "--scale", "16M", "--db", &url]).exits(0);
    let small = costs(&work, &url, &[]).exits(2);
    small.telling(&["too small to leave the database's cache of 16.0 MiB", "at least 32.0 MiB"]);
    let two = server.tcp_url("refused", server.port);
    let two = two.replacen("127.0.0.1", &format!("localhost:{},127.0.0.1", server.port), 1);
    costs(&work, &two, &[]).exits(2).telling(&["it names 2 servers", "name one of them"]);
    let source =
        "CHANGE MASTER TO MASTER_HOST = '127.0.0.1', MASTER_PORT = 1, MASTER_USER = 'none'";
    server.sql("", source);
    server.sql("", "SET GLOBAL read_only = 1");
    costs(&work, &url, &[]).exits(3).telling(&["a replica or read-only", "name the primary"]);
    server.sql("", "SET GLOBAL read_only = 0");
    server.sql("", "RESET SLAVE ALL");
    // An account that may make no temporary table.
    work.petal(["drop", "--db", &url]).exits(0);
    server.sql("", "CREATE USER plain@'%'; GRANT ALL ON refused.* TO plain@'%'");
    server.sql("", "REVOKE CREATE TEMPORARY TABLES ON refused.* FROM plain@'%'");
    server.sql("", "GRANT SELECT ON mysql.innodb_index_stats TO plain@'%'");
    let plain = format!("mysql://plain@127.0.0.1:{}/refused", server.port);
    let refused = costs(&work, &plain, &[]).exits(3);
    refused.telling(&["temporary tables of short rows", "Access denied"]);
    assert_eq!(server.sql("refused", "SHOW TABLES"), Vec::<Vec<String>>::new());
    assert!(work.runs().is_empty(), "nothing was measured, so that nothing is kept");
}

/// SQLite's planner has no prices: its times and their ratio are the result. Two of them are compared.
#[test]
fn ratios_of_sqlite_are_printed_and_two_results_compared() {
    let work = Workplace::new();
    let url = "sqlite:data?cache=4M";
    let first = costs(&work, url, &["--json"]).exits(0).json();
    is_valid(&first);
    assert_eq!(first["status"], "complete");
    assert_eq!(
        (&first["settings"], &first["statements"]),
        (&Value::from(Vec::<u8>::new()), &Value::from(Vec::<u8>::new()))
    );
    for access in ["random", "sequential"] {
        let of = |field: &str| samples(&first, access, 1, Some(0), field);
        assert_eq!(of("visited"), of("units"));
        assert!(of("hits").into_iter().zip(of("units")).all(|(hits, units)| hits * 20 <= units));
        let cold = fastest(&first, access, Some(0));
        assert!(cold > fastest(&first, access, Some(100)), "{access}");
    }
    let one = work.run_folder();
    let text = fs::read_to_string(one.join("report.txt")).unwrap();
    assert!(text.contains("times as long as a sequential one"), "{text}");
    let page = fs::read_to_string(one.join("report.html")).unwrap();
    assert!(page.contains("share of cached blocks") && page.contains("<svg"), "no chart");
    costs(&work, url, &[]).exits(0);
    let names: Vec<String> =
        work.runs().iter().map(|folder| folder.display().to_string()).collect();
    let [before, after] = names.as_slice() else { panic!("{names:?}") };
    let compared = work.petal(["compare", before, after]).exits(0);
    for words in ["random blocks, 0 % cached, us", "intervals do not meet"] {
        assert!(compared.stdout.contains(words), "{}", compared.stdout);
    }
    assert!(compared.stdout.lines().count() <= 40, "{}", compared.stdout);
    let json = work.petal(["compare", "--json", before, after]).exits(0).json();
    let changes = json["changes"].as_array().unwrap();
    assert!(changes.iter().any(|change| change["differs"].is_boolean()), "{changes:?}");
    work.petal(["compare", before]).exits(2).telling(&["two at a time"]);
    let limit = ["compare", before, after, "--fail-if", "piops < -5%"];
    work.petal(limit).exits(2).telling(&["--fail-if: it is of runs"]);
    let other = one.parent().unwrap().join("none.json").display().to_string();
    work.petal(["compare", before, &other]).exits(2).telling(&["with each other only"]);
}
