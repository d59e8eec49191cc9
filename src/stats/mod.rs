//! What is counted and timed: histograms, cumulative counters and waits, per-second rows, and what
//! the operating system says. Nothing here knows an engine, a run or a report.

pub mod cgroup;
pub mod clock;
pub mod compression;
pub mod counters;
pub mod database_interval;
pub mod devices;
pub mod event_stats;
pub mod histogram;
pub mod host;
pub mod os;
pub mod target;
pub mod timeline;
mod tree;
pub mod units;
