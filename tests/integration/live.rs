//! The full screen on a terminal, which util-linux's `script` makes, and work that goes on without
//! it.

use std::io::{Read as _, Write as _};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex};

use super::support::{Workplace, record, until};

const ENTER: &str = "\x1b[?1049h";
const LEAVE: &str = "\x1b[?1049l";

/// petal on a terminal of 80 columns and 24 rows.
struct OnTerminal {
    child: Child,
    keys: ChildStdin,
    output: Arc<Mutex<Vec<u8>>>,
}

impl OnTerminal {
    fn start(work: &Workplace, arguments: &str) -> Self {
        let petal = env!("CARGO_BIN_EXE_petal");
        // The exit code is the last line.
        let command = format!("stty cols 80 rows 24; {petal} {arguments}; echo exit $?");
        let mut child = Command::new("script")
            .args(["-qec", &command, "/dev/null"])
            .env_remove("XDG_DATA_HOME")
            .env_remove("NO_COLOR")
            .env("HOME", work.path("home"))
            .env("TERM", "xterm")
            .env("LC_ALL", "C.UTF-8")
            .env("NO_OS_PERF_DATA", "TRUE")
            .current_dir(work.path(""))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (keys, mut stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let output = Arc::new(Mutex::new(Vec::new()));
        let into = Arc::clone(&output);
        std::thread::spawn(move || {
            let mut piece = [0; 4096];
            while let Ok(bytes @ 1..) = stdout.read(&mut piece) {
                into.lock().unwrap().extend_from_slice(&piece[..bytes]);
            }
        });
        Self { child, keys, output }
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.output.lock().unwrap()).into_owned()
    }

    fn until_it_shows(&self, words: &str) {
        until(words, || self.text().contains(words));
    }

    fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
        self.keys.flush().unwrap();
    }

    /// Waits for the end. Returns the output after the screen, which must have been left.
    fn ends(mut self, code: i32) -> String {
        until("its end", || self.child.try_wait().unwrap().is_some());
        until("its exit code", || {
            self.text().contains("\nexit ") || self.text().contains("\rexit ")
        });
        let text = self.text();
        assert!(text.contains(&format!("exit {code}")), "{text}");
        let (_, after) = text.rsplit_once(LEAVE).expect("the screen is left");
        after.replace('\r', "")
    }
}

#[test]
fn a_run_on_the_full_screen_shows_its_figures_and_ends_with_its_report() {
    let work = Workplace::loaded(1, "8M");
    let shown = OnTerminal::start(&work, "run --live --run-time 4 --update-pct 20 --warm-up 0");
    shown.until_it_shows(ENTER);
    for words in ["operations/s", "asked by petal, rows", "database", " left", "q back to lines"] {
        shown.until_it_shows(words);
    }
    let after = shown.ends(0);
    let run = record(&work.run_folder());
    assert_eq!(run["status"], "complete");
    let limit = run["limited_by"]["words"].as_str().unwrap();
    let words: String = after.split_whitespace().collect();
    assert!(words.contains(&limit.replace(' ', "")), "the report's own limit: {after}");
}

#[test]
fn q_goes_back_to_lines_and_the_run_goes_on() {
    let work = Workplace::loaded(1, "8M");
    let mut shown = OnTerminal::start(&work, "run --live --run-time 5");
    shown.until_it_shows("operations/s");
    shown.press("q");
    shown.until_it_shows(LEAVE);
    let after = shown.ends(0);
    assert!(after.contains("operations/s,"), "the line of progress: {after}");
    assert_eq!(record(&work.run_folder())["status"], "complete");
}

#[test]
fn s_asks_once_and_stops_a_run_cleanly() {
    let work = Workplace::loaded(1, "8M");
    let mut shown = OnTerminal::start(&work, "run --live --run-time 600");
    shown.until_it_shows("asked by petal");
    shown.press("s");
    shown.until_it_shows("s stops it cleanly");
    shown.press("s");
    shown.ends(130);
    let run = record(&work.run_folder());
    assert_eq!(run["status"], "interrupted");
    assert!(run["ops"]["total"].as_u64().unwrap() > 0);
}

#[test]
fn a_sweep_is_watched_from_a_second_process_which_leaves_it_alone() {
    let work = Workplace::loaded(1, "8M");
    let sweep =
        work.petal(["sweep", "--sessions", "1,2", "--run-time", "4", "--out", "cells"]).start();
    until("the first cell", || work.path("cells/sweep.json").exists());
    let mut shown = OnTerminal::start(&work, "attach cells");
    shown.until_it_shows("of 2 runs done");
    shown.until_it_shows("PIOPS");
    shown.press("q");
    assert!(shown.ends(0).contains("the work goes on"));
    sweep.ends().exited(0);
    let sweep = std::fs::read_to_string(work.path("cells/sweep.json")).unwrap();
    assert!(sweep.contains("\"status\": \"complete\""), "{sweep}");
}

#[test]
fn s_on_an_attached_screen_stops_the_petal_that_works_there() {
    let work = Workplace::loaded(1, "8M");
    let run = work.petal(["run", "--run-time", "600"]).start();
    until("the journal", || {
        work.runs().first().is_some_and(|folder| folder.join("journal.ndjson").exists())
    });
    let folder = work.run_folder();
    let mut shown = OnTerminal::start(&work, &format!("attach {}", folder.display()));
    shown.until_it_shows("operations/s");
    shown.press("s");
    shown.until_it_shows("s stops it cleanly");
    shown.press("s");
    let after = shown.ends(0);
    assert!(after.contains("interrupted"), "the run's own report: {after}");
    run.ends().exited(130);
    assert_eq!(record(&folder)["status"], "interrupted");
    let over = work.petal(["attach", folder.to_str().unwrap()]).exits(3);
    over.telling(&["no petal is at work there"]);
}

#[test]
fn a_killed_petal_leaves_the_terminal_as_it_was() {
    let work = Workplace::loaded(1, "8M");
    let shown = OnTerminal::start(&work, "run --live --run-time 600");
    shown.until_it_shows("asked by petal");
    let locks = work.run_folder();
    let about = std::fs::metadata(&locks).unwrap();
    let number = format!(":{} ", std::os::unix::fs::MetadataExt::ino(&about));
    let locks = std::fs::read_to_string("/proc/locks").unwrap();
    let line = locks.lines().find(|line| line.contains("FLOCK") && line.contains(&number));
    let pid = line.unwrap().split_ascii_whitespace().nth(4).unwrap();
    assert!(Command::new("kill").args(["-KILL", pid]).status().unwrap().success());
    let text = {
        until(LEAVE, || shown.text().contains(LEAVE));
        until("its exit code", || shown.text().contains("exit "));
        shown.text()
    };
    assert!(text.contains("was killed"), "{text}");
}

#[test]
fn without_a_terminal_a_full_screen_is_refused() {
    let work = Workplace::loaded(1, "8M");
    let run = work.petal(["run", "--live", "--run-time", "1"]).under("setsid", &["--wait"]);
    run.exits(2).telling(&["--live: there is no terminal", "--metrics"]);
    assert!(work.runs().is_empty());
}
