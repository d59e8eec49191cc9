//! Instances of a cluster's report, each as a separate report.

use super::events::Events;
use super::page::{PageTable, ParsedReport, TableRow, cell};
use super::report::{Report, ReportHeader, ReportKind};
use super::topic::Topic;
use super::{cluster, host, load, waits};

/// Returns each instance as a report; empty if the report covers a single instance.
pub fn instances(page: &ParsedReport, whole: &ReportHeader, events: &Events) -> Vec<Report> {
    let Some((table, rows)) = cluster::listed(page) else { return Vec::new() };
    if rows.len() < 2 {
        return Vec::new();
    }
    rows.into_iter().map(|row| instance(page, table, row, whole, events)).collect()
}

fn instance(
    page: &ParsedReport,
    table: &PageTable,
    row: TableRow<'_>,
    whole: &ReportHeader,
    events: &Events,
) -> Report {
    let name = cell(row, cluster::number_column(table));
    let of =
        |topic| page.first(topic).and_then(|table| Some((table, cluster::row_of(table, name)?)));
    let mut header = header(table, row, whole);
    let cpu = of(Topic::ClusterOs).map(|(table, row)| {
        host::of_instance(table, row, &mut header);
        host::cluster_cpu(table, &[row])
    });
    let profile = of(Topic::ClusterPerSecond).map(|(table, row)| load::of_row(table, row));
    let mut profile = profile.unwrap_or_default();
    if let Some((table, row)) = of(Topic::ClusterTimeModel) {
        profile.db_cpu.per_second = load::cpu_per_second(table, row, &header.elapsed_min);
    }
    let caches = of(Topic::ClusterCaches).map(|(table, row)| host::caches(table, &[row]));
    let classes = of(Topic::ClusterWaitClasses);
    let top = events.of_instances.iter().filter(|event| event.instance.as_deref() == Some(name));
    Report {
        kind: ReportKind::AwrgInstance,
        header,
        cpu: cpu.unwrap_or_default(),
        load_profile: profile,
        top_events: top.cloned().collect(),
        wait_classes: classes.map(|(table, row)| waits::of_cluster(table, row)).unwrap_or_default(),
        memory: caches.unwrap_or_default(),
        ..Report::default()
    }
}

fn header(table: &PageTable, row: TableRow<'_>, whole: &ReportHeader) -> ReportHeader {
    let text = |keys: &[&str]| table.text(row, keys);
    let count = |keys: &[&str]| table.count(row, keys);
    ReportHeader {
        instance: text(&["instance"]),
        instance_number: count(&["i"]),
        host: text(&["host"]),
        release: text(&["release"]),
        platform: text(&["platform"]),
        startup_time: text(&["startup", "startuptime"]),
        begin_time: text(&["beginsnaptime"]),
        end_time: text(&["endsnaptime"]),
        elapsed_min: count(&["elapsedtimemin"]),
        db_time_min: count(&["dbtimemin"]),
        db: whole.db.clone(),
        db_id: whole.db_id.clone(),
        rac: whole.rac.clone(),
        cdb: whole.cdb.clone(),
        begin_snap: whole.begin_snap.clone(),
        end_snap: whole.end_snap.clone(),
        ..ReportHeader::default()
    }
}
