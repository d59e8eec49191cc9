//! petal is killed or interrupted, or finds what it did not leave: each time a clear end, and
//! nothing lost that was there.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::support::{Workplace, contents, count, names, number, record};

#[test]
fn a_killed_load_is_not_accepted_and_the_next_setup_works() {
    let work = Workplace::new();
    let foreign = ["notes.txt", "petal1.db.bak", "petal1.db.loading.old"];
    for name in foreign {
        work.write(&format!("petal-data/{name}"), name);
    }
    let mut setup = work.petal(["setup", "-s", "2", "--scale", "500M"]).start();
    let loading = work.path("petal-data/petal1.db.loading");
    setup.until("a load under way", || {
        fs::metadata(&loading).is_ok_and(|file| file.len() > 1 << 20)
    });
    setup.kill();
    assert!(loading.exists());

    work.petal(["run", "--work-loop", "1"]).exits(3).telling(&["schema 1 is not loaded", "setup"]);
    assert!(work.runs().is_empty());
    work.petal(["setup", "-s", "2", "--scale", "8M"]).exits(0);
    let there = names(&work.path("petal-data"));
    assert_eq!(
        there,
        ["notes.txt", "petal1.db", "petal1.db.bak", "petal1.db.loading.old", "petal2.db"]
    );
    for name in foreign {
        assert_eq!(fs::read_to_string(work.path("petal-data").join(name)).unwrap(), name);
    }
    let run = work.petal(["run", "--work-loop", "3", "--json"]).exits(0).json();
    assert_eq!(count(&run, "/ops/total"), 6);
}

/// Where the tests themselves run under nohup, petal heeds that, and SIGHUP ends nothing.
fn ending_signals() -> impl Iterator<Item = Signal> {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap();
    let ignored = u64::from_str_radix(ignored.trim(), 16).unwrap();
    let heard = move |signal: &Signal| ignored & (1 << (signal.as_raw() - 1)) == 0;
    [Signal::INT, Signal::TERM, Signal::HUP].into_iter().filter(heard)
}

#[test]
fn an_interrupted_load_exits_130_and_leaves_what_was_there() {
    let work = Workplace::loaded(1, "8M");
    let before = contents(&work.path("petal-data"));
    for signal in ending_signals() {
        let mut setup = work.petal(["setup", "-s", "2", "--scale", "900M", "--replace"]).start();
        let loading = work.path("petal-data/petal2.db.loading");
        setup.until("a load under way", || {
            fs::metadata(&loading).is_ok_and(|file| file.len() > 1 << 20)
        });
        setup.signal(signal);
        setup.ends().exited(130).telling(&["unfinished schemas were removed"]);
        assert!(before == contents(&work.path("petal-data")), "{signal:?} changed the data");
    }
    work.petal(["run", "-s", "1", "--work-loop", "3"]).exits(0);
}

#[test]
fn a_killed_run_is_reported_as_far_as_it_came() {
    let work = Workplace::loaded(2, "16M");
    let mut run = work.petal(["run", "-t", "2", "--run-time", "100", "--update-pct", "30"]).start();
    run.until("four seconds of a run", || work.seconds().len() >= 4);
    run.kill();
    let folder = work.run_folder();
    assert!(!folder.join("run.json").exists());
    let seconds = work.seconds();

    let path = folder.to_str().unwrap();
    let report = work.petal(["report", path]).exits(0);
    assert!(report.stdout.contains("partial"), "{}", report.stdout);
    assert!(report.stdout.contains("killed"), "{}", report.stdout);
    assert!(report.stdout.contains("status interrupted"), "{}", report.stdout);
    let summary = work.petal(["report", path, "--json"]).exits(0).json();
    assert_eq!(summary["status"], "interrupted");
    for kind in ["select", "update", "total"] {
        let each = seconds.iter().map(|line| count(line, &format!("/second/ops/{kind}")));
        assert_eq!(count(&summary, &format!("/ops/{kind}")), each.sum::<u64>(), "{kind}");
    }
    assert!(count(&summary, "/ops/update") > 0);
    // A second whose counters came late on a busy machine is unknown, and so is the run's sum then.
    let of_second = |line: &Value| line.pointer("/second/io/physical_read_blocks")?.as_u64();
    let reads: Option<u64> = seconds.iter().map(of_second).sum();
    let last = seconds.last().unwrap();
    let elapsed_s =
        last["second"]["from_s"].as_f64().unwrap() + last["second"]["length_s"].as_f64().unwrap();
    let reported = summary["per_second"]["physical_read_blocks"].as_f64();
    let reported = reported.map(|per_second| (per_second * elapsed_s).round() as u64);
    assert_eq!(reported, reads, "{elapsed_s}");
    // A line holds the difference from the one before; a counter that stays 0 is in the first.
    let mut counters = BTreeMap::<&str, u64>::new();
    for (name, count) in seconds.iter().flat_map(|line| line["counters"].as_object()).flatten() {
        *counters.entry(name).or_default() += count.as_u64().unwrap();
    }
    assert_eq!(summary["counters"], serde_json::json!(counters));
    // What was committed is there, and the data can be used again.
    work.petal(["run", "--work-loop", "5", "--update-pct", "100"]).exits(0);
}

#[test]
fn a_run_that_is_interrupted_once_is_reported() {
    let work = Workplace::loaded(1, "16M");
    for (at, signal) in ending_signals().enumerate() {
        let mut run = work.petal(["run", "-t", "2", "--run-time", "100", "--json"]).start();
        run.until("a second of a run", || work.runs().len() > at && !work.seconds().is_empty());
        run.signal(signal);
        let summary = run.ends().exited(130).json();
        assert_eq!(summary["status"], "interrupted");
        assert!(count(&summary, "/ops/total") > 0);
        assert_eq!(count(&summary, "/ops/cut"), 0);
        let folder = work.runs().pop().unwrap();
        assert_eq!(record(&folder)["status"], "interrupted");
        assert_eq!(record(&folder)["ops"], summary["ops"]);
        let report = fs::read_to_string(folder.join("report.txt")).unwrap();
        assert!(report.contains("status interrupted"), "{report}");
    }
}

#[test]
fn a_run_under_nohup_outlives_its_terminal() {
    let work = Workplace::loaded(1, "16M");
    let args = ["run", "-t", "2", "--run-time", "4", "--json"];
    let mut run = work.petal(args).after("trap '' HUP").start();
    run.until("a second of a run", || !work.seconds().is_empty());
    run.signal(Signal::HUP);
    run.signal(Signal::HUP);
    assert_eq!(run.ends().exited(0).json()["status"], "complete");
}

#[test]
fn a_second_signal_cuts_operations_short() {
    let work = Workplace::loaded(1, "16M");
    // It thinks before each operation, so that this test gets the writer lock in between.
    let think = ["--think-tm-frequency", "1", "--think-tm-min", "0.1", "--think-tm-max", "0.1"];
    let args = ["run", "--run-time", "100", "--update-pct", "100", "--json"];
    let mut run = work.petal([&args[..], &think].concat()).start();
    run.until("a second of a run", || !work.seconds().is_empty());
    // From here on no UPDATE gets further than the writer lock.
    let holder = rusqlite::Connection::open(work.path("petal-data/petal1.db")).unwrap();
    holder.busy_timeout(Duration::from_secs(20)).unwrap();
    holder.execute_batch("BEGIN IMMEDIATE").unwrap();
    std::thread::sleep(Duration::from_secs(2));
    run.signal(Signal::INT);
    std::thread::sleep(Duration::from_millis(500));
    if run.has_ended() {
        panic!("the operation in flight was not waited for: {:?}", run.ends());
    }
    let second = OffsetDateTime::now_utc();
    run.signal(Signal::INT);
    let summary = run.ends().exited(130).json();
    // After one signal it would be five seconds, less what has passed since. What comes after the
    // run, such as its report, is not in these.
    let began = OffsetDateTime::parse(summary["started_at"].as_str().unwrap(), &Rfc3339).unwrap();
    let outlasted_s = (began - second).as_seconds_f64() + number(&summary, "/elapsed_s");
    assert!(outlasted_s < 2.5, "{outlasted_s}");
    holder.execute_batch("ROLLBACK").unwrap();
    assert_eq!(summary["status"], "interrupted");
    assert_eq!(count(&summary, "/ops/cut"), 1);
    assert!(count(&summary, "/ops/update") > 0);
    work.petal(["run", "--work-loop", "5", "--update-pct", "100"]).exits(0);
}

#[test]
fn a_truncated_file_is_reported_and_can_be_loaded_again() {
    let work = Workplace::loaded(2, "8M");
    let (first, second) = (work.path("petal-data/petal1.db"), work.path("petal-data/petal2.db"));
    let bytes = fs::metadata(&second).unwrap().len();
    let file = fs::OpenOptions::new().write(true).open(&second).unwrap();
    file.set_len(bytes - 3 * 8192).unwrap();
    let whole = fs::read(&first).unwrap();
    for args in [&["run", "--work-loop", "1"][..], &["setup", "-s", "2", "--scale", "8M"]] {
        let reported = ["petal2.db", "cut off or damaged", "petal setup --replace", "petal drop"];
        work.petal(args).exits(3).telling(&reported);
    }
    assert!(work.runs().is_empty());
    assert_eq!(fs::metadata(&second).unwrap().len(), bytes - 3 * 8192);
    assert!(fs::read(&first).unwrap() == whole);
    work.petal(["setup", "-s", "2", "--scale", "8M", "--replace"]).exits(0);
    work.petal(["run", "--work-loop", "3"]).exits(0);
}

/// Bytes that look like nothing, the same each time.
fn random_bytes() -> Vec<u8> {
    let mut state = 7u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 56) as u8
    };
    (0..50_000).map(|_| next()).collect()
}

#[test]
fn a_foreign_file_under_petals_name_is_left_alone() {
    let theirs = Workplace::new();
    let database = theirs.path("theirs.db");
    rusqlite::Connection::open(&database)
        .unwrap()
        .execute_batch("CREATE TABLE mine(x); INSERT INTO mine VALUES(42)")
        .unwrap();
    for foreign in [b"shopping list".to_vec(), random_bytes(), fs::read(&database).unwrap()] {
        let work = Workplace::new();
        let path = work.write("petal-data/petal1.db", &foreign);
        for args in [
            &["setup", "--scale", "8M"][..],
            &["setup", "--scale", "8M", "--replace"],
            &["run", "--work-loop", "1"],
        ] {
            work.petal(args).exits(3).telling(&["petal1.db", "petal's mark", "leaves it alone"]);
        }
        let drop = work.petal(["drop"]).exits(0);
        assert!(drop.stdout.contains("nothing of petal's"), "{}", drop.stdout);
        assert!(fs::read(&path).unwrap() == foreign);
        assert_eq!(names(&work.path("petal-data")), ["petal1.db"]);
    }
}

#[test]
fn damage_inside_a_file_never_passes_for_a_good_run() {
    let work = Workplace::loaded(1, "8M");
    let path = work.path("petal-data/petal1.db");
    let mut bytes = fs::read(&path).unwrap();
    let noise = random_bytes();
    // All but the first pages, which hold header and petal_meta.
    let from = 16 * 8192;
    for (at, byte) in bytes[from..].iter_mut().enumerate() {
        *byte = noise[at % noise.len()];
    }
    fs::write(&path, &bytes).unwrap();
    let run = work.petal(["run", "--work-loop", "20", "--update-pct", "0"]).ends();
    assert!(matches!(run.code, Some(1 | 3)), "{:?}\n{}{}", run.code, run.stderr, run.stdout);
    assert!(run.stderr.contains("petal1.db") || run.stdout.contains("petal1.db"), "{run:?}");
    work.petal(["setup", "--scale", "8M", "--replace"]).exits(0);
    work.petal(["run", "--work-loop", "3"]).exits(0);
}

#[test]
fn a_file_where_the_folder_should_be_is_refused_and_stays() {
    let work = Workplace::new();
    let path = work.write("petal-data", "a file");
    for args in [&["setup", "--scale", "8M"][..], &["run", "--work-loop", "1"], &["drop"]] {
        work.petal(args).exits(3).telling(&["petal-data", "is a file; name a folder"]);
    }
    assert_eq!(fs::read_to_string(&path).unwrap(), "a file");
    let results = work.write("taken", "mine");
    let loaded = Workplace::loaded(1, "8M");
    let out = results.to_str().unwrap();
    loaded.petal(["run", "--work-loop", "1", "--out", out]).exits(3).telling(&[out, "--out"]);
    assert_eq!(fs::read_to_string(&results).unwrap(), "mine");
}

#[test]
fn drop_removes_petals_own_and_nothing_else() {
    let work = Workplace::loaded(2, "8M");
    work.petal(["run", "--work-loop", "3"]).exits(0);
    let foreign = ["petal3.db", "petal1.db.loading", "petal01.db", "notes", "petal1.dbx"];
    for name in foreign {
        work.write(&format!("petal-data/{name}"), name);
    }
    fs::create_dir(work.path("petal-data/petal4.db")).unwrap();
    let dropped = work.petal(["drop"]).exits(0).stdout;
    assert!(dropped.contains("petal1.db\n") && dropped.contains("petal2.db\n"), "{dropped}");
    assert!(dropped.starts_with("petal removed 2 parts of its data:\n"), "{dropped}");
    assert_eq!(dropped.lines().count(), 3, "{dropped}");
    let mut expected: Vec<&str> = foreign.into_iter().chain(["petal4.db"]).collect();
    expected.sort_unstable();
    assert_eq!(names(&work.path("petal-data")), expected);
    for name in foreign {
        assert_eq!(fs::read_to_string(work.path("petal-data").join(name)).unwrap(), name);
    }
    assert_eq!(work.runs().len(), 1, "results are kept");
}

#[test]
fn two_setups_at_once_do_not_mix() {
    let work = Workplace::new();
    let mut first = work.petal(["setup", "-s", "2", "--scale", "500M"]).start();
    let loading = work.path("petal-data/petal1.db.loading");
    first.until("a load under way", || loading.exists());
    work.petal(["setup", "-s", "2", "--scale", "8M"]).exits(3).telling(&["another petal"]);
    work.petal(["drop"]).exits(3).telling(&["another petal"]);
    first.signal(Signal::INT);
    first.ends().exited(130);
}
