//! Rows read back, for the verification of a ledger.

use std::sync::Arc;

use super::database::{OpenDatabase, failed};
use super::layout::column_bytes;
use super::session::read_rows;
use petal_engine::keyed::rows::found as found_row;
use petal_engine::{FoundRow, Result, RowReader};

pub struct RedbRows(pub Arc<OpenDatabase>);

impl RowReader for RedbRows {
    fn load(&self) -> &str {
        &self.0.meta.about.load
    }

    fn rows(&self) -> u64 {
        self.0.meta.about.rows
    }

    fn read(&mut self, first: u64, last: u64, found: &mut Vec<FoundRow>) -> Result<()> {
        let meta = &self.0.meta;
        let width = column_bytes(meta.about.block_bytes);
        let keys = first.max(1)..=last.min(meta.about.rows);
        let read = read_rows(&self.0, keys, &mut |row| {
            found.push(found_row(row, meta, width));
        });
        read.map_err(|error| failed(&self.0.path, "reading rows", &error))
    }
}
