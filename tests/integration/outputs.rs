//! What petal leaves behind and prints: results that cannot be written, ends of runs that are cut
//! off, and texts from elsewhere on their way to a terminal.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use rustix::process::Signal;
use serde_json::Value;

use crate::support::{Mount, Petal, Workplace, contents, count, findings, number, record};

/// A record that this or an earlier petal left.
fn kept(name: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data/records").join(name);
    let files = contents(&folder).into_iter();
    files.map(|(path, text)| (path.strip_prefix(&folder).unwrap().to_owned(), text)).collect()
}

/// A folder of a run, in this workplace.
fn run_in(work: &Workplace, name: &str) -> PathBuf {
    for (file, text) in kept(name) {
        work.write(&format!("{name}/{}", file.display()), text);
    }
    work.path(name)
}

#[test]
fn a_result_that_cannot_be_written_is_told_with_exit_3() {
    let work = Workplace::loaded(1, "8M");
    run_in(&work, "petal-run-1");
    let report = env!("CARGO_MANIFEST_DIR").to_owned() + "/tests/data/awr/awr_12c.txt";
    let calls: [&[&str]; 8] = [
        &["report", "petal-run-1"],
        &["report", "petal-run-1", "--json"],
        &["run", "--work-loop", "1", "--json"],
        &["awr", "--csv", &report],
        &["awr", &report],
        &["help", "parameters"],
        &["--help"],
        &["check"],
    ];
    let full = || File::options().write(true).open("/dev/full").unwrap();
    // Nobody reads: a pager that was left, `head`.
    let closed = || std::io::pipe().unwrap().1;
    for args in calls {
        work.petal(args).into(full()).exits(3).telling(&["could not be written", "No space left"]);
        let usual = work.petal(args).ends();
        let unread = work.petal(args).into(closed()).ends();
        assert_eq!(unread.code, usual.code, "{args:?}");
        assert!(!unread.stderr.contains("written"), "{args:?}: {}", unread.stderr);
    }
}

#[test]
fn reports_that_cannot_be_kept_are_printed_and_exit_3() {
    let Some(disk) = Mount::tmpfs("size=1M") else { return };
    for (file, text) in kept("petal-run-1") {
        fs::write(disk.path("").join(file), text).unwrap();
    }
    let work = Workplace::new();
    let folder = disk.text("");
    let report = |petal: Petal, word: &str| {
        let told = petal.exits(3).telling(&["not all of its files", word]);
        assert!(told.stdout.contains("PIOPS"), "{}", told.stdout);
    };
    disk.fill("somebody-elses");
    report(work.petal(["report", &folder]), "No space left");
    fs::remove_file(disk.path("somebody-elses")).unwrap();
    disk.make_read_only();
    report(work.petal(["report", &folder]), "Read-only");
    disk.make_writable();
    work.petal(["report", &folder]).exits(0);
}

/// Adds up a count over the seconds of a journal that know it.
fn sum(journal: &[Value], count: &str) -> u64 {
    journal.iter().filter_map(|line| line.pointer(count)?.as_u64()).sum()
}

/// `petal report --json` of a folder.
fn reported(work: &Workplace, folder: &Path) -> Value {
    work.petal(["report", "--json", folder.to_str().unwrap()]).exits(0).json()
}

#[test]
fn a_run_that_is_killed_at_its_end_keeps_its_figures_at_each_step() {
    let work = Workplace::loaded(1, "8M");
    let run = |moment: &str| {
        let script = format!("[ $1 != {moment} ] || kill -9 $PPID; echo {moment}_value=1 %");
        let hook = work.script("hook.sh", &script);
        let hook = hook.to_str().unwrap().to_owned();
        let args = ["run", "--run-time", "2", "--update-pct", "20", "--external-script", &hook];
        assert_eq!(work.petal(args).ends().code, None, "killed at {moment}");
        work.runs().pop().unwrap()
    };
    // Killed while the script works: the figures are there, and that its values are not.
    let folder = run("post");
    let kept = record(&folder);
    assert_eq!(kept["status"], "complete");
    assert!(count(&kept, "/details/io/physical_read_requests") > 0);
    assert!(kept["details"]["gaps"].to_string().contains("EXTERNAL_SCRIPT"), "{kept}");
    assert!(findings(&kept).contains(&"gaps"));
    // Killed before that, in the middle of the write, or the file is lost later.
    let whole = fs::read(folder.join("run.json")).unwrap();
    let journal = work.journal();
    fs::remove_file(folder.join("run.json")).unwrap();
    for cut in [None, Some(0), Some(whole.len() / 2), Some(whole.len() - 2)] {
        if let Some(cut) = cut {
            fs::write(folder.join(".run.json.tmp"), &whole[..cut]).unwrap();
        }
        let rebuilt = reported(&work, &folder);
        assert_eq!(count(&rebuilt, "/ops/total"), sum(&journal, "/second/ops/total"));
        assert_eq!(rebuilt["ops"], kept["ops"]);
        let until = number(&rebuilt, "/counted_until/second");
        let told = |name: &str| {
            let per_second = number(&rebuilt, &format!("/per_second/{name}"));
            (per_second * until).round() as u64
        };
        for name in ["physical_read_requests", "physical_write_requests", "redo_bytes"] {
            assert_eq!(told(name), sum(&journal, &format!("/second/io/{name}")), "{name}");
        }
        assert!(!rebuilt["waits"].as_array().unwrap().is_empty());
    }
    // Killed when all files are written.
    let folder = run("end");
    let kept = record(&folder);
    assert_eq!(kept["status"], "complete");
    assert!(kept["details"]["hooks"].to_string().contains("post_value"));
    assert!(!kept["details"]["gaps"].to_string().contains("EXTERNAL_SCRIPT"));
    for name in ["report.txt", "timeline.csv", "report.html"] {
        assert!(folder.join(name).is_file(), "{name}");
    }
}

#[test]
fn a_run_that_goes_on_and_a_damaged_one_are_told_as_such() {
    let work = Workplace::loaded(1, "8M");
    let mut run = work.petal(["run", "--run-time", "100"]).start();
    run.until("a second of a run", || !work.journal().is_empty());
    let folder = work.run_folder();
    let report = || work.petal(["report", folder.to_str().unwrap()]).exits(0).stdout;
    let live = report();
    assert!(live.contains("the run goes on") && live.contains("still running"), "{live}");
    assert!(!live.contains("killed"), "{live}");
    run.signal(Signal::INT);
    run.ends().exited(130);
    let text = fs::read(folder.join("run.json")).unwrap();
    fs::write(folder.join("run.json"), &text[..text.len() / 3]).unwrap();
    let damaged = report();
    assert!(damaged.contains("run.json is damaged") && damaged.contains("status not known"));
    assert!(!damaged.contains("killed"), "{damaged}");
    fs::remove_file(folder.join("run.json")).unwrap();
    assert!(report().contains("petal was killed, or its run.json is lost"));
}

#[test]
fn a_damaged_cell_of_a_sweep_is_told_and_done_again() {
    let work = Workplace::loaded(1, "8M");
    let args =
        ["sweep", "--sessions", "1,2", "--repeats", "1", "--work-loop", "5", "--out", "swept"];
    work.petal(args).exits(0);
    let cell = work.path("swept/cell001-sessions1-r1/run.json");
    let text = fs::read(&cell).unwrap();
    fs::write(&cell, &text[..text.len() / 2]).unwrap();
    let told = work.petal(["report", "swept", "--json"]).exits(0).telling(&["cell 1", "damaged"]);
    assert_eq!(told.json()["cells"].as_array().unwrap().len(), 1);
    assert_eq!(told.json()["status"], "interrupted");
    let again = work.petal([&args[..], &["--json"]].concat()).exits(0).telling(&["done again"]);
    assert_eq!(again.json()["cells"].as_array().unwrap().len(), 2);
    assert_eq!(again.json()["status"], "complete");
    assert!(work.path("swept/cell001-sessions1-r1.failed1/run.json").is_file());
}
