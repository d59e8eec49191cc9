//! What petal says of physical I/O, against the kernel's own counts of a device that nobody else
//! uses: an ext4 on a loop device.

use std::fs;
use std::process::Command;

use serde_json::Value;

use crate::support::{
    self, ALONE, ControlGroup, Mount, Workplace, findings, number, record, skip, until,
};
use crate::{server_mysql, server_postgres};

/// A run with direct I/O on a disk of its own.
fn run_on(disk: &Mount, more: &[&str]) -> Value {
    let work = Workplace::new();
    let url = disk.url("data");
    work.petal(["setup", "-s", "2", "--scale", "64M", "--db", &url]).exits(0);
    let args = ["run", "-t", "2", "--json", "--db", &url];
    work.petal([&args[..], more].concat()).watching().exits(0).json()
}

fn rows(run: &Value) -> f64 {
    number(run, "/per_second/rows")
}

fn ratio(run: &Value, over: &str, under: &str) -> f64 {
    number(run, &format!("/per_second/{over}")) / number(run, &format!("/per_second/{under}"))
}

#[test]
fn a_row_is_one_block_read_from_the_device() {
    let Some(disk) = Mount::ext4_on_disk(200) else { return };
    assert!(disk.is_on_loop());
    let run = run_on(&disk, &["--update-pct", "0", "--run-time", "4"]);
    let per_row = number(&run, "/per_second/physical_read_blocks") / rows(&run);
    assert!((per_row - 1.0).abs() < 0.02, "{per_row} blocks per row");
    let bytes = ratio(&run, "physical_read_bytes", "physical_read_blocks");
    assert!((bytes - 8192.0).abs() < 1.0, "{bytes} bytes per block");
    let seen = ratio(&run, "device_read_bytes", "physical_read_bytes");
    assert!((seen - 1.0).abs() < 0.02, "the device read {seen} times the database's bytes");
    let is_told = |id: &&str| id.starts_with("cached-by") || *id == "device-unseen";
    assert!(!findings(&run).iter().any(is_told), "{}", run["findings"]);
    assert_eq!(number(&run, "/per_second/physical_write_blocks"), 0.0);
}

#[test]
fn a_control_groups_limit_on_the_device_is_what_limits_the_run() {
    const FILE: &str = "blkio.throttle.read_iops_device";
    let Some(disk) = Mount::ext4_on_disk(120) else { return };
    let name = disk.device().trim_start_matches("/dev/").to_owned();
    let number = fs::read_to_string(format!("/sys/block/{name}/dev")).unwrap();
    let number = number.trim();
    let Some(group) = ControlGroup::with("blkio", FILE, &format!("{number} 500")) else { return };
    let work = Workplace::new();
    let url = disk.url("data");
    work.petal(["setup", "-s", "1", "--scale", "32M", "--db", &url]).exits(0);
    let check = work.petal(["check", "--db", &url]).after(&group.joined()).exits(1);
    let words = ["cgroup I/O limit", "500 reads a second", FILE];
    words.iter().for_each(|word| assert!(check.stdout.contains(word), "{}", check.stdout));
    let args = ["run", "-t", "2", "--update-pct", "0", "--run-time", "4", "--db", &url];
    let report = work.petal(args).watching().after(&group.joined()).exits(0);
    let run = record(&work.run_folder());
    assert!(findings(&run).contains(&"io-limit"), "{run}");
    let limited = report.stdout.split("limited by: ").nth(1).unwrap();
    assert!(limited.starts_with("the control group's limit of 500 reads a second"), "{limited}");
    // Others read far more than that from the device, outside of the group, and the run does not.
    let reads = format!(
        "while dd if={} of=/dev/null bs=4k iflag=direct status=none; do :; done",
        disk.device()
    );
    let mut others = Command::new("timeout").args(["60", "sh", "-c", &reads]).spawn().unwrap();
    let args = ["run", "-t", "2", "--rate", "20", "--arrivals", "even", "--update-pct", "0"];
    let args =
        [&args[..], &["--work-unit", "8", "--run-time", "4", "--json", "--db", &url]].concat();
    let run = work.petal(args).watching().after(&group.joined()).exits(0).json();
    support::run("kill", &[&others.id().to_string()]).unwrap();
    others.wait().unwrap();
    assert_eq!(run["limited_by"]["by"], "rate", "{:#}", run["limited_by"]);
    assert!(!findings(&run).contains(&"io-limit"), "{run}");
}

/// The file of a loop device is in the page cache, or is itself in memory: no drive reads anything.
#[test]
fn a_loop_device_over_memory_is_not_served_by_a_device() {
    let Some(memory) = Mount::tmpfs("size=150m") else { return };
    let Some(disk) = Mount::ext4(150) else { return };
    let Some(in_memory) = Mount::ext4_in(&memory, 120) else { return };
    for (disk, id, words) in
        [(disk, "cached-by-os", "through the page cache"), (in_memory, "device-unseen", "(tmpfs)")]
    {
        let work = Workplace::new();
        let url = disk.url("data");
        work.petal(["setup", "-s", "1", "--scale", "64M", "--db", &url]).exits(0);
        let args = ["run", "-t", "2", "--update-pct", "0", "--run-time", "2", "--db", &url];
        let report = work.petal(args).watching().exits(0);
        let served =
            report.stdout.split("served by: ").nth(1).unwrap().split(" | ").next().unwrap();
        // Others' reads of the same disk may be a few per cent of the loop device's.
        assert!(!served.starts_with("device\n") && !served.starts_with("device 9"), "{served}");
        assert!(served.contains(words), "{served}");
        let run = record(&work.run_folder());
        assert!(findings(&run).contains(&id), "{}", run["findings"]);
    }
}

#[test]
fn data_that_btrfs_compresses_are_served_by_its_page_cache() {
    let Some(disk) = Mount::btrfs_that_compresses(300) else { return };
    let (work, url) = (Workplace::new(), disk.url("data"));
    work.petal(["setup", "-s", "1", "--scale", "64M", "--db", &url]).exits(0);
    let args = ["run", "-t", "2", "--update-pct", "0", "--run-time", "2", "--db", &url];
    let report = work.petal(args).watching().exits(0).stdout;
    let served = report.split("served by: ").nth(1).unwrap().split(" | ").next().unwrap();
    assert!(served.starts_with("page cache "), "{served}");
    assert!(served.contains("btrfs reads compressed data through the page cache"), "{served}");
    let run = record(&work.run_folder());
    assert_eq!(run["details"]["target"]["direct_io"]["used"], true);
    let all = run["findings"].as_array().unwrap();
    let found =
        all.iter().find(|it| it["id"] == "cached-by-os").unwrap_or_else(|| panic!("{all:?}"));
    assert!(found["advice"].as_str().unwrap().contains("compression"), "{found}");
}

#[test]
fn a_page_that_a_server_reads_past_the_page_cache_is_one_read_of_the_device() {
    if !server_mysql::is_there() {
        return;
    }
    let Some(disk) = Mount::ext4_on_disk(700) else { return };
    // Data that are many times its cache.
    let small = ["innodb-buffer-pool-size=16M", "innodb-log-file-size=64M"];
    let server = server_mysql::Server::start_below(&disk.path(""), &small);
    let (work, url) = (Workplace::new(), server.url("data"));
    work.petal(["setup", "-s", "1", "--scale", "192M", "--db", &url]).exits(0);
    let args = ["run", "-t", "2", "--update-pct", "0", "--run-time", "5", "--json", "--db", &url];
    let run = work.petal(args).watching().exits(0).json();
    let seen = ratio(&run, "device_read_bytes", "physical_read_bytes");
    assert!((seen - 1.0).abs() < 0.02, "the device read {seen} times the database's bytes");
    let pages = number(&run, "/per_second/physical_read_blocks") / rows(&run);
    assert!((0.7..2.2).contains(&pages), "{pages} pages per row");
    let is_told = |id: &&str| id.starts_with("cached-by") || *id == "device-unseen";
    assert!(!findings(&run).iter().any(is_told), "{}", run["findings"]);
}

#[test]
fn updates_reach_the_device_as_log_and_as_checkpoints() {
    let Some(disk) = Mount::ext4_on_disk(300) else { return };
    let run = run_on(&disk, &["--update-pct", "50", "--work-loop", "100"]);
    // Log and checkpointed blocks are written; ext4's own journal comes on top.
    let written =
        number(&run, "/per_second/redo_bytes") + number(&run, "/per_second/physical_write_bytes");
    let device = number(&run, "/per_second/device_write_bytes");
    assert!(number(&run, "/per_second/physical_write_blocks") > 0.0);
    assert!(device > written * 0.9 && device < written * 1.6, "{device} of {written}");
    let commits = number(&run, "/per_second/commits");
    assert!(number(&run, "/per_second/log_syncs") >= commits * 0.999);
    assert!(!findings(&run).contains(&"not-durable"), "{}", run["findings"]);
}

#[test]
fn reads_that_the_page_cache_served_are_reported() {
    let Some(disk) = Mount::ext4_on_disk(200) else { return };
    let work = Workplace::new();
    let url = disk.url("data");
    work.petal(["setup", "-s", "2", "--scale", "64M", "--db", &url]).exits(0);
    // Into the page cache.
    for schema in [1, 2] {
        std::fs::read(disk.path(&format!("data/petal{schema}.db"))).unwrap();
    }
    let args = ["run", "--update-pct", "0", "--run-time", "2", "--direct-io", "FALSE", "--json"];
    let run = work.petal([&args[..], &["--db", &url]].concat()).watching().exits(0).json();
    let per_row = number(&run, "/per_second/physical_read_blocks") / rows(&run);
    assert!((per_row - 1.0).abs() < 0.02, "{per_row} blocks per row");
    assert!(ratio(&run, "device_read_bytes", "physical_read_bytes") < 0.05);
    let all = run["findings"].as_array().unwrap();
    let finding = all.iter().find(|finding| finding["id"] == "cached-by-os");
    let finding = finding.unwrap_or_else(|| panic!("{}", run["findings"]));
    assert!(finding["message"].as_str().unwrap().contains("page cache"), "{finding}");
    assert!(finding["advice"].as_str().unwrap().contains("DIRECT_IO"), "{finding}");
}

/// A line of /proc that counts in KiB, in MiB.
fn mebibytes(file: &str, name: &str) -> u64 {
    let text = fs::read_to_string(file).unwrap();
    let line = text.lines().find(|line| line.starts_with(name)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() >> 10
}

/// The process that started this one.
fn parent_of(process: &str) -> String {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("PPid:")).unwrap();
    line.trim().to_owned()
}

#[test]
fn memory_that_leaves_little_to_the_page_cache_is_locked_in_a_run_and_free_after_a_kill() {
    if !server_postgres::is_there() {
        return;
    }
    let available = || mebibytes("/proc/meminfo", "MemAvailable:");
    if !rustix::process::geteuid().is_root() || available() < 4096 {
        return skip("only root may lock so much memory, and of four GiB at least");
    }
    let _alone = ALONE.lock();
    let work = Workplace::new();
    let server = server_postgres::shared();
    server.database("limited");
    let url = server.url("limited");
    work.petal(["setup", "--scale", "8M", "--db", &url]).exits(0);
    let run = |limit: &str| {
        let args = ["run", "--run-time", "100", "--update-pct", "0", "--db", &url];
        work.petal([&args[..], &["--page-cache-limit", limit]].concat())
    };
    run("511M").exits(2).telling(&["PAGE_CACHE_LIMIT", "give at least 512 MiB"]);
    // Others have their own programs in memory, at least.
    let refused = ["would be locked", "of programs' files", "give at least", "petal-server"];
    run("512M").exits(3).telling(&refused);
    assert!(work.runs().is_empty());
    if let Some(group) = ControlGroup::with("memory", "memory.limit_in_bytes", "64G") {
        let process = server.answers("limited", &["SELECT pg_backend_pid()"]);
        let parent = parent_of(&process[0]);
        group.set("cgroup.procs", &parent);
        let args = ["run", "--run-time", "1", "--db", &url, "--page-cache-limit", "65G"];
        work.petal(args).exits(0).telling(&["server's control group leaves", "locks nothing"]);
        // Such a limit holds all of these data: more of them come first.
        let command = format!("> {}", group.file("memory.limit_in_bytes").display());
        let checked = work.petal(["check", "--full", "--db", &url]).ends().stdout;
        let checked = checked.split_whitespace().collect::<Vec<_>>().join(" ");
        let (setup, limit) = ("petal setup --replace -s 1 --scale 8G --db ", command.as_str());
        let places = checked.find(setup).zip(checked.find(limit));
        assert!(places.is_some_and(|(setup, limit)| setup < limit), "{checked}");
        // Data are compared with the memory of the server's group, not of the host or of petal.
        group.set("memory.limit_in_bytes", "2G");
        let checked = work.petal(["check", "--full", "--db", &url]).ends().stdout;
        let checked = checked.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(checked.contains("of which the control group allows 2.00 GiB"), "{checked}");
        // Its processes leave it before it is removed.
        fs::write("/sys/fs/cgroup/memory/cgroup.procs", &parent).unwrap();
        fs::remove_dir_all(work.path("petal-results")).unwrap();
    }
    // Two GiB less than there is, of which others on this host may take most meanwhile.
    let left = available() - 2048;
    let mut running = run(&format!("{left}M")).start();
    running.until("a second of a run", || !work.seconds().is_empty());
    let said = running.said();
    assert!(said.contains("of this host's memory until the run ends"), "{said}");
    let locked = mebibytes(&format!("/proc/{}/status", running.id()), "VmLck:");
    assert!(locked > 128, "{locked} MiB are locked");
    // What is available changes with whatever else goes on here; what is locked does not.
    let all_locked = || mebibytes("/proc/meminfo", "Mlocked:");
    let before = all_locked();
    assert!(before >= locked, "{before} MiB are locked on this host");
    running.kill();
    until("its memory is free again", || all_locked() + locked / 2 <= before);
}
