//! Tests with SLOB's own schemas.

use super::*;

pub fn slobs() -> ScriptedOracle {
    ScriptedOracle::default()
        .answers(
            "FROM sys.all_tables",
            &[
                &["USER1", "CF1", "10100", "IOPS"],
                // Gathered before the table was filled.
                &["USER1", "CF2", "0", "IOPS"],
                &["USER2", "CF1", "10100", "IOPS"],
                &["USER4", "CF1", "10100", "IOPS"],
            ],
        )
        .answers("FROM sys.all_indexes", &[&["USER1", "I_CF1", "20"], &["USER2", "I_CF1", "20"]])
        .answers("FROM sys.user_tablespaces", &[&["8192", "AUTO", "NOLOGGING", "NO"]])
        .answers("COUNT(custid)", &[&["10000", "1", "10000"]])
        .answers("LENGTH(c2)", &[&["128"]])
        .answers("COUNT(*)) FROM user1.cf2", &[&["130"]])
        .fails("FROM sys.dba_segments", 942, "table or view does not exist")
}

#[test]
fn slobs_schemas_are_used_as_they_are_and_never_dropped() {
    let settings = Settings { use_slob_schemas: true, ..settings() };
    let scripted = slobs();
    let engine = engine(&scripted, &settings);
    let loaded = engine.loaded().unwrap();
    assert_eq!(loaded.iter().map(|schema| schema.number).collect::<Vec<_>>(), [1, 2]);
    assert_eq!((loaded[0].rows, loaded[0].scan_rows, loaded[1].scan_rows), (10_000, 130, 0));
    assert_eq!(loaded[0].bytes, Some(10_100 * 8192));
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
fn rows_unlike_slobs_are_reported() {
    let settings = Settings { use_slob_schemas: true, ..settings() };
    let gaps = slobs().answers("COUNT(custid)", &[&["9000", "1", "10000"]]);
    let error = engine(&gaps, &settings).loaded().unwrap_err();
    assert!(error.to_string().contains("9,000 keys from 1 to 10,000"), "{error}");
    let unindexed = slobs().answers("FROM sys.all_indexes", &[]);
    let error = engine(&unindexed, &settings).loaded().unwrap_err();
    assert!(error.to_string().contains("no index on CUSTID"), "{error}");
    assert!(engine(&ScriptedOracle::default(), &settings).loaded().unwrap().is_empty());
}

/// Returns the record's words on sizes, and the bytes of the first main table, its index, and all
/// data.
fn sizes(scripted: &ScriptedOracle) -> (String, u64, Option<u64>, Option<u64>) {
    let settings = Settings { use_slob_schemas: true, ..settings() };
    let engine = engine(scripted, &settings);
    let first = engine.loaded().unwrap()[0].clone();
    let (_, details) = engine.describe(2, 2).unwrap();
    let shown = details.settings.into_iter().find(|(name, _)| name == "sizes").unwrap().1;
    (shown, first.bytes.unwrap(), first.index_bytes, engine.data_bytes().unwrap())
}

#[test]
fn sizes_are_those_of_segments_where_they_can_be_seen_and_the_record_says_so() {
    let version = |scripted: ScriptedOracle| {
        scripted.answers("FROM sys.product_component_version", &[&["19.0.0.0.0"]])
    };
    let seen = version(slobs()).answers(
        "FROM sys.dba_segments",
        &[
            &["USER1", "CF1", "168000000", "10254"],
            &["USER1", "CF2", "2000000", "122"],
            &["USER1", "I_CF1", "600000", "37"],
            &["USER2", "CF1", "168000000", "10254"],
            &["USER2", "I_CF1", "600000", "37"],
        ],
    );
    let all = Some(2 * (168_000_000 + 600_000));
    assert_eq!(sizes(&seen), ("from DBA_SEGMENTS".to_owned(), 168_000_000, Some(600_000), all));
    // Its block size differs from that in the visible tablespace.
    let settings = Settings { use_slob_schemas: true, ..settings() };
    assert_eq!(engine(&seen, &settings).loaded().unwrap()[0].block_size, 168_000_000 / 10_254);
    let (shown, bytes, index, all) = sizes(&version(slobs()));
    assert!(shown.starts_with("from the dictionary's statistics, which may be old"), "{shown}");
    assert_eq!((bytes, index, all), (10_100 * 8192, Some(20 * 8192), None));
    // Statistics with fewer blocks than rows are not used, nor those of an index without blocks.
    let never = version(slobs())
        .answers(
            "FROM sys.all_tables",
            &[&["USER1", "CF1", "0", "IOPS"], &["USER2", "CF1", "0", "IOPS"]],
        )
        .answers("FROM sys.all_indexes", &[&["USER1", "I_CF1", "0"], &["USER2", "I_CF1", "0"]]);
    let (shown, bytes, index, _) = sizes(&never);
    assert_eq!(index, None);
    assert!(shown.starts_with("from the rows counted"), "{shown}");
    assert_eq!(bytes, 10_000 * 8192);
}

#[test]
fn a_tablespace_without_a_quota_is_no_obstacle() {
    let settings = Settings { use_slob_schemas: true, ..settings() };
    let foreign = slobs()
        .answers("FROM sys.user_tablespaces", &[])
        .answers("name = 'db_block_size'", &[&["16384"]]);
    assert_eq!(engine(&foreign, &settings).loaded().unwrap()[0].block_size, 16_384);
    let blind = slobs().answers("FROM sys.user_tablespaces", &[]);
    let error = engine(&blind, &settings).loaded().unwrap_err();
    assert!(error.to_string().contains("grant SELECT on DBA_SEGMENTS"), "{error}");
}

#[test]
fn keys_are_counted_once_for_a_run() {
    let settings = Settings { use_slob_schemas: true, ..settings() };
    let scripted = slobs().answers("FROM sys.product_component_version", &[&["19.0.0.0.0"]]);
    let engine = engine(&scripted, &settings);
    engine.loaded().unwrap();
    engine.describe(2, 2).unwrap();
    engine.data_bytes().unwrap();
    drop(engine.connect(seat(1, 2)).unwrap());
    let counts = scripted.sent().iter().filter(|line| line.contains("COUNT(custid)")).count();
    assert_eq!(counts, 2, "one for each schema");
}
