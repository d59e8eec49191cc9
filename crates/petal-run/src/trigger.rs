//! Trigger: sessions wait connected until all are there, then begin together.

use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use petal_engine::Stop;

/// Waits end with the trigger. A wait with a limit is sleep to the programs that time threads, and
/// not a wait for a lock.
const LIMIT: Duration = Duration::from_secs(3600);

/// Trigger that opens once: with a [`Stop`] to run under, or with nothing if the run is called off.
#[derive(Default)]
pub struct Trigger {
    outcome: Mutex<Option<Option<Stop>>>,
    opened: Condvar,
}

impl Trigger {
    pub fn start_sessions(&self, stop: Stop) {
        self.open(Some(stop));
    }

    pub fn call_off(&self) {
        self.open(None);
    }

    fn open(&self, outcome: Option<Stop>) {
        self.outcome.lock().get_or_insert(outcome);
        self.opened.notify_all();
    }

    /// Calls the run off when the result is dropped, on an error or a panic, unless it was
    /// triggered.
    pub fn call_off_at_end(&self) -> CallOff<'_> {
        CallOff(self)
    }

    /// Waits for the trigger; returns `None` if the run was called off.
    pub fn wait(&self) -> Option<Stop> {
        let mut outcome = self.outcome.lock();
        loop {
            if let Some(outcome) = &*outcome {
                return outcome.clone();
            }
            self.opened.wait_for(&mut outcome, LIMIT);
        }
    }
}

/// Calls a run off when it is dropped.
pub struct CallOff<'a>(&'a Trigger);

impl Drop for CallOff<'_> {
    fn drop(&mut self) {
        self.0.call_off();
    }
}
