//! Settings of a database that affect a result and that few would choose for a test.

use super::database::Database;
use super::link::BindValue;
use super::meta::cell;
use super::sql;
use petal_record::target::NotableSetting;

/// Returns every notable setting that the user may see. `parameters` are names and values of
/// V$PARAMETER. `is_in_files` is true if the data are in files of a file system, not in ASM.
pub fn settings(
    admin: &mut Database,
    tablespace: &str,
    is_in_files: bool,
    parameters: Option<&[(String, String)]>,
) -> Vec<NotableSetting> {
    let mut notable = Vec::new();
    let mut add = |of_updates, effect: String, advice: &str| {
        notable.push(NotableSetting { effect, advice: advice.to_owned(), of_updates });
    };
    let value = |name: &str| {
        let found = parameters.unwrap_or_default().iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str()).filter(|value| !value.is_empty())
    };
    if let Some(plan) = value("resource_manager_plan") {
        let processors = value("cpu_count").map_or(String::new(), |count| {
            format!(", and cpu_count={count} then limits the processors that all sessions use")
        });
        add(
            false,
            format!(
                "resource_manager_plan={plan}: the resource manager may throttle sessions, as it \
                 does in a maintenance window{processors}"
            ),
            "Test outside of the window, or ALTER SYSTEM SET resource_manager_plan='' for the test.",
        );
    }
    for (name, unit) in [("max_iops", "I/O requests"), ("max_mbps", "MB of I/O")] {
        if let Some(most) = value(name).filter(|most| *most != "0") {
            add(
                false,
                format!(
                    "{name}={most}: the resource manager holds this pluggable database to {most} \
                     {unit} per second, whatever the storage can do"
                ),
                &format!("ALTER SYSTEM SET {name}=0 for the test, or name it with the result."),
            );
        }
    }
    if is_in_files
        && let Some(options) = value("filesystemio_options")
        && !["setall", "directio"].contains(&options.to_lowercase().as_str())
    {
        add(
            false,
            format!(
                "filesystemio_options={options}: the operating system's page cache serves reads of \
                 data files, so that they are not the storage's"
            ),
            "ALTER SYSTEM SET filesystemio_options=SETALL SCOPE=SPFILE, and restart the instance.",
        );
    }
    if value("_db_cache_pre_warm").is_some_and(|value| value.eq_ignore_ascii_case("true")) {
        add(
            false,
            "_db_cache_pre_warm=TRUE: reads after a start fetch neighbouring blocks too".to_owned(),
            "Set it to FALSE for a test of single-block reads, or let the cache fill first.",
        );
    }
    if let Some(row) = admin.look_if_allowed("flashback").first()
        && cell(row, 0).starts_with("YES")
    {
        add(
            true,
            "flashback database is on: changed blocks are also written to flashback logs"
                .to_owned(),
            "Name it with the result, or ALTER DATABASE FLASHBACK OFF on a test database.",
        );
    }
    let query = sql::section(sql::LOOK, "encrypted");
    let encrypted = admin.link.query(&query, &[BindValue::from(tablespace)]).unwrap_or_default();
    if encrypted.first().is_some_and(|row| cell(row, 0) == "YES") {
        add(
            false,
            format!(
                "tablespace {tablespace} is encrypted: each read and write costs processor time"
            ),
            "Name it with the result, or compare with a tablespace that is not encrypted.",
        );
    }
    for row in admin.look_if_allowed("synchronous_destinations") {
        add(
            true,
            format!(
                "log_archive_dest_{} ships redo {}: each commit waits for the standby's answer",
                cell(&row, 0),
                cell(&row, 1)
            ),
            "Commit latencies include the network and the standby's log; defer the destination to \
             measure this database alone.",
        );
    }
    notable
}
