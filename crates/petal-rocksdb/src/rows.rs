//! Rows read back, for the verification of a ledger.

use std::sync::Arc;

use super::database::OpenDatabase;
use super::layout::column_bytes;
use super::library::ColumnFamily;
use petal_engine::keyed::rows::found as found_row;
use petal_engine::{FoundRow, Result, RowReader};

pub struct RocksdbRows(pub Arc<OpenDatabase>);

impl RowReader for RocksdbRows {
    fn load(&self) -> &str {
        &self.0.meta.about.load
    }

    fn rows(&self) -> u64 {
        self.0.meta.about.rows
    }

    fn read(&mut self, first: u64, last: u64, found: &mut Vec<FoundRow>) -> Result<()> {
        let open = &self.0;
        let width = column_bytes(open.meta.about.block_bytes);
        let snapshot = open.database()?.snapshot();
        for key in first.max(1)..=last.min(open.meta.about.rows) {
            let row = |row: &[u8]| found.push(found_row(row, &open.meta, width));
            let got = snapshot.get(ColumnFamily::Main, open.order.apply(key - 1), row);
            got.map_err(|why| open.failed("reading rows", &why))?;
        }
        Ok(())
    }
}
