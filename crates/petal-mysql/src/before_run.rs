//! Questions before a run. petal asks, before any session connects, whether the server takes the
//! run's UPDATEs; the user's other privileges are for `petal check`.

use std::collections::BTreeMap;

use super::connect::Endpoint;
use super::placement::PROOF_VIEW;
use super::server_counters::{UNTIMED, is_timed};
use super::{schema, settle};
use petal_engine::{EngineError, Result};
use petal_model::stats::target::Privilege;

/// An UPDATE of no row: it needs the same privileges as an UPDATE of rows.
fn try_update(schema: u32) -> String {
    format!("UPDATE {}_cf1 SET c2 = c2 WHERE custid = 0", schema::name(schema))
}

/// Refuses a run with UPDATEs that is sure to fail.
pub fn check_updates(endpoint: &Endpoint, schemas: u32) -> Result<()> {
    let mut client = endpoint.connect()?;
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

/// The user's privileges at a server, by petal's steps there. Without `schemas`, privileges on
/// their tables are unknown.
pub fn privileges(endpoint: &Endpoint, schemas: &[u32]) -> Result<Vec<Privilege>> {
    let mut client = endpoint.connect()?;
    let mut privileges = Vec::new();
    if let Some(&first) = schemas.first() {
        privileges.push(Privilege {
            what: "UPDATEs".to_owned(),
            is_granted: client.run(&try_update(first)).is_ok(),
            is_needed: false,
            without: "The user can only run with UPDATE_PCT=0.".to_owned(),
            advice: "GRANT SELECT, UPDATE ON the database TO the user".to_owned(),
        });
    }
    let proof = format!("SELECT 1 FROM {PROOF_VIEW} LIMIT 1");
    privileges.push(Privilege {
        what: "block statistics".to_owned(),
        is_granted: client.query::<i64>(&proof).is_ok(),
        is_needed: schemas.is_empty(),
        without: "A load cannot be proved, so the user cannot load here.".to_owned(),
        advice: format!("GRANT SELECT ON {PROOF_VIEW} TO the user"),
    });
    privileges.push(match schemas.first() {
        // For loaded data the description says whether I/O is timed.
        None => Privilege {
            what: "I/O timing".to_owned(),
            is_granted: is_timed(&mut client),
            is_needed: false,
            without: "The latency of a single-block read is then unknown.".to_owned(),
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
