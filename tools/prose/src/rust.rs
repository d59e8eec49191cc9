//! Doc comments and messages of a Rust file, without its tests.

use crate::rules::{self, Fault};
use crate::text;

/// A text with fewer words is no message: a name, a key, a format.
const MESSAGE_WORDS_MIN: usize = 4;

/// Checks a file's doc comments and texts.
pub fn file(source: &str) -> Vec<Fault> {
    let mut faults = Vec::new();
    let product = without_tests(source);
    comments(&product, &mut faults);
    for (line, message) in literals(&product) {
        check_message(line, &message, &mut faults);
    }
    faults.sort_by_key(|fault| fault.line);
    faults
}

/// Cuts off the modules of tests, which are last in a file.
fn without_tests(source: &str) -> String {
    let is_tests = |pair: &[&str]| {
        pair.first().is_some_and(|line| line.starts_with("#[cfg(test)]"))
            && pair.get(1).is_some_and(|line| line.contains("mod ") && line.ends_with('{'))
    };
    let lines: Vec<&str> = source.lines().collect();
    let end = lines.windows(2).position(is_tests).unwrap_or(lines.len());
    lines.get(..end).unwrap_or_default().join("\n")
}

/// Checks each doc comment: how it begins, and its words.
fn comments(source: &str, faults: &mut Vec<Fault>) {
    let mut comment = (0, String::new());
    for (at, line) in source.lines().chain([""]).enumerate() {
        let trimmed = line.trim_start();
        let text = trimmed.strip_prefix("///").or_else(|| trimmed.strip_prefix("//!"));
        match text {
            Some(text) => {
                if comment.1.is_empty() {
                    comment.0 = at + 1;
                }
                comment.1.push_str(text);
                comment.1.push('\n');
            }
            None if !comment.1.is_empty() => {
                rules::comment_start(comment.0, comment.1.trim(), faults);
                let prose = text::prose(&without_code(&comment.1));
                for sentence in text::split(&prose) {
                    rules::banned(comment.0, sentence, faults);
                }
                comment.1.clear();
            }
            None => {}
        }
    }
}

/// The comment without its blocks of code.
fn without_code(comment: &str) -> String {
    let mut parts = comment.split("```");
    let mut plain = String::new();
    while let Some(prose) = parts.next() {
        plain.push_str(prose);
        parts.next();
    }
    plain
}

fn check_message(line: usize, message: &str, faults: &mut Vec<Fault>) {
    let has_words =
        message.split_whitespace().filter(|word| is_word(word)).count() >= MESSAGE_WORDS_MIN;
    let is_code = ["SELECT ", "CREATE ", "INSERT ", "UPDATE ", "BEGIN", "<", "{\""].iter();
    if !has_words || is_code.clone().any(|code| message.trim_start().starts_with(code)) {
        return;
    }
    // Lines of a help's examples and tables are no sentences.
    let is_example = |line: &&str| line.starts_with("  ");
    for example in message.split('\n').filter(is_example) {
        rules::banned(line, example, faults);
    }
    for paragraph in message.split("\n\n") {
        let lines: Vec<&str> = paragraph.split('\n').filter(|line| !is_example(line)).collect();
        text::sentences(line, &text::prose(&lines.join("\n")), faults);
    }
}

fn is_word(word: &str) -> bool {
    let letters = word.trim_matches(|c: char| !c.is_alphabetic());
    letters.len() > 1 && letters.chars().all(|c| c.is_lowercase() || c == '-' || c == '\'')
}

/// The string literals of a source, with the lines on which they begin.
fn literals(source: &str) -> Vec<(usize, String)> {
    let mut all = Vec::new();
    let mut chars = source.chars().peekable();
    let (mut line, mut before) = (1, ' ');
    while let Some(c) = chars.next() {
        match c {
            '\n' => line += 1,
            '/' if chars.peek() == Some(&'/') => {
                while chars.peek().is_some_and(|next| *next != '\n') {
                    chars.next();
                }
            }
            // A character, not a lifetime.
            '\'' => {
                let mut ahead = chars.clone();
                let first = ahead.next();
                if first == Some('\\') || ahead.next() == Some('\'') {
                    let mut is_escaped = false;
                    for next in chars.by_ref() {
                        if next == '\'' && !is_escaped {
                            break;
                        }
                        is_escaped = next == '\\' && !is_escaped;
                    }
                }
            }
            '"' => {
                let begin = line;
                let is_raw = before == 'r' || before == '#';
                let mut text = String::new();
                while let Some(next) = chars.next() {
                    match next {
                        '\n' => line += 1,
                        '\\' if !is_raw => {
                            match chars.next() {
                                // The literal goes on at the next line's first letter.
                                Some('\n') => {
                                    line += 1;
                                    while chars.peek().is_some_and(|c| *c == ' ') {
                                        chars.next();
                                    }
                                }
                                Some('n') => text.push('\n'),
                                Some('"') => text.push('\''),
                                _ => text.push(' '),
                            }
                            continue;
                        }
                        '"' if !is_raw || before == 'r' || chars.peek() == Some(&'#') => break,
                        _ => {}
                    }
                    text.push(next);
                }
                all.push((begin, text));
            }
            _ => {}
        }
        before = c;
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules_of(source: &str) -> Vec<String> {
        file(source).into_iter().map(|fault| fault.rule).collect()
    }

    #[test]
    fn a_doc_comment_begins_with_a_noun_or_a_verb() {
        assert_eq!(
            rules_of("/// Of a cluster.\nfn a() {}"),
            ["a doc comment that begins with \"Of\""]
        );
        assert!(rules_of("/// The cluster's name.\nfn a() {}").is_empty());
        assert!(rules_of("// Of no interest.\nfn a() {}").is_empty());
    }

    #[test]
    fn messages_are_checked_and_tests_are_not() {
        let long = "format!(\"it is not possible to tell which \\\n   host began\")";
        assert_eq!(rules_of(long), ["\"tell\""]);
        assert!(rules_of("x(\"tell\")").is_empty());
        assert!(
            rules_of("#[cfg(test)]\nmod tests {\n x(\"he told me all about it\");\n}").is_empty()
        );
        assert!(rules_of("let c = '\"'; // told me all about it\n").is_empty());
    }
}
