//! An independent reading of a report, for tests: its own splitter of text and HTML into cells with
//! their section, row and column. It shares no code with the reader that it checks, and works in
//! another way: it gives each word of a line to the column under whose right edge it ends.

/// A cell as a report prints it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PrintedCell {
    pub section: String,
    /// First cell of the row.
    pub row: String,
    /// Number of the row in its section: equal names are different rows.
    pub number: usize,
    /// Words of the heading, those over several columns first.
    pub column: String,
    pub cell: String,
}

/// Reduces a title or heading to lower-case letters, digits, `%`, `<`, `>` and `=`.
pub fn flat(text: &str) -> String {
    let kept = |c: &char| c.is_alphanumeric() || "%<>=/".contains(*c);
    text.to_lowercase().chars().filter(kept).collect()
}

/// True for a number, also with a unit and without room.
pub fn is_number(word: &str) -> bool {
    let digits = word.trim_start_matches(['-', '+', '.']);
    let is_heading = digits.contains("-bk");
    digits.starts_with(|c: char| c.is_ascii_digit()) && !is_heading || word.starts_with("##")
}

pub fn cells(text: &str) -> Vec<PrintedCell> {
    if text.to_lowercase().contains("<table") { html(text) } else { plain(text) }
}

/// A word of a line: its first and its last place, and its text.
type Word = (usize, usize, String);

fn words(line: &str) -> Vec<Word> {
    let mut words: Vec<Word> = Vec::new();
    let mut open = false;
    for (at, c) in line.chars().enumerate() {
        match words.last_mut() {
            Some(word) if open && c != ' ' => {
                word.1 = at;
                word.2.push(c);
            }
            _ if c != ' ' => words.push((at, at, c.to_string())),
            _ => {}
        }
        open = c != ' ';
    }
    words
}

/// Runs of dashes, if the line has nothing else.
fn dashes(line: &str) -> Option<Vec<(usize, usize)>> {
    let words = words(line);
    let is_rule =
        |word: &Word| word.2.chars().all(|c| c == '-') || word.2.chars().all(|c| c == '~');
    let is_long = words.iter().any(|word| word.2.len() > 1);
    let mut columns: Vec<(usize, usize)> = words.iter().map(|word| (word.0, word.1)).collect();
    // A label of tildes reaches to the next column, and so do blanks before the first.
    if let [first, second, ..] = columns[..] {
        if line.starts_with('~') {
            columns[0].1 = second.0 - 2;
        } else if first.0 > 1 {
            columns.insert(0, (0, first.0 - 2));
        }
    }
    (!words.is_empty() && is_long && words.iter().all(is_rule)).then_some(columns)
}

/// True for the line under the last row of a table.
fn ends(line: &str) -> bool {
    let trimmed = line.trim();
    line.starts_with("        ") && trimmed.len() > 49 && trimmed.chars().all(|c| c == '-')
}

fn plain(text: &str) -> Vec<PrintedCell> {
    let mut found = Vec::new();
    let lines = lines(text);
    let titles: Vec<(usize, String)> =
        (0..lines.len()).filter_map(|at| Some((at, title(&lines, at)?))).collect();
    let first = titles.first().map_or(lines.len(), |it| it.0);
    section("", &lines[..first], &mut found);
    for (place, (at, title)) in titles.iter().enumerate() {
        let to = titles.get(place + 1).map_or(lines.len(), |it| it.0);
        section(title, &lines[*at..to], &mut found);
    }
    found
}

/// Lines without tabs, page breaks and blanks at their ends.
fn lines(text: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let text = text.replace("\r\n", "\n").replace('\r', "\n");
    let mut is_break = false;
    for line in text.split('\n') {
        let mut shown = String::new();
        for c in line.chars() {
            match c {
                '\t' => shown.push_str(&" ".repeat(8 - shown.chars().count() % 8)),
                '\x0c' => {}
                c => shown.push(c),
            }
        }
        let shown = shown.trim_end().to_owned();
        if shown == "OUTPUT" {
            if lines.last().is_some_and(String::is_empty) {
                lines.pop();
            }
        } else if !(is_break && shown.starts_with("-----") && !shown.contains(' ')) {
            lines.push(shown.clone());
        }
        is_break = shown == "OUTPUT";
    }
    lines
}

/// Title of the section that begins at a line.
fn title(lines: &[String], at: usize) -> Option<String> {
    let line = &lines[at];
    if line.starts_with([' ', '-', '~']) || line.is_empty() {
        return None;
    }
    if let Some(end) = line.find("DB/Inst:").or_else(|| line.find(" for DB:")) {
        return Some(line[..end].trim().to_owned());
    }
    let below = lines.get(at + 1)?;
    let title = || line.split("  ").next().unwrap_or("").trim().to_owned();
    let is_head = line.contains("DB Id") || line.contains("Platform") || line.contains("Snap Id");
    let is_title = below.starts_with("~~~") && !is_head;
    let alone = !line.contains("  ") && below.starts_with("->");
    (is_title || alone).then(title)
}

/// A line of dashes with the headings above it.
struct Rule {
    columns: Vec<(usize, usize)>,
    names: Vec<String>,
}

fn section(title: &str, lines: &[String], found: &mut Vec<PrintedCell>) {
    let mut number = 0;
    let mut heading: Vec<&str> = Vec::new();
    let mut rules: Vec<Rule> = Vec::new();
    let mut record: Vec<PrintedCell> = Vec::new();
    let mut place = 0;
    let own = lines.first().filter(|line| !line.contains("DB/Inst:") && !line.contains(" for DB:"));
    let titled = own.map(|line| line.replacen(title, &" ".repeat(title.chars().count()), 1));
    let first = titled.as_deref().unwrap_or("");
    for (at, line) in lines.iter().map(String::as_str).enumerate() {
        let line = if at == 0 && !title.is_empty() { first } else { line };
        if ends(line) || line.starts_with("End of Report") {
            rules.clear();
            heading.clear();
        } else if let Some(columns) = dashes(line) {
            // Headings between two lines of dashes: a record of several lines, or a group.
            if at > 0 && heading.is_empty() && !rules.is_empty() && dashes(&lines[at - 1]).is_none()
            {
                rules.clear();
            }
            if !heading.is_empty() && place > 0 {
                rules.clear();
            }
            rules.push(rule(columns, &heading));
            (heading, place) = (Vec::new(), 0);
        } else if line.trim_start().starts_with("->") || line.starts_with("->") {
            heading.clear();
        } else if !line.is_empty() {
            let words = words(line);
            let has_number = words.iter().any(|word| is_number(&word.2)) && !is_range(line);
            if rules.is_empty() || !has_number && is_heading(&lines[at..]) {
                if place > 0 {
                    rules.clear();
                    place = 0;
                }
                heading.push(line);
                continue;
            }
            read(title, &rules, line, &words, (&mut place, &mut number), &mut record, found);
        }
    }
}

/// Ranges of milliseconds are headings although they have digits.
fn is_range(line: &str) -> bool {
    line.contains(" ms ") || line.trim_start().starts_with("to ") || line.contains("<")
}

/// True if a line of dashes follows within five lines, without an end before it or a number.
fn is_heading(lines: &[String]) -> bool {
    for line in lines.iter().take(6) {
        if ends(line) || line.is_empty() {
            return false;
        }
        if dashes(line).is_some() {
            return true;
        }
        if words(line).iter().any(|word| is_number(&word.2)) && !is_range(line) {
            return false;
        }
    }
    false
}

fn rule(columns: Vec<(usize, usize)>, heading: &[&str]) -> Rule {
    let mut names = vec![String::new(); columns.len()];
    for line in heading {
        // `----- % of Waits -----` names a group.
        if line.contains("----") {
            continue;
        }
        for (from, to, word) in words(line) {
            // A heading ends over its column, or begins over it.
            let over = |column: &&(usize, usize)| from <= column.1 && to >= column.0;
            let right = columns.iter().position(|column| column.1 == to);
            let best = right.or_else(|| {
                let fits = columns
                    .iter()
                    .filter(over)
                    .max_by_key(|column| column.1.min(to) as i64 - column.0.max(from) as i64)?;
                columns.iter().position(|column| column == fits)
            });
            if let Some(at) = best {
                names[at].push(' ');
                names[at].push_str(&word);
            }
        }
    }
    Rule { columns, names }
}

fn read(
    title: &str,
    rules: &[Rule],
    line: &str,
    words: &[Word],
    (place, number): (&mut usize, &mut usize),
    record: &mut Vec<PrintedCell>,
    found: &mut Vec<PrintedCell>,
) {
    // Of stacked lines of dashes those with one column over others are groups.
    let has_record =
        ["tablespaceiostats", "fileiostats"].iter().any(|it| flat(title).starts_with(it))
            || rules.first().is_some_and(|rule| rule.columns.len() == 1 && rule.columns[0].0 == 0);
    let lines = if has_record { rules } else { &rules[rules.len() - 1..] };
    let is_last_name = lines.len() > 1 && !line.starts_with(' ');
    if is_last_name {
        *place = 0;
    }
    let Some(rule) = lines.get(*place) else { return };
    let mut cells = vec![String::new(); rule.columns.len()];
    for (from, to, word) in words {
        let right =
            rule.columns.iter().position(|column| column.1 == *to).filter(|_| is_number(word));
        let share = |column: &(usize, usize)| column.1.min(*to) as i64 - column.0.max(*from) as i64;
        let most = (0..rule.columns.len()).max_by_key(|at| share(&rule.columns[*at])).unwrap();
        let cell = &mut cells[right.unwrap_or(most)];
        if !cell.is_empty() {
            cell.push(' ');
        }
        cell.push_str(word);
    }
    if *place == 0 {
        record.clear();
        *number += 1;
    }
    let name = record.first().map_or(cells[0].clone(), |it| it.row.clone());
    for (column, cell) in rule.names.iter().zip(cells) {
        record.push(PrintedCell {
            section: title.to_owned(),
            row: name.clone(),
            number: *number,
            column: column.trim().to_owned(),
            cell,
        });
    }
    *place += 1;
    if *place == lines.len() {
        *place = 0;
        found.append(record);
    }
}

fn html(text: &str) -> Vec<PrintedCell> {
    let text = joined(text);
    let lower = text.to_ascii_lowercase();
    let mut found = Vec::new();
    let (mut at, mut heading) = (0, String::new());
    let mut counts = std::collections::BTreeMap::new();
    while let Some(from) = lower[at..].find("<table").map(|place| at + place) {
        let between = &text[at..from];
        if let Some(title) = last_text(between) {
            heading = title;
        }
        let to = lower[from..].find("</table").map_or(text.len(), |place| from + place);
        let number = counts.entry(heading.clone()).or_insert(0);
        table(&heading, &text[from..to], number, &mut found);
        at = (to + 8).min(text.len());
    }
    found
}

/// Text whose lines SQL*Plus cut at one length.
fn joined(text: &str) -> String {
    let lines: Vec<&str> = text.lines().map(|line| line.trim_end_matches('\r')).collect();
    let longest = lines.iter().map(|line| line.chars().count()).max().unwrap_or(0);
    let full = lines.iter().filter(|line| line.chars().count() == longest).count();
    let mut joined = String::new();
    for line in lines {
        joined.push_str(line);
        if full < 3 || line.chars().count() < longest {
            joined.push('\n');
        }
    }
    joined
}

fn without_tags(markup: &str) -> String {
    let mut text = String::new();
    let mut inside = false;
    for c in markup.chars() {
        match c {
            '<' => inside = true,
            '>' if inside => {
                inside = false;
                text.push(' ');
            }
            c if !inside => text.push(c),
            _ => {}
        }
    }
    let text = text.replace("&#160;", " ").replace("&nbsp;", " ").replace("&lt;", "<");
    let text = text.replace("&gt;", ">").replace("&amp;", "&").replace('\u{a0}', " ");
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The last heading, or the last text that is no link or item of a list.
fn last_text(between: &str) -> Option<String> {
    // A remark in place of another table.
    let mut text = between.replace("No data exists for this section of the report.", "");
    for element in ["a", "li", "style", "title"] {
        let mut kept = String::new();
        let mut rest = text.as_str();
        let lower = |text: &str| text.to_ascii_lowercase();
        while let Some(at) = [format!("<{element}>"), format!("<{element} ")]
            .iter()
            .filter_map(|tag| lower(rest).find(tag))
            .min()
        {
            kept.push_str(&rest[..at]);
            let end = lower(&rest[at..]).find(&format!("</{element}>"));
            let next = lower(&rest[at + 1..]).find(&format!("<{element}")).map(|it| it + 1);
            rest = &rest[at + end.or(next).unwrap_or(rest.len() - at)..];
        }
        kept.push_str(rest);
        text = kept;
    }
    let lower = text.to_ascii_lowercase();
    let headings = ["</h1>", "</h2>", "</h3>", "</h4>"];
    let end = headings.iter().filter_map(|tag| lower.rfind(tag)).max();
    let after = end.map(|end| without_tags(&text[end..])).filter(|it| !it.is_empty());
    let heading = end.and_then(|end| {
        let from = lower[..end].rfind("<h")?;
        Some(without_tags(&text[from..end]))
    });
    // A part behind `<p` begins within that tag.
    let part = |(at, part): (usize, &str)| match at {
        0 => without_tags(part),
        _ => without_tags(&format!("<p{part}")),
    };
    let lines = || text.split("<p").enumerate().map(part).filter(|it| !it.is_empty()).last();
    after.or(heading).or_else(lines)
}

fn table(title: &str, markup: &str, number: &mut usize, found: &mut Vec<PrintedCell>) {
    let lower = markup.to_ascii_lowercase();
    let mut groups: Vec<String> = Vec::new();
    let mut names: Vec<String> = Vec::new();
    let starts: Vec<usize> = lower.match_indices("<tr").map(|(at, _)| at).collect();
    for (place, &from) in starts.iter().enumerate() {
        let to = starts.get(place + 1).copied().unwrap_or(markup.len());
        let (cells, is_heading) = row(&markup[from..to]);
        if is_heading {
            groups = std::mem::replace(&mut names, cells);
            continue;
        }
        *number += 1;
        for (at, cell) in cells.iter().enumerate() {
            let name = |names: &[String]| names.get(at).cloned().unwrap_or_default();
            let group = if groups.len() == names.len() { name(&groups) } else { String::new() };
            found.push(PrintedCell {
                section: title.to_owned(),
                row: cells[0].clone(),
                number: *number,
                column: format!("{group} {}", name(&names)).trim().to_owned(),
                cell: cell.clone(),
            });
        }
    }
}

/// Cells of a row, those over several columns repeated; true if all are headings.
fn row(markup: &str) -> (Vec<String>, bool) {
    let lower = markup.to_ascii_lowercase();
    let mut starts: Vec<(usize, bool)> = Vec::new();
    for (tag, is_heading) in [("<td", false), ("<th", true)] {
        starts.extend(lower.match_indices(tag).filter_map(|(at, _)| {
            let after = lower[at + 3..].chars().next()?;
            (after == '>' || after.is_whitespace()).then_some((at, is_heading))
        }));
    }
    starts.sort_unstable();
    let mut cells = Vec::new();
    let mut is_heading = !starts.is_empty();
    for (place, &(from, heads)) in starts.iter().enumerate() {
        let to = starts.get(place + 1).map_or(markup.len(), |it| it.0);
        let text = without_tags(&markup[from..to]);
        is_heading &= heads || text.is_empty();
        let tag = &lower[from..from + lower[from..].find('>').unwrap_or(0)];
        let span = tag.split_once("colspan").map_or(1, |(_, rest)| {
            let digits: String = rest.chars().filter(char::is_ascii_digit).take(2).collect();
            digits.parse().unwrap_or(1)
        });
        (0..span).for_each(|_| cells.push(text.clone()));
    }
    (cells, is_heading && starts.iter().any(|it| it.1))
}
