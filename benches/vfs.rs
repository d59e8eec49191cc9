//! What the shim costs: nanoseconds per page read through SQLite's own VFS, through the shim, and
//! through the shim with O_DIRECT, in interleaved rounds of one run.
//!
//! `cargo bench --bench vfs`. The first three read from the page cache, so that the cost shows;
//! the last one waits for the device.
#![allow(clippy::print_stdout, clippy::unwrap_used, clippy::disallowed_methods)]

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use petal_engine::{Engine as _, LoadPlan, Silent, Stop};
use petal_settings::Settings;
use petal_sqlite::Sqlite;
use petal_sqlite::io::{IoContext, IoSource, Statistics};
use petal_sqlite::vfs;
use petal_workload::row::Filler;
use petal_workload::scatter::Permutation;
use rusqlite::{Connection, OpenFlags};

const ROWS: u64 = 8192;
const ROUNDS: usize = 41;
/// Fewer in the direct variant, whose reads take a hundred times as long.
const READS: u64 = 20_000;
const READS_DIRECT: u64 = 1_000;

struct Variant {
    name: &'static str,
    shim: bool,
    context: IoContext,
    reads: u64,
    ns_per_read: Vec<f64>,
}

fn main() {
    let base = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/test-data");
    std::fs::create_dir_all(&base).unwrap();
    let folder = tempfile::tempdir_in(base).unwrap();
    load(folder.path());
    let file = folder.path().join("petal1.db");
    let statistics = Arc::new(Statistics::default());
    let counted = |direct| IoContext {
        recorder: Some(statistics.recorder(IoSource::Session)),
        direct,
        gathers: false,
    };
    let variant = |name, shim, context, reads| Variant {
        name,
        shim,
        context,
        reads,
        ns_per_read: Vec::new(),
    };
    let mut variants = [
        variant("SQLite's own VFS", false, IoContext::default(), READS),
        variant("shim, nothing counted", true, IoContext::default(), READS),
        variant("shim, counted and timed", true, counted(false), READS),
        variant("shim, O_DIRECT", true, counted(true), READS_DIRECT),
    ];
    for round in 0..=ROUNDS {
        for variant in &mut variants {
            let ns = ns_per_read(&file, variant, round as u64);
            // The first round warms up.
            if round > 0 {
                variant.ns_per_read.push(ns);
            }
        }
    }
    let plain = variants[0].ns_per_read.clone();
    println!("{:<26} {:>9}  {:>18}  {:>9}", "ns per read", "median", "middle half", "over plain");
    for variant in &variants {
        let (low, median, high) = quartiles(variant.ns_per_read.clone());
        // Against the plain read of the same round: what the machine did meanwhile cancels.
        let over = variant.ns_per_read.iter().zip(&plain).map(|(shim, plain)| shim - plain);
        let over = quartiles(over.collect()).1;
        let half = format!("{low:.0} to {high:.0}");
        println!("{:<26} {median:>9.0}  {half:>18}  {over:>9.0}", variant.name);
    }
}

fn quartiles(mut values: Vec<f64>) -> (f64, f64, f64) {
    values.sort_by(f64::total_cmp);
    (values[ROUNDS / 4], values[ROUNDS / 2], values[ROUNDS * 3 / 4])
}

fn load(folder: &Path) {
    let mut settings = Settings { direct_io: Some(false), ..Settings::default() };
    settings.db.rest = folder.to_str().unwrap().to_owned();
    let plan = LoadPlan {
        id: 7,
        schemas: vec![1],
        rows: ROWS,
        scan_rows: 0,
        block_size: 8192,
        degree: 1,
        unique_index: false,
        filler: Filler::Constant,
        seed: 1,
        replace: false,
    };
    let engine = Sqlite::open(&settings).unwrap();
    engine.load(&plan, &Silent, &Stop::unlimited(Arc::default())).unwrap();
}

/// One SELECT by rowid reads one leaf page; the few interior pages stay in the cache of 64 pages.
fn ns_per_read(file: &Path, variant: &Variant, seed: u64) -> f64 {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    variant.context.during(|| {
        let connection = if variant.shim {
            Connection::open_with_flags_and_vfs(file, flags, vfs::NAME).unwrap()
        } else {
            Connection::open_with_flags(file, flags).unwrap()
        };
        connection.execute_batch("PRAGMA cache_size = 64; BEGIN").unwrap();
        let mut statement =
            connection.prepare("SELECT length(c20) FROM cf1 WHERE rowid = ?1").unwrap();
        let order = Permutation::new(ROWS, seed);
        let begin = Instant::now();
        for read in 0..variant.reads {
            let rowid = (order.apply(read % ROWS) + 1).cast_signed();
            let _: i64 = statement.query_row([rowid], |row| row.get(0)).unwrap();
        }
        begin.elapsed().as_nanos() as f64 / variant.reads as f64
    })
}
