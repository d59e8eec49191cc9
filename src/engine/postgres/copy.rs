//! Rows as PostgreSQL's binary COPY wants them
//! (<https://www.postgresql.org/docs/current/sql-copy.html>), made on the fly in scattered order.

use crate::workload::row::{COLUMNS, Filler, load_stamp};

pub const HEADER: &[u8] = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0";
pub const TRAILER: [u8; 2] = (-1i16).to_be_bytes();

/// Writes rows of one schema, the same shape each.
pub struct RowWriter {
    schema: u32,
    filler: Filler,
    column_bytes: usize,
    /// The row under way; lengths and counts stand in it from the start.
    row: Vec<u8>,
}

const KEY_AT: usize = 2 + 4;
const COLUMNS_AT: usize = KEY_AT + 8;

impl RowWriter {
    pub fn new(schema: u32, filler: Filler, column_bytes: usize) -> Self {
        let mut row = Vec::with_capacity(COLUMNS_AT + COLUMNS * (4 + column_bytes));
        row.extend_from_slice(&(COLUMNS as i16 + 1).to_be_bytes());
        row.extend_from_slice(&8i32.to_be_bytes());
        row.extend_from_slice(&[0; 8]);
        for _ in 0..COLUMNS {
            row.extend_from_slice(&(column_bytes as i32).to_be_bytes());
            row.resize(row.len() + column_bytes, 0);
        }
        Self { schema, filler, column_bytes, row }
    }

    pub fn append(&mut self, key: u64, to: &mut Vec<u8>) {
        let stamp = load_stamp(self.schema, key);
        let (head, columns) = self.row.split_at_mut(COLUMNS_AT);
        head[KEY_AT..].copy_from_slice(&key.to_be_bytes());
        for (field, column) in columns.chunks_exact_mut(4 + self.column_bytes).zip(2..) {
            self.filler.fill(&mut field[4..], stamp, column);
        }
        to.extend_from_slice(&self.row);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_has_its_key_and_nineteen_columns() {
        let mut writer = RowWriter::new(3, Filler::Constant, 16);
        let mut rows = Vec::new();
        writer.append(7, &mut rows);
        writer.append(8, &mut rows);
        assert_eq!(rows.len(), 2 * (2 + 12 + 19 * 20));
        let second = &rows[rows.len() / 2..];
        assert_eq!(&second[..14], [0, 20, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 8]);
        assert_eq!(&second[14..18], [0, 0, 0, 16]);
        let mut text = [0u8; 16];
        Filler::Constant.fill(&mut text, load_stamp(3, 8), 2);
        assert_eq!(&second[18..34], text);
        assert_eq!(HEADER.len(), 19);
    }
}
