//! The page of managed services: its grants are enough for a load and a run of a role without superuser.

use std::time::Duration;
use std::{fs, thread};

use crate::privileges::unknown;
use crate::support::{Workplace, findings, record, timeline};
use crate::versions::headline;
use crate::{server_mysql, server_postgres};

const PAGE: &str = include_str!("../../docs/recipes/managed.md");

/// The statements of a part of the page, for a role and a database of this name.
fn statements(part: &str, name: &str) -> Vec<String> {
    let (_, after) = PAGE.split_once(part).unwrap();
    let block = after.split("```").nth(1).unwrap();
    let lines = block.lines().map(|line| line.split("  --").next().unwrap());
    lines.map(|line| line.replace("petal", name)).filter(|line| !line.is_empty()).collect()
}

/// Loads and runs by a URL, and asserts that the first line is filled.
fn assert_filled(url: &str) {
    let work = Workplace::new();
    work.petal(["check", "--db", url]).ends();
    work.petal(["setup", "-s", "1", "--scale", "1024", "--db", url]).exits(0);
    let run = ["run", "-t", "2", "--work-loop", "10", "--update-pct", "20", "--db", url];
    work.petal(run).ends();
    let run = record(&work.run_folder());
    let headline = headline(&run);
    assert!(headline["PIOPS"].contains("reads, writes"), "{:?} {headline:?}", unknown(&run));
    assert_eq!(headline["redo"], "known", "{:?}", findings(&run));
}

#[test]
fn grants_of_the_page_fill_the_headline_on_postgresql() {
    if !server_postgres::is_there() {
        return;
    }
    let server = server_postgres::shared();
    for statement in statements("\nPostgreSQL, as the service's administrator:", "of_page") {
        server.client("postgres").batch_execute(&statement).unwrap();
    }
    assert_filled(&format!("postgres://of_page@127.0.0.1:{}/of_page", server.port));
}

/// Servers hide the session of such a role from itself.
#[test]
fn a_role_that_becomes_another_is_on_this_host() {
    if !server_postgres::is_there() {
        return;
    }
    let (server, work) = (server_postgres::shared(), Workplace::new());
    for statement in [
        "CREATE ROLE becomes; CREATE ROLE logs_in LOGIN; GRANT becomes TO logs_in; \
         ALTER ROLE logs_in SET role = becomes",
        "CREATE DATABASE becomes OWNER becomes",
    ] {
        server.client("postgres").batch_execute(statement).unwrap();
    }
    let url = format!("postgres://logs_in@127.0.0.1:{}/becomes", server.port);
    let checked = work.petal(["check", "--full", "--db", &url]).ends();
    let words: Vec<&str> = checked.stdout.split_whitespace().collect();
    for seen in ["own sessions missing", "place of the data granted"] {
        assert!(words.join(" ").contains(seen), "{seen}: {}", checked.stdout);
    }
    work.petal(["setup", "-s", "1", "--scale", "1024", "--db", &url]).exits(0);
    work.petal(["run", "--work-loop", "10", "--db", &url]).ends();
    let run = record(&work.run_folder());
    assert_eq!(run["details"]["target"]["local"], true, "{:#}", run["details"]["target"]);
}

#[test]
fn grants_of_the_page_fill_the_headline_on_mysql() {
    if !server_mysql::is_there() {
        return;
    }
    let server = server_mysql::shared();
    let url = server.url("of_page").replace("root@", "of_page@");
    for statement in statements("\nMySQL and MariaDB, with", "of_page") {
        let statement = statement.replace("'%'", "localhost").replace("'...'", "''");
        server.sql("", &statement.replace("DATABASE of", "DATABASE IF NOT EXISTS of"));
    }
    assert_filled(&url);
}

#[test]
fn views_that_the_page_grants_on_rds_for_oracle_are_those_of_the_script() {
    let script = include_str!("../../docs/engines/oracle-grants.sql");
    let (_, part) = script.split_once("-- 3. ").unwrap();
    let (part, _) = part.split_once("-- 4. ").unwrap();
    let views = part.lines().filter_map(|line| line.strip_prefix("GRANT SELECT ON sys."));
    let expected: Vec<String> = views
        .map(|line| line.trim_end_matches(" TO petal;").to_uppercase())
        .map(|view| {
            format!("EXEC rdsadmin.rdsadmin_util.grant_sys_object('{view}', 'PETAL', 'SELECT');")
        })
        .collect();
    let lines = PAGE.lines().filter(|line| line.starts_with("EXEC "));
    assert_eq!(lines.collect::<Vec<_>>(), expected);
    assert!(expected.len() > 15);
}

/// A server that times no reads and compiles each question, and roles that it refuses one thing each.
#[test]
fn what_a_role_is_refused_costs_its_own_figures_and_has_its_reason() {
    if !server_postgres::is_there() {
        return;
    }
    let settings = ["shared_buffers=1MB", "jit_above_cost=0", "jit=on"];
    let server = server_postgres::Server::start(&settings);
    let sql = "CREATE ROLE plain LOGIN; GRANT pg_monitor TO plain; CREATE ROLE uncounted LOGIN IN ROLE plain; \
               ALTER ROLE uncounted SET track_counts = off; GRANT CREATE ON DATABASE refused TO plain";
    let url = server.tcp_url("refused");
    let mut admin = server.client("refused");
    admin.batch_execute(sql).unwrap();
    let of_role = |role: &str| url.replace("petal@", &format!("{role}@"));
    let work = Workplace::new();
    work.petal(["setup", "-s", "1", "--scale", "2048", "--db", &of_role("plain")]).exits(0);
    let checked = |role: &str| {
        let shown = work.petal(["check", "--full", "--db", &of_role(role)]).ends().stdout;
        shown.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let run = |role: &str, out: &str| {
        let (url, flags) = (of_role(role), ["--loop", "client", "--update-pct", "0"]);
        let run = [&["run", "-t", "2", "--run-time", "4", "--out", out, "--db", &url], &flags[..]];
        work.petal(run.concat()).exits(0);
        let folder = work.path(out).read_dir().unwrap().next().unwrap().unwrap();
        record(&folder.path())
    };
    let plain = run("plain", "plain");
    // The server compiles no question of the connection that counts: that would take most of a second.
    let folder = work.path("plain").read_dir().unwrap().next().unwrap().unwrap().path();
    let seconds = timeline(&folder);
    let counted =
        seconds.iter().filter(|second| second["io"]["physical_read_requests"].is_number());
    assert!(counted.count() >= 2, "{seconds:?}");
    let clock = headline(&plain)["read"].clone();
    assert!(["operations", "device", "server calls"].contains(&clock.as_str()), "{clock}");
    let uncounted = run("uncounted", "uncounted");
    let reason = &unknown(&uncounted)["physical_read_requests"];
    assert!(reason.contains("track_counts is off"), "{reason}");
    assert!(uncounted["per_second"]["physical_read_requests"].is_null(), "{reason}");
    assert!(checked("uncounted").contains("privilege: track_counts missing"));
    // A role that sees no session still knows its own process.
    admin
        .batch_execute(
            "REVOKE EXECUTE ON FUNCTION pg_stat_get_activity(int) FROM PUBLIC, pg_monitor",
        )
        .unwrap();
    let checked = checked("plain");
    for seen in ["place of the data granted", "the use of pg_stat_get_activity (pg_catalog)"] {
        assert!(checked.contains(seen), "{seen}: {checked}");
    }
}

/// Loads and runs with names in an URL, and asserts that petal finds the files.
fn assert_on_this_host(url: &str) {
    let work = Workplace::new();
    work.petal(["setup", "-s", "1", "--scale", "1024", "--db", url]).exits(0);
    let checked = work.petal(["check", "--full", "--db", url]).ends().stdout;
    let words: Vec<&str> = checked.split_whitespace().collect();
    assert!(words.join(" ").contains("place of the data granted"), "{url}: {checked}");
    work.petal(["run", "-t", "2", "--work-loop", "10", "--db", url]).ends();
    let target = record(&work.run_folder())["details"]["target"].clone();
    assert!(target["data_files"][0].is_string(), "{url}: {target:#}");
    work.petal(["drop", "--db", url]).exits(0);
}

#[test]
fn names_in_any_letters_and_bytes_keep_the_rows_and_the_device() {
    if !server_postgres::is_there() {
        return;
    }
    let (server, space) = (server_postgres::shared(), Workplace::new());
    fs::create_dir(space.path("spä")).unwrap();
    server.tablespace("of_bytes", &space.path("spä"));
    let databases = [
        ("Ünï \"q\" DB", "%C3%9Cn%C3%AF%20%22q%22%20DB", "UTF8"),
        ("Odd bytes", "Odd%20bytes", "SQL_ASCII"),
        ("Latin", "Latin", "LATIN1"),
    ];
    let mut admin = server.client("postgres");
    admin.batch_execute("CREATE ROLE \"Rö\"\"le É\" SUPERUSER LOGIN").unwrap();
    // The server's own database has no encoding: the sign is a byte that is no letter.
    let odd = "DO $$ BEGIN EXECUTE pg_catalog.format({}, 't' || chr(233)); END $$";
    admin.batch_execute(&odd.replace("{}", "'ALTER TABLESPACE of_bytes RENAME TO %I'")).unwrap();
    for (name, in_url, encoding) in databases {
        let name = format!("\"{}\"", name.replace('"', "\"\""));
        let sql = format!("CREATE DATABASE {name} ENCODING '{encoding}' TEMPLATE template0");
        admin.batch_execute(&sql).unwrap();
        for setting in ["default_tablespace = %I", "app.of_bytes = %L"] {
            let sql = odd.replace("{}", &format!("'ALTER DATABASE {name} SET {setting}'"));
            admin.batch_execute(&sql).unwrap();
        }
        let url = server
            .url("of_letters")
            .replace("petal@/of_letters", &format!("R%C3%B6%22le%20%C3%89@/{in_url}"));
        assert_on_this_host(&url);
    }
}

#[test]
fn names_in_any_letters_keep_the_rows_and_the_device_on_mysql() {
    if !server_mysql::is_there() {
        return;
    }
    let server = server_mysql::shared();
    let sql = "SET NAMES utf8mb4; CREATE DATABASE `dé-Ä.x 日`; CREATE USER 'Rö\\'le'@localhost; \
               GRANT ALL ON `dé-Ä.x 日`.* TO 'Rö\\'le'@localhost; \
               GRANT PROCESS ON *.* TO 'Rö\\'le'@localhost; \
               GRANT SELECT ON mysql.innodb_index_stats TO 'Rö\\'le'@localhost";
    server.sql("", sql);
    let in_url = "d%C3%A9-%C3%84.x%20%E6%97%A5";
    let url = server
        .url("of_letters")
        .replace("root@", "R%C3%B6'le@")
        .replace("/of_letters", &format!("/{in_url}"));
    assert_on_this_host(&url);
}

/// Loads, and asserts that `petal check` names the holder of an old snapshot, which `hold` begins.
fn assert_names_an_old_snapshot<T>(url: &str, hold: impl FnOnce() -> T, words: &[&str]) {
    let work = Workplace::new();
    work.petal(["setup", "-s", "1", "--scale", "1024", "--db", url]).exits(0);
    let checked = || {
        let shown = work.petal(["check", "--full", "--db", url]).ends().stdout;
        shown.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let held = hold();
    assert!(checked().contains("privilege: no old snapshots granted"), "a new one is usual work");
    thread::sleep(Duration::from_secs(11));
    let checked = checked();
    for words in words.iter().chain(&["privilege: no old snapshots missing"]) {
        assert!(checked.contains(words), "{words}: {checked}");
    }
    drop(held);
}

#[test]
fn check_names_the_holder_of_an_old_snapshot() {
    if !server_postgres::is_there() {
        return;
    }
    let server = server_postgres::shared();
    let hold = || {
        let mut client = server.client("old_snapshot");
        let begin =
            "SET application_name = 'forgotten'; BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1";
        client.batch_execute(begin).unwrap();
        client
    };
    let words = ["forgotten", "idle in transaction", "pg_terminate_backend("];
    assert_names_an_old_snapshot(&server.url("old_snapshot"), hold, &words);
}

#[test]
fn check_names_the_holder_of_an_old_snapshot_on_mysql() {
    if !server_mysql::is_there() {
        return;
    }
    let server = server_mysql::Server::start(&[]);
    let begin = "START TRANSACTION WITH CONSISTENT SNAPSHOT;\n";
    let hold = || server.session("old_snapshot", begin);
    let words = ["in a transaction for 1", "KILL"];
    assert_names_an_old_snapshot(&server.url("old_snapshot"), hold, &words);
}
