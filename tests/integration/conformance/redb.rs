//! redb, past the page cache and through it.

use petal_settings::Settings;
use redb::{Database, ReadableDatabase as _, ReadableTable as _, TableDefinition};

use super::{Target, nobody_waits};
use crate::support::Workplace;

const ROWS: TableDefinition<u64, &[u8]> = TableDefinition::new("cf1");

fn database(work: &Workplace, schema: u32) -> Database {
    Database::open(work.path(format!("petal-data/petal{schema}.redb"))).unwrap()
}

/// Keys and rows in the order of their blocks.
fn rows(work: &Workplace, schema: u32) -> Vec<(u64, Vec<u8>)> {
    let database = database(work, schema);
    let rows = database.begin_read().unwrap().open_table(ROWS).unwrap();
    let row = |row: redb::Result<(redb::AccessGuard<'_, u64>, redb::AccessGuard<'_, &[u8]>)>| {
        let row = row.unwrap().1;
        let (key, text) = row.value().split_first_chunk().unwrap();
        (u64::from_le_bytes(*key), text.to_vec())
    };
    rows.iter().unwrap().map(row).collect()
}

pub const REDB: Target = Target {
    turn: nobody_waits,
    is_there: || true,
    url: |work| format!("redb:{}", work.path("petal-data").display()),
    flags: &["--direct-io", "TRUE"],
    settings: || Settings { direct_io: Some(true), ..Settings::default() },
    block_size: 8192,
    commits: ("commits", false),
    look: |work, schema| {
        let text = |row: Vec<u8>| String::from_utf8(row[..row.len() / 19].to_vec()).unwrap();
        rows(work, schema).into_iter().map(|(key, row)| (key, text(row))).collect()
    },
    delete_half: Some(|work| {
        let change = database(work, 1).begin_write().unwrap();
        let mut blocks = change.open_table(ROWS).unwrap();
        blocks.retain(|_, row| row[0] % 2 == 1).unwrap();
        drop(blocks);
        change.commit().unwrap();
    }),
    broken: |work| {
        let path = work.write("in-the-way", "a file").display().to_string();
        (format!("redb:{path}"), path)
    },
    data: Some("petal-data"),
    is_traced: true,
    // It has no log.
    log: Some(|work, schema| work.path(format!("petal-data/petal{schema}.log"))),
    order: Some(|work, schema| rows(work, schema).into_iter().map(|row| row.0).collect()),
    // No lock of another process makes its writer wait; a unit test of the engine holds its own.
    hold: None,
};

pub const REDB_BUFFERED: Target = Target {
    flags: &["--direct-io", "FALSE"],
    settings: || Settings { direct_io: Some(false), ..Settings::default() },
    block_size: 4096,
    ..REDB
};
