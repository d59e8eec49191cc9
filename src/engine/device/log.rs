//! The log: an area written round and round, a record for each UPDATE. It is there for its cost,
//! which a database pays before a commit is durable. Nothing is recovered from it; the verification
//! of a ledger looks whether a record is whole.

use parking_lot::{Condvar, Mutex};

use std::time::Duration;

use super::block::noise;
use crate::settings::RedoStress;
use crate::workload::row::{COLUMNS, Filler, changed_columns};

/// Log writes are multiples of this, as direct requests need.
pub const LOG_BLOCK_BYTES: u64 = 4096;
/// A record longer than this is written in pieces.
pub const PIECE_BYTES_MAX: u64 = 256 << 10;
/// Redo of one row: what two columns, or all nineteen, take in a database's log.
const LITE_ROW_BYTES: u64 = 200;
const HEAVY_ROW_BYTES: u64 = 2500;
const RECORD_HEAD_BYTES: u64 = 48;
const MARK: &[u8; 4] = b"PLOG";
/// The interval at which a wait looks whether it is cut.
pub const LOOK_EVERY: Duration = Duration::from_millis(20);

pub fn row_bytes(redo_stress: RedoStress) -> u64 {
    if changed_columns(redo_stress) == COLUMNS { HEAVY_ROW_BYTES } else { LITE_ROW_BYTES }
}

/// Bytes that the record of an UPDATE takes in the log, padded to whole log blocks.
pub fn record_bytes(redo_stress: RedoStress, rows: u64) -> u64 {
    (RECORD_HEAD_BYTES + rows * row_bytes(redo_stress)).next_multiple_of(LOG_BLOCK_BYTES)
}

/// The offset of the next record.
pub struct Log {
    offset: u64,
    bytes: u64,
    round: Mutex<Round>,
    written: Condvar,
}

#[derive(Default)]
struct Round {
    position: u64,
    /// Pieces that are being written: where each begins and ends.
    in_flight: Vec<(u64, u64)>,
}

impl Log {
    pub fn new(offset: u64, bytes: u64) -> Self {
        Self { offset, bytes, round: Mutex::default(), written: Condvar::new() }
    }

    /// The longest piece that can be written at once.
    pub fn piece_bytes_max(&self) -> u64 {
        PIECE_BYTES_MAX.min(self.bytes)
    }

    /// The place of the next `bytes`, at most a piece; from the area's end it starts anew. None
    /// while a piece of the round before is being written there: two writes of one place may end in
    /// any order. Whoever got a place says when its write has ended ([`Log::ended`]).
    pub fn place(&self, bytes: u64) -> Option<u64> {
        self.next(&mut self.round.lock(), bytes)
    }

    /// Waits for the place; None if it was cut meanwhile.
    pub fn wait_for_place(&self, bytes: u64, is_cut: &dyn Fn() -> bool) -> Option<u64> {
        wait_until(&self.round, &self.written, is_cut, |round| self.next(round, bytes))
    }

    fn next(&self, round: &mut Round, bytes: u64) -> Option<u64> {
        let position = if round.position + bytes > self.bytes { 0 } else { round.position };
        let (from, to) = (self.offset + position, self.offset + position + bytes);
        if round.in_flight.iter().any(|&(begin, end)| begin < to && from < end) {
            return None;
        }
        round.position = position + bytes;
        round.in_flight.push((from, to));
        Some(from)
    }

    /// The write of a piece at this place has ended, well or not.
    pub fn ended(&self, place: u64) {
        let mut round = self.round.lock();
        if let Some(at) = round.in_flight.iter().position(|&(begin, _)| begin == place) {
            round.in_flight.swap_remove(at);
        }
        drop(round);
        self.written.notify_all();
    }
}

/// Tries until it succeeds, again whenever something is `freed`; None if it was cut meanwhile.
pub fn wait_until<T, R>(
    state: &Mutex<T>,
    freed: &Condvar,
    is_cut: &dyn Fn() -> bool,
    attempt: impl Fn(&mut T) -> Option<R>,
) -> Option<R> {
    let mut state = state.lock();
    loop {
        if let Some(result) = attempt(&mut state) {
            return Some(result);
        }
        if is_cut() {
            return None;
        }
        // Held from the look to the sleep, or what is freed between would go unseen.
        freed.wait_for(&mut state, LOOK_EVERY);
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

/// The stamp of the UPDATE whose piece begins here, if one was written to this place.
pub fn stamp(piece: &[u8], place: u64) -> Option<u64> {
    let number = |at: usize| piece.get(at..at + 8)?.try_into().ok().map(u64::from_le_bytes);
    let is_one = piece.starts_with(MARK) && number(8) == Some(place);
    number(16).filter(|_| is_one)
}

/// True if a piece is as it was written.
pub fn is_whole(piece: &[u8]) -> bool {
    let kept = piece.get(4..8).and_then(|kept| kept.try_into().ok()).map(u32::from_le_bytes);
    piece.get(8..).is_some_and(|rest| kept == Some(crc32fast::hash(rest)))
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
                let place = log.place(size).unwrap();
                prop_assert!(place >= 1 << 20 && place + size <= (1 << 20) + bytes);
                prop_assert!(place == last_end || place == 1 << 20);
                last_end = place + size;
                log.ended(place);
            }
        }

        #[test]
        fn what_is_being_written_is_nobody_elses(
            blocks in 8u64..24,
            steps in proptest::collection::vec((1u64..8, 0usize..4), 1..300),
        ) {
            let log = Log::new(1 << 20, blocks * LOG_BLOCK_BYTES);
            let mut in_flight: Vec<(u64, u64)> = Vec::new();
            for (size, ends) in steps {
                let size = size * LOG_BLOCK_BYTES;
                if let Some(place) = log.place(size) {
                    prop_assert!(in_flight.iter().all(|&(at, size_there)| at + size_there <= place
                        || place + size <= at));
                    in_flight.push((place, size));
                } else {
                    prop_assert!(!in_flight.is_empty());
                    prop_assert_eq!(log.wait_for_place(size, &|| true), None);
                }
                for _ in 0..ends.min(in_flight.len()) {
                    // Not in the order in which they began.
                    log.ended(in_flight.swap_remove(in_flight.len() / 2).0);
                }
            }
        }
    }

    #[test]
    fn who_waits_for_a_place_gets_it_when_the_write_there_has_ended() {
        let log = Log::new(0, 2 * LOG_BLOCK_BYTES);
        assert_eq!(log.place(LOG_BLOCK_BYTES), Some(0));
        assert_eq!(log.place(LOG_BLOCK_BYTES), Some(LOG_BLOCK_BYTES));
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| log.wait_for_place(LOG_BLOCK_BYTES, &|| false));
            // The other one's end does not make room where the next goes.
            log.ended(LOG_BLOCK_BYTES);
            log.ended(0);
            assert_eq!(waiting.join().unwrap(), Some(0));
        });
    }

    #[test]
    fn a_piece_is_known_by_its_place_and_whole_by_its_checksum() {
        let mut piece = vec![0; 8192];
        fill(&mut piece, 1 << 20, 77, Filler::Random);
        assert_eq!((stamp(&piece, 1 << 20), stamp(&piece, 4096)), (Some(77), None));
        assert!(is_whole(&piece) && !is_whole(&piece[..4096]));
        piece[8000] ^= 1;
        assert!(!is_whole(&piece));
        assert_eq!(stamp(&piece[..20], 1 << 20), None);
    }

    #[test]
    fn sizes_are_the_stated_ones() {
        assert_eq!(record_bytes(RedoStress::Lite, 64), 16 << 10);
        assert_eq!(record_bytes(RedoStress::Heavy, 64), 160 << 10);
        assert_eq!(record_bytes(RedoStress::Lite, 1), 4096);
    }
}
