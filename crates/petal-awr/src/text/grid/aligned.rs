//! Rows of a table from its lines: cells by the positions of the dashes, if they have the form of
//! their columns. An edit, such as a shorter name, shifts the cells behind it: they are taken only
//! if one shift, or one way to give the words to the columns, fits all forms.

use super::super::super::law::form::{Form, by_forms};
use super::super::super::page::TableRows;
use super::super::super::topic::{self, Topic};
use super::{CharacterLine, ColumnSpan, DashedLine, cells, words};

/// Percentage of the cells of a column of numbers that are numbers: an edit shifts few rows.
const NUMBERS_PCT: usize = 50;
const SHIFT_MAX: usize = 40;

/// Rows read, and how many of the lines were no rows.
#[derive(Default)]
pub struct AlignedRows {
    pub rows: TableRows,
    /// Lines whose cells an edit had moved.
    pub moved: usize,
    /// Lines with numbers that no column fits.
    pub refused: usize,
}

/// Reads the lines under a line of dashes.
pub fn rows(rule: &DashedLine, lines: &[&str], topic: Option<Topic>) -> AlignedRows {
    let by_place: Vec<Option<Vec<&str>>> =
        lines.iter().map(|line| cells(rule, &CharacterLine::new(line))).collect();
    let mut all = AlignedRows::default();
    if topic.is_some_and(Topic::is_head) {
        header(rule, lines, &by_place, &mut all);
        return all;
    }
    let is_checked = topic.is_some_and(Topic::has_number_columns);
    let numeric = if is_checked { number_columns(rule, &by_place) } else { Vec::new() };
    for (line, row) in lines.iter().zip(&by_place) {
        let is_aligned = |row: &&Vec<&str>| exact_ends(&rule.spans, line, row, &numeric).is_some();
        if let Some(row) = row.as_ref().filter(is_aligned) {
            all.rows.extend(row.iter().copied());
        } else if !line.split(' ').any(|word| !word.is_empty() && is_figure(&word)) {
            // Words alone: the rest of a name, or a remark.
            all.rows.extend(row.iter().flatten().copied());
        } else if let Some(row) = shifted(rule, line, &numeric) {
            all.moved += 1;
            all.rows.extend(row);
        } else if is_checked || topic == Some(Topic::LoadProfile) && !line.contains('%') {
            all.refused += 1;
        }
    }
    all
}

/// Reads the rows of a table at the head of a report.
fn header(
    rule: &DashedLine,
    lines: &[&str],
    by_place: &[Option<Vec<&str>>],
    all: &mut AlignedRows,
) {
    let forms: Vec<Option<Form>> = (rule.columns.iter().enumerate())
        .map(|(at, column)| (at > 0 || !rule.is_labelled).then(|| topic::form_of(&column.key)))
        .collect();
    let fits = |row: &&Vec<&str>| {
        let form = |at: usize| forms.get(at).copied().flatten().unwrap_or(Form::Words);
        row.iter().enumerate().all(|(at, cell)| form(at).fits(cell))
    };
    for (line, row) in lines.iter().zip(by_place) {
        let words: Vec<&str> = line.split_whitespace().collect();
        if words.iter().any(|word| word.ends_with(':')) {
            // A line with a label is read elsewhere.
            continue;
        }
        if let Some(row) = row.as_ref().filter(fits) {
            all.rows.extend(row.iter().copied());
        } else if let Some(row) = by_forms(&words, &forms) {
            all.moved += 1;
            all.rows.extend(row.iter().map(String::as_str));
        } else {
            all.refused += 1;
        }
    }
}

/// Returns the columns in which most cells are numbers.
fn number_columns(rule: &DashedLine, rows: &[Option<Vec<&str>>]) -> Vec<usize> {
    let is_numeric = |at: &usize| {
        let key = rule.columns.get(*at).map_or("", |column| column.key.as_str());
        let shown = rows.iter().flatten().filter_map(|row| row.get(*at));
        let shown: Vec<&&str> = shown.filter(|cell| !cell.is_empty()).collect();
        let numbers = shown.iter().filter(|cell| is_figure(cell)).count();
        !topic::is_of_names(key) && numbers > 0 && numbers * 100 >= shown.len() * NUMBERS_PCT
    };
    (1..rule.spans.len()).filter(is_numeric).collect()
}

/// Returns how many numbers end exactly where their columns do, or `None` if one ends elsewhere: one
/// blank before is fine, since some columns keep a place for a unit.
fn exact_ends(spans: &[ColumnSpan], line: &str, row: &[&str], numeric: &[usize]) -> Option<usize> {
    let mut words = words(line).map(|(from, word)| from + word.chars().count()).peekable();
    let mut exact = 0;
    for &at in numeric {
        let (Some(span), Some(cell)) = (spans.get(at), row.get(at)) else { continue };
        while words.next_if(|end| *end + 1 < span.to).is_some() {}
        if !cell.is_empty() {
            let end = words.peek().filter(|end| **end <= span.to + 1 && is_figure(cell))?;
            exact += usize::from(*end == span.to);
        }
    }
    Some(exact)
}

/// True for a blank cell, a number, or a number with its unit.
fn is_figure(cell: &&str) -> bool {
    let digits = cell.trim_end_matches(|c: char| c.is_ascii_alphabetic() || c == ' ');
    let unit = cell.get(digits.len()..).unwrap_or_default().trim();
    let is_number = |byte| matches!(byte, b'0'..=b'9' | b'.' | b',' | b'-' | b'+' | b'#' | b'>');
    let has_digit = digits.bytes().any(|byte| byte.is_ascii_digit() || byte == b'#');
    cell.is_empty()
        || matches!(*cell, "N/A" | "-")
        || has_digit && unit.len() < 4 && digits.bytes().all(is_number)
        || digits.split_once(['E', 'e']).is_some_and(|(one, two)| {
            [one, two].iter().all(|part| !part.is_empty() && part.bytes().all(is_number))
        })
}

/// Reads a row whose numbers all end equally far from the ends of their columns.
fn shifted<'l>(rule: &DashedLine, line: &'l str, numeric: &[usize]) -> Option<Vec<&'l str>> {
    let &first = numeric.first()?;
    let by = |shift: isize| {
        let moved = |at: usize| at.checked_add_signed(shift);
        let spans: Option<Vec<ColumnSpan>> = (rule.spans.iter().enumerate())
            .map(|(at, span)| {
                let from = if at < first { span.from } else { moved(span.from)? };
                let to = if at + 1 < first { span.to } else { moved(span.to)? };
                Some(ColumnSpan { from, to })
            })
            .collect();
        let spans = spans?;
        let rule = DashedLine { spans, columns: Vec::new(), is_labelled: rule.is_labelled };
        let row = cells(&rule, &CharacterLine::new(line))?;
        let numbers = numeric.iter().filter(|&&at| row.get(at).is_some_and(|it| !it.is_empty()));
        let rank = (numbers.count(), exact_ends(&rule.spans, line, &row, numeric)?);
        (rank.0 > 1).then_some((rank, row))
    };
    let most = SHIFT_MAX as isize;
    let found: Vec<_> = (-most..=most).filter(|shift| *shift != 0).filter_map(by).collect();
    // The shift that gives most numbers their place.
    let best = found.iter().map(|(rank, _)| *rank).max()?;
    let mut found = found.into_iter().filter(|(rank, _)| *rank == best);
    let (_, row) = found.next()?;
    found.next().is_none().then_some(row)
}
