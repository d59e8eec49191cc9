//! LMDB.

use heed::byteorder::BigEndian;
use heed::types::{Bytes, U64};
use heed::{CommitOrAbort, Database, Env};
use petal_settings::Settings;

use super::{Target, nobody_waits};
use crate::sandbox;
use crate::support::Workplace;

type Rows = Database<'static, U64<BigEndian>, Bytes>;

fn database(work: &Workplace, schema: u32) -> (Env, Rows) {
    let environment = sandbox::lmdb(&work.path(format!("petal-data/petal{schema}.lmdb")));
    let opened = environment
        .open_databases_and_commit(environment.read_txn().unwrap(), |opener, snapshot| {
            let rows = opener.open_database(snapshot, Some("cf1"))?;
            Ok::<_, heed::Error>(CommitOrAbort::<_, ()>::Commit(rows))
        })
        .unwrap();
    (environment, opened.commit().unwrap().unwrap())
}

/// Keys and rows in the order of their blocks.
fn rows(work: &Workplace, schema: u32) -> Vec<(u64, Vec<u8>)> {
    let (environment, rows) = database(work, schema);
    let snapshot = environment.read_txn().unwrap();
    let row = |row: heed::Result<(u64, &[u8])>| {
        let (key, text) = row.unwrap().1.split_first_chunk().unwrap();
        (u64::from_le_bytes(*key), text.to_vec())
    };
    rows.iter(&snapshot).unwrap().map(row).collect()
}

pub const LMDB: Target = Target {
    turn: nobody_waits,
    is_there: || true,
    url: |work| format!("lmdb:{}", work.path("petal-data").display()),
    flags: &[],
    settings: Settings::default,
    block_size: 4096,
    commits: ("commits", false),
    look: |work, schema| {
        let text = |row: Vec<u8>| String::from_utf8(row[..row.len() / 19].to_vec()).unwrap();
        rows(work, schema).into_iter().map(|(key, row)| (key, text(row))).collect()
    },
    delete_half: Some(|work| {
        let (environment, rows) = database(work, 1);
        let mut change = environment.write_txn().unwrap();
        let even = |row: heed::Result<(u64, &[u8])>| {
            let (block, row) = row.unwrap();
            (row[0] % 2 == 0).then_some(block)
        };
        let blocks: Vec<u64> = rows.iter(&change).unwrap().filter_map(even).collect();
        for block in blocks {
            assert!(rows.delete(&mut change, &block).unwrap());
        }
        change.commit().unwrap();
    }),
    broken: |work| {
        let path = work.write("in-the-way", "a file").display().to_string();
        (format!("lmdb:{path}"), path)
    },
    data: Some("petal-data"),
    is_traced: true,
    // It has no log.
    log: Some(|work, schema| work.path(format!("petal-data/petal{schema}.log"))),
    order: Some(|work, schema| rows(work, schema).into_iter().map(|row| row.0).collect()),
    // No lock of another process makes its writer wait; a unit test of the engine holds its own.
    hold: None,
};
