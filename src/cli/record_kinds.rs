//! The kinds of record that are neither runs nor sweeps. Commands that read records know them by this
//! table alone. It is public: a build without these kinds has no unused code either.

use std::path::Path;

use clap::ArgMatches;

use petal_record::{RecordError, RecordFolder};
use petal_report::html::HtmlError;
use petal_report::listed::ListedRecord;
use petal_report::own_record::OwnRecord;

use super::args::is_set;
use super::console::Console;
use super::failure::{CommandError, Exit};
use super::report::kept;

/// Compares the records that were named.
type CompareRecords = fn(&[&String], &ArgMatches, &Console) -> Result<Exit, CommandError>;

pub struct RecordKind {
    /// Name of its file.
    pub file: &'static str,
    /// Noun for messages, such as `a calibration`.
    pub noun: &'static str,
    pub is_one: fn(&Path) -> bool,
    /// The row in a list.
    pub listed: fn(&Path, String) -> Result<ListedRecord, RecordError>,
    pub page: fn(&Path) -> Result<Result<String, HtmlError>, RecordError>,
    /// Prints it, and writes the reports of a folder again.
    pub report: fn(&Path, &ArgMatches, &Console) -> Result<Exit, CommandError>,
    /// Prints it.
    pub show: fn(&Path, &ArgMatches, &Console) -> Result<(), CommandError>,
    /// None if there is nothing to compare.
    pub compare: Option<CompareRecords>,
}

/// Each kind, by the command that measures it.
const KINDS: &[RecordKind] = &[
    #[cfg(feature = "calibrate")]
    super::calibrate::RECORD,
    #[cfg(feature = "costs")]
    super::costs::RECORD,
];

/// The kind of the record there; None of runs, sweeps, and folders without a record.
pub fn of(path: &Path) -> Option<&'static RecordKind> {
    KINDS.iter().find(|kind| (kind.is_one)(path))
}

/// Names of their files.
pub fn files() -> impl Iterator<Item = &'static str> {
    KINDS.iter().map(|kind| kind.file)
}

impl RecordKind {
    pub const fn new<K: OwnRecord>() -> Self {
        Self {
            file: K::FILE,
            noun: K::NOUN,
            is_one: K::is_one,
            listed: |path, name| Ok(K::listed(name, &K::load(path)?)),
            page: |path| Ok(K::page(&K::load(path)?)),
            report: report_again::<K>,
            show: |path, matches, console| show::<K>(&K::load(path)?, matches, console),
            compare: None,
        }
    }
}

/// A folder gets its reports again; a file that is kept for later runs is only shown.
fn report_again<K: OwnRecord>(
    path: &Path,
    matches: &ArgMatches,
    console: &Console,
) -> Result<Exit, CommandError> {
    let record = K::load(path)?;
    let mut exit = Exit::Done;
    if path.is_dir() {
        exit = kept(K::write_reports(&RecordFolder::open(path), &record), console);
    }
    show::<K>(&record, matches, console)?;
    Ok(exit)
}

/// Prints a record, as JSON if the flag says so.
pub fn show<K: OwnRecord>(
    record: &K::Record,
    matches: &ArgMatches,
    console: &Console,
) -> Result<(), CommandError> {
    if is_set(matches, "json") {
        let json = petal_report::json::pretty(record);
        console.result(&json.map_err(CommandError::failed("the record is no JSON"))?);
    } else {
        console.report(|| match console.is_brief(matches) {
            true => K::brief(record),
            false => K::text(record),
        });
    }
    Ok(())
}
