//! What EXTERNAL_SCRIPT starts ends with petal, however petal ends.

use std::fs;
use std::path::Path;

use rustix::process::Signal;

use crate::support::{Running, Workplace, until};

/// Writes the number of a process that nobody else ends, then goes on as told.
fn hook(work: &Workplace, then: &str) -> String {
    let body =
        format!("[ $1 = pre ] || exit 0\nsleep 600 & echo $! > pid.new\nmv pid.new pid\n{then}");
    work.script("hook.sh", &body).to_str().unwrap().to_owned()
}

fn is_gone(pid: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.trim()));
    stat.map_or(true, |stat| stat.contains(") Z "))
}

/// petal in its `pre` hook, and the number of what the hook started.
fn in_its_hook(work: &Workplace) -> (Running, String) {
    let script = hook(work, "wait");
    let args = ["run", "--work-loop", "5", "--external-script", script.as_str()];
    let mut run = work.petal(args).start();
    let pid = work.path("pid");
    run.until("a hook at work", || pid.exists());
    (run, read(&pid))
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap()
}

#[test]
fn processes_left_by_a_hook_end_with_the_run() {
    let work = Workplace::loaded(1, "8M");
    let script = hook(&work, "exit 0");
    work.petal(["run", "--work-loop", "5", "--external-script", script.as_str()]).exits(0);
    assert!(is_gone(&read(&work.path("pid"))));
}

#[test]
fn a_signal_ends_a_hook_with_all_that_it_started() {
    let work = Workplace::loaded(1, "8M");
    let (run, pid) = in_its_hook(&work);
    run.signal(Signal::TERM);
    run.ends().exited(130);
    assert!(is_gone(&pid));
}

#[test]
fn a_killed_petal_takes_its_hook_along() {
    let work = Workplace::loaded(1, "8M");
    let (run, pid) = in_its_hook(&work);
    assert!(!is_gone(&pid));
    run.kill();
    until("end of what the hook started", || is_gone(&pid));
}

/// petal often runs as root, and finds slob.conf in the folder in which it was started.
#[test]
fn a_file_that_another_user_can_change_runs_no_script() {
    use std::os::unix::fs::{PermissionsExt as _, chown};
    let work = Workplace::loaded(1, "8M");
    let script = work.script("hook.sh", "echo $1 >> $(dirname $0)/ran");
    let conf = work.write("slob.conf", format!("EXTERNAL_SCRIPT={}\n", script.display()));
    let mode = |path: &Path, mode| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    };
    let run = ["run", "--work-loop", "5"];
    mode(&conf, 0o666);
    work.petal(run).exits(2).telling(&["slob.conf", "others than its owner may write it"]);
    mode(&conf, 0o644);
    mode(&script, 0o777);
    let words = ["EXTERNAL_SCRIPT=", "slob.conf:1", "hook.sh: others than its owner"];
    work.petal(run).exits(2).telling(&words);
    mode(&script, 0o755);
    if chown(&conf, Some(4711), None).is_ok() {
        work.petal(run).exits(2).telling(&["slob.conf", "it belongs to user 4711"]);
        chown(&conf, Some(0), None).unwrap();
        chown(&script, Some(4711), None).unwrap();
        work.petal(run).exits(2).telling(&["hook.sh: it belongs to user 4711"]);
        chown(&script, Some(0), None).unwrap();
    }
    assert!(!work.path("ran").exists());
    let named = script.display().to_string();
    work.petal(run).exits(0).telling(&[&named, "will run at pre, post and end"]);
    assert_eq!(read(&work.path("ran")), "pre\npost\nend\n");
}
