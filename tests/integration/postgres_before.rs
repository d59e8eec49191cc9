//! What PostgreSQL would refuse later is found before a load writes its first row, and before a run
//! connects its first session.

use std::thread;
use std::time::Duration;

use postgres::Client;
use rustix::process::Signal;

use crate::engine_postgres::load;
use crate::poolers::LEFT_BEHIND;
use crate::server_postgres::{Server, is_there, shared};
use crate::support::{Workplace, record, until};

/// Whoever makes a schema from now on is refused in words that no message of petal's has.
fn forbid_schemas(client: &mut Client) {
    let sql = "CREATE FUNCTION forbid() RETURNS event_trigger LANGUAGE plpgsql \
               AS 'BEGIN RAISE ''the load had begun''; END'; \
               CREATE EVENT TRIGGER forbid ON ddl_command_start WHEN TAG IN ('CREATE SCHEMA') \
               EXECUTE FUNCTION forbid()";
    client.batch_execute(sql).unwrap();
}

#[test]
fn a_load_that_is_sure_to_fail_is_refused_before_it_begins() {
    if !is_there() {
        return;
    }
    let url = shared().url("refused");
    load(&url, 1);
    let mut client = shared().client("refused");
    let sql = "CREATE ROLE refused_stranger LOGIN; CREATE ROLE refused_owner LOGIN; \
               CREATE ROLE refused_reader LOGIN; \
               GRANT CREATE ON DATABASE refused TO refused_stranger, refused_reader; \
               ALTER ROLE refused_reader SET default_transaction_read_only = on";
    client.batch_execute(sql).unwrap();
    forbid_schemas(&mut client);
    let work = Workplace::new();
    let refused = |url: &str, args: &[&str], words: &[&str]| {
        let args = [&["setup", "--db", url, "--replace"], args].concat();
        let ended = work.petal(args).exits(3).telling(words);
        assert!(!ended.stderr.contains("the load had begun"), "{}", ended.stderr);
    };
    let of = |role: &str| url.replace("petal@", &format!("{role}@"));
    let stranger = of("refused_stranger");
    refused(&stranger, &[], &["schema petal1", "belongs to role petal"]);
    refused(&of("refused_owner"), &[], &["may not create schemas", "GRANT CREATE"]);
    refused(&of("refused_reader"), &[], &["default_transaction_read_only"]);
    let nowhere = format!("{url}&tablespace=nowhere");
    refused(&nowhere, &[], &["no tablespace nowhere", "pg_default"]);
    // More than any disk has, where this host's is seen.
    refused(&url, &["--scale", "500T"], &["the load needs", "are free in"]);
    // What is asked for is what a load needs: this one goes on.
    let ended = work.petal(["setup", "--db", &url, "--scale", "8M", "--replace"]).ends();
    assert!(ended.stderr.contains("the load had begun"), "{}", ended.stderr);
}

#[test]
fn updates_that_a_server_or_a_role_refuses_are_found_before_a_run() {
    if !is_there() {
        return;
    }
    let primary = Server::start(&["shared_buffers=16MB"]);
    let url = primary.url("lone");
    load(&url, 1);
    let sql = "CREATE ROLE lone_reader LOGIN; GRANT USAGE ON SCHEMA petal1 TO lone_reader; \
               GRANT SELECT ON ALL TABLES IN SCHEMA petal1 TO lone_reader; \
               CREATE ROLE lone_timid LOGIN; GRANT petal TO lone_timid; \
               ALTER ROLE lone_timid SET default_transaction_read_only = on";
    primary.client("lone").batch_execute(sql).unwrap();
    let work = Workplace::new();
    let run = |url: &str, percent: &str| {
        work.petal(["run", "--db", url, "--work-loop", "5", "--update-pct", percent])
    };
    let reader = url.replace("petal@", "lone_reader@");
    run(&reader, "10").exits(3).telling(&["lone_reader may not UPDATE petal1.cf1", "GRANT"]);
    run(&reader, "0").exits(0);
    let timid = url.replace("petal@", "lone_timid@");
    run(&timid, "10").exits(3).telling(&["lone_timid only reads"]);
    let standby = primary.standby();
    let alone = format!("postgres://petal@127.0.0.1:{}/lone", standby.port);
    run(&alone, "10").exits(3).telling(&["is a standby", "UPDATE_PCT=0"]);
    work.petal(["setup", "--db", &alone, "--replace"]).exits(3).telling(&["is a standby"]);
    run(&alone, "0").exits(0);
    // Nothing was measured where it was refused.
    assert_eq!(work.runs().len(), 2);
}

#[test]
fn a_standby_that_is_promoted_is_reported() {
    if !is_there() {
        return;
    }
    let primary = Server::start(&["shared_buffers=16MB"]);
    load(&primary.url("promoted"), 2);
    let standby = primary.standby();
    let url =
        format!("postgres://petal@127.0.0.1:{},127.0.0.1:{}/promoted", primary.port, standby.port);
    let usual = [&primary, &standby].map(|server| server.answers("promoted", &LEFT_BEHIND));
    let work = Workplace::new();
    let args = ["run", "--db", &url, "--run-time", "600", "--update-pct", "0"];
    let mut running = work.petal(args).start();
    running.until("operations", || !work.seconds().is_empty());
    let mut client = standby.client("promoted");
    // It lags, and then is a primary.
    client.batch_execute("SELECT pg_wal_replay_pause()").unwrap();
    let operations = work.seconds().len();
    running.until("operations of a standby that lags", || work.seconds().len() > operations);
    client.batch_execute("SELECT pg_promote(true, 600)").unwrap();
    running.signal(Signal::INT);
    running.ends().exited(130);
    for (server, usual) in [(&primary, &usual[0]), (&standby, &usual[1])] {
        assert_eq!(&server.answers("promoted", &LEFT_BEHIND), usual);
    }
    let gaps = record(&work.run_folder())["details"]["gaps"].to_string();
    let reported = format!("127.0.0.1:{} was a standby when the run began", standby.port);
    assert!(gaps.contains(&reported), "{gaps}");
    until("a primary", || {
        thread::sleep(Duration::from_millis(100));
        let sql = "SELECT pg_is_in_recovery()";
        !client.query_one(sql, &[]).unwrap().get::<_, bool>(0)
    });
    work.petal(args).exits(3).telling(&["were one cluster and are both primaries now"]);
}

#[test]
fn check_reports_the_privileges_of_a_role_and_the_limits_of_a_server() {
    if !is_there() {
        return;
    }
    let url = shared().url("checked");
    let work = Workplace::new();
    let line = |text: &str, name: &str| {
        let line = text.lines().find(|line| line.contains(name));
        line.unwrap_or_else(|| panic!("no {name}: {text}")).to_owned()
    };
    // What can be known before the load is reported before it.
    let reported =
        work.petal(["check", "--db", &url]).ends().telling(&["nothing is loaded"]).stdout;
    let known = ["load and drop", "I/O timing", "runs", "UPDATEs", "LOOP=server", "event triggers"];
    for name in known {
        let line = line(&reported, &format!("privilege: {name}"));
        assert!(line.starts_with("good"), "{reported}");
    }
    assert!(line(&reported, "sessions ").starts_with("good"), "{reported}");
    load(&url, 1);
    let sql = "CREATE ROLE checked LOGIN CONNECTION LIMIT 12; \
               GRANT USAGE ON SCHEMA petal1 TO checked; \
               GRANT SELECT ON ALL TABLES IN SCHEMA petal1 TO checked";
    shared().client("checked").batch_execute(sql).unwrap();
    let reported = work.petal(["check", "--db", &url]).ends().stdout;
    assert!(line(&reported, "privilege: UPDATEs").contains("granted"), "{reported}");
    assert!(line(&reported, "privilege: vacuum").contains("granted"), "{reported}");
    assert!(line(&reported, "I/O timing").starts_with("good"), "{reported}");
    // 16 MiB of rows are in every page cache.
    assert!(line(&reported, "data ").starts_with("info"), "{reported}");
    let url = url.replace("petal@", "checked@");
    let reported = work.petal(["check", "--db", &url]).exits(1).stdout;
    for missing in ["privilege: UPDATEs", "privilege: vacuum", "privilege: load and drop"] {
        assert!(line(&reported, missing).contains("missing"), "{reported}");
    }
    assert!(line(&reported, "I/O timing").starts_with("WARNING"), "{reported}");
    // 12 less petal's own; one that has just been closed may still count.
    let admitted = line(&reported, "sessions ");
    assert!((6..=9).any(|n| admitted.contains(&format!("at most {n} more"))), "{reported}");
}

#[test]
fn a_publication_that_refuses_updates_is_found_before_a_run() {
    if !is_there() {
        return;
    }
    let url = shared().url("published");
    load(&url, 2);
    let mut client = shared().client("published");
    client.batch_execute("CREATE PUBLICATION everything FOR ALL TABLES").unwrap();
    let work = Workplace::new();
    let run =
        |percent| work.petal(["run", "--db", &url, "--work-loop", "5", "--update-pct", percent]);
    run("10").exits(3).telling(&[
        "UPDATEs of petal1.cf1 are published by everything (FOR ALL TABLES)",
        "UPDATE_PCT=0",
    ]);
    run("0").exits(0);
    // The remedies that petal names.
    let index = "ALTER custid SET NOT NULL, REPLICA IDENTITY USING INDEX cf1_custid";
    for (unique, remedy) in [("", "REPLICA IDENTITY FULL"), ("UNIQUE", index)] {
        for schema in ["petal1", "petal2"] {
            let sql = format!(
                "DROP INDEX {schema}.cf1_custid; \
                 CREATE {unique} INDEX cf1_custid ON {schema}.cf1 (custid); \
                 ALTER TABLE {schema}.cf1 REPLICA IDENTITY DEFAULT"
            );
            client.batch_execute(&sql).unwrap();
        }
        let reported = work.petal(["check", "--db", &url]).ends().stdout;
        let reported = reported.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(reported.contains("privilege: UPDATEs missing"), "{reported}");
        assert!(reported.contains(&format!("ALTER TABLE petal1.cf1 {remedy}")), "{reported}");
        for schema in ["petal1", "petal2"] {
            client.batch_execute(&format!("ALTER TABLE {schema}.cf1 {remedy}")).unwrap();
        }
        run("10").exits(0);
    }
}
