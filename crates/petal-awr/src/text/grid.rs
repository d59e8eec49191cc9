//! Tables of one text section. A line of dashes marks the columns; the headings are above it, the
//! rows below. A record of several lines has a line of dashes for each of them.

mod aligned;
mod headings;

use std::collections::VecDeque;
use std::sync::Arc;

use super::super::page::{PageTable, TableColumn, TableRows};
use super::super::topic::{self, Topic};

use aligned::AlignedRows;
use headings::{SpanNames, columns, words};

/// Number of lines above a line of dashes that may be headings.
const HEADING_LINES: usize = 5;

/// Column's range of characters, its end exclusive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ColumnSpan {
    from: usize,
    to: usize,
}

/// A line of dashes: columns and their headings.
#[derive(Debug, Clone, PartialEq, Eq)]
struct DashedLine {
    spans: Vec<ColumnSpan>,
    columns: Vec<TableColumn>,
    /// Set if its first column has tildes, as one without values has.
    is_labelled: bool,
}

/// A record of several lines, some of which were read when a page ended.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Unfinished {
    cells: Vec<String>,
    lines: usize,
}

/// Lines of one section, whose columns become tables.
pub struct Grid<'l> {
    pub lines: &'l [&'l str],
    pub title: Arc<str>,
    /// Topic of the section; `None` at the head of a report, if the columns identify each table.
    pub topic: Option<Topic>,
    /// Width that the lines may have been cut at: a column that ends there is unknown.
    pub cut_at: Option<usize>,
}

/// Rows of a table, during reading.
struct GridReader<'r, 'l> {
    rules: &'r [DashedLine],
    /// Lines of rows, under a single line of dashes.
    lines: Vec<&'l str>,
    /// Records of several lines.
    done: TableRows,
    unfinished: Option<Unfinished>,
    /// First cell of the last record: the next records of the same tablespace leave it blank.
    name: String,
}

impl<'l> Grid<'l> {
    /// Reads the tables. `unfinished` is the previous page's incomplete record, and receives this
    /// page's; `notes` receives notes on moved and
    /// refused rows.
    pub fn tables(
        &self,
        unfinished: &mut Option<Unfinished>,
        notes: &mut Vec<String>,
    ) -> Vec<PageTable> {
        let mut tables = Vec::new();
        let mut from = 0;
        while let Some((rules, below)) = self.rules(from) {
            let before = unfinished.take();
            let mut rows = GridReader {
                rules: &rules,
                lines: Vec::new(),
                done: TableRows::default(),
                name: before.as_ref().and_then(|it| it.cells.first().cloned()).unwrap_or_default(),
                unfinished: before,
            };
            from = self.rows(below, &mut rows);
            *unfinished = rows.unfinished.take();
            let columns: Vec<TableColumn> =
                rules.iter().flat_map(|rule| rule.columns.clone()).collect();
            let topic = self.topic_of(&columns);
            let rows = match &rules[..] {
                [rule] => self.aligned(aligned::rows(rule, &rows.lines, topic), topic, notes),
                _ => rows.done,
            };
            if let (Some(topic), false) = (topic, rows.is_empty()) {
                let spans = rules.iter().flat_map(|rule| &rule.spans);
                let widths = spans.map(|span| span.to - span.from).collect();
                tables.push(PageTable { topic, title: self.title.clone(), columns, rows, widths });
            }
        }
        tables
    }

    /// Finds the topic of a table by its columns, and by its section.
    fn topic_of(&self, columns: &[TableColumn]) -> Option<Topic> {
        let keys = || columns.iter().map(|column| column.key.as_str());
        let own = topic::of_columns(keys());
        if self.topic.is_none() && own.is_none() {
            return topic::of_body(keys());
        }
        // The instances of a cluster follow its summary, without a title.
        let is_own = own == Some(Topic::ClusterInstances);
        if is_own { own } else { self.topic.or(own) }
    }

    /// Returns the rows, and notes those that an edit has moved.
    fn aligned(
        &self,
        read: AlignedRows,
        topic: Option<Topic>,
        notes: &mut Vec<String>,
    ) -> TableRows {
        let AlignedRows { rows, moved, refused } = read;
        // Output of the session is between the tables at a report's head.
        let is_lost = refused > 0 && (rows.is_empty() || !topic.is_some_and(Topic::is_head));
        if moved > 0 {
            notes.push(format!(
                "{}: {} not under the headings, as after an edit: cells are taken by their form",
                self.title,
                if moved == 1 { "a row is".to_owned() } else { format!("{moved} rows are") }
            ));
        }
        if is_lost && topic.is_some() {
            notes.push(format!(
                "{}: {} not under the headings, as after an edit, and not read",
                self.title,
                if refused == 1 { "a row is".to_owned() } else { format!("{refused} rows are") }
            ));
        }
        rows
    }

    /// Returns the next line of dashes from `from` on, with others of the same records, and the
    /// position below.
    fn rules(&self, from: usize) -> Option<(Vec<DashedLine>, usize)> {
        let (mut at, mut spans) = self.next_rule(from)?;
        let mut rules = Vec::new();
        let mut groups = SpanNames::new();
        loop {
            let mut columns = columns(&spans, &self.heading(from, at), &groups);
            for (span, column) in spans.iter().zip(&mut columns) {
                if self.cut_at.is_some_and(|width| span.to >= width) {
                    *column = TableColumn::new("", "");
                }
            }
            let is_labelled = self.lines.get(at).is_some_and(|line| line.starts_with('~'));
            let rule = DashedLine { spans, columns, is_labelled };
            let next = self.next_of_record(at + 1, &rule);
            if next.is_some() && !self.is_record_line(&rule, &rules) {
                let named = rule.spans.iter().zip(&rule.columns);
                groups.extend(named.map(|(span, column)| (*span, column.name.clone())));
            } else {
                rules.push(rule);
            }
            match next {
                Some(next) => (at, spans) = next,
                None => return Some((rules, at + 1)),
            }
        }
    }

    fn next_rule(&self, from: usize) -> Option<(usize, Vec<ColumnSpan>)> {
        let lines = self.lines.iter().enumerate().skip(from);
        lines.filter(|(_, line)| !is_end(line)).find_map(|(at, line)| Some((at, rule(line)?)))
    }

    /// Returns the lines above a line of dashes, back to a blank line, a note or another line of
    /// dashes.
    fn heading(&self, from: usize, at: usize) -> Vec<&str> {
        let above = self.lines.get(from..at).unwrap_or_default().iter().rev();
        let mut heading: Vec<&str> = above
            // A page may end between the headings and their dashes.
            .skip_while(|line| line.is_empty())
            .take(HEADING_LINES)
            .take_while(|line| is_heading(line))
            .copied()
            .collect();
        heading.reverse();
        heading
    }

    /// Returns another line of dashes, if only headings precede it.
    fn next_of_record(&self, from: usize, above: &DashedLine) -> Option<(usize, Vec<ColumnSpan>)> {
        let is_over_several = above.spans.len() == 1 || above.columns.iter().all(is_group);
        for (at, line) in self.lines.iter().enumerate().skip(from).take(HEADING_LINES) {
            if let Some(spans) = rule(line) {
                return (at > from && !is_end(line)).then_some((at, spans));
            }
            let is_heading = !line.is_empty()
                && !is_note(line)
                && (line.starts_with(' ') || is_over_several)
                && line.split_whitespace().any(|word| !is_figure(word));
            if !is_heading {
                return None;
            }
        }
        None
    }

    /// True in the sections whose records have a separate line for the name.
    fn is_record_line(&self, rule: &DashedLine, before: &[DashedLine]) -> bool {
        let stacks =
            matches!(self.topic, Some(Topic::TablespaceIo | Topic::FileIo | Topic::Histogram));
        let first = rule.columns.first().map_or("", |column| column.key.as_str());
        stacks && (!before.is_empty() || matches!(first, "tablespace" | "filename" | "event"))
    }

    /// Reads rows from `from` to the table's end; returns the position after it.
    fn rows(&self, from: usize, rows: &mut GridReader<'_, 'l>) -> usize {
        // Number of rows when each of the last lines was read.
        let mut counts: VecDeque<usize> = VecDeque::with_capacity(HEADING_LINES + 1);
        for (at, line) in self.lines.iter().enumerate().skip(from) {
            if is_end(line) {
                return at + 1;
            }
            if !line.is_empty() && rule(line).is_some() {
                // The last rows read were in fact headings of another table.
                let above = self.lines.get(from..at).unwrap_or_default().iter().rev();
                let last = rows.rules.last().and_then(|rule| rule.spans.last());
                let goes_on = |line: &str| {
                    // The rest of a long name, under the last column.
                    let mut words = words(line);
                    let only = words.next().filter(|_| words.next().is_none());
                    only.is_some_and(|(from, _)| from > 0 && last.map(|it| it.from) == Some(from))
                };
                let is_next = |line: &&&str| is_heading(line) && !goes_on(line);
                let headings = above.take(counts.len()).take_while(is_next).count();
                if let Some(&count) = counts.get(counts.len() - headings) {
                    rows.truncate(count);
                }
                return at - headings;
            }
            if counts.len() == HEADING_LINES {
                counts.pop_front();
            }
            counts.push_back(rows.len());
            if !line.is_empty() && !is_note(line) {
                rows.line(line);
            }
        }
        self.lines.len()
    }
}

impl<'l> GridReader<'_, 'l> {
    /// Returns the number of rows so far.
    fn len(&self) -> usize {
        if self.rules.len() == 1 { self.lines.len() } else { self.done.len() }
    }

    fn truncate(&mut self, rows: usize) {
        self.lines.truncate(rows);
        self.done.truncate(rows);
    }

    fn line(&mut self, line: &'l str) {
        let [first, ..] = self.rules else { return };
        if self.rules.len() == 1 {
            self.lines.push(line);
            return;
        }
        let is_all_figures = line.split_whitespace().all(is_figure);
        // The name of the tablespace is blank in the lines of its further files.
        let is_further = || first.spans.len() == 2 && self.unfinished.is_none();
        let is_name = !is_all_figures && (!line.starts_with(' ') || is_further());
        let Some(mut open) =
            (if is_name { Some(Unfinished::default()) } else { self.unfinished.take() })
        else {
            return;
        };
        if open.lines > 0
            && first.spans.len() == 2
            && line.split_whitespace().count() == 1
            && !is_all_figures
        {
            // The rest of a file name that was too long for its line.
            if let Some(name) = open.cells.last_mut() {
                name.push_str(line.trim());
            }
            self.unfinished = Some(open);
            return;
        }
        let line = CharacterLine::new(line);
        let Some(taken) = self.rules.get(open.lines).and_then(|rule| cells(rule, &line)) else {
            return;
        };
        open.cells.extend(taken.into_iter().map(str::to_owned));
        if let (0, Some(name)) = (open.lines, open.cells.first_mut()) {
            if name.is_empty() {
                name.clone_from(&self.name);
            }
            self.name.clone_from(name);
        }
        open.lines += 1;
        if open.lines == self.rules.len() {
            self.done.extend(open.cells.iter().map(String::as_str));
        } else {
            self.unfinished = Some(open);
        }
    }
}

/// True for a remark under a title: `->ordered by IOs`.
fn is_note(line: &str) -> bool {
    line.starts_with('-') && line.trim_start_matches('-').starts_with('>')
}

/// True for words without figures, above a line of dashes, or ranges of milliseconds.
fn is_heading(line: &str) -> bool {
    let is_number = |word: &str| is_figure(word) && word.bytes().any(|byte| byte.is_ascii_digit());
    !line.is_empty()
        && !is_note(line)
        && rule(line).is_none()
        && (line.contains(" ms") || !line.split_whitespace().any(is_number))
}

/// True for the line of dashes, far from the margin, that ends a table.
pub fn is_end(line: &str) -> bool {
    let dashes = line.trim_start();
    line.len() - dashes.len() >= 8 && dashes.len() >= 50 && dashes.bytes().all(|byte| byte == b'-')
}

/// True for headings over several columns, in reports over several instances.
fn is_group(column: &TableColumn) -> bool {
    const GROUPS: &str = "\
        wait event waittime summaryavgwaittime summaryavgwaittimems database snapshotids \
        numberofinstances numberofhosts reporttotalminutes requests mb %ofwaits %oftotalwaits";
    column.key.is_empty() || GROUPS.split(' ').any(|group| group == column.key)
}

/// Counts the columns of a line of dashes; 0 if it is another line.
pub fn columns_of_dashes(line: &str) -> usize {
    rule(line.trim_end()).map_or(0, |spans| spans.len())
}

/// Returns the columns, if the line has only dashes, blanks and a title's tildes.
fn rule(line: &str) -> Option<Vec<ColumnSpan>> {
    if !line.contains("--") || !line.bytes().all(|byte| matches!(byte, b'-' | b'~' | b' ')) {
        return None;
    }
    let bytes = line.as_bytes();
    let mut spans = Vec::new();
    let mut from = None;
    for (at, &byte) in bytes.iter().chain([&b' ']).enumerate() {
        match (byte, from) {
            (b' ', Some(begun)) => {
                let is_label = bytes.get(begun) == Some(&b'~');
                spans.push((ColumnSpan { from: begun, to: at }, is_label));
                from = None;
            }
            (b'-' | b'~', None) => from = Some(at),
            _ => {}
        }
    }
    let starts: Vec<usize> = spans.iter().map(|(span, _)| span.from).collect();
    // Labels extend to the next column.
    let mut spans: Vec<ColumnSpan> = spans
        .iter()
        .enumerate()
        .map(|(at, (span, is_label))| match starts.get(at + 1) {
            Some(&next) if *is_label => ColumnSpan { from: span.from, to: next },
            _ => *span,
        })
        .collect();
    let first = spans.first()?.from;
    if first > 1 && spans.len() > 1 {
        spans.insert(0, ColumnSpan { from: 0, to: first });
    }
    Some(spans)
}

fn is_figure(word: &str) -> bool {
    word.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'.' | b',' | b'-' | b'+' | b'E' | b'#'))
        || word == "N/A"
}

/// Splits a line into cells. A number that extends to the left of its column belongs to it whole; a
/// line whose words cross columns in another way is not a row of this table.
fn cells<'l>(rule: &DashedLine, line: &CharacterLine<'l>) -> Option<Vec<&'l str>> {
    let mut cells = Vec::with_capacity(rule.spans.len());
    let mut taken_to = 0;
    for (at, span) in rule.spans.iter().enumerate() {
        let mut from = span.from.max(taken_to);
        // A word that begins before its column.
        while at > 0 && from > taken_to && line.has_text_at(from) && line.has_text_at(from - 1) {
            from -= 1;
        }
        if !line.slice(taken_to, from).trim().is_empty() {
            // A word between two columns belongs to neither.
            return None;
        }
        let is_last = at + 1 == rule.spans.len();
        let mut to = if is_last { usize::MAX } else { span.to };
        if !is_last && line.has_text_at(to) && line.has_text_at(to.saturating_sub(1)) {
            // If the word continues, it is the next column's number, or this is not a row.
            let begin =
                (from..to).rev().find(|&place| !line.has_text_at(place)).map(|place| place + 1)?;
            if !line.slice(begin, to).starts_with(|c: char| c.is_ascii_digit() || ".-#".contains(c))
            {
                return None;
            }
            // A number that ends before the next column is this one's.
            let next = rule.spans.get(at + 1).map_or(to, |next| next.from);
            let end = (to..=next).find(|&place| !line.has_text_at(place));
            to = end.filter(|_| begin >= span.from).unwrap_or(begin);
        }
        cells.push(line.slice(from, to).trim());
        taken_to = to;
    }
    Some(cells)
}

/// A line with the positions of its characters.
struct CharacterLine<'l> {
    text: &'l str,
    /// Start of each character, or `None` if every character is one byte.
    starts: Option<Vec<usize>>,
}

impl<'l> CharacterLine<'l> {
    fn new(text: &'l str) -> Self {
        let starts = (!text.is_ascii()).then(|| text.char_indices().map(|(at, _)| at).collect());
        Self { text, starts }
    }

    fn byte(&self, place: usize) -> usize {
        let at = match &self.starts {
            None => place,
            Some(starts) => starts.get(place).copied().unwrap_or(self.text.len()),
        };
        at.min(self.text.len())
    }

    fn slice(&self, from: usize, to: usize) -> &'l str {
        self.text.get(self.byte(from)..self.byte(to)).unwrap_or("")
    }

    fn has_text_at(&self, place: usize) -> bool {
        self.text.as_bytes().get(self.byte(place)).is_some_and(|&byte| byte != b' ')
    }
}
