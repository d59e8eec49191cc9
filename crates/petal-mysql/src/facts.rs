//! Facts of a server that must hold through a run: its global variables.

use super::client::{Client, Error};
use super::describe::{ServerSettings, durability};
use petal_engine::ServerFacts;
use petal_host::facts::{FactKind, FactValues};

/// Variables that are the server's state, by how their names begin, and those of which each session
/// of petal has its own value.
const NO_SETTINGS: [&str; 5] =
    ["gtid_", "last_gtid", "query_cache_type", "transaction_isolation", "tx_isolation"];

/// A server counts each SET, also those of sessions.
const MARK: &str = "SHOW GLOBAL STATUS WHERE Variable_name IN ('Com_set_option')";

pub fn of_server(client: &mut Client) -> Result<ServerFacts, Error> {
    let rows: Vec<(String, Option<String>)> = client.query("SHOW GLOBAL VARIABLES")?;
    let settings: ServerSettings =
        rows.into_iter().map(|(name, value)| (name, value.unwrap_or_default())).collect();
    let durability = Some(durability(&settings));
    let is_setting = |name: &str| !NO_SETTINGS.iter().any(|state| name.starts_with(state));
    let settings = settings.into_iter().filter(|(name, _)| is_setting(name));
    let facts: FactValues =
        settings.map(|(name, value)| ((FactKind::Setting, name), value)).collect();
    Ok(ServerFacts { facts, durability })
}

pub fn mark(client: &mut Client) -> Result<String, Error> {
    let (_, count): (String, String) = client.query_one(MARK)?;
    Ok(count)
}
