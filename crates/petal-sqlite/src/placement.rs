//! Counts rows and pages by SQLite's own physical view, the dbstat table.

use std::path::Path;

use rusqlite::Connection;

use super::connection::AtFile;
use petal_engine::{Placement, Result};

/// Pages of one table or index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pages {
    pub leaves: u64,
    pub interior: u64,
    pub overflow: u64,
    /// Cells in leaves: rows, or index entries.
    pub cells: u64,
    /// The most cells in one leaf.
    pub cells_max: u64,
}

impl Pages {
    pub fn all(&self) -> u64 {
        self.leaves + self.interior + self.overflow
    }
}

/// Visits every page of a table or index.
pub fn count_pages(connection: &Connection, path: &Path, name: &str) -> Result<Pages> {
    let sql = "SELECT coalesce(sum(pagetype = 'leaf'), 0), \
                      coalesce(sum(pagetype = 'internal'), 0), \
                      coalesce(sum(pagetype = 'overflow'), 0), \
                      coalesce(sum(ncell) FILTER (WHERE pagetype = 'leaf'), 0), \
                      coalesce(max(ncell) FILTER (WHERE pagetype = 'leaf'), 0) \
               FROM dbstat WHERE name = ?1";
    connection
        .query_row(sql, [name], |row| {
            let number = |column| row.get::<_, i64>(column).map(i64::cast_unsigned);
            Ok(Pages {
                leaves: number(0)?,
                interior: number(1)?,
                overflow: number(2)?,
                cells: number(3)?,
                cells_max: number(4)?,
            })
        })
        .at(path, "counting its pages")
}

impl From<Pages> for Placement {
    fn from(pages: Pages) -> Self {
        Self {
            rows: pages.cells,
            blocks: pages.leaves,
            rows_per_block_max: pages.cells_max,
            overflow_blocks: Some(pages.overflow),
            source: "dbstat",
        }
    }
}
