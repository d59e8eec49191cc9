//! `Filename, Event, Waits, Time(s), Latency, IOPS`: a row per report for its single-block reads,
//! as people print them with their petals. Latency is in microseconds, IOPS are the database's read
//! requests per second.

use petal_awr::columns::{column, value};
use petal_awr::figure::{Figure, number};
use petal_awr::report::{Report, WaitEvent, event};
use petal_report::numbers::{UNKNOWN, decimal, micros, or_dash, whole};
use petal_report::table::Table;

pub fn render(reports: &[Report]) -> String {
    let rows = reports.iter().map(|report| {
        let name = column("read_event").and_then(|column| (column.value)(report));
        let name = name.as_ref().map(Figure::shown);
        let event = name.as_deref().and_then(|name| read(report, name));
        let time = event.and_then(|event| event.time_s.as_ref()).map(Figure::shown);
        [
            report.file.clone(),
            name.clone().unwrap_or_else(|| UNKNOWN.to_owned()),
            or_dash(event.and_then(|event| number(&event.waits)), |waits| whole(waits as u64)),
            time.unwrap_or_else(|| UNKNOWN.to_owned()),
            or_dash(value(report, "read_us"), micros),
            or_dash(value(report, "read_requests_per_s"), |rate| decimal(rate, 1)),
        ]
    });
    let heading = "Filename | Event | Waits: | Time(s): | Latency: | IOPS:";
    Table::headed(heading).with_rows(rows).render()
}

fn read<'r>(report: &'r Report, name: &str) -> Option<&'r WaitEvent> {
    event(&report.foreground_events, name).or_else(|| event(&report.top_events, name))
}
