//! `petal-os/1`: what the operating system of a host saw, a line of JSON a second, each flushed to
//! the operating system: what was killed keeps all but the second under way. `petal os` writes it on
//! its own, a run as `os.ndjson` in its folder. The first line tells about the host.

use std::fs::{File, OpenOptions};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::RecordError;
use crate::stats::clock::ClockState;
use crate::stats::host::Host;
use crate::stats::os::Interval;

pub const FORMAT: &str = "petal-os/1";
const HEADER_BYTES_MAX: u64 = 4 << 20;

/// The first line.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Header {
    pub format: String,
    pub petal_version: String,
    /// UTC, RFC 3339, by this host's clock.
    pub started_at: String,
    pub host: Host,
    /// The devices that are added up, as /proc/diskstats prints them.
    pub devices: Vec<String>,
    /// Processors that the database may use; null where that is not known.
    pub allowed_cpus: Option<Vec<u32>>,
    /// Processors' worth of time that the database's control group grants.
    pub group_quota: Option<f64>,
    /// What this host's clock said of itself when the file was begun; null where nobody told.
    pub clock: Option<ClockState>,
}

/// Every other line.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Line {
    /// The interval's end: UTC, RFC 3339, by this host's clock.
    pub at: String,
    /// In a run's folder: its begin, in seconds since the trigger.
    pub from_s: Option<f64>,
    #[serde(flatten)]
    pub interval: Interval,
}

/// A file that goes on.
#[derive(Debug)]
pub struct OsLog {
    path: PathBuf,
    /// None after an error, which is told once.
    file: Option<File>,
}

impl OsLog {
    /// Makes a file that was not there.
    pub fn begin(path: &Path, header: &Header) -> Result<Self, RecordError> {
        let file = OpenOptions::new()
            .create_new(true)
            .append(true)
            .open(path)
            .map_err(|source| RecordError::io("make", path, source))?;
        let mut log = Self { path: path.to_owned(), file: Some(file) };
        log.append(&Header { format: FORMAT.to_owned(), ..header.clone() })?;
        Ok(log)
    }

    /// Appends an interval that ends now. An error is returned once; after it, this does nothing.
    pub fn append_now(
        &mut self,
        from_s: Option<f64>,
        interval: &Interval,
    ) -> Result<(), RecordError> {
        let at = stamp(OffsetDateTime::now_utc());
        self.append(&Line { at, from_s, interval: interval.clone() })
    }

    fn append<T: Serialize>(&mut self, value: &T) -> Result<(), RecordError> {
        let Some(file) = &mut self.file else { return Ok(()) };
        let written = encoded(&self.path, value).and_then(|bytes| {
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

fn encoded<T: Serialize>(path: &Path, value: &T) -> Result<Vec<u8>, RecordError> {
    let mut bytes = serde_json::to_vec(value).map_err(|cause| RecordError::Encode {
        what: "a second of the operating system",
        path: path.to_owned(),
        why: cause.to_string(),
    })?;
    bytes.push(b'\n');
    Ok(bytes)
}

/// A whole file as text, for writing at once.
pub(super) fn text(
    path: &Path,
    header: &Header,
    lines: impl Iterator<Item = Line>,
) -> Result<Vec<u8>, RecordError> {
    let mut text = encoded(path, &Header { format: FORMAT.to_owned(), ..header.clone() })?;
    for line in lines {
        text.extend(encoded(path, &line)?);
    }
    Ok(text)
}

/// A moment as these files write it: to the microsecond.
pub fn stamp(at: OffsetDateTime) -> String {
    let micro = at.nanosecond() / 1000 * 1000;
    let at = at.replace_nanosecond(micro).unwrap_or(at);
    at.format(&Rfc3339).unwrap_or_else(|_| at.unix_timestamp().to_string())
}

/// Hands each line to `each`, in the file's order, up to the first that is torn or damaged. Returns
/// the first line, and whether the last one was torn.
pub fn read(
    path: &Path,
    mut each: impl FnMut(&Header, Line),
) -> Result<(Header, bool), RecordError> {
    let io = |source| RecordError::io("read", path, source);
    let mut reader = BufReader::new(File::open(path).map_err(io)?);
    let mut line = Vec::new();
    // What is no such file may have no end of a line.
    let first = reader.by_ref().take(HEADER_BYTES_MAX).read_until(b'\n', &mut line);
    first.map_err(io)?;
    let header = header(path, &line)?;
    loop {
        line.clear();
        if reader.read_until(b'\n', &mut line).map_err(io)? == 0 {
            return Ok((header, false));
        }
        match serde_json::from_slice(&line) {
            Ok(second) => each(&header, second),
            Err(_) => return Ok((header, true)),
        }
    }
}

fn header(path: &Path, line: &[u8]) -> Result<Header, RecordError> {
    let damaged = |why: String| RecordError::Damaged {
        path: path.to_owned(),
        wanted: "the first line of a file that petal os writes",
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
    use proptest::prelude::*;
    use std::fs;

    fn interval(seconds: f64) -> Interval {
        Interval { seconds, busiest_cpu: Some((3, 50.0)), ..Interval::default() }
    }

    fn lines(path: &Path) -> (Vec<Line>, bool) {
        let mut lines = Vec::new();
        let (_, torn) = read(path, |_, line| lines.push(line)).unwrap();
        (lines, torn)
    }

    #[test]
    fn what_was_written_is_read_back_also_when_it_was_cut_off() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("os");
        let header = Header { petal_version: "1".into(), ..Header::default() };
        let mut log = OsLog::begin(&path, &header).unwrap();
        for second in 0..3 {
            log.append_now(Some(f64::from(second)), &interval(1.0)).unwrap();
            assert_eq!(lines(&path).0.len(), second as usize + 1, "it is not on disk");
        }
        let (read_back, torn) = lines(&path);
        assert!(!torn && read_back.iter().all(|line| line.interval == interval(1.0)));
        assert_eq!(read_back[2].from_s, Some(2.0));
        let text = fs::read(&path).unwrap();
        fs::write(&path, &text[..text.len() - 9]).unwrap();
        let (cut, torn) = lines(&path);
        assert_eq!((cut.len(), torn), (2, true));
        assert!(OsLog::begin(&path, &header).is_err(), "nothing is written over");
    }

    #[test]
    fn every_line_is_what_the_schema_says() {
        let schema = include_str!("../../docs/petal-os.schema.json");
        let schema = jsonschema::draft202012::new(&serde_json::from_str(schema).unwrap()).unwrap();
        let dir = tempfile::tempdir().unwrap();
        crate::record::fixture::killed_run(dir.path(), 3);
        let path = dir.path().join(crate::record::os::OWN_NAME);
        let (all, _) = lines(&path);
        assert_eq!(all.len(), 3);
        let text = fs::read_to_string(path).unwrap();
        let unknown = serde_json::to_string(&Line::default()).unwrap();
        for line in text.lines().chain([unknown.as_str()]) {
            let mut value: serde_json::Value = serde_json::from_str(line).unwrap();
            let errors: Vec<String> = schema.iter_errors(&value).map(|e| e.to_string()).collect();
            assert!(errors.is_empty(), "{errors:?} in {line}");
            let counts = value.get_mut("counts").and_then(|counts| counts.as_object_mut());
            if let Some(counts) = counts {
                counts.remove("interrupts");
                assert!(!schema.is_valid(&value), "the schema takes anything");
            }
        }
    }

    #[test]
    fn another_file_is_refused_by_name() {
        let dir = tempfile::tempdir().unwrap();
        for (text, word) in [
            ("", "petal os"),
            ("{\"format\":\"petal-run/1\"}\n", "petal-run/1"),
            ("sar 12:00 AM\n", "petal os"),
        ] {
            let path = dir.path().join("other");
            fs::write(&path, text).unwrap();
            let error = read(&path, |_, _| ()).unwrap_err().to_string();
            assert!(error.contains(word) && error.contains("other"), "{error}");
        }
    }

    #[test]
    fn an_error_is_told_once_and_then_it_is_quiet() {
        let file = Some(OpenOptions::new().write(true).open("/dev/full").unwrap());
        let mut log = OsLog { path: "full".into(), file };
        assert!(log.append_now(None, &interval(1.0)).is_err());
        assert!(log.append_now(None, &interval(1.0)).is_ok());
    }

    proptest! {
        #[test]
        fn no_line_upsets_the_reader(garbage in "\\PC{0,200}") {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("os");
            OsLog::begin(&path, &Header::default()).unwrap();
            let mut text = fs::read(&path).unwrap();
            text.extend(garbage.as_bytes());
            fs::write(&path, text).unwrap();
            let _ = read(&path, |_, _| ());
        }
    }
}
