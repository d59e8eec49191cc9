//! `petal calibrate` on small files and loop devices, and the runs that are compared with it.

use std::fs;

use rustix::process::Signal;
use serde_json::Value;

use crate::support::{
    ALONE, Loop, Mount, Petal, Workplace, count, number, record, run, skip, until,
};

const SCHEMA: &str = include_str!("../../docs/petal-calibrate.schema.json");
const SHORT: &[&str] = &["--size", "32M", "--seconds", "3", "--depths", "4,1"];

fn calibrate(work: &Workplace, path: &str, more: &[&str]) -> Petal {
    work.petal([&["calibrate", path][..], more].concat())
}

fn is_valid(calibration: &Value) {
    let schema: Value = serde_json::from_str(SCHEMA).unwrap();
    let validator = jsonschema::draft202012::new(&schema).unwrap();
    let errors: Vec<String> =
        validator.iter_errors(calibration).map(|error| format!("{error}")).collect();
    assert!(errors.is_empty(), "{errors:#?}");
}

#[test]
fn a_file_is_made_measured_and_removed() {
    let work = Workplace::new();
    let path = work.path("cal.dat").display().to_string();
    let bounds = ["--json", "--max-latency", "read.p50=100s", "--max-latency", "mix.p50=1us"];
    // Time for two rounds.
    let size = ["--size", "32M", "--seconds", "18", "--depths", "4,1"];
    let ended = calibrate(&work, &path, &[&size[..], &bounds].concat()).exits(0);
    let found = ended.json();
    is_valid(&found);
    assert_eq!(
        (found["status"].as_str(), count(&found, "/rounds")),
        (Some("complete"), 2),
        "{found}"
    );
    let mut in_flight = Vec::new();
    for (curve, reads, writes) in
        [("read", true, false), ("write", false, true), ("mix", true, true)]
    {
        let points = found["curves"][curve].as_array().unwrap();
        let depths: Vec<u64> =
            points.iter().map(|point| point["depth"].as_u64().unwrap()).collect();
        assert_eq!(depths, [1, 4], "{curve}");
        for point in points {
            let count = |name: &str| point[name].as_u64().unwrap();
            assert_eq!((count("reads") > 0, count("writes") > 0), (reads, writes), "{point}");
            let sum = (count("reads") + count("writes")) as f64;
            let iops = number(point, "/iops");
            assert!((iops - sum / number(point, "/seconds")).abs() < 1e-6 * iops);
            assert!(number(point, "/iops_min") <= iops && iops <= number(point, "/iops_max"));
            in_flight
                .push(iops * number(point, "/latency_us/mean") / 1e6 / number(point, "/depth"));
        }
        let most = points.iter().map(|point| number(point, "/iops")).fold(0.0, f64::max);
        assert_eq!(number(&found, &format!("/best/{curve}/iops")), most);
    }
    // Little's law: as many as asked for were in flight all the time, but for submitting them. Not
    // so where the disk stalled at the edge of a measurement, which falls on few of them.
    in_flight.sort_by(f64::total_cmp);
    let middle = in_flight[in_flight.len() / 2];
    assert!((0.5..1.1).contains(&middle), "{in_flight:?}");
    let share = {
        let mix = &found["curves"]["mix"][1];
        number(mix, "/reads") / (number(mix, "/reads") + number(mix, "/writes"))
    };
    assert!((share - 0.7).abs() < 0.05, "{share}");
    assert!(number(&found, "/in_order/read/mb_per_s") > 0.0);
    assert!(number(&found, "/log/latency_us/p50") > 0.0);
    for call in ["fdatasync", "fsync", "o_dsync"] {
        let points = found["log_curves"][call].as_array().unwrap();
        let writers: Vec<f64> = points.iter().map(|point| number(point, "/depth")).collect();
        assert_eq!(writers, [1.0, 8.0, 64.0], "{call}");
        assert!(points.iter().all(|point| number(point, "/writes") > 0.0), "{points:?}");
    }
    assert_eq!(found["log"]["per_second"], found["log_curves"]["fdatasync"][0]["iops"]);
    let read_best = number(&found, "/best/read/iops");
    assert_eq!(number(&found, "/under/0/iops"), read_best);
    assert_eq!(found["under"][1]["iops"], Value::Null);
    assert!(!work.path("cal.dat").exists(), "it was made for this");
    let folder = work.run_folder();
    let kept: Value =
        serde_json::from_slice(&fs::read(folder.join("calibrate.json")).unwrap()).unwrap();
    assert_eq!(kept, found);
    let text = fs::read_to_string(folder.join("report.txt")).unwrap();
    assert!(text.contains("RANDOM MIX, 70 % reads") && text.contains("under read.p50=100s: "));
    assert!(folder.join("report.html").is_file());
    let again = work.petal(["report", "--json", folder.to_str().unwrap()]).exits(0);
    assert_eq!(again.json(), found);
    let other = work.path("nothing").display().to_string();
    let folder = folder.display().to_string();
    work.petal(["report", &folder, &folder]).exits(2).telling(&["is a calibration", "no run"]);
    work.petal(["report", &folder, "--os-data", &other]).exits(2).telling(&["no run"]);
}

/// Each log record is written and made durable by its call, as the system sees it.
#[test]
fn log_records_are_made_durable_by_the_calls_that_are_named() {
    if let Err(why) = run("strace", &["-qq", "-o", "/dev/null", "true"]) {
        return skip(&why);
    }
    let work = Workplace::new();
    let (path, log) = (work.path("cal.dat"), work.path("calls"));
    let names = "trace=fdatasync,fsync,pwritev2";
    let strace = ["-f", "-y", "-qq", "--seccomp-bpf", "-e", names, "-o", log.to_str().unwrap()];
    let args = ["--size", "16M", "--seconds", "1", "--depths", "1", "--json"];
    let petal = calibrate(&work, path.to_str().unwrap(), &args);
    let found = petal.under("strace", &[&strace[..], &["--"]].concat()).exits(0).json();
    let calls = fs::read_to_string(&log).unwrap();
    let of_file = |call: &str, flag: &str| {
        calls
            .lines()
            .filter(|line| line.contains(call) && line.contains("cal.dat") && line.contains(flag))
            .count() as f64
    };
    for (curve, call, flag) in [
        ("fdatasync", "fdatasync(", ""),
        ("fsync", " fsync(", ""),
        ("o_dsync", "pwritev2(", "RWF_DSYNC"),
    ] {
        let points = found["log_curves"][curve].as_array().unwrap();
        let writes: f64 = points.iter().map(|point| number(point, "/writes")).sum();
        assert!(writes > 0.0 && of_file(call, flag) >= writes, "{curve}: {writes}");
    }
}

#[test]
fn a_kept_file_is_used_again_and_dropped() {
    let work = Workplace::new();
    let path = work.path("cal.dat").display().to_string();
    let seconds = ["--seconds", "1", "--depths", "1"];
    calibrate(&work, &path, &[&seconds[..], &["--size", "32M", "--keep"]].concat()).exits(0);
    let before = fs::metadata(&path).unwrap().len();
    assert_eq!(before, 33 << 20);
    // Without a size it takes what is there, and leaves it.
    let found = calibrate(&work, &path, &[&seconds[..], &["--json"]].concat()).exits(0).json();
    assert_eq!(found["bytes"], 32 << 20);
    assert_eq!(fs::metadata(&path).unwrap().len(), before);
    let url = format!("device:{path}");
    work.petal(["run", "--work-loop", "1", "--db", &url]).exits(3).telling(&["not loaded"]);
    work.petal(["drop", "--db", &url]).exits(0);
    assert!(!work.path("cal.dat").exists());
}

#[test]
fn foreign_and_loaded_data_are_refused_and_kept() {
    let work = Workplace::new();
    let foreign = work.write("precious.txt", vec![7; 1 << 20]);
    let path = foreign.display().to_string();
    calibrate(&work, &path, SHORT).exits(3).telling(&["petal did not fill it", "--destroy-data"]);
    let elsewhere = ["--destroy-data", "/tmp/other"];
    calibrate(&work, &path, &[SHORT, &elsewhere].concat()).exits(3).telling(&["not this"]);
    assert!(fs::read(&foreign).unwrap() == vec![7; 1 << 20], "something was written");
    let loaded = work.path("petal.dat").display().to_string();
    let url = format!("device:{loaded}?log=1M");
    work.petal(["setup", "--scale", "16M", "--db", &url]).exits(0);
    let before = fs::read(&loaded).unwrap();
    calibrate(&work, &loaded, SHORT).exits(3).telling(&["it contains petal's data (schema 1)"]);
    assert!(fs::read(&loaded).unwrap() == before, "something was written");
    calibrate(&work, &path, &[SHORT, &["--destroy-data", &path]].concat()).exits(0);
    assert!(foreign.exists(), "it was not made here");
}

#[test]
fn a_mounted_device_is_refused_whatever_is_said() {
    let Some(disk) = Loop::new(64) else { return };
    let work = Workplace::new();
    run("mkfs.ext4", &["-q", disk.device()]).unwrap();
    let point = work.path("mounted");
    fs::create_dir(&point).unwrap();
    let point = point.to_str().unwrap();
    run("mount", &["-o", "ro,noload", disk.device(), point]).unwrap();
    let before = disk.bytes();
    let more = ["--destroy-data", disk.device()];
    let refused = calibrate(&work, disk.device(), &[SHORT, &more].concat()).ends();
    let is_kept = before == disk.bytes();
    run("umount", &[point]).unwrap();
    refused.exited(3).telling(&["is mounted on"]);
    assert!(is_kept, "something was written");
}

#[test]
fn unmeasurable_targets_are_refused_before_anything_is_made() {
    let work = Workplace::new();
    let path = work.path("cal.dat").display().to_string();
    let refused = |more: &[&str], telling: &[&str]| {
        calibrate(&work, &path, more).exits(2).telling(telling);
        assert!(!work.path("cal.dat").exists());
    };
    refused(&["--max-latency", "read.p98=1ms"], &["read.p98=1ms", "mean, p50 or p99"]);
    refused(&["--size", "32M", "--storage-cache", "64M"], &["STORAGE_CACHE (64M)"]);
    refused(&["--size", "1M"], &["at least 16M"]);
    refused(&["--seconds", "1"], &["--seconds 1", "fewer --depths"]);
    refused(&["--depths", "0"], &["0"]);
    refused(&["--block-size", "5000"], &["BLOCK_SZ"]);
    calibrate(&work, "/nowhere/cal.dat", SHORT).exits(3).telling(&["/nowhere"]);
}

#[test]
fn results_that_cannot_be_kept_are_still_printed() {
    let work = Workplace::new();
    let path = work.path("cal.dat").display().to_string();
    let quick = ["--seconds", "1", "--depths", "1", "--size", "32M", "--json"];
    let with = |more: &[&str]| calibrate(&work, &path, &[&quick[..], more].concat());
    // Where results cannot be, nothing is begun.
    let taken = work.write("taken", "mine").display().to_string();
    with(&["--out", &taken]).exits(3).telling(&[&taken, "--out"]);
    assert!(!work.path("cal.dat").exists());
    // Where runs look: everything else is there.
    let ended = with(&["--calibrations", &format!("{taken}/kept")]).exits(3).telling(&[&taken]);
    assert_eq!(ended.json()["status"], "complete");
    let folder = work.run_folder();
    assert!(folder.join("calibrate.json").is_file() && folder.join("report.html").is_file());
    let Some(disk) = Mount::tmpfs("size=1M") else { return };
    disk.fill("somebody-elses");
    let ended = with(&["--out", &disk.text("results")]).exits(3).telling(&["No space left"]);
    assert_eq!(ended.json()["status"], "complete");
}

#[test]
fn ctrl_c_keeps_what_was_measured() {
    let work = Workplace::new();
    let path = work.path("cal.dat");
    let args = ["--size", "32M", "--seconds", "120", "--depths", "1,2,4,8", "--json"];
    let running = calibrate(&work, path.to_str().unwrap(), &args).start();
    // A measurement lasts 120 s / (3 rounds x 23), and a line comes each ten seconds: on a slow disk the
    // first one may come before any measurement has ended.
    let is_measured = |after: &str| after.starts_with(|digit: char| ('1'..='9').contains(&digit));
    until("a measurement", || running.said().split("measuring: ").skip(1).any(is_measured));
    running.signal(Signal::INT);
    let found = running.ends().exited(130).json();
    is_valid(&found);
    assert_eq!(found["status"], "interrupted");
    let points: Vec<&Value> =
        found["curves"].as_object().unwrap().values().flat_map(|c| c.as_array().unwrap()).collect();
    assert!((1..12).contains(&points.len()), "{}", points.len());
    assert!(points.iter().all(|point| number(point, "/iops") > 0.0));
    assert!(!path.exists());
    assert!(work.run_folder().join("calibrate.json").exists());
}

#[test]
fn the_file_of_a_killed_calibration_goes_with_the_next() {
    let work = Workplace::new();
    let path = work.path("cal.dat");
    let killed = |more: &[&str]| {
        let args = ["--size", "32M", "--seconds", "60", "--depths", "1"];
        let args = [&args[..], more].concat();
        let mut running = calibrate(&work, path.to_str().unwrap(), &args).start();
        let is_marked = || fs::read(&path).is_ok_and(|bytes| bytes.starts_with(b"PETALDEV"));
        running.until("petal's mark", is_marked);
        running.kill();
        assert!(path.exists());
    };
    let quick = ["--seconds", "1", "--depths", "1", "--size", "32M"];
    let again = |more: &[&str]| {
        let args = [&quick[..], more].concat();
        calibrate(&work, path.to_str().unwrap(), &args).exits(0)
    };
    killed(&[]);
    again(&[]).telling(&["was killed left it"]);
    assert!(!path.exists());
    // Who wants to keep it keeps it, and so do those that come after.
    killed(&[]);
    again(&["--keep"]);
    again(&[]);
    assert!(path.exists());
    fs::remove_file(&path).unwrap();
    killed(&["--keep"]);
    again(&[]);
    assert!(path.exists());
}

#[test]
fn without_io_uring_plain_calls_work_and_it_is_reported() {
    let work = Workplace::new();
    let path = work.path("cal.dat").display().to_string();
    let ended = calibrate(&work, &path, &[SHORT, &["--json"]].concat()).without_uring().exits(0);
    let means = ended.json()["requests_by"].to_string();
    assert!(means.contains("io_uring is refused"), "{means}");
}

#[test]
fn a_later_run_reports_its_share_of_the_device() {
    let _alone = ALONE.lock();
    let Some(disk) = Loop::new(256) else { return };
    // Otherwise the page cache would serve, and the calibration be that of memory.
    run("losetup", &["--direct-io=on", disk.device()]).unwrap();
    let work = Workplace::new();
    let data_home = work.path("data-home");
    let more = ["--size", "128M", "--seconds", "8", "--depths", "1,4,16,64", "--json"];
    let found = calibrate(&work, disk.device(), &more).env("XDG_DATA_HOME", &data_home);
    let found = found.exits(0).json();
    assert!(found["device"]["drives"][0].is_string(), "{}", found["device"]);
    let kept = fs::read_dir(data_home.join("petal/calibrations")).unwrap().count();
    assert_eq!(kept, 1);
    // The device engine on it, and SQLite on a file system there.
    let url = format!("device:{}?log=2M", disk.device());
    work.petal(["setup", "-s", "2", "--scale", "32M", "--db", &url]).exits(0);
    let reading = ["run", "-t", "2", "--update-pct", "0", "--run-time", "4", "--db"];
    let compared = |url: &str| -> (Value, String) {
        let args = [&reading[..], &[url]].concat();
        work.petal(args).env("XDG_DATA_HOME", &data_home).watching().exits(0);
        let folder = work.runs().pop().unwrap();
        let report = fs::read_to_string(folder.join("report.txt")).unwrap();
        (record(&folder)["details"]["calibrated"].clone(), report)
    };
    let (share, report) = compared(&url);
    assert_eq!(share["curve"], "read", "{share}");
    assert!(number(&share, "/of_depth") > 0.02 && number(&share, "/of_max") > 0.01, "{share}");
    // With others at work while it was calibrated, the curve is lower than the run.
    let is_share = report.contains("of the device at this depth");
    assert!(is_share || report.contains("the calibration is too low"), "{report}");
    work.petal(["drop", "--db", &url]).exits(0);
    run("mkfs.ext4", &["-q", "-F", disk.device()]).unwrap();
    let point = work.path("mounted");
    fs::create_dir(&point).unwrap();
    run("mount", &[disk.device(), point.to_str().unwrap()]).unwrap();
    let url = format!("sqlite:{}", point.join("data").display());
    work.petal(["setup", "-s", "2", "--scale", "32M", "--db", &url]).exits(0);
    let (share, report) = compared(&url);
    run("umount", &[point.to_str().unwrap()]).unwrap();
    assert_eq!(share["curve"], "read", "{share}");
    assert!(number(&share, "/of_max") > 0.01, "{share}");
    let is_share = report.contains("calibrated, its maximum");
    assert!(is_share || report.contains("the calibration is too low"), "{report}");
}
