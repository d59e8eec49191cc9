//! HTML report as a [`ParsedReport`]. The tokens come from a tokenizer that follows the HTML
//! standard (upper case, attributes without quotes, entities). This module builds the tables
//! without a tree, so that unclosed elements and deep nesting cost no more than their own bytes.

mod tokens;

use std::borrow::Cow;
use std::sync::Arc;

use memchr::memmem;

use super::page::{PageTable, ParsedReport, TableColumn, TableRow, TableRows};
use super::topic::{self, Topic};

use tokens::tokenize;

/// Maximum depth of nested tables that are read as separate tables.
const DEPTH_MAX: usize = 8;
/// Bytes kept of a cell or of the text between tables, the last ones: names, titles and figures are
/// short, and SQL is not read.
const TEXT_MAX: usize = 16 << 10;
const CELLS_MAX: usize = 1_000_000;
const COLSPAN_MAX: usize = 64;
/// Title that a report gives itself.
const OWN_HEADING: &str = "WORKLOAD REPOSITORY";
/// Mark inside a text: a heading follows. `ITEM` marks a list item or a link, which is not a title.
const HEADING: char = '\u{1}';
const ITEM: char = '\u{2}';

/// Splits a text into its reports. Each begins with its `<html>`, or with its own title if it has
/// none.
pub fn reports(text: &str) -> Vec<&str> {
    let mut reports = Vec::new();
    let (mut from, mut heading) = (0, None);
    let headings = memmem::find_iter(text.as_bytes(), OWN_HEADING);
    for at in headings.filter(|at| begins_element(text, *at)) {
        if let Some(before) = heading.replace(at) {
            let between = text.get(before..at).unwrap_or_default().to_ascii_lowercase();
            let to = between.rfind("<html").map_or(at, |begin| before + begin);
            reports.extend(text.get(from..to));
            from = to;
        }
    }
    reports.extend(text.get(from..));
    reports
}

/// True if only blanks precede this position in its element, and the element is not a title, cell
/// or link.
fn begins_element(text: &str, at: usize) -> bool {
    let before = text.get(..at).unwrap_or_default().trim_end();
    let tag = before.strip_suffix('>').and_then(|before| before.rsplit_once('<'));
    tag.is_some_and(|(_, tag)| {
        let name = tag.split(char::is_whitespace).next().unwrap_or_default();
        !["title", "td", "th", "a", "li"].iter().any(|other| name.eq_ignore_ascii_case(other))
    })
}

pub fn page(text: &str) -> ParsedReport {
    page_of(text, true)
}

/// Reads a page. With `leaves_out` false, the tokenizer reads all of the text; tests compare with
/// that.
fn page_of(text: &str, leaves_out: bool) -> ParsedReport {
    let page = tokenize(text, true, leaves_out).finish();
    // A style or script that is never closed hides the rest, as in a browser.
    if page.tables.is_empty() { tokenize(text, false, leaves_out).finish() } else { page }
}

/// Builds tables from elements and text.
#[derive(Default)]
struct PageBuilder {
    page: ParsedReport,
    /// Tables that are open, innermost last.
    open: Vec<OpenTable>,
    /// Text since the last table, outside cells.
    text: String,
    /// Set inside `style`, `script` or `title`.
    hidden: bool,
    is_full: bool,
}

/// A table that is being read.
#[derive(Default)]
struct OpenTable {
    summary: String,
    titles: TitlesAbove,
    rows: TableRows,
    /// Kind of each finished row; `kind` is the current row's.
    kinds: Vec<RowKind>,
    kind: RowKind,
    cell: Option<OpenCell>,
    /// Text of the current cell.
    text: String,
    cells: usize,
    /// Section of the table: outer `None` until its headings are read, inner `None` if petal does
    /// not read the section.
    section: Option<Option<TableSection>>,
    /// Set if the table is not read and the tokenizer's reader has not yet skipped its rows.
    is_unread: bool,
}

/// Titles above a table, since the previous table.
#[derive(Default)]
struct TitlesAbove {
    heading: String,
    nearest: String,
}

/// A section of the report that petal reads, found by its table's headings.
struct TableSection {
    topic: Topic,
    title: Arc<str>,
    columns: Vec<TableColumn>,
    /// Number of heading rows.
    head: usize,
}

#[derive(Clone, Copy)]
struct OpenCell {
    is_heading: bool,
    colspan: usize,
}

#[derive(Default, Clone, Copy)]
struct RowKind {
    cells: usize,
    has_headings: bool,
    /// Set if a cell is neither a heading nor blank.
    has_others: bool,
}

impl PageBuilder {
    fn start(&mut self, name: &str, colspan: usize, summary: &str) {
        if self.is_full {
            return;
        }
        match name {
            "td" | "th" => self.start_cell(name == "th", colspan),
            "tr" => self.start_row(),
            "table" => self.table(summary),
            "style" | "script" | "title" => self.hidden = true,
            "br" => self.string(" "),
            "li" | "a" => self.mark(ITEM),
            "h1" | "h2" | "h3" | "h4" | "h5" | "h6" => self.mark(HEADING),
            name if is_block(name) => self.mark('\n'),
            _ => {}
        }
    }

    fn start_row(&mut self) {
        if let Some(open) = self.open.last_mut() {
            open.close_cell();
            open.end_row();
            open.settle();
        }
    }

    fn start_cell(&mut self, is_heading: bool, colspan: usize) {
        if let Some(open) = self.open.last_mut() {
            open.close_cell();
            open.cell = Some(OpenCell { is_heading, colspan });
        }
    }

    fn end_cell(&mut self) {
        if let Some(open) = self.open.last_mut() {
            open.close_cell();
        }
    }

    /// Returns true, once for each table, if its rows are not read.
    fn takes_unread(&mut self) -> bool {
        self.open.last_mut().is_some_and(|open| std::mem::take(&mut open.is_unread))
    }

    fn end(&mut self, name: &str) {
        if self.is_full {
            return;
        }
        match name {
            "tr" | "td" | "th" => self.end_cell(),
            "table" => self.end_table(),
            "style" | "script" | "title" => self.hidden = false,
            "html" => self.page.is_ended = true,
            "li" | "a" | "h1" | "h2" | "h3" | "h4" | "h5" | "h6" => self.mark('\n'),
            _ if is_block(name) => self.mark('\n'),
            _ => {}
        }
    }

    /// Starts a new part of a text, with its mark if it is a heading or an item.
    fn mark(&mut self, mark: char) {
        if let Some(text) = self.current() {
            text.push('\n');
            if mark != '\n' {
                text.push(mark);
            }
        }
    }

    /// Returns the text that is being read: a cell's, or the text between tables.
    fn current(&mut self) -> Option<&mut String> {
        match self.open.last_mut() {
            Some(open) => open.cell.is_some().then_some(&mut open.text),
            None => Some(&mut self.text),
        }
    }

    fn string(&mut self, value: &str) {
        if self.hidden || self.is_full {
            return;
        }
        let Some(text) = self.current() else { return };
        text.push_str(value);
        if text.len() > 2 * TEXT_MAX {
            let mut kept_from = text.len() - TEXT_MAX..text.len();
            text.drain(..kept_from.find(|&at| text.is_char_boundary(at)).unwrap_or_default());
        }
    }

    fn table(&mut self, summary: &str) {
        // Reports do not nest tables: an open one was truncated, unless its cell holds the whole
        // page.
        let is_inside = self.open.last().is_some_and(|open| open.cell.is_some());
        if !self.open.is_empty() && (!is_inside || self.open.len() >= DEPTH_MAX) {
            self.end_table();
        }
        let text = self.current().map(std::mem::take).unwrap_or_default();
        let titles = self.titles(&text);
        self.open.push(OpenTable {
            titles,
            summary: tidy(summary).into_owned(),
            ..OpenTable::default()
        });
    }

    /// Finds the titles above a table, and notes the report's own title and end.
    fn titles(&mut self, text: &str) -> TitlesAbove {
        let mut titles = TitlesAbove::default();
        for part in text.split(['\n', '\r']) {
            let shown = tidy(part.trim_start_matches([HEADING, ITEM]));
            if shown.is_empty() {
                continue;
            }
            if self.page.heading.is_none() && names_report(&shown) {
                self.page.heading = Some(shown.to_string());
            }
            self.page.look_at(&shown);
            if part.starts_with(HEADING) {
                titles = TitlesAbove { heading: shown.into_owned(), nearest: String::new() };
            } else if !part.starts_with(ITEM) {
                titles.nearest = shown.into_owned();
            }
        }
        titles
    }

    fn end_table(&mut self) {
        let Some(open) = self.open.pop() else { return };
        if let Some(table) = open.table()
            && !self.page.push_checked(table)
        {
            self.is_full = true;
        }
    }

    fn finish(mut self) -> ParsedReport {
        let text = std::mem::take(&mut self.text);
        self.titles(&text);
        while !self.open.is_empty() && !self.is_full {
            self.end_table();
        }
        self.page
    }
}

impl OpenTable {
    /// Decides whether the table's rows are read, once its headings are complete.
    fn settle(&mut self) {
        let has_body =
            self.kinds.len() > 1 && self.kinds.last().is_some_and(|kind| !kind.is_heading());
        if has_body && self.section.is_none() {
            let section = self.find_section();
            self.is_unread = section.is_none();
            self.section = Some(section);
        }
    }

    fn end_row(&mut self) {
        self.rows.end_row();
        if self.rows.len() > self.kinds.len() {
            self.kinds.push(std::mem::take(&mut self.kind));
        }
    }

    fn close_cell(&mut self) {
        let Some(cell) = self.cell.take() else { return };
        self.cells += 1;
        if self.cells <= CELLS_MAX {
            let text = match self.text.contains([HEADING, ITEM]) {
                true => Cow::Owned(tidy(&self.text.replace([HEADING, ITEM], " ")).into_owned()),
                false => tidy(&self.text),
            };
            (0..cell.colspan).for_each(|_| self.rows.push(&text));
            self.kind.cells += 1;
            self.kind.has_headings |= cell.is_heading;
            self.kind.has_others |= !cell.is_heading && !text.is_empty();
        }
        self.text.clear();
    }

    /// Finds the table's section, or `None` if petal does not read it.
    fn find_section(&self) -> Option<TableSection> {
        let mut head = self.kinds.iter().take_while(|kind| kind.is_heading()).count();
        if head == 0 && self.kinds.len() > 1 && self.kinds.first().is_some_and(|row| row.cells > 1)
        {
            head = 1;
        }
        let columns = columns(&self.rows.iter().take(head).collect::<Vec<_>>());
        let (topic, title) = topic_of(&self.titles, &self.summary, &columns)?;
        Some(TableSection { topic, title, columns, head })
    }

    fn table(mut self) -> Option<PageTable> {
        self.close_cell();
        self.end_row();
        let section = self.section.take().unwrap_or_else(|| self.find_section());
        let TableSection { topic, title, columns, head } = section?;
        let mut rows = TableRows::default();
        for (row, kind) in self.rows.iter().zip(&self.kinds).skip(head) {
            if topic.is_labelled() || !kind.is_heading() {
                rows.extend(row.cells());
            } else if !has_names(row, &columns) {
                // Headings of another table, whose beginning is lost.
                break;
            }
        }
        (!rows.is_empty()).then(|| PageTable { topic, title, columns, rows, widths: Vec::new() })
    }
}

impl RowKind {
    /// True if the row has only headings and blanks.
    fn is_heading(self) -> bool {
        self.has_headings && !self.has_others
    }
}

/// Whether a row repeats the names of the columns.
fn has_names(row: TableRow<'_>, columns: &[TableColumn]) -> bool {
    row.cells().zip(columns).all(|(cell, column)| cell == column.name)
}

/// Reads the columns: the last heading row names them, the rows above group them.
fn columns(head: &[TableRow]) -> Vec<TableColumn> {
    let Some((names, groups)) = head.split_last() else { return Vec::new() };
    let group = |at| groups.iter().rev().find_map(|row| row.get(at)).unwrap_or_default();
    names.cells().enumerate().map(|(at, name)| TableColumn::new(group(at), name)).collect()
}

/// Finds the section by the columns, else by the nearest text above, the nearest heading, or the
/// table's own summary.
fn topic_of(
    titles: &TitlesAbove,
    summary: &str,
    columns: &[TableColumn],
) -> Option<(Topic, Arc<str>)> {
    if let Some(topic) = topic::of_columns(columns.iter().map(|column| column.key.as_str())) {
        return Some((topic, topic::HEAD.into()));
    }
    let titled = [&titles.nearest, &titles.heading];
    if let Some((topic, title)) =
        titled.iter().find_map(|title| Some((topic::of_title(title)?, title)))
    {
        return Some((topic, title.as_str().into()));
    }
    let topic = topic::of_summary(summary)?;
    let title = titled.iter().find(|title| !title.is_empty()).map_or(summary, |title| title);
    Some((topic, title.into()))
}

/// True for a title of a whole report.
fn names_report(title: &str) -> bool {
    let title = title.to_ascii_uppercase();
    title.contains(OWN_HEADING) || title.contains("STATSPACK REPORT")
}

fn is_block(name: &str) -> bool {
    matches!(name, "p" | "div" | "ul" | "ol" | "body" | "center" | "hr" | "pre" | "form")
}

/// Replaces each run of white space with one blank.
fn tidy(text: &str) -> Cow<'_, str> {
    let text = text.trim();
    let is_plain = |byte: u8| (b'!'..=b'~').contains(&byte);
    let mut bytes = text.bytes().zip(text.bytes().skip(1));
    if bytes.all(|(byte, next)| is_plain(byte) || byte == b' ' && is_plain(next)) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.split_whitespace().collect::<Vec<_>>().join(" "))
}

#[cfg(test)]
mod tests;
