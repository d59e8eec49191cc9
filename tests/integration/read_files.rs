//! A file of each kind that petal reads, and the commands that read it. No test of its own.

use std::fs;
use std::path::PathBuf;

use serde_json::Value;

use crate::support::Workplace;

/// How a file holds its values.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Form {
    Json,
    /// A JSON value in each line.
    Lines,
    Text,
}

/// One file, by its name in the workplace.
pub struct ReadFile {
    pub name: String,
    pub form: Form,
    pub calls: Vec<Vec<String>>,
}

impl ReadFile {
    fn new(name: &str, form: Form, calls: &[&[&str]]) -> Self {
        let call = |call: &&[&str]| call.iter().map(|word| (*word).to_owned()).collect();
        Self { name: name.to_owned(), form, calls: calls.iter().map(call).collect() }
    }
}

/// A workplace with files of every kind.
pub fn written() -> (Workplace, Vec<ReadFile>) {
    let work = Workplace::loaded(1, "8M");
    let sweep = ["sweep", "--sessions", "1,2", "--work-loop", "5", "--out", "swept"];
    work.petal(sweep).exits(0);
    work.petal(["run", "--run-time", "3", "--update-pct", "50", "--name", "timed"]).exits(0);
    let run = work.run_folder();
    let run = format!("petal-results/{}", run.file_name().unwrap().to_str().unwrap());
    work.petal(["profile", &run, "--every", "1", "-o", "profile.json"]).exits(0);
    work.petal(["os", "--out", "os.ndjson", "--seconds", "2"]).exits(0);
    let calibrate = ["--size", "16M", "--seconds", "1", "--depths", "1", "--out", "cal"];
    work.petal([&["calibrate", "cal.dat"][..], &calibrate].concat()).exits(0);
    let cal = fs::read_dir(work.path("cal")).unwrap().next().unwrap().unwrap();
    let cal = format!("cal/{}", cal.file_name().to_str().unwrap());
    let data = |name: &str| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests").join(name);
    for (from, to) in [
        ("data/records/petal-seconds-1/seconds.ndjson.gz", "killed/seconds.ndjson.gz"),
        ("data/records/petal-seconds-1/latency.hlog", "killed/latency.hlog"),
        ("data/awr/awr_19c.html", "awr.html"),
        ("data/awr/awr_12c.txt", "awr.txt"),
        ("data/awr/sp_11g.txt", "sp.txt"),
        ("data/costs/costs.json", "priced/costs.json"),
        ("samples/flash-pcie.csv", "table.csv"),
        ("samples/flash-infiniband.csv", "other.csv"),
    ] {
        work.write(to, fs::read(data(from)).unwrap());
    }
    let whole = &[
        &["report", &run][..],
        &["history", "petal-results"],
        &["gallery", "petal-results", "--out", "gallery"],
        &["profile", &run],
    ];
    let killed = &[&["report", "killed"][..]];
    let awr = |name: &'static str| {
        ReadFile::new(name, Form::Text, &[&["awr", name][..], &["profile", name]])
    };
    let files = vec![
        ReadFile::new(&format!("{run}/run.json"), Form::Json, whole),
        ReadFile::new("swept/sweep.json", Form::Json, &[&["report", "swept"][..], &sweep]),
        ReadFile::new("profile.json", Form::Json, &[&["replay", "profile.json", "--dry-run"][..]]),
        ReadFile::new(&format!("{cal}/calibrate.json"), Form::Json, &[&["report", &cal][..]]),
        ReadFile::new("priced/costs.json", Form::Json, &[&["report", "priced"][..]]),
        ReadFile::new("os.ndjson", Form::Lines, &[&["report", &run, "--os-data", "os.ndjson"][..]]),
        ReadFile::new("killed/seconds.ndjson.gz", Form::Lines, killed),
        ReadFile::new("killed/latency.hlog", Form::Text, killed),
        awr("awr.html"),
        awr("awr.txt"),
        awr("sp.txt"),
        ReadFile::new(
            "table.csv",
            Form::Text,
            &[&["compare", "table.csv", "other.csv"][..], &["history", "table.csv"]],
        ),
    ];
    (work, files)
}

/// Bytes of a ledger before its header's JSON.
pub const LEDGER_START: usize = 16;

/// The JSON of a ledger's header.
pub fn ledger_header(ledger: &[u8]) -> &str {
    let length = u32::from_le_bytes(ledger[8..12].try_into().unwrap()) as usize;
    std::str::from_utf8(&ledger[LEDGER_START..LEDGER_START + length]).unwrap()
}

/// A ledger with another header, whose checksum is right.
pub fn with_header(ledger: &[u8], header: &str) -> Vec<u8> {
    let mut start = ledger[..LEDGER_START].to_vec();
    start[8..12].copy_from_slice(&(header.len() as u32).to_le_bytes());
    start[12..16].copy_from_slice(&crc32fast::hash(header.as_bytes()).to_le_bytes());
    let frames = &ledger[LEDGER_START + ledger_header(ledger).len()..];
    [&start, header.as_bytes(), frames].concat()
}

/// Pointers to the values that `is_wanted` of a value, one of each kind: of a list its first.
pub fn pointers(value: &Value, is_wanted: fn(&Value) -> bool) -> Vec<String> {
    let mut found = Vec::new();
    find(value, is_wanted, "", &mut found);
    found
}

fn find(value: &Value, is_wanted: fn(&Value) -> bool, at: &str, found: &mut Vec<String>) {
    match value {
        Value::Array(items) => {
            if let Some(first) = items.first() {
                find(first, is_wanted, &format!("{at}/0"), found);
            }
        }
        Value::Object(members) => {
            for (name, member) in members {
                let name = name.replace('~', "~0").replace('/', "~1");
                find(member, is_wanted, &format!("{at}/{name}"), found);
            }
        }
        value if is_wanted(value) => found.push(at.to_owned()),
        _ => {}
    }
}

/// Places of values in a text that match, one of each value: words without blanks and marks.
pub fn words(text: &str, is_wanted: fn(&str) -> bool) -> Vec<std::ops::Range<usize>> {
    let is_mark = |c: char| c.is_whitespace() || "<>,\"=;|".contains(c);
    let mut known = std::collections::HashSet::new();
    let pieces = text.split(is_mark).filter(|word| is_wanted(word) && known.insert(*word));
    let place = |word: &str| {
        let from = word.as_ptr() as usize - text.as_ptr() as usize;
        from..from + word.len()
    };
    pieces.map(place).collect()
}

/// Some of many, spread over all of them.
pub fn some<T>(all: Vec<T>, most: usize) -> Vec<T> {
    let step = all.len().div_ceil(most).max(1);
    all.into_iter().step_by(step).collect()
}
