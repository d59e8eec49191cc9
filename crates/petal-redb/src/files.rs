//! Files as redb makes them, with petal's mark.
//!
//! redb uses the first 320 bytes of a file's first page of 4 KiB. In the rest, which it neither reads
//! nor writes, petal keeps its mark and a load's metadata: a file is known, and described, without
//! opening the database, which may have to repair it first.

use std::collections::{BTreeMap, HashSet};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::LazyLock;

use parking_lot::Mutex;

use super::layout;
use petal_engine::file_set::{FileFormat, FileOwner, FileSet};
use petal_engine::in_use::FileId;
use petal_engine::on_path::OnPath as _;
use petal_engine::server::meta_table::{MetaValues, SchemaMeta};
use petal_engine::{EngineError, LoadPlan, Result};
use petal_model::settings::table::{EngineSupport, support};
use petal_model::stats::target::LoadedSchema;

/// The folder of a target.
pub type RedbFolder = FileSet<RedbFormat>;

/// A database file.
#[derive(Debug, Clone, Copy)]
pub struct RedbFormat;

const MARK_AT: u64 = 1024;
const MARK: &str = "petal's redb file\n";
/// Whether an index is unique, which a table of keys does not ask.
const UNIQUE_INDEX: &str = "unique_index";

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
        Ok(if notes(file)?.is_some() { FileOwner::Petal } else { FileOwner::Foreign })
    }

    fn takes_lock(&self, file: &File) -> io::Result<bool> {
        Ok(!OPEN.lock().contains(&FileId::from(&file.metadata()?)))
    }

    fn remove_sides(&self, path: &Path) -> Result<()> {
        refuse_open(path)
    }
}

/// Marks a file as petal's.
pub fn mark(file: &File) -> io::Result<()> {
    file.write_all_at(MARK.as_bytes(), MARK_AT)
}

/// The text after petal's mark; None without it.
fn notes(file: &File) -> io::Result<Option<String>> {
    let mut bytes = [0; (layout::PAGE_BYTES - MARK_AT) as usize];
    let read = file.read_at(&mut bytes, MARK_AT)?;
    let text = bytes[..read].split(|byte| *byte == 0).next().unwrap_or_default();
    let text = std::str::from_utf8(text).unwrap_or_default();
    Ok(text.strip_prefix(MARK).map(str::to_owned))
}

/// The data of one file, and how many pages it takes.
#[derive(Debug, Clone, PartialEq)]
pub struct RedbMeta {
    pub about: SchemaMeta,
    /// Seed of the permutation that gives the block of a key.
    pub seed: u64,
    /// Pages of the main table above its leaves.
    pub branch_pages: u64,
    pub main_bytes: u64,
    pub scan_bytes: u64,
}

impl RedbMeta {
    pub fn of_plan(plan: &LoadPlan, schema: u32) -> Self {
        Self {
            about: SchemaMeta { unique_index: None, ..SchemaMeta::of_plan(plan, schema) },
            seed: plan.seed,
            branch_pages: 0,
            main_bytes: 0,
            scan_bytes: 0,
        }
    }

    pub fn block_bytes(&self) -> u64 {
        self.about.block_bytes.into()
    }

    pub fn column_bytes(&self) -> usize {
        layout::column_bytes(self.about.block_bytes)
    }

    pub fn loaded(&self) -> LoadedSchema {
        self.about.loaded(self.main_bytes, 0)
    }

    /// Writes it next to petal's mark.
    pub fn write(&self, file: &File, plan: &LoadPlan) -> io::Result<()> {
        let entries = SchemaMeta::entries(plan).into_iter();
        let entries = entries.filter(|(key, _)| *key != UNIQUE_INDEX);
        let own = [
            ("schema", u64::from(self.about.schema)),
            ("branch_pages", self.branch_pages),
            ("main_bytes", self.main_bytes),
            ("scan_bytes", self.scan_bytes),
        ];
        let own = own.map(|(key, value)| (key, value.to_string()));
        let lines = entries.chain(own).map(|(key, value)| format!("{key}={value}\n"));
        let text: String = std::iter::once(MARK.to_owned()).chain(lines).collect();
        file.write_all_at(text.as_bytes(), MARK_AT)
    }

    /// Reads it from a file that is to be trusted only if it proves to be petal's and whole.
    pub fn inspect(path: &Path, schema: u32) -> Result<Self> {
        let file = RedbFormat.open(path).on(path)?;
        Self::read(&file, path, schema)
    }

    /// Reads it from an open file.
    pub fn read(file: &File, path: &Path, schema: u32) -> Result<Self> {
        let place = path.display().to_string();
        let Some(notes) = notes(file).on(path)? else {
            return Err(EngineError::Data(format!(
                "{place}: it has a name of petal's but not petal's mark, so petal leaves it alone; \
                 move it away, or use another folder (--db redb:DIR)"
            )));
        };
        let values = notes.lines().filter_map(|line| line.split_once('='));
        let values: BTreeMap<_, _> =
            values.map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
        let values = MetaValues { values, place: &place, of: "its mark".to_owned() };
        let meta = Self {
            about: SchemaMeta::read(values.get("schema")?, &values)?,
            seed: values.get("scatter_seed")?,
            branch_pages: values.get("branch_pages")?,
            main_bytes: values.get("main_bytes")?,
            scan_bytes: values.get("scan_bytes")?,
        };
        if meta.about.schema != schema {
            let number = meta.about.schema;
            return Err(EngineError::Data(format!(
                "{place}: it holds petal's schema {number}, not {schema}; rename it back"
            )));
        }
        let (bytes, loaded) = (file.metadata().on(path)?.len(), meta.main_bytes + meta.scan_bytes);
        if bytes < loaded {
            return Err(EngineError::Data(format!(
                "{place}: it has {bytes} bytes, but its tables have {loaded}: it was cut off; load \
                 it again (petal setup --replace) or remove it (petal drop)"
            )));
        }
        Ok(meta)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use petal_model::workload::row::Filler;

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
        assert!(RedbMeta::read(&file, &path, 3).unwrap_err().to_string().contains("mark"));
        let meta = RedbMeta { branch_pages: 1, main_bytes: 2, ..RedbMeta::of_plan(&plan(), 3) };
        meta.write(&file, &plan()).unwrap();
        let change = database.begin_write().unwrap();
        change.open_table(layout::MAIN).unwrap().insert(1, [1; 7000].as_slice()).unwrap();
        change.commit().unwrap();
        drop(database);
        assert_eq!(RedbMeta::read(&file, &path, 3).unwrap(), meta);
        assert!(RedbMeta::read(&file, &path, 4).unwrap_err().to_string().contains("rename"));
        file.set_len(1 << 12).unwrap();
        RedbMeta { main_bytes: 1 << 20, ..meta }.write(&file, &plan()).unwrap();
        assert!(RedbMeta::read(&file, &path, 3).unwrap_err().to_string().contains("cut off"));
    }
}
