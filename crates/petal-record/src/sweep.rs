//! The files that a sweep leaves: `sweep.json` (the plan, and which cells are done) and a run's
//! folder per cell. Plain values; choosing the order and running the cells is the runner's.
//!
//! A cell's folder has its final name only when everything in it is written, so the folders are
//! the truth and `sweep.json` their index: a sweep that was killed between the two loses nothing.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fs;
use std::path::{Component, Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::observation::Observation;
use super::replay::ReplayOf;
use super::sweep_design::Design;
use super::{RecordError, RecordFolder, Run, Status, as_text, folder, format};
use petal_host::files::Folder;
use petal_settings::axes::CELLS_MAX;

pub const FORMAT: &str = "petal-sweep/1";
pub const NAME: &str = "sweep.json";
/// The file that the petal at work on a sweep holds locked.
pub const LOCK: &str = "sweep.lock";
/// Folder of the last run, at the peak of all cells.
pub const PEAK_RUN: &str = "peak-run";
/// Name of a sweep in messages of readers.
pub(super) const WANTED: &str = "a sweep";

/// The most repeats of a cell.
const REPEATS_MAX: u32 = 10_000;
/// Ends the name of a cell's folder until the cell is done.
const UNFINISHED: &str = ".unfinished";
/// Ends the name of a failed cell's folder that was done again.
const REPLACED: &str = ".failed";
/// Longest part of a cell's folder name that shows its values.
const SLUG_LETTERS_MAX: usize = 80;

/// Name of a run: its folder's name, or for a cell of a sweep, also before it is done, the sweep's
/// folder and its own.
pub fn run_name(folder: &Path, cell: u32) -> String {
    let name = |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let own = name(folder);
    let own = own.strip_suffix(UNFINISHED).unwrap_or(&own);
    match folder.parent().filter(|_| cell > 0) {
        Some(sweep) => format!("{}/{own}", name(sweep)),
        None => own.to_owned(),
    }
}

/// An axis: a parameter in lower case (`update_pct`), `sessions` or `db`, and its values in the
/// order in which they were given.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Axis {
    pub key: String,
    pub values: Vec<String>,
}

/// The plan of a sweep. The same plan finds its folder again.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SweepPlan {
    /// The axes; the last one varies fastest from cell to cell.
    pub axes: Vec<Axis>,
    pub repeats: u32,
    pub seed: u64,
    /// Every other parameter, slob.conf's names in lower case, and the loaded data. No secrets.
    pub settings: serde_json::Map<String, Value>,
    /// The cells of each round in the order of their runs, drawn from the seed.
    #[serde(default)]
    pub order: Vec<Vec<u32>>,
    /// Every round goes through the cells in the order of the plan, up to the first one that is not
    /// sustained.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub step_by_step: bool,
    /// The rule that chooses the next cell. `order` is empty unless it is a grid.
    #[serde(default, skip_serializing_if = "Design::is_grid")]
    pub design: Design,
    /// Seconds of one more run at the peak, with experiments that show what limits it; 0: none.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub peak_run_s: u64,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// A cell of a round: number and repeat, both from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CellRun {
    pub number: u32,
    pub repeat: u32,
}

/// A cell of one repeat that ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SweepCell {
    /// The cell's number, from 1, in the order of the plan (not of time).
    pub number: u32,
    /// The round, from 1.
    pub repeat: u32,
    /// The value on every axis.
    pub factors: Vec<(String, String)>,
    /// The run's folder, relative to the sweep's.
    pub folder: String,
    pub status: Status,
}

/// A cell without figures: an attempt that measured nothing, or a record that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CellFailure {
    pub number: u32,
    pub repeat: u32,
    pub message: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sweep {
    pub format: String,
    pub petal_version: String,
    pub engine: String,
    /// UTC, RFC 3339.
    pub started_at: String,
    /// Complete if every cell of every round is done.
    pub status: Status,
    pub plan: SweepPlan,
    /// Cells in the order of time.
    pub cells: Vec<SweepCell>,
    #[serde(default)]
    pub failures: Vec<CellFailure>,
    /// Cells that are not run, because a lower step of their round was not sustained.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub skipped: Vec<CellFailure>,
    /// The load that the cells imitate, as fitted to the target before the first of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replay: Option<ReplayOf>,
}

/// A sweep with the records of its cells, for reports.
#[derive(Debug, Clone, PartialEq)]
pub struct Swept {
    pub sweep: Sweep,
    /// Runs in the order of [`Sweep::cells`].
    pub runs: Vec<Run>,
    /// The last run, at the peak.
    pub peak_run: Option<Run>,
    /// A petal is at work on it: it has a status only at its end.
    pub is_at_work: bool,
}

impl Swept {
    /// The status in words; [`Run::status_words`] is that of a run.
    pub fn status_words(&self) -> &'static str {
        if self.is_at_work { "still running" } else { self.sweep.status.name() }
    }

    pub fn observations(&self) -> Vec<Observation> {
        let cells = self.sweep.cells.iter().zip(&self.runs);
        cells
            .map(|(cell, run)| {
                let seen = Observation::of_run(&cell.folder, cell.factors.clone(), run);
                let is_repeated_by_figures = self.sweep.plan.design.ends_by_figures();
                Observation { repeat: Some(cell.repeat), is_repeated_by_figures, ..seen }
            })
            .collect()
    }
}

impl SweepPlan {
    /// Each cell's value on every axis; cell n (from 1) has index n - 1. If READERS and WRITERS are
    /// varied, their sum is added as `sessions`, and the cell without any session is left out.
    pub fn cells(&self) -> Vec<Vec<(String, String)>> {
        let mut cells = vec![Vec::new()];
        for axis in &self.axes {
            let longer = cells.iter().flat_map(|cell: &Vec<(String, String)>| {
                let further = |value: &String| vec![(axis.key.clone(), value.clone())];
                axis.values.iter().map(move |value| [cell.clone(), further(value)].concat())
            });
            cells = longer.collect();
        }
        cells.into_iter().filter_map(with_sessions).collect()
    }

    /// Name of a cell's folder: number, values, repeat.
    pub fn folder_name(&self, number: u32, factors: &[(String, String)], repeat: u32) -> String {
        let several =
            |key: &str| self.axes.iter().any(|axis| axis.key == key && axis.values.len() > 1);
        let reported: Vec<String> = factors
            .iter()
            .filter(|(key, _)| several(key) && key != "db")
            .map(|(key, value)| format!("{key}{value}"))
            .collect();
        let allowed = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
        let slug: String =
            reported.join("-").chars().filter(|c| allowed(*c)).take(SLUG_LETTERS_MAX).collect();
        let slug = if slug.is_empty() { slug } else { format!("-{slug}") };
        format!("cell{number:03}{slug}-r{repeat}")
    }

    /// Checks that petal could have planned it. An error is a clause.
    fn check(&self) -> Result<(), String> {
        let values = self.axes.iter().map(|axis| axis.values.len());
        let cells = values.clone().try_fold(1_usize, usize::checked_mul).unwrap_or(usize::MAX);
        if cells > CELLS_MAX {
            let values: Vec<String> = values.map(|values| values.to_string()).collect();
            return Err(format!(
                "its axes span {} cells, and a sweep has at most {CELLS_MAX}",
                values.join(" x ")
            ));
        }
        if self.repeats > REPEATS_MAX {
            let repeats = self.repeats;
            return Err(format!("it has {repeats} repeats, and a sweep at most {REPEATS_MAX}"));
        }
        Ok(())
    }

    /// Every cell of every round: its number, its factors, the round and the name of its folder.
    fn runs(&self) -> impl Iterator<Item = (u32, Vec<(String, String)>, u32, String)> {
        (1..).zip(self.cells()).flat_map(move |(number, factors)| {
            (1..=self.repeats).map(move |repeat| {
                let name = self.folder_name(number, &factors, repeat);
                (number, factors.clone(), repeat, name)
            })
        })
    }

    /// A number that is equal for equal axes and settings, on every machine and in every version.
    /// Repeats and a drawn seed are not in it: an existing sweep can be given more repeats and
    /// keeps its seed.
    pub fn fingerprint(&self) -> u64 {
        let axes = self.axes.iter().map(|axis| format!("{}={}", axis.key, axis.values.join(",")));
        let settings = self.settings.iter().map(|(key, value)| format!("{key}={value}"));
        let design = self.design.name().map(|name| format!("design={name}"));
        let mut settings: Vec<String> = settings.chain(design).collect();
        settings.sort();
        let text = axes.chain(settings).collect::<Vec<_>>().join("\n");
        // FNV-1a, 64 bits (Fowler, Noll, Vo).
        text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        })
    }

    /// Differences of another plan: a line each, `key: this, not that`. Repeats may differ, since
    /// rounds can be added.
    pub fn differences(&self, asked: &Self) -> Vec<String> {
        let all = |plan: &Self| -> BTreeMap<String, String> {
            let settings = plan.settings.iter();
            let settings = settings.map(|(key, value)| (key.clone(), as_text(value, "unset")));
            let axes = plan.axes.iter().map(|axis| (axis.key.clone(), axis.values.join(",")));
            let design = plan.design.name().map(|name| ("design".to_owned(), name.to_owned()));
            settings.chain(axes).chain(design).collect()
        };
        let (here, there) = (all(self), all(asked));
        let keys: BTreeSet<&String> = here.keys().chain(there.keys()).collect();
        let differing = keys.into_iter().filter(|key| here.get(*key) != there.get(*key));
        let shown = |value: Option<&String>| value.map_or("unset", String::as_str).to_owned();
        let mut lines: Vec<String> = differing
            .map(|key| format!("{key}: {}, not {}", shown(here.get(key)), shown(there.get(key))))
            .collect();
        if self.seed != asked.seed {
            lines.push(format!("seed: {}, not {}", self.seed, asked.seed));
        }
        lines
    }
}

/// Adds READERS and WRITERS together as the sessions; None if there would be none.
fn with_sessions(mut cell: Vec<(String, String)>) -> Option<Vec<(String, String)>> {
    let number = |key: &str| -> Option<u32> { cell.iter().find(|(k, _)| k == key)?.1.parse().ok() };
    let (readers, writers) = (number("readers"), number("writers"));
    if readers.is_some() || writers.is_some() {
        let sessions = readers.unwrap_or(0) + writers.unwrap_or(0);
        cell.push(("sessions".to_owned(), sessions.to_string()));
        return (sessions > 0).then_some(cell);
    }
    Some(cell)
}

impl Sweep {
    /// Whether this cell of this round is done, or not to be done.
    pub fn is_settled(&self, number: u32, repeat: u32) -> bool {
        let skipped =
            || self.skipped.iter().any(|cell| (cell.number, cell.repeat) == (number, repeat));
        self.has(number, repeat) || skipped()
    }

    /// Checks that its fields can belong to a sweep. An error is a clause.
    fn check(&self) -> Result<(), String> {
        self.plan.check()?;
        let (mut places, mut folders) = (HashSet::new(), HashSet::new());
        for cell in &self.cells {
            let mut parts = Path::new(&cell.folder).components();
            if !matches!((parts.next(), parts.next()), (Some(Component::Normal(_)), None)) {
                return Err(format!("the folder of a cell, {:?}, is not in its own", cell.folder));
            }
            if !places.insert((cell.number, cell.repeat)) || !folders.insert(&cell.folder) {
                return Err(format!(
                    "cell {} of round {} is in it twice",
                    cell.number, cell.repeat
                ));
            }
        }
        Ok(())
    }

    /// Whether the last run is planned and not done.
    pub fn lacks_peak_run(&self, dir: &Path) -> bool {
        self.plan.peak_run_s > 0 && peak_run(dir).is_none()
    }

    /// Whether this cell of this round is done.
    pub fn has(&self, number: u32, repeat: u32) -> bool {
        self.cells.iter().any(|cell| (cell.number, cell.repeat) == (number, repeat))
    }
}

/// Writes `sweep.json`, whole or not at all.
pub fn save(folder: &RecordFolder, sweep: &Sweep) -> Result<PathBuf, RecordError> {
    folder.write_json(NAME, "the sweep", sweep)
}

/// Whether a sweep was begun in this folder.
pub fn is_one(dir: &Path) -> bool {
    dir.join(NAME).is_file()
}

/// Whether a petal is at work on the sweep in this folder.
pub fn is_held(dir: &Path) -> bool {
    let lock = Folder::open(dir).and_then(|folder| folder.read(LOCK.as_ref()));
    lock.is_ok_and(|lock| folder::is_locked(&lock))
}

/// Reads the index of a sweep as it is, such as one that another petal works on.
pub fn index(dir: &Path) -> Result<Sweep, RecordError> {
    let path = dir.join(NAME);
    let sweep: Sweep = format::read(&path, FORMAT, WANTED)?;
    sweep.check().map_err(|why| RecordError::Damaged { path, wanted: WANTED, why })?;
    Ok(sweep)
}

/// The cell that a petal runs now in this sweep's folder, None for the last run at the peak, and its
/// folder.
pub fn cell_in_work(dir: &Path) -> Option<(Option<CellRun>, PathBuf)> {
    fs::read_dir(dir).ok()?.flatten().find_map(|entry| {
        let name = entry.file_name().into_string().ok()?;
        let name = name.strip_suffix(UNFINISHED)?;
        let cell = cell_of_name(name).map(|(number, repeat)| CellRun { number, repeat });
        let path = entry.path();
        let is_run = cell.is_some() || name == PEAK_RUN;
        (is_run && RecordFolder::open(&path).is_live()).then_some((cell, path))
    })
}

/// Reads the index of a sweep and corrects it: it adds a finished cell that is missing, and
/// removes a cell whose folder is gone. A cell whose record cannot be read becomes a failure.
pub fn read(dir: &Path) -> Result<Sweep, RecordError> {
    let mut sweep = index(dir)?;
    let mut damaged = Vec::new();
    sweep.cells.retain(|cell| match status_in(&dir.join(&cell.folder)) {
        Ok(status) => status.is_some(),
        Err(error) => {
            damaged.push(CellFailure::of_record(cell.number, cell.repeat, &error));
            false
        }
    });
    adopt(dir, &mut sweep, &mut damaged);
    if !damaged.is_empty() {
        sweep.status = Status::Interrupted;
    }
    if sweep.lacks_peak_run(dir) {
        sweep.status = Status::Interrupted;
    }
    let is_new = |failure: &CellFailure| {
        damaged.iter().all(|cell| (cell.number, cell.repeat) != (failure.number, failure.repeat))
    };
    sweep.failures.retain(is_new);
    sweep.failures.extend(damaged);
    Ok(sweep)
}

/// Status in which the run of a cell ended; None if the folder has no run.json.
fn status_in(folder: &Path) -> Result<Option<Status>, RecordError> {
    let path = folder.join(super::load::NAME);
    if !path.is_file() {
        return Ok(None);
    }
    Ok(Some(super::load::whole(&path)?.summary.status))
}

impl CellFailure {
    fn of_record(number: u32, repeat: u32, error: &RecordError) -> Self {
        let message = format!("{error}; the command that began this sweep does the cell again");
        Self { number, repeat, message }
    }
}

/// Adds cells that were done just before petal was killed.
fn adopt(dir: &Path, sweep: &mut Sweep, damaged: &mut Vec<CellFailure>) {
    let known: HashSet<(u32, u32)> = (sweep.cells.iter().map(|cell| (cell.number, cell.repeat)))
        .chain(damaged.iter().map(|cell| (cell.number, cell.repeat)))
        .collect();
    let cells = sweep.plan.cells();
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let mut there: Vec<(u32, u32, String)> = entries
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter_map(|name| cell_of_name(&name).map(|(number, repeat)| (number, repeat, name)))
        .collect();
    there.sort();
    for (number, repeat, folder) in there {
        let Some(factors) = cells.get((number as usize).wrapping_sub(1)) else { continue };
        let is_planned = (1..=sweep.plan.repeats).contains(&repeat)
            && sweep.plan.folder_name(number, factors, repeat) == folder;
        if !is_planned || known.contains(&(number, repeat)) {
            continue;
        }
        let factors = factors.clone();
        match status_in(&dir.join(&folder)) {
            Ok(None) => {}
            Ok(Some(status)) => {
                sweep.cells.push(SweepCell { number, repeat, factors, folder, status });
            }
            Err(error) => damaged.push(CellFailure::of_record(number, repeat, &error)),
        }
    }
}

/// Number and round of a cell by the name of its folder.
fn cell_of_name(name: &str) -> Option<(u32, u32)> {
    let (cell, repeat) = name.strip_prefix("cell")?.rsplit_once("-r")?;
    let digits = cell.split('-').next()?;
    Some((digits.parse().ok()?, repeat.parse().ok()?))
}

/// A sweep with the records of all its cells.
pub fn load(dir: &Path) -> Result<Swept, RecordError> {
    let sweep = read(dir)?;
    let runs = sweep.cells.iter().map(|cell| super::load(&dir.join(&cell.folder)));
    let runs = runs.collect::<Result<_, _>>()?;
    Ok(Swept { sweep, runs, peak_run: peak_run(dir), is_at_work: is_held(dir) })
}

/// The last run of a sweep; None if there is no whole record of it.
pub fn peak_run(dir: &Path) -> Option<Run> {
    super::load::whole(&dir.join(PEAK_RUN).join(super::load::NAME)).ok()
}

/// The empty folder in which a cell is run: files of an earlier attempt are removed.
pub fn begin_cell(sweep: &RecordFolder, name: &str) -> Result<RecordFolder, RecordError> {
    let own = format!("{name}{UNFINISHED}");
    remove(sweep, &own)?;
    let path = sweep.path().join(&own);
    match sweep.opened().and_then(|folder| folder.make(own.as_ref())) {
        Ok(folder) => Ok(RecordFolder::begun(path, folder)),
        Err(source) => Err(RecordError::io("make", &path, source)),
    }
}

/// Marks the cell as done: its folder gets its final name.
pub fn finish_cell(sweep: &RecordFolder, name: &str) -> Result<(), RecordError> {
    let named = sweep.opened().and_then(|folder| {
        folder.rename(format!("{name}{UNFINISHED}").as_ref(), name.as_ref())?;
        // Makes the name durable; without it the cell would be done again.
        let _ = folder.file().sync_all();
        Ok(())
    });
    named.map_err(|source| RecordError::io("make", &sweep.path().join(name), source))
}

/// Removes the half cells of this plan, and returns their names.
pub fn remove_half_cells(
    sweep: &RecordFolder,
    plan: &SweepPlan,
) -> Result<Vec<String>, RecordError> {
    let mut removed = Vec::new();
    for (.., name) in plan.runs() {
        let name = format!("{name}{UNFINISHED}");
        if remove(sweep, &name)? {
            removed.push(name);
        }
    }
    Ok(removed)
}

/// Sets a failed cell's folder aside, so that the cell can be done again. Returns its new path.
pub fn set_aside(sweep: &RecordFolder, name: &str) -> Result<PathBuf, RecordError> {
    let is_free = |aside: &String| !sweep.path().join(aside).exists();
    let mut names = (1..).map(|n| format!("{name}{REPLACED}{n}"));
    let aside = names.find(is_free).unwrap_or_else(|| format!("{name}{REPLACED}"));
    let renamed = sweep.opened().and_then(|it| it.rename_to_nothing(name.as_ref(), aside.as_ref()));
    renamed.map_err(|source| RecordError::io("rename", &sweep.path().join(name), source))?;
    Ok(sweep.path().join(aside))
}

/// Sets aside folders with a done cell's name whose cells are not done: their records are damaged
/// or lost. Returns their new paths.
pub fn set_damaged_aside(
    folder: &RecordFolder,
    sweep: &Sweep,
) -> Result<Vec<PathBuf>, RecordError> {
    let mut aside = Vec::new();
    for (number, _, repeat, name) in sweep.plan.runs() {
        if !sweep.has(number, repeat) && folder.path().join(&name).is_dir() {
            aside.push(set_aside(folder, &name)?);
        }
    }
    Ok(aside)
}

fn remove(sweep: &RecordFolder, name: &str) -> Result<bool, RecordError> {
    match sweep.opened().and_then(|folder| folder.remove_all(name.as_ref())) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
        Err(source) => Err(RecordError::io("remove", &sweep.path().join(name), source)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;
    use proptest::prelude::*;

    pub(crate) fn plan(axes: &[(&str, &[&str])]) -> SweepPlan {
        let axis = |(key, values): &(&str, &[&str])| Axis {
            key: (*key).to_owned(),
            values: values.iter().map(|value| (*value).to_owned()).collect(),
        };
        SweepPlan {
            axes: axes.iter().map(axis).collect(),
            repeats: 2,
            seed: 5,
            ..SweepPlan::default()
        }
    }

    fn sweep(plan: SweepPlan) -> Sweep {
        Sweep {
            format: FORMAT.to_owned(),
            petal_version: "0.1.0".to_owned(),
            engine: "sqlite".to_owned(),
            started_at: "2026-11-20T13:42:07Z".to_owned(),
            status: Status::Interrupted,
            plan,
            cells: Vec::new(),
            failures: Vec::new(),
            skipped: Vec::new(),
            replay: None,
        }
    }

    /// Does a cell as the runner does.
    fn run_cell(dir: &Path, plan: &SweepPlan, number: u32, repeat: u32) -> SweepCell {
        let factors = plan.cells()[number as usize - 1].clone();
        let name = plan.folder_name(number, &factors, repeat);
        let sweep = RecordFolder::open(dir);
        let folder = begin_cell(&sweep, &name).unwrap();
        super::super::save(&folder, &fixture::mixed_run()).unwrap();
        finish_cell(&sweep, &name).unwrap();
        SweepCell { number, repeat, factors, folder: name, status: Status::Complete }
    }

    #[test]
    fn a_damaged_cell_is_left_to_be_done_again_and_its_folder_is_kept() {
        let dir = tempfile::tempdir().unwrap();
        let plan = plan(&[("sessions", &["1", "2"])]);
        let mut before = sweep(plan.clone());
        before.status = Status::Complete;
        before.cells = vec![run_cell(dir.path(), &plan, 1, 1), run_cell(dir.path(), &plan, 2, 1)];
        save(&RecordFolder::open(dir.path()), &before).unwrap();
        // One that is in the index, and one that is not yet.
        run_cell(dir.path(), &plan, 2, 2);
        for cell in [&before.cells[0].folder, "cell002-sessions2-r2"] {
            fs::write(dir.path().join(cell).join("run.json"), b"{\"format\": \"petal-run/2\"")
                .unwrap();
        }
        for _ in 0..2 {
            let seen = read(dir.path()).unwrap();
            assert_eq!(seen.cells, before.cells[1..]);
            assert_eq!(seen.status, Status::Interrupted);
            let missing: Vec<_> = seen.failures.iter().map(|f| (f.number, f.repeat)).collect();
            assert_eq!(missing, [(1, 1), (2, 2)]);
            assert!(seen.failures[0].message.contains("run.json cannot be read"));
            save(&RecordFolder::open(dir.path()), &seen).unwrap();
            assert_eq!(load(dir.path()).unwrap().runs.len(), 1);
        }
        let aside =
            set_damaged_aside(&RecordFolder::open(dir.path()), &read(dir.path()).unwrap()).unwrap();
        assert_eq!(aside.len(), 2);
        assert!(aside.iter().all(|folder| folder.join("run.json").is_file()));
        run_cell(dir.path(), &plan, 1, 1);
        assert!(read(dir.path()).unwrap().has(1, 1));
    }

    #[test]
    fn cells_are_every_combination_and_the_last_axis_is_the_fastest() {
        let plan = plan(&[("update_pct", &["0", "20"]), ("sessions", &["1", "2", "4"])]);
        let cells: Vec<String> = plan
            .cells()
            .iter()
            .map(|cell| cell.iter().map(|(k, v)| format!("{k} {v}")).collect::<Vec<_>>().join(", "))
            .collect();
        assert_eq!(cells.len(), 6);
        assert_eq!(cells[1], "update_pct 0, sessions 2");
        assert_eq!(cells[3], "update_pct 20, sessions 1");
    }

    #[test]
    fn readers_and_writers_make_sessions_and_never_none() {
        let cells = plan(&[("readers", &["0", "8"]), ("writers", &["0", "2"])]).cells();
        let sessions: Vec<&str> = cells.iter().map(|cell| cell[2].1.as_str()).collect();
        assert_eq!(sessions, ["2", "8", "10"]);
    }

    #[test]
    fn folder_names_show_the_varied_values_and_differ() {
        let plan = plan(&[
            ("db", &["sqlite:a/b", "sqlite:c"]),
            ("update_pct", &["20"]),
            ("sessions", &["1", "2"]),
        ]);
        let cells = plan.cells();
        let mut names: Vec<String> = (1..)
            .zip(&cells)
            .flat_map(|(n, cell)| [1, 2].map(|repeat| plan.folder_name(n, cell, repeat)))
            .collect();
        assert_eq!(names[0], "cell001-sessions1-r1");
        names.sort();
        names.dedup();
        assert_eq!(names.len(), 8);
    }

    /// The number is part of the name of folders that people already have.
    #[test]
    fn the_fingerprint_never_changes_and_differs_between_plans() {
        let mut one = plan(&[("update_pct", &["0", "20"]), ("sessions", &["1", "2"])]);
        one.settings.insert("run_time".to_owned(), 60.into());
        one.settings.insert("work_unit".to_owned(), 64.into());
        assert_eq!(format!("{:016x}", one.fingerprint()), "dca4c4800ab90269");
        let mut other = one.clone();
        other.settings = one.settings.iter().rev().map(|(k, v)| (k.clone(), v.clone())).collect();
        (other.repeats, other.seed) = (9, 9);
        assert_eq!(one.fingerprint(), other.fingerprint(), "order, repeats and seed are not in it");
        other.settings.insert("run_time".to_owned(), 61.into());
        assert_ne!(one.fingerprint(), other.fingerprint());
    }

    #[test]
    fn differences_are_named_each_with_both_values() {
        let mut one = plan(&[("sessions", &["1", "2"])]);
        one.settings.insert("run_time".to_owned(), 60.into());
        one.settings.insert("loop".to_owned(), Value::Null);
        let mut other = plan(&[("sessions", &["1", "4"])]);
        other.settings.insert("run_time".to_owned(), 30.into());
        other.settings.insert("loop".to_owned(), Value::Null);
        (other.seed, other.repeats) = (6, 7);
        assert_eq!(
            one.differences(&other),
            ["run_time: 60, not 30", "sessions: 1,2, not 1,4", "seed: 5, not 6"]
        );
        assert!(one.differences(&one.clone()).is_empty());
    }

    #[test]
    fn a_kill_between_folder_and_index_loses_nothing_and_half_a_cell_does_not_count() {
        let dir = tempfile::tempdir().unwrap();
        let mut sweep = sweep(plan(&[("sessions", &["1", "2", "4"])]));
        sweep.cells.push(run_cell(dir.path(), &sweep.plan, 2, 1));
        save(&RecordFolder::open(dir.path()), &sweep).unwrap();
        // A finished cell that is not in the index, and a cell of which only half exists.
        let late = run_cell(dir.path(), &sweep.plan, 3, 2);
        let half = sweep.plan.folder_name(1, &sweep.plan.cells()[0], 1);
        let folder = RecordFolder::open(dir.path());
        begin_cell(&folder, &half).unwrap().write_atomically("run.json", b"{").unwrap();
        let swept = load(dir.path()).unwrap();
        assert_eq!(swept.sweep.cells, [sweep.cells[0].clone(), late]);
        assert_eq!(swept.runs.len(), 2);
        assert_eq!(swept.observations()[1].repeat, Some(2));
        let removed = remove_half_cells(&folder, &sweep.plan).unwrap();
        assert_eq!(removed, [format!("{half}.unfinished")]);
        assert!(remove_half_cells(&folder, &sweep.plan).unwrap().is_empty());
    }

    #[test]
    fn a_cell_whose_folder_is_gone_is_not_done() {
        let dir = tempfile::tempdir().unwrap();
        let mut sweep = sweep(plan(&[("sessions", &["1", "2"])]));
        sweep.cells.push(run_cell(dir.path(), &sweep.plan, 1, 1));
        sweep.cells.push(run_cell(dir.path(), &sweep.plan, 2, 1));
        save(&RecordFolder::open(dir.path()), &sweep).unwrap();
        fs::remove_dir_all(dir.path().join(&sweep.cells[0].folder)).unwrap();
        set_aside(&RecordFolder::open(dir.path()), &sweep.cells[1].folder).unwrap();
        assert!(read(dir.path()).unwrap().cells.is_empty());
        assert!(dir.path().join(format!("{}.failed1", sweep.cells[1].folder)).is_dir());
    }

    #[test]
    fn a_folder_that_is_not_a_sweep_is_reported() {
        let dir = tempfile::tempdir().unwrap();
        assert!(!is_one(dir.path()));
        for (text, word) in [("{\"format\": \"petal-sweep/9\"}", "petal-sweep/9"), ("{", "--fresh")]
        {
            fs::write(dir.path().join(NAME), text).unwrap();
            let message = read(dir.path()).unwrap_err().to_string();
            assert!(message.contains(word), "{message}");
        }
    }

    proptest! {
        #[test]
        fn cells_are_as_many_as_the_product(sizes in prop::collection::vec(1usize..5, 0..4)) {
            let axes = sizes.iter().enumerate().map(|(at, size)| Axis {
                key: format!("k{at}"),
                values: (0..*size).map(|value| value.to_string()).collect(),
            });
            let plan = SweepPlan { axes: axes.collect(), ..SweepPlan::default() };
            let mut cells = plan.cells();
            prop_assert_eq!(cells.len(), sizes.iter().product::<usize>());
            cells.sort();
            cells.dedup();
            prop_assert_eq!(cells.len(), sizes.iter().product::<usize>());
        }
    }
}
