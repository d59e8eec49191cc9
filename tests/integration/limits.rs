//! Sizes and numbers past what petal or the machine can do, and files past what any record is: each
//! refused by name, before memory or time goes.

use std::fs;
use std::os::unix::fs::symlink;

use crate::support::{ControlGroup, Workplace, findings};

/// A shell's limit on the memory of what it starts, in KiB: far more than petal needs to refuse.
const MEMORY: &str = "ulimit -v 2000000";

#[test]
fn a_limit_of_open_files_is_named_with_what_is_needed() {
    let work = Workplace::loaded(2, "8M");
    let few = |args: &[&str]| work.petal(args).after("ulimit -n 128");
    few(&["run", "-t", "100", "--work-loop", "1"]).exits(3).telling(&[
        "ulimit -n",
        "is 128",
        "200 sessions need about 474",
        "LimitNOFILE",
    ]);
    assert!(work.runs().is_empty());
    few(&["run", "-t", "10", "--work-loop", "1"]).exits(0);
    // What a shell sets is raised as far as it may be.
    let soft = work.petal(["run", "-t", "100", "--work-loop", "1"]).after("ulimit -S -n 128");
    soft.exits(0);
    // A load is held to it, too.
    let load = ["setup", "-s", "32", "--scale", "8M", "--load-parallel-degree", "32", "--replace"];
    few(&load).exits(3).telling(&["ulimit -n", "32 loaders need about", "LOAD_PARALLEL_DEGREE"]);
    few(&["run", "-t", "10", "--work-loop", "1"]).exits(0);
    let soft = work.petal(load).after("ulimit -S -n 128");
    soft.exits(0);
}

#[test]
fn numbers_past_any_use_are_refused_at_once() {
    let work = Workplace::loaded(1, "8M");
    for args in [
        &["setup", "-s", "4294967295"][..],
        &["setup", "4294967295"],
        &["run", "-s", "4294967295"],
        &["sweep", "-s", "4294967295", "--sessions", "1"],
    ] {
        work.petal(args).after(MEMORY).exits(2).telling(&["4294967295", "10000"]);
    }
    for args in [
        &["run", "-t", "65536", "--work-loop", "1"][..],
        &["run", "--readers", "9000", "--writers", "9000", "--work-loop", "1"],
    ] {
        work.petal(args).after(MEMORY).exits(2).telling(&["sessions", "at most 10000"]);
    }
    assert!(work.runs().is_empty());
}

#[test]
fn more_memory_than_there_is_is_refused_before_it_goes() {
    let work = Workplace::new();
    let url = format!("device:{}", work.path("petal.dat").display());
    work.petal(["setup", "--scale", "64M", "--db", &url]).exits(0);
    let run = ["run", "-t", "10000", "--io-depth", "32000", "--work-loop", "1", "--db", &url];
    work.petal(run).after(MEMORY).exits(3).telling(&["10,000 sessions", "ulimit -v"]);
    assert!(work.runs().is_empty());
}

/// Targets whose loads take petal's own memory.
fn own_targets(work: &Workplace) -> [String; 2] {
    let file = work.path("petal.dat");
    [format!("sqlite:{}", work.path("data").display()), format!("device:{}", file.display())]
}

fn load_of<'a>(url: &'a str, loaders: &'a str) -> [&'a str; 10] {
    let setup = ["setup", "--replace", "-s", loaders, "--load-parallel-degree", loaders];
    let [setup, replace, s, schemas, degree, loaders] = setup;
    [setup, replace, s, schemas, degree, loaders, "--scale", "8M", "--db", url]
}

#[test]
fn a_load_under_any_limit_of_address_space_is_whole_or_refused_before_it_begins() {
    let work = Workplace::new();
    for url in own_targets(&work) {
        let is_whole = |kib: &u32| {
            let limit = format!("ulimit -v {kib}");
            let load = work.petal(load_of(&url, "16")).after(&limit).ends();
            let is_refused = load.stderr.contains("(ulimit -v) leaves");
            assert_eq!(load.code, Some(if is_refused { 3 } else { 0 }), "{kib} KiB: {load:?}");
            !is_refused
        };
        // Without the reckoning, memory ended in the midst of loads between these.
        let limits = [160_000, 200_000, 300_000, 500_000, 800_000, 1_200_000, 2_000_000];
        let whole: Vec<bool> = limits.iter().map(is_whole).collect();
        assert!(!whole[0] && whole[limits.len() - 1], "{whole:?}");
    }
}

#[test]
fn a_load_that_its_control_groups_memory_does_not_allow_is_refused_before_it_begins() {
    const FILE: &str = "memory.limit_in_bytes";
    let Some(group) = ControlGroup::with("memory", FILE, "160M") else { return };
    let work = Workplace::new();
    for url in own_targets(&work) {
        let load = |loaders| work.petal(load_of(&url, loaders)).after(&group.joined());
        load("64").exits(3).telling(&["64 loaders need at least", FILE, "LOAD_PARALLEL_DEGREE"]);
        load("2").exits(0);
    }
}

#[test]
fn more_threads_than_the_system_has_are_refused_by_the_limits_name() {
    let work = Workplace::new();
    let url = format!("device:{}?io=pread", work.path("petal.dat").display());
    work.petal(["setup", "--scale", "8M", "--db", &url]).exits(0);
    let run = |depth| ["run", "-t", "1000", "--io-depth", depth, "--work-loop", "1", "--db", &url];
    let reported = ["sysctl", "1,000 sessions need about 1,002,008", "IO_DEPTH", "io=pread"];
    work.petal(run("1000")).exits(3).telling(&reported);
    assert!(work.runs().is_empty());
}

#[test]
fn a_record_without_end_is_refused() {
    let work = Workplace::loaded(1, "8M");
    work.petal(["run", "--work-loop", "5"]).exits(0);
    let folder = work.run_folder();
    let path = folder.to_str().unwrap().to_owned();
    // Without run.json the others are read.
    for name in ["run.json", "latency.hlog", "seconds.ndjson.gz"] {
        fs::remove_file(folder.join("run.json")).unwrap();
        let whole = folder.join("whole");
        if name != "run.json" {
            fs::rename(folder.join(name), &whole).unwrap();
        }
        symlink("/dev/zero", folder.join(name)).unwrap();
        let report = work.petal(["report", &path]).after(MEMORY).ends();
        // Of what a report can do without, it says what is missing.
        let is_told = match report.code {
            Some(0) => report.stdout.contains(name),
            code => code == Some(3) && report.stderr.contains(name),
        };
        assert!(is_told, "{name}: {report:?}");
        if name != "run.json" {
            fs::remove_file(folder.join(name)).unwrap();
            fs::rename(&whole, folder.join(name)).unwrap();
            fs::write(folder.join("run.json"), "").unwrap();
        }
    }
    for args in [&["compare", "/dev/zero", "/dev/zero"][..], &["report", "/dev/zero"]] {
        work.petal(args).after(MEMORY).exits(3).telling(&["/dev/zero"]);
    }
}

#[test]
fn a_limit_of_file_sizes_is_an_error_like_any_other() {
    let work = Workplace::new();
    // In blocks of 512 bytes.
    let small = "ulimit -f 4096";
    work.petal(["setup", "--scale", "8M"]).after(small).exits(3).telling(&["petal1.db"]);
    work.petal(["setup", "--scale", "8M"]).exits(0);
    let args = ["run", "--work-loop", "400", "--update-pct", "100", "--json"];
    let run = work.petal(args).after(small).exits(1);
    assert!(findings(&run.json()).contains(&"io-errors"));
}
