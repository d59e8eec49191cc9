//! Detects that petal did not run although it should have: it was stopped by a signal, suspended
//! with its machine, or got no processor.

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::time::ClockId;

use petal_engine::threads::Thread;
use petal_host::os::nanoseconds;
use petal_record::Suspended;

/// Intended length of a wait.
const EVERY: Duration = Duration::from_millis(100);
/// Excess time between two looks from which it is reported.
const LOST_MIN: Duration = Duration::from_millis(500);

/// Times of the kernel's two clocks: only the second one advances while the machine is suspended.
#[derive(Debug, Clone, Copy)]
struct Reading {
    monotonic: Duration,
    boot: Duration,
}

impl Reading {
    fn now() -> Self {
        let read = |clock| Duration::from_nanos(nanoseconds(clock));
        Self { monotonic: read(ClockId::Monotonic), boot: read(ClockId::Boottime) }
    }
}

/// Watches from a separate thread, which only waits: a slow database or a blocked terminal does not
/// delay it.
pub struct SuspensionWatch {
    /// Dropped when the run is over.
    end: Sender<()>,
    thread: JoinHandle<Vec<Suspended>>,
}

impl SuspensionWatch {
    /// Watches from the trigger on, which is now. Returns `None` if no thread can be started.
    pub fn begin() -> Option<Self> {
        let (end, ended) = channel();
        let mut looks = WaitTimer::beginning_at(Reading::now());
        let thread = Thread::named("suspension").start(move || {
            while ended.recv_timeout(EVERY) == Err(RecvTimeoutError::Timeout) {
                looks.look_at(Reading::now());
            }
            looks.look_at(Reading::now());
            looks.suspended
        });
        Some(Self { end, thread: thread.ok()? })
    }

    /// Returns each time that petal did not run, or `None` if unknown.
    pub fn end(self) -> Option<Vec<Suspended>> {
        drop(self.end);
        self.thread.join().ok()
    }
}

/// Compares the length of each wait with its intended length.
struct WaitTimer {
    trigger: Reading,
    latest: Reading,
    suspended: Vec<Suspended>,
}

impl WaitTimer {
    fn beginning_at(trigger: Reading) -> Self {
        Self { trigger, latest: trigger, suspended: Vec::new() }
    }

    /// Looks at the clocks after a wait of at most [`EVERY`].
    fn look_at(&mut self, now: Reading) {
        let monotonic = now.monotonic.saturating_sub(self.latest.monotonic);
        let boot = now.boot.saturating_sub(self.latest.boot);
        let lost = monotonic.max(boot).saturating_sub(EVERY);
        if lost >= LOST_MIN {
            // The two clocks are read one after the other, so a small difference is not a
            // suspension.
            let machine = boot.saturating_sub(monotonic);
            let machine = if machine >= LOST_MIN { machine } else { Duration::ZERO };
            let at = self.latest.monotonic.saturating_sub(self.trigger.monotonic);
            self.suspended.push(Suspended {
                at_s: at.as_secs_f64(),
                lost_s: lost.as_secs_f64(),
                machine_s: machine.as_secs_f64(),
            });
        }
        self.latest = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(monotonic_ms: u64, boot_ms: u64) -> Reading {
        Reading {
            monotonic: Duration::from_millis(monotonic_ms),
            boot: Duration::from_millis(boot_ms),
        }
    }

    #[test]
    fn a_stopped_process_and_a_suspended_machine_are_distinguished() {
        let mut watch = WaitTimer::beginning_at(at(5_000, 9_000));
        // Looks at the intended intervals, or a little late.
        watch.look_at(at(5_100, 9_100));
        watch.look_at(at(5_650, 9_650));
        // Six seconds without a look; then the machine slept for an hour.
        watch.look_at(at(11_750, 15_751));
        watch.look_at(at(11_850, 3_615_851));
        let seen = watch.suspended;
        let stopped = Suspended { at_s: 0.65, lost_s: 6.001, machine_s: 0.0 };
        let slept = Suspended { at_s: 6.75, lost_s: 3600.0, machine_s: 3600.0 };
        assert_eq!(seen, [stopped, slept]);
    }
}
