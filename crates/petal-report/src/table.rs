//! The one table of all reports, for text and pages; and tables and paragraphs as text of a fixed
//! width for a terminal and a mail: [`WIDTH`], or the width of [`within`].

use std::borrow::Cow;
use std::cell::Cell as Shared;

use petal_host::numbers::{UNKNOWN, counted};
use petal_settings::paragraph;
use petal_settings::printable::printable_line;

/// Columns of a line of words in a file or a pipe, and the most on a terminal.
pub const WIDTH: usize = 100;
/// Letters of a word that a cell never breaks, such as a figure.
const WHOLE_WORD_MAX: usize = 24;
/// Narrower than this, lines are as of a terminal of this width.
const WIDTH_MIN: usize = 40;

thread_local! {
    /// Columns of the terminal; none for a file or a pipe.
    static TERMINAL: Shared<Option<usize>> = const { Shared::new(None) };
}

/// Lays out the text of `report` for a terminal of this width.
pub fn within<T>(columns: usize, report: impl FnOnce() -> T) -> T {
    let before = TERMINAL.replace(Some(columns.max(WIDTH_MIN)));
    let made = report();
    TERMINAL.set(before);
    made
}

/// Columns that a line of words may have.
pub fn columns() -> usize {
    table_columns().min(WIDTH)
}

/// Columns that a table may have: all of a terminal's, any number in a file or a pipe.
fn table_columns() -> usize {
    TERMINAL.get().unwrap_or(usize::MAX)
}

const GAP: &str = "  ";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Align {
    Left,
    Right,
}

/// A table: a name and a side for each column, its rows, and its texts.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Table {
    /// Caption on a page; text has a section's title instead.
    pub caption: String,
    /// A page shows it closed until the reader opens it.
    pub is_folded: bool,
    /// A page lets its reader sort and filter the rows.
    pub is_sortable: bool,
    columns: Vec<(String, Align)>,
    rows: Vec<Vec<Cell>>,
    /// Remarks on its figures, below them.
    pub note: String,
}

/// A field of a table: its text, and the additions of a page.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Cell {
    pub text: String,
    /// A path relative to the page.
    pub link: Option<String>,
    /// The value of a box to tick, before the text.
    pub tick: Option<String>,
    /// Share of one, drawn next to the text.
    pub share: Option<f64>,
    /// A drawing of petal's own, before the text.
    pub picture: String,
    /// A figure that is no result: struck out on a page, which sorts it below all others, and in
    /// parentheses in text.
    pub is_muted: bool,
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self { text, ..Self::default() }
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        text.to_owned().into()
    }
}

impl Cell {
    /// A figure that may be no result.
    pub fn figure(text: String, is_muted: bool) -> Self {
        Self { text, is_muted, ..Self::default() }
    }

    fn markdown(&self) -> String {
        let text = markdown(&self.text);
        if self.is_muted && self.text != UNKNOWN { format!("~~{text}~~") } else { text }
    }

    /// The cell in text without strokes.
    fn plain(&self) -> Cow<'_, str> {
        match self.is_muted && self.text != UNKNOWN {
            true => format!("({})", self.text).into(),
            false => self.text.as_str().into(),
        }
    }

    /// Returns the length of the bar next to the text, in percent.
    pub fn bar_pct(&self) -> String {
        format!("{:.1}", self.share.unwrap_or(0.0).clamp(0.0, 1.0) * 100.0)
    }
}

impl Table {
    /// A table with columns that are not known beforehand.
    pub fn new(columns: &[(&str, Align)]) -> Self {
        let shown = |name: &str| printable_line(name).into_owned();
        let columns = columns.iter().map(|(name, align)| (shown(name), *align)).collect();
        Self { columns, ..Self::default() }
    }

    /// Builds a table from its heading, such as `event | waits: | class`: figures are in the
    /// columns whose names end in a colon, at their right.
    pub fn headed(heading: &str) -> Self {
        let columns = heading.split(" | ").map(|name| match name.strip_suffix(':') {
            Some(name) => (name, Align::Right),
            None => (name, Align::Left),
        });
        Self::new(&columns.collect::<Vec<_>>())
    }

    /// A table of names and their figures, by its heading: `file | reads | MB`.
    pub fn of_figures(heading: &str) -> Self {
        Self::of_columns(heading.split(" | "))
    }

    /// A table of names and their figures, by the names of its columns.
    pub fn of_columns(names: impl IntoIterator<Item = impl AsRef<str>>) -> Self {
        let sides = std::iter::once(Align::Left).chain(std::iter::repeat(Align::Right));
        let shown = |name: &str| printable_line(name).into_owned();
        let names = names.into_iter().map(|name| shown(name.as_ref()));
        Self { columns: names.zip(sides).collect(), ..Self::default() }
    }

    pub fn captioned(self, caption: impl Into<String>) -> Self {
        Self { caption: caption.into(), ..self }
    }

    pub fn with_note(self, note: impl Into<String>) -> Self {
        Self { note: note.into(), ..self }
    }

    pub fn sortable(self) -> Self {
        Self { is_sortable: true, ..self }
    }

    pub fn folded(self) -> Self {
        Self { is_folded: true, ..self }
    }

    pub fn row(&mut self, cells: impl IntoIterator<Item = impl Into<Cell>>) {
        let shown = |cell: Cell| Cell { text: printable_line(&cell.text).into_owned(), ..cell };
        self.rows.push(cells.into_iter().map(|cell| shown(cell.into())).collect());
    }

    pub fn with_rows<C: Into<Cell>>(
        mut self,
        rows: impl IntoIterator<Item = impl IntoIterator<Item = C>>,
    ) -> Self {
        rows.into_iter().for_each(|cells| self.row(cells));
        self
    }

    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Returns the names of the columns, and whether figures are in them.
    pub fn columns(&self) -> impl Iterator<Item = (&str, bool)> {
        self.columns.iter().map(|(name, align)| (name.as_str(), *align == Align::Right))
    }

    /// Returns true if this column has figures.
    pub fn is_figure(&self, column: &usize) -> bool {
        self.columns.get(*column).is_some_and(|(_, align)| *align == Align::Right)
    }

    pub fn rows(&self) -> &[Vec<Cell>] {
        &self.rows
    }

    #[cfg(test)]
    pub fn texts(&self, row: usize) -> Vec<&str> {
        self.rows[row].iter().map(|cell| cell.text.as_str()).collect()
    }

    /// Renders the table as text, with a line under the names, and its note below. No line ends in
    /// spaces. If the table is too wide for a terminal, the text of its last column is wrapped;
    /// else the table is split, with the leading columns of words before the others in each part.
    pub fn render(&self) -> String {
        let table = self.rendered_parts().join("\n");
        if self.note.is_empty() { table } else { table + &paragraph("", "", &self.note) }
    }

    /// Renders the columns that fit on a narrower terminal, and says whether these are all.
    pub fn render_fitting(&self) -> (String, bool) {
        let mut parts = self.rendered_parts().into_iter();
        (parts.next().unwrap_or_default(), parts.next().is_none())
    }

    /// Renders the table for a narrower terminal without the columns of these names, in this order,
    /// until the others fit. Also returns the names of the columns that are left out.
    pub fn render_without<'a>(&self, optional: &[&'a str]) -> (String, Vec<&'a str>) {
        let (mut kept, mut left_out) = (self.clone(), Vec::new());
        for name in optional {
            if kept.rendered_parts().len() == 1 {
                break;
            }
            let is_kept: Vec<bool> = kept.columns().map(|(column, _)| column != *name).collect();
            fn retain<T>(all: &mut Vec<T>, is_kept: &[bool]) {
                let mut kept = is_kept.iter();
                all.retain(|_| kept.next().is_none_or(|kept| *kept));
            }
            retain(&mut kept.columns, &is_kept);
            kept.rows.iter_mut().for_each(|row| retain(row, &is_kept));
            left_out.push(*name);
        }
        (kept.render(), left_out)
    }

    fn rendered_parts(&self) -> Vec<String> {
        let mut widths: Vec<usize> = self
            .columns
            .iter()
            .enumerate()
            .map(|(at, (name, _))| {
                let cells = self.rows.iter().filter_map(|row| row.get(at));
                cells.map(|cell| length(&cell.plain())).chain([length(name)]).max().unwrap_or(0)
            })
            .collect();
        if let (Some(room), Some(last)) = (self.room_for_text(&widths), widths.last_mut()) {
            *last = room;
        }
        let leading = self.leading(&widths);
        let taken: usize = widths.iter().take(leading).map(|width| width + GAP.len()).sum();
        for (at, width) in widths.iter_mut().enumerate().skip(leading) {
            let room = table_columns().saturating_sub(taken);
            *width = (*width).min(room.max(self.longest_word(at).min(WHOLE_WORD_MAX)));
        }
        let names: Vec<Cell> = self.columns().map(|(name, _)| name.into()).collect();
        let rules: Vec<Cell> = widths.iter().map(|&width| "-".repeat(width).into()).collect();
        let part = |shown: Vec<usize>| -> String {
            let lines = [&names, &rules].into_iter().chain(&self.rows);
            lines.map(|cells| self.line(cells, &widths, &shown)).collect()
        };
        parts(&widths, leading).into_iter().map(part).collect()
    }

    /// Returns the number of columns that each part of a split table begins with: the columns of
    /// words before the first figure if they leave half of the terminal to the others, else one.
    fn leading(&self, widths: &[usize]) -> usize {
        let words = self.columns().take_while(|(_, is_figure)| !is_figure).count();
        let taken: usize = widths.iter().take(words).map(|width| width + GAP.len()).sum();
        let is_fitting = words < widths.len() && taken <= table_columns() / 2;
        if is_fitting { words.max(1) } else { 1 }
    }

    fn longest_word(&self, column: usize) -> usize {
        let texts = self.rows.iter().filter_map(|row| row.get(column));
        let longest = |text: &str| text.split_whitespace().map(length).max().unwrap_or(0);
        let name = self.columns.get(column).map_or(0, |(name, _)| length(name));
        texts.map(|cell| longest(&cell.plain())).chain([name]).max().unwrap_or(0)
    }

    /// Renders the table as one of GitHub's Markdown, at most `rows_max` rows of it.
    pub fn markdown(&self, rows_max: usize) -> String {
        let row = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
        let names = row(self.columns().map(|(name, _)| markdown(name)).collect());
        let rule = |(_, is_figure)| if is_figure { "---:" } else { "---" }.to_owned();
        let rules = row(self.columns().map(rule).collect());
        let shown = self.rows.iter().take(rows_max);
        let rows = shown.map(|cells| row(cells.iter().map(Cell::markdown).collect()));
        let more = match self.rows.len().saturating_sub(rows_max) {
            0 => String::new(),
            more => format!("\n{more} more rows\n"),
        };
        format!("{names}{rules}{}{more}", rows.collect::<String>())
    }

    /// Returns the width of a last column of words on a narrower terminal; None if it needs no
    /// less, or cannot be wrapped.
    fn room_for_text(&self, widths: &[usize]) -> Option<usize> {
        let ((_, align), (wanted, others)) = self.columns.last().zip(widths.split_last())?;
        let taken = others.iter().map(|width| width + GAP.len()).sum();
        let room = table_columns().checked_sub(taken)?;
        let longest = self.longest_word(others.len());
        (*align == Align::Left && (longest..*wanted).contains(&room)).then_some(room)
    }

    /// The cells of these columns; a text that is longer than its column goes on below.
    fn line(&self, cells: &[Cell], widths: &[usize], shown: &[usize]) -> String {
        let known = shown.iter().filter_map(|&at| {
            let cell = cells.get(at).map_or(Cow::Borrowed(""), Cell::plain);
            let ((_, align), width) = (self.columns.get(at)?, *widths.get(at)?);
            let broken = match length(&cell) > width {
                true => paragraph::paragraph("", "", &cell, width),
                false => cell.into_owned(),
            };
            let in_width = |line: &str| -> Vec<String> {
                let letters: Vec<char> = line.chars().collect();
                letters.chunks(width.max(1)).map(|part| part.iter().collect()).collect()
            };
            let lines: Vec<String> = broken.lines().flat_map(in_width).collect();
            Some((*align, width, lines))
        });
        let known: Vec<_> = known.collect();
        let height = known.iter().map(|(.., lines)| lines.len()).max().unwrap_or(0).max(1);
        let line = |row: usize| {
            let padded = known.iter().map(|(align, width, lines)| {
                let cell = lines.get(row).map_or("", String::as_str);
                let space = " ".repeat(width.saturating_sub(length(cell)));
                match align {
                    Align::Left => format!("{cell}{space}"),
                    Align::Right => format!("{space}{cell}"),
                }
            });
            format!("{}\n", padded.collect::<Vec<_>>().join(GAP).trim_end())
        };
        (0..height).map(line).collect()
    }
}

/// Splits columns into parts: all of them, or on a narrower terminal as many as fit behind the
/// leading ones.
fn parts(widths: &[usize], leading: usize) -> Vec<Vec<usize>> {
    let width_of = |part: &[usize]| {
        let cells: usize = part.iter().filter_map(|&at| widths.get(at)).sum();
        cells + GAP.len() * part.len().saturating_sub(1)
    };
    let first: Vec<usize> = (0..leading.min(widths.len())).collect();
    let mut parts = Vec::from_iter((!first.is_empty()).then(|| first.clone()));
    for at in leading..widths.len() {
        if let Some(part) = parts.last_mut() {
            part.push(at);
            if part.len() > leading + 1 && width_of(part) > table_columns() {
                part.pop();
                parts.push(first.iter().copied().chain([at]).collect());
            }
        }
    }
    parts
}

fn length(text: &str) -> usize {
    text.chars().count()
}

/// Escapes text for Markdown, also in a table: no markup in it takes effect, and nobody is
/// notified by a name or a number in it.
pub fn markdown(text: &str) -> String {
    let mut shown = String::new();
    for letter in printable_line(text).chars() {
        match letter {
            '<' => shown.push_str("&lt;"),
            '&' => shown.push_str("&amp;"),
            '@' | '#' => shown.extend([letter.to_string().as_str(), "&#8203;"]),
            '\\' | '|' | '`' | '*' | '[' | ']' | '!' | '~' => {
                shown.extend(["\\", letter.encode_utf8(&mut [0; 4])])
            }
            letter => shown.push(letter),
        }
    }
    shown
}

/// Lines of a screen, with one left for the prompt.
pub const SCREEN_LINES: usize = 39;

/// Returns the first paragraphs, each whole: at most `most`, and as many as fit in `lines`. A last
/// line has the number of the others and their place.
pub fn fitting_paragraphs(
    paragraphs: &[String],
    most: usize,
    lines: usize,
    noun: &str,
    place: &str,
) -> String {
    let (mut out, mut room) = (String::new(), lines);
    for (shown, text) in paragraphs.iter().enumerate() {
        let is_last = shown + 1 == paragraphs.len();
        let height = text.lines().count() + usize::from(!is_last);
        if shown == most || height > room {
            let more = rest(paragraphs.len() - shown, noun, place);
            return out + if shown == 0 { more.replacen("more ", "", 1) } else { more }.as_str();
        }
        room -= text.lines().count();
        out.push_str(text);
    }
    out
}

/// Lays out as many of `most` rows as fit in `lines`; at least one.
pub fn fitting(most: usize, lines: usize, text: impl Fn(usize) -> String) -> String {
    let mut count = most;
    loop {
        let laid_out = text(count);
        if count <= 1 || laid_out.lines().count() <= lines {
            return laid_out;
        }
        count -= 1;
    }
}

/// Returns the first lines of a list that fit on a screen, and the number of the others.
pub fn on_a_screen(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    if lines.len() <= SCREEN_LINES {
        return text.to_owned();
    }
    let (shown, others) = lines.split_at(SCREEN_LINES - 1);
    format!("{}\n{}", shown.join("\n"), rest(others.len(), "line", "with --full"))
}

/// A line with the number of left-out parts and their place; empty without any.
pub fn rest(more: usize, noun: &str, place: &str) -> String {
    match more as u64 {
        0 => String::new(),
        more => format!("{} {place}\n", counted(more, &format!("more {noun}"))),
    }
}

/// Returns one line with its end, for any text.
pub fn line(text: &str) -> String {
    format!("{}\n", printable_line(text))
}

/// Breaks a text at spaces, at the width that [`within`] says: the first line begins with `first`,
/// the others with `rest`.
pub fn paragraph(first: &str, rest: &str, text: &str) -> String {
    paragraph::paragraph(first, rest, text, columns())
}

/// Breaks a command as [`paragraph`] does, so that a shell takes its lines as one. A comment at its
/// end has a separate line.
pub fn command(first: &str, text: &str) -> String {
    let (text, comment) = text.split_once(COMMENT).unwrap_or((text, ""));
    let lines = paragraph::paragraph(first, "  ", text, columns().saturating_sub(2));
    let comment = match comment {
        "" => String::new(),
        _ => format!("  {}{comment}\n", COMMENT.trim_start()),
    };
    lines.trim_end().replace('\n', " \\\n") + "\n" + &comment
}

/// The begin of a comment behind a command.
const COMMENT: &str = "  # ";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comment_behind_a_command_is_no_part_of_its_lines() {
        let shown =
            within(40, || command("next ", "petal setup --replace --db sqlite:a  # removes a"));
        assert_eq!(shown, "next petal setup --replace --db \\\n  sqlite:a\n  # removes a\n");
    }

    #[test]
    fn figures_are_under_their_names() {
        let mut table = Table::of_figures("event | waits");
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
        let mut table = Table::of_figures("run | first figure | second figure | third");
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

    #[test]
    fn each_part_of_a_table_begins_with_its_names_and_breaks_no_figure() {
        let mut table = Table::headed("times | of | reads: | the slowest: | note");
        let path = "/var/lib/a/path/that/is/longer/than/the/whole/terminal/db";
        table.row(["vda read", "all", "1,234,567", "12,345 to 67,890", "of the whole run"]);
        table.row(["vda write", "others", "9", "1", path]);
        let text = within(40, || table.render());
        insta::assert_snapshot!(text, @r"
        times      of          reads
        ---------  ------  ---------
        vda read   all     1,234,567
        vda write  others          9

        times      of           the slowest
        ---------  ------  ----------------
        vda read   all     12,345 to 67,890
        vda write  others                 1

        times      of      note
        ---------  ------  ------------------------
        vda read   all     of the whole run
        vda write  others  /var/lib/a/path/that/is/
                           longer/than/the/whole/te
                           rminal/db
        ");
    }

    #[test]
    fn paragraphs_that_do_not_fit_are_counted_and_never_cut() {
        let notes: Vec<String> = (1..=4).map(|at| format!("- note {at}\n  of two\n")).collect();
        let shown = |most, lines| fitting_paragraphs(&notes, most, lines, "note", "in costs.json");
        assert_eq!(shown(2, 9), notes[..2].concat() + "2 more notes in costs.json\n");
        assert_eq!(shown(4, 8), notes.concat());
        assert_eq!(shown(4, 7), notes[..3].concat() + "1 more note in costs.json\n");
        assert_eq!(shown(4, 2), "4 notes in costs.json\n");
    }

    #[test]
    fn a_last_column_of_words_is_broken_before_a_table_is_parted() {
        let mut table = Table::headed("verdict | value");
        table.row(["good", "a value of more words than a narrow terminal has room for"]);
        table.row(["note", "short"]);
        let text = within(40, || table.render());
        insta::assert_snapshot!(text, @r"
        verdict  value
        -------  -------------------------------
        good     a value of more words than a
                 narrow terminal has room for
        note     short
        ");
    }
}
