//! Runs whose sessions connect again after an outage. `scripts/outage-repeats.py` compares each kind
//! with a probe, and lost commits with the server's own list.

use std::process::Command;
use std::thread;
use std::time::Duration;

use serde_json::Value;

use crate::proxy::Proxy;
use crate::support::{PETAL, Running, Workplace, count, number, record, skip};
use crate::{server_mysql, server_postgres};

/// Difference of two lengths that is allowed on a host that runs other tests.
const LOOSE_S: f64 = 2.0;

/// Reads and writes of four sessions at an even rate.
fn run(work: &Workplace, url: &str, more: &[&str]) -> Running {
    let fixed = ["run", "--db", url, "--update-pct", "50", "--work-unit", "1"];
    let retry = ["--on-disconnect", "retry", "--ledger", "kept.ledger", "--arrivals", "even"];
    let mut run = work.petal([&fixed[..], &retry, more].concat()).start();
    let ledger = work.path("kept.ledger");
    run.until("some commits", || std::fs::metadata(&ledger).is_ok_and(|it| it.len() > 8_000));
    run
}

fn loaded(url: &str) -> Workplace {
    let work = Workplace::new();
    work.petal(["setup", "-s", "1", "--scale", "4096", "--scan-table-sz", "0", "--db", url])
        .exits(0);
    work
}

/// Causes an outage of each kind once, by the script, which fails if petal's lost commits are not those of the
/// server. The kinds begin with copies of the same data.
fn once(kinds: &[&str]) {
    let work = Workplace::new();
    let results = work.path("results");
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/scripts/outage-repeats.py");
    let mut command = Command::new("python3");
    command.args([script, "1"]).args(kinds).env("PETAL", PETAL).env("RESULTS", &results);
    // A busy host keeps live nodes of Galera silent for seconds.
    command.env("SUSPECT_S", "9");
    let Ok(ended) = command.output() else {
        return skip("no Python is installed: apt-get install python3");
    };
    let said = String::from_utf8_lossy(&ended.stderr);
    if ended.status.code() == Some(77) {
        skip(said.trim());
    } else {
        assert!(ended.status.success(), "{said}");
    }
    for line in std::fs::read_to_string(&results).unwrap_or_default().lines() {
        let seconds = |field: usize| line.split(' ').nth(field).unwrap().parse::<f64>().unwrap();
        assert!((seconds(2) - seconds(3)).abs() <= LOOSE_S, "{line}");
    }
}

macro_rules! outages {
    ($($name:ident: $kinds:expr, if $there:expr;)*) => {
        $(
            #[test]
            fn $name() {
                if $there {
                    once(&$kinds);
                }
            }
        )*
    };
}

outages! {
    postgres_is_killed_stopped_and_restarted:
        ["postgres-kill", "postgres-stop", "postgres-restart"], if server_postgres::is_there();
    a_standby_of_postgres_is_promoted:
        ["postgres-promotion", "postgres-synchronous"], if server_postgres::is_there();
    postgres_has_no_network: ["postgres-network"], if server_postgres::is_there();
    mariadb_is_killed_stopped_and_restarted:
        ["mariadb-kill", "mariadb-stop", "mariadb-restart"], if server_mysql::is_there();
    a_standby_of_mariadb_is_promoted:
        ["mariadb-promotion", "mariadb-synchronous"], if server_mysql::mariadb().is_some();
    mariadb_has_no_network: ["mariadb-network"], if server_mysql::is_there();
    a_galera_node_dies: ["mariadb-galera"], if server_mysql::mariadb().is_some();
}

#[test]
#[ignore = "needs MySQL with Group Replication: see docs/testing.md"]
fn the_primary_of_a_group_dies() {
    once(&["mysql-group"]);
}

#[test]
fn a_network_that_falls_silent_is_given_up_and_connections_that_are_cut_are_made_again() {
    if !server_postgres::is_there() {
        return;
    }
    let server = server_postgres::Server::start(&["shared_buffers=16MB"]);
    let work = loaded(&server.tcp_url("cut"));
    let proxy = Proxy::to(server.port);
    let url = format!("postgres://petal@127.0.0.1:{}/cut", proxy.port);
    let more = ["-t", "4", "--rate", "200", "--work-loop", "500", "--answer-within", "2"];
    let run = run(&work, &url, &more);
    thread::sleep(Duration::from_secs(1));
    proxy.cut();
    thread::sleep(Duration::from_secs(2));
    proxy.fall_silent();
    thread::sleep(Duration::from_secs(3));
    proxy.speak_again();
    run.ends().exited(0);
    let run = record(&work.run_folder());
    let outages = run["outages"].as_array().unwrap();
    assert_eq!(outages.len(), 2, "{outages:#?}");
    assert!(number(&outages[0], "/down_s") < LOOSE_S, "{outages:#?}");
    // Nothing passed for 3 s.
    let silent_s = number(&outages[1], "/down_s");
    assert!((2.9..3.0 + 2.0 * LOOSE_S).contains(&silent_s), "{outages:#?}");
    assert_eq!(count(&outages[1], "/errors/no-answer"), 4, "{outages:#?}");
}

#[test]
fn a_server_that_never_comes_back_loses_the_sessions_and_keeps_the_record() {
    if !server_postgres::is_there() {
        return;
    }
    let mut server = server_postgres::Server::start(&["shared_buffers=16MB"]);
    let url = server.tcp_url("gone");
    let work = loaded(&url);
    let run = run(&work, &url, &["-t", "4", "--rate", "200", "--run-time", "6"]);
    thread::sleep(Duration::from_secs(2));
    server.stop("QUIT");
    run.ends().exited(1);
    let run = record(&work.run_folder());
    assert_eq!(run["sessions_lost"].as_array().unwrap().len(), 4);
    let outage = &run["outages"][0];
    assert_eq!((count(outage, "/sessions"), count(outage, "/not_back")), (4, 4), "{outage:#}");
    assert_eq!(outage["down_s"], Value::Null);
    assert!(count(&run, "/ops/total") > 100);
}

#[test]
fn a_target_without_a_connection_cannot_lose_one() {
    let work = Workplace::new();
    work.petal(["run", "--on-disconnect", "retry"]).exits(2).telling(&[
        "--on-disconnect retry",
        "petal's own process",
        "name a server",
    ]);
    let several = ["--share", "1/2", "--start-at", "2099-01-01T00:00:00Z"];
    let args = ["run", "--db", "postgres://petal@127.0.0.1:1/none", "--on-disconnect", "retry"];
    work.petal([&args[..], &several].concat())
        .exits(2)
        .telling(&["several driver hosts", "from one host"]);
    work.petal(["run", "--answer-within", "3"])
        .exits(2)
        .telling(&["--answer-within 3", "--on-disconnect retry"]);
}

/// Runs at `url`, whose network leads to another server after an outage, and expects that petal refuses it
/// with these words. The rows there must be the same afterwards.
fn refuses_the_other(
    url: &str,
    proxy: &Proxy,
    other_port: u16,
    words: &str,
    rows: impl Fn() -> String,
) {
    let work = Workplace::new();
    let before = rows();
    let run = run(&work, url, &["-t", "2", "--rate", "200", "--run-time", "5"]);
    proxy.lead_to(other_port);
    proxy.cut();
    run.ends().exited(1).telling(&[words, "petal does not go on there"]);
    assert_eq!(rows(), before, "the other server's rows were changed");
    let report = work.petal(["report", &work.run_folder().display().to_string()]).exits(0);
    let line = report.stdout.lines().find(|line| line.starts_with("refused")).unwrap();
    assert!(line.contains("another server than before answers"), "{line}");
    let wrong = &record(&work.run_folder())["outages"][0]["wrong_servers"];
    assert!(wrong[0].as_str().unwrap().contains(words), "{wrong}");
}

#[test]
fn another_cluster_that_answers_after_an_outage_gets_no_updates() {
    if !server_postgres::is_there() {
        return;
    }
    let server = server_postgres::Server::start(&["shared_buffers=16MB"]);
    let other = server_postgres::shared();
    loaded(&server.tcp_url("met"));
    loaded(&other.tcp_url("met"));
    let proxy = Proxy::to(server.port);
    let rows = || {
        let sql = "SELECT sum(hashtext(t::text)) FROM petal1.cf1 t";
        other.answers("met", &[sql]).concat()
    };
    let url = format!("postgres://petal@127.0.0.1:{}/met", proxy.port);
    refuses_the_other(&url, &proxy, other.port, "its system is ", rows);
}

#[test]
fn a_server_with_another_load_that_answers_after_an_outage_gets_no_updates() {
    if !server_mysql::is_there() {
        return;
    }
    let server = server_mysql::Server::start(&[]);
    let other = server_mysql::shared();
    loaded(&server.tcp_url("met", server.port));
    let url = other.tcp_url("met", other.port);
    loaded(&url);
    let proxy = Proxy::to(server.port);
    let rows = || format!("{:?}", other.sql("met", "CHECKSUM TABLE petal1_cf1"));
    let url = server.tcp_url("met", proxy.port);
    refuses_the_other(&url, &proxy, other.port, "schema 1 is of another load", rows);
}
