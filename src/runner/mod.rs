//! Drives an engine: loads, settles, connects, triggers, stops, and puts what was measured into a
//! record. Knows engines only by their traits, and prints nothing: it tells a [`Watch`].

mod assemble;
#[cfg(feature = "device")]
pub mod calibrate;
mod calibrated;
mod deltas;
pub mod hook_group;
pub mod hooks;
pub mod job;
mod limits;
pub mod load;
pub mod os;
pub mod page_cache;
mod prepare;
pub mod quiet;
pub mod rows;
pub mod run;
mod sampler;
mod server_report;
mod session;
mod session_pool;
mod steady_window;
mod suspension;
pub mod sweep;
#[cfg(test)]
mod tests;
mod trigger;
mod watching;

use crate::engine::{EngineError, Progress, Silent};
use crate::record::Second;

/// Who follows a run: progress, notes, and each second as it ends.
pub trait Watch: Progress {
    /// The sessions were triggered; the run is to last `seconds`.
    fn triggered(&self, sessions: u32, seconds: f64);
    /// A second is over. `left_s` until the planned end.
    fn second(&self, second: &Second, left_s: f64);
    /// The last session ended.
    fn ended(&self);
}

/// Why nothing could be measured.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// A rule that only the target could decide: exit code 2.
    #[error("{0}")]
    Setting(String),
    #[error("session {session} of {sessions} could not connect: {error}")]
    Connect { session: u32, sessions: u32, error: EngineError },
    #[error("{0}")]
    Hook(String),
    #[error(transparent)]
    PageCache(#[from] page_cache::PageCacheError),
}

impl Watch for Silent {
    fn triggered(&self, _: u32, _: f64) {}
    fn second(&self, _: &Second, _: f64) {}
    fn ended(&self) {}
}
