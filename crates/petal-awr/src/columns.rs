//! Columns of a report's output: each has a unit, a source and a function that reads its value from
//! a [`Report`]. The table, the CSV, `--explain`, observations and docs/awr.md all use this list.

use super::derived::*;
use super::figure::Figure;
use super::report::Report;
use super::sizing::*;

pub struct ReportColumn {
    /// Name, with the unit last.
    pub name: &'static str,
    pub unit: &'static str,
    /// Section that the value is taken from, and how.
    pub source: &'static str,
    pub value: fn(&Report) -> Option<Figure>,
    /// Reason why the value is unknown, if petal knows one.
    pub reason: fn(&Report) -> Option<String>,
}

const HEADER: &str = "report header";
const CLOCK: &str = "the same as ISO 8601, by the report's own clock; of several instances the \
first begin and the last end";
const PROFILE: &str = "Load Profile, per second; of a cluster: System Statistics - Per Second, Sum";
const CPU: &str = "Load Profile, per second; else DB CPU of Time Model over elapsed";
const AAS: &str = "DB time over elapsed: of the header, the Load Profile or Time Model, whichever \
has more digits";
const PROCESSORS: &str =
    "report header, else Host CPU or NUM_CPUS; of a cluster the sum of its hosts";
const CACHES: &str = "Cache Sizes, begin; of a cluster the sum of its instances";
const CLASS: &str =
    "Foreground Wait Class(es), else wait classes of all processes: wait_processes says which";
const TOP: &str = "top timed events, in their order, without idle ones";
const STATISTIC: &str =
    "Instance Activity Stats: per second, or total over elapsed if that has more digits";
const IO: &str = "Instance Activity Stats: per second, or total over elapsed if that has more \
digits; without them Load Profile; without control files, redo and backups";
const FOREGROUND: &str = "Foreground Wait Events (before 11g: Wait Events), or the top list if it \
is of the same processes: time over waits, or the report's own average where that has more digits";
const COUNT: &str = "the same event";
const BACKGROUND: &str = "Background Wait Events, in the same way";

const EXADATA: &str =
    "waits for cells, such as cell single block physical read; without them unknown";
const SHARE: &str = "Host CPU; of an instance of a cluster OS Statistics By Instance";
const TOTAL: &str = "Instance Activity Stats: physical read and write total, or IO Profile, whichever has more digits; with redo, control files and backups";
const IO_PROFILE: &str = "IO Profile, read and write together";
const REDO_WRITES: &str =
    "Instance Activity Stats: redo writes, or IO Profile, whichever has more digits";
const FLASH: &str = "IO Profile: Optimized, which a flash cache served";
const SWITCHES: &str =
    "Instance Activity Stats - Thread Activity: log switches (derived) over elapsed";
const PERCENTILE: &str =
    "Wait Event Histogram: the tightest upper bound, of all tables of the event, that reaches it";
const RANGES: &str = "Wait Event Histogram: each range with its share of the waits";
const BACKGROUND_COUNT: &str = "Background Wait Events, or the top list";
const CLASS_US: &str = "the same class: time over waits";
const PING: &str = "Interconnect Ping Latency Stats (milliseconds up to 12.1, later unknown) or Ping Statistics: \
the slowest round trip to another instance";
const TOP_SQL: &str = "SQL ordered by Reads: the first";
const TOP_SEGMENT: &str = "Segments by Physical Reads: the first";
const RECEIVE: &str = "Instance Activity Stats: time over blocks received";

macro_rules! reason {
    () => {
        |_| None
    };
    ($reason:expr) => {
        $reason
    };
}

macro_rules! columns {
    ($($name:literal, $unit:literal, $source:expr => $value:expr $(, $reason:expr)?;)+) => {
        &[$(ReportColumn {
            name: $name,
            unit: $unit,
            source: $source,
            value: $value,
            reason: reason!($($reason)?),
        }),+]
    };
}

/// All columns, in the order of the CSV: name, unit, source, value.
pub const COLUMNS: &[ReportColumn] = columns! {
    "db", "name", HEADER => |r| r.header.db.clone();
    "db_id", "number", HEADER => |r| r.header.db_id.clone();
    "instance", "name", HEADER => |r| r.header.instance.clone();
    "instance_number", "number", HEADER => |r| r.header.instance_number.clone();
    "host", "name", HEADER => |r| r.header.host.clone();
    "release", "version", HEADER => |r| r.header.release.clone();
    "rac", "YES or NO", HEADER => |r| r.header.rac.clone();
    "pdb", "name", HEADER => |r| r.header.pdb.clone();
    "cpus", "count", PROCESSORS => |r| r.header.cpus.clone();
    "cores", "count", PROCESSORS => |r| r.header.cores.clone();
    "memory_gb", "GiB", HEADER => |r| r.header.memory_gb.clone();
    "begin_snap", "number", HEADER => |r| r.header.begin_snap.clone();
    "end_snap", "number", HEADER => |r| r.header.end_snap.clone();
    "begin_time", "as printed", HEADER => |r| r.header.begin_time.clone();
    "end_time", "as printed", HEADER => |r| r.header.end_time.clone();
    "begin_iso", "date and time", CLOCK => begin_iso;
    "end_iso", "date and time", CLOCK => end_iso;
    "elapsed_min", "minutes", HEADER => |r| r.header.elapsed_min.clone();
    "db_time_min", "minutes", HEADER => |r| r.header.db_time_min.clone();
    "aas", "sessions", AAS => average_active_sessions;
    "db_time_per_s", "s/s", PROFILE => |r| second(&r.load_profile.db_time);
    "db_cpu_per_s", "s/s", CPU => db_cpu;
    "redo_bytes_per_s", "bytes/s", PROFILE => |r| second(&r.load_profile.redo_bytes);
    "logical_reads_per_s", "blocks/s", PROFILE => |r| second(&r.load_profile.logical_reads);
    "block_changes_per_s", "1/s", PROFILE => |r| second(&r.load_profile.block_changes);
    "physical_read_blocks_per_s", "blocks/s", PROFILE => |r| second(&r.load_profile.physical_reads);
    "physical_write_blocks_per_s", "blocks/s", PROFILE
        => |r| second(&r.load_profile.physical_writes);
    "user_calls_per_s", "1/s", PROFILE => |r| second(&r.load_profile.user_calls);
    "executes_per_s", "1/s", PROFILE => |r| second(&r.load_profile.executes);
    "parses_per_s", "1/s", PROFILE => |r| second(&r.load_profile.parses);
    "hard_parses_per_s", "1/s", PROFILE => |r| second(&r.load_profile.hard_parses);
    "transactions_per_s", "1/s", PROFILE => |r| second(&r.load_profile.transactions);
    "read_requests_per_s", "1/s", IO => read_requests;
    "write_requests_per_s", "1/s", IO => write_requests;
    "piops", "1/s", "read and write requests together" => piops;
    "read_bytes_per_s", "bytes/s", IO => read_bytes;
    "write_bytes_per_s", "bytes/s", IO => write_bytes;
    "read_event", "name", "the single-block read with the most time" => read_event;
    "read_processes", "foreground or all", "whose reads the next two are of" => read_processes;
    "read_waits", "count", FOREGROUND => |r| single_block(r)?.waits.clone();
    "read_us", "us", FOREGROUND => read_us;
    "scattered_read_waits", "count", COUNT => |r| waits(r, "db file scattered read");
    "scattered_read_us", "us", FOREGROUND => |r| foreground(r, "db file scattered read");
    "direct_read_waits", "count", COUNT => |r| waits(r, "direct path read");
    "direct_read_us", "us", FOREGROUND => |r| foreground(r, "direct path read");
    "parallel_read_us", "us", FOREGROUND => |r| foreground(r, "db file parallel read");
    "log_sync_us", "us", FOREGROUND => |r| foreground(r, "log file sync");
    "write_us", "us", BACKGROUND => |r| background(r, "db file parallel write");
    "log_write_us", "us", BACKGROUND => |r| background(r, "log file parallel write");
    "user_commits", "count", STATISTIC => |r| total(r, "user commits");
    "redo_synch_writes", "count", STATISTIC => |r| total(r, "redo synch writes");
    "cpu_idle_pct", "percent", "Operating System Statistics: IDLE_TIME over BUSY_TIME and IDLE_TIME, or Host CPU: %Idle"
        => |r| r.cpu.idle_pct.clone();
    "cpu_iowait_pct", "percent", "Operating System Statistics: IOWAIT_TIME, in the same way, or Host CPU: %WIO"
        => |r| r.cpu.iowait_pct.clone();
    "buffer_cache_bytes", "bytes", CACHES => |r| r.memory.buffer_cache_bytes.clone();
    "log_buffer_bytes", "bytes", CACHES => |r| r.memory.log_buffer_bytes.clone();
    "block_bytes", "bytes", "Cache Sizes, else db_block_size" => block_bytes;
    "wait_processes", "foreground or all", "whose time by wait class the next columns are" => wait_processes;
    "wait_user_io_s", "s", CLASS => |r| class(r, "User I/O");
    "wait_system_io_s", "s", CLASS => |r| class(r, "System I/O");
    "wait_commit_s", "s", CLASS => |r| class(r, "Commit");
    "wait_concurrency_s", "s", CLASS => |r| class(r, "Concurrency");
    "wait_configuration_s", "s", CLASS => |r| class(r, "Configuration");
    "wait_cluster_s", "s", CLASS => |r| class(r, "Cluster");
    "wait_application_s", "s", CLASS => |r| class(r, "Application");
    "wait_network_s", "s", CLASS => |r| class(r, "Network");
    "wait_administrative_s", "s", CLASS => |r| class(r, "Administrative");
    "wait_scheduler_s", "s", CLASS => |r| class(r, "Scheduler");
    "wait_other_s", "s", CLASS => |r| class(r, "Other");
    "top_event", "name", TOP => |r| top_name(r, 0);
    "top_event_time_s", "s", TOP => |r| top(r, 0)?.time_s.clone();
    "top_event_us", "us", TOP => |r| top(r, 0)?.latency_us.clone();
    "top_event_2", "name", TOP => |r| top_name(r, 1);
    "top_event_2_time_s", "s", TOP => |r| top(r, 1)?.time_s.clone();
    "top_event_2_us", "us", TOP => |r| top(r, 1)?.latency_us.clone();
    "top_event_3", "name", TOP => |r| top_name(r, 2);
    "top_event_3_time_s", "s", TOP => |r| top(r, 2)?.time_s.clone();
    "top_event_3_us", "us", TOP => |r| top(r, 2)?.latency_us.clone();
    "top_event_4", "name", TOP => |r| top_name(r, 3);
    "top_event_4_time_s", "s", TOP => |r| top(r, 3)?.time_s.clone();
    "top_event_4_us", "us", TOP => |r| top(r, 3)?.latency_us.clone();
    "top_event_5", "name", TOP => |r| top_name(r, 4);
    "top_event_5_time_s", "s", TOP => |r| top(r, 4)?.time_s.clone();
    "top_event_5_us", "us", TOP => |r| top(r, 4)?.latency_us.clone();
    "platform", "name", HEADER => |r| r.header.platform.clone();
    "db_role", "name", HEADER => |r| r.header.db_role.clone();
    "exadata", "YES", EXADATA => exadata;
    "cpu_user_pct", "percent", SHARE => |r| r.cpu.user_pct.clone();
    "cpu_system_pct", "percent", SHARE => |r| r.cpu.system_pct.clone();
    "total_requests_per_s", "1/s", TOTAL => total_requests;
    "total_read_requests_per_s", "1/s", TOTAL => total_read_requests;
    "total_write_requests_per_s", "1/s", TOTAL => total_write_requests;
    "total_bytes_per_s", "bytes/s", TOTAL => total_bytes;
    "total_read_bytes_per_s", "bytes/s", TOTAL => total_read_bytes;
    "total_write_bytes_per_s", "bytes/s", TOTAL => total_write_bytes;
    "database_requests_per_s", "1/s", IO_PROFILE => |r| r.io_profile.database_requests.both.clone();
    "database_bytes_per_s", "bytes/s", IO_PROFILE => |r| mib(&r.io_profile.database_mb.both);
    "redo_writes_per_s", "1/s", REDO_WRITES => redo_writes;
    "redo_io_bytes_per_s", "bytes/s", IO_PROFILE => |r| mib(&r.io_profile.redo_mb.both);
    "flash_cache_requests_per_s", "1/s", FLASH => |r| r.io_profile.optimized_requests.both.clone();
    "flash_cache_bytes_per_s", "bytes/s", FLASH => |r| mib(&r.io_profile.optimized_mb.both);
    "log_switches_per_h", "1/h", SWITCHES => log_switches;
    "read_p50_us", "us", PERCENTILE
        => |r| read_percentile(r, 50.0).ok(), |r| read_percentile(r, 50.0).err();
    "read_p95_us", "us", PERCENTILE
        => |r| read_percentile(r, 95.0).ok(), |r| read_percentile(r, 95.0).err();
    "read_p99_us", "us", PERCENTILE
        => |r| read_percentile(r, 99.0).ok(), |r| read_percentile(r, 99.0).err();
    "read_histogram", "range:percent", RANGES => read_ranges;
    "log_write_p50_us", "us", PERCENTILE
        => |r| log_percentile(r, 50.0).ok(), |r| log_percentile(r, 50.0).err();
    "log_write_p95_us", "us", PERCENTILE
        => |r| log_percentile(r, 95.0).ok(), |r| log_percentile(r, 95.0).err();
    "log_write_p99_us", "us", PERCENTILE
        => |r| log_percentile(r, 99.0).ok(), |r| log_percentile(r, 99.0).err();
    "log_write_histogram", "range:percent", RANGES => log_ranges;
    "log_write_waits", "count", BACKGROUND_COUNT => log_write_waits;
    "direct_write_waits", "count", COUNT => |r| waits(r, "direct path write");
    "direct_write_us", "us", FOREGROUND => |r| foreground(r, "direct path write");
    "direct_read_temp_waits", "count", COUNT => |r| waits(r, "direct path read temp");
    "direct_read_temp_us", "us", FOREGROUND => |r| foreground(r, "direct path read temp");
    "direct_write_temp_waits", "count", COUNT => |r| waits(r, "direct path write temp");
    "direct_write_temp_us", "us", FOREGROUND => |r| foreground(r, "direct path write temp");
    "wait_user_io_waits", "count", CLASS => |r| class_waits(r, "User I/O");
    "wait_user_io_us", "us", CLASS_US => |r| class_us(r, "User I/O");
    "wait_system_io_waits", "count", CLASS => |r| class_waits(r, "System I/O");
    "wait_system_io_us", "us", CLASS_US => |r| class_us(r, "System I/O");
    "wait_commit_waits", "count", CLASS => |r| class_waits(r, "Commit");
    "wait_commit_us", "us", CLASS_US => |r| class_us(r, "Commit");
    "wait_concurrency_waits", "count", CLASS => |r| class_waits(r, "Concurrency");
    "wait_concurrency_us", "us", CLASS_US => |r| class_us(r, "Concurrency");
    "wait_configuration_waits", "count", CLASS => |r| class_waits(r, "Configuration");
    "wait_configuration_us", "us", CLASS_US => |r| class_us(r, "Configuration");
    "wait_cluster_waits", "count", CLASS => |r| class_waits(r, "Cluster");
    "wait_cluster_us", "us", CLASS_US => |r| class_us(r, "Cluster");
    "wait_application_waits", "count", CLASS => |r| class_waits(r, "Application");
    "wait_application_us", "us", CLASS_US => |r| class_us(r, "Application");
    "wait_network_waits", "count", CLASS => |r| class_waits(r, "Network");
    "wait_network_us", "us", CLASS_US => |r| class_us(r, "Network");
    "wait_administrative_waits", "count", CLASS => |r| class_waits(r, "Administrative");
    "wait_administrative_us", "us", CLASS_US => |r| class_us(r, "Administrative");
    "wait_scheduler_waits", "count", CLASS => |r| class_waits(r, "Scheduler");
    "wait_scheduler_us", "us", CLASS_US => |r| class_us(r, "Scheduler");
    "wait_other_waits", "count", CLASS => |r| class_waits(r, "Other");
    "wait_other_us", "us", CLASS_US => |r| class_us(r, "Other");
    "top_event_waits", "count", TOP => |r| top(r, 0)?.waits.clone();
    "top_event_class", "name", TOP => |r| top(r, 0)?.wait_class.clone();
    "top_event_pct_db_time", "percent", TOP => |r| top(r, 0)?.pct_db_time.clone();
    "top_event_2_waits", "count", TOP => |r| top(r, 1)?.waits.clone();
    "top_event_2_class", "name", TOP => |r| top(r, 1)?.wait_class.clone();
    "top_event_2_pct_db_time", "percent", TOP => |r| top(r, 1)?.pct_db_time.clone();
    "top_event_3_waits", "count", TOP => |r| top(r, 2)?.waits.clone();
    "top_event_3_class", "name", TOP => |r| top(r, 2)?.wait_class.clone();
    "top_event_3_pct_db_time", "percent", TOP => |r| top(r, 2)?.pct_db_time.clone();
    "top_event_4_waits", "count", TOP => |r| top(r, 3)?.waits.clone();
    "top_event_4_class", "name", TOP => |r| top(r, 3)?.wait_class.clone();
    "top_event_4_pct_db_time", "percent", TOP => |r| top(r, 3)?.pct_db_time.clone();
    "top_event_5_waits", "count", TOP => |r| top(r, 4)?.waits.clone();
    "top_event_5_class", "name", TOP => |r| top(r, 4)?.wait_class.clone();
    "top_event_5_pct_db_time", "percent", TOP => |r| top(r, 4)?.pct_db_time.clone();
    "gc_blocks_lost", "count", STATISTIC => |r| total(r, "gc blocks lost");
    "gc_cr_receive_us", "us", RECEIVE => |r| receive_us(r, "gc cr block receive time", "gc cr blocks received");
    "gc_current_receive_us", "us", RECEIVE => |r| receive_us(r, "gc current block receive time", "gc current blocks received");
    "ping_500b_us", "us", PING => |r| slowest_ping(r, |ping| &ping.latency_500b_us);
    "ping_8k_us", "us", PING => |r| slowest_ping(r, |ping| &ping.latency_8k_us);
    "top_sql_by_reads", "name", TOP_SQL => |r| Some(top_sql(r)?.sql_id.clone());
    "top_sql_read_blocks", "blocks", TOP_SQL => |r| top_sql(r)?.physical_reads.clone();
    "top_sql_read_pct", "percent", TOP_SQL => |r| top_sql(r)?.pct_total.clone();
    "top_segment_by_reads", "name", TOP_SEGMENT => top_segment_name;
    "top_segment_read_blocks", "blocks", TOP_SEGMENT => |r| top_segment(r)?.physical_reads.clone();
    "top_segment_read_pct", "percent", TOP_SEGMENT => |r| top_segment(r)?.pct_total.clone();
};

pub fn column(name: &str) -> Option<&'static ReportColumn> {
    COLUMNS.iter().find(|column| column.name == name)
}

/// Returns a column's number.
pub fn value(report: &Report, name: &str) -> Option<f64> {
    (column(name)?.value)(report)?.number()
}
