//! Names petal's waits when nothing has gone on for ten seconds: statements and hosts that explain
//! themselves ([`petal_engine::waits_now`]), and threads that the kernel holds in a call on a
//! file. One thread looks after all parts of a command.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use petal_engine::threads::Thread;
use petal_engine::waits_now::lasting;
use petal_host::blocked::BlockedThreads;

/// Time without progress after which waits are named.
const LIMIT: Duration = Duration::from_secs(10);
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// A wait is named again when the time without progress has grown so often.
const AGAIN: u32 = 6;
/// Waits that are explained, of all that last: each may cost a connection.
const EXPLAINED_MAX: usize = 3;

/// The time of the last progress.
#[derive(Clone)]
pub struct LastProgress(Arc<Mutex<Instant>>);

impl Default for LastProgress {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(Instant::now())))
    }
}

impl LastProgress {
    pub fn is_now(&self) {
        *self.0.lock() = Instant::now();
    }

    /// Begins to look, and names waits by `note`.
    pub fn watch(&self, note: impl Fn(&str) + Send + 'static) {
        let last = Arc::clone(&self.0);
        let look = move || {
            let mut waits = LongWaits::default();
            loop {
                std::thread::sleep(LOOK_EVERY);
                let begin = *last.lock();
                for text in waits.look(begin, Instant::now()) {
                    note(&text);
                }
            }
        };
        // Without it petal only says less.
        drop(Thread::named("no progress").start(look));
    }
}

/// The waits of a time without progress.
#[derive(Default)]
struct LongWaits {
    /// The begin of that time.
    begin: Option<Instant>,
    threads: Option<BlockedThreads>,
    /// Time at which each was named last, since the begin.
    named: HashMap<String, Duration>,
}

impl LongWaits {
    fn look(&mut self, begin: Instant, now: Instant) -> Vec<String> {
        self.look_at(begin, now, LIMIT)
    }

    /// Lines about waits of at least this length that are to be named now.
    fn look_at(&mut self, begin: Instant, now: Instant, at_least: Duration) -> Vec<String> {
        if self.begin != Some(begin) {
            *self = Self { begin: Some(begin), ..Self::default() };
        }
        let still = now.saturating_duration_since(begin);
        if still < LOOK_EVERY * 2 {
            return Vec::new();
        }
        let threads = self.threads.get_or_insert_with(|| BlockedThreads::of(std::process::id()));
        let threads = threads.look(now).into_iter().filter(|(_, waited)| *waited >= LIMIT / 2);
        let threads: Vec<String> = threads.map(|(thread, _)| thread.to_string()).collect();
        if still < LIMIT {
            return Vec::new();
        }
        let waits = lasting(at_least);
        let more = waits.len().saturating_sub(EXPLAINED_MAX);
        let mut found: Vec<String> =
            waits.iter().take(EXPLAINED_MAX).filter_map(|wait| wait.explain()).collect();
        found.dedup();
        if let Some(last) = found.last_mut().filter(|_| more > 0) {
            last.push_str(&format!("; {more} more wait as long"));
        }
        let is_due = |named: Option<&Duration>| named.is_none_or(|at| still >= *at * AGAIN);
        let due = threads.into_iter().chain(found).filter(|text| is_due(self.named.get(text)));
        let due: Vec<String> = due.collect();
        self.named.extend(due.iter().map(|text| (text.clone(), still)));
        due.iter().map(|text| format!("no progress for {} s: {text}", still.as_secs())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use petal_engine::waits_now::{Waiter, wait_for};

    #[test]
    fn a_wait_is_named_after_ten_seconds_and_seldom_again_until_there_is_progress() {
        let mut waits = LongWaits::default();
        let begin = Instant::now();
        let _now = wait_for(|| "db1: COMMIT waits for IPC:SyncRep".to_owned());
        let mut named = |begin: Instant, seconds: u64| {
            let lines = waits.look_at(begin, begin + Duration::from_secs(seconds), Duration::ZERO);
            // Threads of other tests also wait.
            lines.iter().filter(|line| line.contains("SyncRep")).count()
        };
        let first: Vec<u64> = (0..400).filter(|second| named(begin, *second) > 0).collect();
        assert_eq!(first, [10, 60, 360]);
        let later = begin + Duration::from_secs(1);
        assert_eq!((named(later, 9), named(later, 10)), (0, 1));
    }

    #[test]
    fn one_that_works_is_not_named() {
        let working = Waiter::new(|| None);
        let _now = working.wait();
        let mut waits = LongWaits::default();
        let begin = Instant::now();
        let named = waits.look_at(begin, begin + LIMIT * 2, Duration::ZERO);
        assert!(named.iter().all(|line| line.contains("SyncRep")), "{named:?}");
    }
}
