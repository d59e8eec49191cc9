//! The guest's disk: blocks over an unchanged base, behind a volatile write cache in this process's
//! memory. A cut loses the cache's content, though each of its blocks may have been written before.

use std::collections::{BTreeMap, HashSet};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::by_name;
use petal_workload::scatter::mix;

/// Size of an atomic block write, as on drives with physical sectors of this size.
pub const BLOCK_BYTES: usize = 4096;
/// Time after which a drive writes a cached block.
const CACHED_FOR: Duration = Duration::from_secs(1);

/// Behaviour of a disk that is asked to flush its cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiskKind {
    Honest,
    /// Disk that acknowledges the flush and does nothing.
    Lying,
}

impl DiskKind {
    pub fn parse(name: &str) -> Result<Self, String> {
        by_name([Self::Honest, Self::Lying], Self::name, name)
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Honest => "honest",
            Self::Lying => "lying",
        }
    }
}

/// A disk. Only its server writes to its file.
pub struct Disk {
    pub kind: DiskKind,
    /// Content before any write; `None` if the disk's own file holds all of it.
    base: Option<File>,
    own: File,
    bytes: u64,
    /// Blocks that its own file holds.
    written: HashSet<u64>,
    cache: BTreeMap<u64, Cached>,
    aged: Instant,
    has_power: bool,
    pub requests: Requests,
}

struct Cached {
    since: Instant,
    block: Box<[u8; BLOCK_BYTES]>,
}

/// Requests of the guest.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Requests {
    pub writes: u64,
    pub flushes: u64,
}

/// Content of the cache at a cut, and the part of it that was lost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Dropped {
    pub cached_bytes: u64,
    pub dropped_bytes: u64,
}

impl Disk {
    /// Opens an image, which is changed.
    pub fn of(image: &Path) -> io::Result<Self> {
        let own = OpenOptions::new().read(true).write(true).open(image)?;
        Self::new(None, own)
    }

    /// Opens a disk with the content of `base`; changes go into the file `own`.
    pub fn over(base: &Path, own: &Path) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        let own = options.read(true).write(true).create(true).truncate(true).open(own)?;
        let base = File::open(base)?;
        own.set_len(base.metadata()?.len())?;
        Self::new(Some(base), own)
    }

    fn new(base: Option<File>, own: File) -> io::Result<Self> {
        Ok(Self {
            kind: DiskKind::Honest,
            base,
            bytes: own.metadata()?.len(),
            own,
            written: HashSet::new(),
            cache: BTreeMap::new(),
            aged: Instant::now(),
            has_power: true,
            requests: Requests::default(),
        })
    }

    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    pub fn read(&self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        self.refuse(offset, into.len())?;
        for (number, within, range) in blocks(offset, into.len()) {
            let block = self.block(number)?;
            into[range.clone()].copy_from_slice(&block[within..within + range.len()]);
        }
        Ok(())
    }

    pub fn write(&mut self, offset: u64, from: &[u8]) -> io::Result<()> {
        self.refuse(offset, from.len())?;
        self.requests.writes += 1;
        let since = Instant::now();
        for (number, within, range) in blocks(offset, from.len()) {
            let mut block = match range.len() {
                BLOCK_BYTES => Box::new([0; BLOCK_BYTES]),
                _ => self.block(number)?,
            };
            block[within..within + range.len()].copy_from_slice(&from[range]);
            self.cache.insert(number, Cached { since, block });
        }
        self.age(since)
    }

    /// Acknowledges a flush; a lying disk does nothing.
    pub fn flush(&mut self) -> io::Result<()> {
        self.refuse(0, 0)?;
        self.requests.flushes += 1;
        match self.kind {
            DiskKind::Honest => self.write_all(),
            DiskKind::Lying => Ok(()),
        }
    }

    /// Writes the whole cache, as when a machine is shut down.
    pub fn write_all(&mut self) -> io::Result<()> {
        let cache = std::mem::take(&mut self.cache);
        cache.into_iter().try_for_each(|(number, cached)| self.keep(number, &cached.block))?;
        self.own.sync_data()
    }

    /// Cuts the power: from now on no request gets an answer. Each block in the cache is at random
    /// either written or lost.
    pub fn cut(&mut self, seed: u64) -> io::Result<Dropped> {
        self.has_power = false;
        let cache = std::mem::take(&mut self.cache);
        let bytes = |blocks: usize| (blocks * BLOCK_BYTES) as u64;
        let mut dropped = Dropped { cached_bytes: bytes(cache.len()), dropped_bytes: 0 };
        for (number, cached) in cache {
            match mix(seed ^ mix(number)) & 1 {
                0 => self.keep(number, &cached.block)?,
                _ => dropped.dropped_bytes += bytes(1),
            }
        }
        Ok(dropped)
    }

    /// Switches the power on again.
    pub fn power_on(&mut self) {
        self.has_power = true;
    }

    /// Writes the whole disk into an image, without the cache's content.
    pub fn copy_to(&self, image: &Path) -> io::Result<()> {
        let copy = File::create(image)?;
        copy.set_len(self.bytes)?;
        let mut block = [0; BLOCK_BYTES];
        for number in 0..self.bytes / BLOCK_BYTES as u64 {
            self.stored(number, &mut block)?;
            if block.iter().any(|&byte| byte != 0) {
                copy.write_all_at(&block, number * BLOCK_BYTES as u64)?;
            }
        }
        Ok(())
    }

    fn age(&mut self, now: Instant) -> io::Result<()> {
        if now.duration_since(self.aged) < CACHED_FOR / 20 {
            return Ok(());
        }
        self.aged = now;
        let is_due = |cached: &Cached| now.duration_since(cached.since) >= CACHED_FOR;
        let due = self.cache.iter().filter(|(_, cached)| is_due(cached));
        let due: Vec<u64> = due.map(|(&number, _)| number).collect();
        for number in due {
            if let Some(cached) = self.cache.remove(&number) {
                self.keep(number, &cached.block)?;
            }
        }
        Ok(())
    }

    fn keep(&mut self, number: u64, block: &[u8; BLOCK_BYTES]) -> io::Result<()> {
        self.own.write_all_at(block, number * BLOCK_BYTES as u64)?;
        self.written.insert(number);
        Ok(())
    }

    fn block(&self, number: u64) -> io::Result<Box<[u8; BLOCK_BYTES]>> {
        if let Some(cached) = self.cache.get(&number) {
            return Ok(cached.block.clone());
        }
        let mut block = Box::new([0; BLOCK_BYTES]);
        self.stored(number, &mut block)?;
        Ok(block)
    }

    fn stored(&self, number: u64, into: &mut [u8; BLOCK_BYTES]) -> io::Result<()> {
        let base = self.base.as_ref().filter(|_| !self.written.contains(&number));
        base.unwrap_or(&self.own).read_exact_at(into, number * BLOCK_BYTES as u64)
    }

    fn refuse(&self, offset: u64, length: usize) -> io::Result<()> {
        let is_within = offset.checked_add(length as u64).is_some_and(|end| end <= self.bytes);
        match (self.has_power, is_within) {
            (false, _) => Err(io::Error::other("the disk has no power")),
            (_, false) => Err(io::ErrorKind::InvalidInput.into()),
            (true, true) => Ok(()),
        }
    }
}

/// Splits a request into blocks: number, offset in the block, and part of the request.
fn blocks(
    offset: u64,
    length: usize,
) -> impl Iterator<Item = (u64, usize, std::ops::Range<usize>)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let (place, within) = (offset + at as u64, (offset + at as u64) as usize % BLOCK_BYTES);
        let part = at..length.min(at + BLOCK_BYTES - within);
        at = part.end;
        (!part.is_empty()).then_some((place / BLOCK_BYTES as u64, within, part))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLOCKS: usize = 64;

    struct Case {
        disk: Disk,
        folder: tempfile::TempDir,
    }

    /// Returns a disk of ones on which every byte was then written as `2`, without a flush.
    fn written_over(kind: DiskKind) -> Case {
        let folder = tempfile::tempdir().unwrap();
        let base = folder.path().join("base");
        std::fs::write(&base, vec![1; BLOCKS * BLOCK_BYTES]).unwrap();
        let mut disk = Disk::over(&base, &folder.path().join("own")).unwrap();
        disk.kind = kind;
        disk.write(100, &vec![2; BLOCKS * BLOCK_BYTES - 100]).unwrap();
        Case { disk, folder }
    }

    fn content(disk: &Disk) -> Vec<u8> {
        let mut all = vec![0; BLOCKS * BLOCK_BYTES];
        disk.read(0, &mut all).unwrap();
        all
    }

    /// Counts the blocks that hold the new bytes after a cut; all others must hold the base's.
    fn kept(disk: &mut Disk) -> usize {
        disk.power_on();
        let all = content(disk);
        assert!(all[..100].iter().all(|&byte| byte == 1));
        let mut new = 0;
        for block in all.chunks(BLOCK_BYTES) {
            let last = block[BLOCK_BYTES - 1];
            assert!(block[100..].iter().all(|&byte| byte == last), "a torn block");
            new += usize::from(last == 2);
        }
        new
    }

    #[test]
    fn written_blocks_are_read_back_and_unflushed_ones_are_lost_in_a_cut() {
        let mut case = written_over(DiskKind::Honest);
        assert!(content(&case.disk)[100..].iter().all(|&byte| byte == 2));
        let dropped = case.disk.cut(7).unwrap();
        assert_eq!(dropped.cached_bytes, (BLOCKS * BLOCK_BYTES) as u64);
        assert!(case.disk.read(0, &mut [0]).is_err() && case.disk.flush().is_err());
        let new = kept(&mut case.disk);
        assert!((1..BLOCKS).contains(&new), "{new}");
        assert_eq!(dropped.dropped_bytes, ((BLOCKS - new) * BLOCK_BYTES) as u64);
    }

    #[test]
    fn an_honest_disk_keeps_what_it_flushed_and_a_lying_one_does_not() {
        for (kind, is_kept) in [(DiskKind::Honest, true), (DiskKind::Lying, false)] {
            let mut case = written_over(kind);
            case.disk.flush().unwrap();
            let dropped = case.disk.cut(7).unwrap();
            assert_eq!(dropped.cached_bytes == 0, is_kept, "{kind:?}");
            assert_eq!(kept(&mut case.disk) == BLOCKS, is_kept, "{kind:?}");
            assert_eq!(case.disk.requests, Requests { writes: 1, flushes: 1 });
        }
    }

    #[test]
    fn a_block_leaves_the_cache_when_it_is_old() {
        let mut case = written_over(DiskKind::Lying);
        case.disk.age(Instant::now() + CACHED_FOR * 2).unwrap();
        assert_eq!(case.disk.cut(7).unwrap(), Dropped::default());
        assert_eq!(kept(&mut case.disk), BLOCKS);
    }

    #[test]
    fn an_image_holds_what_is_stored_and_the_base_stays_as_it_was() {
        let mut case = written_over(DiskKind::Honest);
        case.disk.write_all().unwrap();
        let image = case.folder.path().join("image");
        case.disk.copy_to(&image).unwrap();
        assert_eq!(std::fs::read(&image).unwrap(), content(&case.disk));
        let base = std::fs::read(case.folder.path().join("base")).unwrap();
        assert!(base.iter().all(|&byte| byte == 1));
    }

    #[test]
    fn a_request_beyond_the_end_is_refused() {
        let mut case = written_over(DiskKind::Honest);
        let end = case.disk.bytes();
        assert!(case.disk.write(end - 1, &[0, 0]).is_err());
        assert!(case.disk.read(u64::MAX, &mut [0; 2]).is_err());
    }
}
