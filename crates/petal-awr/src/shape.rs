//! Forms of a report's text: quoted in a mail, indented, in the `<pre>` of a page, as a browser's
//! copy with tabs between cells, as a Markdown table. Undoes changes that only move the text, and
//! finds its layout.

mod lines;

use std::borrow::Cow;

use super::text::{self, grid, names_report};

/// Bytes within which an HTML report is recognised.
pub const PROBE: usize = 256 << 10;
/// Percentage of lines that must have the mark if the text is quoted or indented.
const MARKED_PCT: usize = 90;

/// Layout of a text's cells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    Html,
    /// Columns under lines of dashes.
    Dashes,
    /// Cells separated by tabs.
    Tabs,
    /// Cells separated by bars, as in Markdown.
    Bars,
}

/// Returns the text of reports, moved back to the margin, and its layout.
pub fn of(text: &str) -> (Cow<'_, str>, Layout) {
    match lines::restored(text) {
        Cow::Borrowed(text) => moved(text),
        Cow::Owned(restored) => {
            let (text, layout) = moved(&restored);
            (Cow::Owned(text.into_owned()), layout)
        }
    }
}

fn moved(text: &str) -> (Cow<'_, str>, Layout) {
    let unquoted = unquoted(text);
    let shown = match &unquoted {
        Some(unquoted) => unquoted.as_str(),
        None => text,
    };
    if let Some(inner) = preformatted(shown) {
        let inner = indented(&inner).unwrap_or(inner);
        return (Cow::Owned(inner), Layout::Dashes);
    }
    if is_html(shown) {
        let text = unquoted.map_or(Cow::Borrowed(text), Cow::Owned);
        return (text, Layout::Html);
    }
    let layout = layout(shown);
    // A tab at the beginning of a line is an empty cell.
    let moved = if layout == Layout::Tabs { None } else { indented(shown) };
    (moved.or(unquoted).map_or(Cow::Borrowed(text), Cow::Owned), layout)
}

/// True for HTML: an HTML report has elements before its title. SQL in a text report may hold
/// elements too.
fn is_html(text: &str) -> bool {
    let probe = text.as_bytes();
    let probe = probe.get(..PROBE).unwrap_or(probe).to_ascii_lowercase();
    let find = |what: &[u8]| memchr::memmem::find(&probe, what);
    let title = find(b"workload repository").or_else(|| find(b"statspack report"));
    let before = probe.get(..title.unwrap_or(probe.len())).unwrap_or_default();
    let is_tag = |two: &[u8]| two[0] == b'<' && (two[1].is_ascii_alphabetic() || two[1] == b'!');
    before.windows(2).any(is_tag) && (title.is_some() || find(b"<td").is_some())
}

/// Removes the `> ` of a mail's quotation, at any depth.
fn unquoted(text: &str) -> Option<String> {
    if !text.starts_with('>') && memchr::memmem::find(text.as_bytes(), b"\n>").is_none() {
        return None;
    }
    let lines = || text.lines().filter(|line| !line.trim().is_empty());
    let is_quoted = |line: &&str| line.starts_with('>');
    let quoted = lines().filter(is_quoted).count();
    if quoted == 0 || quoted * 100 < lines().count() * MARKED_PCT {
        return None;
    }
    let mut moved = String::with_capacity(text.len());
    for line in text.lines() {
        let mut rest = line;
        while let Some(inner) = rest.strip_prefix('>') {
            rest = inner.strip_prefix(' ').unwrap_or(inner);
        }
        moved.push_str(rest);
        moved.push('\n');
    }
    Some(moved)
}

/// Removes the blanks that every line of a text begins with.
fn indented(text: &str) -> Option<String> {
    let indent = |line: &str| {
        let blanks = line.bytes().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
        line.get(..blanks)
            .map_or(0, |blanks| blanks.bytes().map(|byte| if byte == b' ' { 1 } else { 8 }).sum())
    };
    let shown = || text.lines().filter(|line| !line.trim().is_empty());
    let heading = shown().find(|line| names_report(line.trim_start())).map(indent);
    let margin: usize = match heading {
        Some(margin) => margin,
        None => shown().map(indent).min()?,
    };
    let within = shown().filter(|line| indent(line) >= margin).count();
    if margin == 0 || within * 100 < shown().count() * MARKED_PCT {
        return None;
    }
    let mut moved = String::with_capacity(text.len());
    for line in text.lines() {
        let line = text::without_tabs(line);
        let blanks = line.bytes().take_while(|byte| *byte == b' ').count();
        moved.push_str(line.get(blanks.min(margin)..).unwrap_or_default());
        moved.push('\n');
    }
    Some(moved)
}

/// Returns the text report in the `<pre>` elements of a page.
fn preformatted(text: &str) -> Option<String> {
    let probe = text.get(..PROBE.min(text.len())).unwrap_or(text);
    find_ignoring_case(probe, "<pre")?;
    let mut inner = String::new();
    let mut rest = text;
    while let Some(at) = find_ignoring_case(rest, "<pre") {
        let begin = rest.get(at..)?.find('>').map(|end| at + end + 1)?;
        let element = rest.get(begin..)?;
        let end = find_ignoring_case(element, "</pre").unwrap_or(element.len());
        inner.push_str(element.get(..end)?);
        inner.push('\n');
        rest = element.get(end..)?;
    }
    let inner = without_markup(&inner);
    inner.lines().any(|line| grid::columns_of_dashes(line) > 1).then_some(inner)
}

fn find_ignoring_case(text: &str, what: &str) -> Option<usize> {
    let is_here = |at: &usize| {
        let found = text.as_bytes().get(*at..*at + what.len());
        found.is_some_and(|found| found.eq_ignore_ascii_case(what.as_bytes()))
    };
    memchr::memchr_iter(b'<', text.as_bytes()).find(is_here)
}

/// Removes tags and decodes entities.
fn without_markup(markup: &str) -> String {
    const ENTITIES: [(&str, &str); 9] = [
        ("&lt;", "<"),
        ("&gt;", ">"),
        ("&quot;", "\""),
        ("&#39;", "'"),
        ("&#x27;", "'"),
        ("&apos;", "'"),
        ("&nbsp;", " "),
        ("&#160;", " "),
        ("&amp;", "&"),
    ];
    let mut text = String::with_capacity(markup.len());
    let mut rest = markup;
    while let Some(at) = rest.find(['<', '&']) {
        let (before, from) = rest.split_at(at);
        text.push_str(before);
        let known = ENTITIES.iter().find(|(entity, _)| from.starts_with(entity));
        let is_tag = from.starts_with('<')
            && from
                .get(1..)
                .is_some_and(|tag| tag.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/'));
        let tag = is_tag.then(|| from.find('>').and_then(|end| from.split_at_checked(end + 1)));
        rest = match (known, tag.flatten()) {
            (Some((entity, character)), _) => {
                text.push_str(character);
                from.strip_prefix(entity).unwrap_or_default()
            }
            (None, Some((tag, behind))) => {
                let is_break = tag.get(1..3).is_some_and(|name| name.eq_ignore_ascii_case("br"));
                text.push_str(if is_break { "\n" } else { "" });
                behind
            }
            (None, None) => {
                text.push_str(from.get(..1).unwrap_or_default());
                from.get(1..).unwrap_or_default()
            }
        };
    }
    text.push_str(rest);
    text
}

/// Decides the layout: text reports have lines of dashes over their columns, and copies of HTML
/// have none.
fn layout(text: &str) -> Layout {
    let (mut dashes, mut tabs, mut bars, mut rules) = (0, 0, 0, 0);
    for line in text.lines() {
        let cells = |mark: char| line.split(mark).filter(|cell| !cell.trim().is_empty()).count();
        // A Markdown table has a line of dashes and bars; the text in a page may have tables too.
        rules += usize::from(line.contains("-|") || line.contains("- |"));
        if grid::columns_of_dashes(line) > 1 {
            dashes += 1;
        } else if line.contains('|') && cells('|') > 1 {
            bars += 1;
        } else if line.contains('\t') && cells('\t') > 1 {
            tabs += 1;
        }
    }
    if dashes > rules || tabs + bars < 2 {
        Layout::Dashes
    } else if bars > tabs {
        Layout::Bars
    } else {
        Layout::Tabs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_becomes_text() {
        let markup = "a &lt;b <br>c<span class=x>d</span> 1 < 2 &amp;lt; é<";
        assert_eq!(without_markup(markup), "a <b \ncd 1 < 2 &lt; é<");
    }
}
