//! Work next to a run that an engine knows by name, such as a vacuum: `petal interfere`.

use std::sync::Arc;

use super::server::liveness::AbortHandle;
use super::{Cancel, EngineError, Result};

/// Neighbours that an engine knows.
pub trait KnownNeighbours: Send + Sync {
    fn names(&self) -> &'static [&'static str];

    /// Opens a neighbour by its name, on the data of this schema.
    fn open_neighbour(&self, name: &str, schema: u32) -> Result<NeighbourWork>;
}

/// The work of a neighbour.
pub enum NeighbourWork {
    /// Statements, on a separate connection.
    Statements(Box<dyn NeighbourSession>),
    /// A program with its arguments and variables of the environment, which may hold secrets. Its
    /// output is not kept, only its errors.
    Program { path: String, arguments: Vec<String>, environment: Vec<(&'static str, String)> },
}

/// A connection that does the work of a neighbour, and leaves nothing behind when it ends, also if it
/// is killed.
pub trait NeighbourSession: Send {
    /// Does the work once. It is called again and again.
    fn work(&mut self) -> Result<()>;

    /// A handle with which another thread cuts the work.
    fn canceller(&self) -> Box<dyn Cancel>;
}

/// Statements that are the work of a neighbour, each time in this order.
pub struct NeighbourStatements<C> {
    pub client: C,
    pub run: fn(&mut C, &str) -> Result<()>,
    pub statements: Vec<String>,
    /// Asks the server to cut the statement.
    pub cancel: Arc<dyn Fn() + Send + Sync>,
    pub connection: Arc<AbortHandle>,
    /// Removes the remains of a cut statement; it is called when the work is over.
    pub clean_up: Option<Box<dyn FnMut() + Send>>,
}

impl<C: Send> NeighbourSession for NeighbourStatements<C> {
    fn work(&mut self) -> Result<()> {
        self.statements.iter().try_for_each(|sql| (self.run)(&mut self.client, sql))
    }

    fn canceller(&self) -> Box<dyn Cancel> {
        Box::new(NeighbourCancel {
            cancel: Arc::clone(&self.cancel),
            connection: Arc::clone(&self.connection),
        })
    }
}

impl<C> Drop for NeighbourStatements<C> {
    fn drop(&mut self) {
        if let Some(clean_up) = &mut self.clean_up {
            clean_up();
        }
    }
}

struct NeighbourCancel {
    cancel: Arc<dyn Fn() + Send + Sync>,
    connection: Arc<AbortHandle>,
}

impl Cancel for NeighbourCancel {
    fn cancel(&self) {
        (self.cancel)();
    }

    fn abort(&self) {
        self.connection.abort("the statement of a neighbour did not end after its cancel");
    }
}

/// Returns the first of these programs that PATH has.
pub fn find_program(names: &[&str]) -> Result<String> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let files = names.iter().flat_map(|name| {
        std::env::split_paths(&path).map(|folder| folder.join(name)).collect::<Vec<_>>()
    });
    let found = { files }.find(|file| file.is_file());
    found.map(|file| file.display().to_string()).ok_or_else(|| {
        EngineError::Environment(format!(
            "backup: no {} is in PATH; install it, or give a command of your own with --with",
            names.join(" or ")
        ))
    })
}
