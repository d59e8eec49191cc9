//! The one writer of CSV files: every cell passes [`csv_cell`], whatever it came from.

use csv::{Error, Writer};

use petal_model::settings::printable::csv_cell;

pub(super) struct CsvRows(Writer<Vec<u8>>);

impl CsvRows {
    pub(super) fn new() -> Self {
        Self(Writer::from_writer(Vec::new()))
    }

    pub(super) fn row<C: AsRef<str>>(
        &mut self,
        cells: impl IntoIterator<Item = C>,
    ) -> Result<(), Error> {
        for cell in cells {
            self.0.write_field(csv_cell(cell.as_ref()).as_bytes())?;
        }
        self.0.write_record(None::<&[u8]>)
    }

    pub(super) fn finish(self) -> Result<String, Error> {
        let bytes = self.0.into_inner().map_err(|error| Error::from(error.into_error()))?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}
