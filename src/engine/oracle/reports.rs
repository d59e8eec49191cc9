//! The database's own reports of a run: AWR fetched as text and HTML, of all instances where there
//! are several; Statspack by its snapshots and the tables they fill, because its report is a script
//! of SQL*Plus and no function that a client could call.

use super::errors::engine_error;
use super::link::{Link, LinkError, Row, Value};
use super::meta::{cell, number};
use super::{sql, statspack};
use crate::engine::{EngineError, ReportContent, ServerReport};
use crate::settings::StatisticsType;

/// Said before the first snapshot of AWR.
pub const LICENCE: &str = "DATABASE_STATISTICS_TYPE=awr: AWR may be used only with a licence of \
    Oracle's Diagnostics Pack";

/// The snapshot that was taken before the run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Begun {
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

/// Takes the snapshot that begins a report. Most databases have no Statspack: whether that is an error
/// depends on whether the user asked for it by name.
pub fn begin(link: &mut dyn Link, place: &str, kind: StatisticsType) -> Result<Begun, EngineError> {
    snapshot(link, kind).map(|snapshot| Begun { kind, snapshot }).map_err(|error| {
        engine_error(place, &format!("taking a snapshot for {}", name(kind)), &error)
    })
}

fn name(kind: StatisticsType) -> &'static str {
    match kind {
        StatisticsType::Awr => "AWR",
        StatisticsType::Statspack => "Statspack",
    }
}

pub fn end(
    link: &mut dyn Link,
    place: &str,
    begun: &Begun,
) -> Result<Vec<ServerReport>, EngineError> {
    let failed = |error: &LinkError| {
        engine_error(place, &format!("fetching the report of {}", name(begun.kind)), error)
    };
    let last = snapshot(link, begun.kind).map_err(|error| failed(&error))?;
    match begun.kind {
        StatisticsType::Awr => awr(link, &begun.snapshot, &last).map_err(|error| failed(&error)),
        StatisticsType::Statspack => Ok(statspack(link, &begun.snapshot, &last)),
    }
}

fn awr(link: &mut dyn Link, first: &str, last: &str) -> Result<Vec<ServerReport>, LinkError> {
    let ids = link.query(&sql::section(sql::REPORTS, "database_id"), &[])?;
    let database = ids.first().map_or(0, |row| number(row, 0)).cast_signed();
    let bounds = [first, last].map(|text| text.parse::<i64>().unwrap_or_default());
    let instances = link.query(&sql::section(sql::LOOK, "instances"), &[])?;
    let numbers: Vec<u64> = instances.iter().map(|row| number(row, 0)).collect();
    let mut reports = Vec::new();
    for &instance in &numbers {
        for (query, ending) in [("awr_text", "txt"), ("awr_html", "html")] {
            let binds = [
                Value::Number(database),
                Value::Number(instance.cast_signed()),
                Value::Number(bounds[0]),
                Value::Number(bounds[1]),
            ];
            let rows = link.query(&sql::section(sql::REPORTS, query), &binds)?;
            let file = match numbers.len() {
                1 => format!("awr.{ending}"),
                _ => format!("awr-{instance}.{ending}"),
            };
            reports.push(text(file, lines(&rows)));
        }
    }
    if numbers.len() > 1 {
        let list: Vec<String> = numbers.iter().map(u64::to_string).collect();
        let list = list.join(",");
        for (query, ending) in [("awr_global_text", "txt"), ("awr_global_html", "html")] {
            let binds = [
                Value::Number(database),
                Value::Text(&list),
                Value::Number(bounds[0]),
                Value::Number(bounds[1]),
            ];
            let rows = link.query(&sql::section(sql::REPORTS, query), &binds)?;
            reports.push(text(format!("awr-global.{ending}"), lines(&rows)));
        }
    }
    Ok(reports)
}

fn text(file: String, text: String) -> ServerReport {
    ServerReport { file, content: ReportContent::Text(text) }
}

/// A line each; an empty one is NULL.
fn lines(rows: &[Row]) -> String {
    let mut text = String::new();
    for row in rows {
        text.push_str(cell(row, 0));
        text.push('\n');
    }
    text
}

/// The figures of PERFSTAT's tables, where the user may read them, and a script for SQL*Plus, as the
/// user perfstat, that makes the whole one of exactly this run.
fn statspack(link: &mut dyn Link, first: &str, last: &str) -> Vec<ServerReport> {
    let made = statspack::interval(link, first, last);
    let own = match &made {
        Ok(_) => "-- statspack.txt is petal's own, of the parts that it reads.\n".to_owned(),
        Err(error) => format!(
            "-- petal made none itself: {error}; docs/engines/oracle-grants.sql, part 5, grants what it \
             takes.\n"
        ),
    };
    let script = format!(
        "-- Statspack's whole report of this run. As perfstat, where the database is:\n\
         --   sqlplus perfstat @statspack.sql\n\
         -- leaves statspack-full.txt; beside run.json `petal report` reads it into the record.\n\
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
