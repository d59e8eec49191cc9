//! Headings over a line of dashes: each word names the column that it overlaps most; words between
//! dashes, as in `----- % of Waits -----`, name the columns below them together.

use super::super::super::page::TableColumn;
use super::super::super::topic;
use super::ColumnSpan;

/// Names that cover several columns.
pub type SpanNames = Vec<(ColumnSpan, String)>;

/// Names the columns; `groups` are named in lines of dashes above.
pub fn columns(spans: &[ColumnSpan], heading: &[&str], groups: &SpanNames) -> Vec<TableColumn> {
    // A line break or collapsed blanks may have moved these headings.
    let all: String = heading.iter().map(|line| topic::key(line)).collect();
    if let Some(names) = topic::head_of_words(&all).filter(|names| names.len() == spans.len()) {
        return names.iter().map(|name| TableColumn::new("", name)).collect();
    }
    let mut names = vec![String::new(); spans.len()];
    let mut own = groups.clone();
    for line in heading {
        for (from, word) in apart(line, &mut own) {
            let to = from + word.chars().count();
            let overlap = |span: &ColumnSpan| span.to.min(to).saturating_sub(span.from.max(from));
            let best = spans.iter().enumerate().max_by_key(|(_, span)| overlap(span));
            let Some((at, span)) = best else { continue };
            if overlap(span) > 0
                && let Some(name) = names.get_mut(at)
            {
                if !name.is_empty() {
                    name.push(' ');
                }
                name.push_str(word);
            }
        }
    }
    let group = |span: &ColumnSpan| {
        let over = own.iter().find(|(group, _)| group.from < span.to && span.from < group.to);
        over.map_or("", |(_, name)| name.as_str())
    };
    spans.iter().zip(&names).map(|(span, name)| TableColumn::new(group(span), name)).collect()
}

/// Returns the words of a line that name single columns, and adds those between dashes to the
/// groups.
fn apart<'l>(line: &'l str, groups: &mut SpanNames) -> Vec<(usize, &'l str)> {
    let is_dashes = |word: &str| word.len() > 2 && word.bytes().all(|b| matches!(b, b'-' | b'~'));
    let mut single = Vec::new();
    let mut open: Option<(usize, Vec<(usize, &str)>)> = None;
    for (from, word) in words(line) {
        match (&mut open, is_dashes(word)) {
            (None, true) => open = Some((from, Vec::new())),
            (None, false) => single.push((from, word)),
            (Some((_, inner)), false) => inner.push((from, word)),
            (Some((begin, inner)), true) => {
                let name: Vec<&str> = inner.iter().map(|(_, word)| *word).collect();
                let span = ColumnSpan { from: *begin, to: from + word.chars().count() };
                groups.push((span, name.join(" ")));
                open = None;
            }
        }
    }
    // Words behind dashes that nothing closes are names.
    single.extend(open.into_iter().flat_map(|(_, inner)| inner));
    single
}

/// Returns the words of a line with the positions of their first characters.
pub fn words(line: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut at = 0;
    line.split(' ').filter_map(move |word| {
        let from = at;
        at += word.chars().count() + 1;
        (!word.is_empty()).then_some((from, word))
    })
}
