//! Runs things: one run, a series of them, a load. It loads, settles,
//! connects, triggers, stops, puts the measurements into a record, has it judged and writes its
//! reports. It knows engines only by their contract, and prints nothing: a [`Watch`] shows it.

#![cfg_attr(test, allow(clippy::disallowed_methods))]

mod after_outage;
mod assemble;
mod calibrated;
mod close;
mod deltas;
pub mod experiments;
mod facts;
mod follow;
pub mod hook_group;
pub mod hooks;
pub mod job;
mod ledger;
pub mod limits;
pub mod load;
pub mod merge;
pub mod neighbour_plan;
pub mod neighbours;
pub mod noted_progress;
mod nvme;
mod orphans;
pub mod os;
pub mod os_data;
pub mod page_cache;
pub mod peers;
mod prepare;
pub mod quiet;
mod reconnect;
pub mod rows;
pub mod run;
mod sampler;
pub mod secrets;
pub mod series;
mod server_report;
mod session;
mod session_pool;
mod slots;
pub mod start;
mod steady_window;
mod suspension;
pub mod tenant;
#[cfg(test)]
mod tests;
mod trigger;
pub mod verify;
mod watching;
mod written;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use petal_engine::threads::ThreadError;
use petal_engine::{Caller, Engine, EngineError, Progress, Result, Silent};
use petal_record::timeline::Tally;
use petal_record::{Finding, RecordError, Second};
use petal_settings::Settings;
use petal_settings::error::SettingErrors;

/// Follows a run: progress, notes, errors, and each second as it ends. A watcher implements the
/// calls that it uses; the rest does nothing.
pub trait Watch: Progress {
    /// Called when work on `subject` begins: all further calls are about it.
    fn begins(&self, _subject: &Subject) {}
    /// Called when the sessions were triggered; the run is to last `seconds`.
    fn triggered(&self, _sessions: u32, _seconds: f64) {}
    /// Called after each second, with the totals since the trigger and the time until the planned
    /// end.
    fn second(&self, _second: &Second, _so_far: &Tally, _left_s: f64) {}
    /// Called when the last session ends, with the seconds not yet reported and the totals.
    fn ended(&self, _last: &[Second], _total: &Tally) {}
    /// Called when the run was judged.
    fn judged(&self, _findings: &[Finding]) {}
    /// Called on an error of one part of the work, which continues.
    fn error(&self, _message: &str) {}
    /// Sets the text before every line of progress, an empty text for none, and the time that the work
    /// takes after this run.
    fn heading(&self, _heading: &str, _after: Duration) {}
    /// Ends petal now, with this error: some threads hang and cannot be ended otherwise.
    #[allow(clippy::exit, reason = "a return would wait for the threads")]
    fn leave(&self, message: &str) -> ! {
        self.error(message);
        std::process::exit(1)
    }
}

/// Work that is watched.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Subject {
    /// Engine, by the scheme of its URLs.
    pub engine: &'static str,
    /// Name of the run's folder; empty if it is not a run.
    pub run: String,
    /// Number of the sweep's cell, from 1; 0 means no sweep.
    pub cell: u32,
    /// The run's folder; None if it is not a run.
    pub folder: Option<PathBuf>,
}

/// Opens the engine that the settings name: the function of a program that has engines.
pub type OpenEngine = fn(&Settings) -> Result<Arc<dyn Engine>>;

/// Signals and display of the command that requested a piece of work.
pub struct WorkContext<'a> {
    /// Signals that end it, and the place in which an engine notes its current wait.
    pub caller: Caller,
    pub engines: OpenEngine,
    pub watch: &'a dyn Watch,
    /// Hosts that do the work together, if there are several.
    pub hosts: Option<&'a peers::Together>,
}

impl WorkContext<'_> {
    /// Opens the engine that the settings name. It obeys the signals while it waits for others.
    pub fn open(&self, settings: &Settings) -> Result<Arc<dyn Engine>> {
        let engine = (self.engines)(settings)?;
        if let Some(server) = engine.server() {
            server.serve(&self.caller);
        }
        self.watch.begins(&Subject { engine: engine.support().scheme, ..Subject::default() });
        Ok(engine)
    }
}

/// Reason why nothing could be measured, or a part could not be written.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// Invalid value that only the target, or a folder, could decide: exit code 2.
    #[error("{0}")]
    Setting(String),
    /// Missing requirement, or one that belongs to somebody else: exit code 3.
    #[error("{0}")]
    Environment(String),
    #[error("session {session} of {sessions} could not connect: {error}")]
    Connect { session: u32, sessions: u32, error: EngineError },
    #[error("{0}")]
    Hook(String),
    #[error(transparent)]
    Record(#[from] RecordError),
    #[error(transparent)]
    Settings(#[from] SettingErrors),
}

impl RunError {
    /// True if a signal, and not an error, ended the work.
    pub fn is_interrupted(&self) -> bool {
        matches!(
            self,
            Self::Engine(EngineError::Interrupted)
                | Self::Connect { error: EngineError::Interrupted, .. }
        )
    }
}

impl From<ThreadError> for RunError {
    fn from(error: ThreadError) -> Self {
        Self::Engine(error.into())
    }
}

impl Watch for Silent {}
