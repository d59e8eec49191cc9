//! Conclusions about a run: the layer that served its reads, and its limit. They are made once,
//! when the run is judged, and read by every report.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::experiments::ChangedResource;

/// Source of the bytes that the database, or petal on a bare device, read.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ServedBy {
    pub by: ReadSource,
    /// The source in words, such as `page cache 75 %, device 25 %`.
    pub words: String,
    /// Reason why the source is unknown; null if it is known.
    pub why_unknown: Option<String>,
    /// Bytes that were read above the device, and the part served by each source. Null if unknown.
    pub asked_bytes: Option<u64>,
    pub device_bytes: Option<u64>,
    pub page_cache_bytes: Option<u64>,
    /// Bytes served by storage that is not counted.
    pub unseen_bytes: Option<u64>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReadSource {
    /// Nearly all of the bytes came from the data's device.
    Device,
    /// The larger part came from the operating system's page cache.
    PageCache,
    /// The database's own cache holds all of the data, and next to nothing was read, or it served
    /// most of the rows.
    DatabaseCache,
    /// The device, with a page cache or storage that is not counted.
    Several,
    /// Too few bytes were read to say.
    Nobody,
    #[default]
    Unknown,
}

/// Use of one resource during a run, by the utilisation law: `utilisation` is throughput times
/// `demand_us`, over the capacity.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ResourceUse {
    /// Name of the resource, such as `processors`.
    pub resource: String,
    /// Clock or counter of the figures.
    pub layer: String,
    /// Mean part in use: processors' worth of time, requests in flight, or a rate.
    pub used: Option<f64>,
    /// The most that `used` can be; null if unknown.
    pub capacity: Option<f64>,
    /// Share of the capacity in use, from 0 to 1; null if unknown.
    pub utilisation: Option<f64>,
    /// Microseconds of the resource for each operation; null for a rate, and if unknown.
    pub demand_us: Option<f64>,
    /// Reason why the utilisation is unknown; null if it is known.
    pub why_unknown: Option<String>,
}

/// Bytes that the UPDATEs of a run caused, from the changed columns down to the device. The rows
/// between the first and the device add up to the device's.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct WriteLedger {
    pub rows: Vec<LedgerRow>,
    /// Bytes of the device without other programs' over the bytes that UPDATEs changed; null if
    /// unknown.
    pub amplification: Option<f64>,
    /// Bytes of the device that no other row explains, over all of the device's; null if unknown.
    pub unexplained_share: Option<f64>,
    /// Reasons and limits, a sentence each.
    pub notes: Vec<String>,
}

/// Bytes of one cause or layer.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct LedgerRow {
    /// The cause, such as `data pages`.
    pub written: String,
    /// Clock or counter of the figure.
    pub layer: String,
    /// Negative for bytes that a layer saved; null if unknown.
    pub bytes: Option<i64>,
    /// Null for bytes of other programs, and if unknown.
    pub bytes_per_update: Option<f64>,
    /// Bytes over the changed ones; null for bytes of other programs, and if unknown.
    pub of_changed: Option<f64>,
}

/// Change of throughput over the change of a resource, as logarithms, by experiment: -1 if the
/// resource's time alone limits the run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Elasticity {
    pub of: ChangedResource,
    /// The change in words.
    pub words: String,
    /// Time of the resource for each operation, or its amount, over the one without the change.
    pub factor: f64,
    pub elasticity: Option<f64>,
    /// The 95 % interval.
    pub interval: Option<(f64, f64)>,
    pub why_unknown: Option<String>,
}

/// The limit of a run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct LimitedBy {
    pub by: Limiter,
    /// The limit in words, such as `waiting for reads (63 % of DB time)`.
    pub words: String,
    /// A second resource whose share or elasticity is level with the first one's.
    #[serde(default)]
    pub shared_with: Option<Limiter>,
    /// The figures that it rests on, by name.
    pub evidence: BTreeMap<String, serde_json::Value>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Limiter {
    /// All processors that the database may use, or the one that carried the log writer.
    Processors,
    /// All processors, used mostly by other programs than petal and the database.
    OthersWork,
    /// Processor time of the sessions themselves, on a host that has more processors.
    SessionProcessorTime,
    /// Processors of petal itself, of a server that waits for petal.
    Petal,
    /// A control group's limit on the I/O of a device under the data.
    IoLimit,
    /// Think time that was asked for.
    ThinkTime,
    /// RATE, and the run kept up with it.
    Rate,
    /// Waits of the sessions, by class, that took at least half of DB time.
    Reads,
    Log,
    /// Commits that wait for another server.
    Replica,
    Contention,
    Locks,
    LogRoom,
    Network,
    OtherWaits,
    /// Unknown for one driver host's share alone: the database worked for all hosts.
    NotJudged,
    #[default]
    NotDetermined,
}

/// A limit as a part of a sentence: `limited by the log`, or `limit not determined`.
pub fn limit_clause(words: &str) -> String {
    match words.starts_with("not ") {
        true => format!("limit {words}"),
        false => format!("limited by {words}"),
    }
}

impl LimitedBy {
    /// A limit with its evidence, an object of figures or null.
    pub fn new(by: Limiter, words: impl Into<String>, evidence: serde_json::Value) -> Self {
        let evidence = match evidence {
            serde_json::Value::Object(figures) => figures.into_iter().collect(),
            _ => BTreeMap::new(),
        };
        Self { by, words: words.into(), shared_with: None, evidence }
    }
}

impl ServedBy {
    /// True if a cache served more of the reads than a run that reached the device may have.
    pub fn is_by_cache(&self) -> bool {
        match self.by {
            ReadSource::PageCache | ReadSource::DatabaseCache => true,
            ReadSource::Several => self.page_cache_bytes.is_some_and(|bytes| bytes > 0),
            ReadSource::Device | ReadSource::Nobody | ReadSource::Unknown => false,
        }
    }

    /// The part of the bytes that a source served; None if unknown.
    pub fn share(&self, bytes: Option<u64>) -> Option<f64> {
        let (bytes, asked) = bytes.zip(self.asked_bytes.filter(|&asked| asked > 0))?;
        Some(bytes as f64 / asked as f64)
    }
}
