//! Strings in files that others may have written, each replaced by a URL and a path that nobody may
//! touch: petal reads such files, and connects to nothing and opens nothing that they name.
//! `PETAL_TEST_LONG=1` replaces every string; a short form takes some of them.

use std::fs;
use std::process::Command;

use serde_json::Value;

use crate::engine_postgres::load;
use crate::read_files::{
    Form, ReadFile, ledger_header, pointers, some, with_header, words, written,
};
use crate::server_postgres;
use crate::support::{PETAL, Workplace, is_long, skip, text_of, write_text};

/// An address that no other test uses, and a path that is nowhere.
const CANARY: &str = "postgres://canary@127.0.0.77:7777/canary?password=@/canary/secret";
const ADDRESS: &str = "127.0.0.77";
const SHORT_FORM: usize = 3;

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

/// A JSON text with the canary in the place of each of these values in turn.
fn with_canary_at(text: &str, places: impl IntoIterator<Item = String>) -> Vec<String> {
    let whole: Value = serde_json::from_str(text).unwrap();
    let changed = places.into_iter().map(|at| {
        let mut changed = whole.clone();
        *changed.pointer_mut(&at).unwrap() = Value::String(CANARY.to_owned());
        changed.to_string()
    });
    changed.collect()
}

/// The texts of a file with the canary in the place of one value each.
fn with_canaries(file: &ReadFile, text: &str) -> Vec<String> {
    let is_long = is_long();
    let most = if is_long { usize::MAX } else { SHORT_FORM };
    // What names a target, a path or a command is always among them.
    let is_telling = |at: &String| {
        ["url", "db", "path", "folder", "script", "target"].iter().any(|word| at.contains(word))
    };
    let in_json = |text: &str| -> Vec<String> {
        let whole: Value = serde_json::from_str(text).unwrap();
        let (telling, other): (Vec<_>, Vec<_>) =
            pointers(&whole, Value::is_string).into_iter().partition(is_telling);
        with_canary_at(text, some(other, most).into_iter().chain(telling))
    };
    match file.form {
        Form::Json => in_json(text),
        Form::Lines => {
            let lines: Vec<&str> = text.lines().collect();
            let of_line = |at: usize| {
                let changed = in_json(lines[at]).into_iter();
                let lines = &lines;
                changed
                    .map(move |line| [&lines[..at], &[&line], &lines[at + 1..]].concat().join("\n"))
            };
            (0..2).flat_map(of_line).collect()
        }
        Form::Text => {
            let is_word = |word: &str| word.len() > 2;
            let places = some(words(text, is_word), most);
            places
                .into_iter()
                .map(|at| [&text[..at.start], CANARY, &text[at.end..]].concat())
                .collect()
        }
    }
}

/// The file with the canary in each place in turn.
fn try_all(work: &Workplace, file: &ReadFile) {
    let path = work.path(&file.name);
    let text = text_of(&path);
    for changed in with_canaries(file, &text) {
        write_text(&path, &changed);
        let calls = file.calls.iter();
        calls.for_each(|call| {
            watch(work, &call.iter().map(String::as_str).collect::<Vec<_>>(), "canary")
        });
    }
    write_text(&path, &text);
}

#[test]
fn nothing_that_a_file_names_is_connected_to_or_opened() {
    if Command::new("strace").arg("-V").output().is_err() {
        skip("no strace");
        return;
    }
    let (work, files) = written();
    files.iter().for_each(|file| try_all(&work, file));
    a_ledgers_texts_are_left_alone(&work);
    a_ledgers_server_is_left_alone(&work);
}

fn a_ledgers_texts_are_left_alone(work: &Workplace) {
    let run = ["run", "--work-loop", "5", "--update-pct", "50", "--ledger", "near.ledger"];
    work.petal(run).exits(0);
    let ledger = fs::read(work.path("near.ledger")).unwrap();
    let header = ledger_header(&ledger);
    let places = pointers(&serde_json::from_str(header).unwrap(), Value::is_string);
    assert!(places.iter().any(|place| place.contains("url")), "{places:?}");
    for changed in with_canary_at(header, places) {
        fs::write(work.path("near.ledger"), with_header(&ledger, &changed)).unwrap();
        watch(work, &["verify", "near.ledger"], "canary");
        watch(work, &["verify", "near.ledger", "--db", "sqlite:petal-data"], "canary");
    }
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
