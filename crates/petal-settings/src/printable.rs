//! Text of any origin, made safe for the place that shows it: a terminal, a line, a cell of a CSV.
//! Names in a database, reports of a server, file names and foreign records may hold anything. Each
//! place that writes text calls one of these functions; nothing else has to.

use std::borrow::Cow;

/// Text of several lines for a terminal or a file: control characters are written as `\u001b`.
/// Line ends and tabs stay. JSON stays the same JSON.
pub fn printable(text: &str) -> Cow<'_, str> {
    escaped(text, |letter| !matches!(letter, '\n' | '\t') && is_unprintable(letter))
}

/// Text for one line: line ends and tabs are escaped too.
pub fn printable_line(text: &str) -> Cow<'_, str> {
    escaped(text, is_unprintable)
}

/// Text for a cell of a CSV, which a spreadsheet must not take for a formula: it puts an
/// apostrophe before a `=`, `+`, `-` or `@`. Numbers stay numbers.
pub fn csv_cell(text: &str) -> Cow<'_, str> {
    let shown = printable_line(text);
    let is_formula = shown.starts_with(['=', '+', '-', '@']) && shown.parse::<f64>().is_err();
    if is_formula { Cow::Owned(format!("'{shown}")) } else { shown }
}

/// Controls of every kind, and the marks that reorder text or end a line of it.
fn is_unprintable(letter: char) -> bool {
    letter.is_control()
        || matches!(letter, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

fn escaped(text: &str, is_escaped: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.contains(&is_escaped) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for letter in text.chars() {
        if is_escaped(letter) {
            // Each of them is below U+10000: the form that JSON knows.
            shown.push_str(&format!("\\u{:04x}", u32::from(letter)));
        } else {
            shown.push(letter);
        }
    }
    Cow::Owned(shown)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn controls_are_shown_and_plain_text_is_untouched() {
        assert_eq!(printable("\u{1b}[2J\u{7}\u{9b}31m\r"), "\\u001b[2J\\u0007\\u009b31m\\u000d");
        assert_eq!(printable("a\n\tb"), "a\n\tb");
        assert_eq!(printable_line("a\nb\u{202e}c"), "a\\u000ab\\u202ec");
        assert!(matches!(printable("µs – 漢字"), Cow::Borrowed(_)));
    }

    #[test]
    fn cells_are_no_formulas_and_numbers_stay_numbers() {
        assert_eq!(csv_cell("=HYPERLINK(\"x\")"), "'=HYPERLINK(\"x\")");
        assert_eq!(
            ["+1+1", "-2+3", "@SUM(A1)"].map(|text| csv_cell(text).into_owned()),
            ["'+1+1", "'-2+3", "'@SUM(A1)"]
        );
        for number in ["-5", "+5", "-1.5e-3", "0.25", "", "u20", "a=b"] {
            assert_eq!(csv_cell(number), number);
        }
        assert_eq!(csv_cell("\t=1"), "\\u0009=1");
    }

    proptest! {
        #[test]
        fn json_is_the_same_json(text in any::<String>()) {
            let json = serde_json::to_string_pretty(&[&text]).unwrap();
            let shown = printable(&json);
            prop_assert!(!shown.chars().any(|letter| letter.is_control() && letter != '\n'));
            let back: Vec<String> = serde_json::from_str(&shown).unwrap();
            prop_assert_eq!(back, [text]);
        }
    }
}
