//! Rows of exact figures, which CSV files and workbooks hold alike. Every cell passes [`csv_cell`],
//! whatever it came from.

use csv::{Error, Writer};

use petal_settings::printable::csv_cell;

/// The names of columns, and their rows, made one at a time.
pub struct ExactRows<'a> {
    pub names: Vec<String>,
    pub rows: Box<dyn Iterator<Item = Vec<String>> + 'a>,
}

impl<'a> ExactRows<'a> {
    pub fn new<N: AsRef<str>, C: AsRef<str>, R: IntoIterator<Item = C>>(
        names: impl IntoIterator<Item = N>,
        rows: impl IntoIterator<Item = R, IntoIter: 'a>,
    ) -> Self {
        let rows = rows.into_iter().map(|row| csv_cells(row));
        Self { names: csv_cells(names), rows: Box::new(rows) }
    }

    pub fn csv(self) -> Result<String, Error> {
        let mut writer = Writer::from_writer(Vec::new());
        for row in std::iter::once(self.names).chain(self.rows) {
            writer.write_record(row)?;
        }
        let bytes = writer.into_inner().map_err(|error| Error::from(error.into_error()))?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}

fn csv_cells<C: AsRef<str>>(cells: impl IntoIterator<Item = C>) -> Vec<String> {
    cells.into_iter().map(|cell| csv_cell(cell.as_ref()).into_owned()).collect()
}
