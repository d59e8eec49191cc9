//! Reports that a database itself made of the run, such as AWR, as the record keeps them: the file,
//! its window, its figures with their sections. They are a separate layer: the database counted
//! between its own two snapshots, which lie outside petal's. Plain values; other modules read such
//! files and compare them with petal's figures.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Finding;
use crate::database_interval::DatabaseInterval;

/// A file with the database's own report on a run.
#[derive(Debug, Clone, PartialEq)]
pub struct ServerReport {
    /// File name in the run's folder.
    pub file: String,
    pub content: ReportContent,
}

#[derive(Debug, Clone, PartialEq)]
pub enum ReportContent {
    /// The text, as the database made it.
    Text(String),
    /// Figures of its tables, from which a text for people is made.
    Interval(Box<DatabaseInterval>),
}

/// A report, or the file that should have been one.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SeenReport {
    /// File name in the run's folder.
    pub file: String,
    /// `awr`, `awrg` (several instances), `awrpdb` or `sp` (Statspack); null if it was not read.
    pub kind: Option<String>,
    pub release: Option<String>,
    /// Several instances are joined by `+`.
    pub instance: Option<String>,
    pub begin_snap: Option<String>,
    pub end_snap: Option<String>,
    /// Times by the database's clock, as printed.
    pub begin_time: Option<String>,
    pub end_time: Option<String>,
    /// Time between the two snapshots.
    pub elapsed_s: Option<f64>,
    /// Load profile, I/O, memory and processors, by the names of docs/awr.md.
    pub figures: BTreeMap<String, ReportFigure>,
    /// The database's own statistics by name: their growth between the snapshots.
    pub totals: BTreeMap<String, f64>,
    /// The section with the totals.
    pub totals_section: Option<String>,
    /// The top timed events, in the report's order.
    pub top_events: Vec<ReportEvent>,
    /// Findings from the report alone, by the rules for reports.
    pub findings: Vec<Finding>,
    /// Oddities of the file.
    pub notes: Vec<String>,
    /// Reason why it could not be read; null if it was read.
    pub unread: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ReportFigure {
    pub value: f64,
    pub unit: String,
    /// Null if it was computed from others.
    pub as_printed: Option<String>,
    /// Section in which it was printed, or its computation.
    pub section: String,
    /// Unit of the last printed digit, in units of `value`.
    pub rounded_to: f64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ReportEvent {
    pub name: String,
    pub class: Option<String>,
    pub waits: Option<f64>,
    pub time_s: Option<f64>,
    /// Time over waits, or the report's own average if that has more digits.
    pub avg_us: Option<f64>,
    pub pct_db_time: Option<f64>,
    pub section: Option<String>,
}

impl SeenReport {
    /// A file that is not a report, or too little of one.
    pub fn unread(file: &str, why: String) -> Self {
        Self { file: file.to_owned(), unread: Some(why), ..Self::default() }
    }

    /// True for a report of several instances together.
    pub fn is_of_cluster(&self) -> bool {
        self.kind.as_deref() == Some("awrg")
    }

    pub fn figure(&self, name: &str) -> Option<&ReportFigure> {
        self.figures.get(name)
    }
}
