//! System errors about files that an engine keeps itself, with advice for a person.

use std::io::{self, ErrorKind};
use std::path::Path;

use super::threads::ThreadError;
use super::{EngineError, Result};

/// Advice for a device that failed.
pub const IO_ADVICE: &str = "see the kernel's log (dmesg) for the device's errors";

/// Names the path that a call of the system's failed on.
pub trait OnPath<T> {
    fn on(self, path: &Path) -> Result<T>;
}

impl<T, E: Into<io::Error>> OnPath<T> for Result<T, E> {
    fn on(self, path: &Path) -> Result<T> {
        self.map_err(|error| unusable(path, &error.into()))
    }
}

pub fn unusable(path: &Path, error: &io::Error) -> EngineError {
    if error.get_ref().is_some_and(|error| error.is::<ThreadError>()) {
        return EngineError::Environment(error.to_string());
    }
    let hint = match error.kind() {
        ErrorKind::PermissionDenied => "check its owner and mode, or name another (--db)",
        ErrorKind::ReadOnlyFilesystem => "it is read-only: name another (--db)",
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge => {
            "it is full: free some room, name another (--db), or load less (SCALE, schemas)"
        }
        ErrorKind::ResourceBusy => "another program uses it: stop it first",
        ErrorKind::NotFound => "make its folder first, or name another (--db)",
        ErrorKind::NotADirectory | ErrorKind::AlreadyExists => "is a file; name a folder (--db)",
        _ => IO_ADVICE,
    };
    EngineError::Environment(format!("{}: {error}; {hint}", path.display()))
}
