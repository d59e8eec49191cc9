//! Ledgers: what was acknowledged is still there after a kill, and what is not is counted. The tests
//! themselves put older rows back, and count them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::process::{Command, ExitStatus};

use serde_json::Value;

use crate::support::{Ended, Workplace, count, until};
use crate::{server_mysql, server_postgres};

/// UPDATEs of eight rows each on two schemas of 1,024 rows.
const UPDATES: [&str; 8] = ["run", "-s", "2", "--update-pct", "90", "--work-unit", "8", "--ledger"];

fn loaded(url: &str) -> Workplace {
    let work = Workplace::new();
    work.petal(["setup", "-s", "2", "--scale", "1024", "--scan-table-sz", "0", "--db", url])
        .exits(0);
    work
}

/// With so many sessions in each schema.
fn run<'a>(url: &'a str, threads: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    [&UPDATES[..], &["kept.ledger", "--db", url, "-t", threads], more].concat()
}

/// The bytes of the ledger so far.
fn length(work: &Workplace) -> u64 {
    fs::metadata(work.path("kept.ledger")).map_or(0, |ledger| ledger.len())
}

/// The URL in the ledger's header.
fn target_of(work: &Workplace) -> String {
    let bytes = fs::read(work.path("kept.ledger")).unwrap();
    let text = String::from_utf8_lossy(&bytes);
    let (_, url) = text.split_once("\"url\":\"").unwrap();
    url.split_once('"').unwrap().0.to_owned()
}

#[track_caller]
fn verified(work: &Workplace, more: &[&str], code: i32) -> Value {
    // Whoever names the target has looked at the one that the ledger names.
    let named = target_of(work);
    let own = if more.contains(&"--db") { &[][..] } else { &["--db", &named] };
    let verify = [&["verify", "kept.ledger", "--json"][..], own, more].concat();
    let found = work.petal(verify).exits(code).json();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/petal-verify.schema.json");
    let schema = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
    let schema = jsonschema::draft202012::new(&schema).unwrap();
    let errors: Vec<String> = schema.iter_errors(&found).map(|error| error.to_string()).collect();
    assert!(errors.is_empty(), "{errors:#?}");
    let of = |name: &str| count(&found, name);
    let parts = ["/survived_commits", "/lost_commits", "/unknown_commits", "/not_replayed_commits"];
    assert_eq!(of("/acknowledged_commits"), parts.iter().map(|part| of(part)).sum::<u64>());
    found
}

#[track_caller]
fn assert_kept(found: &Value) {
    assert!(count(found, "/acknowledged_commits") > 20, "{found}");
    assert_eq!((count(found, "/lost_commits"), count(found, "/bad_rows")), (0, 0), "{found}");
    assert_eq!(count(found, "/rows_read"), 2048);
}

/// The commits of a ledger as this test reads it: session, sequence, schema and keys of each.
fn commits(work: &Workplace) -> Vec<(u32, u64, u32, std::ops::Range<u64>)> {
    let bytes = fs::read(work.path("kept.ledger")).unwrap();
    let number = |at: usize, length: usize| {
        bytes[at..at + length].iter().rev().fold(0u64, |all, &byte| all << 8 | u64::from(byte))
    };
    let (mut at, mut all) = (16 + number(8, 4) as usize, Vec::new());
    while at + 48 <= bytes.len() {
        let (session, records) = (number(at + 4, 4), number(at + 16, 4));
        at += 48;
        // A frame that was cut is no part of the ledger.
        if at + 36 * records as usize > bytes.len() {
            break;
        }
        for _ in 0..records {
            let (first, rows) = (number(at + 24, 8), number(at + 32, 2));
            let schema = number(at + 34, 2) as u32;
            all.push((session as u32, number(at, 8), schema, first..first + rows));
            at += 36;
        }
    }
    all
}

/// Commits that are lost if these rows hold again what the load wrote.
fn of_rows(work: &Workplace, schema: u32, keys: std::ops::Range<u64>) -> u64 {
    let touches = |commit: &&(u32, u64, u32, std::ops::Range<u64>)| {
        commit.2 == schema && commit.3.start < keys.end && keys.start < commit.3.end
    };
    commits(work).iter().filter(touches).count() as u64
}

/// How many rows of these a commit of the ledger changed.
fn changed(work: &Workplace, schema: u32, keys: std::ops::Range<u64>) -> u64 {
    let all = commits(work);
    let is_changed = |key: &u64| all.iter().any(|one| one.2 == schema && one.3.contains(key));
    keys.filter(is_changed).count() as u64
}

#[test]
fn sqlite_keeps_what_it_acknowledged_when_petal_is_killed() {
    let work = loaded("sqlite:petal-data");
    let before = rusqlite_rows(&work);
    let mut running = work.petal(run("sqlite:petal-data", "2", &["--run-time", "100"])).start();
    running.until("some hundred commits", || length(&work) > 20_000);
    running.kill();
    let found = verified(&work, &[], 0);
    assert_kept(&found);
    assert_eq!(found["ledger_is_whole"], false);
    let reported = work.petal(["verify", "kept.ledger"]).exits(0).stdout;
    assert!(
        reported.starts_with("0 of ") && reported.contains("petal or its host was"),
        "{reported}"
    );

    // Some rows hold again what the load wrote.
    let connection = rusqlite::Connection::open(work.path("petal-data/petal1.db")).unwrap();
    for (key, (c2, c3)) in before.range(101..133) {
        let sql = "UPDATE cf1 SET c2 = ?2, c3 = ?3 WHERE custid = ?1";
        connection.execute(sql, (key, c2, c3)).unwrap();
    }
    drop(connection);
    let found = verified(&work, &[], 1);
    assert_eq!(count(&found, "/lost_commits"), of_rows(&work, 1, 101..133));
    assert_eq!(count(&found, "/lost_rows"), changed(&work, 1, 101..133));
    assert_eq!(count(&found, "/bad_rows"), 0);
    // A half of a row, and a row less.
    let connection = rusqlite::Connection::open(work.path("petal-data/petal2.db")).unwrap();
    connection
        .execute_batch(
            "UPDATE cf1 SET c3 = replace(c3, 'x', 'y') WHERE custid = 7; \
             DELETE FROM cf1 WHERE custid = 1024;",
        )
        .unwrap();
    drop(connection);
    let found = verified(&work, &[], 1);
    assert_eq!(count(&found, "/bad_rows"), 2, "{found}");
    let why: Vec<&str> =
        found["bad"].as_array().unwrap().iter().map(|bad| bad["why"].as_str().unwrap()).collect();
    assert!(why[0].starts_with("c3 is not the text"), "{why:?}");
    assert_eq!(why[1], "there is no such row");
}

/// Keys and first columns of schema 1.
fn rusqlite_rows(work: &Workplace) -> BTreeMap<i64, (String, String)> {
    let connection = rusqlite::Connection::open(work.path("petal-data/petal1.db")).unwrap();
    let mut rows = connection.prepare("SELECT custid, c2, c3 FROM cf1").unwrap();
    let read = rows.query_map([], |row| Ok((row.get(0)?, (row.get(1)?, row.get(2)?)))).unwrap();
    read.map(Result::unwrap).collect()
}

#[test]
fn a_ledger_that_cannot_be_trusted_gives_no_verdict() {
    let work = loaded("sqlite:petal-data");
    let args = run("sqlite:petal-data", "2", &["--work-loop", "100", "--redo-stress", "HEAVY"]);
    work.petal(&args).exits(0);
    let found = verified(&work, &[], 0);
    assert_kept(&found);
    assert_eq!(found["ledger_is_whole"], true);
    // 90 UPDATEs in each 100 operations.
    assert_eq!(count(&found, "/acknowledged_commits"), 4 * 90);
    assert_eq!(count(&found, "/unacknowledged_rows"), 0);
    work.petal(&args).exits(3).telling(&["kept.ledger", "is there already"]);
    let repeats = [&args[..], &["--repeats", "2"]].concat();
    work.petal(repeats).exits(2).telling(&["REPEATS=2", "a ledger is of one run"]);
    let reads = ["run", "-s", "2", "--update-pct", "0", "--ledger", "other.ledger"];
    work.petal(reads).exits(2).telling(&["the run only reads"]);

    let whole = fs::read(work.path("kept.ledger")).unwrap();
    let refused = |bytes: &[u8]| -> Ended {
        work.write("kept.ledger", bytes);
        let refused = work.petal(["verify", "kept.ledger"]).exits(3);
        assert_eq!(refused.stdout, "");
        refused
    };
    for at in [3, 40, whole.len() / 2, whole.len() - 1] {
        let mut flipped = whole.clone();
        flipped[at] ^= 4;
        refused(&flipped).telling(&["kept.ledger", "damaged"]);
    }
    refused(&whole[..30]).telling(&["kept.ledger", "damaged"]);
    refused(b"").telling(&["does not begin as a ledger does"]);
    work.write("kept.ledger", &whole);
    work.petal(["setup", "-s", "2", "--scale", "1024", "--scan-table-sz", "0", "--replace"])
        .exits(0);
    refused(&whole).telling(&["of another load of schema 1"]);
}

#[test]
fn a_device_keeps_what_its_log_was_synced_for() {
    let url = "device:petal.dat?log=16M";
    let work = loaded(url);
    let mut running = work.petal(run(url, "2", &["--run-time", "100"])).start();
    running.until("some hundred commits", || length(&work) > 20_000);
    running.kill();
    let found = verified(&work, &[], 0);
    assert_kept(&found);
    assert!(found["in_log_commits"].is_u64(), "{found}");
    // Without the log, what had not reached the blocks is lost, and nothing else.
    let file = fs::OpenOptions::new().write(true).open(work.path("petal.dat")).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, &vec![0; 16 << 20], 1 << 20).unwrap();
    let alone = count(&found, "/in_log_commits");
    let found = verified(&work, &[], i32::from(alone > 0));
    assert_eq!(count(&found, "/lost_commits"), alone);
}

#[test]
fn postgres_keeps_what_it_acknowledged_when_it_is_killed() {
    if !server_postgres::is_there() {
        return;
    }
    let mut server = server_postgres::Server::start(&["shared_buffers=16MB"]);
    for side in ["server", "client"] {
        let url = server.url(side);
        let work = loaded(&url);
        server.client(side).batch_execute("CREATE TABLE before AS TABLE petal1.cf1").unwrap();
        let mut running =
            work.petal(run(&url, "2", &["--run-time", "100", "--loop", side])).start();
        running.until("some hundred commits", || length(&work) > 20_000);
        server.crash();
        running.ends().exited(1);
        let found = verified(&work, &[], 0);
        assert_kept(&found);
        let mut client = server.client(side);
        client
            .batch_execute(
                "UPDATE petal1.cf1 AS now SET c2 = before.c2, c3 = before.c3 FROM before \
                 WHERE now.custid = before.custid AND now.custid BETWEEN 501 AND 540",
            )
            .unwrap();
        let found = verified(&work, &[], 1);
        assert_eq!(count(&found, "/lost_commits"), of_rows(&work, 1, 501..541));
        assert_eq!(count(&found, "/lost_rows"), changed(&work, 1, 501..541));
    }
}

/// Notes the stamp of each UPDATE in a table, in its transaction.
const NOTE_STAMPS: &str = "\
CREATE TABLE stamps (stamp text);
CREATE FUNCTION note_stamp() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN
    INSERT INTO public.stamps SELECT left(min(c2), 13) FROM changed; RETURN NULL; END';
CREATE TRIGGER note AFTER UPDATE ON petal1.cf1 REFERENCING NEW TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION note_stamp();
CREATE TRIGGER note AFTER UPDATE ON petal2.cf1 REFERENCING NEW TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION note_stamp()";

#[test]
fn a_failover_loses_what_was_not_yet_copied_and_nothing_of_what_was() {
    if !server_postgres::is_there() {
        return;
    }
    let mut primary = server_postgres::Server::start(&["shared_buffers=16MB"]);
    let url = primary.url("over");
    let work = loaded(&url);
    primary.client("over").batch_execute(NOTE_STAMPS).unwrap();
    let (behind, copied) = (primary.standby(), primary.standby());
    // One session in each schema: no two commits overlap, and every lost one can be reported.
    let mut running =
        work.petal(run(&url, "1", &["--run-time", "100", "--loop", "client"])).start();
    running.until("some hundred commits", || length(&work) > 20_000);
    // One standby stands still, as on a network that is cut; for the other each commit waits.
    reconfigure(&mut behind.client("postgres"), "ALTER SYSTEM SET primary_conninfo = ''");
    let synchronous = "ALTER SYSTEM SET synchronous_standby_names = '*'";
    reconfigure(&mut primary.client("postgres"), synchronous);
    let before = length(&work);
    running.until("some more", || length(&work) > before + 20_000);
    primary.stop("QUIT");
    running.ends().exited(1);

    for (standby, is_copied) in [(&copied, true), (&behind, false)] {
        let mut client = standby.client("over");
        client.batch_execute("SELECT pg_promote(true, 600)").unwrap();
        let db = format!("postgres://petal@127.0.0.1:{}/over", standby.port);
        let found = verified(&work, &["--db", &db], i32::from(!is_copied));
        let there = client.query("SELECT stamp FROM stamps", &[]).unwrap();
        let there: BTreeSet<String> = there.iter().map(|row| row.get(0)).collect();
        let lost: Vec<_> = commits(&work)
            .into_iter()
            .filter(|(session, sequence, ..)| !there.contains(&stamp(&work, *session, *sequence)))
            .collect();
        let rows: BTreeSet<(u32, u64)> =
            lost.iter().flat_map(|one| one.3.clone().map(|key| (one.2, key))).collect();
        assert_eq!(count(&found, "/lost_commits"), lost.len() as u64);
        assert_eq!(count(&found, "/lost_rows"), rows.len() as u64);
        assert_eq!(count(&found, "/bad_rows"), 0);
        assert_eq!(lost.is_empty(), is_copied);
        assert_eq!(found["lost_span_ms"].is_null(), is_copied);
    }
}

#[test]
fn a_standby_that_lags_has_lost_nothing_yet() {
    if !server_postgres::is_there() {
        return;
    }
    let primary = server_postgres::Server::start(&["shared_buffers=16MB"]);
    let url = primary.url("lags");
    let work = loaded(&url);
    let standby = primary.standby();
    let mut client = standby.client("lags");
    client.batch_execute("SELECT pg_wal_replay_pause()").unwrap();
    work.petal(run(&url, "1", &["--work-loop", "200"])).exits(0);
    let db = format!("postgres://petal@127.0.0.1:{}/lags", standby.port);
    let found = verified(&work, &["--db", &db], 3);
    let all = count(&found, "/acknowledged_commits");
    assert_eq!((count(&found, "/lost_commits"), count(&found, "/not_replayed_commits")), (0, all));
    assert_eq!(found["recovery"]["has_last_commit"], false);
    assert!(found["recovery"]["ledger_until"].is_string(), "{}", found["recovery"]);
    client.batch_execute("SELECT pg_wal_replay_resume()").unwrap();
    let sql = "SELECT pg_current_wal_lsn()::text";
    let end: String = primary.client("lags").query_one(sql, &[]).unwrap().get(0);
    let sql = format!("SELECT pg_last_wal_replay_lsn() >= '{end}'");
    until("replay", || client.query_one(&sql, &[]).unwrap().get(0));
    let found = verified(&work, &["--db", &db], 0);
    assert_kept(&found);
    assert_eq!(found["recovery"]["has_last_commit"], true);
}

#[test]
fn a_replica_that_lags_has_lost_nothing_yet() {
    if !server_mysql::is_there() {
        return;
    }
    let primary = server_mysql::Server::start(&["log-bin=binlog", "server-id=1"]);
    let replica = server_mysql::Server::start(&["server-id=2"]);
    // An account that both have.
    let url = primary.tcp_url("lags", primary.port);
    let change = format!(
        "CHANGE MASTER TO MASTER_HOST = '127.0.0.1', MASTER_PORT = {}, MASTER_USER = 'petal', \
         MASTER_LOG_FILE = 'binlog.000001', MASTER_LOG_POS = 4; START SLAVE",
        primary.port
    );
    let work = loaded(&url);
    replica.sql("", &change);
    let rows = "SELECT COUNT(*) FROM information_schema.tables WHERE table_name = 'petal2_cf1'";
    until("a replica of the data", || replica.sql("", rows)[0][0] == "1");
    replica.sql("", "STOP SLAVE SQL_THREAD");
    work.petal(run(&url, "1", &["--work-loop", "200"])).exits(0);
    let db = format!("mysql://petal@127.0.0.1:{}/lags", replica.port);
    let found = verified(&work, &["--db", &db], 3);
    let all = count(&found, "/acknowledged_commits");
    assert_eq!((count(&found, "/lost_commits"), count(&found, "/not_replayed_commits")), (0, all));
    assert!(found["recovery"]["replayed"].is_string(), "{}", found["recovery"]);
    // One that nobody sends anything is no replica any more, and has lost what it lacks.
    replica.sql("", "STOP SLAVE");
    assert_eq!(count(&verified(&work, &["--db", &db], 1), "/lost_commits"), all);
    replica.sql("", "START SLAVE");
    let end = &primary.sql("", "SHOW MASTER STATUS")[0];
    let wait = format!("SELECT MASTER_POS_WAIT('{}', {}, 60)", end[0], end[1]);
    assert_ne!(replica.sql("", &wait)[0][0], "-1");
    assert_kept(&verified(&work, &["--db", &db], 0));
}

fn reconfigure(client: &mut postgres::Client, sql: &str) {
    client.batch_execute(sql).unwrap();
    client.batch_execute("SELECT pg_reload_conf()").unwrap();
}

/// The text with which every column of this UPDATE begins.
fn stamp(work: &Workplace, session: u32, sequence: u64) -> String {
    let bytes = fs::read(work.path("kept.ledger")).unwrap();
    let length = u32::from_le_bytes(bytes[8..12].try_into().unwrap()) as usize;
    let header: Value = serde_json::from_slice(&bytes[16..16 + length]).unwrap();
    let mut rest = (u64::from(session) << 40 | sequence) ^ count(&header, "/stamp_mask");
    let mut digits = [b'0'; 13];
    for digit in digits.iter_mut().rev() {
        *digit = b"0123456789abcdefghijklmnopqrstuvwxyz"[(rest % 36) as usize];
        rest /= 36;
    }
    String::from_utf8(digits.to_vec()).unwrap()
}

#[test]
fn mysql_keeps_what_it_acknowledged_when_it_is_killed() {
    if !server_mysql::is_there() {
        return;
    }
    let mut server = server_mysql::Server::start(&[]);
    let url = server.url("kept");
    let work = loaded(&url);
    server.sql("kept", "CREATE TABLE before_run AS SELECT custid, c2, c3 FROM petal1_cf1");
    let mut running = work.petal(run(&url, "2", &["--run-time", "100"])).start();
    running.until("some hundred commits", || length(&work) > 20_000);
    server.crash();
    running.ends().exited(1);
    assert_kept(&verified(&work, &[], 0));
    server.sql(
        "kept",
        "UPDATE petal1_cf1 AS now JOIN before_run USING (custid) \
         SET now.c2 = before_run.c2, now.c3 = before_run.c3 WHERE now.custid BETWEEN 501 AND 540",
    );
    let found = verified(&work, &[], 1);
    assert_eq!(count(&found, "/lost_commits"), of_rows(&work, 1, 501..541));
    assert_eq!(count(&found, "/lost_rows"), changed(&work, 1, 501..541));
}

/// A run into a pipe that a program reads, which stands for `ssh safe`. Both have ended.
fn run_into_pipe(work: &Workplace, reader: &str, more: &[&str]) -> (Ended, ExitStatus) {
    let pipe = work.path("ledger.pipe");
    crate::support::run("mkfifo", &[pipe.to_str().unwrap()]).unwrap();
    // Open at both ends before either program begins, so that neither finds it without the other.
    let mut open = fs::OpenOptions::new();
    let read_end = open.read(true).custom_flags(libc::O_NONBLOCK).open(&pipe).unwrap();
    rustix::fs::fcntl_setfl(&read_end, rustix::fs::OFlags::empty()).unwrap();
    let write_end = fs::OpenOptions::new().write(true).open(&pipe).unwrap();
    let mut shell = Command::new("sh");
    shell.args(["-c", reader]).stdin(read_end).current_dir(work.path("."));
    let mut reader = shell.spawn().unwrap();
    // The test's own copy of the end that is read.
    drop(shell);
    let args = run("sqlite:petal-data", "2", more);
    let args = args.iter().map(|&arg| if arg == "kept.ledger" { "ledger.pipe" } else { arg });
    let mut running = work.petal(args).start();
    running.until("petal's begin of the ledger", || length(work) > 0);
    drop(write_end);
    (running.ends(), reader.wait().unwrap())
}

#[test]
fn a_ledger_is_kept_on_another_host_through_a_pipe() {
    let work = loaded("sqlite:petal-data");
    let (run, reader) = run_into_pipe(&work, "cat >kept.ledger", &["--work-loop", "50"]);
    run.exited(0);
    assert!(reader.success());
    let found = verified(&work, &[], 0);
    assert_kept(&found);
    assert_eq!(found["ledger_is_whole"], true);
    let words = ["safe:run1.ledger", "mkfifo", "ssh safe"];
    let args = [&UPDATES[..], &["safe:run1.ledger", "--db", "sqlite:petal-data"]].concat();
    work.petal(&args).exits(2).telling(&words);
    assert!(!work.path("safe:run1.ledger").exists());
}

#[test]
fn a_pipe_that_is_lost_ends_the_ledger_and_is_reported() {
    let work = loaded("sqlite:petal-data");
    let words = ["ledger.pipe: the ledger could not be written on", "Broken pipe"];
    // Twice of what a pipe holds, however late the reader is.
    let (run, _) = run_into_pipe(&work, "head -c 4000 >kept.ledger", &["--work-loop", "1000"]);
    run.exited(3).telling(&words);
    // What reached the other host counts.
    let found = verified(&work, &[], 0);
    assert_eq!(found["ledger_is_whole"], false);
    assert_eq!(count(&found, "/acknowledged_commits"), commits(&work).len() as u64);
    assert!(count(&found, "/acknowledged_commits") > 20, "{found}");
}

#[test]
fn a_ledger_names_a_relative_target_so_that_it_is_found_from_elsewhere() {
    let work = loaded("sqlite:petal-data");
    work.petal(run("sqlite:petal-data", "2", &["--work-loop", "50"])).exits(0);
    let elsewhere = Workplace::new();
    let ledger = work.path("kept.ledger");
    let named = target_of(&work);
    let alone = elsewhere.petal(["verify".as_ref(), ledger.as_os_str()]);
    alone.exits(2).telling(&[&named, "a file does not decide where petal connects", "--db"]);
    let confirmed = ["verify".as_ref(), ledger.as_os_str(), "--db".as_ref(), named.as_ref()];
    elsewhere.petal(confirmed).exits(0);
}
