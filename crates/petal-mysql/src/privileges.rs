//! Rights of a user that a load or a run depends on, for `petal check`. Loads and runs pass if it passes.

use super::before_run::{self, try_update};
use super::client::Client;
use super::connect::Endpoint;
use super::placement::PROOF_VIEW;
use super::server_counters::{UNTIMED, is_timed};
use super::session::SESSION_SETTINGS;
use super::this_host::LocalMysql;
use super::{load, schema, settle, trust};
use petal_engine::Result;
use petal_engine::server::own_files;
use petal_engine::server::wait_monitor::{OLD_SNAPSHOT, OLD_SNAPSHOT_S};
use petal_record::target::Privilege;

/// Statements of a load about a table that is not there. A server looks first whether the user may. They
/// would change nothing in one of this name.
const LOAD: [&str; 4] = [
    "INSERT INTO petal_none SELECT * FROM petal_none WHERE false",
    "DELETE FROM petal_none WHERE false",
    "CREATE INDEX petal_none ON petal_none (petal_none)",
    // It needs DROP, ALTER and CREATE.
    "RENAME TABLE petal_none TO petal_none",
];

/// No such table, routine or column; a table of this name; not as many arguments.
const MAY: [u16; 5] = [1146, 1305, 1072, 1050, 1318];

/// Returns why the server refuses these statements to the user; None if it does not.
fn refusal(client: &mut Client, statements: &[&str]) -> Option<String> {
    let mut refusals: Vec<String> = Vec::new();
    for sql in statements {
        if let Err(error) = client.run(sql)
            && !error.code().is_some_and(|code| MAY.contains(&code))
        {
            refusals.push(error.to_string());
        }
    }
    refusals.dedup();
    (!refusals.is_empty()).then(|| refusals.join("; "))
}

/// Why the user cannot use or make the routine of a schema; None if it can.
fn routine_refusal(client: &mut Client, schema: u32) -> Option<String> {
    let (name, comment) = (schema::name(schema), schema::ROUTINE_COMMENT);
    if let Ok(true) = trust::is_petals(client, &name, &schema::routine(&name), comment) {
        return refusal(client, &[&format!("CALL {name}_run()")]);
    }
    // A role may have the privilege as well.
    let grants: Vec<String> = client.query("SHOW GRANTS").unwrap_or_default();
    let may = |grant: &String| {
        grant.contains("CREATE ROUTINE")
            || grant.contains("ALL PRIVILEGES")
            || !grant.contains(" ON ")
    };
    let refused = refusal(client, &["ALTER PROCEDURE petal_none"]);
    let needed = "GRANT CREATE ROUTINE, ALTER ROUTINE ON the database TO the user";
    refused.or_else(|| (!grants.iter().any(may)).then(|| needed.to_owned()))
}

/// The user's limits of statements in an hour, if it has any.
fn hourly_limits(client: &mut Client) -> Option<String> {
    let account: Vec<String> = client.query("SHOW CREATE USER CURRENT_USER()").unwrap_or_default();
    let (_, limits) = account.first()?.split_once(" WITH ")?;
    limits.contains("_PER_HOUR").then(|| limits.to_owned())
}

/// A connection with less memory may not send the rows of a load, nor a batch of UPDATEs.
const MEMORY_MIN: u64 = 64 << 20;

/// The server's limit of a connection's memory (MySQL), if it is low.
fn memory_limit(client: &mut Client) -> Option<String> {
    let sql = "SHOW GLOBAL VARIABLES WHERE (Variable_name = 'global_connection_memory_tracking' AND Value = 'ON') \
               OR Variable_name = 'connection_memory_limit'";
    let settings: Vec<(String, String)> = client.query(sql).unwrap_or_default();
    let limit = settings.iter().find_map(|(_, value)| value.parse::<u64>().ok());
    let low = limit.filter(|limit| *limit < MEMORY_MIN && settings.len() == 2)?;
    Some(format!(
        "connection_memory_limit={low}: set it to {MEMORY_MIN} or more, or GRANT CONNECTION_ADMIN ON *.* TO the \
         user"
    ))
}

/// Prepared statements that a load or a run of some sessions takes, with room for others'.
const PREPARED_MIN: u64 = 100;

/// The server's limit of prepared statements, if few are left.
fn prepared_limit(client: &mut Client) -> Option<String> {
    let limit: u64 = client.query_one("SELECT @@global.max_prepared_stmt_count").ok()?;
    let in_use = "SHOW GLOBAL STATUS LIKE 'Prepared_stmt_count'";
    let (_, in_use): (String, u64) = client.query_one(in_use).ok()?;
    (limit.saturating_sub(in_use) < PREPARED_MIN).then(|| {
        format!(
            "max_prepared_stmt_count={limit}, and {in_use} are in use: SET GLOBAL max_prepared_stmt_count = 16382"
        )
    })
}

/// The oldest transaction of others that is open for longer than usual work; None for a user without PROCESS.
fn old_transaction(client: &mut Client) -> Option<String> {
    let sql = format!(
        "SELECT trx_mysql_thread_id, TIMESTAMPDIFF(SECOND, trx_started, NOW()) AS seconds \
         FROM information_schema.innodb_trx WHERE trx_mysql_thread_id <> CONNECTION_ID() \
         HAVING seconds >= {OLD_SNAPSHOT_S} ORDER BY seconds DESC LIMIT 1"
    );
    let (id, seconds): (u64, u64) = client.query(&sql).ok()?.pop()?;
    Some(match id {
        0 => format!("a prepared transaction is open for {seconds} s: XA RECOVER shows it"),
        id => format!("connection {id} is in a transaction for {seconds} s: end it (KILL {id})"),
    })
}

fn privilege(what: &str, refused: Option<String>, without: &str) -> Privilege {
    Privilege {
        what: what.to_owned(),
        is_granted: refused.is_none(),
        is_needed: false,
        without: without.to_owned(),
        advice: refused.unwrap_or_default(),
    }
}

/// The user's privileges at a server, by petal's steps there. Without `schemas`, privileges on
/// their tables are unknown.
pub fn privileges(endpoint: &Endpoint, schemas: &[u32]) -> Result<Vec<Privilege>> {
    let mut client = endpoint.connect()?;
    let mut privileges = Vec::new();
    let page_bytes: u32 = client.ask_row("asking for its pages", "SELECT @@innodb_page_size")?;
    let mut refused = load::refusing_settings(&mut client, page_bytes)?;
    refused.extend(refusal(&mut client, &LOAD));
    let refused = (!refused.is_empty()).then(|| refused.join("; "));
    privileges.push(Privilege {
        is_needed: schemas.is_empty(),
        ..privilege(
            "load and drop",
            refused,
            "The user cannot load data here; runs on loaded data do not need it.",
        )
    });
    // Before a load, of the tables that it would make.
    let first = schemas.first().copied().unwrap_or(1);
    let updates = refusal(&mut client, &[SESSION_SETTINGS, &try_update(first)]);
    let updates = match updates {
        None if schemas.is_empty() => before_run::refusal_after_load(&mut client)?,
        updates => updates,
    };
    privileges.push(Privilege {
        is_needed: true,
        ..privilege("UPDATEs", updates, "The user can only run with UPDATE_PCT=0.")
    });
    privileges.push(Privilege {
        is_needed: true,
        ..privilege(
            "LOOP=server",
            routine_refusal(&mut client, first),
            "The user can only run with LOOP=client.",
        )
    });
    privileges.push(Privilege {
        is_needed: true,
        ..privilege(
            "statements in an hour",
            hourly_limits(&mut client),
            "Sessions end as soon as the user has sent as many statements.",
        )
    });
    privileges.push(Privilege {
        is_needed: true,
        ..privilege(
            "memory of a connection",
            memory_limit(&mut client),
            "The server ends connections of petal's that take more.",
        )
    });
    privileges.push(Privilege {
        is_needed: true,
        ..privilege(
            "prepared statements",
            prepared_limit(&mut client),
            "A load and each session of a run prepare a few.",
        )
    });
    privileges.push(Privilege {
        is_needed: true,
        ..privilege("no old snapshots", old_transaction(&mut client), OLD_SNAPSHOT)
    });
    let proof = format!("SELECT 1 FROM {PROOF_VIEW} LIMIT 1");
    privileges.push(Privilege {
        what: "block statistics".to_owned(),
        is_granted: client.query::<i64>(&proof).is_ok(),
        is_needed: schemas.is_empty(),
        without: "A load cannot be proved, so the user cannot load here.".to_owned(),
        advice: format!("GRANT SELECT ON {PROOF_VIEW} TO the user"),
    });
    let here = LocalMysql::find(endpoint, &mut client).map(|found| {
        let server = found?;
        let seen = schemas.first().map(|&first| server.main_file(&mut client, first));
        seen.transpose().map(|_| server.files)
    });
    privileges.extend(own_files::rights(here));
    privileges.push(match schemas.first() {
        // For loaded data the description says whether I/O is timed.
        None => Privilege {
            what: "I/O timing".to_owned(),
            is_granted: is_timed(&mut client),
            is_needed: false,
            without: "Single-block read is then by another clock: the server's calls, the device, or petal's operations.".to_owned(),
            advice: UNTIMED.to_owned(),
        },
        Some(&first) => Privilege {
            what: "flush".to_owned(),
            is_granted: settle::flush(&mut client, first).is_ok(),
            is_needed: false,
            without: "Changes that a run left in memory are then written in the next one, within \
                      its figures."
                .to_owned(),
            advice: "GRANT RELOAD ON *.*, LOCK TABLES ON the database TO the user".to_owned(),
        },
    });
    Ok(privileges)
}
