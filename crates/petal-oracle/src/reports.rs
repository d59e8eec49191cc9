//! The database's own reports of a run: AWR as text and HTML, over all instances; Statspack by its
//! snapshots and tables, because its report is an SQL*Plus script and not a function.

use super::database::Database;
use super::errors::AtPlace;
use super::link::{BindValue, Link, LinkError, Row};
use super::meta::{cell, number};
use super::{sql, statspack};
use petal_engine::{EngineError, Result};
use petal_record::server_report::{ReportContent, ServerReport};
use petal_settings::StatisticsType;

/// Notice shown before the first AWR snapshot.
pub const LICENCE: &str = "DATABASE_STATISTICS_TYPE=awr: AWR may be used only with a licence of \
    Oracle's Diagnostics Pack";

/// Snapshot taken before the run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpeningSnapshot {
    kind: StatisticsType,
    snapshot: String,
}

fn snapshot(link: &mut dyn Link, kind: StatisticsType) -> Result<String, LinkError> {
    let name = match kind {
        StatisticsType::Awr => "awr_snapshot",
        StatisticsType::Statspack => "statspack_snapshot",
    };
    let row = link.call(&sql::section(sql::REPORTS, name), &[], &["snapshot"])?;
    Ok(cell(&row, 0).trim().to_owned())
}

/// Refuses AWR if the database does not admit it: its snapshots would be empty.
pub fn refuse_locked_pack(database: &mut Database) -> Result<()> {
    let rows = database.look_if_allowed("pack_access");
    match rows.first().is_some_and(|row| cell(row, 0).eq_ignore_ascii_case("NONE")) {
        false => Ok(()),
        true => Err(EngineError::Setting(format!(
            "DATABASE_STATISTICS_TYPE=awr: {}: control_management_pack_access=NONE, so that AWR takes \
             empty snapshots; use DATABASE_STATISTICS_TYPE=statspack, which needs no licence, or leave it \
             out. Only with a licence of the Diagnostics Pack may a DBA set \
             control_management_pack_access='DIAGNOSTIC'",
            database.place
        ))),
    }
}

/// Takes the first snapshot of a report. Most databases have no Statspack.
pub fn begin(database: &mut Database, kind: StatisticsType) -> Result<OpeningSnapshot> {
    refuse_callers_rights(database, kind)?;
    let snapshot = snapshot(database.link.as_mut(), kind)
        .at(&database.place, &format!("taking a snapshot for {}", name(kind)))?;
    Ok(OpeningSnapshot { kind, snapshot })
}

/// Refuses a Statspack package that runs with the caller's rights; AWR's package belongs to SYS.
fn refuse_callers_rights(database: &mut Database, kind: StatisticsType) -> Result<()> {
    match kind {
        StatisticsType::Awr => Ok(()),
        StatisticsType::Statspack => database.refuse_callers_rights("PERFSTAT", "STATSPACK"),
    }
}

fn name(kind: StatisticsType) -> &'static str {
    match kind {
        StatisticsType::Awr => "AWR",
        StatisticsType::Statspack => "Statspack",
    }
}

pub fn end(database: &mut Database, begun: &OpeningSnapshot) -> Result<Vec<ServerReport>> {
    refuse_callers_rights(database, begun.kind)?;
    let (Database { link, place }, kind) = (database, begun.kind);
    let ended = snapshot(link.as_mut(), kind).and_then(|last| match kind {
        StatisticsType::Awr => awr(link.as_mut(), &begun.snapshot, &last),
        StatisticsType::Statspack => Ok(statspack(link.as_mut(), &begun.snapshot, &last)),
    });
    ended.at(place, &format!("fetching the report of {}", name(kind)))
}

fn awr(link: &mut dyn Link, first: &str, last: &str) -> Result<Vec<ServerReport>, LinkError> {
    let ids = link.query(&sql::section(sql::REPORTS, "database_id"), &[])?;
    let database = ids.first().map_or(0, |row| number(row, 0)).cast_signed();
    let [first, last] = [first, last].map(|text| text.parse::<i64>().unwrap_or_default());
    let instances = link.query(&sql::section(sql::LOOK, "instances"), &[])?;
    let numbers: Vec<u64> = instances.iter().map(|row| number(row, 0)).collect();
    let mut reports = Vec::new();
    let mut add = |report: &str, of: BindValue<'_>, file: &str| -> Result<(), LinkError> {
        for (format, ending) in [("text", "txt"), ("html", "html")] {
            let query = sql::section(sql::REPORTS, &format!("{report}_{format}"));
            let [database, first, last] = [database, first, last].map(BindValue::Number);
            let rows = link.query(&query, &[database, of.clone(), first, last])?;
            reports.push(text(format!("{file}.{ending}"), lines(&rows)));
        }
        Ok(())
    };
    for instance in &numbers {
        let file = match numbers.len() {
            1 => "awr".to_owned(),
            _ => format!("awr-{instance}"),
        };
        add("awr", BindValue::Number(instance.cast_signed()), &file)?;
    }
    if numbers.len() > 1 {
        let list: Vec<String> = numbers.iter().map(u64::to_string).collect();
        add("awr_global", BindValue::from(&list.join(",")), "awr-global")?;
    }
    Ok(reports)
}

fn text(file: String, text: String) -> ServerReport {
    ServerReport { file, content: ReportContent::Text(text) }
}

/// Joins rows as lines; an empty line is NULL.
fn lines(rows: &[Row]) -> String {
    let mut text = String::new();
    for row in rows {
        text.push_str(cell(row, 0));
        text.push('\n');
    }
    text
}

/// Returns the figures of PERFSTAT's tables if the user may read them, and a script for SQL*Plus.
/// User perfstat runs the script to create the full report of exactly this run.
fn statspack(link: &mut dyn Link, first: &str, last: &str) -> Vec<ServerReport> {
    let made = statspack::interval(link, first, last);
    let own = match &made {
        Ok(_) => "-- statspack.txt is petal's own, of the parts that it reads.\n".to_owned(),
        Err(error) => format!(
            "-- petal made none itself: {error}; docs/engines/oracle-grants.sql, part 5, has the \
             grants.\n"
        ),
    };
    let script = format!(
        "-- Statspack's whole report of this run. As perfstat, where the database is:\n\
         --   sqlplus perfstat @statspack.sql\n\
         -- leaves statspack-full.txt; put next to run.json, `petal report` reads it into the record.\n\
         {own}\
         DEFINE begin_snap = {first}\n\
         DEFINE end_snap = {last}\n\
         DEFINE report_name = statspack-full.txt\n\
         @?/rdbms/admin/spreport.sql\n\
         EXIT\n"
    );
    let report = made.ok().map(|interval| ServerReport {
        file: "statspack.txt".to_owned(),
        content: ReportContent::Interval(Box::new(interval)),
    });
    let script = text("statspack.sql".to_owned(), script);
    report.into_iter().chain([script]).collect()
}
