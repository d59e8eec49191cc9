//! Sections that are printed, but of which nothing was read: an edit or a program moved their rows.

use super::page::ParsedReport;
use super::report::{LoadProfile, Memory, Report, TimeModel};
use super::top_reads::SQL_IDS;
use super::topic::Topic;

/// Notes each section that has rows and gave no figures, if no other note is about it.
pub fn note(page: &ParsedReport, report: &mut Report) {
    for (topic, title) in &page.printed {
        let is_known = report.notes.iter().any(|note| note.starts_with(&**title));
        if is_empty(page, *topic, title, report) && !is_known {
            let note = format!("{title}: is printed, but its rows could not be read");
            report.notes.push(note);
        }
    }
}

/// True if the report has nothing of a section.
fn is_empty(page: &ParsedReport, topic: Topic, title: &str, report: &Report) -> bool {
    match topic {
        Topic::LoadProfile | Topic::ClusterPerSecond => {
            report.load_profile == LoadProfile::default()
        }
        Topic::TopEvents => report.top_events.is_empty(),
        Topic::TopForegroundEvents | Topic::ForegroundEvents | Topic::AllEvents => {
            report.foreground_events.is_empty()
        }
        Topic::TopBackgroundEvents | Topic::BackgroundEvents => report.background_events.is_empty(),
        Topic::Histogram => !report.histograms.iter().any(|it| it.section == title),
        Topic::Statistics => report.statistics.iter().next().is_none(),
        Topic::TablespaceIo => report.tablespaces.is_empty(),
        Topic::FileIo => report.files.is_empty(),
        Topic::IoFunctions => report.io_functions.is_empty(),
        Topic::IoFileTypes => report.io_file_types.is_empty(),
        Topic::IoProfile => report.io_profile == Default::default(),
        Topic::SegmentsByReads => report.segments_by_reads.is_empty(),
        Topic::SqlByReads => {
            let mut tables = page.tables_of(topic);
            // Without an ID, nothing names a statement.
            report.sql_by_reads.is_empty() && tables.all(|table| table.column(&SQL_IDS).is_some())
        }
        Topic::OsStatistics | Topic::ClusterOs => report.cpu.busy_s.is_none(),
        Topic::HostCpu => report.cpu.idle_pct.is_none(),
        Topic::TimeModel | Topic::ClusterTimeModel => report.time_model == TimeModel::default(),
        Topic::ForegroundClasses | Topic::AllClasses | Topic::ClusterWaitClasses => {
            // A time may be unreadable by itself.
            let mut tables = page.tables_of(topic);
            report.wait_classes.is_empty()
                && tables.all(|table| table.column(&["waitclass"]).is_none())
        }
        Topic::CacheSizes | Topic::Memory | Topic::ClusterCaches => {
            report.memory == Memory::default()
        }
        Topic::Parameters => report.parameters.is_empty(),
        Topic::Database
        | Topic::Instance
        | Topic::Host
        | Topic::Container
        | Topic::Snapshots
        | Topic::Pings
        | Topic::Cluster
        | Topic::ClusterInstances => false,
    }
}
