//! `journal.ndjson`: what survives a kill. The run as it was known before the trigger in the first
//! line, then a line a second, flushed to the operating system each time (no fsync: a killed petal
//! loses nothing, a power cut the last seconds).

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::{Folder, RecordError, Run, Second, SessionLost, WaitRow};
use crate::stats::counters::{Wait, WaitClass, WaitSource};

pub const FORMAT: &str = "petal-journal/1";
pub const NAME: &str = "journal.ndjson";

/// The first line: all that is known before the trigger (target, settings, seed, host, what is
/// loaded, how it settled), as a [`Run`] without figures.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Opening {
    pub format: String,
    pub run: Run,
}

impl Opening {
    /// `run` as it stands before the trigger; see [`Run::begin`].
    pub fn new(run: Run) -> Self {
        Self { format: FORMAT.to_owned(), run }
    }
}

/// One second, and the totals since the trigger that a killed run would lose.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Line {
    pub second: Second,
    /// Since the trigger.
    pub waits: Vec<WaitTotal>,
    /// The database's own counters since the trigger.
    pub counters: BTreeMap<String, u64>,
    /// Errors so far, by code.
    pub errors: BTreeMap<String, u64>,
    pub sessions_lost: Vec<SessionLost>,
    pub petal_cpu_s: Option<f64>,
    /// Since the trigger, as in [`super::Details`].
    pub db_time_s: f64,
    pub think_time_s: f64,
}

/// A wait event since the trigger, without its histogram.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WaitTotal {
    pub name: String,
    pub class: WaitClass,
    pub source: WaitSource,
    pub waits: Option<u64>,
    pub time_ns: u64,
}

impl From<&Wait> for WaitTotal {
    fn from(wait: &Wait) -> Self {
        Self {
            name: wait.name.clone(),
            class: wait.class,
            source: wait.source,
            waits: wait.waits,
            time_ns: wait.time_ns,
        }
    }
}

impl From<&WaitTotal> for WaitRow {
    fn from(wait: &WaitTotal) -> Self {
        Self::from_totals(&wait.name, wait.class, wait.source, wait.waits, wait.time_ns)
    }
}

/// The journal of a run that goes on.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    /// None after an error: a full disk is told once, and the run goes on.
    file: Option<File>,
}

impl Journal {
    pub fn begin(folder: &Folder, opening: &Opening) -> Result<Self, RecordError> {
        let path = folder.path().join(NAME);
        let file = OpenOptions::new()
            .create_new(true)
            .append(true)
            .open(&path)
            .map_err(|source| RecordError::io("make", &path, source))?;
        let mut journal = Self { path, file: Some(file) };
        journal.append(opening)?;
        Ok(journal)
    }

    /// Appends one second. An error is returned once; after it, this does nothing.
    pub fn second(&mut self, line: &Line) -> Result<(), RecordError> {
        self.append(line)
    }

    fn append<T: Serialize>(&mut self, value: &T) -> Result<(), RecordError> {
        let Some(file) = &mut self.file else { return Ok(()) };
        let written = serde_json::to_vec(value)
            .map_err(|cause| RecordError::Encode {
                what: "a journal line",
                path: self.path.clone(),
                why: cause.to_string(),
            })
            .and_then(|mut bytes| {
                bytes.push(b'\n');
                file.write_all(&bytes)
                    .and_then(|()| file.flush())
                    .map_err(|source| RecordError::io("append to", &self.path, source))
            });
        if written.is_err() {
            self.file = None;
        }
        written
    }
}

/// What stands in a journal.
#[derive(Debug)]
pub struct Read {
    pub opening: Opening,
    pub lines: Vec<Line>,
    /// True when something after the last readable line was cut off or damaged.
    pub torn: bool,
}

/// Reads a journal up to the first line that is torn or damaged.
pub fn read(path: &Path) -> Result<Read, RecordError> {
    let bytes = std::fs::read(path).map_err(|source| RecordError::io("read", path, source))?;
    let mut pieces = bytes.split(|&byte| byte == b'\n');
    let opening = first_line(path, pieces.next().unwrap_or_default())?;
    let mut lines = Vec::new();
    let mut torn = false;
    for piece in pieces.filter(|piece| !piece.is_empty()) {
        match serde_json::from_slice(piece) {
            Ok(line) => lines.push(line),
            Err(_) => {
                torn = true;
                break;
            }
        }
    }
    Ok(Read { opening, lines, torn })
}

fn first_line(path: &Path, line: &[u8]) -> Result<Opening, RecordError> {
    let damaged = |why: String| RecordError::Damaged {
        path: path.to_owned(),
        wanted: "the first line of a petal journal",
        why,
    };
    let value: serde_json::Value =
        serde_json::from_slice(line).map_err(|cause| damaged(cause.to_string()))?;
    let found = value.get("format").and_then(|format| format.as_str()).unwrap_or_default();
    if found != FORMAT {
        return Err(RecordError::Format {
            path: path.to_owned(),
            found: found.to_owned(),
            wanted: FORMAT,
        });
    }
    serde_json::from_value(value).map_err(|cause| damaged(cause.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::fixture;

    #[test]
    fn what_was_journaled_is_read_back() {
        let dir = tempfile::tempdir().unwrap();
        fixture::killed_run(dir.path(), 3);
        let read = read(&dir.path().join(NAME)).unwrap();
        assert_eq!(read.opening.run, fixture::opening());
        assert_eq!(read.lines.len(), 3);
        assert_eq!(read.lines[2].second.ops, fixture::timeline(3)[2].ops);
        assert!(!read.torn);
    }

    #[test]
    fn each_second_is_on_disk_when_it_was_told() {
        let dir = tempfile::tempdir().unwrap();
        let opening = Opening::new(fixture::opening());
        let mut journal = Journal::begin(&Folder::open(dir.path()), &opening).unwrap();
        for seconds in 1..4 {
            journal.second(&Line::default()).unwrap();
            assert_eq!(read(&dir.path().join(NAME)).unwrap().lines.len(), seconds);
        }
    }

    #[test]
    fn an_error_is_told_once_and_then_it_is_quiet() {
        let dir = tempfile::tempdir().unwrap();
        let opening = Opening::new(fixture::opening());
        let mut journal = Journal::begin(&Folder::open(dir.path()), &opening).unwrap();
        // /dev/full takes nothing: a disk that is full, for real.
        journal.file = Some(OpenOptions::new().write(true).open("/dev/full").unwrap());
        let error = journal.second(&Line::default()).unwrap_err().to_string();
        assert!(error.contains("journal.ndjson") && error.contains("free some space"), "{error}");
        assert!(journal.second(&Line::default()).is_ok());
    }
}
