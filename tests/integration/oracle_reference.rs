//! The driver beside a reference client: what petal's sessions execute, sent again through Oracle's own
//! python-oracledb in thin mode, to the same stand-in. The fields of both messages of each statement are
//! on record in `tests/data/oracle-wire/reference-client.tsv`; petal must still send what stands there.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::{Value as Json, json};

use crate::oracle_wire::model::{Value, values};
use crate::oracle_wire::request::{COMMIT, Execute};
use crate::oracle_wire::stand_in::{PASSWORD, Release, StandIn, lock, one_line};
use crate::support::Workplace;

const RECORD: &str = "tests/data/oracle-wire/reference-client.tsv";

/// Fields that tell of a statement's text or its number in the session, or of how many operations fit
/// into a tenth of a second.
const VARY: [&str; 4] = ["cursor", "length of the SQL", "bytes of a bind", "characters of a bind"];

/// The field in which the driver differs from the reference client, but for SELECTs that it parses again.
/// crates/petal-oracle/driver-report.md explains both.
const DIFFERENT: [&str; 1] = ["prefetched rows"];
/// A statement whose cursor the driver closed at the end of its fetch.
const PARSED_AGAIN: &str = "again, parsed again";

/// A session of petal's: its name, and what it executed.
type Sessions = Vec<(&'static str, Vec<Execute>)>;

/// A stand-in with which petal has loaded and run, with the sessions that did.
fn petals() -> (StandIn, Sessions) {
    let (stand_in, work) = (StandIn::start(Release::Free23), Workplace::new());
    stand_in.keep_messages();
    let petal = |args: &str| {
        let db = stand_in.url();
        let args: Vec<&str> = args.split(' ').chain(["--db", &db]).collect();
        work.petal(args).exits(0);
    };
    petal("setup -s 1 --scale 8M --load-parallel-degree 1 --obfuscate-columns true");
    for side in ["server", "client"] {
        petal(&format!("run --work-loop 150 --update-pct 50 --redo-stress heavy --loop {side}"));
    }
    stand_in.understood_all();
    let session = |statement| stand_in.session_with(statement);
    let sessions = vec![
        ("load", session("INSERT /*+ APPEND_VALUES")),
        ("LOOP=server", session("DECLARE ops ")),
        ("LOOP=client", session("SELECT /*+ INDEX(t)")),
    ];
    (stand_in, sessions)
}

/// A message as the record names it: statement, rows, how much of it is sent, and whether the session
/// sent its statement before. Equal ones count once.
fn name(execute: &Execute, is_repeated: bool) -> String {
    let sql = one_line(execute.sql.as_deref().unwrap_or_default());
    let words: String = sql.chars().take(48).collect();
    let how = match (&execute.fields[..], is_repeated) {
        ([_, ("cursor", 0), ..], false) => "first",
        ([_, ("cursor", 0), ..], true) => PARSED_AGAIN,
        ([_, ("cursor", _), ..], _) => "again, binds described again",
        _ => "again",
    };
    format!("{}; {} rows; {how}", words.trim(), execute.rows.len())
}

/// Fields by name; those of several binds are one text, equal neighbours counted.
fn fields(execute: &Execute) -> BTreeMap<&'static str, String> {
    let mut runs: BTreeMap<&'static str, Vec<(u64, usize)>> = BTreeMap::new();
    for &(field, value) in &execute.fields {
        let runs = runs.entry(field).or_default();
        match runs.last_mut() {
            Some((last, count)) if *last == value => *count += 1,
            _ => runs.push((value, 1)),
        }
    }
    let run = |&(value, count): &(u64, usize)| match count {
        1 => format!("{value:#x}"),
        _ => format!("{value:#x} * {count}"),
    };
    let text = |runs: &Vec<_>| runs.iter().map(run).collect::<Vec<_>>().join(", ");
    let is_said = |runs: &Vec<(u64, usize)>| runs.iter().any(|(value, _)| *value != 0);
    runs.iter()
        .filter(|(_, runs)| is_said(runs))
        .map(|(field, runs)| (*field, text(runs)))
        .collect()
}

/// What the reference client sends for these statements, and what blocks gave back to it.
fn reference(python: &str, stand_in: &StandIn, messages: &[Execute]) -> (Vec<Execute>, Json) {
    let value = |value: &Value| match value {
        Value::Number(number) => json!(number),
        Value::Text(text) => json!(text),
    };
    let rows = |execute: &Execute| -> Vec<Vec<Json>> {
        values(execute).iter().map(|row| row.iter().map(value).collect()).collect()
    };
    let message = |execute| json!({"sql": Execute::clone(execute).sql, "rows": rows(execute)});
    let messages: Vec<Json> = messages.iter().map(message).collect();
    let given = json!({"port": stand_in.port, "password": PASSWORD, "messages": messages});
    stand_in.keep_messages();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/integration/oracle_reference.py");
    let mut client = Command::new(python);
    let client = client.arg(script).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut client = client.spawn().unwrap();
    client.stdin.take().unwrap().write_all(given.to_string().as_bytes()).unwrap();
    let output = client.wait_with_output().unwrap();
    assert!(output.status.success());
    let sent = lock(&stand_in.shared.messages).take().unwrap();
    let sent = sent.into_iter().map(|(_, execute)| execute).collect();
    (sent, serde_json::from_slice(&output.stdout).unwrap())
}

/// With `PETAL_TEST_REFERENCE=PYTHON`, a Python that has `oracledb`.
#[test]
#[ignore = "records the reference client anew: CONTRIBUTING.md"]
fn the_reference_client_is_recorded() {
    let python = std::env::var("PETAL_TEST_REFERENCE").unwrap();
    let (stand_in, sessions) = petals();
    let (mut record, mut version) = (String::new(), String::new());
    let mut seen = BTreeSet::new();
    for (session, messages) in sessions {
        let calls_before = stand_in.calls().len();
        let (theirs, said) = reference(&python, &stand_in, &messages);
        stand_in.understood_all();
        assert_eq!(theirs.len(), messages.len(), "{session}");
        let calls = stand_in.calls();
        let answers = calls[calls_before..].iter().map(|call| json!([call.ended, call.errors]));
        assert_eq!(said["answers"], Json::Array(answers.collect()), "what blocks gave back");
        let mut sent = BTreeSet::new();
        for (petals, theirs) in messages.iter().zip(&theirs) {
            let sql = petals.sql.as_deref().unwrap_or_default();
            assert!(petals.rows == theirs.rows, "values differ byte by byte: {sql:.60}");
            let name = name(petals, !sent.insert(sql));
            if petals.function == COMMIT || !seen.insert(name.clone()) {
                continue;
            }
            let (ours, others) = (fields(petals), fields(theirs));
            for field in ours.keys().chain(others.keys()).collect::<BTreeSet<_>>() {
                let said = |of: &BTreeMap<_, String>| of.get(field).cloned().unwrap_or("0".into());
                let (ours, others) = (said(&ours), said(&others));
                let others = if ours == others { "same" } else { &others };
                writeln!(record, "{name}\t{field}\t{ours}\t{others}").unwrap();
            }
        }
        version = said["version"].as_str().unwrap().to_owned();
    }
    let head = format!("message\tfield\tpetal\tpython-oracledb {version}\n");
    std::fs::write(file(), head + &record).unwrap();
}

/// What is on record: petal's fields by message, and the fields in which the reference client differs.
type Record = (BTreeMap<String, BTreeMap<String, String>>, BTreeSet<String>);

fn record() -> Record {
    let (mut petals, mut different): Record = Default::default();
    for line in std::fs::read_to_string(file()).unwrap().lines().skip(1) {
        let [message, field, ours, theirs] = line.split('\t').collect::<Vec<_>>()[..] else {
            panic!("{line}");
        };
        if theirs != "same" && !VARY.contains(&field) && !message.ends_with(PARSED_AGAIN) {
            different.insert(field.to_owned());
        }
        petals.entry(message.to_owned()).or_default().insert(field.to_owned(), ours.to_owned());
    }
    (petals, different)
}

#[test]
fn petal_sends_what_was_compared_with_the_reference_client() {
    let (recorded, different) = record();
    assert!(different.iter().eq(DIFFERENT), "{different:?}");
    let mut compared = BTreeSet::new();
    for (_, messages) in petals().1 {
        let mut sent = BTreeSet::new();
        for execute in messages.iter().filter(|execute| execute.function != COMMIT) {
            let name = name(execute, !sent.insert(execute.sql.as_deref()));
            let Some(recorded) = recorded.get(&name) else {
                panic!("not on record: {name}; record the reference client anew (CONTRIBUTING.md)");
            };
            let sent = fields(execute);
            let none = "0".to_owned();
            for (field, ours) in recorded.iter().filter(|(field, _)| !VARY.contains(&&***field)) {
                assert_eq!(sent.get(&**field).unwrap_or(&none), ours, "{name}: {field}");
            }
            let is_recorded = |field: &&&str| recorded.contains_key(**field);
            assert!(sent.keys().all(|field| is_recorded(&field)), "{name}: {sent:?}");
            compared.insert(name);
        }
    }
    // How many operations a call of the loop has depends on time.
    let is_missing = |name: &&String| !compared.contains(*name) && !name.starts_with("DECLARE ");
    assert_eq!(recorded.keys().find(is_missing), None, "no longer sent");
}

fn file() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(RECORD)
}
