//! Several driver hosts: shares that begin at one moment, and the record that is merged of them.

use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::Value;

use crate::engine_postgres::load;
use crate::oracle_wire::stand_in::{Release, StandIn};
use crate::server_postgres::{Server, is_there};
use crate::support::{Running, Workplace, count, findings, number, seconds_in};

/// A moment so many seconds from now, as `--start-at` takes it.
fn moment(seconds: f64) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs_f64();
    format!("@{:.3}", now + seconds)
}

/// Starts every share of a run.
fn start(work: &Workplace, of: usize, args: &[&str], at: &str) -> Vec<Running> {
    let shares = (1..=of).map(|number| {
        let (share, name) = (format!("{number}/{of}"), format!("share{number}"));
        let more = ["run", "--share", &share, "--start-at", at, "--name", &name];
        // Slurm sets these for each program that srun starts.
        let rank = (number - 1).to_string();
        let petal = work.petal([&more[..], args].concat());
        petal.env("PMI_SIZE", of.to_string()).env("PMI_RANK", rank).start()
    });
    shares.collect()
}

/// The folders of shares, in their order.
fn folders(work: &Workplace) -> Vec<PathBuf> {
    let mut all = work.runs();
    all.retain(|path| path.to_str().unwrap().contains("-share"));
    all.sort_by_key(|path| path.to_str().unwrap().rsplit('-').next().unwrap().to_owned());
    all
}

fn merge(work: &Workplace, folders: &[PathBuf], code: i32) -> Value {
    let mut args = vec!["merge".to_owned(), "--json".to_owned()];
    args.extend(folders.iter().map(|folder| folder.display().to_string()));
    work.petal(args).exits(code).json()
}

#[test]
fn shares_on_one_device_file_are_one_run() {
    let work = Workplace::new();
    let device = ["--db", "device:shared.dat"];
    work.petal([&["setup", "-s", "2", "--scale", "16M"][..], &device].concat()).exits(0);
    let args = [&["-t", "2", "--update-pct", "25", "--work-loop", "200"][..], &device].concat();
    for share in start(&work, 2, &args, &moment(8.0)) {
        share.ends().exited(0);
    }
    let run = merge(&work, &folders(&work), 0);
    assert_eq!((run["status"].as_str(), count(&run, "/sessions")), (Some("complete"), 4));
    assert_eq!((count(&run, "/ops/total"), count(&run, "/ops/update")), (800, 200));
    // Each process counted what it did itself.
    assert_eq!(count(&run, "/counters/commits"), 200);
    let hosts = run["hosts"].as_array().unwrap();
    assert_eq!(hosts.len(), 2);
    let apart = hosts.iter().map(|host| number(host, "/triggered_after_s")).fold(0.0, f64::max);
    assert!(apart < 1.0, "{apart}");
    let latency = count(&run, "/latency_us/select/count");
    assert_eq!(latency, 600);
    assert!(number(&run, "/latency_us/select/p95") > 0.0);
    // Single reads of both: not the percentiles of either.
    let reads = count(&run, "/io_latency_us/read/count");
    assert!(
        reads >= 800 && number(&run, "/io_latency_us/read/p99") > 0.0,
        "{}",
        run["io_latency_us"]
    );
    // The merged folder is a run like any other.
    let merged = work.runs().pop().unwrap().display().to_string();
    let text = work.petal(["report", &merged]).exits(0).stdout;
    assert!(text.contains("DRIVER HOSTS") && text.contains("share 2"), "{text}");
    work.petal(["compare", &merged, &merged]).exits(0);
    let refused = work.petal(["merge", &merged]).exits(2);
    refused.telling(&["it is no share of a run"]);
}

#[test]
fn a_killed_share_leaves_an_incomplete_record() {
    let work = Workplace::new();
    let device = ["--db", "device:shared.dat"];
    work.petal([&["setup", "-s", "2", "--scale", "16M"][..], &device].concat()).exits(0);
    let args = [&["-t", "2", "--run-time", "8"][..], &device].concat();
    let mut shares = start(&work, 2, &args, &moment(6.0));
    let killed = shares.pop().unwrap();
    let seconds = || folders(&work).pop().map_or(0, |folder| seconds_in(&folder).len());
    crate::support::until("seconds", || seconds() >= 3);
    killed.kill();
    shares.pop().unwrap().ends().exited(0);
    let all = folders(&work);
    let run = merge(&work, &all, 1);
    assert_eq!(run["status"], "incomplete");
    assert!(findings(&run).contains(&"incomplete-hosts"), "{:?}", findings(&run));
    assert_eq!(run["hosts"][1]["rebuilt"], true);
    let lasted = number(&run, "/hosts/1/elapsed_s");
    assert!((3.0..8.0).contains(&lasted), "{lasted}");
    let both = count(&run, "/hosts/0/ops/total") + count(&run, "/hosts/1/ops/total");
    assert_eq!(count(&run, "/ops/total"), both);
    // And without its record.
    let run = merge(&work, &all[..1], 1);
    assert_eq!(
        (run["status"].as_str(), run["hosts"][1]["status"].is_null()),
        (Some("incomplete"), true)
    );
}

#[test]
fn a_server_is_counted_once_and_by_its_own_clock() {
    if !is_there() {
        return;
    }
    let server = Server::start(&["shared_buffers=16MB"]);
    let url = server.url("hosts");
    load(&url, 2);
    let work = Workplace::new();
    let args = ["--db", &url, "-t", "4", "--update-pct", "0", "--run-time", "4"];
    for share in start(&work, 4, &args, &moment(10.0)) {
        share.ends().exited(0);
    }
    let run = merge(&work, &folders(&work), 0);
    assert_eq!(count(&run, "/sessions"), 8);
    assert_eq!(run["hosts"][3]["start"]["by"], "database_clock");
    let counted: Vec<bool> =
        (0..4).map(|at| run["hosts"][at]["counts_database"].as_bool().unwrap()).collect();
    assert_eq!(counted, [true, false, false, false]);
    // What the first share counted is what all of them asked, and no other run is seen in it.
    let asked = number(&run, "/per_second/rows");
    let visited = number(&run, "/per_second/logical_reads");
    assert!(visited >= asked * 0.98 && visited < asked * 1.6, "{visited} for {asked} rows");
    assert!(!findings(&run).contains(&"other-load"), "{:?}", findings(&run));
    assert_eq!(count(&run, "/endpoints/0/sessions"), 8);
}

#[test]
fn two_shares_on_the_stand_in_of_oracle_are_one_run() {
    let (stand_in, work) = (StandIn::start(Release::Free23), Workplace::new());
    let url = stand_in.url();
    work.petal(["setup", "-s", "2", "--scale", "8M", "--db", &url]).exits(0);
    let args = ["--db", &url, "-t", "2", "--update-pct", "25", "--work-loop", "100"];
    for share in start(&work, 2, &args, &moment(10.0)) {
        share.ends().exited(0);
    }
    let run = merge(&work, &folders(&work), 0);
    assert_eq!((run["status"].as_str(), count(&run, "/sessions")), (Some("complete"), 4));
    assert_eq!((count(&run, "/ops/total"), count(&run, "/ops/update")), (400, 100));
    assert_eq!(run["rows"], run["rows_asked"]);
    // The first share counted the commits of both.
    assert_eq!(count(&run, "/counters/user commits"), 100);
    let counted = [0, 1].map(|at| run["hosts"][at]["counts_database"].as_bool());
    assert_eq!(counted, [Some(true), Some(false)]);
    // petal does not ask Oracle for its clock.
    assert_eq!(run["hosts"][1]["start"]["by"], "own_clock");
    assert!(!findings(&run).contains(&"other-load"), "{:?}", findings(&run));
    stand_in.understood_all();
}

#[test]
fn hosts_that_cannot_begin_together_are_refused_before_anything_is_touched() {
    let work = Workplace::new();
    let refused = |args: &[&str], word: &str| {
        work.petal([&["run"][..], args].concat()).exits(2).telling(&[word]);
    };
    let soon = moment(3600.0);
    refused(&["--share", "1/2"], "--start-at");
    refused(&["--share", "3/2", "--start-at", &soon], "K/N");
    refused(&["--share", "1/2", "--start-at", "tomorrow"], "2026-11-20T14:05:00Z");
    refused(&["--share", "1/2", "--start-at", &moment(-5.0)], "passed");
    refused(&["--share", "1/2", "--start-at", &soon, "--repeats", "3"], "REPEATS=3");
    assert!(work.runs().is_empty());
}
