//! Tests that a report in any of its forms gives the same values or unknown ones, never different
//! ones.

use super::*;
use crate::unwrap::tests::spool;

/// Values of a report that were compared with the same report in another form.
#[derive(Default)]
struct FormTally {
    right: usize,
    missing: Vec<String>,
    wrong: Vec<String>,
}

impl FormTally {
    /// Walks the expected values; values in a list are compared by position.
    fn walk(&mut self, path: &str, expected: &Value, found: &Value) {
        match expected {
            Value::Null => {}
            Value::Object(fields) if fields.contains_key("as_printed") => {
                self.leaf(path, &expected["value"], &found["value"]);
            }
            Value::Object(fields) => {
                for (name, value) in
                    fields.iter().filter(|(name, _)| !SKIPPED.contains(&name.as_str()))
                {
                    self.walk(&format!("{path}/{name}"), value, &found[name.as_str()]);
                }
            }
            Value::Array(all) => {
                for (at, value) in all.iter().enumerate() {
                    self.walk(&format!("{path}/{at}"), value, &found[at]);
                }
            }
            leaf => self.leaf(path, leaf, found),
        }
    }

    fn leaf(&mut self, path: &str, expected: &Value, found: &Value) {
        if expected == found {
            self.right += 1;
        } else if found.is_null() {
            self.missing.push(format!("{path}: {expected}"));
        } else {
            self.wrong.push(format!("{path}: {expected}, and not {found}"));
        }
    }

    fn compare(&mut self, what: &str, expected: &Report, found: &Report) {
        let json = |report: &Report| serde_json::to_value(report).unwrap();
        let (expected, found) = (json(expected), json(found));
        self.walk(what, &expected, &found);
        // A figure that the report lacks would be invented.
        let mut back = Self::default();
        back.walk(what, &found, &expected);
        self.wrong.extend(back.missing.into_iter().map(|what| format!("invented {what}")));
    }

    fn right_pct(&self) -> f64 {
        let all = self.right + self.missing.len() + self.wrong.len();
        self.right as f64 * 100.0 / all as f64
    }
}

/// Fields that depend on the form and are not values of the report.
const SKIPPED: [&str; 7] =
    ["file", "format", "notes", "section", "findings", "factors", "as_headed"];

fn samples(ending: &str) -> impl Iterator<Item = (&'static str, &'static str)> {
    SAMPLES.into_iter().filter(move |(name, _)| name.ends_with(ending))
}

fn tally(forms: impl IntoIterator<Item = (String, &'static str, String)>) -> FormTally {
    let mut tally = FormTally::default();
    for (what, name, text) in forms {
        let expected = sample(name);
        match of_text(&text) {
            Ok(found) => tally.compare(&what, &expected, &found),
            Err(error) => tally.missing.push(format!("{what}: {error}")),
        }
    }
    tally
}

fn assert_all_right(tally: FormTally) {
    let FormTally { missing, wrong, .. } = &tally;
    assert!(tally.right > 1000, "{}", tally.right);
    assert!(wrong.is_empty(), "{} wrong: {:#?}", wrong.len(), &wrong[..wrong.len().min(20)]);
    let first = &missing[..missing.len().min(20)];
    assert!(missing.is_empty(), "{} missing: {first:#?}", missing.len());
}

#[test]
fn lines_that_a_spool_cut_give_the_same_values() {
    let mut forms = Vec::new();
    for (name, text) in samples(".html") {
        for width in [80, 132, 200] {
            for flags in 0..8 {
                let [pads, separates, paged] = [1, 2, 4].map(|flag| flags & flag != 0);
                let what = format!("{name} at {width}, {pads} {separates} {paged}");
                forms.push((what, name, spool(text, width, pads, separates, paged)));
            }
        }
    }
    assert_all_right(tally(forms));
}

#[test]
fn a_row_that_lost_a_cell_is_unknown_and_not_shifted() {
    let text = sample_text("awr_19c.html");
    let cut = |from: &str, to: &str| {
        assert!(text.contains(from), "{from}");
        of_text(&text.replacen(from, to, 1)).unwrap()
    };
    let row = "<td scope=\"row\" class='awrc'>Read IO requests:</td><td align";
    let report = cut(row, &row.replace("<td align", "<t\nd align"));
    assert_eq!(report.load_profile.read_requests, report::LoadLine::default());
    assert_eq!(number(&report.load_profile.write_requests.per_second), Some(3.0));
    assert!(report.notes[0].contains("Load Profile: 1 of 12 rows"), "{:?}", report.notes);
    // In a ranked list, one row more or less moves all others.
    let row = "sequential read</td><td align=\"right\" class='awrnc'>170,402,113";
    let report = cut(row, &row.replace("<td align", "<t\nd align"));
    assert_eq!(report.top_events, []);
    assert!(report.notes[0].contains("Top 10"), "{:?}", report.notes);
}

fn each_line(text: &str, form: impl Fn(&str) -> String) -> String {
    text.lines().map(|line| form(line) + "\n").collect()
}

#[test]
fn quoted_indented_and_squeezed_reports_give_the_same_values() {
    let mut forms = Vec::new();
    for (name, text) in samples(".txt") {
        let mut push =
            |what: &str, text: String| forms.push((format!("{name} {what}"), name, text));
        push("indented", each_line(text, |line| format!("    {line}")));
        push(
            "indented, trimmed",
            each_line(text, |line| format!("    {line}").trim_end().to_owned()),
        );
        push("indented by a tab", each_line(text, |line| format!("\t{line}")));
        push("quoted", each_line(text, |line| format!("> {line}").trim_end().to_owned()));
        push("quoted twice", each_line(text, |line| format!(">> {line}")));
        let squeezed: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
        push("squeezed", squeezed.join("\n"));
        let markup = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
        push(
            "pre",
            format!("<html><body><h1>x</h1><PRE class=\"c\">\n{markup}</PRE></body></html>"),
        );
        push(
            "prose",
            format!(
                "Here is my report:\n\n{}\nWhat do you think?\n",
                each_line(text, |line| format!("    {line}"))
            ),
        );
        push("fenced", format!("# My report\n\n```\n{text}\n```\n"));
        push("no-break blanks", text.replace("  ", " \u{a0}"));
        push("double spaced", each_line(text, |line| format!("{line}\n")));
        push("quoted cells", each_line(text, |line| format!("\"{}\"", line.replace('"', "\"\""))));
        let numbered = text.lines().enumerate().map(|(at, line)| format!("{}:{line}\n", at + 1));
        push("numbered", numbered.collect());
        push("stamped", each_line(text, |line| format!("2026-03-01 10:00:07 INFO {line}")));
        push("of a file", each_line(text, |line| format!("awr.txt:{line}").trim_end().to_owned()));
    }
    assert_all_right(tally(forms));
}

/// Elements of a page, as a browser copies them or a converter writes them.
struct Copied<'t> {
    rest: &'t str,
}

enum Piece<'t> {
    Tag(&'t str),
    Text(&'t str),
}

impl<'t> Iterator for Copied<'t> {
    type Item = Piece<'t>;

    fn next(&mut self) -> Option<Piece<'t>> {
        if let Some(tag) = self.rest.strip_prefix('<') {
            let (tag, rest) = tag.split_once('>')?;
            self.rest = rest;
            return Some(Piece::Tag(tag));
        }
        let to = self.rest.find('<').unwrap_or(self.rest.len());
        let (text, rest) = self.rest.split_at(to);
        self.rest = rest;
        (!text.is_empty()).then_some(Piece::Text(text))
    }
}

/// Returns the page with `start`, `between` and `end` around the cells of a row, and a line of
/// dashes under the headings if `rules`.
fn copied(html: &str, [start, between, end]: [&str; 3], rules: bool) -> String {
    let mut copy = String::new();
    let mut cells: Vec<String> = Vec::new();
    let (mut is_cell, mut is_hidden, mut rows) = (false, false, 0);
    let flush = |cells: &mut Vec<String>, copy: &mut String, rows: &mut usize| {
        if cells.is_empty() {
            return;
        }
        let trimmed: Vec<&str> = cells.iter().map(|cell| cell.trim()).collect();
        copy.push_str(&format!("{start}{}{end}\n", trimmed.join(between)));
        *rows += 1;
        if rules && *rows == 1 {
            copy.push_str(&format!("{start}{}{end}\n", vec!["---"; cells.len()].join(between)));
        }
        cells.clear();
    };
    for piece in (Copied { rest: html }) {
        match piece {
            Piece::Tag(tag) => match tag.split([' ', '\n']).next().unwrap().to_lowercase().as_str()
            {
                "table" => {
                    (is_cell, rows) = (false, {
                        copy.push('\n');
                        0
                    })
                }
                "td" | "th" => {
                    is_cell = true;
                    cells.push(String::new());
                }
                "tr" | "/tr" | "/table" => {
                    flush(&mut cells, &mut copy, &mut rows);
                    is_cell = false;
                }
                "style" | "title" => is_hidden = true,
                "/style" | "/title" => is_hidden = false,
                _ if !is_cell => copy.push('\n'),
                _ => {}
            },
            Piece::Text(_) if is_hidden => {}
            Piece::Text(text) => {
                let text = text.replace("&#160;", " ").replace("&lt;", "<").replace("&gt;", ">");
                let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
                match cells.last_mut().filter(|_| is_cell) {
                    Some(cell) => cell.push_str(&text),
                    None => copy.push_str(&text),
                }
            }
        }
    }
    copy
}

#[test]
fn copies_with_tabs_and_markdown_tables_give_the_same_values() {
    let mut forms = Vec::new();
    // A report over a cluster has headings over several columns, which copies lose.
    for (name, text) in samples(".html").filter(|(name, _)| !name.starts_with("awrg")) {
        let mut push =
            |what: &str, text: String| forms.push((format!("{name} {what}"), name, text));
        let tabs = copied(text, ["", "\t", ""], false);
        push("tabs, trimmed", each_line(&tabs, |line| line.trim_end().to_owned()));
        push("tabs", tabs);
        let bars = copied(text, ["| ", " | ", " |"], true);
        push("bold", bars.replace("Begin Snap:", "**Begin Snap:**"));
        push("bars", bars);
        push("loose bars", copied(text, ["", "| ", ""], true));
    }
    assert_all_right(tally(forms));
}

#[test]
fn a_list_of_sections_above_a_table_is_no_title_of_it() {
    let rows = "I#\tLogical Reads/s\tTxns/s\nSum\t7.5\t2.5\n";
    let of = |above: &str| {
        let text = format!(
            "WORKLOAD REPOSITORY REPORT (RAC)\n\n{above}\n{rows}\nLoad Profile\n\n\t\tPer Second\n\
             User calls:\t\t1.0\n"
        );
        of_text(&text).unwrap().load_profile.transactions.per_second
    };
    let contents = "System Statistics\nSystem Statistics - Per Second\nBack to Top\n\n";
    assert_eq!(number(&of("System Statistics - Per Second\n")), Some(2.5));
    assert_eq!(of(&format!("{contents}System Statistics\n")), None);
}

#[test]
fn copies_of_a_cluster_lose_headings_and_shift_nothing() {
    let name = "awrg_19c.html";
    let text = sample_text(name);
    let tabs = copied(text, ["", "\t", ""], false);
    let bars = copied(text, ["| ", " | ", " |"], true);
    let tally = tally([("tabs".to_owned(), name, tabs), ("bars".to_owned(), name, bars)]);
    assert!(tally.wrong.is_empty(), "{:#?}", tally.wrong);
    assert!(tally.right_pct() > 95.0, "{:#?}", tally.missing);
}

/// Returns the sections of a text report, each with its title line.
fn sections(text: &str) -> Vec<String> {
    let lines: Vec<&str> = text.lines().collect();
    let is_title = |at: usize| {
        let line = lines[at];
        let next = lines.get(at + 1).copied().unwrap_or_default();
        !line.is_empty()
            && !line.starts_with([' ', '-', '~'])
            && (line.contains("DB/Inst:") || next.starts_with("~~~"))
    };
    let mut starts: Vec<usize> = (0..lines.len()).filter(|&at| is_title(at)).collect();
    starts.push(lines.len());
    starts.windows(2).map(|two| lines[two[0]..two[1]].join("\n")).collect()
}

#[test]
fn each_section_alone_gives_its_values_and_no_others() {
    let mut tally = FormTally::default();
    let mut seen = std::collections::BTreeMap::new();
    for (name, text) in samples(".txt").filter(|(name, _)| !name.starts_with("awrg")) {
        let whole = sample(name);
        for section in sections(text) {
            let title = section.lines().next().unwrap_or_default().trim();
            let what = format!("{name} {title}");
            for form in [section.clone(), each_line(&section, |line| format!("    {line}"))] {
                // Values that depend on other sections, or are not about work, are missing here.
                let Ok(found) = of_text(&form) else { continue };
                assert_eq!(found.kind, ReportKind::Excerpt, "{what}");
                assert!(found.notes.iter().any(|note| note.contains("excerpt")), "{what}");
                *seen.entry(title.split("  ").next().unwrap().to_owned()).or_insert(0) += 1;
                tally.compare(&what, &whole, &found);
            }
        }
    }
    // Averages and counts computed from two sections differ if one is missing.
    let is_of_two = |what: &&String| what.contains("/top_events/") || what.contains("_pct");
    let wrong: Vec<&String> = tally.wrong.iter().filter(|what| !is_of_two(what)).collect();
    let kind = |what: &&&String| what.contains("/kind");
    let wrong: Vec<&&String> = wrong.iter().filter(|what| !kind(what)).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
    for title in ["Load Profile", "Tablespace IO Stats", "Instance Activity Stats"] {
        assert!(seen.keys().any(|known| known.starts_with(title)), "{title}: {seen:#?}");
    }
}

#[test]
fn an_excerpts_rates_come_from_the_load_profile() {
    let text = sample_text("awr_12c.txt");
    let (_, rest) = text.split_once("Load Profile").unwrap();
    let (profile, _) = rest.split_once("\n\n").unwrap();
    let report =
        of_text(&format!("My database does this:\nLoad Profile{profile}\nIs it much?\n")).unwrap();
    let value = |column: &str| columns::value(&report, column);
    assert_eq!(value("read_requests_per_s"), Some(298_700.1));
    assert_eq!(value("piops"), Some(298_700.1 + 4_321.0));
    assert_eq!(value("write_bytes_per_s"), Some(42.4 * 1_048_576.0));
    assert!(report.notes[0].contains("(Load Profile)"), "{:?}", report.notes);
    assert!(report.notes[0].contains("the elapsed time"), "{:?}", report.notes);
}

#[test]
fn rows_of_dashes_are_no_report() {
    let read =
        |text: &str| of_text(text).map(|report| report.kind).map_err(|error| error.to_string());
    // As get_text() of a page: every cell on its own line.
    let html = copied(sample_text("awr_19c.html"), ["", "\n", ""], false);
    let error = read(&html).unwrap_err();
    assert!(error.contains("holds nothing that can be read: "), "{error}");
    // Cells without separators: the few lines with labels are read, and a note says so.
    let joined = copied(sample_text("awr_11g.html"), ["", "", ""], false);
    let mut tally = FormTally::default();
    let report = of_text(&joined).unwrap();
    tally.compare("joined", &sample("awr_11g.html"), &report);
    assert_eq!(tally.wrong, [""; 0]);
    let note = "neither a load profile nor wait events";
    assert!(report.notes.iter().any(|it| it.contains(note)), "{:?}", report.notes);
    assert!(read("Load Profile\n\nsome words of mine\n").is_err());
}

#[test]
fn texts_that_were_cut_are_refused_or_right() {
    let mut tally = FormTally::default();
    for (name, text) in samples(".txt") {
        for flags in 0..4 {
            let cut = spool(text, 80, flags & 1 != 0, flags & 2 != 0, false);
            match of_text(&cut) {
                Err(AwrError::Cut { width, .. }) => assert_eq!(width, 80, "{name}"),
                Err(error) => panic!("{name}: {error}"),
                Ok(found) => tally.compare(name, &sample(name), &found),
            }
        }
    }
    assert!(tally.wrong.is_empty(), "{:#?}", tally.wrong);
}

#[test]
fn collapsed_blanks_and_edited_names_give_right_values_or_none() {
    let mut tally = FormTally::default();
    for (name, text) in samples(".txt") {
        let collapsed =
            each_line(text, |line| line.split_whitespace().collect::<Vec<_>>().join(" "));
        // Without its head, nothing is left of a cluster's report.
        if let Ok(found) = of_text(&collapsed) {
            tally.compare(&format!("{name} collapsed"), &sample(name), &found);
        }
        let header = sample(name).header;
        for old in [header.host, header.instance, header.db].iter().flatten() {
            let old = old.shown();
            for new in ["x", "h1", "customerdb1", "a-very-long-name-of-somebody"] {
                if new == old || old.contains('+') {
                    continue;
                }
                // In whole words, as an editor replaces them.
                let edited = each_line(text, |line| {
                    let is_word = line.split([' ', '/']).any(|word| word == old);
                    if is_word { line.replacen(&old, new, 1) } else { line.to_owned() }
                });
                let mut expected = serde_json::to_value(sample(name)).unwrap();
                let found = serde_json::to_value(of_text(&edited).unwrap()).unwrap();
                for field in ["host", "instance", "db"] {
                    expected["header"][field] = Value::Null;
                }
                tally.walk(&format!("{name}: {old} is {new}"), &expected, &found);
            }
        }
    }
    // The names of a cluster's instances are edited, too.
    let is_name = |what: &&String| what.contains("/kind") || what.contains("/header/db:");
    let wrong: Vec<&String> = tally.wrong.iter().filter(|what| !is_name(what)).collect();
    assert!(wrong.is_empty(), "{} wrong: {:#?}", wrong.len(), &wrong[..wrong.len().min(20)]);
}
