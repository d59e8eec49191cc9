//! Tables whose cells are separated by tabs, as in a browser's copy, or by bars, as in Markdown.
//! Empty cells must be in the text; without them, the column of a cell is unknown.

use std::borrow::Cow;
use std::sync::Arc;

use super::number;
use super::page::{PageTable, ParsedReport, TableColumn, TableRows};
use super::shape::Layout;
use super::text::names_report;
use super::topic::{self, HEAD, Topic};

/// Number of lines above a table that are searched for its title.
const TITLES_MAX: usize = 40;

pub fn page(text: &str, layout: Layout) -> ParsedReport {
    let mut reader = DelimitedReader::new(text, layout);
    let lines: Vec<&str> = text.lines().collect();
    let mut joined = wrapped_headings(&lines, layout).into_iter().peekable();
    for (at, line) in lines.iter().enumerate() {
        // The first line of a wrapped heading is read with the second.
        if joined.peek().is_some_and(|(second, _)| *second == at + 1) {
            continue;
        }
        let heading = joined.next_if(|(second, _)| *second == at).map(|(_, heading)| heading);
        let line = heading.as_deref().unwrap_or(line);
        if !reader.line(line.trim_end_matches('\r')) {
            break;
        }
    }
    reader.end_block();
    reader.page
}

/// Finds headings that were wrapped above their line of dashes: two lines that together have as many
/// bars. Returns each with the position of its second line.
fn wrapped_headings(lines: &[&str], layout: Layout) -> Vec<(usize, String)> {
    let bars = |line: &str| line.matches('|').count();
    let heading = |(at, three): (usize, &[&str])| {
        let [first, second, rule] = three else { return None };
        let is_wrapped = is_rule(rule)
            && bars(second) < bars(rule)
            && bars(first) > 0
            && !second.trim().is_empty()
            && bars(first) + bars(second) == bars(rule);
        is_wrapped.then(|| (at + 1, format!("{} {}", first.trim_end(), second.trim())))
    };
    if layout != Layout::Bars {
        return Vec::new();
    }
    lines.windows(3).enumerate().filter_map(heading).collect()
}

/// True for a line such as `|---|---|`.
fn is_rule(line: &str) -> bool {
    let is_mark = |byte| matches!(byte, b'|' | b'-' | b':' | b' ' | b'+');
    line.contains('|') && line.contains('-') && line.bytes().all(is_mark)
}

struct DelimitedReader {
    layout: Layout,
    page: ParsedReport,
    /// Lines since the last table.
    titles: Vec<String>,
    rows: Vec<Vec<String>>,
    /// Positions among the rows of lines such as `|---|---|`, which follow headings.
    rules: Vec<usize>,
    /// Set if blank cells are in the text: a shorter row then lacks its last cells.
    keeps_blanks: bool,
    /// Set if rows begin and end with a bar.
    is_framed: bool,
    is_full: bool,
}

impl DelimitedReader {
    fn new(text: &str, layout: Layout) -> Self {
        let is_blank = |line: &str| line.contains("\t\t") || line.contains("\t \t");
        let rows = || text.lines().map(str::trim).filter(|line| line.contains('|'));
        let framed = rows().filter(|line| line.starts_with('|')).count();
        Self {
            layout,
            page: ParsedReport::default(),
            titles: Vec::new(),
            rows: Vec::new(),
            rules: Vec::new(),
            keeps_blanks: layout == Layout::Bars || text.lines().any(is_blank),
            is_framed: framed * 2 > rows().count(),
            is_full: false,
        }
    }

    /// Reads a line; returns false once nothing more is wanted.
    fn line(&mut self, line: &str) -> bool {
        let mark = if self.layout == Layout::Tabs { '\t' } else { '|' };
        if line.contains(mark) {
            self.row(line, mark);
        } else {
            self.end_block();
            self.title(line);
        }
        !self.is_full
    }

    fn row(&mut self, line: &str, mark: char) {
        if mark == '|' && is_rule(line) {
            self.rules.push(self.rows.len());
            return;
        }
        let mut line = line;
        if mark == '|' && self.is_framed {
            line = line.trim();
            line = line.strip_prefix('|').unwrap_or(line);
            line = line.strip_suffix('|').unwrap_or(line);
        }
        self.rows.push(line.split(mark).map(|cell| plain(cell).into_owned()).collect());
    }

    fn title(&mut self, line: &str) {
        let shown = plain(line.trim_start_matches(['#', ' ', '\t']));
        if shown.is_empty() {
            return;
        }
        if self.page.heading.is_none() && names_report(&shown) {
            self.page.heading = Some(shown.to_string());
            self.titles.clear();
        }
        self.page.look_at(&shown);
        if shown.starts_with("Back to ") {
            // A link at a section's end: lists of sections, which hold no title, are above it.
            self.titles.clear();
            return;
        }
        if self.titles.len() == TITLES_MAX {
            self.titles.remove(0);
        }
        self.titles.push(shown.into_owned());
    }

    /// Ends a block of consecutive rows, which holds one table or several.
    fn end_block(&mut self) {
        let rows = std::mem::take(&mut self.rows);
        let rules = std::mem::take(&mut self.rules);
        if rows.is_empty() {
            return;
        }
        let heads = match self.layout {
            Layout::Bars => heads_of_rules(&rows, &rules),
            _ => heads_of_tabs(&rows),
        };
        for (at, head) in heads.iter().enumerate() {
            let to = heads.get(at + 1).map_or(rows.len(), |next| next.from);
            let body = rows.get(head.names + 1..to).unwrap_or_default();
            let Some(names) = rows.get(head.names) else { continue };
            if !self.table(names, body) {
                self.is_full = true;
                return;
            }
            self.titles.clear();
        }
    }

    fn table(&mut self, names: &[String], body: &[Vec<String>]) -> bool {
        let mut columns: Vec<TableColumn> =
            names.iter().map(|name| TableColumn::new("", name)).collect();
        let Some((topic, title)) = self.topic(&columns) else { return true };
        let width = columns.len();
        let mut rows = TableRows::default();
        if topic.is_labelled() {
            columns = Vec::new();
            rows.extend(names.iter().map(String::as_str));
        }
        for row in body.iter().filter(|row| row.iter().any(|cell| !cell.is_empty())) {
            let lacks = width.saturating_sub(row.len());
            let filled = if self.keeps_blanks { lacks } else { 0 };
            rows.extend(row.iter().map(String::as_str).chain(std::iter::repeat_n("", filled)));
        }
        if rows.is_empty() {
            return true;
        }
        self.page.push_checked(PageTable { topic, title, columns, rows, widths: Vec::new() })
    }

    /// Finds the topic by the columns, else by the nearest title above.
    fn topic(&self, columns: &[TableColumn]) -> Option<(Topic, Arc<str>)> {
        let keys = || columns.iter().map(|column| column.key.as_str());
        if let Some(topic) = topic::of_columns(keys()) {
            return Some((topic, HEAD.into()));
        }
        let titled = |title: &String| Some((topic::of_title(title)?, title.as_str().into()));
        let found = self.titles.iter().rev().find_map(titled);
        found.or_else(|| {
            Some((
                topic::of_body(keys()).filter(|_| self.titles.is_empty())?,
                topic::UNTITLED.into(),
            ))
        })
    }
}

/// Position of a table among the rows, and the row that names its columns.
struct Head {
    from: usize,
    names: usize,
}

/// Finds the row above each line such as `|---|---|`; without such lines, the first row.
fn heads_of_rules(rows: &[Vec<String>], rules: &[usize]) -> Vec<Head> {
    let is_blank = |at: usize| rows.get(at).is_none_or(|row| row.iter().all(String::is_empty));
    let of_rule = |&rule: &usize| {
        let from = rule.saturating_sub(1);
        // Converters leave the headings blank if they do not recognise them.
        let names = if rule == 0 || is_blank(from) { rule } else { from };
        Head { from, names: below_group(rows, names) }
    };
    if rules.is_empty() {
        return vec![Head { from: 0, names: 0 }];
    }
    rules.iter().map(of_rule).collect()
}

/// Finds rows without a figure at the start, or with a different width from the rows above.
fn heads_of_tabs(rows: &[Vec<String>]) -> Vec<Head> {
    let mut heads: Vec<Head> = Vec::new();
    let width = |at: usize| rows.get(at).map_or(0, Vec::len);
    let mut at = 0;
    while at < rows.len() {
        let is_first = heads.is_empty();
        let names = heads.last().map_or(0, |head| head.names);
        let keys = || rows.get(at).into_iter().flatten().map(|cell| topic::key(cell));
        let keys: Vec<String> = keys().collect();
        let is_known = topic::of_columns(keys.iter().map(String::as_str)).is_some();
        let is_heading = has_no_figure(rows.get(at));
        if is_first || is_heading && (is_known || width(at) > width(names)) {
            let names = below_group(rows, at);
            heads.push(Head { from: at, names });
            at = names;
        }
        at += 1;
    }
    heads
}

/// Returns the row that names the columns: a row that groups several columns has fewer cells and is
/// above it.
fn below_group(rows: &[Vec<String>], at: usize) -> usize {
    let width = |at: usize| rows.get(at).map_or(0, Vec::len);
    let is_group = rows.get(at).is_some_and(|row| is_words(row)) && has_no_figure(rows.get(at + 1));
    if is_group && width(at + 1) > width(at) { at + 1 } else { at }
}

/// True if the row has at least two cells, all of them words.
fn has_no_figure(row: Option<&Vec<String>>) -> bool {
    let shown = |row: &[String]| row.iter().filter(|cell| !cell.is_empty()).count();
    row.is_some_and(|row| shown(row) > 1 && is_words(row))
}

/// True if no cell is a figure.
fn is_words(row: &[String]) -> bool {
    let is_figure = |cell: &str| {
        number::count(cell).is_some()
            || cell.split_whitespace().next().is_some_and(|word| {
                word.starts_with(|c: char| c.is_ascii_digit()) && !word.starts_with("1-bk")
            })
    };
    !row.iter().any(|cell| is_figure(cell))
}

/// Returns a cell or title without Markdown marks.
fn plain(text: &str) -> Cow<'_, str> {
    let text = text.trim();
    // A single `*` means the cluster in a column of instances.
    let inner = ["**", "__", "*", "`"].iter().find_map(|mark| {
        text.strip_prefix(mark)?.strip_suffix(mark).filter(|inner| !inner.is_empty())
    });
    let text = inner.unwrap_or(text).trim();
    let linked = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(')')?.split_once("]("));
    let text = linked.map_or(text, |(shown, _)| shown);
    if !text.contains(['\\', '&', '\u{a0}']) {
        return Cow::Borrowed(text);
    }
    let mut shown = text.replace("&nbsp;", " ").replace('\u{a0}', " ");
    for mark in ['_', '*', '#', '<', '>', '-', '[', ']', '(', ')', '.', '+', '`'] {
        shown = shown.replace(&format!("\\{mark}"), &mark.to_string());
    }
    Cow::Owned(shown.trim().to_owned())
}
