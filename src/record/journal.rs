//! `journal.ndjson`: what survives a kill. The run as it was known before the trigger in the first
//! line, then a line a second ([`super::lines`]).

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::lines::{self, Lines};
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
    /// Since the line before: of a day's run with many of them, each is told once.
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
pub struct Journal(Lines);

impl Journal {
    pub fn begin(folder: &Folder, opening: &Opening) -> Result<Self, RecordError> {
        Lines::begin(&folder.path().join(NAME), "a journal line", opening).map(Self)
    }

    /// Appends one second. An error is returned once; after it, this does nothing.
    pub fn second(&mut self, line: &Line) -> Result<(), RecordError> {
        self.0.append(line)
    }
}

/// What stands in a journal.
#[derive(Debug)]
pub struct Read {
    pub opening: Opening,
    pub seconds: Vec<Second>,
    /// The last line, whose totals are those of the run; None of a run without a second.
    pub last: Option<Line>,
    pub sessions_lost: Vec<SessionLost>,
    /// True when something after the last readable line was cut off or damaged.
    pub torn: bool,
}

/// Reads a journal up to the first line that is torn or damaged.
pub fn read(path: &Path) -> Result<Read, RecordError> {
    const WANTED: &str = "the first line of a petal journal";
    let (mut seconds, mut last) = (Vec::new(), None);
    let mut sessions_lost: Vec<SessionLost> = Vec::new();
    let (opening, torn) = lines::read(path, FORMAT, WANTED, |_: &Opening, mut line: Line| {
        for lost in std::mem::take(&mut line.sessions_lost) {
            // Journals of petal's first days tell all in every line.
            if sessions_lost.iter().all(|known| known.session != lost.session) {
                sessions_lost.push(lost);
            }
        }
        seconds.push(line.second.clone());
        last = Some(line);
    })?;
    Ok(Read { opening, seconds, last, sessions_lost, torn })
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
        assert_eq!(read.seconds.len(), 3);
        assert_eq!(read.seconds[2].ops, fixture::timeline(3)[2].ops);
        assert_eq!(read.last.unwrap().second, read.seconds[2]);
        assert!(!read.torn);
    }

    #[test]
    fn each_second_is_on_disk_when_it_was_told() {
        let dir = tempfile::tempdir().unwrap();
        let opening = Opening::new(fixture::opening());
        let mut journal = Journal::begin(&Folder::open(dir.path()), &opening).unwrap();
        for seconds in 1..4 {
            journal.second(&Line::default()).unwrap();
            assert_eq!(read(&dir.path().join(NAME)).unwrap().seconds.len(), seconds);
        }
    }

    #[test]
    fn a_lost_session_is_one_however_often_it_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let opening = Opening::new(fixture::opening());
        let mut journal = Journal::begin(&Folder::open(dir.path()), &opening).unwrap();
        let lost = |session: u32| SessionLost {
            session,
            at_s: f64::from(session),
            code: "dead".to_owned(),
            message: "it died".to_owned(),
        };
        for sessions_lost in [vec![], vec![lost(2)], vec![lost(2), lost(1)], vec![lost(3)], vec![]]
        {
            journal.second(&Line { sessions_lost, ..Line::default() }).unwrap();
        }
        let read = read(&dir.path().join(NAME)).unwrap();
        assert_eq!(read.sessions_lost, [lost(2), lost(1), lost(3)]);
    }
}
