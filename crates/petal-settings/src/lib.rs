//! Settings: from slob.conf, environment and flags to one validated value. Nothing after this room
//! sees a raw argument, and secrets are held in a type that can be neither printed nor serialised.
//!
//! [`table`] is the one table of parameters: parsing, validation, `--help`, `petal help parameters`
//! and the documentation page all come from it.
//! [`read`] decides which source wins and makes [`Settings`]; [`rules`] refuses contradictions.

#![cfg_attr(test, allow(clippy::disallowed_methods))]

pub mod argv;
pub mod axes;
pub mod conf;
pub mod error;
pub mod flags;
pub mod limit;
pub mod objective;
pub mod paragraph;
pub mod printable;
pub mod rates;
pub mod read;
pub mod rules;
pub mod size;
pub mod table;
pub mod trust;
pub mod url;

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use rates::RateOverTime;
use size::Extent;
use url::TargetUrl;

/// `--until-steady`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UntilSteady {
    /// Bytes that a run with UPDATEs must have written first; None: as many as the active data set.
    pub volume_bytes: Option<u64>,
    /// The shortest window that proves anything: a minute.
    pub window: Duration,
}

impl UntilSteady {
    pub fn after(volume_bytes: Option<u64>) -> Self {
        Self { volume_bytes, window: Duration::from_secs(60) }
    }
}

/// The most schemas that can be asked for.
pub const SCHEMAS_MAX: u32 = 10_000;

/// A struct whose fields all have a value for "not set".
macro_rules! unset_by_default {
    ($(#[$outer:meta])* pub struct $name:ident { $($(#[$doc:meta])* pub $field:ident: $type:ty,)* }) => {
        $(#[$outer])*
        pub struct $name { $($(#[$doc])* pub $field: $type,)* }

        impl $name {
            /// Nothing set yet: the start for the setters of the table.
            fn unset() -> Self {
                Self { $($field: Default::default(),)* }
            }
        }
    };
}

unset_by_default! {
    /// Every parameter, validated once. Rules that need the target (SCALE against the loaded rows)
    /// are checked again when the target is known.
    #[derive(Debug, Clone)]
    pub struct Settings {
        pub update_pct: u8,
        pub scan_pct: u8,
        pub run_time: Duration,
        /// Operations per session; 0 = the run is timed.
        pub work_loop: u64,
        /// `None`: setup takes its default, a run takes the loaded scale.
        pub scale: Option<Extent>,
        pub scan_table_sz: Extent,
        pub work_unit: u32,
        /// WORK_UNIT if not given.
        pub update_work_unit: u32,
        pub redo_stress: RedoStress,
        pub load_parallel_degree: u32,
        pub threads_per_schema: u32,
        pub readers: Option<u32>,
        pub writers: Option<u32>,
        pub obfuscate_columns: bool,
        pub compress_ratio: Option<f64>,
        /// Hot spot, if any.
        pub hotspot: Option<HotSpot>,
        /// 0: no hot schema.
        pub hot_schema_frequency: u32,
        /// Think time, if any.
        pub think_time: Option<ThinkTime>,
        pub database_statistics_type: StatisticsType,
        pub external_script: Option<PathBuf>,
        /// Program that prints the password.
        pub password_command: Option<PathBuf>,
        pub endpoints: Endpoints,
        /// Oracle: a COMMIT inside the database waits for the log.
        pub commit_wait: bool,
        /// Oracle: SLOB's own schemas, user1 to userN, instead of petal's.
        pub use_slob_schemas: bool,
        pub os_perf_data: bool,
        /// Times each request of the data's devices, if the kernel permits it.
        pub device_latency: bool,
        /// Times each read, write and sync of the server's processes, if the kernel permits it.
        pub call_latency: bool,
        /// Times the threads that execute operations, by state, if the kernel permits it.
        pub waterfall: bool,
        pub unique_index: bool,
        /// None: the engine's default.
        pub block_sz: Option<u32>,
        pub db: TargetUrl,
        /// None: the engine's default.
        pub loop_side: Option<LoopSide>,
        pub prefetch: u32,
        /// `None`: direct I/O if it works.
        pub direct_io: Option<bool>,
        pub io_depth: u32,
        pub verify: Verify,
        pub page_cache_limit: Option<u64>,
        pub storage_cache: Option<u64>,
        /// Price of the platform under test, in any currency; `None`: not reported.
        pub price_per_month: Option<f64>,
        /// Operations per second over all sessions; None: closed loop.
        pub rate: Option<RateOverTime>,
        /// Rates by kind instead. `None` with others that are set: no operations of this kind.
        pub select_rate: Option<RateOverTime>,
        pub update_rate: Option<RateOverTime>,
        pub scan_rate: Option<RateOverTime>,
        /// Multiplies all rates.
        pub rate_scale: f64,
        pub arrivals: Arrivals,
        pub warm_up: WarmUp,
        pub repeats: u32,
        /// Seed; `None` draws one for each run.
        pub seed: Option<u64>,
        pub out: PathBuf,
        /// The folder of calibrations that runs are compared with; `None` if none is known.
        pub calibrations: Option<PathBuf>,
        /// Number of times that a setup of the bare device writes the device's size.
        pub precondition: u32,
        /// `--destroy-data`: the target whose foreign data may be overwritten, by its exact path.
        pub destroy_data: Option<PathBuf>,
        /// True if other petals drive the same run together with this one: `--share`, or the ranks
        /// of MPI.
        pub is_shared: bool,
        /// End a run as soon as it is proven to be steady; RUN_TIME is then the limit.
        pub until_steady: Option<UntilSteady>,
        /// Experiments on itself in the second half of the run.
        pub elasticity: bool,
        /// Sessions that lose their connection make it again; None: they are lost.
        pub reconnect: Option<Reconnect>,
        /// `-s`, at most [`SCHEMAS_MAX`]: schemas; None: all that are loaded (run) or one (setup).
        pub schemas: Option<u32>,
        /// A sweep's `--sessions`: all of them together; None: THREADS_PER_SCHEMA for each schema.
        pub sessions: Option<u32>,
        /// A sweep's `--server-setting`: names and values that the server has in this cell.
        pub server_settings: Vec<(String, String)>,
        /// The settings file, if one was read.
        pub conf_file: Option<PathBuf>,
        /// Each parameter as it was set, with its origin, for the record; no secrets.
        pub origins: Vec<GivenParameter>,
        /// Notes for a person: unknown keys, unusual values.
        pub notes: Vec<String>,
    }
}

/// Rules for sessions that make a lost connection again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reconnect {
    /// Time without an answer after which a connection counts as lost.
    pub answer_limit: Duration,
}

/// A parameter as the record keeps it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GivenParameter {
    pub key: String,
    /// The value as it was set, or the default; a secret is `***`; null if unset.
    pub value: serde_json::Value,
    pub origin: Origin,
}

/// The source of a value, strongest first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    Flag,
    /// The variable's name.
    Environment(String),
    /// File and line.
    File(PathBuf, u32),
    Default,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum RedoStress {
    #[default]
    /// An UPDATE changes two columns.
    Lite,
    /// All nineteen.
    Heavy,
}

/// Spacing of the operations of a rate, and the sessions that serve them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Arrivals {
    /// Random gaps, as from many independent users; any free session takes the next operation.
    #[default]
    Poisson,
    /// Equal gaps; any free session takes the next operation.
    Even,
    /// Equal gaps; each session has its own operations, which no other one takes.
    Dealt,
}

impl Settings {
    /// Seconds at the start of a run that are outside of the counted window.
    pub fn warm_up_s(&self) -> f64 {
        match self.warm_up {
            WarmUp::Time(time) => time.as_secs_f64(),
            WarmUp::Cache => 0.0,
        }
    }

    /// True if each kind of operation has its own rate, instead of shares by UPDATE_PCT and
    /// SCAN_PCT.
    pub fn has_kind_rates(&self) -> bool {
        self.select_rate.is_some() || self.update_rate.is_some() || self.scan_rate.is_some()
    }

    /// Some session of a run will scan.
    pub fn scans(&self) -> bool {
        match self.has_kind_rates() {
            true => self.scan_rate.as_ref().is_some_and(|rate| !rate.is_zero()),
            false => self.scan_pct > 0,
        }
    }

    /// No session of a run will do an UPDATE.
    pub fn only_reads(&self) -> bool {
        if self.has_kind_rates() {
            return self.update_rate.as_ref().is_none_or(RateOverTime::is_zero);
        }
        match (self.readers, self.writers) {
            (None, None) => self.update_pct == 0,
            (_, writers) => writers.unwrap_or(0) == 0,
        }
    }
}

/// Sizes are in bytes until the block size is known.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HotSpot {
    pub bytes: u64,
    pub offset_bytes: u64,
    /// Every n-th operation lies in the spot.
    pub frequency: u32,
}

#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct ThinkTime {
    /// Number of operations per pause, on average; each one pauses at random.
    pub frequency: u32,
    pub min: Duration,
    pub max: Duration,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StatisticsType {
    #[default]
    Statspack,
    Awr,
}

/// SLOB's connection parameters.
#[derive(Debug, Clone, Default)]
pub struct Endpoints {
    pub admin_service: Option<String>,
    pub service_base: Option<String>,
    pub service_max: Option<u32>,
    pub dba_user: Option<String>,
    pub dba_password: Option<url::Secret>,
    /// True if the settings file has keys of SLOB before 2.4, in which SYSDBA_PASSWD is the
    /// password of SYS.
    pub is_before_slob_2_4: bool,
}

impl Endpoints {
    /// The services of the sessions, in order: the base alone, or with 1 to SQLNET_SERVICE_MAX
    /// appended. Empty if no base is set; the URL then names the servers.
    pub fn services(&self) -> Vec<String> {
        match (&self.service_base, self.service_max) {
            (None, _) => Vec::new(),
            (Some(base), None) => vec![base.clone()],
            (Some(base), Some(max)) => (1..=max).map(|at| format!("{base}{at}")).collect(),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LoopSide {
    Server,
    Client,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verify {
    None,
    #[default]
    Header,
    Checksum,
}

impl Default for WarmUp {
    fn default() -> Self {
        Self::Time(Duration::ZERO)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WarmUp {
    /// A fixed time at the start of a run, which is outside the counted window.
    Time(Duration),
    /// Each session reads its data before the trigger, until the cache is full.
    Cache,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn services_are_the_base_or_numbered_from_it() {
        let services = |base: Option<&str>, max| {
            let base = base.map(str::to_owned);
            Endpoints { service_base: base, service_max: max, ..Endpoints::default() }.services()
        };
        assert_eq!(services(None, None), [""; 0]);
        assert_eq!(services(Some("rac"), None), ["rac"]);
        assert_eq!(services(Some("rac"), Some(1)), ["rac1"]);
        assert_eq!(services(Some("rac"), Some(3)), ["rac1", "rac2", "rac3"]);
    }
}
