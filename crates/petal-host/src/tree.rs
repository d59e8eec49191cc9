//! The kernel's small files in /proc and /sys: text, numbers, numbered folders.

use std::fs::{self, DirEntry};
use std::path::{Path, PathBuf};

use crate::files;

/// A file's text without its last newline; `None` if it is missing, not text, or empty.
pub fn read(path: &Path) -> Option<String> {
    let text = files::system_text(path).ok()?;
    let text = text.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

pub fn number(path: &Path) -> Option<u64> {
    read(path)?.parse().ok()
}

/// The value of a line `key:  value`.
pub fn value_of<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':')).map(str::trim)
}

/// The first number of the line that begins with `key`: `key 12 3`, `key: 12 kB`.
pub fn number_after(text: &str, key: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix([' ', ':']))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

/// The entries of a folder; none if it cannot be read.
pub fn entries(folder: &Path) -> impl Iterator<Item = DirEntry> + use<> {
    fs::read_dir(folder).into_iter().flatten().flatten()
}

/// Entries of a folder that are a word and a number, as cpu0 or state3.
pub fn numbered(folder: &Path, word: &str) -> Vec<PathBuf> {
    let is_numbered = |name: &str| {
        name.strip_prefix(word)
            .is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|b| b.is_ascii_digit()))
    };
    entries(folder)
        .filter(|entry| entry.file_name().to_str().is_some_and(is_numbered))
        .map(|entry| entry.path())
        .collect()
}

/// The chosen one of a list such as `always [madvise] never`.
pub fn in_brackets(list: &str) -> Option<String> {
    let (_, rest) = list.split_once('[')?;
    let (chosen, _) = rest.split_once(']')?;
    (!chosen.is_empty()).then(|| chosen.to_owned())
}
