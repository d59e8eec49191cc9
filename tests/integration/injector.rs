//! Every system call of a short run, made to fail: `strace` answers a call with an error in the
//! kernel's place, once or from then on. Whatever fails, petal ends in time, with an exit code and a
//! word, or with a result that is whole; never in silence.
//!
//! A short form runs with all tests; `PETAL_TEST_LONG=1` takes every call and error, and
//! `PETAL_TEST_LONG=openat,mmap` those of some calls.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::fs;
use std::sync::Mutex;

use serde_json::Value;

use crate::support::{Ended, Petal, Workplace, count, findings, record, run, skip};

/// A case takes seconds; one that takes longer hangs.
const LIMIT_S: &str = "120";
const WORKERS: usize = 3;
/// Operations of the run, all sessions together, and the rows of each.
const OPERATIONS: u64 = 60;
const WORK_UNIT: u64 = 64;

/// Errors that a call may end with. What is not here is taken from [`OTHER`].
const ERRORS: &[(&str, &[&str])] = &[
    ("pread64", &["EIO", "EINTR", "EAGAIN"]),
    ("pwrite64", &["EIO", "ENOSPC", "EFBIG"]),
    ("read", &["EIO"]),
    ("write", &["ENOSPC", "EIO"]),
    ("writev", &["ENOSPC"]),
    ("fsync", &["EIO"]),
    ("fdatasync", &["EIO"]),
    ("openat", &["EMFILE", "EACCES", "EIO"]),
    ("fcntl", &["ENOLCK"]),
    ("mmap", &["ENOMEM"]),
    ("clone3", &["EAGAIN"]),
    ("getrandom", &["EPERM"]),
    ("mprotect", &["ENOMEM"]),
    ("rename", &["EIO"]),
    ("mkdir", &["ENOSPC"]),
    ("unlink", &["EROFS"]),
    ("ftruncate", &["EFBIG"]),
    ("fallocate", &["EOPNOTSUPP", "ENOSPC"]),
    ("getdents64", &["EIO"]),
    ("newfstatat", &["EIO"]),
    ("statx", &["EIO", "ENOSYS"]),
    ("io_uring_setup", &["EPERM", "ENOMEM"]),
    ("io_uring_register", &["ENOMEM"]),
    ("io_uring_enter", &["EAGAIN", "EBUSY", "EIO"]),
];
const OTHER: &[&str] = &["EPERM", "ENOMEM"];

/// Calls that are left alone. The first ones cannot fail, or their failure is no failure of a
/// system: threads could not wait for each other any more. The next make and end a process.
const LEFT_ALONE: &[&str] = &[
    "futex",
    "restart_syscall",
    "rt_sigreturn",
    "rt_sigprocmask",
    "sched_yield",
    "gettid",
    "getpid",
    "arch_prctl",
    "set_tid_address",
    "set_robust_list",
    "rseq",
    "execve",
    "exit",
    "exit_group",
];

/// Calls with errors that no kernel answers them with in petal, so that somebody below petal takes
/// them for impossible; and why.
const NOT_GIVEN: &[(&[&str], &str)] = &[
    (&["geteuid", "prlimit64"], "who one is and one's own limits can always be read"),
    (&["brk"], "the kernel refuses by telling the old end, never by an error number"),
    (&["rt_sigaction"], "EINVAL and EFAULT alone: Rust's runtime aborts before petal begins"),
    (&["poll"], "Rust's runtime looks at the standard files by it, and aborts before petal begins"),
    (&["recvfrom"], "a socket pair within the process, by which signals are handed on"),
    (
        &["close"],
        "a folder's is never refused, and Rust's runtime panics if it is; a file's is not seen",
    ),
];

/// Without memory a process cannot even tell: the runtime ends it by SIGABRT, with a word.
const MEMORY: &[&str] = &["mmap", "mprotect", "brk", "mremap", "munmap", "sigaltstack", "madvise"];

/// These errors, of these calls in the middle of the work, are never made good.
const TOLD: &[(&str, &[&str])] =
    &[("pread64", &["EIO"]), ("pwrite64", &["EIO", "ENOSPC", "EFBIG"])];

/// What is cut into; each ends within seconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Command {
    Setup,
    Run,
    DeviceRun,
    Report,
}

impl Command {
    fn call(self, work: &Workplace) -> Petal {
        let run = |url: &str| {
            let args = ["run", "-t", "2", "--work-loop", "30", "--update-pct", "50", "--json"];
            work.petal([&args[..], &["--db", url]].concat())
        };
        match self {
            Self::Setup => work.petal(["setup", "--scale", "8M", "--replace"]),
            Self::Run => run("sqlite:petal-data"),
            Self::DeviceRun => run("device:petal.dat"),
            Self::Report => work.petal(["report", "old"]),
        }
    }

    /// What an end with exit code 0 must come with.
    fn is_whole(self, work: &Workplace, ended: &Ended) -> Result<(), String> {
        match self {
            Self::Setup => work.petal(["run", "--work-loop", "2"]).ends().is(0),
            Self::Run | Self::DeviceRun => run_is_whole(work, ended),
            Self::Report if ended.stdout.contains("status complete") => Ok(()),
            Self::Report => Err("the report is not whole".to_owned()),
        }
    }
}

impl Ended {
    fn is(&self, code: i32) -> Result<(), String> {
        if self.code == Some(code) { Ok(()) } else { Err(format!("afterwards: {self:?}")) }
    }
}

fn run_is_whole(work: &Workplace, ended: &Ended) -> Result<(), String> {
    let run: Value = serde_json::from_str(&ended.stdout).map_err(|why| why.to_string())?;
    let (operations, rows) = (count(&run, "/ops/total"), count(&run, "/rows/select"));
    let rows = rows + count(&run, "/rows/update");
    if (operations, rows) != (OPERATIONS, OPERATIONS * WORK_UNIT) {
        return Err(format!("{operations} operations, {rows} rows"));
    }
    if findings(&run).iter().any(|id| ["gaps", "io-errors"].contains(id)) {
        return Ok(());
    }
    let folder = work.run_folder();
    for name in ["run.json", "report.txt", "report.html", "seconds.ndjson.gz"] {
        if fs::metadata(folder.join(name)).map_or(0, |file| file.len()) == 0 {
            return Err(format!("{name} is not there"));
        }
    }
    if record(&folder)["ops"] == run["ops"] { Ok(()) } else { Err("run.json differs".to_owned()) }
}

/// Runs petal with a call that fails at its n-th time in each thread.
fn injected(petal: Petal, call: &str, error: &str, when: &str) -> Ended {
    let trace = format!("trace={call}");
    let what = format!("inject={call}:error={error}:when={when}");
    let strace = [LIMIT_S, "strace", "-f", "-qq", "--seccomp-bpf", "-o", "/dev/null", "-e"];
    petal.under("timeout", &[&strace[..], &[&trace, "-e", &what, "--"]].concat()).ends()
}

/// Whether calls can be traced here; tells the skip where not.
fn can_trace() -> bool {
    let tried = run("strace", &["-qq", "-o", "/dev/null", "true"]);
    if let Err(why) = &tried {
        skip(&format!("system calls cannot be traced here: {why}"));
    }
    tried.is_ok()
}

/// One call, one error, once at its n-th time in each thread, or always from then on.
#[derive(Clone, Debug)]
struct Case {
    command: Command,
    call: String,
    error: &'static str,
    at: u64,
    always: bool,
    /// Not at the beginning, when a process is made ready to work.
    in_the_middle: bool,
}

impl fmt::Display for Case {
    fn fmt(&self, text: &mut fmt::Formatter<'_>) -> fmt::Result {
        let from = if self.always { "+" } else { "" };
        let Self { command, call, error, at, .. } = self;
        write!(text, "{command:?} {call}={error} when={at}{from}")
    }
}

impl Case {
    fn run(&self, loaded: &Workplace) -> Result<(), String> {
        let work = Workplace::copy_of(loaded);
        let from = if self.always { "+" } else { "" };
        let when = format!("{}{from}", self.at);
        let ended = injected(self.command.call(&work), &self.call, self.error, &when);
        self.judge(&work, &ended).map_err(|why| format!("{self}: {why}\n{ended:?}"))
    }

    fn judge(&self, work: &Workplace, ended: &Ended) -> Result<(), String> {
        let reported = format!("{}{}", ended.stderr, ended.stdout);
        let is_memory = MEMORY.contains(&self.call.as_str());
        for text in ["panicked", "Os {", "kind: "] {
            if reported.contains(text) && !(is_memory && reported.contains("fatal runtime error")) {
                return Err(format!("it says {text:?}"));
            }
        }
        match ended.code {
            Some(124) => Err(format!("it had not ended after {LIMIT_S} s")),
            Some(0) if self.must_be_reported() && !reported.contains("io-errors") => {
                Err("nothing is said".to_owned())
            }
            Some(0) => self.command.is_whole(work, ended),
            // The loader of programs has no memory to begin with.
            None if is_memory && self.at == 1 => Ok(()),
            // Where no write works, the exit code alone must do.
            _ if ended.stderr.trim().is_empty() && self.call != "write" => {
                Err("it ended without a word".to_owned())
            }
            Some(1..=3 | 130) => Ok(()),
            // The loader of programs, before petal begins; and how `timeout` hands a signal on.
            Some(127) if !self.in_the_middle => Ok(()),
            Some(134) | None if is_memory => Ok(()),
            other => Err(format!("exit code {other:?}")),
        }
    }

    fn must_be_reported(&self) -> bool {
        let is_final =
            TOLD.iter().any(|(call, errors)| self.call == *call && errors.contains(&self.error));
        is_final && self.in_the_middle && self.command == Command::Run
    }
}

/// How often the busiest thread makes each call.
fn calls(command: Command, loaded: &Workplace) -> BTreeMap<String, u64> {
    let work = Workplace::copy_of(loaded);
    let log = work.path("strace.log");
    let args = ["-f", "-qq", "-o", log.to_str().unwrap(), "--"];
    command.call(&work).under("strace", &args).exits(0);
    let mut by_thread: BTreeMap<(String, String), u64> = BTreeMap::new();
    for line in fs::read_to_string(&log).unwrap().lines() {
        let Some((thread, rest)) = line.split_once(char::is_whitespace) else { continue };
        let Some((call, _)) = rest.trim_start().split_once('(') else { continue };
        if call.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_') {
            *by_thread.entry((call.to_owned(), thread.to_owned())).or_default() += 1;
        }
    }
    let mut most = BTreeMap::new();
    for ((call, _), made) in by_thread {
        let known: &mut u64 = most.entry(call).or_default();
        *known = made.max(*known);
    }
    let not_given = NOT_GIVEN.iter().flat_map(|(calls, _)| *calls);
    let left_alone: Vec<&str> = LEFT_ALONE.iter().chain(not_given).copied().collect();
    most.retain(|call, _| !left_alone.contains(&call.as_str()));
    most
}

/// Each call's errors: once at its first, middle and last time, and always from the middle on.
fn cases(command: Command, loaded: &Workplace) -> Vec<Case> {
    let mut cases = Vec::new();
    for (call, made) in calls(command, loaded) {
        let known = ERRORS.iter().find(|(name, _)| *name == call);
        for &error in known.map_or(OTHER, |(_, errors)| errors) {
            let middle = made / 2 + 1;
            // A call that is interrupted for ever is made for ever: no system does that.
            let and_always = (error != "EINTR").then_some((middle, true));
            let mut places = vec![(1, false), (middle, false), (made, false)];
            places.extend(and_always);
            places.dedup();
            cases.extend(places.into_iter().map(|(at, always)| Case {
                command,
                call: call.clone(),
                error,
                at,
                always,
                in_the_middle: at == middle && made > 100,
            }));
        }
    }
    cases
}

/// Those that cut into data, in the middle of the work.
fn is_in_the_short_form(case: &Case) -> bool {
    const SHORT: &[(&str, &str)] = &[
        ("pread64", "EIO"),
        ("pread64", "EINTR"),
        ("pwrite64", "EIO"),
        ("pwrite64", "ENOSPC"),
        ("fsync", "EIO"),
        ("fdatasync", "EIO"),
        ("openat", "EMFILE"),
        ("write", "ENOSPC"),
        ("rename", "EIO"),
        ("clone3", "EAGAIN"),
        ("fcntl", "ENOLCK"),
        ("io_uring_enter", "EAGAIN"),
        ("io_uring_enter", "EIO"),
    ];
    let is_known = SHORT.contains(&(case.call.as_str(), case.error));
    is_known && (case.always || case.in_the_middle) && case.command != Command::Report
}

#[test]
fn whatever_call_fails_petal_ends_with_a_word() {
    if !can_trace() {
        return;
    }
    let loaded = Workplace::loaded(1, "8M");
    loaded.petal(["setup", "--scale", "8M", "--db", "device:petal.dat"]).exits(0);
    loaded.petal(["run", "--work-loop", "5"]).exits(0);
    fs::rename(loaded.run_folder(), loaded.path("old")).unwrap();
    fs::remove_dir(loaded.path("petal-results")).unwrap();
    let long = std::env::var("PETAL_TEST_LONG").unwrap_or_default();
    let is_wanted = |case: &Case| match long.as_str() {
        "" => is_in_the_short_form(case),
        "1" => true,
        calls => calls.split(',').any(|call| call == case.call),
    };
    let commands = [Command::Run, Command::DeviceRun, Command::Setup, Command::Report];
    let cases: VecDeque<Case> = commands
        .into_iter()
        .flat_map(|command| cases(command, &loaded))
        .filter(is_wanted)
        .collect();
    let made = cases.len();
    assert!(made > 20 || !long.is_empty(), "{made} cases");
    let (cases, failed) = (Mutex::new(cases), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..WORKERS {
            scope.spawn(|| {
                loop {
                    let Some(case) = cases.lock().unwrap().pop_front() else { break };
                    if let Err(why) = case.run(&loaded) {
                        failed.lock().unwrap().push(why);
                    }
                }
            });
        }
    });
    let failed = failed.into_inner().unwrap();
    assert!(failed.is_empty(), "{} of {made} cases:\n{}", failed.len(), failed.join("\n\n"));
}

/// SQLite ignores an unlock that fails, once or from then on; another session then waits for that lock
/// for ever.
#[test]
fn a_lock_that_could_not_be_given_back_shuts_no_session_out() {
    if !can_trace() {
        return;
    }
    let loaded = Workplace::loaded(1, "8M");
    for when in (48..60).flat_map(|at| [at.to_string(), format!("{at}+")]) {
        let work = Workplace::copy_of(&loaded);
        let run = ["run", "-t", "4", "--work-loop", "30", "--update-pct", "100", "--json"];
        let ended = injected(work.petal(run), "fcntl", "ENOLCK", &when);
        assert!(matches!(ended.code, Some(0 | 1)), "when={when}: {ended:?}");
        assert!(ended.stdout.contains("io-errors"), "when={when}: {ended:?}");
    }
}
