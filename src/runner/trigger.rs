//! The trigger: sessions wait connected until all are there, then begin together.

use parking_lot::{Condvar, Mutex};

use crate::engine::Stop;

/// Opens once: with a [`Stop`] to run under, or with nothing when the run is called off.
#[derive(Default)]
pub struct Trigger {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default, Clone)]
enum State {
    #[default]
    Waiting,
    Pulled(Stop),
    CalledOff,
}

impl Trigger {
    pub fn pull(&self, stop: Stop) {
        self.set(State::Pulled(stop));
    }

    pub fn call_off(&self) {
        self.set(State::CalledOff);
    }

    /// Waits for the trigger; None when the run was called off.
    pub fn wait(&self) -> Option<Stop> {
        let mut state = self.state.lock();
        loop {
            match &*state {
                State::Waiting => {}
                State::Pulled(stop) => return Some(stop.clone()),
                State::CalledOff => return None,
            }
            self.changed.wait(&mut state);
        }
    }

    fn set(&self, next: State) {
        *self.state.lock() = next;
        self.changed.notify_all();
    }
}
