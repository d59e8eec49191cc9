//! The right to write in a database that has one writer, whose own wait cannot be cut.

use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};

/// A session that waits looks so often if it is cut.
const LOOK: Duration = Duration::from_millis(5);

/// A lock that has one owner at a time.
#[derive(Default)]
pub struct WriterLock(Mutex<()>);

impl WriterLock {
    /// Takes it; None if the caller is cut while it waits. `waited` hears of the nanoseconds of a
    /// wait.
    pub fn take(
        &self,
        is_cut: impl Fn() -> bool,
        waited: impl FnOnce(u64),
    ) -> Option<MutexGuard<'_, ()>> {
        if let Some(writer) = self.0.try_lock() {
            return Some(writer);
        }
        let begin = Instant::now();
        let writer = loop {
            match self.0.try_lock_for(LOOK) {
                None if !is_cut() => {}
                writer => break writer,
            }
        };
        waited(begin.elapsed().as_nanos() as u64);
        writer
    }
}
