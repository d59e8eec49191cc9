//! The trigger: sessions wait connected until all are there, then begin together.

use std::sync::OnceLock;

use petal_engine::Stop;

/// Opens once: with a [`Stop`] to run under, or with nothing when the run is called off.
#[derive(Default)]
pub struct Trigger(OnceLock<Option<Stop>>);

impl Trigger {
    pub fn pull(&self, stop: Stop) {
        self.0.get_or_init(|| Some(stop));
    }

    pub fn call_off(&self) {
        self.0.get_or_init(|| None);
    }

    /// Waits for the trigger; None when the run was called off.
    pub fn wait(&self) -> Option<Stop> {
        self.0.wait().clone()
    }
}
