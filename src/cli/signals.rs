//! Ctrl-C, SIGTERM and SIGHUP: once stops cleanly and keeps the results, twice stops at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::iterator::Signals;

use crate::engine::threads::{Thread, ThreadError};

/// Counts signals from now on. Where they cannot be caught, the system's own handling stays.
pub fn count() -> Result<Arc<AtomicU8>, ThreadError> {
    let level = Arc::default();
    count_into(&level)?;
    Ok(level)
}

/// Counts signals into `level` from now on, up to two.
pub fn count_into(level: &Arc<AtomicU8>) -> Result<(), ThreadError> {
    let mut wanted = vec![SIGINT, SIGTERM];
    // Under nohup the end of the terminal is not the end of the run.
    if !is_ignored(SIGHUP) {
        wanted.push(SIGHUP);
    }
    if let Ok(mut signals) = Signals::new(wanted) {
        let counter = level.clone();
        Thread::named("signals").start(move || {
            for _ in signals.forever() {
                // A third signal changes nothing more.
                let _ = counter.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| {
                    (n < 2).then_some(n + 1)
                });
            }
        })?;
    }
    Ok(())
}

/// Makes a write beyond the limit of file sizes (`ulimit -f`) an error that can be reported, where the
/// system would end petal by SIGXFSZ.
pub fn survive_file_size_limit() {
    // Nothing looks at the flag: the write itself fails. Without a handler petal ends as before.
    let _ = signal_hook::flag::register(SIGXFSZ, Arc::default());
}

/// Tells whether petal was started with this signal ignored.
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask & (1 << (signal - 1)) != 0)
}
