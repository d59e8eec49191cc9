//! The engine on real files: placement, counters, locks, damage, foreign files.

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::io::Count;
use super::*;
use petal_engine::{Batch, CUT, Outcomes, ProgressUnit, Silent};
use petal_workload::op::{Kind, Operation};
use petal_workload::row::Filler;
use petal_workload::seat::Role;

/// A folder below the build folder, which is on a real file system; /tmp may be memory.
fn folder() -> TempDir {
    let base = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/test-data");
    fs::create_dir_all(&base).unwrap();
    tempfile::tempdir_in(base.canonicalize().unwrap()).unwrap()
}

fn settings(path: &Path) -> Settings {
    let mut settings = Settings { update_pct: 100, ..Settings::default() };
    settings.db.rest = path.to_str().unwrap().to_owned();
    settings
}

fn engine(path: &Path) -> Sqlite {
    Sqlite::open(&settings(path)).unwrap()
}

fn plan(rows: u64, block_size: u32) -> LoadPlan {
    LoadPlan {
        schemas: vec![1],
        rows,
        scan_rows: 32,
        block_size,
        degree: 2,
        unique_index: false,
        filler: Filler::Constant,
        seed: 11,
        id: 7,
        replace: false,
    }
}

fn unlimited() -> Stop {
    Stop::unlimited(Arc::default())
}

fn seat(session: u32, schema: u32) -> Seat {
    Seat { session, schema, endpoint: 0, role: Role::Mixed }
}

fn operation(kind: Kind, first: u64, rows: u32, stamp: u64) -> Operation {
    Operation { kind, schema: 1, first, rows, stamp, due: None, hot: [false; 2] }
}

fn run(session: &mut dyn Session, batch: &[Operation]) -> Vec<(u64, Option<String>)> {
    let mut done = Outcomes::default();
    session.execute(Batch::new(batch, &unlimited(), &mut done)).unwrap();
    assert_eq!(done.ended.len(), batch.len());
    done.ended.iter().map(|o| (o.rows, o.error.as_deref().map(str::to_owned))).collect()
}

/// Ranges of `rows` keys that cover 1..=total, each with its own stamp.
fn covering(kind: Kind, total: u64, rows: u32, stamp: u64) -> Vec<Operation> {
    (0..total / u64::from(rows))
        .map(|n| operation(kind, n * u64::from(rows) + 1, rows, stamp + n))
        .collect()
}

fn names(path: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(path)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn one_row_per_block_after_the_load_and_after_updates_at_every_block_size() {
    for block_size in [4096u32, 8192, 16384, 32768] {
        for redo_stress in [RedoStress::Lite, RedoStress::Heavy] {
            let folder = folder();
            let engine =
                Sqlite::open(&Settings { redo_stress, ..settings(folder.path()) }).unwrap();
            let summary = engine.load(&plan(1024, block_size), &Silent, &unlimited()).unwrap();
            let loaded = &summary.schemas[0];
            assert!(loaded.placement.is_one_row_per_block(), "{:?}", loaded.placement);
            assert_eq!(loaded.placement.rows, 1024);
            let file = folder.path().join("petal1.db");
            let bytes = fs::metadata(&file).unwrap().len();
            let mut session = engine.connect(seat(1, 1)).unwrap();
            for round in 0..3 {
                let batch = covering(Kind::Update, 1024, 64, round * 1000);
                assert!(run(&mut *session, &batch).iter().all(|end| *end == (64, None)));
            }
            drop(session);
            engine.settle(&Silent, &unlimited()).unwrap();
            assert_eq!(engine.placement(1).unwrap(), loaded.placement);
            assert_eq!(fs::metadata(&file).unwrap().len(), bytes, "{block_size}");
        }
    }
}

#[test]
fn no_view_or_trigger_of_others_runs_in_a_file() {
    let folder = folder();
    let own = engine(folder.path());
    own.load(&plan(1024, 4096), &Silent, &unlimited()).unwrap();
    let open = || rusqlite::Connection::open(folder.path().join("petal1.db")).unwrap();
    let trigger = "CREATE TABLE ran(x); \
                   CREATE TRIGGER t AFTER UPDATE ON cf1 BEGIN INSERT INTO ran VALUES(1); END";
    open().execute_batch(trigger).unwrap();
    let mut session = own.connect(seat(1, 1)).unwrap();
    assert_eq!(run(&mut *session, &covering(Kind::Update, 64, 64, 1)), [(64, None)]);
    drop(session);
    let ran: i64 = open().query_row("SELECT count(*) FROM ran", [], |row| row.get(0)).unwrap();
    assert_eq!(ran, 0);
    let view = "ALTER TABLE petal_meta RENAME TO mine; \
                CREATE VIEW petal_meta AS SELECT key, value FROM mine";
    open().execute_batch(view).unwrap();
    let refused = engine(folder.path()).loaded().unwrap_err().to_string();
    assert!(refused.contains("access to view"), "{refused}");
}

#[test]
fn every_operation_touches_the_rows_it_asks_for_and_updates_persist() {
    let folder = folder();
    let engine = engine(folder.path());
    engine.load(&plan(2048, 8192), &Silent, &unlimited()).unwrap();
    let mut session = engine.connect(seat(1, 1)).unwrap();
    let batch = [
        operation(Kind::Select, 1, 64, 0),
        operation(Kind::Select, 2048 - 63, 64, 0),
        operation(Kind::Scan, 0, 0, 0),
        operation(Kind::Update, 100, 7, 4242),
        operation(Kind::Select, 7, 1, 0),
    ];
    let rows: Vec<u64> = run(&mut *session, &batch).iter().map(|end| end.0).collect();
    assert_eq!(rows, [64, 64, 32, 7, 1]);
    drop(session);
    let reader = rusqlite::Connection::open(folder.path().join("petal1.db")).unwrap();
    let mut expected = vec![0; layout::column_bytes(8192)];
    Filler::Constant.fill(&mut expected, 4242, 3);
    let text = String::from_utf8(expected).unwrap();
    let changed: i64 = reader
        .query_row("SELECT count(*) FROM cf1 WHERE c3 = ?1", [&text], |row| row.get(0))
        .unwrap();
    assert_eq!(changed, 7);
    let lengths: i64 = reader
        .query_row("SELECT count(DISTINCT length(c3)) FROM cf1", [], |row| row.get(0))
        .unwrap();
    assert_eq!(lengths, 1);
}

#[test]
fn keys_are_scattered_and_complete() {
    let folder = folder();
    let engine = engine(folder.path());
    engine.load(&plan(2000, 4096), &Silent, &unlimited()).unwrap();
    let reader = rusqlite::Connection::open(folder.path().join("petal1.db")).unwrap();
    let (keys, min, max, neighbours): (i64, i64, i64, i64) = reader
        .query_row(
            "SELECT count(DISTINCT custid), min(custid), max(custid),
                    (SELECT count(*) FROM cf1 a JOIN cf1 b ON b.custid = a.custid + 1
                     WHERE abs(a.rowid - b.rowid) < 20) FROM cf1",
            [],
            |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)),
        )
        .unwrap();
    assert_eq!((keys, min, max), (2000, 1, 2000));
    // Two uniform places are within 1 % with probability 0.02.
    assert!(neighbours < 80, "{neighbours}");
}

#[test]
fn counters_agree_with_what_was_asked_and_with_the_files() {
    for direct_io in [None, Some(false)] {
        let folder = folder();
        let mut settings = Settings { direct_io, ..settings(folder.path()) };
        // No checkpoint: the WAL would begin anew, with a second header.
        settings.db.options = BTreeMap::from([("checkpoint".to_owned(), "1G".to_owned())]);
        let engine = Sqlite::open(&settings).unwrap();
        engine.load(&plan(4096, 8192), &Silent, &unlimited()).unwrap();
        let mut session = engine.connect(seat(1, 1)).unwrap();
        let before = engine.read_counters(true).unwrap().remove(0);
        run(&mut *session, &covering(Kind::Update, 4096, 64, 9));
        session.flush_statistics().unwrap();
        let work = engine.read_counters(true).unwrap().remove(0).since(&before);
        assert_eq!(work.io.commits, Some(64));
        assert!(work.io.log_syncs.unwrap() >= 64, "{:?}", work.io);
        // Every row's page is read once, changed once and logged with a header of 24 bytes.
        let wal = fs::metadata(folder.path().join("petal1.db-wal")).unwrap().len();
        assert_eq!(work.io.redo_bytes, Some(4096 * (8192 + 24) + 32));
        assert!(wal >= 4096 * (8192 + 24));
        let reads = work.io.physical_read_blocks.unwrap();
        assert!((4096..4300).contains(&reads), "{reads}");
        assert_eq!(work.io.physical_read_bytes, Some(reads * 8192));
        assert!(work.io.logical_reads.unwrap() >= 2 * 4096);
        let wait = work.wait("wal sync").unwrap();
        assert_eq!(wait.waits, work.io.log_syncs);
        assert_eq!(wait.latencies.as_ref().unwrap().count(), wait.waits.unwrap());
        assert_eq!(work.raw["io_errors"], 0);
    }
}

#[test]
fn direct_and_buffered_connections_see_the_same_data() {
    let folder = folder();
    let direct = engine(folder.path());
    direct.load(&plan(1024, 4096), &Silent, &unlimited()).unwrap();
    let buffered =
        Sqlite::open(&Settings { direct_io: Some(false), ..settings(folder.path()) }).unwrap();
    let mut writers = [direct.connect(seat(1, 1)).unwrap(), buffered.connect(seat(2, 1)).unwrap()];
    for round in 0..6 {
        let writer = &mut writers[round % 2];
        run(&mut **writer, &covering(Kind::Update, 1024, 128, round as u64 * 100));
        [&direct, &buffered][round % 2].settle(&Silent, &unlimited()).unwrap();
        let reader = rusqlite::Connection::open(folder.path().join("petal1.db")).unwrap();
        let (check, stamps): (String, i64) = reader
            .query_row(
                "SELECT (SELECT * FROM pragma_integrity_check), count(DISTINCT c2) FROM cf1",
                [],
                |row| Ok((row.get(0)?, row.get(1)?)),
            )
            .unwrap();
        assert_eq!((check.as_str(), stamps), ("ok", 8));
        // Its closing would drop the locks of this process: none is held between operations.
    }
}

#[test]
fn a_hot_schema_operation_runs_on_the_sessions_own_second_connection() {
    let folder = folder();
    let engine = engine(folder.path());
    let plan = LoadPlan { schemas: vec![1, 2, 3], ..plan(1024, 4096) };
    engine.load(&plan, &Silent, &unlimited()).unwrap();
    assert_eq!(engine.loaded().unwrap().len(), 3);
    let mut session = engine.connect(seat(1, 3)).unwrap();
    let mut operation = operation(Kind::Update, 1, 8, 77);
    operation.schema = 2;
    run(&mut *session, &[operation]);
    let count = |schema: u32| -> i64 {
        let mut stamp = vec![0; layout::column_bytes(4096)];
        Filler::Constant.fill(&mut stamp, 77, 2);
        rusqlite::Connection::open(folder.path().join(format!("petal{schema}.db")))
            .unwrap()
            .query_row(
                "SELECT count(*) FROM cf1 WHERE c2 = ?1",
                [String::from_utf8(stamp).unwrap()],
                |row| row.get(0),
            )
            .unwrap()
    };
    assert_eq!((count(2), count(3)), (8, 0));
}

/// Locks that this process holds on a file, as the kernel lists them: some twice, if others change
/// meanwhile.
fn locks_on(path: &Path) -> usize {
    use std::os::unix::fs::MetadataExt as _;
    let inode = format!(":{} ", fs::metadata(path).unwrap().ino());
    let own = format!(" {} ", std::process::id());
    fs::read_to_string("/proc/locks")
        .unwrap()
        .lines()
        .filter(|line| line.contains("POSIX") && line.contains(&inode) && line.contains(&own))
        .filter_map(|line| line.split_once(": "))
        .map(|(_, lock)| lock)
        .collect::<HashSet<_>>()
        .len()
}

#[test]
fn closing_one_connection_keeps_the_locks_of_another() {
    let folder = folder();
    let engine = engine(folder.path());
    engine.load(&plan(1024, 8192), &Silent, &unlimited()).unwrap();
    let path = folder.path().join("petal1.db");
    assert_eq!(locks_on(&path), 0);
    let context = IoContext { direct: true, ..IoContext::default() };
    let holder = open(&path, Access::Write, &context).unwrap();
    holder.execute_batch("BEGIN IMMEDIATE; SELECT count(c2) FROM cf1 WHERE rowid < 9").unwrap();
    let held = locks_on(&path);
    assert!(held > 0);
    let mut other = engine.connect(seat(1, 1)).unwrap();
    run(&mut *other, &[operation(Kind::Select, 1, 64, 0)]);
    drop(other);
    engine.loaded().unwrap();
    files::sizes_of(&path).unwrap();
    engine.describe(1, 1).unwrap();
    drop(open(&path, Access::Write, &context).unwrap());
    assert_eq!(locks_on(&path), held);
    drop(holder);
    assert_eq!(locks_on(&path), 0);
}

#[test]
fn pages_that_are_gathered_make_the_same_file() {
    let folder = folder();
    let made = |name: &str, gathers| {
        let path = folder.path().join(name);
        let context = IoContext { gathers, ..IoContext::default() };
        context.during(|| {
            let connection = open(&path, Access::Create, &context).unwrap();
            // A cache that is too small for it: pages are written, read and written again.
            let sql = "PRAGMA page_size = 4096; PRAGMA journal_mode = OFF; PRAGMA cache_size = 10;
                CREATE TABLE t (a INTEGER PRIMARY KEY, b TEXT);
                WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3000)
                INSERT INTO t SELECT i * 7919 % 3001, printf('%.*c', i % 2500, 'x') FROM n;
                UPDATE t SET b = b || 'y' WHERE a % 7 = 0;
                DELETE FROM t WHERE a % 5 = 0;
                CREATE INDEX t_b ON t (b)";
            connection.execute_batch(sql).unwrap();
            let sound: String =
                connection.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
            assert_eq!(sound, "ok");
        });
        std::fs::read(path).unwrap()
    };
    let (plain, gathered) = (made("plain.db", false), made("gathered.db", true));
    assert!(plain.len() > 2 << 20, "{} bytes", plain.len());
    assert!(plain == gathered, "the files differ");
}

#[test]
fn a_truncated_file_is_named_with_what_is_wrong() {
    let folder = folder();
    let engine = engine(folder.path());
    engine.load(&plan(1024, 8192), &Silent, &unlimited()).unwrap();
    let path = folder.path().join("petal1.db");
    let bytes = fs::metadata(&path).unwrap().len();
    fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(bytes - 8192 * 5).unwrap();
    let error = engine.loaded().unwrap_err();
    assert!(matches!(error, EngineError::Data(_)));
    let text = error.to_string();
    assert!(
        text.contains("petal1.db") && text.contains(&petal_host::numbers::whole(bytes)),
        "{text}"
    );
    assert!(text.contains("petal setup --replace") && text.contains("petal drop"), "{text}");
    // It still bears the mark: drop removes it, and replace loads over it.
    let replace = LoadPlan { replace: true, ..plan(1024, 8192) };
    engine.load(&replace, &Silent, &unlimited()).unwrap();
    assert_eq!(engine.loaded().unwrap().len(), 1);
}

#[test]
fn foreign_files_stay_as_they_are() {
    let folder = folder();
    let engine = engine(folder.path());
    engine.load(&plan(1024, 4096), &Silent, &unlimited()).unwrap();
    let foreign = ["petal2.db", "petal3.db.loading", "notes.txt", "petal1.db.bak"];
    for name in foreign {
        fs::write(folder.path().join(name), b"somebody else's").unwrap();
    }
    let error = engine.loaded().unwrap_err().to_string();
    assert!(error.contains("petal2.db") && error.contains("mark"), "{error}");
    for schema in [2, 3] {
        let plan = LoadPlan { schemas: vec![schema], replace: true, ..plan(1024, 4096) };
        let error = engine.load(&plan, &Silent, &unlimited()).unwrap_err();
        assert!(error.to_string().contains("leaves it alone"), "{error}");
    }
    let dropped = engine.drop_data().unwrap();
    assert_eq!(dropped.len(), 1, "{dropped:?}");
    assert_eq!(
        names(folder.path()),
        ["notes.txt", "petal1.db.bak", "petal2.db", "petal3.db.loading"]
    );
    for name in foreign {
        assert_eq!(fs::read(folder.path().join(name)).unwrap(), b"somebody else's");
    }
}

#[test]
fn drop_and_load_leave_links_and_files_that_are_named_like_sqlites() {
    let (folder, elsewhere) = (folder(), folder());
    let engine = engine(folder.path());
    engine.load(&plan(1024, 4096), &Silent, &unlimited()).unwrap();
    // By a link into another folder nothing goes, neither the link nor what it leads to.
    let other = self::engine(elsewhere.path());
    let [own, link] = [folder.path(), elsewhere.path()].map(|place| place.join("petal1.db"));
    std::os::unix::fs::symlink(&own, &link).unwrap();
    let again = LoadPlan { replace: true, ..plan(1024, 4096) };
    for refused in [other.drop_data().err(), other.load(&again, &Silent, &unlimited()).err()] {
        let refused = refused.unwrap().to_string();
        assert!(refused.contains("it is a link to"), "{refused}");
        assert!(link.is_symlink() && own.is_file());
    }
    // Somebody's notes that have the names of SQLite's own files.
    let notes = ["petal1.db-wal", "petal1.db-journal", "petal1.db-shm"];
    for name in notes {
        let _ = fs::remove_file(folder.path().join(name));
        fs::write(folder.path().join(name), "somebody's notes").unwrap();
    }
    let refused = engine.load(&again, &Silent, &unlimited()).unwrap_err().to_string();
    assert!(refused.contains("petal1.db-"), "{refused}");
    assert_eq!(engine.drop_data().unwrap(), [own.display().to_string()]);
    let mut left = names(folder.path());
    left.retain(|name| notes.contains(&name.as_str()));
    assert_eq!(left.len(), 3);
    for name in notes {
        assert_eq!(fs::read(folder.path().join(name)).unwrap(), b"somebody's notes");
    }
}

/// Puts somebody's file where the load is, as soon as rows are written.
struct Swap(PathBuf, AtomicBool);

impl Progress for Swap {
    fn phase(&self, _: &str, _: u64, _: ProgressUnit) {}
    fn advance(&self, _: u64) {
        if !self.1.swap(true, Ordering::Relaxed) {
            fs::rename(&self.0, self.0.with_extension("moved")).unwrap();
            fs::write(&self.0, "somebody's").unwrap();
        }
    }
    fn note(&self, _: &str) {}
}

#[test]
fn a_file_that_takes_a_loads_place_is_neither_renamed_nor_removed() {
    let folder = folder();
    let loading = folder.path().join("petal1.db.loading");
    let swap = Swap(loading.clone(), AtomicBool::new(false));
    assert!(engine(folder.path()).load(&plan(1024, 4096), &swap, &unlimited()).is_err());
    assert_eq!(fs::read(&loading).unwrap(), b"somebody's");
    assert!(!folder.path().join("petal1.db").exists());
}

#[test]
fn a_foreign_database_is_not_taken_for_petals() {
    let folder = folder();
    let path = folder.path().join("petal1.db");
    rusqlite::Connection::open(&path).unwrap().execute_batch("CREATE TABLE mine(x)").unwrap();
    let engine = engine(folder.path());
    assert!(matches!(engine.loaded().unwrap_err(), EngineError::Data(_)));
    assert!(engine.drop_data().unwrap().is_empty());
    assert!(path.exists());
}

#[test]
fn loading_over_petals_own_data_must_be_asked_for() {
    let folder = folder();
    let engine = engine(folder.path());
    engine.load(&plan(1024, 8192), &Silent, &unlimited()).unwrap();
    let error = engine.load(&plan(2048, 8192), &Silent, &unlimited()).unwrap_err().to_string();
    assert!(error.contains("petal drop") && error.contains("--replace"), "{error}");
    assert_eq!(engine.loaded().unwrap()[0].rows, 1024);
    // An unfinished WAL of the old file must not get into the new one.
    let mut session = engine.connect(seat(1, 1)).unwrap();
    run(&mut *session, &[operation(Kind::Update, 1, 64, 5)]);
    drop(session);
    let replace = LoadPlan { replace: true, ..plan(2048, 4096) };
    engine.load(&replace, &Silent, &unlimited()).unwrap();
    let loaded = engine.loaded().unwrap();
    assert_eq!((loaded[0].rows, loaded[0].block_size), (2048, 4096));
    let mut session = engine.connect(seat(1, 1)).unwrap();
    assert_eq!(run(&mut *session, &[operation(Kind::Select, 1985, 64, 0)]), [(64, None)]);
    assert!(engine.placement(1).unwrap().is_one_row_per_block());
}

/// Stops the load once some rows are in.
struct StopAfter {
    level: Arc<AtomicU8>,
    left: AtomicU64,
}

impl Progress for StopAfter {
    fn phase(&self, _: &str, _: u64, _: ProgressUnit) {}
    fn advance(&self, units: u64) {
        let left = self.left.load(Ordering::Relaxed).saturating_sub(units);
        self.left.store(left, Ordering::Relaxed);
        if left == 0 {
            self.level.store(1, Ordering::Relaxed);
        }
    }
    fn note(&self, _: &str) {}
}

#[test]
fn a_load_that_is_cut_leaves_nothing() {
    let folder = folder();
    let engine = engine(folder.path());
    let level = Arc::<AtomicU8>::default();
    let progress = StopAfter { level: Arc::clone(&level), left: AtomicU64::new(2500 * 4096) };
    let plan = LoadPlan { schemas: vec![1, 2], ..plan(2048, 4096) };
    let result = engine.load(&plan, &progress, &Stop::unlimited(level));
    assert!(matches!(result, Err(EngineError::Interrupted)));
    assert!(names(folder.path()).is_empty(), "{:?}", names(folder.path()));
    assert!(engine.loaded().unwrap().is_empty());
}

#[test]
fn leftovers_of_a_killed_load_are_no_data_and_go_with_the_next_load() {
    let folder = folder();
    let engine = engine(folder.path());
    engine.load(&plan(1024, 4096), &Silent, &unlimited()).unwrap();
    let petal1 = folder.path().join("petal1.db");
    let leftover = folder.path().join("petal2.db.loading");
    fs::write(&leftover, &fs::read(&petal1).unwrap()[..4096 * 100]).unwrap();
    fs::write(folder.path().join("petal3.db.loading"), b"").unwrap();
    assert_eq!(engine.loaded().unwrap().len(), 1);
    let plan = LoadPlan { schemas: vec![2], ..plan(1024, 4096) };
    engine.load(&plan, &Silent, &unlimited()).unwrap();
    assert_eq!(names(folder.path()), ["petal1.db", "petal2.db"]);
    fs::write(&leftover, b"").unwrap();
    engine.drop_data().unwrap();
    assert!(!folder.path().exists());
}

#[test]
fn a_load_without_room_is_refused_before_anything_is_written() {
    let folder = folder();
    let engine = engine(folder.path());
    let error = engine.load(&plan(1 << 40, 8192), &Silent, &unlimited()).unwrap_err();
    assert!(matches!(error, EngineError::Environment(_)));
    assert!(error.to_string().contains("are free there"), "{error}");
    assert!(names(folder.path()).is_empty());
}

/// Damage under a running session: the operation fails, the session ends and names the file.
#[test]
fn a_damaged_page_ends_the_session_with_sqlites_code_and_the_file() {
    use std::os::unix::fs::FileExt as _;
    let folder = folder();
    let engine = engine(folder.path());
    engine.load(&plan(1024, 8192), &Silent, &unlimited()).unwrap();
    let path = folder.path().join("petal1.db");
    let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
    for page in 20..900 {
        file.write_all_at(&[0x55; 8192], page * 8192).unwrap();
    }
    drop(file);
    let mut session = engine.connect(seat(1, 1)).unwrap();
    let mut done = Outcomes::default();
    let batch = covering(Kind::Select, 1024, 64, 0);
    let error = session.execute(Batch::new(&batch, &unlimited(), &mut done)).unwrap_err();
    assert_eq!(error.code, "SQLITE_CORRUPT");
    assert!(error.message.contains("petal1.db") && error.message.contains("--replace"), "{error}");
    assert!(done.ended.len() < batch.len());
}

#[test]
fn a_file_where_the_folder_should_be_is_an_error_and_stays() {
    let folder = folder();
    let path = folder.path().join("file");
    fs::write(&path, b"data").unwrap();
    let engine = engine(&path);
    for error in [
        engine.loaded().unwrap_err(),
        engine.load(&plan(1024, 8192), &Silent, &unlimited()).unwrap_err(),
    ] {
        assert!(matches!(error, EngineError::Environment(_)), "{error}");
        assert!(error.to_string().contains("is a file; name a folder"), "{error}");
    }
    assert_eq!(fs::read(&path).unwrap(), b"data");
}

#[test]
fn writers_of_one_schema_queue_and_their_waits_are_counted() {
    let folder = folder();
    let mut settings = settings(folder.path());
    settings.db.options = BTreeMap::from([("checkpoint".to_owned(), "1M".to_owned())]);
    let engine = Sqlite::open(&settings).unwrap();
    engine.load(&plan(1024, 8192), &Silent, &unlimited()).unwrap();
    let before = engine.read_counters(true).unwrap().remove(0);
    std::thread::scope(|scope| {
        for session in 0..4 {
            let engine = &engine;
            scope.spawn(move || {
                let mut connected = engine.connect(seat(session, 1)).unwrap();
                for round in 0..4u64 {
                    let stamp = u64::from(session) << 32 | round << 16;
                    let ends = run(&mut *connected, &covering(Kind::Update, 1024, 64, stamp));
                    assert!(ends.iter().all(|end| *end == (64, None)), "{ends:?}");
                }
            });
        }
    });
    engine.quiesce().unwrap();
    let work = engine.read_counters(true).unwrap().remove(0).since(&before);
    assert_eq!(work.io.commits, Some(4 * 4 * 16));
    assert!(work.wait("writer lock").unwrap().waits.unwrap() > 0);
    assert!(work.raw["checkpoints"] > 0 && work.raw["checkpoint_errors"] == 0);
    assert!(work.raw["wal_resets"] > 0, "{:?}", work.raw);
    assert!(work.wait("checkpoint write").unwrap().waits.unwrap() > 0);
    // 134 MB were written. Bounded: the size, and what was written while checkpoints were at work,
    // which on a busy machine take their time.
    assert!(work.raw["wal_bytes_max"] < 32 << 20, "{}", work.raw["wal_bytes_max"]);
    assert!(engine.placement(1).unwrap().is_one_row_per_block());
}

#[test]
fn a_cut_operation_gives_up_the_writer_lock_and_the_session_goes_on() {
    let folder = folder();
    let engine = engine(folder.path());
    engine.load(&plan(1024, 8192), &Silent, &unlimited()).unwrap();
    let mut session = engine.connect(seat(1, 1)).unwrap();
    let path = folder.path().join("petal1.db");
    let holder = open(&path, Access::Write, &IoContext::default()).unwrap();
    holder.execute_batch("BEGIN IMMEDIATE").unwrap();
    let canceller = session.canceller();
    let has_ended = AtomicBool::new(false);
    let ends = std::thread::scope(|scope| {
        scope.spawn(|| {
            // It may not have begun yet.
            while !has_ended.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(100));
                canceller.cancel();
            }
        });
        let ends = run(&mut *session, &[operation(Kind::Update, 1, 64, 1)]);
        has_ended.store(true, Ordering::Relaxed);
        ends
    });
    assert_eq!(ends, [(0, Some(CUT.to_owned()))]);
    holder.execute_batch("ROLLBACK").unwrap();
    assert_eq!(run(&mut *session, &[operation(Kind::Update, 1, 64, 2)]), [(64, None)]);
    let counters = engine.read_counters(true).unwrap().remove(0);
    assert_eq!(counters.wait("writer lock").unwrap().waits, Some(1));
}

#[test]
fn a_stop_ends_the_batch_between_operations() {
    let folder = folder();
    let engine = engine(folder.path());
    engine.load(&plan(1024, 8192), &Silent, &unlimited()).unwrap();
    let mut session = engine.connect(seat(1, 1)).unwrap();
    let batch = vec![operation(Kind::Select, 1, 1024, 0); 100_000];
    let deadline = Instant::now() + Duration::from_millis(500);
    let stop = Stop::until(
        Instant::now(),
        Some(deadline),
        Arc::default(),
        Arc::new(AtomicBool::new(false)),
    );
    let mut done = Outcomes::default();
    session.execute(Batch::new(&batch, &stop, &mut done)).unwrap();
    assert!(!done.ended.is_empty() && done.ended.len() < batch.len());
    assert!(done.ended.iter().all(|end| end.rows == 1024 && end.latency_ns > Some(0)));
    assert!(done.ended.is_sorted_by_key(|end| end.end_ns));
}

#[test]
fn the_target_is_described() {
    let folder = folder();
    let mut settings = settings(folder.path());
    settings.db.options = BTreeMap::from([("synchronous".to_owned(), "NORMAL".to_owned())]);
    let engine = Sqlite::open(&settings).unwrap();
    let missing = engine.describe(1, 4).unwrap_err();
    assert!(missing.to_string().contains("petal setup"), "{missing}");
    let plan = LoadPlan { filler: Filler::Random, ..plan(1024, 8192) };
    engine.load(&plan, &Silent, &unlimited()).unwrap();
    let (target, details) = engine.describe(1, 4).unwrap();
    assert_eq!((target.product.as_str(), target.block_size), ("SQLite", 8192));
    assert_eq!(target.cache_bytes.unwrap() % (4 * 8192), 0);
    let plan = details.plan.unwrap();
    assert!(plan.as_meant, "{}", plan.text);
    assert!(!details.durability.unwrap().durable);
    // Random text fills 72 % of a page.
    let ratio = details.compression_ratio.unwrap();
    assert!((1.3..1.5).contains(&ratio), "{ratio}");
    assert_eq!(details.data_files, [folder.path().join("petal1.db")]);
    let direct = details.direct_io.unwrap();
    assert!(direct.asked && (direct.used || direct.reason.is_some()));
}

#[test]
fn a_read_costs_one_block_with_the_default_cache() {
    let folder = folder();
    let settings = Settings { update_pct: 0, ..settings(folder.path()) };
    let engine = Sqlite::open(&settings).unwrap();
    engine.load(&plan(8192, 8192), &Silent, &unlimited()).unwrap();
    let mut session = engine.connect(seat(1, 1)).unwrap();
    let starts = petal_workload::scatter::Permutation::new(8192 - 63, 3);
    let batch: Vec<Operation> =
        (0..600).map(|n| operation(Kind::Select, starts.apply(n) + 1, 64, 0)).collect();
    run(&mut *session, &batch[..100]);
    let before = engine.read_counters(true).unwrap().remove(0);
    run(&mut *session, &batch[100..]);
    let work = engine.read_counters(true).unwrap().remove(0).since(&before);
    let reads_per_row = work.io.physical_read_blocks.unwrap() as f64 / (500.0 * 64.0);
    assert!((reads_per_row - 1.0).abs() < 0.02, "{reads_per_row}");
}

#[test]
fn counters_never_shrink_when_sessions_leave() {
    let folder = folder();
    let engine = engine(folder.path());
    engine.load(&plan(1024, 4096), &Silent, &unlimited()).unwrap();
    let mut last = 0;
    for session in 0..3 {
        let mut connected = engine.connect(seat(session, 1)).unwrap();
        run(&mut *connected, &covering(Kind::Select, 1024, 64, 0));
        drop(connected);
        let reads = engine.read_counters(false).unwrap()[0].io.physical_read_blocks.unwrap();
        assert!(reads > last + 1000, "{reads} after {last}");
        last = reads;
    }
    assert!(engine.shared.statistics.counted(Count::CacheMiss) > 3000);
}

#[test]
fn a_name_with_signs_of_a_url_opens() {
    let folder = folder();
    let path: PathBuf = folder.path().join("100% odd? #name");
    let engine = engine(&path);
    engine.load(&plan(1024, 4096), &Silent, &unlimited()).unwrap();
    assert_eq!(engine.loaded().unwrap()[0].rows, 1024);
    engine.drop_data().unwrap();
    assert!(!path.exists());
}
