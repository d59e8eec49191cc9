//! The base of all crates of petal: settings, the choice of operations, counters, and the files of
//! a run. Nothing here measures, judges or prints.
//!
//! 1. [`settings`]: slob.conf, environment and flags, validated once
//! 2. [`workload`]: the choice of operations
//! 3. [`stats`]: histograms, counters, the operating system
//! 4. [`record`]: the files that a run leaves on disk
//!
//! [`files`] opens all files. [`numbers`] formats figures for every message and report.

#![cfg_attr(test, allow(clippy::disallowed_methods))]

pub mod files;
pub mod numbers;
pub mod record;
pub mod settings;
pub mod stats;
pub mod workload;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
