//! Limits of a PostgreSQL server and of a role: kept, and explained.

use std::thread;
use std::time::Duration;

use petal_engine::{Batch, Outcomes, Silent};
use petal_settings::Settings;
use petal_workload::op::Operation;

use crate::engine_postgres::{SEAT, load, open, open_with, select, unlimited, update};
use crate::server_postgres::{
    Server, VACUUM_WAITS, is_there, keep_vacuum_waiting, sessions, shared, slow_index,
};
use crate::support::{Workplace, count, record, until};

#[test]
fn timeouts_of_the_role_are_kept_and_explained() {
    if !is_there() {
        return;
    }
    let url = shared().url("timeouts");
    load(&url, 1);
    let mut client = shared().client("timeouts");
    client
        .batch_execute("ALTER ROLE petal IN DATABASE timeouts SET statement_timeout = '2s'")
        .unwrap();
    let engine = open(&url);
    let mut session = engine.connect(SEAT).unwrap();
    // A batch far longer than the timeout ends in full.
    let batch: Vec<Operation> = (0..4096).map(|_| select(1, 1024)).collect();
    let mut done = Outcomes::default();
    session.execute(Batch::new(&batch, &unlimited(), &mut done)).unwrap();
    assert_eq!(done.ended.len(), batch.len());
    // One operation that is longer is fatal, and reported as such.
    client.batch_execute("BEGIN; SELECT FROM petal1.cf1 WHERE custid = 5 FOR UPDATE").unwrap();
    let mut done = Outcomes::default();
    let error = session
        .execute(Batch::new(&[select(1, 8), update(1, 8, 1)], &unlimited(), &mut done))
        .unwrap_err();
    assert_eq!((error.code.as_str(), done.ended.len()), ("57014", 1));
    assert!(error.message.contains("statement_timeout"), "{error}");
}

#[test]
fn settling_and_loading_may_take_longer_than_statements_of_the_role() {
    if !is_there() {
        return;
    }
    let url = shared().url("unhurried");
    let mut client = shared().client("unhurried");
    slow_index(&mut client, 3.0);
    client
        .batch_execute("ALTER ROLE petal IN DATABASE unhurried SET statement_timeout = '2s'")
        .unwrap();
    load(&url, 1);
    let mut holder = keep_vacuum_waiting("unhurried");
    let engine = open(&url);
    let settling = thread::spawn(move || engine.settle(&Silent, &unlimited()));
    until("VACUUM", || sessions(&mut client, VACUUM_WAITS) == 1 || settling.is_finished());
    thread::sleep(Duration::from_secs(3));
    holder.batch_execute("ROLLBACK").unwrap();
    let settled = settling.join().unwrap().unwrap();
    assert_eq!(settled.done[0], "1 main tables vacuumed");
}

#[test]
fn autovacuum_works_on_the_tables_where_a_run_asks_for_it_and_then_no_more() {
    if !is_there() {
        return;
    }
    let url = shared().url("sustained");
    load(&url, 2);
    let asking = |url: &str| match url.contains('?') {
        true => format!("{url}&autovacuum=on"),
        false => format!("{url}?autovacuum=on"),
    };
    let mut client = shared().client("sustained");
    let mut off = |name: &str| {
        let sql = "SELECT count(*) FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace \
                   WHERE relname = $1 AND nspname ~ '^petal[12]$' \
                   AND reloptions::text ~ 'autovacuum_enabled=(off|false)'";
        client.query_one(sql, &[&name]).unwrap().get::<_, i64>(0)
    };
    assert_eq!((off("cf1"), off("cf2")), (2, 2));
    let settled = open(&asking(&url)).settle(&Silent, &unlimited()).unwrap();
    assert_eq!(settled.done[1], "autovacuum on for 2 main tables");
    assert_eq!((off("cf1"), off("cf2")), (0, 2));
    open(&url).settle(&Silent, &unlimited()).unwrap();
    assert_eq!(off("cf1"), 2);
    // Who does not own them runs, and is reported.
    let sql = "CREATE ROLE sustained LOGIN; GRANT USAGE ON SCHEMA petal1, petal2 TO sustained; \
               GRANT SELECT ON ALL TABLES IN SCHEMA petal1, petal2 TO sustained";
    client.batch_execute(sql).unwrap();
    let url = url.replace("petal@", "sustained@");
    let settled = open(&asking(&url)).settle(&Silent, &unlimited()).unwrap();
    let reported = "autovacuum of 2 main tables left as it is: the role must own them";
    assert!(settled.done.iter().any(|done| done == reported), "{:?}", settled.done);
}

#[test]
fn more_sessions_than_the_server_admits_are_refused_before_any_connects() {
    if !is_there() {
        return;
    }
    let server = Server::start(&["shared_buffers=16MB", "max_connections=12"]);
    let url = server.url("small");
    load(&url, 1);
    let work = Workplace::new();
    work.petal(["run", "--db", &url, "-t", "20", "--work-loop", "1"])
        .exits(2)
        .telling(&["20 sessions", "admits"]);
    work.petal(["run", "--db", &url, "-t", "6", "--work-loop", "1"]).exits(0);
    if server.version() < 160_000 {
        return; // It keeps connections for superusers alone.
    }
    let server = Server::start(&["max_connections=30", "reserved_connections=20"]);
    let url = server.url("kept");
    load(&url, 1);
    let sql = "CREATE ROLE plain LOGIN; GRANT USAGE ON SCHEMA petal1 TO plain; \
               GRANT SELECT ON ALL TABLES IN SCHEMA petal1 TO plain";
    server.client("kept").batch_execute(sql).unwrap();
    let run = |url: &str| {
        work.petal(["run", "--db", url, "-t", "8", "--work-loop", "1", "--update-pct", "0"])
    };
    run(&url).exits(0);
    let url = url.replace("petal@", "plain@");
    run(&url).exits(2).telling(&["8 sessions", "admits"]);
    let sql = "GRANT pg_use_reserved_connections TO plain";
    server.client("kept").batch_execute(sql).unwrap();
    run(&url).exits(0);
}

#[test]
fn a_role_without_privileges_runs_and_is_reported_what_it_misses() {
    if !is_there() {
        return;
    }
    let url = shared().url("plain");
    shared()
        .client("plain")
        .batch_execute("CREATE ROLE plain LOGIN; GRANT CREATE ON DATABASE plain TO plain")
        .unwrap();
    let url = url.replace("petal@", "plain@");
    load(&url, 1);
    let work = Workplace::new();
    let run = work.petal(["run", "--db", &url, "--run-time", "2", "--json"]).exits(0).json();
    assert!(count(&run, "/ops/update") > 0);
    let details = record(&work.run_folder())["details"].clone();
    let settled = details["settled"].to_string();
    assert!(settled.contains("pg_checkpoint"), "{settled}");
    assert!(settled.contains("1 main tables vacuumed"), "{settled}");
    let untimed = details["target"]["io_untimed"].to_string();
    assert!(untimed.contains("GRANT SET ON PARAMETER track_io_timing"), "{untimed}");
    // It may not know where the data lie; this host's processes show it.
    assert_eq!(details["target"]["local"], true, "{}", details["target"]);
    // Reads are not timed for it: unknown, not zero.
    let waits = run["waits"].as_array().unwrap();
    assert!(waits.iter().all(|wait| wait["source"] != "counted"), "{waits:?}");
}

#[test]
fn a_schema_closed_to_the_role_stops_no_run() {
    if !is_there() {
        return;
    }
    let url = shared().url("closed");
    load(&url, 1);
    shared()
        .client("closed")
        .batch_execute(
            "CREATE ROLE reader LOGIN; GRANT USAGE ON SCHEMA petal1 TO reader; \
             GRANT SELECT ON ALL TABLES IN SCHEMA petal1 TO reader; \
             CREATE SCHEMA petal2; COMMENT ON SCHEMA petal2 IS 'petal test data'; \
             CREATE TABLE petal2.petal_meta (key text, value text)",
        )
        .unwrap();
    let url = url.replace("petal@", "reader@");
    let one = Settings { schemas: Some(1), ..Settings::default() };
    let engine = open_with(&url, one);
    assert_eq!(engine.loaded().unwrap().len(), 1);
    // Not its table: the server would pass over it with a mere warning.
    let settled = engine.settle(&Silent, &unlimited()).unwrap().done.join("; ");
    assert!(settled.contains("0 main tables vacuumed; 1 main tables not vacuumed"), "{settled}");
    let work = Workplace::new();
    let run = ["run", "-s", "1", "--db", &url, "--run-time", "1", "--update-pct", "0", "--json"];
    let run = work.petal(run).exits(0).json();
    assert!(count(&run, "/ops/select") > 0);
    let all = open(&url).loaded().unwrap_err().to_string();
    assert!(all.contains("permission denied for schema petal2"), "{all}");
}
