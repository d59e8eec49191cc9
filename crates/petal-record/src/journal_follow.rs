//! A journal that another petal, or another thread, is writing: each call reads only the new lines.

use std::fs::File;
use std::io::{self, BufReader, Read as _};
use std::path::{Path, PathBuf};

use super::journal::{FORMAT, JournalLine, NAME, Opening, WANTED};
use super::kinds::KindNames;
use super::ndjson::LINE_BYTES_MAX;
use super::{RecordError, Run, Second, format};
use petal_host::files;

/// The most bytes that one call reads: a long journal is read in several calls.
const BYTES_A_CALL_MAX: u64 = 8 << 20;

/// Reader of a journal that grows.
#[derive(Debug)]
pub struct JournalFollower {
    path: PathBuf,
    file: Option<BufReader<File>>,
    /// A line whose end is not written yet.
    torn: Vec<u8>,
    opening: Option<Run>,
    kinds: KindNames,
    /// A line cannot be read: it and all later ones are left out, as [`super::journal::read`] does.
    is_damaged: bool,
}

/// Lines that one call found.
#[derive(Debug, Default)]
pub struct NewSeconds {
    pub seconds: Vec<Second>,
    /// True if the file may hold more than one call reads.
    pub has_more: bool,
}

impl JournalFollower {
    /// A follower of the run in `folder`, whose journal may not be there yet.
    pub fn new(folder: &Path) -> Self {
        Self {
            path: folder.join(NAME),
            file: None,
            torn: Vec::new(),
            opening: None,
            kinds: KindNames::default(),
            is_damaged: false,
        }
    }

    /// The run as known before its trigger; None before its line is written.
    pub fn opening(&self) -> Option<&Run> {
        self.opening.as_ref()
    }

    /// The seconds that were written since the last call.
    pub fn read(&mut self) -> Result<NewSeconds, RecordError> {
        let mut new = NewSeconds::default();
        let io = |source| RecordError::io("read", &self.path, source);
        if self.is_damaged {
            return Ok(new);
        }
        if self.file.is_none() {
            self.file = match files::regular(&self.path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(new),
                opened => Some(BufReader::new(opened.map_err(io)?)),
            };
        }
        let Some(file) = &mut self.file else { return Ok(new) };
        let mut bytes = std::mem::take(&mut self.torn);
        let read = file.take(BYTES_A_CALL_MAX).read_to_end(&mut bytes).map_err(io)?;
        new.has_more = read as u64 == BYTES_A_CALL_MAX;
        let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        self.torn = bytes.split_off(whole);
        self.is_damaged = self.torn.len() as u64 > LINE_BYTES_MAX;
        for line in bytes.split_inclusive(|byte| *byte == b'\n') {
            if self.opening.is_none() {
                let opening: Opening = format::parse(&self.path, line, FORMAT, WANTED)?;
                self.opening = Some(opening.run);
                continue;
            }
            let Ok(line) = serde_json::from_slice::<JournalLine>(line) else {
                self.is_damaged = true;
                break;
            };
            let mut second = line.second;
            self.kinds.retain(&mut second.latency_us);
            new.seconds.push(second);
        }
        Ok(new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;
    use std::fs::{self, OpenOptions};
    use std::io::Write as _;

    #[test]
    fn each_call_returns_the_lines_that_are_whole_and_new() {
        let (of, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fixture::killed_run(of.path(), 5);
        let text = fs::read(of.path().join(NAME)).unwrap();
        let mut follower = JournalFollower::new(to.path());
        assert!(follower.read().unwrap().seconds.is_empty(), "there is no journal yet");
        let path = to.path().join(NAME);
        let mut written = OpenOptions::new().create(true).append(true).open(&path).unwrap();
        let mut seen = Vec::new();
        // Pieces that end anywhere in a line.
        for (at, piece) in text.chunks(997).enumerate() {
            written.write_all(piece).unwrap();
            seen.extend(follower.read().unwrap().seconds);
            let so_far = &text[..text.len().min((at + 1) * 997)];
            let ends = so_far.iter().filter(|byte| **byte == b'\n').count();
            assert_eq!(seen.len(), ends.saturating_sub(1));
            assert_eq!(follower.opening().is_some(), ends > 0);
        }
        assert_eq!(seen, super::super::journal::read(&path).unwrap().seconds);
        assert_eq!(follower.opening(), Some(&fixture::opening()));
    }

    #[test]
    fn a_damaged_line_ends_the_journal_and_another_format_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        fixture::killed_run(dir.path(), 3);
        let path = dir.path().join(NAME);
        let text = fs::read_to_string(&path).unwrap();
        let mut lines: Vec<&str> = text.lines().collect();
        lines.insert(3, "{}}");
        fs::write(&path, lines.join("\n") + "\n").unwrap();
        let mut follower = JournalFollower::new(dir.path());
        assert_eq!(follower.read().unwrap().seconds.len(), 2);
        assert!(follower.read().unwrap().seconds.is_empty());
        fs::write(&path, "{\"format\": \"petal-journal/9\"}\n").unwrap();
        let error = JournalFollower::new(dir.path()).read().unwrap_err().to_string();
        assert!(error.contains("petal-journal/9"), "{error}");
    }
}
