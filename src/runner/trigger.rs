//! Trigger: sessions wait connected until all are there, then begin together.

use std::sync::OnceLock;

use petal_engine::Stop;

/// Trigger that opens once: with a [`Stop`] to run under, or with nothing if the run is called off.
#[derive(Default)]
pub struct Trigger(OnceLock<Option<Stop>>);

impl Trigger {
    pub fn pull(&self, stop: Stop) {
        self.0.get_or_init(|| Some(stop));
    }

    pub fn call_off(&self) {
        self.0.get_or_init(|| None);
    }

    /// Calls the run off when the result is dropped, on an error or a panic, unless it was
    /// triggered.
    pub fn call_off_at_end(&self) -> CallOff<'_> {
        CallOff(self)
    }

    /// Waits for the trigger; returns `None` if the run was called off.
    pub fn wait(&self) -> Option<Stop> {
        self.0.wait().clone()
    }
}

/// Calls a run off when it is dropped.
pub struct CallOff<'a>(&'a Trigger);

impl Drop for CallOff<'_> {
    fn drop(&mut self) {
        self.0.call_off();
    }
}
