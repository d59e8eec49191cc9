//! PostgreSQL's connections that break: the server ends a session or dies, the network is cut. Whose
//! reason is reported, and that the rest is kept.

use std::thread;
use std::time::Duration;

use petal_engine::{Batch, Outcomes};
use petal_settings::{LoopSide, Settings};
use petal_workload::op::Operation;

use crate::engine_postgres::{SEAT, load, open, open_with, select, unlimited};
use crate::proxy::Proxy;
use crate::server_postgres::{Server, is_there, sessions, shared};
use crate::support::{Workplace, count, number};

/// Longer than anything is waited for here: such a run does not end by itself.
const ENDLESS_S: &str = "3600";

#[test]
fn a_terminated_session_is_named_and_the_others_go_on() {
    if !is_there() {
        return;
    }
    let url = shared().url("terminated");
    load(&url, 2);
    let work = Workplace::new();
    // Long enough to find the session in it.
    let mut running = work.petal(["run", "--db", &url, "--run-time", "12", "--json"]).start();
    running.until("operations", || work.seconds().len() >= 2);
    let sql = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity \
               WHERE application_name = 'petal session 2' AND datname = 'terminated'";
    let ended: i64 = shared().client("postgres").query_one(sql, &[]).unwrap().get(0);
    assert_eq!(ended, 1);
    let run = running.ends().exited(1).json();
    assert_eq!(run["sessions_lost"][0]["session"], 2);
    assert_eq!(run["sessions_lost"][0]["code"], "57P01");
    assert_eq!(run["status"], "complete");
}

#[test]
fn a_terminated_session_reports_the_servers_reason_each_time() {
    if !is_there() {
        return;
    }
    let socket = shared().url("reasons");
    load(&socket, 1);
    let tcp = format!("postgres://petal@127.0.0.1:{}/reasons", shared().port);
    let mut client = shared().client("postgres");
    let sql = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity \
               WHERE application_name = 'petal session 1' AND datname = 'reasons'";
    for (url, side) in
        [(&socket, LoopSide::Server), (&tcp, LoopSide::Server), (&tcp, LoopSide::Client)]
    {
        let engine = open_with(url, Settings { loop_side: Some(side), ..Settings::default() });
        for round in 0..40u64 {
            let mut session = engine.connect(SEAT).unwrap();
            let batch: Vec<Operation> = (0..round + 1).map(|at| select(at * 20 + 1, 64)).collect();
            let stop = unlimited();
            let error = thread::scope(|scope| {
                let working = scope.spawn(|| {
                    loop {
                        let mut done = Outcomes::default();
                        let executed = session.execute(Batch::new(&batch, &stop, &mut done));
                        if let Err(error) = executed.and_then(|()| session.flush_statistics()) {
                            return error;
                        }
                    }
                });
                thread::sleep(Duration::from_millis(round % 7));
                let ended: i64 = client.query_one(sql, &[]).unwrap().get(0);
                // The one of the round before may still be on its way out.
                assert!(ended >= 1);
                working.join().unwrap()
            });
            assert_eq!(error.code, "57P01", "round {round}, {side:?}: {error}");
        }
    }
}

#[test]
fn a_server_that_dies_ends_the_run_in_time_with_what_was_measured() {
    if !is_there() {
        return;
    }
    let mut server = Server::start(&["shared_buffers=16MB"]);
    let url = server.url("dying");
    load(&url, 2);
    let work = Workplace::new();
    let version = server.version();
    let mut running = work.petal(["run", "--db", &url, "--run-time", ENDLESS_S, "--json"]).start();
    running.until("operations", || work.seconds().len() >= 2);
    server.stop("QUIT");
    let run = running.ends().exited(1).json();
    assert_eq!(run["sessions_lost"].as_array().unwrap().len(), 2);
    assert!(count(&run, "/ops/total") > 0);
    // What the database reported until then is not lost.
    assert!(number(&run, "/counted_until/second") >= 1.0);
    if version >= 150_000 {
        assert!(number(&run, "/per_second/logical_reads") > 0.0);
    }
    // A load that dies with its server leaves nothing.
    let mut server = Server::start(&["shared_buffers=16MB"]);
    let url = server.url("dying");
    let mut setup = work.petal(["setup", "--db", &url, "-s", "2", "--scale", "2G"]).start();
    let mut client = server.client("dying");
    setup.until("a loader", || sessions(&mut client, "query LIKE 'COPY petal%'") > 0);
    server.crash();
    setup.ends().exited(3);
    assert!(open(&url).loaded().unwrap().is_empty());
}

#[test]
fn a_cut_network_loses_sessions_and_keeps_what_was_measured() {
    if !is_there() {
        return;
    }
    load(&shared().url("cutting"), 2);
    let proxy = Proxy::to(shared().port);
    let url = format!("postgres://petal@127.0.0.1:{}/cutting", proxy.port);
    let work = Workplace::new();
    let mut running = work.petal(["run", "--db", &url, "--run-time", ENDLESS_S, "--json"]).start();
    running.until("operations", || work.seconds().len() >= 2);
    proxy.cut();
    let run = running.ends().exited(1).json();
    assert_eq!(run["sessions_lost"].as_array().unwrap().len(), 2);
    assert_eq!(run["sessions_lost"][0]["code"], "connection");
    assert!(count(&run, "/ops/total") > 0);
}
