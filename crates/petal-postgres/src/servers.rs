//! The servers of a run, and questions to each before any session connects: whether it takes
//! UPDATEs and the role may make them, how many sessions it admits, where it runs, and how its
//! clock differs. Then petal pays the debts of the run before: dead rows, hint bits, dirty pages.

use std::collections::BTreeMap;
use std::time::Instant;

use tokio_postgres::error::SqlState;

use super::answer::{Columns as _, NonNegative};
use super::client::Client;
use super::connect::{Endpoint, is_refusal, server_version};
use super::options::Options;
use super::this_host::{self, LocalPostgres};
use super::{locks, long_work, neighbours, publications, schema};
use petal_engine::server::clock::{self, ClockReading};
use petal_engine::server::data_name::data_name;
use petal_engine::server::login::FirstLogins;
use petal_engine::server::room::{self, Need, RESERVE_BYTES};
use petal_engine::server::servers::Servers;
use petal_engine::url_option::process_environment;
use petal_engine::{EngineError, Progress, ProgressUnit, Result, Stop};
use petal_host::os::ServerProcesses;
use petal_record::target::Settled;
use petal_record::verification::Recovery;
use petal_settings::Settings;

/// The servers that the URL and SLOB's parameters name; setup's may be the URL's own host.
pub fn of_run(settings: &Settings) -> Result<Servers<Endpoint>> {
    let (url, environment) = (&settings.db, &process_environment);
    let logins = FirstLogins::new(settings);
    let command = settings.password_command.as_deref();
    let all = |options| Endpoint::all(options, command, &logins);
    let by_url = || all(Options::new(url, environment)?);
    let by_service = |name: &str| all(Options::of_service(url, name, environment)?);
    let names_host = url.server().is_some_and(|server| !server.hosts.is_empty())
        || ["host", "service"].iter().any(|name| url.options.contains_key(*name));
    Servers::new(settings, by_url, by_service, names_host, |server| &server.name)
}

pub fn is_standby(endpoint: &Endpoint) -> Result<bool> {
    let doing = "asking whether it is a standby";
    endpoint.connect("petal")?.ask_value(doing, "SELECT pg_catalog.pg_is_in_recovery()", &[])
}

/// Returns a standby's replay position in its primary's log; None for a server that is no standby.
pub fn recovery(endpoint: &Endpoint) -> Result<Option<Recovery>> {
    let row = endpoint.connect("petal verify")?.ask_row(
        "asking how far it has replayed",
        "SELECT pg_catalog.pg_is_in_recovery(), pg_catalog.pg_last_wal_replay_lsn()::pg_catalog.text, \
                pg_catalog.pg_last_wal_receive_lsn()::pg_catalog.text, \
                pg_catalog.to_char(pg_catalog.timezone('UTC', \
                    pg_catalog.pg_last_xact_replay_timestamp()), 'YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"')",
        &[],
    )?;
    if !row.read::<bool>(0)? {
        return Ok(None);
    }
    Ok(Some(Recovery {
        server: endpoint.name.clone(),
        replayed: row.read(1)?,
        received: row.read(2)?,
        replayed_until: row.read(3)?,
        ..Recovery::default()
    }))
}

/// Names of the standbys that commits of this role wait for, how many of them, and how many are
/// connected; NULL if the role may not see that. No row if commits wait for none.
const SYNCHRONOUS: &str = "\
SELECT setting, wanted, CASE WHEN hidden THEN NULL ELSE connected END
FROM (SELECT setting, coalesce(pg_catalog.substring(setting,
             '(?i)^\\s*(?:first|any)?\\s*(\\d+)\\s*\\(')::pg_catalog.int8, 1) AS wanted
      FROM pg_catalog.pg_settings WHERE name = 'synchronous_standby_names') AS asked,
     (SELECT pg_catalog.count(*) FILTER (WHERE sync_state IN ('sync', 'quorum')) AS connected,
             coalesce(pg_catalog.bool_or(sync_state IS NULL), false) AS hidden
      FROM pg_catalog.pg_stat_replication) AS there
WHERE pg_catalog.btrim(setting) <> '' AND NOT pg_catalog.pg_is_in_recovery()
  AND pg_catalog.current_setting('synchronous_commit') NOT IN ('off', 'local')";

/// Refuses a server whose commits wait for standbys that are not connected, if the role may know.
pub fn check_standbys(endpoint: &Endpoint) -> Result<()> {
    let mut client = endpoint.connect_to_look("petal check")?;
    let rows = match client.query(SYNCHRONOUS, &[]) {
        Err(error) if is_refusal(&error) => return Ok(()),
        rows => rows.map_err(|it| client.error("asking for its synchronous standbys", &it))?,
    };
    let Some(row) = rows.first() else { return Ok(()) };
    let (names, wanted): (String, i64) = (row.read(0)?, row.read(1)?);
    match row.read::<Option<i64>>(2)? {
        Some(connected) if connected < wanted => Err(EngineError::Environment(format!(
            "{}: each commit waits for {wanted} synchronous standby (synchronous_standby_names = \
             '{names}'), and {connected} are connected: start it, or take its name out; \
             synchronous_commit = local for petal's role does not wait",
            endpoint.name
        ))),
        _ => Ok(()),
    }
}

/// The process with the oldest snapshot, if replaced rows of petal's tables are still there after VACUUM. A
/// role that may not see others' snapshots gets no name.
pub fn snapshot_holder(endpoint: &Endpoint) -> Result<Option<String>> {
    const KEPT: &str = "SELECT coalesce(sum(n_dead_tup), 0)::pg_catalog.int8 \
        FROM pg_catalog.pg_stat_all_tables \
        WHERE relname = 'cf1' AND pg_catalog.starts_with(schemaname::pg_catalog.text, $1)";
    let mut client = endpoint.connect_to_look("petal check")?;
    let doing = "asking for replaced rows";
    let kept: i64 = client.ask_value(doing, KEPT, &[&data_name()])?;
    if kept == 0 {
        return Ok(None);
    }
    let rows = client.ask(doing, locks::SNAPSHOTS, &[])?;
    let holder = locks::snapshot_holder(&rows);
    Ok(Some(format!("{holder} holds a snapshot, which keeps {kept} replaced rows")))
}

/// The system and the timeline of a server; `None` if it does not say them, as some hosted ones.
pub fn identity(client: &mut Client) -> Result<(Option<String>, Option<u64>)> {
    const SYSTEM: &str = "SELECT control.system_identifier::pg_catalog.text, \
        CASE WHEN pg_catalog.pg_is_in_recovery() THEN checkpoint.timeline_id \
        ELSE pg_catalog.concat('x', pg_catalog.left(pg_catalog.pg_walfile_name( \
            pg_catalog.pg_current_wal_insert_lsn()), 8))::pg_catalog.bit(32)::pg_catalog.int4 END \
        FROM pg_catalog.pg_control_system() AS control, \
        pg_catalog.pg_control_checkpoint() AS checkpoint";
    let row = match client.query_one(SYSTEM, &[]) {
        Err(error) if error.code().is_some() => return Ok((None, None)),
        answer => answer.map_err(|error| client.error("asking for its system", &error))?,
    };
    let NonNegative(timeline) = row.read(1)?;
    Ok((row.read(0)?, Some(timeline)))
}

/// Connections free for this role: without those reserved for others or held by them. None if the role
/// may not know.
pub fn free_connections(endpoint: &Endpoint) -> Result<Option<i64>> {
    let mut client = endpoint.connect("petal")?;
    let [slots, taken, of_role, of_database] = ADMITTED
        .map(|sql| client.ask_if_allowed::<i64>("asking how many sessions it admits", sql, &[]));
    // This connection is counted, and goes.
    let taken = taken?.map(|taken| taken.saturating_sub(1));
    let free = slots?.zip(taken).map(|(slots, taken)| slots.saturating_sub(taken));
    // -1 is no limit.
    let limits = [of_role?, of_database?].map(|limit| limit.filter(|limit| *limit >= 0));
    Ok(limits.into_iter().flatten().chain(free).min())
}

/// Questions for the connections that a role may have at a server, those that all roles have, and the limits
/// of the role and the database. Each is asked alone: a refusal hides no other limit.
const ADMITTED: [&str; 4] = [
    "SELECT pg_catalog.current_setting('max_connections')::bigint \
     - CASE WHEN (SELECT rolsuper FROM pg_catalog.pg_roles WHERE rolname = current_user) THEN 0 \
       ELSE pg_catalog.current_setting('superuser_reserved_connections')::bigint \
       + CASE WHEN EXISTS (SELECT FROM pg_catalog.pg_roles \
                           WHERE rolname = 'pg_use_reserved_connections' \
                           AND pg_catalog.pg_has_role(oid, 'USAGE')) THEN 0 \
         ELSE coalesce(pg_catalog.current_setting('reserved_connections', true)::bigint, 0) \
         END END",
    "SELECT coalesce(pg_catalog.sum(numbackends), 0)::bigint FROM pg_catalog.pg_stat_database",
    "SELECT rolconnlimit::bigint FROM pg_catalog.pg_roles WHERE rolname = current_user",
    "SELECT datconnlimit::bigint FROM pg_catalog.pg_database \
     WHERE datname = pg_catalog.current_database()",
];

/// The server's processes: each session has its own process, a child of one parent.
pub fn processes(endpoint: &Endpoint) -> Option<ServerProcesses> {
    let mut client = endpoint.connect_to_look("petal describe").ok()?;
    this_host::processes(&mut client)
}

/// Space that the log of a server on this host may still take, and a reserve for others: its limit
/// is a soft one.
pub fn log_needs(client: &mut Client, server: &LocalPostgres) -> Result<Vec<Need>> {
    let sql = "SELECT pg_catalog.pg_size_bytes(pg_catalog.current_setting('max_wal_size')) \
               + coalesce(pg_catalog.pg_size_bytes( \
                   pg_catalog.current_setting('wal_keep_size', true)), 0)";
    let NonNegative(most) = client.ask_value("asking how long its log may get", sql, &[])?;
    let Some(folder) = server.log_folder() else { return Ok(Vec::new()) };
    // Files of the log that are there are used again.
    let files = std::fs::read_dir(&folder).into_iter().flatten().flatten();
    let there: u64 = files.filter_map(|file| Some(file.metadata().ok()?.len())).sum();
    Ok(vec![
        Need::new(&folder, "the log (max_wal_size)", most.saturating_sub(there)),
        Need::new(&folder, "others, in reserve", RESERVE_BYTES),
    ])
}

/// Refuses UPDATEs at a server on this host whose log has no room; false for one elsewhere.
pub fn check_log_room(endpoint: &Endpoint) -> Result<bool> {
    let mut client = endpoint.connect("petal")?;
    let Some(Ok(server)) = LocalPostgres::find(endpoint, &mut client) else { return Ok(false) };
    let needs = log_needs(&mut client, &server)?;
    room::check(&endpoint.name, "a run with UPDATEs", &needs).map(|()| true)
}

pub fn clock(endpoint: &Endpoint) -> Option<ClockReading> {
    let mut client = endpoint.connect_to_look("petal describe").ok()?;
    let sql = "SELECT extract(epoch FROM pg_catalog.clock_timestamp())::pg_catalog.float8";
    // Prepared, a question and its answer are one round trip.
    let question = client.prepare(sql).ok()?;
    clock::read(|| client.query_one(&question, &[]).ok()?.try_get(0).ok())
}

/// Refuses a run with UPDATEs that is sure to fail on `primary`.
pub fn check_updates(primary: &Endpoint, schemas: &[u32]) -> Result<()> {
    let server = primary.name.as_str();
    let mut client = primary.connect("petal")?;
    let refused = |why: String| Err(EngineError::Environment(format!("{server}: {why}")));
    let sql = "SELECT pg_catalog.pg_is_in_recovery(), \
        pg_catalog.current_setting('transaction_read_only')::boolean, \
               current_user::pg_catalog.text";
    let row = client.ask_row(ASKING_UPDATES, sql, &[])?;
    let role: String = row.read(2)?;
    if row.read(0)? {
        return refused(
            "is a standby, which only reads: name the primary as well (postgres://standby,\
             primary/db), or run with UPDATE_PCT=0"
                .to_owned(),
        );
    }
    if row.read(1)? {
        return refused(format!(
            "role {role} only reads (default_transaction_read_only): run with another role, or \
             with UPDATE_PCT=0"
        ));
    }
    for &number in schemas {
        if !may_update(&mut client, number)? {
            let table = format!("{}.cf1", schema::name(number));
            return refused(format!(
                "role {role} may not UPDATE {table}: GRANT SELECT, UPDATE ON {table} TO {role}, or \
                 run with UPDATE_PCT=0"
            ));
        }
    }
    match publications::refusal(&mut client, schemas)? {
        None => Ok(()),
        Some(why) => refused(format!("{why}, or run with UPDATE_PCT=0")),
    }
}

/// Whether the role may UPDATE a schema's main table. If the server refuses the question, it plans an UPDATE.
pub fn may_update(client: &mut Client, number: u32) -> Result<bool> {
    let table = format!("{}.cf1", schema::name(number));
    let sql = "SELECT pg_catalog.has_table_privilege($1::pg_catalog.text, 'UPDATE')";
    match client.ask_if_allowed(ASKING_UPDATES, sql, &[&table])? {
        Some(may) => Ok(may),
        None => {
            let sql = format!("EXPLAIN UPDATE {table} SET c2 = c2 WHERE custid = 0");
            if_allowed(client, &sql, ASKING_UPDATES)
        }
    }
}

const ASKING_UPDATES: &str = "asking whether it takes UPDATEs";

/// Refuses two primaries of a former cluster: after a promotion their data diverge.
pub fn check_one_primary(servers: &[Endpoint]) -> Result<()> {
    let mut primaries: BTreeMap<i64, &str> = BTreeMap::new();
    for endpoint in servers {
        let sql = "SELECT pg_catalog.pg_is_in_recovery(), system_identifier FROM \
            pg_catalog.pg_control_system()";
        let row = endpoint.connect("petal")?.ask_row("asking which cluster it is", sql, &[])?;
        if row.read(0)? {
            continue;
        }
        if let Some(other) = primaries.insert(row.read(1)?, &endpoint.name)
            && other != endpoint.name
        {
            return Err(EngineError::Environment(format!(
                "{other} and {} were one cluster and are both primaries now: a standby was \
                 promoted, and their data diverge; leave out the one that is not to be measured",
                endpoint.name
            )));
        }
    }
    Ok(())
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
    pub fn run(&self, schemas: &[u32]) -> Result<Settled> {
        let begin = Instant::now();
        let mut client = long_work::open(self.endpoint, "petal settle")?.client;
        long_work::refuse_pgpool(&mut client)?;
        let is_over = || self.stop.is_requested();
        let mut pay = |work: &mut dyn FnMut(&mut Client) -> Result<bool>| {
            long_work::until_over(self.endpoint, &mut client, &is_over, &|| (), work)
        };
        let is_standby = pay(&mut |client| {
            client.ask_value(
                "settling",
                "SELECT \
                pg_catalog.pg_is_in_recovery()",
                &[],
            )
        })?;
        let schemas = if is_standby { &[] } else { schemas };
        self.progress.phase("settling", schemas.len() as u64 + 1, ProgressUnit::Items);
        let (mut vacuumed, mut as_asked) = (0, 0);
        for &number in schemas {
            if self.stop.is_requested() {
                return Err(EngineError::Interrupted);
            }
            // One that the role may not drop stays.
            pay(&mut |client| Ok(neighbours::drop_leftover(client, number).is_ok()))?;
            vacuumed += usize::from(pay(&mut |client| vacuum(client, number))?);
            let mut switch = |client: &mut Client| set_autovacuum(client, number, self.autovacuum);
            as_asked += usize::from(pay(&mut switch)?);
            self.progress.advance(1);
        }
        let mut done = vec![format!("{vacuumed} main tables vacuumed")];
        let skipped = schemas.len() - vacuumed;
        if skipped > 0 {
            done.push(format!(
                "{skipped} main tables not vacuumed: the role does not own them and lacks MAINTAIN \
                 (version 17 and later); dead rows of the run before are cleared in this one"
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
                "no checkpoint: the role lacks pg_checkpoint (version 15 and later) or superuser; \
                 dirty blocks of the run before are written in this one"
                    .to_owned(),
            );
        }
        self.progress.advance(1);
        Ok(Settled { seconds: begin.elapsed().as_secs_f64(), done, ..Settled::default() })
    }
}

/// Vacuums a table, which skips settled pages. Returns false without the privilege.
fn vacuum(client: &mut Client, number: u32) -> Result<bool> {
    let name = format!("{}.cf1", schema::name(number));
    if !may_vacuum(client, &name)? {
        return Ok(false);
    }
    client.run(&format!("vacuuming {name}"), &format!("VACUUM {name}")).map(|()| true)
}

/// Sets autovacuum of the main table. False if it is otherwise and the role may not.
fn set_autovacuum(client: &mut Client, number: u32, on: bool) -> Result<bool> {
    let name = format!("{}.cf1", schema::name(number));
    let doing = format!("setting autovacuum of {name}");
    if client.ask_if_allowed(&doing, AUTOVACUUM, &[&name])? == Some(on) {
        return Ok(true);
    }
    let sql = format!("ALTER TABLE {name} SET (autovacuum_enabled = {on})");
    if_allowed(client, &sql, &doing)
}

/// Executes a statement; false if the role may not.
fn if_allowed(client: &mut Client, sql: &str, doing: &str) -> Result<bool> {
    match client.batch_execute(sql) {
        Ok(()) => Ok(true),
        Err(error)
            if error.code().is_some_and(|code| {
                *code == SqlState::INSUFFICIENT_PRIVILEGE
                    || *code == SqlState::READ_ONLY_SQL_TRANSACTION
            }) =>
        {
            Ok(false)
        }
        Err(error) => Err(client.error(doing, &error)),
    }
}

const AUTOVACUUM: &str = "SELECT coalesce((SELECT option_value::boolean \
     FROM pg_catalog.pg_options_to_table(reloptions) WHERE option_name = 'autovacuum_enabled'), \
     true) \
     FROM pg_catalog.pg_class WHERE oid = $1::pg_catalog.text::pg_catalog.regclass";

/// Asked before: VACUUM of a table that is not the role's is passed over with a mere warning.
fn may_vacuum(client: &mut Client, table: &str) -> Result<bool> {
    let version = server_version(client)?;
    let owns = "SELECT pg_catalog.pg_has_role(c.relowner, 'USAGE') OR pg_catalog.pg_has_role(d.datdba, 'USAGE') \
         FROM pg_catalog.pg_class c, pg_catalog.pg_database d \
         WHERE c.oid = $1::pg_catalog.text::pg_catalog.regclass AND d.datname = pg_catalog.current_database()";
    let maintains = "SELECT pg_catalog.has_table_privilege($1::pg_catalog.text, 'MAINTAIN')";
    let doing = format!("asking who may vacuum {table}");
    // Each is asked alone: an owner needs no answer to the other.
    let mut ask = |sql| client.ask_if_allowed::<bool>(&doing, sql, &[&table]);
    let is_owner = ask(owns)? == Some(true);
    Ok(is_owner || version >= 170_000 && ask(maintains)? == Some(true))
}
