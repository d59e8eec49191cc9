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

pub fn of_server(client: &mut Client, schemas: u32) -> Result<ServerFacts> {
    let rows = client.ask(ASKING, SETTINGS, &[])?;
    let settings: BTreeMap<String, String> = pairs(&rows)?;
    let started = client.ask_value(ASKING, STARTED, &[])?;
    let own: Vec<&str> = session_settings(0).into_iter().map(|(name, _)| name).collect();
    let is_of_server = |name: &str| {
        !own.contains(&name) && !OF_STATE.contains(&name) && PRIVILEGED.iter().all(|p| p.0 != name)
    };
    let settings_all = settings.clone();
    let settings = settings.into_iter().filter(|(name, _)| is_of_server(name));
    let mut facts: FactValues =
        settings.map(|(name, value)| ((FactKind::Setting, name), value)).collect();
    // Each process of the server has its own fraction of the second.
    let reloaded: String = client.ask_value(ASKING, RELOADED, &[])?;
    let reloaded = reloaded.split('.').next().unwrap_or_default().to_owned();
    facts.insert((FactKind::Setting, "last reload of the server's settings".to_owned()), reloaded);
    facts.insert((FactKind::Start, "start of the server".to_owned()), started);
    let tables = tables(client, schemas)?;
    let durability = Some(durability(&settings_all, &tables));
    facts.extend(tables.into_iter().map(|(name, kind)| ((FactKind::Table, name), kind)));
    Ok(ServerFacts { facts, durability })
}

pub fn mark(client: &mut Client) -> Result<String> {
    client.ask_value("asking when it read its files", MARK, &[])
}

/// petal's tables, with the trace that they leave in the log, and the triggers that run with an UPDATE.
const TABLES: &str = "SELECT pg_catalog.string_agg(c.oid::pg_catalog.regclass::pg_catalog.text || \
     ' ' || CASE c.relpersistence WHEN 'p' THEN 'logged' ELSE 'UNLOGGED' END || coalesce(', trigger ' || \
     (SELECT pg_catalog.string_agg(t.tgname::pg_catalog.text, ', ') FROM pg_catalog.pg_trigger t \
      WHERE t.tgrelid = c.oid AND NOT t.tgisinternal AND t.tgenabled <> 'D'), ''), E'\\n') \
     FROM pg_catalog.unnest($1::int[]) AS number, \
     pg_catalog.unnest(ARRAY['cf1', 'cf2']) AS short, pg_catalog.pg_class c \
     WHERE c.oid = pg_catalog.to_regclass(pg_catalog.format('petal%s.', number) || short)";
/// The kind of a table whose changes a crash loses.
const UNLOGGED: &str = "UNLOGGED";

/// The kind of each table of the schemas; empty if the role may not ask.
pub fn tables(client: &mut Client, schemas: u32) -> Result<BTreeMap<String, String>> {
    let numbers: Vec<i32> = (1..=schemas).map(u32::cast_signed).collect();
    let doing = "asking for the kinds of its tables";
    let text: Option<Option<String>> = client.ask_if_allowed(doing, TABLES, &[&numbers])?;
    let text = text.flatten().unwrap_or_default();
    let named = text.lines().filter_map(|line| line.split_once(' '));
    Ok(named.map(|(name, kind)| (name.to_owned(), kind.to_owned())).collect())
}

/// Whether commits survive a power cut, by the settings of a session and the kinds of its tables.
pub fn durability(
    settings: &BTreeMap<String, String>,
    tables: &BTreeMap<String, String>,
) -> Durability {
    let get = |name: &str| settings.get(name).map(String::as_str).unwrap_or_default();
    let (fsync, commit) = (get("fsync"), get("synchronous_commit"));
    let unlogged = tables.iter().find(|(_, kind)| kind.starts_with(UNLOGGED));
    let words = unlogged.map_or_else(String::new, |(name, _)| format!(", {name} is {UNLOGGED}"));
    Durability {
        durable: fsync == "on" && commit != "off" && unlogged.is_none(),
        setting: format!("fsync={fsync}, synchronous_commit={commit}{words}"),
    }
}
