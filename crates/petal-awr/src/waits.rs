//! Seconds by wait class.

use super::cluster;
use super::page::{PageTable, ParsedReport, TableRow, cell};
use super::report::ReportWaitClass;
use super::topic::Topic;

/// Short headings of a cluster's table, with the classes they mean.
const HEADINGS: [(&str, &str); 11] = [
    ("userio", "User I/O"),
    ("sysio", "System I/O"),
    ("other", "Other"),
    ("applic", "Application"),
    ("commit", "Commit"),
    ("network", "Network"),
    ("concurcy", "Concurrency"),
    ("config", "Configuration"),
    ("cluster", "Cluster"),
    ("admin", "Administrative"),
    ("scheduler", "Scheduler"),
];

/// Reads the wait classes of foreground processes, or of all processes if a report has no others.
pub fn read(page: &ParsedReport) -> Vec<ReportWaitClass> {
    if let Some(table) = page.first(Topic::ClusterWaitClasses) {
        return cluster::total(table).map(|row| of_cluster(table, row)).unwrap_or_default();
    }
    let own = [Topic::ForegroundClasses, Topic::AllClasses];
    let own = own.into_iter().map(|topic| page.tables_of(topic).flat_map(of_table).collect());
    own.into_iter().find(|classes: &Vec<ReportWaitClass>| !classes.is_empty()).unwrap_or_default()
}

fn of_table(table: &PageTable) -> Vec<ReportWaitClass> {
    let name = table.column(&["waitclass"]);
    let time = table.column_where(|key| key.starts_with("totalwaittime"));
    let waits = table.column(&["waits"]);
    let share = table.column_where(|key| key.starts_with('%') && key.ends_with("dbtime"));
    let figure = |row, at| table.count_at(row, at);
    let classes = table.rows.iter().map(|row| ReportWaitClass {
        name: cell(row, name).to_owned(),
        waits: figure(row, waits),
        time_s: figure(row, time),
        pct_db_time: figure(row, share),
    });
    // The CPU row is not a wait.
    let is_wait = |class: &ReportWaitClass| {
        (class.time_s.is_some() || class.waits.is_some()) && class.name != "DB CPU"
    };
    classes.filter(is_wait).collect()
}

/// Reads a row of a cluster's table, in which the classes are columns.
pub fn of_cluster(table: &PageTable, row: TableRow<'_>) -> Vec<ReportWaitClass> {
    let of_heading = |(heading, name): &(&str, &str)| {
        let time_s = table.count(row, &[&format!("{heading}s"), heading])?;
        Some(ReportWaitClass {
            name: (*name).to_owned(),
            time_s: Some(time_s),
            ..ReportWaitClass::default()
        })
    };
    HEADINGS.iter().filter_map(of_heading).collect()
}
