//! The operating system's figures: next to a run, by `petal os` and merged, after a kill, and turned
//! off.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use rustix::process::Signal;
use serde_json::Value;

use crate::support::{Mount, Running, SECONDS, Workplace, number, record, text_of};

/// The columns of a run's timeline.csv, by name.
fn columns(work: &Workplace, folder: &Path) -> BTreeMap<String, Vec<String>> {
    work.petal(["report", folder.to_str().unwrap(), "--timeline"]).exits(0);
    let text = fs::read_to_string(folder.join("timeline.csv")).unwrap();
    let mut rows = text.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let names = rows.next().unwrap();
    let mut columns: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for row in rows {
        for (name, field) in names.iter().zip(row) {
            columns.entry((*name).to_owned()).or_default().push(field.to_owned());
        }
    }
    columns
}

/// The numbers of a column in the whole seconds. A second whose sample came too late has none.
#[track_caller]
fn known(columns: &BTreeMap<String, Vec<String>>, name: &str) -> Vec<f64> {
    let fields = columns.get(name).unwrap_or_else(|| panic!("no column {name}: {columns:?}"));
    let lengths = &columns["length_s"];
    let whole = fields.iter().zip(lengths).filter(|(_, length)| *length == "1.000");
    let reported = whole.filter(|(field, _)| !field.is_empty());
    let values: Vec<f64> = reported
        .map(|(field, _)| field.parse().unwrap_or_else(|_| panic!("{name}: {fields:?}")))
        .collect();
    assert!(!values.is_empty(), "no whole second: {columns:?}");
    values
}

/// How many intervals are each about one second of the run, as near as a column takes them.
fn in_time(intervals: &[Value]) -> usize {
    let is_near = |value: f64, to: f64, slack: f64| (value - to).abs() < slack;
    let is_in_time = |line: &&Value| {
        let from_s = number(line, "/from_s");
        let length_s = number(line, "/interval/seconds");
        is_near(from_s, from_s.round(), 0.1) && is_near(length_s, 1.0, 0.2)
    };
    intervals.iter().filter(is_in_time).count()
}

/// The operating system's counts in a run's folder.
fn os_seconds(folder: &Path) -> Vec<Value> {
    let text = text_of(&folder.join(SECONDS));
    let lines = text.lines().skip(1).map_while(|line| serde_json::from_str::<Value>(line).ok());
    lines.map(|mut line| line["os"].take()).filter(Value::is_object).collect()
}

fn lines(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap_or_default();
    // The last line may be half written.
    text.lines().map_while(|line| serde_json::from_str(line).ok()).collect()
}

/// `petal os` at work on a workplace's data, with so many seconds on disk.
fn recorder(work: &Workplace, seconds: usize) -> (Running, PathBuf) {
    let path = work.path("dbhost.ndjson");
    let data = work.path("petal-data");
    let own = std::process::id().to_string();
    let args = ["os", "--out", path.to_str().unwrap(), "--path", data.to_str().unwrap()];
    let mut os = work.petal([&args[..], &["--server", &own]].concat()).start();
    os.until("its first seconds", || lines(&path).len() > seconds);
    (os, path)
}

const RUN: [&str; 5] = ["run", "--update-pct", "20", "--run-time", "3"];

#[test]
fn a_run_has_each_second_of_the_processors_memory_and_devices() {
    let Some(disk) = Mount::ext4(200) else { return };
    let work = Workplace::new();
    let url = disk.url("data");
    work.petal(["setup", "-s", "2", "--scale", "32M", "--db", &url]).exits(0);
    work.petal([&RUN[..], &["--db", &url]].concat()).watching().exits(0);
    let folder = work.run_folder();
    let columns = columns(&work, &folder);
    let states = ["%usr", "%nice", "%sys", "%iowait", "%irq", "%soft", "%steal", "%idle"];
    let shares = states.map(|state| known(&columns, &format!("mpstat.{state}")));
    for at in 0..shares[0].len() {
        let sum: f64 = shares.iter().map(|share| share[at]).sum();
        assert!((sum - 100.0).abs() < 0.1, "{sum}: {shares:?}");
    }
    for name in ["vmstat.r", "vmstat.in", "vmstat.cs", "vmstat.free", "petal.%CPU"] {
        assert!(known(&columns, name).iter().all(|&value| value > 0.0), "{name}");
    }
    for name in ["vmstat.b", "vmstat.si", "sar.majflt/s", "meminfo.Dirty"] {
        known(&columns, name);
    }
    // The loop device that the data lies on, and the device that its file lies on.
    let whole = record(&folder);
    let device = whole["details"]["devices"][0].as_str().unwrap();
    let reads = format!("iostat.{device}.rkB/s");
    let both = columns[&reads].iter().zip(&columns["device_read_bytes"]);
    let both: Vec<(f64, f64)> =
        both.filter_map(|(rate, bytes)| Some((rate.parse().ok()?, bytes.parse().ok()?))).collect();
    assert!(!both.is_empty(), "{columns:?}");
    for (rate, bytes) in both {
        let close = (rate * 1024.0 - bytes).abs() <= bytes * 0.15 + 4096.0;
        assert!(close, "{rate} kB/s and {bytes} bytes in a second");
    }
    assert!(known(&columns, &reads).iter().any(|&rate| rate > 0.0));
    let devices = whole.pointer("/details/os/whole/sum/devices").unwrap().as_array().unwrap();
    assert!(devices.iter().any(|device| device["data"] == true), "{devices:?}");
    // The file of seconds holds every processor of every second; the record only their sums.
    let seconds = os_seconds(&folder);
    assert!(seconds.len() >= 3, "{seconds:?}");
    assert!(shares[0].len() >= in_time(&seconds).min(3), "{columns:?}\n{seconds:?}");
    let processors = whole.pointer("/details/os/whole/sum/cpus/each").unwrap().as_array().unwrap();
    for second in seconds {
        let each = second.pointer("/interval/cpus/each").unwrap().as_array().unwrap();
        assert_eq!(each.len(), processors.len());
    }
    assert!(whole.pointer("/details/os/seconds").is_none());
    let report = fs::read_to_string(folder.join("report.txt")).unwrap();
    for words in ["OPERATING SYSTEM", "%iowait", "aqu-sz", "before the run"] {
        assert!(report.contains(words), "no {words:?} in:\n{report}");
    }
    // The same once more, from the record.
    work.petal(["report", folder.to_str().unwrap()]).exits(0);
    assert_eq!(fs::read_to_string(folder.join("report.txt")).unwrap(), report);
}

#[test]
fn no_os_perf_data_keeps_nothing() {
    let work = Workplace::loaded(1, "8M");
    work.petal(RUN).env("NO_OS_PERF_DATA", "TRUE").exits(0);
    let folder = work.run_folder();
    let whole = record(&folder);
    for name in ["os", "server_os", "host", "device"] {
        assert_eq!(whole["details"][name], Value::Null, "{name}");
    }
    assert_eq!((&whole["cpu"], &whole["petal_cpu_s"]), (&Value::Null, &Value::Null));
    assert!(os_seconds(&folder).is_empty());
    let columns = columns(&work, &folder);
    assert!(columns["mpstat.%usr"].iter().all(String::is_empty), "{columns:?}");
    assert!(!columns.keys().any(|name| name.starts_with("iostat.")));
}

#[test]
fn a_killed_run_keeps_what_was_seen() {
    let work = Workplace::loaded(1, "8M");
    let mut run = work.petal(["run", "--run-time", "600"]).watching().start();
    run.until("a second", || !work.seconds().is_empty());
    let folder = work.run_folder();
    // A busy machine looks at some seconds too late.
    run.until("four seconds in time", || in_time(&os_seconds(&folder)) >= 4);
    run.kill();
    let reported = work.petal(["report", folder.to_str().unwrap()]).exits(0).stdout;
    assert!(reported.contains("OPERATING SYSTEM") && reported.contains("%iowait"), "{reported}");
    let columns = columns(&work, &folder);
    assert!(known(&columns, "vmstat.cs").len() >= 3, "{columns:?}");
}

#[test]
fn a_recording_of_petal_os_is_merged_by_time() {
    let work = Workplace::loaded(1, "16M");
    let (os, path) = recorder(&work, 1);
    work.petal(RUN).exits(0);
    let folder = work.run_folder();
    let before = record(&folder);
    assert_eq!(before["details"]["server_os"], Value::Null);
    os.signal(Signal::INT);
    os.ends().exited(0).telling(&["intervals are in"]);
    let dir = folder.to_str().unwrap();
    let reported = work.petal(["report", dir, "--os-data", path.to_str().unwrap()]).exits(0);
    assert!(reported.stdout.contains("[from dbhost.ndjson, host "), "{}", reported.stdout);
    let merged = record(&folder);
    let seen = &merged["details"]["server_os"];
    let covered_s = number(seen, "/whole/sum/seconds");
    assert!((covered_s - number(&merged, "/elapsed_s")).abs() < 0.5, "{covered_s}");
    assert!(number(seen, "/whole/ranges/server_processes/least") >= 1.0, "{seen}");
    // What petal did is as it was; what it could not see is there now.
    assert_eq!((&merged["ops"], &merged["waits"]), (&before["ops"], &before["waits"]));
    assert!(number(&merged, "/cpu/idle") <= 100.0);
    let columns = columns(&work, &folder);
    known(&columns, "mpstat.%idle");
    known(&columns, "server.%CPU");
    // And it stays there, without the file.
    fs::remove_file(&path).unwrap();
    let again = work.petal(["report", dir]).exits(0);
    assert_eq!(again.stdout, reported.stdout);
}

#[test]
fn a_file_of_another_time_is_reported_with_both_spans() {
    let work = Workplace::loaded(1, "8M");
    let path = work.path("early.ndjson");
    let early = path.to_str().unwrap();
    work.petal(["os", "--out", early, "--seconds", "1"]).exits(0);
    let run = work.petal([&RUN[..], &["--os-data", early]].concat()).exits(3);
    run.telling(&[
        "no moment in common",
        "the run lasted from 20",
        "the file from 20",
        "petal report",
    ]);
    let folder = work.run_folder();
    assert!(record(&folder)["details"]["gaps"][0].as_str().unwrap().contains("early.ndjson"));
    let dir = folder.to_str().unwrap();
    work.petal(["report", dir, "--os-data", early]).exits(3).telling(&["no moment in common"]);
    work.petal(["report", dir, "--os-data", "nowhere"]).exits(3).telling(&["nowhere"]);
    work.petal(["os", "--out", early]).exits(3).telling(&["early.ndjson"]);
    let other = work.write("other", "sar\n");
    work.petal(["report", dir, "--os-data", other.to_str().unwrap()])
        .exits(3)
        .telling(&["other", "petal os"]);
}

#[test]
fn a_killed_recorder_leaves_what_it_reported() {
    let work = Workplace::loaded(1, "8M");
    let (os, path) = recorder(&work, 1);
    let with = [&RUN[..], &["--os-data", path.to_str().unwrap()]].concat();
    work.petal(with).exits(0);
    os.kill();
    // As a kill in the middle of a line would leave it.
    let mut file = OpenOptions::new().append(true).open(&path).unwrap();
    file.write_all(b"{\"at\":\"2026-").unwrap();
    let folder = work.run_folder();
    assert!(folder.join("os-server.ndjson").exists());
    let whole = record(&folder);
    assert_eq!(
        whole["details"]["gaps"],
        serde_json::json!([]),
        "the run waited for its last second"
    );
    let dir = folder.to_str().unwrap();
    let reported = work.petal(["report", dir, "--os-data", path.to_str().unwrap()]).exits(0);
    assert!(reported.stdout.contains("host "), "{}", reported.stdout);
    known(&columns(&work, &folder), "mpstat.%idle");
}

#[test]
fn a_missing_object_is_refused_before_anything_is_made() {
    let work = Workplace::new();
    let os = |args: &[&str]| work.petal([&["os", "--out", "x"], args].concat()).exits(2);
    os(&["--devices", "no-such-disk"]).telling(&["no-such-disk", "disks here"]);
    os(&["--path", "nowhere"]).telling(&["nowhere"]);
    os(&["--server", "4194305"]).telling(&["4194305"]);
    assert!(!work.path("x").exists());
    // What is there is kept, and the way out is another file.
    work.write("x", "mine");
    let refused = work.petal(["os", "--out", "x"]).exits(3);
    refused.telling(&["x is there already", "a file that is not there yet"]);
    assert_eq!(std::fs::read_to_string(work.path("x")).unwrap(), "mine");
}

#[test]
fn os_data_of_a_database_on_this_host_are_refused_before_the_run() {
    let work = Workplace::loaded(1, "8M");
    let file = work.write("os.ndjson", "");
    let args = ["run", "--run-time", "600", "--os-data", file.to_str().unwrap()];
    work.petal(args).watching().exits(2).telling(&["--os-data", "another host"]);
    assert!(work.runs().is_empty());
}
