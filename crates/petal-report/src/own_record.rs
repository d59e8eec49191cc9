//! Records that are neither runs nor sweeps: one file of their own format each, with a text and a page.

use std::path::{Path, PathBuf};

use super::html::{self, HtmlError};
use super::listed::ListedRecord;
use super::{TEXT_NAME, made, write};
use petal_record::{RecordError, RecordFolder};

/// The file and the reports of such a record.
pub struct OwnRecord<T> {
    /// Name of the file, which makes a folder such a record.
    pub file: &'static str,
    /// Noun for messages, such as `a calibration`.
    pub noun: &'static str,
    /// Reads one, by its folder or file.
    pub load: fn(&Path) -> Result<T, RecordError>,
    pub text: fn(&T) -> String,
    /// The report on one screen.
    pub brief: fn(&T) -> String,
    pub page: fn(&T) -> Result<String, HtmlError>,
    /// The row in a list.
    pub listed: fn(String, &T) -> ListedRecord,
}

impl<T> OwnRecord<T> {
    /// True for its folder, and for a file of its format.
    pub fn is_one(&self, path: &Path) -> bool {
        path.join(self.file).is_file() || (path.is_file() && (self.load)(path).is_ok())
    }

    /// Writes every report into its folder, and returns their paths.
    pub fn write(&self, folder: &RecordFolder, record: &T) -> Result<Vec<PathBuf>, RecordError> {
        let page = made(folder, html::NAME, "the report as a page", (self.page)(record))?;
        let text = write(folder, TEXT_NAME, &(self.text)(record))?;
        Ok(vec![text, write(folder, html::NAME, &page)?])
    }
}
