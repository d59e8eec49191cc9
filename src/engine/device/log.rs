//! The log: an area that was written before, written round and round, a record for each UPDATE. It
//! is there for its cost, as a database pays it before it may say that a commit is durable; petal
//! never reads it back.

use std::sync::Mutex;

use super::block::{noise, updated_columns};
use crate::settings::RedoStress;
use crate::stats::ledger::locked;
use crate::workload::row::{COLUMNS, Filler};

/// Log writes are multiples of this, as direct requests need.
pub const LOG_BLOCK_BYTES: u64 = 4096;
/// A record longer than this is written in pieces.
pub const PIECE_BYTES_MAX: u64 = 256 << 10;
/// Redo of one row: what two columns, or all nineteen, take in a database's log.
const LITE_ROW_BYTES: u64 = 200;
const HEAVY_ROW_BYTES: u64 = 2500;
const RECORD_HEAD_BYTES: u64 = 48;
const MARK: &[u8; 4] = b"PLOG";

pub fn row_bytes(redo_stress: RedoStress) -> u64 {
    if updated_columns(redo_stress) == COLUMNS { HEAVY_ROW_BYTES } else { LITE_ROW_BYTES }
}

/// Bytes that the record of an UPDATE takes in the log, padded to whole log blocks.
pub fn record_bytes(redo_stress: RedoStress, rows: u64) -> u64 {
    (RECORD_HEAD_BYTES + rows * row_bytes(redo_stress)).next_multiple_of(LOG_BLOCK_BYTES)
}

/// Where the next record goes.
pub struct Log {
    offset: u64,
    bytes: u64,
    position: Mutex<u64>,
}

impl Log {
    pub fn new(offset: u64, bytes: u64) -> Self {
        Self { offset, bytes, position: Mutex::new(0) }
    }

    /// The longest piece that can be written at once.
    pub fn piece_bytes_max(&self) -> u64 {
        PIECE_BYTES_MAX.min(self.bytes)
    }

    /// The place of the next `bytes`, at most a piece; at the end of the area it starts anew.
    pub fn place(&self, bytes: u64) -> u64 {
        let mut position = locked(&self.position);
        if *position + bytes > self.bytes {
            *position = 0;
        }
        let place = self.offset + *position;
        *position += bytes;
        place
    }
}

/// Fills a piece of a record: it says whose it is, the rest is as compressible as the rows.
pub fn fill(piece: &mut [u8], place: u64, stamp: u64, filler: Filler) {
    let (head, body) = piece.split_at_mut(RECORD_HEAD_BYTES as usize);
    head.fill(0);
    head[..4].copy_from_slice(MARK);
    head[8..16].copy_from_slice(&place.to_le_bytes());
    head[16..24].copy_from_slice(&stamp.to_le_bytes());
    match filler {
        Filler::Random => noise(body, stamp, stamp ^ place),
        other => other.fill(body, stamp, 0),
    }
    let checksum = crc32fast::hash(&piece[8..]);
    piece[4..8].copy_from_slice(&checksum.to_le_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn records_stay_inside_and_do_not_overlap_in_a_round(blocks in 1u64..64, sizes in proptest::collection::vec(1u64..8, 1..200)) {
            let bytes = (blocks + 8) * LOG_BLOCK_BYTES;
            let log = Log::new(1 << 20, bytes);
            let mut last_end = 1 << 20;
            for size in sizes {
                let size = size * LOG_BLOCK_BYTES;
                let place = log.place(size);
                prop_assert!(place >= 1 << 20 && place + size <= (1 << 20) + bytes);
                prop_assert!(place == last_end || place == 1 << 20);
                last_end = place + size;
            }
        }
    }

    #[test]
    fn sizes_are_the_stated_ones() {
        assert_eq!(record_bytes(RedoStress::Lite, 64), 16 << 10);
        assert_eq!(record_bytes(RedoStress::Heavy, 64), 160 << 10);
        assert_eq!(record_bytes(RedoStress::Lite, 1), 4096);
    }
}
