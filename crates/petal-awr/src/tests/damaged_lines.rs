//! Tests for texts whose lines lost their first blanks or their ends: each value is right or
//! unknown, and a note says so.

use std::collections::BTreeMap;

use super::every_number::reports;
use super::*;

/// Figures by their path. Entries of lists are named, since some may be missing.
type Printed = BTreeMap<String, Vec<String>>;

fn values(report: &Report, with_computed: bool) -> Printed {
    // A cut name names no file.
    const NAMES: [&str; 7] =
        ["name", "object", "tablespace", "sql_id", "instance", "range", "target"];
    fn walk(path: &str, value: &Value, with_computed: bool, found: &mut Printed) {
        match value {
            Value::Null => {}
            Value::Object(fields) if fields.contains_key("as_printed") => {
                let shown = fields["value"].as_str().or(fields["as_printed"].as_str());
                let computed = || with_computed.then(|| format!("={}", fields["value"]));
                let value = shown.map(str::to_owned).or_else(computed);
                found.entry(path.to_owned()).or_default().extend(value);
            }
            Value::Object(fields) => {
                for (name, value) in fields {
                    walk(&format!("{path}/{name}"), value, with_computed, found);
                }
            }
            Value::Array(all) => {
                for entry in all {
                    let name = |name: &&str| {
                        let own = &entry[*name];
                        Some(own.as_str().or_else(|| own["value"].as_str())?.to_owned())
                    };
                    let mut path = path.to_owned();
                    NAMES
                        .iter()
                        .filter_map(name)
                        .filter(|it| !it.is_empty())
                        .for_each(|name| path.push_str(&format!("/{name}")));
                    path.push_str(entry["section"].as_str().unwrap_or_default());
                    walk(&path, entry, with_computed, found);
                }
            }
            _ => {}
        }
    }
    let mut found = BTreeMap::new();
    walk("", &serde_json::to_value(report).unwrap(), with_computed, &mut found);
    found
}

/// Returns the figures of a damaged text that the whole one does not print there.
fn invented(whole: &Report, damaged: &Report) -> Vec<String> {
    let (whole, damaged) = (values(whole, true), values(damaged, false));
    let none = Vec::new();
    let of = |(path, values): (&String, &Vec<String>)| -> Vec<String> {
        let known = whole.get(path).unwrap_or(&none);
        // A printed value stands in for a computed one with more digits.
        let number = |text: &str| text.replace(',', "").parse::<f64>().ok();
        let is_near = |(one, two): (f64, f64)| (one - two).abs() <= 0.01 * two.abs();
        let is_it = |value: &str, known: &str| match known.strip_prefix('=') {
            Some(computed) => number(value).zip(number(computed)).is_some_and(is_near),
            None => value == known,
        };
        let wrong = values.iter().filter(|value| !known.iter().any(|known| is_it(value, known)));
        wrong.map(|value| format!("{path}: {value}, and not {known:?}")).collect()
    };
    damaged.iter().flat_map(of).collect()
}

/// Reads each text report with its lines changed; returns wrong figures, and the number of reports
/// that were read.
fn wrong_of(change: impl Fn(&str) -> String) -> (Vec<String>, usize) {
    let (mut wrong, mut read) = (Vec::new(), 0);
    for (name, text) in reports().into_iter().filter(|it| it.0.ends_with(".txt")) {
        let lines: String = text.lines().map(|line| change(line) + "\n").collect();
        let Ok(report) = of_text(&lines) else { continue };
        read += 1;
        let found = invented(&of_text(&text).unwrap(), &report);
        assert!(found.is_empty() || !report.notes.is_empty(), "{name}");
        wrong.extend(found.into_iter().map(|it| format!("{name}{it}")));
    }
    (wrong, read)
}

#[test]
fn lines_without_their_first_blanks_are_right_or_unknown() {
    let (wrong, read) = wrong_of(|line| line.trim_start().to_owned());
    assert!(wrong.is_empty() && read > 6, "{read} read, {} wrong: {wrong:#?}", wrong.len());
    let stripped: Vec<&str> = sample_text("awr_12c.txt").lines().map(str::trim_start).collect();
    let report = of_text(&stripped.join("\n")).unwrap();
    let note = "its lines lost their first blanks";
    assert!(report.notes.iter().any(|it| it.contains(note)), "{:?}", report.notes);
}

#[test]
fn lines_without_their_ends_are_right_or_unknown() {
    for width in [60, 70, 72, 76, 78, 79, 80, 100, 120, 132] {
        let (wrong, read) = wrong_of(|line| line.chars().take(width).collect());
        let first = &wrong[..wrong.len().min(30)];
        assert!(wrong.is_empty() && read > 6, "at {width}, {} wrong: {first:#?}", wrong.len());
    }
}
