//! What is loaded: petal's own schemas by what their load left in `petal_meta`, without which a
//! table is not petal's.

use std::collections::BTreeMap;

use super::errors::engine_error;
use super::link::{Link, LinkError, Row, Value};
use super::sql;
use crate::engine::server::meta_table::{MetaValues, SchemaMeta};
use crate::engine::server::row_layout::column_bytes;
use crate::engine::{EngineError, LoadPlan};
use crate::stats::target::LoadedSchema;
use crate::workload::row::Filler;

/// The view that the sizes of petal's own tables come from.
pub const SEGMENTS: &str = "USER_SEGMENTS";

/// The key that a load begins with and that its end takes away.
pub const LOADING: &str = "loading";

/// The tables of one schema, as statements name them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tables {
    pub main: String,
    pub scan: String,
}

impl Tables {
    /// Of the user who connects.
    pub fn petals(schema: u32) -> Self {
        Self { main: format!("petal{schema}_cf1"), scan: format!("petal{schema}_cf2") }
    }

    /// SLOB's, of a user each.
    pub fn slobs(schema: u32) -> Self {
        Self { main: format!("user{schema}.cf1"), scan: format!("user{schema}.cf2") }
    }
}

/// One schema as it is loaded.
#[derive(Debug, Clone, PartialEq)]
pub struct Meta {
    pub schema: u32,
    pub tables: Tables,
    pub rows: u64,
    pub scan_rows: u64,
    pub block_bytes: u32,
    /// Characters of each column.
    pub width: usize,
    pub filler: Filler,
    pub tablespace: String,
    pub bytes: u64,
    pub index_bytes: u64,
    /// The view that the two sizes come from.
    pub sizes_from: &'static str,
    /// Made by SLOB: used as it is, never dropped.
    pub is_slobs: bool,
}

impl Meta {
    pub fn loaded(&self) -> LoadedSchema {
        LoadedSchema {
            number: self.schema,
            rows: self.rows,
            scan_rows: self.scan_rows,
            block_size: self.block_bytes.into(),
            bytes: self.bytes,
            index_bytes: self.index_bytes,
        }
    }

    pub fn filler_name(&self) -> String {
        if self.is_slobs { "SLOB's own".to_owned() } else { self.filler.name() }
    }
}

/// The rows of `petal_meta` that make a schema complete.
pub fn entries(plan: &LoadPlan, tablespace: &str) -> Vec<(&'static str, String)> {
    let mut entries = SchemaMeta::entries(plan);
    entries.push(("width", column_bytes(plan.block_size).to_string()));
    entries.push(("tablespace", tablespace.to_owned()));
    entries
}

/// A column of a row that must be there.
pub fn cell(row: &Row, at: usize) -> &str {
    row.get(at).and_then(Option::as_deref).unwrap_or_default()
}

pub fn number(row: &Row, at: usize) -> u64 {
    let text = cell(row, at);
    text.parse().unwrap_or_else(|_| text.parse::<f64>().map_or(0, |value| value.max(0.0) as u64))
}

/// petal's own complete schemas.
pub fn petals(link: &mut dyn Link, place: &str) -> Result<Vec<Meta>, EngineError> {
    let failed = |doing: &str, error: &LinkError| engine_error(place, doing, error);
    let tables = own_tables(link, place)?;
    if !tables.iter().any(|table| table == "PETAL_META") {
        return Ok(Vec::new());
    }
    let mut by_schema = read_entries(link, place)?;
    by_schema.retain(|_, values| !values.contains_key(LOADING));
    let segments: BTreeMap<String, u64> = link
        .query(&sql::section(sql::LOOK, "segments"), &[])
        .map_err(|error| failed("asking for sizes", &error))?
        .iter()
        .map(|row| (cell(row, 0).to_owned(), number(row, 1)))
        .collect();
    by_schema
        .into_iter()
        .map(|(schema, values)| {
            let of = format!("petal_meta of schema {schema}");
            petal(schema, &MetaValues { values, place, of }, &tables, &segments)
        })
        .collect()
}

/// What `petal_meta` says of each schema.
fn read_entries(
    link: &mut dyn Link,
    place: &str,
) -> Result<BTreeMap<u32, BTreeMap<String, String>>, EngineError> {
    let rows = link
        .query(&sql::section(sql::LOOK, "read_meta"), &[])
        .map_err(|error| engine_error(place, "reading petal_meta", &error))?;
    let mut by_schema: BTreeMap<u32, BTreeMap<String, String>> = BTreeMap::new();
    for row in &rows {
        let schema = by_schema.entry(number(row, 0) as u32).or_default();
        schema.insert(cell(row, 1).to_owned(), cell(row, 2).to_owned());
    }
    Ok(by_schema)
}

/// Schemas whose load did not end.
pub fn loading(link: &mut dyn Link, place: &str) -> Result<Vec<u32>, EngineError> {
    let entries = read_entries(link, place)?.into_iter();
    Ok(entries.filter(|(_, values)| values.contains_key(LOADING)).map(|(n, _)| n).collect())
}

/// Tables that are petal's by their names, petal_meta among them, whole or not.
pub fn own_tables(link: &mut dyn Link, place: &str) -> Result<Vec<String>, EngineError> {
    let rows = link
        .query(&sql::section(sql::LOOK, "own_tables"), &[])
        .map_err(|error| engine_error(place, "looking for petal's tables", &error))?;
    Ok(rows.iter().map(|row| cell(row, 0).to_owned()).collect())
}

/// One schema of petal's, its tables still there.
fn petal(
    schema: u32,
    kept: &MetaValues<'_>,
    there: &[String],
    segments: &BTreeMap<String, u64>,
) -> Result<Meta, EngineError> {
    let tables = Tables::petals(schema);
    for table in [&tables.main, &tables.scan] {
        if !there.contains(&table.to_uppercase()) {
            return Err(EngineError::Data(format!(
                "{}: {table} is missing; load the data anew (petal setup --replace)",
                kept.place
            )));
        }
    }
    let SchemaMeta { rows, scan_rows, block_bytes, filler, .. } = SchemaMeta::read(schema, kept)?;
    let size = |name: String| segments.get(&name.to_uppercase()).copied().unwrap_or(0);
    Ok(Meta {
        schema,
        rows,
        scan_rows,
        block_bytes,
        width: kept.get("width")?,
        filler,
        tablespace: kept.text("tablespace")?.to_owned(),
        bytes: size(tables.main.clone()),
        index_bytes: size(format!("{}_custid", tables.main)),
        sizes_from: SEGMENTS,
        tables,
        is_slobs: false,
    })
}

/// Block size of a tablespace that the user may see.
pub fn block_bytes(link: &mut dyn Link, place: &str, tablespace: &str) -> Result<u32, EngineError> {
    let rows = link
        .query(&sql::section(sql::LOOK, "tablespace"), &[Value::Text(tablespace)])
        .map_err(|error| engine_error(place, "asking for its tablespaces", &error))?;
    match rows.first().map(|row| number(row, 0)) {
        Some(bytes) if bytes > 0 => Ok(bytes as u32),
        _ => Err(EngineError::Environment(format!(
            "{place}: the user has no tablespace {tablespace}: it does not exist, or ALTER USER ... \
             QUOTA UNLIMITED ON {tablespace} is missing"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use crate::engine::server::row_layout::column_bytes;

    #[test]
    fn a_row_leaves_room_in_its_block_and_none_for_a_second() {
        for block in [2048u32, 4096, 8192, 16384, 32768] {
            // Header, key with its length, and each column with its own.
            let row = 3 + 8 + crate::workload::row::COLUMNS * (1 + column_bytes(block));
            // Block header, transaction slots, table and row directory.
            let usable = block as usize - 120;
            assert!(row * 3 <= usable || block < 4096 && row * 2 <= usable, "{block}: {row}");
            // PCTFREE 99 closes a block that holds more than a hundredth of its bytes.
            assert!(row > usable / 100, "{block}");
        }
    }
}
