//! Commits that wait for a replica limit a run: the replica answers later, and the throughput falls.

use std::time::Duration;

use serde_json::Value;

use crate::proxy::Proxy;
use crate::support::{Workplace, count, number, record, until};
use crate::{server_mysql, server_postgres};

/// Answers of the replica come after so long, then after twice as long.
const LATER: [Duration; 2] = [Duration::from_millis(50), Duration::from_millis(100)];

fn loaded(url: &str) -> Workplace {
    let work = Workplace::new();
    work.petal(["setup", "--scale", "1024", "--scan-table-sz", "0", "--db", url]).exits(0);
    work
}

fn run(work: &Workplace, url: &str) -> Value {
    let args = ["run", "--db", url, "-t", "8", "--update-pct", "100", "--work-unit", "4"];
    work.petal([&args[..], &["--run-time", "3", "--json"]].concat()).exits(0).json()
}

/// Proves the verdict: as long as commits wait for the replica, its answers' time makes the throughput.
fn is_limited_by_the_replica(work: &Workplace, url: &str, mut answer_after: impl FnMut(Duration)) {
    let ops = LATER.map(|time| {
        answer_after(time);
        let run = run(work, url);
        assert_eq!(run["limited_by"]["by"], "replica", "{:#}", run["limited_by"]);
        number(&run, "/per_second/ops")
    });
    // Twice, but for chance.
    assert!(ops[0] >= ops[1] * 1.3, "{ops:?}");
}

fn is_not(work: &Workplace, url: &str) {
    let run = run(work, url);
    assert_ne!(run["limited_by"]["by"], "replica", "{:#}", run["limited_by"]);
}

#[test]
fn a_standby_of_postgres_that_applies_late_is_named() {
    if !server_postgres::is_there() {
        return;
    }
    let primary = server_postgres::Server::start(&["shared_buffers=16MB"]);
    let url = primary.url("waits");
    let work = loaded(&url);
    let standby = primary.standby();
    let set = |server: &server_postgres::Server, settings: &[&str]| {
        let mut client = server.client("postgres");
        for setting in settings {
            client.batch_execute(&format!("ALTER SYSTEM SET {setting}")).unwrap();
        }
        client.batch_execute("SELECT pg_reload_conf()").unwrap();
    };
    set(&primary, &["synchronous_standby_names = '*'", "synchronous_commit = remote_apply"]);
    is_limited_by_the_replica(&work, &url, |time| {
        set(&standby, &[&format!("recovery_min_apply_delay = {}", time.as_millis())]);
    });
    // The standby still applies late, but no commit waits for it.
    set(&primary, &["synchronous_commit = local"]);
    is_not(&work, &url);
}

#[test]
fn a_semi_synchronous_replica_of_mariadb_is_named() {
    if server_mysql::mariadb().is_none() {
        return;
    }
    let primary = server_mysql::Server::start(&["log-bin", "server-id=1"]);
    let url = primary.url("waits");
    let work = loaded(&url);
    // Its events come through a slow network; it acknowledges them, and applies none.
    let proxy = Proxy::to(primary.port);
    primary.tcp_url("waits", proxy.port);
    let replica = server_mysql::Server::start(&["server-id=2", "rpl-semi-sync-slave-enabled=ON"]);
    let at = &primary.sql("", "SHOW MASTER STATUS")[0];
    let source = format!(
        "CHANGE MASTER TO MASTER_HOST = '127.0.0.1', MASTER_PORT = {}, MASTER_USER = 'petal', \
         MASTER_LOG_FILE = '{}', MASTER_LOG_POS = {}",
        proxy.port, at[0], at[1]
    );
    replica.sql("", &source);
    for point in ["AFTER_SYNC", "AFTER_COMMIT"] {
        let wait_point = format!("SET GLOBAL rpl_semi_sync_master_wait_point = {point}");
        primary.sql("", &wait_point);
        primary.sql("", "SET GLOBAL rpl_semi_sync_master_timeout = 60000");
        primary.sql("", "SET GLOBAL rpl_semi_sync_master_enabled = ON");
        replica.sql("", "START SLAVE IO_THREAD");
        until("a replica that acknowledges", || {
            let clients = "SHOW STATUS LIKE 'Rpl_semi_sync_master_clients'";
            primary.sql("", clients)[0][1] == "1"
        });
        // Ends when the replica has all that was before it.
        primary.sql("waits", "CREATE OR REPLACE TABLE copied (id INT)");
        is_limited_by_the_replica(&work, &url, |time| proxy.delay(time / 2));
        primary.sql("", "SET GLOBAL rpl_semi_sync_master_enabled = OFF");
        replica.sql("", "STOP SLAVE");
        proxy.delay(Duration::ZERO);
        is_not(&work, &url);
    }
    // With a binary log each transaction is still counted once. petal's own questions count, too.
    let run = record(&work.runs().pop().unwrap());
    let (commits, ops) = (count(&run, "/details/io/commits"), count(&run, "/ops/total"));
    assert!(commits >= ops && commits < ops * 3 / 2 + 300, "{commits} commits, {ops} operations");
}
