//! Facts on which a run relies: if a setting, a limit or a server changes during it, the record
//! says what changed, when, and what it means.

use std::path::Path;

use serde_json::Value;

use crate::engine_postgres::load;
use crate::questions::first_screen;
use crate::server_mysql;
use crate::server_postgres::{Server, is_there};
use crate::support::{ControlGroup, Ended, Running, Workplace, number, record, seconds_in, until};

/// Waits until a second of the only run is written.
fn until_second(work: &Workplace, run: &mut Running, seconds: usize) {
    run.until("a second", || work.seconds().len() >= seconds);
}

/// The message of a finding of the newest run.
#[track_caller]
pub fn finding(work: &Workplace, id: &str) -> String {
    let run = record(&work.runs().pop().unwrap());
    let all = run["findings"].as_array().unwrap().iter();
    let ids: Vec<&Value> = all.clone().map(|finding| &finding["id"]).collect();
    let found = all.clone().find(|finding| finding["id"] == id);
    found.unwrap_or_else(|| panic!("no {id}: {ids:?}"))["message"].as_str().unwrap().to_owned()
}

#[test]
fn a_processor_quota_that_is_set_in_the_run_is_named_with_its_second() {
    const FILE: &str = "cpu.cfs_quota_us";
    let Some(group) = ControlGroup::with("cpu", FILE, "-1") else { return };
    let work = Workplace::loaded(1, "8M");
    let args = ["run", "-t", "2", "--run-time", "5", "--update-pct", "0"];
    let mut run = work.petal(args).watching().after(&group.joined()).start();
    until_second(&work, &mut run, 2);
    group.set(FILE, "15000");
    let changed = format!("{FILE}: -1 -> 15000 in second ");
    let done = run.ends().exited(1).telling(&[&changed]);
    // Why did the rate fall?
    let shown = first_screen(&done.stdout, 12);
    assert!(shown.contains(" invalid (limits-changed) ") && shown.contains(&changed), "{shown}");
    let message = finding(&work, "limits-changed");
    let named = format!("/petal-test-{}/{FILE}: -1 -> 15000 in second ", std::process::id());
    assert!(message.contains(&named), "{message}");
    // Its periods are counted from then on, and its use is known.
    let record = record(&work.run_folder());
    let figures = record.pointer("/os/database_host/group").unwrap();
    assert_eq!(figures["granted_processors"], 0.15, "{figures}");
    assert!(figures["throttled_periods"].as_u64().unwrap() > 0, "{figures}");
}

/// A run of UPDATEs, which the change within it makes invalid.
pub fn changed_in_run(work: &Workplace, url: &str, change: impl FnOnce()) -> String {
    run_during(work, url, change).exited(1).stdout
}

/// A run of UPDATEs, during which `change` happens.
fn run_during(work: &Workplace, url: &str, change: impl FnOnce()) -> Ended {
    let before = work.runs().len();
    let args = ["run", "-s", "1", "--run-time", "4", "--update-pct", "50", "--db", url];
    let mut run = work.petal(args).start();
    run.until("its folder", || work.runs().len() > before);
    until_second(work, &mut run, 1);
    change();
    run.ends()
}

fn durable(run: &Path) -> Value {
    record(run).pointer("/details/target/durability").unwrap().clone()
}

#[test]
fn settings_of_postgres_that_change_in_the_run_are_named_and_decide_durability() {
    if !is_there() {
        return;
    }
    let server = Server::start(&[]);
    let url = server.url("facts");
    load(&url, 1);
    let mut client = server.client("facts");
    let mut alter = |sql: &str| {
        client.batch_execute(sql).unwrap();
        client.batch_execute("SELECT pg_reload_conf()").unwrap();
    };
    let work = Workplace::new();
    let shown = changed_in_run(&work, &url, || alter("ALTER SYSTEM SET fsync = off"));
    // May I trust "durable"?
    let shown = first_screen(&shown, 12);
    assert!(shown.contains(" invalid (settings-changed) "), "{shown}");
    assert!(
        shown.contains("fsync: on -> off in second ") && shown.contains("not-durable"),
        "{shown}"
    );
    let message = finding(&work, "settings-changed");
    assert!(message.contains("fsync: on -> off in second "), "{message}");
    assert!(finding(&work, "not-durable").contains("fsync=off"));
    assert_eq!(durable(&work.run_folder())["durable"], false);
    // Back in time for the end: the run was not durable all the same.
    let _ = changed_in_run(&work, &url, || {
        alter("ALTER SYSTEM RESET fsync");
        alter("ALTER SYSTEM SET wal_writer_delay = '300ms'");
    });
    let message = finding(&work, "settings-changed");
    assert!(message.contains("fsync: off -> on in second "), "{message}");
    assert!(message.contains("wal_writer_delay: 200ms -> 300ms"), "{message}");
    assert!(finding(&work, "not-durable").contains("fsync=off"));
    // Set and set back between two looks: the reload is named.
    let _ = run_during(&work, &url, || {
        alter("ALTER SYSTEM SET fsync = off");
        alter("ALTER SYSTEM RESET fsync");
    });
    let message = finding(&work, "settings-changed");
    assert!(message.contains("last reload of the server's settings: "), "{message}");
    sweeps_leave_settings_of_others(&work, &server);
}

/// Its tables are a part of the run's world: their trace in the log, and others' code on them.
#[test]
fn tables_of_postgres_that_change_in_the_run_are_named_and_decide_durability() {
    if !is_there() {
        return;
    }
    let server = Server::start(&[]);
    let url = server.url("facts");
    load(&url, 1);
    let mut client = server.client("facts");
    let work = Workplace::new();
    let unlogged = "ALTER TABLE petal1.cf1 SET UNLOGGED";
    let shown = changed_in_run(&work, &url, || client.batch_execute(unlogged).unwrap());
    assert!(first_screen(&shown, 12).contains(" invalid (settings-changed) "), "{shown}");
    let message = finding(&work, "settings-changed");
    let named = "petal's tables changed during the run: petal1.cf1: logged -> UNLOGGED ";
    assert!(message.contains(named), "{message}");
    assert!(finding(&work, "not-durable").contains("petal1.cf1 is UNLOGGED"));
    // Before a run it is not durable, and the limit is no storage's.
    client
        .batch_execute(
            "CREATE FUNCTION rests() RETURNS trigger LANGUAGE plpgsql AS \
             'BEGIN PERFORM pg_sleep(0.05); RETURN NEW; END'; \
             CREATE TRIGGER slow BEFORE UPDATE ON petal1.cf1 FOR EACH STATEMENT EXECUTE FUNCTION rests()",
        )
        .unwrap();
    let shown = run_during(&work, &url, || {}).exited(0).stdout;
    assert_eq!(durable(&work.runs().pop().unwrap())["durable"], false);
    assert!(shown.contains("valid test of waits in the database, not of the storage"), "{shown}");
    assert!(shown.contains("PgSleep"), "{shown}");
}

/// A trigger that was made in the run is others' code in its figures.
#[test]
fn a_trigger_that_is_made_in_the_run_of_mariadb_makes_it_invalid() {
    if server_mysql::mariadb().is_none() {
        return;
    }
    let server = server_mysql::Server::start(&[]);
    let url = server.url("facts");
    let work = Workplace::new();
    let size = ["--scale", "1024", "--scan-table-sz", "0", "--db", &url];
    work.petal([&["setup", "-s", "1"], &size[..]].concat()).exits(0);
    let trigger =
        "CREATE TRIGGER slow BEFORE UPDATE ON petal1_cf1 FOR EACH ROW SET NEW.c2 = NEW.c2";
    let shown = changed_in_run(&work, &url, || drop(server.sql("facts", trigger)));
    assert!(first_screen(&shown, 12).contains(" invalid (settings-changed) "), "{shown}");
    let message = finding(&work, "settings-changed");
    assert!(message.contains("petal1_cf1 has trigger slow"), "{message}");
}

/// From its description of the server on each change is the run's own: settling may take minutes.
#[test]
fn a_setting_that_changes_while_the_run_settles_is_named_and_decides_durability() {
    if !is_there() {
        return;
    }
    let server = Server::start(&[]);
    let url = server.url("facts");
    load(&url, 1);
    let (mut holder, mut client) = (server.client("facts"), server.client("facts"));
    let lock = "LOCK TABLE petal1.cf1 IN SHARE UPDATE EXCLUSIVE MODE";
    let mut held = holder.transaction().unwrap();
    held.batch_execute(lock).unwrap();
    let work = Workplace::new();
    let args = ["run", "-s", "1", "--run-time", "3", "--update-pct", "50", "--db", &url];
    let mut run = work.petal(args).start();
    run.until_it_says("waiting for ShareUpdateExclusiveLock");
    client.batch_execute("ALTER SYSTEM SET fsync = off").unwrap();
    client.batch_execute("SELECT pg_reload_conf()").unwrap();
    held.rollback().unwrap();
    let shown = run.ends().exited(1).stdout;
    assert!(shown.contains("invalid (settings-changed) "), "{shown}");
    assert!(finding(&work, "settings-changed").contains("fsync: on -> off in second 0"));
    assert_eq!(durable(&work.run_folder())["durable"], false);
}

/// After a restart with other settings the description of the begin holds no more.
#[test]
fn a_server_that_restarts_with_other_settings_is_compared_again() {
    if !is_there() {
        return;
    }
    let mut server = Server::start(&[]);
    let url = server.url("facts");
    load(&url, 1);
    let work = Workplace::new();
    let retry = ["--update-pct", "50", "--on-disconnect", "retry", "--db", &url];
    let mut run =
        work.petal([&["run", "-s", "1", "--run-time", "12"], &retry[..]].concat()).start();
    run.until("its folder", || !work.runs().is_empty());
    until_second(&work, &mut run, 1);
    server.client("facts").batch_execute("ALTER SYSTEM SET fsync = off").unwrap();
    server.crash();
    let shown = run.ends().exited(1).stdout;
    let shown = first_screen(&shown, 12);
    assert!(shown.contains("invalid (settings-changed) "), "{shown}");
    assert!(finding(&work, "settings-changed").contains("fsync: on -> off "));
    let run = record(&work.run_folder());
    let seen_s = number(&run, "/details/facts/changes/0/between_s/1");
    assert!(seen_s < 11.5, "looked at again once it answers, not at the end: {seen_s}");
    assert_eq!(durable(&work.run_folder())["durable"], false);
}

/// Changes a setting of MariaDB in the run, while it settles, and over a restart.
#[test]
fn settings_of_mariadb_that_change_decide_durability() {
    const FLUSH: &str = "innodb_flush_log_at_trx_commit";
    if server_mysql::mariadb().is_none() {
        return;
    }
    let mut server = server_mysql::Server::start(&[]);
    let url = server.url("facts");
    let work = Workplace::new();
    let size = ["--scale", "1024", "--scan-table-sz", "0", "--db", &url];
    work.petal([&["setup", "-s", "1"], &size[..]].concat()).exits(0);
    let set = |server: &server_mysql::Server, value: u32| {
        server.sql("", &format!("SET GLOBAL {FLUSH} = {value}"));
    };
    let is_named = |shown: &str| {
        assert!(first_screen(shown, 12).contains(" invalid (settings-changed) "), "{shown}");
        let message = finding(&work, "settings-changed");
        assert!(message.contains(&format!("{FLUSH}: 1 -> 0 ")), "{message}");
        assert!(finding(&work, "not-durable").contains(FLUSH));
        assert_eq!(durable(&work.runs().pop().unwrap())["durable"], false);
    };
    is_named(&changed_in_run(&work, &url, || set(&server, 0)));
    // A session's UPDATE keeps petal from having the table written.
    set(&server, 1);
    let update = "BEGIN; UPDATE petal1_cf1 SET c2 = c2 WHERE custid = 1";
    let held = server.session("facts", update);
    let updates = ["run", "-s", "1", "--update-pct", "50", "--db", &url];
    let run = |more: &[&str]| work.petal([&updates[..], more].concat()).start();
    until("lock", || server.has_locked_rows());
    let mut settles = run(&["--run-time", "3"]);
    let flushes = "SELECT count(*) FROM information_schema.processlist WHERE info LIKE 'FLUSH T%'";
    settles.until("it settles", || server.sql("", flushes)[0][0] != "0");
    set(&server, 0);
    drop(held);
    is_named(&settles.ends().exited(1).stdout);
    // After a restart the server's own files decide.
    set(&server, 1);
    let before = work.runs().len();
    let mut restarted = run(&["--run-time", "12", "--on-disconnect", "retry"]);
    restarted.until("its folder", || work.runs().len() > before);
    until_second(&work, &mut restarted, 1);
    server.stop("KILL");
    server.restart(&["innodb-flush-log-at-trx-commit=0"]);
    is_named(&restarted.ends().exited(1).stdout);
}

/// One sweep changes settings at a time, and none replaces a value that somebody else stored.
fn sweeps_leave_settings_of_others(work: &Workplace, server: &Server) {
    let url = server.url("facts");
    let sweep = |out: &str| {
        let args = ["sweep", "--db", &url, "--sessions", "1", "--run-time", "3", "--out", out];
        work.petal([&args[..], &["--server-setting", "max_wal_size=1GB,2GB"]].concat())
    };
    // In another database: the lock is the server's.
    let mut other = server.client("postgres");
    let lock = "SELECT pg_advisory_lock(hashtext('petal server settings'))";
    other.batch_execute(lock).unwrap();
    sweep("locked").exits(3).telling(&["another petal (server process", "changes or proves"]);
    assert_eq!(server.stored_settings(), ["wal_writer_delay = '300ms'"]);
    drop(other);
    let mut client = server.client("facts");
    let mut run = sweep("disturbed").start();
    let cells = || std::fs::read_dir(work.path("disturbed")).into_iter().flatten().flatten();
    let has_second = |cell: std::fs::DirEntry| !seconds_in(&cell.path()).is_empty();
    run.until("a second of a cell", || cells().any(has_second));
    client.batch_execute("ALTER SYSTEM SET max_wal_size = '64MB'").unwrap();
    client.batch_execute("SELECT pg_reload_conf()").unwrap();
    run.ends().exited(3).telling(&["max_wal_size: somebody else stored 64MB", "petal keeps it"]);
    assert!(server.stored_settings().contains(&"max_wal_size = '64MB'".to_owned()));
    let cells = cells().map(|cell| cell.path()).filter(|cell| cell.join("run.json").exists());
    let cells: Vec<_> = cells.collect();
    assert_eq!(cells.len(), 1, "{cells:?}");
    let findings = record(&cells[0])["findings"].to_string();
    assert!(findings.contains("max_wal_size: ") && findings.contains("-> 64MB in second"));
}
