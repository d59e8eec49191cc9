//! `petal prove` on servers of the tests: all promises are held, the text to send names no place, and
//! nothing is left. Every lie that a live server can tell is found.

use std::path::{Path, PathBuf};
use std::time::Duration;

use petal_scripted::lies::Lie;
use rustix::process::Signal;

use crate::oracle_wire::stand_in::{Fault, Release, StandIn};
use crate::support::{Ended, Workplace, is_long};
use crate::{server_mysql, server_postgres};

/// Lies that only files, the process or its host show: the conformance suite finds them.
const NOT_LIVE: [Lie; 14] = [
    Lie::SelectsTouchNoRow,
    Lie::CommitsAreNeverSynced,
    Lie::ABatchIsSyncedOnce,
    Lie::PlacementIsHearsay,
    Lie::KeysAreInOrder,
    Lie::VanishedDataAreThere,
    Lie::BlocksAreSmaller,
    Lie::SettleSettlesNothing,
    Lie::CountsOthersWork,
    Lie::DropLeavesAHiddenFile,
    Lie::DropTakesForeignFiles,
    Lie::SelectsReadOneRow,
    Lie::SelectsStayInTheirSchema,
    Lie::SelectsWrite,
];

/// The file to send.
fn sent(work: &Workplace) -> String {
    std::fs::read_to_string(work.path("petal-prove.txt")).unwrap()
}

fn proves(work: &Workplace, url: &str) -> Ended {
    work.petal(["prove", "--db", url]).ends()
}

/// A second proof meanwhile is refused; `temp` is the folder for temporary files of another host.
fn is_refused(work: &Workplace, url: &str, temp: Option<PathBuf>, words: &str) {
    let second = work.petal(["prove", "--db", url]);
    let second = temp.into_iter().fold(second, |petal, temp| petal.env("TMPDIR", temp)).ends();
    assert_eq!(second.code, Some(3), "{}{}", second.stdout, second.stderr);
    second.telling(&[words, "wait until it has ended"]);
}

/// All promises are held, and the text has none of these names.
fn is_proved(work: &Workplace, url: &str, names: &[&str]) -> String {
    let proved = proves(work, url);
    assert_eq!(proved.code, Some(0), "{}\n{}", proved.stdout, proved.stderr);
    assert!(proved.stdout.contains(" 0 broken, "), "{}", proved.stdout);
    let text = sent(work);
    for name in names.iter().chain(&["127.0.0.1", "localhost", work.path("").to_str().unwrap()]) {
        assert!(!text.contains(name), "{name}: {text}");
    }
    assert_eq!(std::fs::read_dir(work.path("")).unwrap().count(), 1, "one file is left");
    text
}

#[test]
fn postgres_is_proved_next_to_data_of_a_run() {
    if !server_postgres::is_there() {
        return;
    }
    let work = Workplace::new();
    // One of its own: a proof holds the server's lock for changes, which other tests take.
    let server = server_postgres::Server::start(&[]);
    let url = server.url("prove_orders");
    work.petal(["setup", "-s", "1", "--scale", "8M", "--db", &url]).exits(0);
    let text = is_proved(&work, &url, &["prove_orders"]);
    assert!(text.contains("blks_read") || text.contains("blocks"), "{text}");
    // The data of runs are there, and nothing else.
    let mut client = server.client("prove_orders");
    let sql = "SELECT nspname::text FROM pg_namespace WHERE nspname LIKE 'petal%'";
    let schemas: Vec<String> =
        client.query(sql, &[]).unwrap().iter().map(|row| row.get(0)).collect();
    assert_eq!(schemas, ["petal1"]);
    // Ctrl-C leaves nothing; a second proof meanwhile is refused, and drops nothing.
    for after in [20, 60] {
        let mut petal = work.petal(["prove", "--db", &url]).start();
        let prove_data = "SELECT count(*) FROM pg_class WHERE relnamespace IN \
                          (SELECT oid FROM pg_namespace WHERE nspname LIKE 'petal\\_prove%')";
        let mut count = || client.query_one(prove_data, &[]).unwrap().get::<_, i64>(0);
        petal.until("data", || count() > 0);
        // By the lock of this host, and from another one by the server's.
        is_refused(&Workplace::new(), &url, None, "another petal proves this target");
        let elsewhere = Workplace::new();
        is_refused(&elsewhere, &url, Some(elsewhere.path("")), "changes or proves this server");
        std::thread::sleep(Duration::from_millis(after * 50));
        petal.signal(Signal::INT);
        let ended = petal.ends().exited(130);
        assert!(ended.stdout.contains("stopped before its end"), "{}", ended.stdout);
        assert_eq!(count(), 0, "{}{}", ended.stdout, ended.stderr);
    }
    // A drop leaves them to a proof that is at work, and takes them from one that was killed.
    let mut petal = work.petal(["prove", "--db", &url]).start();
    let made = "SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'petal\\_prove%'";
    let mut made = || client.query_one(made, &[]).unwrap().get::<_, i64>(0);
    petal.until("data", || made() > 0);
    let kept = work.petal(["drop", "--db", &url]).exits(0);
    kept.telling(&["data named petal_prove stay"]);
    petal.kill();
    assert!(made() > 0);
    let dropped = work.petal(["drop", "--db", &url]).exits(0);
    assert!(dropped.stdout.contains("petal_prove1"), "{}{}", dropped.stdout, dropped.stderr);
    assert_eq!(made(), 0);
    // Somebody's schema by the name of the data to prove is not touched.
    client
        .batch_execute("CREATE SCHEMA petal_prove1; CREATE TABLE petal_prove1.cf1 (a int)")
        .unwrap();
    let refused = proves(&work, &url);
    assert_eq!(refused.code, Some(3), "{}", refused.stdout);
    assert!(refused.stdout.contains("is in the way"), "{}", refused.stdout);
    // The version is known before the load.
    assert!(sent(&work).contains(" and PostgreSQL 1"), "{}", sent(&work));
    let tables = client.query("SELECT 1 FROM petal_prove1.cf1", &[]).unwrap();
    assert!(tables.is_empty());
    // The user's own guard breaks no promise, and its words stay here.
    let guard = "DROP SCHEMA petal_prove1 CASCADE; \
        CREATE FUNCTION guard() RETURNS event_trigger LANGUAGE plpgsql AS 'BEGIN \
            RAISE EXCEPTION ''ask Erika on kassenserver7''; END'; \
        CREATE EVENT TRIGGER guard ON ddl_command_start WHEN TAG IN ('CREATE SCHEMA') \
            EXECUTE FUNCTION guard()";
    client.batch_execute(guard).unwrap();
    let refused = proves(&work, &url);
    client.batch_execute("DROP EVENT TRIGGER guard").unwrap();
    assert_eq!(refused.code, Some(3), "{}", refused.stdout);
    assert!(refused.stdout.contains(" 0 broken, "), "{}", refused.stdout);
    let text = sent(&work);
    assert!(text.contains("P0001") && !text.contains("Erika"), "{text}");
}

/// Fails if a statement names data of runs.
fn names_only_its_data(statements: &str) {
    assert!(statements.to_lowercase().contains("petal_prove1_cf1"));
    let named = statements.lines().find(|line| {
        let line = line.to_lowercase();
        ["petal1", "petal2", "petal_meta"].iter().any(|name| line.contains(name))
    });
    assert_eq!(named, None);
}

#[test]
fn mariadb_is_proved() {
    if !server_mysql::is_there() {
        return;
    }
    let work = Workplace::new();
    // One of its own: it counts the work of all, and others' is no bound.
    let server = server_mysql::Server::start(&["general-log", "log-output=TABLE"]);
    is_proved(&work, &server.url("prove_orders"), &["prove_orders"]);
    let left = server.sql("prove_orders", "SHOW TABLES");
    assert!(left.is_empty(), "{left:?}");
    let log = "SELECT CONVERT(argument USING utf8mb4) FROM mysql.general_log";
    let log: Vec<String> = server.sql("", log).into_iter().flatten().collect();
    names_only_its_data(&log.join("\n"));
    // The user's own object by a name of the data to prove breaks no promise.
    server.sql("prove_orders", "CREATE VIEW petal_prove2_cf1 AS SELECT 1");
    let refused = proves(&work, &server.url("prove_orders"));
    assert_eq!(refused.code, Some(3), "{}", refused.stdout);
    assert!(refused.stdout.contains(" 0 broken, "), "{}", refused.stdout);
    assert!(refused.stdout.contains("without petal's mark"), "{}", refused.stdout);
    let version = server.sql("", "SELECT VERSION()").into_iter().flatten().next().unwrap();
    assert!(sent(&work).lines().next().unwrap().contains(&version), "{}", sent(&work));
}

#[test]
fn the_stand_in_of_oracle_is_proved_and_left_empty() {
    let (stand_in, work) = (StandIn::start(Release::Free23), Workplace::new());
    let text = is_proved(&work, &stand_in.url(), &["standin", "STANDIN", "s3cret"]);
    assert!(text.contains("session logical reads"), "{text}");
    assert!(text.contains("licence of the Diagnostics Pack"), "{text}");
    assert!(stand_in.shared.world().tables.is_empty());
    let sent = stand_in.statements();
    names_only_its_data(&sent.join("\n"));
    assert!(!sent.iter().any(|sql| sql.contains("DBMS_WORKLOAD_REPOSITORY")), "AWR unasked");
    stand_in.understood_all();
    // Nobody is there to ask.
    let asked = work.petal(["prove", "--awr", "--db", &stand_in.url()]).exits(2);
    asked.telling(&["licence of the Diagnostics Pack", "--licensed"]);
}

#[test]
fn a_broken_promise_and_a_signal_leave_nothing() {
    let (stand_in, work) = (StandIn::start(Release::Free23), Workplace::new());
    stand_in.fails_at("operation", 300, Fault::Fails(1578, ""));
    let broken = proves(&work, &stand_in.url());
    assert_eq!(broken.code, Some(1), "{}\n{}", broken.stdout, broken.stderr);
    assert!(broken.stdout.contains("BROKEN"), "{}", broken.stdout);
    assert!(sent(&work).contains("ORA-01578"));
    assert!(stand_in.shared.world().tables.is_empty());
    // No room in the undo tablespace is no fault of petal or of the database.
    stand_in.is_well_again();
    stand_in.fails_at("operation", 300, Fault::Fails(30036, ""));
    let refused = proves(&work, &stand_in.url());
    assert_eq!(refused.code, Some(3), "{}\n{}", refused.stdout, refused.stderr);
    assert!(refused.stdout.contains(" 0 broken, "), "{}", refused.stdout);
    assert!(sent(&work).contains("ORA-30036"), "{}", refused.stdout);
    refused.telling(&["could not be tried"]);
    stand_in.is_well_again();
    let mut petal = work.petal(["prove", "--db", &stand_in.url()]).start();
    let before = stand_in.calls().len();
    petal.until("operations", || stand_in.calls().len() > before + 3);
    is_refused(&Workplace::new(), &stand_in.url(), None, "another petal proves this target");
    petal.signal(Signal::INT);
    let ended = petal.ends().exited(130);
    assert!(ended.stdout.contains("stopped before its end"), "{}", ended.stdout);
    assert!(stand_in.shared.world().tables.is_empty(), "nothing is left after a signal");
}

#[test]
fn work_of_others_breaks_no_promise() {
    // Always there, and with pauses in which petal may ask.
    for others in ["others_per_s=3000", "bursts_per_s=4000"] {
        let work = Workplace::new();
        let times = "select_us=20&scan_us=50&update_us=40";
        let proved = proves(&work, &format!("scripted:petal-data?{times}&{others}"));
        let said = format!("{others}: {}{}", proved.stdout, proved.stderr);
        assert!(proved.stdout.contains(" 0 broken, "), "{said}");
        if others.starts_with("others") {
            assert_eq!(proved.code, Some(3), "{said}");
            assert!(proved.stdout.contains("others work there, and hide petal's part"), "{said}");
        }
    }
}

/// What `petal prove` says of a server that tells this lie, unless it names the broken promise.
fn unfound(lie: Lie) -> Option<String> {
    let work = Workplace::new();
    let url =
        format!("scripted:petal-data?select_us=20&scan_us=50&update_us=40&lie={}", lie.name());
    let proved = proves(&work, &url);
    // 3: data are left.
    let code = if lie == Lie::DropLeavesASchema { 3 } else { 1 };
    let is_found = proved.code == Some(code) && proved.stdout.contains(lie.promise());
    (!is_found).then(|| format!("{lie:?}: {}{}", proved.stdout, proved.stderr))
}

#[test]
fn a_lying_server_is_found() {
    let live: Vec<Lie> = Lie::ALL.iter().copied().filter(|lie| !NOT_LIVE.contains(lie)).collect();
    // All of them by PETAL_TEST_LONG; else some of different kinds.
    let few = [
        Lie::UpdatesTouchANeighbour,
        Lie::ACutOperationIsDone,
        Lie::ReadsCommitAndCountThrice,
        Lie::VisitsCountTwice,
        Lie::PhysicalReadsCountTwice,
        Lie::CommitsCountTwiceAmongOthers,
        Lie::RedoCountsThrice,
        Lie::RedoCountsAThird,
        Lie::LatenciesAreTheMean,
        Lie::LatenciesAreShort,
    ];
    let tried = if is_long() { live } else { few.to_vec() };
    let unfound: Vec<String> = tried.into_iter().filter_map(unfound).collect();
    assert!(unfound.is_empty(), "{}", unfound.join("\n"));
    let work = Workplace::new();
    work.petal(["prove", "--db", "sqlite:petal-data"]).exits(2).telling(&["for servers"]);
    assert!(!Path::new(&work.path("petal-prove.txt")).exists());
    // Data of a run in the folder that the URL names stay. Runs of the proof are refused while its own data
    // are in use.
    work.petal(["setup", "-s", "1", "--scale", "8M", "--db", "scripted:own"]).exits(0);
    work.petal(["prove", "--db", "scripted:own?select_us=20&scan_us=50&update_us=40"]).exits(3);
    assert!(work.path("own").exists() && !work.path("own_prove").exists());
}
