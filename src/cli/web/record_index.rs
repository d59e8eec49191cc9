//! The records of a folder, each with a number that stays. A record is read again only if its file
//! changed.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use petal_record::{RecordError, seconds, sweep};
use petal_report::listed::ListedRecord;

use crate::cli::live::follow::is_at_work;
use crate::cli::record_folders::{DEPTH_MAX, listed, records_below};
use crate::cli::record_kinds;

/// Records in a list; older ones are left out.
const LISTED_MAX: usize = 2_000;
/// Records on whose files petal keeps an eye: a folder that others fill costs no more memory.
const KNOWN_MAX: usize = 100_000;

pub struct RecordIndex {
    /// The folder, as the caller named it.
    folder: PathBuf,
    /// Path of the folder without links.
    real: PathBuf,
    known: Vec<Shelved>,
    numbers: HashMap<PathBuf, usize>,
}

struct Shelved {
    path: PathBuf,
    row: Option<(Stamp, ListedRecord)>,
}

/// Identity of a file's content: device, inode, length, and time of its last change.
type Stamp = (u64, u64, u64, i64, i64);

/// The list, and a line for each record that is not in it.
#[derive(Default)]
pub struct Listing {
    pub records: Vec<ListedRecord>,
    pub problems: Vec<String>,
}

impl RecordIndex {
    pub fn of(folder: &Path) -> Result<Self, RecordError> {
        let real = fs::canonicalize(folder);
        let real = real.map_err(|error| RecordError::io("read", folder, error))?;
        let (known, numbers) = (Vec::new(), HashMap::new());
        Ok(Self { folder: folder.to_owned(), real, known, numbers })
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Looks through the folder: the newest record is first.
    pub fn list(&mut self) -> Listing {
        let mut listing = Listing::default();
        let problems = &mut listing.problems;
        let mut found = records_below(&self.folder, DEPTH_MAX, &mut |why| problems.push(why));
        found.reverse();
        if found.len() > LISTED_MAX {
            let more = found.len() - LISTED_MAX;
            problems.push(format!("{more} older records: serve a folder with fewer"));
            found.truncate(LISTED_MAX);
        }
        for path in found {
            match self.row(&path) {
                Ok(row) => listing.records.push(row),
                Err(why) => listing.problems.push(format!("{}: {why}", path.display())),
            }
        }
        listing
    }

    /// The record with this key, if it is still there and nothing in it leads out of the folder.
    pub fn path(&self, key: &str) -> Option<&Path> {
        let known = self.known.get(key.parse::<usize>().ok()?)?;
        self.holds(&known.path).then_some(&known.path)
    }

    fn row(&mut self, path: &Path) -> Result<ListedRecord, String> {
        if !self.holds(path) {
            return Err("a link in it leads out of the folder".to_owned());
        }
        let number = match self.numbers.get(path) {
            Some(number) => *number,
            None if self.known.len() == KNOWN_MAX => return Err("start petal serve again".into()),
            None => {
                self.known.push(Shelved { path: path.to_owned(), row: None });
                self.numbers.insert(path.to_owned(), self.known.len() - 1);
                self.known.len() - 1
            }
        };
        let stamp = stamp(path);
        let is_live = is_at_work(path);
        let shelved = &mut self.known[number];
        if let (Some((of, row)), Some(now)) = (&shelved.row, stamp)
            && *of == now
            && !is_live
        {
            return Ok(row.clone());
        }
        let name = match path.strip_prefix(&self.folder) {
            Ok(below) if !below.as_os_str().is_empty() => below,
            _ => Path::new(path.file_name().unwrap_or(path.as_os_str())),
        };
        let row = listed(path, name.display().to_string()).map_err(|error| error.to_string())?;
        let row = ListedRecord { key: number.to_string(), ..row };
        shelved.row = stamp.filter(|_| !is_live).map(|stamp| (stamp, row.clone()));
        Ok(row)
    }

    /// True if all files of the record are below the folder, also those that links name.
    fn holds(&self, path: &Path) -> bool {
        is_inside(&self.real, path, 1)
    }
}

fn is_inside(real: &Path, folder: &Path, depth: usize) -> bool {
    let leads_inside = |path: &Path| fs::canonicalize(path).is_ok_and(|it| it.starts_with(real));
    let Ok(entries) = fs::read_dir(folder) else { return false };
    leads_inside(folder)
        && entries.flatten().all(|entry| match entry.file_type() {
            Ok(kind) if kind.is_symlink() => leads_inside(&entry.path()),
            // The cells of a sweep.
            Ok(kind) if kind.is_dir() && depth > 0 => is_inside(real, &entry.path(), depth - 1),
            kind => kind.is_ok(),
        })
}

/// The stamp of the file that a record's row is made of.
fn stamp(folder: &Path) -> Option<Stamp> {
    let names = [sweep::NAME, "run.json"].into_iter().chain(record_kinds::files());
    let mut names = names.chain([seconds::NAME]);
    let about = names.find_map(|name| fs::metadata(folder.join(name)).ok())?;
    Some((about.dev(), about.ino(), about.len(), about.mtime(), about.mtime_nsec()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use petal_record::{self as record, RecordFolder, fixture};
    use std::os::unix::fs::symlink;

    fn saved(folder: &Path) {
        fs::create_dir_all(folder).unwrap();
        record::save(&RecordFolder::open(folder), &fixture::mixed_run()).unwrap();
    }

    fn names(listing: &Listing) -> Vec<&str> {
        listing.records.iter().map(|record| record.name.as_str()).collect()
    }

    #[test]
    fn the_newest_is_first_keeps_its_key_and_is_read_again_when_it_changes() {
        let dir = tempfile::tempdir().unwrap();
        let below = |name: &str| dir.path().join(name);
        ["run-2", "deep/run-1"].iter().for_each(|name| saved(&below(name)));
        let mut index = RecordIndex::of(dir.path()).unwrap();
        let first = index.list();
        assert_eq!(names(&first), ["run-2", "deep/run-1"]);
        let key = first.records[0].key.clone();
        let mut run = fixture::mixed_run();
        run.summary.sessions = 99;
        record::save(&RecordFolder::open(&below("run-2")), &run).unwrap();
        saved(&below("run-3"));
        let second = index.list();
        assert_eq!(names(&second), ["run-3", "run-2", "deep/run-1"]);
        assert_eq!((&second.records[1].key, second.records[1].sessions.as_str()), (&key, "99"));
        assert_eq!(index.path(&key), Some(below("run-2").as_path()));
        for wrong in ["", "9", "-1", "../run-2", "run-2"] {
            assert_eq!(index.path(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_link_out_of_the_folder_is_not_followed() {
        let (dir, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        saved(&outside.path().join("secret"));
        saved(&dir.path().join("run-1"));
        let mut index = RecordIndex::of(dir.path()).unwrap();
        let key = index.list().records[0].key.clone();
        symlink(outside.path().join("secret"), dir.path().join("run-2")).unwrap();
        fs::create_dir(dir.path().join("run-3")).unwrap();
        let file = outside.path().join("secret/run.json");
        symlink(&file, dir.path().join("run-3/run.json")).unwrap();
        let listing = index.list();
        assert_eq!(names(&listing), ["run-1"]);
        assert!(listing.problems[0].contains("run-3: a link in it"), "{:?}", listing.problems);
        // One that came after it was listed.
        symlink(&file, dir.path().join("run-1/latency.hlog")).unwrap();
        assert_eq!(index.path(&key), None);
    }
}
