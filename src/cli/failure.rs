//! Why a command ended, as a person and a script need to know it.

use std::process::ExitCode;

use crate::engine::EngineError;
use crate::engine::threads::ThreadError;
use crate::record::RecordError;
use crate::runner::RunError;
use crate::runner::page_cache::PageCacheError;
use crate::settings::error::SettingErrors;

/// How a command ended: exit codes that scripts can use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    Done,
    /// It failed, or sessions were lost.
    Failed,
    /// Usage or settings.
    Usage,
    /// Unreachable, refused, full, read-only, not loaded.
    Environment,
    /// A limit of `compare` can neither be said to be kept nor to be broken.
    Inconclusive,
    /// By a signal; results are kept.
    Interrupted,
}

impl Exit {
    pub fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Failed => 1,
            Self::Usage => 2,
            Self::Environment => 3,
            Self::Inconclusive => 4,
            Self::Interrupted => 130,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

/// An error on its way out.
#[derive(Debug)]
pub struct Failure {
    pub exit: Exit,
    pub message: String,
}

impl Failure {
    pub fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self { exit, message: message.into() }
    }

    pub fn usage(message: impl Into<String>) -> Self {
        Self::new(Exit::Usage, message)
    }
}

impl From<EngineError> for Failure {
    fn from(error: EngineError) -> Self {
        let exit = match &error {
            EngineError::Setting(_) => Exit::Usage,
            EngineError::Environment(_) | EngineError::Data(_) | EngineError::NotLoaded { .. } => {
                Exit::Environment
            }
            EngineError::Database(_) => Exit::Failed,
            EngineError::Interrupted => Exit::Interrupted,
        };
        Self::new(exit, error.to_string())
    }
}

impl From<RunError> for Failure {
    fn from(error: RunError) -> Self {
        let message = error.to_string();
        let exit = match error {
            RunError::Engine(error) => return error.into(),
            RunError::Connect { error, .. } => Self::from(error).exit,
            RunError::Setting(_) => Exit::Usage,
            RunError::Hook(_) => Exit::Failed,
            RunError::PageCache(error) => match error {
                PageCacheError::BelowReserve { .. } => Exit::Usage,
                PageCacheError::Interrupted => Exit::Interrupted,
                _ => Exit::Environment,
            },
        };
        Self::new(exit, message)
    }
}

impl From<ThreadError> for Failure {
    fn from(error: ThreadError) -> Self {
        EngineError::from(error).into()
    }
}

impl From<RecordError> for Failure {
    fn from(error: RecordError) -> Self {
        let exit = match &error {
            RecordError::Table { .. } => Exit::Usage,
            _ => Exit::Environment,
        };
        Self::new(exit, error.to_string())
    }
}

impl From<SettingErrors> for Failure {
    fn from(errors: SettingErrors) -> Self {
        Self::usage(errors.to_string())
    }
}
