//! Text reports on terminals of several widths: no line is longer than the terminal.

use super::table::within;

const WIDTHS: [usize; 8] = [60, 70, 80, 90, 100, 105, 112, 120];

/// Lines that are longer than the terminal, but for those that nothing may break: a command or a
/// line to paste, and a single word.
fn long_lines(shown: &str, columns: usize) -> Vec<&str> {
    let is_whole = |line: &str| {
        let is_to_paste = line.contains(" | served by: ");
        is_to_paste || line.starts_with("    $ ") || !line.trim().contains(' ')
    };
    let is_long = |line: &&str| line.chars().count() > columns && !is_whole(line);
    shown.lines().filter(is_long).collect()
}

/// Lays the report out at each width, and asserts that no line of it is longer.
#[track_caller]
pub fn look(name: &str, report: impl Fn() -> String) {
    for columns in WIDTHS {
        let shown = within(columns, &report);
        assert!(!shown.trim().is_empty(), "{name}");
        let long = long_lines(&shown, columns);
        assert!(long.is_empty(), "{name} at {columns}: {}", long.join("\n"));
    }
}
