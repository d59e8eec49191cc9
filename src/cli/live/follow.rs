//! The state of the work in a folder, for a screen. It is kept up to date by reading only new lines
//! and new files, and every figure is one of the record.

use std::cell::OnceCell;
use std::collections::{HashMap, VecDeque};
use std::fs::{self, Metadata};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use crate::cli::plain_phase::PlainPhase;
use petal_judge::next_cell::{self, CellReading, runs_most};
use petal_judge::petals::Petals;
use petal_record::observation::Observation;
use petal_record::seconds_follow::SecondsFollower;
use petal_record::sweep::{self, CellFailure, CellRun, SweepCell, Swept};
use petal_record::sweep_order::{Pace, left};
use petal_record::{self as record, RecordError, RecordFolder, Run, Second, moment};
use petal_report::petals;
use petal_run::experiments::thread_ns;
use petal_run::noted_progress;

/// Seconds that are kept for charts.
const SECONDS_MAX: usize = 3600;
/// The shortest time between two judgements of a run that goes on.
const JUDGE_EVERY: Duration = Duration::from_secs(2);
/// Fewer seconds of a run that goes on are not judged, and have no charts.
const JUDGED_SECONDS_MIN: usize = 3;
/// A judgement may take one part in so many of the time: it reads the whole record.
const JUDGE_COST_PARTS: u32 = 250;
/// A longer pause between two cells is no part of the sweep: it was stopped and resumed.
const PAUSE_MAX: Duration = Duration::from_secs(600);
/// The first driver host's share of a run that several hosts drive together.
const FIRST_SHARE: &str = "share-1";

/// Work in a folder.
pub enum LiveState {
    Run(Box<LiveRun>),
    Sweep(Box<LiveSweep>),
    Noted(LiveNoted),
}

impl LiveState {
    /// Reads the folder of a run or a sweep, at work or not.
    pub fn open(dir: &Path) -> Result<Self, RecordError> {
        if sweep::is_one(dir) {
            return Ok(Self::Sweep(Box::new(LiveSweep::open(dir)?)));
        }
        let is_live = RecordFolder::open(dir).is_live();
        if is_live && let Some(noted) = LiveNoted::of(dir) {
            return Ok(Self::Noted(noted));
        }
        if !is_live && !record::is_one(dir) {
            return Err(RecordError::NotARecord { path: dir.to_owned() });
        }
        Ok(Self::Run(Box::new(LiveRun::open(dir))))
    }

    /// Reads the new lines and files.
    pub fn refresh(&mut self) -> Result<(), RecordError> {
        match self {
            Self::Run(run) => {
                run.refresh()?;
                // The first phase of other work may begin after its folder was made.
                if run.known().is_none()
                    && let Some(noted) = LiveNoted::of(&run.folder)
                {
                    *self = Self::Noted(noted);
                }
                Ok(())
            }
            Self::Sweep(sweep) => sweep.refresh(),
            Self::Noted(noted) => {
                noted.refresh();
                Ok(())
            }
        }
    }

    /// True if no petal is at work in the folder.
    pub fn is_over(&self) -> bool {
        match self {
            Self::Run(run) => run.is_over,
            Self::Sweep(sweep) => !sweep.swept.is_at_work,
            Self::Noted(noted) => noted.is_over,
        }
    }

    /// Number of the record's version that is known: the last judgement of a run, the last index of a
    /// sweep. 0 before the first.
    pub fn version(&self) -> u64 {
        match self {
            Self::Run(run) => run.version,
            Self::Sweep(sweep) => sweep.version,
            Self::Noted(_) => 0,
        }
    }
}

/// Work without a file of seconds, such as a calibration, by the progress that it notes.
pub struct LiveNoted {
    pub folder: PathBuf,
    /// The newest phase in words.
    pub phase: String,
    pub is_over: bool,
}

impl LiveNoted {
    /// The work in this folder; None if it notes no progress.
    fn of(folder: &Path) -> Option<Self> {
        let phase = PlainPhase::noted(noted_progress::newest(folder)?).words();
        Some(Self { folder: folder.to_owned(), phase, is_over: false })
    }

    fn refresh(&mut self) {
        let is_over = !RecordFolder::open(&self.folder).is_live();
        match Self::of(&self.folder) {
            Some(now) => *self = Self { is_over, ..now },
            None => self.is_over = is_over,
        }
    }
}

/// True if a petal is at work in this folder of a run or a sweep.
pub fn is_at_work(dir: &Path) -> bool {
    if sweep::is_one(dir) { sweep::is_held(dir) } else { RecordFolder::open(dir).is_live() }
}

/// Reader of the folder that work fills, which may be another one each time.
#[derive(Default)]
pub struct FolderReader {
    pub state: Option<LiveState>,
    folder: Option<PathBuf>,
    /// The reason why the folder cannot be read.
    pub unread: Option<String>,
}

impl FolderReader {
    pub fn read(&mut self, folder: Option<&Path>) {
        if self.folder.as_deref() != folder {
            *self = Self { folder: folder.map(Path::to_owned), ..Self::default() };
        }
        let Some(folder) = folder else { return };
        let read = match &mut self.state {
            Some(state) => state.refresh(),
            None => LiveState::open(folder).and_then(|state| self.state.insert(state).refresh()),
        };
        self.unread = read.err().map(|error| error.to_string());
    }
}

/// A run, from the start of its folder to its end.
pub struct LiveRun {
    pub folder: PathBuf,
    follower: SecondsFollower,
    /// The newest seconds.
    pub seconds: VecDeque<Second>,
    /// The record so far, judged, or the whole record at the end. None before the first judgement.
    pub judged: Option<Run>,
    version: u64,
    judge_next: Instant,
    pub is_over: bool,
}

impl LiveRun {
    pub fn open(folder: &Path) -> Self {
        Self {
            folder: folder.to_owned(),
            follower: SecondsFollower::new(folder),
            seconds: VecDeque::new(),
            judged: None,
            version: 0,
            judge_next: Instant::now() + JUDGE_EVERY,
            is_over: false,
        }
    }

    /// The run as known so far: judged, or before its trigger; None before it has a record.
    pub fn known(&self) -> Option<&Run> {
        self.judged.as_ref().or(self.follower.opening())
    }

    /// Seconds from the trigger to the end of the newest second.
    pub fn elapsed_s(&self) -> f64 {
        self.seconds.back().map_or(0.0, |second| second.from_s + second.length_s)
    }

    /// The planned time that is left; None if the run ends by its work, or did not begin.
    pub fn left(&self) -> Option<Duration> {
        let run = self.follower.opening()?;
        let is_by_time = run.summary.setting_number("work_loop").is_none_or(|ops| ops == 0.0);
        let planned_s = run.summary.setting_number("run_time").filter(|_| is_by_time)?;
        Some(duration(planned_s - self.elapsed_s()))
    }

    pub fn refresh(&mut self) -> Result<(), RecordError> {
        self.follow_first_share();
        // Before the read: whatever was written until then is read.
        let is_live = RecordFolder::open(&self.folder).is_live();
        loop {
            let new = self.follower.read()?;
            self.seconds.extend(new.seconds);
            let past = self.seconds.len().saturating_sub(SECONDS_MAX);
            self.seconds.drain(..past);
            if !new.has_more {
                break;
            }
        }
        let is_due = Instant::now() >= self.judge_next && self.seconds.len() >= JUDGED_SECONDS_MIN;
        if (!is_live && !self.is_over) || (is_live && is_due) {
            self.judge();
        }
        self.is_over = !is_live;
        Ok(())
    }

    /// Follows the first share of a run of several hosts, which has no seconds until they are merged.
    fn follow_first_share(&mut self) {
        let share = self.folder.join(FIRST_SHARE);
        if self.follower.opening().is_none() && share.is_dir() {
            self.follower = SecondsFollower::new(&share);
        }
    }

    /// Judges the record so far as `petal report` does. A record that cannot be read yet is judged
    /// later.
    pub(super) fn judge(&mut self) {
        let began_ns = thread_ns();
        if let Ok(run) = petal_report::load(&self.folder) {
            self.judged = Some(run);
            self.version += 1;
        }
        let pause = JUDGE_EVERY.max(cost(began_ns) * JUDGE_COST_PARTS);
        self.judge_next = Instant::now() + pause;
    }
}

/// Processor time of this thread since it had used `began_ns`.
pub fn cost(began_ns: u64) -> Duration {
    Duration::from_nanos(thread_ns().saturating_sub(began_ns))
}

/// A sweep, with the cell that runs now.
pub struct LiveSweep {
    pub dir: PathBuf,
    /// The sweep with the cells that are done.
    pub swept: Swept,
    read: Option<FileStamp>,
    version: u64,
    observations: Vec<Observation>,
    pub petals: Petals,
    /// The petals as predicted, once they are drawn.
    predicted: OnceCell<Vec<Vec<(f64, f64)>>>,
    /// The run that goes on; without a cell it is the last one, at the peak.
    pub cell: Option<(Option<CellRun>, LiveRun)>,
}

/// Distinguishes two versions of a file that is replaced whole.
type FileStamp = (Option<SystemTime>, u64);

fn stamp(file: &Metadata) -> FileStamp {
    (file.modified().ok(), std::os::unix::fs::MetadataExt::ino(file))
}

impl LiveSweep {
    fn open(dir: &Path) -> Result<Self, RecordError> {
        let mut sweep = Self {
            dir: dir.to_owned(),
            swept: Swept {
                sweep: sweep::index(dir)?,
                runs: Vec::new(),
                peak_run: None,
                is_at_work: true,
            },
            read: None,
            version: 0,
            observations: Vec::new(),
            petals: Petals::of(&[]),
            predicted: OnceCell::new(),
            cell: None,
        };
        sweep.refresh()?;
        Ok(sweep)
    }

    fn refresh(&mut self) -> Result<(), RecordError> {
        let is_held = sweep::is_held(&self.dir);
        let now = fs::metadata(self.dir.join(sweep::NAME)).ok().map(|file| stamp(&file));
        if self.read != now || self.swept.is_at_work != is_held {
            self.read_index(is_held)?;
            self.read = now;
        }
        let in_work = sweep::cell_in_work(&self.dir);
        match (in_work, &mut self.cell) {
            (Some((_, folder)), Some((_, run))) if run.folder == folder => {}
            (Some((cell, folder)), _) => self.cell = Some((cell, LiveRun::open(&folder))),
            (None, _) => self.cell = None,
        }
        if let Some((_, run)) = &mut self.cell {
            run.refresh()?;
        }
        Ok(())
    }

    /// Reads the index, and the records of cells that were not done before.
    fn read_index(&mut self, is_at_work: bool) -> Result<(), RecordError> {
        let mut sweep = sweep::index(&self.dir)?;
        let known = self.swept.sweep.cells.drain(..).map(|cell| cell.folder);
        let mut known: HashMap<String, Run> = known.zip(self.swept.runs.drain(..)).collect();
        let mut runs = Vec::new();
        // The end of the sweep reports a record that cannot be read.
        sweep.cells.retain(|cell| {
            let read = || record::load(&self.dir.join(&cell.folder)).ok();
            let run = known.remove(&cell.folder).or_else(read);
            run.map(|run| runs.push(run)).is_some()
        });
        self.swept = Swept { sweep, runs, peak_run: sweep::peak_run(&self.dir), is_at_work };
        self.observations = self.swept.observations();
        self.petals = Petals::of(&self.observations);
        self.predicted.take();
        self.version += 1;
        Ok(())
    }

    /// The line of each petal as `petal predict` has it now.
    pub fn predicted(&self) -> &[Vec<(f64, f64)>] {
        self.predicted.get_or_init(|| petals::predicted(&self.petals))
    }

    /// The runs that are left, in their order, with the one that runs now; of a sweep that chooses
    /// each next cell, the first alone is known.
    pub fn next_cells(&self) -> Vec<CellRun> {
        let Swept { sweep, runs, .. } = &self.swept;
        let plan = &sweep.plan;
        match plan.design.is_grid() {
            true => left(sweep),
            false => {
                let failed = sweep.failures.iter();
                let failed = failed.map(|CellFailure { number, repeat, .. }| {
                    CellReading::failed(CellRun { number: *number, repeat: *repeat })
                });
                let done = sweep.cells.iter().zip(runs);
                let done = done.map(|(SweepCell { number, repeat, .. }, run)| {
                    let cell = CellRun { number: *number, repeat: *repeat };
                    CellReading::of_run(cell, run, &plan.design)
                });
                let readings: Vec<_> = done.chain(failed).collect();
                next_cell::next(plan, &readings).into_iter().collect()
            }
        }
    }

    /// The number of runs that are done, and of all; the latter is the most if each next cell is
    /// chosen.
    pub fn progress(&self) -> (usize, usize) {
        let plan = &self.swept.sweep.plan;
        let all = match plan.design.is_grid() {
            true => plan.order.iter().map(Vec::len).sum(),
            false => runs_most(plan),
        };
        (self.swept.sweep.cells.len(), all)
    }

    /// The estimated time until the end: the run time of the remaining cells, and the time that the
    /// cells so far took in addition.
    pub fn left(&self) -> Option<Duration> {
        let run_s = self.swept.sweep.plan.settings.get("run_time")?.as_f64()?;
        let run = duration(run_s);
        let mut pace = Pace::default();
        for pair in self.observations.windows(2) {
            let (Some((began, ran)), Some((next, _))) = (times(&pair[0]), times(&pair[1])) else {
                continue;
            };
            let whole = duration(next - began);
            if whole < duration(ran) + PAUSE_MAX {
                pace.add(whole, duration(ran));
            }
        }
        let (done, all) = self.progress();
        let cells = match self.swept.sweep.plan.design.is_grid() {
            true => left(&self.swept.sweep).len(),
            false => all.saturating_sub(done),
        };
        let elapsed_s = self.cell.as_ref().map_or(0.0, |(_, run)| run.elapsed_s());
        let plan = &self.swept.sweep.plan;
        let last_s = if self.lacks_peak_run() { plan.peak_run_s } else { 0 };
        let left = pace.left(cells, run) + Duration::from_secs(last_s);
        Some(left.saturating_sub(duration(elapsed_s)))
    }

    /// True if no run is left.
    pub fn is_done(&self) -> bool {
        self.next_cells().is_empty() && !self.lacks_peak_run()
    }

    /// True if the last run, at the peak, is planned and not done.
    pub fn lacks_peak_run(&self) -> bool {
        self.swept.sweep.plan.peak_run_s > 0 && self.swept.peak_run.is_none()
    }
}

/// Start of a cell's run, in seconds since 1970, and its length.
fn times(cell: &Observation) -> Option<(f64, f64)> {
    let began = moment::parse(cell.started_at.as_deref()?)?;
    Some((began.unix_timestamp_nanos() as f64 / 1e9, cell.elapsed_s?))
}

/// A time in seconds; zero if it is negative or none.
fn duration(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or_default()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use petal_engine::file_lock::FileLock;
    use petal_record::sweep::{Axis, FORMAT, Sweep, SweepPlan};
    use petal_record::sweep_order::with_order;
    use petal_record::{Status, fixture};
    use std::fs::File;
    use std::sync::Arc;
    use time::OffsetDateTime;

    /// The folder of a run that a petal fills, until the value is dropped.
    fn begun(out: &Path) -> RecordFolder {
        RecordFolder::create(out, "run", OffsetDateTime::UNIX_EPOCH).unwrap()
    }

    #[test]
    fn a_run_is_followed_from_its_empty_folder_to_its_record() {
        let out = tempfile::tempdir().unwrap();
        let folder = begun(out.path());
        let LiveState::Run(mut run) = LiveState::open(folder.path()).unwrap() else { panic!() };
        run.refresh().unwrap();
        assert!(run.known().is_none() && run.left().is_none() && !run.is_over);
        run.judge_next = Instant::now() + Duration::from_secs(3600);
        fixture::killed_run(folder.path(), 5);
        run.refresh().unwrap();
        assert_eq!((run.seconds.len(), run.elapsed_s()), (5, 5.0));
        assert_eq!(run.left(), Some(Duration::from_secs(55)));
        assert!(run.judged.is_none(), "a judgement reads the whole record");
        run.judge_next = Instant::now();
        run.refresh().unwrap();
        let judged = run.judged.as_ref().unwrap();
        assert!(judged.summary.limited_by.is_some() && !judged.summary.findings.is_empty());
        assert!(!run.is_over);
        record::save(&folder, &fixture::mixed_run()).unwrap();
        drop(folder);
        run.refresh().unwrap();
        assert_eq!(run.known().unwrap().summary.status, Status::Complete);
        assert!(run.is_over);
    }

    #[test]
    fn of_a_run_of_several_hosts_the_first_share_is_followed() {
        let out = tempfile::tempdir().unwrap();
        let folder = begun(out.path());
        let mut run = LiveRun::open(folder.path());
        run.refresh().unwrap();
        let share = folder.inside(FIRST_SHARE).unwrap();
        fixture::killed_run(share.path(), 2);
        run.refresh().unwrap();
        assert_eq!(run.seconds.len(), 2);
    }

    #[test]
    fn a_folder_without_a_record_and_without_a_petal_is_refused() {
        let out = tempfile::tempdir().unwrap();
        assert!(matches!(LiveState::open(out.path()), Err(RecordError::NotARecord { .. })));
    }

    /// A sweep over 1, 4 and 16 sessions, twice.
    pub fn sweep_in(dir: &Path) -> Sweep {
        let values = ["1", "4", "16"].map(str::to_owned).to_vec();
        let axes = vec![Axis { key: "sessions".to_owned(), values }];
        let settings = [("run_time".to_owned(), 60.into())].into_iter().collect();
        let plan = SweepPlan { axes, repeats: 2, settings, ..SweepPlan::default() };
        let sweep = Sweep {
            format: FORMAT.to_owned(),
            petal_version: String::new(),
            engine: "sqlite".to_owned(),
            started_at: String::new(),
            status: Status::Interrupted,
            plan: with_order(plan),
            cells: Vec::new(),
            failures: Vec::new(),
            skipped: Vec::new(),
            replay: None,
        };
        sweep::save(&RecordFolder::open(dir), &sweep).unwrap();
        sweep
    }

    #[test]
    fn a_sweep_is_followed_cell_by_cell() {
        let dir = tempfile::tempdir().unwrap();
        let mut sweep = sweep_in(dir.path());
        let LiveState::Sweep(mut live) = LiveState::open(dir.path()).unwrap() else { panic!() };
        assert_eq!((live.progress(), live.next_cells().len()), ((0, 6), 6));
        assert!(live.petals.lines.is_empty() && !live.swept.is_at_work, "nobody holds its lock");
        let guessed = live.left().unwrap();
        for (at, cell) in live.next_cells().into_iter().take(2).enumerate() {
            let CellRun { number, repeat } = cell;
            let factors = sweep.plan.cells()[number as usize - 1].clone();
            let name = sweep.plan.folder_name(number, &factors, repeat);
            let folder = sweep::begin_cell(&RecordFolder::open(dir.path()), &name).unwrap();
            fixture::killed_run(folder.path(), 3);
            live.refresh().unwrap();
            let (in_work, run) = live.cell.as_ref().unwrap();
            assert_eq!((*in_work, run.seconds.len()), (Some(cell), 3));
            let mut run = fixture::mixed_run();
            run.summary.started_at = format!("2026-11-20T13:{:02}:00Z", 10 + 2 * at);
            record::save(&folder, &run).unwrap();
            sweep::finish_cell(&RecordFolder::open(dir.path()), &name).unwrap();
            drop(folder);
            let status = Status::Complete;
            sweep.cells.push(SweepCell { number, repeat, factors, folder: name, status });
            sweep::save(&RecordFolder::open(dir.path()), &sweep).unwrap();
            live.refresh().unwrap();
            assert!(live.cell.is_none());
            assert_eq!(live.progress(), (at + 1, 6));
            assert_eq!(
                live.petals.lines.iter().map(|line| line.points.len()).sum::<usize>(),
                at + 1
            );
        }
        let lock = Arc::new(File::create(dir.path().join(sweep::LOCK)).unwrap());
        let (held, version) = (FileLock::on(lock).unwrap(), live.version);
        live.refresh().unwrap();
        assert_eq!((live.swept.status_words(), live.version), ("still running", version + 1));
        live.refresh().unwrap();
        assert_eq!(live.version, version + 1, "nothing is new");
        drop(held);
        live.refresh().unwrap();
        assert_eq!((live.swept.status_words(), live.version), ("interrupted", version + 2));
        assert_eq!(live.next_cells().len(), 4);
        // Two minutes from cell to cell, of which the run took one.
        let left_s = live.left().unwrap().as_secs_f64();
        assert!((left_s - 4.0 * 120.0).abs() < 0.01, "{left_s}");
        assert!(guessed > Duration::from_secs(6 * 60));
    }
}
