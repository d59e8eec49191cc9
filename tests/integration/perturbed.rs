//! Paired runs: one left alone, one that something outside disturbs. A headline that moves has a
//! finding that says why, and what somebody else reads is nobody's figure here.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;

use crate::server_postgres::{Server, is_there};
use crate::support::{ALONE, Mount, Workplace, findings, number, record};

/// Reads a file of its own past the page cache, over and over, until it is dropped.
struct ForeignReader {
    is_over: Arc<AtomicBool>,
    reading: Option<JoinHandle<u64>>,
}

impl ForeignReader {
    const CHUNK: usize = 1 << 20;
    const CHUNKS: u64 = 16;
    /// About 250 MB/s at most: the processors are left to others.
    const PAUSE: Duration = Duration::from_millis(4);

    fn beside(folder: &Path) -> Self {
        let path = folder.join("somebody-elses");
        fs::write(&path, vec![7; Self::CHUNK * Self::CHUNKS as usize]).unwrap();
        File::open(&path).unwrap().sync_all().unwrap();
        let file = OpenOptions::new().read(true).custom_flags(libc::O_DIRECT).open(&path).unwrap();
        let is_over = Arc::<AtomicBool>::default();
        let seen = is_over.clone();
        let reading = thread::spawn(move || {
            let mut memory = vec![0; Self::CHUNK + 4096];
            let from = memory.as_ptr().align_offset(4096);
            let mut chunks = 0;
            while !seen.load(Ordering::Relaxed) {
                let at = chunks % Self::CHUNKS * Self::CHUNK as u64;
                file.read_exact_at(&mut memory[from..from + Self::CHUNK], at).unwrap();
                chunks += 1;
                thread::sleep(Self::PAUSE);
            }
            chunks
        });
        Self { is_over, reading: Some(reading) }
    }

    /// How many bytes it read.
    fn ends(mut self) -> u64 {
        self.is_over.store(true, Ordering::Relaxed);
        self.reading.take().unwrap().join().unwrap() * Self::CHUNK as u64
    }
}

impl Drop for ForeignReader {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
    }
}

/// The line to paste, as the newest run's report has it.
fn headline(work: &Workplace) -> String {
    let report = fs::read_to_string(work.runs().pop().unwrap().join("report.txt")).unwrap();
    report.lines().find(|line| line.contains("served by:")).unwrap().trim().to_owned()
}

/// Few enough reads of cached data that the foreign ones are more. Arrivals are even: random ones
/// would move the headline by themselves.
const SLOW_READS: [&str; 8] =
    ["--update-pct", "0", "--rate", "30", "--arrivals", "even", "--run-time", "3"];

/// The page cache served the run although the device read as many bytes, for somebody else.
fn assert_served_by_the_page_cache(work: &Workplace, run: &Value, served: &str) {
    let line = headline(work);
    assert!(line.contains("served by: page cache"), "{line}\n{run}");
    let asked = number(run, "/per_second/physical_read_bytes");
    let device = number(run, "/per_second/device_read_bytes");
    assert!(device > asked, "the device read {device} bytes, the run {asked}: nothing is proven");
    assert!(findings(run).contains(&"cached-by-os"), "{}", run["findings"]);
    assert!(findings(run).contains(&"other-load"), "{}", run["findings"]);
    let whole = record(&work.runs().pop().unwrap());
    let own = number(&whole, &format!("/details/os/whole/sum/counts/{served}"));
    assert!(own < asked, "{own} bytes were read by the processes that serve the run");
}

#[test]
fn a_foreign_reader_does_not_make_the_page_cache_a_device_on_sqlite() {
    let _alone = ALONE.lock();
    let Some(disk) = Mount::ext4(160) else { return };
    let work = Workplace::new();
    let url = disk.url("data");
    work.petal(["setup", "--scale", "64M", "--db", &url]).exits(0);
    fs::read(disk.path("data/petal1.db")).unwrap();
    let args = ["run", "--direct-io", "FALSE", "--json", "--db", &url];
    let run = || work.petal([&args[..], &SLOW_READS].concat()).watching().exits(0).json();
    let alone = run();
    assert!(headline(&work).contains("served by: page cache"), "{}", headline(&work));
    assert!(findings(&alone).contains(&"cached-by-os"), "{}", alone["findings"]);
    let reader = ForeignReader::beside(&disk.path(""));
    let beside = run();
    assert!(reader.ends() > 0);
    assert_served_by_the_page_cache(&work, &beside, "petal_read_bytes");
    assert_explained(&[&alone], &beside, &["other-load"]);
}

#[test]
fn a_foreign_reader_does_not_make_the_page_cache_a_device_on_postgres() {
    if !is_there() {
        return;
    }
    let _alone = ALONE.lock();
    let server = Server::start(&["shared_buffers=2MB", "track_io_timing=on"]);
    server.database("beside");
    let url = server.url("beside");
    let work = Workplace::new();
    work.petal(["setup", "--scale", "48M", "--db", &url]).exits(0);
    let args = ["run", "--json", "--db", &url];
    let run = || work.petal([&args[..], &SLOW_READS].concat()).watching().exits(0).json();
    // The first run reads everything once, wherever it lies.
    run();
    let reader = ForeignReader::beside(&work.path(""));
    let beside = run();
    assert!(reader.ends() > 0);
    assert_served_by_the_page_cache(&work, &beside, "server_read_bytes");
}

#[test]
fn a_stopped_petal_says_how_many_seconds_it_lost() {
    let _alone = ALONE.lock();
    let work = Workplace::loaded(1, "8M");
    let args = ["run", "--update-pct", "0", "--run-time", "6", "--json"];
    let plain = work.petal(args).exits(0).json();
    // On a busy machine petal may have waited for a processor, but not for so long.
    assert!(suspended_s(&plain) < 2.0, "{}", plain["findings"]);
    let mut running = work.petal(args).start();
    // The newest seconds are the plain run's until this one has its own.
    running.until("two seconds of a run", || work.runs().len() == 2 && work.seconds().len() >= 2);
    running.signal(Signal::STOP);
    thread::sleep(Duration::from_millis(2500));
    running.signal(Signal::CONT);
    let stopped = running.ends().exited(0).json();
    let all = stopped["findings"].as_array().unwrap();
    let finding = all.iter().find(|finding| finding["id"] == "petal-suspended");
    let finding = finding.unwrap_or_else(|| panic!("{}", stopped["findings"]));
    assert!(finding["message"].as_str().unwrap().contains("stopped by a signal"), "{finding}");
    assert!(suspended_s(&stopped) >= 2.0, "{finding}");
    let whole = record(&work.runs().pop().unwrap());
    let gaps = whole["details"]["suspended"].as_array().unwrap();
    let longest = gaps.iter().max_by(|a, b| number(a, "/lost_s").total_cmp(&number(b, "/lost_s")));
    assert!(number(longest.unwrap(), "/at_s") >= 1.0, "{gaps:?}");
}

/// A headline that moves by more than this part, beyond the repeats' own spread, needs a finding.
const MOVED_MIN: f64 = 0.05;

/// Whether the headline moved, and an error where it did and no finding names one of these causes.
fn explained(
    alone: &[f64],
    disturbed: f64,
    findings: &[&str],
    causes: &[&str],
) -> Result<bool, String> {
    let least = alone.iter().copied().fold(f64::INFINITY, f64::min) * (1.0 - MOVED_MIN);
    let most = alone.iter().copied().fold(0.0, f64::max) * (1.0 + MOVED_MIN);
    let has_moved = !(least..=most).contains(&disturbed);
    if has_moved && !findings.iter().any(|id| causes.contains(id)) {
        return Err(format!("{disturbed}, alone {alone:?}: none of {causes:?} in {findings:?}"));
    }
    Ok(has_moved)
}

#[track_caller]
fn assert_explained(alone: &[&Value], disturbed: &Value, causes: &[&str]) {
    let figure = |run: &Value| number(run, "/per_second/logical_reads");
    let figures: Vec<f64> = alone.iter().map(|run| figure(run)).collect();
    let has_moved = explained(&figures, figure(disturbed), &findings(disturbed), causes);
    let has_moved = has_moved.unwrap_or_else(|why| panic!("{why}"));
    // Without its finding it would not pass.
    let others: Vec<_> =
        findings(disturbed).into_iter().filter(|id| !causes.contains(id)).collect();
    assert_eq!(explained(&figures, figure(disturbed), &others, causes).is_err(), has_moved);
}

#[test]
fn a_headline_has_moved_where_it_left_the_repeats_by_over_five_per_cent() {
    let judged = |disturbed, findings: &[&str]| {
        explained(&[100.0, 110.0], disturbed, findings, &["petal-suspended", "other-load"])
    };
    assert_eq!(judged(96.0, &[]), Ok(false));
    assert_eq!(judged(115.0, &["single-run"]), Ok(false));
    assert_eq!(judged(94.0, &["single-run", "other-load"]), Ok(true));
    assert!(judged(94.0, &["single-run"]).is_err() && judged(116.0, &[]).is_err());
}

/// Keeps every processor busy, twice, until it is dropped.
struct Hog(Arc<AtomicBool>);

impl Hog {
    fn begin() -> Self {
        let is_over = Arc::<AtomicBool>::default();
        for _ in 0..2 * thread::available_parallelism().unwrap().get() {
            let seen = is_over.clone();
            thread::spawn(move || while !seen.load(Ordering::Relaxed) {});
        }
        Self(is_over)
    }
}

impl Drop for Hog {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn a_headline_that_something_moved_has_a_finding_with_the_cause() {
    let _alone = ALONE.lock();
    let work = Workplace::loaded(1, "8M");
    let run = || work.petal(["run", "--update-pct", "0", "--run-time", "3", "--json"]);
    let alone = [run().exits(0).json(), run().exits(0).json()];
    let alone = [&alone[0], &alone[1]];

    let mut running = run().start();
    running.until("a second", || work.runs().len() == 3 && !work.seconds().is_empty());
    running.signal(Signal::STOP);
    thread::sleep(Duration::from_millis(1500));
    running.signal(Signal::CONT);
    assert_explained(&alone, &running.ends().exited(0).json(), &["petal-suspended"]);

    let hog = Hog::begin();
    let beside = run().watching().exits(0).json();
    drop(hog);
    assert_explained(&alone, &beside, &["other-load", "processor-bound"]);

    let database = rusqlite::Connection::open(work.path("petal-data/petal1.db")).unwrap();
    database.execute("DELETE FROM cf1 WHERE custid % 2 = 0", []).unwrap();
    drop(database);
    let fewer = run().exits(1).json();
    assert!(findings(&fewer).contains(&"rows-missing"), "{}", fewer["findings"]);
    assert_explained(&alone, &fewer, &["rows-missing"]);
}

#[test]
fn a_foreign_session_that_moves_the_headline_is_reported_on_postgres() {
    if !is_there() {
        return;
    }
    let _alone = ALONE.lock();
    let server = Server::start(&["shared_buffers=2MB"]);
    server.database("beside");
    let url = server.url("beside");
    let work = Workplace::new();
    work.petal(["setup", "--scale", "16M", "--db", &url]).exits(0);
    let args = ["run", "--json", "--update-pct", "0", "--run-time", "3", "--db", &url];
    let run = || work.petal(args).exits(0).json();
    let alone = [run(), run()];
    let mut theirs = server.client("beside");
    let make = "CREATE TABLE theirs AS SELECT g, repeat('x', 500) FROM generate_series(1, 40000) g";
    theirs.batch_execute(make).unwrap();
    let is_over = AtomicBool::new(false);
    let beside = thread::scope(|scope| {
        let reading = scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                theirs.query_one("SELECT count(*) FROM theirs", &[]).unwrap();
            }
        });
        let beside = run();
        is_over.store(true, Ordering::Relaxed);
        reading.join().unwrap();
        beside
    });
    assert!(findings(&beside).contains(&"other-load"), "{}", beside["findings"]);
    assert_explained(&[&alone[0], &alone[1]], &beside, &["other-load"]);
}

/// Seconds that a run says it lost; 0 without the finding.
fn suspended_s(run: &Value) -> f64 {
    let all = run["findings"].as_array().unwrap();
    let finding = all.iter().find(|finding| finding["id"] == "petal-suspended");
    finding.map_or(0.0, |finding| number(finding, "/evidence/lost_s"))
}
