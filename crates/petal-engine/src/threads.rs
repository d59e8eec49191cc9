//! All of petal's threads start here. A thread that cannot start is an error, never a panic, which
//! would lose the run's measurements.

use std::io;
use std::thread::{Builder, JoinHandle, Scope, ScopedJoinHandle};

use super::EngineError;

/// Environment variable of each program that petal starts for itself or in a group of processes. An
/// orphan of a neighbour that has it is not ended as one.
pub const GROUP_MARK: &str = "PETAL_GROUP";

/// A thread that the system refused to start.
#[derive(Debug, thiserror::Error)]
#[error(
    "a thread cannot be started ({name}): {error}; use fewer sessions, a lower IO_DEPTH, or raise the \
     limit: ulimit -u, pids.max of the control group, TasksMax= of a service; or that of address \
     space, ulimit -v"
)]
pub struct ThreadError {
    name: String,
    error: io::Error,
}

impl From<ThreadError> for EngineError {
    fn from(error: ThreadError) -> Self {
        Self::Environment(error.to_string())
    }
}

impl From<ThreadError> for io::Error {
    fn from(error: ThreadError) -> Self {
        Self::other(error)
    }
}

/// A thread to be started.
pub struct Thread {
    name: String,
    builder: Builder,
}

#[allow(clippy::disallowed_methods, reason = "here they are allowed")]
impl Thread {
    pub fn named(name: impl Into<String>) -> Self {
        let name = name.into();
        Self { builder: Builder::new().name(name.clone()), name }
    }

    pub fn stack_bytes(self, bytes: usize) -> Self {
        Self { builder: self.builder.stack_size(bytes), ..self }
    }

    pub fn start<T: Send + 'static>(
        self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<JoinHandle<T>, ThreadError> {
        let Self { name, builder } = self;
        builder.spawn(work).map_err(|error| ThreadError { name, error })
    }

    /// Starts it so that it ends within the scope.
    pub fn start_in<'scope, T: Send + 'scope>(
        self,
        scope: &'scope Scope<'scope, '_>,
        work: impl FnOnce() -> T + Send + 'scope,
    ) -> Result<ScopedJoinHandle<'scope, T>, ThreadError> {
        let Self { name, builder } = self;
        builder.spawn_scoped(scope, work).map_err(|error| ThreadError { name, error })
    }
}
