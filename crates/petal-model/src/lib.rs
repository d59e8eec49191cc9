//! The ground that all crates of petal stand on: what is asked for, which operation comes next, how
//! it is counted, and what a run leaves on disk. Nothing here measures, judges or prints.
//!
//! 1. [`settings`]: slob.conf, environment and flags, validated once
//! 2. [`workload`]: which operation comes next
//! 3. [`stats`]: histograms, counters, the operating system
//! 4. [`record`]: what a run leaves on disk

#![cfg_attr(test, allow(clippy::disallowed_methods))]

pub mod record;
pub mod settings;
pub mod stats;
pub mod workload;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
