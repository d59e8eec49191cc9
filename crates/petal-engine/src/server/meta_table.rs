//! Keys and values that a load leaves about itself in a database's `petal_meta`. They are read
//! strictly: a key that is missing or odd is of a petal that this one does not know.

use std::collections::BTreeMap;
use std::str::FromStr;

use super::row_layout::column_bytes;
use crate::{EngineError, LoadPlan, Result};
use petal_record::target::LoadedSchema;
use petal_workload::compression;
use petal_workload::row::Filler;

/// The version of the table's keys.
const FORMAT: u32 = 1;

/// A schema as every engine with a server loads it.
#[derive(Debug, Clone, PartialEq)]
pub struct SchemaMeta {
    pub schema: u32,
    pub rows: u64,
    pub scan_rows: u64,
    pub block_bytes: u32,
    pub filler: Filler,
    pub unique_index: Option<bool>,
    /// Number of the load; for loads before petal drew numbers, the scatter's seed.
    pub load: String,
}

impl SchemaMeta {
    pub fn of_plan(plan: &LoadPlan, schema: u32) -> Self {
        Self {
            schema,
            rows: plan.rows,
            scan_rows: plan.scan_rows,
            block_bytes: plan.block_size,
            filler: plan.filler,
            unique_index: Some(plan.unique_index),
            load: plan.id.to_string(),
        }
    }

    /// The rows of `petal_meta` that a load of this plan writes.
    pub fn entries(plan: &LoadPlan) -> Vec<(&'static str, String)> {
        vec![
            ("format", FORMAT.to_string()),
            ("petal", env!("CARGO_PKG_VERSION").to_owned()),
            ("rows", plan.rows.to_string()),
            ("scan_rows", plan.scan_rows.to_string()),
            ("block_size", plan.block_size.to_string()),
            ("filler", plan.filler.name()),
            ("scatter_seed", plan.seed.to_string()),
            ("unique_index", plan.unique_index.to_string()),
            ("load", plan.id.to_string()),
        ]
    }

    pub fn read(schema: u32, values: &MetaValues<'_>) -> Result<Self> {
        values.check_format(FORMAT)?;
        Ok(Self {
            schema,
            rows: values.get("rows")?,
            scan_rows: values.get("scan_rows")?,
            block_bytes: values.get("block_size")?,
            filler: values.filler()?,
            unique_index: values.get("unique_index").ok(),
            load: values.load(),
        })
    }

    /// Bytes of each filler column.
    pub fn column_bytes(&self) -> usize {
        column_bytes(self.block_bytes)
    }

    /// Compression ratio of its blocks with LZ4, with columns of `column_bytes`.
    pub fn compression_ratio(&self, column_bytes: usize) -> Option<f64> {
        let schema = (self.schema, self.rows);
        let block_bytes = self.block_bytes as usize;
        compression::ratio(&compression::sampled(schema, self.filler, block_bytes, column_bytes))
    }

    /// Bytes of each column, and whether all columns of an UPDATE hold the same text.
    pub fn column_shape(&self) -> (usize, bool) {
        (self.column_bytes(), self.filler == Filler::Constant)
    }

    /// The schema with the sizes that its main table and its index have now.
    pub fn loaded(
        &self,
        bytes: impl Into<Option<u64>>,
        index_bytes: impl Into<Option<u64>>,
    ) -> LoadedSchema {
        LoadedSchema {
            number: self.schema,
            rows: self.rows,
            scan_rows: self.scan_rows,
            block_size: self.block_bytes.into(),
            bytes: bytes.into(),
            index_bytes: index_bytes.into(),
            filler: Some(self.filler.name()),
            unique_index: self.unique_index,
        }
    }
}

/// The values of one schema, by key.
pub struct MetaValues<'a> {
    pub values: BTreeMap<String, String>,
    /// Place of the values, such as a server.
    pub place: &'a str,
    /// Name of the values, such as `petal_meta of schema 3`.
    pub of: String,
}

impl MetaValues<'_> {
    pub fn text(&self, key: &str) -> Result<&str> {
        self.values.get(key).map(String::as_str).ok_or_else(|| self.unknown(key))
    }

    pub fn get<T: FromStr>(&self, key: &str) -> Result<T> {
        self.text(key)?.parse().map_err(|_| self.unknown(key))
    }

    /// The layout's version must be this petal's.
    pub fn check_format(&self, format: u32) -> Result<()> {
        if self.get::<u32>("format")? == format { Ok(()) } else { Err(self.unknown("format")) }
    }

    pub fn filler(&self) -> Result<Filler> {
        Filler::parse(self.text("filler")?).ok_or_else(|| self.unknown("filler"))
    }

    /// Number of the load.
    pub fn load(&self) -> String {
        self.values.get("load").cloned().unwrap_or_default()
    }

    fn unknown(&self, key: &str) -> EngineError {
        EngineError::Data(format!(
            "{}: this petal does not understand {} ({key}); load it again with this petal (petal \
             setup --replace) or use the petal that loaded it",
            self.place, self.of
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_or_unexpected_values_belong_to_another_petal() {
        let values = [("format", "1"), ("rows", "many"), ("filler", "velvet")];
        let values = values.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
        let kept = MetaValues { values, place: "db1", of: "petal_meta of schema 3".to_owned() };
        assert!(kept.check_format(1).is_ok() && kept.filler().is_err());
        insta::assert_snapshot!(kept.check_format(2).unwrap_err(), @"db1: this petal does not understand petal_meta of schema 3 (format); load it again with this petal (petal setup --replace) or use the petal that loaded it");
        assert!(kept.get::<u64>("rows").unwrap_err().to_string().contains("(rows)"));
        assert!(kept.text("seed").unwrap_err().to_string().contains("(seed)"));
    }
}
