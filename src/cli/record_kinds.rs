//! The kinds of record that are neither runs nor sweeps. Commands that read records know them by this
//! table alone. It is public: a build without these kinds has no unused code either.

use std::path::Path;

use clap::ArgMatches;
use serde::Serialize;

use petal_record::{RecordError, RecordFolder};
use petal_report::html::HtmlError;
use petal_report::listed::ListedRecord;
use petal_report::own_record::OwnRecord;

use super::console::Console;
use super::failure::{CommandError, Exit};
use super::report::kept;

/// Compares the records that were named.
type CompareRecords = fn(&[&String], &ArgMatches, &Console) -> Result<Exit, CommandError>;

/// Each kind, by the command that measures it, and its comparison.
const KINDS: &[(&dyn RecordKind, Option<CompareRecords>)] = &[
    #[cfg(feature = "calibrate")]
    (&petal_calibrate::CALIBRATION, None),
    #[cfg(feature = "costs")]
    (&petal_costs::record::COSTS, Some(super::costs::compare_costs)),
];

/// The kind of the record there; None of runs, sweeps, and folders without a record.
pub fn of(path: &Path) -> Option<&'static dyn RecordKind> {
    KINDS.iter().map(|(kind, _)| *kind).find(|kind| kind.is_this(path))
}

/// The comparison of the record there.
pub fn comparison(path: &Path) -> Option<CompareRecords> {
    KINDS.iter().find(|(kind, _)| kind.is_this(path))?.1
}

/// Names of their files.
pub fn files() -> impl Iterator<Item = &'static str> {
    KINDS.iter().map(|(kind, _)| kind.words()[0])
}

pub trait RecordKind: Sync {
    /// The name of its file, and the noun for messages.
    fn words(&self) -> [&'static str; 2];
    fn is_this(&self, path: &Path) -> bool;
    /// The row in a list.
    fn row(&self, path: &Path, name: String) -> Result<ListedRecord, RecordError>;
    fn page(&self, path: &Path) -> Result<Result<String, HtmlError>, RecordError>;
    /// Prints it, and writes the reports of a folder again; a single file is only shown.
    fn report(&self, path: &Path, to: (&ArgMatches, &Console)) -> Result<Exit, CommandError>;
    /// Prints it.
    fn show(&self, path: &Path, to: (&ArgMatches, &Console)) -> Result<(), CommandError>;
}

impl<T: Serialize> RecordKind for OwnRecord<T> {
    fn words(&self) -> [&'static str; 2] {
        [self.file, self.noun]
    }

    fn is_this(&self, path: &Path) -> bool {
        self.is_one(path)
    }

    fn row(&self, path: &Path, name: String) -> Result<ListedRecord, RecordError> {
        Ok((self.listed)(name, &(self.load)(path)?))
    }

    fn page(&self, path: &Path) -> Result<Result<String, HtmlError>, RecordError> {
        Ok((self.page)(&(self.load)(path)?))
    }

    fn report(&self, path: &Path, to: (&ArgMatches, &Console)) -> Result<Exit, CommandError> {
        let record = (self.load)(path)?;
        let mut exit = Exit::Done;
        if path.is_dir() {
            exit = kept(self.write(&RecordFolder::open(path), &record), to.1);
        }
        show(self, &record, to)?;
        Ok(exit)
    }

    fn show(&self, path: &Path, to: (&ArgMatches, &Console)) -> Result<(), CommandError> {
        show(self, &(self.load)(path)?, to)
    }
}

/// Prints a record.
pub fn show<T: Serialize>(
    kind: &OwnRecord<T>,
    record: &T,
    (matches, console): (&ArgMatches, &Console),
) -> Result<(), CommandError> {
    console.show(matches, record, || (kind.brief)(record), || (kind.text)(record))
}
