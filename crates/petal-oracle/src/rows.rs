//! Rows read back for the verification of a ledger.

use super::database::Database;
use super::link::BindValue;
use super::meta::{OracleSchema, known};
use super::sql;
use petal_engine::server::row_layout::found_row;
use petal_engine::{EngineError, FoundRow, Result, RowReader};

pub struct OracleRows {
    database: Database,
    meta: OracleSchema,
    statement: String,
}

impl OracleRows {
    pub fn new(database: Database, meta: OracleSchema) -> Result<Self> {
        if meta.is_slobs {
            return Err(EngineError::Setting(format!(
                "{}: SLOB made these rows, and petal does not know their earlier contents; load \
                 schemas of petal's (petal setup), and keep the ledger of a run on them",
                database.place
            )));
        }
        let statement = sql::rows(&meta.tables);
        Ok(Self { database, meta, statement })
    }
}

impl RowReader for OracleRows {
    fn load(&self) -> &str {
        &self.meta.about.load
    }

    fn rows(&self) -> u64 {
        self.meta.about.rows
    }

    fn read(&mut self, first: u64, last: u64, found: &mut Vec<FoundRow>) -> Result<()> {
        let keys = [first, last].map(|key| BindValue::Number(key.cast_signed()));
        let rows = self.database.query("reading rows", &self.statement, &keys)?;
        let (width, filler) = (self.meta.width, self.meta.about.filler);
        for row in &rows {
            let key = known(&self.database, "reading rows", row, 0)?;
            let texts = row.iter().skip(1).map(|text| text.as_deref().map(str::as_bytes));
            found.push(found_row(key, texts, width, filler));
        }
        Ok(())
    }
}
