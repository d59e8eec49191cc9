//! The device engine on real block devices, and where io_uring is forbidden.

use std::fs;
use std::path::Path;

use crate::support::{ALONE, Loop, Mount, Workplace, count, number, record, run};

const MAPPED: &[&str] = &["--scale", "16M", "--scan-table-sz", "1M"];

fn setup(work: &Workplace, device: &str, more: &[&str]) -> crate::support::Petal {
    let url = format!("device:{device}?log=2M");
    work.petal([&["setup", "-s", "2", "--db", &url], MAPPED, more].concat())
}

#[test]
fn a_block_device_is_filled_run_and_dropped() {
    let _alone = ALONE.lock();
    let Some(disk) = Loop::new(64) else { return };
    let work = Workplace::new();
    let url = format!("device:{}", disk.device());
    setup(&work, disk.device(), &[]).exits(0);
    let args = ["run", "-t", "2", "--io-depth", "4", "--update-pct", "0", "--run-time", "3"];
    let run = work.petal([&args[..], &["--json", "--db", &url]].concat());
    let run = run.watching().exits(0).json();
    // Who reads a row reads a block, and the kernel saw as many bytes.
    let per_second = |name: &str| number(&run, &format!("/per_second/{name}"));
    let per_row = per_second("physical_read_blocks") / per_second("rows");
    assert!((per_row - 1.0).abs() < 0.01, "{per_row}");
    let seen = per_second("device_read_bytes") / per_second("physical_read_bytes");
    assert!((seen - 1.0).abs() < 0.02, "the device read {seen} times petal's bytes");
    let args = ["run", "--work-loop", "50", "--update-pct", "100", "--json", "--db", &url];
    let run = work.petal(args).exits(0).json();
    assert_eq!(count(&run, "/counters/commits"), 100);
    let before = disk.bytes();
    let dropped = work.petal(["drop", "--db", &url]).exits(0).stdout;
    assert!(dropped.contains("header"), "{dropped}");
    let after = disk.bytes();
    assert!(after[..1 << 20].iter().all(|byte| *byte == 0));
    assert!(before[1 << 20..] == after[1 << 20..], "more than the header went");
    work.petal(["run", "--work-loop", "1", "--db", &url]).exits(3);
}

#[test]
fn a_device_with_a_file_system_is_refused_and_kept() {
    let Some(disk) = Loop::new(64) else { return };
    let work = Workplace::new();
    run("mkfs.ext4", &["-q", disk.device()]).unwrap();
    let before = disk.bytes();
    setup(&work, disk.device(), &[]).exits(3).telling(&["ext4", "--destroy-data", disk.device()]);
    setup(&work, disk.device(), &["--replace"]).exits(3).telling(&["ext4"]);
    let elsewhere = ["--destroy-data", "/dev/loop"];
    setup(&work, disk.device(), &elsewhere).exits(3).telling(&["not this"]);
    let url = format!("device:{}", disk.device());
    work.petal(["drop", "--db", &url]).exits(0);
    work.petal(["run", "--work-loop", "1", "--db", &url]).exits(3).telling(&["ext4"]);
    assert!(before == disk.bytes(), "something was written");
    // Mounted, no flag helps.
    let point = work.path("mounted");
    fs::create_dir(&point).unwrap();
    let point = point.to_str().unwrap();
    run("mount", &["-o", "ro,noload", disk.device(), point]).unwrap();
    let before = disk.bytes();
    for more in [&[][..], &["--destroy-data", disk.device()]] {
        let refused = setup(&work, disk.device(), more).ends();
        refused.exited(3).telling(&["is mounted on", point]);
    }
    assert!(before == disk.bytes(), "something was written");
    run("umount", &[point]).unwrap();
    // Given up by its exact name.
    setup(&work, disk.device(), &["--destroy-data", disk.device()]).exits(0);
    work.petal(["run", "--work-loop", "5", "--db", &url]).exits(0);
    // A file system over petal's data is somebody's again.
    run("mkfs.ext4", &["-q", "-F", disk.device()]).unwrap();
    work.petal(["run", "--work-loop", "1", "--db", &url]).exits(3).telling(&["ext4"]);
}

#[test]
fn a_device_that_is_not_there_is_no_wish_for_a_file() {
    let work = Workplace::new();
    let missing = Path::new("/dev/petal-no-such-disk");
    let device = missing.to_str().unwrap();
    setup(&work, device, &[]).exits(3).telling(&[device, "no such device"]);
    setup(&work, device, &["--destroy-data", device]).exits(3).telling(&["no such device"]);
    work.petal(["calibrate", device, "--seconds", "3"]).exits(3).telling(&["no such device"]);
    assert!(!missing.exists());
}

/// Bytes that the kernel counted as written to a device.
fn written_bytes(disk: &Loop) -> u64 {
    let name = disk.device().trim_start_matches("/dev/");
    let stat = fs::read_to_string(format!("/sys/block/{name}/stat")).unwrap();
    let sectors: u64 = stat.split_whitespace().nth(6).unwrap().parse().unwrap();
    sectors * 512
}

#[test]
fn preconditioning_writes_the_blocks_so_many_times() {
    let Some(disk) = Loop::new(64) else { return };
    let work = Workplace::new();
    let before = written_bytes(&disk);
    setup(&work, disk.device(), &["--precondition", "3x"]).exits(0);
    // Two schemas of 16 MiB, three times.
    let written = written_bytes(&disk) - before;
    assert!((96 << 20..110 << 20).contains(&written), "{written}");
    setup(&work, disk.device(), &["--replace", "--precondition", "0x"])
        .exits(2)
        .telling(&["PRECONDITION", "0x"]);
    work.petal(["setup", "--precondition", "2x", "--scale", "16M"])
        .exits(2)
        .telling(&["PRECONDITION", "device:"]);
}

#[test]
fn a_device_is_checked_before_and_after_it_is_loaded() {
    let Some(disk) = Loop::new(64) else { return };
    let work = Workplace::new();
    let name = disk.device().trim_start_matches("/dev/");
    let url = format!("device:{}", disk.device());
    let check = || {
        let ended = work.petal(["check", "--db", &url]).ends();
        assert!([Some(0), Some(1)].contains(&ended.code), "{ended:?}");
        assert!(ended.stdout.contains(name), "{}", ended.stdout);
        ended
    };
    assert!(check().stderr.contains("nothing is loaded yet"));
    setup(&work, disk.device(), &[]).exits(0);
    let loaded = check();
    assert!(loaded.stdout.contains("direct I/O"), "{}", loaded.stdout);
    work.petal(["drop", "--db", &url]).exits(0);
    run("mkfs.ext4", &["-q", "-F", disk.device()]).unwrap();
    work.petal(["check", "--db", &url]).exits(3).telling(&["ext4"]);
}

#[test]
fn the_file_behind_a_loop_device_is_in_use() {
    let Some(disk) = Loop::new(8) else { return };
    let name = disk.device().trim_start_matches("/dev/");
    let backing = format!("/sys/block/{name}/loop/backing_file");
    let backing = fs::read_to_string(backing).unwrap();
    let work = Workplace::new();
    let path = backing.trim();
    setup(&work, path, &["--destroy-data", path]).exits(3).telling(&["it is behind", name]);
}

#[test]
fn a_device_that_is_too_small_is_reported() {
    let Some(disk) = Loop::new(16) else { return };
    let work = Workplace::new();
    setup(&work, disk.device(), &[]).exits(3).telling(&["the load needs", "load less"]);
    assert!(disk.bytes().iter().all(|byte| *byte == 0));
}

#[test]
fn without_io_uring_plain_calls_work_and_the_record_says_so() {
    let work = Workplace::new();
    let path = work.path("petal.dat").display().to_string();
    let url = format!("device:{path}");
    setup(&work, &path, &[]).without_uring().exits(0);
    let means = |run: &serde_json::Value| {
        let settings = run["details"]["target"]["settings"].to_string();
        let all = if settings == "null" { run.to_string() } else { settings };
        (all.contains("io_uring, "), all.contains("io_uring is refused: Operation not permitted"))
    };
    for (depth, forbidden) in [("1", true), ("8", true), ("8", false)] {
        let args = ["run", "--work-loop", "30", "--update-pct", "30", "--io-depth", depth];
        let run = work.petal([&args[..], &["--db", &url]].concat());
        let run = if forbidden { run.without_uring() } else { run };
        run.exits(0);
        let folder = work.runs().pop().unwrap();
        assert_eq!(means(&record(&folder)), (!forbidden, forbidden), "{depth}");
    }
    // A ring that may be made and not used is none.
    let args = ["run", "--work-loop", "30", "--update-pct", "30", "--db", &url];
    work.petal(args).without(libc::SYS_io_uring_enter).exits(0);
    assert_eq!(means(&record(&work.runs().pop().unwrap())), (false, true));
    let insisting = format!("{url}?io=uring");
    let run = work.petal(["run", "--work-loop", "1", "--db", &insisting]).without_uring();
    run.exits(3).telling(&["io_uring", "not permitted"]);
}

#[test]
fn a_killed_run_leaves_whole_blocks() {
    let work = Workplace::new();
    let path = work.path("petal.dat").display().to_string();
    let url = format!("device:{path}");
    setup(&work, &path, &[]).exits(0);
    let args = ["run", "-t", "4", "--update-pct", "100", "--run-time", "60", "--db", &url];
    let mut running = work.petal(args).start();
    running.until("a second of a run", || !work.seconds().is_empty());
    running.kill();
    // Every block is of one version, older or newer, by its checksum.
    let args = ["run", "--work-loop", "64", "--update-pct", "0", "--verify", "checksum"];
    let run = work.petal([&args[..], &["--scan-pct", "10", "--json", "--db", &url]].concat());
    let run = run.exits(0).json();
    assert_eq!(run["errors"], serde_json::json!({}));
}

#[test]
fn a_file_system_can_be_unmounted_as_soon_as_petal_has_ended() {
    for _ in 0..4 {
        let Some(place) = Mount::tmpfs("size=256m") else { return };
        let work = Workplace::new();
        let path = place.text("petal.dat");
        let url = format!("device:{path}?io=uring");
        setup(&work, &path, &[]).exits(0);
        let args = ["run", "-t", "4", "--work-loop", "40", "--update-pct", "50", "--io-depth", "8"];
        let ended = work.petal([&args[..], &["--db", &url]].concat()).exits(0);
        run("umount", &[&place.text("")]).unwrap();
        // Memory keeps nothing, whatever is synced.
        assert!(ended.stdout.contains("not-durable"), "{}", ended.stdout);
        assert!(ended.stdout.contains("(tmpfs) that is memory"), "{}", ended.stdout);
    }
}

#[test]
fn the_cost_of_checksums_is_reported_and_only_where_it_was_paid() {
    let work = Workplace::new();
    let path = work.path("petal.dat").display().to_string();
    let url = format!("device:{path}");
    setup(&work, &path, &[]).exits(0);
    for (verify, is_told) in [("checksum", true), ("header", false)] {
        let args = ["run", "--work-loop", "50", "--update-pct", "20", "--scan-pct", "10"];
        let args = [&args[..], &["--verify", verify, "--db", &url]].concat();
        let ended = work.petal(args).watching().exits(0);
        assert_eq!(ended.stdout.contains("us a block: VERIFY=checksum"), is_told, "{verify}");
        let kept = record(&work.runs().pop().unwrap());
        let counter = |name: &str| count(&kept, &format!("/counters/{name}"));
        assert_eq!(counter("verify_ns") > 0, is_told, "{verify}");
        // Each block that was read was verified; those still to be written were not read.
        let read = count(&kept, "/details/io/physical_read_blocks");
        assert_eq!(counter("blocks_verified"), if is_told { read } else { 0 }, "{verify}");
    }
}

#[test]
fn many_sessions_on_a_small_log_wait_for_their_place() {
    let work = Workplace::new();
    let path = work.path("petal.dat").display().to_string();
    let url = format!("device:{path}?log=1M");
    // Few of the sessions' keys overlap, so that most of them log at once.
    let args = ["setup", "-s", "1", "--scale", "64M", "--db", &url];
    work.petal(args).exits(0);
    // Of sixteen records of 320 KiB three fit into one round of the log.
    let args =
        ["run", "-t", "16", "--work-loop", "12", "--work-unit", "128", "--update-pct", "100"];
    let more = ["--redo-stress", "heavy", "--verify", "checksum", "--json", "--db", &url];
    let args = [&args[..], &more].concat();
    let run = work.petal(args).exits(0).json();
    assert_eq!(count(&run, "/ops/update"), 16 * 12);
    assert_eq!(run["errors"], serde_json::json!({}));
    let waits = run["waits"].to_string();
    assert!(waits.contains("log wait"), "{waits}");
    // Who does not watch the host knows nothing of its dirty pages.
    let settle = &run["settle"];
    for when in ["dirty_bytes_before", "dirty_bytes_after"] {
        assert!(settle.get(when).is_some_and(|bytes| bytes.is_null()), "{settle}");
    }
}
