//! Text tables and paragraphs of a fixed width, as a terminal and a mail show them: [`WIDTH`], or
//! what [`within`] lays out for a narrower terminal.

use std::cell::Cell;

use crate::settings::printable::printable_line;

/// Columns of a report in a file or a pipe, and the most on a terminal.
pub const WIDTH: usize = 100;
/// Narrower than this, lines are as of a terminal of this width.
const WIDTH_MIN: usize = 40;

thread_local! {
    static COLUMNS: Cell<usize> = const { Cell::new(WIDTH) };
}

/// Has `report` lay out its text for a terminal of so many columns.
pub fn within<T>(columns: usize, report: impl FnOnce() -> T) -> T {
    let before = COLUMNS.replace(columns.clamp(WIDTH_MIN, WIDTH));
    let made = report();
    COLUMNS.set(before);
    made
}

/// Columns that a line may have.
pub fn columns() -> usize {
    COLUMNS.get()
}

const GAP: &str = "  ";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Align {
    Left,
    Right,
}

/// A table whose columns are as wide as their widest cell.
pub struct Table {
    columns: Vec<(String, Align)>,
    rows: Vec<Vec<String>>,
}

impl Table {
    pub fn new(columns: &[(&str, Align)]) -> Self {
        let shown = |name: &str| printable_line(name).into_owned();
        let columns = columns.iter().map(|(name, align)| (shown(name), *align)).collect();
        Self { columns, rows: Vec::new() }
    }

    /// The first column at the left, all others at the right: names and their figures.
    pub fn of_figures(names: &[&str]) -> Self {
        let align = |position| if position == 0 { Align::Left } else { Align::Right };
        let columns =
            names.iter().enumerate().map(|(at, name)| ((*name).to_owned(), align(at))).collect();
        Self { columns, rows: Vec::new() }
    }

    pub fn row(&mut self, cells: impl IntoIterator<Item = impl Into<String>>) {
        let cells = cells.into_iter().map(|cell| printable_line(&cell.into()).into_owned());
        self.rows.push(cells.collect());
    }

    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    pub fn columns(&self) -> impl Iterator<Item = (&str, Align)> {
        self.columns.iter().map(|(name, align)| (name.as_str(), *align))
    }

    pub fn rows(&self) -> &[Vec<String>] {
        &self.rows
    }

    /// With a line under the names. No line ends in spaces. What is too wide for a
    /// terminal is parted: the first column stands before the others in each part.
    pub fn render(&self) -> String {
        let widths: Vec<usize> = self
            .columns
            .iter()
            .enumerate()
            .map(|(at, (name, _))| {
                let cells = self.rows.iter().filter_map(|row| row.get(at));
                cells.map(|cell| length(cell)).chain([length(name)]).max().unwrap_or(0)
            })
            .collect();
        let names: Vec<String> = self.columns.iter().map(|(name, _)| name.clone()).collect();
        let rules: Vec<String> = widths.iter().map(|&width| "-".repeat(width)).collect();
        let part = |shown: Vec<usize>| -> String {
            let lines = [&names, &rules].into_iter().chain(&self.rows);
            lines.map(|cells| self.line(cells, &widths, &shown)).collect()
        };
        parts(&widths).into_iter().map(part).collect::<Vec<_>>().join("\n")
    }

    /// The cells of these columns.
    fn line(&self, cells: &[String], widths: &[usize], shown: &[usize]) -> String {
        let padded: Vec<String> = shown
            .iter()
            .filter_map(|&at| Some((at, (self.columns.get(at)?, *widths.get(at)?))))
            .map(|(at, ((_, align), width))| {
                let cell = cells.get(at).map_or("", String::as_str);
                let space = " ".repeat(width.saturating_sub(length(cell)));
                match align {
                    Align::Left => format!("{cell}{space}"),
                    Align::Right => format!("{space}{cell}"),
                }
            })
            .collect();
        format!("{}\n", padded.join(GAP).trim_end())
    }
}

/// Which columns stand beside each other: all of them, or on a narrower terminal as many as fit
/// behind the first.
fn parts(widths: &[usize]) -> Vec<Vec<usize>> {
    let width_of = |part: &[usize]| {
        let cells: usize = part.iter().filter_map(|&at| widths.get(at)).sum();
        cells + GAP.len() * part.len().saturating_sub(1)
    };
    let mut parts: Vec<Vec<usize>> = Vec::new();
    for at in 0..widths.len() {
        match parts.last_mut() {
            None => parts.push(vec![at]),
            Some(part) if part.len() == 1 => part.push(at),
            Some(part) => {
                part.push(at);
                if columns() < WIDTH && width_of(part) > columns() {
                    part.pop();
                    parts.push(vec![0, at]);
                }
            }
        }
    }
    parts
}

fn length(text: &str) -> usize {
    text.chars().count()
}

/// One line with its end, whatever the text holds.
pub fn line(text: &str) -> String {
    format!("{}\n", printable_line(text))
}

/// Breaks a text at spaces: the first line begins with `first`, the others with `rest`. A word
/// longer than a line stays whole.
pub fn paragraph(first: &str, rest: &str, text: &str) -> String {
    let mut shown = String::new();
    let mut line = printable_line(first).into_owned();
    let mut is_empty = true;
    for word in text.split_whitespace() {
        if !is_empty && length(&line) + 1 + length(word) > columns() {
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

    #[test]
    fn figures_stand_under_their_names() {
        let mut table = Table::of_figures(&["event", "waits"]);
        table.row(["main read", "1,234"]);
        table.row(["µs", "7"]);
        insta::assert_snapshot!(table.render(), @r"
        event      waits
        ---------  -----
        main read  1,234
        µs             7
        ");
    }

    #[test]
    fn a_table_that_is_too_wide_is_parted_behind_its_first_column() {
        let mut table = Table::of_figures(&["run", "first figure", "second figure", "third"]);
        table.row(["a name of a run", "1", "2", "3"]);
        let text = within(44, || table.render());
        insta::assert_snapshot!(text, @r"
        run              first figure  second figure
        ---------------  ------------  -------------
        a name of a run             1              2

        run              third
        ---------------  -----
        a name of a run      3
        ");
        assert_eq!(table.render().lines().count(), 3);
    }

    proptest! {
        #[test]
        fn paragraphs_keep_every_word_and_the_width(
            words in prop::collection::vec("[a-z]{1,20}", 0..60), columns in 40usize..120,
        ) {
            let text = words.join(" ");
            let shown = within(columns, || paragraph("- ", "  ", &text));
            prop_assert!(shown.lines().all(|line| line.chars().count() <= columns.min(WIDTH)));
            let back: Vec<&str> = shown.split_whitespace().filter(|word| *word != "-").collect();
            prop_assert_eq!(back, words);
        }
    }
}
