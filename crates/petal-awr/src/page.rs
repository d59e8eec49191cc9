//! Report as titled tables of cells, the same for text and HTML. This module does not interpret the
//! cells.

mod rows;

use std::sync::Arc;

use super::topic::{self, Topic};

pub use rows::{TableRow, TableRows};

/// Maximum number of cells in a report; a report has some tens of thousands.
const CELLS_MAX: usize = 4_000_000;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableColumn {
    /// Heading above several columns, such as `Wait Time`; often empty.
    pub group: String,
    /// Text of the heading, its lines joined by blanks.
    pub name: String,
    /// [`topic::key`] of the name.
    pub key: String,
}

impl TableColumn {
    pub fn new(group: &str, name: &str) -> Self {
        Self { group: group.to_owned(), name: name.to_owned(), key: topic::key(name) }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageTable {
    pub topic: Topic,
    pub title: Arc<str>,
    pub columns: Vec<TableColumn>,
    pub rows: TableRows,
    /// Width of each column in characters in a text report, which truncates names; empty in HTML.
    pub widths: Vec<usize>,
}

impl PageTable {
    /// Returns the first column that has one of these keys, in the order of the keys.
    pub fn column(&self, keys: &[&str]) -> Option<usize> {
        let of = |key: &&str| self.columns.iter().position(|column| column.key == *key);
        keys.iter().find_map(of)
    }

    /// Returns the first column whose key satisfies `is`.
    pub fn column_where(&self, is: impl Fn(&str) -> bool) -> Option<usize> {
        self.columns.iter().position(|column| is(&column.key))
    }

    /// Returns the lines of a section that is read by labels.
    pub fn lines(&self) -> impl Iterator<Item = String> + '_ {
        self.rows.iter().map(|row| row.cells().collect::<Vec<_>>().join(" "))
    }

    /// True if the name fills its column, so that it may have been truncated.
    pub fn may_be_cut(&self, column: usize, name: &str) -> bool {
        // A blank at the cut is trimmed away.
        self.widths.get(column).is_some_and(|&width| name.chars().count() + 1 >= width)
    }
}

/// Returns a cell of a row, blank if the row lacks it.
pub fn cell(row: TableRow<'_>, at: Option<usize>) -> &str {
    at.and_then(|at| row.get(at)).unwrap_or_default()
}

/// Content read from a report.
#[derive(Debug, Clone, Default)]
pub struct ParsedReport {
    /// Title of the report, such as `WORKLOAD REPOSITORY report for`.
    pub heading: Option<String>,
    pub tables: Vec<PageTable>,
    /// Warnings in the report, outside of tables, that its figures are in doubt.
    pub warnings: Vec<String>,
    /// Seconds that foreground processes waited, as a remark says.
    pub captured_wait: Option<String>,
    /// Database that the titles of the sections name.
    pub running_db: Option<String>,
    /// Set if the report's end was seen, so that nothing is missing.
    pub is_ended: bool,
    pub notes: Vec<String>,
    /// Sections with rows, read or not.
    pub printed: Vec<(Topic, Arc<str>)>,
    cells: usize,
    is_closed: bool,
}

impl ParsedReport {
    /// Keeps a table. Returns false once no more are taken: a second report begins in the same
    /// file, or there is more than any report has.
    pub fn push(&mut self, table: PageTable) -> bool {
        if self.is_closed {
            return false;
        }
        let is_second =
            table.topic == Topic::Database && self.tables_of(Topic::LoadProfile).next().is_some();
        self.cells += table.rows.cells();
        let has_digit = |cell: &str| cell.bytes().any(|byte| byte.is_ascii_digit());
        if table.rows.iter().any(|row| row.cells().any(has_digit)) {
            self.prints(table.topic, &table.title);
        }
        if is_second {
            self.note("the file holds another report behind this one, which was not read");
        } else if self.cells > CELLS_MAX {
            self.note("it has more rows than any report: the rest was not read");
        } else {
            self.tables.push(table);
            return true;
        }
        self.is_closed = true;
        false
    }

    /// Keeps a table whose cells were found by marks between them. A row whose number of cells
    /// differs from the headings was truncated, so its cells cannot be assigned.
    pub fn push_checked(&mut self, mut table: PageTable) -> bool {
        let width = table.columns.len();
        if width == 0 || table.topic.is_labelled() {
            return self.push(table);
        }
        let rows = table.rows.len();
        let whole: Vec<bool> = table.rows.iter().map(|row| row.width() == width).collect();
        let broken = whole.iter().filter(|is_whole| !**is_whole).count();
        if broken == 0 {
            return self.push(table);
        }
        let is_one = table.topic.has_dependent_rows() || table.column(&["i"]).is_some();
        let kept = if is_one { 0 } else { rows - broken };
        self.note(&format!(
            "{}: {broken} of {rows} rows have more or fewer cells than headings, as lines that were \
             cut have: {} unknown; spool the report again with a larger linesize",
            table.title,
            if is_one { "its figures are" } else { "theirs are" },
        ));
        if kept == 0 {
            return true;
        }
        let mut rows = TableRows::default();
        for (row, _) in table.rows.iter().zip(&whole).filter(|(_, is_whole)| **is_whole) {
            rows.extend(row.cells());
        }
        table.rows = rows;
        self.push(table)
    }

    /// Remembers that a section has rows.
    pub fn prints(&mut self, topic: Topic, title: &Arc<str>) {
        if !self.printed.iter().any(|(known, at)| *known == topic && at == title) {
            self.printed.push((topic, title.clone()));
        }
    }

    /// Looks for the report's end and remarks in a line outside of tables.
    pub fn look_at(&mut self, line: &str) {
        const CAPTURED: &str = "Total FG Wait Time:";
        self.is_ended |= line.starts_with("End of Report");
        if let Some((_, rest)) = line.split_once(CAPTURED)
            && self.captured_wait.is_none()
        {
            self.captured_wait = rest.split_whitespace().next().map(str::to_owned);
        }
    }

    pub fn note(&mut self, note: &str) {
        if !self.notes.iter().any(|known| known == note) {
            self.notes.push(note.to_owned());
        }
    }

    pub fn tables_of(&self, topic: Topic) -> impl Iterator<Item = &PageTable> {
        self.tables.iter().filter(move |table| table.topic == topic)
    }

    /// Takes the tables of a topic out of the page.
    pub fn take(&mut self, topic: Topic) -> Vec<PageTable> {
        self.tables.extract_if(.., |table| table.topic == topic).collect()
    }

    pub fn first(&self, topic: Topic) -> Option<&PageTable> {
        self.tables_of(topic).next()
    }
}
