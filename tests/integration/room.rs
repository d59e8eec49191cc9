//! A server that others use, on a file system that is nearly full: petal's loads and runs leave
//! room for its log, so that a canary that writes there goes on writing. `PETAL_TEST_LONG=1` also
//! loads the most that petal takes, and updates it.

use std::fs::{self, File};
use std::path::Path;

use crate::server_mysql;
use crate::server_postgres::{Server, is_there};
use crate::support::{Mount, Workplace, is_long};

/// petal's reserve for others.
const RESERVE_MIB: u64 = 256;

fn free_mib(folder: &Path) -> u64 {
    let room = rustix::fs::statvfs(folder).unwrap();
    (room.f_bavail * room.f_frsize) >> 20
}

#[test]
fn a_load_or_a_run_leaves_room_for_the_log_of_a_shared_server() {
    if !is_there() {
        return;
    }
    let Some(disk) = Mount::tmpfs("size=800m,mode=777") else { return };
    let settings = ["max_wal_size=64MB", "shared_buffers=16MB"];
    let server = Server::start_below(&disk.path(""), &settings);
    let url = server.url("shared");
    let mut canary = server.client("shared");
    canary.batch_execute("CREATE TABLE canary (sung text)").unwrap();
    let song = "INSERT INTO canary SELECT repeat('x', 1000) FROM generate_series(1, 1000)";
    let mut sing = || assert_eq!(canary.execute(song, &[]).unwrap(), 1000);
    leaves_room(&disk, &url, 64, &["(max_wal_size)"], &mut sing);
}

#[test]
fn a_load_or_a_run_leaves_room_for_the_log_of_a_shared_server_of_mysql() {
    if !server_mysql::is_there() {
        return;
    }
    let Some(disk) = Mount::tmpfs("size=1000m,mode=777") else { return };
    let settings = ["innodb-log-file-size=64M", "innodb-buffer-pool-size=64M"];
    let server = server_mysql::Server::start_below(&disk.path(""), &settings);
    let url = server.url("shared");
    server.sql("shared", "CREATE TABLE canary (sung TEXT)");
    let song = "INSERT INTO canary SELECT REPEAT('x', 1000) FROM seq_1_to_1000; SELECT ROW_COUNT()";
    let mut sing = || assert_eq!(server.sql("shared", song), [["1000"]]);
    leaves_room(&disk, &url, 0, &[], &mut sing);
}

/// Loads and runs on a server's file system, whose log may still take so many MiB; `sing` writes there
/// for another user of the server.
fn leaves_room(disk: &Mount, url: &str, log_mib: u64, words: &[&str], sing: &mut dyn FnMut()) {
    let work = Workplace::new();
    let setup = |mib: u64| {
        let scale = format!("{mib}M");
        work.petal(["setup", "--db", url, "--scale", &scale, "--scan-table-sz", "0", "--replace"])
    };
    let free = free_mib(&disk.path(""));
    for percent in [90, 95, 98, 100] {
        let refused = setup(free * percent / 100).exits(3);
        refused
            .telling(&["the load needs", "for data", "in reserve", "are free in"])
            .telling(words);
        sing();
    }
    setup(16).exits(0);
    let run = |percent: &str, code| {
        let args = ["run", "--db", url, "--work-loop", "40", "--update-pct", percent];
        work.petal(args).exits(code)
    };
    run("50", 0);
    if is_long() {
        setup(free_mib(&disk.path("")) - log_mib - RESERVE_MIB - 32).exits(0);
        sing();
        run("100", 0);
        setup(16).exits(0);
    }
    // Others fill it.
    let others = File::create(disk.path("others")).unwrap();
    let taken = (free_mib(&disk.path("")) - 200) << 20;
    rustix::fs::fallocate(&others, rustix::fs::FallocateFlags::empty(), 0, taken).unwrap();
    run("50", 3).telling(&["a run with UPDATEs needs", "in reserve", "are free in"]);
    run("0", 0);
    let checked = work.petal(["check", "--db", url]).exits(1).stdout;
    let line = checked.lines().find(|line| line.contains("room for the log")).unwrap();
    assert!(line.contains("a run with UPDATEs needs"), "{checked}");
    sing();
    fs::remove_file(disk.path("others")).unwrap();
}
