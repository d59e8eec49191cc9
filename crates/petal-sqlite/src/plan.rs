//! The plan of the SELECT, and the version of a file's tables and indexes, as they are now.

use std::path::Path;

use rusqlite::Connection;

use super::connection::{Access, AtFile as _, open};
use super::files::{TargetFolder, with_suffix};
use super::io::IoContext;
use super::layout;
use petal_engine::Result;
use petal_model::stats::target::PlanCheck;

/// The plans in the files of the schemas: one that is not as meant, else the first.
pub fn check(
    folder: &TargetFolder,
    numbers: impl Iterator<Item = u32>,
) -> Result<Option<PlanCheck>> {
    let checks = numbers.map(|number| check_one(&folder.file(number), number));
    Ok(PlanCheck::worst(checks.collect::<Result<Vec<_>>>()?))
}

/// Counts the changes of a file's tables and indexes, ever.
pub fn schema_version(path: &Path) -> Result<i64> {
    let asked = open_now(path)?.pragma_query_value(None, "schema_version", |row| row.get(0));
    asked.at(path, "asking for schema_version")
}

/// The meant plan looks keys up in the index and then visits each row.
fn check_one(path: &Path, number: u32) -> Result<PlanCheck> {
    let connection = open_now(path)?;
    let explain = || {
        let mut statement =
            connection.prepare(&format!("EXPLAIN QUERY PLAN {}", layout::SELECT))?;
        let lines = statement.query_map([1, 2], |row| row.get::<_, String>(3))?;
        lines.collect::<rusqlite::Result<Vec<_>>>()
    };
    let steps = explain().at(path, "explaining the SELECT")?.join("; ");
    let as_meant = steps.starts_with("SEARCH cf1 USING INDEX cf1_custid");
    Ok(PlanCheck { text: format!("petal{number}.db: {steps}"), as_meant })
}

/// Opens a file with the changes that are only in its WAL, if it has one; else without locks, which
/// works on read-only mounts.
fn open_now(path: &Path) -> Result<Connection> {
    let has_wal = std::fs::metadata(with_suffix(path, "-wal")).is_ok_and(|wal| wal.len() > 0);
    let access = if has_wal { Access::Write } else { Access::Unchanging };
    open(path, access, &IoContext::default())
}
