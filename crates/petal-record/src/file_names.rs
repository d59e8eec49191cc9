//! Names of files in the order in which people number them: `awr.txt.8` before `awr.txt.16`.

use std::path::Path;

/// A sort key that compares the numbers in names as numbers.
pub fn natural(path: &Path) -> Vec<(String, u64, String)> {
    let name = path.to_string_lossy();
    let mut parts = Vec::new();
    let mut rest = &*name;
    while !rest.is_empty() {
        let text_to = rest.find(|sign: char| sign.is_ascii_digit()).unwrap_or(rest.len());
        let (text, after) = rest.split_at(text_to);
        let digits_to = after.find(|sign: char| !sign.is_ascii_digit()).unwrap_or(after.len());
        let (digits, after) = after.split_at(digits_to);
        // The text breaks the tie between equal numbers such as `01` and `1`.
        parts.push((text.to_owned(), digits.parse().unwrap_or(u64::MAX), digits.to_owned()));
        rest = after;
    }
    parts
}

/// The number that ends a name behind a dot: `8` of `awr.txt.8`.
pub fn number_at_end(name: &str) -> Option<u32> {
    let (before, digits) = name.strip_suffix(".gz").unwrap_or(name).rsplit_once('.')?;
    let is_number = (1..=6).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_digit());
    (is_number && before.contains('.')).then(|| digits.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_in_names_sort_as_numbers() {
        let mut names = ["awr.txt.16", "awr.txt.8", "a10b2", "a9b10", "awr.txt.128", "a9b9"];
        names.sort_by_cached_key(|name| natural(Path::new(name)));
        assert_eq!(names, ["a9b9", "a9b10", "a10b2", "awr.txt.8", "awr.txt.16", "awr.txt.128"]);
    }

    #[test]
    fn the_number_at_the_end_is_behind_a_second_dot() {
        for (name, number) in [
            ("x/awr.txt.128", Some(128)),
            ("awr.html.008.gz", Some(8)),
            ("awr.128", None),
            ("awr.txt", None),
            ("awr.txt.1234567", None),
        ] {
            assert_eq!(number_at_end(name), number, "{name}");
        }
    }
}
