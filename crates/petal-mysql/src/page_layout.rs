//! The shape of the data that a load writes for each row: the layout that puts exactly one row into each page of a clustered index. InnoDB puts at least
//! two rows into a page, in the order of the primary key: so each row is written with filler rows
//! behind it, so large that the next row begins another page, and the fillers are deleted.
//!
//! MERGE_THRESHOLD=1 keeps the server from merging the remaining rows; they keep their length, so
//! updates stay in their pages.

use std::ops::RangeInclusive;

use petal_engine::server::row_layout::column_bytes;
use petal_engine::{EngineError, Result};
use petal_workload::row::COLUMNS;

/// The smallest and the largest page.
pub const PAGE_BYTES: RangeInclusive<u32> = 4096..=65536;
/// Header, trailer, the two records of every page and the first slots of its directory.
const PAGE_OVERHEAD_BYTES: u32 = 132;
/// InnoDB leaves so much of a page free while rows come in order.
const FREE_SHARE: u32 = 16;
/// The largest record of any page.
const RECORD_BYTES_MAX: u32 = 16_383;
/// Record header, null bits, lengths, keys and the two system columns; rounded up.
const RECORD_OVERHEAD_BYTES: u32 = 80;

/// A row, and the filler rows behind it, which are deleted once they have done their work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowGroup {
    /// Bytes of each column of a row.
    pub column: u32,
    /// Filler rows behind each row, and the bytes of their one column.
    pub fillers: u32,
    pub filler_bytes: u32,
}

impl RowGroup {
    /// A row with its fillers in pages of one size. Refuses sizes that InnoDB does not have.
    pub fn in_pages_of(page_bytes: u32) -> Result<Self> {
        if !PAGE_BYTES.contains(&page_bytes) {
            let why = format!("innodb_page_size is {page_bytes}, which InnoDB does not have");
            return Err(EngineError::Data(why));
        }
        let usable = page_bytes - PAGE_OVERHEAD_BYTES;
        let column = column_bytes(page_bytes) as u32;
        let row = column * COLUMNS as u32 + RECORD_OVERHEAD_BYTES;
        // Half a row below the most that is filled: a whole further row finds no room.
        let rest = usable - usable / FREE_SHARE - row / 2 - row;
        let largest = (usable / 2).min(RECORD_BYTES_MAX) - RECORD_OVERHEAD_BYTES;
        let fillers = rest.div_ceil(largest);
        Ok(Self { column, fillers, filler_bytes: rest / fillers - RECORD_OVERHEAD_BYTES })
    }

    /// The last column must hold a filler, too.
    pub fn last_column_bytes(&self) -> u32 {
        self.filler_bytes.max(self.column)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_and_its_fillers_leave_no_room_for_the_next_row_in_any_page_size() {
        for page_bytes in [4096, 8192, 16384, 32768, 65536u32] {
            let layout = RowGroup::in_pages_of(page_bytes).unwrap();
            let row = layout.column * COLUMNS as u32 + RECORD_OVERHEAD_BYTES;
            let filler = layout.filler_bytes + RECORD_OVERHEAD_BYTES;
            let usable = page_bytes - PAGE_OVERHEAD_BYTES;
            let filled = row + filler * layout.fillers;
            let most = usable - usable / FREE_SHARE;
            assert!(filled <= most && filled + row > most, "{page_bytes}: {filled} of {most}");
            assert!(filler * 2 <= usable && filler <= RECORD_BYTES_MAX, "{page_bytes}");
        }
        assert!([0, 1, 512, 2048, u32::MAX].map(RowGroup::in_pages_of).iter().all(Result::is_err));
        let fillers = |page_bytes| RowGroup::in_pages_of(page_bytes).unwrap().fillers;
        assert_eq!((fillers(16384), fillers(8192)), (2, 1));
    }
}
