//! Tests on files in temporary folders.

use super::*;
use petal_engine::{Batch, CUT, Outcomes, Silent};
use petal_settings::url::TargetUrl;
use petal_workload::op::{Kind, Operation};
use petal_workload::row::Filler;
use petal_workload::seat::Role;

fn engine(folder: &tempfile::TempDir) -> Lmdb {
    let db = TargetUrl::parse(&format!("lmdb:{}", folder.path().join("data").display())).unwrap();
    Lmdb::open(&Settings { db, update_pct: 100, ..Settings::default() }).unwrap()
}

fn unlimited() -> Stop {
    Stop::unlimited(Arc::default())
}

fn load(engine: &Lmdb, replace: bool) -> Result<LoadSummary> {
    let plan = LoadPlan {
        id: 7,
        schemas: vec![1],
        rows: 300,
        scan_rows: 3,
        block_size: 4096,
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
    let writer = database.writer(|| false, |_| {}).unwrap();
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
    assert!(found.iter().all(|row| row.stamps.is_ok()));
}

#[test]
fn a_run_s_data_are_neither_dropped_nor_replaced_nor_opened_by_another_engine() {
    let folder = tempfile::tempdir().unwrap();
    let first = engine(&folder);
    load(&first, false).unwrap();
    let used = first.begin_use(1).unwrap();
    for other in [&first, &engine(&folder)] {
        for refused in [other.drop_data().map(drop), load(other, true).map(drop)] {
            assert!(refused.unwrap_err().to_string().contains("uses"));
        }
    }
    assert!(engine(&folder).connect(seat(1)).is_err());
    drop(used);
    load(&engine(&folder), true).unwrap();
    assert_eq!(first.drop_data().unwrap().len(), 2);
}

#[test]
fn a_commit_is_counted_and_its_writes_are_the_kernel_s() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(&folder);
    load(&engine, false).unwrap();
    let mut session = engine.connect(seat(1)).unwrap();
    let before = engine.read_counters(true).unwrap()[0].io;
    let mut done = Outcomes::default();
    session.execute(Batch::new(&[update(1); 20], &unlimited(), &mut done)).unwrap();
    assert!(done.ended.iter().all(|outcome| outcome.rows == 1 && outcome.error.is_none()));
    let work = engine.read_counters(true).unwrap()[0].io.since(&before);
    assert_eq!(
        (work.commits, work.log_syncs, work.logical_reads >= Some(20)),
        (Some(20), Some(20), true)
    );
    // A row's page, those above it, and the file's own page.
    assert!(work.physical_write_bytes.is_none_or(|bytes| bytes >= 20 * 3 * 4096), "{work:?}");
}

#[test]
fn a_file_without_a_commit_is_nobody_s_and_lmdb_keeps_petal_s_mark() {
    use petal_engine::file_set::{FileFormat as _, FileOwner};
    use petal_engine::keyed::folder::KeyedFormat as _;
    use std::os::unix::fs::FileExt as _;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("new.lmdb");
    drop(map::open(&path, 1 << 20, heed::EnvFlags::empty()).unwrap());
    let file = std::fs::File::options().read(true).write(true).open(&path).unwrap();
    let owner = || files::LmdbFormat.owner(&file).unwrap();
    assert_eq!(owner(), FileOwner::Empty);
    file.write_all_at(&[1], 144).unwrap();
    assert_eq!(owner(), FileOwner::Foreign);
    file.write_all_at(&[0], 144).unwrap();
    files::LmdbFormat::NOTES.mark(&file).unwrap();
    let environment = map::open(&path, 1 << 20, heed::EnvFlags::empty()).unwrap();
    for _ in 0..3 {
        let change = environment.write_txn().unwrap();
        environment
            .create_databases_and_commit(change, |opener, change| {
                let table =
                    opener.create_database::<database::Key, heed::types::Bytes>(change, None)?;
                table.put(change, &1, &[1; 3000])?;
                Ok::<_, heed::Error>(heed::CommitOrAbort::<_, ()>::Commit(()))
            })
            .unwrap();
    }
    assert_eq!(owner(), FileOwner::Petal);
}

#[test]
fn a_file_that_took_the_place_of_petal_s_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("new.lmdb");
    let environment = map::open(&path, 1 << 20, heed::EnvFlags::empty()).unwrap();
    let opened = std::fs::File::open(&path).unwrap();
    map::refuse_other(&environment, &opened).unwrap();
    // LMDB opened another file than petal.
    std::fs::rename(&path, folder.path().join("moved")).unwrap();
    let other = std::fs::File::create(&path).unwrap();
    assert!(map::refuse_other(&environment, &other).is_err());
    // LMDB's second call would open that file.
    assert!(map::refuse_other(&environment, &opened).is_err());
}
