//! `petal awr` on files and folders: what a person and a script get, refusals, damage.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::support::{SECONDS, Workplace};

fn sample(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/awr").join(name)
}

/// Two update percentages by three numbers of sessions, named as people name them.
fn series() -> Workplace {
    let work = Workplace::new();
    let text = fs::read_to_string(sample("awr_12c.txt")).unwrap();
    for update_pct in [0, 20] {
        for (sessions, waits, seconds) in
            [(1, "12,254,321", "1,201"), (8, "99,254,321", "12,201"), (64, "179,254,321", "36,201")]
        {
            let text = text
                .replace("179,254,321         36,201", &format!("{waits:>11}{seconds:>15}"))
                .replace(
                    "179,220,060      298,700.1",
                    &format!("{waits:>11}{:>15}", format!("{sessions},700.1")),
                );
            work.write(&format!("awr_{update_pct}_{sessions}.txt"), text);
        }
    }
    work
}

#[test]
fn a_folder_of_reports_becomes_rows() {
    let work = series();
    work.write("notes.txt", "not a report");
    work.write("deep/er/still/awr.txt.9", fs::read(sample("sp_11g.txt")).unwrap());
    let table = work.petal(["awr", "."]).exits(0).telling(&["1 other file is no report"]);
    assert!(table.stdout.contains("update_pct  sessions"), "{}", table.stdout);
    // 8 before 64, and all of one percentage together.
    let csv = work.petal(["awr", "--csv", "."]).exits(0).stdout;
    let mut reader = csv::Reader::from_reader(csv.as_bytes());
    let names = reader.headers().unwrap().clone();
    let at = |name: &str| names.iter().position(|known| known == name).unwrap();
    let cells: Vec<(String, String)> = reader
        .records()
        .map(|row| row.unwrap())
        .map(|row| (row[at("update_pct")].to_owned(), row[at("sessions")].to_owned()))
        .collect();
    let cell = |pct: &str, sessions: &str| (pct.to_owned(), sessions.to_owned());
    let expected =
        [("0", "1"), ("0", "8"), ("0", "64"), ("20", "1"), ("20", "8"), ("20", "64"), ("", "9")];
    assert_eq!(cells, expected.map(|(pct, sessions)| cell(pct, sessions)));
}

#[test]
fn every_output_of_the_same_report() {
    let work = Workplace::new();
    fs::copy(sample("awr_12c.txt"), work.path("awr.txt.64")).unwrap();
    let out = |args: &[&str]| {
        let run = work.petal([&["awr"], args, &["awr.txt.64"]].concat()).exits(0);
        assert_eq!(run.stderr, "");
        run.stdout
    };
    let info = out(&["--format", "awr_info"]);
    let lines: Vec<Vec<&str>> = info.lines().map(|line| line.split('|').collect()).collect();
    assert_eq!((lines[0].len(), lines[1].len()), (19, 19), "{info}");
    assert_eq!(lines[1][..4], ["awr.txt.64", "64", "600", "4.1"]);
    assert_eq!(lines[1][12..17], ["202", "310", "", "251", "610"]);
    let events = out(&["--format", "events"]);
    let words: Vec<&str> = events.lines().nth(2).unwrap().split_whitespace().collect();
    assert_eq!(words[5..], ["179,254,321", "36,201", "202.0", "298,700.1"]);
    assert!(out(&["--explain"]).contains("Foreground Wait Events: time over waits"));
    assert_eq!(out(&["--csv"]), out(&["--format", "csv"]));
    let json: Value = serde_json::from_str(&out(&["--json"])).unwrap();
    assert_eq!(json["reports"][0]["header"]["begin_snap"]["value"], 310);
    assert_eq!(
        json["reports"][0]["load_profile"]["redo_bytes"]["per_second"]["as_printed"],
        "1,048,576.0"
    );
    assert_eq!(json["reports"][0]["factors"]["sessions"], "64");
    work.petal(["awr", "--csv", "--json", "awr.txt.64"]).exits(2).telling(&["--csv", "--json"]);
}

#[test]
fn petals_of_a_folder_at_once() {
    let work = series();
    work.petal(["awr", "--petals", "out.html", "."]).exits(0).telling(&["out.html"]);
    let page = fs::read_to_string(work.path("out.html")).unwrap();
    assert!(page.contains("<svg") && page.contains("AWR reports"));
    work.petal(["awr", "--petals", "out.svg", "."]).exits(0);
    assert!(fs::read_to_string(work.path("out.svg")).unwrap().contains("<svg"));
    work.petal(["awr", "--petals", "no/where/out.svg", "."]).exits(3).telling(&["no/where"]);
    work.petal(["awr", "--petals", "out.png", "."]).exits(2).telling(&["out.png", ".html or .svg"]);
    let alone = Workplace::new();
    fs::copy(sample("awr_12c.txt"), alone.path("report.txt")).unwrap();
    // Without sessions: a point for each report.
    for file in ["o.svg", "o.html"] {
        let reported = ["1 of 1 reports are drawn as points", "sessions", "--pattern"];
        alone.petal(["awr", "--petals", file, "report.txt"]).exits(0).telling(&reported);
    }
    let drawn = fs::read_to_string(alone.path("o.svg")).unwrap();
    assert!(drawn.contains("LILY, report.txt: 303,021 PIOPS, 202.0 us"), "{drawn}");
    let page = fs::read_to_string(alone.path("o.html")).unwrap();
    assert!(page.contains("<svg") && page.contains("303,021") && page.contains("202.0"));
    fs::copy(sample("sp_9i.txt"), alone.path("old.lst")).unwrap();
    let none = alone.petal(["awr", "--petals", "none.svg", "old.lst"]).exits(1);
    none.telling(&["nothing to draw", "--csv"]);
    assert!(!alone.path("none.svg").exists());
}

#[test]
fn patterns_name_the_factors() {
    let work = Workplace::new();
    work.write("20/64/awr.txt", fs::read(sample("awr_12c.txt")).unwrap());
    let args = ["awr", "--json", "--pattern", "{update_pct}/{sessions}/awr.txt", "."];
    let json: Value = serde_json::from_str(&work.petal(args).exits(0).stdout).unwrap();
    let factors = serde_json::json!({"update_pct": "20", "sessions": "64"});
    assert_eq!(json["reports"][0]["factors"], factors);
    work.petal(["awr", "--pattern", "awr.txt", "."]).exits(2).telling(&["names no factor"]);
    let other = work.petal(["awr", "--pattern", "run_{sessions}", "."]).exits(2);
    other.telling(&["does not fit --pattern", "--pattern run_{sessions}: no path fits it"]);
}

#[test]
fn unreadable_files_are_named_and_the_rest_is_shown() {
    let work = Workplace::new();
    fs::copy(sample("sp_9i.txt"), work.path("good.lst")).unwrap();
    work.write("bad.html", "<html><body><table><tr><td>1</table></body></html>");
    work.write("empty.txt", "");
    let both = work.petal(["awr", "good.lst", "bad.html"]).exits(1);
    assert!(both.stdout.contains("good.lst"), "{}", both.stdout);
    both.telling(&["bad.html: is HTML, but not an AWR or Statspack report"]);
    let gone = work.petal(["awr", "good.lst", "gone.txt", "bad.html"]).exits(3);
    gone.telling(&["gone.txt", "No such file"]);
    work.petal(["awr", "empty.txt"]).exits(1).telling(&["empty.txt: is empty"]);
    work.petal(["awr"]).exits(2);
    work.petal(["awr", "--format", "pdf", "good.lst"]).exits(2).telling(&["awr_info"]);
}

#[test]
fn damaged_files_are_read_as_far_as_they_go() {
    let work = Workplace::new();
    let text = fs::read_to_string(sample("awr_12c.txt")).unwrap();
    let (head, _) = text.split_once("Background Wait Events").unwrap();
    work.write("cut.txt", head);
    let cut = work
        .petal(["awr", "--json", "cut.txt"])
        .exits(0)
        .telling(&["cut.txt", "its end was not found"]);
    let json: Value = serde_json::from_str(&cut.stdout).unwrap();
    let report = &json["reports"][0];
    assert_eq!(report["foreground_events"][0]["waits"]["value"], 179_254_321);
    assert_eq!(report["background_events"], serde_json::json!([]));
    assert!(report["statistics"].as_object().unwrap().is_empty());
    // Packed, and the archive cut too.
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    packed.write_all(text.as_bytes()).unwrap();
    let packed = packed.finish().unwrap();
    work.write("whole.txt.gz", &packed);
    work.write("half.txt.gz", &packed[..packed.len() / 2]);
    let whole = work.petal(["awr", "--json", "whole.txt.gz"]).exits(0);
    assert_eq!(whole.stderr, "");
    work.petal(["awr", "half.txt.gz"]).exits(0).telling(&["half.txt.gz", "archive is damaged"]);
}

#[test]
fn large_and_hostile_files_end() {
    let work = Workplace::new();
    let mut text = fs::read_to_string(sample("awr_12c.txt")).unwrap().replace("End of Report", "");
    let sql = "SELECT COUNT(c2) FROM cf1 WHERE custid BETWEEN :1 AND :2\n".repeat(1000);
    while text.len() < 24 << 20 {
        text.push_str(&sql);
    }
    text.push_str("End of Report\n");
    work.write("large.txt", &text);
    let large = work.petal(["awr", "large.txt"]).exits(0);
    assert!(large.stdout.contains("large.txt"), "{}", large.stdout);
    let nested =
        format!("<h1>WORKLOAD REPOSITORY report for</h1>{}", "<table><tr><td>".repeat(200_000));
    work.write("nested.html", nested);
    work.petal(["awr", "nested.html"]).exits(1).telling(&["nested.html"]);
}

#[test]
fn archives_and_texts_of_several_reports_give_a_row_each() {
    let work = Workplace::new();
    let [text, statspack] =
        ["awr_12c.txt", "sp_10g.txt"].map(|name| fs::read(sample(name)).unwrap());
    let both = [text.as_slice(), b"\nSQL> @spreport\n", &statspack].concat();
    let mut zip = zip::ZipWriter::new(fs::File::create(work.path("all.zip")).unwrap());
    let options = zip::write::SimpleFileOptions::default();
    for (name, bytes) in
        [("a/awr.txt.8", &text), ("both.lst", &both), ("notes.md", &b"no report".to_vec())]
    {
        zip.start_file(name, options).unwrap();
        zip.write_all(bytes).unwrap();
    }
    zip.finish().unwrap();
    let read = work.petal(["awr", "--json", "all.zip"]).exits(0);
    let read = read.telling(&["1 other file is no report"]);
    let json: Value = serde_json::from_str(&read.stdout).unwrap();
    let reports = json["reports"].as_array().unwrap();
    let files: Vec<&str> = reports.iter().map(|it| it["file"].as_str().unwrap()).collect();
    assert_eq!(files, ["all.zip/a/awr.txt.8", "all.zip/both.lst", "all.zip/both.lst#2"]);
    let hosts = reports.iter().map(|it| it["header"]["host"]["value"].as_str().unwrap());
    assert_eq!(hosts.collect::<Vec<_>>(), ["pond02.example.c", "pond02.example.c", "rockery"]);
    assert_eq!(reports[0]["factors"]["sessions"], "8");
    // An archive cut short, and one of nothing that is a report.
    let bytes = fs::read(work.path("all.zip")).unwrap();
    work.write("cut.zip", &bytes[..bytes.len() / 2]);
    work.petal(["awr", "cut.zip"]).exits(3).telling(&["cut.zip"]);
    let mut zip = zip::ZipWriter::new(fs::File::create(work.path("none.zip")).unwrap());
    zip.start_file("notes.md", options).unwrap();
    zip.finish().unwrap();
    work.petal(["awr", "none.zip"]).exits(1).telling(&["none.zip: no report is in the archive"]);
    // A folder with both: the rest is shown.
    work.petal(["awr", "--csv", "."]).exits(3).telling(&["cut.zip"]);
}

/// A run of an old petal, in whose folder somebody put the database's reports afterwards.
fn run_with(files: &[(&str, &[u8])]) -> Workplace {
    let work = Workplace::new();
    let records = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/records/petal-run-2");
    for name in ["run.json", SECONDS] {
        work.write(&format!("run/{name}"), fs::read(records.join(name)).unwrap());
    }
    for (name, bytes) in files {
        work.write(&format!("run/{name}"), bytes);
    }
    work
}

fn summary(work: &Workplace) -> Value {
    let shown = work.petal(["report", "--json", "run"]).exits(0);
    serde_json::from_str(&shown.stdout).unwrap()
}

#[test]
fn reports_in_a_runs_folder_become_part_of_its_record() {
    let html = fs::read(sample("awr_19c.html")).unwrap();
    let work = run_with(&[("awr.html", &html)]);
    let shown = work.petal(["report", "run"]).exits(0);
    assert!(shown.stdout.contains("THE DATABASE'S OWN REPORT"), "{}", shown.stdout);
    let json = summary(&work);
    let report = &json["server_reports"][0];
    assert_eq!((&report["file"], &report["kind"]), (&"awr.html".into(), &"awr".into()));
    assert!(report["unread"].is_null() && report["elapsed_s"].as_f64().unwrap() > 0.0);
    let read = &report["figures"]["read_us"];
    assert!(read["value"].as_f64().unwrap() > 0.0 && !read["section"].as_str().unwrap().is_empty());
    assert!(!report["top_events"].as_array().unwrap().is_empty());
    // A report of four minutes says little of a run of six seconds.
    assert!(shown.stdout.contains("not compared: awr.html covers 240 s"), "{}", shown.stdout);
    assert!(!shown.stdout.contains("read, us on average"), "{}", shown.stdout);
    let page = fs::read_to_string(work.path("run/report.html")).unwrap();
    assert!(
        page.contains("The database&#39;s own report")
            || page.contains("The database's own report")
    );
    // It is in the record now, and stays when the file goes.
    fs::remove_file(work.path("run/awr.html")).unwrap();
    assert_eq!(summary(&work)["server_reports"], json["server_reports"]);
}

#[test]
fn a_truncated_report_harms_no_run() {
    let whole = summary(&run_with(&[]));
    assert_eq!(whole["server_reports"], Value::Array(Vec::new()));
    let html = fs::read(sample("awr_19c.html")).unwrap();
    for share in [0, 3, 10, 40, 90, 99] {
        let work = run_with(&[("awr.html", &html[..html.len() * share / 100])]);
        let json = summary(&work);
        assert_eq!((&json["ops"], &json["per_second"]), (&whole["ops"], &whole["per_second"]));
        let report = &json["server_reports"][0];
        let reported =
            report["unread"].is_string() || !report["notes"].as_array().unwrap().is_empty();
        assert!(reported, "cut at {share} %: {report}");
    }
}

/// Reports of twelve days, one of which writes ten times the redo.
pub fn reports_of_days(mut each: impl FnMut(&str, String)) {
    let text = fs::read_to_string(sample("sp_11g.txt")).unwrap();
    for day in 2..14 {
        let report = text.replace("02-Jun-15", &format!("{day:02}-Jun-15"));
        let report = report.replace("       101 ", &format!("{:>10} ", 100 + day));
        let odd =
            report.replace("  512,345.6           25,617.3", "5,123,450.6          256,172.5");
        each(&format!("sp_{day}.txt"), if day == 9 { odd } else { report });
    }
}

#[test]
fn reports_over_time_are_a_screen_a_table_and_a_page() {
    let work = Workplace::new();
    let mut archive = tar::Builder::new(Vec::new());
    reports_of_days(|name, report| {
        let mut header = tar::Header::new_gnu();
        header.set_size(report.len() as u64);
        archive.append_data(&mut header, name, report.as_bytes()).unwrap();
    });
    work.write("reports/all.tar", archive.into_inner().unwrap());
    work.write("reports/more.txt.xz", b"\xfd7zXZ\0x");
    let run = work.petal(["awr", "--over-time", "--html", "week.html", "reports"]).exits(0);
    assert!(
        run.stdout.contains("iris: 12 reports, 2015-06-02 10:00 to 2015-06-13 10:00"),
        "{}",
        run.stdout
    );
    let worst = "worst hour   2015-06-09 10:00: redo_bytes_per_s";
    assert!(run.stdout.contains(worst), "{}", run.stdout);
    assert!(run.stdout.lines().count() <= 24, "{}", run.stdout);
    assert!(run.stderr.contains("packed with xz (unpack it: unxz)"), "{}", run.stderr);
    let page = fs::read_to_string(work.path("week.html")).unwrap();
    assert!(page.contains("redo_bytes_per_s") && page.contains("outlier"));
    let csv = work.petal(["awr", "--over-time", "--csv", "reports/all.tar"]).exits(0).stdout;
    let out: Vec<&str> = csv.lines().filter(|line| line.ends_with(",true")).collect();
    assert_eq!(out.len(), 1, "{out:?}");
    assert!(out[0].contains("all.tar/sp_9.txt") && out[0].contains(",same_hours,8,"), "{out:?}");
    // Given by itself a packed file is an error.
    work.petal(["awr", "reports/more.txt.xz"]).exits(1);
    let rows = work.petal(["awr", "--format", "tablespaces", "reports/all.tar"]).exits(0).stdout;
    assert_eq!(rows.lines().filter(|line| line.contains(".txt,tablespace,")).count(), 12, "{rows}");
}
