//! Ranks of an MPI launcher: several petals that load a library with the standard ABI of MPI and do one
//! run, or one sweep, together. The library is a small one of these tests' own, built from `mpi_abi.c`.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use rustix::process::Signal;
use serde_json::Value;

use crate::support::{
    Ended, Running, Workplace, count, findings, free_port, number, record, seconds_in,
};

const DEVICE: [&str; 2] = ["--db", "device:shared.dat"];

/// The library with the standard ABI, built once.
fn library() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| built("libmpi_abi_of_tests.so", &[]))
}

fn built(name: &str, args: &[&str]) -> PathBuf {
    let library = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/integration/mpi_abi.c");
    let built = Command::new("cc")
        .args(args)
        .args(["-shared", "-fPIC", "-O1", "-o"])
        .args([&library, &source])
        .output()
        .unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    library
}

/// A workplace with a device of two schemas for as many ranks.
struct Ranks {
    work: Workplace,
    size: usize,
    starts: std::cell::Cell<u32>,
    mpi: PathBuf,
}

impl Ranks {
    fn on_a_device(size: usize) -> Self {
        let work = Workplace::new();
        let schemas = size.to_string();
        work.petal([&["setup", "-s", &schemas, "--scale", "8M"][..], &DEVICE].concat()).exits(0);
        Self { work, size, starts: std::cell::Cell::new(0), mpi: library().to_owned() }
    }

    /// Starts all ranks; `own` are the arguments that one rank alone has.
    fn start(&self, args: &[&str], own: impl Fn(usize) -> Vec<String>) -> Vec<Running> {
        self.starts.set(self.starts.get() + 1);
        let mail = self.mail();
        std::fs::create_dir(&mail).unwrap();
        let started = (0..self.size).map(|rank| {
            let mut all: Vec<String> =
                args.iter().chain(&DEVICE).map(ToString::to_string).collect();
            all.extend(own(rank));
            self.work
                .petal(all)
                .env("PMI_SIZE", self.size.to_string())
                .env("PMI_RANK", rank.to_string())
                .env("PETAL_MPI_LIBRARY", &self.mpi)
                .env("PETAL_TEST_MPI", &mail)
                .start()
        });
        started.collect()
    }

    /// The folder in which the messages of the newest start lie.
    fn mail(&self) -> PathBuf {
        self.work.path(format!("mail{}", self.starts.get()))
    }

    fn all(&self, args: &[&str]) -> Vec<Ended> {
        ended(self.start(args, |_| Vec::new()))
    }

    /// The folder of the first rank, which holds all shares.
    fn merged(&self) -> PathBuf {
        let mut runs = self.work.runs();
        runs.retain(|run| run.join("share-1").is_dir());
        runs.pop().expect("no merged folder")
    }
}

fn ended(ranks: Vec<Running>) -> Vec<Ended> {
    ranks.into_iter().map(Running::ends).collect()
}

/// How the first one ended, and that the others ended well.
fn first(mut ranks: Vec<Ended>) -> Ended {
    let first = ranks.remove(0);
    ranks.into_iter().for_each(|rank| drop(rank.exited(0)));
    first
}

#[test]
fn ranks_leave_one_record_and_one_of_them_serves_metrics() {
    let ranks = Ranks::on_a_device(3);
    let port = free_port().to_string();
    let args = [
        "run",
        "-t",
        "2",
        "--update-pct",
        "20",
        "--work-loop",
        "100",
        "--metrics",
        &port,
        "--json",
    ];
    let all = ranks.all(&args);
    assert!(all[1].stdout.is_empty() && all[2].stdout.is_empty());
    let run = first(all).exited(0).json();
    assert_eq!((count(&run, "/sessions"), count(&run, "/ops/total")), (6, 600));
    assert_eq!((run["status"].as_str(), count(&run, "/counters/commits")), (Some("complete"), 120));
    assert_eq!(run["hosts"].as_array().unwrap().len(), 3);
    assert_eq!(run["hosts"][2]["start"]["by"], "barrier");
    assert_eq!(record(&ranks.merged())["ops"], run["ops"]);
}

#[test]
fn ranks_of_open_mpi_have_its_own_abi() {
    let library = built("libmpi_of_tests.so", &["-DOPEN_MPI"]);
    let ranks = Ranks { mpi: library, ..Ranks::on_a_device(2) };
    let run = first(ranks.all(&["run", "--work-loop", "20", "--json"])).exited(0).json();
    assert_eq!((count(&run, "/sessions"), count(&run, "/ops/total")), (2, 40));
}

#[test]
fn a_sweep_of_ranks_is_one_sweep_and_goes_on_after_a_stop() {
    let ranks = Ranks::on_a_device(2);
    let args = [
        "sweep",
        "--sessions",
        "2,4",
        "--update-pct",
        "0,50",
        "--run-time",
        "1",
        "--seed",
        "7",
        "--out",
        "swept",
        "--json",
    ];
    // The first rank is stopped after a cell.
    let mut started = ranks.start(&args, |_| Vec::new());
    let sweep = |work: &Workplace| -> Value {
        let text = std::fs::read(work.path("swept/sweep.json")).unwrap_or_default();
        serde_json::from_slice(&text).unwrap_or_default()
    };
    let done = || sweep(&ranks.work)["cells"].as_array().map_or(0, Vec::len);
    started[0].until("a cell", || done() > 0);
    started.iter().for_each(|rank| rank.signal(Signal::INT));
    let codes: Vec<Option<i32>> = ended(started).into_iter().map(|rank| rank.code).collect();
    assert_eq!(codes, [Some(130); 2]);
    let before = done();
    assert!(before < 4);
    // The same command does what is left, and both hosts did each cell.
    let swept = first(ranks.all(&args)).exited(0).json();
    let cells = swept["cells"].as_array().unwrap();
    assert_eq!(cells.len(), 4);
    for cell in sweep(&ranks.work)["cells"].as_array().unwrap() {
        let folder = ranks.work.path("swept").join(cell["folder"].as_str().unwrap());
        let run = record(&folder);
        assert_eq!((run["hosts"].as_array().unwrap().len(), run["seed"].as_u64()), (2, Some(7)));
        let sessions = cell["factors"].as_array().unwrap().iter();
        let sessions: u64 = sessions
            .filter(|factor| factor[0] == "sessions")
            .map(|factor| factor[1].as_str().unwrap().parse::<u64>().unwrap())
            .sum();
        assert_eq!(count(&run, "/sessions"), sessions);
    }
    // It is reported and compared as any other.
    ranks.work.petal(["report", "swept"]).exits(0);
    ranks.work.petal(["compare", "swept", "swept"]).exits(0);
    // Done: the others are reported at once that there is nothing to do.
    first(ranks.all(&args)).exited(0);
}

#[test]
fn a_sweep_that_one_rank_understands_otherwise_is_refused() {
    let ranks = Ranks::on_a_device(2);
    let args = ["sweep", "--sessions", "2,4", "--run-time", "1", "--out", "swept"];
    let own = |rank| if rank == 1 { vec!["--work-unit".into(), "32".into()] } else { Vec::new() };
    let reported = ["called off", "share 2 of 2", "work_unit: 32, not"];
    ended(ranks.start(&args, own)).remove(0).exited(3).telling(&reported);
    let few = ["sweep", "--sessions", "1,2", "--run-time", "1", "--out", "few"];
    ranks.all(&few).remove(0).exited(2).telling(&["1 session on 2 hosts"]);
}

#[test]
fn a_rank_that_is_signalled_ends_all_of_them() {
    let ranks = Ranks::on_a_device(2);
    let mut started = ranks.start(&["run", "--run-time", "60", "--json"], |_| Vec::new());
    // Whoever is signalled before the trigger calls the run off.
    let has_begun = |run: &PathBuf| !seconds_in(run).is_empty();
    started[1].until("a second of the run", || ranks.work.runs().iter().any(has_begun));
    started[1].signal(Signal::INT);
    let run = ended(started).remove(0).exited(130).json();
    assert_eq!(run["status"], "interrupted");
    // The others did not go on alone.
    assert!(number(&run, "/elapsed_s") < 40.0, "{run}");
}

#[test]
fn a_rank_that_is_stopped_is_named_while_the_others_wait() {
    let ranks = Ranks::on_a_device(2);
    let mut started = ranks.start(&["run", "--run-time", "3"], |_| Vec::new());
    started[1].until("a run", || ranks.work.runs().len() == 2);
    started[1].signal(Signal::STOP);
    started[0].until_it_says("share 2 of 2: is waited for (");
    assert!(started[0].said().contains("no progress for "), "{}", started[0].said());
    started[1].signal(Signal::CONT);
    ended(started);
}

#[test]
fn a_rank_with_a_full_disk_is_in_the_record_as_far_as_it_came() {
    let Some(disk) = crate::support::Mount::tmpfs("size=64k") else { return };
    let ranks = Ranks::on_a_device(2);
    disk.fill("somebody-elses");
    let out = |rank| if rank == 1 { vec!["--out".into(), disk.text("")] } else { Vec::new() };
    let all = ended(ranks.start(&["run", "--run-time", "2", "--json"], out));
    let run = all[0].json();
    assert_eq!((all[0].code, run["status"].as_str()), (Some(1), Some("incomplete")), "{all:?}");
    assert!(findings(&run).contains(&"incomplete-hosts"), "{:?}", findings(&run));
    assert!(all[1].stderr.contains("No space left"), "{}", all[1].stderr);
}

#[test]
fn a_rank_that_never_comes_is_named_and_a_signal_ends_the_wait() {
    let ranks = Ranks::on_a_device(3);
    let own = |rank| if rank == 1 { vec!["--no-such-flag".into()] } else { Vec::new() };
    let mut started = ranks.start(&["run", "--run-time", "2"], own);
    started[0].until_it_says("share 2 of 3: is not ready yet; the others wait for it");
    started[0].signal(Signal::INT);
    // The first one has the launcher end the third, which would wait for the second.
    let codes: Vec<Option<i32>> = ended(started).into_iter().map(|rank| rank.code).collect();
    assert_eq!(codes, [Some(130), Some(2), Some(9)]);
    assert!(ranks.work.runs().is_empty());
}

#[test]
fn commands_for_one_host_are_refused_under_a_launcher() {
    let work = Workplace::new();
    for command in ["setup", "drop", "demo"] {
        let petal = work.petal([command]).env("PMI_SIZE", "4").env("PMI_RANK", "1");
        petal.exits(2).telling(&["one of 4", "without the launcher"]);
    }
    let alone = work.petal(["run"]).env("PMI_SIZE", "2").env("PETAL_MPI_LIBRARY", "/none.so");
    alone.exits(3).telling(&["cannot join the others", "/none.so", "--share K/N"]);
    assert!(work.runs().is_empty());
}
