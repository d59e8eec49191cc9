//! Statspack's figures of a run: the differences between two snapshots in its owner's tables. Times
//! keep the microseconds that Statspack's own report rounds.

use std::collections::BTreeMap;

use super::link::{BindValue, Link, LinkError, Row};
use super::meta::cell;
use super::sql;
use petal_record::database_interval::{DatabaseInterval, DatabaseSnapshot, WaitDelta, WaitSum};

fn decimal(row: &Row, at: usize) -> f64 {
    cell(row, at).trim().parse().unwrap_or(0.0)
}

/// Reads the differences between two snapshots of one instance.
pub fn interval(
    link: &mut dyn Link,
    first: &str,
    last: &str,
) -> Result<DatabaseInterval, LinkError> {
    let ids = [first, last].map(|id| BindValue::Number(id.parse().unwrap_or_default()));
    let mut query = |name: &str| link.query(&sql::section(sql::REPORTS, name), &ids);
    let bounds = query("statspack_bounds")?;
    let [begin, end] = &bounds[..] else {
        return Err(LinkError::unexpected(&format!(
            "PERFSTAT has {} of the snapshots {first} and {last}",
            bounds.len()
        )));
    };
    same_start(begin, end, first, last)?;
    let pairs = |rows: Vec<Row>| -> BTreeMap<String, f64> {
        rows.iter().map(|row| (cell(row, 0).to_owned(), decimal(row, 1))).collect()
    };
    let text = |at: usize| cell(end, at).to_owned();
    let snapshot =
        |row| DatabaseSnapshot { id: cell(row, 0).to_owned(), time: cell(row, 9).to_owned() };
    Ok(DatabaseInterval {
        database_id: text(1),
        instance_number: text(2),
        database: text(3),
        instance: text(4),
        host: text(5),
        release: text(6),
        cluster: text(7),
        startup: text(8),
        begin: snapshot(begin),
        end: snapshot(end),
        elapsed_s: decimal(end, 10) - decimal(begin, 10),
        statistics: pairs(query("statspack_statistics")?),
        times_us: pairs(query("statspack_times")?),
        os: pairs(query("statspack_os")?),
        events: query("statspack_events")?.iter().map(waits).collect(),
    })
}

/// Fails if the snapshots are of two instances or of two starts of one: such counters have no
/// difference.
fn same_start(begin: &Row, end: &Row, first: &str, last: &str) -> Result<(), LinkError> {
    let (instance, startup) = (cell(end, 4), cell(end, 8));
    if cell(begin, 2) != cell(end, 2) {
        return Err(LinkError::unexpected(&format!(
            "snapshot {first} is of instance {}, {last} of instance {instance}: name a service of \
             one instance (ADMIN_SQLNET_SERVICE)",
            cell(begin, 4)
        )));
    }
    if cell(begin, 8) != startup {
        return Err(LinkError::unexpected(&format!(
            "instance {instance} was started at {startup}, between snapshots {first} and {last}: \
             its counters began again at zero"
        )));
    }
    Ok(())
}

/// Reads a row with the waits of all processes, then those of foreground processes.
fn waits(row: &Row) -> WaitDelta {
    let total = |at| WaitSum { waits: decimal(row, at), time_us: decimal(row, at + 1) };
    let (all, foreground) = (total(1), total(3));
    let background =
        WaitSum { waits: all.waits - foreground.waits, time_us: all.time_us - foreground.time_us };
    WaitDelta { event: cell(row, 0).to_owned(), foreground, background }
}
