//! `petal interfere`: the price of a neighbour, against a delay that the test itself causes.

use std::io::{Write as _, stderr};
use std::path::Path;
use std::thread;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;

use crate::proxy::Proxy;
use crate::server_postgres::{self, Server};
use crate::support::{Workplace, findings, is_long, number, record, skip, until};

/// Arguments of a short test: operations of one block at an even rate, in slots of three seconds.
const SHORT: [&str; 12] = [
    "--update-pct",
    "0",
    "--work-unit",
    "1",
    "--arrivals",
    "even",
    "--slot",
    "3s",
    "--settling",
    "1",
    "--warm-up",
    "1",
];

fn args<'a>(more: &[&'a str]) -> Vec<&'a str> {
    [&["interfere"], &SHORT[..], more].concat()
}

fn figure<'a>(run: &'a Value, neighbour: usize, layer: &str, name: &str) -> &'a Value {
    let figures = run["interference"][neighbour]["figures"].as_array().unwrap();
    figures.iter().find(|it| it["layer"] == layer && it["figure"] == name).unwrap()
}

fn is_alive(pid_file: &Path) -> bool {
    let pid = std::fs::read_to_string(pid_file).unwrap();
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim()));
    stat.is_ok_and(|stat| !stat.contains(") Z "))
}

fn postgres() -> Option<(Server, Workplace)> {
    if !server_postgres::is_there() {
        skip("PostgreSQL is not there");
        return None;
    }
    let server = Server::start(&[]);
    let work = Workplace::new();
    let url = server.tcp_url("users");
    work.petal(["setup", "-s", "1", "--scale", "4096", "--scan-table-sz", "0", "--db", &url])
        .exits(0);
    Some((server, work))
}

/// The neighbour delays all that passes a relay for as long as it is on.
#[test]
fn a_known_delay_is_measured_within_10_percent() {
    let Some((server, work)) = postgres() else { return };
    let proxy = Proxy::to(server.port);
    let url = server.tcp_url("users");
    let url = url.replace(&format!(":{}", server.port), &format!(":{}", proxy.port));
    let flag = work.path("on");
    let with = "trap 'rm -f on; exit' TERM; touch on; sleep 600 & wait";
    let fixed = args(&["--db", &url, "--loop", "client", "-t", "8", "--rate", "20", "--json"]);
    let mut running =
        work.petal([&fixed[..], &["--with", with, "--pairs", "6"]].concat()).watching().start();
    while !running.has_ended() {
        proxy.delay(Duration::from_millis(if flag.exists() { 50 } else { 0 }));
        thread::sleep(Duration::from_millis(5));
    }
    let run = running.ends().exited(0).json();
    // Each operation is a question and an answer.
    let (held_s, passed) = proxy.held();
    let caused_us = 2.0 * held_s * 1e6 / passed as f64;
    let mean = figure(&run, 0, "users", "mean");
    let measured_us = number(mean, "/with") - number(mean, "/without");
    let _ = writeln!(stderr(), "caused {caused_us:.0} us, measured {measured_us:.0} us: {mean}");
    // Other tests vary the response times of a busy host, which the interval contains.
    let half_us = (number(mean, "/interval/1") - number(mean, "/interval/0")) / 2.0
        * number(mean, "/without");
    let allowed_us = if is_long() { 0.0 } else { 2.0 * half_us };
    let apart_us = (measured_us - caused_us).abs();
    assert!(apart_us < (0.1 * caused_us).max(allowed_us), "{measured_us} and {caused_us}");
    assert_eq!(mean["is_found"], true, "{mean}");
    let low = number(mean, "/interval/0");
    assert!(low > 0.0 && low < number(mean, "/share"), "{mean}");
    // 60 operations in a slot have no p99.
    let p99 = figure(&run, 0, "users", "p99");
    assert!(p99["share"].is_null() && p99["why_unknown"].is_string(), "{p99}");
    assert!(run["interference"][0]["worked"].as_f64().unwrap() > 0.9);
}

#[test]
fn a_neighbour_that_fails_at_once_has_no_price_and_ends_the_run() {
    let work = Workplace::loaded(1, "16M");
    let ended = work.petal(args(&["--rate", "100", "--with", "echo no; exit 3"])).exits(1);
    assert!(ended.stderr.contains("it failed: it ended with exit code 3"), "{}", ended.stderr);
    let run = record(&work.run_folder());
    assert!(number(&run, "/elapsed_s") < 20.0, "{}", run["elapsed_s"]);
    assert!(findings(&run).contains(&"neighbour-failed"));
    let output = std::fs::read_to_string(work.run_folder().join("neighbour-1.log")).unwrap();
    assert_eq!(output, "no\n");
    for (more, words) in [
        (&["--rate", "100", "--with", "vaccum"][..], "neither a neighbour that petal knows"),
        (&["--rate", "100", "--with", "none", "--run-time", "60"], "raise --pairs"),
        (&["--rate", "100", "--with", "none", "--with", "none"], "named twice"),
    ] {
        let refused = work.petal(args(more)).exits(2).stderr;
        assert!(refused.contains(words), "{refused}");
    }
    let refused = work.petal(["interfere", "--with", "true"]).exits(2).stderr;
    assert!(refused.contains("RATE is not set"), "{refused}");
}

#[test]
fn a_signal_keeps_what_was_measured_and_no_end_of_petal_leaves_a_neighbour() {
    let work = Workplace::loaded(1, "16M");
    let pid = work.path("pid");
    // They leave the group of processes, as daemons do; those of the first also the environment.
    let bare = [work.path("bare"), work.path("child")];
    let with = "setsid -f sh -c 'echo $$ > pid; exec sleep 600'; sleep 600";
    let first = "setsid -f env -i sh -c 'echo $$ > bare; sleep 600 & echo $! > child; wait'; ";
    let start = |with: &str| {
        let _ = std::fs::remove_file(&pid);
        let more = ["--rate", "100", "--with", with, "--with", "none", "--pairs", "50"];
        let mut running = work.petal(args(&more)).start();
        running.until("the neighbour", || std::fs::metadata(&pid).is_ok_and(|it| it.len() > 1));
        running
    };
    let running = start(&[first, with].concat());
    thread::sleep(Duration::from_secs(4));
    running.signal(Signal::INT);
    running.ends().exited(130);
    assert!(!is_alive(&pid) && !bare.iter().any(|it| is_alive(it)));
    let run = record(&work.run_folder());
    let slots = run["details"]["interference"]["slots"].as_array().unwrap();
    assert!(!slots.is_empty() && slots.len() < 20, "{}", slots.len());
    assert!(slots.iter().any(|slot| slot["starts"][0]["at_s"].is_number()));
    start(with).kill();
    until("the end of the neighbour", || !is_alive(&pid));
}

#[test]
fn a_server_that_dies_leaves_the_pairs_before() {
    let Some((mut server, work)) = postgres() else { return };
    let url = server.tcp_url("users");
    let more = ["--db", &url, "--rate", "100", "--with", "full-scan", "--pairs", "50"];
    let mut running = work.petal(args(&more)).start();
    let seconds = || work.runs().len() == 1 && work.seconds().len() > 22;
    running.until("four rounds", seconds);
    server.stop("QUIT");
    running.ends().exited(1);
    let run = record(&work.run_folder());
    assert!(number(&run, "/interference/0/pairs") >= 3.0, "{}", run["interference"]);
    let mean = figure(&run, 0, "users", "mean");
    assert!(mean["share"].is_number() && mean["interval"].is_array(), "{mean}");
}

#[test]
fn neighbours_of_the_database_work_and_a_role_that_may_not_is_named() {
    let Some((server, work)) = postgres() else { return };
    let url = server.tcp_url("users");
    let all = ["vacuum", "checkpoint", "index-build", "full-scan", "backup"];
    let with: Vec<&str> = all.iter().flat_map(|name| ["--with", name]).collect();
    let more = ["--db", &url, "--rate", "50", "--pairs", "3"];
    let ended = work.petal([args(&more), with].concat()).exits(0);
    let run = record(&work.run_folder());
    for (at, name) in all.iter().enumerate() {
        let price = &run["interference"][at];
        assert_eq!(price["neighbour"], **name, "{price}");
        assert!(price["why_unknown"].is_null() && number(price, "/pairs") == 3.0, "{price}");
    }
    assert!(ended.stdout.contains("PRICE OF NEIGHBOURS"), "{}", ended.stdout);
    let mut client = server.client("users");
    let left = "SELECT count(*) FROM pg_class WHERE relname = 'petal_neighbour'";
    assert_eq!(client.query_one(left, &[]).unwrap().get::<_, i64>(0), 0);
    // The index of a killed neighbour is gone after the next settling.
    client.batch_execute("CREATE INDEX petal_neighbour ON petal1.cf1 (custid)").unwrap();
    client
        .batch_execute(
            "CREATE ROLE reader LOGIN; GRANT USAGE ON SCHEMA petal1 TO reader; \
             GRANT SELECT ON ALL TABLES IN SCHEMA petal1 TO reader",
        )
        .unwrap();
    let short = args(&["--db", &url, "--rate", "50", "--with", "none", "--pairs", "3"]);
    work.petal(short).exits(0);
    assert_eq!(client.query_one(left, &[]).unwrap().get::<_, i64>(0), 0);
    let (_, rest) = url.split_once('@').unwrap();
    let reader = format!("postgres://reader@{rest}");
    let more = ["--db", &reader, "--rate", "50", "--with", "checkpoint"];
    let refused = work.petal(args(&more)).exits(1).stderr;
    assert!(refused.contains("checkpoint: it failed"), "{refused}");
}

/// `cargo test --test integration a_control -- --ignored --nocapture`: a quarter of an hour.
#[test]
#[ignore = "a quarter of an hour"]
fn a_control_shows_no_difference_in_95_of_100_trials() {
    let trials = |worker: usize| {
        let work = Workplace::loaded(1, "16M");
        let mut found = 0;
        for trial in 0..25 {
            let more = ["--rate", "400", "--with", "none", "--pairs", "5", "--json"];
            let run = work.petal(args(&more)).exits(0).json();
            let figures = run["interference"][0]["figures"].as_array().unwrap();
            let named = figures.iter().filter(|it| it["is_found"] == true).collect::<Vec<_>>();
            let _ = writeln!(stderr(), "trial {worker}.{trial}: {} {named:?}", named.len());
            found += usize::from(!named.is_empty());
        }
        found
    };
    let found: usize = thread::scope(|scope| {
        let workers: Vec<_> = (0..4).map(|worker| scope.spawn(move || trials(worker))).collect();
        workers.into_iter().map(|worker| worker.join().unwrap()).sum()
    });
    let _ = writeln!(stderr(), "a difference in {found} of 100 trials");
    // 5 of 100, and two standard deviations.
    assert!(found <= 9, "{found} of 100");
}
