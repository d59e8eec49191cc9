//! The seconds that another petal, or another thread, is writing: each call reads only the new lines.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use flate2::write::GzDecoder;

use super::kinds::KindNames;
use super::ndjson::LINE_BYTES_MAX;
use super::seconds::{FORMAT, NAME, Opening, SecondsLine, WANTED};
use super::{RecordError, Run, Second, format};
use petal_host::files;

/// The most compressed bytes that one call reads: a long file is read in several calls.
const BYTES_A_CALL_MAX: u64 = 1 << 20;

/// Reader of a file of seconds that grows.
#[derive(Debug)]
pub struct SecondsFollower {
    path: PathBuf,
    file: Option<File>,
    /// Holds the text of a line whose end is not written yet.
    text: GzDecoder<Vec<u8>>,
    opening: Option<Run>,
    kinds: KindNames,
    /// A line cannot be read: it and all later ones are left out, as [`super::seconds::read`] does.
    is_damaged: bool,
}

/// Lines that one call found.
#[derive(Debug, Default)]
pub struct NewSeconds {
    pub seconds: Vec<Second>,
    /// True if the file may hold more than one call reads.
    pub has_more: bool,
}

impl SecondsFollower {
    /// A follower of the run in `folder`, whose seconds may not be there yet.
    pub fn new(folder: &Path) -> Self {
        Self {
            path: folder.join(NAME),
            file: None,
            text: GzDecoder::new(Vec::new()),
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
                opened => Some(opened.map_err(io)?),
            };
        }
        let Some(file) = &mut self.file else { return Ok(new) };
        let mut bytes = Vec::new();
        let read = file.take(BYTES_A_CALL_MAX).read_to_end(&mut bytes).map_err(io)?;
        new.has_more = read as u64 == BYTES_A_CALL_MAX;
        // After the end of the file nothing is taken, which is an error as well.
        self.is_damaged = self.text.write_all(&bytes).and_then(|()| self.text.flush()).is_err();
        let text = self.text.get_mut();
        let whole = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        let torn = text.split_off(whole);
        let lines = std::mem::replace(text, torn);
        self.is_damaged |= text.len() as u64 > LINE_BYTES_MAX;
        for line in lines.split_inclusive(|byte| *byte == b'\n') {
            if self.opening.is_none() {
                let opening: Opening = format::parse(&self.path, line, FORMAT, WANTED)?;
                self.opening = Some(*opening.run);
                continue;
            }
            let Ok(line) = serde_json::from_slice::<SecondsLine>(line) else {
                self.is_damaged = true;
                break;
            };
            let Some(mut second) = line.second else { continue };
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
    use crate::rows::RowList;
    use crate::seconds::SecondsContent;
    use std::fs::{self, OpenOptions};

    fn read(path: &Path) -> Result<SecondsContent, RecordError> {
        crate::seconds::read(path, |_: &Opening| RowList::of_each_second())
    }

    #[test]
    fn each_call_returns_the_lines_that_are_whole_and_new() {
        let (of, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fixture::killed_run(of.path(), 5);
        let text = fs::read(of.path().join(NAME)).unwrap();
        let mut follower = SecondsFollower::new(to.path());
        assert!(follower.read().unwrap().seconds.is_empty(), "there is no file yet");
        let path = to.path().join(NAME);
        let mut written = OpenOptions::new().create(true).append(true).open(&path).unwrap();
        let mut seen = Vec::new();
        // Pieces that end anywhere in a line.
        for piece in text.chunks(97) {
            written.write_all(piece).unwrap();
            seen.extend(follower.read().unwrap().seconds);
            let so_far = read(&path);
            let is_open = so_far.is_ok();
            assert_eq!(follower.opening().is_some(), is_open);
            assert_eq!(seen, so_far.map(|read| read.rows).unwrap_or_default());
        }
        assert!(seen.len() == 5 && follower.read().unwrap().seconds.is_empty());
        assert_eq!(seen, read(&path).unwrap().rows);
        assert_eq!(follower.opening(), Some(&fixture::opening()));
    }

    #[test]
    fn a_damaged_line_ends_it_and_another_format_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        fixture::killed_run(dir.path(), 3);
        let path = dir.path().join(NAME);
        let mut lines = fixture::lines(&path);
        lines.insert(3, "{}}".to_owned());
        fixture::write_lines(&path, &lines);
        let mut follower = SecondsFollower::new(dir.path());
        assert_eq!(follower.read().unwrap().seconds.len(), 2);
        assert!(follower.read().unwrap().seconds.is_empty());
        fixture::write_lines(&path, &["{\"format\": \"petal-seconds/9\"}".to_owned()]);
        let error = SecondsFollower::new(dir.path()).read().unwrap_err().to_string();
        assert!(error.contains("petal-seconds/9"), "{error}");
    }
}
