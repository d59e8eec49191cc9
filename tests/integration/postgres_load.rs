//! PostgreSQL's data before a run, loaded and settled: what stays when that is refused or cut off.

use std::sync::Arc;

use petal_engine::{EngineError, LoadPlan, Silent, Stop};
use rustix::process::Signal;

use crate::engine_postgres::{ROWS, load, open, plan, unlimited};
use crate::server_postgres::{
    Server, VACUUM_WAITS, is_there, keep_vacuum_waiting, sessions, shared, slow_index,
};
use crate::support::{Mount, Workplace};

#[test]
fn blocks_are_the_servers_own() {
    if !is_there() {
        return;
    }
    let url = shared().url("block_size");
    let engine = open(&url);
    assert_eq!(engine.block_size(None).unwrap(), 8192);
    assert_eq!(engine.block_size(Some(8192)).unwrap(), 8192);
    for refused in [
        engine.block_size(Some(16_384)).unwrap_err(),
        engine
            .load(&LoadPlan { block_size: 16_384, ..plan(1) }, &Silent, &unlimited())
            .unwrap_err(),
    ] {
        assert!(matches!(&refused, EngineError::Setting(text) if text.contains("have 8192")));
    }
}

#[test]
fn schemas_of_others_are_left_alone() {
    if !is_there() {
        return;
    }
    let url = shared().url("of_others");
    let mut client = shared().client("of_others");
    client
        .batch_execute(
            "CREATE SCHEMA petal1; CREATE TABLE petal1.petal_meta (key text, value text); \
             INSERT INTO petal1.petal_meta VALUES ('mine', 'yes'); CREATE SCHEMA petal2_loading",
        )
        .unwrap();
    let engine = open(&url);
    let loaded = engine.load(&plan(1), &Silent, &unlimited());
    assert!(
        matches!(&loaded, Err(EngineError::Environment(text)) if text.contains("petal1 without"))
    );
    let replacing = LoadPlan { replace: true, ..plan(2) };
    assert!(engine.load(&replacing, &Silent, &unlimited()).is_err());
    assert_eq!(engine.drop_data().unwrap(), [""; 0]);
    assert!(engine.loaded().unwrap().is_empty());
    let rows = client.query("SELECT value FROM petal1.petal_meta", &[]).unwrap();
    assert_eq!(rows[0].get::<_, &str>(0), "yes");
    client.batch_execute("DROP SCHEMA petal2_loading").unwrap();
}

#[test]
fn objects_that_others_built_on_petals_data_are_named_and_kept() {
    if !is_there() {
        return;
    }
    let url = shared().url("built_on");
    load(&url, 1);
    let mut client = shared().client("built_on");
    let engine = open(&url);
    let replacing = LoadPlan { replace: true, ..plan(1) };
    for (make, name, remove) in [
        (
            "CREATE VIEW of_others AS SELECT custid FROM petal1.cf1",
            "of_others",
            "DROP VIEW of_others",
        ),
        ("CREATE TABLE petal1.theirs (a int)", "petal1.theirs", "DROP TABLE petal1.theirs"),
    ] {
        client.batch_execute(make).unwrap();
        let refused = [
            engine.drop_data().map(|_| ()),
            engine.load(&replacing, &Silent, &unlimited()).map(|_| ()),
        ];
        for refused in refused {
            let Err(EngineError::Environment(why)) = refused else { panic!("{refused:?}") };
            assert!(why.contains(name) && !why.contains("CASCADE"), "{why}");
        }
        assert_eq!(engine.loaded().unwrap()[0].rows, ROWS);
        client.batch_execute(remove).unwrap();
    }
    assert_eq!(engine.drop_data().unwrap().len(), 1);
}

#[test]
fn replacing_keeps_the_old_data_until_the_new_are_loaded() {
    if !is_there() {
        return;
    }
    let url = shared().url("replacing");
    load(&url, 1);
    let engine = open(&url);
    let again = LoadPlan { replace: true, rows: 1500, ..plan(2) };
    // Stopped at once: the old is there.
    let stopped = Stop::unlimited(Arc::new(1.into()));
    assert!(matches!(engine.load(&again, &Silent, &stopped), Err(EngineError::Interrupted)));
    assert_eq!(engine.loaded().unwrap()[0].rows, ROWS);
    engine.load(&again, &Silent, &unlimited()).unwrap();
    let rows: Vec<u64> = engine.loaded().unwrap().iter().map(|schema| schema.rows).collect();
    assert_eq!(rows, [1500, 1500]);
}

#[test]
fn a_full_disk_refuses_the_load_and_leaves_nothing() {
    if !is_there() {
        return;
    }
    let Some(disk) = Mount::tmpfs("size=64m,mode=777") else { return };
    let url = shared().url("fullness");
    shared().tablespace("full", &disk.path(""));
    let work = Workplace::new();
    let small = format!("{url}&tablespace=full");
    // Told before a row is written.
    work.petal(["setup", "--db", &small, "-s", "2", "--scale", "200M"]).exits(3).telling(&[
        "the load needs",
        "are free in",
        "space",
    ]);
    // Somebody else fills it meanwhile.
    let mut client = shared().client("fullness");
    slow_index(&mut client, 3.0);
    let mut setup = work.petal(["setup", "--db", &small, "--scale", "8M"]).start();
    setup.until("an index", || sessions(&mut client, "query LIKE '%CREATE INDEX%'") == 1);
    let _ = std::fs::write(disk.path("others"), vec![1; 64 << 20]);
    setup
        .ends()
        .exited(3)
        // In the server's words it is a write that failed, or one that was cut short.
        .telling(&["53100", "make room on the server's disk"]);
    assert!(open(&url).loaded().unwrap().is_empty());
    // Where there is room, that is where the data go.
    disk.free("others");
    client.batch_execute("DROP EVENT TRIGGER slow").unwrap();
    load(&small, 1);
    let sql = "SELECT count(*) FROM pg_class c JOIN pg_tablespace t ON t.oid = c.reltablespace \
               WHERE spcname = 'full' AND relname IN ('cf1', 'cf2', 'cf1_custid')";
    assert_eq!(client.query_one(sql, &[]).unwrap().get::<_, i64>(0), 3);
    open(&url).drop_data().unwrap();
    client.batch_execute("CHECKPOINT").unwrap();
    client.batch_execute("DROP TABLESPACE \"full\"").unwrap();
}

#[test]
fn a_signal_ends_a_load_also_while_its_index_is_made() {
    if !is_there() {
        return;
    }
    let url = shared().url("signalled");
    let mut client = shared().client("signalled");
    slow_index(&mut client, 3600.0);
    let work = Workplace::new();
    let mut setup = work.petal(["setup", "--db", &url, "--scale", "16M"]).start();
    setup.until("an index", || sessions(&mut client, "query LIKE '%CREATE INDEX%'") == 1);
    setup.signal(Signal::INT);
    setup.ends().exited(130);
    assert!(open(&url).loaded().unwrap().is_empty());
    let left = "SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'petal%'";
    let left: i64 = client.query_one(left, &[]).unwrap().get(0);
    assert_eq!(left, 0);
}

#[test]
fn a_signal_is_heard_while_settling_waits() {
    if !is_there() {
        return;
    }
    let url = shared().url("settling");
    load(&url, 1);
    let mut client = shared().client("settling");
    let _holder = keep_vacuum_waiting("settling");
    let work = Workplace::new();
    let mut running = work.petal(["run", "--db", &url]).start();
    running.until("VACUUM", || sessions(&mut client, VACUUM_WAITS) == 1);
    running.signal(Signal::INT);
    running.ends().exited(130);
    assert_eq!(sessions(&mut client, VACUUM_WAITS), 0, "it was cancelled");
}

#[test]
fn more_schemas_than_the_server_has_locks_for_are_refused_before_they_are_replaced() {
    if !is_there() {
        return;
    }
    let server = Server::start(&["max_locks_per_transaction=10", "max_connections=20"]);
    let engine = open(&server.url("many"));
    let many = |schemas, replace| {
        let plan = LoadPlan { rows: 16, scan_rows: 8, degree: 4, replace, ..plan(schemas) };
        engine.load(&plan, &Silent, &unlimited())
    };
    many(60, false).unwrap();
    let refused = many(60, true).unwrap_err();
    assert!(matches!(&refused, EngineError::Environment(_)), "{refused:?}");
    let refused = refused.to_string();
    for words in ["replaces all 60 schemas", "(max_locks_per_transaction=10)", "petal drop"] {
        assert!(refused.contains(words), "{refused}");
    }
    // What fits is replaced; dropping takes the schemas one by one.
    many(8, true).unwrap();
    assert_eq!(engine.drop_data().unwrap().len(), 60);
}
