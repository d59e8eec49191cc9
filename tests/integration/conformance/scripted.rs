//! The scripted engine, which has no database.

use std::collections::BTreeMap;

use petal_model::settings::Settings;

use super::{Target, nobody_waits};
use crate::support::Workplace;

/// The stamps of its rows, read from the file past petal.
fn scripted_rows(work: &Workplace, schema: u32) -> BTreeMap<u64, String> {
    let bytes = std::fs::read(work.path(format!("petal-data/petal{schema}.rows"))).unwrap();
    let rows = bytes[32..].chunks_exact(8);
    (1..)
        .zip(rows.map(|row| format!("{:016x}", u64::from_le_bytes(row.try_into().unwrap()))))
        .collect()
}

pub const SCRIPTED: Target = Target {
    url: |work| {
        let times = "select_us=20&scan_us=50&update_us=40&load_us=50";
        format!("scripted:{}?{times}", work.path("petal-data").display())
    },
    flags: &[],
    settings: Settings::default,
    look: scripted_rows,
    delete_half: Some(|work| {
        let path = work.path("petal-data/petal1.rows");
        let mut bytes = std::fs::read(&path).unwrap();
        for row in bytes[32..].chunks_exact_mut(8).skip(1).step_by(2) {
            row.fill(0xff);
        }
        std::fs::write(&path, bytes).unwrap();
    }),
    broken: |work| {
        let path = work.write("in-the-way", "a file").display().to_string();
        (format!("scripted:{path}"), path)
    },
    turn: nobody_waits,
    is_there: || true,
    block_size: 8192,
    commits: ("commits", false),
};
