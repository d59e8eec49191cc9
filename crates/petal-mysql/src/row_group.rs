//! The shape of the data that a load writes for each row.

use petal_engine::server::row_layout::column_bytes;

/// A row, its padding, and the filler rows behind it, which are deleted once they have done their
/// work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowGroup {
    /// Bytes of each column of a row.
    pub column: u32,
    /// Bytes of a further column; 0 without one.
    pub padding: u32,
    /// Filler rows behind each row, and the bytes of their one column.
    pub fillers: u32,
    pub filler_bytes: u32,
}

impl RowGroup {
    /// A row alone, with columns as blocks of this size have them.
    pub fn of_row(block_bytes: u32) -> Self {
        let column = column_bytes(block_bytes) as u32;
        Self { column, padding: 0, fillers: 0, filler_bytes: 0 }
    }

    /// The last column must hold a filler, too.
    pub fn last_column_bytes(&self) -> u32 {
        self.filler_bytes.max(self.column)
    }
}
