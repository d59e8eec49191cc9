//! The page of managed services: its grants are enough for a load and a run of a role without superuser.

use crate::privileges::unknown;
use crate::support::{Workplace, findings, record};
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
