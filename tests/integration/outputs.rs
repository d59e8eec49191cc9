//! What petal leaves behind and prints: results that cannot be written, ends of runs that are cut
//! off, and texts from elsewhere on their way to a terminal.

use std::fs::{self, File};
use std::path::PathBuf;

use crate::support::{Mount, Petal, Workplace, contents};

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
