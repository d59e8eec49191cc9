//! The shape of a row in a database with blocks of 8 KiB, and the text of an UPDATE on its way
//! there.

use std::ops::Range;

use crate::FoundRow;
pub use petal_workload::row::STAMP_BYTES;
use petal_workload::row::{COLUMNS, Filler};
use petal_workload::version::read_stamps;

/// Bytes of each of the 19 columns: a row of them leaves room in its block for new versions of it.
pub const COLUMN_BYTES: usize = 128;
const BLOCK_BYTES: u32 = 8192;

/// Bytes of each column: smaller blocks than the usual have smaller rows.
pub fn column_bytes(block_bytes: u32) -> usize {
    COLUMN_BYTES * block_bytes.min(BLOCK_BYTES) as usize / BLOCK_BYTES as usize
}

/// The new text of an UPDATE's columns, one after the other; its memory is used again.
#[derive(Default)]
pub struct UpdateText(Vec<u8>);

impl UpdateText {
    /// `columns` of `width` bytes each, from `c2` on.
    pub fn make(&mut self, filler: Filler, stamp: u64, width: usize, columns: usize) -> &str {
        self.0.resize(width * columns, 0);
        for (column, number) in self.0.chunks_exact_mut(width.max(1)).zip(2..) {
            filler.fill(column, stamp, number);
        }
        // Filler is ASCII.
        std::str::from_utf8(&self.0).unwrap_or_default()
    }
}

/// A row that was read back, its columns from `c2` on; `None` means NULL.
pub fn found_row<'a>(
    key: u64,
    columns: impl Iterator<Item = Option<&'a [u8]>>,
    width: usize,
    filler: Filler,
) -> FoundRow {
    let columns: Vec<&[u8]> = columns.map(Option::unwrap_or_default).collect();
    FoundRow { key, stamps: read_stamps(&columns, width, filler) }
}

/// `custid, c2, c3, ... c20`
pub fn row_columns() -> String {
    format!("custid, {}", each_column(ALL_COLUMNS, |column| format!("c{column}"), ", "))
}

/// `c2` to `c20`.
pub const ALL_COLUMNS: Range<usize> = 2..COLUMNS + 2;

/// A text for each of these columns, with another between two.
pub fn each_column(columns: Range<usize>, text: impl Fn(usize) -> String, between: &str) -> String {
    columns.map(text).collect::<Vec<_>>().join(between)
}

/// Splits a column after its stamp, the part that differs from UPDATE to UPDATE.
pub fn split_stamp(column: &str) -> (&str, &str) {
    column.split_at_checked(STAMP_BYTES).unwrap_or((column, ""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_of_constant_filler_differ_in_their_stamp_alone() {
        let (mut one, mut other) = (UpdateText::default(), UpdateText::default());
        for stamp in [0, 35, 1 << 40, u64::MAX - 1] {
            let one = one.make(Filler::Constant, stamp, 128, COLUMNS);
            let other = other.make(Filler::Constant, stamp + 1, 128, 1);
            let (stamp, tail) = split_stamp(&one[..128]);
            // All columns are equal, and the tail is the same in each UPDATE.
            assert_eq!(one, format!("{stamp}{tail}").repeat(COLUMNS));
            assert_eq!(tail, split_stamp(other).1);
            assert_ne!(stamp, split_stamp(other).0);
        }
        assert_eq!(split_stamp("short"), ("short", ""));
    }

    #[test]
    fn smaller_blocks_have_smaller_rows_and_larger_ones_the_usual() {
        let bytes = [2048, 4096, 8192, 32768].map(column_bytes);
        assert_eq!(bytes, [32, 64, 128, 128]);
    }
}
