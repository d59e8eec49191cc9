//! Lines of an HTML report that SQL*Plus cut at its `linesize`, joined again without the page
//! breaks of its `pagesize`. All cut lines have the same length. Blanks at their ends, which some
//! spools trim, belong to the report or are padding.

use std::borrow::Cow;

use memchr::{memchr_iter, memmem};

/// Text that SQL*Plus prints over each page: the column's name, above a line of dashes.
const BREAK: &str = "OUTPUT";
/// Range of widths that SQL*Plus supports.
const WIDTH_MIN: usize = 20;
const WIDTH_MAX: usize = 32_767;
/// Number of smaller widths to compare with: a width is a cut if more than twice as many lines have
/// it as have these.
const BELOW: usize = 4;
/// Percentage of lines that may be longer than a cut: output of the session around a report.
const LONGER_PCT: usize = 1;

/// Returns the text without cuts and page breaks, and the width of the cut if there was one.
pub fn unwrapped(text: &str) -> (Cow<'_, str>, Option<usize>) {
    let width = width(text);
    let has_breaks = memmem::find(text.as_bytes(), BREAK.as_bytes()).is_some();
    if width.is_none() && !has_breaks {
        return (Cow::Borrowed(text), None);
    }
    let (mut joined, mut cuts) = (String::with_capacity(text.len()), 0);
    let mut lines = lines_of(text).peekable();
    while let Some(line) = lines.next() {
        let shown = line.trim_end();
        let is_break = |line: &str| line.trim_end() == BREAK;
        if is_break(line) || shown.is_empty() && lines.peek().is_some_and(|next| is_break(next)) {
            if shown.is_empty() {
                lines.next();
            }
            lines.next_if(|next| is_dashes(next.trim_end()));
            continue;
        }
        joined.push_str(shown);
        if width != Some(length(shown)) {
            joined.push('\n');
        } else if lines.peek().is_some_and(|next| !next.trim_end().is_empty()) {
            cuts += 1;
        }
    }
    (Cow::Owned(joined), width.filter(|_| cuts > 0))
}

/// Returns lines without their ends, found with vector instructions.
fn lines_of(text: &str) -> impl Iterator<Item = &str> {
    let mut from = 0;
    let ends = memchr_iter(b'\n', text.as_bytes()).chain([text.len()]);
    ends.map(move |end| {
        let line = text.get(from..end).unwrap_or_default();
        from = end + 1;
        line.trim_end_matches('\r')
    })
}

fn is_dashes(line: &str) -> bool {
    line.len() >= WIDTH_MIN && line.bytes().all(|byte| byte == b'-')
}

/// Length in characters, as SQL*Plus counts.
fn length(line: &str) -> usize {
    if line.is_ascii() { line.len() } else { line.chars().count() }
}

/// Finds the width that lines were cut at.
fn width(text: &str) -> Option<usize> {
    let mut counts = vec![0_usize; WIDTH_MAX + 2];
    let (mut lines, mut padded) = (0, 0);
    let mut full = None;
    for line in lines_of(text) {
        let shown = line.trim_end();
        if shown.is_empty() {
            continue;
        }
        lines += 1;
        let width = length(shown);
        if let Some(count) = counts.get_mut(width.min(WIDTH_MAX + 1)) {
            *count += 1;
        }
        let whole = if shown.len() == line.len() { width } else { length(line) };
        padded += usize::from(*full.get_or_insert(whole) == whole);
    }
    let longest = counts.iter().rposition(|&count| count > 0)?;
    // Every line is padded with blanks to the same width.
    if padded * 100 >= lines * (100 - LONGER_PCT) && full >= Some(longest) {
        return full.filter(|width| (WIDTH_MIN..=WIDTH_MAX).contains(width));
    }
    let mut longer = 0;
    let mut found: Option<usize> = None;
    for width in (WIDTH_MIN..=longest).rev() {
        if longer * 100 > lines * LONGER_PCT {
            break;
        }
        let count = counts.get(width).copied().unwrap_or_default();
        if count > found.and_then(|at| counts.get(at)).copied().unwrap_or(1) {
            found = Some(width);
        }
        longer += count;
    }
    let found = found.filter(|&width| width <= WIDTH_MAX)?;
    let below: usize = counts.get(found - BELOW..found)?.iter().sum();
    (counts.get(found)? > &(2 * below) && cuts_elements(text, found)).then_some(found)
}

/// True if at least half of the lines of this width end within an element: the reports' own lines
/// end with the end of an element.
fn cuts_elements(text: &str, width: usize) -> bool {
    let mut lines = lines_of(text).map(str::trim_end).filter(|line| !line.is_empty()).peekable();
    let (mut full, mut cut) = (0, 0);
    while let Some(line) = lines.next() {
        if length(line) == width {
            full += 1;
            let goes_on = lines.peek().is_some_and(|next| !next.starts_with('<'));
            cut += usize::from(!line.ends_with('>') || goes_on);
        }
    }
    cut * 2 >= full
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Formats a text as SQL*Plus spools it: lines cut at `width`, padded or trimmed, a blank line
    /// after each cut line if `separates`, in pages of 14 lines if `paged`.
    pub fn spool(text: &str, width: usize, pads: bool, separates: bool, paged: bool) -> String {
        let mut lines = Vec::new();
        for line in text.lines() {
            let characters: Vec<char> = line.chars().collect();
            let parts: Vec<String> =
                characters.chunks(width).map(|part| part.iter().collect()).collect();
            let is_cut = parts.len() > 1;
            lines.extend(if parts.is_empty() { vec![String::new()] } else { parts });
            if is_cut && separates {
                lines.push(String::new());
            }
        }
        let mut spooled = String::new();
        for (at, line) in lines.iter().enumerate() {
            if paged && at % 11 == 0 {
                let dashes = "-".repeat(width);
                let head = ["", BREAK, &dashes];
                head.iter().for_each(|line| push(&mut spooled, line, width, pads));
            }
            push(&mut spooled, line, width, pads);
        }
        spooled
    }

    fn push(spooled: &mut String, line: &str, width: usize, pads: bool) {
        match pads {
            true => spooled.push_str(&format!("{line:width$}\n")),
            false => spooled.push_str(&format!("{}\n", line.trim_end())),
        }
    }

    #[test]
    fn lines_that_were_never_cut_stay_as_they_are() {
        for (name, text) in crate::samples::SAMPLES {
            if name.ends_with(".html") {
                assert_eq!(unwrapped(text).1, None, "{name}");
            }
        }
        // Line breaks at blanks, made by a browser, are not cuts.
        let soft = "<TR><TD class=awrnc\nalign=right>1</TD>\n<TD class=awrnc\nalign=left>2</TD>\n";
        assert_eq!(unwrapped(&soft.repeat(40)).1, None);
    }
}
