//! The plan of the SELECT, as it is now.

use std::path::Path;

use super::connection::{AtFile as _, open_now};
use super::files::TargetFolder;
use super::layout;
use petal_engine::Result;
use petal_record::target::PlanCheck;

/// The plans in the files of the schemas: one that is not as meant, else the first.
pub fn check(
    folder: &TargetFolder,
    numbers: impl Iterator<Item = u32>,
) -> Result<Option<PlanCheck>> {
    let checks = numbers.map(|number| check_one(&folder.file(number), number));
    Ok(PlanCheck::worst(checks.collect::<Result<Vec<_>>>()?))
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
