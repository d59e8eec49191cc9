//! Preparations before a run. Petal asks, before any session connects, whether the servers take the
//! run's UPDATEs and the role may make them; what else the role may do is for `petal check`. Then
//! it pays the debts of the run before: dead rows, hint bits, dirty pages.

use std::collections::BTreeMap;
use std::time::Instant;

use tokio_postgres::error::SqlState;
use tokio_postgres::types::ToSql;

use super::client::Client;
use super::connect::{Endpoint, server_version};
use super::{describe, long_work, plan, schema};
use crate::engine::{EngineError, Progress, ProgressUnit, Stop};
use crate::stats::target::{Privilege, Settled};

/// Refuses a run with UPDATEs that is sure to fail on `primary`.
pub fn check_updates(primary: &Endpoint, schemas: &[u32]) -> Result<(), EngineError> {
    let server = primary.name.as_str();
    let doing = "asking whether it takes UPDATEs";
    let mut client = primary.connect("petal")?;
    let refused = |why: String| Err(EngineError::Environment(format!("{server}: {why}")));
    let sql = "SELECT pg_is_in_recovery(), current_setting('transaction_read_only')::boolean, \
               current_user::text";
    let row = client.ask_row(doing, sql, &[])?;
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
        let sql = "SELECT has_table_privilege($1::text, 'UPDATE')";
        if !client.ask_value::<bool>(doing, sql, &[&table])? {
            return refused(format!(
                "role {role} may not UPDATE {table}: GRANT SELECT, UPDATE ON {table} TO {role}, or \
                 run with UPDATE_PCT=0"
            ));
        }
    }
    Ok(())
}

/// Refuses two primaries of what was one cluster: after a promotion their data go apart.
pub fn check_one_primary(servers: &[Endpoint]) -> Result<(), EngineError> {
    let mut primaries: BTreeMap<i64, &str> = BTreeMap::new();
    for endpoint in servers {
        let sql = "SELECT pg_is_in_recovery(), system_identifier FROM pg_control_system()";
        let row = endpoint.connect("petal")?.ask_row("asking which cluster it is", sql, &[])?;
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

/// What the role may do at a server, by what petal does there. Tables are asked about if loaded.
pub fn privileges(endpoint: &Endpoint, schemas: &[u32]) -> Result<Vec<Privilege>, EngineError> {
    let mut client = endpoint.connect("petal")?;
    let version = server_version(&mut client)?;
    plan::apply_privileged(&mut client)?;
    let mut ask = |sql: &str| is_granted(&mut client, sql, schemas);
    let mut privileges = vec![Privilege {
        what: "load and drop".to_owned(),
        is_granted: ask("SELECT has_database_privilege(current_database(), 'CREATE')")?,
        without: "The role cannot load data here; runs on loaded data do not need it.".to_owned(),
        advice: "GRANT CREATE ON DATABASE ... TO the role".to_owned(),
    }];
    if schemas.is_empty() {
        // The check of the timing itself reports on loaded data.
        privileges.push(Privilege {
            what: "I/O timing".to_owned(),
            is_granted: ask("SELECT current_setting('track_io_timing')::boolean")?,
            without: "The latency of a single-block read is then unknown.".to_owned(),
            advice: describe::UNTIMED.to_owned(),
        });
    } else {
        privileges.extend([
            Privilege {
                what: "UPDATEs".to_owned(),
                is_granted: ask(
                    "SELECT NOT current_setting('transaction_read_only')::boolean AND \
                 bool_and(has_table_privilege(format('petal%s.cf1', number), 'UPDATE')) \
                 FROM unnest($1::int[]) AS number",
                )?,
                without: "The role can only run with UPDATE_PCT=0.".to_owned(),
                advice: "GRANT SELECT, UPDATE ON ALL TABLES IN SCHEMA petal1 TO the role"
                    .to_owned(),
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
        ]);
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

fn is_granted(client: &mut Client, sql: &str, schemas: &[u32]) -> Result<bool, EngineError> {
    let numbers: Vec<i32> = schemas.iter().map(|&number| number.cast_signed()).collect();
    let of_tables: &[&(dyn ToSql + Sync)] = &[&numbers];
    let parameters = if sql.contains("$1") { of_tables } else { &[] };
    let answer: Option<bool> = client.ask_value("asking for privileges", sql, parameters)?;
    Ok(answer.unwrap_or(false))
}

pub struct Settling<'a> {
    pub endpoint: &'a Endpoint,
    /// Whether autovacuum is to work on the main tables from now on.
    pub autovacuum: bool,
    pub progress: &'a dyn Progress,
    pub stop: &'a Stop,
}

impl Settling<'_> {
    /// Vacuums main tables that were updated since, then checkpoints. A stop ends either at once.
    pub fn run(&self, schemas: &[u32]) -> Result<Settled, EngineError> {
        let begin = Instant::now();
        let mut client = long_work::open(self.endpoint, "petal settle")?.client;
        let is_over = || self.stop.is_requested();
        let mut pay = |work: &mut dyn FnMut(&mut Client) -> Result<bool, EngineError>| {
            long_work::until_over(self.endpoint, &mut client, &is_over, &|| (), work)
        };
        let is_standby =
            pay(&mut |client| client.ask_value("settling", "SELECT pg_is_in_recovery()", &[]))?;
        let schemas = if is_standby { &[] } else { schemas };
        self.progress.phase("settling", schemas.len() as u64 + 1, ProgressUnit::Items);
        let (mut vacuumed, mut as_asked) = (0, 0);
        for &number in schemas {
            if self.stop.is_requested() {
                return Err(EngineError::Interrupted);
            }
            vacuumed += usize::from(pay(&mut |client| vacuum(client, number))?);
            let mut switch = |client: &mut Client| set_autovacuum(client, number, self.autovacuum);
            as_asked += usize::from(pay(&mut switch)?);
            self.progress.advance(1);
        }
        let mut done = vec![format!("{vacuumed} main tables vacuumed")];
        let skipped = schemas.len() - vacuumed;
        if skipped > 0 {
            done.push(format!(
                "{skipped} main tables not vacuumed: the role may not (it must own them, or have \
                 MAINTAIN, version 17 and later); dead rows of the run before are cleared in this one"
            ));
        }
        if self.autovacuum {
            done.push(format!("autovacuum on for {as_asked} main tables"));
        }
        let others = schemas.len() - as_asked;
        if others > 0 {
            done.push(format!(
                "autovacuum of {others} main tables left as it is: the role must own them"
            ));
        }
        if pay(&mut |client| if_allowed(client, "CHECKPOINT", "checkpointing"))? {
            done.push("checkpoint".to_owned());
        } else {
            done.push(
                "no checkpoint: the role may not (GRANT pg_checkpoint, version 15 and later); \
                 dirty blocks of the run before are written in this one"
                    .to_owned(),
            );
        }
        self.progress.advance(1);
        Ok(Settled { seconds: begin.elapsed().as_secs_f64(), done, ..Settled::default() })
    }
}

/// Passes over pages that are settled: cheap where nothing changed. False if the role may not.
fn vacuum(client: &mut Client, number: u32) -> Result<bool, EngineError> {
    let name = format!("{}.cf1", schema::name(number));
    if !may_vacuum(client, &name)? {
        return Ok(false);
    }
    client.run(&format!("vacuuming {name}"), &format!("VACUUM {name}")).map(|()| true)
}

/// Sets autovacuum of the main table. False where it is otherwise and the role may not.
fn set_autovacuum(client: &mut Client, number: u32, on: bool) -> Result<bool, EngineError> {
    let name = format!("{}.cf1", schema::name(number));
    let doing = format!("setting autovacuum of {name}");
    if client.ask_value::<bool>(&doing, AUTOVACUUM, &[&name])? == on {
        return Ok(true);
    }
    let sql = format!("ALTER TABLE {name} SET (autovacuum_enabled = {on})");
    if_allowed(client, &sql, &doing)
}

/// Executes a statement; false where the role may not.
fn if_allowed(client: &mut Client, sql: &str, doing: &str) -> Result<bool, EngineError> {
    match client.batch_execute(sql) {
        Ok(()) => Ok(true),
        Err(error) if error.code() == Some(&SqlState::INSUFFICIENT_PRIVILEGE) => Ok(false),
        Err(error) => Err(client.error(doing, &error)),
    }
}

const AUTOVACUUM: &str = "SELECT coalesce((SELECT option_value::boolean \
     FROM pg_options_to_table(reloptions) WHERE option_name = 'autovacuum_enabled'), true) \
     FROM pg_class WHERE oid = $1::text::regclass";

/// Asked before: VACUUM of a table that is not the role's is passed over with a mere warning.
fn may_vacuum(client: &mut Client, table: &str) -> Result<bool, EngineError> {
    let maintain = match server_version(client)? {
        170_000.. => "has_table_privilege(c.oid, 'MAINTAIN')",
        _ => "false",
    };
    let sql = format!(
        "SELECT pg_has_role(c.relowner, 'USAGE') OR pg_has_role(d.datdba, 'USAGE') OR {maintain} \
         FROM pg_class c, pg_database d \
         WHERE c.oid = $1::text::regclass AND d.datname = current_database()"
    );
    client.ask_value(&format!("asking who may vacuum {table}"), &sql, &[&table])
}
