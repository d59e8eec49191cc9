//! The bare device, on a file: through io_uring and through pread.

use std::collections::BTreeMap;
use std::time::Duration;

use petal_device::{
    block,
    layout::{TargetContent, TargetHeader},
};
use petal_settings::{Settings, Verify};

use super::{Target, nobody_waits};
use crate::support::Workplace;

/// Reads the blocks again and again until two looks agree: background writers may still be at work.
fn device_look(work: &Workplace, schema: u32) -> BTreeMap<u64, String> {
    let mut last = device_rows(work, schema);
    for _ in 0..50 {
        std::thread::sleep(Duration::from_millis(100));
        let now = device_rows(work, schema);
        if now == last {
            break;
        }
        last = now;
    }
    last
}

fn device_rows(work: &Workplace, schema: u32) -> BTreeMap<u64, String> {
    device_blocks(work, schema).into_iter().collect()
}

/// Keys and texts in the order of their blocks.
fn device_blocks(work: &Workplace, schema: u32) -> Vec<(u64, String)> {
    let bytes = std::fs::read(work.path("petal.dat")).unwrap();
    let TargetContent::Petal(header) = TargetHeader::find(&bytes) else {
        panic!("no header of petal's")
    };
    let area = header.schema(schema).unwrap();
    let main = &bytes[area.main_offset as usize..];
    let blocks = main.chunks_exact(header.block_bytes as usize).take(area.rows as usize);
    let row = |block: &[u8]| {
        let c2 = block::column(block, 0).iter().map(|byte| char::from(*byte)).collect();
        (block::key(block), c2)
    };
    blocks.map(row).collect()
}

pub const DEVICE: Target = Target {
    url: |work| format!("device:{}?log=2M", work.path("petal.dat").display()),
    flags: &["--io-depth", "8", "--verify", "checksum"],
    settings: || Settings { io_depth: 8, verify: Verify::Checksum, ..Settings::default() },
    block_size: 8192,
    turn: nobody_waits,
    is_there: || true,
    commits: ("commits", false),
    look: device_look,
    // A block that is not what was written there is an error of its own.
    delete_half: None,
    broken: |work| {
        let path = work.write("in-the-way/x", "a folder").parent().unwrap().display().to_string();
        (format!("device:{path}"), path)
    },
    data: Some("petal.dat"),
    is_traced: false,
    log: None,
    order: Some(|work, schema| device_blocks(work, schema).into_iter().map(|row| row.0).collect()),
    hold: None,
};

pub const DEVICE_PREAD: Target = Target {
    url: |work| format!("device:{}?log=2M&io=pread", work.path("petal.dat").display()),
    flags: &["--direct-io", "FALSE"],
    settings: || Settings { direct_io: Some(false), ..Settings::default() },
    block_size: 4096,
    is_traced: true,
    ..DEVICE
};
