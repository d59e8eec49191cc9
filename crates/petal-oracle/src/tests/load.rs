//! Loading and dropping.

use super::*;
use petal_model::workload::scatter::Permutation;

#[test]
fn a_load_sends_this() {
    let scripted = ScriptedOracle::default()
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
        degree: 1,
        unique_index: true,
        filler: Filler::Constant,
        seed: 5,
        id: 7,
        replace: false,
    };
    let summary = engine.load(&plan, &Silent, &unlimited()).unwrap();
    assert!(summary.schemas[0].placement.is_one_row_per_block());
    assert_eq!(summary.schemas[0].placement.overflow_blocks, None, "unknown, not 0");
    assert_eq!(summary.schemas[0].schema.bytes, 9_000_000);
    let sent = scripted.sent();
    let changes = sent.iter().filter(|line| !line.starts_with("query"));
    let shortened: Vec<String> = changes
        .map(|line| {
            let line = line.replace(", c4 VARCHAR2(128)", " ...");
            line.chars().take(118).collect()
        })
        .collect();
    insta::assert_snapshot!(shortened.join("\n"), @r#"
    execute CREATE TABLE petal_meta ( schema_number NUMBER(6) NOT NULL, key VARCHAR2(30) NOT NULL, value VARCHAR2(400), CO
    execute COMMENT ON TABLE petal_meta IS 'petal test data'
    execute DELETE FROM petal_meta WHERE schema_number = :1 [1]
    execute INSERT INTO petal_meta (schema_number, key, value) VALUES (:1, :2, :3) [1, 'loading', 'TRUE']
    commit 
    execute ALTER SESSION SET optimizer_ignore_hints = FALSE
    execute ALTER SESSION SET optimizer_ignore_parallel_hints = FALSE
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
    execute ALTER SESSION SET optimizer_ignore_hints = FALSE
    execute ALTER SESSION SET optimizer_ignore_parallel_hints = FALSE
    execute CREATE TABLE petal1_cf2 (custid NUMBER(12), c2 VARCHAR2(128), c3 VARCHAR2(128) ..., c5 VARCHAR2(128), c6 VARCH
    execute COMMENT ON TABLE petal1_cf2 IS 'petal test data'
    execute ALTER SESSION SET optimizer_ignore_hints = FALSE
    execute ALTER SESSION SET optimizer_ignore_parallel_hints = FALSE
    execute ALTER TABLE petal1_cf1 LOGGING
    execute ALTER TABLE petal1_cf2 LOGGING
    execute CREATE UNIQUE INDEX petal1_cf1_custid ON petal1_cf1 (custid) NOLOGGING TABLESPACE IOPS
    execute ALTER INDEX petal1_cf1_custid LOGGING
    execute BEGIN DBMS_STATS.GATHER_TABLE_STATS( ownname => USER, tabname => UPPER('petal1_cf1'), method_opt => 'FOR COLUM
    execute BEGIN DBMS_STATS.GATHER_TABLE_STATS( ownname => USER, tabname => UPPER('petal1_cf2'), method_opt => 'FOR COLUM
    execute ALTER SESSION SET "_serial_direct_read" = NEVER
    execute DELETE FROM petal_meta WHERE schema_number = :1 [1]
    execute INSERT INTO petal_meta (schema_number, key, value) VALUES (:1, :2, :3) [1, 'format', '1']
    execute INSERT INTO petal_meta (schema_number, key, value) VALUES (:1, :2, :3) [1, 'petal', '0.1.0']
    execute INSERT INTO petal_meta (schema_number, key, value) VALUES (:1, :2, :3) [1, 'rows', '1030']
    execute INSERT INTO petal_meta (schema_number, key, value) VALUES (:1, :2, :3) [1, 'scan_rows', '0']
    execute INSERT INTO petal_meta (schema_number, key, value) VALUES (:1, :2, :3) [1, 'block_size', '8192']
    execute INSERT INTO petal_meta (schema_number, key, value) VALUES (:1, :2, :3) [1, 'filler', 'constant']
    execute INSERT INTO petal_meta (schema_number, key, value) VALUES (:1, :2, :3) [1, 'scatter_seed', '5']
    execute INSERT INTO petal_meta (schema_number, key, value) VALUES (:1, :2, :3) [1, 'unique_index', 'true']
    execute INSERT INTO petal_meta (schema_number, key, value) VALUES (:1, :2, :3) [1, 'load', '7']
    execute INSERT INTO petal_meta (schema_number, key, value) VALUES (:1, :2, :3) [1, 'width', '128']
    execute INSERT INTO petal_meta (schema_number, key, value) VALUES (:1, :2, :3) [1, 'tablespace', 'IOPS']
    commit
    "#);
}

/// Statements, without queries, that a load of 1,500 rows sends.
fn sent_by(url: &str, schemas: &[u32], degree: u32) -> Vec<String> {
    let scripted = ScriptedOracle::default()
        .answers("FROM user_tablespaces", &[&["8192", "AUTO", "NOLOGGING", "NO"]])
        .answers("DBMS_ROWID", &[&["1500", "1500", "1"]]);
    let settings = Settings { db: TargetUrl::parse(url).unwrap(), ..settings() };
    let plan =
        LoadPlan { schemas: schemas.to_vec(), rows: 1500, degree, ..plan_of(schemas[0], false) };
    let loaded = engine(&scripted, &settings).load(&plan, &Silent, &unlimited()).unwrap();
    assert_eq!(loaded.schemas.len(), schemas.len());
    scripted.sent().into_iter().filter(|line| !line.starts_with("query")).collect()
}

fn places(sent: &[String], contains: &str) -> Vec<usize> {
    let lines = sent.iter().enumerate();
    lines.filter(|(_, line)| line.contains(contains)).map(|(at, _)| at).collect()
}

#[test]
fn one_schema_is_loaded_in_ranges_that_lock_no_table() {
    let sent = sent_by("oracle://petal:s3cret@db1/svc?tablespace=fast", &[1], 4);
    // 1,499 rows behind the first one, by four sessions.
    let rows = |count: &str| places(&sent, &format!("{count} rows INSERT INTO petal1_cf1")).len();
    assert_eq!((rows("375"), rows("374")), (3, 1), "{sent:#?}");
    assert_eq!(places(&sent, "APPEND_VALUES"), [0usize; 0], "direct path locks the whole table");
    let prepared = places(&sent, "petal1_cf1 MINIMIZE")[0];
    let index = places(&sent, "CREATE INDEX petal1")[0];
    let ranges = places(&sent, "rows INSERT");
    assert!(ranges.iter().all(|at| (prepared..index).contains(at)), "{sent:#?}");
    // As many schemas as connections: each by one session, past the cache.
    let sent = sent_by("oracle://petal:s3cret@db1/svc?tablespace=fast", &[1, 2], 2);
    assert_eq!(places(&sent, "500 rows INSERT /*+ APPEND_VALUES */").len(), 4);
}

#[test]
fn further_schemas_are_copies_where_that_is_asked() {
    let sent = sent_by(
        "oracle://petal:s3cret@db1/svc?tablespace=fast&further_schemas=copy",
        &[3, 4, 5],
        2,
    );
    assert_eq!(places(&sent, "rows INSERT INTO petal3_cf1").len(), 4, "by both sessions");
    assert_eq!(places(&sent, "rows INSERT INTO petal4").len(), 0);
    let first = Permutation::new(1500, 1).apply(0) + 1;
    for schema in [4, 5] {
        let own = format!("INSERT INTO petal{schema}_cf1 VALUES");
        assert_eq!(places(&sent, &own).len(), 1, "the first row sets how many a block may take");
        let copy = format!(
            "INSERT /*+ APPEND */ INTO petal{schema}_cf1 SELECT /*+ FULL(t) NO_PARALLEL(t) */ * \
             FROM petal3_cf1 t WHERE custid <> :1 [{first}]"
        );
        let copied = places(&sent, &copy)[0];
        assert!(
            places(&sent, &own)[0] < copied
                && sent[copied + 1..].iter().any(|line| line == "commit ")
        );
        assert!(places(&sent, "CREATE INDEX petal3")[0] < copied, "of a schema that is loaded");
        assert!(copied < places(&sent, &format!("CREATE INDEX petal{schema}"))[0]);
    }
}

#[test]
fn a_statement_under_way_is_cancelled_when_another_loader_fails() {
    let scripted = ScriptedOracle::default()
        .answers("FROM user_tablespaces", &[&["8192", "AUTO", "NOLOGGING", "NO"]])
        .answers("'INSTANCE'", &[&["2"]])
        .hangs_until("COMMENT ON TABLE petal2", |sent| sent.count_sent("CREATE INDEX petal1") > 0)
        .fails("petal2_cf1 MINIMIZE", 1031, "insufficient privileges")
        .hangs_until("CREATE INDEX petal1", |sent| sent.count_sent("CANCEL SQL") > 0);
    let db = TargetUrl::parse("oracle://petal:s3cret@db1/svc?tablespace=fast").unwrap();
    let plan = LoadPlan { schemas: vec![1, 2], degree: 2, ..plan_of(1, false) };
    let engine = engine(&scripted, &Settings { db, ..settings() });
    let error = engine.load(&plan, &Silent, &unlimited()).unwrap_err();
    assert!(error.to_string().contains("ORA-01031"), "{error}");
    assert!(!places(&scripted.sent(), "ALTER SYSTEM CANCEL SQL '7, 70, @2'").is_empty());
}

#[test]
fn a_load_that_is_not_one_row_per_block_is_no_load() {
    let scripted = ScriptedOracle::default()
        .answers("FROM user_users", &[&["IOPS"]])
        .answers("FROM user_tablespaces", &[&["8192", "AUTO", "NOLOGGING", "NO"]])
        .answers("DBMS_ROWID", &[&["1024", "512", "2"]]);
    let error =
        engine(&scripted, &settings()).load(&plan_of(1, false), &Silent, &unlimited()).unwrap_err();
    assert!(error.to_string().contains("1024 rows in 512 blocks, up to 2 in one"), "{error}");
    assert!(!scripted.sent().iter().any(|line| line.contains("'format'")));
}

#[test]
fn a_load_keeps_to_its_tablespace_and_sorts_no_blocks() {
    let scripted = ScriptedOracle::default()
        .answers("FROM user_tablespaces", &[&["8192", "AUTO", "NOLOGGING", "NO"]])
        .answers("DBMS_ROWID", &[&["1024", "1024", "1"]]);
    let db = TargetUrl::parse("oracle://petal:s3cret@db1/svc?tablespace=fast").unwrap();
    let settings = Settings { db, ..settings() };
    engine(&scripted, &settings).load(&plan_of(1, false), &Silent, &unlimited()).unwrap();
    let sent = scripted.sent();
    let with = |words: &str| sent.iter().find(|line| line.contains(words)).unwrap();
    // A quota on that tablespace alone is enough: nothing is in the user's default one.
    for made in ["CREATE TABLE petal_meta", "CREATE TABLE petal1_cf1", "CREATE INDEX petal1"] {
        assert!(with(made).ends_with("TABLESPACE FAST"), "{}", with(made));
    }
    assert!(with("petal_meta_pk").contains("USING INDEX TABLESPACE FAST"));
    let proof = with("DBMS_ROWID");
    assert!(proof.contains("MAX(slot) + 1") && !proof.contains("GROUP BY"), "{proof}");
    let statistics = with("GATHER_TABLE_STATS");
    for words in ["SIZE 1 custid'", "block_sample => TRUE", "cascade => FALSE"] {
        assert!(statistics.contains(words), "{statistics}");
    }
}

#[test]
fn what_is_in_the_way_stays() {
    let refusal = |scripted: &ScriptedOracle, replace| {
        let engine = engine(scripted, &settings());
        engine.load(&plan_of(1, replace), &Silent, &unlimited()).unwrap_err().to_string()
    };
    insta::assert_snapshot!(refusal(&loaded(), false), @"db1:1521/svc: schema 1 is loaded already; drop the data first (petal drop) or load over it (petal setup --replace)");
    let foreign = loaded().answers("FROM user_tab_comments", &[&["PETAL_META"]]);
    insta::assert_snapshot!(refusal(&foreign, true), @"db1:1521/svc: a table petal1_cf1 without petal's mark is in the way, and petal leaves it alone; rename it or load as another user");
    assert!(!foreign.sent().iter().any(|line| line.contains("DROP")));
}

#[test]
fn data_that_this_petal_cannot_read_stay_unless_they_are_to_be_replaced() {
    let later = || loaded().answers("FROM petal_meta", &[&["1", "format", "2"]]);
    let load = |scripted: &ScriptedOracle, replace| {
        engine(scripted, &settings()).load(&plan_of(1, replace), &Silent, &unlimited())
    };
    let kept = later();
    assert!(matches!(load(&kept, false), Err(EngineError::Data(_))));
    let writes =
        |line: &String| ["DROP", "DELETE", "INSERT"].iter().any(|verb| line.contains(verb));
    assert!(!kept.sent().iter().any(writes));
    let replaced = later();
    let _ = load(&replaced, true);
    assert!(replaced.sent().iter().any(|line| line.contains("DROP TABLE petal1_cf1")));
}

#[test]
fn a_load_ends_in_our_words_with_place_and_code() {
    let base = || {
        ScriptedOracle::default()
            .answers("FROM user_users", &[&["IOPS"]])
            .answers("FROM user_tablespaces", &[&["8192", "AUTO", "NOLOGGING", "NO"]])
    };
    let shown = |scripted: ScriptedOracle| {
        let engine = engine(&scripted, &settings());
        let error = engine.load(&plan_of(1, false), &Silent, &unlimited()).unwrap_err();
        assert!(matches!(error, EngineError::Environment(_)), "{error:?}");
        error.to_string()
    };
    let full = "unable to extend table PETAL.PETAL1_CF1 by 1024 in tablespace IOPS";
    insta::assert_snapshot!(shown(base().fails("APPEND_VALUES", 1653, full)), @"db1:1521/svc: writing rows of petal1_cf1: ORA-01653: unable to extend table PETAL.PETAL1_CF1 by 1024 in tablespace IOPS; make room: add a data file to the tablespace or let it extend");
    let quota = "no privileges on tablespace 'IOPS'";
    insta::assert_snapshot!(shown(base().fails("INSERT INTO petal1", 1950, quota)), @"db1:1521/svc: writing rows of petal1_cf1: ORA-01950: no privileges on tablespace 'IOPS'; ALTER USER ... QUOTA UNLIMITED ON the tablespace");
    let temp = "unable to extend temp segment by 128 in tablespace TEMP";
    insta::assert_snapshot!(shown(base().fails("CREATE INDEX", 1652, temp)), @"db1:1521/svc: indexing petal1_cf1: ORA-01652: unable to extend temp segment by 128 in tablespace TEMP; the tablespace that the message names is full: a temporary one, where the index's keys are sorted, or the data's own, where rows and index are written; add a file to it");
    insta::assert_snapshot!(shown(base().answers("FROM user_tablespaces", &[])), @"db1:1521/svc: the user has no tablespace IOPS: it does not exist, or ALTER USER ... QUOTA UNLIMITED ON IOPS is missing");
}

#[test]
fn a_tablespace_of_another_block_size_is_reported() {
    let scripted =
        loaded().answers("FROM user_tablespaces", &[&["16384", "AUTO", "LOGGING", "NO"]]);
    let engine = engine(&scripted, &settings());
    assert_eq!(engine.block_size(None).unwrap(), 16_384);
    insta::assert_snapshot!(engine.block_size(Some(8192)).unwrap_err(), @"BLOCK_SZ=8192: the blocks of tablespace IOPS have 16384 bytes; name a tablespace of that block size (petal setup TABLESPACE N), or leave BLOCK_SZ out");
}

#[test]
fn data_in_use_are_not_dropped_nor_loaded_over() {
    let busy = || {
        let meta: [&[&str]; 3] = [&["PETAL_META"], &["PETAL1_CF1"], &["PETAL1_CF2"]];
        loaded().answers("FROM user_tab_comments", &meta).fails(
            "EXCLUSIVE MODE NOWAIT",
            54,
            "resource busy and acquire with NOWAIT specified",
        )
    };
    let dropping = busy();
    let error = engine(&dropping, &settings()).drop_data().unwrap_err();
    assert!(matches!(error, EngineError::Environment(_)), "{error:?}");
    insta::assert_snapshot!(error, @"db1:1521/svc: another petal uses petal's tables (ORA-00054: resource busy and acquire with NOWAIT specified); wait until it is done, or stop it");
    let loading = busy();
    let loaded = engine(&loading, &settings()).load(&plan_of(1, true), &Silent, &unlimited());
    assert!(loaded.unwrap_err().to_string().contains("another petal"));
    for scripted in [dropping, loading] {
        assert!(!scripted.sent().iter().any(|line| line.contains("DROP")));
    }
    let running = super::loaded();
    let held = engine(&running, &settings()).begin_use(1).unwrap();
    assert!(running.sent().iter().any(|line| line.contains("ROW SHARE MODE")));
    drop(held);
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
fn tables_and_indexes_go_into_the_buffer_pool_that_is_asked_for() {
    let mut settings = settings();
    let url = "oracle://petal:s3cret@db1/svc?buffer_pool=keep&tablespace=fast";
    settings.db = TargetUrl::parse(url).unwrap();
    let scripted = loaded();
    let _ = engine(&scripted, &settings).load(&plan_of(9, false), &Silent, &unlimited());
    let sent = scripted.sent();
    let made = |begin: &str| sent.iter().find(|line| line.starts_with(begin)).unwrap().clone();
    assert!(made("execute CREATE TABLE petal9_cf1").ends_with("FAST STORAGE (BUFFER_POOL KEEP)"));
    assert!(made("execute CREATE TABLE petal9_cf2").ends_with("FAST STORAGE (BUFFER_POOL KEEP)"));
    assert!(made("execute CREATE INDEX petal9").ends_with("FAST STORAGE (BUFFER_POOL KEEP)"));
}

/// Blocks that a load leaves without their commits would be written by the first run that reads.
#[test]
fn scans_after_a_load_finish_its_blocks_in_the_buffer_cache() {
    let loaded_with = |scripted: ScriptedOracle| {
        let scripted = scripted
            .answers("FROM user_users", &[&["IOPS"]])
            .answers("FROM user_tablespaces", &[&["8192", "AUTO", "NOLOGGING", "NO"]])
            .answers("DBMS_ROWID", &[&["1024", "1024", "1"]]);
        let plan = LoadPlan { scan_rows: 48, ..plan_of(1, false) };
        engine(&scripted, &settings()).load(&plan, &Silent, &unlimited()).unwrap();
        scripted.sent()
    };
    let sent = loaded_with(ScriptedOracle::default());
    let at = |what: &str| sent.iter().position(|sql| sql.contains(what)).unwrap_or(usize::MAX);
    let buffered = at("\"_serial_direct_read\" = NEVER");
    let (scan, proof) = (at("COUNT(c2) FROM petal1_cf2"), at("DBMS_ROWID"));
    assert!(buffered < scan && scan < proof && proof < usize::MAX, "{buffered} {scan} {proof}");
    // A release without the parameter loads all the same.
    let without = ScriptedOracle::default().fails("_serial_direct_read", 2248, "invalid option");
    assert!(loaded_with(without).iter().any(|sql| sql.contains("DBMS_ROWID")));
}
