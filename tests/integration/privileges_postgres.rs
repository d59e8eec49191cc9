//! Refusals of PostgreSQL to a role without superuser: each function and view that petal's statements name,
//! each grant that its page names, and settings of roles, databases and tables.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::OnceLock;

use proptest::strategy::{Just, Strategy as _, ValueTree as _};
use proptest::test_runner::TestRunner;

use crate::privileges::{self, Effect, Limit, Limited};
use crate::server_postgres::{Server, is_there, shared};
use crate::support::{Workplace, is_long};

/// Names in petal's statements that the server may know in pg_catalog.
fn names() -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("crates/petal-postgres/src")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let text = fs::read_to_string(&path).unwrap();
            let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
            names.extend(words.filter(|word| (3..64).contains(&word.len())).map(str::to_owned));
        }
    }
    names
}

/// A revocation of each function and view of the system that petal's statements name.
fn revocations(server: &Server) -> Vec<Limit> {
    let names: Vec<String> = names().into_iter().collect();
    let mut client = server.client("postgres");
    let sql = "SELECT proname::text, array_agg('EXECUTE ON FUNCTION ' || oid::regprocedure) \
               FROM pg_proc WHERE pronamespace = 'pg_catalog'::regnamespace AND prokind <> 'p' \
               AND proname = ANY($1) GROUP BY 1 \
               UNION ALL SELECT relname::text, array['SELECT ON pg_catalog.' || relname] \
               FROM pg_class WHERE relnamespace = 'pg_catalog'::regnamespace \
               AND relkind IN ('v', 'r') AND relname = ANY($1) ORDER BY 1";
    let of_row = |row: postgres::Row| {
        let (name, objects): (String, Vec<String>) = (row.get(0), row.get(1));
        let revoke = |object: &String| format!("REVOKE {object} FROM PUBLIC");
        let sql: Vec<String> = objects.iter().map(revoke).collect();
        let limit = Limit { name: format!("no {name}"), sql, ..Limit::default() };
        match QUESTIONS.contains(&name.as_str()) {
            true => Limit { unnamed: RIGHTS.map(str::to_owned).to_vec(), ..limit },
            false => Limit { words: vec![name], ..limit },
        }
    };
    client.query(sql, &[&names]).unwrap().into_iter().map(of_row).collect()
}

/// Questions for privileges, which are not the privileges: no command needs an answer.
const QUESTIONS: [&str; 6] = [
    "has_database_privilege",
    "has_function_privilege",
    "has_language_privilege",
    "has_schema_privilege",
    "has_table_privilege",
    "has_tablespace_privilege",
];
/// Words of `petal check` for the privileges that petal asks for by them.
const RIGHTS: [&str; 3] = [
    "privilege: load and drop missing",
    "privilege: LOOP=server missing",
    "privilege: UPDATEs missing",
];
/// The loaded schema has no routine: petal makes it.
const NO_ROUTINE: &str = "no routine";

/// The role is not the database's owner.
const NOT_OWNER: &str = "ALTER DATABASE {database} OWNER TO petal; GRANT CREATE, TEMPORARY ON DATABASE {database} TO {role}";
const OF_ANOTHER: &str = "ALTER SCHEMA petal1 OWNER TO petal; ALTER TABLE petal1.cf1 OWNER TO petal; \
                          ALTER TABLE petal1.cf2 OWNER TO petal";

/// Limits with the words of `petal check`.
type Words = (&'static str, &'static [&'static str], &'static [&'static str]);

/// CHECKPOINT, and functions that see files and the control file: managed services keep them.
const NO_FILES: &str = "REVOKE pg_checkpoint FROM {role}; \
     REVOKE EXECUTE ON FUNCTION pg_control_checkpoint, pg_control_system, pg_stat_file(text), \
     pg_stat_file(text, boolean), pg_read_file(text), pg_ls_dir(text), pg_ls_waldir FROM PUBLIC, pg_monitor";
const NO_LOG: &str = include_str!("postgres_managed.sql");

/// Grants that the role lacks, and settings of roles, databases and tables.
const LIMITS: &[Words] = &[
    ("managed", &[NO_FILES], &[]),
    ("managed without a log", &[NO_FILES, NO_LOG], &[]),
    ("no pg_monitor", &["REVOKE pg_monitor FROM {role}"], &[]),
    ("no pg_checkpoint", &["REVOKE pg_checkpoint FROM {role}"], &[]),
    (
        "no CREATE on the database",
        &[NOT_OWNER, "REVOKE CREATE ON DATABASE {database} FROM {role}"],
        &["privilege: load and drop missing"],
    ),
    (
        "no TEMPORARY on the database",
        &[NOT_OWNER, "REVOKE TEMPORARY ON DATABASE {database} FROM {role}, PUBLIC"],
        &[],
    ),
    (
        "no USAGE on PL/pgSQL",
        &["REVOKE USAGE ON LANGUAGE plpgsql FROM PUBLIC"],
        &["privilege: LOOP=server missing"],
    ),
    (NO_ROUTINE, &["DROP ROUTINE petal1.petal_run"], &[]),
    (
        "no EXECUTE by default",
        &["ALTER DEFAULT PRIVILEGES FOR ROLE {role} REVOKE EXECUTE ON FUNCTIONS FROM PUBLIC"],
        &[],
    ),
    (
        "SELECT on the data of another role",
        &[
            OF_ANOTHER,
            "GRANT USAGE ON SCHEMA petal1 TO {role}; GRANT SELECT ON ALL TABLES IN SCHEMA petal1 TO {role}",
        ],
        &["privilege: UPDATEs missing"],
    ),
    (
        "nothing on the data of another role",
        &[OF_ANOTHER],
        &["permission denied for schema petal1"],
    ),
    ("no INSERT", &["REVOKE INSERT ON petal1.cf1, petal1.cf2 FROM {role}"], &[]),
    (
        "no UPDATE",
        &["REVOKE UPDATE ON petal1.cf1, petal1.cf2 FROM {role}"],
        &["privilege: UPDATEs missing"],
    ),
    (
        "no SELECT",
        &["REVOKE SELECT ON petal1.cf1, petal1.cf2 FROM {role}"],
        &["permission denied for table cf1"],
    ),
    (
        "role only reads",
        &["ALTER ROLE {role} SET default_transaction_read_only = on"],
        &["default_transaction_read_only"],
    ),
    (
        "database only reads",
        &["ALTER DATABASE {database} SET default_transaction_read_only = on"],
        &["default_transaction_read_only"],
    ),
    ("two connections", &["ALTER ROLE {role} CONNECTION LIMIT 2"], &["CONNECTION LIMIT"]),
    (
        "two connections to the database",
        &["ALTER DATABASE {database} CONNECTION LIMIT 2"],
        &["CONNECTION LIMIT"],
    ),
    (
        "two connections without pg_stat_database",
        &[
            "ALTER ROLE {role} CONNECTION LIMIT 2; REVOKE SELECT ON pg_catalog.pg_stat_database FROM PUBLIC",
        ],
        // Its figures are named, too: they do not announce the limit.
        &["CONNECTION LIMIT"],
    ),
    (
        "row security",
        &["ALTER TABLE petal1.cf1 ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY"],
        &["row security"],
    ),
    (
        "statement_timeout",
        &["ALTER ROLE {role} SET statement_timeout = '300ms'"],
        &["statement_timeout"],
    ),
    ("lock_timeout", &["ALTER ROLE {role} SET lock_timeout = '10ms'"], &["lock_timeout"]),
    (
        "idle_in_transaction_session_timeout",
        &["ALTER ROLE {role} SET idle_in_transaction_session_timeout = '10ms'"],
        &["idle_in_transaction_session_timeout"],
    ),
    (
        "idle_session_timeout",
        &["ALTER ROLE {role} SET idle_session_timeout = '300ms'"],
        &["idle_session_timeout"],
    ),
    ("exit_on_error", &["ALTER ROLE {role} SET exit_on_error = on"], &[]),
    ("vacuum_cost_delay", &["ALTER ROLE {role} SET vacuum_cost_delay = '100ms'"], &[]),
    ("temp_file_limit", &["ALTER ROLE {role} SET temp_file_limit = 0"], &["temp_file_limit"]),
    ("publication", &["CREATE PUBLICATION of_all FOR ALL TABLES"], &["published"]),
    (
        "trigger",
        &["CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS \
           $$ BEGIN RAISE 'not on Sundays'; END $$; CREATE TRIGGER refused BEFORE UPDATE ON petal1.cf1 \
           FOR EACH ROW EXECUTE FUNCTION refuse()"],
        &["refused on petal1.cf1"],
    ),
    (
        "event trigger",
        &["CREATE FUNCTION refuse_all() RETURNS event_trigger LANGUAGE plpgsql AS \
           $$ BEGIN RAISE 'not on Sundays'; END $$; CREATE EVENT TRIGGER refused_all ON ddl_command_start \
           WHEN TAG IN ('CREATE SCHEMA', 'CREATE TABLE') EXECUTE FUNCTION refuse_all()"],
        &["event triggers: refused_all"],
    ),
    (
        "event trigger on routines",
        &["CREATE FUNCTION refuse_routines() RETURNS event_trigger LANGUAGE plpgsql AS \
           $$ BEGIN RAISE 'no procedures'; END $$; CREATE EVENT TRIGGER no_routines ON ddl_command_start \
           WHEN TAG IN ('CREATE PROCEDURE', 'CREATE FUNCTION') EXECUTE FUNCTION refuse_routines()"],
        &["privilege: LOOP=server missing"],
    ),
    (
        "event trigger on drops",
        &["CREATE FUNCTION refuse_drops() RETURNS event_trigger LANGUAGE plpgsql AS \
           $$ BEGIN RAISE 'no drops'; END $$; CREATE EVENT TRIGGER no_drops ON sql_drop \
           EXECUTE FUNCTION refuse_drops()"],
        &["event triggers: no_drops"],
    ),
    (
        "default_tablespace",
        &["ALTER ROLE {role} SET default_tablespace = 'none'"],
        &["default_tablespace"],
    ),
    (
        "serializable",
        &["ALTER ROLE {role} SET default_transaction_isolation = serializable; \
           ALTER ROLE {role} SET default_transaction_deferrable = on"],
        &["default_transaction"],
    ),
    (
        "settings of plans",
        &[
            "ALTER ROLE {role} SET enable_indexscan = off; ALTER ROLE {role} SET enable_bitmapscan = off; \
           ALTER ROLE {role} SET enable_seqscan = off; ALTER ROLE {role} SET plan_cache_mode = force_generic_plan; \
           ALTER ROLE {role} SET work_mem = '64kB'; ALTER ROLE {role} SET max_parallel_workers_per_gather = 8; \
           ALTER ROLE {role} SET jit_above_cost = 0",
        ],
        &[],
    ),
    (
        "settings of texts",
        &[
            "ALTER ROLE {role} SET client_encoding = latin1; ALTER ROLE {role} SET datestyle = german; \
           ALTER ROLE {role} SET standard_conforming_strings = off; ALTER ROLE {role} SET bytea_output = escape; \
           ALTER ROLE {role} SET search_path = ''; ALTER ROLE {role} SET intervalstyle = iso_8601; \
           ALTER ROLE {role} SET array_nulls = off; ALTER ROLE {role} SET transform_null_equals = on; \
           ALTER ROLE {role} SET quote_all_identifiers = on; ALTER ROLE {role} SET extra_float_digits = -15; \
           ALTER ROLE {role} SET client_min_messages = error; ALTER ROLE {role} SET timezone = 'Asia/Kathmandu'",
        ],
        &[],
    ),
    (
        "settings of rows",
        &[
            "ALTER ROLE {role} SET row_security = off; ALTER ROLE {role} SET check_function_bodies = off; \
           ALTER ROLE {role} SET synchronous_commit = off; ALTER ROLE {role} SET session_replication_role = replica; \
           ALTER ROLE {role} SET track_activities = off; ALTER ROLE {role} SET track_counts = off",
        ],
        &["track_counts", "track_activities"],
    ),
];

/// Words of `petal check` for limits that no command fails with.
const PASSED: [(&str, &str); 3] = [
    ("managed", "privilege: checkpoint missing"),
    ("managed without a log", "privilege: checkpoint missing"),
    ("no pg_checkpoint", "privilege: checkpoint missing"),
];

/// A server with the data of a load in the database `loaded`.
fn server() -> &'static Server {
    static LOADED: OnceLock<()> = OnceLock::new();
    let server = shared();
    LOADED.get_or_init(|| {
        let url = server.url("limited_loaded").replace("petal@", "limited_owner@");
        let sql = "CREATE ROLE limited_owner LOGIN; GRANT CREATE ON DATABASE limited_loaded TO limited_owner";
        server.client("postgres").batch_execute(sql).unwrap();
        let work = Workplace::new();
        let load = ["setup", "-s", "1", "--scale", "1024", "--scan-table-sz", "16", "--db", &url];
        work.petal(load).exits(0);
    });
    server
}

/// A copy of both databases, with the limit, for a role of its own.
fn limited<'a>(server: &Server, limit: &'a Limit) -> Limited<'a> {
    let role = privileges::name();
    let mut admin = server.client("postgres");
    for sql in [
        format!("CREATE ROLE {role} LOGIN"),
        format!("GRANT pg_monitor, pg_checkpoint TO {role}"),
        format!("CREATE DATABASE {role}_empty OWNER {role}"),
        format!("CREATE DATABASE {role}_loaded TEMPLATE limited_loaded OWNER {role}"),
    ] {
        admin.batch_execute(&sql).unwrap();
    }
    let own = format!("REASSIGN OWNED BY limited_owner TO {role}");
    server.client(&format!("{role}_loaded")).batch_execute(&own).unwrap();
    let urls = ["empty", "loaded"].map(|which| {
        let database = format!("{role}_{which}");
        let mut client = server.client(&database);
        for sql in &limit.sql {
            let sql = sql.replace("{role}", &role).replace("{database}", &database);
            if which == "loaded" || !sql.contains("petal1") {
                client.batch_execute(&sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
            }
        }
        let url = server.url("limited_loaded").replace("petal@", &format!("{role}@"));
        url.replace("limited_loaded", &database)
    });
    let [empty, loaded] = urls;
    Limited { limit, name: role, empty, loaded }
}

fn hold(limits: &[Limit]) -> Vec<(String, Effect)> {
    let server = server();
    let free = limited(server, &Limit::new("nothing", &[], &[])).free();
    privileges::hold(limits, |limit| {
        let limited = limited(server, limit);
        let effect = limited.holds(&free);
        for which in ["empty", "loaded"] {
            let sql = format!("DROP DATABASE {}_{which}", limited.name);
            server.client("postgres").batch_execute(&sql).unwrap();
        }
        effect
    })
}

/// Rows of every `make test`.
const SAMPLE: [&str; 16] = [
    // Questions for privileges: all goes on without an answer.
    "no has_function_privilege",
    "no has_table_privilege",
    "no has_database_privilege + no has_tablespace_privilege",
    "no routine",
    // The check names the privilege that is missing all the same.
    "no has_function_privilege + no clock_timestamp + no pg_stat_wal",
    "no has_table_privilege + no pg_settings + no pg_stat_wal",
    "no has_table_privilege + no UPDATE",
    "no has_database_privilege + no CREATE on the database",
    "no pg_stat_database",
    "two connections without pg_stat_database",
    "no pg_monitor + managed without a log",
    "exit_on_error + vacuum_cost_delay + no pg_monitor",
    "role only reads",
    "publication",
    "event trigger on routines",
    "event trigger on drops",
];

/// Every row alone and then several at once, as drawn at random; or those of PETAL_TEST_ROWS, such as
/// `no UPDATE + md5,row security`.
#[test]
fn what_check_passes_a_run_does() {
    if !is_there() {
        return;
    }
    let limits = LIMITS.iter().map(|(name, sql, words)| {
        let passed = PASSED.iter().filter(|(limit, _)| limit == name);
        let passed = passed.map(|(_, words)| (*words).to_owned()).collect();
        let unnamed: &[&str] = if *name == NO_ROUTINE { &RIGHTS } else { &[] };
        let unnamed = unnamed.iter().map(|&words| words.to_owned()).collect();
        Limit { passed, unnamed, ..Limit::new(name, sql, words) }
    });
    let all: Vec<Limit> = limits.chain(revocations(server())).collect();
    let rows = std::env::var("PETAL_TEST_ROWS").unwrap_or_else(|_| SAMPLE.join(","));
    let of_row = |row: &str| -> Vec<Limit> {
        let of_name = |name: &str| all.iter().find(|limit| limit.name == name).unwrap().clone();
        row.split(" + ").map(of_name).collect()
    };
    if !is_long() {
        let tried: Vec<Limit> = rows.split(',').map(|row| Limit::all(&of_row(row))).collect();
        for (name, Effect { unknown, .. }) in hold(&tried) {
            // What the server refuses to everybody costs its own figures alone.
            let is_without_log = name.ends_with("managed without a log");
            let costs =
                ["redo_bytes", "checkpoints"].iter().all(|figure| unknown.contains(*figure));
            assert!(!is_without_log || costs, "{name}: {unknown:?}");
        }
        return;
    }
    privileges::write("PostgreSQL", hold(&all));
    let drawn = Just(all).prop_shuffle().new_tree(&mut TestRunner::default());
    let several: Vec<Limit> = drawn.unwrap().current().chunks(4).map(Limit::all).collect();
    hold(&several);
}
