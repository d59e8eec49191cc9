//! Folder of a sweep: the same command finds it again, only one petal holds it at a time, and two
//! plans never share it.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use time::OffsetDateTime;

use super::plan::Planned;
use super::{Fresh, SweepRequest};
use petal_engine::file_lock::{FileLock, LockRefused};
use petal_host::files;
use petal_record::sweep::{self as kept, FORMAT, LOCK, Sweep, SweepPlan};
use petal_record::sweep_order::{left, with_order};
use petal_record::{RecordError, RecordFolder, Status, moment};
use petal_run::RunError;

/// Attempts to take the lock again, and the pause before each: half a second in all.
const LOCK_TRIES: u32 = 50;
const LOCK_PAUSE: Duration = Duration::from_millis(10);

/// Folder of a sweep, while this petal works in it.
pub struct SweepFolder {
    pub folder: RecordFolder,
    pub sweep: Sweep,
    /// Names of incomplete cells that were removed.
    pub removed: Vec<String>,
    /// Folders of cells whose records were damaged or lost.
    pub damaged: Vec<PathBuf>,
    _lock: FileLock,
}

/// Reads the sweep in this plan's folder, or returns `None` without one. Refuses a folder of
/// another plan.
pub fn done_before(planned: &Planned) -> Result<Option<Sweep>, RunError> {
    let dir = &planned.dir;
    if !kept::is_one(dir) {
        refuse_foreign(dir)?;
        return Ok(None);
    }
    let mut sweep = kept::read(dir)?;
    refuse_other_plan(dir, planned, &sweep)?;
    sweep.plan.repeats = sweep.plan.repeats.max(planned.plan.repeats);
    sweep.plan.design = planned.plan.design.clone();
    sweep.plan = with_order(sweep.plan);
    Ok(Some(sweep))
}

/// Takes the folder, with its finished cells.
pub fn take(planned: &Planned, request: &SweepRequest<'_>) -> Result<SweepFolder, RunError> {
    let dir = &planned.dir;
    let is_fresh = kept::is_one(dir)
        && match request.fresh {
            Fresh::Never => false,
            Fresh::Always => true,
            Fresh::UnlessUnfinished => !is_unfinished(planned),
        };
    // Checked before anything is written into it, and again under the lock.
    if !is_fresh {
        done_before(planned)?;
    }
    let (mut folder, mut lock) = made(dir)?;
    if is_fresh {
        set_aside(dir)?;
        (folder, lock) = made(dir)?;
    }
    let mut sweep = done_before(planned)?.unwrap_or_else(|| begun(planned));
    if request.again_failed {
        for cell in sweep.cells.iter().filter(|cell| is_failed(cell.status)) {
            kept::set_aside(&folder, &cell.folder)?;
        }
        sweep.cells.retain(|cell| !is_failed(cell.status));
    }
    let removed = kept::remove_half_cells(&folder, &sweep.plan)?;
    let damaged = kept::set_damaged_aside(&folder, &sweep)?;
    let is_done =
        sweep.plan.design.is_grid() && left(&sweep).is_empty() && !sweep.lacks_peak_run(dir);
    sweep.status = if is_done { Status::Complete } else { Status::Interrupted };
    kept::save(&folder, &sweep)?;
    Ok(SweepFolder { folder, sweep, removed, damaged, _lock: lock })
}

/// Makes the folder if it is missing, and takes its lock.
fn made(dir: &Path) -> Result<(RecordFolder, FileLock), RunError> {
    files::make_folders(dir).map_err(|source| RecordError::io("make", dir, source))?;
    let folder = RecordFolder::held(dir)?;
    let lock = hold(&folder)?;
    Ok((folder, lock))
}

/// True if the sweep in this plan's folder can go on.
fn is_unfinished(planned: &Planned) -> bool {
    let before = done_before(planned).ok().flatten();
    before.is_some_and(|sweep| !left(&sweep).is_empty() || sweep.lacks_peak_run(&planned.dir))
}

fn begun(planned: &Planned) -> Sweep {
    Sweep {
        format: FORMAT.to_owned(),
        petal_version: env!("CARGO_PKG_VERSION").to_owned(),
        engine: planned.engine.clone(),
        started_at: moment::exact(OffsetDateTime::now_utc()),
        status: Status::Interrupted,
        plan: with_order(planned.plan.clone()),
        cells: Vec::new(),
        failures: Vec::new(),
        skipped: Vec::new(),
        replay: planned.replay.clone(),
    }
}

/// Takes the lock that one petal holds at a time.
pub fn hold(folder: &RecordFolder) -> Result<FileLock, RunError> {
    let dir = folder.path();
    let file = folder.opened().and_then(|folder| folder.keep(LOCK.as_ref()));
    let file = file.map_err(|source| RecordError::io("make", &dir.join(LOCK), source))?;
    let file = Arc::new(file);
    let mut lock = FileLock::on(Arc::clone(&file));
    // A petal that shows the sweep looks at the lock for a moment.
    for _ in 0..LOCK_TRIES {
        if matches!(lock, Err(LockRefused::Held)) {
            thread::sleep(LOCK_PAUSE);
            lock = FileLock::on(Arc::clone(&file));
        }
    }
    lock.map_err(|refused| {
        let held = "another petal is at work on this sweep; wait for it, or name another folder \
                    with --out";
        RunError::Environment(format!("{}: {}", dir.display(), refused.words(held)))
    })
}

/// Refuses a non-empty folder that is not a sweep's.
fn refuse_foreign(dir: &Path) -> Result<(), RunError> {
    let Ok(entries) = fs::read_dir(dir) else { return Ok(()) };
    let draft = format!(".{}.", kept::NAME);
    let is_ours = |name: &str| name == LOCK || (name.starts_with(&draft) && name.ends_with(".tmp"));
    let foreign = entries
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .find(|name| !is_ours(name));
    match foreign {
        None => Ok(()),
        Some(name) => Err(RunError::Setting(format!(
            "OUT={}: holds {name} and no sweep; --out names the sweep's own folder: name a new one",
            dir.display()
        ))),
    }
}

fn refuse_other_plan(dir: &Path, planned: &Planned, sweep: &Sweep) -> Result<(), RunError> {
    let seed = if planned.seed_is_given { planned.plan.seed } else { sweep.plan.seed };
    let asked = SweepPlan { seed, ..planned.plan.clone() };
    let mut differences = sweep.plan.differences(&asked);
    if sweep.petal_version != env!("CARGO_PKG_VERSION") {
        let (was, is) = (&sweep.petal_version, env!("CARGO_PKG_VERSION"));
        differences.push(format!("petal: {was}, not {is}"));
    }
    if sweep.engine != planned.engine {
        differences.push(format!("engine: {}, not {}", sweep.engine, planned.engine));
    }
    if differences.is_empty() {
        return Ok(());
    }
    Err(RunError::Setting(format!(
        "{}: holds a sweep of other settings, and they are not to be mixed:\n  {}\nask for the \
         same, name another folder with --out, or begin again with --fresh",
        dir.display(),
        differences.join("\n  "),
    )))
}

/// Renames the folder of an earlier sweep, so that nothing of it is lost.
fn set_aside(dir: &Path) -> Result<(), RunError> {
    let name = dir.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    let aside = (1..=u32::MAX)
        .map(|number| dir.with_file_name(format!("{name}.before{number}")))
        .find(|aside| !aside.exists())
        .unwrap_or_else(|| dir.with_file_name(format!("{name}.before")));
    Ok(files::rename(dir, &aside).map_err(|source| RecordError::io("rename", dir, source))?)
}

/// True if some host did not do its work, or no session did.
fn is_failed(status: Status) -> bool {
    matches!(status, Status::Failed | Status::Incomplete)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_petal_that_only_looks_at_the_lock_refuses_no_sweep() {
        let out = tempfile::tempdir().unwrap();
        let look = fs::File::create(out.path().join(LOCK)).unwrap();
        look.lock_shared().unwrap();
        thread::scope(|scope| {
            scope.spawn(move || {
                thread::sleep(LOCK_PAUSE);
                look.unlock().unwrap();
            });
            hold(&RecordFolder::open(out.path())).unwrap();
        });
    }

    #[test]
    fn the_lock_is_not_written_through_a_link() {
        let folder = tempfile::tempdir().unwrap();
        let victim = folder.path().join("victim");
        fs::write(&victim, "mine").unwrap();
        std::os::unix::fs::symlink(&victim, folder.path().join(LOCK)).unwrap();
        let refused = hold(&RecordFolder::open(folder.path())).unwrap_err();
        assert!(matches!(refused, RunError::Record(_)), "{refused:?}");
        assert!(refused.to_string().contains(LOCK), "{refused}");
        assert_eq!(fs::read_to_string(&victim).unwrap(), "mine");
        fs::remove_file(folder.path().join(LOCK)).unwrap();
        hold(&RecordFolder::open(folder.path())).unwrap();
    }
}
