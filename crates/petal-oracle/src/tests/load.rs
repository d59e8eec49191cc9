//! Tests of loading and dropping.

use super::*;
use petal_workload::scatter::Permutation;

#[test]
fn a_load_sends_this() {
    let scripted = ScriptedOracle::default()
        .answers("FROM sys.user_users", &[&["IOPS"]])
        .answers("FROM sys.user_tablespaces", &[&["8192", "AUTO", "NOLOGGING", "NO"]])
        .answers("DBMS_ROWID", &[&["1030", "1030", "1"]])
        .answers("FROM sys.user_segments", &[&["PETAL1_CF1", "9000000"]]);
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
    assert_eq!(summary.schemas[0].schema.bytes, Some(9_000_000));
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
    execute BEGIN SYS.DBMS_STATS.GATHER_TABLE_STATS( ownname => USER, tabname => UPPER('petal1_cf1'), method_opt => 'FOR C
    execute BEGIN SYS.DBMS_STATS.GATHER_TABLE_STATS( ownname => USER, tabname => UPPER('petal1_cf2'), method_opt => 'FOR C
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

/// Returns the statements, without queries, that a load of 1,500 rows sends.
fn sent_by(url: &str, schemas: &[u32], degree: u32) -> Vec<String> {
    let scripted = ScriptedOracle::default()
        .answers("FROM sys.user_tablespaces", &[&["8192", "AUTO", "NOLOGGING", "NO"]])
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
    // 1,499 rows after the first one, by four sessions.
    let rows = |count: &str| places(&sent, &format!("{count} rows INSERT INTO petal1_cf1")).len();
    assert_eq!((rows("375"), rows("374")), (3, 1), "{sent:#?}");
    assert_eq!(places(&sent, "APPEND_VALUES"), [0usize; 0], "direct path locks the whole table");
    let prepared = places(&sent, "petal1_cf1 MINIMIZE")[0];
    let index = places(&sent, "CREATE INDEX petal1")[0];
    let ranges = places(&sent, "rows INSERT");
    assert!(ranges.iter().all(|at| (prepared..index).contains(at)), "{sent:#?}");
    // As many schemas as connections: one session loads each, past the cache.
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
        .answers("FROM sys.user_tablespaces", &[&["8192", "AUTO", "NOLOGGING", "NO"]])
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
        .answers("FROM sys.user_users", &[&["IOPS"]])
        .answers("FROM sys.user_tablespaces", &[&["8192", "AUTO", "NOLOGGING", "NO"]])
        .answers("DBMS_ROWID", &[&["1024", "512", "2"]]);
    let error =
        engine(&scripted, &settings()).load(&plan_of(1, false), &Silent, &unlimited()).unwrap_err();
    assert!(error.to_string().contains("1,024 rows in 512 blocks, up to 2 in one"), "{error}");
    assert!(!scripted.sent().iter().any(|line| line.contains("'format'")));
}

#[test]
fn a_tablespace_that_keeps_two_rows_in_a_block_ends_the_load_at_its_first_rows() {
    for (degree, insert) in [(1, "APPEND_VALUES"), (4, "rows INSERT INTO petal1_cf1")] {
        let scripted = ScriptedOracle::default()
            .answers("FROM sys.user_users", &[&["IOPS"]])
            .answers("FROM sys.user_tablespaces", &[&["8192", "AUTO", "NOLOGGING", "NO"]])
            .answers("'db_create_file_dest'", &[&["db_create_file_dest", "+DATA"]])
            .answers("DBMS_ROWID", &[&["501", "251", "2"]]);
        let plan = LoadPlan { rows: 1 << 20, degree, ..plan_of(1, false) };
        let error = engine(&scripted, &settings()).load(&plan, &Silent, &unlimited()).unwrap_err();
        let all = error.to_string();
        assert!(all.contains("petal1_cf1: not one row per block after the first rows"), "{all}");
        assert!(all.contains("CREATE BIGFILE TABLESPACE PETAL_DATA DATAFILE SIZE 9G"), "{all}");
        let sent = scripted.sent();
        // Ranges are written in parallel; all stop once the first check fails.
        assert!(places(&sent, insert).len() < 2000 / degree as usize, "{degree}");
        if degree == 1 {
            assert_eq!(places(&sent, insert).len(), 1);
        }
        assert!(places(&sent, "CREATE INDEX").is_empty());
    }
}

#[test]
fn a_logged_load_makes_tables_and_indexes_that_write_redo() {
    let of = |url: &str| sent_by(url, &[1], 1);
    let logged = of("oracle://petal:s3cret@db1/svc?tablespace=fast&load=logged");
    assert!(places(&logged, "NOLOGGING").is_empty());
    assert_eq!(places(&logged, "custid) LOGGING TABLESPACE FAST").len(), 1);
    assert_eq!(places(&logged, "PCTFREE 99 LOGGING").len(), 2);
    assert!(places(&logged, "ALTER TABLE petal1_cf1 LOGGING").is_empty());
    let usual = of("oracle://petal:s3cret@db1/svc?tablespace=fast");
    assert_eq!(places(&usual, "ALTER TABLE petal1_cf1 LOGGING").len(), 1);
    assert_eq!(places(&usual, "PCTFREE 99 NOLOGGING").len(), 2);
}

/// Returns a database whose tablespace has these bytes: free, in files, and the maximum after
/// extension.
fn with_room(free: &str, bytes: &str, bytes_max: &str) -> ScriptedOracle {
    ScriptedOracle::default()
        .answers("FROM sys.user_users", &[&["IOPS"]])
        .answers(
            "FROM sys.user_tablespaces",
            &[&["8192", "AUTO", "LOGGING", "NO", "YES", "ONLINE", "PERMANENT"]],
        )
        .answers("FROM sys.user_free_space", &[&[free]])
        .answers("FROM sys.dba_data_files", &[&["1", bytes, bytes_max]])
        .answers("UNLIMITED TABLESPACE", &[&["UNLIMITED TABLESPACE"]])
}

#[test]
fn a_load_that_cannot_find_room_is_refused_before_its_first_row() {
    let refusal = |scripted: &ScriptedOracle| {
        let plan = LoadPlan { rows: 1 << 20, ..plan_of(1, false) };
        let loaded = engine(scripted, &settings()).load(&plan, &Silent, &unlimited());
        let error = loaded.map(drop).map_err(|error| error.to_string());
        assert_eq!(error.is_err(), places(&scripted.sent(), "INSERT INTO petal1").is_empty());
        error.unwrap_err()
    };
    // 8 GiB of rows.
    let full = with_room("1073741824", "2147483648", "4294967296");
    insta::assert_snapshot!(refusal(&full), @"db1:1521/svc: tablespace IOPS has room for 3.00 GiB, and the rows of this load take 8.00 GiB; add a file, or make another tablespace and name it (?tablespace=NAME): CREATE BIGFILE TABLESPACE PETAL_DATA DATAFILE '/path/petal_data01.dbf' SIZE 9G AUTOEXTEND ON NEXT 1G MAXSIZE UNLIMITED EXTENT MANAGEMENT LOCAL AUTOALLOCATE SEGMENT SPACE MANAGEMENT AUTO");
    let quota = with_room("17179869184", "2147483648", "2147483648")
        .answers("UNLIMITED TABLESPACE", &[])
        .answers("FROM sys.user_ts_quotas", &[&["1073741824", "5368709120"]]);
    insta::assert_snapshot!(refusal(&quota), @"db1:1521/svc: tablespace IOPS has quota for 4.00 GiB, and the rows of this load take 8.00 GiB; raise the quota, or make another tablespace and name it (?tablespace=NAME): CREATE BIGFILE TABLESPACE PETAL_DATA DATAFILE '/path/petal_data01.dbf' SIZE 9G AUTOEXTEND ON NEXT 1G MAXSIZE UNLIMITED EXTENT MANAGEMENT LOCAL AUTOALLOCATE SEGMENT SPACE MANAGEMENT AUTO");
    let plan = LoadPlan { rows: 1500, ..plan_of(1, false) };
    for there in [
        with_room("17179869184", "2147483648", "2147483648"),
        with_room("0", "0", "17179869184"),
        // The user cannot see how far the files extend.
        with_room("0", "1", "1").fails("FROM sys.dba_data_files", 942, "does not exist"),
    ] {
        let there = there.answers("DBMS_ROWID", &[&["1500", "1500", "1"]]);
        engine(&there, &settings()).load(&plan, &Silent, &unlimited()).unwrap();
    }
}

fn facts_of(scripted: &ScriptedOracle, url: &str) -> String {
    let settings = Settings { db: TargetUrl::parse(url).unwrap(), ..settings() };
    let plan = LoadPlan { rows: 1 << 20, schemas: vec![1, 2], degree: 2, ..plan_of(1, false) };
    let facts = engine(scripted, &settings).check_load(&plan).unwrap();
    let line = |fact: petal_record::target::LoadFact| {
        format!("{:?} {}: {}", fact.verdict, fact.what, fact.value)
    };
    facts.into_iter().map(line).collect::<Vec<_>>().join("\n")
}

#[test]
fn a_tablespace_is_tested_before_a_load() {
    let url = "oracle://petal:s3cret@db1/svc";
    let scripted = with_room("1073741824", "2147483648", "35184372088832")
        .answers("FROM sys.user_users", &[&["IOPS"]])
        .answers("DBMS_ROWID", &[&["501", "501", "1"]])
        .answers("temporary_tablespace FROM", &[&["TEMP"]])
        .answers("FROM sys.dba_temp_files", &[&["1", "20971520", "20971520"]])
        .answers("'undo_tablespace'", &[&["UNDOTBS1"]])
        .answers("log_mode", &[&["ARCHIVELOG", "NO"]])
        .answers("recovery_file_dest", &[&["/fra", "10737418240", "1073741824"]]);
    insta::assert_snapshot!(facts_of(&scripted, url), @r#"
    Good one row per block: 501 rows of a test table in 501 blocks, up to 1 in one (DBMS_ROWID)
    Good tablespace IOPS: blocks of 8192 bytes, BIGFILE, ASSM, ONLINE, PERMANENT
    Good room for the data: 16.0 GiB needed for 2 schemas; 1.00 GiB free, its files extend by 32.0 TiB
    Good quota: unlimited
    Good room for undo: UNDOTBS1: 2.00 GiB, extends to 32.0 TiB
    Note temporary room: TEMP: 20.0 MiB, and it does not extend; indexes sort up to 64.0 MiB
    Good room for archived logs: /fra: 9.00 GiB left; the load writes little redo (NOLOGGING)
    "#);
    let sent = scripted.sent();
    let made = places(&sent, "CREATE TABLE petal_probe")[0];
    let dropped = places(&sent, "DROP TABLE petal_probe")[0];
    assert!(made < places(&sent, "500 rows INSERT /*+ APPEND_VALUES */ INTO petal_probe")[0]);
    assert!(places(&sent, "DBMS_ROWID")[0] < dropped);
    let logged = facts_of(&scripted, &format!("{url}?load=logged"));
    assert!(logged.contains("Bad room for archived logs: /fra: 9"), "{logged}");
}

#[test]
fn invisible_facts_before_a_load_are_unknown_with_their_reason() {
    let hidden = "table or view does not exist";
    let scripted = with_room("1073741824", "1", "1")
        .fails("CREATE TABLE petal_probe", 1031, "insufficient privileges")
        .fails("FROM sys.dba_", 942, hidden)
        .fails("FROM sys.v_$", 942, hidden)
        .fails("log_mode", 942, hidden);
    insta::assert_snapshot!(facts_of(&scripted, "oracle://petal:s3cret@db1/svc"), @"
    Unknown one row per block: - (db1:1521/svc: making petal_probe: ORA-01031: insufficient privileges; grant petal's privileges: docs/engines/oracle-grants.sql is the script for it)
    Good tablespace IOPS: blocks of 8192 bytes, BIGFILE, ASSM, ONLINE, PERMANENT
    Unknown room for the data: - (16.0 GiB needed for 2 schemas; 1.00 GiB free; growth of files: ORA-00942: table or view does not exist; GRANT SELECT ON sys.dba_data_files, see petal setup --print-grants)
    Good quota: unlimited
    Unknown room for undo: - (ORA-00942: table or view does not exist; GRANT SELECT ON sys.v_$parameter, see petal setup --print-grants)
    Unknown temporary room: - (ORA-00942: table or view does not exist; GRANT SELECT ON sys.dba_temp_files, see petal setup --print-grants)
    Unknown room for archived logs: - (ORA-00942: table or view does not exist; GRANT SELECT ON sys.v_$database, see petal setup --print-grants)
    ");
}

#[test]
fn a_test_table_that_is_not_petals_stays() {
    let scripted = with_room("1073741824", "1", "1")
        .answers("FROM sys.user_tables", &[&["PETAL_PROBE"]])
        .answers("FROM sys.user_tab_comments", &[]);
    let facts = facts_of(&scripted, "oracle://petal:s3cret@db1/svc");
    assert!(facts.starts_with("Unknown one row per block: - (a table petal_probe"), "{facts}");
    assert!(places(&scripted.sent(), "DROP").is_empty());
    let own = scripted.answers("FROM sys.user_tab_comments", &[&["PETAL_PROBE"]]);
    facts_of(&own, "oracle://petal:s3cret@db1/svc");
    // One of an interrupted check, and one of this check.
    assert_eq!(places(&own.sent(), "DROP TABLE petal_probe PURGE").len(), 2);
    engine(&own, &settings()).drop_data().unwrap();
    assert_eq!(places(&own.sent(), "DROP TABLE petal_probe PURGE").len(), 1);
}

#[test]
fn a_load_keeps_to_its_tablespace_and_sorts_no_blocks() {
    let scripted = ScriptedOracle::default()
        .answers("FROM sys.user_tablespaces", &[&["8192", "AUTO", "NOLOGGING", "NO"]])
        .answers("DBMS_ROWID", &[&["1024", "1024", "1"]]);
    let db = TargetUrl::parse("oracle://petal:s3cret@db1/svc?tablespace=fast").unwrap();
    let settings = Settings { db, ..settings() };
    engine(&scripted, &settings).load(&plan_of(1, false), &Silent, &unlimited()).unwrap();
    let sent = scripted.sent();
    let with = |words: &str| sent.iter().find(|line| line.contains(words)).unwrap();
    // A quota on that tablespace alone is enough: nothing uses the user's default one.
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
fn objects_in_the_way_of_a_load_stay() {
    let refusal = |scripted: &ScriptedOracle, replace| {
        let engine = engine(scripted, &settings());
        engine.load(&plan_of(1, replace), &Silent, &unlimited()).unwrap_err().to_string()
    };
    insta::assert_snapshot!(refusal(&loaded(), false), @"db1:1521/svc: schema 1 is loaded already; drop the data first (petal drop) or load over it (petal setup --replace)");
    let foreign = loaded().answers("FROM sys.user_tab_comments", &[&["PETAL_META"]]);
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
            .answers("FROM sys.user_users", &[&["IOPS"]])
            .answers("FROM sys.user_tablespaces", &[&["8192", "AUTO", "NOLOGGING", "NO"]])
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
    insta::assert_snapshot!(shown(base().answers("FROM sys.user_tablespaces", &[])), @"db1:1521/svc: the user has no tablespace IOPS: it does not exist, or ALTER USER ... QUOTA UNLIMITED ON IOPS is missing; this makes one that serves: CREATE BIGFILE TABLESPACE IOPS DATAFILE '/path/iops01.dbf' SIZE 1G AUTOEXTEND ON NEXT 1G MAXSIZE UNLIMITED EXTENT MANAGEMENT LOCAL AUTOALLOCATE SEGMENT SPACE MANAGEMENT AUTO");
}

#[test]
fn a_tablespace_of_another_block_size_is_reported() {
    let scripted =
        loaded().answers("FROM sys.user_tablespaces", &[&["16384", "AUTO", "LOGGING", "NO"]]);
    let engine = engine(&scripted, &settings());
    assert_eq!(engine.block_size(None).unwrap(), 16_384);
    insta::assert_snapshot!(engine.block_size(Some(8192)).unwrap_err(), @"BLOCK_SZ=8192: the blocks of tablespace IOPS have 16384 bytes; name a tablespace of that block size (petal setup TABLESPACE N), or leave BLOCK_SZ out");
}

#[test]
fn data_in_use_are_not_dropped_nor_loaded_over() {
    let busy = || {
        let meta: [&[&str]; 3] = [&["PETAL_META"], &["PETAL1_CF1"], &["PETAL1_CF2"]];
        loaded().answers("FROM sys.user_tab_comments", &meta).fails(
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
    let scripted = loaded().answers("FROM sys.user_tab_comments", &tables);
    let dropped = engine(&scripted, &settings()).drop_data().unwrap();
    assert_eq!(dropped, ["table petal1_cf1 at db1:1521/svc", "table petal_meta at db1:1521/svc"]);
}

#[test]
fn a_load_that_did_not_end_is_no_data_and_goes() {
    let scripted = loaded()
        .answers("FROM petal_meta", &[&["1", "loading", "TRUE"]])
        .answers("FROM sys.user_tab_comments", &[&["PETAL_META"], &["PETAL1_CF1"]]);
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

/// Uncommitted blocks of a load would be written by the first run that reads.
#[test]
fn scans_after_a_load_finish_its_blocks_in_the_buffer_cache() {
    let loaded_with = |scripted: ScriptedOracle| {
        let scripted = scripted
            .answers("FROM sys.user_users", &[&["IOPS"]])
            .answers("FROM sys.user_tablespaces", &[&["8192", "AUTO", "NOLOGGING", "NO"]])
            .answers("DBMS_ROWID", &[&["1024", "1024", "1"]]);
        let plan = LoadPlan { scan_rows: 48, ..plan_of(1, false) };
        engine(&scripted, &settings()).load(&plan, &Silent, &unlimited()).unwrap();
        scripted.sent()
    };
    let sent = loaded_with(ScriptedOracle::default());
    let at = |what: &str| sent.iter().position(|sql| sql.contains(what)).unwrap_or(usize::MAX);
    let buffered = at("\"_serial_direct_read\" = NEVER");
    let scan = at("COUNT(c2) FROM petal1_cf2");
    // The first proof is of the first rows.
    let proof = sent.iter().rposition(|sql| sql.contains("DBMS_ROWID")).unwrap();
    assert!(buffered < scan && scan < proof && proof < usize::MAX, "{buffered} {scan} {proof}");
    // A release without the parameter also loads.
    let without = ScriptedOracle::default().fails("_serial_direct_read", 2248, "invalid option");
    assert!(loaded_with(without).iter().any(|sql| sql.contains("DBMS_ROWID")));
}
