//! Reads, writes and syncs that the system fails: each is reported in the system's words, and what was
//! measured before it is kept. `strace` answers in the kernel's place.

use serde_json::Value;

use crate::support::{Ended, Workplace, count, findings, run, skip};

fn can_trace() -> bool {
    let tried = run("strace", &["-qq", "-o", "/dev/null", "true"]);
    tried.map_err(|why| skip(&format!("system calls cannot be traced here: {why}"))).is_ok()
}

/// petal, with one system call failing as `strace` has it: `pread64:error=EIO:when=500`.
fn with(work: &Workplace, fault: &str, args: &[&str]) -> Ended {
    let trace = format!("trace={}", fault.split(':').next().unwrap());
    let inject = format!("inject={fault}");
    let strace = ["-f", "-qq", "--seccomp-bpf", "-o", "/dev/null", "-e", &trace, "-e", &inject];
    work.petal(args).under("strace", &[&strace[..], &["--"]].concat()).ends()
}

fn is_said(run: &Value, words: &str) -> bool {
    run["findings"]
        .as_array()
        .unwrap()
        .iter()
        .any(|finding| finding["message"].as_str().unwrap().contains(words))
}

#[test]
fn a_direct_read_that_fails_is_reported_and_never_made_good() {
    if !can_trace() {
        return;
    }
    let work = Workplace::loaded(1, "8M");
    let args = ["run", "--work-loop", "30", "--update-pct", "0", "--json"];
    // Once, and from then on.
    for when in ["1000", "1000+"] {
        let run = with(&work, &format!("pread64:error=EIO:when={when}"), &args).exited(1).json();
        assert_eq!(run["sessions_lost"][0]["code"], "SQLITE_IOERR", "{when}");
        let message = run["sessions_lost"][0]["message"].as_str().unwrap();
        let words = ["petal1.db", "disk I/O error", "reading at byte", "Input/output error"];
        assert!(words.iter().all(|word| message.contains(word)), "{message}");
        assert_eq!(count(&run, "/counters/io_errors"), 1, "{when}");
        assert!(findings(&run).contains(&"io-errors"), "{when}");
        assert!(!run.to_string().contains("malformed"), "{when}");
    }
    // A signal is no failure.
    let run = with(&work, "pread64:error=EINTR:when=1000", &args).exited(0).json();
    assert_eq!((count(&run, "/ops/total"), count(&run, "/counters/io_errors")), (30, 0));
}

#[test]
fn a_checkpoint_that_fails_is_reported() {
    if !can_trace() {
        return;
    }
    let work = Workplace::loaded(1, "8M");
    // Far more writes than come before the fault, however slow they are.
    let args = ["run", "--work-loop", "400", "--update-pct", "100", "--json"];
    let url = ["--db", "sqlite:petal-data?checkpoint=1M"];
    // A session writes the WAL through its own thread's descriptor; both fail here.
    let run = with(&work, "pwrite64:error=EIO:when=2000+", &[&args[..], &url].concat());
    let run = run.exited(1).json();
    assert!(findings(&run).contains(&"io-errors"));
    assert!(is_said(&run, "Input/output error"), "{run}");
}

#[test]
fn an_io_uring_without_room_for_the_moment_is_asked_again() {
    if !can_trace() {
        return;
    }
    let work = Workplace::new();
    let db = ["--db", "device:petal.dat?io=uring"];
    work.petal([&["setup", "--scale", "8M"][..], &db].concat()).exits(0);
    let args = ["run", "--work-loop", "30", "--io-depth", "4", "--json"];
    let args = [&args[..], &db].concat();
    // Three times in a row, at most: a fourth ends the session where none are in flight.
    for fault in ["EAGAIN:when=20", "EBUSY:when=20", "EAGAIN:when=1..3", "EBUSY:when=40..42"] {
        let run = with(&work, &format!("io_uring_enter:error={fault}"), &args).exited(0).json();
        assert_eq!(count(&run, "/ops/total"), 30, "{fault}");
    }
    let run = with(&work, "io_uring_enter:error=EAGAIN:when=20+", &args).exited(1).json();
    assert_eq!(run["sessions_lost"][0]["code"], "EAGAIN");
    assert!(is_said(&run, "Resource temporarily unavailable"), "{run}");
}

#[test]
fn an_error_late_in_a_calibration_keeps_what_was_measured() {
    if !can_trace() {
        return;
    }
    let work = Workplace::new();
    let args = ["calibrate", "cal.dat", "--size", "16M", "--seconds", "3", "--depths", "1"];
    let more = ["--json", "--calibrations", "kept"];
    // Synced are the filled file, what the writes left, and then what the mix left.
    let fault = "fdatasync:error=EIO:when=3";
    let ended = with(&work, fault, &[&args[..], &more].concat()).exited(3);
    let ended = ended.telling(&["cal.dat", "Input/output error", "calibrate.json"]);
    let calibration = ended.json();
    assert_eq!(calibration["status"], "failed");
    assert_eq!(count(&calibration, "/curves/read/0/rounds"), 1);
    assert_eq!(count(&calibration, "/curves/write/0/rounds"), 1);
    assert!(calibration["curves"].get("mix").is_none());
    assert!(calibration["notes"].to_string().contains("Input/output error"), "{calibration}");
}

/// A load gathers pages. A write of them that fails once, and would succeed the next time, must not
/// leave a file with a hole.
#[test]
fn a_load_whose_gathered_pages_fail_once_fails_and_leaves_no_data() {
    if !can_trace() {
        return;
    }
    for (error, words) in [("ENOSPC", "full"), ("EIO", "Input/output error")] {
        for at in [8, 20, 40] {
            let work = Workplace::new();
            let fault = format!("pwrite64:error={error}:when={at}");
            let setup = with(&work, &fault, &["setup", "-s", "1", "--scale", "8M"]);
            let (code, said) = (setup.code, &setup.stderr);
            assert!(matches!(code, Some(1 | 3)) && said.contains(words), "{fault}: {setup:?}");
            assert!(!work.path("petal-data/petal1.db").exists(), "{fault}: {said}");
        }
    }
}

/// A load that is killed leaves no file that the next one takes for somebody else's: an empty one, or
/// from its first write on one with petal's mark. `strace` makes the call end the process.
#[test]
fn a_device_load_that_is_killed_at_any_call_can_be_made_again() {
    if !can_trace() {
        return;
    }
    let setup = ["setup", "--scale", "8M", "--db", "device:petal.dat"];
    for call in ["pwrite64", "fallocate", "ftruncate", "pwrite64:when=2", "fsync", "fsync:when=2"] {
        let work = Workplace::new();
        let name = call.split(':').next().unwrap();
        let inject = format!("inject={}", call.replacen(name, &format!("{name}:signal=KILL"), 1));
        let inject = inject.replacen("signal", "retval=0:signal", 1);
        let trace = format!("trace={name}");
        let strace = ["-f", "-qq", "-o", "/dev/null", "-e", &trace, "-e", &inject, "--"];
        let killed = work.petal(setup).under("strace", &strace).ends();
        assert!(killed.code.is_none_or(|code| code == 137), "{call}: {killed:?}");
        let bytes = std::fs::metadata(work.path("petal.dat")).unwrap().len();
        assert_eq!(bytes == 0, call == "pwrite64", "{call}: {bytes}");
        work.petal(setup).exits(0);
    }
    let work = Workplace::new();
    work.write("petal.dat", vec![0; 16 << 20]);
    work.petal(setup).exits(3).telling(&["petal.dat", "--destroy-data"]);
}
