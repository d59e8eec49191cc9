//! Tests that check every statement for Oracle with two grammars of SQL and PL/SQL: ANTLR's own, as
//! packed by `@griffithswaite/ts-plsql-parser`, and the one of `qivo-parseora`, by release. The
//! first takes minutes in Node.js, so accepted texts are on record by their hashes, and only other
//! texts are parsed. `make grammar` parses them all.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Command;

use sha2::{Digest as _, Sha256};

use super::super::GRANTS;
use super::super::sql::tests::all;

/// Statements that the grammar lacks, because it has no ALTER SYSTEM: a person checks these few.
const UNKNOWN_TO_THE_GRAMMAR: [(&str, &str); 5] = [
    ("checkpoint", "ALTER SYSTEM CHECKPOINT"),
    ("switch_log", "ALTER SYSTEM SWITCH LOGFILE"),
    ("archive_log", "ALTER SYSTEM ARCHIVE LOG CURRENT"),
    ("cancel", "ALTER SYSTEM CANCEL SQL '1, 2, @1'"),
    ("kill", "ALTER SYSTEM KILL SESSION '1, 2, @1' IMMEDIATE"),
];

/// Hashes of the texts that the grammar accepted, one per line.
const ACCEPTED: &str = include_str!("../../../../tests/sql-grammar/accepted.txt");

fn hash(text: &str) -> String {
    Sha256::digest(text)[..16].iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Ends a statement as SQL*Plus would.
fn ended(text: &str) -> String {
    let is_block = text.starts_with("BEGIN") || text.starts_with("DECLARE");
    if is_block { format!("{text}\n/\n") } else { format!("{text};\n") }
}

/// Writes each text to a file, and returns the errors that `parser` prints; empty if there are no
/// errors.
fn complaints(parser: &mut Command, texts: &[(String, String)]) -> String {
    let work = tempfile::tempdir().unwrap();
    let files: Vec<PathBuf> = texts
        .iter()
        .enumerate()
        .map(|(at, (name, text))| {
            let file = work.path().join(format!("{at:02}-{}.sql", name.replace(' ', "-")));
            std::fs::write(&file, text).unwrap();
            file
        })
        .collect();
    let output = parser.args(&files).output().expect("`make grammar` installs the parsers");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.success(), said.is_empty(), "{output:?}");
    said
}

fn statements() -> Vec<(String, String)> {
    let all = all();
    for (name, text) in UNKNOWN_TO_THE_GRAMMAR {
        assert!(all.iter().any(|known| *known == (name.to_owned(), text.to_owned())), "{name}");
    }
    let mut texts: Vec<(String, String)> = all
        .into_iter()
        .filter(|(name, _)| UNKNOWN_TO_THE_GRAMMAR.iter().all(|(unknown, _)| unknown != name))
        .map(|(name, text)| (name, ended(&text)))
        .collect();
    assert!(texts.len() > 40, "{}", texts.len());
    // The DBA's script, without SQL*Plus commands.
    let sqlplus = ["ACCEPT ", "DEFINE ", "UNDEFINE ", "SET "];
    let grants = GRANTS.lines().filter(|line| sqlplus.iter().all(|verb| !line.starts_with(verb)));
    let grants = grants.collect::<Vec<_>>().join("\n");
    let grants =
        grants.replace("\"&petal_password\"", "\"x\"").replace("&petal_tablespace", "iops");
    // Statements in comments are meant to run, too.
    let uncommented = grants
        .replace("\n-- GRANT ALTER SYSTEM", "\nGRANT ALTER SYSTEM")
        .replace("\n-- GRANT", "\nGRANT");
    texts.push(("grants".to_owned(), uncommented));
    texts
}

#[test]
fn every_statement_was_accepted_by_the_grammar() {
    let accepted: BTreeSet<&str> = ACCEPTED.lines().collect();
    let unknown: Vec<String> = statements()
        .into_iter()
        .filter_map(|(name, text)| (!accepted.contains(hash(&text).as_str())).then_some(name))
        .collect();
    assert!(unknown.is_empty(), "run `make grammar`: these are new or changed: {unknown:?}");
}

#[test]
#[ignore = "takes Node.js minutes, and is for changed statements: make grammar"]
fn the_grammar_accepts_every_statement_and_refuses_what_is_wrong() {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
    let folder = root.join("target/sql-grammar");
    let texts = statements();
    let antlr = || {
        let mut node = Command::new("node");
        node.arg(folder.join("check.mjs"));
        node
    };
    let parseora = || {
        let mut python = Command::new(folder.join("python/bin/python"));
        python.arg(folder.join("check.py"));
        python
    };
    assert_eq!(complaints(&mut parseora(), &texts), "");
    assert_eq!(complaints(&mut antlr(), &texts), "");
    // A check that accepts everything would prove nothing.
    let wrong: Vec<(String, String)> = [
        "SELECT COUNT(c2 FROM petal1_cf1;",
        "UPDATE petal1_cf1 SET WHERE custid BETWEEN :1 AND :2;",
        "BEGIN\n    x := 1\nEND;\n/",
        "DECLARE\n    x NUMBER;\nBEGIN\n    IF x = 1 THEN NULL; END;\nEND;\n/",
        "CREATE TABLE t (custid NUMBER(12),) PCTFREE 99;",
    ]
    .iter()
    .enumerate()
    .map(|(at, text)| (format!("wrong{at}"), (*text).to_owned()))
    .collect();
    for parser in [&mut antlr(), &mut parseora()] {
        let said = complaints(parser, &wrong);
        for (name, text) in &wrong {
            assert!(said.contains(&format!("{name}.sql:")), "accepted: {text}");
        }
    }
    let accepted: BTreeSet<String> = texts.iter().map(|(_, text)| hash(text)).collect();
    let lines: String = accepted.iter().map(|hash| format!("{hash}\n")).collect();
    std::fs::write(root.join("tests/sql-grammar/accepted.txt"), lines).unwrap();
}
