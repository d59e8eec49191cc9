//! Columns of an answer. A server may send an unexpected type, or NULL for a required value: that
//! is an error, not a panic.

use std::error::Error;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::path::PathBuf;

use tokio_postgres::Row;
use tokio_postgres::types::{FromSql, FromSqlOwned, Type, accepts};

use petal_engine::{EngineError, Result};

pub trait Columns {
    /// The value of a column, from 0.
    fn read<T: ColumnValue>(&self, column: usize) -> Result<T>;
}

impl Columns for Row {
    fn read<T: ColumnValue>(&self, column: usize) -> Result<T> {
        self.try_get(column).map(T::of).map_err(|error| {
            EngineError::Database(format!(
                "the server's answer does not fit the question: {error}; find out which program \
                 answers there"
            ))
        })
    }
}

/// A value of a column. Names, settings and statements may be in any encoding: the server sends the bytes of
/// other databases, and those of one without an encoding (SQL_ASCII), as they are.
pub trait ColumnValue: Sized {
    type Raw: FromSqlOwned;

    fn of(raw: Self::Raw) -> Self;
}

macro_rules! as_it_is {
    ($($kind:ty)*) => {$(
        impl ColumnValue for $kind {
            type Raw = Self;

            fn of(raw: Self) -> Self {
                raw
            }
        }
    )*};
}

as_it_is!(bool i32 i64 u32 f64 NonNegative);

/// The bytes of a text.
pub struct TextBytes(Vec<u8>);

impl<'a> FromSql<'a> for TextBytes {
    fn from_sql(_: &Type, bytes: &'a [u8]) -> Result<Self, Box<dyn Error + Sync + Send>> {
        Ok(Self(bytes.to_owned()))
    }

    fn accepts(kind: &Type) -> bool {
        <&str as FromSql>::accepts(kind)
    }
}

impl ColumnValue for String {
    type Raw = TextBytes;

    fn of(TextBytes(bytes): TextBytes) -> Self {
        Self::from_utf8_lossy(&bytes).into_owned()
    }
}

impl ColumnValue for PathBuf {
    type Raw = TextBytes;

    fn of(TextBytes(bytes): TextBytes) -> Self {
        OsString::from_vec(bytes).into()
    }
}

impl<T: ColumnValue> ColumnValue for Option<T> {
    type Raw = Option<T::Raw>;

    fn of(raw: Self::Raw) -> Self {
        raw.map(T::of)
    }
}

impl<T: ColumnValue> ColumnValue for Vec<T> {
    type Raw = Vec<T::Raw>;

    fn of(raw: Self::Raw) -> Self {
        raw.into_iter().map(T::of).collect()
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
pub fn pairs<A: ColumnValue, B: ColumnValue, C: FromIterator<(A, B)>>(rows: &[Row]) -> Result<C> {
    rows.iter().map(|row| Ok((row.read(0)?, row.read(1)?))).collect()
}
