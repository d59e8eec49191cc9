//! `petal-profile/1`: the work of a database over time, as rates for each interval, with the source
//! of every figure and the reason for every missing one. docs/petal-profile.schema.json is the
//! contract. Plain values; readers of each source make profiles.

mod check;

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};
use time::macros::format_description;
use time::{Duration, PrimitiveDateTime};

use super::{RecordError, format, input};
use crate::server_work::{WorkCount, WorkTime};

pub const FORMAT: &str = "petal-profile/1";
/// The profile in the folder of the sweep that replays it.
pub const NAME: &str = "profile.json";
const WHAT: &str = "a profile";

/// A profile: intervals in the order of time, and their inputs.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    pub format: String,
    pub petal_version: String,
    /// The database, or the databases that were added up.
    pub database: String,
    /// The clock of the times.
    pub clock: Clock,
    /// Bytes of a block of the database; null if unknown, or different among its parts.
    pub block_bytes: Option<u32>,
    pub inputs: Vec<Input>,
    pub intervals: Vec<ProfileInterval>,
    /// Missing or odd figures, and assumptions.
    pub gaps: Vec<String>,
    /// Derived from the intervals; petal reads those and computes it again.
    #[serde(default)]
    pub summary: ProfileSummary,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Clock {
    /// UTC.
    Utc,
    /// The clock of the database's host, which does not name its zone.
    #[default]
    Database,
}

/// A file, a folder or a server from which a profile is made.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Input {
    pub name: String,
    /// A kind such as `awr`, `petal_run`, `server`, `profile`.
    pub kind: String,
    pub database: Option<String>,
    pub instance: Option<String>,
    pub host: Option<String>,
    /// Place of each figure in the input, by the figure's name; latencies end with `_us`.
    pub sources: BTreeMap<String, String>,
    /// Reason why a figure is missing, or extra content of it, by the figure's name.
    pub gaps: BTreeMap<String, String>,
    pub notes: Vec<String>,
}

/// A length of time with its mean rates. An unknown figure is absent; the inputs give the reason.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProfileInterval {
    /// A time such as `2026-11-22T10:00:00`; null if the source has no date that petal reads.
    pub begin: Option<String>,
    pub length_s: f64,
    /// Positions in `inputs`, from 0.
    pub inputs: Vec<usize>,
    pub per_second: BTreeMap<WorkCount, f64>,
    /// Mean latency in microseconds.
    pub latency_us: BTreeMap<WorkTime, f64>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ProfileSummary {
    /// Position in `intervals`, from 0, of the busiest one: the most blocks read and written and
    /// commits per second.
    pub busiest: Option<usize>,
    /// Percentiles of the intervals' rates, each interval weighted by its length.
    pub percentiles: BTreeMap<WorkCount, ProfilePercentiles>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct ProfilePercentiles {
    pub p50: f64,
    pub p90: f64,
    pub p95: f64,
    pub p99: f64,
    pub max: f64,
    /// The mean over time.
    pub mean: f64,
}

impl ProfileInterval {
    pub fn rate(&self, figure: WorkCount) -> Option<f64> {
        self.per_second.get(&figure).copied()
    }

    pub fn latency(&self, figure: WorkTime) -> Option<f64> {
        self.latency_us.get(&figure).copied()
    }

    pub fn begin_time(&self) -> Option<PrimitiveDateTime> {
        parse_time(self.begin.as_deref()?)
    }

    pub fn end_time(&self) -> Option<PrimitiveDateTime> {
        self.begin_time()?.checked_add(Duration::saturating_seconds_f64(self.length_s))
    }

    /// Read and write requests and commits per second, as far as they are known: intervals are
    /// compared by this sum.
    pub fn load(&self) -> f64 {
        use WorkCount::{BlockWrites, Commits, MultiBlockReads, SingleBlockReads};
        [SingleBlockReads, MultiBlockReads, BlockWrites, Commits]
            .into_iter()
            .filter_map(|figure| self.rate(figure))
            .sum()
    }
}

impl Profile {
    pub fn busiest(&self) -> Option<&ProfileInterval> {
        self.intervals.get(self.summary.busiest?)
    }

    /// The sum of the intervals' lengths.
    pub fn length_s(&self) -> f64 {
        self.intervals.iter().map(|interval| interval.length_s).sum()
    }

    /// The profile as the text of its file.
    pub fn text(&self, path: &Path) -> Result<Vec<u8>, RecordError> {
        format::text(path, WHAT, self)
    }
}

/// Reads a profile, and refuses one that holds nonsense.
pub fn load(path: &Path) -> Result<Profile, RecordError> {
    let profile: Profile = format::read(path, FORMAT, WHAT)?;
    let damaged = |why| RecordError::Damaged { path: path.to_owned(), wanted: WHAT, why };
    check::check(&profile).map_err(damaged)?;
    Ok(profile)
}

/// Whether a file begins as a profile does; false if it cannot be read.
pub fn is_one(path: &Path) -> bool {
    use std::io::Read as _;
    let mut head = Vec::new();
    let read = input::open(path).map(|file| file.take(4096).read_to_end(&mut head));
    matches!(read, Ok(Ok(_))) && String::from_utf8_lossy(&head).contains("\"petal-profile/")
}

/// Parses a time such as `2026-11-22T10:00:00`, to the second.
pub fn parse_time(text: &str) -> Option<PrimitiveDateTime> {
    let format = format_description!("[year]-[month]-[day]T[hour]:[minute]:[second]");
    PrimitiveDateTime::parse(text, format).ok()
}

pub fn time_text(time: PrimitiveDateTime) -> String {
    let format = format_description!("[year]-[month]-[day]T[hour]:[minute]:[second]");
    time.format(format).unwrap_or_default()
}
