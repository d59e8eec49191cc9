//! The shape of the data: tables, a row's width, and the cache that a row needs. No database.

use petal_engine::keyed::rows::KEY_BYTES;
use petal_workload::row::COLUMNS;
use redb::TableDefinition;

/// A table from the number of a block to its row.
pub type Blocks = TableDefinition<'static, u64, &'static [u8]>;
/// Rows in the order of their blocks: a seeded permutation gives the block of a key.
pub const MAIN: Blocks = TableDefinition::new("cf1");
pub const SCAN: Blocks = TableDefinition::new("cf2");

/// Every page is this long, or a power of two as many of them.
pub const PAGE_BYTES: u64 = 4096;

/// The part of a block that a row's columns fill, in percent. Two rows are always longer than a page
/// of 4 KiB, so that redb gives each its own leaf. A row is longer than half a block, so that the
/// leaf, a power of two, is exactly a block.
const ROW_PERCENT: usize = 72;
/// The row's own key, and the leaf's header with the key and the end of the value.
const ROW_OVERHEAD_BYTES: usize = 24 + KEY_BYTES;

/// Bytes of each filler column. It depends on nothing but the block: UPDATEs keep the length.
pub fn column_bytes(block_bytes: u32) -> usize {
    (block_bytes as usize * ROW_PERCENT / 100 - ROW_OVERHEAD_BYTES) / COLUMNS
}

/// Leaves that the cache holds for each page of branches above them.
///
/// redb evicts pages in the order in which it read them, but gives each that was found since then a
/// second chance. A row's visit reads one leaf, and finds one of the lowest branches; so a branch
/// that is found again before so many leaves for each branch were read stays.
const LEAVES_PER_BRANCH: u64 = 2;

/// Bytes of cache with which visiting a row costs about one read.
///
/// An UPDATE keeps the pages that it changed until its commit, in at most half of the cache: room for
/// `dirty` rows with the branches above each.
pub fn cache_bytes(branches: u64, block_bytes: u64, dirty: u64) -> u64 {
    let cached = branches * (PAGE_BYTES + LEAVES_PER_BRANCH * block_bytes);
    cached + 2 * dirty * (block_bytes + 3 * PAGE_BYTES) + 64 * PAGE_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;
    use petal_engine::keyed::rows::columns;

    #[test]
    fn a_leaf_of_one_row_is_a_block_and_two_rows_need_more_than_a_page() {
        for block in [4096u32, 8192, 16384, 32768] {
            let row = (columns(COLUMNS, column_bytes(block)).end + 16) as u32;
            assert_eq!(row.next_power_of_two(), block);
            assert!(2 * u64::from(row) > PAGE_BYTES);
            let share = f64::from(row) / f64::from(block);
            assert!((0.55..0.90).contains(&share), "{block}: {share}");
        }
    }
}
