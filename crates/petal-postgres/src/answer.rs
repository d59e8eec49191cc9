//! Columns of an answer. A server may send an unexpected type, or NULL for a required value: that
//! is an error, not a panic.

use std::error::Error;

use tokio_postgres::Row;
use tokio_postgres::types::{FromSql, Type, accepts};

use petal_engine::{EngineError, Result};

pub trait Columns {
    /// The value of a column, from 0.
    fn read<'a, T: FromSql<'a>>(&'a self, column: usize) -> Result<T>;
}

impl Columns for Row {
    fn read<'a, T: FromSql<'a>>(&'a self, column: usize) -> Result<T> {
        self.try_get(column).map_err(|error| {
            EngineError::Database(format!(
                "the server's answer does not fit the question: {error}; find out which program \
                 answers there"
            ))
        })
    }
}

/// A count or a size: an integer that is never below zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NonNegative(pub u64);

impl<'a> FromSql<'a> for NonNegative {
    fn from_sql(of: &Type, bytes: &'a [u8]) -> Result<Self, Box<dyn Error + Sync + Send>> {
        let number = match *of {
            Type::INT4 => i32::from_sql(of, bytes)?.into(),
            _ => i64::from_sql(of, bytes)?,
        };
        let is_negative = |_| format!("{number} is no count: it is below zero");
        Ok(Self(u64::try_from(number).map_err(is_negative)?))
    }

    accepts!(INT4, INT8);
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
