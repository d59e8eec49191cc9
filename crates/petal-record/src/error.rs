//! Errors of a record on disk, in words that a person can act on.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    #[error("cannot {action} {}: {source}; {}", path.display(), hint(source))]
    Io { action: &'static str, path: PathBuf, source: std::io::Error },
    #[error("{} is kept: {why}", path.display())]
    Kept { path: PathBuf, why: String },
    #[error("{} is there already, and is kept; name a file that is not there yet", path.display())]
    FileThere { path: PathBuf },
    #[error(
        "{}: no petal run here (neither run.json nor seconds.ndjson.gz); name a folder that petal run or \
         petal sweep made",
        path.display()
    )]
    NotARecord { path: PathBuf },
    #[error(
        "{} is of format {found:?}, and this petal reads {wanted:?}; \
         read it with the petal that wrote it, or a newer one",
        path.display()
    )]
    Format { path: PathBuf, found: String, wanted: &'static str },
    #[error(
        "{} cannot be read as {wanted}: {why}; it is damaged or not petal's{}",
        path.display(), next_step(wanted)
    )]
    Damaged { path: PathBuf, wanted: &'static str, why: String },
    #[error(
        "{} is larger than {most}, which no file of petal's is; check that it is the right one",
        path.display()
    )]
    TooLarge { path: PathBuf, most: String },
    #[error("{} is no table of figures: {why}", path.display())]
    Table { path: PathBuf, why: String },
    #[error(
        "{} and the run have no moment in common: the run lasted from {run}, the file from {file} \
         (UTC, by the database host's clock); check that it is the right file, and both clocks",
        path.display()
    )]
    NoOverlap { path: PathBuf, run: String, file: String },
    #[error(
        "{}: the clock of that host was set {} by {:.1} s at {at}, during the run, so that its \
         seconds cannot be aligned with the run's; synchronise it (chronyc waitsync), and record and \
         run again",
        path.display(), if *by_s < 0.0 { "back" } else { "forward" }, by_s.abs()
    )]
    ClockSet { path: PathBuf, by_s: f64, at: String },
    #[error(
        "{}: this run saw the database's host itself; --os-data is for a database on another host",
        path.display()
    )]
    SeenAlready { path: PathBuf },
    #[error("{} cannot be merged: {why}", path.display())]
    Share { path: PathBuf, why: String },
    #[error("cannot write {what} as text for {}: {why}", path.display())]
    Encode { what: &'static str, path: PathBuf, why: String },
}

impl RecordError {
    pub fn io(action: &'static str, path: &Path, source: std::io::Error) -> Self {
        Self::Io { action, path: path.to_owned(), source }
    }

    /// The error of a file that was to be written whole.
    pub fn written(path: &Path, source: std::io::Error) -> Self {
        match source.kind() {
            ErrorKind::AlreadyExists => {
                Self::Kept { path: path.to_owned(), why: source.to_string() }
            }
            _ => Self::io("write", path, source),
        }
    }

    pub fn encode(what: &'static str, path: &Path, cause: &dyn std::fmt::Display) -> Self {
        Self::Encode { what, path: path.to_owned(), why: cause.to_string() }
    }

    /// True when the place is at fault (full, read-only, refused), not the record.
    pub fn is_environment(&self) -> bool {
        matches!(self, Self::Io { .. } | Self::FileThere { .. } | Self::Kept { .. })
    }
}

fn next_step(wanted: &str) -> &'static str {
    match wanted {
        super::sweep::WANTED => {
            "; petal sweep with --fresh starts again and keeps the old folder next to the new one"
        }
        _ => "",
    }
}

fn hint(source: &std::io::Error) -> &'static str {
    match source.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge => {
            "free some space there, or name another folder with --out"
        }
        ErrorKind::ReadOnlyFilesystem => {
            "the file system is read-only: name another folder with --out, or remount it"
        }
        ErrorKind::PermissionDenied => {
            "this user may not: name a folder of your own with --out, or change its owner"
        }
        ErrorKind::NotFound => "check the path",
        ErrorKind::NotADirectory | ErrorKind::AlreadyExists => {
            "a file is in the place of a folder: name another folder with --out"
        }
        _ => "check the path and the device under it",
    }
}
