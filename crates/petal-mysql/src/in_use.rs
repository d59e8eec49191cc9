//! The marks of data in use: named locks of the server, which end with their connection. A run
//! holds one of several numbered locks; setup and drop hold another lock while none of these is
//! taken, and a run takes its number while it holds that lock for a moment.

use std::collections::BTreeMap;

use super::client::Client;
use super::connect::Endpoint;
use super::schema;
use petal_engine::in_use::DataUse;
use petal_engine::server::data_name::data_name;
use petal_engine::server::liveness::TimeoutPolicy;
use petal_engine::server::servers;
use petal_engine::server::waiting::WaitingConnection;
use petal_engine::{EngineError, Result};

/// Runs on one database at once.
const RUNS_MAX: u32 = 32;
/// Maximum time for which the lock of a petal that ended may still be held, in seconds.
const RELEASE_LIMIT_S: u32 = 2;
const LOCKING: &str = "locking petal's data";

/// A lock's name; the database's own may be too long for it.
fn lock(of: &str) -> String {
    let name = data_name();
    format!("CONCAT('{name} ', LEFT(SHA1(DATABASE()), 16), ' {of}')")
}

/// Refuses if a run, a setup or a drop is at work in this database; else keeps all of them away as
/// long as the connection lives.
pub fn hold_alone(client: &mut Client) -> Result<()> {
    take_setup(client)?;
    for attempt in 0.. {
        let Some((_, id)) = runs(client, LOCKING)?.into_iter().next() else { break };
        if attempt < RELEASE_LIMIT_S * 10 {
            std::thread::sleep(std::time::Duration::from_millis(100));
            continue;
        }
        return Err(refusal(&client.server, "another petal run", Some(id)));
    }
    Ok(())
}

/// Takes the lock of setup and drop, or refuses while another holds it.
fn take_setup(client: &mut Client) -> Result<()> {
    if take(client, "setup", RELEASE_LIMIT_S)? {
        return Ok(());
    }
    let who = holder(client, "setup")?;
    Err(refusal(&client.server, "another petal setup or drop", who))
}

fn take(client: &mut Client, of: &str, wait_s: u32) -> Result<bool> {
    let taken: Option<i64> =
        client.ask_row(LOCKING, &format!("SELECT GET_LOCK({}, {wait_s})", lock(of)))?;
    Ok(taken == Some(1))
}

fn holder(client: &mut Client, of: &str) -> Result<Option<u64>> {
    client.ask_row(LOCKING, &format!("SELECT IS_USED_LOCK({})", lock(of)))
}

/// Runs in this database: the number of each and its connection.
fn runs(client: &mut Client, doing: &str) -> Result<Vec<(u32, u64)>> {
    let each: Vec<String> =
        (1..=RUNS_MAX).map(|run| format!("IS_USED_LOCK({})", lock(&run.to_string()))).collect();
    let row: mysql_async::Row = client.ask_row(doing, &format!("SELECT {}", each.join(", ")))?;
    let holder = |at: usize| row.get_opt::<Option<u64>, _>(at)?.ok().flatten();
    Ok((0..RUNS_MAX).filter_map(|at| Some((at + 1, holder(at as usize)?))).collect())
}

fn refusal(server: &str, what: &str, connection: Option<u64>) -> EngineError {
    let who = connection.map_or_else(String::new, |id| format!(" (connection {id})"));
    EngineError::Environment(format!(
        "{server}: {what}{who} works on petal's data in this database; wait until it is done, or \
         stop it"
    ))
}

/// A run's hold on the data.
pub struct TablesInUse {
    endpoint: Endpoint,
    /// Holds the lock.
    client: WaitingConnection<Client>,
    own: u32,
    schemas: u32,
    /// The tables and when each was made, and their indexes.
    tables: BTreeMap<String, String>,
}

impl TablesInUse {
    pub fn begin(endpoint: &Endpoint, schemas: u32) -> Result<Self> {
        let mut client = endpoint.connect()?;
        take_setup(&mut client)?;
        let taken: Vec<u32> = runs(&mut client, LOCKING)?.into_iter().map(|(run, _)| run).collect();
        let own = (1..=RUNS_MAX).find(|run| !taken.contains(run)).ok_or_else(|| {
            EngineError::Environment(format!(
                "{}: {RUNS_MAX} petal runs work on this database; wait until one is done",
                endpoint.name
            ))
        })?;
        take(&mut client, &own.to_string(), RELEASE_LIMIT_S)?;
        let sql = format!("DO RELEASE_LOCK({})", lock("setup"));
        client.send(LOCKING, &sql)?;
        let tables = tables(&mut client, schemas)?;
        // Looks from now on, also those of a run that a signal has ended.
        client.set_policy(TimeoutPolicy::AnswerSoon);
        Ok(Self { endpoint: endpoint.clone(), client: client.keep_alive()?, own, schemas, tables })
    }
}

impl DataUse for TablesInUse {
    fn other_runs(&self) -> Result<Vec<String>> {
        let doing =
            "looking for other petal runs (the lock that keeps setup and drop away is lost)";
        let runs = runs(&mut self.client.lock(), doing)?;
        let others = runs.into_iter().filter(|(run, _)| *run != self.own);
        Ok(others.map(|(_, id)| format!("another petal run (connection {id})")).collect())
    }

    fn vanished(&self) -> Result<Option<String>> {
        let now = tables(&mut self.client.lock(), self.schemas);
        // The lock's connection may be gone, and the data still there.
        let now = now.or_else(|_| tables(&mut self.endpoint.connect_to_look()?, self.schemas))?;
        Ok(servers::vanished(&self.endpoint.name, &self.tables, &now))
    }
}

fn tables(client: &mut Client, schemas: u32) -> Result<BTreeMap<String, String>> {
    let doing = "looking for petal's tables";
    let named: Vec<String> = (1..=schemas)
        .flat_map(|number| {
            ["cf1", "cf2"].map(|table| format!("'{}_{table}'", schema::name(number)))
        })
        .collect();
    let named = named.join(", ");
    let sql = format!(
        "SELECT table_name, CAST(create_time AS CHAR) FROM information_schema.tables \
         WHERE table_schema = DATABASE() AND table_name IN ({named})"
    );
    let mut rows: Vec<(String, Option<String>)> = client.ask(doing, &sql)?;
    // An index is known by its columns: the server does not say when it was made.
    let sql = format!(
        "SELECT CONCAT(index_name, ' of ', table_name), \
                GROUP_CONCAT(column_name ORDER BY seq_in_index) \
         FROM information_schema.statistics \
         WHERE table_schema = DATABASE() AND table_name IN ({named}) \
         GROUP BY table_name, index_name"
    );
    rows.extend(client.ask::<(String, Option<String>)>(doing, &sql)?);
    Ok(rows.into_iter().map(|(name, made)| (name, made.unwrap_or_default())).collect())
}
