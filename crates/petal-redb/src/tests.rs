//! Tests on files in temporary folders.

use super::*;
use petal_engine::{Batch, CUT, Outcomes, Silent};
use petal_settings::url::TargetUrl;
use petal_workload::op::{Kind, Operation};
use petal_workload::row::Filler;
use petal_workload::seat::Role;

fn engine(folder: &tempfile::TempDir) -> Redb {
    let db = TargetUrl::parse(&format!("redb:{}", folder.path().join("data").display())).unwrap();
    Redb::open(&Settings { db, update_pct: 100, ..Settings::default() }).unwrap()
}

fn unlimited() -> Stop {
    Stop::unlimited(Arc::default())
}

fn load(engine: &Redb, replace: bool) -> Result<LoadSummary> {
    let plan = LoadPlan {
        id: 7,
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

fn update(rows: u32) -> Operation {
    let kind = Kind::Update;
    Operation { kind, schema: 1, first: 1, rows, stamp: 9, due: None, hot: [false; 2] }
}

#[test]
fn a_session_that_waits_for_the_writer_is_cut_and_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(&folder);
    load(&engine, false).unwrap();
    let mut session = engine.connect(seat(1)).unwrap();
    let database = engine.shared.database(1).unwrap();
    let canceller = session.canceller();
    let writer = database.writer(|| false).unwrap();
    let (stop, mut done) = (unlimited(), Outcomes::default());
    std::thread::scope(|scope| {
        let executing = scope.spawn(|| session.execute(Batch::new(&[update(4)], &stop, &mut done)));
        while !executing.is_finished() {
            canceller.cancel();
            std::thread::yield_now();
        }
    });
    drop(writer);
    assert_eq!(done.ended[0].error.as_deref(), Some(CUT));
    let counters = &engine.read_counters(true).unwrap()[0];
    assert_eq!(
        (counters.io.commits, counters.wait("writer lock").unwrap().waits),
        (Some(0), Some(1))
    );
    let mut found = Vec::new();
    engine.row_reader(1).unwrap().read(1, 300, &mut found).unwrap();
    assert_eq!(found.len(), 300);
    assert!(found.iter().all(|row| row.stamps == found[0].stamps || row.stamps.is_ok()));
}

#[test]
fn data_that_a_session_uses_are_neither_dropped_nor_replaced_nor_opened_twice() {
    let folder = tempfile::tempdir().unwrap();
    let first = engine(&folder);
    load(&first, false).unwrap();
    let session = first.connect(seat(1)).unwrap();
    for other in [&first, &engine(&folder)] {
        for refused in [other.drop_data().map(drop), load(other, true).map(drop)] {
            assert!(refused.unwrap_err().to_string().contains("uses"));
        }
    }
    assert!(engine(&folder).connect(seat(1)).is_err());
    drop(session);
    load(&engine(&folder), true).unwrap();
    assert_eq!(first.drop_data().unwrap().len(), 2);
}

#[test]
fn a_commit_is_synced_and_its_work_is_counted() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(&folder);
    load(&engine, false).unwrap();
    let used = engine.begin_use(1).unwrap();
    let mut session = engine.connect(seat(1)).unwrap();
    let before = engine.read_counters(true).unwrap()[0].io;
    let mut done = Outcomes::default();
    session.execute(Batch::new(&[update(1); 20], &unlimited(), &mut done)).unwrap();
    assert!(done.ended.iter().all(|outcome| outcome.rows == 1 && outcome.error.is_none()));
    let work = engine.read_counters(true).unwrap()[0].io.since(&before);
    // The file grows once, which is a sync, too.
    assert!(work.commits == Some(20) && work.log_syncs >= Some(20), "{work:?}");
    assert!(work.physical_write_blocks >= Some(20), "{work:?}");
    drop((session, used));
    assert!(engine.shared.folder.open_databases().is_empty());
}
