//! What a load leaves about itself in `petal_meta`: without it, a schema is not petal's.

use std::collections::BTreeMap;

use tokio_postgres::error::SqlState;

use super::client::{Client, Error};
use super::connect::engine_error;
use super::schema;
use crate::engine::EngineError;
use crate::engine::meta_table::MetaValues;
use crate::engine::server::failure::not_loaded;
use crate::engine::server::row_layout::column_bytes;
use crate::stats::target::LoadedSchema;
use crate::workload::row::Filler;

/// The layout's version.
const FORMAT: u32 = 1;

#[derive(Debug, Clone, PartialEq)]
pub struct Meta {
    pub schema: u32,
    pub rows: u64,
    pub scan_rows: u64,
    pub block_bytes: u32,
    pub filler: Filler,
    pub scatter_seed: u64,
    pub unique_index: bool,
}

impl Meta {
    pub fn write(&self, client: &mut Client) -> Result<(), Error> {
        let sql =
            format!("INSERT INTO {}.petal_meta VALUES ($1, $2)", schema::loading_name(self.schema));
        for (key, value) in [
            ("format", FORMAT.to_string()),
            ("petal", env!("CARGO_PKG_VERSION").to_owned()),
            ("rows", self.rows.to_string()),
            ("scan_rows", self.scan_rows.to_string()),
            ("block_size", self.block_bytes.to_string()),
            ("filler", self.filler.name()),
            ("scatter_seed", self.scatter_seed.to_string()),
            ("unique_index", self.unique_index.to_string()),
        ] {
            client.execute(&sql, &[&key, &value])?;
        }
        Ok(())
    }

    pub fn read(client: &mut Client, server: &str, schema: u32) -> Result<Self, EngineError> {
        let name = schema::name(schema);
        let sql = format!("SELECT key, value FROM {name}.petal_meta");
        let rows = client.query(&sql, &[]).map_err(|error| match error.code() {
            Some(code) if *code == SqlState::UNDEFINED_TABLE => not_loaded(server, schema),
            _ => engine_error(server, &format!("reading {name}.petal_meta"), &error),
        })?;
        let values: BTreeMap<String, String> =
            rows.iter().map(|row| (row.get(0), row.get(1))).collect();
        let reader = MetaValues { values, place: server, of: format!("{name}.petal_meta") };
        reader.check_format(FORMAT)?;
        Ok(Self {
            schema,
            rows: reader.get("rows")?,
            scan_rows: reader.get("scan_rows")?,
            block_bytes: reader.get("block_size")?,
            filler: reader.filler()?,
            scatter_seed: reader.get("scatter_seed")?,
            unique_index: reader.get("unique_index")?,
        })
    }

    /// Bytes of each filler column.
    pub fn column_bytes(&self) -> usize {
        column_bytes(self.block_bytes)
    }

    /// Bytes of each column, and whether all columns of an UPDATE hold the same text.
    pub fn column_shape(&self) -> (usize, bool) {
        (self.column_bytes(), self.filler == Filler::Constant)
    }

    /// The schema with its sizes as they are now.
    pub fn loaded(
        &self,
        client: &mut Client,
        server: &str,
        name: &str,
    ) -> Result<LoadedSchema, EngineError> {
        let main = relation_bytes(client, server, &format!("{name}.cf1"))?;
        let index = relation_bytes(client, server, &format!("{name}.cf1_custid"))?;
        relation_bytes(client, server, &format!("{name}.cf2"))?;
        if main < self.rows * u64::from(self.block_bytes) {
            return Err(EngineError::Data(format!(
                "{server}: {name}.cf1 has {main} bytes, fewer than its {} rows take; load it anew \
                 (petal setup --replace)",
                self.rows
            )));
        }
        Ok(LoadedSchema {
            number: self.schema,
            rows: self.rows,
            scan_rows: self.scan_rows,
            block_size: self.block_bytes.into(),
            bytes: main,
            index_bytes: index,
        })
    }
}

/// Bytes of a table or index that must be there.
pub fn relation_bytes(
    client: &mut Client,
    server: &str,
    relation: &str,
) -> Result<u64, EngineError> {
    client
        .query_one("SELECT pg_relation_size(to_regclass($1))", &[&relation])
        .map_err(|error| engine_error(server, &format!("asking the size of {relation}"), &error))?
        .get::<_, Option<i64>>(0)
        .map(i64::cast_unsigned)
        .ok_or_else(|| {
            EngineError::Data(format!(
                "{server}: {relation} is missing; load the data anew (petal setup --replace)"
            ))
        })
}
