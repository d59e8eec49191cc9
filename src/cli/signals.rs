//! Ctrl-C and SIGTERM: once stops cleanly and keeps the results, twice stops at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::thread;

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// Counts signals from now on. Where they cannot be caught, the system's own handling stays.
pub fn count() -> Arc<AtomicU8> {
    let level = Arc::default();
    count_into(&level);
    level
}

/// Counts them here from now on.
pub fn count_into(level: &Arc<AtomicU8>) {
    if let Ok(mut signals) = Signals::new([SIGINT, SIGTERM]) {
        let counter = level.clone();
        thread::spawn(move || {
            for _ in signals.forever() {
                // A third signal changes nothing more.
                let _ = counter.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| {
                    (n < 2).then_some(n + 1)
                });
            }
        });
    }
}
