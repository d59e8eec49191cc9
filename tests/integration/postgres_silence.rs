//! PostgreSQL that keeps its connections and does not answer: the network swallows what is sent, a
//! server process is stopped. That petal does not wait without end shows in that its calls end at all.

use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::engine_postgres::{load, open};
use crate::proxy::Proxy;
use crate::server_postgres::{
    Server, VACUUM_WAITS, is_there, keep_vacuum_waiting, sessions, shared,
};
use crate::support::{Workplace, count, record, timeline};

/// Far from its end is what a test does within such a run, also on a busy machine.
const RUN_S: &str = "12";

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
    let mut running = work.petal(["run", "--db", &url, "--run-time", RUN_S, "--json"]).start();
    running.until("operations", || work.seconds().len() >= 2);
    proxy.fall_silent();
    let run = running.ends().exited(1).json();
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
    let mut client = shared().client("silent_load");
    let loads = "query LIKE 'COPY petal_\\_loading.cf1%'";
    setup.until("two loaders", || sessions(&mut client, loads) == 2);
    proxy.fall_silent();
    setup.ends().exited(3).telling(&["writing rows of petal", "no answer for 10 s"]);
    // The server learns of it when the connections are gone; nothing is left of the load.
    proxy.cut();
    assert!(open(&shared().url("silent_load")).loaded().unwrap().is_empty());
}

#[test]
fn a_closing_snapshot_that_is_not_answered_costs_its_figures_alone() {
    if !is_there() {
        return;
    }
    let (proxy, url) = behind_proxy("silent_end", 1);
    let work = Workplace::new();
    let mut running = work.petal(["run", "--db", &url, "--run-time", RUN_S, "--json"]).start();
    running.until("operations", || work.seconds().len() >= 2);
    proxy.hold_back("petal counters");
    // An answer may be on its way to the record.
    let told_most = work.seconds().len() + 1;
    let run = running.ends().json();
    assert!(run["sessions_lost"].as_array().unwrap().is_empty());
    assert!(count(&run, "/ops/total") > 0);
    let until = run["counted_until"]["second"].as_f64().unwrap();
    assert!((1.0..=told_most as f64).contains(&until), "{until} of {told_most}");
    let record = record(&work.run_folder());
    let version = run["target"]["version"].as_str().unwrap();
    let major: u32 =
        version.split(|sign: char| !sign.is_ascii_digit()).next().unwrap().parse().unwrap();
    // Before 15 a second's figures lag, and are not reported.
    if major >= 15 {
        let counted = record["details"]["io"]["logical_reads"].as_f64().unwrap();
        let reported = run["per_second"]["logical_reads"].as_f64().unwrap();
        assert!(
            (reported - counted / until).abs() < 1e-6 * reported,
            "{reported} {counted} {until}"
        );
        let seconds = timeline(&work.run_folder());
        let first = seconds.iter().filter(|second| second["from_s"].as_f64().unwrap() < until);
        let summed: f64 = first.map(|second| second["io"]["logical_reads"].as_f64().unwrap()).sum();
        assert_eq!(summed, counted, "the seconds that were reported");
    } else {
        assert!(run["per_second"]["logical_reads"].is_null(), "unknown is not zero");
    }
    let gaps = record.to_string();
    assert!(gaps.contains("the closing snapshot failed"), "{gaps}");
    let report = std::fs::read_to_string(work.run_folder().join("report.txt")).unwrap();
    assert!(
        report.contains(&format!("LOAD PROFILE UNTIL SECOND {until:.0} OF {RUN_S}")),
        "{report}"
    );
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
        let telling = [&*format!("127.0.0.1:{}", proxy.port), "no answer within", "stopped"];
        work.petal(args).exits(3).telling(&telling);
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
    let args = ["run", "--db", &url, "--run-time", RUN_S, "--update-pct", "0", "--json"];
    let mut running = work.petal(args).start();
    running.until("operations", || work.seconds().len() >= 2);
    let sql = "SELECT pid FROM pg_stat_activity WHERE application_name = 'petal session 2'";
    let process: i32 = server.client("postgres").query_one(sql, &[]).unwrap().get(0);
    let process = Pid::from_raw(process).unwrap();
    kill_process(process, Signal::STOP).unwrap();
    let ended = running.ends();
    kill_process(process, Signal::CONT).unwrap();
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
    let mut holder = keep_vacuum_waiting("patient");
    let work = Workplace::new();
    let mut running = work.petal(["run", "--db", &url, "--work-loop", "5", "--json"]).start();
    let mut client = shared().client("patient");
    running.until("a vacuum", || sessions(&mut client, VACUUM_WAITS) == 1);
    // It is doubted twice meanwhile, and the server speaks for it.
    thread::sleep(Duration::from_secs(23));
    assert!(!running.has_ended());
    holder.batch_execute("ROLLBACK").unwrap();
    assert_eq!(count(&running.ends().exited(0).json(), "/ops/total"), 5);
}
