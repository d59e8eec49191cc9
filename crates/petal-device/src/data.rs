//! Loaded data in use: the location of each key, versions that were seen, and keys that UPDATEs
//! hold.

use std::path::Path;
use std::sync::atomic::{AtomicU8, Ordering};

use parking_lot::{Condvar, Mutex};

use super::block::Identity;
use super::layout::{SchemaArea, TargetHeader};
use super::log::{Log, wait_until};
use petal_engine::Result;
use petal_engine::server::failure::not_loaded;
use petal_workload::row::Filler;
use petal_workload::scatter::Permutation;

/// All data that the header describes.
pub struct TargetData {
    pub header: TargetHeader,
    pub areas: Vec<Area>,
    pub log: Log,
}

/// Schema in use.
pub struct Area {
    pub about: SchemaArea,
    pub filler: Filler,
    block_bytes: u64,
    permutation: Permutation,
    versions: Versions,
    pub held: HeldRanges,
}

impl TargetData {
    /// Opens the data; if `tracked`, versions are remembered to find lost writes.
    pub fn new(header: TargetHeader, tracked: bool) -> Self {
        let block_bytes = u64::from(header.block_bytes);
        let areas = header.schemas.iter().map(|about| Area {
            filler: about.filler(),
            block_bytes,
            permutation: about.permutation(),
            versions: Versions::new(if tracked { about.rows } else { 0 }),
            held: HeldRanges::default(),
            about: about.clone(),
        });
        let log = Log::new(header.log_offset(), header.log_bytes);
        Self { areas: areas.collect(), log, header }
    }

    /// Returns the index of a schema among the areas of the target at `path`, or an error if it is
    /// missing.
    pub fn position(&self, schema: u32, path: &Path) -> Result<usize> {
        let position = self.areas.iter().position(|area| area.about.number == schema);
        position.ok_or_else(|| not_loaded(path.display(), schema))
    }
}

impl Area {
    /// Returns the identity of a key's block.
    pub fn identity(&self, key: u64) -> Identity {
        let block = self.permutation.apply(key - 1);
        self.named(self.about.main_offset + block * self.block_bytes, key)
    }

    /// Returns the identity of a main block, numbered from 0.
    pub fn main_identity(&self, number: u64) -> Identity {
        let key = self.permutation.invert(number) + 1;
        self.named(self.about.main_offset + number * self.block_bytes, key)
    }

    /// Returns the identity of a scan block, numbered from 0.
    pub fn scan_identity(&self, number: u64) -> Identity {
        self.named(self.about.scan_offset + number * self.block_bytes, number + 1)
    }

    fn named(&self, address: u64, key: u64) -> Identity {
        let SchemaArea { generation, number, .. } = self.about;
        Identity { address, generation, schema: number, key }
    }

    /// Returns the version mark that a read of this block, begun now, must match or exceed.
    pub fn version_mark(&self, identity: &Identity) -> u8 {
        self.versions.mark(self.place(identity))
    }

    /// Records the version that a read found; returns false if it is older than `mark`.
    pub fn note_version(&self, identity: &Identity, version: u32, mark: u8) -> bool {
        self.versions.note_version(self.place(identity), version, mark)
    }

    /// Records that this version is on the target.
    pub fn wrote(&self, address: u64, version: u32) {
        let place = (address - self.about.main_offset) / self.block_bytes;
        self.versions.wrote(place, version);
    }

    /// True if a main block has this address.
    pub fn holds(&self, address: u64) -> bool {
        let bytes = self.about.rows * self.block_bytes;
        (self.about.main_offset..self.about.main_offset + bytes).contains(&address)
    }

    fn place(&self, identity: &Identity) -> u64 {
        (identity.address - self.about.main_offset) / self.block_bytes
    }
}

/// Last version of each block known to be on the target, in one byte each, so that the next read
/// finds a lost write. 0 means unknown.
struct Versions(Vec<AtomicU8>);

/// Number of marks: they are 1 to 255, and wrap around.
const MARKS: u32 = 255;

fn mark_of(version: u32) -> u8 {
    (version % MARKS) as u8 + 1
}

/// True if the found mark precedes the expected one by less than half a round.
fn is_behind(found: u8, expected: u8) -> bool {
    let behind = (MARKS + u32::from(expected) - u32::from(found)) % MARKS;
    (1..MARKS / 2).contains(&behind)
}

impl Versions {
    fn new(blocks: u64) -> Self {
        Self((0..blocks).map(|_| AtomicU8::new(0)).collect())
    }

    fn mark(&self, place: u64) -> u8 {
        self.0.get(place as usize).map_or(0, |mark| mark.load(Ordering::Acquire))
    }

    fn note_version(&self, place: u64, version: u32, expected: u8) -> bool {
        let Some(mark) = self.0.get(place as usize) else { return true };
        let found = mark_of(version);
        if expected == 0 {
            // The first read sets the mark, unless a write set it meanwhile.
            let _ = mark.compare_exchange(0, found, Ordering::AcqRel, Ordering::Relaxed);
            return true;
        }
        !is_behind(found, expected)
    }

    fn wrote(&self, place: u64, version: u32) {
        if let Some(mark) = self.0.get(place as usize) {
            mark.store(mark_of(version), Ordering::Release);
        }
    }
}

/// Key ranges held by UPDATEs in progress: two overlapping UPDATEs run one after the other. Each
/// UPDATE takes only one range, so that no deadlock can occur.
#[derive(Default)]
pub struct HeldRanges {
    ranges: Mutex<Vec<(u64, u64)>>,
    freed: Condvar,
}

impl HeldRanges {
    pub fn try_take(&self, first: u64, last: u64) -> bool {
        take_free(&mut self.ranges.lock(), first, last)
    }

    /// Waits for the range; returns false if the operation was cut meanwhile.
    pub fn take(&self, first: u64, last: u64, is_cut: &dyn Fn() -> bool) -> bool {
        let attempt = |ranges: &mut _| take_free(ranges, first, last).then_some(());
        wait_until(&self.ranges, &self.freed, is_cut, attempt).is_some()
    }

    pub fn give_back(&self, first: u64, last: u64) {
        let mut ranges = self.ranges.lock();
        if let Some(at) = ranges.iter().position(|&range| range == (first, last)) {
            ranges.swap_remove(at);
        }
        drop(ranges);
        self.freed.notify_all();
    }
}

fn take_free(ranges: &mut Vec<(u64, u64)>, first: u64, last: u64) -> bool {
    let is_free = ranges.iter().all(|&(from, to)| last < from || to < first);
    if is_free {
        ranges.push((first, last));
    }
    is_free
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn older_versions_are_found_and_newer_ones_pass(version in 1000u32..u32::MAX - 200, steps in 1u32..120) {
            let versions = Versions::new(1);
            versions.wrote(0, version);
            let mark = versions.mark(0);
            prop_assert!(versions.note_version(0, version, mark));
            prop_assert!(versions.note_version(0, version + steps, mark));
            prop_assert!(!versions.note_version(0, version - steps, mark));
        }
    }

    #[test]
    fn an_unknown_version_is_learnt_from_the_first_read() {
        let versions = Versions::new(2);
        assert_eq!(versions.mark(1), 0);
        assert!(versions.note_version(1, 9, 0));
        assert!(!versions.note_version(1, 8, versions.mark(1)));
        assert_eq!(versions.mark(0), 0);
        // Without tracking, every version passes.
        assert!(Versions::new(0).note_version(5, 1, 0));
    }

    #[test]
    fn ranges_that_overlap_wait_for_each_other() {
        let held = HeldRanges::default();
        assert!(held.try_take(1, 10));
        assert!(!held.try_take(10, 12) && !held.try_take(0, 1) && !held.try_take(3, 4));
        assert!(held.try_take(11, 12));
        assert!(!held.take(5, 6, &|| true), "cut");
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| held.take(5, 6, &|| false));
            held.give_back(1, 10);
            assert!(waiting.join().unwrap());
        });
        assert!(!held.try_take(6, 6));
    }
}
