//! Columns of an answer. A server may say what petal did not ask for, or NULL where it expects a value:
//! that is an error, not a panic.

use tokio_postgres::Row;
use tokio_postgres::types::FromSql;

use petal_engine::{EngineError, Result};

pub trait Columns {
    /// The value of a column, from 0.
    fn read<'a, T: FromSql<'a>>(&'a self, column: usize) -> Result<T>;
}

impl Columns for Row {
    fn read<'a, T: FromSql<'a>>(&'a self, column: usize) -> Result<T> {
        self.try_get(column).map_err(|error| {
            EngineError::Database(format!(
                "the server's answer is not what petal asked for: {error}; see what answers there"
            ))
        })
    }
}

/// The first two columns of each row.
pub fn pairs<'a, A, B, C>(rows: &'a [Row]) -> Result<C>
where
    A: FromSql<'a>,
    B: FromSql<'a>,
    C: FromIterator<(A, B)>,
{
    rows.iter().map(|row| Ok((row.read(0)?, row.read(1)?))).collect()
}
