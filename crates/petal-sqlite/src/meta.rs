//! petal_meta, which a load leaves in each file, and the check of a file before it is used.

use petal_host::numbers::whole;
use std::collections::BTreeMap;
use std::path::Path;

use rusqlite::Connection;

use super::connection::{Access, AtFile, open};
use super::files;
use super::io::IoContext;
use petal_engine::on_path::OnPath;
use petal_engine::server::meta_table::{MetaValues, SchemaMeta};
use petal_engine::{EngineError, LoadPlan, Result};
use petal_record::target::LoadedSchema;

/// Whether the index is unique, which SQLite's files do not say.
const UNIQUE_INDEX: &str = "unique_index";

/// The data of one file, and how many pages it takes.
#[derive(Debug, Clone, PartialEq)]
pub struct FileMeta {
    pub about: SchemaMeta,
    /// Pages of the main table above its leaves.
    pub interior_pages: u64,
    /// All pages of the main table.
    pub main_pages: u64,
    pub index_pages: u64,
    pub scan_pages: u64,
}

impl FileMeta {
    pub fn block_bytes(&self) -> u64 {
        self.about.block_bytes.into()
    }

    pub fn loaded(&self) -> LoadedSchema {
        let block_bytes = self.block_bytes();
        self.about.loaded(self.main_pages * block_bytes, self.index_pages * block_bytes)
    }

    pub fn write(&self, connection: &Connection, plan: &LoadPlan) -> rusqlite::Result<()> {
        let mut put = connection.prepare("INSERT INTO petal_meta VALUES(?1, ?2)")?;
        let entries = SchemaMeta::entries(plan).into_iter();
        for entry in entries.filter(|(key, _)| *key != UNIQUE_INDEX) {
            put.execute(entry)?;
        }
        for (key, pages) in [
            ("schema", self.about.schema.into()),
            ("interior_pages", self.interior_pages),
            ("main_pages", self.main_pages),
            ("index_pages", self.index_pages),
            ("scan_pages", self.scan_pages),
        ] {
            put.execute((key, pages.cast_signed()))?;
        }
        let sql =
            "INSERT INTO petal_meta SELECT 'loaded_at', strftime('%Y-%m-%dT%H:%M:%SZ', 'now')";
        connection.execute(sql, [])?;
        Ok(())
    }

    /// Reads petal_meta over any connection to the file.
    pub fn read(connection: &Connection, path: &Path) -> Result<Self> {
        let place = path.display().to_string();
        let values = values(connection).at(path, "reading petal_meta")?;
        let values = MetaValues { values, place: &place, of: "its petal_meta".to_owned() };
        Ok(Self {
            about: SchemaMeta::read(values.get("schema")?, &values)?,
            interior_pages: values.get("interior_pages")?,
            main_pages: values.get("main_pages")?,
            index_pages: values.get("index_pages")?,
            scan_pages: values.get("scan_pages")?,
        })
    }

    /// Reads petal_meta from a file that is to be trusted only if it proves to be petal's and whole.
    pub fn inspect(path: &Path, schema: u32) -> Result<Self> {
        let Some((page_bytes, pages)) = files::sizes_of(path)? else {
            return Err(EngineError::Data(format!(
                "{}: it has a name of petal's but not petal's mark, so petal leaves it alone; \
                 move it away, or use another folder (--db sqlite:DIR)",
                path.display()
            )));
        };
        let expected_bytes = page_bytes * pages;
        let bytes = std::fs::metadata(path).on(path)?.len();
        if bytes != expected_bytes {
            return Err(EngineError::Data(format!(
                "{}: it has {bytes} bytes where its header says {expected_bytes} ({pages} pages \
                 of {page_bytes}): it was cut off or damaged; load it again (petal setup \
                 --replace) or remove it (petal drop)",
                path.display(),
                bytes = whole(bytes),
                expected_bytes = whole(expected_bytes),
                pages = whole(pages)
            )));
        }
        let connection = open(path, Access::Unchanging, &IoContext::default())?;
        let meta = Self::read(&connection, path)?;
        if meta.about.schema != schema {
            return Err(EngineError::Data(format!(
                "{}: it holds petal's schema {}, not {schema}; rename it back",
                path.display(),
                meta.about.schema
            )));
        }
        Ok(meta)
    }
}

fn values(connection: &Connection) -> rusqlite::Result<BTreeMap<String, String>> {
    let mut statement = connection.prepare("SELECT key, CAST(value AS TEXT) FROM petal_meta")?;
    statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use petal_workload::row::Filler;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn meta_comes_back_as_written(rows: u64, seed: u64, ratio in 1.0f64..100.0) {
            let connection = Connection::open_in_memory().unwrap();
            connection.execute_batch(&super::super::layout::create_tables()).unwrap();
            let plan = LoadPlan {
                schemas: vec![3], rows, scan_rows: 5, block_size: 8192, degree: 1, unique_index: true,
                filler: Filler::Ratio(ratio), seed, id: 12, replace: false,
            };
            let about = SchemaMeta { unique_index: None, ..SchemaMeta::of_plan(&plan, 3) };
            let meta =
                FileMeta { about, interior_pages: 1, main_pages: 2, index_pages: 3, scan_pages: 4 };
            meta.write(&connection, &plan).unwrap();
            prop_assert_eq!(meta.loaded().filler, Some(Filler::Ratio(ratio).name()));
            prop_assert_eq!(FileMeta::read(&connection, Path::new("x")).unwrap(), meta);
        }
    }
}
