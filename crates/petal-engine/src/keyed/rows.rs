//! Rows as values: the key, then the text columns. A seeded permutation gives the block of a key.

use std::ops::Range;
use std::sync::Arc;

use super::meta::KeyedMeta;
use super::session::KeyedDatabase;
use crate::server::row_layout::found_row;
use crate::{FoundRow, LoadPlan, Result, RowReader};
use petal_workload::row::{COLUMNS, load_stamp};
use petal_workload::scatter::Permutation;

/// Bytes of a row's key, from 1, before its columns.
pub const KEY_BYTES: usize = 8;

/// The key of a row.
pub fn key_of(row: &[u8]) -> Option<u64> {
    row.first_chunk().map(|bytes| u64::from_le_bytes(*bytes))
}

/// The place of a row's columns, from `c2` on.
pub fn columns(count: usize, column_bytes: usize) -> Range<usize> {
    KEY_BYTES..KEY_BYTES + count * column_bytes
}

/// A row that was read back, with the version in its columns.
fn found(row: &[u8], meta: &KeyedMeta, column_bytes: usize) -> FoundRow {
    let key = key_of(row).unwrap_or_default();
    let columns = row.split_at_checked(KEY_BYTES).map_or([].as_slice(), |(_, columns)| columns);
    let columns = columns.chunks(column_bytes.max(1)).take(COLUMNS).map(Some);
    found_row(key, columns, column_bytes, meta.about.filler)
}

/// Makes the rows of a load, in the order of their blocks.
pub struct RowMaker<'a> {
    plan: &'a LoadPlan,
    schema: u32,
    column_bytes: usize,
    order: Permutation,
    row: Vec<u8>,
}

impl<'a> RowMaker<'a> {
    /// A maker of the rows of a table that has `rows` of them.
    pub fn new(plan: &'a LoadPlan, schema: u32, rows: u64, column_bytes: usize) -> Self {
        let order = Permutation::new(rows.max(1), plan.seed);
        let row = vec![0; columns(COLUMNS, column_bytes).end];
        Self { plan, schema, column_bytes, order, row }
    }

    /// Makes the row of a block.
    pub fn row_of(&mut self, block: u64) -> &[u8] {
        let key = self.order.invert(block) + 1;
        let (begin, columns) = self.row.split_at_mut(KEY_BYTES);
        begin.copy_from_slice(&key.to_le_bytes());
        for (column, number) in columns.chunks_exact_mut(self.column_bytes).zip(2..) {
            self.plan.filler.fill(column, load_stamp(self.schema, key), number);
        }
        &self.row
    }
}

/// Rows read back, for the verification of a ledger.
pub struct KeyedRows<D> {
    pub database: Arc<D>,
    pub column_bytes: usize,
}

impl<D: KeyedDatabase> RowReader for KeyedRows<D> {
    fn load(&self) -> &str {
        &self.database.meta().about.load
    }

    fn rows(&self) -> u64 {
        self.database.meta().about.rows
    }

    fn read(&mut self, first: u64, last: u64, rows: &mut Vec<FoundRow>) -> Result<()> {
        let meta = self.database.meta();
        let keys = first.max(1)..=last.min(meta.about.rows);
        self.database.read_rows(keys, &mut |row| rows.push(found(row, meta, self.column_bytes)))
    }
}
