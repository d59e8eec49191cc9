//! Sweeps, whole: every cell of every round once, kept as it ends, taken up again after whatever
//! came between, and never mixed with another.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use insta::assert_snapshot;
use rustix::process::Signal;
use serde_json::Value;

use crate::server_postgres;
use crate::support::{
    ControlGroup, Ended, SECONDS, Workplace, count, names, number, record, text_of, write_text,
};

/// Cells of a few milliseconds each.
const SHORT: [&str; 6] = ["sweep", "--work-loop", "20", "--work-unit", "8", "--json"];

fn sweep<'a>(more: &[&'a str]) -> Vec<&'a str> {
    [&SHORT, more].concat()
}

/// The only sweep's folder below petal-results.
fn folder(work: &Workplace) -> PathBuf {
    begun(work).expect("no sweep")
}

/// The same, once it is there.
fn begun(work: &Workplace) -> Option<PathBuf> {
    let results = work.path("petal-results");
    let names = if results.exists() { names(&results) } else { Vec::new() };
    let found: Vec<String> = names.into_iter().filter(|name| name.starts_with("sweep-")).collect();
    assert!(found.len() <= 1, "{found:?}");
    found.first().map(|name| results.join(name))
}

/// Whether a cell is under way: its seconds are begun right before its sessions are triggered.
fn is_under_way(sweep: &Path) -> bool {
    let unfinished = names(sweep).into_iter().filter(|name| name.ends_with(".unfinished"));
    unfinished.map(|name| text_of(&sweep.join(name).join(SECONDS))).any(|text| text.contains('\n'))
}

/// Number, repeat and folder of every cell, in the order of time.
fn cells(sweep: &Value) -> Vec<(u64, u64, String)> {
    let cells = sweep["cells"].as_array().unwrap().iter();
    cells
        .map(|cell| {
            let folder = cell["folder"].as_str().unwrap().to_owned();
            (count(cell, "/number"), count(cell, "/repeat"), folder)
        })
        .collect()
}

fn factor<'a>(cell: &'a Value, key: &str) -> &'a str {
    cell["factors"][key].as_str().unwrap_or_else(|| panic!("no factor {key} in {cell}"))
}

/// What tells one run of a cell from another: the folder's inode and the time of the record.
fn marks(folder: &Path) -> BTreeMap<String, (u64, i64, i64)> {
    names(folder)
        .into_iter()
        .filter(|name| {
            name.starts_with("cell") && !name.contains(".unfinished") && !name.contains(".failed")
        })
        .map(|name| {
            let run = fs::metadata(folder.join(&name).join("run.json")).unwrap();
            let inode = fs::metadata(folder.join(&name)).unwrap().ino();
            (name, (inode, run.mtime(), run.mtime_nsec()))
        })
        .collect()
}

#[test]
fn every_combination_is_run_once_a_round_and_reported() {
    let work = Workplace::loaded(2, "8M");
    let args = sweep(&["--sessions", "1,2,4", "--update-pct", "0,100", "--repeats", "2"]);
    let swept = work.petal(&args).exits(0).telling(&["12 of 12: update_pct "]).json();
    assert_eq!(
        (swept["format"].as_str(), swept["status"].as_str()),
        (Some("petal-sweep/1"), Some("complete"))
    );
    let done = cells(&swept);
    let distinct: BTreeSet<(u64, u64)> = done.iter().map(|cell| (cell.0, cell.1)).collect();
    assert_eq!((done.len(), distinct.len()), (12, 12));
    assert!(done[..6].iter().all(|cell| cell.1 == 1) && done[6..].iter().all(|cell| cell.1 == 2));
    let dir = folder(&work);
    let mut seeds = BTreeSet::new();
    for cell in swept["cells"].as_array().unwrap() {
        let run = record(&dir.join(cell["folder"].as_str().unwrap()));
        let sessions: u64 = factor(cell, "sessions").parse().unwrap();
        assert_eq!(count(&run, "/sessions"), sessions);
        assert_eq!(count(&run, "/ops/total"), 20 * sessions);
        let updates = if factor(cell, "update_pct") == "0" { 0 } else { 20 * sessions };
        assert_eq!(count(&run, "/ops/update"), updates);
        assert_eq!(run["details"]["repeat"], cell["repeat"]);
        // The data stay the same, however few the sessions.
        assert_eq!(count(&run, "/active_bytes"), 2 * 1024 * 8192);
        assert!(number(cell, "/metrics/piops") > 0.0);
        seeds.insert(count(&run, "/seed"));
    }
    assert_eq!(seeds.len(), 1);
    let mut csv = csv_rows(&dir.join("sweep.csv"));
    assert_eq!(csv.len(), 12);
    assert_eq!(csv.remove(0)["status"], "complete");
    let report = fs::read_to_string(dir.join("report.txt")).unwrap();
    assert!(report.contains("12 of 12 runs done; complete"), "{report}");

    // Once more: nothing is run.
    let before = marks(&dir);
    let again = work.petal(&args).exits(0).telling(&["complete: nothing is run"]).json();
    assert_eq!(cells(&again), done);
    assert_eq!(marks(&dir), before);
    // And all of it comes from the records alone.
    for name in ["report.txt", "sweep.csv"] {
        fs::remove_file(dir.join(name)).unwrap();
    }
    let shown = work.petal(["report", dir.to_str().unwrap()]).exits(0).stdout;
    assert_eq!(shown, report);
    assert_eq!(fs::read_to_string(dir.join("report.txt")).unwrap(), report);
    assert!(dir.join("sweep.csv").exists());
    // Rounds can be added to it.
    let more = [&args[..args.len() - 1], &["3"]].concat();
    let more = cells(&work.petal(&more).exits(0).telling(&["12 of 18"]).json());
    assert_eq!((more[..12] == done[..], more.len()), (true, 18));
}

fn csv_rows(path: &Path) -> Vec<BTreeMap<String, String>> {
    csv::Reader::from_path(path).unwrap().deserialize().map(Result::unwrap).collect()
}

#[test]
fn few_sessions_touch_every_schema() {
    let work = Workplace::loaded(4, "8M");
    let before: Vec<Vec<u8>> = (1..=4).map(|n| data(&work, n)).collect();
    // 64 operations are a turn in one schema: two sessions, four schemas.
    let args = ["sweep", "--sessions", "2", "--update-pct", "100", "--work-loop", "130"];
    let args = [&args[..], &["--work-unit", "4"]].concat();
    work.petal(&args).exits(0);
    for (n, before) in (1..=4).zip(&before) {
        assert!(data(&work, n) != *before, "schema {n} was not touched");
    }
    let args = [&args[..2], &["3", "--dry-run"], &args[3..]].concat();
    let shown = work.petal(args).exits(0);
    assert!(shown.stdout.contains("3 sessions on 4 schemas"), "{}", shown.stdout);
    assert_eq!(shown.stderr, "");
}

/// A schema's rows, whatever is in them.
fn data(work: &Workplace, schema: u32) -> Vec<u8> {
    let db = rusqlite::Connection::open(work.path(format!("petal-data/petal{schema}.db"))).unwrap();
    let mut rows = db.prepare("SELECT c2 FROM cf1 ORDER BY custid").unwrap();
    let texts = rows.query_map([], |row| row.get::<_, String>(0)).unwrap();
    texts.flat_map(|text| text.unwrap().into_bytes()).collect()
}

#[test]
fn a_sweep_killed_at_random_moments_has_every_cell_once() {
    let work = Workplace::loaded(2, "8M");
    let args = ["sweep", "--sessions", "1,2,3", "--update-pct", "0,50", "--repeats", "2"];
    let args = [&args[..], &["--run-time", "1", "--json", "--seed", "7"]].concat();
    let there = || begun(&work).map(|folder| marks(&folder)).unwrap_or_default();
    let mut petal = work.petal(&args).start();
    thread::sleep(Duration::from_millis(150));
    assert!(!petal.has_ended());
    petal.kill();
    let mut seen = there();
    // Right after a cell is done, while the next one settles, connects and runs.
    for after_ms in [0, 40, 330, 710, 980] {
        let mut petal = work.petal(&args).start();
        petal.until("one more cell", || there().len() > seen.len());
        thread::sleep(Duration::from_millis(after_ms));
        petal.kill();
        let now = there();
        for (name, mark) in &seen {
            assert_eq!(now.get(name), Some(mark), "{name} was done before and was run again");
        }
        seen = now;
    }
    assert!((5..12).contains(&seen.len()), "{seen:?}");
    let swept = work.petal(&args).exits(0).json();
    let dir = folder(&work);
    for (name, mark) in &seen {
        assert_eq!(marks(&dir).get(name), Some(mark), "{name} was run again");
    }
    let done = cells(&swept);
    let distinct: BTreeSet<(u64, u64)> = done.iter().map(|cell| (cell.0, cell.1)).collect();
    assert_eq!((done.len(), distinct.len()), (12, 12), "{done:?}");
    assert_eq!(marks(&dir).len(), 12);
    assert!(!names(&dir).iter().any(|name| name.ends_with(".unfinished")), "{:?}", names(&dir));
    for (_, _, name) in done {
        assert_eq!(record(&dir.join(name))["status"], "complete");
    }
}

#[test]
fn ctrl_c_keeps_what_is_done_and_the_same_command_goes_on() {
    let work = Workplace::loaded(1, "8M");
    let args =
        ["sweep", "--sessions", "1,2", "--repeats", "2", "--run-time", "3", "--update-pct", "0"];
    let mut petal = work.petal(args).start();
    petal.until("a cell, and the next under way", || {
        begun(&work).is_some_and(|dir| !marks(&dir).is_empty() && is_under_way(&dir))
    });
    petal.signal(Signal::INT);
    let ended = petal.ends().exited(130).telling(&["the same command goes on"]);
    assert!(ended.stdout.contains("1 of 4 runs done; not complete"), "{}", ended.stdout);
    let dir = folder(&work);
    let before = marks(&dir);
    assert_eq!(before.len(), 1);
    // What was measured of the cell that was cut can be read until then.
    let cut = names(&dir).into_iter().find(|name| name.ends_with(".unfinished")).unwrap();
    assert_eq!(record(&dir.join(&cut))["status"], "interrupted");
    let ended =
        work.petal(args).exits(0).telling(&["cut off and is removed", "1 of 4 cells are done"]);
    assert!(ended.stdout.contains("4 of 4 runs done; complete"), "{}", ended.stdout);
    let after = marks(&dir);
    assert_eq!(after.len(), 4);
    assert!(before.iter().all(|(name, mark)| after[name] == *mark));
    // An objective is reported where it is asked for, and in the files that this leaves.
    work.petal(["report", "--os-text", dir.to_str().unwrap()]).exits(2).telling(&["it is of runs"]);
    let shown = work.petal(["report", dir.to_str().unwrap(), "--max-latency", "op.p99=100s"]);
    assert!(shown.exits(0).stdout.contains("op.p99=100s"));
    assert!(fs::read_to_string(dir.join("report.txt")).unwrap().contains("op.p99=100s"));
}

#[test]
fn two_petals_do_not_share_a_sweep() {
    let work = Workplace::loaded(1, "8M");
    let args = ["sweep", "--sessions", "1", "--update-pct", "0", "--run-time", "600"];
    let mut petal = work.petal(args).start();
    petal.until("a cell under way", || begun(&work).is_some_and(|dir| is_under_way(&dir)));
    work.petal(args).exits(3).telling(&["another petal is at work"]);
    petal.signal(Signal::INT);
    petal.ends().exited(130);
}

#[test]
fn settings_are_not_mixed_and_foreign_folders_are_left_alone() {
    let work = Workplace::loaded(1, "8M");
    let args = |more: &[&'static str]| {
        [&sweep(&["--out", "mine", "--sessions", "1,2", "--update-pct", "0"])[..], more].concat()
    };
    let first = work.petal(args(&["--seed", "5"])).exits(0).json();
    let before = marks(&work.path("mine"));
    let refused = |ended: Ended| {
        assert_eq!(marks(&work.path("mine")), before);
        ended.stderr
    };
    assert_snapshot!(refused(work.petal(args(&["--redo-stress", "HEAVY", "--seed", "6"])).exits(2)), @r"
    petal: REDO_STRESS=HEAVY (--redo-stress): an embedded database writes whole pages: LITE and HEAVY write the same
    petal: mine: holds a sweep of other settings, and they are not to be mixed:
             redo_stress: LITE, not HEAVY
             seed: 5, not 6
           ask for the same, name another folder with --out, or begin again with --fresh
    ");
    assert_snapshot!(refused(work.petal(sweep(&["--out", "mine", "--sessions", "1,4", "--update-pct", "0"])).exits(2)), @r"
    petal: mine: holds a sweep of other settings, and they are not to be mixed:
             sessions: 1,2, not 1,4
           ask for the same, name another folder with --out, or begin again with --fresh
    ");
    // Without a seed it is the sweep's own.
    let again = work.petal(args(&[])).exits(0).json();
    assert_eq!(cells(&again), cells(&first));
    // Loaded anew with another size, it is another sweep.
    work.petal(["setup", "--scale", "16M", "--replace"]).exits(0);
    work.petal(args(&[])).exits(2).telling(&["loaded:", "--fresh"]);
    let fresh = work.petal(args(&["--fresh"])).exits(0).json();
    assert_eq!(fresh["cells"].as_array().unwrap().len(), 2);
    assert_eq!(marks(&work.path("mine.before1")), before);

    work.write("notes/todo.txt", "mine");
    let foreign = sweep(&["--out", "notes", "--sessions", "1"]);
    work.petal(foreign).exits(2).telling(&["holds todo.txt and no sweep"]);
    assert_eq!(names(&work.path("notes")), ["todo.txt"]);
}

#[test]
fn a_dry_run_prints_the_plan_and_touches_nothing() {
    let work = Workplace::loaded(2, "8M");
    let args =
        ["sweep", "--sessions", "1,8", "--update-pct", "0,20", "--repeats", "2", "--dry-run"];
    let shown = work.petal([&args[..], &["--seed", "42", "--run-time", "300"]].concat()).exits(0);
    // The number stands for every setting, so also for those that a later petal adds.
    let mut snapshot = insta::Settings::clone_current();
    snapshot.add_filter("sweep-sqlite-[0-9a-f]{8}", "sweep-sqlite-PLAN");
    let _filtered = snapshot.bind_to_scope();
    assert_snapshot!(shown.stdout, @r"
    4 cells, 2 repeats: 8 runs

    target   sqlite:petal-data: 2 schemas, 16.0 MiB in use
    axis     update_pct: 0, 20
    axis     sessions: 1, 8
    folder   petal-results/sweep-sqlite-PLAN
    time     40 min 0 s of runs; 40 min 24 s with settling and connecting, guessed at 3 s a cell

    cells
        1  update_pct 0, sessions 1
        2  update_pct 0, sessions 8
        3  update_pct 20, sessions 1
        4  update_pct 20, sessions 8

    order
      round 1: 1 4 3 2
      round 2: 1 3 2 4
    ");
    assert!(!work.path("petal-results").exists());
    let shown = work.petal(args).exits(0).stdout;
    assert!(shown.contains("drawn when the sweep begins"), "{shown}");
}

#[test]
fn readers_writers_and_both() {
    let work = Workplace::loaded(2, "8M");
    let swept = work.petal(sweep(&["--readers", "0,2", "--writers", "0,1"])).exits(0).json();
    let reported: BTreeSet<(String, String, u64, u64)> = swept["cells"]
        .as_array()
        .unwrap()
        .iter()
        .map(|cell| {
            let run = record(&folder(&work).join(cell["folder"].as_str().unwrap()));
            let of = |key| factor(cell, key).to_owned();
            assert_eq!(of("sessions"), count(&run, "/sessions").to_string());
            (of("readers"), of("writers"), count(&run, "/ops/select"), count(&run, "/ops/update"))
        })
        .collect();
    let cell = |readers: &str, writers: &str, selects, updates| {
        (readers.to_owned(), writers.to_owned(), selects, updates)
    };
    assert_eq!(
        reported,
        BTreeSet::from([cell("0", "1", 0, 20), cell("2", "0", 40, 0), cell("2", "1", 40, 20)])
    );
}

#[test]
fn block_sizes_have_a_data_set_each_of_the_same_bytes() {
    let work = Workplace::new();
    let args = sweep(&[
        "--block-sz",
        "4K,16K",
        "--sessions",
        "2",
        "--update-pct",
        "0",
        "-s",
        "2",
        "--scale",
        "16M",
    ]);
    work.petal(&args).exits(3).telling(&[
        "petal setup -s 2 --db sqlite:petal-data-4K --block-sz 4K --scale 16M",
        "--load",
    ]);
    let swept = work.petal([&args[..], &["--load"]].concat()).exits(0).json();
    let sizes: BTreeSet<(String, u64)> = swept["cells"]
        .as_array()
        .unwrap()
        .iter()
        .map(|cell| {
            let run = record(&folder(&work).join(cell["folder"].as_str().unwrap()));
            assert_eq!(count(&run, "/active_bytes"), 2 * (16 << 20));
            (factor(cell, "block_sz").to_owned(), count(&run, "/target/block_size"))
        })
        .collect();
    assert_eq!(sizes, BTreeSet::from([("16K".to_owned(), 16384), ("4K".to_owned(), 4096)]));
    work.petal(sweep(&["--block-sz", "4K,16K", "--scale", "2000"]))
        .exits(2)
        .telling(&["with a unit"]);
    work.petal(sweep(&["--block-sz", "4K,16K", "--db", "device:/dev/null"]))
        .exits(2)
        .telling(&["name a device for each size"]);
}

#[test]
fn several_targets_are_an_axis() {
    let work = Workplace::loaded(1, "8M");
    work.petal(["setup", "--scale", "8M", "--db", "sqlite:other,one"]).exits(0);
    work.petal(["setup", "--scale", "8M", "--db", "device:plain", "--block-sz", "8K"]).exits(0);
    let targets = ["--db", "sqlite:petal-data", "--db", "sqlite:other,one", "--db", "device:plain"];
    let args = sweep(&[&targets[..], &["--sessions", "2", "--update-pct", "50"]].concat());
    let swept = work.petal(&args).exits(0).json();
    let engines: BTreeMap<&str, String> = swept["cells"]
        .as_array()
        .unwrap()
        .iter()
        .map(|cell| {
            let run = record(&folder(&work).join(cell["folder"].as_str().unwrap()));
            (factor(cell, "db"), run["engine"].as_str().unwrap().to_owned())
        })
        .collect();
    let expected = [
        ("device:plain", "device"),
        ("sqlite:other,one", "sqlite"),
        ("sqlite:petal-data", "sqlite"),
    ];
    assert_eq!(engines, expected.map(|(url, engine)| (url, engine.to_owned())).into());
    work.petal(["setup", "-s", "2", "--scale", "8M", "--db", "sqlite:other,one"]).exits(0);
    work.petal(&args).exits(2).telling(&["the targets hold 1 and 2 schemas", "-s 1"]);
}

#[test]
fn the_device_engine_sweeps_its_depth() {
    let work = Workplace::new();
    let args = ["--db", "device:plain", "--load", "-s", "2", "--scale", "8M", "--io-depth", "1,8"];
    let args = sweep(&[&args[..], &["--sessions", "2", "--update-pct", "0,50"]].concat());
    let swept = work.petal(args).exits(0).json();
    assert_eq!(cells(&swept).len(), 4);
    for cell in swept["cells"].as_array().unwrap() {
        let run = record(&folder(&work).join(cell["folder"].as_str().unwrap()));
        assert_eq!(count(&run, "/settings/io_depth").to_string(), factor(cell, "io_depth"));
    }
}

#[test]
fn postgresql_sweeps_where_the_loop_runs_and_few_sessions_visit_every_schema() {
    if !server_postgres::is_there() {
        return;
    }
    let work = Workplace::new();
    let server = server_postgres::shared();
    server.database("swept");
    let url = server.url("swept");
    work.petal(["setup", "-s", "3", "--scale", "8M", "--db", &url]).exits(0);
    let texts = |schema: u32| -> String {
        let sql = format!("SELECT md5(string_agg(c2, '' ORDER BY custid)) FROM petal{schema}.cf1");
        server.client("swept").query_one(&sql, &[]).unwrap().get(0)
    };
    let before: Vec<String> = (1..=3).map(texts).collect();
    // 64 operations are a turn in one schema.
    let args = ["sweep", "--db", &url, "--work-loop", "140"];
    let more = ["--work-unit", "2", "--json", "--update-pct", "100", "--sessions", "1,2"];
    let args = [&args[..], &more[..], &["--loop", "server,client"]].concat();
    let swept = work.petal(&args).exits(0).json();
    assert_eq!(cells(&swept).len(), 4);
    for cell in swept["cells"].as_array().unwrap() {
        let run = record(&folder(&work).join(cell["folder"].as_str().unwrap()));
        let sessions: u64 = factor(cell, "sessions").parse().unwrap();
        assert_eq!(count(&run, "/ops/update"), 140 * sessions);
        assert_eq!(count(&run, "/rows/update"), 2 * 140 * sessions);
        assert_eq!(run["settings"]["loop"], factor(cell, "loop"));
        assert_eq!(count(&run, "/active_bytes"), 3 * 1024 * 8192);
        // What a session reads of its schemas before the trigger is not counted.
        assert_eq!(count(&run, "/ops/select"), 0);
    }
    for (schema, before) in (1..=3).zip(&before) {
        assert!(texts(schema) != *before, "schema {schema} was not touched");
    }
    assert_eq!(cells(&work.petal(&args).exits(0).json()), cells(&swept));
}

#[test]
fn a_server_that_dies_stops_the_sweep_and_it_goes_on_when_it_is_up_again() {
    if !server_postgres::is_there() {
        return;
    }
    let work = Workplace::new();
    let mut server = server_postgres::Server::start(&["shared_buffers=16MB"]);
    let url = server.url("swept");
    let args = ["sweep", "--db", &url, "--load", "-s", "1", "--scale", "8M", "--run-time", "4"];
    let args = [&args[..], &["--sessions", "1,2,3", "--update-pct", "0", "--json"]].concat();
    let mut petal = work.petal(&args).start();
    let dir = || folder(&work);
    petal.until("a cell, and the next under way", || {
        begun(&work).is_some_and(|dir| !marks(&dir).is_empty() && is_under_way(&dir))
    });
    let before = marks(&dir());
    server.stop("QUIT");
    petal.ends().exited(3).telling(&["was lost after", "the same command goes on"]);
    // The cell is kept as it failed, and no other was tried.
    assert_eq!(marks(&dir()).len(), before.len() + 1);
    server.crash();
    let swept = work.petal(&args).exits(1).json();
    let states: BTreeSet<&str> = swept["cells"]
        .as_array()
        .unwrap()
        .iter()
        .map(|cell| cell["status"].as_str().unwrap())
        .collect();
    assert_eq!(states, BTreeSet::from(["complete", "failed"]));
    work.petal([&args[..], &["--again-failed"]].concat()).exits(0);
    assert!(before.iter().all(|(name, mark)| marks(&dir())[name] == *mark));
}

#[test]
fn a_hook_that_fails_after_a_cell_keeps_it_and_is_reported_by_the_exit_code() {
    let work = Workplace::loaded(1, "8M");
    let hook = work.script("hook.sh", "[ $1 != post ]");
    let script = hook.to_str().unwrap();
    let args = sweep(&["--sessions", "1,2", "--update-pct", "0", "--external-script", script]);
    let swept = work.petal(args).exits(1).telling(&["hook.sh", "exit code 1"]).json();
    assert_eq!((cells(&swept).len(), swept["status"].as_str()), (2, Some("complete")));
}

#[test]
fn a_target_that_goes_away_stops_the_sweep_and_it_goes_on_when_it_is_back() {
    let work = Workplace::loaded(1, "8M");
    let hook = work.script(
        "hook.sh",
        "[ $1 = pre ] && [ $(cat calls | wc -l) -eq 3 ] && mv petal-data gone; echo $1 >> calls; true",
    );
    work.write("calls", "");
    let script = hook.to_str().unwrap();
    let args = sweep(&["--sessions", "1,2,3", "--update-pct", "0", "--external-script", script]);
    let ended = work.petal(&args).ends();
    assert!(matches!(ended.code, Some(3)), "{:?}\n{}", ended.code, ended.stderr);
    let ended = ended.telling(&["the same command goes on"]);
    assert!(!ended.stderr.contains("panicked"));
    let done = marks(&folder(&work)).len();
    assert!(done < 3, "{done}");
    fs::rename(work.path("gone"), work.path("petal-data")).unwrap();
    // The cell whose data went away has failed, if it came so far.
    let swept = work.petal([&args[..], &["--again-failed"]].concat()).exits(0).json();
    assert_eq!(cells(&swept).len(), 3);
}

#[test]
fn a_cell_that_fails_is_kept_and_reported_and_done_again_when_asked() {
    let work = Workplace::loaded(1, "8M");
    // In the second cell the data are cut off under the sessions.
    let hook = work.script(
        "hook.sh",
        "if [ $1 = pre ] && [ $(wc -l < calls) -eq 3 ]; then \
           cp petal-data/petal1.db keep.db; truncate -s 64K petal-data/petal1.db; \
         fi; echo $1 >> calls",
    );
    work.write("calls", "");
    let script = hook.to_str().unwrap();
    let args = sweep(&["--sessions", "1,2,3", "--update-pct", "0", "--external-script", script]);
    let ended = work.petal(&args).ends();
    assert!(matches!(ended.code, Some(1 | 3)), "{:?}\n{}", ended.code, ended.stderr);
    let ended = ended.telling(&["FAILED", "was lost after"]);
    assert!(!ended.stderr.contains("panicked"), "{}", ended.stderr);
    fs::rename(work.path("keep.db"), work.path("petal-data/petal1.db")).unwrap();
    let swept = work.petal(&args).exits(1).json();
    let failed: Vec<&Value> =
        swept["cells"].as_array().unwrap().iter().filter(|c| c["status"] == "failed").collect();
    assert_eq!((cells(&swept).len(), failed.len()), (3, 1), "{swept:#}");
    let dir = folder(&work);
    let name = failed[0]["folder"].as_str().unwrap();
    let report = fs::read_to_string(dir.join("report.txt")).unwrap();
    assert!(report.contains(&format!("{name}: it failed")), "{report}");
    let before = marks(&dir);
    let again = [&args[..], &["--again-failed"]].concat();
    let swept = work.petal(again).exits(0).json();
    assert!(cells(&swept).iter().any(|cell| cell.2 == name));
    // The failure stays as evidence, and the others are as they were.
    assert_eq!(record(&dir.join(format!("{name}.failed1")))["status"], "failed");
    let after = marks(&dir);
    assert!(before.iter().all(|(other, mark)| (after[other] == *mark) == (other != name)));
}

#[test]
fn invalid_sweeps_are_refused_before_anything_is_touched() {
    let work = Workplace::loaded(1, "8M");
    let refused = |more: &[&str]| work.petal(sweep(more)).exits(2).stderr;
    assert_snapshot!(refused(&["--sessions", "0,1"]), @"petal: --sessions 0,1: must be whole numbers from 1 to 65536 with commas between them. Write --sessions 1,2,4,8, for example.");
    assert_snapshot!(refused(&["--sessions", "1,2", "-t", "2"]), @"petal: --sessions 1,2: contradicts THREADS_PER_SCHEMA (--threads-per-schema). Leave out one or the other.");
    assert_snapshot!(refused(&["--update-pct", "10,200"]), @"petal: UPDATE_PCT=200 (--update-pct): must be 0 to 100 (default 25)");
    assert_snapshot!(refused(&["--loop", "client,server"]), @"petal: LOOP=server (--loop): must be client with a database in petal's own process: there is no server to loop in. Leave it out, or write LOOP=client.");
    assert_snapshot!(refused(&["--run-time", "10,20"]), @"petal: RUN_TIME=10,20 (--run-time): takes one value: it cannot be varied within a sweep. Make a sweep for each value.");
    assert_snapshot!(refused(&["--scale", "8M,1T"]), @"petal: SCALE=1T (--scale): is 134,217,728 blocks of 8K, but schema 1 holds 1,024 rows, one to a block. Leave SCALE out, write at most SCALE=1024, or load more with petal setup.");
    assert!(!work.path("petal-results").exists());
    work.petal(["sweep", "--db", "sqlite:nowhere"])
        .exits(3)
        .telling(&["petal setup -s 1 --db sqlite:nowhere"]);
}

/// `petal report petal-results/*`, with what else comes to lie there.
#[test]
fn a_pattern_for_all_results_reports_runs_and_sweeps_and_skips_the_rest() {
    let work = Workplace::loaded(1, "8M");
    work.petal(["run", "--work-loop", "5", "--work-unit", "8"]).exits(0);
    let run = work.run_folder();
    work.petal(sweep(&["--sessions", "1,2"])).exits(0);
    let sweep = folder(&work);
    let results = work.path("petal-results");
    let (empty, aborted) = (results.join("empty"), results.join("aborted"));
    fs::create_dir(&empty).unwrap();
    fs::create_dir(&aborted).unwrap();
    write_text(&aborted.join(SECONDS), "{\"format\": \"petal-sec");
    let text = |path: &Path| path.to_str().unwrap().to_owned();
    let all: Vec<String> = [&aborted, &empty, &run, &sweep].map(|path| text(path)).into();
    let ended = work.petal([&["report".to_owned()][..], &all].concat()).exits(0);
    assert!(ended.stdout.contains("petal 0.1.0 run report"), "{}", ended.stdout);
    assert!(ended.stdout.contains("sweep report"), "{}", ended.stdout);
    let ended = ended.telling(&[&format!("skipped: {}", text(&empty)), "no petal run here"]);
    ended.telling(&[&format!("skipped: {}", text(&aborted))]);
    // A row per run; a sweep's cells are in its own CSV.
    let args = ["report".to_owned(), "--csv".to_owned()];
    let csv = work.petal([&args[..], &all].concat()).exits(0).telling(&["in its sweep.csv"]);
    assert_eq!(csv.stdout.lines().count(), 2, "{}", csv.stdout);
    // With nothing to report it fails, and says why.
    let nothing = work.petal(["report".to_owned(), text(&empty), text(&aborted)]);
    nothing.exits(2).telling(&["no run and no sweep"]);
}

/// A run with a warm-up, a sweep's cell of it and a comparison of both quote one time.
#[test]
fn a_run_a_cell_and_a_comparison_quote_the_steady_window() {
    let work = Workplace::loaded(1, "8M");
    let timed = ["--run-time", "4", "--warm-up", "1", "--rate", "200", "--update-pct", "0"];
    work.petal([&["run"][..], &timed].concat()).exits(0);
    let plain = work.run_folder();
    let run = record(&plain);
    work.petal([&["sweep", "--sessions", "1"][..], &timed].concat()).exits(0);
    let sweep = folder(&work);
    let row = csv_rows(&sweep.join("sweep.csv")).remove(0);
    let cell = record(&sweep.join(&row["folder"]));
    for (run, text) in [(&run, plain.clone()), (&cell, sweep.join(&row["folder"]))]
        .map(|(run, folder)| (run, fs::read_to_string(folder.join("report.txt")).unwrap()))
    {
        let (from, to) = (number(run, "/steady/from_s"), number(run, "/steady/to_s"));
        assert!(from >= 1.0 && to <= 4.0, "{from} to {to}");
        let read = number(run, "/steady/per_second/physical_read_requests");
        let line = text.lines().nth(2).unwrap();
        assert!(
            line.contains(&format!(" | PIOPS {} read + ", petal_host::numbers::decimal(read, 0))),
            "{line}: {read}"
        );
        assert!(line.ends_with(&format!("| counted window {from:.1}-{to:.1} s")), "{line}");
    }
    let reads = number(&cell, "/steady/per_second/physical_read_requests");
    assert_eq!(row["reads_s"].parse::<f64>().unwrap(), reads);
    assert!(row["window"].starts_with("counted window "), "{}", row["window"]);
    assert!(row.values().all(|value| value != "-0"), "{row:?}");
    let other = sweep.join(&row["folder"]);
    let compared = work.petal([
        "compare",
        plain.to_str().unwrap(),
        other.to_str().unwrap(),
        "--metric",
        "reads_s",
        "--json",
    ]);
    let compared = compared.ends().stdout;
    let own = number(&run, "/steady/per_second/physical_read_requests");
    assert!(compared.contains(&format!("{own}")) && compared.contains(&format!("{reads}")));
}

/// Sessions and round of each run of a sweep, in the order of time.
fn sessions_in_order(sweep: &Value) -> Vec<(u64, u64)> {
    let cells = sweep["cells"].as_array().unwrap().iter();
    cells.map(|cell| (factor(cell, "sessions").parse().unwrap(), count(cell, "/repeat"))).collect()
}

/// Kills a sweep after two cells, and returns their marks.
fn killed_after_two(work: &Workplace, args: &[&str]) -> BTreeMap<String, (u64, i64, i64)> {
    let mut petal = work.petal(args).start();
    let there = || begun(work).map(|dir| marks(&dir)).unwrap_or_default();
    petal.until("two cells", || there().len() > 1);
    petal.kill();
    marks(&folder(work))
}

fn assert_kept(before: &BTreeMap<String, (u64, i64, i64)>, dir: &Path) {
    let after = marks(dir);
    assert!(before.iter().all(|(name, mark)| after.get(name) == Some(mark)), "a run was repeated");
}

#[test]
fn a_ladder_doubles_the_sessions_then_repeats_some_and_resumes_after_a_kill() {
    let work = Workplace::loaded(2, "8M");
    let args = sweep(&["--ladder", "--sessions", "1-8"]);
    let plan = work.petal([args.as_slice(), &["--dry-run"]].concat()).exits(0);
    assert!(plan.stdout.contains("each next cell is chosen"), "{}", plan.stdout);
    let before = killed_after_two(&work, &args);
    let dir = folder(&work);
    let swept = work.petal(&args).exits(0).json();
    assert_eq!((swept["status"].as_str(), folder(&work)), (Some("complete"), dir.clone()));
    let runs = sessions_in_order(&swept);
    let first: Vec<u64> = runs[..4].iter().map(|run| run.0).collect();
    assert_eq!(first, [1, 2, 4, 8]);
    let repeats = runs.iter().filter(|run| run.1 == 3).count();
    assert!((2..=4).contains(&repeats) && runs.len() < 12 + 1, "{runs:?}");
    assert_kept(&before, &dir);
    assert_eq!(swept["plan"]["design"]["kind"], "ladder");
    let report = fs::read_to_string(dir.join("report.txt")).unwrap();
    assert!(report.contains("by a curve through"), "{report}");
    // Once more: nothing is run.
    assert_eq!(sessions_in_order(&work.petal(&args).exits(0).json()), runs);
    // Another design has another folder.
    let other = sweep(&["--sessions", "1,2,4,8", "--out", dir.to_str().unwrap()]);
    work.petal(&other).exits(2).telling(&["design: ladder, not unset"]);
}

#[test]
fn an_adaptive_sweep_resumes_after_a_kill_ends_at_its_most_runs_and_goes_on_with_more() {
    fn args(most: &str) -> Vec<&str> {
        sweep(&["--adaptive", "--sessions", "1-4", "--precision", "0.1%", "--max-runs", most])
    }
    let work = Workplace::loaded(2, "8M");
    let of = |most: &str| {
        let swept = work.petal(args(most)).exits(0).json();
        assert_eq!(swept["status"], "complete");
        sessions_in_order(&swept)
    };
    let before = killed_after_two(&work, &args("5"));
    let runs = of("5");
    assert_kept(&before, &folder(&work));
    assert_eq!(runs.len(), 5);
    let first: Vec<u64> = runs[..3].iter().map(|run| run.0).collect();
    assert_eq!(first, [1, 2, 4]);
    let more = of("7");
    assert_eq!((more.len(), &more[..5]), (7, &runs[..]));
    for (args, words) in [
        (["--ladder", "--adaptive"], "cannot be used with"),
        (["--ladder", "--sessions=8-4"], "no range of sessions"),
        (["--ladder", "--readers=4"], "READERS"),
    ] {
        work.petal(sweep(&args)).exits(2).telling(&[words]);
    }
}

#[test]
fn cells_are_repeated_until_they_are_known_and_compared_at_any_number_of_runs() {
    fn args(most: &str) -> Vec<&str> {
        sweep(&["--sessions", "1,2", "--precision", "50%", "--max-runs", most])
    }
    let work = Workplace::loaded(2, "8M");
    let swept = work.petal(args("4")).exits(0).json();
    assert_eq!(
        (&swept["status"], &swept["plan"]["design"]["kind"]),
        (&"complete".into(), &"repeated".into())
    );
    let cells = swept["repeated"].as_array().unwrap();
    assert_eq!(cells.len(), 2);
    for cell in cells {
        let (runs, off) = (count(cell, "/runs"), cell["off"].as_f64());
        assert!((3..=4).contains(&runs), "{cell}");
        let is_known = off.is_some_and(|off| off <= 0.5);
        assert!(cell["end"] == if is_known { "width" } else { "most_runs" }, "{cell}");
    }
    let dir = folder(&work).display().to_string();
    let report = fs::read_to_string(folder(&work).join("report.txt")).unwrap();
    assert!(report.contains("of 2 cells have PIOPS within 50.0 %"), "{report}");
    let compared = work.petal(["compare", &dir, &dir, "--json"]).exits(0).json();
    assert_eq!(compared["cells"][0]["figures"][0]["changes"][0]["method"], "anytime");
    assert!(compared["notes"].to_string().contains("repeated-by-figures"), "{compared}");
    // Once more: nothing is run.
    assert_eq!(
        sessions_in_order(&work.petal(args("4")).exits(0).json()),
        sessions_in_order(&swept)
    );
    for (args, words) in [
        (["--precision=2%", "--ladder"], "cannot be used with"),
        (["--precision=2%", "--repeats=3"], "the figures decide"),
        (["--max-runs=3", "--sessions=1"], "--precision"),
    ] {
        work.petal(sweep(&args)).exits(2).telling(&[words]);
    }
}

/// A control group allows 1,000 reads a second, and an operation is 8 reads: with each session the
/// latency grows by 8 ms.
#[test]
fn a_search_ends_at_the_most_sessions_within_the_latency_or_says_that_none_are() {
    let work = Workplace::new();
    let disk = fs::metadata(work.path("")).unwrap().dev();
    let limit = format!("{}:{} 1000", rustix::fs::major(disk), rustix::fs::minor(disk));
    let file = "blkio.throttle.read_iops_device";
    let Some(group) = ControlGroup::with("blkio", file, &limit) else { return };
    let url = format!("device:{}", work.path("petal.dat").display());
    work.petal(["setup", "--scale", "16M", "--db", &url]).exits(0);
    let search = |within: &str| {
        let args = ["sweep", "--search", "--sessions", "1-8", "--json"];
        let more = ["--run-time", "2", "--work-unit", "8", "--update-pct", "0", "--db", &url];
        let petal = work
            .petal(args.iter().chain(&more).chain(&["--max-latency", within]))
            .after(&group.joined());
        let swept = petal.exits(0).json();
        assert_eq!(swept["status"], "complete");
        swept
    };
    let swept = search("op.avg=36ms");
    let within = &swept["within_latency"][0];
    assert_eq!((count(within, "/sessions"), count(within, "/exceeded_at")), (4, 5), "{within}");
    assert_eq!(within["is_confirmed"], true, "{within}");
    assert!((25e3..36e3).contains(&number(within, "/latency_us")), "{within}");
    assert!((900.0..1200.0).contains(&number(within, "/piops")), "{within}");
    let tried: Vec<u64> = sessions_in_order(&swept).iter().map(|run| run.0).collect();
    assert_eq!(tried[..6], [1, 2, 4, 8, 6, 5]);
    let mut repeated = tried[6..].to_vec();
    repeated.sort_unstable();
    assert_eq!(repeated, [4, 4, 5, 5]);
    // The first number of sessions is over a latency that nothing keeps.
    fs::remove_dir_all(folder(&work)).unwrap();
    let swept = search("op.avg=10us");
    let within = &swept["within_latency"][0];
    assert!(within["sessions"].is_null() && within["piops"].is_null(), "{within}");
    assert_eq!((count(within, "/exceeded_at"), count(within, "/runs")), (1, 3), "{within}");
    let report = fs::read_to_string(folder(&work).join("report.txt")).unwrap();
    let words = "nothing within op.avg=10us; it is exceeded with 1 session";
    assert!(report.contains(words), "{report}");
    for (args, words) in [
        (&["--search"][..], "--max-latency"),
        (&["--search", "--max-latency", "op.avg=0ms"], "op.avg=0ms"),
        (&["--search", "--max-latency", "op.p42=1ms"], "op.p42=1ms"),
        (&["--search", "--ladder", "--max-latency", "op.avg=1ms"], "cannot be used with"),
    ] {
        work.petal(sweep(args)).exits(2).telling(&[words]);
    }
}

#[test]
fn lines_are_predicted_from_their_other_cells_or_refused_with_the_reason() {
    let work = Workplace::loaded(2, "8M");
    let mut table = "sessions,update_pct,piops,read_us\n".to_owned();
    for n in [1.0, 2.0, 4.0, 8.0, 16.0, 32.0] {
        let piops: f64 = 1000.0 * n / (1.0 + 0.05 * (n - 1.0) + 0.001 * n * (n - 1.0));
        table.push_str(&format!("{n},0,{piops},{}\n", 0.8e6 * n / piops));
    }
    work.write("law.csv", table);
    let predicted = |sessions| work.petal(["predict", "law.csv", "--sessions", sessions]);
    predicted("12,64").exits(0);
    // A script must not take a session count without a prediction for one with it.
    let found = predicted("12,64,65").exits(4).stdout;
    for words in ["Errors of PIOPS on held-out cells", "by USL", "7,134", "over twice 32 sessions"]
    {
        assert!(found.contains(words), "{words}: {found}");
    }
    work.petal(sweep(&["--sessions", "1,2,3"])).exits(0);
    let dir = folder(&work).display().to_string();
    let lines = work.petal(["predict", "law.csv", &dir, "--json"]).exits(4).json();
    assert_eq!((&lines[0]["used"], &lines[0]["refused"]), (&"usl".into(), &Value::Null));
    assert!(lines[0]["name"].as_str().unwrap().starts_with("law.csv, "), "{lines}");
    assert!(lines[1]["refused"].as_str().unwrap().starts_with("it has 3 cells"), "{lines}");
    work.petal(["predict", "none.csv"]).exits(3).telling(&["none.csv"]);
    work.petal(["predict", "law.csv", "--sessions", "0"]).exits(2).telling(&["--sessions"]);
    let cells = fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().path());
    let run = cells.filter(|path| path.is_dir()).min().unwrap().display().to_string();
    let what_if = |path: &str, factor| work.petal(["predict", path, "--rate", factor, "--json"]);
    let found = what_if(&run, "2x").exits(4).json();
    assert_eq!(found[0]["refused"][0], "--rate: the run had no RATE", "{found}");
    what_if(&dir, "2x").exits(2).telling(&["--rate 2x", "is not a run"]);
    what_if(&run, "2").exits(2).telling(&["--rate", "such as 2x"]);
}
