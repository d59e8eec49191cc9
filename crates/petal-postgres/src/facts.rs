//! Facts of a server that must hold through a run: its start, and all settings that a role may
//! see.

use std::collections::BTreeMap;

use super::answer::pairs;
use super::client::Client;
use super::plan::{PRIVILEGED, session_settings};
use petal_engine::{Result, ServerFacts};
use petal_host::facts::{FactKind, FactValues};
use petal_record::target::Durability;

const ASKING: &str = "asking for its settings";

/// Settings that are not somebody's: a transaction's own, and the state of a standby.
const OF_STATE: [&str; 5] = [
    "in_hot_standby",
    "transaction_deferrable",
    "transaction_isolation",
    "transaction_read_only",
    "application_name",
];

const SETTINGS: &str = "SELECT name, pg_catalog.current_setting(name) FROM pg_catalog.pg_settings";

const STARTED: &str = "SELECT pg_catalog.pg_postmaster_start_time()::pg_catalog.text";

/// A setting that was changed and set back between two looks has left its reload.
const RELOADED: &str = "SELECT pg_catalog.pg_conf_load_time()::pg_catalog.text";

/// A backend has read the server's files again when its time of that is new.
const MARK: &str = "SELECT pg_catalog.pg_postmaster_start_time()::pg_catalog.text || ' ' \
    || pg_catalog.pg_conf_load_time()::pg_catalog.text";

pub fn of_server(client: &mut Client) -> Result<ServerFacts> {
    let rows = client.ask(ASKING, SETTINGS, &[])?;
    let settings: BTreeMap<String, String> = pairs(&rows)?;
    let started = client.ask_value(ASKING, STARTED, &[])?;
    let durability = Some(durability(&settings));
    let own: Vec<&str> = session_settings(0).into_iter().map(|(name, _)| name).collect();
    let is_of_server = |name: &str| {
        !own.contains(&name) && !OF_STATE.contains(&name) && PRIVILEGED.iter().all(|p| p.0 != name)
    };
    let settings = settings.into_iter().filter(|(name, _)| is_of_server(name));
    let mut facts: FactValues =
        settings.map(|(name, value)| ((FactKind::Setting, name), value)).collect();
    // Each process of the server has its own fraction of the second.
    let reloaded: String = client.ask_value(ASKING, RELOADED, &[])?;
    let reloaded = reloaded.split('.').next().unwrap_or_default().to_owned();
    facts.insert((FactKind::Setting, "last reload of the server's settings".to_owned()), reloaded);
    facts.insert((FactKind::Start, "start of the server".to_owned()), started);
    Ok(ServerFacts { facts, durability })
}

pub fn mark(client: &mut Client) -> Result<String> {
    client.ask_value("asking when it read its files", MARK, &[])
}

/// Whether commits survive a power cut, by the settings of a session.
pub fn durability(settings: &BTreeMap<String, String>) -> Durability {
    let get = |name: &str| settings.get(name).map(String::as_str).unwrap_or_default();
    let (fsync, commit) = (get("fsync"), get("synchronous_commit"));
    Durability {
        durable: fsync == "on" && commit != "off",
        setting: format!("fsync={fsync}, synchronous_commit={commit}"),
    }
}
