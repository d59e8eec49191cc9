//! A database's own figures of the time between two of its snapshots: who it is, and by how much
//! its counters, its time model, its wait events and its host's counters grew by. Plain values.

use std::collections::BTreeMap;

/// The growth of an instance's counters between two snapshots.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct DatabaseInterval {
    pub database: String,
    pub database_id: String,
    pub instance: String,
    pub instance_number: String,
    pub host: String,
    pub release: String,
    /// `YES` or `NO`: whether it is one of a cluster.
    pub cluster: String,
    /// Start of the instance.
    pub startup: String,
    pub begin: DatabaseSnapshot,
    pub end: DatabaseSnapshot,
    pub elapsed_s: f64,
    pub statistics: BTreeMap<String, f64>,
    /// Microseconds of the time model.
    pub times_us: BTreeMap<String, f64>,
    /// Counts of the host's operating system; times are hundredths of a second.
    pub os: BTreeMap<String, f64>,
    pub events: Vec<WaitDelta>,
}

/// A snapshot by its number, and when it was taken, by the database's clock.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DatabaseSnapshot {
    pub id: String,
    pub time: String,
}

/// The waits for one event.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct WaitDelta {
    pub event: String,
    pub foreground: WaitSum,
    pub background: WaitSum,
}

#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct WaitSum {
    pub waits: f64,
    pub time_us: f64,
}
