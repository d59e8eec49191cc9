//! Slots of a run's time, in rounds of a random order: for experiments and for neighbours.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rand::{RngExt as _, SeedableRng as _};
use rand_xoshiro::Xoshiro256PlusPlus;

/// Slots of equal length, by the work in each.
pub struct Slots<T> {
    pub from_ns: u64,
    pub slot_ns: u64,
    /// Begin of each slot that is not counted.
    pub settling_ns: u64,
    pub order: Vec<T>,
}

impl<T: Copy> Slots<T> {
    /// Plans whole rounds, each in another order, drawn from the seed.
    pub fn in_rounds(
        (from_ns, slot_ns, settling_ns): (u64, u64, u64),
        mut round: Vec<T>,
        rounds: u64,
        seed: u64,
    ) -> Self {
        let mut draws = Xoshiro256PlusPlus::seed_from_u64(seed);
        let mut order = Vec::with_capacity(round.len() * rounds as usize);
        for _ in 0..rounds {
            for last in (1..round.len()).rev() {
                round.swap(last, draws.random_range(0..=last));
            }
            order.extend(&round);
        }
        Self { from_ns, slot_ns, settling_ns, order }
    }

    pub fn begin_ns(&self, slot: usize) -> u64 {
        self.from_ns + self.slot_ns * slot as u64
    }

    /// Returns the slot at a time, and its work.
    pub fn at(&self, now_ns: u64) -> Option<(usize, T)> {
        let slot = (now_ns.checked_sub(self.from_ns)? / self.slot_ns) as usize;
        Some((slot, *self.order.get(slot)?))
    }
}

/// The end of a run, for the thread that works through its slots.
#[derive(Default)]
pub struct RunEnd {
    is_over: AtomicBool,
}

impl RunEnd {
    /// Waits for a time after the trigger; false if the run is over before it.
    pub fn wait_until(&self, trigger: Instant, at_ns: u64) -> bool {
        let at = trigger + Duration::from_nanos(at_ns);
        loop {
            let left = at.saturating_duration_since(Instant::now());
            if self.is_over.load(Ordering::Relaxed) {
                return false;
            }
            if left.is_zero() {
                return true;
            }
            thread::park_timeout(left);
        }
    }

    /// Ends the run; the thread that waits is to be unparked.
    pub fn set(&self) {
        self.is_over.store(true, Ordering::Relaxed);
    }
}
