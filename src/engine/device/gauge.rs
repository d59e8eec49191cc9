//! The target measured bare: requests of one size, so many in flight, through the same queue as a
//! session's, on a stretch of incompressible bytes that was written whole. What `petal calibrate`
//! stands on.
//!
//! The stretch is petal's own: a file that is made here and goes with the gauge unless it is kept,
//! one that an earlier gauge left, or a block device, under the same refusals as a load.

use std::io;
use std::time::{Duration, Instant};

use rand::{Rng as _, RngExt as _, SeedableRng as _};
use rand_xoshiro::Xoshiro256PlusPlus;
use rustix::time::{ClockId, clock_gettime};

use super::layout::{Found, HEADER_BYTES, Header};
use super::log::LOG_BLOCK_BYTES;
use super::queue::{Call, Completion, Means, Queue};
use super::target::{AlignedBuffer, Kind, Target, unusable};
use super::{Device, Shared, block, load, safety, target};
use crate::engine::{EngineError, Progress, ProgressUnit, Stop};
use crate::settings::size::format_bytes;
use crate::stats::histogram::Latencies;
use crate::stats::target::DirectIo;
use crate::workload::deck::Deck;

/// The stretch where nobody says how large: what fits the caches of most drives is far smaller.
const BYTES_DEFAULT: u64 = 8 << 30;
/// So many times the storage's cache: three reads in four then miss it.
const CACHES: u64 = 4;
const BYTES_MIN: u64 = 16 << 20;
/// Bytes of the requests in order, and of those that fill the stretch.
pub const LARGE_BYTES: u32 = 1 << 20;
pub const LARGE_DEPTH: u32 = 8;
/// The smallest log record; each is synced before the next.
pub const LOG_BYTES: u64 = LOG_BLOCK_BYTES;
/// What is not counted at the start: this part of the time, and no more than this.
const RAMP_PART: u32 = 5;
const RAMP_MAX: Duration = Duration::from_millis(250);
/// Every sector of a write differs from what was there, so that nothing is spared by comparing.
const STAMP_EVERY: usize = 512;

/// How large the stretch should be.
#[derive(Debug, Clone, Copy)]
pub struct Wanted {
    pub bytes: Option<u64>,
    /// The storage's cache, which it must exceed.
    pub storage_cache: Option<u64>,
    /// A file that is made here stays.
    pub keep: bool,
}

/// One kind of work at one depth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Work {
    /// Per cent of the requests that are reads.
    pub read_pct: u8,
    pub request_bytes: u32,
    /// One after the other instead of at random.
    pub in_order: bool,
    /// In flight over all threads.
    pub depth: u32,
    pub threads: u32,
}

/// What one stretch of work came to. Only what ended within `seconds` is in it.
#[derive(Debug, Default)]
pub struct Measured {
    pub seconds: f64,
    pub reads: Latencies,
    pub writes: Latencies,
    /// The busiest thread's share of a processor.
    pub thread_cpu_share: f64,
}

impl Measured {
    pub fn requests(&self) -> u64 {
        self.reads.count() + self.writes.count()
    }

    fn add(&mut self, other: &Self) {
        self.seconds = self.seconds.max(other.seconds);
        self.reads.add(&other.reads);
        self.writes.add(&other.writes);
        self.thread_cpu_share = self.thread_cpu_share.max(other.thread_cpu_share);
    }
}

/// An open target with a stretch that may be read and written.
pub struct Gauge {
    target: Target,
    means: Means,
    bytes: u64,
    removed_at_end: bool,
}

impl Device {
    /// Opens the target for measuring and fills what of it was not filled.
    pub fn gauge(
        &self,
        wanted: &Wanted,
        progress: &dyn Progress,
        stop: &Stop,
    ) -> Result<Gauge, EngineError> {
        let shared = &self.shared;
        let before = header_there(shared)?;
        let is_new = target::kind(&shared.path)? == Kind::Missing;
        let filled_bytes = before.as_ref().and_then(|header| header.gauge_bytes).unwrap_or(0);
        let left_behind = before.as_ref().is_some_and(|header| header.gauge_goes);
        let bytes = stretch(shared, wanted, filled_bytes, progress)?;
        if is_new {
            load::create(&shared.path)?;
        }
        // From here on a file that was made goes again, whatever happens.
        let mut made = Made { path: is_new.then(|| shared.path.clone()) };
        let target = shared.target()?;
        let means = shared.means()?;
        let removed_at_end = (is_new || left_behind) && !wanted.keep;
        if left_behind {
            progress.note(&format!(
                "{}: a calibration that was killed left it; it goes when this one ends, unless \
                 --keep",
                shared.path.display()
            ));
        }
        let gauge = Gauge { target, means, bytes, removed_at_end };
        if filled_bytes < bytes {
            load::make_room(&gauge.target, HEADER_BYTES + bytes)?;
            let path = &shared.path;
            let header = Header::new(super::CAPABILITIES.block_size_default, 0);
            let header = Header { gauge_goes: removed_at_end, ..header };
            load::wipe_end(&gauge.target)?;
            target::write_header(path, &header)?;
            gauge.fill(progress, stop)?;
            target::write_header(path, &Header { gauge_bytes: Some(bytes), ..header })?;
        } else if let Some(header) = before.filter(|_| left_behind && wanted.keep) {
            target::write_header(&shared.path, &Header { gauge_goes: false, ..header })?;
        }
        made.path = None;
        Ok(gauge)
    }
}

/// Removes a file that was made and not finished.
struct Made {
    path: Option<std::path::PathBuf>,
}

impl Drop for Made {
    fn drop(&mut self) {
        if let Some(path) = &self.path {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Petal's header, after all refusals; none where something else may be overwritten.
fn header_there(shared: &Shared) -> Result<Option<Header>, EngineError> {
    let Some(found) = target::find(&shared.path)? else { return Ok(None) };
    safety::refuse_in_use(&shared.path, &shared.roots)?;
    shared.refuse_foreign(&found)?;
    let Found::Petal(header) = found else { return Ok(None) };
    if !header.schemas.is_empty() {
        let numbers: Vec<String> =
            header.schemas.iter().map(|area| area.number.to_string()).collect();
        let found = format!("it bears petal's data (schema {})", numbers.join(", "));
        let given_up = shared.destroy_data.as_deref();
        safety::refuse_foreign(&shared.path, &shared.url_path, &found, given_up)?;
        return Ok(None);
    }
    Ok(Some(header))
}

/// How many bytes to measure on.
fn stretch(
    shared: &Shared,
    wanted: &Wanted,
    filled_bytes: u64,
    progress: &dyn Progress,
) -> Result<u64, EngineError> {
    let cache = wanted.storage_cache.unwrap_or(0);
    let path = shared.path.display();
    if let Some(bytes) = wanted.bytes {
        let bytes = bytes.next_multiple_of(u64::from(LARGE_BYTES));
        if bytes < BYTES_MIN {
            return Err(EngineError::Setting(format!(
                "--size {}: it must be at least {}",
                format_bytes(bytes),
                format_bytes(BYTES_MIN)
            )));
        }
        if bytes <= cache {
            return Err(EngineError::Setting(format!(
                "--size {}: it must exceed STORAGE_CACHE ({}), or the cache is measured; give \
                 several times as much",
                format_bytes(bytes),
                format_bytes(cache)
            )));
        }
        return Ok(bytes);
    }
    if filled_bytes > cache {
        return Ok(filled_bytes);
    }
    let best = BYTES_DEFAULT.max(cache.saturating_mul(CACHES));
    let most = room(shared)? / u64::from(LARGE_BYTES) * u64::from(LARGE_BYTES);
    let bytes = best.min(most);
    if bytes < BYTES_MIN || bytes <= cache {
        return Err(EngineError::Environment(format!(
            "{path}: {} may be used there (half of what is free), which is too little{}; make \
             room, name another place, or give --size",
            format_bytes(most),
            if cache > 0 { " beside STORAGE_CACHE" } else { "" }
        )));
    }
    if bytes < best {
        progress.note(&format!(
            "{path}: measuring on {} only: there is not room for {}",
            format_bytes(bytes),
            format_bytes(best)
        ));
    }
    Ok(bytes)
}

/// Of a block device all of it, of a file system half of what is free.
fn room(shared: &Shared) -> Result<u64, EngineError> {
    let path = &shared.path;
    if target::kind(path)? == Kind::BlockDevice {
        let file = std::fs::File::open(path).map_err(|error| unusable(path, &error))?;
        let bytes = target::length(&file).map_err(|error| unusable(path, &error))?;
        return Ok(bytes.saturating_sub(HEADER_BYTES));
    }
    let folder = std::path::absolute(path).unwrap_or_else(|_| path.clone());
    let folder = folder.parent().unwrap_or(&folder);
    let about =
        rustix::fs::statvfs(folder).map_err(|error| unusable(folder, &io::Error::from(error)))?;
    Ok(about.f_bavail.saturating_mul(about.f_frsize) / 2)
}

impl Gauge {
    pub fn path(&self) -> &std::path::Path {
        &self.target.path
    }

    /// Bytes that requests go to.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    pub fn is_block_device(&self) -> bool {
        self.target.kind == Kind::BlockDevice
    }

    pub fn direct_io(&self) -> &DirectIo {
        &self.target.direct
    }

    /// How requests reach the kernel, in words.
    pub fn requests_by(&self) -> String {
        self.means.words()
    }

    /// Writes the whole stretch.
    fn fill(&self, progress: &dyn Progress, stop: &Stop) -> Result<(), EngineError> {
        progress.phase("filling", self.bytes, ProgressUnit::Bytes);
        let mut slots: Vec<_> =
            (0..LARGE_DEPTH).map(|_| AlignedBuffer::new(LARGE_BYTES as usize)).collect();
        for (slot, seed) in slots.iter_mut().zip(1..) {
            block::noise(slot.bytes_mut(), seed, seed);
        }
        let mut queue = self.queue(slots)?;
        let mut free: Vec<usize> = (0..LARGE_DEPTH as usize).collect();
        let (mut next, mut done) = (0, Vec::new());
        loop {
            while next < self.bytes && !stop.is_requested() {
                let Some(slot) = free.pop() else { break };
                stamp(queue.slot(slot), next);
                let call = Call::Write { offset: HEADER_BYTES + next, bytes: LARGE_BYTES };
                queue.push(slot, call).map_err(|error| self.failed(&error))?;
                next += u64::from(LARGE_BYTES);
            }
            if free.len() == LARGE_DEPTH as usize {
                break;
            }
            queue.wait(&mut done).map_err(|error| self.failed(&error))?;
            for Completion { slot, result } in done.drain(..) {
                result.map_err(|error| self.failed(&error))?;
                free.push(slot);
                progress.advance(u64::from(LARGE_BYTES));
            }
        }
        if stop.is_requested() {
            return Err(EngineError::Interrupted);
        }
        self.sync()
    }

    /// Makes what was written durable: who wrote it pays for it.
    pub fn sync(&self) -> Result<(), EngineError> {
        self.target.file.sync_data().map_err(|error| self.failed(&error))
    }

    /// Works for so long. Cut off by a stop it tells what there was until then.
    pub fn measure(
        &self,
        work: &Work,
        length: Duration,
        seed: u64,
        stop: &Stop,
    ) -> Result<Measured, EngineError> {
        let threads = work.threads.clamp(1, work.depth);
        let depth_of =
            |thread: u32| work.depth / threads + u32::from(thread < work.depth % threads);
        let ramp = (length / RAMP_PART).min(RAMP_MAX);
        let window = Window::after(ramp, length.saturating_sub(ramp));
        let results: Vec<io::Result<Measured>> = std::thread::scope(|scope| {
            let workers: Vec<_> = (0..threads)
                .map(|thread| {
                    let seed = seed ^ u64::from(thread) << 32;
                    let depth = depth_of(thread) as usize;
                    scope.spawn(move || self.work(work, depth, seed, window, stop))
                })
                .collect();
            let lost = || Err(io::Error::other("a measuring thread panicked"));
            workers.into_iter().map(|worker| worker.join().unwrap_or_else(|_| lost())).collect()
        });
        let mut all = Measured::default();
        for result in results {
            all.add(&result.map_err(|error| self.failed(&error))?);
        }
        Ok(all)
    }

    fn work(
        &self,
        work: &Work,
        depth: usize,
        seed: u64,
        window: Window,
        stop: &Stop,
    ) -> io::Result<Measured> {
        let began = (Instant::now(), thread_cpu());
        let mut stream = Xoshiro256PlusPlus::seed_from_u64(seed);
        let mut slots: Vec<_> =
            (0..depth).map(|_| AlignedBuffer::new(work.request_bytes as usize)).collect();
        if work.read_pct < 100 {
            slots.iter_mut().for_each(|slot| stream.fill_bytes(slot.bytes_mut()));
        }
        let mut queue = Queue::new(&self.means, &self.target.file, slots)?;
        let mut deck = Deck::new(work.read_pct);
        let requests = self.bytes / u64::from(work.request_bytes);
        let mut in_order = 0..;
        let mut free: Vec<usize> = (0..depth).rev().collect();
        let mut begun = vec![(began.0, false); depth];
        let mut done = Vec::with_capacity(depth);
        let mut measured = Measured::default();
        let mut now = Instant::now();
        loop {
            while !window.is_over(now) && !stop.is_requested() {
                let Some(slot) = free.pop() else { break };
                let number = match work.in_order {
                    true => in_order.next().unwrap_or(0) % requests,
                    false => stream.random_range(0..requests),
                };
                let offset = HEADER_BYTES + number * u64::from(work.request_bytes);
                let is_read = deck.draw(&mut stream);
                let bytes = work.request_bytes;
                let call = if is_read {
                    Call::Read { offset, bytes }
                } else {
                    stamp(queue.slot(slot), stream.next_u64());
                    Call::Write { offset, bytes }
                };
                begun[slot] = (Instant::now(), is_read);
                queue.push(slot, call)?;
            }
            if free.len() == depth {
                break;
            }
            queue.wait(&mut done)?;
            now = Instant::now();
            let counts = window.holds(now);
            for Completion { slot, result } in done.drain(..) {
                result?;
                let (begin, is_read) = begun[slot];
                free.push(slot);
                if counts {
                    let latencies =
                        if is_read { &mut measured.reads } else { &mut measured.writes };
                    latencies.record((now - begin).as_nanos() as u64);
                }
            }
        }
        measured.seconds = window.seconds_until(now);
        let (wall, cpu) = (began.0.elapsed(), thread_cpu() - began.1);
        measured.thread_cpu_share = cpu.as_secs_f64() / wall.as_secs_f64().max(1e-9);
        Ok(measured)
    }

    /// A log: each record is written, synced, and only then followed by the next. The latency is
    /// that of both together.
    pub fn log(&self, length: Duration, stop: &Stop) -> Result<Measured, EngineError> {
        let failed = |error: io::Error| self.failed(&error);
        let mut slots = vec![AlignedBuffer::new(LOG_BYTES as usize)];
        block::noise(slots[0].bytes_mut(), 1, 1);
        let mut queue = self.queue(slots)?;
        let window = Window::after(length / RAMP_PART, length - length / RAMP_PART);
        let (mut measured, mut done) = (Measured::default(), Vec::new());
        let mut begin = Instant::now();
        for number in 0.. {
            if window.is_over(begin) || stop.is_requested() {
                break;
            }
            stamp(queue.slot(0), number);
            let offset = HEADER_BYTES + number % (self.bytes / LOG_BYTES) * LOG_BYTES;
            for call in [Call::Write { offset, bytes: LOG_BYTES as u32 }, Call::Sync] {
                queue.push(0, call).map_err(failed)?;
                queue.wait(&mut done).map_err(failed)?;
                done.drain(..).try_for_each(|done| done.result).map_err(failed)?;
            }
            let end = Instant::now();
            if window.holds(end) {
                measured.writes.record((end - begin).as_nanos() as u64);
            }
            begin = end;
        }
        measured.seconds = window.seconds_until(begin);
        Ok(measured)
    }

    fn queue(&self, slots: Vec<AlignedBuffer>) -> Result<Queue, EngineError> {
        Queue::new(&self.means, &self.target.file, slots).map_err(|error| self.failed(&error))
    }

    fn failed(&self, error: &io::Error) -> EngineError {
        unusable(&self.target.path, error)
    }
}

impl Drop for Gauge {
    fn drop(&mut self) {
        if self.removed_at_end {
            let _ = std::fs::remove_file(&self.target.path);
        }
    }
}

/// When requests that end are counted.
#[derive(Debug, Clone, Copy)]
struct Window {
    from: Instant,
    to: Instant,
}

impl Window {
    fn after(ramp: Duration, length: Duration) -> Self {
        let from = Instant::now() + ramp;
        Self { from, to: from + length }
    }

    fn holds(&self, at: Instant) -> bool {
        at >= self.from && at < self.to
    }

    fn is_over(&self, at: Instant) -> bool {
        at >= self.to
    }

    /// Seconds of it that passed until then.
    fn seconds_until(&self, at: Instant) -> f64 {
        at.min(self.to).saturating_duration_since(self.from).as_secs_f64()
    }
}

/// Makes every sector new.
fn stamp(bytes: &mut [u8], stamp: u64) {
    for (sector, number) in bytes.chunks_mut(STAMP_EVERY).zip(0u64..) {
        let stamp = stamp.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ number << 48;
        let bytes = stamp.to_le_bytes();
        let length = bytes.len().min(sector.len());
        sector[..length].copy_from_slice(&bytes[..length]);
    }
}

fn thread_cpu() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_ends_in_the_window_counts() {
        let window = Window::after(Duration::from_secs(1), Duration::from_secs(2));
        let at = |ms: u64| window.from + Duration::from_millis(ms);
        assert!(!window.holds(window.from - Duration::from_nanos(1)));
        assert!(window.holds(at(0)) && window.holds(at(1999)) && !window.holds(at(2000)));
        assert_eq!(window.seconds_until(at(500)), 0.5);
        assert_eq!(window.seconds_until(at(9000)), 2.0);
        assert_eq!(window.seconds_until(window.from - Duration::from_millis(1)), 0.0);
    }

    #[test]
    fn stamps_change_every_sector() {
        let mut first = vec![0; 8192];
        stamp(&mut first, 1);
        let mut second = first.clone();
        stamp(&mut second, 2);
        let differ = first.chunks(STAMP_EVERY).zip(second.chunks(STAMP_EVERY));
        assert!(differ.clone().all(|(a, b)| a != b));
        let sectors: std::collections::BTreeSet<&[u8]> = first.chunks(STAMP_EVERY).collect();
        assert_eq!(sectors.len(), 16, "and each differs from the others");
    }
}
