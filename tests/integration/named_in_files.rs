//! Strings in files that others may have written, each replaced by a URL and a path that nobody may
//! touch: petal reads such files, and connects to nothing and opens nothing that they name.
//! `PETAL_TEST_LONG=1` replaces every string; a short form takes some of them.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::engine_postgres::load;
use crate::server_postgres;
use crate::support::{PETAL, Workplace, skip};

/// An address that no other test uses, and a path that is nowhere.
const CANARY: &str = "postgres://canary@127.0.0.77:7777/canary?password=@/canary/secret";
const ADDRESS: &str = "127.0.0.77";
const SHORT_FORM: usize = 12;

/// Pointers to every string of a value, one of each kind.
fn strings(value: &Value, at: &str, found: &mut Vec<String>) {
    match value {
        Value::String(_) => found.push(at.to_owned()),
        Value::Array(items) => {
            if let Some(first) = items.first() {
                strings(first, &format!("{at}/0"), found);
            }
        }
        Value::Object(members) => {
            for (name, member) in members {
                let name = name.replace('~', "~0").replace('/', "~1");
                strings(member, &format!("{at}/{name}"), found);
            }
        }
        _ => {}
    }
}

/// Runs petal and fails if it opened or connected to the canary.
fn watch(work: &Workplace, args: &[&str], canary: &str) {
    let traced = work.path("traced");
    let status = Command::new("strace")
        .args(["-f", "-qq", "-s", "200", "-e", "trace=%file,connect,execve,bind", "-o"])
        .arg(&traced)
        .arg(PETAL)
        .args(args)
        .current_dir(work.path(""))
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .env("NO_OS_PERF_DATA", "TRUE")
        .output()
        .unwrap();
    assert!(status.status.code().is_some_and(|code| code < 100), "{args:?}: {status:?}");
    let trace = fs::read_to_string(&traced).unwrap();
    let touched = |line: &&str| {
        let (call, what) = line.split_once('(').unwrap_or((line, ""));
        // The program's own start has its arguments.
        !call.ends_with("execve") && (what.contains(canary) || what.contains(ADDRESS))
    };
    let lines: Vec<&str> = trace.lines().filter(touched).collect();
    assert!(lines.is_empty(), "{args:?}: {lines:#?}");
}

/// The file of these pointers with the canary in each place in turn.
fn try_all(work: &Workplace, file: &Path, calls: &[&[&str]]) {
    let whole: Value = serde_json::from_slice(&fs::read(file).unwrap()).unwrap();
    let mut pointers = Vec::new();
    strings(&whole, "", &mut pointers);
    let is_long = std::env::var_os("PETAL_TEST_LONG").is_some();
    let step = if is_long { 1 } else { pointers.len().div_ceil(SHORT_FORM).max(1) };
    // What names a target, a path or a command is always among them.
    let is_telling = |pointer: &String| {
        ["url", "db", "path", "folder", "script", "target"]
            .iter()
            .any(|word| pointer.contains(word))
    };
    let chosen =
        pointers.iter().enumerate().filter(|(at, pointer)| at % step == 0 || is_telling(pointer));
    for (_, pointer) in chosen {
        let mut changed = whole.clone();
        *changed.pointer_mut(pointer).unwrap() = Value::String(CANARY.to_owned());
        fs::write(file, serde_json::to_vec(&changed).unwrap()).unwrap();
        calls.iter().for_each(|call| watch(work, call, "canary"));
    }
    fs::write(file, serde_json::to_vec(&whole).unwrap()).unwrap();
}

#[test]
fn nothing_that_a_file_names_is_connected_to_or_opened() {
    if Command::new("strace").arg("-V").output().is_err() {
        skip("no strace");
        return;
    }
    let work = Workplace::loaded(1, "8M");
    let sweep = ["sweep", "--sessions", "1,2", "--work-loop", "5", "--out", "swept"];
    work.petal(sweep).exits(0);
    let timed = ["run", "--run-time", "3", "--update-pct", "50"];
    work.petal(timed).exits(0);
    let run = work.run_folder();
    let run = run.to_str().unwrap();
    work.petal(["profile", run, "--every", "1", "-o", "profile.json"]).exits(0);
    try_all(
        &work,
        &work.path(run).join("run.json"),
        &[&["report", run], &["history", "petal-results"]],
    );
    try_all(&work, &work.path("swept/sweep.json"), &[&["report", "swept"], &sweep]);
    try_all(&work, &work.path("profile.json"), &[&["replay", "profile.json", "--dry-run"]]);
    a_ledgers_server_is_left_alone(&work);
}

/// A ledger names a server that answers: without the caller's word nobody connects to it.
fn a_ledgers_server_is_left_alone(work: &Workplace) {
    if !server_postgres::is_there() {
        return;
    }
    let url = server_postgres::shared().url("named");
    load(&url, 1);
    let ledger = ["run", "--work-loop", "5", "--update-pct", "50", "--ledger", "far.ledger"];
    work.petal([&ledger[..], &["--db", &url]].concat()).exits(0);
    let socket = url.split_once("host=").unwrap().1.split('&').next().unwrap();
    watch(work, &["verify", "far.ledger"], socket);
}
