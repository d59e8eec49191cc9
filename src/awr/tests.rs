//! Real reports that people have published, where they are at hand: every value that was read from
//! them by eye, as printed.

use std::path::PathBuf;

use serde_json::Value;

use super::*;

/// `PETAL_AWR_DIR`, or beside the project.
fn folder() -> Option<PathBuf> {
    let beside = || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../shared/awr");
    let folder = std::env::var_os("PETAL_AWR_DIR").map_or_else(beside, PathBuf::from);
    folder.join("truth.json").exists().then_some(folder)
}

/// What is compared, and how often it agreed.
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

/// truth's name of a value, and where it stands in the report's JSON.
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

/// truth's headings of tablespaces, where they are one thing in all releases.
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
            let expected = text(expected);
            // The heading's unit is printed with it in a cluster's report.
            tally.check(what, found, &expected);
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
            // Where it was found, a remark, the columns of the list, and how many profiles.
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
            // As it stands under its heading, which may not be its own.
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
        eprintln!("SKIPPED: no real reports: set PETAL_AWR_DIR to a folder with truth.json");
        return;
    };
    let truth = std::fs::read(folder.join("truth.json")).unwrap();
    let truth: Value = serde_json::from_slice(&truth).unwrap();
    let mut all = Tally::default();
    for (file, truth) in truth.as_object().unwrap() {
        let report = read(&folder.join(file)).unwrap_or_else(|error| panic!("{error}"));
        let mut tally = Tally::default();
        compare(file, truth, &serde_json::to_value(&report).unwrap(), &mut tally);
        eprintln!("{:>4} agree, {} not: {file}", tally.agreed, tally.wrong.len());
        all.agreed += tally.agreed;
        all.wrong.append(&mut tally.wrong);
    }
    assert!(all.wrong.is_empty(), "{} agree, not:\n{}", all.agreed, all.wrong.join("\n"));
    eprintln!("{} values agree", all.agreed);
}
