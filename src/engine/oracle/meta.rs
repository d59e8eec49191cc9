//! What is loaded: petal's own schemas by what their load left in `petal_meta`, without which a
//! table is not petal's, and SLOB's by their shape.

use std::collections::BTreeMap;

use super::errors::engine_error;
use super::link::{Link, LinkError, Row, Value};
use super::sql;
use crate::engine::EngineError;
use crate::stats::target::LoadedSchema;
use crate::workload::row::Filler;

/// The layout's version.
const FORMAT: u32 = 1;
/// The key that a load begins with and that its end takes away.
pub const LOADING: &str = "loading";

/// Where a row of 19 columns of 128 bytes leaves room in its block.
const COLUMN_BYTES: usize = 128;
const BLOCK_BYTES: u32 = 8192;

/// Bytes of each column: smaller blocks than the usual have smaller rows.
pub fn column_bytes(block_bytes: u32) -> usize {
    COLUMN_BYTES * block_bytes.min(BLOCK_BYTES) as usize / BLOCK_BYTES as usize
}

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

    /// The rows of `petal_meta` that make a schema complete.
    pub fn entries(&self, seed: u64, unique_index: bool) -> Vec<(&'static str, String)> {
        vec![
            ("format", FORMAT.to_string()),
            ("petal", env!("CARGO_PKG_VERSION").to_owned()),
            ("rows", self.rows.to_string()),
            ("scan_rows", self.scan_rows.to_string()),
            ("block_size", self.block_bytes.to_string()),
            ("width", self.width.to_string()),
            ("filler", filler_name(self.filler)),
            ("tablespace", self.tablespace.clone()),
            ("scatter_seed", seed.to_string()),
            ("unique_index", unique_index.to_string()),
        ]
    }

    pub fn filler_name(&self) -> String {
        if self.is_slobs { "SLOB's own".to_owned() } else { filler_name(self.filler) }
    }
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
    let mut by_schema = entries(link, place)?;
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
            let reader = Reader { schema, values, place };
            reader.meta(&tables, &segments)
        })
        .collect()
}

/// What `petal_meta` says of each schema.
fn entries(
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
    let entries = entries(link, place)?.into_iter();
    Ok(entries.filter(|(_, values)| values.contains_key(LOADING)).map(|(n, _)| n).collect())
}

/// Tables that are petal's by their names, petal_meta among them, whole or not.
pub fn own_tables(link: &mut dyn Link, place: &str) -> Result<Vec<String>, EngineError> {
    let rows = link
        .query(&sql::section(sql::LOOK, "own_tables"), &[])
        .map_err(|error| engine_error(place, "looking for petal's tables", &error))?;
    Ok(rows.iter().map(|row| cell(row, 0).to_owned()).collect())
}

struct Reader<'a> {
    schema: u32,
    values: BTreeMap<String, String>,
    place: &'a str,
}

impl Reader<'_> {
    fn meta(
        &self,
        there: &[String],
        segments: &BTreeMap<String, u64>,
    ) -> Result<Meta, EngineError> {
        if self.get::<u32>("format")? != FORMAT {
            return Err(self.unknown("format"));
        }
        let tables = Tables::petals(self.schema);
        for table in [&tables.main, &tables.scan] {
            if !there.contains(&table.to_uppercase()) {
                return Err(EngineError::Data(format!(
                    "{}: {table} is missing; load the data anew (petal setup --replace)",
                    self.place
                )));
            }
        }
        let size = |name: String| segments.get(&name.to_uppercase()).copied().unwrap_or(0);
        Ok(Meta {
            schema: self.schema,
            rows: self.get("rows")?,
            scan_rows: self.get("scan_rows")?,
            block_bytes: self.get("block_size")?,
            width: self.get("width")?,
            filler: parse_filler(self.text("filler")?).ok_or_else(|| self.unknown("filler"))?,
            tablespace: self.text("tablespace")?.to_owned(),
            bytes: size(tables.main.clone()),
            index_bytes: size(format!("{}_custid", tables.main)),
            tables,
            is_slobs: false,
        })
    }

    fn text(&self, key: &str) -> Result<&str, EngineError> {
        self.values.get(key).map(String::as_str).ok_or_else(|| self.unknown(key))
    }

    fn get<T: std::str::FromStr>(&self, key: &str) -> Result<T, EngineError> {
        self.text(key)?.parse().map_err(|_| self.unknown(key))
    }

    fn unknown(&self, key: &str) -> EngineError {
        EngineError::Data(format!(
            "{}: this petal does not understand petal_meta of schema {} ({key}); load it again \
             with this petal (petal setup --replace) or use the petal that loaded it",
            self.place, self.schema
        ))
    }
}

/// SLOB's schemas, user1 to the first that is missing. Each must have its keys from 1 without a gap
/// and an index that begins with the key.
pub fn slobs(link: &mut dyn Link, place: &str) -> Result<Vec<Meta>, EngineError> {
    let failed = |doing: &str, error: &LinkError| engine_error(place, doing, error);
    let tables = link
        .query(&sql::section(sql::LOOK, "slob_tables"), &[])
        .map_err(|error| failed("looking for SLOB's schemas", &error))?;
    let indexes = link
        .query(&sql::section(sql::LOOK, "slob_indexes"), &[])
        .map_err(|error| failed("looking for SLOB's indexes", &error))?;
    let mut metas = Vec::new();
    for schema in 1.. {
        let owner = format!("USER{schema}");
        let of =
            |table: &str| tables.iter().find(|row| cell(row, 0) == owner && cell(row, 1) == table);
        let Some(main) = of("CF1") else { break };
        let index = indexes.iter().find(|row| cell(row, 0) == owner).ok_or_else(|| {
            EngineError::Data(format!(
                "{place}: {owner}.CF1 has no index on CUSTID that {} may see; finish SLOB's own \
                 setup, or grant SELECT on the table",
                "the user"
            ))
        })?;
        metas.push(slob(link, place, schema, (main, of("CF2"), index))?);
    }
    Ok(metas)
}

fn slob(
    link: &mut dyn Link,
    place: &str,
    schema: u32,
    (main, scan, index): (&Row, Option<&Row>, &Row),
) -> Result<Meta, EngineError> {
    let tables = Tables::slobs(schema);
    let failed =
        |error: &LinkError| engine_error(place, &format!("reading {}", tables.main), error);
    let keys = sql::filled(sql::LOOK, "slob_keys", &[("table", &tables.main)]);
    let keys = link.query(&keys, &[]).map_err(|error| failed(&error))?;
    let none = Row::new();
    let keys = keys.first().unwrap_or(&none);
    let (rows, first, last) = (number(keys, 0), number(keys, 1), number(keys, 2));
    if rows == 0 || first != 1 || last != rows {
        return Err(EngineError::Data(format!(
            "{place}: {} has {rows} keys from {first} to {last}, not 1 to N without a gap: these \
             are not SLOB's data, or its setup did not end",
            tables.main
        )));
    }
    let width = sql::filled(sql::LOOK, "slob_width", &[("table", &tables.main)]);
    let width = link.query(&width, &[Value::Number(1)]).map_err(|error| failed(&error))?;
    let block_bytes = block_bytes(link, place, cell(main, 4))?;
    Ok(Meta {
        schema,
        rows,
        scan_rows: scan.map_or(0, |scan| number(scan, 2)),
        block_bytes,
        // UPDATEs keep the length that is there.
        width: width.first().map_or(0, |row| number(row, 0) as usize).clamp(1, COLUMN_BYTES),
        filler: Filler::Constant,
        tablespace: cell(main, 4).to_owned(),
        bytes: number(main, 3) * u64::from(block_bytes),
        index_bytes: number(index, 2) * u64::from(block_bytes),
        tables,
        is_slobs: true,
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

fn filler_name(filler: Filler) -> String {
    match filler {
        Filler::Constant => "constant".to_owned(),
        Filler::Random => "random".to_owned(),
        Filler::Ratio(ratio) => format!("ratio {ratio}"),
    }
}

fn parse_filler(name: &str) -> Option<Filler> {
    match name {
        "constant" => Some(Filler::Constant),
        "random" => Some(Filler::Random),
        _ => name.strip_prefix("ratio ")?.parse().ok().map(Filler::Ratio),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fillers_are_read_back() {
        for filler in [Filler::Constant, Filler::Random, Filler::Ratio(2.5)] {
            assert_eq!(parse_filler(&filler_name(filler)), Some(filler));
        }
        assert_eq!(parse_filler("odd"), None);
    }

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
