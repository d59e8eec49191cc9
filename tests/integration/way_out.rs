//! A way out of every wait: whatever does not go on is named with its statement and event after ten
//! seconds, and a signal ends it.

use std::fs::File;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::support::{Running, Workplace, until};
use crate::{server_mysql, server_postgres};

/// A signal ends a load within this.
const LIMIT: Duration = Duration::from_secs(24);

fn signal(process: u32, signal: Signal) {
    kill_process(Pid::from_raw(process as i32).unwrap(), signal).unwrap();
}

#[test]
fn a_worker_that_does_not_hear_ends_at_the_second_signal_25_seconds_after_the_first() {
    let work = Workplace::loaded(1, "8M");
    let mut run =
        work.petal(["run", "--run-time", "100", "--rate", "1", "--update-pct", "0"]).start();
    run.until("a second of a run", || !work.seconds().is_empty());
    signal(run.id(), Signal::STOP);
    signal(run.supervisor(), Signal::INT);
    run.until_it_says("another signal ends it at once");
    signal(run.supervisor(), Signal::TERM);
    run.ends().exited(1).telling(&["ended at once"]);
}

#[test]
fn a_mapped_file_that_cannot_be_read_is_named_when_the_kernel_ends_petal() {
    let work = Workplace::new();
    let load = ["setup", "-s", "1", "--scale", "8M", "--scan-table-sz", "0", "--db", "lmdb:l"];
    work.petal(load).exits(0);
    let run = ["run", "--run-time", "100", "--update-pct", "0", "--db", "lmdb:l"];
    let mut run = work.petal(run).start();
    run.until("a second of a run", || !work.seconds().is_empty());
    File::options().write(true).open(work.path("l/petal1.lmdb")).unwrap().set_len(1 << 16).unwrap();
    let ended = run.ends();
    assert_eq!(ended.code, None, "{}", ended.stderr);
    ended.telling(&["SIGBUS", "could not be read or was cut", "petal report FOLDER"]);
    work.petal(["report", work.run_folder().to_str().unwrap()]).exits(0);
}

fn setup(work: &Workplace, url: &str) -> Running {
    work.petal(["setup", "-s", "1", "--scale", "256M", "--scan-table-sz", "0", "--db", url]).start()
}

/// Waits until a load that waits for a replica has named it, and stops it: nothing of it stays.
fn named_and_ended(mut setup: Running, words: &str, is_left: impl Fn() -> bool) {
    setup.until_it_says("no progress for ");
    assert!(setup.said().contains(words), "{}", setup.said());
    let began = Instant::now();
    setup.signal(Signal::INT);
    let ended = setup.ends().exited(130);
    assert!(began.elapsed() < LIMIT, "{:?}: {}", began.elapsed(), ended.stderr);
    ended.telling(&["setup was interrupted"]);
    assert!(!is_left(), "something is left");
}

#[test]
fn a_missing_standby_of_postgres_is_named_before_a_load_or_run_and_while_one_waits() {
    if !server_postgres::is_there() {
        return;
    }
    let server = server_postgres::Server::start(&[]);
    let (url, work) = (server.url("waits"), Workplace::new());
    let set = |standbys: &str| {
        let mut client = server.client("waits");
        let sql = format!("ALTER SYSTEM SET synchronous_standby_names = '{standbys}'");
        client.batch_execute(&sql).unwrap();
        client.batch_execute("SELECT pg_reload_conf()").unwrap();
    };
    let count = |sql: &str| server.client("waits").query_one(sql, &[]).unwrap().get::<_, i64>(0);
    let running = setup(&work, &url);
    let loading = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'COPY%'";
    until("rows on their way", || count(loading) > 0);
    set("gone");
    let left = "SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'petal%'";
    named_and_ended(running, "waits for IPC:SyncRep", || count(left) > 0);

    set("");
    let load = ["setup", "-s", "1", "--scale", "1024", "--scan-table-sz", "0", "--db", &url];
    work.petal(load).exits(0);
    set("ANY 2 (one, two)");
    let run = ["run", "--run-time", "1", "--db", &url, "--update-pct", "20"];
    let prove = ["prove", "--db", &url];
    for args in [&[&load[..], &["--replace"]].concat(), &run[..], &prove[..]] {
        work.petal(args).exits(3).telling(&["2 synchronous standby", "ANY 2 (one, two)", "0 are"]);
    }
    let check = work.petal(["check", "--db", &url]).exits(1);
    assert!(check.stdout.contains("ANY 2 (one, two)"), "{}", check.stdout);
    work.petal([&run[..6], &["0"]].concat()).exits(0);
    // It waits for none, and removes what it loaded.
    server
        .client("waits")
        .batch_execute(
            "SET synchronous_commit = local; ALTER ROLE petal SET synchronous_commit = local",
        )
        .unwrap();
    work.petal(run).exits(0);
    server
        .client("waits")
        .batch_execute("SET synchronous_commit = local; ALTER ROLE petal RESET synchronous_commit")
        .unwrap();
    work.petal(["drop", "--db", &url]).exits(0);
}

#[test]
fn a_missing_replica_of_mariadb_is_named_before_a_load_or_run_and_while_one_waits() {
    if server_mysql::mariadb().is_none() {
        return;
    }
    let server = server_mysql::Server::start(&["log-bin", "server-id=1"]);
    let (url, work) = (server.url("waits"), Workplace::new());
    let running = setup(&work, &url);
    let rows = "SELECT COUNT(*) FROM information_schema.processlist WHERE info LIKE 'INSERT%'";
    until("rows on their way", || server.sql("", rows)[0][0] != "0");
    server.sql("", "SET GLOBAL rpl_semi_sync_master_timeout = 3600000");
    server.sql("", "SET GLOBAL rpl_semi_sync_master_enabled = ON");
    let left = "SELECT COUNT(*) FROM information_schema.tables WHERE table_name LIKE 'petal%'";
    named_and_ended(running, "Waiting for semi-sync ACK", || server.sql("", left)[0][0] != "0");
    let load = ["setup", "-s", "1", "--scale", "1024", "--scan-table-sz", "0", "--db", &url];
    work.petal(load).exits(3).telling(&["waits 3600 s for 1 semi-synchronous replica"]);
    let check = work.petal(["check", "--db", &url]).exits(1);
    assert!(check.stdout.contains("semi-synchronous"), "{}", check.stdout);
    server.sql("", "SET GLOBAL rpl_semi_sync_master_enabled = OFF");
    work.petal(load).exits(0);
}
