//! Text report as a [`ParsedReport`]: finds sections by their title lines, tables by their lines of
//! dashes, cells by the positions of the dashes. Undoes page breaks of SQL*Plus, tabs, form feeds
//! and mixed line ends. The extractors interpret the cells.

mod cut;
pub(super) mod grid;

use std::borrow::Cow;
use std::sync::Arc;

use super::page::{PageTable, ParsedReport, TableRows};
use super::topic::{self, HEAD, Topic};

use grid::{Grid, Unfinished};

const TAB: usize = 8;
/// Beginnings of a report's first line.
const HEADINGS: [&str; 2] = ["WORKLOAD REPOSITORY", "STATSPACK report"];
/// Beginning of a report's last line.
const END: &str = "End of Report";

/// Note for a text in which each run of blanks is one blank.
const COLLAPSED: &str = "its runs of blanks are single blanks, as a mail or chat program leaves \
them: the columns of its tables cannot be known, and only its head is read";

/// Note for a text in which no line begins with a blank.
const STRIPPED: &str = "its lines lost their first blanks, as a mail program or a paste leaves them: \
rows and headings that this moved are unknown";

/// Meaning of a section's title.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ReportSection {
    /// Tables without titles, recognised by their columns.
    Head,
    Of(Topic),
    Other,
}

/// Splits a text into its reports, each with the output that precedes it.
pub fn reports(text: &str) -> Vec<&str> {
    let mut heads: Vec<usize> = HEADINGS
        .iter()
        .flat_map(|heading| text.match_indices(heading))
        .map(|(at, _)| at)
        .filter(|&at| begins_line(text, at))
        .collect();
    heads.sort_unstable();
    let mut reports = Vec::with_capacity(heads.len().max(1));
    let mut from = 0;
    for two in heads.windows(2) {
        let [head, next] = two else { continue };
        // Output after a report's end belongs to the next report.
        let between = text.get(*head..*next).unwrap_or_default();
        let end = between.rmatch_indices(END).find(|(at, _)| begins_line(between, *at));
        let to = end.map_or(*next, |(at, _)| head + at + END.len());
        reports.push(text.get(from..to).unwrap_or_default());
        from = to;
    }
    reports.push(text.get(from..).unwrap_or_default());
    reports
}

/// True for the first line of a report.
pub fn names_report(line: &str) -> bool {
    HEADINGS.iter().any(|heading| line.starts_with(heading))
}

/// True if only blanks and Markdown marks precede this position in its line.
fn begins_line(text: &str, at: usize) -> bool {
    // Markdown marks count as blanks.
    let marks = [' ', '\t', '\x0c', '#', '*', '|'];
    let before = text.get(..at).unwrap_or_default().trim_end_matches(marks);
    before.is_empty() || before.ends_with(['\n', '\r'])
}

pub fn page(text: &str) -> ParsedReport {
    let mut lines = lines(text).peekable();
    let mut page = ParsedReport::default();
    let cut_at = cut::width(text);
    if is_collapsed(text) {
        page.note(COLLAPSED);
    } else if let Some(width) = cut_at {
        page.note(&format!(
            "its lines have at most {width} characters, and many have as many: their ends may be \
             missing, and the figures there are unknown"
        ));
    }
    let is_stripped = cut::is_stripped(text);
    if is_stripped {
        page.note(STRIPPED);
    }
    let mut reader = TextReader {
        page: &mut page,
        section: ReportSection::Head,
        unfinished: None,
        cut_at,
        is_stripped,
    };
    let mut section: Vec<Cow<str>> = Vec::new();
    let mut open = HEAD.to_owned();
    while let Some(line) = lines.next() {
        reader.look_at(&line);
        let is_below = section.last().is_some_and(|above| is_text(above));
        if reader.heads(&line) {
            // Output of the session before the report belongs to no section.
            section.clear();
            section.push(Cow::Borrowed(""));
            HEAD.clone_into(&mut open);
            continue;
        } else if let Some(title) = title(&line, lines.peek().map_or("", AsRef::as_ref))
            && !(is_below && section_of(title) == ReportSection::Other)
        {
            if !reader.section(&open, &section) {
                return page;
            }
            section.clear();
            title.clone_into(&mut open);
        }
        section.push(line);
    }
    reader.section(&open, &section);
    page
}

struct TextReader<'p> {
    page: &'p mut ParsedReport,
    section: ReportSection,
    /// Record left incomplete by the last page of the same section.
    unfinished: Option<Unfinished>,
    /// Width that lines may have been cut at.
    cut_at: Option<usize>,
    is_stripped: bool,
}

impl TextReader<'_> {
    /// Reads a section; returns false once nothing more is wanted.
    fn section(&mut self, title: &str, lines: &[Cow<'_, str>]) -> bool {
        let section = section_of(title);
        if section != self.section {
            self.unfinished = None;
        }
        self.section = section;
        let topic = match section {
            ReportSection::Other => return true,
            ReportSection::Head => None,
            // A cluster's section has a row for each instance.
            ReportSection::Of(Topic::CacheSizes)
                if lines.iter().any(|line| has_instances(line)) =>
            {
                Some(Topic::ClusterCaches)
            }
            ReportSection::Of(topic) => Some(topic),
        };
        let is_collapsed = self.page.notes.iter().any(|note| note == COLLAPSED);
        // The numbers of instances are behind blanks, and other columns are as wide as theirs.
        let is_moved = self.is_stripped && lines.iter().any(|line| has_instances(line));
        if (is_collapsed || is_moved) && topic.is_some_and(|topic| !topic.is_labelled()) {
            return true;
        }
        if let Some(db) = lines.first().and_then(|line| running_db(line)) {
            self.page.running_db.get_or_insert_with(|| db.to_owned());
        }
        let blanked;
        let mut lines: Vec<&str> = lines.iter().map(AsRef::as_ref).collect();
        let has_own_line = lines.get(1).is_none_or(|line| !line.contains('-'));
        if let Some(first) = lines.first_mut() {
            if is_running_title(first) {
                *first = "";
            } else if has_own_line && let Some(rest) = first.strip_prefix(title) {
                // Headings may be on the title's line; the title is not one of them.
                blanked = format!("{:width$}{rest}", "", width = title.chars().count());
                *first = blanked.trim_end();
            }
        }
        let title: Arc<str> = match section {
            ReportSection::Head => HEAD.into(),
            _ => title.into(),
        };
        if let Some(topic) = topic.filter(|topic| !topic.is_labelled() && has_rows(&lines)) {
            self.page.prints(topic, &title);
        }
        let labelled = |line: &&&str| match topic {
            None => is_snapshot_line(line) || line.contains("Num CPUs:"),
            Some(topic) => topic.is_labelled() && !line.is_empty(),
        };
        let mut rows = TableRows::default();
        let is_whole = |line: &&&str| self.cut_at.is_none_or(|width| line.chars().count() < width);
        lines.iter().filter(labelled).filter(is_whole).for_each(|line| rows.extend([*line]));
        if !rows.is_empty() {
            let topic = topic.unwrap_or(Topic::Snapshots);
            let table = PageTable {
                topic,
                title: title.clone(),
                columns: Vec::new(),
                rows,
                widths: Vec::new(),
            };
            if !self.page.push(table) {
                return false;
            }
        }
        if topic.is_some_and(Topic::is_labelled) {
            return true;
        }
        let mut notes = Vec::new();
        let grid = Grid { lines: &lines, title, topic, cut_at: self.cut_at };
        let tables = grid.tables(&mut self.unfinished, &mut notes);
        notes.iter().for_each(|note| self.page.note(note));
        // The snapshots have been read by their labels.
        let tables = tables.into_iter().filter(|table| table.topic != Topic::Snapshots);
        tables.into_iter().all(|table| self.page.push(table))
    }

    /// True at the first line of the report.
    fn heads(&mut self, line: &str) -> bool {
        let is_first = self.page.heading.is_none() && names_report(line.trim_start());
        if is_first {
            self.page.heading = Some(line.trim().to_owned());
        }
        is_first
    }

    fn look_at(&mut self, line: &str) {
        self.page.look_at(line);
        if is_warning(line) {
            self.page.warnings.push(line.trim().to_owned());
        }
    }
}

/// True for a line that is neither blank nor dashes nor a running title: below it, only a known
/// title is one, since headings may have two lines.
fn is_text(line: &str) -> bool {
    !line.trim_matches(['-', '~', ' ']).is_empty() && !is_running_title(line)
}

/// True if a line below one of dashes has a digit.
fn has_rows(lines: &[&str]) -> bool {
    let is_rule = |line: &str| grid::columns_of_dashes(line) > 0 && !grid::is_end(line);
    let mut below = lines.iter().skip_while(|line| !is_rule(line));
    below.any(|line| !line.starts_with('-') && line.bytes().any(|byte| byte.is_ascii_digit()))
}

/// True for a title line that also has the database and the snapshots.
fn is_running_title(line: &str) -> bool {
    line.contains("DB/Inst:") || line.contains(" for DB: ")
}

/// Returns the database in a running title: `DB/Inst: LILY/lily2` or ` for DB: LILY`.
fn running_db(line: &str) -> Option<&str> {
    let find = |label: &str| line.split_once(label).map(|(_, rest)| rest.trim_start());
    let named = find("DB/Inst:").and_then(|rest| rest.split_once('/')).map(|(db, _)| db);
    let name = named.or_else(|| find(" for DB: ")?.split_whitespace().next())?;
    (!name.is_empty() && !name.contains(' ')).then_some(name)
}

/// True if no line has two blanks between words, where reports align their columns.
fn is_collapsed(text: &str) -> bool {
    let rules = text.lines().filter(|line| grid::columns_of_dashes(line.trim_end()) > 2).count();
    let wide = text.lines().filter(|line| line.trim().contains("  ")).count();
    rules > 2 && wide < rules
}

/// True for a long text in which no line of dashes marks columns.
pub fn has_no_rules(text: &str) -> bool {
    const LINES_MIN: usize = 40;
    text.lines().count() >= LINES_MIN && !text.lines().any(|line| grid::columns_of_dashes(line) > 1)
}

/// True for the headings of a table by instance.
fn has_instances(line: &str) -> bool {
    line.split_whitespace().next() == Some("I#")
}

/// True for the warning of Statspack or AWR that the snapshots are on different sides of a restart.
fn is_warning(line: &str) -> bool {
    line.contains("span an instance shutdown") || line.contains("RESULTS ARE INVALID")
}

fn section_of(title: &str) -> ReportSection {
    match topic::key(title).as_str() {
        "reportheader" | "database" | "dbname" | "hostname" | "host" | "snapshot" | "instance" => {
            ReportSection::Head
        }
        _ => topic::of_title(title).map_or(ReportSection::Other, ReportSection::Of),
    }
}

fn is_snapshot_line(line: &str) -> bool {
    ["Begin Snap:", "End Snap:", "Elapsed:", "DB Time:", "DB time:"]
        .iter()
        .any(|label| line.trim_start().starts_with(label))
}

/// Returns the title in a line: the text before `DB/Inst:` or ` for DB:`, above a line of tildes or
/// above the notes of its section; or a known title alone.
fn title<'l>(line: &'l str, next: &str) -> Option<&'l str> {
    if line.starts_with([' ', '-', '~']) || line.is_empty() {
        return None;
    }
    if let Some(at) = line.find("DB/Inst:").or_else(|| line.find(" for DB: ")) {
        return Some(line[..at].trim_end());
    }
    if next.starts_with("~~~") {
        return Some(line.split("  ").next().unwrap_or(line).trim_end());
    }
    let is_alone = !line.contains("  ")
        && (next.starts_with("->") || is_over_table(next) && topic::of_title(line).is_some());
    is_alone.then_some(line)
}

/// True for a blank line or headings: the blank line before the headings may be missing.
fn is_over_table(line: &str) -> bool {
    line.is_empty() || line.starts_with(' ') || grid::columns_of_dashes(line) > 0 || {
        let mut words = line.split_whitespace();
        words.clone().count() > 1
            && !words.any(|word| word.starts_with(|c: char| c.is_ascii_digit()))
    }
}

/// Returns the width at which the lines of a text were cut: a line of dashes then continues on the
/// next line. The columns of the rest of a row cannot be known.
pub fn cut_at(text: &str) -> Option<usize> {
    let shown = text.lines().map(str::trim_end).filter(|line| !line.is_empty());
    let mut before: Option<&str> = None;
    let (mut cuts, mut width) = (0, 0);
    for line in shown {
        let is_dashes = grid::columns_of_dashes(line) > 0 && !grid::is_end(line);
        let over = before.filter(|over| is_dashes && grid::columns_of_dashes(over) > 1);
        if let Some(over) = over.filter(|over| over.len() > 60) {
            cuts += 1;
            width = width.max(over.len());
        }
        before = Some(line);
    }
    (cuts > 0).then_some(width)
}

/// Returns lines without their ends, tabs, form feeds and the page breaks of SQL*Plus.
fn lines(text: &str) -> impl Iterator<Item = Cow<'_, str>> {
    const BREAK: &str = "OUTPUT";
    // Line ends may be LF, CRLF, CR CRLF and CR in one file.
    let parts = text.split('\n').flat_map(|line| line.trim_end_matches('\r').split('\r'));
    let mut parts = parts.map(|line| line.trim_start_matches('\x0c').trim_end()).peekable();
    let is_underline = |line: &&str| line.len() >= 60 && line.bytes().all(|byte| byte == b'-');
    std::iter::from_fn(move || {
        let mut line = parts.next()?;
        // The blank line before a break ends the page, not the table.
        while line == BREAK || line.is_empty() && parts.peek() == Some(&BREAK) {
            if line == BREAK {
                parts.next_if(is_underline);
            }
            line = parts.next()?;
        }
        Some(without_tabs(line))
    })
}

/// Replaces the tabs of a line with blanks.
pub fn without_tabs(line: &str) -> Cow<'_, str> {
    if line.contains('\t') { Cow::Owned(expand(line)) } else { line.into() }
}

fn expand(line: &str) -> String {
    let mut shown = String::new();
    let mut width = 0;
    for c in line.chars() {
        let (c, cells) = if c == '\t' { (' ', TAB - width % TAB) } else { (c, 1) };
        shown.extend(std::iter::repeat_n(c, cells));
        width += cells;
    }
    shown
}
