//! The columns that a report is shown by: each with its unit, where it comes from, and how it is
//! taken out of a [`Report`]. The table, the CSV, `--explain`, observations and docs/awr.md are all
//! made of these.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::events;
use super::figure::{Figure, finer, number};
use super::number::Scalar;
use super::report::{Event, Kind, Load, Report, event};
use super::times;
use crate::record::observation::{Observation, metric};

pub struct Column {
    /// The unit comes last.
    pub name: &'static str,
    pub unit: &'static str,
    /// The section it is taken from, and how.
    pub source: &'static str,
    pub value: fn(&Report) -> Option<Figure>,
}

/// Single-block reads go by another name where the storage answers itself.
const SINGLE_BLOCK_READS: [&str; 5] = [
    "db file sequential read",
    "cell single block physical read",
    "cell single block physical read: flash cache",
    "cell single block physical read: RDMA",
    "cell single block physical read: xrmem cache",
];

const HEADER: &str = "report header";
const PROFILE: &str = "Load Profile, per second; of a cluster: System Statistics - Per Second, Sum";
const STATISTIC: &str =
    "Instance Activity Stats: per second, or total over elapsed where that has more digits";
const FOREGROUND: &str = "Foreground Wait Events (before 11g: Wait Events) or the top list: time \
over waits, or the report's own average where that has more digits";
const BACKGROUND: &str = "Background Wait Events, in the same way";

macro_rules! column {
    ($name:literal, $unit:literal, $source:expr, $value:expr) => {
        Column { name: $name, unit: $unit, source: $source, value: $value }
    };
}

/// All columns, in the order of the CSV.
pub const COLUMNS: &[Column] = &[
    column!("db", "name", HEADER, |r| r.header.db.clone()),
    column!("instance", "name", HEADER, |r| r.header.instance.clone()),
    column!("host", "name", HEADER, |r| r.header.host.clone()),
    column!("release", "version", HEADER, |r| r.header.release.clone()),
    column!("rac", "YES or NO", HEADER, |r| r.header.rac.clone()),
    column!("pdb", "name", HEADER, |r| r.header.pdb.clone()),
    column!("cpus", "count", "report header, else Host CPU or NUM_CPUS", |r| r.header.cpus.clone()),
    column!("memory_gb", "GiB", HEADER, |r| r.header.memory_gb.clone()),
    column!("begin_snap", "number", HEADER, |r| r.header.begin_snap.clone()),
    column!("end_snap", "number", HEADER, |r| r.header.end_snap.clone()),
    column!("begin_time", "as printed", HEADER, |r| r.header.begin_time.clone()),
    column!("end_time", "as printed", HEADER, |r| r.header.end_time.clone()),
    column!("elapsed_min", "minutes", HEADER, |r| r.header.elapsed_min.clone()),
    column!("db_time_min", "minutes", HEADER, |r| r.header.db_time_min.clone()),
    column!("db_time_per_s", "s/s", PROFILE, |r| second(&r.load_profile.db_time)),
    column!("db_cpu_per_s", "s/s", PROFILE, |r| second(&r.load_profile.db_cpu)),
    column!("redo_bytes_per_s", "bytes/s", PROFILE, |r| second(&r.load_profile.redo_bytes)),
    column!("logical_reads_per_s", "blocks/s", PROFILE, |r| second(&r.load_profile.logical_reads)),
    column!("physical_read_blocks_per_s", "blocks/s", PROFILE, |r| second(
        &r.load_profile.physical_reads
    )),
    column!("physical_write_blocks_per_s", "blocks/s", PROFILE, |r| second(
        &r.load_profile.physical_writes
    )),
    column!("user_calls_per_s", "1/s", PROFILE, |r| second(&r.load_profile.user_calls)),
    column!("executes_per_s", "1/s", PROFILE, |r| second(&r.load_profile.executes)),
    column!("transactions_per_s", "1/s", PROFILE, |r| second(&r.load_profile.transactions)),
    column!("read_requests_per_s", "1/s", STATISTIC, |r| rate(r, "physical read IO requests")),
    column!("write_requests_per_s", "1/s", STATISTIC, |r| rate(r, "physical write IO requests")),
    column!("piops", "1/s", "read and write requests together", piops),
    column!("read_bytes_per_s", "bytes/s", STATISTIC, |r| rate(r, "physical read total bytes")),
    column!("write_bytes_per_s", "bytes/s", STATISTIC, |r| rate(r, "physical write total bytes")),
    column!("read_event", "name", "the single-block read with the most time", read_event),
    column!("read_waits", "count", FOREGROUND, |r| single_block(r)?.waits.clone()),
    column!("read_us", "us", FOREGROUND, read_us),
    column!("direct_read_us", "us", FOREGROUND, |r| foreground(r, "direct path read")),
    column!("parallel_read_us", "us", FOREGROUND, |r| foreground(r, "db file parallel read")),
    column!("log_sync_us", "us", FOREGROUND, |r| foreground(r, "log file sync")),
    column!("write_us", "us", BACKGROUND, |r| background(r, "db file parallel write")),
    column!("log_write_us", "us", BACKGROUND, |r| background(r, "log file parallel write")),
    column!("user_commits", "count", STATISTIC, |r| total(r, "user commits")),
    column!("redo_synch_writes", "count", STATISTIC, |r| total(r, "redo synch writes")),
    column!(
        "cpu_idle_pct",
        "per cent",
        "Operating System Statistics: IDLE_TIME over BUSY_TIME and IDLE_TIME, or Host CPU: %Idle",
        |r| r.cpu.idle_pct.clone()
    ),
    column!(
        "cpu_iowait_pct",
        "per cent",
        "Operating System Statistics: IOWAIT_TIME, in the same way, or Host CPU: %WIO",
        |r| r.cpu.iowait_pct.clone()
    ),
    column!("buffer_cache_bytes", "bytes", "Cache Sizes", |r| r.memory.buffer_cache_bytes.clone()),
    column!("log_buffer_bytes", "bytes", "Cache Sizes", |r| r.memory.log_buffer_bytes.clone()),
    column!("block_bytes", "bytes", "Cache Sizes, else db_block_size", block_bytes),
    column!("top_event", "name", "the first of the top timed events", top_event),
    column!("top_event_time_s", "s", "the same", |r| r.top_events.first()?.time_s.clone()),
];

pub fn column(name: &str) -> Option<&'static Column> {
    COLUMNS.iter().find(|column| column.name == name)
}

/// A column's number.
pub fn value(report: &Report, name: &str) -> Option<f64> {
    (column(name)?.value)(report)?.number()
}

fn second(load: &Load) -> Option<Figure> {
    load.per_second.clone()
}

fn total(report: &Report, name: &str) -> Option<Figure> {
    report.statistic(name)?.total.clone()
}

/// Per second as printed, or the raw total over the time, whichever has more digits. Across a
/// restart there is no such rate.
fn rate(report: &Report, name: &str) -> Option<Figure> {
    let statistic = report.statistic(name)?;
    let computed = || {
        let total = statistic.total.as_ref().filter(|_| !report.spans_restart)?;
        let elapsed = report.header.elapsed_min.as_ref()?;
        let seconds = elapsed.number()? * 60.0;
        let rate = total.number()? / seconds;
        let step = 2.0 * rate * (total.uncertainty() + elapsed.uncertainty());
        Figure::computed(rate, step, format!("{}: {name}, total over elapsed", total.section))
    };
    finer(statistic.per_second.clone(), computed())
}

fn piops(report: &Report) -> Option<Figure> {
    let reads = rate(report, "physical read IO requests")?;
    let writes = rate(report, "physical write IO requests")?;
    let how = format!("{} + {}", reads.section, writes.section);
    Figure::computed(reads.number()? + writes.number()?, reads.step + writes.step, how)
}

fn lists(report: &Report) -> [&[Event]; 2] {
    // The top list of Statspack holds background processes too.
    let is_mixed = report.kind == Kind::Sp && !report.foreground_events.is_empty();
    let top: &[Event] = if is_mixed { &[] } else { &report.top_events };
    [&report.foreground_events, top]
}

fn foreground(report: &Report, name: &str) -> Option<Figure> {
    events::latency(&lists(report), name)
}

fn background(report: &Report, name: &str) -> Option<Figure> {
    let own = event(&report.background_events, name).is_some();
    let list = if own { &report.background_events } else { &report.top_events };
    events::latency(&[list], name)
}

/// The single-block read that most time went into.
fn single_block(report: &Report) -> Option<&Event> {
    let found = lists(report).into_iter().find_map(|list| {
        let known = SINGLE_BLOCK_READS.iter().filter_map(|name| event(list, name));
        known.max_by(|a, b| {
            let key = |event: &Event| {
                (number(&event.time_s).unwrap_or(0.0), number(&event.waits).unwrap_or(0.0))
            };
            key(a).partial_cmp(&key(b)).unwrap_or(std::cmp::Ordering::Equal)
        })
    });
    found
}

fn read_event(report: &Report) -> Option<Figure> {
    let event = single_block(report)?;
    let section: Arc<str> = event.waits.as_ref()?.section.clone();
    Figure::text(&event.name, &section)
}

fn read_us(report: &Report) -> Option<Figure> {
    events::latency(&lists(report), &single_block(report)?.name)
}

fn block_bytes(report: &Report) -> Option<Figure> {
    report.memory.block_bytes.clone().or_else(|| {
        let figure = super::host::parameter(&report.parameters, "db_block_size")?.clone();
        let bytes: i64 = figure.shown().parse().ok()?;
        Some(Figure { value: Scalar::Whole(bytes), step: 1.0, ..figure })
    })
}

fn top_event(report: &Report) -> Option<Figure> {
    let event = report.top_events.first()?;
    let section = &event.time_s.as_ref().or(event.waits.as_ref())?.section;
    Figure::text(&event.name, section)
}

/// The report as sweeps, charts and comparisons know one: its file, its factors, its figures.
pub fn observation(report: &Report) -> Observation {
    const METRICS: [(&str, &str, f64); 11] = [
        (metric::PIOPS, "piops", 1.0),
        (metric::READS, "read_requests_per_s", 1.0),
        (metric::WRITES, "write_requests_per_s", 1.0),
        (metric::READ_MB, "read_bytes_per_s", 1e-6),
        (metric::WRITE_MB, "write_bytes_per_s", 1e-6),
        (metric::REDO_MB, "redo_bytes_per_s", 1e-6),
        (metric::LOGICAL_READS, "logical_reads_per_s", 1.0),
        (metric::READ_US, "read_us", 1.0),
        (metric::WRITE_US, "write_us", 1.0),
        (metric::LOG_US, "log_write_us", 1.0),
        (metric::CPU_IDLE, "cpu_idle_pct", 1.0),
    ];
    let mut metrics: BTreeMap<String, f64> = METRICS
        .iter()
        .filter_map(|(metric, column, factor)| {
            Some(((*metric).to_owned(), value(report, column)? * factor))
        })
        .collect();
    let both = metrics.get(metric::READ_MB).zip(metrics.get(metric::WRITE_MB));
    if let Some(mb) = both.map(|(read, write)| read + write) {
        metrics.insert(metric::MB.to_owned(), mb);
    }
    if let Some(commits) = rate(report, "user commits").and_then(|figure| figure.number()) {
        metrics.insert(metric::COMMITS.to_owned(), commits);
    }
    let begin = report.header.begin_time.as_ref().and_then(|time| times::parse(&time.shown()));
    Observation {
        source: report.file.clone(),
        factors: report.factors.clone(),
        // The report's own clock: it does not say in which zone.
        started_at: begin.map(|time| format!("{}T{}", time.date(), time.time())),
        elapsed_s: number(&report.header.elapsed_min).map(|minutes| minutes * 60.0),
        metrics,
        ..Observation::default()
    }
}
