//! The load that a replay imitates, as its record keeps it. Plain values.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::server_work::{WorkCount, WorkTime};

/// The load of another database that a run was to drive.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ReplayOf {
    pub database: String,
    /// The time of that load, such as `busiest interval from 2026-11-22T10:00:00, 1.0 hours`.
    pub time: String,
    /// Rates of the load per second: means, at a scale of 1.
    pub per_second: BTreeMap<WorkCount, f64>,
    /// Latencies of the other database at that time, in microseconds.
    pub latency_us: BTreeMap<WorkTime, f64>,
    /// Steps from the load to operations, a line each.
    pub how: Vec<String>,
    /// Parts of the load that the operations do not imitate, with their size.
    pub not_imitated: Vec<String>,
    /// Objective that decides whether the load was sustained, such as `read.avg=1ms`; null: only
    /// that operations do not queue up.
    pub objective: Option<String>,
}

impl ReplayOf {
    /// A rate per second of the load; None if unknown.
    pub fn rate(&self, figure: WorkCount) -> Option<f64> {
        self.per_second.get(&figure).copied()
    }
}
