//! Before a run: waits until the operating system has written what it owes and the data's devices
//! are idle, so that nobody else's debts are measured.

use std::thread;
use std::time::{Duration, Instant};

use crate::engine::{Progress, Stop};
use crate::stats::os::{Probe, Sample};

/// Dirty pages below this are no load worth waiting for.
const DIRTY_BYTES_LOW: u64 = 32 << 20;
/// Fewer device requests a second than this is idle.
const IDLE_REQUESTS: u64 = 100;
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// A host on which somebody else is at work does not get quieter: waiting longer would not help.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long it took, and how it ended.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Quiet {
    pub dirty_bytes_after: Option<u64>,
    /// What a person should know: what it waited for, or gave up on.
    pub note: Option<String>,
}

/// Waits at most `limit`. Asks the kernel once to write out dirty pages: without that, pages that
/// others left would be written in the middle of the run.
pub fn wait_until_quiet(
    probe: &Probe,
    limit: Duration,
    progress: &dyn Progress,
    stop: &Stop,
) -> Quiet {
    let began = Instant::now();
    let mut earlier = probe.sample();
    let (mut least, mut lessened) = (earlier.dirty_bytes(), began);
    if earlier.dirty_bytes().is_some_and(|bytes| bytes > DIRTY_BYTES_LOW) {
        // Bounded by the wait below, not by how long the kernel takes.
        thread::spawn(rustix::fs::sync);
    }
    loop {
        thread::sleep(LOOK_EVERY);
        let now = probe.sample();
        let unrest = unrest(&now, &earlier);
        let waited = began.elapsed();
        let note = match unrest {
            None if waited < LOOK_EVERY * 3 => None,
            None => Some(format!("waited {:.1} s until the host was quiet", waited.as_secs_f64())),
            Some(_) if stop.is_requested() => None,
            Some(unrest) if waited >= limit || lessened.elapsed() >= PATIENCE => {
                let note =
                    format!("the host was not quiet after {:.0} s: {unrest}", waited.as_secs_f64());
                progress.note(&note);
                Some(note)
            }
            Some(_) => {
                if now.dirty_bytes() < least {
                    (least, lessened) = (now.dirty_bytes(), Instant::now());
                }
                earlier = now;
                continue;
            }
        };
        return Quiet { dirty_bytes_after: now.dirty_bytes(), note };
    }
}

/// What still goes on; None when it is quiet or cannot be seen.
fn unrest(now: &Sample, earlier: &Sample) -> Option<String> {
    if let Some(bytes) = now.dirty_bytes().filter(|&bytes| bytes > DIRTY_BYTES_LOW) {
        return Some(format!("{} MiB of dirty pages", bytes >> 20));
    }
    let device = now.since(earlier).device?;
    let requests = device.read_requests + device.write_requests;
    let per_second = requests * 1000 / LOOK_EVERY.as_millis() as u64;
    (per_second > IDLE_REQUESTS || now.in_flight().is_some_and(|requests| requests > 0))
        .then(|| format!("the data's device serves about {per_second} requests a second"))
}
