//! The suite finds each lie of the scripted engine and names the broken promise.
//! docs/testing.md has the table of lies, which this test writes.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Mutex;

use petal_scripted::lies::Lie;

use super::scripted::{LIE, SCRIPTED};
use super::{CASES, run_case};

/// Lines around the table in the page.
const BEGIN: &str = "<!-- Lies: written by a test. -->\n";
const END: &str = "<!-- End of the lies. -->\n";
const WORKERS: usize = 4;

/// True if the case fails on the lie, with the name of its promise.
fn finds(case: &str, lie: Lie) -> bool {
    let Some((_, run)) = CASES.iter().find(|(name, _)| *name == case) else { return false };
    LIE.set(Some(lie));
    let found = run_case(*run, &SCRIPTED).is_err_and(|broken| broken.starts_with(lie.promise()));
    LIE.set(None);
    found
}

/// The first case that finds a lie; the one that the page names goes first.
fn finder(lie: Lie, named: Option<&str>) -> Option<&str> {
    let named = named.into_iter();
    named.chain(CASES.iter().map(|(name, _)| *name)).find(|case| finds(case, lie))
}

/// The cells of the page's table, by the first.
fn cells(table: &str) -> BTreeMap<&str, Vec<&str>> {
    let rows = table.lines().map(|line| line.trim_matches('|').split('|').map(str::trim));
    rows.map(Iterator::collect::<Vec<_>>).map(|cells| (cells[0], cells)).collect()
}

#[test]
fn every_lie_is_found_and_its_promise_named() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/testing.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = page.split_once(BEGIN).expect("the begin of the table");
    let (table, after) = rest.split_once(END).expect("the end of the table");
    let is_new = std::env::var_os("UPDATE_DOCS").is_some();
    let earlier = cells(table);
    let (queue, found) = (Mutex::new(Lie::ALL.iter()), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..WORKERS {
            scope.spawn(|| {
                loop {
                    let Some(&lie) = queue.lock().unwrap().next() else { return };
                    let words = lie.words();
                    let named = earlier.get(words.as_str()).map(|cells| cells[2].trim_matches('`'));
                    found.lock().unwrap().push((lie, finder(lie, named)));
                }
            });
        }
    });
    let mut found = found.into_inner().unwrap();
    found.sort_by_key(|(lie, _)| Lie::ALL.iter().position(|other| other == lie));
    let unfound: Vec<_> = found.iter().filter(|(_, case)| case.is_none()).collect();
    let mut made = "| lie | broken promise | case that finds it |\n|---|---|---|\n".to_owned();
    for (lie, case) in &found {
        let (words, promise, case) = (lie.words(), lie.promise(), case.unwrap_or("-"));
        made += &format!("| {words} | `{promise}` | `{case}` |\n");
    }
    assert!(unfound.is_empty(), "lies that no case finds: {unfound:?}\n{made}");
    if is_new {
        std::fs::write(&path, format!("{before}{BEGIN}{made}{END}{after}")).unwrap();
    } else {
        assert_eq!(table, made, "UPDATE_DOCS=1 writes docs/testing.md again");
    }
}
