//! The engine's logic over a scripted database, and real failures to connect.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::thread;
use std::time::{Duration, Instant};

use super::link::LinkError;
use super::scripted::{Scripted, error};
use super::*;
use crate::engine::{Outcomes, Silent};
use crate::settings::url::TargetUrl;
use crate::settings::{Endpoints, RedoStress};
use crate::stats::counters::WaitClass;
use crate::workload::op::{Kind, Operation};
use crate::workload::plan::seats;
use crate::workload::row::Filler;
use crate::workload::seat::Role;

fn settings() -> Settings {
    let db = TargetUrl::parse("oracle://petal:s3cret@db1/svc").unwrap();
    Settings { db, commit_wait: true, ..Settings::default() }
}

fn engine(scripted: &Scripted, settings: &Settings) -> Oracle {
    let options = Options::of(settings).unwrap();
    let connector: Arc<dyn Connector> = Arc::new(scripted.clone());
    let tablespace = options.tablespace.clone();
    Oracle::over(connector, settings, options.endpoints, options.admin_place, tablespace)
}

/// Schemas 1 to 3 of 2048 rows.
fn loaded() -> Scripted {
    let keys = [
        ("format", "1"),
        ("rows", "2048"),
        ("scan_rows", "48"),
        ("block_size", "8192"),
        ("width", "128"),
        ("filler", "constant"),
        ("tablespace", "IOPS"),
    ];
    let meta: Vec<Vec<&str>> = ["1", "2", "3"]
        .iter()
        .flat_map(|schema| keys.iter().map(|(key, value)| vec![*schema, *key, *value]))
        .collect();
    let meta: Vec<&[&str]> = meta.iter().map(Vec::as_slice).collect();
    let tables = ["PETAL_META", "PETAL1_CF1", "PETAL1_CF2", "PETAL2_CF1", "PETAL2_CF2"];
    let tables = [&tables[..], &["PETAL3_CF1", "PETAL3_CF2"]].concat();
    let tables: Vec<[&str; 1]> = tables.into_iter().map(|table| [table]).collect();
    let tables: Vec<&[&str]> = tables.iter().map(|table| &table[..]).collect();
    Scripted::default()
        .answers("FROM user_tables", &tables)
        .answers("FROM user_tab_comments", &tables)
        .answers("FROM petal_meta", &meta)
        .answers("FROM user_segments", &[&["PETAL1_CF1", "17000000"]])
        .answers("FROM user_users", &[&["IOPS"]])
        .answers("FROM user_tablespaces", &[&["8192", "AUTO", "NOLOGGING", "NO"]])
        .answers("FROM product_component_version", &[&["19.0.0.0.0"]])
}

fn seat(session: u32, schema: u32) -> Seat {
    Seat { session, schema, endpoint: 0, role: Role::Mixed }
}

fn operation(kind: Kind, schema: u32, first: u64, rows: u32) -> Operation {
    Operation { kind, schema, first, rows, stamp: first + 1000, due: None }
}

fn unlimited() -> Stop {
    Stop::unlimited(Arc::default())
}

type Ended = (u64, u64, Option<String>);

/// Runs a batch; latencies in microseconds, rows and errors of what ended.
fn execute(engine: &Oracle, seat: Seat, batch: &[Operation]) -> (Vec<Ended>, Result<(), String>) {
    let mut done = Outcomes::default();
    let mut session = engine.connect(seat).unwrap();
    let result = session.execute(batch, &unlimited(), &mut done);
    assert!(done.ended.iter().enumerate().all(|(at, ended)| ended.operation as usize == at));
    assert!(done.ended.is_sorted_by_key(|ended| ended.end_ns));
    let ended = done
        .ended
        .into_iter()
        .map(|ended| (ended.latency_ns / 1000, ended.rows, ended.error.map(String::from)));
    (ended.collect(), result.map_err(|error| error.to_string()))
}

#[test]
fn a_load_sends_this() {
    let scripted = Scripted::default()
        .answers("FROM user_users", &[&["IOPS"]])
        .answers("FROM user_tablespaces", &[&["8192", "AUTO", "NOLOGGING", "NO"]])
        .answers("DBMS_ROWID", &[&["1030", "1030", "1"]])
        .answers("FROM user_segments", &[&["PETAL1_CF1", "9000000"]]);
    let engine = engine(&scripted, &settings());
    let plan = LoadPlan {
        schemas: vec![1],
        rows: 1030,
        scan_rows: 0,
        block_size: 8192,
        degree: 2,
        unique_index: true,
        filler: Filler::Constant,
        seed: 5,
        replace: false,
    };
    let summary = engine.load(&plan, &Silent, &unlimited()).unwrap();
    assert!(summary.schemas[0].placement.is_one_row_per_block());
    assert_eq!(summary.schemas[0].schema.bytes, 9_000_000);
    let sent = scripted.sent();
    let changes = sent.iter().filter(|line| !line.starts_with("query"));
    let shortened: Vec<String> = changes
        .map(|line| {
            let line = line.replace(", c4 VARCHAR2(128)", " ...");
            line.chars().take(118).collect()
        })
        .collect();
    insta::assert_snapshot!(shortened.join("\n"), @r"
    execute CREATE TABLE petal_meta ( schema_number NUMBER(6) NOT NULL, key VARCHAR2(30) NOT NULL, value VARCHAR2(400), CO
    execute COMMENT ON TABLE petal_meta IS 'petal test data'
    execute DELETE FROM petal_meta WHERE schema_number = :1 [1]
    execute INSERT INTO petal_meta (schema_number, key, value) VALUES (:1, :2, :3) [1, 'loading', 'TRUE']
    commit 
    execute CREATE TABLE petal1_cf1 (custid NUMBER(12), c2 VARCHAR2(128), c3 VARCHAR2(128) ..., c5 VARCHAR2(128), c6 VARCH
    execute COMMENT ON TABLE petal1_cf1 IS 'petal test data'
    execute INSERT INTO petal1_cf1 VALUES (:1, :2, :3, :4, :5, :6, :7, :8, :9, :10, :11, :12, :13, :14, :15, :16, :17, :18
    commit 
    execute ALTER TABLE petal1_cf1 MINIMIZE RECORDS_PER_BLOCK
    execute 500 rows INSERT /*+ APPEND_VALUES */ INTO petal1_cf1 VALUES (:1, :2, :3, :4, :5, :6, :7, :8, :9, :10, :11, :12
    commit 
    execute 500 rows INSERT /*+ APPEND_VALUES */ INTO petal1_cf1 VALUES (:1, :2, :3, :4, :5, :6, :7, :8, :9, :10, :11, :12
    commit 
    execute 29 rows INSERT /*+ APPEND_VALUES */ INTO petal1_cf1 VALUES (:1, :2, :3, :4, :5, :6, :7, :8, :9, :10, :11, :12,
    commit 
    execute ALTER TABLE petal1_cf1 LOGGING
    execute CREATE TABLE petal1_cf2 (custid NUMBER(12), c2 VARCHAR2(128), c3 VARCHAR2(128) ..., c5 VARCHAR2(128), c6 VARCH
    execute COMMENT ON TABLE petal1_cf2 IS 'petal test data'
    execute ALTER TABLE petal1_cf2 LOGGING
    execute CREATE UNIQUE INDEX petal1_cf1_custid ON petal1_cf1 (custid) NOLOGGING TABLESPACE IOPS
    execute ALTER INDEX petal1_cf1_custid LOGGING
    execute BEGIN DBMS_STATS.GATHER_TABLE_STATS(ownname => USER, tabname => UPPER('petal1_cf1'), cascade => TRUE); DBMS_ST
    execute BEGIN DBMS_STATS.GATHER_TABLE_STATS(ownname => USER, tabname => UPPER('petal1_cf2'), cascade => TRUE); DBMS_ST
    execute DELETE FROM petal_meta WHERE schema_number = :1 [1]
    execute INSERT INTO petal_meta (schema_number, key, value) VALUES (:1, :2, :3) [1, 'format', '1']
    execute INSERT INTO petal_meta (schema_number, key, value) VALUES (:1, :2, :3) [1, 'petal', '0.1.0']
    execute INSERT INTO petal_meta (schema_number, key, value) VALUES (:1, :2, :3) [1, 'rows', '1030']
    execute INSERT INTO petal_meta (schema_number, key, value) VALUES (:1, :2, :3) [1, 'scan_rows', '0']
    execute INSERT INTO petal_meta (schema_number, key, value) VALUES (:1, :2, :3) [1, 'block_size', '8192']
    execute INSERT INTO petal_meta (schema_number, key, value) VALUES (:1, :2, :3) [1, 'width', '128']
    execute INSERT INTO petal_meta (schema_number, key, value) VALUES (:1, :2, :3) [1, 'filler', 'constant']
    execute INSERT INTO petal_meta (schema_number, key, value) VALUES (:1, :2, :3) [1, 'tablespace', 'IOPS']
    execute INSERT INTO petal_meta (schema_number, key, value) VALUES (:1, :2, :3) [1, 'scatter_seed', '5']
    execute INSERT INTO petal_meta (schema_number, key, value) VALUES (:1, :2, :3) [1, 'unique_index', 'true']
    commit
    ");
}

fn plan_of(schema: u32, replace: bool) -> LoadPlan {
    LoadPlan {
        schemas: vec![schema],
        rows: 1024,
        scan_rows: 0,
        block_size: 8192,
        degree: 1,
        unique_index: false,
        filler: Filler::Random,
        seed: 1,
        replace,
    }
}

#[test]
fn a_load_that_is_not_one_row_per_block_is_no_load() {
    let scripted = Scripted::default()
        .answers("FROM user_users", &[&["IOPS"]])
        .answers("FROM user_tablespaces", &[&["8192", "AUTO", "NOLOGGING", "NO"]])
        .answers("DBMS_ROWID", &[&["1024", "512", "2"]]);
    let error =
        engine(&scripted, &settings()).load(&plan_of(1, false), &Silent, &unlimited()).unwrap_err();
    assert!(error.to_string().contains("1024 rows in 512 blocks, up to 2 in one"), "{error}");
    assert!(!scripted.sent().iter().any(|line| line.contains("'format'")));
}

#[test]
fn what_is_in_the_way_stays() {
    let refusal = |scripted: &Scripted, replace| {
        let engine = engine(scripted, &settings());
        engine.load(&plan_of(1, replace), &Silent, &unlimited()).unwrap_err().to_string()
    };
    insta::assert_snapshot!(refusal(&loaded(), false), @"db1:1521/svc: schema 1 is loaded already; drop the data first (petal drop) or load over it (petal setup --replace)");
    let foreign = loaded().answers("FROM user_tab_comments", &[&["PETAL_META"]]);
    insta::assert_snapshot!(refusal(&foreign, true), @"db1:1521/svc: a table petal1_cf1 without petal's mark is in the way, and petal leaves it alone; rename it or load as another user");
    assert!(!foreign.sent().iter().any(|line| line.contains("DROP")));
}

#[test]
fn a_load_ends_in_our_words_with_place_and_code() {
    let base = || {
        Scripted::default()
            .answers("FROM user_users", &[&["IOPS"]])
            .answers("FROM user_tablespaces", &[&["8192", "AUTO", "NOLOGGING", "NO"]])
    };
    let told = |scripted: Scripted| {
        let engine = engine(&scripted, &settings());
        let error = engine.load(&plan_of(1, false), &Silent, &unlimited()).unwrap_err();
        assert!(matches!(error, EngineError::Environment(_)), "{error:?}");
        error.to_string()
    };
    let full = "unable to extend table PETAL.PETAL1_CF1 by 1024 in tablespace IOPS";
    insta::assert_snapshot!(told(base().fails("APPEND_VALUES", 1653, full)), @"db1:1521/svc: writing rows of petal1_cf1: ORA-01653: unable to extend table PETAL.PETAL1_CF1 by 1024 in tablespace IOPS; make room: add a data file to the tablespace or let it extend");
    let quota = "no privileges on tablespace 'IOPS'";
    insta::assert_snapshot!(told(base().fails("INSERT INTO petal1", 1950, quota)), @"db1:1521/svc: writing rows of petal1_cf1: ORA-01950: no privileges on tablespace 'IOPS'; ALTER USER ... QUOTA UNLIMITED ON the tablespace");
    insta::assert_snapshot!(told(base().answers("FROM user_tablespaces", &[])), @"db1:1521/svc: the user has no tablespace IOPS: it does not exist, or ALTER USER ... QUOTA UNLIMITED ON IOPS is missing");
}

#[test]
fn a_tablespace_of_another_block_size_is_told() {
    let scripted =
        loaded().answers("FROM user_tablespaces", &[&["16384", "AUTO", "LOGGING", "NO"]]);
    let engine = engine(&scripted, &settings());
    assert_eq!(engine.block_size(None).unwrap(), 16_384);
    insta::assert_snapshot!(engine.block_size(Some(8192)).unwrap_err(), @"BLOCK_SZ=8192: the blocks of tablespace IOPS have 16384 bytes; name a tablespace of that block size (petal setup TABLESPACE N), or leave BLOCK_SZ out");
}

#[test]
fn a_batch_is_one_call_and_every_operation_has_its_own_latency() {
    let scripted = loaded();
    let engine = engine(&scripted, &settings());
    let batch = [
        operation(Kind::Select, 2, 1, 64),
        operation(Kind::Update, 2, 100, 8),
        operation(Kind::Scan, 2, 0, 0),
        operation(Kind::Update, 1, 7, 16),
        operation(Kind::Select, 1, 2000, 2),
    ];
    let (ended, result) = execute(&engine, seat(1, 2), &batch);
    result.unwrap();
    let of = |rows: u64| (rows * 10, rows, None);
    assert_eq!(ended, [of(64), of(8), of(48), of(16), of(2)]);
    let sent = scripted.sent();
    let calls: Vec<&String> = sent.iter().filter(|line| line.starts_with("call")).collect();
    // Operations, a stamp for each UPDATE, what follows it, width, total, budget.
    insta::assert_snapshot!(calls[0], @"call the loop ['S0000000000010000000', '00000000000uk0000000', 'xxxxxxxxxxxxxxxxxxxx', 128, 5, 3600000000]");
    assert_eq!(calls.len(), 1);
}

#[test]
fn what_the_block_leaves_is_sent_again() {
    let scripted = loaded();
    scripted.0.lock().unwrap().told_max = Some(200);
    let engine = engine(&scripted, &settings());
    let batch: Vec<Operation> = (1..=1500).map(|at| operation(Kind::Select, 1, at, 4)).collect();
    let (ended, result) = execute(&engine, seat(1, 1), &batch);
    result.unwrap();
    assert_eq!(ended.len(), 1500);
    let calls = scripted.sent().iter().filter(|line| line.starts_with("call")).count();
    assert_eq!(calls, 1500usize.div_ceil(200));
}

#[test]
fn random_rows_go_in_as_many_calls_as_they_need() {
    let random = loaded();
    let state = |rows: &str| -> Vec<Vec<String>> {
        let keys = ["format 1", "rows 2048", "scan_rows 48", "block_size 8192", "width 128"];
        let more = ["tablespace IOPS", rows];
        keys.iter()
            .chain(&more)
            .map(|pair| {
                let (key, value) = pair.split_once(' ').unwrap();
                vec!["1".to_owned(), key.to_owned(), value.to_owned()]
            })
            .collect()
    };
    let rows = state("filler random");
    let rows: Vec<Vec<&str>> =
        rows.iter().map(|row| row.iter().map(String::as_str).collect()).collect();
    let rows: Vec<&[&str]> = rows.iter().map(Vec::as_slice).collect();
    let random = random.answers("FROM petal_meta", &rows);
    let heavy = Settings { redo_stress: RedoStress::Heavy, ..settings() };
    let engine = engine(&random, &heavy);
    let batch: Vec<Operation> = (1..=40).map(|at| operation(Kind::Update, 1, at, 1)).collect();
    let (ended, result) = execute(&engine, seat(1, 1), &batch);
    result.unwrap();
    assert_eq!(ended.len(), 40);
    // 32,000 characters hold 13 UPDATEs of 19 columns of 128.
    let calls = random.sent().iter().filter(|line| line.starts_with("call")).count();
    assert_eq!(calls, 40usize.div_ceil(13));
}

#[test]
fn some_errors_cost_an_operation_and_others_the_session() {
    let scripted = loaded();
    let faults = [None, Some(60), Some(8177), Some(1555), Some(54), None, Some(1653)];
    scripted.0.lock().unwrap().faults = faults.into_iter().collect();
    let engine = engine(&scripted, &settings());
    let batch: Vec<Operation> = (1..=9).map(|at| operation(Kind::Update, 1, at, 1)).collect();
    let (ended, result) = execute(&engine, seat(1, 1), &batch);
    let errors: Vec<Option<String>> = ended.into_iter().map(|(_, _, error)| error).collect();
    let counted = |code: &str| Some(code.to_owned());
    assert_eq!(
        errors,
        [
            None,
            counted("ORA-00060"),
            counted("ORA-08177"),
            counted("ORA-01555"),
            counted("ORA-00054"),
            None
        ]
    );
    insta::assert_snapshot!(result.unwrap_err(), @"db1:1521/svc: ORA-01653: scripted; make room: add a data file to the tablespace or let it extend (ORA-01653)");
}

#[test]
fn a_killed_session_and_a_dying_instance_are_named() {
    for (error, told) in [
        (error(28, "your session has been killed"), "ORA-00028"),
        (error(3113, "end-of-file on communication channel"), "ORA-03113"),
        (LinkError::connection("the database or network closed the connection"), "connection"),
    ] {
        let scripted = loaded();
        scripted.0.lock().unwrap().call_fails = Some(error);
        let engine = engine(&scripted, &settings());
        let (ended, result) = execute(&engine, seat(1, 1), &[operation(Kind::Select, 1, 1, 4)]);
        assert!(ended.is_empty());
        let message = result.unwrap_err();
        assert!(message.contains(told) && message.contains("db1:1521/svc"), "{message}");
        assert!(message.contains("the session was killed, the instance ended"), "{message}");
    }
}

#[test]
fn a_call_that_outlasts_the_stop_is_cut() {
    let scripted = loaded();
    let mut timed_out = LinkError::connection("the configured call timeout was exceeded");
    timed_out.kind = super::link::Kind::TimedOut;
    scripted.0.lock().unwrap().call_fails = Some(timed_out);
    let engine = engine(&scripted, &settings());
    let cutting = Arc::new(std::sync::atomic::AtomicBool::new(true));
    let trigger = Instant::now();
    let deadline = Some(trigger + Duration::from_secs(60));
    let stop = Stop::until(trigger, deadline, Arc::default(), cutting);
    let mut done = Outcomes::default();
    let mut session = engine.connect(seat(1, 1)).unwrap();
    session.execute(&[operation(Kind::Select, 1, 1, 4)], &stop, &mut done).unwrap();
    assert_eq!(done.ended[0].error.as_deref(), Some(crate::engine::CUT));
    // The driver breaks a call off a little after the end by itself.
    let limit = scripted.0.lock().unwrap().limits[0].unwrap();
    assert!(limit > Duration::from_secs(60) && limit < Duration::from_secs(70), "{limit:?}");
}

#[test]
fn a_canceller_asks_for_the_session_by_its_numbers() {
    let scripted = loaded().answers("'INSTANCE'", &[&["2"]]);
    let engine = engine(&scripted, &settings());
    let session = engine.connect(seat(1, 1)).unwrap();
    session.canceller().cancel();
    let begin = Instant::now();
    let mut sent = Vec::new();
    while sent.is_empty() && begin.elapsed() < Duration::from_secs(20) {
        sent = scripted.sent();
        sent.retain(|line| line.contains("CANCEL"));
        thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(sent, ["execute ALTER SYSTEM CANCEL SQL '7, 70, @2'"]);
}

fn client_sends(commit_wait: bool, redo_stress: RedoStress) -> String {
    let scripted = loaded().answers("COUNT(c2)", &[&["64"]]);
    let settings =
        Settings { loop_side: Some(LoopSide::Client), commit_wait, redo_stress, ..settings() };
    let engine = engine(&scripted, &settings);
    let batch = [
        operation(Kind::Select, 2, 1, 64),
        operation(Kind::Scan, 2, 0, 0),
        operation(Kind::Update, 2, 100, 8),
    ];
    let mut session = engine.connect(seat(1, 2)).unwrap();
    scripted.sent();
    session.execute(&batch, &unlimited(), &mut Outcomes::default()).unwrap();
    scripted.sent().join("\n")
}

#[test]
fn a_client_sends_one_statement_for_each_operation() {
    insta::assert_snapshot!(client_sends(true, RedoStress::Lite), @r"
    query SELECT /*+ INDEX(t) NO_BATCH_TABLE_ACCESS_BY_ROWID(t) */ COUNT(c2) FROM petal2_cf1 t WHERE custid BETWEEN :1 AND :2 [1, 64]
    query SELECT COUNT(c2) FROM petal2_cf2
    execute UPDATE /*+ INDEX(t) NO_BATCH_TABLE_ACCESS_BY_ROWID(t) */ petal2_cf1 t SET c2 = :1, c3 = :2 WHERE custid BETWEEN :3 AND :4 ['00000000000ukxxxxxxx', '00000000000ukxxxxxxx', 100, 107]
    execute COMMIT WRITE IMMEDIATE WAIT
    ");
    let plain = client_sends(false, RedoStress::Heavy);
    assert!(plain.ends_with("\ncommit ") && plain.contains("c20 = :19"), "{plain}");
}

#[test]
fn a_statement_that_failed_leaves_nothing_for_the_next_commit() {
    let scripted = loaded().fails("UPDATE", 60, "deadlock detected while waiting for resource");
    let settings = Settings { loop_side: Some(LoopSide::Client), ..settings() };
    let engine = engine(&scripted, &settings);
    let (ended, result) = execute(&engine, seat(1, 1), &[operation(Kind::Update, 1, 1, 1)]);
    result.unwrap();
    assert_eq!(ended[0].2.as_deref(), Some("ORA-00060"));
    assert_eq!(scripted.sent().last().unwrap(), "execute ROLLBACK");
}

#[test]
fn services_are_gone_round_by_schema() {
    let endpoints = Endpoints {
        service_base: Some("slob".to_owned()),
        service_max: Some(2),
        ..Endpoints::default()
    };
    let settings = Settings { endpoints, threads_per_schema: 2, ..settings() };
    let scripted = loaded();
    let engine = engine(&scripted, &settings);
    assert_eq!(engine.endpoints(), 2);
    for seat in seats(&settings, 3, engine.endpoints()) {
        scripted.0.lock().unwrap().endpoints.clear();
        drop(engine.connect(seat).unwrap());
        let asked = scripted.0.lock().unwrap().endpoints.clone();
        assert_eq!(asked.last(), Some(&((seat.schema as usize - 1) % 2)), "{seat:?}");
    }
}

fn slobs() -> Scripted {
    Scripted::default()
        .answers(
            "FROM all_tables",
            &[
                &["USER1", "CF1", "10000", "10100", "IOPS"],
                &["USER1", "CF2", "128", "130", "IOPS"],
                &["USER2", "CF1", "10000", "10100", "IOPS"],
                &["USER4", "CF1", "10000", "10100", "IOPS"],
            ],
        )
        .answers(
            "FROM all_indexes",
            &[&["USER1", "I_CF1", "20", "UNIQUE"], &["USER2", "I_CF1", "20", "UNIQUE"]],
        )
        .answers("FROM user_tablespaces", &[&["8192", "AUTO", "NOLOGGING", "NO"]])
        .answers("COUNT(custid)", &[&["10000", "1", "10000"]])
        .answers("LENGTH(c2)", &[&["128"]])
}

#[test]
fn slobs_schemas_are_used_as_they_are_and_never_dropped() {
    let settings = Settings { use_slob_schemas: true, ..settings() };
    let scripted = slobs();
    let engine = engine(&scripted, &settings);
    let loaded = engine.loaded().unwrap();
    assert_eq!(loaded.iter().map(|schema| schema.number).collect::<Vec<_>>(), [1, 2]);
    assert_eq!((loaded[0].rows, loaded[0].scan_rows, loaded[1].scan_rows), (10_000, 128, 0));
    assert_eq!(loaded[0].bytes, 10_100 * 8192);
    let (ended, _) = execute(&engine, seat(1, 2), &[operation(Kind::Update, 2, 5, 3)]);
    assert_eq!(ended, [(30, 3, None)]);
    scripted.sent();
    for error in [
        engine.drop_data().unwrap_err(),
        engine.load(&plan_of(1, true), &Silent, &unlimited()).unwrap_err(),
    ] {
        assert!(matches!(error, EngineError::Setting(_)) && error.to_string().contains("never"));
    }
    assert!(scripted.sent().is_empty());
}

#[test]
fn what_is_not_slobs_is_told() {
    let settings = Settings { use_slob_schemas: true, ..settings() };
    let gaps = slobs().answers("COUNT(custid)", &[&["9000", "1", "10000"]]);
    let error = engine(&gaps, &settings).loaded().unwrap_err();
    assert!(error.to_string().contains("9000 keys from 1 to 10000"), "{error}");
    let unindexed = slobs().answers("FROM all_indexes", &[]);
    let error = engine(&unindexed, &settings).loaded().unwrap_err();
    assert!(error.to_string().contains("no index on CUSTID"), "{error}");
    assert!(engine(&Scripted::default(), &settings).loaded().unwrap().is_empty());
}

#[test]
fn only_marked_tables_are_dropped() {
    let tables: [&[&str]; 3] = [&["PETAL_META"], &["PETAL1_CF1"], &["PETALUMA"]];
    let scripted = loaded().answers("FROM user_tab_comments", &tables);
    let dropped = engine(&scripted, &settings()).drop_data().unwrap();
    assert_eq!(dropped, ["table petal1_cf1 at db1:1521/svc", "table petal_meta at db1:1521/svc"]);
}

#[test]
fn a_load_that_did_not_end_is_no_data_and_goes() {
    let scripted = loaded()
        .answers("FROM petal_meta", &[&["1", "loading", "TRUE"]])
        .answers("FROM user_tab_comments", &[&["PETAL_META"], &["PETAL1_CF1"]]);
    let engine = engine(&scripted, &settings());
    assert!(engine.loaded().unwrap().is_empty());
    let dropped = engine.drop_data().unwrap().join(" ");
    assert!(dropped.contains("petal1_cf2"), "made, not yet marked: {dropped}");
}

#[test]
fn counters_are_read_for_each_instance() {
    let scripted = loaded()
        .answers(
            "gv$sysstat",
            &[
                &["1", "session logical reads", "5000"],
                &["1", "physical reads", "400"],
                &["1", "physical read IO requests", "390"],
                &["1", "physical read bytes", "3276800"],
                &["1", "redo size", "99"],
                &["1", "user commits", "6400"],
                &["1", "redo synch writes", "97"],
                &["1", "background checkpoints completed", "3"],
                &["2", "physical reads", "7"],
            ],
        )
        .answers(
            "gv$system_event",
            &[
                &["1", "db file sequential read", "User I/O", "500", "90000", "400", "60000"],
                &["1", "log file sync", "Commit", "97", "970", "97", "970"],
            ],
        )
        .answers("gv$sys_time_model", &[&["1", "DB CPU", "123"], &["1", "DB time", "456"]])
        .answers("gv$event_histogram", &[&["1", "log file sync", "128", "90"]])
        .answers("gv$iostat_function", &[&["1", "LGWR", "1", "2", "3", "4", "5", "6", "7", "8"]])
        .answers("gv$osstat", &[&["1", "BUSY_TIME", "77"]])
        .answers("gv$instance", &[&["1", "orcl1", "node1"], &["2", "orcl2", "node2"]]);
    let counters = engine(&scripted, &settings()).snapshot().unwrap();
    assert_eq!(counters.len(), 2);
    let first = &counters[0];
    assert_eq!(first.endpoint, "orcl1@node1");
    let io = &first.io;
    assert_eq!((io.logical_reads, io.physical_read_blocks), (Some(5000), Some(400)));
    assert_eq!((io.physical_read_requests, io.redo_bytes), (Some(390), Some(99)));
    assert_eq!((io.commits, io.log_syncs), (Some(6400), Some(97)));
    assert_eq!(counters[1].io.commits, None, "unknown is not 0");
    let read = first.wait("db file sequential read").unwrap();
    // 60,000 microseconds over 400 waits of sessions: 150 us, not 0 ms.
    assert_eq!((read.class, read.waits, read.time_ns), (WaitClass::UserIo, Some(400), 60_000_000));
    assert_eq!(first.wait("DB CPU").unwrap().time_ns, 123_000);
    for (name, value) in [
        ("checkpoints", 3),
        ("histogram.log file sync.128us", 90),
        ("iostat.LGWR.small_write_reqs", 5),
        ("osstat.BUSY_TIME", 77),
        ("time_model.DB time", 456),
    ] {
        assert_eq!(first.raw.get(name), Some(&value), "{name}");
    }
}

#[test]
fn views_that_may_not_be_seen_leave_figures_unknown() {
    let scripted = loaded().fails("gv$", 942, "table or view does not exist");
    let counters = engine(&scripted, &settings()).snapshot().unwrap();
    assert_eq!(counters.len(), 1);
    assert_eq!(counters[0].io, Default::default());
    // Anything else is an error.
    let dying = loaded().fails("gv$sysstat", 3113, "end-of-file on communication channel");
    assert!(engine(&dying, &settings()).snapshot().is_err());
}

#[test]
fn settling_tells_what_the_user_may_not() {
    let settle = |scripted: &Scripted| {
        engine(scripted, &settings()).settle(&Silent, &unlimited()).unwrap().done
    };
    assert_eq!(settle(&loaded()), ["log switch", "checkpoint"]);
    let done = settle(&loaded().fails("ALTER SYSTEM", 1031, "insufficient privileges"));
    assert!(done[0].starts_with("no log switch: the user may not (ORA-01031"), "{done:?}");
}

#[test]
fn describing_tells_commits_files_and_redo() {
    let scripted = loaded()
        .answers("v$parameter", &[&["filesystemio_options", "SETALL"]])
        .answers("gv$sgainfo", &[&["1073741824"]])
        .answers("dba_data_files", &[&["+DATA/x/1.dbf"], &["+DATA/x/2.dbf"]])
        .answers("v$log", &[&["3", "52428800", "52428800", "1"]])
        .answers("v$database", &[&["ARCHIVELOG", "NO"]])
        .answers(
            "plan_table_output",
            &[
                &["| 0 | SELECT STATEMENT |"],
                &["| 2 | TABLE ACCESS BY INDEX ROWID| PETAL1_CF1 |"],
                &["| 3 | INDEX RANGE SCAN | PETAL1_CF1_CUSTID |"],
            ],
        );
    let (target, details) = engine(&scripted, &settings()).describe(3, 4).unwrap();
    assert_eq!((target.version.as_str(), target.cache_bytes), ("19.0.0.0.0", Some(1 << 30)));
    assert!(!target.url.contains("s3cret"));
    assert!(details.plan.unwrap().as_meant && details.sync_per_commit);
    assert_eq!(details.durability.map(|d| d.durable), Some(true));
    let told: Vec<String> =
        details.settings.iter().map(|(name, value)| format!("{name}: {value}")).collect();
    for expected in [
        "filesystemio_options: SETALL",
        "data files: 2 in ASM disk group +DATA: its devices are not watched",
        "redo: 3 redo log groups, the smallest of 50.0 MiB",
        "redo: the database archives its redo",
        "commit: COMMIT WRITE IMMEDIATE WAIT (COMMIT_WAIT=TRUE)",
    ] {
        assert!(told.iter().any(|line| line.starts_with(expected)), "{expected} in {told:#?}");
    }
    let not_waiting = Settings { commit_wait: false, ..settings() };
    let (_, details) = engine(&scripted, &not_waiting).describe(1, 1).unwrap();
    assert_eq!(details.durability.map(|d| d.durable), Some(false));
}

#[test]
fn awr_is_fetched_for_each_instance_and_for_all() {
    let scripted = loaded()
        .answers("CREATE_SNAPSHOT", &[&["41"]])
        .answers("AWR_REPORT_TEXT", &[&["WORKLOAD REPOSITORY report"], &[""], &["end"]])
        .answers("AWR_REPORT_HTML", &[&["<html>"]])
        .answers("AWR_GLOBAL", &[&["RAC"]])
        .answers("FROM v$database", &[&["4711"]])
        .answers("gv$instance", &[&["1", "orcl1", "node1"], &["2", "orcl2", "node2"]]);
    let awr = Settings { database_statistics_type: StatisticsType::Awr, ..settings() };
    let engine = engine(&scripted, &awr);
    assert!(engine.begin_report().unwrap().unwrap().contains("licence"));
    let reports = engine.end_report().unwrap();
    let files: Vec<&str> = reports.iter().map(|report| report.file.as_str()).collect();
    assert_eq!(
        files,
        ["awr-1.txt", "awr-1.html", "awr-2.txt", "awr-2.html", "awr-global.txt", "awr-global.html"]
    );
    assert_eq!(reports[0].text, "WORKLOAD REPOSITORY report\n\nend\n");
    let sent = scripted.sent();
    assert!(
        sent.iter()
            .any(|line| line.contains("AWR_REPORT_TEXT") && line.ends_with("[4711, 2, 41, 41]"))
    );
    assert!(
        sent.iter().any(|line| line.contains("AWR_GLOBAL_REPORT_HTML")
            && line.ends_with("[4711, '1,2', 41, 41]"))
    );
    assert!(engine.end_report().unwrap().is_empty(), "once");
}

#[test]
fn statspack_leaves_its_script_or_nothing_where_it_is_not_installed() {
    let there = loaded().answers("statspack.snap", &[&["12"]]);
    let engine_there = engine(&there, &settings());
    assert_eq!(engine_there.begin_report().unwrap(), None);
    let reports = engine_there.end_report().unwrap();
    assert_eq!(reports[0].file, "statspack.sql");
    assert!(reports[0].text.contains("DEFINE begin_snap = 12\n"));
    let missing = || loaded().fails("statspack.snap", 6550, "PLS-00201: must be declared");
    let default = engine(&missing(), &settings());
    assert_eq!(default.begin_report().unwrap(), None);
    assert!(default.end_report().unwrap().is_empty());
}

#[test]
fn a_log_on_that_fails_is_told_with_its_code() {
    let refused = |code, message: &str| {
        let scripted = loaded().fails("CONNECT petal", code, message);
        let error = engine(&scripted, &settings()).loaded().unwrap_err();
        assert!(matches!(error, EngineError::Environment(_)));
        error.to_string()
    };
    insta::assert_snapshot!(refused(28000, "The account is locked."), @"db1:1521/svc: connecting: ORA-28000: The account is locked.; the account is locked: ALTER USER ... ACCOUNT UNLOCK");
    insta::assert_snapshot!(refused(1017, "invalid username/password; logon denied"), @"db1:1521/svc: connecting: ORA-01017: invalid username/password; logon denied; check user and password (ORACLE_PASSWORD, SYSDBA_PASSWD)");
}

/// A peer of the real driver's: does `serve` with each connection.
fn peer(serve: fn(std::net::TcpStream)) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || serve(stream));
        }
    });
    port
}

fn really(url: &str) -> String {
    let settings = Settings { db: TargetUrl::parse(url).unwrap(), ..settings() };
    let error = Oracle::open(&settings).unwrap().loaded().unwrap_err();
    assert!(matches!(error, EngineError::Environment(_)), "{error:?}");
    let text = error.to_string();
    assert!(!text.contains("s3cret"), "{text}");
    text
}

#[test]
fn a_closed_port_is_told_at_once() {
    let text = really("oracle://u:s3cret@127.0.0.1:1/svc");
    insta::assert_snapshot!(text, @"127.0.0.1:1/svc: connecting: stream operation failed: Connection refused (os error 111); check host, port and that a listener runs there (lsnrctl status)");
}

#[test]
fn a_listener_that_hangs_is_left_after_the_time_limit() {
    let port = peer(|mut stream| {
        // Takes what comes and answers nothing.
        let _ = stream.read_to_end(&mut Vec::new());
    });
    let begin = Instant::now();
    let text = really(&format!("oracle://u:s3cret@127.0.0.1:{port}/svc?connect_timeout=1"));
    assert!(text.contains("no answer within 1 s"), "{text}");
    assert!(begin.elapsed() < Duration::from_secs(60));
}

#[test]
fn a_peer_that_speaks_garbage_is_no_database() {
    for garbage in [
        &b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"[..],
        &[
            0, 32, 0, 0, 99, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17,
            18, 19, 20, 21, 22, 23, 24,
        ],
        &[],
    ] {
        let serve: fn(std::net::TcpStream) = match garbage.len() {
            0 => |stream| drop(stream),
            32 => |mut stream| {
                let mut packet = [0u8; 32];
                packet[1] = 32;
                packet[4] = 99;
                let _ = stream.write_all(&packet);
            },
            _ => |mut stream| {
                let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
            },
        };
        let port = peer(serve);
        let text = really(&format!("oracle://u:s3cret@127.0.0.1:{port}/svc?connect_timeout=2"));
        assert!(text.starts_with(&format!("127.0.0.1:{port}/svc: connecting: ")), "{text}");
    }
}

#[test]
fn tls_that_is_refused_is_told() {
    // A TLS alert: handshake failure.
    let port = peer(|mut stream| {
        let mut hello = [0u8; 512];
        let _ = stream.read(&mut hello);
        let _ = stream.write_all(&[21, 3, 3, 0, 2, 2, 40]);
    });
    let url = format!("oracle://u:s3cret@127.0.0.1:{port}/svc?protocol=tcps&connect_timeout=5");
    let text = really(&url);
    assert!(text.contains("protocol=tcps") && text.to_lowercase().contains("handshake"), "{text}");
}
