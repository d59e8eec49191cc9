//! The contract between petal and a database: [`Engine`] and [`Session`], and what engines share.
//!
//! An engine is a crate of its own and one line in petal's list of engines. It knows workload, stats
//! and settings; never another engine, never runner, record or report. It does not choose operations
//! and does not judge results: it executes what it is handed and reports what the database saw.

#![cfg_attr(test, allow(clippy::disallowed_methods))]

mod contract;
pub mod file_lock;
pub mod file_set;
pub mod in_use;
pub mod on_path;
pub mod server;
pub mod threads;
pub mod url_option;

pub use contract::*;
