//! petal: how much physical I/O a platform sustains through its database, at what latency, and
//! what limits it. This crate is the command line; below it are, bottom to top:
//!
//! 1. [`petal_host`]: counts of the kernel. [`petal_settings`]: the parameters. [`petal_workload`]: the choice of
//!    operations. [`petal_record`]: the files that a run leaves
//! 2. [`petal_engine`]: the contract of an engine, and a crate for each database
//! 3. [`petal_latency`]: times of single requests at block devices, of a server's calls and of threads, by BPF
//! 4. [`petal_awr`]: reports of Oracle's, as figures
//! 5. [`petal_judge`]: judges a record
//! 6. [`petal_report`]: pure functions of a record
//! 7. [`petal_run`]: loads, runs, stops, keeps. [`petal_sweep`]: sweeps and replays. Above these are the slices, a crate
//!    and a feature each: `petal-calibrate`, `petal-costs`, `petal-predict`, `petal-production`, `petal-prove`, `petal-web`
//! 8. [`cli`]: one file per command

#![cfg_attr(test, allow(clippy::disallowed_methods))]

pub mod cli;
pub mod engines;
#[cfg(test)]
mod names_tests;
