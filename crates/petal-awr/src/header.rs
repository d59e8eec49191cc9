//! Database, instance, host and snapshots of a report.

use std::sync::Arc;

use super::cluster;
use super::figure::{Figure, put};
use super::number;
use super::page::{PageTable, ParsedReport, TableRow, cell};
use super::report::{ReportHeader, ReportKind};
use super::topic::Topic;

pub fn read(page: &ParsedReport, kind: ReportKind) -> ReportHeader {
    let mut header = ReportHeader::default();
    page.tables_of(Topic::Database).for_each(|table| database(table, &mut header));
    page.tables_of(Topic::Instance).for_each(|table| instance(table, &mut header));
    page.tables_of(Topic::Host).for_each(|table| host(table, &mut header));
    if let Some(table) = page.first(Topic::Container) {
        header.pdb = table.rows.iter().find_map(|row| table.text(row, &["containername"]));
    }
    for table in page.tables_of(Topic::Snapshots) {
        for line in table.lines() {
            snapshot(&line, &table.title, &mut header);
            host_line(&line, &table.title, &mut header);
        }
    }
    if kind == ReportKind::Awrg {
        cluster(page, &mut header);
    }
    // Statspack leaves the name out of its head.
    let named =
        page.running_db.as_ref().and_then(|db| Figure::text(db, &"titles of sections".into()));
    put(&mut header.db, named);
    header
}

fn database(table: &PageTable, header: &mut ReportHeader) {
    let id = table.column(&["dbid"]);
    let is_id = |row: TableRow<'_>| number::count(cell(row, id)).is_some();
    let Some(at) = table.rows.iter().position(is_id) else { return };
    let Some(row) = table.rows.get(at) else { return };
    put(&mut header.db, table.text(row, &["dbname", "database"]));
    put(&mut header.instance, table.text(row, &["instance"]));
    put(&mut header.instance_number, table.count(row, &["instnum"]));
    put(&mut header.db_id, table.count(row, &["dbid"]));
    put(&mut header.release, table.text(row, &["release"]));
    put(&mut header.rac, table.text(row, &["rac", "cluster", "ops"]));
    put(&mut header.db_role, table.text(row, &["role", "dbrole"]));
    put(&mut header.cdb, table.text(row, &["cdb"]));
    put(&mut header.startup_time, table.text(row, &["startuptime"]));
    put(&mut header.host, table.text(row, &["host"]));
    if let (Some(column), Some(below)) = (table.column(&["host"]), table.rows.get(at + 1)) {
        // A long host name continues on the next line, under its column.
        let alone = below.cells().filter(|cell| !cell.is_empty()).count() == 1;
        let rest = cell(below, Some(column));
        if alone && !rest.is_empty() {
            super::host::lengthen(&mut header.host, rest);
        } else if alone && table.may_be_cut(column, cell(row, Some(column))) {
            // Its rest lost the blanks before it.
            header.host = None;
        }
    }
}

fn instance(table: &PageTable, header: &mut ReportHeader) {
    let Some(row) = table.rows.first() else { return };
    put(&mut header.instance, table.text(row, &["instance"]));
    put(&mut header.instance_number, table.count(row, &["instnum"]));
    put(&mut header.startup_time, table.text(row, &["startuptime"]));
}

fn host(table: &PageTable, header: &mut ReportHeader) {
    let Some(row) = table.rows.first() else { return };
    // Statspack underlines the heading next to the column.
    put(&mut header.host, table.text(row, &["hostname", "name"]));
    put(&mut header.platform, table.text(row, &["platform"]));
    put(&mut header.cpus, table.count(row, &["cpus"]));
    put(&mut header.cores, table.count(row, &["cores"]));
    put(&mut header.sockets, table.count(row, &["sockets"]));
    put(&mut header.memory_gb, table.count(row, &["memorygb", "memoryg"]));
}

/// Reads a line such as `Begin Snap: 1822 23-Apr-14 18:30:05 58 1.5`.
fn snapshot(line: &str, section: &Arc<str>, header: &mut ReportHeader) {
    let after = |labels: [&str; 2]| {
        labels.iter().find_map(|label| line.find(label).and_then(|at| line.get(at + label.len()..)))
    };
    let word = |rest: &str| rest.split_whitespace().next().unwrap_or("").to_owned();
    let minutes = |rest: &str| Figure::read(&word(rest), section, number::count);
    if let Some(rest) = after(["Begin Snap:", "Begin Snap :"]) {
        (header.begin_snap, header.begin_time) = id_and_time(rest, section);
    } else if let Some(rest) = after(["End Snap:", "End Snap :"]) {
        (header.end_snap, header.end_time) = id_and_time(rest, section);
    } else {
        if let Some(rest) = after(["Elapsed:", "Elapsed :"]) {
            put(&mut header.elapsed_min, minutes(rest));
            header.elapsed_unread = unread(&header.elapsed_min, &word(rest));
        }
        if let Some(rest) = after(["DB Time:", "DB time:"]) {
            put(&mut header.db_time_min, minutes(rest));
        }
    }
}

/// Returns an elapsed time that could not be read. A decimal comma there means that the whole
/// report uses points for thousands.
fn unread(elapsed: &Option<Figure>, printed: &str) -> Option<String> {
    let is_comma = elapsed.is_none() && printed.contains(',');
    is_comma.then(|| printed.to_owned())
}

/// Reads the host line of Statspack 10.2: `Host  Name: NAME  Num CPUs: 4  Phys Memory (MB): 8,192`.
fn host_line(line: &str, section: &Arc<str>, header: &mut ReportHeader) {
    let Some((_, name)) = line.split_once("Name:") else { return };
    let Some((name, rest)) = name.split_once("Num CPUs:") else { return };
    let (cpus, memory) = rest.split_once("Phys Memory (MB):").unwrap_or((rest, ""));
    let gibibytes = |text: &str| Some(number::count(text)?.scaled(1.0 / 1024.0));
    put(&mut header.host, Figure::text(name, section));
    put(&mut header.cpus, Figure::read(cpus, section, number::count));
    put(&mut header.memory_gb, Figure::read(memory, section, gibibytes));
}

/// Reads a number, then a date in any language that ends with a time of day.
fn id_and_time(text: &str, section: &Arc<str>) -> (Option<Figure>, Option<Figure>) {
    let words: Vec<&str> = text.split_whitespace().collect();
    let Some((id, rest)) = words.split_first() else { return (None, None) };
    let is_time = |word: &&str| {
        let mut parts = word.split(':');
        let digits = |part: &str| part.len() == 2 && part.bytes().all(|b| b.is_ascii_digit());
        word.contains(':') && parts.all(digits)
    };
    let time = rest.iter().position(is_time).and_then(|at| rest.get(..=at));
    (
        Figure::read(id, section, number::count),
        time.and_then(|words| Figure::text(&words.join(" "), section)),
    )
}

/// Reads the header tables of a report over several instances.
fn cluster(page: &ParsedReport, header: &mut ReportHeader) {
    if let Some(table) = page.first(Topic::Cluster)
        && let Some(row) = table.rows.iter().find(|row| table.count(*row, &["id"]).is_some())
    {
        put(&mut header.db, table.text(row, &["name"]));
        put(&mut header.db_id, table.count(row, &["id"]));
        put(&mut header.rac, table.text(row, &["rac"]));
        put(&mut header.cdb, table.text(row, &["cdb"]));
        put(&mut header.begin_snap, table.count(row, &["begin"]));
        put(&mut header.end_snap, table.count(row, &["end"]));
        let elapsed = ["elapsedtime", "elapsedtimemin"];
        put(&mut header.elapsed_min, table.count(row, &elapsed));
        header.elapsed_unread = unread(&header.elapsed_min, cell(row, table.column(&elapsed)));
        put(&mut header.db_time_min, table.count(row, &["dbtime", "dbtimemin"]));
    }
    let Some((table, instances)) = cluster::listed(page) else { return };
    let joined = |keys: &[&str]| {
        let at = table.column(keys);
        let mut words: Vec<&str> = instances.iter().map(|row| cell(*row, at)).collect();
        words.dedup();
        Figure::text(&words.join("+"), &table.title)
    };
    header.instance = joined(&["instance"]);
    header.host = joined(&["host"]);
    header.release = joined(&["release"]);
    header.begin_time = joined(&["beginsnaptime"]);
    header.end_time = joined(&["endsnaptime"]);
    header.startup_time = joined(&["startup", "startuptime"]);
    header.platform = joined(&["platform"]);
}
