//! An HTML report as a [`Page`]. The tokens come from a tokenizer that follows the HTML standard
//! (upper case, attributes without quotes, entities); tables are put together here, without a tree,
//! so that neither unclosed elements nor deep nesting cost more than their own bytes.

use std::sync::Arc;

use html5gum::emitters::callback::{CallbackEmitter, CallbackEvent};
use html5gum::{Span, Tokenizer};

use super::page::{Column, Page, Table};
use super::topic::{self, Topic};

/// Tables within tables that are told apart.
const DEPTH_MAX: usize = 8;
/// Bytes of a cell or of the text between tables that are kept, the last ones: names, titles and
/// figures are short, SQL is not read.
const TEXT_MAX: usize = 16 << 10;
const CELLS_MAX: usize = 1_000_000;
const COLSPAN_MAX: usize = 64;
/// Within a text: what follows is a heading, or an item of a list or a link, which is no title.
const HEADING: char = '\u{1}';
const ITEM: char = '\u{2}';

pub fn page(text: &str) -> Page {
    let page = tokens(text, true);
    // A style or script that never ends hides what follows, as it does in a browser.
    if page.tables.is_empty() { tokens(text, false) } else { page }
}

fn tokens(text: &str, hides: bool) -> Page {
    let mut builder = Builder::default();
    let mut emitter = CallbackEmitter::new(|event: CallbackEvent<'_>, _: Span<()>| -> Option<()> {
        builder.event(&event);
        None
    });
    emitter.naively_switch_states(hides);
    Tokenizer::new_with_emitter(text, emitter).for_each(drop);
    builder.finish()
}

#[derive(Default)]
struct Builder {
    page: Page,
    /// The tables that are open, innermost last.
    open: Vec<Open>,
    /// The text since the last table, if it is in no cell.
    text: String,
    /// Within `style`, `script` or `title`.
    hidden: bool,
    attribute: Attribute,
    is_full: bool,
}

#[derive(Default, Clone, Copy, PartialEq, Eq)]
enum Attribute {
    #[default]
    Other,
    Colspan,
    Summary,
}

#[derive(Default)]
struct Open {
    summary: String,
    titles: Titles,
    rows: Vec<Vec<Cell>>,
    cell: Option<Cell>,
    cells: usize,
}

/// What stands over a table since the table before.
#[derive(Default)]
struct Titles {
    heading: String,
    nearest: String,
}

#[derive(Default)]
struct Cell {
    is_heading: bool,
    colspan: usize,
    text: String,
}

impl Builder {
    fn event(&mut self, event: &CallbackEvent) {
        if self.is_full {
            return;
        }
        match event {
            CallbackEvent::OpenStartTag { name } => self.start(name),
            CallbackEvent::EndTag { name } => self.end(name),
            CallbackEvent::AttributeName { name } => {
                self.attribute = match *name {
                    b"colspan" => Attribute::Colspan,
                    b"summary" => Attribute::Summary,
                    _ => Attribute::Other,
                };
            }
            CallbackEvent::AttributeValue { value } => self.value(value),
            CallbackEvent::String { value } if !self.hidden => self.string(value),
            _ => {}
        }
    }

    fn start(&mut self, name: &[u8]) {
        self.attribute = Attribute::Other;
        match name {
            b"table" => self.table(),
            b"tr" => {
                if let Some(open) = self.open.last_mut() {
                    open.close_cell();
                    open.rows.push(Vec::new());
                }
            }
            b"td" | b"th" => {
                if let Some(open) = self.open.last_mut() {
                    open.close_cell();
                    let is_heading = name == b"th";
                    open.cell = Some(Cell { is_heading, colspan: 1, text: String::new() });
                }
            }
            b"style" | b"script" | b"title" => self.hidden = true,
            b"br" => self.string(b" "),
            b"li" => self.mark(ITEM),
            b"a" => self.mark(ITEM),
            [b'h', b'1'..=b'6'] => self.mark(HEADING),
            _ if is_block(name) => self.mark('\n'),
            _ => {}
        }
    }

    fn end(&mut self, name: &[u8]) {
        match name {
            b"table" => self.end_table(),
            b"tr" | b"td" | b"th" => {
                if let Some(open) = self.open.last_mut() {
                    open.close_cell();
                }
            }
            b"style" | b"script" | b"title" => self.hidden = false,
            b"html" => self.page.is_ended = true,
            b"li" | b"a" | [b'h', b'1'..=b'6'] => self.mark('\n'),
            _ if is_block(name) => self.mark('\n'),
            _ => {}
        }
    }

    /// Parts of a text: what begins here, or a mere end of the part before.
    fn mark(&mut self, mark: char) {
        let text = self.current();
        if let Some(text) = text {
            text.push('\n');
            if mark != '\n' {
                text.push(mark);
            }
        }
    }

    /// The text that is being read: a cell's, or that between tables.
    fn current(&mut self) -> Option<&mut String> {
        match self.open.last_mut() {
            Some(open) => open.cell.as_mut().map(|cell| &mut cell.text),
            None => Some(&mut self.text),
        }
    }

    fn value(&mut self, value: &[u8]) {
        let Some(open) = self.open.last_mut() else { return };
        match self.attribute {
            Attribute::Colspan => {
                let span =
                    std::str::from_utf8(value).ok().and_then(|text| text.trim().parse().ok());
                if let Some(cell) = &mut open.cell {
                    cell.colspan = span.unwrap_or(1).clamp(1, COLSPAN_MAX);
                }
            }
            Attribute::Summary if open.rows.is_empty() && open.cell.is_none() => {
                open.summary = tidy(&String::from_utf8_lossy(value));
            }
            _ => {}
        }
    }

    fn string(&mut self, value: &[u8]) {
        let Some(text) = self.current() else { return };
        let value = value.get(value.len().saturating_sub(TEXT_MAX)..).unwrap_or(value);
        text.push_str(&String::from_utf8_lossy(value));
        if text.len() > 2 * TEXT_MAX {
            let from = (text.len() - TEXT_MAX..text.len()).find(|&at| text.is_char_boundary(at));
            text.drain(..from.unwrap_or(text.len()));
        }
    }

    fn table(&mut self) {
        // Reports do not nest tables: an open one was cut, unless its cell holds the whole page.
        let is_inside = self.open.last().is_some_and(|open| open.cell.is_some());
        if !self.open.is_empty() && (!is_inside || self.open.len() >= DEPTH_MAX) {
            self.end_table();
        }
        let text = self.current().map(std::mem::take).unwrap_or_default();
        let titles = self.titles(&text);
        self.open.push(Open { titles, ..Open::default() });
    }

    /// What stands over a table, and what the report says of itself there.
    fn titles(&mut self, text: &str) -> Titles {
        let mut titles = Titles::default();
        for part in text.split('\n') {
            let shown = tidy(part.trim_start_matches([HEADING, ITEM]));
            if shown.is_empty() {
                continue;
            }
            let upper = shown.to_ascii_uppercase();
            let is_own =
                upper.contains("WORKLOAD REPOSITORY") || upper.contains("STATSPACK REPORT");
            if self.page.heading.is_none() && is_own {
                self.page.heading = Some(shown.clone());
            }
            self.page.is_ended |= shown.starts_with("End of Report");
            if part.starts_with(HEADING) {
                titles = Titles { heading: shown, nearest: String::new() };
            } else if !part.starts_with(ITEM) {
                titles.nearest = shown;
            }
        }
        titles
    }

    fn end_table(&mut self) {
        let Some(mut open) = self.open.pop() else { return };
        open.close_cell();
        if let Some(table) = open.table()
            && !self.page.push(table)
        {
            self.is_full = true;
        }
    }

    fn finish(mut self) -> Page {
        let text = std::mem::take(&mut self.text);
        self.titles(&text);
        while !self.open.is_empty() && !self.is_full {
            self.end_table();
        }
        self.page
    }
}

impl Open {
    fn close_cell(&mut self) {
        if let Some(mut cell) = self.cell.take() {
            self.cells += 1;
            if self.cells > CELLS_MAX {
                return;
            }
            cell.text = tidy(&cell.text);
            match self.rows.last_mut() {
                Some(row) => row.push(cell),
                None => self.rows.push(vec![cell]),
            }
        }
    }

    /// None where no section that is read can be told.
    fn table(self) -> Option<Table> {
        let mut rows: Vec<Vec<Cell>> =
            self.rows.into_iter().filter(|row| !row.is_empty()).collect();
        let mut head = rows.iter().take_while(|row| is_heading(row)).count();
        if head == 0 && rows.len() > 1 && rows.first().is_some_and(|row| row.len() > 1) {
            head = 1;
        }
        let body = rows.split_off(head);
        let columns = columns(&rows);
        let (topic, title) = topic_of(&self.titles, &self.summary, &columns)?;
        let rows = body
            .into_iter()
            .filter(|row| topic.is_labelled() || !is_heading(row))
            .map(spread)
            .collect::<Vec<_>>();
        (!rows.is_empty()).then(|| Table { topic, title, columns, rows, widths: Vec::new() })
    }
}

/// Nothing but headings, and blanks.
fn is_heading(row: &[Cell]) -> bool {
    row.iter().any(|cell| cell.is_heading)
        && row.iter().all(|cell| cell.is_heading || cell.text.is_empty())
}

/// A cell over several columns stands in each of them.
fn spread(row: Vec<Cell>) -> Vec<String> {
    let mut cells = Vec::with_capacity(row.len());
    for cell in row {
        cells.extend((1..cell.colspan).map(|_| cell.text.clone()));
        cells.push(cell.text);
    }
    cells
}

/// The last row of headings names the columns, those above group them.
fn columns(head: &[Vec<Cell>]) -> Vec<Column> {
    let wide = |row: &[Cell]| -> Vec<String> {
        row.iter().flat_map(|cell| std::iter::repeat_n(cell.text.clone(), cell.colspan)).collect()
    };
    let Some((names, groups)) = head.split_last() else { return Vec::new() };
    let groups: Vec<Vec<String>> = groups.iter().map(|row| wide(row)).collect();
    wide(names)
        .iter()
        .enumerate()
        .map(|(at, name)| {
            let group = groups.iter().rev().find_map(|row| row.get(at));
            Column::new(group.map_or("", String::as_str), name)
        })
        .collect()
}

/// By the nearest text above, or the nearest heading, else by the columns, else by what the table
/// says of itself.
fn topic_of(titles: &Titles, summary: &str, columns: &[Column]) -> Option<(Topic, Arc<str>)> {
    if let Some(topic) = topic::of_columns(columns.iter().map(|column| column.key.as_str())) {
        return Some((topic, "report header".into()));
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

fn is_block(name: &[u8]) -> bool {
    matches!(name, b"p" | b"div" | b"ul" | b"ol" | b"body" | b"center" | b"hr" | b"pre" | b"form")
}

/// Blanks of all kinds become one.
fn tidy(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for word in text.split_whitespace() {
        if !shown.is_empty() {
            shown.push(' ');
        }
        shown.push_str(word);
    }
    shown
}
