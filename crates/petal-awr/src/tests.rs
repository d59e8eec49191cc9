//! Tests on published real reports, if they are present: they compare each value with the one a
//! person read from the report.

use serde_json::Value;

use super::samples::*;
use super::*;

/// Values compared, and the number that agreed.
#[derive(Default)]
struct Tally {
    agreed: usize,
    wrong: Vec<String>,
}

impl Tally {
    fn check(&mut self, what: String, found: &Value, expected: &str) {
        let printed = match found {
            Value::Null => "",
            Value::String(text) => text,
            figure => figure["as_printed"].as_str().unwrap_or("?"),
        };
        if printed == expected {
            self.agreed += 1;
        } else {
            self.wrong.push(format!("{what}: found {printed:?}, expected {expected:?}"));
        }
    }
}

/// Names of values in truth.json, with their paths in the report's JSON.
const FIGURES: [(&str, &str); 21] = [
    ("db", "/header/db"),
    ("ver", "/header/release"),
    ("rac", "/header/rac"),
    ("inst", "/header/instance"),
    ("host", "/header/host"),
    ("bsnap", "/header/begin_snap"),
    ("esnap", "/header/end_snap"),
    ("btime", "/header/begin_time"),
    ("etime", "/header/end_time"),
    ("elapsed", "/header/elapsed_min"),
    ("dbtime", "/header/db_time_min"),
    ("cpus", "/header/cpus"),
    ("pdb", "/header/pdb"),
    ("redo_s", "/load_profile/redo_bytes/per_second"),
    ("lio_s", "/load_profile/logical_reads/per_second"),
    ("pread_s", "/load_profile/physical_reads/per_second"),
    ("pwrite_s", "/load_profile/physical_writes/per_second"),
    ("ucalls_s", "/load_profile/user_calls/per_second"),
    ("exec_s", "/load_profile/executes/per_second"),
    ("txn_s", "/load_profile/transactions/per_second"),
    ("dbtime_s", "/load_profile/db_time/per_second"),
];

/// Headings of tablespaces in truth.json that mean the same in all releases.
const TABLESPACE: [(&str, &str); 9] = [
    ("Reads", "reads"),
    ("Av Rds/s", "reads_per_s"),
    ("Av Reads/s", "reads_per_s"),
    ("Av Rd(ms)", "read_ms"),
    ("Av Blks/Rd", "blocks_per_read"),
    ("Av Writes/s", "writes_per_s"),
    ("Writes avg/s", "writes_per_s"),
    ("Buffer Waits", "buffer_waits"),
    ("Av Buf Wt(ms)", "buffer_wait_ms"),
];

fn compare(file: &str, truth: &Value, report: &Value, tally: &mut Tally) {
    let text = |value: &Value| value.as_str().unwrap_or("").to_owned();
    let fields = truth.as_object().unwrap();
    for (name, expected) in fields {
        let what = format!("{file}: {name}");
        if let Some((_, place)) = FIGURES.iter().find(|(known, _)| known == name) {
            let found = report.pointer(place).unwrap();
            // A name that the head leaves out is in the titles of the sections.
            let is_of_titles = found["section"] == "titles of sections";
            let expected = text(expected);
            if !(is_of_titles && expected.is_empty()) {
                tally.check(what, found, &expected);
            }
            continue;
        }
        match name.as_str() {
            "dbcpu_s" => {
                tally.check(what, &report["load_profile"]["db_cpu"]["per_second"], &text(expected))
            }
            "kind" => tally.check(what, &report["kind"], &text(expected)),
            "fmt" => tally.check(what, &report["format"], &text(expected).to_lowercase()),
            "cdb" => {
                if !expected.is_null() {
                    tally.check(what, &report["header"]["cdb"], &text(expected));
                }
            }
            "top" => top(&what, expected, report, tally),
            "ts" => tablespace(&what, expected, report, tally),
            "gps" => cluster(&what, expected, report, tally),
            // The report's origin, a remark, the columns of the list, and the number of profiles.
            "origin" | "exa" | "lp" | "top_hdr" => {}
            statistic => {
                let found = &report["statistics"][statistic];
                tally.check(what.clone(), &found["total"], &text(&expected[0]));
                tally.check(what, &found["per_second"], &text(&expected[1]));
            }
        }
    }
}

fn top(what: &str, expected: &Value, report: &Value, tally: &mut Tally) {
    for (at, row) in expected.as_array().unwrap().iter().enumerate() {
        let cell = |at: usize| row[at].as_str().unwrap();
        let event = &report["top_events"][at];
        tally.check(format!("{what} {at} name"), &event["name"], cell(0));
        tally.check(format!("{what} {at} waits"), &event["waits"], cell(1));
        tally.check(format!("{what} {at} time"), &event["time_s"], cell(2));
        let average = event["avg_us"]["value"].as_f64();
        let shown = average.map(|us| format!("{us:.1}")).unwrap_or_default();
        tally.check(format!("{what} {at} average"), &Value::from(shown), cell(3));
    }
}

fn tablespace(what: &str, expected: &Value, report: &Value, tally: &mut Tally) {
    let found = &report["tablespaces"][0];
    for (heading, expected) in expected.as_object().unwrap() {
        let expected = expected.as_str().unwrap();
        let what = format!("{what} {heading}");
        if heading == "Tablespace" {
            tally.check(what, &found["tablespace"], expected);
        } else if let Some((_, name)) = TABLESPACE.iter().find(|(known, _)| known == heading) {
            tally.check(what, &found[name], expected);
        } else {
            // The value under its heading, which may belong to another column.
            let place = topic::key(heading);
            let headed = found["as_headed"].as_object();
            let cell =
                headed.and_then(|all| all.iter().find(|(name, _)| topic::key(name) == place));
            tally.check(what, cell.map_or(&Value::Null, |(_, cell)| cell), expected);
        }
    }
}

fn cluster(what: &str, expected: &Value, report: &Value, tally: &mut Tally) {
    let known = [
        ("Logical Reads/s", "logical_reads"),
        ("Physical Reads/s", "physical_reads"),
        ("Physical Writes/s", "physical_writes"),
        ("Block Changes/s", "block_changes"),
        ("User Calls/s", "user_calls"),
        ("Execs/s", "executes"),
        ("Parses/s", "parses"),
        ("Logons/s", "logons"),
        ("Txns/s", "transactions"),
    ];
    for (heading, name) in known {
        let expected = expected[heading].as_str().unwrap();
        let found = &report["load_profile"][name]["per_second"];
        tally.check(format!("{what} {heading}"), found, expected);
    }
}

#[test]
fn real_reports_agree_with_what_was_read_by_eye() {
    let Some(folder) = folder() else {
        log_line("SKIPPED: no real reports: set PETAL_AWR_DIR to a folder with truth.json");
        return;
    };
    let truth = std::fs::read(folder.join("truth.json")).unwrap();
    let truth: Value = serde_json::from_slice(&truth).unwrap();
    let mut all = Tally::default();
    for (file, truth) in truth.as_object().unwrap() {
        let mut read = read(&folder.join(file)).reports;
        assert_eq!(read.len(), 1, "{file}");
        let report = read.remove(0).unwrap_or_else(|error| panic!("{error}"));
        let mut tally = Tally::default();
        compare(file, truth, &serde_json::to_value(&report).unwrap(), &mut tally);
        log_line(&format!("{:>4} agree, {} not: {file}", tally.agreed, tally.wrong.len()));
        all.agreed += tally.agreed;
        all.wrong.append(&mut tally.wrong);
    }
    assert!(all.wrong.is_empty(), "{} agree, not:\n{}", all.agreed, all.wrong.join("\n"));
    log_line(&format!("{} values agree", all.agreed));
}

#[test]
fn every_kind_is_recognised_by_its_content() {
    let kinds: Vec<String> = SAMPLES
        .iter()
        .map(|(name, _)| {
            let report = sample(name);
            format!("{name}: {:?} {:?}", report.kind, report.format)
        })
        .collect();
    insta::assert_snapshot!(kinds.join("\n"), @r"
    sp_9i.txt: Sp Text
    sp_10g.txt: Sp Text
    sp_11g.txt: Sp Text
    awr_10g.txt: Awr Text
    awr_11204.txt: Awr Text
    awr_12c.txt: Awr Text
    awrpdb_19c.txt: Awrpdb Text
    awrg_11g.txt: Awrg Text
    awrg_one.txt: Awrg Text
    awr_11g.html: Awr Html
    awr_11g_browser.html: Awr Html
    awr_19c.html: Awr Html
    awrpdb_23ai.html: Awrpdb Html
    awrg_19c.html: Awrg Html
    ");
    for (name, _) in SAMPLES {
        let notes = sample(name).notes;
        let known = ["Tablespace", "is of a pluggable database"];
        let is_known = |note: &String| known.iter().any(|begin| note.starts_with(begin));
        assert!(notes.iter().all(is_known), "{name}: {notes:?}");
    }
}

#[test]
fn findings_of_the_samples() {
    let all = SAMPLES.map(|(name, _)| {
        let ids: Vec<String> = sample(name).findings.into_iter().map(|it| it.id).collect();
        format!("{name}: {}", ids.join(" "))
    });
    insta::assert_snapshot!(all.join("\n"), @r"
    sp_9i.txt: top-wait
    sp_10g.txt: 
    sp_11g.txt: not-durable
    awr_10g.txt: processor-bound
    awr_11204.txt: spans-restart
    awr_12c.txt: not-single-block
    awrpdb_19c.txt: 
    awrg_11g.txt: 
    awrg_one.txt: 
    awr_11g.html: 
    awr_11g_browser.html: 
    awr_19c.html: short-run
    awrpdb_23ai.html: short-run
    awrg_19c.html:
    ");
}

#[test]
fn a_browsers_copy_is_the_same_report() {
    let mut copy = sample("awr_11g_browser.html");
    copy.file = "awr_11g.html".into();
    assert_eq!(sample("awr_11g.html"), copy);
}

#[test]
fn line_ends_tabs_and_encodings_change_nothing() {
    let plain = |text: &str| {
        let mut report = of_text(text).unwrap();
        report.notes.clear();
        report
    };
    for (name, text) in SAMPLES {
        let expected = plain(text);
        assert_eq!(expected, plain(&text.replace('\n', "\r\n")), "{name}");
        assert_eq!(expected, plain(&text.replace('\n', "\r\r\n")), "{name}");
        assert_eq!(expected, plain(&text.replace('\n', " \n")), "{name}");
        let utf16: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
        let mut decoded = parse("a report", source::decode(utf16)).unwrap();
        decoded.notes.clear();
        assert_eq!(expected, decoded, "{name}");
    }
    // SQL*Plus writes a tab for up to eight blanks.
    let text = sample_text("sp_11g.txt");
    let tabbed: String = text
        .lines()
        .map(|line| match line.strip_prefix("        ") {
            Some(rest) => format!("\t{rest}\n"),
            None => format!("{line}\n"),
        })
        .collect();
    assert_eq!(plain(text), plain(&tabbed));
}

#[test]
fn pages_of_any_length_change_nothing() {
    let text = sample_text("awr_12c.txt");
    let expected = of_text(text).unwrap();
    for length in [9, 11, 14, 24, 50] {
        let mut paged = String::new();
        for (at, line) in text.lines().enumerate() {
            if at % length == 0 {
                paged.push_str("\nOUTPUT\n");
                paged.push_str(&"-".repeat(80));
                paged.push('\n');
            }
            paged.push_str(line);
            paged.push('\n');
        }
        let found = of_text(&paged).unwrap();
        assert_eq!(found, expected, "pages of {length}");
    }
}

#[test]
fn a_per_transaction_value_is_never_a_rate() {
    // A restart between the snapshots leaves the columns per second blank.
    let text = SAMPLES[0].1;
    let blank = |line: &str| match line.char_indices().nth(35) {
        Some((at, _)) if line.contains(':') => {
            let to = line.char_indices().nth(51).map_or(line.len(), |(at, _)| at);
            format!("{}{}{}\n", &line[..at], " ".repeat(16), &line[to..])
        }
        _ => format!("{line}\n"),
    };
    let (before, rest) = text.split_once("Load Profile").unwrap();
    let (profile, after) = rest.split_once("% Blocks changed").unwrap();
    let profile: String = profile.lines().map(blank).collect();
    let text = format!(
        "ERROR: Snapshots chosen span an instance shutdown: RESULTS ARE INVALID\n{before}Load Profile{profile}% Blocks changed{after}"
    );
    let report = of_text(&text).unwrap();
    assert_eq!(report.load_profile.redo_bytes.per_second, None);
    assert_eq!(number(&report.load_profile.redo_bytes.per_transaction), Some(12_240.01));
    assert_eq!(report.load_profile.transactions, report::LoadLine::default());
    assert!(report.findings.iter().any(|finding| finding.id == "spans-restart"));
}

#[test]
fn headings_that_lie_are_found_out() {
    let report = sample("awr_11204.txt");
    let row = &report.tablespaces[0];
    assert_eq!(number(&row.writes), Some(32_000.0));
    assert_eq!(number(&row.single_block_reads_per_s), Some(44.4));
    assert_eq!(number(&row.single_block_read_ms), Some(3.0));
    assert_eq!(row.as_headed["Writes"], "3");
    assert!(report.notes.iter().any(|note| note.contains("each other's headings")));
    // If the release is unknown, so are these columns.
    let unknown = sample_text("awr_11204.txt").replace("11.2.0.4.0", "          ");
    assert_eq!(of_text(&unknown).unwrap().tablespaces[0].writes, None);
    // In other releases the headings match, whatever the figures are.
    let other = sample_text("awr_11204.txt").replace("11.2.0.4.0", "12.2.0.1.0");
    assert_eq!(number(&of_text(&other).unwrap().tablespaces[0].writes), Some(3.0));
    // A record has two lines, and its headings match.
    let row = &sample("awr_12c.txt").tablespaces[0];
    assert_eq!((number(&row.reads), number(&row.writes)), (Some(179_200_000.0), Some(2_500_000.0)));
    assert_eq!(number(&row.write_ms), Some(0.3));
}

#[test]
fn single_block_reads_may_exceed_reads_by_rounding() {
    // All reads are of single blocks; the counts are taken at slightly different times.
    let row =
        ["298,667        0.2        1.0     298,667", "298,667        0.2        1.0     298,690"];
    let text = sample_text("awr_12c.txt").replace(row[0], row[1]);
    let report = of_text(&text).unwrap();
    let row = &report.tablespaces[0];
    assert!(number(&row.single_block_reads_per_s) > number(&row.reads_per_s), "{row:?}");
    assert_eq!((number(&row.reads), number(&row.writes)), (Some(179_200_000.0), Some(2_500_000.0)));
    assert_eq!(report.notes, [""; 0]);
}

#[test]
fn whole_counts_replace_rounded_ones() {
    let report = sample("awr_12c.txt");
    let top = &report.top_events[0];
    let waits = top.waits.as_ref().unwrap();
    assert_eq!(waits.shown(), "179,254,321");
    assert_eq!(&*waits.section, "Foreground Wait Events");
    assert_eq!(top.time_s.as_ref().unwrap().shown(), "36.2K");
    // The foreground list's 36,201 s has more digits than 36.2K and 0.20 ms.
    let read_us = columns::value(&report, "read_us").unwrap();
    assert!((read_us - 36_201e6 / 179_254_321.0).abs() < 1e-6, "{read_us}");
}

#[test]
fn flash_latencies_are_not_zero() {
    let us = |name: &str, column: &str| columns::value(&sample(name), column);
    assert_eq!(us("awrpdb_19c.txt", "write_us"), Some(0.74022));
    assert_eq!(us("awrpdb_19c.txt", "log_sync_us"), Some(311.2));
    let read = us("sp_11g.txt", "read_us").unwrap();
    assert!((read - 8_911e6 / 26_899_900.0).abs() < 1e-6, "{read}");
    // All values are zero: too short to be shown, and so unknown.
    let text = sample_text("sp_11g.txt")
        .replace("         15      0     20.1", "          0      0     20.1");
    let text = text.replace("120,300          15      0", "120,300           0      0");
    let report = of_text(&text).unwrap();
    assert_eq!(columns::value(&report, "write_us"), None);
}

#[test]
fn names_that_text_cuts_are_found_by_their_beginning() {
    let report = sample("awr_12c.txt");
    assert!(report.statistics.get("SQL*Net roundtrips to/from client").is_some());
    assert!(report.statistics.get("SQL*Net roundtrips to/from clien").is_some());
    assert!(report.statistics.get("user").is_none());
    assert!(report::event(&report.foreground_events, "SQL*Net message from client").is_some());
    let html = sample("awr_11g.html");
    assert!(html.statistics.get("user commits by nobody").is_none());
    // A name that matches two truncated ones matches neither.
    let text = sample_text("awr_12c.txt").replace(
        "SQL*Net roundtrips to/from clien              4,200",
        "SQL*Net roundtrips to/from clien              4,100            6.8           0.7\nSQL*Net roundtrips to/from clien              4,200",
    );
    let report = of_text(&text).unwrap();
    assert!(report.statistics.get("SQL*Net roundtrips to/from client").is_none());
}

#[test]
fn other_things_are_refused_by_name() {
    let refused = |text: &str| match of_text(text) {
        Err(error) => error.to_string(),
        Ok(_) => panic!("{text} was read"),
    };
    insta::assert_snapshot!(refused(""), @"a report: is empty, which petal awr does not read; petal awr reads AWR (awrrpt, awrgrpt, PDB) and Statspack reports (spreport), text or HTML");
    assert!(refused("WORKLOAD REPOSITORY COMPARE PERIOD REPORT\n").contains("compare-periods"));
    assert!(
        refused("<html><body><table><tr><td>x</table>")
            .contains("HTML, but not an AWR or Statspack report")
    );
    assert!(refused("ASH Report For X/x\n").contains("active-session-history"));
    assert!(
        refused("hello")
            .starts_with("a report: is not an AWR or Statspack report; petal awr reads")
    );
    assert!(refused("WORKLOAD REPOSITORY report for\n\nDB Na").contains("ends behind its title"));
}

#[test]
fn a_panic_is_reported_and_does_not_spread() {
    let message = panic_message(&*catch_unwind(|| panic!("a test's own")).unwrap_err());
    assert_eq!(message, "a test's own");
}

use super::figure::number;

mod damaged_lines;
mod every_number;
mod forms;
mod impossible;
mod independent;
mod layouts;
