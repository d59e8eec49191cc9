//! The write ledger on a device that nobody else uses: the layers explain its bytes, and a setting of
//! the database changes its own row.

use std::io::{Write as _, stderr};
use std::path::Path;

use serde_json::Value;

use crate::support::{Mount, Workplace, number, record, skip};
use crate::{server_mysql, server_postgres};

/// The share of the device's bytes that may be unexplained.
const UNEXPLAINED_SHARE_MAX: f64 = 0.02;

/// Dirty pages that the kernel may keep for half a minute.
const LEFT_BYTES: usize = 26 << 20;

/// Loads, runs UPDATEs and returns the record; None if the kernel's writes cannot be seen: a skip. A run
/// whose counters were not all answered on a busy host is repeated.
fn run_at(url: &str, scale: &str) -> Option<(Workplace, Value)> {
    run_after(url, scale, &|| {}, &[])
}

/// Loads, lets other work be done, runs UPDATEs with more arguments, and returns the record, as
/// [`run_at`] does.
fn run_after(
    url: &str,
    scale: &str,
    work_before: &dyn Fn(),
    more: &[&str],
) -> Option<(Workplace, Value)> {
    let work = Workplace::new();
    work.petal(["setup", "--scale", scale, "--db", url]).exits(0);
    let measured = || {
        let run = ["run", "--json", "--update-pct", "100", "--work-unit", "4", "--run-time", "8"];
        work_before();
        work.petal(run.iter().chain(&["--db", url]).chain(more)).watching().exits(0);
        record(work.runs().last().unwrap())
    };
    let mut run = measured();
    if run["write_ledger"]["unexplained_share"].is_null() {
        let (written, findings) = (&run["details"]["written"], &run["findings"]);
        let _ = writeln!(stderr(), "not explained: {written}\n{findings:#}");
        run = measured();
    }
    let written = &run["details"]["written"];
    match written["origins_unseen"].as_str() {
        None => Some((work, run)),
        Some(why) => {
            skip(&format!("the kernel's writes cannot be seen: {why}"));
            None
        }
    }
}

/// The bytes of a row; None if it is not there or unknown.
fn bytes(run: &Value, row: &str) -> Option<f64> {
    let rows = run["write_ledger"]["rows"].as_array().unwrap();
    rows.iter().find(|one| one["written"] == row)?["bytes"].as_f64()
}

/// All is explained, and the first rows are those of these UPDATEs.
#[track_caller]
fn assert_explained(run: &Value) {
    let ledger = &run["write_ledger"];
    let share = ledger["unexplained_share"].as_f64();
    let share = share.unwrap_or_else(|| panic!("{ledger:#}\n{}", run["details"]["written"]));
    assert!(share.abs() <= UNEXPLAINED_SHARE_MAX, "{share}: {ledger:#}");
    let changed = number(run, "/rows/update") * number(&run["details"], "/written/row_bytes");
    assert_eq!(bytes(run, "changed columns"), Some(changed));
    assert!(number(ledger, "/amplification") > 1.0, "{ledger:#}");
    assert!(bytes(run, "file system").unwrap() > 0.0, "{ledger:#}");
}

fn folder(mount: &Mount) -> &Path {
    Box::leak(mount.path("").into_boxed_path())
}

#[test]
fn every_byte_of_sqlite_is_explained_and_an_unsynced_log_is_merged() {
    let Some(disk) = Mount::ext4_on_disk(512) else { return };
    let Some((work, run)) = run_at(&disk.url("data"), "32M") else { return };
    assert_explained(&run);
    assert_eq!(bytes(&run, "merged in the page cache"), None, "synced log, direct data");
    assert!(bytes(&run, "log, up to whole blocks").unwrap() > 0.0);
    let report = std::fs::read_to_string(work.runs().pop().unwrap().join("report.txt")).unwrap();
    assert!(report.contains("WRITE LEDGER") && report.contains("write amplification"), "{report}");
    let page = std::fs::read_to_string(work.runs().pop().unwrap().join("report.html")).unwrap();
    assert!(page.contains("Write ledger"));
    let url = format!("{}?synchronous=OFF", disk.url("unsynced"));
    // Unlimited, it may fill the disk while a checkpoint is copied.
    let slow = ["--rate", "1000"];
    let Some((_work, run)) = run_after(&url, "32M", &|| {}, &slow) else { return };
    assert_eq!(bytes(&run, "log, up to whole blocks"), Some(0.0));
    assert!(bytes(&run, "merged in the page cache").unwrap_or(0.0) <= 0.0);
}

#[test]
fn every_byte_of_postgres_is_explained_and_images_can_be_off() {
    if !server_postgres::is_there() {
        return;
    }
    let Some(disk) = Mount::ext4_on_disk(2048) else { return };
    let settings = ["shared_buffers=32MB", "max_wal_size=1GB"];
    let server_with = |more: &str| {
        let settings = [settings.as_slice(), &[more]].concat();
        let server = server_postgres::Server::start_below(folder(&disk), &settings);
        server.database("ledger");
        server
    };
    let server = server_with("full_page_writes=on");
    let Some((_work, run)) = run_at(&server.url("ledger"), "64M") else { return };
    assert_explained(&run);
    assert!(number(&run, "/counters/block_images_logged") > 0.0);
    drop(server);
    let server = server_with("full_page_writes=off");
    let data = server.answers("ledger", &["SHOW data_directory"]).concat();
    // Dirty pages from before the run are in no count of the server's. As the only ones of the host
    // they are too few for petal to wait for others.
    let leave_dirty_pages = || {
        rustix::fs::sync();
        std::fs::write(Path::new(&data).join("left"), vec![1; LEFT_BYTES]).unwrap();
    };
    // So slow that the page cache merges little, which would make up for them.
    let slow = ["--rate", "400"];
    let url = server.url("ledger");
    let Some((_work, run)) = run_after(&url, "64M", &leave_dirty_pages, &slow) else { return };
    assert_explained(&run);
    assert_eq!(bytes(&run, "full-page images"), Some(0.0));
}

#[test]
fn every_byte_of_mariadb_is_explained_and_doublewrite_can_be_off() {
    if !server_mysql::is_there() {
        return;
    }
    let Some(disk) = Mount::ext4_on_disk(2048) else { return };
    let run_with = |more: &str| {
        let settings = ["innodb-buffer-pool-size=32M", "innodb-flush-method=O_DIRECT", more];
        let server = server_mysql::Server::start_below(folder(&disk), &settings);
        server.database("ledger");
        run_at(&server.url("ledger"), "64M")
    };
    let Some((_work, run)) = run_with("innodb-doublewrite=ON") else { return };
    assert_explained(&run);
    let (pages, double) = (bytes(&run, "data pages"), bytes(&run, "doublewrite"));
    assert!(double.unwrap() > pages.unwrap() * 0.5, "{double:?} of {pages:?}");
    let Some((_work, run)) = run_with("innodb-doublewrite=OFF") else { return };
    assert_explained(&run);
    assert_eq!(bytes(&run, "doublewrite"), Some(0.0));
}
