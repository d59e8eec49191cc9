//! The suite finds each lie of the scripted engine and names the broken promise.
//! docs/testing.md has the lies that each case finds, which this test writes.

use std::collections::BTreeMap;
use std::sync::Mutex;

use petal_scripted::lies::Lie;

use super::scripted::{LIE, SCRIPTED};
use super::{CASES, run_case};
use crate::support::check_docs;

/// Lines around the list in the page.
const BEGIN: &str = "<!-- Lies: written by a test. -->\n";
const END: &str = "<!-- End of the lies. -->\n";
const WORKERS: usize = 4;
/// Lies that `petal prove` finds alone: other tests write the log of the suite's servers meanwhile.
const OF_PROVE: [Lie; 2] = [Lie::RedoCountsThrice, Lie::RedoCountsAThird];

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

/// The case that the page names for each lie.
fn named_cases(list: &str) -> BTreeMap<&str, &str> {
    let entries = list.lines().filter_map(|line| line.strip_prefix("- `")?.split_once("`: "));
    entries.flat_map(|(case, lies)| lies.split("; ").map(move |lie| (lie, case))).collect()
}

#[test]
fn every_lie_is_found_and_its_promise_named() {
    check_docs("docs/testing.md", (BEGIN, END), found_lies);
}

/// The list of each case's lies, as the page has it; `list` is the earlier one.
fn found_lies(list: &str) -> String {
    let earlier = named_cases(list);
    let all: Vec<Lie> = Lie::ALL.iter().copied().filter(|lie| !OF_PROVE.contains(lie)).collect();
    let (queue, found) = (Mutex::new(all.into_iter()), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..WORKERS {
            scope.spawn(|| {
                loop {
                    let Some(lie) = queue.lock().unwrap().next() else { return };
                    let named = earlier.get(lie.words().as_str()).copied();
                    found.lock().unwrap().push((lie, finder(lie, named)));
                }
            });
        }
    });
    let mut found = found.into_inner().unwrap();
    found.sort_by_key(|(lie, _)| Lie::ALL.iter().position(|other| other == lie));
    let unfound: Vec<_> = found.iter().filter(|(_, case)| case.is_none()).collect();
    let mut cases: Vec<(&str, Vec<String>)> = Vec::new();
    for (lie, case) in &found {
        let case = case.unwrap_or("-");
        match cases.iter_mut().find(|(known, _)| *known == case) {
            Some((_, lies)) => lies.push(lie.words()),
            None => cases.push((case, vec![lie.words()])),
        }
    }
    let mut made = String::new();
    for (case, lies) in &cases {
        made += &format!("- `{case}`: {}\n", lies.join("; "));
    }
    assert!(unfound.is_empty(), "lies that no case finds: {unfound:?}\n{made}");
    made
}
