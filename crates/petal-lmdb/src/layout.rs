//! The shape of the data: tables and a row's width. No database.

use petal_engine::keyed::rows::KEY_BYTES;
use petal_workload::row::COLUMNS;

/// Rows in the order of their blocks: a seeded permutation gives the block of a key.
pub const MAIN: &str = "cf1";
pub const SCAN: &str = "cf2";

/// Every page is this long: the memory's page.
pub const PAGE_BYTES: u64 = 4096;
/// The head of an overflow page, before the row.
const PAGE_HEAD_BYTES: usize = 16;

/// Bytes of each filler column. A row fills one overflow page: LMDB puts no value that is longer than
/// half a page next to others.
pub fn column_bytes(block_bytes: u32) -> usize {
    (block_bytes as usize - PAGE_HEAD_BYTES - KEY_BYTES) / COLUMNS
}

/// The size of the map, which the file may grow to. It costs addresses, not memory: a commit writes
/// pages to new places, and those that a long read may still use are not free yet.
pub fn map_bytes(data_bytes: u64) -> u64 {
    2 * data_bytes + (1 << 30)
}

#[cfg(test)]
mod tests {
    use super::*;
    use petal_engine::keyed::rows::columns;

    #[test]
    fn a_row_fills_one_overflow_page() {
        let row = columns(COLUMNS, column_bytes(PAGE_BYTES as u32)).end;
        assert!(row > PAGE_BYTES as usize / 2);
        assert!(
            (PAGE_BYTES as usize - 64..=PAGE_BYTES as usize).contains(&(row + PAGE_HEAD_BYTES))
        );
    }
}
