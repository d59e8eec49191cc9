//! Rows read back, for the verification of a ledger.

use std::sync::Arc;

use super::database::{OpenDatabase, failed};
use super::layout;
use super::session::read_rows;
use petal_engine::server::row_layout::found_row;
use petal_engine::{FoundRow, Result, RowReader};
use petal_model::workload::row::COLUMNS;

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
        let (width, filler) = (meta.column_bytes(), meta.about.filler);
        let keys = first.max(1)..=last.min(meta.about.rows);
        let read = read_rows(&self.0, keys, &mut |row| {
            let key = layout::key_of(row).unwrap_or_default();
            let columns = row
                .split_at_checked(layout::KEY_BYTES)
                .map_or([].as_slice(), |(_, columns)| columns);
            found.push(found_row(
                key,
                columns.chunks(width.max(1)).take(COLUMNS).map(Some),
                width,
                filler,
            ));
        });
        read.map_err(|error| failed(&self.0.path, "reading rows", &error))
    }
}
