//! petal is killed at each write of a run's end, by `strace`: before a write is after the one that
//! came before it. What `petal report` then makes of the folder is what its seconds have.
//!
//! A few of the places are tried with all tests; `PETAL_TEST_LONG=1` tries every one.

use std::fs;
use std::sync::Mutex;

use crate::support::{Workplace, count, is_long, record, run, skip};

/// What changes a file, or makes it durable.
const CALLS: &[&str] = &["write", "fsync", "fdatasync", "renameat2", "unlink", "mkdir"];
/// Sessions that only read: strace counts the calls of each thread, and must meet the main one.
const RUN: [&str; 7] = ["run", "-t", "2", "--run-time", "2", "--update-pct", "0"];
const WORKERS: usize = 3;
const SHORT: usize = 4;

/// A call of petal's main thread: the n-th with this name.
#[derive(Clone, Debug)]
struct Place {
    call: String,
    at: u64,
}

#[test]
fn a_run_killed_at_any_write_of_its_end_keeps_every_written_second() {
    if let Err(why) = run("strace", &["-qq", "-o", "/dev/null", "true"]) {
        return skip(&format!("system calls cannot be traced here: {why}"));
    }
    let loaded = Workplace::loaded(1, "8M");
    let all = places(&loaded);
    assert!(all.len() >= 3 * SHORT && all.iter().any(|place| place.call == "renameat2"), "{all:?}");
    let chosen: Vec<Place> = match is_long() {
        true => all,
        false => (0..SHORT).map(|at| all[at * (all.len() - 1) / (SHORT - 1)].clone()).collect(),
    };
    let left = Mutex::new(chosen);
    std::thread::scope(|scope| {
        for _ in 0..WORKERS {
            scope.spawn(|| {
                loop {
                    let Some(place) = left.lock().unwrap().pop() else { break };
                    place.is_survived(&loaded);
                }
            });
        }
    });
}

/// Each call of the main thread from the run's end on. While sessions run, that thread makes none for
/// two seconds; before it, it may have waited longer for a quiet disk.
fn places(loaded: &Workplace) -> Vec<Place> {
    let work = Workplace::copy_of(loaded);
    let log = work.path("strace.log");
    let trace = format!("trace={}", CALLS.join(","));
    let args = ["-f", "-qq", "-ttt", "-e", &trace, "-o", log.to_str().unwrap(), "--"];
    work.petal(RUN).under("strace", &args).exits(0);
    let text = fs::read_to_string(&log).unwrap();
    // Other threads write to the terminal and read the system's counts.
    let renames = |line: &&str| line.contains("renameat2(") && line.contains("run.json");
    let main = text.lines().find(renames).and_then(|line| line.split(' ').next()).unwrap();
    let (mut made, mut places) = (std::collections::BTreeMap::<&str, u64>::new(), Vec::new());
    for line in text.lines() {
        let mut words = line.split_whitespace();
        if words.next() != Some(main) {
            continue;
        }
        let time: f64 = words.next().unwrap().parse().unwrap();
        let call = words.next().and_then(|word| word.split_once('(')).map(|(call, _)| call);
        let Some(call) = call.and_then(|call| CALLS.iter().find(|known| **known == call)) else {
            continue;
        };
        let at = made.entry(call).and_modify(|at| *at += 1).or_insert(1);
        places.push((time, Place { call: (*call).to_owned(), at: *at }));
    }
    let gap = |at: &usize| places[*at].0 - places[*at - 1].0;
    let end = (1..places.len()).rfind(|at| gap(at) > 1.5).expect(&text);
    places.split_off(end).into_iter().map(|(_, place)| place).collect()
}

impl Place {
    /// A run that was killed there, if it came so far: one may make a call less than another, such as a
    /// word on a disk that is not quiet.
    fn killed(&self, loaded: &Workplace, fewer: u64) -> Option<Workplace> {
        let work = Workplace::copy_of(loaded);
        let trace = format!("trace={}", self.call);
        let kill = format!("inject={}:signal=KILL:when={}", self.call, self.at - fewer);
        let args = ["-f", "-qq", "-o", "/dev/null", "-e", &trace, "-e", &kill, "--"];
        let ended = work.petal(RUN).under("strace", &args).ends();
        assert!([None, Some(0)].contains(&ended.code), "{self:?}: {ended:?}");
        ended.code.is_none().then_some(work)
    }

    fn is_survived(&self, loaded: &Workplace) {
        let work = (0..self.at.min(3)).find_map(|fewer| self.killed(loaded, fewer));
        let work = work.unwrap_or_else(|| panic!("{self:?}: it was not killed"));
        let folder = work.run_folder();
        let written = work.seconds();
        assert!(!written.is_empty(), "{self:?}: no second is kept");
        let report = work.petal(["report", folder.to_str().unwrap(), "--json"]).exits(0).json();
        for kind in ["select", "update", "total"] {
            let pointer = format!("/ops/{kind}");
            let seconds = written.iter().map(|line| count(line, &format!("/second{pointer}")));
            assert_eq!(count(&report, &pointer), seconds.sum::<u64>(), "{self:?}: {kind}");
        }
        // It is there whole, or not at all.
        let is_written = folder.join("run.json").exists();
        let status = if is_written { "complete" } else { "interrupted" };
        assert_eq!(report["status"], status, "{self:?}");
        if is_written {
            assert_eq!(record(&folder)["ops"], report["ops"], "{self:?}");
        }
    }
}
