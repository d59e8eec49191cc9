//! Content of a report, from which all outputs are made. This module reads and judges nothing.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;

use super::figure::Figure;
use super::statistics::ReportStatistics;

/// Scope of a report.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReportKind {
    /// Single instance.
    #[default]
    Awr,
    /// Several instances of a cluster together.
    Awrg,
    /// Part for one instance of a report over several instances.
    AwrgInstance,
    /// A pluggable database.
    Awrpdb,
    /// Statspack.
    Sp,
    /// Sections that somebody copied out of a report.
    Excerpt,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Format {
    #[default]
    Text,
    Html,
}

/// A report. A figure that it lacks is `None`.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Report {
    pub file: String,
    pub kind: ReportKind,
    pub format: Format,
    /// Factors from the file's name, such as `sessions`.
    #[serde(serialize_with = "as_map")]
    pub factors: Vec<(String, String)>,
    pub header: ReportHeader,
    pub load_profile: LoadProfile,
    pub io_profile: IoProfile,
    pub time_model: TimeModel,
    pub wait_classes: Vec<ReportWaitClass>,
    /// Seconds that foreground processes waited, by the remark over the wait classes.
    #[serde(skip)]
    pub captured_wait_s: Option<Figure>,
    pub top_events: Vec<WaitEvent>,
    /// Wait events of foreground processes; before 11g also of background processes. The section
    /// names which.
    pub foreground_events: Vec<WaitEvent>,
    pub background_events: Vec<WaitEvent>,
    pub histograms: Vec<Histogram>,
    pub statistics: Arc<ReportStatistics>,
    pub tablespaces: Vec<IoRow>,
    pub files: Vec<IoRow>,
    pub io_functions: Vec<IoFunction>,
    pub io_file_types: Vec<IoFunction>,
    pub segments_by_reads: Vec<SegmentReads>,
    pub sql_by_reads: Vec<SqlReads>,
    /// Interconnect pings, in a cluster.
    pub interconnect_pings: Vec<InterconnectPing>,
    pub cpu: Cpu,
    pub memory: Memory,
    pub parameters: Vec<ReportParameter>,
    /// Separate reports for each instance, in a report over several instances.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub instances: Vec<Report>,
    pub findings: Vec<ReportFinding>,
    /// Set if the snapshots are on different sides of a restart, so that differences between them
    /// mean nothing.
    #[serde(skip)]
    pub spans_restart: bool,
    /// Set if the report's end is present.
    #[serde(skip)]
    pub is_whole: bool,
    /// Oddities of the file, and parts that could not be read.
    pub notes: Vec<String>,
}

fn as_map<S: Serializer>(entries: &[(String, String)], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(entries.iter().map(|(name, value)| (name, value)))
}

#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct ReportHeader {
    pub db: Option<Figure>,
    pub db_id: Option<Figure>,
    /// Instance name; in a report over several instances, all names joined by `+`.
    pub instance: Option<Figure>,
    pub instance_number: Option<Figure>,
    pub host: Option<Figure>,
    pub release: Option<Figure>,
    pub rac: Option<Figure>,
    /// Role such as `PRIMARY` or `PHYSICAL STANDBY`.
    pub db_role: Option<Figure>,
    pub cdb: Option<Figure>,
    pub pdb: Option<Figure>,
    pub platform: Option<Figure>,
    pub cpus: Option<Figure>,
    pub cores: Option<Figure>,
    pub sockets: Option<Figure>,
    pub memory_gb: Option<Figure>,
    pub startup_time: Option<Figure>,
    pub begin_snap: Option<Figure>,
    pub end_snap: Option<Figure>,
    pub begin_time: Option<Figure>,
    pub end_time: Option<Figure>,
    pub elapsed_min: Option<Figure>,
    /// Elapsed time as printed, if its decimal comma makes it unreadable.
    #[serde(skip)]
    pub elapsed_unread: Option<String>,
    pub db_time_min: Option<Figure>,
}

/// Line of the load profile.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct LoadLine {
    pub per_second: Option<Figure>,
    pub per_transaction: Option<Figure>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct LoadProfile {
    /// Seconds of sessions' time.
    pub db_time: LoadLine,
    pub db_cpu: LoadLine,
    pub background_cpu: LoadLine,
    pub redo_bytes: LoadLine,
    /// Blocks.
    pub logical_reads: LoadLine,
    pub block_changes: LoadLine,
    pub physical_reads: LoadLine,
    pub physical_writes: LoadLine,
    pub read_requests: LoadLine,
    pub write_requests: LoadLine,
    pub read_mb: LoadLine,
    pub write_mb: LoadLine,
    pub user_calls: LoadLine,
    pub parses: LoadLine,
    pub hard_parses: LoadLine,
    pub logons: LoadLine,
    pub executes: LoadLine,
    pub rollbacks: LoadLine,
    pub transactions: LoadLine,
}

/// Line of IO Profile, per second.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct IoProfileLine {
    pub both: Option<Figure>,
    pub read: Option<Figure>,
    pub write: Option<Figure>,
}

/// Requests and MB per second by purpose. `total` has redo, control files and backups.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct IoProfile {
    pub total_requests: IoProfileLine,
    pub database_requests: IoProfileLine,
    /// Requests served by a flash cache.
    pub optimized_requests: IoProfileLine,
    pub redo_requests: IoProfileLine,
    pub total_mb: IoProfileLine,
    pub database_mb: IoProfileLine,
    pub optimized_mb: IoProfileLine,
    pub redo_mb: IoProfileLine,
}

/// Lists the lines of a profile, with their names.
macro_rules! lines {
    ($profile:ident, $line:ident, $count:literal: $($name:ident)+) => {
        impl $profile {
            /// Returns the lines with their names.
            pub fn lines(&self) -> [(&'static str, &$line); $count] {
                [$((stringify!($name), &self.$name)),+]
            }

            pub fn lines_mut(&mut self) -> [&mut $line; $count] {
                [$(&mut self.$name),+]
            }
        }
    };
}

lines!(LoadProfile, LoadLine, 19: 
    db_time db_cpu background_cpu redo_bytes logical_reads block_changes physical_reads physical_writes read_requests
    write_requests read_mb write_mb user_calls parses hard_parses logons executes rollbacks transactions);
lines!(IoProfile, IoProfileLine, 8: 
    total_requests database_requests optimized_requests redo_requests total_mb database_mb optimized_mb redo_mb);

/// A segment in the list ordered by physical reads.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct SegmentReads {
    pub owner: String,
    pub tablespace: String,
    pub object: String,
    pub part: String,
    pub kind: String,
    pub physical_reads: Option<Figure>,
    pub pct_total: Option<Figure>,
}

/// A statement in the list ordered by physical reads, in blocks.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SqlReads {
    /// Statement ID; in Statspack, the hash value.
    pub sql_id: Figure,
    pub module: Option<Figure>,
    pub pdb: Option<Figure>,
    pub physical_reads: Option<Figure>,
    pub executions: Option<Figure>,
    pub pct_total: Option<Figure>,
    pub elapsed_s: Option<Figure>,
}

/// Round trips of messages to one instance of a cluster, by the size of the message.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct InterconnectPing {
    /// Source instance; null in the report of one instance, which is the source itself.
    pub source: Option<Figure>,
    pub target: Figure,
    pub pings_500b: Option<Figure>,
    pub latency_500b_us: Option<Figure>,
    pub pings_8k: Option<Figure>,
    pub latency_8k_us: Option<Figure>,
}

/// Seconds of sessions' time, not a rate.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct TimeModel {
    pub db_time_s: Option<Figure>,
    pub db_cpu_s: Option<Figure>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct ReportWaitClass {
    pub name: String,
    pub waits: Option<Figure>,
    pub time_s: Option<Figure>,
    pub pct_db_time: Option<Figure>,
}

/// A wait event, or the CPU row of the top events.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct WaitEvent {
    /// Name as printed: text reports truncate it.
    pub name: String,
    /// Set if the report may have truncated the name.
    #[serde(skip)]
    pub is_cut: bool,
    /// Instance of the event in a report over several instances; `*` is all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instance: Option<String>,
    pub wait_class: Option<Figure>,
    pub waits: Option<Figure>,
    pub time_s: Option<Figure>,
    /// Time over waits.
    pub avg_us: Option<Figure>,
    /// The report's own average.
    pub reported_avg_us: Option<Figure>,
    /// The more precise of the two; null if both are 0.
    pub latency_us: Option<Figure>,
    pub pct_db_time: Option<Figure>,
    #[serde(skip)]
    pub waits_per_transaction: Option<Figure>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Histogram {
    /// Name as printed: text reports truncate it.
    pub name: String,
    /// Set if the report may have truncated the name.
    #[serde(skip)]
    pub is_cut: bool,
    pub section: String,
    pub waits: Option<Figure>,
    /// Unit of the buckets: `percent` of the waits, or `waits` as counts.
    pub unit: &'static str,
    /// Ranges of the histogram; those that the report leaves blank are missing.
    pub buckets: Vec<Bucket>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Bucket {
    /// Heading of the range.
    pub range: String,
    /// Lower bound: the upper bound of the range before it, which the report may leave blank.
    #[serde(skip)]
    pub from_us: f64,
    /// Upper bound; null for the last, open range.
    pub below_us: Option<f64>,
    pub share: Option<Figure>,
}

/// I/O of a tablespace or a file.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct IoRow {
    pub tablespace: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    pub pdb: Option<Figure>,
    pub reads: Option<Figure>,
    pub reads_per_s: Option<Figure>,
    pub read_ms: Option<Figure>,
    pub blocks_per_read: Option<Figure>,
    pub single_block_reads_per_s: Option<Figure>,
    pub single_block_read_ms: Option<Figure>,
    pub writes: Option<Figure>,
    pub writes_per_s: Option<Figure>,
    pub write_ms: Option<Figure>,
    pub buffer_waits: Option<Figure>,
    pub buffer_wait_ms: Option<Figure>,
    /// Cells under the headings as printed, which in some releases do not match their columns.
    pub as_headed: BTreeMap<String, String>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct IoFunction {
    pub name: String,
    pub read_bytes: Option<Figure>,
    pub read_requests_per_s: Option<Figure>,
    pub write_bytes: Option<Figure>,
    pub write_requests_per_s: Option<Figure>,
    pub waits: Option<Figure>,
    pub wait_us: Option<Figure>,
    /// Service time of a small read, for a file type.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub small_read_us: Option<Figure>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub large_read_us: Option<Figure>,
}

/// Percentages of all processors' time, and the times they were computed from.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Cpu {
    /// Idle time, including the wait for I/O, as the reports count it.
    pub idle_pct: Option<Figure>,
    pub user_pct: Option<Figure>,
    pub system_pct: Option<Figure>,
    pub iowait_pct: Option<Figure>,
    /// Seconds; reports count hundredths.
    pub busy_s: Option<Figure>,
    pub idle_s: Option<Figure>,
    pub iowait_s: Option<Figure>,
    #[serde(skip)]
    pub user_s: Option<Figure>,
    #[serde(skip)]
    pub system_s: Option<Figure>,
    /// Idle share as Host CPU prints it, with fewer digits.
    #[serde(skip)]
    pub printed_idle_pct: Option<Figure>,
}

/// Bytes.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Memory {
    pub buffer_cache_bytes: Option<Figure>,
    pub buffer_cache_end_bytes: Option<Figure>,
    pub shared_pool_bytes: Option<Figure>,
    pub log_buffer_bytes: Option<Figure>,
    pub block_bytes: Option<Figure>,
    pub host_bytes: Option<Figure>,
    pub sga_bytes: Option<Figure>,
    pub pga_bytes: Option<Figure>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct ReportParameter {
    pub name: String,
    /// Instance of the parameter in a report over several instances; `*` is all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instance: Option<String>,
    pub value: Option<Figure>,
    pub end_value: Option<Figure>,
}

/// Severity of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ReportSeverity {
    Info,
    Warning,
    Error,
}

/// A rule of the method that the reported run broke.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ReportFinding {
    pub id: String,
    pub severity: ReportSeverity,
    pub message: String,
    pub advice: String,
    /// Figures that the finding follows from, by name.
    pub evidence: BTreeMap<String, Value>,
}

impl Report {
    /// True if any figure about the reported interval was read.
    pub fn has_figures(&self) -> bool {
        self.header.elapsed_min.is_some() || self.has_work()
    }

    /// True if any figure about the database's work was read.
    pub fn has_work(&self) -> bool {
        let Self { load_profile, time_model, cpu, .. } = self;
        *load_profile != LoadProfile::default()
            || *time_model != TimeModel::default()
            || *cpu != Cpu::default()
            || [&self.top_events, &self.foreground_events, &self.background_events]
                .iter()
                .any(|events| !events.is_empty())
            || self.statistics.iter().next().is_some()
            || !(self.wait_classes.is_empty() && self.histograms.is_empty())
            || !(self.tablespaces.is_empty() && self.files.is_empty())
            || !(self.io_functions.is_empty() && self.io_file_types.is_empty())
            || self.io_profile != IoProfile::default()
            || !(self.segments_by_reads.is_empty() && self.sql_by_reads.is_empty())
            || !self.interconnect_pings.is_empty()
    }

    /// Returns this report, then each of its instances as a report, with the file name and factors.
    pub fn with_instances(&self) -> impl Iterator<Item = Report> + '_ {
        let named = |instance: &Report| Report {
            file: self.file.clone(),
            format: self.format,
            factors: self.factors.clone(),
            ..instance.clone()
        };
        std::iter::once(self.clone()).chain(self.instances.iter().map(named))
    }

    pub fn factor(&self, name: &str) -> Option<&str> {
        self.factors.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }
}

/// Finds an event by its full name; a truncated name matches if only one event starts with it.
pub fn event<'e>(events: &'e [WaitEvent], name: &str) -> Option<&'e WaitEvent> {
    if let Some(found) = events.iter().find(|event| event.name == name) {
        return Some(found);
    }
    let mut fitting = events.iter().filter(|event| event.is_cut && name.starts_with(&event.name));
    let found = fitting.next()?;
    fitting.next().is_none().then_some(found)
}
