//! The figures that a script reads: against their published schema, and against each other.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::support::{Workplace, count, findings, number, record, timeline};

fn schema() -> jsonschema::Validator {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/petal-run.schema.json");
    let text = fs::read(path).unwrap();
    jsonschema::draft202012::new(&serde_json::from_slice(&text).unwrap()).unwrap()
}

#[track_caller]
fn assert_valid(run: &Value) {
    let validator = schema();
    let errors: Vec<String> = validator.iter_errors(run).map(|error| error.to_string()).collect();
    assert!(errors.is_empty(), "{errors:#?}");
}

/// Per-second figures times elapsed are the totals.
#[track_caller]
fn assert_rates_are_totals(run: &Value) {
    let elapsed_s = number(run, "/elapsed_s");
    let rows: u64 =
        ["select", "scan", "update"].map(|k| count(run, &format!("/rows/{k}"))).iter().sum();
    let totals =
        [("ops", count(run, "/ops/total")), ("rows", rows), ("commits", count(run, "/ops/update"))];
    for (name, total) in totals {
        let reported = number(run, &format!("/per_second/{name}")) * elapsed_s;
        assert!(
            (reported - total as f64).abs() <= total as f64 * 1e-9 + 1e-6,
            "{name}: {reported}, {total}"
        );
    }
}

#[track_caller]
fn assert_latencies_are_ordered(run: &Value) {
    for (kind, latency) in run["latency_us"].as_object().unwrap() {
        let all = [("p50", 20), ("p90", 100), ("p95", 200), ("p99", 1000), ("p99_9", 10_000)];
        let mut steps = Vec::new();
        for (name, values_min) in all {
            // Fewer than ten values beyond it are no percentile.
            match count(latency, "/count") >= values_min {
                true => steps.push(number(latency, &format!("/{name}"))),
                false => assert_eq!(latency[name], Value::Null, "{kind}: {latency}"),
            }
        }
        let max = number(latency, "/max");
        steps.push(max);
        assert!(steps.is_sorted() && steps[0] > 0.0, "{kind}: {latency}");
        assert!(number(latency, "/mean") <= max, "{kind}: {latency}");
        assert_eq!(count(latency, "/count"), count(run, &format!("/ops/{kind}")), "{kind}");
    }
}

#[test]
fn a_timed_run_has_the_mix_and_the_rows_that_were_asked_for() {
    let work = Workplace::loaded(4, "64M");
    let args = ["run", "-s", "4", "-t", "2", "--run-time", "4", "--update-pct", "20", "--json"];
    let run = work.petal(args).exits(0).json();
    assert_valid(&run);
    assert_eq!(run["status"], "complete");
    assert_eq!((count(&run, "/sessions"), count(&run, "/schemas")), (8, 4));
    let (select, update) = (count(&run, "/ops/select"), count(&run, "/ops/update"));
    assert!(select > 0 && update > 0);
    let meant = (select + update) as f64 * 0.2;
    assert!((update as f64 - meant).abs() <= 10.0 * 8.0, "{update} of {}", select + update);
    assert_eq!(count(&run, "/rows/select"), 64 * select);
    assert_eq!(count(&run, "/rows/update"), 64 * update);
    assert_eq!(count(&run, "/ops/total"), select + update);
    // What is under way at the stop may end later: within 5 s, or cancelled within 15 more.
    let elapsed_s = number(&run, "/elapsed_s");
    assert!((4.0..24.0).contains(&elapsed_s), "{elapsed_s}");
    assert_latencies_are_ordered(&run);
    assert_rates_are_totals(&run);
    assert_eq!(count(&run, "/counters/commits"), update);
    // The whole record holds the same summary, and the seconds add up to it.
    let whole = record(&work.run_folder());
    for (key, value) in run.as_object().unwrap() {
        assert_eq!(&whole[key], value, "{key}");
    }
    let seconds = timeline(&work.run_folder());
    for kind in ["select", "update", "total"] {
        let sum: u64 = seconds.iter().map(|second| count(second, &format!("/ops/{kind}"))).sum();
        assert_eq!(sum, count(&run, &format!("/ops/{kind}")), "{kind}");
    }
    let report = work.petal(["report", "--json", work.run_folder().to_str().unwrap()]).exits(0);
    assert_eq!(report.json(), run);
}

#[test]
fn fixed_work_is_done_exactly() {
    let work = Workplace::loaded(4, "16M");
    let args = ["run", "-s", "4", "-t", "2", "--work-loop", "300", "--update-pct", "20", "--json"];
    for work_unit in ["4", "64"] {
        let all = [&args[..], &["--work-unit", work_unit]].concat();
        let run = work.petal(all).exits(0).json();
        assert_valid(&run);
        assert_eq!(count(&run, "/ops/total"), 2400);
        assert_eq!(count(&run, "/ops/update"), 480);
        assert_eq!(count(&run, "/counters/commits"), 480);
        let unit: u64 = work_unit.parse().unwrap();
        assert_eq!(count(&run, "/rows/select"), 1920 * unit);
        assert_eq!(count(&run, "/rows/update"), 480 * unit);
        assert_eq!(run["errors"], serde_json::json!({}));
        assert_rates_are_totals(&run);
        assert_latencies_are_ordered(&run);
    }
}

#[test]
fn readers_writers_scans_and_a_rate_are_valid_too() {
    let work = Workplace::loaded(2, "8M");
    let run = work
        .petal(["run", "--readers", "3", "--writers", "2", "--work-loop", "100", "--json"])
        .exits(0)
        .json();
    assert_valid(&run);
    assert_eq!((count(&run, "/ops/select"), count(&run, "/ops/update")), (300, 200));
    let run = work
        .petal(["run", "--scan-pct", "30", "--update-pct", "50", "--work-loop", "200", "--json"])
        .exits(0)
        .json();
    assert_valid(&run);
    let ops = ["select", "scan", "update"].map(|kind| count(&run, &format!("/ops/{kind}")));
    assert_eq!(ops, [140, 60, 200]);
    assert_eq!(count(&run, "/rows/scan"), 60 * 128);
    assert_latencies_are_ordered(&run);
    let run = work
        .petal(
            ["run", "--rate", "50", "--arrivals", "even", "--run-time", "2", "--work-unit", "4"]
                .iter()
                .chain(&["--json"]),
        )
        .exits(0)
        .json();
    assert_valid(&run);
    // All were due, whether or not this machine kept up.
    let backlog = count(&record(&work.runs().pop().unwrap()), "/details/backlog");
    assert_eq!(count(&run, "/ops/total") + count(&run, "/ops/cut") + backlog, 100);
    assert!(number(&run, "/latency_us/select_response/p50") > 0.0);
    assert!(findings(&run).contains(&"single-run"));
}

#[test]
fn every_repeat_is_a_run_of_its_own_with_its_own_choices() {
    let work = Workplace::loaded(1, "8M");
    let args = ["run", "--repeats", "2", "--work-loop", "20", "--seed", "7"];
    work.petal(args).exits(0);
    let runs = work.runs();
    assert_eq!(runs.len(), 2);
    for (at, run) in runs.iter().map(|run| record(run)).enumerate() {
        assert_eq!(count(&run, "/seed"), 7);
        assert_eq!(count(&run, "/details/repeat"), at as u64 + 1);
        assert_eq!(count(&run, "/details/repeats"), 2);
    }
    let folders: Vec<&str> = runs.iter().map(|run| run.to_str().unwrap()).collect();
    work.petal([&["report"], &folders[..]].concat()).exits(0);
}

#[test]
fn operations_on_hot_data_are_counted_and_timed() {
    let work = Workplace::loaded(2, "16M");
    let hot_spot = ["--do-hotspot", "TRUE", "--hotspot-mb", "4", "--hotspot-offset-mb", "4"];
    let every = ["--hotspot-frequency", "3", "--hot-schema-frequency", "5", "--json"];
    let run = ["run", "-s", "2", "--work-loop", "300", "--update-pct", "20"];
    let run = work.petal([&run[..], &hot_spot, &every].concat()).exits(0).json();
    assert_eq!(count(&run, "/hot_latency_us/hot_spot/count"), 200);
    assert_eq!(count(&run, "/hot_latency_us/hot_schema/count"), 120);
    assert!(number(&run, "/hot_latency_us/hot_schema/p90") > 0.0);
    let folder = work.run_folder();
    assert!(record(&folder)["details"]["histograms"]["hot_spot"].is_array());
    let report = fs::read_to_string(folder.join("report.txt")).unwrap();
    let shares =
        ["SELECTs and UPDATEs sent to the hot spot, %", "operations sent to the hot schema, %"];
    for (share, figures) in shares.iter().zip([["33.3", "33.3"], ["20.0", "20.0"]]) {
        let line = report.lines().find(|line| line.starts_with(share)).unwrap_or(&report);
        assert!(line.split_whitespace().rev().take(2).eq(figures), "{line}");
    }
    let log = fs::read_to_string(folder.join("latency.hlog")).unwrap();
    assert!(log.contains("Tag=hot_spot,"), "{log}");
}
