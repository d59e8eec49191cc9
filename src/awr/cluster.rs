//! The instances of a report over a cluster: the rows of its tables by their number, what stands
//! for all of them, and each instance as a report of its own.

use super::events::Events;
use super::figure::Figure;
use super::host;
use super::load;
use super::number as printed;
use super::page::{Page, Row, Table, cell};
use super::report::{Header, Report, ReportKind};
use super::topic::Topic;
use super::waits;

/// The cluster's row of a table: `Sum`, or the only one of a report over a single instance, which
/// has no `Sum`.
pub fn total(table: &Table) -> Option<Row<'_>> {
    let at = number_column(table);
    let sum = table.rows.iter().find(|row| cell(*row, at) == "Sum");
    sum.or_else(|| {
        let [only] = instance_rows(table)[..] else { return None };
        Some(only)
    })
}

/// The row of one instance.
fn row_of<'t>(table: &'t Table, instance: &str) -> Option<Row<'t>> {
    let at = number_column(table);
    table.rows.iter().find(|row| cell(*row, at) == instance)
}

fn number_column(table: &Table) -> Option<usize> {
    table.column(&["i"]).or(Some(0))
}

/// True of the number of an instance, false of `Sum`, `Avg`, `*` and blanks.
pub fn is_instance(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// The rows of single instances.
pub fn instance_rows(table: &Table) -> Vec<Row<'_>> {
    let at = number_column(table);
    table.rows.iter().filter(|row| is_instance(cell(*row, at))).collect()
}

/// The rows of the instances in the report, as it lists them.
pub fn listed(page: &Page) -> Option<(&Table, Vec<Row<'_>>)> {
    let table = page.first(Topic::ClusterInstances)?;
    Some((table, instance_rows(table)))
}

/// Each instance as a report; none where the report is of a single one, and says all of it.
pub fn instances(page: &Page, cluster: &Header, events: &Events) -> Vec<Report> {
    let Some((table, rows)) = listed(page) else { return Vec::new() };
    if rows.len() < 2 {
        return Vec::new();
    }
    rows.into_iter().map(|row| instance(page, table, row, cluster, events)).collect()
}

fn instance(page: &Page, table: &Table, row: Row<'_>, cluster: &Header, events: &Events) -> Report {
    let name = cell(row, number_column(table));
    let of = |topic| page.first(topic).and_then(|table| Some((table, row_of(table, name)?)));
    let mut header = header(table, row, cluster);
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

fn header(table: &Table, row: Row<'_>, cluster: &Header) -> Header {
    let text = |keys: &[&str]| table.text(row, keys);
    let count = |keys: &[&str]| table.count(row, keys);
    Header {
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
        db: cluster.db.clone(),
        db_id: cluster.db_id.clone(),
        rac: cluster.rac.clone(),
        cdb: cluster.cdb.clone(),
        begin_snap: cluster.begin_snap.clone(),
        end_snap: cluster.end_snap.clone(),
        ..Header::default()
    }
}

/// The sum of a column over some rows, if each of them has it.
pub fn sum(
    table: &Table,
    rows: &[Row<'_>],
    column: Option<usize>,
    parse: impl Fn(&str) -> Option<printed::Printed>,
) -> Option<Figure> {
    let read = |row: &Row<'_>| Figure::read(cell(*row, column), &table.title, &parse);
    let figures: Vec<Figure> = rows.iter().map(read).collect::<Option<_>>()?;
    match figures.as_slice() {
        [one] => Some(one.clone()),
        all => {
            let total = all.iter().filter_map(Figure::number).sum();
            let step = all.iter().map(|figure| figure.step).sum();
            Figure::computed(total, step, format!("{}: sum of the instances", table.title))
        }
    }
}
