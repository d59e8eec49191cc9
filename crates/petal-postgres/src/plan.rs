//! The plan of the SELECT: settings that force it in every session, and the check by EXPLAIN.

use tokio_postgres::Row;
use tokio_postgres::error::SqlState;

use super::answer::Columns as _;
use super::client::Client;

use super::{neighbours, schema};
use petal_engine::Result;
use petal_record::target::PlanCheck;

/// A session's own settings, by the server's names.
pub fn session_settings(prefetch: u32) -> Vec<(&'static str, String)> {
    let reads_ahead = prefetch > 0;
    let switch = |on: bool| if on { "on" } else { "off" }.to_owned();
    vec![
        ("plan_cache_mode", "force_generic_plan".to_owned()),
        ("enable_indexscan", switch(!reads_ahead)),
        ("enable_bitmapscan", switch(reads_ahead)),
        ("enable_seqscan", "off".to_owned()),
        ("effective_io_concurrency", prefetch.to_string()),
        ("max_parallel_workers_per_gather", "0".to_owned()),
        ("jit", "off".to_owned()),
        ("default_transaction_isolation", "read committed".to_owned()),
    ]
}

/// Settings that only some roles may change; without them a run measures less.
pub const PRIVILEGED: [(&str, &str); 2] =
    [("track_io_timing", "on"), ("track_wal_io_timing", "on")];

const SETTING_UP: &str = "setting up a session";

/// Prepares a connection for the operations of a run.
pub fn apply(client: &mut Client, prefetch: u32) -> Result<()> {
    let settings = session_settings(prefetch);
    let sql: Vec<String> =
        settings.iter().map(|(name, value)| format!("SET {name} = '{value}'")).collect();
    client.run(SETTING_UP, &sql.join("; "))?;
    apply_privileged(client)
}

/// Applies settings that only some roles may change: without them the server does not time its I/O
/// for petal.
pub fn apply_privileged(client: &mut Client) -> Result<()> {
    for (name, value) in PRIVILEGED {
        match client.batch_execute(&format!("SET {name} = {value}")) {
            Ok(()) => {}
            // Not allowed, or a server too old to have it.
            Err(error)
                if matches!(
                    error.code(),
                    Some(code) if *code == SqlState::INSUFFICIENT_PRIVILEGE
                        || *code == SqlState::UNDEFINED_OBJECT
                ) => {}
            Err(error) => return Err(client.error(SETTING_UP, &error)),
        }
    }
    Ok(())
}

/// The SELECT's plans in the schemas, as a session prepared by [`apply`] has them: one that is not as
/// meant, else the first.
pub fn check(
    client: &mut Client,
    numbers: impl Iterator<Item = u32>,
    prefetch: u32,
) -> Result<Option<PlanCheck>> {
    let checks = numbers.map(|number| check_one(client, number, prefetch));
    Ok(PlanCheck::worst(checks.collect::<Result<Vec<_>>>()?))
}

fn check_one(client: &mut Client, number: u32, prefetch: u32) -> Result<PlanCheck> {
    let select = schema::select(&schema::name(number));
    let doing = "explaining the SELECT";
    client.run(doing, &format!("PREPARE petal_plan (bigint, bigint) AS {select}"))?;
    let lines = client.ask(doing, "EXPLAIN (COSTS OFF) EXECUTE petal_plan (1, 2)", &[])?;
    client.run(doing, "DEALLOCATE petal_plan")?;
    let text = |row: &Row| {
        let line = row.read::<String>(0)?;
        let line = line.trim().trim_start_matches("->").trim();
        // The index of a killed neighbour, on the same column, serves as well.
        Ok(line.replace(neighbours::INDEX, "cf1_custid"))
    };
    let lines: Vec<String> = lines.iter().map(text).collect::<Result<_>>()?;
    let as_meant = is_as_meant(&lines, prefetch);
    Ok(PlanCheck { text: format!("{}: {}", schema::name(number), lines.join("; ")), as_meant })
}

fn is_as_meant(lines: &[String], prefetch: u32) -> bool {
    let access: &[&str] = match prefetch {
        0 => &["Index Scan using cf1_custid on cf1"],
        _ => &["Bitmap Heap Scan on cf1", "Bitmap Index Scan on cf1_custid"],
    };
    let has_access = access.iter().all(|access| lines.iter().any(|line| line == access));
    // The aggregate and the accesses; conditions aside, nothing else.
    let nodes = lines.iter().filter(|line| !line.contains(" Cond: ")).count();
    has_access && nodes == access.len() + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &[&str]) -> Vec<String> {
        text.iter().map(|line| (*line).to_owned()).collect()
    }

    #[test]
    fn only_the_meant_plan_is_accepted() {
        let index = lines(&[
            "Aggregate",
            "Index Scan using cf1_custid on cf1",
            "Index Cond: ((custid >= $1) AND (custid <= $2))",
        ]);
        let bitmap = lines(&[
            "Aggregate",
            "Bitmap Heap Scan on cf1",
            "Recheck Cond: ((custid >= $1) AND (custid <= $2))",
            "Bitmap Index Scan on cf1_custid",
            "Index Cond: ((custid >= $1) AND (custid <= $2))",
        ]);
        assert!(is_as_meant(&index, 0) && !is_as_meant(&index, 8));
        assert!(is_as_meant(&bitmap, 8) && !is_as_meant(&bitmap, 0));
        let parallel = [lines(&["Gather"]), index].concat();
        assert!(!is_as_meant(&parallel, 0));
        assert!(!is_as_meant(&lines(&["Aggregate", "Seq Scan on cf1"]), 0));
    }
}
