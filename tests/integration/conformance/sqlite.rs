//! SQLite, past the page cache and through it.

use std::collections::BTreeMap;

use petal_settings::Settings;

use super::{Target, nobody_waits};
use crate::support::Workplace;

fn sqlite_look(work: &Workplace, schema: u32) -> BTreeMap<u64, String> {
    // No operation is under way: closing a connection drops the locks of this process.
    let path = work.path(format!("petal-data/petal{schema}.db"));
    let reader = rusqlite::Connection::open(path).unwrap();
    let mut rows = reader.prepare("SELECT custid, c2 FROM cf1").unwrap();
    let rows = rows.query_map([], |row| Ok((row.get::<_, i64>(0)? as u64, row.get(1)?))).unwrap();
    rows.map(Result::unwrap).collect()
}

pub const SQLITE: Target = Target {
    turn: nobody_waits,
    is_there: || true,
    url: |work| format!("sqlite:{}", work.path("petal-data").display()),
    flags: &["--direct-io", "TRUE"],
    settings: || Settings { direct_io: Some(true), ..Settings::default() },
    block_size: 8192,
    commits: ("commits", false),
    look: sqlite_look,
    delete_half: Some(|work| {
        let path = work.path("petal-data/petal1.db");
        let writer = rusqlite::Connection::open(path).unwrap();
        writer.execute("DELETE FROM cf1 WHERE custid % 2 = 0", []).unwrap();
    }),
    broken: |work| {
        let path = work.write("in-the-way", "a file").display().to_string();
        (format!("sqlite:{path}"), path)
    },
    data: Some("petal-data"),
    is_traced: true,
    log: Some(|work, schema| work.path(format!("petal-data/petal{schema}.db-wal"))),
    order: Some(|work, schema| {
        let path = work.path(format!("petal-data/petal{schema}.db"));
        let reader = rusqlite::Connection::open(path).unwrap();
        let mut keys = reader.prepare("SELECT custid FROM cf1 ORDER BY rowid").unwrap();
        let keys = keys.query_map([], |row| row.get::<_, i64>(0)).unwrap();
        keys.map(|key| key.unwrap() as u64).collect()
    }),
    hold: Some(|work| {
        let writer = rusqlite::Connection::open(work.path("petal-data/petal1.db")).unwrap();
        writer.execute_batch("BEGIN IMMEDIATE").unwrap();
        Box::new(writer)
    }),
};

pub const SQLITE_BUFFERED: Target = Target {
    flags: &["--direct-io", "FALSE"],
    settings: || Settings { direct_io: Some(false), ..Settings::default() },
    block_size: 4096,
    ..SQLITE
};
