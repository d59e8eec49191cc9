//! Tests of names: each view, column, routine and word that a statement names is in a list made
//! from Oracle's references. Each statistic and event was seen in reports of real databases.

use std::collections::{BTreeMap, BTreeSet};

use super::super::sql::tests::all;
use super::super::sql::{COUNTERS, REPORTS, section};

const LIST: &str = include_str!("names.txt");
/// Oldest release that petal supports, as 10 times 12.2.
const OLDEST: u32 = 122;

/// Returns a section's lines.
fn lines(of: &str) -> impl Iterator<Item = &'static str> {
    let begin = format!("[{of}]\n");
    let (_, after) = LIST.split_once(&begin).unwrap();
    after.split("\n[").next().unwrap().lines().filter(|line| !line.is_empty())
}

/// Splits a name from the release that introduced it: `version_full@18`.
fn name_and_release(word: &'static str) -> (&'static str, u32) {
    match word.split_once('@') {
        Some((name, release)) => (name, release.parse::<u32>().unwrap() * 10),
        None => (word, OLDEST),
    }
}

fn words(section: &str) -> BTreeMap<&'static str, u32> {
    lines(section).flat_map(str::split_whitespace).map(name_and_release).collect()
}

/// Returns the columns of each view or table.
fn relations() -> BTreeMap<&'static str, BTreeMap<&'static str, u32>> {
    let mut all: BTreeMap<_, BTreeMap<_, _>> = BTreeMap::new();
    for line in lines("relations") {
        let (relation, columns) = line.split_once(": ").unwrap();
        all.entry(relation).or_default().extend(columns.split(' ').map(name_and_release));
    }
    all
}

/// Returns the names in a statement in lower case, without texts, comments, hints or binds.
fn names(text: &str) -> Vec<String> {
    let mut plain = String::new();
    // Every second piece is a quoted text.
    for (at, piece) in text.split('\'').enumerate() {
        plain.push_str(if at % 2 == 0 { piece } else { " " });
    }
    while let Some((before, after)) = plain.split_once("/*") {
        plain = format!("{before} {}", after.split_once("*/").unwrap().1);
    }
    let is_sign = |sign: char| sign.is_ascii_alphanumeric() || "_$#.:".contains(sign);
    let names = plain.split(|sign| !is_sign(sign)).filter(|name| !name.starts_with(':'));
    let names = names.map(|name| name.trim_matches(['.', ':']).to_lowercase());
    names.filter(|name| name.starts_with(|first: char| first.is_ascii_alphabetic())).collect()
}

/// True for petal's own names: tables, columns, the block's variables, aliases.
fn is_petals_own(name: &str, declared: &BTreeSet<String>) -> bool {
    let is_column = |letter: char| {
        let digits = name.strip_prefix(letter);
        digits.is_some_and(|digits| digits.parse::<u32>().is_ok())
    };
    let own = ["address", "custid", "free", "iops", "place", "slot"];
    is_column('c')
        || is_column('v')
        || name.len() == 1
        || name.starts_with("petal")
        || name.starts_with("user2.")
        || own.contains(&name)
        || declared.contains(name)
}

/// Returns the columns of petal_meta and the declarations of a block: variables before their types,
/// functions and procedures with parameters.
fn declared(name: &str, text: &str) -> BTreeSet<String> {
    if text.contains("petal_meta") {
        return ["schema_number", "key", "value"].map(str::to_owned).into();
    }
    if !name.starts_with("run_batch") {
        return BTreeSet::new();
    }
    let mut declared: BTreeSet<String> =
        ["micros", "later", "earlier", "gap", "take_texts", "others"].map(str::to_owned).into();
    for line in text.split("BEGIN").next().unwrap().lines().map(str::trim) {
        if line.ends_with(';') {
            declared.extend(line.split(' ').next().map(str::to_lowercase));
        }
    }
    declared
}

/// Returns the release that a statement needs, or an error for a name that is in no list.
fn release_of(name: &str, text: &str) -> Result<u32, String> {
    let relations = relations();
    let known: BTreeMap<&str, u32> =
        ["words", "routines", "parameters of routines", "session parameters"]
            .into_iter()
            .flat_map(words)
            .collect();
    let names = names(text);
    let declared = declared(name, text);
    let used: Vec<_> = names.iter().filter_map(|name| relations.get(name.as_str())).collect();
    let mut newest = OLDEST;
    for word in &names {
        // A column after the alias of its table.
        let column = word.split_once('.').filter(|(alias, _)| alias.len() == 1);
        let plain = column.map_or(word.as_str(), |(_, column)| column);
        let in_columns = used.iter().filter_map(|columns| columns.get(plain)).min().copied();
        let release = match column {
            Some(_) => in_columns.or(known.get(plain).copied()),
            None if relations.contains_key(plain) => Some(OLDEST),
            None => in_columns.or_else(|| known.get(plain).copied()),
        };
        let own = is_petals_own(plain, &declared) && !plain.contains('$');
        match release {
            Some(release) => newest = newest.max(release),
            None if own => {}
            None => return Err(format!("{name}: {word}")),
        }
    }
    Ok(newest)
}

#[test]
fn every_name_in_a_statement_is_in_a_list() {
    let mut newer = BTreeMap::new();
    for (name, text) in all() {
        let release = release_of(&name, &text).unwrap_or_else(|unknown| panic!("{unknown}"));
        if release > OLDEST {
            newer.insert(name, release);
        }
    }
    // Each of these may fail; petal then works without it.
    let newer: Vec<(&str, u32)> = newer.iter().map(|(name, at)| (name.as_str(), *at)).collect();
    let expected =
        [("cancel", 180), ("use_hints", 180), ("use_parallel_hints", 180), ("version_full", 180)];
    assert_eq!(newer, expected);
    // A check that knows every name would prove nothing.
    let wrong = |text: &str| release_of("x", text).unwrap_err();
    assert_eq!(wrong("SELECT valeu FROM sys.gv_$sysstat"), "x: valeu");
    assert_eq!(wrong("SELECT value FROM sys.gv_$sysstats"), "x: value");
    assert_eq!(wrong("SELECT d.con_id FROM sys.v_$database d"), "x: d.con_id");
    assert_eq!(wrong("SELECT TO_NUM(value) FROM sys.gv_$sysstat"), "x: to_num");
}

/// Returns a dictionary name that a public synonym, or an object of petal's own user, may replace.
fn unqualified(name: &str, text: &str) -> Option<String> {
    const DICTIONARY: [&str; 10] = [
        "all_",
        "cdb_",
        "dba_",
        "dbms_",
        "dual",
        "plan_table",
        "product_component",
        "session_privs",
        "user_",
        "utl_",
    ];
    const OWNERS: [&str; 3] = ["sys.", "perfstat.", "rdsadmin."];
    let declared = declared(name, text);
    let names = names(text);
    let follows = |word: &String, at: usize| {
        let before = at.checked_sub(1).map_or("", |before| names[before].as_str());
        // Not of EXTRACT(DAY FROM gap), FROM (SELECT and FROM TABLE(.
        ["from", "join"].contains(&before)
            && !["select", "table"].contains(&word.as_str())
            && !declared.contains(word)
    };
    let is_open = |(at, word): &(usize, &String)| {
        let is_dictionary = DICTIONARY.iter().any(|begin| word.starts_with(begin))
            || word.contains('$')
            || follows(word, *at);
        let is_own = word.starts_with("petal") || word.starts_with("user2.");
        is_dictionary && !is_own && !OWNERS.iter().any(|owner| word.starts_with(owner))
    };
    let found = names.iter().enumerate().find(is_open);
    found.map(|(_, word)| format!("{name}: {word}"))
}

#[test]
fn every_name_of_the_dictionary_has_its_owner() {
    for (name, text) in all() {
        assert_eq!(unqualified(&name, &text), None);
    }
    for (text, word) in [
        ("SELECT value FROM gv$sysstat", "gv$sysstat"),
        ("SELECT l.bytes FROM sys.v_$log l JOIN gv_$instance i ON 1 = 1", "gv_$instance"),
        ("BEGIN DBMS_STATS.LOCK_TABLE_STATS(ownname => USER); END;", "dbms_stats.lock_table_stats"),
        ("SELECT dummy FROM dual", "dual"),
        ("SELECT c2 FROM others_table", "others_table"),
    ] {
        assert_eq!(unqualified("x", text), Some(format!("x: {word}")));
    }
}

#[test]
fn the_list_holds_nothing_that_is_not_used() {
    let used: BTreeSet<String> = all()
        .iter()
        .flat_map(|(_, text)| names(text))
        .flat_map(|name| {
            let column = name.rsplit('.').next().unwrap_or_default().to_owned();
            [name, column]
        })
        .collect();
    let listed = relations().into_iter().flat_map(|(relation, columns)| {
        std::iter::once(relation).chain(columns.into_keys()).collect::<Vec<_>>()
    });
    let others = ["words", "routines", "parameters of routines", "session parameters"];
    let listed = listed.chain(others.into_iter().flat_map(words).map(|(name, _)| name));
    let stale: Vec<&str> = listed.filter(|name| !used.contains(*name)).collect();
    assert_eq!(stale, [""; 0]);
}

/// Returns names in quotation marks in a statement, except for formats and flags.
fn quoted(file: &str, sections: &[&str]) -> BTreeSet<String> {
    let texts = sections.iter().map(|name| section(file, name));
    let quoted = texts.flat_map(|text| {
        let texts: Vec<String> = text.split('\'').skip(1).step_by(2).map(str::to_owned).collect();
        texts
    });
    let no_names = ["YES", "Idle"];
    let quoted = quoted.filter(|text| !no_names.contains(&text.as_str()));
    quoted.map(|text| text.trim_end_matches('%').to_owned()).collect()
}

#[test]
fn statistics_and_events_are_those_of_real_reports() {
    let seen = |section: &str| -> BTreeMap<&str, &str> {
        lines(section).map(|line| line.split_once(" | ").unwrap()).collect()
    };
    let all = [
        ("statistics", vec![(COUNTERS, "statistics"), (REPORTS, "statspack_statistics")]),
        ("events", vec![(COUNTERS, "histograms")]),
        (
            "times and processors",
            vec![(COUNTERS, "time_model"), (REPORTS, "statspack_times"), (REPORTS, "statspack_os")],
        ),
    ];
    for (section, statements) in all {
        let seen = seen(section);
        let used: BTreeSet<String> =
            statements.iter().flat_map(|(file, name)| quoted(file, &[name])).collect();
        let listed: BTreeSet<String> = seen.keys().map(|name| (*name).to_owned()).collect();
        assert_eq!(used, listed, "{section}");
        for (name, releases) in seen {
            assert!(!releases.is_empty(), "{name} was seen nowhere");
        }
    }
}
