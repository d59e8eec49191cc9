//! A run's folder: its name, and files that appear whole or not at all.

use std::fs::{File, TryLockError};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::Duration;

use time::format_description::BorrowedFormatItem;
use time::macros::format_description;
use time::{OffsetDateTime, PrimitiveDateTime, UtcOffset};

use super::{RecordError, own_file};
use petal_host::files::{self, Folder};

const STAMP: &[BorrowedFormatItem<'_>] =
    format_description!("[year][month][day]T[hour][minute][second]Z");

/// Runs that may begin within one second under one name before petal gives up.
const NUMBER_MAX: u32 = 10_000;

const LOCK_TRIES: u32 = 20;
const LOCK_PAUSE: Duration = Duration::from_millis(1);

#[derive(Debug, Clone)]
pub struct RecordFolder {
    path: PathBuf,
    /// A folder that petal is filling, held open until the last copy of this value is dropped.
    /// Files go into this folder, even if its path names another one by then.
    held: Option<Folder>,
}

impl RecordFolder {
    /// Makes `out/<UTC stamp>-<name>/`, and never reuses a folder: the second one within a second
    /// gets `-2`. Characters that a file name may not have become `-`.
    pub fn create(out: &Path, name: &str, started_at: OffsetDateTime) -> Result<Self, RecordError> {
        files::make_folders(out).map_err(|source| RecordError::io("make", out, source))?;
        let below = Folder::open(out).map_err(|source| RecordError::io("open", out, source))?;
        let stamp = started_at.to_offset(UtcOffset::UTC).format(STAMP);
        let stamp = stamp.map_err(|cause| RecordError::encode("the start time", out, &cause))?;
        let base = format!("{stamp}-{}", file_name(name));
        let mut own = base.clone();
        for number in 2..=NUMBER_MAX {
            match below.make(own.as_ref()) {
                Ok(folder) => return Ok(Self::begun(out.join(own), folder)),
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                    own = format!("{base}-{number}");
                }
                Err(source) => return Err(RecordError::io("make", &out.join(own), source)),
            }
        }
        Err(RecordError::io("make", &out.join(own), ErrorKind::AlreadyExists.into()))
    }

    /// Makes a folder below this one, to be filled.
    pub fn inside(&self, name: &str) -> Result<Self, RecordError> {
        let name = file_name(name);
        let made = self.opened().and_then(|folder| folder.make(name.as_ref()));
        let path = self.path.join(name);
        match made {
            Ok(made) => Ok(Self::begun(path, made)),
            Err(source) => Err(RecordError::io("make", &path, source)),
        }
    }

    /// A folder that already exists, by its path.
    pub fn open(path: &Path) -> Self {
        Self { path: path.to_owned(), held: None }
    }

    /// The folder of a file, by the file's path.
    pub fn containing(file: &Path) -> Self {
        let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
        Self::open(folder.unwrap_or(Path::new(".")))
    }

    /// Opens a folder that petal goes on to fill, and holds it open.
    pub fn held(path: &Path) -> Result<Self, RecordError> {
        let held = Folder::open(path).map_err(|source| RecordError::io("open", path, source))?;
        Ok(Self { path: path.to_owned(), held: Some(held) })
    }

    /// A folder that was just made and is now filled: [`is_live`](Self::is_live) is true for other
    /// processes while this value lives. A file system without locks does not prevent filling it.
    pub(super) fn begun(path: PathBuf, folder: Folder) -> Self {
        hold(folder.file());
        Self { path, held: Some(folder) }
    }

    /// Whether a petal process is at work in this folder.
    pub fn is_live(&self) -> bool {
        // By another descriptor: a lock belongs to one.
        Folder::open(&self.path).is_ok_and(|folder| is_locked(folder.file()))
    }

    /// Removes the folder if nothing was written into it, because the run was called off.
    pub fn remove_if_empty(&self) {
        // A folder with files stays.
        let _ = files::remove_folder(&self.path);
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A path to a held folder, which is also right when somebody has moved it.
    pub fn own_path(&self) -> PathBuf {
        self.held.as_ref().map_or_else(|| self.path.clone(), Folder::by_descriptor)
    }

    /// The place of a held folder that is no longer at its path: somebody moved it, or another one
    /// took its place.
    pub fn moved(&self) -> Option<PathBuf> {
        self.held.as_ref()?.moved_from(&self.path)
    }

    /// Says where a moved folder is.
    pub fn moved_words(&self) -> Option<String> {
        let now = self.moved()?;
        Some(format!(
            "{}: somebody moved this folder, or put another one in its place; petal's own files are in {}",
            self.path.display(),
            now.display()
        ))
    }

    pub fn opened(&self) -> io::Result<Folder> {
        self.held.as_ref().map_or_else(|| Folder::open(&self.path), |held| Ok(held.clone()))
    }

    /// Writes a whole file, and replaces only a file of petal's own ([`own_file`]).
    pub fn write_atomically(&self, name: &str, bytes: &[u8]) -> Result<PathBuf, RecordError> {
        let path = self.path.join(name);
        let written = self.opened();
        let written = written.and_then(|it| own_file::write_in(&it, name.as_ref(), bytes));
        written.map_err(|source| RecordError::written(&path, source))?;
        Ok(path)
    }

    /// Makes a file in the place of an entry of this name, which is removed.
    pub fn create_anew(&self, name: &str) -> io::Result<File> {
        self.opened()?.create_anew(name.as_ref())
    }
}

/// Locks a folder. A petal that looks whether it is locked holds it for a moment.
fn hold(folder: &File) {
    for _ in 0..LOCK_TRIES {
        match folder.try_lock() {
            Err(TryLockError::WouldBlock) => std::thread::sleep(LOCK_PAUSE),
            _ => return,
        }
    }
}

/// Whether a process holds the lock of this file or folder, by a descriptor opened to look.
pub(super) fn is_locked(file: &File) -> bool {
    matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock))
}

/// The start of a run, from the name of its folder; None if petal did not give the name.
pub(super) fn begun_at(folder: &Path) -> Option<OffsetDateTime> {
    let (stamp, _) = folder.file_name()?.to_str()?.split_once('-')?;
    Some(PrimitiveDateTime::parse(stamp, STAMP).ok()?.assume_utc())
}

/// The name of a run, from its folder: without the moment at which it began.
pub fn name_of(folder: &Path) -> String {
    let whole = folder.file_name().map_or(folder.as_os_str(), |name| name).to_string_lossy();
    let name = whole.split_once('-').filter(|_| begun_at(folder).is_some());
    name.map_or_else(|| whole.to_string(), |(_, name)| name.to_owned())
}

fn file_name(name: &str) -> String {
    let allowed =
        |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_' | '.');
    name.chars().map(|letter| if allowed(letter) { letter } else { '-' }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use time::macros::datetime;

    #[test]
    fn the_name_is_the_utc_stamp_and_is_never_reused() {
        let out = tempfile::tempdir().unwrap();
        let started_at = datetime!(2026-11-20 14:42:07 +1);
        let names: Vec<String> = (0..3)
            .map(|_| {
                RecordFolder::create(&out.path().join("deep/er"), "run 1/2", started_at).unwrap()
            })
            .map(|folder| folder.path().file_name().unwrap().to_str().unwrap().to_owned())
            .collect();
        let base = "20261120T134207Z-run-1-2";
        assert_eq!(names, [base.to_owned(), format!("{base}-2"), format!("{base}-3")]);
        let begun = begun_at(&out.path().join(&names[2]));
        assert_eq!(begun, Some(started_at.to_offset(UtcOffset::UTC)));
        assert_eq!(begun_at(Path::new("cell001-update_pct0-sessions1-r1")), None);
        assert_eq!(name_of(&out.path().join(&names[0])), "run-1-2");
        assert_eq!(name_of(Path::new("a/cell001-r1")), "cell001-r1");
    }

    #[test]
    fn a_file_is_replaced_whole_and_no_draft_stays() {
        let out = tempfile::tempdir().unwrap();
        let folder = RecordFolder::open(out.path());
        let content = |what: &str| format!("{{\"format\": \"petal-run/2\", \"x\": \"{what}\"}}");
        for what in ["first", "second"] {
            folder.write_atomically("run.json", content(what).as_bytes()).unwrap();
        }
        let kept = fs::read_to_string(out.path().join("run.json")).unwrap();
        assert_eq!(kept, content("second"));
        assert_eq!(fs::read_dir(out.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_folder_is_live_as_long_as_it_is_filled() {
        let out = tempfile::tempdir().unwrap();
        let begun =
            RecordFolder::create(out.path(), "run", datetime!(2026-11-20 0:00 UTC)).unwrap();
        let seen = RecordFolder::open(begun.path());
        let copy = begun.clone();
        drop(begun);
        assert!(seen.is_live());
        drop(copy);
        assert!(!seen.is_live());
        assert!(!RecordFolder::open(&out.path().join("nowhere")).is_live());
    }

    #[test]
    fn a_folder_that_takes_the_runs_place_gets_none_of_its_files() {
        let out = tempfile::tempdir().unwrap();
        let begun =
            RecordFolder::create(out.path(), "run", datetime!(2026-11-20 0:00 UTC)).unwrap();
        let moved = out.path().join("moved");
        fs::rename(begun.path(), &moved).unwrap();
        fs::create_dir(begun.path()).unwrap();
        begun.write_atomically("report.txt", b"petal 0.1.0 run report\n").unwrap();
        assert!(moved.join("report.txt").is_file() && !begun.path().join("report.txt").exists());
    }

    #[test]
    fn a_failed_write_keeps_the_old_file_and_names_the_path() {
        let out = tempfile::tempdir().unwrap();
        let folder = RecordFolder::open(out.path());
        fs::create_dir_all(out.path().join("run.json/kept")).unwrap();
        let message = folder.write_atomically("run.json", b"x").unwrap_err().to_string();
        assert!(message.contains("run.json"), "{message}");
        assert!(out.path().join("run.json/kept").is_dir());
        assert_eq!(fs::read_dir(out.path()).unwrap().count(), 1, "no draft");
    }

    #[test]
    fn a_file_in_the_way_of_the_folder_is_reported_with_a_hint() {
        let out = tempfile::tempdir().unwrap();
        let blocked = out.path().join("taken");
        fs::write(&blocked, b"mine").unwrap();
        let error =
            RecordFolder::create(&blocked, "run", datetime!(2026-11-20 0:00 UTC)).unwrap_err();
        let message = error.to_string();
        assert!(message.contains("taken") && message.contains("--out"), "{message}");
        assert!(error.is_environment());
        assert_eq!(fs::read(&blocked).unwrap(), b"mine");
    }

    #[test]
    fn a_full_device_gives_the_next_step() {
        let full = RecordError::io("write", Path::new("x/run.json"), ErrorKind::StorageFull.into());
        assert!(full.to_string().contains("free some space"), "{full}");
    }
}
