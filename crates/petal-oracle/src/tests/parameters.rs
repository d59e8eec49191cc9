//! Tests of statements that a parameter changes: a readable line for each statement, shortened and
//! without hints.

use super::*;
use petal_engine::Batch;
use petal_settings::{HotSpot, ThinkTime};
use petal_workload::picker::Picker;
use petal_workload::plan::Workload;

const SHOWN: usize = 110;

fn readable(line: &str) -> String {
    let mut line = line.to_owned();
    while let Some((before, (_, after))) =
        line.split_once("/*+ ").map(|(before, rest)| (before, rest.split_once("*/ ").unwrap()))
        && !line.contains("APPEND")
    {
        line = format!("{before}{after}");
    }
    line.chars().take(SHOWN).collect()
}

/// Returns the first operations of a session with home schema 2 of 3, sent one by one.
fn chosen(settings: Settings) -> String {
    let scripted = loaded().answers("COUNT(c2)", &[&["64"]]);
    let settings = Settings { loop_side: Some(LoopSide::Client), ..settings };
    let engine = engine(&scripted, &settings);
    let workload = Workload::new(&settings, 2048, 8192, 3, 42, 1);
    let mut picker = Picker::new(&workload, seat(1, 2));
    let mut session = engine.connect(seat(1, 2)).unwrap();
    scripted.sent();
    let mut shown = Vec::new();
    for _ in 0..6 {
        let step = picker.next_step();
        shown.extend(step.think.map(|time| format!("(thinks {} ms)", time.as_millis())));
        session
            .execute(Batch::new(&[step.operation], &unlimited(), &mut Outcomes::default()))
            .unwrap();
        shown.extend(scripted.sent().iter().map(|line| readable(line)));
    }
    shown.join("\n")
}

/// Returns the lines that differ from the usual ones, with their numbers from 1.
fn changed(usual: &str, sent: &str) -> String {
    assert_eq!(usual.lines().count(), sent.lines().count());
    let pairs = sent.lines().zip(usual.lines()).zip(1..);
    let others = pairs.filter(|((sent, usual), _)| sent != usual);
    others.map(|((sent, _), at)| format!("{at}: {sent}")).collect::<Vec<_>>().join("\n")
}

fn selects() -> Settings {
    Settings { update_pct: 0, scan_pct: 0, work_unit: 64, update_work_unit: 64, ..settings() }
}

#[test]
fn work_unit() {
    insta::assert_snapshot!(chosen(selects()), @r#"
    query SELECT COUNT(c2) FROM petal2_cf1 t WHERE custid BETWEEN :1 AND :2 [635, 698]
    query SELECT COUNT(c2) FROM petal2_cf1 t WHERE custid BETWEEN :1 AND :2 [1029, 1092]
    query SELECT COUNT(c2) FROM petal2_cf1 t WHERE custid BETWEEN :1 AND :2 [286, 349]
    query SELECT COUNT(c2) FROM petal2_cf1 t WHERE custid BETWEEN :1 AND :2 [750, 813]
    query SELECT COUNT(c2) FROM petal2_cf1 t WHERE custid BETWEEN :1 AND :2 [1953, 2016]
    query SELECT COUNT(c2) FROM petal2_cf1 t WHERE custid BETWEEN :1 AND :2 [391, 454]
    "#);
    let sixteen = Settings { work_unit: 16, ..selects() };
    insta::assert_snapshot!(chosen(sixteen), @r#"
    query SELECT COUNT(c2) FROM petal2_cf1 t WHERE custid BETWEEN :1 AND :2 [651, 666]
    query SELECT COUNT(c2) FROM petal2_cf1 t WHERE custid BETWEEN :1 AND :2 [1053, 1068]
    query SELECT COUNT(c2) FROM petal2_cf1 t WHERE custid BETWEEN :1 AND :2 [293, 308]
    query SELECT COUNT(c2) FROM petal2_cf1 t WHERE custid BETWEEN :1 AND :2 [768, 783]
    query SELECT COUNT(c2) FROM petal2_cf1 t WHERE custid BETWEEN :1 AND :2 [2001, 2016]
    query SELECT COUNT(c2) FROM petal2_cf1 t WHERE custid BETWEEN :1 AND :2 [401, 416]
    "#);
}

#[test]
fn update_pct_and_update_work_unit() {
    let half = Settings { update_pct: 50, update_work_unit: 8, ..selects() };
    insta::assert_snapshot!(chosen(half), @r#"
    execute UPDATE petal2_cf1 t SET c2 = :1, c3 = :2 WHERE custid BETWEEN :3 AND :4 ['0dclp6igf2q80xxxxxxx', '0dcl
    execute COMMIT WRITE IMMEDIATE WAIT
    execute UPDATE petal2_cf1 t SET c2 = :1, c3 = :2 WHERE custid BETWEEN :3 AND :4 ['0dclp6igf2q83xxxxxxx', '0dcl
    execute COMMIT WRITE IMMEDIATE WAIT
    execute UPDATE petal2_cf1 t SET c2 = :1, c3 = :2 WHERE custid BETWEEN :3 AND :4 ['0dclp6igf2q82xxxxxxx', '0dcl
    execute COMMIT WRITE IMMEDIATE WAIT
    query SELECT COUNT(c2) FROM petal2_cf1 t WHERE custid BETWEEN :1 AND :2 [750, 813]
    query SELECT COUNT(c2) FROM petal2_cf1 t WHERE custid BETWEEN :1 AND :2 [1953, 2016]
    execute UPDATE petal2_cf1 t SET c2 = :1, c3 = :2 WHERE custid BETWEEN :3 AND :4 ['0dclp6igf2q87xxxxxxx', '0dcl
    execute COMMIT WRITE IMMEDIATE WAIT
    "#);
}

#[test]
fn scan_pct() {
    let half = Settings { scan_pct: 50, ..selects() };
    insta::assert_snapshot!(changed(&chosen(selects()), &chosen(half)), @"2: query SELECT COUNT(c2) FROM petal2_cf2 t");
}

#[test]
fn hot_schema_frequency_and_hotspot() {
    let hot = Settings { hot_schema_frequency: 3, ..selects() };
    insta::assert_snapshot!(changed(&chosen(selects()), &chosen(hot)), @r#"
    3: query SELECT COUNT(c2) FROM petal1_cf1 t WHERE custid BETWEEN :1 AND :2 [286, 349]
    6: query SELECT COUNT(c2) FROM petal1_cf1 t WHERE custid BETWEEN :1 AND :2 [391, 454]
    "#);
    let spot = HotSpot { bytes: 100 * 8192, offset_bytes: 1000 * 8192, frequency: 2 };
    let spot = Settings { hotspot: Some(spot), ..selects() };
    insta::assert_snapshot!(changed(&chosen(selects()), &chosen(spot)), @r#"
    2: query SELECT COUNT(c2) FROM petal2_cf1 t WHERE custid BETWEEN :1 AND :2 [1020, 1083]
    4: query SELECT COUNT(c2) FROM petal2_cf1 t WHERE custid BETWEEN :1 AND :2 [1014, 1077]
    6: query SELECT COUNT(c2) FROM petal2_cf1 t WHERE custid BETWEEN :1 AND :2 [1008, 1071]
    "#);
}

#[test]
fn think_tm_sends_nothing_of_its_own() {
    let (min, max) = (Duration::from_millis(5), Duration::from_millis(50));
    let think = ThinkTime { frequency: 2, min, max };
    let thinking = Settings { think_time: Some(think), ..selects() };
    insta::assert_snapshot!(chosen(thinking), @r#"
    query SELECT COUNT(c2) FROM petal2_cf1 t WHERE custid BETWEEN :1 AND :2 [1029, 1092]
    (thinks 21 ms)
    query SELECT COUNT(c2) FROM petal2_cf1 t WHERE custid BETWEEN :1 AND :2 [1953, 2016]
    (thinks 6 ms)
    query SELECT COUNT(c2) FROM petal2_cf1 t WHERE custid BETWEEN :1 AND :2 [1296, 1359]
    (thinks 47 ms)
    query SELECT COUNT(c2) FROM petal2_cf1 t WHERE custid BETWEEN :1 AND :2 [633, 696]
    query SELECT COUNT(c2) FROM petal2_cf1 t WHERE custid BETWEEN :1 AND :2 [1227, 1290]
    query SELECT COUNT(c2) FROM petal2_cf1 t WHERE custid BETWEEN :1 AND :2 [1951, 2014]
    "#);
}

/// Returns the statements in the loop's text, and the values of its call.
fn server_sends(scripted: &ScriptedOracle, settings: &Settings) -> String {
    let engine = engine(scripted, settings);
    let batch = [operation(Kind::Select, 2, 1, 64), operation(Kind::Update, 2, 100, 8)];
    let (_, result) = execute(&engine, seat(1, 2), &batch);
    result.unwrap();
    let sent = scripted.sent();
    let call = sent.iter().find(|line| line.starts_with("call")).unwrap().clone();
    let block = scripted.0.lock().blocks[0].clone();
    let is_statement = |line: &&str| {
        ["SELECT ", "UPDATE ", "COMMIT", "v2 :="].iter().any(|begin| line.starts_with(begin))
    };
    let lines = block.lines().map(str::trim).filter(is_statement).map(readable);
    lines.chain([call]).collect::<Vec<_>>().join("\n")
}

#[test]
fn commit_wait() {
    insta::assert_snapshot!(server_sends(&loaded(), &settings()), @r#"
    v2 := SUBSTRB(fillers, filler_at + 0 * width, width);
    v2 := SUBSTRB(fillers, filler_at, 13) || tail;
    SELECT COUNT(c2) INTO touched FROM petal2_cf1 t WHERE custid BETWEEN low AND high;
    UPDATE petal2_cf1 t SET c2 = v2, c3 = v3 WHERE custid BETWEEN low AND high;
    COMMIT WRITE IMMEDIATE WAIT;
    call the loop ['S0000000000010000000', '00000000000uk', 'xxxxxxxxxxxxxxxxxxxx', 128, 2, 3600000000]
    "#);
    let slobs_way = Settings { commit_wait: false, ..settings() };
    let waiting = server_sends(&loaded(), &settings());
    let plain = waiting.replace("COMMIT WRITE IMMEDIATE WAIT;", "COMMIT;");
    assert_eq!(server_sends(&loaded(), &slobs_way), plain);
}

#[test]
fn redo_stress() {
    let scripted = loaded();
    let heavy = Settings { redo_stress: RedoStress::Heavy, ..settings() };
    let sent = server_sends(&scripted, &heavy);
    let update = sent.lines().find(|line| line.starts_with("UPDATE")).unwrap();
    assert!(
        update.starts_with("UPDATE petal2_cf1 t SET c2 = v2, c3 = v3, c4 = v4, c5 = v5"),
        "{update}"
    );
    let block = &scripted.0.lock().blocks[0];
    assert!(block.contains("c20 = v20 WHERE custid BETWEEN low AND high"), "{block}");
}

#[test]
fn use_slob_schemas() {
    let settings_of_slob = Settings { use_slob_schemas: true, ..settings() };
    let petals = server_sends(&loaded(), &settings());
    let slobs = petals.replace("petal1_", "user1.").replace("petal2_", "user2.");
    assert_eq!(server_sends(&slob::slobs(), &settings_of_slob), slobs);
}

fn load_sends(plan: &LoadPlan, url: &str) -> String {
    let scripted = ScriptedOracle::default()
        .answers("FROM sys.user_users", &[&["IOPS"]])
        .answers("FROM sys.user_tablespaces", &[&["8192", "AUTO", "NOLOGGING", "NO"]])
        .answers("DBMS_ROWID", &[&["1024", "1024", "1"]]);
    let settings = Settings { db: TargetUrl::parse(url).unwrap(), ..settings() };
    engine(&scripted, &settings).load(plan, &Silent, &unlimited()).unwrap();
    let sent = scripted.sent();
    let kept = sent.iter().filter(|line| {
        ["CREATE", "rows INSERT", "INTO petal_meta"].iter().any(|word| line.contains(word))
    });
    let columns = |line: &String| {
        let line = line.replace("(:1, :2, :3, :4, :5, :6, :7, :8, :9, :10, :11, :12, :13, :14, :15, :16, :17, :18, :19, :20)", "(...)");
        let (begin, rest) = line.split_once("c2 VARCHAR2").unwrap_or((line.as_str(), ""));
        let end = rest.rsplit_once("c20 ").map_or("", |(_, end)| end);
        readable(&if rest.is_empty() { line.clone() } else { format!("{begin}... c20 {end}") })
    };
    kept.map(columns).collect::<Vec<_>>().join("\n")
}

#[test]
fn load_parameters() {
    // OBFUSCATE_COLUMNS, UNIQUE_INDEX=FALSE, a scan table, a tablespace by URL.
    let plan = LoadPlan { scan_rows: 3, seed: 9, ..plan_of(1, false) };
    insta::assert_snapshot!(load_sends(&plan, "oracle://petal@db1/svc?tablespace=fast"), @r#"
    execute CREATE TABLE petal_meta ( schema_number NUMBER(6) NOT NULL, key VARCHAR2(30) NOT NULL, value VARCHAR2(
    execute INSERT INTO petal_meta (schema_number, key, value) VALUES (:1, :2, :3) [1, 'loading', 'TRUE']
    execute CREATE TABLE petal1_cf1 (custid NUMBER(12), ... c20 VARCHAR2(128)) PCTFREE 99 NOLOGGING NOCOMPRESS TAB
    execute 500 rows INSERT /*+ APPEND_VALUES */ INTO petal1_cf1 VALUES (...)
    execute 500 rows INSERT /*+ APPEND_VALUES */ INTO petal1_cf1 VALUES (...)
    execute 23 rows INSERT /*+ APPEND_VALUES */ INTO petal1_cf1 VALUES (...)
    execute CREATE TABLE petal1_cf2 (custid NUMBER(12), ... c20 VARCHAR2(128)) PCTFREE 99 NOLOGGING NOCOMPRESS TAB
    execute 2 rows INSERT /*+ APPEND_VALUES */ INTO petal1_cf2 VALUES (...)
    execute CREATE INDEX petal1_cf1_custid ON petal1_cf1 (custid) NOLOGGING TABLESPACE FAST
    execute INSERT INTO petal_meta (schema_number, key, value) VALUES (:1, :2, :3) [1, 'format', '1']
    execute INSERT INTO petal_meta (schema_number, key, value) VALUES (:1, :2, :3) [1, 'petal', '0.1.0']
    execute INSERT INTO petal_meta (schema_number, key, value) VALUES (:1, :2, :3) [1, 'rows', '1024']
    execute INSERT INTO petal_meta (schema_number, key, value) VALUES (:1, :2, :3) [1, 'scan_rows', '3']
    execute INSERT INTO petal_meta (schema_number, key, value) VALUES (:1, :2, :3) [1, 'block_size', '8192']
    execute INSERT INTO petal_meta (schema_number, key, value) VALUES (:1, :2, :3) [1, 'filler', 'random']
    execute INSERT INTO petal_meta (schema_number, key, value) VALUES (:1, :2, :3) [1, 'scatter_seed', '9']
    execute INSERT INTO petal_meta (schema_number, key, value) VALUES (:1, :2, :3) [1, 'unique_index', 'false']
    execute INSERT INTO petal_meta (schema_number, key, value) VALUES (:1, :2, :3) [1, 'load', '7']
    execute INSERT INTO petal_meta (schema_number, key, value) VALUES (:1, :2, :3) [1, 'width', '128']
    execute INSERT INTO petal_meta (schema_number, key, value) VALUES (:1, :2, :3) [1, 'tablespace', 'FAST']
    "#);
    let usual = load_sends(&plan_of(1, false), "oracle://petal@db1/svc");
    let plan = LoadPlan { unique_index: true, filler: Filler::Ratio(2.5), ..plan_of(1, false) };
    let sent = load_sends(&plan, "oracle://petal@db1/svc");
    insta::assert_snapshot!(changed(&usual, &sent), @r#"
    8: execute CREATE UNIQUE INDEX petal1_cf1_custid ON petal1_cf1 (custid) NOLOGGING TABLESPACE IOPS
    14: execute INSERT INTO petal_meta (schema_number, key, value) VALUES (:1, :2, :3) [1, 'filler', 'ratio 2.5']
    16: execute INSERT INTO petal_meta (schema_number, key, value) VALUES (:1, :2, :3) [1, 'unique_index', 'true']
    "#);
}

/// Returns the statements around a run, by sender.
fn around(settings: &Settings) -> String {
    let scripted = loaded()
        .answers("CREATE_SNAPSHOT", &[&["41"]])
        .answers("statspack.snap", &[&["12"]])
        .answers("FROM sys.v_$database", &[&["4711"]])
        .answers("gv_$instance", &[&["1", "orcl1", "node1"]]);
    let engine = engine(&scripted, settings);
    engine.settle(&Silent, &unlimited()).unwrap();
    engine.begin_report().unwrap();
    engine.end_report().unwrap();
    let sent = scripted.sent();
    sent.iter().map(|line| readable(line)).collect::<Vec<_>>().join("\n")
}

#[test]
fn database_statistics_type() {
    let of = |kind| Settings { database_statistics_type: kind, ..settings() };
    insta::assert_snapshot!(around(&of(StatisticsType::Awr)), @r#"
    query SELECT TO_CHAR(COUNT(*)), TO_CHAR(MIN(bytes)), TO_CHAR(MAX(bytes)), TO_CHAR(COUNT(DISTINCT thread#)) FRO
    query SELECT log_mode, force_logging FROM sys.v_$database
    execute ALTER SYSTEM SWITCH LOGFILE
    execute ALTER SYSTEM CHECKPOINT
    call BEGIN :snapshot := TO_CHAR(SYS.DBMS_WORKLOAD_REPOSITORY.CREATE_SNAPSHOT); END;
    call BEGIN :snapshot := TO_CHAR(SYS.DBMS_WORKLOAD_REPOSITORY.CREATE_SNAPSHOT); END;
    query SELECT TO_CHAR(NVL(NULLIF(con_dbid, 0), dbid)) FROM sys.v_$database
    query SELECT TO_CHAR(inst_id), instance_name, host_name FROM sys.gv_$instance ORDER BY inst_id
    query SELECT output FROM TABLE(SYS.DBMS_WORKLOAD_REPOSITORY.AWR_REPORT_TEXT(:1, :2, :3, :4)) [4711, 1, 41, 41]
    query SELECT output FROM TABLE(SYS.DBMS_WORKLOAD_REPOSITORY.AWR_REPORT_HTML(:1, :2, :3, :4)) [4711, 1, 41, 41]
    "#);
    insta::assert_snapshot!(around(&of(StatisticsType::Statspack)), @r#"
    query SELECT TO_CHAR(COUNT(*)), TO_CHAR(MIN(bytes)), TO_CHAR(MAX(bytes)), TO_CHAR(COUNT(DISTINCT thread#)) FRO
    query SELECT log_mode, force_logging FROM sys.v_$database
    execute ALTER SYSTEM SWITCH LOGFILE
    execute ALTER SYSTEM CHECKPOINT
    query SELECT object_name FROM sys.all_procedures WHERE owner = :1 AND object_name = :2 AND authid = 'CURRENT_U
    call BEGIN :snapshot := TO_CHAR(perfstat.statspack.snap(i_snap_level => 7)); END;
    query SELECT object_name FROM sys.all_procedures WHERE owner = :1 AND object_name = :2 AND authid = 'CURRENT_U
    call BEGIN :snapshot := TO_CHAR(perfstat.statspack.snap(i_snap_level => 7)); END;
    query SELECT TO_CHAR(s.snap_id), TO_CHAR(s.dbid), TO_CHAR(s.instance_number), d.db_name, d.instance_name, d.ho
    "#);
}

#[test]
fn services_and_the_administrators_service() {
    let endpoints = Endpoints {
        admin_service: Some("adm".to_owned()),
        service_base: Some("slob".to_owned()),
        service_max: Some(2),
        ..Endpoints::default()
    };
    let settings = Settings { endpoints, ..settings() };
    let options = Options::of(&settings).unwrap();
    let places: Vec<&str> =
        options.endpoints.iter().map(|place| place.connect_string.as_str()).collect();
    assert_eq!(places, ["tcp://db1:1521/slob1", "tcp://db1:1521/slob2"]);
    assert_eq!(options.admin_place.connect_string, "tcp://db1:1521/adm");
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
    session.execute(Batch::new(&batch, &unlimited(), &mut Outcomes::default())).unwrap();
    scripted.sent().join("\n")
}

#[test]
fn a_client_sends_one_statement_for_each_operation() {
    insta::assert_snapshot!(client_sends(true, RedoStress::Lite), @r"
    query SELECT /*+ INDEX(t) NO_BATCH_TABLE_ACCESS_BY_ROWID(t) NO_RESULT_CACHE */ COUNT(c2) FROM petal2_cf1 t WHERE custid BETWEEN :1 AND :2 [1, 64]
    query SELECT /*+ NO_PARALLEL(t) NO_RESULT_CACHE */ COUNT(c2) FROM petal2_cf2 t
    execute UPDATE /*+ INDEX(t) NO_BATCH_TABLE_ACCESS_BY_ROWID(t) */ petal2_cf1 t SET c2 = :1, c3 = :2 WHERE custid BETWEEN :3 AND :4 ['00000000000ukxxxxxxx', '00000000000ukxxxxxxx', 100, 107]
    execute COMMIT WRITE IMMEDIATE WAIT
    ");
    let plain = client_sends(false, RedoStress::Heavy);
    assert!(plain.ends_with("\ncommit ") && plain.contains("c20 = :19"), "{plain}");
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
        scripted.0.lock().endpoints.clear();
        drop(engine.connect(seat).unwrap());
        let asked = scripted.0.lock().endpoints.clone();
        assert_eq!(asked.last(), Some(&((seat.schema as usize - 1) % 2)), "{seat:?}");
    }
}
