//! Laws on changed reports: the rate of changes that a law finds, and the cost of each.

use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::page::{ParsedReport, TableRows};
use crate::report::ReportKind;
use crate::samples::{SAMPLES, folder, log_line, of_text, sample_text};
use crate::topic::Topic;
use crate::{extract, kind, shape, source};

fn parsed(text: &str) -> (ParsedReport, ReportKind) {
    let (text, layout) = shape::of(text);
    let page = crate::page(&text, layout);
    let kind = kind(&page).unwrap();
    (page, kind)
}

/// Change of a report, after its cells were found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Change {
    /// Another digit in one number.
    Digit,
    /// Another first digit.
    FirstDigit,
    /// Two neighbouring columns of numbers, one for the other.
    Column,
    /// The cells of one row, one column further.
    Shift,
    /// A row that is lost.
    Row,
}

const CHANGES: [(Change, &str); 5] = [
    (Change::Digit, "one digit is another"),
    (Change::FirstDigit, "the first digit is another"),
    (Change::Column, "two neighbouring columns are exchanged"),
    (Change::Shift, "the cells of a row are one column further"),
    (Change::Row, "a row is lost"),
];

/// Pseudo-random numbers that are the same each time (splitmix64).
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % end.max(1) as u64) as usize
    }
}

fn is_number(cell: &str) -> bool {
    cell.starts_with(|c: char| c.is_ascii_digit() || c == '.') && !cell.contains([':', '-', '/'])
}

/// Makes a change at a random place; `None` if the place has nothing to change.
fn change(page: &mut ParsedReport, change: Change, random: &mut Random) -> Option<String> {
    let tables: Vec<usize> = (0..page.tables.len())
        .filter(|&at| !matches!(page.tables[at].topic, Topic::Parameters | Topic::Snapshots))
        .collect();
    // Each row is as likely as any other.
    let all: usize = tables.iter().map(|&at| page.tables[at].rows.len()).sum();
    let mut place = random.below(all);
    let at = *tables.iter().find(|&&at| {
        let rows = page.tables[at].rows.len();
        let is_here = place < rows;
        place = place.saturating_sub(if is_here { 0 } else { rows });
        is_here
    })?;
    let table = &mut page.tables[at];
    let mut what = table.title.to_string();
    let mut rows: Vec<Vec<String>> =
        table.rows.iter().map(|row| row.cells().map(str::to_owned).collect()).collect();
    let row = rows.get_mut(place)?;
    match change {
        Change::Row => drop(rows.remove(place)),
        Change::Shift => {
            let from = row.iter().skip(1).position(|cell| is_number(cell))? + 1;
            row.insert(from, String::new());
            row.pop();
        }
        Change::Column => {
            let one = 1 + random.below(row.len().saturating_sub(1));
            let is_there = row.get(one).is_some_and(|it| is_number(it));
            (is_there && row.get(one + 1).is_some_and(|it| is_number(it))).then_some(())?;
            rows.iter_mut()
                .filter(|row| row.len() > one + 1)
                .for_each(|row| row.swap(one, one + 1));
        }
        Change::Digit | Change::FirstDigit => {
            let numbers: Vec<usize> = (0..row.len()).filter(|&at| is_number(&row[at])).collect();
            let column = *numbers.get(random.below(numbers.len()))?;
            what.push_str(&format!(": {}", table.columns.get(column).map_or("", |it| &it.name)));
            let cell = &mut row[column];
            let digits = cell.char_indices().filter(|(_, c)| c.is_ascii_digit());
            let digits: Vec<usize> = digits.map(|(at, _)| at).collect();
            let first = digits.iter().position(|&at| &cell[at..=at] != "0")?;
            let nth = match change {
                Change::FirstDigit => first,
                _ => first + random.below(digits.len() - first),
            };
            let old = cell[digits[nth]..].chars().next()?.to_digit(10)?;
            let new = (old + 1 + random.below(9) as u32) % 10;
            cell.replace_range(digits[nth]..=digits[nth], &new.to_string());
        }
    }
    let mut changed = TableRows::default();
    rows.iter().for_each(|row| changed.extend(row.iter().map(String::as_str)));
    table.rows = changed;
    Some(what)
}

/// Changes that alter a figure, those that a law found, and the laws that found them.
#[derive(Default)]
struct Found {
    all: usize,
    found: usize,
    by_law: BTreeMap<&'static str, usize>,
}

fn measured(texts: &[(String, String)], each: usize) -> BTreeMap<Change, Found> {
    let mut tally: BTreeMap<Change, Found> = BTreeMap::new();
    let mut random = Random(7);
    for (_, text) in texts {
        let (page, kind) = parsed(text);
        let whole = extract(page.clone(), kind);
        for (kind_of_change, _) in CHANGES {
            for _ in 0..each {
                let mut page = page.clone();
                let Some(what) = change(&mut page, kind_of_change, &mut random) else { continue };
                let report = extract(page, kind);
                if report == whole {
                    // A figure that petal does not keep.
                    continue;
                }
                let mut broken: Vec<&str> =
                    checked(&report).into_iter().filter(|it| !it.1).map(|it| it.0).collect();
                if report.notes.len() > whole.notes.len() {
                    broken.push("shifted");
                }
                if broken.is_empty() && std::env::var_os("PETAL_AWR_MISSED").is_some() {
                    log_line(&format!("missed {kind_of_change:?} {what}"));
                }
                let found = tally.entry(kind_of_change).or_default();
                found.all += 1;
                found.found += usize::from(!broken.is_empty());
                let laws: BTreeSet<&str> = broken.into_iter().collect();
                for law in laws {
                    *found.by_law.entry(law).or_default() += 1;
                }
            }
        }
    }
    tally
}

fn samples() -> Vec<(String, String)> {
    SAMPLES.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect()
}

#[test]
fn most_changes_of_a_first_digit_are_found() {
    let texts: Vec<_> = samples()
        .into_iter()
        .filter(|it| it.0.contains("12c") || it.0.contains("sp_11g"))
        .collect();
    let tally = measured(&texts, 40);
    let Found { all, found, .. } = &tally[&Change::FirstDigit];
    assert!(*all > 30 && found * 2 > *all, "{found} of {all}");
}

/// Laws that a text breaks.
fn broken(text: &str) -> Vec<&'static str> {
    let (page, kind) = parsed(text);
    let all = checked(&extract(page, kind));
    all.into_iter().filter(|(_, holds)| !holds).map(|(law, _)| law).collect()
}

/// Sections that `awr_12c.txt` lacks, with its own figures.
const MORE_SECTIONS: &str = "\
Time Model Statistics                          DB/Inst: LILY/lily2  Snaps: 310-311
-> Total time in database user-calls (DB Time): 38415s

Statistic Name                                       Time (s) % of DB Time
------------------------------------------ ------------------ ------------
DB CPU                                                2,460.0          6.4
DB time                                              38,415.0
          -------------------------------------------------------------

Foreground Wait Class                          DB/Inst: LILY/lily2  Snaps: 310-311
-> Captured Time accounts for        100.6%  of Total DB time      38,415.00 (s)
-> Total FG Wait Time:            36,201.00 (s)  DB CPU time:       2,460.00 (s)

                                                                  Avg
                                      %Time       Total Wait     wait
Wait Class                      Waits -outs         Time (s)     (ms)  %DB time
-------------------- ---------------- ----- ---------------- -------- ---------
User I/O                  179,300,000     0           36,201      0.2      94.2
DB CPU                                                 2,460                6.4
          -------------------------------------------------------------

";

#[test]
fn each_law_finds_a_changed_figure() {
    let tally = measured(&samples(), 60);
    let mut found: BTreeSet<&str> =
        tally.values().flat_map(|it| it.by_law.keys().copied()).collect();
    // Figures of a report's head and of remarks are not among the changes.
    let text =
        sample_text("awr_12c.txt").replacen("Host CPU", &format!("{MORE_SECTIONS}Host CPU"), 1);
    assert_eq!(broken(&text), [""; 0]);
    for (law, from, to) in [
        ("elapsed", "10.00 (mins)", "90.00 (mins)"),
        ("captured", "Time:            36,201.00", "Time:            86,201.00"),
        (
            "db-time",
            "DB time                                              38",
            "DB time                                              39",
        ),
    ] {
        assert!(text.contains(from), "{from}");
        let broken = broken(&text.replacen(from, to, 1));
        found.extend(broken.into_iter().filter(|it| *it == law));
    }
    let lost: Vec<&str> =
        LAWS.iter().map(|law| law.name).filter(|name| !found.contains(name)).collect();
    assert!(lost.is_empty(), "{lost:?} find nothing");
}

/// `UPDATE_DOCS=1 PETAL_AWR_DIR=... cargo test --release -p petal-awr -- --ignored rate_of`: writes
/// the rates of docs/awr.md, from published reports.
#[test]
#[ignore = "needs published reports, and minutes"]
fn the_rate_of_found_changes_is_in_the_docs() {
    let folder = folder().expect("PETAL_AWR_DIR");
    let mut texts = Vec::new();
    for file in std::fs::read_dir(folder).unwrap().flatten() {
        let name = file.file_name().into_string().unwrap();
        if (name.ends_with(".txt") || name.ends_with(".html")) && !name.contains("9.2.0.1") {
            texts.push((name, source::read(&file.path()).unwrap().text));
        }
    }
    texts.sort();
    let tally = measured(&texts, 150);
    let mut table =
        String::from("| change | tried | found by a law | most often by |\n|---|---|---|---|\n");
    for (change, name) in CHANGES {
        let Found { all, found, by_law } = &tally[&change];
        let mut laws: Vec<_> = by_law.iter().collect();
        laws.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
        let laws: Vec<String> = laws.iter().take(4).map(|(law, _)| format!("`{law}`")).collect();
        let pct = *found as f64 * 100.0 / *all as f64;
        table.push_str(&format!("| {name} | {all} | {pct:.0} % | {} |\n", laws.join(", ")));
    }
    log_line(&table);
    let docs = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/awr.md");
    let page = std::fs::read_to_string(&docs).unwrap();
    let (before, rest) = page.split_once("<!-- Rates: written by a test. -->\n").unwrap();
    let (_, after) = rest.split_once("<!-- End of the rates. -->").unwrap();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        let new = format!(
            "{before}<!-- Rates: written by a test. -->\n{table}<!-- End of the rates. -->{after}"
        );
        std::fs::write(docs, new).unwrap();
    }
}

fn changed(name: &str, from: &str, to: &str) -> Report {
    let text = sample_text(name);
    assert!(text.contains(from), "{from}");
    of_text(&text.replacen(from, to, 1)).unwrap()
}

#[test]
fn a_figure_that_breaks_a_law_is_unknown_and_both_sides_are_named() {
    // 120,300 waits and 15 s are no 9 ms.
    let report =
        changed("sp_11g.txt", "120,300    0         15      0 ", "120,300    0         15      9 ");
    let event = report::event(&report.background_events, "db file parallel write").unwrap();
    assert_eq!((&event.time_s, &event.latency_us), (&None, &None));
    // 20.1 waits for each transaction clear the waits.
    assert_eq!(figure::number(&event.waits), Some(120_300.0));
    let note = report.notes.iter().find(|note| note.contains("db file parallel write")).unwrap();
    assert!(note.contains("waits x average in s 1082.7 is not the time 15"), "{note}");
    // A total that agrees with the rate per transaction is right.
    let report = changed(
        "sp_11g.txt",
        "6,000           20.0          1.0",
        "6,000           90.0          1.0",
    );
    let commits = report.statistics.get("user commits").unwrap();
    assert_eq!(commits.per_second, None);
    assert!(commits.total.is_some() && report.header.elapsed_min.is_some());
}

#[test]
fn files_that_do_not_add_up_to_their_tablespace_are_unknown() {
    let text = include_str!("../../../../tests/data/awr/sp_files.txt");
    let whole = of_text(text).unwrap();
    let reads: Vec<Option<f64>> =
        whole.files.iter().map(|file| figure::number(&file.reads)).collect();
    assert_eq!(reads, [100_000.0, 200_000.0, 300_000.0].map(Some));
    assert!(whole.files.iter().all(|file| file.tablespace == "USERS"), "{:?}", whole.files);
    assert_eq!(whole.notes.len(), 1, "CPU time is 10.7 % and not 10.0: {:?}", whole.notes);
    let line = text.lines().position(|line| line.contains("users02.dbf")).unwrap();
    let lost: String = text
        .lines()
        .enumerate()
        .filter(|(at, _)| *at != line && *at != line + 1)
        .map(|(_, line)| format!("{line}\n"))
        .collect();
    let report = of_text(&lost).unwrap();
    assert_eq!(report.tablespaces[0].reads, None);
    assert_eq!(report.files[0].reads, None);
    assert!(
        report.notes[0].contains("the sum of its files 400000 is not its own 600000"),
        "{:?}",
        report.notes
    );
}

#[test]
fn fields_without_their_form_are_unknown() {
    let report = changed("awr_19c.html", ">19.0.0.0.0<", ">08:00<");
    assert_eq!(report.header.release, None);
    assert!(report.notes[0].contains("release unknown: \"08:00\""), "{:?}", report.notes);
}

#[test]
fn the_docs_list_every_law() {
    let page = include_str!("../../../../docs/awr.md");
    for law in LAWS {
        let row = format!("| `{}` | {} | {} |", law.name, law.says, law.costs);
        assert!(page.contains(&row), "docs/awr.md lacks: {row}");
    }
}

use crate::{figure, report};
