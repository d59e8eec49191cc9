//! petal: how much physical I/O a platform sustains through its database, at what latency, and
//! what limits it. The rooms, bottom to top; each uses only those above it in this list.
//!
//! 1. [`settings`]: slob.conf, environment and flags, validated once
//! 2. [`workload`]: which operation comes next
//! 3. [`stats`]: histograms, counters, the operating system
//! 4. [`record`]: what a run leaves on disk
//! 5. [`engine`]: databases, behind two traits
//! 6. [`analysis`]: judges a record
//! 7. [`awr`]: reports of Oracle's, read into the same kinds of figures
//! 8. [`report`]: pure functions of a record
//! 9. [`runner`]: loads, runs, stops, keeps
//! 10. [`cli`]: one file per command

#![cfg_attr(test, allow(clippy::disallowed_methods))]

pub mod analysis;
pub mod awr;
pub mod cli;
pub mod engine;
pub mod record;
pub mod report;
pub mod runner;
pub mod settings;
pub mod stats;
pub mod workload;
