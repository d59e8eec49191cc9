//! Limits of one answer of a server: a false server may send rows without an end, or an error text
//! of megabytes.

use std::borrow::Cow;

/// No question of petal's has as many rows, or as many bytes.
const ROWS_MAX: usize = 1 << 20;
pub const BYTES_MAX: usize = 256 << 20;
/// A longer error text is cut: it is kept by each session, shown and recorded.
const TEXT_BYTES_MAX: usize = 2000;

/// A statement's name has so many words of its begin, and characters.
const STATEMENT_WORDS: usize = 8;
const STATEMENT_CHARACTERS: usize = 80;

pub const TOO_LONG: &str = "the answer is larger than any that petal asks for: is this a database server of \
    this kind, or a proxy that changes its answers?";

/// The size of an answer so far.
#[derive(Default)]
pub struct AnswerSize {
    rows: usize,
    bytes: usize,
}

impl AnswerSize {
    /// Counts one more row; false if the answer is longer than any may be.
    pub fn add(&mut self, row_bytes: usize) -> bool {
        self.rows += 1;
        self.bytes = self.bytes.saturating_add(row_bytes);
        self.rows <= ROWS_MAX && self.bytes <= BYTES_MAX
    }
}

/// A server's error text, cut if it is longer than a person reads.
pub fn bounded(text: &str) -> Cow<'_, str> {
    if text.len() <= TEXT_BYTES_MAX {
        return Cow::Borrowed(text);
    }
    let is_boundary = |end: &usize| text.is_char_boundary(*end);
    let end = (0..=TEXT_BYTES_MAX).rev().find(is_boundary).unwrap_or(0);
    Cow::Owned(format!("{}... ({} bytes)", &text[..end], text.len()))
}

/// The begin of a statement, without comments, for a message.
pub fn statement_name(sql: &str) -> String {
    let lines =
        sql.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with("--"));
    let words: Vec<&str> = lines.flat_map(str::split_whitespace).take(STATEMENT_WORDS).collect();
    match words.is_empty() {
        true => "a statement".to_owned(),
        false => words.join(" ").trim_end_matches(';').chars().take(STATEMENT_CHARACTERS).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_is_named_by_its_begin_without_comments() {
        let sql = "-- What petal made.\n\nDROP TABLE IF EXISTS\n   petal1.cf1; DROP SCHEMA petal1 CASCADE";
        insta::assert_snapshot!(statement_name(sql), @"DROP TABLE IF EXISTS petal1.cf1; DROP SCHEMA petal1");
        assert_eq!(statement_name("COMMIT;"), "COMMIT");
        assert_eq!(statement_name("-- \n"), "a statement");
        assert_eq!(statement_name(&"x".repeat(999)).len(), STATEMENT_CHARACTERS);
    }

    #[test]
    fn rows_bytes_and_texts_have_a_bound() {
        let mut many = AnswerSize::default();
        assert!((0..ROWS_MAX).all(|_| many.add(1)) && !many.add(1));
        let mut large = AnswerSize::default();
        assert!(large.add(BYTES_MAX) && !large.add(1));
        assert!(!AnswerSize::default().add(usize::MAX));
        assert_eq!(bounded("short"), "short");
        let long = "\u{fc}".repeat(1 << 20);
        let shown = bounded(&long);
        assert!(shown.len() < 2100 && shown.ends_with("... (2097152 bytes)"), "{shown}");
    }
}
