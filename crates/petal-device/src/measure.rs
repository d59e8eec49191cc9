//! Measuring requests on the calibrated area: requests of one size at one depth, and a log's
//! writes. Only requests that end within the measuring time are counted.

use std::fs::File;
use std::io::{self, IoSlice};
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::ScopedJoinHandle;
use std::time::{Duration, Instant};

use rand::{Rng as _, RngExt as _, SeedableRng as _};
use rand_xoshiro::Xoshiro256PlusPlus;
use rustix::io::{ReadWriteFlags, pwritev2, retry_on_intr};
use rustix::time::{ClockId, clock_gettime};

use super::block;
use super::calibration_target::CalibrationTarget;
use super::layout::HEADER_BYTES;
use super::log::LOG_BLOCK_BYTES;
use super::request::{Completion, IoRequest};
use super::target::AlignedBuffer;
use petal_engine::threads::Thread;
use petal_engine::{Result, Stop};
use petal_host::histogram::Latencies;
use petal_record::calibration::{FDATASYNC, FSYNC, O_DSYNC};
use petal_workload::deck::Deck;

/// Size of the smallest log record; each is synced before the next.
pub const LOG_BYTES: u64 = LOG_BLOCK_BYTES;
/// Ramp at the start, which is not counted: one part in `RAMP_PART` of the time, at most
/// `RAMP_MAX`.
const RAMP_PART: u32 = 5;
const RAMP_MAX: Duration = Duration::from_millis(250);
/// Size of a sector. Every sector of a write differs from its old content, so that no device can
/// skip the write.
const STAMP_EVERY: usize = 512;

/// Kind of work at one depth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IoPattern {
    /// Percentage of reads among the requests.
    pub read_pct: u8,
    pub request_bytes: u32,
    /// Set if requests are sequential instead of random.
    pub in_order: bool,
    /// Requests in flight over all threads.
    pub depth: u32,
    pub threads: u32,
}

/// Results of one measurement. They include only requests that ended within `seconds`.
#[derive(Debug, Default)]
pub struct IoMeasurements {
    pub seconds: f64,
    pub reads: Latencies,
    pub writes: Latencies,
    /// CPU share of the busiest thread.
    pub thread_cpu_share: f64,
}

impl IoMeasurements {
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

impl CalibrationTarget {
    /// Measures for `length`. After a stop it returns the measurements up to then.
    pub fn measure(
        &self,
        work: &IoPattern,
        length: Duration,
        seed: u64,
        stop: &Stop,
    ) -> Result<IoMeasurements> {
        let threads = work.threads.clamp(1, work.depth);
        let depth_of =
            |thread: u32| work.depth / threads + u32::from(thread < work.depth % threads);
        self.on_threads(threads, length, stop, &|thread, window, stop| {
            let seed = seed ^ u64::from(thread) << 32;
            self.work(work, depth_of(thread) as usize, seed, window, stop)
        })
    }

    /// Measures a log: each writer writes a record and makes it durable before its next one. The
    /// latency covers both.
    pub fn log(
        &self,
        durable: Durable,
        writers: u32,
        length: Duration,
        stop: &Stop,
    ) -> Result<IoMeasurements> {
        self.on_threads(writers, length, stop, &|writer, window, stop| {
            self.write_log(durable, writer, writers, window, stop)
        })
    }

    /// Runs the same work on so many threads at once, and adds up their measurements.
    fn on_threads(
        &self,
        threads: u32,
        length: Duration,
        stop: &Stop,
        work: &(impl Fn(u32, MeasuredTime, &Stop) -> io::Result<IoMeasurements> + Sync),
    ) -> Result<IoMeasurements> {
        let ramp = (length / RAMP_PART).min(RAMP_MAX);
        let window = MeasuredTime::after(ramp, length.saturating_sub(ramp));
        let short = Arc::<AtomicBool>::default();
        let stop = &stop.clone().or_when(short.clone());
        let results: Vec<io::Result<IoMeasurements>> = std::thread::scope(|scope| {
            let start = |thread: u32| {
                let started =
                    Thread::named("measuring").start_in(scope, move || work(thread, window, stop));
                // With fewer threads the measurement would be a different one.
                started.inspect_err(|_| short.store(true, Ordering::Relaxed))
            };
            let workers: Vec<_> = (0..threads).map(start).collect();
            let lost = || Err(io::Error::other("a measuring thread panicked"));
            let end = |worker: ScopedJoinHandle<'_, _>| worker.join().unwrap_or_else(|_| lost());
            workers.into_iter().map(|worker| worker.map_or_else(|e| Err(e.into()), end)).collect()
        });
        let mut all = IoMeasurements::default();
        for result in results {
            all.add(&result.map_err(|error| self.failed(&error))?);
        }
        Ok(all)
    }

    fn work(
        &self,
        work: &IoPattern,
        depth: usize,
        seed: u64,
        window: MeasuredTime,
        stop: &Stop,
    ) -> io::Result<IoMeasurements> {
        let began = (Instant::now(), thread_cpu());
        let mut stream = Xoshiro256PlusPlus::seed_from_u64(seed);
        let mut slots: Vec<_> =
            (0..depth).map(|_| AlignedBuffer::new(work.request_bytes as usize)).collect();
        if work.read_pct < 100 {
            slots.iter_mut().for_each(|slot| stream.fill_bytes(slot.bytes_mut()));
        }
        let mut queue = self.queue(slots)?;
        let mut deck = Deck::new(work.read_pct);
        let requests = self.bytes() / u64::from(work.request_bytes);
        let mut in_order = 0..;
        let mut free: Vec<usize> = (0..depth).rev().collect();
        let mut begun = vec![(began.0, false); depth];
        let mut done = Vec::with_capacity(depth);
        let mut measured = IoMeasurements::default();
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
                    IoRequest::Read { offset, bytes }
                } else {
                    stamp(queue.slot(slot), stream.next_u64());
                    IoRequest::Write { offset, bytes }
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

    fn write_log(
        &self,
        durable: Durable,
        writer: u32,
        writers: u32,
        window: MeasuredTime,
        stop: &Stop,
    ) -> io::Result<IoMeasurements> {
        let began = (Instant::now(), thread_cpu());
        let mut record = AlignedBuffer::new(LOG_BYTES as usize);
        block::noise(record.bytes_mut(), 1, u64::from(writer));
        let mut measured = IoMeasurements::default();
        let mut begin = Instant::now();
        for number in (u64::from(writer)..).step_by(writers as usize) {
            if window.is_over(begin) || stop.is_requested() {
                break;
            }
            stamp(record.bytes_mut(), number);
            let offset = HEADER_BYTES + number % (self.bytes() / LOG_BYTES) * LOG_BYTES;
            durable.write(self.file(), record.bytes(), offset)?;
            let end = Instant::now();
            if window.holds(end) {
                measured.writes.record((end - begin).as_nanos() as u64);
            }
            begin = end;
        }
        measured.seconds = window.seconds_until(begin);
        let (wall, cpu) = (began.0.elapsed(), thread_cpu() - began.1);
        measured.thread_cpu_share = cpu.as_secs_f64() / wall.as_secs_f64().max(1e-9);
        Ok(measured)
    }
}

/// The call that makes a log record durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Durable {
    Fdatasync,
    Fsync,
    /// The write itself is durable when it returns.
    ODsync,
}

impl Durable {
    pub const ALL: [Self; 3] = [Self::Fdatasync, Self::Fsync, Self::ODsync];

    pub fn name(self) -> &'static str {
        match self {
            Self::Fdatasync => FDATASYNC,
            Self::Fsync => FSYNC,
            Self::ODsync => O_DSYNC,
        }
    }

    fn write(self, file: &File, record: &[u8], offset: u64) -> io::Result<()> {
        match self {
            Self::Fdatasync => file.write_all_at(record, offset).and_then(|()| file.sync_data()),
            Self::Fsync => file.write_all_at(record, offset).and_then(|()| file.sync_all()),
            // RWF_DSYNC is O_DSYNC for one write, so that the file is opened once.
            Self::ODsync => {
                let parts = [IoSlice::new(record)];
                let write = || pwritev2(file, &parts, offset, ReadWriteFlags::DSYNC);
                match retry_on_intr(write)? {
                    written if written == record.len() => Ok(()),
                    _ => Err(io::ErrorKind::WriteZero.into()),
                }
            }
        }
    }
}

/// Time interval in which completed requests are counted.
#[derive(Debug, Clone, Copy)]
struct MeasuredTime {
    from: Instant,
    to: Instant,
}

impl MeasuredTime {
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

    /// Returns the seconds of the interval that have passed at a time.
    fn seconds_until(&self, at: Instant) -> f64 {
        at.min(self.to).saturating_duration_since(self.from).as_secs_f64()
    }
}

/// Changes every sector.
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
        let window = MeasuredTime::after(Duration::from_secs(1), Duration::from_secs(2));
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
