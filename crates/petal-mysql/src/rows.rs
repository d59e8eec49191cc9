//! Rows read back, for the verification of a ledger.

use mysql_async::{Row, Statement};

use super::client::Client;
use super::connect::Endpoint;
use super::errors::AtServer as _;
use super::schema;
use petal_engine::server::meta_table::SchemaMeta;
use petal_engine::server::row_layout::found_row;
use petal_engine::{EngineError, FoundRow, Result, RowReader};
use petal_workload::row::COLUMNS;

pub struct MysqlRows {
    client: Client,
    meta: SchemaMeta,
    statement: Statement,
}

impl MysqlRows {
    pub fn open(endpoint: &Endpoint, number: u32) -> Result<Self> {
        let mut client = endpoint.connect()?;
        let meta = schema::read_meta(&mut client, number)?;
        let statement = client.prepare(&schema::rows(number));
        let statement = statement.at(&client.server, "preparing to read rows")?;
        Ok(Self { client, meta, statement })
    }
}

impl RowReader for MysqlRows {
    fn load(&self) -> &str {
        &self.meta.load
    }

    fn rows(&self) -> u64 {
        self.meta.rows
    }

    fn read(&mut self, first: u64, last: u64, found: &mut Vec<FoundRow>) -> Result<()> {
        let rows = self.client.rows(&self.statement, (first, last));
        let rows: Vec<Row> = rows.at(&self.client.server, "reading rows")?;
        let (width, filler) = (self.meta.column_bytes(), self.meta.filler);
        for mut row in rows {
            let key = row.take_opt(0).and_then(Result::ok).ok_or_else(|| {
                let server = &self.client.server;
                EngineError::Data(format!("{server}: reading rows: a row's key is not a number"))
            })?;
            let mut text = |at| row.take_opt::<Option<Vec<u8>>, _>(at)?.ok()?;
            let texts: Vec<Option<Vec<u8>>> = (1..=COLUMNS).map(&mut text).collect();
            found.push(found_row(key, texts.iter().map(Option::as_deref), width, filler));
        }
        Ok(())
    }
}
