//! Metadata of a load as lines of text behind petal's mark, in a part of a file that the database
//! neither reads nor writes. A file is known, and described, without opening the database.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use crate::on_path::OnPath as _;
use crate::server::meta_table::{MetaValues, SchemaMeta};
use crate::{EngineError, LoadPlan, Result};
use petal_record::target::LoadedSchema;

/// The length of mark and metadata at most.
const BYTES_MAX: usize = 3072;
/// Whether an index is unique, which a table of keys does not ask.
const UNIQUE_INDEX: &str = "unique_index";

/// The place of the metadata in a file of one engine, and petal's mark before it.
#[derive(Debug, Clone, Copy)]
pub struct Notes {
    pub mark: &'static str,
    pub offset: u64,
    /// The URL of the engine, as help shows it.
    pub example: &'static str,
}

impl Notes {
    /// Marks a file as petal's.
    pub fn mark(&self, file: &File) -> io::Result<()> {
        file.write_all_at(self.mark.as_bytes(), self.offset)
    }

    /// The text after petal's mark; None without it.
    pub fn text(&self, file: &File) -> io::Result<Option<String>> {
        let mut bytes = [0; BYTES_MAX];
        let read = file.read_at(&mut bytes, self.offset)?;
        let text = bytes[..read].split(|byte| *byte == 0).next().unwrap_or_default();
        let text = std::str::from_utf8(text).unwrap_or_default();
        Ok(text.strip_prefix(self.mark).map(str::to_owned))
    }
}

/// The data of one schema, and how much room it takes.
#[derive(Debug, Clone, PartialEq)]
pub struct KeyedMeta {
    pub about: SchemaMeta,
    /// Seed of the permutation that gives the block of a key.
    pub seed: u64,
    /// Pages of the main table above those of its rows.
    pub branch_pages: u64,
    pub main_bytes: u64,
    pub scan_bytes: u64,
}

impl KeyedMeta {
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

    pub fn loaded(&self) -> LoadedSchema {
        self.about.loaded(self.main_bytes, 0)
    }

    /// Writes it next to petal's mark.
    pub fn write(&self, notes: Notes, file: &File, plan: &LoadPlan) -> io::Result<()> {
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
        let text: String = std::iter::once(notes.mark.to_owned()).chain(lines).collect();
        file.write_all_at(text.as_bytes(), notes.offset)
    }

    /// Reads it from an open file, which is to be trusted only if it proves to be petal's.
    fn read(notes: Notes, file: &File, path: &Path, schema: u32) -> Result<Self> {
        let place = path.display().to_string();
        let Some(text) = notes.text(file).on(path)? else {
            return Err(EngineError::Data(format!(
                "{place}: it has a name of petal's but not petal's mark, so petal leaves it alone; \
                 move it away, or use another folder (--db {})",
                notes.example
            )));
        };
        let values = text.lines().filter_map(|line| line.split_once('='));
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
        Ok(meta)
    }

    /// Reads it from a database file, which must hold all that was loaded.
    pub fn read_whole(notes: Notes, file: &File, path: &Path, schema: u32) -> Result<Self> {
        let meta = Self::read(notes, file, path, schema)?;
        let (bytes, loaded) = (file.metadata().on(path)?.len(), meta.main_bytes + meta.scan_bytes);
        if bytes >= loaded {
            return Ok(meta);
        }
        Err(EngineError::Data(format!(
            "{}: it has {bytes} bytes, but its tables have {loaded}: it was cut off; load it again \
             (petal setup --replace) or remove it (petal drop)",
            path.display()
        )))
    }
}
