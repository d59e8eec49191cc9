//! petal's own program over Oracle's protocol, with a stand-in that speaks it: it connects, loads,
//! runs, is cut, and meets errors at each step of all this.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;

use crate::oracle_wire::capture;
use crate::oracle_wire::logon::ENDLESS_ROUNDS;
use crate::oracle_wire::stand_in::{Call, Fault, Release, StandIn, lock};
use crate::support::{Running, Workplace, contents, count, findings, is_long};

const LOOP: &str = "DECLARE ops ";

/// A stand-in with schemas that petal loaded into it.
fn loaded(release: Release, schemas: &str) -> (StandIn, Workplace) {
    let (stand_in, work) = (StandIn::start(release), Workplace::new());
    petal(&work, &stand_in, &["setup", "-s", schemas, "--scale", "8M"]).exits(0);
    (stand_in, work)
}

fn petal(work: &Workplace, stand_in: &StandIn, args: &[&str]) -> crate::support::Petal {
    work.petal([args, &["--db", &stand_in.url()]].concat())
}

#[test]
fn a_load_a_run_and_a_check_go_through() {
    for (release, side) in [(Release::Xe18, "client"), (Release::Free23, "server")] {
        let (stand_in, work) = loaded(release, "2");
        let args = ["--work-loop", "100", "--update-pct", "40", "--loop", side, "--json"];
        let run = petal(&work, &stand_in, &[&["run"], &args[..]].concat()).exits(0).json();
        assert_eq!((count(&run, "/ops/total"), count(&run, "/ops/update")), (200, 80));
        assert_eq!(run["rows"], run["rows_asked"]);
        assert_eq!(count(&run, "/counters/user commits"), 80);
        let all_there = "1,024 rows, each looked for by its key: all there";
        assert_eq!(petal(&work, &stand_in, &["check"]).ends().stdout.matches(all_there).count(), 2);
        petal(&work, &stand_in, &["drop"]).exits(0);
        assert!(stand_in.shared.world().tables.is_empty());
        stand_in.understood_all();
    }
}

#[test]
fn a_check_before_a_load_tests_the_tablespace_and_leaves_nothing() {
    let (stand_in, work) = (StandIn::start(Release::Free23), Workplace::new());
    let said = petal(&work, &stand_in, &["check", "-s", "2"]).ends().stdout;
    for seen in [
        "501 rows of a test table in 501 blocks, up to 1 in one (DBMS_ROWID)",
        "162 MiB needed for 2 schemas; 1.00 GiB free, its files extend by 31.0 GiB",
        "- (ORA-00942",
        "not needed: NOARCHIVELOG",
    ] {
        assert!(said.contains(seen), "{seen}: {said}");
    }
    assert!(stand_in.shared.world().tables.is_empty());
    stand_in.understood_all();
}

#[test]
fn each_releases_way_to_accept_is_taken_or_refused_in_words() {
    let (stand_in, work) = (StandIn::start(Release::Xe18), Workplace::new());
    stand_in.fails_at("accept", 0, Fault::Accepts("xe21-accept"));
    petal(&work, &stand_in, &["setup", "--scale", "8M"]).exits(0);
    stand_in.understood_all();
    // 11.2 speaks an older version of the protocol.
    stand_in.is_well_again();
    stand_in.fails_at("accept", 0, Fault::Accepts("xe11-accept"));
    let said = ["connecting", "12.1"];
    petal(&work, &stand_in, &["run"]).exits(3).telling(&said);
}

/// A listener of a cluster sends clients to the listener or the handler of one instance.
#[test]
fn a_listener_that_redirects_is_followed() {
    let (listener, instance) = (StandIn::start(Release::Free23), StandIn::start(Release::Free23));
    listener.fails_at("connect", 0, Fault::Redirects(instance.port));
    let work = Workplace::new();
    petal(&work, &listener, &["setup", "--scale", "8M"]).exits(0);
    assert_eq!((instance.rows(1).len(), listener.statements().len()), (1024, 0));
    instance.understood_all();
    // An instance that takes the connection and says nothing.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.is_well_again();
    listener.fails_at("connect", 0, Fault::Redirects(silent.local_addr().unwrap().port()));
    let url = format!("{}?connect_timeout=2", listener.url());
    work.petal(["run", "--db", &url]).exits(3).telling(&["connecting"]);
    // One that nobody listens at.
    drop(silent);
    work.petal(["run", "--db", &url]).exits(3).telling(&["connecting"]);
    listener.understood_all();
}

#[test]
fn a_schema_loads_in_ranges_and_the_others_are_copies_of_it() {
    let (stand_in, work) = (StandIn::start(Release::Free23), Workplace::new());
    let url = format!("{}?further_schemas=copy", stand_in.url());
    let args = ["setup", "-s", "3", "--scale", "8M", "--load-parallel-degree", "3", "--db", &url];
    work.petal(args).exits(0).telling(&["are copies of the first one"]);
    let first = stand_in.rows(1);
    assert!(first.keys().copied().eq(1..=1024));
    for schema in [2, 3] {
        let copied = stand_in.rows(schema);
        let differ = copied.iter().filter(|(key, text)| first.get(key) != Some(text)).count();
        assert_eq!((copied.len(), differ), (1024, 1), "all but the first row is copied");
    }
    let sent = stand_in.statements();
    let count = |begin: &str| sent.iter().filter(|sql| sql.starts_with(begin)).count();
    // The first row, and a range of 341 for each of three sessions.
    assert_eq!(count("INSERT INTO petal1_cf1 VALUES"), 4);
    assert_eq!(count("INSERT INTO petal2_cf1 VALUES"), 1);
    assert_eq!(count("INSERT /*+ APPEND */ INTO petal2_cf1 SELECT"), 1);
    stand_in.understood_all();
}

/// How far the texts of a call reach, as docs/engines/oracle.md has it.
#[test]
fn a_call_holds_thirteen_heavy_updates_of_random_text() {
    let (stand_in, work) = (StandIn::start(Release::Free23), Workplace::new());
    let setup = ["setup", "-s", "1", "--scale", "8M", "--obfuscate-columns", "true"];
    petal(&work, &stand_in, &setup).exits(0);
    let args = ["run", "--update-pct", "100", "--redo-stress", "heavy", "--work-unit", "1"];
    petal(&work, &stand_in, &[&args[..], &["--work-loop", "500"]].concat()).exits(0);
    let of = |call: &Call, name: &str| call.binds[name].clone();
    let calls = stand_in.calls();
    assert_eq!(calls.iter().map(|call| of(call, "TOTAL").number()).max(), Some(13));
    // Nineteen columns of 128 characters each, of 32,000.
    let longest = calls.iter().map(|call| of(call, "FILLERS").text().len()).max();
    assert_eq!(longest, Some(13 * 19 * 128));
    stand_in.understood_all();
}

#[test]
fn a_password_is_proved_and_a_wrong_one_refused() {
    for release in [Release::Xe18, Release::Free23] {
        let (stand_in, work) = (StandIn::start(release), Workplace::new());
        let url = stand_in.url().replace("s3cret", "wrong0");
        let ended = work.petal(["run", "--db", &url]).exits(3);
        let ended = ended.telling(&["ORA-01017", "check user and password"]);
        assert!(!ended.stderr.contains("wrong0"), "{}", ended.stderr);
        stand_in.fails_at("log-on 2", 0, Fault::Fails(28000, "The account is locked."));
        let run = petal(&work, &stand_in, &["run"]);
        run.exits(3).telling(&["ORA-28000", "ACCOUNT UNLOCK"]);
        stand_in.understood_all();
    }
}

#[test]
fn a_password_that_a_program_prints_is_asked_for_again_when_it_is_replaced() {
    let (stand_in, work) = loaded(Release::Free23, "1");
    let command = work.script("password.sh", "cat ${0%/*}/password; echo \"$@\" >>${0%/*}/asked");
    let command = command.display().to_string();
    let url = stand_in.url().replace(":s3cret@", "@");
    let args = ["run", "--run-time", "6", "--on-disconnect", "retry", "--db", &url];
    let petal = || work.petal(args).env("PASSWORD_COMMAND", &command);
    work.write("password", "wrong0\n");
    let ended = petal().exits(3).telling(&["ORA-01017"]);
    assert!(!ended.stderr.contains("wrong0"), "{}", ended.stderr);
    work.write("password", "s3cret\n");
    let mut run = petal().start();
    run.until("a second of the run", || !work.seconds().is_empty());
    work.write("password", "s3cret-second\n");
    *lock(&stand_in.shared.password) = "s3cret-second".to_owned();
    stand_in.fails_at(LOOP, 0, Fault::Closed);
    let asked = || std::fs::read_to_string(work.path("asked")).unwrap();
    run.until("another password", || asked().lines().count() > 3);
    stand_in.is_well_again();
    run.ends().exited(0);
    // The cells of a sweep connect with what the program prints then.
    let sweep = ["sweep", "--update-pct", "0,50", "--work-loop", "20", "--db", &url];
    work.petal(sweep).env("PASSWORD_COMMAND", &command).exits(0);
    let asked = asked();
    let wanted = format!("127.0.0.1 {} petal", stand_in.port);
    assert!(asked.lines().all(|line| line == wanted), "{asked}");
    assert!((3..=10).contains(&asked.lines().count()), "{asked}");
    for (path, bytes) in contents(&work.path("")) {
        let is_given = path.ends_with("password");
        let is_shown = bytes.windows(6).any(|part| part == b"s3cret");
        assert!(is_given || !is_shown, "{}", path.display());
    }
    let ended = work.petal(["check", "--db", &stand_in.url()]).env("PASSWORD_COMMAND", &command);
    ended.exits(2).telling(&["PASSWORD_COMMAND", "prints a password, and DB has one"]);
}

/// A packet whose length is of both kinds and whose type is nobody's.
fn of_no_type() -> Vec<u8> {
    [0, 0, 0, 32, 99].into_iter().chain([0; 27]).collect()
}

/// The beginning of a packet of data: the driver waits for the rest.
fn cut_short() -> Vec<u8> {
    [0, 0, 32, 0, 6].into_iter().chain([0; 27]).collect()
}

/// The steps before a session, with the release that takes each by itself.
const STEPS: [(&str, Release); 7] = [
    ("connect", Release::Xe18),
    ("accept", Release::Free23),
    ("protocol", Release::Xe18),
    ("data types", Release::Xe18),
    ("log-on 1", Release::Xe18),
    ("log-on 1", Release::Free23),
    ("log-on 2", Release::Xe18),
];

#[test]
fn silence_ends_and_garbage_at_each_step_of_the_way_in_are_reported_in_words() {
    let garbage: Vec<u8> = (0..64).map(|at: u8| at.wrapping_mul(37)).collect();
    for (step, release) in STEPS {
        let faults = [
            (Fault::Silence, "no answer within 1 s"),
            (Fault::Closed, ""),
            (Fault::Sends(garbage.clone()), ""),
            (Fault::Sends(of_no_type()), ""),
            (Fault::Sends(vec![0; 32]), ""),
        ];
        for (fault, reported) in faults {
            let (stand_in, work) = (StandIn::start(release), Workplace::new());
            stand_in.fails_at(step, 0, fault.clone());
            let url = format!("{}?connect_timeout=1", stand_in.url());
            let ended =
                work.petal(["run", "--db", &url]).exits(3).telling(&["connecting", reported]);
            let trace = ended.stderr.contains("panicked") || ended.stderr.contains("s3cret");
            assert!(!trace, "{step}, {fault:?}: {}", ended.stderr);
        }
    }
}

#[test]
fn a_load_that_meets_an_error_says_which_and_leaves_nothing() {
    let at = [
        ("CREATE TABLE petal_meta", 1950, "no privileges on tablespace 'IOPS'", "QUOTA"),
        ("APPEND_VALUES", 1653, "unable to extend table PETAL.PETAL1_CF1", "make room"),
        ("CREATE INDEX", 1652, "unable to extend temp segment", "a temporary one"),
        ("DBMS_STATS", 20000, "insufficient privileges", "alert log"),
    ];
    for (statement, code, message, hint) in at {
        let (stand_in, work) = (StandIn::start(Release::Free23), Workplace::new());
        stand_in.fails_at(statement, 0, Fault::Fails(code, message));
        let one = ["setup", "-s", "1", "--scale", "8M", "--load-parallel-degree", "1"];
        let ended = petal(&work, &stand_in, &one).ends();
        assert!([Some(1), Some(3)].contains(&ended.code), "{}", ended.stderr);
        ended.telling(&[&format!("ORA-{code:05}: {message}"), hint]);
        stand_in.is_well_again();
        petal(&work, &stand_in, &["run", "--work-loop", "1"]).exits(3).telling(&["not loaded"]);
        petal(&work, &stand_in, &["setup", "-s", "1", "--scale", "8M"]).exits(0);
        stand_in.understood_all();
    }
}

/// Beginnings of the statements that one load sends, each once, in their order.
fn statements_of_a_load() -> Vec<String> {
    let (stand_in, _) = loaded(Release::Free23, "1");
    let mut statements: Vec<String> = Vec::new();
    for sql in stand_in.statements() {
        let beginning: String = sql.chars().take(60).collect();
        if !statements.contains(&beginning) {
            statements.push(beginning);
        }
    }
    statements
}

/// A load whose connection meets a fault at some statement.
struct FaultyLoad {
    statement: String,
    stand_in: StandIn,
    work: Workplace,
    petal: Running,
}

impl FaultyLoad {
    fn start(statement: &str, fault: Fault) -> Self {
        let (stand_in, work) = (StandIn::start(Release::Free23), Workplace::new());
        stand_in.fails_at(statement, 0, fault);
        let petal = Self::setup(&work, &stand_in).start();
        Self { statement: statement.to_owned(), stand_in, work, petal }
    }

    fn setup(work: &Workplace, stand_in: &StandIn) -> crate::support::Petal {
        let url = format!("{}?connect_timeout=20", stand_in.url());
        work.petal(["setup", "-s", "1", "--scale", "8M", "--db", &url])
    }

    /// Whether the load failed: then it left nothing, and the next one goes through.
    fn leaves_all_or_nothing(self) -> bool {
        let Self { statement, stand_in, work, petal: load } = self;
        let ended = load.ends();
        let trace = ended.stderr.contains("panicked") || ended.stderr.contains("s3cret");
        assert!(!trace, "{statement}: {}", ended.stderr);
        stand_in.is_well_again();
        let run = petal(&work, &stand_in, &["run", "--work-loop", "1"]).ends();
        let has_failed = ended.code != Some(0);
        if has_failed {
            assert_eq!(ended.code, Some(3), "{statement}: {}", ended.stderr);
            assert!(run.stderr.contains("not loaded"), "{statement}: {}", run.stderr);
            Self::setup(&work, &stand_in).exits(0);
        } else {
            // What it asks to give advice may stay unanswered.
            assert_eq!(run.code, Some(0), "{statement}: {}", run.stderr);
        }
        stand_in.understood_all();
        has_failed
    }
}

#[test]
fn a_load_whose_connection_ends_or_loses_its_answer_at_any_statement_leaves_nothing() {
    let statements = statements_of_a_load();
    assert!(statements.len() > 15, "{statements:#?}");
    // All of them by PETAL_TEST_LONG; else every fourth.
    let is_long = is_long();
    let tried = || statements.iter().step_by(if is_long { 1 } else { 4 }).map(String::as_str);
    let loads = |statement, fault: &Fault| FaultyLoad::start(statement, fault.clone());
    // These wait for the rest of an answer, all at once, until their session is found idle.
    let (lost, odd) = (Fault::Sends(cut_short()), Fault::Sends(of_no_type()));
    let waiting = tried().chain(["commit"]).map(|statement| loads(statement, &lost));
    let waiting = waiting.chain(tried().filter(|_| is_long).map(|it| loads(it, &odd)));
    let waiting: Vec<_> = waiting.collect();
    let ended = tried().map(|statement| loads(statement, &Fault::Closed));
    // Each is looked at, whatever the others did.
    let failed = ended.map(FaultyLoad::leaves_all_or_nothing).filter(|has_failed| *has_failed);
    assert!(failed.count() > 0);
    let waited = waiting.into_iter().map(FaultyLoad::leaves_all_or_nothing);
    assert!(waited.filter(|has_failed| *has_failed).count() > 0);
}

#[test]
fn a_connection_that_falls_silent_in_a_load_is_left_after_a_signal() {
    let (stand_in, work) = (StandIn::start(Release::Free23), Workplace::new());
    stand_in.fails_at("CREATE INDEX", 0, Fault::Silence);
    let mut setup = petal(&work, &stand_in, &["setup", "-s", "1", "--scale", "8M"]).start();
    let is_asked = || stand_in.statements().iter().any(|sql| sql.contains("CREATE INDEX"));
    setup.until("the index", is_asked);
    setup.signal(Signal::INT);
    setup.ends().exited(130);
    stand_in.is_well_again();
    petal(&work, &stand_in, &["run", "--work-loop", "1"]).exits(3).telling(&["not loaded"]);
}

#[test]
fn an_error_costs_its_operation_or_its_session() {
    let (stand_in, work) = loaded(Release::Free23, "1");
    let args = ["run", "--work-loop", "100", "--update-pct", "50", "--json"];
    stand_in.fails_at("operation", 30, Fault::Fails(60, ""));
    let run = petal(&work, &stand_in, &args).ends().json();
    assert_eq!(count(&run, "/ops/total"), 99);
    assert_eq!(count(&run, "/errors/ORA-00060"), 1);
    stand_in.is_well_again();
    stand_in.fails_at("operation", 30, Fault::Fails(1578, ""));
    let run = petal(&work, &stand_in, &args).ends().json();
    let lost = &run["sessions_lost"][0];
    assert_eq!(lost["code"], "ORA-01578", "{lost}");
    assert!(count(&run, "/ops/total") >= 25, "what was measured is kept: {}", run["ops"]);
    stand_in.understood_all();
}

/// A run of two seconds whose second call hangs in this way.
fn run_that_hangs(stand_in: &StandIn, work: &Workplace, side: &str, at: &str) -> Value {
    stand_in.fails_at(at, 3, Fault::Hangs);
    let args = ["run", "--run-time", "2", "--loop", side, "--json"];
    let run = petal(work, stand_in, &args).ends().json();
    stand_in.understood_all();
    run
}

#[test]
fn a_call_that_hangs_at_the_end_is_cancelled() {
    for (side, at) in
        [("server", LOOP), ("client", "COUNT(c2) FROM petal1_cf1 t WHERE custid BETWEEN :1")]
    {
        let (stand_in, work) = loaded(Release::Free23, "1");
        let run = run_that_hangs(&stand_in, &work, side, at);
        assert!(stand_in.statements().iter().any(|sql| sql.starts_with("ALTER SYSTEM CANCEL SQL")));
        assert_eq!(count(&run, "/ops/cut"), 1, "{}", run["ops"]);
        assert_eq!(run["sessions_lost"], Value::Array(Vec::new()), "{:?}", findings(&run));
    }
}

#[test]
fn if_cancelling_fails_the_session_is_killed() {
    let (stand_in, work) = loaded(Release::Xe18, "1");
    stand_in.fails_at("CANCEL SQL", 0, Fault::Fails(2000, "missing ALTER SYSTEM option"));
    let run = run_that_hangs(&stand_in, &work, "server", LOOP);
    assert!(stand_in.statements().iter().any(|sql| sql.starts_with("ALTER SYSTEM KILL SESSION")));
    assert_eq!(run["sessions_lost"], Value::Array(Vec::new()), "{:?}", findings(&run));
}

#[test]
fn without_the_right_to_cancel_or_kill_the_driver_breaks_the_call_off() {
    let (stand_in, work) = loaded(Release::Free23, "1");
    stand_in.fails_at("ALTER SYSTEM", 0, Fault::Fails(1031, "insufficient privileges"));
    let run = run_that_hangs(&stand_in, &work, "server", LOOP);
    assert_eq!(count(&run, "/ops/cut"), 1, "{}", run["ops"]);
    assert_eq!(run["sessions_lost"], Value::Array(Vec::new()), "{:?}", findings(&run));
}

/// As rust-oracledb 0.2 does it: cancelling by the server goes unseen.
#[test]
fn a_call_that_cancelling_does_not_end_is_killed_after_three_seconds() {
    for (side, at, fault) in [
        ("server", LOOP, Fault::HangsUnseen),
        ("client", "COUNT(c2) FROM petal1_cf1 t WHERE custid BETWEEN :1", Fault::HangsUnseen),
        ("server", LOOP, Fault::HangsHasty),
    ] {
        let (stand_in, work) = loaded(Release::Free23, "1");
        stand_in.fails_at(at, 3, fault.clone());
        let begin = Instant::now();
        let args = ["run", "--run-time", "2", "--loop", side, "--json"];
        let run = petal(&work, &stand_in, &args).ends().json();
        assert!(
            begin.elapsed() < Duration::from_secs(16),
            "{side} {fault:?}: {:?}",
            begin.elapsed()
        );
        let sent = stand_in.statements();
        let position = |text: &str| sent.iter().position(|sql| sql.starts_with(text));
        let cancelled = position("ALTER SYSTEM CANCEL SQL");
        assert!(cancelled.is_some(), "{side} {fault:?}");
        if matches!(fault, Fault::HangsUnseen) {
            assert!(position("ALTER SYSTEM KILL SESSION") > cancelled, "{side}");
        }
        assert_eq!(count(&run, "/ops/cut"), 1, "{side} {fault:?}: {}", run["ops"]);
        let lost = &run["sessions_lost"];
        assert_eq!(*lost, Value::Array(Vec::new()), "{side} {fault:?}: {:?}", findings(&run));
    }
}

#[test]
fn a_lock_that_cuts_every_operation_fails_the_run() {
    let (stand_in, work) = loaded(Release::Free23, "1");
    stand_in.shared.world().held.insert("PETAL1_CF1".to_owned(), 1);
    let run = petal(&work, &stand_in, &["run", "--run-time", "1", "--update-pct", "100", "--json"]);
    let run = run.exits(1).json();
    assert_eq!(count(&run, "/ops/total"), 0, "{}", run["ops"]);
    let findings = findings(&run);
    assert!(findings.iter().any(|finding| finding.starts_with("nothing-done")), "{findings:?}");
}

#[test]
fn awr_is_refused_where_nobody_may_use_it() {
    let (stand_in, work) = loaded(Release::Xe18, "1");
    let access = ("control_management_pack_access", "NONE");
    stand_in.shared.world().parameters.push(access);
    work.write("slob.conf", "DATABASE_STATISTICS_TYPE=awr\n");
    petal(&work, &stand_in, &["run", "--work-loop", "1"])
        .exits(2)
        .telling(&["empty snapshots", "statspack"]);
    assert!(stand_in.calls().is_empty());
}

const ELSEWHERE: &str = "the database is on another host";

/// Only what the instance has that serves petal, or the reason why it is unknown.
#[test]
fn the_headline_is_filled_in_the_root_in_a_pluggable_database_and_in_a_cluster() {
    for (container, second, updates) in
        [(1, None, "0"), (3, None, "0"), (3, None, "50"), (0, Some(1), "0"), (0, Some(1), "50")]
    {
        let (stand_in, work) = loaded(Release::Free23, "1");
        {
            let mut world = stand_in.shared.world();
            (world.container, world.second, world.is_cold) = (container, second, true);
        }
        let args = ["run", "--work-loop", "100", "--update-pct", updates, "--json"];
        let run = petal(&work, &stand_in, &args).ends().json();
        let place = format!("container {container}, {second:?}, {updates} %: {}", run["headline"]);
        // One request for each row, and none of the other instance's.
        assert_eq!(count(&run, "/counters/physical read IO requests"), 6400, "{place}");
        let piops = &run["headline"]["piops"];
        assert!(piops["reads"].as_f64() > Some(0.0), "{place}");
        let why = &run["unknown_figures"]["physical_write_requests"];
        match (container > 1, updates) {
            (false, "0") => assert_eq!(piops["sum"], piops["reads"], "{place}"),
            (false, _) => {
                let [reads, writes, sum] =
                    ["reads", "writes", "sum"].map(|part| piops[part].as_f64().unwrap());
                assert!(writes > 0.0 && (reads + writes - sum).abs() < 0.01 * sum, "{place}");
            }
            (true, percent) => {
                assert!(why.as_str().unwrap().contains("DBA_PRIV_USER"), "{place}");
                let sum = if percent == "0" { &piops["reads"] } else { &Value::Null };
                assert_eq!(piops["sum"], *sum, "{place}");
            }
        }
        assert_eq!(why.is_null(), container <= 1, "{place}");
        assert_eq!(run["headline"]["read_us"], 1.0, "{place}");
        assert!(run["headline"]["redo"]["mb_s"].is_number(), "{place}");
        assert_eq!(run["headline"]["served_by"]["why_unknown"], ELSEWHERE, "{place}");
        let limited_by = run["headline"]["limited_by"]["words"].as_str().unwrap();
        assert!(!limited_by.starts_with('-'), "{place}");
    }
}

#[test]
fn an_answer_that_never_comes_in_a_run_costs_the_operations_of_its_call() {
    let faults = [Fault::Silence, Fault::Sends(cut_short())];
    let sides =
        [("server", LOOP), ("client", "COUNT(c2) FROM petal1_cf1 t WHERE custid BETWEEN :1")];
    let start = |(fault, (side, at)): (&Fault, (&str, &str))| {
        let (stand_in, work) = loaded(Release::Free23, "1");
        stand_in.fails_at(at, 6, fault.clone());
        let args = ["run", "--run-time", "2", "--loop", side, "--json"];
        (petal(&work, &stand_in, &args).start(), work)
    };
    // The driver waits twice for what it broke off: six seconds after the end, and as long again. It
    // panics where what it has got is the beginning of an answer.
    let all = faults.iter().flat_map(|fault| sides.map(|side| (fault, side)));
    let runs: Vec<_> = all.map(start).collect();
    for (run, _work) in runs {
        let run = run.ends().json();
        let lost = run["sessions_lost"].as_array().unwrap();
        let reported = (count(&run, "/ops/cut"), lost.len());
        assert!([(1, 0), (0, 1)].contains(&reported), "{} {lost:?}", run["ops"]);
        assert!(count(&run, "/ops/total") > 0);
    }
}

#[test]
fn a_connection_that_ends_in_a_run_costs_the_session_and_no_figure() {
    let (stand_in, work) = loaded(Release::Free23, "1");
    stand_in.fails_at(LOOP, 3, Fault::Closed);
    let run = petal(&work, &stand_in, &["run", "--run-time", "2", "--json"]).ends().json();
    assert_eq!(run["sessions_lost"][0]["code"], "connection", "{}", run["sessions_lost"]);
    assert!(count(&run, "/ops/total") > 0);
}

#[test]
fn a_panic_of_the_driver_costs_the_session_and_no_figure() {
    // The header of a packet that is shorter than a header: the driver indexes past its end, and a
    // destructor of its own panics again.
    let short = Fault::Sends(vec![0, 0, 0, 5, 6]);
    for (side, at) in
        [("server", LOOP), ("client", "COUNT(c2) FROM petal1_cf1 t WHERE custid BETWEEN :1")]
    {
        let (stand_in, work) = loaded(Release::Free23, "1");
        stand_in.fails_at(at, 3, short.clone());
        let args = ["run", "--run-time", "2", "--loop", side, "--json"];
        let ended = petal(&work, &stand_in, &args).exits(1);
        assert!(!ended.stderr.contains("panicked"), "{}", ended.stderr);
        let run = ended.json();
        let lost = &run["sessions_lost"][0];
        assert_eq!(lost["code"], "connection");
        let message = lost["message"].as_str().unwrap();
        let reported =
            ["the driver failed at the answer: index out of bounds", "packet.rs:", "report"];
        assert!(reported.iter().all(|words| message.contains(words)), "{message}");
        assert!(count(&run, "/ops/total") > 0);
    }
    for statement in ["INSERT INTO petal1", "DBMS_ROWID"] {
        let (stand_in, work) = (StandIn::start(Release::Xe18), Workplace::new());
        stand_in.fails_at(statement, 0, short.clone());
        let setup = petal(&work, &stand_in, &["setup", "-s", "1", "--scale", "8M"]).exits(3);
        setup.telling(&["the driver failed at the answer"]);
    }
}

#[test]
fn an_error_text_of_megabytes_is_cut() {
    let long: &'static str = Box::leak("x".repeat(3 << 20).into_boxed_str());
    let (stand_in, work) = (StandIn::start(Release::Free23), Workplace::new());
    stand_in.fails_at("CREATE TABLE petal_meta", 0, Fault::Fails(1950, long));
    let setup = petal(&work, &stand_in, &["setup", "-s", "1", "--scale", "8M"]).ends();
    let setup = setup.telling(&["ORA-01950: xxx", "bytes)"]);
    assert!(setup.stderr.len() < 10_000, "{} bytes", setup.stderr.len());
}

/// The driver collects the packets of an answer, and has no bound for them.
#[test]
fn an_answer_of_oracle_without_an_end_costs_neither_memory_nor_time() {
    const BUDGET: &str = "ulimit -t 60; ulimit -v 3000000";
    let reasons = ["the answer is larger than any", "exceeds 256 MiB"];
    let (stand_in, work) = (StandIn::start(Release::Free23), Workplace::new());
    stand_in.fails_at("log-on 2", 0, Fault::Endless);
    petal(&work, &stand_in, &["check"]).after(BUDGET).exits(3).telling(&reasons);
    for (side, at) in
        [("server", LOOP), ("client", "COUNT(c2) FROM petal1_cf1 t WHERE custid BETWEEN :1")]
    {
        let (stand_in, work) = loaded(Release::Free23, "1");
        stand_in.fails_at(at, 3, Fault::Endless);
        let args = ["run", "--run-time", "2", "--loop", side, "--json"];
        let run = petal(&work, &stand_in, &args).after(BUDGET).exits(1).json();
        let message = run["sessions_lost"][0]["message"].as_str().unwrap();
        assert!(reasons.iter().all(|words| message.contains(words)), "{message}");
    }
}

#[test]
fn a_server_of_oracle_that_asks_for_billions_of_rounds_is_left() {
    let (stand_in, work) = (StandIn::start(Release::Free23), Workplace::new());
    stand_in.shared.rounds.store(ENDLESS_ROUNDS, Ordering::Relaxed);
    let url = format!("{}?connect_timeout=2", stand_in.url());
    work.petal(["run", "--db", &url]).exits(3).telling(&["no answer within 2 s"]);
}

#[test]
fn a_server_that_requires_native_encryption_is_reported_with_the_way_round_it() {
    let (stand_in, work) = (StandIn::start(Release::Free23), Workplace::new());
    let mut accept = capture("free23-accept");
    // The server wants its own encryption negotiated.
    accept[14] |= 0x10;
    let packet = [&[0, accept.len() as u8 + 8, 0, 0, 2, 0, 0, 0], &accept[..]].concat();
    stand_in.fails_at("accept", 0, Fault::Sends(packet));
    let run = petal(&work, &stand_in, &["run"]).exits(3);
    run.telling(&["requires native network encryption", "TCPS", "SQLNET.ENCRYPTION_SERVER"]);
}

/// The driver keeps a vector of repeated columns for the rows after it. Recordings show one before
/// each row; a server that left it out where all columns changed would be misread.
#[test]
fn a_row_that_the_driver_misreads_is_an_error_and_no_figure() {
    let (stand_in, work) = loaded(Release::Free23, "2");
    stand_in.shared.spares_vectors.store(true, Ordering::Relaxed);
    let ended = petal(&work, &stand_in, &["run", "--work-loop", "1"]).ends();
    assert_ne!(ended.code, Some(0), "{}", ended.stdout);
}

#[test]
fn an_account_without_a_12c_verifier_is_named_with_what_makes_one() {
    for release in [Release::Xe18, Release::Free23] {
        let (stand_in, work) = (StandIn::start(release), Workplace::new());
        stand_in.fails_at("log-on 1", 0, Fault::Fails(0, "a verifier of 11G"));
        let said = ["no 12C password verifier", "DBA_USERS.PASSWORD_VERSIONS", "IDENTIFIED BY"];
        petal(&work, &stand_in, &["check"]).exits(3).telling(&said);
    }
}
