//! A run's folder: its name, and files that appear whole or not at all.

use std::fs::{self, File, TryLockError};
use std::io::ErrorKind;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::OFlags;
use time::format_description::BorrowedFormatItem;
use time::macros::format_description;
use time::{OffsetDateTime, PrimitiveDateTime, UtcOffset};

use super::{RecordError, own_file};

const STAMP: &[BorrowedFormatItem<'_>] =
    format_description!("[year][month][day]T[hour][minute][second]Z");

/// Runs that may begin within one second under one name before petal gives up.
const NUMBER_MAX: u32 = 10_000;

const LOCK_TRIES: u32 = 20;
const LOCK_PAUSE: Duration = Duration::from_millis(1);

#[derive(Debug, Clone)]
pub struct RecordFolder {
    path: PathBuf,
    /// A folder that petal is filling, locked until the last copy of this value is dropped. Files
    /// go into this folder, even if its path names another one by then.
    filled: Option<Arc<File>>,
}

impl RecordFolder {
    /// Makes `out/<UTC stamp>-<name>/`, and never reuses a folder: the second one within a second
    /// gets `-2`. Characters that a file name may not have become `-`.
    pub fn create(out: &Path, name: &str, started_at: OffsetDateTime) -> Result<Self, RecordError> {
        fs::create_dir_all(out).map_err(|source| RecordError::io("make", out, source))?;
        let stamp = started_at.to_offset(UtcOffset::UTC).format(STAMP);
        let stamp = stamp.map_err(|cause| RecordError::encode("the start time", out, &cause))?;
        let base = format!("{stamp}-{}", file_name(name));
        let mut path = out.join(&base);
        for number in 2..=NUMBER_MAX {
            match fs::create_dir(&path) {
                Ok(()) => return Ok(Self::begun(path)),
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                    path = out.join(format!("{base}-{number}"));
                }
                Err(source) => return Err(RecordError::io("make", &path, source)),
            }
        }
        Err(RecordError::io("make", &path, ErrorKind::AlreadyExists.into()))
    }

    /// Makes a folder below this one, to be filled.
    pub fn inside(&self, name: &str) -> Result<Self, RecordError> {
        let path = self.path.join(file_name(name));
        fs::create_dir(&path).map_err(|source| RecordError::io("make", &path, source))?;
        Ok(Self::begun(path))
    }

    /// Opens a folder that already exists.
    pub fn open(path: &Path) -> Self {
        Self { path: path.to_owned(), filled: None }
    }

    /// A folder that was just made and is now filled: [`is_live`](Self::is_live) is true for other
    /// processes while this value lives. A file system without locks does not prevent filling it.
    pub(super) fn begun(path: PathBuf) -> Self {
        let filled = File::open(&path).ok().inspect(hold);
        Self { path, filled: filled.map(Arc::new) }
    }

    /// Whether a petal process is at work in this folder.
    pub fn is_live(&self) -> bool {
        is_locked(&self.path)
    }

    /// Removes the folder if nothing was written into it, because the run was called off.
    pub fn remove_if_empty(&self) {
        // A folder with files stays.
        let _ = std::fs::remove_dir(&self.path);
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes a whole file, and replaces only a file of petal's own ([`own_file`]).
    pub fn write_atomically(&self, name: &str, bytes: &[u8]) -> Result<PathBuf, RecordError> {
        let path = self.path.join(name);
        let written = match &self.filled {
            Some(folder) => own_file::write_in(folder, name.as_ref(), bytes),
            None => own_file::write(&path, bytes),
        };
        written.map_err(|source| RecordError::written(&path, source))?;
        Ok(path)
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

/// Whether a process holds the lock of this file or folder.
pub(super) fn is_locked(path: &Path) -> bool {
    let tried = File::open(path).map(|file| file.try_lock_shared());
    matches!(tried, Ok(Err(TryLockError::WouldBlock)))
}

/// Makes a new file. An entry of that name is removed first: a draft of a killed petal, or a link
/// to another file, which is never written through.
pub fn create_anew(path: &Path) -> std::io::Result<File> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => File::create_new(path),
    }
}

/// Opens a file that stays, such as a lock file, and makes it if it is missing. A link to another
/// file is refused.
pub fn open_unlinked(path: &Path) -> std::io::Result<File> {
    let no_link = OFlags::NOFOLLOW.bits().cast_signed();
    File::options().write(true).create(true).truncate(false).custom_flags(no_link).open(path)
}

/// The start of a run, from the name of its folder; None if petal did not give the name.
pub(super) fn begun_at(folder: &Path) -> Option<OffsetDateTime> {
    let (stamp, _) = folder.file_name()?.to_str()?.split_once('-')?;
    Some(PrimitiveDateTime::parse(stamp, STAMP).ok()?.assume_utc())
}

fn file_name(name: &str) -> String {
    let allowed =
        |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_' | '.');
    name.chars().map(|letter| if allowed(letter) { letter } else { '-' }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
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
    }

    #[test]
    fn a_file_is_replaced_whole_and_no_draft_stays() {
        let out = tempfile::tempdir().unwrap();
        let folder = RecordFolder::open(out.path());
        let content = |what: &str| format!("{{\"format\": \"petal-run/1\", \"x\": \"{what}\"}}");
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
