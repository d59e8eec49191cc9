//! Records that are neither runs nor sweeps: one file of their own format each, with a text and a page.

use std::path::{Path, PathBuf};

use serde::Serialize;

use super::html::{self, HtmlError};
use super::listed::ListedRecord;
use super::{TEXT_NAME, made, write};
use petal_record::{RecordError, RecordFolder};

/// The file and the reports of such a record.
pub trait OwnRecord {
    type Record: Serialize;

    /// Name of its file, which makes a folder such a record.
    const FILE: &'static str;
    /// Noun for messages, such as `a calibration`.
    const NOUN: &'static str;

    /// Reads one, by its folder or file.
    fn load(path: &Path) -> Result<Self::Record, RecordError>;

    /// The whole report as text.
    fn text(record: &Self::Record) -> String;

    /// The report on one screen.
    fn brief(record: &Self::Record) -> String {
        Self::text(record)
    }

    fn page(record: &Self::Record) -> Result<String, HtmlError>;

    /// The row in a list.
    fn listed(name: String, record: &Self::Record) -> ListedRecord;

    /// True for its folder, and for a file of its format.
    fn is_one(path: &Path) -> bool {
        path.join(Self::FILE).is_file() || (path.is_file() && Self::load(path).is_ok())
    }

    /// Writes every report into its folder, and returns their paths.
    fn write_reports(
        folder: &RecordFolder,
        record: &Self::Record,
    ) -> Result<Vec<PathBuf>, RecordError> {
        let page = made(folder, html::NAME, "the report as a page", Self::page(record))?;
        let text = write(folder, TEXT_NAME, &Self::text(record))?;
        Ok(vec![text, write(folder, html::NAME, &page)?])
    }
}
