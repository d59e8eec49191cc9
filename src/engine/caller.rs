//! The caller of an engine: signals that end its waits, and notes on what it waits for.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

/// The signals that an engine obeys before and after a run, and where it tells what it waits for.
#[derive(Clone)]
pub struct Caller {
    /// The number of signals that asked to stop.
    pub signals: Arc<AtomicU8>,
    /// Takes a line that a person should see.
    pub note: Arc<dyn Fn(&str) + Send + Sync>,
}

impl Caller {
    /// True when a signal asked to stop.
    pub fn is_interrupted(&self) -> bool {
        self.signals.load(Ordering::Relaxed) > 0
    }
}
