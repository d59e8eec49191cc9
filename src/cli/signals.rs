//! Ctrl-C, SIGTERM and SIGHUP: once stops cleanly and keeps the results, twice stops at once.

use std::fs::File;
use std::io::Read as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use parking_lot::Mutex;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;

use petal_engine::threads::{Thread, ThreadError};
use petal_host::files;

/// The signals of a worker, which its supervisor hears and hands on.
static ORDERS: Mutex<Orders> = Mutex::new(Orders { comes: false, level: None });

struct Orders {
    /// Signals come from a supervisor.
    comes: bool,
    level: Option<Arc<AtomicU8>>,
}

/// The signals that ask petal to stop. Under nohup the end of the terminal is not the end of a run.
pub fn asking() -> Vec<i32> {
    let hang_up = Some(SIGHUP).filter(|signal| !is_ignored(*signal));
    [SIGINT, SIGTERM].into_iter().chain(hang_up).collect()
}

/// Counts signals from now on. If they cannot be caught, the system's own handling stays.
pub fn count() -> Result<Arc<AtomicU8>, ThreadError> {
    let level = Arc::default();
    count_into(&level)?;
    Ok(level)
}

/// Counts signals into `level` from now on, up to two.
pub fn count_into(level: &Arc<AtomicU8>) -> Result<(), ThreadError> {
    let mut orders = ORDERS.lock();
    if orders.comes {
        orders.level = Some(level.clone());
        return Ok(());
    }
    if let Ok(mut signals) = Signals::new(asking()) {
        let level = level.clone();
        Thread::named("signals").start(move || signals.forever().for_each(|_| raise(&level)))?;
    }
    Ok(())
}

/// A third signal changes nothing more.
fn raise(level: &AtomicU8) {
    let raised = |n| (n < 2).then_some(n + 1);
    let _ = level.fetch_update(Ordering::Relaxed, Ordering::Relaxed, raised);
}

/// Obeys a supervisor from now on, which sends each signal as one byte. A terminal, a service manager
/// and timeout(1) signal both processes, which is one signal; so this one ignores its own.
pub fn follow_supervisor(mut orders: File) {
    for signal in asking() {
        // Nothing looks at the flag. Without a handler the system's own handling stays.
        let _ = signal_hook::flag::register(signal, Arc::default());
    }
    let follow_all = move || {
        let mut signal = [0];
        while orders.read(&mut signal).is_ok_and(|bytes| bytes > 0) {
            match ORDERS.lock().level.clone() {
                Some(level) => raise(&level),
                None => drop(emulate_default_handler(signal[0].into())),
            }
        }
    };
    ORDERS.lock().comes = Thread::named("signals").start(follow_all).is_ok();
}

/// Makes a write beyond the limit of file sizes (`ulimit -f`) an error that can be reported, if the
/// system would end petal by SIGXFSZ.
pub fn survive_file_size_limit() {
    // Nothing looks at the flag: the write itself fails. Without a handler petal ends as before.
    let _ = signal_hook::flag::register(SIGXFSZ, Arc::default());
}

/// Returns true if petal was started with this signal ignored.
fn is_ignored(signal: i32) -> bool {
    let status = files::system_text("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask & (1 << (signal - 1)) != 0)
}
