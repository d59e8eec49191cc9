//! The wait for a database's single writer lock, inside this process.
//!
//! SQLite's own busy handler sleeps for 1 to 100 ms and would measure a timer. petal's waits until
//! a commit or a checkpoint of this process on the same file ends, and tries again; after a
//! millisecond at the latest, because the holder may be another process.
//!
//! SQLite's lock knows no queue: a session that comes back at once gets it again, before one that
//! was woken. That is the quickest for all together and is left so, but only for [`STARVED`]: then
//! sessions with new work let those pass that have waited so long, and checkpoints always.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use petal_engine::Stop;

const RETRY: Duration = Duration::from_millis(1);
/// A session that has waited this long goes before sessions with new work. Far above a commit, so
/// that passing the lock on (a wake-up each) costs little; far below a stall that a user sees.
const STARVED: Duration = Duration::from_millis(100);
/// Wait after which the operation ends as busy.
const BUSY_TIMEOUT: Duration = Duration::from_secs(60);

/// The queue for one database file's writer lock, shared by all its connections.
#[derive(Default)]
pub struct WriterQueue {
    /// Ends of transactions and checkpoints so far.
    ends: AtomicU64,
    waiting: AtomicUsize,
    sleep: Mutex<()>,
    ended: Condvar,
    /// A checkpoint is asked for or at work.
    pub checkpoint_pending: AtomicBool,
    /// A checkpoint waits for the writer lock; without a pause of writers the WAL would grow.
    pub checkpoint_waits: AtomicBool,
    /// Sessions that have waited for [`STARVED`].
    starved: AtomicUsize,
}

impl WriterQueue {
    pub fn ends(&self) -> u64 {
        self.ends.load(Ordering::SeqCst)
    }

    /// The lock may be free now: one waiter tries.
    pub fn ended(&self) {
        self.ends.fetch_add(1, Ordering::SeqCst);
        if self.waiting.load(Ordering::SeqCst) > 0 {
            let _sleep = self.sleep.lock();
            // The one to wake may be any of those that sleep.
            if self.must_let_pass() {
                self.ended.notify_all();
            } else {
                self.ended.notify_one();
            }
        }
    }

    fn must_let_pass(&self) -> bool {
        self.checkpoint_waits.load(Ordering::Acquire) || self.starved.load(Ordering::Acquire) > 0
    }

    /// Sleeps until something ended after `seen`, or for [`RETRY`]. Returns what to wait for next.
    pub fn wait(&self, seen: u64) -> u64 {
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let mut sleep = self.sleep.lock();
        if self.ends() == seen {
            self.ended.wait_for(&mut sleep, RETRY);
        }
        self.waiting.fetch_sub(1, Ordering::SeqCst);
        self.ends()
    }
}

/// A connection's wait for the writer lock: SQLite's busy handler on one side, its session on the
/// other.
pub struct QueuedWriter {
    writers: Arc<WriterQueue>,
    seen: AtomicU64,
    /// The time at which the operation first met the lock; None if it did not.
    since: Mutex<Option<Instant>>,
    met: AtomicBool,
    is_starved: AtomicBool,
    stop: Mutex<Option<Stop>>,
    cancelled: Arc<AtomicBool>,
}

impl QueuedWriter {
    pub fn new(writers: Arc<WriterQueue>, cancelled: Arc<AtomicBool>) -> Self {
        Self {
            writers,
            seen: AtomicU64::new(0),
            since: Mutex::default(),
            met: AtomicBool::new(false),
            is_starved: AtomicBool::new(false),
            stop: Mutex::default(),
            cancelled,
        }
    }

    /// The stop that a wait obeys from now on.
    pub fn set_stop(&self, stop: &Stop) {
        *self.stop.lock() = Some(stop.clone());
    }

    /// Lets a checkpoint and starving sessions go first. SQLite's own error if it is cut meanwhile.
    pub fn let_others_pass(&self) -> rusqlite::Result<()> {
        self.seen.store(self.writers.ends(), Ordering::Relaxed);
        while self.writers.must_let_pass() && !self.is_starved.load(Ordering::Relaxed) {
            if !self.busy() {
                let busy = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_BUSY);
                return Err(rusqlite::Error::SqliteFailure(busy, None));
            }
        }
        Ok(())
    }

    /// The time that it waited, if it did.
    pub fn take_wait(&self) -> Option<Duration> {
        if !self.met.swap(false, Ordering::Relaxed) {
            return None;
        }
        if self.is_starved.swap(false, Ordering::Relaxed) {
            self.writers.starved.fetch_sub(1, Ordering::AcqRel);
        }
        self.since.lock().take().map(|since| since.elapsed())
    }

    /// SQLite met a lock: true to try again.
    pub fn busy(&self) -> bool {
        let since = *self.since.lock().get_or_insert_with(Instant::now);
        self.met.store(true, Ordering::Relaxed);
        let is_cut = self.cancelled.load(Ordering::Relaxed)
            || self.stop.lock().as_ref().is_some_and(Stop::is_cutting);
        if is_cut || since.elapsed() >= BUSY_TIMEOUT {
            return false;
        }
        if since.elapsed() >= STARVED && !self.is_starved.swap(true, Ordering::Relaxed) {
            self.writers.starved.fetch_add(1, Ordering::AcqRel);
        }
        let seen = self.writers.wait(self.seen.load(Ordering::Relaxed));
        self.seen.store(seen, Ordering::Relaxed);
        true
    }
}

impl Drop for QueuedWriter {
    fn drop(&mut self) {
        self.take_wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_between_the_attempt_and_the_wait_is_not_missed() {
        let writers = WriterQueue::default();
        let took = || {
            let seen = writers.ends();
            writers.ended();
            let begin = Instant::now();
            assert_eq!(writers.wait(seen), seen + 1);
            begin.elapsed()
        };
        // A busy machine may hold some of them up, not all.
        assert!((0..200).any(|_| took() < RETRY));
    }

    #[test]
    fn a_starving_session_goes_first_and_is_counted_out_again() {
        let writers = Arc::<WriterQueue>::default();
        let waiter = || QueuedWriter::new(Arc::clone(&writers), Arc::default());
        let (starving, newcomer) = (waiter(), waiter());
        let begin = Instant::now();
        while begin.elapsed() < STARVED + RETRY {
            assert!(starving.busy());
        }
        assert!(starving.busy() && writers.must_let_pass());
        // It does not wait for itself.
        starving.let_others_pass().unwrap();
        std::thread::scope(|scope| {
            let passing = scope.spawn(|| {
                newcomer.let_others_pass().unwrap();
                newcomer.take_wait()
            });
            while writers.waiting.load(Ordering::Acquire) == 0 {
                std::thread::yield_now();
            }
            std::thread::sleep(RETRY * 2);
            assert!(starving.take_wait().unwrap() >= STARVED);
            writers.ended();
            assert!(passing.join().unwrap().unwrap() >= RETRY);
        });
        assert!(!writers.must_let_pass());
    }

    #[test]
    fn a_cut_operation_waits_no_more_and_its_wait_is_reported_once() {
        let cancelled = Arc::new(AtomicBool::new(false));
        let waiter = QueuedWriter::new(Arc::default(), Arc::clone(&cancelled));
        assert!(waiter.take_wait().is_none());
        waiter.let_others_pass().unwrap();
        assert!(waiter.busy());
        cancelled.store(true, Ordering::Relaxed);
        assert!(!waiter.busy());
        assert!(waiter.take_wait().unwrap() >= RETRY);
        assert!(waiter.take_wait().is_none());
    }
}
