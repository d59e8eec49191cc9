//! The shape of the data: a row's width, its SQL, a session's cache. No connection.

use petal_engine::server::row_layout::{ALL_COLUMNS, each_column, row_columns};
use petal_settings::RedoStress;
use petal_workload::row::{COLUMNS, changed_columns};

/// The application ID in the header of every petal database file: `petl`.
pub const APPLICATION_ID: u32 = 0x7065_746C;

/// The part of a usable page that a row's columns fill, in percent: two rows never fit in one
/// page, and none needs an overflow page (a table leaf takes cells up to the page less 35 bytes).
const ROW_PERCENT: usize = 72;
/// Record header (a size, custid's type, nineteen types of two bytes), custid and cell header.
const ROW_OVERHEAD_BYTES: usize = 48;

/// Bytes of each filler column. It depends on nothing but the page: UPDATEs keep the length.
pub fn column_bytes(page_bytes: u32) -> usize {
    (page_bytes as usize * ROW_PERCENT / 100 - ROW_OVERHEAD_BYTES) / COLUMNS
}

/// Both tables; keys and filler in one row.
pub fn create_tables() -> String {
    let columns = each_column(ALL_COLUMNS, |column| format!("c{column} TEXT"), ", ");
    format!(
        "CREATE TABLE cf1(custid INTEGER, {columns});
         CREATE TABLE cf2(custid INTEGER, {columns});
         CREATE TABLE petal_meta(key TEXT PRIMARY KEY, value) WITHOUT ROWID;"
    )
}

pub fn insert(table: &str) -> String {
    let marks = vec!["?"; COLUMNS + 1].join(", ");
    format!("INSERT INTO {table} VALUES({marks})")
}

pub fn create_index(unique: bool) -> &'static str {
    if unique {
        "CREATE UNIQUE INDEX cf1_custid ON cf1(custid)"
    } else {
        "CREATE INDEX cf1_custid ON cf1(custid)"
    }
}

/// COUNT(c2) visits the row, because c2 may be null and is not in the index.
pub const SELECT: &str = "SELECT COUNT(c2) FROM cf1 WHERE custid BETWEEN ?1 AND ?2";
pub const SCAN: &str = "SELECT COUNT(c2) FROM cf2";

/// Whole rows of a range of keys.
pub fn rows() -> String {
    format!("SELECT {} FROM cf1 WHERE custid BETWEEN ?1 AND ?2", row_columns())
}

/// The keys are the first two parameters, the columns follow.
pub fn update(redo_stress: RedoStress) -> String {
    let changed = 2..changed_columns(redo_stress) + 2;
    let set = each_column(changed, |column| format!("c{column} = ?{}", column + 1), ", ");
    format!("UPDATE cf1 SET {set} WHERE custid BETWEEN ?1 AND ?2")
}

/// Pages a session caches so that visiting a row costs one read.
///
/// SQLite evicts the page that was used longest ago. A row's visit uses one of the table's
/// `interior` pages and one leaf that nobody will want again soon, so an interior page is still
/// there when it is needed next with probability 1 - exp(-spare/interior), where `spare` is the
/// room for pages used since. Eight times the interior pages leaves 3 misses in 10,000 rows.
/// `index` pages more hold the index; its leaves are wanted once per operation, not per row, so
/// those of a large index are read again then (about one read per operation). Measured with
/// WORK_UNIT 64 on 64 and 256 MiB: 0.997 to 1.009 reads per row at 4, 8 and 32 KiB.
/// An UPDATE pins the pages it changed until its commit: room for `dirty` more.
pub fn cache_pages(interior: u64, index: u64, dirty: u64) -> u64 {
    index + 8 * interior + dirty + 16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_fill_most_of_a_page_and_never_overflow() {
        for page in [4096u32, 8192, 16384, 32768] {
            let columns = column_bytes(page) * COLUMNS;
            assert!(columns + ROW_OVERHEAD_BYTES <= page as usize - 35, "{page}");
            // A page has an 8-byte header and 2 bytes for each cell.
            assert!(2 * columns > page as usize - 12, "two rows fit into {page}");
            let share = columns as f64 / f64::from(page);
            assert!((0.55..0.90).contains(&share), "{page}: {share}");
            // Types of two bytes need texts of 58 to 8,185 bytes.
            assert!((58..8186).contains(&column_bytes(page)));
        }
    }

    #[test]
    fn lite_changes_two_columns_and_heavy_all() {
        insta::assert_snapshot!(update(RedoStress::Lite), @"UPDATE cf1 SET c2 = ?3, c3 = ?4 WHERE custid BETWEEN ?1 AND ?2");
        assert_eq!(update(RedoStress::Heavy).matches(" = ?").count(), COLUMNS);
    }
}
