//! Locks that others hold: how long petal waits for one, and who holds it, as the server reports it.

use std::fmt;

use tokio_postgres::Row;

use super::answer::Columns as _;
use super::client::Client;
use petal_engine::Result;
use petal_engine::server::data_name::data_name;
use petal_engine::server::wait_monitor::{LockWait, OLD_SNAPSHOT_S};

/// The SQLSTATE of a statement that waited for a lock for too long.
pub const LOCK_TIMEOUT: &str = "55P03";

/// The processes that hold the lock for which a server process waits; no row when it waits for
/// none. A prepared transaction is process 0.
pub const LOCK_HOLDERS: &str = "\
SELECT waiting.what, blocker.pid, activity.usename::pg_catalog.text,
       activity.application_name, activity.state,
       pg_catalog.to_char(activity.xact_start AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"'),
       extract(epoch FROM pg_catalog.clock_timestamp() - activity.xact_start)::pg_catalog.float8,
       activity.query
FROM pg_catalog.unnest(pg_catalog.pg_blocking_pids($1)) AS blocker (pid)
LEFT JOIN pg_catalog.pg_stat_activity AS activity ON activity.pid = blocker.pid
LEFT JOIN LATERAL (SELECT mode || ' on '
                      || coalesce(relation::pg_catalog.regclass::pg_catalog.text, locktype) AS what
                   FROM pg_catalog.pg_locks WHERE pid = $1 AND NOT granted LIMIT 1)
    AS waiting ON true
ORDER BY activity.xact_start, blocker.pid";

/// The oldest snapshot of another process in this database or of a standby, a prepared transaction (process 0) or a
/// replication slot (negative), with the columns of [`LOCK_HOLDERS`]: all that keep rows of petal's tables.
pub const SNAPSHOTS: &str = "\
SELECT NULL::pg_catalog.text, held.pid, activity.usename::pg_catalog.text,
       activity.application_name, activity.state,
       pg_catalog.to_char(activity.xact_start AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"'),
       extract(epoch FROM pg_catalog.clock_timestamp() - activity.xact_start)::pg_catalog.float8,
       activity.query
FROM (SELECT pid, pg_catalog.age(backend_xmin) AS age FROM pg_catalog.pg_stat_activity
      WHERE backend_xmin IS NOT NULL AND pid <> pg_catalog.pg_backend_pid()
      AND coalesce(datname = pg_catalog.current_database(), true)
      UNION ALL SELECT 0, pg_catalog.age(transaction) FROM pg_catalog.pg_prepared_xacts
      WHERE database = pg_catalog.current_database()
      UNION ALL SELECT -1, pg_catalog.age(xmin) FROM pg_catalog.pg_replication_slots
      WHERE xmin IS NOT NULL) AS held
LEFT JOIN pg_catalog.pg_stat_activity AS activity ON activity.pid = held.pid
ORDER BY held.age DESC LIMIT 1";

/// The event that a process waits for, unless it is a lock, and its statement.
pub const WAIT_EVENT: &str = "\
SELECT wait_event_type, wait_event, query FROM pg_catalog.pg_stat_activity
WHERE pid = $1 AND state = 'active' AND wait_event_type <> 'Lock'";

/// Characters of a query that are shown.
const STATEMENT_CHARACTERS: usize = 80;

/// A process that is in the way, without the fields that the role may not see.
#[derive(Debug, Clone, Default, PartialEq)]
struct Blocker {
    process: i32,
    role: Option<String>,
    application: Option<String>,
    state: Option<String>,
    since: Option<String>,
    seconds: Option<f64>,
    query: Option<String>,
}

/// Terminates sessions of petal's with locks on tables of its data: a cancel frees only the commit that waits
/// for a standby, and the next one waits again.
pub fn end_left_sessions(client: &mut Client) -> Result<()> {
    const END: &str = "\
SELECT pg_catalog.pg_terminate_backend(activity.pid)
FROM pg_catalog.pg_stat_activity AS activity
WHERE activity.usename = CURRENT_USER AND activity.application_name LIKE 'petal session%'
AND activity.datname = pg_catalog.current_database()
AND EXISTS (SELECT 1 FROM pg_catalog.pg_locks AS held
    JOIN pg_catalog.pg_class AS class ON class.oid = held.relation
    JOIN pg_catalog.pg_namespace AS space ON space.oid = class.relnamespace
    WHERE held.pid = activity.pid
    AND pg_catalog.starts_with(space.nspname::pg_catalog.text, $1))";
    client.ask("ending sessions", END, &[&data_name()]).map(drop)
}

/// Names the holder of a snapshot that is older than usual work, with the statement that ends it; None also if the
/// role may not see it.
pub fn old_snapshot(client: &mut Client) -> Option<String> {
    let rows = client.query(SNAPSHOTS, &[]).ok()?;
    let holder = blocker(rows.first()?).ok()?;
    let is_old = holder.process <= 0 || holder.seconds? >= OLD_SNAPSHOT_S.into();
    is_old.then(|| match holder.process {
        ..0 => "drop a replication slot with an xmin that nobody uses, or start its standby (pg_replication_slots)"
            .to_owned(),
        0 => format!("{holder}: COMMIT PREPARED or ROLLBACK PREPARED ends it"),
        process => format!("{holder}: SELECT pg_terminate_backend({process}) ends it"),
    })
}

/// The holder of the oldest snapshot, in words.
pub fn snapshot_holder(rows: &[Row]) -> String {
    let holder = rows.first().and_then(|row| blocker(row).ok());
    match holder {
        None => "a process that petal's role may not see".to_owned(),
        Some(slot) if slot.process < 0 => {
            "a replication slot (see pg_replication_slots)".to_owned()
        }
        Some(process) => process.to_string(),
    }
}

fn blocker(row: &Row) -> Result<Blocker> {
    Ok(Blocker {
        process: row.read::<Option<i32>>(1)?.unwrap_or_default(),
        role: row.read(2)?,
        application: row.read(3)?,
        state: row.read(4)?,
        since: row.read(5)?,
        seconds: row.read(6)?,
        query: row.read(7)?,
    })
}

/// The lock that a connection waits for; None if it does not wait.
pub fn lock_wait(rows: &[Row]) -> Option<LockWait> {
    // Such as `AccessShareLock on petal1.cf1`.
    let what: Option<String> = rows.first()?.read(0).ok()?;
    // Who cannot be named is not named.
    let blockers = rows.iter().filter_map(|row| blocker(row).ok());
    Some(lock_wait_behind(what.as_deref(), &blockers.collect::<Vec<_>>()))
}

fn lock_wait_behind(what: Option<&str>, blockers: &[Blocker]) -> LockWait {
    let names: Vec<String> = blockers.iter().map(Blocker::to_string).collect();
    let what = what.map_or_else(|| "a lock".to_owned(), shown);
    LockWait {
        text: format!("{what} behind {}", names.join("; ")),
        holders: blockers.iter().map(|blocker| blocker.process.into()).collect(),
    }
}

impl fmt::Display for Blocker {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.process == 0 {
            return out.write_str("a prepared transaction (see pg_prepared_xacts)");
        }
        let mut facts = Vec::new();
        // The server says so if the role may not see a statement.
        let is_known = |text: &&String| !text.is_empty() && *text != "<insufficient privilege>";
        facts.extend(self.role.iter().map(|role| format!("role {}", shown(role))));
        let application = self.application.iter().filter(is_known);
        facts.extend(application.map(|name| format!("application {}", shown(name))));
        facts.extend(self.state.iter().map(|state| shown(state)));
        if let Some(since) = &self.since {
            let seconds = self.seconds.unwrap_or(0.0).max(0.0);
            facts.push(format!("in its transaction since {since} ({seconds:.0} s)"));
        }
        let query = self.query.iter().filter(is_known);
        facts.extend(query.map(|query| format!("last statement: {}", shown(query))));
        match facts.is_empty() {
            true => write!(out, "process {}", self.process),
            false => write!(out, "process {} ({})", self.process, facts.join(", ")),
        }
    }
}

/// Returns a short line without control characters; a statement that may hold a password is left
/// out.
fn shown(text: &str) -> String {
    if text.to_ascii_lowercase().contains("password") {
        return "(not shown: it has a password)".to_owned();
    }
    let line: String =
        text.chars().map(|sign| if sign.is_control() { ' ' } else { sign }).collect();
    match line.char_indices().nth(STATEMENT_CHARACTERS) {
        Some((end, _)) => format!("{}...", &line[..end]),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wait(blocker: Blocker) -> String {
        lock_wait_behind(Some("AccessShareLock on petal1.cf1"), &[blocker]).text
    }

    #[test]
    fn a_blocker_is_known_with_all_that_the_role_may_see() {
        let known = Blocker {
            process: 4711,
            role: Some("app".into()),
            application: Some("psql".into()),
            state: Some("idle in transaction".into()),
            since: Some("2026-11-21T23:40:01Z".into()),
            seconds: Some(12.4),
            query: Some("LOCK TABLE\npetal1.cf1;\u{1b}[31m".into()),
        };
        insta::assert_snapshot!(wait(known.clone()), @"AccessShareLock on petal1.cf1 behind process 4711 (role app, application psql, idle in transaction, in its transaction since 2026-11-21T23:40:01Z (12 s), last statement: LOCK TABLE petal1.cf1; [31m)");
        let unseen = Blocker { process: 4711, ..Blocker::default() };
        insta::assert_snapshot!(wait(unseen), @"AccessShareLock on petal1.cf1 behind process 4711");
        let prepared = wait(Blocker::default());
        assert!(prepared.contains("pg_prepared_xacts"), "{prepared}");
        let secret = Some("ALTER ROLE x Password 'S3CRET'".into());
        assert!(!wait(Blocker { query: secret, ..known }).contains("S3CRET"));
    }
}
