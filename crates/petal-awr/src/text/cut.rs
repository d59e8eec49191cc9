//! Lines that lost their ends or their first blanks.

use std::collections::BTreeSet;

use super::{grid, lines, names_report};

/// Lines of a text that is more than a section.
const LINES_MIN: usize = 100;
/// Width of a report of one instance; reports of a cluster are wider.
const WIDTH: usize = 80;
/// Width of the line that ends a table.
const END_WIDTH: usize = 71;
/// Different lines of dashes that end at one place by chance.
const RULES_MAX: usize = 1;

/// Returns the width of the longest lines if lines were possibly cut there.
pub fn width(text: &str) -> Option<usize> {
    let (mut shown, mut longest, mut is_cluster) = (0, 0, false);
    let mut rules: BTreeSet<String> = BTreeSet::new();
    let mut is_end_cut = false;
    for line in lines(text) {
        let width = line.chars().count();
        shown += usize::from(width > 0);
        let title = line.trim_start();
        is_cluster |=
            names_report(title) && (title.contains("(RAC)") || title.contains("RAC REPORT"));
        if width > longest {
            longest = width;
            rules.clear();
            is_end_cut = false;
        }
        if width == longest && grid::columns_of_dashes(&line) > 1 {
            rules.insert(line.clone().into_owned());
        }
        let dashes = line.trim_start();
        let is_far = width > dashes.len() + 7 && dashes.bytes().all(|byte| byte == b'-');
        is_end_cut |= is_far && width == longest && width < END_WIDTH;
    }
    let is_many = rules.len() > RULES_MAX;
    let is_cut = match longest < WIDTH {
        true => shown >= LINES_MIN || is_many || is_end_cut,
        false => is_cluster && is_many,
    };
    is_cut.then_some(longest)
}

/// True if no line begins with a blank: each table ends with a line of dashes far from the margin.
pub fn is_stripped(text: &str) -> bool {
    const TABLES_MIN: usize = 2;
    let mut tables = 0;
    for line in lines(text) {
        if line.starts_with(' ') {
            return false;
        }
        tables += usize::from(grid::columns_of_dashes(&line) > 1);
    }
    tables >= TABLES_MIN
}
