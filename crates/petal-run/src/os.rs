//! Records the operating system's counters every second, without a run: for a database's host on
//! which petal does not drive a run.

use std::sync::atomic::{AtomicU8, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use petal_host::os::Probe;
use petal_record::RecordError;
use petal_record::os_log::OsLog;

const EVERY: Duration = Duration::from_secs(1);
/// Interval of checks for a signal.
const POLL: Duration = Duration::from_millis(100);

/// Records until a signal, or for `length`. Returns the number of written intervals; after an
/// error, earlier intervals are kept.
pub fn record(
    probe: &Probe,
    mut log: OsLog,
    length: Duration,
    signals: &AtomicU8,
) -> Result<u64, RecordError> {
    let began = Instant::now();
    let mut earlier = probe.sample();
    let mut written = 0;
    loop {
        // From the beginning, so that delays do not add up.
        let ticks = began.elapsed().as_secs() + 1;
        let due = (EVERY * u32::try_from(ticks).unwrap_or(u32::MAX)).min(length);
        let is_asked = wait(began + due, signals);
        let now = probe.sample();
        log.append_now(None, &now.since(&earlier))?;
        written += 1;
        earlier = now;
        if is_asked || began.elapsed() >= length {
            return Ok(written);
        }
    }
}

/// Returns true after a signal.
fn wait(until: Instant, signals: &AtomicU8) -> bool {
    loop {
        if signals.load(Ordering::Relaxed) > 0 {
            return true;
        }
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return false;
        }
        thread::sleep(left.min(POLL));
    }
}
