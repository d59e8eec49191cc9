//! The mark of data in use: an advisory lock, shared by runs, held alone by setup and drop. The
//! server releases it when its connection ends.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::answer::{Columns as _, pairs};
use super::client::Client;
use super::connect::Endpoint;
use super::schema;
use petal_engine::in_use::DataUse;
use petal_engine::server::data_name::named;
use petal_engine::server::liveness::TimeoutPolicy;
use petal_engine::server::servers;
use petal_engine::server::waiting::WaitingConnection;
use petal_engine::{EngineError, Result};

/// Maximum time for which the lock of a petal that ended may still be held.
const RELEASE_LIMIT: Duration = Duration::from_secs(2);
const LOCKING: &str = "locking petal's data";
const SHARED: &str = "SELECT \
    pg_catalog.pg_try_advisory_lock_shared(pg_catalog.hashtext('petal setup'))";
const ALONE: &str = "SELECT pg_catalog.pg_try_advisory_lock(pg_catalog.hashtext('petal setup'))";

/// The other holders of the lock in this database, and whether each holds it alone.
const HOLDERS: &str = "\
SELECT l.pid, coalesce(a.application_name, ''), coalesce(pg_catalog.host(a.client_addr), ''),
       coalesce(pg_catalog.to_char(a.backend_start, 'YYYY-MM-DD HH24:MI:SS TZ'), ''),
       l.mode = 'ExclusiveLock'
FROM pg_catalog.pg_locks l LEFT JOIN pg_catalog.pg_stat_activity a ON a.pid = l.pid
WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 1
  AND l.pid <> pg_catalog.pg_backend_pid()
  AND l.database = (SELECT oid FROM pg_catalog.pg_database
                    WHERE datname = pg_catalog.current_database())
  AND (l.classid::bigint << 32 | l.objid::bigint) = pg_catalog.hashtext('petal setup')::bigint
ORDER BY l.pid";

/// The tables of a run and its index, by name.
const TABLES: &str = "\
SELECT n.nspname || '.' || c.relname, c.oid::bigint
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = ANY($1) AND c.relname IN ('cf1', 'cf1_custid', 'cf2')";

/// Refuses while a run, setup or drop works here; then keeps them away until `client` closes.
pub fn hold_alone(client: &mut Client) -> Result<()> {
    match try_lock(client, ALONE)? {
        true => Ok(()),
        false => Err(refusal(client)),
    }
}

/// The server lets go of a lock a moment after the petal before has left.
fn try_lock(client: &mut Client, lock: &str) -> Result<bool> {
    let begin = Instant::now();
    loop {
        let is_held = client.ask_value(LOCKING, &named(lock), &[])?;
        if is_held || begin.elapsed() > RELEASE_LIMIT {
            return Ok(is_held);
        }
        std::thread::sleep(RELEASE_LIMIT / 20);
    }
}

fn refusal(client: &mut Client) -> EngineError {
    let holders = holders(client, LOCKING).unwrap_or_default();
    let who: Vec<&str> = holders.iter().map(|(who, _)| who.as_str()).collect();
    let who = if who.is_empty() { "another petal".to_owned() } else { who.join(", ") };
    EngineError::Environment(format!(
        "{}: {who} works on petal's data in this database; wait until it is done, or stop it",
        client.server
    ))
}

/// Each in words, and whether it holds the lock alone.
fn holders(client: &mut Client, doing: &str) -> Result<Vec<(String, bool)>> {
    let rows = client.ask(doing, &named(HOLDERS), &[])?;
    let holders = rows.iter().map(|row| -> Result<(String, bool)> {
        let (process, name): (i32, String) = (row.read(0)?, row.read(1)?);
        let (address, since): (String, String) = (row.read(2)?, row.read(3)?);
        let is_alone = row.read(4)?;
        let what = if is_alone { "another petal setup or drop" } else { "another petal run" };
        let mut words = format!("{what} (server process {process}");
        for (before, more) in [(", ", name), (" from ", address), (" since ", since)] {
            if !more.is_empty() {
                words.push_str(before);
                words.push_str(&more);
            }
        }
        Ok((words + ")", is_alone))
    });
    holders.collect()
}

/// A run's hold on the data.
pub struct TablesInUse {
    endpoint: Endpoint,
    /// Holds the lock.
    client: WaitingConnection<Client>,
    schemas: Vec<String>,
    tables: BTreeMap<String, i64>,
}

impl TablesInUse {
    pub fn begin(endpoint: &Endpoint, schemas: u32) -> Result<Self> {
        let mut client = endpoint.connect("petal run")?;
        if !try_lock(&mut client, SHARED)? {
            return Err(refusal(&mut client));
        }
        let schemas: Vec<String> = (1..=schemas).map(schema::name).collect();
        let tables = tables(&mut client, LOCKING, &schemas)?;
        // Looks from now on, also those of a run that a signal has ended.
        client.set_policy(TimeoutPolicy::AnswerSoon);
        Ok(Self { endpoint: endpoint.clone(), client: client.keep_alive()?, schemas, tables })
    }
}

impl DataUse for TablesInUse {
    fn other_runs(&self) -> Result<Vec<String>> {
        let doing =
            "looking for other petal runs (the lock that keeps setup and drop away is lost)";
        let holders = holders(&mut self.client.lock(), doing)?;
        Ok(holders.into_iter().filter(|(_, is_alone)| !is_alone).map(|(who, _)| who).collect())
    }

    fn vanished(&self) -> Result<Option<String>> {
        let looked =
            |client: &mut Client| tables(client, "looking for petal's tables", &self.schemas);
        let now = match looked(&mut self.client.lock()) {
            Ok(now) => now,
            // The lock's connection may be gone, and the data still there.
            Err(_) => looked(&mut self.endpoint.connect_to_look("petal check")?)?,
        };
        Ok(servers::vanished(&self.endpoint.name, &self.tables, &now))
    }
}

fn tables(
    client: &mut Client,
    doing: &str,
    schemas: &Vec<String>,
) -> Result<BTreeMap<String, i64>> {
    let rows = client.ask(doing, TABLES, &[schemas])?;
    pairs(&rows)
}
