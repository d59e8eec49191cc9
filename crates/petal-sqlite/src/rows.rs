//! Rows read back, for the verification of a ledger.

use std::path::PathBuf;

use rusqlite::Connection;

use super::connection::{Access, AtFile, open};
use super::files::TargetFolder;
use super::io::IoContext;
use super::layout;
use super::meta::FileMeta;
use petal_engine::server::row_layout::found_row;
use petal_engine::{FoundRow, Result, RowReader};
use petal_workload::row::COLUMNS;

pub struct SqliteRows {
    connection: Connection,
    context: IoContext,
    path: PathBuf,
    meta: FileMeta,
}

impl SqliteRows {
    /// Opens for writing: rows may be in the WAL of a petal that was killed, which is recovered
    /// now.
    pub fn open(folder: &TargetFolder, schema: u32) -> Result<Self> {
        let path = folder.loaded_file(schema)?;
        let context = IoContext::default();
        let connection = open(&path, Access::Write, &context)?;
        let meta = context.during(|| FileMeta::read(&connection, &path))?;
        Ok(Self { connection, context, path, meta })
    }
}

impl RowReader for SqliteRows {
    fn load(&self) -> &str {
        &self.meta.about.load
    }

    fn rows(&self) -> u64 {
        self.meta.about.rows
    }

    fn read(&mut self, first: u64, last: u64, found: &mut Vec<FoundRow>) -> Result<()> {
        let keys = [first, last].map(u64::cast_signed);
        let (width, filler) =
            (layout::column_bytes(self.meta.about.block_bytes), self.meta.about.filler);
        let read = || {
            let mut statement = self.connection.prepare_cached(&layout::rows())?;
            let mut rows = statement.query(keys)?;
            while let Some(row) = rows.next()? {
                let key = row.get::<_, i64>(0)?.cast_unsigned();
                let texts = (1..=COLUMNS).map(|at| row.get_ref(at));
                let texts = texts.collect::<rusqlite::Result<Vec<_>>>()?;
                let texts = texts.iter().map(|text| text.as_bytes().ok());
                found.push(found_row(key, texts, width, filler));
            }
            Ok(())
        };
        let read: rusqlite::Result<()> = self.context.during(read);
        read.at(&self.path, "reading rows")
    }
}
