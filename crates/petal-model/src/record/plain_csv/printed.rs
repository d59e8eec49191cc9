//! Tables that tools of the field print: SLOB's awr_info, and a line per report for its single-block
//! reads. Their names give no units; these do.

use super::column::CsvColumn;
use crate::record::observation::metric;

/// Bytes of a mebibyte, which awr_info counts in, by those of a megabyte.
const MEBIBYTE: f64 = 1.048_576;

/// The columns of a table that is known by its whole header.
pub(super) fn columns(names: &[String]) -> Option<Vec<CsvColumn>> {
    let is = |known: &[&str]| names.iter().eq(known);
    if is(&AWR_INFO) {
        Some(AWR_INFO.iter().map(|name| of_awr_info(name)).collect())
    } else if is(&EVENTS) {
        Some(EVENTS.iter().map(|name| of_events(name)).collect())
    } else {
        None
    }
}

const AWR_INFO: [&str; 18] = [
    "file",
    "sessions",
    "elapsed",
    "db_cpu",
    "db_tm",
    "executes",
    "lio",
    "preads",
    "read_mbs",
    "pwrites",
    "write_mbs",
    "redo_mbs",
    "dfsr_lat",
    "dpr_lat",
    "dfpr_lat",
    "dfpw_lat",
    "lfpw_lat",
    "top_wait",
];

const EVENTS: [&str; 6] = ["filename", "event", "waits", "time_s", "latency", "iops"];

fn of_awr_info(name: &str) -> CsvColumn {
    match name {
        "file" => CsvColumn::ReportFile,
        "sessions" => CsvColumn::Factor(name.to_owned()),
        "elapsed" => CsvColumn::Elapsed,
        "lio" => figure(metric::LOGICAL_READS, 1.0),
        "preads" => figure(metric::READS, 1.0),
        "pwrites" => figure(metric::WRITES, 1.0),
        "read_mbs" => figure(metric::READ_MB, MEBIBYTE),
        "write_mbs" => figure(metric::WRITE_MB, MEBIBYTE),
        "redo_mbs" => figure(metric::REDO_MB, MEBIBYTE),
        "dfsr_lat" => CsvColumn::Latency(metric::READ_US.to_owned()),
        "dpr_lat" => CsvColumn::Latency("direct_read_us".to_owned()),
        "dfpr_lat" => CsvColumn::Latency("parallel_read_us".to_owned()),
        "dfpw_lat" => CsvColumn::Latency(metric::WRITE_US.to_owned()),
        "lfpw_lat" => CsvColumn::Latency(metric::LOG_US.to_owned()),
        "top_wait" => CsvColumn::Words("top_wait"),
        // Seconds of a second, and calls of one.
        other => figure(&format!("{other}_s"), 1.0),
    }
}

/// Latency is in microseconds, IOPS are the database's read requests per second. The waits of one
/// event are a part of these.
fn of_events(name: &'static str) -> CsvColumn {
    match name {
        "filename" => CsvColumn::ReportFile,
        "latency" => CsvColumn::Latency(metric::READ_US.to_owned()),
        "iops" => figure(metric::READS, 1.0),
        _ => CsvColumn::Words(name),
    }
}

fn figure(name: &str, scale: f64) -> CsvColumn {
    CsvColumn::Figure { name: name.to_owned(), scale, endpoint: None }
}
