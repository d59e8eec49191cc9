//! Load profile. A rate per second is read only from a column that says so.

use super::cluster;
use super::figure::{Figure, put};
use super::number;
use super::page::{PageTable, ParsedReport, TableRow, cell};
use super::report::{IoProfile, IoProfileLine, LoadLine, LoadProfile, ReportKind, TimeModel};
use super::topic::{self, Topic};

/// Bytes in the megabytes of reports.
pub const MIB: f64 = 1_048_576.0;

pub fn read(page: &ParsedReport, kind: ReportKind, elapsed_min: &Option<Figure>) -> LoadProfile {
    let mut profile = LoadProfile::default();
    page.tables_of(Topic::LoadProfile).for_each(|table| instance(table, &mut profile));
    let total = |topic| page.first(topic).and_then(|it| Some((it, cluster::total(it)?)));
    if kind == ReportKind::Awrg {
        if let Some((table, row)) = total(Topic::ClusterPerSecond) {
            profile = of_row(table, row);
        }
        if let Some((table, row)) = total(Topic::ClusterTimeModel) {
            profile.db_cpu.per_second = cpu_per_second(table, row, elapsed_min);
        }
    }
    profile
}

fn instance(table: &PageTable, profile: &mut LoadProfile) {
    let second = table.column(&["persecond"]);
    let transaction = table.column(&["pertransaction"]);
    for row in table.rows.iter() {
        let Some(load) = line(profile, &topic::key(cell(row, Some(0)))) else { continue };
        if load.per_second.is_none() && load.per_transaction.is_none() {
            *load = LoadLine {
                per_second: table.count_at(row, second),
                per_transaction: table.count_at(row, transaction),
            };
        }
    }
}

fn line<'p>(profile: &'p mut LoadProfile, label: &str) -> Option<&'p mut LoadLine> {
    Some(match label {
        "dbtimes" => &mut profile.db_time,
        "dbcpus" => &mut profile.db_cpu,
        "backgroundcpus" => &mut profile.background_cpu,
        "redosize" | "redosizebytes" => &mut profile.redo_bytes,
        "logicalreads" | "logicalreadblocks" => &mut profile.logical_reads,
        "blockchanges" => &mut profile.block_changes,
        "physicalreads" | "physicalreadblocks" => &mut profile.physical_reads,
        "physicalwrites" | "physicalwriteblocks" => &mut profile.physical_writes,
        "readiorequests" => &mut profile.read_requests,
        "writeiorequests" => &mut profile.write_requests,
        "readiomb" => &mut profile.read_mb,
        "writeiomb" => &mut profile.write_mb,
        "usercalls" => &mut profile.user_calls,
        "parses" | "parsessql" => &mut profile.parses,
        "hardparses" | "hardparsessql" => &mut profile.hard_parses,
        "logons" => &mut profile.logons,
        "executes" | "executessql" => &mut profile.executes,
        "rollbacks" => &mut profile.rollbacks,
        "transactions" => &mut profile.transactions,
        _ => return None,
    })
}

/// Reads one row of a cluster's rates per second. Its redo is in units of 1024 bytes.
pub fn of_row(table: &PageTable, row: TableRow<'_>) -> LoadProfile {
    let rate = |keys: &[&str]| table.count(row, keys);
    let kilobytes = || {
        let printed = cell(row, Some(table.column(&["redosizeks"])?));
        let figure = Figure::read(printed, &table.title, number::count)?.scaled(1024.0)?;
        Some(Figure { as_printed: Some(format!("{printed} (k)")), ..figure })
    };
    let load = |per_second| LoadLine { per_second, per_transaction: None };
    LoadProfile {
        logical_reads: load(rate(&["logicalreadss"])),
        physical_reads: load(rate(&["physicalreadss"])),
        physical_writes: load(rate(&["physicalwritess"])),
        block_changes: load(rate(&["blockchangess"])),
        user_calls: load(rate(&["usercallss"])),
        executes: load(rate(&["execss"])),
        parses: load(rate(&["parsess"])),
        logons: load(rate(&["logonss"])),
        transactions: load(rate(&["txnss"])),
        redo_bytes: load(rate(&["redosizes"]).or_else(kilobytes)),
        ..LoadProfile::default()
    }
}

/// Returns DB CPU from a row of a cluster's time model, over the elapsed time.
pub fn cpu_per_second(
    table: &PageTable,
    row: TableRow<'_>,
    elapsed_min: &Option<Figure>,
) -> Option<Figure> {
    let cpu = table.count(row, &["dbcpus"])?;
    per_second(&cpu, elapsed_min.as_ref()?, "DB CPU")
}

/// Returns a total over the elapsed time.
pub fn per_second(total: &Figure, elapsed_min: &Figure, what: &str) -> Option<Figure> {
    let rate = total.number()? / (elapsed_min.number()? * 60.0);
    let step = 2.0 * rate * (total.uncertainty() + elapsed_min.uncertainty());
    let step = if step.is_finite() { step } else { total.step };
    Figure::computed(rate, step, format!("{}: {what}, total over elapsed", total.section))
}

/// Reads requests and MB per second, with redo.
pub fn io_profile(page: &ParsedReport) -> IoProfile {
    let mut profile = IoProfile::default();
    for table in page.tables_of(Topic::IoProfile) {
        let column = |is: &dyn Fn(&str) -> bool| table.column_where(is);
        let both = column(&|key| key.starts_with("readwrite"));
        let read = column(&|key| key.starts_with("read") && !key.starts_with("readwrite"));
        let write = column(&|key| key.starts_with("write"));
        for row in table.rows.iter() {
            let line = match topic::key(cell(row, Some(0))).as_str() {
                "totalrequests" => &mut profile.total_requests,
                "databaserequests" => &mut profile.database_requests,
                "optimizedrequests" => &mut profile.optimized_requests,
                "redorequests" => &mut profile.redo_requests,
                "totalmb" => &mut profile.total_mb,
                "databasemb" => &mut profile.database_mb,
                "optimizedtotalmb" => &mut profile.optimized_mb,
                "redomb" => &mut profile.redo_mb,
                _ => continue,
            };
            let figure = |at: Option<usize>| table.count_at(row, Some(at?));
            if *line == IoProfileLine::default() {
                *line =
                    IoProfileLine { both: figure(both), read: figure(read), write: figure(write) };
            }
        }
    }
    profile
}

/// Reads the time model: the sessions' time by activity.
pub fn time_model(page: &ParsedReport) -> TimeModel {
    let mut model = TimeModel::default();
    for table in page.tables_of(Topic::TimeModel) {
        let name = table.column(&["statistic", "statisticname"]);
        let time = table.column(&["times"]);
        for row in table.rows.iter() {
            let place = match cell(row, name) {
                "DB time" => &mut model.db_time_s,
                "DB CPU" => &mut model.db_cpu_s,
                _ => continue,
            };
            put(place, table.count_at(row, time));
        }
    }
    if let Some(table) = page.first(Topic::ClusterTimeModel)
        && let Some(row) = cluster::total(table)
    {
        let figure = |key: &str| table.count(row, &[key]);
        model = TimeModel { db_time_s: figure("dbtimes"), db_cpu_s: figure("dbcpus") };
    }
    model
}
