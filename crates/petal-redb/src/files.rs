//! Files as redb makes them, with petal's mark.
//!
//! redb uses the first 320 bytes of a file's first page of 4 KiB. In the rest, which it neither reads
//! nor writes, petal keeps its mark and a load's metadata: a file is known, and described, without
//! opening the database, which may have to repair it first.

use std::collections::HashSet;
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::LazyLock;

use parking_lot::Mutex;

use petal_engine::file_set::{FileFormat, FileOwner};
use petal_engine::in_use::FileId;
use petal_engine::keyed::folder::KeyedFormat;
use petal_engine::keyed::meta::Notes;
use petal_engine::{EngineError, Result};
use petal_settings::table::{EngineSupport, support};

/// A database file.
#[derive(Debug, Clone, Copy)]
pub struct RedbFormat;

/// Files that this process has open as databases. Each has redb's lock, which petal's own would
/// meet.
static OPEN: LazyLock<Mutex<HashSet<FileId>>> = LazyLock::new(Mutex::default);

/// Notes whether this process has a file open as a database.
pub fn set_open(file: FileId, is_open: bool) {
    let mut open = OPEN.lock();
    if is_open {
        open.insert(file)
    } else {
        open.remove(&file)
    };
}

/// Refuses to replace or drop a file that a session of this process has open.
pub fn refuse_open(path: &Path) -> Result<()> {
    if FileId::of(path).is_ok_and(|file| OPEN.lock().contains(&file)) {
        let path = path.display();
        return Err(EngineError::Environment(format!(
            "{path}: a session of this petal uses it; wait until it is done"
        )));
    }
    Ok(())
}

impl FileFormat for RedbFormat {
    const ENDING: &'static str = ".redb";

    fn support(&self) -> &'static EngineSupport {
        &support::REDB
    }

    fn owner(&self, file: &File) -> io::Result<FileOwner> {
        Ok(if Self::NOTES.text(file)?.is_some() { FileOwner::Petal } else { FileOwner::Foreign })
    }

    fn takes_lock(&self, file: &File) -> io::Result<bool> {
        Ok(!OPEN.lock().contains(&FileId::from(&file.metadata()?)))
    }

    fn remove_sides(&self, path: &Path) -> Result<()> {
        refuse_open(path)
    }
}

impl KeyedFormat for RedbFormat {
    const NOTES: Notes =
        Notes { mark: "petal's redb file\n", offset: 1024, example: support::REDB.example };
}

#[cfg(test)]
mod tests {
    use super::super::layout;
    use super::*;
    use petal_engine::LoadPlan;
    use petal_engine::keyed::meta::KeyedMeta;
    use petal_workload::row::Filler;

    fn plan() -> LoadPlan {
        LoadPlan {
            schemas: vec![3],
            rows: 7,
            scan_rows: 5,
            block_size: 8192,
            degree: 1,
            unique_index: true,
            filler: Filler::Ratio(2.5),
            seed: 9,
            id: 12,
            replace: false,
        }
    }

    #[test]
    fn metadata_come_back_as_written_and_redb_keeps_them() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("petal3.redb");
        let database = redb::Database::create(&path).unwrap();
        let file = File::options().read(true).write(true).open(&path).unwrap();
        assert!(
            KeyedMeta::read_whole(RedbFormat::NOTES, &file, &path, 3)
                .unwrap_err()
                .to_string()
                .contains("mark")
        );
        let meta = KeyedMeta { branch_pages: 1, main_bytes: 2, ..KeyedMeta::of_plan(&plan(), 3) };
        meta.write(RedbFormat::NOTES, &file, &plan()).unwrap();
        let change = database.begin_write().unwrap();
        change.open_table(layout::MAIN).unwrap().insert(1, [1; 7000].as_slice()).unwrap();
        change.commit().unwrap();
        drop(database);
        assert_eq!(KeyedMeta::read_whole(RedbFormat::NOTES, &file, &path, 3).unwrap(), meta);
        assert!(
            KeyedMeta::read_whole(RedbFormat::NOTES, &file, &path, 4)
                .unwrap_err()
                .to_string()
                .contains("rename")
        );
        file.set_len(1 << 12).unwrap();
        KeyedMeta { main_bytes: 1 << 20, ..meta }.write(RedbFormat::NOTES, &file, &plan()).unwrap();
        assert!(
            KeyedMeta::read_whole(RedbFormat::NOTES, &file, &path, 3)
                .unwrap_err()
                .to_string()
                .contains("cut off")
        );
    }
}
