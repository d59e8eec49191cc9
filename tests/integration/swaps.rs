//! The owner of a folder in which root measures: he moves the run's folder and puts links and folders in
//! its place, or pipes in the place of files. petal's files stay together, and nothing else is written.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown, symlink};
use std::path::Path;
use std::process::{Child, Command};

use rustix::fs::{CWD, FileType, Mode, mknodat};

use crate::support::{Workplace, names, record, skip};

const STRANGER: u32 = 4711;

fn is_root() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        skip("another user needs root");
    }
    is_root
}

/// A loaded workplace, whose folder `out` belongs to a stranger.
fn shared() -> Workplace {
    let work = Workplace::loaded(1, "8M");
    fs::set_permissions(work.path(""), fs::Permissions::from_mode(0o755)).unwrap();
    fs::create_dir(work.path("out")).unwrap();
    chown(work.path("out"), Some(STRANGER), Some(STRANGER)).unwrap();
    work
}

/// The stranger, who waits for a run's seconds and then does this to its folder `$D` in `out`.
fn stranger(work: &Workplace, body: &str) -> Child {
    let script = format!(
        "while :; do D=$(ls -d out/2*Z-* 2>/dev/null | head -1); \
         [ -n \"$D\" ] && [ -s \"$D/seconds.ndjson.gz\" ] && break; sleep 0.05; done; {body}"
    );
    let number = STRANGER.to_string();
    let mut command = Command::new("setpriv");
    command.args([
        "--reuid",
        &number,
        "--regid",
        &number,
        "--clear-groups",
        "/bin/sh",
        "-c",
        &script,
    ]);
    // He needs no right on the folders above.
    command.current_dir(work.path("")).spawn().unwrap()
}

#[test]
fn outputs_of_scripts_and_neighbours_stay_in_the_run_whose_folder_is_swapped() {
    if !is_root() {
        return;
    }
    let work = shared();
    let victim = work.write("victim", "root's own\n");
    fs::set_permissions(&victim, fs::Permissions::from_mode(0o600)).unwrap();
    fs::create_dir(work.path("target")).unwrap();
    let hook = work.script("hook.sh", "echo '* * * * * root evil'").display().to_string();
    // A folder with links to a file of root's, and then a link to a folder of root's.
    let folder = "mv $D out/moved; mkdir $D; ln -s ../../victim $D/neighbour-1.log; \
                  ln -s ../../target/new $D/hook-post.log";
    let link = "mv $D out/moved; ln -s ../target $D";
    let interfere =
        ["interfere", "--rate", "20", "--with", "echo injected; sleep 1", "--slot", "3"];
    let interfere = [&interfere[..], &["--pairs", "3", "--settling", "1"]].concat();
    for (body, args) in [(folder, interfere), (link, vec!["run", "--run-time", "3"])] {
        let mut stranger = stranger(&work, body);
        let more = ["--external-script", hook.as_str(), "--out", "out"];
        let ended = work.petal([&args[..], &more].concat()).exits(1);
        assert!(stranger.wait().unwrap().success());
        ended.telling(&["somebody moved this folder", "out/moved"]);
        assert_eq!(fs::read_to_string(&victim).unwrap(), "root's own\n");
        assert_eq!(names(&work.path("target")), Vec::<String>::new());
        let moved = work.path("out/moved");
        assert!(record(&moved)["ops"]["total"].as_u64().unwrap() > 0, "the record is whole");
        let pre = fs::read_to_string(moved.join("hook-pre.log")).unwrap();
        assert!(pre.contains("evil") && !moved.join("hook-post.log").exists(), "{pre}");
        fs::remove_dir_all(work.path("out")).unwrap();
        fs::create_dir(work.path("out")).unwrap();
        chown(work.path("out"), Some(STRANGER), Some(STRANGER)).unwrap();
    }
}

fn pipe(path: &Path) {
    mknodat(CWD, path, FileType::Fifo, Mode::from_raw_mode(0o666), 0).unwrap();
}

#[test]
fn a_pipe_for_a_settings_file_or_a_lock_holds_nothing_up() {
    let work = Workplace::loaded(1, "8M");
    let sweep = ["sweep", "--sessions", "1,2", "--work-loop", "30", "--out", "S"];
    work.petal(sweep).exits(0);
    fs::remove_file(work.path("S/sweep.lock")).unwrap();
    pipe(&work.path("S/sweep.lock"));
    for (args, code) in [
        (&["report", "S"][..], 0),
        (&["compare", "S"], 0),
        (&["gallery", "S", "--out", "gallery"], 0),
        (&["card", "S", "--out", "card"], 0),
        (&["attach", "S"], 3),
        (&["predict", "S"], 4),
        (&sweep, 3),
    ] {
        let ended = work.petal(args).ends();
        assert_eq!(ended.code, Some(code), "{args:?}: {}", ended.stderr);
    }
    let served = crate::serve::Served::folder(&work, ".");
    assert!(served.get("").0.starts_with("HTTP/1.1 200 OK"));
    drop(served);
    pipe(&work.path("out.xlsx"));
    for args in [&["report", "S", "--xlsx", "out.xlsx"][..], &["card", "S", "--out", "out.xlsx"]] {
        work.petal(args).exits(3);
    }
    // Also before petal knows whose it is.
    pipe(&work.path("slob.conf"));
    work.petal(["check"]).exits(2).telling(&["slob.conf", "not a regular file"]);
    // A link's maker chooses the file; here another user made one in the caller's folder.
    fs::remove_file(work.path("slob.conf")).unwrap();
    work.write("own.conf", "UPDATE_PCT=0\n");
    symlink("own.conf", work.path("slob.conf")).unwrap();
    work.petal(["check"]).exits(2).telling(&["slob.conf", "it is a link"]);
}

#[test]
fn a_ledger_is_begun_neither_where_a_link_leads_nor_in_a_file_of_two_names() {
    let work = Workplace::loaded(1, "8M");
    let (victim, nowhere) = (work.write("victim", ""), work.path("nowhere"));
    symlink(&victim, work.path("link")).unwrap();
    symlink(&nowhere, work.path("dangling")).unwrap();
    fs::hard_link(&victim, work.path("twin")).unwrap();
    for (name, words) in
        [("link", "it is a link"), ("dangling", "it is a link"), ("twin", "another name")]
    {
        let run = ["run", "--work-loop", "1", "--update-pct", "100", "--ledger", name];
        let refused = work.petal(run).ends();
        assert!(refused.code != Some(0) && refused.stderr.contains(words), "{}", refused.stderr);
    }
    assert!(!nowhere.exists() && fs::read(&victim).unwrap().is_empty());
}

#[test]
fn a_linked_lock_of_another_sweep_does_not_stop_that_one() {
    let work = Workplace::loaded(1, "8M");
    let mut own =
        work.petal(["sweep", "--sessions", "1,2", "--run-time", "2", "--out", "own"]).start();
    own.until("the first cell", || work.path("own/sweep.json").exists());
    let index = fs::read(work.path("own/sweep.json")).unwrap();
    work.write("theirs/sweep.json", index);
    std::os::unix::fs::symlink("../own/sweep.lock", work.path("theirs/sweep.lock")).unwrap();
    work.petal(["attach", "theirs"]).exits(3).telling(&["nothing is running there"]);
    own.ends().exited(0);
}

#[test]
fn no_umask_lets_others_write_a_record() {
    let work = Workplace::loaded(1, "8M");
    let open = |args: &[&str]| work.petal(args).after("umask 0").exits(0);
    open(&["sweep", "--sessions", "1", "--work-loop", "5", "--out", "S/deep"]);
    open(&["run", "--work-loop", "5", "--ledger", "kept.ledger", "--out", "R"]);
    let script = work.script("hook.sh", "echo said").display().to_string();
    open(&["run", "--work-loop", "5", "--external-script", &script, "--out", "R"]);
    let found = crate::support::run(
        "/bin/sh",
        &[
            "-c",
            "test -z \"$(find \"$0\" -path '*/petal-data' -prune -o -perm /022 ! -type l -print | tee /dev/stderr)\"",
            &work.path("").display().to_string(),
        ],
    );
    assert_eq!(found, Ok(()));
}

#[test]
fn no_link_pipe_or_file_of_two_names_is_taken_for_a_databases_own() {
    for (engine, url, data, sides) in [
        ("SQLite", "sqlite:d", "petal1.db", &["-wal", "-journal", "-shm"][..]),
        ("LMDB", "lmdb:d", "petal1.lmdb", &["-lock"]),
    ] {
        let work = Workplace::new();
        let petal = |args: &[&str]| work.petal([args, &["--db", url]].concat());
        petal(&["setup", "-s", "1", "--scale", "8M", "--scan-table-sz", "0"]).exits(0);
        let (victim, nowhere) = (work.write("victim", ""), work.path("nowhere"));
        for side in sides {
            let name = format!("{data}{side}");
            let place = work.path("d").join(&name);
            let plants: [&dyn Fn(); 4] = [
                &|| symlink(&victim, &place).unwrap(),
                &|| symlink(&nowhere, &place).unwrap(),
                &|| fs::hard_link(&victim, &place).unwrap(),
                &|| pipe(&place),
            ];
            for (kind, plant) in plants.iter().enumerate() {
                let _ = fs::remove_file(&place);
                plant();
                petal(&["check", "-s", "1"]).ends();
                let run = ["run", "-s", "1", "--work-loop", "1", "--update-pct", "100"];
                let refused = petal(&run).ends();
                assert!(
                    refused.stderr.contains(&name),
                    "{engine} {side} {kind}: {}",
                    refused.stderr
                );
                assert_ne!(refused.code, Some(0), "{engine} {side} {kind}");
                assert_eq!(fs::metadata(&victim).unwrap().len(), 0, "{engine} {side} {kind}");
                assert!(!nowhere.exists(), "{engine} {side} {kind}");
            }
            fs::remove_file(&place).unwrap();
        }
        petal(&["run", "-s", "1", "--work-loop", "1"]).exits(0);
    }
}

/// Another sweep's figures are neither shown nor written in the place of petal's own.
#[test]
fn a_sweep_whose_folder_is_swapped_reads_and_reports_its_own_cells() {
    let work = Workplace::loaded(1, "8M");
    let sweep = |out: &str, sessions: &str| {
        work.petal(["sweep", "--sessions", sessions, "--run-time", "1", "--out", out])
    };
    sweep("theirs", "3,4,5").exits(0);
    let mut own = sweep("own", "1,2").start();
    own.until("the sweep", || work.path("own/sweep.json").exists());
    let is_done = |name: &String| name.starts_with("cell") && name.ends_with("-r1");
    own.until("a cell", || names(&work.path("own")).iter().any(is_done));
    fs::rename(work.path("own"), work.path("moved")).unwrap();
    fs::rename(work.path("theirs"), work.path("own")).unwrap();
    let ended = own.ends();
    assert_ne!(ended.code, Some(0), "{}", ended.stderr);
    let csv = fs::read_to_string(work.path("moved/sweep.csv")).unwrap();
    // The means, and every run.
    let tables = ended.stdout.split("MEANS OF EACH").nth(1).unwrap();
    let rows = tables.lines().filter(|line| line.starts_with(char::is_numeric));
    let of_theirs = rows.filter(|row| row.starts_with(['3', '4', '5'])).count();
    assert_eq!((csv.lines().count(), of_theirs), (3, 0), "{csv}{tables}");
}
