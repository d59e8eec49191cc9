//! Tests on databases in temporary folders; skipped without RocksDB's library.

use super::*;
use petal_engine::{Batch, Outcomes, Silent};
use petal_model::settings::url::TargetUrl;
use petal_model::workload::op::{Kind, Operation};
use petal_model::workload::row::Filler;
use petal_model::workload::seat::Role;

fn engine(folder: &tempfile::TempDir) -> Option<EmbeddedRocksdb> {
    if library::version().is_err() {
        assert_ne!(std::env::var("PETAL_TEST_REQUIRE").as_deref(), Ok("all"));
        return None;
    }
    let db = format!("rocksdb:{}", folder.path().join("data").display());
    let db = TargetUrl::parse(&db).unwrap();
    Some(EmbeddedRocksdb::open(&Settings { db, update_pct: 100, ..Settings::default() }).unwrap())
}

fn unlimited() -> Stop {
    Stop::unlimited(Arc::default())
}

fn load(engine: &EmbeddedRocksdb, id: u64, replace: bool) -> Result<LoadSummary> {
    let plan = LoadPlan {
        id,
        schemas: vec![1],
        rows: 300,
        scan_rows: 3,
        block_size: 8192,
        degree: 1,
        unique_index: false,
        filler: Filler::Constant,
        seed: 5,
        replace,
    };
    engine.load(&plan, &Silent, &unlimited())
}

fn seat(session: u32) -> Seat {
    Seat { session, schema: 1, endpoint: 0, role: Role::Mixed }
}

fn operation(kind: Kind, rows: u32) -> Operation {
    Operation { kind, schema: 1, first: 1, rows, stamp: 9, due: None, hot: [false; 2] }
}

#[test]
fn a_replaced_load_leaves_one_folder_and_data_in_use_stay() {
    let folder = tempfile::tempdir().unwrap();
    let Some(first) = engine(&folder) else { return };
    load(&first, 7, false).unwrap();
    let used = first.begin_use(1).unwrap();
    assert!(first.drop_data().unwrap_err().to_string().contains("uses"));
    assert!(load(&first, 8, true).unwrap_err().to_string().contains("uses"));
    assert!(engine(&folder).unwrap().connect(seat(1)).is_err());
    drop(used);
    load(&first, 8, true).unwrap();
    let names = std::fs::read_dir(folder.path().join("data")).unwrap();
    let mut names: Vec<_> = names.map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["petal1.rocksdb", "petal1.rocksdb-8"]);
    std::fs::write(folder.path().join("data/petal1.rocksdb-8/notes"), "somebody's").unwrap();
    assert!(first.drop_data().unwrap_err().to_string().contains("notes"));
    std::fs::remove_file(folder.path().join("data/petal1.rocksdb-8/notes")).unwrap();
    assert_eq!(first.drop_data().unwrap().len(), 2);
}

/// RocksDB writes a file again in the background as long as its keys have sequence numbers.
#[test]
fn a_load_leaves_no_file_to_be_written_again() {
    let folder = tempfile::tempdir().unwrap();
    let Some(engine) = engine(&folder) else { return };
    load(&engine, 7, false).unwrap();
    let open = engine.shared.database(1).unwrap();
    for table in [library::ColumnFamily::Main, library::ColumnFamily::Scan] {
        let files = open.database().unwrap().property(table, c"rocksdb.sstables").unwrap();
        let numbers: Vec<_> = files.split(" seq:").skip(1).collect();
        assert!(!numbers.is_empty() && numbers.iter().all(|n| n.starts_with("0,")), "{files}");
    }
}

#[test]
fn each_row_is_one_read_and_a_commit_is_one_sync() {
    let folder = tempfile::tempdir().unwrap();
    let Some(engine) = engine(&folder) else { return };
    load(&engine, 7, false).unwrap();
    let mut session = engine.connect(seat(1)).unwrap();
    let mut work = |batch: &[Operation]| {
        let before = engine.read_counters(true).unwrap()[0].io;
        let mut done = Outcomes::default();
        session.execute(Batch::new(batch, &unlimited(), &mut done)).unwrap();
        engine.read_counters(true).unwrap()[0].io.since(&before)
    };
    // The cache holds 128 of the 300 blocks.
    let reads = work(&[operation(Kind::Select, 300); 2]);
    assert!((450..=600).contains(&reads.physical_read_blocks.unwrap()), "{reads:?}");
    assert_eq!(reads.logical_reads, Some(600));
    let updates = work(&[operation(Kind::Update, 1); 20]);
    assert_eq!((updates.commits, updates.log_syncs), (Some(20), Some(20)));
    assert!(updates.redo_bytes >= Some(20 * 7000), "{updates:?}");
}
