//! Disks that are full or read-only, on small mounts: each time a clear error, nothing half
//! done, and nothing lost that was there.

use std::fs;

use rustix::process::Signal;

use crate::support::{Mount, Workplace, contents, count, names, record};

#[test]
fn a_load_that_cannot_fit_is_refused_before_it_begins() {
    let Some(disk) = Mount::tmpfs("size=20M") else { return };
    let work = Workplace::new();
    let url = disk.url("data");
    work.petal(["setup", "-s", "2", "--scale", "64M", "--db", &url]).exits(3).telling(&[
        &disk.text("data"),
        "are free there",
        "load less",
    ]);
    assert!(contents(&disk.path("")).is_empty());
}

#[test]
fn a_disk_that_fills_up_during_a_load_leaves_nothing_half_done() {
    let Some(disk) = Mount::tmpfs("size=700M") else { return };
    let work = Workplace::new();
    let url = disk.url("data");
    work.petal(["setup", "--scale", "8M", "--db", &url]).exits(0);
    let before = contents(&disk.path("data"));
    let mut setup = work.petal(["setup", "--scale", "640M", "--replace", "--db", &url]).start();
    let loading = disk.path("data/petal1.db.loading");
    setup.until("a load under way", || {
        fs::metadata(&loading).is_ok_and(|file| file.len() > 1 << 20)
    });
    // Held up meanwhile, so that it is not the one that takes the rest of the room.
    setup.signal(Signal::STOP);
    disk.fill("somebody-elses");
    setup.signal(Signal::CONT);
    setup.ends().exited(3).telling(&["petal1.db", "full", "free some room"]);
    assert!(before == contents(&disk.path("data")), "{:?}", names(&disk.path("data")));
    disk.free("somebody-elses");
    work.petal(["setup", "--scale", "16M", "--replace", "--db", &url]).exits(0);
    work.petal(["run", "--work-loop", "3", "--db", &url]).exits(0);
}

#[test]
fn a_disk_that_fills_up_during_a_run_loses_sessions_and_no_data() {
    let Some(disk) = Mount::tmpfs("size=40M") else { return };
    let work = Workplace::new();
    let url = disk.url("data");
    work.petal(["setup", "--scale", "12M", "--db", &url]).exits(0);
    // The log grows past the room there is, until checkpoints at 64M that never come.
    let full = format!("{url}?checkpoint=64M");
    let args = ["run", "-t", "2", "--run-time", "60", "--update-pct", "50", "--json"];
    let run = work.petal([&args[..], &["--db", &full]].concat()).exits(1).json();
    assert_eq!(run["status"], "failed");
    let lost = run["sessions_lost"].as_array().unwrap();
    assert_eq!(lost.len(), 2);
    for session in lost {
        assert_eq!(session["code"], "SQLITE_FULL");
        assert!(session["message"].as_str().unwrap().contains("petal1.db"), "{session}");
    }
    let folder = work.run_folder();
    assert_eq!(record(&folder)["status"], "failed");
    work.petal(["report", folder.to_str().unwrap()]).exits(0);
    // Whoever wants to go on can: the next run pays the debt, and every row is there.
    let args = ["run", "--work-loop", "100", "--update-pct", "20", "--json", "--db", &url];
    let again = work.petal(args).exits(0).json();
    assert_eq!(count(&again, "/rows/select"), 80 * 64);
    assert_eq!(count(&again, "/rows/update"), 20 * 64);
    let database = rusqlite::Connection::open(disk.path("data/petal1.db")).unwrap();
    let check: String = database.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    drop(database);
    assert_eq!(check, "ok");
    work.petal(["setup", "--scale", "10M", "--replace", "--db", &url]).exits(0);
}

#[test]
fn one_full_disk_among_several_schemas_is_reported_with_exit_1() {
    // A schema's writers are lost; those who only read live on to the end.
    let Some(disk) = Mount::tmpfs("size=40M") else { return };
    let work = Workplace::new();
    let url = format!("{}?checkpoint=64M", disk.url("data"));
    work.petal(["setup", "--scale", "12M", "--db", &url]).exits(0);
    let args =
        ["run", "--readers", "1", "--writers", "1", "--run-time", "2", "--json", "--db", &url];
    let run = work.petal(args).exits(1).json();
    assert_eq!(run["status"], "complete");
    assert_eq!(run["sessions_lost"].as_array().unwrap().len(), 1);
    assert!(run["findings"].to_string().contains("lost-sessions"));
    assert!(number_of(&run, "select") > 0);
}

fn number_of(run: &serde_json::Value, kind: &str) -> u64 {
    count(run, &format!("/ops/{kind}"))
}

#[test]
fn a_read_only_disk_is_reported_before_anything_is_done() {
    let Some(disk) = Mount::tmpfs("size=40M") else { return };
    let work = Workplace::new();
    let url = disk.url("data");
    work.petal(["setup", "--scale", "12M", "--db", &url]).exits(0);
    work.petal(["run", "--work-loop", "5", "--update-pct", "100", "--db", &url]).exits(0);
    disk.make_read_only();
    let before = contents(&disk.path(""));
    let new = disk.url("new");
    work.petal(["setup", "--scale", "8M", "--db", &new])
        .exits(3)
        .telling(&[&disk.text("new"), "read-only"]);
    work.petal(["setup", "-s", "2", "--scale", "12M", "--db", &url])
        .exits(3)
        .telling(&[&disk.text("data"), "read-only"]);
    work.petal(["drop", "--db", &url]).exits(3).telling(&[&disk.text("data"), "read-only"]);
    for update_pct in ["0", "20"] {
        work.petal(["run", "--work-loop", "1", "--update-pct", update_pct, "--db", &url])
            .exits(3)
            .telling(&[&disk.text("data/petal1.db"), "readonly", "its mount"]);
    }
    assert!(before == contents(&disk.path("")));
    disk.make_writable();
    work.petal(["run", "--work-loop", "5", "--update-pct", "50", "--db", &url]).exits(0);
}

#[test]
fn a_record_that_cannot_be_begun_stops_the_run_before_it_touches_anything() {
    let work = Workplace::loaded(1, "8M");
    let hook = work.script("hook.sh", "touch called");
    let before = contents(&work.path("petal-data"));
    for (options, read_only, word) in
        [("size=1M", true, "read-only"), ("size=1M,nr_inodes=1", false, "free some space")]
    {
        let Some(disk) = Mount::tmpfs(options) else { return };
        if read_only {
            disk.make_read_only();
        }
        let out = disk.text("results");
        let script = hook.to_str().unwrap();
        let args = ["run", "--update-pct", "100", "--external-script", script, "--out", &out];
        work.petal(args).exits(3).telling(&["cannot make", &out, word, "--out"]);
        assert!(!work.path("called").exists(), "the hook was called");
        assert!(before == contents(&work.path("petal-data")), "the data was touched");
    }
}

#[test]
fn a_record_that_cannot_be_kept_still_prints_its_figures() {
    let Some(disk) = Mount::tmpfs("size=1M") else { return };
    disk.fill("somebody-elses");
    let work = Workplace::loaded(1, "8M");
    let out = disk.text("results");
    let run = work
        .petal(["run", "--work-loop", "20", "--update-pct", "50", "--json", "--out", &out])
        .exits(3)
        .telling(&["No space left", "--out"]);
    let summary = run.json();
    assert_eq!(summary["status"], "complete");
    assert_eq!(count(&summary, "/ops/total"), 20);
    assert!(run.stdout.trim_end().ends_with('}'));
}
