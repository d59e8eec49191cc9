//! `petal-os/1`: observations of a host's operating system, a line a second ([`super::ndjson`]).
//! `petal os` writes it on the database's host, and a run keeps those of its time. The first line
//! describes the host.

use std::ffi::OsStr;
use std::path::Path;

use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

use super::moment::stamp;
use super::ndjson::{self, LinesFile, encoded};
use super::{RecordError, RecordFolder};
use petal_host::clock::ClockState;
use petal_host::host::HostFacts;
use petal_host::os::OsInterval;

pub const FORMAT: &str = "petal-os/1";
/// A line, in messages.
const WHAT: &str = "a second of the operating system";

/// The first line.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct OsLogHeader {
    pub format: String,
    pub petal_version: String,
    /// UTC, RFC 3339, by this host's clock.
    pub started_at: String,
    pub host: HostFacts,
    /// The devices that are added up, as /proc/diskstats prints them.
    pub devices: Vec<String>,
    /// Processors that the database may use; null if unknown.
    pub allowed_cpus: Option<Vec<u32>>,
    /// Processors' worth of time that the database's control group grants.
    pub group_quota: Option<f64>,
    /// State that this host's clock reported when the file was begun; null if unknown.
    pub clock: Option<ClockState>,
}

/// Every other line.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct OsLogLine {
    /// The interval's end: UTC, RFC 3339, by this host's clock.
    pub at: String,
    /// Start of the interval, in seconds since the trigger; in a run's folder only.
    pub from_s: Option<f64>,
    #[serde(flatten)]
    pub interval: OsInterval,
}

/// A file that grows.
#[derive(Debug)]
pub struct OsLog(LinesFile);

impl OsLog {
    /// Makes a file that did not exist.
    pub fn begin(
        folder: &RecordFolder,
        name: impl AsRef<OsStr>,
        header: &OsLogHeader,
    ) -> Result<Self, RecordError> {
        LinesFile::begin((folder, name.as_ref()), WHAT, &of_this_format(header)).map(Self)
    }

    /// Appends an interval that ends now. An error is returned once; later calls do nothing.
    pub fn append_now(
        &mut self,
        from_s: Option<f64>,
        interval: &OsInterval,
    ) -> Result<(), RecordError> {
        let at = stamp(OffsetDateTime::now_utc());
        self.0.append(&OsLogLine { at, from_s, interval: interval.clone() })
    }
}

fn of_this_format(header: &OsLogHeader) -> OsLogHeader {
    OsLogHeader { format: FORMAT.to_owned(), ..header.clone() }
}

/// A whole file as text, for writing at once.
pub(super) fn text(
    path: &Path,
    header: &OsLogHeader,
    seconds: impl Iterator<Item = OsLogLine>,
) -> Result<Vec<u8>, RecordError> {
    let mut text = encoded(path, WHAT, &of_this_format(header))?;
    for line in seconds {
        text.extend(encoded(path, WHAT, &line)?);
    }
    Ok(text)
}

/// Passes each line to `each`, in the file's order, up to the first that is torn or damaged.
/// Returns the first line, and whether the last one was torn.
pub fn read(
    path: &Path,
    each: impl FnMut(&OsLogHeader, OsLogLine),
) -> Result<(OsLogHeader, bool), RecordError> {
    ndjson::read(path, FORMAT, "the first line of a file that petal os writes", each)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::fs;

    fn interval(seconds: f64) -> OsInterval {
        OsInterval { seconds, busiest_cpu: Some((3, 50.0)), ..OsInterval::default() }
    }

    fn lines(path: &Path) -> (Vec<OsLogLine>, bool) {
        let mut lines = Vec::new();
        let (_, torn) = read(path, |_, line| lines.push(line)).unwrap();
        (lines, torn)
    }

    #[test]
    fn a_file_is_read_back_even_if_it_was_cut_off() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("os");
        let header = OsLogHeader { petal_version: "1".into(), ..OsLogHeader::default() };
        let mut log = OsLog::begin(&RecordFolder::open(dir.path()), "os", &header).unwrap();
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
        assert!(
            OsLog::begin(&RecordFolder::open(dir.path()), "os", &header).is_err(),
            "nothing is written over"
        );
    }

    #[test]
    fn every_line_matches_the_schema() {
        let schema = include_str!("../../../docs/petal-os.schema.json");
        let schema = jsonschema::draft202012::new(&serde_json::from_str(schema).unwrap()).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let folder = RecordFolder::open(dir.path());
        let mut log = OsLog::begin(&folder, "os", &OsLogHeader::default()).unwrap();
        for second in &crate::fixture::mixed_run().details.os.unwrap().seconds[..3] {
            log.append_now(Some(second.from_s), &second.interval).unwrap();
        }
        let path = dir.path().join("os");
        let (all, _) = lines(&path);
        assert_eq!(all.len(), 3);
        let text = fs::read_to_string(path).unwrap();
        let unknown = serde_json::to_string(&OsLogLine::default()).unwrap();
        let clock = ClockState { error_s: Some(0.002), ..ClockState::default() };
        let header = of_this_format(&OsLogHeader { clock: Some(clock), ..OsLogHeader::default() });
        let mut timed = crate::fixture::mixed_run();
        crate::fixture::time_threads(&mut timed, 1.0);
        let interval = timed.details.os.unwrap().seconds[0].interval.clone();
        let timed = OsLogLine { interval, ..OsLogLine::default() };
        let timed = serde_json::to_string(&timed).unwrap();
        let header = serde_json::to_string(&header).unwrap();
        for line in text.lines().chain([unknown.as_str(), header.as_str(), timed.as_str()]) {
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
            ("{\"format\":\"petal-run/2\"}\n", "petal-run/2"),
            ("sar 12:00 AM\n", "petal os"),
        ] {
            let path = dir.path().join("other");
            fs::write(&path, text).unwrap();
            let error = read(&path, |_, _| ()).unwrap_err().to_string();
            assert!(error.contains(word) && error.contains("other"), "{error}");
        }
    }

    proptest! {
        #[test]
        fn no_line_upsets_the_reader(garbage in "\\PC{0,200}") {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("os");
            OsLog::begin(&RecordFolder::open(dir.path()), "os", &OsLogHeader::default()).unwrap();
            let mut text = fs::read(&path).unwrap();
            text.extend(garbage.as_bytes());
            fs::write(&path, text).unwrap();
            let _ = read(&path, |_, _| ());
        }
    }
}
