//! A password goes nowhere: not to the screen, the process list, a child or a file.

use std::fs;

use crate::server_postgres::{is_there, shared};
use crate::support::{Workplace, contents, say};

const PASSWORD: &str = "Geheim-4711";

#[track_caller]
fn assert_not_in(text: &[u8], place: &str) {
    let text = String::from_utf8_lossy(text);
    assert!(!text.contains(PASSWORD), "the password is in {place}:\n{text}");
}

#[test]
fn a_password_in_slob_conf_goes_nowhere() {
    let work = Workplace::loaded(1, "8M");
    let hook = work.script("hook.sh", "echo \"at $1\"; env");
    work.write(
        "slob.conf",
        format!(
            "DBA_PRIV_USER=system\nSYSDBA_PASSWD='{PASSWORD}'\nEXTERNAL_SCRIPT={}\n",
            hook.display()
        ),
    );
    for ended in [
        work.petal(["run", "--work-loop", "5", "--json"]).exits(0),
        work.petal(["run", "--work-loop", "5"]).exits(0),
        work.petal(["run", "--work-loop", "5"]).env("SYSDBA_PASSWD", PASSWORD).exits(0),
        work.petal(["run", "--update-pct", "x"]).exits(2),
        work.petal(["setup", "-s", "1", "--scale", "9M"]).exits(2),
        work.petal(["report", work.runs()[0].to_str().unwrap()]).exits(0),
        work.petal(["drop"]).exits(0),
    ] {
        assert_not_in(ended.stdout.as_bytes(), "stdout");
        assert_not_in(ended.stderr.as_bytes(), "stderr");
    }
    let files = contents(&work.path("petal-results"));
    assert!(files.keys().any(|path| path.ends_with("hook-pre.log")), "{:?}", files.keys());
    for (path, text) in &files {
        assert_not_in(text, &path.display().to_string());
    }
}

#[test]
fn a_password_in_a_url_is_not_shown_by_what_refuses_it() {
    let work = Workplace::new();
    // Nobody listens there.
    let mysql = format!("mysql://anna:{PASSWORD}@127.0.0.1:1/petal");
    let url = format!("postgres://anna:{PASSWORD}@127.0.0.1:1/petal");
    for command in ["setup", "run", "drop"] {
        for url in [&mysql, &url] {
            let ended = work.petal([command, "--db", url]).exits(3).telling(&["127.0.0.1"]);
            assert_not_in(ended.stderr.as_bytes(), "stderr");
            let ended = work.petal([command]).env("DB", url).exits(3).telling(&["127.0.0.1"]);
            assert_not_in(ended.stderr.as_bytes(), "stderr");
        }
    }
    for args in [
        vec!["run".to_owned(), format!("--db=postgre://anna:{PASSWORD}@h/p")],
        vec!["run".to_owned(), format!("--sysdba-passwd={PASSWORD}")],
        vec!["run".to_owned(), "--sysdba-passwd".to_owned(), PASSWORD.to_owned()],
        vec!["run".to_owned(), url.clone()],
        vec!["run".to_owned(), "--no-such-flag".to_owned(), "--db".to_owned(), url],
    ] {
        let ended = work.petal(&args).exits(2);
        assert_not_in(ended.stderr.as_bytes(), &format!("stderr of {args:?}"));
        assert_not_in(ended.stdout.as_bytes(), "stdout");
    }
}

#[test]
fn a_password_on_the_command_line_is_not_in_the_list_of_processes() {
    if !is_there() {
        return;
    }
    let work = Workplace::new();
    let url = shared().url("secret").replacen("petal@", &format!("petal:{PASSWORD}@"), 1);
    work.petal(["setup", "-s", "1", "--scale", "8M", "--db", &url]).exits(0);
    let mut run = work.petal(["run", "--db", &url, "--run-time", "100"]).start();
    run.until("a second of a run", || !work.seconds().is_empty());
    for id in [run.supervisor(), run.id()] {
        let arguments = fs::read(format!("/proc/{id}/cmdline")).unwrap();
        assert_not_in(&arguments, "/proc/PID/cmdline");
        assert!(String::from_utf8_lossy(&arguments).contains("--run-time"));
        assert_not_in(&fs::read(format!("/proc/{id}/environ")).unwrap(), "/proc/PID/environ");
    }
    assert_ne!(run.supervisor(), run.id());
    let listed = say("ps", &["axeww", "-o", "args"]).unwrap();
    assert!(listed.contains("--run-time 100"));
    assert_not_in(listed.as_bytes(), "ps");
    run.signal(rustix::process::Signal::INT);
    let ended = run.ends().exited(130).telling(&["until petal hid it"]);
    assert_not_in(ended.stderr.as_bytes(), "stderr");
    assert_not_in(ended.stdout.as_bytes(), "stdout");
    for (path, text) in contents(&work.run_folder()) {
        assert_not_in(&text, &path.display().to_string());
    }
}
