//! The pipe-separated columns of SLOB's awr_info, for scripts that read them. An empty field is
//! unknown; latencies are whole microseconds, never 0 for a time too short to be shown.

use petal_awr::columns::value;
use petal_awr::derived;
use petal_awr::figure::Figure;
use petal_awr::report::{Report, WaitEvent};
use petal_settings::printable::printable_line;

/// The first line; the columns' names.
pub const HEADING: &str = "FILE|SESSIONS|ELAPSED|DB CPU|DB Tm|EXECUTES|LIO|PREADS|READ_MBS|PWRITES|\
    WRITE_MBS|REDO_MBS|DFSR_LAT|DPR_LAT|DFPR_LAT|DFPW_LAT|LFPW_LAT|TOP WAIT|";

const MIB: f64 = 1_048_576.0;

pub fn render(reports: &[Report]) -> String {
    let mut lines = format!("{HEADING}\n");
    for report in reports {
        lines.push_str(&row(report).join("|"));
        lines.push_str("|\n");
    }
    lines
}

fn row(report: &Report) -> [String; 18] {
    let shown = |name: &str, factor: f64, decimals: usize| {
        value(report, name)
            .map(|value| format!("{:.decimals$}", value * factor))
            .unwrap_or_default()
    };
    let whole = |name| shown(name, 1.0, 0);
    [
        text(&report.file),
        text(report.factor("sessions").unwrap_or("")),
        shown("elapsed_min", 60.0, 0),
        shown("db_cpu_per_s", 1.0, 1),
        shown("db_time_per_s", 1.0, 1),
        whole("executes_per_s"),
        whole("logical_reads_per_s"),
        whole("read_requests_per_s"),
        shown("total_read_bytes_per_s", 1.0 / MIB, 1),
        whole("write_requests_per_s"),
        shown("total_write_bytes_per_s", 1.0 / MIB, 1),
        shown("redo_bytes_per_s", 1.0 / MIB, 1),
        latency(report, "read_us"),
        latency(report, "direct_read_us"),
        latency(report, "parallel_read_us"),
        latency(report, "write_us"),
        latency(report, "log_write_us"),
        text(&derived::top(report, 0).map(top).unwrap_or_default()),
    ]
}

/// Makes a text that breaks neither its column nor its line.
fn text(cell: &str) -> String {
    printable_line(cell).replace('|', "_")
}

/// Formats a latency; below a microsecond with decimals, so that it is not 0.
fn latency(report: &Report, name: &str) -> String {
    let shown = |us: f64| if us < 0.5 { format!("{us:.3}") } else { format!("{us:.0}") };
    value(report, name).map(shown).unwrap_or_default()
}

/// The row of the list as it is printed.
fn top(event: &WaitEvent) -> String {
    let cells = [
        &event.waits,
        &event.time_s,
        &event.reported_avg_us,
        &event.pct_db_time,
        &event.wait_class,
    ];
    let cells = cells.iter().filter_map(|cell| cell.as_ref().map(Figure::shown));
    [event.name.clone()].into_iter().chain(cells).collect::<Vec<_>>().join(" ")
}
