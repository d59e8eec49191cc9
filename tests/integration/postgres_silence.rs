//! PostgreSQL that keeps its connections and does not answer: the network swallows what is sent, a
//! server process is stopped. And sessions that the server ends, whose reason must not get lost.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use petal::engine::{self, Engine, LoadPlan, Outcomes, Silent, Stop};
use petal::settings::url::TargetUrl;
use petal::settings::{LoopSide, Settings};
use petal::workload::op::{Kind, Operation};
use petal::workload::row::Filler;
use petal::workload::seat::{Role, Seat};
use rustix::process::{Pid, Signal, kill_process};

use crate::proxy::Proxy;
use crate::server_postgres::{Server, is_there, shared};
use crate::support::{Workplace, count, record};

/// Generous: what must not happen is waiting without end.
const IN_TIME: Duration = Duration::from_secs(120);

fn open(url: &str, side: LoopSide) -> Arc<dyn Engine> {
    let db = TargetUrl::parse(url).unwrap();
    engine::open(&Settings { db, loop_side: Some(side), ..Settings::default() }).unwrap()
}

pub fn load(url: &str, schemas: u32) {
    let plan = LoadPlan {
        schemas: (1..=schemas).collect(),
        rows: 2048,
        scan_rows: 32,
        block_size: 8192,
        degree: 2,
        unique_index: false,
        filler: Filler::Constant,
        seed: 7,
        replace: false,
    };
    open(url, LoopSide::Server).load(&plan, &Silent, &Stop::unlimited(Arc::default())).unwrap();
}

/// A loaded database behind a proxy.
fn behind_proxy(database: &str, schemas: u32) -> (Proxy, String) {
    let url = shared().url(database);
    if schemas > 0 {
        load(&url, schemas);
    }
    let proxy = Proxy::to(shared().port);
    let url = format!(
        "postgres://petal@127.0.0.1:{}/{database}?connect_timeout=2&sslmode=disable",
        proxy.port
    );
    (proxy, url)
}

#[test]
fn a_network_that_falls_silent_in_a_run_ends_it_with_what_was_measured() {
    if !is_there() {
        return;
    }
    let (proxy, url) = behind_proxy("silent_run", 2);
    let work = Workplace::new();
    let mut running = work.petal(["run", "--db", &url, "--run-time", "4", "--json"]).start();
    running.until("operations", || work.journal().len() >= 2);
    let begin = Instant::now();
    proxy.fall_silent();
    let run = running.ends().exited(1).json();
    assert!(begin.elapsed() < IN_TIME, "{:?}", begin.elapsed());
    let lost = run["sessions_lost"].as_array().unwrap();
    assert_eq!(lost.len(), 2, "{lost:?}");
    for lost in lost {
        assert_eq!(lost["code"], "no-answer", "{lost}");
        let message = lost["message"].as_str().unwrap();
        assert!(message.contains(&format!("127.0.0.1:{}: no answer", proxy.port)), "{message}");
    }
    assert!(count(&run, "/ops/total") > 0);
    let gaps = record(&work.run_folder()).to_string();
    assert!(gaps.contains("the closing snapshot failed"), "{gaps}");
    let folder = work.run_folder();
    let report = work.petal(["report", folder.to_str().unwrap(), "--json"]).ends().json();
    assert_eq!(report["ops"], run["ops"]);
}

#[test]
fn a_network_that_falls_silent_in_a_load_ends_it() {
    if !is_there() {
        return;
    }
    let (proxy, url) = behind_proxy("silent_load", 0);
    let work = Workplace::new();
    let mut setup = work.petal(["setup", "--db", &url, "-s", "2", "--scale", "1G"]).start();
    let sql = "SELECT count(*) FROM pg_stat_activity WHERE datname = 'silent_load' \
               AND query LIKE 'COPY petal_\\_loading.cf1%'";
    let mut client = shared().client("postgres");
    setup.until("two loaders", || client.query_one(sql, &[]).unwrap().get::<_, i64>(0) == 2);
    let begin = Instant::now();
    proxy.fall_silent();
    setup.ends().exited(3).telling(&["writing rows of petal", "no answer for 10 s"]);
    assert!(begin.elapsed() < IN_TIME, "{:?}", begin.elapsed());
    // The server learns of it when the connections are gone; nothing is left of the load.
    proxy.cut();
    assert!(open(&shared().url("silent_load"), LoopSide::Server).loaded().unwrap().is_empty());
}

#[test]
fn a_closing_snapshot_that_is_not_answered_costs_its_figures_alone() {
    if !is_there() {
        return;
    }
    let (proxy, url) = behind_proxy("silent_end", 1);
    let work = Workplace::new();
    let mut running = work.petal(["run", "--db", &url, "--run-time", "4", "--json"]).start();
    running.until("operations", || work.journal().len() >= 2);
    let begin = Instant::now();
    proxy.hold_back("petal counters");
    let run = running.ends().json();
    assert!(begin.elapsed() < IN_TIME, "{:?}", begin.elapsed());
    assert!(run["sessions_lost"].as_array().unwrap().is_empty());
    assert!(count(&run, "/ops/total") > 0);
    let until = run["counted_until"]["second"].as_f64().unwrap();
    assert!((1.0..=3.0).contains(&until), "{until}");
    let record = record(&work.run_folder());
    let version = run["target"]["version"].as_str().unwrap();
    let major: u32 =
        version.split(|sign: char| !sign.is_ascii_digit()).next().unwrap().parse().unwrap();
    // Before 15 a second's figures lag, and are not told.
    if major >= 15 {
        let counted = record["details"]["io"]["logical_reads"].as_f64().unwrap();
        let told = run["per_second"]["logical_reads"].as_f64().unwrap();
        assert!((told - counted / until).abs() < 1e-6 * told, "{told} {counted} {until}");
        let seconds = record["details"]["timeline"].as_array().unwrap().iter();
        let first = seconds.filter(|second| second["from_s"].as_f64().unwrap() < until);
        let summed: f64 = first.map(|second| second["io"]["logical_reads"].as_f64().unwrap()).sum();
        assert_eq!(summed, counted, "the seconds that were told");
    } else {
        assert!(run["per_second"]["logical_reads"].is_null(), "unknown is not zero");
    }
    let gaps = record.to_string();
    assert!(gaps.contains("the closing snapshot failed"), "{gaps}");
    let report = std::fs::read_to_string(work.run_folder().join("report.txt")).unwrap();
    assert!(report.contains(&format!("LOAD PROFILE UNTIL SECOND {until:.0} OF 4")), "{report}");
}

#[test]
fn a_server_that_takes_connections_and_says_nothing_is_not_waited_for() {
    if !is_there() {
        return;
    }
    let (proxy, url) = behind_proxy("silent_door", 0);
    proxy.fall_silent();
    let work = Workplace::new();
    for args in [&["run", "--db", &url][..], &["setup", "--db", &url], &["drop", "--db", &url]] {
        let begin = Instant::now();
        let telling = [&*format!("127.0.0.1:{}", proxy.port), "no answer within", "stopped"];
        work.petal(args).exits(3).telling(&telling);
        assert!(begin.elapsed() < IN_TIME, "{:?}", begin.elapsed());
    }
}

#[test]
fn a_stopped_server_process_loses_its_session_and_no_other() {
    if !is_there() {
        return;
    }
    // Its own: what a stopped process holds, others may wait for.
    let server = Server::start(&["shared_buffers=64MB"]);
    let url = server.url("stopped");
    load(&url, 2);
    let work = Workplace::new();
    // Far from the end: what is found below may take seconds on a busy machine.
    let args = ["run", "--db", &url, "--run-time", "12", "--update-pct", "0", "--json"];
    let mut running = work.petal(args).start();
    running.until("operations", || work.journal().len() >= 2);
    let sql = "SELECT pid FROM pg_stat_activity WHERE application_name = 'petal session 2'";
    let process: i32 = server.client("postgres").query_one(sql, &[]).unwrap().get(0);
    let process = Pid::from_raw(process).unwrap();
    kill_process(process, Signal::STOP).unwrap();
    let begin = Instant::now();
    let ended = running.ends();
    kill_process(process, Signal::CONT).unwrap();
    assert!(begin.elapsed() < IN_TIME, "{:?}", begin.elapsed());
    let run = ended.exited(1).json();
    let lost = run["sessions_lost"].as_array().unwrap();
    assert_eq!(lost.len(), 1, "{lost:?}");
    assert_eq!((&lost[0]["session"], &lost[0]["code"]), (&2.into(), &"no-answer".into()));
    assert!(count(&run, "/ops/total") > 0);
    assert!(!run["per_second"]["logical_reads"].is_null());
}

#[test]
fn work_that_is_silent_for_long_is_waited_for_while_the_server_answers() {
    if !is_there() {
        return;
    }
    let url = shared().url("patient");
    load(&url, 1);
    let mut client = shared().client("patient");
    client.batch_execute("BEGIN; LOCK TABLE petal1.cf1 IN SHARE UPDATE EXCLUSIVE MODE").unwrap();
    let work = Workplace::new();
    let mut running = work.petal(["run", "--db", &url, "--work-loop", "5", "--json"]).start();
    let sql = "SELECT count(*) FROM pg_stat_activity WHERE datname = 'patient' \
               AND query LIKE 'VACUUM%' AND wait_event_type = 'Lock'";
    let mut others = shared().client("postgres");
    running.until("a vacuum", || others.query_one(sql, &[]).unwrap().get::<_, i64>(0) == 1);
    // It is doubted twice meanwhile, and the server speaks for it.
    thread::sleep(Duration::from_secs(23));
    assert!(!running.has_ended());
    client.batch_execute("ROLLBACK").unwrap();
    assert_eq!(count(&running.ends().exited(0).json(), "/ops/total"), 5);
}

#[test]
fn a_terminated_session_tells_the_servers_reason_each_time() {
    if !is_there() {
        return;
    }
    let socket = shared().url("reasons");
    load(&socket, 1);
    let tcp = format!("postgres://petal@127.0.0.1:{}/reasons", shared().port);
    let mut client = shared().client("postgres");
    let sql = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity \
               WHERE application_name = 'petal session 1' AND datname = 'reasons'";
    let select =
        |first| Operation { kind: Kind::Select, schema: 1, first, rows: 64, stamp: 0, due: None };
    let seat = Seat { session: 1, schema: 1, endpoint: 0, role: Role::Mixed };
    for (url, side) in
        [(&socket, LoopSide::Server), (&tcp, LoopSide::Server), (&tcp, LoopSide::Client)]
    {
        let engine = open(url, side);
        for round in 0..40u64 {
            let mut session = engine.connect(seat).unwrap();
            let batch: Vec<Operation> = (0..round + 1).map(|at| select(at * 20 + 1)).collect();
            let stop = Stop::unlimited(Arc::default());
            let error = thread::scope(|scope| {
                let working = scope.spawn(|| {
                    loop {
                        let mut done = Outcomes::default();
                        if let Err(error) = session.execute(&batch, &stop, &mut done) {
                            return error;
                        }
                    }
                });
                thread::sleep(Duration::from_millis(round % 7));
                let ended: i64 = client.query_one(sql, &[]).unwrap().get(0);
                assert_eq!(ended, 1);
                working.join().unwrap()
            });
            assert_eq!(error.code, "57P01", "round {round}, {side:?}: {error}");
        }
    }
}
