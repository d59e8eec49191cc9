//! SLOB's own schemas, recognised by their shape: user1 up to the first missing one. Each must have
//! keys from 1 without a gap, and an index that begins with the key. petal only reads them: it
//! counts rows, and uses segment sizes if the user may see them.

use super::database::Database;
use super::link::{BindValue, Row};
use super::meta::{OracleSchema, Tables, cell, count, number};
use super::sql;
use petal_engine::server::meta_table::SchemaMeta;
use petal_engine::server::row_layout::COLUMN_BYTES;
use petal_engine::{EngineError, Result};
use petal_host::numbers::whole;
use petal_workload::row::Filler;

/// Section of `look.sql` with owner, name, bytes and blocks of SLOB's tables and indexes, if the
/// user may see them.
const OWN_SEGMENTS: &str = "slob_segments";
/// Sources of a size, the best first.
const SEGMENTS: &str = "DBA_SEGMENTS";
const STATISTICS: &str = "the dictionary's statistics, which may be old (grant SELECT on DBA_SEGMENTS \
    for real sizes)";
const COUNTED: &str =
    "the rows counted, a block each (grant SELECT on DBA_SEGMENTS for real sizes)";

/// Returns every SLOB schema that the user may read.
pub fn schemas(database: &mut Database) -> Result<Vec<OracleSchema>> {
    let tables = database.look("looking for SLOB's schemas", "slob_tables")?;
    let indexes = database.look("looking for SLOB's indexes", "slob_indexes")?;
    let segments = database.look_if_allowed(OWN_SEGMENTS);
    let mut metas = Vec::new();
    for schema in 1.. {
        let owner = format!("USER{schema}");
        let of =
            |table: &str| tables.iter().find(|row| cell(row, 0) == owner && cell(row, 1) == table);
        let Some(main) = of("CF1") else { break };
        let index = indexes.iter().find(|row| cell(row, 0) == owner).ok_or_else(|| {
            EngineError::Data(format!(
                "{}: {owner}.CF1 has no index on CUSTID that the user may see; finish SLOB's \
                 own setup, or grant SELECT on the table",
                database.place
            ))
        })?;
        let found =
            SlobTables { schema, main, has_scan: of("CF2").is_some(), index, segments: &segments };
        metas.push(found.meta(database)?);
    }
    Ok(metas)
}

/// Returns the current bytes of main tables and indexes of these schemas, or `None` unless all are
/// visible.
pub fn bytes(database: &mut Database, metas: &[OracleSchema]) -> Option<u64> {
    if metas.iter().any(|meta| meta.sizes_from != SEGMENTS) {
        return None;
    }
    let segments = database.look_if_allowed(OWN_SEGMENTS);
    let is_one = |row: &&Row| {
        cell(row, 1) != "CF2" && metas.iter().any(|meta| cell(row, 0) == owner(meta.about.schema))
    };
    let mut sizes = segments.iter().filter(is_one).map(|row| count(row, 2)).peekable();
    sizes.peek()?;
    sizes.try_fold(0_u64, |sum, size| Some(sum.saturating_add(size?)))
}

fn owner(schema: u32) -> String {
    format!("USER{schema}")
}

struct SlobTables<'a> {
    schema: u32,
    main: &'a Row,
    has_scan: bool,
    index: &'a Row,
    segments: &'a [Row],
}

impl SlobTables<'_> {
    fn meta(&self, database: &mut Database) -> Result<OracleSchema> {
        let tables = Tables::of_slob(self.schema);
        let rows = keys(database, &tables.main)?;
        let width = read(database, "slob_width", &tables.main, &[BindValue::Number(1)])?;
        let scan_rows = match self.has_scan {
            true => read(database, "slob_rows", &tables.scan, &[])?,
            false => Vec::new(),
        };
        let block_bytes = self.block_bytes(database)?;
        let (bytes, index_bytes, sizes_from) = self.sizes(rows, block_bytes);
        Ok(OracleSchema {
            about: SchemaMeta {
                schema: self.schema,
                rows,
                scan_rows: scan_rows.first().map_or(0, |row| number(row, 0)),
                block_bytes,
                filler: Filler::Constant,
                unique_index: None,
                load: String::new(),
            },
            // UPDATEs keep the existing length.
            width: width.first().map_or(0, |row| number(row, 0) as usize).clamp(1, COLUMN_BYTES),
            tablespace: cell(self.main, 3).to_owned(),
            bytes,
            index_bytes,
            sizes_from,
            tables,
            is_slobs: true,
        })
    }

    fn segment(&self, name: &str) -> Option<&Row> {
        let owner = owner(self.schema);
        self.segments.iter().find(|row| cell(row, 0) == owner && cell(row, 1) == name)
    }

    /// Returns the block size of the tablespace. Without a quota there, USER_TABLESPACES lacks it.
    /// Then the segment's is used, or else the database's own, which is wrong for a tablespace with
    /// a different block size.
    fn block_bytes(&self, database: &mut Database) -> Result<u32> {
        let of_segment = self.segment("CF1").and_then(|row| {
            let (bytes, blocks) = (number(row, 2), number(row, 3));
            bytes.checked_div(blocks).and_then(|bytes| u32::try_from(bytes).ok())
        });
        if let Some(bytes) = of_segment {
            return Ok(bytes);
        }
        let tablespace = [BindValue::from(cell(self.main, 3))];
        let asked = [("tablespace", &tablespace[..]), ("block_size", &[])];
        for (name, binds) in asked {
            let query = sql::section(sql::LOOK, name);
            let rows = database.link.query(&query, binds).unwrap_or_default();
            if let Some(bytes) = rows.first().map(|row| number(row, 0)).filter(|bytes| *bytes > 0) {
                return Ok(bytes as u32);
            }
        }
        Err(EngineError::Environment(format!(
            "{}: the block size of {}.CF1 cannot be seen; grant SELECT on DBA_SEGMENTS \
             (docs/engines/oracle-grants.sql, part 6)",
            database.place,
            owner(self.schema)
        )))
    }

    /// Returns the bytes of main table and index, and their source.
    fn sizes(&self, rows: u64, block_bytes: u32) -> (Option<u64>, Option<u64>, &'static str) {
        let block = u64::from(block_bytes);
        let index = cell(self.index, 1);
        if let (Some(main), Some(index)) = (self.segment("CF1"), self.segment(index)) {
            return (count(main, 2), count(index, 2), SEGMENTS);
        }
        // An index of rows has leaf blocks: without any, its statistics are missing.
        let leaf_blocks = count(self.index, 2).filter(|blocks| *blocks > 0);
        let index_bytes = leaf_blocks.map(|blocks| blocks.saturating_mul(block));
        match count(self.main, 2) {
            Some(blocks) if blocks >= rows => {
                (Some(blocks.saturating_mul(block)), index_bytes, STATISTICS)
            }
            // Statistics are missing, or older than the rows.
            _ => (Some(rows.saturating_mul(block)), index_bytes, COUNTED),
        }
    }
}

/// Executes a section of `look.sql` for one table.
fn read(
    database: &mut Database,
    section: &str,
    table: &str,
    binds: &[BindValue<'_>],
) -> Result<Vec<Row>> {
    let query = sql::filled(sql::LOOK, section, &[("table", table)]);
    database.query(&format!("reading {table}"), &query, binds)
}

/// Returns the number of keys of a table, if they are 1 to N.
fn keys(database: &mut Database, table: &str) -> Result<u64> {
    let keys = read(database, "slob_keys", table, &[])?;
    let none = Row::new();
    let keys = keys.first().unwrap_or(&none);
    let (rows, first, last) = (number(keys, 0), number(keys, 1), number(keys, 2));
    if rows == 0 || first != 1 || last != rows {
        return Err(EngineError::Data(format!(
            "{}: {table} has {rows} keys from {first} to {last}, not 1 to N without a gap: \
             these are not SLOB's data, or its setup did not end",
            database.place,
            rows = whole(rows),
            first = whole(first),
            last = whole(last)
        )));
    }
    Ok(rows)
}
