//! Profiles and replays from end to end: what was profiled is done again, a load is held or is not,
//! and bad profiles are refused.

use std::fs;
use std::path::Path;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::server_mysql;
use crate::server_postgres::{self, Server};
use crate::support::{Workplace, count, number, record};

/// Shares by which rates may differ.
const NEAR: f64 = 0.05;

/// A few seconds of random arrivals would be further off.
const EVEN: [&str; 2] = ["--arrivals", "even"];

fn is_within(found: f64, wanted: f64, share: f64) -> bool {
    wanted > 0.0 && (found / wanted - 1.0).abs() <= share
}

fn near(what: &str, found: f64, wanted: f64) {
    assert!(is_within(found, wanted, NEAR), "{what}: {found} of {wanted}");
}

fn read(path: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

/// A profile of one interval, as somebody writes it by hand.
fn profile(per_second: Value) -> String {
    json!({
        "format": "petal-profile/1",
        "petal_version": "test",
        "database": "PROD",
        "clock": "database",
        "block_bytes": 8192,
        "inputs": [],
        "intervals": [{
            "begin": "2026-11-22T10:00:00",
            "length_s": 3600.0,
            "inputs": [],
            "per_second": per_second,
            "latency_us": {},
        }],
        "gaps": [],
    })
    .to_string()
}

/// Reads, writes, commits and redo of a server at work, profiled and replayed, are the same again.
#[test]
fn a_server_at_work_is_profiled_and_replayed() {
    if !server_postgres::is_there() {
        return;
    }
    let server = Server::start(&[
        "shared_buffers=2MB",
        "full_page_writes=off",
        "max_wal_size=4GB",
        "checkpoint_timeout=1h",
        "autovacuum=off",
    ]);
    server.database("prod");
    let url = server.url("prod");
    let work = Workplace::new();
    work.petal(["setup", "--db", &url, "--scale", "24M", "--scan-table-sz", "0"]).exits(0);
    // Each UPDATE has one transaction id when the client loops. The server counts writes a hundred or
    // so late: there must be thousands.
    let mut production = work
        .petal(
            ["run", "--db", &url, "--loop", "client", "-t", "8", "--run-time", "600"]
                .iter()
                .chain(&["--select-rate", "8", "--update-rate", "100", "--work-unit", "8"])
                .chain(&EVEN),
        )
        .start();
    let mut client = server.client("prod");
    production.until("the run is at work", || {
        let busy = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'UPDATE petal1%'";
        client.query_one(busy, &[]).unwrap().get::<_, i64>(0) > 0
    });
    std::thread::sleep(std::time::Duration::from_secs(2));
    let file = work.path("prod.json");
    let output = file.to_str().unwrap();
    work.petal(["profile", "--db", &url, "--every", "6", "--for", "6", "-o", output]).exits(0);
    production.signal(Signal::INT);
    production.ends().exited(130);
    let made = read(&file);
    near("commits of the profile", number(&made, "/intervals/0/per_second/commits"), 100.0);
    let args =
        ["replay", output, "--db", &url, "--run-time", "8", "--warm-up", "2", EVEN[0], EVEN[1]];
    let figures = [
        ("single_block_reads", "physical_read_blocks", NEAR),
        // Of some 4,500 the server may count a hundred late at either end of either interval.
        ("block_writes", "physical_write_blocks", 2.0 * NEAR),
        ("commits", "commits", NEAR),
        ("redo_bytes", "redo_bytes", NEAR),
    ];
    // The trials size the redo within seconds: on a busy machine again.
    let mut far = Vec::new();
    for _ in 0..5 {
        let replay =
            work.petal(args.iter().chain(&["--trial", "4", "-t", "8", "--json"])).exits(0).json();
        let compared = figures.map(|(figure, done, share)| {
            let profiled = number(&made, &format!("/intervals/0/per_second/{figure}"));
            (figure, number(&replay, &format!("/steady/per_second/{done}")), profiled, share)
        });
        let is_far =
            |&(_, done, wanted, share): &(_, f64, f64, f64)| !is_within(done, wanted, share);
        far = compared.into_iter().filter(is_far).collect();
        if far.is_empty() {
            break;
        }
    }
    assert!(far.is_empty(), "done and profiled: {far:?}");
    // Nothing of production's data was changed by looking at it.
    let sources = &made["inputs"][0]["sources"];
    assert!(sources["redo_bytes"].as_str().unwrap().contains("wal"), "{sources}");
}

/// The counters of a server at work are rates, and what they do not tell is said.
#[test]
fn a_mysql_server_at_work_gives_a_profile() {
    if !server_mysql::is_there() {
        return;
    }
    let url = server_mysql::shared().url("profiled");
    let work = Workplace::new();
    work.petal(["setup", "--db", &url, "--scale", "16M", "--scan-table-sz", "0"]).exits(0);
    let mut run = work
        .petal(
            ["run", "--db", &url, "--update-rate", "20", "--run-time", "600", "-t", "2"]
                .iter()
                .chain(&EVEN),
        )
        .start();
    // The server counts other tests' calls as well.
    run.until("a second of the run", || !work.seconds().is_empty());
    let live = ["profile", "--db", &url, "--every", "2", "--for", "4"];
    let made = work.petal(live).exits(0).json();
    run.signal(Signal::INT);
    run.ends().exited(130);
    assert_eq!(made["intervals"].as_array().unwrap().len(), 2);
    assert!(number(&made, "/intervals/1/per_second/commits") >= 15.0, "{made}");
    assert!(number(&made, "/intervals/1/per_second/redo_bytes") > 0.0, "{made}");
    let gap = made["inputs"][0]["gaps"]["commits"].as_str().unwrap();
    assert!(gap.contains("only read"), "{gap}");
}

/// With a binary log the server counts two commits and two prepares for a transaction that changes
/// something, one each for InnoDB and the log; without it one commit.
#[test]
fn a_commit_is_one_commit_with_and_without_a_binary_log() {
    if !server_mysql::is_there() {
        return;
    }
    for options in [&["log-bin", "server-id=1"][..], &[]] {
        let server = server_mysql::Server::start(options);
        let url = server.url("commits");
        let work = Workplace::new();
        work.petal(["setup", "--db", &url, "--scale", "16M", "--scan-table-sz", "0"]).exits(0);
        let load = ["run", "--db", &url, "--update-rate", "50", "--run-time", "600", "-t", "2"];
        let mut run = work.petal(load.iter().chain(&["--work-unit", "1"]).chain(&EVEN)).start();
        run.until("two seconds of the run", || work.seconds().len() > 1);
        let made =
            work.petal(["profile", "--db", &url, "--every", "4", "--for", "4"]).exits(0).json();
        run.signal(Signal::INT);
        run.ends().exited(130);
        let profiled = number(&made, "/intervals/0/per_second/commits");
        assert!((45.0..60.0).contains(&profiled), "{options:?}: {made}");
        let record = record(&work.run_folder());
        let counted = number(&record, "/details/io/commits") / number(&record, "/ops/update");
        assert!((0.95..1.15).contains(&counted), "{options:?}: {counted} commits an UPDATE");
    }
}

/// What each engine can imitate, it does: reads and commits.
#[test]
fn the_same_profile_on_a_file_and_on_a_bare_device() {
    let work = Workplace::new();
    // One session keeps so much up on a busy machine, whose syncs take some 30 ms each.
    let rates = json!({"single_block_reads": 225.0, "block_writes": 60.0, "commits": 15.0});
    let file = work.write("prod.json", profile(rates));
    let image = work.write("device.img", vec![0u8; 48 << 20]);
    let device = format!("device:{}", image.display());
    let sqlite = format!("sqlite:{}", work.path("data").display());
    let own = image.to_str().unwrap();
    // Larger than what a trial and a run change: such blocks are read from the log.
    work.petal(["setup", "--db", &sqlite, "--scale", "96M"]).exits(0);
    work.petal(["setup", "--db", &device, "--scale", "24M", "--destroy-data", own]).exits(0);
    // One session: another's commits would empty its cache, and how often is chance.
    let replayed = |url: &str| {
        let args =
            ["replay", file.to_str().unwrap(), "--db", url, "--run-time", "5", "--warm-up", "1"];
        let replay = || {
            let more = ["--trial", "5", "-t", "1", "--json"];
            let replay = work.petal(args.iter().chain(&more).chain(&EVEN)).exits(0).json();
            ["commits", "physical_read_blocks"]
                .map(|name| number(&replay, &format!("/steady/per_second/{name}")))
        };
        let is_near = |&[commits, reads]: &[f64; 2]| {
            is_within(commits, 15.0, NEAR) && is_within(reads, 225.0, NEAR)
        };
        // What other tests disturb is done again.
        let mut found = replay();
        for _ in 0..4 {
            if !is_near(&found) {
                found = replay();
            }
        }
        assert!(is_near(&found), "{url}: {found:?} of 15 commits and 225 reads a second");
    };
    std::thread::scope(|scope| {
        scope.spawn(|| replayed(&sqlite));
        replayed(&device);
    });
}

/// Each operation takes 160 ms, so that eight sessions do 50 a second: as many as a sweep finds at its
/// peak, and between the step that is held and the one that is not. A busy machine adds some ms.
/// Arrivals are even: of 180 random ones in three seconds there are under 158 one time in twenty, and
/// then the step above the limit has no backlog.
#[test]
fn the_break_point_is_the_limit_that_a_sweep_of_the_same_mix_finds() {
    let work = Workplace::new();
    let url = format!("scripted:{}?select_us=160000&update_us=160000", work.path("data").display());
    let on = ["--db", &url, "--work-unit", "1", "--run-time", "3"];
    work.petal(["setup", "--db", &url, "--scale", "16M"]).exits(0);
    let sweep = ["sweep", "--sessions", "4,8", "--update-pct", "20", "--json"];
    let swept = work.petal(sweep.iter().chain(&on)).exits(0).json();
    let cells = swept["cells"].as_array().unwrap().iter();
    let peak = cells.map(|cell| number(cell, "/metrics/ops_s")).fold(0.0, f64::max);
    // One in five operations is an UPDATE.
    let rates = json!({"single_block_reads": 2.5, "block_writes": 0.5, "commits": 0.5});
    let file = work.write("prod.json", profile(rates));
    let replay = ["replay", file.to_str().unwrap(), "--trial", "0", "-t", "8", "--out", "steps"];
    work.petal(replay.iter().chain(&on).chain(&EVEN).chain(&["--scale", "16,24"])).exits(0);
    let answer = fs::read_to_string(work.path("steps/will-it-fit.txt")).unwrap();
    assert!(
        answer.starts_with("sustains 16x the busiest interval of PROD, fails at 24x"),
        "{answer}"
    );
    assert!((16.0 * 2.5..=24.0 * 2.5).contains(&peak), "the sweep's peak is {peak} a second");
}

/// A load that is held has no backlog at half of it; one that is not held is not called so.
#[test]
fn steps_go_up_to_the_first_that_is_not_held() {
    let work = Workplace::loaded(1, "16M");
    let rates = json!({"single_block_reads": 40.0, "block_writes": 4.0, "commits": 2.0});
    let file = work.write("prod.json", profile(rates));
    let out = work.path("steps");
    // Arrivals are even: at two random commits a second, two seconds may hold one or eight.
    let args = ["replay", file.to_str().unwrap(), "--trial", "1", "--run-time", "2"];
    let more =
        ["--arrivals", "even", "--scale", "0.5,1,300000,600000", "--out", out.to_str().unwrap()];
    let steps = |with: &[&str]| work.petal(args.iter().chain(&more).chain(with));
    let ended = steps(&[]).exits(0);
    ended.telling(&["the higher steps of this round are not run"]);
    let sweep = read(&out.join("sweep.json"));
    assert_eq!(sweep["cells"].as_array().unwrap().len(), 3);
    assert_eq!(sweep["skipped"].as_array().unwrap().len(), 1);
    assert_eq!(sweep["status"], "complete");
    let half = record(&out.join("cell001-rate_scale0.5-r1"));
    assert_eq!(count(&half, "/details/backlog"), 0);
    assert_eq!(half["details"]["replay"]["database"], "PROD");
    let answer = fs::read_to_string(out.join("will-it-fit.txt")).unwrap();
    assert!(
        answer.starts_with("sustains 1x the busiest interval of PROD, fails at 300000x"),
        "{answer}"
    );
    // Commits are due at a set rate: a step that is held delivered them all.
    let delivered = answer.split("delivered load").nth(1).expect("delivered load");
    let held = delivered.lines().find(|line| line.starts_with("1  ")).expect("the step of 1x");
    let commits: f64 =
        held.split_whitespace().nth(3).and_then(|word| word.parse().ok()).expect(held);
    assert!((0.5..=1.5).contains(&commits), "{answer}");
    for name in ["will-it-fit.html", "will-it-fit.svg", "profile.json"] {
        assert!(out.join(name).is_file(), "{name}");
    }
    // The report of its folder has all of it anew, and says the answer first.
    fs::remove_file(out.join("will-it-fit.html")).unwrap();
    let reported = work.petal(["report", out.to_str().unwrap()]).exits(0).stdout;
    assert!(reported.starts_with("sustains 1x the busiest interval of PROD"), "{reported}");
    assert!(out.join("will-it-fit.html").is_file());
    // The same command goes on with what is missing, by the rates of the trials before.
    let rates = |step: &str| {
        let record = record(&out.join(step));
        [record["settings"]["select_rate"].clone(), record["settings"]["update_rate"].clone()]
    };
    let before = rates("cell002-rate_scale1-r1");
    fs::remove_dir_all(out.join("cell002-rate_scale1-r1")).unwrap();
    steps(&[]).exits(0).telling(&["their trials are not made again", "1 are left"]);
    assert_eq!(rates("cell002-rate_scale1-r1"), before);
    let other = steps(&["--max-latency", "op.p99=9s"]).exits(2);
    other.telling(&["judged by the objective none, not op.p99=9s"]);
    // Side by side with itself.
    let folder = out.to_str().unwrap();
    let compared = work.petal(["compare", folder, folder]).exits(0).stdout;
    assert!(compared.starts_with("Will it fit?") && compared.contains("sustains 1x"), "{compared}");
}

#[test]
fn a_load_that_is_not_held_is_not_called_held() {
    let work = Workplace::loaded(1, "16M");
    let file = work.write("prod.json", profile(json!({"single_block_reads": 1e7, "commits": 1e6})));
    let args = ["replay", file.to_str().unwrap(), "--trial", "0", "--run-time", "2"];
    let steps = || work.petal(args.iter().chain(&["--scale", "1,3"])).exits(0);
    steps();
    // Without a name the folder is found again by what was asked.
    steps().telling(&["this sweep is complete: nothing is run"]);
    let out = work.run_folder();
    let answer = fs::read_to_string(out.join("will-it-fit.txt")).unwrap();
    assert!(
        answer.starts_with("does not sustain the busiest interval of PROD: fails at 1x"),
        "{answer}"
    );
}

#[test]
fn nonsense_and_idleness_are_refused_before_anything_is_touched() {
    let work = Workplace::loaded(1, "16M");
    let refused = |name: &str, text: String, words: &str, code: i32| {
        let file = work.write(name, text);
        work.petal(["replay", file.to_str().unwrap()]).exits(code).telling(&[words]);
    };
    refused("idle.json", profile(json!({"single_block_reads": 0.01})), "nothing to scale", 2);
    refused("negative.json", profile(json!({"commits": -4})), "commits per second is -4", 3);
    refused("unknown.json", profile(json!({"comits": 4})), "comits", 3);
    let good = profile(json!({"single_block_reads": 10, "commits": 4}));
    refused("cut.json", good[..good.len() / 2].to_owned(), "cut.json", 3);
    let file = work.write("good.json", good);
    let file = file.to_str().unwrap();
    let contradiction = ["replay", file, "--update-pct", "20"];
    work.petal(contradiction).exits(2).telling(&["--update-pct: the profile says it"]);
    assert!(work.runs().is_empty(), "{:?}", work.runs());
    let shown = work.petal(["replay", file, "--dry-run"]).exits(0).stdout;
    assert!(shown.contains("UPDATE_RATE=4") && shown.contains("differs  "), "{shown}");
    assert!(work.runs().is_empty(), "a dry run leaves nothing");
}

#[test]
fn profiles_are_made_of_reports_and_runs_and_added() {
    let work = Workplace::loaded(1, "16M");
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/awr");
    let report = |name: &str| data.join(name).to_str().unwrap().to_owned();
    let (one, other) = (report("awr_19c.html"), report("sp_11g.txt"));
    let shown = work.petal(["profile", &one, "-o", "tulip.json"]).exits(0).stdout;
    assert!(shown.starts_with("profile of TULIP: 1 interval,"), "{shown}");
    work.petal(["profile", &one, &other]).exits(2).telling(&["these are of several databases"]);
    let rates = ["--select-rate", "50", "--update-rate", "10", "--work-unit", "2"];
    // Seconds without counters, on a busy machine, are gaps.
    let of_run = |at: usize| {
        work.petal(["run", "--run-time", "4"].iter().chain(&rates).chain(&EVEN)).exits(0);
        let run = work.runs()[at].clone();
        let made = work.petal(["profile", run.to_str().unwrap(), "--every", "4"]).ends();
        (made.code == Some(0)).then(|| made.json())
    };
    let made = (0..4).find_map(of_run).expect("a run with its counters");
    near("commits", number(&made, "/intervals/0/per_second/commits"), 10.0);
    let mine = work.write("mine.json", made.to_string());
    let sum = work.petal(["profile", "tulip.json", mine.to_str().unwrap()]).exits(0).json();
    assert!(sum["database"].as_str().unwrap().starts_with("TULIP + "));
    assert!(sum["gaps"][0].as_str().unwrap().starts_with("added up by time of day"));
    work.petal(["profile"]).exits(2).telling(&["--db URL --for SECONDS"]);
    let sqlite = format!("sqlite:{}", work.path("petal-data").display());
    let live = ["profile", "--db", &sqlite, "--for", "20"];
    work.petal(live).exits(2).telling(&["keeps no counters of others' work"]);
}
