//! What a run needs, asked before any session connects: servers that take its UPDATEs, and a role
//! that may make them. What else the role may do, for `petal check`.

use std::collections::BTreeMap;

use super::client::{Client, Error};
use super::connect::{Endpoint, engine_error, server_version};
use super::{describe, plan, schema};
use crate::engine::EngineError;
use crate::stats::target::Privilege;

/// Refuses a run with UPDATEs that is sure to fail on `primary`.
pub fn check_updates(primary: &Endpoint, schemas: &[u32]) -> Result<(), EngineError> {
    let server = primary.name.as_str();
    let mut client = primary.connect("petal")?;
    let failed = |error| engine_error(server, "asking whether it takes UPDATEs", &error);
    let refused = |why: String| Err(EngineError::Environment(format!("{server}: {why}")));
    let sql = "SELECT pg_is_in_recovery(), current_setting('transaction_read_only')::boolean, \
               current_user::text";
    let row = client.query_one(sql, &[]).map_err(failed)?;
    let role: &str = row.get(2);
    if row.get(0) {
        return refused(
            "is a standby, which only reads: name the primary beside it (postgres://standby,\
             primary/db), or run with UPDATE_PCT=0"
                .to_owned(),
        );
    }
    if row.get(1) {
        return refused(format!(
            "role {role} only reads (default_transaction_read_only): run with another role, or \
             with UPDATE_PCT=0"
        ));
    }
    for &number in schemas {
        let table = format!("{}.cf1", schema::name(number));
        let may: bool = client
            .query_one("SELECT has_table_privilege($1::text, 'UPDATE')", &[&table])
            .map_err(failed)?
            .get(0);
        if !may {
            return refused(format!(
                "role {role} may not UPDATE {table}: GRANT SELECT, UPDATE ON {table} TO {role}, or \
                 run with UPDATE_PCT=0"
            ));
        }
    }
    Ok(())
}

/// Refuses servers that were one cluster and are two primaries now: one of them was promoted, and
/// what they hold goes apart.
pub fn check_one_primary(servers: &[Endpoint]) -> Result<(), EngineError> {
    let mut primaries: BTreeMap<i64, &str> = BTreeMap::new();
    for endpoint in servers {
        let sql = "SELECT pg_is_in_recovery(), system_identifier FROM pg_control_system()";
        let row = endpoint
            .connect("petal")?
            .query_one(sql, &[])
            .map_err(|error| engine_error(&endpoint.name, "asking which cluster it is", &error))?;
        if row.get(0) {
            continue;
        }
        if let Some(other) = primaries.insert(row.get(1), &endpoint.name)
            && other != endpoint.name
        {
            return Err(EngineError::Environment(format!(
                "{other} and {} are both primaries of what was one cluster: a standby was \
                 promoted, and their data go apart; leave out the one that is not to be measured",
                endpoint.name
            )));
        }
    }
    Ok(())
}

/// What the role may do at a server, by what petal does with it. Without `schemas` nothing can be
/// said of their tables.
pub fn privileges(endpoint: &Endpoint, schemas: &[u32]) -> Result<Vec<Privilege>, EngineError> {
    let server = endpoint.name.as_str();
    let mut client = endpoint.connect("petal")?;
    let version = server_version(&mut client, server)?;
    plan::apply_privileged(&mut client, server)?;
    let failed = |error| engine_error(server, "asking for privileges", &error);
    let mut ask = |sql: &str| is_granted(&mut client, sql, schemas).map_err(failed);
    let mut privileges = vec![Privilege {
        what: "load and drop".to_owned(),
        is_granted: ask("SELECT has_database_privilege(current_database(), 'CREATE')")?,
        without: "The role cannot load data here; runs on loaded data do not need it.".to_owned(),
        advice: "GRANT CREATE ON DATABASE ... TO the role".to_owned(),
    }];
    if schemas.is_empty() {
        // Of loaded data the check of the timing itself tells.
        privileges.push(Privilege {
            what: "I/O timing".to_owned(),
            is_granted: ask("SELECT current_setting('track_io_timing')::boolean")?,
            without: "The latency of a single-block read is then unknown.".to_owned(),
            advice: describe::UNTIMED.to_owned(),
        });
    } else {
        privileges.extend(of_tables(&mut ask)?);
    }
    if version >= 150_000 {
        privileges.push(Privilege {
            what: "checkpoint".to_owned(),
            is_granted: ask("SELECT pg_has_role('pg_checkpoint', 'USAGE')")?,
            without: "Dirty blocks of a run are then written in the next one, within its figures."
                .to_owned(),
            advice: "GRANT pg_checkpoint TO the role".to_owned(),
        });
    }
    Ok(privileges)
}

/// What the role may do with the tables of loaded data.
fn of_tables(
    mut ask: impl FnMut(&str) -> Result<bool, EngineError>,
) -> Result<[Privilege; 2], EngineError> {
    Ok([
        Privilege {
            what: "UPDATEs".to_owned(),
            is_granted: ask("SELECT NOT current_setting('transaction_read_only')::boolean AND \
                 bool_and(has_table_privilege(format('petal%s.cf1', number), 'UPDATE')) \
                 FROM unnest($1::int[]) AS number")?,
            without: "The role can only run with UPDATE_PCT=0.".to_owned(),
            advice: "GRANT SELECT, UPDATE ON ALL TABLES IN SCHEMA petal1 TO the role".to_owned(),
        },
        Privilege {
            what: "vacuum".to_owned(),
            is_granted: ask("SELECT bool_and(pg_has_role(relowner, 'USAGE')) FROM pg_class \
                 WHERE oid = ANY (SELECT format('petal%s.cf1', number)::regclass \
                                  FROM unnest($1::int[]) AS number)")?,
            without: "Dead rows of a run are then cleared in the next one, within its figures."
                .to_owned(),
            advice: "run as the role that loaded (17 and later: GRANT MAINTAIN)".to_owned(),
        },
    ])
}

fn is_granted(client: &mut Client, sql: &str, schemas: &[u32]) -> Result<bool, Error> {
    let numbers: Vec<i32> = schemas.iter().map(|&number| number.cast_signed()).collect();
    let row = match sql.contains("$1") {
        true => client.query_one(sql, &[&numbers])?,
        false => client.query_one(sql, &[])?,
    };
    Ok(row.get::<_, Option<bool>>(0).unwrap_or(false))
}
