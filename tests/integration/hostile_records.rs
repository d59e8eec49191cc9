//! Records that are damaged or meant to harm: petal says so, or shows what it can, within a budget of
//! processor time and memory; other records are shown all the same.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::support::{Petal, SECONDS, Workplace, run, text_of, write_text};

/// Far more than any of these needs, and far less than what a file claims.
const BUDGET: &str = "ulimit -t 60; ulimit -v 4000000";

fn sample(name: &str) -> Vec<u8> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data/records");
    fs::read(folder.join(name)).unwrap()
}

/// A good run, and the record of another one that was killed.
fn records() -> Workplace {
    let work = Workplace::new();
    for name in ["run.json", SECONDS] {
        work.write(&format!("all/good/{name}"), sample(&format!("petal-run-2/{name}")));
    }
    for name in [SECONDS, "latency.hlog"] {
        work.write(&format!("all/killed/{name}"), sample(&format!("petal-seconds-1/{name}")));
    }
    work
}

/// The lines of the killed run's seconds.
fn lines_of_seconds(work: &Workplace) -> Vec<String> {
    text_of(&work.path("all/killed").join(SECONDS)).lines().map(str::to_owned).collect()
}

fn write_seconds(work: &Workplace, record: &str, text: &str) {
    write_text(&work.path("all").join(record).join(SECONDS), text);
}

/// Within the budget, by itself: neither a signal nor a panic.
#[track_caller]
fn ends(petal: Petal) -> (i32, String) {
    let ended = petal.after(BUDGET).ends();
    let said = format!("{}{}", ended.stdout, ended.stderr);
    let code = ended.code.unwrap_or_else(|| panic!("it was ended from outside: {said}"));
    assert!(code < 100 && !said.contains("panicked"), "{code}: {said}");
    (code, said)
}

/// The commands that read the killed record, and the one that shows all of them.
fn read_all(work: &Workplace) -> Vec<String> {
    let killed = work.path("all/killed");
    let killed = killed.to_str().unwrap();
    let calls: [&[&str]; 6] = [
        &["report", killed],
        &["history", "all"],
        &["compare", killed, "all/good"],
        &["card", killed, "--out", "card"],
        &["profile", killed],
        &["merge", killed, "all/good"],
    ];
    let said = calls.iter().map(|args| ends(work.petal(*args)).1).collect();
    let (code, shown) = ends(work.petal(["gallery", "all", "--out", "gallery"]));
    assert_eq!(code, 0, "{shown}");
    said
}

#[test]
fn a_pipe_in_the_place_of_a_records_file_holds_nothing_up() {
    for name in ["os-server.ndjson", "latency.hlog", SECONDS, "run.json", "awr_1.html"] {
        let work = records();
        let pipe = work.path("all/killed").join(name);
        let _ = fs::remove_file(&pipe);
        run("mkfifo", &[pipe.to_str().unwrap()]).unwrap();
        read_all(&work);
    }
    let work = records();
    for name in ["sweep.json", "calibrate.json"] {
        fs::create_dir(work.path(format!("all/{name}"))).unwrap();
        run("mkfifo", &[work.path(format!("all/{name}/{name}")).to_str().unwrap()]).unwrap();
        ends(work.petal(["report", &format!("all/{name}")]));
    }
    read_all(&work);
}

#[test]
fn a_sweep_that_claims_more_than_any_sweep_has_costs_only_itself() {
    let axes = |count: usize, values: usize| -> Value {
        let values: Vec<String> = (0..values).map(|value| value.to_string()).collect();
        (0..count).map(|axis| json!({ "key": format!("a{axis}"), "values": values })).collect()
    };
    let sweep = |axes: Value, repeats: u64, folder: &str| {
        json!({
            "format": "petal-sweep/1", "petal_version": "0.1.0", "engine": "sqlite",
            "started_at": "2026-11-20T00:00:00Z", "status": "complete",
            "plan": { "axes": axes, "repeats": repeats, "seed": 1, "settings": {} },
            "cells": [{
                "number": 1, "repeat": 1, "factors": [], "folder": folder, "status": "complete"
            }],
        })
    };
    let work = records();
    let canary = work.path("all/good").to_str().unwrap().to_owned();
    let cases = [
        (sweep(axes(1, 1), 4_000_000_000, "x"), "4000000000 repeats"),
        (sweep(axes(12, 40), 1, "x"), "40 x 40"),
        (sweep(axes(1, 1), 1, &canary), "not in its own"),
        (sweep(axes(1, 1), 1, "../good"), "not in its own"),
        (sweep(axes(2, 100), 10_000, "x"), ""),
    ];
    for (text, reason) in cases {
        work.write("all/swept/sweep.json", text.to_string());
        let (_, said) = ends(work.petal(["report", "all/swept"]));
        assert!(said.contains(reason), "{reason}: {said}");
        let (code, said) = ends(work.petal(["gallery", "all", "--out", "gallery"]));
        assert_eq!(code, 0, "{said}");
    }
}

#[test]
fn a_sparse_latency_log_is_not_read_into_memory() {
    let work = records();
    let log = File::options().append(true).open(work.path("all/killed/latency.hlog")).unwrap();
    log.set_len(3 << 30).unwrap();
    let said = read_all(&work);
    assert!(said[0].contains("PIOPS"), "{}", said[0]);
}

#[test]
fn seconds_of_very_many_lost_sessions_and_waits_are_read_in_time() {
    let count = 200_000;
    let work = records();
    let lines = lines_of_seconds(&work);
    let mut line: Value = serde_json::from_str(&lines[2]).unwrap();
    let lost =
        |session: u32| json!({ "session": session, "at_s": 1.0, "code": "x", "message": "y" });
    line["sessions_lost"] = (0..count).map(lost).collect();
    let known = line["waits"][0].clone();
    let wait = |number: u32| {
        let mut wait = known.clone();
        wait["name"] = json!(format!("w{number}"));
        wait
    };
    line["waits"] = (0..count / 10).map(wait).collect();
    write_seconds(&work, "killed", &format!("{}\n{}\n{line}\n", lines[0], lines[1]));
    let said = ends(work.petal(["report", "all/killed"])).1;
    assert!(said.contains("PIOPS"), "{}", &said[..said.len().min(2000)]);
}

/// Each entry of the directory names the same bytes.
#[test]
fn a_zip_of_files_that_share_their_bytes_is_left_early() {
    let work = Workplace::new();
    let path = work.path("trap.zip");
    let mut zip = zip::ZipWriter::new(File::create(&path).unwrap());
    let options = zip::write::SimpleFileOptions::default();
    zip.start_file("f0000", options).unwrap();
    zip.write_all(&vec![b' '; 10 << 20]).unwrap();
    zip.finish().unwrap();
    let bytes = fs::read(&path).unwrap();
    let find = |mark: &[u8]| bytes.windows(4).rposition(|four| four == mark).unwrap();
    let (directory, end) = (find(b"PK\x01\x02"), find(b"PK\x05\x06"));
    let mut trap = bytes[..directory].to_vec();
    for number in 0..200 {
        let mut entry = bytes[directory..end].to_vec();
        let name = entry.windows(5).position(|five| five == b"f0000").unwrap();
        entry[name..name + 5].copy_from_slice(format!("f{number:04}").as_bytes());
        trap.extend(entry);
    }
    let directory_bytes = (trap.len() - directory) as u32;
    let mut last = bytes[end..].to_vec();
    last[8..10].copy_from_slice(&200_u16.to_le_bytes());
    last[10..12].copy_from_slice(&200_u16.to_le_bytes());
    last[12..16].copy_from_slice(&directory_bytes.to_le_bytes());
    trap.extend(last);
    fs::write(&path, trap).unwrap();
    let (code, said) = ends(work.petal(["awr", "trap.zip"]));
    assert_eq!(code, 3, "{said}");
    assert!(said.contains("overlap") || said.contains("times its own size"), "{said}");
}

/// Each second is of another kind of operation.
#[test]
fn a_record_of_very_many_kinds_is_read_in_time_and_says_what_it_left_out() {
    let count = 6_000;
    let work = records();
    let lines = lines_of_seconds(&work);
    let second: Value = serde_json::from_str(&lines[1]).unwrap();
    let known = second["second"]["latency_us"]["select"].clone();
    let of_kind = |number: u32| {
        let mut line = second.clone();
        line["second"]["from_s"] = json!(number);
        line["second"]["latency_us"] = json!({ format!("k{number}"): known });
        line
    };
    let more: Vec<String> = (0..count).map(|number| of_kind(number).to_string()).collect();
    let text = format!("{}\n{}\n", lines[0], more.join("\n"));
    write_seconds(&work, "killed", &text);
    let log = String::from_utf8(sample("petal-seconds-1/latency.hlog")).unwrap();
    let mut log: Vec<String> = log.lines().map(str::to_owned).collect();
    let histogram = log.last().unwrap().rsplit(',').next().unwrap().to_owned();
    log.extend(
        (0..count).map(|number| format!("Tag=k{number},{number}.000,1.000,1.000,{histogram}")),
    );
    work.write("all/killed/latency.hlog", log.join("\n") + "\n");
    let said = read_all(&work);
    assert!(said[0].contains("more than 32 kinds"), "{}", said[0]);
    // The same in a record that is whole.
    let mut run: Value = serde_json::from_slice(&sample("petal-run-2/run.json")).unwrap();
    let kinds = (0..count).map(|number| (format!("k{number}"), known.clone()));
    run["latency_us"] = Value::Object(kinds.collect());
    let good = sample("petal-run-2/run.json");
    for (run, seconds) in [(run.to_string().into_bytes(), None), (good, Some(&text))] {
        work.write("all/good/run.json", run);
        seconds.inspect(|text| write_seconds(&work, "good", text));
        let (_, said) = ends(work.petal(["report", "all/good"]));
        assert!(said.contains("more than 32 kinds"), "{said}");
    }
}

/// Each line forgets a wait of very many, and ends where the run does.
#[test]
fn seconds_that_forget_again_and_again_are_read_in_time() {
    let work = records();
    let lines = lines_of_seconds(&work);
    let mut line: Value = serde_json::from_str(&lines[2]).unwrap();
    let known = line["waits"][0].clone();
    let wait = |number: u32| {
        let mut wait = known.clone();
        wait["name"] = json!(format!("w{number}"));
        wait
    };
    line["waits"] = (0..20_000).map(wait).collect();
    let mut text = format!("{}\n{}\n{line}\n", lines[0], lines[1]);
    for number in 0..20_000 {
        line["waits"] = json!([wait(number)]);
        line["forgotten"] = json!([format!("w{number}")]);
        text += &format!("{line}\n");
    }
    write_seconds(&work, "killed", &text);
    let said = ends(work.petal(["report", "all/killed"])).1;
    assert!(said.contains("PIOPS"), "{}", &said[..said.len().min(2000)]);
}
