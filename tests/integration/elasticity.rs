//! Experiments that a run makes on itself. Their outcome depends on the machine, and is not judged here.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::support::{Workplace, number, record};

/// The second half of a run has slots with each change; the headline is of the first half.
#[test]
fn experiments_follow_the_measured_half_of_a_run() {
    let work = Workplace::loaded(1, "16M");
    let args = ["run", "-s", "1", "-t", "2", "--work-unit", "4", "--update-pct", "20"];
    let run = work.petal(args.iter().chain(&["--run-time", "30", "--elasticity"])).exits(0);
    let record = record(&work.run_folder());
    assert!(number(&record, "/steady/to_s") <= 15.0, "{}", record["steady"]);
    let found = record["elasticity"].as_array().unwrap();
    let of: Vec<&str> = found.iter().map(|it| it["of"].as_str().unwrap()).collect();
    assert_eq!(of, ["reads", "read_latency", "commits", "processors", "sessions"]);
    let is_known = |it: &&Value| it["elasticity"].is_number() && it["interval"].is_array();
    assert_eq!(found.iter().filter(is_known).count(), of.len(), "{found:?}");
    for (it, factor) in found.iter().zip([1.25, 1.0, 1.0, 1.25, 0.5]) {
        assert!(number(it, "/factor") >= factor, "{it}");
    }
    let made = &record["details"]["experiments"];
    let slots = made["slots"].as_array().unwrap();
    let rounds = slots.chunks(7).filter(|round| {
        let changes: BTreeSet<Option<&str>> =
            round.iter().map(|it| it["change"].as_str()).collect();
        changes.len() == 6
    });
    assert!(slots.len() >= 4 * 7 && rounds.count() * 7 == slots.len(), "{slots:?}");
    assert!(slots.iter().all(|it| number(it, "/operations") > 0.0), "{slots:?}");
    assert!(run.stdout.contains("ELASTICITY"), "{}", run.stdout);
    // Tables of the run's own figures leave the experiments out.
    let report = std::fs::read_to_string(work.run_folder().join("report.txt")).unwrap();
    let of_event = report.lines().find(|line| line.starts_with("main read ")).unwrap();
    let (_, bars) = report.split_once("\nmain read  up to us").unwrap();
    let cell = |line: &str, at: usize| -> u64 {
        line.split_whitespace().nth(at).unwrap().replace(',', "").parse().unwrap()
    };
    let bars = bars.lines().skip(2).take_while(|line| line.starts_with("    "));
    // Counts and ranges are read one after the other while sessions work.
    let (in_bars, waits) = (bars.map(|line| cell(line, 1)).sum::<u64>(), cell(of_event, 2));
    assert!(in_bars.abs_diff(waits) * 100 <= waits, "{in_bars} of {waits}: {report}");
    assert!(report.contains("these seconds are in no table"), "{report}");
    let refused =
        |more: &[&str]| work.petal(["run", "--elasticity"].iter().chain(more)).exits(2).stderr;
    assert!(refused(&["--run-time", "20"]).contains("use at least 30"));
    assert!(refused(&["--work-loop", "5"]).contains("use RUN_TIME"));
}
