//! Sentences of a page in Markdown, and of any text.

use crate::rules::{self, Fault};

/// Checks a page: its paragraphs, list items, headings and cells of tables, without code.
pub fn page(text: &str) -> Vec<Fault> {
    let mut faults = Vec::new();
    let mut paragraph = (0, String::new());
    let mut is_code = false;
    for (at, line) in text.lines().enumerate() {
        let trimmed = line.trim_start();
        let is_fence = trimmed.starts_with("```") || trimmed.starts_with("~~~");
        if is_fence {
            is_code = !is_code;
        }
        let begins = ["- ", "* ", "#", "|", ">", "<"].iter().any(|mark| trimmed.starts_with(mark))
            || trimmed.split_once(". ").is_some_and(|(number, _)| number.parse::<u32>().is_ok());
        if is_code || is_fence || trimmed.is_empty() || begins {
            end(&mut paragraph, &mut faults);
        }
        if is_code || is_fence {
            continue;
        }
        if trimmed.starts_with('|') {
            for cell in trimmed.split('|') {
                sentences(at + 1, &prose(cell), &mut faults);
            }
            continue;
        }
        if paragraph.1.is_empty() {
            paragraph.0 = at + 1;
        }
        paragraph.1.push_str(trimmed);
        paragraph.1.push(' ');
    }
    end(&mut paragraph, &mut faults);
    faults
}

fn end(paragraph: &mut (usize, String), faults: &mut Vec<Fault>) {
    sentences(paragraph.0, &prose(&paragraph.1), faults);
    paragraph.1.clear();
}

/// Checks each sentence of a text without code.
pub fn sentences(line: usize, text: &str, faults: &mut Vec<Fault>) {
    for sentence in split(text) {
        rules::sentence(line, sentence, faults);
    }
}

/// Splits a text into sentences: at a full stop, a question mark or a colon at the end of a clause, before a space.
pub fn split(text: &str) -> Vec<&str> {
    let mut all = Vec::new();
    let mut begin = 0;
    let bytes = text.as_bytes();
    for (at, c) in text.char_indices() {
        let is_last = bytes.get(at + 1).is_none_or(u8::is_ascii_whitespace);
        let closes = matches!(c, '.' | '?' | '!' | ';' | ':') && is_last;
        let closes_quoted = matches!(c, ')' | '"') && is_last && text[..at].ends_with(['.', '?']);
        if (closes || closes_quoted) && !text[..at].ends_with("e.g") && !text[..at].ends_with("i.e")
        {
            all.push(&text[begin..=at]);
            begin = at + 1;
        }
    }
    all.push(text.get(begin..).unwrap_or_default());
    all.retain(|sentence| !sentence.trim().is_empty());
    all
}

/// The text without code in backquotes and without the addresses of links; code counts as one word.
pub fn prose(text: &str) -> String {
    let mut plain = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('`') {
        plain.push_str(before);
        match after.split_once('`') {
            Some((_, after)) => {
                plain.push('X');
                rest = after;
            }
            None => rest = after,
        }
    }
    plain.push_str(rest);
    let mut shown = String::new();
    let mut rest = plain.as_str();
    while let Some((before, after)) = rest.split_once("](") {
        shown.push_str(before);
        rest = after.split_once(')').map_or("", |(_, after)| after);
    }
    shown.push_str(rest);
    shown.replace(['[', ']', '*'], "")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules_of(text: &str) -> Vec<String> {
        page(text).into_iter().map(|fault| fault.rule).collect()
    }

    #[test]
    fn a_page_is_checked_without_its_code() {
        assert!(rules_of("Run `what the cache tells`:\n\n```\ntell whom\n```\n").is_empty());
        assert_eq!(rules_of("It tells\nthe time."), ["\"tells\""]);
        assert_eq!(rules_of("| figure | beside it |"), ["\"beside\""]);
        assert_eq!(
            rules_of("- It shows what a cache served."),
            ["a clause with \"what a\" in place of a noun"]
        );
        assert!(rules_of("What limits it?").is_empty());
        assert_eq!(rules_of("Where it is missing, it fails."), ["\"Where\" for \"If\""]);
    }

    #[test]
    fn a_sentence_has_at_most_twenty_five_words() {
        let words = |count| vec!["word"; count].join(" ");
        assert!(rules_of(&format!("{}. {}.", words(25), words(25))).is_empty());
        assert_eq!(rules_of(&format!("{}.", words(26))), ["26 words, 25 at most"]);
        assert!(rules_of(&format!("{} [a link](to/a/place) x.", words(22))).is_empty());
    }
}
