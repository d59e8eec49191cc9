//! Questions before a run. petal asks, before any session connects, whether the server takes the
//! run's UPDATEs, and whether its commits would wait.

use std::collections::BTreeMap;

use super::client::Client;
use super::connect::Endpoint;
use super::schema;
use super::session::SESSION_SETTINGS;
use petal_engine::{EngineError, Result};

/// An UPDATE of no row, after the session's settings of a run: it needs the same privileges and settings of
/// the binary log as an UPDATE of rows.
pub fn try_update(schema: u32) -> String {
    format!("UPDATE {}_cf1 SET c2 = c2 WHERE custid = 0", schema::name(schema))
}

/// Why the server will refuse every UPDATE of tables that a load makes; None if it will not. The binary log has
/// no statement at the isolation level of petal's sessions.
pub fn refusal_after_load(client: &mut Client) -> Result<Option<String>> {
    let sql = "SELECT @@log_bin AND @@sql_log_bin, @@binlog_format";
    let (is_logged, format): (bool, String) = client.ask_row("asking for its binary log", sql)?;
    Ok((is_logged && format == "STATEMENT").then(|| {
        "the server logs statements (BINLOG_FORMAT = STATEMENT), and InnoDB takes no UPDATE of petal's sessions \
         (READ COMMITTED) then: SET GLOBAL binlog_format = ROW, or MIXED"
            .to_owned()
    }))
}

/// Refuses a run with UPDATEs that is sure to fail.
pub fn check_updates(endpoint: &Endpoint, schemas: u32) -> Result<()> {
    let mut client = endpoint.connect()?;
    client.send("setting up a session", SESSION_SETTINGS)?;
    for schema in 1..=schemas {
        let doing = format!(
            "an UPDATE of {}_cf1, which this run makes (UPDATE_PCT=0 makes none)",
            schema::name(schema)
        );
        client.send(&doing, &try_update(schema))?;
    }
    Ok(())
}

/// Refuses a server whose commits wait for semi-synchronous replicas that are not connected. Newer
/// servers have other names for the same; a server without the plugin has none.
pub fn check_replicas(endpoint: &Endpoint) -> Result<()> {
    let mut client = endpoint.connect_to_look()?;
    let doing = "asking for its semi-synchronous replicas";
    let mut known = BTreeMap::new();
    for what in ["VARIABLES", "STATUS"] {
        let sql = format!("SHOW GLOBAL {what} LIKE 'rpl_semi_sync_%'");
        let named = client.ask::<(String, String)>(doing, &sql)?.into_iter();
        known.extend(named.map(|(name, value)| (name.to_lowercase(), value)));
    }
    let value = |names: [&str; 2]| {
        names
            .iter()
            .find_map(|name| known.get(&format!("rpl_semi_sync_{name}")))
            .map(String::as_str)
    };
    let is_on = |names| value(names) == Some("ON");
    let number = |names| value(names).and_then(|value| value.parse::<u64>().ok());
    let waits = is_on(["master_enabled", "source_enabled"])
        // Off after a commit that waited for too long.
        && is_on(["master_status", "source_status"])
        && is_on(["master_wait_no_slave", "source_wait_no_replica"]);
    let wanted =
        number(["master_wait_for_slave_count", "source_wait_for_replica_count"]).unwrap_or(1);
    let connected = number(["master_clients", "source_clients"]).unwrap_or(wanted);
    if !waits || connected >= wanted {
        return Ok(());
    }
    let limit_ms = number(["master_timeout", "source_timeout"]).unwrap_or_default();
    Err(EngineError::Environment(format!(
        "{}: each commit waits {} s for {wanted} semi-synchronous replica, and {connected} are \
         connected: start it, or turn rpl_semi_sync_master_enabled (rpl_semi_sync_source_enabled) off",
        endpoint.name,
        limit_ms / 1000
    )))
}
