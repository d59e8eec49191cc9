//! Power cuts in a virtual machine. A guest runs petal against a database on a disk with a volatile
//! cache; the machine and the cache are lost at a random moment; the guest recovers and verifies.
//! The ledger leaves the guest through a serial port into a file of this host.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use rand::TryRng as _;

use petal_record::ledger;

use crate::disk::{Disk, DiskKind};
use crate::error::{CutError, failed};
use crate::found::{Cut, FORMAT, PowerCuts, Trial};
use crate::guest::{GuestWork, Machine, Programs, write_disk};
use crate::nbd::ServedDisk;
use crate::request::{Accelerator, PowerCutRequest};

/// Timeout for an order; a guest that takes longer is hung.
const GUEST_LIMIT: Duration = Duration::from_secs(900);
/// Time in which a guest boots, unless it is emulated on a busy host.
const BOOT_LIMIT: Duration = Duration::from_secs(20);
const POLL: Duration = Duration::from_millis(20);
/// Size of the image: data, log, and the space that a load leaves free. The file is sparse.
const IMAGE_BYTES: u64 = 512 << 20;
/// Exit code of the guest itself: its database did not stop, or its file system stayed mounted.
const NOT_IN_ORDER: u8 = 9;
/// Size of the ledger from which the guest is committing.
const BEGUN_BYTES: u64 = 2048;

/// Progress observer of the cuts.
pub trait Watch {
    /// Returns true after a signal.
    fn is_interrupted(&self) -> bool;
    /// Called when a long step begins.
    fn begins(&self, what: &str);
    /// Called after each cut; `of` is the total number of cuts.
    fn cut(&self, trial: &Trial, cut: &Cut, of: u32);
}

/// Makes the requested cuts. An error or a signal ends it; the results up to then are returned with
/// it.
pub fn run(
    request: &PowerCutRequest,
    watch: &dyn Watch,
) -> Result<(PowerCuts, Option<CutError>), CutError> {
    if let Some(keep) = &request.keep {
        new_folder(keep)?;
    }
    let folder = own_folder()?;
    let found = TestBed::prepare(request, watch, &folder).map(|test_bed| test_bed.all_cuts());
    // Any remaining files are in the system's folder for temporary files.
    let _ = fs::remove_dir_all(&folder);
    found
}

/// Creates the folder of `--keep`, which must be empty: kept files are never overwritten.
fn new_folder(keep: &Path) -> Result<(), CutError> {
    let is_empty =
        || fs::create_dir_all(keep).and_then(|()| Ok(fs::read_dir(keep)?.next().is_none()));
    match is_empty().map_err(failed(&format!("making {}", keep.display())))? {
        true => Ok(()),
        false => Err(CutError::Failed(format!(
            "--keep {}: the folder is not empty; name a new one",
            keep.display()
        ))),
    }
}

/// A saved guest and a loaded disk, from which all cuts start.
struct TestBed<'a> {
    request: &'a PowerCutRequest,
    watch: &'a dyn Watch,
    folder: &'a Path,
    programs: Programs,
}

impl<'a> TestBed<'a> {
    fn prepare(
        request: &'a PowerCutRequest,
        watch: &'a dyn Watch,
        folder: &'a Path,
    ) -> Result<Self, CutError> {
        let accelerator = request.accelerator.unwrap_or_else(Accelerator::of_host);
        let programs = Programs::find(request.guest.as_deref(), accelerator)?;
        let test_bed = Self { request, watch, folder, programs };
        test_bed.programs.archive(request, &test_bed.path("guest.cpio"))?;
        let image = test_bed.path("loaded.img");
        let file = fs::File::create(&image).map_err(failed("making a disk's image"))?;
        file.set_len(IMAGE_BYTES).map_err(failed("making a disk's image"))?;
        run_to_end(Command::new("mkfs.ext4").args(["-q", "-F"]).arg(&image))?;
        watch.begins("booting the guest and loading");
        test_bed.save_guest()?;
        test_bed.load()?;
        Ok(test_bed)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    fn save_guest(&self) -> Result<(), CutError> {
        write_disk(self.folder, &[])?;
        let _served = self.serve(Disk::of(&self.path("loaded.img")))?;
        let mut machine = Machine::boot(&self.programs, self.folder)?;
        let limit = match self.programs.accelerator {
            Accelerator::Kvm => BOOT_LIMIT,
            Accelerator::Tcg => GUEST_LIMIT,
        };
        self.wait(&mut machine, limit, |machine| machine.is_ready())?;
        machine.save()?;
        self.wait(&mut machine, GUEST_LIMIT, Machine::has_ended)?;
        match fs::metadata(self.path("state")).is_ok_and(|state| state.len() > 0) {
            true => Ok(()),
            false => Err(CutError::Failed(format!(
                "qemu did not save the guest: {}",
                machine.last_words()
            ))),
        }
    }

    fn load(&self) -> Result<(), CutError> {
        let served = self.serve(Disk::of(&self.path("loaded.img")))?;
        let (said, code) = self.order(&GuestWork { work: "load", ..GuestWork::default() })?;
        served.disk.lock().write_all().map_err(failed("writing the loaded disk"))?;
        match code {
            0 => Ok(()),
            _ => Err(CutError::Failed(format!("the guest could not load: {}", said.trim()))),
        }
    }

    fn all_cuts(&self) -> (PowerCuts, Option<CutError>) {
        let mut trials = trials(self.request);
        let all: u32 = trials.iter().map(|trial| trial.planned_cuts).sum();
        self.watch.begins(&format!("cutting {all} times"));
        let mut error = None;
        while let Some(trial) = next_of(&mut trials) {
            match self.cut(trial) {
                Ok(cut) => {
                    trial.add(cut);
                    trial.cuts.last().into_iter().for_each(|cut| self.watch.cut(trial, cut, all));
                }
                Err(why) => {
                    error = Some(why);
                    break;
                }
            }
        }
        let kernel = self.programs.kernel.file_name().unwrap_or_default().to_string_lossy();
        let cuts = PowerCuts {
            format: FORMAT,
            petal_version: env!("CARGO_PKG_VERSION"),
            engine: self.request.engine.name(),
            accelerator: self.programs.accelerator.name(),
            kernel: kernel.trim_start_matches("vmlinuz-").to_owned(),
            trials,
            stopped: error.as_ref().map(ToString::to_string),
        };
        (cuts, error)
    }

    /// Makes one cut: runs, cuts the power, recovers, verifies.
    fn cut(&self, trial: &Trial) -> Result<Cut, CutError> {
        let served = self.serve(Disk::over(&self.path("loaded.img"), &self.path("own.img")))?;
        served.disk.lock().kind = DiskKind::parse(trial.disk).unwrap_or(DiskKind::Honest);
        let seed = draw_seed()?;
        let order =
            GuestWork { work: "run", settings: &trial.settings, seed, ..GuestWork::default() };
        order.write(self.folder, self.request.engine)?;
        let port = self.path("port");
        let mut machine = Machine::restore(&self.programs, self.folder)?;
        let has_begun = || fs::metadata(&port).is_ok_and(|port| port.len() > BEGUN_BYTES);
        self.wait(&mut machine, GUEST_LIMIT, |_| has_begun())?;
        let (before, begun) = (served.disk.lock().requests, Instant::now());
        // The seed has 53 bits.
        let until_cut = self.request.within.mul_f64(seed as f64 / (1u64 << 53) as f64);
        self.wait_for_cut(&mut machine, begun + until_cut)?;
        let (dropped, after, cut_after_s) = {
            let mut disk = served.disk.lock();
            let dropped = disk.cut(seed).map_err(failed("cutting the disk"))?;
            (dropped, disk.requests, begun.elapsed().as_secs_f64())
        };
        drop(machine);
        let ledger_file = self.path("ledger");
        fs::rename(&port, &ledger_file).map_err(failed("taking the ledger"))?;
        let kept = ledger::read(&ledger_file)?;
        let end_ns = kept.commits.iter().map(|commit| commit.end_ns).max().unwrap_or(0);
        {
            let mut disk = served.disk.lock();
            disk.kind = DiskKind::Honest;
            disk.power_on();
        }
        let bytes = fs::read(&ledger_file).map_err(failed("reading the ledger"))?;
        let keeps_disk = self.request.keep.is_some();
        let order =
            GuestWork { work: "verify", ledger: &bytes, keeps_disk, ..GuestWork::default() };
        let (said, code) = self.order(&order)?;
        let cut = Cut {
            acknowledged_commits: kept.commits.len() as u64,
            acknowledging_s: end_ns as f64 / 1e9,
            cut_after_s,
            cached_bytes: dropped.cached_bytes,
            dropped_bytes: dropped.dropped_bytes,
            writes: after.writes - before.writes,
            flushes: after.flushes - before.flushes,
            ..verdict(&said, code)
        };
        let cut = match cut.unreadable.is_some() {
            true => Cut { lost_commits: cut.acknowledged_commits, ..cut },
            false => cut,
        };
        Ok(Cut { kept: self.keep(trial, &served)?, ..cut })
    }

    /// Keeps a cut's ledger and its disk after recovery.
    fn keep(&self, trial: &Trial, served: &ServedDisk) -> Result<Option<String>, CutError> {
        let Some(keep) = &self.request.keep else { return Ok(None) };
        let name = trial.name().replace(", ", "-").replace(' ', "-");
        let place = keep.join(format!("{name}-{}", trial.cuts.len() + 1)).display().to_string();
        let copy = || {
            let mut disk = served.disk.lock();
            disk.write_all()?;
            disk.copy_to(Path::new(&format!("{place}.img")))?;
            fs::copy(self.path("ledger"), format!("{place}.ledger"))
        };
        copy().map_err(failed(&format!("keeping {place}")))?;
        Ok(Some(place))
    }

    fn serve(&self, disk: std::io::Result<Disk>) -> Result<ServedDisk, CutError> {
        let served = disk.and_then(|disk| ServedDisk::start(disk, &self.path("disk")));
        served.map_err(failed("serving the guest's disk"))
    }

    /// Restores the guest for an order; returns the order's output and exit code.
    fn order(&self, order: &GuestWork<'_>) -> Result<(String, u8), CutError> {
        order.write(self.folder, self.request.engine)?;
        let mut machine = Machine::restore(&self.programs, self.folder)?;
        self.wait(&mut machine, GUEST_LIMIT, |machine| machine.outcome().is_some())?;
        match machine.outcome() {
            Some((said, NOT_IN_ORDER)) => Err(CutError::Failed(format!(
                "the guest could not leave its disk in order: {}",
                said.trim()
            ))),
            Some(outcome) => Ok(outcome),
            None => Err(CutError::Failed("the guest said nothing".to_owned())),
        }
    }

    /// Waits for the moment of a cut. If the guest ends before it, that is an error.
    fn wait_for_cut(&self, machine: &mut Machine, at: Instant) -> Result<(), CutError> {
        let left = || at.saturating_duration_since(Instant::now());
        self.wait(machine, GUEST_LIMIT + left(), |_| left() < POLL)?;
        thread::sleep(left());
        let has_ended = machine.has_ended() || machine.outcome().is_some();
        match has_ended {
            true => Err(self.stopped(machine, "ended before it was cut")),
            false => Ok(()),
        }
    }

    /// Waits until `done`; a guest that ends before, or hangs, is an error that quotes its last
    /// output.
    fn wait(
        &self,
        machine: &mut Machine,
        limit: Duration,
        done: impl Fn(&mut Machine) -> bool,
    ) -> Result<(), CutError> {
        let began = Instant::now();
        while !done(machine) {
            if self.watch.is_interrupted() {
                return Err(CutError::Interrupted);
            }
            let has_ended = machine.has_ended();
            if has_ended && !done(machine) || began.elapsed() > limit {
                let how = if has_ended { "ended" } else { "did nothing more" };
                let seconds = began.elapsed().as_secs();
                return Err(self.stopped(machine, &format!("{how} after {seconds} s")));
            }
            thread::sleep(POLL);
        }
        Ok(())
    }

    fn stopped(&self, machine: &Machine, how: &str) -> CutError {
        let (name, words) = (self.programs.accelerator.name(), machine.last_words());
        CutError::Failed(format!("the guest ({name}) {how}; its last words: {words}"))
    }
}

/// Returns the requested trial and the controls that differ from it. A control's setting replaces a
/// requested setting of the same name: a database need not accept both.
fn trials(request: &PowerCutRequest) -> Vec<Trial> {
    let trial = |disk: DiskKind, settings: &[String], (planned_cuts, is_control)| Trial {
        disk: disk.name(),
        settings: settings.to_vec(),
        planned_cuts,
        is_control,
        ..Trial::default()
    };
    let mut trials = vec![trial(request.disk, &request.settings, (request.cuts, false))];
    for (disk, setting) in request.engine.controls() {
        let mut settings = request.settings.clone();
        if let Some(setting) = setting {
            settings.retain(|other| !name_of(other).eq_ignore_ascii_case(name_of(setting)));
            settings.push(setting.to_owned());
        }
        let is_other = trials.iter().all(|other| {
            other.disk != disk.name() || !settings.iter().all(|one| other.settings.contains(one))
        });
        if is_other && request.controls > 0 {
            trials.push(trial(disk, &settings, (request.controls, true)));
        }
    }
    trials
}

fn name_of(setting: &str) -> &str {
    setting.split_once('=').map_or(setting, |(name, _)| name)
}

/// Returns the trial with the smallest share done. Changes on the host then affect all trials
/// alike, and an early stop leaves some cuts of each.
fn next_of(trials: &mut [Trial]) -> Option<&mut Trial> {
    let share = |trial: &Trial| trial.cuts.len() as f64 / f64::from(trial.planned_cuts);
    let left = trials.iter_mut().filter(|trial| share(trial) < 1.0);
    left.min_by(|one, other| share(one).total_cmp(&share(other)))
}

/// Returns the guest's verdict, or the reason why the database cannot be read.
fn verdict(said: &str, code: u8) -> Cut {
    let found: Option<Value> = said
        .find('{')
        .and_then(|at| serde_json::Deserializer::from_str(&said[at..]).into_iter().next()?.ok());
    let count = |name: &str| found.as_ref()?.get(name)?.as_u64();
    match (count("lost_commits"), count("bad_rows")) {
        (Some(lost_commits), Some(bad_rows)) if code <= 1 => {
            Cut { lost_commits, bad_rows, ..Cut::default() }
        }
        _ => Cut { unreadable: Some(said.trim().to_owned()), ..Cut::default() },
    }
}

/// Runs a program, which must succeed.
fn run_to_end(command: &mut Command) -> Result<(), CutError> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(failed(&format!("starting {name}")))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(CutError::Failed(format!("{name} failed: {said}")))
}

/// Draws 53 random bits.
fn draw_seed() -> Result<u64, CutError> {
    rand::rngs::SysRng
        .try_next_u64()
        .map(|drawn| drawn >> 11)
        .map_err(|error| CutError::Failed(format!("the system gives no random seed: {error}")))
}

/// Creates a folder for this process.
fn own_folder() -> Result<PathBuf, CutError> {
    let path = std::env::temp_dir().join(format!("petal-powercut-{}", draw_seed()?));
    fs::create_dir(&path).map_err(failed(&format!("making {}", path.display())))?;
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engines::GuestEngine;

    struct Quiet {
        is_interrupted: bool,
    }

    impl Watch for Quiet {
        fn is_interrupted(&self) -> bool {
            self.is_interrupted
        }
        fn begins(&self, _: &str) {}
        fn cut(&self, _: &Trial, _: &Cut, _: u32) {}
    }

    #[test]
    fn trials_take_turns_in_proportion() {
        let trial = |disk, planned_cuts| Trial { disk, planned_cuts, ..Trial::default() };
        let mut trials = [trial("honest", 4), trial("lying", 2)];
        let mut order = Vec::new();
        while let Some(trial) = next_of(&mut trials) {
            trial.add(Cut::default());
            order.push(trial.disk);
        }
        assert_eq!(order, ["honest", "lying", "honest", "honest", "lying", "honest"]);
    }

    fn request(engine: GuestEngine, settings: &[&str], controls: u32) -> PowerCutRequest {
        PowerCutRequest {
            engine,
            cuts: 1,
            disk: DiskKind::Honest,
            settings: settings.iter().map(|setting| (*setting).to_owned()).collect(),
            controls,
            within: Duration::from_secs(1),
            accelerator: None,
            petal: PathBuf::new(),
            guest: None,
            keep: None,
        }
    }

    /// Waits for a cut in an hour, with a program in place of the guest.
    fn waited(program: &mut Command, is_interrupted: bool) -> CutError {
        let folder = tempfile::tempdir().unwrap();
        let test_bed = TestBed {
            request: &request(GuestEngine::Sqlite, &[], 0),
            watch: &Quiet { is_interrupted },
            folder: folder.path(),
            programs: Programs {
                kernel: PathBuf::new(),
                modules: PathBuf::new(),
                busybox: PathBuf::new(),
                accelerator: Accelerator::Tcg,
            },
        };
        let said = "PETAL-SAID\nDB stands there twice\nPETAL-OVER 2\n";
        fs::write(folder.path().join("port"), said).unwrap();
        let process = program.spawn().unwrap();
        let mut machine = Machine { process, folder: folder.path().to_owned() };
        let at = Instant::now() + Duration::from_secs(3600);
        test_bed.wait_for_cut(&mut machine, at).unwrap_err()
    }

    #[test]
    fn the_wait_for_a_cut_ends_on_a_signal_and_with_the_guest() {
        let stopped = waited(Command::new("sleep").arg("3600"), true);
        assert!(matches!(stopped, CutError::Interrupted), "{stopped}");
        let ended = waited(&mut Command::new("true"), false).to_string();
        assert!(ended.contains("ended") && ended.contains("DB stands there twice"), "{ended}");
    }

    #[test]
    fn a_setting_of_a_control_replaces_the_one_that_was_asked_for() {
        let named = |engine, settings: &[&str], controls| {
            let request = request(engine, settings, controls);
            trials(&request).iter().map(Trial::name).collect::<Vec<_>>()
        };
        let lying = "lying disk, synchronous=full, cache=1M";
        assert_eq!(
            named(GuestEngine::Sqlite, &["synchronous=full", "cache=1M"], 3),
            [&lying.replace("lying", "honest"), lying, "honest disk, cache=1M, synchronous=off"]
        );
        assert_eq!(named(GuestEngine::Sqlite, &["synchronous=off"], 3).len(), 2);
        assert_eq!(named(GuestEngine::Sqlite, &[], 0), ["honest disk"]);
        let postgres = named(GuestEngine::Postgres, &["fsync=off"], 3);
        assert_eq!(postgres[2..], ["honest disk, fsync=off, synchronous_commit=off"]);
    }

    #[test]
    fn a_verdict_is_a_whole_answer_and_all_else_is_unreadable() {
        let lost = verdict("{\"lost_commits\": 3,\n\"bad_rows\": 1}\npetal: a note\n", 1);
        assert_eq!((lost.lost_commits, lost.bad_rows, lost.unreadable), (3, 1, None));
        for (said, code) in [("mount: /mnt: bad superblock\n", 3), ("{\"lost_commits\": 3", 1)] {
            let why = verdict(said, code).unreadable;
            assert_eq!(why.as_deref(), Some(said.trim()));
        }
        assert!(verdict("{\"lost_commits\": 0, \"bad_rows\": 0}", 3).unreadable.is_some());
    }
}
