//! petal's two processes: one that works, and one that the shell waits for, which ends as the first does.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::support::{Running, Workplace, names, until};

fn at_work(work: &Workplace) -> Running {
    let mut run = work.petal(["run", "--run-time", "100"]).start();
    run.until("a second of a run", || !work.seconds().is_empty());
    run
}

fn signal(process: u32, signal: Signal) {
    kill_process(Pid::from_raw(process as i32).unwrap(), signal).unwrap();
}

fn is_there(process: u32) -> bool {
    Path::new(&format!("/proc/{process}")).exists()
}

#[test]
fn the_shell_hears_how_the_working_process_ended_and_neither_outlives_the_other() {
    let work = Workplace::loaded(1, "8M");
    let run = at_work(&work);
    assert_ne!(run.id(), run.supervisor());
    signal(run.id(), Signal::KILL);
    let ended = run.ends();
    assert_eq!(ended.code, None, "{}", ended.stderr);
    ended.telling(&["its process was killed (SIGKILL)"]);

    let work = Workplace::loaded(1, "8M");
    let run = at_work(&work);
    let worker = run.id();
    signal(run.supervisor(), Signal::KILL);
    until("the end of its process", || !is_there(worker));
    run.ends();

    // A signal to both, as a terminal sends it, is one.
    let work = Workplace::loaded(1, "8M");
    let run = at_work(&work);
    signal(run.id(), Signal::INT);
    signal(run.supervisor(), Signal::INT);
    run.ends().exited(130);
    let record = crate::support::record(&work.run_folder());
    assert_eq!(record["status"], "interrupted");
}

#[test]
fn one_process_does_everything_if_asked_to() {
    let work = Workplace::loaded(1, "8M");
    let mut run = work.petal(["run", "--run-time", "100"]).env("PETAL_SUPERVISOR", "off").start();
    run.until("a second of a run", || !work.seconds().is_empty());
    assert_eq!(run.id(), run.supervisor());
    let name = fs::read_to_string(format!("/proc/{}/comm", run.id())).unwrap();
    assert_eq!(name, "petal\n");
    run.signal(Signal::INT);
    run.ends().exited(130);
}

/// Processes that work in a folder.
fn at_work_in(folder: &Path) -> usize {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    processes
        .filter(|one| fs::read_link(one.path().join("cwd")).is_ok_and(|at| at == folder))
        .count()
}

#[test]
fn a_worker_whose_supervisor_is_gone_does_not_do_the_command() {
    let work = Workplace::new();
    // No process has such a number.
    let worker = work.petal(["setup", "--scale", "8M"]).env("PETAL_HANDOVER", "2147483647 3 4");
    assert_eq!(worker.ends().code, None);
    assert!(names(&work.path(".")).is_empty());

    // Killed at any moment of its start.
    for moment in 0..20 {
        let work = Workplace::new();
        let setup = work.petal(["setup", "-s", "1", "--scale", "256M"]).start();
        thread::sleep(Duration::from_micros(300 * moment));
        signal(setup.supervisor(), Signal::KILL);
        setup.ends();
        until("the end of its processes", || at_work_in(&work.path(".")) == 0);
        let loaded = work.petal(["run", "-t", "1", "--work-loop", "1"]).exits(3);
        loaded.telling(&["setup"]);
    }
}
