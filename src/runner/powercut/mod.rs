//! The power cut in a virtual machine: a guest runs petal on SQLite, on a disk that keeps what it was
//! told to flush or one that does not; qemu and disk are killed at a random moment; a second guest
//! recovers and verifies. The ledger leaves the guest by a serial port into a file of this host.

mod archive;
mod disk;
mod guest;

pub use disk::DiskKind;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use serde::Serialize;
use serde_json::Value;

use super::RunError;
use super::series::draw_seed;
use crate::engine::{Caller, ProgressUnit};
use crate::record::ledger;

use disk::Disk;
use guest::{Guest, Programs};

/// A guest that has not booted, run or verified within this hangs.
const GUEST_LIMIT: Duration = Duration::from_secs(600);
const POLL: Duration = Duration::from_millis(20);
/// The guest commits when its ledger has grown so far.
const BEGUN_BYTES: u64 = 4096;

/// What is asked for.
#[derive(Debug, Clone)]
pub struct Request {
    pub cuts: u32,
    pub disk: DiskKind,
    /// Options of the guest's `sqlite:` URL, such as `synchronous=off`.
    pub options: String,
    /// The kernel; None: the newest of /boot.
    pub kernel: Option<PathBuf>,
    /// The longest time from the first commits to the cut.
    pub within: Duration,
}

/// What all cuts came to.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Cuts {
    pub format: &'static str,
    pub disk: &'static str,
    pub options: String,
    pub accelerator: &'static str,
    pub acknowledged_commits: u64,
    pub lost_commits: u64,
    pub bad_rows: u64,
    /// Acknowledged commits over the time until the last acknowledgement, of all cuts.
    pub commits_per_second: Option<f64>,
    pub cuts: Vec<Cut>,
}

/// One cut.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Cut {
    pub acknowledged_commits: u64,
    pub lost_commits: u64,
    pub bad_rows: u64,
    /// From the trigger to the last acknowledgement.
    pub acknowledging_s: f64,
    /// Why there is no verdict, where the guest could not give one: its data cannot be read any more.
    pub unreadable: Option<String>,
}

impl Cuts {
    pub fn is_kept(&self) -> bool {
        self.cuts
            .iter()
            .all(|cut| cut.lost_commits == 0 && cut.bad_rows == 0 && cut.unreadable.is_none())
    }
}

/// Cuts so often, and calls `told` after each.
pub fn run(
    request: &Request,
    caller: &Caller,
    watch: &dyn super::Watch,
    told: &dyn Fn(u32, &Cut),
) -> Result<Cuts, RunError> {
    let folder = tempfile_folder()?;
    let result = Circle::new(request, caller, &folder).and_then(|circle| {
        watch.phase("cutting", request.cuts.into(), ProgressUnit::Items);
        let mut cuts = Vec::new();
        for number in 1..=request.cuts {
            let cut = circle.cut()?;
            told(number, &cut);
            watch.advance(1);
            cuts.push(cut);
        }
        Ok(circle.sum(cuts))
    });
    // What is left of it is in the system's folder for such files.
    let _ = fs::remove_dir_all(&folder);
    result
}

struct Circle<'a> {
    request: &'a Request,
    caller: &'a Caller,
    folder: &'a Path,
    programs: Programs,
}

impl<'a> Circle<'a> {
    fn new(request: &'a Request, caller: &'a Caller, folder: &'a Path) -> Result<Self, RunError> {
        let programs = Programs::find(request.kernel.as_deref())?;
        let circle = Self { request, caller, folder, programs };
        circle.programs.archive(&circle.path("guest.cpio"))?;
        let data = circle.path("data");
        let petal = own_program()?;
        let mut setup = Command::new(petal);
        setup.args(["-q", "setup", "-s", "1", "--scale", "1024", "--scan-table-sz", "0", "--db"]);
        run_to_end(setup.arg(format!("sqlite:{}", data.join("petal").display())))?;
        disk::make_image(&circle.path("loaded.img"), &data)?;
        Ok(circle)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// One whole circle: run, cut, recover, verify.
    fn cut(&self) -> Result<Cut, RunError> {
        let (image, ledger) = (self.path("disk.img"), self.path("ledger"));
        fs::copy(self.path("loaded.img"), &image).map_err(failed("copying the disk"))?;
        fs::write(&ledger, []).map_err(failed("making the ledger"))?;
        let options = match self.request.options.as_str() {
            "" => String::new(),
            options => format!("?{options}"),
        };
        let work = format!("run sqlite:/mnt/petal{options}");
        let disk = Disk::serve(&image, self.folder, self.request.disk)?;
        let mut guest = Guest::boot(self, &disk, &work, (&ledger, None))?;
        self.wait(&mut guest, || fs::metadata(&ledger).is_ok_and(|file| file.len() > BEGUN_BYTES))?;
        thread::sleep(self.random_moment()?);
        // The power goes for all at once: nothing is flushed by anybody.
        guest.kill();
        disk.kill();
        let kept = ledger::read(&ledger)?;
        let verdict = self.path("verdict");
        fs::write(&verdict, []).map_err(failed("making the verdict"))?;
        let disk = Disk::serve(&image, self.folder, DiskKind::Honest)?;
        let mut guest = Guest::boot(self, &disk, "verify", (&verdict, Some(&ledger)))?;
        let over = || guest::is_over(&verdict);
        self.wait(&mut guest, over)?;
        guest.kill();
        disk.kill();
        let said = fs::read_to_string(&verdict).map_err(failed("reading the verdict"))?;
        let acknowledging_s = kept.commits.iter().map(|commit| commit.end_ns).max().unwrap_or(0);
        Ok(cut_of(&said, kept.commits.len() as u64, acknowledging_s as f64 / 1e9))
    }

    fn random_moment(&self) -> Result<Duration, RunError> {
        // 53 bits.
        Ok(self.request.within.mul_f64(draw_seed()? as f64 / (1u64 << 53) as f64))
    }

    /// Waits until `done`; a guest that ends before, or hangs, is an error with its last words.
    fn wait(&self, guest: &mut Guest, done: impl Fn() -> bool) -> Result<(), RunError> {
        let began = Instant::now();
        while !done() {
            if self.caller.is_interrupted() {
                return Err(crate::engine::EngineError::Interrupted.into());
            }
            if guest.has_ended() && !done() || began.elapsed() > GUEST_LIMIT {
                return Err(RunError::Environment(format!(
                    "the guest did not do its work; its last words: {}",
                    guest.last_words()
                )));
            }
            thread::sleep(POLL);
        }
        Ok(())
    }

    fn sum(&self, cuts: Vec<Cut>) -> Cuts {
        let acknowledged_commits = cuts.iter().map(|cut| cut.acknowledged_commits).sum();
        let seconds: f64 = cuts.iter().map(|cut| cut.acknowledging_s).sum();
        Cuts {
            format: "petal-powercut/1",
            disk: self.request.disk.name(),
            options: self.request.options.clone(),
            accelerator: self.programs.accelerator(),
            acknowledged_commits,
            lost_commits: cuts.iter().map(|cut| cut.lost_commits).sum(),
            bad_rows: cuts.iter().map(|cut| cut.bad_rows).sum(),
            commits_per_second: (seconds > 0.0).then(|| acknowledged_commits as f64 / seconds),
            cuts,
        }
    }
}

/// The guest's verdict, or its words where it could not read the rows.
fn cut_of(said: &str, acknowledged_commits: u64, acknowledging_s: f64) -> Cut {
    let verdict: Option<Value> = said
        .find('{')
        .and_then(|at| serde_json::Deserializer::from_str(&said[at..]).into_iter().next()?.ok());
    let count = |name: &str| verdict.as_ref()?.get(name)?.as_u64();
    match (count("lost_commits"), count("bad_rows")) {
        (Some(lost_commits), Some(bad_rows)) => {
            Cut { acknowledged_commits, lost_commits, bad_rows, acknowledging_s, unreadable: None }
        }
        // Nothing of what was acknowledged can be read.
        _ => Cut {
            acknowledged_commits,
            lost_commits: acknowledged_commits,
            bad_rows: 0,
            acknowledging_s,
            unreadable: Some(said.trim().to_owned()),
        },
    }
}

fn own_program() -> Result<PathBuf, RunError> {
    std::env::current_exe().map_err(failed("finding petal's own program"))
}

/// Runs a program, which must succeed.
fn run_to_end(command: &mut Command) -> Result<(), RunError> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(failed(&format!("starting {name}")))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(RunError::Environment(format!("{name} failed: {said}")))
}

fn failed(doing: &str) -> impl FnOnce(std::io::Error) -> RunError {
    move |error| RunError::Environment(format!("{doing} failed: {error}"))
}

/// A folder of this process's own.
fn tempfile_folder() -> Result<PathBuf, RunError> {
    let path = std::env::temp_dir().join(format!("petal-powercut-{}", draw_seed()?));
    fs::create_dir(&path).map_err(failed("making a folder"))?;
    Ok(path)
}
