//! Loaded petal schemas, by the entries that their load left in `petal_meta`.

use std::collections::BTreeMap;

use super::database::Database;
use super::link::{BindValue, Link, LinkError, Row};
use super::sql;
use petal_engine::server::data_name::data_name;
use petal_engine::server::meta_table::{MetaValues, SchemaMeta};
use petal_engine::server::row_layout::column_bytes;
use petal_engine::{EngineError, LoadPlan, Result};
use petal_host::COUNT_MAX;
use petal_record::target::LoadedSchema;

/// View with the sizes of petal's own tables.
pub const SEGMENTS: &str = "USER_SEGMENTS";

/// Key of a load in progress, removed at the load's end.
pub const LOADING: &str = "loading";

/// Tables of one schema, as statements name them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tables {
    pub main: String,
    pub scan: String,
}

impl Tables {
    /// Returns petal's tables of a schema, which belong to the user who connects.
    pub fn own(schema: u32) -> Self {
        let name = data_name();
        Self { main: format!("{name}{schema}_cf1"), scan: format!("{name}{schema}_cf2") }
    }

    /// Returns the tables of a SLOB schema, which is a separate user.
    pub fn of_slob(schema: u32) -> Self {
        Self { main: format!("user{schema}.cf1"), scan: format!("user{schema}.cf2") }
    }
}

/// A loaded schema.
#[derive(Debug, Clone, PartialEq)]
pub struct OracleSchema {
    pub about: SchemaMeta,
    pub tables: Tables,
    /// Number of characters of each column.
    pub width: usize,
    pub tablespace: String,
    /// Bytes of the main table and its index; `None` if the database does not say.
    pub bytes: Option<u64>,
    pub index_bytes: Option<u64>,
    /// View that the two sizes come from.
    pub sizes_from: &'static str,
    /// Set if SLOB made the schema: petal uses it as it is, and never drops it.
    pub is_slobs: bool,
}

impl OracleSchema {
    pub fn loaded(&self) -> LoadedSchema {
        let loaded = self.about.loaded(self.bytes, self.index_bytes);
        LoadedSchema { filler: loaded.filler.filter(|_| !self.is_slobs), ..loaded }
    }

    pub fn filler_name(&self) -> String {
        if self.is_slobs { "SLOB's own".to_owned() } else { self.about.filler.name() }
    }
}

/// Returns the rows of `petal_meta` that make a schema complete.
pub fn entries(plan: &LoadPlan, tablespace: &str) -> Vec<(&'static str, String)> {
    let mut entries = SchemaMeta::entries(plan);
    entries.push(("width", column_bytes(plan.block_size).to_string()));
    entries.push(("tablespace", tablespace.to_owned()));
    entries
}

/// True for the table with the entries of all schemas, by its name in the dictionary.
pub fn is_meta(table: &str) -> bool {
    table == sql::meta_name("PETAL_META")
}

/// Returns a required column of a row.
pub fn cell(row: &Row, at: usize) -> &str {
    row.get(at).and_then(Option::as_deref).unwrap_or_default()
}

/// Returns a count in a column, or `None` for NULL, for a text that is not a number, and for an
/// impossibly large number.
pub fn count(row: &Row, at: usize) -> Option<u64> {
    let text = cell(row, at);
    let rounded = || text.parse::<f64>().ok().filter(|value| *value >= 0.0).map(|n| n as u64);
    text.parse().ok().or_else(rounded).filter(|count| *count <= COUNT_MAX)
}

/// Returns a required count in a column of an answer.
pub fn known(database: &Database, doing: &str, row: &Row, at: usize) -> Result<u64> {
    let unknown = || {
        let (place, cell) = (&database.place, cell(row, at));
        EngineError::Data(format!("{place}: {doing}: the database answered {cell:?} for a count"))
    };
    count(row, at).ok_or_else(unknown)
}

/// Returns a count, or 0 if there is no valid one.
pub fn number(row: &Row, at: usize) -> u64 {
    count(row, at).unwrap_or(0)
}

/// Returns petal's own complete schemas.
pub fn petals(database: &mut Database) -> Result<Vec<OracleSchema>> {
    let tables = own_tables(database)?;
    if !tables.iter().any(|table| is_meta(table)) {
        return Ok(Vec::new());
    }
    let mut by_schema = read_entries(database)?;
    by_schema.retain(|_, values| !values.contains_key(LOADING));
    let segments = segments(database)?;
    by_schema
        .into_iter()
        .map(|(schema, values)| {
            let of = format!("petal_meta of schema {schema}");
            let values = MetaValues { values, place: &database.place, of };
            petal(schema, &values, &tables, &segments)
        })
        .collect()
}

/// Reads the entries of `petal_meta` for each schema.
fn read_entries(database: &mut Database) -> Result<BTreeMap<u32, BTreeMap<String, String>>> {
    let mut by_schema: BTreeMap<u32, BTreeMap<String, String>> = BTreeMap::new();
    for row in database.look("reading petal_meta", "read_meta")? {
        let schema = by_schema.entry(number(&row, 0) as u32).or_default();
        schema.insert(cell(&row, 1).to_owned(), cell(&row, 2).to_owned());
    }
    Ok(by_schema)
}

/// Returns the number of each complete load, by schema.
pub fn loads(link: &mut dyn Link) -> Result<BTreeMap<u32, String>, LinkError> {
    let mut loads = BTreeMap::<u32, String>::new();
    for row in link.query(&sql::section(sql::LOOK, "read_meta"), &[])? {
        let load = loads.entry(number(&row, 0) as u32).or_default();
        if cell(&row, 1) == "load" {
            cell(&row, 2).clone_into(load);
        }
    }
    Ok(loads)
}

/// Returns schemas whose load did not end.
pub fn loading(database: &mut Database) -> Result<Vec<u32>> {
    let entries = read_entries(database)?.into_iter();
    Ok(entries.filter(|(_, values)| values.contains_key(LOADING)).map(|(n, _)| n).collect())
}

/// Returns tables with names of petal's, including petal_meta, complete or not.
pub fn own_tables(database: &mut Database) -> Result<Vec<String>> {
    let rows = database.look("looking for petal's tables", "own_tables")?;
    Ok(rows.iter().map(|row| cell(row, 0).to_owned()).collect())
}

/// Returns the bytes of the user's tables and indexes, by their names in lower case.
pub fn segments(database: &mut Database) -> Result<BTreeMap<String, u64>> {
    let rows = database.look("asking for sizes", "segments")?;
    let size = |row: &Row| Some((cell(row, 0).to_lowercase(), count(row, 1)?));
    Ok(rows.iter().filter_map(size).collect())
}

/// Returns a petal schema if its tables still exist.
fn petal(
    schema: u32,
    kept: &MetaValues<'_>,
    there: &[String],
    segments: &BTreeMap<String, u64>,
) -> Result<OracleSchema> {
    let tables = Tables::own(schema);
    for table in [&tables.main, &tables.scan] {
        if !there.contains(&table.to_uppercase()) {
            return Err(EngineError::Data(format!(
                "{}: {table} is missing; load the data again (petal setup --replace)",
                kept.place
            )));
        }
    }
    let size = |name: &str| segments.get(name).copied();
    Ok(OracleSchema {
        about: SchemaMeta::read(schema, kept)?,
        width: kept.get("width")?,
        tablespace: kept.text("tablespace")?.to_owned(),
        bytes: size(&tables.main),
        index_bytes: size(&format!("{}_custid", tables.main)),
        sizes_from: SEGMENTS,
        tables,
        is_slobs: false,
    })
}

/// Returns the block size of a tablespace that the user may see.
pub fn block_bytes(database: &mut Database, tablespace: &str) -> Result<u32> {
    let query = sql::section(sql::LOOK, "tablespace");
    let rows =
        database.query("asking for its tablespaces", &query, &[BindValue::from(tablespace)])?;
    match rows.first().map(|row| number(row, 0)) {
        Some(bytes) if bytes > 0 => Ok(bytes as u32),
        _ => Err(EngineError::Environment(format!(
            "{}: the user has no tablespace {tablespace}: it does not exist, or ALTER USER ... \
             QUOTA UNLIMITED ON {tablespace} is missing",
            database.place
        ))),
    }
}

#[cfg(test)]
mod tests {
    use petal_engine::server::row_layout::column_bytes;

    #[test]
    fn a_row_leaves_room_in_its_block_and_none_for_a_second() {
        for block in [2048u32, 4096, 8192, 16384, 32768] {
            // Header, key with its length, and each column with its length.
            let row = 3 + 8 + petal_workload::row::COLUMNS * (1 + column_bytes(block));
            // Block header, transaction slots, table and row directory.
            let usable = block as usize - 120;
            assert!(row * 3 <= usable || block < 4096 && row * 2 <= usable, "{block}: {row}");
            // PCTFREE 99 closes a block that holds more than a hundredth of its bytes.
            assert!(row > usable / 100, "{block}");
        }
    }
}
