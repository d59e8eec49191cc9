//! `progress.ndjson`: the progress of work that leaves no journal, for `petal attach`. petal removes it when
//! the work ends. Lines are appended without a sync, because the work may measure the same device.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use super::Watch;
use petal_engine::{Progress, ProgressUnit};
use petal_host::files;
use petal_record::RecordFolder;

const NAME: &str = "progress.ndjson";
/// The shortest time between two lines of one phase.
const EVERY: Duration = Duration::from_secs(1);
/// Bytes at the end of the file that hold a whole line.
const LAST_BYTES: u64 = 4096;

/// A phase of work, as it is now.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NotedPhase {
    pub what: String,
    pub done: u64,
    /// 0 if unknown.
    pub total: u64,
    pub unit: ProgressUnit,
    /// Seconds from 1970 to its begin.
    began_s: f64,
}

impl NotedPhase {
    /// Time since its begin, by the clock of this host.
    pub fn elapsed(&self) -> Duration {
        Duration::try_from_secs_f64(unix_s() - self.began_s).unwrap_or_default()
    }
}

fn unix_s() -> f64 {
    SystemTime::UNIX_EPOCH.elapsed().map_or(0.0, |since| since.as_secs_f64())
}

/// Returns the newest line of the work in this folder; None if it notes no progress.
pub fn newest(folder: &Path) -> Option<NotedPhase> {
    let mut file = files::regular(folder.join(NAME)).ok()?;
    let length = file.metadata().ok()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(LAST_BYTES))).ok()?;
    let mut last = Vec::new();
    file.take(LAST_BYTES).read_to_end(&mut last).ok()?;
    // A line may be half written, and the first one half read.
    let mut lines = last.rsplit(|byte| *byte == b'\n');
    lines.find_map(|line| serde_json::from_slice(line).ok())
}

/// An observer that notes the progress in the folder of the work, and passes all on to another one.
pub struct NotedProgress<'a, W: ?Sized> {
    shown: &'a W,
    folder: RecordFolder,
    state: Mutex<NotedState>,
}

#[derive(Default)]
struct NotedState {
    /// None before the first phase.
    phase: Option<NotedPhase>,
    /// The file is this value's own.
    is_made: bool,
    /// None if the file cannot be made or written: the work goes on without it.
    file: Option<File>,
    noted: Option<Instant>,
}

impl<'a, W: ?Sized> NotedProgress<'a, W> {
    pub fn new(shown: &'a W, folder: &RecordFolder) -> Self {
        Self { shown, folder: folder.clone(), state: Mutex::default() }
    }
}

impl NotedState {
    fn note(&mut self) {
        let (Some(file), Some(phase)) = (&mut self.file, &self.phase) else { return };
        self.noted = Some(Instant::now());
        let line = serde_json::to_string(phase).map(|line| line + "\n");
        let written = line.is_ok_and(|line| file.write_all(line.as_bytes()).is_ok());
        if !written {
            self.file = None;
        }
    }
}

impl<W: Progress + ?Sized> Progress for NotedProgress<'_, W> {
    fn phase(&self, what: &str, total: u64, unit: ProgressUnit) {
        let mut state = self.state.lock();
        if state.phase.is_none() {
            let made = self.folder.opened().and_then(|folder| folder.create(NAME.as_ref()));
            state.file = made.ok();
            state.is_made = state.file.is_some();
        }
        let (done, began_s) = (0, unix_s());
        state.phase = Some(NotedPhase { what: what.to_owned(), done, total, unit, began_s });
        state.note();
        drop(state);
        self.shown.phase(what, total, unit);
    }

    fn advance(&self, units: u64) {
        let mut state = self.state.lock();
        if let Some(phase) = &mut state.phase {
            phase.done += units;
        }
        if state.noted.is_some_and(|noted| noted.elapsed() >= EVERY) {
            state.note();
        }
        drop(state);
        self.shown.advance(units);
    }

    fn note(&self, line: &str) {
        self.shown.note(line);
    }

    fn note_once(&self, kind: &'static str, line: &str) {
        self.shown.note_once(kind, line);
    }
}

impl<W: Watch + ?Sized> Watch for NotedProgress<'_, W> {
    fn error(&self, message: &str) {
        self.shown.error(message);
    }

    fn leave(&self, message: &str) -> ! {
        self.shown.leave(message)
    }
}

impl<W: ?Sized> Drop for NotedProgress<'_, W> {
    fn drop(&mut self) {
        if self.state.lock().is_made {
            // Without it nothing is lost.
            let _ = self.folder.opened().and_then(|folder| folder.remove(NAME.as_ref()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use petal_engine::Silent;
    use std::fs;

    #[test]
    fn the_newest_whole_line_is_read_and_the_file_goes_when_the_work_ends() {
        let folder = tempfile::tempdir().unwrap();
        let noted = NotedProgress::new(&Silent, &RecordFolder::open(folder.path()));
        assert_eq!(newest(folder.path()), None);
        let read = || newest(folder.path()).map(|now| (now.what, now.done, now.total)).unwrap();
        noted.phase("filling", 4096, ProgressUnit::Bytes);
        assert_eq!(read(), ("filling".to_owned(), 0, 4096));
        noted.advance(1024);
        assert_eq!(read().1, 0, "one line a second at most");
        noted.state.lock().noted = Instant::now().checked_sub(EVERY);
        noted.advance(1024);
        assert_eq!(read().1, 2048);
        for _ in 0..100 {
            noted.phase("measuring", 99, ProgressUnit::Items);
        }
        let path = folder.path().join(NAME);
        let torn = "{\"what\":\"tor".as_bytes();
        File::options().append(true).open(&path).unwrap().write_all(torn).unwrap();
        assert_eq!(read(), ("measuring".to_owned(), 0, 99));
        drop(noted);
        assert!(!path.exists());
    }

    #[test]
    fn a_file_of_that_name_stays_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(NAME);
        fs::write(&path, "mine").unwrap();
        let noted = NotedProgress::new(&Silent, &RecordFolder::open(folder.path()));
        noted.phase("filling", 1, ProgressUnit::Bytes);
        drop(noted);
        assert_eq!(fs::read_to_string(&path).unwrap(), "mine");
        assert_eq!(newest(folder.path()), None);
    }
}
