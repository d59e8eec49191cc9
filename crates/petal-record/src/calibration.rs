//! The record of `petal calibrate`: the versioned format `petal-calibrate/1`, in a separate folder
//! next to the runs, and a copy that later runs on the same device find.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::{RecordError, RecordFolder, Status, format};
use crate::target::DirectIo;
use petal_host::files;
use petal_host::histogram::LatencySummary;

pub const FORMAT: &str = "petal-calibrate/1";
pub const NAME: &str = "calibrate.json";
const WHAT: &str = "the calibration";

/// The curves' names.
pub const READ: &str = "read";
pub const WRITE: &str = "write";
pub const MIX: &str = "mix";

/// A bound's name for the log's curve with fdatasync.
pub const LOG: &str = "log";
/// The names of the log's curves: the call that makes a record durable.
pub const FDATASYNC: &str = "fdatasync";
pub const FSYNC: &str = "fsync";
pub const O_DSYNC: &str = "o_dsync";

/// A whole calibration, printed by `petal calibrate --json`. Names never change; an unknown value
/// is null, never 0.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Calibration {
    pub format: String,
    pub petal_version: String,
    /// `interrupted` by a signal or `failed` by an error: curves have fewer points, or points fewer
    /// rounds.
    pub status: Status,
    /// UTC, RFC 3339.
    pub started_at: String,
    pub elapsed_s: f64,
    /// Name and kernel of the host.
    pub host: String,
    pub kernel: String,
    /// The file or block device that was measured on.
    pub path: String,
    pub kind: String,
    /// Bytes that requests went to.
    pub bytes: u64,
    pub storage_cache: Option<u64>,
    pub direct_io: DirectIo,
    pub requests_by: String,
    pub device: Option<MeasuredDevice>,
    pub block_bytes: u64,
    /// Share of reads in the mix's requests, percent.
    pub mix_read_pct: u8,
    /// Rounds that were planned.
    pub rounds: u32,
    /// Curves by name: `read`, `write`, `mix`; points by depth.
    pub curves: BTreeMap<String, Vec<CurvePoint>>,
    /// The most requests per second of each curve.
    pub best: BTreeMap<String, Best>,
    /// `read` and `write`, in large requests one after the other.
    pub in_order: BTreeMap<String, InOrder>,
    /// Writes of a single writer, with fdatasync.
    pub log: Option<LogWrites>,
    /// Log writes by call (`fdatasync`, `fsync`, `o_dsync`); points by writers, which are their
    /// depth. Latencies of write and sync together.
    #[serde(default)]
    pub log_curves: BTreeMap<String, Vec<CurvePoint>>,
    /// `--max-latency`: the most requests per second under each bound.
    pub under: Vec<Under>,
    /// Notes for the reader, a sentence each.
    pub notes: Vec<String>,
}

/// The device behind the path, as later runs recognise it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MeasuredDevice {
    /// Name in /proc/diskstats of the device whose requests were counted.
    pub name: String,
    /// The drives below it.
    pub drives: Vec<String>,
}

/// A curve's point at one depth, over all its rounds.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct CurvePoint {
    pub depth: u32,
    pub threads: u32,
    pub rounds: u32,
    pub seconds: f64,
    pub reads: u64,
    pub writes: u64,
    /// Requests per second: all requests over all seconds.
    pub iops: f64,
    /// The rates of the slowest and the fastest round.
    pub iops_min: f64,
    pub iops_max: f64,
    /// Millions of bytes per second.
    pub mb_per_s: f64,
    /// Time from submit to completion; null if there were none.
    pub read_latency_us: Option<LatencySummary>,
    pub write_latency_us: Option<LatencySummary>,
    /// Reads and writes together.
    pub latency_us: LatencySummary,
    /// Requests in flight at the device on average: rate x await, by the kernel's counters.
    pub device_depth: Option<f64>,
    /// The busiest thread's share of a processor.
    pub thread_cpu_share: f64,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Best {
    pub iops: f64,
    pub depth: u32,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct InOrder {
    pub request_bytes: u64,
    pub depth: u32,
    pub seconds: f64,
    /// Millions of bytes per second.
    pub mb_per_s: f64,
    pub latency_us: LatencySummary,
}

/// Small writes, each synced before the next; latencies of write and sync together.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct LogWrites {
    pub bytes: u64,
    pub seconds: f64,
    pub per_second: f64,
    pub latency_us: LatencySummary,
}

/// The most requests per second of the points that meet a bound; null if none met it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Under {
    /// The bound as given: `read.p99=10ms`.
    pub bound: String,
    pub iops: Option<f64>,
    pub depth: Option<u32>,
    pub latency_us: Option<f64>,
    /// No point has the bounded figure: of a percentile, each had too few requests.
    #[serde(default)]
    pub unknown: bool,
}

/// A run's figures compared with the calibrated device; in the run's record.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CalibratedShare {
    /// The calibration: its file, its date, and the device it measured.
    pub calibration: String,
    pub calibrated_at: String,
    pub path: String,
    pub block_bytes: u64,
    /// The curve nearest to the run's mix, if one is near enough.
    pub curve: Option<String>,
    /// Share of reads in the run's device requests and in the curve's, percent.
    pub read_pct: f64,
    pub curve_read_pct: Option<f64>,
    /// The run's requests per second at the device, without flushes.
    pub device_iops: f64,
    /// rate x await, over reads and writes.
    pub device_depth: f64,
    /// Flushes for each of its requests; curves have none.
    pub flush_share: f64,
    /// The curve's requests per second at this depth, and its maximum.
    pub curve_iops: Option<f64>,
    pub curve_iops_max: Option<f64>,
    pub curve_depth_max: Option<u32>,
    /// All points of that curve, for charts in reports; empty in records made before petal kept
    /// them.
    pub points: Vec<CalibratedPoint>,
    /// `device_iops` as a share of `curve_iops`, and of `curve_iops_max`.
    pub of_depth: Option<f64>,
    pub of_max: Option<f64>,
    /// Why a figure is not known.
    pub unknown: Option<String>,
}

/// A point of the curve that a run is compared with.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CalibratedPoint {
    /// Requests in flight as asked for, and as the kernel counted them at the device.
    pub depth: u32,
    pub device_depth: Option<f64>,
    pub iops: f64,
    /// Time from submit to completion, by petal's clock.
    pub latency_us: LatencySummary,
}

impl From<&CurvePoint> for CalibratedPoint {
    fn from(point: &CurvePoint) -> Self {
        Self {
            depth: point.depth,
            device_depth: point.device_depth,
            iops: point.iops,
            latency_us: point.latency_us.clone(),
        }
    }
}

impl CalibratedPoint {
    /// Requests in flight: the kernel's count, if known, else the depth asked for.
    pub fn in_flight(&self) -> f64 {
        self.device_depth.unwrap_or(self.depth.into())
    }

    /// Microseconds that a request took at the device: requests in flight over their rate, or the
    /// mean by petal's clock if the kernel did not count them.
    pub fn device_us(&self) -> Option<f64> {
        match self.device_depth {
            Some(depth) => (self.iops > 0.0).then(|| depth / self.iops * 1e6),
            None => self.latency_us.mean,
        }
    }
}

pub fn save(folder: &RecordFolder, calibration: &Calibration) -> Result<PathBuf, RecordError> {
    folder.write_json(NAME, WHAT, calibration)
}

/// Writes another copy, under its folder's name, where runs look for it; None if the device is
/// unknown, because no run could be compared with it.
pub fn keep(
    folder: &RecordFolder,
    kept_in: &Path,
    calibration: &Calibration,
) -> Result<Option<PathBuf>, RecordError> {
    if calibration.device.is_none() {
        return Ok(None);
    }
    files::make_folders(kept_in).map_err(|source| RecordError::io("make", kept_in, source))?;
    let name = folder.path().file_name().map(|name| name.to_string_lossy().into_owned());
    let name = format!("{}.json", name.unwrap_or_else(|| "calibrate".to_owned()));
    RecordFolder::open(kept_in).write_json(&name, WHAT, calibration).map(Some)
}

/// Reads one, by its folder or file.
pub fn load(path: &Path) -> Result<Calibration, RecordError> {
    let path = if path.is_dir() { path.join(NAME) } else { path.to_owned() };
    format::read(&path, FORMAT, "a calibration")
}

/// Calibrations kept for a device on these drives: complete ones newest first, then interrupted
/// ones, because half a curve does not replace a whole one. Unreadable files are skipped: they are
/// no reason to refuse a run.
pub fn of_drives(kept_in: &Path, drives: &[String]) -> Vec<(PathBuf, Calibration)> {
    let entries = fs::read_dir(kept_in).into_iter().flatten().flatten();
    let mut found: Vec<(PathBuf, Calibration)> = entries
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "json"))
        .filter_map(|path| load(&path).ok().map(|calibration| (path, calibration)))
        .filter(|(_, calibration)| {
            let device = calibration.device.as_ref();
            !drives.is_empty() && device.is_some_and(|device| device.drives == drives)
        })
        .collect();
    let rank = |(path, calibration): &(PathBuf, Calibration)| {
        let is_whole = calibration.status == Status::Complete;
        Reverse((is_whole, calibration.started_at.clone(), path.clone()))
    };
    found.sort_by_cached_key(rank);
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(drives: &[&str], started_at: &str) -> Calibration {
        Calibration {
            format: FORMAT.to_owned(),
            status: Status::Complete,
            started_at: started_at.to_owned(),
            device: Some(MeasuredDevice {
                name: "sda".into(),
                drives: drives.iter().map(|drive| (*drive).to_owned()).collect(),
            }),
            ..Calibration::default()
        }
    }

    #[test]
    fn the_newest_of_the_same_drives_comes_first() {
        let dir = tempfile::tempdir().unwrap();
        let (out, kept_in) = (dir.path().join("out"), dir.path().join("kept"));
        for (drives, at) in [
            (&["wwid-1"][..], "2026-01-01T00:00:00Z"),
            (&["wwid-1"], "2026-03-01T00:00:00Z"),
            (&["wwid-1", "wwid-2"], "2026-04-01T00:00:00Z"),
            (&["wwid-1"], "2026-02-01T00:00:00Z"),
        ] {
            let folder = RecordFolder::create(&out, "calibrate", time::OffsetDateTime::now_utc());
            let (folder, calibration) = (folder.unwrap(), of(drives, at));
            let path = save(&folder, &calibration).unwrap();
            let kept = keep(&folder, &kept_in, &calibration).unwrap();
            assert_eq!(load(&path).unwrap(), calibration);
            assert_eq!(load(&kept.unwrap()).unwrap(), calibration);
            assert_eq!(load(path.parent().unwrap()).unwrap(), calibration);
        }
        let mut interrupted = of(&["wwid-1"], "2026-05-01T00:00:00Z");
        interrupted.status = Status::Interrupted;
        let folder = RecordFolder::create(&out, "calibrate", time::OffsetDateTime::now_utc());
        keep(&folder.unwrap(), &kept_in, &interrupted).unwrap();
        fs::write(kept_in.join("broken.json"), "{").unwrap();
        fs::write(kept_in.join("other.json"), r#"{"format":"petal-run/2"}"#).unwrap();
        let found = of_drives(&kept_in, &["wwid-1".to_owned()]);
        let months: Vec<&str> = found.iter().map(|(_, one)| &one.started_at[5..7]).collect();
        assert_eq!(months, ["03", "02", "01", "05"]);
        assert!(of_drives(&kept_in, &[]).is_empty(), "what is not known is not the same");
        assert!(load(&kept_in.join("other.json")).unwrap_err().to_string().contains(FORMAT));
    }

    #[test]
    fn a_device_that_is_not_seen_is_not_kept_for_runs() {
        let dir = tempfile::tempdir().unwrap();
        let folder =
            RecordFolder::create(dir.path(), "calibrate", time::OffsetDateTime::now_utc()).unwrap();
        let unseen = Calibration { device: None, ..of(&[], "2026-01-01T00:00:00Z") };
        assert_eq!(keep(&folder, &dir.path().join("kept"), &unseen).unwrap(), None);
        assert!(!dir.path().join("kept").exists());
    }
}
