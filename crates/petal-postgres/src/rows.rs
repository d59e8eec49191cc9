//! Rows read back, for the verification of a ledger.

use tokio_postgres::Statement;

use super::answer::Columns as _;
use super::client::Client;
use super::connect::Endpoint;
use super::schema;
use petal_engine::server::meta_table::SchemaMeta;
use petal_engine::server::row_layout::found_row;
use petal_engine::{FoundRow, Result, RowReader};
use petal_workload::row::COLUMNS;

pub struct PostgresRows {
    client: Client,
    meta: SchemaMeta,
    statement: Statement,
}

impl PostgresRows {
    pub fn open(endpoint: &Endpoint, number: u32) -> Result<Self> {
        let mut client = endpoint.connect("petal verify")?;
        let meta = schema::read_meta(&mut client, number)?;
        let statement = client.prepare_for("preparing to read rows", &schema::rows(number))?;
        Ok(Self { client, meta, statement })
    }
}

impl RowReader for PostgresRows {
    fn load(&self) -> &str {
        &self.meta.load
    }

    fn rows(&self) -> u64 {
        self.meta.rows
    }

    fn read(&mut self, first: u64, last: u64, found: &mut Vec<FoundRow>) -> Result<()> {
        let keys = [first, last].map(u64::cast_signed);
        let rows = self.client.query(&self.statement, &[&keys[0], &keys[1]]);
        let rows = rows.map_err(|error| self.client.error("reading rows", &error))?;
        let (width, filler) = (self.meta.column_bytes(), self.meta.filler);
        for row in &rows {
            let text = |at| row.try_get::<_, Option<&str>>(at).ok().flatten().map(str::as_bytes);
            let key = row.read::<i64>(0)?.cast_unsigned();
            found.push(found_row(key, (1..=COLUMNS).map(text), width, filler));
        }
        Ok(())
    }
}
