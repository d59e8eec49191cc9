//! Write-back cache: blocks that UPDATEs changed and that background writers have yet to write. It is
//! bounded, and a thread empties it at its own depth.
//!
//! A block in the set is read from here; a block that is being written stays here until its write
//! ends. Therefore no session reads a block from the target that a petal writer is about to change.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::Instant;

use parking_lot::{Condvar, Mutex};

use super::Shared;
use super::block;
use super::data::TargetData;
use super::log::{LOOK_EVERY, wait_until};
use super::request::{Completion, IoRequest, RequestQueue};
use super::statistics::Event;
use super::target::AlignedBuffer;
use petal_engine::threads::Thread;
use petal_record::event_stats::EventRecorder;

const SHARDS: usize = 16;

struct DirtyBlock {
    image: Arc<Box<[u8]>>,
    /// Position of the first log record whose change the target lacks.
    since: u64,
    /// Position for changes that were made while the block was being written.
    again: Option<u64>,
    writing: bool,
}

/// Changed blocks of a target that are not written yet.
#[derive(Default)]
pub struct WriteBackCache {
    shards: [Mutex<HashMap<u64, DirtyBlock>>; SHARDS],
    /// Number of blocks in the set, for a cheap check that it is empty.
    blocks: AtomicU64,
    /// Number of blocks in the set or reserved by UPDATEs in progress.
    taken: Mutex<u64>,
    room: Condvar,
    blocks_max: AtomicU64,
    queue: Mutex<VecDeque<u64>>,
    queued: Condvar,
    /// Log bytes since the last background sync.
    log_bytes: AtomicU64,
    log_bytes_max: AtomicU64,
    stopping: AtomicBool,
    /// Reason why nothing can be made durable any more. Once set, it never changes.
    failed: OnceLock<String>,
    writer: Mutex<Option<JoinHandle<()>>>,
}

/// Reason why an UPDATE got no room.
#[derive(Debug, PartialEq, Eq)]
pub enum NoRoom {
    Cut,
    /// Writers failed; no dirty block will be written any more.
    Failed(String),
}

impl WriteBackCache {
    /// Sets the maximum number of blocks, and the log bytes after which background writes are
    /// synced.
    pub fn limit(&self, blocks: u64, log_bytes: u64) {
        self.blocks_max.store(blocks, Ordering::Relaxed);
        self.log_bytes_max.store(log_bytes, Ordering::Relaxed);
    }

    /// Returns the newest image of a block that is still to be written.
    pub fn get(&self, address: u64) -> Option<Arc<Box<[u8]>>> {
        if self.blocks.load(Ordering::Acquire) == 0 {
            return None;
        }
        self.shard(address).lock().get(&address).map(|entry| Arc::clone(&entry.image))
    }

    #[cfg(test)]
    pub fn writer(&self) -> parking_lot::MutexGuard<'_, Option<JoinHandle<()>>> {
        self.writer.lock()
    }

    #[cfg(test)]
    pub fn blocks(&self) -> u64 {
        self.blocks.load(Ordering::Acquire)
    }

    /// Reserves room for an UPDATE; one larger than all the room gets it when it is alone.
    pub fn try_reserve(&self, blocks: u64) -> bool {
        self.fit(&mut self.taken.lock(), blocks)
    }

    pub fn reserve(&self, blocks: u64, is_cut: &dyn Fn() -> bool) -> Result<(), NoRoom> {
        let attempt = |taken: &mut u64| match (self.fit(taken, blocks), self.failed()) {
            (true, _) => Some(Ok(())),
            (false, failed) => failed.map(|why| Err(NoRoom::Failed(why))),
        };
        wait_until(&self.taken, &self.room, is_cut, attempt).unwrap_or(Err(NoRoom::Cut))
    }

    fn fit(&self, taken: &mut u64, blocks: u64) -> bool {
        let fits = *taken + blocks <= self.blocks_max.load(Ordering::Relaxed) || *taken == 0;
        if fits {
            *taken += blocks;
        }
        fits
    }

    pub fn give_back(&self, blocks: u64) {
        *self.taken.lock() -= blocks;
        self.room.notify_all();
    }

    /// Returns the reason if nothing can be made durable any more. A failed sync is final: the
    /// kernel may have dropped data that it could not write, and reports that only once.
    pub fn failed(&self) -> Option<String> {
        self.failed.get().cloned()
    }

    /// Records that a write or a sync failed. The first reason is kept.
    pub fn fail(&self, why: &str) {
        let _ = self.failed.set(why.to_owned());
        self.room.notify_all();
    }

    /// Takes over committed blocks, whose room was reserved, with position and bytes of their
    /// record in the log.
    pub fn put(
        &self,
        images: impl Iterator<Item = (u64, Box<[u8]>)>,
        (since, log_bytes): (u64, u64),
    ) {
        let mut new = Vec::new();
        let mut spare = 0;
        for (address, image) in images {
            let mut shard = self.shard(address).lock();
            match shard.get_mut(&address) {
                Some(entry) => {
                    entry.image = Arc::new(image);
                    if entry.writing {
                        entry.again.get_or_insert(since);
                    }
                    spare += 1;
                }
                None => {
                    let image = Arc::new(image);
                    let entry = DirtyBlock { image, since, again: None, writing: false };
                    shard.insert(address, entry);
                    self.blocks.fetch_add(1, Ordering::AcqRel);
                    new.push(address);
                }
            }
        }
        if spare > 0 {
            self.give_back(spare);
        }
        self.log_bytes.fetch_add(log_bytes, Ordering::Relaxed);
        self.queue.lock().extend(new);
        self.queued.notify_one();
    }

    /// Starts the writer if it is not running.
    pub fn start(&self, shared: &Arc<Shared>, data: &Arc<TargetData>) -> std::io::Result<()> {
        let mut writer = self.writer.lock();
        if writer.is_none() {
            self.stopping.store(false, Ordering::Release);
            let at_work = DirtyWriter::new(shared, data);
            *writer = Some(Thread::named("background-writer").start(move || at_work.run())?);
        }
        Ok(())
    }

    /// Writes all dirty blocks, makes them durable and ends the writer.
    pub fn stop(&self) -> Result<(), String> {
        let writer = self.writer.lock().take();
        {
            let _queue = self.queue.lock(); // Or the writer falls asleep over it.
            self.stopping.store(true, Ordering::Release);
        }
        self.queued.notify_all();
        if let Some(writer) = writer
            && writer.join().is_err()
        {
            return Err("the background writer panicked".to_owned());
        }
        self.failed().map_or(Ok(()), Err)
    }

    /// Wakes the writer: an UPDATE waits for a checkpoint.
    pub fn wake(&self) {
        let _queue = self.queue.lock(); // Or the writer falls asleep over it.
        self.queued.notify_one();
    }

    /// Returns the position of the first log record that a block in the set still needs.
    fn first_needed(&self) -> Option<u64> {
        let first = |shard: &Mutex<HashMap<u64, DirtyBlock>>| {
            shard.lock().values().map(|entry| entry.since).min()
        };
        self.shards.iter().filter_map(first).min()
    }

    fn shard(&self, address: u64) -> &Mutex<HashMap<u64, DirtyBlock>> {
        // Addresses are multiples of a block: their low bits do not distinguish them.
        &self.shards[address as usize / 4096 % SHARDS]
    }

    /// Returns the image to write now.
    fn begin(&self, address: u64) -> Option<Arc<Box<[u8]>>> {
        let mut shard = self.shard(address).lock();
        let entry = shard.get_mut(&address)?;
        entry.writing = true;
        Some(Arc::clone(&entry.image))
    }

    /// Ends a write. The block leaves the set, unless it changed meanwhile.
    fn end(&self, address: u64) {
        let mut shard = self.shard(address).lock();
        let Some(entry) = shard.get_mut(&address) else { return };
        entry.writing = false;
        if let Some(since) = entry.again.take() {
            entry.since = since;
            drop(shard);
            self.queue.lock().push_back(address);
            return;
        }
        shard.remove(&address);
        drop(shard);
        self.blocks.fetch_sub(1, Ordering::AcqRel);
        self.give_back(1);
    }
}

/// Thread that writes dirty blocks.
struct DirtyWriter {
    shared: Arc<Shared>,
    data: Arc<TargetData>,
    recorder: Arc<EventRecorder>,
    /// Address, version and start of each slot's write.
    slots: Vec<Option<(u64, u32, Instant)>>,
    free: Vec<usize>,
}

impl DirtyWriter {
    fn new(shared: &Arc<Shared>, data: &Arc<TargetData>) -> Self {
        let depth = shared.options.write_depth as usize;
        Self {
            shared: Arc::clone(shared),
            data: Arc::clone(data),
            recorder: shared.statistics.recorder(),
            slots: vec![None; depth],
            free: (0..depth).collect(),
        }
    }

    fn run(mut self) {
        if let Err(error) = self.work() {
            let what =
                format!("{}: writing in the background: {error}", self.shared.path.display());
            self.shared.dirty.fail(&what);
        }
        self.recorder.fold();
    }

    fn work(&mut self) -> std::io::Result<()> {
        let shared = Arc::clone(&self.shared);
        let target = shared.target().map_err(std::io::Error::other)?;
        let block_bytes = self.data.header.block_bytes as usize;
        let slots = self.slots.iter().map(|_| AlignedBuffer::new(block_bytes)).collect();
        let backend = shared.backend().map_err(std::io::Error::other)?;
        let mut queue = backend.queue(&target.file, slots)?;
        let mut done = Vec::new();
        loop {
            let is_due = self.is_checkpoint_due();
            if !is_due {
                self.submit(queue.as_mut())?;
            }
            let in_flight = self.slots.len() - self.free.len();
            if in_flight > 0 {
                queue.wait(&mut done)?;
                self.ended(&mut done)?;
            } else if is_due {
                self.checkpoint(&target.file)?;
            } else if !self.wait_for_work() {
                return self.checkpoint(&target.file);
            }
        }
    }

    /// True if enough was logged since the last checkpoint, or if UPDATEs wait for room in the log
    /// and all blocks are written.
    fn is_checkpoint_due(&self) -> bool {
        let dirty = &self.shared.dirty;
        let bytes_max = dirty.log_bytes_max.load(Ordering::Relaxed);
        dirty.log_bytes.load(Ordering::Relaxed) >= bytes_max
            || (self.data.log.wants_checkpoint() && dirty.queue.lock().is_empty())
    }

    fn submit(&mut self, queue: &mut dyn RequestQueue) -> std::io::Result<()> {
        let dirty = &self.shared.dirty;
        while let Some(&slot) = self.free.last() {
            let Some(address) = dirty.queue.lock().pop_front() else { break };
            let Some(image) = dirty.begin(address) else { continue };
            queue.slot(slot).copy_from_slice(&image);
            queue.push(slot, IoRequest::Write { offset: address, bytes: image.len() as u32 })?;
            self.slots[slot] = Some((address, block::version(&image), Instant::now()));
            self.free.pop();
        }
        Ok(())
    }

    fn ended(&mut self, done: &mut Vec<Completion>) -> std::io::Result<()> {
        let now = Instant::now();
        let bytes = u64::from(self.data.header.block_bytes);
        for Completion { slot, result } in done.drain(..) {
            let Some((address, version, begin)) = self.slots[slot].take() else { continue };
            self.free.push(slot);
            result?;
            let latency_ns = (now - begin).as_nanos() as u64;
            self.recorder.record(Event::BackgroundWrite as usize, latency_ns, bytes);
            if let Some(area) = self.data.areas.iter().find(|area| area.holds(address)) {
                area.wrote(address, version);
            }
            self.shared.dirty.end(address);
        }
        Ok(())
    }

    /// Makes all written blocks durable, while nothing is in flight. The log is then free up to the
    /// first record that an UPDATE in progress or a block in the set still needs.
    fn checkpoint(&self, file: &std::fs::File) -> std::io::Result<()> {
        let begin = Instant::now();
        let log = &self.data.log;
        self.shared.dirty.log_bytes.store(0, Ordering::Relaxed);
        log.begin_checkpoint();
        // The order matters: an UPDATE that ends between the two checks is in the second one.
        let first = log.first_under_way();
        let free_before =
            self.shared.dirty.first_needed().map_or(first, |needed| needed.min(first));
        file.sync_data()?;
        log.free_before(free_before);
        let latency_ns = begin.elapsed().as_nanos() as u64;
        self.recorder.record(Event::BackgroundSync as usize, latency_ns, 0);
        Ok(())
    }

    /// Waits for work; returns false if the writer is stopping and no work is left.
    fn wait_for_work(&self) -> bool {
        let dirty = &self.shared.dirty;
        let mut queue = dirty.queue.lock();
        if !queue.is_empty() || self.data.log.wants_checkpoint() {
            return true;
        }
        if dirty.stopping.load(Ordering::Acquire) {
            return false;
        }
        self.recorder.fold();
        dirty.queued.wait_for(&mut queue, LOOK_EVERY);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(byte: u8) -> Box<[u8]> {
        vec![byte; 8].into()
    }

    #[test]
    fn a_block_is_here_until_its_newest_image_is_written() {
        let dirty = WriteBackCache::default();
        dirty.limit(4, 1 << 20);
        assert!(dirty.get(4096).is_none());
        assert!(dirty.try_reserve(1));
        dirty.put([(4096, image(1))].into_iter(), (10, 0));
        assert_eq!(dirty.begin(4096).unwrap()[0], 1);
        // The block changes while it is being written: reads get the newest image, and it is
        // written again.
        assert!(dirty.try_reserve(1));
        assert_eq!(dirty.first_needed(), Some(10));
        dirty.put([(4096, image(2))].into_iter(), (20, 0));
        assert_eq!(dirty.first_needed(), Some(10), "the first write has not ended");
        dirty.queue.lock().clear();
        dirty.end(4096);
        assert_eq!(dirty.get(4096).unwrap()[0], 2);
        assert_eq!(dirty.first_needed(), Some(20));
        assert_eq!(*dirty.queue.lock(), [4096]);
        assert_eq!(dirty.begin(4096).unwrap()[0], 2);
        dirty.end(4096);
        assert!(dirty.get(4096).is_none() && dirty.first_needed().is_none());
        assert_eq!((dirty.blocks(), *dirty.taken.lock()), (0, 0));
    }

    #[test]
    fn room_is_bounded_and_an_update_of_any_size_gets_it_alone() {
        let dirty = WriteBackCache::default();
        dirty.limit(4, 1 << 20);
        assert!(dirty.try_reserve(4));
        assert!(!dirty.try_reserve(1));
        assert_eq!(dirty.reserve(1, &|| true), Err(NoRoom::Cut));
        dirty.give_back(4);
        assert!(dirty.try_reserve(100));
        assert!(!dirty.try_reserve(1));
        dirty.fail("broken");
        dirty.fail("again");
        assert_eq!(dirty.reserve(1, &|| false), Err(NoRoom::Failed("broken".to_owned())));
    }
}
