//! petal_meta, which a load leaves in each file, and the check of a file before it is used.

use std::collections::BTreeMap;
use std::path::Path;

use rusqlite::Connection;

use super::connection::{Access, AtFile, open};
use super::files::{FileHeader, header};
use super::io::IoContext;
use super::layout::FORMAT;
use petal_engine::on_path::OnPath;
use petal_engine::server::meta_table::MetaValues;
use petal_engine::{EngineError, Result};
use petal_model::stats::target::LoadedSchema;
use petal_model::workload::row::Filler;

/// The data of one file, and how many pages it takes.
#[derive(Debug, Clone, PartialEq)]
pub struct FileMeta {
    pub schema: u32,
    pub rows: u64,
    pub scan_rows: u64,
    pub block_bytes: u32,
    pub filler: Filler,
    pub scatter_seed: u64,
    /// Which load it is.
    pub load: String,
    /// Pages of the main table above its leaves.
    pub interior_pages: u64,
    /// All pages of the main table.
    pub main_pages: u64,
    pub index_pages: u64,
    pub scan_pages: u64,
}

impl FileMeta {
    pub fn loaded(&self) -> LoadedSchema {
        let block_size = u64::from(self.block_bytes);
        LoadedSchema {
            number: self.schema,
            rows: self.rows,
            scan_rows: self.scan_rows,
            block_size,
            bytes: self.main_pages * block_size,
            index_bytes: self.index_pages * block_size,
            filler: Some(self.filler.name()),
            unique_index: None,
        }
    }

    pub fn write(&self, connection: &Connection) -> rusqlite::Result<()> {
        let mut put = connection.prepare("INSERT INTO petal_meta VALUES(?1, ?2)")?;
        put.execute(("mark", "petal"))?;
        put.execute(("format", FORMAT))?;
        put.execute(("petal_version", env!("CARGO_PKG_VERSION")))?;
        put.execute(("schema", self.schema))?;
        put.execute(("block_size", self.block_bytes))?;
        // SQLite's integers are signed: the bits are kept.
        for (key, value) in [
            ("rows", self.rows),
            ("scan_rows", self.scan_rows),
            ("scatter_seed", self.scatter_seed),
            ("interior_pages", self.interior_pages),
            ("main_pages", self.main_pages),
            ("index_pages", self.index_pages),
            ("scan_pages", self.scan_pages),
        ] {
            put.execute((key, value.cast_signed()))?;
        }
        put.execute(("filler", self.filler.name()))?;
        put.execute(("load", &self.load))?;
        let loaded_at =
            connection.query_row("SELECT strftime('%Y-%m-%dT%H:%M:%SZ', 'now')", [], |row| {
                row.get::<_, String>(0)
            })?;
        put.execute(("loaded_at", loaded_at))?;
        Ok(())
    }

    /// Reads petal_meta over any connection to the file.
    pub fn read(connection: &Connection, path: &Path) -> Result<Self> {
        let place = path.display().to_string();
        let values = values(connection).at(path, "reading petal_meta")?;
        let values = MetaValues { values, place: &place, of: "its petal_meta".to_owned() };
        values.check_format(FORMAT)?;
        // SQLite's integers are signed: the bits are kept.
        let number = |key| values.get::<i64>(key).map(i64::cast_unsigned);
        Ok(Self {
            schema: values.get("schema")?,
            rows: number("rows")?,
            scan_rows: number("scan_rows")?,
            block_bytes: values.get("block_size")?,
            filler: values.filler()?,
            scatter_seed: number("scatter_seed")?,
            load: values.load(),
            interior_pages: number("interior_pages")?,
            main_pages: number("main_pages")?,
            index_pages: number("index_pages")?,
            scan_pages: number("scan_pages")?,
        })
    }

    /// Reads petal_meta from a file that is to be trusted only if it proves to be petal's and whole.
    pub fn inspect(path: &Path, schema: u32) -> Result<Self> {
        let FileHeader::Petal { page_bytes, pages } = header(path)? else {
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
                path.display()
            )));
        }
        let connection = open(path, Access::Unchanging, &IoContext::default())?;
        let meta = Self::read(&connection, path)?;
        if meta.schema != schema {
            return Err(EngineError::Data(format!(
                "{}: it holds petal's schema {}, not {schema}; rename it back",
                path.display(),
                meta.schema
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
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn meta_comes_back_as_written(rows: u64, seed: u64, ratio in 1.0f64..100.0) {
            let connection = Connection::open_in_memory().unwrap();
            connection.execute_batch(&super::super::layout::create_tables()).unwrap();
            let meta = FileMeta {
                schema: 3, rows, scan_rows: 5, block_bytes: 8192, filler: Filler::Ratio(ratio),
                scatter_seed: seed, load: "12".into(), interior_pages: 1, main_pages: 2, index_pages: 3, scan_pages: 4,
            };
            meta.write(&connection).unwrap();
            prop_assert_eq!(meta.loaded().filler, Some(Filler::Ratio(ratio).name()));
            prop_assert_eq!(FileMeta::read(&connection, Path::new("x")).unwrap(), meta);
        }
    }
}
