//! Tests of the engine on real files: findings, refusals, and the state it leaves.

use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::context::BAD_BLOCK;
use super::*;
use petal_engine::{Batch, Outcomes, SessionError};
use petal_settings::url::TargetUrl;
use petal_workload::op::{Kind, Operation};
use petal_workload::row::Filler;
use petal_workload::seat::Role;

const ROWS: u64 = 1500;
const BLOCK: u64 = 4096;
const SCAN_ROWS: u64 = 20;

fn header(path: &Path) -> TargetHeader {
    TargetFile::find(path).unwrap().unwrap().content().unwrap().petals().unwrap()
}

/// A folder on a real file system, as direct I/O needs.
struct Place(TempDir);

impl Place {
    fn new() -> Self {
        let base = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/tmp");
        fs::create_dir_all(&base).unwrap();
        Self(
            tempfile::Builder::new()
                .prefix("device-")
                .tempdir_in(base.canonicalize().unwrap())
                .unwrap(),
        )
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("petal.dat")
    }

    fn engine(&self, change: impl Fn(&mut Settings)) -> Device {
        let mut settings = Settings { update_pct: 50, ..Settings::default() };
        let url = format!("device:{}?log=1M&dirty=1M", self.path().display());
        settings.db = TargetUrl::parse(&url).unwrap();
        change(&mut settings);
        Device::open(&settings).unwrap()
    }

    fn engine_by(&self, io: &str, depth: u32) -> Device {
        self.engine(|settings| {
            settings.io_depth = depth;
            settings.db.options.insert("io".into(), io.into());
        })
    }

    fn loaded() -> Self {
        let place = Self::new();
        place.engine(|_| {}).load(&plan(), &Silent, &unlimited()).unwrap();
        place
    }

    /// Reads the block of a key without petal.
    fn block(&self, key: u64) -> Vec<u8> {
        let mut bytes = vec![0; BLOCK as usize];
        fs::File::open(self.path()).unwrap().read_exact_at(&mut bytes, self.address(key)).unwrap();
        bytes
    }

    fn address(&self, key: u64) -> u64 {
        TargetData::new(header(&self.path()), false).areas[0].identity(key).address
    }

    fn overwrite(&self, key: u64, bytes: &[u8]) {
        let file = OpenOptions::new().write(true).open(self.path()).unwrap();
        file.write_all_at(bytes, self.address(key)).unwrap();
    }
}

fn plan() -> LoadPlan {
    LoadPlan {
        schemas: vec![1],
        rows: ROWS,
        scan_rows: SCAN_ROWS,
        block_size: BLOCK as u32,
        degree: 2,
        unique_index: false,
        filler: Filler::Random,
        seed: 11,
        id: 7,
        replace: false,
    }
}

fn unlimited() -> Stop {
    Stop::unlimited(Arc::default())
}

fn seat() -> Seat {
    Seat { session: 1, schema: 1, endpoint: 0, role: Role::Mixed }
}

fn operation(kind: Kind, first: u64, rows: u32) -> Operation {
    Operation { kind, schema: 1, first, rows, stamp: first + 77, due: None, hot: [false; 2] }
}

/// Executes a batch; returns the operations that met a bad block.
fn execute(session: &mut dyn Session, batch: &[Operation]) -> Result<Vec<u32>, SessionError> {
    let mut done = Outcomes::default();
    session.execute(Batch::new(batch, &unlimited(), &mut done))?;
    assert_eq!(done.ended.len(), batch.len());
    for (at, outcome) in done.ended.iter().enumerate() {
        assert_eq!(outcome.operation as usize, at);
        assert_eq!(outcome.rows == 0, outcome.error.is_some());
    }
    let bad = done.ended.iter().filter(|outcome| outcome.error.is_some());
    Ok(bad.map(|outcome| outcome.operation).collect())
}

/// Reads every key separately.
fn read_all(session: &mut dyn Session) -> Result<BTreeSet<u64>, SessionError> {
    let batch: Vec<Operation> = (1..=ROWS).map(|key| operation(Kind::Select, key, 1)).collect();
    let bad = execute(session, &batch)?;
    Ok(bad.into_iter().map(|at| u64::from(at) + 1).collect())
}

/// Batches of single reads and UPDATEs, with the completions of each call by position in the batch.
#[test]
fn unfinished_operations_go_on_in_the_next_batch() {
    for (io, depth) in [("uring", 1), ("uring", 8), ("pread", 4)] {
        let place = Place::loaded();
        let engine = place.engine_by(io, depth);
        let mut session = engine.connect(seat()).unwrap();
        let (mut batch, mut done) = (Vec::new(), Outcomes::default());
        let (mut ended, mut most_under_way) = (0, 0);
        for round in 0..40u64 {
            let first = 1 + round * 30;
            let kind = |n: u64| if n % 7 == 6 { Kind::Update } else { Kind::Select };
            batch.extend((0..10).map(|n| operation(kind(n), first + n * 3, 3)));
            done.ended.clear();
            session
                .execute(Batch { is_followed: true, ..Batch::new(&batch, &unlimited(), &mut done) })
                .unwrap();
            for (at, outcome) in done.ended.iter().enumerate() {
                assert_eq!((outcome.operation as usize, outcome.rows), (at, 3));
                assert!(outcome.error.is_none());
            }
            ended += done.ended.len();
            batch.drain(..done.ended.len());
            assert_eq!(session.in_flight(), batch.len());
            most_under_way = most_under_way.max(batch.len());
        }
        assert_eq!(most_under_way > 0, depth > 1, "{io} {depth}");
        done.ended.clear();
        session.execute(Batch::new(&batch, &unlimited(), &mut done)).unwrap();
        assert_eq!((ended + done.ended.len(), session.in_flight()), (400, 0));
        session.flush_statistics().unwrap();
        let counted = &engine.read_counters(true).unwrap()[0];
        assert_eq!(counted.io.logical_reads, Some(1200));
        assert_eq!(counted.io.commits, Some(40));
        // A session that ends releases the keys of its UPDATEs.
        batch = (0..10).map(|n| operation(Kind::Update, 1 + n * 3, 3)).collect();
        done.ended.clear();
        session
            .execute(Batch { is_followed: true, ..Batch::new(&batch, &unlimited(), &mut done) })
            .unwrap();
        drop(session);
        let mut next = engine.connect(seat()).unwrap();
        execute(next.as_mut(), &batch).unwrap();
        drop(next);
        engine.quiesce().unwrap();
    }
}

#[test]
fn a_cut_operation_asks_for_no_more_blocks() {
    for (io, depth) in [("uring", 1), ("uring", 8), ("pread", 4)] {
        let place = Place::loaded();
        let engine = place.engine_by(io, depth);
        let mut session = engine.connect(seat()).unwrap();
        // Each operation may still begin, as before the end of a run, and is cut at once.
        let (level, cutting) = (Arc::default(), Arc::new(true.into()));
        let stop = Stop::until(Instant::now(), None, level, cutting);
        let kinds = [Kind::Select, Kind::Update, Kind::Scan];
        let batch = kinds.map(|kind| operation(kind, 1, 1000));
        let mut done = Outcomes::default();
        session.execute(Batch::new(&batch, &stop, &mut done)).unwrap();
        let ended: Vec<_> =
            done.ended.iter().map(|outcome| (outcome.rows, outcome.error.as_deref())).collect();
        assert_eq!(ended, [(0, Some(petal_engine::CUT)); 3], "{io} {depth}");
        // The UPDATE released its keys and its room.
        let update = operation(Kind::Update, 1, 10);
        assert_eq!(execute(session.as_mut(), &[update]).unwrap(), [0u32; 0]);
        session.flush_statistics().unwrap();
        let io = engine.read_counters(true).unwrap()[0].io;
        assert_eq!((io.logical_reads, io.commits), (Some(10), Some(1)));
        engine.quiesce().unwrap();
    }
}

#[test]
fn every_wrong_block_is_found_and_no_other() {
    for (io, depth) in [("uring", 1), ("uring", 16), ("pread", 1), ("pread", 4)] {
        let place = Place::loaded();
        let engine = place.engine(|settings| {
            settings.io_depth = depth;
            settings.verify = Verify::Checksum;
            settings.db.options.insert("io".into(), io.into());
        });
        let mut session = engine.connect(seat()).unwrap();
        assert_eq!(read_all(session.as_mut()).unwrap(), BTreeSet::new());
        // Misplaced, missing, from an earlier load, torn at either end, and one flipped bit.
        let mut old = place.block(4);
        old[16] ^= 1;
        let (mut head, mut tail, mut bit) = (place.block(5), place.block(6), place.block(7));
        head[32] ^= 1;
        let end = tail.len() - 8;
        tail[end] ^= 1;
        bit[2000] ^= 0x10;
        let zeroes = vec![0; BLOCK as usize];
        let wrong = [place.block(1), zeroes, old, head, tail, bit];
        for (key, bytes) in (2..).zip(&wrong) {
            place.overwrite(key, bytes);
        }
        assert_eq!(read_all(session.as_mut()).unwrap(), (2..=7).collect(), "{io} {depth}");
        // An UPDATE that meets a bad block changes nothing.
        let update = operation(Kind::Update, 1, 10);
        assert_eq!(execute(session.as_mut(), &[update]).unwrap(), [0]);
        session.flush_statistics().unwrap();
        // With several reads in flight they come in any order; each of the six is reported once.
        let error = engine.quiesce().unwrap_err().to_string();
        for word in ["12 times", "at byte", "key 2", "misplaced", "no block of petal's"] {
            assert!(error.contains(word), "{error}");
        }
        assert_eq!(error.matches("the block at byte").count(), 6, "{error}");
        assert_eq!(engine.read_counters(true).unwrap()[0].raw["commits"], 0);
        assert_eq!(place.block(1), wrong[0]);
    }
}

#[test]
fn verify_looks_as_far_as_it_says() {
    let place = Place::loaded();
    let mut bit = place.block(3);
    bit[2000] ^= 1;
    place.overwrite(3, &bit);
    place.overwrite(4, &place.block(5));
    for (verify, found) in
        [(Verify::None, vec![]), (Verify::Header, vec![4]), (Verify::Checksum, vec![3, 4])]
    {
        let engine = place.engine(|settings| settings.verify = verify);
        let mut session = engine.connect(seat()).unwrap();
        assert_eq!(read_all(session.as_mut()).unwrap(), found.into_iter().collect());
    }
}

#[test]
fn a_lost_write_is_found() {
    let place = Place::loaded();
    let engine = place.engine(|_| {});
    let mut session = engine.connect(seat()).unwrap();
    let before = place.block(9);
    execute(session.as_mut(), &[operation(Kind::Update, 9, 1)]).unwrap();
    engine.quiesce().unwrap();
    assert_eq!(block::version(&place.block(9)), 2);
    place.overwrite(9, &before);
    assert_eq!(read_all(session.as_mut()).unwrap(), BTreeSet::from([9]));
    assert!(engine.quiesce().unwrap_err().to_string().contains("version 1"));
    // A petal that is killed leaves older versions, whole, and there is no recovery: the next one
    // takes what it finds first, and holds the device to that.
    drop((session, engine));
    let next = place.engine(|_| {});
    let mut session = next.connect(seat()).unwrap();
    assert_eq!(read_all(session.as_mut()).unwrap(), BTreeSet::new());
}

#[test]
fn a_sync_that_failed_is_final_for_every_session() {
    let place = Place::loaded();
    let engine = place.engine(|_| {});
    let mut sessions = [engine.connect(seat()).unwrap(), engine.connect(seat()).unwrap()];
    let update = operation(Kind::Update, 9, 1);
    execute(sessions[0].as_mut(), &[update]).unwrap();
    engine.shared.dirty.fail("the disk is gone");
    for session in &mut sessions {
        let error = execute(session.as_mut(), &[update]).unwrap_err();
        assert_eq!(error.code, "not-durable");
        assert!(error.message.contains("the disk is gone"), "{}", error.message);
        // Reads continue.
        assert_eq!(execute(session.as_mut(), &[operation(Kind::Select, 1, 5)]).unwrap(), [0u32; 0]);
        session.flush_statistics().unwrap();
    }
    assert_eq!(engine.read_counters(true).unwrap()[0].io.commits, Some(1));
    assert!(engine.quiesce().unwrap_err().to_string().contains("the disk is gone"));
    assert!(engine.settle(&Silent, &unlimited()).is_err(), "nor does another run begin");
}

#[test]
fn a_header_that_was_torn_leaves_what_is_loaded() {
    let place = Place::loaded();
    let file = OpenOptions::new().write(true).open(place.path()).unwrap();
    file.write_all_at(&[0; 4000], 96).unwrap();
    let engine = place.engine(|_| {});
    assert_eq!(engine.loaded().unwrap().len(), 1);
    let mut session = engine.connect(seat()).unwrap();
    assert_eq!(read_all(session.as_mut()).unwrap(), BTreeSet::new());
}

#[test]
fn too_many_bad_blocks_end_the_session() {
    let place = Place::loaded();
    for key in 1..=120 {
        place.overwrite(key, &[0; 64]);
    }
    let engine = place.engine(|settings| settings.io_depth = 8);
    let mut session = engine.connect(seat()).unwrap();
    let error = read_all(session.as_mut()).unwrap_err();
    assert_eq!(error.code, BAD_BLOCK);
    assert!(error.message.contains("block number 101") && error.message.contains("at byte"));
}

#[test]
fn sessions_on_the_same_keys_keep_every_update() {
    let place = Place::loaded();
    let engine = place.engine(|settings| {
        settings.io_depth = 4;
        settings.verify = Verify::Checksum;
        settings.redo_stress = RedoStress::Heavy;
    });
    const EACH: u64 = 60;
    std::thread::scope(|scope| {
        for _ in 0..4 {
            let mut session = engine.connect(seat()).unwrap();
            scope.spawn(move || {
                let update = operation(Kind::Update, 100, 8);
                let read = operation(Kind::Select, 98, 12);
                let batch: Vec<Operation> = (0..EACH).flat_map(|_| [update, read, read]).collect();
                assert_eq!(execute(session.as_mut(), &batch).unwrap(), [0u32; 0]);
                session.flush_statistics().unwrap();
            });
        }
    });
    engine.quiesce().unwrap();
    for key in 100..108 {
        assert_eq!(u64::from(block::version(&place.block(key))), 1 + 4 * EACH);
    }
    assert_eq!(block::version(&place.block(99)), 1);
    let io = engine.read_counters(true).unwrap()[0].io;
    assert_eq!((io.commits, io.log_syncs), (Some(4 * EACH), Some(4 * EACH)));
    assert_eq!(io.redo_bytes, Some(4 * EACH * log::record_bytes(RedoStress::Heavy, 8)));
    assert_eq!(io.logical_reads, Some(4 * EACH * (8 + 24)));
    assert!(engine.placement(1).unwrap().is_one_row_per_block());
}

#[test]
fn a_read_only_run_counts_a_read_for_each_block_and_writes_nothing() {
    let place = Place::loaded();
    for depth in [1, 32] {
        let engine = place.engine(|settings| {
            settings.update_pct = 0;
            settings.io_depth = depth;
        });
        let mut session = engine.connect(seat()).unwrap();
        let batch: Vec<Operation> =
            (0..50).map(|n| operation(Kind::Select, n * 20 + 1, 20)).collect();
        execute(session.as_mut(), &batch).unwrap();
        session.flush_statistics().unwrap();
        let counters = engine.read_counters(true).unwrap().remove(0);
        assert_eq!(counters.io.physical_read_requests, Some(1000));
        assert_eq!(counters.io.physical_read_bytes, Some(1000 * BLOCK));
        assert_eq!(counters.io.logical_reads, Some(1000));
        assert_eq!((counters.io.physical_write_bytes, counters.io.redo_bytes), (Some(0), Some(0)));
        let reads = counters.wait("block read").unwrap();
        assert_eq!(reads.latencies.as_ref().unwrap().count(), 1000);
    }
}

#[test]
fn operations_one_after_the_other_do_not_overlap() {
    let place = Place::loaded();
    let engine = place.engine_by("pread", 1);
    let mut session = engine.connect(seat()).unwrap();
    // Changed blocks are read from memory: there is no wait between two SELECTs.
    let update = [operation(Kind::Update, 1, 64)];
    let batch: Vec<Operation> =
        update.into_iter().chain((0..40).map(|_| operation(Kind::Select, 1, 64))).collect();
    let mut done = Outcomes::default();
    session.execute(Batch::new(&batch, &unlimited(), &mut done)).unwrap();
    let ends = done.ended.iter().map(|outcome| outcome.end_ns);
    for (outcome, before_ns) in done.ended.iter().skip(1).zip(ends) {
        assert!(outcome.end_ns - outcome.busy_ns >= before_ns, "{outcome:?} {before_ns}");
    }
}

#[test]
fn changed_blocks_are_throttled_and_all_written() {
    let place = Place::loaded();
    // Room for 256 blocks, UPDATEs of 200.
    let engine = place.engine(|_| {});
    let mut session = engine.connect(seat()).unwrap();
    let batch: Vec<Operation> =
        (0..21).map(|n| operation(Kind::Update, n % 7 * 200 + 1, 200)).collect();
    execute(session.as_mut(), &batch).unwrap();
    session.flush_statistics().unwrap();
    engine.quiesce().unwrap();
    assert_eq!(engine.shared.dirty.blocks(), 0);
    for key in 1..=1400 {
        assert_eq!(block::version(&place.block(key)), 4, "{key}");
    }
    let counters = engine.read_counters(true).unwrap().remove(0);
    // A block that changed again before it was written is written only once.
    let written = counters.io.physical_write_blocks.unwrap();
    assert!((1400..=4200).contains(&written), "{written}");
    assert!(counters.wait("background sync").is_some());
}

#[test]
fn scans_read_the_scan_blocks_and_find_wrong_ones() {
    let place = Place::loaded();
    let engine = place.engine(|_| {});
    let mut session = engine.connect(seat()).unwrap();
    let scan = operation(Kind::Scan, 0, 0);
    assert_eq!(execute(session.as_mut(), &[scan, scan]).unwrap(), [0u32; 0]);
    let header = header(&place.path());
    let file = OpenOptions::new().write(true).open(place.path()).unwrap();
    file.write_all_at(&[9; 16], header.schemas[0].scan_offset + 7 * BLOCK).unwrap();
    assert_eq!(execute(session.as_mut(), &[scan]).unwrap(), [0]);
    session.flush_statistics().unwrap();
    let reads = engine.read_counters(true).unwrap().remove(0).io.physical_read_blocks;
    assert_eq!(reads, Some(3 * SCAN_ROWS));
}

#[test]
fn schemas_are_added_and_replaced_and_old_blocks_are_stale() {
    let place = Place::loaded();
    let first = place.block(1);
    let engine = place.engine(|_| {});
    engine.load(&LoadPlan { schemas: vec![2, 3], ..plan() }, &Silent, &unlimited()).unwrap();
    let numbers = |engine: &Device| {
        engine.loaded().unwrap().iter().map(|schema| schema.number).collect::<Vec<_>>()
    };
    assert_eq!(numbers(&engine), [1, 2, 3]);
    assert_eq!(place.block(1), first, "the first was touched");
    let other = LoadPlan { schemas: vec![4], block_size: 8192, ..plan() };
    assert!(engine.load(&other, &Silent, &unlimited()).is_err(), "another block size");
    let part = LoadPlan { replace: true, ..plan() };
    let refused = engine.load(&part, &Silent, &unlimited()).unwrap_err().to_string();
    assert!(refused.contains("schema 2 is there too"), "{refused}");
    let all = LoadPlan { schemas: vec![1, 2, 3], replace: true, ..plan() };
    engine.load(&all, &Silent, &unlimited()).unwrap();
    assert_eq!(numbers(&engine), [1, 2, 3]);
    // The block has the same position, key and content as in the previous load.
    assert_eq!(first[8..16], place.block(1)[8..16]);
    place.overwrite(1, &first);
    let mut session = engine.connect(seat()).unwrap();
    assert_eq!(read_all(session.as_mut()).unwrap(), BTreeSet::from([1]));
    assert!(engine.quiesce().unwrap_err().to_string().contains("earlier load"));
}

#[test]
fn a_load_that_is_stopped_leaves_nothing_that_passes_for_data() {
    let place = Place::new();
    let stop = Stop::unlimited(Arc::new(1.into()));
    let engine = place.engine(|_| {});
    assert!(matches!(engine.load(&plan(), &Silent, &stop), Err(EngineError::Interrupted)));
    assert!(!place.path().exists());
    // Loading over existing data removes them.
    let place = Place::loaded();
    let engine = place.engine(|_| {});
    let replace = LoadPlan { replace: true, ..plan() };
    assert!(engine.load(&replace, &Silent, &stop).is_err());
    assert!(engine.loaded().unwrap().is_empty());
    assert!(engine.connect(seat()).is_err());
    engine.load(&plan(), &Silent, &unlimited()).unwrap();
    assert_eq!(engine.loaded().unwrap().len(), 1);
}

#[test]
fn foreign_files_are_left_alone_unless_given_up_by_name() {
    for content in [&b"dear diary"[..], b"x", &[0x55; 100_000]] {
        let place = Place::new();
        fs::write(place.path(), content).unwrap();
        let wrong = place.engine(|settings| settings.destroy_data = Some("/elsewhere".into()));
        for engine in [place.engine(|_| {}), wrong] {
            assert!(engine.loaded().is_err());
            let refused = engine.load(&plan(), &Silent, &unlimited()).unwrap_err().to_string();
            assert!(refused.contains("--destroy-data"), "{refused}");
            assert!(engine.connect(seat()).is_err());
            assert_eq!(engine.drop_data().unwrap(), [""; 0]);
            assert_eq!(fs::read(place.path()).unwrap(), content);
        }
        let engine = place.engine(|settings| settings.destroy_data = Some(place.path()));
        assert!(engine.loaded().unwrap().is_empty());
        engine.load(&plan(), &Silent, &unlimited()).unwrap();
        assert_eq!(engine.loaded().unwrap().len(), 1);
    }
}

#[test]
fn an_empty_file_is_loaded_and_a_drop_leaves_it() {
    let place = Place::new();
    fs::write(place.path(), b"").unwrap();
    let engine = place.engine(|_| {});
    assert!(engine.loaded().unwrap().is_empty());
    assert!(engine.connect(seat()).is_err());
    assert_eq!(engine.drop_data().unwrap(), [""; 0]);
    assert_eq!(fs::read(place.path()).unwrap(), b"");
    engine.load(&plan(), &Silent, &unlimited()).unwrap();
    assert_eq!(engine.loaded().unwrap().len(), 1);
}

#[test]
fn a_file_that_somebody_fills_while_petal_opens_it_is_left_alone() {
    let place = Place::new();
    fs::write(place.path(), b"").unwrap();
    let engine = place.engine(|_| {});
    assert!(engine.loaded().unwrap().is_empty());
    let shared = &engine.shared;
    let (load, stop) = (plan(), unlimited());
    let loader = load::Loader { shared, plan: &load, progress: &Silent, stop: &stop };
    let header = layout::TargetHeader::new(load.block_size, 0);
    fs::write(place.path(), b"dear diary").unwrap();
    let refused = loader.fill(&header, &header, &[]).unwrap_err().to_string();
    assert!(refused.contains("--destroy-data"), "{refused}");
    assert_eq!(fs::read(place.path()).unwrap(), b"dear diary");
}

#[test]
fn a_file_that_was_cut_off_or_damaged_is_refused() {
    let place = Place::loaded();
    let engine = place.engine(|_| {});
    let file = OpenOptions::new().write(true).open(place.path()).unwrap();
    file.set_len(file.metadata().unwrap().len() - 1).unwrap();
    let refused = engine.connect(seat()).err().unwrap().to_string();
    assert!(refused.contains("cut off"), "{refused}");
    file.write_all_at(b"?", 30).unwrap();
    file.write_all_at(b"?", layout::COPY_OFFSET + 30).unwrap();
    let replace = LoadPlan { replace: true, ..plan() };
    for refused in [engine.loaded().err(), engine.load(&replace, &Silent, &unlimited()).err()] {
        let refused = refused.unwrap().to_string();
        assert!(refused.contains("damaged") && refused.contains("--destroy-data"), "{refused}");
    }
    drop(engine);
    let engine = place.engine(|settings| settings.destroy_data = Some(place.path()));
    engine.load(&replace, &Silent, &unlimited()).unwrap();
    assert_eq!(read_all(engine.connect(seat()).unwrap().as_mut()).unwrap(), BTreeSet::new());
}

/// A power cut before any background write: only the log was synced.
#[test]
fn an_update_that_was_acknowledged_is_in_its_blocks_or_in_the_log() {
    let place = Place::loaded();
    let engine =
        place.engine(|settings| drop(settings.db.options.insert("dirty".into(), "64M".into())));
    let updates = |round: u64| -> Vec<Operation> {
        let stamped =
            |key| Operation { stamp: round * 10_000 + key, ..operation(Kind::Update, key, 1) };
        (1..=1000).map(stamped).collect()
    };
    let mut session = engine.connect(seat()).unwrap();
    let (canceller, data) = (session.canceller(), engine.shared.data().unwrap());
    // Replaces the writer by a thread that writes nothing, like a disk that has not written yet.
    *engine.shared.dirty.writer() = Some(std::thread::spawn(|| ()));
    let is_over = std::sync::atomic::AtomicBool::new(false);
    let mut done = Outcomes::default();
    let batch = updates(1);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(std::sync::atomic::Ordering::Relaxed) {
                if data.log.wants_checkpoint() {
                    canceller.cancel();
                }
                std::thread::yield_now();
            }
        });
        session.execute(Batch::new(&batch, &unlimited(), &mut done)).unwrap();
        is_over.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    let acknowledged: Vec<petal_engine::LoggedUpdate> = (done.ended.iter())
        .filter(|outcome| outcome.error.is_none())
        .map(|outcome| batch[outcome.operation as usize].stamp)
        .map(|stamp| petal_engine::LoggedUpdate { stamp, rows: 1 })
        .collect();
    let logged = engine.row_reader(1).unwrap().logged(&acknowledged).unwrap().unwrap();
    let lost = acknowledged.iter().filter(|update| !logged.contains(&update.stamp)).count();
    assert_eq!((lost, acknowledged.len()), (0, (1 << 20) / 4096));
    // With a disk that writes, the log wraps around many times.
    engine.quiesce().unwrap();
    execute(session.as_mut(), &updates(2)).unwrap();
    execute(session.as_mut(), &updates(3)).unwrap();
    engine.quiesce().unwrap();
    let mut rows = Vec::new();
    engine.row_reader(1).unwrap().read(1, 1000, &mut rows).unwrap();
    for row in rows {
        assert_eq!(row.stamps.unwrap().row, 30_000 + row.key);
    }
}

#[test]
fn a_record_that_is_longer_than_the_log_is_refused() {
    let place = Place::loaded();
    let engine = place.engine(|settings| settings.update_work_unit = 6000);
    let refused = engine.connect(seat()).err().unwrap().to_string();
    assert!(refused.contains("UPDATE_WORK_UNIT=6000") && refused.contains("?log="), "{refused}");
}

#[test]
fn drop_removes_nothing_by_its_mark_alone() {
    let place = Place::loaded();
    let whole = fs::read(place.path()).unwrap();
    let mut torn = whole.clone();
    // Another version that reads as well as the true one: only the checksum knows.
    let before = b"petal_version\":\"";
    let at = whole.windows(before.len()).position(|it| it == before).unwrap() + before.len();
    torn[at] ^= 1;
    torn[layout::COPY_OFFSET as usize + at] ^= 1;
    let mark = [&layout::MARK[..], b" is somebody's own heading"].concat();
    for content in [&torn[..], &mark, &whole[..whole.len() - 1]] {
        fs::write(place.path(), content).unwrap();
        for destroyed in [None, Some(place.path())] {
            let engine = place.engine(|settings| settings.destroy_data = destroyed.clone());
            let refused = engine.drop_data().unwrap_err().to_string();
            assert!(refused.contains("petal.dat: it"), "{refused}");
            assert!(fs::read(place.path()).unwrap() == content, "{refused}");
        }
    }
    fs::write(place.path(), whole).unwrap();
    assert_eq!(place.engine(|_| {}).drop_data().unwrap().len(), 1);
}

/// Replaces the target by another file when a phase of the work begins.
struct Swap {
    place: PathBuf,
    phase: &'static str,
    by_link: bool,
}

impl Swap {
    fn victim(&self) -> PathBuf {
        if self.by_link { self.place.with_extension("other") } else { self.place.clone() }
    }

    fn kept(&self) {
        assert_eq!(fs::read(self.victim()).unwrap(), b"somebody's", "{}", self.phase);
    }
}

impl Progress for Swap {
    fn phase(&self, what: &str, _: u64, _: ProgressUnit) {
        if what == self.phase {
            fs::rename(&self.place, self.place.with_extension("moved")).unwrap();
            fs::write(self.victim(), "somebody's").unwrap();
            if self.by_link {
                std::os::unix::fs::symlink(self.victim(), &self.place).unwrap();
            }
        }
    }
    fn advance(&self, _: u64) {}
    fn note(&self, _: &str) {}
}

#[test]
fn a_file_that_takes_the_targets_place_is_neither_written_nor_removed() {
    for by_link in [false, true] {
        for phase in ["loading", "proving"] {
            let place = Place::new();
            let swap = Swap { place: place.path(), phase, by_link };
            let refused = place.engine(|_| {}).load(&plan(), &swap, &unlimited()).unwrap_err();
            assert!(refused.to_string().contains("no longer leads"), "{refused}");
            swap.kept();
        }
        let place = Place::loaded();
        let engine = place.engine(|_| {});
        assert_eq!(engine.loaded().unwrap().len(), 1);
        let swap = Swap { place: place.path(), phase: "", by_link };
        swap.phase("", 0, ProgressUnit::Bytes);
        assert!(engine.drop_data().unwrap_err().to_string().contains("no longer leads"));
        swap.kept();
    }
}

#[test]
fn a_calibration_neither_writes_nor_removes_what_takes_its_files_place() {
    use super::calibration_target::WantedStretch;
    for by_link in [false, true] {
        for keep in [false, true] {
            let place = Place::new();
            let wanted = WantedStretch { bytes: Some(16 << 20), storage_cache: None, keep };
            let swap = Swap { place: place.path(), phase: "filling", by_link };
            let refused = place.engine(|_| {}).calibration_target(&wanted, &swap, &unlimited());
            assert!(refused.err().unwrap().to_string().contains("no longer leads"));
            swap.kept();
        }
        // The file is replaced after it was filled: the end removes only petal's own file.
        let place = Place::new();
        let wanted = WantedStretch { bytes: Some(16 << 20), storage_cache: None, keep: false };
        let made = place.engine(|_| {}).calibration_target(&wanted, &Silent, &unlimited()).unwrap();
        let swap = Swap { place: place.path(), phase: "", by_link };
        swap.phase("", 0, ProgressUnit::Bytes);
        drop(made);
        swap.kept();
    }
}

#[test]
fn a_second_petal_waits_its_turn() {
    let place = Place::loaded();
    let engine = place.engine(|_| {});
    let _session = engine.connect(seat()).unwrap();
    let other = place.engine(|_| {});
    assert_eq!(other.loaded().unwrap().len(), 1, "looking is free");
    let refused = other.connect(seat()).err().unwrap().to_string();
    assert!(refused.contains("another petal"), "{refused}");
    assert!(other.drop_data().unwrap_err().to_string().contains("another petal"));
}

#[test]
fn preconditioning_writes_it_all_again_and_leaves_it_whole() {
    struct Written(std::sync::atomic::AtomicU64, Mutex<Vec<String>>);
    impl Progress for Written {
        fn phase(&self, what: &str, _: u64, _: ProgressUnit) {
            self.1.lock().push(what.to_owned());
        }
        fn advance(&self, units: u64) {
            self.0.fetch_add(units, std::sync::atomic::Ordering::Relaxed);
        }
        fn note(&self, _: &str) {}
    }
    let place = Place::new();
    let engine = place.engine(|settings| {
        settings.precondition = 3;
    });
    let written = Written(0.into(), Mutex::default());
    engine.load(&plan(), &written, &unlimited()).unwrap();
    let main = ROWS * BLOCK;
    // Log, scan blocks, three times the main blocks, and the proof.
    let all = (1 << 20) + SCAN_ROWS * BLOCK + 4 * main;
    assert_eq!(written.0.load(std::sync::atomic::Ordering::Relaxed), all);
    assert_eq!(written.1.lock().len(), 4);
    let mut session = engine.connect(seat()).unwrap();
    assert_eq!(read_all(session.as_mut()).unwrap(), BTreeSet::new());
}

#[test]
fn the_described_settings_are_the_used_ones() {
    let place = Place::loaded();
    let engine = place.engine(|settings| {
        settings.db.options.insert("io".into(), "pread".into());
        settings.direct_io = Some(false);
    });
    let (about, details) = engine.describe(1, 3).unwrap();
    assert_eq!((about.block_size, about.cache_bytes), (BLOCK, Some(0)));
    let setting = |name: &str| {
        details
            .settings
            .iter()
            .find(|(key, _)| key == name)
            .map(|(_, value)| value.clone())
            .unwrap()
    };
    assert!(setting("requests by").contains("pread") && setting("requests by").contains("asked"));
    assert_eq!(setting("direct I/O"), "off");
    let direct = details.direct_io.unwrap();
    assert_eq!((direct.asked, direct.used), (false, false));
    assert!(details.compression_ratio.unwrap() < 1.02);
    assert_eq!(details.data_files, [place.path()]);
    assert_eq!(engine.data_bytes().unwrap(), Some(ROWS * BLOCK));
}

#[test]
fn by_a_link_the_data_are_used_and_dropped_and_the_link_stays() {
    let place = Place::loaded();
    let link = place.0.path().join("link");
    std::os::unix::fs::symlink(place.path(), &link).unwrap();
    let by_link = |settings: &mut Settings| {
        settings.db = TargetUrl::parse(&format!("device:{}?log=1M", link.display())).unwrap();
    };
    let engine = place.engine(by_link);
    assert_eq!(engine.loaded().unwrap().len(), 1);
    assert_eq!(engine.drop_data().unwrap(), [place.path().display().to_string()]);
    assert!(!place.path().exists() && link.is_symlink());
    // The link leads nowhere now, so no file is created.
    let refused = engine.load(&plan(), &Silent, &unlimited()).unwrap_err().to_string();
    assert!(refused.contains("link to") && refused.contains("petal.dat"), "{refused}");
    assert!(!place.path().exists());
}
