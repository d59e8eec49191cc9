//! What sessions on MariaDB or MySQL do, what the server says of its pages, and what petal says when
//! the server, a session or a lock fails it.

use std::thread;

use petal_engine::{Batch, LoadPlan, Outcomes, Silent};
use petal_record::counters::Counters;
use petal_settings::{LoopSide, RedoStress, Settings};
use petal_workload::op::Operation;
use petal_workload::row::Filler;
use serde_json::Value;

use crate::engine_postgres::{ROWS, SEAT, open_with, plan, select, unlimited, update};
use crate::rows::is_failed_for_its_index;
use crate::server_mysql::{Server, is_there, shared};
use crate::support::{Workplace, count, findings, number, record, until};

const PAGE_BYTES: u32 = 16384;
/// The sessions' reads of data files.
const READS: &str = "innodb_data_file read";

fn load_with(url: &str, plan: &LoadPlan) {
    open_with(url, Settings::default()).load(plan, &Silent, &unlimited()).unwrap();
}

pub fn load(url: &str, schemas: u32) {
    load_with(url, &LoadPlan { block_size: PAGE_BYTES, ..plan(schemas) });
}

/// Leaf pages of the main table that are cached, and the most rows that one of them holds.
fn leaf_pages(server: &Server, database: &str) -> (u64, u64) {
    let sql = format!(
        "SELECT COUNT(*), MAX(number_records) FROM information_schema.innodb_buffer_page \
         WHERE table_name = '`{database}`.`petal1_cf1`' AND index_name = 'PRIMARY' \
         AND page_type = 'INDEX' AND number_records <= 8 AND data_size > 1000"
    );
    let rows = server.sql("", &sql);
    let number = |at: usize| rows[0][at].parse().unwrap_or(0);
    (number(0), number(1))
}

/// The server removes deleted fillers in the background.
fn until_purged(server: &Server, database: &str) {
    until("purge", || leaf_pages(server, database).1 == 1);
}

#[test]
fn one_row_a_page_holds_through_updates_by_the_servers_own_view() {
    if !is_there() {
        return;
    }
    // All pages must stay cached to be seen.
    let server = Server::start(&["innodb-buffer-pool-size=512M"]);
    for (number, redo_stress, side, filler) in [
        (1, RedoStress::Lite, LoopSide::Server, Filler::Constant),
        (2, RedoStress::Heavy, LoopSide::Server, Filler::Random),
        (3, RedoStress::Heavy, LoopSide::Client, Filler::Ratio(2.0)),
    ] {
        let database = format!("pages{number}");
        let url = server.url(&database);
        let plan = LoadPlan { filler, block_size: PAGE_BYTES, ..plan(1) };
        load_with(&url, &plan);
        until_purged(&server, &database);
        assert_eq!(leaf_pages(&server, &database), (ROWS, 1));
        let settings = Settings { redo_stress, loop_side: Some(side), ..Settings::default() };
        let engine = open_with(&url, settings);
        let before = engine.data_bytes().unwrap();
        let updates: Vec<Operation> =
            (0..400u64).map(|at| update(at * 37 % (ROWS - 64) + 1, 64, at + 1)).collect();
        let mut session = engine.connect(SEAT).unwrap();
        let mut done = Outcomes::default();
        session.execute(Batch::new(&updates, &unlimited(), &mut done)).unwrap();
        assert_eq!(done.ended.iter().map(|outcome| outcome.rows).sum::<u64>(), 400 * 64);
        assert_eq!(leaf_pages(&server, &database), (ROWS, 1));
        assert_eq!(engine.data_bytes().unwrap(), before);
        assert!(engine.placement(1).unwrap().is_one_row_per_block());
        // As many columns as asked hold the text that the filler has for them.
        let mut texts = [[0u8; 128]; 2];
        filler.fill(&mut texts[0], 400, 3);
        filler.fill(&mut texts[1], 400, 20);
        let sql = format!("SELECT c3, c20 FROM petal1_cf1 WHERE custid = {}", updates[399].first);
        let row = server.sql(&database, &sql).remove(0);
        assert_eq!(row[0].as_bytes(), texts[0]);
        let is_heavy = redo_stress == RedoStress::Heavy;
        assert_eq!(row[1].as_bytes() == texts[1], is_heavy);
    }
}

#[test]
fn every_page_size_of_the_server_has_one_row_a_page() {
    if !is_there() {
        return;
    }
    for page_bytes in [4096, 8192, 32768, 65536u32] {
        // All pages must stay cached to be seen.
        let page_size = format!("innodb-page-size={page_bytes}");
        let server = Server::start(&[&page_size, "innodb-buffer-pool-size=512M"]);
        let url = server.url("sized");
        load_with(&url, &LoadPlan { block_size: page_bytes, ..plan(1) });
        until_purged(&server, "sized");
        assert_eq!(leaf_pages(&server, "sized"), (ROWS, 1), "{page_bytes}");
        let refused = open_with(&url, Settings::default()).block_size(Some(512)).unwrap_err();
        assert!(refused.to_string().contains("innodb_page_size"), "{refused}");
    }
}

#[test]
fn a_run_counts_its_pages_and_the_plan_is_the_meant_one() {
    if !is_there() {
        return;
    }
    let url = shared().url("counted");
    load(&url, 2);
    let work = Workplace::new();
    for side in ["server", "client"] {
        let args = ["run", "--db", &url, "--update-pct", "20", "--run-time", "2", "--json"];
        let run = work.petal([&args[..], &["--loop", side]].concat()).exits(0).json();
        let found = findings(&run);
        assert!(!found.contains(&"wrong-plan") && !found.contains(&"moved-rows"), "{found:?}");
        assert!(!found.contains(&"not-durable"), "{found:?}");
        let visited = number(&run, "/rows/select") + number(&run, "/rows/update");
        // Each row is at least a page of the index and two of the table's tree.
        assert!(number(&run, "/counters/Innodb_buffer_pool_read_requests") > visited * 2.0);
        assert!(number(&run, "/counters/Innodb_os_log_fsyncs") > 0.0);
    }
    let engine = open_with(&url, Settings::default());
    let (target, details) = engine.describe(2, 1).unwrap();
    assert_eq!(target.cache_bytes, Some(256 << 20));
    assert!(details.local && details.durability.unwrap().durable);
    assert!(details.direct_io.unwrap().used && details.io_untimed.is_none());
    assert!(!engine.server().unwrap().server_processes().is_empty());
    // Without its index there is another plan, which the statements refuse.
    shared().sql("counted", "ALTER TABLE petal1_cf1 RENAME INDEX petal_custid TO other");
    let error = engine.describe(2, 1).unwrap_err().to_string();
    assert!(error.contains("petal_custid"), "{error}");
}

#[test]
fn an_index_that_is_dropped_in_a_run_of_mysql_is_an_error() {
    if !is_there() {
        return;
    }
    let url = shared().url("no_index");
    load(&url, 1);
    let work = Workplace::new();
    let args = ["run", "--db", &url, "--run-time", "3", "--update-pct", "0", "--json"];
    let mut running = work.petal(args).start();
    running.until("a second of the run", || !work.seconds().is_empty());
    shared().sql("no_index", "ALTER TABLE petal1_cf1 DROP INDEX petal_custid");
    is_failed_for_its_index(&running.ends().exited(1).json());
}

/// A hit of the query cache visits no block.
#[test]
fn the_query_cache_answers_no_session() {
    if !is_there() {
        return;
    }
    let server = Server::start(&["query-cache-type=1", "query-cache-size=16M"]);
    let url = server.url("cached");
    load(&url, 1);
    let work = Workplace::new();
    let args = ["run", "--db", &url, "--run-time", "2", "--update-pct", "0", "--loop", "client"];
    let run = work.petal(args.iter().chain(&["--json"])).exits(0).json();
    let hits = server.sql("", "SHOW GLOBAL STATUS LIKE 'Qcache_hits'");
    if hits.is_empty() {
        return; // MySQL 8 has none.
    }
    // Some of petal's questions about tables may be.
    assert!(hits[0][1].parse::<u64>().unwrap() < 100, "{hits:?}");
    let visited = number(&run, "/rows/select");
    assert!(number(&run, "/counters/Innodb_buffer_pool_read_requests") > visited * 2.0);
    let settings = record(&work.run_folder())["details"]["target"]["settings"].to_string();
    assert!(settings.contains("OFF (set by petal; the server's: ON)"), "{settings}");
}

/// MariaDB lets a COMMIT within a call go on while another session writes the log: more commits for a
/// sync than there are sessions did not wait for it.
#[test]
fn every_commit_of_the_loop_in_the_server_waits_for_its_log() {
    if !is_there() {
        return;
    }
    let server = Server::start(&["performance-schema=ON", "innodb-flush-log-at-trx-commit=1"]);
    let (url, work) = (server.url("commits"), Workplace::new());
    load(&url, 1);
    let args =
        ["run", "--db", &url, "-s", "1", "-t", "4", "--update-pct", "100", "--work-unit", "4"];
    let report = work.petal(args.iter().chain(&["--work-loop", "400"])).exits(0).stdout;
    let run = record(&work.run_folder());
    let commits = count(&run, "/ops/update") as f64;
    assert_eq!(commits, 1600.0);
    let syncs = number(&run, "/per_second/log_syncs") * number(&run, "/elapsed_s");
    assert!(syncs * 4.0 >= commits, "{commits} commits, {syncs} syncs of the log");
    // What a commit waits for is in the time of its UPDATE.
    let mean_us = number(&run, "/latency_us/update/mean");
    let elapsed_us = number(&run, "/elapsed_s") * 1e6;
    assert!(mean_us * commits / 4.0 > elapsed_us * 0.5, "{mean_us} us in {elapsed_us} us");
    // The log's wait is sampled, on servers that do not time the log's files, too.
    let waits = run["waits"].as_array().unwrap();
    let is_commit = |wait: &&Value| wait["class"] == "commit" && wait["source"] == "sampled";
    let waited_us = waits.iter().find(is_commit).and_then(|wait| wait["time_us"].as_f64());
    assert!(waited_us > Some(0.0), "{waits:?}");
    assert!(waited_us < Some(elapsed_us * 4.0), "{waits:?}");
    assert!(!findings(&run).contains(&"untimed-log"), "{waits:?}");
    assert!(report.lines().any(|line| line.starts_with("CPU + other  ")), "{report}");
}

/// The server fills its cache in the background: no session waits for these reads.
#[test]
fn reads_of_background_threads_are_no_waits_of_sessions() {
    if !is_there() {
        return;
    }
    let settings = [
        "performance-schema=ON",
        "innodb-buffer-pool-dump-pct=100",
        "innodb-buffer-pool-load-at-startup=OFF",
    ];
    let mut server = Server::start(&settings);
    let url = server.url("background");
    load(&url, 1);
    let is_completed = |server: &Server, what: &str| {
        let sql = format!("SHOW GLOBAL STATUS LIKE 'Innodb_buffer_pool_{what}_status'");
        server.sql("", &sql)[0][1].contains("completed")
    };
    server.sql("", "SET GLOBAL innodb_buffer_pool_dump_now = ON");
    until("dump", || is_completed(&server, "dump"));
    server.stop("TERM");
    server.restart(&[]);
    let engine = open_with(&url, Settings::default());
    let read = || engine.read_counters(true).unwrap().remove(0);
    let figures = |counters: &Counters| {
        (counters.io.physical_read_blocks.unwrap(), counters.wait(READS).unwrap().waits.unwrap())
    };
    let before = figures(&read());
    server.sql("", "SET GLOBAL innodb_buffer_pool_load_now = ON");
    until("load of the cache", || is_completed(&server, "load"));
    let after = figures(&read());
    let (pages, waits) = (after.0 - before.0, after.1 - before.1);
    assert!(pages >= ROWS / 2, "{pages} pages");
    assert!(waits < pages / 10, "{waits} waits of sessions, {pages} pages");
    // Sessions do wait for theirs.
    server.stop("TERM");
    server.restart(&[]);
    let args = ["run", "--db", &url, "--update-pct", "0", "--warm-up", "0", "--work-loop", "200"];
    let work = Workplace::new();
    let run = work.petal(args.iter().chain(&["--json"])).exits(0).json();
    let waits = run["waits"].as_array().unwrap();
    let waits = waits.iter().find(|wait| wait["name"] == READS).unwrap();
    assert!(waits["waits"].as_u64() > Some(0), "{waits}");
}

#[test]
fn reads_have_no_time_if_the_server_has_no_room_for_accounts() {
    if !is_there() {
        return;
    }
    for (setting, is_timed) in [
        ("performance-schema-accounts-size=0", false),
        ("performance-schema-accounts-size=9", true),
    ] {
        let server = Server::start(&["performance-schema=ON", setting]);
        let url = server.url("accounts");
        load(&url, 1);
        let engine = open_with(&url, Settings::default());
        let (_, details) = engine.describe(1, 1).unwrap();
        assert_eq!(details.io_untimed.is_none(), is_timed, "{:?}", details.io_untimed);
        let counters = engine.read_counters(true).unwrap().remove(0);
        assert_eq!(counters.wait(READS).is_some(), is_timed, "{:?}", counters.waits);
    }
}

/// Settings of the server that its engine's advice names, in the words of the record.
#[test]
fn the_server_has_each_setting_that_is_advised() {
    if !is_there() {
        return;
    }
    let url = shared().url("advised");
    load(&url, 1);
    let (_, details) = open_with(&url, Settings::default()).describe(1, 1).unwrap();
    let mut advice = serde_json::to_string(&details.advice).unwrap();
    advice
        .extend(details.notable_settings.iter().map(|it| format!(" {} {}", it.effect, it.advice)));
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let named = advice.split(|c| !is_name(c)).filter(|word| word.starts_with("innodb_"));
    // What only MySQL has is said to be MySQL's; a view is no setting.
    let of_mysql = ["innodb_redo_log_capacity", "innodb_page_cleaners"];
    for name in named.filter(|name| *name != "innodb_trx") {
        let found = shared().sql("", &format!("SHOW VARIABLES LIKE '{name}'"));
        let is_mysqls = of_mysql.contains(&name) && advice.contains("MySQL");
        assert!(!found.is_empty() || is_mysqls, "{name}: {advice}");
    }
}

#[test]
fn an_error_costs_one_operation_and_not_the_batch() {
    if !is_there() {
        return;
    }
    let server = Server::start(&["innodb-lock-wait-timeout=1"]);
    let url = server.url("locks");
    load(&url, 1);
    for side in [LoopSide::Server, LoopSide::Client] {
        let engine = open_with(&url, Settings { loop_side: Some(side), ..Settings::default() });
        let mut session = engine.connect(SEAT).unwrap();
        let is_locked = || server.has_locked_rows();
        // The server ends the session of the side before a moment after its client.
        until("the end of other locks", || !is_locked());
        let lock = "BEGIN; SELECT custid FROM petal1_cf1 WHERE custid = 500 FOR UPDATE";
        let holder = server.session("locks", lock);
        until("lock", is_locked);
        let batch =
            [update(1, 8, 1), select(1, 8), update(498, 8, 2), select(498, 8), update(20, 8, 3)];
        let mut done = Outcomes::default();
        session.execute(Batch::new(&batch, &unlimited(), &mut done)).unwrap();
        let ended: Vec<_> =
            done.ended.iter().map(|outcome| (outcome.rows, outcome.error.as_deref())).collect();
        let good = (8, None);
        assert_eq!(ended, [good, good, (0, Some("1205")), good, good], "{side:?}");
        drop(holder);
    }
}

#[test]
fn a_deadlock_is_counted_and_the_session_goes_on() {
    if !is_there() {
        return;
    }
    let url = shared().url("deadlocks");
    load(&url, 1);
    for side in [LoopSide::Server, LoopSide::Client] {
        let engine = open_with(&url, Settings { loop_side: Some(side), ..Settings::default() });
        let mut session = engine.connect(SEAT).unwrap();
        let is_locked = |row: u64| {
            let free =
                format!("SELECT 1 FROM petal1_cf1 WHERE custid = {row} FOR UPDATE SKIP LOCKED");
            shared().sql("deadlocks", &free).is_empty()
        };
        until("the end of the locks of the side before", || !is_locked(900));
        // The other transaction is the larger one, so that petal's is the victim.
        let mut other = shared().session(
            "deadlocks",
            "BEGIN; UPDATE petal1_cf1 SET c2 = 'x' WHERE custid BETWEEN 100 AND 900",
        );
        until("the other's last lock", || is_locked(900));
        let mut done = Outcomes::default();
        let batch = [update(1, 120, 1), update(1000, 8, 2)];
        thread::scope(|scope| {
            scope.spawn(|| {
                until("petal's lock", || is_locked(5));
                other.go_on("UPDATE petal1_cf1 SET c2 = 'y' WHERE custid = 5; ROLLBACK");
            });
            session.execute(Batch::new(&batch, &unlimited(), &mut done)).unwrap();
        });
        let codes: Vec<_> = done.ended.iter().map(|outcome| outcome.error.as_deref()).collect();
        assert_eq!(codes, [Some("1213"), None], "{side:?}");
        drop(other);
    }
}

#[test]
fn a_killed_session_is_named_and_the_others_go_on() {
    if !is_there() {
        return;
    }
    let server = Server::start(&[]);
    let url = server.url("killing");
    load(&url, 1);
    let work = Workplace::new();
    let args = ["run", "--db", &url, "-t", "3", "--run-time", "4", "--update-pct", "50", "--json"];
    let mut run = work.petal(args).start();
    server.until_running(&mut run);
    let running = "SELECT id FROM information_schema.processlist WHERE db = 'killing' AND command = 'Execute'";
    let mut victim = Vec::new();
    until("a session", || {
        victim = server.sql("", running);
        !victim.is_empty()
    });
    server.sql("", &format!("KILL {}", victim[0][0]));
    let run = run.ends().exited(1).json();
    assert_eq!(run["sessions_lost"].as_array().unwrap().len(), 1);
    assert!(count(&run, "/ops/total") > 10);
}

#[test]
fn a_server_that_is_killed_ends_the_run_with_words_and_its_data_stay_whole() {
    if !is_there() {
        return;
    }
    let mut server = Server::start(&[]);
    let url = server.url("crashed");
    load(&url, 1);
    let work = Workplace::new();
    let args = ["run", "--db", &url, "-t", "2", "--run-time", "30", "--update-pct", "50", "--json"];
    let mut run = work.petal(args).start();
    server.until_running(&mut run);
    server.crash();
    let run = run.ends().exited(1).json();
    let lost = run["sessions_lost"].as_array().unwrap();
    assert_eq!(lost.len(), 2);
    assert!(lost.iter().all(|lost| lost["code"] == "connection"), "{lost:?}");
    let why = lost[0]["error"].as_str().or(lost[0]["message"].as_str()).unwrap_or_default();
    assert!(why.contains("ended the connection"), "{lost:?}");
    let engine = open_with(&url, Settings::default());
    assert!(engine.placement(1).unwrap().is_one_row_per_block());
}

#[test]
fn a_refused_login_says_why_and_shows_no_password() {
    if !is_there() {
        return;
    }
    let server = shared();
    server.database("entered");
    server.sql(
        "",
        "CREATE USER walk@'%' IDENTIFIED BY 's3cret'; \
         GRANT SELECT, INSERT, UPDATE, DELETE, CREATE, DROP, ALTER, INDEX ON entered.* TO walk@'%'",
    );
    let at = |password: &str| format!("mysql://walk:{password}@127.0.0.1:{}/entered", server.port);
    let work = Workplace::new();
    let check = |url: &str| work.petal(["check", "--db", url]).ends();
    let wrong = check(&at("wr0ng"));
    assert_eq!(wrong.code, Some(3), "{}", wrong.stderr);
    let said = format!("{}{}", wrong.stdout, wrong.stderr);
    assert!(said.contains("(1045); check user, password"), "{said}");
    assert!(!said.contains("wr0ng"), "{said}");
    // From an option file and from the environment.
    let file = work.write("client.cnf", "[client]\nuser=walk\npassword='s3cret'\n");
    let by_file =
        format!("mysql://127.0.0.1:{}/entered?defaults_file={}", server.port, file.display());
    let no_data = "no petal schema is loaded";
    let petal = |url: &str| work.petal(["run", "--db", url, "--work-loop", "1"]);
    for said in [
        petal(&by_file).exits(3).stderr,
        petal(&at("s3cret")).exits(3).stderr,
        petal(&at("s3cret").replace(":s3cret@", "@")).env("MYSQL_PWD", "s3cret").exits(3).stderr,
    ] {
        assert!(said.contains(no_data) || said.contains("not loaded"), "{said}");
        assert!(!said.contains("s3cret"), "{said}");
    }
    // A load without the privilege to see its pages says which one is missing, before its first row.
    let setup = ["setup", "--db", &at("s3cret"), "-s", "1", "--scale", "16M"];
    let missing = "reading mysql.innodb_index_stats, with which petal proves a load";
    work.petal(setup).exits(3).telling(&[missing, "1142"]);
    let reported = check(&at("s3cret")).exited(1).stdout;
    let mut lines = reported.lines();
    let statistics = lines.find(|line| line.contains("privilege: block statistics")).unwrap();
    assert!(statistics.starts_with("WARNING"), "{reported}");
    assert!(open_with(&at("s3cret"), Settings::default()).loaded().unwrap().is_empty());
}

#[test]
fn a_server_without_tls_or_with_too_few_connections_is_refused_in_words() {
    if !is_there() {
        return;
    }
    let server = Server::start(&["ssl=OFF", "max-connections=12"]);
    server.database("few");
    server.sql("", "CREATE USER petal@'%'; GRANT ALL ON *.* TO petal@'%'");
    let work = Workplace::new();
    let url = format!("mysql://petal@127.0.0.1:{}/few", server.port);
    let required = format!("{url}?ssl_mode=REQUIRED");
    work.petal(["check", "--db", &required]).exits(3).telling(&["the server has no TLS"]);
    // Preferred, it is reached without.
    load(&url, 1);
    let many = ["run", "--db", &url, "-t", "50", "--work-loop", "1"];
    work.petal(many).exits(2).telling(&["50 sessions"]);
}

#[test]
fn setup_and_drop_keep_off_the_data_of_a_run() {
    if !is_there() {
        return;
    }
    let url = shared().url("in_use");
    load(&url, 1);
    let engine = open_with(&url, Settings::default());
    let held = engine.begin_use(1).unwrap();
    let second = open_with(&url, Settings::default()).begin_use(1).unwrap();
    assert_eq!(held.other_runs().unwrap().len(), 1);
    drop(second);
    let refused = open_with(&url, Settings::default()).drop_data().unwrap_err().to_string();
    assert!(refused.contains("another petal run"), "{refused}");
    assert_eq!(held.vanished().unwrap(), None);
    shared().sql("in_use", "DROP TABLE petal1_cf2");
    assert!(held.vanished().unwrap().unwrap().contains("petal1_cf2 was dropped"));
    drop(held);
    // What is not marked stays.
    shared().sql("in_use", "CREATE TABLE petal2_cf1 (a INT)");
    assert_eq!(open_with(&url, Settings::default()).drop_data().unwrap().len(), 1);
    assert_eq!(shared().sql("in_use", "SHOW TABLES"), [["petal2_cf1"]]);
    let plan = LoadPlan { block_size: PAGE_BYTES, schemas: vec![2], ..plan(1) };
    let in_way = open_with(&url, Settings::default()).load(&plan, &Silent, &unlimited());
    assert!(in_way.unwrap_err().to_string().contains("without petal's mark"));
}

#[test]
fn pages_are_not_compressed_where_the_server_compresses_by_default() {
    if crate::server_mysql::mariadb().is_none() {
        return;
    }
    let server = Server::start(&["innodb-compression-default=ON"]);
    let url = server.url("plain");
    server.sql("plain", "CREATE TABLE other (a INT)");
    let compressed = |table: &str| {
        let made = server.sql("plain", &format!("SHOW CREATE TABLE {table}")).concat().concat();
        made.contains("PAGE_COMPRESSED`='ON'")
    };
    assert!(compressed("other"), "as the server does by itself");
    load(&url, 1);
    assert!(!compressed("petal1_cf1") && !compressed("petal1_cf2"));
}
