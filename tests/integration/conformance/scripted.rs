//! The scripted engine, which has no database. It lies if a test of the suite asks for one.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fs::File;

use petal_engine::file_lock::FileLock;
use petal_scripted::lies::Lie;
use petal_settings::Settings;

use super::{Target, nobody_waits};
use crate::support::Workplace;

thread_local! {
    /// The promise that engines of this thread break.
    pub static LIE: Cell<Option<Lie>> = const { Cell::new(None) };
}

const BLOCK_BYTES: usize = 8192;
const COLUMN_BYTES: usize = 128;

/// Keys and texts of its rows in the order of their blocks, read from the file past petal.
fn blocks(work: &Workplace, schema: u32) -> Vec<(u64, String)> {
    let bytes = std::fs::read(work.path(format!("petal-data/petal{schema}.rows"))).unwrap();
    let main = bytes.chunks_exact(BLOCK_BYTES).skip(1 + super::SCAN_ROWS as usize);
    main.map(|block| {
        let (key, text) = block.split_first_chunk().unwrap();
        let text = String::from_utf8_lossy(&text[..COLUMN_BYTES]);
        (u64::from_le_bytes(*key), text.into_owned())
    })
    .collect()
}

fn url(work: &Workplace, folder: &str) -> String {
    let lie = LIE.get().map_or(String::new(), |lie| format!("&lie={}", lie.name()));
    let times = "select_us=20&scan_us=50&update_us=40&load_us=50";
    format!("scripted:{}?{times}{lie}", work.path(folder).display())
}

pub const SCRIPTED: Target = Target {
    url: |work| url(work, "petal-data"),
    flags: &[],
    settings: Settings::default,
    look: |work, schema| blocks(work, schema).into_iter().collect::<BTreeMap<_, _>>(),
    delete_half: Some(|work| {
        let path = work.path("petal-data/petal1.rows");
        let mut bytes = std::fs::read(&path).unwrap();
        let main = bytes.chunks_exact_mut(BLOCK_BYTES).skip(1 + super::SCAN_ROWS as usize);
        for block in main.filter(|block| block[0] % 2 == 0) {
            block[..8].fill(0xff);
        }
        std::fs::write(&path, bytes).unwrap();
    }),
    broken: |work| {
        let path = work.write("in-the-way", "a file").display().to_string();
        (url(work, "in-the-way"), path)
    },
    turn: nobody_waits,
    is_there: || true,
    block_size: BLOCK_BYTES as u32,
    commits: ("commits", false),
    data: Some("petal-data"),
    is_traced: true,
    log: Some(|work, schema| work.path(format!("petal-data/petal{schema}.log"))),
    order: Some(|work, schema| blocks(work, schema).into_iter().map(|(key, _)| key).collect()),
    hold: Some(|work| {
        let log = work.path("petal-data/petal1.log");
        let log = File::options().append(true).create(true).open(log).unwrap();
        Box::new(FileLock::on(log).unwrap())
    }),
};
