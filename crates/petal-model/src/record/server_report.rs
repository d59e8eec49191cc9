//! Reports that a database made of the run by itself, such as AWR, as the record keeps them: the
//! file, its window, its figures with the section each stood in. A layer of its own: the database
//! counted between its own two snapshots, which lie outside of petal's. Plain values; who reads
//! such files, and who compares them with petal's, is elsewhere.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Finding;
use crate::stats::database_interval::DatabaseInterval;

/// A file of what the database itself says of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct ServerReport {
    /// Its name in the run's folder.
    pub file: String,
    pub content: ReportContent,
}

#[derive(Debug, Clone, PartialEq)]
pub enum ReportContent {
    /// The text, as the database made it.
    Text(String),
    /// Figures of its tables; a text for people is made of them.
    Interval(Box<DatabaseInterval>),
}

/// One report, or the file that should have been one.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SeenReport {
    /// Its name in the run's folder.
    pub file: String,
    /// `awr`, `awrg` (several instances), `awrpdb` or `sp` (Statspack); null where it was not read.
    pub kind: Option<String>,
    pub release: Option<String>,
    /// Several instances are joined by `+`.
    pub instance: Option<String>,
    pub begin_snap: Option<String>,
    pub end_snap: Option<String>,
    /// By the database's clock, as printed.
    pub begin_time: Option<String>,
    pub end_time: Option<String>,
    /// Between the two snapshots.
    pub elapsed_s: Option<f64>,
    /// Load profile, I/O, memory and processors, by the names of docs/awr.md.
    pub figures: BTreeMap<String, ReportFigure>,
    /// The database's own statistics by name: what they grew by between the snapshots.
    pub totals: BTreeMap<String, f64>,
    /// The section that the totals stood in.
    pub totals_section: Option<String>,
    /// The top timed events, in the report's order.
    pub top_events: Vec<ReportEvent>,
    /// What the report alone lets one judge, by the rules for reports.
    pub findings: Vec<Finding>,
    /// What was odd about the file.
    pub notes: Vec<String>,
    /// Why it could not be read; null where it was.
    pub unread: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ReportFigure {
    pub value: f64,
    pub unit: String,
    /// Null where it was computed from others.
    pub as_printed: Option<String>,
    /// Where it stood, or how it was computed.
    pub section: String,
    /// One unit of the last printed digit, in units of `value`.
    pub rounded_to: f64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ReportEvent {
    pub name: String,
    pub class: Option<String>,
    pub waits: Option<f64>,
    pub time_s: Option<f64>,
    /// Time over waits, or the report's own average where that has more digits.
    pub avg_us: Option<f64>,
    pub pct_db_time: Option<f64>,
    pub section: Option<String>,
}

impl SeenReport {
    /// A file that is no report, or too little of one.
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
