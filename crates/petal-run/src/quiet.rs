//! Wait before a run: until the operating system has written its dirty pages and the data's devices
//! are idle, so that earlier work of others is not measured.

use petal_host::numbers::{bytes as size, decimal};
use std::thread;
use std::time::{Duration, Instant};

use petal_engine::threads::Thread;
use petal_engine::{Progress, ProgressUnit, Stop};
use petal_host::os::{OsInterval, OsSample, Probe};

/// Bytes of dirty pages below which waiting is not worthwhile.
const DIRTY_BYTES_LOW: u64 = 32 << 20;
/// Device requests per second below which a device is idle.
const IDLE_REQUESTS: f64 = 100.0;
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Maximum wait for a host on which others work: it does not get quieter.
const GIVE_UP_AFTER: Duration = Duration::from_secs(5);

/// Result of the wait for a quiet host.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Quiet {
    pub dirty_bytes_after: Option<u64>,
    /// Note about a wait of petal's, or about one that petal gave up.
    pub note: Option<String>,
    /// Last look at the host, while petal itself was idle.
    pub last: OsInterval,
}

/// Waits at most `limit`. Asks the kernel once to write out dirty pages: otherwise, pages of others
/// would be written in the middle of the run.
pub fn wait_until_quiet(
    probe: &Probe,
    limit: Duration,
    progress: &dyn Progress,
    stop: &Stop,
) -> Quiet {
    // The wait limits it, not the kernel's time. If no thread can be started, the kernel writes at
    // its own pace.
    let write_out = || drop(Thread::named("write out").start(rustix::fs::sync));
    wait(probe, limit, progress, stop, write_out)
}

fn wait(
    probe: &Probe,
    limit: Duration,
    progress: &dyn Progress,
    stop: &Stop,
    write_out: impl FnOnce(),
) -> Quiet {
    let began = Instant::now();
    let mut shown_s = None;
    let mut earlier = probe.sample();
    let dirty_bytes_before = earlier.dirty_bytes();
    let (mut least, mut lessened) = (dirty_bytes_before, began);
    if dirty_bytes_before.is_some_and(|bytes| bytes > DIRTY_BYTES_LOW) {
        write_out();
    }
    loop {
        thread::sleep(LOOK_EVERY.min(limit));
        let now = probe.sample();
        let activity = activity(&now, &earlier);
        let waited = began.elapsed();
        let note = match activity {
            None if waited < LOOK_EVERY * 3 => None,
            None => Some(waited_for_idle(waited)),
            Some(_) if stop.is_requested() => None,
            Some(activity) if waited >= limit || lessened.elapsed() >= GIVE_UP_AFTER => {
                let note = format!("{}; still busy: {activity}", waited_for_idle(waited));
                progress.note_once("idle disk", &note);
                Some(note)
            }
            Some(_) => {
                if shown_s.is_none() {
                    progress.phase(
                        "waiting for an idle disk",
                        limit.as_secs(),
                        ProgressUnit::Seconds,
                    );
                }
                let before_s = shown_s.replace(waited.as_secs()).unwrap_or(0);
                progress.advance(waited.as_secs() - before_s);
                if now.dirty_bytes() < least {
                    (least, lessened) = (now.dirty_bytes(), Instant::now());
                }
                earlier = now;
                continue;
            }
        };
        let last = now.since(&earlier);
        return Quiet { dirty_bytes_after: now.dirty_bytes(), note, last };
    }
}

fn waited_for_idle(waited: Duration) -> String {
    format!("waited {} s for an idle disk", decimal(waited.as_secs_f64(), 0))
}

/// Names the continuing activity, or returns `None` if the host is quiet or cannot be seen.
fn activity(now: &OsSample, earlier: &OsSample) -> Option<String> {
    if let Some(bytes) = now.dirty_bytes().filter(|&bytes| bytes > DIRTY_BYTES_LOW) {
        return Some(format!("{} of dirty pages", size(bytes)));
    }
    let interval = now.since(earlier);
    let device = interval.device()?;
    let requests = (device.read_requests + device.write_requests) as f64;
    let per_second = requests / interval.seconds.max(f64::MIN_POSITIVE);
    (per_second > IDLE_REQUESTS || now.in_flight().is_some_and(|requests| requests > 0)).then(
        || {
            format!(
                "the data's device serves about {per_second} requests a second",
                per_second = decimal(per_second, 0)
            )
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use petal_engine::Silent;
    use petal_host::devices::recorded::Recorded;
    use std::cell::Cell;
    use std::sync::Arc;
    use std::sync::atomic::AtomicU8;

    const LIMIT: Duration = Duration::from_secs(60);
    const DIRTY: u64 = 64 << 20;

    struct Host {
        tree: Recorded,
        probe: Probe,
        wrote_out: Cell<u32>,
    }

    impl Host {
        fn new(dirty_bytes: u64, in_flight: u64) -> Self {
            let tree = Recorded::named("nvme-partitions");
            let probe = Probe::new(&tree.find(&["/data"], &[("/data", (259, 2))]));
            let host = Self { tree, probe, wrote_out: Cell::new(0) };
            host.becomes(dirty_bytes, 0, in_flight);
            host
        }

        fn becomes(&self, dirty_bytes: u64, reads: u64, in_flight: u64) {
            let (dirty, writeback) = (dirty_bytes >> 11, dirty_bytes >> 11);
            let memory = format!("Dirty: {dirty} kB\nWriteback: {writeback} kB\n");
            self.tree.write("proc/meminfo", &memory);
            let line = format!(" 259 2 nvme0n1p2 {reads} 0 8 9 0 0 0 0 {in_flight} 9 9\n");
            self.tree.write("proc/diskstats", &line);
        }

        fn wait(&self, limit: Duration, signals: u8) -> Quiet {
            let stop = Stop::unlimited(Arc::new(AtomicU8::new(signals)));
            let count = || self.wrote_out.set(self.wrote_out.get() + 1);
            wait(&self.probe, limit, &Silent, &stop, count)
        }

        /// Waits while the host changes after a moment.
        fn wait_while(&self, change: impl FnOnce(&Recorded) + Send) -> Quiet {
            thread::scope(|scope| {
                let tree = &self.tree;
                scope.spawn(move || {
                    thread::sleep(LOOK_EVERY * 7 / 2);
                    change(tree);
                });
                let stop = Stop::unlimited(Arc::default());
                let count = || self.wrote_out.set(self.wrote_out.get() + 1);
                wait(&self.probe, LIMIT, &Silent, &stop, count)
            })
        }
    }

    #[test]
    fn a_quiet_host_is_not_waited_for_nor_written_out() {
        let host = Host::new(1 << 20, 0);
        let quiet = host.wait(LIMIT, 0);
        assert_eq!((&quiet.note, quiet.dirty_bytes_after), (&None, Some(1 << 20)));
        assert_eq!(host.wrote_out.get(), 0);
    }

    #[test]
    fn dirty_pages_are_written_out_and_waited_for() {
        let host = Host::new(DIRTY, 0);
        let quiet = host.wait_while(|tree| {
            tree.write("proc/meminfo", "Dirty: 100 kB\nWriteback: 0 kB\n");
        });
        assert!(quiet.note.unwrap().ends_with(" s for an idle disk"));
        assert_eq!(quiet.dirty_bytes_after, Some(100 << 10));
        assert_eq!(host.wrote_out.get(), 1);
    }

    #[test]
    fn a_busy_device_is_waited_for_and_named_when_it_stays_busy() {
        let host = Host::new(0, 3);
        let idle = " 259 2 nvme0n1p2 1 0 8 9 0 0 0 0 0 9 9\n";
        let quiet = host.wait_while(|tree| tree.write("proc/diskstats", idle));
        assert!(quiet.note.unwrap().ends_with(" s for an idle disk"));
        host.becomes(0, 0, 3);
        let quiet = host.wait(Duration::from_millis(100), 0);
        let note = quiet.note.unwrap();
        let rate = note.strip_prefix("waited 0 s for an idle disk; still busy: ");
        let rate = rate.and_then(|what| what.strip_prefix("the data's device serves about "));
        assert!(rate.is_some_and(|rate| rate.ends_with(" requests a second")), "{note}");
    }

    #[test]
    fn a_signal_ends_the_wait() {
        let began = Instant::now();
        let quiet = Host::new(DIRTY, 0).wait(LIMIT, 1);
        assert!(quiet.note.is_none() && began.elapsed() < GIVE_UP_AFTER, "{quiet:?}");
    }
}
