//! Tests that cut the power of a virtual machine. They count petal's reported losses again, from
//! the ledger and the rows on the disk of each cut.
//!
//! `make test` makes a handful of cuts if KVM runs a stock kernel. Elsewhere, in about ten minutes:
//! `sh scripts/powercut-guest.sh target/petal-guest &&
//! cargo build && PETAL_TEST_POWERCUT=tcg cargo test -p petal-powercut --test cuts`

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::disallowed_methods)]

use std::collections::HashMap;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

const TOOL: &str = env!("CARGO_BIN_EXE_petal-powercut");

/// Reports why a test is skipped, past the test harness's capture.
fn skip(why: &str) {
    let _ = writeln!(std::io::stderr(), "SKIPPED: {why}");
    let require = std::env::var("PETAL_TEST_REQUIRE").unwrap_or_default();
    assert_ne!(require, "all", "PETAL_TEST_REQUIRE=all, but: {why}");
}

fn count(value: &Value, pointer: &str) -> u64 {
    value.pointer(pointer).and_then(Value::as_u64).unwrap_or_else(|| panic!("no {pointer}"))
}

/// Checks the tool's exit code, and returns its stderr.
fn exited(ended: &Output, code: i32) -> String {
    let said = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert_eq!(ended.status.code(), Some(code), "{said}");
    said
}

/// A commit of a ledger: session, sequence, begin, end, and keys.
struct Commit(u32, u64, u64, u64, std::ops::Range<u64>);

/// Reads the run's mask of stamps, and its commits.
fn ledger(path: &Path) -> (u64, Vec<Commit>) {
    let bytes = fs::read(path).unwrap();
    let number = |at: usize, length: usize| {
        bytes[at..at + length].iter().rev().fold(0u64, |all, &byte| all << 8 | u64::from(byte))
    };
    let header_end = 16 + number(8, 4) as usize;
    let header: Value = serde_json::from_slice(&bytes[16..header_end]).unwrap();
    let (mut at, mut all) = (header_end, Vec::new());
    while at + 48 <= bytes.len() {
        let (session, records) = (number(at + 4, 4), number(at + 16, 4) as usize);
        at += 48;
        if at + 36 * records > bytes.len() {
            break;
        }
        for record in (at..).step_by(36).take(records) {
            let first = number(record + 24, 8);
            let keys = first..first + number(record + 32, 2);
            let [sequence, begin, end] = [0, 8, 16].map(|field| number(record + field, 8));
            all.push(Commit(session as u32, sequence, begin, end, keys));
        }
        at += 36 * records;
    }
    (count(&header, "/stamp_mask"), all)
}

/// Counts the commits with a row whose content certainly precedes them.
fn lost(path: &Path, rows: &HashMap<u64, String>) -> u64 {
    let (mask, commits) = ledger(path);
    let is_lost_by = |commit: &Commit, key: u64| {
        let Some(stamp) = rows.get(&key) else { return true };
        let stamp = u64::from_str_radix(&stamp.to_uppercase(), 36).unwrap();
        if stamp >> 63 == 1 {
            // The row is as the load wrote it.
            return true;
        }
        let (session, sequence) = (((stamp ^ mask) >> 40) as u32, (stamp ^ mask) & ((1 << 40) - 1));
        if session == commit.0 {
            return sequence < commit.1;
        }
        let later = commits.iter().filter(|other| other.0 == session && other.1 >= sequence);
        later.map(|other| other.3).min().is_some_and(|over| over < commit.2)
    };
    let is_lost = |commit: &&Commit| commit.4.clone().any(|key| is_lost_by(commit, key));
    commits.iter().filter(is_lost).count() as u64
}

/// Number of rows that the guest loads.
const ROWS: usize = 1024;

/// Reads the first 13 bytes of each row's first column from a folder of the disk, without petal.
fn sqlite_rows(disk: &Path) -> HashMap<u64, String> {
    let connection = rusqlite::Connection::open(disk.join("petal/petal1.db")).unwrap();
    let mut rows = connection.prepare("SELECT custid, substr(c2, 1, 13) FROM cf1").unwrap();
    let read = rows.query_map([], |row| Ok((row.get::<_, i64>(0)? as u64, row.get(1)?))).unwrap();
    read.map(Result::unwrap).collect()
}

/// Returns the server's program of the newest installed version.
fn postgres() -> Option<PathBuf> {
    let versions = fs::read_dir("/usr/lib/postgresql").ok()?;
    let programs = versions.map(|version| version.unwrap().path().join("bin/postgres"));
    programs.filter(|program| program.exists()).max()
}

fn postgres_rows(disk: &Path) -> HashMap<u64, String> {
    let out = disk.join("data/rows.txt");
    let accounts = fs::read_to_string("/etc/passwd").unwrap();
    let account = accounts.lines().find(|line| line.starts_with("postgres:")).unwrap();
    let number = |at| account.split(':').nth(at).unwrap().parse().unwrap();
    let (user, group) = (number(2), number(3));
    let own = format!("{user}:{group}");
    assert!(Command::new("chown").args(["-R", &own]).arg(disk).status().unwrap().success());
    let mut server = Command::new(postgres().unwrap());
    server.args(["--single", "-D"]).arg(disk.join("data")).arg("postgres");
    server.current_dir(disk).uid(user).gid(group).stdin(Stdio::piped()).stdout(Stdio::null());
    let mut server = server.spawn().unwrap();
    let select = "SELECT custid, left(c2, 13) FROM petal1.cf1";
    writeln!(server.stdin.take().unwrap(), "COPY ({select}) TO '{}'", out.display()).unwrap();
    let ended = server.wait().unwrap();
    let text = fs::read_to_string(out).unwrap();
    let rows = text.lines().map(|line| line.split_once('\t').unwrap());
    let rows: HashMap<u64, String> =
        rows.map(|(key, stamp)| (key.parse().unwrap(), stamp.to_owned())).collect();
    // Blocks newer than the log, on a disk that lost writes, can be read but not be written again.
    assert!(ended.success() || rows.len() == ROWS, "{ended}: {} rows", rows.len());
    rows
}

/// Copies the files out of a disk's image.
fn unpacked(image: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().display();
    assert!(Command::new("chmod").args(["755", &path.to_string()]).status().unwrap().success());
    let dump = Command::new("debugfs").args(["-R", &format!("rdump / {path}"), image]).output();
    assert!(dump.unwrap().status.success());
    folder
}

/// Chooses the accelerator, or `None` to skip the test.
fn accelerator() -> Option<&'static str> {
    if std::env::var("PETAL_TEST_POWERCUT").is_ok_and(|way| way == "tcg") {
        return Some("tcg");
    }
    let flags = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let can = flags.split_ascii_whitespace().any(|flag| flag == "vmx" || flag == "svm");
    let device = fs::OpenOptions::new().read(true).write(true).open("/dev/kvm");
    if can && device.is_ok() {
        return Some("kvm");
    }
    skip_without_kvm("no processor here for KVM");
    None
}

/// Skips for lack of KVM, the only skip that PETAL_TEST_REQUIRE=all allows.
fn skip_without_kvm(why: &str) {
    let instead = "emulation takes ten minutes: PETAL_TEST_POWERCUT=tcg";
    let _ = writeln!(std::io::stderr(), "SKIPPED: {why}, and {instead}");
}

fn guest() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/petal-guest")
}

/// Makes cuts and counts again; `rows` reads a table from the files of a disk.
fn cut(engine: &str, rows: fn(&Path) -> HashMap<u64, String>) {
    let Some(accelerator) = accelerator() else { return };
    if !guest().join("boot").exists() {
        return skip("no kernel for a guest: sh scripts/powercut-guest.sh target/petal-guest");
    }
    if !Path::new(TOOL).with_file_name("petal").exists() {
        return skip("petal is not built: cargo build");
    }
    let work = tempfile::tempdir().unwrap();
    let guest = guest().display().to_string();
    let asked = [engine, "--cuts", "2", "--controls", "1", "--within", "3"];
    let how = ["--accel", accelerator, "--guest", &guest, "--keep", "kept", "--json"];
    let mut tool = Command::new(TOOL);
    let ended = tool.args(asked).args(how).current_dir(work.path()).output().unwrap();
    let said = String::from_utf8_lossy(&ended.stderr);
    // In some virtual machines KVM is there, but a stock kernel hangs in it.
    if accelerator == "kvm" && ended.status.code() == Some(3) && said.contains("did nothing more") {
        return skip_without_kvm("KVM does not run the guest here");
    }
    exited(&ended, 0);
    let found: Value = serde_json::from_slice(&ended.stdout).unwrap();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/petal-powercut.schema.json");
    let schema = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
    let schema = jsonschema::draft202012::new(&schema).unwrap();
    let errors: Vec<String> = schema.iter_errors(&found).map(|error| error.to_string()).collect();
    assert!(errors.is_empty(), "{errors:#?}");

    let trials = found["trials"].as_array().unwrap();
    assert_eq!(
        (count(&trials[0], "/lost_commits"), trials[0]["cuts"].as_array().unwrap().len()),
        (0, 2)
    );
    let mut counted = 0;
    for trial in trials {
        for cut in trial["cuts"].as_array().unwrap() {
            assert!(count(cut, "/acknowledged_commits") > 10, "{cut}");
            if !cut["unreadable"].is_null() || count(cut, "/bad_rows") > 0 {
                continue;
            }
            let kept = work.path().join(cut["kept"].as_str().unwrap()).display().to_string();
            let disk = unpacked(&format!("{kept}.img"));
            let ledger = PathBuf::from(format!("{kept}.ledger"));
            assert_eq!(count(cut, "/lost_commits"), lost(&ledger, &rows(disk.path())), "{cut}");
            counted += count(cut, "/lost_commits");
        }
    }
    assert!(counted > 0, "no control lost a commit: {found}");
}

#[test]
fn cuts_of_sqlite_lose_what_is_counted_again() {
    cut("sqlite", sqlite_rows);
}

#[test]
fn cuts_of_postgres_lose_what_is_counted_again() {
    match postgres() {
        Some(_) => cut("postgres", postgres_rows),
        None => skip("no PostgreSQL server is installed: scripts/install-test-servers.sh does it"),
    }
}

#[test]
fn missing_parts_for_a_cut_are_named() {
    let work = tempfile::tempdir().unwrap();
    let tools = work.path().join("tools");
    fs::create_dir(&tools).unwrap();
    let call = |args: &[&str], code| {
        let mut tool = Command::new(TOOL);
        exited(&tool.args(args).current_dir(&work).env("PATH", &tools).output().unwrap(), code)
    };
    let said = call(&["--guest", "nothing"], 3);
    assert!(said.contains("qemu-system-x86_64 is not installed"), "{said}");
    for program in ["qemu-system-x86_64", "mkfs.ext4"] {
        let path = tools.join(program);
        fs::write(&path, "#!/bin/sh\nexit 1\n").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let said = call(&["--guest", "nothing"], 3);
    assert!(said.contains("no kernel with its modules for the guest in nothing"), "{said}");
    assert!(call(&["--set", "fsync=off; reboot"], 2).contains("NAME=VALUE"));
    // A folder with files in it is left as it is.
    fs::write(tools.join("own.txt"), "mine").unwrap();
    let said = call(&["--keep", "tools"], 3);
    assert!(said.contains("not empty"), "{said}");
}
