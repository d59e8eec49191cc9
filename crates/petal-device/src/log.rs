//! Log: an area written in a circle, with a record for each UPDATE. It exists for its cost, which a
//! database pays before a commit is durable. Nothing is recovered from it; the verification of a
//! ledger checks whether a record is whole. As in a database, a record is overwritten only after a
//! checkpoint made its changed blocks durable.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use super::block::noise;
use petal_settings::RedoStress;
use petal_workload::row::{COLUMNS, Filler, changed_columns};

/// Unit of log writes, as direct requests need.
pub const LOG_BLOCK_BYTES: u64 = 4096;
/// Maximum size of a piece; longer records are written in several.
pub const PIECE_BYTES_MAX: u64 = 256 << 10;
/// Redo of one row in a database's log: `LITE` changes two columns, `HEAVY` all nineteen.
const LITE_ROW_BYTES: u64 = 200;
const HEAVY_ROW_BYTES: u64 = 2500;
const RECORD_HEAD_BYTES: u64 = 48;
const MARK: &[u8; 4] = b"PLOG";
/// Interval at which a waiting operation checks whether it is cut.
pub const LOOK_EVERY: Duration = Duration::from_millis(20);

pub fn row_bytes(redo_stress: RedoStress) -> u64 {
    if changed_columns(redo_stress) == COLUMNS { HEAVY_ROW_BYTES } else { LITE_ROW_BYTES }
}

/// Returns the size of an UPDATE's record in the log, padded to whole log blocks.
pub fn record_bytes(redo_stress: RedoStress, rows: u64) -> u64 {
    (RECORD_HEAD_BYTES + rows * row_bytes(redo_stress)).next_multiple_of(LOG_BLOCK_BYTES)
}

/// Area of the log, and its use.
pub struct Log {
    offset: u64,
    bytes: u64,
    round: Mutex<Round>,
    freed: Condvar,
    /// Set if an UPDATE waits for room.
    is_wanted: AtomicBool,
}

/// Positions in the log: they count its bytes since the start and never decrease.
#[derive(Default)]
struct Round {
    /// End of the last record.
    head: u64,
    /// Position before which records are free: the blocks they changed are durable.
    tail: u64,
    /// Positions of records whose UPDATEs are in progress.
    under_way: BTreeSet<u64>,
}

impl Round {
    fn first_under_way(&self) -> u64 {
        self.under_way.first().copied().unwrap_or(self.head)
    }
}

/// Room of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogRoom {
    pub position: u64,
    /// Offset on the target.
    pub offset: u64,
}

impl Log {
    pub fn new(offset: u64, bytes: u64) -> Self {
        Self {
            offset,
            bytes,
            round: Mutex::default(),
            freed: Condvar::new(),
            is_wanted: AtomicBool::new(false),
        }
    }

    /// Returns the maximum size of a record.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the maximum size of a piece that can be written at once.
    pub fn piece_bytes_max(&self) -> u64 {
        PIECE_BYTES_MAX.min(self.bytes)
    }

    /// Reserves contiguous room for a record. Returns `None` while it holds a record whose blocks
    /// are not durable: this may be the only copy of an acknowledged UPDATE.
    pub fn room(&self, bytes: u64) -> Option<LogRoom> {
        self.next(&mut self.round.lock(), bytes)
    }

    /// Waits for room; returns `None` if the operation was cut meanwhile.
    pub fn wait_for_room(&self, bytes: u64, is_cut: &dyn Fn() -> bool) -> Option<LogRoom> {
        wait_until(&self.round, &self.freed, is_cut, |round| self.next(round, bytes))
    }

    fn next(&self, round: &mut Round, bytes: u64) -> Option<LogRoom> {
        let at = round.head % self.bytes;
        let position =
            if at + bytes > self.bytes { round.head - at + self.bytes } else { round.head };
        let tail = if round.tail == round.head { position } else { round.tail };
        if position + bytes > tail + self.bytes {
            self.is_wanted.store(true, Ordering::Release);
            return None;
        }
        (round.head, round.tail) = (position + bytes, tail);
        round.under_way.insert(position);
        Some(LogRoom { position, offset: self.offset + position % self.bytes })
    }

    /// Ends the UPDATE of a record: its blocks are in the dirty set, or it changes none.
    pub fn over(&self, position: u64) {
        self.round.lock().under_way.remove(&position);
    }

    /// Returns the position of the first UPDATE in progress, or the end of the last record.
    pub fn first_under_way(&self) -> u64 {
        self.round.lock().first_under_way()
    }

    /// Frees all records before a position: their blocks are durable.
    pub fn free_before(&self, position: u64) {
        let mut round = self.round.lock();
        round.tail = round.tail.max(position);
        drop(round);
        self.freed.notify_all();
    }

    /// True if an UPDATE waits for room, and a checkpoint can make some.
    pub fn wants_checkpoint(&self) -> bool {
        self.is_wanted.load(Ordering::Acquire) && {
            let round = self.round.lock();
            round.first_under_way() > round.tail
        }
    }

    /// Clears the request for room, which is about to be made: an UPDATE that gets none sets it
    /// again.
    pub fn begin_checkpoint(&self) {
        self.is_wanted.store(false, Ordering::Release);
    }
}

/// Retries until it succeeds, each time something is `freed`; returns `None` if cut meanwhile.
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
        // The lock is held from the check to the sleep; otherwise a wake-up in between would be
        // lost.
        freed.wait_for(&mut state, LOOK_EVERY);
    }
}

/// Fills a piece of a record with its identity; the rest is as compressible as the rows.
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

/// Returns the stamp of the UPDATE whose piece begins here, if one was written at this position.
pub fn stamp(piece: &[u8], place: u64) -> Option<u64> {
    let number = |at: usize| piece.get(at..at + 8)?.try_into().ok().map(u64::from_le_bytes);
    let is_one = piece.starts_with(MARK) && number(8) == Some(place);
    number(16).filter(|_| is_one)
}

/// True if a piece is unchanged since it was written.
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
                let room = log.room(size).unwrap();
                let place = room.offset;
                prop_assert!(place >= 1 << 20 && place + size <= (1 << 20) + bytes);
                prop_assert!(place == last_end || place == 1 << 20);
                last_end = place + size;
                log.over(room.position);
                log.free_before(room.position + size);
            }
        }

        #[test]
        fn a_record_is_overwritten_only_after_its_blocks_are_durable(
            blocks in 8u64..24,
            steps in proptest::collection::vec((1u64..8, 0usize..4, 0usize..4), 1..300),
        ) {
            let log = Log::new(1 << 20, blocks * LOG_BLOCK_BYTES);
            // Records in progress, and acknowledged ones with blocks that are not durable.
            let (mut under_way, mut dirty) = (Vec::new(), Vec::new());
            for (size, ends, durable) in steps {
                let size = size * LOG_BLOCK_BYTES;
                if let Some(room) = log.room(size) {
                    for &(there, bytes) in under_way.iter().chain(&dirty) {
                        let there: LogRoom = there;
                        prop_assert!(there.offset + bytes <= room.offset
                            || room.offset + size <= there.offset);
                    }
                    under_way.push((room, size));
                } else {
                    prop_assert!(!(under_way.is_empty() && dirty.is_empty()));
                    prop_assert_eq!(log.wants_checkpoint(), log.first_under_way() > log.round.lock().tail);
                    prop_assert_eq!(log.wait_for_room(size, &|| true), None);
                }
                for _ in 0..ends.min(under_way.len()) {
                    // They end in a different order from their start.
                    let ended = under_way.swap_remove(under_way.len() / 2);
                    dirty.push(ended);
                    log.over(ended.0.position);
                }
                dirty.truncate(dirty.len().saturating_sub(durable));
                let first_dirty = dirty.iter().map(|(room, _)| room.position).min();
                let first = log.first_under_way();
                log.free_before(first_dirty.map_or(first, |dirty| dirty.min(first)));
            }
        }
    }

    #[test]
    fn a_waiter_for_room_gets_it_when_the_blocks_are_durable() {
        let log = Log::new(0, 2 * LOG_BLOCK_BYTES);
        let rooms = [(); 2].map(|()| log.room(LOG_BLOCK_BYTES).unwrap());
        assert_eq!(rooms.map(|room| room.offset), [0, LOG_BLOCK_BYTES]);
        rooms.iter().for_each(|room| log.over(room.position));
        assert_eq!(log.room(LOG_BLOCK_BYTES), None, "written, and its blocks are dirty");
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| log.wait_for_room(LOG_BLOCK_BYTES, &|| false));
            log.free_before(rooms[1].position);
            assert_eq!(waiting.join().unwrap().unwrap().offset, 0);
        });
        // The whole area is used, although a piece at its end remains free.
        let log = Log::new(0, 4 * LOG_BLOCK_BYTES);
        let first = log.room(LOG_BLOCK_BYTES).unwrap();
        log.over(first.position);
        log.free_before(log.first_under_way());
        assert_eq!(log.room(4 * LOG_BLOCK_BYTES).unwrap().offset, 0);
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
