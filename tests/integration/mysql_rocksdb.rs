//! MyRocks in MariaDB: what petal says of blocks and amplification, against the server's own views.

use petal_engine::{Batch, LoadPlan, Outcomes, Silent};
use petal_model::settings::Settings;
use petal_model::workload::op::Operation;

use crate::engine_postgres::{ROWS, SEAT, open_with, plan, unlimited, update};
use crate::server_mysql::{has_rocksdb, rocksdb_url, shared_rocksdb};
use crate::support::{Workplace, count, findings, number};

const BLOCK_BYTES: u32 = 8192;

fn load(database: &str) {
    let engine = open_with(&rocksdb_url(database), Settings::default());
    let plan = LoadPlan { block_size: BLOCK_BYTES, ..plan(1) };
    engine.load(&plan, &Silent, &unlimited()).unwrap();
}

#[test]
fn each_version_of_a_row_is_a_data_block_and_rows_are_conserved() {
    if !has_rocksdb() {
        return;
    }
    load("versions");
    // What is loaded is found out by its tables: the URL does not say it.
    let engine = open_with(&shared_rocksdb().url("versions"), Settings::default());
    let loaded = engine.placement(1).unwrap();
    assert!(loaded.is_one_row_per_block() && loaded.rows == ROWS, "{loaded:?}");
    let updates: Vec<Operation> =
        (0..400u64).map(|at| update(at * 37 % (ROWS - 64) + 1, 64, at + 1)).collect();
    let mut session = engine.connect(SEAT).unwrap();
    let mut done = Outcomes::default();
    session.execute(Batch::new(&updates, &unlimited(), &mut done)).unwrap();
    assert_eq!(done.ended.iter().map(|outcome| outcome.rows).sum::<u64>(), 400 * 64);
    let after = engine.placement(1).unwrap();
    assert!(after.is_one_row_per_block() && after.rows >= ROWS, "{after:?}");
    let sql = "SELECT COUNT(*), COUNT(DISTINCT custid), MIN(custid), MAX(custid), \
               MIN(LENGTH(padding)), MAX(LENGTH(padding)) FROM petal1_cf1";
    let rows = ROWS.to_string();
    let padding = (BLOCK_BYTES - 19 * 128).to_string();
    let whole = [&*rows, &*rows, "1", &*rows, &*padding, &*padding];
    assert_eq!(shared_rocksdb().sql("versions", sql)[0], whole);
    // The server's own view of all files of the column family, where all tests load.
    let sql = "SELECT SUM(entries), SUM(data_blocks) FROM information_schema.rocksdb_sst_props \
               WHERE column_family = (SELECT DISTINCT column_family \
               FROM information_schema.rocksdb_ddl WHERE cf = 'petal_main' LIMIT 1) \
               AND sst_name IN (SELECT sst_name FROM information_schema.rocksdb_index_file_map \
               JOIN information_schema.rocksdb_ddl USING (index_number) \
               WHERE table_schema = 'versions')";
    let blocks = &shared_rocksdb().sql("", sql)[0];
    assert!(blocks[0].parse::<u64>().unwrap() >= ROWS && blocks[0] == blocks[1], "{blocks:?}");
    // Blocks of another size are not to be had.
    let refused = engine.block_size(Some(4096)).unwrap_err().to_string();
    assert!(refused.contains("innodb_page_size"), "{refused}");
    let engine = open_with(&rocksdb_url("versions"), Settings::default());
    let refused = engine.block_size(Some(4096)).unwrap_err().to_string();
    assert!(refused.contains("rocksdb_block_size"), "{refused}");
}

#[test]
fn a_run_reports_its_blocks_its_amplification_and_unknown_figures() {
    if !has_rocksdb() {
        return;
    }
    load("amplified");
    let url = shared_rocksdb().url("amplified");
    let work = Workplace::new();
    let args = ["run", "--db", &url, "-s", "1", "--update-pct", "30", "--run-time", "2", "--json"];
    let run = work.petal(args).exits(0).json();
    let found = findings(&run);
    for id in ["wrong-plan", "not-durable", "moved-rows", "rows-missing"] {
        assert!(!found.contains(&id), "{found:?}");
    }
    assert!(found.contains(&"untimed-io") && found.contains(&"notable-settings"), "{found:?}");
    let per_second = |of: &str| run["per_second"][of].as_f64();
    // How many depends on what lies in memory: rows that were updated last do.
    let misses = number(&run, "/counters/Rocksdb_block_cache_miss");
    let read = per_second("physical_read_blocks").unwrap() * number(&run, "/elapsed_s");
    assert!(misses > 0.0 && (0.5..=1.5).contains(&(read / misses)), "{read} of {misses}");
    assert!(per_second("redo_bytes").unwrap() > 0.0 && per_second("log_syncs").unwrap() > 0.0);
    assert_eq!(per_second("physical_write_blocks"), None);
    assert_eq!(per_second("physical_read_bytes"), None);
    let updated = count(&run, "/rows/update") as f64;
    // Each UPDATE of a row writes the row anew.
    let written = number(&run, "/counters/statement_bytes_written");
    assert!(written > updated * f64::from(BLOCK_BYTES), "{written} of {updated} rows");
    let report = work.petal(["report", work.run_folder().to_str().unwrap()]).exits(0).stdout;
    for words in ["per byte that statements wrote", "petal_main files by level", "L0: "] {
        assert!(report.contains(words), "{report}");
    }
    shared_rocksdb().sql("", "SET GLOBAL rocksdb_perf_context_level = 3");
    let run = work.petal(args).exits(0).json();
    shared_rocksdb().sql("", "SET GLOBAL rocksdb_perf_context_level = 0");
    assert!(!findings(&run).contains(&"untimed-io"));
    assert!(number(&run, "/per_second/physical_read_bytes") > 0.0);
}
