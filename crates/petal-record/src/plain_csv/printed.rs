//! Tables of known tools: SLOB's awr_info, and a line per report with its single-block reads. Their
//! names give no units; these tables do.

use super::column::CsvColumn;
use crate::observation::metric;

/// Megabytes in a mebibyte, the unit of awr_info.
const MEBIBYTE: f64 = 1.048_576;

type Known = (&'static str, fn() -> CsvColumn);

/// Columns per second, and per call if the name says so.
const AWR_INFO: [Known; 18] = [
    ("file", || CsvColumn::ReportFile),
    ("sessions", || CsvColumn::Factor("sessions".to_owned())),
    ("elapsed", || CsvColumn::Elapsed),
    ("db_cpu", || figure("db_cpu_s", 1.0)),
    ("db_tm", || figure("db_tm_s", 1.0)),
    ("executes", || figure("executes_s", 1.0)),
    ("lio", || figure(metric::LOGICAL_READS, 1.0)),
    ("preads", || figure(metric::READS, 1.0)),
    ("read_mbs", || figure(metric::READ_MB, MEBIBYTE)),
    ("pwrites", || figure(metric::WRITES, 1.0)),
    ("write_mbs", || figure(metric::WRITE_MB, MEBIBYTE)),
    ("redo_mbs", || figure(metric::REDO_MB, MEBIBYTE)),
    ("dfsr_lat", || CsvColumn::Latency(metric::READ_US.to_owned())),
    ("dpr_lat", || CsvColumn::Latency("direct_read_us".to_owned())),
    ("dfpr_lat", || CsvColumn::Latency("parallel_read_us".to_owned())),
    ("dfpw_lat", || CsvColumn::Latency(metric::WRITE_US.to_owned())),
    ("lfpw_lat", || CsvColumn::Latency(metric::LOG_US.to_owned())),
    ("top_wait", || CsvColumn::Words("top_wait")),
];

/// Latency is in microseconds; IOPS are the database's read requests per second, of which the waits
/// of one event are a part.
const EVENTS: [Known; 6] = [
    ("filename", || CsvColumn::ReportFile),
    ("event", || CsvColumn::Words("event")),
    ("waits", || CsvColumn::Words("waits")),
    ("time_s", || CsvColumn::Words("time_s")),
    ("latency", || CsvColumn::Latency(metric::READ_US.to_owned())),
    ("iops", || figure(metric::READS, 1.0)),
];

/// The columns of a table that is recognised by its whole header.
pub(super) fn columns(names: &[String]) -> Option<Vec<CsvColumn>> {
    let tables: [&[Known]; 2] = [&AWR_INFO, &EVENTS];
    let known = tables.into_iter().find(|known| names.iter().eq(known.iter().map(|it| it.0)))?;
    Some(known.iter().map(|(_, column)| column()).collect())
}

fn figure(name: &str, scale: f64) -> CsvColumn {
    CsvColumn::Figure { name: name.to_owned(), scale, endpoint: None }
}
