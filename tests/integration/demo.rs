//! The demo: what is done stays, the same command goes on, and its last run shows what limits it.

use std::fs;
use std::path::{Path, PathBuf};

use rustix::process::Signal;
use serde_json::Value;

use crate::support::{Workplace, names};

const DEMO: [&str; 3] = ["demo", "--seconds", "1"];

fn folder(work: &Workplace) -> Option<PathBuf> {
    let is_one = |path: &PathBuf| path.join("sweep.json").is_file();
    work.runs().into_iter().find(is_one)
}

/// Names of the cells that are done.
fn cells(dir: &Path) -> Vec<String> {
    let is_done = |name: &String| name.starts_with("cell") && !name.ends_with(".unfinished");
    names(dir).into_iter().filter(is_done).collect()
}

/// The names of all cells of the plan.
fn planned(dir: &Path) -> Vec<String> {
    let sweep: Value = serde_json::from_slice(&fs::read(dir.join("sweep.json")).unwrap()).unwrap();
    let mut cells = vec![String::new()];
    for axis in sweep["plan"]["axes"].as_array().unwrap() {
        let key = axis["key"].as_str().unwrap();
        let values = axis["values"].as_array().unwrap();
        let longer = |cell: &String| -> Vec<String> {
            values.iter().map(|value| format!("{cell}-{key}{}", value.as_str().unwrap())).collect()
        };
        cells = cells.iter().flat_map(longer).collect();
    }
    let cells = (1..).zip(cells);
    cells.flat_map(|(n, cell)| (1..=3).map(move |r| format!("cell{n:03}{cell}-r{r}"))).collect()
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for name in names(from) {
        fs::copy(from.join(&name), to.join(&name)).unwrap();
    }
}

#[test]
fn an_interrupted_demo_goes_on_until_its_last_run_and_then_begins_again() {
    let work = Workplace::new();
    let mut demo = work.petal(DEMO).start();
    demo.until("a cell that is done", || folder(&work).is_some_and(|dir| !cells(&dir).is_empty()));
    demo.signal(Signal::INT);
    demo.ends().exited(130).telling(&["the same command goes on"]);
    let dir = folder(&work).unwrap();
    let done = cells(&dir);
    // All other cells are done as well.
    let all = planned(&dir);
    assert_eq!(all.len(), 30);
    for name in all.iter().filter(|name| !done.contains(name)) {
        copy(&dir.join(&done[0]), &dir.join(name));
    }
    let mut demo = work.petal(DEMO).start();
    demo.until_it_says("last run, at the peak");
    demo.until("the last run", || dir.join("peak-run.unfinished/seconds.ndjson.gz").is_file());
    demo.signal(Signal::INT);
    let ended = demo.ends().exited(130);
    let missing =
        "30 of 30 runs done; the last run at the peak is missing: the same command makes it";
    assert!(ended.stdout.contains(missing), "{}", ended.stdout);
    assert_eq!(cells(&dir), all, "nothing is run twice");
    copy(&dir.join(&done[0]), &dir.join("peak-run"));
    work.petal(["report", dir.to_str().unwrap()]).exits(0);
    let page = fs::read_to_string(dir.join("report.html")).unwrap();
    let tiles = page.split("class=\"tiles\"").nth(1).unwrap();
    // Numbers first, the sentence below them.
    assert!(tiles.find("Most physical I/O") < tiles.find("Limited by"), "{tiles}");
    assert!(tiles.contains("./peak-run/report.html"), "{tiles}");
    // A complete demo keeps its results under another name.
    let mut demo = work.petal(DEMO).start();
    let name = dir.file_name().unwrap().to_str().unwrap();
    let before = dir.with_file_name(format!("{name}.before1"));
    demo.until("a new demo", || before.is_dir() && dir.join("sweep.json").is_file());
    assert_eq!(cells(&before), all);
    demo.kill();
}
