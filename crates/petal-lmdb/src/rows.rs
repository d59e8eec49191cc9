//! Rows read back, for the verification of a ledger.

use std::sync::Arc;

use super::database::{OpenDatabase, failed};
use super::layout::column_bytes;
use petal_engine::keyed::rows::found as found_row;
use petal_engine::{FoundRow, Result, RowReader};

pub struct LmdbRows(pub Arc<OpenDatabase>);

impl RowReader for LmdbRows {
    fn load(&self) -> &str {
        &self.0.meta.about.load
    }

    fn rows(&self) -> u64 {
        self.0.meta.about.rows
    }

    fn read(&mut self, first: u64, last: u64, found: &mut Vec<FoundRow>) -> Result<()> {
        let open = &self.0;
        let width = column_bytes(open.meta.about.block_bytes);
        let mut read = || {
            let snapshot = open.environment.read_txn()?;
            for key in first.max(1)..=last.min(open.meta.about.rows) {
                if let Some(row) = open.main.get(&snapshot, &open.order.apply(key - 1))? {
                    found.push(found_row(row, &open.meta, width));
                }
            }
            Ok(())
        };
        read().map_err(|error| failed(&open.path, "reading rows", &error))
    }
}
