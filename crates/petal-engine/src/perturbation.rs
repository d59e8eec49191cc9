//! Small changes of a run's reads and commits. Their effect shows what limits the run.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

/// Changes that hold until the next ones are set. Sessions of an engine ask at each read and
/// commit, which is cheap.
#[derive(Debug, Default)]
pub struct Perturbation {
    read_again_each: AtomicU32,
    read_later_ns: AtomicU64,
    commit_later_ns: AtomicU64,
    reads: AtomicU32,
    delays: AtomicU64,
    delayed_ns: AtomicU64,
}

/// A change of all reads or commits; the default changes nothing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Perturbed {
    /// Number of reads of which one is followed by a second one; 0: none.
    pub read_again_each: u32,
    /// Each read ends this much later.
    pub read_later_ns: u64,
    /// Each commit ends this much later, and holds its locks meanwhile.
    pub commit_later_ns: u64,
}

impl Perturbation {
    pub fn set(&self, change: Perturbed) {
        self.read_again_each.store(change.read_again_each, Relaxed);
        self.read_later_ns.store(change.read_later_ns, Relaxed);
        self.commit_later_ns.store(change.commit_later_ns, Relaxed);
    }

    /// Delays the end of a read. Returns true if the engine is to read once more.
    pub fn after_read(&self) -> bool {
        self.delay(self.read_later_ns.load(Relaxed));
        let each = self.read_again_each.load(Relaxed);
        each > 0 && self.reads.fetch_add(1, Relaxed).is_multiple_of(each)
    }

    /// Delays the end of a commit.
    pub fn after_commit(&self) {
        self.delay(self.commit_later_ns.load(Relaxed));
    }

    /// Returns the number of delays so far, and their time: the system may oversleep.
    pub fn delays(&self) -> (u64, u64) {
        (self.delays.load(Relaxed), self.delayed_ns.load(Relaxed))
    }

    fn delay(&self, later_ns: u64) {
        if later_ns == 0 {
            return;
        }
        let begin = Instant::now();
        thread::sleep(Duration::from_nanos(later_ns));
        self.delays.fetch_add(1, Relaxed);
        self.delayed_ns.fetch_add(begin.elapsed().as_nanos() as u64, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_are_repeated_and_delayed_only_as_long_as_that_is_set() {
        let all = Perturbation::default();
        let again = |all: &Perturbation| (0..8).filter(|_| all.after_read()).count();
        assert_eq!((again(&all), all.delays()), (0, (0, 0)));
        all.set(Perturbed { read_again_each: 4, ..Perturbed::default() });
        assert_eq!((again(&all), all.delays()), (2, (0, 0)));
        all.set(Perturbed { read_later_ns: 1000, ..Perturbed::default() });
        all.after_commit();
        assert_eq!((again(&all), all.delays().0), (0, 8));
        all.set(Perturbed { commit_later_ns: 1000, ..Perturbed::default() });
        all.after_commit();
        all.set(Perturbed::default());
        all.after_commit();
        assert!(all.delays().0 == 9 && all.delays().1 >= 9000);
    }
}
