//! Texts that would do harm, in every place of a record that holds text, and every report searched
//! for them: a terminal's escapes, markup, a spreadsheet's formulas, forged lines.

// Only tests use it.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

#[cfg(test)]
mod tests;

#[cfg(test)]
pub(super) use tests::{run, sweep};

use std::path::PathBuf;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

pub const HOSTILE: &str = "=cmd|' /C calc'!A0\u{1b}]0;x\u{7}\u{1b}[2J\u{9b}31m\u{202e}\r\nforged: line\
                                  </title><script>alert(1)</script><img src=x onerror=alert(2)>\"'`{{";

/// Puts it into every string of a value that is not one of the record's own names.
pub fn poisoned<T: Serialize + DeserializeOwned>(value: &T) -> T {
    let mut value = serde_json::to_value(value).unwrap();
    poison(&mut value, "");
    serde_json::from_value(value).unwrap()
}

fn poison(value: &mut Value, key: &str) {
    // Names that the record itself parses; they are not texts.
    const OWN: [&str; 6] = ["status", "severity", "class", "source", "format", "origin"];
    match value {
        Value::String(text) if !OWN.contains(&key) => *text = HOSTILE.to_owned(),
        Value::Array(all) => all.iter_mut().for_each(|value| poison(value, key)),
        Value::Object(all) => {
            for (key, value) in all.iter_mut() {
                let is_own = OWN.contains(&key.as_str());
                if !is_own {
                    poison(value, key);
                }
            }
            let is_open =
                matches!(key, "settings" | "counters" | "evidence" | "errors" | "histograms");
            if is_open && let Some(first) = all.values().next().cloned() {
                all.insert(HOSTILE.to_owned(), first);
            }
        }
        _ => {}
    }
}

/// Asserts that nothing in it acts on a terminal.
#[track_caller]
fn assert_inert(text: &str, what: &str) {
    let acts = |letter: char| letter.is_control() && !matches!(letter, '\n' | '\t');
    assert!(!text.contains(|letter| acts(letter) || letter == '\u{202e}'), "{what}: {text}");
}

/// Asserts that nothing in it acts on a terminal or begins a separate line.
#[track_caller]
pub fn assert_plain(text: &str, what: &str) {
    assert_inert(text, what);
    assert!(!text.to_lowercase().lines().any(|line| line.starts_with("forged")), "{what}: {text}");
}

#[track_caller]
pub fn assert_no_formula(text: &str, what: &str) {
    assert_plain(text, what);
    let mut reader = ::csv::ReaderBuilder::new().has_headers(false).from_reader(text.as_bytes());
    for row in reader.records() {
        for cell in row.unwrap().iter().filter(|cell| cell.parse::<f64>().is_err()) {
            assert!(!cell.starts_with(['=', '+', '-', '@']), "{what}: {cell}");
        }
    }
}

#[track_caller]
fn assert_no_markup(text: &str, what: &str) {
    // A line feed in a page's text is a space.
    assert_inert(text, what);
    let own = usize::from(what.ends_with("html"));
    assert_eq!(text.matches("<script").count(), own, "{what}");
    assert!(!text.contains("<img") && !text.contains("href=\"javascript:"), "{what}");
}

/// Searches every file, and asserts that the poisoned text is in it at all.
pub fn search(paths: Vec<PathBuf>) {
    assert!(!paths.is_empty());
    for path in paths {
        let text = std::fs::read_to_string(&path).unwrap();
        let what = path.display().to_string();
        match path.extension().unwrap().to_str().unwrap() {
            "csv" => assert_no_formula(&text, &what),
            "html" | "svg" => assert_no_markup(&text, &what),
            _ => {
                assert_plain(&text, &what);
                assert!(text.contains("=cmd"), "{what}");
            }
        }
    }
}
