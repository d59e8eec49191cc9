//! Other roles' code in PostgreSQL, which petal's statements must not enter: functions, operators
//! and types that hide the system's own, another body of petal's routine, code on petal's tables.

use std::collections::BTreeSet;

use postgres::Client;

use crate::engine_postgres::load;
use crate::server_postgres::{Server, is_there, shared};
use crate::support::Workplace;

/// Words of SQL's own before a parenthesis, and petal's own names.
const OWN_WORDS: [&str; 35] = [
    "all",
    "and",
    "any",
    "array",
    "as",
    "by",
    "cf1",
    "cf2",
    "coalesce",
    "copy",
    "else",
    "execute",
    "exists",
    "explain",
    "extract",
    "filter",
    "from",
    "greatest",
    "in",
    "into",
    "lateral",
    "least",
    "nullif",
    "on",
    "or",
    "over",
    "petal_plan",
    "select",
    "set",
    "stdin",
    "stdout",
    "then",
    "values",
    "when",
    "with",
];
/// Types that the grammar itself finds in pg_catalog.
const OWN_TYPES: [&str; 6] = ["bigint", "boolean", "int", "integer", "interval", "smallint"];

/// How often a hostile twin of a function, an operator, a type or a relation was entered.
fn entered(client: &mut Client) -> bool {
    client.query_one("SELECT is_called FROM public.entered", &[]).unwrap().get(0)
}

#[test]
fn no_twin_of_the_systems_own_functions_operators_or_types_is_entered() {
    if !is_there() {
        return;
    }
    let settings = ["shared_buffers=32MB", "log_statement=all", "log_line_prefix=", "fsync=off"];
    let server = Server::start(&settings);
    let url = server.url("hijacked");
    let mut client = server.client("hijacked");
    client.batch_execute(include_str!("postgres_strangers.sql")).unwrap();
    let path = "ALTER DATABASE hijacked SET search_path = hostile, public, pg_catalog";
    client.batch_execute(path).unwrap();
    // The trap works: somebody who does not look out is caught.
    let caught = server.client("hijacked").query("SELECT count(1), 1 = 1", &[]);
    assert!(caught.is_err() && entered(&mut client));
    client.batch_execute("SELECT pg_catalog.setval('public.entered', 1, false)").unwrap();
    let planted = server.log().len();

    let work = Workplace::new();
    let mut petal = |args: &[&str]| {
        let ended = work.petal([args, &["--db", &url]].concat()).ends();
        assert!(!entered(&mut client), "{args:?}: {}", ended.stderr);
        // What `check` warns of is this machine's, and a page cache may serve some reads of `costs`.
        let is_done = match args[0] {
            "check" => true,
            "costs" => ended.stderr.contains("the costs are in"),
            _ => ended.code == Some(0),
        };
        assert!(is_done, "{args:?}: {}", ended.stderr);
    };
    let sized = ["setup", "-s", "2", "--scale", "8M", "--scan-table-sz", "1M"];
    petal(&sized);
    petal(&[&sized[..], &["--replace"]].concat());
    petal(&["check"]);
    for side in ["server", "client"] {
        let run = ["run", "-s", "2", "--work-loop", "40", "--update-pct", "10", "--scan-pct", "5"];
        let side = ["--loop", side, "--hot-schema-frequency", "5", "--ledger", side];
        petal(&[&run[..], &side, &["--redo-stress", "heavy"]].concat());
        petal(&["verify", side[1]]);
    }
    petal(&["profile", "--for", "2", "--every", "1"]);
    petal(&["drop"]);
    // It loads tables of its own.
    petal(&["costs", "--seconds", "1", "--sessions", "2", "--scale", "64M"]);
    // What is not found by the search_path at all cannot be found elsewhere, either.
    let sent = server.log().split_off(planted);
    let sent = statements(&sent);
    assert!(sent.len() > 200, "{}", sent.len());
    let loose: BTreeSet<String> = sent.iter().flat_map(|sql| unqualified(sql)).collect();
    assert!(loose.is_empty(), "{loose:#?}");
}

/// Statements of a server's log.
fn statements(log: &str) -> Vec<String> {
    let mut statements: Vec<String> = Vec::new();
    let mut is_statement = false;
    for line in log.lines() {
        let more = line.strip_prefix('\t');
        if let (Some(more), true) = (more, is_statement) {
            let statement = statements.last_mut().unwrap();
            statement.push('\n');
            statement.push_str(more);
            continue;
        }
        let begins = line.strip_prefix("LOG:  statement: ");
        let begins = begins
            .or_else(|| line.strip_prefix("LOG:  execute ")?.split_once(": ").map(|(_, sql)| sql));
        is_statement = begins.is_some();
        statements.extend(begins.map(str::to_owned));
    }
    statements
}

/// Functions, relations and types that a statement names without their schema.
fn unqualified(sql: &str) -> Vec<String> {
    let tokens = tokens(sql);
    let token = |at: usize| tokens.get(at).map_or("", String::as_str);
    let is_name =
        |text: &str| text.starts_with(|first: char| first.is_alphabetic() || first == '_');
    let defined: BTreeSet<&str> = (2..tokens.len())
        .filter(|&at| token(at) == "(" && token(at - 1) == "as" && is_name(token(at - 2)))
        .map(|at| token(at - 2))
        .collect();
    let mut found = Vec::new();
    for at in 1..tokens.len() {
        let (before, name, after) = (token(at - 1), token(at), token(at + 1));
        if !is_name(name) || before == "." {
            continue;
        }
        let is_call = after == "(" && !OWN_WORDS.contains(&name) && before != "as";
        let is_relation = ["from", "join"].contains(&before)
            && after != "."
            && !defined.contains(name)
            && !["stdin", "lateral", "rows"].contains(&name);
        let is_type = before == "::" && after != "." && !OWN_TYPES.contains(&name);
        if is_call || is_relation || is_type {
            found.push(format!("{name} in: {sql}"));
        }
    }
    found
}

/// Words, signs and nothing of literals and comments, in small letters.
fn tokens(sql: &str) -> Vec<String> {
    let mut tokens = Vec::new();
    let mut rest = sql;
    while let Some(first) = rest.chars().next() {
        let length = if rest.starts_with("--") {
            rest.find('\n').unwrap_or(rest.len())
        } else if first == '\'' {
            rest[1..].find('\'').map_or(rest.len(), |end| end + 2)
        } else if first.is_alphanumeric() || first == '_' {
            let end = |sign: char| !sign.is_alphanumeric() && sign != '_';
            rest.find(end).unwrap_or(rest.len())
        } else if rest.starts_with("::") {
            2
        } else {
            first.len_utf8()
        };
        let (token, more) = rest.split_at(length);
        if !token.starts_with("--") && !token.starts_with('\'') && !first.is_whitespace() {
            tokens.push(token.to_lowercase());
        }
        rest = more;
    }
    tokens
}

/// Makes a role that may load here.
fn role(client: &mut Client, name: &str, database: &str) {
    let sql = format!("CREATE ROLE {name} LOGIN; GRANT CREATE ON DATABASE {database} TO {name}");
    client.batch_execute(&sql).unwrap();
}

fn is_superuser(client: &mut Client, role: &str) -> bool {
    client.query_one("SELECT rolsuper FROM pg_roles WHERE rolname = $1", &[&role]).unwrap().get(0)
}

/// Another body for petal's routine, with the comment of petal's own.
fn with_another_body(routine: &str, role: &str) -> String {
    let mut parts: Vec<&str> = routine.split("$petal$").collect();
    let evil = format!("BEGIN ALTER ROLE {role} SUPERUSER; END");
    parts[1] = &evil;
    parts.join("$petal$")
}

/// The routine as the server shows it.
fn routine(client: &mut Client) -> String {
    let sql = "SELECT replace(pg_get_functiondef(oid), '$procedure$', '$petal$') FROM pg_proc \
               WHERE proname = 'petal_run' AND pronamespace = 'petal1'::regnamespace";
    client.query_one(sql, &[]).unwrap().get(0)
}

#[test]
fn another_body_of_the_routine_is_never_run() {
    if !is_there() {
        return;
    }
    let url = shared().url("lent");
    let mut client = shared().client("lent");
    role(&mut client, "lender", "lent");
    let of_lender = url.replace("petal@", "lender@");
    load(&of_lender, 1);
    let work = Workplace::new();
    let run = |url: &str, side: &str| {
        work.petal(["run", "--db", url, "--work-loop", "5", "--loop", side])
    };
    run(&of_lender, "server").exits(0);
    let evil = with_another_body(&routine(&mut client), "lender");
    client.batch_execute(&format!("SET ROLE lender; {evil}; RESET ROLE")).unwrap();
    for side in ["server", "client"] {
        run(&url, side).exits(3).telling(&["belongs to role lender", "connect as lender"]);
        work.petal(["check", "--db", &url]).ends().telling(&["belongs to role lender"]);
    }
    assert!(!is_superuser(&mut client, "lender"));
    // Who loaded has his own back.
    run(&of_lender, "server").exits(0);
    assert!(!routine(&mut client).contains("SUPERUSER"));
    // The superuser's own schema, in which the role may make what it likes.
    let own = "ALTER SCHEMA petal1 OWNER TO petal; ALTER TABLE petal1.cf1 OWNER TO petal; \
               ALTER TABLE petal1.cf2 OWNER TO petal; ALTER TABLE petal1.petal_meta OWNER TO petal; \
               GRANT ALL ON SCHEMA petal1 TO lender";
    let taken = "COMMENT ON PROCEDURE petal1.petal_run IS 'loop of petal, version 5'; \
                 CREATE PROCEDURE petal1.petal_run(a integer) LANGUAGE sql AS 'SELECT 1'";
    client.batch_execute(own).unwrap();
    client.batch_execute(&format!("SET ROLE lender; {evil}; {taken}; RESET ROLE")).unwrap();
    run(&url, "server").exits(0);
    assert!(!is_superuser(&mut client, "lender"));
    assert!(!routine(&mut client).contains("SUPERUSER"));
}

#[test]
fn an_ordinary_role_runs_only_data_of_its_own_or_of_a_superuser() {
    if !is_there() {
        return;
    }
    let url = shared().url("borrowed");
    let mut client = shared().client("borrowed");
    ["owning", "borrowing"].iter().for_each(|name| role(&mut client, name, "borrowed"));
    load(&url.replace("petal@", "owning@"), 1);
    let work = Workplace::new();
    let of_borrowing = url.replace("petal@", "borrowing@");
    let run = || work.petal(["run", "--db", &of_borrowing, "--work-loop", "5", "--loop", "client"]);
    let granted = "GRANT USAGE ON SCHEMA petal1 TO borrowing; \
                   GRANT SELECT, UPDATE ON ALL TABLES IN SCHEMA petal1 TO borrowing";
    client.batch_execute(granted).unwrap();
    // The owner could make a trigger at any moment of the run.
    run().exits(3).telling(&["belongs to role owning", "connect as owning"]);
    client.batch_execute("GRANT owning TO borrowing").unwrap();
    run().exits(0);
    let given = "REVOKE owning FROM borrowing; REASSIGN OWNED BY owning TO petal";
    client.batch_execute(given).unwrap();
    run().exits(0);
}

/// What others can put on tables, how petal names it, and how it goes away.
const CONTENTS: [(&str, &str, &str); 10] = [
    (
        "CREATE ROLE laden_app; CREATE SCHEMA laden_app AUTHORIZATION laden_app; \
         GRANT USAGE ON SCHEMA petal1 TO laden_app; GRANT TRIGGER ON petal1.cf1 TO laden_app; \
         SET ROLE laden_app; CREATE FUNCTION laden_app.evil() RETURNS trigger LANGUAGE plpgsql \
         AS 'BEGIN RETURN NEW; END'; CREATE TRIGGER evil BEFORE UPDATE ON petal1.cf1 FOR EACH ROW \
         EXECUTE FUNCTION laden_app.evil(); RESET ROLE",
        "petal1.cf1 has trigger evil",
        "DROP TRIGGER evil ON petal1.cf1; REVOKE TRIGGER ON petal1.cf1 FROM laden_app",
    ),
    (
        "GRANT ALL ON petal1.cf2 TO laden_app",
        "petal1.cf2 lets role laden_app create triggers",
        "REVOKE ALL ON petal1.cf2 FROM laden_app",
    ),
    (
        "CREATE RULE evil AS ON UPDATE TO petal1.cf1 DO ALSO NOTHING",
        "petal1.cf1 has rule evil",
        "DROP RULE evil ON petal1.cf1",
    ),
    (
        "ALTER TABLE petal1.cf2 ENABLE ROW LEVEL SECURITY",
        "petal1.cf2 has row security",
        "ALTER TABLE petal1.cf2 DISABLE ROW LEVEL SECURITY",
    ),
    (
        "ALTER TABLE petal1.cf1 ADD CONSTRAINT evil CHECK (length(c2) > 0) NOT VALID",
        "petal1.cf1 has check constraint evil",
        "ALTER TABLE petal1.cf1 DROP CONSTRAINT evil",
    ),
    (
        "CREATE TABLE evil_child () INHERITS (petal1.cf1)",
        "petal1.cf1 inherits or is inherited",
        "DROP TABLE evil_child",
    ),
    (
        "CREATE INDEX evil ON petal1.cf2 (lower(c2))",
        "petal1.cf2 has index evil",
        "DROP INDEX petal1.evil",
    ),
    (
        "ALTER TABLE petal1.cf2 ADD d bigint GENERATED ALWAYS AS (custid + 1) STORED",
        "petal1.cf2 has column d",
        "ALTER TABLE petal1.cf2 DROP d",
    ),
    (
        "CREATE DOMAIN evil AS text; ALTER TABLE petal1.cf1 ALTER c20 TYPE evil",
        "petal1.cf1 has column c20",
        "ALTER TABLE petal1.cf1 ALTER c20 TYPE text",
    ),
    (
        "ALTER TABLE petal1.petal_meta RENAME TO kept; \
         CREATE VIEW petal1.petal_meta AS SELECT * FROM petal1.kept",
        "petal1.petal_meta is no plain table",
        "DROP VIEW petal1.petal_meta; ALTER TABLE petal1.kept RENAME TO petal_meta",
    ),
];

#[test]
fn foreign_objects_on_petals_tables_are_refused_by_name() {
    if !is_there() {
        return;
    }
    let url = shared().url("laden");
    load(&url, 1);
    let mut client = shared().client("laden");
    let work = Workplace::new();
    for (made, named, gone) in CONTENTS {
        client.batch_execute(made).unwrap();
        let ended = work.petal(["run", "--db", &url, "--work-loop", "5"]).exits(3);
        ended.telling(&[named, "remove it"]);
        client.batch_execute(gone).unwrap();
    }
    work.petal(["run", "--db", &url, "--work-loop", "5"]).exits(0);
}
