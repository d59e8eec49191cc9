//! Lines of a text moved back to the form of a report: without the blanks of mail programs, the
//! quotes of a CSV file, the prefixes of a log or of `grep -n`, and double spacing.

use std::borrow::Cow;

use super::super::text::names_report;
use super::MARKED_PCT;

/// Blanks that are one character wide and that no report prints.
const BLANKS: [char; 4] = ['\u{a0}', '\u{2007}', '\u{2009}', '\u{202f}'];

/// Undoes all of these.
pub fn restored(text: &str) -> Cow<'_, str> {
    let mut moved = Cow::Borrowed(text);
    for undo in [blanks, unquoted, without_prefix, single_spaced] {
        if let Some(done) = undo(&moved) {
            moved = Cow::Owned(done);
        }
    }
    moved
}

fn blanks(text: &str) -> Option<String> {
    (!text.is_ascii() && text.contains(BLANKS)).then(|| text.replace(BLANKS, " "))
}

/// Removes the quotes around each line, as SQL*Plus and SQLcl write them with `MARKUP CSV`.
fn unquoted(text: &str) -> Option<String> {
    fn inner(line: &str) -> Option<&str> {
        line.trim_end().strip_prefix('"')?.strip_suffix('"')
    }
    if !text.starts_with('"') && !text.contains("\n\"") {
        return None;
    }
    let all = text.lines().filter(|line| !line.trim().is_empty());
    let quoted = all.clone().filter(|line| inner(line).is_some()).count();
    (quoted > 0 && quoted * 100 >= all.count() * MARKED_PCT)
        .then(|| joined(text.lines().map(|line| inner(line).unwrap_or(line).replace("\"\"", "\""))))
}

/// Removes the prefix that a log or a search put before each line: the one of the report's title,
/// with any digits and letters in their places.
fn without_prefix(text: &str) -> Option<String> {
    let begins = |line: &&str| {
        let at = ["WORKLOAD REPOSITORY", "STATSPACK report"].iter().find_map(|it| line.find(it));
        at.is_some_and(|at| at > 0 && names_report(line.get(at..).unwrap_or_default()))
    };
    let title = text.lines().find(begins)?;
    let at = ["WORKLOAD", "STATSPACK"].iter().find_map(|name| title.find(name))?;
    let shape = runs(title.get(..at)?.trim_start());
    if !shape.iter().any(|(kind, _)| *kind == RunKind::Word) {
        return None;
    }
    let shown = text.lines().filter(|line| !line.trim().is_empty());
    let prefixed = shown.clone().filter(|line| behind(line, &shape).is_some()).count();
    (prefixed * 100 >= shown.count() * MARKED_PCT)
        .then(|| joined(text.lines().map(|line| behind(line, &shape).unwrap_or(line).to_owned())))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum RunKind {
    /// Letters or digits: a word of another line may be longer.
    Word,
    Mark,
}

fn kind(c: char) -> RunKind {
    if c.is_alphanumeric() { RunKind::Word } else { RunKind::Mark }
}

/// Splits a prefix into words and single marks.
fn runs(prefix: &str) -> Vec<(RunKind, char)> {
    let mut runs: Vec<(RunKind, char)> = Vec::new();
    for c in prefix.chars() {
        let is_same = runs.last().is_some_and(|last| last.0 == RunKind::Word);
        if !(is_same && kind(c) == RunKind::Word) {
            runs.push((kind(c), c));
        }
    }
    runs
}

/// Returns the line behind a prefix of this shape; a line that ends within it is blank. Blanks before
/// a prefix align its numbers.
fn behind<'l>(line: &'l str, shape: &[(RunKind, char)]) -> Option<&'l str> {
    let mut rest = line.trim_start();
    for (kind, mark) in shape {
        let next = match kind {
            RunKind::Word => rest.trim_start_matches(char::is_alphanumeric),
            RunKind::Mark => rest.strip_prefix(*mark).unwrap_or(rest),
        };
        if next.len() == rest.len() {
            return rest.trim().is_empty().then_some("");
        }
        rest = next;
    }
    Some(rest)
}

/// Removes the blank line after each line.
fn single_spaced(text: &str) -> Option<String> {
    let is_blank =
        |parity: usize| text.lines().skip(parity).step_by(2).all(|it| it.trim().is_empty());
    let from = (0..2).find(|&from| is_blank(1 - from))?;
    let lines = text.lines().skip(from).step_by(2);
    (lines.clone().count() > 9).then(|| joined(lines.map(str::to_owned)))
}

fn joined(lines: impl Iterator<Item = String>) -> String {
    lines.fold(String::new(), |mut text, line| {
        text.push_str(&line);
        text.push('\n');
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_lines_are_no_part_of_them() {
        let lines = ["WORKLOAD REPOSITORY report for", "", "  a  1", "b"];
        let numbered = |from: usize, mark: &str| {
            let line = |(at, line): (usize, &&str)| format!("{:6}{mark}{line}\n", from + at);
            lines.iter().enumerate().map(line).collect::<String>()
        };
        let expected = lines.map(|line| format!("{line}\n")).concat();
        for mark in ["\t", ": ", "|"] {
            assert_eq!(restored(&numbered(8, mark)), expected, "{mark:?}");
        }
    }
}
