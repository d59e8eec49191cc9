//! RocksDB.

use std::path::PathBuf;

use petal_model::settings::Settings;
use petal_rocksdb::library::{ColumnFamily, NativeDatabase};

use super::{Target, nobody_waits};
use crate::support::{Workplace, has_rocksdb, names};

fn folder(work: &Workplace, schema: u32) -> PathBuf {
    let data = work.path("petal-data");
    let begin = format!("petal{schema}.rocksdb-");
    data.join(names(&data).into_iter().find(|name| name.starts_with(&begin)).unwrap())
}

fn database(work: &Workplace, schema: u32) -> NativeDatabase {
    NativeDatabase::open(&folder(work, schema), "max_open_files=10", false).unwrap()
}

/// Keys and rows in the order of their blocks.
fn rows(work: &Workplace, schema: u32) -> Vec<(u64, Vec<u8>)> {
    let mut rows = Vec::new();
    let found = |row: &[u8]| {
        let (key, text) = row.split_first_chunk().unwrap();
        rows.push((u64::from_le_bytes(*key), text.to_vec()));
        true
    };
    database(work, schema).snapshot().each(ColumnFamily::Main, found).unwrap();
    rows
}

pub const ROCKSDB: Target = Target {
    turn: nobody_waits,
    is_there: has_rocksdb,
    url: |work| format!("rocksdb:{}", work.path("petal-data").display()),
    flags: &["--direct-io", "TRUE"],
    settings: || Settings { direct_io: Some(true), ..Settings::default() },
    block_size: 4096,
    commits: ("commits", false),
    look: |work, schema| {
        let text = |row: Vec<u8>| String::from_utf8(row[..row.len() / 19].to_vec()).unwrap();
        rows(work, schema).into_iter().map(|(key, row)| (key, text(row))).collect()
    },
    delete_half: Some(|work| {
        let rows = rows(work, 1);
        let database = database(work, 1);
        let mut changes = database.changes();
        let even = (0..).zip(rows).filter(|(_, row)| row.0 % 2 == 0);
        even.for_each(|(block, _)| changes.delete(ColumnFamily::Main, block));
        changes.commit().unwrap();
    }),
    broken: |work| {
        let path = work.write("in-the-way", "a file").display().to_string();
        (format!("rocksdb:{path}"), path)
    },
    data: Some("petal-data"),
    is_traced: true,
    // Its log is in a folder of its own, and is never empty.
    log: Some(|work, schema| work.path(format!("petal-data/petal{schema}.log"))),
    order: Some(|work, schema| rows(work, schema).into_iter().map(|row| row.0).collect()),
    // It has no lock on rows: nobody makes a commit wait.
    hold: None,
};
