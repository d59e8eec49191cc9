//! Opening a database file, settings of all connections, and the meaning of SQLite's error codes.

use std::path::{Path, PathBuf};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags, ffi};

use super::files::SqliteFormat;
use super::io::{IoContext, take_failure};
use super::vfs;
use petal_engine::file_set::refuse_foreign_side;
use petal_engine::on_path::IO_ADVICE;
use petal_engine::{EngineError, Result};

/// The ways to open a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// No locks and no WAL: for data that never changes after the load. Works on read-only mounts.
    Unchanging,
    Write,
    Create,
}

/// Opens a file through the shim, every file of it served by `context`.
pub fn open(path: &Path, access: Access, context: &IoContext) -> Result<Connection> {
    vfs::register().map_err(EngineError::Environment)?;
    refuse_foreign_side(SqliteFormat, path)?;
    let flags = OpenFlags::SQLITE_OPEN_NO_MUTEX
        | OpenFlags::SQLITE_OPEN_EXRESCODE
        | match access {
            Access::Unchanging => OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI,
            Access::Write => OpenFlags::SQLITE_OPEN_READ_WRITE,
            Access::Create => OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE,
        };
    let opened = context.during(|| match access {
        Access::Unchanging => Connection::open_with_flags_and_vfs(uri(path), flags, vfs::NAME),
        _ => Connection::open_with_flags_and_vfs(path, flags, vfs::NAME),
    });
    opened.and_then(prepared).at(path, "opening")
}

/// petal checkpoints at its own time, not in a commit or at a close. No busy handler that sleeps.
fn prepared(connection: Connection) -> rusqlite::Result<Connection> {
    connection.busy_timeout(std::time::Duration::ZERO)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    // No load of petal's makes any: a view is refused, and a trigger does not run.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_VIEW, false)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false)?;
    connection.execute_batch("PRAGMA mmap_size = 0; PRAGMA wal_autocheckpoint = 0")?;
    Ok(connection)
}

/// The path as an SQLite URI, with reserved characters escaped.
fn uri(path: &Path) -> std::path::PathBuf {
    use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
    let mut uri = b"file:".to_vec();
    for &byte in path.as_os_str().as_bytes() {
        match byte {
            b'%' | b'?' | b'#' => uri.extend(format!("%{byte:02X}").bytes()),
            _ => uri.push(byte),
        }
    }
    // An absolute path needs an empty authority before it, or `//x` would be read as one.
    if path.is_absolute() {
        uri.splice(5..5, *b"//");
    }
    uri.extend(b"?immutable=1");
    std::ffi::OsString::from_vec(uri).into()
}

/// Pages that a connection caches. At least ten: SQLite needs some at once.
pub fn set_cache_pages(connection: &Connection, pages: u64) -> rusqlite::Result<()> {
    let pages = i64::try_from(pages.clamp(10, i32::MAX as u64)).unwrap_or(i64::MAX);
    connection.pragma_update(None, "cache_size", pages)
}

/// SQLite's name of a failure, as its documentation lists it.
pub fn code_name(error: &rusqlite::Error) -> &'static str {
    let rusqlite::Error::SqliteFailure(failure, _) = error else { return "SQLITE_MISUSE" };
    match failure.extended_code & 0xff {
        ffi::SQLITE_ERROR => "SQLITE_ERROR",
        ffi::SQLITE_INTERNAL => "SQLITE_INTERNAL",
        ffi::SQLITE_PERM => "SQLITE_PERM",
        ffi::SQLITE_ABORT => "SQLITE_ABORT",
        ffi::SQLITE_BUSY => "SQLITE_BUSY",
        ffi::SQLITE_LOCKED => "SQLITE_LOCKED",
        ffi::SQLITE_NOMEM => "SQLITE_NOMEM",
        ffi::SQLITE_READONLY => "SQLITE_READONLY",
        ffi::SQLITE_INTERRUPT => "SQLITE_INTERRUPT",
        ffi::SQLITE_IOERR => "SQLITE_IOERR",
        ffi::SQLITE_CORRUPT => "SQLITE_CORRUPT",
        ffi::SQLITE_FULL => "SQLITE_FULL",
        ffi::SQLITE_CANTOPEN => "SQLITE_CANTOPEN",
        ffi::SQLITE_PROTOCOL => "SQLITE_PROTOCOL",
        ffi::SQLITE_SCHEMA => "SQLITE_SCHEMA",
        ffi::SQLITE_CONSTRAINT => "SQLITE_CONSTRAINT",
        ffi::SQLITE_NOTADB => "SQLITE_NOTADB",
        _ => "SQLITE_ERROR",
    }
}

/// The advice after a failure.
pub fn hint(error: &rusqlite::Error) -> &'static str {
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => "free some room, or use another folder (--db sqlite:DIR)",
        Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied | ErrorCode::CannotOpen) => {
            "check that it is there, its mount, owner and mode"
        }
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            "another process uses it: wait for it or stop it"
        }
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
            "load it again: petal setup --replace"
        }
        Some(ErrorCode::SystemIoFailure) => IO_ADVICE,
        Some(ErrorCode::OutOfMemory) => {
            "raise the limit of memory (ulimit -v, memory.max of the control group), or use fewer \
             sessions or loaders and a smaller cache"
        }
        _ => "this is SQLite's answer to a statement of petal's own: please report it",
    }
}

/// SQLite's words for a failure on this thread, and the system's if the system caused it.
pub fn in_words(error: &rusqlite::Error) -> String {
    let said = take_failure().filter(|_| {
        matches!(
            error.sqlite_error_code(),
            Some(ErrorCode::SystemIoFailure | ErrorCode::CannotOpen | ErrorCode::DiskFull)
        )
    });
    said.map_or_else(|| error.to_string(), |said| format!("{error}: {said}"))
}

/// Turns a failure of SQLite's into the kind on which a caller acts.
pub trait AtFile<T> {
    fn at(self, path: &Path, doing: &str) -> Result<T>;
}

impl<T> AtFile<T> for rusqlite::Result<T> {
    fn at(self, path: &Path, doing: &str) -> Result<T> {
        self.map_err(|error| engine_error(doing, path, &error))
    }
}

/// A failure of SQLite's as a caller acts on it.
pub fn engine_error(doing: &str, path: &Path, error: &rusqlite::Error) -> EngineError {
    let (code, words) = (code_name(error), in_words(error));
    let text = format!("{}: {doing} failed: {words} ({code}); {}", path.display(), hint(error));
    match error.sqlite_error_code() {
        Some(ErrorCode::OperationInterrupted) => EngineError::Interrupted,
        Some(
            ErrorCode::DiskFull
            | ErrorCode::ReadOnly
            | ErrorCode::PermissionDenied
            | ErrorCode::CannotOpen
            | ErrorCode::DatabaseBusy
            | ErrorCode::DatabaseLocked
            | ErrorCode::SystemIoFailure,
        ) => EngineError::Environment(text),
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => EngineError::Data(text),
        _ => EngineError::Database(text),
    }
}

/// Opens a file with the changes that are only in its WAL, if it has one; else without locks, which
/// works on read-only mounts.
pub fn open_now(path: &Path) -> Result<Connection> {
    let has_wal = std::fs::metadata(with_suffix(path, "-wal")).is_ok_and(|wal| wal.len() > 0);
    let access = if has_wal { Access::Write } else { Access::Unchanging };
    open(path, access, &IoContext::default())
}

/// Counts the changes of a file's tables and indexes, ever.
pub fn schema_version(path: &Path) -> Result<i64> {
    let asked = open_now(path)?.pragma_query_value(None, "schema_version", |row| row.get(0));
    asked.at(path, "asking for schema_version")
}

/// The path with something after its name.
pub fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}
