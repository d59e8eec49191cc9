//! The small language of these tests: a workplace, petal in it, and mounts. No test of its own.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use flate2::Compression;
use flate2::write::GzEncoder;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

/// Nothing here takes longer unless it hangs, on a slow and busy machine either.
pub const LIMIT: Duration = Duration::from_secs(600);
const POLL: Duration = Duration::from_millis(10);

/// The program under test, which cargo builds beside it.
pub const PETAL: &str = env!("CARGO_BIN_EXE_petal");

/// Held by tests whose figures others on the machine would spoil.
pub static ALONE: Mutex<()> = Mutex::new(());

/// A port where nobody listens, for a server that starts later. It is below the ports of outgoing
/// connections, one of which might take it before that server does.
pub fn free_port() -> u16 {
    const FIRST: u32 = 10_000;
    const COUNT: u32 = 22_000;
    static TRIED: AtomicU32 = AtomicU32::new(0);
    loop {
        // Processes that test at the same time begin at different ports.
        let begin = std::process::id().wrapping_mul(577);
        let at = begin.wrapping_add(TRIED.fetch_add(1, Ordering::Relaxed)) % COUNT;
        let port = u16::try_from(FIRST + at).unwrap();
        if TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).is_ok() {
            return port;
        }
    }
}

/// Waits until `done`, which must come.
#[track_caller]
pub fn until(what: &str, mut done: impl FnMut() -> bool) {
    let began = Instant::now();
    while !done() {
        assert!(began.elapsed() < LIMIT, "no {what} within {LIMIT:?}");
        thread::sleep(POLL);
    }
}

/// A folder of a test's own, on a real file system: below the build folder.
pub struct Workplace {
    folder: TempDir,
    logs: TempDir,
    calls: AtomicU32,
}

impl Workplace {
    pub fn new() -> Self {
        let base = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let folder = |prefix| tempfile::Builder::new().prefix(prefix).tempdir_in(base).unwrap();
        Self { folder: folder("work-"), logs: folder("logs-"), calls: AtomicU32::new(0) }
    }

    /// With `schemas` schemas of `scale` loaded.
    pub fn loaded(schemas: u32, scale: &str) -> Self {
        let work = Self::new();
        work.petal(["setup", "-s", &schemas.to_string(), "--scale", scale]).exits(0);
        work
    }

    /// With the same files.
    pub fn copy_of(other: &Self) -> Self {
        let work = Self::new();
        for (path, bytes) in contents(other.folder.path()) {
            work.write(path.strip_prefix(other.folder.path()).unwrap().to_str().unwrap(), bytes);
        }
        work
    }

    pub fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn write(&self, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }

    /// An executable script.
    pub fn script(&self, name: &str, body: &str) -> PathBuf {
        use std::os::unix::fs::PermissionsExt as _;
        let path = self.write(name, format!("#!/bin/sh\n{body}\n"));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    /// `petal ARGS` in this workplace, with nothing of the caller's environment, and not yet
    /// started. It does not watch the host, whose other tests it would wait for.
    pub fn petal<I: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = I>) -> Petal {
        let mut command = Command::new(PETAL);
        command.args(args).current_dir(self.folder.path()).env_clear();
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.env("NO_OS_PERF_DATA", "TRUE");
        let call = self.calls.fetch_add(1, Ordering::Relaxed);
        let log = |what: &str| self.logs.path().join(format!("{call}.{what}"));
        Petal { command, stdout: log("out"), stderr: log("err"), into: None }
    }

    /// The folders of the runs so far, oldest first.
    pub fn runs(&self) -> Vec<PathBuf> {
        let Ok(entries) = fs::read_dir(self.path("petal-results")) else { return Vec::new() };
        let mut runs: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
        runs.sort_by_key(|run| fs::metadata(run).unwrap().created().unwrap());
        runs
    }

    /// The only run's folder.
    pub fn run_folder(&self) -> PathBuf {
        let runs = self.runs();
        assert_eq!(runs.len(), 1, "{runs:?}");
        runs[0].clone()
    }

    /// Seconds that the only run has written so far.
    pub fn seconds(&self) -> Vec<Value> {
        self.runs().pop().map(|run| seconds_in(&run)).unwrap_or_default()
    }
}

/// A call of petal.
pub struct Petal {
    command: Command,
    stdout: PathBuf,
    stderr: PathBuf,
    /// Where its results go instead; they are not read.
    into: Option<Stdio>,
}

impl Petal {
    /// Forbids it io_uring, as containers do.
    pub fn without_uring(self) -> Self {
        self.without(libc::SYS_io_uring_setup)
    }

    /// Forbids it a system call: it fails with EPERM.
    pub fn without(mut self, call: libc::c_long) -> Self {
        use std::os::unix::process::CommandExt as _;
        // SAFETY: between fork and exec only two system calls are made, on memory of its own.
        #[allow(unsafe_code)]
        unsafe {
            self.command.pre_exec(move || crate::sandbox::forbid(call));
        }
        self
    }

    /// Calls it by another program, which gets petal's path and arguments behind its own.
    pub fn under(self, program: &str, args: &[&str]) -> Self {
        let mut command = Command::new(program);
        command.args(args).arg(self.command.get_program()).args(self.command.get_args());
        command.current_dir(self.command.get_current_dir().unwrap()).env_clear();
        command.envs(self.command.get_envs().filter_map(|(key, value)| Some((key, value?))));
        // A tracer counts the calls of the process that does the work.
        if program == "strace" || args.contains(&"strace") {
            command.env("PETAL_SUPERVISOR", "off");
        }
        Self { command, ..self }
    }

    /// After these lines of shell, such as `ulimit -n 64`.
    pub fn after(self, shell: &str) -> Self {
        self.under("/bin/sh", &["-c", &format!("{shell}\nexec \"$@\""), "sh"])
    }

    pub fn env(mut self, key: &str, value: impl AsRef<OsStr>) -> Self {
        self.command.env(key, value);
        self
    }

    /// Lets it watch the processors and the device.
    pub fn watching(mut self) -> Self {
        self.command.env_remove("NO_OS_PERF_DATA");
        self
    }

    /// Its results go there, and cannot be seen.
    pub fn into(mut self, stdout: impl Into<Stdio>) -> Self {
        self.into = Some(stdout.into());
        self
    }

    pub fn start(mut self) -> Running {
        let stdout = self.into.unwrap_or_else(|| File::create(&self.stdout).unwrap().into());
        let child = self
            .command
            .stdin(Stdio::null())
            .stdout(stdout)
            .stderr(File::create(&self.stderr).unwrap())
            .spawn()
            .unwrap();
        Running { child, stdout: self.stdout, stderr: self.stderr }
    }

    /// Runs it to its end.
    pub fn ends(self) -> Ended {
        self.start().ends()
    }

    /// Runs it to its end, which must be this exit code.
    #[track_caller]
    pub fn exits(self, code: i32) -> Ended {
        self.ends().exited(code)
    }
}

/// petal at work. It does not outlive the test.
pub struct Running {
    child: Child,
    stdout: PathBuf,
    stderr: PathBuf,
}

impl Running {
    /// The process that does the work.
    pub fn id(&self) -> u32 {
        let child_of = |id: u32| {
            let children = fs::read_to_string(format!("/proc/{id}/task/{id}/children")).ok()?;
            let mut children = children.split_whitespace().map(|id| id.parse::<u32>().unwrap());
            children.find(|id| text(Path::new(&format!("/proc/{id}/comm"))) == "petal\n")
        };
        std::iter::successors(Some(self.child.id()), |id| child_of(*id)).last().unwrap()
    }

    /// The process that was started, which waits for the one that does the work.
    pub fn supervisor(&self) -> u32 {
        self.child.id()
    }

    /// Who stops petal stops all of its processes.
    pub fn signal(&self, signal: Signal) {
        if [Signal::STOP, Signal::CONT].contains(&signal) {
            kill_process(Pid::from_raw(self.id() as i32).unwrap(), signal).unwrap();
        }
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// Waits until `done`, which must come while it is at work.
    #[track_caller]
    pub fn until(&mut self, what: &str, mut done: impl FnMut() -> bool) {
        until(what, || {
            let is_done = done();
            if !is_done && self.has_ended() {
                panic!("petal ended before {what}:\n{}", text(&self.stderr));
            }
            is_done
        });
    }

    /// Messages of the running petal so far.
    pub fn said(&self) -> String {
        text(&self.stderr)
    }

    /// Waits until it has said this on stderr.
    #[track_caller]
    pub fn until_it_says(&mut self, words: &str) {
        let path = self.stderr.clone();
        self.until(words, || text(&path).contains(words));
    }

    /// Ends it without a warning.
    pub fn kill(mut self) {
        assert!(!self.has_ended(), "it ended before it could be killed:\n{}", text(&self.stderr));
        let worker = self.id();
        let _ = kill_process(Pid::from_raw(worker as i32).unwrap(), Signal::KILL);
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        // Its files and locks are its own until the kernel has ended its calls.
        let began = Instant::now();
        while has_files(worker) {
            assert!(began.elapsed() < LIMIT, "the killed process {worker} is still there");
            thread::sleep(POLL);
        }
    }

    #[track_caller]
    pub fn ends(mut self) -> Ended {
        let began = Instant::now();
        while !self.has_ended() {
            assert!(began.elapsed() < LIMIT, "petal hangs:\n{}", text(&self.stderr));
            thread::sleep(POLL);
        }
        let code = self.child.wait().unwrap().code();
        Ended { code, stdout: text(&self.stdout), stderr: text(&self.stderr) }
    }
}

/// True until a process has gone, or waits only to be reaped. Its first thread may have ended while
/// others, in calls on a busy disk, still hold its files.
fn has_files(process: u32) -> bool {
    let Ok(threads) = fs::read_dir(format!("/proc/{process}/task")) else { return false };
    threads.flatten().any(|thread| {
        let state = fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
        let state = state.rsplit(") ").next().unwrap_or_default();
        !state.is_empty() && !state.starts_with(['Z', 'X'])
    })
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn text(path: &Path) -> String {
    String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into_owned()
}

/// How a call ended. No code: by a signal.
#[derive(Debug)]
pub struct Ended {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Ended {
    #[track_caller]
    pub fn exited(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{}\n{}", self.stderr, self.stdout);
        assert!(!self.stderr.contains("panicked"), "{}", self.stderr);
        self
    }

    /// The messages have every one of these words.
    #[track_caller]
    pub fn telling(self, words: &[&str]) -> Self {
        for word in words {
            assert!(self.stderr.contains(word), "no {word:?} in:\n{}", self.stderr);
        }
        self
    }

    /// Stdout, which is one JSON value, the end of its line and nothing else.
    #[track_caller]
    pub fn json(&self) -> Value {
        let value = self.stdout.trim_end();
        let ends = self.stdout.strip_prefix(value);
        assert_eq!(ends, Some("\n"), "{}; on stderr: {}", self.stdout, self.stderr);
        serde_json::from_str(&self.stdout).unwrap_or_else(|why| panic!("{why}: {}", self.stdout))
    }
}

/// A number at a JSON pointer.
#[track_caller]
pub fn number(value: &Value, pointer: &str) -> f64 {
    let found = value.pointer(pointer).and_then(Value::as_f64);
    found.unwrap_or_else(|| panic!("no number at {pointer}: {:?}", value.pointer(pointer)))
}

#[track_caller]
pub fn count(value: &Value, pointer: &str) -> u64 {
    let found = value.pointer(pointer).and_then(Value::as_u64);
    found.unwrap_or_else(|| panic!("no count at {pointer}: {:?}", value.pointer(pointer)))
}

/// The record of a run.
pub fn record(folder: &Path) -> Value {
    serde_json::from_slice(&fs::read(folder.join("run.json")).unwrap()).unwrap()
}

/// The file of a run's seconds.
pub const SECONDS: &str = "seconds.ndjson.gz";

/// The seconds in a run's folder, as far as they are written.
pub fn seconds_in(folder: &Path) -> Vec<Value> {
    // The last line may be half written.
    let text = text_of(&folder.join(SECONDS));
    let lines = text.lines().skip(1).map_while(|line| serde_json::from_str::<Value>(line).ok());
    lines.filter(|line| line["second"].is_object()).collect()
}

/// The seconds of a run, as petal counted them.
pub fn timeline(folder: &Path) -> Vec<Value> {
    seconds_in(folder).into_iter().map(|mut line| line["second"].take()).collect()
}

/// The text of a file, also of a compressed one, as far as it is there.
pub fn text_of(path: &Path) -> String {
    let bytes = fs::read(path).unwrap_or_default();
    if path.extension().is_none_or(|ending| ending != "gz") {
        return String::from_utf8(bytes).unwrap();
    }
    let mut text = Vec::new();
    // A file that grows has no end yet.
    let _ = flate2::read::GzDecoder::new(&bytes[..]).read_to_end(&mut text);
    String::from_utf8_lossy(&text).into_owned()
}

/// Writes a text, compressed if the file's name says so.
pub fn write_text(path: &Path, text: &str) {
    if path.extension().is_none_or(|ending| ending != "gz") {
        return fs::write(path, text).unwrap();
    }
    let mut file = GzEncoder::new(File::create(path).unwrap(), Compression::fast());
    file.write_all(text.as_bytes()).unwrap();
    file.finish().unwrap();
}

/// Ids of a run's findings.
pub fn findings(run: &Value) -> Vec<&str> {
    let all = run["findings"].as_array().unwrap();
    all.iter().map(|finding| finding["id"].as_str().unwrap()).collect()
}

/// Every file below a folder, with what is in it.
pub fn contents(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                files.insert(path.clone(), fs::read(&path).unwrap());
            }
        }
    }
    files
}

/// Names in a folder, sorted.
pub fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Whether the long form of a test runs.
pub fn is_long() -> bool {
    std::env::var_os("PETAL_TEST_LONG").is_some()
}

/// Numbers of the cases that a long form tries: all, or as in `PETAL_TEST_LONG=1602-3000` or `1602-`.
pub fn long_cases() -> RangeInclusive<usize> {
    let text = std::env::var("PETAL_TEST_LONG").unwrap_or_default();
    let number = |text: &str| text.parse::<usize>().ok();
    let range = text.split_once('-').and_then(|(first, last)| Some((number(first)?, last)));
    range.map_or(1..=usize::MAX, |(first, last)| first..=number(last).unwrap_or(usize::MAX))
}

/// Says why a test does not run here, past the test harness's capture.
pub fn skip(why: &str) {
    let _ = writeln!(std::io::stderr(), "SKIPPED: {why}");
    let require = std::env::var("PETAL_TEST_REQUIRE").unwrap_or_default();
    assert_ne!(require, "all", "PETAL_TEST_REQUIRE=all, but: {why}");
}

/// A control group of the first hierarchy, removed when dropped.
pub struct ControlGroup(PathBuf);

impl ControlGroup {
    /// A control group with this limit. None if it cannot be made: a skip.
    pub fn with(controller: &str, limit: &str, text: &str) -> Option<Self> {
        let name = format!("petal-test-{}", std::process::id());
        let group = Self(Path::new("/sys/fs/cgroup").join(controller).join(name));
        let made = fs::create_dir(&group.0).and_then(|()| fs::write(group.0.join(limit), text));
        if let Err(why) = made {
            skip(&format!("no control group of {controller} here: {why}"));
            return None;
        }
        Some(group)
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Changes a limit.
    pub fn set(&self, limit: &str, text: &str) {
        fs::write(self.0.join(limit), text).unwrap();
    }

    /// The line of shell by which a process joins it.
    pub fn joined(&self) -> String {
        format!("echo $$ > {}/cgroup.procs", self.0.display())
    }
}

impl Drop for ControlGroup {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}

/// A file system of a test's own, unmounted when dropped. None where it cannot be: a skip.
pub struct Mount {
    folder: TempDir,
    /// The file under a loop device.
    image: Option<TempDir>,
}

/// Nothing is left to a background thread, which would write in the middle of a test.
const EAGER: &str = "lazy_itable_init=0,lazy_journal_init=0,nodiscard";

impl Mount {
    /// In memory.
    pub fn tmpfs(options: &str) -> Option<Self> {
        Self::new("tmpfs", &["-t", "tmpfs", "-o", options], None)
    }

    /// An ext4 of so many MiB on a loop device that nobody else uses.
    pub fn ext4(mebibytes: u64) -> Option<Self> {
        Self::ext4_below(Path::new(env!("CARGO_TARGET_TMPDIR")), mebibytes)
    }

    /// An ext4 on a loop device whose image is in another mount, which must outlive it.
    pub fn ext4_in(mount: &Self, mebibytes: u64) -> Option<Self> {
        Self::ext4_below(mount.folder.path(), mebibytes)
    }

    /// An ext4 of so many MiB on a loop device over this file, which it creates.
    pub fn ext4_at(image: &Path, mebibytes: u64) -> Option<Self> {
        File::create(image).unwrap().set_len(mebibytes << 20).unwrap();
        let path = image.to_str().unwrap();
        if let Err(why) = run("mkfs.ext4", &["-q", "-E", EAGER, path]) {
            skip(&why);
            return None;
        }
        Self::new(path, &["-t", "ext4", "-o", "loop,noatime"], None)
    }

    fn ext4_below(folder: &Path, mebibytes: u64) -> Option<Self> {
        let options = ["-t", "ext4", "-o", "loop,noatime"];
        Self::of_image(folder, mebibytes, &["mkfs.ext4", "-q", "-E", EAGER], &options)
    }

    /// A btrfs of so many MiB that compresses all that it can.
    pub fn btrfs_that_compresses(mebibytes: u64) -> Option<Self> {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let options = ["-t", "btrfs", "-o", "loop,noatime,compress-force=zstd"];
        Self::of_image(folder, mebibytes, &["mkfs.btrfs", "-q"], &options)
    }

    fn of_image(folder: &Path, mebibytes: u64, make: &[&str], options: &[&str]) -> Option<Self> {
        let base = tempfile::tempdir_in(folder).unwrap();
        let image = base.path().join("image");
        File::create(&image).unwrap().set_len(mebibytes << 20).unwrap();
        let path = image.to_str().unwrap().to_owned();
        if let Err(why) = run(make[0], &[&make[1..], &[&path]].concat()) {
            skip(&why);
            return None;
        }
        Self::new(&path, options, Some(base))
    }

    /// The same, and its loop device passes the page cache of its file by, as a disk does.
    pub fn ext4_on_disk(mebibytes: u64) -> Option<Self> {
        let disk = Self::ext4(mebibytes)?;
        match run("losetup", &["--direct-io=on", &disk.device()]) {
            Ok(()) => Some(disk),
            Err(why) => {
                skip(&why);
                None
            }
        }
    }

    /// The device that is mounted.
    pub fn device(&self) -> String {
        let path = self.text("");
        let said = say("findmnt", &["-n", "-o", "SOURCE", "-T", &path]).unwrap();
        said.trim().to_owned()
    }

    fn new(source: &str, options: &[&str], image: Option<TempDir>) -> Option<Self> {
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let target = folder.path().to_str().unwrap();
        match run("mount", &[options, &[source, target]].concat()) {
            Ok(()) => Some(Self { folder, image }),
            Err(why) => {
                skip(&why);
                None
            }
        }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn text(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }

    pub fn url(&self, name: &str) -> String {
        format!("sqlite:{}", self.text(name))
    }

    pub fn make_read_only(&self) {
        run("mount", &["-o", "remount,ro", &self.text("")]).unwrap();
    }

    pub fn make_writable(&self) {
        run("mount", &["-o", "remount,rw", &self.text("")]).unwrap();
    }

    pub fn is_on_loop(&self) -> bool {
        self.image.is_some()
    }

    /// Takes all the room there is, under a name. Others may write meanwhile.
    pub fn fill(&self, name: &str) {
        use rustix::fs::{FallocateFlags, fallocate, statvfs};
        let file = File::create(self.path(name)).unwrap();
        let mut taken = 0;
        loop {
            let room = statvfs(self.folder.path()).unwrap();
            let free = room.f_bavail * room.f_frsize;
            if free == 0 {
                return;
            }
            let step = (free - free / 16).max(room.f_frsize);
            if fallocate(&file, FallocateFlags::empty(), taken, step).is_ok() {
                taken += step;
            }
        }
    }

    /// Gives the room of a file back now: removed alone, it is kept for as long as a process that
    /// another test has just forked holds a descriptor of it.
    pub fn free(&self, name: &str) {
        File::create(self.path(name)).unwrap();
        fs::remove_file(self.path(name)).unwrap();
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let target = self.text("");
        if run("umount", &[&target]).is_err() {
            let _ = run("umount", &["-l", &target]);
        }
    }
}

/// A loop device of a test's own, detached when dropped. None where it cannot be: a skip.
pub struct Loop {
    device: String,
    _image: Option<TempDir>,
}

impl Loop {
    pub fn new(mebibytes: u64) -> Option<Self> {
        let base = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let image = base.path().join("image");
        File::create(&image).unwrap().set_len(mebibytes << 20).unwrap();
        let mut disk = Self::over(&image)?;
        disk._image = Some(base);
        Some(disk)
    }

    /// Over a file that outlives it.
    pub fn over(image: &Path) -> Option<Self> {
        match say("losetup", &["--find", "--show", image.to_str().unwrap()]) {
            Ok(device) => Some(Self { device: device.trim().to_owned(), _image: None }),
            Err(why) => {
                skip(&why);
                None
            }
        }
    }

    pub fn device(&self) -> &str {
        &self.device
    }

    /// All that is on it.
    pub fn bytes(&self) -> Vec<u8> {
        fs::read(&self.device).unwrap()
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = run("losetup", &["-d", &self.device]);
    }
}

pub fn run(program: &str, args: &[&str]) -> Result<(), String> {
    say(program, args).map(|_| ())
}

/// What a program prints.
pub fn say(program: &str, args: &[&str]) -> Result<String, String> {
    let path = format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default());
    match Command::new(program).args(args).env("PATH", path).output() {
        Ok(output) if output.status.success() => {
            Ok(String::from_utf8_lossy(&output.stdout).into_owned())
        }
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            Err(format!("{program} {}: {said}", args.join(" ")))
        }
        Err(error) => Err(format!("{program}: {error}")),
    }
}

/// Compares the text between a page's marks with the text that a test makes of it; with UPDATE_DOCS=1
/// writes it there.
pub fn check_docs(page: &str, (begin, end): (&str, &str), make: impl FnOnce(&str) -> String) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(page);
    let text = fs::read_to_string(&path).unwrap();
    let (before, rest) = text.split_once(begin).expect("the begin");
    let (there, after) = rest.split_once(end).expect("the end");
    let made = make(there);
    if std::env::var_os("UPDATE_DOCS").is_some() {
        return fs::write(&path, format!("{before}{begin}{made}{end}{after}")).unwrap();
    }
    assert_eq!(there, made, "UPDATE_DOCS=1 writes {page} again");
}
