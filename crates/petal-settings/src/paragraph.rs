//! Text broken into lines of a given width: help, messages and reports are all laid out by this.

use super::printable::printable_line;

/// Breaks a text at spaces: the first line begins with `first`, the others with `rest`. A word
/// longer than a line stays whole.
pub fn paragraph(first: &str, rest: &str, text: &str, columns: usize) -> String {
    let length = |text: &str| text.chars().count();
    let mut shown = String::new();
    let mut line = printable_line(first).into_owned();
    let mut is_empty = true;
    for word in text.split_whitespace() {
        if !is_empty && length(&line) + 1 + length(word) > columns {
            shown.push_str(line.trim_end());
            shown.push('\n');
            line = rest.to_owned();
            is_empty = true;
        }
        if !is_empty {
            line.push(' ');
        }
        line.push_str(word);
        is_empty = false;
    }
    shown.push_str(line.trim_end());
    shown.push('\n');
    shown
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn paragraphs_keep_every_word_and_the_width(
            words in prop::collection::vec("[a-z]{1,20}", 0..60), columns in 40usize..120,
        ) {
            let shown = paragraph("- ", "  ", &words.join(" "), columns);
            prop_assert!(shown.lines().all(|line| line.chars().count() <= columns));
            let back: Vec<&str> = shown.split_whitespace().filter(|word| *word != "-").collect();
            prop_assert_eq!(back, words);
        }
    }
}
