//! Rights and settings of a role that a load or a run depends on, for `petal check`. Loads and runs pass if it
//! passes.

use tokio_postgres::error::SqlState;
use tokio_postgres::types::ToSql;

use super::client::{Client, Error};
use super::connect::{Endpoint, server_version, words};
use super::load::MAY_CREATE;
use super::this_host::LocalPostgres;
use super::{
    describe, locks, long_work, plan, publications, rights, schema, servers, session_server, trust,
};
use petal_engine::Result;
use petal_engine::server::own_files;
use petal_engine::server::wait_monitor::OLD_SNAPSHOT;
use petal_record::target::Privilege;

const READ_ONLY: &str =
    "take a primary, and a role and a database without default_transaction_read_only";

fn privilege(what: &str, is_granted: bool, without: &str, advice: &str) -> Privilege {
    let [what, without, advice] = [what, without, advice].map(str::to_owned);
    Privilege { what, is_granted, is_needed: false, without, advice }
}

/// The role's privileges at a server, by petal's steps there. Tables are asked about if loaded.
pub fn privileges(endpoint: &Endpoint, schemas: &[u32]) -> Result<Vec<Privilege>> {
    let mut client = endpoint.connect("petal")?;
    long_work::refuse_pgpool(&mut client)?;
    plan::apply_privileged(&mut client)?;
    let writes = "SELECT NOT pg_catalog.current_setting('transaction_read_only')::boolean";
    let writes = is_granted(&mut client, writes, schemas)?;
    let load = of_load(&mut client, writes)?;
    let mut privileges = vec![Privilege { is_needed: schemas.is_empty(), ..load }];
    privileges.extend(match schemas {
        [] => before_load(&mut client)?,
        _ => on_tables(&mut client, schemas, writes)?,
    });
    let of_loop = session_server::refusal(&mut client, schemas)?;
    privileges.push(Privilege {
        is_needed: true,
        ..privilege(
            "LOOP=server",
            of_loop.is_none(),
            "The role can only run with LOOP=client.",
            of_loop.as_deref().unwrap_or_default(),
        )
    });
    if privileges.first().is_some_and(|load| load.is_granted) {
        privileges.push(event_triggers(&mut client, schemas.is_empty())?);
    }
    let counted = "SELECT pg_catalog.current_setting('track_counts')::boolean";
    privileges.push(Privilege {
        is_needed: true,
        ..privilege(
            "track_counts",
            is_granted(&mut client, counted, schemas)?,
            "The server does not count reads of petal's tables: PIOPS of reads is then the whole server's (16 and later), \
             or unknown.",
            "ALTER ROLE ... SET track_counts = on, by a superuser",
        )
    });
    let holder = locks::old_snapshot(&mut client);
    privileges.push(Privilege {
        is_needed: true,
        ..privilege(
            "no old snapshots",
            holder.is_none(),
            OLD_SNAPSHOT,
            holder.as_deref().unwrap_or_default(),
        )
    });
    let refused = rights::refused(&mut client, ["pg_stat_activity", "pg_stat_get_activity"])?;
    let advice = match &refused {
        Some(names) => &format!("GRANT the role the use of {names} (pg_catalog)"),
        None => "GRANT pg_monitor TO the role that the user becomes (ALTER ROLE ... SET role)",
    };
    privileges.push(privilege(
        "own sessions",
        is_granted(
            &mut client,
            "SELECT state IS NOT NULL FROM pg_catalog.pg_stat_activity \
             WHERE pid = pg_catalog.pg_backend_pid()",
            &[],
        )?,
        "Waits of petal's sessions are then unknown.",
        advice,
    ));
    let here = LocalPostgres::find(endpoint, &mut client).map(|found| {
        let server = found?;
        let seen = schemas.first().map(|&first| server.folders(&mut client, first));
        let seen = seen.transpose().map_err(|error| error.to_string())?;
        seen.transpose().map(|_| server.files)
    });
    privileges.extend(own_files::rights(here));
    if server_version(&mut client)? >= 150_000 {
        privileges.push(privilege(
            "checkpoint",
            is_granted(
                &mut client,
                "SELECT pg_catalog.pg_has_role('pg_checkpoint', 'USAGE')",
                &[],
            )?,
            "Dirty blocks of a run are then written in the next one, within its figures.",
            "GRANT pg_checkpoint TO the role",
        ));
    }
    Ok(privileges)
}

fn of_load(client: &mut Client, writes: bool) -> Result<Privilege> {
    let refused = rights::refused(client, rights::LOAD)?;
    let may_create = match client.ask_if_allowed("asking for privileges", MAY_CREATE, &[])? {
        Some(may_create) => may_create,
        None => tries(client, "CREATE SCHEMA petal_tried"),
    };
    Ok(privilege(
        "load and drop",
        writes && refused.is_none() && may_create,
        "The role cannot load data here; runs on loaded data do not need it.",
        &match refused {
            Some(names) => format!("GRANT the role the use of {names} (pg_catalog)"),
            None if !writes => READ_ONLY.to_owned(),
            None => "GRANT CREATE ON DATABASE ... TO the role".to_owned(),
        },
    ))
}

/// Whether the server lets the role do this, in a transaction that petal rolls back; an error that is not about
/// privileges is for another check to name.
fn tries(client: &mut Client, sql: &str) -> bool {
    let tried = client.batch_execute(&format!("BEGIN; {sql}"));
    let _ = client.batch_execute("ROLLBACK");
    tried.map_or_else(|error| error.code() != Some(&SqlState::INSUFFICIENT_PRIVILEGE), |()| true)
}

/// Event triggers that are on.
const EVENT_TRIGGERS: &str = "SELECT pg_catalog.string_agg(evtname::pg_catalog.text, ', ') FROM \
     pg_catalog.pg_event_trigger WHERE evtenabled <> 'D'";
/// Names of a schema that petal makes only in a transaction that it rolls back.
const TRIED: [&str; 2] = ["petal_tried_loading", "petal_tried"];

/// Whether the database's event triggers let a load and a drop pass. If there are any, petal tries the statements of
/// both in a transaction that it rolls back.
fn event_triggers(client: &mut Client, is_before_load: bool) -> Result<Privilege> {
    let doing = "asking for event triggers";
    let names: Option<Option<String>> = client.ask_if_allowed(doing, EVENT_TRIGGERS, &[])?;
    let names = names.flatten().unwrap_or_default();
    let refused = if names.is_empty() { None } else { refused_step(client) };
    let (without, advice) = refused.as_ref().map_or(Default::default(), |(without, error)| {
        let disable = "exempt petal's role, or ALTER EVENT TRIGGER ... DISABLE";
        (*without, format!("{} (event triggers: {names}); {disable}", words(error)))
    });
    let seen = privilege("event triggers", refused.is_none(), without, &advice);
    Ok(Privilege { is_needed: is_before_load, ..seen })
}

/// The first of both steps that the server refuses, in words, with its error.
fn refused_step(client: &mut Client) -> Option<(&'static str, Error)> {
    let [loading, tried] = TRIED;
    let load = format!(
        "{}; {}; ALTER SCHEMA {loading} RENAME TO {tried}",
        schema::create_tables(loading, None).trim_end().trim_end_matches(';'),
        schema::create_index(loading, false, None).trim_end().trim_end_matches(';'),
    );
    let mut refused = None;
    match client.batch_execute(&format!("BEGIN; {load}")) {
        Err(error) => refused = Some(("They refuse the statements of a load.", error)),
        Ok(()) => {
            let drop = schema::drop(client, tried);
            if let Some(Err(error)) = drop.ok().map(|sql| client.batch_execute(&sql)) {
                refused = Some(("They refuse petal drop: loaded data stay.", error));
            }
        }
    }
    let _ = client.batch_execute("ROLLBACK");
    refused
}

/// Triggers on petal's tables, whose functions are of roles that petal trusts: of others it reads no table.
const TRIGGERS: &str = "SELECT pg_catalog.string_agg(tgname::pg_catalog.text || ' on ' || \
     tgrelid::pg_catalog.regclass::pg_catalog.text, ', ') FROM pg_catalog.pg_trigger \
     WHERE NOT tgisinternal AND tgenabled <> 'D' AND tgrelid IN \
     (SELECT pg_catalog.to_regclass(pg_catalog.format('petal%s.cf1', number)) \
      FROM pg_catalog.unnest($1::int[]) AS number)";

/// The default of UPDATE_PCT is not 0.
fn updates(is_granted: bool, advice: &str) -> Privilege {
    let without = "The role can only run with UPDATE_PCT=0.";
    Privilege { is_needed: true, ..privilege("UPDATEs", is_granted, without, advice) }
}

/// Settings for a load. If data are loaded, other checks report on them.
fn before_load(client: &mut Client) -> Result<Vec<Privilege>> {
    let mut ask = |sql: &str| is_granted(client, sql, &[]);
    let mut privileges = vec![
        privilege(
            "I/O timing",
            ask("SELECT pg_catalog.current_setting('track_io_timing')::boolean")?,
            "Single-block read is then by another clock: the server's calls, the device, or petal's operations.",
            describe::UNTIMED,
        ),
        privilege(
            "temporary files",
            ask("SELECT pg_catalog.current_setting('temp_file_limit') = '-1'")?,
            "A load sorts the keys of its index in temporary files, and fails at temp_file_limit.",
            "a temp_file_limit of 1 % of the data or more, or -1",
        ),
    ];
    let refused = rights::refused(client, trust::table_names())?;
    privileges.push(Privilege {
        is_needed: true,
        ..privilege(
            "runs",
            refused.is_none(),
            "Before a run reads the tables it looks for code of others on them, and for other runs.",
            &refused.map_or_else(String::new, |names| {
                format!("GRANT the role the use of {names} (pg_catalog)")
            }),
        )
    });
    let published = publications::refusal_after_load(client)?;
    privileges.push(updates(published.is_none(), published.as_deref().unwrap_or_default()));
    Ok(privileges)
}

fn on_tables(client: &mut Client, schemas: &[u32], writes: bool) -> Result<Vec<Privilege>> {
    let published = publications::refusal(client, schemas)?;
    let numbers: Vec<i32> = schemas.iter().map(|&number| number.cast_signed()).collect();
    let triggers: Option<Option<String>> =
        client.ask_if_allowed("asking for triggers", TRIGGERS, &[&numbers])?;
    let triggers = triggers.flatten();
    let mut may_update = true;
    for &number in schemas {
        may_update = may_update && servers::may_update(client, number)?;
    }
    Ok(vec![
        Privilege {
            is_needed: true,
            ..privilege(
                "no triggers",
                triggers.is_none(),
                "They run with each UPDATE: it may fail, and its figures are also theirs.",
                &format!("DROP TRIGGER {}", triggers.unwrap_or_default()),
            )
        },
        updates(
            may_update && writes && published.is_none(),
            match &published {
                Some(published) => published,
                None if !writes => READ_ONLY,
                None => "GRANT SELECT, UPDATE ON ALL TABLES IN SCHEMA petal1 TO the role",
            },
        ),
        privilege(
            "vacuum",
            is_granted(
                client,
                "SELECT pg_catalog.bool_and(pg_catalog.pg_has_role(relowner, 'USAGE')) FROM \
                pg_catalog.pg_class \
                 WHERE oid = ANY (SELECT pg_catalog.format('petal%s.cf1', \
                 number)::pg_catalog.regclass \
                                  FROM pg_catalog.unnest($1::int[]) AS number)",
                schemas,
            )?,
            "Dead rows of a run are then cleared in the next one, within its figures.",
            "run as the role that loaded (17 and later: GRANT MAINTAIN)",
        ),
    ])
}

fn is_granted(client: &mut Client, sql: &str, schemas: &[u32]) -> Result<bool> {
    let numbers: Vec<i32> = schemas.iter().map(|&number| number.cast_signed()).collect();
    let of_tables: &[&(dyn ToSql + Sync)] = &[&numbers];
    let parameters = if sql.contains("$1") { of_tables } else { &[] };
    let answer = client.ask_if_allowed::<Option<bool>>("asking for privileges", sql, parameters)?;
    Ok(answer.flatten().unwrap_or(false))
}
